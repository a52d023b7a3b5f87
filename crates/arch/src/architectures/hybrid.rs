//! Hybrid (Carrera et al., ICPADS 2005; [A] §2.1). A dispatcher with an event loop has connections
//! whose peers are to send. A pool of threads serves the others, with calls that block.
use crate::{
    Demand, Driver, Env, Share, Units, WorkError,
    cache::thread_cache::ThreadCache,
    conn::{
        accept::{AcceptOptions, AcceptRules, WhenFull},
        serve::{Means, Until},
        units,
        worker::{Own, UnitNumber},
    },
    disk::at_once::InlineDisk,
    drive::{ledger, perform::Below},
    loops::dispatch::{Dispatch, DispatchPool, PoolThread},
    options::{Choice as _, Kind, OptionSpec, choice, options},
};
use regatta_sys::{
    socket::{Mode, Steps},
    wait::{Epoll, Poll, Poller, Trigger},
};
use std::{io, time::Duration};

/// The driver.
pub const DRIVER: Driver = Driver {
    ignores: &["accept.eager_write", "accept.full_read"],
    units: |_| Units::Several,
    slots: |settings| 1 + PoolOptions::read(settings).threads.min(SLOTS_MAX),
    steps: |settings| Steps::Connections(PoolOptions::read(settings).step()),
    demand: |settings, _| {
        let threads = PoolOptions::read(settings).threads as u64;
        let address_bytes = threads * STACK_BYTES as u64;
        Demand { tasks: 1 + threads, mappings: 2 * threads, address_bytes, descriptors: 0 }
    },
    ..Driver::plain(OPTIONS, |_, _| 1, work)
};

/// The stack of a thread, bytes.
const STACK_BYTES: usize = 128 << 10;
/// The most slots of counters of the threads; with more threads, several share a slot.
const SLOTS_MAX: usize = 16;
/// The most bytes of a file that one call sends. A thread checks the time between two calls.
const SEND_BYTES_MAX: u64 = 256 << 10;

choice! {
    /// Interface that reports readable connections to the dispatcher (`pool.poller`).
    enum PollerKind {
        /// epoll(7), level-triggered.
        Epoll = "epoll",
        /// poll(2).
        Poll = "poll",
    }
}

choice! {
    /// Time at which a thread returns its connection (`pool.return`).
    enum Return {
        /// Whenever its peer is to send.
        Reads = "reads",
        /// Between requests.
        Idle = "idle",
    }
}

options! {
    /// The options of this driver.
    struct PoolOptions, OPTIONS;

    threads: usize = OptionSpec {
        key: "pool.threads",
        kind: Kind::Count { min: 1, max: 4096 },
        default: "32",
        doc: "How many threads serve connections that have sent something.",
        long: "Each serves one connection at a time. As many clients that read slowly stop all \
               others; connections without a request hold no thread.",
    },
    poller: PollerKind = OptionSpec {
        key: "pool.poller",
        kind: Kind::Choice(PollerKind::WORDS),
        default: "epoll",
        doc: "How the dispatcher learns which connections are readable.",
        long: "A connection that is handed over to a thread is not watched until it comes back.",
    },
    batch: usize = OptionSpec {
        key: "pool.batch",
        kind: Kind::Count { min: 1, max: 65536 },
        default: "64",
        doc: "How many events one wait of the dispatcher returns at most; the rest come with the \
              next wait.",
        long: "Only for epoll: `poll` returns all events.",
    },
    returns: Return = OptionSpec {
        key: "pool.return",
        kind: Kind::Choice(Return::WORDS),
        default: "reads",
        doc: "When a thread gives its connection back to the dispatcher.",
        long: "`reads`: whenever the client is to send something, be it the rest of a request. \
               `idle`: only between two requests, as Tomcat does; a client that sends its request \
               slowly then holds a thread.",
    },
    step_ms: u64 = OptionSpec {
        key: "pool.step_ms",
        kind: Kind::Millis { min: 20, max: 60_000 },
        default: "100 ms",
        doc: "How long a call of a thread waits before the thread looks at what else there is.",
        long: "A deadline is kept whatever this is. A thread whose client takes nothing notices \
               this much later that the server ends. If that is 200 ms or more, the process ends \
               without it, and its lines of the access log are lost. With accept.eager_read a new \
               connection without a request has its thread for this long.",
    },
    stall_us: u64 = ledger::STALL_US,
}

impl PoolOptions {
    const fn step(&self) -> Duration {
        Duration::from_millis(self.step_ms)
    }

    const fn until(&self) -> Until {
        match self.returns {
            Return::Reads => Until::Reads,
            Return::Idle => Until::Idle,
        }
    }
}

/// Runs one process: the dispatcher in its first thread, and the pool.
fn work(env: &Env, process: usize) -> Result<(), WorkError> {
    let options = PoolOptions::read(&env.settings);
    let ran = match options.poller {
        PollerKind::Epoll => Epoll::new(Trigger::Level)
            .and_then(|epoll| run(env, process, &options, epoll.returning(options.batch))),
        PollerKind::Poll => run(env, process, &options, Poll::new()),
    };
    ran.map_err(WorkError::stopped("the pool"))
}

fn run<P: Poller>(env: &Env, process: usize, options: &PoolOptions, poller: P) -> io::Result<()> {
    let stall_ns = options.stall_us * 1000;
    let Share { connections_max, .. } = env.shares[process];
    let accept = AcceptOptions::read(&env.settings);
    let rules = AcceptRules::new(&accept, connections_max, Mode::Blocking, false);
    let units = 1 + options.threads;
    let own = |unit| Own::unit(env, process, UnitNumber { unit, units }, None);
    let cache = ThreadCache::new(&env.site.caching, env.site.seed);
    let pool = DispatchPool::new(connections_max, options.step())?;
    let first = own(0).map_err(io::Error::other)?;
    let worker = first.worker(&cache, None, rules, stall_ns);
    let mut dispatch = Dispatch::new(poller, worker, &pool);
    let serve = &|unit| {
        let own = own(unit).expect("only the first unit is bound to processors");
        let mut disk = InlineDisk(Below { root: own.root, rules: env.rules });
        let buffer = vec![0; env.site.limits.head_bytes_max].into();
        let (bytes_max, listener, beat) = (SEND_BYTES_MAX, 0, None);
        let means = Means { disk: &mut disk, buffer, bytes_max, listener, beat };
        let rules = AcceptRules { connections_max: 1, when_full: WhenFull::Pause, ..rules };
        let worker = own.worker(&cache, None, rules, stall_ns);
        PoolThread::new(worker, means, &pool).run(options.until());
    };
    let ran = units::scope(env, process, |scope| {
        let start = |unit| units::spawn(scope, "pool", STACK_BYTES, move || serve(unit));
        let ran = (1..=options.threads).try_for_each(start).and_then(|()| dispatch.run());
        // The threads end with the queue, also those of a pool that could not be started.
        pool.jobs.close();
        ran
    });
    dispatch.finish();
    ran
}
