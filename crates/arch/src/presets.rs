//! The table of architectures: every name, and the point on the axes that it stands for.
use crate::{
    Env, event,
    options::{OptionSpec, Settings},
};

/// A way to run connections. Presets that share a driver differ only in options.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    /// The driver's options, with their defaults.
    pub options: &'static [OptionSpec],
    /// How many worker processes the master keeps.
    pub workers: fn(&Settings) -> usize,
    /// What a worker process does until it is told to leave.
    pub work: fn(&Env, worker: usize) -> Result<(), String>,
}

/// A named architecture.
#[derive(Clone, Copy, Debug)]
pub struct Architecture {
    /// The name that `--architecture` takes.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// Where it is described.
    pub paper: &'static str,
    /// Its driver.
    pub driver: &'static Driver,
    /// Options whose value the name fixes, where nothing else is said.
    pub axes: &'static [(&'static str, &'static str)],
}

/// Every architecture, by name.
pub const ARCHITECTURES: &[Architecture] = &[Architecture {
    name: "sped",
    summary: "one process, one event loop; the disk blocks it",
    paper: "[E] §5, [H] §2.1",
    driver: &event::DRIVER,
    axes: &[],
}];

/// The architecture called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Architecture> {
    ARCHITECTURES.iter().find(|architecture| architecture.name == name)
}
