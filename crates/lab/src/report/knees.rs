//! Saturation searches: the knees with their intervals, what is served beyond, how long it takes to
//! come back.

use super::Report;
use super::figure::{Figure, Line, Section};
use crate::knee::{Found, Tried};
use crate::run::saturation::Row;
use crate::units::show;
use serde_json::{Value, json};

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    [report.knees(), report.probes(), report.overload()].into_iter().flatten().collect()
}

impl Report<'_> {
    fn knees(&self) -> Option<Figure> {
        let row = |row: &Row| {
            let Found::Knee { rate, interval, .. } = &row.knee.found else { return None };
            let arm = self.arm(&row.cell);
            Some(json!([row.cell.name(), rate, interval.low, interval.high, arm]))
        };
        let rows: Vec<Value> = self.analysis.knees.iter().filter_map(row).collect();
        let slo = self.run.experiment.workload.slo.as_deref().unwrap_or_default();
        let caption = format!(
            "The rate at which {slo} is met every other time, with the interval that holds it with \
             95 % (posterior over all probes, each a fresh server). Each round probes every arm \
             once, so that drift hits all alike. The baseline stands here twice: as far as its two \
             knees lie apart, so far can others by accident."
        );
        let head = ["arm", "knee /s", "95 %", "breaks", "probes"];
        let table = self.analysis.knees.iter().map(told).collect();
        let figure = Figure::new(Section::Capacity, "knees", "Saturation points", caption);
        let mut figure = figure.with_rows(head, table)?;
        if !rows.is_empty() {
            let drawing = json!({ "kind": "forest", "rows_data": rows,
                "x": "requests (sessions) per second", "zero": false });
            figure = figure.drawn(drawing).high(rows.len());
        }
        Some(figure)
    }

    /// The course of each search: rate over probes.
    fn probes(&self) -> Option<Figure> {
        let line = |row: &Row| {
            let tried = row.knee.tried.iter().zip(1_u32..);
            let points = tried.map(|((rate, _), at)| [f64::from(at), *rate, *rate, *rate]);
            Line { arm: self.arm(&row.cell), points: points.collect() }
        };
        let lines: Vec<Line> = self.analysis.knees.iter().map(line).collect();
        let drawing = json!({ "kind": "curves", "lines": lines, "log_y": true,
            "x": "probe", "y": "offered per second" });
        let lost = |row: &Row| {
            let lost = |(_, shown): &&(f64, Tried)| matches!(shown, Tried::Invalid(_));
            row.knee.tried.iter().filter(lost).count()
        };
        let lost: usize = self.analysis.knees.iter().map(lost).sum();
        let caption = format!(
            "What each search tried, probe by probe: steps until the level breaks, then beside \
             the likeliest knee from above and below. {lost} probes told nothing (client or \
             machine)."
        );
        (!lines.is_empty()).then(|| {
            let title = "How the searches went";
            Figure::new(Section::Capacity, "probes", title, caption).drawn(drawing)
        })
    }

    fn overload(&self) -> Option<Figure> {
        let with = || self.analysis.knees.iter().filter(|row| !row.overload.is_empty());
        let line = |row: &Row| {
            let seen = row.overload.iter().map(|one| (one.multiple, one.good_per_s));
            let points = seen.map(|(multiple, good)| [multiple, good, good, good]);
            Line { arm: self.arm(&row.cell), points: points.collect() }
        };
        let lines: Vec<Line> = with().map(line).collect();
        let drawing = json!({ "kind": "curves", "lines": lines,
            "x": "offered, multiple of the arm's knee", "y": "good answers per second" });
        let mut head = vec!["arm".to_owned()];
        let multiples = with().next()?.overload.iter();
        head.extend(multiples.map(|one| format!("good /s at {} x", show(one.multiple))));
        head.push("recovers after s".to_owned());
        let rows = with().map(|row| {
            let mut cells = vec![row.cell.name()];
            cells.extend(row.overload.iter().map(|one| show(one.good_per_s)));
            cells.resize(head.len() - 1, "–".to_owned());
            let recovery = row.recovery_s;
            cells.push(recovery.map_or("not seen".to_owned(), |seconds| format!("{seconds:.0}")));
            cells
        });
        let rows: Vec<Vec<String>> = rows.collect();
        let caption = "One load each that goes from 0.7 of the knee beyond it and back. A flat \
                       line is good; one that falls gives less the more is asked. The table \
                       tells after how many seconds goodput keeps up again once the highest \
                       overload has ended.";
        let figure = Figure::new(Section::Overload, "overload", "Beyond the knee", caption);
        Some(figure.drawn(drawing).with_table(head, rows))
    }
}

fn told(row: &Row) -> Vec<String> {
    let (rate, interval, broken) = match &row.knee.found {
        Found::Knee { rate, interval, broken } => {
            let interval = format!("{} to {}", show(interval.low), show(interval.high));
            (show(*rate), interval, broken.clone())
        }
        Found::NotUpTo { rate } => {
            (format!("none up to {}", show(*rate)), String::new(), String::new())
        }
        Found::NowhereAbove { rate, broken } => {
            (format!("below {}", show(*rate)), String::new(), broken.join(", "))
        }
        Found::LimitedByClient { rate, why } => {
            (format!("client's limit at {}", show(*rate)), String::new(), why.clone())
        }
        Found::Interrupted => ("not found yet".to_owned(), String::new(), String::new()),
    };
    vec![row.cell.name(), rate, interval, broken, row.knee.tried.len().to_string()]
}
