//! Conformance with a fault plan: the cases that do not depend on time, run while the system
//! misbehaves: `chaos::matrix::sped_epoll::ranges::several` and so on.
//!
//! Short reads and writes, interruptions, calls that find nothing to do, a full table of
//! descriptors, slow opens. Test builds of the program inject them as `REGATTA_INJECT` says, with
//! the keys of `regatta_sys::hook::Plan`. The variants are every architecture, and every way to
//! wait, to take connections and to send, each with its sequence of faults.

use crate::harness::Variant;
use crate::runner::{self, Case, Set, Tests, cases};
use crate::variants::SIBLINGS;
use crate::*;
use libtest_mimic::Trial;

/// Cases that depend on how connections are accepted, first read and written to.
const STRATEGY: Set = cases! {
    bodies: every_size_arrives every_size_on_its_own_connection a_large_file_arrives
        chunked_body_is_drained;
    closing: half_closed_pipeline_is_answered aborts_harm_nobody aborts_leave_nothing_open;
    faults: a_full_table_delays_accepts short_calls_are_continued slow_opens_lose_nothing;
    load: two_hundred_connections every_way_to_send;
    pipelining: in_order answers_larger_than_buffers all_kinds_of_answers;
    ranges: single_against_a_model;
};

/// Cases that depend on the runner of the loop and of its disk work. Bodies are from every source,
/// cut anywhere; connections arrive all at once, leave, or are refused.
pub(crate) const FAMILY: &[Set] = &[STRATEGY, CUTS];
const CUTS: Set = cases! { negotiation: ranges_of_a_coded_form; ranges: several; };

/// Further cases for a loop that does everything itself.
const ALONE: Set = cases! {
    bodies: small_body_is_drained body_at_the_limit body_that_comes_late chunked_body_byte_by_byte
        large_body_is_refused endless_chunks_are_refused continue_is_sent_or_not_needed
        continue_with_the_body_at_once;
    closing: half_closed_client_is_answered half_close_within_a_head error_is_read_while_sending
        last_answer_is_read_while_sending ends_with_the_request_are_noticed;
    conditionals: every_combination;
    framing: request_lines field_lines bare_line_ends content_lengths transfer_encodings chunks
        faults_in_pieces fault_after_good_requests;
    load: a_thousand_short_connections full_and_not_listening;
    negotiation: weights;
    pipelining: burst_of_a_hundred requests_without_end_while_reading split_at_every_byte
        byte_at_a_time nothing_after_close;
    ranges: several_in_a_pipeline too_many;
};

/// Tests of single faults, which no variant has.
const FAULTS: Tests = cases! {
    in chaos;
    faults: sped_waits_for_its_disk user_threads_wait_for_names
        user_threads_that_wait_for_names_do_not_hang deaths_with_a_lock_hang_nobody
        a_stage_that_dies_leaves_nobody_waiting a_stage_that_hangs_is_replaced
        a_thread_that_hangs_is_replaced a_stage_that_waits_is_not_replaced
        a_drain_with_full_queues_has_a_deadline;
};

/// Tests of the other suite for the variants of this one.
const TESTS: Tests = &[
    Case {
        name: "chaos::shared::processes_serve_the_same_bytes",
        run: || shared::serve_the_same_bytes(variants()),
    },
    Case {
        name: "chaos::structure::every_architecture_has_a_variant",
        run: || structure::are_the_listed(variants()),
    },
];

/// Every test of this suite.
pub(crate) fn trials() -> Vec<Trial> {
    let cases = ROWS.iter().flat_map(|(sets, variants)| {
        let of_variant = move |variant| runner::trials_of("chaos::matrix", variant, sets);
        variants.iter().flat_map(of_variant)
    });
    cases.chain([FAULTS, TESTS].into_iter().flat_map(runner::trials)).collect()
}

/// The variant of that name.
pub(crate) fn find(name: &str) -> &'static Variant {
    variants().find(|variant| variant.name == name).expect("a name of the table")
}

fn variants() -> impl Iterator<Item = &'static Variant> {
    ROWS.iter().flat_map(|(_, variants)| *variants)
}

/// Variants, with the sets of their cases.
pub(crate) const ROWS: &[(&[Set], &[Variant])] =
    &[(&[STRATEGY, CUTS, ALONE], LOOPS), (FAMILY, RELATIVES), (&[STRATEGY], STRATEGIES)];

/// Loops that do everything themselves.
#[rustfmt::skip]
const LOOPS: &[Variant] = &[
    row("sped_epoll", "sped", &["event.poller=epoll"],
        "seed=1,short_per_mille=300,eintr_per_mille=100,eagain_per_mille=100"),
    row("sped_poll", "sped", &["event.poller=poll"],
        "seed=2,short_per_mille=300,eintr_per_mille=100,eagain_per_mille=100"),
    row("sped_select", "sped", &["event.poller=select"],
        "seed=3,short_per_mille=300,eintr_per_mille=100,eagain_per_mille=100"),
    // A call that found nothing to do would wait for an edge that has passed.
    row("sped_epoll_edge", "sped", &["event.poller=epoll-edge"],
        "seed=4,short_per_mille=300,eintr_per_mille=100"),
    // A blocking call never finds nothing to do.
    row("sped_blocking", "sped", &["event.send=blocking"],
        "seed=5,short_per_mille=300,eintr_per_mille=100"),
    row("sped_small_turns", "sped", &["event.turn_ops_max=2", "event.turn_bytes_max=16384",
        "accept.count=1"], "seed=6,short_per_mille=500,eintr_per_mille=200,eagain_per_mille=200"),
    row("sped_uncached", "sped", &["cache.enabled=false", "accept.eager_read=true"],
        "seed=7,short_per_mille=300,eintr_per_mille=100,slow_open_per_mille=50,slow_open_us=2000"),
];

/// Relatives of such a loop.
#[rustfmt::skip]
const RELATIVES: &[Variant] = &[
    row("symped", "symped", &["event.processes=2", "event.poller=epoll"], EVERYTHING),
    row("symped_exclusive", "symped", &["event.processes=2", "event.poller=epoll-edge",
        "event.listen=exclusive"], EDGES),
    row("symped_reuseport", "symped", &["event.processes=2", "event.poller=poll",
        "event.listen=reuseport"], EVERYTHING),
    row("shared_two_tier", "shared-symped", &["event.processes=2", "event.poller=epoll",
        "shared.lock=two-tier"], EVERYTHING),
    row("shared_global", "shared-symped", &["event.processes=3", "event.poller=poll",
        "shared.lock=global"], EVERYTHING),
    // A blocking call never finds nothing to do.
    row("symped_b", "symped-b", &[SIBLINGS, "event.processes=3", "event.poller=epoll"], EDGES),
    row("shared_b", "shared-symped-b", &[SIBLINGS, "event.processes=3", "event.poller=poll"],
        EDGES),
    row("n_copy", "n-copy", &["event.copies=2", "event.poller=select"], EVERYTHING),
    row("n_copy_steered", "n-copy", &["event.partition=steer-cpu", "event.poller=epoll-edge"],
        EDGES),
    row("sped_readahead", "sped-readahead", &["event.poller=epoll-edge", "readahead.wait_ms=2",
        "readahead.chunk_bytes=65536"], EVERYTHING),
    row("coloured", "coloured", &["coloured.loops=3", "event.poller=epoll"], EVERYTHING),
    row("hybrid_adapt", "hybrid-adapt", &["staff.processes_min=2", "staff.period_ms=200",
        "event.poller=epoll-edge"], EDGES),
    row("amped_threads", "amped", &["event.poller=epoll"], EVERYTHING),
    row("amped_processes", "amped", &["event.poller=poll", "amped.helper_kind=processes",
        "amped.chunk_bytes=65536"], EVERYTHING),
    // A helper for each open, each read and each piece of a file, and too few of them.
    row("amped_flash", "amped", &["event.poller=epoll-edge", "amped.helper_kind=processes",
        "amped.helpers_max=2", "amped.helpers_idle_max=0", "amped.pass_descriptors=false",
        "amped.residency=always-ask", "amped.chunk_bytes=65536", "cache.enabled=false"], EDGES),
    // Two loops with helpers each, and all features of the accept strategies at once.
    row("amped_pair", "amped", &["event.processes=2", "event.poller=epoll",
        "event.listen=exclusive", "amped.residency=always-ask", "accept.eager_read=true",
        "accept.full_read=true", "accept.on_close=true", "accept.when_full=keep-polling"],
        EVERYTHING),
    row("flash_1999", "flash-1999", &[SIBLINGS, "flash.chunk_bytes=65536"], EVERYTHING),
    row("flash_linux", "flash-linux", &[SIBLINGS, "event.poller=epoll-edge",
        "flash.start_delay_ms=0", "flash.chunk_bytes=16384", "flash.map_bytes_max=65536",
        "cache.enabled=false"], EDGES),
    row("laio_uring", "laio", &["event.poller=epoll", "laio.engine=uring"], EVERYTHING),
    row("laio_uring_uncached", "laio", &["event.poller=poll", "laio.chunk_bytes=65536",
        "cache.enabled=false"], EVERYTHING),
    row("laio_nowait", "laio", &["event.poller=epoll-edge", "laio.engine=nowait",
        "cache.enabled=false"], EDGES),
    row("laio_pair", "laio", &["event.processes=2", "event.poller=select", "laio.chunk_bytes=16384",
        "accept.eager_write=false", "accept.count=1"], EVERYTHING),
    row("auto", "auto", &["event.processes=1", "event.poller=epoll-edge"], EVERYTHING),
    row("auto_uncached", "auto", &["event.processes=1", "event.poller=poll", "auto.probe_ms=0",
        "auto.chunk_bytes=65536", "auto.helpers_max=2", "cache.enabled=false"], EDGES),
    row("uring", "uring", &[], EVERYTHING),
    row("uring_pair", "uring", &["uring.processes=2", "uring.buffers=8", "uring.buffer_bytes=256",
        "uring.chunk_bytes=16384", "cache.enabled=false"], EVERYTHING),
    row("uring_splice", "uring", &["uring.body=splice", "uring.pipes_max=4",
        "cache.body_bytes_max=0"], EVERYTHING),
    row("cohort", "cohort", &["event.processes=1", "event.poller=epoll"], EVERYTHING),
    // A blocking call never finds nothing to do.
    row("mp", "mp", &["limits.connections_max=64", "mp.start=60", "mp.spare_max=60"], EDGES),
    row("threads", "knot-nptl", &[SIBLINGS, "limits.connections_max=250"], EDGES),
    row("threads_on_demand", "mt", &["threads.spare_min=1", "threads.spare_max=2"], EDGES),
    row("knot_c", "knot-c", &[SIBLINGS, "fiber.helpers=3"], EVERYTHING),
    row("knot_nb", "knot-nb", &[SIBLINGS, "fiber.helpers=3"], EVERYTHING),
    row("knot_b", "knot-b", &[SIBLINGS, "fiber.helpers=3", "fiber.poller=epoll-edge"], EDGES),
    row("means", "means", &["fiber.schedulers=2", "fiber.helpers=3", "fiber.poller=poll"],
        EVERYTHING),
    row("means_steal", "means-steal", &["fiber.schedulers=3", "fiber.helpers=3"], EDGES),
    row("hybrid", "hybrid", &["pool.threads=3", "pool.poller=epoll"], EDGES),
    row("hybrid_at_once", "hybrid", &["pool.poller=poll", "accept.eager_read=true"], EDGES),
    row("bio", "bio", &[SIBLINGS, "adapt.threads=16"], EDGES),
    row("aio_threads", "aio", &[SIBLINGS, "adapt.aio_threads=4"], EDGES),
    row("aio_uring", "aio", &[SIBLINGS, "adapt.engine=uring", "adapt.completions=wait"], EDGES),
    row("self_queue", "self-adapting", &[SIBLINGS, "adapt.threads=4", "adapt.engine=kernel"],
        EDGES),
    row("watpipe4", "watpipe4", &[SIBLINGS, "watpipe.writers=3"], EVERYTHING),
    row("watpipe5", "watpipe5", &[SIBLINGS], EDGES),
    row("watpipe5_b", "watpipe5-b", &[SIBLINGS, "watpipe.writers=32"], EDGES),
    row("seda", "seda", &[SIBLINGS, "stages.target_ms=10 min"], EDGES),
];

/// Strategies to accept, and pipelines with a cache.
#[rustfmt::skip]
const STRATEGIES: &[Variant] = &[
    row("haboob", "haboob-2002", &[SIBLINGS, "cache.body_bytes_max=1 MiB"], EDGES),
    row("cohort_sandstorm", "cohort-sandstorm", &[SIBLINGS, "cache.body_bytes_max=1 MiB"], EDGES),
    row("accept1", "accept1", &[], EVERYTHING),
    row("acceptinf", "acceptinf", &[], EVERYTHING),
    row("accept25", "accept25", &[], EVERYTHING),
    row("accept25_cache", "accept25+$", &[], EVERYTHING),
    row("eager", "eager", &[], EVERYTHING),
    row("eager_full", "eager+full", &[], EVERYTHING),
    row("eager_close", "eager+close", &[], EVERYTHING),
    row("cm", "cm", &[], EVERYTHING),
];

/// Every fault there is, a full table of descriptors included.
const EVERYTHING: &str = "seed=10,short_per_mille=300,eintr_per_mille=100,eagain_per_mille=100,\
                          emfile_accept_per_mille=20,slow_open_per_mille=50,slow_open_us=2000";

/// Every fault but calls that find nothing to do.
const EDGES: &str = "seed=11,short_per_mille=300,eintr_per_mille=100,\
                     emfile_accept_per_mille=20,slow_open_per_mille=50,slow_open_us=2000";

const fn row(
    name: &'static str,
    architecture: &'static str,
    settings: &'static [&'static str],
    plan: &'static str,
) -> Variant {
    Variant { name, architecture, settings, faults: Some(plan), tls: false }
}
