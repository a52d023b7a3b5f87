//! A request in the terms of RFC 9110, independent of the protocol.
use crate::Refusal;
use alloc::vec::Vec;
use core::ops::Range;
use regatta_http::{
    FieldLines, Fields, Method,
    conditional::RequestConditions,
    field::CopiedLines,
    h1::HeadFault,
    negotiate::media_weight,
    target::{Path, Target, decode_path},
};

/// View of a request for an exchange, over the values that a protocol has parsed.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method.
    pub method: Method,
    /// Resource that the request target names.
    pub target: Target<'a>,
    /// The conditional fields.
    pub conditions: &'a RequestConditions<'a>,
    /// `Range`
    pub range: Option<&'a [u8]>,
    /// `Accept-Encoding`
    pub accept_encoding: FieldLines<'a>,
    /// Purpose of the response.
    pub destination: Destination<'a>,
    /// True if `Expect` has an unknown expectation.
    pub expects_unknown: bool,
    /// True if its content is longer than the server discards.
    pub too_large: bool,
}

/// Purpose of the response, and the client's credentials.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    /// Fields with the answer, which are read only if it matters.
    Fields(Fields<'a>),
    /// Known values, from a protocol without fields or when the fields are gone.
    Known {
        /// True: a document to show.
        document: bool,
        /// True: JSON rather than HTML.
        json: bool,
        /// `Authorization`
        authorization: Option<&'a [u8]>,
    },
}

impl<'a> Destination<'a> {
    /// The credentials that it has.
    pub(crate) fn authorization(self) -> Option<&'a [u8]> {
        match self {
            Self::Fields(_) => self.field("authorization"),
            Self::Known { authorization, .. } => authorization,
        }
    }

    /// The value of the only field line of this name; `None` if there is none, more than one, or no
    /// field.
    pub(crate) fn field(self, name: &str) -> Option<&'a [u8]> {
        let Self::Fields(fields) = self else {
            return None;
        };
        let mut lines = fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        let found = lines.next()?;
        lines.next().is_none().then_some(found.value)
    }

    /// True if the fields say that a document is wanted.
    pub(crate) fn is_document(self) -> bool {
        let fields = match self {
            Self::Known { document, .. } => return document,
            Self::Fields(fields) => fields,
        };
        // A browser names its destination; other clients name the type.
        if let Some(destination) = fields.get("sec-fetch-dest") {
            return [&b"document"[..], b"iframe", b"frame"].contains(&destination);
        }
        accepts(fields).any(|value| value.split(|&b| b == b',').any(is_html))
    }

    /// True if the fields say that JSON is better than HTML.
    pub(crate) fn prefers_json(self) -> bool {
        match self {
            Self::Known { json, .. } => json,
            Self::Fields(fields) => {
                let weight = |of| media_weight(accepts(fields), of);
                weight("application/json") > weight("text/html")
            }
        }
    }
}

/// Values of `Accept`.
fn accepts(fields: Fields<'_>) -> impl Iterator<Item = &[u8]> {
    let lines = fields.iter().filter(|field| field.name.eq_ignore_ascii_case("accept"));
    lines.map(|field| field.value)
}

/// True for a member of `Accept` that is `text/html`, whatever its parameters.
fn is_html(member: &[u8]) -> bool {
    let media_type = member.split(|&byte| byte == b';').next().unwrap_or_default();
    media_type.trim_ascii().eq_ignore_ascii_case(b"text/html")
}

impl Request<'_> {
    /// The path of the requested file; it is decoded into `room` if necessary.
    ///
    /// # Errors
    /// The refusal of a request that names no file; `None` for one to the server itself.
    #[inline(always)]
    pub(crate) fn path<'b>(&'b self, room: &'b mut Vec<u8>) -> Result<Path<'b>, Option<Refusal>> {
        decode_path(self.raw_path()?, room).map_err(|_| Some(Refusal::Path))
    }

    /// The same, as it was sent.
    ///
    /// # Errors
    /// As [`Self::path`].
    #[inline(always)]
    pub(crate) const fn raw_path(&self) -> Result<&[u8], Option<Refusal>> {
        if !self.needs_file() {
            return Err(self.without_file());
        }
        match self.target {
            Target::Path(raw) => Ok(raw),
            _ => Err(Some(Refusal::Head(HeadFault::Target))),
        }
    }

    /// True if the request needs a file.
    #[inline(always)]
    pub(crate) const fn needs_file(&self) -> bool {
        self.method.is_get_or_head() && !self.expects_unknown && !self.too_large
    }

    /// The refusal of a request that needs no file; `None`: it is not refused.
    #[cold]
    const fn without_file(&self) -> Option<Refusal> {
        match self.method {
            Method::Other => Some(Refusal::UnknownMethod),
            Method::Get | Method::Head if self.expects_unknown => Some(Refusal::Expectation),
            Method::Get | Method::Head | Method::Options if self.too_large => {
                Some(Refusal::ContentTooLarge)
            }
            Method::Options => None,
            _ => Some(Refusal::Method),
        }
    }
}

/// The longest buffer that is kept while the response is sent, bytes.
const KEPT_BYTES_MAX: usize = 256;

/// A request and its path, kept while its exchange waits: all text in one buffer, which holds no
/// more than the request did, and its path once more.
#[derive(Debug, Default)]
pub(crate) struct OwnedRequest {
    text: Vec<u8>,
    method: Option<Method>,
    relative: Range<usize>,
    raw: Range<usize>,
    trailing_slash: bool,
    hidden: bool,
    /// Query, `If-Modified-Since`, `If-Unmodified-Since`, `If-Range`, `Range`, `Authorization`.
    values: [Option<Range<usize>>; 6],
    /// `If-Match`, `If-None-Match`, `Accept-Encoding`.
    lines: [CopiedLines; 3],
    document: bool,
    json: bool,
}

impl OwnedRequest {
    /// Keeps a request that names a file by this path, and its `credentials` if they may matter.
    #[cold]
    pub(crate) fn keep(
        &mut self,
        request: &Request<'_>,
        path: &Path<'_>,
        credentials: Option<&[u8]>,
    ) {
        self.clear();
        self.method = Some(request.method);
        self.document = request.destination.is_document();
        self.json = request.destination.prefers_json();
        (self.trailing_slash, self.hidden) = (path.trailing_slash, path.hidden);
        let text = &mut self.text;
        let mut keep = |bytes: &[u8]| {
            let start = text.len();
            text.extend_from_slice(bytes);
            start..text.len()
        };
        self.raw = keep(path.raw);
        self.relative = match path.raw {
            // As nearly all are: it is its own decoded form.
            [b'/', plain @ ..] if plain == path.relative => 1..self.raw.end,
            _ => keep(path.relative),
        };
        let RequestConditions {
            if_match,
            if_none_match,
            if_modified_since,
            if_unmodified_since,
            if_range,
        } = *request.conditions;
        let (query, range) = (path.query, request.range);
        self.values = [query, if_modified_since, if_unmodified_since, if_range, range, credentials]
            .map(|value| value.map(&mut keep));
        self.lines = [if_match, if_none_match, request.accept_encoding]
            .map(|lines| lines.copy_to(&mut self.text));
    }

    pub(crate) fn conditions(&self) -> RequestConditions<'_> {
        let [if_match, if_none_match, _] = self.lines();
        let [_, if_modified_since, if_unmodified_since, if_range, ..] = self.values();
        RequestConditions {
            if_match,
            if_none_match,
            if_modified_since,
            if_unmodified_since,
            if_range,
        }
    }

    /// The request; its conditions are [`Self::conditions`].
    pub(crate) fn request<'a>(&'a self, conditions: &'a RequestConditions<'a>) -> Request<'a> {
        let ([.., range, authorization], [_, _, accept_encoding]) = (self.values(), self.lines());
        Request {
            method: self.method.unwrap_or(Method::Other),
            target: Target::Path(&self.text[self.raw.clone()]),
            conditions,
            range,
            accept_encoding,
            destination: Destination::Known {
                document: self.document,
                json: self.json,
                authorization,
            },
            expects_unknown: false,
            too_large: false,
        }
    }

    pub(crate) fn path(&self) -> Path<'_> {
        let [query, ..] = self.values();
        Path {
            relative: &self.text[self.relative.clone()],
            raw: &self.text[self.raw.clone()],
            query,
            trailing_slash: self.trailing_slash,
            hidden: self.hidden,
        }
    }

    /// Forgets the request but not the buffer.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        *self = Self { text: core::mem::take(&mut self.text), ..Self::default() };
    }

    /// Forgets the request, and its buffer if that is a long one.
    pub(crate) fn release(&mut self) {
        if self.text.capacity() > KEPT_BYTES_MAX {
            self.text = Vec::new();
        }
        self.clear();
    }

    /// Bytes of memory held.
    pub(crate) const fn capacity(&self) -> usize {
        self.text.capacity()
    }

    fn values(&self) -> [Option<&[u8]>; 6] {
        self.values.each_ref().map(|at| at.clone().map(|at| &self.text[at]))
    }

    fn lines(&self) -> [FieldLines<'_>; 3] {
        self.lines.each_ref().map(|lines| lines.lines(&self.text))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use regatta_http::h1::{HeadLimits, RequestHead, parse_request};

    /// The request of a head that expects and announces nothing.
    pub(crate) fn request_of<'a>(head: &'a RequestHead<'_>) -> Request<'a> {
        Request {
            method: head.method,
            target: head.names,
            conditions: &head.conditions,
            range: head.range,
            accept_encoding: head.accept_encoding,
            destination: Destination::Fields(head.fields),
            expects_unknown: false,
            too_large: false,
        }
    }

    #[test]
    fn what_is_kept_is_what_was_asked() {
        let rows = [
            "GET /a HTTP/1.1\r\nHost: a\r\n\r\n",
            "HEAD /%61/./b%20c/?q=1 HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\nIf-Range: \"x\"\r\n\
             Accept: text/html\r\nAccept-Encoding: br\r\nAccept-Encoding: gzip;q=0\r\n\r\n",
            "GET /a/?after=b HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n",
            "GET http://a HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"a\r\nIf-None-Match: b\"\r\n\
             If-Match: *\r\nIf-Modified-Since: x\r\nIf-Unmodified-Since: y\r\n\r\n",
        ];
        let mut kept = OwnedRequest::default();
        for text in rows {
            let head = parse_request(text.as_bytes(), &HeadLimits::default()).expect(text);
            let request = request_of(&head);
            let mut room = Vec::new();
            let path = request.path(&mut room).expect(text);
            kept.keep(&request, &path, request.destination.authorization());
            let conditions = kept.conditions();
            let again = kept.request(&conditions);
            assert_eq!(kept.path(), path);
            assert_eq!((again.method, again.range), (request.method, request.range));
            let values =
                |lines: FieldLines<'_>| lines.values().map(<[u8]>::to_vec).collect::<Vec<_>>();
            let lists = |request: &Request<'_>| {
                let conditions = request.conditions;
                [conditions.if_match, conditions.if_none_match, request.accept_encoding].map(values)
            };
            assert_eq!(lists(&again), lists(&request));
            let dates = |of: &RequestConditions<'_>| {
                [of.if_modified_since, of.if_unmodified_since, of.if_range]
                    .map(|it| it.map(<[u8]>::to_vec))
            };
            assert_eq!(dates(again.conditions), dates(request.conditions));
            assert_eq!(again.destination.is_document(), request.destination.is_document());
            assert_eq!(again.destination.prefers_json(), request.destination.prefers_json());
            assert_eq!(again.destination.authorization(), request.destination.authorization());
            assert!(kept.text.len() <= text.len() + path.relative.len());
        }
    }
}
