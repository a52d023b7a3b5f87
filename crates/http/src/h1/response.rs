//! Response heads, as a client reads them (RFC 9112 §4, §6.3).
use super::{
    Body, ResponseBody, Version,
    framing::{Ambiguous, Framing},
    line::{Lines, Malformed, Next},
    parse::Options,
    scan::skip_empty_lines,
};
use crate::{
    Fields, Method, Status,
    field::{is_token, same},
};

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
        _ if !is_token(name) => return Err(ResponseFault::FieldLine),
        _ => Ok(()),
    };
    taken.map_err(|Ambiguous| ResponseFault::Framing)
}
