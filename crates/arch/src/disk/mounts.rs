//! Helpers by mount: a file system that hangs costs its own helpers, and requests for others do not
//! wait for them.
//!
//! A file belongs to its device. A path that is to be opened belongs to the device of the deepest
//! folder on it that memory knows.
use super::{
    at_once::{Completion, DiskResult},
    helpers::{HelperJob, HelperLimits, HelperPool, Helpers},
};
use crate::{
    Notice, WorkerLog,
    control::{HelperCount, HelperDecision, HelperReason, HelperRules, HelperSample},
    drive::perform::Below,
};
use regatta_metrics::{Counter, Tally};
use regatta_op::{Abandoned, OpenReq};
use regatta_sys::{
    clock, device_numbers, known_device,
    wait::{Epoll, Interest, Poller as _, Trigger},
};
use std::{
    fmt, io,
    os::fd::{AsFd as _, BorrowedFd},
};

/// The most mounts with helpers of their own; further ones share those of the first.
pub const MOUNTS_MAX: usize = 32;

/// Makes a pool of helpers for a mount.
type MakePool<'a, C> = Box<dyn Fn() -> io::Result<C> + 'a>;

/// Effect of the controllers of all mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlMode {
    /// Decisions are carried out.
    Acts,
    /// Decisions are only counted and logged.
    DryRun,
    /// Nothing is decided.
    Frozen,
}

/// Control of the number of helpers of each mount.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "holds a log that need not have one")]
pub struct MountControl<'a> {
    /// Rules of each mount.
    pub rules: HelperRules,
    /// Effect of decisions.
    pub mode: ControlMode,
    /// Log of changes.
    pub log: &'a dyn WorkerLog,
}

/// Helpers of all mounts that one loop serves from.
#[expect(missing_debug_implementations, reason = "a pool need not have one")]
pub struct Mounts<'a, C> {
    make: MakePool<'a, C>,
    below: Below<'a>,
    control: MountControl<'a>,
    mounts: Vec<Mount<'a, C>>,
    /// By number of a root: index of its mount.
    roots: Vec<usize>,
    /// Watches the pools of all mounts.
    poller: Epoll,
    /// Mount whose completions are taken next.
    next: usize,
    tally: Tally<'a>,
}

struct Mount<'a, C> {
    helpers: Helpers<'a, C>,
    /// Device of its files; `None` where the system did not say.
    device: Option<u64>,
    count: HelperCount,
    /// Last decision that was logged.
    logged: (u32, HelperReason),
}

impl<C: HelperPool> Mount<'_, C> {
    fn helpers_max(&self) -> u32 {
        u32::try_from(self.helpers.helpers_max()).unwrap_or(u32::MAX)
    }

    /// Decides how many helpers may run, if it is time.
    fn decide(&mut self, now_ns: u64) -> Option<HelperDecision> {
        let (queue, work) = (self.helpers.queued() as u64, self.helpers.work());
        let sample = HelperSample { helpers: self.helpers_max(), queue, work };
        self.count.observe(sample, now_ns)
    }

    /// Whether a decision is to be logged: it changes the number, and is not logged yet.
    fn is_reported(&mut self, decision: &HelperDecision) -> bool {
        let HelperDecision { helpers, before, reason, .. } = *decision;
        let is_reported = helpers != before && (helpers, reason) != self.logged;
        if is_reported {
            self.logged = (helpers, reason);
        }
        is_reported
    }
}

/// Name of a mount in the log: its device, as in `/proc/self/mountinfo`.
struct DeviceName(Option<u64>);

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.map(device_numbers) {
            Some((major, minor)) => write!(f, "{major}:{minor}"),
            None => f.write_str("unknown"),
        }
    }
}

impl<'a, C: HelperPool> Mounts<'a, C> {
    /// Helpers of the mounts that the roots are on; none is started yet.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new(
        make: MakePool<'a, C>,
        below: Below<'a>,
        control: MountControl<'a>,
        tally: Tally<'a>,
    ) -> io::Result<Self> {
        let (mounts, roots, poller) = (Vec::new(), Vec::new(), Epoll::new(Trigger::Level)?);
        let mut made = Self { make, below, control, mounts, roots, poller, next: 0, tally };
        made.find_roots()?;
        Ok(made)
    }

    fn find_roots(&mut self) -> io::Result<()> {
        self.roots.clear();
        for root in self.below.root.all() {
            let device = root.device();
            let known = self.mounts.iter().position(|mount| mount.device == device);
            let at = match known {
                Some(at) => at,
                None => self.add(device)?,
            };
            self.roots.push(at);
        }
        Ok(())
    }

    /// Adds a mount, in place of one without tasks if there are too many.
    fn add(&mut self, device: Option<u64>) -> io::Result<usize> {
        let mut at = self.mounts.len();
        if at >= MOUNTS_MAX {
            let mut places = 0..at;
            let is_free =
                |at: &usize| !self.roots.contains(at) && !self.mounts[*at].helpers.has_tasks();
            at = places.find(is_free).ok_or(io::ErrorKind::QuotaExceeded)?;
        }
        let rules = self.control.rules;
        let helpers_max = rules.helpers_min as usize;
        let helpers_idle_max = helpers_max.div_ceil(2);
        let limits = HelperLimits { helpers_max, helpers_idle_max, ..HelperLimits::PROMPT };
        let helpers = Helpers::new((self.make)()?, limits, self.tally);
        self.poller.add(helpers.source(), at as u64, Interest::READ)?;
        self.tally.add(Counter::AutoHelpersAdded, rules.helpers_min.into());
        let count = HelperCount::new(rules, clock::nanos());
        let logged = (rules.helpers_min, HelperReason::Steady);
        let mount = Mount { helpers, device, count, logged };
        match self.mounts.get_mut(at) {
            None => self.mounts.push(mount),
            Some(place) => {
                let old = std::mem::replace(place, mount);
                self.tally.add(Counter::AutoHelpersRemoved, old.helpers_max().into());
                // Its threads may have it open for a while.
                let _ = self.poller.remove(old.helpers.source());
            }
        }
        Ok(at)
    }

    /// The mount of a root.
    fn of_root(&self, number: u16) -> usize {
        // Below a root that does not exist no file is found.
        self.roots.get(usize::from(number)).map_or(self.roots[0], |at| *at)
    }

    /// Whether what memory knows of a path's root can be opened without a wait. A helper finds out
    /// when it opens the first file.
    pub fn opens_in_memory(&self, req: &OpenReq) -> bool {
        let mount = &self.mounts[self.of_root(req.below().0)];
        mount.helpers.pool().file_system().is_some_and(|system| {
            system.opens_in_memory && mount.device.is_none_or(|device| device == system.device)
        })
    }

    /// The mount that a path leads to.
    pub fn of_path(&mut self, req: &OpenReq) -> usize {
        let Below { root, rules } = self.below;
        match known_device(root, req, rules) {
            Some(device) => self.of_device(device),
            None => self.of_root(req.below().0),
        }
    }

    /// The mount with the files of a device; the first stands in for one that cannot be added.
    pub fn of_device(&mut self, device: u64) -> usize {
        let known = self.mounts.iter().position(|mount| mount.device == Some(device));
        known.unwrap_or_else(|| self.add(Some(device)).unwrap_or(self.roots[0]))
    }

    /// Number of tasks that wait for a helper of a mount.
    pub fn queued(&self, mount: usize) -> usize {
        self.mounts[mount].helpers.queued()
    }

    /// Queues a task for the helpers of a mount, or runs it if it has none and none can be started:
    /// then this is the result.
    pub fn submit_or_run(&mut self, mount: usize, job: HelperJob) -> Option<DiskResult> {
        let result = self.mounts[mount].helpers.submit_or_run(job, self.below);
        self.control(mount);
        result
    }

    /// Lets the controller of a mount decide, if it is time.
    fn control(&mut self, at: usize) {
        let MountControl { mode, log, .. } = self.control;
        if mode == ControlMode::Frozen {
            return;
        }
        let mount = &mut self.mounts[at];
        let Some(decision) = mount.decide(clock::nanos()) else { return };
        self.tally.add(Counter::Decisions, 1);
        if let Some(counter) = counter(decision.reason) {
            self.tally.add(counter, 1);
        }
        if mount.is_reported(&decision) {
            let would = if mode == ControlMode::DryRun { "dry run: " } else { "" };
            let name = DeviceName(mount.device);
            let line = format_args!("auto: {would}mount {name}: {decision}");
            log.notice(Notice::Decision, line);
        }
        let HelperDecision { helpers, before, .. } = decision;
        if helpers == before || mode == ControlMode::DryRun {
            return;
        }
        self.tally.add(Counter::DecisionsChanged, 1);
        self.tally.add(Counter::AutoHelpersAdded, helpers.saturating_sub(before).into());
        self.tally.add(Counter::AutoHelpersRemoved, before.saturating_sub(helpers).into());
        mount.helpers.resize(helpers as usize);
    }

    /// Reports files that helpers wait for too long, and lets the controllers see mounts that no
    /// request comes for.
    pub fn check(&mut self, now_ns: u64, log: &dyn WorkerLog) {
        for at in 0..self.mounts.len() {
            self.control(at);
            let Mount { helpers, device, .. } = &mut self.mounts[at];
            helpers.check(format_args!("mount {}: ", DeviceName(*device)), now_ns, log);
        }
    }

    /// Forgets tasks of a connection.
    pub fn forget(&mut self, key: u64, what: Abandoned) {
        self.mounts.iter_mut().for_each(|mount| mount.helpers.forget(key, what));
    }

    /// The root has been replaced.
    pub fn renew_root(&mut self) {
        self.mounts.iter_mut().for_each(|mount| mount.helpers.renew_root());
        // Where no more can be added, the first mount serves the new root.
        if self.find_roots().is_err() && self.roots.is_empty() {
            self.roots.push(0);
        }
    }

    /// Readable while there may be completions.
    pub fn source(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }

    /// The next completion that a connection waits for, of any mount.
    pub fn next_completion(&mut self) -> Option<Completion> {
        for _ in 0..self.mounts.len() {
            let at = self.next % self.mounts.len();
            if let Some(completion) = self.mounts[at].helpers.next_completion(self.below) {
                self.control(at);
                return Some(completion);
            }
            self.next = at + 1;
        }
        None
    }
}

/// Counter of a reason, if it is counted.
const fn counter(reason: HelperReason) -> Option<Counter> {
    match reason {
        HelperReason::Waits => Some(Counter::AutoGrown),
        HelperReason::Idle => Some(Counter::AutoShrunk),
        HelperReason::NoFaster => Some(Counter::AutoUndone),
        HelperReason::AtMost => Some(Counter::AutoAtMost),
        HelperReason::Hangs => Some(Counter::AutoHung),
        HelperReason::Steady => None,
    }
}

#[cfg(test)]
impl Mounts<'_, super::helpers::schedule::RandomHelpers<'_>> {
    /// Allows some results of each mount; at the end all that are left, and no more deaths.
    pub(crate) fn stir(&mut self, dice: &mut crate::testing::dice::Dice, over: bool) {
        self.mounts.iter_mut().for_each(|mount| mount.helpers.stir(dice, over));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{
        at_once::schedule::Folder,
        helpers::{HelperTask, Purpose, schedule::RandomHelpers},
    };
    use crate::testing::{dice::Dice, notices::Notices};
    use regatta_metrics::Counter;
    use regatta_metrics::Gauge;
    use regatta_op::{Codings, Ticket};
    use regatta_origin::NoLog;
    use regatta_sys::{OpenRules, hook};
    use regatta_testkit::counters::arena;

    const RULES: HelperRules =
        HelperRules { helpers_min: 2, helpers_max: 8, period_ms: 100, wait_us_max: 1000 };

    fn job(key: u64) -> HelperJob {
        let req = OpenReq { path: (*b"1").into(), siblings: Codings::NONE };
        HelperJob::new(key, Purpose::Open(Ticket(0)), HelperTask::Open(req))
    }

    /// Mounts whose helpers finish nothing until they are stirred.
    fn with(test: impl for<'a> FnOnce(Mounts<'a, RandomHelpers<'a>>, Tally<'a>)) {
        controlled(ControlMode::Acts, &NoLog, test);
    }

    fn controlled(
        mode: ControlMode,
        log: &dyn WorkerLog,
        test: impl for<'a> FnOnce(Mounts<'a, RandomHelpers<'a>>, Tally<'a>),
    ) {
        let (folder, arena) = (Folder::new(), arena(1));
        let (root, rules) = (&folder.root, OpenRules::default());
        let tally = Tally::Owned(arena.slot(0));
        hook::set_time(1, 0);
        let make = Box::new(move || {
            let mut pool = RandomHelpers::new(1, Some((root, rules)));
            pool.failing = false;
            Ok(pool)
        });
        let control = MountControl { rules: RULES, mode, log };
        test(Mounts::new(make, Below { root, rules }, control, tally).unwrap(), tally);
        hook::clear();
    }

    /// Twenty tasks for the mount of the root, nearly all waiting for `wait_ms`; and one more when
    /// the first period is over.
    fn load(mounts: &mut Mounts<'_, RandomHelpers<'_>>, wait_ms: u64) {
        (0..20).for_each(|key| drop(mounts.submit_or_run(0, job(key))));
        hook::set_time(1 + wait_ms * 1_000_000, 0);
        mounts.stir(&mut Dice::new(1), true);
        while mounts.next_completion().is_some() {}
        hook::set_time(110_000_000, 0);
        assert!(mounts.submit_or_run(0, job(20)).is_none());
    }

    #[test]
    fn decisions_act_unless_they_are_only_shown_or_frozen() {
        let text = "helpers=3 before=2: tasks wait: queue=0 wait_us=";
        for (mode, wait_ms, helpers, counted, start) in [
            (ControlMode::Acts, 50, 3, [1, 1, 1], Some("auto: mount ")),
            (ControlMode::DryRun, 50, 2, [1, 0, 1], Some("auto: dry run: mount ")),
            (ControlMode::Frozen, 50, 2, [0, 0, 0], None),
            // Nothing waited: nothing to do.
            (ControlMode::Acts, 0, 2, [1, 0, 0], None),
        ] {
            let log = Notices::default();
            controlled(mode, &log, |mut mounts, tally| {
                load(&mut mounts, wait_ms);
                let counters = [Counter::Decisions, Counter::DecisionsChanged, Counter::AutoGrown];
                let get = |counter| tally.slot().get(counter);
                assert_eq!(counters.map(get), counted, "{mode:?} {wait_ms}");
                assert_eq!(mounts.mounts[0].helpers_max(), helpers, "{mode:?} {wait_ms}");
                assert_eq!(tally.slot().gauge(Gauge::AutoHelpers), helpers.into());
            });
            let lines = log.take();
            let is_expected = |line: &String| {
                start.is_some_and(|start| line.starts_with(start)) && line.contains(text)
            };
            assert!(lines.iter().all(is_expected), "{lines:?}");
            assert_eq!(lines.len(), usize::from(start.is_some()), "{mode:?} {wait_ms}");
        }
    }

    #[test]
    fn a_hang_is_logged_when_it_begins_and_ends() {
        let log = Notices::default();
        controlled(ControlMode::Acts, &log, |mut mounts, tally| {
            for key in 0..20 {
                hook::set_time(1 + key * 100_000_000, 0);
                assert!(mounts.submit_or_run(0, job(key)).is_none());
            }
            assert_eq!(tally.slot().get(Counter::AutoHung), 18, "from the third task on");
            assert_eq!(mounts.mounts[0].helpers_max(), 2, "more would hang, too");
            hook::set_time(2_000_000_001, 0);
            mounts.check(2_000_000_001, &log);
            assert_eq!(tally.slot().get(Counter::AutoHung), 19, "no request came");
            mounts.stir(&mut Dice::new(1), true);
            while mounts.next_completion().is_some() {}
            mounts.check(2_100_000_000, &log);
        });
        let lines = log.take();
        assert!(lines[0].starts_with("mount "), "{lines:?}");
        assert!(lines[0].contains("opening /1 below the root has taken 2.0 s"), "{lines:?}");
        assert!(lines[0].contains("19 other operations wait"), "{lines:?}");
        assert!(lines[1].ends_with("files are answered again, after 2.1 s"), "{lines:?}");
        assert_eq!(lines.len(), 2, "{lines:?}");
    }

    #[test]
    fn a_mount_that_hangs_costs_its_own_helpers() {
        with(|mut mounts, tally| {
            let [slow, fast] = [1, 2].map(|device| mounts.of_device(device));
            assert_ne!(slow, fast);
            for key in 0..10 {
                assert!(mounts.submit_or_run(slow, job(key)).is_none());
            }
            assert_eq!(mounts.queued(slow), 8, "two helpers hang");
            for key in 10..14 {
                assert!(mounts.submit_or_run(fast, job(key)).is_none());
            }
            assert_eq!(tally.slot().get(Counter::HelpersStarted), 4);
            mounts.mounts[fast].helpers.stir(&mut Dice::new(1), true);
            let mut served: Vec<u64> = Vec::new();
            while let Some(completion) = mounts.next_completion() {
                served.push(completion.key);
            }
            served.sort_unstable();
            assert_eq!(served, [10, 11, 12, 13]);
            assert_eq!((mounts.queued(slow), mounts.queued(fast)), (8, 0));
        });
    }

    #[test]
    fn a_device_has_one_mount_and_the_root_is_known() {
        with(|mut mounts, _| {
            let device = mounts.below.root.device().unwrap();
            assert_eq!(mounts.of_device(device), 0);
            let req = OpenReq { path: (*b"a/b").into(), siblings: Codings::NONE };
            assert_eq!(mounts.of_path(&req), 0);
            let other = mounts.of_device(device + 1);
            assert_eq!((other, mounts.of_device(device + 1)), (1, 1));
            mounts.renew_root();
            assert_eq!((mounts.of_device(device), mounts.of_device(device + 1)), (0, 1));
        });
    }

    #[test]
    fn mounts_without_tasks_make_room_for_others() {
        with(|mut mounts, _| {
            let device = mounts.below.root.device().unwrap();
            for at in 1..=MOUNTS_MAX as u64 {
                mounts.of_device(device + at);
            }
            assert_eq!(mounts.mounts.len(), MOUNTS_MAX);
            assert_eq!(mounts.of_device(device), 0, "a root keeps its place");
            for at in 1..MOUNTS_MAX {
                assert!(mounts.submit_or_run(at, job(at as u64)).is_none());
            }
            assert_eq!(mounts.of_device(device + 1000), 0, "all others are busy");
        });
    }
}
