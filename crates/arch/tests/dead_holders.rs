//! Processes that are killed while they hold a lock of their shared cache.
//!
//! This is a program of its own, with one thread, because it forks. `REGATTA_KILLS=1000` makes it
//! kill that many for each kind of lock and each number of processes. The wait of the others is
//! then bounded by [`WAIT_MAX`]; otherwise the numbers are small and the bound is [`PATIENCE`].
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use regatta_arch::cache::shared_cache::{CacheRegion, Locking, SharedCache};
use regatta_metrics::{Arena, Counter, Tally};
use regatta_op::{Now, Tick};
use regatta_origin::{Cache as _, CachingRules, Entry, Lookup, Representation, Site};
use regatta_sys::{
    StaticFile,
    crew::{self, Crew, Member},
    hook::{self, Held},
    process::{Child, clone_worker},
    signal::Signal,
};
use regatta_testkit::{folder, waits::until};
use std::{
    env, fs,
    os::fd::AsFd as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

/// Names that are cached; file `n` has `1 + n` bytes.
const NAMES: u64 = 6;
/// The most descriptors of the processes together.
const NUMBERS: usize = 1024;
/// Words of each process for the test.
const WORDS: usize = 4;
/// Completed calls.
const CALLS: usize = 0;
/// The order to stop with a lock, and its success.
const ORDER: usize = 1;
const REACHED: usize = 2;
/// Time in which each of the others must complete a call.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// The same on a machine that is also busy with other work.
const PATIENCE: Duration = Duration::from_secs(60);

const KINDS: [(Locking, Held); 4] = [
    (Locking::Global, Held::Table),
    (Locking::TwoTier, Held::Table),
    (Locking::TwoTier, Held::Entry),
    (Locking::TwoTier, Held::Heap),
];

/// State that all processes of one crew share.
#[derive(Clone, Copy)]
struct Bench {
    crew: Crew,
    region: CacheRegion,
    arena: &'static Arena<'static>,
    folder: &'static Path,
    site: &'static Site,
    /// Words of each process.
    words: &'static [AtomicU64],
    held: Held,
}

impl Bench {
    fn new(folder: &folder::Folder, processes: usize, locking: Locking, held: Held) -> Self {
        let caching = CachingRules { entries_max: 16, descriptors_max: 16, ..Default::default() };
        let sizes = [
            Crew::count_words(processes, NUMBERS),
            CacheRegion::count_words(&caching),
            Arena::count_words(processes),
            processes * WORDS,
        ];
        let memory = crew::create_words(sizes.iter().sum()).unwrap();
        let (books, rest) = memory.words().split_at(sizes[0]);
        let (cache, rest) = rest.split_at(sizes[1]);
        let (counters, words) = rest.split_at(sizes[2]);
        // The mapping stays for the rest of the program.
        std::mem::forget(memory);
        let folder = Box::leak(folder.to_path_buf().into_boxed_path());
        let crew = Crew::create(books, processes, NUMBERS).unwrap();
        let region = CacheRegion::new(cache, &caching, locking, processes, 7);
        let arena = Box::leak(Box::new(Arena::create(counters, processes)));
        let site = Box::leak(Box::new(Site { caching, ..Site::default() }));
        Self { crew, region, arena, folder, site, words, held }
    }

    fn word(&self, process: usize, at: usize) -> &'static AtomicU64 {
        &self.words[process * WORDS + at]
    }

    fn tally(&self, process: usize) -> Tally<'static> {
        Tally::Owned(self.arena.slot(process))
    }

    fn start(&self, process: usize) -> Child {
        let bench = *self;
        bench.word(process, ORDER).store(0, SeqCst);
        bench.word(process, REACHED).store(0, SeqCst);
        clone_worker(move || bench.work(process)).unwrap()
    }

    fn entry(&self, member: &'static Member, name: u64, file: u64) -> Entry<StaticFile> {
        let opened = member.acquire(|| {
            let file = fs::File::open(self.folder.join(file.to_string())).unwrap();
            member.lend(StaticFile::adopt(file.into()).unwrap())
        });
        let now = Now { tick: Tick(1), unix: 1_700_000_000 };
        let (path, siblings) = (name.to_string(), [None, None, None]);
        let file = Representation::new(path.as_bytes(), opened, siblings, self.site, now, now.unix);
        Entry::File(Arc::new(file))
    }

    /// Looks names up, changes the entries cached under them, and removes one, until it is killed.
    fn work(&self, process: usize) -> i32 {
        let member = self.crew.enter(process).unwrap();
        let cache = SharedCache::new(self.region, &self.site.caching, member, &[]);
        let tally = self.tally(process);
        for turn in 0_u64.. {
            if self.word(process, ORDER).swap(0, SeqCst) == 1 {
                hook::hang_locked(self.held, self.word(process, REACHED));
            }
            let (name, file) = (turn % NAMES, (turn + turn / NAMES) % NAMES);
            let path = name.to_string();
            match turn / NAMES % 4 {
                0 | 1 => {
                    let known = cache.get(path.as_bytes(), Tick(1), &tally);
                    if matches!(known, Lookup::Miss) {
                        let entry = self.entry(member, name, name);
                        cache.put(path.as_bytes(), &entry, Tick(1), &tally);
                    }
                }
                2 => {
                    let entry = self.entry(member, name, file);
                    cache.put(path.as_bytes(), &entry, Tick(1), &tally);
                }
                _ if name == 0 => cache.remove(path.as_bytes(), &tally),
                _ => cache.follow(&tally),
            }
            self.word(process, CALLS).fetch_add(1, SeqCst);
        }
        0
    }

    /// Calls that each process has completed.
    fn completed(&self, processes: usize) -> Vec<u64> {
        (0..processes).map(|process| self.word(process, CALLS).load(SeqCst)).collect()
    }

    /// Repairs of the cache by all processes.
    fn repairs(&self, processes: usize) -> u64 {
        (0..processes).map(|at| self.arena.slot(at).get(Counter::CacheRepairs)).sum()
    }
}

/// Kills `kills` of the processes, each while it holds the lock and others wait for it; after each
/// death the others repair the cache. Returns the longest time until each of the others had
/// completed a call.
fn kill(
    folder: &folder::Folder,
    processes: usize,
    locking: Locking,
    held: Held,
    kills: u64,
) -> Duration {
    let bench = Bench::new(folder, processes, locking, held);
    let mut children: Vec<Child> = (0..processes).map(|process| bench.start(process)).collect();
    for child in &children {
        bench.crew.keep(child.as_fd());
    }
    let what = format!("{processes} processes, {locking:?}, {held:?}");
    let bound = if env::var_os(KILLS).is_some() { WAIT_MAX } else { PATIENCE };
    let mut longest = Duration::ZERO;
    for turn in 0..kills {
        let victim = usize::try_from(turn).unwrap() % processes;
        bench.word(victim, ORDER).store(1, SeqCst);
        until(PATIENCE, &what, || bench.word(victim, REACHED).load(SeqCst) == 1);
        // The others wait for the lock, as far as they need it.
        let mut before = bench.completed(processes);
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(3));
            let now = bench.completed(processes);
            if std::mem::replace(&mut before, now.clone()) == now {
                break;
            }
        }
        children[victim].kill(Signal::Kill).unwrap();
        let goes_on = |now: &[u64]| (0..processes).all(|at| at == victim || now[at] > before[at]);
        let begun = Instant::now();
        until(bound, &what, || goes_on(&bench.completed(processes)));
        longest = longest.max(begun.elapsed());
        // Calls that need no lock are completed before the repair.
        until(PATIENCE, &format!("{what}: repair {turn}"), || bench.repairs(processes) > turn);
        children[victim].wait().unwrap();
        let _ = bench.crew.bury(victim, &children[victim]);
        bench.crew.give_up(children[victim].as_fd());
        children[victim] = bench.start(victim);
        bench.crew.keep(children[victim].as_fd());
    }
    for child in &children {
        child.kill(Signal::Kill).unwrap();
        child.wait().unwrap();
    }
    longest
}

const KILLS: &str = "REGATTA_KILLS";

fn main() {
    let kills = env::var(KILLS).map_or(20, |kills| kills.parse().unwrap());
    let folder = folder::Folder::new("dead-holders");
    for file in 0..NAMES {
        fs::write(folder.join(file.to_string()), vec![b'x'; usize::try_from(1 + file).unwrap()])
            .unwrap();
    }
    for processes in [3, 4] {
        for (locking, held) in KINDS {
            let longest = kill(&folder, processes, locking, held, kills);
            println!(
                "test killed_{kills}_times_{processes}_processes_{locking:?}_{held:?} ... ok: the \
                 others waited at most {} ms",
                longest.as_millis()
            );
        }
    }
    println!("test result: ok. {} passed; 0 failed; 0 ignored", 2 * KINDS.len());
}
