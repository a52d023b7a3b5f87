//! Numbers of a trial that are computed of several of its metrics and counters.

use super::evidence::{Evidence, Found, counted, number};
use crate::experiment::{ArmNumber, ClaimRow, DerivedNumber, Target, TrialNumber, is_metric};
use crate::journal::Run;
use crate::record::Record;

/// Cycles that stall on memory, by the counter that tells most of it: what holds the back end up is
/// memory for the most part.
const STALLS: [&str; 2] = ["stalled_memory", "stalled_backend"];

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

/// Share of the time in which processors idle for a disk, whatever process waits. For a simulated
/// disk it is the idle time while the disk is busy, since the kernel sees no idle time where a load
/// holds its part of a processor. For other disks the kernel reports it.
pub(super) fn idle_for_the_disk(run: &Evidence<'_>) -> impl Fn(&Record) -> Option<f64> + use<> {
    let left = run.left();
    move |record| {
        let simulated = || {
            let idle = 1.0 - number(record, "server_cpu")? / left;
            Some(idle.max(0.0).min(number(record, "disk_busy_share")?))
        };
        simulated().or_else(|| number(record, "waiting_share"))
    }
}

/// Share of the time in which one process waits for the disk, by the kernel's account. That account
/// is wrong if several wait; the share in which processors idle for the disk then replaces it.
pub(super) fn waiting(run: &Evidence<'_>) -> impl Fn(&Record) -> Option<f64> + use<> {
    let idle = idle_for_the_disk(run);
    let own = |record: &Record| Some(number(record, "disk_wait_s")? / number(record, "window_s")?);
    move |record| own(record).or_else(|| idle(record))
}

fn disk_wait(run: &Evidence<'_>, target: &Target) -> Found<f64> {
    let what = "disk_wait_s, or server_cpu and disk_busy_share";
    run.middle(what, &run.top(&target.name)?, waiting(run))
}

/// Below this share no process waits for a disk.
const WAITS: f64 = 0.02;

/// The most that processes of any arm wait for the disk; an error if none does.
pub(super) fn waits(run: &Evidence<'_>) -> Found<f64> {
    let of = |target: &Target| disk_wait(run, target).ok();
    let most = run.regattas().filter_map(of).fold(0.0, f64::max);
    if most < WAITS {
        return Err(format!(
            "a disk to wait for (a simulated disk, a memory limit, delay accounting): processes \
             wait {:.1} % of the time{}",
            100.0 * most,
            run.lacks()
        ));
    }
    Ok(most)
}

/// An error if a process waits for a disk.
pub(super) fn needs_cached(run: &Evidence<'_>) -> Found<()> {
    match waits(run) {
        Ok(share) => {
            Err(format!("files that are all cached: {:.0} % of the time waits", 100.0 * share))
        }
        Err(_) => Ok(()),
    }
}

/// Metrics that count what a reply or a seek takes, or what memory holds.
const COUNTS: [&str; 5] = [
    "disk_run_kib",
    "kernel_instructions_per_reply",
    "page_cache_mib",
    "user_instructions_per_reply",
    "voluntary_switches_per_reply",
];
/// Metrics that count events, each with what it is divided by.
const COUNTS_OVER: [(&str, &str); 3] = [
    ("disk_files_per_s", "good_per_s"),
    ("disk_requests_per_s", "good_per_s"),
    ("voluntary_switches", "window_s"),
];

/// Whether a claim is decided by counts alone in the experiment of a run.
pub(crate) fn is_counted(run: &Run, id: &str) -> bool {
    run.experiment.rows.iter().any(|row| row.id == id && compares_counts(row))
}

/// Whether a row compares counts and nothing else.
fn compares_counts(row: &ClaimRow) -> bool {
    !row.asks.is_empty() && row.comparisons().all(|one| one.of.number().is_some_and(is_count))
}

fn is_count(number: &ArmNumber) -> bool {
    let counter = |name: &str| !is_metric(name) && !name.ends_with("_ns");
    match (&number.name, &number.over) {
        (TrialNumber::Named(name), None) => COUNTS.contains(&name.as_str()),
        (TrialNumber::Named(name), Some(TrialNumber::Named(over))) => {
            let is_known = COUNTS_OVER.contains(&(name.as_str(), over.as_str()));
            is_known || (counter(name) && counter(over))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Scale, library, parse};

    #[test]
    fn claims_on_mechanisms_are_counted() {
        for (experiment, id, is_it) in [
            ("eurosys07-fig5", "E-11", true),
            ("eurosys07-fig5", "E-12", false),
            ("eurosys07-fig2", "E-20", true),
            ("hpl01", "H-8", true),
            ("hpl01", "H-1", false),
            ("systor12-fig4", "S-8", true),
            ("systor12-fig4", "S-5", false),
            ("pollers", "E-27", false),
            // Switches are counts, peaks are not.
            ("stages-cost", "X-6", false),
            ("cohort", "X-16", false),
        ] {
            let text = library::find(experiment).unwrap();
            let found = parse(experiment, text, Scale::Replica).unwrap();
            let row = found.rows.iter().find(|row| row.id == id).unwrap();
            assert_eq!(compares_counts(row), is_it, "{experiment} {id}");
        }
    }
}
