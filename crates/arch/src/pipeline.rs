//! A process that is a pipeline: what its threads share, and how each of them lives.
use crate::{
    Demand, Driver, Env, Units,
    drive::perform::Below,
    event::{self, EventOptions, PollerKind},
    kit::{
        accept::{AcceptOptions, AcceptRules},
        beats::Beats,
        disk::{Disk, InlineDisk},
        event_loop::EventLoop,
        line::{
            self, Job, Line, Routes, Station,
            options::StagesOptions,
            poll::{Does, Stage, Takes},
            pools::Pool,
            threads::{Extras, StageThread, Work},
        },
        step::{Io, Leaves, Readiness, Rules},
        sync::lock,
        thread_cache::ThreadCache,
        units::{self, Numbers},
        worker::{Own, Worker},
    },
    options::{OptionSpec, Settings},
};
use regatta_metrics::Counter;
use regatta_sys::{
    clock,
    wait::{Poll, Poller, Select, Trigger},
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

/// The stations of each pipeline: those of the two stages with pollers, of which one waits until
/// peers send and one until they have room, then those of threads; first of those that have pools.
pub(crate) const READ: usize = 0;
pub(crate) const WRITE_POLL: usize = 1;
pub(crate) const POOLS_AT: usize = 2;

/// The stack of a thread, bytes: [S] §8 touches 16 to 64 KiB.
const STACK_BYTES: usize = 128 << 10;

/// The longest that a thread sleeps before it looks whether it is to end.
pub(crate) const LOOK_MAX: Duration = Duration::from_secs(1);

/// A driver whose processes are pipelines.
pub(crate) const fn driver(
    options: &'static [OptionSpec],
    work: fn(&Env, process: usize) -> Result<(), String>,
) -> Driver {
    let copies =
        |settings: &Settings, processors| event::copies_and_processes(settings, processors).0;
    Driver {
        units: |_| Units::Several,
        is_pipeline: true,
        // Who accepts hears late that a connection has been closed.
        ignores: &["accept.on_close"],
        ..Driver::plain(options, copies, work)
    }
}

/// What so many threads want of the system.
pub(crate) const fn demand(threads: usize) -> Demand {
    let tasks = threads as u64;
    let address_bytes = tasks * STACK_BYTES as u64;
    Demand { tasks, mappings: 2 * tasks, address_bytes, descriptors: 0 }
}

/// Why there is no pipeline.
pub(crate) fn no_descriptors(error: io::Error) -> String {
    format!("cannot make a pipeline: {error}")
}

/// What is peculiar to a pipeline.
pub(crate) struct Plan<'e> {
    pub(crate) stations: Vec<Station<'e, Job>>,
    /// Those of the stations from [`POOLS_AT`] on.
    pub(crate) pools: Vec<Pool>,
    /// Threads that accept, and what is to be done if there are more than connections.
    pub(crate) homes: (usize, &'static str),
    /// Parts of the pipeline, to which connections go in turn.
    pub(crate) parts: usize,
    /// The options to be lowered if its threads cannot be started.
    pub(crate) lower: &'static str,
}

/// What the threads of a pipeline share.
pub(crate) struct Process<'e> {
    env: &'e Env,
    /// Which of the server's.
    at: usize,
    pub(crate) event: EventOptions,
    pub(crate) accept: AcceptOptions,
    pub(crate) stages: StagesOptions,
    pub(crate) line: Line<'e>,
    pools: Vec<Pool>,
    cache: ThreadCache,
    parts: u8,
    lower: &'static str,
    /// Numbers of threads in pools, and the next of the others, which are never started again.
    free: Numbers,
    next: AtomicUsize,
    beats: Beats,
    /// Why it cannot go on.
    failed: Mutex<Option<String>>,
}

impl<'e> Process<'e> {
    pub(crate) fn new(env: &'e Env, at: usize, plan: Plan<'e>) -> Result<Self, String> {
        let Plan { stations, pools, homes: (homes, fewer), parts, lower } = plan;
        let most = env.shares[at].connections_max;
        if most < homes {
            return Err(format!(
                "limits.connections_max: {most} connections cannot be shared out among {homes} \
                 threads that accept: allow as many, {fewer}"
            ));
        }
        let first = 1 + pools.iter().map(|pool| pool.most() as usize).sum::<usize>();
        Ok(Self {
            env,
            at,
            event: EventOptions::read(&env.settings),
            accept: AcceptOptions::read(&env.settings),
            stages: StagesOptions::read(&env.settings),
            line: Line::new(stations, homes).map_err(no_descriptors)?,
            pools,
            cache: ThreadCache::new(&env.site.caching, env.site.seed),
            parts: u8::try_from(parts).unwrap_or(u8::MAX),
            lower,
            free: Numbers::new(1..first),
            next: AtomicUsize::new(first),
            beats: Beats::default(),
            failed: Mutex::new(None),
        })
    }

    /// The life of the first thread, and what becomes of the process: others are started by
    /// `start`, of which one may look at the pools until it hears that the first has ended. The
    /// first accepts, and hears the master for all.
    pub(crate) fn run<'env>(
        &'env self,
        own: &Own<'_>,
        start: impl for<'s> FnOnce(&'s Scope<'s, 'env>, Receiver<()>),
    ) -> Result<(), String> {
        units::scope(self.env, self.at, |scope| {
            let (_until_it_ends, ended) = mpsc::channel();
            start(scope, ended);
            self.ends(self.accept(own, 0));
            // Nobody looks at the others any more.
            own.tally.slot().set_oldest_beat(None);
        });
        let failed = lock(&self.failed).take();
        line::end(&self.line, &mut self.worker(own, 0));
        failed.map_or(Ok(()), Err)
    }

    /// Starts a thread that is of no pool.
    pub(crate) fn spawn<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        name: &str,
        life: impl FnOnce(usize) -> Result<(), String> + Send + 's,
    ) {
        let unit = self.next.fetch_add(1, Relaxed);
        let started = units::spawn(scope, name, STACK_BYTES, move || self.ends(life(unit)));
        self.ends(started.map_err(|error| self.cannot_start(&error)));
    }

    /// Starts the threads that accept besides the first. They count in one slot.
    pub(crate) fn spawn_acceptors<'s>(&'s self, scope: &'s Scope<'s, '_>, name: &str, slot: usize) {
        for home in 1..self.line.homes() {
            self.spawn(scope, name, move |unit| self.accept(&self.own(unit, (slot, false))?, home));
        }
    }

    /// Has `start` start the threads that the pools keep.
    pub(crate) fn fill(&self, start: &dyn Fn(usize)) {
        for (at, pool) in (POOLS_AT..).zip(&self.pools) {
            (0..pool.least()).for_each(|_| start(at));
        }
    }

    /// Starts a thread of the pool at a station. If it cannot be started, the others go on, unless
    /// they are fewer than the pool keeps.
    pub(crate) fn join<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        at: usize,
        life: impl FnOnce(usize) -> Result<(), String> + Send + 's,
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
                    self.ends(Err(self.cannot_start(&error)));
                }
            }
        }
    }

    /// The life of the thread that looks at each pool when it is time, and has `start` start
    /// threads, until the first has ended.
    pub(crate) fn control(
        &self,
        (unit, slot): (usize, usize),
        ended: &Receiver<()>,
        start: &dyn Fn(usize),
    ) -> Result<(), String> {
        let own = self.own(unit, (slot, true))?;
        let worker = self.worker(&own, 0).fed();
        let log = worker.around().log;
        let patience = || {
            let now = clock::nanos();
            self.pools.iter().filter_map(|pool| pool.due_in(now)).fold(LOOK_MAX, Duration::min)
        };
        while ended.recv_timeout(patience()) == Err(RecvTimeoutError::Timeout)
            && !self.line.is_closed()
        {
            worker.beats();
            log.tick(clock::now());
            for (at, pool) in (POOLS_AT..).zip(&self.pools) {
                let wanted = pool.look(self.line.len(at), self.line.station(at).tally, log);
                (pool.threads()..wanted).for_each(|_| start(at));
            }
        }
        log.flush();
        Ok(())
    }

    /// The life of a stage with a poller.
    pub(crate) fn poll(
        &self,
        unit: usize,
        slot: (usize, bool),
        rules: Rules,
        stage: Stage<'_>,
    ) -> Result<(), String> {
        let own = self.own(unit, slot)?;
        self.poll_with(&own, self.worker(&own, 0), rules, stage)
    }

    /// The life of a thread of a stage. It ends before the line does if that is said, and its pool
    /// has one too many, or it has had nothing to do for so long.
    pub(crate) fn serve(
        &self,
        unit: usize,
        slot: (usize, bool),
        does: (Rules, Work<'_>, Extras<'_>),
        idle_max: Option<Duration>,
    ) -> Result<(), String> {
        let own = self.own(unit, slot)?;
        let (mut disk, at) = (self.disk(&own), does.1.at);
        let thread = self.thread(&own, &mut disk, does);
        match idle_max {
            Some(idle_max) => run_in_pool(thread, self.pool(at), idle_max),
            None => thread.run(),
        }
        Ok(())
    }

    /// A thread of a stage, or as much of a thread as that stage has.
    pub(crate) fn thread<'w>(
        &'w self,
        own: &'w Own<'_>,
        disk: &'w mut dyn Disk,
        (rules, work, extras): (Rules, Work<'w>, Extras<'w>),
    ) -> StageThread<'w> {
        let io = Io::new(disk, rules, &self.env.site.limits);
        StageThread::new(self.worker(own, 0), io, &self.line, work).with(extras)
    }

    /// What a thread has of its own that counts there, alone or with others.
    pub(crate) fn own(&self, unit: usize, slot: (usize, bool)) -> Result<Own<'e>, String> {
        Own::stage(self.env, self.at, unit, slot)
    }

    /// The disk of a thread, which waits for it.
    pub(crate) const fn disk<'o>(&self, own: &Own<'o>) -> InlineDisk<'o> {
        InlineDisk(Below { root: own.root, rules: self.env.rules })
    }

    /// The pool at a station.
    pub(crate) fn pool(&self, at: usize) -> &Pool {
        &self.pools[at - POOLS_AT]
    }

    /// What a thread does that leaves this to others.
    pub(crate) fn rules(&self, leaves: Leaves) -> Rules {
        let window_ms = self.env.site.deadlines.send_window_ms;
        Rules { leaves, ..event::rules(&self.accept, &self.event, window_ms) }
    }

    /// A worker that accepts from the listeners of one home, or is not to accept.
    fn worker<'w>(&'w self, own: &'w Own<'_>, home: usize) -> Worker<'w, Readiness> {
        let (all, homes) = (self.env.shares[self.at].connections_max, self.line.homes());
        let most = all / homes + usize::from(home < all % homes);
        let rules = AcceptRules::new(&self.accept, most, self.event.mode(), false);
        let pulse = self.beats.pulse(own.is_first());
        own.worker((&self.cache, None), rules, self.event.stall_ns()).with_pulse(pulse)
    }

    /// Accepts until the process is to end.
    fn accept(&self, own: &Own<'_>, home: usize) -> Result<(), String> {
        let which = u8::try_from(home).expect("no more than `ADDRESSES_MAX`");
        let takes = Takes::Listeners { home: which, to: READ, parts: self.parts };
        let does = Does { takes, routes: Routes::all(0), hears: home == 0, barrier: None };
        let mut worker = self.worker(own, home);
        if self.line.homes() > 1 {
            worker = worker.only(home);
        }
        self.poll_with(own, worker, self.rules(Leaves::NONE), Stage::new(&self.line, does))
    }

    fn poll_with(
        &self,
        own: &Own<'_>,
        worker: Worker<'_, Readiness>,
        rules: Rules,
        stage: Stage<'_>,
    ) -> Result<(), String> {
        let failed = |error| format!("cannot make a poller: {error}");
        let epoll = |trigger| event::epoll(&self.event, trigger).map_err(failed);
        let disk = self.disk(own);
        match self.event.poller {
            PollerKind::Epoll => turns(epoll(Trigger::Level)?, worker, rules, disk, stage),
            PollerKind::EpollEdge => turns(epoll(Trigger::Edge)?, worker, rules, disk, stage),
            PollerKind::Poll => turns(Poll::new(), worker, rules, disk, stage),
            PollerKind::Select => turns(Select::new(), worker, rules, disk, stage),
        }
    }

    /// A thread has ended: if it could not do what it is for, all end.
    fn ends(&self, result: Result<(), String>) {
        let Err(error) = result else { return };
        lock(&self.failed).get_or_insert(error);
        self.line.close();
    }

    fn cannot_start(&self, error: &io::Error) -> String {
        format!(
            "cannot start a thread: {error}; lower {}, or raise the limit on tasks (ulimit -u, \
             TasksMax=, kernel.threads-max)",
            self.lower
        )
    }
}

/// The rounds of a stage with a poller.
fn turns(
    poller: impl Poller,
    worker: Worker<'_, Readiness>,
    rules: Rules,
    mut disk: InlineDisk<'_>,
    stage: Stage<'_>,
) -> Result<(), String> {
    let poll = EventLoop::new(poller, worker, rules, &mut disk).at_stage(stage);
    poll.run().map_err(|error| format!("a stage cannot go on: {error}"))
}

/// Serves until the line is closed, or the pool has one too many, or can do without a thread that
/// has had nothing to do for so long.
fn run_in_pool(mut thread: StageThread<'_>, pool: &Pool, idle_max: Duration) {
    let mut since = Instant::now();
    while thread.goes_on() {
        let has_served = thread.visit(idle_max.min(LOOK_MAX));
        if has_served {
            since = Instant::now();
        }
        let is_idle = since.elapsed() >= idle_max;
        if (has_served || is_idle) && pool.leaves(is_idle) {
            return;
        }
    }
}
