//! Costs of a reply: processor time and instructions; profiles by the categories of [E] table 1
//! and, over the load, by system call ([H] figures 4, 5, 7 and 8); what the machine counted.

use super::Report;
use super::figure::{self, Figure, FigureRow, rate};
use crate::analysis::CellSummary;
use crate::experiment::RATE;
use crate::profile::categories::{Category, PLACES, Part, shares};
use crate::profile::{self, Profile, Source};
use crate::record::Cell;
use crate::units::show;
use serde_json::{Value, json};

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    let profiles = &report.profiles;
    let mut figures = Vec::new();
    if !profiles.is_empty() {
        figures.push(report.bars(profiles));
        figures.push(report.shares(profiles));
    }
    figures.extend(report.machine_numbers());
    figures
}

/// The most columns that can be read next to each other.
const COLUMNS_MAX: usize = 24;

/// The shares of a profile's samples by place; none without stacks.
pub(super) type Shares = Vec<(&'static str, f64)>;

impl Report<'_> {
    /// Median over the trials of a profiled cell that count.
    fn median(&self, profile: &Profile, metric: &str) -> Option<f64> {
        self.analysis.cells.iter().find(|one| one.cell == profile.cell)?.median(metric)
    }

    /// Microseconds of a reply by category. Shares are of the profile; the time that they are of is
    /// of the trials that count, which perf did not disturb.
    fn bars(&self, profiles: &[Profile]) -> Figure {
        let time = |profile: &Profile| {
            let own = profile.metrics.get("cpu_us_per_reply").copied();
            self.median(profile, "cpu_us_per_reply").or(own).unwrap_or_default()
        };
        let labels: Vec<String> = profiles.iter().map(|one| label(one, profiles)).collect();
        let part = |name: &str, share: &dyn Fn(&Profile) -> f64| {
            let values: Vec<f64> = profiles.iter().map(|one| time(one) * share(one)).collect();
            (values.iter().any(|value| *value > 0.0))
                .then(|| json!({ "name": name, "values": values }))
        };
        let mut parts: Vec<_> = Category::ALL
            .into_iter()
            .filter_map(|category| {
                let share = |one: &Profile| match one.source {
                    Source::Perf => one.share(category),
                    Source::Counters => 0.0,
                };
                part(category.title(), &share)
            })
            .collect();
        // These sources have no perf.
        for (name, title) in [("user", "user (no perf)"), ("kernel", "kernel (no perf)")] {
            let share = |one: &Profile| match one.source {
                Source::Perf => 0.0,
                Source::Counters => one.categories.get(name).copied().unwrap_or_default(),
            };
            parts.extend(part(title, &share));
        }
        let drawing = json!({ "kind": "stack", "x": "µs of processor time per reply",
            "labels": labels, "parts": parts });
        let mut figure = Figure::of("profile", &[]).drawn(drawing).high(profiles.len() + 2);
        figure.links = self.graphs(profiles);
        figure
    }

    fn graphs(&self, profiles: &[Profile]) -> Vec<(String, String)> {
        let flames = profiles.iter().filter_map(|one| {
            Some((format!("flame graph of {}", label(one, profiles)), one.flame.clone()?))
        });
        let mut links: Vec<(String, String)> = flames.collect();
        let baseline = &self.run.experiment.baseline;
        for other in profiles.iter().filter(|one| one.cell.arm != *baseline) {
            let path = profile::difference_path(baseline, &other.cell.arm);
            let link = (format!("{} compared with {baseline}", other.cell.arm), path);
            if !links.contains(&link) && self.run.directory.join(&link.1).exists() {
                links.push(link);
            }
        }
        links
    }

    /// The table of [E], in its order.
    fn shares(&self, profiles: &[Profile]) -> Figure {
        let mut rows = Vec::new();
        let row = |name: String, of: &dyn Fn(&Profile) -> String| {
            let mut row = vec![name];
            row.extend(profiles.iter().map(of));
            row
        };
        let per_cent = |share: f64| format!("{:.2}", 100.0 * share);
        let sampled = |one: &Profile, share: f64| match one.source {
            Source::Perf => per_cent(share),
            Source::Counters => show(f64::NAN),
        };
        for (part, title, counted) in [
            (Part::Kernel, "kernel %", Some("kernel")),
            (Part::Driver, "driver: loopback, soft interrupts %", None),
            (Part::User, "user space %", Some("user")),
            (Part::Libc, "libc %", None),
            (Part::Other, "other %", None),
        ] {
            let of_part = || Category::ALL.into_iter().filter(move |one| one.part() == part);
            rows.push(row(title.to_owned(), &|one| match (one.source, counted) {
                (Source::Perf, _) => per_cent(of_part().map(|category| one.share(category)).sum()),
                (Source::Counters, Some(name)) => {
                    one.categories.get(name).map_or("–".to_owned(), |share| per_cent(*share))
                }
                (Source::Counters, None) => "–".to_owned(),
            }));
            if of_part().count() > 1 {
                rows.extend(of_part().map(|category| {
                    let title = format!("– {}", category.title());
                    row(title, &|one| sampled(one, one.share(category)))
                }));
            }
        }
        let number = |value: Option<f64>| value.map_or("–".to_owned(), show);
        rows.push(row("of unknown name or category %".to_owned(), &|one| {
            sampled(one, one.unknown_share)
        }));
        rows.push(row("samples".to_owned(), &|one| one.samples.to_string()));
        rows.push(row("all system calls per reply".to_owned(), &|one| {
            number(one.system_calls_per_reply)
        }));
        rows.push(row("cycles per instruction".to_owned(), &|one| {
            number(self.median(one, "cycles_per_instruction").or(one.cycles_per_instruction))
        }));
        let mut head = vec!["share of samples".to_owned()];
        head.extend(profiles.iter().map(|one| label(one, profiles)));
        Figure::of("profile-table", &[("notes", &notes(profiles))]).with_table(head, rows)
    }

    /// A column for each cell that has a trial.
    fn machine_numbers(&self) -> Option<Figure> {
        let cells: Vec<_> = self.analysis.cells.iter().filter(|one| one.trials > 0).collect();
        let mut head = vec!["median of the trials".to_owned()];
        head.extend(cells.iter().map(|one| one.cell.name()));
        let rows: Vec<Vec<String>> = figure::columns(&self.analysis, "vmstat")
            .into_iter()
            .map(|(metric, title, factor)| {
                let value = |median: f64| show(median * factor);
                let mut row = vec![title.clone()];
                let medians = cells.iter().map(|one| one.median(metric));
                row.extend(medians.map(|median| median.map_or("–".to_owned(), value)));
                row
            })
            .collect();
        // The environment of hundreds of cells is read in report.json.
        if rows.is_empty() || cells.len() > COLUMNS_MAX {
            return None;
        }
        Some(Figure::of("vmstat", &[]).with_table(head, rows))
    }

    /// Cost of a reply in one currency: the program's part and the kernel's.
    fn costs(&self, cost: &FigureRow) -> Option<Figure> {
        let row = |one: &CellSummary| {
            let of = |at: usize| Some(cost.factor? * one.median(cost.parts.get(at)?)?);
            Some((one.cell.name(), of(0)?, of(1)?))
        };
        let (cells, at) = self.calm();
        let rows: Vec<(String, f64, f64)> = cells.into_iter().filter_map(row).collect();
        let sum = |row: &&(String, f64, f64)| row.1 + row.2;
        let least = rows.iter().min_by(|a, b| sum(a).total_cmp(&sum(b)))?;
        let most = rows.iter().max_by(|a, b| sum(a).total_cmp(&sum(b)))?;
        let told = |row: &(String, f64, f64)| {
            let kernel = 100.0 * row.2 / sum(&row).max(f64::MIN_POSITIVE);
            format!("{} {} ({kernel:.0} % of it kernel)", row.0, show(sum(&row)))
        };
        let drawing = json!({ "kind": "stack", "x": cost.unit,
            "labels": rows.iter().map(|row| &row.0).collect::<Vec<_>>(),
            "parts": [
                { "name": "user", "values": rows.iter().map(|row| row.1).collect::<Vec<_>>() },
                { "name": "kernel", "values": rows.iter().map(|row| row.2).collect::<Vec<_>>() },
            ] });
        let seen = format!(
            "Least{at}: {}; most: {}. Medians over the trials; their intervals are in the table of \
             numbers.",
            told(least),
            told(most)
        );
        let figure = cost.figure(&[("seen", &seen)]);
        Some(figure.drawn(drawing).high(rows.len() + 1))
    }

    /// The shares of each profile by system call, in the order of the profiles.
    fn by_calls(&self) -> &[Shares] {
        self.calls.get_or_init(|| {
            let stacks = |profile: &Profile| profile.stacks(&self.run.directory);
            let of = |profile| stacks(profile).map_or_else(Vec::new, |stacks| shares(&stacks));
            self.profiles.iter().map(of).collect()
        })
    }

    fn by_call(&self, (at, arm): (usize, &str), profiles: &[(usize, &Profile)]) -> Option<Figure> {
        let all = self.by_calls();
        let (mut labels, mut columns) = (Vec::new(), Vec::new());
        for (which, profile) in profiles {
            if !all[*which].is_empty() {
                labels.push(rate_label(&profile.cell));
                columns.push(&all[*which]);
            }
        }
        let part = |(row, name): (usize, &str)| {
            let values: Vec<f64> = columns.iter().map(|column| 100.0 * column[row].1).collect();
            let is_there = values.iter().any(|value| *value > 0.0);
            is_there.then(|| json!({ "name": name, "values": values }))
        };
        let parts: Vec<Value> = PLACES.into_iter().enumerate().filter_map(part).collect();
        let drawing = json!({ "kind": "stack", "x": "% of the samples", "labels": labels,
            "parts": parts });
        let figure = Figure::of("calls-{number}", &[("number", &at), ("arm", &arm)]);
        (labels.len() > 1).then(|| figure.drawn(drawing).high(labels.len() + 2))
    }

    /// The share of a cell's profile that lies in some system calls (of [`PLACES`]), per cent.
    pub(super) fn called(&self, cell: &Cell, calls: &[String]) -> Option<f64> {
        let found = &self.by_calls()[self.profiles.iter().rposition(|one| one.cell == *cell)?];
        let named = found.iter().filter(|(name, _)| calls.iter().any(|call| call == name));
        (!found.is_empty()).then(|| 100.0 * named.map(|(_, share)| share).sum::<f64>())
    }
}

/// Name of a profile: its arm, with the levels where there are others of that arm.
fn label(one: &Profile, all: &[Profile]) -> String {
    let same = all.iter().filter(|other| other.cell.arm == one.cell.arm).count();
    let levels = if same > 1 { crate::record::levels(&one.cell) } else { String::new() };
    format!("{} {levels}", one.cell.arm).trim_end().to_owned()
}

/// Remarks on profiles, each once.
fn notes(profiles: &[Profile]) -> String {
    let mut notes: Vec<String> = Vec::new();
    let missing = profiles.iter().filter(|one| one.source == Source::Counters);
    let missing: Vec<&str> = missing.map(|one| one.cell.arm.as_str()).collect();
    if !missing.is_empty() {
        notes.push(format!("Without perf, from /proc alone: {}.", missing.join(", ")));
    }
    for one in profiles {
        for note in &one.notes {
            let note = format!("{}: {note}.", one.cell.arm);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes.join(" ")
}

pub(super) fn costs(report: &Report<'_>) -> Vec<Figure> {
    let rows = FigureRow::all().iter().filter(|row| !row.parts.is_empty());
    rows.filter_map(|row| report.costs(row)).collect()
}

/// A figure for each arm that was profiled at several rates.
pub(super) fn calls(report: &Report<'_>) -> Vec<Figure> {
    let mut calls = Vec::new();
    for (at, arm) in report.arms.iter().enumerate() {
        let mut of_arm: Vec<(usize, &Profile)> = report.profiles.iter().enumerate().collect();
        of_arm.retain(|(_, one)| report.arm(&one.cell) == at);
        of_arm.sort_by(|(_, a), (_, b)| rate(&a.cell).total_cmp(&rate(&b.cell)));
        let several = of_arm.windows(2).any(|two| rate(&two[0].1.cell) < rate(&two[1].1.cell));
        if several && let Some(figure) = report.by_call((at, &arm.name), &of_arm) {
            calls.push(figure);
        }
    }
    calls
}

/// The rate of a cell, with the levels of other factors where there are any.
fn rate_label(cell: &Cell) -> String {
    match cell.levels.get(RATE) {
        Some(rate) if cell.levels.len() == 1 => rate.clone(),
        _ => crate::record::levels(cell),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::profiled::profiled;
    use std::collections::BTreeMap;

    fn metrics(_: &Cell) -> BTreeMap<String, f64> {
        [("good_per_s".to_owned(), 1_000.0)].into()
    }

    /// Stacks in which select takes more and more of the time of accept1, and of no other arm.
    fn stacks(cell: &Cell) -> String {
        let more = if cell.target == "accept1" { 20.0 * rate(cell) } else { 10.0 };
        format!(
            "regatta;do_syscall_64_[k];__x64_sys_pselect6_[k] {more:.0}\n\
             regatta;do_syscall_64_[k];__x64_sys_sendto_[k] {:.0}\n",
            100.0 - more
        )
    }

    #[test]
    fn each_arm_has_its_time_by_call_over_the_rates() {
        let (run, folder) = profiled("hpl01-fig4", &metrics, &stacks, &[]);
        let report = Report::of(&run);
        let calls = calls(&report);
        assert_eq!(calls.len(), run.experiment.targets.len());
        let of = |arm: &str| {
            let title = format!("Where the time of {arm} goes");
            let figure = calls.iter().find(|figure| figure.title.starts_with(&title)).unwrap();
            figure.drawing.clone().unwrap()
        };
        let drawing = of("accept1");
        assert_eq!(drawing["labels"], json!(["0.7x", "0.8x", "1.2x", "1.67x", "2.4x"]));
        let names = [&drawing["parts"][0]["name"], &drawing["parts"][1]["name"]];
        assert_eq!(names, ["select", "write"]);
        assert_eq!(drawing["parts"].as_array().unwrap().len(), 2, "what has no sample is left out");
        let select = |drawing: &Value| -> Vec<i64> {
            let values = drawing["parts"][0]["values"].as_array().unwrap().iter();
            values.map(|value| format!("{:.0}", value.as_f64().unwrap()).parse().unwrap()).collect()
        };
        assert_eq!(select(&drawing), [14, 16, 24, 33, 48]);
        assert_eq!(select(&of("acceptinf")), [10; 5]);
        let shared = |calls: &[&str]| {
            let calls: Vec<String> = calls.iter().map(|call| (*call).to_owned()).collect();
            let cell = run
                .records
                .iter()
                .find(|record| record.cell.arm == "accept1" && record.cell.levels[RATE] == "2.4x");
            report.called(&cell.unwrap().cell, &calls).unwrap()
        };
        assert!((shared(&["select"]) - 48.0).abs() < 1e-9);
        drop(folder);
        let again = shared(&["read", "write", "open", "close"]);
        assert!((again - 52.0).abs() < 1e-9, "each profile is read once: {again}");
    }

    #[test]
    fn one_rate_is_no_curve_and_without_stacks_there_is_nothing() {
        let (run, folder) = profiled("systor12-table3", &metrics, &stacks, &[]);
        assert!(calls(&Report::of(&run)).is_empty());
        drop(folder);
        let (run, folder) = profiled("hpl01-fig4", &metrics, &|_| String::new(), &[]);
        assert!(calls(&Report::of(&run)).is_empty());
        drop(folder);
    }
}
