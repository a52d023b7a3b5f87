//! Once a second during a trial: how busy the server is, and what the hypervisor took.

use crate::servers::process::sleep_until;
use crate::watch::TICKS;
use crate::watch::usage::{self, Used};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Between two samples.
const STEP: Duration = Duration::from_secs(1);

/// Samples of a load, from its start.
#[derive(Debug)]
pub(crate) struct Samples {
    pids: Vec<u32>,
    start: Instant,
    last: Look,
    /// Second by second: processors' worth of time that the server used, and the share of all
    /// processors' time that was stolen.
    pub(crate) seconds: Vec<(f64, f64)>,
}

/// One sample.
#[derive(Debug)]
struct Look {
    at: Instant,
    used: Used,
    /// The mean stolen time of a processor, seconds.
    stolen_s: f64,
}

impl Samples {
    pub(crate) fn start(pids: Vec<u32>, start: Instant) -> Self {
        let last = Look::take(&pids);
        Self { pids, start, last, seconds: Vec::new() }
    }

    /// Goes on with these. To find them takes a look at every process of the machine, which is not
    /// for each second.
    pub(crate) fn follow(&mut self, pids: Vec<u32>) {
        // What new ones used before is not the next second's.
        let mut used = Used::of(&pids);
        used.saw(&self.last.used);
        (self.last.used, self.pids) = (used, pids);
    }

    /// Sleeps, and samples whenever a second since the start is over: `saw` is told what the
    /// server had used by then. False if told to stop.
    pub(crate) fn sleep_until(
        &mut self,
        end: Instant,
        stop: &AtomicBool,
        saw: &mut dyn FnMut(&Used),
    ) -> bool {
        loop {
            let done = u32::try_from(self.seconds.len()).unwrap_or(u32::MAX);
            let next = self.start + STEP * (done + 1);
            if next > end {
                return sleep_until(end, stop);
            }
            if !sleep_until(next, stop) {
                return false;
            }
            let now = Look::take(&self.pids);
            let passed = (now.at - self.last.at).as_secs_f64().max(1e-9);
            let (used, stolen) =
                (now.used.cpu_s(&self.last.used), now.stolen_s - self.last.stolen_s);
            self.seconds.push((used / passed, stolen / passed));
            saw(&now.used);
            self.last = now;
        }
    }
}

impl Look {
    fn take(pids: &[u32]) -> Self {
        let all = usage::now();
        let stolen: f64 = all.values().map(|ticks| ticks.steal()).sum();
        let stolen_s = stolen / TICKS / crate::stats::count(all.len().max(1));
        Self { at: Instant::now(), used: Used::of(pids), stolen_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_is_sampled_once() {
        let stop = AtomicBool::new(false);
        let start = Instant::now() - Duration::from_millis(900);
        let mut samples = Samples::start(Vec::new(), start);
        samples.follow(vec![std::process::id()]);
        let mut looks = 0;
        let mut saw = |_: &Used| looks += 1;
        assert!(samples.sleep_until(start + Duration::from_millis(1_050), &stop, &mut saw));
        assert_eq!((samples.seconds.len(), looks), (1, 1));
        let (used, stolen) = samples.seconds[0];
        assert!(used >= 0.0 && stolen >= 0.0, "{samples:?}");
    }
}
