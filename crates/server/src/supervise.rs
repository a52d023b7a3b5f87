//! Which worker is started, when, and when all of them leave: the master's decisions, without its
//! I/O.
use crate::idle::{Change, IdleControl, PASS_MS};
use regatta_arch::Staffing;
use regatta_op::Tick;

/// The wait before the second restart of a worker, milliseconds; the first comes at once.
pub const BACKOFF_MS_MIN: u64 = 100;
/// The longest wait before a restart, milliseconds: the wait doubles up to it.
pub const BACKOFF_MS_MAX: u64 = 5_000;
/// A worker that has lived so long starts again as if it had never failed, milliseconds.
pub const HEALTHY_MS_MIN: u64 = 10_000;
/// How long a worker that was told to leave, or whose time to drain is over, may take to do so
/// before it is killed, milliseconds.
pub const LEAVE_MS_MAX: u64 = 300;

/// Two signals that ask for a drain and come closer together than this are taken for one,
/// milliseconds: timeout(1) and wrappers of the kind send each twice.
pub const AGAIN_MS_MIN: u64 = 200;

/// What the master is told by signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: drain and exit; with another one, or SIGINT, after it: exit at once.
    Terminate,
    /// SIGINT: the same.
    Interrupt,
    /// SIGQUIT: exit at once.
    Quit,
    /// SIGUSR1: open the logs anew.
    ReopenLogs,
}

/// What the master does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Fork this worker.
    Start(usize),
    /// Tell all workers to finish what they do until then.
    Drain(Tick),
    /// Tell all workers to leave now.
    Stop,
    /// Tell this worker, which is idle, to leave; others go on.
    Retire(usize),
    /// Say that too few are idle and there are as many workers as there may be.
    TellFull,
    /// Kill this worker: it did not leave in time.
    Kill(usize),
    /// Have the logs opened anew.
    ReopenLogs,
}

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It left with success.
    Left,
    /// It left because it was to retire, or had served as many as it may.
    Retired,
    /// It said that it cannot work, and left.
    Failed,
    /// A signal, or something worse.
    Crashed,
}

/// How the server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As it was told to.
    Told,
    /// A worker could not even begin: another try would end the same way.
    CannotWork,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Run,
    /// Workers are leaving; those still there at the tick are killed.
    Leave(Tick),
}

#[derive(Clone, Copy, Debug)]
enum Post {
    /// Nobody; a worker starts at the tick.
    Vacant(Tick),
    /// A worker, since the tick.
    Staffed(Tick),
    /// A worker that has been sent SIGKILL.
    Killed,
    /// Nobody, until too few are idle.
    Spare,
    /// Nobody, and nobody will come.
    Closed,
}

/// The workers, as far as the master must know them.
#[derive(Debug)]
pub struct Staff {
    posts: Vec<(Post, u64)>,
    phase: Phase,
    /// Whether the workers have been told more than to drain.
    stopping: bool,
    drain_ms_max: u64,
    leave_ms_max: u64,
    /// From when on a second signal is taken for one.
    again_from: Tick,
    ending: Ending,
    /// The first start of all workers: failing then is not worth a retry.
    opened: Tick,
    /// How many workers each listener has; of three listeners, every third post is one's. Empty if
    /// all posts are filled.
    control: Vec<IdleControl>,
    /// When they look next.
    pass_at: Tick,
}

impl Staff {
    /// A staff of `workers`, all due to start now.
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
        }
    }

    /// With as many workers as it takes for some to be idle, in posts that accept from one of so
    /// many listeners each, in turn; the first posts are filled to begin with, so many more if
    /// clients of an earlier generation, which leaves, will come back.
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

    /// Workers that are to be started.
    #[must_use]
    pub fn wanted(&self) -> usize {
        self.posts.iter().filter(|(post, _)| matches!(post, Post::Vacant(_))).count()
    }

    /// Looks, if it is time to, how many workers are idle of those that are there: has some more
    /// started, which will be [`due`](Self::due), or one retire.
    pub fn pass(&mut self, now: Tick, is_idle: impl Fn(usize) -> bool) -> Vec<Order> {
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
                Some(Change::Start(number)) => {
                    for worker in &free[..number] {
                        posts[*worker].0 = Post::Vacant(now);
                    }
                }
                // The last, so that the first posts are those that are filled.
                Some(Change::Retire) => orders.extend(idle.last().copied().map(Order::Retire)),
                Some(Change::Full) => orders.push(Order::TellFull),
                None => {}
            }
        }
        orders
    }

    /// From now on a worker that fails is started again, because others have left for it.
    pub const fn lasts(&mut self) {
        self.opened = Tick(0);
    }

    /// With so many milliseconds in place of [`LEAVE_MS_MAX`].
    #[must_use]
    pub fn leaving_within(self, leave_ms_max: u64) -> Self {
        Self { leave_ms_max, ..self }
    }

    /// What is to be done because time has passed; one order at a time, until `None`.
    ///
    /// Answer [`Order::Start`] with [`Staff::started`] or [`Staff::gone`].
    pub fn due(&mut self, now: Tick) -> Option<Order> {
        let kill = matches!(self.phase, Phase::Leave(at) if at <= now);
        for (worker, (post, _)) in self.posts.iter_mut().enumerate() {
            match *post {
                Post::Vacant(at) if at <= now => return Some(Order::Start(worker)),
                Post::Staffed(_) if kill => {
                    *post = Post::Killed;
                    return Some(Order::Kill(worker));
                }
                Post::Vacant(_) | Post::Staffed(_) | Post::Killed | Post::Spare | Post::Closed => {}
            }
        }
        None
    }

    /// When [`Staff::due`] or [`Staff::pass`] will have something, unless something happens before.
    #[must_use]
    pub fn wake_at(&self) -> Tick {
        let posts = self.posts.iter().map(|(post, _)| match (*post, self.phase) {
            (Post::Vacant(at), _) | (Post::Staffed(_), Phase::Leave(at)) => at,
            (Post::Staffed(_) | Post::Killed | Post::Spare | Post::Closed, _) => Tick::NEVER,
        });
        posts.min().unwrap_or(Tick::NEVER).min(self.pass_at)
    }

    /// The worker runs.
    pub fn started(&mut self, worker: usize, now: Tick) {
        self.posts[worker].0 = Post::Staffed(now);
    }

    /// The worker does not answer. True if it is to be killed, so that another takes its place;
    /// false if there is none, or it is leaving anyway.
    pub fn silent(&mut self, worker: usize) -> bool {
        let post = &mut self.posts[worker].0;
        let is_there = self.phase == Phase::Run && matches!(post, Post::Staffed(_));
        if is_there {
            *post = Post::Killed;
        }
        is_there
    }

    /// The worker is gone, or could not be started. Milliseconds until it is started again; `None`
    /// if it is not, or was to leave.
    pub fn gone(&mut self, worker: usize, how: Gone, now: Tick) -> Option<u64> {
        let (post, backoff_ms) = &mut self.posts[worker];
        let lived_ms = match *post {
            Post::Staffed(since) => now.since(since),
            Post::Vacant(_) | Post::Killed | Post::Spare | Post::Closed => 0,
        };
        if self.phase != Phase::Run {
            *post = Post::Closed;
            return None;
        }
        if how == Gone::Retired {
            *post = if self.control.is_empty() { Post::Vacant(now) } else { Post::Spare };
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

    /// A signal has come.
    pub fn signal(&mut self, signal: Signal, now: Tick) -> Option<Order> {
        match (signal, self.phase) {
            (Signal::ReopenLogs, _) => Some(Order::ReopenLogs),
            (Signal::Terminate | Signal::Interrupt, Phase::Run) => {
                let deadline = now.after(self.drain_ms_max);
                self.again_from = now.after(AGAIN_MS_MIN);
                self.drain(deadline);
                Some(Order::Drain(deadline))
            }
            (Signal::Terminate | Signal::Interrupt, Phase::Leave(_)) if now < self.again_from => {
                None
            }
            (Signal::Terminate | Signal::Interrupt | Signal::Quit, _) => self.stop(now),
        }
    }

    /// All have been told to drain until then.
    pub fn drain(&mut self, deadline: Tick) {
        self.leave(deadline.after(self.leave_ms_max));
    }

    /// Ends the server at once; `None` if that has been ordered before.
    pub fn stop(&mut self, now: Tick) -> Option<Order> {
        if self.stopping {
            return None;
        }
        self.stopping = true;
        self.leave(now.after(self.leave_ms_max));
        Some(Order::Stop)
    }

    /// True if the rest of the staff should be sent home because one of them cannot work.
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        self.ending == Ending::CannotWork && self.phase == Phase::Run
    }

    /// How the server ends, once nobody is left.
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

    const MS: fn(u64) -> Tick = Tick;

    fn running(workers: usize) -> Staff {
        let mut staff = Staff::new(workers, 8000, MS(0));
        for worker in 0..workers {
            assert_eq!(staff.due(MS(0)), Some(Order::Start(worker)));
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
            assert_eq!(staff.due(MS(now)), Some(Order::Start(1)));
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
        assert_eq!(staff.due(MS(5)), Some(Order::Start(0)));
        assert_eq!(staff.gone(0, Gone::Crashed, MS(5)), Some(0));
        assert_eq!(staff.due(MS(5)), Some(Order::Start(0)));
        assert_eq!(staff.gone(0, Gone::Crashed, MS(5)), Some(100));
        assert_eq!(staff.due(MS(5)), None);
        assert_eq!(staff.due(MS(105)), Some(Order::Start(0)));
    }

    #[test]
    fn draining_ends_when_all_have_left() {
        let mut staff = running(2);
        assert_eq!(staff.signal(Signal::Terminate, MS(10)), Some(Order::Drain(MS(8010))));
        assert_eq!(staff.signal(Signal::Terminate, MS(20)), None, "the same, sent twice");
        assert_eq!(staff.gone(0, Gone::Left, MS(30)), None);
        assert_eq!(staff.ending(), None);
        assert_eq!(staff.gone(1, Gone::Crashed, MS(40)), None, "not started again");
        assert_eq!(staff.ending(), Some(Ending::Told));
        assert_eq!(staff.due(Tick::NEVER), None);
    }

    #[test]
    fn who_does_not_leave_in_time_is_killed_once() {
        let mut staff = running(1);
        let _ = staff.signal(Signal::Interrupt, MS(0));
        assert_eq!(staff.wake_at(), MS(8000 + LEAVE_MS_MAX));
        assert_eq!(staff.due(MS(8299)), None);
        assert_eq!(staff.due(MS(8300)), Some(Order::Kill(0)));
        assert_eq!(staff.due(MS(8300)), None);
        assert_eq!(staff.wake_at(), Tick::NEVER);
        assert_eq!(staff.gone(0, Gone::Crashed, MS(8301)), None);
        assert_eq!(staff.ending(), Some(Ending::Told));
    }

    #[test]
    fn a_second_signal_or_a_quit_ends_at_once() {
        use Signal::{Interrupt, Quit, Terminate};
        for signals in
            [&[Interrupt, Interrupt][..], &[Terminate, Terminate], &[Terminate, Interrupt], &[Quit]]
        {
            let mut staff = running(1);
            let (mut last, mut now) = (None, 100);
            for signal in signals {
                now += AGAIN_MS_MIN;
                last = staff.signal(*signal, MS(now));
            }
            assert_eq!(last, Some(Order::Stop), "{signals:?}");
            assert_eq!(staff.signal(Quit, MS(now)), None);
            assert_eq!(staff.due(MS(now + LEAVE_MS_MAX)), Some(Order::Kill(0)));
        }
    }

    #[test]
    fn a_quit_is_never_taken_for_a_repetition() {
        let mut staff = running(1);
        assert_eq!(staff.signal(Signal::Terminate, MS(10)), Some(Order::Drain(MS(8010))));
        assert_eq!(staff.signal(Signal::Interrupt, MS(11)), None);
        assert_eq!(staff.signal(Signal::Quit, MS(12)), Some(Order::Stop));
    }

    #[test]
    fn a_worker_awaited_at_the_end_is_not_started() {
        let mut staff = running(1);
        for _ in 0..3 {
            let _ = staff.gone(0, Gone::Crashed, MS(1));
        }
        let _ = staff.signal(Signal::Terminate, MS(2));
        assert_eq!(staff.ending(), Some(Ending::Told));
        assert_eq!(staff.due(Tick::NEVER), None);
    }

    #[test]
    fn a_worker_that_cannot_work_ends_the_server() {
        let mut staff = running(2);
        assert_eq!(staff.gone(0, Gone::Failed, MS(5)), None);
        assert!(staff.is_hopeless());
        assert_eq!(staff.stop(MS(5)), Some(Order::Stop));
        assert!(!staff.is_hopeless());
        assert_eq!(staff.gone(1, Gone::Left, MS(6)), None);
        assert_eq!(staff.ending(), Some(Ending::CannotWork));
        let mut staff = running(1);
        assert_eq!(staff.gone(0, Gone::Failed, MS(HEALTHY_MS_MIN)), Some(0), "it had worked");
    }

    /// Of at most `posts` workers 2 start, and 1 to 3 are to be idle.
    fn staffed(posts: usize, listeners: usize) -> Staff {
        let staffing = Staffing { start: 2, idle_min: 1, idle_max: 3 };
        let mut staff = Staff::new(posts, 8000, MS(0)).staffed(staffing, listeners, 0);
        let wanted = staff.wanted();
        assert_eq!(wanted, posts.min(listeners.max(2)));
        assert_eq!(starts(&mut staff, 0), (0..wanted).collect::<Vec<_>>());
        staff
    }

    /// Starts who is to be started.
    fn starts(staff: &mut Staff, ms: u64) -> Vec<usize> {
        let mut started = Vec::new();
        while let Some(order) = staff.due(MS(ms)) {
            let Order::Start(worker) = order else { panic!("{order:?}") };
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
        assert_eq!(staff.pass(MS(6000), |_| false), [Order::TellFull]);
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
        // Of nine, the first four and the last are busy.
        let is_idle = |worker: usize| (4..8).contains(&worker);
        assert_eq!(staff.pass(MS(4000), is_idle), [Order::Retire(7)]);
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
        assert_eq!(staff.due(MS(5_001)), Some(Order::Start(1)));
        staff.started(1, MS(5_001));
        staff.drain(MS(9_000));
        assert!(!staff.silent(0), "it leaves, or is killed when its time is over");
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

    /// Workers that wait on one address are of no use to another.
    #[test]
    fn each_listener_has_workers_of_its_own() {
        let mut staff = staffed(7, 3);
        assert_eq!(staff.pass(MS(1000), |worker| worker % 3 != 1), []);
        assert_eq!(starts(&mut staff, 1000), [4]);
        assert_eq!(staff.pass(MS(2000), |worker| worker % 3 != 1), [Order::TellFull]);
    }

    #[test]
    fn a_staff_of_fewer_than_there_may_be_drains() {
        let mut staff = staffed(20, 1);
        assert_eq!(staff.signal(Signal::Terminate, MS(1000)), Some(Order::Drain(MS(9000))));
        assert_eq!(staff.pass(MS(2000), |_| false), [], "nobody is started any more");
        assert_eq!(staff.wake_at(), MS(9000 + LEAVE_MS_MAX));
        // One of them had been told to retire.
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

    #[test]
    fn other_signals_change_nothing() {
        let mut staff = running(1);
        assert_eq!(staff.signal(Signal::ReopenLogs, MS(1)), Some(Order::ReopenLogs));
        assert_eq!(staff.wake_at(), Tick::NEVER);
    }
}
