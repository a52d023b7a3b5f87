//! Files that extend others: `extends = "NAME"`, or a list of names, lays a file over those that
//! come with the program.

use super::fields::{Layer, Report, nearest};
use super::{Rules, library, scale};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The key that names what a file extends.
pub(super) const EXTENDS: &str = "extends";

/// The files that make up the one in `text`, each behind those that it extends, with its place in
/// the whole.
pub(super) fn layers<'t>(name: &'t str, text: &'t str) -> Result<Vec<Layer<'t>>, Vec<String>> {
    let mut layers = Vec::new();
    add(Layer { name, text, start: 0 }, &mut Vec::new(), &mut layers)?;
    let mut start = 0;
    for layer in &mut layers {
        layer.start = start;
        start += layer.text.len() + 1;
    }
    Ok(layers)
}

/// Adds what a file extends, and then the file. `path` has the names of those that led to it.
fn add<'t>(
    layer: Layer<'t>,
    path: &mut Vec<&'t str>,
    layers: &mut Vec<Layer<'t>>,
) -> Result<(), Vec<String>> {
    path.push(layer.name);
    let (table, _) = DeTable::parse_recoverable(layer.text);
    let names: Vec<&Spanned<DeValue<'_>>> = match table.get_ref().get(EXTENDS) {
        None => Vec::new(),
        Some(value) => match value.get_ref() {
            DeValue::Array(names) => names.iter().collect(),
            _ => vec![value],
        },
    };
    for name in names {
        let next = above(name, path).map_err(|why| {
            let report = Report::new(vec![layer], None::<Rules>);
            report.add(name.span().start, why);
            report.finish()
        })?;
        // What several extend lies below all of them, once.
        if layers.iter().all(|known| known.name != next.name) {
            add(next, path, layers)?;
        }
    }
    path.pop();
    layers.push(layer);
    Ok(())
}

/// Whether a file extends another, so that it does not say all by itself.
pub(crate) fn extends(text: &str) -> bool {
    DeTable::parse_recoverable(text).0.get_ref().contains_key(EXTENDS)
}

fn above(value: &Spanned<DeValue<'_>>, path: &[&str]) -> Result<Layer<'static>, String> {
    let DeValue::String(wanted) = value.get_ref() else {
        return Err(format!("{EXTENDS}: say an experiment's name in quotes, or a list of names"));
    };
    let Some((name, text)) = library::all().find(|(name, _)| *name == &**wanted) else {
        let near = nearest(wanted, library::all().map(|(name, _)| *name));
        let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
        return Err(format!("{EXTENDS}: no experiment comes with the name {wanted:?}{near}"));
    };
    if path.contains(name) {
        return Err(format!("{EXTENDS}: {wanted:?} extends this file: neither can come first"));
    }
    Ok(Layer { name, text, start: 0 })
}

/// A layer's text where it stands in the whole, so that positions in it are positions there.
pub(super) fn placed(layer: &Layer<'_>) -> String {
    format!("{}{}", " ".repeat(layer.start), layer.text)
}

/// Lays tables over each other, the last on top.
pub(super) fn merged<'a>(tables: impl Iterator<Item = DeTable<'a>>) -> DeTable<'a> {
    let mut whole = DeTable::new();
    for table in tables {
        scale::lay(table, &mut whole);
    }
    whole.remove(EXTENDS);
    whole
}

#[cfg(test)]
mod tests {
    use super::super::{Scale, parse};

    const TEXT: &str = "extends = \"hpl01\"\n[experiment]\nname = \"mine\"\n";

    #[test]
    fn a_file_says_what_differs() {
        let theirs = parse("hpl01", super::library::find("hpl01").unwrap(), Scale::Quick).unwrap();
        let mine = parse("mine", TEXT, Scale::Quick).unwrap();
        assert_eq!(mine.name, "mine");
        assert_eq!(super::super::Experiment { name: theirs.name.clone(), ..mine }, theirs);
        let text = format!("{TEXT}[measure]\nblocks = 11\n");
        let mine = parse("mine", &text, Scale::Replica).unwrap();
        assert_eq!(mine.measure.blocks, 11);
    }

    /// Both extend `overload`, which takes three quarters of the processor away.
    #[test]
    fn of_several_the_last_lies_on_top() {
        for (names, preset) in [
            ("\"hpl01-base\", \"azzedin-base\"", "azzedin-scaled"),
            ("\"azzedin-base\", \"hpl01-base\"", "onebyte"),
        ] {
            let text = format!(
                "extends = [{names}]\ntargets.a = {{}}\n\
                 experiment = {{ name = \"x\", question = \"?\", expect = \"!\" }}\n"
            );
            let mine = parse("mine", &text, Scale::Replica).unwrap();
            assert_eq!(mine.workload.preset.as_deref(), Some(preset));
            assert_eq!((mine.machine.server_left, mine.measure.also.len()), (25, 2), "{names}");
        }
        let circle = parse("hpl01", "extends = [\"overload\", \"hpl01\"]", Scale::Quick);
        assert!(circle.unwrap_err()[0].starts_with("hpl01:1:24: extends: \"hpl01\""));
    }

    #[test]
    fn what_is_wrong_has_its_place_in_its_own_file() {
        let said = |text: &str| parse("mine", text, Scale::Quick).unwrap_err();
        let text = format!("{TEXT}[measure]\nbloks = 1\n");
        assert!(said(&text)[0].starts_with("mine:5:"), "{:?}", said(&text));
        assert!(said("extends = \"hpl02\"")[0].contains("mine:1:11: extends: no experiment"));
        assert!(said("extends = \"hpl02\"")[0].contains("did you mean"));
        assert!(said("extends = 3")[0].contains("in quotes"));
        let circle = parse("hpl01", TEXT, Scale::Quick).unwrap_err();
        assert!(circle[0].contains("neither can come first"), "{circle:?}");
    }
}
