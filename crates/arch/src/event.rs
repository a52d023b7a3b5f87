//! The event driver: processes, each with an event loop over a poller. SPED is one of them ([E] §5,
//! [H] §2.1), SYMPED several ([E] §5.1), N-copy several that do not share their sockets ([S] §4).
use crate::{
    Driver, Env,
    drive::{
        perform::Below,
        step::{FileCx, Rules},
    },
    kit::{
        accept::{AcceptRules, Acceptor, WhenFull},
        disk::{Disk, InlineDisk},
        event_loop::{EventLoop, RootSource, Surroundings},
        shared_cache::{Locking, SharedCache},
    },
    layout::{Listen, Partition, Pin, WORKERS_MAX, copies_and_processes},
    options::{Choice as _, Kind, OptionSpec, Settings, choice, joined},
    shared::{Leased, SharedDisk, Sharing},
};
use regatta_metrics::Tally;
use regatta_origin::{Cache, LocalCache, Scratch};
use regatta_sys::{
    Root, StaticFile, affinity,
    crew::Member,
    socket::Mode,
    wait::{Epoll, Poll, Poller, Select, Trigger},
};
use std::{io, os::fd::AsFd, process, time::Duration};

/// The driver.
pub const DRIVER: Driver = Driver { options: &ALL, workers, work };

const ALL: [OptionSpec; OPTIONS.len() + SHARING.len()] = joined(OPTIONS, SHARING);

choice! {
    /// How the loop learns which sockets are ready (`event.poller`).
    enum PollerKind {
        /// epoll(7), level-triggered.
        Epoll = "epoll",
        /// epoll(7), edge-triggered.
        EpollEdge = "epoll-edge",
        /// poll(2).
        Poll = "poll",
        /// select(2).
        Select = "select",
    }
}

choice! {
    /// How sockets are when a response is sent (`event.send`).
    enum SendMode {
        /// In non-blocking mode.
        Nonblocking = "nonblocking",
        /// In blocking mode ([E] §4.3).
        Blocking = "blocking",
    }
}

/// The options of every driver with this loop.
pub(crate) const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        key: "event.poller",
        kind: Kind::Choice(PollerKind::WORDS),
        default: "epoll-edge",
        doc: "How the loop learns which sockets are ready.",
        long: "`epoll-edge` is told of each change once; `epoll` (level-triggered) at every wait \
               for as long as a socket is ready, and the kernel looks at each once more, which is \
               2 % of the instructions of a small reply. `poll` and `select` cost time for every \
               connection that is open at every wait; they are here because the papers used them.",
        since: "0.1",
    },
    OptionSpec {
        key: "event.wait_events_max",
        kind: Kind::Count { min: 1, max: 65536 },
        default: "512",
        doc: "How many events one wait returns at most; more come with the next.",
        long: "Of epoll: `poll` and `select` return all that there are. Few make the loop look for \
               new connections more often, many spare waits ([G] tunes it).",
        since: "0.1",
    },
    OptionSpec {
        key: "event.send",
        kind: Kind::Choice(SendMode::WORDS),
        default: "nonblocking",
        doc: "Whether sockets are in non-blocking or blocking mode when a response is sent.",
        long: "`blocking` sends each response with one call that may hold the whole process until \
               the peer has taken it ([E] §4.3, `sendfile-b`); a peer that takes nothing is given \
               up after a third of `limits.send_window_ms`, and after one and a half of them where \
               its response has just begun. Not for servers with one process and real users.",
        since: "0.1",
    },
    OptionSpec {
        key: "event.processes",
        kind: Kind::Count { min: 0, max: WORKERS_MAX as u64 },
        default: "0",
        doc: "How many processes serve; with several copies, in each of them.",
        long: "0 takes one for each processor that the server may use: those of its affinity mask \
               (taskset, cpuset), and no more than the quota of its control group keeps busy, \
               rounded up (cpu.max; cpu.cfs_quota_us of version 1; the smallest of the groups \
               that it is in). `regatta check` says which it is. limits.connections_max is split \
               evenly among all of them. All copies together may have as many as one may.",
        since: "0.1",
    },
    OptionSpec {
        key: "event.listen",
        kind: Kind::Choice(Listen::WORDS),
        default: "shared",
        doc: "How the processes of a copy share an address.",
        long: "`shared`: they wait on the same socket, and a new connection wakes all that sleep. \
               `exclusive`: the same, but it wakes one (EPOLLEXCLUSIVE; epoll only). `reuseport`: \
               each has a socket of its own (SO_REUSEPORT), and the kernel picks one by hash, \
               whether its process is busy or not.",
        since: "0.1",
    },
    OptionSpec {
        key: "event.copies",
        kind: Kind::Count { min: 0, max: WORKERS_MAX as u64 },
        default: "1",
        doc: "How many copies of the server there are, each with sockets of its own.",
        long: "0 takes one for each processor that the server may use (event.processes says \
               which) or, with event.partition=addresses, one for each address.",
        since: "0.1",
    },
    OptionSpec {
        key: "event.partition",
        kind: Kind::Choice(Partition::WORDS),
        default: "ports",
        doc: "What each of several copies listens on.",
        long: "`ports`: copy i on the port i above that of server.listen, or, where that is 0, on \
               one of the kernel's choice. `addresses`: on its part of server.listen. `steer-cpu`: \
               all on the same port; the kernel hands a connection to the copy in whose share \
               (event.pin) the processor is that handled its first packet.",
        since: "0.1",
    },
    OptionSpec {
        key: "event.pin",
        kind: Kind::Choice(Pin::WORDS),
        default: "none",
        doc: "Whether processes are bound to processors.",
        long: "Each copy has a share of those that the server may use: neighbours (threads of a \
               core, cores of a die, dies of a package), as many as the others have or one more. \
               `cpu` binds each process to one of its copy's, on cores of their own if there are \
               enough, or in turn; `share` binds each to all of them.",
        since: "0.1",
    },
    OptionSpec {
        key: "event.turn_bytes_max",
        kind: Kind::Bytes { min: 4096, max: 1 << 30 },
        default: "2 MiB",
        doc: "Bytes that one connection may send before others have their turn.",
        long: "All turns between two waits share 16 times as much: where many connections are \
               ready each sends less, 64 KiB at least, so that a small response does not wait \
               for hundreds of large ones.",
        since: "0.1",
    },
    OptionSpec {
        key: "event.turn_ops_max",
        kind: Kind::Count { min: 2, max: 1_000_000 },
        default: "64",
        doc: "Operations that one connection may perform before others have their turn.",
        long: "A pipelined request costs one or two.",
        since: "0.1",
    },
    OptionSpec {
        key: "event.stall_us",
        kind: Kind::Micros { min: 1, max: 3_600_000_000 },
        default: "10 ms",
        doc: "From how long on a turn, or a round of turns, is counted as a stall.",
        long: "A turn that spends so long on files is counted under what took most of it: \
               `stall_open`, `stall_read` or `stall_send`. So is a round, which is all turns \
               between two waits: `stall_round`, and `stall_other` if it was so long without its \
               files. Turns that end because a budget is spent are all counted: `stall_budget`.",
        since: "0.1",
    },
];

/// Of processes whose disk is their own loop: whoever opens files enters them for the others.
const SHARING: &[OptionSpec] = &[
    OptionSpec {
        key: "event.share",
        kind: Kind::Choice(Sharing::WORDS),
        default: "nothing",
        doc: "What the processes share besides the listening sockets.",
        long: "`descriptors-and-cache`: one table of descriptors, made with clone(2), and one \
               cache in shared memory ([E] §5.2). `limits.connections_max` and \
               `cache.descriptors_max` are then totals of all processes. Not with the helpers of \
               amped and laio.",
        since: "0.1",
    },
    OptionSpec {
        key: "shared.lock",
        kind: Kind::Choice(Locking::WORDS),
        default: "two-tier",
        doc: "How a cache that processes share is locked.",
        long: "`global`: one lock for everything ([E] §5.2). `two-tier`: a lock of readers and one \
               writer for the names, and one lock per entry for what is known of it ([S] §4).",
        since: "0.1",
    },
];

pub(crate) fn workers(settings: &Settings, processors: usize) -> usize {
    let (copies, processes) = copies_and_processes(settings, processors);
    copies * processes
}

/// Runs one worker: a loop over its listeners, with a cache of its own or a part in a shared one.
fn work(env: &Env, worker: usize) -> Result<(), String> {
    work_with(env, worker, |root, _, member| {
        let disk = InlineDisk(Below { root, rules: env.rules });
        match member {
            Some(member) => Ok(Box::new(SharedDisk { disk, member })),
            None => Ok(Box::new(disk)),
        }
    })
}

/// The disk of a loop, or why there is none.
type Made<'a> = Result<Box<dyn Disk + 'a>, String>;

/// Makes it below the root of its worker, with its tally; the worker may be one of a crew.
type MakeDisk<'a, 'b> =
    Box<dyn FnOnce(&'a Root, Tally<'a>, Option<&'static Member>) -> Made<'a> + 'b>;

/// [`work`], with a disk that is made in the worker.
pub(crate) fn work_with<'a>(
    env: &'a Env,
    worker: usize,
    disk: impl FnOnce(&'a Root, Tally<'a>, Option<&'static Member>) -> Made<'a>,
) -> Result<(), String> {
    let cpus = &env.shares[worker].cpus;
    if !cpus.is_empty() {
        affinity::pin(cpus)
            .map_err(|error| format!("cannot run on processors {cpus:?}: {error}"))?;
    }
    let disk = Box::new(disk);
    match env.settings.choice("event.poller") {
        PollerKind::Epoll => with_poller(env, worker, disk, || epoll(env, Trigger::Level)),
        PollerKind::EpollEdge => with_poller(env, worker, disk, || epoll(env, Trigger::Edge)),
        PollerKind::Poll => with_poller(env, worker, disk, || Ok(Poll::new())),
        PollerKind::Select => with_poller(env, worker, disk, || Ok(Select::new())),
    }
}

fn epoll(env: &Env, trigger: Trigger) -> io::Result<Epoll> {
    let events_max = env.settings.number_as("event.wait_events_max");
    let epoll = Epoll::new(trigger)?.returning(events_max);
    Ok(if is_exclusive(&env.settings) { epoll.exclusive() } else { epoll })
}

fn with_poller<'a, P: Poller>(
    env: &'a Env,
    worker: usize,
    disk: MakeDisk<'a, '_>,
    poller: impl FnOnce() -> io::Result<P>,
) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot make a poller: {error}");
    let Some(shared) = &env.shared else {
        let cache = LocalCache::new(&env.site.caching, env.site.seed);
        return run(env, worker, poller().map_err(failed)?, (&cache, None), disk);
    };
    let member = shared.crew.enter(worker);
    let member = member.map_err(|error| format!("cannot join the others: {error}"))?;
    let cache = SharedCache::new(shared.place, &env.site.caching, member, &env.bells);
    let poller = Leased::new(member, poller).map_err(failed)?;
    run(env, worker, poller, (&cache, Some(&cache)), disk)
}

fn run<'a, P: Poller>(
    env: &'a Env,
    worker: usize,
    poller: P,
    (cache, shared): (&dyn Cache<StaticFile>, Option<&SharedCache<'_>>),
    disk: MakeDisk<'a, '_>,
) -> Result<(), String> {
    let slot = env.arena.slot(worker);
    slot.enter(process::id());
    let scratch = Scratch::new(env.site.boundary_key);
    let open_log = || (env.open_log)(worker);
    let log = match shared.map(SharedCache::member) {
        None => open_log(),
        Some(member) => member.acquire(|| {
            let log = open_log();
            log.each_own(&mut |fd| member.own(fd));
            log
        }),
    };
    let member = shared.map(SharedCache::member);
    let root = own_root(env, member).map_err(|error| format!("the root: {error}"))?;
    let cx =
        FileCx { site: &env.site, cache, tally: Tally::Owned(slot), log: &*log, scratch: &scratch };
    let around = Surroundings {
        cx,
        slot,
        control: env.arena.control(),
        bell: &env.bells[worker],
        log: &*log,
        stall_ns: env.settings.number("event.stall_us") * 1000,
        shared,
        root: Some(RootSource { root, channel: &env.root_channels[worker] }),
    };
    let mut disk = disk(root, Tally::Owned(slot), member)?;
    let mut acceptor = Acceptor::new(env.listeners(worker), accept_rules(env, worker));
    let own = &env.shares[worker].listeners;
    let others = (0..env.shares.len())
        .filter(|other| *other != worker && env.shares[*other].listeners == *own);
    acceptor.others =
        others.map(|at| (env.arena.slot(at), env.shares[at].connections_max)).collect();
    acceptor.exclusive = is_exclusive(&env.settings);
    EventLoop::new(poller, acceptor, rules(&env.settings), around)
        .run(&mut *disk)
        .map_err(|error| format!("the event loop cannot go on: {error}"))
}

/// The root of this worker alone, which it replaces when the master sends another: where all share
/// a table of descriptors, by a number of its own.
fn own_root<'a>(env: &'a Env, member: Option<&'static Member>) -> io::Result<&'a Root> {
    let Some(member) = member else { return Ok(&env.root) };
    let root = member.acquire(|| env.root.try_clone().inspect(|root| member.own(root.as_fd())))?;
    // Once per process, as its place in the crew.
    Ok(Box::leak(Box::new(root)))
}

fn accept_rules(env: &Env, worker: usize) -> AcceptRules {
    let settings = &env.settings;
    AcceptRules {
        count: settings.number_as("accept.count"),
        eager_read: settings.flag("accept.eager_read"),
        on_close: settings.flag("accept.on_close"),
        when_full: match settings.choice("accept.when_full") {
            // An exclusive wake is spent on whoever asks, also if there is no room: those who have
            // some would sleep on, and the connection would wait until the next one comes.
            WhenFull::Leave if is_exclusive(settings) => WhenFull::Stop,
            when_full => when_full,
        },
        connections_max: env.shares[worker].connections_max,
        mode: if blocking(settings) { Mode::Blocking } else { Mode::Nonblocking },
    }
}

fn is_exclusive(settings: &Settings) -> bool {
    settings.choice::<Listen>("event.listen") == Listen::Exclusive
}

fn blocking(settings: &Settings) -> bool {
    settings.choice::<SendMode>("event.send") == SendMode::Blocking
}

fn rules(settings: &Settings) -> Rules {
    Rules {
        bytes_max: settings.number("event.turn_bytes_max"),
        ops_max: settings.number_as("event.turn_ops_max"),
        full_read: settings.flag("accept.full_read"),
        eager_write: settings.flag("accept.eager_write"),
        edge: false,
        // The kernel waits so long for each piece of a call: a call that fills the socket returns
        // after two such waits, and so may the next. All four end within a window and a half.
        patience: blocking(settings)
            .then(|| Duration::from_millis(settings.number("limits.send_window_ms").div_ceil(3))),
    }
}
