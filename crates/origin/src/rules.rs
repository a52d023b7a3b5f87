//! The owner's rules for paths: fields that files are sent with, and redirects.
use crate::{
    auth::AuthRule,
    cors::{self, CorsRule, Grant},
    location::{Room, Template, TemplateFault},
};
use alloc::{boxed::Box, vec::Vec};
use regatta_http::{
    Status,
    field::is_token,
    h1::write_field,
    pattern::{Captures, Pattern, Patterns},
    target::{Path, decode_path},
};

/// The rules of a site.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    headers: Patterns<HeaderRule>,
    pub(crate) redirects: Redirects,
    auth: Patterns<AuthRule>,
    /// Numbers in `cors_rules`.
    cors: Patterns<u16>,
    cors_rules: Vec<CorsRule>,
    /// Rules for headers say something of scripts as well.
    headers_grant: bool,
}

/// Fields for the files whose paths match a pattern.
#[derive(Clone, Debug)]
struct HeaderRule {
    lines: Box<[HeaderLine]>,
    place: Box<str>,
}

/// What a rule says of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderLine {
    /// Send this value, in place of what is sent otherwise.
    Set(Box<str>, Box<str>),
    /// Do not send what is sent otherwise.
    Remove(Box<str>),
}

/// Why a text says nothing of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// It is neither `Name: value` nor `! Name`.
    Form,
    /// Its value is longer than 8 KiB, or has another character than visible ASCII characters,
    /// spaces and tabs.
    Value,
    /// The server makes that field itself.
    Refused,
}

impl HeaderFault {
    /// What is wrong and what helps, for people.
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

/// Fields that frame the message, or say what the server knows better.
const REFUSED: [&str; 18] = [
    "accept-ranges",
    "age",
    "connection",
    "content-encoding",
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
    /// What is wrong with it.
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

    /// True if it says what scripts of other sites may do.
    #[must_use]
    pub fn grants(&self) -> bool {
        matches!(self, Self::Set(name, _) if cors::grants(name.as_bytes()))
    }
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// What the rules make of the fields of one file.
#[derive(Debug, Default)]
pub(crate) struct Amendment<'a> {
    /// The value of `Content-Type`, if a rule has one.
    pub(crate) content_type: Option<&'a str>,
    /// The value of `Cache-Control`, if a rule has one; empty for none.
    pub(crate) cache_control: Option<&'a str>,
    /// A rule says of `X-Content-Type-Options` what it will be.
    pub(crate) sniffing: bool,
    /// Further field lines; those of a 304 come first.
    pub(crate) fields: Vec<u8>,
    /// How many bytes of them a 304 has as well.
    pub(crate) revalidated: usize,
}

impl<'a> Amendment<'a> {
    fn take(&mut self, line: &'a HeaderLine, further: &mut Vec<u8>) {
        let name = line.name();
        let value = match line {
            HeaderLine::Set(_, value) => &**value,
            HeaderLine::Remove(_) => "",
        };
        if is_one_of(name, &["cache-control"]) {
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

impl Rules {
    /// Adds fields for the files whose paths match `pattern`; `place` is where that was said.
    ///
    /// # Errors
    /// Where the same was said before.
    pub fn add_headers(
        &mut self,
        pattern: &Pattern<'_>,
        lines: Vec<HeaderLine>,
        place: &str,
    ) -> Result<(), &str> {
        self.headers_grant |= lines.iter().any(HeaderLine::grants);
        let rule = HeaderRule { lines: lines.into_boxed_slice(), place: place.into() };
        self.headers.insert(pattern, rule).map_err(|other| &*other.place)
    }

    /// Adds a redirect for the paths that match `pattern`.
    ///
    /// # Errors
    /// Where another was said before.
    pub fn add_redirect(&mut self, pattern: &Pattern<'_>, redirect: Redirect) -> Result<(), &str> {
        let table = match redirect.force {
            true => &mut self.redirects.forced,
            false => &mut self.redirects.others,
        };
        table.insert(pattern, redirect).map_err(|other| &*other.place)
    }

    /// Lets only users of the rule see the paths that match `pattern`, and no other rule does.
    ///
    /// # Errors
    /// Where others were said before.
    pub fn add_auth(&mut self, pattern: &Pattern<'_>, rule: AuthRule) -> Result<(), &str> {
        self.auth.insert(pattern, rule).map_err(|other| &*other.place)
    }

    /// True if some paths are for some users only.
    #[inline(always)]
    pub(crate) const fn has_auth(&self) -> bool {
        !self.auth.is_empty()
    }

    /// Who may see a path, which is decoded and relative: what the most specific rule says.
    pub(crate) fn auth(&self, path: &[u8]) -> Option<&AuthRule> {
        let mut found = None;
        self.auth.visit(path, &mut |rule, _| {
            found = Some(rule);
            true
        });
        found
    }

    /// Who may see the file of this name, if that is another rule than that of the path asked for:
    /// whoever may see the path has not been compared with its users.
    #[inline]
    pub(crate) fn auth_beside(&self, path: &[u8], name: &[u8]) -> Option<&AuthRule> {
        if !self.has_auth() {
            return None;
        }
        let admitted = |rule: &AuthRule| self.auth(path).is_some_and(|own| own.is_same(rule));
        self.auth(name).filter(|rule| !admitted(rule))
    }

    /// Where it was said who may see a path, which is decoded and relative.
    #[must_use]
    pub fn auth_place(&self, path: &[u8]) -> Option<&str> {
        self.auth(path).map(|rule| &*rule.place)
    }

    /// Lets scripts of other sites read what is sent for the paths that match `pattern`.
    ///
    /// # Errors
    /// Where that was said before.
    ///
    /// # Panics
    /// If there are more than 65,536.
    pub fn add_cors(&mut self, pattern: &Pattern<'_>, rule: CorsRule) -> Result<(), &str> {
        let number = u16::try_from(self.cors_rules.len()).expect("rules are bounded");
        match self.cors.insert(pattern, number) {
            Ok(()) => {
                self.cors_rules.push(rule);
                Ok(())
            }
            Err(other) => Err(&*self.cors_rules[usize::from(*other)].place),
        }
    }

    /// True if scripts of other sites may read something.
    #[inline(always)]
    pub(crate) const fn has_cors(&self) -> bool {
        !self.cors.is_empty()
    }

    /// What the most specific rule for a path, which is decoded and relative, says of scripts.
    pub(crate) fn grant(
        &self,
        path: &[u8],
        origin: Option<&[u8]>,
        preflight: bool,
    ) -> Option<Grant> {
        let mut found = None;
        self.cors.visit(path, &mut |number, _| {
            found = Some(*number);
            true
        });
        let number = found?;
        Some(Grant::new(self.cors_rule(number), number, origin, preflight))
    }

    pub(crate) fn cors_rule(&self, number: u16) -> &CorsRule {
        &self.cors_rules[usize::from(number)]
    }

    /// Removes what rules for headers say of scripts from a head that is not finished: where a rule
    /// for scripts says something, it counts.
    pub(crate) fn remove_grants(&self, head: &mut Vec<u8>) {
        if self.headers_grant {
            cors::remove_grants(head);
        }
    }

    /// Where a redirect leads from a target that no file answers for; `None` if nowhere else.
    #[must_use]
    pub fn location(&self, target: &[u8]) -> Option<Vec<u8>> {
        let mut room = Vec::new();
        let path = decode_path(target, &mut room).ok()?;
        let redirects = &self.redirects;
        match redirects.before_files(&path).or_else(|| redirects.without_file(&path))? {
            Ruled::Elsewhere(_, location) => Some(location),
            Ruled::File(_) | Ruled::Nothing(_) => None,
        }
    }

    /// Where the redirect was said that a path meets: one that comes before files if `forced`, else
    /// one for paths that do not exist. `path` is decoded and relative.
    #[must_use]
    pub fn redirect_place(&self, path: &[u8], forced: bool) -> Option<&str> {
        let redirects = &self.redirects;
        let table = if forced { &redirects.forced } else { &redirects.others };
        first(table, path).map(|(redirect, _)| &*redirect.place)
    }

    /// Where the rules were said that have fields for the file of this name, the strongest first.
    #[must_use]
    pub fn header_places(&self, name: &[u8]) -> Vec<&str> {
        let mut places = Vec::new();
        self.headers.visit(name, &mut |rule, _| {
            places.push(&*rule.place);
            false
        });
        places
    }

    /// What all rules together make of the fields of the file of this name. Of a field, the rule
    /// counts whose pattern is the most specific.
    pub(crate) fn amend(&self, name: &[u8]) -> Amendment<'_> {
        let mut amendment = Amendment::default();
        let (mut further, mut named) = (Vec::new(), Vec::new());
        self.headers.visit(name, &mut |rule, _| {
            let before = named.len();
            for line in &rule.lines {
                if !is_one_of(line.name(), &named[..before]) {
                    amendment.take(line, &mut further);
                    named.push(line.name());
                }
            }
            false
        });
        amendment.revalidated = amendment.fields.len();
        amendment.fields.append(&mut further);
        amendment
    }
}

/// Redirects by pattern.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redirects {
    /// For paths that exist, too.
    forced: Patterns<Redirect>,
    /// For paths that do not exist.
    others: Patterns<Redirect>,
}

/// What becomes of the paths that match a pattern.
#[derive(Clone, Debug)]
pub struct Redirect {
    status: Status,
    to: Option<Template>,
    force: bool,
    place: Box<str>,
}

/// Why there is no such redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectFault {
    /// It has another status than it may have.
    Status,
    /// It leads nowhere.
    Nowhere,
    /// Where it leads is malformed.
    To(TemplateFault),
}

impl RedirectFault {
    /// What is wrong and what helps, for people.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Status => "the status must be one of 301, 302, 303, 307, 308, 200, 404, 410",
            Self::Nowhere => "it must say where it leads",
            Self::To(fault) => fault.reason(),
        }
    }
}

/// What a rule makes of a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ruled {
    /// It leads elsewhere.
    Elsewhere(Status, Vec<u8>),
    /// A file answers, with this status ([`Redirects::file`]).
    File(Status),
    /// The status answers.
    Nothing(Status),
}

impl Redirect {
    /// What becomes of the paths that match `pattern`. `to` is where they lead; with status 200,
    /// 404 or 410 it is the path of the file that answers, and may be empty with the latter two.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(
        pattern: &Pattern<'_>,
        to: &str,
        status: u16,
        force: bool,
        place: &str,
    ) -> Result<Self, RedirectFault> {
        let to = match status {
            404 | 410 if to.is_empty() => None,
            200 | 301 | 302 | 303 | 307 | 308 if to.is_empty() => {
                return Err(RedirectFault::Nowhere);
            }
            301 | 302 | 303 | 307 | 308 => Some(Template::parse(to, pattern)),
            200 | 404 | 410 => Some(Template::parse_file(to, pattern)),
            _ => return Err(RedirectFault::Status),
        };
        let to = to.transpose().map_err(RedirectFault::To)?;
        Ok(Self { status: Status(status), to, force, place: place.into() })
    }

    fn ruled(&self, captures: &Captures<'_>, path: &Path<'_>) -> Ruled {
        match &self.to {
            Some(to) if self.status.class() == 3 => {
                Ruled::Elsewhere(self.status, to.location(captures, path))
            }
            Some(_) => Ruled::File(self.status),
            None => Ruled::Nothing(self.status),
        }
    }
}

impl Redirects {
    /// What becomes of a path before a file is looked for.
    #[inline(always)]
    pub(crate) fn before_files(&self, path: &Path<'_>) -> Option<Ruled> {
        if self.forced.is_empty() { None } else { ruled(&self.forced, path) }
    }

    /// What becomes of a path that no file answers.
    pub(crate) fn without_file(&self, path: &Path<'_>) -> Option<Ruled> {
        ruled(&self.others, path)
    }

    /// The path of the file that answers by a rule; `None` if a request for it would be refused.
    pub(crate) fn file<'r>(&self, path: &[u8], room: &'r mut Room) -> Option<Path<'r>> {
        let found = first(&self.forced, path).or_else(|| first(&self.others, path));
        let (redirect, captures) = found?;
        redirect.to.as_ref()?.file(&captures, room).ok()
    }
}

#[cold]
fn ruled(table: &Patterns<Redirect>, path: &Path<'_>) -> Option<Ruled> {
    let (redirect, captures) = first(table, path.relative)?;
    Some(redirect.ruled(&captures, path))
}

/// The redirect with the most specific pattern that matches a path.
fn first<'t, 'p>(
    table: &'t Patterns<Redirect>,
    path: &'p [u8],
) -> Option<(&'t Redirect, Captures<'p>)> {
    let mut found = None;
    table.visit(path, &mut |redirect, captures| {
        found = Some((redirect, *captures));
        true
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(rows: &[(&str, &[&str])]) -> Rules {
        let mut rules = Rules::default();
        for (pattern, lines) in rows {
            let read = Pattern::parse(pattern).expect("a pattern");
            let lines = lines.iter().map(|line| HeaderLine::parse(line).expect("a field"));
            assert_eq!(rules.add_headers(&read, lines.collect(), pattern), Ok(()));
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
            let amended = rules.amend(name);
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
        assert_eq!(rules.header_places(b"a/b"), ["/a/b", "/a/*", "/*"]);
        let none = Rules::default();
        assert!(none.amend(b"a").fields.is_empty() && none.header_places(b"a").is_empty());
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
            ("content-LENGTH: 1", Err(HeaderFault::Refused)),
            ("! Date", Err(HeaderFault::Refused)),
        ] {
            assert_eq!(HeaderLine::parse(text), expected, "{text}");
        }
        let long = alloc::format!("X-A: {}", "a".repeat(VALUE_BYTES_MAX + 1));
        assert_eq!(HeaderLine::parse(&long), Err(HeaderFault::Value));
        let mut rules = headers(&[("/a/:x", &["X-A: b"])]);
        let again = Pattern::parse("/a/:y").expect("a pattern");
        assert_eq!(rules.add_headers(&again, Vec::new(), "again"), Err("/a/:x"));
    }

    #[test]
    fn redirects_come_before_files_only_if_they_must() {
        let mut rules = Rules::default();
        for (from, to, status, force) in [
            ("/old/*", "/new/:splat", 301, false),
            ("/gone", "", 410, false),
            ("/app/*", "/app.html", 200, false),
            ("/lost/:x", "/:x/404.html", 404, true),
        ] {
            let pattern = Pattern::parse(from).expect("a pattern");
            let redirect = Redirect::new(&pattern, to, status, force, from).expect("a redirect");
            assert_eq!(rules.add_redirect(&pattern, redirect), Ok(()));
        }
        let elsewhere = Ruled::Elsewhere(Status::MOVED_PERMANENTLY, b"/new/a?q".to_vec());
        for (target, before, without, name) in [
            ("/old/a?q", None, Some(elsewhere), "new/a"),
            ("/gone", None, Some(Ruled::Nothing(Status::GONE)), ""),
            ("/app/x/y", None, Some(Ruled::File(Status::OK)), "app.html"),
            ("/lost/de", Some(Ruled::File(Status::NOT_FOUND)), None, "de/404.html"),
            ("/other", None, None, ""),
        ] {
            let (mut room, mut found) = (Vec::new(), Room::default());
            let path = decode_path(target.as_bytes(), &mut room).expect("a path");
            assert_eq!(rules.redirects.before_files(&path), before, "{target}");
            assert_eq!(rules.redirects.without_file(&path), without, "{target}");
            let file = rules.redirects.file(path.relative, &mut found);
            let found = file.map(|file| file.relative).unwrap_or_default();
            assert_eq!(found, name.as_bytes(), "{target}");
        }
        assert_eq!(rules.redirect_place(b"gone", false), Some("/gone"));
        assert_eq!(rules.redirect_place(b"gone", true), None);
        let pattern = Pattern::parse("/a").expect("a pattern");
        let fault = |to, status| Redirect::new(&pattern, to, status, false, "").err();
        assert_eq!(fault("/b", 300), Some(RedirectFault::Status));
        assert_eq!(fault("", 301), Some(RedirectFault::Nowhere));
        assert_eq!(fault("", 200), Some(RedirectFault::Nowhere));
        assert_eq!(fault("//b", 302), Some(RedirectFault::To(TemplateFault::Form)));
        assert_eq!(fault("https://b/c", 200), Some(RedirectFault::To(TemplateFault::File)));
    }
}
