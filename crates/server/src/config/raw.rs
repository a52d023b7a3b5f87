//! Configuration as written: a file, flags and `--set`, read into settings or into a list of all
//! faults.
mod of_hosts;
mod places;
mod variables;

pub(crate) use of_hosts::Inherited;
pub use of_hosts::text_of;
pub use variables::UsedVariable;

use crate::{
    architectures,
    config::{
        environment::Environment,
        options,
        tables::{self, TableSpec},
    },
    messages::{self, Message},
};
use places::{Places, twice};
use regatta_arch::options::{Kind, OptionSpec, Settings, Value, ValueFault, nearest};
use regatta_http::pattern::expand;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::mem;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue},
};

/// Limit of duplicate keys whose first places are searched.
const TWICE_MAX: usize = 100;

/// Place of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// No place: the default of the option of this name, or the value from its architecture.
    Default(String),
    /// In a file; line and column (in characters) count from 1.
    File {
        /// Name of the file, as given.
        name: String,
        /// Line.
        line: usize,
        /// Column.
        column: usize,
    },
    /// On the command line, as in `--set cache.enabled=no`.
    Argument(String),
    /// The variable of this name in the environment.
    Variable(String),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default(_) => f.write_str("by default"),
            Self::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Self::Argument(text) => f.write_str(text),
            Self::Variable(name) => write!(f, "{name} in the environment"),
        }
    }
}

/// Fault, its place, and advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Kind, with a stable identifier.
    pub kind: &'static Message,
    /// Place of the fault.
    pub place: Location,
    /// Description of the fault.
    pub message: String,
    /// Advice, if there is any.
    pub hint: Option<String>,
}

impl Problem {
    /// Creates a problem without a hint.
    pub fn new(kind: &'static Message, place: Location, message: impl Into<String>) -> Self {
        Self { kind, place, message: message.into(), hint: None }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Converts to a JSON object: `id`, `place`, `message` and `hint`, and for a place in a file
    /// also `file`, `line` and `column`.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let (file, line, column) = match &self.place {
            Location::File { name, line, column } => (Some(name), Some(line), Some(column)),
            _ => (None, None, None),
        };
        serde_json::json!({
            "id": self.kind.id,
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

/// Configuration file as read from disk.
#[derive(Clone, Copy, Debug)]
pub struct FileText<'a> {
    /// Name of the file, for messages.
    pub name: &'a str,
    /// Content of the file.
    pub text: &'a str,
}

/// Options on the command line.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    /// Flags that set an option: how they were written, the option's name, the value.
    pub flags: Vec<Flag>,
    /// Arguments of each `--set`.
    pub sets: Vec<String>,
}

/// A flag that sets an option.
#[derive(Clone, Debug)]
pub struct Flag {
    /// Name of the option.
    pub key: &'static str,
    /// Name of the flag for messages, as in `--listen`.
    pub name: &'static str,
    /// Values of the flag; more than one only for lists.
    pub values: Vec<String>,
}

/// Settings, and the place of each.
#[derive(Clone, Debug)]
pub struct Said {
    /// Every option.
    pub settings: Settings,
    places: BTreeMap<&'static str, Location>,
    /// By table. Hosts that inherit rows share them.
    rows: BTreeMap<&'static str, Arc<Vec<Row>>>,
    /// Configuration of each row of `[[hosts]]`: its own rules, and the options of all hosts,
    /// except for its own.
    pub(crate) hosts: Vec<Self>,
    /// Variables of the environment in the files, in their order.
    pub(crate) variables: Vec<UsedVariable>,
}

/// Row of a table ([`tables`]).
#[derive(Clone, Debug)]
pub struct Row {
    /// Place of the row.
    pub place: Location,
    /// Every field.
    pub settings: Settings,
    places: BTreeMap<&'static str, Location>,
    /// Whether it is from a file at the root, not from the configuration file.
    of_site: bool,
}

impl Row {
    /// Creates a row of defaults.
    pub(crate) fn new(spec: &TableSpec, place: Location, of_site: bool) -> Self {
        let settings = Settings::defaults(spec.fields);
        Self { place, settings, places: BTreeMap::new(), of_site }
    }

    /// True if it is from a file at the root, not from the configuration file.
    pub(crate) const fn is_of_site(&self) -> bool {
        self.of_site
    }

    /// Sets a field.
    pub(crate) fn set_field(
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
            Err(fault) => {
                let message = format!("{}: {fault}", field.key);
                Err(Problem::new(messages::BAD_VALUE, at, message))
            }
        }
    }

    /// The rows for the patterns of its glob; the row itself, if the glob has a fault.
    fn expand(self, spec: &TableSpec) -> Vec<Self> {
        let is_glob = |field: &&OptionSpec| tables::PATTERNS.contains(&field.key);
        let Some(field) = spec.fields.iter().find(is_glob) else { return vec![self] };
        let patterns = expand(self.settings.text(field.key)).unwrap_or_default();
        if patterns.is_empty() {
            return vec![self];
        }
        let row = |pattern: String| {
            let mut row = self.clone();
            let set = row.settings.set(field, Value::Text(pattern));
            set.expect("a field of text takes any text");
            row
        };
        patterns.into_iter().map(row).collect()
    }

    /// Creates a problem with a field, at the place of its value or of the row.
    #[must_use]
    pub fn problem(&self, kind: &'static Message, key: &str, message: &str) -> Problem {
        let place = self.places.get(key).unwrap_or(&self.place);
        Problem::new(kind, place.clone(), format!("{key}: {message}"))
    }
}

/// Names of the root in a row of `[[hosts]]`, and elsewhere.
const ROOT: [&str; 2] = ["hosts.root", "server.root"];

/// Section whose options hosts may set.
const CONTENT: &str = "content";

impl Said {
    /// Creates a configuration of defaults.
    fn new() -> Self {
        // Each host begins with defaults: they are parsed once.
        static DEFAULTS: OnceLock<Arc<Settings>> = OnceLock::new();
        let defaults = DEFAULTS.get_or_init(|| Arc::new(Settings::defaults(options::all())));
        let settings = Settings::over(Arc::clone(defaults));
        let (places, rows) = (BTreeMap::new(), BTreeMap::new());
        Self { settings, places, rows, hosts: Vec::new(), variables: Vec::new() }
    }

    /// Adds a row to a table. A glob becomes a row for each of its patterns.
    ///
    /// The table is full.
    pub(crate) fn add_row(&mut self, spec: &TableSpec, row: Row) -> Result<(), Problem> {
        let rows = self.rows.entry(spec.name).or_default();
        for row in row.expand(spec) {
            if rows.len() == spec.rows_max {
                let message = format!("more than {} of [[{}]]", spec.rows_max, spec.name);
                let problem = Problem::new(messages::TOO_MANY, row.place, message);
                return Err(problem.hint("make some of them one"));
            }
            Arc::make_mut(rows).push(row);
        }
        Ok(())
    }

    /// Rows of a table, in the order of the file.
    #[must_use]
    pub fn rows(&self, table: &str) -> &[Row] {
        self.rows.get(table).map_or(&[], |rows| rows.as_slice())
    }

    /// Prints the rows of all tables of the configuration file, in its syntax.
    ///
    /// A row lacks a field: a fault in our own code.
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

    /// Place of the value of an option.
    #[must_use]
    pub fn place(&self, key: &str) -> Location {
        self.places.get(key).cloned().unwrap_or_else(|| Location::Default(key.to_owned()))
    }

    /// Creates a problem with an option, at the place of its value.
    #[must_use]
    pub fn problem(&self, kind: &'static Message, key: &str, message: &str) -> Problem {
        let of_host = key == ROOT[1] && self.places.contains_key(ROOT[0]);
        let name = if of_host { ROOT[0] } else { key };
        Problem::new(kind, self.place(key), format!("{name}: {message}"))
    }

    /// True if an option is set, and does not keep its default.
    #[must_use]
    pub fn is_said(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// Sets an option that was left open to a value that the machine allows or gives.
    ///
    /// No such option, or it does not take the value: a fault in our own code.
    pub fn choose(&mut self, key: &str, value: Value) {
        let spec = options::find(key).expect("a known option is chosen for");
        self.settings.set(spec, value).expect("a value is chosen within its bounds");
    }
}

/// Reads the whole configuration. Of several files, the last one that sets an option counts, and
/// rows of tables are added up. Returns all problems, in the order of reading; a faulty value is
/// left at its default.
#[must_use]
pub fn read(
    files: &[FileText<'_>],
    arguments: &Arguments,
    environment: &Environment,
) -> (Said, Vec<Problem>) {
    let mut reader = Reader::new(environment);
    files.iter().for_each(|file| reader.file(*file));
    for flag in &arguments.flags {
        reader.flag(flag);
    }
    for set in &arguments.sets {
        reader.set(set);
    }
    reader.architecture();
    reader.said.complete_hosts();
    reader.said.variables = reader.variables;
    (reader.said, reader.problems)
}

struct Reader<'e> {
    said: Said,
    problems: Vec<Problem>,
    /// Lines of the file with a syntax error: their values mean nothing.
    wrong_lines: BTreeSet<usize>,
    places: Places,
    environment: &'e Environment,
    variables: Vec<UsedVariable>,
}

/// Whether a text has blocks or directives like nginx's.
fn is_of_nginx(text: &str) -> bool {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim_end());
    lines.into_iter().any(|line| line.ends_with('{') || line.ends_with(';'))
}

impl<'e> Reader<'e> {
    fn new(environment: &'e Environment) -> Self {
        Self {
            said: Said::new(),
            problems: Vec::new(),
            wrong_lines: BTreeSet::new(),
            places: Places::default(),
            environment,
            variables: Vec::new(),
        }
    }

    fn file(&mut self, file: FileText<'_>) {
        self.places = Places::new(file.text);
        self.wrong_lines.clear();
        let before = self.problems.len();
        let (table, faults) = DeTable::parse_recoverable(file.text);
        for (at, fault) in faults.into_iter().enumerate() {
            let place = self.place(file, fault.span().unwrap_or(0..0));
            if let Location::File { line, .. } = place
                && !self.wrong_lines.insert(line)
            {
                continue;
            }
            let message = match fault.message() {
                // A search for the first place reads the file once for each fault.
                "duplicate key" if at < TWICE_MAX => {
                    twice(file, table.get_ref(), fault.span().unwrap_or(0..0))
                }
                message => message.to_owned(),
            };
            let mut problem = Problem::new(messages::BAD_TOML, place, message);
            if self.problems.len() == before && is_of_nginx(file.text) {
                problem = problem.hint(
                    "configuration files are TOML; docs/from-nginx.md has the option for each \
                     directive of nginx",
                );
            }
            self.problems.push(problem);
        }
        self.table(file, "", table.get_ref());
        self.problems[before..].sort_by_key(|problem| match problem.place {
            Location::File { line, column, .. } => (line, column),
            _ => (0, 0),
        });
        // Problems of the command line are not about lines of a file.
        self.wrong_lines.clear();
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
                    let value = self.value(spec, got, &place);
                    self.put(spec, value, place);
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
                self.report(Problem::new(messages::BAD_VALUE, at, message));
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

    /// Reads the parts of a row of `[[hosts]]` other than its fields.
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
            let message = "it is the same for all hosts";
            let problem = self.said.problem(messages::NOT_PER_HOST, key, message);
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
                let place = self.place(file, name.span());
                let message = format!("unknown field {key}");
                let problem = Problem::new(messages::UNKNOWN_FIELD, place, message);
                let known: Vec<_> = spec.fields.iter().map(|field| field.key).collect();
                self.report(match nearest(&key, known.iter().copied()) {
                    Some(near) => problem.hint(format!("did you mean {near}?")),
                    None => problem.hint(format!("there are {}", known.join(", "))),
                });
                continue;
            };
            let at = self.place(file, value.span());
            let value = self.value(field, value.get_ref(), &at);
            if let Err(problem) = row.set_field(field, value, at) {
                self.report(problem);
            }
        }
        row
    }

    /// Reads the value of an option or field in a file, and replaces variables in its texts.
    fn value(
        &mut self,
        spec: &'static OptionSpec,
        value: &DeValue<'_>,
        place: &Location,
    ) -> Result<Value, ValueFault> {
        let Self { environment, variables, .. } = self;
        let mut note = |name: &str, by_default: bool| {
            let (name, place) = (name.to_owned(), place.clone());
            variables.push(UsedVariable { name, by_default, key: spec.key, place });
        };
        from_toml(spec, value, &mut |text| environment.expand(text, &mut note))
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
            let problem = Problem::new(messages::BAD_ARGUMENT, place, "expected key=value");
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
                .and_then(|value| from_toml(spec, value.get_ref(), &mut |_| Ok(None)))
        } else {
            spec.kind.parse(text)
        };
        self.put(spec, value, place);
    }

    /// Sets the options that the architecture's name stands for, unless set otherwise.
    fn architecture(&mut self) {
        let name = self.said.settings.text("server.architecture");
        let Some(architecture) = regatta_arch::find(name) else {
            let message = format!("server.architecture: there is no architecture \"{name}\"");
            let place = self.said.place("server.architecture");
            let problem = Problem::new(messages::UNKNOWN_ARCHITECTURE, place, message);
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
            Err(fault) => {
                let message = format!("{}: {fault}", spec.key);
                self.report(Problem::new(messages::BAD_VALUE, place, message));
            }
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

/// True for the parts of a row of `[[hosts]]` other than its fields: options, and rules.
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

fn unknown(place: Location, key: &str, is_table: bool) -> Problem {
    if is_table {
        let message = format!("unknown section [{key}]");
        let problem = Problem::new(messages::UNKNOWN_SECTION, place, message);
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
    let message = format!("unknown option {key}");
    let problem = Problem::new(messages::UNKNOWN_OPTION, place, message);
    let name = |key| str::rsplit_once(key, '.').map_or(key, |(_, name)| name);
    let elsewhere = || options::all().find(|spec| name(spec.key) == name(key));
    let near = nearest(key, options::all().map(|spec| spec.key));
    match near.or_else(|| elsewhere().map(|spec| spec.key)) {
        Some(near) => problem.hint(format!("did you mean {near}?")),
        None => problem.hint("`regatta serve --print-config` lists all options"),
    }
}

/// Replacement of the variables in a text; `None` if it has none.
type Expand<'a> = &'a mut dyn FnMut(&str) -> Result<Option<String>, ValueFault>;

fn from_toml(
    spec: &OptionSpec,
    value: &DeValue<'_>,
    expand: Expand<'_>,
) -> Result<Value, ValueFault> {
    let kind = spec.kind;
    if let DeValue::String(text) = value
        && let Some(text) = expand(text)?
    {
        return if kind == Kind::List { kind.list(vec![text]) } else { kind.parse(&text) };
    }
    match (kind, value) {
        (Kind::Bool, DeValue::Boolean(flag)) => Ok(Value::Flag(*flag)),
        (Kind::List, DeValue::String(text)) => kind.list(vec![text.to_string()]),
        (Kind::List, DeValue::Array(items)) => {
            let text = |item: &Spanned<DeValue<'_>>| match item.get_ref().as_str() {
                Some(text) => Ok(expand(text)?.unwrap_or_else(|| text.to_owned())),
                None => Err(ValueFault("expected a list of texts in quotes".to_owned())),
            };
            kind.list(items.iter().map(text).collect::<Result<_, _>>()?)
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

#[cfg(test)]
pub(crate) mod tests;
