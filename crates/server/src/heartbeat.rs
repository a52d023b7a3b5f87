//! Which workers do not run: stopped, or held up by something that should not take so long; and
//! which of them are better replaced.
use regatta_metrics::{SlotView, ThreadBeat};
use regatta_op::Tick;
use regatta_sys::process::Child;
use std::{fs, time::Duration};

/// Between two looks at the workers, milliseconds.
const LOOK_MS: u64 = 750;

/// Looks without a new heartbeat after which a worker is silent. A worker has one every second.
pub(crate) const LOOKS_MIN: u32 = 4;

/// The silence after which a worker may be replaced that is not stopped, milliseconds.
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

/// The name of a thread of a process, which says what its stage does; empty if it has ended.
pub(crate) fn name(pid: u32, thread: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
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

/// What a thread does, as the kernel says: the main thread of a process, which has its heartbeats,
/// or another of which the main thread says that it has not come back. Among thousands of busy
/// threads one may get no processor for seconds, and the time of others is no sign that it goes
/// round in circles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Activity {
    state: char,
    /// The processor time that it has used, milliseconds.
    pub(crate) busy_ms: u64,
}

impl Activity {
    /// Of a thread of a child; `None` if it has ended. Where the files of the child are hidden, as
    /// from a confined keeper, all that is known is whether it is stopped, and if it `is_single`,
    /// which has no other threads, how busy it has been.
    pub(crate) fn of(child: &Child, thread: u32, is_single: bool) -> Option<Self> {
        let told = || (thread == child.pid()).then(|| Self::told(child, is_single))?;
        Self::seen(child.pid(), thread).or_else(told)
    }

    fn seen(pid: u32, thread: u32) -> Option<Self> {
        Self::read(&fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).ok()?)
    }

    fn told(child: &Child, is_single: bool) -> Option<Self> {
        let state = if child.is_stopped().ok()? { 'T' } else { UNKNOWN };
        let busy = if is_single { child.busy().ok()? } else { Duration::ZERO };
        Some(Self { state, busy_ms: u64::try_from(busy.as_millis()).ok()? })
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
        match self.state {
            // Nothing that it does could take longer.
            'T' => true,
            _ if silent_ms < SILENT_MS_MAX => false,
            // Somebody debugs it; or it is in a system call during which it cannot be killed.
            't' | 'D' => false,
            _ if busy_ms >= BUSY_MS_MIN => true,
            // It may wait for a disk.
            'S' => silent_ms >= disk_ms_max.saturating_add(SILENT_MS_MAX),
            // It is ready to run and gets no processor: another would get none. Or, if nobody knows
            // what it does, it may be in such a system call.
            _ => false,
        }
    }
}

/// The last beat of a worker, or of the one of its threads that has not come back for longest.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    beat: Option<ThreadBeat>,
    /// When that was new.
    since: Tick,
    looks: u32,
    /// The processor time used until it was first missed.
    busy_ms: u64,
}

impl Last {
    /// It is this now; `None` if there is none. Looks are counted rather than time, because a
    /// machine that was stopped stops workers and master alike. `activity` tells what the thread
    /// does.
    fn check(
        &mut self,
        beat: Option<ThreadBeat>,
        now: Tick,
        activity: impl FnOnce() -> Option<Activity>,
    ) -> Option<Change> {
        let Some(ThreadBeat { tick_ms, .. }) = beat else {
            *self = Self { since: now, ..Self::default() };
            return None;
        };
        if self.beat != beat {
            let again = (self.looks >= LOOKS_MIN).then(|| Change::Again(now.since(self.since)));
            *self = Self { beat, since: now, ..Self::default() };
            return again;
        }
        self.looks = self.looks.saturating_add(1);
        if self.looks == 1 {
            self.busy_ms = activity().map_or(0, |activity| activity.busy_ms);
        }
        match self.looks {
            LOOKS_MIN => Some(Change::Silent(now.since(self.since))),
            looks if looks > LOOKS_MIN => {
                // That of a worker which has just started may be its predecessor's.
                let seen = Tick(self.since.0.saturating_sub(LOOK_MS));
                let silent_ms = now.since(Tick(tick_ms).max(seen));
                Some(Change::Still { silent_ms, busy_before_ms: self.busy_ms })
            }
            _ => None,
        }
    }
}

/// The heartbeats of all workers, and the oldest beats of their other threads.
#[derive(Debug)]
pub(crate) struct Heartbeats {
    workers: Vec<Last>,
    threads: Vec<Last>,
    next: Tick,
}

impl Heartbeats {
    /// No heartbeat is known yet.
    pub(crate) fn new(workers: usize, now: Tick) -> Self {
        let [workers, threads] = [(); 2].map(|()| vec![Last::default(); workers]);
        Self { workers, threads, next: now.after(LOOK_MS) }
    }

    /// When it is time to look.
    pub(crate) const fn wake_at(&self) -> Tick {
        self.next
    }

    /// True if it is time to look; the next time is then later.
    pub(crate) fn is_due(&mut self, now: Tick) -> bool {
        let due = self.next <= now;
        if due {
            self.next = now.after(LOOK_MS);
        }
        due
    }

    /// A worker has this heartbeat, of its main thread; `None` if there is no worker. `activity`
    /// tells what that thread does.
    pub(crate) fn check(
        &mut self,
        worker: usize,
        heartbeat: Option<ThreadBeat>,
        now: Tick,
        activity: impl FnOnce() -> Option<Activity>,
    ) -> Option<Change> {
        self.workers[worker].check(heartbeat, now, activity)
    }

    /// Of the other threads of a worker, whose heartbeat has been checked, this one has not come
    /// back for longest; `None` if it has no others that are watched. The main thread says so:
    /// where that has had no heartbeat since the last look, nothing is known of the others.
    pub(crate) fn check_threads(
        &mut self,
        worker: usize,
        oldest: Option<ThreadBeat>,
        now: Tick,
        activity: impl FnOnce() -> Option<Activity>,
    ) -> Option<Change> {
        match self.workers[worker].looks {
            0 => self.threads[worker].check(oldest, now, activity),
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
        assert!(!heartbeats.is_due(Tick(749)) && heartbeats.is_due(Tick(750)));
        assert!(!heartbeats.is_due(Tick(1_499)));
        let still = |silent_ms| Some(Change::Still { silent_ms, busy_before_ms: 1_500 });
        let used = |busy_ms| Some(Activity { state: 'S', busy_ms });
        let mut check = |beat: Option<u64>, ms| {
            let beat = beat.map(|tick_ms| ThreadBeat { thread: 77, tick_ms });
            heartbeats.check(0, beat, Tick(ms), || used(ms))
        };
        assert_eq!(check(Some(7), 750), None);
        assert_eq!(check(Some(7), 1_500), None);
        assert_eq!(check(Some(7), 2_250), None);
        assert_eq!(check(Some(7), 3_000), None);
        assert_eq!(check(Some(7), 3_750), Some(Change::Silent(3_000)));
        assert_eq!(check(Some(7), 4_500), still(4_493));
        assert_eq!(check(Some(7), 5_250), still(5_243));
        assert_eq!(check(Some(9), 6_000), Some(Change::Again(5_250)));
        assert_eq!(check(Some(9), 6_750), None);
        assert_eq!(check(None, 7_500), None, "it has ended");
        assert_eq!(check(Some(9), 8_250), None, "another has started");
    }

    #[test]
    fn a_thread_that_does_not_come_back_is_told_by_one_that_does() {
        let mut heartbeats = Heartbeats::new(1, Tick(0));
        let used = |busy_ms| Some(Activity { state: 'R', busy_ms });
        // The heartbeat, the thread whose beat is the oldest, and that.
        let mut check = |main_ms, thread, tick_ms, ms| {
            let main = ThreadBeat { thread: 77, tick_ms: main_ms };
            let changed = heartbeats.check(0, Some(main), Tick(ms), || None);
            assert!(!matches!(changed, Some(Change::Still { .. })), "{changed:?}");
            let oldest = ThreadBeat { thread, tick_ms };
            heartbeats.check_threads(0, Some(oldest), Tick(ms), || used(ms))
        };
        assert_eq!(check(500, 78, 500, 750), None);
        assert_eq!(check(1_250, 79, 500, 1_500), None, "another is as old");
        assert_eq!(check(2_000, 79, 500, 2_250), None);
        assert_eq!(check(2_750, 79, 500, 3_000), None);
        assert_eq!(check(3_500, 79, 500, 3_750), None);
        assert_eq!(check(4_250, 79, 500, 4_500), Some(Change::Silent(3_000)));
        let still = |silent_ms| Some(Change::Still { silent_ms, busy_before_ms: 2_250 });
        assert_eq!(check(5_000, 79, 500, 5_250), still(4_500));
        // Who would tell of it has not been heard.
        assert_eq!(check(5_000, 79, 500, 6_000), None);
        assert_eq!(check(5_000, 79, 500, 6_750), None);
        assert_eq!(check(7_250, 79, 500, 7_500), still(6_750));
        assert_eq!(check(8_000, 79, 8_000, 8_250), Some(Change::Again(6_750)));
        assert_eq!(check(8_750, 78, 8_750, 9_000), None);
    }

    #[test]
    fn the_kernel_says_what_a_process_does() {
        let stat = "77 (a ) b) T 1 77 77 0 -1 4194304 100 0 0 0 150 70 3 4 20 0 1 0 9 0 0\n";
        assert_eq!(Activity::read(stat), Some(Activity { state: 'T', busy_ms: 2_200 }));
        assert_eq!(Activity::read("77 (cut) S 1 77"), None);
        let pid = std::process::id();
        let own = Activity::seen(pid, pid).unwrap();
        assert!("RS".contains(own.state), "{own:?}");
    }

    #[test]
    fn other_threads_are_not_the_one_that_goes_round_in_circles() {
        let pid = std::process::id();
        let busy_ms = || Activity::seen(pid, pid).unwrap().busy_ms;
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
        assert!(hopeless('T', 3_750, 0), "stopped");
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
