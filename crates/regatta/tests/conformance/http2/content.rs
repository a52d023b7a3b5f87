//! Requests and responses over HTTP/2: content of every kind, fields, and what refuses neither.

use super::{ask, connect, get, is_refused, served, whole};
use crate::prelude::*;
use crate::ranges::has_parts;
use regatta_testkit::http2::Http2Client;

/// Lengths at and around those of frames and of windows.
const LENGTHS: [usize; 10] =
    [0, 1, 16_374, 16_375, 16_376, 16_384, 16_385, 65_536, 1 << 20, 10 << 20];

pub(crate) fn every_size(variant: &Variant) {
    let site = Site::new();
    LENGTHS.iter().for_each(|len| site.put(&format!("{len}.bin"), pattern(*len, *len)));
    let server = Launch::new(variant, &site.root()).start();
    let mut client = connect(&server);
    // Twice: the first fills a cache, the second comes from it. No cache has the last.
    for len in LENGTHS.into_iter().chain(LENGTHS.into_iter().take(LENGTHS.len() - 1)) {
        let answer = get(&mut client, &format!("/{len}.bin")).expect(200);
        assert_eq!(answer.must("Content-Length"), len.to_string());
        answer.has(&pattern(len, len));
    }
    assert_eq!(client.empty_ends(), 0, "END_STREAM belongs to the last content");
}

pub(crate) fn heads(variant: &Variant) {
    let (_server, mut client) = served(variant);
    for path in ["/size-0.bin", "/size-5242880.bin", "/page.html", "/missing.txt", "/sub"] {
        let whole = get(&mut client, path);
        let head = ask(&mut client, "HEAD", path, &[]);
        assert_eq!(head.status, whole.status, "{path}");
        for name in ["Content-Length", "Content-Type", "ETag", "Location", "Vary"] {
            assert_eq!(head.field(name), whole.field(name), "{path} {name}");
        }
    }
}

pub(crate) fn conditions(variant: &Variant) {
    let (_server, mut client) = served(variant);
    let tag = get(&mut client, "/small.txt").expect(200).must("ETag").to_owned();
    for (name, value, status) in [
        ("if-none-match", tag.as_str(), 304),
        ("if-none-match", "\"other\"", 200),
        ("if-modified-since", MODIFIED, 304),
        ("if-match", "\"other\"", 412),
        ("if-match", tag.as_str(), 200),
    ] {
        for method in ["GET", "HEAD"] {
            let answer = ask(&mut client, method, "/small.txt", &[(name, value)]).expect(status);
            assert!(status == 412 || answer.field("ETag") == Some(&*tag), "{answer:?}");
        }
    }
    // A list in several lines.
    let two = [("if-none-match", "\"a\""), ("if-none-match", tag.as_str())];
    ask(&mut client, "GET", "/small.txt", &two).expect(304);
}

pub(crate) fn ranges(variant: &Variant) {
    let (_server, mut client) = served(variant);
    let whole = sized(65_537);
    for (range, first, last) in
        [("bytes=1-4095", 1, 4095), ("bytes=-7", 65_530, 65_536), ("bytes=16384-", 16_384, 65_536)]
    {
        let answer = ask(&mut client, "GET", "/size-65537.bin", &[("range", range)]).expect(206);
        assert_eq!(answer.must("Content-Range"), format!("bytes {first}-{last}/65537"));
        answer.has(&whole[first..=last]);
    }
    let range = "bytes=0-40000,41000-65000";
    let answer = ask(&mut client, "GET", "/size-65537.bin", &[("range", range)]).expect(206);
    has_parts(&answer, range, &[(0, 40_000), (41_000, 65_000)]);
    let beyond = [("range", "bytes=70000-")];
    let answer = ask(&mut client, "GET", "/size-65537.bin", &beyond).expect(416);
    assert_eq!(answer.must("Content-Range"), "bytes */65537");
}

pub(crate) fn codings(variant: &Variant) {
    let (_server, mut client) = served(variant);
    for (accepted, coding, start) in [
        ("br", Some("br"), "the br form"),
        ("gzip", Some("gzip"), "the gz form"),
        ("zstd", Some("zstd"), "the zst form"),
        ("deflate", None, "<!doctype html>"),
    ] {
        let fields = [("accept-encoding", accepted)];
        let answer = ask(&mut client, "GET", "/page.html", &fields).expect(200);
        assert_eq!(answer.field("Content-Encoding"), coding, "{answer:?}");
        assert!(answer.body.starts_with(start.as_bytes()), "{answer:?}");
        assert!(answer.lists("Vary", "Accept-Encoding"), "{answer:?}");
    }
}

/// Statuses after which a connection of HTTP/1 would close end no other stream here.
pub(crate) fn errors_leave_the_connection(variant: &Variant) {
    let site = Site::with(&[("404.html", "our own page"), ("sub/index.html", "sub")]);
    let server = Launch::new(variant, &site.root()).start();
    let mut client = connect(&server);
    let long = format!("/{}", "x".repeat(9000));
    for (path, status) in [("/missing", 404), ("/.env", 404), ("/%zz", 400), (long.as_str(), 414)] {
        let answer = get(&mut client, path).expect(status);
        assert!(status != 404 || answer.body == b"our own page", "{answer:?}");
    }
    check_location(&get(&mut client, "/sub"), "/sub", "/sub/");
    check_location(&get(&mut client, "/sub?a=b"), "/sub?a=b", "/sub/?a=b");
    assert_eq!(get(&mut client, "/sub/").expect(200).body, b"sub");
}

pub(crate) fn methods(variant: &Variant) {
    let (_server, mut client) = served(variant);
    for method in ["POST", "PUT", "DELETE", "TRACE"] {
        let answer = ask(&mut client, method, "/small.txt", &[]).expect(405);
        assert!(answer.lists("Allow", "GET"), "{answer:?}");
    }
    ask(&mut client, "BREW", "/small.txt", &[]).expect(501);
    let answer = ask(&mut client, "OPTIONS", "*", &[]).expect_one_of(&[200, 204]);
    assert!(answer.lists("Allow", "GET"), "{answer:?}");
    // RFC 9113 §8.5: neither scheme nor path.
    let id = client.open(&[(":method", "CONNECT"), (":authority", "regatta.test:443")], true);
    is_refused(&mut client, id, &[405], &[]);
    get(&mut client, "/small.txt").expect(200).has(b"small\n");
}

/// Sends a request with this much content, as windows permit. Returns its stream.
fn upload(client: &mut Http2Client, method: &str, fields: &[Field<'_>], len: usize) -> u32 {
    let id = client.open(&client.request(method, "/small.txt", fields), false);
    client.send_content(id, &pattern(len, 1), true);
    id
}

/// More than a window, so the server opens it again.
pub(crate) fn content_is_discarded(variant: &Variant) {
    let server = serve_with(variant, &["limits.discard_body_bytes_max=100000"]);
    let mut client = connect(&server);
    for len in [0, 1, 16_384, 65_535, 100_000] {
        let text = len.to_string();
        let field = [("content-length", text.as_str())];
        for fields in [&field[..], &[]] {
            let id = upload(&mut client, "GET", fields, len);
            let answer = whole(&mut client, id).expect(200);
            assert_eq!(answer.body, b"small\n", "{len} bytes {fields:?}");
        }
    }
    get(&mut client, "/size-4096.bin").expect(200).has(sized(4096));
}

/// The response may precede the content. Then the server asks for no more of it.
pub(crate) fn too_much_content_is_refused(variant: &Variant) {
    let server = serve_with(variant, &["limits.discard_body_bytes_max=10000"]);
    let mut client = connect(&server);
    let announced = [("content-length", "10001")];
    let id = client.open(&client.request("GET", "/small.txt", &announced), false);
    whole(&mut client, id).expect(413);
    client.send_content(id, &pattern(10_001, 1), true);
    get(&mut client, "/small.txt").expect(200);
    for (method, status) in [("GET", 200), ("POST", 405)] {
        let id = upload(&mut client, method, &[], 200_000);
        whole(&mut client, id).expect_one_of(&[status, 413]);
    }
    // The connection's window is open again.
    for _ in 0..10 {
        let id = upload(&mut client, "GET", &[], 9_000);
        whole(&mut client, id).expect(200);
    }
}

/// RFC 9113 §8.1.1: an error of the stream, unless the response has come before.
pub(crate) fn content_of_another_length(variant: &Variant) {
    let (_server, mut client) = served(variant);
    for (announced, sent) in [("5", 4), ("5", 6), ("0", 1)] {
        let fields = [("content-length", announced)];
        let id = upload(&mut client, "GET", &fields, sent);
        is_refused(&mut client, id, &[200, 400], &fields);
        get(&mut client, "/small.txt").expect(200);
    }
}

pub(crate) fn fields_that_are_allowed(variant: &Variant) {
    let (_server, mut client) = served(variant);
    let fields: [&[(&str, &str)]; 6] = [
        &[("te", "trailers")],
        &[("cookie", "a=b"), ("cookie", "c=d")],
        &[("host", "regatta.test")],
        &[("content-length", "0")],
        &[("priority", "u=9, nonsense;;;")],
        &[("x-empty", ""), ("x-high", "caf\u{e9}")],
    ];
    for fields in fields {
        ask(&mut client, "GET", "/small.txt", fields).expect(200);
    }
    // Without an authority, `host` names the host.
    let mut head = client.request("GET", "/small.txt", &[("host", "regatta.test")]);
    head.retain(|(name, _)| *name != ":authority");
    let id = client.open(&head, true);
    whole(&mut client, id).expect(200);
}
