//! Times at every percentile.

use super::Report;
use super::figures::{Figure, RATE, Section};
use crate::analysis::CellSummary;
use serde_json::{Value, json};

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    report.spectrum().into_iter().collect()
}

impl Report<'_> {
    /// At the highest rate at which everybody still answers nearly all, or the only setting.
    fn spectrum(&self) -> Option<Figure> {
        let rated = |one: &&CellSummary| {
            let good = one.metrics.get("good_share").map_or(0.0, |share| share.median);
            !self.has_rates() || good > 0.98
        };
        let level = |one: &CellSummary| one.cell.levels.get(RATE).cloned();
        let number = |level: &Option<String>| {
            let rate = level.as_deref().and_then(crate::spec::rate);
            rate.map_or(0.0, |(rate, _)| rate)
        };
        let calm = self.analysis.cells.iter().filter(|one| one.trials > 0).filter(rated);
        let chosen = calm.map(level).max_by(|a, b| number(a).total_cmp(&number(b)))?;
        let lines: Vec<Value> = self
            .analysis
            .cells
            .iter()
            .filter(|one| level(one) == chosen && one.spectrum.len() > 1)
            .map(|one| json!({ "arm": self.arm(&one.cell), "points": one.spectrum }))
            .collect();
        let drawing = json!({ "kind": "spectrum", "lines": lines });
        let at = chosen.map_or(String::new(), |level| format!(" at rate {level}"));
        let caption = format!(
            "Time at each percentile{at}, median over the trials; to the right the slowest \
             requests. A percentile with fewer than ten samples beyond it is not drawn."
        );
        (!lines.is_empty()).then(|| {
            Figure::new(Section::Percentiles, "spectrum", "Percentiles", caption).drawn(drawing)
        })
    }
}
