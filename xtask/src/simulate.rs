//! `cargo xtask sim`: the simulator and the schedules of whole loops over many seeds, in an
//! optimised build.

use crate::arguments::Arguments;
use crate::command::{cargo, succeeds};

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
    let mut simulator = cargo();
    simulator.args(["run", "--profile", "soak", "--package", "regatta-sim", "--"]);
    simulator.args(["--seeds", &seeds.to_string(), "--from", &from.to_string()]);
    let held = succeeds(&mut simulator)?;
    if !held || loops == 0 {
        return Ok(held);
    }
    let mut whole = cargo();
    whole.args(["test", "--profile", "soak", "--package", "regatta-arch", "--lib"]);
    whole.args(["--", LOOP_TESTS, "--nocapture"]);
    succeeds(whole.env(LOOP_SEEDS, format!("{from}..{}", from.saturating_add(loops))))
}
