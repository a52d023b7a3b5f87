//! Options of every architecture for taking connections from the kernel (`accept.*`).
//!
//! Each driver reads them and makes [`AcceptRules`](super::AcceptRules). The rules of turns take
//! `eager_write` and `full_read`. The master reads those of sockets when it opens the listeners.
use super::WhenFull;
use crate::options::{Choice as _, Kind, OptionSpec, options};

const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

options! {
    /// Options for taking connections from the kernel.
    pub struct AcceptOptions, OPTIONS;

    count: u32 = OptionSpec {
        key: "accept.count",
        kind: Kind::Count { min: 0, max: 1 << 20 },
        default: "0",
        doc: "How many connections are accepted at most each time the listener is ready.",
        long: "0 sets no limit of its own (Accept-inf of Chandra and Mosberger; Brecht, Pariag and \
               Gammo). accept.events_per_accept sets another.",
    },
    events_per_accept: u32 = OptionSpec {
        key: "accept.events_per_accept",
        kind: Kind::Count { min: 0, max: 1 << 20 },
        default: "16",
        doc: "How many events of a wait allow one more connection to be accepted, after the first.",
        long: "With few events connections are accepted one at a time, and the next wait reports \
               whether there are more: that costs less than an accept that finds none. With many \
               events, new connections get a share of the round, and no more. 0 ignores the number \
               of events, as the papers' servers do.",
    },
    eager_read: bool = OptionSpec {
        key: "accept.eager_read",
        kind: Kind::Bool,
        default: "true",
        doc: "Whether a new connection is read at once, before the poller reports that it is \
               readable.",
        long: "Its first request has often arrived already. A connection that is answered at once \
               and closed then needs neither epoll_ctl nor another wait; one that sends nothing \
               yet costs one more recv.",
    },
    eager_write: bool = OptionSpec {
        key: "accept.eager_write",
        kind: Kind::Bool,
        default: "true",
        doc: "Whether a response is sent at once, before the poller reports that the socket is \
               writable.",
        long: "",
    },
    on_close: bool = OptionSpec {
        key: "accept.on_close",
        kind: Kind::Bool,
        default: "false",
        doc: "Whether connections are accepted whenever one is closed.",
        long: "",
    },
    full_read: bool = OptionSpec {
        key: "accept.full_read",
        kind: Kind::Bool,
        default: "false",
        doc: "Whether a socket is read until nothing is left in it before the request is answered.",
        long: "",
    },
    backlog: u32 = OptionSpec {
        key: "accept.backlog",
        kind: Kind::Count { min: 1, max: 65535 },
        default: "1024",
        doc: "How many new connections the kernel queues until they are accepted.",
        long: "The kernel lowers it to net.core.somaxconn.",
    },
    when_full: WhenFull = OptionSpec {
        key: "accept.when_full",
        kind: Kind::Choice(WhenFull::WORDS),
        default: "close-idle",
        doc: "What a worker does when it has reached its share of limits.connections_max.",
        long: "close-idle closes an idle connection and accepts the new one. It closes the one \
               that has been idle longest after a response. If there is none, it closes the one \
               that has waited longest without sending a request. Other workers that have room get \
               a moment to accept the new one first. While no connection is idle, new ones wait in \
               the backlog. With pause they always wait there, and the worker does not poll the \
               listener until one of its connections closes. keep-polling continues to poll it, as \
               the servers of [H] do, and every wait returns at once. With event.listen=exclusive, \
               keep-polling acts as pause, and a full worker does not poll while others have room, \
               because the kernel could wake it in their place. The error log reports that a \
               worker is full, at most once in 10 s.",
    },
    defer: bool = OptionSpec {
        key: "accept.defer",
        kind: Kind::Bool,
        default: "false",
        doc: "Whether the kernel holds back a connection until its first bytes arrive.",
        long: "TCP_DEFER_ACCEPT, for ten seconds at most.",
    },
    send_buffer_bytes: u32 = OptionSpec {
        key: "accept.send_buffer_bytes",
        kind: Kind::Bytes { min: 0, max: GIB },
        default: "0",
        doc: "The send buffer of each connection.",
        long: "SO_SNDBUF. 0 leaves the size to the kernel, which lets it grow as needed.",
    },
    receive_buffer_bytes: u32 = OptionSpec {
        key: "accept.receive_buffer_bytes",
        kind: Kind::Bytes { min: 0, max: GIB },
        default: "0",
        doc: "The receive buffer of each TCP connection.",
        long: "SO_RCVBUF. 0 leaves the size to the kernel, which lets it grow as needed.",
    },
    pacing_rate: u64 = OptionSpec {
        key: "accept.pacing_rate",
        kind: Kind::Rate { min: 0, max: TIB },
        default: "0",
        doc: "The fastest rate at which a connection is sent to, bytes per second.",
        long: "SO_MAX_PACING_RATE. 0 sets no limit.",
    },
}
