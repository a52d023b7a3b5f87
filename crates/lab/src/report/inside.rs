//! What the servers counted themselves.

use super::Report;
use super::figure::{Figure, Section, Setting};
use serde_json::json;

/// Part, whole, place, title, what it is, whether on a logarithmic axis, what to see.
struct Ratio {
    of: [&'static str; 2],
    id: &'static str,
    title: &'static str,
    y: &'static str,
    log_y: bool,
    seen: &'static str,
}

const RATIOS: [Ratio; 2] = [
    Ratio {
        of: ["connections_open_at_accept_sum", "accept_ok"],
        id: "open",
        title: "Open connections",
        y: "mean of the open connections, at each accept",
        log_y: true,
        seen: "A server that accepts all it can holds many connections and answers each late; one \
               that holds few leaves them in the kernel's queue.",
    },
    Ratio {
        of: ["wait_events", "wait_calls"],
        id: "events",
        title: "Ready descriptors for each wait",
        y: "events for each wait",
        log_y: false,
        seen: "Near 1 each event pays for a system call of its own; the more a wait brings, the \
               cheaper an event, and the longer the last of them waits for its turn.",
    },
];

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    let each = |ratio| report.over_rates(&|setting| report.ratio_of_counters(setting, ratio));
    RATIOS.iter().flat_map(each).collect()
}

impl Report<'_> {
    fn ratio_of_counters(&self, setting: &Setting, ratio: &Ratio) -> Option<Figure> {
        let Ratio { of: [part, whole], id, title, y, log_y, seen } = *ratio;
        let lines = self.lines_at(setting, &|one| {
            let (x, part) = (one.median("offered_per_s")?, one.counters.get(part)?);
            let whole = one.counters.get(whole).filter(|whole| **whole > 0.0)?;
            let value = part / whole;
            (!log_y || value > 0.0).then_some([x, value, value, value])
        });
        let drawing = json!({ "kind": "curves", "lines": lines, "log_y": log_y,
            "x": "offered, requests per second", "y": y });
        let caption = format!(
            "{seen} From the server's own counters, medians over the trials: {part} divided by \
             {whole}."
        );
        (!lines.is_empty())
            .then(|| setting.figure(Section::Inside, id, title, caption).drawn(drawing))
    }
}
