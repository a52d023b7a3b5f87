//! From trials to what may be said: medians with intervals, paired effects, an answer.
//!
//! A pure function of the run's directory.

pub(crate) mod pairing;
pub mod rules;

use crate::experiment::plan::{at_a_time, cells};
use crate::experiment::{Experiment, Loop, Mode, RATE, more_is_better, words};
use crate::journal::Run;
use crate::knee::{Found, Tried};
use crate::record::{AGAIN, Cell, Record};
use crate::run::saturation;
use crate::stats::{
    Effect, Interval, Verdict, compare_among, count, judge_together, median,
    order_statistic_interval,
};
use pairing::both;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that a report shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    pub metric: String,
    pub more_is_better: bool,
    /// Each cell of the plan, in its order.
    pub cells: Vec<CellSummary>,
    /// Comparisons of each arm with the baseline at the same setting.
    pub effects: Vec<EffectRow>,
    /// The same of the other numbers that were asked for, each by its name.
    #[serde(default)]
    pub also: Vec<(String, Vec<EffectRow>)>,
    /// Results of each arm's saturation search; empty without one.
    pub knees: Vec<saturation::Row>,
    /// Each arm's knee over the baseline's.
    pub beside: Vec<saturation::Beside>,
    /// Intervals of the baseline compared with itself (A/A) that hold 1, and all of these: the
    /// calibration of all other intervals.
    pub calibration: (usize, usize),
    /// Whole blocks that were planned and those that every cell has a valid trial of.
    pub blocks: (u32, u32),
    /// Trials that count, and those that do not.
    pub trials: (usize, usize),
    /// Each arm with its trials that count, and all of its attempts: an arm with more that are left
    /// out than others is compared by its better ones.
    #[serde(default)]
    pub validity: BTreeMap<String, (usize, usize)>,
    pub answer: String,
}

/// The trials of one cell together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellSummary {
    pub cell: Cell,
    pub trials: usize,
    pub invalid: usize,
    pub metrics: BTreeMap<String, Summary>,
    /// Each of the server's counters: the median over the trials.
    pub counters: BTreeMap<String, f64>,
    /// Quantiles and their medians, ms.
    pub spectrum: Vec<(f64, f64)>,
}

impl CellSummary {
    pub(crate) fn median(&self, metric: &str) -> Option<f64> {
        self.metrics.get(metric).map(|value| value.median)
    }

    /// Median with the ends of its interval.
    pub(crate) fn point(&self, metric: &str) -> Option<[f64; 3]> {
        let Summary { median, interval, .. } = self.metrics.get(metric)?;
        Some([*median, interval.low, interval.high])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub median: f64,
    /// 95 % interval of the median from order statistics; below six trials, all of them.
    pub interval: Interval,
    pub trials: usize,
}

/// An arm compared with the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EffectRow {
    pub cell: Cell,
    pub effect: Effect,
    /// Verdict, which the effect's interval makes.
    pub verdict: Verdict,
}

impl EffectRow {
    /// Whether it compares the baseline with itself (A/A).
    pub(crate) fn is_again(&self) -> bool {
        self.cell.arm.ends_with(AGAIN)
    }
}

/// A server that uses less of its processors than this share waits for something.
const BUSY_MIN: f64 = 0.9;

/// More comparisons than this are counted instead of named.
const TOLD_MAX: usize = 8;
/// Share of the requests below which a server does not keep up.
const KEEPS_UP: f64 = 0.98;

impl Analysis {
    pub fn of(run: &Run) -> Self {
        let metric = run.experiment.measure.metric.clone();
        let cells: Vec<CellSummary> =
            cells(&run.experiment).into_iter().map(|cell| summary(run, cell)).collect();
        let searched = run.experiment.measure.mode == Mode::Knee;
        let race = crate::race::told(run);
        // The searches of a race belong to its parts.
        let alone = searched && race.is_none();
        // The rates of a search are each arm's own, so there are no pairs.
        let asked: Vec<&str> = std::iter::once(&metric)
            .chain(&run.experiment.measure.also)
            .filter(|_| !searched)
            .map(String::as_str)
            .collect();
        let mut also = effects(run, &cells, &asked).into_iter();
        let effects = also.next().map_or(Vec::new(), |(_, rows)| rows);
        let valid = run.valid().count();
        let mut analysis = Self {
            more_is_better: more_is_better(&metric),
            metric,
            blocks: if alone {
                rounds(run)
            } else {
                (run.experiment.measure.blocks, whole_blocks(run))
            },
            knees: if alone { saturation::rows(run) } else { Vec::new() },
            beside: Vec::new(),
            cells,
            calibration: (0, 0),
            effects,
            also: also.collect(),
            trials: (valid, run.records.len() - valid),
            validity: validity(run),
            answer: String::new(),
        };
        analysis.calibration = analysis.calibration();
        analysis.beside = saturation::beside(&run.experiment, &analysis.knees);
        analysis.answer = analysis.answer(&run.experiment.baseline);
        if let Some(race) = race {
            // The race chose the arms of each block.
            analysis.blocks.0 = analysis.blocks.1;
            analysis.answer = race.answer();
        }
        let offered = analysis.offered(run).filter(|_| alone || !searched);
        for more in [offered, analysis.behind()].into_iter().flatten() {
            analysis.answer = format!("{} {more}", analysis.answer);
        }
        if let Some(idle) = analysis.idle(run) {
            analysis.answer = format!("{} {idle}", analysis.answer);
        }
        analysis
    }

    /// A/A intervals that hold 1, and all of them.
    fn calibration(&self) -> (usize, usize) {
        let also = self.also.iter().flat_map(|(_, rows)| rows);
        let again = self.effects.iter().chain(also).filter(|row| row.is_again());
        let verdicts: Vec<Verdict> = again.map(|row| row.verdict).collect();
        let count = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
        let held = count(Verdict::NoDifference);
        (held, held + count(Verdict::More) + count(Verdict::Less))
    }

    /// The summary of an arm at a setting; None without a valid trial.
    pub fn cell(&self, arm: &str, levels: &BTreeMap<String, String>) -> Option<&CellSummary> {
        let same = |one: &&CellSummary| one.cell.arm == arm && one.cell.levels == *levels;
        self.cells.iter().find(same).filter(|one| one.trials > 0)
    }

    /// The rate at which all were compared, where there is one of an open loop.
    fn offered(&self, run: &Run) -> Option<String> {
        let workload = &run.experiment.workload;
        let factor = run.experiment.factors.iter().any(|one| one.path == RATE);
        let (rate, multiple) = crate::experiment::rate(&workload.rate)?;
        let rate = if multiple { rate * run.manifest.unit? } else { rate };
        let each = crate::units::show(rate / count(at_a_time(&run.experiment)));
        (workload.model == Loop::Open && !factor && self.knees.is_empty())
            .then(|| format!("All were asked for {each} requests a second."))
    }

    /// Arms that did not answer what they were asked for where others did: their numbers are of
    /// another load.
    fn behind(&self) -> Option<String> {
        if self.also.is_empty() {
            return None;
        }
        let behind = self.cells.iter().filter_map(|one| {
            let share = one.median("good_share")?;
            let percent = 100.0 * share;
            (share < KEEPS_UP).then(|| format!("{} answered {percent:.0} %", one.cell.arm))
        });
        let behind: Vec<String> = behind.collect();
        (!behind.is_empty()).then(|| format!("Not all kept up: {}.", behind.join(", ")))
    }

    /// Cells whose throughput is the client's ([`limited_by_client`]).
    fn idle(&self, run: &Run) -> Option<String> {
        if self.metric != "good_per_s" {
            return None;
        }
        let limited = |one: &&CellSummary| {
            limited_by_client(&run.experiment, &one.cell, |name| one.median(name))
        };
        let mut waiting: Vec<&str> =
            self.cells.iter().filter(limited).map(|one| one.cell.arm.as_str()).collect();
        waiting.dedup();
        (!waiting.is_empty()).then(|| {
            format!(
                "Limited by the client: it was busy while the servers of {} had time left, so \
                 their throughput is not their own.",
                waiting.join(", ")
            )
        })
    }

    fn answer(&self, baseline: &str) -> String {
        if self.trials.0 == 0 {
            return "Nothing can be said: not one trial counts.".to_owned();
        }
        if !self.knees.is_empty() {
            let told: Vec<String> = self.knees.iter().map(saturation::words).collect();
            let beside: Vec<String> =
                self.beside.iter().map(|one| saturation::words_beside(one, baseline)).collect();
            let beside = match beside.as_slice() {
                [] => String::new(),
                all => format!(" In pairs: {}.", all.join("; ")),
            };
            let told = told.join("; ");
            return format!("The highest rate at which the level holds: {told}.{beside}");
        }
        let all = std::iter::once((&self.metric, &self.effects));
        let all = all.chain(self.also.iter().map(|(metric, rows)| (metric, rows)));
        let mut told: Vec<String> = Vec::new();
        for one in all.map(|(metric, rows)| compared(metric, rows, baseline)) {
            if !told.contains(&one) {
                told.push(one);
            }
        }
        told.join(" ")
    }
}

/// Describes in a sentence how arms compare with the baseline by one number.
fn compared(metric: &str, rows: &[EffectRow], baseline: &str) -> String {
    let others: Vec<&EffectRow> = rows.iter().filter(|row| !row.is_again()).collect();
    let count = |verdict| others.iter().filter(|row| row.verdict == verdict).count();
    let settings = others.len();
    if settings == 0 {
        return format!("Of {} nothing was measured beside {baseline}.", words(metric));
    }
    if count(Verdict::CannotTell) == settings {
        return "Too few blocks to tell anything: give it at least four.".to_owned();
    }
    let told = if settings <= TOLD_MAX {
        others.iter().map(|row| sentence(row, baseline)).collect::<Vec<String>>().join("; ")
    } else {
        let (more, less) = (count(Verdict::More), count(Verdict::Less));
        let none = count(Verdict::NoDifference);
        format!(
            "of {settings} comparisons with {baseline}, {more} show more, {less} less, and {none} \
             no difference"
        )
    };
    format!("{}: {told}.", capital(&words(metric)))
}

/// `sped 3.1 % more than symped (1.0 to 5.2 %)`, with the interval in which the truth is 19 times
/// in 20.
fn sentence(row: &EffectRow, baseline: &str) -> String {
    let levels = crate::record::levels(&row.cell);
    let at = if levels.is_empty() { String::new() } else { format!(" at {levels}") };
    let arm = &row.cell.arm;
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let range = |sign: f64| {
        row.effect.interval.map_or(String::new(), |interval| {
            let mut ends = [interval.low, interval.high].map(|end| sign * percent(end));
            ends.sort_by(f64::total_cmp);
            format!(" ({:.1} to {:.1} %)", ends[0], ends[1])
        })
    };
    let ratio = percent(row.effect.ratio);
    match row.verdict {
        Verdict::More => format!("{arm}{at} {ratio:.1} % more than {baseline}{}", range(1.0)),
        Verdict::Less => format!("{arm}{at} {:.1} % less than {baseline}{}", -ratio, range(-1.0)),
        Verdict::NoDifference => {
            format!("{arm}{at} and {baseline} cannot be told apart{}", range(1.0))
        }
        Verdict::CannotTell => format!("{arm}{at}: too few blocks"),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// The trials of a cell that count; of a saturation search the probes that met the level.
pub(crate) fn of<'a>(run: &'a Run, cell: &'a Cell) -> impl Iterator<Item = &'a Record> {
    let calm = |record: &&Record| {
        let probe = record.probe.as_ref();
        probe.is_none_or(|probe| probe.times.is_none() && probe.shown == Tried::Met)
    };
    run.valid().filter(calm).filter(move |record| record.cell == *cell)
}

/// Rounds of a saturation search that were needed and made: one more is needed while an arm still
/// searches.
fn rounds(run: &Run) -> (u32, u32) {
    let made = run.records.iter().map(|record| record.block + 1).max().unwrap_or_default();
    let searches = |row: &saturation::Row| row.knee.found == Found::Interrupted;
    (made + u32::from(made == 0 || saturation::rows(run).iter().any(searches)), made)
}

fn summary(run: &Run, cell: Cell) -> CellSummary {
    let mut metrics: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut counters: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut spectrum: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for record in of(run, &cell) {
        for (name, value) in &record.metrics {
            metrics.entry(name.clone()).or_default().push(*value);
        }
        for (name, value) in &record.counters {
            counters.entry(name.clone()).or_default().push(*value);
        }
        for (quantile, ms) in &record.spectrum {
            spectrum.entry(quantile.to_bits()).or_default().push(*ms);
        }
    }
    let trials = of(run, &cell).count();
    let attempts = run.records.iter().filter(|record| record.cell == cell).count();
    let medians = |(name, values): (String, Vec<f64>)| (name, median(&values));
    CellSummary {
        trials,
        invalid: attempts - trials,
        metrics: metrics.into_iter().map(|(name, values)| (name, summarise(&values))).collect(),
        counters: counters.into_iter().map(medians).collect(),
        // Quantiles are positive, so their bits are in their order.
        spectrum: spectrum
            .into_iter()
            .map(|(bits, values)| (f64::from_bits(bits), median(&values)))
            .collect(),
        cell,
    }
}

pub(crate) fn summarise(values: &[f64]) -> Summary {
    let all = || Interval {
        low: values.iter().copied().fold(f64::INFINITY, f64::min),
        high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    };
    Summary {
        median: median(values),
        interval: order_statistic_interval(values, 0.5, 0.95).unwrap_or_else(all),
        trials: values.len(),
    }
}

/// Blocks in which every cell has a valid trial.
fn whole_blocks(run: &Run) -> u32 {
    let cells = cells(&run.experiment);
    let missing = |cell: &Cell| run.manifest.left_out.contains_key(&cell.target);
    let has = |block: u32, cell: &Cell| of(run, cell).any(|record| record.block == block);
    let whole = |block: &u32| cells.iter().all(|cell| missing(cell) || has(*block, cell));
    let blocks = (0..run.experiment.measure.blocks).filter(whole).count();
    u32::try_from(blocks).unwrap_or(u32::MAX)
}

/// Trials of each arm that count, and all of its attempts.
fn validity(run: &Run) -> BTreeMap<String, (usize, usize)> {
    let mut all = BTreeMap::<String, (usize, usize)>::new();
    for record in &run.records {
        let (valid, attempts) = all.entry(record.cell.arm.clone()).or_default();
        *valid += usize::from(record.valid);
        *attempts += 1;
    }
    all
}

/// The value of a metric in each block, of the trials that count.
pub(crate) fn by_block(run: &Run, cell: &Cell, metric: &str) -> BTreeMap<u32, f64> {
    of(run, cell)
        .filter_map(|record| Some((record.block, record.metrics.get(metric).copied()?)))
        .collect()
}

/// Whether the client limits throughput: in a closed loop it is busy, and the server is not. If
/// neither is busy, the server waits for something else, such as a disk.
pub(crate) fn limited_by_client(
    experiment: &Experiment,
    cell: &Cell,
    number: impl Fn(&str) -> Option<f64>,
) -> bool {
    let machine = experiment.machine.at(&cell.levels);
    if experiment.workload.model != Loop::Closed || machine.server_cpus.is_empty() {
        return false;
    }
    let processors = count(machine.server_cpus.len()) * f64::from(machine.left()) / 100.0;
    number("server_cpu").is_some_and(|busy| busy < BUSY_MIN * processors)
        && number("client_busy").is_some_and(|busy| busy >= BUSY_MIN)
}

/// The pairs of two arms, each from one block.
pub(crate) fn pairs(above: &BTreeMap<u32, f64>, below: &BTreeMap<u32, f64>) -> Vec<(f64, f64)> {
    above.iter().filter_map(|(block, a)| Some((*a, *below.get(block)?))).collect()
}

/// Two arms of one run compared by a metric. The baseline, twice, calibrates intervals of
/// 95 %, however often the run is looked at.
fn effect(run: &Run, arm: &Cell, baseline: &Cell, metric: &str) -> Option<Effect> {
    let [above, below] = both(run, [arm, baseline], pairing::metric(metric));
    let chances = if arm.arm.ends_with(AGAIN) { 1 } else { run.manifest.chances() };
    compare_among(&pairs(&above, &below), chances)
}

/// Compares each arm with the baseline by each of some numbers. All are one family, but for the
/// baseline compared with itself: that is known to be equal, and calibrates the others.
fn effects(run: &Run, cells: &[CellSummary], metrics: &[&str]) -> Vec<(String, Vec<EffectRow>)> {
    let rows = |metric: &&str| ((*metric).to_owned(), alone(run, cells, metric));
    let mut all: Vec<(String, Vec<EffectRow>)> = metrics.iter().map(rows).collect();
    let rows = all.iter_mut().flat_map(|(_, rows)| rows);
    let family = rows.filter(|row| !row.is_again()).map(|row| &mut row.effect);
    judge_together(family, run.manifest.chances());
    let rows = all.iter_mut().flat_map(|(_, rows)| rows);
    rows.for_each(|row| row.verdict = row.effect.verdict());
    all
}

/// Compares each arm with the baseline by a number, each comparison by itself.
fn alone(run: &Run, cells: &[CellSummary], metric: &str) -> Vec<EffectRow> {
    let cells = || cells.iter().map(|one| &one.cell);
    let mut rows = Vec::new();
    for baseline in cells().filter(|cell| cell.arm == run.experiment.baseline) {
        // At the same setting of what concerns all arms.
        let here = |cell: &&Cell| {
            cell.arm != baseline.arm
                && cell.setting() == baseline.setting()
                && (cell.target != baseline.target || cell.levels == baseline.levels)
        };
        let row = |cell: &Cell| {
            let effect = effect(run, cell, baseline, metric)?;
            Some(EffectRow { cell: cell.clone(), effect, verdict: Verdict::CannotTell })
        };
        rows.extend(cells().filter(here).filter_map(row));
    }
    rows
}

#[cfg(test)]
pub(crate) mod tests;
