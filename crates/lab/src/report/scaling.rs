//! Throughput over concurrency, and the law that it follows.

use super::Report;
use super::figure::Figure;
use crate::analysis::{CellSummary, by_block};
use crate::experiment::Loop;
use crate::stats::{Scaling, count};
use crate::units::show;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Points of a fitted curve.
const CURVE: usize = 60;
/// A fit whose largest residual is above this is not this law.
const RESIDUAL_MAX: f64 = 0.25;
/// Little's law needs the times of all requests: not where more than this fail.
const ERRORS_MAX: f64 = 0.01;

impl Report<'_> {
    /// How many requests are with the server at once: the connections of a closed loop; in an open
    /// one, by Little's law, throughput times mean time.
    fn concurrency(&self, one: &CellSummary) -> Option<f64> {
        if self.run.experiment.workload.model == Loop::Closed {
            return one.cell.levels.get("workload.connections")?.parse().ok();
        }
        let whole = one.median("error_share").is_none_or(|share| share <= ERRORS_MAX);
        let busy = one.median("good_per_s")? * one.median("mean_ms")? / 1e3;
        (whole && busy > 0.0).then_some(busy)
    }

    pub(super) fn scaling(&self) -> Option<Figure> {
        let mut arms: BTreeMap<usize, Vec<(f64, &CellSummary)>> = BTreeMap::new();
        for one in self.analysis.cells.iter().filter(|one| one.trials > 0) {
            if let Some(n) = self.concurrency(one) {
                arms.entry(self.arm(&one.cell)).or_default().push((n, one));
            }
        }
        let (mut lines, mut rows, mut poor) = (Vec::new(), Vec::new(), Vec::new());
        for (arm, mut cells) in arms {
            cells.sort_by(|a, b| a.0.total_cmp(&b.0));
            let whisker = |(n, one): &(f64, &CellSummary)| {
                let [median, low, high] = one.point("good_per_s")?;
                Some([*n, median, low, high])
            };
            let whiskers: Option<Vec<[f64; 4]>> = cells.iter().map(whisker).collect();
            let Some(whiskers) = whiskers else { continue };
            let points: Vec<(f64, f64)> = whiskers.iter().map(|at| (at[0], at[1])).collect();
            let Some(fit) = Scaling::fit(&points) else { continue };
            let name = &self.arms[arm].name;
            if fit.worst() > RESIDUAL_MAX {
                poor.push(name.clone());
            }
            let rests =
                points.iter().zip(&fit.residuals).map(|(point, rest)| [point.0, 100.0 * rest]);
            lines.push(json!({ "arm": arm, "points": whiskers, "curve": curve(&fit, &points),
                "rests": rests.collect::<Vec<_>>() }));
            rows.push(self.row(name, &fit, &cells));
        }
        if lines.is_empty() {
            return None;
        }
        let closed = self.run.experiment.workload.model == Loop::Closed;
        let axis =
            if closed { "connections" } else { "requests at once (throughput × mean time)" };
        let unfit = if poor.is_empty() {
            String::new()
        } else {
            let poor = poor.join(", ");
            format!(
                " The law does not describe {poor}: residuals above {:.0} %.",
                100.0 * RESIDUAL_MAX
            )
        };
        let head = ["arm", "λ (one alone, /s)", "σ", "κ", "peak at", "peak /s", "worst residual"];
        let drawing = json!({ "kind": "scaling", "lines": lines, "x": axis,
            "y": "good answers per second" });
        let figure = Figure::of("scaling", &[("unfit", &unfit)]);
        Some(figure.drawn(drawing).high(14).with_table(head, rows))
    }

    /// A row of the table; σ and κ with their range over fits to each block alone.
    fn row(&self, name: &str, fit: &Scaling, cells: &[(f64, &CellSummary)]) -> Vec<String> {
        let mut blocks: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
        for (n, one) in cells {
            for (block, value) in by_block(self.run, &one.cell, "good_per_s") {
                blocks.entry(block).or_default().push((*n, value));
            }
        }
        let fits: Vec<Scaling> = blocks
            .values()
            .filter(|points| points.len() == cells.len())
            .filter_map(|points| Scaling::fit(points))
            .collect();
        let ranged = |value: f64, of: &dyn Fn(&Scaling) -> f64| {
            let low = fits.iter().map(of).fold(f64::INFINITY, f64::min);
            let high = fits.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
            match fits.len() {
                0 | 1 => small(value),
                _ => format!("{} ({} to {})", small(value), small(low), small(high)),
            }
        };
        let last = cells.last().map_or(0.0, |(n, _)| *n);
        let (at, peak) = match fit.peak() {
            None => ("none".to_owned(), "–".to_owned()),
            Some((n, _)) if n > last => (format!("beyond {}", show(last)), "–".to_owned()),
            Some((n, x)) => (show(n), show(x)),
        };
        let worst = format!("{:.1} %", 100.0 * fit.worst());
        let (alone, contention) = (show(fit.alone), ranged(fit.contention, &|fit| fit.contention));
        let coherency = ranged(fit.coherency, &|fit| fit.coherency);
        vec![name.to_owned(), alone, contention, coherency, at, peak, worst]
    }
}

/// The law from the first to the last point.
fn curve(fit: &Scaling, points: &[(f64, f64)]) -> Vec<Value> {
    let (first, last) = (points[0].0, points[points.len() - 1].0);
    let step = |at: usize| first + (last - first) * count(at) / count(CURVE);
    (0..=CURVE).map(|at| json!([step(at), fit.at(step(at))])).collect()
}

/// A small number with two digits that mean something.
fn small(value: f64) -> String {
    if value == 0.0 {
        "0".to_owned()
    } else if value >= 0.001 {
        format!("{value:.4}")
    } else {
        format!("{value:.1e}")
    }
}
