//! Trials second by second.

use super::Report;
use super::figures::{Figure, Section, name};
use serde_json::json;

/// Trials whose seconds are drawn, at most.
const RUNS_MAX: usize = 40;

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    report.seconds().into_iter().collect()
}

impl Report<'_> {
    /// Of each cell the trial in the middle, second by second.
    fn seconds(&self) -> Option<Figure> {
        let metric = &self.analysis.metric;
        let (mut runs, mut choices) = (Vec::new(), Vec::new());
        for one in self.analysis.cells.iter().filter(|one| one.trials > 0) {
            let mut trials: Vec<_> =
                self.run.valid().filter(|record| record.cell == one.cell).collect();
            trials.sort_by(|a, b| {
                let of = |r: &crate::record::Record| r.metrics.get(metric).copied().unwrap_or(0.0);
                of(a).total_cmp(&of(b))
            });
            let Some(middle) = trials.get(trials.len() / 2) else { continue };
            let series = &middle.series;
            if series.len() < 3 || runs.len() >= RUNS_MAX {
                continue;
            }
            choices.push(format!("{}, trial {}", name(one), middle.trial));
            runs.push(json!({
                "warm": self.run.experiment.measure.warm_s,
                "seconds": series.iter().map(|row| row.second).collect::<Vec<_>>(),
                "offered": series.iter().map(|row| row.offered).collect::<Vec<_>>(),
                "good": series.iter().map(|row| row.good).collect::<Vec<_>>(),
                "errors": series.iter().map(|row| row.errors).collect::<Vec<_>>(),
                "p99": series.iter().map(|row| row.p99_ms).collect::<Vec<_>>(),
            }));
        }
        let drawing = json!({ "kind": "series", "runs": runs });
        let caption = "One trial of each cell, the one in the middle by the deciding number, from \
                       the load's start. The last second may not be whole."
            .to_owned();
        let figure = Figure::new(Section::Time, "seconds", "Second by second", caption);
        (!runs.is_empty()).then(|| figure.drawn(drawing).chosen("trial", choices))
    }
}
