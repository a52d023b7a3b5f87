//! Tests that each fault is reported at its place, and that printed configurations read back. The
//! first functions read configurations for tests of other modules as well.
use super::*;
use crate::config::environment::tests::environment;

fn arguments(sets: &[&str]) -> Arguments {
    Arguments { flags: Vec::new(), sets: sets.iter().map(|set| (*set).to_owned()).collect() }
}

/// The configuration of a file `r`, and its problems.
pub(crate) fn of_file(text: &str) -> (Said, Vec<Problem>) {
    read(&[FileText { name: "r", text }], &Arguments::default(), &Environment::default())
}

/// The configuration of a file `r`, without problems.
#[track_caller]
pub(crate) fn of_good_file(text: &str) -> Said {
    let (said, problems) = of_file(text);
    assert_eq!(problems, []);
    said
}

/// A configuration of `--set` alone, without problems.
#[track_caller]
pub(crate) fn of_sets(sets: &[&str]) -> Said {
    let (said, problems) = read(&[], &arguments(sets), &Environment::default());
    assert_eq!(problems, []);
    said
}

/// Checks that problems are these, by the beginning of each.
#[track_caller]
pub(crate) fn begin_with(problems: &[Problem], starts: &[&str]) {
    let found: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{found}\n{start}");
    }
}

fn problems(text: &str, sets: &[&str]) -> Vec<String> {
    let (file, environment) = (FileText { name: "r.toml", text }, Environment::default());
    let (_, problems) = read(&[file], &arguments(sets), &environment);
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn every_problem_of_a_file_is_reported_at_its_position() {
    let text = "\
[limits]
idel_ms_max = 10
idle_ms_max = \"ten\"
  head_bytes_max = 1
fields_max = -3

[contents]
a = 1

[content]
index = [\"a\", 5]
clean_urls = \"true\"
\"é\" = { x = 1, y = 2 }
[server]
root = true
clean_urls = true
[server.listen]
a = 1
[accept]
when_full = \"paus\"
";
    let expect = [
        "r.toml:2:1: unknown option limits.idel_ms_max\n  hint: did you mean \
         limits.idle_ms_max?",
        "r.toml:3:15: limits.idle_ms_max: expected a duration from 1 ms to 1 d, got \"ten\"",
        "r.toml:4:20: limits.head_bytes_max: expected a size from 512 B to 1 MiB, got 1",
        "r.toml:5:14: limits.fields_max: expected a whole number from 1 to 1024, got the \
         number -3",
        "r.toml:7:2: unknown section [contents]\n  hint: did you mean [content]?",
        "r.toml:11:9: content.index: expected a list of texts in quotes",
        "r.toml:12:14: content.clean_urls: expected true or false, got the text \"true\"",
        "r.toml:13:1: unknown section [content.é]\n  hint: did you mean [content]?",
        "r.toml:15:8: server.root: expected a text, got true",
        "r.toml:16:1: unknown option server.clean_urls\n  hint: did you mean \
         content.clean_urls?",
        "r.toml:17:1: server.listen: expected a list of texts, got a section",
        "r.toml:20:13: accept.when_full: expected one of close-idle, keep-polling, pause, got \
         \"paus\" (did you mean \"pause\"?)",
    ];
    assert_eq!(problems(text, &[]), expect);
}

#[test]
fn syntax_errors_do_not_hide_the_rest() {
    let (_, found) = of_file("[limits]\nidle_ms_max = 10 s\nranges_max = x\nfields = 1\n");
    begin_with(&found, &["r:2:15: ", "r:3:14: ", "r:4:1: unknown option limits.fields"]);
    let twice = problems("[cache]\nenabled = true\nenabled = false\n", &[]);
    assert_eq!(twice, ["r.toml:3:1: cache.enabled appears twice, first in line 2"]);
    let section = problems("[cache]\n[log]\n[cache]\nentries_max = 1\n", &[]);
    assert_eq!(section, ["r.toml:3:2: section [cache] appears twice, first in line 1"]);
    let text = "[cache]\na.enabled = 1\nenabled = true\n\"enabled\" = false\n";
    let unclear = problems(text, &[]);
    assert!(unclear.iter().any(|found| found == "r.toml:4:1: \"enabled\" appears twice"));
}

#[test]
fn sections_that_other_versions_had_are_explained() {
    let found = problems("[arch.sped]\npoller = \"poll\"\n[ftp]\n", &["arch.sped.poller=poll"]);
    assert!(found[0].starts_with("r.toml:1:2: unknown section [arch]\n  hint: options of arch"));
    assert!(found[1].starts_with("r.toml:3:2: unknown section [ftp]\n  hint: the sections are"));
    assert!(found[2].ends_with("hint: did you mean event.poller?"), "{found:?}");
}

#[test]
fn arguments_are_checked_with_the_file() {
    let found = problems(
        "[cache]\nenable = true\n",
        &["cache.enabled", "cache.entrys_max=1", "server.architecture=sprd", "log.format=jsn"],
    );
    let expect = [
        "r.toml:2:1: unknown option cache.enable\n  hint: did you mean cache.enabled?",
        "--set cache.enabled: expected key=value\n  hint: as in --set limits.idle_ms_max=30s",
        "--set cache.entrys_max=1: unknown option cache.entrys_max\n  hint: did you mean \
         cache.entries_max?",
        "--set log.format=jsn: log.format: expected one of common, combined, json, got \
         \"jsn\" (did you mean \"json\"?)",
        "--set server.architecture=sprd: server.architecture: there is no architecture \
         \"sprd\"\n  hint: did you mean sped?",
    ];
    assert_eq!(found, expect);
}

#[test]
fn later_wins_and_keeps_its_place() {
    let text = "[server]\nlisten = \"[::1]:80\"\nroot = \"a\"\n[content]\nindex = []\n";
    let flag = Flag {
        key: "server.listen",
        name: "--listen",
        values: vec!["127.0.0.1:0".into(), "127.0.0.2:0".into()],
    };
    let sets = ["content.index=x.html, y.html", "server.root=b", "limits.idle_ms_max=3 s"];
    let arguments = Arguments { flags: vec![flag], ..arguments(&sets) };
    let files = [FileText { name: "r.toml", text }];
    let (said, problems) = read(&files, &arguments, &Environment::default());
    assert_eq!(problems, []);
    assert_eq!(said.settings.list("server.listen"), ["127.0.0.1:0", "127.0.0.2:0"]);
    assert_eq!(said.settings.list("content.index"), ["x.html", "y.html"]);
    assert_eq!(said.settings.number("limits.idle_ms_max"), 3000);
    assert_eq!(said.place("server.root").to_string(), "--set server.root=b");
    assert_eq!(said.place("server.listen").to_string(), "--listen");
    assert_eq!(said.place("server.user").to_string(), "by default");
    let said = of_sets(&["content.index=[\"a,b\", 'c']"]);
    assert_eq!(said.settings.list("content.index"), ["a,b", "c"]);
}

#[test]
fn what_is_printed_reads_back_as_itself() {
    let sets = ["server.root=a \"b\\c\"", "content.index=", "server.listen=[\"a:1\",\"b:2\"]"];
    for sets in [&[][..], &sets, &["server.root=a${B}$${C}"]] {
        let said = of_sets(sets);
        let text = options::print(&said.settings);
        let again = of_good_file(&text);
        assert_eq!(said.settings, again.settings);
        assert_eq!(text, options::print(&again.settings));
    }
}

#[test]
fn variables_are_replaced_in_values_of_files() {
    let text = "\
[server]
root = \"${ROOT:-/srv}\"
listen = [\"0.0.0.0:${PORT}\", \"[::]:${PORT}\"]
[limits]
ranges_max = \"${RANGES}\"
[content]
clean_urls = \"${CLEAN}\"
charset = \"${MISSING}\"
[[redirects]]
from = \"/a\"
to = \"https://${HOST}/\"
";
    let variables = [("PORT", "81"), ("RANGES", "3"), ("CLEAN", "true"), ("HOST", "h")];
    let (file, environment) = (FileText { name: "r", text }, environment(&variables));
    let arguments = arguments(&["log.error=${PORT}"]);
    let (said, problems) = read(&[file], &arguments, &environment);
    begin_with(&problems, &["r:8:11: content.charset: the variable MISSING is not set"]);
    assert_eq!(said.settings.text("server.root"), "/srv");
    assert_eq!(said.settings.list("server.listen"), ["0.0.0.0:81", "[::]:81"]);
    assert_eq!(said.settings.number("limits.ranges_max"), 3);
    assert!(said.settings.flag("content.clean_urls"));
    assert_eq!(said.settings.text("log.error"), "${PORT}", "a shell has replaced those");
    assert_eq!(said.rows("redirects")[0].settings.text("redirects.to"), "https://h/");
    let comments = said.print_variables();
    let expected = "# from the environment: ROOT (not set: its default) in server.root, r:2:8\n\
                    # from the environment: PORT in server.listen, r:3:10\n";
    assert!(comments.starts_with(expected), "{comments}");
    assert_eq!(comments.lines().count(), 6, "{comments}");
}

/// The last file that sets an option counts, rows are added up, and places name the file.
#[test]
fn several_files_are_one_configuration() {
    let row = "[[redirects]]\nfrom = \"/a\"\nto = \"/b\"\nstatus = 7\n";
    let first = format!("[cache]\nenabled = false\nenabeld = x\n{row}");
    let second = format!("[cache]\nenabled = true\nfoo = 1\n[content]\ncharset = 1\n{row}");
    let files = [("a.toml", &first), ("b.toml", &second)];
    let files = files.map(|(name, text)| FileText { name, text });
    let (said, problems) = read(&files, &Arguments::default(), &Environment::default());
    let expected = [
        "a.toml:3:11: ",
        "a.toml:7:10: redirects.status: expected",
        "b.toml:3:1: unknown option cache.foo",
        "b.toml:5:11: content.charset: expected a text",
        "b.toml:9:10: redirects.status: expected",
    ];
    begin_with(&problems, &expected);
    assert!(said.settings.flag("cache.enabled"));
    assert_eq!(said.place("cache.enabled").to_string(), "b.toml:2:11");
    let places = said.rows("redirects").iter().map(|row| row.place.to_string());
    assert_eq!(places.collect::<Vec<_>>(), ["a.toml:4:1", "b.toml:6:1"]);
}

#[test]
fn no_text_panics() {
    let seed = "[server]\nroot = \"x\"\n[[a]]\nb={c=[1,{d=\"\"\"é\"\"\"}]}\na.b.c=0x_1\u{0}'";
    for end in (0..=seed.len()).filter(|end| seed.is_char_boundary(*end)) {
        let _ = problems(&seed[..end], &[&seed[..end]]);
        let _ = problems(&seed[end..], &[&seed[end..]]);
    }
}

/// Places of values cost one pass over the text, of many lines or of one.
#[test]
fn places_are_found_in_linear_time() {
    let (mut lines, mut one_line) = (String::new(), "headers = [".to_owned());
    for at in 0..2000 {
        lines += &format!("[[headers]]\npath = \"/{at}\"\nset = [\"X-A: b\"]\n");
        one_line += &format!("{{ path = \"/{at}\", set = [\"X-A: b\"] }},");
    }
    for text in [lines, one_line + "]\n"] {
        let environment = Environment::default();
        let mut reader = Reader::new(&environment);
        reader.file(FileText { name: "r.toml", text: &text });
        assert_eq!(reader.problems, []);
        let steps = reader.places.steps;
        // Keys and values are visited table by table, so some text is read twice.
        assert!(steps <= 4 * text.len(), "{steps} of {}", text.len());
        let row = &reader.said.rows("headers")[1999];
        let (line, column) = Places::new(&text).find(&text, text.rfind("\"/1999").unwrap());
        let place = Location::File { name: "r.toml".to_owned(), line, column };
        assert_eq!(row.places["headers.path"], place);
    }
}
