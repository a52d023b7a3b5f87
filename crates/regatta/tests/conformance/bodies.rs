//! Bodies: every file arrives whole; bodies of requests are drained or refused, never answered.

use crate::prelude::*;

pub(crate) fn every_size_arrives(variant: &Variant) {
    let mut client = serve(variant).client();
    // Twice: the first fills a cache, the second comes from it.
    for _ in 0..2 {
        for size in SIZES {
            let answer = client.get(&format!("/size-{size}.bin")).expect(200).has(sized(size));
            assert_eq!(answer.must("Content-Length"), size.to_string());
        }
    }
}

pub(crate) fn every_size_on_its_own_connection(variant: &Variant) {
    let server = serve(variant);
    for size in SIZES {
        let mut client = server.connect();
        let target = format!("/size-{size}.bin");
        client.ask("GET", &target, &[("Connection", "close")]).expect(200).has(sized(size));
        client.finish();
    }
}

pub(crate) fn a_large_file_arrives(variant: &Variant) {
    let mut client = serve(variant).client();
    client.send(request("GET", "/sparse.bin", &[("Connection", "close")]));
    let head = client.head_only().expect(200);
    assert_eq!(head.must("Content-Length"), SPARSE_BYTES.to_string());
    assert_eq!(client.drain(), SPARSE_BYTES);
}

/// A body that looks like requests is not read as requests.
const TRAP: &str = "GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n";

pub(crate) fn small_body_is_drained(variant: &Variant) {
    let mut client = serve(variant).client();
    let len = TRAP.len().to_string();
    for method in ["GET", "HEAD"] {
        let first = request(method, "/small.txt", &[("Content-Length", &len)]);
        client.send([&first, TRAP.as_bytes(), &get("/sub/file.txt")].concat());
        assert!(!client.answer(method).expect(200).closes());
        assert_eq!(client.answer("GET").expect(200).body, b"file in sub\n");
    }
}

pub(crate) fn body_at_the_limit(variant: &Variant) {
    let mut client = serve_with(variant, &["limits.discard_body_bytes_max=10000"]).client();
    let first = request("GET", "/small.txt", &[("Content-Length", "10000")]);
    client.send([first, pattern(10_000, 1), get("/a.txt")].concat());
    client.answer("GET").expect(200);
    assert_eq!(client.answer("GET").expect(200).body, b"the letter a\n");
    client.send(request("GET", "/small.txt", &[("Content-Length", "10001")]));
    client.try_send([pattern(10_001, 1), get("/a.txt")].concat());
    assert!(client.answer("GET").expect(413).closes());
    client.finish();
}

pub(crate) fn body_that_comes_late(variant: &Variant) {
    let mut client = serve(variant).client();
    let len = TRAP.len().to_string();
    client.send(request("GET", "/small.txt", &[("Content-Length", &len)]));
    for piece in TRAP.as_bytes().chunks(7) {
        client.send(piece);
        thread::sleep(Duration::from_millis(2));
    }
    client.send(get("/sub/file.txt"));
    client.answer("GET").expect(200);
    assert_eq!(client.answer("GET").expect(200).body, b"file in sub\n");
}

pub(crate) fn chunked_body_is_drained(variant: &Variant) {
    let mut client = serve(variant).client();
    for (coding, body) in [
        ("chunked", "0\r\n\r\n".to_owned()),
        // RFC 9112 §7: names of transfer codings are case-insensitive.
        ("Chunked", "0\r\n\r\n".to_owned()),
        ("chunked", format!("{:x}\r\n{TRAP}\r\n0\r\n\r\n", TRAP.len())),
        ("chunked", format!("{:X};ext=\"a b\"\r\n{TRAP}\r\n000\r\n\r\n", TRAP.len())),
        ("chunked", "1\r\na\r\n2;x\r\nbc\r\n0\r\nTrailer: y\r\nHost: z\r\n\r\n".to_owned()),
    ] {
        let first = request("GET", "/small.txt", &[("Transfer-Encoding", coding)]);
        client.send([&first, body.as_bytes(), &get("/sub/file.txt")].concat());
        assert!(!client.answer("GET").expect(200).closes(), "{body:?}");
        assert_eq!(client.answer("GET").expect(200).body, b"file in sub\n", "{body:?}");
    }
}

pub(crate) fn chunked_body_byte_by_byte(variant: &Variant) {
    let mut client = serve(variant).client();
    let first = request("GET", "/small.txt", &[("Transfer-Encoding", "chunked")]);
    let body = format!("{:x};q=\"x\"\r\n{TRAP}\r\n1\r\nz\r\n0\r\nA: b\r\n\r\n", TRAP.len());
    for byte in [&first, body.as_bytes(), &get("/sub/file.txt")].concat() {
        client.send([byte]);
    }
    client.answer("GET").expect(200);
    assert_eq!(client.answer("GET").expect(200).body, b"file in sub\n");
}

pub(crate) fn large_body_is_refused(variant: &Variant) {
    let server = serve(variant);
    for (method, status) in [("GET", 413), ("HEAD", 413), ("POST", 405)] {
        let mut client =
            server.asked(request(method, "/small.txt", &[("Content-Length", "10000000")]));
        let mut left = 10_000_000_usize;
        while left > 0 && client.try_send(vec![b'x'; left.min(50_000)]) {
            left -= left.min(50_000);
        }
        client.try_send(get("/a.txt"));
        assert!(client.answer(method).expect(status).closes(), "{method}");
        assert_eq!(client.drain(), 0, "{method}: something after the refusal");
    }
}

pub(crate) fn endless_chunks_are_refused(variant: &Variant) {
    let server = serve(variant);
    for piece in ["1\r\na\r\n".repeat(500), format!("400\r\n{}\r\n", "a".repeat(1024))] {
        let mut client =
            server.asked(request("GET", "/small.txt", &[("Transfer-Encoding", "chunked")]));
        client.flood(&piece);
        assert!(client.answer("GET").expect_one_of(&[200, 400, 413]).closes());
        assert_eq!(client.drain(), 0, "something after the refusal");
    }
}

pub(crate) fn endless_chunk_lines_are_refused(variant: &Variant) {
    let server = serve(variant);
    let trailers = "X-Trailer: y\r\n".repeat(100);
    for (start, piece) in
        [("1;", "x".repeat(4096)), ("0\r\n", trailers), ("0\r\nX: ", "x".repeat(4096))]
    {
        let mut client =
            server.asked(request("GET", "/small.txt", &[("Transfer-Encoding", "chunked")]));
        client.send(start);
        client.flood(&piece);
        assert!(client.answer("GET").expect_one_of(&[200, 400, 413, 431]).closes(), "{start:?}");
        assert_eq!(client.drain(), 0, "something after the refusal");
    }
}

pub(crate) fn body_that_stops(variant: &Variant) {
    let mut client = serve(variant).client();
    client.send(request("GET", "/small.txt", &[("Content-Length", "10")]));
    client.send("12345");
    client.half_close();
    // The message is incomplete (RFC 9112 §8): at most one answer, and then the end.
    let rest = client.rest();
    let answers = rest.windows(9).filter(|w| *w == b"HTTP/1.1 ").count();
    assert!(answers <= 1, "{}", rest.escape_ascii());
}

pub(crate) fn continue_is_sent_or_not_needed(variant: &Variant) {
    let mut client = serve(variant).client();
    let fields = [("Content-Length", "5"), ("Expect", "100-continue")];
    client.send(request("GET", "/small.txt", &fields));
    // RFC 9110 §10.1.1: 100, or a final answer at once, but not silence.
    let first = client.head_only();
    if first.status == 100 {
        client.send([b"12345".to_vec(), get("/a.txt")].concat());
        client.answer("GET").expect(200);
        assert_eq!(client.answer("GET").expect(200).body, b"the letter a\n");
    } else {
        assert!(matches!(first.status, 200 | 413 | 417), "{first:?}");
        let len = first.must("Content-Length").parse().expect("a length");
        client.take(len);
        assert!(first.closes(), "whether the body comes is unknown: {first:?}");
    }
}

pub(crate) fn continue_with_the_body_at_once(variant: &Variant) {
    let mut client = serve(variant).client();
    let fields = [("Content-Length", "5"), ("Expect", "100-continue")];
    let first = request("GET", "/small.txt", &fields);
    client.send([&first, &b"12345"[..], &get("/a.txt")].concat());
    if client.answer("GET").expect(200).closes() {
        client.finish();
    } else {
        assert_eq!(client.answer("GET").expect(200).body, b"the letter a\n");
    }
}

pub(crate) fn continue_of_a_large_body_is_refused(variant: &Variant) {
    let mut client = serve(variant).client();
    let fields = [("Content-Length", "10000000"), ("Expect", "100-continue")];
    let answer = client.ask("GET", "/small.txt", &fields).expect_one_of(&[413, 417]);
    assert_eq!(answer.interim, [0; 0], "100 invites a body that is then refused");
    assert!(answer.closes());
    client.finish();
}

pub(crate) fn no_continue_in_the_old_version(variant: &Variant) {
    let mut client = serve(variant).client();
    let fields = "Content-Length: 5\r\nExpect: 100-continue";
    client.send(format!("GET /small.txt HTTP/1.0\r\n{fields}\r\n\r\n12345"));
    assert_eq!(client.answer("GET").expect(200).interim, [0; 0]);
    client.finish();
}

pub(crate) fn no_continue_without_a_body(variant: &Variant) {
    let mut client = serve(variant).client();
    let answer = client.ask("GET", "/small.txt", &[("Expect", "100-continue")]).expect(200);
    // RFC 9110 §10.1.1: 100 may be left out where there is nothing to invite.
    assert!(matches!(answer.interim[..], [] | [100]), "{:?}", answer.interim);
    client.get("/small.txt").expect(200);
}

pub(crate) fn unknown_expectations(variant: &Variant) {
    let server = serve(variant);
    let mut client = server.connect();
    // RFC 9110 §10.1.1: 417, or the answer without the field.
    client.ask("GET", "/small.txt", &[("Expect", "a-miracle")]).expect_one_of(&[200, 417]);
    assert_eq!(server.connect().get("/small.txt").expect(200).body, b"small\n");
}
