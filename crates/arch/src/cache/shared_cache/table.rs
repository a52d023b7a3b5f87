//! Names to entries, and the queues of eviction: chained buckets and SIEVE, over numbers in shared
//! memory.
//!
//! *Exclusively* means: under the table's lock for writing, as in `SharedCache::exclusively`.
//! Callers are lookups in the parent module, and changes in [`put`](super::put).
use super::layout::{
    AGE_WORDS, BYTES, CHANGES, DESCRIPTORS, ENTRY_WORDS, FREE_ENTRY, FRESH_ENTRY, MemoryLayout,
    RING_WORDS, SHELVES, SWEEP_AT, SWEEP_ON, VERSION,
};
use regatta_op::Tick;
use regatta_origin::{CODINGS, CacheTotals, EntryCost, Queue, Rank, Sweep, Use, sieve::QueueLink};
use regatta_sys::crew;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// No entry; entries count from 1.
pub(super) const NONE: u64 = 0;

/// The age of an entry, ticks.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) opened: u64,
    pub(super) checked_at: u64,
    pub(super) stale_since: u64,
}

impl Times {
    /// The age of an entry that was opened then.
    pub(super) const fn since(opened: Tick) -> Self {
        Self { opened: opened.0, checked_at: opened.0, stale_since: Tick::NEVER.0 }
    }
}

/// Words of an entry. Version 0: free, or in the middle of a change. A hit reads only the first 8.
#[derive(Clone, Copy)]
pub(super) struct Node(&'static [AtomicU64]);

impl Node {
    pub(super) fn version(self) -> &'static AtomicU64 {
        &self.0[0]
    }
    pub(super) fn hash(self) -> &'static AtomicU64 {
        &self.0[1]
    }
    fn chain(self) -> &'static AtomicU64 {
        &self.0[2]
    }
    /// The tick when its file was opened, or a process was last told to revalidate it.
    pub(super) fn checked_at(self) -> &'static AtomicU64 {
        &self.0[3]
    }
    /// Time at which it was asked for last, approximately.
    pub(super) fn used(self) -> Use<'static> {
        Use(&self.0[4])
    }
    /// Queue and kind.
    pub(super) fn kind(self) -> &'static AtomicU64 {
        &self.0[5]
    }
    /// Length and first block of its name: fixed as long as it is in the table.
    pub(super) fn name(self) -> &'static AtomicU64 {
        &self.0[6]
    }
    /// Length and first block of its content.
    pub(super) fn content(self) -> &'static AtomicU64 {
        &self.0[7]
    }
    pub(super) fn lock(self) -> &'static AtomicU64 {
        &self.0[8]
    }
    fn newer(self) -> &'static AtomicU64 {
        &self.0[9]
    }
    fn older(self) -> &'static AtomicU64 {
        &self.0[10]
    }
    /// Bytes that it is counted for.
    pub(super) fn bytes(self) -> &'static AtomicU64 {
        &self.0[11]
    }
    /// Numbers of open files plus one, by coding; 0 is none.
    pub(super) fn files(self) -> &'static [AtomicU64] {
        &self.0[12..12 + CODINGS]
    }

    /// Cost of the entry: bytes and descriptors.
    pub(super) fn cost(self) -> EntryCost {
        let descriptors = self.files().iter().filter(|file| file.load(Relaxed) != 0).count();
        let bytes = usize::try_from(self.bytes().load(Relaxed)).expect("64-bit Linux");
        EntryCost { rank: self.rank(), bytes, descriptors }
    }

    pub(super) fn rank(self) -> Rank {
        Rank::ALL[usize::try_from(self.kind().load(Relaxed) & 3).unwrap_or(0).min(2)]
    }
}

/// Eviction queue of the entries of one rank. Use it exclusively; only its length may be read
/// without a lock.
pub(super) struct Shelf<'l> {
    layout: &'l MemoryLayout,
    /// Newest, oldest, hand, length.
    words: &'static [AtomicU64],
}

impl Shelf<'_> {
    pub(super) fn len(&self) -> &'static AtomicU64 {
        &self.words[3]
    }

    fn word(&self, link: QueueLink<u64>) -> &'static AtomicU64 {
        match link {
            QueueLink::Newest => &self.words[0],
            QueueLink::Oldest => &self.words[1],
            QueueLink::Hand => &self.words[2],
            QueueLink::Newer(at) => self.layout.node(at).newer(),
            QueueLink::Older(at) => self.layout.node(at).older(),
        }
    }
}

impl Queue for Shelf<'_> {
    type At = u64;
    const NONE: u64 = NONE;

    fn link(&self, link: QueueLink<u64>) -> u64 {
        self.word(link).load(Relaxed)
    }

    fn set_link(&mut self, link: QueueLink<u64>, to: u64) {
        self.word(link).store(to, Relaxed);
    }

    fn unmark(&mut self, at: u64) -> bool {
        self.layout.node(at).used().unmark()
    }
}

/// Packs a length and the first block of a chain into a word.
pub(super) fn chain_word(len: usize, block: u64) -> u64 {
    (len as u64) << 32 | block
}

/// Parts that [`chain_word`] packed.
pub(super) fn chain_parts(word: u64) -> (usize, u64) {
    (usize::try_from(word >> 32).unwrap_or(0), word & u64::from(u32::MAX))
}

impl MemoryLayout {
    pub(super) fn node(&self, at: u64) -> Node {
        let at = usize::try_from(at - 1).expect("64-bit Linux");
        Node(&self.entries[at * ENTRY_WORDS..][..ENTRY_WORDS])
    }

    pub(super) fn shelf(&self, rank: Rank) -> Shelf<'_> {
        Shelf { layout: self, words: &self.header[SHELVES + 4 * rank as usize..][..4] }
    }

    /// The sweep, which all processes share.
    pub(super) fn sweep(&self) -> Sweep<'_> {
        Sweep { on: &self.header[SWEEP_ON], at: &self.header[SWEEP_AT] }
    }

    /// Times at which an entry's file was opened, and at which a process was first told to
    /// revalidate it, if none has done so since.
    pub(super) fn ages(&self, at: u64) -> [&'static AtomicU64; AGE_WORDS] {
        let at = usize::try_from(at - 1).expect("64-bit Linux") * AGE_WORDS;
        [&self.ages[at], &self.ages[at + 1]]
    }

    pub(super) fn times(&self, at: u64) -> Times {
        let [opened, stale_since] = self.ages(at).map(|time| time.load(Relaxed));
        Times { opened, checked_at: self.node(at).checked_at().load(Relaxed), stale_since }
    }

    pub(super) fn set_times(&self, at: u64, times: Times) {
        let [opened, stale_since] = self.ages(at);
        opened.store(times.opened, Relaxed);
        self.node(at).checked_at().store(times.checked_at, Relaxed);
        stale_since.store(times.stale_since, Relaxed);
    }

    fn bucket(&self, hash: u64) -> &'static AtomicU64 {
        let mask = self.buckets.len() as u64 - 1;
        &self.buckets[usize::try_from(hash & mask).expect("64-bit Linux")]
    }

    /// The entry of a name. Under the table's lock, of either kind.
    #[inline]
    pub(super) fn find(&self, hash: u64, path: &[u8]) -> Option<u64> {
        let mut at = self.bucket(hash).load(Acquire);
        while at != NONE {
            let node = self.node(at);
            if node.hash().load(Relaxed) == hash {
                let (len, block) = chain_parts(node.name().load(Relaxed));
                if len == path.len() && self.holds(block, path) {
                    return Some(at);
                }
            }
            at = node.chain().load(Relaxed);
        }
        None
    }

    /// Notes that an entry has changed, and gives it a new version.
    pub(super) fn change(&self, at: u64, version: u64) {
        self.node(at).version().store(version, Release);
        let number = self.header[CHANGES].fetch_add(1, Relaxed);
        let cell = &self.ring[usize::try_from(number).unwrap_or(0) % RING_WORDS];
        cell.store((number & u64::from(u32::MAX)) << 32 | at, Release);
    }

    pub(super) fn new_version(&self) -> u64 {
        self.header[VERSION].fetch_add(1, Relaxed) + 1
    }

    /// Takes a free entry. Exclusively.
    pub(super) fn take_entry(&self) -> Option<u64> {
        let free = &self.header[FREE_ENTRY];
        let at = free.load(Relaxed);
        if at != NONE {
            free.store(self.node(at).older().load(Relaxed), Relaxed);
            return Some(at);
        }
        let fresh = self.header[FRESH_ENTRY].load(Relaxed);
        if fresh >= (self.entries.len() / ENTRY_WORDS) as u64 {
            return None;
        }
        self.header[FRESH_ENTRY].store(fresh + 1, Relaxed);
        Some(fresh + 1)
    }

    /// Puts a filled entry into its bucket and at the new end of its queue. Exclusively.
    pub(super) fn enqueue(&self, at: u64) {
        let node = self.node(at);
        let bucket = self.bucket(node.hash().load(Relaxed));
        node.chain().store(bucket.load(Relaxed), Relaxed);
        bucket.store(at, Release);
        let mut shelf = self.shelf(node.rank());
        shelf.push(at);
        shelf.len().fetch_add(1, Relaxed);
    }

    /// Takes an entry out of its bucket and its queue, and frees it. Exclusively.
    pub(super) fn dequeue(&self, at: u64) {
        let node = self.node(at);
        let mut link = self.bucket(node.hash().load(Relaxed));
        while link.load(Relaxed) != at {
            assert!(link.load(Relaxed) != NONE, "an entry is in its bucket");
            link = self.node(link.load(Relaxed)).chain();
        }
        link.store(node.chain().load(Relaxed), Relaxed);
        let mut shelf = self.shelf(node.rank());
        shelf.unlink(at);
        shelf.len().fetch_sub(1, Relaxed);
        node.older().store(self.header[FREE_ENTRY].load(Relaxed), Relaxed);
        self.header[FREE_ENTRY].store(at, Relaxed);
    }

    /// Totals of all entries: their numbers, bytes and descriptors.
    pub(super) fn totals(&self) -> CacheTotals {
        let number = |word: &AtomicU64| usize::try_from(word.load(Relaxed)).unwrap_or(usize::MAX);
        CacheTotals {
            entries: Rank::ALL.map(|rank| number(self.shelf(rank).len())),
            bytes: number(&self.header[BYTES]),
            descriptors: number(&self.header[DESCRIPTORS]),
        }
    }

    /// Removes all entries. Exclusively.
    pub(super) fn clear(&self) {
        for bucket in self.buckets {
            // Write only to pages that were used.
            if bucket.load(Relaxed) != NONE {
                bucket.store(NONE, Relaxed);
            }
        }
        for at in 1..=self.header[FRESH_ENTRY].load(Relaxed) {
            let node = self.node(at);
            node.version().store(0, Relaxed);
            crew::reset(node.lock());
        }
        for word in &self.header[SHELVES..SHELVES + 12] {
            word.store(0, Relaxed);
        }
        for at in [BYTES, DESCRIPTORS, FREE_ENTRY, FRESH_ENTRY] {
            self.header[at].store(0, Relaxed);
        }
        self.free_all();
        // More changes than the ring holds: every process checks all entries.
        self.header[CHANGES].fetch_add(2 * RING_WORDS as u64, Release);
    }
}
