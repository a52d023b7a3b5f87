//! Numbers of a trial that are computed of several of its metrics and counters.

use super::evidence::{Evidence, counted, number};
use super::processes::{idle_for_the_disk, waiting};
use crate::experiment::DerivedNumber;
use crate::record::Record;

/// Cycles that stall on memory, by the counter that tells most of it: what holds the back end up is
/// memory for the most part.
const STALLS: [&str; 2] = ["stalled_memory", "stalled_backend"];

/// Computes a number of a trial.
pub(super) fn derive(run: &Evidence<'_>, what: DerivedNumber, record: &Record) -> Option<f64> {
    match what {
        DerivedNumber::IdleForDisk => idle_for_the_disk(run)(record),
        DerivedNumber::WaitingForDisk => waiting(run)(record),
        DerivedNumber::ServerShare => Some(number(record, "server_cpu")? / run.left()),
        DerivedNumber::ServerIdle => Some(1.0 - number(record, "server_cpu")? / run.left()),
        DerivedNumber::SelectShare => select_share(record, run.left()),
        DerivedNumber::RepliesPerBusySecond => {
            let busy_s = number(record, "server_cpu")? / run.left() * number(record, "window_s")?;
            (busy_s > 0.0).then_some(counted(record, "replies")? / busy_s)
        }
        DerivedNumber::MemoryStallsLessHalf => {
            let of = |name| number(record, name);
            let instructions = of("user_instructions")? + of("kernel_instructions")?;
            let stalls = STALLS.into_iter().find_map(|name| of(name).filter(|all| *all > 0.0))?;
            Some(stalls / instructions - of("cycles_per_instruction")? / 2.0)
        }
        DerivedNumber::AsynchronousShare => {
            share(counted(record, "decided_async")?, counted(record, "decided_blocking")?)
        }
        DerivedNumber::LaioInlineShare => {
            share(counted(record, "laio_inline")?, counted(record, "laio_deferred")?)
        }
        DerivedNumber::HelperTasks => {
            let kinds = ["helper_tasks_open", "helper_tasks_read", "helper_tasks_prefetch"];
            let tasks = kinds.iter().filter_map(|kind| counted(record, kind)).sum::<f64>();
            (tasks > 0.0).then_some(tasks)
        }
        DerivedNumber::OtherStagesThreads => {
            let is_other =
                |name: &str| name.ends_with(".threads_open_max") && !name.starts_with("disk.");
            let all = record.counters.iter().filter(|(name, _)| is_other(name));
            all.map(|(_, most)| *most).reduce(f64::max)
        }
    }
}

/// Share of a part of two; `None` of nothing.
fn share(part: f64, rest: f64) -> Option<f64> {
    (part + rest > 0.0).then(|| part / (part + rest))
}

/// The share of a single process's busy time that is inside `select`, by its own clock: time inside
/// the waits, less the time in which there was nothing to do.
fn select_share(record: &Record, left: f64) -> Option<f64> {
    let window_s = number(record, "window_s")?;
    let busy_s = (number(record, "server_cpu")? / left).min(1.0) * window_s;
    let inside_s = counted(record, "wait_ns")? / 1e9;
    (busy_s > 0.0).then(|| ((inside_s - (window_s - busy_s)) / busy_s).clamp(0.0, 1.0))
}
