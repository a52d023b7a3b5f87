//! Table of all options: the source of the help texts, `docs/options.md`, `--print-config` and the
//! names in a configuration file.
use crate::config::environment;
use regatta_arch::{
    ARCHITECTURES,
    conn::accept,
    options::{OptionSpec, Settings, Value},
};
use std::{collections::HashMap, fmt::Write as _, sync::LazyLock};

mod further;
mod markdown;
mod sections;
mod table;

pub use further::FURTHER;
pub use markdown::{markdown, section_doc};
pub use sections::{SECTIONS, Section};
pub use table::OPTIONS;

/// Options with their own flag, in addition to `--set`.
pub const FLAGS: &[(&str, &str)] = &[
    ("ROOT", "server.root"),
    ("--listen", "server.listen"),
    ("--architecture", "server.architecture"),
    ("--user", "server.user"),
];

/// Options that exist under every architecture.
fn list_common() -> impl Iterator<Item = &'static OptionSpec> {
    OPTIONS.iter().chain(FURTHER).chain(accept::OPTIONS)
}

/// True of an option that exists under every architecture.
#[must_use]
pub fn is_ours(key: &str) -> bool {
    list_common().any(|spec| spec.key == key)
}

/// All options in the order of their tables, and the place of each by its name.
type Table = (Vec<&'static OptionSpec>, HashMap<&'static str, &'static OptionSpec>);

/// Made once: every server looks up hundreds of options at its start.
static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let theirs = ARCHITECTURES.iter().flat_map(|architecture| architecture.driver.options);
    let mut by_key = HashMap::new();
    let is_new = |spec: &&'static OptionSpec| by_key.insert(spec.key, *spec).is_none();
    let all = list_common().chain(theirs).filter(is_new).collect();
    (all, by_key)
});

/// Lists all options: the server's, then each architecture's.
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

/// Default of an option.
///
/// No such option, or its default is none of its values: a fault in our own tables.
#[must_use]
pub fn default(key: &str) -> Value {
    let spec = find(key).expect("code names options of the table");
    spec.kind.parse(spec.default).expect("a default is a value of its option")
}

/// One-sentence documentation of an option.
///
/// No such option: a fault in the command line's own table.
#[must_use]
pub fn doc(key: &str) -> &'static str {
    find(key).expect("the command line names options of the table").doc
}

/// Section of an option: its name without the last part.
#[must_use]
pub fn section(key: &str) -> &str {
    key.rsplit_once('.').map_or("", |(section, _)| section)
}

/// Names of all sections, in the order of their first option.
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

/// List of options for the end of `regatta serve --help`.
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

/// Prints settings as a configuration file with every option.
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

/// Formats a value as TOML.
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

/// Formats a TOML basic string. Values have no control characters, so two escapes are enough, and
/// one for variables of the environment.
fn quoted(text: &str) -> String {
    let text = environment::escape(text);
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
            let ours = list_common().any(|ours| std::ptr::eq(ours, spec));
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
