//! Paired comparison: the same block, two arms, the logarithm of their ratio.

use super::bootstrap::{self, RESAMPLES};
use super::{Interval, Random, count, deviation, hodges_lehmann, mean, wilcoxon};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Fewer blocks than this say nothing about the next block.
const BLOCKS_MIN: usize = 4;
/// The level of all intervals that are reported.
const LEVEL: f64 = 0.95;

/// How one arm compares with another over blocks, as a ratio: 1.05 is 5 % more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The typical ratio (Hodges–Lehmann estimate over the blocks' log-ratios).
    pub ratio: f64,
    /// 95 % interval of the mean ratio (expanded bootstrap over blocks); None below four blocks.
    pub interval: Option<Interval>,
    /// Two-sided p of the paired t test on log-ratios; 1 below four blocks.
    pub p: f64,
    /// Two-sided p of Wilcoxon's signed-rank test, beside it; 1 if it cannot be had.
    pub p_rank: f64,
    /// Blocks that had both arms.
    pub blocks: usize,
    /// The smallest difference that so many blocks of this spread find four times in five.
    pub detectable: f64,
}

/// What may be said of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// More, surely.
    More,
    /// Less, surely.
    Less,
    /// No difference was seen; the interval says how large one could be.
    NoDifference,
    /// Too few blocks.
    CannotTell,
}

/// Compares pairs `(arm, baseline)`, each from one block. Pairs that are not both above 0 are left
/// out. None if no pair is left.
pub fn compare(pairs: &[(f64, f64)], seed: u64) -> Option<Effect> {
    let usable = |pair: &&(f64, f64)| {
        pair.0 > 0.0 && pair.1 > 0.0 && pair.0.is_finite() && pair.1.is_finite()
    };
    let logs: Vec<f64> = pairs.iter().filter(usable).map(|(arm, base)| (arm / base).ln()).collect();
    if logs.is_empty() {
        return None;
    }
    let mut effect = Effect {
        ratio: hodges_lehmann(&logs).exp(),
        interval: None,
        p: 1.0,
        p_rank: wilcoxon(&logs).map_or(1.0, |test| test.p),
        blocks: logs.len(),
        detectable: f64::INFINITY,
    };
    if logs.len() >= BLOCKS_MIN {
        let mut random = Random::new(seed);
        let found = bootstrap::percentile(&logs, mean, LEVEL, true, RESAMPLES, &mut random);
        effect.interval = found.map(|interval| interval.map(f64::exp));
        let n = count(logs.len());
        let error = deviation(&logs) / n.sqrt();
        let student = StudentsT::new(0.0, 1.0, n - 1.0).expect("n is 4 or more");
        effect.p = match mean(&logs).abs() / error {
            t if t.is_nan() => 1.0,
            t => 2.0 * student.cdf(-t),
        };
        let reach = student.inverse_cdf(0.975) + student.inverse_cdf(0.8);
        effect.detectable = (reach * error).exp_m1();
    }
    Some(effect)
}

/// Holm's correction: p values that stay honest when several arms are looked at.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut corrected = vec![1.0; p.len()];
    let mut most = 0.0_f64;
    for (at, which) in order.into_iter().enumerate() {
        most = most.max(p[which] * count(p.len() - at)).min(1.0);
        corrected[which] = most;
    }
    corrected
}

/// The noise floor: how far a program compared with itself was from 1, its interval included, as
/// a share. 0 without a comparison.
pub fn noise_floor(same: Option<&Effect>) -> f64 {
    let Some(interval) = same.and_then(|effect| effect.interval) else { return 0.0 };
    f64::max(interval.high.ln().abs(), interval.low.ln().abs()).exp_m1()
}

/// What may be said, given the corrected p and the noise floor.
pub fn judge(effect: &Effect, corrected: f64, floor: f64) -> Verdict {
    let outside = effect.ratio.ln().abs() > floor.ln_1p();
    match effect.interval {
        None => Verdict::CannotTell,
        Some(interval) if corrected < 1.0 - LEVEL && outside && !interval.contains(1.0) => {
            if effect.ratio > 1.0 { Verdict::More } else { Verdict::Less }
        }
        Some(_) => Verdict::NoDifference,
    }
}
