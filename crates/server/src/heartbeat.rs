//! Detection of children that do not run, because they are stopped or held up, and of those that
//! are better replaced. One list and one rule cover all children.
use crate::{log::ErrorLog, messages};
use regatta_metrics::{SlotView, ThreadBeat};
use regatta_op::Tick;
use regatta_sys::process::Child;
use std::{collections::BTreeMap, fs, time::Duration};

/// The time between two checks of all children, milliseconds.
const LOOK_MS: u64 = 750;

/// Number of checks without a new heartbeat after which a child is silent. A worker has one every
/// second.
const LOOKS_MIN: u32 = 4;

/// Silence after which a worker that is not stopped may be replaced, milliseconds.
const SILENT_MS_MAX: u64 = 5_000;

/// Processor time, in milliseconds, by which a silent worker is known to loop. A worker that gets
/// no processor uses less.
const BUSY_MS_MIN: u64 = 2_000;

/// A unit of the times in `/proc/PID/task/TID/stat`, milliseconds (`USER_HZ`, which is 100
/// everywhere).
const STAT_TICK_MS: u64 = 10;

/// The state of a process that runs, or waits for something.
const UNKNOWN: char = '?';

/// Age of a heartbeat from which on a worker counts as not answering, milliseconds.
const ANSWER_MS_MAX: u64 = 3_000;

/// True if there is a worker and it has had a heartbeat recently.
pub(crate) fn answers(slot: &SlotView<'_>, now: Tick) -> bool {
    slot.pid() != 0 && is_recent(slot.heartbeat_ms(), now)
}

/// True if a heartbeat at that time, milliseconds of the monotonic clock, is that of a process that
/// answers.
pub(crate) fn is_recent(heartbeat_ms: u64, now: Tick) -> bool {
    now.since(Tick(heartbeat_ms)) < ANSWER_MS_MAX
}

/// Name of a thread, which names its stage; empty if the thread has ended.
fn name(pid: u32, thread: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// The role of a child of the master, or of the keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Serves connections; the number of the worker.
    Worker(usize),
    /// Starts workers that share one table of descriptors.
    Keeper,
    /// Answers monitors.
    Admin,
    /// Opens the path of a root.
    Scout,
    /// Tests whether the next image could serve.
    Trial,
    /// Works on files instead of the master.
    Errand,
    /// Serves, or drains, for an earlier image.
    Old {
        /// Number of its generation.
        generation: u64,
        /// Whether it has been ordered to leave: another has taken its place.
        leaves: bool,
    },
}

impl Role {
    /// Names a child in this role.
    fn name(self) -> String {
        match self {
            Self::Worker(worker) => format!("worker {worker}"),
            Self::Keeper => "the keeper".to_owned(),
            Self::Admin => "the admin process".to_owned(),
            Self::Scout => "the lookup of a root".to_owned(),
            Self::Trial => "the trial of a reload".to_owned(),
            Self::Errand => "the process that works on files".to_owned(),
            Self::Old { generation, .. } => format!("a worker of generation {generation}"),
        }
    }

    /// Names what follows when a child in this role is killed.
    const fn after(self) -> &'static str {
        match self {
            Self::Worker(_) | Self::Keeper | Self::Admin => "another takes its place",
            Self::Scout => "the root is looked up again",
            Self::Trial => "the reload is refused",
            Self::Errand => "its work is not done",
            Self::Old { .. } => "its generation leaves anyway",
        }
    }
}

/// Child, and the data on its heartbeat.
#[derive(Debug)]
pub(crate) struct Watched<'a> {
    pub(crate) role: Role,
    pub(crate) child: &'a Child,
    beat_ms: Option<u64>,
    oldest: Option<ThreadBeat>,
    is_single: bool,
}

impl<'a> Watched<'a> {
    /// Watches a child without a heartbeat: it is silent while a signal has stopped it.
    pub(crate) const fn new(role: Role, child: &'a Child) -> Self {
        Self { role, child, beat_ms: None, oldest: None, is_single: false }
    }

    /// Sets the heartbeat, milliseconds of the monotonic clock.
    pub(crate) const fn beating(self, beat_ms: u64) -> Self {
        Self { beat_ms: Some(beat_ms), ..self }
    }

    /// Watches a worker that counts in this slot. `is_single`: it has one thread.
    pub(crate) fn worker(
        role: Role,
        child: &'a Child,
        slot: &SlotView<'_>,
        is_single: bool,
    ) -> Self {
        // In this order: the data on other threads is as new as the heartbeat, or newer.
        let beat_ms = Some(slot.heartbeat_ms());
        Self { role, child, beat_ms, oldest: slot.oldest_beat(), is_single }
    }

    fn activity(&self, thread: u32) -> Option<Activity> {
        Activity::read(self.child, thread, self.is_single)
    }
}

/// A finding of a check about one child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) role: Role,
    pub(crate) pid: u32,
    /// Thread concerned: the first has the number of its process.
    thread: u32,
    change: Change,
    /// The child is to be killed, because that helps; found once in a silence.
    pub(crate) is_hopeless: bool,
}

impl Finding {
    fn name(&self) -> String {
        let Self { role, pid, thread, .. } = *self;
        let role = role.name();
        match thread == pid {
            true => format!("{role} (process {pid})"),
            false => format!("{role} (process {pid}): its thread {thread} ({})", name(pid, thread)),
        }
    }

    /// Reports the finding; `kills`: the child is killed for it.
    pub(crate) fn note(&self, errors: &ErrorLog, kills: bool) {
        let name = self.name();
        match self.change {
            Change::Silent(ms) => errors.note(
                messages::WORKER_SILENT,
                format_args!(
                    "{name} has not answered for {ms} ms: it is stopped, or something that it \
                     waits for hangs"
                ),
            ),
            Change::Again(ms) => {
                errors.note(
                    messages::WORKER_BACK,
                    format_args!("{name} answers again after {ms} ms"),
                );
            }
            Change::Still { silent_ms: ms, .. } if kills => {
                let after = self.role.after();
                errors.note(
                    messages::WORKER_KILLED,
                    format_args!(
                        "{name} has not answered for {ms} ms, and the process is killed: {after}"
                    ),
                );
            }
            Change::Still { .. } => {}
        }
    }
}

/// Silence that all of these workers have in common, milliseconds, if no disk can be the reason.
/// Then no process will release what they wait for.
pub(crate) fn all_silent(findings: &[Finding], workers: usize, disk_ms_max: u64) -> Option<u64> {
    let silent = findings.iter().filter_map(|found| match found.change {
        Change::Still { silent_ms, .. } if found.thread == found.pid => Some(silent_ms),
        _ => None,
    });
    let silent: Vec<u64> = silent.collect();
    let least = silent.iter().copied().min()?;
    let are_all = silent.len() >= workers;
    (are_all && least >= disk_ms_max.saturating_add(SILENT_MS_MAX)).then_some(least)
}

/// Change in the heartbeat of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// No heartbeat for this many milliseconds.
    Silent(u64),
    /// A heartbeat again, after this many milliseconds.
    Again(u64),
    /// Still no heartbeat, which has been reported.
    Still {
        /// Age of its last heartbeat, milliseconds.
        silent_ms: u64,
        /// Processor time at the first check that missed it, milliseconds.
        busy_before_ms: u64,
    },
}

/// Activity of a thread, from the kernel: the main thread of a process, or one that it reports as
/// not back. The main thread has the heartbeats. Other threads' processor time is no sign that a
/// thread loops: among thousands of busy threads one may get no processor for seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Activity {
    state: char,
    /// The processor time that it has used, milliseconds.
    pub(crate) busy_ms: u64,
}

impl Activity {
    /// Reads the activity of a thread of a child; `None` if it has ended. Where the child's files
    /// are hidden, as from a confined keeper, only its stop is visible. If it `is_single`, with no
    /// other threads, its processor time is visible, too.
    pub(crate) fn read(child: &Child, thread: u32, is_single: bool) -> Option<Self> {
        let asked = || (thread == child.pid()).then(|| Self::ask_kernel(child, is_single))?;
        Self::read_files(child.pid(), thread).or_else(asked)
    }

    fn read_files(pid: u32, thread: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).ok()?)
    }

    fn ask_kernel(child: &Child, is_single: bool) -> Option<Self> {
        let state = if child.is_stopped().ok()? { 'T' } else { UNKNOWN };
        let busy = if is_single { child.busy().ok()? } else { Duration::ZERO };
        Some(Self { state, busy_ms: u64::try_from(busy.as_millis()).ok()? })
    }

    fn parse(stat: &str) -> Option<Self> {
        // The name in parentheses may have any character, even a parenthesis.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        // Field 3 is the state; 14 and 15 are the times in user and in kernel mode.
        let mut times = fields.skip(10).map(str::parse::<u64>);
        let (user, kernel) = (times.next()?.ok()?, times.next()?.ok()?);
        Some(Self { state, busy_ms: user.saturating_add(kernel).saturating_mul(STAT_TICK_MS) })
    }

    /// True if a worker in this state is to be killed, because another would do better. It has been
    /// silent for `silent_ms`, and has used `busy_ms` of processor time meanwhile.
    pub(crate) fn is_hopeless(self, silent_ms: u64, busy_ms: u64, disk_ms_max: u64) -> bool {
        match self.state {
            // A stopped worker does no work that could explain its silence.
            'T' => true,
            _ if silent_ms < SILENT_MS_MAX => false,
            // A debugger has stopped it; or it is in a system call during which it cannot be
            // killed.
            't' | 'D' => false,
            _ if busy_ms >= BUSY_MS_MIN => true,
            // A disk may delay it.
            'S' => silent_ms >= disk_ms_max.saturating_add(SILENT_MS_MAX),
            // A ready worker gets no processor: another would get none. In an unknown state it may
            // be in such a system call.
            _ => false,
        }
    }
}

/// Last beat of a worker, or of its thread that has been away for longest.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    beat: Option<ThreadBeat>,
    /// Tick at which that beat was new.
    since: Tick,
    looks: u32,
    /// Processor time used until the beat was first missed, milliseconds.
    busy_ms: u64,
}

impl Last {
    /// Compares the present beat with the last; `None` if there is none. Counts checks rather than
    /// time, because a stopped machine stops workers and master alike. `activity` reads what the
    /// thread does.
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
                // A worker that has just started may show its predecessor's beat.
                let seen = Tick(self.since.0.saturating_sub(LOOK_MS));
                let silent_ms = now.since(Tick(tick_ms).max(seen));
                Some(Change::Still { silent_ms, busy_before_ms: self.busy_ms })
            }
            _ => None,
        }
    }
}

/// Beats of one child.
#[derive(Clone, Copy, Debug, Default)]
struct Beats {
    main: Last,
    /// Other thread that has been away for longest.
    other: Last,
    /// Whether a check has found the child hopeless.
    condemned: bool,
}

/// Beats of all children, by process.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    seen: BTreeMap<u32, Beats>,
    next: Tick,
}

impl Watch {
    /// Begins without heartbeats.
    pub(crate) fn new(now: Tick) -> Self {
        Self { seen: BTreeMap::new(), next: now.after(LOOK_MS) }
    }

    pub(crate) const fn wake_at(&self) -> Tick {
        self.next
    }

    /// True if it is time to check; moves the next check to later.
    pub(crate) fn is_due(&mut self, now: Tick) -> bool {
        let due = self.next <= now;
        if due {
            self.next = now.after(LOOK_MS);
        }
        due
    }

    /// Checks all children, and forgets those that are not there any more.
    pub(crate) fn check(
        &mut self,
        children: &[Watched<'_>],
        now: Tick,
        disk_ms_max: u64,
    ) -> Vec<Finding> {
        let mut seen = BTreeMap::new();
        let mut findings = Vec::new();
        for watched in children {
            let pid = watched.child.pid();
            let mut beats = self.seen.remove(&pid).unwrap_or_default();
            let tick_ms = watched.beat_ms.unwrap_or_else(|| beats.implied(watched.child, now));
            let what = Seen {
                role: watched.role,
                main: ThreadBeat { thread: pid, tick_ms },
                oldest: watched.oldest,
                activity: &|thread| watched.activity(thread),
            };
            beats.check(&what, now, disk_ms_max, &mut findings);
            seen.insert(pid, beats);
        }
        self.seen = seen;
        findings
    }
}

/// The state of a child at one check.
struct Seen<'a> {
    role: Role,
    /// Heartbeat of the first thread.
    main: ThreadBeat,
    /// Thread that has been away for longest.
    oldest: Option<ThreadBeat>,
    /// Reads what a thread does.
    activity: &'a dyn Fn(u32) -> Option<Activity>,
}

impl Beats {
    fn check(&mut self, seen: &Seen<'_>, now: Tick, disk_ms_max: u64, found: &mut Vec<Finding>) {
        let Seen { role, main, oldest, activity } = *seen;
        let pid = main.thread;
        let changed = self.main.check(Some(main), now, || activity(pid));
        // The first thread reports the others: without a new heartbeat of its own, nothing is known
        // of them.
        let other = match self.main.looks {
            0 => self.other.check(oldest, now, || activity(oldest?.thread)),
            _ => None,
        };
        let oldest = oldest.map_or(pid, |beat| beat.thread);
        for (thread, change) in [(pid, changed), (oldest, other)] {
            let Some(change) = change else { continue };
            let dies = change.is_hopeless(|| activity(thread), disk_ms_max);
            let is_hopeless = dies && !self.condemned;
            self.condemned = (self.condemned || dies) && !matches!(change, Change::Again(_));
            found.push(Finding { role, pid, thread, change, is_hopeless });
        }
    }

    /// Heartbeat of a child that has none of its own: a new one, unless it is stopped.
    fn implied(&self, child: &Child, now: Tick) -> u64 {
        let last = self.main.beat.map(|beat| beat.tick_ms);
        match child.is_stopped() {
            Ok(true) => last.unwrap_or(now.0),
            _ => now.0,
        }
    }
}

impl Change {
    /// True if the child is to be killed. `activity`: reads what the thread does.
    fn is_hopeless(self, activity: impl FnOnce() -> Option<Activity>, disk_ms_max: u64) -> bool {
        let Self::Still { silent_ms, busy_before_ms } = self else { return false };
        activity().is_some_and(|now| {
            now.is_hopeless(silent_ms, now.busy_ms.saturating_sub(busy_before_ms), disk_ms_max)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_reported_once_and_so_is_its_end() {
        let mut watch = Watch::new(Tick(0));
        assert!(!watch.is_due(Tick(749)) && watch.is_due(Tick(750)));
        assert!(!watch.is_due(Tick(1_499)));
        let still = |silent_ms| Some(Change::Still { silent_ms, busy_before_ms: 1_500 });
        let used = |busy_ms| Some(Activity { state: 'S', busy_ms });
        let mut last = Last::default();
        let mut check = |beat: Option<u64>, ms| {
            let beat = beat.map(|tick_ms| ThreadBeat { thread: 77, tick_ms });
            last.check(beat, Tick(ms), || used(ms))
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

    const PID: u32 = 77;

    /// Findings of a check of one worker: the thread, the change, and whether it is to be killed.
    fn found(
        beats: &mut Beats,
        beat_ms: u64,
        oldest: Option<(u32, u64)>,
        ms: u64,
        activity: Activity,
    ) -> Vec<(u32, Change, bool)> {
        let oldest = oldest.map(|(thread, tick_ms)| ThreadBeat { thread, tick_ms });
        let main = ThreadBeat { thread: PID, tick_ms: beat_ms };
        let mut findings = Vec::new();
        let seen = Seen { role: Role::Worker(0), main, oldest, activity: &|_| Some(activity) };
        beats.check(&seen, Tick(ms), 30_000, &mut findings);
        findings.iter().map(|found| (found.thread, found.change, found.is_hopeless)).collect()
    }

    #[test]
    fn a_thread_that_does_not_come_back_is_told_by_one_that_does() {
        let mut beats = Beats::default();
        // Arguments: the heartbeat, the thread with the oldest beat, and that beat.
        let mut check = |main_ms, thread, tick_ms, ms| {
            let activity = Activity { state: 'R', busy_ms: ms };
            let found = found(&mut beats, main_ms, Some((thread, tick_ms)), ms, activity);
            found.into_iter().map(|(of, change, dies)| (of == thread, change, dies)).next()
        };
        assert_eq!(check(500, 78, 500, 750), None);
        assert_eq!(check(1_250, 79, 500, 1_500), None, "another is as old");
        assert_eq!(check(2_000, 79, 500, 2_250), None);
        assert_eq!(check(2_750, 79, 500, 3_000), None);
        assert_eq!(check(3_500, 79, 500, 3_750), None);
        assert_eq!(check(4_250, 79, 500, 4_500), Some((true, Change::Silent(3_000), false)));
        let still = |silent_ms| Change::Still { silent_ms, busy_before_ms: 2_250 };
        assert_eq!(check(5_000, 79, 500, 5_250), Some((true, still(4_500), false)));
        // The reporting thread has had no heartbeat.
        assert_eq!(check(5_000, 79, 500, 6_000), None);
        assert_eq!(check(5_000, 79, 500, 6_750), None);
        assert_eq!(check(7_250, 79, 500, 7_500), Some((true, still(6_750), true)));
        assert_eq!(check(8_000, 79, 500, 8_250), Some((true, still(7_500), false)), "once");
        assert_eq!(check(8_750, 79, 8_750, 9_000), Some((true, Change::Again(7_500), false)));
        assert_eq!(check(9_500, 78, 9_500, 9_750), None);
    }

    /// A child in any role is named at the fifth check and killed at the sixth.
    #[test]
    fn a_child_that_is_stopped_is_killed_within_five_seconds() {
        let mut beats = Beats::default();
        let stopped = Activity { state: 'T', busy_ms: 0 };
        for check in 1..5 {
            assert_eq!(found(&mut beats, 700, None, check * LOOK_MS, stopped), []);
        }
        let named = found(&mut beats, 700, None, 5 * LOOK_MS, stopped);
        assert_eq!(named, [(PID, Change::Silent(3_000), false)]);
        let killed = found(&mut beats, 700, None, 6 * LOOK_MS, stopped);
        assert!(matches!(killed[..], [(PID, Change::Still { .. }, true)]), "{killed:?}");
        const { assert!(6 * LOOK_MS < 5_000) };
    }

    #[test]
    fn all_workers_that_are_silent_for_longer_than_a_disk_may_take_wait_for_each_other() {
        let still = |pid, thread, silent_ms| Finding {
            role: Role::Worker(0),
            pid,
            thread,
            change: Change::Still { silent_ms, busy_before_ms: 0 },
            is_hopeless: false,
        };
        let all = |findings: &[Finding]| all_silent(findings, 2, 30_000);
        assert_eq!(all(&[still(7, 7, 36_000), still(8, 8, 35_000)]), Some(35_000));
        assert_eq!(all(&[still(7, 7, 36_000), still(8, 8, 34_999)]), None, "a disk may");
        assert_eq!(all(&[still(7, 7, 36_000)]), None, "the other answers");
        assert_eq!(all(&[still(7, 7, 36_000), still(7, 9, 36_000)]), None, "one process");
        assert_eq!(all(&[]), None);
    }

    #[test]
    fn the_kernel_says_what_a_process_does() {
        let stat = "77 (a ) b) T 1 77 77 0 -1 4194304 100 0 0 0 150 70 3 4 20 0 1 0 9 0 0\n";
        assert_eq!(Activity::parse(stat), Some(Activity { state: 'T', busy_ms: 2_200 }));
        assert_eq!(Activity::parse("77 (cut) S 1 77"), None);
        let pid = std::process::id();
        let own = Activity::read_files(pid, pid).unwrap();
        assert!("RS".contains(own.state), "{own:?}");
    }

    #[test]
    fn other_threads_are_not_the_one_that_goes_round_in_circles() {
        let pid = std::process::id();
        let busy_ms = || Activity::read_files(pid, pid).unwrap().busy_ms;
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
