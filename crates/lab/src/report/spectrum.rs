//! Times at every percentile: of all requests, by size of file, and by which clock; trials second
//! by second, and how their times were spread in each second.

use super::Report;
use super::figure::{Figure, rate};
use super::gathered::{Valid, middles};
use crate::analysis::CellSummary;
use crate::experiment::RATE;
use crate::record::{Record, Second};
use crate::trial::numbers::BEYOND_MIN;
use crate::units::{real, show};
use regatta_load::engine::{Row, Spectrum};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Size classes of files, as `regatta load` tells them apart.
pub(super) const CLASSES: [&str; 5] =
    ["below 1 KiB", "1 to 10 KiB", "10 to 100 KiB", "100 KiB and more", "of unknown size"];

/// Trials whose seconds are drawn, at most.
const RUNS_MAX: usize = 40;

/// Fewer seconds than this are no course.
const SECONDS_MIN: usize = 3;

impl Report<'_> {
    /// The cells of the setting at which percentiles are shown, and the setting in words. It is the
    /// highest rate at which every arm still answers nearly all; of other factors, the last level.
    pub(super) fn calm(&self) -> (Vec<&CellSummary>, String) {
        let answers = |one: &&CellSummary| {
            let good = one.median("good_share").unwrap_or(0.0);
            !self.has_rates() || good > 0.98
        };
        let number = |one: &CellSummary| rate(&one.cell);
        let all = || self.analysis.cells.iter().filter(|one| one.trials > 0);
        let late: Vec<f64> = all().filter(|one| !answers(one)).map(number).collect();
        let least_late = late.into_iter().fold(f64::INFINITY, f64::min);
        let rates = || all().map(number);
        let below = rates().filter(|rate| *rate < least_late).fold(f64::NEG_INFINITY, f64::max);
        let least = rates().fold(f64::INFINITY, f64::min);
        let calm = if below.is_finite() { below } else { least };
        let (mut wanted, mut words) = (Vec::new(), Vec::new());
        for factor in &self.run.experiment.factors {
            let Some(last) = factor.levels.last().filter(|_| factor.of_target().is_none()) else {
                continue;
            };
            if factor.path == RATE {
                let level = all().find(|one| number(one) == calm);
                let level = level.and_then(|one| one.cell.levels.get(RATE));
                words.push(format!("rate {}", level.map_or("", |level| level)));
            } else {
                wanted.push((&factor.path, last));
                words.push(format!("{} {last}", factor.label()));
            }
        }
        let here = |one: &&CellSummary| {
            let rated = !self.has_rates() || number(one) == calm;
            rated && wanted.iter().all(|(path, level)| one.cell.levels.get(*path) == Some(*level))
        };
        let at = if words.is_empty() { String::new() } else { format!(" at {}", words.join(", ")) };
        (all().filter(here).collect(), at)
    }

    /// A panel: the spectra of some cells. None if not one has enough samples.
    fn panel(
        &self,
        title: &str,
        cells: &[&CellSummary],
        of: &dyn Fn(&Valid) -> Option<Spectrum>,
    ) -> Option<Value> {
        let (mut lines, mut least) = (Vec::new(), f64::INFINITY);
        for one in cells {
            let Some(spectrum) = self.valid(&one.cell).and_then(of) else { continue };
            let points = spectrum.curve();
            if points.len() > 2 {
                least = least.min(real(spectrum.samples()));
                lines.push(json!({ "arm": self.arm(&one.cell), "points": points }));
            }
        }
        let weak = least / BEYOND_MIN;
        (!lines.is_empty()).then(|| json!({ "title": title, "lines": lines, "weak": weak }))
    }

    pub(super) fn spectrum(&self) -> Option<Figure> {
        let (cells, at) = self.calm();
        let panel = self.panel("", &cells, &|valid| Some(valid.latency.clone()));
        let panel = panel.or_else(|| self.medians_of_spectra(&cells))?;
        let spread = |one: &&CellSummary| {
            let spectrum = &self.valid(&one.cell)?.latency;
            let (half, most) = (spectrum.at(0.5), spectrum.at(0.999));
            let known = real(spectrum.samples()) * 0.001 >= BEYOND_MIN && !most.censored;
            let times = real(most.ns) / real(half.ns.max(1));
            known.then(|| (one.cell.name(), real(most.ns) / 1e6, times))
        };
        let mut slow: Vec<(String, f64, f64)> = cells.iter().filter_map(spread).collect();
        slow.sort_by(|a, b| a.1.total_cmp(&b.1));
        let seen = match slow.as_slice() {
            [first, .., last] => format!(
                "One request in a thousand takes {} ms or longer with {}, {} ms with {} ({} times \
                 its median).",
                show(first.1),
                first.0,
                show(last.1),
                last.0,
                show(last.2)
            ),
            _ => String::new(),
        };
        let figure =
            Figure::of("spectrum", &[("clock", &self.clock()), ("at", &at), ("seen", &seen)]);
        Some(figure.drawn(json!({ "kind": "spectrum", "panels": [panel] })))
    }

    /// Medians over the trials, for when the whole results are gone.
    fn medians_of_spectra(&self, cells: &[&CellSummary]) -> Option<Value> {
        let with = |one: &&&CellSummary| one.spectrum.len() > 1;
        let line = |one: &&CellSummary| {
            let points = one.spectrum.iter().map(|(q, ms)| [1.0 / (1.0 - q), *ms]);
            json!({ "arm": self.arm(&one.cell), "points": points.collect::<Vec<_>>() })
        };
        let lines: Vec<Value> = cells.iter().filter(with).map(line).collect();
        (!lines.is_empty()).then(|| json!({ "title": "", "lines": lines, "weak": null }))
    }

    pub(super) fn by_class(&self) -> Option<Figure> {
        let (cells, at) = self.calm();
        let panel = |(class, title): (usize, &str)| {
            let title = format!("files {title}");
            self.panel(&title, &cells, &|valid| {
                valid.classes.get(class).map(|class| class.times.clone())
            })
        };
        let panels: Vec<Value> =
            CLASSES.into_iter().enumerate().filter_map(|(at, title)| panel((at, title))).collect();
        let figure = Figure::of("spectrum-class", &[("at", &at)]);
        (panels.len() > 1).then(|| figure.drawn(json!({ "kind": "spectrum", "panels": panels })))
    }

    /// Panels of response and service time; only where requests are due on their own.
    pub(super) fn by_clock(&self) -> Option<Figure> {
        let (cells, at) = self.calm();
        let both: Vec<&CellSummary> = cells
            .into_iter()
            .filter(|one| self.valid(&one.cell).is_some_and(|valid| valid.service.is_some()))
            .collect();
        let response =
            self.panel("response time, from due", &both, &|v| Some(v.latency.clone()))?;
        let service = self.panel("service time, from sent", &both, &|v| v.service.clone())?;
        let figure = Figure::of("clocks", &[("at", &at)]);
        Some(figure.drawn(json!({ "kind": "spectrum", "panels": [response, service] })))
    }

    /// Kind of the times of this run.
    pub(super) fn clock(&self) -> &'static str {
        match self.run.experiment.workload.model {
            crate::experiment::Loop::Closed => "Service time",
            _ => "Response time",
        }
    }

    /// Middle trial of each cell: its name, its record, and its rows if they are there.
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
