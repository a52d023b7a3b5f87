//! Intervals of quantiles from order statistics: exact whatever the distribution.

use super::Interval;
use statrs::distribution::{Binomial, DiscreteCDF};

/// The interval of the `q`-quantile at `level`: the number of values below it is binomial, so two
/// of the sorted values bound it with at least that probability. None if the sample is too small
/// for one of the ends.
pub fn order_statistic_interval(sample: &[f64], q: f64, level: f64) -> Option<Interval> {
    let n = u64::try_from(sample.len()).ok()?;
    let below = Binomial::new(q, n).ok()?;
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let tail = (1.0 - level) / 2.0;
    // The largest place (1-based) that the quantile is below with at most `tail`.
    let low = (0..n).take_while(|k| below.cdf(*k) <= tail).count();
    let high = (0..=n).find(|k| below.cdf(*k) >= 1.0 - tail)?;
    let high = usize::try_from(high).ok()?;
    let low = sorted.get(low.checked_sub(1)?)?;
    let high = sorted.get(high)?;
    Some(Interval { low: *low, high: *high })
}
