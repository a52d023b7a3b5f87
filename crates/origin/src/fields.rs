//! The owner's rules for the fields that files are sent with.
use crate::cors;
use alloc::{boxed::Box, collections::BTreeMap, format, vec, vec::Vec};
use regatta_http::{
    field::is_token,
    h1::write_field,
    pattern::{Full, MatchCost, Names, Pattern, Patterns, Refused},
};

/// The most fields that rules add to a response.
pub const RULED_FIELDS_MAX: u32 = 64;
/// The most bytes of these fields.
pub const RULED_BYTES_MAX: u32 = 16 << 10;

/// Line of a rule: the change of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderLine {
    /// Send this value, in place of the server's own.
    Set(Box<str>, Box<str>),
    /// Do not send the server's own.
    Remove(Box<str>),
}

/// The reason for which a text says nothing of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// Neither `Name: value` nor `! Name`.
    Form,
    /// A value over 8 KiB, or with characters other than visible ASCII, spaces and tabs.
    Value,
    /// The server makes that field itself.
    Refused,
}

impl HeaderFault {
    /// Sentence for people: the fault, and what helps.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Form => "it must be a field, as in \"Name: value\", or \"! Name\" to remove one",
            Self::Value => {
                "a field value has only visible ASCII characters, spaces and tabs, 8 KiB at most"
            }
            Self::Refused => "the server makes this field itself, and it cannot be changed",
        }
    }
}

/// The longest value of a field, bytes.
const VALUE_BYTES_MAX: usize = 8 << 10;

/// Fields that frame the message, or that the server knows better.
const REFUSED: [&str; 17] = [
    "accept-ranges",
    "age",
    "connection",
    "content-length",
    "content-range",
    "date",
    "etag",
    "keep-alive",
    "last-modified",
    "location",
    "proxy-connection",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "www-authenticate",
];

/// Fields that a 304 has as well (RFC 9110 §15.4.5), besides those with a place of their own.
const REVALIDATED: [&str; 3] = ["content-location", "expires", "vary"];

impl HeaderLine {
    /// Reads `Name: value`, or `! Name`.
    ///
    /// # Errors
    /// The fault of the line.
    pub fn parse(text: &str) -> Result<Self, HeaderFault> {
        let removed = text.strip_prefix('!');
        let (name, value) = match removed {
            Some(name) => (name.trim(), ""),
            None => text.split_once(':').ok_or(HeaderFault::Form)?,
        };
        let value = value.trim();
        if !is_token(name) || (removed.is_none() && value.is_empty()) {
            return Err(HeaderFault::Form);
        }
        let allowed = |byte: u8| matches!(byte, b' ' | b'\t') || byte.is_ascii_graphic();
        if value.len() > VALUE_BYTES_MAX || !value.bytes().all(allowed) {
            return Err(HeaderFault::Value);
        }
        if is_one_of(name, &REFUSED) {
            return Err(HeaderFault::Refused);
        }
        Ok(match removed {
            Some(_) => Self::Remove(name.into()),
            None => Self::Set(name.into(), value.into()),
        })
    }

    fn name(&self) -> &str {
        match self {
            Self::Set(name, _) | Self::Remove(name) => name,
        }
    }

    /// True if it sets permissions for scripts of other sites.
    #[must_use]
    pub fn grants(&self) -> bool {
        matches!(self, Self::Set(name, _) if cors::grants(name.as_bytes()))
    }
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// Fields of one file, as the rules change them.
#[derive(Debug, Default)]
pub(crate) struct Amendment<'a> {
    /// The value of `Content-Type`, if a rule has one.
    pub(crate) content_type: Option<&'a str>,
    /// The value of `Content-Encoding`, if a rule has one; empty for none.
    pub(crate) content_encoding: Option<&'a str>,
    /// The value of `Cache-Control`, if a rule has one; empty for none.
    pub(crate) cache_control: Option<&'a str>,
    /// True if a rule sets or removes `X-Content-Type-Options`.
    pub(crate) sniffing: bool,
    /// Further field lines; those of a 304 come first.
    pub(crate) fields: Vec<u8>,
    /// Number of their bytes that a 304 has as well.
    pub(crate) revalidated: usize,
}

impl<'a> Amendment<'a> {
    /// Takes a line; `private` says that caches which several share may not keep the response.
    fn amend(&mut self, line: &'a HeaderLine, private: bool, further: &mut Vec<u8>) {
        let name = line.name();
        if private && is_for_shared_caches(name) {
            return;
        }
        let value = match line {
            HeaderLine::Set(_, value) => &**value,
            HeaderLine::Remove(_) => "",
        };
        if is_one_of(name, &["content-encoding"]) {
            self.content_encoding = Some(value);
        } else if is_one_of(name, &["cache-control"]) {
            self.cache_control = Some(value);
        } else if is_one_of(name, &["content-type"]) {
            self.content_type = Some(value).filter(|value| !value.is_empty());
        } else {
            self.sniffing |= is_one_of(name, &["x-content-type-options"]);
            let again = is_one_of(name, &REVALIDATED);
            let out = if again { &mut self.fields } else { further };
            if !value.is_empty() {
                write_field(out, name, value.as_bytes());
            }
        }
    }
}

/// True for a field that speaks to shared caches alone.
fn is_for_shared_caches(name: &str) -> bool {
    const TARGETED: &[u8] = b"cdn-cache-control"; // RFC 9213, and those of vendors that end so
    let start = name.len().saturating_sub(TARGETED.len());
    let others = ["surrogate-control", "edge-control", "x-accel-expires"];
    name.as_bytes()[start..].eq_ignore_ascii_case(TARGETED) || is_one_of(name, &others)
}

/// The reason for which a rule is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleFault<'r> {
    /// The rule at this place matches the same paths.
    Taken(&'r str),
    /// With it, some paths would cost more than any may.
    Full(Full),
}

impl<'r> RuleFault<'r> {
    pub(crate) fn from_refused<T>(
        refused: Refused<'r, T>,
        place: impl FnOnce(&'r T) -> &'r str,
    ) -> Self {
        match refused {
            Refused::Taken(other) => Self::Taken(place(other)),
            Refused::Full(full) => Self::Full(full),
        }
    }
}

/// Rules by pattern: those that match a file have [`RULED_FIELDS_MAX`] lines at most, together.
#[derive(Clone, Debug)]
pub(crate) struct HeaderRules {
    table: Patterns<HeaderRule>,
    /// The number of each name of a field, in lower case.
    names: BTreeMap<Box<str>, u32>,
    /// True if some rules set permissions for scripts.
    grants: bool,
}

/// Fields for the files with a path that matches a pattern.
#[derive(Clone, Debug)]
struct HeaderRule {
    /// Each with the number of its name.
    lines: Box<[(u32, HeaderLine)]>,
    /// Number of those that a merge does not change.
    own: usize,
    places: Box<[Box<str>]>,
}

/// Report of a merge with a rule for the same paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Place of the other rule.
    pub place: Box<str>,
    /// Names of fields that the other rule sets, and that are not taken of this one.
    pub kept: Vec<Box<str>>,
}

impl Default for HeaderRules {
    fn default() -> Self {
        let table = Patterns::with_values_max(RULED_FIELDS_MAX, RULED_BYTES_MAX);
        Self { table, names: BTreeMap::new(), grants: false }
    }
}

impl HeaderRules {
    pub(crate) const fn grants(&self) -> bool {
        self.grants
    }

    /// True if some rules name the coding of files.
    pub(crate) fn encodes(&self) -> bool {
        self.names.contains_key("content-encoding")
    }

    pub(crate) fn add(
        &mut self,
        pattern: &Pattern<'_>,
        lines: Vec<HeaderLine>,
        place: &str,
    ) -> Result<(), RuleFault<'_>> {
        if lines.len() > RULED_FIELDS_MAX as usize {
            return Err(RuleFault::Full(Full::Values));
        }
        let grants = lines.iter().any(HeaderLine::grants);
        let lines = join(self.numbered(lines));
        let (own, cost) = (lines.len(), cost(&lines));
        let rule = HeaderRule { lines: lines.into(), own, places: vec![place.into()].into() };
        let added = self.table.insert(pattern, rule, cost);
        self.grants |= grants && added.is_ok();
        added.map_err(|refused| RuleFault::from_refused(refused, |rule| &*rule.places[0]))
    }

    pub(crate) fn merge(
        &mut self,
        pattern: &Pattern<'_>,
        lines: Vec<HeaderLine>,
        place: &str,
    ) -> Result<Option<Merged>, Full> {
        if lines.len() > RULED_FIELDS_MAX as usize {
            return Err(Full::Values);
        }
        let grants = lines.iter().any(HeaderLine::grants);
        let mut lines = self.numbered(lines);
        let (mut places, mut own, mut merged) = (vec![place.into()], 0, None);
        if let Some(rule) = self.table.get(pattern) {
            let (kept, further) = rule.lines.split_at(rule.own);
            let is_kept = |name: u32| kept.iter().any(|(other, _)| *other == name);
            let overruled = lines.extract_if(.., |(name, _)| is_kept(*name));
            let names = overruled.map(|(_, line)| line.name().into()).collect();
            merged = Some(Merged { place: rule.places[0].clone(), kept: names });
            lines = join([further, &lines].concat());
            lines.splice(..0, kept.iter().cloned());
            own = rule.own;
            places.splice(..0, rule.places.iter().cloned());
        } else {
            lines = join(lines);
        }
        let cost = cost(&lines);
        let rule = HeaderRule { lines: lines.into(), own, places: places.into() };
        self.table.replace(pattern, rule, cost)?;
        self.grants |= grants;
        Ok(merged)
    }

    /// Places of the rules that have fields for a file, the strongest first.
    pub(crate) fn places(&self, names: Names<'_>) -> Vec<&str> {
        let mut places = Vec::new();
        self.table.visit_names(names, &mut |rule| {
            places.extend(rule.places.iter().map(|place| &**place));
        });
        places
    }

    /// Fields of a file, as all rules change them. For each field, the most specific pattern
    /// counts.
    pub(crate) fn amend(&self, names: Names<'_>, private: bool) -> Amendment<'_> {
        let mut amendment = Amendment::default();
        let (mut further, mut named) = (Vec::new(), Vec::new());
        self.table.visit_names(names, &mut |rule| {
            let before = named.len();
            for (name, line) in &rule.lines {
                if !named[..before].contains(name) {
                    amendment.amend(line, private, &mut further);
                    named.push(*name);
                }
            }
        });
        amendment.revalidated = amendment.fields.len();
        amendment.fields.append(&mut further);
        amendment
    }

    fn numbered(&mut self, lines: Vec<HeaderLine>) -> Vec<(u32, HeaderLine)> {
        let number = |line: HeaderLine| {
            let next = u32::try_from(self.names.len()).expect("a configuration is short");
            let name = line.name().to_ascii_lowercase().into_boxed_str();
            (*self.names.entry(name).or_insert(next), line)
        };
        lines.into_iter().map(number).collect()
    }
}

/// Cost of these lines in a table.
fn cost(lines: &[(u32, HeaderLine)]) -> MatchCost {
    let length = |line: &HeaderLine| match line {
        HeaderLine::Set(name, value) => name.len() + value.len() + 4,
        HeaderLine::Remove(name) => name.len(),
    };
    let bytes: usize = lines.iter().map(|(_, line)| length(line)).sum();
    let bounded = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    MatchCost::of_value(bounded(lines.len()), bounded(bytes))
}

/// Makes one line of all that a rule says of `Cache-Control`, which is sent in one. Other fields
/// stay apart: a recipient joins them (RFC 9110 §5.3).
fn join(lines: Vec<(u32, HeaderLine)>) -> Vec<(u32, HeaderLine)> {
    let mut joined: Vec<(u32, HeaderLine)> = Vec::with_capacity(lines.len());
    for (number, line) in lines {
        let is_caching = line.name().eq_ignore_ascii_case("cache-control");
        let first = joined.iter().position(|(other, _)| is_caching && *other == number);
        let Some(first) = first.map(|at| &mut joined[at].1) else {
            joined.push((number, line));
            continue;
        };
        *first = match (&*first, line) {
            (HeaderLine::Set(name, value), HeaderLine::Set(_, more)) => {
                HeaderLine::Set(name.clone(), format!("{value}, {more}").into())
            }
            (_, line) => line,
        };
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn headers(rows: &[(&str, &[&str])]) -> HeaderRules {
        let mut rules = HeaderRules::default();
        for (pattern, lines) in rows {
            let read = Pattern::parse(pattern).expect("a pattern");
            let lines = lines.iter().map(|line| HeaderLine::parse(line).expect("a field"));
            assert_eq!(rules.add(&read, lines.collect(), pattern), Ok(()));
        }
        rules
    }

    #[test]
    fn the_most_specific_rule_counts_for_each_field() {
        let rules = headers(&[
            ("/*", &["X-A: all", "X-B: all", "Cache-Control: no-store", "Vary: Cookie"]),
            ("/a/*", &["x-a: a", "! X-B", "Link: </1>", "Link: </2>", "cache-control: max-age=1"]),
            ("/a/b", &["Content-Type: text/x-b", "! Cache-Control", "! X-Content-Type-Options"]),
        ]);
        let check = |name: &[u8], expected: &str, revalidated: &str, caching: Option<&str>| {
            let amended = rules.amend(Names { path: name, ..Names::default() }, false);
            assert_eq!(str::from_utf8(&amended.fields), Ok(expected));
            assert_eq!(&amended.fields[..amended.revalidated], revalidated.as_bytes());
            assert_eq!(amended.cache_control, caching);
            amended
        };
        let vary = "Vary: Cookie\r\n";
        let all = "Vary: Cookie\r\nX-A: all\r\nX-B: all\r\n";
        let amended = check(b"x", all, vary, Some("no-store"));
        assert!(!amended.sniffing && amended.content_type.is_none());
        let below = "Vary: Cookie\r\nx-a: a\r\nLink: </1>\r\nLink: </2>\r\n";
        check(b"a/x", below, vary, Some("max-age=1"));
        let amended = check(b"a/b", below, vary, Some(""));
        assert!(amended.sniffing && amended.content_type == Some("text/x-b"));
        let names = Names { path: b"a/b", ..Names::default() };
        assert_eq!(rules.places(names), ["/a/b", "/a/*", "/*"]);
        let none = HeaderRules::default();
        assert!(none.amend(Names::default(), false).fields.is_empty());
    }

    #[test]
    fn fields_are_read_or_refused() {
        for (text, expected) in [
            ("X-A: b, c ", Ok(HeaderLine::Set("X-A".into(), "b, c".into()))),
            ("!X-A", Ok(HeaderLine::Remove("X-A".into()))),
            ("X-A", Err(HeaderFault::Form)),
            ("X-A:", Err(HeaderFault::Form)),
            ("X A: b", Err(HeaderFault::Form)),
            ("X-A: b\r\nX-B: c", Err(HeaderFault::Value)),
            ("X-A: \u{fc}", Err(HeaderFault::Value)),
            ("Content-Encoding: br", Ok(HeaderLine::Set("Content-Encoding".into(), "br".into()))),
            ("content-LENGTH: 1", Err(HeaderFault::Refused)),
            ("! Date", Err(HeaderFault::Refused)),
        ] {
            assert_eq!(HeaderLine::parse(text), expected, "{text}");
        }
        let long = alloc::format!("X-A: {}", "a".repeat(VALUE_BYTES_MAX + 1));
        assert_eq!(HeaderLine::parse(&long), Err(HeaderFault::Value));
        let mut rules = headers(&[("/a/:x", &["X-A: b"])]);
        let again = Pattern::parse("/a/:y").expect("a pattern");
        assert_eq!(rules.add(&again, Vec::new(), "again"), Err(RuleFault::Taken("/a/:x")));
    }

    fn lines(texts: &[&str]) -> Vec<HeaderLine> {
        texts.iter().map(|text| HeaderLine::parse(text).expect("a field")).collect()
    }

    #[test]
    fn what_a_rule_says_twice_of_caching_is_one_line() {
        for (texts, expected) in [
            (&["Cache-Control: private", "cache-control: max-age=60"][..], "private, max-age=60"),
            (&["Cache-Control: private", "! Cache-Control"], ""),
            (&["! Cache-Control", "Cache-Control: no-store"], "no-store"),
        ] {
            let rules = headers(&[("/*", texts)]);
            let amended = rules.amend(Names::default(), false);
            assert_eq!(amended.cache_control, Some(expected), "{texts:?}");
        }
    }

    #[test]
    fn rules_for_the_same_paths_are_merged() {
        let mut rules = headers(&[("/a/:x", &["X-A: own", "! X-B"])]);
        let pattern = Pattern::parse("/a/:y").expect("a pattern");
        let further = lines(&["x-a: other", "X-B: b", "X-C: 1", "Cache-Control: no-store"]);
        let merged = Merged { place: "/a/:x".into(), kept: vec!["x-a".into(), "X-B".into()] };
        assert_eq!(rules.merge(&pattern, further, "second"), Ok(Some(merged)));
        let further = lines(&["X-C: 2", "Cache-Control: max-age=1"]);
        let merged = Merged { place: "/a/:x".into(), kept: Vec::new() };
        assert_eq!(rules.merge(&pattern, further, "third"), Ok(Some(merged)));
        let names = Names { path: b"a/b", ..Names::default() };
        let amended = rules.amend(names, false);
        assert_eq!(str::from_utf8(&amended.fields), Ok("X-A: own\r\nX-C: 1\r\nX-C: 2\r\n"));
        assert_eq!(amended.cache_control, Some("no-store, max-age=1"));
        assert_eq!(rules.places(names), ["/a/:x", "second", "third"]);
    }

    #[test]
    fn fields_for_shared_caches_are_not_sent_with_what_is_private() {
        let rules = headers(&[(
            "/*",
            &["CDN-Cache-Control: max-age=9", "Netlify-CDN-Cache-Control: public", "X-A: b"],
        )]);
        let shared = rules.amend(Names::default(), false);
        assert!(shared.fields.starts_with(b"CDN-Cache-Control: max-age=9\r\n"));
        assert_eq!(rules.amend(Names::default(), true).fields, b"X-A: b\r\n");
    }

    /// A table that is built to be expensive: no file has more fields than the limit, nor more
    /// lines that are compared.
    #[test]
    fn the_fields_of_any_file_are_bounded() {
        let mut rules = HeaderRules::default();
        let mut cut = 0;
        for number in 0..4_096_u32 {
            let part = |at: u32| {
                if number >> at & 1 == 0 { "/a".into() } else { format!("/:n{}", at % 8) }
            };
            let text: String = (0..1 + number % 8).map(part).collect();
            let star = if number % 3 == 0 { "/*" } else { "" };
            let text = text + star;
            let pattern = Pattern::parse(&text).expect("a pattern");
            let texts: Vec<_> = (0..number % 9).map(|at| format!("X-{number}-{at}: b")).collect();
            let texts: Vec<_> = texts.iter().map(|text| &**text).collect();
            cut += u32::from(rules.merge(&pattern, lines(&texts), "").is_err());
        }
        assert!(cut > 1_000, "{cut}");
        for length in 0..10 {
            for number in 0..1_u32 << length {
                let part = |at: u32| if number >> at & 1 == 0 { "a" } else { "b" };
                let path = (0..length).map(part).collect::<Vec<_>>().join("/");
                let path = path.as_bytes();
                let mut compared = 0;
                let names = Names { path, ..Names::default() };
                rules.table.visit_names(names, &mut |rule| compared += rule.lines.len());
                assert!(compared <= RULED_FIELDS_MAX as usize, "{compared} {path:?}");
                let fields = rules.amend(names, false).fields;
                assert!(fields.len() <= RULED_BYTES_MAX as usize);
            }
        }
    }
}
