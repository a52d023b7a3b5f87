//! Threads that share a cache, all at once and one step after another.
use super::*;
use crate::{
    cache::shared_cache::tests::{BOTH, FILES, Rig, Sender, rules},
    testing::dice::Dice,
};
use regatta_metrics::Arena;
use regatta_op::{OpenFault, Tick};
use regatta_origin::{Cache, CachingRules, Entry, Lookup, Representation};
use regatta_sys::alloc_count::allocations;
use regatta_testkit::counters::arena;
use std::{
    sync::{
        Arc, Barrier, Mutex, Weak,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    thread,
    time::Duration,
};

const THREADS: usize = 4;
/// Files stand under their numbers modulo this.
const FILE_NAMES: u64 = 6;
/// Names; those from [`FILE_NAMES`] on are of nothing.
const NAMES: u64 = 8;

/// A cache, files, and a place to count for each thread.
struct World {
    /// Only its files are used.
    rig: Rig,
    cache: ThreadCache,
    arena: Arena<'static>,
    /// All that was ever put.
    known: Mutex<Vec<Weak<Representation<StaticFile>>>>,
}

impl World {
    fn new(rules: &CachingRules) -> Self {
        Self {
            rig: Rig::new(BOTH[0], rules.clone()),
            cache: ThreadCache::new(rules, 7),
            arena: arena(THREADS),
            known: Mutex::default(),
        }
    }

    fn tally(&self, thread: usize) -> Tally<'_> {
        Tally::Owned(self.arena.slot(thread))
    }

    fn total(&self, counter: Counter) -> u64 {
        (0..THREADS).map(|thread| self.arena.slot(thread).get(counter)).sum()
    }

    fn put(&self, thread: usize, path: &[u8], file: u64, asked: u64) {
        let entry = self.rig.known_as(file, self.rig.open(file));
        let Entry::File(known) = &entry else { panic!("a file") };
        self.known.lock().unwrap().push(Arc::downgrade(known));
        self.cache.put(path, &entry, Tick(asked), &self.tally(thread));
    }

    /// Looks a name up, in the way without a reference first; the file that was found.
    fn look_up(&self, thread: usize, name: u64, now: u64) -> Option<Sender> {
        let (path, tally) = (name.to_string(), self.tally(thread));
        let mut file = None;
        let hit = self.cache.hit(path.as_bytes(), Tick(now), &tally, &mut |found| {
            file = Some(Arc::clone(found));
            true
        });
        assert_eq!(hit, file.is_some());
        let file = file.or_else(|| match self.cache.get(path.as_bytes(), Tick(now), &tally) {
            Lookup::Fresh(Entry::File(file)) | Lookup::Stale(Entry::File(file)) => Some(file),
            Lookup::Fresh(Entry::Missing(_)) => {
                assert!(name >= FILE_NAMES, "{name} is a file");
                None
            }
            Lookup::Miss => None,
            other => panic!("{other:?} under {name}"),
        })?;
        let n = (file.identity().len() - 1) / 100;
        assert_eq!(n % FILE_NAMES, name, "file {n} under {name}");
        Some(Sender { file, n })
    }

    /// Everything that was ever counted in is here or was counted out.
    fn check_books(&self) {
        self.cache.check_invariants();
        let is = |added, removed| self.total(added) - self.total(removed);
        let entries = self.cache.entries() + self.cache.negatives();
        assert_eq!(is(Counter::CacheEntriesAdded, Counter::CacheEntriesRemoved), entries as u64);
        let bytes = is(Counter::CacheBytesAdded, Counter::CacheBytesRemoved);
        assert_eq!(bytes, self.cache.bytes() as u64);
        let descriptors = is(Counter::CacheFdsAdded, Counter::CacheFdsRemoved);
        assert_eq!(descriptors, self.cache.descriptors() as u64);
    }

    /// Lives as one thread; returns how often it found a file.
    fn live(&self, thread: usize, mut dice: Dice, clock: &AtomicU64) -> u64 {
        let (mut senders, mut hits, tally) = (Vec::new(), 0, self.tally(thread));
        for _ in 0..300 {
            let now = clock.fetch_add(dice.below(100) as u64, Relaxed);
            let name = dice.below(usize::try_from(NAMES).unwrap()) as u64;
            let path = name.to_string();
            let path = path.as_bytes();
            match dice.below(16) {
                0 => self.cache.remove(path, &tally),
                1 if dice.once_in(4) => drop(self.cache.relieve(&tally)),
                2 => drop(self.cache.sweep(Tick(now), &tally)),
                3 if dice.once_in(8) => self.cache.clear(Tick(now), &tally),
                4 | 5 => drop(dice.take(&mut senders)),
                6 => self.cache.check_invariants(),
                _ => match self.look_up(thread, name, now) {
                    Some(sender) if dice.once_in(8) => {
                        self.cache.fill(path, &sender.file, &tally);
                        senders.push(sender);
                    }
                    Some(sender) => {
                        hits += 1;
                        senders.push(sender);
                    }
                    None if name >= FILE_NAMES => {
                        let entry = Entry::Missing(OpenFault::NotFound);
                        self.cache.put(path, &entry, Tick(now), &tally);
                    }
                    None => {
                        let version = dice.below(usize::try_from(FILES / FILE_NAMES).unwrap());
                        self.put(thread, path, name + FILE_NAMES * version as u64, now);
                    }
                },
            }
            senders.iter().for_each(Sender::check);
        }
        hits
    }
}

/// Runs all threads, each with its number and the barrier at which they meet.
fn in_threads(live: impl Fn(usize, &Barrier) + Sync) {
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (live, barrier) = (&live, &barrier);
            scope.spawn(move || live(thread, barrier));
        }
    });
}

/// Whatever threads do at once: names are of their own files, bounds hold at every moment, no
/// thread closes what another sends, and what is released is closed.
#[test]
fn threads_that_share_keep_the_rules() {
    let mut hits = 0;
    for seed in 0..32 {
        let mut dice = Dice::new(seed);
        let rules = rules(2 + dice.below(8), 1 + dice.below(8));
        let world = World::new(&CachingRules { inactive_ms: 2_000, ..rules });
        let (clock, all) = (AtomicU64::new(1), AtomicU64::new(0));
        in_threads(|thread, barrier| {
            let dice = Dice::new(seed * THREADS as u64 + thread as u64);
            barrier.wait();
            all.fetch_add(world.live(thread, dice, &clock), Relaxed);
        });
        hits += all.into_inner();
        world.check_books();
        let now = clock.load(Relaxed);
        world.cache.clear(Tick(now), &world.tally(0));
        world.check_books();
        let known = world.known.into_inner().unwrap();
        assert!(known.iter().all(|file| file.strong_count() == 0), "seed {seed}: kept by nobody");
    }
    assert!(hits > 3_000, "{hits} hits");
}

/// A thread that has seen the new root finds nothing of the old one, however long the change takes.
#[test]
fn the_old_root_is_forgotten_before_anybody_looks_into_the_new_one() {
    let (world, replaced) = (World::new(&rules(8, 8)), AtomicBool::new(false));
    world.cache.put(b"old", &Entry::Directory, Tick(1), &world.tally(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            world.cache.renew(&world.tally(0), &mut || {
                replaced.store(true, Release);
                thread::sleep(Duration::from_millis(20));
                Some(Tick(2))
            });
        });
        while !replaced.load(Acquire) {
            thread::yield_now();
        }
        let found = world.cache.get(b"old", Tick(2), &world.tally(1));
        assert!(matches!(found, Lookup::Miss), "{found:?}");
    });
}

/// All miss, and all bring what they have opened: one of them is kept.
#[test]
fn who_loses_a_race_to_fill_keeps_nothing() {
    let world = World::new(&rules(8, 8));
    for round in 1..200 {
        in_threads(|thread, barrier| {
            assert!(world.look_up(thread, 3, round).is_none());
            barrier.wait();
            world.put(thread, b"3", 3, round);
        });
        assert_eq!((world.cache.entries(), world.cache.descriptors()), (1, 1));
        assert_eq!(world.total(Counter::CacheFills), round);
        let known = std::mem::take(&mut *world.known.lock().unwrap());
        assert_eq!(known.iter().filter(|file| file.strong_count() > 0).count(), 1);
        world.cache.remove(b"3", &world.tally(0));
        world.check_books();
    }
}

/// The thread that asked the disk last is right, in any order; no thread sees an older answer.
#[test]
fn the_youngest_stays() {
    let versions = FILES / FILE_NAMES;
    for seed in 0..64 {
        let world = World::new(&rules(8, 8));
        in_threads(|thread, barrier| {
            let mut dice = Dice::new(seed * THREADS as u64 + thread as u64);
            let (mut left, mut seen) = ((0..versions).collect::<Vec<_>>(), 0);
            barrier.wait();
            while let Some(version) = dice.take(&mut left) {
                let file = 5 + FILE_NAMES * version;
                world.put(thread, b"5", file, 1 + version);
                let found = world.look_up(thread, 5, 1).expect("nobody removes it").n;
                assert!(found >= file.max(seen), "{found} after {seen} and {file}");
                seen = found;
            }
        });
        let last = 5 + FILE_NAMES * (versions - 1);
        assert_eq!(world.look_up(0, 5, 1).map(|sender| sender.n), Some(last));
        assert_eq!(world.total(Counter::CacheFills), 1);
        world.check_books();
    }
}

/// A thread that is shown an entry keeps none from another entry. One that wants the same entry
/// waits, and counts that.
#[test]
fn readers_of_other_names_do_not_wait() {
    let world = World::new(&rules(8, 8));
    (1..3).for_each(|file| world.put(0, file.to_string().as_bytes(), file, 1));
    assert_eq!(world.total(Counter::LockContended), 0);
    let locks = || world.arena.slot(1).get(Counter::LockAcquisitions);
    for _ in 0..100 {
        thread::scope(|scope| {
            let mut waiter = None;
            assert!(world.cache.hit(b"1", Tick(1), &world.tally(0), &mut |_| {
                let other = scope.spawn(|| world.look_up(1, 2, 1).map(|sender| sender.n));
                assert_eq!(other.join().unwrap(), Some(2));
                let before = locks();
                waiter = Some(scope.spawn(|| world.look_up(1, 1, 1).map(|sender| sender.n)));
                while locks() == before {
                    thread::yield_now();
                }
                // It has the lock of all names, and asks for that of the entry.
                thread::sleep(Duration::from_millis(1));
                true
            }));
            assert_eq!(waiter.unwrap().join().unwrap(), Some(1));
        });
        if world.total(Counter::LockContended) > 0 {
            break;
        }
    }
    assert!(world.total(Counter::LockContended) > 0 && world.total(Counter::LockWaitNs) > 0);
}

/// Two locks, and no memory.
#[test]
fn a_hit_takes_two_locks_and_allocates_nothing() {
    let world = World::new(&rules(8, 8));
    let tally = world.tally(0);
    world.put(0, b"3", 3, 1);
    let before = (allocations(), world.total(Counter::LockAcquisitions));
    for _ in 0..100 {
        assert!(world.cache.hit(b"3", Tick(1), &tally, &mut |_| true));
        assert!(matches!(world.cache.get(b"3", Tick(1), &tally), Lookup::Fresh(_)));
    }
    let after = (allocations(), world.total(Counter::LockAcquisitions));
    assert_eq!((after.0 - before.0, after.1 - before.1), (0, 400));
    assert!(before.0 > 0, "the allocator counts");
    assert_eq!(world.total(Counter::CacheHits), 200);
    // An unchanged entry is brought up to date in place, under the same two.
    let Lookup::Stale(entry) = world.cache.get(b"3", Tick(1001), &tally) else { panic!("a look") };
    let added = world.total(Counter::CacheEntriesAdded);
    let locks = world.total(Counter::LockAcquisitions);
    world.cache.put(b"3", &entry, Tick(1001), &tally);
    assert_eq!(world.total(Counter::LockAcquisitions) - locks, 2);
    assert_eq!(world.total(Counter::CacheEntriesAdded), added);
    assert!(matches!(world.cache.get(b"3", Tick(1002), &tally), Lookup::Fresh(_)));
}
