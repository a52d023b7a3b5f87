//! Byte ranges (RFC 9110 §14).
use crate::field::{decimal, members};
use alloc::vec::Vec;

/// A satisfiable byte range: `first <= last`, and `last` is below the representation's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte.
    pub last: u64,
}

/// Part of a representation that a `Range` field selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The field is to be ignored: the whole representation, status 200.
    Whole,
    /// Nothing that exists: status 416.
    Unsatisfiable,
    /// A single range: status 206.
    One(ByteRange),
    /// Two or more ranges that neither overlap nor touch: status 206, `multipart/byteranges`.
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
/// A value that is no valid list of byte ranges is ignored, as RFC 9110 §14.2 allows. More than
/// `ranges_max` ranges are ignored too, and ranges that add up to more than the representation.
/// Ranges that overlap or touch become one, at the place of the first of them; the others keep
/// their order. Numbers beyond 64 bits count as very large.
#[must_use]
pub fn select(value: &[u8], len: u64, ranges_max: usize) -> Selection {
    let Some(set) = ranges_of(value) else {
        return Selection::Whole;
    };
    if ranges_max > 0 && !set.contains(&b',') {
        return match Spec::parse(set.trim_ascii()) {
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
                let Some(sum) = total.checked_add(range.len()) else {
                    return Selection::Whole;
                };
                total = sum;
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

/// Bytes behind `bytes=`; range units have no case (RFC 9110 §14.1).
fn ranges_of(value: &[u8]) -> Option<&[u8]> {
    let (unit, set) = value.split_first_chunk::<6>()?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(set)
}

/// A member of a list of ranges (RFC 9110 §14.1.2).
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

    /// The selection of this member alone. The end of an empty representation is all of it, for
    /// which there is no `Content-Range`.
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

/// A number of one or more digits; the largest of 64 bits if it is larger.
fn position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(decimal(digits).unwrap_or(u64::MAX))
}

/// Adds a range to `ranges`, which neither overlap nor touch before and after.
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, string::String};

    const RANGES_MAX: usize = 16;

    /// The selection as text: `whole`, `none`, or `0-4,7-7`.
    fn text(selection: &Selection) -> String {
        let ranges = match selection {
            Selection::Whole => return "whole".into(),
            Selection::Unsatisfiable => return "none".into(),
            Selection::One(range) => core::slice::from_ref(range),
            Selection::Many(ranges) => ranges,
        };
        assert_eq!(ranges.len() == 1, matches!(selection, Selection::One(_)));
        let texts = ranges.iter().map(|range| format!("{}-{}", range.first, range.last));
        texts.collect::<Vec<_>>().join(",")
    }

    fn check(value: &str, len: u64, expected: &str) {
        let selection = select(value.as_bytes(), len, RANGES_MAX);
        assert_eq!(text(&selection), expected, "{value} of {len}");
    }

    #[test]
    fn single_ranges() {
        check("bytes=0-0", 10, "0-0");
        check("bytes=0-9", 10, "0-9");
        check("bytes=0-10", 10, "0-9");
        check("bytes=3-", 10, "3-9");
        check("bytes=9-", 10, "9-9");
        check("bytes=10-", 10, "none");
        check("bytes=10-20", 10, "none");
        check("bytes=-1", 10, "9-9");
        check("bytes=-10", 10, "0-9");
        check("bytes=-11", 10, "0-9");
        check("bytes=-0", 10, "none");
        check("bytes=-000", 10, "none");
        check("bytes=007-008", 10, "7-8");
        check("BYTES=1-2", 10, "1-2");
        check("bytes= \t1-2 ", 10, "1-2");
    }

    #[test]
    fn empty_representations() {
        check("bytes=0-", 0, "none");
        check("bytes=0-0", 0, "none");
        check("bytes=-0", 0, "none");
        check("bytes=-1", 0, "whole");
        check("bytes=0-0,-1", 0, "whole");
        check("bytes=0-0,1-1", 0, "none");
    }

    #[test]
    fn large_numbers() {
        const MAX: u64 = u64::MAX;
        const HALF: u64 = 1 << 63;
        let past = "18446744073709551616";
        let huge = "9".repeat(1000);
        check(&format!("bytes={HALF}-{HALF}"), HALF, "none");
        check(&format!("bytes={HALF}-"), HALF + 1, &format!("{HALF}-{HALF}"));
        check(&format!("bytes=0-{MAX}"), MAX, &format!("0-{}", MAX - 1));
        check(&format!("bytes={}-", MAX - 1), MAX, &format!("{}-{}", MAX - 1, MAX - 1));
        check(&format!("bytes={MAX}-"), MAX, "none");
        check(&format!("bytes=-{MAX}"), MAX, &format!("0-{}", MAX - 1));
        check(&format!("bytes=-{HALF}"), MAX, &format!("{}-{}", HALF - 1, MAX - 1));
        for many in [past, &huge] {
            check(&format!("bytes=1-{many}"), 10, "1-9");
            check(&format!("bytes=-{many}"), 10, "0-9");
            check(&format!("bytes={many}-"), 10, "none");
            check(&format!("bytes={many}-{many}"), MAX, "none");
            check(&format!("bytes=0-{many}"), MAX, &format!("0-{}", MAX - 1));
        }
        let expected = format!("0-0,{0}-{0},5-5", MAX - 1);
        check(&format!("bytes=0-0,{}-{MAX},5-5", MAX - 1), MAX, &expected);
        check(&format!("bytes=0-{MAX},0-{MAX}"), MAX, "whole");
    }

    #[test]
    fn what_is_no_range_is_ignored() {
        for set in [
            "", ",", " ", "-", "--1", "a-b", "1", "2-1", "0-1,2-1", "0-1,x", "0-1-2", "+0-1",
            "0 -1", "0- 1", "0x1-2", "-1,-", "0-1;2-3", "0-1 2-3", "=0-1", "\u{b9}-2",
        ] {
            check(&format!("bytes={set}"), 10, "whole");
        }
        for value in ["", "bytes", "bytes:0-1", "bytes =0-1", "items=0-1", "byte=0-1", "0-1"] {
            check(value, 10, "whole");
        }
        check("bytes=0-1, bytes=2-3", 10, "whole");
    }

    #[test]
    fn several_ranges_keep_their_order() {
        check("bytes=0-0,2-2", 10, "0-0,2-2");
        check("bytes=5-6,0-1", 10, "5-6,0-1");
        check("bytes=0-0, ,\t9-", 10, "0-0,9-9");
        check("bytes=,0-0,", 10, "0-0");
        check("bytes=0-0,50-60", 10, "0-0");
        check("bytes=50-60,70-", 10, "none");
        check("bytes=0-0,-0", 10, "0-0");
    }

    #[test]
    fn ranges_that_overlap_or_touch_are_one() {
        check("bytes=0-1,2-3", 10, "0-3");
        check("bytes=2-3,0-1", 10, "0-3");
        check("bytes=0-3,2-4", 10, "0-4");
        check("bytes=0-5,1-2", 10, "0-5");
        check("bytes=1-1,8-8,0-0", 10, "0-1,8-8");
        check("bytes=8-8,1-1,0-0", 10, "8-8,0-1");
        check("bytes=0-0,2-2,4-4,1-1", 10, "0-2,4-4");
        check("bytes=0-0,2-2,4-4,1-1,3-3", 10, "0-4");
        check("bytes=0-4,-5", 10, "0-9");
    }

    #[test]
    fn greedy_requests_get_the_whole() {
        check("bytes=0-,0-", 10, "whole");
        check("bytes=0-9,0-0", 10, "whole");
        check("bytes=0-,-1", 10, "whole");
        let singles = |count: u64| {
            let texts = (0..count).map(|at| format!("{0}-{0}", at * 2));
            texts.collect::<Vec<_>>().join(",")
        };
        check(&format!("bytes={}", singles(16)), 10_000, &singles(16));
        check(&format!("bytes={}", singles(17)), 10_000, "whole");
        check(&format!("bytes={}", singles(1000)), 10_000, "whole");
        check(&format!("bytes={}", ["90000-"; 17].join(",")), 10, "whole");
        for (max, expected) in [(0, "whole"), (1, "0-0")] {
            assert_eq!(text(&select(b"bytes=0-0", 10, max)), expected);
        }
        assert_eq!(text(&select(b"bytes=0-0,2-2", 10, 1)), "whole");
    }

    /// Against a map of single bytes: the union is what was asked for, and nothing touches.
    #[test]
    fn merging_neither_loses_nor_adds_a_byte() {
        const LEN: u64 = 7;
        let all: Vec<(u64, u64)> =
            (0..LEN).flat_map(|first| (first..LEN).map(move |last| (first, last))).collect();
        for a in &all {
            for b in &all {
                for c in &all {
                    let asked = [a, b, c];
                    let total: u64 = asked.iter().map(|(first, last)| last - first + 1).sum();
                    let value = format!("bytes={}-{},{}-{},{}-{}", a.0, a.1, b.0, b.1, c.0, c.1);
                    let ranges = match select(value.as_bytes(), LEN, 3) {
                        Selection::Whole => {
                            assert!(total > LEN, "{value}");
                            continue;
                        }
                        Selection::One(range) => Vec::from([range]),
                        Selection::Many(ranges) => ranges,
                        Selection::Unsatisfiable => panic!("{value}"),
                    };
                    for at in 0..LEN {
                        let wanted = asked.iter().any(|range| range.0 <= at && at <= range.1);
                        let given =
                            ranges.iter().filter(|range| range.first <= at && at <= range.last);
                        assert_eq!(given.count(), usize::from(wanted), "{value} {at}");
                    }
                    let sum: u64 = ranges.iter().map(ByteRange::len).sum();
                    assert!(sum <= LEN);
                }
            }
        }
    }
}
