//! Tables: the numbers as text.

use super::figure::{FigureRow, Table};
use crate::analysis::{Analysis, CellSummary};
use crate::units::show;

/// Metric, heading, factor.
pub(super) type Column = (String, String, f64);

/// Columns of a figure's table that some cell has.
pub(super) fn columns(analysis: &Analysis, id: &str) -> Vec<&'static Column> {
    let has = |metric: &str| analysis.cells.iter().any(|one| one.metrics.contains_key(metric));
    FigureRow::of(id).columns.iter().filter(|(metric, ..)| has(metric)).collect()
}

/// The medians of what people ask for; columns that no cell has are left out.
pub(crate) fn numbers(analysis: &Analysis) -> Table {
    let columns = columns(analysis, "numbers");
    let mut head = vec!["arm".to_owned(), "trials".to_owned()];
    head.extend(columns.iter().map(|(_, heading, _)| heading.clone()));
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
