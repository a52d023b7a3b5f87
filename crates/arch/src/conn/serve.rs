//! Blocking: a thread that performs every operation of one connection, and waits for it.
//!
//! In mt and mp a thread has its connection from accept ([`next`]) to close ([`converse`]). In
//! hybrid and the servers of [A], a dispatcher lends a connection to a thread of a pool. [`Until`]
//! says when [`converse`] returns it. The first thread of mt serves nothing and calls [`hear`].
//!
//! Calls wait in steps, which the listener names ([`regatta_sys::socket::Steps::All`]): between two
//! of them the thread checks the time, what the master wants, and whether the root is another. A
//! deadline is therefore met as in any other architecture. Requests received after a drain or a new
//! root has begun are answered accordingly. A thread that receives nothing leaves one step late at
//! most. A thread that is alone in its process also writes its log between two steps: they are of a
//! second at most.
//!
//! No call waits for a `Recv` and a `Send` at once. A connection that has both pending does not
//! block from then on, and its thread waits in `poll`; others never call that.
use crate::drive::{
    Turn,
    ledger::Spent,
    perform::{self, TransferFailure, timed},
};
use crate::{
    conn::{
        beats::Beat,
        worker::{Accepted, Action, ConnSlot, Desk, WaitTally, Worker},
    },
    disk::at_once::Disk,
};
use regatta_op::{Abandoned, CloseReason, Done, Fault, Op, Outbox};
use regatta_origin::Protocol as _;
use regatta_sys::{
    StaticFile, clock, hook,
    socket::{self, Mode},
    thread::release_stack,
    wait::{Interest, Poll, Poller as _, ready_within},
};
use std::{io, mem, os::fd::AsFd, sync::Arc, thread, time::Duration};

/// A connection that one thread serves.
pub type BlockingSlot = ConnSlot<Blocking>;

/// State of a connection that one thread serves.
#[derive(Debug)]
pub struct Blocking {
    /// A `Recv` that has been offered and not performed.
    pub(crate) recv: bool,
    /// A `Send` that has been offered and not finished.
    send: Option<Outbox<StaticFile>>,
    /// Operation that was offered to another unit, and comes first.
    pub(crate) next: Option<Box<Op<StaticFile>>>,
    /// Both were pending at once: the socket does not block any more.
    polls: bool,
    /// `poll` has said that the socket has no room for the `Send`.
    full: bool,
    /// The disk performs an operation later.
    later: bool,
    /// A step of this connection: shorter than others where its deadline comes before.
    step: Duration,
}

impl Blocking {
    /// State of a connection with nothing out, whose calls wait for this step.
    #[must_use]
    pub const fn new(step: Duration) -> Self {
        let (recv, send, next) = (false, None, None);
        Self { recv, send, next, polls: false, full: false, later: false, step }
    }

    /// True if its peer is to send, and there is nothing else to be waited for.
    #[must_use]
    pub const fn reads(&self) -> bool {
        self.recv && self.send.is_none() && self.next.is_none()
    }

    /// Returns what to wait for when nothing more can be done.
    const fn wait(&self) -> Turn {
        match (self.recv, self.send.is_some()) {
            (false, false) => Turn::Parked,
            (read, write) => Turn::Wait(Interest { read, write }),
        }
    }
}

/// Bytes that have come, at the front of the buffer; or why none will.
pub type ReadResult = Result<usize, Fault>;

/// Resources that a thread needs to serve.
#[expect(missing_debug_implementations, reason = "holds a trait object that has none")]
pub struct Means<'a> {
    /// Disk that opens and reads; the thread itself waits for what a `Send` needs of a file.
    pub disk: &'a mut dyn Disk,
    /// Buffer for received bytes.
    pub buffer: Box<[u8]>,
    /// The most bytes of a file that one call sends.
    pub bytes_max: u64,
    /// Index of the worker's listener that it accepts from.
    pub listener: usize,
    /// The beat of its thread, if that is watched: it shows which calls may last.
    pub beat: Option<Arc<Beat>>,
}

/// End of the time that a thread has its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Until it is closed.
    Closed,
    /// Until it is idle: its last request has been answered, and nothing of another has come.
    Idle,
    /// Until the peer is to send, be it the rest of a head.
    Reads,
    /// Until anything is to be waited for.
    Waits,
}

impl Until {
    fn is_over(self, slot: &BlockingSlot) -> bool {
        let reads = slot.drive.reads();
        match self {
            Self::Closed => false,
            Self::Idle => reads && slot.conn.is_idle(),
            Self::Reads => reads,
            Self::Waits => true,
        }
    }
}

/// Reason why a thread serves a connection no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// The connection is closed.
    Closed,
    /// Served as far as was asked; only its `Recv` is out, except with [`Until::Waits`].
    Back,
    /// The disk performs an operation of it later.
    Later,
    /// The worker leaves, and has closed it.
    Leaves,
}

/// Body of the first unit of a process whose others block. It follows the master, takes a new root,
/// writes the log of those that wait, and serves no connection. `each_round` is called after
/// each of its waits, which last a second at most.
///
/// # Errors
/// The poller fails.
pub fn hear(mut worker: Worker<'_, ()>, each_round: &mut dyn FnMut()) -> io::Result<()> {
    let (mut poller, mut events) = (Poll::new(), Vec::new());
    poller.add(worker.around().bell.as_fd(), 0, Interest::READ)?;
    while worker.goes_on() {
        let wait = worker.begin_wait();
        let events = poller.wait(&mut events, Some(wait.timeout))?;
        let _root_is_another = worker.end_wait(wait, WaitTally { events, ..WaitTally::default() });
        if events > 0 {
            worker.around().bell.clear();
        }
        while let Some(_no_connection) = worker.next_action() {}
        each_round();
    }
    // Wakes those that wait for a connection, unless the listeners stay.
    worker.stop_listening();
    Ok(())
}

/// Waits for the next connection; `None` if the worker is to leave. A worker that is retired leaves
/// here, where no connection is cut short.
pub fn next(
    worker: &mut Worker<'_, Blocking>,
    step: Duration,
    means: &mut Means<'_>,
) -> Option<Accepted> {
    while attend(worker, &mut None, means) {
        let waits = Beat::begins_call(means.beat.as_deref());
        if worker.around().slot.is_retired() {
            worker.retire();
            continue;
        }
        if !worker.is_listening() {
            thread::sleep(worker.patience(step));
            continue;
        }
        let begun = clock::nanos();
        if let Ok(accepted) = worker.accept(means.listener, 0) {
            // Its time begins now, and not when the thread began to wait for it.
            drop(waits);
            read_clocks(worker, means);
            return Some(accepted);
        }
        // A call that has waited does not ask whether the listener blocks.
        if u128::from(clock::nanos() - begun) < step.as_nanos() / 2 {
            wait_for_one(worker, step, means.listener);
        }
    }
    None
}

/// Waits for a connection where the listener does not block, because workers that an earlier image
/// of the master started still accept from it.
fn wait_for_one(worker: &Worker<'_, Blocking>, step: Duration, listener: usize) {
    let listener = worker.listeners()[listener].as_fd();
    if matches!(socket::wait_max(listener), Ok(None)) {
        // If it cannot be waited for, accept says why.
        let _ = ready_within(listener, Interest::READ, worker.patience(step));
    }
}

/// Serves a connection, with nothing out but perhaps a `Recv`, for as long as `until` says. An
/// operation that another unit was offered is performed first.
pub fn converse(
    worker: &mut Worker<'_, Blocking>,
    key: u64,
    step: Duration,
    means: &mut Means<'_>,
    until: Until,
) -> Served {
    let mut received = None;
    let waits = |slot: &mut BlockingSlot| slot.drive.recv && slot.drive.next.is_none();
    let mut waits = until != Until::Waits && worker.slot(key).is_some_and(waits);
    loop {
        if mem::replace(&mut waits, true) {
            let waits = Beat::begins_call(means.beat.as_deref());
            received = wait(worker, key, step, &mut means.buffer);
            drop(waits);
            if !attend(worker, &mut received, means) {
                return Served::Leaves;
            }
        }
        let outcome = turn(worker, key, received.take(), step, means);
        let Some(slot) = worker.slot(key) else { return Served::Closed };
        if slot.has_shaken_hands() {
            // A handshake goes deeper than anything that follows, also one that has failed.
            release_stack();
        }
        if let Turn::Closed(reason) = outcome {
            worker.close(key, reason);
            return Served::Closed;
        }
        if mem::take(&mut slot.drive.later) {
            return Served::Later;
        }
        if until.is_over(slot) {
            return Served::Back;
        }
    }
}

/// Reads the clocks, and checks whether the root is another.
pub fn read_clocks(worker: &mut Worker<'_, Blocking>, means: &mut Means<'_>) {
    if worker.read_clocks() {
        means.disk.renew_root();
    }
}

/// Does a worker's other duties: its clocks, deadlines, root, log, and orders of the master. False
/// if it is to leave.
pub fn attend(
    worker: &mut Worker<'_, Blocking>,
    received: &mut Option<ReadResult>,
    means: &mut Means<'_>,
) -> bool {
    read_clocks(worker, means);
    while let Some(action) = worker.next_action() {
        match action {
            Action::Close(key, reason) => worker.close(key, reason),
            // What has come by now comes before the deadline.
            Action::Late(key) => {
                if let (Some((slot, desk)), Some(received)) = (worker.turn(key), received.take()) {
                    has_received(slot, desk, received, &means.buffer);
                }
            }
            Action::Expired(key, Some(Abandoned::All)) => {
                if let Some(slot) = worker.slot(key) {
                    (slot.drive.recv, slot.drive.send) = (false, None);
                }
            }
            // Its one connection has a turn anyway.
            Action::Admit(_) | Action::Turn(_) | Action::Expired(..) | Action::Drain => {}
        }
    }
    worker.goes_on()
}

/// Waits for what is pending, for a step at most, and receives. A `Send` alone waits when it is
/// performed.
fn wait(
    worker: &mut Worker<'_, Blocking>,
    key: u64,
    step: Duration,
    buffer: &mut [u8],
) -> Option<ReadResult> {
    let patience = worker.patience(step);
    let (slot, desk) = worker.turn(key)?;
    let Blocking { recv, polls, .. } = slot.drive;
    let Turn::Wait(interest) = slot.drive.wait() else {
        // It waits for a time.
        thread::sleep(patience);
        return None;
    };
    let tally = desk.around.cx.tally;
    let received = if polls {
        let ready = ready_within(slot.socket.as_fd(), interest, patience).unwrap_or_default();
        slot.drive.full = interest.write && !ready.writable;
        if !recv || !ready.readable {
            return None;
        }
        perform::recv(&slot.socket, buffer, tally)
    } else {
        wait_no_longer(slot, patience, step);
        if !recv {
            return None;
        }
        perform::recv_waiting(&slot.socket, buffer, tally)
    };
    match received {
        Ok(n) => Some(Ok(n)),
        Err(TransferFailure::Fault(fault)) => Some(Err(fault)),
        Err(TransferFailure::WouldBlock) => None,
    }
}

/// Makes calls on the socket wait for `patience`; a longer one is worth a call if it is a whole
/// step, or twice as long.
fn wait_no_longer(slot: &mut BlockingSlot, patience: Duration, step: Duration) {
    let own = slot.drive.step;
    if patience < own || own < step && (patience == step || own <= patience / 2) {
        // Zero would be for ever.
        let patience = patience.max(Duration::from_millis(1));
        let (recv, send) = (Some(patience), Some(patience));
        if socket::set_timeouts(slot.socket.as_fd(), recv, send).is_ok() {
            slot.drive.step = patience;
        }
    }
}

/// Lets no call on the socket wait from now on: its thread waits in `poll`.
pub fn unblock(slot: &mut BlockingSlot) {
    if !slot.drive.polls {
        let set = socket::set_mode(slot.socket.as_fd(), Mode::Nonblocking);
        slot.drive.polls = set.is_ok();
    }
}

/// Completes the `Recv`.
fn has_received(slot: &mut BlockingSlot, desk: &Desk<'_>, received: ReadResult, buffer: &[u8]) {
    slot.drive.recv = false;
    let received = received.map(|n| &buffer[..n]);
    slot.complete(Done::Recv(received), desk.now, &desk.around.cx);
}

/// Completes what has been received, and performs what follows until a peer is to be waited for.
fn turn(
    worker: &mut Worker<'_, Blocking>,
    key: u64,
    received: Option<ReadResult>,
    step: Duration,
    means: &mut Means<'_>,
) -> Turn {
    let Some((slot, desk)) = worker.turn(key) else { return Turn::Closed(CloseReason::Failed) };
    hook::hang_in_visit();
    let begun = desk.begin(slot, received.is_some());
    let mut spent = Spent::default();
    if let Some(received) = received {
        has_received(slot, desk, received, &means.buffer);
    }
    let turn = advance(key, slot, desk, step, means, &mut spent);
    desk.end(key, slot, begun, turn, &spent, true);
    turn
}

/// Performs what the connection asks for until it is to receive, or its peer has not taken all of a
/// `Send`; where it is also to receive, after one `Send`.
fn advance(
    key: u64,
    slot: &mut BlockingSlot,
    desk: &mut Desk<'_>,
    step: Duration,
    means: &mut Means<'_>,
    spent: &mut Spent,
) -> Turn {
    let mut has_sent = false;
    loop {
        let op = match slot.drive.next.take() {
            None => slot.next_op(desk.around.cx.tally),
            Some(op) => Some(*op),
        };
        let done = match op {
            Some(Op::Send(outbox)) => {
                slot.drive.send = Some(outbox);
                continue;
            }
            Some(Op::Open(ticket, req)) => {
                let waits = Beat::begins_call(means.beat.as_deref());
                let found = timed(&mut spent.open, || means.disk.open(key, ticket, req));
                drop(waits);
                desk.read_clocks();
                let Some(found) = found else {
                    slot.drive.later = true;
                    continue;
                };
                Done::Open(ticket, found)
            }
            Some(Op::Read(ticket, req)) => {
                let waits = Beat::begins_call(means.beat.as_deref());
                let read = timed(&mut spent.read, || means.disk.read(key, ticket, req));
                drop(waits);
                desk.read_clocks();
                let Some((buffer, read)) = read else {
                    slot.drive.later = true;
                    continue;
                };
                Done::Read(ticket, buffer, read)
            }
            Some(Op::Stat(ticket, file)) => {
                let _waits = Beat::begins_call(means.beat.as_deref());
                Done::Stat(ticket, perform::stat(&file))
            }
            Some(Op::Shut) => {
                perform::shut(&slot.socket);
                Done::Shut
            }
            Some(Op::Close(reason)) => return Turn::Closed(reason),
            recv => {
                slot.drive.recv |= recv.is_some();
                if has_sent || slot.drive.full || slot.drive.send.is_none() {
                    return slot.drive.wait();
                }
                if slot.drive.recv {
                    unblock(slot);
                }
                let due = slot.conn.deadline().since(desk.now.tick).saturating_add(1);
                wait_no_longer(slot, step.min(Duration::from_millis(due)), step);
                let waits = Beat::begins_call(means.beat.as_deref());
                let sent = send(slot, desk, means.bytes_max, spent);
                drop(waits);
                match sent {
                    Some(is_whole) => has_sent = slot.drive.recv || !is_whole,
                    None => return slot.drive.wait(),
                }
                continue;
            }
        };
        slot.complete(done, desk.now, &desk.around.cx);
    }
}

/// Performs the `Send` that is pending, and says whether its peer has taken all; `None` if it has
/// taken nothing for a step, or there is no `Send`.
fn send(
    slot: &mut BlockingSlot,
    desk: &mut Desk<'_>,
    bytes_max: u64,
    spent: &mut Spent,
) -> Option<bool> {
    let mut outbox = slot.drive.send.take()?;
    let sent = perform::send(&slot.socket, &mut outbox, bytes_max, spent, desk.around.cx.tally);
    desk.read_clocks();
    let sent = match sent {
        Ok(bytes) => Ok(bytes),
        Err(TransferFailure::Fault(fault)) => Err(fault),
        Err(TransferFailure::WouldBlock) => {
            slot.drive.send = Some(outbox);
            return None;
        }
    };
    let is_whole = outbox.is_empty();
    slot.complete(Done::Send(outbox, sent), desk.now, &desk.around.cx);
    Some(is_whole)
}
