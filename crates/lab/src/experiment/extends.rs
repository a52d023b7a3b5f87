//! Files that extend others: `extends = "NAME"` lays a file over one that comes with the program.

use super::fields::{Layer, Report, nearest};
use super::{Problem, Rules, library, scale};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The key that names what a file extends.
pub(super) const EXTENDS: &str = "extends";

/// The files that make up the one in `text`, from the one that extends nothing to it, each with
/// its place in the whole.
///
/// # Errors
/// What cannot be extended, with its place.
pub(super) fn layers<'t>(name: &'t str, text: &'t str) -> Result<Vec<Layer<'t>>, Vec<Problem>> {
    let mut layers = vec![Layer { name, text, start: 0 }];
    while let Some(layer) = layers.last().copied() {
        let (table, _) = DeTable::parse_recoverable(layer.text);
        let Some(value) = table.get_ref().get(EXTENDS) else { break };
        let next = above(value, &layers).map_err(|why| {
            let report = Report::new(vec![layer], None::<Rules>);
            report.add(value.span().start, why);
            report.finish()
        })?;
        layers.push(next);
    }
    layers.reverse();
    let mut start = 0;
    for layer in &mut layers {
        layer.start = start;
        start += layer.text.len() + 1;
    }
    Ok(layers)
}

/// Whether a file extends another, so that it does not say all by itself.
pub(crate) fn extends(text: &str) -> bool {
    DeTable::parse_recoverable(text).0.get_ref().contains_key(EXTENDS)
}

fn above<'t>(value: &Spanned<DeValue<'_>>, layers: &[Layer<'t>]) -> Result<Layer<'t>, String> {
    let DeValue::String(wanted) = value.get_ref() else {
        return Err(format!("{EXTENDS}: say the name of one experiment in quotes"));
    };
    let Some((name, text)) = library::all().find(|(name, _)| *name == &**wanted) else {
        let near = nearest(wanted, library::all().map(|(name, _)| *name));
        let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
        return Err(format!("{EXTENDS}: no experiment comes with the name {wanted:?}{near}"));
    };
    if layers.iter().any(|layer| layer.name == *name) {
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

    #[test]
    fn what_is_wrong_has_its_place_in_its_own_file() {
        let said = |text: &str| {
            let problems = parse("mine", text, Scale::Quick).unwrap_err();
            problems.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let text = format!("{TEXT}[measure]\nbloks = 1\n");
        assert!(said(&text)[0].starts_with("mine:5:"), "{:?}", said(&text));
        assert!(said("extends = \"hpl02\"")[0].contains("mine:1:11: extends: no experiment"));
        assert!(said("extends = \"hpl02\"")[0].contains("did you mean"));
        assert!(said("extends = 3")[0].contains("in quotes"));
        let circle = parse("hpl01", TEXT, Scale::Quick).unwrap_err();
        assert!(circle[0].0.contains("neither can come first"), "{circle:?}");
    }
}
