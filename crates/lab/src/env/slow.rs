//! A slower processor: a real-time task takes a share of it, a little at a time.
//!
//! A control group's quota does not make one: the kernel checks it at its ticks. A server with 20 %
//! runs for 4 ms and then stops for 16 ms, as no slow processor does.

use super::servant::{die_with_keeper, is_abandoned, order, say};
use super::simdisk::{now_ns, sleep_until};
use regatta_load::engine::{PERIOD_NS, extra_ns, slice_ns};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Interval at which the process checks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) cpus: Vec<usize>,
    /// Share of them that is left, per cent.
    pub(super) left_percent: u32,
}

/// Takes its share of each processor until standard input ends.
pub(super) fn run() -> Result<(), String> {
    die_with_keeper()?;
    let Orders { cpus, left_percent } = order()?;
    for cpu in cpus {
        std::thread::Builder::new()
            .name(format!("slow-{cpu}"))
            .spawn(move || take(cpu, left_percent))
            .map_err(|error| error.to_string())?;
    }
    say("ready");
    while !is_abandoned(LOOK) {}
    // The threads end with the process.
    Ok(())
}

/// Leaves `left_percent` of the time of a processor: runs, and sleeps for the remaining part of
/// the period. After a sleep that took longer it runs longer.
fn take(cpu: usize, left_percent: u32) {
    if crate::group::run_on(&[cpu]).is_err() {
        return;
    }
    let share = share(left_percent);
    let rest = PERIOD_NS - slice_ns(share);
    let mut slice = slice_ns(share);
    let mut begun = now_ns();
    loop {
        let end = begun + slice;
        while now_ns() < end {
            std::hint::spin_loop();
        }
        let asleep = now_ns();
        sleep_until(asleep + rest);
        begun = now_ns();
        slice = slice_ns(share) + extra_ns(begun - asleep, rest, share);
    }
}

/// Share that is taken, per cent.
fn share(left_percent: u32) -> u32 {
    100 - left_percent.min(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples at every tick see the share that is taken within a second, wherever both begin.
    #[test]
    fn ticks_see_the_share_that_is_taken() {
        for left_percent in [20, 40, 60, 90] {
            let taken = slice_ns(share(left_percent));
            for ticks_per_s in [100, 250, 300, 1_000] {
                for start in (0..PERIOD_NS).step_by(30_011) {
                    let ticks =
                        (0..ticks_per_s).map(|tick| start + tick * 1_000_000_000 / ticks_per_s);
                    let seen = ticks.filter(|at| at % PERIOD_NS < taken).count();
                    let per_cent = 100 * crate::units::whole(seen) / ticks_per_s;
                    let off = per_cent.abs_diff(u64::from(100 - left_percent));
                    assert!(off <= 2, "{left_percent} % left, {ticks_per_s} Hz: {per_cent} % seen");
                }
            }
        }
    }
}
