//! Quality of service: who failed, in which phase, whether all clients and sizes fare alike.

use super::Report;
use super::figure::{Figure, rate};
use super::gathered::Valid;
use super::spectrum::CLASSES;
use crate::analysis::CellSummary;
use crate::stats::{count, median};
use crate::units::{real, show};
use regatta_load::engine::{Fate, Sessions};
use serde_json::json;

/// The phases in which a request can time out.
const PHASES: [&str; 4] = ["connecting", "sending", "waiting", "receiving"];
/// A share of good answers of one size that is below that of all by more than this starves.
const STARVED: f64 = 0.05;

impl Report<'_> {
    fn with_results(&self) -> impl Iterator<Item = (&CellSummary, &Valid)> {
        self.analysis.cells.iter().filter_map(|one| Some((one, self.valid(&one.cell)?)))
    }

    /// Failures by kind, time-outs by phase.
    pub(super) fn failures(&self) -> Option<Figure> {
        let most = self.with_results().map(|(one, _)| rate(&one.cell)).fold(0.0, f64::max);
        // Of many rates the highest: there it shows.
        let cells: Vec<_> =
            self.with_results().filter(|(one, _)| rate(&one.cell) == most).collect();
        let failed = |fate: &Fate| !matches!(fate, Fate::Good | Fate::Unfinished | Fate::Timeout);
        let percent = |part: u64, valid: &Valid| 100.0 * real(part) / real(valid.offered.max(1));
        let mut parts = Vec::new();
        for (at, phase) in PHASES.into_iter().enumerate() {
            let values: Vec<f64> = cells.iter().map(|(_, v)| percent(v.timeouts[at], v)).collect();
            parts.push((format!("timed out {phase}"), values));
        }
        for fate in Fate::ALL.into_iter().filter(failed) {
            let values = cells.iter().map(|(_, v)| percent(v.fates.get(fate), v)).collect();
            parts.push((fate.name().replace('-', " "), values));
        }
        parts.retain(|(_, values)| values.iter().any(|value| *value > 0.0));
        let labels: Vec<String> = cells.iter().map(|(one, _)| one.cell.name()).collect();
        let worst = cells.iter().max_by_key(|(_, valid)| {
            let failed = valid.fates.errors();
            u128::from(failed) * 1_000_000_000 / u128::from(valid.offered.max(1))
        })?;
        let at = if self.has_rates() { " at the highest load" } else { "" };
        let name = worst.0.cell.name();
        let percent = format!("{:.1}", percent(worst.1.fates.errors(), worst.1));
        let parts: Vec<_> = parts
            .into_iter()
            .map(|(name, values)| json!({ "name": name, "values": values }))
            .collect();
        let rows = labels.len();
        (!parts.is_empty()).then(|| {
            Figure::of("failures", &[("at", &at), ("worst", &name), ("percent", &percent)])
                .drawn(json!({ "kind": "stack", "labels": labels, "parts": parts,
                    "x": "% of the offered requests" }))
                .high(rows + 2)
        })
    }

    /// Whether clients and sizes fare alike.
    pub(super) fn classes(&self) -> Option<Figure> {
        let there: Vec<usize> = (0..CLASSES.len())
            .filter(|at| {
                self.with_results().any(|(_, v)| v.classes.get(*at).is_some_and(|c| c.requests > 0))
            })
            .collect();
        let mut head = vec!["arm".to_owned(), "good %".to_owned()];
        head.extend(there.iter().map(|at| format!("good %, files {}", CLASSES[*at])));
        head.extend(["fairness of clients", "clients"].map(str::to_owned));
        let (mut rows, mut starved) = (Vec::new(), Vec::new());
        for (one, valid) in self.with_results() {
            let good = |good: u64, all: u64| (all > 0).then(|| real(good) / real(all));
            let all = good(valid.fates.get(Fate::Good), valid.offered);
            let text = |share: Option<f64>| {
                share.map_or("–".to_owned(), |share| format!("{:.2}", 100.0 * share))
            };
            let mut row = vec![one.cell.name(), text(all)];
            for at in &there {
                let class = &valid.classes[*at];
                let share = good(class.good, class.requests);
                if share.zip(all).is_some_and(|(share, all)| share < all - STARVED) {
                    starved.push(format!("files {} with {}", CLASSES[*at], one.cell.name()));
                }
                row.push(text(share));
            }
            row.push(if valid.clients > 1 {
                show(median(&valid.fairness))
            } else {
                "–".to_owned()
            });
            row.push(valid.clients.to_string());
            rows.push(row);
        }
        let seen = if starved.is_empty() {
            "No size fares worse than all together by more than 5 points.".to_owned()
        } else {
            format!("Worse than all together by more than 5 points: {}.", starved.join("; "))
        };
        Figure::of("fairness", &[("seen", &seen)]).with_rows(head, rows)
    }

    pub(super) fn sessions(&self) -> Option<Figure> {
        let row = |(one, valid): (&CellSummary, &Valid)| {
            let Sessions { arrived, done, failed, cut, lifetime, failtime, .. } =
                valid.sessions.as_ref()?;
            let seconds = |ns: u64, there: u64| {
                if there == 0 { "–".to_owned() } else { show(real(ns) / 1e9) }
            };
            let ended = (done + failed).max(1);
            Some(vec![
                one.cell.name(),
                arrived.to_string(),
                format!("{:.2}", 100.0 * real(*done) / real(ended)),
                failed.to_string(),
                cut.to_string(),
                seconds(lifetime.quantile(0.5), lifetime.count()),
                seconds(lifetime.quantile(0.95), lifetime.count()),
                seconds(failtime.quantile(0.5), failtime.count()),
            ])
        };
        let rows: Vec<Vec<String>> = self.with_results().filter_map(row).collect();
        let head = [
            "arm",
            "sessions",
            "done %",
            "failed",
            "cut off by the end",
            "lifetime s, median",
            "p95",
            "failed after s, median",
        ];
        Figure::of("sessions", &[]).with_rows(head, rows)
    }

    /// How many replies sessions got.
    pub(super) fn session_lengths(&self) -> Option<Figure> {
        let (cells, at) = self.calm();
        let line = |one: &&CellSummary| {
            let lengths = &self.valid(&one.cell)?.sessions.as_ref()?.lengths;
            let all: u64 = lengths.iter().sum();
            let mut so_far = 0;
            let mut points = Vec::new();
            for (length, sessions) in lengths.iter().enumerate().filter(|_| all > 0) {
                so_far += sessions;
                let share = 100.0 * real(so_far) / real(all);
                points.push([count(length), share, share, share]);
            }
            (points.len() > 1).then(|| json!({ "arm": self.arm(&one.cell), "points": points }))
        };
        let lines: Vec<_> = cells.iter().filter_map(line).collect();
        let figure = Figure::of("lengths", &[("at", &at)]);
        (!lines.is_empty()).then(|| {
            figure.drawn(json!({ "kind": "curves", "lines": lines, "x": "replies",
                "y": "% of sessions" }))
        })
    }
}
