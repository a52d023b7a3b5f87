//! Tables: the numbers as text.

use crate::analysis::{Analysis, CellSummary};
use crate::units::show;

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
