//! The universal scalability law: how throughput grows with concurrency, and why it stops.
//!
//! X(N) = λN / (1 + σ(N − 1) + κN(N − 1)) (Gunther 2007, *Guerrilla Capacity Planning*, §4.4):
//! σ is the share of the work that only one may do at a time, κ the cost for each pair that must
//! agree. With κ > 0 throughput has a peak and falls beyond it.

/// Fewer levels of concurrency than this leave nothing to tell the fit's quality by.
const LEVELS_MIN: usize = 4;

/// A fit of the law.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// λ: throughput of one alone.
    pub alone: f64,
    /// σ: contention, at least 0.
    pub contention: f64,
    /// κ: coherency, at least 0.
    pub coherency: f64,
    /// Measured over fitted, less 1, for each point in their order.
    pub residuals: Vec<f64>,
}

impl Scaling {
    /// Fits points of concurrency and throughput, by least squares of the relative errors; None
    /// below four different levels, or where no such curve goes through them.
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let usable = |&(n, x): &(f64, f64)| n > 0.0 && x > 0.0 && n.is_finite() && x.is_finite();
        let mut levels: Vec<f64> = points.iter().map(|point| point.0).collect();
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        if !points.iter().all(usable) || levels.len() < LEVELS_MIN {
            return None;
        }
        // N/X is linear in 1/λ, σ/λ and κ/λ, none of which may be below 0: of the fits with and
        // without each of the last two, the best that is allowed.
        let terms = [[true, true], [true, false], [false, true], [false, false]];
        let fits = terms.into_iter().filter_map(|terms| Self::with(points, terms));
        let squares = |fit: &Self| fit.residuals.iter().map(|rest| rest * rest).sum::<f64>();
        fits.min_by(|a, b| squares(a).total_cmp(&squares(b)))
    }

    /// With or without contention and coherency.
    fn with(points: &[(f64, f64)], terms: [bool; 2]) -> Option<Self> {
        let row = |n: f64| {
            let term = |at: usize, value: f64| if terms[at] { value } else { 0.0 };
            [1.0, term(0, n - 1.0), term(1, n * (n - 1.0))]
        };
        let mut sums = [[0.0; 4]; 3];
        for &(n, x) in points {
            let (row, y, weight) = (row(n), n / x, (x / n) * (x / n));
            for (at, sum) in sums.iter_mut().enumerate() {
                for (of, cell) in sum.iter_mut().take(3).enumerate() {
                    *cell += weight * row[at] * row[of];
                }
                sum[3] += weight * row[at] * y;
            }
        }
        for (at, wanted) in terms.into_iter().enumerate() {
            // A term that is left out is 0.
            if !wanted {
                sums[at + 1] = [0.0; 4];
                sums[at + 1][at + 1] = 1.0;
            }
        }
        let [one, contention, coherency] = solve(sums)?;
        if one <= 0.0 || contention < 0.0 || coherency < 0.0 {
            return None;
        }
        let mut fit = Self {
            alone: 1.0 / one,
            contention: contention / one,
            coherency: coherency / one,
            residuals: Vec::new(),
        };
        fit.residuals = points.iter().map(|&(n, x)| x / fit.at(n) - 1.0).collect();
        fit.residuals.iter().all(|rest| rest.is_finite()).then_some(fit)
    }

    /// Throughput at a concurrency.
    pub fn at(&self, n: f64) -> f64 {
        let Self { alone, contention, coherency, .. } = self;
        alone * n / (1.0 + contention * (n - 1.0) + coherency * n * (n - 1.0))
    }

    /// Place and height of the peak; None if throughput never falls.
    pub fn peak(&self) -> Option<(f64, f64)> {
        let n = ((1.0 - self.contention) / self.coherency).sqrt();
        (n.is_finite() && n > 0.0).then(|| (n, self.at(n)))
    }

    /// The largest residual's size.
    pub fn worst(&self) -> f64 {
        self.residuals.iter().fold(0.0, |worst, rest| f64::max(worst, rest.abs()))
    }
}

/// Solves three equations (Gauss, with the largest pivot); None if they are not independent.
fn solve(mut rows: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for at in 0..3 {
        let largest = (at..3).max_by(|a, b| rows[*a][at].abs().total_cmp(&rows[*b][at].abs()))?;
        rows.swap(at, largest);
        let pivot = rows[at];
        if pivot[at].abs() < f64::MIN_POSITIVE {
            return None;
        }
        let others = rows.iter_mut().enumerate().filter(|(other, _)| *other != at);
        for (_, row) in others {
            let factor = row[at] / pivot[at];
            row.iter_mut().zip(pivot).for_each(|(cell, above)| *cell -= factor * above);
        }
    }
    Some([0, 1, 2].map(|at| rows[at][3] / rows[at][at]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    fn law(alone: f64, contention: f64, coherency: f64) -> Scaling {
        Scaling { alone, contention, coherency, residuals: Vec::new() }
    }

    const LEVELS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

    #[test]
    fn known_curves_are_found_again() {
        for (alone, contention, coherency) in
            [(1_000.0, 0.05, 0.000_1), (250.0, 0.0, 0.001), (40_000.0, 0.3, 0.0), (7.0, 0.0, 0.0)]
        {
            let truth = law(alone, contention, coherency);
            let points = LEVELS.map(|n| (n, truth.at(n)));
            let fit = Scaling::fit(&points).unwrap();
            assert!((fit.alone / alone - 1.0).abs() < 1e-6, "{fit:?}");
            assert!((fit.contention - contention).abs() < 1e-8, "{fit:?}");
            assert!((fit.coherency - coherency).abs() < 1e-9, "{fit:?}");
            assert!(fit.worst() < 1e-6, "{fit:?}");
        }
    }

    #[test]
    fn noise_moves_the_fit_a_little_and_shows_in_its_residuals() {
        let truth = law(1_000.0, 0.05, 0.000_5);
        let mut random = Random::new(3);
        for _ in 0..20 {
            let points = LEVELS.map(|n| (n, truth.at(n) * (0.02 * random.normal()).exp()));
            let fit = Scaling::fit(&points).unwrap();
            assert!((fit.contention - 0.05).abs() < 0.03, "{fit:?}");
            let (n, x) = fit.peak().unwrap();
            let (known_n, known_x) = truth.peak().unwrap();
            assert!((n / known_n).ln().abs() < 0.2 && (x / known_x).ln().abs() < 0.06, "{fit:?}");
            assert!(fit.worst() > 0.0 && fit.worst() < 0.1, "{fit:?}");
        }
    }

    #[test]
    fn the_peak_is_where_nothing_near_is_higher() {
        let truth = law(1_000.0, 0.05, 0.000_5);
        let (n, x) = truth.peak().unwrap();
        assert!((n - (0.95_f64 / 0.000_5).sqrt()).abs() < 1e-9);
        assert!(truth.at(n * 1.01) < x && truth.at(n * 0.99) < x);
        assert_eq!(law(1.0, 0.3, 0.0).peak(), None);
    }

    #[test]
    fn what_cannot_be_fitted_is_not() {
        let few = [(1.0, 1.0), (2.0, 2.0), (4.0, 3.0), (4.0, 3.1)];
        assert_eq!(Scaling::fit(&few), None);
        assert_eq!(Scaling::fit(&LEVELS.map(|n| (n, 0.0))), None);
        // Better than proportional: no contention can say that, so none is claimed.
        let fit = Scaling::fit(&LEVELS.map(|n| (n, n.powf(1.2)))).unwrap();
        assert_eq!((fit.contention, fit.coherency), (0.0, 0.0));
        assert!(fit.worst() > 0.2, "{fit:?}");
    }
}
