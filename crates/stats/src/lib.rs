//! Statistics of the lab: what can be said of noisy numbers, and how surely.
//!
//! The unit is a block: every arm once, close together in time. Ratios are taken within blocks
//! ([`compare`]), never between them. All of it is a pure function of the numbers, and [`Random`]
//! is seeded, so a report can be made again.
//!
//! Tests simulate noise whose truth is known, so debug builds optimise this crate. Generic code is
//! compiled where it is used: hot functions are not generic.
#![forbid(unsafe_code)]

mod best;
mod interval;
pub mod knee;
mod located;
mod paired;
mod quantile;
mod random;
mod rank;
mod steady;
mod welch;

pub use best::{Best, Blocks, middle, peak, with};
pub use interval::Interval;
pub use located::Located;
pub use paired::{
    BLOCKS_MIN, Centre, Effect, LEVEL, Verdict, compare, compare_among, judge_together,
};
pub use quantile::order_statistic_interval;
pub use random::Random;
pub use rank::wilcoxon;
pub use steady::{Steady, mser5, steady};
pub use welch::welch;

/// The middle of `values`; NaN for none, which no comparison passes.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of(&sorted, 0.5)
}

/// The mean of `values`; NaN for none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / count(values.len())
}

/// The sample's standard deviation (divisor n − 1); NaN for fewer than two.
pub fn deviation(values: &[f64]) -> f64 {
    let middle = mean(values);
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    if values.len() < 2 { f64::NAN } else { (squares / count(values.len() - 1)).sqrt() }
}

/// The `q`-quantile of ascending `sorted`, between neighbours in proportion (the usual type 7).
fn quantile_of(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = q.clamp(0.0, 1.0) * count(last);
    let low = index(at.floor()).min(last);
    let high = (low + 1).min(last);
    sorted[low] + (sorted[high] - sorted[low]) * (at - count(low))
}

/// Level of each of several chances to be misled, so that all together are at `level` (Bonferroni).
pub fn shared(level: f64, chances: usize) -> f64 {
    1.0 - (1.0 - level) / count(chances.max(1))
}

/// A number of things as a real.
#[expect(clippy::cast_precision_loss, reason = "samples are far fewer than 2^53")]
pub fn count(things: usize) -> f64 {
    things as f64
}

/// A real that counts things as a number of them; below 0 and NaN are 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, and callers bound the result"
)]
pub fn index(real: f64) -> usize {
    real as usize
}

#[cfg(test)]
mod tests;
