//! Tuning: the race and what its options do, and the papers' matrices.

use super::Report;
use super::figure::{Figure, Line};
use crate::analysis::{by_block, pairs};
use crate::experiment::{Factor, RATE, words};
use crate::knee;
use crate::race::space::Candidate;
use crate::race::{self, Finalist, Standing, Told};
use crate::record::Cell;
use crate::stats::{LEVEL, Verdict, compare};
use crate::units::show;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;

/// Cells by the places of their levels, with median and cell, of each map.
type Maps<'a> = BTreeMap<String, Vec<(usize, usize, f64, &'a Cell)>>;

/// A cell within this share of the best is as good.
const AS_GOOD: f64 = 0.02;
/// Arms whose course is drawn, at most.
const COURSES_MAX: usize = 10;
/// Options whose effects are drawn, at most.
const MOVES_MAX: usize = 40;

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    let mut figures: Vec<Figure> = report.matrix().into_iter().collect();
    if let Some(race) = race::told(report.run) {
        figures.extend(report.advice(&race));
        figures.extend(report.course(&race));
        figures.extend(report.moves(&race));
        figures.extend(left(&race));
    }
    figures
}

fn cell(candidate: &Candidate) -> Cell {
    Cell { arm: candidate.name(), target: candidate.name(), levels: BTreeMap::new() }
}

/// Describes the cells of a matrix that break the papers' rules ([S] §5: they are discarded).
fn crossed_words(cells: usize) -> String {
    match cells {
        0 => "Every cell keeps the papers' rules of verification.".to_owned(),
        cells => format!(
            "Cells with a cross ({cells}) break the papers' rules of verification: too many \
             time-outs, of all or of one size. They are not the best, however fast."
        ),
    }
}

/// Arms that left the race, with block and reason.
fn left(race: &Told) -> Option<Figure> {
    let rows: Vec<Vec<String>> = race
        .rungs
        .iter()
        .flat_map(|rung| rung.out.iter().map(move |out| (rung, out)))
        .map(|(rung, (arm, why))| {
            vec![rung.phase.name().to_owned(), rung.blocks.1.to_string(), arm.clone(), why.clone()]
        })
        .collect();
    let head = ["part", "after block", "arm", "why"];
    (!race.rungs.is_empty()).then(|| Figure::of("left", &[]).with_table(head, rows))
}

impl Report<'_> {
    fn advice(&self, race: &Told) -> Option<Figure> {
        let decision = race.decision.as_ref()?;
        let row = |one: &Finalist| {
            let (ratio, interval) = one.beside?;
            let arm = self.arm(&cell(&one.candidate));
            Some(json!([one.candidate.name(), ratio, interval.low, interval.high, arm]))
        };
        let rows: Vec<Value> = decision.finalists.iter().filter_map(row).collect();
        let floor = decision.floor;
        let mut figure = Figure::of("advice", &[("answer", &race.answer())]);
        if !rows.is_empty() {
            let drawing = json!({ "mark": 1.0, "floor": [1.0 / (1.0 + floor), 1.0 + floor],
                "x": "saturation point, ratio to the default's" });
            figure = figure.forest(rows, drawing);
        }
        figure.text.clone_from(&race.configuration);
        Some(figure)
    }

    /// Standings of the arms after each rung, as ratios to the default.
    fn course(&self, race: &Told) -> Option<Figure> {
        let mut lines: BTreeMap<String, Line> = BTreeMap::new();
        for rung in &race.rungs {
            for one in &rung.arms {
                let arm = self.arm(&cell(&one.candidate));
                let x = f64::from(rung.blocks.1);
                let line = lines.entry(one.arm.clone()).or_insert(Line { arm, points: Vec::new() });
                line.points.push([x, one.ratio, one.interval.low, one.interval.high]);
            }
        }
        // The arms that stayed longest are drawn.
        let mut lines: Vec<Line> = lines.into_values().collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.points.len()));
        lines.truncate(COURSES_MAX);
        let drawing = json!({ "kind": "curves", "lines": lines, "x": "block",
            "y": "saturation point, ratio to the default's" });
        (!lines.is_empty()).then(|| Figure::of("course", &[]).drawn(drawing))
    }

    /// Effects of single options: pairs of arms of a rung that differ in one.
    fn moves(&self, race: &Told) -> Option<Figure> {
        let mut moves = BTreeMap::new();
        for rung in &race.rungs {
            let pairs =
                rung.arms.iter().flat_map(|from| rung.arms.iter().map(move |to| (from, to)));
            for (from, to) in pairs {
                let differs = from.candidate.differs(&to.candidate);
                let more = (to.candidate.config.len(), &to.arm);
                let [key] = differs.as_slice() else { continue };
                if more < (from.candidate.config.len(), &from.arm) {
                    continue;
                }
                let value = |one: &Candidate| {
                    one.config.get(key).map_or("as it comes", String::as_str).to_owned()
                };
                let [a, b] = [&from.candidate, &to.candidate].map(value);
                let name = format!("{key}: {a} to {b} ({})", from.arm);
                // The last state of pairs that met again counts.
                moves.insert(name, (from, to));
            }
        }
        let of = |(name, (from, to)): (String, (&Standing, &Standing))| {
            let both = [to, from].map(|one| &*one.tried);
            let (ratio, interval) = knee::ratio(both, race::DRIFT_PROBES, LEVEL)?;
            let arm = self.arm(&cell(&to.candidate));
            Some((ratio, json!([name, ratio, interval.low, interval.high, arm])))
        };
        let mut moves: Vec<(f64, Value)> = moves.into_iter().filter_map(of).collect();
        moves.sort_by(|a, b| b.0.ln().abs().total_cmp(&a.0.ln().abs()));
        moves.truncate(MOVES_MAX);
        let rows: Vec<Value> = moves.into_iter().map(|(_, row)| row).collect();
        let drawing = json!({ "mark": 1.0,
            "x": "what the option does to the saturation point, as a ratio" });
        (!rows.is_empty()).then(|| Figure::of("moves", &[]).forest(rows, drawing))
    }

    /// The crossing of two options, for each setting of the others.
    fn matrix(&self) -> Option<Figure> {
        let varied = |factor: &&Factor| factor.levels.len() > 1 && factor.path != RATE;
        let factors: Vec<&Factor> = self.run.experiment.factors.iter().filter(varied).collect();
        let of_target = factors.iter().any(|factor| factor.of_target().is_some());
        let ([across, up, rest @ ..], true) = (factors.as_slice(), of_target) else { return None };
        let metric = &self.analysis.metric;
        let more = self.analysis.more_is_better;
        let maps = self.maps(across, up, rest);
        let broken: BTreeMap<&Cell, Vec<&str>> =
            maps.values().flatten().map(|(.., cell)| (*cell, self.broken(cell))).collect();
        let keeps = |cell: &Cell| broken[cell].is_empty();
        let drawn: Vec<Value> =
            maps.values()
                .map(|cells| {
                    let best = cells.iter().filter(|cell| keeps(cell.3)).max_by(|a, b| {
                        if more { a.2.total_cmp(&b.2) } else { b.2.total_cmp(&a.2) }
                    });
                    let near = |cell: &Cell| {
                        keeps(cell) && best.is_some_and(|best| self.as_good(cell, best.3))
                    };
                    let cells: Vec<Value> = cells
                        .iter()
                        .map(|(x, y, value, cell)| {
                            json!([x, y, value, near(cell), broken[*cell].join(" and ")])
                        })
                        .collect();
                    json!({ "xs": across.levels, "ys": up.levels, "cells": cells })
                })
                .collect();
        let drawing = json!({ "kind": "matrix", "maps": drawn, "x": across.label(),
            "y": up.label(), "unit": words(metric), "more": more });
        let broken = broken.values().filter(|broken| !broken.is_empty()).count();
        let (metric, crossed) = (words(metric), crossed_words(broken));
        let head = [across.label(), up.label()].map(str::to_owned);
        let mut rows: Vec<(f64, Vec<String>)> = Vec::new();
        for (name, cells) in &maps {
            for (x, y, value, _) in cells.iter().filter(|cell| keeps(cell.3)) {
                let levels = vec![across.levels[*x].clone(), up.levels[*y].clone()];
                rows.push((*value, [levels, vec![name.clone(), show(*value)]].concat()));
            }
        }
        rows.sort_by(|a, b| if more { b.0.total_cmp(&a.0) } else { a.0.total_cmp(&b.0) });
        let rows = rows.into_iter().take(5).map(|(_, row)| row).collect();
        let head = [head.to_vec(), vec!["of".to_owned(), metric.clone()]].concat();
        let choices: Vec<String> = maps.keys().cloned().collect();
        let values: [(&str, &dyn Display); 2] = [("metric", &metric), ("crossed", &crossed)];
        let mut figure = Figure::of("matrix", &values).drawn(drawing);
        if choices.len() > 1 {
            figure = figure.chosen("of", choices);
        }
        (!maps.is_empty()).then(|| figure.with_table(head, rows))
    }
    /// Cells by their levels of two factors, a map for each setting of the rest.
    fn maps(&self, across: &Factor, up: &Factor, rest: &[&Factor]) -> Maps<'_> {
        let mut maps = Maps::new();
        for one in self.analysis.cells.iter().filter(|one| one.trials > 0) {
            let place = |factor: &Factor| {
                let level = one.cell.levels.get(&factor.path)?;
                factor.levels.iter().position(|known| known == level)
            };
            let again = one.cell.arm.ends_with(crate::record::AGAIN);
            let (Some(x), Some(y), false) = (place(across), place(up), again) else { continue };
            let Some(median) = one.median(&self.analysis.metric) else { continue };
            let others = rest.iter().filter_map(|factor| {
                Some(format!("{}={}", factor.label(), one.cell.levels.get(&factor.path)?))
            });
            let name = [vec![one.cell.arm.clone()], others.collect()].concat().join(" ");
            maps.entry(name).or_default().push((x, y, median, &one.cell));
        }
        maps
    }

    /// Whether a cell is indistinguishable from the best, or near enough.
    fn as_good(&self, cell: &Cell, best: &Cell) -> bool {
        let of = |cell| by_block(self.run, cell, &self.analysis.metric);
        let Some(found) = compare(&pairs(&of(cell), &of(best))) else { return false };
        found.ratio.ln().abs() <= AS_GOOD || found.verdict() == Verdict::NoDifference
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::{named, synthetic};
    use crate::best::BestOptions;
    use crate::knee::Tried;
    use crate::race::space::Means;
    use crate::race::{Phase, Rung, Settled, Site};
    use crate::record::tests::ruled;
    use crate::stats::Interval;

    const TEXT: &str = r#"
experiment = { name = "made-up", question = "?", expect = "!" }
targets.m = {}
workload.root = "."
measure.blocks = 8
[factors]
"targets.m.config.event.processes" = [1, 2, 4]
"targets.m.config.cache.body_bytes_max" = [0, 65536]
"workload.connections" = [8, 64]
"#;

    #[test]
    fn a_crossing_is_drawn_with_its_plateau() {
        let run = synthetic(TEXT, &|cell| {
            let level = |key: &str| cell.levels[&format!("targets.m.config.{key}")].clone();
            let slow = level("event.processes") == "4" || level("cache.body_bytes_max") == "0";
            let speed = if slow { 500.0 } else { 1_000.0 };
            named([("good_per_s", speed)])
        });
        let report = Report::of(&run);
        let figure = report.matrix().unwrap();
        assert_eq!(figure.choices, ["m connections=64", "m connections=8"]);
        let drawing = figure.drawing.unwrap();
        assert_eq!(
            (&drawing["x"], &drawing["y"]),
            (&json!("event.processes"), &json!("cache.body_bytes_max"))
        );
        for map in drawing["maps"].as_array().unwrap() {
            let cells = map["cells"].as_array().unwrap();
            assert_eq!(cells.len(), 6);
            for cell in cells {
                // Only one and two processes with bodies in memory are near the best.
                let near = cell[0].as_u64() < Some(2) && cell[1] == 1;
                assert_eq!(cell[3], json!(near), "{cell}");
            }
        }
        assert_eq!(figure.table.unwrap().rows.len(), 5);
    }

    #[test]
    fn a_fast_cell_that_breaks_the_papers_rules_is_not_the_best() {
        let fast = "targets.m.config.event.processes";
        let mut run = synthetic(TEXT, &|cell| {
            let speed = if cell.levels[fast] == "4" { 2_000.0 } else { 1_000.0 };
            named([("good_per_s", speed)])
        });
        let caption = Report::of(&run).matrix().unwrap().caption;
        assert!(caption.contains("Every cell keeps"), "{caption}");
        for record in &mut run.records {
            let breaches: &[&str] =
                if record.cell.levels[fast] == "4" { &["S-1: 12 % timed out"] } else { &[] };
            record.rules = ruled("systor12", breaches);
        }
        let figure = Report::of(&run).matrix().unwrap();
        assert!(figure.caption.contains("cross (4)"), "{}", figure.caption);
        let rows = figure.table.unwrap().rows;
        assert!(rows.iter().all(|row| row[0] != "4"), "{rows:?}");
        let drawing = figure.drawing.unwrap();
        let maps = drawing["maps"].as_array().unwrap();
        for cell in maps.iter().flat_map(|map| map["cells"].as_array().unwrap()) {
            let breaks = cell[0] == 2;
            assert_eq!(cell[4], if breaks { "[S]" } else { "" }, "{cell}");
            assert!(!breaks || cell[3] == false, "no plateau: {cell}");
        }
        let near = |map: &Value| map["cells"].as_array().unwrap().iter().any(|c| c[3] == true);
        assert!(maps.iter().all(near), "there is one without them");
    }

    #[test]
    fn what_single_options_did_is_drawn_beside_each_other() {
        let standing = |candidate: Candidate, knee: f64| {
            let shown = |rate: f64| match rate < knee {
                true => Tried::Met,
                false => Tried::Broken(Vec::new()),
            };
            let tried = (0..20_u32).map(|at| 800.0 * 1.02_f64.powi(at.cast_signed()));
            Standing {
                arm: candidate.name(),
                candidate,
                ratio: knee / 1_000.0,
                interval: Interval { low: knee / 1_100.0, high: knee / 900.0 },
                tried: tried.map(|rate| (rate, shown(rate))).collect(),
            }
        };
        let amped = ("server.architecture", "amped");
        let arms = vec![
            standing(Candidate::of(&[amped]), 1_000.0),
            standing(Candidate::of(&[amped, ("accept.count", "1")]), 900.0),
            standing(Candidate::of(&[("server.architecture", "laio"), ("b.y", "2")]), 950.0),
        ];
        let options = BestOptions::new("/".as_ref());
        let all = Means { cpus: 1, memory: 1, descriptors: 20_000 };
        let settled = Settled::new(&options, "/".as_ref(), Site::default(), all, None);
        let out = vec![("laio y=2".to_owned(), "behind".to_owned())];
        let rung = Rung { phase: Phase::Opening, blocks: (0, 20), arms, out };
        let race = Told { settled, rungs: vec![rung], decision: None, configuration: None };
        let run = synthetic(TEXT, &|_| BTreeMap::new());
        let figure = Report::of(&run).moves(&race).unwrap();
        let rows = &figure.drawing.unwrap()["rows_data"];
        assert_eq!(rows.as_array().unwrap().len(), 1, "laio differs in more: {rows}");
        assert_eq!(rows[0][0], "accept.count: as it comes to 1 (amped)");
        assert!((rows[0][1].as_f64().unwrap() - 0.9).abs() < 0.02, "{rows}");
        assert_eq!(left(&race).unwrap().table.unwrap().rows[0][3], "behind");
    }
}
