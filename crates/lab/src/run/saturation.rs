//! The saturation search as a measurement: each arm's knee, and its behaviour beyond.
//!
//! In each round every arm that still searches makes one probe, in random order, so that the
//! machine's drift hits all alike. The next step follows from the probes on record alone, so an
//! interrupted search resumes where it stopped.

use crate::experiment::plan::{Planned, cells, stretch_s};
use crate::experiment::{Experiment, KneeSearch};
use crate::group::INTERRUPTED;
use crate::journal::{Run, write_whole};
use crate::knee::{self, Found, Knee, Overload, Search, Step, Tried, recovery_s, step};
use crate::record::{Cell, Probe, Record, levels};
use crate::stats::{Interval, LEVEL, count, index, mean, shared};
use crate::trial::{Attempt, Bench};
use crate::units::{real, show};
use serde::{Deserialize, Serialize};

/// The file with a line for each arm.
const KNEES: &str = "knees.jsonl";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub cell: Cell,
    pub knee: Knee,
    /// Goodput beyond it, by ascending multiple.
    pub overload: Vec<Beyond>,
    /// Seconds from the end of the highest overload until goodput keeps up again. None if it did
    /// not within the stretch that followed, if it was not asked for, or if no trial of that
    /// overload counts.
    pub recovery_s: Option<f64>,
}

/// An overload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beyond {
    pub multiple: f64,
    pub offered_per_s: f64,
    pub good_per_s: f64,
}

/// Makes the probes and overloads that are missing.
pub(crate) fn perform(
    run: &mut Run,
    planned: &[Planned],
    cells: &[Cell],
    bench: &Bench<'_>,
    tell: &dyn Fn(usize, &str),
) -> Result<(), String> {
    for (at, next) in planned.iter().enumerate() {
        let cell = &cells[next.cell];
        if run.records.iter().any(|record| record.trial == next.trial) {
            continue;
        }
        let outcome = run.outcome_path(next.trial, 0);
        let named = format!("{} {}", cell.arm, levels(cell));
        let first = match tried(run, cell).first() {
            Some((rate, _)) => *rate,
            None => bench.first_rate(cell)?,
        };
        let steps = step(&search(bench.experiment, first), &tried(run, cell));
        let times = next.block.checked_sub(bench.experiment.knee.trials_max);
        let made = match (steps, times) {
            (Step::Probe(rate), None) => {
                tell(at, &format!("{named} {rate:.0}/s"));
                bench.probe(next, cell, Attempt::ONLY, rate, &outcome)
            }
            (Step::Done(Found::Knee { rate, .. }), Some(which)) => {
                let which = index(f64::from(which));
                let times = bench.experiment.knee.overload[which];
                let stretch_s = stretch_s(&bench.experiment.measure);
                tell(at, &format!("{named} at {times} times its knee"));
                bench.beyond(next, cell, &Overload { knee: rate, times, stretch_s }, &outcome)
            }
            // The search has ended already, or found no knee to exceed.
            _ => continue,
        };
        run.add(made.map_err(|_| INTERRUPTED)?)?;
        bench.note_environments(run)?;
    }
    let mut text = String::new();
    for row in rows(run) {
        text.push_str(&serde_json::to_string(&row).map_err(|error| error.to_string())?);
        text.push('\n');
    }
    write_whole(&run.directory.join(KNEES), &text)
}

fn search(experiment: &Experiment, start: f64) -> Search {
    let KneeSearch { goal, trials_max, .. } = experiment.knee;
    Search { goal, trials_max, ..Search::from(start) }
}

fn tried(run: &Run, cell: &Cell) -> Vec<(f64, Tried)> {
    let of = |record: &Record| match &record.probe {
        Some(Probe { rate, times: None, shown }) if record.cell == *cell => {
            Some((*rate, shown.clone()))
        }
        _ => None,
    };
    run.records.iter().filter_map(of).collect()
}

/// Results of each arm that was probed, in the order of the file.
pub(crate) fn rows(run: &Run) -> Vec<Row> {
    cells(&run.experiment).into_iter().filter_map(|cell| row(run, cell)).collect()
}

fn row(run: &Run, cell: Cell) -> Option<Row> {
    let tried = tried(run, &cell);
    let (first, _) = tried.first()?;
    let found = match step(&search(&run.experiment, *first), &tried) {
        Step::Done(found) => found,
        Step::Probe(_) => Found::Interrupted,
    };
    let stretch = index(stretch_s(&run.experiment.measure));
    let mut overload: Vec<(Beyond, &Record)> = run
        .records
        .iter()
        .filter(|record| record.cell == cell && record.valid)
        .filter_map(|record| Some((beyond(record, stretch)?, record)))
        .collect();
    overload.sort_by(|a, b| a.0.multiple.total_cmp(&b.0.multiple));
    let highest = run.experiment.knee.overload.iter().copied().fold(0.0, f64::max);
    let of_highest = overload.last().filter(|(beyond, _)| beyond.multiple >= highest);
    let recovery_s = of_highest.and_then(|(_, record)| {
        let calm = Overload { knee: record.probe.as_ref()?.rate, times: 1.0, stretch_s: 1.0 };
        let after = record.series.get(2 * stretch..)?;
        let good: Vec<f64> = after.iter().map(|second| real(second.good)).collect();
        let per_arrival = offered(after) / calm.calm();
        recovery_s(&good, calm.calm() * per_arrival).map(count)
    });
    let recovery_s = recovery_s.filter(|_| run.experiment.knee.recovery);
    let overload = overload.into_iter().map(|(beyond, _)| beyond).collect();
    Some(Row { cell, knee: Knee { found, tried }, overload, recovery_s })
}

/// The middle of the overloaded stretch: its first second still fills the queues.
fn beyond(record: &Record, stretch: usize) -> Option<Beyond> {
    let multiple = record.probe.as_ref()?.times?;
    let seconds = record.series.get(stretch + 1..2 * stretch)?;
    let good: Vec<f64> = seconds.iter().map(|second| real(second.good)).collect();
    Some(Beyond { multiple, offered_per_s: offered(seconds), good_per_s: mean(&good) })
}

fn offered(seconds: &[crate::record::Second]) -> f64 {
    mean(&seconds.iter().map(|second| real(second.offered)).collect::<Vec<f64>>())
}

/// An arm's knee over the baseline's, which took turns with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    pub cell: Cell,
    pub ratio: f64,
    /// Interval; those of the experiment together contain the truth 19 times in 20.
    pub interval: Interval,
}

/// Compares every arm that has a knee with the baseline at the same setting.
pub(crate) fn beside(experiment: &Experiment, rows: &[Row]) -> Vec<Beside> {
    let is_first = |one: &&Row| one.cell.arm == experiment.baseline;
    let others: Vec<&Row> = rows.iter().filter(|row| !is_first(row)).collect();
    let level = shared(LEVEL, others.len());
    let of = |row: &&Row| {
        let mut firsts = rows.iter().filter(is_first);
        let first = firsts.find(|one| one.cell.setting() == row.cell.setting())?;
        let found = |row: &Row| matches!(row.knee.found, Found::Knee { .. });
        let both = [row, first].map(|one| &*one.knee.tried);
        let ratio = (found(row) && found(first))
            .then(|| knee::ratio(both, experiment.knee.trials_max, level));
        let (ratio, interval) = ratio.flatten()?;
        Some(Beside { cell: row.cell.clone(), ratio, interval })
    };
    others.iter().filter_map(of).collect()
}

/// Comparison of an arm's knee with the baseline's, in words.
pub(crate) fn words_beside(one: &Beside, baseline: &str) -> String {
    let Interval { low, high } = one.interval;
    format!("{} over {baseline}: {:.2} ({low:.2} to {high:.2})", one.cell.name(), one.ratio)
}

pub(crate) fn words(row: &Row) -> String {
    let found = match &row.knee.found {
        Found::Knee { rate, interval, broken } => format!(
            "{} a second ({} to {}), then {broken} breaks",
            show(*rate),
            show(interval.low),
            show(interval.high)
        ),
        Found::NotUpTo { rate } => format!("no knee up to {} a second", show(*rate)),
        Found::NowhereAbove { rate, broken } => {
            format!("the level does not hold at {} a second ({})", show(*rate), broken.join(", "))
        }
        Found::LimitedByClient { rate, why } => {
            format!("from {} a second on nothing can be told: {why}", show(*rate))
        }
        Found::Interrupted => format!("not found yet, after {} probes", row.knee.tried.len()),
    };
    format!("{}: {found}", row.cell.name())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::analysis::Analysis;
    use crate::analysis::tests::synthetic;
    use crate::record::Second;
    use crate::stats::Random;
    use std::collections::BTreeMap;

    pub(crate) const TEXT: &str = r#"
experiment = { name = "made-up", question = "?", expect = "!" }
targets.a.program = "regatta"
targets.b.program = "regatta"
workload = { root = ".", loop = "open", rate = 300, slo = "p99<50ms" }
measure = { mode = "knee", window_s = 1 }
knee = { trials_max = 40, overload = [1.5, 2] }
"#;

    /// A run in which `a` has its knee at 1,000 a second and `b` at 800, on a machine that strays
    /// by 1 %.
    pub(crate) fn searched() -> Run {
        searched_at(800.0, 9)
    }

    /// The same with another knee of `b`, and other noise.
    pub(crate) fn searched_at(b: f64, seed: u64) -> Run {
        let mut run = synthetic(TEXT, &|_| BTreeMap::new());
        let planned = std::mem::take(&mut run.records);
        let mut random = Random::new(seed);
        for mut record in planned {
            let knee: f64 = if record.cell.target == "b" { b } else { 1_000.0 };
            let tried = tried(&run, &record.cell);
            let first = tried.first().map_or(300.0, |(rate, _)| *rate);
            let overload = record.block.checked_sub(run.experiment.knee.trials_max);
            let probe = match (step(&search(&run.experiment, first), &tried), overload) {
                (Step::Probe(rate), None) => {
                    let met = rate < knee * (0.01 * random.normal()).exp();
                    let broken = Tried::Broken(vec!["p99<50ms".to_owned()]);
                    let shown = if met { Tried::Met } else { broken };
                    Probe { rate, times: None, shown }
                }
                (Step::Done(Found::Knee { rate, .. }), Some(which)) => {
                    let times = run.experiment.knee.overload[index(f64::from(which))];
                    let second = |second: u64| {
                        let phase = second / 6;
                        let offered = [0.7, times, 0.7][index(real(phase))] * rate;
                        let late = if second == 12 { 0.5 } else { 1.0 };
                        let good = offered.min(knee / times.sqrt()) * late;
                        let whole = |x: f64| crate::units::whole(index(x));
                        Second {
                            second,
                            counts: true,
                            offered: whole(offered),
                            good: whole(good),
                            p99_ms: 1.0,
                            ..Second::default()
                        }
                    };
                    record.series = (0..18).map(second).collect();
                    Probe { rate, times: Some(times), shown: Tried::Met }
                }
                _ => continue,
            };
            record.valid = !matches!(probe.shown, Tried::Invalid(_));
            record.probe = Some(probe);
            run.records.push(record);
        }
        run
    }

    #[test]
    fn each_arm_has_its_knee_and_what_it_does_beyond() {
        let run = searched();
        let rows = rows(&run);
        let arms: Vec<&str> = rows.iter().map(|row| row.cell.arm.as_str()).collect();
        assert_eq!(arms, ["a", "a (again)", "b"]);
        for row in &rows {
            let truth = if row.cell.target == "b" { 800.0 } else { 1_000.0 };
            let Found::Knee { rate, interval, broken } = &row.knee.found else {
                panic!("{row:?}");
            };
            assert!((rate / truth - 1.0).abs() < 0.04, "{rate} for {truth}");
            assert!(interval.low < *rate && *rate < interval.high);
            assert_eq!(broken, "p99<50ms");
            assert_eq!(row.overload.len(), 2);
            assert!((row.overload[1].offered_per_s / (2.0 * rate) - 1.0).abs() < 0.01);
            assert!(row.overload[1].good_per_s < row.overload[0].good_per_s);
            assert_eq!(row.recovery_s, Some(1.0), "the first second after it was slow");
        }
        let probes = |block: u32| {
            let of = |record: &&Record| record.block == block;
            run.records.iter().filter(of).count()
        };
        assert_eq!((probes(0), probes(1), probes(2)), (3, 3, 3), "arms take turns");
        let analysis = Analysis::of(&run);
        assert!(analysis.answer.contains("b: "), "{}", analysis.answer);
        assert!(analysis.answer.contains("p99<50ms breaks"), "{}", analysis.answer);
        let [again, b] = analysis.beside.as_slice() else { panic!("{:?}", analysis.beside) };
        assert!(again.interval.contains(1.0) && again.cell.arm == "a (again)", "{again:?}");
        assert!(b.interval.contains(0.8) && b.interval.high < 0.9, "{b:?}");
        assert!(analysis.answer.contains("In pairs: a (again) over a: 1.0"), "{}", analysis.answer);
        assert!(analysis.effects.is_empty(), "rates that differ are no pairs");
    }

    #[test]
    fn an_interrupted_search_says_so() {
        let mut run = searched();
        run.records.truncate(5);
        let analysis = Analysis::of(&run);
        assert!(analysis.answer.contains("not found yet"), "{}", analysis.answer);
        run.records.clear();
        assert!(rows(&run).is_empty());
        assert!(Analysis::of(&run).answer.starts_with("Nothing can be said"));
    }
}
