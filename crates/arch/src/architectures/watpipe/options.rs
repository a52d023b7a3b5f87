//! The options of a pipeline that polls, reads and writes in threads of their own.
use crate::{
    architectures::event,
    loops::line::options as stages,
    options::{Choice as _, Kind, OptionSpec, choice, joined, options},
};

/// All options of the driver.
pub(super) const OPTIONS: [OptionSpec; STAGED.len() + OWN.len()] = joined(&STAGED, OWN);

const STAGED: [OptionSpec; event::OPTIONS.len() + stages::OPTIONS.len()] =
    joined(event::OPTIONS, stages::OPTIONS);

options! {
    /// The options that no other driver has.
    pub(super) struct WatpipeOptions, OWN;

    writers: usize = OptionSpec {
        key: "watpipe.writers",
        kind: Kind::Count { min: 0, max: 4096 },
        default: "0",
        doc: "How many threads send.",
        long: "0 means one for each processor that the process may use, which is best where all is \
               in memory ([S] §8). Where responses wait for a disk, or sends block (event.send), \
               each that waits needs a thread of its own.",
    },
    writers_max: usize = OptionSpec {
        key: "watpipe.writers_max",
        kind: Kind::Count { min: 0, max: 4096 },
        default: "0",
        doc: "The most threads that send, where a controller starts more (stages.pool_control).",
        long: "0 means no more than watpipe.writers. One that a controller has started ends when \
               it has had nothing to do for a second.",
    },
    read: Read = OptionSpec {
        key: "watpipe.read",
        kind: Kind::Choice(Read::WORDS),
        default: "threads",
        doc: "Who reads requests and opens files.",
        long: "`poller`: the thread that waits for requests reads them itself ([E] §6). \
               `threads`: it leaves them to others (watpipe.readers; [S] §4).",
    },
    readers: usize = OptionSpec {
        key: "watpipe.readers",
        kind: Kind::Count { min: 0, max: 1024 },
        default: "0",
        doc: "How many threads read requests, with watpipe.read=threads.",
        long: "0 means one for each processor that the process may use.",
    },
    barrier: bool = OptionSpec {
        key: "watpipe.barrier",
        kind: Kind::Bool,
        default: "false",
        doc: "Whether the thread that waits for room in sockets and those that send take turns.",
        long: "If so, it leaves all that is ready to the others at once, and waits until they have \
               sent what there was room for ([E] §6). A thread that is held up by the disk holds \
               up all of them. Not with event.send=blocking.",
    },
    acceptors: Acceptors = OptionSpec {
        key: "watpipe.acceptors",
        kind: Kind::Choice(Acceptors::WORDS),
        default: "listener",
        doc: "How many threads accept.",
        long: "`one` accepts from all addresses ([E] §6). `listener`: one for each address of the \
               process ([S] §4), which has an even part of limits.connections_max, whether there \
               is load on its address or not.",
    },
    share: Share = OptionSpec {
        key: "watpipe.share",
        kind: Kind::Choice(Share::WORDS),
        default: "queue",
        doc: "How responses are shared out among the threads that send.",
        long: "`queue`: who is free takes the next. `round-robin`: each thread has a queue of its \
               own, and responses go to them in turn. `batch`: each has an equal part of those \
               that become ready together ([E] §6). With queues of their own, threads send \
               what falls to them, whatever part (watpipe.parts) a connection is of.",
    },
    parts: Parts = OptionSpec {
        key: "watpipe.parts",
        kind: Kind::Choice(Parts::WORDS),
        default: "none",
        doc: "Whether readers and writers are divided up among the processors.",
        long: "`cpu`: each is bound to a processor, and each processor has queues of its own \
               ([S] §4). A connection belongs to one processor, which follows from the address \
               that it has come to; if one thread accepts, connections go to each in turn. There \
               are no more parts than readers or writers.",
    },
    pin_pollers: bool = OptionSpec {
        key: "watpipe.pin_pollers",
        kind: Kind::Bool,
        default: "false",
        doc: "Whether the two threads that wait for sockets are bound to a processor each.",
        long: "[S] §4 leaves them where the kernel puts them.",
    },
}

choice! {
    /// Reader of requests (`watpipe.read`).
    pub(super) enum Read {
        /// The poller.
        Poller = "poller",
        /// Threads.
        Threads = "threads",
    }
}

choice! {
    /// Number of threads that accept (`watpipe.acceptors`).
    pub(super) enum Acceptors {
        /// A single thread, for all listeners.
        One = "one",
        /// A thread for each listener.
        Listener = "listener",
    }
}

choice! {
    /// Distribution of responses (`watpipe.share`).
    pub(super) enum Share {
        /// A single queue.
        Queue = "queue",
        /// A queue for each writer, round-robin.
        RoundRobin = "round-robin",
        /// A queue for each writer, and an equal part of each batch.
        Batch = "batch",
    }
}

choice! {
    /// Parts of the pipeline (`watpipe.parts`).
    pub(super) enum Parts {
        /// A single part.
        None = "none",
        /// A part for each processor.
        Cpu = "cpu",
    }
}
