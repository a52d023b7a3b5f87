//! A dispatcher and its pool of threads: it accepts, and watches connections whose peers are to
//! send. A connection with something to receive goes to a thread, which serves it with calls that
//! block, and hands it back when its peer is to send again. The dispatcher closes those that only
//! ended.
//!
//! A connection is with the dispatcher, in the queue, with a thread, or on its way back: never in
//! two of these, so none of them locks it. The poller watches it only while it is with the
//! dispatcher.
use crate::drive::{
    Turn,
    ledger::Spent,
    perform::{self, TransferFailure},
};
use crate::{
    conn::{
        beats::{Beat, Beats},
        serve::{Blocking, Means, Served, Until, attend, converse, read_clocks},
        worker::{Action, Passed, WaitTally, Worker},
    },
    loops::queue::{Fifo, Returns},
};
use regatta_metrics::{Counter, Tally};
use regatta_op::{Abandoned, CloseReason, Done, Op};
use regatta_sys::{
    clock,
    socket::unread_bytes,
    wait::{Event, Interest, Poller, ready_now},
};
use std::{io, os::fd::AsFd, time::Duration};

/// Events of a round for which there is room from the beginning.
const EVENTS: usize = 1024;
/// Time that a thread waits for a connection before it checks what else there is, such as lines of
/// its log. The end of the queue wakes it.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Interval at which the waiting time of queued connections is counted, nanoseconds.
const COUNT_NS: u64 = 100_000_000;
/// Most of the dispatcher's memory that a connection takes while its peer is to send, bytes.
const CONNECTION_BYTES_MAX: usize = 384;
const _: () = assert!(Worker::<Blocking>::SLOT_BYTES <= CONNECTION_BYTES_MAX);
/// Keys with the top bit are the dispatcher's own.
const BELL: u64 = u64::MAX;
const BACK: u64 = u64::MAX - 1;
const LISTENERS: u64 = 1 << 63;

/// A connection between the dispatcher and a thread, and what a thread keeps of it.
#[derive(Debug)]
pub struct DispatchJob {
    /// The connection.
    pub passed: Passed,
    /// Operations: the `Recv` that is out, or what is to be performed next.
    pub drive: Blocking,
}

/// Outcome of a connection that was handed over.
#[expect(clippy::large_enum_variant, reason = "nearly all are the large one: no box for each")]
#[derive(Debug)]
pub enum Back {
    /// The peer is to send.
    Waits(DispatchJob),
    /// The connection has been closed.
    Closed,
}

/// State that the dispatcher and its threads share.
#[derive(Debug)]
pub struct DispatchPool {
    /// Connections for whichever thread is free first.
    pub jobs: Fifo<DispatchJob>,
    /// Connections that threads have done with.
    pub back: Returns<Back>,
    /// Longest wait of a call of a thread.
    pub step: Duration,
    /// Beats, which show whether its threads come back to their work.
    pub beats: Beats,
}

impl DispatchPool {
    /// A pool for at most `connections_max` connections.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new(connections_max: usize, step: Duration) -> io::Result<Self> {
        let (jobs, back, beats) = (Fifo::new(connections_max), Returns::new()?, Beats::default());
        Ok(Self { jobs, back, step, beats })
    }
}

/// The dispatcher.
#[expect(missing_debug_implementations, reason = "its worker has none")]
pub struct Dispatch<'a, P> {
    poller: P,
    worker: Worker<'a, Blocking>,
    pool: &'a DispatchPool,
    /// Time at which the waiting time of queued connections is counted next, nanoseconds.
    count_at: u64,
}

/// Next need of a connection that is with the dispatcher.
#[derive(Clone, Copy, Debug)]
enum Wants {
    /// Bytes of its peer.
    Peer,
    /// A thread, because it has something else to do after its deadline.
    Thread,
    /// The end.
    Close(CloseReason),
}

impl<'a, P: Poller> Dispatch<'a, P> {
    /// A dispatcher that is not listening yet. Its worker's connections are in blocking mode.
    pub fn new(poller: P, worker: Worker<'a, Blocking>, pool: &'a DispatchPool) -> Self {
        let worker = worker.with_pulse(pool.beats.pulse(true));
        Self { poller, worker, pool, count_at: 0 }
    }

    /// Dispatches until the master says otherwise and the last connection has ended; ends the
    /// threads then.
    ///
    /// # Errors
    /// If the poller fails, which leaves nothing to continue with.
    pub fn run(&mut self) -> io::Result<()> {
        let result = self.rounds();
        for job in self.pool.jobs.close() {
            self.end(job);
        }
        result
    }

    /// Ends connections that came back too late. The threads have ended.
    pub fn finish(mut self) {
        while let Some(back) = self.pool.back.next() {
            match back {
                Back::Waits(job) => self.end(job),
                Back::Closed => self.worker.ended_away(),
            }
        }
        self.worker.around().log.flush();
    }

    fn end(&mut self, job: DispatchJob) {
        let key = self.worker.take_back(job.passed, job.drive);
        self.worker.close(key, CloseReason::Drained);
    }

    fn rounds(&mut self) -> io::Result<()> {
        self.poller.add_level(self.worker.around().bell.as_fd(), BELL, Interest::READ)?;
        self.poller.add_level(self.pool.back.source(), BACK, Interest::READ)?;
        let mut events = Vec::with_capacity(EVENTS);
        while self.worker.goes_on() {
            self.wait(&mut events)?;
            while let Some(back) = self.pool.back.next() {
                self.comes_back(back);
            }
            for event in events.drain(..) {
                self.dispatch(event);
                while let Some(action) = self.worker.next_accept() {
                    self.perform(action);
                }
            }
            while let Some(action) = self.worker.next_action() {
                self.perform(action);
            }
        }
        Ok(())
    }

    /// Waits for events, and for connections that come back.
    fn wait(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        // Accepting pauses if they cannot be watched.
        let _ = self.worker.watch_listeners(&mut self.poller, LISTENERS);
        let wait = self.worker.begin_wait();
        let sleeps = self.pool.back.falls_asleep();
        let timeout = if sleeps { wait.timeout } else { Duration::ZERO };
        let events = self.poller.wait(events, Some(timeout));
        if self.pool.back.wakes() {
            self.tally().add(Counter::QueueWakes, 1);
        }
        let (watched, changes) = (self.poller.len(), self.poller.changes());
        let waited = WaitTally { events: events?, watched, changes };
        let _root_is_another = self.worker.end_wait(wait, waited);
        let now = clock::nanos();
        if now >= self.count_at {
            self.count_at = now + COUNT_NS;
            self.pool.jobs.count_waiting(self.tally());
        }
        Ok(())
    }

    fn comes_back(&mut self, back: Back) {
        match back {
            Back::Waits(DispatchJob { passed, drive }) => {
                self.tally().add(Counter::HandBacks, 1);
                let key = self.worker.take_back(passed, drive);
                self.place(key, false);
            }
            Back::Closed => self.worker.ended_away(),
        }
    }

    /// Hands on what the poller said.
    fn dispatch(&mut self, event: Event) {
        match event.key {
            BELL => drop(self.worker.around().bell.clear()),
            BACK => {}
            key if key >= LISTENERS => {
                self.worker.offer(usize::try_from(key - LISTENERS).expect("few listeners"));
            }
            key => {
                if let Some((slot, desk)) = self.worker.turn(key) {
                    // It waits for a thread, too.
                    desk.sample(slot);
                    if event.hangup && self.hears_the_end(key) {
                        self.turn(key);
                    } else {
                        self.hand_over(key);
                    }
                }
            }
        }
    }

    /// Receives the end of a stream whose peer has sent nothing more; false if there is something
    /// else to receive, which is a thread's.
    fn hears_the_end(&mut self, key: u64) -> bool {
        let Some((slot, desk)) = self.worker.turn(key) else { return false };
        if !slot.drive.reads() || unread_bytes(slot.socket.as_fd()).is_ok_and(|bytes| bytes > 0) {
            return false;
        }
        let mut byte = [0];
        let received = match perform::recv(&slot.socket, &mut byte, desk.around.cx.tally) {
            Ok(n) => Ok(&byte[..n]),
            Err(TransferFailure::Fault(fault)) => Err(fault),
            Err(TransferFailure::WouldBlock) => return false,
        };
        slot.drive.recv = false;
        slot.complete(Done::Recv(received), desk.now, &desk.around.cx);
        true
    }

    /// Does what the worker says.
    fn perform(&mut self, action: Action) {
        match action {
            Action::Close(key, reason) => self.close(key, reason),
            Action::Admit(accepted) => {
                let at_once = self.worker.accept_rules().eager_read;
                let key = self.worker.admit(accepted, Blocking::new(self.pool.step));
                self.place(key, at_once);
            }
            Action::Drain => self.worker.offer_backlog(),
            Action::Turn(key) => self.turn(key),
            Action::Late(key) => {
                let slot = self.worker.slot(key);
                let ready = slot.map(|slot| ready_now(slot.socket.as_fd(), Interest::READ));
                // What has come by now comes before the deadline.
                if ready.is_some_and(|ready| ready.is_ok_and(|event| event.readable)) {
                    self.hand_over(key);
                }
            }
            Action::Expired(key, abandoned) => {
                if let (Some(slot), Some(Abandoned::All)) = (self.worker.slot(key), abandoned) {
                    slot.drive.recv = false;
                }
                self.turn(key);
            }
        }
    }

    /// Has a connection that is not watched yet wait for its peer, or hands it over.
    fn place(&mut self, key: u64, at_once: bool) {
        match self.ask(key) {
            Some(Wants::Peer) if !at_once => {
                let Some(slot) = self.worker.slot(key) else { return };
                if self.poller.add_reader(slot.socket.as_fd(), key).is_err() {
                    self.worker.close(key, CloseReason::Failed);
                }
            }
            Some(Wants::Peer | Wants::Thread) => self.lend(key),
            Some(Wants::Close(reason)) => self.worker.close(key, reason),
            None => {}
        }
    }

    /// Asks a watched connection what it does, now that it is to drain, its deadline has passed, or
    /// its peer sends no more.
    fn turn(&mut self, key: u64) {
        match self.ask(key) {
            Some(Wants::Peer) | None => {}
            Some(Wants::Thread) => self.hand_over(key),
            Some(Wants::Close(reason)) => self.close(key, reason),
        }
    }

    /// Returns what a connection waits for, unless it is gone.
    fn ask(&mut self, key: u64) -> Option<Wants> {
        let (slot, desk) = self.worker.turn(key)?;
        let begun = desk.begin(slot, false);
        let wants = loop {
            match slot.next_op(desk.around.cx.tally) {
                Some(Op::Shut) => {
                    perform::shut(&slot.socket);
                    slot.complete(Done::Shut, desk.now, &desk.around.cx);
                }
                Some(Op::Close(reason)) => break Wants::Close(reason),
                Some(Op::Recv) => {
                    slot.drive.recv = true;
                    break Wants::Peer;
                }
                Some(op) => {
                    slot.drive.next = Some(Box::new(op));
                    break Wants::Thread;
                }
                None => break Wants::Peer,
            }
        };
        let turn = match wants {
            Wants::Close(reason) => Turn::Closed(reason),
            Wants::Peer | Wants::Thread => Turn::Wait(Interest::READ),
        };
        desk.end(key, slot, begun, turn, &Spent::default(), true);
        Some(wants)
    }

    /// Hands a connection over that is watched.
    fn hand_over(&mut self, key: u64) {
        let Some(slot) = self.worker.slot(key) else { return };
        // A thread may close it, which the poller must not see.
        let _ = self.poller.remove(slot.socket.as_fd());
        self.lend(key);
    }

    fn lend(&mut self, key: u64) {
        let Some((passed, drive)) = self.worker.lend(key) else { return };
        let tally = self.tally();
        match self.pool.jobs.put(DispatchJob { passed, drive }, tally) {
            Ok(()) => tally.add(Counter::HandOvers, 1),
            // There is room for all connections: the threads have ended.
            Err(job) => self.end(job),
        }
    }

    /// Closes a connection that is watched.
    fn close(&mut self, key: u64, reason: CloseReason) {
        let Some(slot) = self.worker.slot(key) else { return };
        self.poller.forget(slot.socket.as_fd());
        self.worker.close(key, reason);
    }

    const fn tally(&self) -> Tally<'a> {
        self.worker.around().cx.tally
    }
}

/// A thread of the pool.
#[expect(missing_debug_implementations, reason = "its worker has none")]
pub struct PoolThread<'a> {
    /// Worker that the dispatcher feeds, with one connection at most.
    pub worker: Worker<'a, Blocking>,
    /// Means to serve.
    pub means: Means<'a>,
    pool: &'a DispatchPool,
    /// Time at which it began to wait for a connection, or to serve one, nanoseconds.
    since: u64,
}

impl<'a> PoolThread<'a> {
    /// A thread that has no connection yet.
    pub fn new(worker: Worker<'a, Blocking>, means: Means<'a>, pool: &'a DispatchPool) -> Self {
        let worker = worker.with_pulse(pool.beats.pulse(false));
        let means = Means { beat: worker.beat().cloned(), ..means };
        worker.around().cx.tally.add(Counter::ThreadsStarted, 1);
        Self { worker: worker.fed(), means, pool, since: clock::nanos() }
    }

    /// Serves one connection after another, each for as long as is said, until it is to leave.
    pub fn run(mut self, until: Until) {
        while let Some(key) = self.take() {
            let (worker, means) = (&mut self.worker, &mut self.means);
            let served = converse(worker, key, self.pool.step, means, until);
            self.give_back(key, served);
        }
    }

    /// The next connection; `None` if the thread is to leave.
    pub fn take(&mut self) -> Option<u64> {
        while attend(&mut self.worker, &mut None, &mut self.means) {
            let patience = self.worker.patience(WAIT_MAX);
            let tally = self.worker.around().cx.tally;
            let waits = Beat::begins_call(self.means.beat.as_deref());
            let taken = self.pool.jobs.take(patience, tally);
            drop(waits);
            if let Some(DispatchJob { passed, drive }) = taken {
                // Its time begins now, and not when the thread began to wait for it.
                read_clocks(&mut self.worker, &mut self.means);
                self.spend(Counter::ThreadsIdleNs);
                return Some(self.worker.adopt(passed, drive));
            }
            if self.pool.jobs.is_closed() {
                self.worker.retire();
            }
        }
        None
    }

    /// Returns a connection that has been served, or reports that it is closed.
    pub fn give_back(&mut self, key: u64, served: Served) {
        let passed = match served {
            Served::Back => self.worker.pass(key),
            Served::Closed | Served::Leaves => None,
            Served::Later => {
                debug_assert!(false, "whose disk leaves an operation for later waits for it");
                self.worker.close(key, CloseReason::Failed);
                None
            }
        };
        let back = passed.map(|(passed, drive)| Back::Waits(DispatchJob { passed, drive }));
        self.pool.back.put(back.unwrap_or(Back::Closed));
        self.spend(Counter::ThreadsBusyNs);
    }

    /// Gives a connection away, with which others continue.
    pub fn hand_on(&mut self, key: u64) -> Option<DispatchJob> {
        let job = self.worker.pass(key).map(|(passed, drive)| DispatchJob { passed, drive });
        self.spend(Counter::ThreadsBusyNs);
        job
    }

    /// Counts the time since it began its last activity.
    fn spend(&mut self, counter: Counter) {
        let now = clock::nanos();
        self.worker.around().cx.tally.add(counter, now - self.since);
        self.since = now;
    }
}

impl Drop for PoolThread<'_> {
    fn drop(&mut self) {
        self.spend(Counter::ThreadsIdleNs);
        self.worker.around().cx.tally.add(Counter::ThreadsEnded, 1);
    }
}
