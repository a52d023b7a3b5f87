//! One cache for several processes, in memory that they share ([E] §5.2, [S] §4).
//!
//! What is known, by which name, in which version, under which descriptors, and what goes out next
//! is in shared words. A process keeps for itself only what it has unpacked of an entry, with the
//! version that it was: a hit is a lookup under the lock and a comparison.
mod heap;
mod layout;
mod put;
mod table;

use foldhash::fast::FixedState;
use layout::{
    BYTES, CHANGES, DESCRIPTORS, HEAP_LOCK, Layout, REPAIRS, RING_WORDS, TABLE_LOCK, UPDATING,
};
use regatta_metrics::{Counter, Tally};
use regatta_op::{OpenFault, Tick};
use regatta_origin::{Cache, CachingRules, Entry, Lookup, Representation, STALE_PERIODS_MAX};
use regatta_sys::{
    Bell, StaticFile,
    crew::{Grip, Member},
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
use table::{Node, Rank, chain_parts};

/// How the cache is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// One lock for everything ([E] §5.2).
    Global,
    /// A lock of readers and one writer for names, and a lock per entry for what is known of it
    /// ([S] §4).
    TwoTier,
}

/// Where a shared cache is, and how it is used: the same for all its processes.
#[derive(Clone, Copy)]
pub struct Place {
    layout: Layout,
    locking: Locking,
    seed: u64,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("locking", &self.locking).finish_non_exhaustive()
    }
}

impl Place {
    /// Words that a cache within `rules` takes.
    #[must_use]
    pub fn words(rules: &CachingRules) -> usize {
        Layout::words(rules)
    }

    /// An empty cache in words that are all 0.
    ///
    /// # Panics
    /// If there are fewer than [`Place::words`].
    #[must_use]
    pub fn new(
        words: &'static [AtomicU64],
        rules: &CachingRules,
        locking: Locking,
        seed: u64,
    ) -> Self {
        Self { layout: Layout::new(words, rules), locking, seed }
    }
}

/// What this process has unpacked of an entry, and which version of it that was.
type Unpacked = Option<(u64, Arc<Representation<StaticFile>>)>;

/// A cache that this process shares with others.
pub struct SharedCache<'a> {
    place: Place,
    rules: CachingRules,
    hasher: FixedState,
    member: &'static Member,
    /// By entry.
    unpacked: RefCell<Vec<Unpacked>>,
    /// Changes that have been followed.
    followed: Cell<u64>,
    /// Rung when other processes should let go of what they have unpacked.
    bells: &'a [Bell],
    /// Files given up since.
    retired: Cell<u64>,
    /// Where names and contents are put together.
    room: RefCell<Vec<u8>>,
}

/// Kinds of entries, above the two bits of the rank.
const FILE: u64 = 0 << 2;
const DIRECTORY: u64 = 1 << 2;
const MISSING: u64 = 2 << 2;
/// Where they stand.
const KIND: u64 = 3 << 2;

impl<'a> SharedCache<'a> {
    /// This process's side of the cache at `place`.
    #[must_use]
    pub fn new(
        place: Place,
        rules: &CachingRules,
        member: &'static Member,
        bells: &'a [Bell],
    ) -> Self {
        let followed = place.layout.header[CHANGES].load(Acquire);
        Self {
            place,
            rules: rules.clone(),
            hasher: FixedState::with_seed(place.seed),
            member,
            unpacked: RefCell::default(),
            followed: Cell::new(followed),
            bells,
            retired: Cell::new(0),
            room: RefCell::default(),
        }
    }

    /// This process among those that share.
    #[must_use]
    pub const fn member(&self) -> &'static Member {
        self.member
    }

    /// How often the cache has been emptied because a process died in the middle of a change.
    #[must_use]
    pub fn repairs(&self) -> u64 {
        self.layout().header[REPAIRS].load(Relaxed)
    }

    /// Files and directories remembered, by all processes together.
    #[must_use]
    pub fn entries(&self) -> u64 {
        let len = |rank| self.layout().shelf(rank).len.load(Relaxed);
        len(Rank::Held) + len(Rank::Open)
    }

    /// Lets go of what was unpacked of entries that have changed. To be called now and then: an
    /// idle process would otherwise keep files open that nobody wants.
    pub fn follow(&self) {
        let changes = self.layout().header[CHANGES].load(Acquire);
        let followed = self.followed.replace(changes);
        if changes == followed {
            return;
        }
        let mut unpacked = self.unpacked.borrow_mut();
        if changes - followed < RING_WORDS as u64 {
            let known = (followed..changes).all(|number| {
                let cell = self.layout().ring[place_of(number) % RING_WORDS].load(Acquire);
                let (tag, at) = chain_parts(cell);
                // Somebody may be about to write to this cell.
                let right = tag as u64 == number & u64::from(u32::MAX);
                if right && let Some(place) = unpacked.get_mut(place_of(at)) {
                    self.drop_if_old(at, place);
                }
                right
            });
            if known {
                return;
            }
        }
        for (place, at) in unpacked.iter_mut().zip(0..) {
            self.drop_if_old(at, place);
        }
    }

    fn drop_if_old(&self, at: u64, place: &mut Unpacked) {
        if let Some((version, _)) = place
            && self.layout().node(at).version().load(Acquire) != *version
        {
            *place = None;
        }
    }

    #[inline]
    fn layout(&self) -> &Layout {
        &self.place.layout
    }

    /// The table's lock, to look a name up.
    #[inline]
    fn look(&self, tally: &Tally<'_>) -> Grip<'_> {
        let word = &self.layout().header[TABLE_LOCK];
        count(
            tally,
            match self.place.locking {
                Locking::Global => self.member.lock(word),
                Locking::TwoTier => self.member.read(word),
            },
        )
    }

    /// The table's lock, alone. What a dead process left behind has been cleared up.
    fn alone(&self, tally: &Tally<'_>) -> Grip<'_> {
        let word = &self.layout().header[TABLE_LOCK];
        let grip = count(
            tally,
            match self.place.locking {
                Locking::Global => self.member.lock(word),
                Locking::TwoTier => self.member.write(word),
            },
        );
        // Nobody who lives changes an entry now.
        if grip.died || self.layout().header[UPDATING].load(Relaxed) > 0 {
            self.clear(tally);
        }
        grip
    }

    /// Empties the cache: somebody died in the middle of a change, or of one that is guarded by
    /// another lock than the table's, which only this one may then reset. Alone.
    fn clear(&self, tally: &Tally<'_>) {
        let layout = self.layout();
        let entries: u64 =
            Rank::ALL.into_iter().map(|rank| layout.shelf(rank).len.load(Relaxed)).sum();
        tally.add(Counter::CacheEntriesRemoved, entries);
        tally.add(Counter::CacheBytesRemoved, layout.header[BYTES].load(Relaxed));
        tally.add(Counter::CacheFdsRemoved, layout.header[DESCRIPTORS].load(Relaxed));
        layout.header[REPAIRS].fetch_add(1, Relaxed);
        layout.clear();
        layout.header[HEAP_LOCK].store(0, Relaxed);
        layout.header[UPDATING].store(0, Relaxed);
        self.member.retire_all();
    }

    /// [`SharedCache::clear`], for who found an entry's or the heap's lock in a dead hand. Under
    /// no lock of the table.
    #[cold]
    fn repair(&self, tally: &Tally<'_>) {
        let grip = self.alone(tally);
        if !grip.died {
            self.clear(tally);
        }
    }

    /// The lock of an entry, where there are such; `None` if its holder died.
    #[inline]
    fn entry_lock(&self, node: Node, tally: &Tally<'_>) -> Result<Option<Grip<'_>>, Died> {
        self.inner_lock(node.lock(), tally)
    }

    fn heap_lock(&self, tally: &Tally<'_>) -> Result<Option<Grip<'_>>, Died> {
        self.inner_lock(&self.layout().header[HEAP_LOCK], tally)
    }

    #[inline]
    fn inner_lock<'g>(
        &'g self,
        word: &'g AtomicU64,
        tally: &Tally<'_>,
    ) -> Result<Option<Grip<'g>>, Died> {
        if self.place.locking == Locking::Global {
            return Ok(None);
        }
        let grip = count(tally, self.member.lock(word));
        if grip.died {
            // It stays taken until everything is cleared, whoever does that in the end.
            grip.leave();
            return Err(Died);
        }
        Ok(Some(grip))
    }

    /// What an entry is, unpacked. Under the table's lock.
    #[inline]
    fn entry(&self, at: u64, tally: &Tally<'_>) -> Result<Option<Entry<StaticFile>>, Died> {
        let node = self.layout().node(at);
        let version = node.version().load(Acquire);
        let kind = node.kind().load(Relaxed);
        match kind & KIND {
            DIRECTORY => return Ok(Some(Entry::Directory)),
            MISSING => return Ok(Some(Entry::Missing(fault(kind)))),
            _ => {}
        }
        let index = place_of(at);
        if let Some(Some((known, file))) = self.unpacked.borrow().get(index)
            && *known == version
        {
            return Ok(Some(Entry::File(Arc::clone(file))));
        }
        self.unpack(at, index, tally)
    }

    #[cold]
    fn unpack(
        &self,
        at: u64,
        index: usize,
        tally: &Tally<'_>,
    ) -> Result<Option<Entry<StaticFile>>, Died> {
        let node = self.layout().node(at);
        let grip = self.entry_lock(node, tally)?;
        // Since the lock was free the entry is whole; it may be another than a moment ago.
        let version = node.version().load(Acquire);
        let kind = node.kind().load(Relaxed);
        if kind & KIND != FILE || version == 0 {
            return Ok(None);
        }
        let (len, block) = chain_parts(node.content().load(Relaxed));
        let mut bytes = self.room.borrow_mut();
        bytes.clear();
        self.layout().load(block, len, &mut bytes);
        let file = Representation::unpack(&bytes, |coding, id| {
            let number = node.files()[coding].load(Relaxed).checked_sub(1)?;
            self.member.borrow(u32::try_from(number).ok()?, id)
        });
        drop(grip);
        let Some(file) = file.map(Arc::new) else { return Ok(None) };
        let mut unpacked = self.unpacked.borrow_mut();
        if unpacked.len() <= index {
            unpacked.resize(index + 1, None);
        }
        unpacked[index] = Some((version, Arc::clone(&file)));
        Ok(Some(Entry::File(file)))
    }

    /// It is time to see whether an entry changed: true if this asker is to, and not another.
    #[cold]
    fn doubt(&self, node: Node, checked: u64, now: Tick) -> bool {
        let never = Tick::NEVER.0;
        let first = node.doubted().compare_exchange(never, now.0, Relaxed, Relaxed);
        let doubted = first.map_or_else(Tick, |_| now);
        if now.since(doubted) >= self.rules.revalidate_ms.saturating_mul(STALE_PERIODS_MAX) {
            return true; // nobody has brought anything for so long: all look
        }
        node.checked_at().compare_exchange(checked, now.0, Relaxed, Relaxed).is_ok()
    }

    #[inline]
    fn look_up(
        &self,
        path: &[u8],
        now: Tick,
        tally: &Tally<'_>,
    ) -> Result<Lookup<StaticFile>, Died> {
        let hash = self.hasher.hash_one(path);
        let grip = self.look(tally);
        if grip.died {
            self.clear(tally);
            return Ok(Lookup::Miss);
        }
        let Some(at) = self.layout().find(hash, path) else { return Ok(Lookup::Miss) };
        let node = self.layout().node(at);
        if node.visited().load(Relaxed) == 0 {
            node.visited().store(1, Relaxed);
        }
        let checked = node.checked_at().load(Relaxed);
        let age = now.since(Tick(checked));
        let negative = node.rank() == Rank::Negative;
        if negative && age >= self.rules.negative_ms {
            drop(grip);
            self.remove_if(hash, path, |known| known.checked_at == checked, tally);
            return Ok(Lookup::Miss);
        }
        let Some(entry) = self.entry(at, tally)? else { return Ok(Lookup::Miss) };
        if negative {
            tally.add(Counter::CacheNegativeHits, 1);
        } else if age >= self.rules.revalidate_ms && self.doubt(node, checked, now) {
            tally.add(Counter::CacheRevalidations, 1);
            return Ok(Lookup::Stale(entry));
        }
        tally.add(Counter::CacheHits, 1);
        Ok(Lookup::Fresh(entry))
    }
}

/// The holder of an inner lock died with it.
struct Died;

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

    fn remove(&self, path: &[u8], tally: &Tally<'_>) {
        self.remove_if(self.hasher.hash_one(path), path, |_| true, tally);
    }
}

impl fmt::Debug for SharedCache<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCache")
            .field("place", &self.place)
            .field("entries", &self.entries())
            .finish_non_exhaustive()
    }
}

/// A number of an entry as a place in memory.
fn place_of(at: u64) -> usize {
    usize::try_from(at).expect("64-bit Linux")
}

/// Enters in the tally what a lock has cost.
#[inline]
fn count<'g>(tally: &Tally<'_>, grip: Grip<'g>) -> Grip<'g> {
    tally.add(Counter::LockAcquisitions, 1);
    if grip.waited.contended {
        tally.add(Counter::LockContended, 1);
        tally.add(Counter::LockWaitNs, grip.waited.ns);
    }
    grip
}

/// A fault as bits of a kind, above the rank and the kind.
fn fault_bits(fault: OpenFault) -> u64 {
    let (which, errno) = match fault {
        OpenFault::NotFound => (0, 0),
        OpenFault::Denied => (1, 0),
        OpenFault::Outside => (2, 0),
        OpenFault::NotAFile => (3, 0),
        OpenFault::Exhausted => (4, 0),
        OpenFault::Other(errno) => (5, errno),
    };
    which << 4 | u64::from(errno.cast_unsigned()) << 32
}

/// What [`fault_bits`] made bits of.
fn fault(kind: u64) -> OpenFault {
    match kind >> 4 & 7 {
        0 => OpenFault::NotFound,
        1 => OpenFault::Denied,
        2 => OpenFault::Outside,
        3 => OpenFault::NotAFile,
        4 => OpenFault::Exhausted,
        _ => OpenFault::Other(u32::try_from(kind >> 32).unwrap_or(0).cast_signed()),
    }
}

#[cfg(test)]
mod schedule;
#[cfg(test)]
mod tests;
