//! The papers' numbers next to ours: points in our curves, ratios, single numbers, tables.

use super::Report;
use super::figure::{Figure, Section, Setting};
use crate::analysis::CellSummary;
use crate::claims::evidence::{self, Evidence};
use crate::claims::scale;
use crate::papers::{self, Drawn, Paper, Printed, Row};
use crate::stats::middle;
use crate::units::show;
use serde_json::{Value, json};

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    let name = &report.run.experiment.name;
    let mut figures = Vec::new();
    for paper in papers::all() {
        let drawn = paper.figures.iter().filter(|one| one.experiments.contains(name));
        figures.extend(drawn.filter_map(|one| report.beside(&paper, one)));
        figures.extend(report.numbers_of(&paper));
        figures.extend(report.scale(&paper));
        let printed = paper.tables.iter().filter(|one| one.experiments.contains(name));
        figures.extend(printed.map(|one| report.printed(&paper, one)));
    }
    figures
}

/// Difference of our set-up from a paper's, for every caption.
const OURS: &str = "fewer connections and shorter think times (the experiment's file says which); \
                    therefore shares and multiples.";

impl Report<'_> {
    /// Differences of this run from the paper.
    fn here(&self) -> String {
        let machines = match self.run.manifest.other {
            None => "one machine for server and load, loopback for the network",
            Some(_) => "two machines and what is between them",
        };
        format!("Here: {machines}, {OURS}")
    }

    /// Our curves and the paper's points, both as shares of the reference's peak.
    fn beside(&self, paper: &Paper, drawn: &Drawn) -> Option<Figure> {
        let unit = self.run.manifest.unit?;
        let peaks = Evidence::new(self.run).peaks(&drawn.reference, "good_per_s").ok()?;
        let peak = middle(&peaks);
        if !self.has_rates() || peak <= 0.0 {
            return None;
        }
        // No experiment of a figure with points varies anything besides the rate.
        let lines = self.lines_at(&Setting::default(), &|one| {
            let [median, low, high] = one.point("good_per_s")?.map(|good| good / peak);
            Some([rate(one, unit)?, median, low, high])
        });
        let points: Vec<Value> = drawn
            .points
            .iter()
            .map(|point| {
                let arm = self.arms.iter().position(|arm| arm.name == point.arm && !arm.again);
                let told = format!("{} ({})", point.said, point.place);
                json!({ "arm": arm, "name": point.arm, "x": point.x, "y": point.y, "said": told })
            })
            .collect();
        let drawing = json!({ "kind": "beside", "lines": lines, "points": points,
            "x": "requested rate, multiples of the calibrated one",
            "y": format!("throughput, shares of {}'s peak", drawn.reference) });
        let caption = format!(
            "Lines and small marks are ours; large open marks are the paper's, as far as its text \
             names them, with its words at the mark. In the paper: {}. It had: {}. {}{}",
            drawn.unit,
            paper.bed,
            self.here(),
            self.breaking(&paper.mark)
        );
        let title = format!("{} {} and ours", paper.mark, drawn.name);
        Some(Figure::new(Section::Drawn, id(&title), title, caption).drawn(drawing))
    }

    /// Ratios and single numbers of the paper's text, and ours.
    fn numbers_of(&self, paper: &Paper) -> Option<Figure> {
        let name = &self.run.experiment.name;
        let evidence = Evidence::new(self.run);
        let mut rows = Vec::new();
        for one in paper.ratios.iter().filter(|one| one.experiments.contains(name)) {
            let ours = match one.at {
                None => evidence.peak_ratio(&one.arm, &one.over),
                Some(at) => evidence
                    .near([&one.arm, &one.over], at)
                    .and_then(|[above, below]| evidence.ratio(&above, &below, "good_per_s")),
            };
            let at = one.at.map_or("peaks".to_owned(), |at| format!("at {at}x"));
            let what = format!("{} over {}, {at}", one.arm, one.over);
            let ours = ours.map_or_else(|missing| format!("– ({missing})"), |e| evidence::show(&e));
            rows.push(
                [&one.figure, &what, &format!("{} ({})", one.value, one.place), &ours]
                    .map(Clone::clone)
                    .into(),
            );
            self.judged(rows.last_mut(), &one.claim);
        }
        for one in paper.values.iter().filter(|one| one.experiments.contains(name)) {
            let what = format!("{}: {} at {}x", one.arm, one.what, one.at);
            let ours = self.ours(one).map_or_else(|missing| format!("– ({missing})"), show);
            let theirs = one.said.clone().unwrap_or_else(|| one.value.to_string());
            rows.push(vec![one.figure.clone(), what, format!("{theirs} ({})", one.place), ours]);
            self.judged(rows.last_mut(), &one.claim);
        }
        let head = ["where", "what", "paper", "here", "claim"];
        let caption = format!("{}. It had: {}. {}", paper.title, paper.bed, self.here());
        let title = format!("{} in numbers", paper.mark);
        Figure::new(Section::Papers, id(&title), title, caption).with_rows(head, rows)
    }

    /// Numbers of the paper's machine and load, and ours.
    fn scale(&self, paper: &Paper) -> Option<Figure> {
        let is_asked = |place: &String| place.starts_with(&paper.mark);
        if !self.run.experiment.papers.iter().any(is_asked) {
            return None;
        }
        let text = |number: Option<f64>| number.map_or("–".to_owned(), show);
        let rows = scale::rows(&Evidence::new(self.run), &paper.mark);
        let words = |row: &scale::ScaleRow| {
            let [paper, here, factor] = [Some(row.paper), row.here, row.factor()].map(text);
            vec![row.number.name().to_owned(), paper, here, factor, row.place.clone()]
        };
        let rows: Vec<Vec<String>> = rows.iter().map(words).collect();
        let head = ["number", "paper", "here", "factor", "where (systems.md)"];
        let caption = "What makes a machine and its load alike. A claim whose row names a number \
                       that is off by more than 1.5 times is not refuted here: the replica \
                       differs. Where there is no number of ours, it takes prices or a profile.";
        let title = format!("{} to scale", paper.mark);
        let figure = Figure::new(Section::Papers, id(&title), title, caption.to_owned());
        figure.with_rows(head, rows)
    }

    /// Our number for one of the paper's, or what is missing.
    fn ours(&self, one: &papers::Value) -> Result<f64, String> {
        let cell = Evidence::new(self.run).at(&one.arm, one.at)?;
        if !one.calls.is_empty() {
            return self.called(&cell, &one.calls).ok_or_else(|| "no profile".to_owned());
        }
        let found = self.analysis.cells.iter().find(|summary| summary.cell == cell);
        let number =
            found.and_then(|summary| quotient(summary, &one.of, one.per.as_deref(), one.times));
        let number = number.ok_or_else(|| one.of.clone())?;
        let Some(option) = &one.per_option else { return Ok(number) };
        let target = self.run.experiment.targets.iter().find(|target| target.name == cell.target);
        let set = target.and_then(|target| target.config.get(option)?.parse::<f64>().ok());
        let set = set.filter(|set| *set > 0.0).ok_or_else(|| option.clone())?;
        Ok(number / set)
    }

    /// Adds a claim and its verdict to a row.
    fn judged(&self, row: Option<&mut Vec<String>>, claim: &str) {
        let judged = self.claims.iter().find(|one| one.id == claim);
        let verdict = judged.map(|one| format!(" {}", one.verdict_words()));
        if let Some(row) = row {
            row.push(format!("{claim}{}", verdict.unwrap_or_default()));
        }
    }

    /// A table of the paper, each column followed by ours.
    fn printed(&self, paper: &Paper, printed: &Printed) -> Figure {
        let mut head = vec![String::new()];
        let mut rows: Vec<Vec<String>> =
            printed.rows.iter().map(|row| vec![row.name.clone()]).collect();
        for (column, label) in printed.labels.iter().enumerate() {
            head.push(label.clone());
            for (row, out) in printed.rows.iter().zip(&mut rows) {
                out.push(show(row.values.get(column).copied().unwrap_or(f64::NAN)));
            }
            let arm = printed.arms.get(column).filter(|arm| !arm.is_empty());
            let Some(ours) = arm.and_then(|arm| self.top(arm)) else { continue };
            head.push(format!("{} here", ours.cell.arm));
            for (row, out) in printed.rows.iter().zip(&mut rows) {
                out.push(self.number(&ours.cell.arm, row).map_or("–".to_owned(), show));
            }
        }
        if printed.rows.iter().any(|row| row.arm.is_some()) {
            head.push("here".to_owned());
            for (row, out) in printed.rows.iter().zip(&mut rows) {
                let number = row.arm.as_deref().and_then(|arm| self.number(arm, row));
                out.push(number.map_or("–".to_owned(), show));
            }
        }
        let (title, bed, breaking) = (&paper.title, &paper.bed, self.breaking(&paper.mark));
        let here = self.here();
        let caption = format!("{} {title}. It had: {bed}. {here}{breaking}", printed.note);
        let title = format!("{} {} and ours", paper.mark, printed.name);
        Figure::new(Section::Papers, id(&title), title, caption).with_table(head, rows)
    }

    /// Number of an arm for a row of a table.
    fn number(&self, arm: &str, row: &Row) -> Option<f64> {
        if row.peak {
            let peaks = Evidence::new(self.run).peaks(arm, row.of.as_deref()?).ok()?;
            return (!peaks.is_empty()).then(|| middle(&peaks) * row.times.unwrap_or(1.0));
        }
        let ours = self.top(arm)?;
        let of = row.of.as_deref();
        let measured = of.and_then(|of| quotient(ours, of, row.per.as_deref(), row.times));
        measured.or_else(|| self.category(ours, row.category.as_deref()?))
    }

    /// The share of a category in the profile of a cell, per cent.
    fn category(&self, one: &CellSummary, name: &str) -> Option<f64> {
        let mine = self.profiles.iter().rfind(|profile| profile.cell.arm == one.cell.arm)?;
        mine.named_share(name).map(|share| 100.0 * share)
    }

    /// The arm's cell at its highest rate.
    fn top(&self, arm: &str) -> Option<&CellSummary> {
        let cell = Evidence::new(self.run).top(arm).ok()?;
        self.analysis.cells.iter().find(|one| one.cell == cell)
    }
}

/// The rate that was asked for as a multiple of the calibrated one.
fn rate(one: &CellSummary, unit: f64) -> Option<f64> {
    let level = one.cell.levels.get(crate::experiment::RATE)?;
    let (rate, multiple) = crate::experiment::rate(level)?;
    Some(if multiple { rate } else { rate / unit })
}

/// A metric or counter, divided by another and scaled.
fn quotient(one: &CellSummary, of: &str, per: Option<&str>, times: Option<f64>) -> Option<f64> {
    let number = |name: &str| one.median(name).or_else(|| one.counters.get(name).copied());
    let below = per.map_or(Some(1.0), number).filter(|below| *below != 0.0)?;
    Some(number(of)? / below * times.unwrap_or(1.0))
}

/// A title as an identifier of the page.
fn id(title: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    format!("paper{}", title.chars().map(letter).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::{named, of_library, synthetic_at};
    use crate::experiment::Scale;
    use crate::record::Cell;
    use crate::report::tests::profiled::profiled;
    use std::collections::BTreeMap;

    /// A run of an experiment in which `symped` is as fast as the paper's, and sped is not.
    fn metrics(cell: &Cell) -> BTreeMap<String, f64> {
        let rate: f64 = cell.levels["workload.rate"].trim_end_matches('x').parse().unwrap();
        let peak = if cell.target.starts_with("sped") { 630.0 } else { 1_000.0 };
        named([
            ("offered_per_s", 1_000.0 * rate),
            ("good_per_s", peak * rate.min(1.0)),
            ("disk_wait_s", 0.33),
            ("window_s", 1.0),
            ("switches", 107.0),
        ])
    }

    #[test]
    fn the_papers_points_lie_beside_ours() {
        let run = of_library("eurosys07-fig4", Scale::Replica, &metrics);
        let report = Report::of(&run);
        let figures = figures(&report);
        let names: Vec<&str> = figures.iter().map(|figure| figure.id.as_str()).collect();
        let ids =
            ["figure-4-and-ours", "in-numbers", "to-scale"].map(|id| format!("paper-e--{id}"));
        assert_eq!(names, ids);
        let first = super::super::page::figures(&report).remove(0);
        assert_eq!((first.section, first.id.as_str()), (Section::Drawn, names[0]));
        let drawing = figures[0].drawing.as_ref().unwrap();
        let points = drawing["points"].as_array().unwrap();
        assert_eq!((points[0]["x"].as_f64(), points[0]["y"].as_f64()), (Some(1.4), Some(0.63)));
        // Ours are shares of the reference's peak at multiples of the calibrated rate.
        let sped = &drawing["lines"][0]["points"];
        assert_eq!(sped[2][0], 1.4);
        assert!((sped[2][1].as_f64().unwrap() - 0.63).abs() < 0.02, "{sped}");
        assert!(figures[0].caption.contains("3.06 GHz") && figures[0].caption.contains("Here:"));
        let rows = &figures[1].table.as_ref().unwrap().rows;
        let waiting = rows.iter().find(|row| row[1].contains("waiting")).unwrap();
        assert_eq!((waiting[2].as_str(), waiting[3].as_str()), ("33 (§5.3)", "33.0"));
        assert!(waiting[4].starts_with("E-1 "), "{waiting:?}");
        let text = super::super::page::markdown(&report).unwrap();
        assert!(text.contains("| 33 (§5.3) | 33.0 | E-1 "), "{text}");
        let gain = rows.iter().find(|row| row[1] == "symped-2 over sped, at 1.4x").unwrap();
        assert!(gain[2].starts_with("1.38") && gain[3].starts_with("1.5"), "{gain:?}");
    }

    #[test]
    fn connections_are_shares_of_those_allowed_at_every_scale() {
        for (scale, open) in [(Scale::Replica, 980.6), (Scale::Full, 2_615.0)] {
            let value = |cell: &Cell| {
                let mut all = metrics(cell);
                all.insert("connections_open".to_owned(), open);
                all
            };
            let run = of_library("eurosys07-fig8", scale, &value);
            let figures = figures(&Report::of(&run));
            let numbers = figures.iter().find(|figure| figure.title.ends_with("in numbers"));
            let rows = &numbers.unwrap().table.as_ref().unwrap().rows;
            let row = rows.iter().find(|row| row[1].contains("% of those allowed")).unwrap();
            assert_eq!((row[2].as_str(), row[3].as_str()), ("8.7 (§8: 2,615 of 30,000)", "8.72"));
        }
    }

    #[test]
    fn a_table_of_a_paper_gets_our_columns() {
        let run = of_library("systor12-fig4", Scale::Replica, &metrics);
        let figures = figures(&Report::of(&run));
        let printed = figures.iter().find(|figure| figure.title.contains("table 3")).unwrap();
        let table = printed.table.as_ref().unwrap();
        let column = table.head.iter().position(|head| head == "shared-nb here").unwrap();
        assert_eq!(table.head[column - 1], "s-symped nb part");
        let replies = table.rows.iter().find(|row| row[0] == "replies/s").unwrap();
        assert_eq!(replies[column - 1], "38,253");
        assert!(replies[column].replace(',', "").parse::<f64>().unwrap() > 500.0);
        let user = table.rows.iter().find(|row| row[0] == "user %").unwrap();
        assert_eq!(user[column], "–", "what we do not measure is not made up");
    }

    #[test]
    fn shares_of_a_profile_stand_beside_the_papers() {
        let shares = [("networking", 0.5), ("poll", 0.2), ("driver", 0.1), ("application", 0.05)];
        let (run, folder) = profiled("systor12-table2", &metrics, &|_| String::new(), &shares);
        let figures = figures(&Report::of(&run));
        let printed = figures.iter().find(|figure| figure.title.contains("table 2")).unwrap();
        let table = printed.table.as_ref().unwrap();
        let column = table.head.iter().position(|head| head == "n-copy here").unwrap();
        assert_eq!(table.head[column - 1], "symped nb N-copy");
        for (name, theirs, ours) in [
            ("vmlinux %", "81.7", "70.0"),
            ("e1000 %", "11.2", "10.0"),
            ("user %", "5.33", "5.00"),
            ("libc %", "0.90", "0"),
        ] {
            let row = table.rows.iter().find(|row| row[0] == name).unwrap();
            assert_eq!([row[column - 1].as_str(), row[column].as_str()], [theirs, ours], "{name}");
        }
        drop(folder);
    }

    #[test]
    fn shares_of_system_calls_stand_beside_those_of_gprof() {
        let stacks = |cell: &Cell| {
            let select = if cell.target == "accept1" { 30 } else { 10 };
            let rest = 100 - select;
            format!("r;__x64_sys_select_[k] {select}\nr;__x64_sys_recvfrom_[k] {rest}\n")
        };
        let (run, folder) = profiled("hpl01-fig4", &metrics, &stacks, &[]);
        let figures = figures(&Report::of(&run));
        let numbers = figures.iter().find(|figure| figure.title.ends_with("in numbers")).unwrap();
        let rows = &numbers.table.as_ref().unwrap().rows;
        for (what, theirs, ours) in [
            ("accept1: select, % of the time at 2.4x", "over 40 (§6.1, at 10,000)", "30.0"),
            ("accept1: select, % of the time at 0.7x", "13 (§6.1, at 3,000)", "30.0"),
            ("cm: read, % of the time at 1.67x", "17.5 (§6.1, at 7,000: 21 of 120 s)", "90.0"),
        ] {
            let row = rows.iter().find(|row| row[1] == what).unwrap();
            assert_eq!([row[2].as_str(), row[3].as_str()], [theirs, ours], "{what}");
        }
        drop(folder);
    }

    #[test]
    fn a_table_whose_rows_are_set_ups_gets_one_column() {
        let value = |cell: &Cell| {
            let mut all = metrics(cell);
            // Throughput falls beyond the peak.
            let over = cell.levels["workload.rate"] == "1.4x";
            let mbit = if cell.target == "sped" { 100.0 } else { 170.0 };
            all.insert("mbit_per_s".to_owned(), if over { mbit / 2.0 } else { mbit });
            all.insert("cycles_per_instruction".to_owned(), 2.2);
            all
        };
        let run = of_library("geneves-fig4", Scale::Replica, &value);
        let figures = figures(&Report::of(&run));
        let column = |table: &str| -> Vec<String> {
            let title = format!("[G] {table} and ours");
            let figure = figures.iter().find(|figure| figure.title == title).unwrap();
            let table = figure.table.as_ref().unwrap();
            assert_eq!(table.head.last().map(String::as_str), Some("here"));
            table.rows.iter().map(|row| row.last().unwrap().clone()).collect()
        };
        assert_eq!(column("table III")[..4], ["100", "170", "170", "–"]);
        assert_eq!(column("table II"), ["2.20", "2.20", "–", "–"]);
        let numbers = figures.iter().find(|figure| figure.title.ends_with("in numbers")).unwrap();
        let rows = &numbers.table.as_ref().unwrap().rows;
        let second = rows.iter().find(|row| row[1] == "symped over sped, peaks").unwrap();
        assert!(second[2].starts_with("1.7 (table III"), "{second:?}");
        assert_eq!(second[4], "", "it belongs to no claim");
    }

    #[test]
    fn a_run_of_ones_own_has_nothing_of_papers() {
        let text = crate::experiment::library::find("hpl01").unwrap();
        let text = text.replace("name = \"hpl01\"", "name = \"x\"");
        let lines = text.lines().filter(|line| !line.starts_with("papers ="));
        let text = lines.collect::<Vec<_>>().join("\n");
        let run = synthetic_at(&text, Scale::Quick, &metrics);
        assert!(figures(&Report::of(&run)).is_empty());
    }
}
