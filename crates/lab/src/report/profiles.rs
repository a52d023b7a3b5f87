//! Where the processor time goes, by the categories of [E] table 1, and what a machine shows of it.

use super::Report;
use super::figure::Figure;
use super::tables;
use crate::profile::categories::{Category, Part};
use crate::profile::{self, Profile, Source};
use crate::units::show;
use serde_json::json;

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

impl Report<'_> {
    /// What the trials that count say of a profiled cell.
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
        // Where there was no perf.
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

    /// The flame graphs beside the page.
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
            Source::Counters => "–".to_owned(),
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
        let rows: Vec<Vec<String>> = tables::columns(&self.analysis, "vmstat")
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
}

/// What a profile is called: its arm, with the levels where there are others of that arm.
fn label(one: &Profile, all: &[Profile]) -> String {
    let same = all.iter().filter(|other| other.cell.arm == one.cell.arm).count();
    let levels = if same > 1 { crate::record::levels(&one.cell) } else { String::new() };
    format!("{} {levels}", one.cell.arm).trim_end().to_owned()
}

/// Columns that can still be read beside each other.
const COLUMNS_MAX: usize = 24;

/// What is to be known of profiles, each once.
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
