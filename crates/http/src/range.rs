//! Byte ranges (RFC 9110 §14).
use crate::field::{decimal, members, trim};
use alloc::vec::Vec;

/// A satisfiable byte range: `first <= last`, and `last` is below the representation's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte.
    pub last: u64,
}

/// What a `Range` field selects of a representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The field is to be ignored: the whole representation, status 200.
    Whole,
    /// Nothing that exists: status 416.
    Unsatisfiable,
    /// One range: status 206.
    One(ByteRange),
    /// Two or more ranges, none of which overlap or touch: status 206, `multipart/byteranges`.
    Many(Vec<ByteRange>),
}

impl ByteRange {
    /// Bytes in the range: 1 or more.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no range is empty")]
    pub const fn len(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// Reads the value of a `Range` field and applies it to a representation of `len` bytes.
///
/// What is no valid list of byte ranges is ignored, as RFC 9110 §14.2 allows; so are more than
/// `ranges_max` ranges, and ranges that add up to more than the representation. Ranges that overlap
/// or touch become one, at the place of the first of them; the others keep their order. Numbers
/// beyond 64 bits count as very large.
#[must_use]
pub fn select(value: &[u8], len: u64, ranges_max: usize) -> Selection {
    let Some(set) = ranges_of(value) else {
        return Selection::Whole;
    };
    if ranges_max > 0 && !set.contains(&b',') {
        return match Spec::parse(trim(set)) {
            None => Selection::Whole,
            Some(spec) => spec.selection(len),
        };
    }
    let (mut count, mut total) = (0, 0u64);
    let mut ranges = Vec::new();
    for member in members(set) {
        count += 1;
        let Some(spec) = Spec::parse(member) else {
            return Selection::Whole;
        };
        if count > ranges_max {
            return Selection::Whole;
        }
        match spec.selection(len) {
            Selection::One(range) => {
                total = total.saturating_add(range.len());
                merge(&mut ranges, range);
            }
            Selection::Unsatisfiable => {}
            Selection::Whole | Selection::Many(_) => return Selection::Whole,
        }
    }
    match ranges[..] {
        _ if count == 0 || total > len => Selection::Whole,
        [] => Selection::Unsatisfiable,
        [only] => Selection::One(only),
        _ => Selection::Many(ranges),
    }
}

/// What follows `bytes=`; range units have no case (RFC 9110 §14.1).
fn ranges_of(value: &[u8]) -> Option<&[u8]> {
    let (unit, set) = value.split_first_chunk::<6>()?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(set)
}

/// One member of a list of ranges (RFC 9110 §14.1.2).
#[derive(Clone, Copy)]
enum Spec {
    From { first: u64, last: u64 },
    Suffix(u64),
}

impl Spec {
    fn parse(text: &[u8]) -> Option<Self> {
        let dash = text.iter().position(|&byte| byte == b'-')?;
        let (first, last) = (&text[..dash], &text[dash + 1..]);
        if first.is_empty() {
            return Some(Self::Suffix(position(last)?));
        }
        let first = position(first)?;
        let last = if last.is_empty() { u64::MAX } else { position(last)? };
        (first <= last).then_some(Self::From { first, last })
    }

    /// What it alone selects. The end of an empty representation is all of it, for which there is
    /// no `Content-Range`.
    fn selection(self, len: u64) -> Selection {
        match self {
            Self::Suffix(0) => Selection::Unsatisfiable,
            Self::Suffix(_) if len == 0 => Selection::Whole,
            Self::Suffix(suffix) => {
                Selection::One(ByteRange { first: len.saturating_sub(suffix), last: len - 1 })
            }
            Self::From { first, .. } if first >= len => Selection::Unsatisfiable,
            Self::From { first, last } => {
                Selection::One(ByteRange { first, last: last.min(len - 1) })
            }
        }
    }
}

/// One or more digits; the largest number if they mean more than that.
fn position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(decimal(digits).unwrap_or(u64::MAX))
}

/// Adds a range to `ranges`, none of which overlap or touch, so that this stays so.
fn merge(ranges: &mut Vec<ByteRange>, mut range: ByteRange) {
    let mut place = ranges.len();
    while let Some(at) = ranges.iter().position(|other| touch(other, &range)) {
        let other = ranges.remove(at);
        range.first = range.first.min(other.first);
        range.last = range.last.max(other.last);
        place = place.min(at);
    }
    ranges.insert(place, range);
}

/// True if there is no byte between the two.
fn touch(a: &ByteRange, b: &ByteRange) -> bool {
    a.first <= b.last.saturating_add(1) && b.first <= a.last.saturating_add(1)
}
