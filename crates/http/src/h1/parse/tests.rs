//! Request heads: accepted and refused ones, and the faults of the latter.
use super::*;
use crate::h1::{Scan, reference, scan_head};
use HeadFault::Target as BadTarget;
use HeadFault::{FieldLine, Framing, HeadTooLarge, Host, RequestLine, TooManyFields};
use alloc::{format, string::String, vec, vec::Vec};

const LIMITS: HeadLimits = HeadLimits { head_bytes_max: 512, target_bytes_max: 64, fields_max: 8 };

/// Parses `text`, alone, in front of other bytes, and in every prefix; `Err` is the fault.
fn parse(text: &[u8]) -> Result<RequestHead<'_>, HeadFault> {
    let whole = parse_request(text, &LIMITS);
    let mut longer = text.to_vec();
    longer.extend_from_slice(b"\rmore");
    let first = parse_first(&longer, &LIMITS);
    match (&whole, &first) {
        (Ok(one), Ok(Some(other))) => assert_eq!(format!("{one:?}"), format!("{other:?}")),
        (Err(one), Err(other)) => assert_eq!(one, other, "{}", text.escape_ascii()),
        _ => panic!("{} {whole:?} {first:?}", text.escape_ascii()),
    }
    for end in 0..text.len() {
        match parse_first(&text[..end], &LIMITS) {
            Ok(None) => {}
            Ok(Some(head)) => panic!("a head within {head:?}"),
            // A head that is wrong already cannot become right.
            Err(fault) => assert_eq!(whole.err(), Some(fault), "{}", text.escape_ascii()),
        }
    }
    whole
}

fn check(text: &str, expected: Result<(), HeadFault>) {
    assert_eq!(parse(text.as_bytes()).map(|_| ()), expected, "{text:?}");
}

fn check_line(line: &str, expected: Result<(), HeadFault>) {
    check(&format!("{line}\r\nHost: a\r\n\r\n"), expected);
}

#[test]
fn request_lines() {
    for line in [
        "GET / HTTP/1.1",
        "GET / HTTP/1.0",
        "HEAD /a?b HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "OPTIONS /a HTTP/1.1",
        "BREW /pot HTTP/1.1",
        "get / HTTP/1.1",
        "G!#$%&'*+-.^_`|~9 / HTTP/1.1",
        "GET http://h/ HTTP/1.1",
        "\r\nGET / HTTP/1.1",
        "\r\n\r\nGET / HTTP/1.1",
        "GET /\u{fc}?\u{1f600} HTTP/1.1",
    ] {
        check_line(line, Ok(()));
    }
    let latin = parse(b"GET /\xfc HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(latin.map(|_| ()), Err(RequestLine));
    let parts = ["GET /", "GET", "GET / ", "GET /a b HTTP/1.1"];
    let spaces = ["GET  / HTTP/1.1", "GET /  HTTP/1.1", "GET / HTTP/1.1 ", " GET / HTTP/1.1"];
    let tabs = ["GET\t/ HTTP/1.1", "GET /\tHTTP/1.1", "GET /a\tb HTTP/1.1", "GET / HTTP/1.1\t"];
    let methods = ["G(T / HTTP/1.1", "GET: / HTTP/1.1", "G\u{c9}T / HTTP/1.1"];
    let controls = ["GET /\0 HTTP/1.1", "GET /\x7f HTTP/1.1", "\x15\x03\x01\x02"];
    let breaks = ["GET / HTTP/1.1\r", "\nGET / HTTP/1.1", "\rGET / HTTP/1.1"];
    let begins = ["\r\n\r\n\r\nGET / HTTP/1.1", "\r\n GET / HTTP/1.1"];
    for lines in [&parts[..], &spaces, &tabs, &methods, &controls, &breaks, &begins] {
        lines.iter().for_each(|line| check_line(line, Err(RequestLine)));
    }
    let numbers = ["HTTP/11", "HTTP/1.10", "HTTP/1", "HTTP/1.", "HTTP/+1.1", "HTTP/2"];
    for version in numbers.into_iter().chain(["http/1.1", "X", "HTCPCP/1.0", "HTTP 1.1"]) {
        check_line(&format!("GET / {version}"), Err(RequestLine));
    }
}

#[test]
fn versions_and_targets() {
    for line in ["GET / HTTP/2.0", "GET / HTTP/0.9", "PRI * HTTP/2.0", "GET / HTTP/3.0"] {
        check_line(line, Err(HeadFault::Version));
    }
    // RFC 9110 §6.2: read as the latest version that is known here.
    for line in ["GET / HTTP/1.2", "GET / HTTP/1.9", "GET /a?b HTTP/1.5"] {
        check_line(line, Ok(()));
        let text = format!("\r\n{line}\r\nHost: a\r\nConnection: close\r\n\r\nmore");
        for end in 0..text.len() - 4 {
            let parsed = parse_first(&text.as_bytes()[..end], &LIMITS);
            assert!(matches!(parsed, Ok(None)), "{end} of {text:?}: {parsed:?}");
        }
        let head = parse_first(text.as_bytes(), &LIMITS).unwrap().unwrap();
        assert_eq!((head.version, head.head_bytes), (Version::Http11, text.len() - 4));
        assert!(!head.persistent && head.host == Some(b"a"));
    }
    for line in ["GET / HTTP/1.2x", "GET / HTTP/1.20", "GET / HTTP/1.2 ", "GET ftp://h/ HTTP/1.2"] {
        let fault = if line.contains("ftp") { BadTarget } else { RequestLine };
        check_line(line, Err(fault));
    }
    check_line("\x16\x03\x01\x02", Err(HeadFault::Tls));
    assert_eq!(parse_first(b"\x16\x04\x01\x02", &LIMITS).unwrap_err(), RequestLine);
    for line in ["CONNECT a", "CONNECT /", "OPTIONS **"] {
        check_line(&format!("{line} HTTP/1.1"), Err(BadTarget));
    }
    for target in ["a:80", "*", "a/b", "ftp://h/", "http:///", "http://u@h/", "http:h", "?a"] {
        check_line(&format!("GET {target} HTTP/1.1"), Err(BadTarget));
    }
}

#[test]
fn field_lines() {
    let check_fields = |lines: &str, expected| {
        check(&format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"), expected)
    };
    let good = ["A:b", "A: b", "A:", "A: ", "A: b\tc", "A: b:c::", "A:\t \tb \t", "A: \u{fc}"];
    let names = ["!#$%&'*+-.^_`|~9aZ: b", "A-very-long-name-of-a-field-that-nobody-knows: b"];
    check_fields("", Ok(()));
    for line in good.into_iter().chain(names) {
        check_fields(&format!("{line}\r\n"), Ok(()));
    }
    for line in [
        ": b", "A : b", "A\t: b", " A: b", "\tA: b", "A b", "A", "A(: b", "A: b\r", "A: b\n",
        "A: \0", "A: b\x7f", "A\0: b", "A\n: b",
    ] {
        check_fields(&format!("{line}\r\n"), Err(FieldLine));
    }
    let folded = ["A: b\r\n c\r\n", "A: b\r\n\tc\r\n", "A: b\r\n \r\n", "\u{fc}: b\r\n"];
    let broken = ["A: b\nc: d\r\n", "A: b\rc: d\r\n", "A: b\x0bc\r\n", "\n", "\r"];
    for lines in folded.into_iter().chain(broken) {
        check_fields(lines, Err(FieldLine));
    }
}

#[test]
fn hosts() {
    let check_host =
        |lines: &str, expected| check(&format!("GET / HTTP/1.1\r\n{lines}\r\n"), expected);
    for rest in [": a", ": 127.0.0.1:8080", ": [::1]:80", ": a%20b", ":"] {
        check_host(&format!("Host{rest}\r\n"), Ok(()));
    }
    check_host("hOST: a.b-c_d~!$&'()*+,;=:80\r\n", Ok(()));
    for lines in ["", "Hos: a\r\n", "Host: a\r\nHost: a\r\n", "Host: a\r\nhost:\r\n"] {
        check_host(lines, Err(Host));
    }
    for host in [
        "a b", "a/b", "u@a", "a:b", "a:80:80", "a:65536", "a:080808", "http://a", "a?b", "a#b",
        "a\\b", "<a>", "a\tb", "\u{fc}", "a%2", "a%zz", "[::1", "::1", "[::1]80", "[::1]:x",
        "a[::1]",
    ] {
        check_host(&format!("Host: {host}\r\n"), Err(Host));
    }
    check_host("Host: [1.2.3.4]\r\n", Err(Host));
    check("GET / HTTP/1.0\r\n\r\n", Ok(()));
    check("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", Err(Host));
    check("GET http://b/ HTTP/1.1\r\n\r\n", Err(Host));
    check("GET http://b/ HTTP/1.1\r\nHost: /\r\n\r\n", Err(Host));
    let head = parse(b"GET http://b:8/?q HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!((head.host, head.names), (Some(&b"b:8"[..]), Target::Path(b"/?q")));
}

fn check_body(version: &str, lines: &str, expected: Result<RequestBody, HeadFault>) {
    let head = format!("POST / HTTP/{version}\r\nHost: a\r\n{lines}\r\n");
    let body = parse(head.as_bytes()).map(|head| head.body);
    assert_eq!(body, expected, "{version} {lines:?}");
}

#[test]
fn framing() {
    let max = format!("Content-Length: {}\r\n", u64::MAX);
    for (lines, body) in [
        ("", RequestBody::None),
        ("Content-Length: 0\r\n", RequestBody::Length(0)),
        ("content-LENGTH:007 \r\n", RequestBody::Length(7)),
        (max.as_str(), RequestBody::Length(u64::MAX)),
    ] {
        check_body("1.1", lines, Ok(body));
        check_body("1.0", lines, Ok(body));
    }
    for lines in ["Transfer-Encoding: chunked\r\n", "transfer-encoding:\tCHUNKED \r\n"] {
        check_body("1.1", lines, Ok(RequestBody::Chunked));
        check_body("1.0", lines, Err(Framing));
    }
}

#[test]
fn doubtful_framing_is_refused() {
    let short = ["", "+1", "-1", "1,1", "1, 1", "1 1", "1;", "0x1", "1.0", "a", "1a", "\u{661}"];
    let others = ["1\t1", "18446744073709551616", "99999999999999999999999"];
    for value in short.into_iter().chain(others) {
        check_body("1.1", &format!("Content-Length: {value}\r\n"), Err(Framing));
    }
    let several = ["chunked, chunked", "gzip, chunked", "chunked, gzip", "chunked,", ",chunked"];
    let others = ["", "identity", "\"chunked\"", "xchunked", "chunke", "chunkedx", "chun ked"];
    for value in several.into_iter().chain(others).chain(["chunked;q=1", "chunked\t,"]) {
        check_body("1.1", &format!("Transfer-Encoding: {value}\r\n"), Err(Framing));
    }
    check_body("1.1", "Transfer-Encoding: \u{0b}chunked\r\n", Err(FieldLine));
    for lines in [
        "Content-Length: 1\r\nContent-Length: 1\r\n",
        "Content-Length: 1\r\nContent-Length: 2\r\n",
        "Content-Length: 0\r\ncontent-length: 0\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
    ] {
        check_body("1.1", lines, Err(Framing));
    }
}

#[test]
fn persistence() {
    let check_persistence = |version: &str, lines: &str, expected: bool| {
        let text = format!("GET / HTTP/{version}\r\nHost: a\r\n{lines}\r\n");
        assert_eq!(parse(text.as_bytes()).unwrap().persistent, expected, "{version} {lines:?}");
    };
    for (lines, in_11, in_10) in [
        ("", true, false),
        ("Connection: keep-alive\r\n", true, true),
        ("Connection: Keep-Alive\r\n", true, true),
        ("Connection: close\r\n", false, false),
        ("CONNECTION: CLOSE\r\n", false, false),
        ("Connection: upgrade, close\r\n", false, false),
        ("Connection: close, keep-alive\r\n", false, false),
        ("Connection: x\r\nConnection: ,\tclose ,\r\n", false, false),
        ("Connection: TE,keep-alive\r\n", true, true),
        ("Connection: closed\r\n", true, false),
        ("Connection:\r\n", true, false),
        ("Proxy-Connection: close\r\n", true, false),
    ] {
        check_persistence("1.1", lines, in_11);
        check_persistence("1.0", lines, in_10);
    }
}

#[test]
fn expectations() {
    let check_expectation = |version: &str, lines: &str, expected: Expectation| {
        let text = format!("GET / HTTP/{version}\r\nHost: a\r\n{lines}\r\n");
        assert_eq!(parse(text.as_bytes()).unwrap().expectation, expected, "{version} {lines:?}");
    };
    for (lines, expected) in [
        ("", Expectation::None),
        ("Expect:\r\n", Expectation::None),
        ("Expect: 100-continue\r\n", Expectation::Continue),
        ("expect: 100-Continue\r\nExpect: 100-continue\r\n", Expectation::Continue),
        ("Expect: 200-ok\r\n", Expectation::Unknown),
        ("Expect: 200-ok, 100-continue\r\n", Expectation::Unknown),
        ("Expect: 100-continue;a=b\r\n", Expectation::Unknown),
    ] {
        check_expectation("1.1", lines, expected);
        check_expectation("1.0", lines, Expectation::None);
    }
}

#[test]
fn known_fields_are_found_in_any_case() {
    let names = [
        "range",
        "referer",
        "if-range",
        "user-agent",
        "if-match",
        "if-none-match",
        "accept-encoding",
        "if-modified-since",
        "if-unmodified-since",
    ];
    for name in names {
        for written in [String::from(name), name.to_uppercase()] {
            let other = format!("{}X", &written[..written.len() - 1]);
            for (count, lines) in [
                (0, format!("{other}: v\r\n")),
                (1, format!("{written}: v\r\n")),
                (2, format!("{written}: v\r\nb: c\r\n{name}: w\r\n")),
                (3, format!("a: b\r\n{name}: v\r\n{written}: w\r\nc: d\r\n{written}: x\r\n")),
            ] {
                let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
                let head = parse(text.as_bytes()).unwrap();
                check_field(&head, name, count);
            }
        }
    }
}

/// Checks the facts of a field with `count` lines: `v`, `w` and `x`.
fn check_field(head: &RequestHead<'_>, name: &str, count: usize) {
    let conditions = &head.conditions;
    let list = match name {
        "if-match" => Some(conditions.if_match),
        "if-none-match" => Some(conditions.if_none_match),
        "accept-encoding" => Some(head.accept_encoding),
        _ => None,
    };
    if let Some(lines) = list {
        let values: Vec<&[u8]> = lines.values().collect();
        assert_eq!(values, [b"v", b"w", b"x"][..count], "{name}");
        assert_eq!((lines.is_absent(), lines.is_present()), (count == 0, count > 0));
        assert_eq!(lines.single(), (count == 1).then_some(&b"v"[..]));
        return;
    }
    let (value, last_wins) = match name {
        "range" => (head.range, false),
        "if-range" => (conditions.if_range, false),
        "if-modified-since" => (conditions.if_modified_since, false),
        "if-unmodified-since" => (conditions.if_unmodified_since, false),
        "referer" => (head.referer, true),
        _ => (head.user_agent, true),
    };
    let expected: [&[u8]; 4] =
        if last_wins { [b"", b"v", b"w", b"x"] } else { [b"", b"v", b"", b""] };
    assert_eq!(value, (count > 0).then_some(expected[count]), "{name}");
}

#[test]
fn all_fields_can_be_asked_for() {
    let text = b"GET / HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nx-two:\r\nX-One: 3\r\n\r\n";
    let head = parse(text).unwrap();
    let fields: Vec<(&str, &[u8])> = head.fields.iter().map(|f| (f.name, f.value)).collect();
    let expected: [(&str, &[u8]); 4] =
        [("Host", b"a"), ("X-One", b"1"), ("x-two", b""), ("X-One", b"3")];
    assert_eq!(fields, expected);
    assert_eq!(head.fields.get("x-ONE"), Some(&b"1"[..]));
    assert_eq!(head.fields.get("x-none"), None);
    assert_eq!((head.method_text, head.target), ("GET", &b"/"[..]));
    assert_eq!(head.head_bytes, text.len());
}

#[test]
fn no_limit_allows_more_fields_than_there_is_room_for() {
    let limits = HeadLimits { fields_max: usize::MAX, ..HeadLimits::default() };
    for (count, expected) in [(FIELDS_MAX, None), (FIELDS_MAX + 1, Some(TooManyFields))] {
        let lines = "A: b\r\n".repeat(count - 1);
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        assert_eq!(parse_request(text.as_bytes(), &limits).err(), expected);
    }
}

/// More than there is room for on the stack are read as few are.
#[test]
fn many_fields() {
    let limits = HeadLimits { fields_max: 200, ..HeadLimits::default() };
    let lines: String = (0..196).map(|at| format!("F{at}: {at}\r\n")).collect();
    for version in ["HTTP/1.1", "HTTP/1.2"] {
        let start = format!("\r\nGET /a {version}\r\nHost: a\r\n{lines}");
        let text = format!("{start}Range: r\r\nIf-Match: b\r\nConnection: close\r\n\r\nGET");
        let head = parse_first(text.as_bytes(), &limits).unwrap().unwrap();
        assert_eq!((head.target, head.host), (&b"/a"[..], Some(&b"a"[..])));
        assert_eq!(head.range, Some(&b"r"[..]));
        assert_eq!((head.head_bytes, head.persistent), (text.len() - 3, false));
        assert!(head.conditions.if_match.is_present());
        assert_eq!(head.fields.iter().count(), 200);
        assert_eq!(head.fields.get("F195"), Some(&b"195"[..]));
        for end in 0..text.len() - 3 {
            let parsed = parse_first(&text.as_bytes()[..end], &limits);
            assert!(matches!(parsed, Ok(None)), "{end}: {parsed:?}");
        }
        for (line, fault) in [
            ("A: b\r\nA: b\r\nA: b\r\nA: b", TooManyFields),
            ("A : b", FieldLine),
            ("A: b\nA: b", FieldLine),
            ("A: b\r\n folded", FieldLine),
            ("A: \0", FieldLine),
            ("Host: a", Host),
            ("Content-Length: x", Framing),
        ] {
            let text = format!("{start}{line}\r\n\r\n");
            assert_eq!(parse_first(text.as_bytes(), &limits).unwrap_err(), fault, "{line:?}");
        }
    }
}

#[test]
fn limits() {
    let filled = |bytes: usize| {
        let fixed = "GET / HTTP/1.1\r\nHost: a\r\nA: \r\n\r\n".len();
        format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}\r\n\r\n", "b".repeat(bytes - fixed))
    };
    check(&filled(512), Ok(()));
    check(&filled(513), Err(HeadTooLarge));
    let target =
        |bytes: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "b".repeat(bytes - 1));
    check(&target(64), Ok(()));
    check(&target(65), Err(HeadFault::TargetTooLong));
    let fields =
        |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(count - 1));
    check(&fields(8), Ok(()));
    check(&fields(9), Err(TooManyFields));
    for (bytes, fault) in [
        ("GET / HTTP/1.1\r\nA: b", HeadTooLarge),
        ("GET /", HeadTooLarge),
        ("", HeadTooLarge),
        (&target(64)[..60], HeadTooLarge),
        (&target(80)[..80], HeadFault::TargetTooLong),
        (&format!("\r\n{}", target(80))[..80], HeadFault::TargetTooLong),
    ] {
        assert_eq!(HeadFault::oversized(bytes.as_bytes(), &LIMITS), fault, "{bytes:?}");
    }
}

#[test]
fn faults_have_their_statuses() {
    for (status, faults) in [
        (400, &[RequestLine, FieldLine, Host, Framing, BadTarget, HeadFault::Tls][..]),
        (414, &[HeadFault::TargetTooLong]),
        (431, &[HeadTooLarge, TooManyFields]),
        (505, &[HeadFault::Version]),
    ] {
        for fault in faults {
            assert_eq!(fault.status(), Status(status), "{}", fault.reason());
        }
    }
}

/// Bytes as the reference shows them.
fn shown(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// Scans and parses `text`: both agree with the reference on whether it starts with a head, where
/// that ends and what its lines are. Ours may refuse a head only for what its lines mean.
fn compare(text: &[u8]) {
    let (plain, scanned) = (reference::request(text), scan_head(text, 0));
    let (head, plain) = match (parse_first(text, &LIMITS), plain) {
        (Ok(Some(head)), Some(plain)) => (head, plain),
        (Ok(None), None) => return assert_eq!(scanned, Scan::Partial, "{}", text.escape_ascii()),
        (Err(_), None) => return,
        (Err(BadTarget | Host | Framing | HeadFault::TargetTooLong), Some(_)) => return,
        (Err(HeadTooLarge | TooManyFields), Some(_)) => return,
        (parsed, plain) => panic!("{} {parsed:?} {plain:?}", text.escape_ascii()),
    };
    let start = [head.method_text.into(), shown(head.target), head.version.name().into()];
    let fields = head.fields.iter().map(|field| (field.name.into(), shown(field.value)));
    let found = reference::Plain { start, fields: fields.collect(), len: head.head_bytes };
    assert_eq!(found, plain, "{}", text.escape_ascii());
    assert_eq!(scanned, Scan::End(head.head_bytes), "{}", text.escape_ascii());
}

/// Every change of one byte of a head.
#[test]
fn one_changed_byte_is_read_as_the_reference_reads_it() {
    let text = b"GET /a?b HTTP/1.1\r\nHost: h:80\r\nRange: bytes=0-1\r\nContent-Length: 12\r\n\r\n";
    for at in 0..text.len() {
        for byte in 0..=255u8 {
            let mut changed = text.to_vec();
            changed[at] = byte;
            compare(&changed);
        }
        let mut shorter = text.to_vec();
        shorter.remove(at);
        compare(&shorter);
    }
}

/// An LF or a bare CR in each line alone, at once and before more comes.
#[test]
fn every_line_ends_in_crlf() {
    let good = "\r\nGET / HTTP/1.1\r\nHost: a\r\nA:\r\nB: \t \r\nC: d \r\n\r\n";
    check(good, Ok(()));
    for (at, _) in good.match_indices("\r\n") {
        for end in ["\n", "\r", "\n\r", "\r\r\n", " \n"] {
            let (before, after) = (&good[..at], &good[at + 2..]);
            let bad = format!("{before}{end}{after}");
            let bad_line = if at < good.find("Host").unwrap() { RequestLine } else { FieldLine };
            let known = parse_first(bad.as_bytes(), &LIMITS).map(|_| ());
            // The byte behind a bare CR at the very end is not known.
            let open = end == "\r" && after.is_empty();
            assert_eq!(known, if open { Ok(()) } else { Err(bad_line) }, "{bad:?}");
            let early = format!("{before}{end}x");
            assert_eq!(parse_first(early.as_bytes(), &LIMITS).err(), Some(bad_line), "{early:?}");
        }
    }
}

/// Random cuts and repeats of pieces of heads, scanned in two parts and at once.
#[test]
fn random_heads_are_read_as_the_reference_reads_them() {
    let pieces: [&[u8]; 16] = [
        b"GET ",
        b"/",
        b" HTTP/1.1\r\n",
        b"Host: a\r\n",
        b"\r\n",
        b"\r",
        b"\n",
        b" ",
        b"\t",
        b":",
        b"a",
        b"Content-Length: 1\r\n",
        b"\0",
        b"X: y\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n",
        b"\xff",
    ];
    let mut seed = 1u64;
    for _ in 0..200_000 {
        let mut text = vec![];
        for _ in 0..8 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.extend_from_slice(pieces[(seed >> 60) as usize]);
        }
        compare(&text);
        let cut = (seed >> 33) as usize % (text.len() + 1);
        if scan_head(&text[..cut], 0) == Scan::Partial {
            let scanned = scan_head(&text, 0);
            assert_eq!(scan_head(&text, cut), scanned, "{} {cut}", text.escape_ascii());
        }
    }
}
