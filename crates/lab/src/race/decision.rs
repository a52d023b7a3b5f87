//! Result of a race: the state of each finalist, and the advice.

use super::RUNS_MIN;
use super::space::Candidate;
use crate::knee::Found;
use crate::stats::{BLOCKS_MIN, Interval, Verdict};
use serde::{Deserialize, Serialize};

/// Share of the best's rate within which an arm that keeps the level is as good. The advice is the
/// one of these that changes least.
const AS_GOOD: f64 = 0.02;
/// Whether others keep the level, too, is asked at a rate that is higher than the advice's by this.
const HIGHER: f64 = 0.05;
/// Runs in which an arm must break the level for the other, which met it in each, to win a duel. If
/// both break it equally often, that is seen in less than one of forty duels. For every share p of
/// broken runs and every number n of runs, P(0 of n) P(4 or more of n) is at most 2.0 %.
const BROKEN_MIN: u32 = 4;

/// A finalist, or the default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finalist {
    pub candidate: Candidate,
    /// Result of its saturation search in the final.
    pub found: Found,
    /// Ratio of its knee to the default's, and the interval. The intervals of all finalists
    /// together contain the truth 19 times in 20. None for the default itself.
    pub beside: Option<(f64, Interval)>,
    /// The rate that it is said to keep, requests per second; 0: none.
    pub rate: f64,
    /// Fresh runs at that rate in which it met the level.
    pub met: u32,
    pub runs: u32,
}

impl Finalist {
    /// Whether it met the level in every fresh run.
    pub fn keeps(&self) -> bool {
        self.runs >= RUNS_MIN && self.met == self.runs
    }

    pub fn is_default(&self) -> bool {
        self.candidate == Candidate::default()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Duel {
    pub rate: f64,
    /// The challenger, and the advice so far.
    pub arms: [Candidate; 2],
    /// Runs of each in which it broke the level.
    pub broke: [u32; 2],
    pub runs: u32,
}

impl Duel {
    /// Whether the challenger kept the rate.
    pub fn is_kept(&self) -> bool {
        self.runs >= RUNS_MIN && self.broke[0] == 0
    }

    /// Whether it did, and the other surely does not.
    pub fn is_won(&self) -> bool {
        self.is_kept() && self.broke[1] >= BROKEN_MIN
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The advice; None: keep the default.
    pub advice: Option<Candidate>,
    /// The default and the finalists: the one that keeps the level up to the highest rate first.
    pub finalists: Vec<Finalist>,
    /// Distance of two searches of the default in the final, as a share.
    pub floor: f64,
    pub blocks: usize,
    /// Duels at another arm's rate; races of earlier versions had none.
    #[serde(default)]
    pub duels: Vec<Duel>,
    /// Answers of the advice (or the default), compared byte by byte in a run of its own; None: not
    /// tried yet.
    pub verified: Option<Verified>,
}

impl Decision {
    /// Nothing is known but how the finalists stand.
    pub(crate) fn of(finalists: Vec<Finalist>, floor: f64, blocks: usize) -> Self {
        let (advice, duels, verified) = (None, Vec::new(), None);
        let mut decision = Self { advice, finalists, floor, blocks, duels, verified };
        decision.decide();
        decision
    }

    /// Decides on the advice. A candidate for it has a knee surely higher than the default's, or
    /// won a duel. It keeps the level in every fresh run, up to a higher rate than the default. The
    /// advice is the candidate with the highest rate, or an equally good one with fewer options.
    fn decide(&mut self) {
        let by_rate = |a: &Finalist, b: &Finalist| b.rate.total_cmp(&a.rate);
        self.finalists.sort_by(|a, b| b.keeps().cmp(&a.keeps()).then(by_rate(a, b)));
        let default = self.finalists.iter().find(|one| one.is_default());
        let default = default.filter(|one| one.keeps()).map_or(0.0, |one| one.rate);
        let won = |one: &Finalist| {
            self.duels.iter().any(|duel| duel.is_won() && duel.arms[0] == one.candidate)
        };
        let sure = |one: &&Finalist| {
            let ahead = self.verdict(one) == Verdict::More || won(one);
            one.keeps() && one.rate > default && ahead
        };
        let best = self.finalists.iter().find(sure).map_or(f64::INFINITY, |best| best.rate);
        let as_good = self.finalists.iter().filter(sure);
        let as_good = as_good.filter(|one| one.rate * (1.0 + AS_GOOD) >= best);
        let advice = as_good.min_by_key(|one| one.candidate.config.len());
        self.advice = advice.map(|one| one.candidate.clone());
    }

    /// Challenger that may keep a rate that the advice was not seen to keep: the rate, and both
    /// arms. The rate is the one that the arm keeps already, but at least [`HIGHER`] above the
    /// advice's and above those of their duels. An arm that broke the level at no higher rate does
    /// not challenge.
    pub(crate) fn challenge(&self) -> Option<(f64, [Candidate; 2])> {
        let advice = self.chosen()?;
        let kept = if advice.keeps() { advice.rate } else { 0.0 };
        let asked = |one: &Finalist| {
            let arms = [one, advice].map(|of| of.candidate.clone());
            let met = self.duels.iter().filter(|duel| duel.arms == arms);
            let above = met.fold(kept, |above, duel| above.max(duel.rate)) * (1.0 + HIGHER);
            (above.max(one.rate), arms)
        };
        let breaks = |rate: f64, arm: &Candidate| {
            let broke = |duel: &Duel| match duel.arms.iter().position(|one| one == arm) {
                Some(0) => !duel.is_kept(),
                Some(at) => duel.broke[at] > 0,
                None => false,
            };
            self.duels.iter().any(|duel| duel.rate <= rate && broke(duel))
        };
        let others = self.finalists.iter().filter(|one| one.keeps() && *one != advice);
        others.map(asked).find(|(rate, arms)| !breaks(*rate, &arms[0]))
    }

    /// Takes what a duel showed of the rates that the two keep.
    pub(crate) fn learn(&mut self, duel: Duel) {
        for one in &mut self.finalists {
            let Some(at) = duel.arms.iter().position(|arm| *arm == one.candidate) else { continue };
            let met = duel.runs - duel.broke[at];
            if duel.rate <= one.rate && at == 0 {
                (one.met, one.runs) = (one.met + met, one.runs + duel.runs);
            } else if duel.runs >= RUNS_MIN && met == duel.runs {
                (one.rate, one.met, one.runs) = (duel.rate, met, met);
            }
        }
        self.duels.push(duel);
        self.decide();
    }

    /// Verdict on a finalist's knee compared with the default's.
    pub(crate) fn verdict(&self, one: &Finalist) -> Verdict {
        match one.beside {
            Some((ratio, interval)) if self.blocks >= BLOCKS_MIN => {
                let told = ratio.ln().abs() > self.floor.ln_1p() && !interval.contains(1.0);
                match ratio > 1.0 {
                    _ if !told => Verdict::NoDifference,
                    true => Verdict::More,
                    false => Verdict::Less,
                }
            }
            _ => Verdict::CannotTell,
        }
    }

    /// Finalist whose configuration is the advice.
    pub(crate) fn chosen(&self) -> Option<&Finalist> {
        let wanted = self.advice.clone().unwrap_or_default();
        self.finalists.iter().find(|one| one.candidate == wanted)
    }
}

/// Comparison of replies with the files. A single wrong reply ends a race with an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    pub arm: String,
    pub answers: u64,
    pub compared: u64,
    /// Reason for which not all were compared, if there is one.
    pub why: Option<String>,
}

impl Verified {
    /// Whether there were replies, and all were compared.
    pub fn is_whole(&self) -> bool {
        self.answers > 0 && self.compared >= self.answers
    }
}
