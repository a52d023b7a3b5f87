//! Once a second during a trial: how busy the server is, and what the hypervisor took.

use crate::process::sleep_until;
use crate::processors;
use crate::watch::{Numbers, TICKS, add_process};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Between two samples.
const STEP: Duration = Duration::from_secs(1);

/// Samples of a load, from its start.
#[derive(Debug)]
pub(crate) struct Samples {
    pids: Vec<u32>,
    start: Instant,
    last: (Instant, f64, f64),
    /// Second by second: processors' worth of time that the server used, and the share of all
    /// processors' time that was stolen.
    pub(crate) seconds: Vec<(f64, f64)>,
}

impl Samples {
    /// Starts to sample the processes `pids`.
    pub(crate) fn start(pids: Vec<u32>, start: Instant) -> Self {
        let last = read(&pids);
        Self { pids, start, last, seconds: Vec::new() }
    }

    /// Sleeps, and samples whenever a second since the start is over. False if told to stop.
    pub(crate) fn sleep_until(&mut self, end: Instant, stop: &AtomicBool) -> bool {
        loop {
            let done = u32::try_from(self.seconds.len()).unwrap_or(u32::MAX);
            let next = self.start + STEP * (done + 1);
            if next > end {
                return sleep_until(end, stop);
            }
            if !sleep_until(next, stop) {
                return false;
            }
            let now = read(&self.pids);
            let passed = (now.0 - self.last.0).as_secs_f64().max(1e-9);
            self.seconds.push(((now.1 - self.last.1) / passed, (now.2 - self.last.2) / passed));
            self.last = now;
        }
    }
}

/// When, the server's processor time so far, and the mean stolen time of a processor; seconds.
fn read(pids: &[u32]) -> (Instant, f64, f64) {
    let mut server = Numbers::new();
    pids.iter().for_each(|pid| add_process(*pid, &mut server));
    let all = processors::now();
    let stolen: f64 = all.values().map(|ticks| ticks.steal).sum();
    let used = server.get("cpu_s").copied().unwrap_or_default();
    (Instant::now(), used, stolen / TICKS / crate::stats::count(all.len().max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_is_sampled_once() {
        let stop = AtomicBool::new(false);
        let start = Instant::now() - Duration::from_millis(900);
        let mut samples = Samples::start(vec![std::process::id()], start);
        assert!(samples.sleep_until(start + Duration::from_millis(1_050), &stop));
        assert_eq!(samples.seconds.len(), 1);
        let (used, stolen) = samples.seconds[0];
        assert!(used >= 0.0 && stolen >= 0.0, "{samples:?}");
    }
}
