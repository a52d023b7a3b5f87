//! A stage with a poller: an event loop in a pipeline. It takes in what others leave for it, and
//! leaves to others what its rules say; or it accepts, and leaves all that it accepts.
use super::{Barrier, Leaving, Routes, StageEntry, StageJob, StageLine, gate::Gate};
use crate::{Notice, WorkerLog, control::Decided};
use crate::{
    conn::{
        step::{Left, PipelinePlace, Readiness, ReadySlot},
        worker::Worker,
    },
    loops::queue::Returns,
};
use regatta_metrics::{Counter, Tally};
use regatta_op::OpKind;
use regatta_origin::Protocol as _;
use regatta_sys::{clock, socket};
use std::{
    collections::VecDeque,
    os::fd::{AsFd as _, BorrowedFd},
    time::Duration,
};

/// Time that it waits for a batch before it checks whether the line has been closed.
const BARRIER_WAIT_MAX: Duration = Duration::from_millis(100);

/// Interval at which it checks queues for what threads are late with, nanoseconds.
const LATE_NS: u64 = 100_000_000;

/// Duties of a stage with a poller.
#[derive(Clone, Copy, Debug)]
pub struct Does<'a> {
    /// Source of its connections.
    pub takes: Takes,
    /// Stations of the operations that its rules leave to others.
    pub routes: Routes,
    /// Whether it hears the master, for all of its process.
    pub hears: bool,
    /// Barrier and station: the stage waits until the batch that it left at this station is done.
    pub barrier: Option<(&'a Barrier, usize)>,
}

/// Source of the connections of a stage with a poller.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    /// From this station, whose set it takes over.
    Station(usize),
    /// From its listeners: it has no other connections than those that it lends.
    Listeners {
        /// Number of this acceptor.
        home: u8,
        /// The station for which it leaves them.
        to: usize,
        /// Parts of the pipeline that serve them, round-robin by a single acceptor; else one each.
        parts: u8,
    },
}

/// Side of the line's gate that a stage with a poller is.
#[derive(Clone, Copy, Debug)]
pub enum Gated<'a> {
    /// Requests come in here: what it has received is admitted to this station, or turned away.
    In(&'a Gate, usize),
    /// Answers arrive here: they are out of the line. The gate decides after each round. Reports
    /// all decisions, or those that change something; `None`: none.
    Out(&'a Gate, Option<Told>),
}

/// Decisions that the log reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Decisions that change something.
    Changes,
    /// All.
    All,
}

impl Told {
    /// Reports a decision about a stage.
    pub fn report(self, log: &dyn WorkerLog, stage: &str, decided: &Decided) {
        if self == Self::All || decided.decision.is_some() {
            log.notice(Notice::Decision, format_args!("stage {stage}: {decided}"));
        }
    }
}

/// State of an event loop that is a stage.
#[derive(Debug)]
pub struct PollStage<'a> {
    line: &'a StageLine<'a>,
    does: Does<'a>,
    /// Taken over and not taken in.
    mine: VecDeque<StageJob>,
    /// Taken back from threads that did not come to it; time of the next check, nanoseconds.
    late: VecDeque<StageJob>,
    late_at: u64,
    /// Ended and not reported.
    ended: VecDeque<()>,
    leaving: Leaving<'a>,
    /// Connections that it has accepted.
    accepted: usize,
    gated: Option<Gated<'a>>,
}

impl<'a> PollStage<'a> {
    /// A stage of a line.
    #[must_use]
    pub fn new(line: &'a StageLine<'a>, does: Does<'a>) -> Self {
        Self {
            line,
            does,
            mine: VecDeque::new(),
            late: VecDeque::new(),
            late_at: 0,
            ended: VecDeque::new(),
            leaving: Leaving::new(line),
            accepted: 0,
            gated: None,
        }
    }

    /// Makes this stage one side of the line's gate.
    #[must_use]
    pub const fn gated(mut self, gated: Gated<'a>) -> Self {
        self.gated = Some(gated);
        self
    }

    /// Descriptor that is readable when something has been left for it, or it is called.
    pub(crate) fn source(&self) -> BorrowedFd<'a> {
        match self.returns() {
            Ok(jobs) => jobs.source(),
            Err(ended) => ended.source(),
        }
    }

    /// Returns what is left for it: jobs, or one item for each accepted connection that has ended.
    fn returns(&self) -> Result<&'a Returns<StageJob>, &'a Returns<()>> {
        match self.does.takes {
            Takes::Listeners { home, .. } => Err(self.line.home(home.into())),
            Takes::Station(at) => match &self.line.station(at).entry {
                StageEntry::Merged(returns) => Ok(returns),
                StageEntry::Queued(..) => unreachable!("a stage with a poller has no queue"),
            },
        }
    }

    /// True if it hears the master.
    pub(crate) const fn hears(&self) -> bool {
        self.does.hears
    }

    /// Wakes the other stages: the master wants something else.
    pub(crate) fn calls(&self) {
        self.line.wake_all();
    }

    /// True if it is to end.
    pub(crate) fn is_over(&self) -> bool {
        self.line.is_closed()
    }

    /// Before a wait: false if it has something to do.
    pub(crate) fn falls_asleep(&self, worker: &Worker<'_, Readiness>) -> bool {
        match self.returns() {
            Ok(jobs) => jobs.falls_asleep(),
            // A worker with room need not know at once that there is more.
            Err(ended) if worker.is_listening() => ended.rests(),
            Err(ended) => ended.falls_asleep(),
        }
    }

    /// After a wait: takes over what is there.
    pub(crate) fn wakes(&mut self, worker: &mut Worker<'_, Readiness>) {
        let tally = worker.around().cx.tally;
        let was_rung = match self.returns() {
            Ok(jobs) => {
                let was_rung = jobs.wakes();
                jobs.take_all(&mut self.mine);
                if !self.mine.is_empty() {
                    tally.add(Counter::Merges, 1);
                    tally.add(Counter::QueueTakes, self.mine.len() as u64);
                }
                was_rung
            }
            Err(ended) => {
                let was_rung = ended.wakes();
                ended.take_all(&mut self.ended);
                self.ended.drain(..).for_each(|()| worker.ended_away());
                was_rung
            }
        };
        if was_rung {
            tally.add(Counter::QueueWakes, 1);
        }
        let admits = matches!(self.gated, Some(Gated::In(..)));
        if admits || self.does.hears {
            self.check_queues(admits.then_some(worker.around().cx.site.deadlines.disk_ms_max));
        }
    }

    /// Counts, now and then, how long items wait for threads. If `patience_ms`, the longest wait
    /// for a disk, is given, takes back what has waited that long, ms: the threads hang.
    fn check_queues(&mut self, patience_ms: Option<u64>) {
        let now = clock::nanos();
        if now < self.late_at {
            return;
        }
        self.late_at = now + LATE_NS;
        self.line.count_waiting();
        if let Some(ms) = patience_ms {
            self.line.take_older(now.saturating_sub(ms * 1_000_000), &mut self.late);
        }
    }

    /// The next that has been taken over, and whether it is late.
    pub(crate) fn next_job(&mut self) -> Option<(StageJob, bool)> {
        let late = self.late.pop_front().map(|job| (job, true));
        late.or_else(|| Some((self.mine.pop_front()?, false)))
    }

    /// Releases the place in the line that what arrived has had since `entered`, if it had one.
    pub(crate) fn has_arrived(&self, slot: &ReadySlot, entered: u64, is_late: bool) {
        let Some(gated) = self.gated.filter(|_| entered > 0) else { return };
        let class = slot.drive.place.class;
        match gated {
            // No thread has come to it, or its file could not be opened yet: it has no answer.
            Gated::In(gate, _) if is_late || slot.conn.tries_again() => gate.gives_back(),
            // Its head is not whole: what completes it pays for it.
            Gated::In(gate, _) if slot.conn.awaits_request(&[]) => gate.takes_back(class),
            // Where requests come in, its content is to come: the line has done its part.
            Gated::In(gate, _) | Gated::Out(gate, _) => {
                gate.leaves(class, clock::nanos().saturating_sub(entered));
            }
        }
    }

    /// Returns when what is left came, if it has a place in the line from now on; 0 if it needs
    /// none. The beginning of a request needs one.
    ///
    /// # Errors
    /// The gate, if it turns the request away.
    pub(crate) fn admits(&self, slot: &ReadySlot, left: Option<&Left>) -> Result<u64, &'a Gate> {
        let Some(Gated::In(gate, to)) =
            self.gated.filter(|_| left.is_some_and(|it| it.begins(slot)))
        else {
            return Ok(0);
        };
        let (waiting, now) = (self.line.len(to) + self.leaving.len(to), clock::nanos());
        if !gate.admits(waiting, slot.drive.place.class, now) {
            return Err(gate);
        }
        // A stage cannot see how long it has waited in the kernel, nor before it was accepted.
        let ago_ms = match gate.counts_ages() {
            true => socket::last_bytes_ms_ago(slot.socket.as_fd()).unwrap_or(0),
            false => 0,
        };
        Ok(now.saturating_sub(u64::from(ago_ms) * 1_000_000))
    }

    /// True if connections that are turned away here get no answer.
    pub(crate) const fn drops(&self) -> bool {
        matches!(self.gated, Some(Gated::In(gate, _)) if gate.drops())
    }

    /// True if all that it accepts is for others.
    pub(crate) const fn accepts(&self) -> bool {
        matches!(self.does.takes, Takes::Listeners { .. })
    }

    /// Leaves a connection that it has accepted to the stage that has it first.
    pub(crate) fn leave_accepted(&mut self, worker: &mut Worker<'_, Readiness>, key: u64) {
        let Takes::Listeners { home, to, parts } = self.does.takes else { return };
        let held_ms = worker.held_ms();
        let Some((passed, mut drive)) = worker.lend(key) else { return };
        let is_alone = self.line.homes() == 1;
        let turn = if is_alone { self.accepted } else { home.into() };
        self.accepted = self.accepted.wrapping_add(1);
        let part = u8::try_from(turn % usize::from(parts.max(1))).unwrap_or(0);
        drive.moves(held_ms);
        drive.place = PipelinePlace { home, part, class: home };
        self.leaving.push(to, StageJob { passed, drive, left: None, entered: 0 });
    }

    /// Leaves a connection that is no longer watched to another stage, for this operation.
    pub(crate) fn leave(
        &mut self,
        worker: &mut Worker<'_, Readiness>,
        key: u64,
        kind: OpKind,
        left: Option<Left>,
        entered: u64,
    ) {
        let held_ms = worker.held_ms();
        let left = left.or_else(|| Left::spare(&worker.around().cx));
        let Some(slot) = worker.slot(key) else { return };
        // Its other turn is the other stage's.
        slot.queued = false;
        slot.drive.moves(held_ms);
        let Some((passed, drive)) = worker.pass(key) else { return };
        self.leaving.push(self.does.routes.route(kind), StageJob { passed, drive, left, entered });
    }

    /// Reports the end of a connection to its acceptor.
    pub(crate) fn ended(&self, place: PipelinePlace) {
        if !self.accepts() {
            self.line.ended(place.home);
        }
    }

    /// Ends a round: what it leaves to others is theirs now, and where they take turns, it waits
    /// until they have done their part.
    pub(crate) fn end_round(&mut self, worker: &mut Worker<'_, Readiness>) {
        let tally = worker.around().cx.tally;
        if let Some(Gated::Out(gate, told)) = self.gated {
            let around = worker.around();
            gate.decides(clock::nanos(), tally, &mut |decided| {
                if let Some(told) = told {
                    told.report(around.log, "gate", decided);
                }
            });
        }
        let batch = self.does.barrier.map(|(barrier, to)| (barrier, self.leaving.len(to)));
        let Some((barrier, items @ 1..)) = batch else { return self.leaving.leave(tally) };
        barrier.begin(items);
        self.leaving.leave(tally);
        let since = clock::nanos();
        while !barrier.wait(BARRIER_WAIT_MAX) && !self.line.is_closed() {
            // The others are to come back.
            worker.beats();
        }
        let waited = clock::nanos() - since;
        tally.add(Counter::BarrierBatches, 1);
        tally.add(Counter::BarrierNs, waited);
        // Peers that only waited for the batch are not late.
        worker.held_by_others(waited / 1_000_000);
    }

    /// Closes the line: it cannot continue, nor can the others without it.
    pub(crate) fn fails(&self) {
        self.line.close();
    }

    /// Ends its service; a stage that accepts may be the last.
    pub(crate) fn ends(&mut self, tally: Tally<'_>) {
        self.leaving.leave(tally);
        for job in self.mine.drain(..).chain(self.late.drain(..)) {
            self.line.keep(job);
        }
        if self.accepts() {
            self.line.leaves();
        }
    }
}
