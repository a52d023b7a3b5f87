//! The saturation search: the highest rate at which a service level still holds, with an interval,
//! although each trial is noisy.
//!
//! Steps that grow by a factor find where it breaks; then every trial is weighed: a logistic curve
//! of "met" over the logarithm of the rate, its middle (the knee), its steepness and the machine's
//! drift all unknown, and the next rate beside where the middle is most likely. A trial that lies
//! costs trials, not truth.

mod belief;
mod overload;

pub use overload::{Overload, recovery_s};

use crate::stats::{Interval, LEVEL};
use belief::Belief;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one trial at one rate showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tried {
    /// The service level was met.
    Met,
    /// These of its terms were not, such as `p99<50ms`.
    Broken(Vec<String>),
    /// It tells nothing, for this reason (the client was the limit, others used the machine).
    Invalid(String),
}

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// The first rate, per second: one that should hold.
    pub start: f64,
    /// The highest rate to try, per second.
    pub rate_max: f64,
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
        Self { start, rate_max: start * 1e3, goal: 0.015, trials_max: 60, invalid_max: 3 }
    }
}

/// What the search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "found")]
pub enum Found {
    /// The knee.
    Knee {
        /// The rate at which the level is met every other time, per second.
        rate: f64,
        /// Its 95 % interval (posterior).
        interval: Interval,
        /// The term that broke most often just above it.
        broken: String,
    },
    /// The level was met up to the highest rate that was tried.
    NotUpTo {
        /// That rate.
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
        /// That rate.
        rate: f64,
        /// Why.
        why: String,
    },
    /// It was interrupted.
    Interrupted,
}

/// A search's result and how it came about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// What was found.
    pub found: Found,
    /// Every trial: rate and outcome, in order.
    pub tried: Vec<(f64, Tried)>,
}

/// How far one step goes while nothing has broken.
const GROWTH: f64 = 1.6;
/// How far outside the bracket the knee may be.
const BEYOND: f64 = 2.0;
/// How far below the first rate is still looked.
const DEPTH: f64 = 1_000.0;

/// Searches. `probe` offers a rate for one trial and says what it showed; None ends the search.
pub fn search(search: &Search, probe: impl FnMut(f64) -> Option<Tried>) -> Knee {
    let mut state = State { search: *search, probe, tried: Vec::new() };
    let found = match state.bracket() {
        Ok((low, high)) => state.narrow(low, high),
        Err(found) => found,
    };
    Knee { found, tried: state.tried }
}

/// What comes next in a search.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Try this rate.
    Probe(f64),
    /// It has ended.
    Done(Found),
}

/// What comes next, given what was tried so far: for searches that take turns, and for those that
/// go on after an interruption.
pub fn step(search_for: &Search, tried: &[(f64, Tried)]) -> Step {
    let (mut known, mut wanted) = (tried.iter(), None);
    let knee = search(search_for, |rate| {
        let shown = known.next().map(|(_, shown)| shown.clone());
        if shown.is_none() {
            wanted = Some(rate);
        }
        shown
    });
    wanted.map_or(Step::Done(knee.found), Step::Probe)
}

/// The knee of one search over that of another that took turns with it: what is likeliest, and the
/// interval at `level`. None unless both found one.
pub fn ratio(searches: [(&Search, &Knee); 2], level: f64) -> Option<(f64, Interval)> {
    let found = |(_, knee): &(&Search, &Knee)| matches!(knee.found, Found::Knee { .. });
    if !searches.iter().all(found) {
        return None;
    }
    let rates = || searches.iter().flat_map(|(_, knee)| knee.tried.iter().map(|(rate, _)| *rate));
    let low = rates().fold(f64::INFINITY, f64::min) / BEYOND;
    let high = rates().fold(0.0, f64::max) * BEYOND;
    let [one, other] = searches.map(|(search, knee)| {
        let mut belief = Belief::between(low, high, search.trials_max);
        knee.tried.iter().for_each(|(rate, shown)| belief.learn(*rate, shown));
        belief
    });
    Some(one.over(&other, level))
}

struct State<P> {
    search: Search,
    probe: P,
    tried: Vec<(f64, Tried)>,
}

impl<P: FnMut(f64) -> Option<Tried>> State<P> {
    /// Tries a rate until a trial tells something: whether the level was met.
    fn ask(&mut self, rate: f64) -> Result<bool, Found> {
        let mut invalid = 0;
        loop {
            let shown = (self.probe)(rate).ok_or(Found::Interrupted)?;
            self.tried.push((rate, shown.clone()));
            match shown {
                Tried::Met => return Ok(true),
                Tried::Broken(_) => return Ok(false),
                Tried::Invalid(why) => {
                    invalid += 1;
                    if invalid >= self.search.invalid_max || self.spent() {
                        return Err(Found::LimitedByClient { rate, why });
                    }
                }
            }
        }
    }

    /// Whether there are no trials left.
    fn spent(&self) -> bool {
        self.tried.len() >= usize::try_from(self.search.trials_max).unwrap_or(usize::MAX)
    }

    /// A rate at which it held and a higher one at which it broke.
    fn bracket(&mut self) -> Result<(f64, f64), Found> {
        let mut rate = self.search.start;
        if self.ask(rate)? {
            loop {
                let next = (rate * GROWTH).min(self.search.rate_max);
                if next <= rate || self.spent() {
                    return Err(Found::NotUpTo { rate });
                }
                if !self.ask(next)? {
                    return Ok((rate, next));
                }
                rate = next;
            }
        }
        loop {
            let next = rate / GROWTH;
            if next < self.search.start / DEPTH || self.spent() {
                return Err(Found::NowhereAbove { rate, broken: self.broken(rate) });
            }
            if self.ask(next)? {
                return Ok((next, rate));
            }
            rate = next;
        }
    }

    fn narrow(&mut self, low: f64, high: f64) -> Found {
        // Either end may have been an accident.
        let trials_max = self.search.trials_max;
        let mut belief = Belief::between(low / BEYOND, high * BEYOND, trials_max);
        let (mut told, mut known) = (0_u32, 0);
        loop {
            for (rate, shown) in &self.tried[known..] {
                belief.learn(*rate, shown);
            }
            known = self.tried.len();
            let (rate, interval) = belief.knee(LEVEL);
            let reach = f64::max(interval.high / rate, rate / interval.low) - 1.0;
            if reach <= self.search.goal || self.spent() {
                let broken = self.broken(rate).into_iter().next().unwrap_or_default();
                return Found::Knee { rate, interval, broken };
            }
            // Beside the middle by turns: what lies right at it says nothing of the steepness, and
            // 1.5 spreads away says the most of both.
            let beside = (1.5 * belief.spread()).exp();
            let now = belief.now();
            let next = if told.is_multiple_of(2) { now * beside } else { now / beside };
            told += 1;
            if let Err(found) = self.ask(next) {
                return found;
            }
        }
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
