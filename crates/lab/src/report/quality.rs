//! Quality of service: failures by phase, fairness of clients and sizes; the papers' rules of
//! verification; scatter by layout; comparisons of replies; ratios to the baseline.

use super::Report;
use super::figure::{Figure, rate};
use super::gathered::Valid;
use super::spectrum::CLASSES;
use crate::analysis::rules::{self, Together};
use crate::analysis::{self, CellSummary};
use crate::experiment::{LAYOUT, words};
use crate::record::{AGAIN, Cell, PAPERS};
use crate::stats::{count, deviation, median};
use crate::units::{real, show};
use regatta_load::engine::{Fate, Sessions};
use serde_json::{Value, json};

/// The phases in which a request can time out.
const PHASES: [&str; 4] = ["connecting", "sending", "waiting", "receiving"];
/// A share of good answers of one size that is below that of all by more than this starves.
const STARVED: f64 = 0.05;

/// A line that verifies.
const VERIFIES: &str = "verifies";

/// The numbers that experiments compare most.
const METRICS: [&str; 3] = ["cpu_us_per_reply", "good_per_s", "p99_ms"];

impl Report<'_> {
    fn with_results(&self) -> impl Iterator<Item = (&CellSummary, &Valid)> {
        self.analysis.cells.iter().filter_map(|one| Some((one, self.valid(&one.cell)?)))
    }

    /// Failures by kind, time-outs by phase.
    pub(super) fn failures(&self) -> Option<Figure> {
        let most = self.with_results().map(|(one, _)| rate(&one.cell)).fold(0.0, f64::max);
        // The highest of many rates shows most.
        let cells: Vec<_> =
            self.with_results().filter(|(one, _)| rate(&one.cell) == most).collect();
        let failed = |fate: &Fate| !matches!(fate, Fate::Good | Fate::Unfinished | Fate::Timeout);
        let percent = |part: u64, valid: &Valid| 100.0 * real(part) / real(valid.offered.max(1));
        let mut parts = Vec::new();
        for (at, phase) in PHASES.into_iter().enumerate() {
            let values: Vec<f64> = cells.iter().map(|(_, v)| percent(v.timeouts[at], v)).collect();
            parts.push((format!("timed out {phase}"), values));
        }
        for fate in Fate::ALL.into_iter().filter(failed) {
            let values = cells.iter().map(|(_, v)| percent(v.fates.get(fate), v)).collect();
            parts.push((fate.name().replace('-', " "), values));
        }
        parts.retain(|(_, values)| values.iter().any(|value| *value > 0.0));
        let labels: Vec<String> = cells.iter().map(|(one, _)| one.cell.name()).collect();
        let worst = cells.iter().max_by_key(|(_, valid)| {
            let failed = valid.fates.errors();
            u128::from(failed) * 1_000_000_000 / u128::from(valid.offered.max(1))
        })?;
        let at = if self.has_rates() { " at the highest load" } else { "" };
        let name = worst.0.cell.name();
        let percent = format!("{:.1}", percent(worst.1.fates.errors(), worst.1));
        let parts: Vec<_> = parts
            .into_iter()
            .map(|(name, values)| json!({ "name": name, "values": values }))
            .collect();
        let rows = labels.len();
        (!parts.is_empty()).then(|| {
            Figure::of("failures", &[("at", &at), ("worst", &name), ("percent", &percent)])
                .drawn(json!({ "kind": "stack", "labels": labels, "parts": parts,
                    "x": "% of the offered requests" }))
                .high(rows + 2)
        })
    }

    /// Whether clients and sizes fare alike.
    pub(super) fn classes(&self) -> Option<Figure> {
        let there: Vec<usize> = (0..CLASSES.len())
            .filter(|at| {
                self.with_results().any(|(_, v)| v.classes.get(*at).is_some_and(|c| c.requests > 0))
            })
            .collect();
        let mut head = vec!["arm".to_owned(), "good %".to_owned()];
        head.extend(there.iter().map(|at| format!("good %, files {}", CLASSES[*at])));
        head.extend(["fairness of clients", "clients"].map(str::to_owned));
        let (mut rows, mut starved) = (Vec::new(), Vec::new());
        for (one, valid) in self.with_results() {
            let good = |good: u64, all: u64| (all > 0).then(|| real(good) / real(all));
            let all = good(valid.fates.get(Fate::Good), valid.offered);
            let text = |share: Option<f64>| {
                share.map_or("–".to_owned(), |share| format!("{:.2}", 100.0 * share))
            };
            let mut row = vec![one.cell.name(), text(all)];
            for at in &there {
                let class = &valid.classes[*at];
                let share = good(class.good, class.requests);
                if share.zip(all).is_some_and(|(share, all)| share < all - STARVED) {
                    starved.push(format!("files {} with {}", CLASSES[*at], one.cell.name()));
                }
                row.push(text(share));
            }
            row.push(if valid.clients > 1 {
                show(median(&valid.fairness))
            } else {
                "–".to_owned()
            });
            row.push(valid.clients.to_string());
            rows.push(row);
        }
        let seen = if starved.is_empty() {
            "No size fares worse than all together by more than 5 points.".to_owned()
        } else {
            format!("Worse than all together by more than 5 points: {}.", starved.join("; "))
        };
        Figure::of("fairness", &[("seen", &seen)]).with_rows(head, rows)
    }

    pub(super) fn sessions(&self) -> Option<Figure> {
        let row = |(one, valid): (&CellSummary, &Valid)| {
            let Sessions { arrived, done, failed, cut, lifetime, failtime, .. } =
                valid.sessions.as_ref()?;
            let seconds = |ns: u64, there: u64| {
                if there == 0 { "–".to_owned() } else { show(real(ns) / 1e9) }
            };
            let ended = (done + failed).max(1);
            Some(vec![
                one.cell.name(),
                arrived.to_string(),
                format!("{:.2}", 100.0 * real(*done) / real(ended)),
                failed.to_string(),
                cut.to_string(),
                seconds(lifetime.quantile(0.5), lifetime.count()),
                seconds(lifetime.quantile(0.95), lifetime.count()),
                seconds(failtime.quantile(0.5), failtime.count()),
            ])
        };
        let rows: Vec<Vec<String>> = self.with_results().filter_map(row).collect();
        let head = [
            "arm",
            "sessions",
            "done %",
            "failed",
            "cut off by the end",
            "lifetime s, median",
            "p95",
            "failed after s, median",
        ];
        Figure::of("sessions", &[]).with_rows(head, rows)
    }

    pub(super) fn session_lengths(&self) -> Option<Figure> {
        let (cells, at) = self.calm();
        let line = |one: &&CellSummary| {
            let lengths = &self.valid(&one.cell)?.sessions.as_ref()?.lengths;
            let all: u64 = lengths.iter().sum();
            let mut so_far = 0;
            let mut points = Vec::new();
            for (length, sessions) in lengths.iter().enumerate().filter(|_| all > 0) {
                so_far += sessions;
                let share = 100.0 * real(so_far) / real(all);
                points.push([count(length), share, share, share]);
            }
            (points.len() > 1).then(|| json!({ "arm": self.arm(&one.cell), "points": points }))
        };
        let lines: Vec<_> = cells.iter().filter_map(line).collect();
        let figure = Figure::of("lengths", &[("at", &at)]);
        (!lines.is_empty()).then(|| {
            figure.drawn(json!({ "kind": "curves", "lines": lines, "x": "replies",
                "y": "% of sessions" }))
        })
    }

    /// Trials of a cell judged by one paper's rules.
    fn ruled(&self, cell: &Cell, paper: &str) -> Together {
        Together::of(analysis::of(self.run, cell), paper)
    }

    /// The marks of the papers whose rules a cell breaks.
    pub(super) fn broken(&self, cell: &Cell) -> Vec<&'static str> {
        let broken = PAPERS.iter().filter(|(paper, _)| self.ruled(cell, paper).breaks());
        broken.map(|(_, mark)| *mark).collect()
    }

    /// Lines that break the rules of the paper with this mark, and from which rate on, as the end
    /// of a caption. Empty if none does, or if the paper has none.
    pub(super) fn breaking(&self, mark: &str) -> String {
        let Some((paper, _)) = PAPERS.iter().find(|(_, known)| *known == mark) else {
            return String::new();
        };
        let breaking = rules::breaking(self.run, paper);
        if breaking.is_empty() {
            return String::new();
        }
        format!(" By its own rules the paper would not have published: {}.", breaking.join("; "))
    }

    pub(super) fn rules(&self) -> Option<Figure> {
        let mut rows = Vec::new();
        let mut kept = PAPERS.map(|_| 0);
        let measured = self.analysis.cells.iter().filter(|one| one.trials > 0);
        for (name, cells) in rules::lines(measured.map(|one| &one.cell)) {
            let mut row = vec![name];
            for ((paper, _), kept) in PAPERS.iter().zip(&mut kept) {
                let words = self.line_words(&cells, paper);
                *kept += usize::from(words.as_deref() == Some(VERIFIES));
                row.push(words.unwrap_or_else(|| "–".to_owned()));
            }
            if row[1..].iter().any(|words| words != "–") {
                rows.push(row);
            }
        }
        let told: Vec<String> = PAPERS
            .iter()
            .zip(kept)
            .map(|((_, mark), kept)| format!("{kept} of {} lines verify by {mark}", rows.len()))
            .collect();
        let told = told.join(", ");
        let mut head = vec!["line".to_owned()];
        head.extend(PAPERS.iter().map(|(_, mark)| format!("by {mark}")));
        Figure::of("rules", &[("told", &told)]).with_rows(head, rows)
    }

    /// The verdict on a line; None where nothing is known of it.
    fn line_words(&self, cells: &[&Cell], paper: &str) -> Option<String> {
        let ruled: Vec<(&Cell, Together)> =
            cells.iter().map(|cell| (*cell, self.ruled(cell, paper))).collect();
        if ruled.iter().all(|(_, together)| together.trials == 0) {
            return None;
        }
        let breaks = |pair: &&(&Cell, Together)| pair.1.breaks();
        let Some((cell, first)) = ruled.iter().find(breaks) else {
            return Some(VERIFIES.to_owned());
        };
        let how = first.how.as_ref().map_or(String::new(), |how| {
            let more = how.places.saturating_sub(1);
            let more =
                if more > 0 { format!(", and in {more} places more") } else { String::new() };
            format!("{}: {}{more}", how.rule, how.last)
        });
        let (broken, trials) = (first.broken, first.trials);
        Some(format!("breaks{} ({broken} of {trials} trials), {how}", rules::from(cell)))
    }

    pub(super) fn layouts(&self) -> Option<Figure> {
        self.run.experiment.factors.iter().find(|factor| factor.path == LAYOUT)?;
        let mut head = vec!["arm".to_owned(), "trials".to_owned()];
        head.extend(METRICS.map(|metric| format!("{metric}, ±%")));
        let rows = self.analysis.cells.iter().map(|one| {
            let of = |metric: &str| -> Vec<f64> {
                let mine = self.run.valid().filter(|record| record.cell == one.cell);
                let values = mine.filter_map(|record| record.metrics.get(metric).copied());
                values.filter(|value| *value > 0.0).map(f64::ln).collect()
            };
            let mut row = vec![one.cell.name(), one.trials.to_string()];
            row.extend(METRICS.map(|metric| match 100.0 * deviation(&of(metric)) {
                scatter if scatter.is_finite() => format!("{scatter:.1}"),
                _ => "–".to_owned(),
            }));
            row
        });
        let rows = rows.collect();
        Some(Figure::of("layouts", &[]).with_table(head, rows))
    }

    pub(super) fn verified(&self) -> Option<Figure> {
        let head = "arm, replies, bodies compared, wrong bytes, wrong length, stale, malformed, \
                    file changed, 2xx, 3xx, 4xx, 5xx, GB received";
        let (mut rows, mut wrong) = (Vec::new(), 0);
        for one in &self.analysis.cells {
            let Some(gathered) = self.gathered.get(&one.cell) else { continue };
            let checked = &gathered.checked;
            wrong += checked.fates.sum(Fate::is_lie);
            let replies: u64 = checked.statuses.iter().sum();
            let counts = [
                replies,
                checked.verified,
                checked.fates.get(Fate::WrongBytes),
                checked.fates.get(Fate::WrongLength),
                checked.fates.get(Fate::Stale),
                checked.fates.get(Fate::Malformed),
                checked.changed,
                checked.statuses[2],
                checked.statuses[3],
                checked.statuses[4],
                checked.statuses[5],
            ];
            let mut row = vec![one.cell.name()];
            row.extend(counts.iter().map(|number| show(real(*number))));
            row.push(show(real(checked.bytes) / 1e9));
            rows.push(row);
        }
        let seen = match wrong {
            0 => "Not one reply was wrong.".to_owned(),
            wrong => format!("{wrong} REPLIES WERE WRONG: no number of their arms means anything."),
        };
        Figure::of("verified", &[("seen", &seen)]).with_rows(head.split(", "), rows)
    }

    pub(super) fn forest(&self) -> Option<Figure> {
        let mut effects: Vec<_> = self.analysis.effects.iter().collect();
        // The same program twice first: it says how far the others can be trusted.
        effects.sort_by_key(|row| !row.cell.arm.ends_with(AGAIN));
        let rows: Vec<Value> = effects
            .iter()
            .filter_map(|row| {
                let (interval, arm) = (row.effect.interval?, self.arm(&row.cell));
                let (name, ratio) = (row.cell.name(), row.effect.ratio);
                Some(json!([name, ratio, interval.low, interval.high, arm]))
            })
            .collect();
        let drawing = json!({ "mark": 1.0,
            "x": format!("ratio of {} to {}", words(&self.analysis.metric),
                self.run.experiment.baseline) });
        let baseline = &self.run.experiment.baseline;
        (!rows.is_empty())
            .then(|| Figure::of("forest", &[("baseline", baseline)]).forest(rows, drawing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::{named, synthetic};
    use crate::experiment::RATE;
    use crate::record::tests::ruled;

    const TEXT: &str = r#"
experiment = { name = "made-up", question = "?", expect = "!" }
targets = { a = {}, b = {} }
factors."workload.rate" = ["2x", "0.5x", "1x"]
workload = { root = ".", loop = "open" }
calibrate = {}
measure = { blocks = 6, again = false }
"#;
    const LARGE: &str = "E-2: 50.00 % timed out, not 2.04 (5/10, files of 921600 bytes)";

    #[test]
    fn each_line_has_a_verdict_and_one_odd_trial_is_none() {
        let mut run = synthetic(TEXT, &|_| named([("good_per_s", 1_000.0)]));
        assert!(Report::of(&run).rules().is_none(), "older runs did not keep them");
        for record in &mut run.records {
            let rate = record.cell.levels[RATE].as_str();
            let breaches: &[&str] = match (record.cell.arm.as_str(), rate, record.block) {
                ("a", "2x", 0..4) | ("b", "1x", 3) => &[LARGE],
                _ => &[],
            };
            record.rules = ruled("eurosys07", breaches);
        }
        let report = Report::of(&run);
        let figure = report.rules().unwrap();
        let table = figure.table.as_ref().unwrap();
        assert_eq!(table.head, ["line", "by [E]", "by [S]"]);
        assert_eq!(table.rows[1], ["b", "verifies", "–"]);
        let words = &table.rows[0][1];
        assert!(words.starts_with("breaks from 2x on (4 of 6 trials), E-2: 50.00 %"), "{words}");
        assert!(words.contains("921600"), "the size that fails is named: {words}");
        assert!(figure.caption.starts_with("1 of 2 lines verify by [E], 0 of 2"), "{figure:?}");
        let cells: Vec<Vec<&str>> =
            report.analysis.cells.iter().map(|one| report.broken(&one.cell)).collect();
        assert_eq!(cells.iter().flatten().count(), 1, "{cells:?}");
        assert!(report.breaking("[E]").ends_with(": a from 2x on."), "{}", report.breaking("[E]"));
        assert_eq!(report.breaking("[S]") + &report.breaking("[H]"), "");
    }
}

#[cfg(test)]
mod layouts_tests {
    use super::*;
    use crate::analysis::tests::{named, synthetic};
    use crate::record::Cell;
    use std::collections::BTreeMap;

    const TEXT: &str = r#"
experiment = { name = "layouts", question = "?", expect = "!" }
targets.a = {}
factors."machine.layout" = ["apart", "together"]
workload = { root = ".", loop = "closed", connections = 1 }
machine = { server_cpus = "0", client_cpus = "1" }
measure = { metric = "cpu_us_per_reply", blocks = 6 }
"#;

    fn metrics(_: &Cell) -> BTreeMap<String, f64> {
        named([("cpu_us_per_reply", 4.0)])
    }

    #[test]
    fn each_layouts_scatter_is_told() {
        let mut run = synthetic(TEXT, &metrics);
        // Apart, every other block costs e^0.1 times as much; ±0.1 around their mean is 0.055.
        for record in &mut run.records {
            if record.cell.levels[LAYOUT] == "apart" && record.block % 2 == 0 {
                record.metrics.insert("cpu_us_per_reply".to_owned(), 4.0 * 0.1_f64.exp());
            }
        }
        let figure = Report::of(&run).layouts().expect("there is a factor");
        let rows = figure.table.unwrap().rows;
        let told = |layout: &str| {
            let row = rows.iter().find(|row| row[0].contains(layout)).unwrap();
            row[2..].to_vec()
        };
        assert_eq!(told("apart"), ["5.5", "–", "–"]);
        assert_eq!(told("together"), ["0.0", "–", "–"]);
        let text = TEXT.replace("factors.\"machine.layout\" = [\"apart\", \"together\"]", "");
        assert!(Report::of(&synthetic(&text, &metrics)).layouts().is_none());
    }
}
