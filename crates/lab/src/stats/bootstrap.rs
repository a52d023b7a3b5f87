//! Bootstrap intervals (Efron and Tibshirani 1993; Hesterberg 2015 for small samples).

use super::{Random, count, quantile_of};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// An interval, both ends in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies in it.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Each end put through an increasing function.
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self { low: f(self.low), high: f(self.high) }
    }
}

/// The percentile interval of `statistic` at `level` (such as 0.95), by `resamples` resamples.
/// With `expanded`, the percentiles are moved out so that a sample of n gets the width that
/// Student's t would give it: without that, 95 % intervals of 5 values hold the truth 84 % of
/// the time. Fewer than two values have no interval: None.
pub fn percentile(
    sample: &[f64],
    statistic: impl Fn(&[f64]) -> f64,
    level: f64,
    expanded: bool,
    resamples: usize,
    random: &mut Random,
) -> Option<Interval> {
    if sample.len() < 2 {
        return None;
    }
    let sorted = resample(sample, statistic, resamples, random);
    let n = count(sample.len());
    let tail = (1.0 - level) / 2.0;
    let tail = if expanded {
        let t = StudentsT::new(0.0, 1.0, n - 1.0).expect("n is 2 or more").inverse_cdf(tail);
        standard().cdf((n / (n - 1.0)).sqrt() * t)
    } else {
        tail
    };
    Some(Interval { low: quantile_of(&sorted, tail), high: quantile_of(&sorted, 1.0 - tail) })
}

/// The bias-corrected and accelerated interval. Fewer than two values, or a statistic that does
/// not vary, have none: None.
pub fn bca(
    sample: &[f64],
    statistic: impl Fn(&[f64]) -> f64,
    level: f64,
    resamples: usize,
    random: &mut Random,
) -> Option<Interval> {
    if sample.len() < 2 {
        return None;
    }
    let found = statistic(sample);
    let without: Vec<f64> = (0..sample.len())
        .map(|left_out| {
            let mut rest = sample.to_vec();
            rest.remove(left_out);
            statistic(&rest)
        })
        .collect();
    let centre = super::mean(&without);
    let power = |p: i32| without.iter().map(|one| (centre - one).powi(p)).sum::<f64>();
    let acceleration = power(3) / (6.0 * power(2).powf(1.5));
    let sorted = resample(sample, &statistic, resamples, random);
    let below = sorted.partition_point(|one| *one < found);
    let ties = sorted.partition_point(|one| *one <= found) - below;
    let share = (count(below) + count(ties) / 2.0) / count(sorted.len());
    let bias = standard().inverse_cdf(share);
    let moved = |tail: f64| {
        let z = bias + standard().inverse_cdf(tail);
        standard().cdf(bias + z / (1.0 - acceleration * z))
    };
    let tail = (1.0 - level) / 2.0;
    let (low, high) = (moved(tail), moved(1.0 - tail));
    let usable = low.is_finite() && high.is_finite();
    usable.then(|| Interval { low: quantile_of(&sorted, low), high: quantile_of(&sorted, high) })
}

/// The statistic of each resample, ascending.
fn resample(
    sample: &[f64],
    statistic: impl Fn(&[f64]) -> f64,
    resamples: usize,
    random: &mut Random,
) -> Vec<f64> {
    let mut drawn = vec![0.0; sample.len()];
    let mut found: Vec<f64> = (0..resamples.max(1))
        .map(|_| {
            drawn.fill_with(|| sample[random.below(sample.len())]);
            statistic(&drawn)
        })
        .collect();
    found.sort_by(f64::total_cmp);
    found
}

/// The standard normal distribution.
pub(super) fn standard() -> Normal {
    Normal::new(0.0, 1.0).expect("a deviation of 1 is one")
}

/// How many resamples give the ends of a 95 % interval to about 1 % of its width.
pub(super) const RESAMPLES: usize = 4_000;
