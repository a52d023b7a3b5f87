//! The options of [A]'s servers.
use super::decide::{AsyncBounds, Rule};
use crate::{
    drive::ledger,
    options::{Choice as _, Kind, OptionSpec, choice, options},
};
use std::time::Duration;

choice! {
    /// Maker of reads (`adapt.io`).
    pub(super) enum Io {
        /// The thread that needs them: BIO.
        Blocking = "blocking",
        /// The engine, always: AIO.
        Async = "async",
        /// Thread or engine, decided for each read: the self-adapting server.
        Adapt = "adapt",
    }
}

choice! {
    /// Engine of asynchronous reads (`adapt.engine`).
    pub(super) enum Engine {
        /// Threads, as in glibc.
        Threads = "threads",
        /// io_uring.
        Uring = "uring",
        /// io_submit(2).
        Kernel = "kernel",
    }
}

choice! {
    /// Activity of the poller thread while no read is complete (`adapt.completions`).
    pub(super) enum CompletionWait {
        /// Checks again at once.
        Spin = "spin",
        /// Sleeps until a read is complete.
        Wait = "wait",
    }
}

options! {
    /// The options of this driver.
    pub(super) struct AdaptOptions, OPTIONS;

    threads: usize = OptionSpec {
        key: "adapt.threads",
        kind: Kind::Count { min: 1, max: 4096 },
        default: "64",
        doc: "How many threads take connections from the queue.",
        long: "Each serves one connection at a time.",
    },
    io: Io = OptionSpec {
        key: "adapt.io",
        kind: Kind::Choice(Io::WORDS),
        default: "adapt",
        doc: "Who reads files: `blocking`, the thread that needs one; `async`, others, while the \
              thread continues with another connection; `adapt`, one or the other, decided for \
              each read.",
        long: "A poller thread looks for reads that are complete and responds to their clients.",
    },
    rule: Rule = OptionSpec {
        key: "adapt.rule",
        kind: Kind::Choice(Rule::WORDS),
        default: "queue",
        doc: "With adapt.io=adapt, when a read is made asynchronously.",
        long: "`queue`: when a connection waits for a thread. `queue-length`: when as many as \
               adapt.queue_min wait. `disk`: when as many as adapt.reads_min reads are being made, \
               or reads have taken adapt.wait_us lately. `residency`: when the range is not in \
               memory, as far as a read that must not block (RWF_NOWAIT) tells.",
    },
    queue_min: usize = OptionSpec {
        key: "adapt.queue_min",
        kind: Kind::Count { min: 1, max: 1 << 20 },
        default: "1",
        doc: "With adapt.rule=queue-length, from how many waiting connections on reads are made \
              asynchronously.",
        long: "",
    },
    reads_min: usize = OptionSpec {
        key: "adapt.reads_min",
        kind: Kind::Count { min: 1, max: 1 << 20 },
        default: "2",
        doc: "With adapt.rule=disk, from how many reads in progress on further ones are made \
              asynchronously.",
        long: "",
    },
    wait_us: u64 = OptionSpec {
        key: "adapt.wait_us",
        kind: Kind::Micros { min: 1, max: 60_000_000 },
        default: "2 ms",
        doc: "With adapt.rule=disk, how long reads must have taken lately for further ones to be \
              made asynchronously.",
        long: "A mean of all reads: with each new one, those before it count 31/32 of what they \
               counted.",
    },
    engine: Engine = OptionSpec {
        key: "adapt.engine",
        kind: Kind::Choice(Engine::WORDS),
        default: "threads",
        doc: "Who makes asynchronous reads.",
        long: "`threads`: threads like those of glibc's aio_read(3). `uring`: the kernel, by \
               io_uring. `kernel`: the kernel, by io_submit(2), which waits for the disk in the \
               thread that starts the read.",
    },
    aio_threads: usize = OptionSpec {
        key: "adapt.aio_threads",
        kind: Kind::Count { min: 1, max: 1024 },
        default: "20",
        doc: "With adapt.engine=threads, the most threads that make asynchronous reads.",
        long: "",
    },
    aio_idle_ms: u64 = OptionSpec {
        key: "adapt.aio_idle_ms",
        kind: Kind::Millis { min: 1, max: 3_600_000 },
        default: "1 s",
        doc: "How long such a thread waits for another read before it ends.",
        long: "",
    },
    completions: CompletionWait = OptionSpec {
        key: "adapt.completions",
        kind: Kind::Choice(CompletionWait::WORDS),
        default: "wait",
        doc: "What the poller thread does while reads are in progress and none is complete.",
        long: "`spin`: it looks at one after another again and again, as in [A], and takes all of \
               a processor. `wait`: it sleeps until one is complete.",
    },
    trace: bool = OptionSpec {
        key: "adapt.trace",
        kind: Kind::Bool,
        default: "false",
        doc: "Whether each decision of adapt.io=adapt is written to the error log, with what it \
              depended on.",
        long: "One write for each read: for tests, and for finding out why.",
    },
    step_ms: u64 = OptionSpec {
        key: "adapt.step_ms",
        kind: Kind::Millis { min: 20, max: 60_000 },
        default: "100 ms",
        doc: "How long a call of a thread waits before the thread looks at what else there is.",
        long: "As pool.step_ms.",
    },
    stall_us: u64 = ledger::STALL_US,
}

impl AdaptOptions {
    /// Number of units: dispatcher, threads of the pool, and the poller thread if there is one.
    pub(super) fn units(&self) -> usize {
        1 + self.threads + usize::from(self.engine().is_some())
    }

    /// Engine of asynchronous reads, if any are made.
    pub(super) fn engine(&self) -> Option<Engine> {
        (self.io != Io::Blocking).then_some(self.engine)
    }

    pub(super) const fn bounds(&self) -> AsyncBounds {
        AsyncBounds { queue_min: self.queue_min, reads_min: self.reads_min, wait_us: self.wait_us }
    }

    pub(super) const fn step(&self) -> Duration {
        Duration::from_millis(self.step_ms)
    }

    pub(super) const fn aio_idle(&self) -> Duration {
        Duration::from_millis(self.aio_idle_ms)
    }

    pub(super) const fn stall_ns(&self) -> u64 {
        self.stall_us * 1000
    }
}
