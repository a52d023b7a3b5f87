//! The papers' rules of verification: which lines a paper would have published.

use super::Report;
use super::figure::Figure;
use crate::analysis;
use crate::analysis::rules::{self, Together};
use crate::record::{Cell, PAPERS};

impl Report<'_> {
    /// What a cell's trials say together of one paper's rules.
    fn ruled(&self, cell: &Cell, paper: &str) -> Together {
        Together::of(analysis::of(self.run, cell), paper)
    }

    /// The marks of the papers whose rules a cell breaks.
    pub(super) fn broken(&self, cell: &Cell) -> Vec<&'static str> {
        let broken = PAPERS.iter().filter(|(paper, _)| self.ruled(cell, paper).breaks());
        broken.map(|(_, mark)| *mark).collect()
    }

    /// Which lines break the rules of the paper with this mark, from which rate on, as the end of a
    /// caption; empty where none does, or the paper has none.
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
}

/// A line that verifies.
const VERIFIES: &str = "verifies";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::{named, synthetic};
    use crate::experiment::RATE;
    use crate::record::ruled::tests::ruled;

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
