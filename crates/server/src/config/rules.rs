//! Owner's rules for paths, from the tables `[[headers]]`, `[[redirects]]`, `[[responses]]`,
//! `[[cors]]` and `[[auth]]`.
mod responses;

use crate::{
    config::{
        error_pages,
        raw::{Problem, Row, Said},
        unsent,
    },
    messages,
};
use regatta_http::{
    pattern::{Full, Pattern, SEGMENTS_MAX, STEPS_MAX, expand},
    target::is_hidden,
};
use regatta_op::Coding;
use regatta_origin::{
    AuthFault, AuthRule, CorsFault, CorsOptions, CorsRule, HeaderLine, RULED_BYTES_MAX,
    RULED_FIELDS_MAX, Redirect, RedirectFault, RuleFault, Rules,
};

/// Limit of redirects that are followed in search of an end.
const HOPS_MAX: usize = 20;

/// Length above which a path is followed no further, bytes.
const HOP_BYTES_MAX: usize = 16 << 10;

/// Bytes of such a path that are shown.
const HOP_BYTES_SHOWN: usize = 80;

/// Fields that the server sends even if a rule removes them: caches and browsers rely on them.
const KEPT: [&str; 2] = ["content-type", "vary"];

/// Limit of rules that are named for one reason; further ones are counted.
const NAMED_MAX: usize = 8;

/// Limit of rules setting a field that are compared with one that removes it.
const SETTERS_MAX: usize = 64;

/// Rules of a host, and the findings in their rows.
#[derive(Debug, Default)]
pub(crate) struct Built {
    pub(crate) rules: Rules,
    /// Faults. The rules have no row with one.
    pub(crate) problems: Vec<Problem>,
    /// Rows that are left out: with them, some paths would exceed the limit of cost.
    pub(crate) cut: Vec<Problem>,
    /// Rows that are perhaps not meant.
    pub(crate) warnings: Vec<Problem>,
}

/// Makes the rules of a host.
pub(crate) fn build(said: &Said) -> Built {
    let mut built = Built::default();
    for row in said.rows("headers") {
        headers(row, &mut built);
    }
    shorten(&mut built.warnings, 0);
    shorten(&mut built.cut, 0);
    let (mut taken, before) = (Vec::new(), (built.warnings.len(), built.cut.len()));
    for row in said.rows("responses") {
        let outcome = responses::add(row, &mut built.rules);
        taken.extend(outcome.is_ok().then_some((row, "responses.path")));
        built.note(outcome);
    }
    for row in said.rows("redirects") {
        let outcome = redirect(row, said.has_root(), &mut built.rules);
        taken.extend(outcome.is_ok().then_some((row, "redirects.from")));
        built.note(outcome);
    }
    if !said.has_root() {
        responses::answer_all_else(said, &mut built);
    }
    shorten(&mut built.warnings, before.0);
    shorten(&mut built.cut, before.1);
    for row in said.rows("cors") {
        built.problems.extend(cors(row, &mut built.rules).err());
    }
    let mut guards = Vec::new();
    for row in said.rows("auth") {
        match auth(row, &mut built.rules) {
            Ok(rule) => guards.push((row, rule)),
            Err(problem) => built.problems.push(problem),
        }
    }
    let Built { rules, problems, warnings, .. } = &mut built;
    problems.extend(protect_aliases(said, &guards, rules).err());
    warnings.extend(granted_twice(said));
    warnings.extend(removes_nothing(said));
    let mut lacking = unsent::fields(said, rules);
    shorten(&mut lacking, 0);
    warnings.extend(lacking);
    problems.extend(named_elsewhere(said, rules, warnings));
    if problems.is_empty() {
        let dotfiles = said.settings.flag("content.dotfiles");
        for (row, key) in taken {
            warnings.extend(unreachable(row, key, rules, dotfiles));
            if key == "redirects.from" {
                warnings.extend(circle(row, rules));
                warnings.extend(hidden_file(row, dotfiles));
            }
        }
    }
    built
}

/// Reason why a row is left out.
enum Left {
    /// A fault.
    Wrong(Problem),
    /// The table would exceed its limits.
    Cut(Problem),
    /// Another row counts.
    Again(Problem),
}

impl Built {
    fn note(&mut self, outcome: Result<(), Left>) {
        match outcome {
            Ok(()) => {}
            Err(Left::Wrong(problem)) => self.problems.push(problem),
            Err(Left::Cut(problem)) => self.cut.push(problem),
            Err(Left::Again(problem)) => self.warnings.push(problem),
        }
    }
}

/// Keeps the first few from a place on, and counts the other rules.
fn shorten(found: &mut Vec<Problem>, from: usize) {
    let end = from + NAMED_MAX;
    if let Some(first) = found.get(end) {
        let (kind, place, others) = (first.kind, first.place.clone(), found.len() - end);
        found.truncate(end);
        let message = format!("the same of {others} further rules, from here on");
        found.push(Problem::new(kind, place, message));
    }
}

/// Adds a row of `[[headers]]`, or of a `_headers`, which is merged with others for its paths.
fn headers(row: &Row, built: &mut Built) {
    let mut lines = Vec::new();
    let texts = row.settings.list("headers.set");
    for text in texts {
        match HeaderLine::parse(text) {
            Ok(line) => lines.push(line),
            Err(fault) => {
                let message = format!("\"{text}\": {}", fault.reason());
                built.problems.push(row.problem(messages::BAD_RULE, "headers.set", &message));
            }
        }
    }
    if texts.is_empty() {
        let problem = row.problem(messages::BAD_RULE, "headers.set", "there is no field in it");
        let left = if row.is_of_site() { Left::Again } else { Left::Wrong };
        return built.note(Err(left(problem)));
    }
    let (rules, place) = (&mut built.rules, row.place.to_string());
    let outcome = match pattern(row, "headers.path") {
        Err(problem) => Err(Left::Wrong(problem)),
        Ok(pattern) if row.is_of_site() => match rules.merge_headers(&pattern, lines, &place) {
            Ok(Some(merged)) if !merged.kept.is_empty() => {
                let (names, place) = (merged.kept.join(", "), merged.place);
                let message = format!("{names}: the rule at {place} counts, for the same paths");
                Err(Left::Again(
                    row.problem(messages::RULE_TWICE, "headers.set", &message)
                        .hint("leave it out here"),
                ))
            }
            Ok(_) => Ok(()),
            Err(full) => Err(cut(row, "headers.path", full)),
        },
        Ok(pattern) => rules
            .add_headers(&pattern, lines, &place)
            .map_err(|fault| refused(row, "headers.path", fault)),
    };
    built.note(outcome);
}

/// Adds a row of `[[redirects]]`, or of a `_redirects`: the first for the same paths counts.
/// Without a root, no file precedes it.
fn redirect(row: &Row, has_root: bool, rules: &mut Rules) -> Result<(), Left> {
    let pattern = pattern(row, "redirects.from").map_err(Left::Wrong)?;
    let (to, force) = (row.settings.text("redirects.to"), row.settings.flag("redirects.force"));
    let (status, force) = (row.settings.number_as("redirects.status"), force || !has_root);
    if !has_root && matches!(status, 200 | 404 | 410) && !to.is_empty() {
        let message = "the host has no root, and so no file that could answer";
        let problem = row.problem(messages::BAD_RULE, "redirects.to", message);
        return Err(Left::Wrong(problem.hint("leave it out, or name a root")));
    }
    let redirect = Redirect::new(&pattern, to, status, force, &row.place.to_string());
    let redirect = redirect.map_err(|fault| {
        let key = match fault {
            RedirectFault::Status => "redirects.status",
            RedirectFault::Nowhere | RedirectFault::To(_) => "redirects.to",
        };
        Left::Wrong(row.problem(messages::BAD_RULE, key, fault.reason()))
    })?;
    rules.add_redirect(&pattern, redirect).map_err(|fault| match fault {
        RuleFault::Taken(place) if row.is_of_site() => {
            let message = format!("the rule at {place} counts, for the same paths");
            Left::Again(
                row.problem(messages::RULE_TWICE, "redirects.from", &message)
                    .hint("leave it out here"),
            )
        }
        fault => refused(row, "redirects.from", fault),
    })
}

fn refused(row: &Row, key: &str, fault: RuleFault<'_>) -> Left {
    match fault {
        RuleFault::Taken(place) => Left::Wrong(twice(row, key, place)),
        RuleFault::Full(full) => cut(row, key, full),
    }
}

/// Fault of a row that is left out because the table would exceed its limits.
fn cut(row: &Row, key: &str, full: Full) -> Left {
    let (message, hint) = match full {
        Full::Steps => (
            format!("it is left out: with it, a path could take more than {STEPS_MAX} steps"),
            "use fewer names and * in patterns that match the same paths",
        ),
        Full::Values => (
            format!(
                "it is left out: with it, a file could have more than {RULED_FIELDS_MAX} fields of \
                 rules, or more than {RULED_BYTES_MAX} bytes of them"
            ),
            "set fewer or shorter fields in patterns that match the same paths",
        ),
    };
    Left::Cut(row.problem(messages::RULE_CUT, key, &message).hint(hint))
}

/// Fault of a row that is not accepted, in a table without cuts.
fn whole(row: &Row, key: &str, fault: RuleFault<'_>) -> Problem {
    match refused(row, key, fault) {
        Left::Wrong(problem) | Left::Cut(problem) | Left::Again(problem) => problem,
    }
}

/// Adds a row of `[[cors]]`.
fn cors(row: &Row, rules: &mut Rules) -> Result<(), Problem> {
    let pattern = subtree(row, "cors.path")?;
    let [origins, headers, expose] =
        ["cors.origins", "cors.headers", "cors.expose"].map(|key| row.settings.list(key));
    let max_age_s = row.settings.number("cors.max_age_s");
    let options = CorsOptions { origins, headers, expose, max_age_s };
    let rule = CorsRule::new(options, &row.place.to_string()).map_err(|fault| {
        let named = |key: &str, text: &str| {
            row.problem(messages::BAD_RULE, key, &format!("\"{text}\": {}", fault.reason()))
        };
        match fault {
            CorsFault::Count => row.problem(messages::BAD_RULE, "cors.origins", fault.reason()),
            CorsFault::Origin(at) => named("cors.origins", &origins[at]),
            CorsFault::Header(at) => named("cors.headers", &headers[at]),
            CorsFault::Expose(at) => named("cors.expose", &expose[at]),
        }
    })?;
    rules.add_cors(&pattern, rule).map_err(|fault| whole(row, "cors.path", fault))
}

/// Adds a row of `[[auth]]`.
fn auth(row: &Row, rules: &mut Rules) -> Result<AuthRule, Problem> {
    let pattern = subtree(row, "auth.path")?;
    let users = row.settings.list("auth.users");
    let rule = AuthRule::new(row.settings.text("auth.realm"), users, &row.place.to_string());
    let rule = rule.map_err(|fault| match fault {
        AuthFault::Realm => row.problem(messages::BAD_RULE, "auth.realm", fault.reason()),
        AuthFault::Count => row.problem(messages::BAD_RULE, "auth.users", fault.reason()),
        AuthFault::User(at) => row.problem(
            messages::BAD_RULE,
            "auth.users",
            &format!("\"{}\": {}", users[at], fault.reason()),
        ),
    })?;
    let added = rules.add_auth(&pattern, rule.clone());
    added.map(|()| rule).map_err(|fault| whole(row, "auth.path", fault))
}

/// Warns of rules for headers that set fields for scripts on paths that have a rule for scripts.
fn granted_twice(said: &Said) -> Vec<Problem> {
    let cors = said.rows("cors").iter();
    let cors: Vec<_> =
        cors.filter_map(|row| Some((pattern(row, "cors.path").ok()?, &row.place))).collect();
    let parsed = |text: &&String| HeaderLine::parse(text).is_ok_and(|line| line.grants());
    let warning = |row: &Row| {
        let text = row.settings.list("headers.set").iter().find(parsed)?;
        let own = pattern(row, "headers.path").ok()?;
        let (_, place) = cors.iter().find(|(path, _)| path.meets(&own))?;
        let message = format!("\"{text}\" is not sent for the paths of the rule at {place}");
        let hint = "say in [[headers]] or in [[cors]] what scripts may read, not in both";
        Some(row.problem(messages::RULE_UNUSED, "headers.set", &message).hint(hint))
    };
    if cors.is_empty() {
        return Vec::new();
    }
    let mut warnings = said.rows("headers").iter().filter_map(warning).collect();
    shorten(&mut warnings, 0);
    warnings
}

/// Warns of rules that remove a field that the server sends nevertheless, if no rule sets it for
/// such paths.
fn removes_nothing(said: &Said) -> Vec<Problem> {
    let mut warnings = Vec::new();
    for kept in KEPT {
        let sets = |row: &&Row| {
            let is_set = |line: HeaderLine| match line {
                HeaderLine::Set(name, _) => name.eq_ignore_ascii_case(kept),
                HeaderLine::Remove(_) => false,
            };
            lines(row).any(is_set)
        };
        let setters = said.rows("headers").iter().filter(sets);
        let setters = setters.filter_map(|row| pattern(row, "headers.path").ok());
        let setters: Vec<_> = setters.take(SETTERS_MAX).collect();
        if setters.len() == SETTERS_MAX {
            continue;
        }
        let warning = |row: &Row| {
            let name = lines(row).find_map(|line| match line {
                HeaderLine::Remove(name) if name.eq_ignore_ascii_case(kept) => Some(name),
                _ => None,
            })?;
            let own = pattern(row, "headers.path").ok()?;
            if setters.iter().any(|setter| setter.meets(&own)) {
                return None;
            }
            let message =
                format!("\"! {name}\": no rule sets it here, and the server's own is sent");
            Some(row.problem(messages::RULE_UNUSED, "headers.set", &message).hint("leave it out"))
        };
        warnings.extend(said.rows("headers").iter().filter_map(warning));
    }
    shorten(&mut warnings, 0);
    warnings
}

/// Lists the valid lines of a row of `[[headers]]`.
fn lines(row: &Row) -> impl Iterator<Item = HeaderLine> {
    row.settings.list("headers.set").iter().filter_map(|text| HeaderLine::parse(text).ok())
}

/// Lists further names of the file that answers for a path of a pattern, and of its precompressed
/// siblings, unless other rules name them. The pattern itself matches names that are missing here.
fn aliases(said: &Said, pattern: &str, named: &[String]) -> Vec<String> {
    let open = pattern.ends_with("/*");
    let stem = pattern.strip_suffix("/*").unwrap_or(pattern).trim_end_matches('/');
    let mut names = Vec::new();
    if !stem.is_empty() {
        // `/x/*` is `/x` as well, which may be a file.
        names.push(stem.to_owned());
    }
    if !open {
        let index = said.settings.list("content.index");
        names.extend(index.iter().map(|name| format!("{stem}/{name}")));
    }
    if said.settings.flag("content.clean_urls") {
        names.push(format!("{stem}.html"));
    }
    names.retain(|name| name == stem || !named.contains(name));
    let coded = |name: &String| Coding::ALL.map(|coding| name.clone() + coding.suffix());
    let siblings: Vec<_> = names.iter().flat_map(coded).collect();
    names.extend(siblings);
    names
}

/// Protects paths below a path, and files under all their names, unless another rule has that name.
fn protect_aliases(
    said: &Said,
    guards: &[(&Row, AuthRule)],
    rules: &mut Rules,
) -> Result<(), Problem> {
    let path = |guard: &(&Row, AuthRule)| guard.0.settings.text("auth.path").to_owned();
    // `/x.gz/*` names `/x.gz` as well, which the table does not know.
    let stem = |guard: &(&Row, AuthRule)| {
        let path = path(guard);
        path.strip_suffix("/*").unwrap_or(&path).to_owned()
    };
    let named: Vec<String> = guards.iter().map(stem).collect();
    let (open, closed): (Vec<_>, Vec<_>) =
        guards.iter().partition(|guard| path(guard).ends_with("/*"));
    let below = |guard: &&(&Row, AuthRule)| path(guard).trim_end_matches('/').to_owned() + "/*";
    let below = closed.iter().map(|guard| (*guard, below(guard)));
    // A rule for `/x` alone counts for `/x.gz`, whatever the rule for `/x/*`.
    let others = closed.iter().chain(&open).flat_map(|guard| {
        let names = aliases(said, &path(guard), &named).into_iter();
        names.filter(|name| !named.contains(name)).map(|name| (*guard, name))
    });
    for ((row, rule), name) in below.chain(others) {
        if let Ok(pattern) = Pattern::parse(&name)
            && let Err(fault @ RuleFault::Full(_)) = rules.add_auth(&pattern, rule.clone())
        {
            return Err(whole(row, "auth.path", fault));
        }
    }
    Ok(())
}

/// Finds files that only some users may see, and that are named for other paths. Pages for errors
/// are refused. Others are not sent, with a warning.
fn named_elsewhere(said: &Said, rules: &Rules, warnings: &mut Vec<Problem>) -> Vec<Problem> {
    let guard = |path: &str| rules.auth_place(path.trim_matches(['/', '*']).as_bytes());
    // Where all paths are protected, there is no other place for a page.
    let everywhere = rules.auth_place(b"\0");
    let hidden = |name: &str, from: Option<&str>| {
        let place = guard(name).filter(|place| !name.is_empty() && Some(*place) != from)?;
        Some(format!("\"{name}\" is only for the users of the rule at {place}"))
    };
    let hint = "without it clients get a plain page; name a page that no [[auth]] rule protects";
    for key in ["content.fallback", "content.not_found"] {
        let found = hidden(said.settings.text(key), everywhere);
        warnings
            .extend(found.map(|why| said.problem(messages::FILE_PROTECTED, key, &why).hint(hint)));
    }
    for row in said.rows("redirects") {
        let (to, from) = (row.settings.text("redirects.to"), row.settings.text("redirects.from"));
        if matches!(row.settings.number("redirects.status"), 404 | 410) {
            let found = hidden(to, guard(from));
            let problem = |why: String| row.problem(messages::FILE_PROTECTED, "redirects.to", &why);
            warnings.extend(found.map(|why| problem(why).hint(hint)));
        }
    }
    let pages = error_pages::list_pages(said, &mut Vec::new());
    let page = |(_, name)| {
        let problem =
            said.problem(messages::FILE_PROTECTED, error_pages::KEY, &hidden(name, everywhere)?);
        Some(problem.hint("error pages need no password: name a file that no rule protects"))
    };
    pages.into_iter().filter_map(page).collect()
}

fn pattern<'r>(row: &'r Row, key: &str) -> Result<Pattern<'r>, Problem> {
    let text = row.settings.text(key);
    // Rows have the patterns of globs already, unless a glob has a fault.
    let parsed = expand(text).and_then(|_| Pattern::parse(text));
    parsed.map_err(|fault| row.problem(messages::BAD_RULE, key, fault.reason()))
}

/// Reads a pattern of a path, or of all paths below one.
fn subtree<'r>(row: &'r Row, key: &str) -> Result<Pattern<'r>, Problem> {
    let pattern = pattern(row, key)?;
    if pattern.is_partial() {
        return Err(row.problem(
            messages::BAD_RULE,
            key,
            "* can only be the last segment here, as in /docs/*",
        ));
    }
    Ok(pattern)
}

fn twice(row: &Row, key: &str, place: &str) -> Problem {
    row.problem(messages::RULE_TWICE, key, &format!("the same paths are matched at {place}"))
        .hint("make them one")
}

/// Warns if no path reaches a redirect or a response, whose pattern is in the field `key`.
fn unreachable(row: &Row, key: &str, rules: &Rules, dotfiles: bool) -> Option<Problem> {
    let problem =
        |why: &str| row.problem(messages::RULE_UNUSED, key, &format!("no path comes to it: {why}"));
    let pattern = pattern(row, key).ok()?;
    let hides = |(at, name): (usize, &str)| is_hidden(at, name.as_bytes());
    if !dotfiles && pattern.sample("\0", "\0").split('/').enumerate().any(hides) {
        return Some(problem("a name starts with a dot").hint("set content.dotfiles"));
    }
    // A name stands for a text, and `*` for up to one segment more than a pattern may have. Each
    // has a text that occurs in no other pattern.
    let (mut first, mut rest) = (None, String::new());
    let further = if pattern.is_open() { SEGMENTS_MAX + 1 } else { 0 };
    let own = row.place.to_string();
    for at in 0..=further {
        let path = pattern.sample("\0", &rest);
        let found = |forced| rules.redirect_place(path.as_bytes(), forced);
        first = found(true).or_else(|| found(false));
        if first.is_none() || first == Some(own.as_str()) {
            return None;
        }
        rest.push_str(if at == 0 { "\0" } else { "/\0" });
    }
    let why = format!("the rule at {} comes before it", first?);
    Some(problem(&why).hint("remove one of them, or change which has force"))
}

/// Warns if a rule names a file that is never sent, because a name starts with a dot.
fn hidden_file(row: &Row, dotfiles: bool) -> Option<Problem> {
    let is_file = matches!(row.settings.number("redirects.status"), 200 | 404 | 410);
    let mut segments = row.settings.text("redirects.to").split('/').skip(1).enumerate();
    let hides = segments.any(|(at, name)| is_hidden(at, name.as_bytes()));
    let problem = || {
        row.problem(
            messages::RULE_UNUSED,
            "redirects.to",
            "it is not sent: a name starts with a dot",
        )
    };
    (is_file && hides && !dotfiles).then(|| problem().hint("set content.dotfiles"))
}

/// Warns if a redirect leads from path to path without an end, as long as no file answers. Names
/// and `*` stand for `x`.
fn circle(row: &Row, rules: &Rules) -> Option<Problem> {
    let sample = pattern(row, "redirects.from").ok()?.sample("x", "x");
    let mut target = format!("/{sample}").replace('%', "%25").replace(' ', "%20").into_bytes();
    if target.iter().any(|byte| b"?#".contains(byte) || byte.is_ascii_control()) {
        return None;
    }
    for _ in 0..HOPS_MAX {
        target = rules.location(&target)?;
        if target.len() > HOP_BYTES_MAX {
            target.truncate(HOP_BYTES_SHOWN);
            break;
        }
        target.truncate(target.iter().position(|&byte| byte == b'#').unwrap_or(target.len()));
    }
    let to = String::from_utf8_lossy(&target).into_owned();
    let message = format!("a loop of redirects without an end, the last to \"{to}\"");
    Some(
        row.problem(messages::REDIRECT_LOOP, "redirects.to", &message)
            .hint("unless a file answers for one of them"),
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config::raw::tests::{begin_with, of_file, of_good_file};

    /// Checks the problems and warnings of a configuration with these rules, by their beginnings.
    #[track_caller]
    pub(super) fn check(text: &str, expected: &[&str]) {
        let (said, mut found) = of_file(text);
        let built = build(&said);
        found.extend([built.problems, built.cut, built.warnings].concat());
        begin_with(&found, expected);
    }

    #[test]
    fn rules_are_read_or_explained_at_their_place() {
        let good = "[[headers]]\npath = \"/a/*\"\nset = [\"X-A: b\", \"! Cache-Control\"]\n\
                    [[redirects]]\nfrom = \"/b/*\"\nto = \"/c/:splat\"\nstatus = 308\n\
                    force = true\n";
        check(good, &[]);
        let bad = "[[headers]]\npath = \"a\"\nset = [\"Date: b\"]\n[[redirects]]\nfrom = \"/a\"\n\
                   to = \"/:b\"\n[[redirects]]\nfrom = \"/b\"\nto = \"/c\"\nstatus = 300\n";
        let found = [
            "r:3:7: headers.set: \"Date: b\": the server makes this field itself",
            "r:2:8: headers.path: a pattern starts with a slash",
            "r:6:6: redirects.to: it has a name",
            "r:10:10: redirects.status: the status must be",
        ];
        check(bad, &found);
        let twice = "[[redirects]]\nfrom = \"/:a\"\nto = \"/c\"\n[[redirects]]\nfrom = \"/:b\"\n\
                     to = \"/d\"\n";
        check(twice, &["r:5:8: redirects.from: the same paths are matched at r:1:"]);
        check("[[redirects]]\nform = \"/a\"\n", &["r:2:1: unknown field redirects.form", "r:1:"]);
        check("[headers]\npath = \"/a\"\n", &["r:1:2: unknown section [headers]"]);
    }

    #[test]
    fn globs_become_rows() {
        let row = |path: &str, value: &str| {
            format!("[[headers]]\npath = \"{path}\"\nset = [\"Cache-Control: {value}\"]\n")
        };
        let text = row("**/*.{js,css}", "a") + &row("/img/**", "b") + &row("**/sw.js", "c");
        let said = of_good_file(&text);
        let rules = build(&said).rules;
        for (path, expected) in [
            ("a.js", "r:1:1"),
            ("b/c/a.css", "r:1:1"),
            ("a.html", ""),
            ("img/d/a.png", "r:4:1"),
            ("img/a.js", "r:4:1 r:1:1"),
            ("sw.js", "r:7:1 r:1:1"),
            ("b/sw.js", "r:7:1 r:1:1"),
        ] {
            assert_eq!(rules.header_places(path.as_bytes()).join(" "), expected, "{path}");
        }
        check(&row("*.{js,{a,b}}", "a"), &["r:2:8: headers.path: braces are as in *.{js,css}"]);
        check(&row("**/a/*.js", "a"), &["r:2:8: headers.path: a pattern has one *"]);
        let twice = row("*.{js,css}", "a") + &row("/*.css", "b");
        check(&twice, &["r:5:8: headers.path: the same paths are matched at r:1:1"]);
        let printed = said.print_rows();
        assert!(printed.contains("path = \"/*.css\""), "{printed}");
        // Each pattern of a glob counts against the limit of rows.
        let eight = "{a,b,c,d,e,f,g,h}";
        let many: String = (0..65).map(|at| row(&format!("/{at}/{eight}{eight}*"), "a")).collect();
        let found = of_file(&many).1;
        begin_with(&found, &["r:193:1: more than 4096 of [[headers]]"]);
    }

    #[test]
    fn what_is_printed_reads_back_as_itself() {
        let text = "[[headers]]\npath = \"/a\"\nset = [\"X-A: \\\"b\\\"\"]\n\
                    [[redirects]]\nfrom = \"/b\"\nstatus = 410\n";
        let printed = of_good_file(text).print_rows();
        assert!(printed.contains("set = [\"X-A: \\\"b\\\"\"]"), "{printed}");
        assert_eq!(of_good_file(&printed).print_rows(), printed);
    }

    #[test]
    fn what_no_path_comes_to_is_seen() {
        let row = |from: &str, force: bool| {
            format!("[[redirects]]\nfrom = \"{from}\"\nstatus = 410\nforce = {force}\n")
        };
        let rows = |rows: &[(&str, bool)]| {
            rows.iter().map(|(from, force)| row(from, *force)).collect::<String>()
        };
        // The second is never reached: the first covers all its paths.
        for (first, second) in
            [("/a/*", "/a/:x"), ("/a/*", "/a/b/*"), ("/*", "/"), ("/:x", "/a"), ("/*", "/*")]
        {
            let text = rows(&[(first, true), (second, false)]);
            check(&text, &["r:6:8: redirects.from: no path comes to it: the rule at r:1:"]);
        }
        // Three together cover the fourth.
        let text = rows(&[("/", false), ("/:x", false), ("/:x/:y/*", false), ("/*", false)]);
        check(&text, &["r:14:8: redirects.from: no path comes to it: the rule at r:9:"]);
        for (first, second) in
            [("/a/b", "/a/:x"), ("/a/:x", "/a/*"), ("/a/:x/*", "/a/*"), ("/a/b/*", "/a/*")]
        {
            check(&rows(&[(first, true), (second, false)]), &[]);
        }
        check(&row("/a/.b", false), &["r:2:8: redirects.from: no path comes to it: a name"]);
        check(&row("/.well-known/x", false), &[]);
        let to = |to: &str, status: u16| {
            format!("[[redirects]]\nfrom = \"/a\"\nto = \"{to}\"\nstatus = {status}\n")
        };
        check(&to("/b/.c", 200), &["r:3:6: redirects.to: it is not sent: a name starts"]);
        check(&to("/b/.c", 302), &[]);
        check(&to("/.well-known/c", 200), &[]);
    }

    #[test]
    fn origins_are_read_or_explained() {
        let row = |path: &str, rest: &str| format!("[[cors]]\npath = \"{path}\"\n{rest}\n");
        let origins = "origins = [\"https://a\", \"http://localhost:8000\"]";
        check(&row("/a/*", origins), &[]);
        let rest = format!("{origins}\nheaders = [\"Range\"]\nexpose = [\"ETag\"]\nmax_age_s = 5");
        check(&row("/a/*", &rest), &[]);
        check(&row("/a", ""), &["r:1:"]);
        let all = row("/a", "origins = [\"*\"]");
        check(&all, &["r:3:11: cors.origins: \"*\": an origin is as browsers"]);
        let header = row("/a", &format!("{origins}\nheaders = [\"a b\"]"));
        check(&header, &["r:4:11: cors.headers: \"a b\": it is no name"]);
        let headers = |path: &str, line: &str| {
            let headers = format!("[[headers]]\npath = \"{path}\"\nset = [\"{line}\"]\n");
            row("/a/*", origins) + &headers
        };
        let both = "r:6:7: headers.set: \"access-control-allow-origin: *\" is not sent for the \
                    paths of the rule at r:1:";
        check(&headers("/:x/b", "access-control-allow-origin: *"), &[both]);
        check(&headers("/b/*", "access-control-allow-origin: *"), &[]);
        check(&headers("/a/*", "! Access-Control-Allow-Origin"), &[]);
        let twice = row("/:x", origins) + &row("/:y", origins);
        check(&twice, &["r:5:8: cors.path: the same paths are matched at r:1:"]);
    }

    #[test]
    fn what_is_sent_all_the_same_is_not_removed() {
        let row = |path: &str, line: &str| {
            format!("[[headers]]\npath = \"{path}\"\nset = [\"X-A: b\", \"{line}\"]\n")
        };
        for line in ["! Vary", "! content-type"] {
            let found = format!("r:3:7: headers.set: \"{line}\": no rule sets it here");
            check(&row("/raw/*", line), &[found.as_str()]);
        }
        check(&row("/raw/*", "! X-Content-Type-Options"), &[]);
        let set = |path: &str| row("/raw/*", "! Vary") + &row(path, "vary: Cookie");
        check(&set("/*"), &[]);
        check(&set("/other/*"), &["r:3:7: headers.set: \"! Vary\": no rule sets it here"]);
    }

    #[test]
    fn users_are_read_or_explained() {
        let hash = "00".repeat(32);
        let row =
            |path: &str, users: &str| format!("[[auth]]\npath = \"{path}\"\nusers = [{users}]\n");
        let user = format!("\"a:{hash}\"");
        check(&row("/a/*", &user), &[]);
        check(&row("/a/*", ""), &["r:3:9: auth.users: there must be a user"]);
        check(&row("/a/*", "\"a:b\""), &["r:3:9: auth.users: \"a:b\": a user is name:hash"]);
        check(&row("a", &user), &["r:2:8: auth.path: a pattern starts with a slash"]);
        let twice = row("/:x", &user) + &row("/:y", &user);
        check(&twice, &["r:5:8: auth.path: the same paths are matched at r:1:"]);
        check(&row("/a/", &user), &[]);
        check(&row("/*.pdf", &user), &["r:2:8: auth.path: * can only be the last segment"]);
        let content = |path: &str, line: &str| row(path, &user) + "[content]\n" + line;
        let lost = content("/e/*", "not_found = \"e/404.html\"\n");
        check(&lost, &["r:5:13: content.not_found: \"e/404.html\" is only for the users"]);
        let page = "error_pages = [\"503=e/503.html\"]\n";
        let refused = "r:5:15: content.error_pages: \"e/503.html\" is only for the users";
        check(&content("/e/*", page), &[refused]);
        check(&content("/*", page), &[]);
        let moved = |from: &str| {
            let redirect = "to = \"/e/x.html\"\nstatus = 200\n";
            row("/e/*", &user) + &format!("[[redirects]]\nfrom = \"{from}\"\n{redirect}")
        };
        check(&moved("/f/*"), &[]);
        let gone = |from: &str| moved(from).replace("status = 200", "status = 410");
        check(&gone("/f/*"), &["r:6:6: redirects.to: \"/e/x.html\" is only for the users"]);
        check(&gone("/e/f/*"), &[]);
    }

    #[test]
    fn files_are_protected_by_whatever_name() {
        let hash = "00".repeat(32);
        let rows = "/a /b/* /b/x.js /b/x.js.br /c/:x /d/* /d /e/* /e.gz/* /f /f.html/* /g \
                    /g/index.html";
        let rows: Vec<&str> = rows.split(' ').collect();
        let row = |path| format!("[[auth]]\npath = \"{path}\"\nusers = [\"a:{hash}\"]\n");
        let text: String = rows.iter().map(row).collect();
        let found = |text: &str, path: &str| {
            let rules = build(&of_file(text).0).rules;
            let place = rules.auth_place(path.as_bytes())?;
            let line: usize = place.split(':').nth(1)?.parse().ok()?;
            Some(rows[line / 3])
        };
        let clean = text.clone() + "[content]\nclean_urls = true\n";
        for (path, plain, with_clean_urls) in [
            ("a", Some("/a"), Some("/a")),
            ("a.gz", Some("/a"), Some("/a")),
            ("a/index.html", Some("/a"), Some("/a")),
            ("a/index.html.br", Some("/a"), Some("/a")),
            ("a.html", None, Some("/a")),
            ("a.html.zst", None, Some("/a")),
            ("a/b", Some("/a"), Some("/a")),
            ("a/b/c.gz", Some("/a"), Some("/a")),
            ("b", Some("/b/*"), Some("/b/*")),
            ("b/x.js/y", Some("/b/x.js"), Some("/b/x.js")),
            ("b.html.gz", None, Some("/b/*")),
            ("b.gz", Some("/b/*"), Some("/b/*")),
            ("b.js", None, None),
            ("b/y.js.gz", Some("/b/*"), Some("/b/*")),
            ("b/x.js.gz", Some("/b/x.js"), Some("/b/x.js")),
            ("b/x.js.br", Some("/b/x.js.br"), Some("/b/x.js.br")),
            ("c/d/index.html", Some("/c/:x"), Some("/c/:x")),
            ("c/d.html.gz", Some("/c/:x"), Some("/c/:x")),
            ("d", Some("/d"), Some("/d")),
            ("d.gz", Some("/d"), Some("/d")),
            ("d.html.br", None, Some("/d")),
            ("d/e.gz", Some("/d/*"), Some("/d/*")),
            ("c/d/e/f", Some("/c/:x"), Some("/c/:x")),
            ("e", Some("/e/*"), Some("/e/*")),
            ("e.br", Some("/e/*"), Some("/e/*")),
            ("e.gz", Some("/e.gz/*"), Some("/e.gz/*")),
            ("e.gz/f", Some("/e.gz/*"), Some("/e.gz/*")),
            ("e.gz.br", Some("/e.gz/*"), Some("/e.gz/*")),
            ("f.gz", Some("/f"), Some("/f")),
            ("f.html", Some("/f.html/*"), Some("/f.html/*")),
            ("f.html.gz", Some("/f.html/*"), Some("/f.html/*")),
            ("g/index.html", Some("/g/index.html"), Some("/g/index.html")),
            ("g/index.html.gz", Some("/g/index.html"), Some("/g/index.html")),
        ] {
            assert_eq!(found(&text, path), plain, "{path}");
            assert_eq!(found(&clean, path), with_clean_urls, "{path}, clean URLs");
        }
    }

    #[test]
    fn circles_are_seen() {
        check("[[redirects]]\nfrom = \"/*\"\nto = \"https://h/:splat\"\nforce = true\n", &[]);
        let text = "[[redirects]]\nfrom = \"/a/*\"\nto = \"/b/:splat\"\n[[redirects]]\n\
                    from = \"/b/:x\"\nto = \"/a/:x\"\n[[redirects]]\nfrom = \"/c\"\nto = \"/d\"\n";
        let found = ["r:3:6", "r:6:6"].map(|at| format!("{at}: redirects.to: a loop of redirects"));
        check(text, &found.each_ref().map(String::as_str));
        // Each step makes it four times as long.
        let text = "[[redirects]]\nfrom = \"/*\"\nto = \"/:splat/:splat/:splat/:splat\"\n";
        check(text, &["r:3:6: redirects.to: a loop of redirects"]);
    }
}
