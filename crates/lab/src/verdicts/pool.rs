//! Runs of the same question on the same machine as one run with the blocks of all.
//!
//! A claim's quantities are each one value from a block, made of arms that ran in that block, so
//! blocks of several runs are one sample. Where two runs by themselves contradict each other there
//! is more between runs than between blocks: then the pooled interval is too narrow, and nothing
//! is decided.

use crate::claims::{self, Judged, Open, Verdict};
use crate::experiment::Mode;
use crate::journal::Run;
use crate::journal::manifest::Manifest;
use std::collections::BTreeMap;

/// Runs that are judged as one.
#[derive(Debug)]
pub(super) struct Pool {
    /// The latest, with the blocks of all.
    pub(super) run: Run,
    /// Which runs they are, from 1.
    pub(super) numbers: Vec<usize>,
    judged: Vec<Judged>,
}

impl Pool {
    /// What became of a claim; None if it was not asked.
    pub(super) fn judged(&self, id: &str) -> Option<&Judged> {
        self.judged.iter().find(|judged| judged.id == id)
    }

    /// When the latest run began.
    pub(super) fn latest(&self) -> u64 {
        self.run.manifest.started_unix_ms
    }

    fn of(mut runs: Vec<(usize, Run)>) -> Option<Self> {
        runs.sort_by_key(|(_, run)| run.manifest.started_unix_ms);
        let numbers = runs.iter().map(|(number, _)| *number).collect();
        let alone: Vec<Vec<Judged>> = match runs.len() {
            1 => Vec::new(),
            _ => runs.iter().map(|(_, run)| claims::judge(run)).collect(),
        };
        let run = runs.into_iter().map(|(_, run)| run).reduce(with_blocks_of)?;
        let mut judged = claims::judge(&run);
        judged.iter_mut().for_each(|one| contradicted(one, &alone));
        Some(Self { run, numbers, judged })
    }
}

/// Runs by what was asked of which machine, each group as one.
pub(super) fn pools(runs: Vec<Run>) -> Vec<Pool> {
    let mut groups: BTreeMap<Vec<String>, Vec<(usize, Run)>> = BTreeMap::new();
    for (at, run) in runs.into_iter().enumerate() {
        groups.entry(alike(&run, at)).or_default().push((at + 1, run));
    }
    groups.into_values().filter_map(Pool::of).collect()
}

/// What runs have to have alike to be one sample. How many blocks, in which order and by which
/// build need not be: the builds are named.
fn alike(run: &Run, at: usize) -> Vec<String> {
    let mut all = run.asked();
    for own in [Run::UNIT, "measure.blocks", "measure.seed"] {
        all.remove(own);
    }
    if run.manifest.seek.is_some() {
        // As slow as it has to be, for the share of the time that is asked for.
        all.remove("environment.disk.seek_ms");
    }
    let machine = &run.manifest.machine;
    let mut alike: Vec<String> = all.iter().map(|(name, what)| format!("{name}={what}")).collect();
    alike.extend(["processor", "processors"].map(|name| format!("{:?}", machine.get(name))));
    alike.push(format!("{:?} {:?}", run.manifest.label, run.manifest.lacks));
    if run.experiment.measure.mode == Mode::Knee {
        // The probes of a search build on each other, so there are no blocks to add.
        alike.push(at.to_string());
    }
    alike
}

/// The later of two runs with the blocks of both.
fn with_blocks_of(earlier: Run, later: Run) -> Run {
    let blocks = earlier.blocks_begun();
    // What is seen of both was chosen by the looks at each.
    let chances_added = earlier.manifest.chances() * later.manifest.chances();
    let manifest = Manifest { looks: Vec::new(), chances_added, ..later.manifest };
    let trials = earlier.records.iter().map(|record| record.trial + 1).max().unwrap_or_default();
    let mut records = earlier.records;
    records.extend(later.records.into_iter().map(|mut record| {
        record.block += blocks;
        record.trial += trials;
        record
    }));
    let mut experiment = later.experiment;
    experiment.measure.blocks += blocks;
    Run { records, experiment, manifest, directory: later.directory }
}

/// Leaves a claim open of which one of the runs alone surely says yes and another no.
fn contradicted(judged: &mut Judged, alone: &[Vec<Judged>]) {
    let says =
        |verdict| alone.iter().flatten().any(|one| one.id == judged.id && one.verdict == verdict);
    if !(says(Verdict::Holds) && says(Verdict::Fails)) {
        return;
    }
    let whether = "one run by itself says yes and another no, so runs differ by more than their \
                   blocks do";
    judged.verdict = Verdict::CannotTell;
    judged.why = format!("{whether}; {}", judged.why);
    judged.open =
        Some(Open::Noise { whether: whether.to_owned(), blocks: 0, enough: None, seconds: None });
}
