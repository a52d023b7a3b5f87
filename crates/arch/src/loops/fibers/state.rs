//! State that the user threads of a scheduler have in common: connections, sockets, helpers, and
//! which are ready to run.
mod steal;

use super::{
    FiberRules, Hands,
    handshakes::FiberHandshakes,
    task::{Completed, FiberTask, Fibered, Shake, forget},
};
use crate::{
    conn::{
        budget::Budget,
        step::{LANDING, RECV_BYTES_MAX, watch},
        worker::{Action, Begun, ConnSlot, Desk, WaitTally, Worker},
    },
    drive::{
        Turn,
        ledger::Spent,
        perform::{self, SendBy, TransferFailure, timed},
    },
};
use regatta_metrics::{Counter, Tally};
use regatta_op::{CloseReason, Done, Fault, Op, OpenReq, Outbox, ReadReq, Tick, Ticket};
use regatta_origin::Protocol as _;
use regatta_sys::{
    StaticFile, clock,
    wait::{Event, Interest, Poller},
};
use std::{collections::VecDeque, io, os::fd::AsFd, time::Duration};
use steal::Seat;

/// Keys with the top bit are the scheduler's own.
const BELL: u64 = u64::MAX;
const HELPERS: u64 = u64::MAX - 1;
const PEERS: u64 = u64::MAX - 2;
const LISTENERS: u64 = 1 << 63;
/// Calls that move bytes which a user thread makes before others run.
const OPS_MAX: u32 = 64;

/// Connections that user threads accept by themselves between two poll points.
const DIRECT_MAX: u32 = 64;

/// `ENOBUFS`: there is no room for another task.
const NO_ROOM: i32 = 105;

type FiberedSlot = ConnSlot<Fibered>;

/// Next step for a connection.
pub(super) enum Next {
    /// This operation is to be performed, neither `Recv` nor `Send`.
    Op(Op<StaticFile>),
    /// The offered `Recv` or `Send`, if any, is to be tried.
    Transfer,
    /// A helper is to send.
    SendInHelper,
    /// Nothing: it is closed.
    Gone,
}

/// State of a user thread.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Whether it is among those that are ready.
    ready: bool,
    /// Whether it is among those that wait for a connection.
    accepts: bool,
    /// A connection that has been accepted for it, or has come from a helper or another scheduler.
    given: Option<u64>,
}

/// The turn of the user thread that runs.
#[derive(Clone, Copy, Debug)]
struct Running {
    begun: Begun,
    /// Bytes that it may send, and those left of them.
    share: u64,
    bytes: u64,
    /// Calls that it may yet make.
    ops: u32,
    spent: Spent,
    /// The connection's deadline, and [`Desk::held_ms`], when the turn began.
    deadline: Tick,
    held_ms: u32,
}

/// State that the user threads of a scheduler have in common.
#[expect(missing_debug_implementations, reason = "its worker has none")]
pub struct State<'a, P> {
    pub(super) worker: Worker<'a, Fibered>,
    pub(super) rules: FiberRules<'a>,
    poller: P,
    hands: &'a Hands,
    threads: Vec<Place>,
    /// The first is the next to run.
    ready: VecDeque<usize>,
    /// The first is given the next connection.
    accepting: VecDeque<usize>,
    /// Received bytes land here, from [`LANDING`] on.
    buffer: Box<[u8]>,
    budget: Budget,
    handshakes: FiberHandshakes,
    /// The handshake of the connection that was attempted last is over.
    shaken: bool,
    running: Option<Running>,
    /// Tasks so far, and those that helpers have.
    tasks: u64,
    on_helper: u64,
    /// Connections that user threads have accepted by themselves since the last poll point.
    direct: u32,
    /// Place of the scheduler, if there are several.
    seat: Option<Seat<'a>>,
}

impl<'a, P: Poller> State<'a, P> {
    /// State of a scheduler, with a user thread for each connection that its worker may have. All
    /// wait to accept one.
    pub fn new(
        worker: Worker<'a, Fibered>,
        poller: P,
        hands: &'a Hands,
        rules: FiberRules<'a>,
    ) -> Self {
        let threads = worker.accept_rules().connections_max;
        let bytes = worker.around().cx.site.limits.head_bytes_max.min(RECV_BYTES_MAX);
        Self {
            worker,
            rules,
            poller,
            hands,
            threads: vec![Place { ready: false, accepts: true, given: None }; threads],
            ready: VecDeque::with_capacity(threads),
            accepting: (0..threads).collect(),
            buffer: vec![0; LANDING + bytes].into(),
            budget: Budget::new(rules.bytes_max),
            handshakes: FiberHandshakes::new(rules.handshakes_per_round),
            shaken: false,
            running: None,
            tasks: 0,
            on_helper: 0,
            direct: 0,
            seat: None,
        }
    }

    pub(super) fn tally(&self) -> Tally<'a> {
        self.worker.around().cx.tally
    }

    /// Time for which calls have blocked it, milliseconds.
    pub(super) fn held_ms(&self) -> u32 {
        self.worker.held_ms()
    }

    /// Notes that a user thread has used `bytes` of its stack.
    pub(super) fn used(&self, bytes: usize) {
        self.tally().max(Counter::StackBytesMax, bytes as u64);
    }

    // What a user thread does.

    /// The connection that has been given to a user thread, whose turn begins.
    pub(super) fn given(&mut self, at: usize) -> Option<u64> {
        let key = self.threads[at].given.take()?;
        self.begin(key);
        Some(key)
    }

    /// The next connection of a user thread, whose turn begins; if there is none, the thread waits
    /// for one.
    pub(super) fn accept(&mut self, at: usize) -> Option<u64> {
        let given = self.given(at);
        if given.is_some() || self.threads[at].accepts {
            return given;
        }
        // A stream of clients must not keep a user thread from giving way for ever.
        if self.worker.is_listening() && self.direct < DIRECT_MAX {
            for listener in self.worker.listeners_in_turn() {
                if let Ok(accepted) = self.worker.accept(listener, 0) {
                    self.direct += 1;
                    let held_ms = self.worker.held_ms();
                    let key = self.worker.admit(accepted, Fibered::new(at, held_ms));
                    self.begin(key);
                    return Some(key);
                }
            }
        }
        self.is_free(at);
        None
    }

    /// A user thread without a connection waits for one.
    fn is_free(&mut self, at: usize) {
        self.threads[at].accepts = true;
        self.accepting.push_back(at);
    }

    /// Begins a turn of a connection. True if the scheduler has ended a handshake for its user
    /// thread since the last one.
    pub(super) fn begin(&mut self, key: u64) -> bool {
        let Some((slot, desk)) = self.worker.turn(key) else { return false };
        let readable = std::mem::take(&mut slot.drive.readable);
        let has_shaken_hands = std::mem::take(&mut slot.drive.shaken);
        let (share, deadline) = (self.budget.share(), slot.conn.deadline());
        self.running = Some(Running {
            begun: desk.begin(slot, readable),
            share,
            bytes: share,
            ops: OPS_MAX,
            spent: Spent::default(),
            deadline,
            held_ms: desk.held_ms,
        });
        has_shaken_hands
    }

    /// Enters a turn that ends like this.
    fn end(&mut self, key: u64, turn: Turn) {
        let Some(running) = self.running.take() else { return };
        let Some((slot, desk)) = self.worker.turn(key) else { return };
        let Running { begun, share, bytes, spent, deadline, held_ms, .. } = running;
        self.budget.spend(share - bytes);
        if slot.conn.deadline() != deadline {
            slot.drive.held_ms = held_ms;
        } else if bytes < share && slot.drive.held_ms != held_ms {
            // What was sent now could have been sent before, and the peer's window began before.
            let before = std::mem::replace(&mut slot.drive.held_ms, held_ms);
            slot.conn.held_up(held_ms.wrapping_sub(before).into());
        }
        desk.end(key, slot, begun, turn, &spent, false);
        // Its own time with the disk has been taken off.
        let own_ms = desk.held_ms.wrapping_sub(held_ms);
        slot.drive.held_ms = slot.drive.held_ms.wrapping_add(own_ms);
    }

    /// Ends the turn of a user thread that waits; false if its connection is closed, so that there
    /// is nothing to wait for.
    pub(super) fn waits(&mut self, key: u64, turn: Turn) -> bool {
        self.end(key, turn);
        let Self { worker, poller, .. } = self;
        let Some(slot) = worker.slot(key) else { return false };
        let Fibered { interest, .. } = &mut slot.drive;
        let is_watched = match turn {
            Turn::Wait(wanted) => watch(interest, &slot.socket, key, wanted, poller),
            Turn::Parked => {
                // The poller watches only the sockets that a user thread waits for.
                if interest.take().is_some() {
                    let _ = poller.remove(slot.socket.as_fd());
                }
                true
            }
            Turn::Again | Turn::Closed(_) | Turn::Left(_) => true,
        };
        if !is_watched {
            self.close(key, CloseReason::Failed);
        }
        is_watched
    }

    /// Ends the turn of a user thread that lets others go first; false if it need not.
    pub(super) fn yields(&mut self, at: usize, key: u64) -> bool {
        if self.rules.yields {
            self.end(key, Turn::Parked);
            self.wake(at);
            self.tally().add(Counter::FiberYields, 1);
        }
        self.rules.yields
    }

    /// Returns what a connection wants done.
    pub(super) fn next(&mut self, key: u64) -> Next {
        let by_helper = self.rules.send.is_some();
        let Some((slot, desk)) = self.worker.turn(key) else { return Next::Gone };
        if let Some(op) = slot.drive.next.take() {
            return Next::Op(*op);
        }
        loop {
            match slot.next_op(desk.around.cx.tally) {
                Some(Op::Send(outbox)) => slot.drive.send = Some(outbox),
                Some(Op::Recv) => slot.drive.recv = true,
                Some(op) => return Next::Op(op),
                None if by_helper && slot.drive.sends_file() => return Next::SendInHelper,
                None => return Next::Transfer,
            }
        }
    }

    pub(super) fn complete(&mut self, key: u64, done: Done<'_, StaticFile>) {
        if let Some((slot, desk)) = self.worker.turn(key) {
            slot.complete(done, desk.now, &desk.around.cx);
        }
    }

    /// Half-closes a connection.
    pub(super) fn shut(&mut self, key: u64) {
        if let Some(slot) = self.worker.slot(key) {
            perform::shut(&slot.socket);
            self.complete(key, Done::Shut);
        }
    }

    /// The disk gets an operation of a connection, which the connection may give up before it is
    /// performed. Returns its number.
    pub(super) fn begins_on_disk(&mut self, key: u64, ticket: Ticket) -> u64 {
        self.tasks += 1;
        if let Some(slot) = self.worker.slot(key) {
            debug_assert_eq!(slot.pending, 0, "a connection has one at a time");
            (slot.pending, slot.drive.task, slot.drive.ticket) = (1, self.tasks, ticket);
        }
        self.tasks
    }

    /// Opens a name, if that is still wanted: all user threads wait for it.
    pub(super) fn open(&mut self, key: u64, ticket: Ticket, req: &OpenReq) {
        match self.worker.slot(key) {
            Some(slot) if slot.pending > 0 => slot.pending = 0,
            _ => return,
        }
        let below = self.rules.below;
        let found = self.spending(|spent| timed(&mut spent.open, || below.open(req)));
        self.complete(key, Done::Open(ticket, found));
    }

    /// Gives a read to the helpers; without any, reads, and all user threads wait for it.
    pub(super) fn read(&mut self, key: u64, ticket: Ticket, req: ReadReq<StaticFile>) {
        let slot = self.worker.slot(key).filter(|_| self.rules.helpers_read);
        if let Some(subject) = slot.map(|slot| slot.subject()) {
            let number = self.begins_on_disk(key, ticket);
            self.submit(FiberTask::Read { key, number, ticket, req, subject });
            return self.tally().add(Counter::HelperTasksRead, 1);
        }
        let (buffer, read) = self.spending(|spent| timed(&mut spent.read, || perform::read(req)));
        self.complete(key, Done::Read(ticket, buffer, read));
    }

    /// Runs `what`, whose time is entered.
    fn spending<R>(&mut self, what: impl FnOnce(&mut Spent) -> R) -> R {
        let mut spent = Spent::default();
        what(self.running.as_mut().map_or(&mut spent, |running| &mut running.spent))
    }

    /// Gives a task to the helpers. It fails if there is no room for it, because many that were
    /// given up have not been begun: a disk hangs.
    fn submit(&mut self, task: FiberTask) {
        self.on_helper += 1;
        let Err(task) = self.hands.submit(task, self.tally()) else { return };
        let fault = Fault::Other(NO_ROOM);
        self.completed(match task {
            FiberTask::Read { key, number, ticket, req, .. } => {
                Completed::Read { key, number, ticket, read: (req.buffer, Err(fault)) }
            }
            FiberTask::Send { passed, drive, outbox, .. } => {
                let sent = Err(TransferFailure::Fault(fault));
                Completed::Send { passed, drive, outbox, waited_ms: 0, sent }
            }
        });
    }

    /// True if a helper has an operation of the connection.
    pub(super) fn is_pending(&mut self, key: u64) -> bool {
        self.worker.slot(key).is_some_and(|slot| slot.pending > 0)
    }

    /// Lends a connection to a helper, which sends; else returns what to wait for before. A
    /// connection whose deadline has passed waits for what the worker says of that.
    pub(super) fn lend(&mut self, key: u64) -> Option<Turn> {
        let Some((slot, desk)) = self.worker.turn(key) else { return Some(Turn::Parked) };
        if slot.conn.deadline() <= desk.now.tick {
            return Some(Turn::Parked);
        }
        let first = self.rules.send == Some(SendBy::PollFirst);
        if first && !std::mem::take(&mut slot.drive.writable) {
            return Some(Turn::Wait(Interest::WRITE));
        }
        let outbox = slot.drive.send.take()?;
        // A turn that it is queued for comes to nothing.
        slot.queued = false;
        self.waits(key, Turn::Parked);
        let (passed, drive) = self.worker.lend(key)?;
        self.submit(FiberTask::Send { passed, drive, outbox, since: clock::nanos() });
        None
    }

    /// Sends or receives what is offered; returns what to wait for if nothing can be. A connection
    /// that waits to shake hands waits for no socket.
    pub(super) fn attempt(&mut self, key: u64) -> Option<Turn> {
        let (slot, desk) = self.worker.turn(key)?;
        let running = self.running.as_mut()?;
        let by_helper = self.rules.send.is_some() && slot.drive.sends_file();
        if running.bytes == 0 || running.ops == 0 {
            return Some(Turn::Again);
        }
        // Nothing is received while part of a handshake is to be sent.
        let shakes = slot.shaking && slot.drive.recv;
        if shakes && !self.handshakes.may_try(key, &mut slot.drive) {
            return Some(Turn::Parked);
        }
        running.ops -= 1;
        let sends = !by_helper && send(slot, desk, running);
        // What the peer has sent comes before a verdict about its deadline.
        let receives = slot.drive.recv && (!sends || slot.conn.deadline() <= desk.now.tick);
        let moves = receives && receive(slot, desk, &mut self.buffer[LANDING..]) || sends;
        if shakes {
            self.handshakes.has_tried(&mut slot.drive, moves);
            self.shaken = slot.has_shaken_hands();
        }
        (!moves).then(|| slot.drive.blocked())
    }

    /// True if the last attempt has ended a handshake; once.
    pub(super) const fn has_shaken_hands(&mut self) -> bool {
        std::mem::replace(&mut self.shaken, false)
    }

    /// Closes the connection of a user thread that runs.
    pub(super) fn close(&mut self, key: u64, reason: CloseReason) {
        self.end(key, Turn::Closed(reason));
        let Self { worker, poller, handshakes, .. } = self;
        let Some(slot) = worker.slot(key) else { return };
        if slot.drive.interest.is_some() {
            poller.forget(slot.socket.as_fd());
        }
        handshakes.forget(key, &slot.drive);
        worker.close(key, reason);
    }

    // What the scheduler does.

    /// True until the last round is over, or another scheduler cannot continue.
    pub(super) fn goes_on(&self) -> bool {
        let failed = self.seat.as_ref().and_then(|seat| seat.peers.failure());
        self.worker.goes_on() && failed.is_none()
    }

    /// Has the poller watch what is the scheduler's own.
    pub(super) fn watch_own(&mut self) -> io::Result<()> {
        let Self { worker, poller, hands, seat, .. } = self;
        poller.add_level(worker.around().bell.as_fd(), BELL, Interest::READ)?;
        if let Some(Seat { peers, at, .. }) = seat {
            poller.add_level(peers.bell(*at).as_fd(), PEERS, Interest::READ)?;
        }
        poller.add_level(hands.source(), HELPERS, Interest::READ)
    }

    /// Makes a user thread ready to run.
    fn wake(&mut self, at: usize) {
        if !std::mem::replace(&mut self.threads[at].ready, true) {
            self.ready.push_back(at);
        }
    }

    /// Gives this connection to a user thread, and makes it ready.
    fn gets(&mut self, at: usize, key: u64) {
        let place = &mut self.threads[at];
        (place.accepts, place.given) = (false, Some(key));
        self.wake(at);
    }

    /// The next user thread to run.
    pub(super) fn next_ready(&mut self) -> Option<usize> {
        let at = self.ready.pop_front()?;
        self.threads[at].ready = false;
        self.tally().add(Counter::FiberRuns, 1);
        Some(at)
    }

    /// The poll point: waits if no user thread is ready, and sees what has happened.
    pub(super) fn poll(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        self.count();
        self.direct = 0;
        // Accepting pauses if they cannot be watched.
        let _ = self.worker.watch_listeners(&mut self.poller, LISTENERS);
        let mut wait = self.worker.begin_wait();
        self.ask(wait.timeout);
        let is_idle = self.ready.is_empty() && self.handshakes.is_empty();
        let sleeps = is_idle && !self.rules.spins && self.hands.falls_asleep();
        if !sleeps {
            wait.timeout = Duration::ZERO;
        }
        let told = self.poller.wait(events, Some(wait.timeout));
        if sleeps {
            self.hands.wakes();
        }
        self.stops_asking();
        let (watched, changes) = (self.poller.len(), self.poller.changes());
        // Names are opened below the root that the process has.
        let _root_is_another =
            self.worker.end_wait(wait, WaitTally { events: told?, watched, changes });
        self.budget.renew();
        self.adopt_given();
        self.take_completed();
        self.shake_hands();
        if self.rules.accepting_first {
            self.take_accepted(events);
        }
        // Capriccio looks from its last entry to its first.
        for event in events.iter().rev().filter(|event| event.key < LISTENERS) {
            self.on_socket(event);
        }
        if !self.rules.accepting_first {
            self.take_accepted(events);
        }
        self.hear(events);
        while let Some(action) = self.worker.next_action() {
            self.perform(action);
        }
        Ok(())
    }

    /// Wakes those that have waited to shake hands: as many as may before the next poll point.
    fn shake_hands(&mut self) {
        self.handshakes.begin_round();
        while let Some(key) = self.handshakes.next() {
            let Some(slot) = self.worker.slot(key) else { continue };
            slot.drive.shake = Shake::May;
            self.wake_owner(key);
        }
    }

    /// Clears what has woken it. Among several schedulers, the first that hears the master wakes
    /// the others: they may have gone back to sleep.
    fn hear(&self, events: &[Event]) {
        let rang = |key| events.iter().any(|event| event.key == key);
        let was_first = rang(BELL) && self.worker.around().bell.clear();
        let Some(Seat { peers, at, .. }) = &self.seat else { return };
        if was_first {
            peers.wake_others(*at);
        }
        if rang(PEERS) {
            peers.bell(*at).clear();
        }
    }

    /// Counts what user threads wait for.
    fn count(&self) {
        let [ready, accepting] = [&self.ready, &self.accepting].map(|them| them.len() as u64);
        let others = ready + accepting + self.on_helper;
        let tally = self.tally();
        tally.add(Counter::FiberReadySum, ready);
        tally.max(Counter::FiberReadyMax, ready);
        tally.add(Counter::FibersAcceptingSum, accepting);
        tally.add(Counter::FibersOnHelperSum, self.on_helper);
        let on_socket = (self.threads.len() as u64).saturating_sub(others);
        tally.add(Counter::FibersOnSocketSum, on_socket);
    }

    /// Takes from listeners with connections: user threads that wait get one each, while any are
    /// left.
    fn take_accepted(&mut self, events: &[Event]) {
        for key in events.iter().map(|event| event.key) {
            if (LISTENERS..PEERS).contains(&key) {
                self.worker.offer(usize::try_from(key - LISTENERS).expect("few listeners"));
                while let Some(action) = self.worker.next_accept() {
                    self.perform(action);
                }
            }
        }
    }

    /// A socket is ready for what a user thread waits for.
    fn on_socket(&mut self, event: &Event) {
        let Some(slot) = self.worker.slot(event.key) else { return };
        let drive = &mut slot.drive;
        let waits_to_send = self.rules.send.is_some() && drive.sends_file();
        if !drive.recv && drive.send.is_none() {
            return;
        }
        drive.readable |= event.readable;
        drive.writable |= event.writable;
        let thread = drive.thread;
        if self.threads[thread].ready {
            return;
        }
        if self.gives(event.key) {
            // It wakes with its next connection, and finds that this one is gone.
            return self.is_free(thread);
        }
        self.tally().add(Counter::FiberRetries, 1);
        if waits_to_send || !self.rules.poller_retries || self.retry(event.key) {
            self.wake(thread);
        }
    }

    /// Repeats what a user thread has tried; true if it can continue.
    fn retry(&mut self, key: u64) -> bool {
        self.begin(key);
        let blocked = self.attempt(key);
        if self.has_shaken_hands()
            && let Some(slot) = self.worker.slot(key)
        {
            // It began on the stack of the user thread.
            slot.drive.shaken = true;
        }
        self.end(key, blocked.unwrap_or(Turn::Parked));
        blocked.is_none()
    }

    fn take_completed(&mut self) {
        while let Some(done) = self.hands.next_done() {
            self.completed(done);
        }
    }

    /// A helper has finished a task.
    fn completed(&mut self, done: Completed) {
        self.on_helper -= 1;
        match done {
            Completed::Read { key, number, ticket, read: (buffer, read) } => {
                let Some((slot, desk)) = self.worker.turn(key) else {
                    return self.tally().add(Counter::DiskCompletionsDropped, 1);
                };
                if slot.pending == 0 || slot.drive.task != number {
                    return self.tally().add(Counter::DiskCompletionsDropped, 1);
                }
                (slot.pending, slot.drive.held_ms) = (0, desk.held_ms);
                let thread = slot.drive.thread;
                self.complete(key, Done::Read(ticket, buffer, read));
                self.wake(thread);
            }
            Completed::Send { passed, drive, outbox, waited_ms, sent } => {
                let thread = drive.thread;
                let key = self.worker.take_back(passed, drive);
                if let Some(slot) = self.worker.slot(key) {
                    // The peer's window does not run while all helpers are busy with others.
                    slot.conn.held_up(waited_ms);
                }
                self.sent(key, outbox, sent);
                self.gets(thread, key);
            }
        }
    }

    /// A helper has sent what it could.
    fn sent(&mut self, key: u64, outbox: Outbox<StaticFile>, sent: Result<u64, TransferFailure>) {
        let Some((slot, desk)) = self.worker.turn(key) else { return };
        let (now, cx) = (desk.now, &desk.around.cx);
        slot.drive.held_ms = desk.held_ms;
        let sent = match sent {
            Ok(bytes) => Ok(bytes),
            Err(TransferFailure::Fault(fault)) => Err(fault),
            // Whether the peer has had its time is for the deadline to say.
            Err(TransferFailure::WouldBlock) => return slot.drive.send = Some(outbox),
        };
        slot.complete(Done::Send(outbox, sent), now, cx);
    }

    /// Does what the worker says.
    fn perform(&mut self, action: Action) {
        match action {
            Action::Close(key, reason) => self.take_away(key, reason),
            Action::Admit(accepted) => {
                let at = self.accepting.pop_front().expect("a user thread for each connection");
                let held_ms = self.worker.held_ms();
                let key = self.worker.admit(accepted, Fibered::new(at, held_ms));
                self.gets(at, key);
                if self.rules.accepting_first
                    && let Some(last) = self.ready.pop_back()
                {
                    self.ready.push_front(last);
                }
            }
            Action::Turn(key) => self.wake_owner(key),
            Action::Late(key) => {
                if self.is_pending(key) {
                    self.take_completed();
                }
                if self.worker.slot(key).is_some() && self.retry(key) {
                    self.wake_owner(key);
                }
                // A drain does not end it for silence if its handshake only waits for its turn.
                if let Some(slot) = self.worker.slot(key).filter(|slot| slot.shaking) {
                    slot.check_begun();
                }
            }
            Action::Expired(key, what) => {
                let held_ms = self.worker.held_ms();
                if let Some(slot) = self.worker.slot(key) {
                    // If its window continues, it does so from now.
                    slot.drive.held_ms = held_ms;
                    what.into_iter().for_each(|what| forget(slot, what));
                    self.settle(key);
                }
            }
            Action::Drain => self.worker.offer_backlog(),
        }
    }

    /// Closes a connection while its user thread waits. The thread wakes with its next connection,
    /// and finds that this one is gone.
    fn take_away(&mut self, key: u64, reason: CloseReason) {
        let thread = self.worker.slot(key).map(|slot| slot.drive.thread);
        self.close(key, reason);
        thread.into_iter().for_each(|at| self.is_free(at));
    }

    /// Closes a connection whose deadline has passed, if it is over. A request that arrives while
    /// other user threads run would be left unread, and turn the close into a reset. A connection
    /// that is not over continues in its user thread.
    fn settle(&mut self, key: u64) {
        let Some(slot) = self.worker.slot(key) else { return };
        // One that is ready may have an operation in its hands.
        if !self.threads[slot.drive.thread].ready {
            match self.next(key) {
                Next::Op(Op::Close(reason)) => {
                    self.begin(key);
                    return self.take_away(key, reason);
                }
                Next::Op(op) => {
                    let slot = self.worker.slot(key).expect("it has an operation");
                    slot.drive.next = Some(Box::new(op));
                }
                Next::Transfer | Next::SendInHelper | Next::Gone => {}
            }
        }
        self.wake_owner(key);
    }

    fn wake_owner(&mut self, key: u64) {
        if let Some(slot) = self.worker.slot(key) {
            let thread = slot.drive.thread;
            self.wake(thread);
        }
    }

    /// Ends what helpers have not begun, or have finished, when the last round is over. Their
    /// current tasks end with the process.
    pub(super) fn leave(&mut self) {
        self.end_given();
        for task in self.hands.close() {
            if let FiberTask::Send { passed, drive, .. } = task {
                let key = self.worker.take_back(passed, drive);
                self.worker.close(key, CloseReason::Drained);
            }
        }
        while let Some(done) = self.hands.next_done() {
            if let Completed::Send { passed, drive, outbox, sent, .. } = done {
                let key = self.worker.take_back(passed, drive);
                // What has been sent is counted and logged.
                self.sent(key, outbox, sent);
                self.worker.close(key, CloseReason::Drained);
            }
        }
        self.worker.around().log.flush();
    }
}

/// Performs the `Send` that is offered; false if there is none, or the socket takes nothing.
fn send(slot: &mut FiberedSlot, desk: &Desk<'_>, running: &mut Running) -> bool {
    let Some(mut outbox) = slot.drive.send.take() else { return false };
    let (now, cx) = (desk.now, &desk.around.cx);
    let Running { bytes: most, spent, .. } = running;
    match perform::send(&slot.socket, &mut outbox, *most, spent, cx.tally) {
        Err(TransferFailure::WouldBlock) => {
            slot.drive.send = Some(outbox);
            return false;
        }
        Err(TransferFailure::Fault(fault)) => {
            slot.complete(Done::Send(outbox, Err(fault)), now, cx)
        }
        Ok(bytes) => {
            *most = most.saturating_sub(bytes * u64::from(slot.weight));
            let is_over = outbox.is_empty();
            slot.complete(Done::Send(outbox, Ok(bytes)), now, cx);
            let deadline = slot.conn.deadline();
            if !is_over && deadline <= now.tick {
                // There was room, and others held the scheduler up: the peer's window begins now.
                let late = now.tick.since(deadline);
                slot.conn.held_up(late + cx.site.deadlines.send_window_ms);
            }
        }
    }
    true
}

/// Performs the `Recv` that is offered; false if nothing has come.
fn receive(slot: &mut FiberedSlot, desk: &Desk<'_>, buffer: &mut [u8]) -> bool {
    let (now, cx) = (desk.now, &desk.around.cx);
    let received = match perform::recv(&slot.socket, buffer, cx.tally) {
        Err(TransferFailure::WouldBlock) => return false,
        Err(TransferFailure::Fault(fault)) => Err(fault),
        Ok(n) => Ok(&buffer[..n]),
    };
    slot.drive.recv = false;
    slot.complete(Done::Recv(received), now, cx);
    true
}
