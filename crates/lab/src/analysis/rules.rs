//! The papers' rules of verification (\[E\] §3.4, \[S\] §5): what is kept of them for each trial,
//! and what the trials of a cell say together.

use crate::analysis::of;
use crate::experiment::plan::{Cell, cells};
use crate::journal::Run;
use crate::record::Record;
use regatta_load::engine::Ruling;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The papers that have such rules: their name in results, and their mark.
pub const PAPERS: [(&str, &str); 2] = [("eurosys07", "[E]"), ("systor12", "[S]")];

/// What one paper's rules say of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruled {
    /// One of [`PAPERS`].
    pub paper: String,
    /// The rules that it breaks; empty: the paper would have published it.
    pub broken: Vec<Broken>,
}

/// A rule that a trial breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// Its name, such as `E-2`.
    pub rule: String,
    /// In how many places: sizes of files, and clients.
    pub places: usize,
    /// The last of them in words. Sizes go up, so it is of the largest file, which fails first
    /// (\[E\] §3.4).
    pub last: String,
}

/// What is kept of the rulings of a load, whose breaches can be a thousand.
pub(crate) fn kept(rulings: &[Ruling]) -> Vec<Ruled> {
    rulings
        .iter()
        .map(|ruling| {
            let mut ruled = Ruled { paper: ruling.paper.clone(), broken: Vec::new() };
            for breach in &ruling.breaches {
                let (rule, words) = breach.split_once(": ").unwrap_or(("", breach));
                match ruled.broken.iter_mut().find(|broken| broken.rule == rule) {
                    Some(broken) => {
                        broken.places += 1;
                        words.clone_into(&mut broken.last);
                    }
                    None => {
                        let (rule, last) = (rule.to_owned(), words.to_owned());
                        ruled.broken.push(Broken { rule, places: 1, last });
                    }
                }
            }
            ruled
        })
        .collect()
}

/// What the trials of a cell say together of one paper's rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Together {
    /// Trials that were judged.
    pub(crate) trials: usize,
    /// Those that break a rule.
    pub(crate) broken: usize,
    /// A rule that is broken, and how.
    pub(crate) how: Option<Broken>,
}

impl Together {
    /// Of some trials.
    pub(crate) fn of<'a>(trials: impl Iterator<Item = &'a Record>, paper: &str) -> Self {
        let mut all = Self::default();
        let ruled = trials.filter_map(|one| one.rules.iter().find(|ruled| ruled.paper == paper));
        for ruled in ruled {
            all.trials += 1;
            if let Some(broken) = ruled.broken.first() {
                all.broken += 1;
                all.how.get_or_insert_with(|| broken.clone());
            }
        }
        all
    }

    /// Whether the cell breaks the rules: at least half of its trials do. One bad second of the
    /// machine breaks them for whoever was measured in it.
    pub(crate) fn breaks(&self) -> bool {
        self.broken > 0 && 2 * self.broken >= self.trials
    }
}

/// The factor that a line runs over.
const RATE: &str = "workload.rate";

/// An arm at one setting of all but the rate, and its cells from the lowest rate to the highest.
pub(crate) type Lines<'a> = Vec<(String, Vec<&'a Cell>)>;

/// The lines that cells make, in the cells' order.
pub(crate) fn lines<'a>(cells: impl Iterator<Item = &'a Cell>) -> Lines<'a> {
    let mut lines: Lines<'_> = Vec::new();
    let mut places: BTreeMap<Cell, usize> = BTreeMap::new();
    for cell in cells {
        let mut line = cell.clone();
        line.levels.remove(RATE);
        let next = places.len();
        let at = *places.entry(line.clone()).or_insert(next);
        if at == next {
            lines.push((line.name(), Vec::new()));
        }
        lines[at].1.push(cell);
    }
    let rate = |cell: &Cell| {
        let level = cell.levels.get(RATE).and_then(|level| crate::experiment::rate(level));
        level.map_or(0.0, |(rate, _)| rate)
    };
    for (_, cells) in &mut lines {
        cells.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    }
    lines
}

/// The lines of a run that break one paper's rules, and from which rate on.
pub(crate) fn breaking(run: &Run, paper: &str) -> Vec<String> {
    let all = cells(&run.experiment);
    let breaks = |cell: &&Cell| Together::of(of(run, cell), paper).breaks();
    let told = |(name, cells): (String, Vec<&Cell>)| {
        Some(format!("{name}{}", from(cells.into_iter().find(breaks)?)))
    };
    lines(all.iter()).into_iter().filter_map(told).collect()
}

/// ` from 1.4x on`, where rates vary.
pub(crate) fn from(cell: &Cell) -> String {
    cell.levels.get(RATE).map_or(String::new(), |rate| format!(" from {rate} on"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What a load says that breaks these rules of a paper, in these words.
    pub(crate) fn ruled(paper: &str, breaches: &[&str]) -> Vec<Ruled> {
        let breaches = breaches.iter().map(|breach| (*breach).to_owned()).collect();
        kept(&[Ruling { paper: paper.to_owned(), breaches }])
    }

    #[test]
    fn of_many_breaches_the_largest_files_is_kept() {
        let breaches = [
            "E-1: 12.00 % timed out, not 10.00 (12/100)",
            "E-2: 20.00 % timed out, not 14.00 (2/10, files of 102 bytes)",
            "E-2: 50.00 % timed out, not 14.00 (5/10, files of 921600 bytes)",
        ];
        let ruled = &ruled("eurosys07", &breaches)[0];
        let names: Vec<(&str, usize)> =
            ruled.broken.iter().map(|one| (one.rule.as_str(), one.places)).collect();
        assert_eq!(names, [("E-1", 1), ("E-2", 2)]);
        assert!(ruled.broken[1].last.ends_with("files of 921600 bytes)"), "{ruled:?}");
        assert!(kept(&[]).is_empty());
        let text = serde_json::to_string(ruled).unwrap();
        assert_eq!(serde_json::from_str::<Ruled>(&text).unwrap(), *ruled);
    }
}
