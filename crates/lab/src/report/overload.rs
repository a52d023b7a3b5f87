//! What is left of the peak when more is asked than can be answered.

use super::Report;
use super::figure::{Figure, Line, Setting};
use crate::units::show;
use serde_json::json;

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    report.over_rates(&|setting| report.beyond_peak(setting))
}

impl Report<'_> {
    /// Goodput over load, both in parts of the arm's own peak.
    fn beyond_peak(&self, setting: &Setting) -> Option<Figure> {
        let (mut lines, mut kept) = (Vec::new(), Vec::new());
        for Line { arm, points } in self.metric_lines_at(setting, "offered_per_s", "good_per_s") {
            let peak = points.iter().map(|point| point[1]).fold(0.0, f64::max);
            let Some(last) = points.last().filter(|last| peak > 0.0 && last[0] > 1.1 * peak) else {
                continue;
            };
            kept.push((self.arms[arm].name.clone(), last[1] / peak, last[0] / peak));
            let part = |point: &[f64; 4]| point.map(|value| 100.0 * value / peak);
            lines.push(Line { arm, points: points.iter().map(part).collect() });
        }
        kept.sort_by(|a, b| b.1.total_cmp(&a.1));
        let told = |(name, share, load): &(String, f64, f64)| {
            format!("{name} keeps {:.0} % at {} times its peak", 100.0 * share, show(*load))
        };
        let seen = match kept.as_slice() {
            [] => return None,
            [one] => told(one),
            [first, .., last] => format!("{}; {}", told(first), told(last)),
        };
        let drawing = json!({ "kind": "curves", "lines": lines, "mark_x": 100.0,
            "x": "offered, % of the arm's peak", "y": "good answers, % of the peak" });
        Some(setting.figure(Figure::of("beyond", &[("seen", &seen)])).drawn(drawing))
    }
}
