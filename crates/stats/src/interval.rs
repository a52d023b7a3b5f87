//! An interval of values.

use serde::{Deserialize, Serialize};

/// An interval, both ends in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Interval that reaches equally far to both sides of a middle.
    pub fn around(middle: f64, reach: f64) -> Self {
        Self { low: middle - reach, high: middle + reach }
    }

    /// Whether `value` lies in it.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Each end put through an increasing function.
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self { low: f(self.low), high: f(self.high) }
    }
}
