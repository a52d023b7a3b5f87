//! The options of every driver with this loop.
use crate::{
    layout::{Listen, Partition, Pin, WORKERS_MAX},
    options::{Choice as _, Kind, OptionSpec, choice, options},
};
use regatta_sys::socket::Mode;

choice! {
    /// How the loop learns which sockets are ready (`event.poller`).
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
    /// How sockets are when a response is sent (`event.send`).
    pub(crate) enum SendMode {
        /// In non-blocking mode.
        Nonblocking = "nonblocking",
        /// In blocking mode ([E] §4.3).
        Blocking = "blocking",
    }
}

options! {
    /// The options of every driver with this loop.
    pub(crate) struct EventOptions, OPTIONS;

    poller: PollerKind = OptionSpec {
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
    wait_events_max: usize = OptionSpec {
        key: "event.wait_events_max",
        kind: Kind::Count { min: 1, max: 65536 },
        default: "512",
        doc: "How many events one wait returns at most; more come with the next.",
        long: "Of epoll: `poll` and `select` return all that there are. Few make the loop look for \
               new connections more often, many spare waits ([G] tunes it).",
        since: "0.1",
    },
    send: SendMode = OptionSpec {
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
    processes: usize = OptionSpec {
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
    listen: Listen = OptionSpec {
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
    copies: usize = OptionSpec {
        key: "event.copies",
        kind: Kind::Count { min: 0, max: WORKERS_MAX as u64 },
        default: "1",
        doc: "How many copies of the server there are, each with sockets of its own.",
        long: "0 takes one for each processor that the server may use (event.processes says \
               which) or, with event.partition=addresses, one for each address.",
        since: "0.1",
    },
    partition: Partition = OptionSpec {
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
    pin: Pin = OptionSpec {
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
    turn_bytes_max: u64 = OptionSpec {
        key: "event.turn_bytes_max",
        kind: Kind::Bytes { min: 4096, max: 1 << 30 },
        default: "2 MiB",
        doc: "Bytes that one connection may send before others have their turn.",
        long: "All turns between two waits share 16 times as much: where many connections are \
               ready each sends less, 64 KiB at least, so that a small response does not wait \
               for hundreds of large ones.",
        since: "0.1",
    },
    turn_ops_max: u32 = OptionSpec {
        key: "event.turn_ops_max",
        kind: Kind::Count { min: 2, max: 1_000_000 },
        default: "64",
        doc: "Operations that one connection may perform before others have their turn.",
        long: "A pipelined request costs one or two.",
        since: "0.1",
    },
    stall_us: u64 = OptionSpec {
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
}

impl EventOptions {
    /// A turn or a round at least this long is a stall, nanoseconds.
    pub(crate) const fn stall_ns(&self) -> u64 {
        self.stall_us * 1000
    }

    /// The mode that sockets are in.
    pub(crate) const fn mode(&self) -> Mode {
        match self.send {
            SendMode::Nonblocking => Mode::Nonblocking,
            SendMode::Blocking => Mode::Blocking,
        }
    }

    /// A connection wakes one of the processes that share a listener, and not all.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.listen == Listen::Exclusive
    }
}
