//! `regatta architectures`: the list by families, one architecture in full, and JSON.
use regatta_arch::{
    ABSENT, ARCHITECTURES, Architecture, Family, absent, find,
    options::{OptionSpec, nearest},
};
use regatta_sys::terminal::{COLUMNS, continued};
use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

/// Pages of `docs/arch`; their first picture is shown.
const PAGES: &[(&str, &str)] = &[
    ("accept-strategies", include_str!("../../../docs/arch/accept-strategies.md")),
    ("amped", include_str!("../../../docs/arch/amped.md")),
    ("auto", include_str!("../../../docs/arch/auto.md")),
    ("bio", include_str!("../../../docs/arch/bio.md")),
    ("cohort", include_str!("../../../docs/arch/cohort.md")),
    ("cohort-sandstorm", include_str!("../../../docs/arch/cohort-sandstorm.md")),
    ("coloured", include_str!("../../../docs/arch/coloured.md")),
    ("flash", include_str!("../../../docs/arch/flash.md")),
    ("haboob-2002", include_str!("../../../docs/arch/haboob-2002.md")),
    ("hybrid", include_str!("../../../docs/arch/hybrid.md")),
    ("hybrid-adapt", include_str!("../../../docs/arch/hybrid-adapt.md")),
    ("knot-b", include_str!("../../../docs/arch/knot-b.md")),
    ("knot-c", include_str!("../../../docs/arch/knot-c.md")),
    ("knot-nb", include_str!("../../../docs/arch/knot-nb.md")),
    ("knot-nptl", include_str!("../../../docs/arch/knot-nptl.md")),
    ("laio", include_str!("../../../docs/arch/laio.md")),
    ("means", include_str!("../../../docs/arch/means.md")),
    ("mp", include_str!("../../../docs/arch/mp.md")),
    ("mt", include_str!("../../../docs/arch/mt.md")),
    ("n-copy", include_str!("../../../docs/arch/n-copy.md")),
    ("seda", include_str!("../../../docs/arch/seda.md")),
    ("self-adapting", include_str!("../../../docs/arch/self-adapting.md")),
    ("shared-symped", include_str!("../../../docs/arch/shared-symped.md")),
    ("shared-symped-b", include_str!("../../../docs/arch/shared-symped-b.md")),
    ("sped", include_str!("../../../docs/arch/sped.md")),
    ("sped-readahead", include_str!("../../../docs/arch/sped-readahead.md")),
    ("symped", include_str!("../../../docs/arch/symped.md")),
    ("symped-b", include_str!("../../../docs/arch/symped-b.md")),
    ("uring", include_str!("../../../docs/arch/uring.md")),
    ("watpipe4", include_str!("../../../docs/arch/watpipe4.md")),
    ("watpipe5", include_str!("../../../docs/arch/watpipe5.md")),
    ("watpipe5-b", include_str!("../../../docs/arch/watpipe5-b.md")),
];

/// Blanks before the description of an option.
const INDENT: &str = "      ";

/// Formats the list by families: a line each.
#[must_use]
pub fn list() -> String {
    let mut text = String::new();
    for family in Family::ALL {
        let _ = writeln!(text, "{}", family.title());
        for one in ARCHITECTURES.iter().filter(|one| one.family == family) {
            let _ = writeln!(text, "  {:16}  {:46}  {}", one.name, one.summary, one.cite);
        }
        text.push('\n');
    }
    let names: Vec<_> = ABSENT.iter().map(|(name, _)| *name).collect();
    let _ = writeln!(text, "Not possible here: {}.", names.join(", "));
    text.push_str(
        "Picture, settings, options: regatta architectures NAME. Choose: --architecture.\n",
    );
    text
}

/// Name that no architecture has.
#[derive(Debug)]
pub struct UnknownArchitecture(String);

impl fmt::Display for UnknownArchitecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name) = self;
        write!(f, "there is no architecture \"{name}\"\n  hint: {}", advice(name))
    }
}

/// Describes an architecture in full.
///
/// # Errors
/// No architecture has this name.
pub fn describe(name: &str) -> Result<String, UnknownArchitecture> {
    let one = find(name).ok_or_else(|| UnknownArchitecture(name.to_owned()))?;
    let mut text = format!("{}: {}\n\n", one.name, one.summary);
    let (family, _) = one.family.title().split_once(':').expect("titles have a colon");
    let _ = writeln!(text, "family  {}", family.to_lowercase());
    if !one.parent.is_empty() {
        let _ = writeln!(text, "parent  {}", one.parent);
    }
    let _ = writeln!(text, "paper   {}\npage    docs/arch/{}.md", one.paper, one.page);
    if let Some(picture) = picture(one.page) {
        let _ = write!(text, "\n{picture}");
    }
    if !one.axes.is_empty() {
        text.push_str("\nThe name sets\n");
        for (key, value) in one.axes {
            let _ = writeln!(text, "  {key} = {value}");
        }
    }
    text.push_str("\nOptions of its own, and their values (--set KEY=VALUE)\n");
    for spec in one.driver.options {
        let _ = writeln!(text, "  {} = {}", spec.key, effective(one, spec));
        let _ = writeln!(text, "{}", continued(INDENT, spec.doc, COLUMNS, INDENT.len()));
    }
    Ok(text)
}

/// Formats the architectures for programs: a JSON array.
#[must_use]
pub fn json() -> String {
    let option = |one, spec: &OptionSpec| {
        serde_json::json!({
            "key": spec.key,
            "default": effective(one, spec),
            "takes": spec.kind.describe(),
            "doc": spec.doc,
        })
    };
    let all = ARCHITECTURES.iter().map(|one| {
        let options = one.driver.options.iter();
        let sets: BTreeMap<_, _> = one.axes.iter().copied().collect();
        serde_json::json!({
            "name": one.name,
            "family": one.family.title().split(':').next(),
            "parent": one.parent,
            "summary": one.summary,
            "paper": one.paper,
            "sets": sets,
            "options": options.map(|spec| option(one, spec)).collect::<Vec<_>>(),
        })
    });
    format!("{:#}\n", serde_json::Value::Array(all.collect()))
}

/// Formats the family tree for documents: names below their parents.
#[must_use]
pub fn tree() -> String {
    let mut text = String::new();
    for family in Family::ALL {
        let _ = writeln!(text, "{}\n", family.title());
        let of_family = |one: &&Architecture| one.family == family;
        for head in ARCHITECTURES.iter().filter(of_family) {
            let is_head = find(head.parent).is_none_or(|parent| parent.family != family);
            if is_head {
                branch(&mut text, head, 1, head.parent);
            }
        }
        text.push('\n');
    }
    text
}

/// Adds a name and those below it; `of` is its parent, if that is in another family.
fn branch(text: &mut String, one: &Architecture, depth: usize, of: &str) {
    let name = match of {
        "" => format!("{:indent$}{}", "", one.name, indent = 2 * depth),
        of => format!("{:indent$}{} (of {of})", "", one.name, indent = 2 * depth),
    };
    let _ = writeln!(text, "{name:26}  {:46}  {}", one.summary, one.cite);
    let below = ARCHITECTURES.iter();
    for child in below.filter(|child| child.parent == one.name && child.family == one.family) {
        branch(text, child, depth + 1, "");
    }
}

/// Advice for a name that no architecture has.
pub(crate) fn advice(name: &str) -> String {
    let near = || nearest(name, ARCHITECTURES.iter().map(|known| known.name));
    match absent(name) {
        Some(why) => why.to_owned(),
        None => match of_family(name).or_else(|| near().map(str::to_owned)) {
            Some(near) => format!("did you mean {near}?"),
            None => "`regatta architectures` lists them".to_owned(),
        },
    }
}

/// Architectures whose names begin with `name` and a hyphen.
fn of_family(name: &str) -> Option<String> {
    let prefix = format!("{name}-");
    let all = ARCHITECTURES.iter().map(|known| known.name);
    let of: Vec<&str> = all.filter(|known| known.starts_with(&prefix)).collect();
    (!of.is_empty()).then(|| of.join(", "))
}

/// The first picture of a page: lines between two fences.
fn picture(page: &str) -> Option<String> {
    let (_, text) = PAGES.iter().find(|(name, _)| *name == page)?;
    let mut lines = text.lines().skip_while(|line| *line != "```").skip(1);
    let lines: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
    (!lines.is_empty()).then(|| lines.join("\n") + "\n")
}

/// Value of an option under an architecture where nothing else is configured.
fn effective(one: &Architecture, spec: &OptionSpec) -> &'static str {
    let axis = one.axes.iter().find(|(key, _)| *key == spec.key);
    axis.map_or(spec.default, |(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_fits_a_terminal_and_has_every_name() {
        let list = list();
        assert!(list.lines().all(|line| line.chars().count() <= COLUMNS), "{list}");
        for one in ARCHITECTURES {
            let is_there = |line: &str| line.split_whitespace().next() == Some(one.name);
            assert_eq!(list.lines().filter(|line| is_there(line)).count(), 1, "{}", one.name);
            assert!(tree().lines().any(is_there), "{} is not in the tree", one.name);
        }
    }

    #[test]
    fn each_is_described_with_its_picture() {
        for one in ARCHITECTURES {
            let text = describe(one.name).expect("it is there");
            assert!(picture(one.page).is_some(), "no picture of {}", one.name);
            let sets = one.axes.iter().map(|(key, value)| format!("\n  {key} = {value}\n"));
            assert!(sets.into_iter().all(|line| text.contains(&line)), "{text}");
        }
        let fault = describe("flash").expect_err("a family").to_string();
        assert!(fault.contains("flash-1999, flash-linux"), "{fault}");
    }
}
