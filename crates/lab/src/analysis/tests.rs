//! Runs made up of numbers whose truth is known.

use super::*;
use crate::experiment::plan::order;
use crate::experiment::{Scale, library, parse};
use crate::journal::manifest::Manifest;
use crate::report::Report;
use crate::stats::Random;

/// A run of `experiment` in which `value` says what each cell shows, before 1 % of noise and a
/// drift that hits all arms of a block alike.
pub(crate) fn synthetic(text: &str, value: &dyn Fn(&Cell) -> BTreeMap<String, f64>) -> Run {
    synthetic_at(text, Scale::Quick, value)
}

/// The same at a scale.
pub(crate) fn synthetic_at(
    text: &str,
    scale: Scale,
    value: &dyn Fn(&Cell) -> BTreeMap<String, f64>,
) -> Run {
    synthetic_of(parse("made-up", text, scale).unwrap(), value)
}

/// The same of an experiment that is read.
pub(crate) fn synthetic_of(
    experiment: Experiment,
    value: &dyn Fn(&Cell) -> BTreeMap<String, f64>,
) -> Run {
    let cells = cells(&experiment);
    let mut random = Random::new(5);
    let mut records = Vec::new();
    let mut drift = vec![0.0; 1_000];
    drift.fill_with(|| (0.2 * random.normal()).exp());
    for planned in order(&experiment) {
        let cell = cells[planned.cell].clone();
        let block = usize::try_from(planned.block).unwrap();
        let mut metrics = value(&cell);
        for (name, value) in &mut metrics {
            if name == "good_per_s" {
                *value *= drift[block] * (0.01 * random.normal()).exp();
            }
        }
        let counters = metrics.clone();
        records.push(Record {
            trial: planned.trial,
            block: planned.block,
            cell,
            seed: planned.seed,
            valid: true,
            metrics,
            counters,
            spectrum: vec![(0.5, 1.0), (0.99, 4.0)],
            ..Record::default()
        });
    }
    let manifest = Manifest {
        format: 1,
        started_unix_ms: 1_795_306_796_961,
        command: "regatta lab run made-up".to_owned(),
        unit: Some(1_000.0),
        connections_per_s: Some(1_000.0),
        ..Manifest::default()
    };
    let profiles_kept = Vec::new();
    Run { directory: "made-up".into(), experiment, manifest, records, profiles_kept }
}

/// Numbers of a cell by their names.
pub(crate) fn named<const N: usize>(all: [(&str, f64); N]) -> BTreeMap<String, f64> {
    all.map(|(name, value)| (name.to_owned(), value)).into()
}

/// A run of an experiment that comes with the program.
pub(crate) fn of_library(
    name: &str,
    scale: Scale,
    value: &dyn Fn(&Cell) -> BTreeMap<String, f64>,
) -> Run {
    synthetic_at(library::find(name).unwrap(), scale, value)
}

const TEXT: &str = r#"
experiment = { name = "made-up", question = "?", expect = "!" }
targets = { a = {}, b = {}, same = {} }
workload.root = "."
measure.blocks = 12
"#;

#[test]
fn drift_hides_nothing_and_adds_nothing() {
    let mut run = synthetic(TEXT, &|cell| {
        named([("good_per_s", if cell.target == "b" { 950.0 } else { 1_000.0 })])
    });
    let analysis = Analysis::of(&run);
    let verdict = |arm: &str| analysis.effects.iter().find(|row| row.cell.arm == arm).unwrap();
    assert_eq!(verdict("a (again)").verdict, Verdict::NoDifference);
    assert_eq!(verdict("same").verdict, Verdict::NoDifference);
    let slower = verdict("b");
    assert_eq!(slower.verdict, Verdict::Less);
    assert!((slower.effect.ratio - 0.95).abs() < 0.015, "{slower:?}");
    assert_eq!(analysis.calibration, (1, 1));
    assert!(analysis.answer.contains(" % less than a ("), "{}", analysis.answer);
    assert!(analysis.answer.contains("same and a cannot be told apart (-"), "{}", analysis.answer);
    assert_eq!((analysis.blocks, analysis.trials), ((12, 12), (48, 0)));
    // Looks make intervals wider. Those of the baseline and itself stay at 95 %.
    run.manifest.looks = vec![6, 12];
    let grown = Analysis::of(&run);
    let of = |arm: &str| grown.effects.iter().find(|row| row.cell.arm == arm).unwrap().effect;
    assert_eq!(of("a (again)").interval, verdict("a (again)").effect.interval);
    assert_ne!(of("b").interval, slower.effect.interval);
}

/// An open loop reports its rate, the other numbers, and the arms that did not keep up.
#[test]
fn an_open_loop_tells_its_rate_and_the_other_numbers() {
    let text = TEXT.replace("measure.blocks = 12", "measure = { blocks = 8, also = [\"p99_ms\"] }");
    let text = format!("{text}\n[calibrate]\ntarget = \"a\"\n").replace(
        "workload.root",
        "workload.loop = \"open\"\nworkload.rate = \"0.4x\"\nworkload.root",
    );
    let answer = |share: f64| {
        let run = synthetic(&text, &|cell| {
            let slow = if cell.target == "b" { 1.5 } else { 1.0 };
            let good_share = if cell.target == "b" { share } else { 1.0 };
            named([("good_per_s", 1_000.0), ("p99_ms", 2.0 * slow), ("good_share", good_share)])
        });
        Analysis::of(&run).answer
    };
    let all = answer(1.0);
    let p99 =
        "99th percentile of the time: b 50.0 % more than a (50.0 to 50.0 %); same and a cannot";
    assert!(all.starts_with("Good answers per second: ") && all.contains(p99), "{all}");
    assert!(all.ends_with("All were asked for 400 requests a second."), "{all}");
    let behind = answer(0.9);
    assert!(behind.ends_with("Not all kept up: b answered 90 %."), "{behind}");
}

#[test]
fn invalid_trials_count_for_nothing_and_are_counted() {
    let mut run = synthetic(TEXT, &|_| named([("good_per_s", 1_000.0)]));
    for record in &mut run.records {
        if record.cell.arm == "b" {
            record.valid = record.block > 0;
            record.metrics.insert("good_per_s".to_owned(), 1.0);
        }
    }
    let analysis = Analysis::of(&run);
    let b = analysis.cells.iter().find(|one| one.cell.arm == "b").unwrap();
    assert_eq!((b.trials, b.invalid), (11, 1));
    assert_eq!((analysis.blocks, analysis.trials), ((12, 11), (47, 1)));
    assert_eq!((analysis.validity["a"], analysis.validity["b"]), ((12, 12), (11, 12)));
    let report = Report::of(&run);
    let line = "47 trials count, 1 do not (b: 11 of 12 count)";
    assert!(report.badges().iter().any(|badge| badge == line), "{:?}", report.badges());
    run.records.iter_mut().for_each(|record| record.valid = false);
    assert!(Analysis::of(&run).answer.starts_with("Nothing can be said"));
    run.records.clear();
    assert!(Analysis::of(&run).effects.is_empty());
}

#[test]
fn only_a_busy_client_limits() {
    let text = TEXT.replace("measure.blocks = 12", "measure.blocks = 4");
    let said = |client_busy: f64, server_cpu: f64| {
        let metrics =
            [("good_per_s", 1e4), ("client_busy", client_busy), ("server_cpu", server_cpu)];
        let mut run = synthetic(&text, &|_| named(metrics));
        run.experiment.workload.model = Loop::Closed;
        run.experiment.machine.server_cpus = vec![0];
        Analysis::of(&run).answer
    };
    let limited = said(0.97, 0.6);
    assert!(limited.contains("Limited by the client"), "{limited}");
    assert_eq!(limited.matches("servers of a, ").count(), 1, "{limited}");
    for (client, server) in [(0.5, 0.6), (0.97, 0.97)] {
        let answer = said(client, server);
        assert!(!answer.contains("Limited"), "{answer}");
    }
}

#[test]
fn less_is_better_of_what_costs() {
    for (metric, more) in
        [("pss_mib", false), ("cycles_per_instruction", false), ("good_per_s", true)]
    {
        let text = format!("{TEXT}measure.metric = \"{metric}\"\n");
        let run = synthetic(&text, &|_| named([(metric, 2.0)]));
        assert_eq!(Analysis::of(&run).more_is_better, more, "{metric}");
    }
}
