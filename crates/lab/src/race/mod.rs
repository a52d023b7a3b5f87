//! The race: saturation searches of every remaining arm and the default, probe by probe in shared
//! blocks. Arms that are surely behind leave. The rest and the default are searched again in fresh
//! blocks. Each must then keep the level in fresh runs at the rate that it is believed to keep. An
//! arm that may keep a higher rate than the advice then runs alongside it.
//!
//! The race knows nothing of servers: a [`Field`] runs the blocks. Its next step follows from the
//! probes and the seed alone, so an interrupted race resumes where it stopped.

mod decision;
pub mod space;
mod told;

pub use decision::{Decision, Duel, Finalist, Verified};
pub use space::Site;
pub(crate) use told::{CONFIGURATION, DECISION, RUNGS_FILE, SETTLED, sentences};
pub use told::{Settled, Told, told};

use crate::knee::{self, Course, Found, Search, Step, Tried};
use crate::record::AGAIN;
use crate::stats::{Interval, Random, count, index};
use regatta_load::named;
use serde::{Deserialize, Serialize};
use space::{Candidate, DEFAULT, Space};
use std::collections::{BTreeMap, BTreeSet};

/// Place of a race.
pub trait Field {
    /// Runs one block: each arm once, in this order, each at its rate.
    fn block(&mut self, turn: &Turn<'_>) -> Result<Vec<Tried>, String>;

    /// A rung has ended.
    fn ended(&mut self, rung: &Rung) -> Result<(), String>;
}

#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    pub block: u32,
    pub phase: Phase,
    pub arms: &'a [Entry],
}

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub arm: String,
    pub candidate: Candidate,
    /// Offered rate, requests per second.
    pub rate: f64,
}

named! {
    pub enum Phase {
        /// Architectures, each with what usually suits it.
        Opening = "opening",
        /// Tries one option at a time around the leader.
        Refining = "refining",
        /// The best three, the default twice, on fresh blocks.
        Final = "final",
        /// Each finalist and the default at the rate that it is believed to keep.
        Confirming = "confirming",
        /// Runs the advice alongside an arm that may keep a higher rate, at that rate.
        Duel = "duel",
    }
}

/// State of an arm after a rung.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    pub arm: String,
    pub candidate: Candidate,
    /// Ratio of its knee to the default's.
    pub ratio: f64,
    /// The 95 % interval of that.
    pub interval: Interval,
    /// Probes of this part of the race: rate and outcome.
    pub tried: Vec<(f64, Tried)>,
}

/// A rung: its blocks, and the arms that left after them. A line of `race.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    pub phase: Phase,
    /// First block, and the first after the rung.
    pub blocks: (u32, u32),
    /// All arms, the best first.
    pub arms: Vec<Standing>,
    pub out: Vec<(String, String)>,
}

/// Time that may be spent, and the first rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    pub seconds: f64,
    /// Time of a trial, seconds.
    pub trial_s: f64,
    /// The rate of the first probes, per second.
    pub start: f64,
}

/// Shares of the budget. The final gets what is left.
const OPENING: f64 = 0.28;
const REFINING: f64 = 0.14;
const PASSES: usize = 2;
const CONFIRMING: f64 = 0.15;
/// Budget kept for duels: this many of them, but at most this share.
const DUELS: f64 = 2.0;
const DUELS_MAX: f64 = 0.15;
/// Arms that continue after each phase.
const KEPT: usize = 3;
/// An arm leaves when at this level it is behind the leader.
const OUT_LEVEL: f64 = 0.98;
/// A move is worth combining with others if at this level it is ahead.
const PROMISING_LEVEL: f64 = 0.7;
/// Rungs of the opening, and of a pass of refining.
const RUNGS: [usize; 2] = [2, 1];
/// The fewest probes of an arm in a rung that say something of its knee.
const PROBES_MIN: f64 = 6.0;
/// A search begins at this share of the knee that is expected.
const BEGIN: f64 = 0.9;
/// Growth of its steps then.
const GROWTH: f64 = 1.25;
/// Probes over which a machine drifts as much as is believed possible.
pub(crate) const DRIFT_PROBES: u32 = 60;
/// Until the final, arms are ordered by the rates at which the level is met with this probability.
const LIKELY: f64 = 0.8;
/// The level is to be met with this probability at the rate that an arm is said to keep.
const KEEPS: f64 = 0.97;
/// Fewest and most fresh runs at that rate, as the budget allows. The level must be met in each.
pub(crate) const RUNS_MIN: u32 = 8;
const RUNS_MAX: u32 = 16;
/// Most attempts of an arm, each at the rate that is then believed.
const ATTEMPTS: usize = 3;
/// Runs that may tell nothing.
const LOST_MAX: u32 = 4;

pub fn race(
    space: &Space,
    budget: Budget,
    seed: u64,
    field: &mut dyn Field,
) -> Result<Decision, String> {
    let mut race = Race {
        field,
        budget,
        random: Random::new(seed),
        probes: DRIFT_PROBES,
        courses: BTreeMap::new(),
        knees: BTreeMap::new(),
        block: 0,
        spent_s: 0.0,
    };
    let opening = budget.seconds * OPENING;
    let mut kept = race.phase(Phase::Opening, space.first.clone(), opening, RUNGS[0])?;
    let mut promising: Vec<Candidate> = Vec::new();
    for _ in 0..PASSES {
        let leader = kept.first().cloned().unwrap_or_default();
        let mut arms = kept.clone();
        arms.extend(Space::combined(&leader, &promising));
        let near = space.neighbours(&leader);
        // Arms seen before would add nothing.
        let new = near.iter().filter(|one| !race.knees.contains_key(&one.name()));
        let mut new: Vec<Candidate> = new.cloned().collect();
        race.random.shuffle(&mut new);
        arms.extend(new);
        let mut names = BTreeSet::from([DEFAULT.to_owned()]);
        arms.retain(|arm| names.insert(arm.name()));
        kept = race.phase(Phase::Refining, arms, budget.seconds * REFINING, RUNGS[1])?;
        let ahead = |one: &&Candidate| {
            let beside = race.beside(&one.name(), &leader.name(), PROMISING_LEVEL);
            beside.is_some_and(|(_, interval)| interval.low > 1.0)
        };
        promising = near.iter().filter(ahead).cloned().collect();
    }
    race.finish(kept)
}

struct Race<'a> {
    field: &'a mut dyn Field,
    budget: Budget,
    random: Random,
    /// Probes of each search in this part of the race, at most.
    probes: u32,
    /// The searches of this part of the race.
    courses: BTreeMap<String, Course>,
    /// The knees that were believed last.
    knees: BTreeMap<String, f64>,
    block: u32,
    /// Time spent of the budget, seconds.
    spent_s: f64,
}

impl Race<'_> {
    /// Begins the searches of a part of the race, of `probes` probes. Each starts where the arm's
    /// knee is expected, or else the default's.
    fn begin(&mut self, arms: &[(String, Candidate)], probes: u32) {
        self.probes = probes;
        let usual = self.knees.get(DEFAULT).map(|knee| knee * BEGIN);
        self.courses.clear();
        for (name, _) in arms {
            let known = self.knees.get(name).map(|knee| knee * BEGIN);
            let start = known.or(usual).unwrap_or(self.budget.start);
            let search = Search { goal: 0.0, trials_max: probes, ..Search::from(start) };
            let growth = usual.map_or(search.growth, |_| GROWTH);
            let search = Search { growth, ..search };
            self.courses.insert(name.clone(), Course::new(&search));
        }
    }

    /// Runs rungs of ever fewer arms on a part of the budget. Returns the arms that continue, the
    /// best first.
    fn phase(
        &mut self,
        phase: Phase,
        mut arms: Vec<Candidate>,
        seconds: f64,
        rungs: usize,
    ) -> Result<Vec<Candidate>, String> {
        let trials = seconds / self.budget.trial_s;
        // A rung takes at least a block of the default and one arm.
        let rungs = rungs.min(index(trials / 2.0));
        if rungs == 0 {
            arms.truncate(KEPT);
            return Ok(arms);
        }
        let each = trials / count(rungs);
        arms.truncate(index(each / PROBES_MIN).saturating_sub(1).max(1));
        self.begin(&with_default(&arms, false), DRIFT_PROBES);
        for rung in 0..rungs {
            let blocks = index(each / count(arms.len() + 1)).max(1);
            let keep = match rungs - rung {
                1 => KEPT,
                _ => (arms.len() / 2).max(KEPT),
            };
            arms = self.rung(phase, &arms, blocks, keep)?;
        }
        Ok(arms)
    }

    /// Runs `blocks` blocks. Returns the arms that continue after them, the best first.
    fn rung(
        &mut self,
        phase: Phase,
        arms: &[Candidate],
        blocks: usize,
        keep: usize,
    ) -> Result<Vec<Candidate>, String> {
        let from = self.block;
        let all = with_default(arms, false);
        for _ in 0..blocks {
            self.probe(phase, &all)?;
        }
        let standings = self.standings(arms);
        let (mut on, mut out) = (Vec::new(), Vec::new());
        let leader = standings.first().map(|leader| leader.arm.clone()).unwrap_or_default();
        for standing in &standings {
            match self.beside(&standing.arm, &leader, OUT_LEVEL) {
                Some((ratio, interval)) if interval.high < 1.0 => {
                    let [middle, least] = [ratio, interval.high].map(|one| 100.0 * (1.0 - one));
                    let why = format!("{middle:.0} % behind {leader}, {least:.0} % at least");
                    out.push((standing.arm.clone(), why));
                }
                _ if on.len() >= keep => {
                    let why = format!("{} of {}, of whom {keep} go on", on.len() + 1, arms.len());
                    out.push((standing.arm.clone(), why));
                }
                _ => on.push(standing.candidate.clone()),
            }
        }
        self.field.ended(&Rung { phase, blocks: (from, self.block), arms: standings, out })?;
        Ok(on)
    }

    /// Compares arms with the default. The first is likely to keep the highest rate.
    fn standings(&mut self, arms: &[Candidate]) -> Vec<Standing> {
        for (name, course) in &self.courses {
            let knee = course.belief().map(knee::Belief::now).or(course.met());
            self.knees.extend(knee.map(|knee| (name.clone(), knee)));
        }
        let of = |candidate: &Candidate| {
            let arm = candidate.name();
            let (ratio, interval) = self.beside(&arm, DEFAULT, crate::stats::LEVEL)?;
            let tried = self.courses[&arm].tried.clone();
            Some(Standing { arm, candidate: candidate.clone(), ratio, interval, tried })
        };
        let mut standings: Vec<Standing> = arms.iter().filter_map(of).collect();
        let kept = |one: &Standing| {
            let course = &self.courses[&one.arm];
            let kept = course.belief().map(|belief| belief.kept(LIKELY));
            (one.arm.clone(), kept.or(course.met()).unwrap_or_default())
        };
        // Worked out once: a sort asks again and again.
        let kept: BTreeMap<String, f64> = standings.iter().map(kept).collect();
        standings.sort_by(|a, b| kept[&b.arm].total_cmp(&kept[&a.arm]));
        standings
    }

    /// The knee of one over that of another, and the interval at `level`.
    fn beside(&self, one: &str, other: &str, level: f64) -> Option<(f64, Interval)> {
        let tried = |name: &str| Some(&*self.courses.get(name)?.tried);
        knee::ratio([tried(one)?, tried(other)?], self.probes, level)
    }

    /// Runs a block: the next probe of each arm that still searches.
    fn probe(&mut self, phase: Phase, arms: &[(String, Candidate)]) -> Result<(), String> {
        let next = |(name, _): &(String, Candidate)| match self.courses[name].step() {
            Step::Probe(rate) => Some(rate),
            Step::Done(_) => None,
        };
        let rates: Vec<Option<f64>> = arms.iter().map(next).collect();
        for (entry, shown) in self.run(phase, arms, &rates)? {
            if let Some(course) = self.courses.get_mut(&entry.arm) {
                course.learn(entry.rate, shown);
            }
        }
        Ok(())
    }

    /// Runs a block of the arms that have a rate, in random order.
    fn run(
        &mut self,
        phase: Phase,
        arms: &[(String, Candidate)],
        rates: &[Option<f64>],
    ) -> Result<Vec<(Entry, Tried)>, String> {
        let entry = |((arm, candidate), rate): (&(String, Candidate), &Option<f64>)| {
            Some(Entry { arm: arm.clone(), candidate: candidate.clone(), rate: (*rate)? })
        };
        let mut entries: Vec<Entry> = arms.iter().zip(rates).filter_map(entry).collect();
        self.random.shuffle(&mut entries);
        let shown = self.field.block(&Turn { block: self.block, phase, arms: &entries })?;
        self.spent_s += self.budget.trial_s * count(entries.len());
        self.block += 1;
        Ok(entries.into_iter().zip(shown).collect())
    }

    /// The final: only the measurements before it decide on its arms.
    fn finish(&mut self, mut finalists: Vec<Candidate>) -> Result<Decision, String> {
        let from = self.block;
        let confirming = self.budget.seconds * CONFIRMING;
        let runs = |arms: usize| index(confirming / (self.budget.trial_s * count(arms + 1)));
        while finalists.len() > 1 && runs(finalists.len()) < index(f64::from(RUNS_MIN)) {
            finalists.pop();
        }
        let runs = u32::try_from(runs(finalists.len())).map_or(RUNS_MAX, |runs| runs.min(RUNS_MAX));
        let left = self.left() - self.duels() - confirming;
        let all = with_default(&finalists, true);
        let blocks = index(left / (self.budget.trial_s * count(all.len()))).max(1);
        self.begin(&all, u32::try_from(blocks).unwrap_or(u32::MAX));
        for _ in 0..blocks {
            self.probe(Phase::Final, &all)?;
        }
        let standings = self.standings(&finalists);
        let to = self.block;
        let again = self.beside(&format!("{DEFAULT}{AGAIN}"), DEFAULT, crate::stats::LEVEL);
        let floor = again.map_or(f64::MAX, |(ratio, _)| ratio.ln().abs().exp_m1());
        let level = crate::stats::shared(crate::stats::LEVEL, finalists.len());
        let of = |(name, candidate): &(String, Candidate)| Finalist {
            candidate: candidate.clone(),
            found: match self.courses[name].step() {
                Step::Done(found) => found,
                Step::Probe(_) => Found::Interrupted,
            },
            beside: self.beside(name, DEFAULT, level).filter(|_| name != DEFAULT),
            rate: 0.0,
            met: 0,
            runs: 0,
        };
        let mut all: Vec<Finalist> = with_default(&finalists, false).iter().map(of).collect();
        for _ in 0..ATTEMPTS {
            self.confirm(&mut all, runs.max(RUNS_MIN))?;
        }
        let last =
            Rung { phase: Phase::Final, blocks: (from, to), arms: standings, out: Vec::new() };
        self.field.ended(&last)?;
        let mut decision = Decision::of(all, floor, blocks);
        while let Some((rate, arms)) = decision.challenge() {
            let runs = index(self.left() / (2.0 * self.budget.trial_s));
            let runs = u32::try_from(runs).map_or(RUNS_MAX, |runs| runs.min(RUNS_MAX));
            if runs < RUNS_MIN {
                break;
            }
            decision.learn(self.duel(rate, arms, runs)?);
        }
        Ok(decision)
    }

    /// Seconds of the budget that are left.
    fn left(&self) -> f64 {
        self.budget.seconds - self.spent_s
    }

    /// Seconds that are kept for duels.
    fn duels(&self) -> f64 {
        let fewest = DUELS * 2.0 * f64::from(RUNS_MIN) * self.budget.trial_s;
        fewest.min(DUELS_MAX * self.budget.seconds)
    }

    /// Runs two arms alongside each other at one rate, until the challenger breaks the level or
    /// `runs` blocks showed something of both.
    fn duel(&mut self, rate: f64, arms: [Candidate; 2], runs: u32) -> Result<Duel, String> {
        let named = arms.clone().map(|arm| (arm.name(), arm));
        let mut duel = Duel { rate, arms, broke: [0; 2], runs: 0 };
        for _ in 0..runs + LOST_MAX {
            if duel.runs == runs || duel.broke[0] > 0 {
                break;
            }
            let shown = self.run(Phase::Duel, &named, &[Some(rate); 2])?;
            if shown.iter().any(|(_, shown)| matches!(shown, Tried::Invalid(_))) {
                continue;
            }
            duel.runs += 1;
            for (entry, _) in shown.iter().filter(|(_, shown)| *shown != Tried::Met) {
                duel.broke[usize::from(entry.arm == named[1].0)] += 1;
            }
        }
        Ok(duel)
    }

    /// Runs each arm without a kept rate at the rate that it is believed to keep. An arm that
    /// breaks the level leaves at once.
    fn confirm(&mut self, finalists: &mut [Finalist], runs: u32) -> Result<(), String> {
        let open: Vec<usize> = (0..finalists.len()).filter(|at| !finalists[*at].keeps()).collect();
        if self.left() - self.duels() < self.budget.trial_s * f64::from(runs) * count(open.len()) {
            return Ok(());
        }
        for at in &open {
            let course = &self.courses[&finalists[*at].candidate.name()];
            let kept = course.belief().map(|belief| belief.kept(KEEPS)).or(course.met());
            let one = &mut finalists[*at];
            (one.rate, one.met, one.runs) = (kept.unwrap_or_default(), 0, 0);
        }
        let named = |one: &Finalist| (one.candidate.name(), one.candidate.clone());
        let arms: Vec<(String, Candidate)> = finalists.iter().map(named).collect();
        for _ in 0..runs + LOST_MAX {
            let is_open = |at: usize, one: &Finalist| {
                open.contains(&at) && one.rate > 0.0 && one.met == one.runs && one.runs < runs
            };
            let rate = |(at, one): (usize, &Finalist)| is_open(at, one).then_some(one.rate);
            let rates: Vec<Option<f64>> = finalists.iter().enumerate().map(rate).collect();
            if rates.iter().all(Option::is_none) {
                break;
            }
            for (entry, shown) in self.run(Phase::Confirming, &arms, &rates)? {
                let of = finalists.iter_mut().find(|one| one.candidate == entry.candidate);
                let Some(one) = of else { continue };
                one.met += u32::from(shown == Tried::Met);
                one.runs += u32::from(!matches!(shown, Tried::Invalid(_)));
                if let Some(course) = self.courses.get_mut(&entry.arm) {
                    course.learn(entry.rate, shown);
                }
            }
        }
        Ok(())
    }
}

/// The default, its second run where `again`, and the arms, by name.
fn with_default(arms: &[Candidate], again: bool) -> Vec<(String, Candidate)> {
    let second = again.then(|| (format!("{DEFAULT}{AGAIN}"), Candidate::default()));
    let mut all: Vec<(String, Candidate)> =
        [(DEFAULT.to_owned(), Candidate::default())].into_iter().chain(second).collect();
    all.extend(arms.iter().map(|arm| (arm.name(), arm.clone())));
    all
}

#[cfg(test)]
mod tests;
