//! Times at every percentile: of all requests, by size of file, and by which clock.

use super::Report;
use super::figure::{Figure, rate};
use super::gathered::Valid;
use crate::analysis::CellSummary;
use crate::experiment::RATE;
use crate::stats::count;
use crate::trial::numbers::BEYOND_MIN;
use crate::units::{real, show};
use regatta_load::engine::Spectrum;
use serde_json::{Value, json};

/// Points of a spectrum in each factor of ten of 1/(1 - quantile).
const POINTS: f64 = 8.0;
/// Size classes of files, as `regatta load` tells them apart.
pub(super) const CLASSES: [&str; 5] =
    ["below 1 KiB", "1 to 10 KiB", "10 to 100 KiB", "100 KiB and more", "of unknown size"];

impl Report<'_> {
    /// The cells of the setting that percentiles are shown at, and it in words: the highest rate at
    /// which everybody still answers nearly all; of other factors the last level.
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
            let points = points(&spectrum);
            if points.len() > 2 {
                least = least.min(samples(&spectrum));
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
            let known = samples(spectrum) * 0.001 >= BEYOND_MIN && !most.censored;
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

    /// Where the whole results are gone: medians over the trials.
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

    /// Response and service time beside each other; only where requests are due on their own.
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

    /// What the times of this run are.
    pub(super) fn clock(&self) -> &'static str {
        match self.run.experiment.workload.model {
            crate::experiment::Loop::Closed => "Service time",
            _ => "Response time",
        }
    }
}

/// Requests that a spectrum is made of, also those that never came back.
fn samples(spectrum: &Spectrum) -> f64 {
    real(spectrum.times.count() + spectrum.censored)
}

/// `[1/(1 - quantile), ms]` up to the last sample, or to the first that never came back.
fn points(spectrum: &Spectrum) -> Vec<[f64; 2]> {
    let all = samples(spectrum);
    let mut points = Vec::new();
    // Below the lower quartile there is little to see, and it would flatten the rest.
    for step in 1..200 {
        let beyond = 10_f64.powf(count(step) / POINTS);
        let found = spectrum.at(1.0 - 1.0 / beyond);
        if beyond > all || found.censored {
            break;
        }
        points.push([beyond, real(found.ns) / 1e6]);
    }
    points
}
