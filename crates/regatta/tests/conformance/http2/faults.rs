//! Clients that break rules: some end their stream, others the connection.

use super::{ask, connect, get, is_refused, served, whole};
use crate::prelude::*;
use regatta_testkit::http2::kind::*;
use regatta_testkit::http2::{
    ACK, END_HEADERS, END_STREAM, FRAME_BYTES, Http2Client, PADDED, StreamOutcome, WINDOW_MAX,
    code, setting,
};

/// Fields that make a request malformed when they follow those of a GET (RFC 9113 §8.2, §8.3).
const MALFORMED: [&[Field<'_>]; 22] = [
    &[("A-Name", "x")],
    &[("connection", "close")],
    &[("keep-alive", "x")],
    &[("proxy-connection", "x")],
    &[("transfer-encoding", "chunked")],
    &[("upgrade", "h2c")],
    &[("te", "gzip")],
    &[("x", "a\rb")],
    &[("x", "a\nb")],
    &[("x", "a\0b")],
    &[("x", " a")],
    &[("x", "a\t")],
    &[("x:y", "a")],
    &[("x y", "a")],
    &[("", "a")],
    &[(":path", "/a.txt")],
    &[(":unknown", "x")],
    &[(":status", "200")],
    &[("x", "a"), (":scheme", "http")],
    &[("host", "other.test")],
    &[("content-length", "abc")],
    &[("content-length", "5")],
];

/// Heads that lack something, or have an empty path.
const INCOMPLETE: [&[Field<'_>]; 4] = [
    &[(":scheme", "http"), (":authority", "regatta.test"), (":path", "/small.txt")],
    &[(":method", "GET"), (":authority", "regatta.test"), (":path", "/small.txt")],
    &[(":method", "GET"), (":scheme", "http"), (":authority", "regatta.test")],
    &[(":method", "GET"), (":scheme", "http"), (":authority", "regatta.test"), (":path", "")],
];

pub(crate) fn malformed_requests_reset_their_stream(variant: &Variant) {
    let (_server, mut client) = served(variant);
    let other = client.get("/size-1048577.bin");
    for fields in MALFORMED {
        let id = client.ask("GET", "/small.txt", fields);
        is_refused(&mut client, id, &[400], fields);
        get(&mut client, "/small.txt").expect(200);
    }
    for head in INCOMPLETE {
        let id = client.open(head, true);
        is_refused(&mut client, id, &[400], head);
    }
    whole(&mut client, other).expect(200);
}

/// The table of the decoder is lost, and with it all further fields.
pub(crate) fn fields_that_cannot_be_decoded(variant: &Variant) {
    let server = serve(variant);
    // Index 0, an index beyond both tables, padding of zeros, a text and a number without an end.
    let blocks: [&[u8]; 5] = [&[0x80], &[0xff, 0x20], &[0, 0x81, 0, 0], &[0, 5, b'a'], &[0xff]];
    for block in blocks {
        let mut client = connect(&server);
        get(&mut client, "/small.txt").expect(200);
        let id = client.expect_stream(true, false);
        client.send_block(id, block, true, FRAME_BYTES);
        let end = client.read_end();
        assert_eq!(end.goaway, Some(code::COMPRESSION_ERROR), "{block:x?}");
    }
}

/// A violation, and the codes with which the connection may end.
type Violation = (&'static str, fn(&mut Http2Client), &'static [u32]);

const PROTOCOL: &[u32] = &[code::PROTOCOL_ERROR];
const SIZE: &[u32] = &[code::FRAME_SIZE_ERROR];
const CLOSED: &[u32] = &[code::PROTOCOL_ERROR, code::STREAM_CLOSED];
/// Indexed fields of a GET of `/`, without an authority.
const BLOCK: &[u8] = &[0x82, 0x86, 0x84];
const WHOLE: u8 = END_HEADERS | END_STREAM;

/// Each connection has asked once, on stream 1.
const VIOLATIONS: &[Violation] = &[
    ("DATA of the connection", |c| c.send_frame(DATA, 0, 0, b"x"), PROTOCOL),
    ("DATA of an idle stream", |c| c.send_frame(DATA, 0, 9, b"x"), CLOSED),
    ("padding beyond DATA", bad_padding, PROTOCOL),
    ("HEADERS of the connection", |c| c.send_frame(HEADERS, WHOLE, 0, BLOCK), PROTOCOL),
    ("HEADERS of an even stream", |c| c.send_frame(HEADERS, WHOLE, 2, BLOCK), PROTOCOL),
    ("HEADERS of a stream that is over", |c| c.send_frame(HEADERS, WHOLE, 1, BLOCK), CLOSED),
    ("HEADERS of a lower stream", a_lower_stream, CLOSED),
    ("padding beyond HEADERS", |c| c.send_frame(HEADERS, WHOLE | PADDED, 3, &[9, 0x82]), PROTOCOL),
    ("RST_STREAM of the connection", |c| c.send_frame(RST_STREAM, 0, 0, &[0; 4]), PROTOCOL),
    ("RST_STREAM of an idle stream", |c| c.send_frame(RST_STREAM, 0, 9, &[0; 4]), PROTOCOL),
    ("RST_STREAM of 3 bytes", |c| c.send_frame(RST_STREAM, 0, 1, &[0; 3]), SIZE),
    ("PRIORITY of the connection", |c| c.send_frame(PRIORITY, 0, 0, &[0; 5]), PROTOCOL),
    ("SETTINGS of a stream", |c| c.send_frame(SETTINGS, 0, 1, &[]), PROTOCOL),
    ("SETTINGS of 5 bytes", |c| c.send_frame(SETTINGS, 0, 0, &[0; 5]), SIZE),
    ("SETTINGS that acknowledge", |c| c.send_frame(SETTINGS, ACK, 0, &[0; 6]), SIZE),
    ("a push setting", |c| c.change_settings(&[(setting::ENABLE_PUSH, 2)]), PROTOCOL),
    ("a window setting", window_setting, &[code::FLOW_CONTROL_ERROR]),
    ("short frames", |c| c.change_settings(&[(setting::MAX_FRAME_SIZE, 16_383)]), PROTOCOL),
    ("long frames", |c| c.change_settings(&[(setting::MAX_FRAME_SIZE, 1 << 24)]), PROTOCOL),
    ("PUSH_PROMISE", |c| c.send_frame(PUSH_PROMISE, 4, 1, &[0, 0, 0, 2, 0x82]), PROTOCOL),
    ("PING of a stream", |c| c.send_frame(PING, 0, 1, &[0; 8]), PROTOCOL),
    ("PING of 7 bytes", |c| c.send_frame(PING, 0, 0, &[0; 7]), SIZE),
    ("GOAWAY of a stream", |c| c.send_frame(GOAWAY, 0, 1, &[0; 8]), PROTOCOL),
    ("GOAWAY of 7 bytes", |c| c.send_frame(GOAWAY, 0, 0, &[0; 7]), SIZE),
    ("an increment of 0", |c| c.send_frame(WINDOW_UPDATE, 0, 0, &[0; 4]), PROTOCOL),
    ("WINDOW_UPDATE of 3 bytes", |c| c.send_frame(WINDOW_UPDATE, 0, 0, &[0; 3]), SIZE),
    ("WINDOW_UPDATE of an idle stream", |c| c.open_window(9, 1), PROTOCOL),
    ("CONTINUATION alone", |c| c.send_frame(CONTINUATION, 4, 3, BLOCK), PROTOCOL),
    ("PING within fields", |c| within_fields(c, PING, 0, 0, &[0; 8]), PROTOCOL),
    ("CONTINUATION of another stream", |c| within_fields(c, CONTINUATION, 4, 5, BLOCK), PROTOCOL),
    ("a long frame", |c| c.send_frame(HEADERS, WHOLE, 3, &[0; FRAME_BYTES + 1]), SIZE),
    ("an unknown frame within fields", |c| within_fields(c, 0x42, 0, 3, b"x"), PROTOCOL),
    ("PRIORITY_UPDATE on a stream", |c| c.send_frame(PRIORITY_UPDATE, 0, 1, &[0; 8]), PROTOCOL),
    ("PRIORITY_UPDATE of the connection", |c| c.prioritize(0, "u=1"), PROTOCOL),
    ("PRIORITY_UPDATE of 3 bytes", |c| c.send_frame(PRIORITY_UPDATE, 0, 0, &[0; 3]), SIZE),
];

fn bad_padding(client: &mut Http2Client) {
    let id = client.open(&client.request("POST", "/small.txt", &[]), false);
    client.send_frame(DATA, PADDED, id, &[2, b'x']);
}

fn a_lower_stream(client: &mut Http2Client) {
    client.send_frame(HEADERS, WHOLE, 9, BLOCK);
    client.send_frame(HEADERS, WHOLE, 7, BLOCK);
    // The response to the ninth is read, too.
    while client.expect_stream(true, false) < 9 {}
}

fn window_setting(client: &mut Http2Client) {
    client.change_settings(&[(setting::INITIAL_WINDOW_SIZE, WINDOW_MAX + 1)]);
}

/// Sends a frame where the fields of stream 3 are not whole.
fn within_fields(client: &mut Http2Client, kind: u8, flags: u8, id: u32, payload: &[u8]) {
    client.send_frame(HEADERS, END_STREAM, 3, BLOCK);
    client.send_frame(kind, flags, id, payload);
}

pub(crate) fn violations_end_the_connection(variant: &Variant) {
    let server = serve(variant);
    for (what, act, codes) in VIOLATIONS {
        let mut client = connect(&server);
        get(&mut client, "/small.txt").expect(200);
        // Some use stream 3.
        client.expect_stream(true, false);
        act(&mut client);
        let end = client.read_end();
        let is_expected = end.goaway.is_some_and(|code| codes.contains(&code));
        assert!(is_expected && end.in_order, "{what}: {end:?}, {}", client.frames_before());
    }
    get(&mut connect(&server), "/small.txt").expect(200);
}

/// A whole block is decoded, so other streams do not suffer (RFC 9113 §10.5.1).
pub(crate) fn too_many_fields_are_refused(variant: &Variant) {
    let (server, mut client) = served(variant);
    let names: Vec<String> = (0..70).map(|number| format!("x-{number}")).collect();
    let many: Vec<Field<'_>> = names.iter().map(|name| (name.as_str(), "y")).collect();
    let long = "x".repeat(3 << 10);
    let large: Vec<Field<'_>> = names.iter().take(6).map(|name| (name.as_str(), &*long)).collect();
    for fields in [many, large] {
        let id = client.open(&client.request("GET", "/small.txt", &fields), true);
        match client.outcome(id) {
            StreamOutcome::Answered(answer) => assert_eq!(answer.status, 431),
            StreamOutcome::Reset(_) => {}
            StreamOutcome::Lost => {
                let calm = [code::ENHANCE_YOUR_CALM, code::PROTOCOL_ERROR].map(Some);
                assert!(calm.contains(&client.read_end().goaway), "{}", client.frames_before());
                client = connect(&server);
            }
        }
        get(&mut client, "/small.txt").expect(200);
    }
    // Without an end.
    let block = Http2Client::encode(&client.request("GET", "/small.txt", &[]));
    let id = client.expect_stream(true, false);
    client.send_frame(HEADERS, END_STREAM, id, &block);
    for _ in 0..200 {
        client.send_frame(CONTINUATION, 0, id, &Http2Client::encode(&[("x", long.as_str())]));
    }
    let end = client.read_end();
    assert!(end.goaway.is_some_and(|code| code != code::NO_ERROR), "{end:?}");
}

/// Work that costs a client nothing is limited. Others do not notice.
pub(crate) fn floods_are_ended(variant: &Variant) {
    type Act = fn(&mut Http2Client);
    const FLOODS: [(&str, Act); 5] = [
        ("rapid resets", |client| {
            let id = client.get("/small.txt");
            client.reset(id, code::CANCEL);
        }),
        // The client makes the server reset the stream.
        ("resets by the server", |client| {
            let id = client.get("/sparse.bin");
            client.send_frame(WINDOW_UPDATE, 0, id, &[0; 4]);
        }),
        ("settings", |client| client.change_settings(&[])),
        ("pings", Http2Client::ping),
        ("priorities", |client| client.prioritize(1, "u=1")),
    ];
    let server = start(variant);
    let mut good = connect(&server);
    for (what, act) in FLOODS {
        let mut client = connect(&server);
        get(&mut client, "/small.txt").expect(200);
        let is_over = eventually(PATIENCE, || {
            (0..100).for_each(|_| act(&mut client));
            get(&mut good, "/small.txt").expect(200);
            client.read_arrived()
        });
        assert!(is_over, "{what}: never ended");
        assert_eq!(client.read_end().goaway, Some(code::ENHANCE_YOUR_CALM), "{what}");
    }
    server.counts("http2_calmed", FLOODS.len() as u64);
}

/// RFC 9113 §4.1, §5.5, §6.5.2: unknown types, flags and settings change nothing.
pub(crate) fn unknown_frames_are_ignored(variant: &Variant) {
    let (_server, mut client) = served(variant);
    for (kind, id) in [(0x42, 0), (0x42, 1), (0xff, 101), (10, 0), (12, 0)] {
        client.send_frame(kind, 0xff, id, &[7; 100]);
    }
    client.change_settings(&[(0x7777, 1), (0xffff, u32::MAX)]);
    let block = Http2Client::encode(&client.request("GET", "/small.txt", &[]));
    let id = client.expect_stream(true, false);
    // Flags that HEADERS do not define, and the reserved bit.
    client.send_frame(HEADERS, WHOLE | 0x52, id | (1 << 31), &block);
    whole(&mut client, id).expect(200);
    ask(&mut client, "HEAD", "/small.txt", &[]).expect(200);
}
