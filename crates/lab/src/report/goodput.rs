//! Figures over the load: offered against answered, the report's main figure; times; the part of
//! the peak that is left beyond it; plain curves; and the disk's table.

use super::Report;
use super::figure::{self, Column, Figure, FigureRow, Line, Setting, is_curve};
use crate::analysis::CellSummary;
use crate::experiment::{multiples, words, words_with_unit};
use crate::units::show;
use regatta_load::engine::parse_time;
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

/// Metrics that are drawn, with their titles and their names in a service level.
const TIMES: [(&str, &str, &str); 3] = [
    ("p50_ms", "Median", "p50"),
    ("p99_ms", "99th percentile", "p99"),
    ("p999_ms", "99.9th percentile", "p999"),
];

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

    /// Names the arms that answer most, and what remains of it at the highest load, in a sentence.
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

    /// Rate of the client with the bare loop, if that is one of the targets.
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

    /// Names the cells with least and most of a metric, in a sentence.
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

    /// A line for each arm; None where all numbers are 0.
    fn curve(&self, setting: &Setting, curve: &FigureRow) -> Option<Figure> {
        let x = curve.x.as_deref().unwrap_or("offered_per_s");
        let lines = self.lines_at(setting, &|one| {
            let [median, low, high] = point(curve, one)?;
            let is_drawn = !curve.log_y || median > 0.0;
            is_drawn.then_some([one.median(x)?, median, low, high])
        });
        let mut points = lines.iter().flat_map(|line| &line.points);
        let is_seen = points.any(|point| point[1] > 0.0);
        let x = curve.x_unit.as_deref().unwrap_or("offered, requests per second");
        let drawing = json!({ "kind": "curves", "lines": lines, "log_y": curve.log_y, "x": x,
            "y": curve.unit });
        is_seen.then(|| setting.figure(curve.figure(&[])).drawn(drawing))
    }

    fn bars_of(&self, curve: &FigureRow) -> Option<Figure> {
        let rows = self.rows_of(&|one| point(curve, one));
        let drawing = json!({ "x": curve.unit, "zero": true });
        (!rows.is_empty()).then(|| curve.figure(&[]).forest(rows, drawing))
    }

    fn disk_table(&self) -> Option<Figure> {
        let columns = figure::columns(&self.analysis, "disk");
        if columns.is_empty() {
            return None;
        }
        let mut head = vec!["arm".to_owned(), "disk requests for 1000 replies".to_owned()];
        head.extend(columns.iter().map(|(_, heading, _)| heading.clone()));
        let row = |one: &CellSummary| {
            let median = |metric: &str| one.median(metric);
            let told = |value: Option<f64>| value.map_or("–".to_owned(), show);
            let requests = median("disk_requests_per_s").zip(median("good_per_s"));
            let each = requests.filter(|(_, good)| *good > 0.0);
            let mut row = vec![one.cell.name(), told(each.map(|(asked, good)| 1e3 * asked / good))];
            let value =
                |(metric, _, factor): &&Column| told(median(metric).map(|one| one * factor));
            row.extend(columns.iter().map(value));
            row
        };
        let cells = self.analysis.cells.iter().filter(|one| one.trials > 0);
        let rows = cells.map(row).collect();
        Some(Figure::of("disk", &[]).with_table(head, rows))
    }
}

pub(super) fn times(report: &Report<'_>) -> Vec<Figure> {
    TIMES.iter().flat_map(|time| report.over_rates(&|at| report.latency(at, time))).collect()
}

/// The limit that a service level such as `p99<50ms,errors<1%` sets to a percentile, ms.
fn level(slo: &str, term: &str) -> Option<f64> {
    let limit = |part: &str| {
        let rest = part.trim().strip_prefix(term)?.trim_start_matches(['<', '=', ' ']);
        parse_time(rest).ok().map(|time| 1e3 * time.as_secs_f64())
    };
    slo.split(',').find_map(limit)
}

pub(super) fn beyond(report: &Report<'_>) -> Vec<Figure> {
    report.over_rates(&|setting| report.beyond_peak(setting))
}

pub(super) fn plain(report: &Report<'_>) -> Vec<Figure> {
    let of = |curve: &'static FigureRow| -> Vec<Figure> {
        if curve.bars && !report.has_rates() {
            return report.bars_of(curve).into_iter().collect();
        }
        report.over_rates(&|setting| report.curve(setting, curve))
    };
    let curves = FigureRow::all().iter().filter(|row| row.y.is_some());
    curves.flat_map(of).chain(report.disk_table()).collect()
}

fn point(curve: &FigureRow, one: &CellSummary) -> Option<[f64; 3]> {
    let y = curve.y.as_ref()?;
    let Some(per) = &curve.per else {
        let factor = curve.factor.unwrap_or(1.0);
        return Some(one.point(y)?.map(|number| factor * number));
    };
    let whole = one.counters.get(per).filter(|whole| **whole > 0.0)?;
    Some([one.counters.get(y)? / whole; 3])
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

#[cfg(test)]
mod curves_tests {
    use super::*;
    use crate::analysis::tests::{named, synthetic};
    use crate::record::Cell;
    use std::collections::BTreeMap;

    const TEXT: &str = r#"
experiment = { name = "x", question = "?", expect = "!" }
targets = { a = {}, b = {} }
workload = { root = "." }
measure = { blocks = 6, again = false }
"#;

    fn numbers(cell: &Cell) -> BTreeMap<String, f64> {
        let mut all = named([
            ("good_per_s", 2_000.0),
            ("disk_requests_per_s", 50.0),
            ("disk_busy_share", 0.5),
            ("disk_run_kib", 64.0),
            ("disk_queue_mean", 1.5),
        ]);
        all.retain(|name, _| cell.target == "a" || name == "good_per_s");
        all
    }

    #[test]
    fn only_numbers_that_are_there_are_drawn() {
        let run = synthetic(TEXT, &numbers);
        let report = Report::of(&run);
        let plain = plain(&report);
        let ids: Vec<&str> = plain.iter().map(|figure| figure.id.as_str()).collect();
        assert_eq!(ids, ["disk-requests", "disk-busy", "disk-run", "disk-queue", "disk"]);
        let busy = plain[1].drawing.as_ref().unwrap();
        assert_eq!(busy["rows_data"], json!([["a", 50.0, 50.0, 50.0, 0]]));
        let table = plain[4].table.as_ref().unwrap();
        assert_eq!(table.rows[0][2..], ["50.0", "50.0", "1.50", "64.0"]);
        assert_eq!(table.rows[1][1..], ["–"; 5]);

        let none = synthetic(TEXT, &|_| named([("good_per_s", 1.0)]));
        assert!(super::plain(&Report::of(&none)).is_empty());
    }
}
