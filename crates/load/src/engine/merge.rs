//! `regatta load merge`: one result of the results of shards.

use super::cli::{DONE, FAILED, USAGE, say};
use super::judge::judged;
use super::options::OutputOptions;
use super::outcome::Outcome;
use super::part::{Part, Shards};
use clap::Args;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Args, Clone, Debug)]
pub struct MergeOptions {
    /// Results of shards: what `--shard I/N --json` printed, one file for each.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputOptions,
}

/// Prints the sum of the results of shards. A shard without a result is reported, and makes the
/// exit code 1.
pub fn run(options: &MergeOptions) -> u8 {
    let problems = options.output.problems();
    problems.iter().for_each(|problem| say(problem));
    if !problems.is_empty() {
        return FAILED;
    }
    let mut parts = Vec::new();
    for path in &options.files {
        match read(path) {
            Ok(part) => parts.push((path.display().to_string(), part)),
            Err(problem) => say(&problem),
        }
    }
    let unread = options.files.len() - parts.len();
    if parts.is_empty() {
        return FAILED;
    }
    let outcome = match merge(parts) {
        Ok(outcome) => outcome,
        Err(problem) => {
            say(&problem);
            return USAGE;
        }
    };
    if let Err(problem) = options.output.publish(&outcome) {
        say(&problem);
        return FAILED;
    }
    let is_whole = outcome
        .shards
        .as_ref()
        .is_some_and(|shards| shards.missing.is_empty() && shards.interrupted.is_empty());
    if is_whole && unread == 0 && outcome.meets_slo() { DONE } else { FAILED }
}

fn read(path: &Path) -> Result<Part, String> {
    let name = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    let outcome: Outcome = serde_json::from_str(&text).map_err(|error| {
        format!("{name}: not a whole result: {error}; did this shard end? See its messages")
    })?;
    outcome.part.map(|part| *part).ok_or_else(|| {
        format!("{name}: not the result of a shard: make it with --shard I/N --json")
    })
}

/// Adds up the parts of a load, each with the name of its file.
///
/// # Errors
/// The parts are not of one load.
fn merge(parts: Vec<(String, Part)>) -> Result<Outcome, String> {
    let mut found: BTreeMap<u32, String> = BTreeMap::new();
    let ended_early = parts.iter().filter(|(_, part)| part.interrupted);
    let mut interrupted: Vec<u32> = ended_early.map(|(_, part)| part.shard.index).collect();
    interrupted.sort_unstable();
    let mut parts = parts.into_iter();
    let (first, mut sum) = parts.next().ok_or("no result of a shard: nothing to merge")?;
    let count = sum.shard.count;
    let mut latest = sum.started_unix_ms;
    found.insert(sum.shard.index, first.clone());
    for (name, part) in parts {
        if let Some(difference) = sum.terms.difference(&part.terms) {
            return Err(format!("{first} and {name} are of two loads: {difference}"));
        }
        if part.shard.count != count {
            let other = part.shard.count;
            return Err(format!("{first} is of {count} shards, and {name} of {other}"));
        }
        if let Some(other) = found.insert(part.shard.index, name.clone()) {
            return Err(format!("{other} and {name} are both shard {}", part.shard));
        }
        latest = latest.max(part.started_unix_ms);
        sum.add(part);
    }
    let missing = (0..count).filter(|index| !found.contains_key(index)).collect();
    let present = found.into_keys().collect();
    let apart_ms = latest - sum.started_unix_ms;
    Ok(judged(&sum, Some(Shards { count, present, missing, interrupted, apart_ms })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::arrivals::Rate;
    use crate::engine::fate::Fate;
    use crate::engine::options::{LoadOptions, Model};
    use crate::engine::outcome::Stamp;
    use crate::engine::plan::Plan;
    use crate::engine::shard::Shard;
    use crate::engine::slo::Verdict;
    use crate::engine::tally::{Health, Second, Tally};
    use crate::workload::popularity::{Purpose, stream, unit};

    const COUNT: u32 = 4;

    fn plan(shard: Option<Shard>) -> Plan {
        let model = Model::Open { rate: Rate::constant(2_500.0), connections_max: None };
        let url = "http://127.0.0.1:1/";
        let slo = Some("p99<100s".to_owned());
        Plan::new(&LoadOptions { shard, slo, ..LoadOptions::new(url, model) }).unwrap()
    }

    /// Four shards of 10,000 requests in four seconds, and one process that made them all.
    fn parts() -> (Vec<Part>, Part) {
        let shard = |index| Some(Shard { index, count: COUNT });
        let plans: Vec<Plan> = (0..COUNT).map(|index| plan(shard(index))).collect();
        let whole = plan(None);
        let new = |plan: &Plan| {
            let seconds = (0..4).map(Second::new).collect();
            let mut part = Part::new(plan, &[Tally::new(1, 1)], seconds);
            part.workers = vec![Health { wall_ns: 4_000_000_000, ..Health::default() }];
            part
        };
        let (mut parts, mut sum): (Vec<Part>, Part) =
            (plans.iter().map(new).collect(), new(&whole));
        let mut random = stream(7, 0, Purpose::Arrival);
        for number in 0..10_000_usize {
            let ns = crate::number::nanos_of(0.000_1 * (10.0 * unit(&mut random)).exp());
            let fate = if number % 500 == 7 { Fate::Timeout } else { Fate::Good };
            for part in [&mut parts[number % 4], &mut sum] {
                let tally = &mut part.tally;
                tally.offered += 1;
                tally.fates.count(fate);
                tally.classes[0].count(fate, 10, ns);
                tally.phases.wait.record(ns);
                let second = &mut part.seconds[number / 2_500];
                second.row.offered += 1;
                second.fates.count(fate);
                second.times.record(ns);
                match fate {
                    Fate::Good => tally.response.times.record(ns),
                    _ => tally.response.censor(ns, true),
                }
            }
        }
        (parts, sum)
    }

    /// The part as its file has it.
    fn stored(part: Part) -> (String, Part) {
        let mut outcome = judged(&part, Some(Shards::one(part.shard)));
        let name = format!("{}.json", part.shard.index);
        outcome.part = Some(Box::new(part));
        let text = serde_json::to_string_pretty(&outcome).unwrap();
        let again: Outcome = serde_json::from_str(&text).unwrap();
        (name, *again.part.unwrap())
    }

    /// Counts, percentiles and seconds are those of one process, to the last bit.
    #[test]
    fn the_sum_of_shards_is_the_whole() {
        let (parts, sum) = parts();
        let whole = judged(&sum, None);
        let mut merged = merge(parts.into_iter().rev().map(stored).collect()).unwrap();
        let shards = merged.shards.take().unwrap();
        assert_eq!((shards.count, shards.present.len(), shards.missing.len()), (COUNT, 4, 0));
        assert_eq!(merged.workers.len(), 4);
        merged.workers.clone_from(&whole.workers);
        merged.clients.clone_from(&whole.clients);
        assert_eq!(merged, whole);
        assert_eq!(merged.level.map(|level| level.verdict), Some(Verdict::Met));
        assert_eq!(merged.rows[2].offered, 2_500);
    }

    /// The result of one shard is judged by its own share.
    #[test]
    fn a_shard_has_a_share_of_the_load() {
        let (mut parts, _) = parts();
        let shard = parts.swap_remove(1);
        let outcome = judged(&shard, Some(Shards::one(shard.shard)));
        assert_eq!(outcome.offered, 2_500);
        assert!(outcome.reasons.iter().all(|reason| !reason.why.contains("were offered")));
        assert_eq!(outcome.shards.unwrap().words(), "shard 1/4");
    }

    #[test]
    fn a_shard_that_died_is_missed() {
        let (mut parts, _) = parts();
        parts.remove(2);
        let outcome = merge(parts.into_iter().map(stored).collect()).unwrap();
        assert_eq!(outcome.shards.as_ref().unwrap().missing, [2]);
        let has = |word: &str| outcome.reasons.iter().any(|reason| reason.why.contains(word));
        assert!(has("1 of 4 shards have no result (2)") && has("7500 requests were offered"));
        assert!(!outcome.meets_slo(), "{:?}", outcome.level);
    }

    /// A part that was cut short is no share of the whole.
    #[test]
    fn a_shard_that_was_stopped_is_named() {
        let (mut parts, _) = parts();
        parts[2].interrupted = true;
        let outcome = merge(parts.into_iter().map(stored).collect()).unwrap();
        assert_eq!(outcome.shards.as_ref().unwrap().interrupted, [2]);
        let has = |word: &str| outcome.reasons.iter().any(|reason| reason.why.contains(word));
        assert!(has("1 of 4 shards were stopped before their end (2)"), "{:?}", outcome.reasons);
        assert_eq!(outcome.stamp, Stamp::LimitedByClient);
        assert!(!outcome.meets_slo(), "{:?}", outcome.level);
    }

    #[test]
    fn parts_of_two_loads_are_refused() {
        type Change = fn(&mut Part);
        let rows: [(&str, Change); 5] = [
            ("0.json and 1.json are of two loads: seed 1 and 2", |part| part.terms.seed = 2),
            ("two loads: requests sha256", |part| part.terms.requests_sha256.clear()),
            ("two loads: duration ns 10000000000 and 1", |part| part.terms.duration_ns = Some(1)),
            ("0.json is of 4 shards, and 1.json of 5", |part| part.shard.count = 5),
            ("0.json and 1.json are both shard 0/4", |part| part.shard.index = 0),
        ];
        for (words, change) in rows {
            let (mut parts, _) = parts();
            change(&mut parts[1]);
            let named = parts.into_iter().enumerate().map(|(n, part)| (format!("{n}.json"), part));
            let problem = merge(named.collect()).unwrap_err();
            assert!(problem.contains(words), "{problem}");
        }
        assert!(merge(Vec::new()).is_err());
    }
}
