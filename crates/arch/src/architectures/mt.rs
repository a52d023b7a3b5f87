//! A kernel thread for each connection: every call blocks, and the kernel's scheduler decides which
//! thread runs. Variants are Knot on NPTL ([G] §II-A) and MT ([E] §2).
use crate::{
    Demand, Driver, Env, StackOption, Units, WorkError,
    cache::thread_cache::ThreadCache,
    conn::{
        accept::{AcceptOptions, AcceptRules},
        beats::Beats,
        serve::{Blocking, Means, Until, converse, hear, next},
        units::{self, Numbers},
        worker::{Own, UnitNumber, Worker},
    },
    disk::at_once::InlineDisk,
    drive::{ledger::STALL_US, perform::Below},
    options::{Choice as _, Kind, OptionSpec, Settings, choice, options},
};
use regatta_metrics::{Counter, Tally};
use regatta_origin::{Cache, CachingRules, LocalCache};
use regatta_sys::{
    StaticFile, clock,
    socket::{Mode, Steps},
};
use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread::Scope,
    time::Duration,
};

/// The driver.
pub const DRIVER: Driver = Driver {
    ignores: &["accept.count", "accept.events_per_accept"],
    units: |_| Units::Several,
    slots: |settings| ThreadsOptions::read(settings).slots,
    steps: |settings| Steps::All(ThreadsOptions::read(settings).step()),
    demand,
    stack: |settings| {
        let bytes = ThreadsOptions::read(settings).stack_bytes;
        Some(StackOption { key: "threads.stack_bytes", bytes })
    },
    ..Driver::plain(OPTIONS, |_, _| 1, work)
};

options! {
    /// The options of threads that have a connection each.
    struct ThreadsOptions, OPTIONS;

    start: Start = OptionSpec {
        key: "threads.start",
        kind: Kind::Choice(Start::WORDS),
        default: "on-demand",
        doc: "When threads are started.",
        long: "`all`: as many as there may be connections (limits.connections_max), at once. \
               `on-demand`: enough for threads.spare_min to wait for a connection; a thread that \
               takes one starts another, if fewer are left.",
    },
    spare_min: usize = OptionSpec {
        key: "threads.spare_min",
        kind: Kind::Count { min: 1, max: 1 << 20 },
        default: "25",
        doc: "The least threads that wait for a connection, while there may be more threads.",
        long: "Of all addresses together; each has threads of its own. A burst of more connections \
               waits for threads to be started, some tens of microseconds each. Not with \
               threads.start=all.",
    },
    spare_max: usize = OptionSpec {
        key: "threads.spare_max",
        kind: Kind::Count { min: 1, max: 1 << 20 },
        default: "75",
        doc: "The most threads that wait for a connection.",
        long: "A thread whose connection is closed ends if this number waits already. Not with \
               threads.start=all.",
    },
    stack_bytes: usize = OptionSpec {
        key: "threads.stack_bytes",
        kind: Kind::Bytes { min: 32 << 10, max: 8 << 20 },
        default: "64 KiB",
        doc: "The stack of a thread.",
        long: "Addresses that are reserved: of memory a thread takes the pages that it has \
               touched.",
    },
    cache: CacheOf = OptionSpec {
        key: "threads.cache",
        kind: Kind::Choice(CacheOf::WORDS),
        default: "shared",
        doc: "Whether the threads share one cache.",
        long: "`shared`: one cache under locks. `own`: each thread has one, without locks, and its \
               part of cache.bytes_max, cache.descriptors_max, cache.entries_max and \
               cache.negatives_max; what one has cached the others read again.",
    },
    step_ms: u64 = OptionSpec {
        key: "threads.step_ms",
        kind: Kind::Millis { min: 20, max: 60_000 },
        default: "1 s",
        doc: "How long a call waits before its thread looks at what else there is.",
        long: "A deadline is kept whatever this is; an idle connection notices a drain so much \
               later. Each thread wakes once a step while it waits: with ten thousand, a longer \
               step saves ten thousand wake-ups a second.",
    },
    slots: usize = OptionSpec {
        key: "threads.slots",
        kind: Kind::Count { min: 2, max: 64 },
        default: "16",
        doc: "How many sets of counters the threads share.",
        long: "Threads that count in the same set at the same moment wait for each other's cache \
               lines. `regatta top` has a row for each set.",
    },
    stall_us: u64 = STALL_US,
}

choice! {
    /// Start of threads (`threads.start`).
    enum Start {
        /// At the beginning, a thread for each connection that may be open.
        All = "all",
        /// On demand, when too few wait for a connection.
        OnDemand = "on-demand",
    }
}

choice! {
    /// Owner of a cache (`threads.cache`).
    enum CacheOf {
        /// All threads.
        Shared = "shared",
        /// Each thread its own.
        Own = "own",
    }
}

impl ThreadsOptions {
    const fn step(&self) -> Duration {
        Duration::from_millis(self.step_ms)
    }
}

/// Demand of a thread for each connection, and the first; each has a stack and its guard.
fn demand(settings: &Settings, connections: usize) -> Demand {
    let threads = connections as u64 + 1;
    let stack = ThreadsOptions::read(settings).stack_bytes as u64;
    let address_bytes = threads.saturating_mul(stack);
    Demand { tasks: threads, mappings: 2 * threads, address_bytes, descriptors: 0 }
}

/// Runs one process: its first thread follows the master, the others serve a connection each.
fn work(env: &Env, process: usize) -> Result<(), WorkError> {
    let pool = Pool::new(env, process)?;
    let own = Own::unit(env, process, UnitNumber { unit: 0, units: pool.units() }, None)?;
    units::scope(env, process, |scope| {
        let lower = "limits.connections_max";
        pool.fill(scope, own.tally).map_err(|error| WorkError::Thread { lower, error })?;
        let none = LocalCache::new(&env.site.caching, env.site.seed);
        let cache = pool.shared.as_ref().map_or(&none as &dyn Cache<StaticFile>, |cache| cache);
        let worker = own.worker(cache, None, pool.rules, pool.stall_ns);
        let worker = worker.with_pulse(pool.beats.pulse(true));
        // Retry threads that could not be started before.
        hear(worker, &mut || drop(pool.fill(scope, own.tally)))
            .map_err(WorkError::stopped("the first thread"))
    })
}

/// The threads of a process, and the state that they start with.
struct Pool<'e> {
    env: &'e Env,
    process: usize,
    options: ThreadsOptions,
    rules: AcceptRules,
    stall_ns: u64,
    /// The rules of a cache.
    caching: CachingRules,
    /// The cache, if the threads share one.
    shared: Option<ThreadCache>,
    /// The threads of each listener.
    crews: Vec<Crew>,
    free: Numbers,
    /// Proof that each thread still returns to its other duties.
    beats: Beats,
}

impl<'e> Pool<'e> {
    fn new(env: &'e Env, process: usize) -> Result<Self, WorkError> {
        let options = ThreadsOptions::read(&env.settings);
        let (most, listeners) = (env.shares[process].connections_max, env.listeners(process).len());
        if most < listeners {
            return Err(WorkError::Addresses { connections: most, addresses: listeners });
        }
        let spare = match options.start {
            Start::All => [most; 2],
            Start::OnDemand => [options.spare_min, options.spare_max],
        };
        let crew = |at| {
            let most = most / listeners + usize::from(at < most % listeners);
            Crew::new(most, spare.map(|threads| threads.div_ceil(listeners)))
        };
        let accept = AcceptOptions::read(&env.settings);
        let mut caching = env.site.caching.clone();
        if options.cache == CacheOf::Own {
            share_out(&mut caching, most);
        }
        let share = || ThreadCache::new(&caching, env.site.seed);
        Ok(Self {
            env,
            process,
            rules: AcceptRules::new(&accept, 1, Mode::Blocking, false),
            stall_ns: options.stall_us * 1000,
            shared: (options.cache == CacheOf::Shared).then(share),
            crews: (0..listeners).map(crew).collect(),
            free: Numbers::new(1..most + 1),
            beats: Beats::default(),
            options,
            caching,
        })
    }

    /// The most threads, including the first.
    fn units(&self) -> usize {
        self.crews.iter().map(|crew| crew.most).sum::<usize>() + 1
    }

    /// Starts missing threads for each listener. A listener that gets none now may get one later.
    ///
    /// # Errors
    /// No thread can be started, and there are none.
    fn fill<'s>(&'s self, scope: &'s Scope<'s, '_>, tally: Tally<'_>) -> io::Result<()> {
        let mut failed = None;
        for (at, crew) in self.crews.iter().enumerate() {
            while crew.joins() {
                if let Err(error) = self.start(scope, at, tally) {
                    failed = Some(error);
                    break;
                }
            }
        }
        let there_are_none = self.crews.iter().all(|crew| crew.all.load(Relaxed) == 0);
        failed.filter(|_| there_are_none).map_or(Ok(()), Err)
    }

    /// Starts a thread that has joined the crew of listener `at`.
    fn start<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        at: usize,
        tally: Tally<'_>,
    ) -> io::Result<()> {
        let unit = self.free.take().expect("as many numbers as there may be threads");
        let life = move || self.life(scope, unit, at);
        let started = units::spawn(scope, "conn", self.options.stack_bytes, life);
        if started.is_err() {
            self.free.give(unit);
            self.crews[at].leaves_idle();
        } else {
            tally.add(Counter::ThreadsStarted, 1);
            let open: usize = self.crews.iter().map(|crew| crew.all.load(Relaxed)).sum();
            tally.max(Counter::ThreadsOpenMax, open as u64);
        }
        started
    }

    /// Body of a thread: one connection after another, from listener `at`.
    fn life<'s>(&'s self, scope: &'s Scope<'s, '_>, unit: usize, at: usize) {
        let Self { env, process, rules, stall_ns, .. } = *self;
        let own = Own::unit(env, process, UnitNumber { unit, units: self.units() }, None);
        let own = own.expect("only the first unit goes to its processors, and there is no crew");
        let (crew, tally) = (&self.crews[at], own.tally);
        let local = self.shared.is_none().then(|| LocalCache::new(&self.caching, env.site.seed));
        let shared = self.shared.as_ref().map(|cache| cache as &dyn Cache<StaticFile>);
        let cache = shared.or(local.as_ref().map(|cache| cache as _)).expect("one of the two");
        let worker: Worker<'_, Blocking> = own.worker(cache, None, rules, stall_ns);
        let mut worker = worker.with_pulse(self.beats.pulse(false));
        let mut disk = InlineDisk(Below { root: own.root, rules: env.rules });
        let buffer = vec![0; env.site.limits.head_bytes_max].into();
        let (bytes_max, beat) = (u64::MAX, worker.beat().cloned());
        let mut means = Means { disk: &mut disk, buffer, bytes_max, listener: at, beat };
        let (step, mut since) = (self.options.step(), clock::nanos());
        let mut spent = |on| {
            let before = std::mem::replace(&mut since, clock::nanos());
            tally.add(on, since - before);
        };
        while let Some(accepted) = next(&mut worker, step, &mut means) {
            spent(Counter::ThreadsIdleNs);
            if crew.takes_one() {
                // If it cannot be started, the thread that takes the next connection tries again.
                let _ = self.start(scope, at, tally);
            }
            let key = worker.admit(accepted, Blocking::new(step));
            let _closed = converse(&mut worker, key, step, &mut means, Until::Closed);
            spent(Counter::ThreadsBusyNs);
            if !crew.stays() {
                break;
            }
        }
        worker.around().log.flush();
        if let Some(local) = &local {
            // The cache ends with the thread.
            local.clear(clock::now().tick, &tally);
        }
        tally.add(Counter::ThreadsEnded, 1);
        self.free.give(unit);
        crew.leaves();
    }
}

/// Reduces the bounds of a cache to the share of one of `caches`.
fn share_out(caching: &mut CachingRules, caches: usize) {
    for bound in [&mut caching.bytes_max, &mut caching.entries_max, &mut caching.negatives_max] {
        *bound = bound.div_ceil(caches);
    }
    // The limit on descriptors is that of the process.
    caching.descriptors_max /= caches;
}

/// The threads of one listener: their number, and how many of them wait for a connection.
struct Crew {
    most: usize,
    /// The least and the most threads that wait, unless there are too few or too many.
    spare_min: usize,
    spare_max: usize,
    all: AtomicUsize,
    idle: AtomicUsize,
}

impl Crew {
    fn new(most: usize, [spare_min, spare_max]: [usize; 2]) -> Self {
        let (all, idle) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { most, spare_min, spare_max, all, idle }
    }

    /// Whether there is to be another thread, which is counted from now on.
    fn joins(&self) -> bool {
        let more =
            |all| (all < self.most && self.idle.load(Relaxed) < self.spare_min).then(|| all + 1);
        let joins = self.all.fetch_update(Relaxed, Relaxed, more).is_ok();
        self.idle.fetch_add(usize::from(joins), Relaxed);
        joins
    }

    /// Counts a waiting thread as busy. Returns whether there is to be another, as [`Crew::joins`].
    fn takes_one(&self) -> bool {
        self.idle.fetch_sub(1, Relaxed);
        self.joins()
    }

    /// Counts the end of a connection. Returns whether its thread waits for another, or ends.
    fn stays(&self) -> bool {
        let waits = |idle| (idle < self.spare_max).then_some(idle + 1);
        self.idle.fetch_update(Relaxed, Relaxed, waits).is_ok()
    }

    /// Removes a thread that has ended, so that another may have its number.
    fn leaves(&self) {
        self.all.fetch_sub(1, Relaxed);
    }

    /// Removes a thread that was counted as waiting but does not exist.
    fn leaves_idle(&self) {
        self.idle.fetch_sub(1, Relaxed);
        self.leaves();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dice::{Dice, SEEDS};

    /// Threads take connections and lose them at random. There are never more than allowed, and
    /// enough of them wait whenever possible.
    #[test]
    fn enough_threads_wait_and_not_too_many() {
        for seed in 0..SEEDS {
            let mut dice = Dice::new(seed);
            let (most, min) = (1 + dice.below(12), 1 + dice.below(4));
            let crew = Crew::new(most, [min, min + dice.below(4)]);
            let (mut idle, mut busy, mut ending) = (0, 0, 0);
            while crew.joins() {
                idle += 1;
            }
            for _ in 0..64 {
                let all = idle + busy + ending;
                assert!(all <= most, "seed {seed}: each has a number");
                assert!(
                    idle >= min.min(most - busy - ending),
                    "seed {seed}: {idle} of {most} wait"
                );
                assert!(idle <= crew.spare_max, "seed {seed}: {idle} wait");
                assert_eq!(crew.idle.load(Relaxed), idle, "seed {seed}");
                assert_eq!(crew.all.load(Relaxed), all, "seed {seed}");
                if ending > 0 && dice.below(2) == 0 {
                    crew.leaves();
                    ending -= 1;
                    // As the first thread does.
                    while crew.joins() {
                        idle += 1;
                    }
                } else if idle > 0 && dice.below(2) == 0 {
                    (idle, busy) = (idle - 1, busy + 1);
                    match (crew.takes_one(), dice.below(4)) {
                        (true, 0) => {
                            // The thread could not be started; the first thread tries again.
                            crew.leaves_idle();
                            idle += usize::from(crew.joins());
                        }
                        (joins, _) => idle += usize::from(joins),
                    }
                } else if busy > 0 {
                    let stays = usize::from(crew.stays());
                    (idle, busy, ending) = (idle + stays, busy - 1, ending + 1 - stays);
                }
            }
        }
    }

    #[test]
    fn caches_of_their_own_are_no_more_than_one() {
        let mut caching = CachingRules { descriptors_max: 100, ..CachingRules::default() };
        let all = caching.bytes_max;
        share_out(&mut caching, 64);
        assert_eq!((caching.bytes_max, caching.descriptors_max), (all / 64, 1));
    }
}
