//! Heads of requests: each rule of RFC 9113 §8.2 and §8.3, limits, and values against those of
//! HTTP/1.
use super::*;
use crate::h2::{
    dice::Dice,
    hpack::{write_field, write_no_table},
};
use MalformedHead::{
    ConnectionField, ContentLength, Host, Name, NoPseudoField, Path, PseudoField, Value,
};
use alloc::{format, string::String, vec, vec::Vec};

const LIMITS: HeadLimits = HeadLimits { head_bytes_max: 1000, target_bytes_max: 64, fields_max: 8 };
const START: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];

/// Ways to write a field.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// The form of our encoder.
    Encoder,
    /// A literal that enters the table.
    Kept,
    /// A literal that does not, and is not changed.
    Literal,
}

fn write(block: &mut Vec<u8>, form: Form, name: &str, value: &str) {
    let first = match form {
        Form::Encoder => return write_field(block, name, value.as_bytes()),
        Form::Kept => 0x40,
        Form::Literal => 0x10,
    };
    block.push(first);
    for text in [name, value] {
        match u8::try_from(text.len()) {
            Ok(len) if len < 127 => block.push(len),
            _ => {
                let len = u16::try_from(text.len() - 127).expect("short");
                let low = (len & 0x7f).to_le_bytes()[0];
                block.extend_from_slice(&[127, low | 0x80, (len >> 7).to_le_bytes()[0]]);
            }
        }
        block.extend_from_slice(text.as_bytes());
    }
}

fn block(form: Form, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = vec![];
    fields.iter().for_each(|(name, value)| write(&mut block, form, name, value));
    block
}

/// A head as text: the same for two heads that say the same.
fn shown(head: &StreamHead<'_>) -> String {
    format!("{head:?}")
}

/// Decodes fields in each form, on a new connection and a second time on the same one, from the
/// table where they were kept.
fn decode_all(fields: &[(&str, &str)]) -> Result<String, BlockFault> {
    let mut found: Vec<Result<String, BlockFault>> = vec![];
    let mut scratch = BlockScratch::default();
    for form in [Form::Encoder, Form::Kept, Form::Literal] {
        // The encoder writes lower case.
        let has_upper = fields.iter().any(|(name, _)| *name != name.to_lowercase());
        if has_upper && matches!(form, Form::Encoder) {
            continue;
        }
        let mut decoder = HpackDecoder::new(4096);
        let first = block(form, fields);
        let result = decode_request(&mut decoder, &first, &LIMITS, &mut scratch);
        found.push(result.map(|head| shown(&head)));
        let count = decoder.entries();
        let second = match form {
            // Entries in the order in which they came.
            Form::Kept => {
                (0..count).rev().map(|at| 0x80 | (62 + u8::try_from(at).unwrap())).collect()
            }
            Form::Encoder | Form::Literal => first,
        };
        if count == fields.len() || count == 0 {
            let result = decode_request(&mut decoder, &second, &LIMITS, &mut scratch);
            found.push(result.map(|head| shown(&head)));
        }
    }
    for other in &found {
        assert_eq!(*other, found[0], "{fields:?}");
    }
    found.swap_remove(0)
}

#[track_caller]
fn check(fields: &[(&str, &str)], expected: Result<(), BlockFault>) {
    assert_eq!(decode_all(fields).map(|_| ()), expected, "{fields:?}");
}

/// Checks a request with these fields behind the usual ones.
#[track_caller]
fn check_more(fields: &[(&str, &str)], expected: Result<(), BlockFault>) {
    check(&[&START[..], fields].concat(), expected);
}

fn bad(fault: MalformedHead) -> Result<(), BlockFault> {
    Err(BlockFault::Malformed(fault))
}

fn refused(fault: HeadFault) -> Result<(), BlockFault> {
    Err(BlockFault::Refused { fault, head_only: false })
}

#[test]
fn names_and_values() {
    check_more(&[], Ok(()));
    check_more(&[("x", "y"), ("x", ""), ("!#$%&'*+-.^_`|~9", "\u{e4}\t\"")], Ok(()));
    for name in ["", "X", "aB", "a b", "a:", ":x", ":", ":status", ":Path", "a\0", "\u{e4}", "a\n"]
    {
        check_more(&[(name, "a")], bad(Name));
    }
    for value in ["a\0", "a\rb", "a\nb", " a", "a ", "\ta", "a\t", "\x7f", "a\x01"] {
        check_more(&[("x", value)], bad(Value));
        check_more(&[("user-agent", value)], bad(Value));
        check_more(&[("cookie", value)], bad(Value));
    }
}

#[test]
fn fields_on_the_connection() {
    for name in ["connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"] {
        check_more(&[(name, "")], bad(ConnectionField));
        check_more(&[(name, "chunked")], bad(ConnectionField));
    }
    check_more(&[("te", "trailers")], Ok(()));
    check_more(&[("te", "trailers"), ("te", "trailers")], Ok(()));
    for value in ["", "gzip", "trailers, gzip", "trailers;q=1"] {
        check_more(&[("te", value)], bad(Value));
    }
}

#[test]
fn pseudo_fields() {
    for at in 0..4 {
        let mut fields = START.to_vec();
        let one = fields.remove(at);
        // The authority can be in Host.
        let expected = if at == 2 { refused(HeadFault::Host) } else { bad(NoPseudoField) };
        check(&fields, expected);
        check(&[&fields[..], &[("x", "y"), one]].concat(), bad(PseudoField));
        check(&[&fields[..], &[("cookie", "y"), one]].concat(), bad(PseudoField));
        fields.insert(0, one);
        check(&fields, Ok(()));
        fields.push(one);
        check(&fields, bad(PseudoField));
    }
    check(&[], bad(NoPseudoField));
    for (at, value) in [(0, ""), (0, "G T"), (1, ""), (1, "ftp"), (1, "HTTPS"), (2, ""), (2, "u@a")]
    {
        let mut fields = START;
        fields[at].1 = value;
        check(&fields, bad(Value));
    }
    for path in ["", "a", "http://a/", "*", "?"] {
        let mut fields = START;
        fields[3].1 = path;
        check(&fields, bad(Path));
    }
    for path in ["/a b", "/\t", "/\x7f"] {
        let mut fields = START;
        fields[3].1 = path;
        check(&fields, bad(Value));
    }
    check(&[(":method", "OPTIONS"), START[1], START[2], (":path", "*")], Ok(()));
    check(&[(":method", "BREW"), (":scheme", "http"), START[2], START[3]], Ok(()));
}

#[test]
fn tunnels_have_an_authority_alone() {
    let connect = (":method", "CONNECT");
    check(&[connect, (":authority", "a:80")], Ok(()));
    for authority in ["a", "a:", "a:0", "[::1]"] {
        check(&[connect, (":authority", authority)], bad(Value));
    }
    check(&[connect], bad(NoPseudoField));
    check(&[connect, ("host", "a:80")], bad(NoPseudoField));
    check(&[connect, START[1], (":authority", "a:80")], bad(NoPseudoField));
    check(&[connect, (":authority", "a:80"), START[3]], bad(NoPseudoField));
    check(&[connect, START[1], (":authority", "a:80"), START[3]], bad(NoPseudoField));
}

#[test]
fn hosts() {
    check_more(&[("host", "a")], Ok(()));
    check_more(&[("host", "A")], Ok(()));
    for host in ["", "b", "a:80", "a443"] {
        check_more(&[("host", host)], bad(Host));
    }
    // A scheme has a port of its own (RFC 9110 §4.2.3).
    let same = [("https", "a", "A:443"), ("https", "a:443", "a:"), ("http", "[::1]:80", "[::1]")];
    let others = [("http", "a", "a:443"), ("https", "a:443", "a:80"), ("https", "[::443]", "[::]")];
    for (is_same, rows) in [(true, same), (false, others)] {
        for (scheme, authority, host) in rows {
            let pseudo = [START[0], (":scheme", scheme), (":authority", authority), START[3]];
            let expected = if is_same { Ok(()) } else { bad(Host) };
            check(&[&pseudo[..], &[("host", host)]].concat(), expected);
        }
    }
    let without = [START[0], START[1], START[3]];
    check(&[&without[..], &[("host", "b:80")]].concat(), Ok(()));
    check(&[&without[..], &[("host", "u@a")]].concat(), bad(Value));
    check(&[&without[..], &[("host", "a"), ("host", "a")]].concat(), bad(Host));
}

#[test]
fn lengths() {
    for value in ["0", "5", "007", "18446744073709551615"] {
        check_more(&[("content-length", value)], Ok(()));
    }
    for value in ["", "-1", "1,1", "a", "18446744073709551616"] {
        check_more(&[("content-length", value)], bad(ContentLength));
    }
    check_more(&[("content-length", "1"), ("content-length", "1")], bad(ContentLength));
    let tally = |length: Option<u64>, pieces: &[u64]| {
        let mut tally = ContentTally::new(length);
        pieces.iter().try_for_each(|bytes| tally.take(*bytes))?;
        tally.finish()
    };
    for (length, pieces, is_good) in [
        (None, &[][..], true),
        (None, &[1, u64::MAX], true),
        (Some(0), &[], true),
        (Some(0), &[0], true),
        (Some(0), &[1], false),
        (Some(5), &[2, 3], true),
        (Some(5), &[2, 2], false),
        (Some(5), &[2, 4], false),
        (Some(5), &[], false),
    ] {
        let expected = if is_good { Ok(()) } else { Err(ContentLength) };
        assert_eq!(tally(length, pieces), expected, "{length:?} {pieces:?}");
    }
}

#[test]
fn limits_are_kept_before_anything_is_copied() {
    let values: Vec<(&str, &str)> = vec![("accept", "b"); 9];
    check_more(&values[..8], Ok(()));
    check_more(&values, refused(HeadFault::TooManyFields));
    let crumbs: Vec<(&str, &str)> = vec![("cookie", "a=b"); 20];
    check_more(&crumbs, Ok(()));
    check_more(&[&values[..7], &crumbs[..10]].concat(), Ok(()));
    check_more(&[&values[..8], &crumbs[..10]].concat(), refused(HeadFault::TooManyFields));
    // The usual fields take 10, 12, 11 and 6 bytes, and all take 32 more.
    let rest = 1000 - (10 + 12 + 11 + 6 + 4 * 32) - 32 - "accept".len();
    for (extra, expected) in [(0, Ok(())), (1, refused(HeadFault::HeadTooLarge))] {
        let value = "v".repeat(rest + extra);
        check_more(&[("accept", &*value)], expected);
        let value = "v".repeat(rest + extra - 32 - 1);
        check_more(&[("x", ""), ("accept", &*value)], expected);
    }
    for (len, expected) in [(64, Ok(())), (65, refused(HeadFault::TargetTooLong))] {
        let path = format!("/{}", "p".repeat(len - 1));
        check(&[START[0], START[1], START[2], (":path", &*path)], expected);
    }
    // Nothing is left of a block that is refused.
    let (mut decoder, mut scratch) = (HpackDecoder::new(4096), BlockScratch::default());
    let values = vec![("accept", "text/html"); 1000];
    let block = block(Form::Encoder, &[&START[..], &values].concat());
    let result = decode_request(&mut decoder, &block, &LIMITS, &mut scratch);
    assert_eq!(result.map(|_| ()), refused(HeadFault::TooManyFields));
    assert!(scratch.lines.is_empty() && scratch.decoded.is_empty());
    assert!(scratch.capacity() < 1000, "{}", scratch.capacity());
}

/// The table changes with each block, also with one that makes no request.
#[test]
fn the_table_outlives_faults() {
    let host = ("host", "kept.example");
    let many = [&[("accept", "a"); 9][..], &[host]].concat();
    for (fields, fault) in [
        (vec![("X", ""), host], bad(Name)),
        (vec![(":method", ""), host], bad(Value)),
        (vec![("x", "y"), START[0], host], bad(PseudoField)),
        (many, refused(HeadFault::TooManyFields)),
    ] {
        let (mut decoder, mut scratch) = (HpackDecoder::new(4096), BlockScratch::default());
        let first = block(Form::Kept, &fields);
        let result = decode_request(&mut decoder, &first, &LIMITS, &mut scratch);
        assert_eq!(result.map(|_| ()), fault);
        // The newest entry is the host.
        let mut second = block(Form::Encoder, &[START[0], START[1], START[3]]);
        second.push(0x80 | 62);
        let head = decode_request(&mut decoder, &second, &LIMITS, &mut scratch);
        assert_eq!(head.map(|head| head.host), Ok(Some(&b"kept.example"[..])));
    }
    let (mut decoder, mut scratch) = (HpackDecoder::new(4096), BlockScratch::default());
    let first = [&block(Form::Kept, &[("X", "")])[..], &[0xff, 0x40]].concat();
    let result = decode_request(&mut decoder, &first, &LIMITS, &mut scratch);
    let fault = BlockFault::Compression(HpackFault::Index);
    assert_eq!(result.map(|_| ()), Err(fault));
    // Fields behind the fault may enter the table, and refer to it.
    let mut last = block(Form::Kept, &[("X", ""), host]);
    last.extend([0x80 | 62, 0x80 | 63, 0x80 | 61]);
    let result = decode_request(&mut decoder, &last, &LIMITS, &mut scratch);
    assert_eq!(result.map(|_| ()), bad(Name));
    last.push(0x80 | 70);
    let result = decode_request(&mut decoder, &last, &LIMITS, &mut scratch);
    assert_eq!(result.map(|_| ()), Err(fault));
    assert_eq!(fault.code(), Some(ErrorCode::COMPRESSION_ERROR));
    assert_eq!(BlockFault::Malformed(Name).code(), Some(ErrorCode::PROTOCOL_ERROR));
    assert_eq!(refused(HeadFault::Host).map_err(BlockFault::code), Err(None));
}

/// Entries that leave the table while a block is read stay readable until its end.
#[test]
fn evicted_values_stay_until_the_end_of_the_block() {
    let (mut decoder, mut scratch) = (HpackDecoder::new(4096), BlockScratch::default());
    // A table of 64 bytes has room for one field.
    let mut first = vec![0x3f, 0x21];
    first.extend(block(Form::Kept, &[&START[..], &[("range", "bytes=0-1")]].concat()));
    assert!(decode_request(&mut decoder, &first, &LIMITS, &mut scratch).is_ok());
    assert_eq!(decoder.entries(), 1);
    let mut second = block(Form::Encoder, &START);
    second.push(0x80 | 62);
    for value in ["v0", "v1", "v2", "v3"] {
        second.extend(block(Form::Kept, &[("user-agent", value)]));
    }
    second.extend(block(Form::Kept, &[("if-match", "v4")]));
    second.push(0x80 | 62);
    let head = decode_request(&mut decoder, &second, &LIMITS, &mut scratch).expect("a request");
    assert_eq!(head.range, Some(&b"bytes=0-1"[..]));
    assert_eq!(head.user_agent, Some(&b"v3"[..]));
    assert_eq!(head.conditions.if_match.values().collect::<Vec<_>>(), [b"v4", b"v4"]);
    assert_eq!(decoder.entries(), 1);
}

#[test]
fn a_head_has_what_a_request_needs() {
    let (mut decoder, mut scratch) = (HpackDecoder::new(4096), BlockScratch::default());
    let fields = [
        (":path", "/a?b"),
        (":method", "HEAD"),
        (":authority", "a.example:8443"),
        (":scheme", "https"),
        ("user-agent", "first"),
        ("user-agent", "last"),
        ("referer", "https://b/"),
        ("accept", "text/html"),
        ("range", "bytes=0-1"),
        ("if-range", "\"x\""),
        ("if-range", "\"y\""),
        ("if-none-match", "\"a\""),
        ("accept", "image/webp"),
        ("if-none-match", "\"b\", \"c\""),
        ("if-none-match", "\"d\""),
        ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("accept-encoding", "br"),
        ("content-length", "0"),
        ("expect", "100-continue"),
        ("priority", "u=1"),
        ("priority", "i"),
        ("authorization", "Basic Og=="),
        ("sec-fetch-dest", "document"),
        ("x-other", "forgotten"),
    ];
    let limits = HeadLimits { head_bytes_max: 4000, fields_max: 30, ..LIMITS };
    let block = block(Form::Encoder, &fields);
    let head = decode_request(&mut decoder, &block, &limits, &mut scratch).expect("a request");
    let text =
        |value: Option<&[u8]>| value.map(|value| String::from_utf8_lossy(value).into_owned());
    let some = |text: &str| Some(String::from(text));
    assert_eq!((head.method, head.method_text), (Method::Head, &b"HEAD"[..]));
    assert_eq!((head.target, head.names), (&b"/a?b"[..], Target::Path(b"/a?b")));
    assert_eq!(text(head.host), some("a.example:8443"));
    assert_eq!((text(head.user_agent), text(head.referer)), (some("last"), some("https://b/")));
    assert_eq!((text(head.range), text(head.conditions.if_range)), (some("bytes=0-1"), some("")));
    let date = some("Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(text(head.conditions.if_modified_since), date);
    assert_eq!(head.conditions.if_unmodified_since, None);
    assert!(head.conditions.if_match.is_absent());
    let tags: Vec<_> = head.conditions.if_none_match.values().collect();
    assert_eq!(tags, [&b"\"a\""[..], b"\"b\", \"c\"", b"\"d\""]);
    assert_eq!(head.conditions.if_none_match.single(), None);
    assert_eq!(head.accept_encoding.single(), Some(&b"br"[..]));
    assert_eq!((head.content_length, head.expectation), (Some(0), Expectation::Continue));
    assert_eq!(head.priority, Some(Priority { urgency: 1, is_incremental: true }));
    let lines: Vec<String> = head.fields.iter().map(|field| format!("{field:?}")).collect();
    let expected = [
        "accept: text/html",
        "accept: image/webp",
        "if-none-match: \\\"a\\\"",
        "if-none-match: \\\"b\\\", \\\"c\\\"",
        "if-none-match: \\\"d\\\"",
        "authorization: Basic Og==",
        "sec-fetch-dest: document",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn trailers_are_checked_and_forgotten() {
    let check = |fields: &[(&str, &str)], expected: Result<(), BlockFault>| {
        let (mut decoder, mut scratch) = (HpackDecoder::new(4096), BlockScratch::default());
        for form in [Form::Kept, Form::Literal] {
            let block = block(form, fields);
            let result = decode_trailers(&mut decoder, &block, &LIMITS, &mut scratch);
            assert_eq!(result, expected, "{fields:?}");
        }
        assert!(scratch.lines.is_empty());
    };
    check(&[], Ok(()));
    check(&[("x-sum", "1"), ("accept", "a"), ("te", "trailers")], Ok(()));
    for pseudo in START {
        check(&[("x", "y"), pseudo], bad(PseudoField));
    }
    check(&[(":status", "200")], bad(Name));
    check(&[("X", "")], bad(Name));
    check(&[("x", "a\n")], bad(Value));
    check(&[("connection", "close")], bad(ConnectionField));
    check(&[("x", "y"); 9], refused(HeadFault::TooManyFields));
    check(&[("x", &*"y".repeat(1000))], refused(HeadFault::HeadTooLarge));
}

/// Names of fields that a head lists.
const LISTED: [&str; 7] = [
    "accept",
    "origin",
    "authorization",
    "x-forwarded-for",
    "forwarded",
    "sec-fetch-dest",
    "access-control-request-method",
];

/// Heads of HTTP/1 and of HTTP/2 with the same fields have the same values.
#[test]
fn values_are_those_of_http_1() {
    let others = [
        "range",
        "if-match",
        "if-none-match",
        "if-modified-since",
        "if-unmodified-since",
        "if-range",
        "accept-encoding",
        "referer",
        "user-agent",
        "expect",
        "x-other",
        "content-length",
    ];
    let names = [&others[..], &LISTED].concat();
    let values = ["", "a", "\"a\", \"b\"", "100-continue", "text/html;q=0.5", "7"];
    let limits = HeadLimits { head_bytes_max: 4000, target_bytes_max: 64, fields_max: 30 };
    let mut scratch = BlockScratch::default();
    for seed in 0..3000 {
        let mut dice = Dice(seed);
        let mut decoder = HpackDecoder::new(dice.pick(&[0, 100, 4096]));
        let mut start = vec![];
        write_no_table(&mut start);
        if dice.below(2) == 0 {
            start.clear();
        }
        for _ in 0..4 {
            let method = dice.pick(&["GET", "HEAD", "OPTIONS", "BREW"]);
            let path = dice.pick(&["/", "/a?b", "/%2e", "*"]);
            let mut fields =
                vec![(":method", method), START[1], (":path", path), (":authority", "a:1")];
            let mut text = format!("{method} {path} HTTP/1.1\r\nHost: a:1\r\n");
            for _ in 0..dice.below(10) {
                let (name, value) = (dice.pick(&names), dice.pick(&values));
                fields.push((name, value));
                text += &format!("{name}: {value}\r\n");
            }
            text += "\r\n";
            let mut block = core::mem::take(&mut start);
            for (name, value) in &fields {
                let form = dice.pick(&[Form::Encoder, Form::Kept, Form::Kept, Form::Literal]);
                write(&mut block, form, name, value);
            }
            let found = decode_request(&mut decoder, &block, &limits, &mut scratch);
            let expected = crate::h1::parse_request(text.as_bytes(), &limits);
            match (found, expected) {
                (Ok(found), Ok(expected)) => same(&found, &expected, &text),
                (Err(BlockFault::Malformed(_)), Err(_)) => {}
                (found, expected) => panic!("{found:?}\n{expected:?}\n{text}"),
            }
        }
    }
}

fn same(found: &StreamHead<'_>, expected: &crate::h1::RequestHead<'_>, text: &str) {
    use crate::h1::RequestBody;
    assert_eq!((found.method, found.names), (expected.method, expected.names), "{text}");
    assert_eq!(found.method_text, expected.method_text.as_bytes(), "{text}");
    assert_eq!((found.target, found.host), (expected.target, expected.host), "{text}");
    let body = found.content_length.map_or(RequestBody::None, RequestBody::Length);
    assert_eq!((body, found.expectation), (expected.body, expected.expectation), "{text}");
    assert_eq!((found.range, found.referer), (expected.range, expected.referer), "{text}");
    assert_eq!(found.user_agent, expected.user_agent, "{text}");
    let values = |lines: FieldLines<'_>| lines.values().map(<[u8]>::to_vec).collect::<Vec<_>>();
    let lists = |conditions: &RequestConditions<'_>, encodings| {
        [conditions.if_match, conditions.if_none_match, encodings].map(values)
    };
    assert_eq!(
        lists(&found.conditions, found.accept_encoding),
        lists(&expected.conditions, expected.accept_encoding),
        "{text}"
    );
    let single = |conditions: &RequestConditions<'_>| {
        [conditions.if_range, conditions.if_modified_since, conditions.if_unmodified_since]
            .map(|value| value.map(<[u8]>::to_vec))
    };
    assert_eq!(single(&found.conditions), single(&expected.conditions), "{text}");
    for name in LISTED {
        let lines = |fields: Fields<'_>| {
            let named = fields.iter().filter(|field| field.name == name);
            named.map(|field| field.value.to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(lines(found.fields), lines(expected.fields), "{name} {text}");
    }
}

/// Any bytes are heads or faults, and the decoder then reads the next block, or has a fault again.
#[test]
fn any_block_is_decoded_or_refused() {
    let mut scratch = BlockScratch::default();
    for seed in 0..2000 {
        let mut dice = Dice(seed);
        let mut decoder = HpackDecoder::new(4096);
        for _ in 0..4 {
            let mut block = block(Form::Kept, &START);
            for _ in 0..dice.below(6) {
                let at = dice.below(block.len());
                block[at] = dice.byte();
            }
            match decode_request(&mut decoder, &block, &LIMITS, &mut scratch) {
                Ok(head) => assert!(head.host.is_some() && !head.method_text.is_empty()),
                Err(fault) => {
                    assert!(!fault.reason().is_empty());
                    if matches!(fault, BlockFault::Compression(_)) {
                        break;
                    }
                }
            }
        }
    }
}

#[test]
fn a_refusal_of_head_is_known_as_such() {
    for (method, head_only) in [("GET", false), ("HEAD", true), ("HEADS", false)] {
        let fields = [(":method", method), (":scheme", "http"), (":path", "/")];
        check(&fields, Err(BlockFault::Refused { fault: HeadFault::Host, head_only }));
        let name = "x".repeat(1_100);
        let long = [&fields[..], &[(&*name, "1")]].concat();
        check(&long, Err(BlockFault::Refused { fault: HeadFault::HeadTooLarge, head_only }));
    }
}
