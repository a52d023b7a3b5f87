//! Response heads, as a client reads them (RFC 9112 §4, §6.3).
use super::{
    FIELDS_MAX, FIELDS_USUAL, RequestBody, ResponseBody, Version,
    framing::{Ambiguous, Framing},
    parse::{Options, is_unknown_version, section},
    scan::skip_empty_lines,
};
use crate::{Fields, Method, Status, field::same};
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use memchr::memchr_iter;

/// A response head.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The protocol version.
    pub version: Version,
    /// The status code, 100 to 599.
    pub status: Status,
    /// The reason phrase; often empty, never meaningful. Empty if it is not ASCII.
    pub reason: &'a [u8],
    /// The content that follows.
    pub body: ResponseBody,
    /// True if the connection may carry another exchange after the content.
    pub persistent: bool,
    /// All field lines in order.
    pub fields: Fields<'a>,
}

/// Reason why a response head is refused. The connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseFault {
    /// No status line, or not a proper one.
    StatusLine,
    /// A field line that is not one.
    FieldLine,
    /// Unclear end of the content.
    Framing,
    /// An HTTP version that this server does not support.
    Version,
    /// More field lines than [`FIELDS_MAX`].
    TooManyFields,
}

/// Parses `bytes`, exactly one head as [`super::scan_head`] found it, of a response to a request of
/// `method`, which decides whether there is content.
///
/// `Transfer-Encoding` is refused in HTTP/1.0, as in a request. Equal `Content-Length` lines count
/// as one, as RFC 9110 §8.6 allows a recipient; a response has at most [`FIELDS_MAX`] field lines.
///
/// # Errors
/// [`ResponseFault`] names the fault.
pub fn parse_response(bytes: &[u8], method: Method) -> Result<ResponseHead<'_>, ResponseFault> {
    let start = skip_empty_lines(bytes).ok_or(ResponseFault::StatusLine)?;
    let text = &bytes[start..];
    let mut slots = [const { MaybeUninit::uninit() }; FIELDS_USUAL];
    match parse_with(text, method, &mut slots) {
        Err(ResponseFault::TooManyFields) => {
            // No more room than there are lines.
            let lines = memchr_iter(b'\n', text).count().min(FIELDS_MAX);
            let mut slots = Vec::new();
            slots.resize_with(lines, MaybeUninit::uninit);
            parse_with(text, method, &mut slots)
        }
        parsed => parsed,
    }
}

#[inline]
fn parse_with<'a>(
    text: &'a [u8],
    method: Method,
    slots: &mut [MaybeUninit<httparse::Header<'a>>],
) -> Result<ResponseHead<'a>, ResponseFault> {
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        text,
        slots,
    );
    let (Ok(httparse::Status::Complete(len)), Some(minor), Some(code @ 100..=599), Some(reason)) =
        (parsed, response.version, response.code, response.reason)
    else {
        return Err(refused(text, &response, parsed));
    };
    let whole = len == text.len();
    let section = whole.then(|| section(text, response.headers)).flatten();
    let fields = section.ok_or(ResponseFault::FieldLine)?;
    let version = if minor == 0 { Version::Http10 } else { Version::Http11 };
    let (status, reason) = (Status(code), reason.as_bytes());
    let (mut framing, mut connection) = (Framing::default(), Options::NONE);
    let mut length = None;
    for line in &*response.headers {
        if same(line.name.as_bytes(), b"Content-Length")
            && length.replace(line.value) == Some(line.value)
        {
            continue;
        }
        read_line(line.name, line.value, &mut framing, &mut connection)?;
    }
    let length = framing.body(version).map_err(|Ambiguous| ResponseFault::Framing)?;
    let body = match length {
        _ if method == Method::Head || status.is_bodiless() => ResponseBody::None,
        Some(RequestBody::Length(length)) => ResponseBody::Length(length),
        Some(RequestBody::Chunked) => ResponseBody::Chunked,
        Some(RequestBody::None) | None => ResponseBody::UntilClose,
    };
    let persistent = connection.persistent(version) && body != ResponseBody::UntilClose;
    Ok(ResponseHead { version, status, reason, body, persistent, fields })
}

/// The fault of a head that `httparse` refuses, or that has a status out of range.
#[cold]
fn refused(
    text: &[u8],
    response: &httparse::Response<'_, '_>,
    parsed: httparse::Result<usize>,
) -> ResponseFault {
    match parsed {
        Err(httparse::Error::TooManyHeaders) => ResponseFault::TooManyFields,
        Err(httparse::Error::Version) if is_unknown_version(text) => ResponseFault::Version,
        // The reason is the last part of a status line to be parsed.
        Ok(httparse::Status::Partial) | Err(_) if response.reason.is_some() => {
            ResponseFault::FieldLine
        }
        _ => ResponseFault::StatusLine,
    }
}

/// Takes one field line.
#[inline]
fn read_line(
    name: &str,
    value: &[u8],
    framing: &mut Framing,
    connection: &mut Options,
) -> Result<(), ResponseFault> {
    let taken = match name.len() {
        10 if same(name.as_bytes(), b"Connection") => {
            connection.read(value);
            Ok(())
        }
        14 if same(name.as_bytes(), b"Content-Length") => framing.content_length(value),
        17 if same(name.as_bytes(), b"Transfer-Encoding") => framing.transfer_encoding(value),
        _ => Ok(()),
    };
    taken.map_err(|Ambiguous| ResponseFault::Framing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::reference;
    use ResponseFault::{FieldLine, Framing as BadFraming, StatusLine};
    use alloc::{format, string::String};

    /// Expected facts of a head: status, body, persistence.
    type Known = (u16, ResponseBody, bool);

    fn check(method: Method, text: &str, expected: Result<Known, ResponseFault>) {
        let head = parse_response(text.as_bytes(), method);
        let known = head.map(|head| (head.status.0, head.body, head.persistent));
        assert_eq!(known, expected, "{text:?}");
    }

    #[test]
    fn status_lines() {
        let check = |line: &str, expected: Result<u16, ResponseFault>| {
            let expected = expected.map(|status| (status, ResponseBody::UntilClose, false));
            check(Method::Get, &format!("{line}\r\n\r\n"), expected);
        };
        check("HTTP/1.1 200 OK", Ok(200));
        check("HTTP/1.0 404 Not Found", Ok(404));
        check("HTTP/1.1 200 ", Ok(200));
        check("HTTP/1.1 200", Ok(200));
        check("HTTP/1.1 599 \u{fc}\t-", Ok(599));
        for line in [
            "HTTP/1.1 20 OK",
            "HTTP/1.1 2000 OK",
            "HTTP/1.1 600 OK",
            "HTTP/1.1 099 OK",
            "HTTP/1.1  200 OK",
            "HTTP/1.1 200OK",
            "HTTP/1.1",
            "",
            "http/1.1 200 OK",
            "HTTP/1 200 OK",
            "ICY 200 OK",
            "HTTP/1.1 +20 OK",
            "HTTP/1.1 200 O\rK",
            "HTTP/1.1\t200",
        ] {
            check(line, Err(StatusLine));
        }
        for line in ["HTTP/2.0 200 OK", "HTTP/1.2 200 OK"] {
            check(line, Err(ResponseFault::Version));
        }
    }

    #[test]
    fn content_ends_where_the_fields_say() {
        use ResponseBody::{Chunked, Length, None as Nothing, UntilClose};
        let ok = |lines: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
        let length = ok("Content-Length: 5\r\n");
        let chunked = ok("Transfer-Encoding: Chunked\r\n");
        check(Method::Get, &length, Ok((200, Length(5), true)));
        check(Method::Head, &length, Ok((200, Nothing, true)));
        check(Method::Get, &chunked, Ok((200, Chunked, true)));
        check(Method::Head, &chunked, Ok((200, Nothing, true)));
        check(Method::Get, &ok(""), Ok((200, UntilClose, false)));
        check(Method::Head, &ok(""), Ok((200, Nothing, true)));
        for status in [100, 103, 204, 304] {
            let text = format!("HTTP/1.1 {status} x\r\nContent-Length: 5\r\n\r\n");
            check(Method::Get, &text, Ok((status, Nothing, true)));
        }
        let close = ok("Content-Length: 5\r\nConnection: close\r\n");
        check(Method::Get, &close, Ok((200, Length(5), false)));
        let old = "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n";
        check(Method::Get, &format!("{old}\r\n"), Ok((200, Length(5), false)));
        let twice = ok("Content-Length: 5\r\nA: b\r\ncontent-length: 5\r\n");
        check(Method::Get, &twice, Ok((200, Length(5), true)));
        for (lines, expected) in [
            (FIELDS_USUAL, Ok((200, Length(5), true))),
            (FIELDS_MAX - 1, Ok((200, Length(5), true))),
            (FIELDS_MAX, Err(ResponseFault::TooManyFields)),
        ] {
            let lines = "A: b\r\n".repeat(lines) + "Content-Length: 5\r\n";
            check(Method::Get, &ok(&lines), expected);
        }
        let kept = format!("{old}Connection: keep-alive\r\n\r\n");
        check(Method::Get, &kept, Ok((200, Length(5), true)));
    }

    /// Every change of one byte of a head.
    #[test]
    fn one_changed_byte_is_read_as_the_reference_reads_it() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nA: b\r\nConnection: close\r\n\r\n";
        let shown = |bytes: &[u8]| bytes.iter().map(|&byte| char::from(byte)).collect::<String>();
        let bytes = (0..text.len()).flat_map(|at| (0..=255u8).map(move |byte| (at, byte)));
        for (at, byte) in bytes {
            let mut changed = text.to_vec();
            changed[at] = byte;
            let plain = reference::response(&changed).filter(|plain| plain.len == text.len());
            match (parse_response(&changed, Method::Get), plain) {
                (Ok(head), Some(plain)) => {
                    let [version, code, reason] = plain.start;
                    assert_eq!(head.version.name(), version);
                    assert_eq!(head.status.0, code.parse::<u16>().unwrap());
                    let reason = if reason.is_ascii() { reason } else { String::new() };
                    assert_eq!(head.reason, reason.as_bytes());
                    let fields = head.fields.iter();
                    let fields = fields.map(|field| (field.name.into(), shown(field.value)));
                    assert_eq!(fields.collect::<Vec<_>>(), plain.fields);
                }
                (Err(_), None) | (Err(BadFraming), Some(_)) => {}
                (found, plain) => panic!("{} {found:?} {plain:?}", changed.escape_ascii()),
            }
        }
    }

    #[test]
    fn doubtful_heads_are_refused() {
        for (lines, fault) in [
            ("Content-Length: 5\r\nContent-Length: 6\r\n", BadFraming),
            ("Content-Length: 5\r\nContent-Length: 5\r\nContent-Length: 6\r\n", BadFraming),
            ("Content-Length: 5, 5\r\n", BadFraming),
            ("Content-Length: x\r\n", BadFraming),
            ("Transfer-Encoding: gzip, chunked\r\n", BadFraming),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", BadFraming),
            ("A : b\r\n", FieldLine),
            ("A: b\r\n c\r\n", FieldLine),
            ("A: \0\r\n", FieldLine),
            ("A: b\n", FieldLine),
            ("\r\nmore", FieldLine),
        ] {
            check(Method::Get, &format!("HTTP/1.1 200 OK\r\n{lines}\r\n"), Err(fault));
        }
        check(Method::Get, "HTTP/1.1 200 OK\r\n", Err(FieldLine));
        let old = "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(Method::Get, old, Err(BadFraming));
    }
}
