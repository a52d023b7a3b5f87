//! Heads with a section seen before are parsed as if it were new; and which sections are kept.
use super::*;
use crate::h1::parse_first;
use alloc::{format, string::String, vec::Vec};

const LIMITS: HeadLimits = HeadLimits { head_bytes_max: 2000, target_bytes_max: 64, fields_max: 8 };

/// Parses `text` with what `seen` has kept, and without it.
fn check(seen: &mut Seen, text: &[u8]) {
    let mut head = RequestHead::unread();
    let found = seen.parse_into(text, &LIMITS, &mut head).map(|complete| complete.then_some(head));
    let expected = parse_first(text, &LIMITS);
    assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{}", text.escape_ascii());
}

/// Sections kept after parsing a text as many times as keeping its section takes.
fn seen(text: &[u8]) -> Seen {
    let mut seen = Seen::new();
    (0..3).for_each(|_| check(&mut seen, text));
    seen
}

fn sections(seen: &Seen) -> usize {
    seen.places.iter().filter(|place| !place.section.is_empty()).count()
}

#[test]
fn what_only_says_who_asks_is_kept() {
    let check = |text: &str, expected: bool| {
        let kept = sections(&seen(text.as_bytes())) == 1;
        assert_eq!(kept, expected, "{text:?}");
    };
    let long = |bytes: usize| {
        let start = "Host: a\r\nUser-Agent: ";
        let rest = "u".repeat(bytes - start.len() - 4);
        format!("GET / HTTP/1.1\r\n{start}{rest}\r\n\r\n")
    };
    check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true);
    check("BREW /a?b HTTP/1.1\r\nhost:a:80\r\nX: y\r\nConnection: close\r\n\r\n", true);
    check("GET / HTTP/1.1\r\nHost:\r\nReferer:\r\nUser-Agent: u\r\n\r\n", true);
    check("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br;q=1\r\n\r\n", true);
    check(&long(SECTION_BYTES_MAX), true);
    check(&long(SECTION_BYTES_MAX + 1), false);
    check("GET / HTTP/1.0\r\nHost: a\r\n\r\n", false);
    check("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", false);
    check("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", false);
    check("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", false);
    for line in [
        "Content-Length: 0",
        "Transfer-Encoding: chunked",
        "Expect: 100-continue",
        "Expect: more",
        "Range: bytes=0-1",
        "If-Match: \"a\"",
        "If-None-Match: \"a\"",
        "If-Modified-Since: x",
        "If-Unmodified-Since: x",
        "If-Range: \"a\"",
        "Accept-Encoding: br\r\nAccept-Encoding: gzip",
        "Cookie: a=b",
        "cookie:",
        "AUTHORIZATION: Basic Og==",
        "Proxy-Authorization: Basic Og==",
    ] {
        check(&format!("GET / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n"), false);
    }
}

/// Sections that never come twice running to a place displace no other.
#[test]
fn a_section_is_kept_when_it_comes_again() {
    let mut seen = Seen::new();
    let other = |at: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {at:08}\r\n\r\n");
    for at in 0..1000 {
        check(&mut seen, other(at).as_bytes());
    }
    assert_eq!(sections(&seen), 0);
    // By then only one in a few is looked up.
    (0..3 * SELDOM).for_each(|_| check(&mut seen, other(0).as_bytes()));
    assert_eq!(sections(&seen), 1);
    assert_eq!(seen.misses, 0);
    for at in 0..1000 {
        (0..3).for_each(|_| check(&mut seen, other(at).as_bytes()));
    }
    assert_eq!(sections(&seen), PLACES, "bounded, and every place is used");
    assert!(seen.places.iter().all(|place| place.section.capacity() <= SECTION_BYTES_MAX));
}

/// After each head each other one, which may end in its section, or start with its line.
#[test]
fn another_head_is_not_taken_for_one_seen() {
    let lines = [
        "GET / HTTP/1.1\r\n",
        "HEAD /b?c HTTP/1.1\r\n",
        "OPTIONS * HTTP/1.1\r\n",
        "GET / HTTP/1.0\r\n",
        "GET http://h/ HTTP/1.1\r\n",
        "GET http://a b/ HTTP/1.1\r\n",
        "CONNECT a:80 HTTP/1.1\r\n",
        "GET / HTTP/2.0\r\n",
        "GET / HTTP/1.1\n",
        "GET / HTTP/1.1\r",
        "GET / HTTP/1.1 \r\n",
        "GET  / HTTP/1.1\r\n",
        "GET /\u{fc} HTTP/1.1\r\n",
        "GET /\x7f HTTP/1.1\r\n",
        "\r\nGET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nX-",
        "GET / HTTP/1.1\r\nX: y\r\n",
        "GET / HTTP/1.1\r\n \r\n",
        "GET / HTTP/1.1\r\nHost: b\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 5\r\n",
        "",
        "\r\n",
    ];
    let long_target = format!("GET /{} HTTP/1.1\r\n", "a".repeat(64));
    let many = "A: b\r\n".repeat(7);
    let wide = format!("Host: a\r\nX: {}\r\n\r\n", "y".repeat(980));
    let sections = [
        "Host: a\r\n\r\n",
        "Host: a\r\nUser-Agent: u\r\nReferer: /r\r\nAccept-Encoding: br\r\n\r\n",
        "Host: a\r\nhost: a\r\n\r\n",
        "X: y\r\n\r\n",
        "a\r\n\r\n",
        "Host: a\r\nRange: bytes=0-1\r\n\r\n",
        "\r\n",
        &wide,
        &format!("Host: a\r\n{many}\r\n"),
        &format!("Host: a\r\n{many}A: b\r\n\r\n"),
    ];
    let texts: Vec<String> = lines
        .into_iter()
        .chain([&*long_target])
        .flat_map(|line| sections.map(|section| format!("{line}{section}")))
        .collect();
    for one in &texts {
        let seen = seen(one.as_bytes());
        texts.iter().for_each(|other| check(&mut seen.clone(), other.as_bytes()));
    }
    // A section kept under wider limits is refused under narrower ones.
    let mut seen = seen(texts[0].as_bytes());
    for narrow in [
        HeadLimits { head_bytes_max: 20, ..LIMITS },
        HeadLimits { fields_max: 0, ..LIMITS },
        HeadLimits { target_bytes_max: 0, ..LIMITS },
    ] {
        let found = seen.parse_into(texts[0].as_bytes(), &narrow, &mut RequestHead::unread());
        assert_eq!(found, parse_first(texts[0].as_bytes(), &narrow).map(|head| head.is_some()));
        assert!(found.is_err());
    }
}

/// Random pieces in random order, and much of it again and again.
#[test]
fn random_heads_are_read_as_if_none_had_been_seen() {
    let pieces: [&[u8]; 16] = [
        b"GET / HTTP/1.1\r\n",
        b"GET /a?b HTTP/1.1\r\n",
        b"HEAD /c HTTP/1.0\r\n",
        b"Host: a\r\n",
        b"Host: a\r\n\r\n",
        b"Host: a\r\n\r\n",
        b"User-Agent: u\r\n",
        b"Referer: r\r\n",
        b"Accept-Encoding: br\r\n",
        b"Connection: close\r\n",
        b"Content-Length: 1\r\n",
        b"Range: bytes=0-\r\n",
        b"\r\n",
        b"\n",
        b"X",
        b": y\r\n",
    ];
    let (mut seed, mut seen) = (1u64, Seen::new());
    for _ in 0..100_000 {
        let mut text = pieces[(seed >> 40) as usize % 3].to_vec();
        for _ in 0..(seed >> 50) % 5 + 1 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.extend_from_slice(pieces[(seed >> 60) as usize]);
        }
        check(&mut seen, &text);
    }
    assert!(sections(&seen) > 0, "some were kept");
}
