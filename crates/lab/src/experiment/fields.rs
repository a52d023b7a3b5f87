//! A strict reader of TOML: every problem with its place, all at once, and no key unread.

use super::Rules;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One of the files that make up an experiment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer<'t> {
    pub(super) name: &'t str,
    pub(super) text: &'t str,
    /// Where it begins in the whole.
    pub(super) start: usize,
}

/// Where problems are collected while a file is read.
#[derive(Debug)]
pub(super) struct Report<'t> {
    layers: Vec<Layer<'t>>,
    /// What is known of options; None: they are taken as they are.
    pub(super) rules: Option<Rules>,
    problems: RefCell<Vec<(usize, String)>>,
}

impl<'t> Report<'t> {
    pub(super) fn new(layers: Vec<Layer<'t>>, rules: Option<Rules>) -> Self {
        Self { layers, rules, problems: RefCell::default() }
    }

    pub(super) fn add(&self, at: usize, message: impl Into<String>) {
        self.problems.borrow_mut().push((at, message.into()));
    }

    /// All problems in the order of the file, each with its place.
    pub(super) fn finish(self) -> Vec<String> {
        let mut found = self.problems.into_inner();
        found.sort_by_key(|(at, _)| *at);
        found.dedup();
        let place = |at: usize| {
            let mut below = self.layers.iter().rev();
            let Some(layer) = below.find(|layer| layer.start <= at) else { return String::new() };
            let before = layer.text.get(..at - layer.start).unwrap_or(layer.text);
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
            format!("{}:{line}:{column}", layer.name)
        };
        found.into_iter().map(|(at, what)| format!("{}: {what}", place(at))).collect()
    }
}

/// The keys of one table, each to be asked for once.
#[derive(Debug)]
pub(super) struct Fields<'r, 't, 'a> {
    report: &'r Report<'t>,
    table: &'r DeTable<'a>,
    /// Such as `workload`.
    path: String,
    at: usize,
    asked: RefCell<BTreeSet<String>>,
}

/// A value with its place.
pub(super) type At<'r, 'a> = &'r Spanned<DeValue<'a>>;

impl<'r, 't, 'a> Fields<'r, 't, 'a> {
    pub(super) fn new(
        report: &'r Report<'t>,
        table: &'r DeTable<'a>,
        path: &str,
        at: usize,
    ) -> Self {
        Self { report, table, path: path.to_owned(), at, asked: RefCell::default() }
    }

    /// Where the table starts in the file.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn report(&self) -> &'r Report<'t> {
        self.report
    }

    pub(super) fn value(&self, key: &str) -> Option<At<'r, 'a>> {
        self.asked.borrow_mut().insert(key.to_owned());
        self.table.get(key)
    }

    /// Complains about a value.
    pub(super) fn wrong(&self, value: At<'_, '_>, key: &str, message: &str) {
        self.report.add(value.span().start, format!("{}: {message}", self.key(key)));
    }

    /// The same about what a key has, where it is there.
    pub(super) fn wrong_at(&self, key: &str, message: &str) {
        if let Some(value) = self.table.get(key) {
            self.wrong(value, key, message);
        }
    }

    fn key(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => {
                self.wrong(value, key, "expected a text in quotes");
                None
            }
        }
    }

    /// A text that has to be there.
    pub(super) fn needed(&self, key: &str) -> String {
        if self.table.get(key).is_none() {
            self.report.add(self.at, format!("{} is missing", self.key(key)));
        }
        self.text(key).unwrap_or_default()
    }

    pub(super) fn choice(&self, key: &str, choices: &[&str], default: &str) -> String {
        let Some(text) = self.text(key) else { return default.to_owned() };
        if !choices.contains(&text.as_str()) {
            self.wrong_at(key, &format!("{text:?} is none of {}", choices.join(", ")));
            return default.to_owned();
        }
        text
    }

    /// What one of these words stands for; the first where none is said.
    pub(super) fn one_of<T: Copy>(&self, key: &str, all: &[(&str, T)]) -> T {
        let words: Vec<&str> = all.iter().map(|(word, _)| *word).collect();
        let said = self.choice(key, &words, words[0]);
        all.iter().find(|(word, _)| *word == said).map_or(all[0].1, |(_, one)| *one)
    }

    pub(super) fn number(&self, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let value = self.value(key)?;
        match number(value.get_ref()) {
            Some(number) if range.contains(&number) => Some(number),
            _ => {
                let (from, to) = range.into_inner();
                self.wrong(value, key, &format!("expected a number from {from} to {to}"));
                None
            }
        }
    }

    pub(super) fn count(&self, key: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let value = self.value(key)?;
        let found = match value.get_ref() {
            DeValue::Integer(text) => u32::from_str_radix(text.as_str(), text.radix()).ok(),
            _ => None,
        };
        if let Some(count) = found.filter(|count| range.contains(count)) {
            return Some(count);
        }
        let (from, to) = range.into_inner();
        self.wrong(value, key, &format!("expected a whole number from {from} to {to}"));
        None
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        let value = self.value(key)?;
        let DeValue::Boolean(flag) = value.get_ref() else {
            self.wrong(value, key, "expected true or false");
            return None;
        };
        Some(*flag)
    }

    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong(value, key, "expected a list of texts");
            return Vec::new();
        };
        let mut texts = Vec::new();
        for item in items {
            match item.get_ref() {
                DeValue::String(text) => texts.push(text.to_string()),
                _ => self.wrong(item, key, "expected a text in quotes"),
            }
        }
        texts
    }

    /// A table inside this one.
    pub(super) fn table(&self, key: &str) -> Option<Fields<'r, 't, 'a>> {
        let value = self.value(key)?;
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong(value, key, "expected a table");
            return None;
        };
        Some(Self::new(self.report, table, &self.key(key), value.span().start))
    }

    /// All keys in the order of the file, all of them asked for.
    pub(super) fn entries(&self) -> Vec<(String, At<'r, 'a>)> {
        let mut entries: Vec<_> =
            self.table.iter().map(|(key, value)| (key.span().start, key, value)).collect();
        entries.sort_by_key(|(at, ..)| *at);
        let entries: Vec<(String, At<'r, 'a>)> =
            entries.into_iter().map(|(_, key, value)| (key.get_ref().to_string(), value)).collect();
        self.asked.borrow_mut().extend(entries.iter().map(|(key, _)| key.clone()));
        entries
    }

    /// Complains about keys that nobody asked for.
    pub(super) fn finish(self) {
        let asked = self.asked.borrow();
        for (key, _) in self.table.iter().filter(|(key, _)| !asked.contains(key.get_ref().as_ref()))
        {
            let known: Vec<&str> = asked.iter().map(String::as_str).collect();
            let key_name = self.key(key.get_ref());
            let near = nearest(key.get_ref(), known.iter().copied())
                .map_or(String::new(), |near| format!("; did you mean {near}?"));
            let known = known.join(", ");
            let what = format!("unknown key {key_name}{near}; known: {known}");
            self.report.add(key.span().start, what);
        }
    }
}

/// The word that was probably meant: a third of its letters may be wrong.
pub(crate) fn nearest<'a>(text: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |word: &&str| strsim::osa_distance(text, word);
    let near = words.into_iter().min_by_key(distance)?;
    (distance(&near) <= (near.chars().count().max(3) + 1) / 3).then_some(near)
}

/// A number of either kind.
pub(super) fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Float(text) => text.as_str().parse().ok(),
        DeValue::Integer(text) => {
            i64::from_str_radix(text.as_str(), text.radix()).ok().map(|whole| whole as f64)
        }
        _ => None,
    }
}

/// A value as `--set key=value` takes it; None for what has no such form.
pub(super) fn word(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(text) => Some(text.as_str().to_owned()),
        DeValue::Float(text) => Some(text.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Array(items) => {
            let words: Option<Vec<String>> =
                items.iter().map(|item| word(item.get_ref())).collect();
            Some(words?.join(","))
        }
        DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}
