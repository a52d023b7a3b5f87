//! The options of a server of stages with queues.
use crate::{
    architectures::event,
    loops::line::options as stages,
    options::{Choice as _, Kind, OptionSpec, choice, joined, options},
};

/// All options of the driver.
pub(super) const OPTIONS: [OptionSpec; STAGED.len() + OWN.len()] = joined(&STAGED, OWN);

const STAGED: [OptionSpec; event::OPTIONS.len() + LINE.len()] = joined(event::OPTIONS, &LINE);

const LINE: [OptionSpec; stages::OPTIONS.len() + stages::LINE_OPTIONS.len()] =
    joined(stages::OPTIONS, stages::LINE_OPTIONS);

options! {
    /// The options that no other driver has.
    pub(super) struct SedaOptions, OWN;

    threads: Threads = OptionSpec {
        key: "seda.threads",
        kind: Kind::Choice(Threads::WORDS),
        default: "own",
        doc: "Whether stages have threads of their own.",
        long: "`own`: each has a pool. `shared`: seda.pool_min threads serve all stages between \
               the one that reads and the one that writes. They serve the stages for which \
               requests wait, the longest queue first. Nothing starts further threads.",
    },
    pool_min: u32 = OptionSpec {
        key: "seda.pool_min",
        kind: Kind::Count { min: 1, max: 1024 },
        default: "1",
        doc: "The threads that a stage keeps, also when it has nothing to do.",
        long: "",
    },
    pool_max: u32 = OptionSpec {
        key: "seda.pool_max",
        kind: Kind::Count { min: 1, max: 1024 },
        default: "20",
        doc: "The most threads of a stage.",
        long: "Of those that parse, that look requests up, and that open files; what starts them \
               is stages.pool_control.",
    },
    disk_min: u32 = OptionSpec {
        key: "seda.disk_min",
        kind: Kind::Count { min: 1, max: 1024 },
        default: "1",
        doc: "The threads that the stage keeps that reads from disk.",
        long: "",
    },
    disk_max: u32 = OptionSpec {
        key: "seda.disk_max",
        kind: Kind::Count { min: 1, max: 1024 },
        default: "20",
        doc: "The most threads of the stage that reads from disk.",
        long: "",
    },
    idle_ms: u64 = OptionSpec {
        key: "seda.idle_ms",
        kind: Kind::Millis { min: 10, max: 600_000 },
        default: "1 s",
        doc: "A thread ends when it has had nothing to do for this long, and its stage has more \
              than it keeps.",
        long: "",
    },
    wake: Wake = OptionSpec {
        key: "seda.wake",
        kind: Kind::Choice(Wake::WORDS),
        default: "one",
        doc: "Which threads of a stage a request wakes.",
        long: "`all`: every one that waits; one takes it, and the others wait again, as in \
               Sandstorm.",
    },
    queue_max: u32 = OptionSpec {
        key: "seda.queue_max",
        kind: Kind::Count { min: 0, max: 10_000_000 },
        default: "1024",
        doc: "The most requests that wait to be parsed, and that wait to be opened.",
        long: "What comes then is turned away. 0: no limit but that of connections; where \
               stages.admission is threshold, 1024 wait to be parsed. The other queues have what \
               these have let in.",
    },
    on_full: OnFull = OptionSpec {
        key: "seda.on_full",
        kind: Kind::Choice(OnFull::WORDS),
        default: "refuse",
        doc: "What becomes of a request that is turned away before it is parsed.",
        long: "`refuse` answers 503 and closes. `drop` closes the connection.",
    },
    requests_max: usize = OptionSpec {
        key: "seda.requests_max",
        kind: Kind::Count { min: 0, max: 10_000_000 },
        default: "1024",
        doc: "The most requests between the stage that reads and the one that writes.",
        long: "What comes then is turned away. 0: no limit but that of connections.",
    },
    cache_order: bool = OptionSpec {
        key: "seda.cache_order",
        kind: Kind::Bool,
        default: "true",
        doc: "Whether responses from memory go before files that must be opened, small ones before \
              large ones.",
        long: "Of the requests that a thread takes at once, as in Haboob.",
    },
}

choice! {
    /// Assignment of threads to stages (`seda.threads`).
    pub(super) enum Threads {
        /// Threads of one stage.
        Own = "own",
        /// Threads of all stages.
        Shared = "shared",
    }
}

choice! {
    /// Threads that a request wakes (`seda.wake`).
    pub(super) enum Wake {
        /// A thread that waits.
        One = "one",
        /// All that wait.
        All = "all",
    }
}

choice! {
    /// End of a request that is turned away (`seda.on_full`).
    pub(super) enum OnFull {
        /// Is answered with 503.
        Refuse = "refuse",
        /// Loses its connection, which is closed.
        Drop = "drop",
    }
}
