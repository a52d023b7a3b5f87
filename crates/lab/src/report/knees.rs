//! Capacity: saturation searches, with what is served beyond the knee and how long the return
//! takes; throughput over concurrency and the law that it follows; what each processor brings ([G]
//! figures 4 and 6).

use super::Report;
use super::figure::{Figure, Line};
use crate::analysis::{CellSummary, by_block};
use crate::claims::evidence::{self, Evidence};
use crate::experiment::{Loop, PROCESSORS};
use crate::knee::{Found, Tried};
use crate::run::saturation::Row;
use crate::stats::{Scaling, count, middle};
use crate::units::show;
use serde_json::{Value, json};
use std::collections::BTreeMap;

impl Report<'_> {
    pub(super) fn knees(&self) -> Option<Figure> {
        let row = |row: &Row| {
            let Found::Knee { rate, interval, .. } = &row.knee.found else { return None };
            let arm = self.arm(&row.cell);
            Some(json!([row.cell.name(), rate, interval.low, interval.high, arm]))
        };
        let rows: Vec<Value> = self.analysis.knees.iter().filter_map(row).collect();
        let slo = self.run.experiment.workload.slo.as_deref().unwrap_or_default();
        let head = ["arm", "knee /s", "95 %", "breaks", "probes"];
        let table = self.analysis.knees.iter().map(told).collect();
        let mut figure = Figure::of("knees", &[("slo", &slo)]).with_rows(head, table)?;
        if !rows.is_empty() {
            let drawing = json!({ "x": "requests (sessions) per second", "zero": false });
            figure = figure.forest(rows, drawing);
        }
        Some(figure)
    }

    /// The course of each search: rate over probes.
    pub(super) fn probes(&self) -> Option<Figure> {
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
        (!lines.is_empty()).then(|| Figure::of("probes", &[("lost", &lost)]).drawn(drawing))
    }

    pub(super) fn overload(&self) -> Option<Figure> {
        let with = || self.analysis.knees.iter().filter(|row| !row.overload.is_empty());
        let line = |row: &Row| {
            let seen = row.overload.iter().map(|one| (one.multiple, one.good_per_s));
            let points = seen.map(|(multiple, good)| [multiple, good, good, good]);
            Line { arm: self.arm(&row.cell), points: points.collect() }
        };
        let lines: Vec<Line> = with().map(line).collect();
        let drawing = json!({ "kind": "curves", "lines": lines,
            "x": "offered, multiple of the arm's knee", "y": "good answers per second" });
        let mut multiples = self.run.experiment.knee.overload.clone();
        multiples.sort_by(f64::total_cmp);
        let mut head = vec!["arm".to_owned()];
        head.extend(multiples.iter().map(|multiple| format!("good /s at {} x", show(*multiple))));
        head.push("recovers after s".to_owned());
        let rows = with().map(|row| {
            let good = |multiple: &f64| {
                let found = row.overload.iter().find(|one| one.multiple == *multiple);
                found.map_or("–".to_owned(), |one| show(one.good_per_s))
            };
            let mut cells = vec![row.cell.name()];
            cells.extend(multiples.iter().map(good));
            let highest = row.overload.last().map(|one| one.multiple) == multiples.last().copied();
            cells.push(match row.recovery_s {
                Some(seconds) => format!("{seconds:.0}"),
                None if highest => "not seen".to_owned(),
                None => "–".to_owned(),
            });
            cells
        });
        let rows: Vec<Vec<String>> = rows.collect();
        Figure::of("overload", &[]).drawn(drawing).with_rows(head, rows)
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

impl Report<'_> {
    /// None unless the number of processors varies.
    pub(super) fn cores(&self) -> Option<Figure> {
        let all = Evidence::everywhere(self.run);
        let (path, levels) = all.levels(PROCESSORS).ok()?;
        let (first, last) = (levels.first()?.as_str(), levels.last()?.as_str());
        let mut rows = Vec::new();
        for target in &self.run.experiment.targets {
            let peaks = |level| all.with(path, level).peaks(&target.name, "good_per_s").ok();
            let peak = |level| Some(show(middle(&peaks(level)?)));
            let side = |level| [(all.with(path, level), target.name.as_str())];
            let gain = Evidence::best_of(&side(last), &side(first)).ok();
            let mut row = vec![target.name.clone()];
            let each = levels.iter().map(|level| peak(level.as_str()));
            row.extend(each.map(|peak| peak.unwrap_or_else(|| "–".to_owned())));
            row.push(gain.map_or("–".to_owned(), |gain| evidence::show(&gain)));
            rows.push(row);
        }
        let mut head = vec!["server".to_owned()];
        head.extend(levels.iter().map(|level| format!("with {level}")));
        head.push(format!("{last} over {first}"));
        Some(Figure::of("cores", &[]).with_table(head, rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::saturation::tests::searched;

    #[test]
    fn each_overload_stands_under_its_multiple() {
        let mut run = searched();
        for record in &mut run.records {
            let times = record.probe.as_ref().and_then(|probe| probe.times);
            let lost = [("a", Some(1.5)), ("b", Some(2.0))];
            if lost.contains(&(record.cell.arm.as_str(), times)) {
                record.valid = false;
            }
        }
        let table = Report::of(&run).overload().unwrap().table.unwrap();
        assert_eq!(table.head[1..3], ["good /s at 1.50 x", "good /s at 2.00 x"]);
        let of = |arm: &str| table.rows.iter().find(|row| row[0] == arm).unwrap();
        assert!(of("a")[1] == "–" && of("a")[2] != "–" && of("a")[3] == "1", "{table:?}");
        assert!(of("b")[1] != "–" && of("b")[2..] == ["–", "–"], "{table:?}");
        run.records.retain(|record| record.probe.as_ref().is_none_or(|one| one.times.is_none()));
        assert!(Report::of(&run).overload().is_none());
    }
}

#[cfg(test)]
mod cores_tests {
    use super::*;
    use crate::analysis::tests::{named, of_library};
    use crate::experiment::Scale;
    use crate::record::Cell;

    #[test]
    fn peaks_stand_by_the_processors_that_the_server_got() {
        let value = |cell: &Cell| {
            let several = cell.levels.get(PROCESSORS).is_some_and(|level| level == "2");
            let peak = if several { 900.0 } else { 500.0 };
            named([("good_per_s", peak)])
        };
        let mut run = of_library("geneves-cores", Scale::Replica, &value);
        for record in run.records.iter_mut().filter(|record| record.cell.target == "nginx") {
            record.valid = record.cell.levels[PROCESSORS] == "2";
        }
        let figure = Report::of(&run).cores().unwrap();
        let table = figure.table.unwrap();
        assert_eq!(table.head, ["server", "with 1", "with 2", "2 over 1"]);
        let of = |name: &str| table.rows.iter().find(|row| row[0] == name).unwrap();
        let gain: f64 = of("symped")[3].split(' ').next().unwrap().parse().unwrap();
        assert!((1.75..1.85).contains(&gain), "{table:?}");
        assert_eq!((of("nginx")[1].as_str(), of("nginx")[3].as_str()), ("–", "–"));
        let other = of_library("hpl01", Scale::Quick, &value);
        assert!(Report::of(&other).cores().is_none());
    }
}
