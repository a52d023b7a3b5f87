//! Number of helpers of a mount: more while tasks wait for one and more helpers complete more
//! tasks, fewer when most of them have nothing to do.
//!
//! A disk that is saturated, or seeks between the files of many helpers, completes no more tasks
//! with more helpers. Then the growth is undone and not tried again for a while.
use super::Periods;
use std::fmt;

/// Tasks for each helper that a comparison of rates takes.
const TASKS_MIN: u64 = 4;
/// Growth counts as useful if the rate of tasks is at least this times the one before.
const FASTER: f64 = 1.1;
/// Comparisons after a useless growth in which none is tried again.
const HELD: u32 = 8;
/// Helpers are idle if fewer than this part of them are busy.
const BUSY_MIN: f64 = 0.5;
/// Periods without enough tasks for a comparison after which helpers are idle.
const IDLE_PERIODS: u64 = 10;

/// Rules for the number of helpers of a mount.
#[derive(Clone, Copy, Debug)]
pub struct HelperRules {
    /// The least helpers, with which a mount begins.
    pub helpers_min: u32,
    /// The most helpers.
    pub helpers_max: u32,
    /// Time between two decisions at least, milliseconds.
    pub period_ms: u32,
    /// Mean wait for a helper that is not too long, microseconds.
    pub wait_us_max: u64,
}

/// Work of helpers since they were made.
#[derive(Clone, Copy, Debug, Default)]
pub struct HelperWork {
    /// Tasks that were assigned.
    pub assigned: u64,
    /// Time that these waited, nanoseconds.
    pub waited_ns: u64,
    /// Tasks that were completed.
    pub done: u64,
    /// Time that helpers spent on these, nanoseconds.
    pub busy_ns: u64,
}

/// State of a mount's helpers, and their work.
#[derive(Clone, Copy, Debug, Default)]
pub struct HelperSample {
    /// Helpers that may run.
    pub helpers: u32,
    /// Tasks that wait for one.
    pub queue: u64,
    /// Work.
    pub work: HelperWork,
}

/// Reason of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelperReason {
    /// Tasks wait too long for a helper: one half more are tried.
    Waits,
    /// Tasks wait too long, and there are as many helpers as there may be.
    AtMost,
    /// Tasks wait too long, and more helpers did not complete more: as before, for a while.
    NoFaster,
    /// Most helpers have nothing to do: a quarter fewer.
    Idle,
    /// Tasks wait and none is completed: more helpers would hang, too.
    Hangs,
    /// Nothing is to be changed.
    Steady,
}

/// Decision, and its inputs since the one before; its text is a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelperDecision {
    /// Helpers that may run from now on.
    pub helpers: u32,
    /// Helpers that could run before.
    pub before: u32,
    /// Reason.
    pub reason: HelperReason,
    /// Tasks that wait for a helper.
    pub queue: u64,
    /// Mean time that tasks waited for a helper, microseconds.
    pub wait_us: u64,
    /// Mean time that helpers spent on a task, mostly in wait for the disk, microseconds.
    pub task_us: u64,
    /// Tasks completed in a second.
    pub per_s: u64,
}

impl fmt::Display for HelperDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { helpers, before, reason, queue, wait_us, task_us, per_s } = self;
        let reason = match reason {
            HelperReason::Waits => "tasks wait",
            HelperReason::AtMost => "tasks wait, and there may be no more",
            HelperReason::NoFaster => "more were not faster",
            HelperReason::Idle => "most are idle",
            HelperReason::Hangs => "the mount does not answer",
            HelperReason::Steady => "nothing to change",
        };
        write!(
            f,
            "helpers={helpers} before={before}: {reason}: queue={queue} wait_us={wait_us} \
             task_us={task_us} per_s={per_s}"
        )
    }
}

/// Growth whose effect is not known yet.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// Helpers before.
    before: u32,
    /// Helpers since.
    helpers: u32,
    /// Tasks in a second before.
    per_s: f64,
}

/// Sets the number of helpers of a mount.
#[derive(Debug)]
pub struct HelperCount {
    rules: HelperRules,
    periods: Periods,
    /// Sample at the last check.
    last: HelperSample,
    /// Sample and time at the last comparison.
    since: (HelperSample, u64),
    trial: Option<Trial>,
    /// Comparisons until growth is tried again.
    held: u32,
}

impl HelperCount {
    /// A mount that had no task yet.
    #[must_use]
    pub fn new(rules: HelperRules, now_ns: u64) -> Self {
        let (periods, last) = (Periods::new(rules.period_ms, now_ns), HelperSample::default());
        Self { rules, periods, last, since: (last, now_ns), trial: None, held: 0 }
    }

    /// Decides, if it is time and there was enough work to go by.
    pub fn observe(&mut self, sample: HelperSample, now_ns: u64) -> Option<HelperDecision> {
        self.periods.due(now_ns)?;
        let (since, since_ns) = self.since;
        let last = std::mem::replace(&mut self.last, sample);
        let seconds = now_ns.saturating_sub(since_ns).max(1) as f64 / 1e9;
        let work = Work::between(&since.work, &sample.work, seconds);
        if sample.queue > 0 && sample.work.done == last.work.done {
            (self.since, self.trial) = ((sample, now_ns), None);
            return Some(work.decision(sample.helpers, HelperReason::Hangs, &sample));
        }
        let is_enough = work.done >= TASKS_MIN * u64::from(sample.helpers);
        let quiet_ns = IDLE_PERIODS * u64::from(self.rules.period_ms) * 1_000_000;
        let is_quiet = sample.queue == 0 && now_ns.saturating_sub(since_ns) >= quiet_ns;
        if !is_enough && !is_quiet {
            return None;
        }
        self.since = (sample, now_ns);
        let (helpers, reason) = self.decide(&work, &sample);
        Some(work.decision(helpers, reason, &sample))
    }

    fn decide(&mut self, work: &Work, sample: &HelperSample) -> (u32, HelperReason) {
        let HelperRules { helpers_min, helpers_max, wait_us_max, .. } = self.rules;
        let helpers = sample.helpers;
        let waits = work.wait_us > wait_us_max;
        // A growth that was not made has no effect to judge.
        let trial = self.trial.take().filter(|trial| trial.helpers == helpers);
        if let Some(trial) = trial
            && waits
            && work.per_s < FASTER * trial.per_s
        {
            self.held = HELD;
            return (trial.before, HelperReason::NoFaster);
        }
        if waits && helpers >= helpers_max {
            return (helpers, HelperReason::AtMost);
        }
        if waits && self.held == 0 {
            let grown = helpers.saturating_add((helpers / 2).max(1)).min(helpers_max);
            self.trial = Some(Trial { before: helpers, helpers: grown, per_s: work.per_s });
            return (grown, HelperReason::Waits);
        }
        self.held = self.held.saturating_sub(1);
        if !waits && helpers > helpers_min && work.busy < BUSY_MIN * f64::from(helpers) {
            let fewer = helpers.saturating_sub((helpers / 4).max(1)).max(helpers_min);
            return (fewer, HelperReason::Idle);
        }
        (helpers, HelperReason::Steady)
    }
}

/// Work between two samples.
struct Work {
    done: u64,
    wait_us: u64,
    task_us: u64,
    per_s: f64,
    /// Mean number of busy helpers.
    busy: f64,
}

impl Work {
    fn between(from: &HelperWork, to: &HelperWork, seconds: f64) -> Self {
        let since = |value: fn(&HelperWork) -> u64| value(to).saturating_sub(value(from));
        let (done, busy_ns) = (since(|it| it.done), since(|it| it.busy_ns));
        let (assigned, waited_ns) = (since(|it| it.assigned), since(|it| it.waited_ns));
        Self {
            done,
            wait_us: waited_ns / 1000 / assigned.max(1),
            task_us: busy_ns / 1000 / done.max(1),
            per_s: done as f64 / seconds,
            busy: busy_ns as f64 / 1e9 / seconds,
        }
    }

    fn decision(
        &self,
        helpers: u32,
        reason: HelperReason,
        sample: &HelperSample,
    ) -> HelperDecision {
        let Self { wait_us, task_us, per_s, .. } = *self;
        let (before, queue, per_s) = (sample.helpers, sample.queue, super::whole(per_s));
        HelperDecision { helpers, before, reason, queue, wait_us, task_us, per_s }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        HelperReason::{AtMost, Hangs, Idle, NoFaster, Steady, Waits},
        *,
    };

    const RULES: HelperRules =
        HelperRules { helpers_min: 4, helpers_max: 16, period_ms: 100, wait_us_max: 1000 };

    /// A mount with a controller, in steps of a period.
    struct Mount {
        count: HelperCount,
        sample: HelperSample,
        now_ns: u64,
    }

    /// Work of one period: tasks, the mean wait and the mean time of each in microseconds, and how
    /// many wait at the end.
    #[derive(Clone, Copy)]
    struct Load(u64, u64, u64, u64);

    impl Mount {
        fn new() -> Self {
            let sample = HelperSample { helpers: RULES.helpers_min, ..HelperSample::default() };
            Self { count: HelperCount::new(RULES, 0), sample, now_ns: 0 }
        }

        fn run(&mut self, Load(tasks, wait_us, task_us, queue): Load) -> Option<HelperDecision> {
            self.now_ns += 100_000_000;
            self.sample.work.assigned += tasks;
            self.sample.work.done += tasks;
            self.sample.work.waited_ns += tasks * wait_us * 1000;
            self.sample.work.busy_ns += tasks * task_us * 1000;
            self.sample.queue = queue;
            self.count.observe(self.sample, self.now_ns)
        }

        /// Runs a period, and does what is decided.
        fn step(&mut self, load: Load) -> Option<(u32, HelperReason)> {
            let decision = self.run(load)?;
            self.sample.helpers = decision.helpers;
            Some((decision.helpers, decision.reason))
        }
    }

    #[test]
    fn helpers_grow_while_that_completes_more() {
        let mut mount = Mount::new();
        for (tasks, expect) in [(40, (6, Waits)), (60, (9, Waits)), (90, (13, Waits))] {
            assert_eq!(mount.step(Load(tasks, 5000, 10_000, 20)), Some(expect), "{tasks}");
        }
        assert_eq!(mount.step(Load(130, 5000, 10_000, 20)), Some((16, Waits)));
        assert_eq!(mount.step(Load(160, 5000, 10_000, 20)), Some((16, AtMost)));
        assert_eq!(mount.step(Load(160, 900, 10_000, 0)), Some((16, Steady)));
    }

    #[test]
    fn growth_that_does_not_help_is_undone_for_a_while() {
        let mut mount = Mount::new();
        assert_eq!(mount.step(Load(40, 5000, 10_000, 20)), Some((6, Waits)));
        assert_eq!(mount.step(Load(41, 5000, 15_000, 20)), Some((4, NoFaster)));
        for period in 0..HELD {
            assert_eq!(mount.step(Load(40, 5000, 10_000, 20)), Some((4, Steady)), "{period}");
        }
        assert_eq!(mount.step(Load(40, 5000, 10_000, 20)), Some((6, Waits)));
        // The load has gone: whether that helped is not known, and nothing is undone.
        assert_eq!(mount.step(Load(40, 10, 10_000, 0)), Some((6, Steady)));
    }

    #[test]
    fn idle_helpers_become_fewer_and_never_too_few() {
        let mut mount = Mount::new();
        mount.sample.helpers = 16;
        let decided: Vec<_> = (0..70).filter_map(|_| mount.step(Load(1, 10, 1000, 0))).collect();
        assert_eq!(decided[..4], [(12, Idle), (9, Idle), (7, Idle), (6, Idle)]);
        assert_eq!(decided[4..], [(5, Idle), (4, Idle), (4, Steady)]);
    }

    #[test]
    fn nothing_is_decided_without_work_to_go_by() {
        let mut mount = Mount::new();
        assert!(mount.step(Load(3, 90_000, 90_000, 9)).is_none(), "too few tasks");
        let mut mount = Mount::new();
        assert_eq!(mount.step(Load(40, 999, 10_000, 3)), Some((4, Steady)), "they hardly wait");
        mount.sample.work.done += 1000;
        assert!(mount.count.observe(mount.sample, mount.now_ns + 99_000_000).is_none(), "early");
    }

    #[test]
    fn a_mount_that_hangs_gets_no_more_helpers() {
        let mut mount = Mount::new();
        assert_eq!(mount.step(Load(40, 5000, 10_000, 20)), Some((6, Waits)));
        for _ in 0..20 {
            assert_eq!(mount.step(Load(0, 0, 0, 500)), Some((6, Hangs)));
        }
        assert_eq!(mount.step(Load(60, 90_000, 90_000, 200)), Some((9, Waits)), "it answers");
    }

    /// A dry run: the next decision does not judge what was not done.
    #[test]
    fn growth_that_was_not_made_is_not_judged() {
        let mut mount = Mount::new();
        for _ in 0..5 {
            let decision = mount.run(Load(40, 5000, 10_000, 20)).unwrap();
            assert_eq!((decision.helpers, decision.reason), (6, Waits));
        }
    }

    #[test]
    fn a_decision_says_what_it_went_by() {
        let decision = Mount::new().run(Load(40, 5000, 10_000, 20)).unwrap();
        let text = "helpers=6 before=4: tasks wait: queue=20 wait_us=5000 task_us=10000 per_s=400";
        assert_eq!(decision.to_string(), text);
    }
}
