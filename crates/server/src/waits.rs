//! Waits of workers for the disk, and the number of workers that follows ([E] §5.1: p tuned at run
//! time). The master does what is decided here.
use regatta_arch::WaitRules;
use regatta_metrics::{Counter, SlotView};
use std::fs;

/// Decision about the number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitChange {
    /// Start one more.
    Start,
    /// Retire one.
    Retire,
}

/// Control of the number of workers.
#[derive(Clone, Debug)]
pub(crate) struct WaitControl {
    pub(crate) rules: WaitRules,
    /// Calm periods in a row.
    calm: u32,
    /// The last period ended with a change.
    has_changed: bool,
}

impl WaitControl {
    pub(crate) const fn new(rules: WaitRules) -> Self {
        Self { rules, calm: 0, has_changed: false }
    }

    /// Decides at the end of a period in which `workers` waited for this share of their time.
    /// `free` more could start.
    pub(crate) fn decide(
        &mut self,
        percent: u64,
        workers: usize,
        free: usize,
    ) -> Option<WaitChange> {
        if std::mem::take(&mut self.has_changed) {
            self.calm = 0;
            return None;
        }
        let WaitRules { processes_min, high_percent, low_percent, calm_periods, .. } = self.rules;
        self.calm = if percent <= low_percent { self.calm.saturating_add(1) } else { 0 };
        let change = if percent >= high_percent && free > 0 {
            WaitChange::Start
        } else if self.calm >= calm_periods && workers > processes_min {
            WaitChange::Retire
        } else {
            return None;
        };
        self.has_changed = true;
        Some(change)
    }
}

/// Times of a worker so far, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitSample {
    /// The worker: its incarnation.
    incarnation: u64,
    at: u64,
    /// On a processor, and ready to run.
    ran: u64,
    queued: u64,
    /// In its poller.
    idle: u64,
    /// In calls on files.
    files: u64,
}

impl WaitSample {
    /// Samples a worker of one task, at this time; `None` if the kernel does not say how long it
    /// ran.
    pub(crate) fn take(slot: &SlotView<'_>, now_ns: u64) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", slot.pid())).ok()?;
        let (ran, queued) = parse_schedstat(&text)?;
        let files = [Counter::OpensNs, Counter::ReadsNs, Counter::SendfileNs];
        Some(Self {
            incarnation: slot.incarnation(),
            at: now_ns,
            ran,
            queued,
            idle: slot.get(Counter::WaitNs),
            files: files.into_iter().map(|counter| slot.get(counter)).sum(),
        })
    }

    /// Time that the worker waited for the disk since an earlier sample, and the time between both;
    /// `None` if that was another worker.
    ///
    /// A worker that neither runs nor is ready to run waits: for events, or in a call on files. An
    /// idle worker enters its wait for events when that ends, so the time in calls is a limit.
    pub(crate) fn since(&self, before: &Self) -> Option<(u64, u64)> {
        if self.incarnation != before.incarnation {
            return None;
        }
        let passed = self.at.saturating_sub(before.at);
        let busy = |of: fn(&Self) -> u64| of(self).saturating_sub(of(before));
        let others = busy(|it| it.ran) + busy(|it| it.queued) + busy(|it| it.idle);
        Some((busy(|it| it.files).min(passed.saturating_sub(others)), passed))
    }
}

/// Reads the times that a task ran and was ready to run (`schedstat`, Documentation/scheduler).
fn parse_schedstat(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use WaitChange::{Retire, Start};

    const RULES: WaitRules = WaitRules {
        processes_min: 2,
        high_percent: 20,
        low_percent: 5,
        period_ms: 1000,
        calm_periods: 3,
        freeze: false,
    };

    /// Periods: the share of waits, the workers, those that could start, and the decision.
    #[test]
    fn the_number_follows_waits_with_hysteresis() {
        type Period = (u64, usize, usize, Option<WaitChange>);
        let rows: [&[Period]; 5] = [
            // A period after each change decides nothing.
            &[(20, 2, 6, Some(Start)), (90, 3, 5, None), (90, 3, 5, Some(Start)), (0, 4, 4, None)],
            // Between the limits the number stays, however long.
            &[(19, 4, 4, None), (6, 4, 4, None), (19, 4, 4, None), (6, 4, 4, None)],
            // Calm periods count in a row.
            &[
                (5, 4, 4, None),
                (0, 4, 4, None),
                (6, 4, 4, None),
                (5, 4, 4, None),
                (5, 4, 4, None),
                (5, 4, 4, Some(Retire)),
                (5, 3, 5, None),
                (5, 3, 5, None),
                (5, 3, 5, None),
                (5, 3, 5, Some(Retire)),
            ],
            // Never fewer than the least, and never more than there is room for.
            &[(0, 2, 6, None), (0, 2, 6, None), (0, 2, 6, None), (0, 2, 6, None)],
            &[(100, 8, 0, None), (100, 8, 0, None), (100, 8, 1, Some(Start))],
        ];
        for periods in rows {
            let mut control = WaitControl::new(RULES);
            for (at, (percent, workers, free, change)) in periods.iter().enumerate() {
                let decided = control.decide(*percent, *workers, *free);
                assert_eq!(decided, *change, "period {at} of {periods:?}");
            }
        }
    }

    #[test]
    fn a_worker_waits_when_it_neither_runs_nor_could() {
        let before = WaitSample { incarnation: 3, at: 1000, ..WaitSample::default() };
        let after = |ran, queued, idle, files| {
            let sample = WaitSample { incarnation: 3, at: 2000, ran, queued, idle, files };
            sample.since(&before)
        };
        for ((ran, queued, idle, files), waited) in [
            ((100, 0, 900, 0), 0),
            // Calls on files that take processor time are no waits.
            ((900, 50, 50, 800), 0),
            ((300, 100, 200, 500), 400),
            // Its wait for events is not over, and not entered.
            ((10, 0, 0, 5), 5),
            // A call that began before the first sample.
            ((0, 0, 0, 9000), 1000),
            ((900, 900, 0, 500), 0),
        ] {
            let row = (ran, queued, idle, files);
            assert_eq!(after(ran, queued, idle, files), Some((waited, 1000)), "{row:?}");
        }
        let other = WaitSample { incarnation: 4, ..before };
        assert_eq!(other.since(&before), None);
    }

    #[test]
    fn the_kernel_says_how_long_a_task_ran() {
        assert_eq!(parse_schedstat("2000 500 9\n"), Some((2000, 500)));
        for text in ["", "7", "x 5 1", "-1 2 3"] {
            assert_eq!(parse_schedstat(text), None, "{text:?}");
        }
    }
}
