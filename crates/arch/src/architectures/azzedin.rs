//! Servers of [A]: a dispatcher, a pool of threads and a poller thread. The dispatcher accepts. The
//! threads take connections from its queue and read files themselves or start asynchronous reads.
//! The poller thread looks for reads that are complete and responds to their clients.
pub mod decide;
mod options;
mod poller;

use crate::{
    Demand, Driver, Env, Notice, Units, WorkError, WorkerLog,
    cache::thread_cache::ThreadCache,
    conn::{
        accept::{AcceptOptions, AcceptRules, WhenFull},
        serve::{Means, Served, Until, converse},
        units,
        worker::{Own, UnitNumber, Worker},
    },
    disk::{
        aio::{Aio, AioKernel, AioRequest, AioRing, AioThreads, ThreadLimits},
        at_once::Disk,
    },
    drive::perform::{self, Below},
    loops::{
        dispatch::{Back, Dispatch, DispatchJob, DispatchPool, PoolThread},
        queue::Fifo,
    },
};
use decide::{Load, LoadSample, ReadDecision, Rule, Way, decide};
use options::{AdaptOptions, Engine, Io};
use poller::PollerThread;
use regatta_metrics::{Counter, Tally};
use regatta_op::{OpenReq, Outbox, ReadReq, Ticket};
use regatta_sys::{
    OpenResult, Read, StaticFile, by_nowait, clock,
    socket::{Mode, Steps},
    wait::{Epoll, Trigger},
};
use std::{cell::RefCell, io, mem, thread::Scope};

/// The driver.
pub const DRIVER: Driver = Driver {
    ignores: &["accept.eager_write", "accept.full_read"],
    units: |_| Units::Several,
    slots: |settings| AdaptOptions::read(settings).units().min(SLOTS_MAX),
    steps: |settings| Steps::Connections(AdaptOptions::read(settings).step()),
    demand: |settings, _| {
        let options = AdaptOptions::read(settings);
        let aio = if options.engine() == Some(Engine::Threads) { options.aio_threads } else { 0 };
        let tasks = (options.units() + aio) as u64;
        let address_bytes = tasks * STACK_BYTES as u64;
        Demand { tasks, mappings: 2 * tasks, address_bytes, descriptors: 0 }
    },
    ..Driver::plain(options::OPTIONS, |_, _| 1, work)
};

/// The stack of a thread, bytes.
const STACK_BYTES: usize = 128 << 10;
/// The most slots of counters; with more units, several share a slot.
const SLOTS_MAX: usize = 16;
/// The most bytes of a file that one call sends. A thread checks the time between two calls.
const SEND_BYTES_MAX: u64 = 256 << 10;
/// The most reads that the kernel has room for. The kernel makes them one after another.
const KERNEL_READS_MAX: usize = 1024;

fn work(env: &Env, process: usize) -> Result<(), WorkError> {
    let server = Server::new(env, process)?;
    server.run().map_err(WorkError::stopped("the server"))
}

/// State that the threads of a process share.
struct Server<'e> {
    env: &'e Env,
    process: usize,
    options: AdaptOptions,
    rules: AcceptRules,
    cache: ThreadCache,
    pool: DispatchPool,
    /// Engine of asynchronous reads, if there are any.
    aio: Option<Box<dyn Aio>>,
    /// Connections whose reads have been started, for the poller thread.
    tracked: Fifo<Tracked>,
    load: Load,
}

/// A connection whose reads are being made.
#[derive(Debug)]
struct Tracked {
    job: DispatchJob,
    reads: Vec<(Ticket, AioRequest)>,
    /// Start of the reads, nanoseconds.
    since: u64,
}

/// Reads that a connection asks for and that its thread does not make.
type Asked = RefCell<Vec<(Ticket, ReadReq<StaticFile>)>>;

impl<'e> Server<'e> {
    fn new(env: &'e Env, process: usize) -> Result<Self, WorkError> {
        let options = AdaptOptions::read(&env.settings);
        let most = env.shares[process].connections_max;
        let fault = WorkError::preparing("asynchronous reads");
        let aio: Option<Box<dyn Aio>> = match options.engine() {
            None => None,
            Some(Engine::Threads) => {
                let limits = ThreadLimits {
                    threads_max: options.aio_threads,
                    idle: options.aio_idle(),
                    requests_max: most,
                };
                Some(Box::new(AioThreads::new(limits)))
            }
            Some(Engine::Uring) => Some(Box::new(AioRing::new(most).map_err(fault)?)),
            Some(Engine::Kernel) => Some(Box::new(AioKernel::new(most.min(KERNEL_READS_MAX))?)),
        };
        // Report what the system refuses before the first connection is accepted.
        drop(aio.as_ref().map(|aio| aio.completions()).transpose()?);
        let accept = AcceptOptions::read(&env.settings);
        Ok(Self {
            env,
            process,
            options,
            rules: AcceptRules::new(&accept, most, Mode::Blocking, false),
            cache: ThreadCache::new(&env.site.caching, env.site.seed),
            pool: DispatchPool::new(most, options.step()).map_err(fault)?,
            aio,
            tracked: Fifo::new(most),
            load: Load::default(),
        })
    }

    fn run(&self) -> io::Result<()> {
        let own = self.own(0).map_err(io::Error::other)?;
        let worker = own.worker(&self.cache, None, self.rules, self.options.stall_ns());
        let mut dispatch = Dispatch::new(Epoll::new(Trigger::Level)?, worker, &self.pool);
        let ran = units::scope(self.env, self.process, |scope| {
            let ran = self.start(scope).and_then(|()| dispatch.run());
            // The threads end with their queues.
            self.pool.jobs.close();
            for tracked in self.tracked.close() {
                self.pool.back.put(Back::Waits(tracked.job));
            }
            ran
        });
        dispatch.finish();
        ran
    }

    fn start<'s>(&'s self, scope: &'s Scope<'s, '_>) -> io::Result<()> {
        for unit in 1..=self.options.threads {
            units::spawn(scope, "pool", STACK_BYTES, move || self.serve(unit))?;
        }
        if let Some(aio) = &self.aio {
            let unit = self.options.threads + 1;
            units::spawn(scope, "poller", STACK_BYTES, move || self.poll(unit, &**aio))?;
        }
        Ok(())
    }

    fn own(&self, unit: usize) -> Result<Own<'e>, WorkError> {
        let number = UnitNumber { unit, units: self.options.units() };
        Own::unit(self.env, self.process, number, None)
    }

    /// A worker whose connections others pass to it, one at a time.
    fn worker<'w>(&'w self, own: &'w Own<'_>) -> Worker<'w, crate::conn::serve::Blocking> {
        let rules = AcceptRules { connections_max: 1, when_full: WhenFull::Pause, ..self.rules };
        own.worker(&self.cache, None, rules, self.options.stall_ns())
    }

    fn means<'w>(&self, disk: &'w mut dyn Disk) -> Means<'w> {
        let buffer = vec![0; self.env.site.limits.head_bytes_max].into();
        Means { disk, buffer, bytes_max: SEND_BYTES_MAX, listener: 0, beat: None }
    }

    /// Body of a thread of the pool.
    fn serve(&self, unit: usize) {
        let own = self.own(unit).expect("only the first unit is bound to processors");
        let (worker, asked) = (self.worker(&own), Asked::default());
        let (tally, log, io) = (own.tally, worker.around().log, self.options.io);
        let mut disk =
            Decider { server: self, below: self.below(&own), tally, log, io, asked: &asked };
        let mut thread = PoolThread::new(worker, self.means(&mut disk), &self.pool);
        while let Some(key) = thread.take() {
            asked.borrow_mut().clear();
            let (worker, means) = (&mut thread.worker, &mut thread.means);
            match converse(worker, key, self.pool.step, means, Until::Reads) {
                Served::Later => {
                    if let Some(job) = thread.hand_on(key) {
                        self.track(job, &asked, tally);
                    }
                }
                served => thread.give_back(key, served),
            }
        }
    }

    /// Body of the poller thread.
    fn poll(&self, unit: usize, aio: &dyn Aio) {
        let own = self.own(unit).expect("only the first unit is bound to processors");
        let (worker, asked) = (self.worker(&own).fed(), Asked::default());
        let (tally, log, io) = (own.tally, worker.around().log, Io::Async);
        let mut disk =
            Decider { server: self, below: self.below(&own), tally, log, io, asked: &asked };
        // A ring belongs to the thread that makes its completions: this one.
        let completions = aio.completions().expect("they could be made a moment ago");
        let means = self.means(&mut disk);
        PollerThread::new(self, worker, means, completions, &asked).run();
    }

    const fn below<'w>(&'w self, own: &Own<'w>) -> Below<'w> {
        Below { root: own.root, rules: self.env.rules }
    }

    /// Queues a connection for the poller thread, and starts the reads that it asks for.
    fn track(&self, job: DispatchJob, asked: &Asked, tally: Tally<'_>) {
        let (tracked, starts) = tracked(job, asked);
        match self.tracked.put(tracked, tally) {
            Ok(()) => self.begin(starts, tally),
            // The server ends.
            Err(tracked) => self.pool.back.put(Back::Waits(tracked.job)),
        }
    }

    /// Starts reads; makes those that cannot be started.
    fn begin(&self, starts: Vec<(ReadReq<StaticFile>, AioRequest)>, tally: Tally<'_>) {
        for (req, of_engine) in starts {
            let started = match &self.aio {
                Some(aio) => aio.start(req, of_engine),
                None => Err((req, of_engine)),
            };
            let counter = match started {
                Ok(()) => Counter::AioStarted,
                Err((req, of_engine)) => {
                    of_engine.complete(perform::read(req));
                    // The poller thread may have checked before that; it then waits for the engine.
                    self.aio.iter().for_each(|aio| aio.wake());
                    Counter::AioRefused
                }
            };
            tally.add(counter, 1);
        }
    }
}

/// Takes the reads that a connection asked for. Returns the entry to track, and the reads to start
/// after it is queued: no read may complete before the poller thread can find it.
fn tracked(job: DispatchJob, asked: &Asked) -> (Tracked, Vec<(ReadReq<StaticFile>, AioRequest)>) {
    let asked = mem::take(&mut *asked.borrow_mut());
    let (mut reads, mut starts) = (Vec::new(), Vec::new());
    for (ticket, req) in asked {
        let (request, of_engine) = AioRequest::pair();
        reads.push((ticket, request));
        starts.push((req, of_engine));
    }
    (Tracked { job, reads, since: clock::nanos() }, starts)
}

/// Disk of a thread, which decides how each read is made.
struct Decider<'a> {
    server: &'a Server<'a>,
    below: Below<'a>,
    tally: Tally<'a>,
    log: &'a dyn WorkerLog,
    io: Io,
    /// Reads that were left for later.
    asked: &'a Asked,
}

impl Decider<'_> {
    fn way(&self, req: &ReadReq<StaticFile>) -> Way {
        let Server { options, pool, aio, load, .. } = self.server;
        let rule = match self.io {
            Io::Blocking => return Way::Blocking,
            Io::Async => return Way::Async,
            Io::Adapt => options.rule,
        };
        let resident = (rule == Rule::Residency).then(|| by_nowait(&req.file, req.at, req.len));
        let reads = aio.as_ref().map_or(0, |aio| aio.in_flight()) + load.blocking();
        let seen = LoadSample { queue: pool.jobs.len(), reads, wait_us: load.wait_us(), resident };
        let decision = ReadDecision { rule, seen, way: decide(rule, options.bounds(), &seen) };
        decision.count(self.tally);
        if options.trace {
            self.log.notice(Notice::Decision, format_args!("{decision}"));
        }
        decision.way
    }
}

impl Disk for Decider<'_> {
    fn open(&mut self, _key: u64, _ticket: Ticket, req: OpenReq) -> Option<OpenResult> {
        Some(self.below.open(&req))
    }

    fn read(&mut self, _key: u64, ticket: Ticket, req: ReadReq<StaticFile>) -> Option<Read> {
        match self.way(&req) {
            Way::Blocking => {
                let (load, begun) = (&self.server.load, clock::nanos());
                load.begins();
                let read = perform::read(req);
                load.ends();
                load.took(clock::nanos() - begun);
                Some(read)
            }
            Way::Async => {
                self.asked.borrow_mut().push((ticket, req));
                None
            }
        }
    }

    fn prefetch(&mut self, _key: u64, _outbox: &Outbox<StaticFile>) -> Option<u64> {
        Some(u64::MAX)
    }
}
