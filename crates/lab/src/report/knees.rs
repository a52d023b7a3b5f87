//! Capacity: saturation searches, with what is served beyond the knee and how long the return
//! takes; what each processor brings ([G] figures 4 and 6).

use super::Report;
use super::figure::{Figure, Line};
use crate::claims::evidence::{self, Evidence};
use crate::experiment::PROCESSORS;
use crate::knee::{Found, Tried};
use crate::run::saturation::Row;
use crate::stats::middle;
use crate::units::show;
use serde_json::{Value, json};

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
