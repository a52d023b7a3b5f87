//! A cache for several processes, in memory that they share ([E] §5.2, [S] §4).
//!
//! Names, entries with their versions and descriptors, and the order of eviction are in shared
//! words. A process keeps for itself only the entries that it has unpacked, with their versions: a
//! hit is a lookup under the lock and a comparison of versions.
//!
//! Other processes wait while a lock is held. Under a lock, therefore, bytes are copied, words
//! changed and uses counted; memory is allocated, and the system called, before or after.
mod heap;
mod layout;
mod locks;
mod put;
mod table;
mod unpacked;

use crate::options::choice;
use foldhash::fast::FixedState;
use layout::{CHANGES, CLEARED, MemoryLayout, RING_WORDS};
use locks::Died;
use regatta_metrics::{Counter, Tally};
use regatta_op::{OpenFault, Tick};
use regatta_origin::{CODINGS, Cache, CachingRules, Entry, Lookup, Rank, Representation};
use regatta_sys::{
    Bell, StaticFile,
    crew::{Grip, Lease, Member, NUMBERS_MAX, assert_unlocked},
    hook::{Held, die_locked},
};
use std::{
    cell::{Cell, RefCell},
    fmt,
    hash::BuildHasher,
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed},
        },
    },
};
use table::chain_parts;
use unpacked::{Unpacked, UnpackedEntries};

choice! {
    /// Locks that guard the cache (`shared.lock`).
    pub enum Locking {
        /// A single lock for everything ([E] §5.2).
        Global = "global",
        /// A readers-writer lock for all names, and one lock for each entry ([S] §4).
        TwoTier = "two-tier",
    }
}

/// The memory of a shared cache and the rules of its use: the same for all its processes.
#[derive(Clone, Copy)]
pub struct CacheRegion {
    layout: MemoryLayout,
    locking: Locking,
    /// The most bytes that the unpacked entries of one process take.
    unpacked_bytes_max: usize,
    seed: u64,
}

impl fmt::Debug for CacheRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheRegion").field("locking", &self.locking).finish_non_exhaustive()
    }
}

impl CacheRegion {
    /// Words that a cache within `rules` takes.
    #[must_use]
    pub fn count_words(rules: &CachingRules) -> usize {
        MemoryLayout::count_words(rules)
    }

    /// An empty cache in words that are all 0. The entries that all `workers` unpack take together
    /// at most as many bytes as the cache itself may.
    ///
    /// # Panics
    /// If there are fewer words than [`CacheRegion::count_words`].
    #[must_use]
    pub fn new(
        words: &'static [AtomicU64],
        rules: &CachingRules,
        locking: Locking,
        workers: usize,
        seed: u64,
    ) -> Self {
        let unpacked_bytes_max = rules.bytes_max / workers.max(1);
        Self { layout: MemoryLayout::new(words, rules), locking, unpacked_bytes_max, seed }
    }
}

/// A cache that this process shares with others.
pub struct SharedCache<'a> {
    region: CacheRegion,
    rules: CachingRules,
    hasher: FixedState,
    member: &'static Member,
    unpacked: RefCell<UnpackedEntries>,
    /// Changes of the cache that this process has followed.
    followed: Cell<u64>,
    /// Rung when the other processes are to drop unpacked entries that have changed.
    bells: &'a [Bell],
    /// Files that were given up since the bells were rung.
    retired: Cell<u64>,
    /// Files given up under the lock that is held, to be closed after it if they are unused.
    given_up: RefCell<Vec<u32>>,
    /// All files were given up.
    emptied: Cell<bool>,
    /// The buffer in which contents are packed, and to which they are copied.
    room: RefCell<Vec<u8>>,
    /// The buffer to which a cached content is copied, to be compared with a new one.
    known_room: RefCell<Vec<u8>>,
}

/// Kinds of entries, above the two bits of the rank.
const FILE: u64 = 0 << 2;
const DIRECTORY: u64 = 1 << 2;
const MISSING: u64 = 2 << 2;
/// The bits of the kind.
const KIND: u64 = 3 << 2;

/// Approximate size of the heads of a content coding, bytes.
const HEADS_BYTES: usize = 2048;
/// The most memory that is allocated before a content needs it, bytes.
const ROOM_BYTES_MAX: usize = 1 << 20;

impl<'a> SharedCache<'a> {
    /// This process's side of the cache in `region`.
    #[must_use]
    pub fn new(
        region: CacheRegion,
        rules: &CachingRules,
        member: &'static Member,
        bells: &'a [Bell],
    ) -> Self {
        let followed = region.layout.header[CHANGES].load(Acquire);
        Self {
            region,
            rules: rules.clone(),
            hasher: FixedState::with_seed(region.seed),
            member,
            unpacked: RefCell::new(UnpackedEntries::new(region.unpacked_bytes_max)),
            followed: Cell::new(followed),
            bells,
            retired: Cell::new(0),
            given_up: RefCell::new(Vec::with_capacity(given_up_max(rules))),
            emptied: Cell::new(false),
            room: RefCell::new(Vec::with_capacity(room(rules))),
            known_room: RefCell::new(Vec::with_capacity(room(rules))),
        }
    }

    /// This process, as one of those that share.
    #[must_use]
    pub const fn member(&self) -> &'static Member {
        self.member
    }

    /// Files and directories remembered, by all processes together.
    #[must_use]
    pub fn entries(&self) -> u64 {
        let len = |rank| self.layout().shelf(rank).len().load(Relaxed);
        len(Rank::Held) + len(Rank::Open)
    }

    /// Drops unpacked entries that have changed. To be called now and then: an idle process would
    /// otherwise keep files open that the cache has given up.
    pub fn follow(&self, tally: &Tally<'_>) {
        let layout = self.layout();
        let changes = layout.header[CHANGES].load(Acquire);
        let followed = self.followed.replace(changes);
        if changes == followed {
            return;
        }
        let mut unpacked = self.unpacked.borrow_mut();
        if changes - followed < RING_WORDS as u64 {
            let known = (followed..changes).all(|number| {
                let cell = layout.ring[place_of(number) % RING_WORDS].load(Acquire);
                let (tag, at) = chain_parts(cell);
                // Another process may be about to write to this cell.
                let right = tag as u64 == number & u64::from(u32::MAX);
                if right {
                    unpacked.follow(at, layout, tally);
                }
                right
            });
            if known {
                return;
            }
        }
        unpacked.follow_all(layout, tally);
    }

    #[inline]
    fn layout(&self) -> &MemoryLayout {
        &self.region.layout
    }

    /// The unpacked entry of a file; `None` if the entry is no file any more. Releases the table's
    /// lock.
    #[inline]
    fn file(
        &self,
        grip: Grip<'_>,
        at: u64,
        version: u64,
        tally: &Tally<'_>,
    ) -> Result<Option<Unpacked>, Died> {
        let unpacked = self.unpacked.borrow();
        if let Some(file) = unpacked.get(at, version) {
            drop(grip);
            return Ok(Some(Arc::clone(file)));
        }
        drop(unpacked);
        self.unpack(grip, at, tally)
    }

    #[cold]
    fn unpack(&self, grip: Grip<'_>, at: u64, tally: &Tally<'_>) -> Result<Option<Unpacked>, Died> {
        let mut bytes = self.room.borrow_mut();
        let mut leases = [const { None }; CODINGS];
        let copied = self.copy(at, &mut bytes, &mut leases, tally);
        drop(grip);
        let Some(version) = copied? else { return Ok(None) };
        assert_unlocked();
        let file =
            Representation::unpack(&bytes, |coding, id| Some(leases[coding].take()?.file(id)));
        let Some(file) = file.map(Arc::new) else { return Ok(None) };
        tally.add(Counter::CacheUnpacked, 1);
        self.unpacked.borrow_mut().keep(at, version, &file, tally);
        Ok(Some(file))
    }

    /// Copies the content of a file's entry, counts uses of its files, and returns its version;
    /// `None` if it is no file. Under the table's lock.
    fn copy(
        &self,
        at: u64,
        bytes: &mut Vec<u8>,
        leases: &mut [Option<Lease>; CODINGS],
        tally: &Tally<'_>,
    ) -> Result<Option<u64>, Died> {
        let node = self.layout().node(at);
        let _grip = self.entry_lock(node, tally)?;
        die_locked(Held::Entry);
        // Its lock was free, so the entry is whole. It may have changed since it was found.
        let version = node.version().load(Acquire);
        if node.kind().load(Relaxed) & KIND != FILE || version == 0 {
            return Ok(None);
        }
        let (len, block) = chain_parts(node.content().load(Relaxed));
        self.layout().load(block, len, bytes);
        for (lease, file) in leases.iter_mut().zip(node.files()) {
            let number = file.load(Relaxed).checked_sub(1).map(u32::try_from);
            *lease = number.and_then(|number| self.member.lease(number.ok()?));
        }
        Ok(Some(version))
    }

    /// An entry is stale: true if this caller is to revalidate it, false if another does already.
    #[cold]
    fn mark_stale(&self, at: u64, checked: u64, now: Tick) -> bool {
        let [_, stale_since] = self.layout().ages(at);
        let first = stale_since.compare_exchange(Tick::NEVER.0, now.0, Relaxed, Relaxed);
        let stale_since = first.map_or_else(Tick, |_| now);
        if self.rules.all_revalidate(stale_since, now) {
            return true;
        }
        let checked_at = self.layout().node(at).checked_at();
        checked_at.compare_exchange(checked, now.0, Relaxed, Relaxed).is_ok()
    }

    #[inline]
    fn look_up(
        &self,
        path: &[u8],
        now: Tick,
        tally: &Tally<'_>,
    ) -> Result<Lookup<StaticFile>, Died> {
        let hash = self.hasher.hash_one(path);
        let grip = self.table_lock(tally);
        if grip.died {
            self.clear_up(tally);
            drop(grip);
            self.settle(tally);
            return Ok(Lookup::Miss);
        }
        let Some(at) = self.layout().find(hash, path) else { return Ok(Lookup::Miss) };
        let node = self.layout().node(at);
        node.used().visit(now, self.rules.sweep_ms());
        let checked = node.checked_at().load(Relaxed);
        let age = now.since(Tick(checked));
        let (kind, version) = (node.kind().load(Relaxed), node.version().load(Acquire));
        if kind & KIND == MISSING {
            drop(grip);
            if age >= self.rules.negative_ms {
                self.remove_if(hash, path, |known| known.checked_at == checked, tally);
                return Ok(Lookup::Miss);
            }
            tally.add(Counter::CacheNegativeHits, 1);
            tally.add(Counter::CacheHits, 1);
            return Ok(Lookup::Fresh(Entry::Missing(fault(kind))));
        }
        let stale = age >= self.rules.revalidate_ms && self.mark_stale(at, checked, now);
        let entry = if kind & KIND == DIRECTORY {
            drop(grip);
            Entry::Directory
        } else {
            let Some(file) = self.file(grip, at, version, tally)? else {
                return Ok(Lookup::Miss);
            };
            Entry::File(file)
        };
        if stale {
            tally.add(Counter::CacheRevalidations, 1);
            return Ok(Lookup::Stale(entry));
        }
        tally.add(Counter::CacheHits, 1);
        Ok(Lookup::Fresh(entry))
    }
}

impl Cache<StaticFile> for SharedCache<'_> {
    #[inline]
    fn get(&self, path: &[u8], now: Tick, tally: &Tally<'_>) -> Lookup<StaticFile> {
        tally.add(Counter::CacheLookups, 1);
        self.look_up(path, now, tally).unwrap_or_else(|Died| {
            self.repair(tally);
            Lookup::Miss
        })
    }

    fn put(&self, path: &[u8], entry: &Entry<StaticFile>, opened: Tick, tally: &Tally<'_>) {
        if let Err(Died) = self.remember(path, entry, Some(opened), tally) {
            self.repair(tally);
        }
    }

    fn fill(&self, path: &[u8], file: &Arc<Representation<StaticFile>>, tally: &Tally<'_>) {
        if let Err(Died) = self.remember(path, &Entry::File(Arc::clone(file)), None, tally) {
            self.repair(tally);
        }
    }

    fn relieve(&self, tally: &Tally<'_>) -> bool {
        self.spare(tally);
        false
    }

    fn sweep(&self, now: Tick, tally: &Tally<'_>) -> Option<Tick> {
        self.sweep_on(now, tally)
    }

    fn remove(&self, path: &[u8], tally: &Tally<'_>) {
        self.remove_if(self.hasher.hash_one(path), path, |_| true, tally);
    }

    /// Each process calls this when it has taken the new root, which also removes the entries that
    /// it has put in until then.
    fn clear(&self, now: Tick, tally: &Tally<'_>) {
        self.exclusively(tally, |empty| {
            self.layout().header[CLEARED].fetch_max(now.after(1).0, Relaxed);
            if !empty {
                self.empty(tally);
            }
        });
    }

    fn is_shared(&self) -> bool {
        true
    }
}

impl fmt::Debug for SharedCache<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCache")
            .field("region", &self.region)
            .field("entries", &self.entries())
            .finish_non_exhaustive()
    }
}

/// Room for the longest usual content, bytes: it is allocated while no lock is held.
fn room(rules: &CachingRules) -> usize {
    let body = usize::try_from(rules.body_bytes_max).unwrap_or(ROOM_BYTES_MAX);
    (CODINGS * (HEADS_BYTES + body.min(ROOM_BYTES_MAX))).min(ROOM_BYTES_MAX)
}

/// The most files that are given up under one lock: all that are held, and those of two new
/// entries.
fn given_up_max(rules: &CachingRules) -> usize {
    rules.descriptors_max.min(NUMBERS_MAX) + 2 * CODINGS
}

/// The number of an entry as an index.
fn place_of(at: u64) -> usize {
    usize::try_from(at).expect("64-bit Linux")
}

/// A fault as bits of a kind, above the rank and the kind.
fn fault_bits(fault: OpenFault) -> u64 {
    let (code, errno) = fault.code();
    u64::from(code) << 4 | u64::from(errno.cast_unsigned()) << 32
}

/// Fault that [`fault_bits`] packed.
fn fault(kind: u64) -> OpenFault {
    let [low, _, _, _, errno @ ..] = kind.to_le_bytes();
    OpenFault::from_code(low >> 4 & 7, i32::from_le_bytes(errno))
}

#[cfg(test)]
mod schedule;
#[cfg(test)]
pub(super) mod tests;
