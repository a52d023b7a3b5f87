//! Paired comparison: the same block, two arms, the logarithm of their ratio.

use super::{Interval, count, quantile_of, shared, wilcoxon};
use serde::{Deserialize, Deserializer, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Fewer blocks than this are no ground for a verdict.
pub const BLOCKS_MIN: usize = 4;
/// Fewer than this have no interval: that of two reaches six times as far as they are apart.
const INTERVAL_MIN: usize = 3;
/// The level of all intervals that are reported.
pub const LEVEL: f64 = 0.95;
/// Degrees of freedom with which Student's t is the normal distribution for all that is printed.
const FREEDOM_MANY: f64 = 1_000.0;
/// Degrees of freedom of an estimate's error for each value, and the fewest that are reduced so.
const FREEDOM_OF_VALUE: (f64, f64) = (0.75, 5.0);

/// Comparison of an arm with another over blocks, as a ratio: 1.05 is 5 % more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The typical ratio: Hodges and Lehmann's estimate (1963) of the blocks' log-ratios.
    pub ratio: f64,
    /// The 95 % interval of that, wider where it is one of several; None below three blocks.
    pub interval: Option<Interval>,
    /// Two-sided p of the same test, corrected as the interval is; 1 below four blocks, which
    /// decide nothing.
    pub p: f64,
    /// Two-sided p of Wilcoxon's signed-rank test; 1 if it does not exist.
    pub p_rank: f64,
    /// Blocks that had both arms.
    pub blocks: usize,
    /// The smallest difference that as many blocks of this spread find four times in five; none is
    /// below four.
    #[serde(deserialize_with = "or_infinite")]
    pub detectable: f64,
    /// The ratio's logarithm, with its error.
    #[serde(skip)]
    centre: Centre,
}

impl Effect {
    /// Effect of a logarithm with its error, from this number of blocks. It is one of `chances` to
    /// be misled, which together mislead once in 20.
    pub fn new(centre: Centre, blocks: usize, chances: usize) -> Self {
        let mut effect = Self {
            ratio: centre.mean.exp(),
            interval: None,
            p: 1.0,
            p_rank: 1.0,
            blocks,
            detectable: f64::INFINITY,
            centre,
        };
        if blocks >= INTERVAL_MIN {
            effect.interval = Some(centre.interval(shared(LEVEL, chances)).map(f64::exp));
        }
        if blocks >= BLOCKS_MIN {
            effect.p = (centre.p() * count(chances)).min(1.0);
            let reach = centre.quantile(shared(LEVEL, chances)) + centre.student().inverse_cdf(0.8);
            effect.detectable = (reach * centre.error).exp_m1();
        }
        effect
    }

    /// Verdict on the effect: its whole interval is above 1, or below.
    pub fn verdict(&self) -> Verdict {
        match self.interval.filter(|_| self.blocks >= BLOCKS_MIN) {
            None => Verdict::CannotTell,
            Some(interval) if interval.low > 1.0 => Verdict::More,
            Some(interval) if interval.high < 1.0 => Verdict::Less,
            Some(_) => Verdict::NoDifference,
        }
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

/// The same as one of several chances to be misled, which together mislead once in 20.
pub fn compare_among(pairs: &[(f64, f64)], chances: usize) -> Option<Effect> {
    let logs: Vec<f64> = pairs.iter().filter_map(log_ratio).collect();
    if logs.is_empty() {
        return None;
    }
    let p_rank = wilcoxon(&logs).unwrap_or(1.0);
    Some(Effect { p_rank, ..Effect::new(Centre::of(&logs), logs.len(), chances) })
}

/// The logarithm of a pair's ratio; None unless both are above 0.
fn log_ratio((arm, base): &(f64, f64)) -> Option<f64> {
    let usable = *arm > 0.0 && *base > 0.0 && arm.is_finite() && base.is_finite();
    usable.then(|| (arm / base).ln())
}

/// Location of a sample with its error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Centre {
    /// Middle of the sample.
    pub mean: f64,
    /// Standard error of the middle.
    pub error: f64,
    /// Degrees of freedom of that.
    pub freedom: f64,
}

impl Centre {
    /// Hodges and Lehmann's estimate: the median of the means of all pairs of values, each with
    /// itself as well. Its error is half the distance between those means that lie a deviation of
    /// Wilcoxon's signed-rank statistic to either side (Lehmann 1963). So a neighbour's burst of
    /// work, which hits a trial or two, is not most of the spread. Student's t makes an interval
    /// of it at any level, from three values on.
    ///
    /// A distance of two means varies more than a deviation, so it has fewer degrees of freedom:
    /// by simulation three for four values. With one less than values, an interval at 99.9 % would
    /// miss the truth almost twice as often as it may, from seven values on.
    pub(crate) fn of(sample: &[f64]) -> Self {
        let pairs = |(at, one): (usize, &f64)| -> Vec<f64> {
            sample[at..].iter().map(|other| f64::midpoint(*one, *other)).collect()
        };
        let mut means: Vec<f64> = sample.iter().enumerate().flat_map(pairs).collect();
        means.sort_by(f64::total_cmp);
        let n = count(sample.len());
        let last = count(means.len()) - 1.0;
        let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        let [low, high] =
            [-deviation, deviation].map(|away| quantile_of(&means, 0.5 + away / last));
        let (mean, error) = (quantile_of(&means, 0.5), (high - low) / 2.0);
        let (of_value, fewest) = FREEDOM_OF_VALUE;
        Self { mean, error, freedom: (of_value * n).max(fewest).min(n - 1.0) }
    }

    /// Location of a ratio's logarithm; `interval` is the central 95 % of the ratio.
    pub fn of_ratio(ratio: f64, interval: Interval) -> Self {
        let whole = Self { mean: ratio.ln(), error: 1.0, freedom: FREEDOM_MANY };
        let error = (interval.high / interval.low).ln() / (2.0 * whole.quantile(LEVEL));
        Self { error, ..whole }
    }

    /// Difference of two independent locations, with the freedom of the first.
    pub fn less(self, other: Self) -> Self {
        let (mean, error) = (self.mean - other.mean, self.error.hypot(other.error));
        Self { mean, error, ..self }
    }

    /// Location of a share, seen in this number of samples.
    pub(crate) fn sampled(share: f64, samples: f64) -> Self {
        let error = (share * (1.0 - share) / samples).sqrt();
        Self { mean: share, error, freedom: samples - 1.0 }
    }

    /// The interval of the middle at `level`, such as 0.95.
    pub fn interval(&self, level: f64) -> Interval {
        Interval::around(self.mean, self.quantile(level) * self.error)
    }

    /// Errors from the middle to an end of its interval.
    pub(crate) fn quantile(&self, level: f64) -> f64 {
        self.student().inverse_cdf((1.0 + level) / 2.0)
    }

    /// Two-sided p of a middle of 0.
    pub fn p(&self) -> f64 {
        match self.mean.abs() / self.error {
            t if t.is_nan() => 1.0,
            t => 2.0 * self.student().cdf(-t),
        }
    }

    /// Samples that do not vary at all have no degrees of freedom, and no error either.
    fn student(&self) -> StudentsT {
        let freedom = if self.freedom >= 1.0 { self.freedom } else { 1.0 };
        StudentsT::new(0.0, 1.0, freedom).expect("one degree of freedom or more")
    }
}

/// Judges effects that are seen together as one family: the intervals of all that have blocks
/// enough for a verdict hold the truth together 19 times in 20, in a run that has this number of
/// `chances` to mislead. A verdict never contradicts the interval next to it.
pub fn judge_together<'a>(effects: impl Iterator<Item = &'a mut Effect>, chances: usize) {
    let effects: Vec<&mut Effect> = effects.collect();
    let family = effects.iter().filter(|effect| effect.blocks >= BLOCKS_MIN).count();
    for effect in effects {
        let all = Effect::new(effect.centre, effect.blocks, family.max(1) * chances);
        *effect = Effect { p_rank: effect.p_rank, ..all };
    }
}
