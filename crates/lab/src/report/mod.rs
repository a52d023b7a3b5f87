//! The report: one page that works offline, and the same as Markdown and JSON.
//!
//! A pure function of the run's directory: the same run gives the same bytes.

pub(crate) mod figure;
mod gathered;
mod goodput;
mod knees;
mod page;
mod papers;
mod picture;
mod profiles;
mod quality;
mod spectrum;
#[cfg(test)]
pub(crate) mod tests;
mod tuning;

use crate::analysis::Analysis;
use crate::claims::{self, Growth, Judged};
use crate::journal::{Run, write_whole};
use crate::profile::Profile;
use crate::record::{AGAIN, Cell};
use serde::Serialize;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) run: &'a Run,
    pub(crate) analysis: Analysis,
    pub(crate) claims: Vec<Judged>,
    pub(crate) arms: Vec<Arm>,
    /// Combined whole results, if they are still there.
    pub(crate) gathered: BTreeMap<Cell, gathered::Gathered>,
    /// The profiles, each arm's in their order.
    pub(crate) profiles: Vec<Profile>,
    /// Shares of the profiles by system call, read on first use: stacks are long.
    calls: OnceCell<Vec<profiles::Shares>>,
}

/// An arm as figures show it: with its own options, without those that all arms share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Arm {
    pub(crate) name: String,
    /// Number of its colour: the baseline's two runs share one.
    pub(crate) colour: usize,
    pub(crate) again: bool,
}

/// Writes all forms of the report into the run's directory and gives their paths, the page first,
/// and what became of the claims.
pub fn write(run: &Run) -> Result<(Vec<PathBuf>, Vec<Judged>), String> {
    let report = Report::of(run);
    let mut files = vec![
        ("report.html", page::page(&report)?),
        ("report.md", page::markdown(&report)?),
        ("report.json", report.json()?),
    ];
    files.extend(picture::picture(&report)?.map(|drawn| ("picture.svg", drawn)));
    let mut paths = Vec::new();
    for (name, text) in files {
        let path = run.directory.join(name);
        write_whole(&path, &text)?;
        paths.push(path);
    }
    Ok((paths, report.claims))
}

impl<'a> Report<'a> {
    pub(crate) fn of(run: &'a Run) -> Self {
        let mut analysis = Analysis::of(run);
        let claims = claims::judge(run);
        if let Some(growth) = Growth::of(run, &claims) {
            analysis.answer = format!("{} {}", analysis.answer, growth.words());
        }
        let mut arms: Vec<Arm> = Vec::new();
        let mut colours: BTreeMap<String, usize> = BTreeMap::new();
        for one in &analysis.cells {
            let name = arm_name(&one.cell);
            if arms.iter().all(|arm| arm.name != name) {
                let again = one.cell.arm.ends_with(AGAIN);
                let next = colours.len();
                let colour = *colours.entry(name.replace(AGAIN, "")).or_insert(next);
                arms.push(Arm { name, colour, again });
            }
        }
        Self {
            claims,
            gathered: gathered::gather(run),
            profiles: Profile::of(run),
            calls: OnceCell::new(),
            analysis,
            arms,
            run,
        }
    }

    pub(crate) fn arm(&self, cell: &Cell) -> usize {
        let name = arm_name(cell);
        self.arms.iter().position(|arm| arm.name == name).unwrap_or_default()
    }

    /// The trials of a cell that count, added up; None where their results are gone.
    fn valid(&self, cell: &Cell) -> Option<&gathered::Valid> {
        self.gathered.get(cell)?.valid.as_ref()
    }

    /// Whether a cell is the bare loop's, which answers whatever is asked.
    fn is_null(&self, cell: &Cell) -> bool {
        let target = self.run.experiment.targets.iter().find(|one| one.name == cell.target);
        target.is_some_and(|target| target.program.is_bare())
    }

    fn json(&self) -> Result<String, String> {
        let whole = serde_json::json!({
            "experiment": self.run.experiment,
            "manifest": self.run.manifest,
            "analysis": self.analysis,
            "claims": self.claims,
        });
        serde_json::to_string_pretty(&whole).map_err(|error| error.to_string())
    }
}

/// The arm with the options of its own.
fn arm_name(cell: &Cell) -> String {
    let own = cell.levels.iter().filter(|(path, _)| path.starts_with("targets."));
    let own = own.map(|(path, level)| (path.clone(), level.clone())).collect();
    Cell { levels: own, ..cell.clone() }.name()
}
