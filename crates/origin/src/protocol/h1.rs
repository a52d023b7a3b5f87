//! HTTP/1.1 and 1.0: what a request head says of its connection (RFC 9112 §9.3).
use crate::{
    Site,
    reply::Persistence,
    work::{Content, ContentFault},
};
use regatta_http::h1::{Expectation, HeadLimits, RequestHead, Version};

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
    /// Content to discard before the response is sent.
    pub(crate) content: Content,
    /// True if the content is too large to be discarded.
    pub(crate) too_large: bool,
}

impl Course {
    /// Decides. `last` is true if no further request is wanted whatever this one says.
    ///
    /// A client that waits for `100 Continue` gets the final status instead (RFC 9110 §10.1.1):
    /// no content has a meaning here. Whether it then sends the content is not known, so the
    /// connection ends; it does not if no content was announced.
    #[inline]
    pub(crate) fn of(head: &RequestHead<'_>, last: bool, site: &Site) -> Self {
        let announced = Content::announced(head.body, site.limits.drain_body_bytes_max);
        let too_large = announced == Err(ContentFault::TooLarge);
        let mut content = announced.unwrap_or_default();
        let withheld = content != Content::None && head.expectation == Expectation::Continue;
        if withheld {
            content = Content::None;
        }
        let after = if last || too_large || withheld {
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
        Self { after, persistence, content, too_large }
    }
}
