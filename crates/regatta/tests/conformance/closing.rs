//! Ends of connections: half-close, lingering close (RFC 9112 §9.6), aborts.

use crate::prelude::*;

pub(crate) fn half_closed_client_is_answered(variant: &Variant) {
    let server = serve(variant);
    for size in [0, 4096, 65_537, 5 << 20] {
        let mut client = server.asked(get(&format!("/size-{size}.bin")));
        client.half_close();
        client.answer("GET").expect(200).has(sized(size));
        client.finish();
    }
}

pub(crate) fn half_closed_pipeline_is_answered(variant: &Variant) {
    let mut client = serve(variant).client();
    client.send(get("/size-65537.bin").repeat(30));
    client.half_close();
    (0..30).for_each(|_| drop(client.answer("GET").expect(200).has(sized(65_537))));
    client.finish();
}

pub(crate) fn half_close_within_a_head(variant: &Variant) {
    let server = serve(variant);
    for text in ["G", "GET /small.txt", "GET /small.txt HTTP/1.1\r\nHost: x\r\n", "\r\n"] {
        let mut client = server.asked(text);
        client.half_close();
        // An incomplete request is not answered as if it were whole (RFC 9112 §8).
        let rest = client.rest();
        assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 4"), "{}", rest.escape_ascii());
    }
}

/// The client continues to send; the server must not reset the answer away.
pub(crate) fn error_is_read_while_sending(variant: &Variant) {
    let mut client = serve(variant).client();
    client.send("GET /small.txt HTTP/1.1\r\nHost: x\r\nBad Field: y\r\n\r\n");
    for _ in 0..20 {
        if !client.try_send(vec![b'x'; 16 << 10]) {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    assert!(client.answer("GET").expect(400).closes());
    client.finish();
}

/// The same where the server decides to close: requests already on their way must not cost their
/// client the answer before them.
pub(crate) fn last_answer_is_read_while_sending(variant: &Variant) {
    let mut client = serve_with(variant, &["limits.requests_max=1"]).client();
    client.send(get("/size-1048577.bin"));
    for _ in 0..20 {
        if !client.try_send(get("/small.txt").repeat(100)) {
            break;
        }
        thread::sleep(Duration::from_millis(2));
    }
    let answer = client.answer("GET").expect(200);
    assert!(answer.closes() && answer.body == sized((1 << 20) + 1));
    client.finish();
}

/// The server half-closes first, so that the client sees the end before it closes.
pub(crate) fn end_is_seen_before_our_close(variant: &Variant) {
    let server = serve(variant);
    let mut client = server.connect();
    assert!(client.ask("GET", "/small.txt", &[("Connection", "close")]).expect(200).closes());
    client.finish();
    client.send_nothing_more();
    server.connect().get("/small.txt").expect(200);
}

pub(crate) fn aborts_harm_nobody(variant: &Variant) {
    let server = serve(variant);
    let mut steady = server.connect();
    for i in 0..40 {
        let mut client = server.connect_narrow();
        match i % 5 {
            0 => {}
            1 => client.send("GET /sma"),
            2 => client.send(get("/size-5242880.bin")),
            3 => {
                client.send(get("/size-5242880.bin").repeat(3));
                client.take(10_000);
            }
            _ => client.send(request("GET", "/small.txt", &[("Content-Length", "50")])),
        }
        client.abort();
        assert_eq!(steady.get("/small.txt").expect(200).body, b"small\n", "after abort {i}");
    }
    server.connect().get("/small.txt").expect(200);
}

pub(crate) fn aborts_leave_nothing_open(variant: &Variant) {
    let server = start(variant);
    (0..30).for_each(|_| server.tear("/size-5242880.bin"));
    server.has_open(0);
}

/// A client that closes right after its request is noticed, however its end arrives.
pub(crate) fn ends_with_the_request_are_noticed(variant: &Variant) {
    let server = start(variant);
    for _ in 0..30 {
        let mut client = server.asked(get("/small.txt"));
        client.half_close();
        client.answer("GET").expect(200);
    }
    server.has_open(0);
}
