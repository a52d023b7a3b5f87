//! Header fields for paths that a file from elsewhere answers: they are not sent with it.
use crate::{
    config::raw::{Problem, Row, Said},
    messages,
};
use regatta_http::pattern::{PAGE_SUFFIX, Pattern};
use regatta_origin::{HeaderLine, Rules};
use std::collections::BTreeSet;

/// Fields that owners rely on.
const SECURITY: [&str; 10] = [
    "content-security-policy",
    "content-security-policy-report-only",
    "cross-origin-embedder-policy",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
    "permissions-policy",
    "referrer-policy",
    "strict-transport-security",
    "x-frame-options",
    "x-robots-tag",
];

/// Limit of files from elsewhere that are compared with the rules.
const FILES_MAX: usize = 64;

/// File that answers for paths other than its own.
struct Elsewhere<'s> {
    file: &'s str,
    /// Paths; `None`: all that name nothing.
    from: Option<Pattern<'s>>,
    /// Rules that have fields for it.
    places: BTreeSet<String>,
    /// Option or rule that sends it.
    by: String,
}

/// Warns of rules for headers that cover a path, but not the file that answers for it. That is
/// `content.fallback`, or the file of a redirect with status 200.
pub(super) fn fields(said: &Said, rules: &Rules) -> Vec<Problem> {
    let fallback = Some(said.settings.text("content.fallback")).filter(|name| !name.is_empty());
    let fallback = fallback.map(|file| Elsewhere {
        file,
        from: None,
        places: places(said, rules, file),
        by: "content.fallback".to_owned(),
    });
    let rewrite = |row: &Row| row.settings.number("redirects.status") == 200;
    let rewrites = said.rows("redirects").iter().filter(|row| rewrite(row)).filter_map(|row| {
        let file = row.settings.text("redirects.to").trim_matches('/');
        let from = Some(Pattern::parse(row.settings.text("redirects.from")).ok()?);
        let places = places(said, rules, file);
        let by = format!("the rule at {}", row.place);
        (!file.contains(':')).then_some(Elsewhere { file, from, places, by })
    });
    let files: Vec<_> = fallback.into_iter().chain(rewrites).take(FILES_MAX).collect();
    if files.is_empty() {
        return Vec::new();
    }
    said.rows("headers").iter().filter_map(|row| warning(row, &files)).collect()
}

fn warning(row: &Row, files: &[Elsewhere<'_>]) -> Option<Problem> {
    let is_counted_on = |text: &&String| match HeaderLine::parse(text) {
        Ok(HeaderLine::Set(name, _)) => {
            SECURITY.iter().any(|other| name.eq_ignore_ascii_case(other))
        }
        _ => false,
    };
    let text = row.settings.list("headers.set").iter().find(is_counted_on)?;
    let pattern = Pattern::parse(row.settings.text("headers.path")).ok()?;
    // A pattern of a single path is meant for the file there.
    if pattern.sample("\0", "\0") == pattern.sample("\x01", "\x01") {
        return None;
    }
    let place = row.place.to_string();
    let lacks = |file: &&Elsewhere<'_>| {
        let covers = file.from.as_ref().is_none_or(|from| from.meets(&pattern));
        covers && !file.places.contains(&place)
    };
    let Elsewhere { file, by, .. } = files.iter().find(lacks)?;
    let name = text.split(':').next().unwrap_or_default();
    let message =
        format!("{name} is not sent with /{file}, by which {by} may answer for such paths");
    let hint = format!("fields are those of the file: set it for /{file} as well, or for /*");
    Some(row.problem(messages::FIELD_NOT_SENT, "headers.set", &message).hint(hint))
}

/// Places of the rules with fields for a file, under any of its names.
fn places(said: &Said, rules: &Rules, file: &str) -> BTreeSet<String> {
    let (folder, last) = file.rsplit_once('/').unwrap_or(("", file));
    let is_index = said.settings.list("content.index").iter().any(|index| index == last);
    let stem = file.strip_suffix(PAGE_SUFFIX);
    let stem = stem.filter(|_| said.settings.flag("content.clean_urls"));
    let names = [Some(file), is_index.then_some(folder), stem];
    let places = names.into_iter().flatten().flat_map(|name| rules.header_places(name.as_bytes()));
    places.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use crate::config::{raw::tests::of_good_file, rules};

    fn check(path: &str, line: &str, rest: &str, expected: Option<&str>) {
        let text = format!("[[headers]]\npath = \"{path}\"\nset = [\"{line}\"]\n{rest}");
        let warnings = rules::build(&of_good_file(&text)).warnings;
        let found: Vec<_> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected.iter().count(), "{path} {rest} {found:#?}");
        for (found, part) in found.iter().zip(expected) {
            assert!(found.contains(part), "{found}\n{part}");
        }
    }

    #[test]
    fn what_a_file_from_elsewhere_lacks_is_named() {
        let csp = "Content-Security-Policy: default-src 'self'";
        let fallback = "[content]\nfallback = \"index.html\"\n";
        let by_fallback = "Content-Security-Policy is not sent with /index.html, by which \
                           content.fallback may answer";
        check("/admin/*", csp, fallback, Some(by_fallback));
        check("/:page", csp, fallback, None);
        check("/*", csp, fallback, None);
        check("/admin/*", "X-A: b", fallback, None);
        check("/admin", csp, fallback, None);
        check("/admin/*", csp, "", None);
        let rewrite =
            "[[redirects]]\nfrom = \"/admin/*\"\nto = \"/app/index.html\"\nstatus = 200\n";
        let by_rule = "is not sent with /app/index.html, by which the rule at r:4:1 may answer";
        check("/admin/:x", csp, rewrite, Some(by_rule));
        check("/app/*", csp, rewrite, None);
        check("/other/*", csp, rewrite, None);
    }
}
