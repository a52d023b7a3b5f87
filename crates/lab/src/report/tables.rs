//! Tables: the numbers as text and as CSV.

use crate::analysis::{Analysis, CellSummary};
use crate::journal::Run;
use crate::units::show;
use std::collections::BTreeSet;

/// The columns of the table of numbers: metric, heading, factor.
const COLUMNS: [(&str, &str, f64); 14] = [
    ("offered_per_s", "offered /s", 1.0),
    ("good_per_s", "good /s", 1.0),
    ("mbit_per_s", "Mbit/s", 1.0),
    ("error_share", "failed %", 100.0),
    ("p50_ms", "p50 ms", 1.0),
    ("p99_ms", "p99 ms", 1.0),
    ("cpu_us_per_reply", "CPU µs/reply", 1.0),
    ("user_instructions_per_reply", "user instr.", 1.0),
    ("kernel_instructions_per_reply", "kernel instr.", 1.0),
    ("cycles_per_reply", "cycles", 1.0),
    ("switches_per_reply", "switches", 1.0),
    ("server_cpu", "server CPU %", 100.0),
    ("client_cpu", "client CPU %", 100.0),
    ("foreign", "others %", 100.0),
];

/// A table of text.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Table {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// The medians of what people ask for; columns that no cell has are left out.
pub(crate) fn numbers(analysis: &Analysis) -> Table {
    let has = |metric: &str| analysis.cells.iter().any(|one| one.metrics.contains_key(metric));
    let columns: Vec<_> = COLUMNS.into_iter().filter(|(metric, ..)| has(metric)).collect();
    let mut head = vec!["arm".to_owned(), "trials".to_owned()];
    head.extend(columns.iter().map(|(_, heading, _)| (*heading).to_owned()));
    let value = |one: &CellSummary, metric: &str, factor: f64| {
        let Some(point) = one.point(metric) else { return "–".to_owned() };
        let [median, low, high] = point.map(|value| show(value * factor));
        if metric == analysis.metric { format!("{median} ({low} to {high})") } else { median }
    };
    let row = |one: &CellSummary| {
        let mut row = vec![one.cell.name(), one.trials.to_string()];
        row.extend(columns.iter().map(|(metric, _, factor)| value(one, metric, *factor)));
        row
    };
    Table { head, rows: analysis.cells.iter().map(row).collect() }
}

/// A line for each trial, valid or not.
pub(crate) fn trials(run: &Run) -> String {
    let paths: BTreeSet<&String> =
        run.experiment.factors.iter().map(|factor| &factor.path).collect();
    let metrics: BTreeSet<&String> =
        run.records.iter().flat_map(|record| record.metrics.keys()).collect();
    let mut out = String::from("trial,attempt,block,arm,target,valid,reasons,seed,started_unix_ms");
    for name in paths.iter().chain(&metrics) {
        out.push(',');
        out.push_str(&quoted(name));
    }
    out.push('\n');
    for record in &run.records {
        let cell = &record.cell;
        let mut row = vec![
            record.trial.to_string(),
            record.attempt.to_string(),
            record.block.to_string(),
            quoted(&cell.arm),
            quoted(&cell.target),
            record.valid.to_string(),
            quoted(&record.reasons.join("; ")),
            record.seed.to_string(),
            record.started_unix_ms.to_string(),
        ];
        row.extend(paths.iter().map(|path| quoted(cell.levels.get(*path).map_or("", |l| l))));
        let number =
            |name: &&String| record.metrics.get(*name).map_or(String::new(), f64::to_string);
        row.extend(metrics.iter().map(number));
        out.push_str(&row.join(","));
        out.push('\n');
    }
    out
}

/// A line for each cell and metric, with the run's label if it has one.
pub(crate) fn cells(analysis: &Analysis, label: Option<&str>) -> String {
    let mut out = String::from("cell,trials,invalid,metric,median,low,high");
    out.push_str(if label.is_some() { ",label\n" } else { "\n" });
    for one in &analysis.cells {
        for (metric, value) in &one.metrics {
            let row = [
                quoted(&one.cell.name()),
                one.trials.to_string(),
                one.invalid.to_string(),
                metric.clone(),
                value.median.to_string(),
                value.interval.low.to_string(),
                value.interval.high.to_string(),
            ];
            let row: Vec<String> = row.into_iter().chain(label.map(quoted)).collect();
            out.push_str(&row.join(","));
            out.push('\n');
        }
    }
    out
}

/// A CSV value (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
