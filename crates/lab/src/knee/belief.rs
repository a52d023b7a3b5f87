//! What the trials so far say of where the knee is: a posterior over knee and steepness.

use super::Tried;
use crate::stats::Interval;

/// Places of the knee.
const KNEES: u32 = 1_600;
/// Steepness: how far, as a share of the rate, the chance of "met" takes to fall from 73 to 27 %.
const SPREADS: [f64; 6] = [0.002, 0.005, 0.01, 0.02, 0.04, 0.08];
/// How often a trial says the opposite for reasons of its own.
const LAPSE: f64 = 0.03;

/// The posterior, on a grid.
#[derive(Clone, Debug)]
pub(super) struct Belief {
    /// Logarithms of the rates that may be the knee, ascending.
    knees: Vec<f64>,
    /// Weight of each knee with each steepness.
    weights: Vec<[f64; SPREADS.len()]>,
}

impl Belief {
    /// Nothing known but the range.
    pub(super) fn between(low: f64, high: f64) -> Self {
        let (low, high) = (low.ln(), high.ln());
        let step = (high - low) / f64::from(KNEES);
        let knees: Vec<f64> = (0..=KNEES).map(|at| low + step * f64::from(at)).collect();
        let weights = vec![[1.0; SPREADS.len()]; knees.len()];
        Self { knees, weights }
    }

    pub(super) fn learn_if_told(&mut self, rate: f64, shown: &Tried) {
        match shown {
            Tried::Met => self.learn(rate, true),
            Tried::Broken(_) => self.learn(rate, false),
            Tried::Invalid(_) => {}
        }
    }

    /// Weighs a trial.
    pub(super) fn learn(&mut self, rate: f64, met: bool) {
        let mut sum = 0.0;
        for (knee, weights) in self.knees.iter().zip(&mut self.weights) {
            for (spread, weight) in SPREADS.iter().zip(weights) {
                let chance = 1.0 / (1.0 + ((rate.ln() - knee) / spread).exp());
                let chance = LAPSE + (1.0 - 2.0 * LAPSE) * chance;
                *weight *= if met { chance } else { 1.0 - chance };
                sum += *weight;
            }
        }
        self.weights.iter_mut().flatten().for_each(|weight| *weight /= sum);
    }

    /// The rate below which the knee is with probability `q`, between grid places in proportion.
    pub(super) fn quantile(&self, q: f64) -> f64 {
        let all: f64 = self.weights.iter().flatten().sum();
        let (mut below, mut last) = (0.0, self.knees[0]);
        for (knee, weights) in self.knees.iter().zip(&self.weights) {
            let here = weights.iter().sum::<f64>() / all;
            if below + here >= q {
                let part = if here > 0.0 { (q - below) / here } else { 1.0 };
                return (last + (knee - last) * part).exp();
            }
            (below, last) = (below + here, *knee);
        }
        last.exp()
    }

    /// The steepness that is to be expected.
    pub(super) fn spread(&self) -> f64 {
        let all: f64 = self.weights.iter().flatten().sum();
        let of = |weights: &[f64; SPREADS.len()]| -> f64 {
            SPREADS.iter().zip(weights).map(|(spread, weight)| spread * weight).sum()
        };
        self.weights.iter().map(of).sum::<f64>() / all
    }

    /// The central interval that holds the knee with probability `level`.
    pub(super) fn interval(&self, level: f64) -> Interval {
        let tail = (1.0 - level) / 2.0;
        Interval { low: self.quantile(tail), high: self.quantile(1.0 - tail) }
    }
}
