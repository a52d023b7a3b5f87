//! The table of architectures: every name, and the point on the axes that it stands for.
#[macro_use]
mod replicas;

use crate::{
    Driver,
    architectures::{
        amped, auto, azzedin, cohort, coloured, event, flash, hybrid, hybrid_adapt, knot, laio, mp,
        mt, readahead, seda, uring, watpipe,
    },
};

/// A named architecture.
#[derive(Clone, Copy, Debug)]
pub struct Architecture {
    /// The name that `--architecture` takes.
    pub name: &'static str,
    /// Family.
    pub family: Family,
    /// Architecture that this one changes; empty at the head of a family.
    pub parent: &'static str,
    /// Summary of at most 46 characters.
    pub summary: &'static str,
    /// Source in at most 12 characters.
    pub cite: &'static str,
    /// Sources in full.
    pub paper: &'static str,
    /// Page below `docs/arch`, without the suffix.
    pub page: &'static str,
    /// Driver that runs it.
    pub driver: &'static Driver,
    /// Options that the name sets, unless they are set otherwise.
    pub axes: &'static [(&'static str, &'static str)],
}

/// Families of architectures, in the order in which they are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Event loops alone.
    Events,
    /// Event loops with helpers.
    Helpers,
    /// Processes and kernel threads.
    Threads,
    /// User threads.
    UserThreads,
    /// Threads for each stage.
    Pipelines,
    /// A dispatcher and threads.
    Pools,
    /// Event loops on `select`, by how they accept.
    AcceptStrategies,
}

impl Family {
    /// All, in order.
    pub const ALL: [Self; 7] = [
        Self::Events,
        Self::Helpers,
        Self::Threads,
        Self::UserThreads,
        Self::Pipelines,
        Self::Pools,
        Self::AcceptStrategies,
    ];

    /// Name and, after a colon, the common property of the members; at most 80 characters.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Events => "Event-driven: a loop serves many connections; the disk blocks it",
            Self::Helpers => "With helpers: a loop hands over what would wait for the disk",
            Self::Threads => "Threads: a process or kernel thread for each connection; calls block",
            Self::UserThreads => "User threads: a stack for each connection, a scheduler for many",
            Self::Pipelines => "Pipelines: threads for each stage; connections travel on",
            Self::Pools => "Pools: a dispatcher holds idle connections; threads serve requests",
            Self::AcceptStrategies => "Accept strategies: sped on select, by how it accepts",
        }
    }
}

/// Best number of [E] §5.1 with 30,000 connections, `userver-b-30K-100p`: each process blocks.
const BLOCKING_PROCESSES: &str = "100";

/// Every architecture, by name.
pub const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        name: "sped",
        family: Family::Events,
        parent: "",
        summary: "one process, one loop; the disk blocks it",
        cite: "[E] §5",
        paper: "[E] §5, [H] §2.1",
        page: "sped",
        driver: &event::DRIVER,
        axes: &[("event.processes", "1")],
    },
    Architecture {
        name: "symped",
        family: Family::Events,
        parent: "sped",
        summary: "several sped processes on the same listeners",
        cite: "[E] §5.1",
        paper: "[E] §5.1, [S] §4",
        page: "symped",
        driver: &event::DRIVER,
        axes: &[],
    },
    Architecture {
        name: "shared-symped",
        family: Family::Events,
        parent: "symped",
        summary: "symped with one cache and descriptor table",
        cite: "[E] §5.2",
        paper: "[E] §5.2, [S] §4",
        page: "shared-symped",
        driver: &event::DRIVER,
        axes: &[("event.share", "descriptors-and-cache")],
    },
    Architecture {
        name: "symped-b",
        family: Family::Events,
        parent: "symped",
        summary: "symped whose sends block: 100 processes",
        cite: "[E] §5.1",
        paper: "[E] §5.1",
        page: "symped-b",
        driver: &event::DRIVER,
        axes: replica!(
            "event.processes" = BLOCKING_PROCESSES,
            "event.send" = "blocking",
            "accept.eager_read" = "false",
            "accept.when_full" = "pause",
        ),
    },
    Architecture {
        name: "shared-symped-b",
        family: Family::Events,
        parent: "shared-symped",
        summary: "shared-symped whose sends block: 100 processes",
        cite: "[S] §4",
        paper: "[S] §4, §8",
        page: "shared-symped-b",
        driver: &event::DRIVER,
        axes: replica!(
            "event.processes" = BLOCKING_PROCESSES,
            "event.send" = "blocking",
            "event.share" = "descriptors-and-cache",
            "accept.eager_read" = "false",
            "accept.when_full" = "pause",
        ),
    },
    Architecture {
        name: "n-copy",
        family: Family::Events,
        parent: "symped",
        summary: "copies of sped, each with a processor and port",
        cite: "[S] §4",
        paper: "[S] §4, [G] §IV-D",
        page: "n-copy",
        driver: &event::DRIVER,
        axes: &[("event.copies", "0"), ("event.processes", "1"), ("event.pin", "cpu")],
    },
    Architecture {
        name: "sped-readahead",
        family: Family::Events,
        parent: "sped",
        summary: "sped that asks for a file, sends it later",
        cite: "of ours",
        paper: "none; a question that [E] §5 leaves open",
        page: "sped-readahead",
        driver: &readahead::DRIVER,
        axes: &[("event.processes", "1")],
    },
    Architecture {
        name: "coloured",
        family: Family::Events,
        parent: "symped",
        summary: "loops in threads; idle ones take connections",
        cite: "[S] §2",
        paper: "libasync-smp: Zeldovich et al., USENIX 2003; [S] §2",
        page: "coloured",
        driver: &coloured::DRIVER,
        axes: &[],
    },
    Architecture {
        name: "hybrid-adapt",
        family: Family::Events,
        parent: "symped",
        summary: "symped with more processes while they wait",
        cite: "[E] §5.1",
        paper: "[E] §5.1: planned there, to tune the number of processes at run time",
        page: "hybrid-adapt",
        driver: &hybrid_adapt::DRIVER,
        axes: &[],
    },
    Architecture {
        name: "amped",
        family: Family::Helpers,
        parent: "sped",
        summary: "a loop, and helpers for what the disk blocks",
        cite: "USENIX 1999",
        paper: "Pai, Druschel, Zwaenepoel, USENIX 1999 (Flash); [E] §2",
        page: "amped",
        driver: &amped::DRIVER,
        axes: &[("event.processes", "1")],
    },
    Architecture {
        name: "flash-1999",
        family: Family::Helpers,
        parent: "amped",
        summary: "Flash: helper processes, mapped files, mincore",
        cite: "USENIX 1999",
        paper: "Pai, Druschel, Zwaenepoel, USENIX 1999 (Flash), and its source",
        page: "flash",
        driver: &flash::DRIVER,
        axes: flash_server!("flash.residency" = "mincore"),
    },
    Architecture {
        name: "flash-linux",
        family: Family::Helpers,
        parent: "flash-1999",
        summary: "flash-1999 that takes mapped files as cached",
        cite: "its source",
        paper: "Flash as built for Linux, by its source",
        page: "flash",
        driver: &flash::DRIVER,
        axes: flash_server!("flash.residency" = "mapped"),
    },
    Architecture {
        name: "laio",
        family: Family::Helpers,
        parent: "sped",
        summary: "a loop; what would block continues elsewhere",
        cite: "USENIX 2004",
        paper: "Elmeleegy, Chanda, Cox, Zwaenepoel, USENIX 2004; [E] §10",
        page: "laio",
        driver: &laio::DRIVER,
        axes: &[("event.processes", "1")],
    },
    Architecture {
        name: "auto",
        family: Family::Helpers,
        parent: "amped",
        summary: "a loop per processor; helpers for cold files",
        cite: "ours",
        paper: "ours, after [S] §8: no server is best both cached and on a disk",
        page: "auto",
        driver: &auto::DRIVER,
        axes: &[],
    },
    Architecture {
        name: "uring",
        family: Family::Helpers,
        parent: "laio",
        summary: "laio whose ring performs what sockets do, too",
        cite: "none",
        paper: "none: the question of P-2 and X-12",
        page: "uring",
        driver: &uring::DRIVER,
        axes: &[("cache.clear_body_bytes_max", "64 KiB")],
    },
    Architecture {
        name: "cohort",
        family: Family::Events,
        parent: "sped",
        summary: "a loop that serves connections stage by stage",
        cite: "USENIX 2002",
        paper: "Larus, Parkes, USENIX 2002; [A] §2.3",
        page: "cohort",
        driver: &cohort::DRIVER,
        axes: &[],
    },
    Architecture {
        name: "mp",
        family: Family::Threads,
        parent: "",
        summary: "a process for each connection; a cache each",
        cite: "[E] §2",
        paper: "[E] §2; Pai, Druschel, Zwaenepoel, USENIX 1999 (MP); Apache's prefork",
        page: "mp",
        driver: &mp::DRIVER,
        axes: &[("limits.connections_max", "256"), ("accept.when_full", "pause")],
    },
    Architecture {
        name: "mt",
        family: Family::Threads,
        parent: "",
        summary: "a thread for each connection; one cache",
        cite: "[E] §2",
        paper: "[E] §2; Pai, Druschel, Zwaenepoel, USENIX 1999 (MT); Apache's worker",
        page: "mt",
        driver: &mt::DRIVER,
        axes: &[("accept.when_full", "pause")],
    },
    Architecture {
        name: "knot-nptl",
        family: Family::Threads,
        parent: "mt",
        summary: "mt with all its threads made at the start",
        cite: "[G] §II-A",
        paper: "[G] §II-A",
        page: "knot-nptl",
        driver: &mt::DRIVER,
        axes: replica!(
            "threads.start" = "all",
            "limits.connections_max" = "1024",
            "accept.when_full" = "pause",
        ),
    },
    Architecture {
        name: "knot-c",
        family: Family::UserThreads,
        parent: "",
        summary: "user threads; bodies cached, helpers read",
        cite: "[E] §4.2",
        paper: "[E] §4.2",
        page: "knot-c",
        driver: &knot::DRIVER,
        axes: knot!(
            "fiber.helpers" = "100",
            "limits.connections_max" = "20000",
            "cache.body_bytes_max" = "64 MiB",
            "cache.bytes_max" = "1000 MiB",
            "cache.copy_bytes_max" = "1 MiB",
        ),
    },
    Architecture {
        name: "knot-nb",
        family: Family::UserThreads,
        parent: "knot-c",
        summary: "user threads; helpers send without blocking",
        cite: "[E] §4.3",
        paper: "[E] §4.3",
        page: "knot-nb",
        driver: &knot::DRIVER,
        axes: knot!(
            "fiber.send" = "try-first",
            "fiber.helpers" = "25",
            "limits.connections_max" = "15000",
            "cache.body_bytes_max" = "0",
        ),
    },
    Architecture {
        name: "knot-b",
        family: Family::UserThreads,
        parent: "knot-c",
        summary: "user threads; helpers send, and block",
        cite: "[E] §4.3",
        paper: "[E] §4.3",
        page: "knot-b",
        driver: &knot::DRIVER,
        axes: knot!(
            "fiber.send" = "blocking",
            "fiber.helpers" = "100",
            "limits.connections_max" = "20000",
            "cache.body_bytes_max" = "0",
        ),
    },
    Architecture {
        name: "means",
        family: Family::UserThreads,
        parent: "knot-c",
        summary: "user threads on each processor, with helpers",
        cite: "PDP 2008",
        paper: "MEANS, PDP 2008; [A] §2.2",
        page: "means",
        driver: &knot::DRIVER,
        axes: means!(),
    },
    Architecture {
        name: "means-steal",
        family: Family::UserThreads,
        parent: "means",
        summary: "means whose idle schedulers take connections",
        cite: "PDP 2008",
        paper: "MEANS, PDP 2008; [A] §2.2",
        page: "means",
        driver: &knot::DRIVER,
        axes: means!("fiber.steal" = "true"),
    },
    Architecture {
        name: "hybrid",
        family: Family::Pools,
        parent: "",
        summary: "a dispatcher, and a thread for each request",
        cite: "[A] §2.1",
        paper: "Carrera et al., ICPADS 2005; [A] §2.1",
        page: "hybrid",
        driver: &hybrid::DRIVER,
        axes: &[("limits.connections_max", "8192"), ("accept.eager_read", "false")],
    },
    Architecture {
        name: "bio",
        family: Family::Pools,
        parent: "",
        summary: "a dispatcher and 64 threads that read files",
        cite: "[A] §3",
        paper: "[A] §3",
        page: "bio",
        driver: &azzedin::DRIVER,
        axes: pool_server!("adapt.io" = "blocking"),
    },
    Architecture {
        name: "aio",
        family: Family::Pools,
        parent: "bio",
        summary: "bio whose threads start asynchronous reads",
        cite: "[A] §3",
        paper: "[A] §3",
        page: "bio",
        driver: &azzedin::DRIVER,
        axes: pool_server!("adapt.io" = "async", "adapt.completions" = "spin"),
    },
    Architecture {
        name: "self-adapting",
        family: Family::Pools,
        parent: "bio",
        summary: "bio that is aio while connections wait",
        cite: "[A] §4",
        paper: "[A] §4",
        page: "self-adapting",
        driver: &azzedin::DRIVER,
        axes: pool_server!("adapt.io" = "adapt", "adapt.completions" = "spin"),
    },
    Architecture {
        name: "watpipe4",
        family: Family::Pipelines,
        parent: "",
        summary: "four stages: accept, read, poll, write",
        cite: "[E] §6",
        paper: "[E] §6",
        page: "watpipe4",
        driver: &watpipe::DRIVER,
        axes: pipeline!(
            "watpipe.read" = "poller",
            "watpipe.acceptors" = "one",
            "watpipe.barrier" = "true",
            "watpipe.writers" = "25",
            "event.poller" = "select",
            "limits.connections_max" = "20000",
        ),
    },
    Architecture {
        name: "watpipe5",
        family: Family::Pipelines,
        parent: "watpipe4",
        summary: "two pollers; readers and writers by processor",
        cite: "[S] §4",
        paper: "[S] §4",
        page: "watpipe5",
        driver: &watpipe::DRIVER,
        axes: pipeline!("watpipe.parts" = "cpu", "limits.connections_max" = "100000"),
    },
    Architecture {
        name: "watpipe5-b",
        family: Family::Pipelines,
        parent: "watpipe5",
        summary: "watpipe5 whose sends block: 200 writers",
        cite: "[S] §4",
        paper: "[S] §4, §8",
        page: "watpipe5-b",
        driver: &watpipe::DRIVER,
        axes: pipeline!(
            "watpipe.parts" = "cpu",
            "watpipe.writers" = "200",
            "event.send" = "blocking",
            "limits.connections_max" = "80000",
        ),
    },
    Architecture {
        name: "seda",
        family: Family::Pipelines,
        parent: "",
        summary: "stages with queues and pools, controlled",
        cite: "SOSP 2001",
        paper: "SEDA (Welsh, Culler, Brewer 2001)",
        page: "seda",
        driver: &seda::DRIVER,
        axes: &[
            ("accept.when_full", "pause"),
            ("cache.body_bytes_max", "1 MiB"),
            ("stages.admission", "proportional"),
        ],
    },
    Architecture {
        name: "haboob-2002",
        family: Family::Pipelines,
        parent: "seda",
        summary: "seda as its published source is configured",
        cite: "its source",
        paper: "Haboob (Sandstorm, 2002)",
        page: "haboob-2002",
        driver: &seda::DRIVER,
        axes: haboob!(),
    },
    Architecture {
        name: "cohort-sandstorm",
        family: Family::Pipelines,
        parent: "haboob-2002",
        summary: "haboob-2002 with one thread for all stages",
        cite: "its source",
        paper: "Haboob (Sandstorm, 2002)",
        page: "cohort-sandstorm",
        driver: &seda::DRIVER,
        axes: haboob!("seda.threads" = "shared"),
    },
    Architecture {
        name: "accept1",
        family: Family::AcceptStrategies,
        parent: "sped",
        summary: "accepts one connection at a time",
        cite: "[H] §2.1",
        paper: "[H] §2.1",
        page: "accept-strategies",
        driver: &event::DRIVER,
        axes: uncached_server!(
            "accept.eager_read" = "false",
            "accept.eager_write" = "false",
            "accept.count" = "1"
        ),
    },
    Architecture {
        name: "acceptinf",
        family: Family::AcceptStrategies,
        parent: "accept1",
        summary: "accepts until the backlog is empty",
        cite: "[H] §2.1",
        paper: "[H] §2.1",
        page: "accept-strategies",
        driver: &event::DRIVER,
        axes: uncached_server!(
            "accept.eager_read" = "false",
            "accept.eager_write" = "false",
            "accept.count" = "0"
        ),
    },
    Architecture {
        name: "accept25",
        family: Family::AcceptStrategies,
        parent: "acceptinf",
        summary: "accepts up to 25 connections at a time",
        cite: "[H] §2.1",
        paper: "[H] §2.1",
        page: "accept-strategies",
        driver: &event::DRIVER,
        axes: uncached_server!(
            "accept.eager_read" = "false",
            "accept.eager_write" = "false",
            "accept.count" = "25"
        ),
    },
    Architecture {
        name: "accept25+$",
        family: Family::AcceptStrategies,
        parent: "accept25",
        summary: "accept25 with a cache, as compared with TUX",
        cite: "[H] §7",
        paper: "[H] §7",
        page: "accept-strategies",
        driver: &event::DRIVER,
        axes: select_server!(
            "accept.eager_read" = "false",
            "accept.eager_write" = "false",
            "accept.count" = "25"
        ),
    },
    Architecture {
        name: "eager",
        family: Family::AcceptStrategies,
        parent: "acceptinf",
        summary: "acceptinf that reads and writes without asking",
        cite: "[H] §2.1",
        paper: "[H] §2.1",
        page: "accept-strategies",
        driver: &event::DRIVER,
        axes: uncached_server!(
            "accept.eager_read" = "true",
            "accept.eager_write" = "true",
            "accept.count" = "0"
        ),
    },
    Architecture {
        name: "eager+full",
        family: Family::AcceptStrategies,
        parent: "eager",
        summary: "eager that reads until a read fails",
        cite: "[H] §2.1",
        paper: "[H] §2.1",
        page: "accept-strategies",
        driver: &event::DRIVER,
        axes: uncached_server!(
            "accept.eager_read" = "true",
            "accept.eager_write" = "true",
            "accept.full_read" = "true",
            "accept.count" = "0"
        ),
    },
    Architecture {
        name: "eager+close",
        family: Family::AcceptStrategies,
        parent: "eager",
        summary: "eager that accepts when a connection closes",
        cite: "[H] §2.1",
        paper: "[H] §2.1",
        page: "accept-strategies",
        driver: &event::DRIVER,
        axes: uncached_server!(
            "accept.eager_read" = "true",
            "accept.eager_write" = "true",
            "accept.on_close" = "true",
            "accept.count" = "0"
        ),
    },
    Architecture {
        name: "cm",
        family: Family::AcceptStrategies,
        parent: "eager+full",
        summary: "eager+full+close: Chandra and Mosberger",
        cite: "[H] §2.1",
        paper: "[H] §2.1",
        page: "accept-strategies",
        driver: &event::DRIVER,
        axes: uncached_server!(
            "accept.eager_read" = "true",
            "accept.eager_write" = "true",
            "accept.full_read" = "true",
            "accept.on_close" = "true",
            "accept.count" = "0"
        ),
    },
];

/// Names of the literature that no program can have, and the reasons.
pub const ABSENT: &[(&str, &str)] = &[
    ("tux", TUX),
    ("tux25", TUX), // the same with at most 25 accepts at a time
];

const TUX: &str = "it ran inside the Linux kernel and left it long ago: no program has its costs; \
                   what [H] shows with it is tested by sped and accept.count=25 \
                   (docs/arch/accept-strategies.md)";

/// Names of other things that are taken for architectures, and the names to use instead.
const OTHERS: &[(&str, &str)] = &[
    ("epoll", POLLER),
    ("poll", POLLER),
    ("select", POLLER),
    ("haboob", "did you mean haboob-2002, the server of the paper, or seda, its architecture?"),
];

const POLLER: &str = "a poller is an option of an architecture: --architecture symped --set \
                      event.poller=epoll (or poll, select)";

/// Explains why there is no architecture called `name`, if that is known. Ignores case.
#[must_use]
pub fn absent(name: &str) -> Option<&'static str> {
    ABSENT
        .iter()
        .chain(OTHERS)
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, why)| *why)
}

/// The architecture called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Architecture> {
    ARCHITECTURES.iter().find(|architecture| architecture.name == name)
}

#[cfg(test)]
mod tests;
