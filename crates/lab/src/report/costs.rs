//! What a reply costs the server.

use super::Report;
use super::figures::{Figure, Section, name};
use crate::analysis::CellSummary;
use serde_json::json;

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    report.costs().into_iter().collect()
}

impl Report<'_> {
    fn costs(&self) -> Option<Figure> {
        let micro =
            |one: &CellSummary, name: &str| one.metrics.get(name).map(|value| 1e6 * value.median);
        let rows: Vec<(String, f64, f64)> = self
            .analysis
            .cells
            .iter()
            .filter_map(|one| {
                let user = micro(one, "user_s_per_reply")?;
                Some((name(one), user, micro(one, "kernel_s_per_reply")?))
            })
            .collect();
        let drawing = json!({ "kind": "stack", "x": "µs of processor time per reply",
            "labels": rows.iter().map(|row| &row.0).collect::<Vec<_>>(),
            "parts": [
                { "name": "user", "values": rows.iter().map(|row| row.1).collect::<Vec<_>>() },
                { "name": "kernel", "values": rows.iter().map(|row| row.2).collect::<Vec<_>>() },
            ] });
        let caption = "The server's processor time for each reply, from /proc. Work that loopback \
                       does in the client's system calls is the client's here, for all arms alike."
            .to_owned();
        (!rows.is_empty()).then(|| {
            Figure::new(Section::Work, "costs", "Processor time", caption)
                .drawn(drawing)
                .high(rows.len() + 1)
        })
    }
}
