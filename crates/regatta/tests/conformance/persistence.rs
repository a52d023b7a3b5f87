//! Persistent connections in HTTP/1.1 and 1.0: RFC 9112 §9.3.

use crate::prelude::*;

pub(crate) fn stays_open_by_default(variant: &Variant) {
    let mut client = serve(variant).client();
    for _ in 0..5 {
        let answer = client.get("/small.txt").expect(200);
        assert!(!answer.closes(), "{answer:?}");
    }
}

pub(crate) fn stays_open_after_errors_of_content(variant: &Variant) {
    let mut client = serve(variant).client();
    for target in ["/missing.txt", "/.env", "/sub", "/fifo", "/empty/"] {
        let answer = client.get(target);
        assert!(!answer.closes(), "{target}: {answer:?}");
        client.get("/small.txt").expect(200);
    }
}

pub(crate) fn closes_when_asked(variant: &Variant) {
    let server = serve(variant);
    for value in
        ["close", "Close", "CLOSE", "foo, close", "close, foo", " close ", "keep-alive, close"]
    {
        let mut client = server.connect();
        let answer = client.ask("GET", "/small.txt", &[("Connection", value)]).expect(200);
        assert!(answer.closes(), "{value:?}: {answer:?}");
        client.finish();
    }
}

pub(crate) fn close_in_a_second_line(variant: &Variant) {
    let mut client = serve(variant).client();
    let fields = [("Connection", "foo"), ("Connection", "close")];
    assert!(client.ask("GET", "/small.txt", &fields).expect(200).closes());
    client.finish();
}

pub(crate) fn words_that_are_not_close(variant: &Variant) {
    let mut client = serve(variant).client();
    for value in ["closed", "not-close", "keep-alive", "x"] {
        let answer = client.ask("GET", "/small.txt", &[("Connection", value)]).expect(200);
        assert!(!answer.closes(), "{value:?}: {answer:?}");
    }
}

pub(crate) fn old_version_closes(variant: &Variant) {
    let server = serve(variant);
    for text in ["GET /small.txt HTTP/1.0\r\n\r\n", "GET /small.txt HTTP/1.0\r\nHost: x\r\n\r\n"] {
        let mut client = server.asked(text);
        assert_eq!(client.answer("GET").expect(200).body, b"small\n");
        client.finish();
    }
}

pub(crate) fn old_version_keeps_alive(variant: &Variant) {
    let mut client = serve(variant).client();
    for value in ["keep-alive", "Keep-Alive", "foo, keep-alive"] {
        client.send(format!("GET /small.txt HTTP/1.0\r\nConnection: {value}\r\n\r\n"));
        let answer = client.answer("GET").expect(200);
        assert!(answer.lists("Connection", "keep-alive"), "{value:?}: {answer:?}");
    }
    client.send("GET /small.txt HTTP/1.0\r\n\r\n");
    client.answer("GET").expect(200);
    client.finish();
}

pub(crate) fn old_version_close_wins(variant: &Variant) {
    let mut client = serve(variant).client();
    client.send("GET /small.txt HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n");
    client.answer("GET").expect(200);
    client.finish();
}

pub(crate) fn at_most_so_many_requests(variant: &Variant) {
    let mut client = serve_with(variant, &["limits.requests_max=3"]).client();
    let closes = [(); 3].map(|()| client.get("/small.txt").expect(200).closes());
    assert_eq!(closes, [false, false, true]);
    client.finish();
}

pub(crate) fn empty_lines_before_a_request(variant: &Variant) {
    let mut client = serve(variant).client();
    // RFC 9112 §2.2: at least one empty line before the request-line is to be ignored.
    client.send("\r\nGET /small.txt HTTP/1.1\r\nHost: x\r\n\r\n");
    client.answer("GET").expect(200);
    client.send("\r\nGET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(client.answer("GET").expect(200).body, b"the letter a\n");
}

pub(crate) fn client_that_only_connects(variant: &Variant) {
    let server = serve(variant);
    for _ in 0..20 {
        drop(server.connect());
    }
    let mut client = server.connect();
    client.half_close();
    client.finish();
    server.connect().get("/small.txt").expect(200);
}
