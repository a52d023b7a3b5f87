//! A held share of a processor, for a load that shares its processor with the server.
//!
//! Where both run on one processor, the load would take more or less of it as the scheduler likes,
//! and what the server can do would vary with that. A load that holds a share takes just that:
//! it runs for a slice, spins while it has nothing to do, and sleeps for as long as makes the slice
//! its share. With a real-time priority the server then has exactly the rest.

use regatta_sys::wait::Exact;
use regatta_sys::{clock, thread};
use std::io;
use std::time::Duration;

/// A slice and the sleep after it together, ns. No tick of the kernel (1, 3 1/3, 4 or 10 ms) is a
/// multiple of it or nearly so: `/proc/stat` counts whoever runs at a tick.
pub const PERIOD_NS: u64 = 514_137;
/// The least and the greatest share, per cent.
pub(super) const PERCENT: std::ops::RangeInclusive<u32> = 5..=95;

/// Waits for one thread; holds its share if it has one.
#[derive(Debug)]
pub(super) struct Held {
    /// Per cent; `None`: it sleeps while it has nothing to do, and takes what it needs.
    percent: Option<u32>,
    /// When the slice began.
    begun: u64,
    /// Processor time of this thread when the last slice ended, ns.
    used_until: u64,
    /// Time in which it had nothing to do and spun, ns.
    pub(super) spun_ns: u64,
}

impl Held {
    /// For the thread that calls, whose processor time is counted.
    pub(super) fn new(percent: Option<u32>) -> Self {
        Self { percent, begun: clock::nanos(), used_until: thread::cpu_nanos(), spun_ns: 0 }
    }

    /// What of `wall_ns` is this thread's.
    pub(super) fn available_ns(&self, wall_ns: u64) -> u64 {
        wall_ns * u64::from(self.percent.unwrap_or(100)) / 100
    }

    /// Waits until something changes or until `next`, and returns how many changes there are.
    pub(super) fn wait(&mut self, poll: &mut Exact, next: u64) -> io::Result<usize> {
        let mut now = clock::nanos();
        let Some(percent) = self.percent else {
            return poll.wait(Some(Duration::from_nanos(next.saturating_sub(now))));
        };
        loop {
            if now.saturating_sub(self.begun) >= slice_ns(percent) {
                // What it took to fall asleep and to wake is part of the share.
                let used = thread::cpu_nanos();
                let rest = rest_ns(used - self.used_until, percent);
                self.used_until = used;
                std::thread::sleep(Duration::from_nanos(rest));
                self.begun = clock::nanos();
                now = self.begun;
            }
            let changes = poll.wait(Some(Duration::ZERO))?;
            let after = clock::nanos();
            if changes > 0 || after >= next {
                return Ok(changes);
            }
            self.spun_ns += after - now;
            now = after;
        }
    }
}

const fn slice_ns(percent: u32) -> u64 {
    PERIOD_NS * percent as u64 / 100
}

/// How long others run after a slice that took `used_ns` of processor time: one that took longer,
/// because much happened at once, is made up for.
const fn rest_ns(used_ns: u64, percent: u32) -> u64 {
    used_ns * (100 - percent as u64) / percent as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_that_took_longer_is_followed_by_a_longer_rest() {
        assert_eq!((slice_ns(50), rest_ns(slice_ns(50), 50)), (257_068, 257_068));
        assert_eq!(rest_ns(slice_ns(20), 20), 411_308);
        assert_eq!(rest_ns(1_000_000, 50), 1_000_000);
        assert_eq!(Held::new(Some(20)).available_ns(1_000), 200);
        assert_eq!(Held::new(None).available_ns(1_000), 1_000);
    }

    /// Idle, it takes its share and no more, and says that it did nothing with it.
    #[test]
    fn an_idle_load_takes_its_share() {
        thread::set_timer_slack(Duration::from_nanos(1)).unwrap();
        let mut poll = Exact::new().unwrap();
        // Others may keep it from the processor, or wake it late: both make its share smaller.
        let mut most = 0.0_f64;
        for _ in 0..5 {
            let mut held = Held::new(Some(40));
            let (start, cpu) = (clock::nanos(), thread::cpu_nanos());
            assert_eq!(held.wait(&mut poll, start + 100_000_000).unwrap(), 0);
            let (wall, cpu) = (clock::nanos() - start, thread::cpu_nanos() - cpu);
            let share = cpu as f64 / wall as f64;
            assert!(share < 0.44, "{share}");
            // A virtual machine may need a fifth of it to fall asleep and to wake.
            assert!(held.spun_ns * 2 > cpu, "{} of {cpu}", held.spun_ns);
            most = most.max(share);
        }
        assert!(most > 0.02, "{most}");
    }
}
