//! Request heads (RFC 9112 §3, §5).
use super::{
    Body,
    framing::{Ambiguous, Framing},
    line::{Lines, Malformed, Next},
    scan::skip_empty_lines,
    word::{find, invisibles},
};
use crate::{
    FieldLines, Fields, Method, Status,
    conditional::RequestConditions,
    field::{is_token, members, same},
    target::{self, Target, TargetFault},
};

/// A protocol version that is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// `HTTP/1.0`
    Http10,
    /// `HTTP/1.1`
    Http11,
}

impl Version {
    /// The version as it is written in a request line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
        }
    }
}

/// How large a request head may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the whole head, with its blank line.
    pub head_bytes_max: usize,
    /// Bytes of the request target.
    pub target_bytes_max: usize,
    /// Field lines.
    pub fields_max: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self { head_bytes_max: 16 << 10, target_bytes_max: 8 << 10, fields_max: 64 }
    }
}

/// Why a request head is refused. The connection cannot go on after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeadFault {
    /// No request line, or not a proper one.
    RequestLine,
    /// A field line that is not one: folded, a space before the colon, a control character.
    FieldLine,
    /// `Host` missing (HTTP/1.1), given twice, or not a host.
    Host,
    /// In doubt where the content ends: `Content-Length` or `Transfer-Encoding`.
    Framing,
    /// A request target of no allowed form.
    Target,
    /// The request target is over `target_bytes_max`.
    TargetTooLong,
    /// The head is over `head_bytes_max`, or has more than `fields_max` field lines.
    HeadTooLarge,
    /// An HTTP version that is not spoken here.
    Version,
}

impl HeadFault {
    /// The status to answer with: 400, 414, 431 or 505.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::RequestLine | Self::FieldLine | Self::Host | Self::Framing | Self::Target => {
                Status::BAD_REQUEST
            }
            Self::TargetTooLong => Status::URI_TOO_LONG,
            Self::HeadTooLarge => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Version => Status::HTTP_VERSION_NOT_SUPPORTED,
        }
    }

    /// A few words for a log or an error page.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::RequestLine => "malformed request line",
            Self::FieldLine => "malformed field line",
            Self::Host => "missing, repeated or invalid Host",
            Self::Framing => "ambiguous message framing",
            Self::Target => "invalid request target",
            Self::TargetTooLong => "request target too long",
            Self::HeadTooLarge => "request head too large",
            Self::Version => "HTTP version not supported",
        }
    }

    /// The fault of a head that has no end within `head_bytes_max`: `bytes` is what came of it.
    #[must_use]
    pub fn oversized(bytes: &[u8], limits: &HeadLimits) -> Self {
        let line = bytes.trim_ascii_start();
        let line = line.split(|&byte| byte == b'\r').next().unwrap_or(line);
        match line.split(|&byte| byte == b' ').nth(1) {
            Some(target) if target.len() > limits.target_bytes_max => Self::TargetTooLong,
            _ => Self::HeadTooLarge,
        }
    }
}

/// What a request expects before it sends its content (RFC 9110 §10.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// Nothing.
    None,
    /// `100-continue`, in HTTP/1.1; HTTP/1.0 has no such thing.
    Continue,
    /// Something else: 417 may be answered.
    Unknown,
}

/// A request head. Values are the peer's bytes without whitespace around them.
///
/// A field of one value that was given twice is present with an empty value, which is valid for
/// none of them, except where noted.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The method.
    pub method: Method,
    /// The method as written: a token.
    pub method_text: &'a str,
    /// The request target as written, for logs.
    pub target: &'a [u8],
    /// What the request target names.
    pub names: Target<'a>,
    /// The protocol version.
    pub version: Version,
    /// Host and port: from an absolute-form target, else from `Host`; may be empty.
    pub host: Option<&'a [u8]>,
    /// The content that follows.
    pub body: Body,
    /// True if the connection may carry another request after this one (RFC 9112 §9.3).
    pub persistent: bool,
    /// `Expect`
    pub expectation: Expectation,
    /// The conditional fields.
    pub conditions: RequestConditions<'a>,
    /// `Range`
    pub range: Option<&'a [u8]>,
    /// `Accept-Encoding`
    pub accept_encoding: FieldLines<'a>,
    /// `Referer`; the last one, if it was given twice.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`; the last one, if it was given twice.
    pub user_agent: Option<&'a [u8]>,
    /// All field lines in order.
    pub fields: Fields<'a>,
    /// Bytes of the head, with its blank line and leading empty ones: the content starts there.
    pub head_bytes: usize,
}

/// Parses `bytes`, which must be exactly one head as [`super::scan_head`] finds it.
///
/// # Errors
/// [`HeadFault`] says what is wrong and which status to answer with. After any of them the
/// connection must be closed: where the next request would start is not known.
pub fn parse_request<'a>(
    bytes: &'a [u8],
    limits: &HeadLimits,
) -> Result<RequestHead<'a>, HeadFault> {
    match parse_first(bytes, limits) {
        Ok(Some(head)) if head.head_bytes == bytes.len() => Ok(head),
        Ok(_) => Err(HeadFault::FieldLine),
        Err(fault) => Err(fault),
    }
}

/// Parses the head that `bytes` start with; `None` if its end has not come, and nothing is wrong
/// with what has. What follows it starts at [`RequestHead::head_bytes`].
///
/// It scans what it parses, so a head that came whole needs no [`super::scan_head`]. One that did
/// not is parsed from its start again: scan it until its end has come. The caller limits how much
/// it keeps of a head without an end: [`HeadFault::oversized`].
///
/// # Errors
/// As [`parse_request`].
pub fn parse_first<'a>(
    bytes: &'a [u8],
    limits: &HeadLimits,
) -> Result<Option<RequestHead<'a>>, HeadFault> {
    let Some(line) = request_line(bytes, limits)? else {
        return Ok(None);
    };
    let (names, authority) = line.target_parts()?;
    let mut head = RequestHead {
        method: line.method,
        method_text: line.method_text,
        target: line.target,
        names,
        version: line.version,
        host: None,
        body: Body::None,
        persistent: false,
        expectation: Expectation::None,
        conditions: RequestConditions::default(),
        range: None,
        accept_encoding: FieldLines::ABSENT,
        referer: None,
        user_agent: None,
        fields: Fields::default(),
        head_bytes: 0,
    };
    if !read_fields(&mut head, bytes, line.end, limits)? {
        return Ok(None);
    }
    if let Some(authority) = authority {
        head.host = Some(authority);
    }
    Ok(Some(head))
}

/// Reads the field lines, which start at `start`, into `head`; false if their end has not come.
#[inline(always)]
fn read_fields<'a>(
    head: &mut RequestHead<'a>,
    bytes: &'a [u8],
    start: usize,
    limits: &HeadLimits,
) -> Result<bool, HeadFault> {
    let (mut framing, mut connection) = (Framing::default(), Options::NONE);
    let mut count = 0;
    let mut lines = Lines::new(bytes, start);
    let section_end = loop {
        let at = lines.at();
        match lines.next_field().map_err(|Malformed| HeadFault::FieldLine)? {
            Next::Field { name, value } => {
                count += 1;
                if count > limits.fields_max {
                    return Err(HeadFault::HeadTooLarge);
                }
                let line = Line { name, value, bytes, start, end: lines.at() };
                take(head, &line, &mut framing, &mut connection)?;
            }
            Next::Blank => break at,
            Next::Partial => return Ok(false),
        }
    };
    head.head_bytes = lines.at();
    head.fields = Fields::new(&bytes[start..section_end]);
    if head.head_bytes > limits.head_bytes_max {
        return Err(HeadFault::HeadTooLarge);
    }
    head.body = framing.body(head.version).map_err(ambiguous)?.unwrap_or(Body::None);
    head.persistent = connection.persistent(head.version);
    match head.version {
        Version::Http11 if head.host.is_none() => return Err(HeadFault::Host),
        Version::Http11 => {}
        Version::Http10 => head.expectation = Expectation::None,
    }
    Ok(true)
}

/// A request line, and where the line after it starts.
struct RequestLine<'a> {
    method: Method,
    method_text: &'a str,
    target: &'a [u8],
    version: Version,
    end: usize,
}

impl<'a> RequestLine<'a> {
    /// What the target names, and the authority in it.
    #[inline(always)]
    fn target_parts(&self) -> Result<(Target<'a>, Option<&'a [u8]>), HeadFault> {
        target::parse(self.method, self.target).map_err(|TargetFault| HeadFault::Target)
    }
}

/// Reads the request line; `None` if its end has not come.
#[inline(always)]
fn request_line<'a>(
    bytes: &'a [u8],
    limits: &HeadLimits,
) -> Result<Option<RequestLine<'a>>, HeadFault> {
    let start = skip_empty_lines(bytes).map_err(|Malformed| HeadFault::RequestLine)?;
    let Some((method, method_text)) = method(bytes, start)? else {
        return Ok(None);
    };
    let target_start = start + method_text.len() + 1;
    let Some(target_end) = find(bytes, target_start, invisibles) else {
        return Ok(None);
    };
    if bytes[target_end] != b' ' || target_end == target_start {
        return Err(HeadFault::RequestLine);
    }
    let target = &bytes[target_start..target_end];
    if target.len() > limits.target_bytes_max {
        return Err(HeadFault::TargetTooLong);
    }
    let rest = &bytes[target_end + 1..];
    let version = match rest.split_first_chunk::<8>() {
        Some((text, [b'\r', b'\n', ..])) if *text == *b"HTTP/1.1" => Version::Http11,
        _ => match other_version(rest)? {
            Some(version) => version,
            None => return Ok(None),
        },
    };
    Ok(Some(RequestLine { method, method_text, target, version, end: target_end + 11 }))
}

/// Reads the method and its text; `None` if its end has not come.
#[inline(always)]
fn method(bytes: &[u8], start: usize) -> Result<Option<(Method, &str)>, HeadFault> {
    let rest = &bytes[start..];
    match rest.first_chunk() {
        Some(text) if u32::from_le_bytes(*text) == u32::from_le_bytes(*b"GET ") => {
            Ok(Some((Method::Get, "GET")))
        }
        _ => other_method(rest),
    }
}

/// Reads a method at the start of `bytes` that is not `GET`.
fn other_method(bytes: &[u8]) -> Result<Option<(Method, &str)>, HeadFault> {
    let end = find(bytes, 0, invisibles);
    let text = &bytes[..end.unwrap_or(bytes.len())];
    match end {
        None if text.is_empty() => return Ok(None),
        Some(0) if bytes == b"\r" => return Ok(None), // perhaps of an empty line
        _ if !is_token(text) => return Err(HeadFault::RequestLine),
        None => return Ok(None),
        Some(end) if bytes[end] != b' ' => return Err(HeadFault::RequestLine),
        Some(_) => {}
    }
    let text = core::str::from_utf8(text).map_err(|_| HeadFault::RequestLine)?;
    Ok(Some((Method::from_text(text.as_bytes()), text)))
}

/// Reads what ends a request line, if it is not HTTP/1.1. A higher minor version is treated as the
/// highest that is known (RFC 9110 §2.5).
#[cold]
fn other_version(rest: &[u8]) -> Result<Option<Version>, HeadFault> {
    match Lines::new(rest, 0).next_line().map_err(|Malformed| HeadFault::RequestLine)? {
        None => Ok(None),
        Some(b"HTTP/1.0") => Ok(Some(Version::Http10)),
        Some([b'H', b'T', b'T', b'P', b'/', major @ b'0'..=b'9', b'.', b'0'..=b'9']) => {
            if *major == b'1' { Ok(Some(Version::Http11)) } else { Err(HeadFault::Version) }
        }
        Some(_) => Err(HeadFault::RequestLine),
    }
}

/// A field line of a head.
struct Line<'a> {
    name: &'a [u8],
    value: &'a [u8],
    bytes: &'a [u8],
    /// Where the head's field lines start.
    start: usize,
    /// Where this one ends.
    end: usize,
}

/// Takes a field line into `head`. The length of its name says which few it can be.
#[inline(always)]
fn take<'a>(
    head: &mut RequestHead<'a>,
    line: &Line<'a>,
    framing: &mut Framing,
    connection: &mut Options,
) -> Result<(), HeadFault> {
    let (name, value) = (line.name, line.value);
    let conditions = &mut head.conditions;
    match name.len() {
        4 if same(name, b"host") => return host(&mut head.host, value),
        5 if same(name, b"range") => once(&mut head.range, value),
        6 if same(name, b"expect") => expect(&mut head.expectation, value),
        7 if same(name, b"referer") => head.referer = Some(value),
        8 if same(name, b"if-match") => list(&mut conditions.if_match, line),
        8 if same(name, b"if-range") => once(&mut conditions.if_range, value),
        10 if same(name, b"connection") => connection.take(value),
        10 if same(name, b"user-agent") => head.user_agent = Some(value),
        13 if same(name, b"if-none-match") => list(&mut conditions.if_none_match, line),
        14 if same(name, b"content-length") => {
            return framing.content_length(value).map_err(ambiguous);
        }
        15 if same(name, b"accept-encoding") => list(&mut head.accept_encoding, line),
        17 if same(name, b"if-modified-since") => once(&mut conditions.if_modified_since, value),
        17 if same(name, b"transfer-encoding") => {
            return framing.transfer_encoding(value).map_err(ambiguous);
        }
        19 if same(name, b"if-unmodified-since") => {
            once(&mut conditions.if_unmodified_since, value);
        }
        _ => {}
    }
    Ok(())
}

/// Takes a `Host` line (RFC 9112 §3.2).
#[inline(always)]
fn host<'a>(host: &mut Option<&'a [u8]>, value: &'a [u8]) -> Result<(), HeadFault> {
    if host.is_some() || !target::is_host(value) {
        return Err(HeadFault::Host);
    }
    *host = Some(value);
    Ok(())
}

/// Takes an `Expect` line: a list whose only known member is `100-continue`.
fn expect(expectation: &mut Expectation, value: &[u8]) {
    for member in members(value) {
        let known = member.eq_ignore_ascii_case(b"100-continue");
        *expectation = match *expectation {
            Expectation::None | Expectation::Continue if known => Expectation::Continue,
            _ => Expectation::Unknown,
        };
    }
}

/// Takes a line of a field that is a list.
#[inline(always)]
fn list<'a>(lines: &mut FieldLines<'a>, line: &Line<'a>) {
    lines.extend(line.name, line.value, &line.bytes[line.start..line.end]);
}

/// Notes the value of a field that has one value; an empty one if it is given twice.
fn once<'a>(slot: &mut Option<&'a [u8]>, value: &'a [u8]) {
    *slot = Some(if slot.is_none() { value } else { b"" });
}

fn ambiguous(_: Ambiguous) -> HeadFault {
    HeadFault::Framing
}

/// The connection options that matter here (RFC 9110 §7.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Options {
    close: bool,
    keep_alive: bool,
}

impl Options {
    /// No option.
    pub(super) const NONE: Self = Self { close: false, keep_alive: false };

    /// Takes a `Connection` line.
    #[inline]
    pub(super) fn take(&mut self, value: &[u8]) {
        if same(value, b"keep-alive") {
            self.keep_alive = true;
        } else {
            self.take_list(value);
        }
    }

    fn take_list(&mut self, value: &[u8]) {
        for member in members(value) {
            self.close |= member.eq_ignore_ascii_case(b"close");
            self.keep_alive |= member.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// True if the connection persists after this message (RFC 9112 §9.3).
    #[inline]
    pub(super) const fn persistent(self, version: Version) -> bool {
        match version {
            Version::Http11 => !self.close,
            Version::Http10 => self.keep_alive && !self.close,
        }
    }
}

#[cfg(test)]
mod tests;
