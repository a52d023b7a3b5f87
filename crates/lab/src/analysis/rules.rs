//! The papers' rules of verification (\[E\] §3.4, \[S\] §5): what the
//! trials of a cell say together.

use crate::analysis::of;
use crate::experiment::RATE;
use crate::experiment::plan::cells;
use crate::journal::Run;
use crate::record::{Broken, Cell, Record};
use std::collections::BTreeMap;

/// Trials of a cell judged by one paper's rules, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Together {
    pub(crate) trials: usize,
    pub(crate) broken: usize,
    pub(crate) how: Option<Broken>,
}

impl Together {
    /// Adds up `trials` judged by the rules of `paper`.
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
    /// machine breaks them for the arm that was measured in it.
    pub(crate) fn breaks(&self) -> bool {
        self.broken > 0 && 2 * self.broken >= self.trials
    }
}

/// An arm at one setting of all but the rate, and its cells from the lowest rate to the highest.
pub(crate) type Lines<'a> = Vec<(String, Vec<&'a Cell>)>;

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
