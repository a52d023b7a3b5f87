//! What a race ends with: how each finalist stands, and which of them is the advice.

use super::RUNS_MIN;
use super::space::Candidate;
use crate::knee::Found;
use crate::stats::{BLOCKS_MIN, Interval, Verdict};
use serde::{Deserialize, Serialize};

/// Who keeps the level up to a rate within so much of the best's is as good: what changes least of
/// those is the advice.
const AS_GOOD: f64 = 0.02;

/// A finalist, or the default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finalist {
    /// What it sets.
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
    /// Those runs.
    pub runs: u32,
}

impl Finalist {
    /// Whether it met the level in every fresh run.
    pub fn keeps(&self) -> bool {
        self.runs >= RUNS_MIN && self.met == self.runs
    }

    /// Whether it is the default.
    pub fn is_default(&self) -> bool {
        self.candidate == Candidate::default()
    }
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The advice; None: keep the default.
    pub advice: Option<Candidate>,
    /// The default and the finalists: who keeps the level up to the highest rate first.
    pub finalists: Vec<Finalist>,
    /// How far two searches of the default in the final were apart, as a share.
    pub floor: f64,
    /// Blocks of the final.
    pub blocks: usize,
    /// What the advice (or the default) answered, compared byte by byte in a run of its own; None:
    /// that was not tried yet.
    pub verified: Option<Verified>,
}

impl Decision {
    /// Who surely has a higher knee than the default, keeps the level in every fresh run, and does
    /// so up to a higher rate than the default is the advice: whose rate is the highest, or as good
    /// with fewer options.
    pub(crate) fn of(mut finalists: Vec<Finalist>, floor: f64, blocks: usize) -> Self {
        finalists.sort_by(|a, b| b.keeps().cmp(&a.keeps()).then(b.rate.total_cmp(&a.rate)));
        let mut decision = Self { advice: None, finalists, floor, blocks, verified: None };
        let default = decision.finalists.iter().find(|one| one.is_default());
        let default = default.filter(|one| one.keeps()).map_or(0.0, |one| one.rate);
        let sure = |one: &&Finalist| {
            one.keeps() && one.rate > default && decision.verdict(one) == Verdict::More
        };
        let best = decision.finalists.iter().find(sure).map_or(f64::INFINITY, |best| best.rate);
        let as_good = decision.finalists.iter().filter(sure);
        let as_good = as_good.filter(|one| one.rate * (1.0 + AS_GOOD) >= best);
        let advice = as_good.min_by_key(|one| one.candidate.config.len());
        decision.advice = advice.map(|one| one.candidate.clone());
        decision
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
    /// Who answered.
    pub arm: String,
    /// Its whole replies.
    pub answers: u64,
    /// Those of which every byte was compared.
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
