//! Tuning: the race and what its options do, and the papers' matrices.

use super::Report;
use super::figure::{Figure, Section};
use super::tables::Table;
use crate::analysis::{by_block, pairs};
use crate::experiment::Factor;
use crate::race::space::{Candidate, DEFAULT};
use crate::race::{self, Finalist, Phase, Rung, Told};
use crate::record::Cell;
use crate::stats::{compare, judged};
use crate::units::{show, words};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Cells by the places of their levels, with median and cell, of each map.
type Maps<'a> = BTreeMap<String, Vec<(usize, usize, f64, &'a Cell)>>;

/// Fewer blocks than this have no p value.
const BLOCKS_MIN: usize = 4;
/// Arms whose course is drawn, at most.
const COURSES_MAX: usize = 10;
/// Pairs of options that are drawn, at most.
const CROSSINGS_MAX: usize = 8;
/// Options whose effects are drawn, at most.
const MOVES_MAX: usize = 40;

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    let mut figures: Vec<Figure> = report.matrix().into_iter().collect();
    if let Some(race) = race::told(report.run) {
        figures.extend(report.advice(&race));
        figures.extend(report.course(&race));
        figures.extend(report.moves(&race));
        figures.extend(crossings(&race));
        figures.extend(left(&race));
    }
    figures
}

fn cell(candidate: &Candidate) -> Cell {
    Cell { arm: candidate.name(), target: candidate.name(), levels: BTreeMap::new() }
}

/// What a matrix does with cells that break the papers' rules ([S] §5: they are discarded).
fn crossed_words(cells: usize) -> String {
    match cells {
        0 => "Every cell keeps the papers' rules of verification.".to_owned(),
        cells => format!(
            "Cells with a cross ({cells}) break the papers' rules of verification: too many \
             time-outs, of all or of one size. They are not the best, however fast."
        ),
    }
}

/// Who left the race, when and why.
fn left(race: &Told) -> Option<Figure> {
    let phase = |rung: &Rung| match rung.phase {
        Phase::Opening => "opening",
        Phase::Refining => "refining",
        Phase::Final => "final",
    };
    let rows: Vec<Vec<String>> = race
        .rungs
        .iter()
        .flat_map(|rung| rung.out.iter().map(move |out| (rung, out)))
        .map(|(rung, (arm, why))| {
            vec![phase(rung).to_owned(), rung.blocks.1.to_string(), arm.clone(), why.clone()]
        })
        .collect();
    let head = ["part", "after block", "arm", "why"].map(str::to_owned).into();
    let caption = "After each rung those leave who are behind the leader by more than chance \
                   allows, and the last of those who are left.";
    let mut figure = Figure::new(Section::Tuning, "left", "Who left the race", caption);
    figure.table = Some(Table { head, rows });
    (!race.rungs.is_empty()).then_some(figure)
}

/// Options that the race happened to try in each other's company: ratios to the default.
fn crossings(race: &Told) -> Option<Figure> {
    // How each arm stood at the end of its last rung.
    let mut last: BTreeMap<&Candidate, f64> = BTreeMap::new();
    for one in race.rungs.iter().flat_map(|rung| &rung.arms) {
        last.insert(&one.candidate, one.ratio);
    }
    let default = Candidate::default();
    last.entry(&default).or_insert(1.0);
    let keys: BTreeSet<&String> = last.keys().flat_map(|one| one.config.keys()).collect();
    let keys: Vec<&String> = keys.into_iter().collect();
    let mut maps: Vec<(usize, String, Value)> = Vec::new();
    for (at, x) in keys.iter().enumerate() {
        for y in &keys[at + 1..] {
            let mut groups: BTreeMap<Candidate, Vec<(&str, &str, f64)>> = BTreeMap::new();
            for (one, ratio) in &last {
                let mut rest = (*one).clone();
                let here = [x, y].map(|key| {
                    rest.config.remove(*key);
                    one.config.get(*key).map_or("as it comes", String::as_str)
                });
                groups.entry(rest).or_default().push((here[0], here[1], *ratio));
            }
            let map = |(rest, cells): (&Candidate, &Vec<(&str, &str, f64)>)| {
                let name = format!("{x} and {y}, {}", rest.name());
                Some((cells.len(), name, crossing(x, y, cells, race)?))
            };
            maps.extend(groups.iter().filter_map(map));
        }
    }
    maps.sort_by_key(|(cells, ..)| std::cmp::Reverse(*cells));
    maps.truncate(CROSSINGS_MAX);
    let choices: Vec<String> = maps.iter().map(|(_, name, _)| name.clone()).collect();
    let drawn: Vec<Value> = maps.into_iter().map(|(.., map)| map).collect();
    let drawing = json!({ "kind": "matrix", "maps": drawn, "x": "", "y": "",
        "unit": "times the default", "more": true });
    let caption = "Pairs of options of which the race tried several combinations: ratios to the \
                   default when the arm ran last. Empty cells were not tried. Outlined: within \
                   the noise floor of the best in the map. A few blocks stand behind a cell that \
                   left early.";
    (!choices.is_empty()).then(|| {
        Figure::new(Section::Tuning, "crossings", "Pairs of options", caption)
            .drawn(drawing)
            .chosen("pair", choices)
    })
}

/// One map; None unless both options have two levels in it, and four combinations were tried.
fn crossing(x: &str, y: &str, cells: &[(&str, &str, f64)], race: &Told) -> Option<Value> {
    let levels = |of: &dyn Fn(&(&str, &str, f64)) -> String| -> Vec<String> {
        let mut levels: Vec<String> = cells.iter().map(of).collect();
        levels.sort_by_key(|level| (level.parse::<u64>().unwrap_or_default(), level.clone()));
        levels.dedup();
        levels
    };
    let (xs, ys) = (levels(&|cell| cell.0.to_owned()), levels(&|cell| cell.1.to_owned()));
    if xs.len() < 2 || ys.len() < 2 || cells.len() < 4 {
        return None;
    }
    let best = cells.iter().map(|cell| cell.2).fold(0.0, f64::max);
    let floor = race.decision.as_ref().map_or(0.0, |decision| decision.floor);
    let place = |levels: &[String], level: &str| levels.iter().position(|known| known == level);
    let drawn: Vec<Value> = cells
        .iter()
        .map(|(a, b, ratio)| {
            let near = (best / ratio).ln() <= floor.ln_1p();
            json!([place(&xs, a), place(&ys, b), ratio, near])
        })
        .collect();
    Some(json!({ "x": x, "y": y, "xs": xs, "ys": ys, "cells": drawn }))
}

impl Report<'_> {
    fn advice(&self, race: &Told) -> Option<Figure> {
        let decision = race.decision.as_ref()?;
        let row = |one: &Finalist| {
            let interval = one.effect.interval?;
            let arm = self.arm(&cell(&one.candidate));
            Some(json!([one.candidate.name(), one.effect.ratio, interval.low, interval.high, arm]))
        };
        let rows: Vec<Value> = decision.finalists.iter().filter_map(row).collect();
        let floor = decision.floor;
        let caption = format!(
            "{} The final's blocks are fresh: nothing that chose the finalists counts in it. \
             Ratios to the default with 95 % intervals; the shaded band is the noise floor.",
            race.answer()
        );
        let mut figure = Figure::new(Section::Tuning, "advice", "The advice", caption);
        if !rows.is_empty() {
            let drawing = json!({ "kind": "forest", "rows_data": rows, "mark": 1.0,
                "floor": [1.0 / (1.0 + floor), 1.0 + floor],
                "x": format!("answers for the same {}, ratio to the default", words(
                    &race.settled.metric)) });
            figure = figure.drawn(drawing).high(rows.len());
        }
        figure.text.clone_from(&race.configuration);
        Some(figure)
    }

    /// How the arms stood after each rung, as ratios to the default.
    fn course(&self, race: &Told) -> Option<Figure> {
        let mut lines: BTreeMap<String, (usize, Vec<[f64; 4]>)> = BTreeMap::new();
        for rung in &race.rungs {
            for one in &rung.arms {
                let arm = self.arm(&cell(&one.candidate));
                let x = f64::from(rung.blocks.1);
                let line = lines.entry(one.arm.clone()).or_insert((arm, Vec::new()));
                line.1.push([x, one.ratio, one.ratio, one.ratio]);
            }
        }
        // Those that stayed longest.
        let mut lines: Vec<(usize, Vec<[f64; 4]>)> = lines.into_values().collect();
        lines.sort_by_key(|(_, points)| std::cmp::Reverse(points.len()));
        lines.truncate(COURSES_MAX);
        let lines: Vec<Value> = lines
            .into_iter()
            .map(|(arm, points)| json!({ "arm": arm, "points": points }))
            .collect();
        let drawing = json!({ "kind": "curves", "lines": lines, "x": "block",
            "y": "ratio to the default" });
        let caption = "How the arms that stayed longest stood after each rung, over all blocks \
                       that they and the default were in; the last points are the final's alone. \
                       An arm whose line ends has left.";
        (!lines.is_empty())
            .then(|| Figure::new(Section::Tuning, "course", "The race", caption).drawn(drawing))
    }

    /// What single options did: pairs of arms that differ in one.
    fn moves(&self, race: &Told) -> Option<Figure> {
        let mut arms: Vec<Candidate> = vec![Candidate::default()];
        for one in race.rungs.iter().flat_map(|rung| &rung.arms) {
            if !arms.contains(&one.candidate) {
                arms.push(one.candidate.clone());
            }
        }
        let blocks: Vec<_> =
            arms.iter().map(|arm| by_block(self.run, &cell(arm), &race.settled.metric)).collect();
        let better = |ratio: f64| {
            if self.analysis.more_is_better { ratio } else { 1.0 / ratio }
        };
        let mut moves = Vec::new();
        for (at, from) in arms.iter().enumerate() {
            for (to_at, to) in arms.iter().enumerate() {
                let more = to.config.len() > from.config.len();
                let differs = from.differs(to);
                if differs.len() != 1
                    || !(more || at < to_at && to.config.len() == from.config.len())
                {
                    continue;
                }
                let effect = compare(&pairs(&blocks[to_at], &blocks[at]));
                let Some(effect) = effect.filter(|one| one.blocks >= BLOCKS_MIN) else {
                    continue;
                };
                let key = &differs[0];
                let value = |one: &Candidate| {
                    one.config.get(key).map_or("as it comes", String::as_str).to_owned()
                };
                let base = if from.name() == DEFAULT { String::new() } else { from.name() };
                let name = format!("{key}: {} to {}", value(from), value(to));
                moves.push((format!("{name} ({base})").replace(" ()", ""), effect, cell(to)));
            }
        }
        let size = |effect: &crate::stats::Effect| effect.ratio.ln().abs();
        moves.sort_by(|a, b| size(&b.1).total_cmp(&size(&a.1)));
        moves.truncate(MOVES_MAX);
        let rows: Vec<Value> = moves
            .iter()
            .filter_map(|(name, effect, cell)| {
                let interval = effect.interval?;
                let (a, b) = (better(interval.low), better(interval.high));
                let ratio = better(effect.ratio);
                Some(json!([name, ratio, a.min(b), a.max(b), self.arm(cell)]))
            })
            .collect();
        let drawing = json!({ "kind": "forest", "rows_data": rows, "mark": 1.0,
            "x": "what the option does, as a ratio (more is better)" });
        let caption = "Pairs of arms that differ in one option and met in at least four blocks, \
                       the largest effect first: what mattered stands above, and what did not near \
                       the dashed line. What follows in brackets is what both have besides.";
        (!rows.is_empty()).then(|| {
            Figure::new(Section::Tuning, "moves", "Which options mattered", caption)
                .drawn(drawing)
                .high(rows.len())
        })
    }

    /// The crossing of two options, for each setting of the others.
    fn matrix(&self) -> Option<Figure> {
        let varied =
            |factor: &&Factor| factor.levels.len() > 1 && factor.path != super::figure::RATE;
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
        let caption = format!(
            "Median {} for each pair of levels; darker is better. Outlined is the plateau: cells \
             that cannot be told from the best, by paired blocks, or differ from it by no more \
             than the noise floor (±{:.1} %). Where it reaches an edge, the best may lie beyond. \
             {}",
            words(metric),
            100.0 * self.analysis.floor,
            crossed_words(broken.values().filter(|broken| !broken.is_empty()).count())
        );
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
        let head = [head.to_vec(), vec!["of".to_owned(), words(metric)]].concat();
        let choices: Vec<String> = maps.keys().cloned().collect();
        let title = "What the options do together";
        let mut figure = Figure::new(Section::Tuning, "matrix", title, caption).drawn(drawing);
        if choices.len() > 1 {
            figure = figure.chosen("of", choices);
        }
        figure.table = Some(Table { head, rows });
        (!maps.is_empty()).then_some(figure)
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
            let Some(value) = one.metrics.get(&self.analysis.metric) else { continue };
            let others = rest.iter().filter_map(|factor| {
                Some(format!("{}={}", factor.label(), one.cell.levels.get(&factor.path)?))
            });
            let name = [vec![one.cell.arm.clone()], others.collect()].concat().join(" ");
            maps.entry(name).or_default().push((x, y, value.median, &one.cell));
        }
        maps
    }

    /// Whether a cell cannot be told from the best, or is within the noise floor of it.
    fn as_good(&self, cell: &Cell, best: &Cell) -> bool {
        let of = |cell| by_block(self.run, cell, &self.analysis.metric);
        let Some((ratio, p, blocks)) = judged(&pairs(&of(cell), &of(best))) else { return false };
        let within = ratio.ln().abs() <= self.analysis.floor.ln_1p();
        within || blocks >= BLOCKS_MIN && p >= 0.05
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::synthetic;
    use crate::best::BestOptions;
    use crate::race::space::Means;
    use crate::race::{Decision, Standing};
    use crate::race::{Settled, Site};
    use crate::record::ruled::tests::ruled;

    const TEXT: &str = r#"
experiment = { name = "made-up", question = "?", expect = "!" }
targets.m.program = "regatta"
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
            BTreeMap::from([("good_per_s".to_owned(), speed)])
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
            BTreeMap::from([("good_per_s".to_owned(), speed)])
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
    fn what_the_race_tried_in_company_is_drawn() {
        let with = |options: &[(&str, &str)]| {
            let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            Candidate { config: options.iter().map(pair).collect() }
        };
        let standing = |candidate: Candidate, ratio: f64| Standing {
            arm: candidate.name(),
            candidate,
            ratio,
            p: 1.0,
            blocks: 4,
        };
        let arms = vec![
            standing(with(&[("a.x", "1")]), 1.1),
            standing(with(&[("b.y", "2")]), 0.9),
            standing(with(&[("a.x", "1"), ("b.y", "2")]), 1.2),
            standing(with(&[("c.z", "3")]), 1.0),
        ];
        let options = BestOptions::new("/".into(), "regatta".into());
        let all = Means { cpus: 1, memory: 1 };
        let settled = Settled::new(&options, "/".as_ref(), Site::default(), all, None);
        let out = vec![("c.z=3".to_owned(), "behind".to_owned())];
        let rung = Rung { phase: Phase::Opening, blocks: (0, 4), arms, out };
        let decision = Decision {
            advice: None,
            finalists: Vec::new(),
            floor: 0.02,
            blocks: 4,
            verified: None,
            levels: Vec::new(),
        };
        let race =
            Told { settled, rungs: vec![rung], decision: Some(decision), configuration: None };
        let figure = crossings(&race).unwrap();
        assert_eq!(figure.choices, ["a.x and b.y, default"]);
        let map = &figure.drawing.unwrap()["maps"][0];
        assert_eq!(map["cells"].as_array().unwrap().len(), 4, "{map}");
        let near: Vec<&Value> =
            map["cells"].as_array().unwrap().iter().filter(|cell| cell[3] == true).collect();
        assert_eq!(near.len(), 1, "1.2 alone: {map}");
        assert_eq!(left(&race).unwrap().table.unwrap().rows[0][3], "behind");
    }
}
