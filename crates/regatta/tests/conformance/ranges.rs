//! Byte ranges: RFC 9110 §14, and the product's caps.

use crate::prelude::*;
use std::os::unix::fs::FileExt;

fn ranged(client: &mut Client, target: &str, range: &str) -> Answer {
    client.ask("GET", target, &[("Range", range)])
}

/// Fails unless the answer to a range has this status and this `Content-Range`.
#[track_caller]
fn selects(client: &mut Client, target: &str, range: &str, status: u16, place: &str) -> Answer {
    let answer = ranged(client, target, range).expect(status);
    assert_eq!(answer.must("Content-Range"), format!("bytes {place}"), "{range}");
    answer
}

/// Bytes that one range of a file of `len` bytes selects; `None` if it is unsatisfiable (§14.1.2).
fn select(len: u64, first: Option<u64>, last: Option<u64>) -> Option<(u64, u64)> {
    match (first, last) {
        (Some(first), _) if first >= len => None,
        (Some(first), last) => Some((first, last.unwrap_or(len).min(len - 1))),
        (None, Some(0)) | (None, None) => None,
        (None, Some(suffix)) => Some((len.saturating_sub(suffix), len - 1)),
    }
}

pub(crate) fn single_against_a_model(variant: &Variant) {
    let mut client = serve(variant).client();
    for size in SIZES.into_iter().filter(|size| *size > 0) {
        let len = size as u64;
        let whole = sized(size);
        let edges = [0, 1, 4095, 4096, 65_535, 65_536, len / 2, len - 1, len, len + 1, 1 << 40];
        let mut specs: Vec<(Option<u64>, Option<u64>)> = Vec::new();
        for first in edges {
            specs.push((Some(first), None));
            specs.push((None, Some(first)));
            for last in [first, first + 1, len - 1, len, 1 << 40] {
                if last >= first && last - first < 200_000 {
                    specs.push((Some(first), Some(last)));
                }
            }
        }
        let target = format!("/size-{size}.bin");
        for (first, last) in specs.into_iter().filter(|(first, last)| is_brief(len, *first, *last))
        {
            let text = |n: Option<u64>| n.map_or_else(String::new, |n| n.to_string());
            let range = format!("bytes={}-{}", text(first), text(last));
            let answer = ranged(&mut client, &target, &range);
            check_single(&answer, &range, whole, select(len, first, last));
        }
    }
}

/// Keeps the table quick: few of the ranges that send most of a large file.
fn is_brief(len: u64, first: Option<u64>, last: Option<u64>) -> bool {
    let selected = select(len, first, last).map_or(0, |(first, last)| last - first + 1);
    selected < 300_000 || first == Some(0)
}

fn check_single(answer: &Answer, range: &str, whole: &[u8], selected: Option<(u64, u64)>) {
    let len = whole.len();
    let Some((first, last)) = selected else {
        assert_eq!(answer.status, 416, "{range} of {len}: {answer:?}");
        // §15.5.17: the current length, so that the client can ask again.
        assert_eq!(answer.must("Content-Range"), format!("bytes */{len}"));
        return;
    };
    assert_eq!(answer.status, 206, "{range} of {len}: {answer:?}");
    assert_eq!(answer.must("Content-Range"), format!("bytes {first}-{last}/{len}"));
    let at = |n: u64| usize::try_from(n).expect("small");
    assert!(answer.body == whole[at(first)..=at(last)], "{range} of {len}: other bytes");
}

pub(crate) fn partial_has_the_fields_of_ok(variant: &Variant) {
    let mut client = serve(variant).client();
    let ok = client.get("/size-65537.bin").expect(200);
    let part = ranged(&mut client, "/size-65537.bin", "bytes=1-2").expect(206);
    // §15.3.7.
    for name in ["ETag", "Last-Modified", "Cache-Control", "Vary", "Content-Type"] {
        assert_eq!(part.field(name), ok.field(name), "{name}");
    }
    assert_eq!(part.must("Content-Length"), "2");
}

pub(crate) fn of_an_empty_file(variant: &Variant) {
    let mut client = serve(variant).client();
    for range in ["bytes=0-", "bytes=0-0", "bytes=1-", "bytes=0-0,1-1"] {
        selects(&mut client, "/size-0.bin", range, 416, "*/0");
    }
    // A suffix of nothing selects nothing, which Content-Range cannot express.
    let answer = ranged(&mut client, "/size-0.bin", "bytes=-5").expect_one_of(&[200, 416]);
    assert!(answer.status == 416 || answer.body.is_empty());
}

pub(crate) fn malformed_are_ignored(variant: &Variant) {
    let mut client = serve(variant).client();
    let malformed = "|bytes=|bytes=-|bytes=a-b|bytes=5-3|bytes=5|bytes 0-1|bytes|=0-1|0-1|\
                     bytes=0-1,x|bytes=0-1;2-3|bytes=--1|bytes=1-2-3|bytes=0x1-2|bytes=+1-2|\
                     bytes=1.0-2|bytes=1 -2|bytes=1- 2|bytes=\u{b2}-|items=0-1|byte=0-1|bytess=0-1";
    for range in malformed.split('|') {
        let answer = ranged(&mut client, "/small.txt", range);
        assert_eq!(answer.status, 200, "{range:?}: {answer:?}");
        assert_eq!(answer.body, b"small\n");
    }
}

pub(crate) fn numbers_beyond_every_integer(variant: &Variant) {
    let mut client = serve(variant).client();
    for big in [
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999999999999999999",
    ] {
        // §14.1.2: large numerals must be expected; ignoring the field is allowed too.
        let answer = ranged(&mut client, "/size-4096.bin", &format!("bytes=4000-{big}"));
        match answer.expect_one_of(&[206, 200]) {
            part if part.status == 206 => {
                assert_eq!(part.must("Content-Range"), "bytes 4000-4095/4096");
            }
            whole => assert!(whole.body == sized(4096)),
        }
        let answer = ranged(&mut client, "/size-4096.bin", &format!("bytes=-{big}"));
        assert!(answer.expect_one_of(&[206, 200]).body == sized(4096), "suffix {big}");
        for range in [format!("bytes={big}-"), format!("bytes={big}-{big}")] {
            let answer = ranged(&mut client, "/size-4096.bin", &range).expect_one_of(&[416, 200]);
            assert!(answer.status == 416 || answer.body == sized(4096), "{range}");
        }
    }
}

pub(crate) fn unit_in_any_letter_case(variant: &Variant) {
    let mut client = serve(variant).client();
    // §14.1: letter case of the unit does not matter; §5.6.1: lists may have space and gaps.
    for range in
        ["Bytes=1-2", "BYTES=1-2", "bytes=1-2 ", "bytes=,1-2", "bytes=1-2,", "bytes=1-2 , "]
    {
        let answer = ranged(&mut client, "/small.txt", range);
        assert_eq!(answer.status, 206, "{range:?}: {answer:?}");
        assert_eq!(answer.body, b"ma", "{range:?}");
    }
}

pub(crate) fn only_for_get(variant: &Variant) {
    let mut client = serve(variant).client();
    // §14.2: Range is defined for GET only.
    let head = client.ask("HEAD", "/small.txt", &[("Range", "bytes=0-1")]).expect(200);
    assert_eq!(head.must("Content-Length"), "6");
    client.ask("HEAD", "/small.txt", &[("Range", "bytes=100-")]).expect(200);
    client.ask("GET", "/missing.txt", &[("Range", "bytes=0-1")]).expect(404);
    client.ask("GET", "/sub", &[("Range", "bytes=0-1")]).expect_one_of(&[301, 308]);
}

/// A part of a multipart/byteranges body: its first and last byte, and its content.
type Part = (u64, u64, Vec<u8>);

/// Reads a multipart/byteranges body strictly (§14.6, RFC 2046 §5.1.1).
fn parts(answer: &Answer, len: usize, media_type: &str) -> (String, Vec<Part>) {
    let boundary = answer.must("Content-Type").strip_prefix("multipart/byteranges; boundary=");
    let boundary = boundary.unwrap_or_else(|| panic!("{answer:?}")).trim_matches('"');
    assert!((1..=70).contains(&boundary.len()), "{boundary}");
    let between = format!("\r\n--{boundary}");
    // The first delimiter may lack the CRLF before it.
    let mut body = answer.body.as_slice();
    let mut first = true;
    let mut parts = Vec::new();
    loop {
        let dashes = if first && body.starts_with(b"--") { &between[2..] } else { &between };
        body = body.strip_prefix(dashes.as_bytes()).expect("a delimiter");
        first = false;
        if let Some(end) = body.strip_prefix(b"--") {
            assert!(end.is_empty() || end == b"\r\n", "after the end: {}", end.escape_ascii());
            return (boundary.to_owned(), parts);
        }
        let end = body.windows(4).position(|w| w == b"\r\n\r\n").expect("a part's head");
        let head = std::str::from_utf8(&body[..end]).expect("ASCII").to_owned();
        let (part, part_len) = part_head(&head, len, media_type);
        body = &body[end + 4..];
        parts.push((part.0, part.1, body[..part_len].to_vec()));
        body = &body[part_len..];
    }
}

fn part_head(head: &str, len: usize, media_type: &str) -> ((u64, u64), usize) {
    let of = |name: &str| {
        let mut lines = head.split("\r\n").filter_map(|line| line.split_once(": "));
        lines.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    assert_eq!(of("Content-Type").as_deref(), Some(media_type), "{head}");
    let range = of("Content-Range").unwrap_or_else(|| panic!("no Content-Range in {head}"));
    let range = range.strip_prefix("bytes ").and_then(|r| r.strip_suffix(&format!("/{len}")));
    let (first, last) = range.and_then(|r| r.split_once('-')).expect("first-last/length");
    let (first, last): (u64, u64) = (first.parse().expect("first"), last.parse().expect("last"));
    ((first, last), usize::try_from(last - first + 1).expect("small"))
}

const OCTETS: &str = "application/octet-stream";

/// Asks for ranges of the 65537-byte file and expects these parts in any order.
fn expect_parts(server: &Server, range: &str, expected: &[(u64, u64)]) {
    let mut client = server.connect();
    let answer = ranged(&mut client, "/size-65537.bin", range).expect(206);
    has_parts(&answer, range, expected);
    client.get("/small.txt").expect(200);
}

/// Fails unless an answer for these ranges of the 65537-byte file has these parts in any order.
pub(crate) fn has_parts(answer: &Answer, range: &str, expected: &[(u64, u64)]) {
    let whole = sized(65_537);
    let (_, mut found) = parts(answer, whole.len(), OCTETS);
    found.sort();
    let spans: Vec<_> = found.iter().map(|(first, last, _)| (*first, *last)).collect();
    assert_eq!(spans, expected, "{range}");
    for (first, last, bytes) in found {
        let (first, last) = (usize::try_from(first), usize::try_from(last));
        assert!(bytes == whole[first.expect("small")..=last.expect("small")], "{range}");
    }
}

pub(crate) fn several(variant: &Variant) {
    let server = serve(variant);
    expect_parts(&server, "bytes=0-1,1000-1001", &[(0, 1), (1000, 1001)]);
    expect_parts(&server, "bytes=0-1, 1000-1001 ,-1", &[(0, 1), (1000, 1001), (65_536, 65_536)]);
    expect_parts(&server, "bytes=60000-,0-0", &[(0, 0), (60_000, 65_536)]);
    expect_parts(&server, "bytes=5000-5001,0-1", &[(0, 1), (5000, 5001)]);
    expect_parts(&server, "bytes=0-1,99999999-,1000-1001", &[(0, 1), (1000, 1001)]);
    expect_parts(&server, "bytes=0-29999,35000-65000", &[(0, 29_999), (35_000, 65_000)]);
}

pub(crate) fn several_that_are_one(variant: &Variant) {
    let mut client = serve(variant).client();
    let whole = sized(65_537);
    for (range, last) in [
        ("bytes=0-10,5-20", 20),
        ("bytes=5-20,0-10", 20),
        ("bytes=0-9,10-19", 19),
        ("bytes=0-19,3-4,5-6,0-0", 19),
        ("bytes=0-1,0-1,0-1", 1),
        ("bytes=0-1,70000-80000", 1),
    ] {
        // §15.3.7.2: a single remaining range is not answered as a multipart.
        let place = format!("0-{last}/65537");
        selects(&mut client, "/size-65537.bin", range, 206, &place).has(&whole[..=last]);
    }
}

pub(crate) fn several_without_any_satisfiable(variant: &Variant) {
    let mut client = serve(variant).client();
    for range in ["bytes=70000-,80000-90000", "bytes=65537-65537,-0"] {
        selects(&mut client, "/size-65537.bin", range, 416, "*/65537");
    }
}

/// A number of one-byte ranges, far apart.
fn scattered(count: usize) -> String {
    let spans: Vec<_> = (0..count).map(|i| format!("{}-{}", i * 100, i * 100)).collect();
    format!("bytes={}", spans.join(","))
}

pub(crate) fn too_many(variant: &Variant) {
    let mut client = serve(variant).client();
    let answer = ranged(&mut client, "/size-65537.bin", &scattered(16)).expect(206);
    assert_eq!(parts(&answer, 65_537, OCTETS).1.len(), 16);
    // Legal but unwanted: the whole file, not an error.
    for count in [17, 100, 600] {
        let answer = ranged(&mut client, "/size-65537.bin", &scattered(count)).expect(200);
        assert!(answer.body == sized(65_537), "{count} ranges");
    }
    let overlapping = format!("bytes={}", ["0-"; 1000].join(","));
    let answer = ranged(&mut client, "/size-65537.bin", &overlapping).expect_one_of(&[200, 206]);
    assert_eq!(answer.body.len(), 65_537, "amplified");
}

pub(crate) fn how_many_is_a_setting(variant: &Variant) {
    let mut client = serve_with(variant, &["limits.ranges_max=2"]).client();
    ranged(&mut client, "/size-65537.bin", &scattered(2)).expect(206);
    ranged(&mut client, "/size-65537.bin", &scattered(3)).expect(200);
}

pub(crate) fn boundaries_are_random(variant: &Variant) {
    let mut client = serve(variant).client();
    let mut seen = HashSet::new();
    for _ in 0..8 {
        let answer = ranged(&mut client, "/size-65537.bin", &scattered(3)).expect(206);
        let (boundary, _) = parts(&answer, 65_537, OCTETS);
        let lines = answer.body.windows(boundary.len()).filter(|w| *w == boundary.as_bytes());
        assert_eq!(lines.count(), 4, "the boundary is not in the content");
        assert!(seen.insert(boundary), "a boundary came twice");
    }
}

pub(crate) fn several_in_a_pipeline(variant: &Variant) {
    let mut client = serve(variant).client();
    let range = "bytes=0-40000,41000-65000";
    client.send(request("GET", "/size-65537.bin", &[("Range", range)]).repeat(20));
    for _ in 0..20 {
        has_parts(&client.answer("GET").expect(206), range, &[(0, 40_000), (41_000, 65_000)]);
    }
}

pub(crate) fn beyond_four_gigabytes(variant: &Variant) {
    const LEN: u64 = 5 << 30;
    let site = Site::new();
    let file = File::create(site.path("huge.bin")).expect("a file");
    file.set_len(LEN).expect("a sparse file");
    file.write_all_at(b"0123456789", (4 << 30) - 5).expect("a place");
    let server = Launch::new(variant, &site.root()).start();
    let mut client = server.connect();
    let head = client.ask("HEAD", "/huge.bin", &[]).expect(200);
    assert_eq!(head.must("Content-Length"), LEN.to_string());
    let mut selects =
        |range: &str, status, place: &str| selects(&mut client, "/huge.bin", range, status, place);
    let place = format!("4294967291-4294967300/{LEN}");
    selects("bytes=4294967291-4294967300", 206, &place).has(b"0123456789");
    selects("bytes=-2", 206, &format!("{}-{}/{LEN}", LEN - 2, LEN - 1));
    selects(&format!("bytes={LEN}-"), 416, &format!("*/{LEN}"));
    // In a multipart body the sum of lengths exceeds 32 bits only on request.
    let answer = ranged(&mut client, "/huge.bin", "bytes=0-1,4294967296-4294967297").expect(206);
    let size = usize::try_from(LEN).expect("64 bits");
    let (_, found) = parts(&answer, size, OCTETS);
    assert_eq!(found[0], (0, 1, vec![0, 0]));
    assert_eq!(found[1], (4_294_967_296, 4_294_967_297, b"56".to_vec()));
}

/// §13.1.5: If-Range compares strongly, and dates exactly.
pub(crate) fn if_range(variant: &Variant) {
    let mut client = serve(variant).client();
    let tag = client.get("/small.txt").expect(200).must("ETag").to_owned();
    // `TAG` is the tag of the file.
    let same = "TAG|Tue, 14 Nov 2023 22:13:20 GMT";
    let others = "W/TAG|\"other\"|Tue, 14 Nov 2023 22:13:19 GMT|Tue, 14 Nov 2023 22:13:21 GMT|*|\
                  nonsense|TAG, \"b\"|";
    for (values, status, body) in [(same, 206, &b"ma"[..]), (others, 200, b"small\n")] {
        for value in values.split('|').map(|value| value.replace("TAG", &tag)) {
            let fields = [("Range", "bytes=1-2"), ("If-Range", value.as_str())];
            let answer = client.ask("GET", "/small.txt", &fields);
            assert_eq!(answer.status, status, "{value}: {answer:?}");
            assert_eq!(answer.body, body);
        }
    }
    // A condition that fails disables the range: no 416 then.
    let fields = [("Range", "bytes=100-"), ("If-Range", "\"other\"")];
    client.ask("GET", "/small.txt", &fields).expect(200);
    client.ask("GET", "/small.txt", &[("Range", "bytes=100-"), ("If-Range", &tag)]).expect(416);
    client.ask("GET", "/small.txt", &[("If-Range", &tag)]).expect(200);
}
