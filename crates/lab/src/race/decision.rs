//! What a race ends with: how each finalist stands, and which of them is the advice.

use super::RUNS_MIN;
use super::space::Candidate;
use crate::knee::Found;
use crate::stats::{BLOCKS_MIN, Interval, Verdict};
use serde::{Deserialize, Serialize};

/// Who keeps the level up to a rate within so much of the best's is as good: what changes least of
/// those is the advice.
const AS_GOOD: f64 = 0.02;
/// Whether others keep the level, too, is asked at a rate that is higher than the advice's by this.
const HIGHER: f64 = 0.05;
/// A duel is won by who met the level in each of its runs while the other broke it so often. Of
/// two who break it equally often that is seen in less than one of forty duels, whatever that
/// share p and the number n of runs: P(0 of n) P(4 or more of n) is at most 2.0 %.
const BROKEN_MIN: u32 = 4;

/// A finalist, or the default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finalist {
    pub candidate: Candidate,
    /// What its saturation search in the final found.
    pub found: Found,
    /// Its knee over the default's, and the interval: all finalists' together hold the truth 19
    /// times in 20. None of the default itself.
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
    /// Who challenged, and who was the advice so far.
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
    /// The default and the finalists: who keeps the level up to the highest rate first.
    pub finalists: Vec<Finalist>,
    /// How far two searches of the default in the final were apart, as a share.
    pub floor: f64,
    pub blocks: usize,
    /// Who was then asked for another's rate; races of earlier versions had none.
    #[serde(default)]
    pub duels: Vec<Duel>,
    /// What the advice (or the default) answered, compared byte by byte in a run of its own; None:
    /// that was not tried yet.
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

    /// Who surely has a higher knee than the default, or won a duel, keeps the level in every fresh
    /// run, and does so up to a higher rate than the default is the advice: whose rate is the
    /// highest, or as good with fewer options.
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

    /// Who may keep a rate that the advice was not seen to keep, the rate, and the advice. An arm
    /// is asked for the rate that it keeps already, and for one that is [`HIGHER`] than the
    /// advice's and than that at which the two met, until it breaks the level.
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

    /// What may be said of a finalist's knee beside the default's.
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

    /// Whom the configuration is of.
    pub(crate) fn chosen(&self) -> Option<&Finalist> {
        let wanted = self.advice.clone().unwrap_or_default();
        self.finalists.iter().find(|one| one.candidate == wanted)
    }
}

/// What a comparison of replies with the files found. One wrong reply ends a race with an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    pub arm: String,
    pub answers: u64,
    pub compared: u64,
    /// Why not all were, where something prevented it.
    pub why: Option<String>,
}

impl Verified {
    /// Whether there were replies, and all were compared.
    pub fn is_whole(&self) -> bool {
        self.answers > 0 && self.compared >= self.answers
    }
}
