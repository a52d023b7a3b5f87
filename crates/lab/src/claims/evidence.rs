//! Finds in a run what a predicate asks for.

use crate::analysis::{by_block, compared, pairs};
use crate::journal::Run;
use crate::plan::{Cell, cells};
use crate::spec::{Program, Target};
use crate::stats::{Effect, count, median};
use std::collections::BTreeMap;

/// How far a level may lie from the multiple that a claim names, as a share.
const NEAR: f64 = 0.12;
/// The path of the factor that rates are.
const RATE: &str = "workload.rate";

/// A run that predicates look at, or those of its cells that have one level of one factor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) run: &'a Run,
    pub(crate) only: Option<(&'a str, &'a str)>,
}

/// A finding, or what is missing.
pub(crate) type Found<T> = Result<T, String>;

/// An option of a target as the server takes it when nothing is said.
const DEFAULTS: [(&str, &str); 7] = [
    ("server.architecture", "symped"),
    ("event.poller", "epoll"),
    ("event.send", "nonblocking"),
    ("event.pin", "none"),
    ("shared.lock", "two-tier"),
    ("accept.count", "0"),
    ("accept.backlog", "1024"),
];

/// What an option of a target is; empty where it is not said and has no default here.
pub(crate) fn option<'t>(target: &'t Target, key: &str) -> &'t str {
    let usual = || DEFAULTS.iter().find(|(known, _)| *known == key).map_or("", |(_, value)| value);
    target.config.get(key).map_or_else(usual, String::as_str)
}

/// Targets that differ in one option alone, with their values of it.
pub(crate) type Family<'t> = Vec<(&'t Target, &'t str)>;

impl<'a> Evidence<'a> {
    pub(crate) fn new(run: &'a Run) -> Self {
        Self { run, only: None }
    }

    /// The cells that have this level of a factor.
    pub(crate) fn with(&self, path: &'a str, level: &'a str) -> Self {
        Self { only: Some((path, level)), ..*self }
    }

    /// The levels of the factor whose path begins so, with its whole path.
    pub(crate) fn levels(&self, path: &str) -> Found<(&'a str, &'a [String])> {
        let factor = self.run.experiment.factors.iter().find(|one| one.path.starts_with(path));
        let several = factor.filter(|factor| factor.levels.len() > 1);
        several
            .map(|factor| (factor.path.as_str(), factor.levels.as_slice()))
            .ok_or_else(|| format!("levels of {path}"))
    }

    /// The targets that are this server, in the file's order.
    pub(crate) fn regattas(&self) -> impl Iterator<Item = &'a Target> {
        let all = self.run.experiment.targets.iter();
        all.filter(|target| target.program == Program::Regatta)
    }

    /// The targets of an architecture.
    pub(crate) fn of(&self, architecture: &str) -> impl Iterator<Item = &'a Target> {
        self.regattas().filter(move |one| option(one, "server.architecture") == architecture)
    }

    /// Groups of at least two targets that are equal but for one option.
    pub(crate) fn families(&self, key: &str) -> Vec<Family<'a>> {
        let without = |target: &Target| {
            let mut config = target.config.clone();
            config.remove(key);
            config
        };
        let mut families: Vec<Family<'a>> = Vec::new();
        for target in self.regattas() {
            let member = (target, option(target, key));
            let own = |family: &&mut Family<'a>| without(family[0].0) == without(target);
            match families.iter_mut().find(own) {
                Some(family) => family.push(member),
                None => families.push(vec![member]),
            }
        }
        families.retain(|family| family.len() > 1);
        families
    }

    /// Whether server and load have processors of their own, and the server so many.
    pub(crate) fn processors(&self, server: usize) -> Found<()> {
        let machine = &self.run.experiment.machine;
        let shared = machine.server_cpus.iter().any(|cpu| machine.client_cpus.contains(cpu));
        let have = machine.server_cpus.len();
        if have >= server && !shared {
            return Ok(());
        }
        let with = if shared { ", which the load shares" } else { "" };
        Err(format!("{server} processors for the server alone: it has {have}{with}"))
    }

    /// What of a processor the server had, 1 for all of one.
    pub(crate) fn left(&self) -> f64 {
        let machine = &self.run.experiment.machine;
        count(machine.server_cpus.len().max(1)) * f64::from(machine.server_left) / 100.0
    }

    /// What the machine did not allow, to be said with what is missing because of it.
    pub(crate) fn lacks(&self) -> String {
        let lacks = &self.run.manifest.lacks;
        if lacks.is_empty() {
            return String::new();
        }
        format!("; this machine: {}", lacks.join("; "))
    }

    /// The cells of an arm with their rate as a multiple of the calibrated one, ascending; without
    /// a rate factor one cell at 0.
    pub(crate) fn rates(&self, arm: &str) -> Found<Vec<(f64, Cell)>> {
        let multiple = |cell: &Cell| {
            let level =
                cell.levels.get(RATE).map_or(Some((0.0, true)), |l| crate::spec::rate(l))?;
            match (level, self.run.manifest.unit) {
                ((rate, true), _) => Some(rate),
                ((rate, false), Some(unit)) => Some(rate / unit),
                ((rate, false), None) => Some(rate),
            }
        };
        let mut found: Vec<(f64, Cell)> = cells(&self.run.experiment)
            .into_iter()
            .filter(|cell| cell.arm == arm)
            .filter(|cell| {
                self.only
                    .is_none_or(|(path, level)| cell.levels.get(path).is_some_and(|l| l == level))
            })
            .filter(|cell| !by_block(self.run, cell, "good_per_s").is_empty())
            .filter_map(|cell| Some((multiple(&cell)?, cell)))
            .collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        if found.is_empty() { Err(format!("valid trials of {arm}")) } else { Ok(found) }
    }

    /// The arm's cell at the level nearest to a multiple.
    pub(crate) fn at(&self, arm: &str, multiple: f64) -> Found<Cell> {
        let missing = || format!("valid trials of {arm} near {multiple} times saturation");
        let rates = self.rates(arm)?;
        let distance = |rate: f64| (rate / multiple).ln().abs();
        let near = rates.into_iter().min_by(|a, b| distance(a.0).total_cmp(&distance(b.0)));
        let (rate, cell) = near.ok_or_else(missing)?;
        if distance(rate) < NEAR { Ok(cell) } else { Err(missing()) }
    }

    /// The arm's only cell, or the one at its highest rate.
    pub(crate) fn top(&self, arm: &str) -> Found<Cell> {
        let missing = || format!("valid trials of {arm}");
        self.rates(arm)?.pop().map(|(_, cell)| cell).ok_or_else(missing)
    }

    /// In each block the highest value of a metric over the arm's rates.
    pub(crate) fn peaks(&self, arm: &str, metric: &str) -> Found<BTreeMap<u32, f64>> {
        let mut peaks: BTreeMap<u32, f64> = BTreeMap::new();
        for (_, cell) in self.rates(arm)? {
            for (block, value) in by_block(self.run, &cell, metric) {
                let peak = peaks.entry(block).or_default();
                *peak = peak.max(value);
            }
        }
        Ok(peaks)
    }

    /// The peaks of two arms compared, block by block.
    pub(crate) fn peak_ratio(&self, arm: &str, baseline: &str) -> Found<Effect> {
        let (above, below) = (self.peaks(arm, "good_per_s")?, self.peaks(baseline, "good_per_s")?);
        usable(compared(&pairs(&above, &below)), arm, baseline)
    }

    /// In each block what an arm still answers at its highest rate, as a share of its peak.
    pub(crate) fn kept(&self, arm: &str) -> Found<BTreeMap<u32, f64>> {
        let top = by_block(self.run, &self.top(arm)?, "good_per_s");
        let peaks = self.peaks(arm, "good_per_s")?;
        let share = |(block, good): (&u32, &f64)| Some((*block, good / peaks.get(block)?));
        Ok(top.iter().filter_map(share).collect())
    }

    /// In each block the mean of good answers over the arm's rates: the area under its curve.
    pub(crate) fn area(&self, arm: &str) -> Found<BTreeMap<u32, f64>> {
        let mut sums: BTreeMap<u32, (f64, usize)> = BTreeMap::new();
        let rates = self.rates(arm)?;
        for (_, cell) in &rates {
            for (block, good) in by_block(self.run, cell, "good_per_s") {
                let sum = sums.entry(block).or_default();
                *sum = (sum.0 + good, sum.1 + 1);
            }
        }
        sums.retain(|_, (_, cells)| *cells == rates.len());
        Ok(sums.into_iter().map(|(block, (sum, cells))| (block, sum / count(cells))).collect())
    }

    /// Two arms compared by values of theirs, block by block.
    pub(crate) fn compare(
        &self,
        (arm, above): (&str, &BTreeMap<u32, f64>),
        (baseline, below): (&str, &BTreeMap<u32, f64>),
    ) -> Found<Effect> {
        usable(compared(&pairs(above, below)), arm, baseline)
    }

    /// Two cells compared by a metric.
    pub(crate) fn ratio(&self, arm: &Cell, baseline: &Cell, metric: &str) -> Found<Effect> {
        let (above, below) =
            (by_block(self.run, arm, metric), by_block(self.run, baseline, metric));
        usable(compared(&pairs(&above, &below)), &arm.arm, &baseline.arm)
    }

    /// The median of a metric over the cell's trials.
    pub(crate) fn metric(&self, cell: &Cell, name: &str) -> Found<f64> {
        let values: Vec<f64> = by_block(self.run, cell, name).into_values().collect();
        if values.is_empty() {
            return Err(format!("{name} of {}", cell.arm));
        }
        Ok(median(&values))
    }

    /// The median over the cell's trials of what several metrics of one trial come to.
    pub(crate) fn each<const N: usize>(
        &self,
        cell: &Cell,
        names: [&str; N],
        of: impl Fn([f64; N]) -> Option<f64>,
    ) -> Found<f64> {
        let trials = self.run.valid().filter(|record| record.cell == *cell);
        let mut values = Vec::new();
        for record in trials {
            let found = names.map(|name| record.metrics.get(name).copied().unwrap_or(f64::NAN));
            values.extend(of(found).filter(|value| value.is_finite()));
        }
        if values.is_empty() {
            return Err(format!("{} of {}", names.join(", "), cell.arm));
        }
        Ok(median(&values))
    }

    /// The median of one server counter over the cell's trials.
    pub(crate) fn counter(&self, cell: &Cell, name: &str) -> Found<f64> {
        let trials = self.run.valid().filter(|record| record.cell == *cell);
        let values: Vec<f64> =
            trials.filter_map(|record| record.counters.get(name).copied()).collect();
        if values.is_empty() {
            return Err(format!("the counter {name} of {}", cell.arm));
        }
        Ok(median(&values))
    }

    /// The median over trials of one server counter divided by another.
    pub(crate) fn share(&self, cell: &Cell, part: &str, whole: &str) -> Found<f64> {
        let trials = self.run.valid().filter(|record| record.cell == *cell);
        let shares: Vec<f64> = trials
            .filter_map(|record| {
                let (part, whole) = (record.counters.get(part)?, record.counters.get(whole)?);
                (*whole > 0.0).then(|| part / whole)
            })
            .collect();
        if shares.is_empty() {
            return Err(format!("counters {part} and {whole} of {}", cell.arm));
        }
        Ok(median(&shares))
    }
}

fn usable(effect: Option<Effect>, arm: &str, baseline: &str) -> Found<Effect> {
    let enough = effect.filter(|effect| effect.interval.is_some());
    enough.ok_or_else(|| {
        format!("blocks with valid trials of both {arm} and {baseline}: four at least")
    })
}

/// `0.74 (0.72 to 0.77)`.
pub(crate) fn show(effect: &Effect) -> String {
    let interval = effect.interval.map_or(String::new(), |interval| {
        format!(" ({:.2} to {:.2})", interval.low, interval.high)
    });
    format!("{:.2}{interval}", effect.ratio)
}
