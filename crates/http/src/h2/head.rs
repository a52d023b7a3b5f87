//! Field blocks of requests: decoded, validated (RFC 9113 §8.2, §8.3), and as slices of the texts
//! that they are in.
use super::{
    frame::ErrorCode,
    hpack::{DecodedField, HpackDecoder, HpackFault, Place, Texts},
    known::{FieldKind, SLOTS},
};
use crate::{
    FieldLines, Fields, Method,
    conditional::RequestConditions,
    field::decimal,
    h1::{Expectation, FIELDS_MAX, HeadFault, HeadLimits},
    priority::Priority,
    target::{self, Target},
};
use alloc::vec::Vec;

/// Head of a request, in slices of its block, of the decoder's table, and of scratch.
///
/// Values are as in [`RequestHead`](crate::h1::RequestHead): a field of one value that was given
/// twice is present with an empty value, except where noted.
#[derive(Clone, Copy, Debug)]
pub struct StreamHead<'a> {
    /// The method.
    pub method: Method,
    /// The method as written: a token.
    pub method_text: &'a [u8],
    /// `:path` as written, for logs; the authority for `CONNECT`.
    pub target: &'a [u8],
    /// Resource that the target names.
    pub names: Target<'a>,
    /// Host and port: from `:authority`, else from `Host`.
    pub host: Option<&'a [u8]>,
    /// `Content-Length`
    pub content_length: Option<u64>,
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
    /// `Priority`, if it was given.
    pub priority: Option<Priority>,
    /// Lines of the fields that are looked up by name, and of lists that were given in parts:
    ///
    /// * `Authorization`, `Accept`, `Sec-Fetch-Dest`, `Origin`, `Access-Control-Request-Method`,
    ///   `X-Forwarded-For`, `Forwarded`
    /// * `If-Match`, `If-None-Match`, `Accept-Encoding`, if given twice or more
    pub fields: Fields<'a>,
}

/// Room for the decoding of blocks, which a worker's connections share.
#[derive(Debug, Default)]
pub struct BlockScratch {
    /// Strings that were in the Huffman code.
    decoded: Vec<u8>,
    /// Field lines.
    lines: Vec<u8>,
}

impl BlockScratch {
    /// Bytes of memory held.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.decoded.capacity() + self.lines.capacity()
    }

    fn clear(&mut self) {
        self.decoded.clear();
        self.lines.clear();
    }
}

/// Reason why a field block makes no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockFault {
    /// The block cannot be decoded: the connection ends with `COMPRESSION_ERROR`.
    Compression(HpackFault),
    /// The request is malformed: its stream is reset with `PROTOCOL_ERROR` (RFC 9113 §8.1.1).
    Malformed(MalformedHead),
    /// The request is refused with the status of this fault. The connection can continue. With
    /// `head_only`, its method is `HEAD`.
    Refused {
        /// Reason of the status.
        fault: HeadFault,
        /// Whether the response must have no content.
        head_only: bool,
    },
}

impl BlockFault {
    /// The code to end the connection or the stream with; `None` for a request that is answered.
    #[must_use]
    pub const fn code(self) -> Option<ErrorCode> {
        match self {
            Self::Compression(_) => Some(ErrorCode::COMPRESSION_ERROR),
            Self::Malformed(_) => Some(ErrorCode::PROTOCOL_ERROR),
            Self::Refused { .. } => None,
        }
    }

    /// A few words for a log.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Compression(fault) => fault.reason(),
            Self::Malformed(fault) => fault.reason(),
            Self::Refused { fault, .. } => fault.reason(),
        }
    }
}

impl From<HpackFault> for BlockFault {
    fn from(fault: HpackFault) -> Self {
        Self::Compression(fault)
    }
}

/// Fault of a malformed request (RFC 9113 §8.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MalformedHead {
    /// A name that is no lower-case token, or that of an unknown pseudo-field.
    Name,
    /// A value that the field must not have, or no value of any field.
    Value,
    /// A field on the connection.
    ConnectionField,
    /// A pseudo-field given twice, behind other fields, or in trailers.
    PseudoField,
    /// A request without a pseudo-field that it needs, or with one that it must not have.
    NoPseudoField,
    /// A path that does not start with `/`.
    Path,
    /// `Host` given twice, or another one than `:authority`.
    Host,
    /// `Content-Length` given twice, no number, or another one than the length of the content.
    ContentLength,
}

impl MalformedHead {
    /// A few words for a log.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Name => "malformed field name",
            Self::Value => "malformed field value",
            Self::ConnectionField => "field on the connection",
            Self::PseudoField => "repeated or late pseudo-field",
            Self::NoPseudoField => "missing or forbidden pseudo-field",
            Self::Path => "malformed path",
            Self::Host => "repeated or contradictory Host",
            Self::ContentLength => "wrong Content-Length",
        }
    }
}

/// Decodes the whole field block of a request.
///
/// `fields_max` does not count pseudo-fields, and counts `cookie` once. `head_bytes_max` counts 32
/// bytes for each field, as the setting of it does (RFC 9113 §6.5.2).
///
/// # Errors
/// The request is not valid, or over a limit. The table is up to date all the same, unless the
/// fault is [`BlockFault::Compression`].
pub fn decode_request<'a>(
    decoder: &'a mut HpackDecoder,
    block: &'a [u8],
    limits: &HeadLimits,
    scratch: &'a mut BlockScratch,
) -> Result<StreamHead<'a>, BlockFault> {
    let mut draft = Draft::new(limits);
    decode(decoder, block, scratch, |field, texts, lines| {
        draft.take(field, texts, lines).map_err(|fault| draft.with_method(fault, texts))
    })?;
    let (decoder, scratch): (&'a HpackDecoder, &'a BlockScratch) = (decoder, scratch);
    let texts = decoder.texts(block, &scratch.decoded);
    draft.finish(texts, &scratch.lines).map_err(|fault| draft.with_method(fault, texts))
}

/// Decodes the field block behind a request's content, and forgets its fields.
///
/// # Errors
/// The trailers are not valid, or over a limit: see [`decode_request`].
pub fn decode_trailers(
    decoder: &mut HpackDecoder,
    block: &[u8],
    limits: &HeadLimits,
    scratch: &mut BlockScratch,
) -> Result<(), BlockFault> {
    let mut budget = FieldBudget::new(limits);
    decode(decoder, block, scratch, |field, _, _| {
        budget.spend(field)?;
        if field.kind.is_pseudo() {
            return Err(BlockFault::Malformed(MalformedHead::PseudoField));
        }
        Ok(())
    })
}

/// Decodes a block to its end, and passes fields to `take` until that finds a fault.
#[inline]
fn decode(
    decoder: &mut HpackDecoder,
    block: &[u8],
    scratch: &mut BlockScratch,
    mut take: impl FnMut(&DecodedField, Texts<'_>, &mut Vec<u8>) -> Result<(), BlockFault>,
) -> Result<(), BlockFault> {
    scratch.clear();
    let mut at = decoder.begin(block)?;
    loop {
        let before = scratch.decoded.len();
        let Some(field) = decoder.step(block, &mut at, &mut scratch.decoded)? else {
            return Ok(());
        };
        let texts = decoder.texts(block, &scratch.decoded);
        if let Err(fault) = take(&field, texts, &mut scratch.lines) {
            // The rest matters to the table alone.
            decoder.skip_rest(block, at, &mut scratch.decoded)?;
            scratch.clear();
            return Err(fault);
        }
        if !field.kind.is_read() {
            scratch.decoded.truncate(before);
        }
    }
}

/// Limits of a block, and how much of them its fields have used.
#[derive(Debug)]
struct FieldBudget {
    bytes: usize,
    bytes_max: usize,
    fields: usize,
    fields_max: usize,
    has_cookie: bool,
}

impl FieldBudget {
    fn new(limits: &HeadLimits) -> Self {
        let (bytes_max, fields_max) = (limits.head_bytes_max, limits.fields_max.min(FIELDS_MAX));
        Self { bytes: 0, bytes_max, fields: 0, fields_max, has_cookie: false }
    }

    /// Counts a field, and checks that it is valid.
    #[inline]
    fn spend(&mut self, field: &DecodedField) -> Result<(), BlockFault> {
        self.bytes = self.bytes.saturating_add(field.bytes);
        if self.bytes > self.bytes_max {
            return refused(HeadFault::HeadTooLarge);
        }
        match field.kind {
            FieldKind::Status | FieldKind::Malformed => return malformed(MalformedHead::Name),
            FieldKind::Connection => return malformed(MalformedHead::ConnectionField),
            _ if !field.is_valid => return malformed(MalformedHead::Value),
            kind if kind.is_pseudo() => return Ok(()),
            // Clients divide it, so that its parts can be indexed (RFC 9113 §8.2.3).
            FieldKind::Cookie if self.has_cookie => return Ok(()),
            FieldKind::Cookie => self.has_cookie = true,
            _ => {}
        }
        self.fields += 1;
        if self.fields > self.fields_max {
            return refused(HeadFault::TooManyFields);
        }
        Ok(())
    }
}

#[cold]
fn refused<T>(fault: HeadFault) -> Result<T, BlockFault> {
    Err(BlockFault::Refused { fault, head_only: false })
}

#[cold]
fn malformed<T>(fault: MalformedHead) -> Result<T, BlockFault> {
    Err(BlockFault::Malformed(fault))
}

/// Fields of a request, as far as its block has been decoded.
#[derive(Debug)]
struct Draft {
    budget: FieldBudget,
    target_bytes_max: usize,
    /// Places of values, by kind.
    slots: [Place; SLOTS],
    /// The kinds whose slot has a value.
    seen: u32,
    /// The kinds whose list is in lines.
    in_lines: u32,
    content_length: Option<u64>,
    expectation: Expectation,
    priority: Option<Priority>,
}

impl Draft {
    fn new(limits: &HeadLimits) -> Self {
        Self {
            budget: FieldBudget::new(limits),
            target_bytes_max: limits.target_bytes_max,
            slots: [Place::EMPTY; SLOTS],
            seen: 0,
            in_lines: 0,
            content_length: None,
            expectation: Expectation::None,
            priority: None,
        }
    }

    /// Takes a field.
    #[inline]
    fn take(
        &mut self,
        field: &DecodedField,
        texts: Texts<'_>,
        lines: &mut Vec<u8>,
    ) -> Result<(), BlockFault> {
        self.budget.spend(field)?;
        let kind = field.kind;
        if kind.is_pseudo() && self.budget.fields > 0 {
            return malformed(MalformedHead::PseudoField);
        }
        if let Some(slot) = self.slots.get_mut(kind as usize) {
            if self.seen & kind.bit() == 0 {
                self.seen |= kind.bit();
                *slot = field.value;
                return Ok(());
            }
            return self.repeat(field, texts, lines);
        }
        match kind {
            FieldKind::Te | FieldKind::Cookie | FieldKind::Other => {}
            FieldKind::ContentLength => {
                let length = decimal(texts.get(field.value));
                if length.is_none() || self.content_length.is_some() {
                    return malformed(MalformedHead::ContentLength);
                }
                self.content_length = length;
            }
            FieldKind::Expect => self.expectation.take(texts.get(field.value)),
            FieldKind::Priority => {
                self.priority.get_or_insert_default().take(texts.get(field.value));
            }
            _ => write_line(lines, kind, texts.get(field.value)),
        }
        Ok(())
    }

    /// Takes a field that came before.
    #[cold]
    fn repeat(
        &mut self,
        field: &DecodedField,
        texts: Texts<'_>,
        lines: &mut Vec<u8>,
    ) -> Result<(), BlockFault> {
        let (kind, at) = (field.kind, field.kind as usize);
        match kind {
            FieldKind::Host => return malformed(MalformedHead::Host),
            FieldKind::IfMatch | FieldKind::IfNoneMatch | FieldKind::AcceptEncoding => {
                if self.in_lines & kind.bit() == 0 {
                    self.in_lines |= kind.bit();
                    write_line(lines, kind, texts.get(self.slots[at]));
                }
                write_line(lines, kind, texts.get(field.value));
            }
            FieldKind::Referer | FieldKind::UserAgent => self.slots[at] = field.value,
            _ if kind.is_pseudo() => return malformed(MalformedHead::PseudoField),
            _ => self.slots[at] = Place::EMPTY,
        }
        Ok(())
    }

    /// Adds to a fault whether the method is `HEAD`.
    #[cold]
    fn with_method(&self, fault: BlockFault, texts: Texts<'_>) -> BlockFault {
        let BlockFault::Refused { fault, .. } = fault else { return fault };
        let is_known = self.seen & FieldKind::Method.bit() != 0;
        let method = texts.get(self.slots[FieldKind::Method as usize]);
        BlockFault::Refused { fault, head_only: is_known && method == b"HEAD" }
    }

    /// Makes the head of the fields.
    fn finish<'a>(&self, texts: Texts<'a>, lines: &'a [u8]) -> Result<StreamHead<'a>, BlockFault> {
        let value = |kind: FieldKind| {
            let is_present = self.seen & kind.bit() != 0;
            is_present.then(|| texts.get(self.slots[kind as usize]))
        };
        let fields = Fields::new(lines);
        let list = |kind: FieldKind| match (value(kind), kind.name()) {
            (Some(_), Some(name)) if self.in_lines & kind.bit() != 0 => {
                FieldLines::many(name, fields)
            }
            (only, _) => only.map_or(FieldLines::ABSENT, FieldLines::one),
        };
        let Some(method_text) = value(FieldKind::Method) else {
            return malformed(MalformedHead::NoPseudoField);
        };
        let method = Method::from_text(method_text);
        let (path, authority) = (value(FieldKind::Path), value(FieldKind::Authority));
        let scheme = value(FieldKind::Scheme);
        let (target, names) = match (method, scheme, path, authority) {
            (Method::Connect, None, None, Some(authority)) => tunnel(authority)?,
            (Method::Connect, ..) | (_, None, ..) | (_, _, None, _) => {
                return malformed(MalformedHead::NoPseudoField);
            }
            (_, Some(_), Some(path), _) => self.resource(method, path)?,
        };
        Ok(StreamHead {
            method,
            method_text,
            target,
            names,
            host: Some(one_host(authority, value(FieldKind::Host), scheme)?),
            content_length: self.content_length,
            expectation: self.expectation,
            conditions: RequestConditions {
                if_match: list(FieldKind::IfMatch),
                if_none_match: list(FieldKind::IfNoneMatch),
                if_modified_since: value(FieldKind::IfModifiedSince),
                if_unmodified_since: value(FieldKind::IfUnmodifiedSince),
                if_range: value(FieldKind::IfRange),
            },
            range: value(FieldKind::Range),
            accept_encoding: list(FieldKind::AcceptEncoding),
            referer: value(FieldKind::Referer),
            user_agent: value(FieldKind::UserAgent),
            priority: self.priority,
            fields,
        })
    }

    /// The resource that `:path` names (RFC 9113 §8.3.1).
    fn resource<'a>(
        &self,
        method: Method,
        path: &'a [u8],
    ) -> Result<(&'a [u8], Target<'a>), BlockFault> {
        let names = match path {
            [b'/', ..] => Target::Path(path),
            b"*" if method == Method::Options => Target::Server,
            _ => return malformed(MalformedHead::Path),
        };
        if path.len() > self.target_bytes_max {
            return refused(HeadFault::TargetTooLong);
        }
        Ok((path, names))
    }
}

/// The tunnel that `CONNECT` names (RFC 9113 §8.5).
#[cold]
fn tunnel(authority: &[u8]) -> Result<(&[u8], Target<'_>), BlockFault> {
    match target::parse(Method::Connect, authority) {
        Ok((names, _)) => Ok((authority, names)),
        Err(_) => malformed(MalformedHead::Value),
    }
}

/// The host of a request (RFC 9113 §8.3.1): one of them must be there, and both must say the same.
fn one_host<'a>(
    authority: Option<&'a [u8]>,
    host: Option<&'a [u8]>,
    scheme: Option<&[u8]>,
) -> Result<&'a [u8], BlockFault> {
    match (authority, host) {
        (Some(authority), Some(host)) if !is_same_host(authority, host, scheme) => {
            malformed(MalformedHead::Host)
        }
        (Some(host), _) | (None, Some(host)) => Ok(host),
        (None, None) => refused(HeadFault::Host),
    }
}

/// True if both name the same host and port. The port of the scheme may be left out, or be empty
/// (RFC 9110 §4.2.3).
fn is_same_host(one: &[u8], other: &[u8], scheme: Option<&[u8]>) -> bool {
    let port: &[u8] = match scheme {
        Some(b"https") => b"443",
        Some(b"http") => b"80",
        _ => b"",
    };
    let [one, other] = [one, other].map(|text| {
        let without = text.strip_suffix(port).unwrap_or(text);
        without.strip_suffix(b":").unwrap_or(text)
    });
    one.eq_ignore_ascii_case(other)
}

/// Appends a field line.
fn write_line(lines: &mut Vec<u8>, kind: FieldKind, value: &[u8]) {
    lines.extend_from_slice(kind.name().unwrap_or_default().as_bytes());
    lines.push(b':');
    lines.extend_from_slice(value);
    lines.push(b'\n');
}

/// Comparison of a request's content with its `Content-Length` (RFC 9113 §8.1.1).
#[derive(Clone, Copy, Debug)]
pub struct ContentTally {
    /// Bytes that are still to come, or [`Self::ANY`].
    rest: u64,
}

impl ContentTally {
    /// The request announces no length, or more than any content has.
    const ANY: u64 = u64::MAX;

    /// No content yet, of a request with this `Content-Length`.
    #[must_use]
    pub const fn new(content_length: Option<u64>) -> Self {
        match content_length {
            Some(rest) => Self { rest },
            None => Self { rest: Self::ANY },
        }
    }

    /// Takes the content of a DATA frame, without its padding.
    ///
    /// # Errors
    /// The content is longer than its announced length: the request is malformed.
    pub fn take(&mut self, bytes: u64) -> Result<(), MalformedHead> {
        if self.rest != Self::ANY {
            self.rest = self.rest.checked_sub(bytes).ok_or(MalformedHead::ContentLength)?;
        }
        Ok(())
    }

    /// Takes the end of the content.
    ///
    /// # Errors
    /// The content is shorter than its announced length: the request is malformed.
    pub const fn finish(self) -> Result<(), MalformedHead> {
        match self.rest {
            Self::ANY | 0 => Ok(()),
            _ => Err(MalformedHead::ContentLength),
        }
    }
}

#[cfg(test)]
mod tests;
