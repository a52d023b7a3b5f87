//! Why a request is refused, whatever file it asks for.
use regatta_http::{Status, h1::HeadFault};

/// Why a request is refused, whatever file it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its head is malformed or too large.
    Head(HeadFault),
    /// Its head did not come in time.
    HeadDeadline,
    /// Its content did not come in time.
    ContentDeadline,
    /// Its content is longer than the server discards.
    ContentTooLarge,
    /// Its chunks are malformed.
    Chunks,
    /// Its path cannot be decoded, or leads out of the root.
    Path,
    /// Its method is known but not served.
    Method,
    /// Its method is not known.
    UnknownMethod,
    /// It has an expectation that is not known.
    Expectation,
    /// The server has too much to do.
    Overload,
    /// Its client has too many connections, or sends too many requests.
    TooMany,
}

impl Refusal {
    /// The status to answer with.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::Head(fault) => fault.status(),
            Self::HeadDeadline | Self::ContentDeadline => Status::REQUEST_TIMEOUT,
            Self::ContentTooLarge => Status::CONTENT_TOO_LARGE,
            Self::Chunks | Self::Path => Status::BAD_REQUEST,
            Self::Method => Status::METHOD_NOT_ALLOWED,
            Self::UnknownMethod => Status::NOT_IMPLEMENTED,
            Self::Expectation => Status::EXPECTATION_FAILED,
            Self::Overload => Status::SERVICE_UNAVAILABLE,
            Self::TooMany => Status::TOO_MANY_REQUESTS,
        }
    }

    /// One lower-case word, for a log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Head(fault) => fault.name(),
            Self::HeadDeadline => "head-deadline",
            Self::ContentDeadline => "content-deadline",
            Self::ContentTooLarge => "content-too-large",
            Self::Chunks => "chunks",
            Self::Path => "path",
            Self::Method => "method",
            Self::UnknownMethod => "unknown-method",
            Self::Expectation => "expectation",
            Self::Overload => "overload",
            Self::TooMany => "too-many",
        }
    }

    /// A few words for the page.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Head(fault) => fault.reason(),
            Self::HeadDeadline => "the request head did not come in time",
            Self::ContentDeadline => "the request's content did not come in time",
            Self::ContentTooLarge => "the request's content is too large",
            Self::Chunks => "malformed chunks",
            Self::Path => "invalid path",
            Self::Method => "the method is not allowed here",
            Self::UnknownMethod => "unknown method",
            Self::Expectation => "unknown expectation",
            Self::Overload => "the server has too much to do",
            Self::TooMany => "too many connections or requests from your address",
        }
    }
}
