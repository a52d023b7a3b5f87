//! Request heads (RFC 9112 §3, §5), parsed by `httparse` with stricter rules on top.
use super::{
    Body, Scan,
    framing::{Ambiguous, Framing},
    scan_head,
};
use crate::{
    FIELDS_CAPACITY, Field, FieldLines, FieldStore, Method, Status,
    conditional::RequestConditions,
    field::{members, same},
    target::{self, Target},
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
    /// Field lines; more than [`FIELDS_CAPACITY`] has no effect.
    pub fields_max: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self { head_bytes_max: 16 << 10, target_bytes_max: 8 << 10, fields_max: FIELDS_CAPACITY }
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
    /// The method as written.
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
    pub fields: &'a [Field<'a>],
}

/// Parses `bytes`, which must be exactly one head as [`scan_head`] found it.
///
/// # Errors
/// [`HeadFault`] says what is wrong and which status to answer with. After any of them the
/// connection must be closed: where the next request would start is not known.
pub fn parse_request<'a>(
    bytes: &'a [u8],
    store: &'a mut FieldStore<'a>,
    limits: &HeadLimits,
) -> Result<RequestHead<'a>, HeadFault> {
    debug_assert_eq!(scan_head(bytes, 0), Scan::End(bytes.len()), "exactly one scanned head");
    if bytes.len() > limits.head_bytes_max {
        return Err(HeadFault::oversized(bytes, limits));
    }
    let slots = &mut store.slots[..limits.fields_max.min(FIELDS_CAPACITY)];
    let mut raw = httparse::Request::new(&mut []);
    match raw.parse_with_uninit_headers(bytes, slots) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(HeadFault::RequestLine),
        Err(error) => return Err(fault_of(error, bytes, limits)),
    }
    let (Some(method_text), Some(target), Some(minor)) = (raw.method, raw.path, raw.version) else {
        return Err(HeadFault::RequestLine);
    };
    let fields: &'a [Field<'a>] = raw.headers;
    let target = target.as_bytes();
    if target.len() > limits.target_bytes_max {
        return Err(HeadFault::TargetTooLong);
    }
    let method = Method::from_text(method_text.as_bytes());
    let (names, authority) = target::parse(method, target).map_err(|_| HeadFault::Target)?;
    let head = RequestHead {
        method,
        method_text,
        target,
        names,
        version: if minor == 0 { Version::Http10 } else { Version::Http11 },
        host: None,
        body: Body::None,
        persistent: minor == 1,
        expectation: Expectation::None,
        conditions: RequestConditions::default(),
        range: None,
        accept_encoding: FieldLines::ABSENT,
        referer: None,
        user_agent: None,
        fields,
    };
    collect(head, authority)
}

/// Fills in what the field lines say, in one pass over them.
#[inline]
fn collect<'a>(
    head: RequestHead<'a>,
    authority: Option<&'a [u8]>,
) -> Result<RequestHead<'a>, HeadFault> {
    let mut gathered = Gathered { head, framing: Framing::default(), connection: Options::NONE };
    for (at, field) in head.fields.iter().enumerate() {
        gathered.take(at, field)?;
    }
    let Gathered { mut head, framing, connection } = gathered;
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

/// A head that is being filled in.
struct Gathered<'a> {
    head: RequestHead<'a>,
    framing: Framing,
    connection: Options,
}

impl<'a> Gathered<'a> {
    /// Takes the field line at index `at`. The length of its name says which few it can be.
    #[inline]
    fn take(&mut self, at: usize, field: &Field<'a>) -> Result<(), HeadFault> {
        let (name, value) = (field.name.as_bytes(), field.value);
        let head = &mut self.head;
        match name.len() {
            4 if same(name, b"host") => return self.host(value),
            5 if same(name, b"range") => once(&mut head.range, value),
            6 if same(name, b"expect") => self.expect(value),
            7 if same(name, b"referer") => head.referer = Some(value),
            8 if same(name, b"if-match") => {
                head.conditions.if_match.extend(head.fields, at);
            }
            8 if same(name, b"if-range") => once(&mut head.conditions.if_range, value),
            10 if same(name, b"connection") => self.connection.take(value),
            10 if same(name, b"user-agent") => head.user_agent = Some(value),
            13 if same(name, b"if-none-match") => {
                head.conditions.if_none_match.extend(head.fields, at);
            }
            14 if same(name, b"content-length") => {
                return self.framing.content_length(value).map_err(ambiguous);
            }
            15 if same(name, b"accept-encoding") => head.accept_encoding.extend(head.fields, at),
            17 if same(name, b"if-modified-since") => {
                once(&mut head.conditions.if_modified_since, value);
            }
            17 if same(name, b"transfer-encoding") => {
                return self.framing.transfer_encoding(value).map_err(ambiguous);
            }
            19 if same(name, b"if-unmodified-since") => {
                once(&mut head.conditions.if_unmodified_since, value);
            }
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

/// What `httparse` refused, in our words.
#[cold]
fn fault_of(error: httparse::Error, bytes: &[u8], limits: &HeadLimits) -> HeadFault {
    match error {
        httparse::Error::TooManyHeaders => HeadFault::HeadTooLarge,
        httparse::Error::HeaderName | httparse::Error::HeaderValue => HeadFault::FieldLine,
        httparse::Error::Version => {
            let line = bytes.trim_ascii_start().split(|&byte| byte == b'\r').next();
            let mut words = line.unwrap_or(b"").split(|&byte| byte == b' ').skip(1);
            let target = words.next().map_or(0, <[u8]>::len);
            match (words.next(), words.next()) {
                _ if target > limits.target_bytes_max => HeadFault::TargetTooLong,
                (Some(version), None) if is_version(version) => HeadFault::Version,
                _ => HeadFault::RequestLine,
            }
        }
        _ => HeadFault::RequestLine,
    }
}

/// True for an HTTP version as RFC 9112 §2.3 writes it. That includes 1.2 to 1.9, which do not
/// exist: whoever sends one is told so instead of guessed at.
fn is_version(text: &[u8]) -> bool {
    matches!(text, [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'])
}
