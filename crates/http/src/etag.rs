//! Entity tags and lists of them (RFC 9110 §8.8.3).
use crate::FieldLines;

/// An entity tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// True for `W/"..."`.
    pub weak: bool,
    /// Bytes between the quotes.
    pub opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// A strong tag.
    #[must_use]
    pub const fn strong(opaque: &'a [u8]) -> Self {
        Self { weak: false, opaque }
    }

    /// Reads exactly one entity tag.
    #[must_use]
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        match Self::parse_prefix(text) {
            Some((tag, [])) => Some(tag),
            _ => None,
        }
    }

    /// Both are strong and the same (RFC 9110 §8.8.3.2).
    #[must_use]
    pub fn matches_strongly(&self, other: &EntityTag<'_>) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// The same, whether strong or weak (RFC 9110 §8.8.3.2).
    #[must_use]
    pub fn matches_weakly(&self, other: &EntityTag<'_>) -> bool {
        self.opaque == other.opaque
    }

    /// Reads an entity tag at the start of `text`; also returns the text behind it.
    fn parse_prefix(text: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (weak, rest) = match text {
            [b'W', b'/', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        let [b'"', rest @ ..] = rest else {
            return None;
        };
        let end = rest.iter().position(|&byte| !is_etagc(byte))?;
        let (opaque, after) = rest.split_at(end);
        match after {
            [b'"', rest @ ..] => Some((Self { weak, opaque }, rest)),
            _ => None,
        }
    }
}

/// True for a byte that may be inside the quotes: printable but `"`, or not ASCII.
const fn is_etagc(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x7e | 0x80..)
}

/// Comparison of the tags of a list with the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// [`EntityTag::matches_strongly`], for `If-Match`.
    Strong,
    /// [`EntityTag::matches_weakly`], for `If-None-Match`.
    Weak,
}

/// True if `lines`, the value of `If-Match` or `If-None-Match`, is `*` or lists a tag that matches
/// `current`. The representation exists; `current` is `None` if it has no tag.
///
/// Reading stops at the first thing that is not an entity tag; what came before it counts. A `*`
/// counts only where it is the whole field.
#[must_use]
pub fn lists(
    lines: FieldLines<'_>,
    current: Option<&EntityTag<'_>>,
    comparison: Comparison,
) -> bool {
    if lines.single() == Some(b"*") {
        return true;
    }
    let Some(current) = current else {
        return false;
    };
    lines.values().any(|value| {
        tags(value).any(|tag| match comparison {
            Comparison::Strong => tag.matches_strongly(current),
            Comparison::Weak => tag.matches_weakly(current),
        })
    })
}

/// The entity tags in one line, up to the first thing that is not one.
fn tags(value: &[u8]) -> impl Iterator<Item = EntityTag<'_>> {
    let mut rest = Some(value);
    core::iter::from_fn(move || {
        let mut text = rest.take()?;
        while let [b' ' | b'\t' | b',', after @ ..] = text {
            text = after;
        }
        let (tag, mut after) = EntityTag::parse_prefix(text)?;
        while let [b' ' | b'\t', blank @ ..] = after {
            after = blank;
        }
        rest = match after {
            [b',', after @ ..] => Some(after),
            _ => None,
        };
        Some(tag)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fields;
    use alloc::{format, string::String};

    #[test]
    fn tags_are_read_exactly() {
        let check = |text: &'static str, expected: Option<(bool, &str)>| {
            let found = EntityTag::parse(text.as_bytes()).map(|tag| (tag.weak, tag.opaque));
            assert_eq!(found, expected.map(|(weak, opaque)| (weak, opaque.as_bytes())), "{text}");
        };
        check("\"a\"", Some((false, "a")));
        check("\"\"", Some((false, "")));
        check("W/\"a\"", Some((true, "a")));
        check("\"a,b\\!~\u{fc}\"", Some((false, "a,b\\!~\u{fc}")));
        for text in [
            "", "a", "\"", "\"a", "a\"", "w/\"a\"", "W\"a\"", "W/a", "W/ \"a\"", "\"a b\"",
            "\"a\"\"", "\"a\" ", " \"a\"", "*", "\"a\tb\"", "\"\x7f\"",
        ] {
            check(text, None);
        }
        for text in ["\"a\\\"b\"", "\"a\", \"b\""] {
            check(text, None);
        }
    }

    #[test]
    fn comparison_is_that_of_the_table_in_the_rfc() {
        let tag = |text: &'static str| EntityTag::parse(text.as_bytes()).unwrap();
        for (a, b, strong, weak) in [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
        ] {
            assert_eq!(tag(a).matches_strongly(&tag(b)), strong, "{a} {b}");
            assert_eq!(tag(b).matches_strongly(&tag(a)), strong, "{a} {b}");
            assert_eq!(tag(a).matches_weakly(&tag(b)), weak, "{a} {b}");
        }
        assert_eq!(EntityTag::strong(b"1"), tag("\"1\""));
    }

    /// `strong` and `weak` say whether the list holds the current tag `"x"`.
    fn check(lines: &[&str], strong: bool, weak: bool) {
        let section: String = lines.iter().map(|line| format!("If-Match: {line}\r\n")).collect();
        let mut list = FieldLines::ABSENT;
        let fields = Fields::new(section.as_bytes());
        for field in &fields {
            list.extend("if-match", field.value, fields);
        }
        let current = EntityTag::strong(b"x");
        assert_eq!(lists(list, Some(&current), Comparison::Strong), strong, "{lines:?}");
        assert_eq!(lists(list, Some(&current), Comparison::Weak), weak, "{lines:?}");
        let weak_current = EntityTag { weak: true, opaque: b"x" };
        let star = lines == ["*"];
        assert_eq!(lists(list, Some(&weak_current), Comparison::Strong), star, "{lines:?}");
        assert_eq!(lists(list, None, Comparison::Weak), star, "{lines:?}");
    }

    #[test]
    fn lists_of_tags() {
        check(&["*"], true, true);
        check(&["\"x\""], true, true);
        check(&["W/\"x\""], false, true);
        check(&["\"a\", \"x\""], true, true);
        check(&["\"a\",\"x\",\"b\""], true, true);
        check(&[",\t, \"a\" \t, ,\"x\","], true, true);
        check(&["\"a\"", "\"x\""], true, true);
        check(&["\"a\"", "\"b\"", "W/\"x\""], false, true);
        check(&["\"a,\"", "\"x\""], true, true);
        check(&["\"x\", junk"], true, true);
        check(&["junk", "\"x\""], true, true);
        for lines in [
            &["\"a\""][..],
            &["\"X\""],
            &["x"],
            &["\"a, x\""],
            &["junk, \"x\""],
            &["\"a\" \"x\""],
            &["\"a\"\"x\""],
            &["*, \"y\""],
            &["*", "*"],
            &["**"],
            &["\"*\""],
        ] {
            check(lines, false, false);
        }
    }
}
