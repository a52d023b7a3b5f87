//! Trials second by second, and how their times were spread in each second.

use super::Report;
use super::figure::Figure;
use super::gathered::middles;
use crate::record::{Record, Second};
use crate::units::real;
use regatta_load::engine::Row;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Trials whose seconds are drawn, at most.
const RUNS_MAX: usize = 40;
/// Fewer seconds than this are no course.
const SECONDS_MIN: usize = 3;

impl Report<'_> {
    /// Of each cell the trial in the middle: its name, its record, its rows where they are there.
    fn middles(&self) -> Vec<(String, &Record, &[Row])> {
        let which = middles(self.run);
        let mut middles = Vec::new();
        for one in self.analysis.cells.iter().filter(|one| one.trials > 0) {
            let known = self.gathered.get(&one.cell).and_then(|one| one.middle.as_ref());
            let is_it =
                |record: &&Record| which.get(&one.cell) == Some(&(record.trial, record.attempt));
            let Some(middle) = self.run.valid().find(is_it) else { continue };
            let rows = known.filter(|known| known.0 == middle.trial);
            let title = format!("{}, trial {}", one.cell.name(), middle.trial);
            middles.push((title, middle, rows.map_or(&[][..], |known| &known.1)));
        }
        middles.retain(|(_, record, _)| record.series.len() >= SECONDS_MIN);
        middles.truncate(RUNS_MAX);
        middles
    }

    pub(super) fn seconds(&self) -> Option<Figure> {
        let middles = self.middles();
        let warm = self.run.experiment.measure.warm_s;
        let runs: Vec<Value> =
            middles.iter().map(|(_, record, rows)| run(warm, &record.series, rows)).collect();
        let figure = Figure::of("seconds", &[]);
        let choices = middles.into_iter().map(|(title, ..)| title).collect();
        (!runs.is_empty()).then(|| {
            let drawing = json!({ "kind": "series", "runs": runs });
            figure.drawn(drawing).chosen("trial", choices).high(26)
        })
    }

    /// Time on the x axis, how long requests took on the y axis, how many as colour.
    pub(super) fn heat(&self) -> Option<Figure> {
        let warm = self.run.experiment.measure.warm_s;
        let (mut runs, mut choices) = (Vec::new(), Vec::new());
        for (title, record, rows) in self.middles() {
            let whole = record.series.len();
            let rows = &rows[..rows.len().min(whole)];
            let ends: BTreeSet<u64> =
                rows.iter().flat_map(|row| row.spread.iter().map(|bin| bin.0)).collect();
            if ends.len() < 2 || rows.len() < SECONDS_MIN {
                continue;
            }
            let place = |end: u64| ends.iter().position(|other| *other == end);
            let mut cells = Vec::new();
            for (at, row) in rows.iter().enumerate() {
                let all: u64 = row.spread.iter().map(|bin| bin.1).sum();
                for (end, requests) in &row.spread {
                    let share = 100.0 * real(*requests) / real(all.max(1));
                    cells.push(json!([at, place(*end), share, requests]));
                }
            }
            let ends: Vec<f64> = ends.iter().map(|end| real(*end) / 1e6).collect();
            let seconds: Vec<u64> = rows.iter().map(|row| row.second).collect();
            runs.push(json!({ "warm": warm, "seconds": seconds, "ends": ends, "cells": cells }));
            choices.push(title);
        }
        let figure = Figure::of("heat", &[]);
        (!runs.is_empty()).then(|| {
            let drawing = json!({ "kind": "heat_time", "runs": runs });
            figure.drawn(drawing).chosen("trial", choices)
        })
    }
}

/// One trial as the page draws it.
fn run(warm: f64, series: &[Second], rows: &[Row]) -> Value {
    let column = |of: &dyn Fn(&Second) -> Value| series.iter().map(of).collect::<Vec<_>>();
    let kinds: BTreeSet<_> = rows.iter().flat_map(|row| row.failures.keys().copied()).collect();
    let kinds: Vec<Value> = kinds
        .into_iter()
        .map(|kind| {
            let count = |second: &Second| {
                let row = rows.iter().find(|row| row.second == second.second);
                row.and_then(|row| row.failures.get(&kind).copied()).unwrap_or(0)
            };
            let values: Vec<u64> = series.iter().map(count).collect();
            json!({ "name": kind.name().replace('-', " "), "values": values })
        })
        .collect();
    let p50 = |second: &Second| {
        let row = rows.iter().find(|row| row.second == second.second);
        json!(row.map(|row| real(row.p50_ns) / 1e6))
    };
    json!({
        "warm": warm,
        "seconds": column(&|row| json!(row.second)),
        "offered": column(&|row| json!(row.offered)),
        "good": column(&|row| json!(row.good)),
        "errors": column(&|row| json!(row.errors)),
        "kinds": kinds,
        "p50": column(&p50),
        "p99": column(&|row| json!(row.p99_ms)),
        "in_flight": column(&|row| json!(row.in_flight)),
        "server_cpu": column(&|row| json!(row.server_cpu)),
        "client_cpu": column(&|row| json!(row.client_cpu)),
        "steal": column(&|row| json!(row.steal)),
    })
}
