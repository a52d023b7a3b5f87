//! `cargo xtask sim`: the simulator and the schedules of whole loops over many seeds, in an
//! optimised build.

use crate::arguments::Arguments;
use crate::command::cargo;

/// Names the seeds to the tests that run loops (`crates/arch/src/kit/event_loop/schedule`).
const LOOP_SEEDS: &str = "REGATTA_LOOP_SEEDS";
/// Part of the name of each of them.
const LOOP_TESTS: &str = "nobody";

/// Runs the simulator, then the loops; true if no seed failed.
pub(crate) fn run(words: &[String]) -> Result<bool, String> {
    let mut arguments = Arguments::new(words);
    let seeds = arguments.number("--seeds", 100_000)?;
    let loops = arguments.number("--loops", 5_000)?;
    let from = arguments.number("--from", 0)?;
    arguments.finish()?;
    let status = cargo()
        .args(["run", "--profile", "soak", "--package", "regatta-sim", "--"])
        .args(["--seeds", &seeds.to_string(), "--from", &from.to_string()])
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if !status.success() || loops == 0 {
        return Ok(status.success());
    }
    let status = cargo()
        .args(["test", "--profile", "soak", "--package", "regatta-arch", "--lib"])
        .args(["--", LOOP_TESTS, "--nocapture"])
        .env(LOOP_SEEDS, format!("{from}..{}", from.saturating_add(loops)))
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    Ok(status.success())
}
