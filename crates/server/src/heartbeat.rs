//! Which workers do not run: stopped, or held up by something that should not take so long; and
//! which of them are better replaced.
use regatta_metrics::SlotView;
use regatta_op::Tick;
use regatta_sys::process::Child;
use std::fs;

/// Between two looks at the workers, milliseconds.
const LOOK_MS: u64 = 1_000;

/// Looks without a new heartbeat after which a worker is silent. A worker has one every second.
const LOOKS_MIN: u32 = 3;

/// The silence after which a worker may be replaced, milliseconds.
const SILENT_MS_MAX: u64 = 5_000;

/// The processor time that a silent worker must have used to be one that goes round in circles: one
/// that gets no processor uses less. Milliseconds.
const BUSY_MS_MIN: u64 = 2_000;

/// A unit of the times in `/proc/PID/task/TID/stat`, milliseconds (`USER_HZ`, which is 100
/// everywhere).
const STAT_TICK_MS: u64 = 10;

/// The state of a process that runs, or waits for something.
const UNKNOWN: char = '?';

/// The age of a heartbeat from which on a worker is said not to answer, milliseconds.
const ANSWER_MS_MAX: u64 = 3_000;

/// True if there is a worker and it has had a heartbeat recently.
pub(crate) fn answers(slot: &SlotView<'_>, now: Tick) -> bool {
    slot.pid() != 0 && is_recent(slot.heartbeat_ms(), now)
}

/// True if a heartbeat at that time, milliseconds of the monotonic clock, is one of who answers.
pub(crate) fn is_recent(heartbeat_ms: u64, now: Tick) -> bool {
    now.since(Tick(heartbeat_ms)) < ANSWER_MS_MAX
}

/// What has changed about a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It has had no heartbeat for so many milliseconds.
    Silent(u64),
    /// It has one again, after so many milliseconds.
    Again(u64),
    /// It still has none, and that has been reported.
    Still {
        /// The age of its last heartbeat, milliseconds.
        silent_ms: u64,
        /// The processor time that it had used when it was first missed, milliseconds.
        busy_before_ms: u64,
    },
}

/// What the main thread of a process does, as the kernel says. It is the one that has heartbeats;
/// among thousands of busy threads it may get no processor for seconds, and their time is no sign
/// that it goes round in circles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Activity {
    state: char,
    /// The processor time that it has used, milliseconds.
    pub(crate) busy_ms: u64,
}

impl Activity {
    /// Of a process; `None` if it has ended.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Self::read(&fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat")).ok()?)
    }

    /// Of a child with one thread, also for a process that may read no files of `/proc`: all that
    /// is known then is whether it is stopped, and how busy it has been.
    pub(crate) fn of_single(child: &Child) -> Option<Self> {
        Self::of(child.pid()).or_else(|| Self::told(child))
    }

    fn told(child: &Child) -> Option<Self> {
        let state = if child.is_stopped().ok()? { 'T' } else { UNKNOWN };
        let busy_ms = u64::try_from(child.busy().ok()?.as_millis()).ok()?;
        Some(Self { state, busy_ms })
    }

    fn read(stat: &str) -> Option<Self> {
        // The name before may have any character, a parenthesis too.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        // The state is field 3; 14 and 15 are the times in user and in kernel mode.
        let mut times = fields.skip(10).map(str::parse::<u64>);
        let (user, kernel) = (times.next()?.ok()?, times.next()?.ok()?);
        Some(Self { state, busy_ms: user.saturating_add(kernel).saturating_mul(STAT_TICK_MS) })
    }

    /// True if a worker that does this, and has been silent for so long and used `busy_ms` of
    /// processor time meanwhile, is to be killed, because another would do better.
    pub(crate) fn is_hopeless(self, silent_ms: u64, busy_ms: u64, disk_ms_max: u64) -> bool {
        if silent_ms < SILENT_MS_MAX {
            return false;
        }
        match self.state {
            // Somebody debugs it; or it is in a system call during which it cannot be killed.
            't' | 'D' => false,
            'T' => true,
            _ if busy_ms >= BUSY_MS_MIN => true,
            // It may wait for a disk.
            'S' => silent_ms >= disk_ms_max.saturating_add(SILENT_MS_MAX),
            // It is ready to run and gets no processor: another would get none. Or, if nobody knows
            // what it does, it may be in such a system call.
            _ => false,
        }
    }
}

/// The last heartbeat of a worker.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    heartbeat_ms: u64,
    /// When that was new.
    since: Tick,
    looks: u32,
    /// The processor time used until it was first missed.
    busy_ms: u64,
}

/// The heartbeats of all workers.
#[derive(Debug)]
pub(crate) struct Heartbeats {
    workers: Vec<Last>,
    next: Tick,
}

impl Heartbeats {
    /// No heartbeat is known yet.
    pub(crate) fn new(workers: usize, now: Tick) -> Self {
        Self { workers: vec![Last::default(); workers], next: now.after(LOOK_MS) }
    }

    /// True if it is time to look; the next time is then later.
    pub(crate) fn is_due(&mut self, now: Tick) -> bool {
        let due = self.next <= now;
        if due {
            self.next = now.after(LOOK_MS);
        }
        due
    }

    /// A worker has this heartbeat; `None` if there is no worker. Looks are counted rather than
    /// time, because a machine that was stopped stops workers and master alike. `activity` tells
    /// what the worker does.
    pub(crate) fn check(
        &mut self,
        worker: usize,
        heartbeat_ms: Option<u64>,
        now: Tick,
        activity: impl FnOnce() -> Option<Activity>,
    ) -> Option<Change> {
        let last = &mut self.workers[worker];
        let Some(heartbeat_ms) = heartbeat_ms else {
            *last = Last { since: now, ..Last::default() };
            return None;
        };
        if last.heartbeat_ms != heartbeat_ms {
            let again = (last.looks >= LOOKS_MIN).then(|| Change::Again(now.since(last.since)));
            *last = Last { heartbeat_ms, since: now, ..Last::default() };
            return again;
        }
        last.looks = last.looks.saturating_add(1);
        if last.looks == 1 {
            last.busy_ms = activity().map_or(0, |activity| activity.busy_ms);
        }
        match last.looks {
            LOOKS_MIN => Some(Change::Silent(now.since(last.since))),
            looks if looks > LOOKS_MIN => {
                // That of a worker which has just started may be its predecessor's.
                let seen = Tick(last.since.0.saturating_sub(LOOK_MS));
                let silent_ms = now.since(Tick(heartbeat_ms).max(seen));
                Some(Change::Still { silent_ms, busy_before_ms: last.busy_ms })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_reported_once_and_so_is_its_end() {
        let mut heartbeats = Heartbeats::new(1, Tick(0));
        assert!(!heartbeats.is_due(Tick(999)) && heartbeats.is_due(Tick(1_000)));
        assert!(!heartbeats.is_due(Tick(1_999)));
        let still = |silent_ms| Some(Change::Still { silent_ms, busy_before_ms: 2_000 });
        let used = |busy_ms| Some(Activity { state: 'S', busy_ms });
        let mut check = |beat, ms| heartbeats.check(0, beat, Tick(ms), || used(ms));
        assert_eq!(check(Some(7), 1_000), None);
        assert_eq!(check(Some(7), 2_000), None);
        assert_eq!(check(Some(7), 3_000), None);
        assert_eq!(check(Some(7), 4_000), Some(Change::Silent(3_000)));
        assert_eq!(check(Some(7), 5_000), still(4_993));
        assert_eq!(check(Some(7), 6_000), still(5_993));
        assert_eq!(check(Some(9), 7_000), Some(Change::Again(6_000)));
        assert_eq!(check(Some(9), 8_000), None);
        assert_eq!(check(None, 9_000), None, "it has ended");
        assert_eq!(check(Some(9), 10_000), None, "another has started");
    }

    #[test]
    fn the_kernel_says_what_a_process_does() {
        let stat = "77 (a ) b) T 1 77 77 0 -1 4194304 100 0 0 0 150 70 3 4 20 0 1 0 9 0 0\n";
        assert_eq!(Activity::read(stat), Some(Activity { state: 'T', busy_ms: 2_200 }));
        assert_eq!(Activity::read("77 (cut) S 1 77"), None);
        let own = Activity::of(std::process::id()).unwrap();
        assert!("RS".contains(own.state), "{own:?}");
    }

    #[test]
    fn other_threads_are_not_the_one_that_goes_round_in_circles() {
        let busy_ms = || Activity::of(std::process::id()).unwrap().busy_ms;
        let before = busy_ms();
        let burns = || {
            let start = std::time::Instant::now();
            while start.elapsed().as_millis() < 400 {}
        };
        std::thread::scope(|threads| {
            threads.spawn(burns);
        });
        let used_ms = busy_ms() - before;
        assert!(used_ms < 100, "{used_ms}");
    }

    #[test]
    fn a_worker_is_replaced_only_where_that_helps() {
        let hopeless = |state, silent_ms, busy_ms| {
            Activity { state, busy_ms: 0 }.is_hopeless(silent_ms, busy_ms, 30_000)
        };
        assert!(!hopeless('T', 4_999, 0) && hopeless('T', 5_000, 0), "stopped");
        assert!(!hopeless('t', 60_000, 9_000), "debugged");
        assert!(!hopeless('R', 60_000, 1_990), "it gets no processor");
        assert!(!hopeless('R', 4_999, 4_000) && hopeless('R', 5_000, 2_000), "it spins");
        assert!(!hopeless('D', 600_000, 0), "it waits for a disk, and cannot be killed");
        assert!(!hopeless('S', 34_999, 0), "it may wait for a disk");
        assert!(hopeless('S', 35_000, 0), "no disk takes so long");
        assert!(!hopeless(UNKNOWN, 600_000, 0), "it may be a disk that it waits for");
        assert!(hopeless(UNKNOWN, 5_000, 2_000), "it spins");
    }
}
