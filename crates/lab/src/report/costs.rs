//! What a reply costs the server.

use super::Report;
use super::figure::Figure;
use crate::analysis::CellSummary;
use crate::units::show;
use serde_json::json;

/// Cost of a reply in one currency.
struct Cost {
    id: &'static str,
    /// Metrics of the program's part and of the kernel's.
    of: [&'static str; 2],
    factor: f64,
    axis: &'static str,
}

const COSTS: [Cost; 2] = [
    Cost {
        id: "costs",
        of: ["user_s_per_reply", "kernel_s_per_reply"],
        factor: 1e6,
        axis: "µs of processor time per reply",
    },
    Cost {
        id: "instructions",
        of: ["user_instructions_per_reply", "kernel_instructions_per_reply"],
        factor: 1e-3,
        axis: "thousands of instructions per reply",
    },
];

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    COSTS.iter().filter_map(|cost| report.costs(cost)).collect()
}

impl Report<'_> {
    fn costs(&self, cost: &Cost) -> Option<Figure> {
        let row = |one: &CellSummary| {
            let of = |metric| Some(cost.factor * one.median(metric)?);
            Some((one.cell.name(), of(cost.of[0])?, of(cost.of[1])?))
        };
        let (cells, at) = self.calm();
        let rows: Vec<(String, f64, f64)> = cells.into_iter().filter_map(row).collect();
        let sum = |row: &&(String, f64, f64)| row.1 + row.2;
        let least = rows.iter().min_by(|a, b| sum(a).total_cmp(&sum(b)))?;
        let most = rows.iter().max_by(|a, b| sum(a).total_cmp(&sum(b)))?;
        let told = |row: &(String, f64, f64)| {
            let kernel = 100.0 * row.2 / sum(&row).max(f64::MIN_POSITIVE);
            format!("{} {} ({kernel:.0} % of it kernel)", row.0, show(sum(&row)))
        };
        let drawing = json!({ "kind": "stack", "x": cost.axis,
            "labels": rows.iter().map(|row| &row.0).collect::<Vec<_>>(),
            "parts": [
                { "name": "user", "values": rows.iter().map(|row| row.1).collect::<Vec<_>>() },
                { "name": "kernel", "values": rows.iter().map(|row| row.2).collect::<Vec<_>>() },
            ] });
        let seen = format!(
            "Least{at}: {}; most: {}. Medians over the trials; their intervals are in the table of \
             numbers.",
            told(least),
            told(most)
        );
        let figure = Figure::of(cost.id, &[("seen", &seen)]);
        Some(figure.drawn(drawing).high(rows.len() + 1))
    }
}
