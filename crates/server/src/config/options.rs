//! The one table of options: it makes the help texts, `docs/options.md`, `--print-config` and the
//! names that a configuration file may use.
use regatta_arch::{
    ARCHITECTURES,
    kit::accept,
    options::{OptionSpec, Settings, Value},
};
use std::{collections::HashMap, fmt::Write as _, sync::LazyLock};

mod markdown;
mod table;

pub use markdown::{markdown, section_doc};
pub use table::{OPTIONS, SECTIONS, Section};

/// Options that have a flag of their own, besides `--set`.
pub const FLAGS: &[(&str, &str)] = &[
    ("ROOT", "server.root"),
    ("--listen", "server.listen"),
    ("--architecture", "server.architecture"),
    ("--user", "server.user"),
];

/// The options that are there whatever the architecture.
fn ours() -> impl Iterator<Item = &'static OptionSpec> {
    OPTIONS.iter().chain(accept::OPTIONS)
}

/// True of an option that is there whatever the architecture.
#[must_use]
pub fn is_ours(key: &str) -> bool {
    ours().any(|spec| spec.key == key)
}

/// All options in the order of their tables, and the place of each by its name.
type Table = (Vec<&'static OptionSpec>, HashMap<&'static str, &'static OptionSpec>);

/// Made once: every server that starts asks for hundreds of them.
static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let theirs = ARCHITECTURES.iter().flat_map(|architecture| architecture.driver.options);
    let mut by_key = HashMap::new();
    let is_new = |spec: &&'static OptionSpec| by_key.insert(spec.key, *spec).is_none();
    let all = ours().chain(theirs).filter(is_new).collect();
    (all, by_key)
});

/// All options: the server's, then each architecture's.
///
/// Drivers may take the same options, which are listed once.
pub fn all() -> impl Iterator<Item = &'static OptionSpec> {
    TABLE.0.iter().copied()
}

/// Looks an option up by its full name.
#[must_use]
pub fn find(key: &str) -> Option<&'static OptionSpec> {
    TABLE.1.get(key).copied()
}

/// The default of an option.
///
/// # Panics
/// If there is none of that name, or its default is none of its values: a fault in our own tables.
#[must_use]
pub fn default(key: &str) -> Value {
    let spec = find(key).expect("code names options of the table");
    spec.kind.parse(spec.default).expect("a default is a value of its option")
}

/// The one-sentence documentation of an option.
///
/// # Panics
/// If there is none of that name: a fault in the command line's own table.
#[must_use]
pub fn doc(key: &str) -> &'static str {
    find(key).expect("the command line names options of the table").doc
}

/// The section of an option: its name without the last part.
#[must_use]
pub fn section(key: &str) -> &str {
    key.rsplit_once('.').map_or("", |(section, _)| section)
}

/// The names of all sections, in the order of their first option.
#[must_use]
pub fn sections() -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for spec in all() {
        let name = section(spec.key);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The list of options for the end of `regatta serve --help`.
#[must_use]
pub fn help() -> String {
    let mut text =
        String::from("Options for --set and the configuration file (docs/options.md):\n");
    for spec in all() {
        let default = if spec.default.is_empty() { "none" } else { spec.default };
        let _ = write!(text, "\n  {} [default: {default}]\n      {}\n", spec.key, spec.doc);
    }
    text
}

/// Settings as a configuration file in which every option is written out.
#[must_use]
pub fn print(settings: &Settings) -> String {
    let mut text = String::new();
    for section in sections() {
        let _ = writeln!(text, "{}[{section}]", if text.is_empty() { "" } else { "\n" });
        for spec in all().filter(|spec| self::section(spec.key) == section) {
            let name = spec.key.rsplit_once('.').map_or(spec.key, |(_, name)| name);
            let value = settings.get(spec.key).expect("settings hold every option");
            let _ = writeln!(text, "{name} = {}", toml(value));
        }
    }
    text
}

/// A value as TOML.
#[must_use]
pub fn toml(value: &Value) -> String {
    match value {
        Value::Flag(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Never => quoted("never"),
        Value::Text(text) => quoted(text),
        Value::List(items) => {
            let items: Vec<_> = items.iter().map(|item| quoted(item)).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

/// A TOML basic string. Values have no control characters, so two escapes are all it needs.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_well_formed() {
        let mut keys: Vec<_> = all().map(|spec| spec.key).collect();
        let _ = Settings::defaults(all());
        for spec in all() {
            assert!(spec.doc.ends_with('.') && !spec.doc.ends_with(".."), "{}", spec.key);
            assert!(spec.long.is_empty() || spec.long.ends_with('.'), "{}", spec.key);
            let section = section(spec.key);
            let known = SECTIONS.iter().any(|known| known.name == section);
            let ours = ours().any(|ours| std::ptr::eq(ours, spec));
            assert_eq!(known, ours, "{}", spec.key);
        }
        keys.sort_unstable();
        let all = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), all, "an option is in the table twice");
    }

    #[test]
    fn every_flag_names_an_option() {
        for (flag, key) in FLAGS {
            assert!(find(key).is_some(), "{flag}");
        }
    }
}
