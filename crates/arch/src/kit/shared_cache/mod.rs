//! One cache for several processes, in memory that they share ([E] §5.2, [S] §4).
//!
//! What is known, by which name, in which version, under which descriptors, and what goes out next
//! is in shared words. A process keeps for itself only what it has unpacked of an entry, with the
//! version that it was: a hit is a lookup under the lock and a comparison.
//!
//! Others wait while a lock is held. So under one bytes are copied, words changed and uses counted;
//! what takes memory or calls the system is done when it is free.
mod copies;
mod guard;
mod heap;
mod layout;
mod put;
mod table;

use crate::options::choice;
use copies::{Copies, Unpacked};
use foldhash::fast::FixedState;
use guard::Died;
use layout::{CHANGES, CLEARED, MemoryLayout, RING_WORDS};
use regatta_metrics::{Counter, Tally};
use regatta_op::{OpenFault, Tick};
use regatta_origin::{CODINGS, Cache, CachingRules, Entry, Lookup, Rank, Representation};
use regatta_sys::{
    Bell, StaticFile,
    crew::{Grip, Lease, Member, NUMBERS_MAX, assert_unlocked},
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

choice! {
    /// How the cache is guarded (`shared.lock`).
    pub enum Locking {
        /// One lock for everything ([E] §5.2).
        Global = "global",
        /// A lock of readers and one writer for names, and a lock per entry for what is known of it
        /// ([S] §4).
        TwoTier = "two-tier",
    }
}

/// Where a shared cache is, and how it is used: the same for all its processes.
#[derive(Clone, Copy)]
pub struct Place {
    layout: MemoryLayout,
    locking: Locking,
    /// What one process may take for what it has unpacked.
    copies_bytes_max: usize,
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
        MemoryLayout::words(rules)
    }

    /// An empty cache in words that are all 0. What all `workers` have unpacked of it takes at most
    /// as much again as it may take itself.
    ///
    /// # Panics
    /// If there are fewer words than [`Place::words`].
    #[must_use]
    pub fn new(
        words: &'static [AtomicU64],
        rules: &CachingRules,
        locking: Locking,
        workers: usize,
        seed: u64,
    ) -> Self {
        let copies_bytes_max = rules.bytes_max / workers.max(1);
        Self { layout: MemoryLayout::new(words, rules), locking, copies_bytes_max, seed }
    }
}

/// A cache that this process shares with others.
pub struct SharedCache<'a> {
    place: Place,
    rules: CachingRules,
    hasher: FixedState,
    member: &'static Member,
    copies: RefCell<Copies>,
    /// Changes that have been followed.
    followed: Cell<u64>,
    /// Rung when other processes should let go of what they have unpacked.
    bells: &'a [Bell],
    /// Files given up since.
    retired: Cell<u64>,
    /// Files given up under the lock that is held, to be closed after it if nobody uses them.
    given_up: RefCell<Vec<u32>>,
    /// All files have been.
    emptied: Cell<bool>,
    /// Where contents are put together, and copied to.
    room: RefCell<Vec<u8>>,
    /// Where what is known is copied to, to be compared with what comes in.
    known_room: RefCell<Vec<u8>>,
}

/// Kinds of entries, above the two bits of the rank.
const FILE: u64 = 0 << 2;
const DIRECTORY: u64 = 1 << 2;
const MISSING: u64 = 2 << 2;
/// Where they stand.
const KIND: u64 = 3 << 2;

/// What the heads of a content coding take, about.
const HEADS_BYTES: usize = 2048;
/// The most memory that is taken before a content needs it.
const ROOM_BYTES_MAX: usize = 1 << 20;

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
            copies: RefCell::new(Copies::new(place.copies_bytes_max)),
            followed: Cell::new(followed),
            bells,
            retired: Cell::new(0),
            given_up: RefCell::new(Vec::with_capacity(given_up_max(rules))),
            emptied: Cell::new(false),
            room: RefCell::new(Vec::with_capacity(room(rules))),
            known_room: RefCell::new(Vec::with_capacity(room(rules))),
        }
    }

    /// This process among those that share.
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

    /// Lets go of what was unpacked of entries that have changed. To be called now and then: an
    /// idle process would otherwise keep files open that nobody wants.
    pub fn follow(&self, tally: &Tally<'_>) {
        let layout = self.layout();
        let changes = layout.header[CHANGES].load(Acquire);
        let followed = self.followed.replace(changes);
        if changes == followed {
            return;
        }
        let mut copies = self.copies.borrow_mut();
        if changes - followed < RING_WORDS as u64 {
            let known = (followed..changes).all(|number| {
                let cell = layout.ring[place_of(number) % RING_WORDS].load(Acquire);
                let (tag, at) = chain_parts(cell);
                // Somebody may be about to write to this cell.
                let right = tag as u64 == number & u64::from(u32::MAX);
                if right {
                    copies.follow(at, layout, tally);
                }
                right
            });
            if known {
                return;
            }
        }
        copies.follow_all(layout, tally);
    }

    #[inline]
    fn layout(&self) -> &MemoryLayout {
        &self.place.layout
    }

    /// What a file's entry is, unpacked; `None` if it is no file any more. Gives the table's lock
    /// back.
    #[inline]
    fn file(
        &self,
        grip: Grip<'_>,
        (at, version): (u64, u64),
        tally: &Tally<'_>,
    ) -> Result<Option<Unpacked>, Died> {
        let copies = self.copies.borrow();
        if let Some(file) = copies.get(at, version) {
            drop(grip);
            return Ok(Some(Arc::clone(file)));
        }
        drop(copies);
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
        self.copies.borrow_mut().keep(at, version, &file, tally);
        Ok(Some(file))
    }

    /// Copies the content of a file's entry and counts the uses of its files; its version, or
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
        // Since the lock was free the entry is whole; it may be another than a moment ago.
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

    /// It is time to see whether an entry changed: true if this asker is to, and not another.
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
        let grip = self.look(tally);
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
            let Some(file) = self.file(grip, (at, version), tally)? else {
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

    /// Each of those who share it calls this when it has taken its new root: what it has put in
    /// until then goes with its own call.
    fn clear(&self, now: Tick, tally: &Tally<'_>) {
        self.alone(tally, |empty| {
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
            .field("place", &self.place)
            .field("entries", &self.entries())
            .finish_non_exhaustive()
    }
}

/// Bytes for the longest content there usually is: memory that is taken under no lock.
fn room(rules: &CachingRules) -> usize {
    let body = usize::try_from(rules.body_bytes_max).unwrap_or(ROOM_BYTES_MAX);
    (CODINGS * (HEADS_BYTES + body.min(ROOM_BYTES_MAX))).min(ROOM_BYTES_MAX)
}

/// Files that are given up under one lock at most: all that are held, and those of two entries
/// that come in.
fn given_up_max(rules: &CachingRules) -> usize {
    rules.descriptors_max.min(NUMBERS_MAX) + 2 * CODINGS
}

/// A number of an entry as a place in memory.
fn place_of(at: u64) -> usize {
    usize::try_from(at).expect("64-bit Linux")
}

/// A fault as bits of a kind, above the rank and the kind.
fn fault_bits(fault: OpenFault) -> u64 {
    let (code, errno) = fault.code();
    u64::from(code) << 4 | u64::from(errno.cast_unsigned()) << 32
}

/// What [`fault_bits`] made bits of.
fn fault(kind: u64) -> OpenFault {
    let [low, _, _, _, errno @ ..] = kind.to_le_bytes();
    OpenFault::from_code(low >> 4 & 7, i32::from_le_bytes(errno))
}

#[cfg(test)]
mod schedule;
#[cfg(test)]
pub(super) mod tests;
