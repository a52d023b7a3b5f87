//! What was said: a configuration file, flags and `--set`, read into settings or into the list of
//! everything that is wrong with them.
mod of_hosts;

pub(crate) use of_hosts::Inherited;
pub use of_hosts::text_of;

use crate::{
    architectures,
    config::{
        options,
        tables::{self, TableSpec},
    },
};
use regatta_arch::options::{Kind, OptionSpec, Settings, Value, ValueFault, nearest};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::mem;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use toml::de::{DeArray, DeTable, DeValue};

/// The largest configuration file that is read, bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// The most keys said twice whose first places are looked for.
const TWICE_MAX: usize = 100;

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
    /// By table. Hosts that inherit rows share them.
    rows: BTreeMap<&'static str, Arc<Vec<Row>>>,
    /// What holds for each row of `[[hosts]]`: rules of its own, and the options of all hosts but
    /// for those that it sets itself.
    pub(crate) hosts: Vec<Self>,
}

/// A row of a table ([`tables`]).
#[derive(Clone, Debug)]
pub struct Row {
    /// Where it stands.
    pub place: Location,
    /// Every field.
    pub settings: Settings,
    places: BTreeMap<&'static str, Location>,
    /// It comes from a file at the root, not from the configuration file.
    of_site: bool,
}

impl Row {
    /// A row that says nothing.
    pub(crate) fn new(spec: &TableSpec, place: Location, of_site: bool) -> Self {
        let settings = Settings::defaults(spec.fields);
        Self { place, settings, places: BTreeMap::new(), of_site }
    }

    /// True if it comes from a file at the root, not from the configuration file.
    pub(crate) const fn is_of_site(&self) -> bool {
        self.of_site
    }

    /// Says the value of a field.
    pub(crate) fn say(
        &mut self,
        field: &OptionSpec,
        value: Result<Value, ValueFault>,
        at: Location,
    ) -> Result<(), Problem> {
        match value.and_then(|value| self.settings.set(field, value)) {
            Ok(()) => {
                self.places.insert(field.key, at);
                Ok(())
            }
            Err(fault) => Err(Problem::new(at, format!("{}: {fault}", field.key))),
        }
    }

    /// A problem with a field, where its value was said, or the row.
    #[must_use]
    pub fn problem(&self, key: &str, message: &str) -> Problem {
        let place = self.places.get(key).unwrap_or(&self.place);
        Problem::new(place.clone(), format!("{key}: {message}"))
    }
}

/// What the root is called in a row of `[[hosts]]`, and elsewhere.
const ROOT: [&str; 2] = ["hosts.root", "server.root"];

/// The section whose options hosts may set.
const CONTENT: &str = "content";

impl Said {
    /// Nothing.
    fn new() -> Self {
        // Each host begins with nothing: the defaults are parsed once.
        static DEFAULTS: OnceLock<Arc<Settings>> = OnceLock::new();
        let defaults = DEFAULTS.get_or_init(|| Arc::new(Settings::defaults(options::all())));
        let settings = Settings::over(Arc::clone(defaults));
        let (places, rows) = (BTreeMap::new(), BTreeMap::new());
        Self { settings, places, rows, hosts: Vec::new() }
    }

    /// Adds a row to a table.
    ///
    /// # Errors
    /// If it has as many as it may have.
    pub(crate) fn add_row(&mut self, spec: &TableSpec, row: Row) -> Result<(), Problem> {
        let rows = self.rows.entry(spec.name).or_default();
        if rows.len() == spec.rows_max {
            let message = format!("more than {} of [[{}]]", spec.rows_max, spec.name);
            return Err(Problem::new(row.place, message).hint("make some of them one"));
        }
        Arc::make_mut(rows).push(row);
        Ok(())
    }

    /// The rows of a table, in the order of the file.
    #[must_use]
    pub fn rows(&self, table: &str) -> &[Row] {
        self.rows.get(table).map_or(&[], |rows| rows.as_slice())
    }

    /// The rows of all tables in the configuration file, as a file has them.
    ///
    /// # Panics
    /// If a row lacks a field: a fault in our own code.
    #[must_use]
    pub fn print_rows(&self) -> String {
        let mut text = String::new();
        self.print_rows_in("", &mut text);
        text
    }

    fn print_rows_in(&self, prefix: &str, text: &mut String) {
        for spec in tables::TABLES {
            for (at, row) in self.rows(spec.name).iter().enumerate().filter(|(_, row)| !row.of_site)
            {
                let _ = writeln!(text, "\n[[{prefix}{}]]", spec.name);
                for field in spec.fields {
                    print_value(field.key, &row.settings, text);
                }
                if let Some(host) = self.hosts.get(at).filter(|_| spec.name == tables::HOSTS) {
                    let _ = writeln!(text, "[{}.content]", tables::HOSTS);
                    let of_hosts = |spec: &&OptionSpec| is_of_hosts(spec.key);
                    for spec in options::all().filter(of_hosts) {
                        print_value(spec.key, &host.settings, text);
                    }
                    host.print_rows_in(&format!("{}.", tables::HOSTS), text);
                }
            }
        }
    }

    /// Where the value of an option was said.
    #[must_use]
    pub fn place(&self, key: &str) -> Location {
        self.places.get(key).cloned().unwrap_or_else(|| Location::Default(key.to_owned()))
    }

    /// A problem with an option, where its value was said.
    #[must_use]
    pub fn problem(&self, key: &str, message: &str) -> Problem {
        let of_host = key == ROOT[1] && self.places.contains_key(ROOT[0]);
        let name = if of_host { ROOT[0] } else { key };
        Problem::new(self.place(key), format!("{name}: {message}"))
    }

    /// True if an option has been given a value, rather than keeping its default.
    #[must_use]
    pub fn is_said(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// Sets an option that nobody set to what the machine allows or gives.
    ///
    /// # Panics
    /// If there is no such option, or it does not take the value: a fault in our own code.
    pub fn choose(&mut self, key: &str, value: Value) {
        let spec = options::find(key).expect("a known option is chosen for");
        self.settings.set(spec, value).expect("a value is chosen within its bounds");
    }
}

/// Reads everything that was said. Problems are all there are, in the order in which they were
/// met; what is wrong is left at its default.
#[must_use]
pub fn read(file: Option<FileText<'_>>, arguments: &Arguments) -> (Said, Vec<Problem>) {
    let (said, problems, wrong_lines) = (Said::new(), Vec::new(), BTreeSet::new());
    let mut reader = Reader { said, problems, wrong_lines, places: Places::default() };
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
    reader.said.complete_hosts();
    (reader.said, reader.problems)
}

struct Reader {
    said: Said,
    problems: Vec<Problem>,
    /// Lines with a syntax error: what was made of them means nothing.
    wrong_lines: BTreeSet<usize>,
    places: Places,
}

/// Whether a text has blocks or directives as nginx has them.
fn is_of_nginx(text: &str) -> bool {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim_end());
    lines.into_iter().any(|line| line.ends_with('{') || line.ends_with(';'))
}

impl Reader {
    fn file(&mut self, file: FileText<'_>) {
        self.places = Places::new(file.text);
        let (table, faults) = DeTable::parse_recoverable(file.text);
        for (at, fault) in faults.into_iter().enumerate() {
            let place = self.place(file, fault.span().unwrap_or(0..0));
            if let Location::File { line, .. } = place
                && !self.wrong_lines.insert(line)
            {
                continue;
            }
            let message = match fault.message() {
                // Looking for the first place reads the file once for each fault.
                "duplicate key" if at < TWICE_MAX => {
                    twice(file, table.get_ref(), fault.span().unwrap_or(0..0))
                }
                message => message.to_owned(),
            };
            let mut problem = Problem::new(place, message);
            if self.problems.is_empty() && is_of_nginx(file.text) {
                problem = problem.hint(
                    "configuration files are TOML; docs/from-nginx.md has the option for each \
                     directive of nginx",
                );
            }
            self.problems.push(problem);
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
                    let place = self.place(file, value.span());
                    self.put(spec, from_toml(spec, got), place);
                }
                (None, DeValue::Table(inner)) if is_section(&key) => self.table(file, &key, inner),
                (None, DeValue::Array(rows)) if tables::find(&key).is_some() => {
                    let spec = tables::find(&key).expect("it was found just now");
                    self.rows(file, spec, rows);
                }
                (None, got) => {
                    let problem = unknown(self.place(file, name.span()), &key, got.is_table());
                    self.report(problem);
                }
            }
        }
    }

    fn rows(&mut self, file: FileText<'_>, spec: &'static TableSpec, rows: &DeArray<'_>) {
        for value in rows {
            let at = self.place(file, value.span());
            let DeValue::Table(table) = value.get_ref() else {
                let message = format!("{0}: expected tables, as in [[{0}]]", spec.name);
                self.report(Problem::new(at, message));
                return;
            };
            let row = self.row(file, spec, at, table);
            if let Err(problem) = self.said.add_row(spec, row) {
                return self.report(problem);
            }
            if spec.name == tables::HOSTS {
                self.host(file, table);
            }
        }
    }

    /// What a row of `[[hosts]]` sets besides its fields.
    fn host(&mut self, file: FileText<'_>, table: &DeTable<'_>) {
        let all = mem::replace(&mut self.said, Said::new());
        let mut entries: Vec<_> = table.iter().collect();
        entries.retain(|(key, value)| is_inner(key.get_ref(), value.get_ref()));
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            match (value.get_ref(), tables::find(key.get_ref())) {
                (DeValue::Table(content), _) => self.table(file, key.get_ref(), content),
                (DeValue::Array(rows), Some(spec)) => self.rows(file, spec, rows),
                _ => {}
            }
        }
        let others = self.said.places.keys().filter(|key| !is_of_hosts(key));
        for key in others.copied().collect::<Vec<_>>() {
            let problem = self.said.problem(key, "it is the same for all hosts");
            self.report(problem.hint(format!("say it in [{}]", options::section(key))));
        }
        let host = mem::replace(&mut self.said, all);
        self.said.hosts.push(host);
    }

    fn row(
        &mut self,
        file: FileText<'_>,
        spec: &'static TableSpec,
        at: Location,
        table: &DeTable<'_>,
    ) -> Row {
        let mut row = Row::new(spec, at, false);
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (name, value) in entries {
            if spec.name == tables::HOSTS && is_inner(name.get_ref(), value.get_ref()) {
                continue;
            }
            let key = format!("{}.{}", spec.name, name.get_ref());
            let Some(field) = spec.fields.iter().find(|field| field.key == key) else {
                let problem =
                    Problem::new(self.place(file, name.span()), format!("unknown field {key}"));
                let known: Vec<_> = spec.fields.iter().map(|field| field.key).collect();
                self.report(match nearest(&key, known.iter().copied()) {
                    Some(near) => problem.hint(format!("did you mean {near}?")),
                    None => problem.hint(format!("there are {}", known.join(", "))),
                });
                continue;
            };
            let at = self.place(file, value.span());
            if let Err(problem) = row.say(field, from_toml(field, value.get_ref()), at) {
                self.report(problem);
            }
        }
        row
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
            let problem = problem.hint(architectures::advice(name));
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

    fn place(&mut self, file: FileText<'_>, span: Range<usize>) -> Location {
        let (line, column) = self.places.find(file.text, span.start);
        Location::File { name: file.name.to_owned(), line, column }
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

fn print_value(key: &str, settings: &Settings, text: &mut String) {
    let name = key.rsplit_once('.').map_or(key, |(_, name)| name);
    let value = settings.get(key).expect("a row has every field");
    let _ = writeln!(text, "{name} = {}", options::toml(value));
}

/// True for an option that each host may set for itself.
fn is_of_hosts(key: &str) -> bool {
    options::section(key) == CONTENT && key != "content.symlinks"
}

/// True for what may stand in a row of `[[hosts]]` besides its fields: options, and rules.
fn is_inner(name: &str, value: &DeValue<'_>) -> bool {
    match value {
        DeValue::Table(_) => name == CONTENT,
        DeValue::Array(_) => name != tables::HOSTS && tables::find(name).is_some(),
        _ => false,
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
        if tables::find(key).is_some() {
            return problem.hint(format!("write [[{key}]], once for each"));
        }
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

/// Lines and columns of positions in a text. Finding all positions of a text in ascending order
/// reads the text once.
#[derive(Debug, Default)]
struct Places {
    /// Offsets at which lines start.
    starts: Vec<usize>,
    /// Position found last, and its column.
    last: (usize, usize),
    /// Bytes read to find columns.
    #[cfg(test)]
    steps: usize,
}

impl Places {
    fn new(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        Self { starts, ..Self::default() }
    }

    /// Line and column (in characters) of a position; both count from 1.
    fn find(&mut self, text: &str, at: usize) -> (usize, usize) {
        let at = if text.is_char_boundary(at) { at } else { text.len() };
        let line = self.starts.partition_point(|start| *start <= at).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        // Values of one long line are found one behind the other.
        let (from, column) = match self.last {
            (last, column) if (start..=at).contains(&last) && column > 0 => (last, column),
            _ => (start, 1),
        };
        #[cfg(test)]
        {
            self.steps += at - from;
        }
        self.last = (at, column + text[from..at].chars().count());
        (line, self.last.1)
    }
}

#[cfg(test)]
mod tests;
