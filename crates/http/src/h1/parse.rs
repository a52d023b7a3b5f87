//! Request heads (RFC 9112 §3, §5): one parser, [`parse_into`], and the entrances to it.
//!
//! | entrance | for | from |
//! |---|---|---|
//! | [`Seen::parse_into`](super::Seen::parse_into) | what a peer sends: every request | `origin` |
//! | [`parse_into`] | what `Seen` has not seen | `Seen`, [`parse_first`] |
//! | `line_into` | a request line before fields that `Seen` has seen | `Seen` |
//! | [`parse_first`] | a head with anything behind it | [`parse_request`], fuzzing |
//! | [`parse_request`] | one whole head | `explain` |
use super::{
    RequestBody, Scan, Version,
    framing::{Ambiguous, Framing},
    scan::{scan_head, skip_empty_lines},
};
use crate::{
    FieldLines, Fields, Method, Status,
    conditional::RequestConditions,
    field::{members, same},
    target::{self, Target, TargetFault},
};
use alloc::vec;
use core::mem::MaybeUninit;
use memchr::memchr_iter;

/// The most field lines that a request head may have, whatever the limits say.
pub const FIELDS_MAX: usize = 1024;

/// Field lines that fit on the stack while a head is parsed. If a request has more, its field
/// section is parsed again, with room from the heap.
pub const FIELDS_USUAL: usize = 64;

/// Limits on the size of a request head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the whole head, with its blank line.
    pub head_bytes_max: usize,
    /// Bytes of the request target.
    pub target_bytes_max: usize,
    /// Field lines; more than [`FIELDS_MAX`] means that many.
    pub fields_max: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self { head_bytes_max: 16 << 10, target_bytes_max: 8 << 10, fields_max: FIELDS_USUAL }
    }
}

/// Reason why a request head is refused. The connection cannot continue after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeadFault {
    /// No request line, or not a proper one.
    RequestLine,
    /// A field line that is not one: folded, a space before the colon, a control character.
    FieldLine,
    /// `Host` missing (HTTP/1.1), given twice, or not a host.
    Host,
    /// Unclear end of the content: `Content-Length` or `Transfer-Encoding`.
    Framing,
    /// A request target of no allowed form.
    Target,
    /// The request target is over `target_bytes_max`.
    TargetTooLong,
    /// The head is over `head_bytes_max`.
    HeadTooLarge,
    /// The head has more than `fields_max` field lines.
    TooManyFields,
    /// An HTTP version that this server does not support.
    Version,
    /// The start of TLS: a client expects `https:` on a port without it.
    Tls,
}

impl HeadFault {
    /// The status to answer with: 400, 414, 431 or 505.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::RequestLine | Self::FieldLine | Self::Host | Self::Framing => Status::BAD_REQUEST,
            Self::Target | Self::Tls => Status::BAD_REQUEST,
            Self::TargetTooLong => Status::URI_TOO_LONG,
            Self::HeadTooLarge | Self::TooManyFields => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Version => Status::HTTP_VERSION_NOT_SUPPORTED,
        }
    }

    /// Name of the fault for a log: a lower-case word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RequestLine => "request-line",
            Self::FieldLine => "field-line",
            Self::Host => "host",
            Self::Framing => "framing",
            Self::Target => "target",
            Self::TargetTooLong => "target-too-long",
            Self::HeadTooLarge => "head-too-large",
            Self::TooManyFields => "too-many-fields",
            Self::Version => "version",
            Self::Tls => "tls",
        }
    }

    /// A few words for an error page.
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
            Self::TooManyFields => "too many field lines",
            Self::Version => "HTTP version not supported",
            Self::Tls => "this port speaks HTTP, not HTTPS",
        }
    }

    /// The fault of a head that has no end within `head_bytes_max`; `bytes` are those received.
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

/// Expectation of a request before it sends its content (RFC 9110 §10.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// Nothing.
    None,
    /// `100-continue`, in HTTP/1.1; HTTP/1.0 has no such thing.
    Continue,
    /// Something else: 417 may be answered.
    Unknown,
}

impl Expectation {
    /// Takes an `Expect` line: a list with `100-continue` as its only known member.
    pub(crate) fn take(&mut self, value: &[u8]) {
        for member in members(value) {
            let known = member.eq_ignore_ascii_case(b"100-continue");
            *self = match *self {
                Self::None | Self::Continue if known => Self::Continue,
                _ => Self::Unknown,
            };
        }
    }
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
    /// Resource that the request target names.
    pub names: Target<'a>,
    /// The protocol version.
    pub version: Version,
    /// Host and port: from an absolute-form target, else from `Host`; may be empty.
    pub host: Option<&'a [u8]>,
    /// The content that follows.
    pub body: RequestBody,
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

impl RequestHead<'_> {
    /// A head before parsing: for [`parse_into`].
    ///
    /// A function, so that only the tags of absent fields are written, and not 280 bytes.
    #[must_use]
    #[inline(always)]
    pub const fn unread() -> Self {
        Self {
            method: Method::Other,
            method_text: "",
            target: b"",
            names: Target::Server,
            version: Version::Http11,
            host: None,
            body: RequestBody::None,
            persistent: false,
            expectation: Expectation::None,
            conditions: RequestConditions::none(),
            range: None,
            accept_encoding: FieldLines::absent(),
            referer: None,
            user_agent: None,
            fields: Fields::new(b""),
            head_bytes: 0,
        }
    }
}

/// Parses `bytes`, which must be exactly one head as [`super::scan_head`] finds it.
///
/// # Errors
/// [`HeadFault`] names the fault and the status to answer with. After any of them the connection
/// must be closed: where the next request would start is not known.
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

/// Parses the head that `bytes` start with; `None` if its end has not come, and the bytes so far
/// are valid. Bytes behind it start at [`RequestHead::head_bytes`].
///
/// Parsing finds everything that [`super::scan_head`] refuses, so a head that came whole needs no
/// scan. An incomplete one is parsed from its start again: scan it until its end has come. The
/// caller limits how much it keeps of a head without an end: [`HeadFault::oversized`].
pub fn parse_first<'a>(
    bytes: &'a [u8],
    limits: &HeadLimits,
) -> Result<Option<RequestHead<'a>>, HeadFault> {
    let mut head = RequestHead::unread();
    Ok(parse_into(bytes, limits, &mut head)?.then_some(head))
}

/// [`parse_first`] into `head`, which must be [`RequestHead::unread`]: it is large and should not
/// be copied. True if the head is complete; otherwise `head` is of no use.
pub fn parse_into<'a>(
    bytes: &'a [u8],
    limits: &HeadLimits,
    head: &mut RequestHead<'a>,
) -> Result<bool, HeadFault> {
    let start = skip_empty_lines(bytes).ok_or(HeadFault::RequestLine)?;
    let text = &bytes[start..];
    let mut slots = [const { MaybeUninit::uninit() }; FIELDS_USUAL];
    let mut request = httparse::Request::new(&mut []);
    let slots = &mut slots[..limits.fields_max.min(FIELDS_USUAL)];
    let parsed = request.parse_with_uninit_headers(text, slots);
    if request.path.is_some_and(|target| target.len() > limits.target_bytes_max) {
        return Err(HeadFault::TargetTooLong);
    }
    match parsed {
        Ok(httparse::Status::Complete(len)) => {
            let fields = section(&text[..len], request.headers);
            head.fields = fields.ok_or_else(|| line_fault(text, &request))?;
            head.head_bytes = start + len;
            if head.head_bytes > limits.head_bytes_max {
                return Err(HeadFault::HeadTooLarge);
            }
            begin(head, &request)?;
            read_fields(head, request.headers)?;
            Ok(true)
        }
        Ok(httparse::Status::Partial) => match scan_head(text, 0) {
            Scan::Partial => Ok(false),
            Scan::End(_) | Scan::Bad => Err(line_fault(text, &request)),
        },
        Err(httparse::Error::Version) if is_later_minor(after_target(text, &request)) => {
            request.headers = &mut [];
            request.version = Some(1);
            parse_apart(text, start, limits, &request, head)
        }
        Err(httparse::Error::TooManyHeaders) if limits.fields_max > FIELDS_USUAL => {
            request.headers = &mut [];
            parse_apart(text, start, limits, &request, head)
        }
        Err(error) => refused(text, &request, error),
    }
}

/// Parses the field section alone, with room from the heap, for [`parse_into`]. It needs this for
/// more than [`FIELDS_USUAL`] lines, and behind a later minor version of HTTP/1, which is read as
/// the latest known one (RFC 9110 §6.2). `request` has the request line.
#[cold]
#[inline(never)]
fn parse_apart<'a>(
    text: &'a [u8],
    start: usize,
    limits: &HeadLimits,
    request: &httparse::Request<'_, 'a>,
    head: &mut RequestHead<'a>,
) -> Result<bool, HeadFault> {
    let line_end = after_target(text, request).ok_or(HeadFault::RequestLine)?;
    let after = match line_end.get(b"HTTP/1.2".len()..) {
        Some([b'\r', b'\n', fields @ ..]) => fields,
        None | Some([] | [b'\r']) => return Ok(false),
        Some(_) => return Err(HeadFault::RequestLine),
    };
    // No more room than there are lines; the last may have no end yet.
    let lines = memchr_iter(b'\n', after).count() + 1;
    let mut slots = vec![httparse::EMPTY_HEADER; lines.min(limits.fields_max).min(FIELDS_MAX)];
    match httparse::parse_headers(after, &mut slots) {
        Ok(httparse::Status::Complete((len, lines))) => {
            let len = text.len() - after.len() + len;
            head.fields = section(&text[..len], lines).ok_or(HeadFault::FieldLine)?;
            head.head_bytes = start + len;
            if head.head_bytes > limits.head_bytes_max {
                return Err(HeadFault::HeadTooLarge);
            }
            begin(head, request)?;
            read_fields(head, lines)?;
            Ok(true)
        }
        Ok(httparse::Status::Partial) => match scan_head(text, 0) {
            Scan::Partial => Ok(false),
            Scan::End(_) | Scan::Bad => Err(HeadFault::FieldLine),
        },
        Err(httparse::Error::TooManyHeaders) => Err(HeadFault::TooManyFields),
        Err(_) => Err(HeadFault::FieldLine),
    }
}

/// True if HTTP/1.2 to HTTP/1.9 follows the request target.
fn is_later_minor(after_target: Option<&[u8]>) -> bool {
    let version = after_target.and_then(|rest| rest.strip_prefix(b"HTTP/1."));
    version.is_some_and(|minor| matches!(minor, [b'2'..=b'9', ..]))
}

/// Reads `line` into `head`, if it is a request line with its line end and nothing more. False if
/// not: [`parse_into`] then finds the fault.
#[inline(always)]
pub(super) fn line_into<'a>(
    line: &'a [u8],
    limits: &HeadLimits,
    head: &mut RequestHead<'a>,
) -> bool {
    let mut request = httparse::Request::new(&mut []);
    // Partial, because no field lines follow.
    let parsed = request.parse_with_uninit_headers(line, &mut []);
    let Some(target) = request.path else { return false };
    let before_target = request.method.map_or(0, str::len) + b" ".len();
    matches!(parsed, Ok(httparse::Status::Partial))
        && line.len() == before_target + target.len() + b" HTTP/1.1\r\n".len()
        && line.ends_with(b"\r\n")
        && target.len() <= limits.target_bytes_max
        && begin(head, &request).is_ok()
}

/// Reads the request line into `head`.
#[inline(always)]
fn begin<'a>(
    head: &mut RequestHead<'a>,
    request: &httparse::Request<'_, 'a>,
) -> Result<(), HeadFault> {
    let (Some(method_text), Some(target), Some(minor)) =
        (request.method, request.path, request.version)
    else {
        return Err(HeadFault::RequestLine);
    };
    let (method, target) = (Method::from_text(method_text.as_bytes()), target.as_bytes());
    (head.method, head.method_text, head.target) = (method, method_text, target);
    head.version = if minor == 0 { Version::Http10 } else { Version::Http11 };
    let (names, authority) =
        target::parse(method, target).map_err(|TargetFault| HeadFault::Target)?;
    (head.names, head.host) = (names, authority);
    Ok(())
}

/// Reads the field lines into `head`.
#[inline(always)]
fn read_fields<'a>(
    head: &mut RequestHead<'a>,
    lines: &[httparse::Header<'a>],
) -> Result<(), HeadFault> {
    let authority = head.host.take();
    let (mut framing, mut connection) = (Framing::default(), Options::NONE);
    for line in lines {
        read_field(head, line, &mut framing, &mut connection)?;
    }
    head.body = framing.body(head.version).map_err(ambiguous)?.unwrap_or(RequestBody::None);
    head.persistent = connection.persistent(head.version);
    match head.version {
        Version::Http11 if head.host.is_none() => return Err(HeadFault::Host),
        Version::Http11 => {}
        Version::Http10 => head.expectation = Expectation::None,
    }
    if authority.is_some() {
        head.host = authority;
    }
    Ok(())
}

/// The field section of `text`, exactly one head, with its `lines` in order; `None` unless each
/// line of the head, the request or status line with them, ends in CRLF.
///
/// Each line starts where the one before it ended, after an LF, so that only the byte before that
/// is in question. Inside a line `httparse` takes neither CR nor LF.
#[inline(always)]
pub(super) fn section<'a>(text: &'a [u8], lines: &[httparse::Header<'a>]) -> Option<Fields<'a>> {
    let blank = text.strip_suffix(b"\r\n")?;
    let mut good = blank.ends_with(b"\r\n");
    let mut start = blank.len();
    for line in lines.iter().rev() {
        start = offset(text, line.name.as_bytes());
        good &= text[..start].ends_with(b"\r\n");
    }
    good.then(|| Fields::new(&blank[start..]))
}

/// Offset of `part` in `text`, which contains it.
#[inline]
fn offset(text: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

/// True if `rest` starts with an HTTP version that is neither 1.0 nor 1.1 (RFC 9112 §2.3).
pub(super) fn is_unknown_version(rest: &[u8]) -> bool {
    match rest {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0' | b'1', ..] => false,
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9', ..] => true,
        _ => false,
    }
}

/// The fault of a head that `httparse` refuses; false if more bytes may make it valid.
#[cold]
fn refused(
    text: &[u8],
    request: &httparse::Request<'_, '_>,
    error: httparse::Error,
) -> Result<bool, HeadFault> {
    use httparse::Error;
    match error {
        Error::Version => match after_target(text, request) {
            Some(rest) if is_unknown_version(rest) => Err(HeadFault::Version),
            // `HTTP/2` is refused before it is known whether it is a version.
            Some(rest) if rest.len() < 8 && rest.iter().all(u8::is_ascii_graphic) => Ok(false),
            _ => Err(HeadFault::RequestLine),
        },
        Error::TooManyHeaders => Err(HeadFault::TooManyFields),
        Error::HeaderName | Error::HeaderValue => Err(HeadFault::FieldLine),
        Error::NewLine => Err(line_fault(text, request)),
        // A handshake record of TLS, of any version (RFC 8446 §5.1).
        Error::Token if matches!(text, [0x16] | [0x16, 3, ..]) => Err(HeadFault::Tls),
        Error::Token | Error::Status => Err(HeadFault::RequestLine),
    }
}

/// The fault of a head with a wrong line end: of the request line or of a field line.
#[cold]
fn line_fault(text: &[u8], request: &httparse::Request<'_, '_>) -> HeadFault {
    match after_target(text, request).and_then(|rest| rest.get(8..)) {
        Some([b'\r', b'\n', ..]) => HeadFault::FieldLine,
        _ => HeadFault::RequestLine,
    }
}

/// Bytes behind the request target and its space, if that much was parsed.
fn after_target<'a>(text: &'a [u8], request: &httparse::Request<'_, '_>) -> Option<&'a [u8]> {
    let target = request.path?;
    text.get(offset(text, target.as_bytes()) + target.len() + 1..)
}

/// Takes a field line into `head`. Fields of nearly every request are taken here, and those without
/// a meaning here are skipped; the rest is out of the way.
#[inline(always)]
fn read_field<'a>(
    head: &mut RequestHead<'a>,
    line: &httparse::Header<'a>,
    framing: &mut Framing,
    connection: &mut Options,
) -> Result<(), HeadFault> {
    let (name, value) = (line.name.as_bytes(), line.value);
    match name {
        b"Host" => host(&mut head.host, value),
        b"Referer" => {
            head.referer = Some(value);
            Ok(())
        }
        b"User-Agent" => {
            head.user_agent = Some(value);
            Ok(())
        }
        b"Connection" if value == b"keep-alive" => {
            connection.keep_alive = true;
            Ok(())
        }
        b"Accept-Encoding" if head.accept_encoding.is_absent() => {
            head.accept_encoding = FieldLines::one(value);
            Ok(())
        }
        [first, ..] if INITIALS[name.len() & 31] & initial(*first) != 0 => {
            take_other(head, line, framing, connection)
        }
        _ => Ok(()),
    }
}

/// A bit for a letter, whatever its case; other characters share them.
const fn initial(letter: u8) -> u32 {
    1 << (letter & 31)
}

/// The first letters of the names with a meaning here, by the length of the name.
static INITIALS: [u32; 32] = {
    let mut initials = [0; 32];
    initials[4] = initial(b'H');
    initials[5] = initial(b'R');
    initials[6] = initial(b'E');
    initials[7] = initial(b'R');
    initials[8] = initial(b'I');
    initials[10] = initial(b'C') | initial(b'U');
    initials[13] = initial(b'I');
    initials[14] = initial(b'C');
    initials[15] = initial(b'A');
    initials[17] = initial(b'I') | initial(b'T');
    initials[19] = initial(b'I');
    initials
};

/// [`take`] for any field, however its name is written.
#[inline(never)]
fn take_other<'a>(
    head: &mut RequestHead<'a>,
    line: &httparse::Header<'a>,
    framing: &mut Framing,
    connection: &mut Options,
) -> Result<(), HeadFault> {
    let (name, value, fields) = (line.name.as_bytes(), line.value, head.fields);
    let conditions = &mut head.conditions;
    match name.len() {
        4 if same(name, b"Host") => return host(&mut head.host, value),
        5 if same(name, b"Range") => once(&mut head.range, value),
        6 if same(name, b"Expect") => head.expectation.take(value),
        7 if same(name, b"Referer") => head.referer = Some(value),
        8 if same(name, b"If-Match") => conditions.if_match.extend(line.name, value, fields),
        8 if same(name, b"If-Range") => once(&mut conditions.if_range, value),
        10 if same(name, b"Connection") => connection.read(value),
        10 if same(name, b"User-Agent") => head.user_agent = Some(value),
        13 if same(name, b"If-None-Match") => {
            conditions.if_none_match.extend(line.name, value, fields)
        }
        14 if same(name, b"Content-Length") => {
            return framing.content_length(value).map_err(ambiguous);
        }
        15 if same(name, b"Accept-Encoding") => {
            head.accept_encoding.extend(line.name, value, fields)
        }
        17 if same(name, b"If-Modified-Since") => once(&mut conditions.if_modified_since, value),
        17 if same(name, b"Transfer-Encoding") => {
            return framing.transfer_encoding(value).map_err(ambiguous);
        }
        19 if same(name, b"If-Unmodified-Since") => {
            once(&mut conditions.if_unmodified_since, value)
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
    pub(super) fn read(&mut self, value: &[u8]) {
        if same(value, b"keep-alive") {
            self.keep_alive = true;
        } else {
            self.read_list(value);
        }
    }

    fn read_list(&mut self, value: &[u8]) {
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
