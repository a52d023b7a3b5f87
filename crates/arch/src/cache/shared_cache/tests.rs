//! Members of one shared cache, in one process: each sees what the others do, also when one of them
//! dies.
use super::{
    layout::{
        AGE_WORDS, BLOCK_WORDS, ENTRY_BYTES, ENTRY_WORDS, HEAP_LOCK, PAIR_WORDS, TABLE_LOCK,
        UPDATING,
    },
    *,
};
use crate::testing::folder;
use regatta_metrics::{Arena, Gauge};
use regatta_op::Now;
use regatta_origin::{Body, Site};
#[cfg(debug_assertions)]
use regatta_sys::alloc_count::allocations_under_locks;
use regatta_sys::{
    alloc_count::Counting,
    crew::{self, Crew},
};
use std::fs;

#[global_allocator]
static COUNTING: Counting = Counting;

pub(crate) const FILES: u64 = 24;

/// Files whose lengths are known.
pub(crate) struct Folder(folder::Folder);

impl Folder {
    pub(crate) fn new() -> Arc<Self> {
        let folder = folder::Folder::new("shared-cache");
        for file in 0..FILES {
            fs::write(folder.join(file.to_string()), vec![b'x'; 1 + 100 * place_of(file)]).unwrap();
        }
        Arc::new(Self(folder))
    }
}

pub(crate) struct Rig {
    folder: Arc<Folder>,
    site: Site,
    pub(crate) crew: Crew,
    pub(crate) region: CacheRegion,
    pub(crate) members: Vec<&'static Member>,
    arena: Arena<'static>,
}

impl Rig {
    pub(crate) fn new(locking: Locking, rules: CachingRules) -> Self {
        Self::with_workers(2, Folder::new(), locking, rules)
    }

    pub(crate) fn with_workers(
        workers: usize,
        folder: Arc<Folder>,
        locking: Locking,
        rules: CachingRules,
    ) -> Self {
        let books = Crew::count_words(workers, 4096);
        let words = books + CacheRegion::count_words(&rules) + Arena::count_words(workers);
        let memory = crew::create_words(words).unwrap();
        let (books, rest) = memory.words().split_at(books);
        let (cache, rest) = rest.split_at(CacheRegion::count_words(&rules));
        std::mem::forget(memory);
        let crew = Crew::create(books, workers, 4096).unwrap();
        let members = (0..workers).map(|worker| crew.enter(worker).unwrap()).collect();
        let region = CacheRegion::new(cache, &rules, locking, workers, 7);
        let site = Site { caching: rules, ..Site::default() };
        let arena = Arena::create(rest, workers);
        Self { folder, site, crew, region, members, arena }
    }

    pub(crate) fn side(&self, side: usize) -> SharedCache<'_> {
        SharedCache::new(self.region, &self.site.caching, self.members[side], &[])
    }

    pub(crate) fn sides<const N: usize>(&self) -> [SharedCache<'_>; N] {
        std::array::from_fn(|side| self.side(side))
    }

    pub(crate) fn tally(&self, side: usize) -> Tally<'_> {
        Tally::Owned(self.arena.slot(side))
    }

    pub(crate) fn total(&self, counter: Counter) -> u64 {
        (0..self.members.len()).map(|side| self.arena.slot(side).get(counter)).sum()
    }

    pub(crate) fn open(&self, file: u64) -> StaticFile {
        let file = fs::File::open(self.folder.0.join(file.to_string())).unwrap();
        StaticFile::adopt(file.into()).unwrap()
    }

    /// An entry of a file that is lent to the cache.
    pub(crate) fn entry(&self, member: &'static Member, file: u64) -> Entry<StaticFile> {
        self.known_as(file, member.acquire(|| member.lend(self.open(file))))
    }

    /// An entry of a file, by its number.
    pub(crate) fn known_as(&self, file: u64, open: StaticFile) -> Entry<StaticFile> {
        let (path, siblings) = (file.to_string(), [None, None, None]);
        let now = Now { tick: Tick(1), unix: 1_700_000_000 };
        let file = Representation::new(path.as_bytes(), open, siblings, &self.site, now, now.unix);
        Entry::File(Arc::new(file))
    }

    /// Looks up, fills on a miss; true if it was a hit.
    pub(crate) fn ask(&self, cache: &dyn Cache<StaticFile>, side: usize, file: u64) -> bool {
        let (path, tally) = (file.to_string(), self.tally(side));
        match cache.get(path.as_bytes(), Tick(1), &tally) {
            Lookup::Fresh(Entry::File(found)) => {
                assert_eq!(found.identity().len(), 1 + 100 * file);
                true
            }
            Lookup::Miss => {
                let entry = self.entry(self.members[side], file);
                cache.put(path.as_bytes(), &entry, Tick(1), &tally);
                false
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A response that sends file `n`, whatever has happened to the entry.
pub(crate) struct Sender {
    pub(crate) file: Arc<Representation<StaticFile>>,
    pub(crate) n: u64,
}

impl Sender {
    /// The descriptor is open, and of that file.
    pub(crate) fn check(&self) {
        let Body::File(file) = &self.file.identity().body else { panic!("a descriptor") };
        let stat = rustix::fs::fstat(file).expect("nobody closes a file that is being sent");
        assert_eq!(u64::try_from(stat.st_size).unwrap(), 1 + 100 * self.n);
    }
}

pub(crate) const BOTH: [Locking; 2] = [Locking::Global, Locking::TwoTier];

pub(crate) fn rules(entries_max: usize, descriptors_max: usize) -> CachingRules {
    let bytes_max = 1 << 20;
    CachingRules { entries_max, descriptors_max, negatives_max: 4, bytes_max, ..Default::default() }
}

#[test]
fn what_one_fills_all_find_and_the_last_user_closes() {
    for locking in BOTH {
        let rig = Rig::new(locking, rules(8, 8));
        let [a, b] = rig.sides();
        assert!(!rig.ask(&a, 0, 3));
        assert!(rig.ask(&b, 1, 3) && rig.ask(&a, 0, 3));
        assert_eq!((rig.crew.files(), a.entries()), ((1, 0), 1));
        // A sender of the second process keeps the file.
        let Lookup::Fresh(Entry::File(used)) = b.get(b"3", Tick(1), &rig.tally(1)) else {
            panic!("a hit")
        };
        a.remove(b"3", &rig.tally(0));
        assert_eq!((rig.crew.files(), b.entries()), ((0, 1), 0));
        b.follow(&rig.tally(1));
        assert_eq!(rig.crew.files(), (0, 1), "still sending");
        drop(used);
        assert_eq!(rig.crew.files(), (0, 0));
        assert!(!rig.ask(&b, 1, 3));
    }
}

#[test]
fn descriptors_that_are_needed_are_given_up_by_all() {
    for locking in BOTH {
        let rig = Rig::new(locking, rules(8, 8));
        let [a, b] = rig.sides();
        for file in 1..5 {
            assert!(!rig.ask(&a, 0, file) && rig.ask(&b, 1, file));
        }
        assert_eq!(rig.crew.files(), (4, 0));
        assert!(!a.relieve(&rig.tally(0)), "the other has to let go of them first");
        assert_eq!((rig.crew.files(), a.entries()), ((0, 4), 0));
        b.follow(&rig.tally(1));
        assert_eq!(rig.crew.files(), (0, 0));
    }
}

#[test]
fn a_death_in_the_middle_of_a_change_empties_it() {
    for locking in BOTH {
        for what in 0..3 {
            let rig = Rig::new(locking, rules(8, 8));
            let [a, b] = rig.sides();
            (0..5).for_each(|file| assert!(!rig.ask(&a, 0, file)));
            let header = rig.region.layout.header;
            match what {
                // With the table's lock.
                0 => rig.members[0].lock(&header[TABLE_LOCK]).leave(),
                // With every entry's lock, in the middle of an update.
                1 => {
                    for at in 1..=5 {
                        rig.members[0].lock(rig.region.layout.node(at).lock()).leave();
                    }
                    header[UPDATING].store(1, Relaxed);
                }
                // With the heap's lock, and as a reader.
                _ => {
                    rig.members[0].lock(&header[HEAP_LOCK]).leave();
                    rig.members[0].read(&header[TABLE_LOCK]).leave();
                    header[UPDATING].store(1, Relaxed);
                }
            }
            if (what, locking) == (2, Locking::Global) {
                continue; // there is one lock only
            }
            rig.crew.mark_dead(0);
            // A name that is cached, and one that is not: neither look-up may hang.
            rig.ask(&b, 1, 3);
            rig.ask(&b, 1, 7);
            let [repairs, died] = [Counter::CacheRepairs, Counter::LockHoldersDied];
            assert!(rig.total(repairs) > 0, "{locking:?} {what}");
            // Otherwise the mark of an unfinished update reported the death.
            let found = what == 0 || (what, locking) == (1, Locking::TwoTier);
            assert_eq!(rig.total(died) > 0, found, "{locking:?} {what}");
            assert!(rig.ask(&b, 1, 3) || rig.ask(&b, 1, 3));
            assert!(rig.ask(&b, 1, 7) && b.entries() <= 2);
            let (cached, given_up) = rig.crew.files();
            assert!(cached <= 2 && given_up <= 5, "{cached} {given_up}");
        }
    }
}

/// For any number of workers, descriptors and entries, no entry and no block of bytes spans more
/// cache lines than it must. The lock has a line of its own.
#[test]
fn what_a_hit_looks_at_begins_with_a_cache_line() {
    let pair = PAIR_WORDS * size_of::<AtomicU64>();
    let is_first = |word: &AtomicU64| std::ptr::from_ref(word).addr().is_multiple_of(pair);
    for (workers, numbers, entries_max) in [(1, 1021, 1), (3, 1024, 17), (7, 333, 1000)] {
        let rules = rules(entries_max, 8);
        let books = Crew::count_words(workers, numbers);
        let memory = crew::create_words(books + CacheRegion::count_words(&rules)).unwrap();
        let MemoryLayout { header, buckets, entries, blocks, links, ages, .. } =
            MemoryLayout::new(&memory.words()[books..], &rules);
        for first in [&header[TABLE_LOCK], &header[HEAP_LOCK], &buckets[0], &entries[0]] {
            assert!(is_first(first), "{workers} {numbers} {entries_max}");
        }
        assert!(is_first(&blocks[0]) && ENTRY_WORDS == PAIR_WORDS);
        assert_eq!(BLOCK_WORDS % PAIR_WORDS, 0);
        assert_eq!(blocks.len() / BLOCK_WORDS, links.len());
        assert_eq!(entries.len() / ENTRY_WORDS, ages.len() / AGE_WORDS);
    }
}

/// No memory is allocated while a lock is held.
#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "others wait")]
fn nothing_is_unpacked_under_a_lock() {
    let rig = Rig::new(Locking::TwoTier, rules(8, 8));
    let [a, b] = rig.sides();
    assert!(!rig.ask(&a, 0, 3));
    let _grip = rig.members[1].lock(&rig.region.layout.header[HEAP_LOCK]);
    rig.ask(&b, 1, 3);
}

/// The same when entries are added, changed and evicted, and bodies added.
#[test]
#[cfg(debug_assertions)]
fn no_memory_is_taken_under_a_lock() {
    for locking in BOTH {
        let rig = Rig::new(locking, rules(6, 8));
        let [a, b] = rig.sides();
        let before = allocations_under_locks();
        for turn in 0..3 * FILES {
            let (file, tallies) = (turn % FILES, [rig.tally(0), rig.tally(1)]);
            rig.ask(&a, 0, file);
            assert!(rig.ask(&b, 1, file));
            let Entry::File(again) = rig.entry(rig.members[1], file) else { panic!("a file") };
            b.fill(file.to_string().as_bytes(), &again, &tallies[1]);
            a.put(b"x", &rig.entry(rig.members[0], file), Tick(turn), &tallies[0]);
            if file == 0 {
                assert!(!a.relieve(&tallies[0]));
            }
        }
        assert!(rig.total(Counter::CacheEvictions) > FILES);
        assert_eq!(allocations_under_locks(), before, "{locking:?}");
    }
}

/// Files that are given up under the lock are closed after it is released.
#[test]
fn what_is_given_up_is_closed_when_the_lock_is_free() {
    for locking in BOTH {
        let rig = Rig::new(locking, rules(8, 8));
        let [a, _] = rig.sides();
        (1..6).for_each(|file| assert!(!rig.ask(&a, 0, file)));
        a.exclusively(&rig.tally(0), |_| {
            a.give_up(a.layout().node(1).files()[0].load(Relaxed));
            assert_eq!(rig.crew.files(), (4, 1), "still open");
        });
        assert_eq!(rig.crew.files(), (4, 0));
    }
}

/// The unpacked entries of all processes are counted, and take no more than the cache may; those
/// that were evicted are unpacked again.
#[test]
fn what_is_unpacked_is_counted_and_bounded() {
    for locking in BOTH {
        let rig = Rig::new(locking, rules(100, 100));
        let Entry::File(largest) = rig.entry(rig.members[0], FILES - 1) else { panic!("a file") };
        let each = largest.bytes();
        drop(largest);
        // Room for all entries, and for half of what two processes unpack of them.
        let bytes_max = place_of(FILES) * (each + ENTRY_BYTES + 8);
        let rig = Rig::new(locking, CachingRules { bytes_max, ..rules(100, 100) });
        let sides: [_; 2] = rig.sides();
        let unpacked =
            |side: usize| place_of(rig.arena.slot(side).gauge(Gauge::CacheBytesUnpacked));
        for turn in 0..3 * FILES {
            for (side, cache) in sides.iter().enumerate() {
                let hit = rig.ask(cache, side, turn % FILES);
                assert_eq!(hit, turn >= FILES || side > 0, "{turn}");
                assert!(unpacked(side) <= bytes_max / 2, "{} bytes", unpacked(side));
            }
        }
        assert_eq!(rig.total(Counter::CacheEvictions), 0);
        assert!((0..2).all(|side| unpacked(side) + 2 * each > bytes_max / 2), "it is made use of");
        assert!(rig.total(Counter::CacheUnpacked) > 3 * FILES);
        let [a, b] = sides;
        (0..FILES).for_each(|file| a.remove(file.to_string().as_bytes(), &rig.tally(0)));
        b.follow(&rig.tally(1));
        assert_eq!([unpacked(0), unpacked(1)], [0, 0]);
        assert_eq!(rig.crew.files(), (0, 0));
    }
}
