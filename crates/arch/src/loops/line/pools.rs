//! The threads of a stage: how many there are, and how much each takes at once.
use crate::{
    WorkerLog,
    control::{Adjustment, Batching, Controller as _, Decided, PoolSize, Sample},
    loops::line::{
        gate::show,
        poll::Told,
        threads::{BatchSize, Watches},
    },
    sync::lock,
};
use regatta_metrics::{Dial, Tally};
use regatta_sys::clock;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Numbers of threads that a pool may have.
#[derive(Clone, Copy, Debug)]
pub struct ThreadBounds {
    /// The least.
    pub least: u32,
    /// The most.
    pub most: u32,
}

/// The threads of one stage.
#[derive(Debug)]
pub struct StageThreads {
    name: &'static str,
    bounds: ThreadBounds,
    threads: AtomicU32,
    /// Threads that are left when those beyond what a controller wants have ended.
    most: AtomicU32,
    batch_most: AtomicU32,
    served: AtomicU64,
    decisions: AtomicU64,
    size: Mutex<Option<PoolSize>>,
    batching: Option<Mutex<Batching>>,
    told: Option<Told>,
}

impl StageThreads {
    /// A pool without threads, under these controllers.
    #[must_use]
    pub fn new(
        name: &'static str,
        bounds: ThreadBounds,
        size: Option<PoolSize>,
        batching: Option<Batching>,
        told: Option<Told>,
    ) -> Self {
        let bounds = ThreadBounds { most: bounds.most.max(bounds.least), ..bounds };
        let batch_most = batching.as_ref().map_or(u32::MAX, Batching::size);
        Self {
            name,
            bounds,
            threads: AtomicU32::new(0),
            most: AtomicU32::new(bounds.most),
            batch_most: AtomicU32::new(batch_most),
            served: AtomicU64::new(0),
            decisions: AtomicU64::new(0),
            size: Mutex::new(size),
            batching: batching.map(Mutex::new),
            told,
        }
    }

    /// Each thread takes one at a time: what it does may take long, and more threads do more of it
    /// at once.
    #[must_use]
    pub fn one_at_a_time(mut self) -> Self {
        (self.batch_most, self.batching) = (AtomicU32::new(1), None);
        self
    }

    /// Name of the threads.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The least threads.
    #[must_use]
    pub const fn least(&self) -> u32 {
        self.bounds.least
    }

    /// The most threads.
    #[must_use]
    pub const fn most(&self) -> u32 {
        self.bounds.most
    }

    /// Threads that there are.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.threads.load(Relaxed)
    }

    /// Counts one more thread; returns how many there are.
    pub fn joins(&self) -> u32 {
        self.threads.fetch_add(1, Relaxed) + 1
    }

    /// Counts one thread less, which has not asked.
    pub fn fails(&self) {
        self.threads.fetch_sub(1, Relaxed);
    }

    /// True if a thread is to end: one that has had nothing to do for too long, if it is `idle`, or
    /// one that has just served. It is not counted any more.
    pub fn leaves(&self, idle: bool) -> bool {
        let least = if idle { self.least() } else { self.most.load(Relaxed).max(self.least()) };
        let fewer = |threads: u32| (threads > least).then(|| threads - 1);
        self.threads.fetch_update(Relaxed, Relaxed, fewer).is_ok()
    }

    /// Most that a thread takes at once.
    #[must_use]
    pub fn batch(&self) -> BatchSize<'_> {
        BatchSize::Shared(&self.batch_most)
    }

    /// Time until a check may change something; `None`: none does.
    #[must_use]
    pub fn due_in(&self, now_ns: u64) -> Option<Duration> {
        lock(&self.size).as_ref().map(|size| size.due_in(now_ns))
    }

    /// Checks whether there are enough threads while `queue` wait. Returns the number wanted.
    pub fn check(&self, queue: usize, tally: Tally<'_>, log: &dyn WorkerLog) -> u32 {
        let threads = self.threads();
        let sample = Sample {
            queue: queue as u64,
            threads,
            takes: self.served.swap(0, Relaxed),
            ..Sample::default()
        };
        let mut decided = Vec::new();
        if let Some(size) = &mut *lock(&self.size) {
            size.observe(&sample, clock::nanos(), &mut decided);
        }
        let mut wanted = threads;
        for decided in decided {
            self.report(&decided, tally, log);
            if let Some(Adjustment::Threads(size)) = decided.decision {
                wanted = size.min(self.most());
                // Those beyond it end when they have served what they have.
                let most = if wanted < threads { wanted } else { self.most() };
                self.most.store(most, Relaxed);
            }
        }
        tally.slot().set_dial(Dial::Threads, threads.into());
        wanted.max(self.least())
    }

    fn report(&self, decided: &Decided, tally: Tally<'_>, log: &dyn WorkerLog) {
        show(decided, tally);
        let decisions = self.decisions.fetch_add(1, Relaxed) + 1;
        tally.slot().set_dial(Dial::Decisions, decisions);
        if let Some(told) = self.told {
            told.report(log, self.name, decided);
        }
    }
}

impl Watches for StageThreads {
    fn visited(&self, served: usize, _: u64, station: Tally<'_>, log: &dyn WorkerLog) {
        self.served.fetch_add(served as u64, Relaxed);
        let Some(batching) = &self.batching else { return };
        let sample = Sample { takes: served as u64, ..Sample::default() };
        // Nothing is added before a window is over, and one thing then.
        let mut decided = Vec::new();
        lock(batching).observe(&sample, clock::nanos(), &mut decided);
        for decided in decided {
            if let Some(Adjustment::Batch(most)) = decided.decision {
                self.batch_most.store(most, Relaxed);
            }
            self.report(&decided, station, log);
        }
    }
}
