//! `cargo xtask sim`: the simulator and the schedules of whole loops over many seeds, in an
//! optimised build.

use crate::command::{cargo, succeeds};
use crate::task_error::TaskError;
use clap::Args;

/// Variable that passes the seeds to the tests that run loops
/// (`crates/arch/src/loops/event_loop/schedule`).
const LOOP_SEEDS: &str = "REGATTA_LOOP_SEEDS";
/// Part of the name of each such test.
const LOOP_TESTS: &str = "_none";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Seeds of the simulator. Each has six schedules: three in the clear, three sealed.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    seeds: u64,
    /// Seeds for each way to run a loop; 0: no loops.
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    loops: u64,
    /// The first seed.
    #[arg(long, value_name = "S", default_value_t = 0)]
    from: u64,
}

/// Runs the simulator, then the loops; true if no seed failed.
pub(crate) fn run(options: &Options) -> Result<bool, TaskError> {
    let Options { seeds, loops, from } = *options;
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
