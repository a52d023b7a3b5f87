//! The figures that a run has numbers for: which, with what caption. The page draws them.

use super::{Report, show};
use crate::analysis::{CellSummary, words};
use crate::plan::AGAIN;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The factor that rates are.
const RATE: &str = "workload.rate";
/// Trials whose seconds are drawn, at most.
const RUNS_MAX: usize = 40;

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    /// Its place in the page.
    pub(crate) id: &'static str,
    pub(crate) title: String,
    /// What to see.
    pub(crate) caption: String,
    /// Rows of a figure whose height depends on them, in rem.
    pub(crate) rows: Option<f64>,
    /// What can be chosen, and its label.
    pub(crate) choice: &'static str,
    pub(crate) choices: Vec<String>,
    /// What the page draws.
    pub(crate) drawing: Value,
}

/// Every figure that has something to show, in the report's order.
pub(crate) fn figures(report: &Report<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    if report.has_rates() {
        figures.extend(report.goodput());
        figures.extend(report.latency("p50_ms", "latency-p50", "Median response time"));
        figures.extend(report.latency("p99_ms", "latency-p99", "Response time, 99th percentile"));
        figures.extend(report.hockey_stick());
    } else {
        figures.extend(report.medians());
    }
    figures.extend(report.forest());
    figures.extend(report.spectrum());
    figures.extend(report.seconds());
    figures.extend(report.costs());
    if report.has_rates() {
        figures.extend(report.ratio_of_counters(
            ["connections_open_at_accept_sum", "accept_ok"],
            ("open", "Open connections", "mean of the open connections, at each accept", true),
        ));
        figures.extend(report.ratio_of_counters(
            ["wait_events", "wait_calls"],
            ("events", "Ready descriptors for each wait", "events for each wait", false),
        ));
        figures.extend(report.overflows());
    }
    figures
}

impl Figure {
    fn new(id: &'static str, title: &str, caption: String, drawing: Value) -> Self {
        Self {
            id,
            title: title.to_owned(),
            caption,
            rows: None,
            choice: "",
            choices: Vec::new(),
            drawing,
        }
    }

    /// A figure of rows.
    fn high(mut self, rows: usize) -> Self {
        self.rows = Some(7.5 + 1.9 * crate::stats::count(rows));
        self
    }
}

impl Report<'_> {
    fn has_rates(&self) -> bool {
        let rate = self.run.experiment.factors.iter().find(|factor| factor.path == RATE);
        rate.is_some_and(|factor| factor.levels.len() > 1)
    }

    /// A line for each arm over what was offered: `[x, median, low, high]`, ascending.
    fn lines(&self, of: &dyn Fn(&CellSummary) -> Option<[f64; 4]>) -> Vec<Value> {
        let mut lines: BTreeMap<usize, Vec<[f64; 4]>> = BTreeMap::new();
        for one in self.analysis.cells.iter().filter(|one| one.trials > 0) {
            if let Some(point) = of(one).filter(|point| point.iter().all(|x| x.is_finite())) {
                lines.entry(self.arm(&one.cell)).or_default().push(point);
            }
        }
        lines
            .into_iter()
            .map(|(arm, mut points)| {
                points.sort_by(|a, b| a[0].total_cmp(&b[0]));
                json!({ "arm": arm, "points": points })
            })
            .collect()
    }

    fn metric_lines(&self, x: &str, y: &str) -> Vec<Value> {
        self.lines(&|one| {
            let (x, y) = (one.metrics.get(x)?, one.metrics.get(y)?);
            Some([x.median, y.median, y.interval.low, y.interval.high])
        })
    }

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
        (!lines.is_empty()).then(|| Figure::new("goodput", "Goodput", caption, drawing))
    }

    fn latency(&self, metric: &str, id: &'static str, title: &str) -> Option<Figure> {
        let lines = self.metric_lines("offered_per_s", metric);
        let drawing = json!({ "kind": "curves", "lines": lines, "log_y": true,
            "x": "offered, requests per second", "y": "ms, from when it was due" });
        let timeout = &self.run.experiment.workload.timeout;
        let caption = format!(
            "Where a line ends, the percentile lies among requests that never came back (time-out \
             {timeout}) or has fewer than ten samples beyond it."
        );
        is_curve(&lines).then(|| Figure::new(id, title, caption, drawing))
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
        is_curve(&lines)
            .then(|| Figure::new("hockey-stick", "Latency against throughput", caption, drawing))
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
        (!rows.is_empty())
            .then(|| Figure::new("medians", &title, caption, drawing).high(rows.len()))
    }

    fn forest(&self) -> Option<Figure> {
        let mut effects: Vec<_> = self.analysis.effects.iter().collect();
        // The same program twice first: it says how far the others can be trusted.
        effects.sort_by_key(|row| !row.cell.arm.ends_with(AGAIN));
        let rows: Vec<Value> = effects
            .iter()
            .filter_map(|row| {
                let interval = row.effect.interval?;
                let levels = crate::run::levels(&row.cell);
                let name = format!("{} {levels}", row.cell.arm).trim_end().to_owned();
                Some(json!([
                    name,
                    row.effect.ratio,
                    interval.low,
                    interval.high,
                    self.arm(&row.cell)
                ]))
            })
            .collect();
        let floor = self.analysis.floor;
        let drawing = json!({ "kind": "forest", "rows_data": rows, "mark": 1.0,
            "floor": [1.0 / (1.0 + floor), 1.0 + floor],
            "x": format!("ratio of {} to {}", words(&self.analysis.metric),
                self.run.experiment.baseline) });
        let caption = format!(
            "Ratios within blocks with 95 % intervals; the dashed line is no difference. The \
             shaded band is the noise floor, ±{:.1} %: as far {} differs from itself when it runs \
             twice. What lies in it is not called a difference.",
            100.0 * floor,
            self.run.experiment.baseline
        );
        (!rows.is_empty())
            .then(|| Figure::new("forest", "Paired comparison", caption, drawing).high(rows.len()))
    }

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
        (!lines.is_empty()).then(|| Figure::new("spectrum", "Percentiles", caption, drawing))
    }

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
        let mut figure = Figure::new("seconds", "Second by second", caption, drawing);
        (figure.choice, figure.choices) = ("trial", choices);
        (!runs.is_empty()).then_some(figure)
    }

    fn costs(&self) -> Option<Figure> {
        let micro =
            |one: &CellSummary, name: &str| one.metrics.get(name).map(|value| 1e6 * value.median);
        let rows: Vec<(String, f64, f64)> = self
            .analysis
            .cells
            .iter()
            .filter_map(|one| {
                let user = micro(one, "user_s_per_reply")?;
                Some((name(one), user, micro(one, "kernel_s_per_reply")?))
            })
            .collect();
        let drawing = json!({ "kind": "stack", "x": "µs of processor time per reply",
            "labels": rows.iter().map(|row| &row.0).collect::<Vec<_>>(),
            "parts": [
                { "name": "user", "values": rows.iter().map(|row| row.1).collect::<Vec<_>>() },
                { "name": "kernel", "values": rows.iter().map(|row| row.2).collect::<Vec<_>>() },
            ] });
        let caption = "The server's processor time for each reply, from /proc. Work that loopback \
                       does in the client's system calls is the client's here, for all arms alike."
            .to_owned();
        (!rows.is_empty()).then(|| {
            Figure::new("costs", "Where the time goes", caption, drawing).high(rows.len() + 1)
        })
    }

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
        (!lines.is_empty()).then(|| Figure::new(id, title, caption, drawing))
    }

    fn overflows(&self) -> Option<Figure> {
        let most = |one: &CellSummary| {
            one.metrics.get("listen_overflows_per_s").map_or(0.0, |value| value.median)
        };
        if self.analysis.cells.iter().all(|one| most(one) == 0.0) {
            return None;
        }
        let lines = self.metric_lines("offered_per_s", "listen_overflows_per_s");
        let drawing = json!({ "kind": "curves", "lines": lines,
            "x": "offered, requests per second", "y": "connections turned away per second" });
        let caption = "Connections that found the listener's queue full (the kernel's count).";
        Some(Figure::new("overflows", "Turned away", caption.to_owned(), drawing))
    }
}

/// Whether there is more to see than one point of each line.
fn is_curve(lines: &[Value]) -> bool {
    lines.iter().any(|line| line["points"].as_array().is_some_and(|points| points.len() > 1))
}

/// A cell's name in tables and figures.
pub(crate) fn name(one: &CellSummary) -> String {
    format!("{} {}", one.cell.arm, crate::run::levels(&one.cell)).trim_end().to_owned()
}
