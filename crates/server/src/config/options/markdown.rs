//! Page of all options, `docs/options.md`.
use super::{FLAGS, SECTIONS, all, sections, toml};
use regatta_arch::{ARCHITECTURES, Architecture, options::OptionSpec};
use regatta_sys::terminal::wrapped;
use std::fmt::Write as _;

/// Columns of the page.
const COLUMNS: usize = 100;

/// Page for users of nginx.
const FROM_NGINX: &str = include_str!("../../../../../docs/from-nginx.md");

/// Name of an option's purpose in nginx: the first cell of the row with the option in the second.
fn nginx(key: &str) -> Option<&'static str> {
    let mut rows = FROM_NGINX.lines().filter_map(|line| line.strip_prefix("| "));
    rows.find_map(|row| {
        let (there, rest) = row.split_once(" | ")?;
        let (here, _) = rest.split_once(" | ")?;
        here.contains(&format!("`{key}`")).then_some(there)
    })
}

/// Makes the text of `docs/options.md`.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(MARKDOWN_HEAD);
    for section in sections() {
        let doc = section_doc(section);
        let _ = write!(text, "\n## `[{section}]`\n\n{}\n", wrapped(&doc, COLUMNS));
        for spec in all().filter(|spec| super::section(spec.key) == section) {
            push_markdown(&mut text, spec);
        }
    }
    text
}

/// Topic of the options of a section, in a sentence.
#[must_use]
pub fn section_doc(section: &str) -> String {
    if let Some(known) = SECTIONS.iter().find(|known| known.name == section) {
        return known.doc.to_owned();
    }
    let takes = |architecture: &&Architecture| {
        architecture.driver.options.iter().any(|spec| super::section(spec.key) == section)
    };
    let names: Vec<_> = ARCHITECTURES.iter().filter(takes).map(|known| known.name).collect();
    format!("For the architecture{} {}.", if names.len() == 1 { "" } else { "s" }, names.join(", "))
}

const MARKDOWN_HEAD: &str = "\
# Options

Generated from the tables in `crates/server/src/config/options.rs` and `crates/arch` by
`cargo run --example options-doc -p regatta-server`; do not edit.

Set an option on the command line, `regatta serve --set limits.idle_ms_max=30s`, or in a file given
with `--config` ([several files, variables](operating.md#configuration-files)):

```toml
[limits]
idle_ms_max = \"30 s\"
```

If an option is set more than once, `--set` wins over flags, flags over the file, and the file over
the default. Numbers are in the unit at the end of the option's name. As text they may have another
unit: B, KiB, MiB, GiB, TiB, kB, MB, GB, TB for sizes; us, ms, s, min, h, d for durations; a size
followed by `/s` for rates. Lists are arrays in the file, and separated by commas on the command
line. `regatta check` reports everything that is wrong with a configuration; `regatta serve
--print-config` prints the configuration in effect, with every option written out.

Where nginx has a directive for the same purpose, it is named; [from-nginx.md](from-nginx.md) says
what differs. [E], [S], [H] and [G] are papers ([STYLE.md](../STYLE.md#the-papers)). A client here
is whoever connects, which may be a proxy.
";

fn push_markdown(text: &mut String, spec: &OptionSpec) {
    let name = spec.key.rsplit_once('.').map_or(spec.key, |(_, name)| name);
    let value = spec.kind.parse(spec.default).map_or_else(|_| String::new(), |value| toml(&value));
    let doc = wrapped(format!("{} {}", spec.doc, spec.long).trim_end(), COLUMNS);
    let flag = FLAGS.iter().find(|(_, key)| *key == spec.key);
    let flag = flag.map_or_else(String::new, |(flag, _)| format!(" Flag: `{flag}`."));
    let takes = spec.kind.describe();
    let nginx = nginx(spec.key).map_or_else(String::new, |its| format!(" In nginx: {its}."));
    let takes = wrapped(&format!("Takes {takes}.{flag}{nginx}"), COLUMNS);
    let _ = write!(text, "\n### `{name} = {value}`\n\n{doc}\n\n{takes}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each text in the form of an option on the page for users of nginx is an option.
    #[test]
    fn every_directive_names_an_option() {
        let sections = sections();
        let words = FROM_NGINX.split('`');
        let keys: Vec<_> =
            words.filter(|word| sections.contains(&super::super::section(word))).collect();
        assert!(keys.len() > 50, "{keys:?}");
        for key in keys {
            assert!(super::super::find(key).is_some(), "{key}");
        }
    }

    #[test]
    fn the_committed_page_is_the_table() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page == markdown(), "run cargo run --example options-doc -p regatta-server");
    }
}
