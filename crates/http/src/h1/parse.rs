//! Request heads (RFC 9112 §3, §5).
use super::{
    Body,
    framing::{Ambiguous, Framing},
    line::{Malformed, Next, blanks, find, line_end, next_field},
    scan::skip_empty_lines,
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
/// not is parsed from its start again: scan it until its end has come.
///
/// # Errors
/// As [`parse_request`].
pub fn parse_first<'a>(
    bytes: &'a [u8],
    limits: &HeadLimits,
) -> Result<Option<RequestHead<'a>>, HeadFault> {
    let Some((mut head, start)) = request_line(bytes, limits)? else {
        return Ok(None);
    };
    let authority = head.host.take();
    let mut gathered = Gathered { head, framing: Framing::default(), connection: Options::NONE };
    let mut count = 0;
    let mut at = start;
    let end = loop {
        match next_field(bytes, at).map_err(|Malformed| HeadFault::FieldLine)? {
            Next::Field { name, value, end } => {
                count += 1;
                if count > limits.fields_max {
                    return Err(HeadFault::HeadTooLarge);
                }
                gathered.take(name, value, &bytes[start..end])?;
                at = end;
            }
            Next::Blank(end) => break end,
            Next::Partial => return Ok(None),
        }
    };
    gathered.head.head_bytes = end;
    gathered.head.fields = Fields::new(&bytes[start..at]);
    if end > limits.head_bytes_max {
        return Err(HeadFault::HeadTooLarge);
    }
    gathered.finish(authority).map(Some)
}

/// Reads the request line: a head without fields, whose host is the authority in the target, and
/// where its fields start.
#[inline]
fn request_line<'a>(
    bytes: &'a [u8],
    limits: &HeadLimits,
) -> Result<Option<(RequestHead<'a>, usize)>, HeadFault> {
    let start = skip_empty_lines(bytes).map_err(|Malformed| HeadFault::RequestLine)?;
    let Some((method, method_end)) = method(bytes, start)? else {
        return Ok(None);
    };
    let method_text = match method {
        Method::Other => core::str::from_utf8(&bytes[start..method_end]).unwrap_or(""),
        known => known.name(),
    };
    let target_start = method_end + 1;
    let Some(target_end) = find(bytes, target_start, blanks) else {
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
    let version = match rest.first_chunk::<10>() {
        Some(b"HTTP/1.1\r\n") => Version::Http11,
        Some(b"HTTP/1.0\r\n") => Version::Http10,
        _ => match other_version(rest)? {
            Some(version) => version,
            None => return Ok(None),
        },
    };
    let (names, host) = target::parse(method, target).map_err(|TargetFault| HeadFault::Target)?;
    let head = RequestHead {
        method,
        method_text,
        target,
        names,
        version,
        host,
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
    Ok(Some((head, target_end + 11)))
}

/// Reads the method; also where it ends.
#[inline]
fn method(bytes: &[u8], start: usize) -> Result<Option<(Method, usize)>, HeadFault> {
    if let [b'G', b'E', b'T', b' ', ..] = bytes[start..] {
        return Ok(Some((Method::Get, start + 3)));
    }
    let end = find(bytes, start, blanks);
    let text = &bytes[start..end.unwrap_or(bytes.len())];
    if text.is_empty() && end.is_none() {
        return Ok(None);
    }
    if !is_token(text) || end.is_some_and(|end| bytes[end] != b' ') {
        return Err(HeadFault::RequestLine);
    }
    Ok(end.map(|end| (Method::from_text(text), end)))
}

/// Reads what ends a request line, if it is neither HTTP/1.1 nor HTTP/1.0. A higher minor version
/// is treated as the highest that is known (RFC 9110 §2.5).
#[cold]
fn other_version(rest: &[u8]) -> Result<Option<Version>, HeadFault> {
    let end = line_end(rest, 0).map_err(|Malformed| HeadFault::RequestLine)?;
    match end.map(|end| &rest[..end]) {
        None => Ok(None),
        Some([b'H', b'T', b'T', b'P', b'/', major @ b'0'..=b'9', b'.', b'0'..=b'9']) => {
            if *major == b'1' { Ok(Some(Version::Http11)) } else { Err(HeadFault::Version) }
        }
        Some(_) => Err(HeadFault::RequestLine),
    }
}

/// A head that is being filled in.
struct Gathered<'a> {
    head: RequestHead<'a>,
    framing: Framing,
    connection: Options,
}

impl<'a> Gathered<'a> {
    /// Takes a field line, the last of `fields`. The length of its name says which few it can be.
    #[inline]
    fn take(&mut self, name: &'a [u8], value: &'a [u8], fields: &'a [u8]) -> Result<(), HeadFault> {
        let head = &mut self.head;
        let conditions = &mut head.conditions;
        match name.len() {
            4 if same(name, b"host") => return self.host(value),
            5 if same(name, b"range") => once(&mut head.range, value),
            6 if same(name, b"expect") => self.expect(value),
            7 if same(name, b"referer") => head.referer = Some(value),
            8 if same(name, b"if-match") => conditions.if_match.extend(name, value, fields),
            8 if same(name, b"if-range") => once(&mut conditions.if_range, value),
            10 if same(name, b"connection") => self.connection.take(value),
            10 if same(name, b"user-agent") => head.user_agent = Some(value),
            13 if same(name, b"if-none-match") => {
                conditions.if_none_match.extend(name, value, fields);
            }
            14 if same(name, b"content-length") => {
                return self.framing.content_length(value).map_err(ambiguous);
            }
            15 if same(name, b"accept-encoding") => {
                head.accept_encoding.extend(name, value, fields);
            }
            17 if same(name, b"if-modified-since") => {
                once(&mut conditions.if_modified_since, value);
            }
            17 if same(name, b"transfer-encoding") => {
                return self.framing.transfer_encoding(value).map_err(ambiguous);
            }
            19 if same(name, b"if-unmodified-since") => {
                once(&mut conditions.if_unmodified_since, value);
            }
            _ if !is_token(name) => return Err(HeadFault::FieldLine),
            _ => {}
        }
        Ok(())
    }

    /// Takes a `Host` line (RFC 9112 §3.2).
    #[inline]
    fn host(&mut self, value: &'a [u8]) -> Result<(), HeadFault> {
        if self.head.host.is_some() || !target::is_host(value) {
            return Err(HeadFault::Host);
        }
        self.head.host = Some(value);
        Ok(())
    }

    /// Takes an `Expect` line: a list whose only known member is `100-continue`.
    fn expect(&mut self, value: &[u8]) {
        for member in members(value) {
            let known = member.eq_ignore_ascii_case(b"100-continue");
            self.head.expectation = match self.head.expectation {
                Expectation::None | Expectation::Continue if known => Expectation::Continue,
                _ => Expectation::Unknown,
            };
        }
    }

    /// The head, now that all its lines are taken.
    #[inline]
    fn finish(self, authority: Option<&'a [u8]>) -> Result<RequestHead<'a>, HeadFault> {
        let Self { mut head, framing, connection } = self;
        if head.host.is_none() && head.version == Version::Http11 {
            return Err(HeadFault::Host);
        }
        head.host = authority.or(head.host);
        head.body = framing.body(head.version).map_err(ambiguous)?.unwrap_or(Body::None);
        head.persistent = connection.persistent(head.version);
        if head.version == Version::Http10 {
            head.expectation = Expectation::None;
        }
        Ok(head)
    }
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
