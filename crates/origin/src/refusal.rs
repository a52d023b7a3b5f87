//! Reasons to refuse a request, whatever file it asks for.
use regatta_http::{Status, h1::HeadFault};

/// Reason why a request is refused, whatever file it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Malformed or too large head.
    Head(HeadFault),
    /// Head not received in time.
    HeadDeadline,
    /// Content not received in time.
    ContentDeadline,
    /// Content longer than the server discards.
    ContentTooLarge,
    /// Malformed chunks.
    Chunks,
    /// Path that cannot be decoded, or leads out of the root.
    Path,
    /// Known method that is not served.
    Method,
    /// Unknown method.
    UnknownMethod,
    /// Unknown expectation.
    Expectation,
    /// The server has too much to do.
    Overload,
    /// Client with too many connections or requests.
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

    /// Name of the refusal for a log: a lower-case word.
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
