//! Times over the load.

use super::Report;
use super::figure::{Figure, Setting, is_curve};
use crate::units::show;
use regatta_load::engine::parse_time;
use serde_json::json;
use std::fmt::Display;

/// Metrics that are drawn, with their titles and their names in a service level.
const TIMES: [(&str, &str, &str); 3] = [
    ("p50_ms", "Median", "p50"),
    ("p99_ms", "99th percentile", "p99"),
    ("p999_ms", "99.9th percentile", "p999"),
];

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    TIMES.iter().flat_map(|time| report.over_rates(&|at| report.latency(at, time))).collect()
}

impl Report<'_> {
    fn latency(
        &self,
        setting: &Setting,
        (metric, title, term): &(&str, &str, &str),
    ) -> Option<Figure> {
        let lines = self.metric_lines_at(setting, "offered_per_s", metric);
        let workload = &self.run.experiment.workload;
        let level = workload.slo.as_deref().and_then(|slo| level(slo, term));
        let timeout = parse_time(&workload.timeout).ok().map(|time| 1e3 * time.as_secs_f64());
        let drawing = json!({ "kind": "curves", "lines": lines, "log_y": true,
            "level": level, "timeout": timeout,
            "x": "offered, requests per second", "y": "ms, from when it was due" });
        let meant = level.map_or(String::new(), |ms| {
            format!(" The dashed line is the service level, {} ms.", show(ms))
        });
        let (cells, at) = self.calm();
        let mut there: Vec<(String, f64)> =
            cells.iter().filter_map(|one| Some((one.cell.name(), one.median(metric)?))).collect();
        there.sort_by(|a, b| a.1.total_cmp(&b.1));
        let seen = match there.as_slice() {
            [first, .., last] => format!(
                ";{at}, the highest load at which all answer, from {} ms ({}) to {} ms ({}).",
                show(first.1),
                first.0,
                show(last.1),
                last.0
            ),
            _ => ".".to_owned(),
        };
        let values: [(&str, &dyn Display); 5] = [
            ("term", term),
            ("title", title),
            ("seen", &seen),
            ("meant", &meant),
            ("timeout", &workload.timeout),
        ];
        is_curve(&lines)
            .then(|| setting.figure(Figure::of("latency-{term}", &values)).drawn(drawing))
    }
}

/// The limit that a service level such as `p99<50ms,errors<1%` sets to a percentile, ms.
fn level(slo: &str, term: &str) -> Option<f64> {
    let limit = |part: &str| {
        let rest = part.trim().strip_prefix(term)?.trim_start_matches(['<', '=', ' ']);
        parse_time(rest).ok().map(|time| 1e3 * time.as_secs_f64())
    };
    slo.split(',').find_map(limit)
}

#[cfg(test)]
mod tests {
    use super::level;

    #[test]
    fn the_service_level_of_a_percentile_is_found() {
        let slo = "p99<50ms, errors<1%, p50 <= 2ms";
        assert_eq!(level(slo, "p99"), Some(50.0));
        assert_eq!(level(slo, "p50"), Some(2.0));
        assert_eq!(level(slo, "p999"), None);
    }
}
