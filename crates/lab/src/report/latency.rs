//! Times over the load, and over the throughput.

use super::Report;
use super::figures::{Figure, Section, is_curve};
use serde_json::json;

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    if !report.has_rates() {
        return Vec::new();
    }
    let figures = [
        report.latency("p50_ms", "latency-p50", "Median response time"),
        report.latency("p99_ms", "latency-p99", "Response time, 99th percentile"),
        report.latency("p999_ms", "latency-p999", "Response time, 99.9th percentile"),
        report.hockey_stick(),
    ];
    figures.into_iter().flatten().collect()
}

impl Report<'_> {
    fn latency(&self, metric: &str, id: &'static str, title: &str) -> Option<Figure> {
        let lines = self.metric_lines("offered_per_s", metric);
        let drawing = json!({ "kind": "curves", "lines": lines, "log_y": true,
            "x": "offered, requests per second", "y": "ms, from when it was due" });
        let timeout = &self.run.experiment.workload.timeout;
        let caption = format!(
            "Where a line ends, the percentile lies among requests that never came back (time-out \
             {timeout}) or has fewer than ten samples beyond it."
        );
        is_curve(&lines).then(|| Figure::new(Section::Latency, id, title, caption).drawn(drawing))
    }

    fn hockey_stick(&self) -> Option<Figure> {
        let lines = self.lines(&|one| {
            let (x, y) = (one.metrics.get("good_per_s")?, one.metrics.get("p99_ms")?);
            Some([x.median, y.median, y.interval.low, y.interval.high])
        });
        let drawing = json!({ "kind": "curves", "lines": lines, "log_y": true,
            "x": "good answers per second", "y": "99th percentile, ms" });
        let caption = "What latency a throughput costs. A line that turns back to the left has \
                       passed its peak: it answers less and takes longer."
            .to_owned();
        is_curve(&lines).then(|| {
            Figure::new(Section::Capacity, "hockey-stick", "Latency against throughput", caption)
                .drawn(drawing)
        })
    }
}
