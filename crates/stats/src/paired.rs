//! Paired comparison: the same block, two arms, the logarithm of their ratio.

use super::{Interval, count, deviation, index, mean, shared, wilcoxon};
use serde::{Deserialize, Deserializer, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Fewer blocks than this are no ground for a verdict.
pub const BLOCKS_MIN: usize = 4;
/// Fewer than this have no interval: that of two reaches six times as far as they are apart.
const INTERVAL_MIN: usize = 3;
/// Fewest blocks that are trimmed, by the outermost fifth at each end. A neighbour's burst of work
/// hits a trial or two, and would otherwise be most of the spread.
const TRIM_FROM: usize = 8;
/// The share that is trimmed at each end.
const TRIM: f64 = 0.2;
/// The level of all intervals that are reported.
pub const LEVEL: f64 = 0.95;

/// Comparison of an arm with another over blocks, as a ratio: 1.05 is 5 % more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The typical ratio: the mean of the blocks' log-ratios, from eight blocks on trimmed.
    pub ratio: f64,
    /// The 95 % interval of that by Student's t, from eight blocks on by Yuen's (1974), wider where
    /// it is one of several looks; None below three blocks.
    pub interval: Option<Interval>,
    /// Two-sided p of the paired t test on log-ratios, trimmed as the interval is; 1 below four
    /// blocks, which decide nothing.
    pub p: f64,
    /// Two-sided p of Wilcoxon's signed-rank test; 1 if it does not exist.
    pub p_rank: f64,
    /// Blocks that had both arms.
    pub blocks: usize,
    /// The smallest difference that as many blocks of this spread find four times in five; none is
    /// below four.
    #[serde(deserialize_with = "or_infinite")]
    pub detectable: f64,
}

impl Effect {
    /// No difference over this number of blocks, and no sign of one.
    pub fn untested(blocks: usize) -> Self {
        let (ratio, interval, p, p_rank) = (1.0, None, 1.0, 1.0);
        Self { ratio, interval, p, p_rank, blocks, detectable: f64::INFINITY }
    }
}

/// Reads a number that may be infinite, for which JSON has `null`.
fn or_infinite<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::INFINITY))
}

/// Verdict on an effect.
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
pub fn compare(pairs: &[(f64, f64)]) -> Option<Effect> {
    compare_among(pairs, 1)
}

/// The same, so wide that all of several chances to be misled together mislead once in 20. Only p
/// is of this comparison alone.
pub fn compare_among(pairs: &[(f64, f64)], chances: usize) -> Option<Effect> {
    let logs: Vec<f64> = pairs.iter().filter_map(log_ratio).collect();
    if logs.is_empty() {
        return None;
    }
    let centre = Centre::of(&logs);
    let mut effect = Effect::untested(logs.len());
    effect.ratio = centre.mean.exp();
    effect.p_rank = wilcoxon(&logs).unwrap_or(1.0);
    if logs.len() >= INTERVAL_MIN {
        let student = centre.student();
        let quantile = student.inverse_cdf((1.0 + shared(LEVEL, chances)) / 2.0);
        let interval = Interval::around(centre.mean, quantile * centre.error);
        effect.interval = Some(interval.map(f64::exp));
        if logs.len() >= BLOCKS_MIN {
            effect.p = centre.p();
            let reach = quantile + student.inverse_cdf(0.8);
            effect.detectable = (reach * centre.error).exp_m1();
        }
    }
    Some(effect)
}

/// The logarithm of a pair's ratio; None unless both are above 0.
fn log_ratio((arm, base): &(f64, f64)) -> Option<f64> {
    let usable = *arm > 0.0 && *base > 0.0 && arm.is_finite() && base.is_finite();
    usable.then(|| (arm / base).ln())
}

/// Location of a sample: its mean, trimmed if it is large enough, and the error of that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Centre {
    pub(super) mean: f64,
    /// Standard error of the mean.
    pub(super) error: f64,
    /// Degrees of freedom of its distribution.
    freedom: f64,
}

impl Centre {
    pub(super) fn of(sample: &[f64]) -> Self {
        let n = count(sample.len());
        let cut = if sample.len() < TRIM_FROM { 0 } else { index(TRIM * n) };
        let mut sorted = sample.to_vec();
        sorted.sort_by(f64::total_cmp);
        let kept = &sorted[cut..sorted.len() - cut];
        // The error is that of the sample with its trimmed values moved in (Winsor).
        let (low, high) = (kept[0], kept[kept.len() - 1]);
        let moved: Vec<f64> = sorted.iter().map(|value| value.clamp(low, high)).collect();
        let freedom = count(kept.len()) - 1.0;
        let error = deviation(&moved) * ((n - 1.0) / (count(kept.len()) * freedom)).sqrt();
        Self { mean: mean(kept), error, freedom }
    }

    /// Location of a share, seen in this number of samples.
    pub(super) fn sampled(share: f64, samples: f64) -> Self {
        let error = (share * (1.0 - share) / samples).sqrt();
        Self { mean: share, error, freedom: samples - 1.0 }
    }

    /// Two-sided p of a mean of 0.
    fn p(&self) -> f64 {
        match self.mean.abs() / self.error {
            t if t.is_nan() => 1.0,
            t => 2.0 * self.student().cdf(-t),
        }
    }

    pub(super) fn student(&self) -> StudentsT {
        StudentsT::new(0.0, 1.0, self.freedom).expect("two or more values have freedom")
    }
}

/// Judges effects together, each with the noise floor where it was seen, in a run that has this
/// number of chances to mislead. Returns the corrected p and the verdict of each.
pub fn judged_together(looks: &[(Effect, f64)], chances: usize) -> Vec<(f64, Verdict)> {
    let p: Vec<f64> = looks.iter().map(|(effect, _)| effect.p).collect();
    let corrected = holm(&p).into_iter().map(|p| (p * count(chances)).min(1.0));
    let each = looks.iter().zip(corrected);
    each.map(|((effect, floor), p)| (p, judge(effect, p, *floor))).collect()
}

/// Holm's correction: p values that stay honest when several arms are looked at.
pub(super) fn holm(p: &[f64]) -> Vec<f64> {
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

/// Distance of a program from itself, learnt from the pairs in which it ran twice, of settings that
/// are equally noisy. A few blocks of one hardly say how far that is; those of several do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Floor(Option<(f64, f64, f64)>);

impl Floor {
    /// From the pairs of each setting; nothing is known from fewer than four in all.
    pub fn of(settings: &[Vec<(f64, f64)>]) -> Self {
        let logs: Vec<f64> = settings.iter().flatten().filter_map(log_ratio).collect();
        if logs.len() < BLOCKS_MIN {
            return Self(None);
        }
        let centre = Centre::of(&logs);
        let quantile = centre.student().inverse_cdf((1.0 + LEVEL) / 2.0);
        Self(Some((centre.mean.abs(), quantile * centre.error, count(logs.len()))))
    }

    /// The floor of a comparison over a number of blocks, as a share: the distance that chance
    /// stays within 19 times in 20, or how far the program was from itself if that is more. 0
    /// where nothing is known.
    pub fn over(self, blocks: usize) -> f64 {
        let Some((off, reach, pairs)) = self.0.filter(|_| blocks > 0) else { return 0.0 };
        off.max(reach * (pairs / count(blocks)).sqrt()).exp_m1()
    }

    /// The same at a setting where the program's two runs differ by `same`: never less than that.
    pub fn at(self, same: Option<&Effect>, blocks: usize) -> f64 {
        let here = same.map_or(0.0, |effect| effect.ratio.ln().abs().exp_m1());
        self.over(blocks).max(here)
    }
}

/// Verdict, given the corrected p and the noise floor.
pub(super) fn judge(effect: &Effect, corrected: f64, floor: f64) -> Verdict {
    let outside = effect.ratio.ln().abs() > floor.ln_1p();
    match effect.interval.filter(|_| effect.blocks >= BLOCKS_MIN) {
        None => Verdict::CannotTell,
        Some(interval) if corrected < 1.0 - LEVEL && outside && !interval.contains(1.0) => {
            if effect.ratio > 1.0 { Verdict::More } else { Verdict::Less }
        }
        Some(_) => Verdict::NoDifference,
    }
}
