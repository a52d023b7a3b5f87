//! Rank methods: no assumption about the noise but that it is as often above as below.

use super::{count, index};
use statrs::distribution::{ContinuousCDF, Normal};

/// Up to this many differences without ties the test is exact.
const EXACT_MAX: usize = 50;

/// Wilcoxon's signed-rank test, two-sided: the probability of a sum of ranks at least as extreme as
/// that of `differences` if these lie around 0. Zeros are left out; ties share ranks, and then (as
/// with more than 50 values) the normal approximation is used. None if nothing is left.
pub fn wilcoxon(differences: &[f64]) -> Option<f64> {
    let mut kept: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    kept.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let n = kept.len();
    if n == 0 || kept.iter().any(|d| d.is_nan()) {
        return None;
    }
    let (mut above, mut ties, mut at) = (0.0, 0.0, 0);
    while at < n {
        let end = at + kept[at..].iter().take_while(|d| d.abs() == kept[at].abs()).count();
        let size = count(end - at);
        let rank = count(at + 1 + end) / 2.0;
        above += rank * count(kept[at..end].iter().filter(|d| **d > 0.0).count());
        ties += size.powi(3) - size;
        at = end;
    }
    let real = count(n);
    let all = real * (real + 1.0) / 2.0;
    let statistic = f64::min(above, all - above);
    let p = if ties == 0.0 && n <= EXACT_MAX {
        (2.0 * cumulative(n, index(statistic))).min(1.0)
    } else {
        let variance = real * (real + 1.0) * (2.0 * real + 1.0) / 24.0 - ties / 48.0;
        2.0 * Normal::standard().cdf((statistic - all / 2.0) / variance.sqrt())
    };
    Some(p.min(1.0))
}

/// Probability that the sum of the positive ranks is at most `sum` when signs are fair coins.
fn cumulative(n: usize, sum: usize) -> f64 {
    let mut ways = vec![0.0; n * (n + 1) / 2 + 1];
    ways[0] = 1.0;
    for rank in 1..=n {
        for at in (rank..ways.len()).rev() {
            ways[at] += ways[at - rank];
        }
    }
    let all: f64 = ways.iter().sum();
    ways.iter().take(sum + 1).sum::<f64>() / all
}
