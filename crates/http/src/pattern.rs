//! Patterns of paths: `/docs/:page/*`, and a table that finds those that match a path.
//!
//! A pattern is compared segment by segment with a decoded path: a plain segment is itself,
//! `:name` is one segment of any text, `*` at the end is all that is left, which may be nothing. A
//! slash at the end means nothing. There are no regular expressions: to try all patterns takes no
//! longer than the table is large, whatever the path.
use alloc::{boxed::Box, vec::Vec};

/// The most segments of a pattern.
pub const SEGMENTS_MAX: usize = 32;
/// The most segments of a pattern that have a name.
pub const NAMES_MAX: usize = 8;

/// A pattern that has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern<'a> {
    /// Without the `*`.
    segments: Vec<Segment<'a>>,
    /// It ends in `*`.
    open: bool,
}

/// One segment of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segment<'a> {
    Plain(&'a str),
    Named(&'a str),
}

/// Why a text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternFault {
    /// It does not start with a slash.
    NoSlash,
    /// It has `%`, `?`, `#` or a control character.
    Encoded,
    /// A segment is `.` or `..`.
    Dots,
    /// It has a `*` that is not its last segment.
    Star,
    /// A `:` without a name of letters, digits and `_` behind it, or the name `splat`.
    Name,
    /// A name stands in it twice.
    Twice,
    /// It has too many segments, or too many names.
    Long,
}

impl PatternFault {
    /// What is wrong and what helps, for people.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoSlash => "a pattern starts with a slash, as in /docs/*",
            Self::Encoded => {
                "a pattern is a path as it is after decoding: without %, ? and # (write a space as \
                 a space)"
            }
            Self::Dots => "a pattern has no segment . or ..: paths are resolved before",
            Self::Star => "* can only be the last segment, as in /docs/*",
            Self::Name => {
                "a name is letters, digits and _ after a colon, as in /:year/:month, and is not \
                 :splat, which is what * stands for"
            }
            Self::Twice => "a name can stand in a pattern only once",
            Self::Long => "a pattern has at most 32 segments, 8 of them with names",
        }
    }
}

/// What the parts of a pattern stand for in a path, decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captures<'p> {
    named: [&'p [u8]; NAMES_MAX],
    count: usize,
    /// What `*` stands for: segments with slashes between them, or nothing.
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
    /// What is wrong with it.
    pub fn parse(text: &'a str) -> Result<Self, PatternFault> {
        let inside = text.strip_prefix('/').ok_or(PatternFault::NoSlash)?;
        if text.bytes().any(|byte| b"%?#".contains(&byte) || byte.is_ascii_control()) {
            return Err(PatternFault::Encoded);
        }
        let (inside, open) = match inside.strip_suffix('*') {
            Some(before) if before.is_empty() || before.ends_with('/') => (before, true),
            Some(_) => return Err(PatternFault::Star),
            None => (inside, false),
        };
        let mut pattern = Self { segments: Vec::new(), open };
        for text in inside.split('/').filter(|text| !text.is_empty()) {
            let segment = Segment::parse(text)?;
            if let Segment::Named(name) = segment
                && pattern.name_at(name).is_some()
            {
                return Err(PatternFault::Twice);
            }
            pattern.segments.push(segment);
        }
        if pattern.segments.len() > SEGMENTS_MAX || pattern.names().count() > NAMES_MAX {
            return Err(PatternFault::Long);
        }
        Ok(pattern)
    }

    /// The number of a name among those of the pattern, for [`Captures::named`].
    #[must_use]
    pub fn name_at(&self, name: &str) -> Option<usize> {
        self.names().position(|other| other == name)
    }

    /// True if it ends in `*`.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.open
    }

    /// True if some path matches both.
    #[must_use]
    pub fn meets(&self, other: &Pattern<'_>) -> bool {
        let differ = |pair: (&Segment<'_>, &Segment<'_>)| match pair {
            (Segment::Plain(one), Segment::Plain(other)) => one != other,
            _ => false,
        };
        let (one, two) = (&self.segments, &other.segments);
        (self.open || one.len() >= two.len())
            && (other.open || two.len() >= one.len())
            && !one.iter().zip(two).any(differ)
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
            None if matches!(text, "." | "..") => Err(PatternFault::Dots),
            None if text.contains('*') => Err(PatternFault::Star),
            None => Ok(Self::Plain(text)),
        }
    }
}

/// True for what may follow the colon of a name.
#[must_use]
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Values by pattern.
#[derive(Clone, Debug)]
pub struct Patterns<T> {
    /// The first is the root's, if there is any.
    nodes: Vec<Node<T>>,
}

/// What follows a number of segments.
#[derive(Clone, Debug)]
struct Node<T> {
    /// The nodes behind plain segments, by their text.
    plain: Vec<(Box<[u8]>, usize)>,
    /// The node behind a named segment.
    named: Option<usize>,
    /// The value of the pattern that ends here.
    end: Option<T>,
    /// The value of the pattern that goes on with `*` here.
    rest: Option<T>,
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Self { plain: Vec::new(), named: None, end: None, rest: None }
    }
}

impl<T> Default for Patterns<T> {
    fn default() -> Self {
        Self { nodes: Vec::new() }
    }
}

impl<T> Patterns<T> {
    /// True if there is no pattern.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a pattern.
    ///
    /// # Errors
    /// The value of a pattern that matches the same paths, whatever its names are.
    pub fn insert(&mut self, pattern: &Pattern<'_>, value: T) -> Result<(), &T> {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = 0;
        for segment in &pattern.segments {
            at = match segment {
                Segment::Plain(text) => self.plain(at, text.as_bytes()),
                Segment::Named(_) => self.named(at),
            };
        }
        let node = &mut self.nodes[at];
        let place = if pattern.open { &mut node.rest } else { &mut node.end };
        match place {
            Some(other) => Err(other),
            None => {
                *place = Some(value);
                Ok(())
            }
        }
    }

    /// Shows the values whose patterns match `path` to `visit`, until that returns true: first
    /// those with a plain segment where others have a name, then those with a name, then those with
    /// `*`. `path` is decoded and relative, as [`crate::target::Path::relative`] is.
    ///
    /// Returns true if `visit` did.
    pub fn visit<'t, 'p>(
        &'t self,
        path: &'p [u8],
        visit: &mut dyn FnMut(&'t T, &Captures<'p>) -> bool,
    ) -> bool {
        !self.is_empty() && self.walk(0, path, &mut Captures::default(), visit)
    }

    /// Whether a `visit` has ended it. Each node has one way to it, so it is walked once at most;
    /// no way is longer than [`SEGMENTS_MAX`].
    fn walk<'t, 'p>(
        &'t self,
        at: usize,
        rest: &'p [u8],
        captures: &mut Captures<'p>,
        visit: &mut dyn FnMut(&'t T, &Captures<'p>) -> bool,
    ) -> bool {
        let node = &self.nodes[at];
        if rest.is_empty() {
            if let Some(value) = &node.end
                && visit(value, captures)
            {
                return true;
            }
        } else {
            let end = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
            let (segment, after) = (&rest[..end], rest.get(end + 1..).unwrap_or_default());
            if let Ok(found) = node.find(segment)
                && self.walk(node.plain[found].1, after, captures, visit)
            {
                return true;
            }
            if let Some(next) = node.named {
                captures.named[captures.count] = segment;
                captures.count += 1;
                let ended = self.walk(next, after, captures, visit);
                captures.count -= 1;
                if ended {
                    return true;
                }
            }
        }
        match &node.rest {
            Some(value) => {
                captures.rest = rest;
                let ended = visit(value, captures);
                captures.rest = &[];
                ended
            }
            None => false,
        }
    }

    /// The node behind a plain segment, made if there is none.
    fn plain(&mut self, at: usize, text: &[u8]) -> usize {
        match self.nodes[at].find(text) {
            Ok(found) => self.nodes[at].plain[found].1,
            Err(place) => {
                let new = self.grow();
                self.nodes[at].plain.insert(place, (text.into(), new));
                new
            }
        }
    }

    /// The node behind a named segment, made if there is none.
    fn named(&mut self, at: usize) -> usize {
        if let Some(next) = self.nodes[at].named {
            return next;
        }
        let new = self.grow();
        self.nodes[at].named = Some(new);
        new
    }

    fn grow(&mut self) -> usize {
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }
}

impl<T> Node<T> {
    fn find(&self, segment: &[u8]) -> Result<usize, usize> {
        self.plain.binary_search_by(|(text, _)| (**text).cmp(segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, string::String, vec};

    #[test]
    fn patterns_are_read_or_explained() {
        for text in ["/", "/*", "/a", "/a/", "//a", "/a/*", "/:x/b/:y_2", "/a:b", "/a b/\u{fc}"] {
            assert!(Pattern::parse(text).is_ok(), "{text}");
        }
        for (text, fault) in [
            ("", PatternFault::NoSlash),
            ("a", PatternFault::NoSlash),
            ("*", PatternFault::NoSlash),
            ("/a%20b", PatternFault::Encoded),
            ("/a?b", PatternFault::Encoded),
            ("/a\tb", PatternFault::Encoded),
            ("/a/../b", PatternFault::Dots),
            ("/*/a", PatternFault::Star),
            ("/a*", PatternFault::Star),
            ("/*.js", PatternFault::Star),
            ("/:", PatternFault::Name),
            ("/:a-b", PatternFault::Name),
            ("/:splat", PatternFault::Name),
            ("/:a/:a", PatternFault::Twice),
        ] {
            assert_eq!(Pattern::parse(text), Err(fault), "{text}");
        }
        let long = "/a".repeat(SEGMENTS_MAX + 1);
        assert_eq!(Pattern::parse(&long), Err(PatternFault::Long));
        let names: String = (0..=NAMES_MAX).map(|at| format!("/:n{at}")).collect();
        assert_eq!(Pattern::parse(&names), Err(PatternFault::Long));
    }

    /// The patterns that match a path, in order, with what their parts stand for.
    fn found(table: &Patterns<&'static str>, path: &str) -> Vec<String> {
        let mut all = Vec::new();
        table.visit(path.as_bytes(), &mut |text, captures| {
            let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let pattern = Pattern::parse(text).expect("it was read before");
            let mut line = String::from(*text);
            for at in 0..pattern.names().count() {
                line.push_str(&format!(" {}", shown(captures.named(at))));
            }
            if pattern.is_open() {
                line.push_str(&format!(" [{}]", shown(captures.rest)));
            }
            all.push(line);
            false
        });
        all
    }

    fn table(texts: &[&'static str]) -> Patterns<&'static str> {
        let mut table = Patterns::default();
        for text in texts {
            let pattern = Pattern::parse(text).expect("a pattern");
            assert_eq!(table.insert(&pattern, *text), Ok(()), "{text}");
        }
        table
    }

    #[test]
    fn the_most_specific_pattern_comes_first() {
        let table = table(&["/*", "/:a/b", "/a/*", "/a/:x", "/a/b", "/a", "/:x/:y/*", "/"]);
        for (path, expected) in [
            ("", vec!["/", "/* []"]),
            ("a", vec!["/a", "/a/* []", "/* [a]"]),
            ("a/b", vec!["/a/b", "/a/:x b", "/a/* [b]", "/:a/b a", "/:x/:y/* a b []", "/* [a/b]"]),
            ("c/b", vec!["/:a/b c", "/:x/:y/* c b []", "/* [c/b]"]),
            ("a/c/d", vec!["/a/* [c/d]", "/:x/:y/* a c [d]", "/* [a/c/d]"]),
            ("A", vec!["/* [A]"]),
        ] {
            assert_eq!(found(&table, path), expected, "{path}");
        }
        assert_eq!(found(&Patterns::default(), "a"), Vec::<String>::new());
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

    #[test]
    fn a_visit_ends_when_it_is_told_to() {
        let table = table(&["/*", "/a/*", "/a/b"]);
        let mut seen = Vec::new();
        let ended = table.visit(b"a/b", &mut |text, _| {
            seen.push(*text);
            *text == "/a/*"
        });
        assert!(ended);
        assert_eq!(seen, ["/a/b", "/a/*"]);
    }

    #[test]
    fn the_same_paths_are_matched_once() {
        let mut table = table(&["/a/:x", "/a/*", "/b"]);
        for (text, other) in [("/a/:y", "/a/:x"), ("//a/*", "/a/*"), ("/b/", "/b")] {
            let pattern = Pattern::parse(text).expect("a pattern");
            assert_eq!(table.insert(&pattern, "again"), Err(&other), "{text}");
        }
    }

    /// Tables and paths of two letters: what is found is what a comparison of each pattern finds.
    #[test]
    fn what_matches_is_found() {
        let parts = ["a", "b", ":x"];
        let mut texts = vec![String::from("/"), String::from("/*")];
        for one in parts {
            texts.extend([format!("/{one}"), format!("/{one}/*")]);
            for other in parts {
                let other = other.replace('x', "y");
                texts.extend([format!("/{one}/{other}"), format!("/{one}/{other}/*")]);
            }
        }
        let mut table = Patterns::default();
        for text in &texts {
            let pattern = Pattern::parse(text).expect("a pattern");
            assert!(table.insert(&pattern, text.clone()).is_ok(), "{text}");
        }
        for path in ["", "a", "b", "c", "a/a", "a/b", "b/c", "c/a/a", "a/b/c", "b/b/b"] {
            let mut all = Vec::new();
            table.visit(path.as_bytes(), &mut |text, _| {
                all.push(text.clone());
                false
            });
            let mut expected: Vec<_> =
                texts.iter().filter(|text| matches(text, path)).cloned().collect();
            all.sort_unstable();
            expected.sort_unstable();
            assert_eq!(all, expected, "{path}");
        }
    }

    fn matches(pattern: &str, path: &str) -> bool {
        let split = |text: &str| -> Vec<String> {
            text.split('/').filter(|text| !text.is_empty()).map(String::from).collect()
        };
        let (pattern, path) = (split(pattern), split(path));
        let open = pattern.last().is_some_and(|last| last == "*");
        let plain = &pattern[..pattern.len() - usize::from(open)];
        let long = if open { path.len() >= plain.len() } else { path.len() == plain.len() };
        long && plain.iter().zip(&path).all(|(one, other)| one.starts_with(':') || one == other)
    }
}
