//! Files of experiments: the files that they extend, their scales, and the place of each problem.

use super::{Scale, library};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// The key that names what a file extends.
const EXTENDS: &str = "extends";

/// A place in the whole of all layers, and what is wrong there.
type Placed = (usize, String);

/// A file that is part of an experiment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer<'t> {
    name: &'t str,
    text: &'t str,
    /// Start in the whole, in bytes.
    start: usize,
}

impl Layer<'_> {
    /// Text behind as many spaces as lie before it, so that its positions are those in the whole.
    pub(super) fn placed(&self) -> String {
        format!("{}{}", " ".repeat(self.start), self.text)
    }
}

/// The files that make up the one in `text`, each behind those that it extends. `extends = "NAME"`,
/// or a list of names, lays a file over those that come with the program.
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
        let next = above(name.get_ref(), path).map_err(|why| {
            said(&[layer], vec![(name.span().start, format!("{EXTENDS}: {why}"))])
        })?;
        // A base that several extend lies below all of them, once.
        if layers.iter().all(|known| known.name != next.name) {
            add(next, path, layers)?;
        }
    }
    path.pop();
    layers.push(layer);
    Ok(())
}

fn above(wanted: &DeValue<'_>, path: &[&str]) -> Result<Layer<'static>, String> {
    let wanted = wanted.as_str().ok_or("say an experiment's name in quotes, or a list of names")?;
    let Some((name, text)) = library::all().find(|(name, _)| *name == wanted) else {
        let meant = meant(wanted, library::all().map(|(name, _)| *name));
        return Err(format!("no experiment comes with the name {wanted:?}{meant}"));
    };
    if path.contains(name) {
        return Err(format!("{wanted:?} extends this file: neither can come first"));
    }
    Ok(Layer { name, text, start: 0 })
}

/// Whether a file extends another, so that it does not say all by itself.
pub(crate) fn extends(text: &str) -> bool {
    DeTable::parse_recoverable(text).0.get_ref().contains_key(EXTENDS)
}

/// Problems in the order of the file, each with its place.
fn said(layers: &[Layer<'_>], mut problems: Vec<Placed>) -> Vec<String> {
    problems.sort();
    problems.dedup();
    let place = |at: usize| {
        let mut below = layers.iter().rev();
        let Some(layer) = below.find(|layer| layer.start <= at) else { return String::new() };
        let before = layer.text.get(..at - layer.start).unwrap_or(layer.text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        format!("{}:{line}:{column}", layer.name)
    };
    problems.into_iter().map(|(at, what)| format!("{}: {what}", place(at))).collect()
}

/// Layers of an experiment, their contents together, and their faults.
#[derive(Debug)]
pub(super) struct File<'t> {
    layers: Vec<Layer<'t>>,
    pub(super) table: DeTable<'t>,
    problems: RefCell<Vec<Placed>>,
}

impl<'t> File<'t> {
    /// Lays the texts of layers over each other.
    pub(super) fn new(layers: Vec<Layer<'t>>, texts: &'t [String]) -> Self {
        let (mut table, mut problems) = (DeTable::new(), Vec::new());
        for text in texts {
            let (over, faults) = DeTable::parse_recoverable(text);
            let start = |fault: &toml::de::Error| fault.span().map_or(0, |span| span.start);
            problems.extend(faults.iter().map(|fault| (start(fault), fault.message().to_owned())));
            lay(over.into_inner(), &mut table);
        }
        table.remove(EXTENDS);
        Self { layers, table, problems: problems.into() }
    }

    /// Takes unknown keys out, and says so. `known` has the known ones, with an object for each
    /// table, in which `*` is any name, and a list of one object for each list of tables.
    pub(super) fn take_unknown(&mut self, known: &Value) {
        take_unknown(&mut self.table, "", known, self.problems.get_mut());
    }

    /// Takes `[scale]` out, and lays one scale over the rest.
    pub(super) fn apply(&mut self, scale: Scale) {
        let scales = self.table.remove("scale").map(Spanned::into_inner);
        let Some(DeValue::Table(mut scales)) = scales else { return };
        if let Some(DeValue::Table(over)) = scales.remove(scale.name()).map(Spanned::into_inner) {
            lay(over, &mut self.table);
        }
    }

    pub(super) fn find(&self, path: &str) -> Option<&Spanned<DeValue<'t>>> {
        find(&self.table, path)
    }

    /// The keys of a table in the order of the file.
    pub(super) fn entries(&self, table: &str) -> Vec<(&str, &Spanned<DeValue<'t>>)> {
        let table = self.table.get(table).and_then(|value| value.get_ref().as_table());
        let mut entries: Vec<_> = table.into_iter().flatten().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries.into_iter().map(|(key, value)| (&**key.get_ref(), value)).collect()
    }

    /// Reads the value at `path`. Says so where a value has a wrong type.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        path: &str,
        value: Spanned<DeValue<'_>>,
    ) -> Option<T> {
        let read = T::deserialize(ValueDeserializer::from(value));
        let wrong = |error: toml::de::Error| {
            let text = error.to_string();
            let (what, key) = text.trim_end().split_once("\nin `").unwrap_or((text.as_str(), ""));
            let key = match key.trim_end_matches('`') {
                "" => path.to_owned(),
                // All sections are read at once.
                whole if path == "experiment" && whole.contains('.') => whole.to_owned(),
                key => format!("{path}.{key}"),
            };
            let at = error.span().map_or(0, |span| span.start);
            self.problems.borrow_mut().push((at, format!("{key}: {}", what.trim_end())));
        };
        read.map_err(wrong).ok()
    }

    /// Adds a problem, at the place of the key that it begins with.
    pub(super) fn say(&self, what: String) {
        let key = what.split_once(": ").map_or("", |(key, _)| key);
        let word = what.split_once(' ').map_or("", |(word, _)| word);
        let value = [key, word, "experiment"].into_iter().find_map(|path| self.find(path));
        self.problems.borrow_mut().push((value.map_or(0, |value| value.span().start), what));
    }

    /// Adds a problem at a place.
    pub(super) fn say_at(&self, at: usize, what: String) {
        self.problems.borrow_mut().push((at, what));
    }

    /// Start of the file itself, behind those that it extends.
    pub(super) fn start(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.start)
    }

    /// The experiment, or all that is wrong with it.
    pub(super) fn end<T>(self, read: Option<T>) -> Result<T, Vec<String>> {
        let problems = self.problems.into_inner();
        read.filter(|_| problems.is_empty()).ok_or_else(|| said(&self.layers, problems))
    }
}

/// Lays a table over another: tables are merged, all else replaced.
pub(super) fn lay<'a>(over: DeTable<'a>, below: &mut DeTable<'a>) {
    for (key, value) in over {
        let both_tables = value.get_ref().is_table()
            && below.get(key.get_ref().as_ref()).is_some_and(|old| old.get_ref().is_table());
        if !both_tables {
            below.insert(key, value);
            continue;
        }
        let old = below.get_mut(key.get_ref().as_ref()).map(Spanned::get_mut);
        if let (DeValue::Table(over), Some(DeValue::Table(old))) = (value.into_inner(), old) {
            lay(over, old);
        }
    }
}

/// Value at the end of a path, whose keys may have points.
fn find<'r, 'a>(table: &'r DeTable<'a>, path: &str) -> Option<&'r Spanned<DeValue<'a>>> {
    table.iter().find_map(|(key, value)| match path.strip_prefix(&**key.get_ref())? {
        "" => Some(value),
        rest => find(value.get_ref().as_table()?, rest.strip_prefix('.')?),
    })
}

fn take_unknown(table: &mut DeTable<'_>, path: &str, known: &Value, problems: &mut Vec<Placed>) {
    let mut wrong = Vec::new();
    for (key, value) in &mut *table {
        let (name, at) = (&**key.get_ref(), value.span().start);
        let path = format!("{path}{name}");
        match (known.get(name).or_else(|| known.get("*")), value.get_mut()) {
            (Some(known @ Value::Object(_)), DeValue::Table(inner)) => {
                take_unknown(inner, &format!("{path}."), known, problems);
                continue;
            }
            (Some(known), DeValue::Array(items)) if known[0].is_object() && are_tables(items) => {
                for item in &mut **items {
                    if let DeValue::Table(inner) = item.get_mut() {
                        take_unknown(inner, &format!("{path}."), &known[0], problems);
                    }
                }
                continue;
            }
            (Some(known), _) if known[0].is_object() => {
                problems.push((at, format!("{path}: expected a list of tables")));
            }
            (Some(Value::Object(_)), _) => problems.push((at, format!("{path}: expected a table"))),
            (Some(_), _) => continue,
            (None, _) => {
                let names = known.as_object().into_iter().flatten();
                let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
                let meant = meant(name, names.iter().copied());
                let what = format!("unknown key {path}{meant}; known: {}", names.join(", "));
                problems.push((key.span().start, what));
            }
        }
        wrong.push(name.to_owned());
    }
    for name in wrong {
        table.remove(name.as_str());
    }
}

fn are_tables(items: &[Spanned<DeValue<'_>>]) -> bool {
    items.iter().all(|item| item.get_ref().is_table())
}

/// The word that was probably meant: a third of its letters may be wrong.
pub(crate) fn nearest<'a>(text: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |word: &&str| strsim::osa_distance(text, word);
    let near = words.into_iter().min_by_key(distance)?;
    (distance(&near) <= (near.chars().count().max(3) + 1) / 3).then_some(near)
}

/// A question for that word; empty if there is none.
pub(super) fn meant<'a>(text: &str, words: impl IntoIterator<Item = &'a str>) -> String {
    nearest(text, words).map_or(String::new(), |near| format!("; did you mean {near}?"))
}

/// A value as `--set key=value` takes it; None if it has no such form.
pub(super) fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(items) => {
            Some(items.iter().map(word).collect::<Option<Vec<String>>>()?.join(","))
        }
        Value::Null | Value::Object(_) => None,
    }
}

/// Adds every value below `path`, by its dotted name.
pub(super) fn leaves<'v>(path: &str, value: &'v Value, out: &mut Vec<(String, &'v Value)>) {
    match value {
        Value::Object(keys) => {
            keys.iter().for_each(|(key, value)| leaves(&format!("{path}.{key}"), value, out));
        }
        leaf => out.push((path.to_owned(), leaf)),
    }
}

/// Adds every value below `path` as a word, by its dotted name; what is null has none.
pub(crate) fn flatten(path: &str, value: &Value, out: &mut BTreeMap<String, String>) {
    let mut all = Vec::new();
    leaves(path, value, &mut all);
    out.extend(all.into_iter().filter_map(|(path, leaf)| Some((path, word(leaf)?))));
}

/// Reads levels of factors, which may be lists, by the factor's path.
pub(super) fn levels<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let (paths, mut all) = (BTreeMap::<String, Value>::deserialize(from)?, Vec::new());
    paths.iter().for_each(|(path, value)| leaves(path, value, &mut all));
    let all = all.into_iter().map(|(path, leaf)| Some((path, word(leaf)?)));
    let levels: Option<_> = all.collect();
    levels.ok_or_else(|| D::Error::custom("levels are single values, or lists of them"))
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
