//! What the servers counted themselves.

use super::Report;
use super::figures::{Figure, Section};
use serde_json::json;

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    if !report.has_rates() {
        return Vec::new();
    }
    let figures = [
        report.ratio_of_counters(
            ["connections_open_at_accept_sum", "accept_ok"],
            ("open", "Open connections", "mean of the open connections, at each accept", true),
        ),
        report.ratio_of_counters(
            ["wait_events", "wait_calls"],
            ("events", "Ready descriptors for each wait", "events for each wait", false),
        ),
    ];
    figures.into_iter().flatten().collect()
}

impl Report<'_> {
    fn ratio_of_counters(
        &self,
        [part, whole]: [&str; 2],
        (id, title, y, log_y): (&'static str, &str, &str, bool),
    ) -> Option<Figure> {
        let lines = self.lines(&|one| {
            let (x, part) = (one.metrics.get("offered_per_s")?, one.counters.get(part)?);
            let whole = one.counters.get(whole).filter(|whole| **whole > 0.0)?;
            let value = part / whole;
            (!log_y || value > 0.0).then_some([x.median, value, value, value])
        });
        let drawing = json!({ "kind": "curves", "lines": lines, "log_y": log_y,
            "x": "offered, requests per second", "y": y });
        let caption = format!("From the server's own counters: {part} divided by {whole}.");
        (!lines.is_empty()).then(|| Figure::new(Section::Inside, id, title, caption).drawn(drawing))
    }
}
