//! Variants: every architecture, under every setting that changes its operation.

use crate::harness::Variant;

/// Every variant; `structure.rs` asserts that each listed architecture is here.
#[rustfmt::skip]
pub(crate) const VARIANTS: &[Variant] = &[
    row("sped_epoll", "sped", &["event.poller=epoll"]),
    row("sped_epoll_edge", "sped", &["event.poller=epoll-edge"]),
    row("sped_poll", "sped", &["event.poller=poll"]),
    row("sped_select", "sped", &["event.poller=select"]),
    row("sped_blocking", "sped", &["event.poller=epoll", "event.send=blocking"]),
    // All limits that cut work into small turns, so that every resumption is taken.
    row("sped_small_turns", "sped", &["event.poller=epoll-edge", "event.turn_ops_max=2",
        "event.turn_bytes_max=16384", "event.wait_events_max=1", "accept.count=1",
        "event.handshakes_per_round=1", "accept.eager_write=false"]),
    // Accept strategies that read before they wait, and nothing remembered between requests.
    row("sped_eager_uncached", "sped", &["event.poller=poll", "accept.eager_read=true",
        "accept.full_read=true", "accept.on_close=true", "cache.enabled=false"]),
    row("symped", "symped", &["event.processes=2", "event.poller=epoll"]),
    row("symped_exclusive", "symped", &["event.processes=2", "event.poller=epoll-edge",
        "event.listen=exclusive"]),
    row("symped_reuseport", "symped", &["event.processes=2", "event.poller=poll",
        "event.listen=reuseport"]),
    row("symped_b", "symped-b", &[SIBLINGS, "event.processes=2", "event.poller=epoll"]),
    row("shared_two_tier", "shared-symped", &["event.processes=2", "event.poller=epoll",
        "shared.lock=two-tier"]),
    row("shared_global", "shared-symped", &["event.processes=3", "event.poller=epoll-edge",
        "shared.lock=global"]),
    row("shared_b", "shared-symped-b", &[SIBLINGS, "event.processes=2", "event.poller=poll"]),
    row("n_copy", "n-copy", &["event.copies=2", "event.poller=epoll"]),
    row("n_copy_steered", "n-copy", &["event.partition=steer-cpu", "event.poller=epoll"]),
    row("sped_readahead", "sped-readahead", &["event.poller=epoll", "readahead.wait_ms=5"]),
    row("coloured", "coloured", &["coloured.loops=2", "event.poller=epoll-edge"]),
    // Cases of full servers count on the connections of all processes.
    row("hybrid_adapt", "hybrid-adapt", &["staff.processes_min=2", "staff.processes_max=2",
        "event.poller=epoll"]),
    row("amped_threads", "amped", &["event.poller=epoll", "amped.helper_kind=threads"]),
    row("amped_processes", "amped", &["event.poller=epoll-edge", "amped.helper_kind=processes"]),
    // Like Flash.
    row("amped_flash", "amped", &["event.poller=poll", "amped.helper_kind=processes",
        "amped.pass_descriptors=false", "amped.residency=mincore"]),
    // A helper for each open, each read and each piece of a file.
    row("amped_uncached", "amped", &["event.poller=select", "amped.helper_kind=threads",
        "amped.residency=always-ask", "amped.helpers_max=2", "amped.helpers_idle_max=1",
        "amped.chunk_bytes=16384", "cache.enabled=false"]),
    // Two loops with helpers each, and all features of the accept strategies at once.
    row("amped_pair", "amped", &["event.processes=2", "event.poller=epoll",
        "event.listen=exclusive", "amped.helper_kind=processes", "amped.residency=cachestat",
        "accept.eager_read=true", "accept.full_read=true", "accept.on_close=true"]),
    row("flash_1999", "flash-1999", &[SIBLINGS, "event.poller=select"]),
    // Each request for a helper is a task, and chunks displace others all the time.
    row("flash_linux", "flash-linux", &[SIBLINGS, "event.poller=epoll", "flash.coalesce=false",
        "flash.start_delay_ms=0", "flash.chunk_bytes=16384", "flash.map_bytes_max=65536"]),
    row("laio_uring", "laio", &["event.poller=epoll", "laio.engine=uring"]),
    row("laio_uring_uncached", "laio", &["event.poller=poll", "laio.engine=uring",
        "cache.enabled=false"]),
    row("laio_nowait", "laio", &["event.poller=epoll-edge", "laio.engine=nowait"]),
    row("laio_pair", "laio", &["event.processes=2", "event.poller=select", "laio.engine=uring",
        "laio.chunk_bytes=16384", "accept.eager_read=true", "accept.eager_write=false",
        "accept.count=1"]),
    row("auto", "auto", &["event.processes=1", "event.poller=epoll-edge"]),
    row("auto_probing", "auto", &["event.processes=1", "event.poller=epoll", "auto.probe_ms=0"]),
    // A probe before each send, a few pages at a time, and nothing remembered between requests.
    row("auto_uncached", "auto", &["event.processes=1", "event.poller=poll", "auto.probe_ms=0",
        "auto.chunk_bytes=16384", "auto.helpers_max=2", "cache.enabled=false"]),
    row("uring", "uring", &[]),
    // Few and small buffers, so that most receives find none, and nothing remembered.
    row("uring_pair", "uring", &["uring.processes=2", "uring.buffers=8", "uring.buffer_bytes=256",
        "uring.chunk_bytes=16384", "event.turn_ops_max=2", "event.turn_bytes_max=16384",
        "event.handshakes_per_round=1", "cache.enabled=false", "accept.count=1"]),
    row("uring_splice", "uring", &["uring.body=splice", "uring.pipes_max=16",
        "cache.body_bytes_max=0"]),
    row("cohort", "cohort", &["event.processes=1", "event.poller=epoll"]),
    row("cohort_wave", "cohort", &["event.processes=2", "event.poller=epoll-edge",
        "cohort.order=wave", "cohort.limit=3", "accept.eager_read=true"]),
    // Most cases have many connections at once, and expect no process to come or go.
    row("mp", "mp", &["limits.connections_max=64", "mp.start=60", "mp.spare_min=2",
        "mp.spare_max=64", "mp.step_ms=40"]),
    row("mp_fixed", "mp", &["limits.connections_max=64", "mp.control=fixed", "mp.step_ms=40"]),
    row("threads", "knot-nptl", &[SIBLINGS, STEP, THREADS, "threads.start=all"]),
    row("threads_on_demand", "mt", &[STEP, "threads.start=on-demand", "threads.spare_min=2",
        "threads.spare_max=4"]),
    row("threads_own_cache", "knot-nptl", &[SIBLINGS, STEP, THREADS, "threads.start=all",
        "threads.cache=own"]),
    row("knot_c", "knot-c", &[SIBLINGS, "fiber.helpers=3"]),
    row("knot_c_epoll", "knot-c", &[SIBLINGS, "fiber.poller=epoll", "fiber.order=accepting"]),
    // The disk blocks all user threads, and nothing is as in Capriccio.
    row("knot_c_inline", "knot-c", &[SIBLINGS, "fiber.poller=epoll-edge", "fiber.helpers=0",
        "fiber.retry=thread", "fiber.yields=false", "fiber.runs_max=2", "fiber.guard=mapping",
        "fiber.handshakes_per_round=1", "cache.enabled=false", "accept.when_full=close-idle"]),
    row("knot_nb", "knot-nb", &[SIBLINGS, "fiber.helpers=25"]),
    // The first design of [E] §4.2.
    row("knot_nb_first", "knot-nb", &[SIBLINGS, "fiber.poller=epoll-edge", "fiber.send=poll-first",
        "fiber.helpers=2"]),
    row("knot_b", "knot-b", &[SIBLINGS, "fiber.helpers=25"]),
    row("means", "means", &["fiber.schedulers=2", "fiber.helpers=3", "fiber.poller=epoll"]),
    row("means_steal", "means-steal", &["fiber.schedulers=2", "fiber.helpers=2",
        "fiber.poller=epoll-edge"]),
    row("hybrid", "hybrid", &["pool.poller=epoll"]),
    row("hybrid_at_once", "hybrid", &["pool.poller=poll", "accept.eager_read=true"]),
    row("bio", "bio", &[SIBLINGS, UNCACHED, "adapt.threads=64"]),
    row("aio_threads", "aio", &[SIBLINGS, UNCACHED, "adapt.completions=wait"]),
    row("aio_uring", "aio", &[SIBLINGS, UNCACHED, "adapt.engine=uring"]),
    row("aio_kernel", "aio", &[SIBLINGS, UNCACHED, "adapt.engine=kernel", "adapt.completions=wait",
        "adapt.threads=16"]),
    row("self_queue", "self-adapting", &[SIBLINGS, UNCACHED, "adapt.rule=queue"]),
    row("self_disk", "self-adapting", &[SIBLINGS, "cache.enabled=true", "adapt.rule=disk",
        "adapt.engine=uring"]),
    row("watpipe4", "watpipe4", &[SIBLINGS, "event.poller=select", "watpipe.writers=5"]),
    row("watpipe5", "watpipe5", &[SIBLINGS, "event.poller=epoll-edge", "watpipe.readers=3",
        "watpipe.writers=4"]),
    // As many writers as a case has clients that do not read.
    row("watpipe5_b", "watpipe5-b", &[SIBLINGS, "event.poller=epoll", "watpipe.writers=32"]),
    row("watpipe5_copies", "watpipe5", &[SIBLINGS, "event.poller=epoll", "event.copies=2",
        "event.pin=share"]),
    // A queue for each writer, bodies in the cache, and no wait before a send.
    row("watpipe5_batch", "watpipe5", &[SIBLINGS, "event.poller=poll", "watpipe.share=batch",
        "watpipe.parts=none", "watpipe.writers=2", "accept.eager_read=true",
        "accept.eager_write=true", "cache.body_bytes_max=1 MiB"]),
    // Tests are slow: no age is too high.
    row("seda", "seda", &[SIBLINGS, "event.poller=epoll", "stages.target_ms=10 min"]),
    row("haboob", "haboob-2002", &[SIBLINGS, "event.poller=poll", "cache.body_bytes_max=1 MiB"]),
    row("cohort_sandstorm", "cohort-sandstorm", &[SIBLINGS, "event.poller=poll", "seda.pool_min=2",
        "cache.body_bytes_max=1 MiB"]),
    row("accept1", "accept1", &[SIBLINGS, UNCACHED, "accept.count=1"]),
    row("acceptinf", "acceptinf", &[SIBLINGS, UNCACHED]),
    row("accept25", "accept25", &[SIBLINGS, UNCACHED]),
    row("accept25_cache", "accept25+$", &[SIBLINGS]),
    row("eager", "eager", &[SIBLINGS, UNCACHED]),
    row("eager_full", "eager+full", &[SIBLINGS, UNCACHED, "accept.full_read=true"]),
    row("eager_close", "eager+close", &[SIBLINGS, UNCACHED]),
    row("cm", "cm", &[SIBLINGS, UNCACHED, "accept.full_read=true"]),
];

/// The suite also tests what the papers' servers lack. Cases about changing files set
/// cache.revalidate_ms themselves.
pub(crate) const SIBLINGS: &str = "content.precompressed=true";
/// The name implies it, but cases check for the setting here.
const UNCACHED: &str = "cache.enabled=false";

/// Delay, at most, with which a thread that waits for a peer exits.
const STEP: &str = "threads.step_ms=250";
/// Connections that a case has at once; all threads start at once.
const THREADS: &str = "limits.connections_max=250";

const fn row(
    name: &'static str,
    architecture: &'static str,
    settings: &'static [&'static str],
) -> Variant {
    Variant { name, architecture, settings, faults: None, tls: false }
}
