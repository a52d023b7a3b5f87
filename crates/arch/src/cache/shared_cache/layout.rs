//! The layout of the shared words: numbers and offsets, no pointers.
//!
//! The keeper maps [`MemoryLayout::count_words`] words before it forks workers
//! ([`crate::shared`]). Each worker then sees the same parts. Methods that use a part are with its
//! topic: entries and queues in [`table`](super::table), blocks in [`heap`](super::heap), locks in
//! [`locks`](super::locks). Constants without a unit are indices of words in the header.
use regatta_origin::CachingRules;
use std::sync::atomic::AtomicU64;

/// The lock of the table: the only one, or that of all readers and one writer.
pub(super) const TABLE_LOCK: usize = 0;
/// The lock of the heap, on a pair of cache lines of its own.
pub(super) const HEAP_LOCK: usize = 16;
/// The version that was given last.
pub(super) const VERSION: usize = 32;
/// Number of changes of entries so far.
pub(super) const CHANGES: usize = 33;
/// Bytes and descriptors of all entries.
pub(super) const BYTES: usize = 48;
pub(super) const DESCRIPTORS: usize = 49;
/// First free entry that was used before: the head of a list.
pub(super) const FREE_ENTRY: usize = 50;
/// Number of entries that have ever been used.
pub(super) const FRESH_ENTRY: usize = 51;
/// The same two for blocks.
pub(super) const FREE_BLOCK: usize = 52;
pub(super) const FRESH_BLOCK: usize = 53;
/// Entries of files that were opened before this tick are not accepted any more.
pub(super) const CLEARED: usize = 54;
/// Time at which the sweep resumes, and the entry after which it does.
pub(super) const SWEEP_ON: usize = 56;
pub(super) const SWEEP_AT: usize = 57;
/// Entries that are being changed under their own locks.
pub(super) const UPDATING: usize = 55;
/// 1: a process died with the lock of an entry or of the heap, which is poisoned.
pub(super) const POISONED: usize = 58;
/// Three queues of four words, one queue for each rank of entries ([`Shelf`](super::table::Shelf)).
pub(super) const SHELVES: usize = 64;
const HEADER_WORDS: usize = 80;

/// Words of the ring: the entries that changed last, which each process reads to drop old copies.
pub(super) const RING_WORDS: usize = 1024;

/// A pair of cache lines, which processors fetch together.
pub(super) const PAIR_WORDS: usize = 16;

/// Words of an entry: a pair of cache lines; a hit reads only the first.
pub(super) const ENTRY_WORDS: usize = PAIR_WORDS;
/// Words of an entry that are read only when its file is opened again.
pub(super) const AGE_WORDS: usize = 2;
/// Size of an entry, bytes.
pub(super) const ENTRY_BYTES: usize = (ENTRY_WORDS + AGE_WORDS) * size_of::<u64>();
pub(super) const BLOCK_BYTES: usize = 512;
pub(super) const BLOCK_WORDS: usize = BLOCK_BYTES / 8;

/// Blocks that an entry takes beyond the bytes that it is counted for: its name's and its content's
/// last blocks are not full.
const SPARE_BLOCKS: usize = 2;

/// The shared words of a cache, by use. If the first begins a pair of cache lines, so do the lock,
/// each entry and each block.
#[derive(Clone, Copy)]
pub(super) struct MemoryLayout {
    pub(super) header: &'static [AtomicU64],
    pub(super) ring: &'static [AtomicU64],
    pub(super) buckets: &'static [AtomicU64],
    pub(super) entries: &'static [AtomicU64],
    pub(super) blocks: &'static [AtomicU64],
    pub(super) links: &'static [AtomicU64],
    pub(super) ages: &'static [AtomicU64],
}

/// Sizes that follow from the rules.
struct Sizes {
    buckets: usize,
    entries: usize,
    blocks: usize,
}

impl Sizes {
    fn from_rules(rules: &CachingRules) -> Self {
        // One more: an entry is added before another is evicted.
        let entries = rules.entries_max + rules.negatives_max + 1;
        let blocks = rules.bytes_max / BLOCK_BYTES + SPARE_BLOCKS * entries;
        Self { buckets: entries.next_power_of_two().max(PAIR_WORDS), entries, blocks }
    }
}

impl MemoryLayout {
    /// Words that a cache within `rules` takes.
    pub(super) fn count_words(rules: &CachingRules) -> usize {
        let Sizes { buckets, entries, blocks } = Sizes::from_rules(rules);
        let each = entries * (ENTRY_WORDS + AGE_WORDS);
        HEADER_WORDS + RING_WORDS + buckets + each + blocks * (1 + BLOCK_WORDS)
    }

    pub(super) fn new(words: &'static [AtomicU64], rules: &CachingRules) -> Self {
        let sizes = Sizes::from_rules(rules);
        let (header, rest) = words.split_at(HEADER_WORDS);
        let (ring, rest) = rest.split_at(RING_WORDS);
        let (buckets, rest) = rest.split_at(sizes.buckets);
        let (entries, rest) = rest.split_at(sizes.entries * ENTRY_WORDS);
        let (blocks, rest) = rest.split_at(sizes.blocks * BLOCK_WORDS);
        let (links, rest) = rest.split_at(sizes.blocks);
        let ages = &rest[..sizes.entries * AGE_WORDS];
        Self { header, ring, buckets, entries, blocks, links, ages }
    }
}
