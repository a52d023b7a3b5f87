//! Finds in a run what a predicate asks for.

use crate::analysis::{by_block, compared, pairs};
use crate::journal::Run;
use crate::plan::{Cell, cells};
use crate::stats::{Effect, median};
use std::collections::BTreeMap;

/// How far a level may lie from the multiple that a claim names, as a share.
const NEAR: f64 = 0.12;
/// The path of the factor that rates are.
const RATE: &str = "workload.rate";

/// A run that predicates look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) run: &'a Run,
}

/// A finding, or what is missing.
pub(crate) type Found<T> = Result<T, String>;

impl Evidence<'_> {
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
    enough.ok_or_else(|| format!("blocks with valid trials of both {arm} and {baseline}"))
}

/// `0.74 (0.72 to 0.77)`.
pub(crate) fn show(effect: &Effect) -> String {
    let interval = effect.interval.map_or(String::new(), |interval| {
        format!(" ({:.2} to {:.2})", interval.low, interval.high)
    });
    format!("{:.2}{interval}", effect.ratio)
}
