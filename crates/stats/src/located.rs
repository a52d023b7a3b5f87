//! Location of a sample, at any level of confidence.

use super::paired::{BLOCKS_MIN, Centre};
use super::{Interval, count, index};

/// Most blocks that are worth an answer.
const ENOUGH_MAX: f64 = 1_000.0;

/// The share of fewer samples is not known.
const SAMPLES_MIN: u64 = 100;

/// Location of a sample of four or more values, with its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Located {
    centre: Centre,
    values: usize,
}

impl Located {
    /// None below four values, or if one of them is not a finite number.
    pub fn of(sample: &[f64]) -> Option<Self> {
        let usable = sample.len() >= BLOCKS_MIN && sample.iter().all(|value| value.is_finite());
        usable.then(|| Self { centre: Centre::of(sample), values: sample.len() })
    }

    /// Location of a share, seen in this number of samples; None of fewer than 100.
    pub fn sampled(share: f64, samples: u64) -> Option<Self> {
        let centre = Centre::sampled(share, samples as f64);
        (samples >= SAMPLES_MIN).then_some(Self { centre, values: 1 })
    }

    /// The middle of the values.
    pub fn middle(&self) -> f64 {
        self.centre.mean
    }

    /// Number of values.
    pub fn values(&self) -> usize {
        self.values
    }

    /// The interval of the middle at `level`, such as 0.95.
    pub fn interval(&self, level: f64) -> Interval {
        self.centre.interval(level)
    }

    /// About how many values of this spread tell at `level` on which side of `limit` the middle
    /// is, if it stays where it was seen. None if a thousand do not.
    pub fn enough(&self, limit: f64, level: f64) -> Option<usize> {
        let apart = (self.centre.mean - limit).abs();
        let values =
            count(self.values) * (self.centre.quantile(level) * self.centre.error / apart).powi(2);
        (values <= ENOUGH_MAX).then(|| index(values.ceil()).max(self.values + 1))
    }
}
