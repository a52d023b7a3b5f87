//! Response heads, as a client reads them (RFC 9112 §4, §6.3).
use super::{
    Body, ResponseBody, Scan, Version,
    framing::{Ambiguous, Framing},
    parse::Options,
    scan_head,
};
use crate::{Field, FieldStore, Method, Status, field::same};

/// A response head.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The protocol version.
    pub version: Version,
    /// The status code, 100 to 599.
    pub status: Status,
    /// The reason phrase; often empty, never meaningful.
    pub reason: &'a str,
    /// The content that follows.
    pub body: ResponseBody,
    /// True if the connection may carry another exchange after the content.
    pub persistent: bool,
    /// All field lines in order.
    pub fields: &'a [Field<'a>],
}

/// Why a response head is refused. The connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseFault {
    /// No status line, or not a proper one.
    StatusLine,
    /// A field line that is not one.
    FieldLine,
    /// More than [`crate::FIELDS_CAPACITY`] field lines.
    HeadTooLarge,
    /// In doubt where the content ends.
    Framing,
    /// An HTTP version that is not spoken here.
    Version,
}

/// Parses `bytes`, exactly one head as [`scan_head`] found it, of a response to a request of
/// `method`, which decides whether there is content.
///
/// A response in HTTP/1.0 may have `Transfer-Encoding` no more than a request; several equal
/// `Content-Length` lines are refused.
///
/// # Errors
/// [`ResponseFault`] says what is wrong.
pub fn parse_response<'a>(
    bytes: &'a [u8],
    store: &'a mut FieldStore<'a>,
    method: Method,
) -> Result<ResponseHead<'a>, ResponseFault> {
    debug_assert_eq!(scan_head(bytes, 0), Scan::End(bytes.len()), "exactly one scanned head");
    let mut raw = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    match config.parse_response_with_uninit_headers(&mut raw, bytes, &mut store.slots) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(ResponseFault::StatusLine),
        Err(error) => return Err(fault_of(error)),
    }
    let (Some(code @ 100..=599), Some(minor)) = (raw.code, raw.version) else {
        return Err(ResponseFault::StatusLine);
    };
    let fields: &'a [Field<'a>] = raw.headers;
    let status = Status(code);
    let version = if minor == 0 { Version::Http10 } else { Version::Http11 };
    let mut framing = Framing::default();
    let mut connection = Options::NONE;
    for field in fields {
        take(field, &mut framing, &mut connection).map_err(|Ambiguous| ResponseFault::Framing)?;
    }
    let length = framing.body(version).map_err(|Ambiguous| ResponseFault::Framing)?;
    let body = match length {
        _ if method == Method::Head || status.is_bodiless() => ResponseBody::None,
        Some(Body::Length(length)) => ResponseBody::Length(length),
        Some(Body::Chunked) => ResponseBody::Chunked,
        Some(Body::None) | None => ResponseBody::UntilClose,
    };
    let persistent = connection.persistent(version) && body != ResponseBody::UntilClose;
    let reason = raw.reason.unwrap_or("");
    Ok(ResponseHead { version, status, reason, body, persistent, fields })
}

/// Takes one field line.
#[inline]
fn take(
    field: &Field<'_>,
    framing: &mut Framing,
    connection: &mut Options,
) -> Result<(), Ambiguous> {
    let name = field.name.as_bytes();
    match name.len() {
        10 if same(name, b"connection") => connection.take(field.value),
        14 if same(name, b"content-length") => return framing.content_length(field.value),
        17 if same(name, b"transfer-encoding") => return framing.transfer_encoding(field.value),
        _ => {}
    }
    Ok(())
}

#[cold]
fn fault_of(error: httparse::Error) -> ResponseFault {
    match error {
        httparse::Error::TooManyHeaders => ResponseFault::HeadTooLarge,
        httparse::Error::HeaderName | httparse::Error::HeaderValue => ResponseFault::FieldLine,
        httparse::Error::Version => ResponseFault::Version,
        _ => ResponseFault::StatusLine,
    }
}
