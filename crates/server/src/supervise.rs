//! Which worker is started, when, and when all of them leave: the master's decisions, without its
//! I/O.
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
    /// SIGHUP: look what the root's path names.
    Hangup,
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
    /// Kill this worker: it did not leave in time.
    Kill(usize),
    /// Have the logs opened anew.
    ReopenLogs,
    /// Look what the root's path names, and say it.
    LookAtRoot,
}

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It left with success.
    Left,
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
        }
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
                Post::Vacant(_) | Post::Staffed(_) | Post::Killed | Post::Closed => {}
            }
        }
        None
    }

    /// When [`Staff::due`] will have something, unless something happens before.
    #[must_use]
    pub fn wake_at(&self) -> Tick {
        let posts = self.posts.iter().map(|(post, _)| match (*post, self.phase) {
            (Post::Vacant(at), _) | (Post::Staffed(_), Phase::Leave(at)) => at,
            (Post::Staffed(_) | Post::Killed | Post::Closed, _) => Tick::NEVER,
        });
        posts.min().unwrap_or(Tick::NEVER)
    }

    /// The worker runs.
    pub fn started(&mut self, worker: usize, now: Tick) {
        self.posts[worker].0 = Post::Staffed(now);
    }

    /// The worker is gone, or could not be started. Milliseconds until it is started again; `None`
    /// if it is not.
    pub fn gone(&mut self, worker: usize, how: Gone, now: Tick) -> Option<u64> {
        let (post, backoff_ms) = &mut self.posts[worker];
        let lived_ms = match *post {
            Post::Staffed(since) => now.since(since),
            Post::Vacant(_) | Post::Killed | Post::Closed => 0,
        };
        if self.phase != Phase::Run {
            *post = Post::Closed;
            return None;
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
            (Signal::Hangup, _) => Some(Order::LookAtRoot),
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
        self.phase = Phase::Leave(kill_at);
        for (post, _) in &mut self.posts {
            if matches!(post, Post::Vacant(_)) {
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

    #[test]
    fn other_signals_change_nothing() {
        let mut staff = running(1);
        assert_eq!(staff.signal(Signal::Hangup, MS(1)), Some(Order::LookAtRoot));
        assert_eq!(staff.signal(Signal::ReopenLogs, MS(1)), Some(Order::ReopenLogs));
        assert_eq!(staff.wake_at(), Tick::NEVER);
    }
}
