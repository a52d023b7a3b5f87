//! The saturation search: the highest rate at which a service level still holds, with an interval,
//! although each trial is noisy.
//!
//! Steps that grow by a factor find where it breaks; then every trial is weighed: a logistic curve
//! of "met" over the logarithm of the rate, its middle (the knee), its steepness and the machine's
//! drift all unknown, and the next rate near where the middle is most likely. A trial that lies
//! costs trials, not truth.

mod belief;
mod overload;

pub use overload::{Overload, recovery_s};

use crate::{Interval, LEVEL, index};
pub use belief::Belief;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Result of a trial at a rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tried {
    /// The service level was met.
    Met,
    /// These of its terms were not, such as `p99<50ms`.
    Broken(Vec<String>),
    /// The trial says nothing, for this reason (the client was the limit, others used the machine).
    Invalid(String),
}

/// Settings of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// The first rate, per second: one that should hold.
    pub start: f64,
    /// The highest rate to try, per second.
    pub rate_max: f64,
    /// Factor of a step, until the level was both met and broken.
    pub growth: f64,
    /// Stop when the interval reaches no further than this share from the knee.
    pub goal: f64,
    /// The most trials.
    pub trials_max: u32,
    /// The most trials in a row that tell nothing, after which the rate is the client's limit.
    pub invalid_max: u32,
}

impl Search {
    /// A search from `start`, up to 1,000 times that, to 1.5 %, in 60 trials at most.
    pub fn from(start: f64) -> Self {
        Self {
            start,
            growth: GROWTH,
            rate_max: start * 1e3,
            goal: 0.015,
            trials_max: 60,
            invalid_max: 3,
        }
    }
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "found")]
pub enum Found {
    /// The knee.
    Knee {
        /// The rate at which the level is met every other time, per second.
        rate: f64,
        /// The 95 % interval of that rate (posterior).
        interval: Interval,
        /// The term that broke most often just above it.
        broken: String,
    },
    /// The level was met up to the highest rate that was tried.
    NotUpTo {
        /// The rate.
        rate: f64,
    },
    /// The level does not hold even far below the first rate.
    NowhereAbove {
        /// The lowest rate tried.
        rate: f64,
        /// The terms that broke there.
        broken: Vec<String>,
    },
    /// From this rate on nothing could be told.
    LimitedByClient {
        /// The rate.
        rate: f64,
        /// The reason.
        why: String,
    },
    /// The search was interrupted.
    Interrupted,
}

/// A search's result and how it came about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The result.
    pub found: Found,
    /// Every trial: rate and outcome, in order.
    pub tried: Vec<(f64, Tried)>,
}

/// Factor of a step where nothing is known.
const GROWTH: f64 = 1.6;
/// Factor outside the bracket at which the knee may be.
const BEYOND: f64 = 2.0;
/// Factor below the first rate down to which a search goes.
const DEPTH: f64 = 1_000.0;

/// Searches. `probe` offers a rate for one trial and says what it showed; None ends the search.
pub fn search(search: &Search, mut probe: impl FnMut(f64) -> Option<Tried>) -> Knee {
    let mut course = Course::new(search);
    let found = loop {
        match course.step() {
            Step::Done(found) => break found,
            Step::Probe(rate) => match probe(rate) {
                Some(shown) => course.learn(rate, shown),
                None => break Found::Interrupted,
            },
        }
    };
    Knee { found, tried: course.tried }
}

/// Next action of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Try this rate.
    Probe(f64),
    /// The search has ended.
    Done(Found),
}

/// Next action, given what was tried so far: for searches that take turns, and for those that
/// continue after an interruption.
pub fn step(search: &Search, tried: &[(f64, Tried)]) -> Step {
    let mut course = Course::new(search);
    tried.iter().for_each(|(rate, shown)| course.learn(*rate, shown.clone()));
    course.step()
}

/// The knee of one search over that of another that took turns with it, by what each tried of at
/// most `trials_max`: what is likeliest, and the interval at `level`. None if one tells nothing.
pub fn ratio(tried: [&[(f64, Tried)]; 2], trials_max: u32, level: f64) -> Option<(f64, Interval)> {
    let rates = || tried.iter().copied().flatten().map(|(rate, _)| *rate);
    let low = rates().fold(f64::INFINITY, f64::min) / BEYOND;
    let high = rates().fold(0.0, f64::max) * BEYOND;
    let [one, other] = tried.map(|tried| {
        let mut belief = Belief::between(low, high, trials_max);
        tried.iter().for_each(|(rate, shown)| belief.learn(*rate, shown));
        belief
    });
    let tells = |(_, shown): &(f64, Tried)| !matches!(shown, Tried::Invalid(_));
    tried.iter().all(|tried| tried.iter().any(tells)).then(|| one.over(&other, level))
}

/// A search, probe by probe.
#[derive(Clone, Debug)]
pub struct Course {
    search: Search,
    /// Every trial: rate and outcome, in order.
    pub tried: Vec<(f64, Tried)>,
    /// The last rate at which the level was met, and the last at which it broke, until both are
    /// known.
    ends: [Option<f64>; 2],
    /// The belief since both are known, and the trials since then that told something.
    belief: Option<(Belief, u32)>,
}

impl Course {
    /// Nothing was tried yet.
    pub fn new(search: &Search) -> Self {
        Self { search: *search, tried: Vec::new(), ends: [None; 2], belief: None }
    }

    /// Takes what a trial at a rate showed.
    pub fn learn(&mut self, rate: f64, shown: Tried) {
        let tells = !matches!(shown, Tried::Invalid(_));
        if tells {
            self.ends[usize::from(shown != Tried::Met)] = Some(rate);
        }
        self.tried.push((rate, shown));
        match (&mut self.belief, self.ends) {
            (Some((belief, told)), _) => {
                *told += u32::from(tells);
                belief.learn(rate, &self.tried[self.tried.len() - 1].1);
            }
            (none, [Some(low), Some(high)]) => {
                // Either end may have been an accident.
                let (low, high) = (low / BEYOND, high * BEYOND);
                let mut belief = Belief::between(low, high, self.search.trials_max);
                self.tried.iter().for_each(|(rate, shown)| belief.learn(*rate, shown));
                *none = Some((belief, 0));
            }
            _ => {}
        }
    }

    /// Next action.
    pub fn step(&self) -> Step {
        let Search { start, growth, rate_max, goal, invalid_max, .. } = self.search;
        let is_invalid = |(_, shown): &&(f64, Tried)| matches!(shown, Tried::Invalid(_));
        if let Some((rate, Tried::Invalid(why))) = self.tried.last() {
            let in_a_row = self.tried.iter().rev().take_while(is_invalid).count();
            let lost = in_a_row >= index(f64::from(invalid_max)) || self.is_spent();
            let why = why.clone();
            let found = Found::LimitedByClient { rate: *rate, why };
            return if lost { Step::Done(found) } else { Step::Probe(*rate) };
        }
        match (&self.belief, self.ends) {
            (Some((belief, told)), _) => {
                let (rate, interval) = belief.knee(LEVEL);
                let reach = f64::max(interval.high / rate, rate / interval.low) - 1.0;
                if reach <= goal || self.is_spent() {
                    let broken = self.broken(rate).into_iter().next().unwrap_or_default();
                    return Step::Done(Found::Knee { rate, interval, broken });
                }
                // Beside the middle by turns: what lies right at it says nothing of the steepness,
                // and 1.5 spreads away says the most of both.
                let (now, beside) = (belief.now(), (1.5 * belief.spread()).exp());
                Step::Probe(if told.is_multiple_of(2) { now * beside } else { now / beside })
            }
            (None, [Some(rate), _]) => match (rate * growth).min(rate_max) {
                next if next <= rate || self.is_spent() => Step::Done(Found::NotUpTo { rate }),
                next => Step::Probe(next),
            },
            (None, [None, Some(rate)]) => match rate / growth {
                next if next < start / DEPTH || self.is_spent() => {
                    Step::Done(Found::NowhereAbove { rate, broken: self.broken(rate) })
                }
                next => Step::Probe(next),
            },
            (None, [None, None]) => Step::Probe(start),
        }
    }

    /// The belief about the knee, once a rate was met and another broke the level.
    pub fn belief(&self) -> Option<&Belief> {
        self.belief.as_ref().map(|(belief, _)| belief)
    }

    /// The last rate at which the level was met before any broke it, or none did.
    pub fn met(&self) -> Option<f64> {
        self.ends[0]
    }

    /// Whether there are no trials left.
    fn is_spent(&self) -> bool {
        self.tried.len() >= index(f64::from(self.search.trials_max))
    }

    /// The terms that broke, the one that did most often first; of the trials nearest above
    /// `rate`, since far above everything breaks.
    fn broken(&self, rate: f64) -> Vec<String> {
        let mut above: Vec<(f64, &Vec<String>)> = self
            .tried
            .iter()
            .filter_map(|(at, shown)| match shown {
                Tried::Broken(terms) => Some(((at / rate).ln().abs(), terms)),
                Tried::Met | Tried::Invalid(_) => None,
            })
            .collect();
        above.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut times: BTreeMap<&String, u32> = BTreeMap::new();
        for term in above.iter().take(5).flat_map(|(_, terms)| *terms) {
            *times.entry(term).or_default() += 1;
        }
        let mut terms: Vec<(&String, u32)> = times.into_iter().collect();
        terms.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        terms.into_iter().map(|(term, _)| term.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
