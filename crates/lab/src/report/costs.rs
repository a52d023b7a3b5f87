//! What a reply costs the server.

use super::Report;
use super::figure::{Figure, Section};
use crate::analysis::CellSummary;
use crate::units::show;
use serde_json::json;

/// What a reply costs in one currency: its two metrics, a factor, place, title, axis, what to see.
struct Cost {
    of: [&'static str; 2],
    factor: f64,
    id: &'static str,
    title: &'static str,
    axis: &'static str,
    seen: &'static str,
}

const COSTS: [Cost; 2] = [
    Cost {
        of: ["user_s_per_reply", "kernel_s_per_reply"],
        factor: 1e6,
        id: "costs",
        title: "Processor time",
        axis: "µs of processor time per reply",
        seen: "The server's processor time for each reply, from /proc. A bar that is mostly kernel \
               leaves little for a faster program to win. Work that loopback does in the client's \
               system calls is the client's here, for all arms alike.",
    },
    Cost {
        of: ["user_instructions_per_reply", "kernel_instructions_per_reply"],
        factor: 1e-3,
        id: "instructions",
        title: "Instructions",
        axis: "thousands of instructions per reply",
        seen: "What the processor counted for each reply. Instructions hardly drift, so small \
               differences here are real; but they miss stalls and waiting: time decides, this \
               explains.",
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
        let caption = format!(
            "{} Least{at}: {}; most: {}. Medians over the trials; their intervals are in the table \
             of numbers.",
            cost.seen,
            told(least),
            told(most)
        );
        let figure = Figure::new(Section::Work, cost.id, cost.title, caption);
        Some(figure.drawn(drawing).high(rows.len() + 1))
    }
}
