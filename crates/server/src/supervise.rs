//! Decisions of the master, without its I/O: starts of workers, and their ends.
//!
//! [`Staff`] reports what to do next, and the master does it: it forks, signals and kills. The
//! keeper has a staff of workers as well. The admin process is a staff of one.
use crate::idle::{IdleChange, IdleControl, PASS_MS};
use regatta_arch::Staffing;
use regatta_op::Tick;

/// Wait before the second restart of a worker, milliseconds. The first restart is immediate.
pub const BACKOFF_MS_MIN: u64 = 100;
/// Longest wait before a restart, milliseconds. The wait doubles up to this limit.
pub const BACKOFF_MS_MAX: u64 = 5_000;
/// A worker that has lived this long, milliseconds, restarts as if it had never failed.
pub const HEALTHY_MS_MIN: u64 = 10_000;
/// Time in which a worker leaves after its order or its drain deadline, milliseconds. Then it is
/// killed.
pub const LEAVE_MS_MAX: u64 = 300;

/// Two signals for a drain within this time count as one, milliseconds. timeout(1) and similar
/// wrappers send each signal twice.
pub const AGAIN_MS_MIN: u64 = 200;

/// Signal to the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MasterSignal {
    /// SIGTERM: drain and exit. Another SIGTERM or SIGINT after it: exit at once.
    Terminate,
    /// SIGINT: as SIGTERM.
    Interrupt,
    /// SIGQUIT: exit at once.
    Quit,
    /// SIGUSR1: reopen the logs.
    ReopenLogs,
}

/// Next step of the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MasterAction {
    /// Fork this worker.
    Start(usize),
    /// Tell all workers to finish their work until this tick.
    Drain(Tick),
    /// Tell all workers to leave now.
    Stop,
    /// Tell this idle worker to leave. The others continue.
    Retire(usize),
    /// Report that too few workers are idle and that no more may start.
    TellFull,
    /// Kill this worker, which did not leave in time.
    Kill(usize),
    /// Reopen the logs.
    ReopenLogs,
}

/// End of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Exit with success.
    Left,
    /// Exit because of its retirement, or because it had served as many connections as it may.
    Retired,
    /// Exit after a report that it cannot work.
    Failed,
    /// Death by a signal, or another exit code.
    Crashed,
}

/// End of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// End by order.
    Told,
    /// A worker could not begin. Another attempt would end the same way.
    CannotWork,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Run,
    /// Workers leave; those still there at the tick are killed.
    Leave(Tick),
}

/// Place of a worker, whether it runs or not.
#[derive(Clone, Copy, Debug)]
enum Post {
    /// No worker; one starts at the tick.
    Vacant(Tick),
    /// A worker that has run since the tick.
    Staffed(Tick),
    /// A worker after SIGKILL; it had run since the tick.
    Killed(Tick),
    /// No worker, until too few are idle.
    Spare,
    /// No worker from now on.
    Closed,
}

/// Workers, as far as the master must know them.
#[derive(Debug)]
pub struct Staff {
    /// Post of each worker, and the wait before its next restart, milliseconds.
    posts: Vec<(Post, u64)>,
    phase: Phase,
    /// Whether workers have been told to stop, not only to drain.
    stopping: bool,
    drain_ms_max: u64,
    leave_ms_max: u64,
    /// A second signal before this tick counts as a repetition.
    again_from: Tick,
    ending: Ending,
    /// First start of all workers. A failure soon after it is not worth a retry.
    opened: Tick,
    /// Idle control of each listener. Of three listeners, each has every third post. Empty if all
    /// posts are filled.
    control: Vec<IdleControl>,
    /// Tick of the next pass.
    pass_at: Tick,
    /// The number of filled posts is varied from outside.
    varies: bool,
}

impl Staff {
    /// Creates a staff of `workers`, all due to start now.
    #[must_use]
    pub fn new(workers: usize, drain_ms_max: u64, now: Tick) -> Self {
        assert!(workers > 0, "an architecture has at least one worker");
        Self {
            posts: vec![(Post::Vacant(now), 0); workers],
            phase: Phase::Run,
            stopping: false,
            drain_ms_max,
            leave_ms_max: LEAVE_MS_MAX,
            again_from: Tick::NEVER,
            ending: Ending::Told,
            opened: now,
            control: Vec::new(),
            pass_at: Tick::NEVER,
            varies: false,
        }
    }

    /// Fills the first posts alone, until [`Self::grow`] fills more.
    #[must_use]
    pub fn varied(mut self, first: usize) -> Self {
        self.varies = true;
        self.posts.iter_mut().skip(first).for_each(|(post, _)| *post = Post::Spare);
        self
    }

    /// True if the server has not been told to end.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Run
    }

    /// Number of posts that are filled or will be, without those of workers that retire.
    pub fn filled(&self, is_retired: impl Fn(usize) -> bool) -> usize {
        let filled = |(worker, (post, _)): (usize, &(Post, u64))| match post {
            Post::Staffed(_) => !is_retired(worker),
            Post::Vacant(_) | Post::Killed(_) => true,
            Post::Spare | Post::Closed => false,
        };
        self.posts.iter().enumerate().filter(|of| filled(*of)).count()
    }

    /// Number of posts that could be filled.
    #[must_use]
    pub fn spare(&self) -> usize {
        self.posts.iter().filter(|(post, _)| matches!(post, Post::Spare)).count()
    }

    /// Has one more worker start. Returns which.
    pub fn grow(&mut self, now: Tick) -> Option<usize> {
        let worker = self.posts.iter().position(|(post, _)| matches!(post, Post::Spare))?;
        self.posts[worker].0 = Post::Vacant(now);
        Some(worker)
    }

    /// Last worker that runs and does not retire.
    pub fn last(&self, is_retired: impl Fn(usize) -> bool) -> Option<usize> {
        let runs = |(post, _): &(Post, u64)| matches!(post, Post::Staffed(_));
        (0..self.posts.len()).rfind(|worker| runs(&self.posts[*worker]) && !is_retired(*worker))
    }

    /// Keeps some workers idle. Posts accept from one of `listeners` each, round-robin. The first
    /// posts are filled at the start, and `returning` more: clients of a leaving generation will
    /// reconnect.
    #[must_use]
    pub fn staffed(mut self, staffing: Staffing, listeners: usize, returning: usize) -> Self {
        let Staffing { start, idle_min, idle_max } = staffing;
        let [idle_min, idle_max] = [idle_min, idle_max].map(|idle| idle.div_ceil(listeners));
        self.control = vec![IdleControl::new(idle_min, idle_max); listeners];
        self.pass_at = self.opened.after(PASS_MS);
        for (post, _) in self.posts.iter_mut().skip(start.max(listeners).saturating_add(returning))
        {
            *post = Post::Spare;
        }
        self
    }

    /// Number of workers to start.
    #[must_use]
    pub fn wanted(&self) -> usize {
        self.posts.iter().filter(|(post, _)| matches!(post, Post::Vacant(_))).count()
    }

    /// Compares, if it is time, the number of idle workers with its limits. Marks further workers
    /// as [`due`](Self::due), or has one retire.
    pub fn pass(&mut self, now: Tick, is_idle: impl Fn(usize) -> bool) -> Vec<MasterAction> {
        let mut orders = Vec::new();
        if now < self.pass_at {
            return orders;
        }
        self.pass_at = now.after(PASS_MS);
        let Self { posts, control, .. } = self;
        let listeners = control.len();
        for (at, control) in control.iter_mut().enumerate() {
            let own = (at..posts.len()).step_by(listeners);
            let is_there = |worker: &usize| matches!(posts[*worker].0, Post::Staffed(_));
            let is_spare = |worker: &usize| matches!(posts[*worker].0, Post::Spare);
            let idle = own.clone().filter(is_there).filter(|worker| is_idle(*worker));
            let idle: Vec<usize> = idle.collect();
            let free: Vec<usize> = own.filter(is_spare).collect();
            match control.pass(idle.len(), free.len()) {
                Some(IdleChange::Start(number)) => {
                    for worker in &free[..number] {
                        posts[*worker].0 = Post::Vacant(now);
                    }
                }
                // The last one, so that the first posts stay filled.
                Some(IdleChange::Retire) => {
                    orders.extend(idle.last().copied().map(MasterAction::Retire))
                }
                Some(IdleChange::Full) => orders.push(MasterAction::TellFull),
                None => {}
            }
        }
        orders
    }

    /// Notes that the earlier generation leaves. From now on, workers that fail restart.
    pub const fn lasts(&mut self) {
        self.opened = Tick(0);
    }

    /// Replaces [`LEAVE_MS_MAX`].
    #[must_use]
    pub fn leaving_within(self, leave_ms_max: u64) -> Self {
        Self { leave_ms_max, ..self }
    }

    /// Returns the next order that is due, one at a time, until `None`.
    ///
    /// Answer [`MasterAction::Start`] with [`Staff::started`] or [`Staff::gone`].
    pub fn due(&mut self, now: Tick) -> Option<MasterAction> {
        let kill = matches!(self.phase, Phase::Leave(at) if at <= now);
        for (worker, (post, _)) in self.posts.iter_mut().enumerate() {
            match *post {
                Post::Vacant(at) if at <= now => return Some(MasterAction::Start(worker)),
                Post::Staffed(since) if kill => {
                    *post = Post::Killed(since);
                    return Some(MasterAction::Kill(worker));
                }
                Post::Vacant(_)
                | Post::Staffed(_)
                | Post::Killed(_)
                | Post::Spare
                | Post::Closed => {}
            }
        }
        None
    }

    /// Tick at which [`Staff::due`] or [`Staff::pass`] has work, unless an event precedes it.
    #[must_use]
    pub fn wake_at(&self) -> Tick {
        let posts = self.posts.iter().map(|(post, _)| match (*post, self.phase) {
            (Post::Vacant(at), _) | (Post::Staffed(_), Phase::Leave(at)) => at,
            (Post::Staffed(_) | Post::Killed(_) | Post::Spare | Post::Closed, _) => Tick::NEVER,
        });
        posts.min().unwrap_or(Tick::NEVER).min(self.pass_at)
    }

    /// Notes that the worker runs.
    pub fn started(&mut self, worker: usize, now: Tick) {
        self.posts[worker].0 = Post::Staffed(now);
    }

    /// Notes that the worker does not answer. Returns true if it is to be killed and replaced;
    /// false if there is none, or it is leaving anyway.
    pub fn silent(&mut self, worker: usize) -> bool {
        let post = &mut self.posts[worker].0;
        match *post {
            Post::Staffed(since) if self.phase == Phase::Run => {
                *post = Post::Killed(since);
                true
            }
            _ => false,
        }
    }

    /// Notes that the worker is gone, or could not start. Returns the milliseconds until its
    /// restart; `None` if it does not restart, or was to leave.
    pub fn gone(&mut self, worker: usize, how: Gone, now: Tick) -> Option<u64> {
        let (post, backoff_ms) = &mut self.posts[worker];
        let lived_ms = match *post {
            Post::Staffed(since) | Post::Killed(since) => now.since(since),
            Post::Vacant(_) | Post::Spare | Post::Closed => 0,
        };
        if self.phase != Phase::Run {
            *post = Post::Closed;
            return None;
        }
        if how == Gone::Retired {
            let comes_back = self.control.is_empty() && !self.varies;
            *post = if comes_back { Post::Vacant(now) } else { Post::Spare };
            return None;
        }
        if let Some(at) = worker.checked_rem(self.control.len()) {
            self.control[at].died(how == Gone::Failed);
        }
        if how == Gone::Failed && now.since(self.opened) < HEALTHY_MS_MIN {
            *post = Post::Closed;
            self.ending = Ending::CannotWork;
            return None;
        }
        if lived_ms >= HEALTHY_MS_MIN {
            *backoff_ms = 0;
        }
        let wait_ms = *backoff_ms;
        *backoff_ms = (2 * wait_ms).clamp(BACKOFF_MS_MIN, BACKOFF_MS_MAX);
        *post = Post::Vacant(now.after(wait_ms));
        Some(wait_ms)
    }

    /// Handles a signal.
    pub fn signal(&mut self, signal: MasterSignal, now: Tick) -> Option<MasterAction> {
        match (signal, self.phase) {
            (MasterSignal::ReopenLogs, _) => Some(MasterAction::ReopenLogs),
            (MasterSignal::Terminate | MasterSignal::Interrupt, Phase::Run) => {
                let deadline = now.after(self.drain_ms_max);
                self.again_from = now.after(AGAIN_MS_MIN);
                self.drain(deadline);
                Some(MasterAction::Drain(deadline))
            }
            (MasterSignal::Terminate | MasterSignal::Interrupt, Phase::Leave(_))
                if now < self.again_from =>
            {
                None
            }
            (MasterSignal::Terminate | MasterSignal::Interrupt | MasterSignal::Quit, _) => {
                self.stop(now)
            }
        }
    }

    /// Notes that all workers have been told to drain until `deadline`.
    pub fn drain(&mut self, deadline: Tick) {
        self.leave(deadline.after(self.leave_ms_max));
    }

    /// Ends the server at once. `None` if that has been ordered before.
    pub fn stop(&mut self, now: Tick) -> Option<MasterAction> {
        if self.stopping {
            return None;
        }
        self.stopping = true;
        self.leave(now.after(self.leave_ms_max));
        Some(MasterAction::Stop)
    }

    /// True if all other workers should leave because one cannot work.
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        self.ending == Ending::CannotWork && self.phase == Phase::Run
    }

    /// End of the server, once no worker is left.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        let closed = self.posts.iter().all(|(post, _)| matches!(post, Post::Closed));
        closed.then_some(self.ending)
    }

    fn leave(&mut self, kill_at: Tick) {
        (self.phase, self.pass_at) = (Phase::Leave(kill_at), Tick::NEVER);
        for (post, _) in &mut self.posts {
            if matches!(post, Post::Vacant(_) | Post::Spare) {
                *post = Post::Closed;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MasterAction::{Drain, Kill, ReopenLogs, Retire, Start, Stop, TellFull};
    use MasterSignal::{Interrupt, Quit, Terminate};

    const MS: fn(u64) -> Tick = Tick;

    fn running(workers: usize) -> Staff {
        let mut staff = Staff::new(workers, 8000, MS(0));
        for worker in 0..workers {
            assert_eq!(staff.due(MS(0)), Some(Start(worker)));
            staff.started(worker, MS(0));
        }
        assert_eq!(staff.due(MS(0)), None);
        staff
    }

    #[test]
    fn restarts_come_at_once_and_then_ever_later() {
        let mut staff = running(2);
        let mut now = 1;
        for wait in [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            assert_eq!(staff.gone(1, Gone::Crashed, MS(now)), Some(wait));
            assert_eq!(staff.wake_at(), MS(now + wait));
            if wait > 0 {
                assert_eq!(staff.due(MS(now + wait - 1)), None);
            }
            now += wait;
            assert_eq!(staff.due(MS(now)), Some(Start(1)));
            staff.started(1, MS(now));
            now += 1;
        }
        now += HEALTHY_MS_MIN;
        assert_eq!(staff.gone(1, Gone::Left, MS(now)), Some(0), "it was healthy in between");
        assert_eq!(staff.ending(), None);
    }

    #[test]
    fn a_fork_that_fails_is_tried_again_later() {
        let mut staff = Staff::new(1, 8000, MS(5));
        assert_eq!(staff.due(MS(5)), Some(Start(0)));
        assert_eq!(staff.gone(0, Gone::Crashed, MS(5)), Some(0));
        assert_eq!(staff.due(MS(5)), Some(Start(0)));
        assert_eq!(staff.gone(0, Gone::Crashed, MS(5)), Some(100));
        assert_eq!(staff.due(MS(5)), None);
        assert_eq!(staff.due(MS(105)), Some(Start(0)));
    }

    #[test]
    fn draining_ends_when_all_have_left() {
        let mut staff = running(2);
        assert_eq!(staff.signal(Terminate, MS(10)), Some(Drain(MS(8010))));
        assert_eq!(staff.signal(Terminate, MS(20)), None, "the same, sent twice");
        assert_eq!(staff.gone(0, Gone::Left, MS(30)), None);
        assert_eq!(staff.ending(), None);
        assert_eq!(staff.gone(1, Gone::Crashed, MS(40)), None, "not started again");
        assert_eq!(staff.ending(), Some(Ending::Told));
        assert_eq!(staff.due(Tick::NEVER), None);
    }

    #[test]
    fn who_does_not_leave_in_time_is_killed_once() {
        let mut staff = running(1);
        let _ = staff.signal(Interrupt, MS(0));
        assert_eq!(staff.wake_at(), MS(8000 + LEAVE_MS_MAX));
        assert_eq!(staff.due(MS(8299)), None);
        assert_eq!(staff.due(MS(8300)), Some(Kill(0)));
        assert_eq!(staff.due(MS(8300)), None);
        assert_eq!(staff.wake_at(), Tick::NEVER);
        assert_eq!(staff.gone(0, Gone::Crashed, MS(8301)), None);
        assert_eq!(staff.ending(), Some(Ending::Told));
    }

    #[test]
    fn a_second_signal_or_a_quit_ends_at_once() {
        for signals in
            [&[Interrupt, Interrupt][..], &[Terminate, Terminate], &[Terminate, Interrupt], &[Quit]]
        {
            let mut staff = running(1);
            let (mut last, mut now) = (None, 100);
            for signal in signals {
                now += AGAIN_MS_MIN;
                last = staff.signal(*signal, MS(now));
            }
            assert_eq!(last, Some(Stop), "{signals:?}");
            assert_eq!(staff.signal(Quit, MS(now)), None);
            assert_eq!(staff.due(MS(now + LEAVE_MS_MAX)), Some(Kill(0)));
        }
    }

    #[test]
    fn a_quit_is_never_taken_for_a_repetition() {
        let mut staff = running(1);
        assert_eq!(staff.signal(Terminate, MS(10)), Some(Drain(MS(8010))));
        assert_eq!(staff.signal(Interrupt, MS(11)), None);
        assert_eq!(staff.signal(Quit, MS(12)), Some(Stop));
    }

    #[test]
    fn a_worker_awaited_at_the_end_is_not_started() {
        let mut staff = running(1);
        for _ in 0..3 {
            let _ = staff.gone(0, Gone::Crashed, MS(1));
        }
        let _ = staff.signal(Terminate, MS(2));
        assert_eq!(staff.ending(), Some(Ending::Told));
        assert_eq!(staff.due(Tick::NEVER), None);
    }

    #[test]
    fn a_worker_that_cannot_work_ends_the_server() {
        let mut staff = running(2);
        assert_eq!(staff.gone(0, Gone::Failed, MS(5)), None);
        assert!(staff.is_hopeless());
        assert_eq!(staff.stop(MS(5)), Some(Stop));
        assert!(!staff.is_hopeless());
        assert_eq!(staff.gone(1, Gone::Left, MS(6)), None);
        assert_eq!(staff.ending(), Some(Ending::CannotWork));
        let mut staff = running(1);
        assert_eq!(staff.gone(0, Gone::Failed, MS(HEALTHY_MS_MIN)), Some(0), "it had worked");
    }

    /// Staff of at most `posts` workers: 2 start, and 1 to 3 are to be idle.
    fn staffed(posts: usize, listeners: usize) -> Staff {
        let staffing = Staffing { start: 2, idle_min: 1, idle_max: 3 };
        let mut staff = Staff::new(posts, 8000, MS(0)).staffed(staffing, listeners, 0);
        let wanted = staff.wanted();
        assert_eq!(wanted, posts.min(listeners.max(2)));
        assert_eq!(starts(&mut staff, 0), (0..wanted).collect::<Vec<_>>());
        staff
    }

    /// Starts all workers that are due.
    fn starts(staff: &mut Staff, ms: u64) -> Vec<usize> {
        let mut started = Vec::new();
        while let Some(order) = staff.due(MS(ms)) {
            let Start(worker) = order else { panic!("{order:?}") };
            staff.started(worker, MS(ms));
            started.push(worker);
        }
        started
    }

    #[test]
    fn workers_are_started_while_too_few_are_idle() {
        let mut staff = staffed(20, 1);
        assert_eq!(staff.wake_at(), MS(PASS_MS));
        assert_eq!(staff.pass(MS(PASS_MS - 1), |_| false), []);
        assert!(starts(&mut staff, PASS_MS - 1).is_empty());
        let mut next: usize = 2;
        for (pass, number) in (1..).zip([1, 2, 4, 8, 3]) {
            let now = pass * PASS_MS;
            assert_eq!(staff.pass(MS(now), |_| false), []);
            assert_eq!(starts(&mut staff, now), (next..next + number).collect::<Vec<_>>());
            assert_eq!(staff.wake_at(), MS(now + PASS_MS));
            next += number;
        }
        assert_eq!(staff.pass(MS(6000), |_| false), [TellFull]);
        assert_eq!(staff.pass(MS(7000), |_| false), [], "once");
        assert_eq!(staff.ending(), None);
    }

    #[test]
    fn one_idle_worker_retires_at_a_time_and_is_not_replaced() {
        let mut staff = staffed(20, 1);
        for pass in 1..4 {
            let _ = staff.pass(MS(pass * PASS_MS), |_| false);
            let _ = starts(&mut staff, pass * PASS_MS);
        }
        // The first four of nine and the last are busy.
        let is_idle = |worker: usize| (4..8).contains(&worker);
        assert_eq!(staff.pass(MS(4000), is_idle), [Retire(7)]);
        assert_eq!(staff.gone(7, Gone::Retired, MS(4001)), None);
        assert_eq!(staff.pass(MS(5000), is_idle), [], "three are left");
        assert!(starts(&mut staff, 5000).is_empty());
        assert_eq!(staff.pass(MS(6000), |_| false), []);
        assert_eq!(starts(&mut staff, 6000), [7], "the first post that is free");
    }

    #[test]
    fn a_silent_worker_is_killed_once_and_replaced() {
        let mut staff = running(2);
        assert!(staff.silent(1) && !staff.silent(1), "it has been killed already");
        assert_eq!(staff.due(MS(5_000)), None);
        assert_eq!(staff.gone(1, Gone::Crashed, MS(5_001)), Some(0));
        assert_eq!(staff.due(MS(5_001)), Some(Start(1)));
        staff.started(1, MS(5_001));
        staff.drain(MS(9_000));
        assert!(!staff.silent(0), "it leaves, or is killed when its time is over");
    }

    /// A worker that hangs after a long healthy life is replaced at once, each time.
    #[test]
    fn hangs_that_are_far_apart_do_not_add_up() {
        let mut staff = running(1);
        for life in 1..=4 {
            let now = MS(life * 10 * HEALTHY_MS_MIN);
            assert!(staff.silent(0), "{life}");
            assert_eq!(staff.gone(0, Gone::Crashed, now), Some(0), "{life}");
            assert_eq!(staff.due(now), Some(Start(0)), "{life}");
            staff.started(0, now);
        }
    }

    #[test]
    fn a_worker_that_died_is_replaced_and_nobody_looks_for_a_second() {
        let mut staff = staffed(20, 1);
        assert_eq!(staff.gone(1, Gone::Crashed, MS(500)), Some(0));
        assert_eq!(starts(&mut staff, 500), [1]);
        assert_eq!(staff.pass(MS(1000), |_| false), []);
        assert!(starts(&mut staff, 1000).is_empty(), "the one in its place may not serve yet");
        assert_eq!(staff.pass(MS(2000), |_| false), []);
        assert_eq!(starts(&mut staff, 2000), [2]);
    }

    #[test]
    fn those_who_follow_others_are_as_many_as_their_clients() {
        let staffing = Staffing { start: 2, idle_min: 1, idle_max: 3 };
        for (returning, wanted) in [(0, 2), (7, 9), (18, 20), (19, 20), (usize::MAX, 20)] {
            let staff = Staff::new(20, 8000, MS(0)).staffed(staffing, 1, returning);
            assert_eq!(staff.wanted(), wanted, "{returning}");
        }
    }

    /// Workers of one address are of no use to another.
    #[test]
    fn each_listener_has_workers_of_its_own() {
        let mut staff = staffed(7, 3);
        assert_eq!(staff.pass(MS(1000), |worker| worker % 3 != 1), []);
        assert_eq!(starts(&mut staff, 1000), [4]);
        assert_eq!(staff.pass(MS(2000), |worker| worker % 3 != 1), [TellFull]);
    }

    #[test]
    fn a_staff_of_fewer_than_there_may_be_drains() {
        let mut staff = staffed(20, 1);
        assert_eq!(staff.signal(Terminate, MS(1000)), Some(Drain(MS(9000))));
        assert_eq!(staff.pass(MS(2000), |_| false), [], "nobody is started any more");
        assert_eq!(staff.wake_at(), MS(9000 + LEAVE_MS_MAX));
        // Worker 0 had been told to retire.
        assert_eq!(staff.gone(0, Gone::Retired, MS(2001)), None);
        assert_eq!((staff.ending(), staff.due(MS(2001))), (None, None));
        assert_eq!(staff.gone(1, Gone::Left, MS(2002)), None);
        assert_eq!(staff.ending(), Some(Ending::Told));
    }

    #[test]
    fn who_has_served_as_many_as_it_may_is_replaced_at_once_where_the_number_is_fixed() {
        let mut staff = running(1);
        for now in 1..9 {
            assert_eq!(staff.gone(0, Gone::Retired, MS(now)), None);
            assert_eq!(starts(&mut staff, now), [0]);
        }
        assert_eq!(staff.gone(0, Gone::Crashed, MS(9)), Some(0), "it is no failure");
    }

    /// Workers start and retire one by one, and a post that is free is filled again.
    #[test]
    fn a_varied_staff_grows_and_shrinks() {
        let mut staff = Staff::new(4, 8000, MS(0)).varied(2);
        assert_eq!((starts(&mut staff, 0), staff.spare()), (vec![0, 1], 2));
        assert_eq!(staff.grow(MS(10)), Some(2));
        assert_eq!((starts(&mut staff, 10), staff.filled(|_| false)), (vec![2], 3));
        assert_eq!(staff.last(|_| false), Some(2));
        let retires = |worker| worker == 2;
        assert_eq!((staff.last(retires), staff.filled(retires)), (Some(1), 2));
        // While it finishes, another takes its part.
        assert_eq!((staff.grow(MS(20)), starts(&mut staff, 20)), (Some(3), vec![3]));
        assert_eq!(staff.gone(2, Gone::Retired, MS(30)), None);
        assert_eq!((staff.spare(), starts(&mut staff, 30)), (1, vec![]));
        assert_eq!((staff.grow(MS(40)), staff.grow(MS(40))), (Some(2), None));
        // One that crashes is replaced, and counts meanwhile.
        assert_eq!(staff.gone(3, Gone::Crashed, MS(50)), Some(0));
        assert_eq!(staff.filled(|_| false), 4);
        assert!(staff.is_open());
        staff.drain(MS(60));
        assert!(!staff.is_open() && staff.spare() == 0 && staff.grow(MS(61)).is_none());
    }

    #[test]
    fn other_signals_change_nothing() {
        let mut staff = running(1);
        assert_eq!(staff.signal(MasterSignal::ReopenLogs, MS(1)), Some(ReopenLogs));
        assert_eq!(staff.wake_at(), Tick::NEVER);
    }
}
