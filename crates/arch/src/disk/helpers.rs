//! Helpers run tasks that may block on disk, so that the event loop does not block.
//!
//! A helper runs one task at a time. Helpers are started when tasks are queued, up to a limit; idle
//! ones are kept, up to another, and others are stopped after a second. Only the event loop keeps
//! these lists: there is no lock.
#[cfg(test)]
pub(crate) mod schedule;

use crate::disk::{
    at_once::{Completion, DiskResult},
    silence::{Longest, Silence},
    waiters::{Sequence, Waiters},
};
use crate::drive::{
    film,
    ledger::Spent,
    perform::{self, Below, timed},
};
use crate::{WorkerLog, control::HelperWork};
use regatta_metrics::{Counter, FilmEvent, FilmSubject, Tally};
use regatta_op::{Abandoned, OpKind, OpenReq, ReadReq, Ticket};
use regatta_sys::{DiskSubject, FileSystem, OpenResult, Read, StaticFile, clock};
use std::{collections::BTreeMap, fmt, io, os::fd::BorrowedFd};

/// Helpers that may die with a task before the loop runs it itself.
const LOST_MAX: u8 = 2;
/// Helpers that leave and are not counted against [`HelperLimits::helpers_max`]: each may hang on a
/// root that has been replaced. Where more hang, tasks wait for them.
const LEAVING_MAX: usize = 16;

/// Work for a helper.
#[derive(Debug)]
pub enum HelperTask {
    /// Open a path.
    Open(OpenReq),
    /// Bring a range into the page cache.
    Touch(ReadReq<StaticFile>),
    /// Read a range and hand the bytes over: only for helpers that share the loop's memory.
    Read(ReadReq<StaticFile>),
}

impl HelperTask {
    /// The task for a helper that shares the loop's memory. It owns the buffer of a read until the
    /// task is done; if it dies, the buffer is lost.
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

/// The result of a task.
#[derive(Debug)]
pub enum TaskResult {
    /// The result of an open, with the files.
    Opened(OpenResult),
    /// The path can be opened, and its metadata is in memory now.
    Found,
    /// The range is in memory, or cannot be read, which the read will find out.
    Touched,
    /// The bytes.
    Read(Read),
}

/// The operation that a task is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Answering an open.
    Open(Ticket),
    /// Answering a read.
    Read(Ticket),
    /// Sending a range.
    Prefetch,
    /// Several operations, perhaps of several connections: the driver, which finishes them itself,
    /// says under what the task is counted.
    Shared(Counter),
}

impl Purpose {
    /// The operation, as a film names it.
    const fn operation(self) -> OpKind {
        match self {
            Self::Open(_) | Self::Shared(_) => OpKind::Open,
            Self::Read(_) => OpKind::Read,
            Self::Prefetch => OpKind::Send,
        }
    }

    /// The ticket of the operation; a `Send` has none.
    #[must_use]
    pub const fn ticket(self) -> Option<Ticket> {
        match self {
            Self::Open(ticket) | Self::Read(ticket) => Some(ticket),
            Self::Prefetch | Self::Shared(_) => None,
        }
    }
}

/// A task of a connection.
#[derive(Debug)]
pub struct HelperJob {
    /// The connection.
    pub key: u64,
    /// The operation that the task is part of.
    pub purpose: Purpose,
    /// The task.
    pub task: HelperTask,
    /// Place among the tasks that are queued.
    sequence: Sequence,
    /// Helpers that died with it.
    lost: u8,
    /// Time at which it was queued or assigned to a helper, by the precise clock.
    since: u64,
    /// The connection, for a film.
    filmed: Option<FilmSubject>,
}

impl HelperJob {
    /// A task that has not been queued yet.
    #[must_use]
    pub fn new(key: u64, purpose: Purpose, task: HelperTask) -> Self {
        let (sequence, lost, filmed) = (Sequence::default(), 0, None);
        Self { key, purpose, task, sequence, lost, since: clock::nanos(), filmed }
    }

    /// Writes a record of its helper, if a film was made when it was queued.
    fn film(&self, tally: Tally<'_>, helper: usize, event: fn(OpKind) -> FilmEvent) {
        if let Some(subject) = self.filmed {
            film::write_helper(tally, subject, helper, event(self.purpose.operation()));
        }
    }
}

/// The result of the operation that a task was part of. The loop does the rest of it: all, if the
/// task has no result.
fn finish(job: HelperJob, outcome: Option<TaskResult>, below: Below<'_>) -> (DiskResult, Spent) {
    let mut spent = Spent::default();
    let result = match (job.purpose, job.task, outcome) {
        (Purpose::Open(ticket), _, Some(TaskResult::Opened(found))) => {
            DiskResult::Opened(ticket, found)
        }
        (Purpose::Open(ticket), HelperTask::Open(req), _) => {
            DiskResult::Opened(ticket, timed(&mut spent.open, || below.open(&req)))
        }
        (Purpose::Read(ticket), _, Some(TaskResult::Read(read))) => DiskResult::Read(ticket, read),
        (Purpose::Read(ticket), HelperTask::Touch(req) | HelperTask::Read(req), _) => {
            DiskResult::Read(ticket, timed(&mut spent.read, || perform::read(req)))
        }
        (_, HelperTask::Touch(req) | HelperTask::Read(req), _) => DiskResult::Prefetched(req.len),
        // An open that is part of other operations.
        (_, HelperTask::Open(_), _) => DiskResult::Prefetched(1),
    };
    (result, spent)
}

/// Starts helpers of one kind, assigns tasks to them and takes their results. Helpers are numbered
/// from 0.
pub trait HelperPool {
    /// Starts a helper.
    ///
    /// # Errors
    /// The system refuses another one.
    fn start(&mut self) -> io::Result<usize>;
    /// Assigns a task to an idle helper.
    ///
    /// # Errors
    /// The helper is gone.
    fn assign(&mut self, helper: usize, task: &mut HelperTask) -> io::Result<()>;
    /// Stops an idle helper, or cleans up after one that is gone.
    fn stop(&mut self, helper: usize);
    /// The root has been replaced: helpers that are started from now on use the new one.
    fn renew_root(&mut self) {}
    /// The next helper that is done, and its result, which is `None` if the helper is gone.
    fn next_result(&mut self) -> Option<(usize, Option<TaskResult>)>;
    /// Readable while there may be a result.
    fn source(&self) -> BorrowedFd<'_>;
    /// File system of the first file that a helper opened, where the pool notes it.
    fn file_system(&self) -> Option<FileSystem> {
        None
    }
}

/// Limits on the number of helpers, and on how long they are waited for and kept.
#[derive(Clone, Copy, Debug)]
pub struct HelperLimits {
    /// Most helpers at the same time, without those that leave ([`LEAVING_MAX`]).
    pub helpers_max: usize,
    /// Most idle helpers.
    pub helpers_idle_max: usize,
    /// Another than the first is started when tasks have been queued for this long since the one
    /// before was started, nanoseconds.
    pub start_ns_min: u64,
    /// A helper that is not kept is stopped when it has been idle for this long, nanoseconds.
    pub idle_ns_min: u64,
}

impl HelperLimits {
    /// Limits for a single helper. More are to be started at once, and stopped when they have been
    /// idle for a second: to start one for each task takes longer than most tasks do.
    pub const PROMPT: Self =
        Self { helpers_max: 1, helpers_idle_max: 0, start_ns_min: 0, idle_ns_min: 1_000_000_000 };
}

/// The helpers of one loop, and the tasks that are queued for them. A connection has at most
/// [`regatta_op::DISK_OPS_MAX`] tasks and one for its `Send`, so the number of open connections
/// bounds the queue.
#[derive(Debug)]
pub struct Helpers<'a, C> {
    pool: C,
    limits: HelperLimits,
    /// Connections that wait for tasks, queued or running.
    waiters: Waiters,
    /// Tasks that wait for a helper, oldest first.
    queue: BTreeMap<Sequence, HelperJob>,
    /// Time at which the first task came to the empty queue, or a helper was started after that, by
    /// the precise clock.
    queued_since: u64,
    /// By helper: the task that it is running.
    busy: Vec<Option<HelperJob>>,
    /// By helper: whether it uses a root that has been replaced, and is to stop after its task.
    leaves: Vec<bool>,
    /// Number of helpers that leave.
    leaving: usize,
    /// The longest idle first, which is given a task last.
    idle: Vec<IdleHelper>,
    /// Number of helpers.
    count: usize,
    work: HelperWork,
    silence: Silence,
    tally: Tally<'a>,
}

/// A helper without a task.
#[derive(Clone, Copy, Debug)]
struct IdleHelper {
    helper: usize,
    /// Time at which it became idle, by the precise clock.
    since: u64,
}

impl<'a, C: HelperPool> Helpers<'a, C> {
    /// No helpers yet.
    pub fn new(pool: C, limits: HelperLimits, tally: Tally<'a>) -> Self {
        let (waiters, queue) = (Waiters::default(), BTreeMap::new());
        let (busy, leaves, idle) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            pool,
            limits,
            waiters,
            queue,
            queued_since: 0,
            busy,
            leaves,
            leaving: 0,
            idle,
            count: 0,
            work: HelperWork::default(),
            silence: Silence::default(),
            tally,
        }
    }

    /// The pool.
    pub const fn pool(&self) -> &C {
        &self.pool
    }

    /// Work so far.
    pub const fn work(&self) -> HelperWork {
        self.work
    }

    /// The most helpers at the same time.
    pub const fn helpers_max(&self) -> usize {
        self.limits.helpers_max
    }

    /// Sets the most helpers, and keeps half of them when they are idle. Busy ones beyond that stop
    /// after their tasks.
    pub fn resize(&mut self, helpers_max: usize) {
        self.limits.helpers_max = helpers_max;
        self.limits.helpers_idle_max = helpers_max.div_ceil(2);
        let now = clock::nanos();
        while self.counted() > helpers_max && !self.idle.is_empty() {
            let idle = self.idle.remove(0);
            self.stop(idle, now);
        }
        self.dispatch();
    }

    /// Number of tasks that wait for a helper.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Whether a task waits or is being performed.
    pub fn has_tasks(&self) -> bool {
        !self.queue.is_empty() || self.count > self.idle.len()
    }

    /// Reports files that helpers wait for too long. `disk` is what lines begin with.
    pub fn check(&mut self, disk: impl fmt::Display, now_ns: u64, log: &dyn WorkerLog) {
        let operations = self.queue.len() + self.count - self.idle.len();
        let oldest = self.busy.iter().flatten().min_by_key(|job| job.since);
        let longest = oldest.map(|HelperJob { since, task, .. }| {
            let subject = match task {
                HelperTask::Open(req) => DiskSubject::Opens(req),
                HelperTask::Touch(req) | HelperTask::Read(req) => DiskSubject::Reads(&req.file),
            };
            Longest { since: *since, subject, operations }
        });
        self.silence.check(disk, longest, now_ns, log);
    }

    /// Queues a task.
    ///
    /// # Errors
    /// No helper exists and none can be started: the caller runs the task.
    fn submit(&mut self, mut job: HelperJob) -> Result<(), HelperJob> {
        self.tally.add(
            match job.purpose {
                Purpose::Open(_) => Counter::HelperTasksOpen,
                Purpose::Read(_) => Counter::HelperTasksRead,
                Purpose::Prefetch => Counter::HelperTasksPrefetch,
                Purpose::Shared(counter) => counter,
            },
            1,
        );
        job.filmed = film::is_on(self.tally).then(film::subject);
        job.sequence = self.waiters.add(job.key, job.purpose.ticket());
        if self.queue.is_empty() {
            self.queued_since = job.since;
        }
        self.queue.insert(job.sequence, job);
        self.dispatch();
        let queued = self.queue.len() as u64;
        if queued > 0 && self.counted() < self.limits.helpers_max && self.is_early() {
            self.tally.add(Counter::FlashDelayed, 1);
        }
        self.tally.max(Counter::HelperQueueMax, queued);
        self.tally.add(Counter::HelperQueueSum, queued);
        if self.counted() == 0
            && let Some((_, job)) = self.queue.pop_last()
        {
            self.waiters.remove(job.key, job.sequence);
            self.tally.add(Counter::HelperTasksSelf, 1);
            return Err(job);
        }
        Ok(())
    }

    /// Queues a task, or runs it at once if there is no helper and none can be started: then this
    /// is the result.
    pub fn submit_or_run(&mut self, job: HelperJob, below: Below<'_>) -> Option<DiskResult> {
        self.submit(job).err().map(|job| finish(job, None, below).0)
    }

    /// The next completion that a connection waits for. Others are dropped, with their files.
    pub fn next_completion(&mut self, below: Below<'_>) -> Option<Completion> {
        loop {
            let (job, outcome) = self.next_finished()?;
            let key = job.key;
            if !self.waiters.remove(key, job.sequence) {
                self.tally.add(Counter::DiskCompletionsDropped, 1);
                continue;
            }
            let (result, spent) = finish(job, outcome, below);
            return Some(Completion { key, result, spent });
        }
    }

    /// The next task that is done, and its result, which is `None` if the loop must run it itself.
    fn next_finished(&mut self) -> Option<(HelperJob, Option<TaskResult>)> {
        loop {
            if self.counted() == 0 && !self.queue.is_empty() {
                self.dispatch();
            }
            if self.counted() == 0
                && let Some((_, job)) = self.queue.pop_first()
            {
                self.tally.add(Counter::HelperTasksSelf, 1);
                return Some((job, None));
            }
            let (helper, outcome) = self.pool.next_result()?;
            let job = self.busy.get_mut(helper).and_then(Option::take);
            let Some(outcome) = outcome else {
                if let Some(job) = self.lost(helper, job) {
                    return Some((job, None));
                }
                continue;
            };
            self.tally.add(Counter::HelperCompletions, 1);
            if let Some(job) = &job {
                job.film(self.tally, helper, FilmEvent::HelperEnds);
            }
            let now = clock::nanos();
            if self.has_left(helper) || self.counted() > self.limits.helpers_max {
                self.stop(IdleHelper { helper, since: now }, now);
            } else {
                self.idle.push(IdleHelper { helper, since: now });
            }
            self.dispatch();
            self.stop_idle(now);
            if let Some(job) = job {
                let took = now.saturating_sub(job.since);
                self.tally.add(Counter::HelperBusyNs, took);
                self.work.done += 1;
                self.work.busy_ns += took;
                return Some((job, Some(outcome)));
            }
        }
    }

    /// Forgets all tasks of a connection, or one of them: queued ones are dropped now, running ones
    /// when they are done.
    pub fn forget(&mut self, key: u64, what: Abandoned) {
        self.waiters.forget(key, what, |sequence| drop(self.queue.remove(&sequence)));
    }

    /// Stops all helpers that use the replaced root, busy ones after their tasks. New ones are
    /// started on demand: at once, if tasks are queued.
    pub fn renew_root(&mut self) {
        self.pool.renew_root();
        let now = clock::nanos();
        while let Some(idle) = self.idle.pop() {
            self.stop(idle, now);
        }
        for (leaves, job) in self.leaves.iter_mut().zip(&self.busy) {
            *leaves = job.is_some();
        }
        self.leaving = self.leaves.iter().filter(|leaves| **leaves).count();
        self.dispatch();
    }

    /// True if the helper was to leave after its task, which is over.
    fn has_left(&mut self, helper: usize) -> bool {
        let has_left = std::mem::take(&mut self.leaves[helper]);
        self.leaving -= usize::from(has_left);
        has_left
    }

    /// Helpers that count against the limit.
    fn counted(&self) -> usize {
        self.count - self.leaving.min(LEAVING_MAX)
    }

    /// Stops helpers beyond those that are kept, if they have been idle for long enough.
    fn stop_idle(&mut self, now: u64) {
        while self.idle.len() > self.limits.helpers_idle_max
            && now.saturating_sub(self.idle[0].since) >= self.limits.idle_ns_min
        {
            let idle = self.idle.remove(0);
            self.stop(idle, now);
        }
    }

    fn stop(&mut self, IdleHelper { helper, since }: IdleHelper, now: u64) {
        self.count -= 1;
        self.tally.add(Counter::HelperIdleNs, now.saturating_sub(since));
        self.tally.add(Counter::HelpersStopped, 1);
        self.pool.stop(helper);
    }

    /// Readable while there may be completions.
    pub fn source(&self) -> BorrowedFd<'_> {
        self.pool.source()
    }

    /// Cleans up after a helper that died. Its task goes to another one, or to the loop if too many
    /// have died with it.
    fn lost(&mut self, helper: usize, job: Option<HelperJob>) -> Option<HelperJob> {
        self.tally.add(Counter::HelpersLost, 1);
        self.idle.retain(|idle| idle.helper != helper);
        self.has_left(helper);
        self.count -= 1;
        self.pool.stop(helper);
        let mut job = job?;
        job.film(self.tally, helper, FilmEvent::HelperEnds);
        job.lost += 1;
        if job.lost < LOST_MAX {
            job.since = clock::nanos();
            if self.waiters.contains(job.key, job.sequence) {
                // It keeps its place in the queue.
                self.queue.insert(job.sequence, job);
            } else {
                self.tally.add(Counter::DiskCompletionsDropped, 1);
            }
            self.dispatch();
            return None;
        }
        self.tally.add(Counter::HelperTasksSelf, 1);
        Some(job)
    }

    /// Assigns tasks and starts helpers until there are no more tasks or no more helpers.
    fn dispatch(&mut self) {
        while !self.queue.is_empty() {
            let idle = self.idle.pop();
            let starts = || Some(IdleHelper { helper: self.start()?, since: clock::nanos() });
            let Some(IdleHelper { helper, since }) = idle.or_else(starts) else { return };
            let Some((sequence, mut job)) = self.queue.pop_first() else { return };
            match self.pool.assign(helper, &mut job.task) {
                Ok(()) => {
                    let now = clock::nanos();
                    self.tally.add(Counter::HelperIdleNs, now.saturating_sub(since));
                    let waited = now.saturating_sub(job.since);
                    self.tally.add(Counter::HelperWaitNs, waited);
                    self.work.assigned += 1;
                    self.work.waited_ns += waited;
                    job.since = now;
                    job.film(self.tally, helper, FilmEvent::HelperBegins);
                    self.busy[helper] = Some(job);
                }
                Err(_) => {
                    self.queue.insert(sequence, job);
                    self.tally.add(Counter::HelpersLost, 1);
                    self.count -= 1;
                    self.pool.stop(helper);
                }
            }
        }
    }

    /// True if another helper is not started yet.
    fn is_early(&self) -> bool {
        let queued_ns = clock::nanos().saturating_sub(self.queued_since);
        self.count > self.leaving && queued_ns < self.limits.start_ns_min
    }

    /// Starts a helper, if there may be another.
    fn start(&mut self) -> Option<usize> {
        if self.counted() >= self.limits.helpers_max || self.is_early() {
            return None;
        }
        let helper = self.pool.start().ok()?;
        self.queued_since = clock::nanos();
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
    use regatta_metrics::Gauge;
    use regatta_op::Codings;
    use regatta_sys::{Bell, hook};
    use regatta_testkit::counters::arena;
    use std::{collections::VecDeque, os::fd::AsFd};
    use {super::*, crate::disk::waiters::sequences_compared};

    /// Helpers that finish nothing until the test makes them.
    struct Idle {
        bell: Bell,
        results: VecDeque<(usize, Option<TaskResult>)>,
        given: Vec<usize>,
        there: Vec<bool>,
        may_hire: bool,
    }

    impl HelperPool for Idle {
        fn start(&mut self) -> io::Result<usize> {
            if !self.may_hire {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            self.there.push(true);
            Ok(self.there.len() - 1)
        }
        fn assign(&mut self, helper: usize, _: &mut HelperTask) -> io::Result<()> {
            assert!(self.there[helper]);
            self.given.push(helper);
            Ok(())
        }
        fn stop(&mut self, helper: usize) {
            assert!(std::mem::replace(&mut self.there[helper], false));
        }
        fn next_result(&mut self) -> Option<(usize, Option<TaskResult>)> {
            self.results.pop_front()
        }
        fn source(&self) -> BorrowedFd<'_> {
            self.bell.as_fd()
        }
    }

    fn with(limits: HelperLimits, may_hire: bool, test: impl FnOnce(Helpers<'_, Idle>, Tally<'_>)) {
        let arena = arena(1);
        let tally = Tally::Owned(arena.slot(0));
        let bell = Bell::new().unwrap();
        let (results, given, there) = (VecDeque::new(), Vec::new(), Vec::new());
        test(Helpers::new(Idle { bell, results, given, there, may_hire }, limits, tally), tally);
    }

    fn job(key: u64) -> HelperJob {
        let req = OpenReq { path: (*b"a").into(), siblings: Codings::NONE };
        HelperJob::new(key, Purpose::Open(Ticket(0)), HelperTask::Open(req))
    }

    const LIMITS: HelperLimits =
        HelperLimits { helpers_max: 2, helpers_idle_max: 1, ..HelperLimits::PROMPT };

    /// Lets helpers finish their tasks, and returns the keys of the jobs.
    fn finish(helpers: &mut Helpers<'_, Idle>, by: &[usize]) -> Vec<u64> {
        let found = by.iter().map(|helper| (*helper, Some(TaskResult::Found)));
        helpers.pool.results.extend(found);
        by.iter().map(|_| helpers.next_finished().unwrap().0.key).collect()
    }

    #[test]
    fn helpers_are_started_on_demand_and_kept_in_reserve() {
        with(LIMITS, true, |mut helpers, tally| {
            for key in 0..4 {
                helpers.submit(job(key)).unwrap();
            }
            assert_eq!(helpers.pool.given, [0, 1]);
            assert_eq!((helpers.count, helpers.queue.len()), (2, 2));
            helpers.pool.results.push_back((1, Some(TaskResult::Found)));
            let (done, outcome) = helpers.next_finished().unwrap();
            assert_eq!(done.key, 1);
            assert!(matches!(outcome, Some(TaskResult::Found)));
            assert_eq!(helpers.pool.given, [0, 1, 1], "the next task went to the idle helper");
            assert_eq!(finish(&mut helpers, &[0, 1, 0]), [0, 2, 3]);
            assert_eq!((helpers.count, helpers.idle.len()), (2, 2), "both may be wanted again");
            assert!(helpers.next_finished().is_none());
            helpers.submit(job(4)).unwrap();
            hook::set_time(clock::nanos() + LIMITS.idle_ns_min, 0);
            assert_eq!(finish(&mut helpers, &[0]), [4]);
            hook::clear();
            assert_eq!(helpers.pool.there, [true, false], "the one that was not wanted for long");
            assert_eq!((helpers.count, helpers.idle.len()), (1, 1), "one idle helper is kept");
            assert_eq!(tally.slot().get(Counter::HelpersStopped), 1);
            assert_eq!(tally.slot().gauge(Gauge::HelpersOpen), 1);
        });
    }

    /// systems.md §1.7: by role, and for each queue.
    #[test]
    fn time_is_busy_or_idle_and_the_queue_has_a_mean() {
        let one = HelperLimits { helpers_idle_max: 1, ..HelperLimits::PROMPT };
        with(one, true, |mut helpers, tally| {
            let at = |ns| hook::set_time(ns, 0);
            at(100);
            helpers.submit(job(0)).unwrap();
            helpers.submit(job(1)).unwrap();
            at(130);
            assert_eq!(finish(&mut helpers, &[0]), [0]);
            at(150);
            assert_eq!(finish(&mut helpers, &[0]), [1]);
            at(200);
            helpers.submit(job(2)).unwrap();
            hook::clear();
            let get = |counter| tally.slot().get(counter);
            assert_eq!(get(Counter::HelperBusyNs), 30 + 20);
            assert_eq!(get(Counter::HelperIdleNs), 50);
            assert_eq!(get(Counter::HelperWaitNs), 30);
            assert_eq!((get(Counter::HelperQueueSum), get(Counter::HelperQueueMax)), (1, 1));
        });
    }

    /// The way of Flash: one helper, and another when one has not been enough for a while.
    #[test]
    fn another_helper_is_started_when_tasks_have_waited() {
        let limits = HelperLimits { helpers_max: 3, start_ns_min: 1_000, ..LIMITS };
        with(limits, true, |mut helpers, tally| {
            let delayed = || tally.slot().get(Counter::FlashDelayed);
            for (key, at, count) in [(0, 100, 0), (1, 100, 1), (2, 1_099, 2)] {
                hook::set_time(at, 0);
                helpers.submit(job(key)).unwrap();
                assert_eq!((helpers.pool.given.len(), delayed()), (1, count), "task {key}");
            }
            // The clock begins again with each helper that is started.
            for (key, at, given) in [
                (3, 1_100, &[0, 1][..]),
                (4, 1_100, &[0, 1]),
                (5, 2_099, &[0, 1]),
                (6, 2_100, &[0, 1, 2]),
            ] {
                hook::set_time(at, 0);
                helpers.submit(job(key)).unwrap();
                assert_eq!(helpers.pool.given[..], *given, "task {key}");
            }
            finish(&mut helpers, &[0, 1, 2, 0, 1, 2, 0]);
            assert!(helpers.next_finished().is_none());
            assert_eq!((helpers.count, helpers.idle.len(), delayed()), (3, 3, 5));
            hook::clear();
        });
    }

    /// A disk below the old root hangs: the new root has as many helpers as there may be. The
    /// number of those left behind has a bound.
    #[test]
    fn helpers_that_hang_below_the_old_root_do_not_count() {
        with(LIMITS, true, |mut helpers, _| {
            let (mut key, mut started) = (0, 0);
            for switches in 1..=LEAVING_MAX {
                for _ in 0..LIMITS.helpers_max {
                    helpers.submit(job(key)).unwrap();
                    key += 1;
                }
                helpers.renew_root();
                let left = (LIMITS.helpers_max * switches).min(LEAVING_MAX + LIMITS.helpers_max);
                started = started.max(left);
                assert_eq!(helpers.count, started, "after {switches} switches");
            }
            helpers.submit(job(key)).unwrap();
            assert!(!helpers.queue.is_empty(), "it waits for one that hangs");
            assert_eq!(finish(&mut helpers, &[0]), [0]);
            assert_eq!(helpers.counted(), LIMITS.helpers_max);
            assert!(!helpers.pool.there[0], "it has left");
        });
    }

    #[test]
    fn helpers_beyond_a_new_limit_stop_after_their_tasks() {
        with(LIMITS, true, |mut helpers, tally| {
            (0..5).for_each(|key| helpers.submit(job(key)).unwrap());
            helpers.resize(4);
            assert_eq!((helpers.count, helpers.queue.len()), (4, 1), "two more at once");
            helpers.resize(1);
            assert_eq!(helpers.count, 4, "all are busy");
            assert_eq!(finish(&mut helpers, &[0, 1, 2]), [0, 1, 2]);
            assert_eq!((helpers.count, helpers.queue.len()), (1, 1));
            assert_eq!(finish(&mut helpers, &[3, 3]), [3, 4]);
            helpers.resize(2);
            assert_eq!((helpers.count, helpers.idle.len()), (1, 1), "none is started without work");
            let HelperWork { assigned, done, .. } = helpers.work();
            assert_eq!((assigned, done, helpers.has_tasks()), (5, 5, false));
            assert_eq!(tally.slot().get(Counter::HelpersStopped), 3);
        });
    }

    #[test]
    fn a_task_survives_a_lost_helper() {
        with(LIMITS, true, |mut helpers, _| {
            helpers.submit(job(7)).unwrap();
            helpers.pool.results.push_back((0, None));
            assert!(helpers.next_finished().is_none(), "another has it");
            assert_eq!(helpers.pool.given, [0, 1]);
            helpers.pool.results.push_back((1, None));
            let (back, outcome) = helpers.next_finished().unwrap();
            assert!(back.key == 7 && outcome.is_none(), "two helpers died with it");
            assert_eq!(helpers.count, 0);
        });
    }

    #[test]
    fn forgotten_tasks_are_not_run() {
        with(LIMITS, true, |mut helpers, _| {
            for key in 0..3 {
                helpers.submit(job(key)).unwrap();
            }
            helpers.forget(2, Abandoned::All);
            helpers.forget(0, Abandoned::All);
            helpers.pool.results.push_back((0, Some(TaskResult::Found)));
            let job = helpers.next_finished().unwrap().0;
            assert!(!helpers.waiters.remove(job.key, job.sequence));
            assert_eq!(helpers.pool.given, [0, 1]);
        });
    }
    /// Also when many connections close at once.
    #[test]
    fn forgetting_one_does_not_search_all() {
        const CLIENTS: u64 = 10_000;
        with(LIMITS, true, |mut helpers, _| {
            for key in 0..CLIENTS {
                helpers.submit(job(key)).unwrap();
            }
            let before = sequences_compared();
            for key in (0..CLIENTS).rev() {
                helpers.forget(key, Abandoned::All);
            }
            // One search of the tree each.
            let compared = sequences_compared() - before;
            assert!(compared < CLIENTS * 64, "{compared}");
            assert!(helpers.queue.is_empty() && helpers.waiters.is_empty());
        });
    }

    #[test]
    fn without_helpers_the_loop_runs_the_task() {
        with(LIMITS, false, |mut helpers, tally| {
            assert_eq!(helpers.submit(job(1)).unwrap_err().key, 1);
            assert!(helpers.queue.is_empty());
            assert_eq!(tally.slot().get(Counter::HelperTasksSelf), 1);
        });
    }
}
