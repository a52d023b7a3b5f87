//! The beginning and the end of connections, deadlines, drains, lines of the log, counters.

use super::{ask, bodies_are, connect, connect_with, get, manual, total, whole};
use crate::access_log;
use crate::prelude::*;
use crate::tls::{self, shake};
use regatta_testkit::http2::{
    END_STREAM, GoAway, Http2Client, Http2End, Http2Settings, PREFACE, StreamOutcome, WINDOW,
    WINDOW_MAX, code, frame_bytes, kind,
};
use regatta_testkit::tls::{TlsOffer, TlsStream};

/// End of a connection without an error.
const IN_ORDER: Http2End = Http2End { goaway: Some(code::NO_ERROR), in_order: true };

/// Fails unless a connection ends in order after about 400 ms. Returns whether there was a GOAWAY.
#[track_caller]
fn ends_soon(client: &mut Http2Client, since: Instant) -> bool {
    let end = client.read_end();
    let took = since.elapsed();
    assert!(end.in_order, "{end:?}");
    assert!(took >= Duration::from_millis(300), "ended early, after {took:?}");
    assert!(took < Duration::from_millis(5_400), "ended late, after {took:?}");
    end.goaway.is_some()
}

pub(crate) fn idle_connections_end(variant: &Variant) {
    let server = start_with(variant, &["limits.idle_ms_max=400"]);
    let mut client = connect(&server);
    let since = Instant::now();
    get(&mut client, "/small.txt").expect(200);
    ends_soon(&mut client, since);
    assert_eq!(client.goaway(), Some(GoAway { last: 1, code: code::NO_ERROR }));
    server.counts("closed_idle_deadline", 1);
}

pub(crate) fn silent_newcomers_end(variant: &Variant) {
    let server = start_with(variant, &["limits.first_request_ms_max=400"]);
    let since = Instant::now();
    let mut client = connect(&server);
    ends_soon(&mut client, since);
}

/// PING and frames of other streams do not extend the deadline of a field block.
pub(crate) fn heads_have_a_deadline(variant: &Variant) {
    let server = start_with(variant, &["limits.head_ms_max=400"]);
    let mut client = connect(&server);
    get(&mut client, "/small.txt").expect(200);
    let block = Http2Client::encode(&client.request("GET", "/small.txt", &[]));
    let id = client.expect_stream(true, false);
    let since = Instant::now();
    client.send_frame(kind::HEADERS, END_STREAM, id, &block);
    assert!(ends_soon(&mut client, since), "no GOAWAY");
    server.counts("closed_head_deadline", 1);
}

/// Content waits for a window that the client does not open, though it answers everything else.
pub(crate) fn windows_have_a_deadline(variant: &Variant) {
    let server = start_with(variant, &["limits.send_window_ms=400"]);
    let mut client = connect_with(&server, manual(0));
    let since = Instant::now();
    client.get("/small.txt");
    assert!(ends_soon(&mut client, since), "no GOAWAY");
    server.counts("closed_send_deadline", 1);
}

pub(crate) fn at_most_so_many_requests(variant: &Variant) {
    let server = start_with(variant, &["limits.requests_max=3"]);
    let mut client = connect(&server);
    let ids: Vec<u32> = (0..5).map(|_| client.get("/size-65537.bin")).collect();
    bodies_are(&mut client, &ids[..3], sized(65_537));
    assert_eq!(client.read_end(), IN_ORDER);
    for id in &ids[3..] {
        let outcome = client.outcome(*id);
        let is_refused = outcome == StreamOutcome::Reset(code::REFUSED_STREAM);
        assert!(is_refused || outcome == StreamOutcome::Lost, "stream {id}: {outcome:?}");
    }
    server.counts("requests", 3);
}

/// Streams before GOAWAY of the client are answered.
pub(crate) fn a_client_says_goodbye(variant: &Variant) {
    let server = start(variant);
    let mut client = connect(&server);
    let ids: Vec<u32> = (0..4).map(|_| client.get("/size-1048577.bin")).collect();
    client.send_frame(kind::GOAWAY, 0, 0, &[0; 8]);
    bodies_are(&mut client, &ids, sized((1 << 20) + 1));
    client.half_close();
    assert!(client.read_end().in_order);
    server.has_open(0);
}

/// A connection with a stream whose content waits for the client.
fn waiting(server: &Server) -> (Http2Client, u32) {
    let mut client = connect(server);
    let id = client.get("/size-5242880.bin");
    client.hold(id);
    client.read_until(|client| client.received(id) == WINDOW as usize);
    (client, id)
}

/// Reads GOAWAY of a server that ends. The stream is then read to its end, and the connection ends.
#[track_caller]
fn completes(mut client: Http2Client, id: u32) {
    assert!(client.read_until(|client| client.goaway().is_some()), "no GOAWAY");
    let goaway = client.goaway().expect("read above");
    assert!(goaway.code == code::NO_ERROR && goaway.last >= id, "{goaway:?}");
    // RFC 9113 §6.8: a request that is on its way may still be answered.
    let late = client.get("/small.txt");
    client.release(id, WINDOW);
    assert!(whole(&mut client, id).expect(200).body == sized(5 << 20));
    match client.outcome(late) {
        StreamOutcome::Answered(answer) => assert_eq!(answer.body, b"small\n"),
        StreamOutcome::Reset(code) => assert_eq!(code, code::REFUSED_STREAM),
        StreamOutcome::Lost => {}
    }
    assert_eq!(client.read_end(), IN_ORDER);
    assert!(client.goaway().is_some_and(|last| last.last < WINDOW_MAX), "{:?}", client.goaway());
}

pub(crate) fn a_drain_completes_streams(variant: &Variant) {
    // The default ends what a busy machine has not sent after 8 s.
    let mut server = start_with(variant, &["server.drain_ms_max=60000"]);
    let (client, id) = waiting(&server);
    let mut idle = connect(&server);
    get(&mut idle, "/small.txt").expect(200);
    server.signal(Signal::TERM);
    assert_eq!(idle.read_end(), IN_ORDER);
    completes(client, id);
    let status = server.exit_within(PATIENCE);
    assert!(status.is_some_and(|status| status.success()), "{status:?}: {}", server.stderr());
}

pub(crate) fn a_reload_completes_streams(variant: &Variant) {
    let server = start_with(variant, &["server.drain_ms_max=60000"]);
    let (client, id) = waiting(&server);
    thread::scope(|scope| {
        let reload = scope.spawn(|| succeed(&server, "reload"));
        completes(client, id);
        reload.join().expect("it succeeds");
    });
    get(&mut connect(&server), "/small.txt").expect(200);
}

pub(crate) fn half_closed_clients_are_answered(variant: &Variant) {
    let server = start(variant);
    let mut client = connect_with(&server, manual(WINDOW_MAX >> 1));
    // The windows of a client that sends no more must be open before.
    client.open_window(0, 16 << 20);
    // Settings are acknowledged before, too.
    client.sync();
    let ids: Vec<u32> = (0..10).map(|_| client.get("/size-1048577.bin")).collect();
    client.half_close();
    bodies_are(&mut client, &ids, sized((1 << 20) + 1));
    assert!(client.read_end().in_order);
    server.has_open(0);
}

pub(crate) fn aborts_leave_nothing_open(variant: &Variant) {
    let server = start(variant);
    for turn in 0..20 {
        let mut client = connect(&server);
        let ids: Vec<u32> = (0..5).map(|_| client.get("/size-5242880.bin")).collect();
        client.read_until(|client| total(client, &ids) > turn * 1000);
        let none = Some(Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(client.socket(), none).expect("TCP");
        client.forget();
    }
    server.has_open(0);
    get(&mut connect(&server), "/small.txt").expect(200);
}

/// Each stream has a line with the bytes of this stream alone.
pub(crate) fn each_stream_has_a_line(variant: &Variant) {
    let (_site, log, server) = access_log::start(variant, "json");
    let mut client = connect(&server);
    let reset = client.get("/sparse.bin");
    client.read_until(|client| client.received(reset) > 100_000);
    client.reset(reset, code::CANCEL);
    get(&mut client, "/small.txt?a=b").expect(200);
    ask(&mut client, "HEAD", "/size-4096.bin", &[]).expect(200);
    ask(&mut client, "POST", "/small.txt", &[("user-agent", "Tester/1.0")]).expect(405);
    drop(client);
    server.has_open(0);
    let lines = access_log::values(server, &log, 4);
    for line in &lines {
        // The method is no one that the server has.
        let is_refused = !line["refused"].is_null();
        assert_eq!((&line["version"], is_refused), (&"HTTP/2.0".into(), line["method"] == "POST"));
        assert_eq!(line["host"], "regatta.test", "{line}");
    }
    let of = |target: &str, method: &str| {
        let is_it = |line: &&Value| line["target"] == target && line["method"] == method;
        lines.iter().find(is_it).unwrap_or_else(|| panic!("no {method} {target} in {lines:?}"))
    };
    let small = of("/small.txt?a=b", "GET");
    assert_eq!((&small["status"], &small["body_sent_bytes"]), (&200.into(), &6.into()), "{small}");
    assert_eq!(small["outcome"], "complete");
    // Head, frame heads and content.
    assert!(small["sent_bytes"].as_u64().is_some_and(|sent| sent < 1000), "{small}");
    let head = of("/size-4096.bin", "HEAD");
    assert_eq!((&head["status"], &head["body_sent_bytes"]), (&200.into(), &0.into()), "{head}");
    let post = of("/small.txt", "POST");
    assert_eq!((&post["status"], &post["user_agent"]), (&405.into(), &"Tester/1.0".into()));
    let reset = of("/sparse.bin", "GET");
    assert_eq!((&reset["outcome"], &reset["status"]), (&"aborted".into(), &200.into()), "{reset}");
    let sent = reset["body_sent_bytes"].as_u64().expect("a number");
    assert!((100_000..SPARSE_BYTES).contains(&sent), "{reset}");
}

pub(crate) fn streams_are_counted(variant: &Variant) {
    let server = start(variant);
    let mut client = connect(&server);
    (0..5).for_each(|_| drop(get(&mut client, "/small.txt").expect(200)));
    let id = client.get("/sparse.bin");
    client.read_until(|client| client.received(id) > 0);
    client.reset(id, code::CANCEL);
    client.sync();
    server.counts("connections_http2", 1);
    server.counts("streams_opened", 6);
    server.counts("streams_reset_by_client", 1);
    server.connect().get("/small.txt").expect(200);
    assert_eq!(server.count("connections_http2"), 1);
    assert_eq!(server.count("http2_calmed"), 0);
}

pub(crate) fn a_preface_in_pieces(variant: &Variant) {
    let server = serve(variant);
    let mut client = Client::connect(server.address());
    for byte in PREFACE {
        client.send([*byte]);
    }
    client.send(frame_bytes(kind::SETTINGS, 0, 0, &[]));
    // The first frame of a server is SETTINGS.
    assert_eq!(client.take(9)[3], kind::SETTINGS);
    get(&mut connect(&server), "/small.txt").expect(200);
}

/// Bytes that begin like the preface. The server may answer in either protocol, and ends.
pub(crate) fn a_broken_preface(variant: &Variant) {
    let server = serve(variant);
    for bytes in [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX"[..], b"PRI * HTTP/2.0\r\nHost: x\r\n\r\n"] {
        let mut client = Client::connect(server.address());
        client.send(bytes);
        let rest = client.rest_or_reset();
        let is_answer = rest.starts_with(b"HTTP/1.1 ") || rest.get(3) == Some(&kind::SETTINGS);
        assert!(rest.is_empty() || is_answer, "{}", rest.escape_ascii());
    }
    // A connection of HTTP/2 begins with SETTINGS.
    let mut client = Client::connect(server.address());
    client.send([PREFACE, &frame_bytes(kind::PING, 0, 0, &[0; 8])].concat());
    let rest = client.rest_or_reset();
    assert_eq!(rest.get(3), Some(&kind::SETTINGS), "{}", rest.escape_ascii());
    // No flags, the connection's stream, no stream processed, PROTOCOL_ERROR.
    let goaway = [kind::GOAWAY, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    assert!(rest.windows(goaway.len()).any(|part| part == goaway), "{}", rest.escape_ascii());
}

/// RFC 9113 §3.1: the upgrade of RFC 7540 is no more.
pub(crate) fn an_upgrade_is_ignored(variant: &Variant) {
    let server = serve(variant);
    let mut client = server.connect();
    let fields = [
        ("Connection", "Upgrade, HTTP2-Settings"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", "AAMAAABkAAQAAP__"),
    ];
    client.ask("GET", "/small.txt", &fields).expect(200);
    client.get("/small.txt").expect(200);
}

pub(crate) fn a_preface_after_a_request_is_none(variant: &Variant) {
    let server = serve(variant);
    let mut client = server.connect();
    client.get("/small.txt").expect(200);
    client.send(PREFACE);
    assert!(client.answer("PRI").expect_one_of(&[400, 501, 505]).closes());
}

pub(crate) fn in_the_clear_is_a_setting(variant: &Variant) {
    for setting in ["http2.clear=false", "http2.enabled=false"] {
        let server = start_with(variant, &[setting]);
        let mut client = Client::connect(server.address());
        client.send(PREFACE);
        assert!(client.answer("PRI").expect_one_of(&[400, 501, 505]).closes(), "{setting}");
        server.connect().get("/small.txt").expect(200);
    }
}

/// Shakes hands with an offer of these protocols.
fn offering(server: &Server, protocols: &[&str]) -> std::io::Result<TlsStream> {
    let offer = TlsOffer { protocols, ..TlsOffer::default() };
    shake(server, &tls::offering(offer), NAME)
}

pub(crate) fn protocols_are_agreed_on(variant: &Variant) {
    let server = serve(variant);
    for protocols in [&["h2"][..], &["h2", "http/1.1"], &["http/1.1", "h2"], &["x/1", "h2"]] {
        let stream = offering(&server, protocols).expect("a handshake");
        let mut client = Http2Client::begin_tls(stream, Http2Settings::default());
        get(&mut client, "/small.txt").expect(200);
    }
    for protocols in [&["http/1.1"][..], &[]] {
        let stream = offering(&server, protocols).expect("a handshake");
        let mut client = Client::sealed(stream);
        client.get("/small.txt").expect(200);
        // ALPN decides, so the preface of HTTP/2 is none here.
        client.send(request("GET", "/a.txt", &[]));
        client.answer("GET").expect(200);
    }
}

pub(crate) fn http2_is_a_setting(variant: &Variant) {
    let server = start_with(variant, &["http2.enabled=false"]);
    let stream = offering(&server, &["h2", "http/1.1"]).expect("a handshake");
    assert_eq!(stream.protocol().as_deref(), Some(&b"http/1.1"[..]));
    Client::sealed(stream).get("/small.txt").expect(200);
    assert!(offering(&server, &["h2"]).is_err(), "h2 alone is agreed on");
    // The setting for connections in the clear is another.
    let server = start_with(variant, &["http2.clear=false"]);
    get(&mut connect(&server), "/small.txt").expect(200);
}
