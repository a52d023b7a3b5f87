//! The race's place: trials of `regatta serve`, each with a fresh server, kept on record; its
//! experiment, and the configuration that it ends with.

use super::START;
use crate::experiment::plan::Planned;
use crate::experiment::{Experiment, Loop, Scale, parse};
use crate::journal::{Run, append, write_json, write_whole};
use crate::knee::Tried;
use crate::race::space::{Candidate, DEFAULT};
use crate::race::{
    DECISION, Decision, Entry, Field, RUNGS_FILE, Rung, SETTLED, Settled, Turn, Verified,
};
use crate::record::{Cell, Record};
use crate::run::{self, Options, Progress};
use crate::stats::{Random, index, median};
use crate::trial::{Attempt, Bench};
use crate::units::{filled, quoted};
use regatta_load::engine::{Fate, Outcome};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

/// Trials of a block at most, which numbers them.
const ARMS_MAX: u32 = 256;
/// Trials before the race, of the default in a closed loop: numbered as those of blocks that there
/// are not.
const SCOUTS: u32 = 3;
const SCOUTS_BLOCK: u32 = 1_000_000;
/// Factor over the default's answers that the load must be able to offer.
const MORE: f64 = 1.2;
/// Least share of its processors that the server keeps, per cent. While the load is too slow, the
/// server gets two fifths of what it had.
const LEFT_MIN: u32 = 5;

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

    /// Finds out what the default answers in a closed loop, where the searches begin, and what a
    /// trial costs. A server that is faster than the generator is slowed down.
    pub(super) fn scout(&mut self) -> Result<(), String> {
        while self.settled.capacity == 0.0 {
            self.name(&[])?;
            let (mut took, mut records) = (Vec::new(), Vec::new());
            let block = SCOUTS_BLOCK + self.settled.left;
            for at in 0..SCOUTS {
                self.tell("what the default answers in a closed loop");
                let start = Instant::now();
                // Under a name of its own, as its numbers are of another load.
                let scout = (format!("{DEFAULT} (closed loop)"), Candidate::default());
                records.push(self.trial(block, at, scout, None)?);
                took.push(start.elapsed().as_secs_f64());
            }
            let middle = |name: &str| {
                let of = |record: &Record| record.metrics.get(name).copied();
                median(&records.iter().filter_map(of).collect::<Vec<f64>>())
            };
            let capacity = middle("good_per_s");
            if capacity.is_nan() || capacity <= 0.0 {
                let why = records.last().map(|record| record.reasons.join("; "));
                return Err(format!("the default does not serve: {}", why.unwrap_or_default()));
            }
            // Whether the load can offer more than the server answers.
            let more = (DEFAULT.to_owned(), Candidate::default());
            let probe = self.trial(block, SCOUTS, more, Some(capacity * MORE))?.probe;
            let limited = probe.is_none_or(|probe| matches!(probe.shown, Tried::Invalid(_)));
            let less = self.settled.left * 2 / 5;
            if limited && self.settled.realtime && less >= LEFT_MIN {
                self.settled.left = less;
            } else {
                self.settled.capacity = capacity;
                self.settled.around_s = (median(&took) - self.settled.window_s).max(0.5);
            }
            write_json(&self.directory.join(SETTLED), &self.settled)?;
        }
        self.name(&[])
    }

    /// Adds all arms that are to run to the experiment.
    fn name(&mut self, arms: &[Entry]) -> Result<(), String> {
        for Entry { candidate, .. } in arms {
            if candidate.name() != DEFAULT && !self.arms.contains(candidate) {
                self.arms.push(candidate.clone());
            }
        }
        let text = experiment(&self.settled, &self.arms)?;
        let read = parse("experiment.toml", &text, Scale::Quick);
        let read = read.map_err(|problems| problems.join("\n"))?;
        if read != self.run.experiment {
            write_whole(&self.directory.join("experiment.toml"), &text)?;
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
        let served = (self.root.clone(), self.workload.clone());
        run::bench_of((experiment, lacking), served, self.asked, &self.directory)
    }

    /// Makes a trial at a rate, or in a closed loop, unless one that tells something is on record;
    /// once more if it tells nothing.
    fn trial(
        &mut self,
        block: u32,
        at: u32,
        (arm, candidate): (String, Candidate),
        rate: Option<f64>,
    ) -> Result<Record, String> {
        let mut experiment = self.run.experiment.clone();
        if rate.is_none() {
            in_closed_loop(&mut experiment);
        }
        let lacking = self.run.manifest.lacking.clone();
        let cell = Cell { target: candidate.name(), arm, levels: BTreeMap::new() };
        let trial = block * ARMS_MAX + at;
        // The same load for all arms of a block.
        let seed = Random::new(u64::from(self.settled.seed) << 32 | u64::from(block)).bits() >> 12;
        let planned = Planned { trial, block, cell: 0, seed };
        loop {
            let tried = self.run.records.iter().filter(|record| record.trial == trial);
            let tried: Vec<&Record> = tried.collect();
            let tells = |record: &Record| match &record.probe {
                Some(probe) => !matches!(probe.shown, Tried::Invalid(_)),
                None => record.valid,
            };
            if let Some(last) = tried.last().filter(|last| tells(last) || tried.len() > 1) {
                return Ok((*last).clone());
            }
            let number = u32::try_from(tried.len()).unwrap_or(u32::MAX);
            let bench = self.bench(&experiment, &lacking)?;
            let outcome = self.run.outcome_path(trial, number);
            let attempt = Attempt { number, like: None };
            let record = match rate {
                Some(rate) => bench.probe(&planned, &cell, attempt, rate, &outcome),
                None => bench.trial(&planned, &cell, attempt, &outcome),
            }?;
            bench.note_environments(self.run)?;
            self.run.add(record)?;
        }
    }

    /// Compares every byte that the advice (or the default) answers with the site's. Fails if a
    /// reply was wrong.
    pub(super) fn verify(&mut self, advice: Option<&Candidate>) -> Result<Verified, String> {
        let arm = advice.cloned().unwrap_or_default();
        self.tell("comparing bytes");
        let (mut experiment, lacking) =
            (self.run.experiment.clone(), self.run.manifest.lacking.clone());
        in_closed_loop(&mut experiment);
        experiment.workload.verify = true;
        let bench = self.bench(&experiment, &lacking)?;
        let cell = Cell { arm: arm.name(), target: arm.name(), levels: BTreeMap::new() };
        let planned = Planned { trial: u32::MAX, block: u32::MAX, cell: 0, seed: 1 };
        let outcome = self.directory.join("outcomes/verification.json");
        let _ = fs::remove_file(&outcome);
        let record = bench.trial(&planned, &cell, Attempt::ONLY, &outcome)?;
        let text = fs::read(&outcome).unwrap_or_default();
        compared(&arm.name(), serde_json::from_slice(&text).ok().as_ref(), &record.reasons)
    }

    pub(super) fn end(&mut self, decision: &Decision) -> Result<(), String> {
        write_json(&self.directory.join(DECISION), decision)?;
        let (experiment, lacking) =
            (self.run.experiment.clone(), self.run.manifest.lacking.clone());
        self.bench(&experiment, &lacking)?.rooms.clear();
        for folder in ["scratch", "workload"] {
            let _ = fs::remove_dir_all(self.directory.join(folder));
        }
        Ok(())
    }

    fn tell(&self, what: &str) {
        let left_s = (self.settled.budget_s - self.spent_s).max(0.0);
        let cost = self.settled.around_s + self.settled.window_s;
        let all = self.done + index(left_s / cost).max(1);
        (self.asked.tell)(&Progress { done: self.done, all, left_s, what });
    }
}

impl Field for Stage<'_> {
    fn block(&mut self, turn: &Turn<'_>) -> Result<Vec<Tried>, String> {
        self.name(turn.arms)?;
        let mut all = Vec::new();
        for (Entry { arm, candidate, rate }, at) in turn.arms.iter().zip(0..ARMS_MAX) {
            self.tell(&format!("{}: {arm} at {rate:.0}/s", turn.phase.name()));
            let arm = (arm.clone(), candidate.clone());
            let record = self.trial(turn.block, at, arm, Some(*rate))?;
            all.push(match record.probe {
                Some(probe) => probe.shown,
                None => Tried::Invalid(record.reasons.join("; ")),
            });
            self.done += 1;
            self.spent_s += self.settled.around_s + self.settled.window_s;
        }
        Ok(all)
    }

    fn ended(&mut self, rung: &Rung) -> Result<(), String> {
        append(&self.directory.join(RUNGS_FILE), rung)
    }
}

/// Sends requests one after another on each connection, as fast as they are answered.
fn in_closed_loop(experiment: &mut Experiment) {
    experiment.workload.model = Loop::Closed;
    experiment.workload.slo = None;
    (experiment.guards.lag_p99_ms_max, experiment.guards.client_busy_max) = (1e6, 1.0);
}

/// Result of a load that compared the replies of an arm; `reasons` are of its trial. Fails if a
/// reply was wrong.
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

const EXPERIMENT: &str = include_str!("../../assets/best.toml");

/// The experiment that the trials of a race belong to, with all arms so far. Drops by an arm's
/// queues cost it, and are no reason to leave it out.
pub(super) fn experiment(settled: &Settled, arms: &[Candidate]) -> Result<String, String> {
    // Until that is known any rate will do.
    let rate = (settled.capacity * START).max(1.0);
    let target = |arm: &Candidate| json!({ "name": arm.name(), "config": arm.config });
    let targets: Vec<Value> = [Candidate::default()].iter().chain(arms).map(target).collect();
    let [warm_s, window_s, foreign_max] =
        [settled.warm_s, settled.window_s, settled.foreign_max].map(|value| value.to_string());
    let log = settled.log.as_ref().map(|log| log.to_string_lossy());
    let values = json!({ "baseline": DEFAULT, "root": settled.root, "rate": format!("{rate:.1}"),
        "slo": settled.slo, "log": log, "connections": settled.connections,
        "requests_per_connection": settled.requests_per_connection, "realtime": settled.realtime,
        "server_cpus": settled.server_cpus, "client_cpus": settled.client_cpus,
        "together": settled.together, "left": settled.left, "warm_s": warm_s,
        "window_s": window_s, "foreign_max": foreign_max, "targets": targets,
        "environment": settled.environment });
    filled("best.toml", EXPERIMENT, &values)
}

/// The configuration as a file that `regatta serve --config` takes; `lines` stand above it.
pub(super) fn configuration(root: &str, advice: Option<&Candidate>, lines: &[String]) -> String {
    let mut out: String = lines.iter().map(|line| format!("# {line}\n")).collect();
    let mut section = "server".to_owned();
    let _ = writeln!(out, "\n[server]\nroot = {}", quoted(root));
    let config = advice.map(|advice| advice.config.clone()).unwrap_or_default();
    // [server] has been begun already, so what belongs to it comes first.
    let (server, others): (Vec<_>, Vec<_>) =
        config.iter().partition(|(key, _)| key.starts_with("server."));
    for (key, value) in server.into_iter().chain(others) {
        let (at, name) = key.split_once('.').unwrap_or(("server", key));
        if at != section {
            let _ = writeln!(out, "\n[{at}]");
            at.clone_into(&mut section);
        }
        let plain = value.parse::<i64>().is_ok() || ["true", "false"].contains(&value.as_str());
        let value = if plain { value.clone() } else { quoted(value) };
        let _ = writeln!(out, "{name} = {value}");
    }
    out
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

#[cfg(test)]
mod text_tests {
    use super::*;

    #[test]
    fn configurations_are_toml_in_the_servers_words() {
        let advice = Candidate::of(&[
            ("server.architecture", "symped"),
            ("event.processes", "2"),
            ("event.poller", "epoll-edge"),
            ("cache.body_bytes_max", "0"),
            ("accept.defer", "true"),
        ]);
        let lines = ["It beats \"all\".".to_owned()];
        let text = configuration("/a \"b\"", Some(&advice), &lines);
        let table: toml::Table = text.parse().unwrap();
        assert_eq!(table["server"]["architecture"].as_str(), Some("symped"), "{text}");
        assert_eq!(table["server"]["root"].as_str(), Some("/a \"b\""), "{text}");
        assert_eq!(table["event"]["processes"].as_integer(), Some(2));
        assert_eq!(table["accept"]["defer"].as_bool(), Some(true));
        assert!(text.starts_with("# It beats"));
        let table: toml::Table = configuration("/", None, &[]).parse().unwrap();
        assert_eq!(table.len(), 1);
    }
}
