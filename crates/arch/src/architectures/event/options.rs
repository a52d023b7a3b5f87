//! Options of drivers with an event loop or with stages (`event.*`).
//!
//! The event driver has them alone. amped, auto, laio, flash, cohort, seda and watpipe add theirs,
//! and may refuse some values. mt, mp, hybrid, knot and the servers of [A] have other options.
//! `crate::layout` reads `processes`, `copies`, `listen`, `partition` and `pin`: they decide on the
//! sockets and processors of each process.
use crate::{
    drive::ledger,
    options::{Choice as _, Kind, OptionSpec, Settings, choice, listed_addresses, options},
};
use regatta_sys::{crew, socket::Mode};

/// The most worker processes of a server, of all copies together. As many can share one table of
/// descriptors; the limit applies also if they do not.
pub(crate) const WORKERS_MAX: usize = crew::WORKERS_MAX;

choice! {
    /// Sharing of an address by the processes of a copy (`event.listen`). A copy is a group of
    /// processes with sockets of its own.
    pub(crate) enum Listen {
        /// All wait on the same socket.
        Shared = "shared",
        /// The same socket for all, but a connection wakes one process (EPOLLEXCLUSIVE).
        Exclusive = "exclusive",
        /// Each has a socket of its own (SO_REUSEPORT).
        Reuseport = "reuseport",
    }
}

choice! {
    /// Addresses of each of several copies (`event.partition`).
    pub(crate) enum Partition {
        /// Ports, counted up from that of the first copy.
        Ports = "ports",
        /// Part of the addresses for each copy.
        Addresses = "addresses",
        /// The same port; the processor that handled the first packet selects the copy.
        SteerCpu = "steer-cpu",
    }
}

choice! {
    /// Processors that a process is bound to (`event.pin`).
    pub(crate) enum Pin {
        /// None.
        None = "none",
        /// A processor of its copy's share.
        Cpu = "cpu",
        /// All of its copy's share.
        Share = "share",
    }
}

choice! {
    /// Interface that reports which sockets are ready (`event.poller`).
    pub(crate) enum PollerKind {
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
    /// Mode of sockets while a response is sent (`event.send`).
    pub(crate) enum SendMode {
        /// In non-blocking mode.
        Nonblocking = "nonblocking",
        /// In blocking mode ([E] §4.3).
        Blocking = "blocking",
    }
}

/// Limit of the bytes of a turn; an option of every event loop.
pub(crate) const TURN_BYTES_MAX: OptionSpec = OptionSpec {
    key: "event.turn_bytes_max",
    kind: Kind::Bytes { min: 4096, max: 1 << 30 },
    default: "2 MiB",
    doc: "How many bytes one connection may send before others have their turn.",
    long: "All turns between two waits share 16 times as much. Where many connections are \
           ready, each may send less, but 64 KiB at least, so that a small response does not \
           wait for hundreds of large ones.",
};

/// Limit of the operations of a turn; an option of every event loop.
pub(crate) const TURN_OPS_MAX: OptionSpec = OptionSpec {
    key: "event.turn_ops_max",
    kind: Kind::Count { min: 2, max: 1_000_000 },
    default: "64",
    doc: "How many operations one connection may perform before others have their turn.",
    long: "A pipelined request costs one or two.",
};

/// Limit of the handshakes of a round; an option of every event loop.
pub(crate) const HANDSHAKES_PER_ROUND: OptionSpec = OptionSpec {
    key: "event.handshakes_per_round",
    kind: Kind::Count { min: 1, max: 1_000_000 },
    default: "8",
    doc: "How many TLS handshakes one round may advance before others have their turn.",
    long: "A full handshake takes 130 to 230 microseconds, as long as a dozen cached replies. \
           Further ones wait for the next rounds, in their order, while their deadline runs. \
           Connections in the clear do not wait for them. For a thread of a pipeline, a round \
           is a batch of connections.",
};

options! {
    /// Options of drivers with an event loop or with stages.
    pub(crate) struct EventOptions, OPTIONS;

    poller: PollerKind = OptionSpec {
        key: "event.poller",
        kind: Kind::Choice(PollerKind::WORDS),
        default: "epoll-edge",
        doc: "How the event loop learns which sockets are ready.",
        long: "`epoll-edge` reports each change once. `epoll` (level-triggered) reports a socket \
               at every wait for as long as it is ready; the kernel's extra check of each socket \
               costs 2 % of the instructions of a small reply. `poll` and `select` spend time at \
               every wait on every open connection; they are here because the papers used them.",
    },
    wait_events_max: usize = OptionSpec {
        key: "event.wait_events_max",
        kind: Kind::Count { min: 1, max: 65536 },
        default: "512",
        doc: "How many events one wait returns at most; the rest come with the next wait.",
        long: "Only for epoll: `poll` and `select` return all events. Small values make the loop \
               look for new connections more often; large ones need fewer waits ([G] tunes it).",
    },
    send: SendMode = OptionSpec {
        key: "event.send",
        kind: Kind::Choice(SendMode::WORDS),
        default: "nonblocking",
        doc: "Whether sockets are in non-blocking or blocking mode when a response is sent.",
        long: "`blocking` sends each response with one call, which may hold up the whole process \
               until the client has taken it ([E] §4.3, `sendfile-b`). A call ends after a third \
               of `limits.send_window_ms` without room for more, and is made again until the \
               client has had its window. Not for a server with one process and real users.",
    },
    processes: usize = OptionSpec {
        key: "event.processes",
        kind: Kind::Count { min: 0, max: WORKERS_MAX as u64 },
        default: "0",
        doc: "How many processes serve, in each copy of the server if there are several \
              (event.copies).",
        long: "0 means one for each processor that the server may use. These are the processors of \
               its affinity mask (taskset, cpuset), but no more than the quota of its control \
               groups, rounded up. The smallest of their quotas counts (cpu.max; cpu.cfs_quota_us \
               of version 1). `regatta check` prints the number and why. All copies together may \
               have 1000 processes; limits.connections_max is split evenly among all of them.",
    },
    listen: Listen = OptionSpec {
        key: "event.listen",
        kind: Kind::Choice(Listen::WORDS),
        default: "shared",
        doc: "How the processes of a copy share an address.",
        long: "`shared`: they wait on the same socket, and a new connection wakes all that sleep. \
               `exclusive`: the same, but a connection wakes one of them (EPOLLEXCLUSIVE; epoll \
               only). `reuseport`: each process has its own socket (SO_REUSEPORT), and the kernel \
               picks one by hash, whether its process is busy or not.",
    },
    copies: usize = OptionSpec {
        key: "event.copies",
        kind: Kind::Count { min: 0, max: WORKERS_MAX as u64 },
        default: "1",
        doc: "How many copies of the server there are, each with its own sockets.",
        long: "0 means one for each processor that the server may use (see event.processes) or, \
               with event.partition=addresses, one for each address.",
    },
    partition: Partition = OptionSpec {
        key: "event.partition",
        kind: Kind::Choice(Partition::WORDS),
        default: "ports",
        doc: "How several copies divide up the addresses.",
        long: "`ports`: the first copy listens on the port of server.listen, and each further copy \
               on the next port up; if the port is 0, the kernel chooses all of them. \
               `addresses`: each copy has a part of server.listen. `steer-cpu`: all copies listen \
               on the same port; the kernel gives a connection to the copy that owns (event.pin) \
               the processor that received its first packet.",
    },
    pin: Pin = OptionSpec {
        key: "event.pin",
        kind: Kind::Choice(Pin::WORDS),
        default: "none",
        doc: "Whether processes are bound to processors.",
        long: "The processors that the server may use are divided evenly among the copies. Those \
               of one copy are neighbours (threads of a core, cores of a die, dies of a package). \
               `cpu` binds each process to one processor of its copy, each on a core of its own if \
               there are enough cores, otherwise in turn. `share` binds each process to all \
               processors of its copy.",
    },
    turn_bytes_max: u64 = TURN_BYTES_MAX,
    turn_ops_max: u32 = TURN_OPS_MAX,
    handshakes_per_round: u32 = HANDSHAKES_PER_ROUND,
    stall_us: u64 = ledger::STALL_US,
}

/// Options of an event loop, without those of processes and of blocking sends.
pub(crate) const LOOP_OPTIONS: [OptionSpec; 6] =
    [OPTIONS[0], OPTIONS[1], OPTIONS[8], OPTIONS[9], OPTIONS[10], OPTIONS[11]];

impl EventOptions {
    /// Options of an architecture that has [`LOOP_OPTIONS`] alone. The others have no effect.
    pub(crate) fn of_loop(settings: &Settings) -> Self {
        let (send, listen) = (SendMode::Nonblocking, Listen::Shared);
        Self { send, listen, ..Self::read(settings) }
    }

    /// Limit from which on a turn or a round is a stall, nanoseconds.
    pub(crate) const fn stall_ns(&self) -> u64 {
        self.stall_us * 1000
    }

    /// Mode of the sockets.
    pub(crate) const fn mode(&self) -> Mode {
        match self.send {
            SendMode::Nonblocking => Mode::Nonblocking,
            SendMode::Blocking => Mode::Blocking,
        }
    }

    /// Whether a connection wakes only one of the processes that share a listener.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.listen == Listen::Exclusive
    }
}

/// Number of copies, and of processes in each, of an architecture with the options of the event
/// driver. `processors` is the number that may be busy at once.
pub(crate) fn copies_and_processes(settings: &Settings, processors: usize) -> (usize, usize) {
    let options = EventOptions::read(settings);
    let copies = match options.copies {
        0 if options.partition == Partition::Addresses => listed_addresses(settings),
        0 => processors.min(WORKERS_MAX),
        copies => copies,
    };
    let copies = copies.max(1);
    let processes = match options.processes {
        // The default never exceeds the limit.
        0 => processors.min(WORKERS_MAX) / copies,
        processes => processes,
    };
    (copies, processes.max(1))
}
