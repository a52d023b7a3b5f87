//! What is kept of a trial: one line of JSON in `results.jsonl`, written when it ends.

mod cell;
pub(crate) mod ruled;

pub use cell::{AGAIN, Cell};
pub(crate) use cell::{levels, target_option};
pub(crate) use ruled::kept;
pub use ruled::{Broken, PAPERS, Ruled};

use crate::knee::Tried;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its place in the plan.
    pub trial: u32,
    /// How often it had been tried before.
    pub attempt: u32,
    /// Its block.
    pub block: u32,
    /// What was measured.
    pub cell: Cell,
    /// Seed of its load.
    pub seed: u64,
    /// When it started, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Whether it counts.
    pub valid: bool,
    /// Why it does not; also what is to be known of one that does.
    pub reasons: Vec<String>,
    /// Every number, by name: docs/lab.md lists them.
    pub metrics: Numbers,
    /// The server's own counters over the measurement.
    pub counters: Numbers,
    /// Response (in the closed model: service) times: quantile and milliseconds.
    pub spectrum: Vec<(f64, f64)>,
    /// Second by second.
    pub series: Vec<Second>,
    /// What the papers' rules of verification say of it; empty: they were not asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Ruled>,
    /// What it was in a saturation search; None: a trial of a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
}

/// A trial of a saturation search, or of the overload after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The rate that was offered; in overload the knee. Requests (sessions) per second.
    pub rate: f64,
    /// In overload: the multiple of the knee.
    pub times: Option<f64>,
    /// What it showed.
    pub shown: Tried,
}

/// One second of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Its number from the load's start.
    pub second: u64,
    /// Whether it lies within the measurement.
    pub counts: bool,
    /// Requests that became due.
    pub offered: u64,
    /// Good answers.
    pub good: u64,
    /// Failures.
    pub errors: u64,
    /// 99th percentile of what ended in it, milliseconds.
    pub p99_ms: f64,
    /// Requests in flight at its end.
    pub in_flight: u64,
    /// Processors' worth of time that the server used; None where it was not sampled.
    #[serde(default)]
    pub server_cpu: Option<f64>,
    /// Processors' worth of time that the load used.
    #[serde(default)]
    pub client_cpu: Option<f64>,
    /// Share of all processors' time that the hypervisor took.
    #[serde(default)]
    pub steal: Option<f64>,
}

/// Named numbers.
pub(crate) type Numbers = BTreeMap<String, f64>;

#[cfg(test)]
pub(crate) fn numbers<const COUNT: usize>(all: [(&str, f64); COUNT]) -> Numbers {
    all.map(|(name, value)| (name.to_owned(), value)).into()
}

/// How far apart the server's and the client's processors were before a trial and after it.
pub(crate) const APART: [&str; 2] = ["core_to_core_ns", "core_to_core_after_ns"];
