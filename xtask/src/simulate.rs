//! `cargo xtask sim`: the simulator over many seeds, in an optimised build.

use crate::arguments::Arguments;
use crate::command::cargo;

/// Runs the simulator; true if no seed failed.
///
/// # Errors
/// If the words are not understood or cargo cannot be started.
pub(crate) fn run(words: &[String]) -> Result<bool, String> {
    let mut arguments = Arguments::new(words);
    let seeds = arguments.number("--seeds", 100_000)?;
    let from = arguments.number("--from", 0)?;
    arguments.finish()?;
    let status = cargo()
        .args(["run", "--profile", "soak", "--package", "regatta-sim", "--"])
        .args(["--seeds", &seeds.to_string(), "--from", &from.to_string()])
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    Ok(status.success())
}
