//! Patterns of paths, as in `/docs/:page/*` and `/*.js`.
//!
//! A plain segment is itself, `:name` is one segment of any text. `*` is any text, also none and
//! also with slashes; as a segment of its own at the end it may be missing with its slash. A slash
//! at the end means nothing, and `%20` is a space. There are no regular expressions.
//! [`Patterns`] finds the patterns that match a path. [`expand`] makes patterns of a glob, such as
//! `**/*.{js,css}`.
mod glob;
mod table;

pub use glob::{ALTERNATIVES_MAX, expand};
pub use table::{Full, MatchCost, Names, PAGE_SUFFIX, Patterns, Refused, STEPS_MAX};

use alloc::{borrow::Cow, string::String, vec::Vec};
use percent_encoding::percent_decode_str;

/// The most segments of a pattern.
pub const SEGMENTS_MAX: usize = 32;
/// The most segments of a pattern that have a name.
pub const NAMES_MAX: usize = 8;
/// The most bytes of text around a `*`, from the slash before it to the end.
pub const STAR_BYTES_MAX: usize = 255;

/// A pattern that has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern<'a> {
    /// Segments before the one with the `*`.
    segments: Vec<Segment<'a>>,
    star: Option<Star<'a>>,
}

/// A segment of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment<'a> {
    Plain(Cow<'a, str>),
    Named(&'a str),
}

/// A `*` with the text around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Star<'a> {
    /// Text before it in its segment.
    before: Cow<'a, str>,
    /// All that follows it, with slashes but none at the end.
    after: String,
}

/// Reason why a text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternFault {
    /// No slash at the start.
    NoSlash,
    /// A `?`, a `#`, a control character, or a `%` that encodes no character of a name.
    Encoded,
    /// A segment is `.` or `..`.
    Dots,
    /// More than one `*`, or a name behind it.
    Star,
    /// A `:` without a name of letters, digits and `_` behind it, or the name `splat`.
    Name,
    /// A name that the pattern has twice.
    Twice,
    /// Too many segments, too many names, or too much text around its `*`.
    Long,
    /// Braces with a comma that are not closed or within others, or for too many patterns.
    Braces,
}

impl PatternFault {
    /// Sentence for people: the fault, and what helps.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoSlash => "a pattern starts with a slash, as in /docs/*",
            Self::Encoded => {
                "a pattern is a path without ? and #, and each % in it has two hex digits of UTF-8 \
                 behind it, as in /old%20page, but not %2F or %00"
            }
            Self::Dots => "a pattern has no segment . or ..: paths are resolved before",
            Self::Star => {
                "a pattern has one * and no name behind it, as in /docs/* or /*.js; it stands for \
                 slashes, too, so that **/*.js is /*.js"
            }
            Self::Name => {
                "a name is letters, digits and _ after a colon, as in /:year/:month, and is not \
                 :splat, which is what * stands for"
            }
            Self::Twice => "a name can stand in a pattern only once",
            Self::Long => {
                "a pattern has at most 32 segments, 8 of them with names, and 255 bytes around a *"
            }
            Self::Braces => {
                "braces are as in *.{js,css}, without others in them, and stand for at most 64 \
                 patterns; write %7B for a brace in a path"
            }
        }
    }
}

/// Parts of a path that the names and the `*` of a pattern stand for, decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captures<'p> {
    named: [&'p [u8]; NAMES_MAX],
    count: usize,
    /// The text that `*` stands for; it may be empty.
    pub rest: &'p [u8],
}

impl<'p> Captures<'p> {
    /// The segment that the name of this number stands for ([`Pattern::name_at`]).
    #[must_use]
    pub fn named(&self, at: usize) -> &'p [u8] {
        self.named[..self.count].get(at).copied().unwrap_or_default()
    }
}

impl<'a> Pattern<'a> {
    /// Reads a pattern.
    ///
    /// # Errors
    /// The fault of the pattern.
    pub fn parse(text: &'a str) -> Result<Self, PatternFault> {
        let inside = text.strip_prefix('/').ok_or(PatternFault::NoSlash)?;
        if text.bytes().any(|byte| b"?#".contains(&byte) || byte.is_ascii_control()) {
            return Err(PatternFault::Encoded);
        }
        let mut pattern = Self { segments: Vec::new(), star: None };
        for text in inside.split('/').filter(|text| !text.is_empty()) {
            match &mut pattern.star {
                Some(star) => star.go_on(text)?,
                None if text.contains('*') => pattern.star = Some(Star::parse(text)?),
                None => {
                    let segment = Segment::parse(text)?;
                    if let Segment::Named(name) = segment
                        && pattern.name_at(name).is_some()
                    {
                        return Err(PatternFault::Twice);
                    }
                    pattern.segments.push(segment);
                    if pattern.segments.len() > SEGMENTS_MAX {
                        return Err(PatternFault::Long);
                    }
                }
            }
        }
        let around = pattern.star.as_ref().map_or(0, |star| star.before.len() + star.after.len());
        if pattern.names().count() > NAMES_MAX || around > STAR_BYTES_MAX {
            return Err(PatternFault::Long);
        }
        Ok(pattern)
    }

    /// The number of a name among those of the pattern, for [`Captures::named`].
    #[must_use]
    pub fn name_at(&self, name: &str) -> Option<usize> {
        self.names().position(|other| other == name)
    }

    /// True if it has a `*`.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.star.is_some()
    }

    /// True if it has text in the segment of its `*`, or behind that.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.star.as_ref().is_some_and(|star| *star != Star::default())
    }

    /// True if its `*` is all that is left of a path.
    #[must_use]
    pub fn ends_in_star(&self) -> bool {
        self.star.as_ref().is_some_and(|star| star.after.is_empty())
    }

    /// True if some path may match both. Text around a `*` is not compared.
    #[must_use]
    pub fn meets(&self, other: &Pattern<'_>) -> bool {
        let differ = |pair: (&Segment<'_>, &Segment<'_>)| match pair {
            (Segment::Plain(one), Segment::Plain(other)) => one != other,
            _ => false,
        };
        let (one, two) = (&self.segments, &other.segments);
        (self.is_open() || one.len() >= two.len())
            && (other.is_open() || two.len() >= one.len())
            && !one.iter().zip(two).any(differ)
    }

    /// A path that matches it, decoded and relative, with `name` for each name and `rest` for `*`.
    #[must_use]
    pub fn sample(&self, name: &str, rest: &str) -> String {
        let mut path = String::new();
        let texts = self.segments.iter().map(|segment| match segment {
            Segment::Plain(text) => text,
            Segment::Named(_) => name,
        });
        for text in texts {
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(text);
        }
        if let Some(Star { before, after }) = &self.star {
            let nothing = before.is_empty() && rest.is_empty() && after.is_empty();
            if !(path.is_empty() || nothing) {
                path.push('/');
            }
            path.extend([before, rest, after]);
        }
        path
    }

    fn names(&self) -> impl Iterator<Item = &'a str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Named(name) => Some(*name),
            Segment::Plain(_) => None,
        })
    }
}

impl<'a> Segment<'a> {
    fn parse(text: &'a str) -> Result<Self, PatternFault> {
        match text.strip_prefix(':') {
            Some(name) if is_name(name) && name != "splat" => Ok(Self::Named(name)),
            Some(_) => Err(PatternFault::Name),
            None => decode(text).map(Self::Plain),
        }
    }
}

impl<'a> Star<'a> {
    /// Reads the segment that has it.
    fn parse(text: &'a str) -> Result<Self, PatternFault> {
        let (before, after) = text.split_once('*').ok_or(PatternFault::Star)?;
        if after.contains('*') || before.starts_with(':') {
            return Err(PatternFault::Star);
        }
        Ok(Self { before: decode(before)?, after: decode(after)?.into_owned() })
    }

    /// Adds a segment behind it.
    fn go_on(&mut self, text: &str) -> Result<(), PatternFault> {
        if text.contains('*') || text.starts_with(':') {
            return Err(PatternFault::Star);
        }
        self.after.push('/');
        self.after.push_str(&decode(text)?);
        Ok(())
    }
}

/// The text that a segment stands for.
fn decode(text: &str) -> Result<Cow<'_, str>, PatternFault> {
    let hex = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_hexdigit);
    if text.match_indices('%').any(|(at, _)| !hex(at + 1) || !hex(at + 2)) {
        return Err(PatternFault::Encoded);
    }
    let decoded = percent_decode_str(text).decode_utf8().map_err(|_| PatternFault::Encoded)?;
    match &*decoded {
        "." | ".." => Err(PatternFault::Dots),
        text if text.contains(['/', '\0']) => Err(PatternFault::Encoded),
        _ => Ok(decoded),
    }
}

/// True for what may follow the colon of a name.
#[must_use]
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn patterns_are_read_or_explained() {
        for text in
            ["/", "/*", "/a", "/a/", "//a", "/a/*", "/:x/b/:y_2", "/a:b", "/a b/\u{fc}", "/a%20b"]
        {
            assert!(Pattern::parse(text).is_ok(), "{text}");
        }
        for (fault, texts) in [
            (PatternFault::NoSlash, &["", "a", "*"][..]),
            (PatternFault::Encoded, &["/a%2", "/a%2fb", "/a%00", "/%ff", "/a?b", "/a\tb"]),
            (PatternFault::Dots, &["/a/%2e%2E/b", "/a/../b", "/*/.."]),
            (PatternFault::Star, &["/*/*", "/**", "/*/:a", "/:a*"]),
            (PatternFault::Name, &["/:", "/:a-b", "/:splat"]),
            (PatternFault::Twice, &["/:a/:a"]),
        ] {
            for text in texts {
                assert_eq!(Pattern::parse(text), Err(fault), "{text}");
            }
        }
        let long = "/a".repeat(SEGMENTS_MAX + 1);
        assert_eq!(Pattern::parse(&long), Err(PatternFault::Long));
        let names: String = (0..=NAMES_MAX).map(|at| format!("/:n{at}")).collect();
        assert_eq!(Pattern::parse(&names), Err(PatternFault::Long));
        let around = format!("/*{}", "a".repeat(STAR_BYTES_MAX + 1));
        assert_eq!(Pattern::parse(&around), Err(PatternFault::Long));
    }

    #[test]
    fn a_sample_is_a_path_that_matches() {
        for (text, rest, expected) in [
            ("/", "r", ""),
            ("/a%20b/:x", "r", "a b/n"),
            ("/a/*", "", "a"),
            ("/a/*", "r", "a/r"),
            ("/*", "", ""),
            ("/a/b*c/d/", "", "a/bc/d"),
            ("/*.js", "r/s", "r/s.js"),
            ("/%2a/%3Ax", "r", "*/:x"),
        ] {
            let pattern = Pattern::parse(text).expect("a pattern");
            assert_eq!(pattern.sample("n", rest), expected, "{text}");
        }
    }

    #[test]
    fn patterns_meet_in_a_path() {
        for (one, other, expected) in [
            ("/a", "/a", true),
            ("/a", "/b", false),
            ("/a", "/a/b", false),
            ("/a/*", "/a", true),
            ("/a/*", "/a/b/c", true),
            ("/a/*", "/b/*", false),
            ("/*", "/", true),
            ("/:x/b", "/a/:y", true),
            ("/:x/b", "/a/c", false),
            ("/:x", "/a/*", true),
            ("/:x/:y", "/a", false),
            ("/a/:x/*", "/a", false),
        ] {
            let [first, second] = [one, other].map(|text| Pattern::parse(text).expect("a pattern"));
            assert_eq!(first.meets(&second), expected, "{one} {other}");
            assert_eq!(second.meets(&first), expected, "{other} {one}");
        }
    }
}
