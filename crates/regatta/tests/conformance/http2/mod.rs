//! Conformance over HTTP/2: in the clear `http2::sped_epoll::flow::a_window_below_zero` and so on,
//! over TLS `tls::http2::sped_epoll::…`, under faults `http2::chaos::sped_epoll::…`.
//!
//! The client is [`regatta_testkit::http2`], which fails a case at the first broken rule of RFC
//! 9113. One variant of each driver has all cases in the clear, and a few over TLS. `cargo xtask
//! matrix` runs all of them for every variant.

mod content;
mod corpus;
mod faults;
mod flow;
mod life;
mod peers;

use crate::chaos;
use crate::matrix::{EVERY_CASE, ROWS};
use crate::over_tls::{CHOSEN, CHOSEN_OF_CHAOS, encrypted};
use crate::prelude::*;
use crate::runner::{self, Set, cases};
use crate::tls::raw;
use libtest_mimic::Trial;
use regatta_testkit::http2::{Http2Answer, Http2Client, Http2Settings, StreamOutcome, code};
use std::sync::Arc;

/// Cases of HTTP/2, in the clear and over TLS.
const ALWAYS: Set = cases! {
    content: every_size heads conditions ranges codings errors_leave_the_connection methods
        content_is_discarded too_much_content_is_refused content_of_another_length
        fields_that_are_allowed;
    corpus: answers_do_not_depend_on_the_protocol log_lines_do_not_depend_on_the_protocol;
    faults: malformed_requests_reset_their_stream fields_that_cannot_be_decoded
        violations_end_the_connection too_many_fields_are_refused floods_are_ended
        unknown_frames_are_ignored;
    flow: a_hundred_at_once two_hundred_in_sequence one_stream_too_many steps_of_one_byte
        others_pass_a_stream_without_window streams_without_windows_leave_descriptors
        one_window_for_all a_window_below_zero windows_that_are_too_large resets_while_sent
        resets_while_the_disk_is_asked
        urgent_streams_come_first priorities_that_mean_nothing fields_in_pieces
        fields_of_earlier_requests padding trailers settings_and_pings;
    life: idle_connections_end silent_newcomers_end heads_have_a_deadline windows_have_a_deadline
        at_most_so_many_requests a_client_says_goodbye a_drain_completes_streams
        a_reload_completes_streams half_closed_clients_are_answered aborts_leave_nothing_open
        each_stream_has_a_line streams_are_counted;
    peers: curl_is_served;
};

/// Programs that few machines have. One variant is enough outside of the matrix.
const SELDOM: Set = cases! { peers: nghttp_is_served h2spec_passes; };

/// Cases of connections that begin in the clear.
const BY_PREFACE: Set = cases! {
    life: a_preface_in_pieces a_broken_preface an_upgrade_is_ignored
        a_preface_after_a_request_is_none in_the_clear_is_a_setting;
};

/// Cases of the agreement on a protocol.
const BY_ALPN: Set = cases! { life: protocols_are_agreed_on http2_is_a_setting; };

/// Cases that a layer of records could break.
const CHOICE: Set = cases! {
    content: every_size ranges content_is_discarded;
    corpus: answers_do_not_depend_on_the_protocol;
    flow: a_hundred_at_once steps_of_one_byte others_pass_a_stream_without_window resets_while_sent
        urgent_streams_come_first;
    life: idle_connections_end a_drain_completes_streams aborts_leave_nothing_open;
    peers: curl_is_served;
};

/// Cases that short calls, and calls that find nothing to do, could break.
const UNDER_FAULTS: Set = cases! {
    content: every_size content_is_discarded;
    flow: a_hundred_at_once others_pass_a_stream_without_window resets_while_sent;
    life: aborts_leave_nothing_open;
};

const OF_SELDOM: &[Set] = &[SELDOM];
const OF_FAULTS: &[Set] = &[UNDER_FAULTS];
const IN_THE_CLEAR: &[Set] = &[ALWAYS, BY_PREFACE];
const OVER_TLS: &[Set] = if EVERY_CASE { &[ALWAYS, BY_ALPN] } else { &[CHOICE, BY_ALPN] };

/// Every test of this suite.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (name, _) in ROWS {
        if EVERY_CASE || CHOSEN.contains(name) {
            let (clear, tls) = (Variant::find(name), encrypted(Variant::find(name)));
            trials.extend(runner::trials_of("http2", clear, IN_THE_CLEAR));
            trials.extend(runner::trials_of("tls::http2", tls, OVER_TLS));
            if EVERY_CASE || *name == CHOSEN[0] {
                trials.extend(runner::trials_of("http2", clear, OF_SELDOM));
                trials.extend(runner::trials_of("tls::http2", tls, OF_SELDOM));
            }
        }
    }
    for variant in chaos::ROWS.iter().flat_map(|(_, variants)| *variants) {
        if EVERY_CASE || CHOSEN_OF_CHAOS.contains(&variant.name) {
            trials.extend(runner::trials_of("http2::chaos", variant, OF_FAULTS));
        }
    }
    trials
}

/// A server that tests share, and a connection with the usual settings.
fn served(variant: &Variant) -> (Arc<Server>, Http2Client) {
    served_with(variant, Http2Settings::default())
}

/// A server that tests share, and a connection with these settings.
fn served_with(variant: &Variant, settings: Http2Settings) -> (Arc<Server>, Http2Client) {
    let server = serve(variant);
    let client = connect_with(&server, settings);
    (server, client)
}

/// Opens a connection with the usual settings.
fn connect(server: &Server) -> Http2Client {
    connect_with(server, Http2Settings::default())
}

/// Opens a connection with these settings.
fn connect_with(server: &Server, settings: Http2Settings) -> Http2Client {
    let socket = raw(server);
    if server.endpoint().is_tls {
        Http2Client::begin_tls(identity().http2.connect(socket, NAME), settings)
    } else {
        Http2Client::begin(socket, settings)
    }
}

/// Settings of a client that opens windows only when the test does.
fn manual(stream_window: u32) -> Http2Settings {
    Http2Settings { stream_window, opens_windows: false, ..Http2Settings::default() }
}

/// Reads the whole response of a stream.
#[track_caller]
fn whole(client: &mut Http2Client, id: u32) -> Answer {
    let Http2Answer { status, fields, body, interim } = client.answer(id);
    Answer { status, reason: String::new(), fields, body, interim }
}

/// Sends a request without content, and reads its response.
#[track_caller]
fn ask(client: &mut Http2Client, method: &str, path: &str, fields: &[Field<'_>]) -> Answer {
    let id = client.ask(method, path, fields);
    whole(client, id)
}

/// Asks for a target with GET.
#[track_caller]
fn get(client: &mut Http2Client, path: &str) -> Answer {
    ask(client, "GET", path, &[])
}

/// Reads the whole responses of these streams, which must have this content.
#[track_caller]
fn bodies_are(client: &mut Http2Client, ids: &[u32], body: &[u8]) {
    ids.iter().for_each(|id| drop(whole(client, *id).expect(200).has(body)));
}

/// Fails unless a stream is reset as malformed, or its response has one of these statuses.
#[track_caller]
fn is_refused(client: &mut Http2Client, id: u32, statuses: &[u16], what: &[Field<'_>]) {
    match client.outcome(id) {
        StreamOutcome::Answered(answer) => {
            assert!(statuses.contains(&answer.status), "{what:?}: {}", answer.status);
        }
        other => assert_eq!(other, StreamOutcome::Reset(code::PROTOCOL_ERROR), "{what:?}"),
    }
}

/// Gets the file of every size, and checks its bytes.
#[track_caller]
fn get_sizes(client: &mut Http2Client) {
    for size in SIZES {
        get(client, &format!("/size-{size}.bin")).expect(200).has(sized(size));
    }
}

/// Bytes of content that these streams have received.
fn total(client: &Http2Client, ids: &[u32]) -> usize {
    ids.iter().map(|id| client.received(*id)).sum()
}
