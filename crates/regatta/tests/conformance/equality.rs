//! The same requests get the same answers, byte for byte, from every variant.

use crate::client::{Answer, request};
use crate::harness::{Variant, serve};
use crate::site::SIZES;
use crate::variants::VARIANTS;

/// Requests of every kind; each on a connection of its own.
fn corpus() -> Vec<(&'static str, Vec<u8>)> {
    let mut corpus = Vec::new();
    for target in [
        "/",
        "/sub",
        "/sub/",
        "/missing",
        "/.env",
        "/empty/",
        "/fifo",
        "/%zz",
        "/../x",
        "/link-in.txt",
        "/types/none",
        "/types/file.svg",
        "/app.3f2a9c1b4d5e6f70.js",
        "/future.txt",
        "/epoch.txt",
    ] {
        corpus.push(("GET", request("GET", target, &[])));
        corpus.push(("HEAD", request("HEAD", target, &[])));
    }
    for size in SIZES {
        corpus.push(("GET", request("GET", &format!("/size-{size}.bin"), &[])));
        let range = [("Range", "bytes=1-4095")];
        corpus.push(("GET", request("GET", &format!("/size-{size}.bin"), &range)));
    }
    for (name, value) in [
        ("Accept-Encoding", "br"),
        ("Accept-Encoding", "gzip;q=0.5, zstd;q=0.7"),
        ("If-None-Match", "*"),
        ("If-Match", "\"x\""),
        ("Range", "bytes=-3"),
        ("Range", "bytes=900-"),
        ("Connection", "close"),
    ] {
        corpus.push(("GET", request("GET", "/page.html", &[(name, value)])));
    }
    for method in ["POST", "OPTIONS", "BREW", "TRACE"] {
        corpus.push((method, request(method, "/small.txt", &[("Content-Length", "0")])));
    }
    for text in ["nonsense\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/2.0\r\n\r\n"] {
        corpus.push(("GET", text.into()));
    }
    corpus.push(("GET", "GET /small.txt HTTP/1.0\r\n\r\n".into()));
    corpus
}

/// Answers of a variant; asked twice, so that the cache has answered too.
fn answers(variant: &Variant) -> Vec<Answer> {
    let server = serve(variant);
    let ask = |(method, text): &(&str, Vec<u8>)| {
        let mut client = server.connect();
        client.send(text);
        let mut answer = client.answer(method);
        answer.fields.retain(|(name, _)| !name.eq_ignore_ascii_case("Date"));
        // Relative to now, in the fixture.
        if text.starts_with(b"GET /future") || text.starts_with(b"HEAD /future") {
            answer.fields.retain(|(name, _)| !name.eq_ignore_ascii_case("Last-Modified"));
        }
        answer
    };
    let corpus = corpus();
    let first: Vec<Answer> = corpus.iter().map(ask).collect();
    let second: Vec<Answer> = corpus.iter().map(ask).collect();
    for ((one, two), (_, text)) in first.iter().zip(&second).zip(&corpus) {
        assert_same(one, two, text, variant.name, "itself, the second time");
    }
    first
}

fn assert_same(one: &Answer, two: &Answer, text: &[u8], first: &str, second: &str) {
    let same = one.status == two.status && one.fields == two.fields && one.body == two.body;
    assert!(
        same,
        "{} is answered differently\n{first}: {}\n{second}: {}",
        text.escape_ascii(),
        one.brief(),
        two.brief()
    );
}

/// static-servers.md §3.24: a differential test over all architectures as a release gate.
#[test]
fn every_variant_answers_the_same() {
    let reference = answers(&VARIANTS[0]);
    for variant in &VARIANTS[1..] {
        let these = answers(variant);
        for ((one, two), (_, text)) in reference.iter().zip(&these).zip(corpus()) {
            assert_same(one, two, &text, VARIANTS[0].name, variant.name);
        }
    }
}
