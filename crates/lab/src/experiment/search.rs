//! What is made of each cell: trials of one length, or a search for the rate where it saturates.

use super::fields::{Fields, number};
use serde::{Deserialize, Serialize};
use toml::de::DeValue;

/// What is made of each cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One trial in each block.
    #[default]
    Trials,
    /// A saturation search: the highest rate at which `workload.slo` holds.
    Knee,
}

/// Where the measurement of a trial starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Warm {
    /// After `warm_s`.
    #[default]
    Fixed,
    /// Where the seconds say that it has settled, not before `warm_s`.
    Found,
}

/// How a saturation search goes ([`crate::knee`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KneeSearch {
    /// It ends when the interval reaches no further than this share from the knee.
    pub goal: f64,
    /// The most probes of one cell.
    pub trials_max: u32,
    /// Loads beyond the knee, as multiples of it, each between two calm stretches.
    pub overload: Vec<f64>,
    /// Whether the time is told that goodput takes to come back after the highest of them.
    pub recovery: bool,
}

/// The shortest trial whose warm-up can be found, seconds: four batches of five.
pub(super) const FOUND_S_MIN: f64 = 20.0;
/// Multiples at most.
const OVERLOADS_MAX: usize = 8;

pub(super) fn knee(fields: Fields<'_, '_, '_>) -> KneeSearch {
    let overload = fields.value("overload").map(|value| {
        let multiples: Vec<f64> = match value.get_ref() {
            DeValue::Array(items) => {
                items.iter().filter_map(|item| number(item.get_ref())).collect()
            }
            _ => vec![f64::NAN],
        };
        let right = |times: &f64| (1.0..=10.0).contains(times);
        if multiples.len() > OVERLOADS_MAX || !multiples.iter().all(right) {
            let what = format!("expected up to {OVERLOADS_MAX} multiples of the knee, 1 to 10");
            fields.wrong(value, "overload", &what);
        }
        multiples
    });
    let knee = KneeSearch {
        goal: fields.number("goal", 0.001..=0.5).unwrap_or(0.02),
        trials_max: fields.count("trials_max", 4..=1_000).unwrap_or(60),
        overload: overload.unwrap_or_else(|| vec![1.2, 1.5, 2.0]),
        recovery: fields.flag("recovery").unwrap_or(true),
    };
    fields.finish();
    knee
}
