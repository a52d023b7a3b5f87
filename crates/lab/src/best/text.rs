//! Texts of the race: its experiment, and the configuration that it ends with.

use super::Settled;
use super::race::{Decision, Finalist, Met, Verified};
use super::space::{Candidate, DEFAULT};
use crate::analysis::words;
use crate::stats::Verdict;
use std::fmt::Write;

/// The experiment that the trials of a race belong to, with everybody who took part so far.
pub(super) fn experiment(settled: &Settled, arms: &[Candidate]) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_experiment(settled, arms, &mut out);
    out
}

fn write_experiment(settled: &Settled, arms: &[Candidate], out: &mut String) -> std::fmt::Result {
    let root = quoted(&settled.root);
    writeln!(out, "[experiment]\nname = \"best\"\nbaseline = {}", quoted(DEFAULT))?;
    writeln!(out, "question = \"Which settings serve the files of a directory best here?\"")?;
    writeln!(out, "expect = \"The default, unless another beats it by more than the noise.\"")?;
    writeln!(out, "\n[workload]\nroot = {root}\nverify = false\nloop = \"closed\"")?;
    match &settled.log {
        Some(log) => writeln!(out, "ask = \"log\"\nlog = {}", quoted(&log.to_string_lossy()))?,
        None => writeln!(out, "ask = \"files\"")?,
    }
    writeln!(out, "connections = {}", settled.connections)?;
    writeln!(out, "requests_per_connection = {}", settled.requests_per_connection)?;
    if let Some(slo) = &settled.slo {
        writeln!(out, "slo = {}", quoted(slo))?;
    }
    writeln!(out, "\n[machine]\nrealtime = {}", settled.realtime)?;
    writeln!(out, "server_cpus = {}", quoted(&settled.server_cpus))?;
    writeln!(out, "client_cpus = {}", quoted(&settled.client_cpus))?;
    writeln!(out, "\n[measure]\nblocks = 1\nmetric = {}", quoted(&settled.metric))?;
    writeln!(out, "warm_s = {}\nwindow_s = {}", settled.warm_s, settled.window_s)?;
    // What an arm's queues drop costs it, and is no reason to leave it out.
    writeln!(out, "\n[guards]\nlag_p99_ms_max = 1e6\nclient_busy_max = 1\nsyn_drops_max = 1")?;
    writeln!(out, "foreign_max = {}\nsteal_max = {}", settled.foreign_max, settled.foreign_max)?;
    for arm in [Candidate::default()].iter().chain(arms) {
        let name = quoted(&arm.name());
        writeln!(out, "\n[targets.{name}]\nprogram = \"regatta\"")?;
        for (key, value) in &arm.config {
            writeln!(out, "config.{key} = {}", quoted(value))?;
        }
    }
    match &settled.environment {
        Some(environment) => writeln!(out, "\n{environment}"),
        None => Ok(()),
    }
}

/// A TOML string.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// What the race says, each line on its own.
pub(super) fn told(settled: &Settled, decision: &Decision) -> Vec<String> {
    let mut lines = vec![format!("The site: {}.", settled.site.words())];
    let cpus = settled.means.cpus;
    let memory = crate::record::real(settled.means.memory) / f64::from(1 << 20);
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
        let plateau = if other.plateau && decision.advice.is_some() {
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
    if decision.finalists.iter().filter(|one| one.plateau).count() > 1 && decision.advice.is_some()
    {
        let same: Vec<String> = decision
            .finalists
            .iter()
            .filter(|one| one.plateau)
            .map(|one| one.candidate.name())
            .collect();
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
pub(super) fn verified(found: &Verified) -> String {
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
