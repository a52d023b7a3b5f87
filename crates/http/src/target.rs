//! Request targets and the paths in them (RFC 9112 §3.2, RFC 3986 §3.3).
use crate::{Method, field::decimal};
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use memchr::memchr_iter;
use percent_encoding::percent_decode;

/// Resource that a request target names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A path and perhaps a query, not decoded: for [`decode_path`]. It is empty or starts with `?`
    /// if an absolute-form target had no path; else it starts with `/`.
    Path(&'a [u8]),
    /// The server itself: `OPTIONS *`.
    Server,
    /// The other end of a tunnel, which the authority names: `CONNECT`.
    Tunnel,
}

/// Fault of a request target that is refused; the answer is 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetFault;

/// A decoded path, ready to be looked up below a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path<'a> {
    /// Decoded, relative: no `/` at either end, no empty, `.` or `..` segment, no NUL; empty: the
    /// root.
    pub relative: &'a [u8],
    /// The path as it was requested: encoded, with its first `/`, without query.
    pub raw: &'a [u8],
    /// The query behind the first `?`, not decoded.
    pub query: Option<&'a [u8]>,
    /// True if the path names a directory: it ends in `/`, `/.` or `/..`, or is the root.
    pub trailing_slash: bool,
    /// True if a segment is hidden ([`is_hidden`]).
    pub hidden: bool,
}

/// Reason why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFault {
    /// A byte that may not be in a path or query, `%` without two hex digits, or encoded NUL or
    /// `/`.
    Malformed,
    /// `..` would leave the root.
    AboveRoot,
}

impl PathFault {
    /// Explanation of the fault, for people.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Malformed => {
                "it has a byte that must be encoded, a % without two hex digits, %00 or %2F"
            }
            Self::AboveRoot => ".. would leave the root",
        }
    }
}

/// Reads a request target: its form, and the authority in it, which replaces `Host`.
///
/// Allowed are the origin form, the absolute form with scheme `http` or `https` and a host, `*`
/// with `OPTIONS`, and the authority form with `CONNECT` and no other.
///
/// # Errors
/// [`TargetFault`] for any other form, for user information, for an invalid host, and for a tunnel
/// to no port (RFC 9110 §9.3.6).
#[inline]
pub fn parse(method: Method, raw: &[u8]) -> Result<(Target<'_>, Option<&[u8]>), TargetFault> {
    match raw {
        _ if method == Method::Connect => tunnel(raw),
        [b'/', ..] => Ok((Target::Path(raw), None)),
        b"*" if method == Method::Options => Ok((Target::Server, None)),
        _ => absolute(method, raw),
    }
}

/// Reads an authority-form target (RFC 9112 §3.2.3).
#[cold]
fn tunnel(raw: &[u8]) -> Result<(Target<'_>, Option<&[u8]>), TargetFault> {
    let colon = raw.iter().rposition(|&byte| byte == b':').ok_or(TargetFault)?;
    let (host, port) = (&raw[..colon], &raw[colon + 1..]);
    let named = !host.is_empty() && is_host(raw);
    // The last colon of an address in brackets starts no port, and port 0 is none.
    if named && decimal(port).is_some_and(|port| port > 0) {
        return Ok((Target::Tunnel, Some(raw)));
    }
    Err(TargetFault)
}

/// Reads an absolute-form target (RFC 9112 §3.2.2).
#[cold]
fn absolute(method: Method, raw: &[u8]) -> Result<(Target<'_>, Option<&[u8]>), TargetFault> {
    let colon = raw.iter().position(|&byte| byte == b':').ok_or(TargetFault)?;
    let (scheme, rest) = raw.split_at(colon);
    if !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https") {
        return Err(TargetFault);
    }
    let rest = rest.strip_prefix(b"://").ok_or(TargetFault)?;
    let end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if matches!(authority, [] | [b':', ..]) || !is_host(authority) {
        return Err(TargetFault);
    }
    // The last proxy should have made this `*` (RFC 9112 §3.2.4); without one it means the same.
    let names = if path.is_empty() && method == Method::Options {
        Target::Server
    } else {
        Target::Path(path)
    };
    Ok((names, Some(authority)))
}

/// True if `text` is a host with or without a port, or empty: a valid `Host` (RFC 9110 §7.2).
#[must_use]
#[inline]
pub fn is_host(text: &[u8]) -> bool {
    // Nearly all end in a letter, or in a colon and a few digits.
    let (name, digits) = text.split_at(text.len() - digits_at_end(text));
    let name = match name {
        [name @ .., b':'] if digits.len() <= 4 || is_five_digit_port(digits) => name,
        _ => text,
    };
    match name {
        [] => text.is_empty(),
        _ => is_plain_name(name) && has_labels(name) || is_rare_host(text),
    }
}

/// True if no label of a name is empty, but for the root's at its end (RFC 9110 §4.2.1: not empty).
#[inline(always)]
fn has_labels(name: &[u8]) -> bool {
    name[0] != b'.' && !name.windows(2).any(|two| two == b"..")
}

/// Number of digits at the end of `text`, at most eight.
#[inline(always)]
fn digits_at_end(text: &[u8]) -> usize {
    let Some(last) = text.last_chunk() else {
        return text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    };
    // The last byte is the highest. A digit leaves four bits, at most 9; adding 6 does not carry.
    let bits = u64::from_le_bytes(*last) ^ 0x3030_3030_3030_3030;
    let sixes = (bits & 0x0f0f_0f0f_0f0f_0f0f) + 0x0606_0606_0606_0606;
    let others = (bits | sixes) & 0xf0f0_f0f0_f0f0_f0f0;
    (others.leading_zeros() / 8) as usize
}

/// True if `digits` are five and make a port.
#[inline(always)]
fn is_five_digit_port(digits: &[u8]) -> bool {
    <&[u8; 5]>::try_from(digits).is_ok_and(|digits| digits <= b"65535")
}

/// True if each byte of `text` may be in a registered name unencoded. Takes eight at a time,
/// without a branch for each.
#[inline(always)]
fn is_plain_name(text: &[u8]) -> bool {
    let (eights, rest) = text.as_chunks::<8>();
    let all = |text: &[u8]| text.iter().fold(1, |all, byte| all & HOST[usize::from(*byte)]) == 1;
    eights.iter().all(|eight| all(eight)) && all(rest)
}

/// [`is_host`] for the rare forms.
#[cold]
fn is_rare_host(text: &[u8]) -> bool {
    match text {
        [b'[', rest @ ..] => is_literal(rest),
        _ => is_encoded_name(text),
    }
}

/// True for the bytes behind the `[` of an IP literal: its inside, `]`, and perhaps a port.
fn is_literal(rest: &[u8]) -> bool {
    let Some(end) = rest.iter().position(|&byte| byte == b']') else {
        return false;
    };
    let (inside, after) = (&rest[..end], &rest[end + 1..]);
    let valid = match inside {
        [b'v' | b'V', future @ ..] => is_future(future),
        _ => core::str::from_utf8(inside).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok()),
    };
    valid && matches!(after, [] | [b':', ..]) && after.get(1..).is_none_or(is_port)
}

/// `IPvFuture` after its `v`: hex digits, a dot, and at least one more character.
fn is_future(text: &[u8]) -> bool {
    let Some(dot) = text.iter().position(|&byte| byte == b'.') else {
        return false;
    };
    let (version, address) = (&text[..dot], &text[dot + 1..]);
    let allowed = |&byte: &u8| byte == b':' || HOST[usize::from(byte)] == 1;
    let digits = !version.is_empty() && version.iter().all(u8::is_ascii_hexdigit);
    digits && !address.is_empty() && address.iter().all(allowed)
}

/// A port, which may be empty.
fn is_port(text: &[u8]) -> bool {
    match text.len() {
        0..=4 => text.iter().all(u8::is_ascii_digit),
        _ => decimal(text).is_some_and(|port| port <= 0xffff),
    }
}

/// A registered name, in which bytes may be percent-encoded, and perhaps a port.
#[cold]
fn is_encoded_name(text: &[u8]) -> bool {
    if text.is_empty() || text[0] == b':' || !has_labels(text) {
        return false;
    }
    let mut rest = text;
    loop {
        rest = match rest {
            [] => return true,
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                rest
            }
            [b':', port @ ..] => return is_port(port),
            [byte, rest @ ..] if HOST[usize::from(*byte)] == 1 => rest,
            _ => return false,
        }
    }
}

/// 1 for a byte that may be in a registered name unencoded (RFC 3986 §3.2.2), else 0.
static HOST: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0x21u8;
    while byte < 0x7f {
        let allowed = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'('..=b',')
            || matches!(byte, b';' | b'=');
        table[byte as usize] = allowed as u8;
        byte += 1;
    }
    table
};

/// Decodes the path of an origin-form or absolute-form target, once, and resolves its segments.
///
/// `scratch` is used only if something must be decoded or removed; it is cleared, and grows to no
/// more than `raw`. Empty segments and `.` are dropped; `..` drops the one before it, and may not
/// climb above the root. This is after decoding, so `%2e%2e` is `..`. A backslash is an ordinary
/// byte.
///
/// # Errors
/// [`PathFault`]; the answer is 400.
#[inline]
pub fn decode_path<'a>(raw: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Path<'a>, PathFault> {
    match raw {
        // Nearly all: a few plain names, with nothing behind them.
        [b'/', relative @ ..] if is_plain(raw) => {
            Ok(Path { relative, raw, query: None, trailing_slash: false, hidden: false })
        }
        _ => decode_rare(raw, scratch),
    }
}

/// Bytes of a path that are checked together.
const AT_ONCE: usize = 8;

/// True if `raw`, which starts with a slash, is one or more segments of ordinary bytes. None may
/// start with a dot, and `raw` must not end in a slash: then it is its own decoded form.
///
/// Checks eight bytes at once, each with the byte before it.
#[inline]
fn is_plain(raw: &[u8]) -> bool {
    let mut room = [b'a'; AT_ONCE + 1];
    let text = match room.get_mut(..raw.len()) {
        Some(start) => {
            start.copy_from_slice(raw);
            &room
        }
        None => raw,
    };
    let (before, bytes) = (&text[..text.len() - 1], &text[1..]);
    // Bytes that do not fill a chunk are in one that overlaps the one before it.
    let (Some(last), Some(before_last)) = (bytes.last_chunk(), before.last_chunk()) else {
        return false;
    };
    let whole = bytes[..bytes.len() - 1].as_chunks::<AT_ONCE>().0;
    let before_whole = before.as_chunks::<AT_ONCE>().0;
    !raw.ends_with(b"/")
        && is_plain_chunk(*last, *before_last)
        && whole.iter().zip(before_whole).all(|(chunk, before)| is_plain_chunk(*chunk, *before))
}

/// True if all of `chunk` are ordinary bytes or slashes, without a dot or slash where a segment
/// starts. `before` are the bytes one place before those of `chunk`.
///
/// Each byte is a lane of a word, and its top bit the result: with text below 128 no lane carries
/// into the next. A loop over bytes depends on what the compiler makes of it: 320 instructions with
/// one way of linking, 30 with another.
#[inline(always)]
const fn is_plain_chunk(chunk: [u8; AT_ONCE], before: [u8; AT_ONCE]) -> bool {
    const EACH: u64 = u64::from_ne_bytes([1; AT_ONCE]);
    const TOP: u64 = EACH << 7;
    /// Lanes that are not 0.
    const fn differs(lanes: u64) -> u64 {
        lanes + (TOP - EACH)
    }
    let (bytes, before) = (u64::from_ne_bytes(chunk), u64::from_ne_bytes(before));
    if (bytes | before) & TOP != 0 {
        return false;
    }
    let above_space = (bytes | TOP) - EACH * (b' ' as u64 + 1);
    let delete = bytes + EACH;
    let ordinary = differs(bytes ^ (EACH * b'%' as u64))
        & differs(bytes ^ (EACH * b'?' as u64))
        & differs(bytes ^ (EACH * b'#' as u64));
    // A dot and a slash differ in the lowest bit.
    let starts_well =
        differs(before ^ (EACH * b'/' as u64)) | differs((bytes | EACH) ^ (EACH * b'/' as u64));
    above_space & !delete & ordinary & starts_well & TOP == TOP
}

/// [`decode_path`] for paths that are not plain.
#[inline(never)]
fn decode_rare<'a>(raw: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Path<'a>, PathFault> {
    let Plain { end, hidden, simple } = plain(raw);
    let (raw, query) = match raw[end..].split_first() {
        None => (raw, None),
        Some((b'?', query)) if query.iter().all(|&byte| class(byte) != Class::Invalid) => {
            (&raw[..end], Some(query))
        }
        Some(_) => return Err(PathFault::Malformed),
    };
    match raw {
        [first, ..] if *first != b'/' => Err(PathFault::Malformed),
        _ if !simple => resolve(raw, query, scratch),
        [] | b"/" => {
            Ok(Path { relative: b"", raw: b"/", query, trailing_slash: true, hidden: false })
        }
        [_, relative @ .., b'/'] => Ok(Path { relative, raw, query, trailing_slash: true, hidden }),
        [_, relative @ ..] => Ok(Path { relative, raw, query, trailing_slash: false, hidden }),
    }
}

/// Result of one pass over a path.
struct Plain {
    /// End of the path: at a `?`, an invalid byte, or the end of the target.
    end: usize,
    /// Value for [`Path::hidden`], if the path is simple.
    hidden: bool,
    /// True if it is its own decoded form, but for the slashes at its ends.
    simple: bool,
}

/// Classifies each byte of a path once.
#[inline]
fn plain(raw: &[u8]) -> Plain {
    let (mut simple, mut hidden) = (true, false);
    let mut end = 0;
    loop {
        end += raw[end..].iter().take_while(|&&byte| class(byte) == Class::Ordinary).count();
        match raw.get(end).map(|&byte| class(byte)) {
            Some(Class::Percent) => simple = false,
            Some(Class::Slash) => match &raw[end + 1..] {
                [b'/', ..] => simple = false,
                [b'.', rest @ ..] => match rest {
                    [] | [b'/' | b'?' | b'.' | b'%', ..] => simple = false,
                    _ => hidden |= end > 0 || !is_well_known(rest),
                },
                _ => {}
            },
            _ => return Plain { end, hidden, simple },
        }
        end += 1;
    }
}

/// True if the segment at this place of a path hides it: one that starts with a dot, other than a
/// first `.well-known` (RFC 8615).
#[must_use]
pub fn is_hidden(at: usize, segment: &[u8]) -> bool {
    segment.first() == Some(&b'.') && !(at == 0 && segment == b".well-known")
}

/// True if a path that continues with `rest` after `/.` starts with the segment `.well-known`.
fn is_well_known(rest: &[u8]) -> bool {
    let rest = rest.strip_prefix(b"well-known");
    rest.is_some_and(|rest| matches!(rest, [] | [b'/' | b'?', ..]))
}

/// Decodes and resolves a path that is not simple.
fn resolve<'a>(
    raw: &'a [u8],
    query: Option<&'a [u8]>,
    scratch: &'a mut Vec<u8>,
) -> Result<Path<'a>, PathFault> {
    if !escapes_are_valid(raw) {
        return Err(PathFault::Malformed);
    }
    scratch.clear();
    let mut trailing_slash = true;
    for segment in raw.split(|&byte| byte == b'/') {
        let end = scratch.len();
        if end > 0 {
            scratch.push(b'/');
        }
        let start = scratch.len();
        scratch.extend(percent_decode(segment));
        trailing_slash = matches!(scratch[start..], [] | [b'.'] | [b'.', b'.']);
        match scratch[start..] {
            [] | [b'.'] => scratch.truncate(end),
            [b'.', b'.'] if end == 0 => return Err(PathFault::AboveRoot),
            [b'.', b'.'] => {
                let parent = scratch[..end].iter().rposition(|&byte| byte == b'/').unwrap_or(0);
                scratch.truncate(parent);
            }
            _ => {}
        }
    }
    let relative: &'a [u8] = scratch;
    let mut segments = relative.split(|&byte| byte == b'/').enumerate();
    let hidden = segments.any(|(at, segment)| is_hidden(at, segment));
    Ok(Path { relative, raw, query, trailing_slash, hidden })
}

/// True if each `%` is followed by two hex digits that encode neither NUL nor `/`.
fn escapes_are_valid(raw: &[u8]) -> bool {
    memchr_iter(b'%', raw).all(|at| match raw[at + 1..] {
        [b'0', b'0', ..] | [b'2', b'f' | b'F', ..] => false,
        [high, low, ..] => high.is_ascii_hexdigit() && low.is_ascii_hexdigit(),
        _ => false,
    })
}

/// Class of a byte in a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Ordinary,
    Slash,
    Percent,
    Query,
    Invalid,
}

fn class(byte: u8) -> Class {
    CLASS[usize::from(byte)]
}

/// Printable ASCII characters are taken unchanged: browsers send `|`, `{` and the like unencoded,
/// although RFC 3986 does not allow them. Bytes outside ASCII are too, which some clients send as
/// they were typed (`docs/decisions/raw-bytes-in-paths.md`). `#` is refused.
static CLASS: [Class; 256] = {
    let mut table = [Class::Invalid; 256];
    let mut byte = 0x21u8;
    while byte < 0x7f {
        table[byte as usize] = match byte {
            b'/' => Class::Slash,
            b'%' => Class::Percent,
            b'?' => Class::Query,
            b'#' => Class::Invalid,
            _ => Class::Ordinary,
        };
        byte += 1;
    }
    let mut byte = 0x80;
    while byte < table.len() {
        table[byte] = Class::Ordinary;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, string::String};

    fn check_target(method: Method, raw: &str, expected: Result<(Target<'_>, &str), TargetFault>) {
        let found = parse(method, raw.as_bytes());
        let found = found.map(|(target, host)| (target, host.unwrap_or(b"-")));
        let expected = expected.map(|(target, host)| (target, host.as_bytes()));
        assert_eq!(found, expected, "{method:?} {raw}");
    }

    #[test]
    fn forms() {
        let path = |text: &'static str| Target::Path(text.as_bytes());
        check_target(Method::Get, "/", Ok((path("/"), "-")));
        check_target(Method::Get, "//h/a?b", Ok((path("//h/a?b"), "-")));
        check_target(Method::Options, "*", Ok((Target::Server, "-")));
        check_target(Method::Get, "http://h:80/a?b", Ok((path("/a?b"), "h:80")));
        check_target(Method::Get, "HTTPS://[::1]", Ok((path(""), "[::1]")));
        check_target(Method::Get, "http://h?b", Ok((path("?b"), "h")));
        check_target(Method::Options, "http://h", Ok((Target::Server, "h")));
        check_target(Method::Options, "http://h/", Ok((path("/"), "h")));
        let others = ["mailto:a@b", "ws://h/", "file:///a", "http://u:p@h/", "http://h\\@i/"];
        for raw in ["", "*", "a", "h:80", "?a", "#a"].into_iter().chain(others) {
            check_target(Method::Get, raw, Err(TargetFault));
        }
        for rest in [":/h/", "//h", "://", ":///a", "://:80/", "://u@h/", "://h:x/", "://h i/"] {
            check_target(Method::Get, &format!("http{rest}"), Err(TargetFault));
        }
        check_target(Method::Get, "http://h#f", Ok((path("#f"), "h")));
        for raw in ["h:80", "[::1]:443", "h:65535"] {
            check_target(Method::Connect, raw, Ok((Target::Tunnel, raw)));
        }
        for raw in
            ["/", "*", "h", "h:", ":80", "h:0", "h:x", "h:65536", "[::1]", "u@h:80", "http://h:80"]
        {
            check_target(Method::Connect, raw, Err(TargetFault));
        }
    }

    #[test]
    fn hosts() {
        let check = |text: &str, expected| assert_eq!(is_host(text.as_bytes()), expected, "{text}");
        let names = ["", "a", "a_b.c", "a.", "%41:1", "a%2fb", "localhost", "host1234567890"];
        let ports = ["a:", "a:0", "a:65535", "a:00080", "localhost:80", "localhost:65535"];
        let addresses = ["1.2.3.4:5", "127.0.0.1:54321", "[::]", "[::1]:80", "[::ffff:1.2.3.4]"];
        let others = ["[v1.a:b]", "[vF.1]:", "host:000000080"];
        for text in names.into_iter().chain(ports).chain(addresses).chain(others) {
            check(text, true);
        }
        for text in [
            ":", ":80", ".", ".:80", ".a", "a..b", "a..:80", "%41..b", "a b", "a/b", "a@b", "a:b",
            "a:65536", "a:1:2", "::1", "[", "]", "[]", "[::1", "::1]", "[::1]a", "[::1]:a",
            "[g::]", "[v.a]", "[v1.]", "[v1]", "[vg.a]", "%", "%4", "%4g", "a\u{fc}", "a\0", "a\"",
            "{a}", "a|b", "a^b", "a`b",
        ] {
            check(text, false);
        }
        for text in ["[fe80::1%25en0]", "a:99999999999", "local\u{fc}host:80"] {
            check(text, false);
        }
        for port in ["65536", "99999999", "808/", "808:", "/8080"] {
            check(&format!("localhost:{port}"), false);
        }
    }

    /// `expected` is the decoded path, then `/` for a trailing slash, `h` for hidden and `?query`.
    fn check(raw: &str, expected: Result<&str, PathFault>) {
        let mut scratch = Vec::new();
        let found = decode_path(raw.as_bytes(), &mut scratch).map(|path| {
            let mut text = String::from(core::str::from_utf8(path.relative).unwrap());
            text.push_str(if path.trailing_slash { "/" } else { "" });
            text.push_str(if path.hidden { " h" } else { "" });
            path.query.map_or(text.clone(), |query| format!("{text}?{}", query.escape_ascii()))
        });
        assert_eq!(found.as_deref(), expected.as_ref().map(|text| *text), "{raw:?}");
        assert!(scratch.capacity() <= raw.len().max(8) * 2, "bounded by what was asked for");
    }

    #[test]
    fn paths_are_decoded_once_and_resolved() {
        for (raw, expected) in [
            ("/", "/"),
            ("", "/"),
            ("?q", "/?q"),
            ("/a", "a"),
            ("/a/b.c", "a/b.c"),
            ("/a/", "a/"),
            ("/a?", "a?"),
            ("/a/?b/../%zz?c", "a/?b/../%zz?c"),
            ("//", "/"),
            ("//a//b//", "a/b/"),
            ("/./a/./b/.", "a/b/"),
            ("/a/..", "/"),
            ("/a/../b", "b"),
            ("/a/b/../../c", "c"),
            ("/a/b/..", "a/"),
            ("/a//../b", "b"),
            ("/%61%2E%62", "a.b"),
            ("/%2e/a", "a"),
            ("/a/%2e%2E", "/"),
            ("/a/.%2e/b", "b"),
            ("/%2561", "%61"),
            ("/%252e%252e/a", "%2e%2e/a"),
            ("/a%3fb%23c", "a?b#c"),
            ("/%20%c3%BC", " \u{fc}"),
            ("/a\\..\\b", "a\\..\\b"),
            ("/\u{dc}bung/d\u{e9}", "\u{dc}bung/d\u{e9}"),
            ("/\u{e9}/./%c3%a9?\u{fc}", "\u{e9}/\u{e9}?\\xc3\\xbc"),
            ("/%5c..", "\\.."),
            ("/a|{b}^`\"<>[]", "a|{b}^`\"<>[]"),
            ("/a;b=c/d,e", "a;b=c/d,e"),
            ("/a.", "a."),
            ("/a..b/c..", "a..b/c.."),
        ] {
            check(raw, Ok(expected));
        }
    }

    #[test]
    fn segments_that_start_with_a_dot_are_hidden() {
        for (raw, expected) in [
            ("/.git", ".git h"),
            ("/a/.b/c", "a/.b/c h"),
            ("/%2egit/", ".git/ h"),
            ("/...", "... h"),
            ("/..a?b", "..a h?b"),
            ("/.well-known", ".well-known"),
            ("/.well-known/a", ".well-known/a"),
            ("/.well-known?a", ".well-known?a"),
            ("/.well-known/%61", ".well-known/a"),
            ("/%2ewell-known/a", ".well-known/a"),
            ("/.well-known/.a", ".well-known/.a h"),
            ("/.well-knownx", ".well-knownx h"),
            ("/.well-know", ".well-know h"),
            ("/a/.well-known", "a/.well-known h"),
            ("/a/../.well-known/b", ".well-known/b"),
            ("/.git/../a", "a"),
        ] {
            check(raw, Ok(expected));
        }
    }

    #[test]
    fn bad_paths_are_refused() {
        use PathFault::{AboveRoot, Malformed};
        for raw in [
            "/%", "/%4", "/%4g", "/%g4", "/%%41", "/%00", "/a%00b", "/%2f", "/a%2Fb", "/..%2f..",
            "/a#b", "/a?b#c", "/a b", "/a\tb", "/a?b c", "/\x7f", "a", "a/b", "/%u0041", "/% 1",
            "/%+1", "/%-1",
        ] {
            check(raw, Err(Malformed));
        }
        for raw in ["/..", "/../", "/../a", "/a/../..", "/./..", "//..", "/%2e%2e/a", "/a/../../b"]
        {
            check(raw, Err(AboveRoot));
        }
    }

    /// The quick check of a path and the thorough one agree, for paths of any content and length.
    #[test]
    fn plain_paths_are_plain_wherever_one_looks() {
        let pieces = ["", "/", ".", "/b", "/.", "./", "//", "%", "?", "#", " ", "\x7f", "\u{fc}"];
        for len in 0..40 {
            for (at, piece) in (0..=len).flat_map(|at| pieces.map(|piece| (at, piece))) {
                let raw = format!("/{}{piece}{}", "a".repeat(at), "c".repeat(len - at));
                let (mut one, mut other) = (Vec::new(), Vec::new());
                let found = decode_path(raw.as_bytes(), &mut one);
                assert_eq!(found, decode_rare(raw.as_bytes(), &mut other), "{raw:?}");
            }
        }
    }

    /// Every path of a few pieces: the result has no segment that could lead elsewhere.
    #[test]
    fn no_path_leads_out() {
        let pieces = ["/", "/.", "/..", "%2e", "%2f", "a", ".", "//", "\\", "%5c", "%00"];
        let count = pieces.len();
        for number in 0..count.pow(5) {
            let at = |place: u32| pieces[number / count.pow(place) % count];
            let raw = format!("/{}{}{}{}{}", at(0), at(1), at(2), at(3), at(4));
            let mut scratch = Vec::new();
            let Ok(path) = decode_path(raw.as_bytes(), &mut scratch) else { continue };
            let fine = |segment: &[u8]| !matches!(segment, b"" | b"." | b"..");
            assert!(path.relative.is_empty() || path.relative.split(|&b| b == b'/').all(fine));
            assert!(!path.relative.contains(&0), "{raw}");
        }
    }
}
