//! Where the race takes place: trials of `regatta serve`, each with a fresh server, kept on record.

use super::{save, text};
use crate::experiment::plan::Planned;
use crate::experiment::{Experiment, Scale, parse};
use crate::journal::Run;
use crate::race::space::{Candidate, DEFAULT};
use crate::race::{
    DECISION, Decision, Field, Finalist, Met, Phase, RUNGS_FILE, Rung, SETTLED, Settled, Turn,
    Verified, keeps,
};
use crate::record::{Cell, Record};
use crate::run::{self, Options, Progress};
use crate::servers::environments::Rooms;
use crate::stats::{Random, median};
use crate::trial::{Attempt, Bench};
use regatta_load::engine::{Fate, Outcome};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Trials of a block at most, which numbers them.
const ARMS_MAX: u32 = 256;
/// Trials before the race, of the default: numbered as those of a block that there is not.
const SCOUTS: u32 = 3;
const SCOUTS_BLOCK: u32 = 1_000_000;
/// A generator that runs for so much of its time is the limit, and the server's work decides.
const CLIENT_BUSY: f64 = 0.9;
/// A server that uses so much of its processors is the limit itself.
const SERVER_BUSY: f64 = 0.9;
/// A trial that breaks the service level counts for so much.
const BROKEN: f64 = 0.5;

/// The race's place.
pub(super) struct Stage<'a> {
    pub(super) settled: Settled,
    run: &'a mut Run,
    asked: &'a Options<'a>,
    directory: PathBuf,
    root: PathBuf,
    workload: Option<PathBuf>,
    arms: Vec<Candidate>,
    done: usize,
    spent_s: f64,
}

impl<'a> Stage<'a> {
    pub(super) fn new(
        settled: Settled,
        run: &'a mut Run,
        asked: &'a Options<'a>,
    ) -> Result<Self, String> {
        let directory = fs::canonicalize(&run.directory).map_err(|error| error.to_string())?;
        crate::servers::make_open(&directory.join("scratch"))?;
        let left_s = settled.budget_s;
        (asked.tell)(&Progress { done: 0, all: 1, left_s, what: "looking at the site" });
        let (root, workload) = run::workload(run, &run.experiment.workload.clone(), asked)?;
        // Rungs are written again as the race goes over what is on record.
        let _ = fs::remove_file(directory.join(RUNGS_FILE));
        let arms = Vec::new();
        let (done, spent_s) = (0, 0.0);
        Ok(Self { settled, run, asked, directory, root, workload, arms, done, spent_s })
    }

    /// Finds out which number decides and what a trial costs, from a few trials of the default.
    pub(super) fn scout(&mut self) -> Result<(), String> {
        if self.settled.around_s > 0.0 {
            return self.name(&[]);
        }
        let mut took = Vec::new();
        let mut records = Vec::new();
        let arm = (DEFAULT.to_owned(), Candidate::default());
        for at in 0..SCOUTS {
            let start = Instant::now();
            let record = self.trial(SCOUTS_BLOCK, at, &arm, 1.0)?;
            took.push(start.elapsed().as_secs_f64());
            records.push(record);
        }
        let middle = |name: &str| {
            let values: Vec<f64> =
                records.iter().filter_map(|record| record.metrics.get(name).copied()).collect();
            median(&values)
        };
        if middle("good_per_s").is_nan() {
            let why = records.last().map(|record| record.reasons.join("; ")).unwrap_or_default();
            return Err(format!("the default does not serve: {why}"));
        }
        if !self.settled.scouted {
            let busy = middle("server_cpu") / crate::stats::count(self.settled.means.cpus);
            let client = middle("client_cpu") >= CLIENT_BUSY && busy < SERVER_BUSY;
            self.settled.metric = if client { "cpu_us_per_reply" } else { "good_per_s" }.to_owned();
            self.settled.scouted = true;
        }
        self.settled.around_s = (median(&took) - self.settled.window_s).max(0.1);
        save(&self.directory.join(SETTLED), &self.settled)?;
        self.name(&[])
    }

    /// Puts everybody into the experiment who is to run.
    fn name(&mut self, arms: &[(String, Candidate)]) -> Result<(), String> {
        for (_, arm) in arms {
            if arm.name() != DEFAULT && !self.arms.contains(arm) {
                self.arms.push(arm.clone());
            }
        }
        let text = text::experiment(&self.settled, &self.arms);
        let (path, part) =
            (self.directory.join("experiment.toml"), self.directory.join("experiment.part"));
        let read = parse("experiment.toml", &text, Scale::Quick);
        let read = read.map_err(|problems| {
            problems.iter().map(|problem| format!("{problem}\n")).collect::<String>()
        })?;
        if read != self.run.experiment {
            let written = fs::write(&part, text).and_then(|()| fs::rename(&part, &path));
            written.map_err(|error| format!("{}: {error}", path.display()))?;
            self.run.experiment = read;
        }
        Ok(())
    }

    fn bench<'b>(
        &self,
        experiment: &'b Experiment,
        lacking: &'b [crate::env::Lack],
    ) -> Result<Bench<'b>, String>
    where
        'a: 'b,
    {
        let rooms = Rooms::new(experiment, lacking, self.root.clone(), &self.directory)?;
        rooms.build(self.asked.stop)?;
        Ok(Bench {
            experiment,
            regatta: self.asked.regatta,
            requests_per_session: run::requests_per_session(self.workload.as_deref())?,
            root: self.root.clone(),
            workload: self.workload.clone(),
            scratch: self.directory.join("scratch"),
            rooms,
            unit: None,
            far: None,
            stop: self.asked.stop,
        })
    }

    /// Makes a trial, unless one that counts is on record, and once more if it does not count.
    fn trial(
        &mut self,
        block: u32,
        at: u32,
        (name, candidate): &(String, Candidate),
        windows: f64,
    ) -> Result<Record, String> {
        let (experiment, lacking) =
            (self.run.experiment.clone(), self.run.manifest.lacking.clone());
        let cell = Cell { arm: name.clone(), target: candidate.name(), levels: BTreeMap::new() };
        let trial = block * ARMS_MAX + at;
        // The same load for all arms of a block.
        let seed = Random::new(u64::from(self.settled.seed) << 32 | u64::from(block)).bits() >> 12;
        let planned = Planned { trial, block, cell: 0, seed };
        loop {
            let tried = self.run.records.iter().filter(|record| record.trial == trial);
            let tried: Vec<&Record> = tried.collect();
            if let Some(last) = tried.last()
                && (last.valid || tried.len() > 1)
            {
                return Ok((*last).clone());
            }
            let attempt = u32::try_from(tried.len()).unwrap_or(u32::MAX);
            let bench = self.bench(&experiment, &lacking)?;
            let name = Run::outcome_name(trial, attempt);
            let outcome = self.directory.join("outcomes").join(name);
            let attempt = Attempt { number: attempt, like: self.run.apart_in(block) };
            let record = bench.lasting(&planned, &cell, attempt, windows, &outcome)?;
            bench.note_environments(self.run)?;
            self.run.add(record)?;
        }
    }

    /// How often the default and each finalist met the service level, if one was asked for.
    pub(super) fn levels(&self, finalists: &[Finalist]) -> Vec<Met> {
        if self.settled.slo.is_none() {
            return Vec::new();
        }
        let names = finalists.iter().map(|one| one.candidate.name());
        let told = |arm: String| {
            let met = self.met(&arm, 0);
            Met { met: met.iter().filter(|met| **met).count(), trials: met.len(), arm }
        };
        [DEFAULT.to_owned()].into_iter().chain(names).map(told).collect()
    }

    /// Whether an arm met the service level in each of its trials that count, from a block on.
    fn met(&self, arm: &str, from: u32) -> Vec<bool> {
        let counts = |one: &&Record| one.valid && one.cell.target == arm && one.block >= from;
        let levels = self.run.records.iter().filter(counts);
        levels.filter_map(|one| Some(*one.metrics.get("level_met")? > 0.0)).collect()
    }

    /// Compares every byte that the advice (or the default) answers with the site's.
    ///
    /// # Errors
    /// That a reply was wrong, or that it was interrupted.
    pub(super) fn verify(&mut self, advice: Option<&Candidate>) -> Result<Verified, String> {
        let arm = advice.cloned().unwrap_or_default();
        self.tell("comparing bytes", 0.0);
        let (mut experiment, lacking) =
            (self.run.experiment.clone(), self.run.manifest.lacking.clone());
        experiment.workload.verify = true;
        experiment.workload.slo = None;
        let bench = self.bench(&experiment, &lacking)?;
        let cell = Cell { arm: arm.name(), target: arm.name(), levels: BTreeMap::new() };
        let planned = Planned { trial: u32::MAX, block: u32::MAX, cell: 0, seed: 1 };
        let outcome = self.directory.join("outcomes/verification.json");
        let _ = fs::remove_file(&outcome);
        let record = bench.lasting(&planned, &cell, Attempt::ONLY, 1.0, &outcome)?;
        let text = fs::read(&outcome).unwrap_or_default();
        compared(&arm.name(), serde_json::from_slice(&text).ok().as_ref(), &record.reasons)
    }

    /// Writes the result down and clears up.
    pub(super) fn end(&mut self, decision: &Decision) -> Result<(), String> {
        save(&self.directory.join(DECISION), decision)?;
        let (experiment, lacking) =
            (self.run.experiment.clone(), self.run.manifest.lacking.clone());
        self.bench(&experiment, &lacking)?.rooms.clear();
        for folder in ["scratch", "workload"] {
            let _ = fs::remove_dir_all(self.directory.join(folder));
        }
        Ok(())
    }

    fn tell(&self, what: &str, more_s: f64) {
        let left_s = (self.settled.budget_s - self.spent_s - more_s).max(0.0);
        let cost = self.settled.around_s + self.settled.window_s;
        let left = if cost > 0.0 { crate::stats::index(left_s / cost) } else { 1 };
        let all = self.done + left;
        (self.asked.tell)(&Progress { done: self.done, all, left_s, what });
    }

    fn score(&self, record: &Record) -> Option<f64> {
        let value = record.metrics.get(&self.settled.metric).filter(|_| record.valid)?;
        let met = record.metrics.get("level_met").is_none_or(|met| *met > 0.0);
        let more = if self.settled.metric.ends_with("_per_s") { *value } else { 1.0 / value };
        (more > 0.0 && more.is_finite()).then_some(if met { more } else { more * BROKEN })
    }
}

impl Field for Stage<'_> {
    fn block(&mut self, turn: &Turn<'_>) -> Result<Vec<Option<f64>>, String> {
        self.name(turn.arms)?;
        let mut scores = Vec::new();
        for (arm, at) in turn.arms.iter().zip(0..ARMS_MAX) {
            let phase = match turn.phase {
                Phase::Opening => "opening",
                Phase::Refining => "refining",
                Phase::Final => "final",
            };
            self.tell(&format!("{phase}: {}", arm.0), 0.0);
            let record = self.trial(turn.block, at, arm, turn.windows)?;
            scores.push(self.score(&record));
            self.done += 1;
            self.spent_s += self.settled.around_s + self.settled.window_s * turn.windows;
        }
        Ok(scores)
    }

    fn keeps_level(&self, arm: &str, from: u32) -> bool {
        self.settled.slo.is_none() || keeps(&self.met(arm, from))
    }

    fn ended(&mut self, rung: &Rung) -> Result<(), String> {
        let path = self.directory.join(RUNGS_FILE);
        let named = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut line = serde_json::to_string(rung).map_err(|error| error.to_string())?;
        line.push('\n');
        let mut file = File::options().append(true).create(true).open(&path).map_err(named)?;
        file.write_all(line.as_bytes()).map_err(named)
    }
}

/// What a load that compared the replies of an arm says; `reasons` are of its trial.
///
/// # Errors
/// That a reply was wrong.
fn compared(arm: &str, found: Option<&Outcome>, reasons: &[String]) -> Result<Verified, String> {
    let said = || reasons.join("; ");
    let Some(found) = found else {
        let why = Some(said());
        return Ok(Verified { arm: arm.to_owned(), answers: 0, compared: 0, why });
    };
    let wrong = found.fates.sum(Fate::is_lie);
    if wrong > 0 {
        return Err(format!("{arm}: {wrong} replies were wrong"));
    }
    let (answers, compared) = (found.fates.sum(Fate::is_answer), found.verified);
    let verified = Verified { arm: arm.to_owned(), answers, compared, why: None };
    let why = match found.changed {
        _ if verified.is_whole() => None,
        0 => Some(said()),
        changed => Some(format!("{changed} files changed meanwhile")),
    };
    Ok(Verified { why, ..verified })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::numbers::tests::outcome;

    #[test]
    fn a_comparison_says_what_it_saw() {
        let reasons = ["the server ended".to_owned()];
        let of = |found: &Outcome| compared("amped", Some(found), &reasons);
        let mut found = outcome();
        (0..100).for_each(|_| found.fates.count(Fate::Good));
        found.verified = 100;
        let verified = of(&found).unwrap();
        assert!(verified.is_whole() && verified.why.is_none(), "{verified:?}");
        (found.verified, found.changed) = (98, 2);
        let verified = of(&found).unwrap();
        assert!(!verified.is_whole(), "{verified:?}");
        assert_eq!(verified.why.as_deref(), Some("2 files changed meanwhile"));
        found.fates.count(Fate::WrongBytes);
        assert_eq!(of(&found), Err("amped: 1 replies were wrong".to_owned()));
        // A load that said nothing, and one that got nothing, compare nothing.
        for found in [None, Some(&outcome())] {
            let verified = compared("amped", found, &reasons).unwrap();
            assert!(!verified.is_whole(), "{verified:?}");
            assert_eq!(verified.why.as_deref(), Some("the server ended"));
        }
    }
}
