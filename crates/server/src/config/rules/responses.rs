//! Answers without a file, and hosts that have only such answers and redirects.
use super::{Built, Left, pattern, refused};
use crate::{
    config::{
        raw::{Row, Said},
        release::ROOT_KEY,
    },
    messages,
};
use regatta_http::pattern::Pattern;
use regatta_origin::{AnswerFault, Redirect, RuleFault, Rules};

/// Adds a row of `[[responses]]`.
pub(super) fn add(row: &Row, rules: &mut Rules) -> Result<(), Left> {
    let pattern = pattern(row, "responses.path").map_err(Left::Wrong)?;
    let (text, status) = (row.settings.text("responses.text"), "responses.status");
    let rule = Redirect::response(row.settings.number_as(status), text, &row.place.to_string());
    let rule = rule.map_err(|fault| {
        let key = match fault {
            AnswerFault::Status => status,
            AnswerFault::Text => "responses.text",
        };
        Left::Wrong(row.problem(messages::BAD_RULE, key, fault.reason()))
    })?;
    let added = rules.add_redirect(&pattern, rule);
    added.map_err(|fault| refused(row, "responses.path", fault))
}

/// Adds a rule for all other paths of a host without a root: it has no file to look for.
pub(super) fn answer_all_else(said: &Said, built: &mut Built) {
    let all = Pattern::parse("/*").expect("a constant");
    let place = format!("{} (no root)", said.place(ROOT_KEY));
    let rule = Redirect::new(&all, "", 404, true, &place).expect("a status without a file");
    match built.rules.add_redirect(&all, rule) {
        // A rule of its own answers all of them.
        Ok(()) | Err(RuleFault::Taken(_)) => {}
        Err(RuleFault::Full(_)) => {
            let message = "a host without a root has room for fewer rules";
            let problem = said.problem(messages::RULE_CUT, ROOT_KEY, message);
            built.problems.push(problem.hint("leave out some of them, or name a root"));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{
        raw::tests::of_good_file,
        rules::{build, tests::check},
    };

    #[test]
    fn responses_are_read_or_explained() {
        let row = |path: &str, rest: &str| format!("[[responses]]\npath = \"{path}\"\n{rest}\n");
        check(&row("/healthz", "text = \"ok\""), &[]);
        check(&row("/*", "status = 503"), &[]);
        check(&row("/up", "status = 404"), &["r:3:10: responses.status: the status must be one"]);
        check(&row("/up", "status = 204\ntext = \"x\""), &["r:4:8: responses.text: a text has"]);
        check(&row("up", ""), &["r:2:8: responses.path: a pattern starts with a slash"]);
        check(&row("/.up", ""), &["r:2:8: responses.path: no path comes to it: a name starts"]);
        let twice = row("/:x", "") + &row("/:y", "");
        check(&twice, &["r:5:8: responses.path: the same paths are matched at r:1:"]);
        let redirect = "[[redirects]]\nfrom = \"/a\"\nto = \"/b\"\n";
        let before = "r:5:8: redirects.from: no path comes to it: the rule at r:1:";
        check(&(row("/*", "status = 503") + redirect), &[before]);
    }

    #[test]
    fn a_host_without_a_root_has_only_rules() {
        let root = "server.root = \"\"\n";
        let text = format!(
            "{root}[[redirects]]\nfrom = \"/a/*\"\nto = \"https://h/:splat\"\n\
             [[responses]]\npath = \"/healthz\"\n"
        );
        check(&text, &[]);
        let rules = build(&of_good_file(&text)).rules;
        assert_eq!(rules.location(b"/a/b"), Some(b"https://h/b".to_vec()));
        for (path, place) in [("a/b", "r:2:1"), ("healthz", "r:5:1"), ("c", "r:1:15 (no root)")] {
            assert_eq!(rules.redirect_place(path.as_bytes(), true), Some(place), "{path}");
        }
        let file = format!("{root}[[redirects]]\nfrom = \"/a\"\nto = \"/b\"\nstatus = 200\n");
        check(&file, &["r:4:6: redirects.to: the host has no root"]);
        let all = format!("{root}[[redirects]]\nfrom = \"/*\"\nto = \"https://h/:splat\"\n");
        check(&all, &[]);
    }
}
