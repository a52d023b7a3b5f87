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
    let specs: Vec<_> = all().filter(|spec| super::section(spec.key) == section).collect();
    let takes =
        |one: &&Architecture| specs.iter().filter(|spec| one.driver.takes(spec.key)).count();
    let (with, without): (Vec<_>, Vec<_>) = ARCHITECTURES.iter().partition(|one| takes(one) > 0);
    let names =
        |some: &[&'static Architecture]| some.iter().map(|one| one.name).collect::<Vec<_>>();
    let mut text = describe_takers(&names(&with), &names(&without));
    if with.iter().any(|one| takes(one) < specs.len()) {
        text.push_str(SOME_IN_PART);
    }
    text
}

const SOME_IN_PART: &str = " Some of them take only a part of these options: \
    `regatta architectures NAME` lists it.";

/// Names the architectures with an option, or those without, whichever are fewer.
fn describe_takers(with: &[&str], without: &[&str]) -> String {
    let (begin, names) = match (with.len(), without.len()) {
        (_, 0) => return "For all architectures.".to_owned(),
        (1, _) => ("For the architecture", with),
        (some, others) if some > others => ("For all architectures except", without),
        _ => ("For the architectures", with),
    };
    format!("{begin} {}.", names.join(", "))
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
unit:

* sizes: B, KiB, MiB, GiB, TiB, kB, MB, GB, TB
* durations: us, ms, s, min, h, d
* rates: a size followed by `/s`

Lists are arrays in the file, and separated by commas on the command line. `regatta check` reports
everything that is wrong with a configuration. `regatta serve --print-config` prints the
configuration in effect, with every option written out.

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
    fn a_section_names_its_architectures_or_the_others() {
        let partly = format!("For all architectures.{SOME_IN_PART}");
        for (section, text) in [
            ("event", partly.as_str()),
            ("coloured", "For the architecture coloured."),
            ("flash", "For the architectures flash-1999, flash-linux."),
        ] {
            assert_eq!(section_doc(section), text);
        }
        for (with, without, text) in [
            (&["a"][..], &[][..], "For all architectures."),
            (&["a", "b"], &["c"], "For all architectures except c."),
            (&["a", "b"], &["c", "d"], "For the architectures a, b."),
        ] {
            assert_eq!(describe_takers(with, without), text);
        }
    }

    #[test]
    fn the_committed_page_is_the_table() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page == markdown(), "run cargo run --example options-doc -p regatta-server");
    }
}
