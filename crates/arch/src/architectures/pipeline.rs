//! A process that is a pipeline: the state that its threads share, and the body of each thread. The
//! drivers of watpipe and seda say which stages there are.
//!
//! A *home* is a thread that accepts: it learns when one of its connections has ended.
use crate::{
    Demand, Driver, Env, Units, WorkError,
    architectures::event::{self, EventOptions, PollerKind},
    cache::thread_cache::ThreadCache,
    conn::{
        accept::{AcceptOptions, AcceptRules},
        beats::Beats,
        step::{Io, Leaves, Readiness, TurnRules},
        units::{self, Numbers},
        worker::{Own, StageSlot, Worker},
    },
    disk::at_once::{Disk, InlineDisk},
    drive::perform::Below,
    loops::{
        event_loop::EventLoop,
        line::{
            self, Routes, StageJob, StageLine, Station,
            options::StagesOptions,
            poll::{Does, PollStage, Takes},
            pools::StageThreads,
            threads::{Extras, StageThread, Work},
        },
    },
    options::{OptionSpec, Settings},
    sync::lock,
};
use regatta_metrics::Counter;
use regatta_sys::{
    clock,
    wait::{Epoll, Poll, Poller, Select, Trigger},
};
use std::{
    io,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread::Scope,
    time::{Duration, Instant},
};

/// Stations of each pipeline: the poller that waits until peers send, the poller that waits for
/// room, then those of threads; first of those that have pools.
pub(crate) const READ: usize = 0;
pub(crate) const WRITE_POLL: usize = 1;
pub(crate) const POOLS_AT: usize = 2;

/// The stack of a thread, bytes: [S] §8 touches 16 to 64 KiB.
const STACK_BYTES: usize = 128 << 10;

/// The longest that a thread sleeps before it checks whether it is to end.
pub(crate) const SLEEP_MAX: Duration = Duration::from_secs(1);

/// A driver whose processes are pipelines.
pub(crate) const fn driver(
    options: &'static [OptionSpec],
    work: fn(&Env, process: usize) -> Result<(), WorkError>,
) -> Driver {
    let copies =
        |settings: &Settings, processors| event::copies_and_processes(settings, processors).0;
    Driver {
        units: |_| Units::Several,
        is_pipeline: true,
        // The accepting thread learns late that a connection has been closed.
        ignores: &["accept.on_close"],
        ..Driver::plain(options, copies, work)
    }
}

/// Resources that this many threads require of the system.
pub(crate) const fn demand(threads: usize) -> Demand {
    let tasks = threads as u64;
    let address_bytes = tasks * STACK_BYTES as u64;
    Demand { tasks, mappings: 2 * tasks, address_bytes, descriptors: 0 }
}

/// Properties of one pipeline.
pub(crate) struct Plan<'e> {
    pub(crate) stations: Vec<Station<'e, StageJob>>,
    /// Pools of the stations from [`POOLS_AT`] on.
    pub(crate) pools: Vec<StageThreads>,
    /// Number of threads that accept, and the remedy if they are more than the connections.
    pub(crate) homes: (usize, &'static str),
    /// Parts of the pipeline, to which connections go round-robin.
    pub(crate) parts: usize,
    /// Options to lower if the pipeline's threads cannot be started.
    pub(crate) lower: &'static str,
}

/// Work of a thread of a stage, and its rules.
pub(crate) struct StageWork<'w> {
    pub(crate) rules: TurnRules,
    pub(crate) work: Work<'w>,
    pub(crate) extras: Extras<'w>,
}

/// State that the threads of a pipeline share.
pub(crate) struct Process<'e> {
    env: &'e Env,
    /// Index of the process.
    at: usize,
    pub(crate) event: EventOptions,
    pub(crate) accept: AcceptOptions,
    pub(crate) stages: StagesOptions,
    pub(crate) line: StageLine<'e>,
    pools: Vec<StageThreads>,
    cache: ThreadCache,
    parts: u8,
    lower: &'static str,
    /// Numbers of threads in pools, and the next number of the others, which start only once.
    free: Numbers,
    next: AtomicUsize,
    beats: Beats,
    /// Pollers for the threads that poll, made before connections take all descriptors.
    pollers: Mutex<Vec<Epoll>>,
    /// Reason why the process must end.
    failed: Mutex<Option<WorkError>>,
}

impl<'e> Process<'e> {
    pub(crate) fn new(env: &'e Env, at: usize, plan: Plan<'e>) -> Result<Self, WorkError> {
        let Plan { stations, pools, homes: (homes, fewer), parts, lower } = plan;
        let connections = env.shares[at].connections_max;
        if connections < homes {
            return Err(WorkError::Acceptors { connections, acceptors: homes, fewer });
        }
        let event = EventOptions::read(&env.settings);
        let pollers = make_pollers(&event, POOLS_AT + homes).map_err(WorkError::Poller)?;
        let first = 1 + pools.iter().map(|pool| pool.most() as usize).sum::<usize>();
        Ok(Self {
            env,
            at,
            event,
            accept: AcceptOptions::read(&env.settings),
            stages: StagesOptions::read(&env.settings),
            line: StageLine::new(stations, homes).map_err(WorkError::Pipeline)?,
            pools,
            cache: ThreadCache::new(&env.site.caching, env.site.seed),
            parts: u8::try_from(parts).unwrap_or(u8::MAX),
            lower,
            free: Numbers::new(1..first),
            next: AtomicUsize::new(first),
            beats: Beats::default(),
            pollers: Mutex::new(pollers),
            failed: Mutex::new(None),
        })
    }

    /// Body of the first thread, and end of the process. `start` starts the other threads. One of
    /// them may check the pools until it learns that the first has ended. The first accepts, and
    /// follows the master for all.
    pub(crate) fn run<'env>(
        &'env self,
        own: &Own<'_>,
        start: impl for<'s> FnOnce(&'s Scope<'s, 'env>, Receiver<()>),
    ) -> Result<(), WorkError> {
        units::scope(self.env, self.at, |scope| {
            let (_until_it_ends, ended) = mpsc::channel();
            start(scope, ended);
            self.ends(self.accept(own, 0));
            // No thread checks the others any more.
            own.tally.slot().set_oldest_beat(None);
        });
        let failed = lock(&self.failed).take();
        line::end(&self.line, &mut self.worker(own, 0));
        failed.map_or(Ok(()), Err)
    }

    /// Starts a thread outside the pools.
    pub(crate) fn spawn<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        name: &str,
        life: impl FnOnce(usize) -> Result<(), WorkError> + Send + 's,
    ) {
        let unit = self.next.fetch_add(1, Relaxed);
        let started = units::spawn(scope, name, STACK_BYTES, move || self.ends(life(unit)));
        self.ends(started.map_err(|error| self.cannot_start(error)));
    }

    /// Starts the other threads that accept. They count in one slot.
    pub(crate) fn spawn_acceptors<'s>(&'s self, scope: &'s Scope<'s, '_>, name: &str, slot: usize) {
        for home in 1..self.line.homes() {
            self.spawn(scope, name, move |unit| {
                self.accept(&self.own(unit, StageSlot::shared(slot))?, home)
            });
        }
    }

    /// Calls `start` for each thread that the pools keep.
    pub(crate) fn fill(&self, start: &dyn Fn(usize)) {
        for (at, pool) in (POOLS_AT..).zip(&self.pools) {
            (0..pool.least()).for_each(|_| start(at));
        }
    }

    /// Starts a thread of the pool at a station. If that fails, the others continue, unless they
    /// are fewer than the pool keeps.
    pub(crate) fn join<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        at: usize,
        life: impl FnOnce(usize) -> Result<(), WorkError> + Send + 's,
    ) {
        let pool = self.pool(at);
        let Some(unit) = self.free.take() else { return };
        let threads = pool.joins();
        let life = move || {
            self.ends(life(unit));
            self.free.give(unit);
        };
        match units::spawn(scope, pool.name(), STACK_BYTES, life) {
            Ok(()) => self.line.station(at).tally.max(Counter::ThreadsOpenMax, threads.into()),
            Err(error) => {
                self.free.give(unit);
                pool.fails();
                if pool.threads() < pool.least() {
                    self.ends(Err(self.cannot_start(error)));
                }
            }
        }
    }

    /// Body of the control thread, until the first has ended. It checks each pool when due, and
    /// starts threads by `start`.
    pub(crate) fn control(
        &self,
        unit: usize,
        slot: usize,
        ended: &Receiver<()>,
        start: &dyn Fn(usize),
    ) -> Result<(), WorkError> {
        let own = self.own(unit, StageSlot::alone(slot))?;
        let worker = self.worker(&own, 0).fed();
        let log = worker.around().log;
        let patience = || {
            let now = clock::nanos();
            self.pools.iter().filter_map(|pool| pool.due_in(now)).fold(SLEEP_MAX, Duration::min)
        };
        while ended.recv_timeout(patience()) == Err(RecvTimeoutError::Timeout)
            && !self.line.is_closed()
        {
            worker.beats();
            log.tick(clock::now());
            for (at, pool) in (POOLS_AT..).zip(&self.pools) {
                let wanted = pool.check(self.line.len(at), self.line.station(at).tally, log);
                (pool.threads()..wanted).for_each(|_| start(at));
            }
        }
        log.flush();
        Ok(())
    }

    /// Body of a stage with a poller.
    pub(crate) fn poll(
        &self,
        unit: usize,
        slot: StageSlot,
        rules: TurnRules,
        stage: PollStage<'_>,
    ) -> Result<(), WorkError> {
        let own = self.own(unit, slot)?;
        self.poll_with(&own, self.worker(&own, 0), rules, stage)
    }

    /// Body of a thread of a stage. With `idle_max`, the thread ends before the line does if its
    /// pool has one too many, or if it was idle for this long.
    pub(crate) fn serve(
        &self,
        unit: usize,
        slot: StageSlot,
        does: StageWork<'_>,
        idle_max: Option<Duration>,
    ) -> Result<(), WorkError> {
        let own = self.own(unit, slot)?;
        let (mut disk, at) = (self.disk(&own), does.work.at);
        let thread = self.thread(&own, &mut disk, does);
        match idle_max {
            Some(idle_max) => run_in_pool(thread, self.pool(at), idle_max),
            None => thread.run(),
        }
        Ok(())
    }

    /// Makes a thread's part in a stage, which may be the whole thread.
    pub(crate) fn thread<'w>(
        &'w self,
        own: &'w Own<'_>,
        disk: &'w mut dyn Disk,
        StageWork { rules, work, extras }: StageWork<'w>,
    ) -> StageThread<'w> {
        let (io, worker) = (Io::new(disk, rules, &self.env.site.limits), self.worker(own, 0));
        // A stage may have hundreds of threads.
        own.serves_one();
        StageThread::new(worker, io, &self.line, work).with(extras)
    }

    /// Resources of one thread that counts in this slot.
    pub(crate) fn own(&self, unit: usize, slot: StageSlot) -> Result<Own<'e>, WorkError> {
        Own::stage(self.env, self.at, unit, slot)
    }

    /// Disk of a thread, which waits for it.
    pub(crate) const fn disk<'o>(&self, own: &Own<'o>) -> InlineDisk<'o> {
        InlineDisk(Below { root: own.root, rules: self.env.rules })
    }

    /// The pool at a station.
    pub(crate) fn pool(&self, at: usize) -> &StageThreads {
        &self.pools[at - POOLS_AT]
    }

    /// Rules of a thread that leaves these operations to others.
    pub(crate) fn rules(&self, leaves: Leaves) -> TurnRules {
        let window_ms = self.env.site.deadlines.send_window_ms;
        TurnRules { leaves, ..event::rules(&self.accept, &self.event, window_ms) }
    }

    /// Makes a worker that accepts from the listeners of one home, or does not accept.
    fn worker<'w>(&'w self, own: &'w Own<'_>, home: usize) -> Worker<'w, Readiness> {
        let (all, homes) = (self.env.shares[self.at].connections_max, self.line.homes());
        let most = all / homes + usize::from(home < all % homes);
        let rules = AcceptRules::new(&self.accept, most, self.event.mode(), false);
        let pulse = self.beats.pulse(own.is_first());
        own.worker(&self.cache, None, rules, self.event.stall_ns()).with_pulse(pulse)
    }

    /// Accepts until the process is to end.
    fn accept(&self, own: &Own<'_>, home: usize) -> Result<(), WorkError> {
        let which = u8::try_from(home).expect("no more than `ADDRESSES_MAX`");
        let takes = Takes::Listeners { home: which, to: READ, parts: self.parts };
        let does = Does { takes, routes: Routes::all(0), hears: home == 0, barrier: None };
        let mut worker = self.worker(own, home);
        if self.line.homes() > 1 {
            worker = worker.accepts_only(home);
        }
        self.poll_with(own, worker, self.rules(Leaves::NONE), PollStage::new(&self.line, does))
    }

    fn poll_with(
        &self,
        own: &Own<'_>,
        worker: Worker<'_, Readiness>,
        rules: TurnRules,
        stage: PollStage<'_>,
    ) -> Result<(), WorkError> {
        let disk = self.disk(own);
        match self.event.poller {
            PollerKind::Epoll | PollerKind::EpollEdge => {
                let epoll = lock(&self.pollers).pop().expect("one for each thread that polls");
                turns(epoll, worker, rules, disk, stage)
            }
            PollerKind::Poll => turns(Poll::new(), worker, rules, disk, stage),
            PollerKind::Select => turns(Select::new(), worker, rules, disk, stage),
        }
    }

    /// Records the end of a thread. If the thread failed, all end.
    fn ends(&self, result: Result<(), WorkError>) {
        let Err(error) = result else { return };
        lock(&self.failed).get_or_insert(error);
        self.line.close();
    }

    const fn cannot_start(&self, error: io::Error) -> WorkError {
        WorkError::Thread { lower: self.lower, error }
    }
}

/// Makes pollers that take descriptors; none if the kind takes none.
fn make_pollers(event: &EventOptions, count: usize) -> io::Result<Vec<Epoll>> {
    let trigger = match event.poller {
        PollerKind::Epoll => Trigger::Level,
        PollerKind::EpollEdge => Trigger::Edge,
        PollerKind::Poll | PollerKind::Select => return Ok(Vec::new()),
    };
    (0..count).map(|_| event::epoll(event, trigger)).collect()
}

/// Runs the rounds of a stage with a poller.
fn turns(
    poller: impl Poller,
    worker: Worker<'_, Readiness>,
    rules: TurnRules,
    mut disk: InlineDisk<'_>,
    stage: PollStage<'_>,
) -> Result<(), WorkError> {
    let poll = EventLoop::new(poller, worker, rules, &mut disk).at_stage(stage);
    poll.run().map_err(WorkError::stopped("a stage"))
}

/// Serves until the line is closed or the pool has one thread too many. Also ends if this thread
/// was idle for `idle_max` and the pool keeps enough others.
fn run_in_pool(mut thread: StageThread<'_>, pool: &StageThreads, idle_max: Duration) {
    let mut since = Instant::now();
    while thread.goes_on() {
        let has_served = thread.visit(idle_max.min(SLEEP_MAX));
        if has_served {
            since = Instant::now();
        }
        let is_idle = since.elapsed() >= idle_max;
        if (has_served || is_idle) && pool.leaves(is_idle) {
            return;
        }
    }
}
