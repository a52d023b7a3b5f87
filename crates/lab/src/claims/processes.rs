//! How long processes wait for a disk, and which trials wait for one.

use super::evidence::{Evidence, Found, number};
use crate::experiment::Target;
use crate::record::Record;

/// The share of the time in which processors idle for a disk, whoever waits: of a simulated one
/// what is left of them while it is busy, since the kernel sees no idle time where a load holds its
/// part of a processor; else what the kernel says.
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

/// The share of the time in which one process waits for the disk, by the kernel's account; where
/// several wait, of which that account is wrong, that in which processors idle for it.
pub(super) fn waiting(run: &Evidence<'_>) -> impl Fn(&Record) -> Option<f64> + use<> {
    let idle = idle_for_the_disk(run);
    let own = |record: &Record| Some(number(record, "disk_wait_s")? / number(record, "window_s")?);
    move |record| own(record).or_else(|| idle(record))
}

fn disk_wait(run: &Evidence<'_>, target: &Target) -> Found<f64> {
    let what = "disk_wait_s, or server_cpu and disk_busy_share";
    run.middle(what, &run.top(&target.name)?, waiting(run))
}

/// Below this share nobody waits for a disk.
const WAITS: f64 = 0.02;

/// The most that processes of any arm wait for the disk; an error if nobody does.
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

/// An error if anybody waits for a disk.
pub(super) fn needs_cached(run: &Evidence<'_>) -> Found<()> {
    match waits(run) {
        Ok(share) => {
            Err(format!("files that are all cached: {:.0} % of the time waits", 100.0 * share))
        }
        Err(_) => Ok(()),
    }
}
