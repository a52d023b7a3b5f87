//! Requests that a connection answers at the same time: one stream for each.
//!
//! The table knows streams, exchanges, windows and priorities, but no frames: any protocol with
//! streams can use it. Three orders are in it:
//!
//! * Streams send by the priorities that the client has given them ([`Streams::next_sender`]).
//! * Exchanges get one of the connection's few tickets for the disk, the most urgent one first
//!   ([`Streams::disk_op`]).
//! * Waits end at their deadlines. The table keeps the earliest one ([`Streams::deadline`]).
mod schedule;
#[cfg(test)]
mod tests;

pub(crate) use self::schedule::{Slot, Slots};

use self::schedule::Schedule;
use crate::ongoing::Ongoing;
use alloc::{boxed::Box, vec::Vec};
use core::{fmt, mem};
use regatta_http::priority::Priority;
use regatta_op::{DISK_OPS_MAX, Op, Outbox, Tick, Ticket};

/// Places that a table without streams keeps: a client that sends one request after another causes
/// no allocation.
const KEPT_PLACES: usize = 4;

/// A request and its response, of several on a connection.
pub(crate) struct Stream<F> {
    /// Number of the stream: a client's later requests have higher ones.
    pub(crate) id: u64,
    /// The exchange, if it waits or will be logged.
    pub(crate) ongoing: Option<Box<Ongoing<F>>>,
    /// Rest of the response: the head, as the protocol sends it, and the body.
    out: Outbox<F>,
    /// Bytes of the head in `out`, which no window limits.
    head_bytes: u64,
    /// Bytes of the body that the client permits; below 0 if it has lowered its limit since.
    window: i64,
    /// Bytes of the response that are in frames.
    pub(crate) framed: u64,
    /// Bytes of the request's content that have arrived.
    pub(crate) received: u64,
    /// Length of the response's body, bytes.
    pub(crate) body_bytes: u64,
    /// Time until which it waits.
    until: Tick,
    pub(crate) status: u16,
    stage: Stage,
}

// Memory of an open stream, without its exchange.
const _: () = assert!(size_of::<Stream<u64>>() <= 192);

/// Progress of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Neither waits nor sends: the protocol decides what is next.
    Decides,
    /// The operation of its exchange waits for a ticket.
    Wants,
    /// An operation with this ticket is in flight.
    AtDisk(Ticket),
    /// The exchange tries again later.
    Held,
    /// The response is being sent.
    Sends,
}

/// The stream that an operation of the disk was for.
#[derive(Debug)]
pub(crate) enum Waiter<F> {
    /// The stream at this place: its exchange resumes.
    Open(Slot),
    /// A stream that was reset meanwhile, and is closed now.
    Reset(Stream<F>),
}

/// A stream that has waited long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// The disk has not answered it in time.
    Disk(Slot),
    /// The exchange tries again now.
    Retry(Slot),
}

/// Window that exceeds the largest one of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowOverflow;

impl<F> Stream<F> {
    const fn new(id: u64, window: i64) -> Self {
        Self {
            id,
            ongoing: None,
            out: Outbox::new(Vec::new()),
            head_bytes: 0,
            window,
            framed: 0,
            received: 0,
            body_bytes: 0,
            until: Tick::NEVER,
            status: 0,
            stage: Stage::Decides,
        }
    }

    /// The rest of the response.
    pub(crate) const fn out(&self) -> &Outbox<F> {
        &self.out
    }

    /// Bytes of the rest of the head.
    pub(crate) const fn head_bytes(&self) -> u64 {
        self.head_bytes
    }

    /// Bytes of the response that may be put into frames now. `window`: that of the connection.
    pub(crate) fn sendable(&self, window: u64) -> u64 {
        let body = (self.out.len() - self.head_bytes).min(window);
        self.head_bytes + body.min(u64::try_from(self.window).unwrap_or(0))
    }

    /// True if the client has permitted no more of the body that is left.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stage == Stage::Sends && !self.out.is_empty() && self.sendable(u64::MAX) == 0
    }
}

impl<F> fmt::Debug for Stream<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("id", &self.id)
            .field("stage", &self.stage)
            .field("window", &self.window)
            .finish_non_exhaustive()
    }
}

/// The streams of a connection.
pub(crate) struct Streams<F> {
    /// Streams by place; a place that is not in `open` has none.
    places: Vec<Stream<F>>,
    open: Slots,
    /// Streams that were reset while their operation was in flight.
    reset: Slots,
    /// Streams whose next bytes need no window: a head, or the end alone.
    heads: Slots,
    /// Streams whose next bytes are of a body, and that have window for them.
    bodies: Slots,
    /// Streams whose operation waits for a ticket.
    wanting: Slots,
    /// Streams with a deadline.
    waiting: Slots,
    schedule: Schedule,
    /// Place of the stream that has each ticket.
    tickets: [Option<Slot>; DISK_OPS_MAX],
    /// The earliest deadline of a stream.
    deadline: Tick,
    streams_max: u8,
}

impl<F> Streams<F> {
    /// An empty table for at most this many streams, and never more than [`Slot::COUNT`].
    pub(crate) fn new(streams_max: u8) -> Self {
        Self {
            places: Vec::new(),
            open: Slots::default(),
            reset: Slots::default(),
            heads: Slots::default(),
            bodies: Slots::default(),
            wanting: Slots::default(),
            waiting: Slots::default(),
            schedule: Schedule::default(),
            tickets: [None; DISK_OPS_MAX],
            deadline: Tick::NEVER,
            streams_max: streams_max.min(Slot::COUNT),
        }
    }

    /// Opens a stream, to which the client lets us send `window` bytes of body. `None`: there are
    /// as many as allowed. Those that were reset count while their operation is in flight.
    pub(crate) fn open(&mut self, id: u64, priority: Priority, window: i64) -> Option<Slot> {
        if self.open.len() >= u32::from(self.streams_max) {
            return None;
        }
        let at = self.open.first_vacant()?;
        let stream = Stream::new(id, window);
        match self.places.get_mut(at.index()) {
            Some(place) => *place = stream,
            None => self.places.push(stream),
        }
        self.open.set(at, true);
        self.schedule.enter(at, priority);
        Some(at)
    }

    /// Place of the stream with this number; `None` if it is closed, reset, or was never opened.
    pub(crate) fn find(&self, id: u64) -> Option<Slot> {
        self.open.without(self.reset).places().find(|at| self.get(*at).id == id)
    }

    /// The stream at this place, which has one.
    pub(crate) fn get(&self, at: Slot) -> &Stream<F> {
        debug_assert!(self.open.contains(at), "a place without a stream");
        &self.places[at.index()]
    }

    /// The stream at this place, which has one.
    pub(crate) fn get_mut(&mut self, at: Slot) -> &mut Stream<F> {
        debug_assert!(self.open.contains(at), "a place without a stream");
        &mut self.places[at.index()]
    }

    /// Places of all streams, also of those that were reset.
    pub(crate) const fn all(&self) -> Slots {
        self.open
    }

    /// True if the stream was reset, and stays only until its operation is done.
    pub(crate) const fn is_reset(&self, at: Slot) -> bool {
        self.reset.contains(at)
    }

    /// Closes a stream.
    ///
    /// # Panics
    /// If an operation of it is in flight: [`Self::reset`] the stream, or [`Self::give_up`] first.
    pub(crate) fn close(&mut self, at: Slot) -> Stream<F> {
        let stage = self.get(at).stage;
        assert!(!matches!(stage, Stage::AtDisk(_)), "an operation in flight keeps its stream");
        self.enter(at, Stage::Decides, Tick::NEVER);
        self.schedule.leave(at);
        let stream = mem::replace(self.get_mut(at), Stream::new(0, 0));
        self.reset.set(at, false);
        self.open.set(at, false);
        self.places.truncate(self.open.span());
        if self.open.is_empty() {
            self.places.shrink_to(KEPT_PLACES);
        }
        stream
    }

    /// Closes a stream that was reset. If an operation of it is in flight, the stream stays until
    /// [`Self::disk_done`] or [`Self::give_up`], and its number is not found any more.
    pub(crate) fn reset(&mut self, at: Slot) -> Option<Stream<F>> {
        if let Stage::AtDisk(_) = self.get(at).stage {
            self.reset.set(at, true);
            return None;
        }
        Some(self.close(at))
    }

    /// Changes the priority of a response.
    pub(crate) fn set_priority(&mut self, at: Slot, priority: Priority) {
        self.schedule.leave(at);
        self.schedule.enter(at, priority);
    }
}

// Waits.
impl<F> Streams<F> {
    /// The exchange of a stream has an operation that waits for a ticket.
    pub(crate) fn want(&mut self, at: Slot) {
        let has_op = self.get(at).ongoing.as_ref().is_some_and(|ongoing| ongoing.op.is_some());
        debug_assert!(has_op, "an exchange asks for an operation");
        self.enter(at, Stage::Wants, Tick::NEVER);
    }

    /// The exchange of a stream tries again at this time.
    pub(crate) fn hold(&mut self, at: Slot, until: Tick) {
        self.enter(at, Stage::Held, until);
    }

    /// The next operation of the disk, if one is wanted and a ticket is free: that of the most
    /// urgent stream. It must be done at `until`.
    pub(crate) fn disk_op(&mut self, until: Tick) -> Option<Op<F>> {
        let free = self.tickets.iter().position(Option::is_none)?;
        let at = self.schedule.most_urgent(self.wanting, |at| self.get(at).id)?;
        let ticket = Ticket(u16::try_from(free).ok()?);
        self.tickets[free] = Some(at);
        self.enter(at, Stage::AtDisk(ticket), until);
        let op = self.get_mut(at).ongoing.as_mut().and_then(|ongoing| ongoing.op.take());
        match op {
            Some(Op::Open(_, req)) => Some(Op::Open(ticket, req)),
            Some(Op::Read(_, req)) => Some(Op::Read(ticket, req)),
            Some(Op::Stat(_, file)) => Some(Op::Stat(ticket, file)),
            _ => unreachable!("it is set before a ticket is wanted"),
        }
    }

    /// The operation with this ticket is done, and the ticket is free.
    ///
    /// # Panics
    /// If no such operation is in flight: only a driver that breaks rule 3 of the seam does that.
    pub(crate) fn disk_done(&mut self, ticket: Ticket) -> Waiter<F> {
        let held = self.tickets.get_mut(usize::from(ticket.0)).and_then(Option::take);
        let at = held.expect("an operation is completed once, with its ticket");
        self.enter(at, Stage::Decides, Tick::NEVER);
        if self.is_reset(at) { Waiter::Reset(self.close(at)) } else { Waiter::Open(at) }
    }

    /// Gives up the operation that a stream has in flight, if any, and returns its ticket: the
    /// driver will not complete it. A stream that was reset can be closed then.
    pub(crate) fn give_up(&mut self, at: Slot) -> Option<Ticket> {
        let Stage::AtDisk(ticket) = self.get(at).stage else { return None };
        self.tickets[usize::from(ticket.0)] = None;
        self.enter(at, Stage::Decides, Tick::NEVER);
        Some(ticket)
    }

    /// The earliest time at which a stream has waited long enough; [`Tick::NEVER`] if none waits.
    pub(crate) const fn deadline(&self) -> Tick {
        self.deadline
    }

    /// A stream that has waited long enough, if there is one.
    pub(crate) fn overdue(&self, now: Tick) -> Option<Overdue> {
        if now < self.deadline || self.deadline == Tick::NEVER {
            return None;
        }
        let at = self.waiting.places().find(|at| self.get(*at).until <= now)?;
        let is_held = self.get(at).stage == Stage::Held;
        Some(if is_held { Overdue::Retry(at) } else { Overdue::Disk(at) })
    }

    /// Moves all deadlines by this much.
    pub(crate) fn held_up(&mut self, ms: u64) {
        for at in self.waiting.places() {
            let stream = self.get_mut(at);
            stream.until = stream.until.after(ms);
        }
        self.deadline = self.earliest();
    }

    fn earliest(&self) -> Tick {
        self.waiting.places().map(|at| self.get(at).until).min().unwrap_or(Tick::NEVER)
    }
}

// Bytes.
impl<F> Streams<F> {
    /// Sends a response, which begins with `head_bytes` of head.
    pub(crate) fn send(&mut self, at: Slot, out: Outbox<F>, head_bytes: u64) {
        debug_assert!(head_bytes <= out.len(), "the head is in the outbox");
        let stream = self.get_mut(at);
        stream.body_bytes = out.len() - head_bytes;
        (stream.out, stream.head_bytes) = (out, head_bytes);
        self.enter(at, Stage::Sends, Tick::NEVER);
    }

    /// The stream that sends next, by priority, and among those with the right to send now.
    /// `window`: bytes of bodies that the client permits for the connection.
    pub(crate) fn next_sender(&mut self, window: u64) -> Option<Slot> {
        let ready = if window > 0 { self.heads.or(self.bodies) } else { self.heads };
        let places = &self.places;
        self.schedule.next(ready, |at| places[at.index()].id)
    }

    /// True if a stream may send ([`Self::next_sender`]).
    pub(crate) const fn has_sender(&self, window: u64) -> bool {
        !self.heads.is_empty() || window > 0 && !self.bodies.is_empty()
    }

    /// The next `bytes` of a response have been put into frames; returns how many are of its body.
    ///
    /// # Panics
    /// If they are more than the response has.
    pub(crate) fn frame(&mut self, at: Slot, bytes: u64) -> u64 {
        let stream = self.get_mut(at);
        let head = bytes.min(stream.head_bytes);
        let body = bytes - head;
        stream.head_bytes -= head;
        stream.window -= i64::try_from(body).unwrap_or(i64::MAX);
        stream.framed += bytes;
        stream.out.advance(bytes);
        self.update(at);
        body
    }

    /// The client permits `bytes` more of a body.
    ///
    /// # Errors
    /// The window would be more than `window_max`.
    pub(crate) fn widen(
        &mut self,
        at: Slot,
        bytes: i64,
        window_max: i64,
    ) -> Result<(), WindowOverflow> {
        let stream = self.get_mut(at);
        let window = stream.window.saturating_add(bytes);
        if window > window_max {
            return Err(WindowOverflow);
        }
        stream.window = window;
        self.update(at);
        Ok(())
    }

    /// The client has changed the window with which streams begin by `bytes`, perhaps less than 0:
    /// those of open streams change as much.
    ///
    /// # Errors
    /// A window would be more than `window_max`.
    pub(crate) fn widen_all(&mut self, bytes: i64, window_max: i64) -> Result<(), WindowOverflow> {
        self.open.places().try_for_each(|at| self.widen(at, bytes, window_max))
    }

    /// The number of streams that have bytes of a body left, but no window for them.
    pub(crate) fn stalled(&self) -> usize {
        self.open.places().filter(|at| self.get(*at).is_stalled()).count()
    }
}

// Helpers.
impl<F> Streams<F> {
    /// Brings a stream to this stage, which ends at `until` at the latest.
    fn enter(&mut self, at: Slot, stage: Stage, until: Tick) {
        let stream = self.get_mut(at);
        stream.stage = stage;
        let before = mem::replace(&mut stream.until, until);
        self.wanting.set(at, stage == Stage::Wants);
        self.waiting.set(at, until != Tick::NEVER);
        self.update(at);
        if until <= self.deadline {
            self.deadline = until;
        } else if before == self.deadline {
            self.deadline = self.earliest();
        }
    }

    /// Decides whether a stream may send, after its stage, its bytes or its window have changed.
    fn update(&mut self, at: Slot) {
        let stream = self.get(at);
        let sends = stream.stage == Stage::Sends;
        let needs_none = stream.head_bytes > 0 || stream.out.is_empty();
        let has_window = stream.window > 0;
        self.heads.set(at, sends && needs_none);
        self.bodies.set(at, sends && !needs_none && has_window);
    }

    /// Checks what must hold between calls; for tests.
    #[cfg(test)]
    fn check_invariants(&self) {
        assert!(self.open.len() <= u32::from(self.streams_max));
        assert_eq!(self.places.len(), self.open.span());
        let mut tickets = [None; DISK_OPS_MAX];
        for at in self.open.places() {
            let stream = self.get(at);
            if let Stage::AtDisk(ticket) = stream.stage {
                let held = &mut tickets[usize::from(ticket.0)];
                assert!(held.replace(at).is_none(), "one stream has a ticket");
            }
            let may_send = self.heads.or(self.bodies).contains(at);
            let can_send = stream.out.is_empty() || stream.sendable(u64::MAX) > 0;
            assert_eq!(may_send, stream.stage == Stage::Sends && can_send, "{stream:?}");
            assert_eq!(self.wanting.contains(at), stream.stage == Stage::Wants);
            assert_eq!(self.waiting.contains(at), stream.until != Tick::NEVER);
            let waits = matches!(stream.stage, Stage::AtDisk(_) | Stage::Held);
            assert!(waits || stream.until == Tick::NEVER, "only a wait has a deadline");
        }
        assert_eq!(tickets, self.tickets);
        assert_eq!(self.deadline, self.earliest());
        let sets = [self.reset, self.heads, self.bodies, self.wanting, self.waiting];
        assert!(sets.iter().all(|set| set.without(self.open).is_empty()));
        assert!(self.heads.and(self.bodies).is_empty());
        let at_disk = |at| matches!(self.get(at).stage, Stage::AtDisk(_));
        assert!(self.reset.places().all(at_disk), "what was reset stays for its operation alone");
    }
}

impl<F> fmt::Debug for Streams<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams")
            .field("open", &self.open.len())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
