//! Rules in files at the root, as other hosts of static sites read them: `_headers` and
//! `_redirects` become rows of `[[headers]]` and `[[redirects]]`.
use crate::{
    config::{
        raw::{FileText, Location, Problem, Row, Said},
        release::{Release, RulesText},
        tables::{self, TableSpec},
    },
    messages,
};
use regatta_arch::options::OptionSpec;
use regatta_origin::RULES_FILES;

/// Adds the rules at the root to the configuration; returns their faults.
pub(crate) fn add(release: &Release, said: &mut Said) -> Vec<Problem> {
    let root = said.root();
    let mut problems = Vec::new();
    let texts = [&release.headers, &release.redirects];
    for ((name, text), take) in RULES_FILES.into_iter().zip(texts).zip([headers, redirects]) {
        if let RulesText::Text(text) = text {
            let shown = root.join(name).display().to_string();
            problems.extend(take(FileText { name: &shown, text }, said));
        }
    }
    problems
}

/// Adds the rules of a `_headers`: a line with a path, then a line for each field.
pub fn headers(file: FileText<'_>, said: &mut Said) -> Vec<Problem> {
    let (spec, mut problems) = (table("headers"), Vec::new());
    let [path, set] = ["headers.path", "headers.set"].map(|key| field(spec, key));
    let mut lines = lines(file).peekable();
    while let Some((text, place)) = lines.next() {
        if !is_path(text) {
            let problem =
                Problem::new(messages::BAD_RULE, place, "a field without a path before it");
            problems.push(problem.hint("write the path in a line before it, as in /docs/*"));
            continue;
        }
        let mut row = Row::new(spec, place.clone(), true);
        problems.extend(row.set_field(path, path.kind.parse(text), place.clone()).err());
        let (mut fields, mut first) = (Vec::new(), None);
        while let Some((text, place)) = lines.next_if(|(text, _)| !is_path(text)) {
            first.get_or_insert(place);
            fields.push(text.to_owned());
        }
        problems.extend(row.set_field(set, set.kind.list(fields), first.unwrap_or(place)).err());
        if let Err(full) = said.add_row(spec, row) {
            problems.push(full);
            break;
        }
    }
    problems
}

/// Adds the rules of a `_redirects`: lines of a path, its target, and a status. A `!` after the
/// status has the rule precede files.
pub fn redirects(file: FileText<'_>, said: &mut Said) -> Vec<Problem> {
    let (spec, mut problems) = (table("redirects"), Vec::new());
    let [from, to, status, force] =
        ["redirects.from", "redirects.to", "redirects.status", "redirects.force"]
            .map(|key| field(spec, key));
    for (text, place) in lines(file) {
        let words = text.split_whitespace().take_while(|word| !word.starts_with('#'));
        let mut words = words.peekable();
        let mut row = Row::new(spec, place.clone(), true);
        let mut set = |field: &OptionSpec, text: &str| {
            problems.extend(row.set_field(field, field.kind.parse(text), place.clone()).err());
        };
        set(from, words.next().unwrap_or_default());
        if let Some(word) = words.next_if(|word| !word.starts_with(|c: char| c.is_ascii_digit())) {
            set(to, word);
        }
        if let Some(word) = words.next() {
            set(status, word.strip_suffix('!').unwrap_or(word));
            set(force, if word.ends_with('!') { "true" } else { "false" });
        }
        if let Some(word) = words.next() {
            let problem = Problem::new(
                messages::BAD_RULE,
                place,
                format!("nothing may follow the status: \"{word}\""),
            );
            problems.push(problem.hint("conditions and parameters of a query are not known here"));
        }
        if let Err(full) = said.add_row(spec, row) {
            problems.push(full);
            break;
        }
    }
    problems
}

/// Lists lines with content, trimmed, and their starts. A byte order mark, as editors put before
/// the first line, is skipped.
fn lines(file: FileText<'_>) -> impl Iterator<Item = (&str, Location)> {
    let text = file.text.strip_prefix('\u{feff}').unwrap_or(file.text);
    text.lines().enumerate().filter_map(move |(number, whole)| {
        let text = whole.trim();
        let column = whole.chars().take_while(|c| c.is_whitespace()).count() + 1;
        let place = Location::File { name: file.name.to_owned(), line: number + 1, column };
        (!text.is_empty() && !text.starts_with('#')).then_some((text, place))
    })
}

/// True for a line that starts a rule for headers. URLs count, so that they are reported as faults.
fn is_path(line: &str) -> bool {
    ["/", "http://", "https://"].iter().any(|start| line.starts_with(start))
}

fn table(name: &str) -> &'static TableSpec {
    tables::find(name).expect("a table that every server has")
}

fn field(table: &'static TableSpec, key: &str) -> &'static OptionSpec {
    table.fields.iter().find(|field| field.key == key).expect("a field that the table has")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{
        raw::tests::{begin_with, of_good_file, of_sets},
        rules,
    };

    fn file(text: &str) -> FileText<'_> {
        FileText { name: "_f", text }
    }

    #[test]
    fn files_become_rows() {
        let mut said = of_sets(&[]);
        let text = "# of all\n/*\n  X-A: b\n\t! X-B\n\n/c\nX-C: d:e\n";
        assert_eq!(headers(file(text), &mut said), []);
        let text = "/a /b\n/c/* https://h/:splat 302! # why\n/gone 410\n  /x  /y.html  200\n";
        assert_eq!(redirects(file(text), &mut said), []);
        let rows = said.rows("headers").iter();
        let found: Vec<_> = rows
            .map(|row| (row.settings.text("headers.path"), row.settings.list("headers.set").len()))
            .collect();
        assert_eq!(found, [("/*", 2), ("/c", 1)]);
        let rows = said.rows("redirects").iter();
        let found: Vec<_> = rows
            .map(|Row { settings, .. }| {
                let [from, to] = ["redirects.from", "redirects.to"].map(|key| settings.text(key));
                (from, to, settings.number("redirects.status"), settings.flag("redirects.force"))
            })
            .collect();
        let expected = [
            ("/a", "/b", 301, false),
            ("/c/*", "https://h/:splat", 302, true),
            ("/gone", "", 410, false),
            ("/x", "/y.html", 200, false),
        ];
        assert_eq!(found, expected);
        assert_eq!(said.print_rows(), "", "the configuration file has none of them");
        let built = rules::build(&said);
        assert_eq!([built.problems, built.cut, built.warnings].concat(), []);
    }

    #[test]
    fn what_is_wrong_is_reported_at_its_place() {
        let mut said = of_sets(&[]);
        let mut found = headers(file("X-A: b\n/a\n  Date: x\nhttps://h/\n X-B: c\n"), &mut said);
        found.extend(redirects(file("/a /b 999\n/b id=:id /c\n/c /d 301 Country=x\n"), &mut said));
        found.extend(rules::build(&said).problems);
        let expected = [
            "_f:1:1: a field without a path before it",
            "_f:1:1: redirects.status: expected",
            "_f:2:1: redirects.status: expected",
            "_f:3:1: nothing may follow the status: \"Country=x\"",
            "_f:3:3: headers.set: \"Date: x\": the server makes",
            "_f:4:1: headers.path: a pattern starts with a slash",
            "_f:2:1: redirects.to: it must be a path",
        ];
        begin_with(&found, &expected);
    }

    #[test]
    fn files_of_other_hosts_are_read() {
        let mut said = of_sets(&[]);
        let text = "\u{feff}/*.js\r\n\tX-A: 1\r\n\r\n# c\r\n/\r\n  X-B: a:b\r\n/*.js\r\n X-A: 2";
        assert_eq!(headers(file(text), &mut said), []);
        let text = "\u{feff}/a%20b\t/b\t301\r\n/caf%C3%A9 /c # why\r\n/*/x.php /x?p=:splat 302";
        assert_eq!(redirects(file(text), &mut said), []);
        let built = rules::build(&said);
        assert_eq!([built.problems, built.cut, built.warnings].concat(), []);
        let rules = built.rules;
        for (target, to) in [("/a%20b", "/b"), ("/caf%c3%a9/", "/c"), ("/d/e/x.php", "/x?p=d%2Fe")]
        {
            assert_eq!(rules.location(target.as_bytes()), Some(to.into()), "{target}");
        }
        assert_eq!(rules.header_places(b"d/a.js"), ["_f:1:1", "_f:7:1"]);
    }

    /// The first redirect counts, and fields are added up; the configuration precedes files.
    #[test]
    fn what_is_there_twice_is_merged_with_a_warning() {
        let text = "[[headers]]\npath = \"/*\"\nset = [\"X-A: own\", \"X-B: own\"]\n\
                    [[redirects]]\nfrom = \"/own\"\nto = \"/1\"\n";
        let mut said = of_good_file(text);
        let text = "/*\n X-C: 1\n/*\n x-a: 2\n X-C: 2\n";
        assert_eq!(headers(file(text), &mut said), []);
        let text = "/own /2\n/foo /3\n/foo/ /4\n/new 410\n";
        assert_eq!(redirects(file(text), &mut said), []);
        let built = rules::build(&said);
        assert_eq!([built.problems, built.cut].concat(), []);
        let expected = [
            "_f:4:2: headers.set: x-a: the rule at r:1:1 counts",
            "_f:1:1: redirects.from: the rule at r:4:1 counts",
            "_f:3:1: redirects.from: the rule at _f:2:1 counts",
        ];
        begin_with(&built.warnings, &expected);
        for (target, to) in [("/own", "/1"), ("/foo", "/3"), ("/foo/", "/3")] {
            assert_eq!(built.rules.location(target.as_bytes()), Some(to.into()), "{target}");
        }
        assert_eq!(built.rules.header_places(b"x"), ["r:1:1", "_f:1:1", "_f:3:1"]);
    }

    /// Files made to be expensive: rules without room in a table are named at their place, the
    /// first few one by one.
    #[test]
    fn what_there_is_no_room_for_is_left_out() {
        let mut said = of_sets(&[]);
        let path = |number: u32, length: u32| {
            let part = |at: u32| match number >> at & 1 {
                0 => "/a".to_owned(),
                _ => format!("/:n{at}"),
            };
            (0..length).map(part).collect::<String>()
        };
        let fields = |number: u32| format!("{}\n X-{number}: b\n", path(number, 8));
        let text: String = (0..256).map(fields).collect();
        assert_eq!(headers(file(&text), &mut said), []);
        let few = |number: &u32| number.count_ones() <= 8;
        let rule = |number: u32| format!("{} /b\n", path(number, 12));
        let text: String = (0..2_048).filter(few).map(rule).collect();
        assert_eq!(redirects(file(&text), &mut said), []);
        let built = rules::build(&said);
        let cut: Vec<_> = built.cut.iter().map(ToString::to_string).collect();
        assert_eq!(cut.len(), 18, "{cut:#?}");
        assert!(cut[0].starts_with("_f:129:1: "), "{cut:#?}");
        let why = "headers.path: it is left out: with it, a file could have more than 64 fields";
        assert!(cut[0].contains(why), "{cut:#?}");
        assert!(cut[8].contains("further rules, from here on"), "{cut:#?}");
        let why = "redirects.from: it is left out: with it, a path could take more than 512 steps";
        assert!(cut[9].contains(why), "{cut:#?}");
    }
}
