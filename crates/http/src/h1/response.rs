//! Response heads, as a client reads them (RFC 9112 §4, §6.3).
use super::{
    Body, ResponseBody, Version,
    framing::{Ambiguous, Framing},
    line::{Lines, Malformed, Next},
    parse::Options,
    scan::skip_empty_lines,
};
use crate::{Fields, Method, Status, field::same};

/// A response head.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The protocol version.
    pub version: Version,
    /// The status code, 100 to 599.
    pub status: Status,
    /// The reason phrase; often empty, never meaningful.
    pub reason: &'a [u8],
    /// The content that follows.
    pub body: ResponseBody,
    /// True if the connection may carry another exchange after the content.
    pub persistent: bool,
    /// All field lines in order.
    pub fields: Fields<'a>,
}

/// Why a response head is refused. The connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseFault {
    /// No status line, or not a proper one.
    StatusLine,
    /// A field line that is not one.
    FieldLine,
    /// In doubt where the content ends.
    Framing,
    /// An HTTP version that is not spoken here.
    Version,
}

/// Parses `bytes`, exactly one head as [`super::scan_head`] found it, of a response to a request of
/// `method`, which decides whether there is content.
///
/// A response in HTTP/1.0 may have `Transfer-Encoding` no more than a request; several equal
/// `Content-Length` lines are refused.
///
/// # Errors
/// [`ResponseFault`] says what is wrong.
pub fn parse_response(bytes: &[u8], method: Method) -> Result<ResponseHead<'_>, ResponseFault> {
    let start = skip_empty_lines(bytes).map_err(|Malformed| ResponseFault::StatusLine)?;
    let mut lines = Lines::new(bytes, start);
    let Ok(Some(line)) = lines.next_line() else {
        return Err(ResponseFault::StatusLine);
    };
    let (version, status, reason) = status_line(line)?;
    let (mut framing, mut connection) = (Framing::default(), Options::NONE);
    let section_start = lines.at();
    let section_end = loop {
        let at = lines.at();
        match lines.next_field() {
            Ok(Next::Field { name, value }) => take(name, value, &mut framing, &mut connection)?,
            Ok(Next::Blank) if lines.at() == bytes.len() => break at,
            _ => return Err(ResponseFault::FieldLine),
        }
    };
    let length = framing.body(version).map_err(|Ambiguous| ResponseFault::Framing)?;
    let body = match length {
        _ if method == Method::Head || status.is_bodiless() => ResponseBody::None,
        Some(Body::Length(length)) => ResponseBody::Length(length),
        Some(Body::Chunked) => ResponseBody::Chunked,
        Some(Body::None) | None => ResponseBody::UntilClose,
    };
    let persistent = connection.persistent(version) && body != ResponseBody::UntilClose;
    let fields = Fields::new(&bytes[section_start..section_end]);
    Ok(ResponseHead { version, status, reason, body, persistent, fields })
}

/// Reads `HTTP/1.1 200 OK`. The reason may be missing, and the space before it with it.
fn status_line(line: &[u8]) -> Result<(Version, Status, &[u8]), ResponseFault> {
    let [b'H', b'T', b'T', b'P', b'/', major, b'.', minor, rest @ ..] = line else {
        return Err(ResponseFault::StatusLine);
    };
    let version = match (major, minor) {
        (b'1', b'0') => Version::Http10,
        (b'1', b'1'..=b'9') => Version::Http11,
        (b'0'..=b'9', b'0'..=b'9') => return Err(ResponseFault::Version),
        _ => return Err(ResponseFault::StatusLine),
    };
    let (code, reason) = match rest {
        [b' ', a, b, c] => ([a, b, c], &[][..]),
        [b' ', a, b, c, b' ', reason @ ..] => ([a, b, c], reason),
        _ => return Err(ResponseFault::StatusLine),
    };
    let [a @ b'1'..=b'5', b @ b'0'..=b'9', c @ b'0'..=b'9'] = code.map(|digit| *digit) else {
        return Err(ResponseFault::StatusLine);
    };
    let code = [a, b, c].iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    Ok((version, Status(code), reason))
}

/// Takes one field line.
#[inline]
fn take(
    name: &[u8],
    value: &[u8],
    framing: &mut Framing,
    connection: &mut Options,
) -> Result<(), ResponseFault> {
    let taken = match name.len() {
        10 if same(name, b"connection") => {
            connection.take(value);
            Ok(())
        }
        14 if same(name, b"content-length") => framing.content_length(value),
        17 if same(name, b"transfer-encoding") => framing.transfer_encoding(value),
        _ => Ok(()),
    };
    taken.map_err(|Ambiguous| ResponseFault::Framing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ResponseFault::{FieldLine, Framing as BadFraming, StatusLine};
    use alloc::format;

    /// What is known of a head: status, body, persistence.
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
        check("HTTP/1.2 200 OK", Ok(200));
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
        check("HTTP/2.0 200 OK", Err(ResponseFault::Version));
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
        let kept = format!("{old}Connection: keep-alive\r\n\r\n");
        check(Method::Get, &kept, Ok((200, Length(5), true)));
    }

    #[test]
    fn doubtful_heads_are_refused() {
        for (lines, fault) in [
            ("Content-Length: 5\r\nContent-Length: 5\r\n", BadFraming),
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
        check(
            Method::Get,
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            Err(BadFraming),
        );
    }
}
