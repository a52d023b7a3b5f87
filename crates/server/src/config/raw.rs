//! What was said: a configuration file, flags and `--set`, read into settings or into the list of
//! everything that is wrong with them.
use crate::config::options;
use regatta_arch::{
    ARCHITECTURES,
    options::{Kind, OptionSpec, Settings, Value, ValueFault, nearest},
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// The largest configuration file that is read, bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where something was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// Nowhere: the default of the option of this name, or what its architecture sets it to.
    Default(String),
    /// In a file; line and column (in characters) count from 1.
    File {
        /// The file's name, as given.
        name: String,
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// On the command line, as in `--set cache.enabled=no`.
    Argument(String),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default(_) => f.write_str("by default"),
            Self::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Self::Argument(text) => f.write_str(text),
        }
    }
}

/// One thing that is wrong, where, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it was said.
    pub place: Location,
    /// What is wrong.
    pub message: String,
    /// What to do about it, if that is known.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem without a hint.
    pub fn new(place: Location, message: impl Into<String>) -> Self {
        Self { place, message: message.into(), hint: None }
    }

    /// This problem with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// This problem as a JSON object: `place`, `message` and `hint`, and where it is in a file
    /// also `file`, `line` and `column`.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let (file, line, column) = match &self.place {
            Location::File { name, line, column } => (Some(name), Some(line), Some(column)),
            Location::Default(_) | Location::Argument(_) => (None, None, None),
        };
        serde_json::json!({
            "place": self.place.to_string(),
            "file": file,
            "line": line,
            "column": column,
            "message": self.message,
            "hint": self.hint,
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// A configuration file as read from disk.
#[derive(Clone, Copy, Debug)]
pub struct FileText<'a> {
    /// Its name, for messages.
    pub name: &'a str,
    /// What is in it.
    pub text: &'a str,
}

/// What the command line said of options.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    /// Flags with an option behind them: how they were written, the option's name, the value.
    pub flags: Vec<Flag>,
    /// What followed each `--set`.
    pub sets: Vec<String>,
}

/// A flag that sets an option.
#[derive(Clone, Debug)]
pub struct Flag {
    /// The option's name.
    pub key: &'static str,
    /// The flag's name for messages, as in `--listen`.
    pub name: &'static str,
    /// What it was given; more than one only for lists.
    pub values: Vec<String>,
}

/// Settings, and where each of them comes from.
#[derive(Clone, Debug)]
pub struct Said {
    /// Every option.
    pub settings: Settings,
    places: BTreeMap<&'static str, Location>,
}

impl Said {
    /// Where the value of an option was said.
    #[must_use]
    pub fn place(&self, key: &str) -> Location {
        self.places.get(key).cloned().unwrap_or_else(|| Location::Default(key.to_owned()))
    }

    /// A problem with an option, where its value was said.
    #[must_use]
    pub fn problem(&self, key: &str, message: &str) -> Problem {
        Problem::new(self.place(key), format!("{key}: {message}"))
    }

    /// True if an option has been given a value, rather than keeping its default.
    #[must_use]
    pub fn is_said(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// Sets a number that nobody set to what the machine allows.
    ///
    /// # Panics
    /// If there is no such option, or it does not take the number: a fault in our own code.
    pub fn choose(&mut self, key: &str, number: u64) {
        let spec = options::find(key).expect("a known option is chosen for");
        let value = Value::Number(number);
        self.settings.set(spec, value).expect("a value is chosen within its bounds");
    }
}

/// Reads everything that was said. Problems are all there are, in the order in which they were
/// met; what is wrong is left at its default.
#[must_use]
pub fn read(file: Option<FileText<'_>>, arguments: &Arguments) -> (Said, Vec<Problem>) {
    let settings = Settings::defaults(options::all());
    let mut reader = Reader {
        said: Said { settings, places: BTreeMap::new() },
        problems: Vec::new(),
        wrong_lines: BTreeSet::new(),
    };
    if let Some(file) = file {
        reader.file(file);
    }
    for flag in &arguments.flags {
        reader.flag(flag);
    }
    for set in &arguments.sets {
        reader.set(set);
    }
    reader.architecture();
    (reader.said, reader.problems)
}

struct Reader {
    said: Said,
    problems: Vec<Problem>,
    /// Lines with a syntax error: what was made of them means nothing.
    wrong_lines: BTreeSet<usize>,
}

impl Reader {
    fn file(&mut self, file: FileText<'_>) {
        let (table, faults) = DeTable::parse_recoverable(file.text);
        for fault in faults {
            let place = place(file, fault.span().unwrap_or(0..0));
            if let Location::File { line, .. } = place
                && !self.wrong_lines.insert(line)
            {
                continue;
            }
            let message = match fault.message() {
                "duplicate key" => twice(file, table.get_ref(), fault.span().unwrap_or(0..0)),
                message => message.to_owned(),
            };
            self.problems.push(Problem::new(place, message));
        }
        self.table(file, "", table.get_ref());
        self.problems.sort_by_key(|problem| match problem.place {
            Location::File { line, column, .. } => (line, column),
            Location::Default(_) | Location::Argument(_) => (0, 0),
        });
    }

    fn table(&mut self, file: FileText<'_>, prefix: &str, table: &DeTable<'_>) {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (name, value) in entries {
            let key = match prefix {
                "" => name.get_ref().to_string(),
                _ => format!("{prefix}.{}", name.get_ref()),
            };
            match (options::find(&key), value.get_ref()) {
                (Some(spec), got) => {
                    let place = place(file, value.span());
                    self.put(spec, from_toml(spec, got), place);
                }
                (None, DeValue::Table(inner)) if is_section(&key) => self.table(file, &key, inner),
                (None, got) => {
                    let problem = unknown(place(file, name.span()), &key, got.is_table());
                    self.report(problem);
                }
            }
        }
    }

    fn flag(&mut self, flag: &Flag) {
        let spec = options::find(flag.key).expect("flags are in the table of options");
        let place = Location::Argument(flag.name.to_owned());
        let value = match (spec.kind, flag.values.as_slice()) {
            (Kind::List, values) => spec.kind.list(values.to_vec()),
            (_, [.., last]) => spec.kind.parse(last),
            (_, []) => return,
        };
        self.put(spec, value, place);
    }

    fn set(&mut self, set: &str) {
        let place = Location::Argument(format!("--set {set}"));
        let Some((key, text)) = set.split_once('=') else {
            let problem = Problem::new(place, "expected key=value");
            self.report(problem.hint("as in --set limits.idle_ms_max=30s"));
            return;
        };
        let key = key.trim();
        let Some(spec) = options::find(key) else {
            let problem = unknown(place, key, false);
            self.report(problem);
            return;
        };
        let text = text.trim();
        let value = if spec.kind == Kind::List && text.starts_with('[') {
            DeValue::parse(text)
                .map_err(|fault| ValueFault(fault.message().to_owned()))
                .and_then(|value| from_toml(spec, value.get_ref()))
        } else {
            spec.kind.parse(text)
        };
        self.put(spec, value, place);
    }

    /// Sets what the architecture's name stands for, where nothing else was said.
    fn architecture(&mut self) {
        let name = self.said.settings.text("server.architecture");
        let Some(architecture) = regatta_arch::find(name) else {
            let message = format!("server.architecture: there is no architecture \"{name}\"");
            let problem = Problem::new(self.said.place("server.architecture"), message);
            let near = || nearest(name, ARCHITECTURES.iter().map(|known| known.name));
            let problem = match regatta_arch::absent(name) {
                Some(why) => problem.hint(why),
                None => match near() {
                    Some(near) => problem.hint(format!("did you mean {near}?")),
                    None => problem.hint("`regatta architectures` lists them"),
                },
            };
            self.report(problem);
            return;
        };
        for (key, value) in architecture.axes {
            if !self.said.places.contains_key(key) {
                let spec = options::find(key).expect("architectures set options of the table");
                let value = spec.kind.parse(value).expect("architectures set valid values");
                self.said.settings.set(spec, value).expect("the value was parsed for the option");
            }
        }
    }

    fn put(
        &mut self,
        spec: &'static OptionSpec,
        value: Result<Value, ValueFault>,
        place: Location,
    ) {
        match value.and_then(|value| self.said.settings.set(spec, value)) {
            Ok(()) => {
                self.said.places.insert(spec.key, place);
            }
            Err(fault) => self.report(Problem::new(place, format!("{}: {fault}", spec.key))),
        }
    }

    fn report(&mut self, problem: Problem) {
        if let Location::File { line, .. } = problem.place
            && self.wrong_lines.contains(&line)
        {
            return;
        }
        self.problems.push(problem);
    }
}

fn is_section(key: &str) -> bool {
    options::sections().iter().any(|section| {
        section.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Says which key is there twice, and where it was first if there is only one such place.
fn twice(file: FileText<'_>, table: &DeTable<'_>, again: Range<usize>) -> String {
    let name = file.text.get(again.clone()).unwrap_or_default();
    let before = file.text.get(..again.start).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = file.text[start..].lines().next().unwrap_or_default().trim();
    if line.starts_with('[') {
        let first = file.text.lines().position(|other| other.trim() == line).unwrap_or(0) + 1;
        return format!("section {line} appears twice, first in line {first}");
    }
    let mut before = Vec::new();
    keys_before(table, "", again.start, name.trim_matches(['"', '\'']), &mut before);
    match before.as_slice() {
        [(key, at)] => {
            let line = file.text[..*at].matches('\n').count() + 1;
            format!("{key} appears twice, first in line {line}")
        }
        _ => format!("{name} appears twice"),
    }
}

/// Finds all keys of this name that stand before a position, whole, and where they stand.
fn keys_before(
    table: &DeTable<'_>,
    prefix: &str,
    end: usize,
    name: &str,
    found: &mut Vec<(String, usize)>,
) {
    for (key, value) in table {
        let whole = match prefix {
            "" => key.get_ref().to_string(),
            _ => format!("{prefix}.{}", key.get_ref()),
        };
        let at = key.span().start;
        if key.get_ref() == name && at < end {
            found.push((whole.clone(), at));
        }
        if let DeValue::Table(inner) = value.get_ref() {
            keys_before(inner, &whole, end, name, found);
        }
    }
}

fn unknown(place: Location, key: &str, is_table: bool) -> Problem {
    if is_table {
        let problem = Problem::new(place, format!("unknown section [{key}]"));
        let sections = options::sections();
        return match nearest(key, sections.iter().copied()) {
            Some(section) => problem.hint(format!("did you mean [{section}]?")),
            None if key == "arch" || key.starts_with("arch.") => problem.hint(
                "options of architectures have sections of their own; \
                 `regatta architectures` lists them",
            ),
            None => problem.hint(format!("the sections are {}", sections.join(", "))),
        };
    }
    let problem = Problem::new(place, format!("unknown option {key}"));
    let name = |key| str::rsplit_once(key, '.').map_or(key, |(_, name)| name);
    let elsewhere = || options::all().find(|spec| name(spec.key) == name(key));
    let near = nearest(key, options::all().map(|spec| spec.key));
    match near.or_else(|| elsewhere().map(|spec| spec.key)) {
        Some(near) => problem.hint(format!("did you mean {near}?")),
        None => problem.hint("`regatta serve --print-config` lists all options"),
    }
}

fn from_toml(spec: &OptionSpec, value: &DeValue<'_>) -> Result<Value, ValueFault> {
    let kind = spec.kind;
    match (kind, value) {
        (Kind::Bool, DeValue::Boolean(flag)) => Ok(Value::Flag(*flag)),
        (Kind::List, DeValue::String(text)) => kind.list(vec![text.to_string()]),
        (Kind::List, DeValue::Array(items)) => {
            let items = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
            match items.collect() {
                Some(items) => kind.list(items),
                None => Err(ValueFault("expected a list of texts in quotes".to_owned())),
            }
        }
        (Kind::Text | Kind::Path | Kind::Choice(_), DeValue::String(text)) => kind.parse(text),
        (Kind::Bool | Kind::Text | Kind::Path | Kind::Choice(_) | Kind::List, other) => {
            Err(mismatch(kind, other))
        }
        (_, DeValue::String(text)) => kind.parse(text),
        (_, DeValue::Integer(number)) => {
            match u64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => kind.take_number(number),
                Err(_) => Err(mismatch(kind, value)),
            }
        }
        (_, other) => Err(mismatch(kind, other)),
    }
}

fn mismatch(kind: Kind, got: &DeValue<'_>) -> ValueFault {
    let got = match got {
        DeValue::String(text) => format!("the text \"{}\"", text.escape_debug()),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a section".to_owned(),
    };
    ValueFault(format!("expected {}, got {got}", kind.describe()))
}

fn place(file: FileText<'_>, span: Range<usize>) -> Location {
    let before = file.text.get(..span.start).unwrap_or(file.text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    Location::File {
        name: file.name.to_owned(),
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str, sets: &[&str]) -> Vec<String> {
        let sets = sets.iter().map(|set| (*set).to_owned()).collect();
        let arguments = Arguments { flags: Vec::new(), sets };
        let (_, problems) = read(Some(FileText { name: "r.toml", text }), &arguments);
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
        let found = problems("[limits]\nidle_ms_max = 10 s\nranges_max = x\nfields = 1\n", &[]);
        let starts = ["r.toml:2:15: ", "r.toml:3:14: ", "r.toml:4:1: unknown option limits.fields"];
        assert_eq!(found.len(), starts.len(), "{found:?}");
        for (found, start) in found.iter().zip(starts) {
            assert!(found.starts_with(start), "{found}");
        }
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
        let found = problems("[arch.sped]\npoller = \"poll\"\n[tls]\n", &["arch.sped.poller=poll"]);
        assert!(
            found[0].starts_with("r.toml:1:2: unknown section [arch]\n  hint: options of arch")
        );
        assert!(
            found[1].starts_with("r.toml:3:2: unknown section [tls]\n  hint: the sections are")
        );
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
        let sets = sets.map(str::to_owned).to_vec();
        let arguments = Arguments { flags: vec![flag], sets };
        let (said, problems) = read(Some(FileText { name: "r.toml", text }), &arguments);
        assert_eq!(problems, []);
        assert_eq!(said.settings.list("server.listen"), ["127.0.0.1:0", "127.0.0.2:0"]);
        assert_eq!(said.settings.list("content.index"), ["x.html", "y.html"]);
        assert_eq!(said.settings.number("limits.idle_ms_max"), 3000);
        assert_eq!(said.place("server.root").to_string(), "--set server.root=b");
        assert_eq!(said.place("server.listen").to_string(), "--listen");
        assert_eq!(said.place("server.user").to_string(), "by default");
        let set = Arguments { sets: vec!["content.index=[\"a,b\", 'c']".into()], ..arguments };
        assert_eq!(read(None, &set).0.settings.list("content.index"), ["a,b", "c"]);
    }

    #[test]
    fn what_is_printed_reads_back_as_itself() {
        let sets = ["server.root=a \"b\\c\"", "content.index=", "server.listen=[\"a:1\",\"b:2\"]"];
        let sets = sets.map(str::to_owned).to_vec();
        for sets in [Vec::new(), sets] {
            let (said, problems) = read(None, &Arguments { flags: Vec::new(), sets });
            assert_eq!(problems, []);
            let text = options::print(&said.settings);
            let file = FileText { name: "printed", text: &text };
            let (again, problems) = read(Some(file), &Arguments::default());
            assert_eq!(problems, []);
            assert_eq!(said.settings, again.settings);
            assert_eq!(text, options::print(&again.settings));
        }
    }

    #[test]
    fn no_text_panics() {
        let seed = "[server]\nroot = \"x\"\n[[a]]\nb={c=[1,{d=\"\"\"é\"\"\"}]}\na.b.c=0x_1\u{0}'";
        for end in (0..=seed.len()).filter(|end| seed.is_char_boundary(*end)) {
            let _ = problems(&seed[..end], &[&seed[..end]]);
            let _ = problems(&seed[end..], &[&seed[end..]]);
        }
    }
}
