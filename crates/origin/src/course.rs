//! Effects of an HTTP/1 request head on its connection (RFC 9112 §9.3).
use crate::{Destination, Limits, Request, Site, reply_rules::ReplyRules};
use regatta_http::{
    Method,
    h1::{Expectation, HeadLimits, RequestBody, RequestHead, Version},
};

/// Limits on the size of a head.
#[inline]
pub(crate) const fn head_limits(site: &Site) -> HeadLimits {
    HeadLimits {
        head_bytes_max: site.limits.head_bytes_max,
        target_bytes_max: site.limits.target_bytes_max,
        fields_max: site.limits.fields_max,
    }
}

/// Fate of a connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The next request.
    KeepAlive,
    /// We end it, which the peer may not expect: half-close, then discard.
    Linger,
    /// The peer asked for the end.
    Close,
}

/// Statement of the response about the connection (RFC 9112 §9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// Persistent, which HTTP/1.1 implies.
    Implied,
    /// Persistent, which must be stated for HTTP/1.0.
    Stated,
    /// Closed after the response.
    Close,
}

/// Effects of one request on its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    pub(crate) after: After,
    pub(crate) persistence: Persistence,
    pub(crate) content: Announced,
    /// Rules for the reply to it.
    pub(crate) rules: ReplyRules,
}

/// The content that a request announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// None.
    None,
    /// Content to discard before the response is sent.
    Some(RequestBody),
    /// Content that waits for `100 Continue`.
    Withheld,
    /// More than the server discards.
    TooLarge,
}

impl Default for Course {
    fn default() -> Self {
        let (after, persistence) = (After::KeepAlive, Persistence::Implied);
        Self { after, persistence, content: Announced::None, rules: ReplyRules::default() }
    }
}

impl Course {
    /// Decides all but the rules for the reply. `last` is true if the connection ends after this
    /// request in any case.
    ///
    /// A client that waits for `100 Continue` gets the final status instead (RFC 9110 §10.1.1): the
    /// server has no use for content. The client may send the content or not, so the connection
    /// ends, unless no content was announced. Bytes after a `CONNECT` are neither content nor
    /// requests, and are not parsed (RFC 9110 §9.3.6).
    #[inline]
    pub(crate) fn decide(head: &RequestHead<'_>, last: bool, limits: &Limits) -> Self {
        let content = match head.body {
            _ if head.method == Method::Connect => Announced::Withheld,
            RequestBody::None | RequestBody::Length(0) => Announced::None,
            RequestBody::Length(length) if length > limits.discard_body_bytes_max => {
                Announced::TooLarge
            }
            _ if head.expectation == Expectation::Continue => Announced::Withheld,
            RequestBody::Length(_) | RequestBody::Chunked => Announced::Some(head.body),
        };
        let readable = matches!(content, Announced::None | Announced::Some(_));
        let after = if last || !readable {
            After::Linger
        } else if head.persistent {
            After::KeepAlive
        } else {
            After::Close
        };
        let persistence = match (after, head.version) {
            (After::KeepAlive, Version::Http11) => Persistence::Implied,
            (After::KeepAlive, Version::Http10) => Persistence::Stated,
            (After::Linger | After::Close, _) => Persistence::Close,
        };
        Self { after, persistence, content, rules: ReplyRules::default() }
    }

    /// The same, but the connection ends.
    pub(crate) const fn ending(self) -> Self {
        Self { after: After::Linger, persistence: Persistence::Close, ..self }
    }

    /// The request, for the exchange.
    #[inline(always)]
    pub(crate) fn request<'a>(&self, head: &'a RequestHead<'_>) -> Request<'a> {
        Request {
            method: head.method,
            target: head.names,
            conditions: &head.conditions,
            range: head.range,
            accept_encoding: head.accept_encoding,
            destination: Destination::Fields(head.fields),
            expects_unknown: head.expectation == Expectation::Unknown,
            too_large: self.content == Announced::TooLarge,
        }
    }
}
