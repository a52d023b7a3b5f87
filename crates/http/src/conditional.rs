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
    /// No condition.
    #[must_use]
    #[inline(always)]
    pub const fn none() -> Self {
        Self {
            if_match: FieldLines::absent(),
            if_none_match: FieldLines::absent(),
            if_modified_since: None,
            if_unmodified_since: None,
            if_range: None,
        }
    }

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

/// Validators of a representation, against which conditions are tested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validators<'a> {
    /// The entity tag.
    pub etag: Option<EntityTag<'a>>,
    /// `Last-Modified`, seconds since 1970.
    pub modified_secs: Option<i64>,
}

/// Outcome of the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionVerdict {
    /// Answer as if there were no conditions.
    Proceed,
    /// Answer 304.
    NotModified,
    /// Answer 412.
    PreconditionFailed,
}

/// Evaluates the preconditions of RFC 9110 §13.2.2, steps 1 to 4, for a representation that exists
/// and would otherwise be answered with 2xx.
///
/// `If-Modified-Since` finds only the very date of the representation (RFC 9110 §13.1.3 would also
/// take a later one): after a release is taken back, an older file is another one.
#[must_use]
pub fn evaluate(
    method: Method,
    conditions: &RequestConditions<'_>,
    validators: &Validators<'_>,
    now_unix: u64,
) -> ConditionVerdict {
    let if_match = conditions.if_match;
    if if_match.is_present() {
        if !etag::lists(if_match, validators.etag.as_ref(), Comparison::Strong) {
            return ConditionVerdict::PreconditionFailed;
        }
    } else if let Some(modified) = validators.modified_secs
        && let Some(date) = date_of(conditions.if_unmodified_since, now_unix)
        && modified > date
    {
        return ConditionVerdict::PreconditionFailed;
    }
    let if_none_match = conditions.if_none_match;
    if if_none_match.is_present() {
        if !etag::lists(if_none_match, validators.etag.as_ref(), Comparison::Weak) {
            return ConditionVerdict::Proceed;
        }
        return if method.is_get_or_head() {
            ConditionVerdict::NotModified
        } else {
            ConditionVerdict::PreconditionFailed
        };
    }
    if method.is_get_or_head()
        && let Some(modified) = validators.modified_secs
        && let Some(date) = date_of(conditions.if_modified_since, now_unix)
        && modified == date
    {
        return ConditionVerdict::NotModified;
    }
    ConditionVerdict::Proceed
}

/// True if `Range` may be honoured: there is no `If-Range`, or it names the current representation
/// (RFC 9110 §13.1.5). Call it for `GET` only, after [`evaluate`] has returned
/// [`Verdict::Proceed`].
///
/// A date matches only the very second of `Last-Modified`, and only if that second is over: during
/// it the file may change again without its date changing (RFC 9110 §8.8.2.2). If the tag is weak
/// neither matches: a part of one content must not be put behind a part of another.
#[must_use]
pub fn range_applies(if_range: Option<&[u8]>, validators: &Validators<'_>, now_unix: u64) -> bool {
    let Some(value) = if_range else {
        return true;
    };
    if let Some(tag) = EntityTag::parse(value) {
        return validators.etag.is_some_and(|current| tag.matches_strongly(&current));
    }
    if validators.etag.is_some_and(|current| current.weak) {
        return false;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT
    const MODIFIED: i64 = 784_111_777;
    const LATER: u64 = 784_111_778;

    /// Oracle's knowledge of a list of entity tags, without reading it.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Tags {
        Star,
        /// Holds the current tag, written strong.
        Strong,
        /// Holds the current tag, but written weak.
        Weak,
        Others,
    }

    const LISTS: [Option<(&str, Tags)>; 8] = [
        None,
        Some(("*", Tags::Star)),
        Some(("\"x\"", Tags::Strong)),
        Some(("\"a\" , W/\"b\",\"x\"", Tags::Strong)),
        Some(("W/\"x\"", Tags::Weak)),
        Some(("\"y\", W/\"z\"", Tags::Others)),
        Some(("x", Tags::Others)),
        Some(("", Tags::Others)),
    ];

    /// Dates, and their order relative to the current one; `None` for text that is no date.
    const DATES: [Option<(&str, Option<i64>)>; 7] = [
        None,
        Some(("Sun, 06 Nov 1994 08:49:36 GMT", Some(-1))),
        Some(("Sun, 06 Nov 1994 08:49:37 GMT", Some(0))),
        Some(("Sunday, 06-Nov-94 08:49:37 GMT", Some(0))),
        Some(("Sun Nov  6 08:49:38 1994", Some(1))),
        Some(("yesterday", None)),
        Some(("", None)),
    ];

    const METHODS: [Method; 4] = [Method::Get, Method::Head, Method::Post, Method::Delete];

    /// The current representation as the oracle sees it.
    #[derive(Clone, Copy, Debug)]
    struct Current {
        /// Weak or strong.
        tag: Option<bool>,
        dated: bool,
    }

    const CURRENT: [Current; 6] = [
        Current { tag: Some(false), dated: true },
        Current { tag: Some(true), dated: true },
        Current { tag: None, dated: true },
        Current { tag: Some(false), dated: false },
        Current { tag: Some(true), dated: false },
        Current { tag: None, dated: false },
    ];

    impl Current {
        fn validators(self) -> Validators<'static> {
            Validators {
                etag: self.tag.map(|weak| EntityTag { weak, opaque: b"x" }),
                modified_secs: self.dated.then_some(MODIFIED),
            }
        }
    }

    /// RFC 9110 §13.2.2, step by step as written; but step 4 asks for the very date.
    fn oracle(
        method: Method,
        current: Current,
        if_match: Option<Tags>,
        if_none_match: Option<Tags>,
        if_modified: Option<Option<i64>>,
        if_unmodified: Option<Option<i64>>,
    ) -> ConditionVerdict {
        // A field that is no date, or for which there is nothing to compare, is ignored.
        let usable = |date: Option<Option<i64>>| date.flatten().filter(|_| current.dated);
        let mut step = 1;
        loop {
            step = match step {
                1 => match if_match {
                    Some(Tags::Star) => 3,
                    Some(Tags::Strong) if current.tag == Some(false) => 3,
                    Some(_) => return ConditionVerdict::PreconditionFailed,
                    None => 2,
                },
                2 => match usable(if_unmodified) {
                    Some(date) if date < 0 => return ConditionVerdict::PreconditionFailed,
                    _ => 3,
                },
                3 => match if_none_match {
                    Some(Tags::Others) => 5,
                    Some(Tags::Strong | Tags::Weak) if current.tag.is_none() => 5,
                    Some(_) if matches!(method, Method::Get | Method::Head) => {
                        return ConditionVerdict::NotModified;
                    }
                    Some(_) => return ConditionVerdict::PreconditionFailed,
                    None => 4,
                },
                4 => match usable(if_modified) {
                    Some(date) if date == 0 && matches!(method, Method::Get | Method::Head) => {
                        return ConditionVerdict::NotModified;
                    }
                    _ => 5,
                },
                _ => return ConditionVerdict::Proceed,
            }
        }
    }

    fn check(method: Method, current: Current, choice: [usize; 4]) {
        let (if_match, if_none_match) = (LISTS[choice[0]], LISTS[choice[1]]);
        let (if_modified, if_unmodified) = (DATES[choice[2]], DATES[choice[3]]);
        let lines = |list: Option<(&'static str, Tags)>| {
            list.map_or(FieldLines::ABSENT, |(text, _)| FieldLines::one(text.as_bytes()))
        };
        let date =
            |date: Option<(&'static str, Option<i64>)>| date.map(|(text, _)| text.as_bytes());
        let conditions = RequestConditions {
            if_match: lines(if_match),
            if_none_match: lines(if_none_match),
            if_modified_since: date(if_modified),
            if_unmodified_since: date(if_unmodified),
            if_range: None,
        };
        let expected = oracle(
            method,
            current,
            if_match.map(|list| list.1),
            if_none_match.map(|list| list.1),
            if_modified.map(|date| date.1),
            if_unmodified.map(|date| date.1),
        );
        let found = evaluate(method, &conditions, &current.validators(), LATER);
        assert_eq!(found, expected, "{method:?} {current:?} {conditions:?}");
        assert_eq!(conditions.is_empty(), choice == [0; 4]);
    }

    #[test]
    fn all_combinations_are_as_the_rfc_orders_them() {
        for method in METHODS {
            for current in CURRENT {
                for number in 0..LISTS.len().pow(2) * DATES.len().pow(2) {
                    let (lists, dates) = (number % 64, number / 64);
                    check(method, current, [lists % 8, lists / 8, dates % 7, dates / 7]);
                }
            }
        }
    }

    /// The fifth condition, step 5: independent of the others once they let the request through.
    fn check_range(value: Option<&str>, current: Current, now_unix: u64, expected: bool) {
        let value = value.map(str::as_bytes);
        let found = range_applies(value, &current.validators(), now_unix);
        assert_eq!(found, expected, "{value:?} {current:?} {now_unix}");
    }

    #[test]
    fn if_range_wants_the_very_same_representation() {
        for current in CURRENT {
            let strong = current.tag == Some(false);
            let dated = current.dated && current.tag != Some(true);
            for (value, expected) in [
                (None, true),
                (Some("\"x\""), strong),
                (Some("W/\"x\""), false),
                (Some("\"y\""), false),
                (Some("\"x\", \"x\""), false),
                (Some("*"), false),
                (Some("x"), false),
                (Some(""), false),
                (Some("Sun, 06 Nov 1994 08:49:36 GMT"), false),
                (Some("Sun, 06 Nov 1994 08:49:37 GMT"), dated),
                (Some("Sunday, 06-Nov-94 08:49:37 GMT"), dated),
                (Some("Sun, 06 Nov 1994 08:49:38 GMT"), false),
            ] {
                check_range(value, current, LATER, expected);
            }
            let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
            check_range(date, current, LATER - 1, false);
            check_range(date, current, 0, false);
        }
    }
}
