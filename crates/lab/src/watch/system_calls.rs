//! Counts all system calls of some processes, by the kernel's own tracepoint.

use crate::servers::process::threads;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};
use std::fs;

const TRACEPOINT: &str = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id";

/// A counter of the system calls that some processes make. It slows each call, so it belongs in a
/// run of its own.
#[derive(Debug)]
pub struct SystemCalls(Vec<Counter>);

impl SystemCalls {
    /// Attaches to every thread of `pids`, and those that they start, and begins to count.
    pub fn start(pids: &[u32]) -> Result<Self, String> {
        Self::attach(threads(pids))
    }

    fn attach(threads: impl IntoIterator<Item = i32>) -> Result<Self, String> {
        let id = fs::read_to_string(TRACEPOINT).map_err(|e| format!("{TRACEPOINT}: {e}"))?;
        let id: u64 = id.trim().parse().map_err(|_| format!("{TRACEPOINT}: not a number"))?;
        let open = |thread: i32| -> std::io::Result<Counter> {
            let mut builder = Builder::new(Tracepoint::with_id(id));
            builder.observe_pid(thread).any_cpu().inherit(true);
            let mut counter = builder.exclude_kernel(false).exclude_hv(true).build()?;
            counter.enable()?;
            Ok(counter)
        };
        super::each_task(threads, open).map(Self).map_err(|error| error.to_string())
    }

    /// Stops and adds up.
    pub fn stop(mut self) -> f64 {
        let counts = self.0.iter_mut().map(|counter| {
            // One that cannot be stopped or read has counted nothing.
            let _ = counter.disable();
            counter.read().map(crate::units::real).unwrap_or_default()
        });
        counts.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::SystemCalls;
    use regatta_testkit::skips::skip;

    #[test]
    fn a_thread_that_has_ended_is_left_out() {
        match SystemCalls::attach([i32::MAX]) {
            Ok(counter) => assert!(counter.0.is_empty()),
            Err(why) => skip(&format!("system calls cannot be counted here: {why}")),
        }
    }

    #[test]
    fn our_own_calls_are_counted_or_it_is_said_why_not() {
        match SystemCalls::start(&[std::process::id()]) {
            Ok(counter) => {
                for _ in 0..1_000 {
                    let _ = std::fs::metadata("/");
                }
                // Other tests run in other threads.
                assert!(counter.stop() >= 1_000.0);
            }
            Err(why) => {
                assert!(!why.is_empty());
                skip(&format!("system calls cannot be counted here: {why}"));
            }
        }
    }
}
