//! Record of a trial: a line of JSON in `results.jsonl`, written when the trial ends.

use crate::knee::Tried;
use regatta_load::engine::Ruling;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub trial: u32,
    /// Number of earlier attempts.
    pub attempt: u32,
    pub block: u32,
    pub cell: Cell,
    pub seed: u64,
    pub started_unix_ms: u64,
    pub valid: bool,
    /// Reasons for which it does not count; also notes on one that does.
    pub reasons: Vec<String>,
    /// Every number, by name: docs/lab.md lists them.
    pub metrics: Numbers,
    /// The server's own counters over the measurement.
    pub counters: Numbers,
    /// Response (in the closed model: service) times: quantile and milliseconds.
    pub spectrum: Vec<(f64, f64)>,
    pub series: Vec<Second>,
    /// Verdicts of the papers' rules of verification; empty: they were not asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Ruled>,
    /// Role in a saturation search; None: a trial of a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The rate that was offered; in overload the knee. Requests (sessions) per second.
    pub rate: f64,
    /// In overload: the multiple of the knee.
    pub times: Option<f64>,
    pub shown: Tried,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Number of the second from the load's start.
    pub second: u64,
    pub counts: bool,
    pub offered: u64,
    pub good: u64,
    pub errors: u64,
    /// 99th percentile of what ended in it, milliseconds.
    pub p99_ms: f64,
    /// Requests in flight at its end.
    pub in_flight: u64,
    /// Processors' worth of time that the server used; None where it was not sampled.
    #[serde(default)]
    pub server_cpu: Option<f64>,
    #[serde(default)]
    pub client_cpu: Option<f64>,
    /// Share of all processors' time that the hypervisor took.
    #[serde(default)]
    pub steal: Option<f64>,
}

pub(crate) type Numbers = BTreeMap<String, f64>;

#[cfg(test)]
pub(crate) fn numbers<const COUNT: usize>(all: [(&str, f64); COUNT]) -> Numbers {
    all.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Distance of the server's and the client's processors before a trial and after it.
pub(crate) const APART: [&str; 2] = ["core_to_core_ns", "core_to_core_after_ns"];

/// Addition to the baseline's name in the arm that runs it a second time.
pub const AGAIN: &str = " (again)";

/// An arm at a setting of the factors.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    /// The target's name, for the second baseline with [`AGAIN`].
    pub arm: String,
    pub target: String,
    /// Each factor that concerns it: path to level.
    pub levels: BTreeMap<String, String>,
}

impl Cell {
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.arm, levels(self)).trim_end().to_owned()
    }

    /// The levels that concern all arms.
    pub(crate) fn setting(&self) -> Vec<(&String, &String)> {
        self.levels.iter().filter(|(path, _)| target_option(path).is_none()).collect()
    }

    /// The options of its target that its levels set.
    pub(crate) fn options(&self) -> BTreeMap<String, String> {
        let of = |(path, level): (&String, &String)| {
            let (name, key) = target_option(path)?;
            (name == self.target).then(|| (key.to_owned(), level.clone()))
        };
        self.levels.iter().filter_map(of).collect()
    }
}

/// The levels of a cell in words.
pub(crate) fn levels(cell: &Cell) -> String {
    let word = |(path, level): (&String, &String)| {
        let name = path.rsplit(['.']).next().unwrap_or(path).to_owned();
        format!("{name}={level}")
    };
    cell.levels.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// The target and the option that the path of a factor names; None if it is no target's.
pub(crate) fn target_option(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix("targets.")?.split_once(".config.")
}

/// The papers that have such rules: their name in results, and their mark.
pub const PAPERS: [(&str, &str); 2] = [("eurosys07", "[E]"), ("systor12", "[S]")];

/// The judgement of a paper's rules on a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruled {
    /// A name of [`PAPERS`].
    pub paper: String,
    /// The rules that it breaks; empty: the paper would have published it.
    pub broken: Vec<Broken>,
}

/// A rule that a trial breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    pub rule: String,
    /// In how many places: sizes of files, and clients.
    pub places: usize,
    /// The last of them in words. Sizes go up, so it is of the largest file, which fails first
    /// (\[E\] §3.4).
    pub last: String,
}

/// The part of a load's rulings that is kept: breaches can be a thousand.
pub(crate) fn kept(rulings: &[Ruling]) -> Vec<Ruled> {
    rulings
        .iter()
        .map(|ruling| {
            let mut ruled = Ruled { paper: ruling.paper.clone(), broken: Vec::new() };
            for breach in &ruling.breaches {
                let (rule, words) = breach.split_once(": ").unwrap_or(("", breach));
                match ruled.broken.iter_mut().find(|broken| broken.rule == rule) {
                    Some(broken) => {
                        broken.places += 1;
                        words.clone_into(&mut broken.last);
                    }
                    None => {
                        let (rule, last) = (rule.to_owned(), words.to_owned());
                        ruled.broken.push(Broken { rule, places: 1, last });
                    }
                }
            }
            ruled
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A load's output that breaks these rules of a paper, in these words.
    pub(crate) fn ruled(paper: &str, breaches: &[&str]) -> Vec<Ruled> {
        let breaches = breaches.iter().map(|breach| (*breach).to_owned()).collect();
        kept(&[Ruling { paper: paper.to_owned(), breaches }])
    }

    #[test]
    fn of_many_breaches_the_largest_files_is_kept() {
        let breaches = [
            "E-1: 12.00 % timed out, not 10.00 (12/100)",
            "E-2: 20.00 % timed out, not 14.00 (2/10, files of 102 bytes)",
            "E-2: 50.00 % timed out, not 14.00 (5/10, files of 921600 bytes)",
        ];
        let ruled = &ruled("eurosys07", &breaches)[0];
        let names: Vec<(&str, usize)> =
            ruled.broken.iter().map(|one| (one.rule.as_str(), one.places)).collect();
        assert_eq!(names, [("E-1", 1), ("E-2", 2)]);
        assert!(ruled.broken[1].last.ends_with("files of 921600 bytes)"), "{ruled:?}");
        assert!(kept(&[]).is_empty());
        let text = serde_json::to_string(ruled).unwrap();
        assert_eq!(serde_json::from_str::<Ruled>(&text).unwrap(), *ruled);
    }
}
