//! Arrivals that are still to come, held against the clock: one thread's share of them.

use super::arrivals::{Arrival, Rate, Schedule};
use super::plan::Plan;
use crate::number::index;

/// One thread's share of the arrivals of an open or partly-open model.
#[derive(Debug)]
pub(super) struct Coming {
    source: Source,
    next: Option<Arrival>,
    start: u64,
    count: u64,
}

/// Where arrivals come from.
#[derive(Debug)]
enum Source {
    /// A rate.
    Rate(Schedule),
    /// The times in the logs, sorted, and which of them comes next.
    Log { times: Vec<Arrival>, next: usize, step: usize },
}

impl Coming {
    /// The share of `worker`, from `start` on: at `rate`, or without one when the plan's sessions
    /// say. The number of an arrival is that of its session then.
    pub(super) fn new(plan: &Plan, worker: u32, rate: Option<&Rate>, start: u64) -> Self {
        let options = &plan.options;
        let source = match rate {
            Some(rate) => Source::Rate(Schedule::new(
                rate,
                options.arrivals,
                options.seed,
                worker,
                plan.workers,
            )),
            None => {
                let parts = (0_u64..).zip(&plan.script.sessions);
                let at = |(number, part): (u64, &super::script::Part)| Arrival {
                    number,
                    at_ns: part.at_us.unwrap_or(0).saturating_mul(1_000),
                };
                let mut times: Vec<Arrival> = parts.map(at).collect();
                times.sort_by_key(|arrival| arrival.at_ns);
                times.truncate(options.count.map_or(usize::MAX, index));
                let (next, step) = (index(worker.into()), index(plan.workers.into()));
                Source::Log { times, next, step }
            }
        };
        let count = options.count.unwrap_or(u64::MAX);
        let mut coming = Self { source, next: None, start, count };
        coming.next = coming.following();
        coming
    }

    fn following(&mut self) -> Option<Arrival> {
        match &mut self.source {
            Source::Rate(schedule) => schedule.next().filter(|next| next.number < self.count),
            Source::Log { times, next, step } => {
                let arrival = *times.get(*next)?;
                *next += *step;
                Some(arrival)
            }
        }
    }

    /// When the next arrival is due, nanoseconds on the monotonic clock; `u64::MAX`: never.
    #[inline]
    pub(super) fn due(&self) -> u64 {
        self.next.map_or(u64::MAX, |arrival| self.start.saturating_add(arrival.at_ns))
    }

    /// The next arrival and when it is due, if that is by `now` and before `until`.
    #[inline]
    pub(super) fn take(&mut self, now: u64, until: u64) -> Option<(Arrival, u64)> {
        let due = self.due();
        let arrival = self.next.filter(|_| due <= now && due < until)?;
        self.next = self.following();
        Some((arrival, due))
    }

    /// Whether none is left.
    pub(super) fn is_over(&self) -> bool {
        self.next.is_none()
    }
}
