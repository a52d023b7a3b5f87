//! `regatta load`: options in, a table or JSON and files out, an exit code.

use super::crew::{Watch, perform};
use super::live::Progress;
use super::options::LoadOptions;
use super::outcome::Outcome;
use super::plan::Plan;
use super::report;
use super::tally::Row;
use crate::workload::partial::{part, write_whole};
use regatta_sys::signal::{Signal, Signals};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Everything was done, and the service level, if one was stated, met.
pub const DONE: u8 = 0;
/// The load could not be made, a file could not be written, or the service level was not met.
pub const FAILED: u8 = 1;
/// Bad usage; every problem was listed.
pub const USAGE: u8 = 2;

/// Runs a load and prints its result: the table (or JSON) on standard output, progress and problems
/// on standard error. Ctrl-C ends it with the result so far.
///
/// # Panics
/// With several processes, if this process has more threads than one.
pub fn run(options: &LoadOptions) -> u8 {
    let plan = match Plan::new(options) {
        Ok(plan) => plan,
        Err(problems) => {
            problems.iter().for_each(|problem| say(problem));
            return USAGE;
        }
    };
    let files = [&options.hgrm, &options.csv].into_iter().flatten();
    let unwritable: Vec<String> = files.filter_map(|path| writable(path).err()).collect();
    if !unwritable.is_empty() {
        unwritable.iter().for_each(|problem| say(problem));
        return FAILED;
    }
    let signals = Signals::block(&[Signal::Interrupt, Signal::Terminate]).ok();
    let stop = AtomicBool::new(false);
    let progress = Progress::new(&plan.options);
    let mut tell = |row: &Row| progress.tell(row);
    let mut watch = Watch { stop: &stop, signals: signals.as_ref(), tell: &mut tell };
    let outcome = perform(&plan, &mut watch);
    progress.clear();
    match outcome.and_then(|outcome| publish(options, &outcome).map(|()| outcome)) {
        Ok(outcome) if outcome.meets_slo() => DONE,
        Ok(_) => FAILED,
        Err(problem) => {
            say(&problem);
            FAILED
        }
    }
}

/// Prints the result and writes its files.
fn publish(options: &LoadOptions, outcome: &Outcome) -> Result<(), String> {
    if let Some(path) = &options.hgrm {
        write_whole(path, &report::hgrm(outcome.latency()))?;
    }
    if let Some(path) = &options.csv {
        write_whole(path, &report::csv(outcome))?;
    }
    let text = if options.json {
        let mut text = serde_json::to_string_pretty(outcome).map_err(|error| error.to_string())?;
        text.push('\n');
        text
    } else {
        report::table(outcome)
    };
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Whether a file can be written there: better known before the load than after it.
fn writable(path: &Path) -> Result<(), String> {
    let wrong = |error: io::Error| format!("{} cannot be written: {error}", path.display());
    if path.is_dir() {
        return Err(wrong(io::ErrorKind::IsADirectory.into()));
    }
    let part = part(path);
    fs::write(&part, "").and_then(|()| fs::remove_file(&part)).map_err(wrong)
}

fn say(problem: &str) {
    // Nobody may be there to read it.
    let _ = writeln!(io::stderr(), "regatta load: {problem}");
}
