//! The owner's rules for paths: fields that files are sent with, redirects, and answers without a
//! file.
use crate::{
    auth::AuthRule,
    cors::{self, CorsRule, Grant},
    fields::{Amendment, HeaderLine, HeaderRules, Merged, RuleFault},
    location::{Room, Template, TemplateFault},
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use regatta_http::{
    Status,
    pattern::{Captures, Full, MatchCost, Names, Pattern, Patterns},
    target::{Path, decode_path},
};

/// The rules of a site.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    headers: HeaderRules,
    pub(crate) redirects: Redirects,
    auth: Patterns<AuthRule>,
    /// Numbers in `cors_rules`.
    cors: Patterns<u16>,
    cors_rules: Vec<CorsRule>,
}

impl Rules {
    /// Adds fields for the files with a path that matches `pattern`; `place` names the rule.
    pub fn add_headers(
        &mut self,
        pattern: &Pattern<'_>,
        lines: Vec<HeaderLine>,
        place: &str,
    ) -> Result<(), RuleFault<'_>> {
        self.headers.add(pattern, lines, place)
    }

    /// Adds fields for the files with a path that matches `pattern`. If there is a rule for the
    /// same paths, they join its fields. Fields that [`Self::add_headers`] has added stay; of
    /// further fields with one name all are sent.
    ///
    /// # Errors
    /// The limit that is in the way.
    pub fn merge_headers(
        &mut self,
        pattern: &Pattern<'_>,
        lines: Vec<HeaderLine>,
        place: &str,
    ) -> Result<Option<Merged>, Full> {
        self.headers.merge(pattern, lines, place)
    }

    /// Adds a redirect for the paths that match `pattern`.
    ///
    /// # Errors
    /// The reason for which the rule is not taken.
    pub fn add_redirect(
        &mut self,
        pattern: &Pattern<'_>,
        redirect: Redirect,
    ) -> Result<(), RuleFault<'_>> {
        let Redirects { forced, others, answers } = &mut self.redirects;
        *answers |= matches!(redirect.effect, Effect::Text(_));
        let table = if redirect.force { forced } else { others };
        let added = table.insert(pattern, redirect, MatchCost::default());
        added.map_err(|refused| RuleFault::from_refused(refused, |other| &*other.place))
    }

    /// Lets only users of the rule see the paths that match `pattern`, and no other rule does.
    ///
    /// # Errors
    /// The reason for which the rule is not taken.
    pub fn add_auth(&mut self, pattern: &Pattern<'_>, rule: AuthRule) -> Result<(), RuleFault<'_>> {
        let added = self.auth.insert(pattern, rule, MatchCost::default());
        added.map_err(|refused| RuleFault::from_refused(refused, |other| &*other.place))
    }

    /// True if some paths are for some users only.
    #[inline(always)]
    pub(crate) const fn has_auth(&self) -> bool {
        !self.auth.is_empty()
    }

    /// The most specific rule for the users of a path, which is decoded and relative.
    pub(crate) fn auth(&self, path: &[u8]) -> Option<&AuthRule> {
        let mut found = None;
        self.auth.visit(path, &mut |rule, _| {
            found = Some(rule);
            true
        });
        found
    }

    /// The most specific rule for the users of a requested path. A path that a rule answers needs
    /// none: a probe has no password, and neither have the readers of a page about maintenance.
    pub(crate) fn auth_of_request(&self, path: &[u8]) -> Option<&AuthRule> {
        if self.redirects.answer(path) { None } else { self.auth(path) }
    }

    /// The rule for the users of the file of this name, unless it is also that of the request. The
    /// users of the latter have been checked already, those of the former have not.
    #[inline]
    pub(crate) fn auth_beside(&self, path: &[u8], name: &[u8]) -> Option<&AuthRule> {
        if !self.has_auth() {
            return None;
        }
        let admitted =
            |rule: &AuthRule| self.auth_of_request(path).is_some_and(|own| own.is_same(rule));
        self.auth(name).filter(|rule| !admitted(rule))
    }

    /// Place of the rule for the users of a path, which is decoded and relative.
    #[must_use]
    pub fn auth_place(&self, path: &[u8]) -> Option<&str> {
        self.auth(path).map(|rule| &*rule.place)
    }

    /// Lets scripts of other sites read responses for the paths that match `pattern`.
    ///
    /// # Errors
    /// The reason for which the rule is not taken.
    ///
    /// # Panics
    /// If there are more than 65,536.
    pub fn add_cors(&mut self, pattern: &Pattern<'_>, rule: CorsRule) -> Result<(), RuleFault<'_>> {
        let number = u16::try_from(self.cors_rules.len()).expect("rules are bounded");
        let rules = &mut self.cors_rules;
        match self.cors.insert(pattern, number, MatchCost::default()) {
            Ok(()) => {
                rules.push(rule);
                Ok(())
            }
            Err(refused) => {
                Err(RuleFault::from_refused(refused, |other| &*rules[usize::from(*other)].place))
            }
        }
    }

    /// True if scripts of other sites may read something.
    #[inline(always)]
    pub(crate) const fn has_cors(&self) -> bool {
        !self.cors.is_empty()
    }

    /// Result of the most specific rule for scripts, for a path that is decoded and relative.
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

    /// Removes permissions for scripts that rules for headers have added to a head that is not
    /// finished. A rule for scripts replaces them.
    pub(crate) fn remove_grants(&self, head: &mut Vec<u8>) {
        if self.headers.grants() {
            cors::remove_grants(head);
        }
    }

    /// Target of the redirect for a request target that no file answers; `None` if there is none.
    #[must_use]
    pub fn location(&self, target: &[u8]) -> Option<Vec<u8>> {
        let mut room = Vec::new();
        let path = decode_path(target, &mut room).ok()?;
        let redirects = &self.redirects;
        match redirects.before_files(&path).or_else(|| redirects.without_file(&path))? {
            Ruled::Elsewhere(_, location) => Some(location),
            Ruled::File(_) | Ruled::Nothing(_) | Ruled::Answer(..) => None,
        }
    }

    /// Place of the redirect that a path meets: one that comes before files if `forced`, else one
    /// for paths that do not exist. `path` is decoded and relative.
    #[must_use]
    pub fn redirect_place(&self, path: &[u8], forced: bool) -> Option<&str> {
        let redirects = &self.redirects;
        let table = if forced { &redirects.forced } else { &redirects.others };
        first(table, path).map(|(redirect, _)| &*redirect.place)
    }

    /// Places of the rules that have fields for the path of a file, the strongest first.
    #[must_use]
    pub fn header_places(&self, path: &[u8]) -> Vec<&str> {
        self.header_places_of(Names { path, ..Names::default() })
    }

    /// Places of the rules that have fields for a file, the strongest first.
    pub(crate) fn header_places_of(&self, names: Names<'_>) -> Vec<&str> {
        self.headers.places(names)
    }

    /// True if some rules name the coding of files.
    pub(crate) fn encodes(&self) -> bool {
        self.headers.encodes()
    }

    /// Fields of a file, as all rules change them; `private` says that caches which
    /// several share may not keep it.
    pub(crate) fn amend(&self, names: Names<'_>, private: bool) -> Amendment<'_> {
        self.headers.amend(names, private)
    }
}

/// Redirects by pattern.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redirects {
    /// For paths that exist, too.
    forced: Patterns<Redirect>,
    /// For paths that do not exist.
    others: Patterns<Redirect>,
    /// True if some rules answer with a text.
    answers: bool,
}

/// Rule for the paths that match a pattern: a redirect, a file, a status, or a text.
#[derive(Clone, Debug)]
pub struct Redirect {
    status: Status,
    effect: Effect,
    force: bool,
    place: Box<str>,
}

/// Effect of a rule, with its status.
#[derive(Clone, Debug)]
enum Effect {
    /// The status alone.
    Status,
    /// A reference, or a file in the place of the path.
    To(Template),
    /// A text; the page for the status if it is empty.
    Text(Arc<str>),
}

/// Longest text of an answer, bytes.
pub const RESPONSE_BYTES_MAX: usize = 4 << 10;

/// Reason why an answer without a file cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFault {
    /// A status that such an answer cannot have.
    Status,
    /// A text with a status that has none, or a text that is too long.
    Text,
}

impl AnswerFault {
    /// Sentence for people: the fault, and what helps.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Status => "the status must be one of 200, 204, 410, 503",
            Self::Text => "a text has at most 4 KiB, and 204 has none",
        }
    }
}

/// Reason why a redirect cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectFault {
    /// A status that a rule cannot have.
    Status,
    /// No target.
    Nowhere,
    /// A malformed target.
    To(TemplateFault),
}

impl RedirectFault {
    /// Sentence for people: the fault, and what helps.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Status => "the status must be one of 301, 302, 303, 307, 308, 200, 404, 410",
            Self::Nowhere => "it must say where it leads",
            Self::To(fault) => fault.reason(),
        }
    }
}

/// Result of a rule for a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ruled {
    /// A redirect to another place.
    Elsewhere(Status, Vec<u8>),
    /// A file answers, with this status ([`Redirects::file`]).
    File(Status),
    /// The status answers.
    Nothing(Status),
    /// This text answers; the page for the status if it is empty.
    Answer(Status, Arc<str>),
}

impl Redirect {
    /// A rule for the paths that match `pattern`. `to` is their target. With status 200, 404 or 410
    /// it is the path of the file that answers, and may be empty with the latter two.
    ///
    /// # Errors
    /// The fault of the rule.
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
        let effect = to.map_or(Effect::Status, Effect::To);
        Ok(Self { status: Status(status), effect, force, place: place.into() })
    }

    /// An answer with status 200, 204, 410 or 503, before any file. Without `text` the errors have
    /// the owner's page for them, if there is one.
    ///
    /// # Errors
    /// The fault of the rule.
    pub fn response(status: u16, text: &str, place: &str) -> Result<Self, AnswerFault> {
        let status = Status(status);
        let known = [Status::OK, Status::NO_CONTENT, Status::GONE, Status::SERVICE_UNAVAILABLE];
        if !known.contains(&status) {
            return Err(AnswerFault::Status);
        }
        if text.len() > RESPONSE_BYTES_MAX || status == Status::NO_CONTENT && !text.is_empty() {
            return Err(AnswerFault::Text);
        }
        Ok(Self { status, effect: Effect::Text(text.into()), force: true, place: place.into() })
    }

    fn ruled(&self, captures: &Captures<'_>, path: &Path<'_>) -> Ruled {
        match &self.effect {
            Effect::To(to) if self.status.class() == 3 => {
                Ruled::Elsewhere(self.status, to.location(captures, path))
            }
            Effect::To(_) => Ruled::File(self.status),
            Effect::Status => Ruled::Nothing(self.status),
            Effect::Text(text) => Ruled::Answer(self.status, Arc::clone(text)),
        }
    }
}

impl Redirects {
    /// Result of the rules that come before the search for a file.
    #[inline(always)]
    pub(crate) fn before_files(&self, path: &Path<'_>) -> Option<Ruled> {
        if self.forced.is_empty() { None } else { ruled(&self.forced, path) }
    }

    /// Result of the rules for a path that no file answers.
    pub(crate) fn without_file(&self, path: &Path<'_>) -> Option<Ruled> {
        ruled(&self.others, path)
    }

    /// The path of the file that answers by a rule; `None` if a request for it would be refused.
    pub(crate) fn file<'r>(&self, path: &[u8], room: &'r mut Room) -> Option<Path<'r>> {
        let found = first(&self.forced, path).or_else(|| first(&self.others, path));
        let (redirect, captures) = found?;
        let Effect::To(to) = &redirect.effect else { return None };
        to.file(&captures, room).ok()
    }

    /// True if a text answers for a path.
    pub(crate) fn answer(&self, path: &[u8]) -> bool {
        let is_answer = |(redirect, _): (&Redirect, _)| matches!(redirect.effect, Effect::Text(_));
        self.answers && first(&self.forced, path).is_some_and(is_answer)
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

    #[test]
    fn answers_come_before_files_and_the_most_specific_counts() {
        let mut rules = Rules::default();
        for (path, status, text) in [("/*", 503, ""), ("/healthz", 200, "ok"), ("/up", 204, "")] {
            let pattern = Pattern::parse(path).expect("a pattern");
            let rule = Redirect::response(status, text, path).expect("an answer");
            assert_eq!(rules.add_redirect(&pattern, rule), Ok(()));
        }
        for (target, status, text) in
            [("/healthz?a", 200, "ok"), ("/up/", 204, ""), ("/other/x", 503, "")]
        {
            let mut room = Vec::new();
            let path = decode_path(target.as_bytes(), &mut room).expect("a path");
            let found = rules.redirects.before_files(&path);
            assert_eq!(found, Some(Ruled::Answer(Status(status), text.into())), "{target}");
            assert_eq!(rules.location(target.as_bytes()), None, "{target}");
        }
        let fault = |status, text: &str| Redirect::response(status, text, "").err();
        assert_eq!(fault(404, ""), Some(AnswerFault::Status));
        assert_eq!(fault(204, "x"), Some(AnswerFault::Text));
        assert_eq!(fault(200, &"x".repeat(RESPONSE_BYTES_MAX)), None);
        assert_eq!(fault(200, &"x".repeat(RESPONSE_BYTES_MAX + 1)), Some(AnswerFault::Text));
    }

    /// A path that a rule answers needs no password; its files still do, by whatever other name.
    #[test]
    fn answers_need_no_password() {
        let mut rules = Rules::default();
        let user = alloc::format!("a:{}", "00".repeat(32));
        let auth = AuthRule::new("r", &[user], "auth").expect("a user");
        let pattern = |text| Pattern::parse(text).expect("a pattern");
        assert_eq!(rules.add_auth(&pattern("/*"), auth), Ok(()));
        assert!(rules.auth_of_request(b"healthz").is_some());
        let rule = Redirect::response(200, "ok", "").expect("an answer");
        assert_eq!(rules.add_redirect(&pattern("/healthz"), rule), Ok(()));
        assert!(rules.auth_of_request(b"healthz").is_none());
        assert!(rules.auth_of_request(b"other").is_some());
        assert!(rules.auth(b"healthz").is_some());
        assert!(rules.auth_beside(b"other", b"404.html").is_none());
        assert!(rules.auth_beside(b"healthz", b"404.html").is_some(), "no users were checked");
    }
}
