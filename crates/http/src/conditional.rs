//! Conditional requests (RFC 9110 §13).
use crate::{
    FieldLines, Method, date,
    etag::{self, Comparison, EntityTag},
};

/// The conditional fields of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestConditions<'a> {
    /// `If-Match`
    pub if_match: FieldLines<'a>,
    /// `If-None-Match`
    pub if_none_match: FieldLines<'a>,
    /// `If-Modified-Since`; empty, which is no date, if it was given twice.
    pub if_modified_since: Option<&'a [u8]>,
    /// `If-Unmodified-Since`; empty, which is no date, if it was given twice.
    pub if_unmodified_since: Option<&'a [u8]>,
    /// `If-Range`; empty, which never matches, if it was given twice.
    pub if_range: Option<&'a [u8]>,
}

impl RequestConditions<'_> {
    /// True if [`evaluate`] has nothing to evaluate; `If-Range` is not among it.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.if_match.is_absent()
            && self.if_none_match.is_absent()
            && self.if_modified_since.is_none()
            && self.if_unmodified_since.is_none()
    }
}

/// What a representation's conditions are tested against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validators<'a> {
    /// Its entity tag.
    pub etag: Option<EntityTag<'a>>,
    /// Its `Last-Modified`, seconds since 1970.
    pub modified_secs: Option<i64>,
}

/// What the conditions say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answer as if there were no conditions.
    Proceed,
    /// Answer 304.
    NotModified,
    /// Answer 412.
    PreconditionFailed,
}

/// Evaluates the preconditions of RFC 9110 §13.2.2, steps 1 to 4, for a representation that exists
/// and would otherwise be answered with 2xx.
#[must_use]
pub fn evaluate(
    method: Method,
    conditions: &RequestConditions<'_>,
    validators: &Validators<'_>,
    now_unix: u64,
) -> Verdict {
    let if_match = conditions.if_match;
    if if_match.is_present() {
        if !etag::lists(if_match, validators.etag.as_ref(), Comparison::Strong) {
            return Verdict::PreconditionFailed;
        }
    } else if let Some(modified) = validators.modified_secs
        && let Some(date) = date_of(conditions.if_unmodified_since, now_unix)
        && modified > date
    {
        return Verdict::PreconditionFailed;
    }
    let if_none_match = conditions.if_none_match;
    if if_none_match.is_present() {
        if !etag::lists(if_none_match, validators.etag.as_ref(), Comparison::Weak) {
            return Verdict::Proceed;
        }
        return if method.is_get_or_head() {
            Verdict::NotModified
        } else {
            Verdict::PreconditionFailed
        };
    }
    if method.is_get_or_head()
        && let Some(modified) = validators.modified_secs
        && let Some(date) = date_of(conditions.if_modified_since, now_unix)
        && modified <= date
    {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}

/// True if `Range` may be honoured: there is no `If-Range`, or it names the current representation
/// (RFC 9110 §13.1.5). For after [`evaluate`] has said [`Verdict::Proceed`], and `GET` only.
///
/// A date matches only the very second of `Last-Modified`, and only if that second is over: during
/// it the file may change again without its date changing (RFC 9110 §8.8.2.2).
#[must_use]
pub fn range_applies(if_range: Option<&[u8]>, validators: &Validators<'_>, now_unix: u64) -> bool {
    let Some(value) = if_range else {
        return true;
    };
    if let Some(tag) = EntityTag::parse(value) {
        return validators.etag.is_some_and(|current| tag.matches_strongly(&current));
    }
    match (validators.modified_secs, date::parse(value, now_unix)) {
        (Some(modified), Some(date)) => {
            modified == date && u64::try_from(modified).is_ok_and(|modified| modified < now_unix)
        }
        _ => false,
    }
}

fn date_of(value: Option<&[u8]>, now_unix: u64) -> Option<i64> {
    value.and_then(|value| date::parse(value, now_unix))
}
