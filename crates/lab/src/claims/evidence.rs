//! Finds in a run what a predicate asks for.

pub(crate) use super::shown::{Shown, percent, show};
use crate::analysis::pairing::both;
use crate::analysis::{by_block, limited_by_client, of, pairs};
use crate::experiment::plan::cells;
use crate::experiment::{Machine, PROCESSORS, Program, RATE, Target};
use crate::journal::Run;
use crate::record::{Cell, Record};
pub(crate) use crate::stats::Blocks;
use crate::stats::{BLOCKS_MIN, count, median, peak, with};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Largest distance of a level from the multiple that a claim names, as a share.
const NEAR: f64 = 0.12;
/// Fewer answered than this share fall behind.
pub(super) const BEHIND: f64 = 0.98;
pub(super) const GOOD: &str = "good_per_s";

pub(super) fn number(record: &Record, name: &str) -> Option<f64> {
    record.metrics.get(name).copied().filter(|value| !value.is_nan())
}

pub(super) fn counted(record: &Record, name: &str) -> Option<f64> {
    record.counters.get(name).copied()
}

/// Most factors held at one level at a time.
pub(super) const ONLY_MAX: usize = 6;

/// A run that predicates look at, or those of its cells that have one level of some factors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) run: &'a Run,
    only: [Option<(&'a str, &'a str)>; ONLY_MAX],
    /// Number of chances to be misled that share the one in 20.
    pub(super) looks: usize,
}

/// Item at the rate nearest to a multiple, if that is near.
fn nearest<T>(rates: Vec<(f64, T)>, multiple: f64) -> Option<T> {
    let distance = |rate: f64| (rate / multiple).ln().abs();
    let near = rates.into_iter().min_by(|a, b| distance(a.0).total_cmp(&distance(b.0)));
    near.filter(|(rate, _)| distance(*rate) < NEAR).map(|(_, there)| there)
}

/// A finding, or what is missing.
pub(crate) type Found<T> = Result<T, String>;

pub(crate) const ARCHITECTURE: &str = "server.architecture";

/// The file `assets/options.toml`.
#[derive(Debug, Deserialize)]
pub struct KnownOptions {
    fibers: Vec<String>,
    defaults: BTreeMap<String, String>,
    pub pollers: BTreeMap<String, String>,
    pub knots: BTreeMap<String, Knot>,
    pub variants: BTreeMap<String, Variant>,
}

/// User threads: their way to send files, and the number of their helpers.
#[derive(Debug, Deserialize)]
pub struct Knot {
    pub send: String,
    pub helpers: u32,
}

/// An architecture, and what a name that stands for it sets there.
#[derive(Debug, Deserialize)]
pub struct Variant {
    pub architecture: String,
    pub sets: BTreeMap<String, String>,
}

pub static KNOWN: LazyLock<KnownOptions> = LazyLock::new(|| {
    toml::from_str(include_str!("../../assets/options.toml")).expect("a test reads it")
});

/// Value of a target's option; empty where it is not set and has no default here.
pub(crate) fn option<'t>(target: &'t Target, key: &str) -> &'t str {
    let named = target.config.get(ARCHITECTURE);
    if let Some(variant) = named.and_then(|named| KNOWN.variants.get(named)) {
        if key == ARCHITECTURE {
            return &variant.architecture;
        }
        let is_said = target.config.contains_key(key);
        if let Some(value) = variant.sets.get(key).filter(|_| !is_said) {
            return value;
        }
    }
    let usual = || KNOWN.defaults.get(key).map_or("", String::as_str);
    target.config.get(key).map_or_else(usual, String::as_str)
}

/// Call by which a target waits for events: `epoll`, `poll` or `select`.
pub(crate) fn poller(target: &Target) -> &str {
    let architecture = target.config.get(ARCHITECTURE).map_or("", String::as_str);
    let usual = KNOWN.pollers.get(architecture).map_or("epoll", String::as_str);
    let is_fiber = KNOWN.fibers.iter().any(|one| one == architecture);
    let key = if is_fiber { "fiber.poller" } else { "event.poller" };
    target.config.get(key).map_or(usual, String::as_str).trim_end_matches("-edge")
}

/// Targets that differ in one option alone, with their values of it.
pub(crate) type Family<'t> = Vec<(&'t Target, &'t str)>;

impl<'a> Evidence<'a> {
    /// Evidence of a run; if the number of processors varies, of its cells with the most.
    pub(crate) fn new(run: &'a Run) -> Self {
        let all = Self::everywhere(run);
        let Ok((path, levels)) = all.levels(PROCESSORS) else { return all };
        let most = levels.iter().max_by_key(|level| level.parse::<usize>().unwrap_or_default());
        most.map_or(all, |most| all.with(path, most))
    }

    /// Evidence of all cells of a run.
    pub(crate) fn everywhere(run: &'a Run) -> Self {
        Self { run, only: [None; ONLY_MAX], looks: run.manifest.chances() }
    }

    fn machine(&self) -> Machine {
        let own = |(path, level): &(&str, &str)| ((*path).to_owned(), (*level).to_owned());
        self.run.experiment.machine.at(&self.only.iter().flatten().map(own).collect())
    }

    /// Restricts the evidence to the cells with this level of a factor.
    pub(crate) fn with(&self, path: &'a str, level: &'a str) -> Self {
        let mut with = *self;
        let free = with.only.iter_mut().find(|one| one.is_none());
        *free.expect("predicates hold fewer factors than there is room for") = Some((path, level));
        with
    }

    /// The levels of the factor whose path begins so, with its whole path.
    pub(crate) fn levels(&self, path: &str) -> Found<(&'a str, &'a [String])> {
        let factor = self.run.experiment.factors.iter().find(|one| one.path.starts_with(path));
        let several = factor.filter(|factor| factor.levels.len() > 1);
        several
            .map(|factor| (factor.path.as_str(), factor.levels.as_slice()))
            .ok_or_else(|| format!("levels of {path}"))
    }

    /// With each amount of memory that the run varies, in their order, and words for that; as it is
    /// where it varies none.
    pub(super) fn memories(&self) -> Vec<(String, Self)> {
        let Ok((path, levels)) = self.levels("environment.memory") else {
            return vec![(String::new(), *self)];
        };
        let at = |level: &'a String| (format!(" at {path}={level}"), self.with(path, level));
        levels.iter().map(at).collect()
    }

    /// The targets that are this server, in the file's order.
    pub(crate) fn regattas(&self) -> impl Iterator<Item = &'a Target> {
        let all = self.run.experiment.targets.iter();
        all.filter(|target| target.program == Program::Regatta)
    }

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

    /// Checks that the server has at least `server` processors that it does not share with the
    /// load. A processor with a fixed share for the load counts as the server's: no other program
    /// uses the rest.
    pub(crate) fn processors(&self, server: usize) -> Found<()> {
        let machine = self.machine();
        let shared = machine.server_cpus.iter().any(|cpu| machine.client_cpus.contains(cpu));
        let have = machine.server_cpus.len();
        if have >= server && !shared {
            return Ok(());
        }
        let with = if shared { ", which the load shares" } else { "" };
        Err(format!("{server} processors for the server alone: it has {have}{with}"))
    }

    pub(crate) fn cpus(&self) -> usize {
        self.machine().server_cpus.len()
    }

    pub(crate) fn on_one_processor(&self) -> Found<()> {
        match self.cpus() {
            1 => Ok(()),
            have => Err(format!("one processor for the server: it has {have}")),
        }
    }

    /// Number of processors that the server had; a share counts as a fraction.
    pub(crate) fn left(&self) -> f64 {
        let machine = self.machine();
        count(machine.server_cpus.len().max(1)) * f64::from(machine.left()) / 100.0
    }

    /// Limits of the machine, to be reported with what is missing because of them.
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
                cell.levels.get(RATE).map_or(Some((0.0, true)), |l| crate::experiment::rate(l))?;
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
                let has = |(path, level): &(&str, &str)| {
                    cell.levels.get(*path).is_some_and(|have| have == level)
                };
                self.only.iter().flatten().all(has)
            })
            .filter(|cell| !by_block(self.run, cell, "good_per_s").is_empty())
            .filter_map(|cell| Some((multiple(&cell)?, cell)))
            .collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        if found.is_empty() {
            return Err(format!("valid trials of {arm}"));
        }
        if found.iter().any(|(_, cell)| self.is_the_clients(cell)) {
            return Err(format!("a load with time left, which it had not where {arm} had some"));
        }
        Ok(found)
    }

    /// Whether what is measured is a throughput, and here the client's.
    fn is_the_clients(&self, cell: &Cell) -> bool {
        let number = |name: &str| {
            let all: Vec<f64> = by_block(self.run, cell, name).into_values().collect();
            (!all.is_empty()).then(|| median(&all))
        };
        let experiment = &self.run.experiment;
        experiment.measure.metric == GOOD && limited_by_client(experiment, cell, number)
    }

    /// The arm's cell at the level nearest to a multiple.
    pub(crate) fn at(&self, arm: &str, multiple: f64) -> Found<Cell> {
        nearest(self.rates(arm)?, multiple)
            .ok_or_else(|| format!("valid trials of {arm} near {multiple} times saturation"))
    }

    /// The arm's only cell, or the one at its highest rate.
    pub(crate) fn top(&self, arm: &str) -> Found<Cell> {
        let missing = || format!("valid trials of {arm}");
        self.rates(arm)?.pop().map(|(_, cell)| cell).ok_or_else(missing)
    }

    /// The rates at which all of these arms have valid trials in the same four blocks or more, with
    /// their cells, ascending.
    pub(super) fn common<const N: usize>(&self, arms: [&str; N]) -> Found<Vec<(f64, [Cell; N])>> {
        let each = arms.into_iter().map(|arm| self.rates(arm)).collect::<Found<Vec<_>>>()?;
        let blocks = |cell: &Cell| by_block(self.run, cell, GOOD);
        let mut found = Vec::new();
        for (rate, first) in each.iter().take(1).flatten() {
            let here = |rates: &Vec<(f64, Cell)>| {
                let same = |(_, cell): &&(f64, Cell)| cell.setting() == first.setting();
                rates.iter().find(same).map(|(_, cell)| cell.clone())
            };
            let cells: Option<Vec<Cell>> = each.iter().map(here).collect();
            let Some(cells) = cells.and_then(|cells| <[Cell; N]>::try_from(cells).ok()) else {
                continue;
            };
            let mut shared = blocks(first);
            for cell in &cells {
                let others = blocks(cell);
                shared.retain(|block, _| others.contains_key(block));
            }
            if shared.len() >= BLOCKS_MIN {
                found.push((*rate, cells));
            }
        }
        if found.is_empty() {
            let arms = arms.join(" and ");
            return Err(format!("valid trials of {arms} at one rate: in four blocks at least"));
        }
        Ok(found)
    }

    /// The cells of several arms at the highest rate that they have in common.
    pub(crate) fn tops<const N: usize>(&self, arms: [&str; N]) -> Found<[Cell; N]> {
        let missing = || format!("valid trials of {}", arms.join(" and "));
        self.common(arms)?.pop().map(|(_, cells)| cells).ok_or_else(missing)
    }

    /// The same at the lowest.
    pub(crate) fn bottoms<const N: usize>(&self, arms: [&str; N]) -> Found<[Cell; N]> {
        // `common` fails if there is no rate.
        self.common(arms).map(|mut rates| rates.remove(0).1)
    }

    /// The cells of several arms at that rate of those they have in common which is nearest to a
    /// multiple.
    pub(crate) fn near<const N: usize>(&self, arms: [&str; N], multiple: f64) -> Found<[Cell; N]> {
        nearest(self.common(arms)?, multiple).ok_or_else(|| {
            format!("valid trials of {} near {multiple} times saturation", arms.join(" and "))
        })
    }

    /// In each block the arm's peak of a metric over its rates.
    pub(crate) fn peaks(&self, arm: &str, metric: &str) -> Found<Blocks> {
        let log = |(block, value): (u32, f64)| (value > 0.0).then(|| (block, value.ln()));
        let of = |(_, cell): &(f64, Cell)| -> Blocks {
            by_block(self.run, cell, metric).into_iter().filter_map(log).collect()
        };
        let rates: Vec<Blocks> = self.rates(arm)?.iter().map(of).collect();
        Ok(peak(&rates).into_iter().map(|(block, log)| (block, log.exp())).collect())
    }

    /// Values of a cell's trials, by block.
    pub(crate) fn blocks(&self, cell: &Cell, of_trial: impl Fn(&Record) -> Option<f64>) -> Blocks {
        of(self.run, cell)
            .filter_map(|record| Some((record.block, of_trial(record)?)))
            .filter(|(_, value)| value.is_finite())
            .collect()
    }

    /// The same, as what is known of it.
    pub(crate) fn shown(
        &self,
        what: &str,
        cell: &Cell,
        of_trial: impl Fn(&Record) -> Option<f64>,
    ) -> Found<Shown> {
        let values: Vec<f64> = self.blocks(cell, of_trial).into_values().collect();
        self.of_values(&values).ok_or_else(|| format!("{what} of {} in four blocks", cell.arm))
    }

    /// Combines values of two cells block by block.
    pub(crate) fn between(
        &self,
        what: &str,
        (above, below): (&Cell, &Cell),
        of_trial: impl Fn(&Record) -> Option<f64>,
        together: impl Fn(f64, f64) -> f64,
    ) -> Found<Shown> {
        let [one, other] = both(self.run, [above, below], of_trial);
        let values: Vec<f64> = with(&one, &other, together).into_values().collect();
        self.of_values(&values).ok_or_else(|| {
            format!("{what} of {} and {} in the same four blocks", above.arm, below.arm)
        })
    }

    /// Compares values of two cells block by block.
    pub(crate) fn times(
        &self,
        (above, below): (&Cell, &Cell),
        of_trial: impl Fn(&Record) -> Option<f64>,
    ) -> Found<Shown> {
        let [a, b] = both(self.run, [above, below], &of_trial);
        self.compared((&above.arm, &a), (&below.arm, &b))
    }

    /// Quantity from one value of each block; None below four.
    pub(super) fn of_values(&self, values: &[f64]) -> Option<Shown> {
        Shown::of(values).map(|shown| shown.among(self.looks))
    }

    /// Two arms compared by values of theirs, block by block.
    pub(crate) fn compared(
        &self,
        (arm, above): (&str, &Blocks),
        (baseline, below): (&str, &Blocks),
    ) -> Found<Shown> {
        let shown = Shown::ratio(&pairs(above, below)).ok_or_else(|| {
            format!("blocks with valid trials of both {arm} and {baseline}: four at least")
        })?;
        Ok(shown.among(self.looks))
    }

    pub(crate) fn ratio(&self, arm: &Cell, baseline: &Cell, metric: &str) -> Found<Shown> {
        self.times((arm, baseline), |record| number(record, metric))
    }

    pub(crate) fn middle(
        &self,
        what: &str,
        cell: &Cell,
        of_trial: impl Fn(&Record) -> Option<f64>,
    ) -> Found<f64> {
        let values: Vec<f64> = self.blocks(cell, of_trial).into_values().collect();
        if values.is_empty() { Err(format!("{what} of {}", cell.arm)) } else { Ok(median(&values)) }
    }

    pub(crate) fn metric(&self, cell: &Cell, name: &str) -> Found<f64> {
        self.middle(name, cell, |record| number(record, name))
    }

    /// Share of requests that a cell failed to answer, in words. Times are of the answered requests
    /// alone.
    pub(crate) fn unanswered(&self, cell: &Cell) -> String {
        let share = self.metric(cell, "error_share");
        share.map_or_else(|_| "?".to_owned(), |share| format!("{:.1} %", 100.0 * share))
    }
}
