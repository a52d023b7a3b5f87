//! What was asked against what was answered: the report's main figure.

use super::Report;
use super::figure::{Figure, Line, Setting};
use crate::analysis::CellSummary;
use crate::experiment::{multiples, words, words_with_unit};
use crate::units::show;
use serde_json::json;
use std::fmt::Display;

/// More arms than this are not told one by one in a caption.
const TOLD_MAX: usize = 4;

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    if !report.has_rates() {
        return report.medians().into_iter().collect();
    }
    report.over_rates(&|setting| report.goodput(setting))
}

impl Report<'_> {
    fn goodput(&self, setting: &Setting) -> Option<Figure> {
        let lines = self.metric_lines_at(setting, "offered_per_s", "good_per_s");
        let ceiling = self.ceiling();
        let drawing = json!({ "kind": "curves", "lines": lines, "guide": true,
            "ceiling": ceiling,
            "x": "offered, requests per second", "y": "good answers per second" });
        let unit = self.run.manifest.unit.map_or(String::new(), |unit| {
            format!(" 1x is {} a second, the calibrated rate.", show(unit))
        });
        let per_s = self.run.manifest.connections_per_s;
        let set = per_s.map(|per_s| multiples::told(&self.run.experiment, per_s));
        let set = set.filter(|set| !set.is_empty());
        let unit = unit + &set.map_or(String::new(), |set| format!(" So {set}."));
        let client = match ceiling {
            Some(most) => format!(
                " The client's ceiling, {} a second, is what it gets from a server that does next \
                 to nothing: near that line the client is measured, not the server.",
                show(most)
            ),
            None => String::new(),
        };
        let peaks = self.peaks(&lines);
        (!lines.is_empty()).then(|| {
            let values: [(&str, &dyn Display); 3] =
                [("peaks", &peaks), ("unit", &unit), ("client", &client)];
            setting.figure(Figure::of("goodput", &values)).drawn(drawing)
        })
    }

    /// Who answers most, and what is left of it at the highest load, in a sentence.
    fn peaks(&self, lines: &[Line]) -> String {
        let mut peaks: Vec<(&str, [f64; 4], f64)> = Vec::new();
        for Line { arm, points } in lines {
            let top = points.iter().max_by(|a, b| a[1].total_cmp(&b[1]));
            if let (Some(top), Some(last)) = (top, points.last()) {
                let left = 100.0 * last[1] / top[1].max(f64::MIN_POSITIVE);
                peaks.push((&self.arms[*arm].name, *top, left));
            }
        }
        peaks.sort_by(|a, b| b.1[1].total_cmp(&a.1[1]));
        let told = |(name, top, left): &(&str, [f64; 4], f64)| {
            let (peak, low, high) = (show(top[1]), show(top[2]), show(top[3]));
            format!("{name} {peak} ({low} to {high}; {left:.0} % of it at the highest load)")
        };
        let list: Vec<String> = match peaks.as_slice() {
            [] => return String::new(),
            [first, .., last] if peaks.len() > TOLD_MAX => vec![told(first), told(last)],
            all => all.iter().map(told).collect(),
        };
        let which = if peaks.len() > TOLD_MAX { "Highest and lowest peak" } else { "Peaks" };
        format!("{which}, a second: {}. ", list.join(", "))
    }

    /// What the client gets from the bare loop, if that is one of the targets.
    fn ceiling(&self) -> Option<f64> {
        let rates = self.analysis.cells.iter().filter(|one| self.is_null(&one.cell));
        rates.filter_map(|one| one.median("good_per_s")).max_by(f64::total_cmp)
    }

    fn medians(&self) -> Option<Figure> {
        let metric = &self.analysis.metric;
        let rows = self.rows_of(&|one| one.point(metric));
        let ceiling = self.ceiling().filter(|_| metric == "good_per_s");
        let drawing = json!({ "x": words_with_unit(metric), "zero": true, "ceiling": ceiling });
        let better = if self.analysis.more_is_better { "More" } else { "Less" };
        let (metric, extremes) = (words(metric), self.extremes(metric));
        (!rows.is_empty()).then(|| {
            let values: [(&str, &dyn Display); 3] =
                [("metric", &metric), ("better", &better), ("extremes", &extremes)];
            Figure::of("medians", &values).forest(rows, drawing)
        })
    }

    /// Who has least and most of a metric, in a sentence.
    pub(super) fn extremes(&self, metric: &str) -> String {
        let with = || self.analysis.cells.iter().filter_map(|one| Some((one, one.point(metric)?)));
        let least = with().min_by(|a, b| a.1[0].total_cmp(&b.1[0]));
        let most = with().max_by(|a, b| a.1[0].total_cmp(&b.1[0]));
        let told = |(one, point): (&CellSummary, [f64; 3])| {
            let [median, low, high] = point.map(show);
            format!("{} {median} ({low} to {high})", one.cell.name())
        };
        match (least, most) {
            (Some(least), Some(most)) if least.0.cell != most.0.cell => {
                format!("Least: {}; most: {}. ", told(least), told(most))
            }
            _ => String::new(),
        }
    }
}
