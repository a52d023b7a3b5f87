//! A protocol behind a seal: records on the wire, plain bytes above it.
mod incoming;
mod outgoing;

use super::Link;
use crate::{
    Cx, FileFault, Log, Peer, Progress, Protocol, RECORD_PLAIN_BYTES_MAX, Record, Seal, SealFacts,
};
use alloc::{boxed::Box, vec::Vec};
use core::mem;
use regatta_metrics::Counter;
use regatta_op::{Abandoned, CloseReason, DISK_OPS_MAX, Done, File, Now, Op, Outbox, Tick, Ticket};

/// The most plain bytes that are sealed for one `Send`, and read from a file for it.
const SEAL_BYTES_MAX: usize = 64 << 10;
/// First bytes after the upper protocol was idle that are sent in small records: the peer can open
/// the first one early.
const SMALL_RECORDS_BYTES: u64 = 16 << 10;
/// Bytes in a small record.
const SMALL_RECORD_BYTES: usize = 4 << 10;
/// A rest that is shorter than this has no record of its own: it is part of the one before it.
const SHORT_REST_BYTES: usize = 1 << 10;
/// The most bytes of answers to handshakes and the like that wait to be sent: nothing more is
/// opened, nor received, until the peer has taken some.
const REPLY_BYTES_MAX: usize = 16 << 10;
/// The ticket of reads by the wire itself.
const WIRE: Ticket = Ticket(u16::MAX);

/// Connection behind a seal.
///
/// At first it shakes hands; then [`crate::Links`] chooses the protocol by the name that the peers
/// agreed on. Bytes that the protocol sends are sealed in pieces: memory at once, a file range
/// after it has been read. The protocol is credited with the share of a piece that the kernel has
/// of its records. Received bytes are opened record by record, when the protocol wants to receive.
/// The rest stays in the inbox. Nothing more is received while that holds a whole record.
#[derive(Debug)]
pub struct Sealed<F> {
    seal: Box<dyn Seal>,
    peer: Peer,
    /// The protocol above the seal; none during the handshake.
    upper: Option<Link<F>>,
    /// Received, and not opened from `inbox_at` on.
    inbox: Vec<u8>,
    inbox_at: usize,
    /// Opened, and not taken from `plain_at` on.
    plain: Vec<u8>,
    plain_at: usize,
    /// Records that follow those in `out`.
    records: Vec<u8>,
    /// Bytes at the front of `records` that are not sent alone, because they are tickets.
    waiting: usize,
    /// Records that are sent next, unless they are out.
    out: Outbox<F>,
    /// Bytes that the upper protocol sends.
    source: Option<Outbox<F>>,
    /// Bytes at the front of `source` that are in `records` or `out`.
    sealed: u64,
    /// `source` had more when the kernel last took all that was offered.
    sends_on: bool,
    /// Bytes that have been sealed since the upper protocol was idle.
    position: u64,
    /// Operations on files to be offered.
    asks: Vec<Op<F>>,
    /// Bytes that the wire has brought, and taken.
    received: u64,
    sent: u64,
    /// Value of `sent`, with the bytes then waiting, when the handshake was over.
    greeted: u64,
    /// The same without tickets.
    shaken: u64,
    /// Deadline of the handshake and of the last records; otherwise the upper protocol's counts.
    deadline: Tick,
    ending: Option<Ending>,
    lent: Lent,
    abandoned: Option<Abandoned>,
    /// The upper protocol wants to receive.
    wants: bool,
    /// The wire has ended, or nothing more of it is opened.
    ended: bool,
    /// Value of `received` when a record could not be opened, unless the wire had ended before.
    spoilt: Option<u64>,
    /// Nothing can be sent any more.
    shut: bool,
    /// Deadline for the peer to begin the handshake while the server is going away; else never.
    drain_until: Tick,
    /// The peer has begun the handshake, although the driver may not have received it.
    begun: bool,
    /// The client has too many connections: its first request will be refused.
    limited: bool,
}

/// Operations in flight.
#[derive(Debug, Default)]
struct Lent {
    recv: bool,
    send: bool,
    /// True if the wire reads a file, or has such a read to offer.
    read: bool,
    /// Operations of the upper protocol on files.
    disk: [Option<Ticket>; DISK_OPS_MAX],
    shut: bool,
}

impl Lent {
    fn any(&self) -> bool {
        self.recv || self.send || self.read || self.disk_ops() > 0 || self.shut
    }

    fn disk_ops(&self) -> usize {
        self.disk.iter().flatten().count()
    }

    /// Notes an operation of the upper protocol on a file.
    fn lend(&mut self, ticket: Ticket) {
        let free = self.disk.iter_mut().find(|place| place.is_none());
        *free.expect("a protocol keeps to `DISK_OPS_MAX`") = Some(ticket);
    }

    /// Ends an operation of the upper protocol on a file; false if it is not in flight.
    fn release(&mut self, ticket: Ticket) -> bool {
        let place = self.disk.iter_mut().find(|place| **place == Some(ticket));
        place.and_then(Option::take).is_some()
    }
}

/// Operation that follows when all records have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// `Shut` of the upper protocol.
    Shut,
    /// `Shut`, and then [`Self::Linger`].
    Leave(CloseReason),
    /// Bytes from the peer are discarded: `Recv`, until the wire ends. With unread bytes, `close`
    /// would throw away the last records, which say what is wrong (RFC 9112 §9.6).
    Linger(CloseReason),
    Close(CloseReason),
    /// `Close` has been offered.
    Closed,
}

/// The log of a sealed connection: it adds the facts of the seal to each record.
struct SealedLog<'a> {
    log: &'a dyn Log,
    seal: &'a dyn Seal,
}

impl Log for SealedLog<'_> {
    fn wants(&self) -> bool {
        self.log.wants()
    }

    fn record(&self, record: &Record<'_>) {
        self.log.record(&Record { seal: SealFacts::from_seal(self.seal), ..*record });
    }

    fn fault(&self, fault: &FileFault<'_>) {
        self.log.fault(fault);
    }
}

impl<F: File> Sealed<F> {
    /// A connection that was accepted just now. It has [`crate::Deadlines::handshake_ms_max`] to
    /// shake hands.
    #[must_use]
    pub fn new(seal: Box<dyn Seal>, peer: Peer, now: Now, cx: &Cx<'_, F>) -> Self {
        Self {
            seal,
            peer,
            upper: None,
            inbox: Vec::new(),
            inbox_at: 0,
            plain: Vec::new(),
            plain_at: 0,
            records: Vec::new(),
            waiting: 0,
            out: Outbox::default(),
            source: None,
            sends_on: false,
            sealed: 0,
            position: 0,
            asks: Vec::new(),
            received: 0,
            sent: 0,
            greeted: 0,
            shaken: 0,
            deadline: now.tick.after(cx.site.deadlines.handshake_ms_max),
            ending: None,
            lent: Lent::default(),
            abandoned: None,
            wants: true,
            ended: false,
            spoilt: None,
            shut: false,
            drain_until: Tick::NEVER,
            begun: false,
            limited: false,
        }
    }

    /// Refuses the first request: the client has too many connections. Called before the handshake.
    pub(super) const fn limit(&mut self) {
        debug_assert!(self.upper.is_none(), "a client is admitted before it shakes hands");
        self.limited = true;
    }
}

impl<F: File> Protocol<F> for Sealed<F> {
    fn next_op(&mut self) -> Option<Op<F>> {
        self.abandoned = None;
        if !self.asks.is_empty() {
            let op = self.asks.remove(0);
            self.shrink_asks();
            if let Some(ticket) = ticket_of(&op).filter(|ticket| *ticket != WIRE) {
                self.lent.lend(ticket);
            }
            return Some(op);
        }
        if !self.lent.send && !self.out.is_empty() {
            self.lent.send = true;
            return Some(Op::Send(mem::take(&mut self.out)));
        }
        if let Some(ending) = self.ending {
            let over = !self.lent.send && !self.lent.shut;
            return over.then(|| self.last_op(ending)).flatten();
        }
        let may_recv = self.may_open() && !self.is_greeting();
        if self.wants && !self.lent.recv && !self.ended && may_recv {
            self.lent.recv = true;
            return Some(Op::Recv);
        }
        None
    }

    fn complete(&mut self, done: Done<'_, F>, now: Now, cx: &Cx<'_, F>) {
        match done {
            Done::Recv(received) => {
                assert!(mem::take(&mut self.lent.recv), "a `Recv` is completed once");
                self.on_recv(received, now, cx);
            }
            Done::Send(out, sent) => {
                assert!(mem::take(&mut self.lent.send), "a `Send` is completed once");
                self.on_sent(out, sent, now, cx);
            }
            Done::Read(WIRE, buffer, read) => {
                assert!(mem::take(&mut self.lent.read), "a `Read` is completed once");
                self.on_read(buffer, read, now, cx);
            }
            Done::Shut => {
                assert!(mem::take(&mut self.lent.shut), "a `Shut` is completed once");
                self.shut = true;
                self.on_shut(now, cx);
            }
            Done::Open(ticket, _) | Done::Read(ticket, ..) | Done::Stat(ticket, _) => {
                let was_out = self.lent.release(ticket);
                assert!(was_out, "an operation on a file is completed once");
                self.complete_upper(done, now, cx);
            }
        }
        self.go_on(now, cx);
    }

    fn deadline(&self) -> Tick {
        match (&self.upper, self.ending) {
            (Some(upper), None | Some(Ending::Shut)) => upper.deadline(),
            (None, None) if !self.has_begun() => self.deadline.min(self.drain_until),
            _ => self.deadline,
        }
    }

    fn expire(&mut self, queued: u64, now: Now, cx: &Cx<'_, F>) {
        if now.tick < self.deadline() {
            return;
        }
        match (&self.upper, self.ending) {
            (_, Some(Ending::Leave(_))) if self.lent.shut => {
                self.deadline = now.tick.after(cx.site.deadlines.linger_ms_max);
            }
            (_, Some(ending)) if ending != Ending::Shut => {
                self.break_off(cx);
                self.stop_lingering();
            }
            (None, _) => {
                let idle = self.is_draining() && !self.has_begun();
                self.break_off(cx);
                let reason = CloseReason::HandshakeDeadline;
                self.fail(if idle { CloseReason::Drained } else { reason }, now, cx);
            }
            (Some(_), ending) => {
                // The kernel may still hold the handshake, which is not the upper protocol's.
                let queued = queued.min(self.sent.saturating_sub(self.greeted));
                self.with_upper(cx, |upper, cx| upper.expire(queued, now, cx));
                let abandoned = self.upper.as_ref().and_then(Protocol::abandoned);
                self.on_abandoned(abandoned, now, cx);
                if ending == Some(Ending::Shut) && !self.lent.shut {
                    // The peer does not take our last records.
                    self.break_off(cx);
                }
            }
        }
        self.go_on(now, cx);
    }

    fn wait_for_disk(&mut self, _: Now, _: &Cx<'_, F>) {
        debug_assert!(false, "records are memory: the disk is not asked for them");
    }

    fn disk_answered(&mut self, _: Now, _: &Cx<'_, F>) {
        debug_assert!(false, "records are memory: the disk is not asked for them");
    }

    fn peer_ended(&mut self, now: Now, cx: &Cx<'_, F>) {
        if let Some(upper) = &mut self.upper {
            upper.peer_ended(now, cx);
        }
    }

    fn held_up(&mut self, ms: u64) {
        self.deadline = self.deadline.after(ms);
        self.drain_until = self.drain_until.after(ms);
        if let Some(upper) = &mut self.upper {
            upper.held_up(ms);
        }
    }

    fn peer_began(&mut self) {
        self.begun = true;
    }

    fn drain(&mut self, now: Now, cx: &Cx<'_, F>) {
        let until = now.tick.after(cx.site.deadlines.drain_first_ms());
        self.drain_until = self.drain_until.min(until);
        if let Some(upper) = &mut self.upper {
            upper.drain(now, cx);
        }
        self.go_on(now, cx);
    }

    fn cut(&mut self, reason: CloseReason, now: Now, cx: &Cx<'_, F>) {
        if matches!(self.ending, Some(Ending::Close(_) | Ending::Closed)) {
            return;
        }
        // An idle connection has nothing to lose: an alert may say that it ends.
        let is_quiet = self.is_silent() && self.source.is_none() && !self.must_send();
        if reason == CloseReason::Displaced && is_quiet {
            self.forget(cx);
        } else {
            self.break_off(cx);
        }
        if self.is_over() {
            self.stop_lingering();
        } else if self.upper.is_some() {
            self.with_upper(cx, |upper, cx| upper.cut(reason, now, cx));
        } else {
            self.fail(reason, now, cx);
        }
        self.go_on(now, cx);
    }

    fn turn_away(&mut self, now: Now, cx: &Cx<'_, F>) {
        if self.upper.is_none() {
            return;
        }
        self.with_upper(cx, |upper, cx| upper.turn_away(now, cx));
        match self.upper.as_ref().and_then(Protocol::abandoned) {
            Some(Abandoned::All) if self.keeps_records() => self.give_up_disk(),
            abandoned => self.on_abandoned(abandoned, now, cx),
        }
        self.go_on(now, cx);
    }

    fn abandoned(&self) -> Option<Abandoned> {
        self.abandoned
    }

    fn is_idle(&self) -> bool {
        let nothing = self.inbox.is_empty() && self.plain.is_empty() && self.ending.is_none();
        nothing && self.upper.as_ref().map_or(self.received == 0, Protocol::is_idle)
    }

    /// The bytes are of records. They say nothing to the protocol above before they are opened.
    fn awaits_request(&self, _: &[u8]) -> bool {
        self.upper.as_ref().is_some_and(|upper| upper.awaits_request(&[]))
    }

    fn is_shaking_hands(&self) -> bool {
        self.upper.is_none() && self.ending.is_none()
    }

    fn sends_on(&self) -> bool {
        self.sends_on
    }

    fn tries_again(&self) -> bool {
        self.upper.as_ref().is_some_and(Protocol::tries_again)
    }

    fn requests(&self) -> u32 {
        self.upper.as_ref().map_or(0, Protocol::requests)
    }

    fn check_invariants(&self) {
        let Self { lent, out, source, sealed, .. } = self;
        assert!(!lent.send || out.is_empty(), "one `Send` is out at once");
        let sends = lent.send || !out.is_empty() || lent.read || !self.records.is_empty();
        assert!(*sealed == 0 || sends, "what has been sealed will be sent");
        assert!(source.as_ref().is_none_or(|source| source.len() >= *sealed));
        assert!(self.inbox_at <= self.inbox.len() && self.plain_at <= self.plain.len());
        assert!(self.records.len() <= 2 * SEAL_BYTES_MAX, "what waits to be sent is bounded");
        assert!(!self.asks.is_empty() || self.asks.capacity() == 0, "no memory for no operation");
        assert!(self.waiting <= self.records.len(), "tickets are among the records");
        assert!(self.plain.len() <= RECORD_PLAIN_BYTES_MAX, "one record is opened at a time");
        let closes = matches!(self.ending, Some(Ending::Close(_) | Ending::Closed));
        assert!(closes || self.deadline() != Tick::NEVER, "all but the end has a deadline");
        let lingers = matches!(self.ending, Some(Ending::Linger(_)));
        assert!(!lingers || self.shut && out.is_empty(), "it lingers when all has been sent");
        if let Some(upper) = &self.upper {
            upper.check_invariants();
        }
    }
}

/// The ticket of an operation on a file.
const fn ticket_of<F>(op: &Op<F>) -> Option<Ticket> {
    match op {
        Op::Open(ticket, _) | Op::Read(ticket, _) | Op::Stat(ticket, _) => Some(*ticket),
        Op::Recv | Op::Send(_) | Op::Shut | Op::Close(_) => None,
    }
}

// Progress, and the end.
impl<F: File> Sealed<F> {
    fn complete_upper(&mut self, done: Done<'_, F>, now: Now, cx: &Cx<'_, F>) {
        self.with_upper(cx, |upper, cx| upper.complete(done, now, cx));
    }

    /// Calls the upper protocol, if there is one, where it may log an exchange.
    fn with_upper(&mut self, cx: &Cx<'_, F>, call: impl FnOnce(&mut Link<F>, &Cx<'_, F>)) {
        if let Some(upper) = &mut self.upper {
            let log = SealedLog { log: cx.log, seal: &*self.seal };
            call(upper, &Cx { log: &log, ..*cx });
        }
    }

    /// Does all that can be done without waiting.
    fn go_on(&mut self, now: Now, cx: &Cx<'_, F>) {
        loop {
            self.ask(now, cx);
            if !self.open(now, cx) && !self.fill(now, cx) {
                break;
            }
        }
        if self.shut {
            self.drop_records();
        }
        let reads = self.lent.read && !self.is_over();
        if self.is_silent() && !reads && self.must_send() {
            let whole = self.whole_source();
            let ends = whole.is_some_and(Outbox::ends);
            let pauses = whole.is_some_and(Outbox::pauses) && !self.has_input();
            if ends {
                self.seal.close(&mut self.records);
            }
            self.out = Outbox::new(mem::take(&mut self.records));
            self.waiting = 0;
            self.out.set_ends(ends);
            self.out.set_pauses(pauses);
        }
        if matches!(self.ending, Some(Ending::Close(_))) && self.is_silent() {
            self.deadline = Tick::NEVER;
        }
        self.shrink_asks();
        self.give_back(cx);
    }

    /// Outbox of the upper protocol, if all of it has been sealed.
    fn whole_source(&self) -> Option<&Outbox<F>> {
        self.source.as_ref().filter(|source| self.sealed > 0 && source.len() == self.sealed)
    }

    /// True if the peer has sent something that the upper protocol has not received.
    const fn has_input(&self) -> bool {
        self.inbox_at < self.inbox.len() || self.plain_at < self.plain.len()
    }

    /// Takes the operations that the upper protocol asks for.
    fn ask(&mut self, now: Now, cx: &Cx<'_, F>) {
        while let Some(upper) = &mut self.upper
            && let Some(op) = upper.next_op()
        {
            match op {
                Op::Recv => self.wants = true,
                Op::Send(source) => self.source = Some(source),
                Op::Shut => {
                    self.ending = Some(Ending::Shut);
                    self.seal.close(&mut self.records);
                }
                Op::Close(reason) => return self.end(reason, now, cx),
                op => self.asks.push(op),
            }
        }
    }

    /// The handshake has failed, or was not begun.
    fn fail(&mut self, reason: CloseReason, now: Now, cx: &Cx<'_, F>) {
        if self.ending.is_none() {
            cx.tally.add(Counter::closed(reason as usize), 1);
            self.end(reason, now, cx);
        }
    }

    /// Prepares for `Close`; a notice of it goes first if the peer may want to know. After a record
    /// that could not be opened the peer is still sending: it is awaited as by HTTP/1.
    fn end(&mut self, reason: CloseReason, now: Now, cx: &Cx<'_, F>) {
        self.ending = Some(Ending::Close(reason));
        (self.sealed, self.wants) = (0, false);
        self.drop_source(cx);
        self.asks.clear();
        let may_tell = match reason {
            CloseReason::PeerClosed
            | CloseReason::Finished
            | CloseReason::IdleDeadline
            | CloseReason::HeadDeadline
            | CloseReason::BadRequest
            | CloseReason::BadRecord
            | CloseReason::Refused
            | CloseReason::Drained
            | CloseReason::Displaced => true,
            // Within a request, by a closing alert, which is to be answered.
            CloseReason::PeerAborted => self.seal.progress() == Progress::PeerClosed,
            _ => false,
        };
        // Nothing may be sent behind a `Shut`, which may be in flight.
        if self.shut || self.lent.shut || !may_tell {
            self.shut = true;
            self.drop_out(cx);
        } else if self.spoilt.is_some() {
            if self.must_send() || !self.is_silent() {
                self.ending = Some(Ending::Leave(reason));
            }
        } else if self.upper.is_some() && self.awaits_close() {
            self.seal.close(&mut self.records);
        }
        self.deadline = now.tick.after(cx.site.deadlines.linger_ms_max);
    }

    /// True if the peer receives a closing alert: the wire has not ended, or the peer has sent such
    /// an alert, which is to be answered (RFC 8446 §6.1).
    fn awaits_close(&self) -> bool {
        !self.ended || self.seal.progress() == Progress::PeerClosed
    }

    /// Our half has been closed.
    fn on_shut(&mut self, now: Now, cx: &Cx<'_, F>) {
        match self.ending {
            Some(Ending::Leave(reason)) => {
                self.ending = Some(Ending::Linger(reason));
                self.deadline = now.tick.after(cx.site.deadlines.linger_ms_max);
            }
            Some(Ending::Shut) => {
                self.ending = None;
                self.complete_upper(Done::Shut, now, cx);
            }
            _ => {}
        }
    }

    /// Awaits the peer no longer: `Close` is next.
    const fn stop_lingering(&mut self) {
        if let Some(Ending::Leave(reason) | Ending::Linger(reason)) = self.ending {
            self.ending = Some(Ending::Close(reason));
        }
    }

    /// The operation that its end consists of.
    fn last_op(&mut self, ending: Ending) -> Option<Op<F>> {
        match ending {
            Ending::Shut | Ending::Leave(_) => {
                self.lent.shut = true;
                Some(Op::Shut)
            }
            Ending::Linger(_) => (!mem::replace(&mut self.lent.recv, true)).then_some(Op::Recv),
            Ending::Close(reason) => {
                self.ending = Some(Ending::Closed);
                self.deadline = Tick::NEVER;
                Some(Op::Close(reason))
            }
            Ending::Closed => None,
        }
    }

    /// Handles operations that the upper protocol has given up.
    fn on_abandoned(&mut self, what: Option<Abandoned>, now: Now, cx: &Cx<'_, F>) {
        match what {
            None => {}
            Some(Abandoned::One(ticket)) => {
                let asks = self.asks.len();
                self.asks.retain(|op| ticket_of(op) != Some(ticket));
                if self.asks.len() == asks {
                    let was_out = self.lent.release(ticket);
                    assert!(was_out, "an operation is given up while it is in flight");
                    self.abandoned = what;
                }
            }
            Some(Abandoned::All) => {
                let cut = self.lent.send || self.sealed > 0;
                self.forget(cx);
                if cut {
                    // Records have been lost: later ones could not be opened.
                    self.break_off(cx);
                    let reason = CloseReason::SendDeadline;
                    self.with_upper(cx, |upper, cx| upper.cut(reason, now, cx));
                }
            }
        }
    }

    /// True if the records in flight are answers of the seal, and not of the upper protocol. They
    /// remain when that gives up all of its operations: later records could not be opened without
    /// them. The driver then gives up one operation on a file at most.
    fn keeps_records(&self) -> bool {
        let is_own = self.source.is_none() && self.sealed == 0;
        self.lent.send && is_own && self.lent.disk_ops() <= 1
    }

    /// Gives up the operations of the upper protocol, and none of the wire.
    fn give_up_disk(&mut self) {
        self.wants = false;
        self.asks.clear();
        self.abandoned = self.lent.disk.iter_mut().find_map(Option::take).map(Abandoned::One);
    }

    /// Forgets all operations in flight.
    fn forget(&mut self, cx: &Cx<'_, F>) {
        if mem::take(&mut self.lent).any() {
            self.abandoned = Some(Abandoned::All);
        }
        self.drop_source(cx);
        (self.sealed, self.wants) = (0, self.upper.is_none());
        self.asks.clear();
    }

    /// Drops what the upper protocol sends.
    fn drop_source(&mut self, cx: &Cx<'_, F>) {
        if let Some(source) = self.source.take() {
            cx.scratch.give_buffer(source.into_buffer());
        }
    }

    /// Drops records that have been offered, and are not in flight.
    fn drop_out(&mut self, cx: &Cx<'_, F>) {
        cx.scratch.give_buffer(mem::take(&mut self.out).into_buffer());
    }

    /// Forgets all operations in flight and everything unsent: sending is over.
    fn break_off(&mut self, cx: &Cx<'_, F>) {
        self.forget(cx);
        self.shut = true;
        self.drop_records();
        self.drop_out(cx);
    }

    /// Forgets the records that have not been offered.
    fn drop_records(&mut self) {
        self.records.clear();
        self.waiting = 0;
    }

    /// True if bytes of the handshake are out or will be sent. Nothing is received meanwhile: a
    /// driver that blocks has one operation at a time.
    fn is_greeting(&self) -> bool {
        let unsent = !self.is_silent() || self.must_send();
        unsent && (self.upper.is_none() || self.sent < self.shaken)
    }

    /// True if the peer has begun the handshake.
    const fn has_begun(&self) -> bool {
        self.begun || self.received > 0
    }

    const fn is_draining(&self) -> bool {
        self.drain_until.0 < Tick::NEVER.0
    }

    /// True if only the end is left.
    const fn is_over(&self) -> bool {
        !matches!(self.ending, None | Some(Ending::Shut))
    }

    /// True if there are records that do not wait for others.
    const fn must_send(&self) -> bool {
        self.records.len() > self.waiting
    }

    /// True if nothing is being sent.
    fn is_silent(&self) -> bool {
        !self.lent.send && self.out.is_empty()
    }

    /// Frees the list of operations on files when it is empty: most connections wait with none.
    fn shrink_asks(&mut self) {
        if self.asks.is_empty() {
            self.asks = Vec::new();
        }
    }

    /// Returns buffers with nothing in them to the pool. An idle connection holds none, except one
    /// as long as the tickets that wait for its first response.
    fn give_back(&mut self, cx: &Cx<'_, F>) {
        let over = self.is_over();
        if over || self.inbox_at == self.inbox.len() {
            self.inbox_at = 0;
            cx.scratch.give_buffer(mem::take(&mut self.inbox));
        }
        if over || self.plain_at == self.plain.len() {
            self.plain_at = 0;
            cx.scratch.give_buffer(mem::take(&mut self.plain));
        }
        if !self.must_send() && self.records.capacity() > self.waiting {
            let tickets = self.records.as_slice().into();
            cx.scratch.give_buffer(mem::replace(&mut self.records, tickets));
        }
    }
}
