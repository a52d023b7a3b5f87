//! What a server's processes cost: counters of the processor and the kernel, attached by thread.
//!
//! Three hardware events at most are open at once, so that the processor need not take turns
//! among them; the share of the time that each was counting is reported all the same.

use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Counter, ReadFormat};
use std::collections::BTreeSet;

/// What is counted in a timed trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// Instructions outside the kernel.
    UserInstructions,
    /// Instructions inside the kernel.
    KernelInstructions,
    /// Cycles in and outside the kernel.
    Cycles,
    /// Nanoseconds on a CPU.
    CpuNanoseconds,
}

impl Event {
    /// Every event, in the order of [`Costs::totals`].
    pub(crate) const ALL: [Self; 4] =
        [Self::UserInstructions, Self::KernelInstructions, Self::Cycles, Self::CpuNanoseconds];

    fn builder(self) -> Builder<'static> {
        let mut builder = match self {
            Self::UserInstructions | Self::KernelInstructions => {
                Builder::new(Hardware::INSTRUCTIONS)
            }
            Self::Cycles => Builder::new(Hardware::CPU_CYCLES),
            Self::CpuNanoseconds => Builder::new(Software::TASK_CLOCK),
        };
        builder.exclude_user(self == Self::KernelInstructions);
        builder.exclude_kernel(self == Self::UserInstructions);
        builder
    }
}

/// What the processes cost between [`Counters::start`] and [`Counters::stop`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Costs {
    /// The total of each event, in the order of [`Event::ALL`]; None if it cannot be counted here.
    pub(crate) totals: [Option<f64>; 4],
    /// The smallest share of the time that a counter was really counting, from 0 to 1.
    pub(crate) coverage: f64,
}

/// Counters on every thread of some processes, and on what those start later.
#[derive(Debug)]
pub(crate) struct Counters {
    counters: Vec<(Event, Counter)>,
    missing: Vec<(Event, String)>,
}

impl Counters {
    /// Attaches to every thread of `pids`; events that this machine lacks are left out.
    pub(crate) fn attach(pids: &[u32]) -> Self {
        let mut attached = Self { counters: Vec::new(), missing: Vec::new() };
        for event in Event::ALL {
            let all: Result<Vec<Counter>, _> =
                threads(pids).into_iter().map(|thread| open(event.builder(), thread)).collect();
            match all {
                Ok(all) => attached.counters.extend(all.into_iter().map(|one| (event, one))),
                Err(error) => attached.missing.push((event, error.to_string())),
            }
        }
        attached
    }

    /// What cannot be counted here, and the kernel's reason.
    pub(crate) fn missing(&self) -> &[(Event, String)] {
        &self.missing
    }

    /// Starts counting.
    pub(crate) fn start(&mut self) {
        for (_, counter) in &mut self.counters {
            let _ = counter.enable();
        }
    }

    /// Stops counting and adds up.
    pub(crate) fn stop(mut self) -> Costs {
        for (_, counter) in &mut self.counters {
            let _ = counter.disable();
        }
        let mut costs = Costs { coverage: 1.0, ..Costs::default() };
        for (event, counter) in &mut self.counters {
            let Some(total) = costs.totals.get_mut(*event as usize) else { continue };
            let Ok(read) = counter.read_full() else { continue };
            let enabled = read.time_enabled().unwrap_or_default().as_secs_f64();
            let running = read.time_running().unwrap_or_default().as_secs_f64();
            if enabled > 0.0 {
                costs.coverage = costs.coverage.min(running / enabled);
            }
            let scale = if running > 0.0 { enabled / running } else { 1.0 };
            *total = Some(total.unwrap_or_default() + as_f64(read.count()) * scale);
        }
        costs
    }
}

fn open(mut builder: Builder<'_>, thread: i32) -> std::io::Result<Counter> {
    builder
        .observe_pid(thread)
        .any_cpu()
        .inherit(true)
        .exclude_hv(true)
        .read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING)
        .build()
}

/// Every thread of `pids`.
fn threads(pids: &[u32]) -> BTreeSet<i32> {
    let folders = pids.iter().map(|pid| format!("/proc/{pid}/task"));
    folders
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// Counts are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts of a trial are far below 2^53")]
pub(crate) fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::{Counters, Event};

    #[test]
    fn our_own_cost_is_counted_or_said_to_be_missing() {
        let mut counters = Counters::attach(&[std::process::id()]);
        let missing: Vec<Event> = counters.missing().iter().map(|(event, _)| *event).collect();
        counters.start();
        let sum: u64 = std::hint::black_box((0..1_000_000_u64).map(std::hint::black_box).sum());
        let costs = counters.stop();
        assert_eq!(sum, 499_999_500_000);
        for event in Event::ALL {
            let total = costs.totals[event as usize];
            assert_eq!(total.is_none(), missing.contains(&event), "{event:?}: {total:?}");
        }
        if let Some(instructions) = costs.totals[Event::UserInstructions as usize] {
            assert!(instructions > 1_000_000.0, "{instructions}");
        }
    }
}
