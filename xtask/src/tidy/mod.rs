//! `cargo xtask tidy`: the house rules that a compiler does not check.

mod arrows;
mod circles;
mod documents;
mod names;
mod no_std;
mod plain;
mod reach;
mod source;
mod terms;

use crate::command::{files_below, project_root};
use std::fmt;
use std::path::Path;

pub(crate) use source::Source;

/// A place that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    /// The file, relative to the root.
    pub(crate) path: String,
    /// The line, from 1; 0 if the whole file is meant.
    pub(crate) line: usize,
    /// The fault, and its correction.
    pub(crate) message: String,
}

impl Violation {
    /// A violation at a line of a file.
    pub(crate) fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: {}", self.path, self.message)
        } else {
            write!(f, "{}:{}: {}", self.path, self.line, self.message)
        }
    }
}

/// Runs tidy on the project; true if nothing is wrong.
pub(crate) fn run() -> bool {
    let found = check(&project_root());
    for violation in &found {
        println!("{violation}");
    }
    match found.len() {
        0 => println!("tidy: nothing to say"),
        1 => println!("tidy: 1 violation"),
        more => println!("tidy: {more} violations"),
    }
    found.is_empty()
}

/// Everything that breaks a rule below `root`, sorted by place.
fn check(root: &Path) -> Vec<Violation> {
    let mut found = Vec::new();
    let (mut sources, mut pages) = (Vec::new(), Vec::new());
    for path in files_below(root) {
        let name = relative(root, &path);
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let Some(extension) = path.extension().and_then(|e| e.to_str()) else { continue };
        match extension {
            "rs" => match Source::new(&name, &text) {
                Ok(source) => sources.push(source),
                Err(violation) => found.push(violation),
            },
            "md" => pages.push((name, text)),
            "toml" | "sh" | "yml" => found.extend(source::notes(&name, &text, "#")),
            _ => {}
        }
    }
    found.extend(sources.iter().flat_map(Source::check));
    found.extend(arrows::check(root, &sources));
    found.extend(no_std::check(root, &sources));
    found.extend(reach::check(root, &sources));
    found.extend(circles::check(&sources));
    found.extend(documents::check(root, &sources));
    found.extend(names::check(&sources));
    found.extend(terms::check(root, &sources));
    found.extend(plain::check(root, &sources, &pages));
    found.sort();
    found.dedup();
    found
}

/// A path as the violations name it.
fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}
