//! The same requests get the same answers, byte for byte, from every variant.

use crate::prelude::*;

/// A request, with names of fields in lower case.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) method: &'static str,
    pub(crate) target: String,
    pub(crate) fields: Vec<Field<'static>>,
}

/// Requests of every kind that both protocols can express.
pub(crate) fn corpus() -> Vec<Asked> {
    let mut corpus = Vec::new();
    let mut add = |method, target: &str, fields: &[Field<'static>]| {
        corpus.push(Asked { method, target: target.to_owned(), fields: fields.to_vec() });
    };
    let targets = "/ /sub /sub/ /missing /.env /empty/ /%zz /link-in.txt /types/none \
                   /types/file.svg /app.3f2a9c1b4d5e6f70.js /epoch.txt /caf%C3%A9.txt /sub?a=b";
    for target in targets.split(' ') {
        add("GET", target, &[]);
        add("HEAD", target, &[]);
    }
    for size in SIZES {
        let target = format!("/size-{size}.bin");
        add("GET", &target, &[]);
        add("GET", &target, &[("range", "bytes=1-4095")]);
    }
    for field in [
        ("accept-encoding", "br"),
        ("accept-encoding", "gzip;q=0.5, zstd;q=0.7"),
        ("if-none-match", "*"),
        ("if-match", "\"x\""),
        ("if-modified-since", MODIFIED),
        ("if-unmodified-since", "Mon, 13 Nov 2023 22:13:20 GMT"),
        ("range", "bytes=-3"),
        ("range", "bytes=900-"),
        ("origin", "https://other.test"),
        ("user-agent", "Tester/1.0 (\"a\"; b)"),
        ("referer", "https://from.test/x"),
    ] {
        add("GET", "/page.html", &[field]);
    }
    for method in ["POST", "OPTIONS", "BREW", "TRACE", "DELETE"] {
        add(method, "/small.txt", &[("content-length", "0")]);
    }
    corpus
}

/// The corpus as bytes, and what HTTP/1 alone can express. Each is for a connection of its own.
fn texts() -> Vec<(&'static str, Vec<u8>)> {
    let text = |Asked { method, target, fields }| (method, request(method, &target, &fields));
    let mut texts: Vec<_> = corpus().into_iter().map(text).collect();
    for target in ["/fifo", "/../x", "/future.txt"] {
        texts.extend(["GET", "HEAD"].map(|method| (method, request(method, target, &[]))));
    }
    texts.push(("GET", request("GET", "/page.html", &[("Connection", "close")])));
    let odd = ["nonsense", "GET / HTTP/1.1", "GET / HTTP/2.0", "GET /small.txt HTTP/1.0"];
    texts.extend(odd.map(|line| ("GET", format!("{line}\r\n\r\n").into_bytes())));
    texts
}

/// Answers of a variant; asked twice, so that the cache has answered too.
fn answers(variant: &Variant) -> Vec<Answer> {
    let server = serve(variant);
    let ask = |(method, text): &(&str, Vec<u8>)| {
        let mut answer = server.asked(text).answer(method);
        answer.fields.retain(|(name, _)| !name.eq_ignore_ascii_case("Date"));
        // The fixture sets it relative to now.
        if text.starts_with(b"GET /future") || text.starts_with(b"HEAD /future") {
            answer.fields.retain(|(name, _)| !name.eq_ignore_ascii_case("Last-Modified"));
        }
        answer
    };
    let texts = texts();
    let first: Vec<Answer> = texts.iter().map(ask).collect();
    let second: Vec<Answer> = texts.iter().map(ask).collect();
    for ((one, two), (_, text)) in first.iter().zip(&second).zip(&texts) {
        assert_same(one, two, text, variant.name, "itself, the second time");
    }
    first
}

fn assert_same(one: &Answer, two: &Answer, text: &[u8], first: &str, second: &str) {
    let heads = one.status == two.status && one.reason == two.reason && one.fields == two.fields;
    let same = heads && one.body == two.body;
    let text = text.escape_ascii();
    assert!(same, "{text} is answered differently\n{first}: {one:?}\n{second}: {two:?}");
}

/// static-servers.md §3.24: a differential test over all architectures as a release gate.
pub(crate) fn every_variant_answers_the_same() {
    let reference = answers(&VARIANTS[0]);
    for variant in &VARIANTS[1..] {
        let these = answers(variant);
        for ((one, two), (_, text)) in reference.iter().zip(&these).zip(texts()) {
            assert_same(one, two, &text, VARIANTS[0].name, variant.name);
        }
    }
}

/// Counters of a cache.
const COUNTERS: [&str; 8] = [
    "cache_lookups",
    "cache_hits",
    "cache_negative_hits",
    "cache_fills",
    "cache_revalidations",
    "cache_evictions",
    "cache_entries_removed",
    "opens",
];

/// A fixed trace: files of every size, some far more often than others, forms of a page, a missing
/// target, and heads.
fn trace() -> Vec<(&'static str, Vec<u8>)> {
    let mut seed: u32 = 1;
    let mut roll = |below: usize| {
        // Numerical Recipes' generator: any fixed sequence will do.
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 16) as usize % below
    };
    (0..300)
        .map(|_| {
            let below = 1 + roll(SIZES.len());
            let size = SIZES[roll(below)];
            match roll(10) {
                0 => ("GET", get(&format!("/missing-{}", roll(3)))),
                1 => ("HEAD", request("HEAD", &format!("/size-{size}.bin"), &[])),
                2 => ("GET", request("GET", "/page.html", &[("Accept-Encoding", "gzip, br")])),
                3 => ("GET", request("GET", "/page.html", &[])),
                _ => ("GET", get(&format!("/size-{size}.bin"))),
            }
        })
        .collect()
}

/// Counts of a variant's cache for the trace. Private caches are one, as there is one worker. A
/// shared cache is one whichever worker accepts a connection.
fn counted(variant: &Variant, settings: &[&str]) -> Vec<(&'static str, u64)> {
    let launch = Launch::new(variant, common()).sets(settings);
    let alone: &[&str] = match variant.architecture {
        "n-copy" => &["event.copies=1"],
        "symped" | "symped-b" | "cohort" | "amped" | "laio" | "auto" => &["event.processes=1"],
        "hybrid-adapt" => &["staff.processes_min=1", "staff.processes_max=1"],
        "uring" => &["uring.processes=1"],
        // A process for each connection, or a thread with its own cache.
        "mp" => &["limits.connections_max=1"],
        _ if variant.has("threads.cache=own") => &["limits.connections_max=1"],
        _ => &[],
    };
    // Nothing becomes stale during the trace, and all presets use the usual values.
    let settings = [
        "cache.enabled=true",
        "cache.revalidate_ms=1h",
        "cache.negative_ms=1h",
        "cache.body_bytes_max=65536",
    ];
    let server = launch.sets(alone).sets(&settings).start();
    let trace = trace();
    for requests in trace.chunks(10) {
        let mut client = server.connect();
        for (method, text) in requests {
            client.send(text);
            client.answer(method);
        }
    }
    // A worker counts a request after it has sent the answer.
    let all = |(_, top): &(_, Value)| counter(top, "requests") == trace.len() as u64;
    let (_, top) = comes_to(|| (variant.name, server.top()), all);
    COUNTERS.iter().map(|name| (*name, counter(&top, name))).collect()
}

/// systems.md §8.6, all: the same cache hits for the same trace, with and without enough room.
pub(crate) fn every_variant_counts_the_same() {
    let small = ["cache.entries_max=5", "cache.descriptors_max=3", "cache.bytes_max=70000"];
    for settings in [&[][..], &small[..]] {
        let reference = counted(&VARIANTS[0], settings);
        let of = |name: &str| reference.iter().find(|(n, _)| *n == name).expect("counted").1;
        let is_enough = of("cache_hits") > 50 && of("cache_fills") > 10;
        assert!(is_enough, "nothing to compare: {reference:?}");
        assert_eq!(of("cache_evictions") > 0, !settings.is_empty(), "{reference:?}");
        for variant in &VARIANTS[1..] {
            assert_eq!(counted(variant, settings), reference, "{} {settings:?}", variant.name);
        }
    }
}
