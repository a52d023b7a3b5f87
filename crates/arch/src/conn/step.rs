//! Readiness: try an operation, and come back with the same value when the socket is ready.
mod left;
#[cfg(test)]
pub(crate) mod seen;

pub use left::{Leaves, Left};

use crate::drive::{
    FileCx, Turn,
    ledger::Spent,
    perform::{self, TransferFailure, timed},
};
use crate::{
    conn::{
        beats::Beat,
        budget::Budget,
        worker::{ConnSlot, Desk, Worker},
    },
    disk::at_once::{Completion, Disk, DiskResult},
};
use regatta_metrics::{Counter, FilmEvent, TurnEnd};
use regatta_op::{
    Abandoned, CloseReason, DISK_OPS_MAX, Done, Now, Op, OpKind, Outbox, Segment, Tick, Ticket,
};
use regatta_origin::{Limits, Protocol as _};
use regatta_sys::{
    OpenResult, Read, StaticFile, clock, heap,
    socket::{self, Connection},
    wait::{Event, Interest, Poller, ready_now},
};
use std::{os::fd::AsFd, sync::Arc, time::Duration};

/// The most bytes that one `recv` takes, however long a head may be.
pub(crate) const RECV_BYTES_MAX: usize = 64 << 10;
/// Offset in the buffer at which received bytes land. The target of a `GET` then starts where a
/// word does, and is checked in words (std's check that it is UTF-8, which `httparse` makes).
pub(crate) const LANDING: usize = 4;
/// Most of the worker's memory that an idle connection takes, bytes.
const CONNECTION_BYTES_MAX: usize = 240;
const _: () = assert!(Worker::<Readiness>::SLOT_BYTES <= CONNECTION_BYTES_MAX);

/// Marks a `Send` that the disk makes ready. No file has as many bytes.
const PREFETCHING: u64 = u64::MAX;
/// Marks a `Send` that is in flight.
const SENDING: u64 = u64::MAX - 1;

/// A connection whose operations are tried, and retried when its socket is ready.
pub type ReadySlot = ConnSlot<Readiness>;

/// State of a connection in a readiness loop: the operation to retry, and facts about its socket.
#[derive(Debug)]
pub struct Readiness {
    /// Interest that the poller has been asked for; `None` if it does not watch the socket yet.
    pub interest: Option<Interest>,
    /// A `Recv` that has been offered and not performed.
    recv: bool,
    /// A `Send` that has been offered and not finished.
    send: Option<Box<Outbox<StaticFile>>>,
    /// Bytes of the file at the front of `send` that the disk has made ready; [`PREFETCHING`] until
    /// it answers, [`SENDING`] while a ring has the `Send`.
    granted: u64,
    /// The socket may have bytes, or the end of the stream, that have not been read.
    pub readable: bool,
    /// The peer has said that it sends no more, so a short read does not mean that all was read.
    hangup: bool,
    /// The connection broke, or both of its directions are over.
    broken: bool,
    /// The peer has sent an urgent byte, at which a read stops short (tcp(7)).
    urgent: bool,
    /// The poller has said that the socket takes bytes, and nothing since has said otherwise.
    writable: bool,
    /// The socket took nothing, and the poller has not said since that it takes bytes.
    full: bool,
    /// Place in a pipeline.
    pub place: PipelinePlace,
    /// [`Desk::held_ms`] when something was sent last, or the connection's deadline was set.
    pub held_ms: u32,
}

/// Place of a connection in a pipeline, whichever stage has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelinePlace {
    /// Number of the acceptor that counts it as open.
    pub home: u8,
    /// The part of the pipeline that serves it, where stages have several: a processor.
    pub part: u8,
    /// The class that an admission controller has put it in.
    pub class: u8,
}

impl Readiness {
    /// State of a connection whose first turn offers its first operation. `readable`: try to read
    /// at once. `held_ms`: [`Desk::held_ms`].
    #[must_use]
    pub const fn new(readable: bool, held_ms: u32) -> Self {
        Self {
            interest: None,
            recv: false,
            send: None,
            granted: 0,
            readable,
            hangup: false,
            broken: false,
            urgent: false,
            writable: false,
            full: false,
            place: PipelinePlace { home: 0, part: 0, class: 0 },
            held_ms,
        }
    }

    /// Notes what the poller said.
    pub const fn note(&mut self, event: &Event) {
        self.readable |= event.readable;
        self.hangup |= event.hangup;
        self.broken |= event.broken;
        self.urgent |= event.urgent;
        self.writable |= event.writable;
        self.full &= !event.writable;
    }

    /// Moves to another worker, or arrives from one. The time that it has been held up is kept, by
    /// the clock of the worker that it leaves, then of the one where it arrives. It is not watched.
    pub const fn moves(&mut self, held_ms: u32) {
        self.interest = None;
        self.held_ms = held_ms.wrapping_sub(self.held_ms);
    }

    /// Asks the kernel what the socket is ready for: the poller may not have reported that yet.
    pub fn probe(&mut self, socket: &Connection) {
        if let Ok(event) = ready_now(socket.as_fd(), Interest::BOTH) {
            self.note(&event);
        }
    }

    /// Tells the poller what the connection waits for; false if that cannot be watched.
    #[inline]
    pub fn watch<P: Poller>(
        &mut self,
        socket: &Connection,
        key: u64,
        wanted: Interest,
        poller: &mut P,
    ) -> bool {
        watch(&mut self.interest, socket, key, wanted, poller)
    }

    /// True if a ring has its `Send`.
    pub(crate) const fn is_sending(&self) -> bool {
        self.granted == SENDING
    }

    /// True if something may be sent now.
    const fn may_send(&self, rules: &TurnRules) -> bool {
        self.writable || rules.eager_write && !self.full
    }

    /// The `Send` that was offered before, if it may be performed now.
    #[inline]
    fn take_send(&mut self, io: &mut Io<'_>) -> Option<Outbox<StaticFile>> {
        if !self.may_send(&io.rules) {
            return None;
        }
        let mut parked = self.take_parked()?;
        let outbox = std::mem::take(&mut *parked);
        io.spares.0.push(parked);
        Some(outbox)
    }

    /// The box of the `Send` that was offered before, unless the disk makes it ready.
    fn take_parked(&mut self) -> Option<Box<Outbox<StaticFile>>> {
        self.send.take_if(|_| self.granted != PREFETCHING)
    }

    /// Returns what to wait for when nothing more can be done. `only_sends`: not for bytes of the
    /// peer.
    fn wait<const RING: bool>(&self, only_sends: bool) -> Turn {
        let sends = RING && self.is_sending() || self.send.is_some() && self.granted != PREFETCHING;
        let receives = self.recv && !only_sends;
        #[cfg(test)]
        seen::BOTH.with(|turns| turns.set(turns.get() + u64::from(receives && sends)));
        match (receives, sends) {
            (false, false) => Turn::Parked,
            (read, write) => Turn::Wait(Interest { read, write }),
        }
    }
}

/// Tells the poller what a socket is waited for, where it has been asked for `interest` before;
/// false if that cannot be watched.
#[inline]
pub(crate) fn watch<P: Poller>(
    interest: &mut Option<Interest>,
    socket: &Connection,
    key: u64,
    wanted: Interest,
    poller: &mut P,
) -> bool {
    *interest == Some(wanted) || ask(interest, socket, key, wanted, poller)
}

#[cold]
fn ask<P: Poller>(
    interest: &mut Option<Interest>,
    socket: &Connection,
    key: u64,
    wanted: Interest,
    poller: &mut P,
) -> bool {
    // An edge-triggered poller reports each change once: it can stay asked for what it has been
    // asked for, and always reports what can be received.
    let before = *interest;
    let edge = poller.edge();
    let wanted = if edge { before.unwrap_or(Interest::READ).and(wanted) } else { wanted };
    let asked = match before {
        // A connection that ends with its first turn need not be watched: it is added only now.
        None => poller.add(socket.as_fd(), key, wanted),
        Some(before) if before == wanted => Ok(()),
        Some(_) => poller.set(socket.as_fd(), key, wanted),
    };
    if asked.is_ok() {
        *interest = Some(wanted);
    }
    asked.is_ok()
}

/// Forgets operations that the connection has given up.
pub fn forget(slot: &mut ReadySlot, key: u64, what: Abandoned, disk: &mut dyn Disk) {
    let pending = slot.pending;
    match what {
        Abandoned::All => {
            let drive = &mut slot.drive;
            (drive.recv, drive.granted) = (false, 0);
            if let Some(unsent) = drive.send.take() {
                heap::release(unsent.into_buffer());
            }
            slot.pending = 0;
        }
        Abandoned::One(_) => slot.pending -= 1,
    }
    if pending > 0 {
        disk.forget(key, what);
    }
}

/// Takes the next operation that the disk has finished, and completes it. Returns the connection
/// whose turn it is then, and the time that has been spent for it already. Drops, and so closes,
/// what no connection waits for any more.
pub fn next_completion(
    worker: &mut Worker<'_, Readiness>,
    disk: &mut dyn Disk,
) -> Option<(u64, Spent)> {
    while let Some(Completion { key, result, spent }) = disk.next_completion() {
        if let Some((slot, desk)) = worker.turn(key) {
            on_completion(slot, result, desk.now, &desk.around.cx);
            slot.drive.held_ms = desk.held_ms;
            return Some((key, spent));
        }
        worker.around().cx.tally.add(Counter::DiskCompletionsDropped, 1);
    }
    None
}

/// Completes an operation that was left to the disk.
pub fn on_completion(slot: &mut ReadySlot, result: DiskResult, now: Now, cx: &FileCx<'_>) {
    slot.pending -= 1;
    match result {
        DiskResult::Opened(ticket, found) => slot.complete(Done::Open(ticket, found), now, cx),
        DiskResult::Read(ticket, (buffer, read)) => {
            slot.complete(Done::Read(ticket, buffer, read), now, cx);
        }
        DiskResult::Prefetched(bytes) => {
            slot.conn.disk_answered(now, cx);
            slot.drive.granted = bytes;
        }
        DiskResult::Sent(outbox, sent) => {
            slot.drive.granted = 0;
            let goes_on = sent.is_ok() && !outbox.is_empty();
            slot.complete(Done::Send(outbox, sent), now, cx);
            if goes_on && slot.conn.deadline() <= now.tick {
                had_room(slot, now, cx);
            }
        }
    }
}

/// Boxes for outboxes that must wait: parking one on a warm loop allocates nothing.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "it is the boxes that are kept, not what is in them")]
struct Spares(Vec<Box<Outbox<StaticFile>>>);

/// Limits of one turn of one connection, the same for every turn of a loop.
#[derive(Clone, Copy, Debug)]
pub struct TurnRules {
    /// The most bytes that a turn may send before others get theirs; less where many are ready.
    pub bytes_max: u64,
    /// Operations that a turn may perform.
    pub ops_max: u32,
    /// Turns in a round that may shake hands. The others wait for later rounds.
    pub handshakes_per_round: u32,
    /// Keep reading until the read fails (`full-read`, [H] §2.1).
    pub full_read: bool,
    /// Send as soon as there is something to send, without waiting for a report that the socket is
    /// writable (`eager-write`, [H] §2.1).
    pub eager_write: bool,
    /// The poller reports changes only: what it said holds until an operation fails.
    pub edge: bool,
    /// Sockets are in blocking mode: one call sends the whole of what it is given ([E] §4.3), and
    /// fails after this long if the peer takes nothing. `None`: sockets do not block.
    pub patience: Option<Duration>,
    /// Operations and completions that are left to other stages.
    pub leaves: Leaves,
}

/// Resources that a loop lends to each turn.
#[expect(missing_debug_implementations, reason = "a disk need not have one")]
pub struct Io<'a> {
    /// Performer of operations that may block on disk.
    pub disk: &'a mut dyn Disk,
    /// The limits of each turn.
    pub rules: TurnRules,
    /// Files are mapped ([`Disk::maps`]).
    maps: bool,
    /// Received bytes land here, from [`LANDING`] on.
    buffer: Box<[u8]>,
    spares: Spares,
    budget: Budget,
    /// Bytes that this turn may yet send before others get theirs.
    bytes: u64,
    /// Time of this turn, by operation.
    spent: Spent,
    /// Left work that the next turn begins with.
    first: Option<Left>,
    /// Work that this turn leaves to another stage.
    left: Option<Left>,
    /// The beat of its thread, if that is watched: it shows which calls may last.
    beat: Option<Arc<Beat>>,
    /// The loop is a stage of a pipeline: nothing else of a connection begins while its `Send`
    /// waits.
    in_pipeline: bool,
}

impl<'a> Io<'a> {
    /// Resources of a loop with this disk.
    pub fn new(disk: &'a mut dyn Disk, rules: TurnRules, limits: &Limits) -> Self {
        // Bytes behind a request are kept until it is answered, so no more are taken at once than a
        // head may need: a connection keeps two such lengths at most.
        let recv_bytes = limits.head_bytes_max.min(RECV_BYTES_MAX);
        let maps = disk.maps();
        Self {
            disk,
            rules,
            maps,
            buffer: vec![0; LANDING + recv_bytes].into(),
            spares: Spares::default(),
            budget: Budget::new(rules.bytes_max),
            bytes: 0,
            spent: Spent::default(),
            first: None,
            left: None,
            beat: None,
            in_pipeline: false,
        }
    }

    /// Sets the beat of its thread, if that is watched.
    #[must_use]
    pub fn with_beat(mut self, beat: Option<Arc<Beat>>) -> Self {
        self.beat = beat;
        self
    }

    /// Makes these the resources of a stage of a pipeline.
    #[must_use]
    pub const fn in_pipeline(mut self) -> Self {
        self.in_pipeline = true;
        self
    }

    /// Begins a round, and notifies the disk if the root has been `renewed`.
    pub fn begin_round(&mut self, renewed: bool) {
        self.budget.renew();
        if renewed {
            self.disk.renew_root();
        }
    }
}

/// Runs one connection until it would block or its budget is spent, and enters that. `spent`: the
/// time that has been spent for it already. `RING`: [`Disk::wire`] performs what concerns
/// sockets. The other loops are compiled without that.
#[inline]
pub fn step<const RING: bool>(
    slot: &mut ReadySlot,
    desk: &mut Desk<'_>,
    key: u64,
    spent: Spent,
    io: &mut Io<'_>,
) -> Turn {
    let begun = desk.begin(slot, slot.drive.readable);
    let bytes = io.budget.share();
    (io.bytes, io.spent) = (bytes, spent);
    let blocking = io.rules.patience.is_some();
    // Where sends block, what came before in this round was not this peer's time.
    let now = if blocking { at_present(desk.now) } else { desk.now };
    let (cx, held_ms, deadline) = (&desk.around.cx, desk.held_ms, slot.conn.deadline());
    let mut turn = advance::<RING>(slot, key, io, now, cx);
    if slot.conn.deadline() != deadline {
        slot.drive.held_ms = held_ms;
    } else if io.bytes < bytes && slot.drive.held_ms != held_ms {
        // What was sent now could have been sent before, and the peer's window began before.
        let before = std::mem::replace(&mut slot.drive.held_ms, held_ms);
        slot.conn.held_up(held_ms.wrapping_sub(before).into());
    }
    if turn == Turn::Parked && slot.drive.hangup {
        turn = parked(slot, now, cx);
    }
    io.budget.spend(bytes - io.bytes);
    if RING && slot.drive.is_sending() {
        slot.film(desk.around.cx.tally, FilmEvent::TurnEnds(TurnEnd::Kernel));
    }
    desk.end(key, slot, begun, turn, &io.spent, blocking);
    // Its own time with the disk has been taken off.
    slot.drive.held_ms = slot.drive.held_ms.wrapping_add(desk.held_ms.wrapping_sub(held_ms));
    turn
}

/// Handles a hang-up while only the disk is at work. The connection of a peer that is gone ends
/// now, and whatever the disk brings for it is thrown away.
#[cold]
fn parked(slot: &mut ReadySlot, now: Now, cx: &FileCx<'_>) -> Turn {
    if slot.drive.broken {
        slot.conn.cut(CloseReason::Reset, now, cx);
        return Turn::Closed(CloseReason::Reset);
    }
    slot.conn.peer_ended(now, cx);
    Turn::Parked
}

fn advance<const RING: bool>(
    slot: &mut ReadySlot,
    key: u64,
    io: &mut Io<'_>,
    now: Now,
    cx: &FileCx<'_>,
) -> Turn {
    let mut ops = io.rules.ops_max;
    // `Recv` is offered last: after it, as after nothing, there is no more to ask for until
    // something has been completed. What was offered before is tried again then.
    let mut asks = true;
    if io.first.is_some()
        && let Some(turn) = left::begin(slot, key, io, now, cx)
    {
        return turn;
    }
    loop {
        // The stage that sends must not parse and open what belongs to others.
        let only_sends = io.in_pipeline && left::send_waits(slot, now);
        if slot.drive.recv && slot.drive.readable && !only_sends {
            if left::leaves_recv(slot, io.rules.leaves) {
                return Turn::Left(OpKind::Recv);
            }
            asks |= receive::<RING>(slot, key, io, now, cx);
            if io.left.is_some() {
                return Turn::Left(OpKind::Recv);
            }
            continue;
        }
        let mut op = if asks && !only_sends { slot.next_op(cx.tally) } else { None };
        if op.is_none() {
            op = slot.drive.take_send(io).map(Op::Send);
        }
        asks = !matches!(op, Some(Op::Recv) | None);
        if io.rules.leaves.any() && left::leaves(slot, op.as_ref(), io.rules.leaves) {
            let kind = op.as_ref().map(Op::kind);
            io.left = op.map(Left::Op);
            return kind.map_or(Turn::Parked, Turn::Left);
        }
        match op {
            Some(Op::Recv) => slot.drive.recv = true,
            Some(Op::Send(outbox)) => {
                if outbox.ends() && outbox.segments().nth(1).is_none() {
                    // The kernel may hold its last bytes: `Shut` and `Close` are of this turn too.
                    ops = ops.max(3);
                }
                if let Some(turn) = send::<RING>(slot, key, outbox, io, now, cx) {
                    return turn;
                }
            }
            Some(op @ (Op::Open(..) | Op::Read(..) | Op::Stat(..))) => {
                if let Some(turn) = on_disk(slot, key, op, io, now, cx) {
                    return turn;
                }
            }
            Some(Op::Shut) => {
                perform::shut(&slot.socket);
                slot.complete(Done::Shut, now, cx);
            }
            Some(Op::Close(reason)) => return Turn::Closed(reason),
            None => return slot.drive.wait::<RING>(only_sends),
        }
        if was_last(&mut ops) && !goes_on(slot, io) {
            return Turn::Again;
        }
    }
}

/// Has the disk perform an operation, and completes it if that is done at once. The turn ends if
/// what was read is left to another stage.
fn on_disk(
    slot: &mut ReadySlot,
    key: u64,
    op: Op<StaticFile>,
    io: &mut Io<'_>,
    now: Now,
    cx: &FileCx<'_>,
) -> Option<Turn> {
    #[cfg(test)]
    seen::note_beside_send(slot, now);
    match op {
        Op::Open(ticket, req) => {
            let waits = Beat::begins_call(io.beat.as_deref());
            let found = timed(&mut io.spent.open, || io.disk.open(key, ticket, req));
            drop(waits);
            opened(slot, ticket, found, now, cx);
        }
        Op::Read(ticket, req) => {
            let waits = Beat::begins_call(io.beat.as_deref());
            let read = timed(&mut io.spent.read, || io.disk.read(key, ticket, req));
            drop(waits);
            match read {
                Some(read) if left::leaves_read(slot, io.rules.leaves) => {
                    slot.film(cx.tally, FilmEvent::Done(OpKind::Read));
                    io.left = Some(Left::Read(ticket, read));
                    return Some(Turn::Left(OpKind::Read));
                }
                read => has_read(slot, ticket, read, now, cx),
            }
        }
        Op::Stat(ticket, file) => {
            // The inode of an open file is in memory: no disk is waited for here, if its file
            // system is not another machine's.
            let waits = Beat::begins_call(io.beat.as_deref());
            let found = perform::stat(&file);
            drop(waits);
            slot.complete(Done::Stat(ticket, found), now, cx);
        }
        Op::Recv | Op::Send(_) | Op::Shut | Op::Close(_) => {
            debug_assert!(false, "no operation of a disk");
        }
    }
    None
}

/// Completes an open, if it has been performed already.
fn opened(
    slot: &mut ReadySlot,
    ticket: Ticket,
    found: Option<OpenResult>,
    now: Now,
    cx: &FileCx<'_>,
) {
    match found {
        Some(found) => slot.complete(Done::Open(ticket, found), now, cx),
        None => is_pending(slot),
    }
}

/// Completes a read, if it has been performed already.
fn has_read(slot: &mut ReadySlot, ticket: Ticket, read: Option<Read>, now: Now, cx: &FileCx<'_>) {
    match read {
        Some((buffer, read)) => slot.complete(Done::Read(ticket, buffer, read), now, cx),
        None => is_pending(slot),
    }
}

/// The disk has one more operation of the connection; a `Send` that waits for it counts too.
fn is_pending(slot: &mut ReadySlot) {
    slot.pending += 1;
    debug_assert!(usize::from(slot.pending) <= DISK_OPS_MAX + 1, "no more are out at once");
    #[cfg(test)]
    seen::PENDING_MAX.with(|most| most.set(most.get().max(slot.pending.into())));
}

/// Counts one operation; true if that was the last.
const fn was_last(ops: &mut u32) -> bool {
    *ops = ops.saturating_sub(1);
    *ops == 0
}

/// True within a response if sends block: the turn lasts until all of it is sent, in the pieces of
/// a sealed connection as in one call.
fn goes_on(slot: &ReadySlot, io: &Io<'_>) -> bool {
    io.rules.patience.is_some() && slot.conn.sends_on()
}

/// Performs the offered `Recv`; false if nothing has come.
#[inline]
fn receive<const RING: bool>(
    slot: &mut ReadySlot,
    key: u64,
    io: &mut Io<'_>,
    now: Now,
    cx: &FileCx<'_>,
) -> bool {
    #[cfg(test)]
    seen::note_beside_send(slot, now);
    let buffer = &mut io.buffer[LANDING..];
    let wire = if RING { io.disk.wire() } else { None };
    let received = match wire {
        None => perform::recv(&slot.socket, buffer, cx.tally),
        Some(wire) => wire.recv(key, &slot.socket, buffer, cx.tally),
    };
    let received = match received {
        Err(TransferFailure::WouldBlock) => {
            // What is behind an urgent byte has been read.
            (slot.drive.readable, slot.drive.urgent) = (false, false);
            return false;
        }
        Err(TransferFailure::Fault(fault)) => Err(fault),
        Ok(n) => {
            // A short read has emptied the socket, unless the end of the stream is behind it
            // (epoll(7), question 9), or an urgent byte: the next read waits for a report.
            let Readiness { hangup, urgent, .. } = slot.drive;
            slot.drive.readable = n == buffer.len() || io.rules.full_read || hangup || urgent;
            Ok(&buffer[..n])
        }
    };
    slot.drive.recv = false;
    match received {
        // An end, or a fault, is no work for another stage, and takes no place in its queue.
        Ok(bytes) if !bytes.is_empty() && left::leaves_received(slot, io.rules.leaves) => {
            slot.film(cx.tally, FilmEvent::Done(OpKind::Recv));
            io.left = Some(Io::leave_received(bytes, cx));
        }
        _ => slot.complete(Done::Recv(received), now, cx),
    }
    true
}

/// Sends with one call. Puts the outbox back if the budget is spent, the disk is asked first, the
/// socket is full, or a poller must report room first.
#[inline(always)]
fn send<const RING: bool>(
    slot: &mut ReadySlot,
    key: u64,
    mut outbox: Outbox<StaticFile>,
    io: &mut Io<'_>,
    now: Now,
    cx: &FileCx<'_>,
) -> Option<Turn> {
    if !slot.drive.may_send(&io.rules) {
        park(slot, outbox, io);
        return None;
    }
    if io.bytes == 0 && !goes_on(slot, io) {
        park(slot, outbox, io);
        return Some(Turn::Again);
    }
    let mut most = if io.rules.patience.is_some() { u64::MAX } else { io.bytes };
    let at_file = outbox.at_file() || io.maps && is_before_file(&outbox);
    if at_file {
        match ready(slot, key, &outbox, io) {
            Some(bytes) => most = most.min(bytes),
            None => {
                park_for_disk(slot, outbox, io, now, cx);
                return None;
            }
        }
    }
    if RING {
        submit(slot, key, outbox, most, io);
        return None;
    }
    let before = io.spent.send;
    let may_last = at_file || io.rules.patience.is_some();
    let waits = may_last.then(|| Beat::begins_call(io.beat.as_deref()));
    let result = if at_file && io.maps {
        io.disk.send(&slot.socket, &mut outbox, most, &mut io.spent, cx.tally)
    } else {
        perform::send(&slot.socket, &mut outbox, most, &mut io.spent, cx.tally)
    };
    drop(waits);
    if at_file {
        io.disk.sent(io.spent.send - before);
    }
    // A blocking call may have taken as long as the peer is given.
    let now = if io.rules.patience.is_some() { at_present(now) } else { now };
    match result {
        Err(TransferFailure::WouldBlock) => {
            park(slot, outbox, io);
            if io.rules.patience.is_some() {
                // The kernel has taken nothing for all that time. The peer may have.
                sent_late(slot, key, io, now, cx);
                // Others have waited, too.
                return slot.drive.send.is_some().then_some(Turn::Again);
            }
            (slot.drive.writable, slot.drive.full) = (false, true);
        }
        Err(TransferFailure::Fault(fault)) => {
            slot.complete(Done::Send(outbox, Err(fault)), now, cx)
        }
        Ok(bytes) => {
            slot.drive.writable &= io.rules.edge;
            io.bytes = io.bytes.saturating_sub(bytes * u64::from(slot.weight));
            let is_over = outbox.is_empty();
            if left::leaves_sent(slot, &outbox, io.rules.leaves) {
                slot.film(cx.tally, FilmEvent::Done(OpKind::Send));
                io.left = Some(Left::Sent(outbox, bytes));
                return Some(Turn::Left(OpKind::Recv));
            }
            slot.complete(Done::Send(outbox, Ok(bytes)), now, cx);
            if !is_over && slot.conn.deadline() <= now.tick {
                sent_late(slot, key, io, now, cx);
            }
        }
    }
    None
}

/// Lends an outbox to the ring that sends it. The result is a completion.
fn submit(slot: &mut ReadySlot, key: u64, outbox: Outbox<StaticFile>, most: u64, io: &mut Io<'_>) {
    let Some(wire) = io.disk.wire() else { return };
    let bytes = wire.send(key, &slot.socket, outbox, most);
    io.bytes = io.bytes.saturating_sub(bytes * u64::from(slot.weight));
    slot.drive.granted = SENDING;
    is_pending(slot);
}

/// A file range follows what is left of the head.
fn is_before_file(outbox: &Outbox<StaticFile>) -> bool {
    matches!(outbox.segments().next(), Some(Segment::File { .. }))
}

/// The connection's deadline has passed during a send, or a send that blocks has waited for as long
/// as it may.
#[cold]
fn sent_late(slot: &mut ReadySlot, key: u64, io: &mut Io<'_>, now: Now, cx: &FileCx<'_>) {
    if io.rules.patience.is_none() {
        return had_room(slot, now, cx);
    }
    // It filled the socket and then waited, and another call would wait as long again. Bytes that
    // the peer has taken meanwhile count, also if they make too little room for the kernel.
    let queued = socket::queued_bytes(slot.socket.as_fd()).unwrap_or(0);
    slot.conn.expire(queued, now, cx);
    if let Some(what) = slot.conn.abandoned() {
        forget(slot, key, what, io.disk);
    }
}

/// Begins the peer's window now: room was there when the deadline had passed, and others held the
/// loop up.
#[cold]
fn had_room(slot: &mut ReadySlot, now: Now, cx: &FileCx<'_>) {
    let late = now.tick.since(slot.conn.deadline());
    slot.conn.held_up(late + cx.site.deadlines.send_window_ms);
}

/// The time after calls that may have blocked.
#[cold]
fn at_present(now: Now) -> Now {
    Now { tick: Tick(clock::nanos() / 1_000_000), ..now }
}

/// Keeps an outbox until its time comes.
fn park(slot: &mut ReadySlot, outbox: Outbox<StaticFile>, io: &mut Io<'_>) {
    let mut parked = io.spares.0.pop().unwrap_or_default();
    *parked = outbox;
    slot.drive.send = Some(parked);
}

/// Bytes of the file at the front that may be sent: what the disk has made ready, or says is.
fn ready(
    slot: &mut ReadySlot,
    key: u64,
    outbox: &Outbox<StaticFile>,
    io: &mut Io<'_>,
) -> Option<u64> {
    match std::mem::take(&mut slot.drive.granted) {
        0 => io.disk.prefetch(key, outbox),
        granted => Some(granted),
    }
}

/// Keeps an outbox until the disk has made the file at its front ready.
fn park_for_disk(
    slot: &mut ReadySlot,
    outbox: Outbox<StaticFile>,
    io: &mut Io<'_>,
    now: Now,
    cx: &FileCx<'_>,
) {
    park(slot, outbox, io);
    slot.conn.wait_for_disk(now, cx);
    slot.drive.granted = PREFETCHING;
    is_pending(slot);
}
