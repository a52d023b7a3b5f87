//! Place at which a run has settled: all before it is warm-up.

use super::{count, mean, welch};
use serde::{Deserialize, Serialize};

/// Values in a batch of MSER-5.
const BATCH: usize = 5;
/// Halves of what is left that differ by a smaller share are one number.
const APART: f64 = 0.05;
/// Level at which halves must differ.
const SURE: f64 = 0.99;

/// Result of [`steady`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Steady {
    /// Settled from this value on.
    From(usize),
    /// The rest still moves: the run never settled.
    Never,
    /// Too few values to tell.
    Unknown,
}

/// Number of leading values of `series` to drop so that the mean of the rest is the surest (MSER-5:
/// White 1997, five values a batch). At most half: a few batches at the end that happen to be alike
/// would look surer than all. None if there are fewer than four batches.
pub fn mser5(series: &[f64]) -> Option<usize> {
    let batches: Vec<f64> = series.chunks_exact(BATCH).map(mean).collect();
    if batches.len() < 4 {
        return None;
    }
    // Of two cuts alike the earlier one: it keeps more.
    let mut best = (f64::INFINITY, 0);
    for cut in 0..=(batches.len() / 2).min(batches.len() - 3) {
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

/// Applies [`mser5`], and looks whether what it leaves is one number: its two halves surely differ
/// by a twentieth or more in a series that never settled. (That the best cut of all lies in the
/// second half, the usual sign of it, a fifth of steady series show by chance.)
pub fn steady(series: &[f64]) -> Steady {
    let Some(cut) = mser5(series) else { return Steady::Unknown };
    let rest = &series[cut..];
    let (early, late) = rest.split_at(rest.len() / 2);
    let moves = welch(early, late).is_some_and(|apart| {
        let far = apart.mean.abs() > APART * mean(rest).abs();
        far && !apart.interval(SURE).contains(0.0)
    });
    if moves { Steady::Never } else { Steady::From(cut) }
}
