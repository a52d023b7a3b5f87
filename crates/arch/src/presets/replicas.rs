//! Options that several names set alike.

/// Row of a replica: by default it does only what the server of its paper did, also in what is not
/// an axis. The servers of [H], [E] and [S] neither check a cached file again, nor forget one while
/// there is room, nor look for precompressed siblings. Each accepts as many connections as its
/// strategy says, regardless of other work. Other rows have the best defaults for their users.
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

/// Row of the select server of [H] §2.1 with an accept strategy, off unless a row sets it.
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

/// Row of the select server without a cache: each request opens, reads, writes, closes ([H] §3).
macro_rules! uncached_server {
    ($($key:literal = $value:literal),*) => {
        select_server!("cache.enabled" = "false", $($key = $value),*)
    };
}

/// Row of Knot on Capriccio: poll, which repeats the calls, and a yield before each open and close.
/// Helpers and connections have the best numbers of [E] §4.4.
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

/// Row of MEANS: user threads over several kernel threads. No more is known of it ([A] §2.2).
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

/// Row of Flash, with the defaults of its published source. Names and ready heads are in one cache,
/// which checks a file again after five minutes. The connections are those for which `select` has
/// room if each needs two descriptors.
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

/// Row of a server of [A]: 64 threads, and no cache, so that each request reads its file.
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

/// Row of a pipeline ([E] §6, [S] §4). Heads and descriptors are cached. Bodies are sent from the
/// file, when the poller reports room. No controller governs the stages.
macro_rules! pipeline {
    ($($key:literal = $value:literal),* $(,)?) => {
        replica!(
            "accept.eager_read" = "false",
            "accept.eager_write" = "false",
            "accept.when_full" = "pause",
            "cache.body_bytes_max" = "0",
            "stages.pool_control" = "none",
            "stages.batch_control" = "false",
            $($key = $value),*
        )
    };
}

/// Row of Haboob, by its published source: unbounded queues, controllers that take seconds.
macro_rules! haboob {
    ($($key:literal = $value:literal),*) => {
        replica!(
            "event.poller" = "poll",
            "accept.count" = "1000",
            "accept.backlog" = "511",
            "accept.when_full" = "pause",
            "accept.eager_read" = "false",
            "accept.eager_write" = "false",
            "cache.bytes_max" = "200 MiB",
            "cache.body_bytes_max" = "64 MiB",
            "cache.copy_bytes_max" = "1 MiB",
            "seda.idle_ms" = "2500 ms",
            "seda.wake" = "all",
            "seda.queue_max" = "0",
            "seda.on_full" = "drop",
            "seda.requests_max" = "0",
            "stages.pool_ms" = "2 s",
            "stages.disk_ms" = "1 s",
            "stages.batch_control" = "false",
            "stages.batch_ms" = "100 ms",
            "stages.truncates" = "true",
            "stages.target_ms" = "5 s",
            "stages.rate_first" = "10",
            "stages.rate_max" = "1000",
            "stages.samples" = "100",
            "stages.sample_ms" = "1 s",
            "stages.bucket" = "10",
            "stages.refill_ms_min" = "1",
            $($key = $value),*
        )
    };
}
