//! What was asked against what was answered: the report's main figure.

use super::figures::{Figure, Section, name};
use super::{Report, show};
use crate::analysis::words;
use serde_json::{Value, json};

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    if report.has_rates() {
        [report.goodput(), report.overflows()].into_iter().flatten().collect()
    } else {
        report.medians().into_iter().collect()
    }
}

impl Report<'_> {
    fn goodput(&self) -> Option<Figure> {
        let lines = self.metric_lines("offered_per_s", "good_per_s");
        let drawing = json!({ "kind": "curves", "lines": lines, "guide": true,
            "x": "offered, requests per second", "y": "good answers per second" });
        let unit = self.run.manifest.unit.map_or(String::new(), |unit| {
            format!(" 1x is {} a second, the calibrated rate.", show(unit))
        });
        let caption = format!(
            "What was asked against what was answered well: on the dotted line all is answered, \
             and the gap to it is late, lost or failed. A flat line past its peak is good; a \
             falling one collapses under overload.{unit} Whiskers: 95 % interval of the median \
             (below six trials: their range)."
        );
        (!lines.is_empty())
            .then(|| Figure::new(Section::Throughput, "goodput", "Goodput", caption).drawn(drawing))
    }

    fn medians(&self) -> Option<Figure> {
        let metric = &self.analysis.metric;
        let rows: Vec<Value> = self
            .analysis
            .cells
            .iter()
            .filter_map(|one| {
                let value = one.metrics.get(metric)?;
                let interval = value.interval;
                let arm = self.arm(&one.cell);
                Some(json!([name(one), value.median, interval.low, interval.high, arm]))
            })
            .collect();
        let drawing = json!({ "kind": "forest", "rows_data": rows, "x": words(metric),
            "zero": true });
        let caption = "Medians with 95 % intervals over the trials that count. Intervals of one \
                       machine's slow and fast minutes: whether two arms differ is told by the \
                       ratios below, which are taken within blocks."
            .to_owned();
        let title = format!("Median {}", words(metric));
        (!rows.is_empty()).then(|| {
            let figure = Figure::new(Section::Throughput, "medians", title, caption);
            figure.drawn(drawing).high(rows.len())
        })
    }

    fn overflows(&self) -> Option<Figure> {
        let most = |one: &crate::analysis::CellSummary| {
            one.metrics.get("listen_overflows_per_s").map_or(0.0, |value| value.median)
        };
        if self.analysis.cells.iter().all(|one| most(one) == 0.0) {
            return None;
        }
        let lines = self.metric_lines("offered_per_s", "listen_overflows_per_s");
        let drawing = json!({ "kind": "curves", "lines": lines,
            "x": "offered, requests per second", "y": "connections turned away per second" });
        let caption = "Connections that found the listener's queue full (the kernel's count).";
        Some(Figure::new(Section::Throughput, "overflows", "Turned away", caption).drawn(drawing))
    }
}
