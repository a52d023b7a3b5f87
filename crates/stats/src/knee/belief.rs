//! Belief about the knee after the trials so far: a posterior over knee, steepness and drift.

use super::Tried;
use crate::{Interval, count, index};
use std::ops::Range;

/// Places of the knee.
const KNEES: u32 = 300;
/// Steepness: how far, as a share of the rate, the chance of "met" takes to fall from 73 to 27 %.
/// A machine that strays by a quarter from trial to trial makes 0.14 of any server's.
const SPREADS: [f64; 8] = [0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32];
/// Drift: how far, as a logarithm, the machine's speed moves over as many trials as may be made,
/// and how likely that is beforehand (normal, with a deviation of a tenth).
const DRIFTS: [(f64, f64); 9] = [
    (-0.2, 0.135),
    (-0.15, 0.325),
    (-0.1, 0.607),
    (-0.05, 0.882),
    (0.0, 1.0),
    (0.05, 0.882),
    (0.1, 0.607),
    (0.15, 0.325),
    (0.2, 0.135),
];
/// Share of trials that say the opposite for reasons of their own.
const LAPSE: f64 = 0.03;
/// A place of so little weight is none.
const NOWHERE: f64 = 1e-13;
/// Halvings of the range in which a quantile is looked for.
const HALVINGS: u32 = 40;

/// The posterior, on a grid.
#[derive(Clone, Debug)]
pub struct Belief {
    /// Logarithms of the rates that may be the knee at the first trial, ascending.
    knees: Vec<f64>,
    /// Weight of each knee with each steepness, by drift.
    weights: [Vec<[f64; SPREADS.len()]>; DRIFTS.len()],
    /// The places, by drift, outside which the knee surely is not.
    live: [Range<usize>; DRIFTS.len()],
    /// Trials that may be made, and those that were.
    trials: (f64, usize),
}

impl Belief {
    /// Nothing known but the range of rates, and how many trials there may be.
    pub(crate) fn between(low: f64, high: f64, trials_max: u32) -> Self {
        let (low, high) = (low.ln(), high.ln());
        let step = (high - low) / f64::from(KNEES);
        let knees: Vec<f64> = (0..=KNEES).map(|at| low + step * f64::from(at)).collect();
        let weights = DRIFTS.map(|(_, prior)| vec![[prior; SPREADS.len()]; knees.len()]);
        let live = DRIFTS.map(|_| 0..knees.len());
        Self { knees, weights, live, trials: (f64::from(trials_max.max(1)), 0) }
    }

    /// Weighs a trial; one that told nothing only passes time.
    pub(crate) fn learn(&mut self, rate: f64, shown: &Tried) {
        let at = self.when(count(self.trials.1));
        self.trials.1 += 1;
        let met = match shown {
            Tried::Met => true,
            Tried::Broken(_) => false,
            Tried::Invalid(_) => return,
        };
        // A drift moves the same curve along the grid.
        let step = self.knees[1] - self.knees[0];
        let farthest = index(DRIFTS[DRIFTS.len() - 1].0 / step) + 1;
        let from = |drift: f64| index((count(farthest) + drift * at / step).round());
        let low = self.live.iter().map(|live| live.start).min().unwrap_or_default();
        let high = self.live.iter().map(|live| live.end).max().unwrap_or_default();
        let first = from(DRIFTS[0].0) + low;
        let chances: Vec<[f64; SPREADS.len()]> = (first..from(DRIFTS[DRIFTS.len() - 1].0) + high)
            .map(|place| {
                let knee = self.knees[0] + step * (count(place) - count(farthest));
                SPREADS.map(|spread| {
                    let chance = 1.0 / (1.0 + ((rate.ln() - knee) / spread).exp());
                    let chance = LAPSE + (1.0 - 2.0 * LAPSE) * chance;
                    if met { chance } else { 1.0 - chance }
                })
            })
            .collect();
        let mut sum = 0.0;
        for (((drift, _), weights), live) in DRIFTS.iter().zip(&mut self.weights).zip(&self.live) {
            let chances = &chances[from(*drift) + live.start - first..];
            for (weights, chances) in weights[live.clone()].iter_mut().zip(chances) {
                for (weight, chance) in weights.iter_mut().zip(chances) {
                    *weight *= chance;
                    sum += *weight;
                }
            }
        }
        for (weights, live) in self.weights.iter_mut().zip(&mut self.live) {
            weights[live.clone()].iter_mut().flatten().for_each(|weight| *weight /= sum);
            let is_out = |weights: &[f64; SPREADS.len()]| weights.iter().sum::<f64>() < NOWHERE;
            while live.start < live.end && is_out(&weights[live.start]) {
                weights[live.start].fill(0.0);
                live.start += 1;
            }
            while live.start < live.end && is_out(&weights[live.end - 1]) {
                weights[live.end - 1].fill(0.0);
                live.end -= 1;
            }
        }
    }

    /// Time of a trial, as a share of all that may be.
    fn when(&self, trial: f64) -> f64 {
        (trial / self.trials.0).min(1.0)
    }

    /// Weight of each place of the knee with a drift.
    fn by_knee(&self, drift: usize) -> Vec<f64> {
        let (mut all, live) = (vec![0.0; self.knees.len()], &self.live[drift]);
        for (all, weights) in all[live.clone()].iter_mut().zip(&self.weights[drift][live.clone()]) {
            *all = weights.iter().sum();
        }
        all
    }

    /// The rates below which the knee was with these probabilities after this number of trials.
    fn quantiles<const N: usize>(&self, trials: f64, of: [f64; N]) -> [f64; N] {
        let at = self.when(trials);
        let below: Vec<(f64, Vec<f64>)> = DRIFTS
            .iter()
            .enumerate()
            .map(|(which, (drift, _))| (drift * at, cumulated(&self.by_knee(which))))
            .collect();
        let all: f64 = below.iter().filter_map(|(_, sums)| sums.last()).sum();
        let (first, last) = (self.knees[0], self.knees[self.knees.len() - 1]);
        let step = self.knees[1] - first;
        let share = |log: f64| -> f64 {
            let of = |(shift, sums): &(f64, Vec<f64>)| between(sums, (log - shift - first) / step);
            below.iter().map(of).sum::<f64>() / all
        };
        of.map(|q| {
            let (mut low, mut high) = (first - 1.0, last + 1.0);
            for _ in 0..HALVINGS {
                let at = f64::midpoint(low, high);
                if share(at) < q { low = at } else { high = at }
            }
            high.exp()
        })
    }

    /// The knee now.
    pub fn now(&self) -> f64 {
        self.quantiles(count(self.trials.1), [0.5])[0]
    }

    /// The knee in the middle of the time, and the central interval that holds it with probability
    /// `level`.
    pub(crate) fn knee(&self, level: f64) -> (f64, Interval) {
        let tail = (1.0 - level) / 2.0;
        let half = count(self.trials.1) / 2.0;
        let [low, middle, high] = self.quantiles(half, [tail, 0.5, 1.0 - tail]);
        (middle, Interval { low, high })
    }

    /// The highest rate at which the level is now met with probability `share`, by all that is
    /// believed of knee, steepness and drift. That single trials lie is not counted.
    pub fn kept(&self, share: f64) -> f64 {
        let at = self.when(count(self.trials.1));
        let met = |log: f64| -> f64 {
            let mut sum = 0.0;
            for (((drift, _), weights), live) in DRIFTS.iter().zip(&self.weights).zip(&self.live) {
                for place in live.clone() {
                    let beyond = log - self.knees[place] - drift * at;
                    let met = |(spread, weight)| weight / (1.0 + f64::exp(beyond / spread));
                    sum += SPREADS.iter().zip(weights[place]).map(met).sum::<f64>();
                }
            }
            sum
        };
        let (mut low, mut high) = (self.knees[0] - 1.0, self.knees[self.knees.len() - 1]);
        for _ in 0..HALVINGS / 2 {
            let middle = f64::midpoint(low, high);
            if met(middle) >= share { low = middle } else { high = middle }
        }
        low.exp()
    }

    /// The steepness that is to be expected.
    pub(crate) fn spread(&self) -> f64 {
        let weights = || self.weights.iter().flatten();
        let of = |weights: &[f64; SPREADS.len()]| -> f64 {
            SPREADS.iter().zip(weights).map(|(spread, weight)| spread * weight).sum()
        };
        weights().map(of).sum::<f64>() / weights().flatten().sum::<f64>()
    }

    /// This knee over another that was searched for in the same rounds, on the same grid, and the
    /// interval at `level`. A drift is the machine's, so that it hit both.
    pub(crate) fn over(&self, other: &Self, level: f64) -> (f64, Interval) {
        let places = self.knees.len();
        let mut apart = vec![0.0; 2 * places - 1];
        for (at, (_, prior)) in DRIFTS.iter().enumerate() {
            let (one, other) = (self.by_knee(at), other.by_knee(at));
            let chance = one.iter().sum::<f64>() * other.iter().sum::<f64>();
            if chance <= f64::MIN_POSITIVE {
                continue;
            }
            let live = |weights: Vec<f64>| -> Vec<(usize, f64)> {
                let all = weights.into_iter().enumerate();
                all.filter(|(_, weight)| *weight > chance * 1e-9).collect()
            };
            let (one, other) = (live(one), live(other));
            for (a, one) in one {
                for (b, other) in &other {
                    apart[places - 1 + a - b] += one * other / prior;
                }
            }
        }
        let sums = cumulated(&apart);
        let all = sums[sums.len() - 1];
        let step = self.knees[1] - self.knees[0];
        let tail = (1.0 - level) / 2.0;
        let [low, middle, high] = [tail, 0.5, 1.0 - tail].map(|q| {
            let at = sums.partition_point(|sum| *sum < q * all);
            ((count(at) - count(places - 1)) * step).exp()
        });
        (middle, Interval { low, high })
    }
}

fn cumulated(weights: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let add = |weight: &f64| {
        sum += weight;
        sum
    };
    weights.iter().map(add).collect()
}

/// A sum up to a place that may lie between two, or beyond either end.
fn between(sums: &[f64], place: f64) -> f64 {
    let below = index(place);
    match (sums.get(below), sums.get(below + 1)) {
        _ if place < 0.0 => 0.0,
        (Some(low), Some(high)) => low + (high - low) * (place - count(below)),
        _ => sums.last().copied().unwrap_or_default(),
    }
}
