//! What an environment needs and a machine does not have.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What stands in for the simulated disk where FUSE or loop devices are not allowed.
pub(crate) const STAND_IN: &str = "instead regatta's servers simulate one in their own process, \
                                   and what is measured is labelled simulated-in-process";

/// Something that a specification needs and this machine does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lack {
    /// Which part of the environment cannot be made.
    pub part: String,
    /// What it needs.
    pub needs: String,
    /// What can be done instead; empty: nothing.
    pub instead: String,
}

impl Lack {
    pub(crate) fn of(part: &str, needs: &str, instead: &str) -> Self {
        let [part, needs, instead] = [part, needs, instead].map(str::to_owned);
        Self { part, needs, instead }
    }

    /// Whether it is that of a disk which regatta's server can simulate itself.
    pub fn has_stand_in(&self) -> bool {
        self.part == "disk" && self.instead == STAND_IN
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: needs {}", self.part, self.needs)?;
        if self.instead.is_empty() { Ok(()) } else { write!(f, " ({})", self.instead) }
    }
}
