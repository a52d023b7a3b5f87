//! Conformance over TLS: cases of TLS alone, those of the matrix, and some under faults, for
//! clients that encrypt: `tls::sped_epoll::ranges::several` and so on.
//!
//! A server of these tests listens by TLS alone. One variant of each driver has a choice of the
//! cases. `cargo xtask matrix` runs all of them for every variant, except those of [`LEFT_OUT`].

use crate::chaos;
use crate::harness::Variant;
use crate::matrix::{EVERY_CASE, ROWS};
use crate::runner::{self, Case, Set, Tests, cases};
use crate::*;
use libtest_mimic::Trial;

/// Cases of TLS alone.
const ALONE: Set = cases! {
    tls: a_request_in_the_clear_gets_400_in_the_clear tls_on_an_address_in_the_clear_gets_400
        bodies_are_exact the_end_is_a_closing_alert half_a_handshake_has_a_deadline
        versions_are_agreed_on old_versions_are_refused protocols_are_agreed_on
        names_choose_certificates a_reload_reads_certificates_again tickets_resume_sessions
        without_tickets_nothing_is_resumed server_randoms_differ
        a_file_that_shrinks_has_no_closing_alert an_altered_record_ends_the_connection
        a_proxy_is_in_front openssl_is_served curl_is_served;
};

/// Cases of the matrix that a layer of records could break.
const CHOICE: Set = cases! {
    bodies: every_size_arrives every_size_on_its_own_connection a_large_file_arrives
        chunked_body_is_drained;
    changes: shrunk_while_sent;
    clients: one_client_is_limited;
    closing: half_closed_pipeline_is_answered half_close_within_a_head
        last_answer_is_read_while_sending aborts_leave_nothing_open;
    counters: of_replies of_the_ends_of_connections;
    life: transfers_are_completed drain_has_a_deadline a_killed_worker_is_replaced;
    load: two_hundred_connections;
    persistence: closes_when_asked;
    pipelining: in_order answers_larger_than_buffers requests_without_end_while_reading;
    ranges: several;
    reload: under_load;
    slow_heads: a_head_that_stops;
    slow_readers: an_honest_slow_one_is_served one_that_never_reads_is_ended;
};

/// A variant of each driver. Several processes share the keys of tickets in `symped`.
pub(crate) const CHOSEN: [&str; 18] = [
    "sped_epoll",
    "hybrid_adapt",
    "sped_readahead",
    "coloured",
    "symped",
    "amped_threads",
    "flash_1999",
    "laio_uring",
    "auto",
    "uring",
    "cohort",
    "mp",
    "threads",
    "knot_c",
    "hybrid",
    "self_queue",
    "watpipe5",
    "seda",
];

/// Variants that have the cases under faults.
pub(crate) const CHOSEN_OF_CHAOS: [&str; 2] = ["sped_epoll", "amped_threads"];

/// Cases that are not run over TLS.
#[derive(Debug)]
struct LeftOut {
    /// Cases as `topic::case`, or `topic::` for all of a topic, with spaces between them.
    cases: &'static str,
    why: &'static str,
}

/// Cases that are not run over TLS, each with the reason.
const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        cases: "persistence::client_that_only_connects",
        why: "its client ends before it shakes hands, so there is no closing alert to see",
    },
    LeftOut {
        cases: "access_log::refusals_are_logged_with_their_reason",
        why: "one of its clients begins TLS, which here would be TLS within TLS",
    },
    LeftOut {
        cases: "clients::a_proxy_names_its_clients",
        why: "its headers would be encrypted; `tls::a_proxy_is_in_front` sends one in the clear",
    },
    LeftOut {
        cases: "counters::of_many_deadlines",
        why: "a silent connection ends by the deadline of handshakes",
    },
    LeftOut {
        cases: "load::fewer_descriptors_than_clients slow_readers::more_files_than_descriptors",
        why: "each client that a full server does not accept waits a second for its handshake",
    },
    LeftOut {
        cases: "reload::changes_everything mastered::reload::",
        why: "a file names the addresses of these servers, which are in the clear",
    },
    LeftOut {
        cases: "shared::",
        why: "the load is in the clear, and the shared cache knows no connections",
    },
    LeftOut {
        cases: "adapt:: cohort:: coloured:: disk:: fibers:: flash:: means:: pool:: seda:: varied:: \
                watpipe::",
        why: "structure, shown by counts of calls, visits, reads or sends of requests in the clear",
    },
];

impl LeftOut {
    fn has(&self, case: &str) -> bool {
        // A topic may be in a module.
        let is_it = |name: &str| {
            if name.ends_with("::") {
                case.starts_with(name) || case.contains(&format!("::{name}"))
            } else {
                case == name || case.ends_with(&format!("::{name}"))
            }
        };
        self.cases.split(' ').any(is_it)
    }
}

/// The variant with clients that use TLS.
pub(crate) fn encrypted(variant: &Variant) -> &'static Variant {
    Box::leak(Box::new(Variant { tls: true, ..*variant }))
}

/// The cases of the sets that the variant has over TLS.
fn trials_of(prefix: &str, variant: &Variant, sets: &[Set]) -> Vec<Trial> {
    let variant = encrypted(variant);
    let is_left_out = |name: &str| LEFT_OUT.iter().any(|row| row.has(name));
    let cases = sets.iter().copied().flatten().filter(|case| !is_left_out(case.name));
    cases.map(|case| runner::trial_of(prefix, variant, case)).collect()
}

/// Every test of this suite.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (name, sets) in ROWS {
        let variant = Variant::find(name);
        if EVERY_CASE {
            trials.extend(trials_of("tls", variant, &[&[ALONE][..], *sets].concat()));
        } else if CHOSEN.contains(name) {
            trials.extend(trials_of("tls", variant, &[ALONE, CHOICE]));
        }
    }
    for (sets, variants) in chaos::ROWS {
        for variant in *variants {
            if EVERY_CASE {
                trials.extend(trials_of("tls::chaos", variant, sets));
            } else if CHOSEN_OF_CHAOS.contains(&variant.name) {
                trials.extend(trials_of("tls::chaos", variant, chaos::FAMILY));
            }
        }
    }
    trials.extend(runner::trials(TESTS));
    trials
}

/// Tests that no variant has.
const TESTS: Tests = &[
    Case {
        name: "tls::every_case_that_is_left_out_exists",
        run: every_case_that_is_left_out_exists,
    },
    Case { name: "tls::sends_that_block_send_all", run: sends_that_block_send_all },
    Case {
        name: "tls::sends_that_block_wait_for_an_honest_reader",
        run: sends_that_block_wait_for_an_honest_reader,
    },
];

/// A response is sent as a whole, although its records are sent in pieces: the next client may be
/// one that does not read yet.
fn sends_that_block_send_all() {
    load::every_kind_of_socket(encrypted(Variant::find("sped_blocking")));
}

/// The kernel takes nothing for some time, as there is little room, but the client reads.
fn sends_that_block_wait_for_an_honest_reader() {
    slow_readers::an_honest_slow_one_is_served(encrypted(Variant::find("watpipe5_b")));
}

/// A case that was renamed must not come back, or stay away, without notice.
fn every_case_that_is_left_out_exists() {
    let all = || ROWS.iter().flat_map(|(_, sets)| *sets).copied().flatten();
    for row in LEFT_OUT {
        for name in row.cases.split(' ') {
            let one = LeftOut { cases: name, ..*row };
            assert!(all().any(|case| one.has(case.name)), "no case is {name}");
        }
        assert!(!row.why.is_empty(), "{}", row.cases);
    }
    for name in CHOSEN {
        assert!(ROWS.iter().any(|(row, _)| *row == name), "no variant is {name}");
    }
}
