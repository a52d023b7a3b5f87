//! `cargo xtask fuzz`: the fuzz targets under cargo-fuzz, which needs a nightly compiler, or their
//! corpora and mutations of them with any compiler (`--smoke`).

use crate::command::{cargo, output_of, project_root, succeeds};
use crate::task_error::TaskError;
use clap::Args;
use std::process::Command;

/// Time to fuzz one target, seconds.
const FUZZ_SECONDS: u64 = 30;
/// Time of a smoke test of one target once it is built, seconds.
const SMOKE_SECONDS: u64 = 1;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The target; without it, all, one after another.
    target: Option<String>,
    /// Seconds for each target; 30 by default, 1 with --smoke.
    #[arg(long)]
    seconds: Option<u64>,
    /// Run corpora and mutations of them, which needs no nightly compiler.
    #[arg(long)]
    smoke: bool,
}

/// Runs one target or all; true if none found a fault.
pub(crate) fn run(options: &Options) -> Result<bool, TaskError> {
    let only = options.target.as_ref();
    if options.smoke {
        let seconds = options.seconds.unwrap_or(SMOKE_SECONDS);
        return smoke(seconds, only.map(String::as_str));
    }
    let seconds = options.seconds.unwrap_or(FUZZ_SECONDS);
    ready()?;
    let mut targets = targets();
    if let Some(only) = only {
        if !targets.contains(only) {
            crate::usage(&format!("no fuzz target `{only}`; there are: {}", targets.join(", ")));
        }
        targets = vec![only.clone()];
    }
    for target in &targets {
        println!("fuzz {target}: {seconds} s");
        if !fuzz(target, seconds)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Runs the committed corpus of one target, or of all, and mutations of it for a number of seconds
/// each; true if nothing was found.
fn smoke(seconds: u64, only: Option<&str>) -> Result<bool, TaskError> {
    let mut smoke = cargo();
    smoke.args(["test", "--quiet", "--package", "regatta-fuzz", "--test", "smoke"]);
    succeeds(smoke.args(["--", "--seconds", &seconds.to_string()]).args(only))
}

/// Names of the fuzz targets; empty if there is no `fuzz/`.
pub(crate) fn targets() -> Vec<String> {
    let folder = project_root().join("fuzz/fuzz_targets");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.path().file_stem()?.to_str().map(str::to_owned))
        .collect();
    names.sort();
    names
}

/// Whether fuzzing is possible here.
pub(crate) fn ready() -> Result<(), TaskError> {
    if !project_root().join("fuzz/Cargo.toml").is_file() {
        return Err(TaskError::FuzzTargets);
    }
    let version = output_of(Command::new("cargo").args(["+nightly", "fuzz", "--version"]));
    version.map(|_| ()).ok_or(TaskError::CargoFuzz)
}

/// Fuzzes one target for a number of seconds; true if nothing was found.
pub(crate) fn fuzz(target: &str, seconds: u64) -> Result<bool, TaskError> {
    let mut fuzz = Command::new("cargo");
    fuzz.args(["+nightly", "fuzz", "run", "--features", "libfuzzer", target, "--"]);
    succeeds(fuzz.current_dir(project_root()).arg(format!("-max_total_time={seconds}")))
}
