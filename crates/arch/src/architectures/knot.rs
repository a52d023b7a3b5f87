//! User threads in one kernel thread, and helpers that block for them: Knot on Capriccio ([E] §4).
//! With several kernel threads, each with its own user threads: MEANS ([A] §2.2).
use crate::{
    Demand, Driver, Env, StackOption, Units, WorkError,
    architectures::event::{self, PollerKind},
    cache::thread_cache::ThreadCache,
    conn::{
        accept::{AcceptOptions, AcceptRules},
        beats::Beats,
        worker::{Own, UnitNumber},
    },
    drive::{
        ledger,
        perform::{Below, SendBy},
    },
    loops::{
        fibers::{self, FiberRules, Hands, State, run_task},
        peers::{self, PeerThreads, Peers},
    },
    options::{Choice as _, Kind, OptionSpec, Settings, choice, options},
};
use regatta_metrics::{Counter, Tally};
use regatta_origin::{Cache, LocalCache};
use regatta_sys::{
    StaticFile,
    fiber::{self, Guard, Stacks, has_light_guards},
    socket::{Mode, Steps},
    wait::{Epoll, Poll, Poller, Select, Trigger},
};
use std::{cell::RefCell, io, thread, time::Duration};

/// The driver.
pub const DRIVER: Driver = Driver {
    ignores: &["accept.eager_read", "accept.eager_write", "accept.full_read"],
    units: |settings| match FiberOptions::read(settings).schedulers {
        0 | 1 => Units::One,
        _ => Units::Several,
    },
    // Each scheduler counts in a slot of its own, all helpers in the last.
    slots: |settings| FiberOptions::read(settings).schedulers.max(1) + 1,
    steps,
    demand,
    stack: |settings| {
        let bytes = FiberOptions::read(settings).stack_bytes();
        Some(StackOption { key: "fiber.stack_bytes", bytes })
    },
    ..Driver::plain(OPTIONS, |_, _| 1, work)
};

/// The stack of a helper, bytes: its calls are shallow.
const HELPER_STACK_BYTES: usize = 128 << 10;
/// The stack of a scheduler that is not in the process's first thread, bytes.
const SCHEDULER_STACK_BYTES: usize = 256 << 10;
/// The most bytes that a user thread sends before others run.
const TURN_BYTES_MAX: u64 = 2 << 20;
const PAGE: usize = 4096;

options! {
    /// The options of the driver.
    struct FiberOptions, OPTIONS;

    schedulers: usize = OptionSpec {
        key: "fiber.schedulers",
        kind: Kind::Count { min: 0, max: 1024 },
        default: "1",
        doc: "How many kernel threads have user threads; 0: as many as processors may be busy.",
        long: "Each has a scheduler, a poller, helpers (fiber.helpers) and its part of the user \
               threads (limits.connections_max), which stay where they are. They accept from the \
               same addresses and share one cache. There are no more of them than connections.",
    },
    steal: bool = OptionSpec {
        key: "fiber.steal",
        kind: Kind::Bool,
        default: "false",
        doc: "Whether a scheduler that has nothing to run takes connections from others.",
        long: "Only those whose clients have sent something, while the other has more of them than \
               it runs next: it keeps one for each that it gives. A user thread of its own \
               continues with the connection. `fiber_steals` counts them.",
    },
    poller: PollerKind = OptionSpec {
        key: "fiber.poller",
        kind: Kind::Choice(PollerKind::WORDS),
        default: "epoll-edge",
        doc: "How the scheduler learns which sockets are ready.",
        long: "As event.poller. Only sockets that a user thread waits for are watched.",
    },
    helpers: usize = OptionSpec {
        key: "fiber.helpers",
        kind: Kind::Count { min: 0, max: 1024 },
        default: "25",
        doc: "How many helper threads of each scheduler block in the place of user threads.",
        long: "They read files into memory, and send if fiber.send says so; all are started at the \
               beginning. With 0 the scheduler's thread reads and sends itself, and the disk \
               blocks everybody.",
    },
    send: SendMode = OptionSpec {
        key: "fiber.send",
        kind: Kind::Choice(SendMode::WORDS),
        default: "inline",
        doc: "Who sends what is in files, and how.",
        long: "`inline`: the user thread, as what is in memory; the disk blocks everybody. \
               `poll-first`: a helper, when the scheduler's poller has said that the socket takes \
               bytes. `try-first`: a helper at once; if the socket takes nothing, the helper waits \
               for it (fiber.helper_poll_ms) and tries once more. `blocking`: a helper, with one \
               call in blocking mode. It lasts until the client has room for all of it, or has \
               taken nothing for a third of limits.send_window_ms ([E] §4).",
    },
    order: Order = OptionSpec {
        key: "fiber.order",
        kind: Kind::Choice(Order::WORDS),
        default: "existing",
        doc: "Who runs first: user threads with a connection, or those with a new one.",
        long: "`existing` (Knot-C): in the order in which they became ready, new connections last. \
               `accepting` (Knot-A): new connections first.",
    },
    retry: Retry = OptionSpec {
        key: "fiber.retry",
        kind: Kind::Choice(Retry::WORDS),
        default: "thread",
        doc: "Who repeats a call when its socket is ready.",
        long: "`poller`: the scheduler at its poll point, as Capriccio, which resumes the user \
               thread with the result. `thread`: the user thread, when its turn comes.",
    },
    yields: bool = OptionSpec {
        key: "fiber.yields",
        kind: Kind::Bool,
        default: "false",
        doc: "Whether a user thread lets others run before it opens a file and before it closes a \
              connection.",
        long: "Capriccio does both, by an option that cannot be switched off.",
    },
    idle: Idle = OptionSpec {
        key: "fiber.idle",
        kind: Kind::Choice(Idle::WORDS),
        default: "block",
        doc: "What the scheduler does when no user thread is ready.",
        long: "`block`: it waits in the poller. `spin`: it looks again and again, as Capriccio, \
               and takes all of a processor.",
    },
    helper_poll_ms: u64 = OptionSpec {
        key: "fiber.helper_poll_ms",
        kind: Kind::Millis { min: 1, max: 60_000 },
        default: "1 s",
        doc: "How long a helper waits for a client that takes nothing, with fiber.send=try-first.",
        long: "Then it continues with other tasks, and the connection's rest is a new one.",
    },
    runs_max: usize = OptionSpec {
        key: "fiber.runs_max",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        default: "10000",
        doc: "How many user threads run at most before the scheduler looks for events.",
        long: "It looks for events whenever none is ready.",
    },
    handshakes_per_round: u32 = OptionSpec {
        key: "fiber.handshakes_per_round",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        default: "8",
        doc: "How many user threads advance a TLS handshake before the scheduler looks for events.",
        long: "As event.handshakes_per_round. Others wait for the next looks, in their order.",
    },
    stack_bytes: usize = OptionSpec {
        key: "fiber.stack_bytes",
        kind: Kind::Bytes { min: 16 << 10, max: 8 << 20 },
        default: "64 KiB",
        doc: "The stack of a user thread, rounded up to whole pages.",
        long: "All are reserved at the beginning, one for each connection that may be open \
               (limits.connections_max); a page takes memory when it is touched. \
               `stack_bytes_max` counts what is used.",
    },
    guard: GuardKind = OptionSpec {
        key: "fiber.guard",
        kind: Kind::Choice(GuardKind::WORDS),
        default: "light",
        doc: "What lies below each stack, so that an overflow ends the worker.",
        long: "`light`: a mark in the page table (Linux 6.13), so that all stacks together need \
               one mapping; on an older kernel as `mapping`. `mapping`: a page without access \
               rights, which makes two mappings of each stack (vm.max_map_count limits them).",
    },
    stall_us: u64 = ledger::STALL_US,
}

choice! {
    /// Sender of what is in files (`fiber.send`).
    enum SendMode {
        /// The user thread.
        Inline = "inline",
        /// A helper, after the poller.
        PollFirst = "poll-first",
        /// A helper, before any poller.
        TryFirst = "try-first",
        /// A helper that blocks.
        Blocking = "blocking",
    }
}

choice! {
    /// User threads that run first (`fiber.order`).
    enum Order {
        /// In the order of readiness.
        Existing = "existing",
        /// New connections.
        Accepting = "accepting",
    }
}

choice! {
    /// Repeater of a call (`fiber.retry`).
    enum Retry {
        /// The scheduler.
        Poller = "poller",
        /// The user thread.
        Thread = "thread",
    }
}

choice! {
    /// Activity of a scheduler without ready user threads (`fiber.idle`).
    enum Idle {
        /// Waits in the poller.
        Block = "block",
        /// Polls again.
        Spin = "spin",
    }
}

choice! {
    /// Guard below a stack (`fiber.guard`).
    enum GuardKind {
        /// A mark in the page table.
        Light = "light",
        /// A mapping.
        Mapping = "mapping",
    }
}

impl FiberOptions {
    /// Number of schedulers for `connections`.
    fn count(&self, connections: usize) -> usize {
        self.schedulers.clamp(1, connections.max(1))
    }

    const fn stack_bytes(&self) -> usize {
        self.stack_bytes.next_multiple_of(PAGE)
    }

    fn guard(&self) -> Guard {
        match self.guard {
            GuardKind::Light if has_light_guards() => Guard::Light,
            GuardKind::Light | GuardKind::Mapping => Guard::Mapping,
        }
    }

    /// Way in which helpers send, if they do.
    fn send(&self) -> Option<SendBy> {
        match self.send {
            _ if self.helpers == 0 => None,
            SendMode::Inline => None,
            SendMode::PollFirst => Some(SendBy::PollFirst),
            SendMode::TryFirst => {
                Some(SendBy::TryFirst(Duration::from_millis(self.helper_poll_ms)))
            }
            SendMode::Blocking => Some(SendBy::Blocking),
        }
    }
}

/// Longest step of a connection: a helper that sends waits no longer for a peer.
fn steps(settings: &Settings) -> Steps {
    match FiberOptions::read(settings).send() {
        Some(SendBy::Blocking) => {
            Steps::Connections(event::patience(settings.number("limits.send_window_ms")))
        }
        _ => Steps::None,
    }
}

fn demand(settings: &Settings, connections: usize) -> Demand {
    let options = FiberOptions::read(settings);
    let schedulers = options.count(connections) as u64;
    let (stacks, helpers) = (connections as u64, schedulers * options.helpers as u64);
    let each = match options.guard() {
        Guard::Light => 0,
        Guard::Mapping => 2 * stacks,
    };
    Demand {
        tasks: schedulers + helpers,
        mappings: each + 2 * (schedulers - 1 + helpers),
        address_bytes: stacks * (options.stack_bytes() + PAGE) as u64
            + (schedulers - 1) * SCHEDULER_STACK_BYTES as u64
            + helpers * HELPER_STACK_BYTES as u64,
        descriptors: 0,
    }
}

/// Runs the process: its schedulers, each with user threads and helpers.
fn work(env: &Env, process: usize) -> Result<(), WorkError> {
    let options = FiberOptions::read(&env.settings);
    let all = Schedulers::new(env, process, &options)?;
    match options.poller {
        PollerKind::Epoll => all.run(|| Epoll::new(Trigger::Level)),
        PollerKind::EpollEdge => all.run(|| Epoll::new(Trigger::Edge)),
        PollerKind::Poll => all.run(|| Ok(Poll::new())),
        PollerKind::Select => all.run(|| Ok(Select::new())),
    }
}

/// The schedulers of a process, and their shared state.
struct Schedulers<'e> {
    env: &'e Env,
    process: usize,
    options: &'e FiberOptions,
    /// Connections of all schedulers.
    connections_max: usize,
    /// Number of schedulers.
    count: usize,
    /// State that several schedulers share.
    shared: Option<(Peers, ThreadCache)>,
    /// Proof that each scheduler still returns to its other duties.
    beats: Beats,
}

impl<'e> Schedulers<'e> {
    fn new(env: &'e Env, process: usize, options: &'e FiberOptions) -> Result<Self, WorkError> {
        let connections_max = env.shares[process].connections_max;
        let count = options.count(connections_max);
        let mut shared = None;
        if count > 1 {
            let peers =
                Peers::new(count, options.steal).map_err(|error| WorkError::Bells(count, error))?;
            shared = Some((peers, ThreadCache::new(&env.site.caching, env.site.seed)));
        }
        let beats = Beats::default();
        Ok(Self { env, process, options, connections_max, count, shared, beats })
    }

    /// Runs all of them, the first in this thread.
    fn run<P: Poller>(self, poller: impl Fn() -> io::Result<P> + Sync) -> Result<(), WorkError> {
        let first = self.own(0)?;
        let bytes = self.connections_max * self.options.stack_bytes();
        first.tally.max(Counter::StacksBytesMax, bytes as u64);
        let Some((peers, _)) = &self.shared else { return self.schedule(&first, 0, poller()) };
        let threads = PeerThreads {
            env: self.env,
            process: self.process,
            name: "sched",
            stack_bytes: SCHEDULER_STACK_BYTES,
            fault: WorkError::Scheduler,
        };
        let life = |at| self.schedule(&self.own(at)?, at, poller());
        peers.run(threads, || self.schedule(&first, 0, poller()), life);
        self.shared.map_or(Ok(()), |(peers, _)| peers.into_result())
    }

    /// Resources of scheduler `at` alone; the first takes its own before the others start.
    fn own(&self, at: usize) -> Result<Own<'e>, WorkError> {
        Own::unit(self.env, self.process, UnitNumber { unit: at, units: self.count }, None)
    }

    /// Runs scheduler `at` from its beginning to its end.
    fn schedule<P: Poller>(
        &self,
        own: &Own<'_>,
        at: usize,
        poller: io::Result<P>,
    ) -> Result<(), WorkError> {
        let Self { env, options, connections_max, count, .. } = *self;
        let poller = poller.map_err(WorkError::Poller)?;
        let threads = peers::share(connections_max, count, at);
        let bytes = options.stack_bytes();
        let stacks = Stacks::new(threads, bytes, options.guard())
            .map_err(|error| WorkError::Stacks { count: threads, bytes, error })?;
        let hands =
            start_helpers(env, self.process, options, threads).map_err(WorkError::Helpers)?;
        let local = || LocalCache::new(&env.site.caching, env.site.seed);
        let local = self.shared.is_none().then(local);
        let shared = self.shared.as_ref().map(|(_, cache)| cache as &dyn Cache<StaticFile>);
        let cache = shared.or(local.as_ref().map(|cache| cache as _)).expect("one of the two");
        let accept = AcceptOptions::read(&env.settings);
        let accepts = AcceptRules::new(&accept, threads, Mode::Nonblocking, false);
        let worker = own.worker(cache, None, accepts, options.stall_us * 1000);
        let worker = worker.with_pulse(self.beats.pulse(own.is_first()));
        let rules = FiberRules {
            below: Below { root: own.root, rules: env.rules },
            helpers_read: options.helpers > 0,
            send: options.send(),
            accepting_first: options.order == Order::Accepting,
            poller_retries: options.retry == Retry::Poller,
            yields: options.yields,
            spins: options.idle == Idle::Spin,
            handshakes_per_round: options.handshakes_per_round,
            runs_max: options.runs_max,
            bytes_max: TURN_BYTES_MAX,
        };
        let mut state = State::new(worker, poller, hands, rules);
        if let Some((peers, _)) = &self.shared {
            state = state.beside(peers, at);
        }
        let state = RefCell::new(state);
        fiber::scope(stacks, |fibers| fibers::run(&state, fibers))
            .map_err(WorkError::stopped("the scheduler of user threads"))
    }
}

/// Starts the helpers of a scheduler. The process does not wait for a helper that blocks.
fn start_helpers(
    env: &Env,
    process: usize,
    options: &FiberOptions,
    connections_max: usize,
) -> io::Result<&'static Hands> {
    // A connection has one task, and as many again may have been given up.
    let tasks_max = 2 * connections_max;
    let hands: &'static Hands = Box::leak(Box::new(Hands::new(tasks_max)?));
    let tally = Tally::Striped(env.arena.slot(env.shares[process].slots.end - 1));
    // Without a way to send, helpers only read.
    let by = options.send().unwrap_or(SendBy::PollFirst);
    for _ in 0..options.helpers {
        let helper = thread::Builder::new().name("helper".to_owned());
        let run = move || hands.help(tally, &mut |task| run_task(task, by, tally));
        helper.stack_size(HELPER_STACK_BYTES).spawn(run)?;
    }
    Ok(hands)
}

#[cfg(test)]
mod tests {
    use crate::loops::event_loop::schedule::{
        Case, LOOP_SEEDS, check, check_sealed, own_disk, run_all,
    };

    /// User threads, helpers that reply in any order, and connections that move between them. A
    /// sealed connection's operations of the disk come one after another, which the scheduler
    /// asserts.
    #[test]
    fn user_threads_forget_none() {
        let case = Case { fibers: true, ..Case::one("user_threads_forget_none") };
        check(&run_all(case, &own_disk), 0);
        check_sealed(&run_all(Case { sealed: true, ..case }, &own_disk), 0);
    }

    /// Two schedulers on the same listeners, or each on its own: an idle one takes connections.
    #[test]
    fn schedulers_that_steal_forget_none() {
        let test = "schedulers_that_steal_forget_none";
        let case = Case { loops: 2, fibers: true, steals: true, ..Case::one(test) };
        let sums = run_all(case, &own_disk);
        let often = sums.answers > sums.schedules && sums.stolen > sums.schedules / 16;
        // A replay runs only a few schedules.
        assert!(sums.schedules < LOOP_SEEDS || often, "{sums:?}");
    }
}
