//! What a request head says of the course of its connection (RFC 9112 §9.3).
use crate::{Site, reply::Persistence};
use regatta_http::{
    Method,
    h1::{Body, Expectation, HeadLimits, RequestHead, Version},
};

/// How large a head may be.
#[inline]
pub(crate) const fn head_limits(site: &Site) -> HeadLimits {
    HeadLimits {
        head_bytes_max: site.limits.head_bytes_max,
        target_bytes_max: site.limits.target_bytes_max,
        fields_max: site.limits.fields_max,
    }
}

/// What becomes of a connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The next request.
    KeepAlive,
    /// We end it, and the peer may not expect that: half-close, then discard what comes.
    Linger,
    /// The peer said that it is done.
    Close,
}

/// What one request means for its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    pub(crate) after: After,
    pub(crate) persistence: Persistence,
    pub(crate) content: Announced,
}

/// The content that a request announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// None.
    None,
    /// Some, to be discarded before the response is sent.
    Some,
    /// Some that waits for `100 Continue`.
    Withheld,
    /// More than is discarded.
    TooLarge,
}

impl Course {
    /// That of a `CONNECT`: what follows it is meant for the other end of a tunnel that there is
    /// not, is no content and no request, and is not looked at (RFC 9110 §9.3.6).
    const NO_TUNNEL: Self = Self {
        after: After::Linger,
        persistence: Persistence::Close,
        content: Announced::Withheld,
    };

    /// [`Course::of`] for a request of any method, such as those that ask for no file.
    pub(crate) fn of_any(head: &RequestHead<'_>, last: bool, site: &Site) -> Self {
        match head.method {
            Method::Connect => Self::NO_TUNNEL,
            _ => Self::of(head, last, site),
        }
    }

    /// Decides, for all methods but `CONNECT`. `last` is true if no further request is wanted
    /// whatever this one says.
    ///
    /// A client that waits for `100 Continue` gets the final status instead (RFC 9110 §10.1.1):
    /// no content has a meaning here. Whether it then sends the content is not known, so the
    /// connection ends; it does not if no content was announced.
    #[inline]
    pub(crate) fn of(head: &RequestHead<'_>, last: bool, site: &Site) -> Self {
        let content = match head.body {
            Body::None | Body::Length(0) => Announced::None,
            Body::Length(length) if length > site.limits.drain_body_bytes_max => {
                Announced::TooLarge
            }
            _ if head.expectation == Expectation::Continue => Announced::Withheld,
            Body::Length(_) | Body::Chunked => Announced::Some,
        };
        let readable = matches!(content, Announced::None | Announced::Some);
        let after = if last || !readable {
            After::Linger
        } else if head.persistent {
            After::KeepAlive
        } else {
            After::Close
        };
        let persistence = match (after, head.version) {
            (After::KeepAlive, Version::Http11) => Persistence::Implied,
            (After::KeepAlive, Version::Http10) => Persistence::Told,
            (After::Linger | After::Close, _) => Persistence::Close,
        };
        Self { after, persistence, content }
    }

    pub(crate) fn is_too_large(&self) -> bool {
        self.content == Announced::TooLarge
    }
}
