//! What a trial measures: one arm at one setting.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is added to the baseline's name in the arm that runs it a second time.
pub const AGAIN: &str = " (again)";

/// One arm at one setting of the factors.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    /// The target's name, for the second baseline with [`AGAIN`].
    pub arm: String,
    /// The target's name.
    pub target: String,
    /// Each factor that concerns it: path to level.
    pub levels: BTreeMap<String, String>,
}

impl Cell {
    /// Its name for people: the arm and its levels.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.arm, levels(self)).trim_end().to_owned()
    }

    /// Its levels that concern everybody.
    pub(crate) fn setting(&self) -> Vec<(&String, &String)> {
        self.levels.iter().filter(|(path, _)| target_option(path).is_none()).collect()
    }

    /// The options of its target that its levels set.
    pub(crate) fn options(&self) -> BTreeMap<String, String> {
        let of = |(path, level): (&String, &String)| {
            let (name, key) = target_option(path)?;
            (name == self.target).then(|| (key.to_owned(), level.clone()))
        };
        self.levels.iter().filter_map(of).collect()
    }
}

/// The levels of a cell in words.
pub(crate) fn levels(cell: &Cell) -> String {
    let word = |(path, level): (&String, &String)| {
        let name = path.rsplit(['.']).next().unwrap_or(path).to_owned();
        format!("{name}={level}")
    };
    cell.levels.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// The target and the option that the path of a factor names; None if it is no target's.
pub(crate) fn target_option(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix("targets.")?.split_once(".config.")
}
