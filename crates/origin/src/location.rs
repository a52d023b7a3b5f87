//! Targets of redirects: the value of `Location`.
use alloc::{boxed::Box, vec::Vec};
use percent_encoding::percent_decode_str;
use regatta_http::{
    h1::write_decimal,
    pattern::{Captures, NAMES_MAX, Pattern},
    target::{Path, PathFault, decode_path, is_host},
};

/// The longest target of a rule, bytes.
const TEMPLATE_BYTES_MAX: usize = 8 << 10;
/// The most times that a target may have a name: filled-in text has at most this many times the
/// length of the path, before it is encoded.
const FILLED_MAX: usize = 4;
/// The port of an `https` URL that names none.
const HTTPS_PORT: u16 = 443;

/// Target of a rule, with places for the parts of the path that its pattern found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    /// Scheme and authority, in which nothing is filled in; empty for the same host.
    origin: Box<str>,
    path: Box<[Part]>,
    /// `None`: that of the request.
    query: Option<Box<[Part]>>,
    /// With its `#`, or empty.
    fragment: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    /// Value of the name with this number.
    Named(usize),
    /// Value of `*`.
    Rest,
    /// The same, if `*` is all that is left of the path: a slash at its end is part of it.
    End,
}

/// Reason why a text is no target of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateFault {
    /// Neither a path nor a URL.
    Form,
    /// A byte that must be encoded, or a `%` without two hex digits.
    Byte,
    /// A name that the pattern does not have.
    Name,
    /// Too long, or a name too many times.
    Long,
    /// The name of a file, with parts that a path of a file cannot have.
    File,
}

impl TemplateFault {
    /// Sentence for people: the fault, and what helps.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Form => {
                "it must be a path, as in /new/:splat, or a URL, as in https://example.com/:splat, \
                 with names in its path or query only"
            }
            Self::Byte => "it has a character that must be encoded, as in %20 for a space",
            Self::Name => {
                "it has a name that the pattern does not have (:splat is what * stands for; a \
                 colon that is no name is written %3A)"
            }
            Self::Long => "it must have at most 8 KiB, and each name at most 4 times",
            Self::File => {
                "it must be the path of a file below the root, without host, ?, #, segments . or \
                 .., %2F and %00"
            }
        }
    }
}

impl Template {
    /// Reads the target of a rule with this pattern.
    pub(crate) fn parse(text: &str, pattern: &Pattern<'_>) -> Result<Self, TemplateFault> {
        if text.len() > TEMPLATE_BYTES_MAX {
            return Err(TemplateFault::Long);
        }
        if !is_reference(text.as_bytes()) {
            return Err(TemplateFault::Byte);
        }
        let (text, fragment) = text.split_at(text.find('#').unwrap_or(text.len()));
        let (text, query) = match text.split_once('?') {
            Some((text, query)) => (text, Some(parts(query, pattern)?)),
            None => (text, None),
        };
        let (origin, path) = match text {
            "" => return Err(TemplateFault::Form),
            _ if text.starts_with("//") => return Err(TemplateFault::Form),
            _ if text.starts_with('/') => ("", text),
            _ => split_origin(text)?,
        };
        let path = parts(if path.is_empty() { "/" } else { path }, pattern)?;
        let all = || path.iter().chain(query.iter().flatten());
        let filled = || all().filter(|part| !matches!(part, Part::Text(_)));
        let often = |part: &Part| filled().filter(|other| *other == part).count() > FILLED_MAX;
        if filled().count() > FILLED_MAX * (NAMES_MAX + 1) || filled().any(often) {
            return Err(TemplateFault::Long);
        }
        Ok(Self { origin: origin.into(), path, query, fragment: fragment.into() })
    }

    /// Reads the name of a file that answers where the path does not exist.
    pub(crate) fn parse_file(text: &str, pattern: &Pattern<'_>) -> Result<Self, TemplateFault> {
        let refused = |segment: &str| {
            let decoded: Vec<u8> = percent_decode_str(segment).collect();
            matches!(&*decoded, b"." | b"..") || decoded.iter().any(|byte| b"/\0".contains(byte))
        };
        if !text.starts_with('/') || text.contains(['?', '#']) || text.split('/').any(refused) {
            return Err(TemplateFault::File);
        }
        Self::parse(text, pattern)
    }

    /// The reference from `path`. It keeps the query of `path` if the template has none.
    ///
    /// For every path it leads to a path on the same host, or to the host that the template names:
    /// filled-in text is encoded, and no slash follows another.
    pub(crate) fn location(&self, captures: &Captures<'_>, path: &Path<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.origin.len() + path.raw.len() + 32);
        out.extend_from_slice(self.origin.as_bytes());
        let slash = path.trailing_slash && !captures.rest.is_empty();
        self.write_path(captures, slash, &mut out);
        match (&self.query, path.query) {
            (Some(parts), _) => {
                let at = out.len();
                out.push(b'?');
                for part in parts {
                    part.for_each(captures, |byte, filled| {
                        if filled { write_filled(&mut out, byte) } else { out.push(byte) }
                    });
                    if slash && *part == Part::End {
                        write_filled(&mut out, b'/');
                    }
                }
                if out.len() == at + 1 {
                    out.truncate(at);
                }
            }
            (None, Some(query)) => {
                out.push(b'?');
                write_encoded(&mut out, query);
            }
            (None, None) => {}
        }
        out.extend_from_slice(self.fragment.as_bytes());
        out
    }

    /// The path of the file that answers. It is resolved as a request's own path is: filled-in text
    /// may turn a segment into `..`.
    ///
    /// # Errors
    /// The reason why a request for that path would be refused.
    pub(crate) fn file<'r>(
        &self,
        captures: &Captures<'_>,
        room: &'r mut Room,
    ) -> Result<Path<'r>, PathFault> {
        room.raw.clear();
        self.write_path(captures, false, &mut room.raw);
        decode_path(&room.raw, &mut room.name)
    }

    /// Writes the path, encoded; `slash`: the value of `*` ended in one.
    fn write_path(&self, captures: &Captures<'_>, slash: bool, out: &mut Vec<u8>) {
        for part in &self.path {
            part.for_each(captures, |byte, filled| match byte {
                b'/' => push_slash(out),
                _ if filled => write_filled(out, byte),
                _ => out.push(byte),
            });
        }
        if slash && self.path.last() == Some(&Part::End) {
            push_slash(out);
        }
    }
}

/// Buffers in which names of files are put together.
#[derive(Debug, Default)]
pub(crate) struct Room {
    pub(crate) name: Vec<u8>,
    /// The path that a rule makes, encoded.
    raw: Vec<u8>,
}

impl Part {
    /// Calls `take` with each byte, and whether it comes from the path.
    fn for_each(&self, captures: &Captures<'_>, mut take: impl FnMut(u8, bool)) {
        let (bytes, filled) = match self {
            Self::Text(text) => (text.as_bytes(), false),
            Self::Named(at) => (captures.named(*at), true),
            Self::Rest | Self::End => (captures.rest, true),
        };
        for &byte in bytes {
            take(byte, filled);
        }
    }
}

/// Splits an absolute URL before its path.
fn split_origin(text: &str) -> Result<(&str, &str), TemplateFault> {
    let (scheme, after) = text.split_once("://").ok_or(TemplateFault::Form)?;
    let host = after.split('/').next().unwrap_or_default();
    let known = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    if !known || host.is_empty() || !is_host(host.as_bytes()) {
        return Err(TemplateFault::Form);
    }
    Ok(text.split_at(text.len() - after.len() + host.len()))
}

fn parts(mut text: &str, pattern: &Pattern<'_>) -> Result<Box<[Part]>, TemplateFault> {
    let mut parts = Vec::new();
    while let Some((before, after)) = text.split_once(':') {
        let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let (name, rest) = after.split_at(after.find(is_end).unwrap_or(after.len()));
        if !before.is_empty() {
            parts.push(Part::Text(before.into()));
        }
        parts.push(match name {
            "splat" if pattern.ends_in_star() => Part::End,
            "splat" if pattern.is_open() => Part::Rest,
            _ => Part::Named(pattern.name_at(name).ok_or(TemplateFault::Name)?),
        });
        text = rest;
    }
    if !text.is_empty() {
        parts.push(Part::Text(text.into()));
    }
    Ok(parts.into_boxed_slice())
}

/// True if every byte may be in a reference (RFC 3986 §4.1), and each `%` has two hex digits.
fn is_reference(text: &[u8]) -> bool {
    let allowed = |byte: &u8| is_plain(*byte) || b"!$&'()*+,;=:@/?#[]%".contains(byte);
    let hex = |at: usize| text.get(at).is_some_and(u8::is_ascii_hexdigit);
    let escapes = text.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    text.iter().all(allowed) && escapes.map(|(at, _)| at).all(|at| hex(at + 1) && hex(at + 2))
}

/// True for bytes that never have to be encoded (RFC 3986 §2.3).
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Appends a slash, unless there is one: two would start the name of a host.
fn push_slash(out: &mut Vec<u8>) {
    if out.last() != Some(&b'/') {
        out.push(b'/');
    }
}

/// Appends a byte of a decoded path, encoded unless it never has to be.
fn write_filled(out: &mut Vec<u8>, byte: u8) {
    if is_plain(byte) { out.push(byte) } else { write_escape(out, byte) }
}

/// Appends a name as a path segment or a value in a query: all but letters, digits and `-._~` is
/// percent-encoded.
pub fn write_encoded_name(out: &mut Vec<u8>, name: &[u8]) {
    name.iter().for_each(|&byte| write_filled(out, byte));
}

/// The reference to the same path with a slash.
///
/// It is relative and starts with `./`: for every path it leads only to its own directory on the
/// same host, and its first segment is no scheme.
pub(crate) fn with_slash(path: &Path<'_>) -> Vec<u8> {
    let segment = path.raw.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let mut location = Vec::with_capacity(segment.len() + 8);
    location.extend_from_slice(b"./");
    write_encoded(&mut location, segment);
    location.push(b'/');
    if let Some(query) = path.query {
        location.push(b'?');
        write_encoded(&mut location, query);
    }
    location
}

/// The same target at an address with TLS: a host, which has been checked, and a port.
pub(crate) fn with_tls(host: &[u8], port: u16, target: &[u8]) -> Vec<u8> {
    let mut location = Vec::with_capacity(host.len() + target.len() + 16);
    location.extend_from_slice(b"https://");
    location.extend_from_slice(host);
    if port != HTTPS_PORT {
        location.push(b':');
        write_decimal(&mut location, u64::from(port));
    }
    if target.first() != Some(&b'/') {
        // A URL without a path.
        location.push(b'/');
    }
    write_encoded(&mut location, target);
    location
}

/// Appends a path segment or query, percent-encoded where needed (RFC 3986 §3.3).
fn write_encoded(out: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%".contains(&byte) {
            out.push(byte);
        } else {
            write_escape(out, byte);
        }
    }
}

fn write_escape(out: &mut Vec<u8>, byte: u8) {
    let digit = |nibble: u8| b"0123456789ABCDEF"[usize::from(nibble)];
    out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use regatta_http::pattern::{MatchCost, Patterns};

    /// Target of the only rule for a request target; `None` if it does not match.
    fn leads(rules: &Patterns<Template>, target: &[u8]) -> Option<Vec<u8>> {
        let mut room = Vec::new();
        let path = decode_path(target, &mut room).ok()?;
        let mut found = None;
        rules.visit(path.relative, &mut |to, captures| {
            found = Some(to.location(captures, &path));
            true
        });
        found
    }

    fn rule(from: &str, to: &str) -> Patterns<Template> {
        let pattern = Pattern::parse(from).expect("a pattern");
        let mut rules = Patterns::default();
        let template = Template::parse(to, &pattern).expect("a template");
        assert!(rules.insert(&pattern, template, MatchCost::default()).is_ok());
        rules
    }

    #[test]
    fn what_was_found_is_filled_in() {
        for (from, to, target, expected) in [
            ("/a", "/b", "/a", "/b"),
            ("/a", "/b", "/a?q=1", "/b?q=1"),
            ("/a", "/b?", "/a?q=1", "/b"),
            ("/a", "/b?r", "/a?q=1", "/b?r"),
            ("/a", "/b#c", "/a?q", "/b?q#c"),
            ("/old/*", "/new/:splat", "/old/x/y", "/new/x/y"),
            ("/old/*", "/new/:splat", "/old", "/new/"),
            ("/old/*", "/new/:splat", "/old/", "/new/"),
            ("/old/*", "/new/:splat", "/old/x/", "/new/x/"),
            ("/old/*", "https://h/:splat", "/old/x/y/?q", "https://h/x/y/?q"),
            ("/old/*", "/new/:splat.html", "/old/x/", "/new/x.html"),
            ("/old/*", "/new?to=:splat", "/old/x/", "/new?to=x%2F"),
            ("/old/:x", "/new/:x", "/old/x/", "/new/x"),
            ("/*.php", "/x/:splat", "/a/b.php", "/x/a/b"),
            ("/*.php", "/x/:splat", "/a/b.php/", "/x/a/b"),
            ("/old/*", "/:splat/x", "/old", "/x"),
            ("/*", "/:splat", "/%5cevil.com", "/%5Cevil.com"),
            ("/*", "/:splat", "/a//b/./c", "/a/b/c"),
            ("/*", "https://h:80/:splat", "/a?b", "https://h:80/a?b"),
            ("/*", "https://h", "/a", "https://h/"),
            ("/:y/:m", "/archive/:m-:y", "/2024/05", "/archive/05-2024"),
            ("/s/:word", "/find?q=:word", "/s/a%26b%20c", "/find?q=a%26b%20c"),
            ("/s/:word", "/t%C3%BC/:word", "/s/%C3%BC@%3F", "/t%C3%BC/%C3%BC%40%3F"),
            ("/u/*", "/go?to=:splat", "/u/a/b%3A", "/go?to=a%2Fb%3A"),
        ] {
            let found = leads(&rule(from, to), target.as_bytes()).expect("it matches");
            assert_eq!(String::from_utf8_lossy(&found), expected, "{from} {to} {target}");
        }
    }

    #[test]
    fn templates_are_read_or_explained() {
        let pattern = Pattern::parse("/:a/*").expect("a pattern");
        let paths = ["", "b", "//host/b", "ftp://host/", "javascript:alert(1)"];
        let hosts = ["https:///b", "https://:a/b", "https://u@h/b", "https://h:80:a"];
        for (fault, texts) in [
            (TemplateFault::Form, &paths[..]),
            (TemplateFault::Form, &hosts),
            (TemplateFault::Byte, &["/b c", "/\\host", "/%5", "/\u{fc}"]),
            (TemplateFault::Name, &["/:b", "/a:"]),
            (TemplateFault::Long, &["/:a:a/:a:a?:a"]),
        ] {
            for text in texts {
                assert_eq!(Template::parse(text, &pattern), Err(fault), "{text}");
            }
        }
        for text in ["https://h/a.html", "/a/../b", "/%2e./b", "/a%2fb", "/a?b", "a.html"] {
            assert_eq!(Template::parse_file(text, &pattern), Err(TemplateFault::File), "{text}");
        }
        let long = String::from("/") + &"a".repeat(TEMPLATE_BYTES_MAX);
        assert_eq!(Template::parse(&long, &pattern), Err(TemplateFault::Long));
        assert!(Template::parse("/:a:a/:a:a?:splat", &pattern).is_ok());
        let closed = Pattern::parse("/a").expect("a pattern");
        assert_eq!(Template::parse("/:splat", &closed), Err(TemplateFault::Name));
    }

    #[test]
    fn names_of_files_are_filled_in_as_they_are() {
        let pattern = Pattern::parse("/:lang/*").expect("a pattern");
        for (to, expected) in [
            ("/index.html", "index.html"),
            ("/:lang/404.html", "d e/404.html"),
            ("/x/:splat/y/", "x/a/b/y"),
        ] {
            let template = Template::parse_file(to, &pattern).expect("a template");
            assert_eq!(names(&pattern, template, b"d e/a/b").as_deref(), Ok(expected), "{to}");
        }
    }

    /// The name of the file that the only rule makes of a path.
    fn names(pattern: &Pattern<'_>, to: Template, path: &[u8]) -> Result<String, PathFault> {
        let mut table = Patterns::default();
        assert!(table.insert(pattern, to, MatchCost::default()).is_ok());
        let (mut room, mut found) = (Room::default(), None);
        table.visit(path, &mut |to: &Template, captures| {
            let file = to.file(captures, &mut room);
            found = Some(file.map(|file| String::from_utf8_lossy(file.relative).into_owned()));
            true
        });
        found.expect("it matches")
    }

    /// A filled-in name may complete a segment that leads elsewhere: it is resolved once.
    #[test]
    fn names_of_files_are_resolved() {
        let pattern = Pattern::parse("/in/:x/*").expect("a pattern");
        for (to, path, expected) in [
            ("/pub/..:splat/x", "in/a", Ok("x")),
            ("/pub/..:splat/x", "in/a/b/c", Ok("pub/..b/c/x")),
            ("/pub/:x:splat/x", "in/./.", Ok("x")),
            ("/pub/.:splat/x", "in/a", Ok("pub/x")),
            ("/pub/.:splat/x", "in/a/%2e", Ok("pub/.%2e/x")),
            ("/:splat:x", "in/..", Err(PathFault::AboveRoot)),
            ("/..:splat/x", "in/a", Err(PathFault::AboveRoot)),
            ("/a/:splat", "in/a/\0", Err(PathFault::Malformed)),
        ] {
            let template = Template::parse_file(to, &pattern).expect("a template");
            let found = names(&pattern, template, path.as_bytes());
            assert_eq!(found.as_deref(), expected.as_ref().map(|name| *name), "{to} {path}");
        }
    }

    /// SplitMix64.
    fn below(state: &mut u64, below: usize) -> usize {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % below as u64).expect("64-bit Linux")
    }

    /// Whatever is asked for, no rule leads to another host than its own template names, and no
    /// line ends in its value.
    #[test]
    fn no_path_leads_to_another_host() {
        let pieces =
            "/ \\ %2f %5c %0d%0a // . .. @ : %09 %20 ? evil.com %2e %3f %23 a %C3%BC https:";
        let pieces: Vec<_> = pieces.split(' ').collect();
        let same = [
            ("/*", "/:splat"),
            ("/*", "/:splat/x"),
            ("/:a/*", "/:splat/:a"),
            ("/:a/*", "/:a:splat"),
            ("/:a", "/x?y=:a"),
        ];
        let rules = same.map(|(from, to)| (rule(from, to), "/"));
        let away = (rule("/*", "https://h:80/:splat"), "https://h:80/");
        let (mut seed, mut checked) = (1, 0_u32);
        for _ in 0..1_000_000 {
            let mut target = b"/".to_vec();
            for _ in 0..below(&mut seed, 7) {
                target.extend_from_slice(pieces[below(&mut seed, pieces.len())].as_bytes());
            }
            let at = below(&mut seed, rules.len() + 1);
            let (rules, start) = rules.get(at).unwrap_or(&away);
            let Some(found) = leads(rules, &target) else { continue };
            checked += 1;
            let shown = String::from_utf8_lossy(&target);
            let after = found.strip_prefix(start.as_bytes()).expect("it starts as its template");
            assert!(!matches!(after.first(), Some(b'/' | b'\\')), "{shown}");
            let fine = |byte: &u8| byte.is_ascii_graphic() && *byte != b'\\';
            assert!(found.iter().all(fine), "{shown}");
        }
        assert!(checked > 100_000, "{checked} paths matched");
    }
}
