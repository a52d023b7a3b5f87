//! A stage of threads: each takes connections from a queue, one or several at once, serves each
//! until its next operation is another stage's, and leaves it there.
use super::{Barrier, Leaving, Routes, StageEntry, StageJob, StageLine, gate::Gate};
use crate::{
    WorkerLog,
    conn::{
        budget::HandshakeBudget,
        step::{Io, Left, Readiness, step},
        worker::{Action, Worker},
    },
    drive::{Turn, ledger::Spent},
    loops::queue::Fifo,
};
use regatta_metrics::{Counter, Tally};
use regatta_op::CloseReason;
use regatta_origin::Protocol as _;
use regatta_sys::{clock, hook, wait::Interest};
use std::{
    fmt,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

/// Time that a thread waits for a connection before it checks what else there is, such as lines of
/// its log. The end of the line wakes it.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Work of the threads of a stage.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// The station whose queue they take from.
    pub at: usize,
    /// Index among its queues.
    pub part: usize,
    /// Stations of the operations that their rules leave to others.
    pub routes: Routes,
    /// The station of a connection that waits until its peer sends, or for a time.
    pub reads_at: usize,
    /// The station of one that waits until its peer has room.
    pub writes_at: usize,
    /// The station of one that has used up the budget of its turn.
    pub again_at: usize,
    /// The most that a thread takes at once.
    pub batch: BatchSize<'a>,
    /// Puts a batch into the order in which it is served.
    pub order: fn(&mut [StageJob]),
    /// Notified when a batch is done.
    pub barrier: Option<&'a Barrier>,
}

/// The most connections that a thread takes at once.
#[derive(Clone, Copy, Debug)]
pub enum BatchSize<'a> {
    /// This many; `usize::MAX`: all.
    Most(usize),
    /// Number that a controller sets.
    Shared(&'a AtomicU32),
}

impl BatchSize<'_> {
    fn most(self) -> usize {
        match self {
            Self::Most(most) => most,
            Self::Shared(most) => most.load(Relaxed) as usize,
        }
        .max(1)
    }
}

/// Extra parts of a stage of threads; none by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras<'a> {
    /// Whether it only passes connections on, by the operation that they were left for.
    pub relays: bool,
    /// The gate of the line: a request that ends here releases its place.
    pub gate: Option<&'a Gate>,
    /// A station that this stage alone relays to, and how many may wait there; those that come then
    /// are turned away. Threads that relay at the same time may put a batch each beyond it.
    pub bound: Option<(usize, usize)>,
    /// Observer of each visit.
    pub watches: Option<&'a dyn Watches>,
}

/// Observer of the visits of a stage's threads.
pub trait Watches: fmt::Debug + Sync {
    /// Notes that a thread has served `served`, in `busy_ns` nanoseconds. Decisions are about all
    /// threads of the stage: they show where its station counts.
    fn visited(&self, served: usize, busy_ns: u64, station: Tally<'_>, log: &dyn WorkerLog);
}

/// A thread of a stage.
#[expect(missing_debug_implementations, reason = "its worker has none")]
pub struct StageThread<'a> {
    worker: Worker<'a, Readiness>,
    io: Io<'a>,
    line: &'a StageLine<'a>,
    work: Work<'a>,
    batch: Vec<StageJob>,
    /// Connections of the batch that may yet shake hands.
    handshakes: HandshakeBudget,
    leaving: Leaving<'a>,
    extras: Extras<'a>,
}

impl<'a> StageThread<'a> {
    /// A thread that has no connection yet. Its worker has no listeners, and its rules leave to
    /// others what they are to do.
    pub fn new(
        worker: Worker<'a, Readiness>,
        io: Io<'a>,
        line: &'a StageLine<'a>,
        work: Work<'a>,
    ) -> Self {
        worker.around().cx.tally.add(Counter::ThreadsStarted, 1);
        let leaving = Leaving::new(line);
        let extras = Extras::default();
        let io = io.with_beat(worker.beat().cloned()).in_pipeline();
        let handshakes = HandshakeBudget::new(io.rules.handshakes_per_round);
        let batch = Vec::new();
        Self { worker: worker.fed(), io, line, work, batch, handshakes, leaving, extras }
    }

    /// Sets its extra parts.
    #[must_use]
    pub const fn with(mut self, extras: Extras<'a>) -> Self {
        self.extras = extras;
        self
    }

    /// Serves until the line is closed.
    pub fn run(mut self) {
        while self.goes_on() {
            self.visit(WAIT_MAX);
        }
    }

    /// True until the line is closed, or the master wants it to leave.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.worker.goes_on() && !self.line.is_closed()
    }

    /// Serves one batch, unless none comes within `patience`; false if none has.
    pub fn visit(&mut self, patience: Duration) -> bool {
        let tally = self.worker.around().cx.tally;
        let patience = self.worker.patience(patience);
        let since = clock::nanos();
        let (most, batch) = (self.work.batch.most(), &mut self.batch);
        let taken = queue(self.line, &self.work).take_batch(most, batch, patience, tally);
        self.attend();
        let begun = clock::nanos();
        tally.add(Counter::ThreadsIdleNs, begun - since);
        if taken == 0 {
            return false;
        }
        (self.work.order)(&mut self.batch);
        self.handshakes.renew();
        let mut batch = std::mem::take(&mut self.batch);
        for job in batch.drain(..) {
            self.serve(job);
        }
        self.batch = batch;
        self.leaving.leave(tally);
        let busy = clock::nanos() - begun;
        tally.add(Counter::StageNs, busy);
        tally.add(Counter::ThreadsBusyNs, busy);
        if let Some(barrier) = self.work.barrier {
            barrier.done(taken);
        }
        if let Some(watches) = self.extras.watches {
            let station = self.line.station(self.work.at).tally;
            watches.visited(taken, busy, station, self.worker.around().log);
        }
        true
    }

    /// Does what a worker does besides: clocks, root, log, and what the master wants.
    fn attend(&mut self) {
        let renewed = self.worker.read_clocks();
        self.io.begin_round(renewed);
        while let Some(action) = self.worker.next_action() {
            // It has no connection now, and none is accepted here.
            debug_assert!(matches!(action, Action::Drain), "{action:?}");
        }
    }

    /// Serves one connection, and leaves it to the next stage, unless it ends.
    fn serve(&mut self, job: StageJob) {
        hook::panic_in_visit();
        hook::hang_in_visit();
        // A thread may take as many at once as there are connections.
        self.worker.beats();
        let mut is_refused = false;
        if self.extras.relays
            && let Some(Left::Op(op)) = &job.left
        {
            let to = self.work.routes.route(op.kind());
            is_refused = self.extras.bound.is_some_and(|(station, most)| {
                to == station && self.line.len(to) + self.leaving.len(to) >= most
            });
            if !is_refused {
                return self.leaving.push(to, job);
            }
        }
        let shakes = job.passed.is_shaking_hands() && matches!(job.left, Some(Left::Received(_)));
        if shakes && !self.handshakes.spend() {
            // It waits here for another batch, behind what has come meanwhile.
            return self.leaving.push(self.work.at, job);
        }
        let StageJob { passed, mut drive, left, mut entered } = job;
        drive.moves(self.worker.held_ms());
        let place = drive.place;
        let key = self.worker.adopt(passed, drive);
        let Some((slot, desk)) = self.worker.turn(key) else { return };
        if is_refused {
            slot.conn.turn_away(desk.now, &desk.around.cx);
        }
        let parses = matches!(left, Some(Left::Received(_)));
        // The operation goes with the request that it was for, if that is given up.
        match left {
            Some(left) if !is_refused || slot.conn.abandoned().is_none() => self.io.resume(left),
            Some(_) => {
                desk.around.cx.tally.add(Counter::StageRefused, 1);
                // Its age is none of an answer.
                gives_back(self.extras.gate, std::mem::take(&mut entered));
            }
            None => {}
        }
        let Work { routes, reads_at, writes_at, again_at, .. } = self.work;
        let to = match step::<false>(slot, desk, key, Spent::default(), &mut self.io) {
            Turn::Left(kind) => routes.route(kind),
            Turn::Wait(Interest { write: true, .. }) => writes_at,
            Turn::Wait(_) | Turn::Parked => reads_at,
            Turn::Again => again_at,
            Turn::Closed(_) => {
                self.worker.close(key, CloseReason::Failed);
                gives_back(self.extras.gate, entered);
                return self.line.ended(place.home);
            }
        };
        slot.queued = false;
        let mut left = self.io.take_left().or_else(|| self.io.unpark(slot));
        if parses {
            Left::carry(&mut left, &desk.around.cx);
        }
        let held_ms = self.worker.held_ms();
        let Some((passed, mut drive)) = self.worker.pass(key) else { return };
        drive.moves(held_ms);
        self.leaving.push(to, StageJob { passed, drive, left, entered });
    }
}

impl Drop for StageThread<'_> {
    fn drop(&mut self) {
        self.worker.around().cx.tally.add(Counter::ThreadsEnded, 1);
        self.worker.around().log.flush();
    }
}

/// Releases the place of a request that leaves a line with a gate.
fn gives_back(gate: Option<&Gate>, entered: u64) {
    if let Some(gate) = gate.filter(|_| entered > 0) {
        gate.gives_back();
    }
}

/// The queue that a thread takes from.
fn queue<'a>(line: &'a StageLine<'_>, work: &Work<'_>) -> &'a Fifo<StageJob> {
    match &line.station(work.at).entry {
        StageEntry::Queued(queues, _) => &queues[work.part % queues.len()],
        StageEntry::Merged(_) => unreachable!("threads take from queues"),
    }
}
