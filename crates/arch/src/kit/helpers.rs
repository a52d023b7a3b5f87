//! Helpers: whoever runs errands that may block on disk, so that the event loop does not.
//!
//! A helper runs one errand at a time. Helpers are started when errands wait for one, up to a
//! limit, and those without an errand are kept in reserve, up to another. All of this is the event
//! loop's own bookkeeping: there is no lock.
#[cfg(test)]
pub(crate) mod schedule;

use super::{
    disk::{News, Opening, Report},
    waiting::{Turn, Waiting},
};
use crate::drive::{
    ledger::Spent,
    perform::{self, Below, timed},
};
use regatta_metrics::{Counter, Tally};
use regatta_op::{Abandoned, OpenReq, ReadReq, Ticket};
use regatta_sys::{Read, StaticFile, clock};
use std::{collections::BTreeMap, io, os::fd::BorrowedFd};

/// How many helpers an errand may lose before the loop runs it itself.
const TRIES_MAX: u8 = 2;

/// Something that a helper is asked to do.
#[derive(Debug)]
pub enum Errand {
    /// Open a path.
    Open(OpenReq),
    /// Bring a range into memory, and nothing more.
    Touch(ReadReq<StaticFile>),
    /// Read a range into memory and hand the bytes over. Only for helpers that share the loop's.
    Read(ReadReq<StaticFile>),
}

impl Errand {
    /// The errand for a helper that shares the loop's memory: the buffer of a read is the helper's
    /// until it hands that over, and goes with a helper that is lost.
    pub fn lend(&mut self) -> Self {
        let range = |req: &ReadReq<StaticFile>| ReadReq::new(req.file.clone(), req.at, req.len);
        match self {
            Self::Open(req) => Self::Open(req.clone()),
            Self::Touch(req) => Self::Touch(range(req)),
            Self::Read(req) => {
                Self::Read(ReadReq { buffer: std::mem::take(&mut req.buffer), ..range(req) })
            }
        }
    }
}

/// What a helper says when it is done.
#[derive(Debug)]
pub enum Outcome {
    /// What was found, opened.
    Opened(Opening),
    /// There is something to open, and what that takes is in memory now.
    Found,
    /// The range is in memory, or cannot be read: who reads it finds out.
    Touched,
    /// The bytes.
    Read(Read),
}

/// What an errand is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Answering an open.
    Open(Ticket),
    /// Answering a read.
    Read(Ticket),
    /// Sending a range.
    Warm,
}

impl Purpose {
    /// The ticket of the operation; a `Send` has none.
    #[must_use]
    pub const fn ticket(self) -> Option<Ticket> {
        match self {
            Self::Open(ticket) | Self::Read(ticket) => Some(ticket),
            Self::Warm => None,
        }
    }
}

/// An errand, and whose it is.
#[derive(Debug)]
pub struct Job {
    /// The connection.
    pub key: u64,
    /// What the errand is for.
    pub purpose: Purpose,
    /// The errand.
    pub errand: Errand,
    /// When it is its turn, among those that wait for a helper.
    turn: Turn,
    tries: u8,
    /// When it was asked for, or given to a helper: the precise clock.
    since: u64,
}

impl Job {
    /// An errand that nobody has tried.
    #[must_use]
    pub fn new(key: u64, purpose: Purpose, errand: Errand) -> Self {
        Self { key, purpose, errand, turn: Turn::default(), tries: 0, since: clock::nanos() }
    }
}

/// What an errand amounts to for who asked. The loop does what is left to do: all of it, if there
/// is no outcome.
fn finish(job: Job, outcome: Option<Outcome>, below: Below<'_>) -> (News, Spent) {
    let mut spent = Spent::default();
    let news = match (job.purpose, job.errand, outcome) {
        (Purpose::Open(ticket), _, Some(Outcome::Opened(found))) => News::Opened(ticket, found),
        (Purpose::Open(ticket), Errand::Open(req), _) => {
            News::Opened(ticket, timed(&mut spent.open, || below.open(&req)))
        }
        (Purpose::Read(ticket), _, Some(Outcome::Read(read))) => News::Read(ticket, read),
        (Purpose::Read(ticket), Errand::Touch(req) | Errand::Read(req), _) => {
            News::Read(ticket, timed(&mut spent.read, || perform::read(req)))
        }
        (_, Errand::Touch(req) | Errand::Read(req), _) => News::Warm(req.len),
        // An open for something else than an open: never asked for, and harmless.
        (_, Errand::Open(_), _) => News::Warm(1),
    };
    (news, spent)
}

/// How helpers of one kind are started, given errands and heard. They are named by small numbers.
pub trait Crew {
    /// Starts a helper.
    ///
    /// # Errors
    /// The system does not let us have another.
    fn hire(&mut self) -> io::Result<usize>;
    /// Gives an errand to a helper that has none.
    ///
    /// # Errors
    /// It is gone.
    fn give(&mut self, helper: usize, errand: &mut Errand) -> io::Result<()>;
    /// Lets a helper that has no errand go, or buries one that is gone.
    fn dismiss(&mut self, helper: usize);
    /// The root is another one: who is started from now on has that.
    fn renew_root(&mut self) {}
    /// Who has something to say; the outcome is `None` if that helper is gone.
    fn hear(&mut self) -> Option<(usize, Option<Outcome>)>;
    /// Readable while somebody may have something to say.
    fn source(&self) -> BorrowedFd<'_>;
}

/// How many helpers there may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// At once.
    pub helpers_max: usize,
    /// Without an errand.
    pub helpers_idle_max: usize,
}

/// The helpers of one loop, and the errands that wait for one. A connection has at most
/// [`regatta_op::DISK_OPS_MAX`] errands, and one for its `Send`, so the queue is bounded by the
/// connections that are open.
#[derive(Debug)]
pub struct Helpers<'a, C> {
    crew: C,
    limits: Limits,
    /// Who waits for an outcome: of an errand in the queue, or of one that is being run.
    waiting: Waiting,
    /// Errands that wait for a helper, by their turn.
    queue: BTreeMap<Turn, Job>,
    /// By helper: what it is doing.
    busy: Vec<Option<Job>>,
    /// By helper: whether it has an errand of before the root was replaced, and goes after it.
    leaves: Vec<bool>,
    /// Those without an errand, and since when they have none: the precise clock.
    idle: Vec<(usize, u64)>,
    /// Helpers there are.
    count: usize,
    tally: Tally<'a>,
}

impl<'a, C: Crew> Helpers<'a, C> {
    /// No helpers yet.
    pub fn new(crew: C, limits: Limits, tally: Tally<'a>) -> Self {
        let (waiting, queue) = (Waiting::default(), BTreeMap::new());
        let (busy, leaves, idle) = (Vec::new(), Vec::new(), Vec::new());
        Self { crew, limits, waiting, queue, busy, leaves, idle, count: 0, tally }
    }

    /// Has an errand run.
    ///
    /// # Errors
    /// The errand, if there is no helper and none can be started: run it yourself.
    fn ask(&mut self, mut job: Job) -> Result<(), Job> {
        self.tally.add(
            match job.purpose {
                Purpose::Open(_) => Counter::HelperTasksOpen,
                Purpose::Read(_) => Counter::HelperTasksRead,
                Purpose::Warm => Counter::HelperTasksPrefetch,
            },
            1,
        );
        job.turn = self.waiting.ask(job.key, job.purpose.ticket());
        self.queue.insert(job.turn, job);
        self.dispatch();
        let waiting = self.queue.len() as u64;
        self.tally.max(Counter::HelperQueueMax, waiting);
        self.tally.add(Counter::HelperQueueSum, waiting);
        if self.count == 0
            && let Some((_, job)) = self.queue.pop_last()
        {
            self.waiting.is_told(job.key, job.turn);
            self.tally.add(Counter::HelperTasksSelf, 1);
            return Err(job);
        }
        Ok(())
    }

    /// Has an errand run: by the loop, at once, if there is no helper and none can be started, and
    /// then this is what came of it.
    pub fn ask_or_run(&mut self, job: Job, below: Below<'_>) -> Option<News> {
        self.ask(job).err().map(|job| finish(job, None, below).0)
    }

    /// The next outcome that somebody waits for. What nobody does is dropped, with its files.
    pub fn report(&mut self, below: Below<'_>) -> Option<Report> {
        loop {
            let (job, outcome) = self.news()?;
            let key = job.key;
            if !self.waiting.is_told(key, job.turn) {
                self.tally.add(Counter::DiskCompletionsDropped, 1);
                continue;
            }
            let (news, spent) = finish(job, outcome, below);
            return Some(Report { key, news, spent });
        }
    }

    /// An errand that is over, and what has come of it: `None` if the loop must run it itself.
    fn news(&mut self) -> Option<(Job, Option<Outcome>)> {
        loop {
            if self.count == 0 && !self.queue.is_empty() {
                self.dispatch();
            }
            if self.count == 0
                && let Some((_, job)) = self.queue.pop_first()
            {
                self.tally.add(Counter::HelperTasksSelf, 1);
                return Some((job, None));
            }
            let (helper, outcome) = self.crew.hear()?;
            let job = self.busy.get_mut(helper).and_then(Option::take);
            let Some(outcome) = outcome else {
                if let Some(job) = self.lost(helper, job) {
                    return Some((job, None));
                }
                continue;
            };
            self.tally.add(Counter::HelperCompletions, 1);
            let now = clock::nanos();
            if std::mem::take(&mut self.leaves[helper]) {
                self.dismiss((helper, now), now);
            } else {
                self.idle.push((helper, now));
            }
            self.dispatch();
            if self.idle.len() > self.limits.helpers_idle_max
                && let Some(idle) = self.idle.pop()
            {
                self.dismiss(idle, now);
            }
            if let Some(job) = job {
                self.tally.add(Counter::HelperBusyNs, now.saturating_sub(job.since));
                return Some((job, Some(outcome)));
            }
        }
    }

    /// Drops the errands of this connection that wait, or one of them, and the outcomes of those
    /// that are being run.
    pub fn forget(&mut self, key: u64, what: Abandoned) {
        self.waiting.forget(key, what, |turn| drop(self.queue.remove(&turn)));
    }

    /// Lets go of all helpers that have the root of before, as soon as they have done what they
    /// are doing: others are started.
    pub fn renew_root(&mut self) {
        self.crew.renew_root();
        let now = clock::nanos();
        while let Some(idle) = self.idle.pop() {
            self.dismiss(idle, now);
        }
        for (leaves, job) in self.leaves.iter_mut().zip(&self.busy) {
            *leaves = job.is_some();
        }
    }

    /// Lets a helper go that has had no errand since then.
    fn dismiss(&mut self, (helper, since): (usize, u64), now: u64) {
        self.count -= 1;
        self.tally.add(Counter::HelperIdleNs, now.saturating_sub(since));
        self.tally.add(Counter::HelpersStopped, 1);
        self.crew.dismiss(helper);
    }

    /// Readable while there may be news.
    pub fn source(&self) -> BorrowedFd<'_> {
        self.crew.source()
    }

    /// Buries a helper. Its errand goes to another, or back to the loop if it has cost too many.
    fn lost(&mut self, helper: usize, job: Option<Job>) -> Option<Job> {
        self.tally.add(Counter::HelpersLost, 1);
        self.idle.retain(|(idle, _)| *idle != helper);
        self.leaves[helper] = false;
        self.count -= 1;
        self.crew.dismiss(helper);
        let mut job = job?;
        job.tries += 1;
        if job.tries < TRIES_MAX {
            job.since = clock::nanos();
            if self.waiting.is_waited_for(job.key, job.turn) {
                // It is the oldest.
                self.queue.insert(job.turn, job);
            } else {
                self.tally.add(Counter::DiskCompletionsDropped, 1);
            }
            self.dispatch();
            return None;
        }
        self.tally.add(Counter::HelperTasksSelf, 1);
        Some(job)
    }

    /// Gives errands to helpers, and starts helpers, until one or the other has run out.
    fn dispatch(&mut self) {
        while !self.queue.is_empty() {
            let idle = self.idle.pop();
            let Some((helper, since)) = idle.or_else(|| Some((self.hire()?, clock::nanos())))
            else {
                return;
            };
            let Some((turn, mut job)) = self.queue.pop_first() else { return };
            match self.crew.give(helper, &mut job.errand) {
                Ok(()) => {
                    let now = clock::nanos();
                    self.tally.add(Counter::HelperIdleNs, now.saturating_sub(since));
                    self.tally.add(Counter::HelperWaitNs, now.saturating_sub(job.since));
                    job.since = now;
                    self.busy[helper] = Some(job);
                }
                Err(_) => {
                    self.queue.insert(turn, job);
                    self.tally.add(Counter::HelpersLost, 1);
                    self.count -= 1;
                    self.crew.dismiss(helper);
                }
            }
        }
    }

    fn hire(&mut self) -> Option<usize> {
        if self.count >= self.limits.helpers_max {
            return None;
        }
        let helper = self.crew.hire().ok()?;
        self.count += 1;
        self.tally.add(Counter::HelpersStarted, 1);
        self.tally.max(Counter::HelpersOpenMax, self.count as u64);
        if self.busy.len() <= helper {
            self.busy.resize_with(helper + 1, || None);
            self.leaves.resize(helper + 1, false);
        }
        Some(helper)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::waiting::turns_compared, *};
    use regatta_metrics::{Arena, Gauge};
    use regatta_op::Codings;
    use regatta_sys::{Bell, hook};
    use std::{collections::VecDeque, os::fd::AsFd, sync::atomic::AtomicU64};

    /// Helpers that do nothing until they are told to.
    struct Idle {
        bell: Bell,
        said: VecDeque<(usize, Option<Outcome>)>,
        given: Vec<usize>,
        there: Vec<bool>,
        may_hire: bool,
    }

    impl Crew for Idle {
        fn hire(&mut self) -> io::Result<usize> {
            if !self.may_hire {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            self.there.push(true);
            Ok(self.there.len() - 1)
        }
        fn give(&mut self, helper: usize, _: &mut Errand) -> io::Result<()> {
            assert!(self.there[helper]);
            self.given.push(helper);
            Ok(())
        }
        fn dismiss(&mut self, helper: usize) {
            assert!(std::mem::replace(&mut self.there[helper], false));
        }
        fn hear(&mut self) -> Option<(usize, Option<Outcome>)> {
            self.said.pop_front()
        }
        fn source(&self) -> BorrowedFd<'_> {
            self.bell.as_fd()
        }
    }

    fn with(limits: Limits, may_hire: bool, test: impl FnOnce(Helpers<'_, Idle>, Tally<'_>)) {
        let words: Vec<AtomicU64> = (0..Arena::words(1)).map(|_| AtomicU64::new(0)).collect();
        let arena = Arena::create(&words, 1);
        let tally = Tally::Owned(arena.slot(0));
        let bell = Bell::new().unwrap();
        let (said, given, there) = (VecDeque::new(), Vec::new(), Vec::new());
        test(Helpers::new(Idle { bell, said, given, there, may_hire }, limits, tally), tally);
    }

    fn job(key: u64) -> Job {
        let req = OpenReq { path: (*b"a").into(), siblings: Codings::NONE };
        Job::new(key, Purpose::Open(Ticket(0)), Errand::Open(req))
    }

    const LIMITS: Limits = Limits { helpers_max: 2, helpers_idle_max: 1 };

    #[test]
    fn helpers_are_started_on_demand_and_kept_in_reserve() {
        with(LIMITS, true, |mut helpers, tally| {
            for key in 0..4 {
                helpers.ask(job(key)).unwrap();
            }
            assert_eq!(helpers.crew.given, [0, 1]);
            assert_eq!((helpers.count, helpers.queue.len()), (2, 2));
            helpers.crew.said.push_back((1, Some(Outcome::Found)));
            let (done, outcome) = helpers.news().unwrap();
            assert_eq!(done.key, 1);
            assert!(matches!(outcome, Some(Outcome::Found)));
            assert_eq!(helpers.crew.given, [0, 1, 1], "the next errand went to who was free");
            for helper in [0, 1, 0] {
                helpers.crew.said.push_back((helper, Some(Outcome::Found)));
            }
            let keys: Vec<_> = (0..3).map(|_| helpers.news().unwrap().0.key).collect();
            assert_eq!(keys, [0, 2, 3]);
            assert_eq!((helpers.count, helpers.idle.len()), (1, 1), "one is enough in reserve");
            assert!(helpers.news().is_none());
            let Tally::Owned(slot) = tally else { panic!("it is") };
            assert_eq!(slot.get(Counter::HelpersStopped), 1);
            assert_eq!(slot.gauge(Gauge::HelpersOpen), 1);
        });
    }

    /// systems.md §1.7: by role, and for each queue.
    #[test]
    fn time_is_busy_or_idle_and_the_queue_has_a_mean() {
        with(Limits { helpers_max: 1, helpers_idle_max: 1 }, true, |mut helpers, tally| {
            let at = |ns| hook::set_time(ns, 0);
            at(100);
            helpers.ask(job(0)).unwrap();
            helpers.ask(job(1)).unwrap();
            at(130);
            helpers.crew.said.push_back((0, Some(Outcome::Found)));
            assert_eq!(helpers.news().unwrap().0.key, 0);
            at(150);
            helpers.crew.said.push_back((0, Some(Outcome::Found)));
            assert_eq!(helpers.news().unwrap().0.key, 1);
            at(200);
            helpers.ask(job(2)).unwrap();
            hook::clear();
            let get = |counter| tally.slot().get(counter);
            assert_eq!(get(Counter::HelperBusyNs), 30 + 20);
            assert_eq!(get(Counter::HelperIdleNs), 50);
            assert_eq!(get(Counter::HelperWaitNs), 30);
            assert_eq!((get(Counter::HelperQueueSum), get(Counter::HelperQueueMax)), (1, 1));
        });
    }

    #[test]
    fn a_lost_helper_costs_no_errand() {
        with(LIMITS, true, |mut helpers, _| {
            helpers.ask(job(7)).unwrap();
            helpers.crew.said.push_back((0, None));
            assert!(helpers.news().is_none(), "another has it");
            assert_eq!(helpers.crew.given, [0, 1]);
            helpers.crew.said.push_back((1, None));
            let (back, outcome) = helpers.news().unwrap();
            assert!(back.key == 7 && outcome.is_none(), "it has cost two");
            assert_eq!(helpers.count, 0);
        });
    }

    #[test]
    fn what_nobody_waits_for_is_not_run() {
        with(LIMITS, true, |mut helpers, _| {
            for key in 0..3 {
                helpers.ask(job(key)).unwrap();
            }
            helpers.forget(2, Abandoned::All);
            helpers.forget(0, Abandoned::All);
            helpers.crew.said.push_back((0, Some(Outcome::Found)));
            let job = helpers.news().unwrap().0;
            assert!(!helpers.waiting.is_told(job.key, job.turn));
            assert_eq!(helpers.crew.given, [0, 1]);
        });
    }

    /// However many leave at once.
    #[test]
    fn to_forget_one_is_not_to_look_at_all() {
        const CLIENTS: u64 = 10_000;
        with(LIMITS, true, |mut helpers, _| {
            for key in 0..CLIENTS {
                helpers.ask(job(key)).unwrap();
            }
            let before = turns_compared();
            for key in (0..CLIENTS).rev() {
                helpers.forget(key, Abandoned::All);
            }
            // A look from the root of the tree to the turn.
            let compared = turns_compared() - before;
            assert!(compared < CLIENTS * 64, "{compared}");
            assert!(helpers.queue.is_empty() && helpers.waiting.is_empty());
        });
    }

    #[test]
    fn without_helpers_the_errand_comes_back() {
        with(LIMITS, false, |mut helpers, tally| {
            assert_eq!(helpers.ask(job(1)).unwrap_err().key, 1);
            assert!(helpers.queue.is_empty());
            let Tally::Owned(slot) = tally else { return };
            assert_eq!(slot.get(Counter::HelperTasksSelf), 1);
        });
    }
}
