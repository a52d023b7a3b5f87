//! Start and end of requests: pipelines in pieces, contents, and refusals.
use crate::rig::{Expected, Rig, check};
use regatta_metrics::Counter;
use regatta_op::{CloseReason, OpKind};
use regatta_origin::{Http2Rules, Limits, Site};

const TEN: &str = "GET /ten.txt HTTP/1.1\r\nHost: a\r\n\r\n";
const PIPELINE: &str = "GET /ten.txt HTTP/1.1\r\nHost: a\r\n\r\n\
    HEAD /ten.txt HTTP/1.1\r\nHost: a\r\n\r\n\
    GET /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\
    \r\n\
    GET /docs HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
    GET /big.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9\r\n\r\n\
    GET /app.js HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

#[test]
fn every_split_of_a_pipeline_gives_the_same() {
    let rig = Rig::new(Site::default());
    let client = rig.connect_with(PIPELINE.as_bytes());
    assert_eq!(client.closed, Some(CloseReason::Finished));
    let whole = client.output.clone();
    let statuses: Vec<_> = client.responses(&[1]).iter().map(|response| response.status).collect();
    assert_eq!(statuses, [200, 200, 404, 301, 206, 200]);
    for at in 1..PIPELINE.len() {
        let (first, second) = PIPELINE.as_bytes().split_at(at);
        let mut client = rig.connect_with(first);
        client.feed(second);
        assert!(client.output == whole, "split at {at}");
        assert_eq!(client.closed, Some(CloseReason::Finished));
    }
    for size in [1, 2, 3, 7, 64] {
        let mut client = rig.connect();
        client.send_bytes_max = 11;
        for piece in PIPELINE.as_bytes().chunks(size) {
            client.feed(piece);
        }
        assert!(client.output == whole, "pieces of {size}");
    }
}

#[test]
fn a_cold_pipeline_is_answered_in_order() {
    for size in [1, 5, 1000] {
        let rig = Rig::new(Site::default());
        let mut client = rig.connect();
        for piece in PIPELINE.as_bytes().chunks(size) {
            client.feed(piece);
        }
        let all = client.responses(&[1]);
        let statuses: Vec<_> = all.iter().map(|response| response.status).collect();
        assert_eq!(statuses, [200, 200, 404, 301, 206, 200]);
        assert_eq!(all[1].head, all[0].head);
        assert_eq!(rig.count(Counter::Requests), 6);
        assert_eq!(rig.count(Counter::Replies), 6);
        assert_eq!(rig.count(Counter::BytesSent), client.output.len() as u64);
    }
}

#[test]
fn a_hit_is_one_receive_and_one_send() {
    let rig = Rig::new(Site::default());
    let mut client = rig.connect();
    for _ in 0..3 {
        client.feed(b"GET /small.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    use OpKind::{Open, Read, Recv, Send, Stat};
    assert_eq!(client.kinds, [Recv, Open, Read, Stat, Send, Recv, Send, Recv, Send, Recv]);
}

#[test]
fn what_is_malformed_is_refused_and_ends_the_connection() {
    let two_framings =
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let rows: &[(&str, u16)] = &[
        ("GET / HTTP/1.1\nHost: a\n\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n X: folded\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", 400),
        (two_framings, 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400),
        ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("GET /\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
        ("GET / HTTPS/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET relative HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("CONNECT a: HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("PRI * HTTP/2.0\r\n\r\n", 505),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505),
        ("\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),
        ("\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ];
    for (request, status) in rows {
        let http2 = Http2Rules { clear: false, ..Http2Rules::default() };
        let rig = Rig::new(Site { http2, ..Site::default() });
        let fields = [("connection", "close"), ("x-content-type-options", "nosniff")];
        check(&rig, request, &Expected { status: *status, fields: &fields, body: None });
        // Later bytes are not parsed, and the response is not destroyed by a reset.
        let mut client = rig.connect_with(format!("{request}{TEN}").as_bytes());
        assert_eq!(client.statuses(), [*status], "{request}");
        assert!(client.shut);
        client.feed(TEN.as_bytes());
        client.end();
        assert_eq!(client.statuses().len(), 1, "{request}");
        assert_eq!(client.closed, Some(CloseReason::BadRequest));
        assert_eq!(rig.count(Counter::ClosedBadRequest), 1);
    }
}

/// Bytes after a `CONNECT` are meant for another server, whatever they look like.
#[test]
fn a_tunnel_is_refused_and_what_goes_into_it_is_not_looked_at() {
    let head = "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n";
    for fields in ["", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"] {
        let rig = Rig::new(Site::default());
        let request = format!("{head}{fields}\r\n");
        let fields = [("connection", "close"), ("allow", "GET, HEAD, OPTIONS")];
        check(&rig, &request, &Expected { status: 405, fields: &fields, body: None });
        let mut client = rig.connect_with(format!("{request}{TEN}").as_bytes());
        assert_eq!(client.statuses(), [405], "{request}");
        assert!(client.shut);
        client.feed(b"\x16\x03\x01");
        client.end();
        assert_eq!(client.statuses(), [405], "{request}");
        assert_eq!(client.closed, Some(CloseReason::Finished));
    }
}

#[test]
fn heads_have_limits() {
    let limits =
        Limits { head_bytes_max: 400, target_bytes_max: 100, fields_max: 5, ..Limits::default() };
    let rig = Rig::new(Site { limits, ..Site::default() });
    let long = "x".repeat(200);
    let rows = [
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
        (format!("GET /{}", "x".repeat(500)), 414),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}{long}\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}{long}"), 431),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(4)), 200),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(5)), 431),
    ];
    for (request, status) in rows {
        check(&rig, &request, &Expected { status, fields: &[], body: None });
    }
}

fn with_drain(discard_body_bytes_max: u64) -> Rig {
    let limits = Limits { discard_body_bytes_max, ..Limits::default() };
    Rig::new(Site { limits, ..Site::default() })
}

#[test]
fn contents_are_discarded_within_a_limit() {
    let length = |method: &str, n: usize| {
        let content = "x".repeat(n);
        format!("{method} /ten.txt HTTP/1.1\r\nHost: a\r\nContent-Length: {n}\r\n\r\n{content}")
    };
    let chunked = |chunks: &str| {
        format!("GET /ten.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}")
    };
    let ten = "a\r\n0123456789\r\n";
    let rows = [
        (length("GET", 0), 200, true),
        (length("GET", 40), 200, true),
        (length("GET", 41), 413, false),
        (length("OPTIONS", 40), 204, true),
        (length("OPTIONS", 41), 413, false),
        (length("POST", 40), 405, true),
        (length("POST", 41), 405, false),
        (length("BREW", 40), 501, true),
        (chunked("0\r\n\r\n"), 200, true),
        (chunked(&format!("{ten}0\r\nX: y\r\n\r\n")), 200, true),
        (chunked(&ten.repeat(4)), 413, false),
        (chunked("x\r\n"), 400, false),
        (chunked("1\r\nab\r\n"), 400, false),
    ];
    let next = "GET /docs/ HTTP/1.1\r\nHost: a\r\n\r\n";
    for (request, status, goes_on) in rows {
        for size in [1, 9, 4096] {
            let rig = with_drain(40);
            let mut client = rig.connect();
            for piece in format!("{request}{next}").as_bytes().chunks(size) {
                client.feed(piece);
            }
            let expected: &[u16] = if goes_on { &[status, 200] } else { &[status] };
            assert_eq!(client.statuses(), expected, "{request} in pieces of {size}");
            assert_eq!(client.shut, !goes_on);
        }
    }
}

#[test]
fn what_refuses_the_content_of_a_head_request_has_no_body() {
    let chunked = "HEAD /ten.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let rows =
        [("x\r\n", 400), ("29\r\n0123456789012345678901234567890123456789", 413), ("1", 408)];
    for (content, status) in rows {
        let rig = with_drain(40);
        let mut client = rig.connect_with(format!("{chunked}{content}").as_bytes());
        if client.output.is_empty() {
            client.expire(10_000, 0);
        }
        let response = &client.responses(&[0])[0];
        assert_eq!((response.status, client.shut), (status, true), "{content}");
        assert_ne!(response.field("content-length").as_deref(), Some("0"));
        // A malformed HEAD is answered with a body as ever.
        let client = rig.connect_with(b"HEAD /ten.txt HTTP/1.1\r\n\r\n");
        assert_eq!(client.statuses(), [400]);
    }
}

#[test]
fn expect_100_continue_gets_the_final_status() {
    let request = |method: &str, version: &str, expect: &str, length: u32| {
        format!(
            "{method} /ten.txt HTTP/{version}\r\nHost: a\r\nConnection: keep-alive\r\n\
             Expect: {expect}\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let rows = [
        // The content is never sent: without reading it, nothing after it can be found.
        (request("GET", "1.1", "100-continue", 5), 200, "close"),
        (request("POST", "1.1", "100-continue", 5), 405, "close"),
        (request("GET", "1.1", "100-continue", 0), 200, ""),
        (request("GET", "1.0", "100-continue", 0), 200, "keep-alive"),
        (request("GET", "1.1", "200-ok", 0), 417, ""),
    ];
    for (request, status, connection) in rows {
        let rig = Rig::new(Site::default());
        let fields = [("connection", connection)];
        check(&rig, &request, &Expected { status, fields: &fields, body: None });
    }
    // HTTP/1.0 knows no expectations: the content comes.
    let rig = Rig::new(Site::default());
    let mut client = rig.connect_with(request("GET", "1.0", "100-continue", 5).as_bytes());
    assert!(client.output.is_empty());
    client.feed(b"hello");
    assert_eq!(client.statuses(), [200]);
    assert!(!client.shut);
}

#[test]
fn a_pipeline_that_never_ends_takes_no_more_memory() {
    let rig = Rig::new(Site::default());
    let mut client = rig.connect();
    // Pieces that always end inside a head.
    for piece in TEN.repeat(3000).as_bytes().chunks(TEN.len() * 3 - 1) {
        client.feed(piece);
        client.output.clear();
        assert!(size_of_val(&client.conn) <= 144);
    }
    client.feed(b"");
    assert_eq!(rig.count(Counter::Replies), 3000);
}
