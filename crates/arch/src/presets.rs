//! The table of architectures: every name, and the point on the axes that it stands for.
#[macro_use]
mod replicas;

use crate::{
    Driver, adapt, amped, cohort, event, fiber, flash, laio, mp, pool, seda, threads, watpipe,
};

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
        name: "cohort",
        summary: "event loops that serve by stages, many connections in each visit",
        paper: "Larus, Parkes, USENIX 2002; [A] §2.3",
        driver: &cohort::DRIVER,
        axes: &[],
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
        name: "watpipe4",
        summary: "one thread accepts, one reads, one polls for writing, and others send in turns \
                  with it",
        paper: "[E] §6",
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
        summary: "two pollers, and readers and writers on each processor behind them",
        paper: "[S] §4",
        driver: &watpipe::DRIVER,
        axes: pipeline!("watpipe.parts" = "cpu", "limits.connections_max" = "100000"),
    },
    Architecture {
        name: "watpipe5-b",
        summary: "watpipe5 whose sends block: many writers, one for each response on its way",
        paper: "[S] §4, §8",
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
        summary: "stages with a queue and a pool of threads each, under controllers",
        paper: "SEDA (Welsh, Culler, Brewer 2001)",
        driver: &seda::DRIVER,
        axes: &[
            ("accept.when_full", "pause"),
            ("cache.body_bytes_max", "1 MiB"),
            ("stages.admission", "proportional"),
        ],
    },
    Architecture {
        name: "haboob-2002",
        summary: "seda as its published source is configured: unbounded queues, slow controllers",
        paper: "Haboob (Sandstorm, 2002)",
        driver: &seda::DRIVER,
        axes: haboob!(),
    },
    Architecture {
        name: "cohort-sandstorm",
        summary: "haboob-2002 with one thread for all stages, the longest queue first",
        paper: "Haboob (Sandstorm, 2002)",
        driver: &seda::DRIVER,
        axes: haboob!("seda.threads" = "shared"),
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

/// Names of other things that are taken for architectures, and what to write instead.
const OTHERS: &[(&str, &str)] = &[
    ("epoll", POLLER),
    ("poll", POLLER),
    ("select", POLLER),
    ("haboob", "did you mean haboob-2002, the server of the paper, or seda, its architecture?"),
];

const POLLER: &str = "a poller is an option of an architecture: --architecture symped --set \
                      event.poller=epoll (or poll, select)";

/// Why there is no architecture called `name`, if that is known; letters of either case.
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
