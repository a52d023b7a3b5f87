//! Two samples that have nothing to do with each other, compared by their means.

use super::{Centre, count, deviation, mean};

/// Difference of the means of two samples (Welch 1947: they may vary differently); None if either
/// has fewer than two values.
pub fn welch(above: &[f64], below: &[f64]) -> Option<Centre> {
    if above.len().min(below.len()) < 2 {
        return None;
    }
    let part = |sample: &[f64]| deviation(sample).powi(2) / count(sample.len());
    let (a, b) = (part(above), part(below));
    let freedom = (a + b).powi(2)
        / (a.powi(2) / (count(above.len()) - 1.0) + b.powi(2) / (count(below.len()) - 1.0));
    Some(Centre { mean: mean(above) - mean(below), error: (a + b).sqrt(), freedom })
}
