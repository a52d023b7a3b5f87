//! A slower processor: a real-time task takes a share of it, a little at a time.
//!
//! A control group's quota does not make one: the kernel looks at it at its ticks, so that a server
//! with 20 % runs for 4 ms and then stands still for 16 ms, which no slow processor does.

use super::enter;
use super::keeper::{die_with_keeper, is_abandoned, order, say};
use super::simdisk::{now_ns, sleep_until};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How often the share is taken, ns.
const PERIOD_NS: u64 = 500_000;
/// How often the process looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(200);

/// What the process is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    /// The processors.
    pub(super) cpus: Vec<usize>,
    /// What is left of them, per cent.
    pub(super) left_percent: u32,
}

/// Takes its share of each processor until standard input ends.
pub(super) fn run() -> Result<(), String> {
    die_with_keeper()?;
    let Orders { cpus, left_percent } = order()?;
    let taken = PERIOD_NS * u64::from(100 - left_percent.min(100)) / 100;
    for cpu in cpus {
        std::thread::Builder::new()
            .name(format!("slow-{cpu}"))
            .spawn(move || take(cpu, taken))
            .map_err(|error| error.to_string())?;
    }
    say("ready");
    while !is_abandoned(LOOK) {}
    // The threads end with the process.
    Ok(())
}

/// Runs for `taken` of each period and sleeps for the rest.
fn take(cpu: usize, taken: u64) {
    if enter::run_on(&[cpu]).is_err() {
        return;
    }
    let mut next = now_ns();
    loop {
        while now_ns() < next + taken {
            std::hint::spin_loop();
        }
        next = (next + PERIOD_NS).max(now_ns());
        sleep_until(next);
    }
}
