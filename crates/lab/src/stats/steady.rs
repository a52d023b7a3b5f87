//! Where a run has settled: what came before is warm-up.

use super::{count, mean};
use serde::{Deserialize, Serialize};

/// Values in a batch of MSER-5.
const BATCH: usize = 5;

/// What [`steady`] found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Steady {
    /// Settled from this value on.
    From(usize),
    /// The best cut lies in the second half: it never settled.
    Never,
    /// Too few values to tell.
    Unknown,
}

/// How many leading values of `series` to drop so that the mean of the rest is the surest
/// (MSER-5: White 1997, five values a batch). None if there are fewer than four batches.
pub fn mser5(series: &[f64]) -> Option<usize> {
    let batches: Vec<f64> = series.chunks_exact(BATCH).map(mean).collect();
    if batches.len() < 4 {
        return None;
    }
    // Of two cuts alike the earlier one: it keeps more.
    let mut best = (f64::INFINITY, 0);
    for cut in 0..batches.len() - 2 {
        let rest = &batches[cut..];
        let centre = mean(rest);
        let squares: f64 = rest.iter().map(|value| (value - centre).powi(2)).sum();
        let error = squares / count(rest.len()).powi(2);
        if error < best.0 {
            best = (error, cut);
        }
    }
    Some(best.1 * BATCH)
}

/// Applies [`mser5`]: a cut beyond the middle means that the series never settled.
pub fn steady(series: &[f64]) -> Steady {
    match mser5(series) {
        None => Steady::Unknown,
        Some(cut) if cut * 2 > series.len() => Steady::Never,
        Some(cut) => Steady::From(cut),
    }
}
