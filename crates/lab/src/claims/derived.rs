//! Numbers of a trial that are computed of several of its metrics and counters.

use super::evidence::{Evidence, counted, number};
use super::processes::{idle_for_the_disk, waiting};
use crate::experiment::DerivedNumber;
use crate::record::Record;

/// Computes a number of a trial.
pub(super) fn derive(run: &Evidence<'_>, what: DerivedNumber, record: &Record) -> Option<f64> {
    match what {
        DerivedNumber::IdleForDisk => idle_for_the_disk(run)(record),
        DerivedNumber::WaitingForDisk => waiting(run)(record),
        DerivedNumber::ServerIdle => Some(1.0 - number(record, "server_cpu")? / run.left()),
        DerivedNumber::SelectShare => select_share(record, run.left()),
        DerivedNumber::RepliesPerBusySecond => {
            let busy_s = number(record, "server_cpu")? / run.left() * number(record, "window_s")?;
            (busy_s > 0.0).then_some(counted(record, "replies")? / busy_s)
        }
    }
}

/// The share of a single process's busy time that is inside `select`, by its own clock: time inside
/// the waits, less the time in which there was nothing to do.
fn select_share(record: &Record, left: f64) -> Option<f64> {
    let window_s = number(record, "window_s")?;
    let busy_s = (number(record, "server_cpu")? / left).min(1.0) * window_s;
    let inside_s = counted(record, "wait_ns")? / 1e9;
    (busy_s > 0.0).then(|| ((inside_s - (window_s - busy_s)) / busy_s).clamp(0.0, 1.0))
}
