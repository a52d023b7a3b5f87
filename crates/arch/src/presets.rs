//! The table of architectures: every name, and the point on the axes that it stands for.
use crate::{Driver, adapt, amped, event, fiber, flash, laio, mp, pool, threads};

/// A named architecture.
#[derive(Clone, Copy, Debug)]
pub struct Architecture {
    /// The name that `--architecture` takes.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// Where it is described.
    pub paper: &'static str,
    /// Its driver.
    pub driver: &'static Driver,
    /// Options whose value the name fixes, where nothing else is said.
    pub axes: &'static [(&'static str, &'static str)],
}

/// A replica: by default it does what the server of its paper did and no more, also in what is not
/// an axis. Neither [H]'s server nor [E]'s and [S]'s looks at a file again once it is cached,
/// forgets one for which there is room, or looks for precompressed siblings; and each accepts as
/// many as its strategy says, whatever else there is to do. The other rows are architectures: what
/// is best for those who use them is their default.
macro_rules! replica {
    ($($key:literal = $value:expr),* $(,)?) => {
        &[
            ("cache.revalidate_ms", "never"),
            ("cache.inactive_ms", "never"),
            ("content.precompressed", "false"),
            ("accept.events_per_accept", "0"),
            $(($key, $value)),*
        ]
    };
}

/// The select server of [H] §2.1 with an accept strategy: what its options are called here, all off
/// unless a row says otherwise.
macro_rules! select_server {
    ($($key:literal = $value:literal),*) => {
        replica!(
            "event.processes" = "1",
            "event.poller" = "select",
            "limits.connections_max" = "15000",
            "accept.backlog" = "128",
            "accept.when_full" = "keep-polling",
            $($key = $value),*
        )
    };
}

/// The same without a cache: a request costs an open, a read, a write and a close ([H] §3).
macro_rules! uncached_server {
    ($($key:literal = $value:literal),*) => {
        select_server!("cache.enabled" = "false", $($key = $value),*)
    };
}

/// Knot on Capriccio: poll, which repeats the calls, and a yield before each open and close; as
/// many helpers and connections as were best ([E] §4.4).
macro_rules! knot {
    ($($key:literal = $value:expr),* $(,)?) => {
        replica!(
            "fiber.poller" = "poll",
            "fiber.retry" = "poller",
            "fiber.yields" = "true",
            "accept.when_full" = "pause",
            "accept.backlog" = "50000",
            $($key = $value),*
        )
    };
}

/// User threads over several kernel threads: nothing is known of MEANS but that ([A] §2.2).
macro_rules! means {
    ($($key:literal = $value:literal),*) => {
        &[
            ("fiber.schedulers", "0"),
            ("limits.connections_max", "4096"),
            ("accept.when_full", "pause"),
            $(($key, $value)),*
        ]
    };
}

/// Flash, by its published source: what it does by default. Names and ready heads are in one cache,
/// which looks at a file again after five minutes. The connections are those for which `select` has
/// room where each may need two descriptors.
macro_rules! flash_server {
    ($($key:literal = $value:literal),*) => {
        &[
            ("cache.entries_max", "6000"),
            ("cache.revalidate_ms", "5 min"),
            ("cache.inactive_ms", "never"),
            ("cache.body_bytes_max", "0"),
            ("content.precompressed", "false"),
            ("event.processes", "1"),
            ("event.poller", "select"),
            ("limits.connections_max", "506"),
            ("limits.idle_ms_max", "500 s"),
            ("accept.events_per_accept", "0"),
            ("accept.count", "0"),
            ("accept.backlog", "1024"),
            ("accept.when_full", "pause"),
            ("accept.eager_read", "true"),
            ("accept.eager_write", "false"),
            $(($key, $value)),*
        ]
    };
}

/// One of [A]'s servers: a pool of 64 threads, and no cache of its own, so that each request reads
/// its file.
macro_rules! pool_server {
    ($($key:literal = $value:literal),*) => {
        replica!(
            "adapt.threads" = "64",
            "cache.enabled" = "false",
            "cache.body_bytes_max" = "1MiB",
            "accept.when_full" = "pause",
            $($key = $value),*
        )
    };
}

/// What blocks needs many: the best of [E] §5.1 with 30,000 connections, `userver-b-30K-100p`.
const BLOCKING_PROCESSES: &str = "100";

/// Every architecture, by name.
pub const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        name: "sped",
        summary: "one process, one event loop; the disk blocks it",
        paper: "[E] §5, [H] §2.1",
        driver: &event::DRIVER,
        axes: &[("event.processes", "1")],
    },
    Architecture {
        name: "symped",
        summary: "several sped processes on the same listening sockets",
        paper: "[E] §5.1, [S] §4",
        driver: &event::DRIVER,
        axes: &[],
    },
    Architecture {
        name: "shared-symped",
        summary: "event loops in processes that share one cache and one table of descriptors",
        paper: "[E] §5.2, [S] §4",
        driver: &event::DRIVER,
        axes: &[("event.share", "descriptors-and-cache")],
    },
    Architecture {
        name: "symped-b",
        summary: "symped whose sends block: many processes, one for each response on its way",
        paper: "[E] §5.1",
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
        summary: "shared-symped whose sends block: many processes, one cache",
        paper: "[S] §4, §8",
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
        summary: "copies of sped, each with its own processor, cache and port or address",
        paper: "[S] §4, [G] §IV-D",
        driver: &event::DRIVER,
        axes: &[("event.copies", "0"), ("event.processes", "1"), ("event.pin", "cpu")],
    },
    Architecture {
        name: "amped",
        summary: "one event loop, and helpers for everything that may block on disk",
        paper: "Pai, Druschel, Zwaenepoel, USENIX 1999 (Flash); [E] §2",
        driver: &amped::DRIVER,
        axes: &[("event.processes", "1")],
    },
    Architecture {
        name: "flash-1999",
        summary: "amped with helper processes for names and for reading, and mapped files",
        paper: "Pai, Druschel, Zwaenepoel, USENIX 1999 (Flash), and its source",
        driver: &flash::DRIVER,
        axes: flash_server!("flash.residency" = "mincore"),
    },
    Architecture {
        name: "flash-linux",
        summary: "flash-1999 that takes what it has mapped to be in memory",
        paper: "Flash as built for Linux, by its source",
        driver: &flash::DRIVER,
        axes: flash_server!("flash.residency" = "mapped"),
    },
    Architecture {
        name: "laio",
        summary: "one event loop; disk operations that would block are continued elsewhere",
        paper: "Elmeleegy, Chanda, Cox, Zwaenepoel, USENIX 2004; [E] §10",
        driver: &laio::DRIVER,
        axes: &[("event.processes", "1")],
    },
    Architecture {
        name: "mp",
        summary: "a process for each connection, started when few are idle; a cache each",
        paper: "[E] §2; Pai, Druschel, Zwaenepoel, USENIX 1999 (MP); Apache's prefork",
        driver: &mp::DRIVER,
        axes: &[("limits.connections_max", "256"), ("accept.when_full", "pause")],
    },
    Architecture {
        name: "mt",
        summary: "a thread for each connection, started when few are left; one cache",
        paper: "[E] §2; Pai, Druschel, Zwaenepoel, USENIX 1999 (MT); Apache's worker",
        driver: &threads::DRIVER,
        axes: &[("accept.when_full", "pause")],
    },
    Architecture {
        name: "knot-nptl",
        summary: "a pool of threads made in advance, each with one connection; every call blocks",
        paper: "[G] §II-A",
        driver: &threads::DRIVER,
        axes: replica!(
            "threads.start" = "all",
            "limits.connections_max" = "1024",
            "accept.when_full" = "pause",
        ),
    },
    Architecture {
        name: "knot-c",
        summary: "a user thread for each connection; bodies in a cache, helpers for the disk",
        paper: "[E] §4.2",
        driver: &fiber::DRIVER,
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
        summary: "a user thread for each connection; helpers send files, without blocking",
        paper: "[E] §4.3",
        driver: &fiber::DRIVER,
        axes: knot!(
            "fiber.send" = "try-first",
            "fiber.helpers" = "25",
            "limits.connections_max" = "15000",
            "cache.body_bytes_max" = "0",
        ),
    },
    Architecture {
        name: "knot-b",
        summary: "a user thread for each connection; helpers send files, and block",
        paper: "[E] §4.3",
        driver: &fiber::DRIVER,
        axes: knot!(
            "fiber.send" = "blocking",
            "fiber.helpers" = "100",
            "limits.connections_max" = "20000",
            "cache.body_bytes_max" = "0",
        ),
    },
    Architecture {
        name: "means",
        summary: "user threads in a kernel thread for each processor, each with helpers",
        paper: "MEANS, PDP 2008; [A] §2.2",
        driver: &fiber::DRIVER,
        axes: means!(),
    },
    Architecture {
        name: "means-steal",
        summary: "means whose idle kernel threads take connections from busy ones",
        paper: "MEANS, PDP 2008; [A] §2.2",
        driver: &fiber::DRIVER,
        axes: means!("fiber.steal" = "true"),
    },
    Architecture {
        name: "hybrid",
        summary: "a dispatcher for connections that wait for a request, and threads for those that \
                  have sent one",
        paper: "Carrera et al., ICPADS 2005; [A] §2.1",
        driver: &pool::DRIVER,
        axes: &[("limits.connections_max", "8192"), ("accept.eager_read", "false")],
    },
    Architecture {
        name: "bio",
        summary: "a dispatcher and 64 threads that read files themselves",
        paper: "[A] §3",
        driver: &adapt::DRIVER,
        axes: pool_server!("adapt.io" = "blocking"),
    },
    Architecture {
        name: "aio",
        summary: "bio whose threads have files read, and a thread that responds when they are",
        paper: "[A] §3",
        driver: &adapt::DRIVER,
        axes: pool_server!("adapt.io" = "async", "adapt.completions" = "spin"),
    },
    Architecture {
        name: "self-adapting",
        summary: "bio that is aio for a read while connections wait for a thread",
        paper: "[A] §4",
        driver: &adapt::DRIVER,
        axes: pool_server!("adapt.io" = "adapt", "adapt.completions" = "spin"),
    },
    Architecture {
        name: "accept1",
        summary: "select server that accepts one connection at a time",
        paper: "[H] §2.1",
        driver: &event::DRIVER,
        axes: uncached_server!(
            "accept.eager_read" = "false",
            "accept.eager_write" = "false",
            "accept.count" = "1"
        ),
    },
    Architecture {
        name: "acceptinf",
        summary: "select server that accepts until nobody waits",
        paper: "[H] §2.1",
        driver: &event::DRIVER,
        axes: uncached_server!(
            "accept.eager_read" = "false",
            "accept.eager_write" = "false",
            "accept.count" = "0"
        ),
    },
    Architecture {
        name: "accept25",
        summary: "select server that accepts up to 25 connections at a time",
        paper: "[H] §2.1",
        driver: &event::DRIVER,
        axes: uncached_server!(
            "accept.eager_read" = "false",
            "accept.eager_write" = "false",
            "accept.count" = "25"
        ),
    },
    Architecture {
        name: "accept25+$",
        summary: "accept25 with a cache, as compared with TUX",
        paper: "[H] §7",
        driver: &event::DRIVER,
        axes: select_server!(
            "accept.eager_read" = "false",
            "accept.eager_write" = "false",
            "accept.count" = "25"
        ),
    },
    Architecture {
        name: "eager",
        summary: "acceptinf that reads and writes without asking",
        paper: "[H] §2.1",
        driver: &event::DRIVER,
        axes: uncached_server!(
            "accept.eager_read" = "true",
            "accept.eager_write" = "true",
            "accept.count" = "0"
        ),
    },
    Architecture {
        name: "eager+full",
        summary: "eager that reads until a read fails",
        paper: "[H] §2.1",
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
        summary: "eager that also accepts whenever a connection closes",
        paper: "[H] §2.1",
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
        summary: "eager+full+close: the server of Chandra and Mosberger",
        paper: "[H] §2.1",
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

/// Names of the literature that no program can have, and why not.
pub const ABSENT: &[(&str, &str)] = &[
    ("tux", TUX),
    ("tux25", TUX), // the same with at most 25 accepts at a time
];

const TUX: &str = "it ran inside the Linux kernel and left it long ago: no program has its costs; \
                   what [H] shows with it is tested by sped and accept.count=25 \
                   (docs/arch/accept-strategies.md)";

/// Why there is no architecture called `name`, if that is known; letters of either case.
#[must_use]
pub fn absent(name: &str) -> Option<&'static str> {
    ABSENT.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, why)| *why)
}

/// The architecture called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Architecture> {
    ARCHITECTURES.iter().find(|architecture| architecture.name == name)
}

#[cfg(test)]
mod tests;
