//! The environments that trials took place in: what was asked for, and what the kernel gave.

use super::Report;
use super::figure::Figure;
use crate::env::Record;
use crate::env::spec::STANDS_IN;

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    let manifest = &report.run.manifest;
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (levels, record) in &manifest.environments {
        rows.extend(parts(levels, record));
    }
    for lack in &manifest.lacking {
        let instead = if lack.has_stand_in() { STANDS_IN } else { "done without" };
        let needs = format!("needs {}", lack.needs);
        rows.push(vec![
            String::new(),
            lack.part.clone(),
            needs,
            format!("not possible here: {instead}"),
        ]);
    }
    let head = ["setting", "part", "asked for", "what there was"];
    Figure::of("environments", &[]).with_rows(head, rows).into_iter().collect()
}

fn parts(levels: &str, record: &Record) -> Vec<Vec<String>> {
    let (asked, got) = (record.spec.words(), record.words());
    let mut names: Vec<&str> = asked.iter().chain(&got).map(|(part, _)| *part).collect();
    names.sort_unstable();
    names.dedup();
    let of = |words: &[(&str, String)], part: &str| -> String {
        let of = words.iter().filter(|(name, _)| *name == part).map(|(_, what)| what.clone());
        of.collect::<Vec<_>>().join("; ")
    };
    let row =
        |part: &str| vec![levels.to_owned(), part.to_owned(), of(&asked, part), of(&got, part)];
    names.into_iter().map(row).collect()
}

impl Report<'_> {
    /// What its numbers are labelled with, and why; None: nothing.
    pub(super) fn label(&self) -> Option<String> {
        let label = self.run.manifest.label.as_ref()?;
        Some(format!("{label}: {}", STANDS_IN))
    }

    /// The environment in a sentence; empty: the machine itself.
    pub(super) fn surroundings(&self) -> String {
        let Some(record) = self.run.manifest.environments.values().next() else {
            return String::new();
        };
        let parts = record.spec.words();
        let parts: Vec<String> =
            parts.into_iter().map(|(part, what)| format!("{part}: {what}")).collect();
        let varied = if self.run.manifest.environments.len() > 1 { " (of several)" } else { "" };
        format!(" The servers' environment{varied}: {}.", parts.join("; "))
    }
}
