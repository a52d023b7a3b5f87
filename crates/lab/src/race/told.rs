//! A race, as far as it has come: read from its run, and said in sentences.

use super::site::Site;
use super::space::{Candidate, DEFAULT, Means};
use super::{Decision, Finalist, Met, Rung, Verified};
use crate::journal::Run;
use crate::stats::Verdict;
use crate::units::words;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

pub(crate) const SETTLED: &str = "best.json";
pub(crate) const RUNGS_FILE: &str = "race.jsonl";
pub(crate) const DECISION: &str = "decision.json";
pub(crate) const CONFIGURATION: &str = "best.toml";

/// What is settled before the race: `best.json` in the run's directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    /// The directory that is served.
    pub root: String,
    /// What is in it.
    pub site: Site,
    /// What the server may use.
    pub means: Means,
    /// Seconds that it may take.
    pub budget_s: f64,
    /// Seed of order and loads.
    pub seed: u32,
    /// The server's processors.
    pub server_cpus: String,
    /// The load's processors.
    pub client_cpus: String,
    /// Whether both run before everything else.
    pub realtime: bool,
    /// The number that decides.
    pub metric: String,
    /// Whether `metric` has been found out.
    pub scouted: bool,
    /// Time before each measurement, seconds.
    pub warm_s: f64,
    /// Length of each measurement, seconds.
    pub window_s: f64,
    /// What a trial costs besides its window, seconds.
    pub around_s: f64,
    /// The text of `[environment]`.
    pub environment: Option<String>,
    /// The service level.
    pub slo: Option<String>,
    /// The access log that says what is asked for.
    pub log: Option<PathBuf>,
    /// Connections of the load.
    pub connections: u32,
    /// Requests on each connection; 0: no limit.
    pub requests_per_connection: u32,
    /// The most that others may use of the server's processors.
    pub foreign_max: f64,
}

/// A race, as far as it has come, for its report.
#[derive(Clone, Debug)]
pub struct Told {
    /// What was settled before it.
    pub settled: Settled,
    /// Its rungs.
    pub rungs: Vec<Rung>,
    /// Its result, if it has ended.
    pub decision: Option<Decision>,
    /// The configuration that it ended with.
    pub configuration: Option<String>,
}

/// Reads the race of a run; None if it is no race.
pub fn told(run: &Run) -> Option<Told> {
    let read = |name: &str| fs::read_to_string(run.directory.join(name)).ok();
    let settled: Settled = serde_json::from_str(&read(SETTLED)?).ok()?;
    let rungs = read(RUNGS_FILE).unwrap_or_default();
    Some(Told {
        settled,
        rungs: rungs.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
        decision: read(DECISION).and_then(|text| serde_json::from_str(&text).ok()),
        configuration: read(CONFIGURATION),
    })
}

impl Told {
    /// What its comparison of replies with the files found.
    pub fn verified(&self) -> Option<&Verified> {
        self.decision.as_ref()?.verified.as_ref()
    }

    /// The same in a sentence.
    pub fn compared(&self) -> Option<String> {
        self.verified().map(verified)
    }

    /// What it says, in sentences.
    pub fn answer(&self) -> String {
        match &self.decision {
            Some(decision) => sentences(&self.settled, decision)[2..].join(" "),
            None => format!("The race has not ended: {} rungs were made.", self.rungs.len()),
        }
    }
}

/// What the race says, each line on its own.
pub(crate) fn sentences(settled: &Settled, decision: &Decision) -> Vec<String> {
    let mut lines = vec![format!("The site: {}.", settled.site.words())];
    let cpus = settled.means.cpus;
    let memory = crate::units::real(settled.means.memory) / f64::from(1 << 20);
    lines.push(format!(
        "The server's part of this machine: {cpus} processor{}, {memory:.0} MiB of memory{}.",
        if cpus == 1 { "" } else { "s" },
        if settled.environment.is_some() { ", in the environment that was given" } else { "" }
    ));
    let half = if settled.slo.is_some() { ", trials that miss the level counted half" } else { "" };
    let gain = format!("{}{half}", gain_words(&settled.metric));
    let chosen = |one: &&Finalist| Some(&one.candidate) == decision.advice.as_ref();
    match decision.finalists.iter().find(chosen) {
        Some(chosen) => lines.push(format!(
            "{} beats the default: {} {gain}. {}",
            chosen.candidate.name(),
            range(chosen),
            sure(chosen, decision)
        )),
        None if decision.finalists.iter().all(|one| one.verdict == Verdict::CannotTell) => lines
            .push(format!(
                "Keep the default: the budget is too small to tell anything (blocks of the final: \
                 {}, and four are the fewest).",
                decision.blocks
            )),
        None if decision.finalists.iter().any(|one| one.breaks_level) => {
            lines.push("Keep the default: nothing beats it that also keeps the level.".to_owned());
        }
        None => lines.push(format!(
            "Keep the default: nothing beats it by more than the noise (floor ±{:.1} %).",
            100.0 * decision.floor
        )),
    }
    let others = decision.finalists.iter().filter(|one| !chosen(one));
    for (at, other) in others.enumerate() {
        let what = match (at, &decision.advice) {
            (0, Some(_)) => "Runner-up",
            (0, None) => "Next",
            _ => "Then",
        };
        let plateau = if other.breaks_level {
            "; it breaks the level, and is no advice"
        } else if other.plateau && decision.advice.is_some() {
            "; within the noise of the best"
        } else {
            ""
        };
        lines.push(format!(
            "{what}: {}: {} {gain}{plateau}.",
            other.candidate.name(),
            range(other)
        ));
    }
    let same = decision.finalists.iter().filter(|one| one.plateau);
    let same: Vec<String> = same.map(|one| one.candidate.name()).collect();
    if same.len() > 1 && decision.advice.is_some() {
        lines.push(format!("Any of these is within the noise: {}.", same.join("; ")));
    }
    lines.extend(settled.slo.as_ref().map(|slo| levels(slo, decision)));
    if decision.advice.as_ref().is_some_and(Candidate::counts_processes) {
        lines.push(format!(
            "That number of processes is for {cpus} processor{}: with more, race on those.",
            if cpus == 1 { "" } else { "s" }
        ));
    }
    lines.extend(decision.verified.as_ref().map(verified));
    lines
}

/// Who met the service level, and whether the advice does.
fn levels(slo: &str, decision: &Decision) -> String {
    let each = |one: &Met| format!("{} in {} of {} trials", one.arm, one.met, one.trials);
    let told: Vec<String> = decision.levels.iter().map(each).collect();
    let name = decision.advice.as_ref().map_or(DEFAULT.to_owned(), Candidate::name);
    let advised = decision.levels.iter().find(|one| one.arm == name);
    let misses = advised.is_none_or(|one| 2 * one.met < one.trials.max(1));
    let warning = if misses { format!(" {name} does NOT meet it here.") } else { String::new() };
    format!("The level {slo} was met by {}.{warning}", told.join("; "))
}

/// What a comparison of replies with the files found, in a sentence.
fn verified(found: &Verified) -> String {
    let Verified { arm, answers, compared, why } = found;
    if found.is_whole() {
        return format!(
            "Every byte of {answers} replies of {arm} was compared with the files, in a run of its \
             own: none was wrong."
        );
    }
    let why = why.as_deref().unwrap_or("it is not known why");
    format!(
        "UNVERIFIED: of {answers} replies of {arm} those compared with the files were {compared}: \
         {why}."
    )
}

fn range(one: &Finalist) -> String {
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let interval = one.effect.interval.map_or(String::new(), |interval| {
        format!(" ({:+.1} to {:+.1} %)", percent(interval.low), percent(interval.high))
    });
    format!("{:+.1} %{interval}", percent(one.effect.ratio))
}

fn sure(one: &Finalist, decision: &Decision) -> String {
    format!(
        "p = {:.4} (Holm) over {} fresh blocks; noise floor ±{:.1} %.",
        one.corrected,
        one.effect.blocks,
        100.0 * decision.floor
    )
}

/// What more of the score means.
fn gain_words(metric: &str) -> String {
    match metric {
        "good_per_s" => "good answers per second".to_owned(),
        other => format!("answers for the same {}", words(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_race_says_who_meets_the_level() {
        let met = |arm: &str, met| Met { arm: arm.to_owned(), met, trials: 12 };
        let mut decision = Decision {
            advice: None,
            finalists: Vec::new(),
            floor: 0.02,
            blocks: 12,
            verified: None,
            levels: vec![met("default", 12), met("amped", 3)],
        };
        let said = levels("p99<5ms", &decision);
        assert!(said.contains("default in 12 of 12 trials; amped in 3 of 12"), "{said}");
        assert!(!said.contains("NOT"), "{said}");
        decision.advice = Some(Candidate::of(&[("server.architecture", "amped")]));
        let said = levels("p99<5ms", &decision);
        assert!(said.ends_with("amped does NOT meet it here."), "{said}");
    }

    #[test]
    fn a_race_says_whether_its_winner_was_compared() {
        let mut found = Verified { arm: "amped".to_owned(), answers: 50, compared: 50, why: None };
        assert!(verified(&found).contains("50 replies of amped") && found.is_whole());
        (found.compared, found.why) = (0, Some("it ended".to_owned()));
        assert!(verified(&found).starts_with("UNVERIFIED: of 50 replies"), "{found:?}");
        assert!(verified(&found).ends_with("0: it ended."), "{found:?}");
    }
}
