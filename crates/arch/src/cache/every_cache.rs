//! Tests that every cache must pass: private ([`LocalCache`]), shared by threads ([`ThreadCache`]),
//! or shared by processes with either kind of locks (`shared.lock`).
use crate::cache::{
    shared_cache::tests::{BOTH, FILES, Rig, rules},
    thread_cache::ThreadCache,
};
use regatta_metrics::Counter;
use regatta_op::{OpenFault, Tick};
use regatta_origin::{
    Cache, CachingRules, Entry, LocalCache, Locks, Lookup, SWEEP_PAUSE_MS, TableCache,
};
use regatta_sys::StaticFile;

/// A cache, and two users of it.
struct Pair<'p> {
    rig: &'p Rig,
    sides: [&'p dyn Cache<StaticFile>; 2],
    /// Entries, and descriptors that the cache keeps open, when both have followed all changes.
    held: &'p dyn Fn() -> (usize, usize),
}

/// Checks every cache within these rules.
fn check_caches(rules: &CachingRules, check: impl Fn(&Pair<'_>)) {
    for locking in BOTH {
        let rig = &Rig::new(locking, rules.clone());
        let [a, b] = &rig.sides();
        let held = &|| {
            [a, b].iter().enumerate().for_each(|(side, cache)| cache.follow(&rig.tally(side)));
            let (kept, given_up) = rig.crew.files();
            (usize::try_from(a.entries()).unwrap(), kept + given_up)
        };
        check(&Pair { rig, sides: [a, b], held });
    }
    check_table(rules, &ThreadCache::new(rules, 7), &check);
    check_table(rules, &LocalCache::new(rules, 7), &check);
}

fn check_table(
    rules: &CachingRules,
    cache: &TableCache<StaticFile, impl Locks>,
    check: impl Fn(&Pair<'_>),
) {
    let rig = &Rig::new(BOTH[0], rules.clone());
    let held = &|| {
        cache.check_invariants();
        (cache.entries() + cache.negatives(), cache.descriptors())
    };
    check(&Pair { rig, sides: [cache; 2], held });
}

impl Pair<'_> {
    fn entry(&self, side: usize, file: u64) -> Entry<StaticFile> {
        self.rig.entry(self.rig.members[side], file)
    }

    fn ask(&self, side: usize, file: u64) -> bool {
        self.rig.ask(self.sides[side], side, file)
    }

    fn get(&self, side: usize, path: &[u8], at: u64) -> Lookup<StaticFile> {
        self.sides[side].get(path, Tick(at), &self.rig.tally(side))
    }

    fn put(&self, side: usize, path: &[u8], entry: &Entry<StaticFile>, asked: u64) {
        self.sides[side].put(path, entry, Tick(asked), &self.rig.tally(side));
    }

    fn fill(&self, side: usize, path: &[u8], file: u64) {
        let Entry::File(file) = self.entry(side, file) else { panic!("a file") };
        self.sides[side].fill(path, &file, &self.rig.tally(side));
    }

    /// The length of the file that a name is.
    fn len(&self, side: usize, path: &[u8], at: u64) -> u64 {
        match self.get(side, path, at) {
            Lookup::Fresh(Entry::File(file)) => file.identity().len(),
            other => panic!("{other:?}"),
        }
    }

    fn is_stale(&self, side: usize, path: &[u8], at: u64) -> bool {
        matches!(self.get(side, path, at), Lookup::Stale(_))
    }

    fn held(&self) -> (usize, usize) {
        (self.held)()
    }
}

#[test]
fn who_loses_a_race_to_fill_keeps_nothing_open() {
    check_caches(&rules(8, 8), |pair| {
        let entries = [pair.entry(0, 5), pair.entry(1, 5)];
        (0..2).for_each(|side| pair.put(side, b"5", &entries[side], 1));
        drop(entries);
        assert_eq!(pair.held(), (1, 1));
        assert_eq!(pair.rig.total(Counter::CacheFills), 1);
        assert!(pair.ask(0, 5) && pair.ask(1, 5));
    });
}

#[test]
fn a_change_replaces_the_entry_for_all() {
    check_caches(&rules(8, 8), |pair| {
        assert!(!pair.ask(0, 2) && pair.ask(1, 2));
        pair.put(1, b"2", &pair.entry(1, 9), 2);
        assert_eq!(pair.len(0, b"2", 2), 901);
        assert_eq!(pair.held(), (1, 1));
        // Another rank: the file becomes a directory, then nothing.
        pair.put(0, b"2", &Entry::Directory, 3);
        assert!(matches!(pair.get(1, b"2", 3), Lookup::Fresh(Entry::Directory)));
        pair.put(1, b"2", &Entry::Missing(OpenFault::Other(-5)), 4);
        let found = pair.get(0, b"2", 4);
        assert!(matches!(found, Lookup::Fresh(Entry::Missing(OpenFault::Other(-5)))), "{found:?}");
        assert!(matches!(pair.get(0, b"2", 5000), Lookup::Miss), "forgotten");
        assert_eq!(pair.held(), (0, 0));
    });
}

/// An answer asked for before either user replaced the root is not remembered after it.
#[test]
fn nothing_of_the_old_root_is_remembered() {
    check_caches(&rules(8, 8), |pair| {
        (1..5).for_each(|file| assert!(!pair.ask(0, file) && pair.ask(1, file)));
        pair.sides[0].clear(Tick(100), &pair.rig.tally(0));
        assert_eq!(pair.held(), (0, 0));
        // The other takes the new root later, by a clock that it read earlier.
        pair.sides[1].clear(Tick(99), &pair.rig.tally(1));
        let old = pair.entry(1, 5);
        pair.put(1, b"5", &old, 100);
        assert!(matches!(pair.get(0, b"5", 101), Lookup::Miss));
        pair.put(1, b"5", &old, 101);
        assert!(matches!(pair.get(0, b"5", 101), Lookup::Fresh(_)));
        assert_eq!(pair.rig.total(Counter::CacheRepairs), 0, "nothing was broken");
    });
}

/// The user that opened a file later knows better, even if it comes first; a body is its file's.
#[test]
fn what_is_older_does_not_replace_what_is_younger() {
    check_caches(&rules(8, 8), |pair| {
        pair.put(1, b"x", &pair.entry(1, 9), 5);
        pair.put(0, b"x", &pair.entry(0, 2), 4);
        assert_eq!([pair.len(0, b"x", 6), pair.len(1, b"x", 6)], [901, 901]);
        pair.fill(0, b"x", 2);
        pair.fill(0, b"y", 2);
        assert_eq!(pair.len(0, b"x", 6), 901);
        assert_eq!(pair.held(), (1, 1), "of another file, or of a forgotten one");
        // The same files from other descriptors: known as of when it was.
        pair.fill(0, b"x", 9);
        assert!(pair.is_stale(1, b"x", 1005));
    });
}

#[test]
fn it_is_asked_again_once_per_age() {
    check_caches(&rules(8, 8), |pair| {
        assert!(!pair.ask(0, 1));
        let Lookup::Stale(stale) = pair.get(1, b"1", 1001) else { panic!("it is time") };
        assert!(!pair.is_stale(0, b"1", 1001), "the other sees to it");
        pair.put(1, b"1", &stale, 1002);
        assert!(!pair.is_stale(0, b"1", 1500));
        assert_eq!(pair.rig.total(Counter::CacheFills), 1);
    });
}

/// While one user asks, others get what is known, but not for ever. An answer that was slow to come
/// is remembered all the same.
#[test]
fn what_is_stale_is_so_for_a_while() {
    check_caches(&rules(8, 8), |pair| {
        assert!(!pair.ask(0, 1));
        let is_stale = |side, at| pair.is_stale(side, b"1", at);
        assert!(is_stale(1, 2000) && !is_stale(0, 2500), "one looks");
        assert!(is_stale(0, 3000) && !is_stale(1, 3000), "another, in each period");
        assert!(is_stale(0, 6000) && is_stale(1, 6000) && is_stale(0, 6001), "all");
        // The file that the first has opened comes at last.
        pair.put(1, b"1", &pair.entry(1, 9), 5900);
        assert!(!is_stale(0, 6100) && is_stale(1, 6900) && !is_stale(0, 6900));
    });
}

/// The same questions one after another have the answers of a private cache, and the bounds hold.
#[test]
fn it_remembers_what_a_private_cache_would() {
    for (entries_max, descriptors_max) in [(5, 100), (100, 4), (7, 5)] {
        let rules = rules(entries_max, descriptors_max);
        check_caches(&rules, |pair| {
            let (private, other) = (LocalCache::new(&rules, 1), Rig::new(BOTH[0], rules.clone()));
            let mut dice = 1_u64;
            for turn in 0..2000 {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let file = (dice >> 40) % FILES * ((dice >> 20) % FILES) / FILES;
                let known = other.ask(&private, 0, file);
                assert_eq!(pair.ask(turn % 2, file), known, "turn {turn}, file {file}");
            }
            assert_eq!(pair.held(), (private.entries(), private.descriptors()));
            assert!(private.descriptors() <= descriptors_max && private.entries() <= entries_max);
            assert!(pair.rig.total(Counter::CacheEvictions) > 100);
        });
    }
}

/// A single user sweeps for all, and all release what was found.
#[test]
fn what_is_inactive_is_closed_by_all() {
    let rules = CachingRules { inactive_ms: 800, ..rules(64, 64) };
    check_caches(&rules, |pair| {
        let sweep = |side: usize, now| pair.sides[side].sweep(Tick(now), &pair.rig.tally(side));
        assert_eq!(sweep(0, 1), None);
        (0..FILES).for_each(|file| assert!(!pair.ask(0, file) && pair.ask(1, file)));
        assert_eq!(pair.len(0, b"7", 700), 701);
        let mut now = 1;
        while now < 801 + rules.sweep_ms() + SWEEP_PAUSE_MS {
            let on = [sweep(0, now), sweep(1, now)];
            assert_eq!(on[0], on[1]);
            now = on[0].unwrap().0.max(now + 1);
        }
        assert_eq!(pair.held(), (1, 1), "given up, used by nobody, and open");
        assert_eq!(pair.len(0, b"7", 700), 701);
    });
}

/// Some descriptors are released where others are needed; by processes, when all have followed.
#[test]
fn descriptors_that_are_needed_are_given_up() {
    check_caches(&rules(8, 8), |pair| {
        (1..5).for_each(|file| assert!(!pair.ask(0, file) && pair.ask(1, file)));
        pair.put(0, b"d", &Entry::Directory, 1);
        assert_eq!(pair.held(), (5, 4));
        pair.sides[0].relieve(&pair.rig.tally(0));
        assert_eq!(pair.held(), (1, 0));
        assert!(!pair.sides[1].relieve(&pair.rig.tally(1)), "there are none");
        let count = |counter| pair.rig.total(counter);
        assert_eq!(count(Counter::CacheFdsAdded), count(Counter::CacheFdsRemoved));
    });
}
