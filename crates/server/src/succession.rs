//! Decisions of a reload and of an upgrade, without their I/O: one generation of workers follows
//! another.
//!
//! The master tries the new configuration, and for an upgrade the new program, in a child (the
//! trial). If that finds no fault, the master executes the program again, in the same process. The
//! new image starts its own workers and, once all are ready, tells the old ones to leave. Until
//! then the old ones serve, whatever fails.
use regatta_op::Tick;

/// Limit of a trial, milliseconds: it opens all that a server opens, and serves no client.
pub const TRIAL_MS_MAX: u64 = 10_000;
/// Time in which all workers of a new generation must be ready, milliseconds.
pub const START_MS_MAX: u64 = 10_000;
/// Limit of generations that leave at a time. A further request waits until one is gone, because
/// none is ended early.
pub const GENERATIONS_MAX: usize = 4;

/// Kind of a request for another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The same program with its present configuration, because the root has moved to where workers
    /// may not read. No user has requested more, and the file may be half edited.
    Root,
    /// The same program with the configuration as the file now says.
    Reload,
    /// The program now installed, with the configuration as the file now says.
    Upgrade,
}

impl Kind {
    /// Name in a handover.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Reload => "reload",
            Self::Upgrade => "upgrade",
        }
    }

    /// Kind of this name in a handover.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Root, Self::Reload, Self::Upgrade].into_iter().find(|kind| kind.name() == name)
    }
}

/// Result of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialVerdict {
    /// No fault.
    Good,
    /// Faults, which the trial has reported.
    Faulty,
    /// No start, or an end without a report.
    Died,
    /// Longer than [`TRIAL_MS_MAX`]: killed.
    Late,
}

/// Event that the decisions depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuccessionEvent {
    /// Another generation is requested.
    Asked(Kind),
    /// The trial has ended, and has been reaped; once for each [`Act::Try`].
    TrialEnded(TrialVerdict),
    /// The program could not be executed: this image continues.
    ExecFailed,
    /// All workers of this image are ready.
    AllReady,
    /// A worker of this image cannot work.
    NewFailed,
    /// The last process of this old generation is gone.
    OldGone(u64),
    /// The server is to end.
    Stop,
    /// Time has passed.
    Time,
}

/// Next step of the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Start a trial.
    Try(Kind),
    /// Kill the trial. Its end is still to be reaped, and reported.
    KillTrial,
    /// Execute the program.
    Exec(Kind),
    /// Tell the old generations that still serve to leave; the listeners stay.
    LeaveOld,
    /// Kill the workers of this image and start no others: the old ones continue.
    KillNew,
    /// Tell the old generations that still serve to drain, and stop listening: no generation
    /// follows.
    DrainOld,
    /// Report the result of a request.
    Report(Outcome),
    /// End the server: no worker is left that serves.
    GiveUp,
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Another generation serves.
    Done,
    /// The trial has refused it: nothing has changed.
    Refused(TrialVerdict),
    /// The program could not be executed: nothing has changed.
    NotExecuted,
    /// The workers of the new generation could not begin, or not in time: the old ones continue.
    NotStarted,
    /// The server ends.
    Dropped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is under way.
    Steady,
    /// A trial, since the tick; a late one has been killed.
    Trying { kind: Kind, since: Tick, late: bool },
    /// The program is being executed.
    Executing,
    /// The workers of this image are starting, since the tick.
    Starting { since: Tick },
    /// The server ends.
    Ended,
}

/// A generation that an earlier image of the master started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// Number of the generation.
    pub number: u64,
    /// Whether it has been told to leave.
    pub leaves: bool,
}

/// Generations, as far as decisions need them.
#[derive(Debug)]
pub struct Succession {
    state: State,
    /// Whether workers of this image serve. If not, those of an old generation do.
    own: bool,
    /// Next request, which has not begun: further requests merge with it.
    asked: Option<Kind>,
    old: Vec<Earlier>,
}

impl Default for Succession {
    fn default() -> Self {
        Self::new()
    }
}

impl Succession {
    /// Creates the state of the first image, which follows no other.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: State::Steady, own: true, asked: None, old: Vec::new() }
    }

    /// Creates the state of an image that an earlier one has executed. `old`: the generations of
    /// that one, its own included. `asked`: a further request.
    #[must_use]
    pub const fn after_exec(old: Vec<Earlier>, asked: Option<Kind>, now: Tick) -> Self {
        Self { state: State::Starting { since: now }, own: false, asked, old }
    }

    /// Next request, which has not begun: the next image must know.
    #[must_use]
    pub const fn asked(&self) -> Option<Kind> {
        self.asked
    }

    /// Number of requests in progress. One that waits for a generation to leave does not count: it
    /// may wait for long, and has not read its configuration.
    #[must_use]
    pub fn pending(&self) -> u64 {
        match self.state {
            State::Trying { .. } | State::Executing | State::Starting { .. } => 1,
            State::Steady | State::Ended => 0,
        }
    }

    /// True if workers of this image serve.
    #[must_use]
    pub const fn serves(&self) -> bool {
        self.own
    }

    /// True if only workers of an old generation serve, and none of this image are about to.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.own && !matches!(self.state, State::Starting { .. })
    }

    /// Tick at which [`Event::Time`] will cause an act.
    #[must_use]
    pub const fn wake_at(&self) -> Tick {
        match self.state {
            State::Trying { since, late: false, .. } => since.after(TRIAL_MS_MAX),
            State::Starting { since } => since.after(START_MS_MAX),
            State::Trying { .. } | State::Steady | State::Executing | State::Ended => Tick::NEVER,
        }
    }

    /// Handles an event. Returns what is to be done, in this order.
    pub fn handle(&mut self, event: SuccessionEvent, now: Tick) -> Vec<Act> {
        let mut acts = Vec::new();
        match (event, self.state) {
            (SuccessionEvent::OldGone(number), _) => self.old.retain(|old| old.number != number),
            (SuccessionEvent::Asked(_), State::Ended) => acts.push(Act::Report(Outcome::Dropped)),
            (_, State::Ended) => {}
            // The configuration of this image is not in force.
            (SuccessionEvent::Asked(Kind::Root), _) if self.is_waiting() => {}
            (SuccessionEvent::Asked(kind), _) => self.asked = self.asked.max(Some(kind)),
            (SuccessionEvent::Stop, _) => self.stop(&mut acts),
            (SuccessionEvent::TrialEnded(verdict), State::Trying { kind, late, .. }) => {
                self.judge(if late { TrialVerdict::Late } else { verdict }, kind, &mut acts);
            }
            (SuccessionEvent::ExecFailed, State::Executing) => {
                self.state = State::Steady;
                acts.push(Act::Report(Outcome::NotExecuted));
            }
            (SuccessionEvent::AllReady, State::Starting { .. }) => self.follow(&mut acts),
            (SuccessionEvent::NewFailed, State::Starting { .. }) => self.fall_back(&mut acts),
            (SuccessionEvent::Time, State::Starting { .. }) if self.wake_at() <= now => {
                self.fall_back(&mut acts);
            }
            (SuccessionEvent::Time, State::Trying { kind, since, late: false })
                if self.wake_at() <= now =>
            {
                self.state = State::Trying { kind, since, late: true };
                acts.push(Act::KillTrial);
            }
            // The staff decides on the first start, and on workers that fail later.
            (SuccessionEvent::AllReady | SuccessionEvent::NewFailed | SuccessionEvent::Time, _) => {
            }
            (SuccessionEvent::TrialEnded(_) | SuccessionEvent::ExecFailed, _) => {
                debug_assert!(false, "{event:?} in {:?}", self.state);
            }
        }
        self.go_on(now, &mut acts);
        acts
    }

    /// Begins the next request, if it may; or gives up, if no worker serves.
    fn go_on(&mut self, now: Tick, acts: &mut Vec<Act>) {
        if self.state != State::Steady {
            return;
        }
        if !self.own && !self.old_serve() {
            self.state = State::Ended;
            acts.extend(self.asked.take().map(|_| Act::Report(Outcome::Dropped)));
            acts.push(Act::GiveUp);
            return;
        }
        // The serving one will leave, too.
        if self.old.len() + usize::from(self.own) > GENERATIONS_MAX {
            return;
        }
        if let Some(kind) = self.asked.take() {
            self.state = State::Trying { kind, since: now, late: false };
            acts.push(Act::Try(kind));
        }
    }

    fn old_serve(&self) -> bool {
        self.old.iter().any(|old| !old.leaves)
    }

    fn judge(&mut self, verdict: TrialVerdict, kind: Kind, acts: &mut Vec<Act>) {
        if verdict == TrialVerdict::Good {
            self.state = State::Executing;
            acts.push(Act::Exec(kind));
        } else {
            self.state = State::Steady;
            acts.push(Act::Report(Outcome::Refused(verdict)));
        }
    }

    /// Has the workers of this image take over.
    fn follow(&mut self, acts: &mut Vec<Act>) {
        (self.state, self.own) = (State::Steady, true);
        if self.old_serve() {
            acts.push(Act::LeaveOld);
        }
        self.old.iter_mut().for_each(|old| old.leaves = true);
        acts.push(Act::Report(Outcome::Done));
    }

    /// Leaves serving to the old workers: those of this image cannot.
    fn fall_back(&mut self, acts: &mut Vec<Act>) {
        self.state = State::Steady;
        acts.extend([Act::KillNew, Act::Report(Outcome::NotStarted)]);
        let moved = self.asked.take_if(|kind| *kind == Kind::Root);
        acts.extend(moved.map(|_| Act::Report(Outcome::NotStarted)));
    }

    fn stop(&mut self, acts: &mut Vec<Act>) {
        let under_way = match self.state {
            State::Trying { late, .. } => {
                acts.extend((!late).then_some(Act::KillTrial));
                true
            }
            State::Executing | State::Starting { .. } => true,
            State::Steady | State::Ended => false,
        };
        if self.old_serve() {
            acts.push(Act::DrainOld);
        }
        self.old.iter_mut().for_each(|old| old.leaves = true);
        let dropped = usize::from(under_way) + usize::from(self.asked.take().is_some());
        acts.extend([Act::Report(Outcome::Dropped)].into_iter().cycle().take(dropped));
        self.state = State::Ended;
    }
}

#[cfg(test)]
mod tests;
