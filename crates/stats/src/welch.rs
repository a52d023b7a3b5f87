//! Two samples that have nothing to do with each other, compared by their means.

use super::{Interval, count, deviation, mean};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Difference of the means of two samples (Welch 1947: they may vary differently).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Apart {
    /// The one's mean less the other's.
    pub difference: f64,
    /// Interval of the difference at the requested level.
    pub interval: Interval,
    /// Two-sided p of there being no difference.
    pub p: f64,
}

/// Compares two samples at a `level` such as 0.95; None if either has fewer than two values.
pub fn welch(above: &[f64], below: &[f64], level: f64) -> Option<Apart> {
    if above.len().min(below.len()) < 2 {
        return None;
    }
    let part = |sample: &[f64]| deviation(sample).powi(2) / count(sample.len());
    let (a, b) = (part(above), part(below));
    let (error, difference) = ((a + b).sqrt(), mean(above) - mean(below));
    let freedom = (a + b).powi(2)
        / (a.powi(2) / (count(above.len()) - 1.0) + b.powi(2) / (count(below.len()) - 1.0));
    let (reach, p) = match StudentsT::new(0.0, 1.0, freedom) {
        Ok(student) => {
            let reach = student.inverse_cdf((1.0 + level) / 2.0) * error;
            (reach, 2.0 * student.cdf(-(difference / error).abs()))
        }
        // Samples that do not vary at all.
        Err(_) => (0.0, if difference == 0.0 { 1.0 } else { 0.0 }),
    };
    Some(Apart { difference, interval: Interval::around(difference, reach), p })
}
