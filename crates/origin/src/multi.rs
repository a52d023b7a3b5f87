//! Requests that a connection answers at the same time: one stream for each.
//!
//! The table knows streams, exchanges, windows and priorities, but no frames: any protocol with
//! streams can use it. Three orders are in it:
//!
//! * Streams send by the priorities that the client has given them ([`Streams::next_sender`]).
//! * Exchanges get one of the connection's few tickets for the disk, the most urgent one first
//!   ([`Streams::disk_op`]). Reads of bodies alternate with them ([`Streams::prefers_load`]).
//! * Waits end at their deadlines. The table keeps the earliest one ([`Streams::deadline`]).
//!
//! Frames are memory. A range of a file at the front of a response is first read into a buffer of
//! its stream (`load.rs`), under one of the same tickets. Where files are scarce, those of streams
//! that wait are closed meanwhile (`file.rs`).
mod file;
mod invariants;
mod load;
mod schedule;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use self::load::LOAD_BYTES_MAX;
pub(crate) use self::{
    file::Reopening,
    schedule::{Slot, Slots},
};

use self::{file::BodyFile, schedule::Schedule};
use crate::ongoing::Ongoing;
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{fmt, mem};
use regatta_http::{h2::ContentTally, priority::Priority};
use regatta_op::{DISK_OPS_MAX, Op, Outbox, Segment, Tick, Ticket};

/// Places that a table without streams keeps: a client that sends one request after another causes
/// no allocation.
const KEPT_PLACES: usize = 2;

/// A request and its response, of several on a connection.
pub(crate) struct Stream<F> {
    /// Number of the stream: a client's later requests have higher ones.
    pub(crate) id: u64,
    /// The exchange, if it waits or will be logged.
    pub(crate) ongoing: Option<Box<Ongoing<F>>>,
    /// Rest of the response: the head, as the protocol sends it, and the body. A range of `file`
    /// stays in it until its bytes are in frames.
    out: Outbox<()>,
    /// The file of the ranges in `out`.
    file: BodyFile<F>,
    /// Bytes of the head in `out`, which no window limits.
    head_bytes: u32,
    /// Bytes of the body that the client permits; below 0 if it has lowered its limit since.
    window: i64,
    /// Bytes of the response that are in frames.
    framed: u64,
    /// Framed bytes in the last `Send`, while the kernel has not taken all of it.
    in_flight: u32,
    /// Bytes of the request's content that have arrived.
    pub(crate) received: u32,
    /// Comparison of the content with its announced length.
    pub(crate) content: ContentTally,
    /// Length of the response's body, bytes.
    pub(crate) body_bytes: u64,
    /// Time until which it waits.
    until: Tick,
    /// Bytes that were read from the range of a file at the front of `out`; the connection's window
    /// has been charged for them.
    loaded: Vec<u8>,
    /// Bytes of `loaded` that are in frames.
    loaded_at: u32,
    pub(crate) status: u16,
    stage: Stage,
    /// Number of times that the file could not be opened again.
    reopen_tries: u8,
    /// True if the request has ended.
    pub(crate) is_ended: bool,
    /// True if no more of the request's content is wanted: it is too long, or is withheld.
    pub(crate) is_enough: bool,
    /// True if its exchange counts among those of the worker that wait.
    pub(crate) is_counted: bool,
}

// Memory of an open stream, without its exchange. In the server, an open file is a pointer.
const _: () = assert!(size_of::<Stream<Arc<u64>>>() <= 192);

/// Progress of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Neither waits nor sends: the protocol decides what is next.
    Decides,
    /// The operation of its exchange waits for a ticket.
    Wants,
    /// An operation of its exchange is in flight, with the ticket of this number.
    AtDisk(u8),
    /// A read of its body is in flight, with the ticket of this number.
    Loads(u8),
    /// An open of its body's file is in flight, with the ticket of this number.
    Reopens(u8),
    /// The file of its body could not be opened; it tries again later.
    Retries,
    /// The exchange tries again later.
    Held,
    /// The response is being sent.
    Sends,
    /// The response is complete, and the request is not.
    Lingers,
}

impl Stage {
    /// The ticket of the operation in flight.
    fn ticket(self) -> Option<Ticket> {
        match self {
            Self::AtDisk(number) | Self::Loads(number) | Self::Reopens(number) => {
                Some(Ticket(number.into()))
            }
            _ => None,
        }
    }
}

/// The stream that an operation of the disk was for.
#[derive(Debug)]
pub(crate) enum Waiter<F> {
    /// The stream at this place: its exchange resumes.
    Open(Slot),
    /// The stream at this place: this many bytes of its body were to be read.
    Body(Slot, u64),
    /// The stream at this place: the file of its body was to be opened again.
    File(Slot),
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
    /// The file of its body is tried again now.
    Reopen(Slot),
    /// The response has been complete for a while, and the request has not ended.
    Request(Slot),
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
            file: BodyFile::NONE,
            head_bytes: 0,
            window,
            framed: 0,
            in_flight: 0,
            received: 0,
            content: ContentTally::new(None),
            body_bytes: 0,
            until: Tick::NEVER,
            loaded: Vec::new(),
            loaded_at: 0,
            status: 0,
            stage: Stage::Decides,
            reopen_tries: 0,
            is_ended: false,
            is_enough: false,
            is_counted: false,
        }
    }

    /// The rest of the response.
    pub(crate) const fn out(&self) -> &Outbox<()> {
        &self.out
    }

    /// Bytes of the rest of the head.
    pub(crate) const fn head_bytes(&self) -> u64 {
        self.head_bytes as u64
    }

    /// Bytes of the rest of the response.
    pub(crate) fn rest(&self) -> u64 {
        self.out.len()
    }

    /// Bytes of the response that are in frames.
    pub(crate) const fn framed(&self) -> u64 {
        self.framed
    }

    /// Bytes of the response that the kernel has taken, at least.
    pub(crate) const fn taken(&self) -> u64 {
        self.framed - self.in_flight as u64
    }

    /// Bytes of the response that may be put into frames now. `window`: that of the connection, for
    /// bytes that it has not been charged for.
    pub(crate) fn sendable(&self, window: u64) -> u64 {
        let memory = self.out.slices().map(|slice| slice.len() as u64).sum::<u64>();
        let loaded = self.loaded_bytes();
        let body = loaded + (memory - self.head_bytes()).min(window);
        self.head_bytes() + body.min(u64::try_from(self.window).unwrap_or(0))
    }

    /// Appends the next `bytes` of the response, which are in memory, to a buffer.
    pub(crate) fn copy_to(&self, buffer: &mut Vec<u8>, bytes: u64) {
        let mut rest = usize::try_from(bytes).unwrap_or(usize::MAX);
        let loaded = &self.loaded[self.loaded_at as usize..];
        for slice in [loaded].into_iter().chain(self.out.slices()) {
            let part = rest.min(slice.len());
            buffer.extend_from_slice(&slice[..part]);
            rest -= part;
        }
        debug_assert_eq!(rest, 0, "no more is copied than is in memory");
    }

    /// True while the response has not been put into frames altogether, or is not begun.
    pub(crate) fn owes_response(&self) -> bool {
        self.stage != Stage::Lingers
    }

    /// Takes the buffer of bytes that were read from a file.
    pub(crate) fn take_loaded(&mut self) -> Vec<u8> {
        self.loaded_at = 0;
        mem::take(&mut self.loaded)
    }

    /// Takes the buffer of bytes that were read from a file, if all of them are in frames.
    pub(crate) fn take_used(&mut self) -> Option<Vec<u8>> {
        let is_used = self.loaded_bytes() == 0 && self.loaded.capacity() > 0;
        is_used.then(|| self.take_loaded())
    }

    /// Takes the buffer of the response's head, if all of it is in frames.
    pub(crate) fn take_used_head(&mut self) -> Option<Vec<u8>> {
        self.out.take_used_head()
    }

    /// Takes the buffer of the response's head, and drops the rest of the response.
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        (self.head_bytes, self.file) = (0, BodyFile::NONE);
        mem::take(&mut self.out).into_buffer()
    }

    const fn loaded_bytes(&self) -> u64 {
        (self.loaded.len() - self.loaded_at as usize) as u64
    }

    /// Bytes of the file range at the front of the response; 0: the next bytes are in memory.
    fn file_bytes(&self) -> u64 {
        if self.loaded_bytes() > 0 || !self.out.head().is_empty() {
            return 0;
        }
        match self.out.segments().next() {
            Some(Segment::File { len, .. }) => *len,
            _ => 0,
        }
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
    /// Streams whose response is being sent.
    sending: Slots,
    /// Streams with frames in flight.
    flying: Slots,
    /// Sending streams whose next bytes need no window: a head, bytes that were read from a file,
    /// or the end alone.
    heads: Slots,
    /// Sending streams whose next bytes are of a body, and that have window for them.
    bodies: Slots,
    /// Sending streams whose next bytes are in a file, and that have window for them.
    files: Slots,
    /// Streams whose operation waits for a ticket.
    wanting: Slots,
    /// Streams with a deadline.
    waiting: Slots,
    /// Streams with an open file.
    holding: Slots,
    /// Streams with an open file that can be closed while they wait.
    closable: Slots,
    /// Streams whose file is being opened again, or will be.
    reopening: Slots,
    /// The stream whose file was used last.
    recent: Option<Slot>,
    /// True if that file has been opened again, and not been read since.
    is_fresh: bool,
    schedule: Schedule,
    /// Place of the stream that has each ticket.
    tickets: [Option<Slot>; DISK_OPS_MAX],
    /// Number of the operation with each ticket, in the order in which they began.
    begun: [u64; DISK_OPS_MAX],
    /// Operations that have begun.
    operations: u64,
    /// Bytes that are read with each ticket, if it is for a body.
    loads: [u32; DISK_OPS_MAX],
    /// Bytes of bodies that are being read, or are in no frame: the connection's window is
    /// charged for them.
    unsent: u64,
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
            sending: Slots::default(),
            flying: Slots::default(),
            heads: Slots::default(),
            bodies: Slots::default(),
            files: Slots::default(),
            wanting: Slots::default(),
            waiting: Slots::default(),
            holding: Slots::default(),
            closable: Slots::default(),
            reopening: Slots::default(),
            recent: None,
            is_fresh: false,
            schedule: Schedule::default(),
            tickets: [None; DISK_OPS_MAX],
            begun: [0; DISK_OPS_MAX],
            operations: 0,
            loads: [0; DISK_OPS_MAX],
            unsent: 0,
            deadline: Tick::NEVER,
            streams_max: streams_max.min(Slot::COUNT),
        }
    }

    /// True if a stream can be opened.
    pub(crate) fn has_room(&self) -> bool {
        self.open.len() < u32::from(self.streams_max)
    }

    /// Opens a stream, to which the client lets us send `window` bytes of body. `None`: there are
    /// as many as allowed. Those that were reset count while their operation is in flight.
    pub(crate) fn open(&mut self, id: u64, priority: Priority, window: i64) -> Option<Slot> {
        if !self.has_room() {
            return None;
        }
        let at = self.open.first_vacant()?;
        let stream = Stream::new(id, window);
        match self.places.get_mut(at.index()) {
            Some(place) => *place = stream,
            None => {
                self.grow();
                self.places.push(stream);
            }
        }
        self.open.set(at, true);
        self.schedule.enter(at, priority);
        Some(at)
    }

    /// Place of the stream with this number; `None` if it is closed, reset, or was never opened.
    pub(crate) fn find(&self, id: u64) -> Option<Slot> {
        self.in_use().places().find(|at| self.get(*at).id == id)
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

    /// Places of the streams that are open.
    pub(crate) const fn in_use(&self) -> Slots {
        self.open.without(self.reset)
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
        assert!(stage.ticket().is_none(), "an operation in flight keeps its stream");
        self.enter(at, Stage::Decides, Tick::NEVER);
        self.unsent -= self.get(at).loaded_bytes();
        self.schedule.leave(at);
        let stream = mem::replace(self.get_mut(at), Stream::new(0, 0));
        for slots in [&mut self.reset, &mut self.open, &mut self.holding, &mut self.closable] {
            slots.set(at, false);
        }
        self.recent = self.recent.filter(|recent| *recent != at);
        self.places.truncate(self.open.span());
        if self.open.is_empty() {
            self.places.shrink_to(KEPT_PLACES);
        }
        stream
    }

    /// Closes a stream that was reset. If an operation of it is in flight, the stream stays until
    /// [`Self::disk_done`] or [`Self::give_up`], and its number is not found any more.
    pub(crate) fn reset(&mut self, at: Slot) -> Option<Stream<F>> {
        if self.get(at).stage.ticket().is_some() {
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
        let free = self.free_ticket()?;
        let places = &self.places;
        let at = self.schedule.next_wanted(self.wanting, |at| places[at.index()].id)?;
        let ticket = self.assign(free, at);
        self.enter(at, Stage::AtDisk(free), until);
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
        let stage = self.get(at).stage;
        self.unsent -= u64::from(self.loads[usize::from(ticket.0)]);
        let bytes = mem::take(&mut self.loads[usize::from(ticket.0)]);
        self.enter(at, Stage::Decides, Tick::NEVER);
        match stage {
            _ if self.is_reset(at) => Waiter::Reset(self.close(at)),
            Stage::Loads(_) => Waiter::Body(at, bytes.into()),
            Stage::Reopens(_) => Waiter::File(at),
            _ => Waiter::Open(at),
        }
    }

    /// Gives up the operation that a stream has in flight, if any, and returns its ticket: the
    /// driver will not complete it. A stream that was reset can be closed then.
    pub(crate) fn give_up(&mut self, at: Slot) -> Option<Ticket> {
        let ticket = self.get(at).stage.ticket()?;
        self.tickets[usize::from(ticket.0)] = None;
        self.unsent -= u64::from(mem::take(&mut self.loads[usize::from(ticket.0)]));
        self.enter(at, Stage::Decides, Tick::NEVER);
        Some(ticket)
    }

    /// The operation that has been in flight longest: its ticket, and the stream that it is for.
    pub(crate) fn oldest(&self) -> Option<(Ticket, Slot)> {
        let tickets = (0..).map(Ticket).zip(self.tickets).zip(self.begun);
        let held = tickets.filter_map(|((ticket, at), begun)| Some((begun, ticket, at?)));
        held.min_by_key(|(begun, ..)| *begun).map(|(_, ticket, at)| (ticket, at))
    }

    /// The ticket of the operation that the stream has in flight.
    pub(crate) fn ticket(&self, at: Slot) -> Option<Ticket> {
        self.get(at).stage.ticket()
    }

    /// True if the stream has a read of its body in flight, or an open of the body's file.
    pub(crate) fn loads(&self, at: Slot) -> bool {
        matches!(self.get(at).stage, Stage::Loads(_) | Stage::Reopens(_))
    }

    /// True if an operation is in flight, or waits for a ticket.
    pub(crate) fn awaits_disk(&self) -> bool {
        !self.wanting.is_empty() || self.tickets.iter().any(Option::is_some)
    }

    /// True if a part of a body is being read, or is to be read when the disk has done what it
    /// does. `window`: bytes of bodies that the client permits for the connection.
    pub(crate) fn body_awaits_disk(&self, window: u64) -> bool {
        let is_busy = self.tickets.iter().any(Option::is_some);
        let is_next = window > 0 && !self.files.is_empty();
        let is_read = self.reopens() || self.loads.iter().any(|bytes| *bytes > 0);
        is_busy && (is_next || is_read)
    }

    /// The response is complete: the request has until then to end.
    pub(crate) fn linger(&mut self, at: Slot, until: Tick) {
        self.enter(at, Stage::Lingers, until);
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
        Some(match self.get(at).stage {
            Stage::Held => Overdue::Retry(at),
            Stage::Retries => Overdue::Reopen(at),
            Stage::Lingers => Overdue::Request(at),
            _ => Overdue::Disk(at),
        })
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
        stream.head_bytes = u32::try_from(head_bytes).expect("heads are short");
        let (ranges, file) = out.split_file();
        stream.out = ranges;
        stream.file = BodyFile::new(file);
        self.enter(at, Stage::Sends, Tick::NEVER);
    }

    /// The stream that sends next, by priority, and among those with the right to send now. It is
    /// the next one until it has sent ([`Self::frame`]). `window`: bytes of bodies that the client
    /// permits for the connection.
    pub(crate) fn next_sender(&self, window: u64) -> Option<Slot> {
        let ready = if window > 0 { self.heads.or(self.bodies) } else { self.heads };
        self.schedule.next(ready, |at| self.get(at).id)
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
        let head = bytes.min(stream.head_bytes());
        let body = bytes - head;
        let loaded = body.min(stream.loaded_bytes());
        stream.head_bytes -= u32::try_from(head).expect("no more than the head");
        stream.loaded_at += u32::try_from(loaded).expect("a read is short");
        stream.window -= i64::try_from(body).unwrap_or(i64::MAX);
        stream.framed += bytes;
        stream.in_flight += u32::try_from(bytes).expect("few bytes are sent at once");
        stream.out.advance(bytes);
        self.unsent -= loaded;
        self.drop_used_file(at);
        self.flying.set(at, true);
        self.schedule.has_sent(at);
        self.update(at);
        body
    }

    /// The kernel has taken all frames.
    pub(crate) fn land(&mut self) {
        for at in mem::take(&mut self.flying).and(self.open).places() {
            self.get_mut(at).in_flight = 0;
        }
    }

    /// Bytes of bodies that are being read, or were read and are in no frame.
    pub(crate) const fn unsent(&self) -> u64 {
        self.unsent
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

    /// True if a body is longer than its window, and the window has fewer than `bytes`.
    pub(crate) fn is_short(&self, at: Slot, bytes: i64) -> bool {
        let stream = self.get(at);
        let reads = self.loads(at) || stream.stage == Stage::Retries;
        let body = i64::try_from(stream.rest() - stream.head_bytes()).unwrap_or(i64::MAX);
        (reads || stream.stage == Stage::Sends) && stream.window < bytes.min(body)
    }

    /// The number of streams whose body is longer than its window, where that has fewer than
    /// `bytes`, and not none.
    pub(crate) fn short_windows(&self, bytes: i64) -> u32 {
        self.in_use().filter(|at| self.get(at).window > 0 && self.is_short(at, bytes)).len()
    }

    /// True if a body has a window of its own, and needs that of the connection.
    pub(crate) const fn share_window(&self) -> bool {
        !self.bodies.or(self.files).is_empty()
    }

    /// True while bytes of a response are left to send, or are being read, or their file is opened.
    pub(crate) const fn is_sending(&self) -> bool {
        !self.sending.is_empty() || self.unsent > 0 || !self.reopening.is_empty()
    }

    /// True if bodies are to be sent, and the client permits nothing of any of them. `window`: that
    /// of the connection.
    pub(crate) const fn is_stalled(&self, window: u64) -> bool {
        let can_move = self.bodies.or(self.files);
        !self.sending.is_empty() && self.heads.is_empty() && (can_move.is_empty() || window == 0)
    }

    /// True if no stream waits for something else before its response, or behind it.
    pub(crate) const fn are_all_sending(&self) -> bool {
        self.in_use().without(self.sending).is_empty()
    }

    /// True if a body is to be sent, and the client permits nothing of it. `window`: that of the
    /// connection.
    pub(crate) const fn has_stalled(&self, window: u64) -> bool {
        let can_move = self.bodies.or(self.files);
        let can_move = if window > 0 { self.heads.or(can_move) } else { self.heads };
        !self.sending.without(can_move).is_empty()
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

    /// Makes room for another place: for twice as many as there are, and never for more than may be
    /// open.
    fn grow(&mut self) {
        let len = self.places.len();
        if len == self.places.capacity() {
            let most = usize::from(self.streams_max).saturating_sub(len);
            self.places.reserve_exact(len.max(KEPT_PLACES).min(most));
        }
    }

    /// Number of a ticket that no stream has.
    fn free_ticket(&self) -> Option<u8> {
        (0..).zip(&self.tickets).find_map(|(number, at)| at.is_none().then_some(number))
    }

    /// Gives the ticket of this number to a stream.
    fn assign(&mut self, free: u8, at: Slot) -> Ticket {
        self.tickets[usize::from(free)] = Some(at);
        self.begun[usize::from(free)] = self.operations;
        self.operations += 1;
        Ticket(free.into())
    }

    /// Decides whether a stream may send, after its stage, its bytes or its window have changed.
    fn update(&mut self, at: Slot) {
        self.unload(at);
        let stream = self.get(at);
        let sends = stream.stage == Stage::Sends;
        let (has_window, at_file) = (stream.window > 0, stream.file_bytes() > 0);
        let is_loaded = stream.loaded_bytes() > 0;
        let is_free = match stream.head_bytes {
            0 if is_loaded => has_window,
            0 => stream.out.is_empty(),
            _ => true,
        };
        let moves = sends && !is_free && has_window;
        let (holds, can_close) = (stream.file.open().is_some(), stream.file.can_close());
        let reopens = matches!(stream.stage, Stage::Reopens(_) | Stage::Retries);
        self.holding.set(at, holds);
        self.closable.set(at, can_close);
        self.reopening.set(at, reopens);
        self.sending.set(at, sends);
        self.heads.set(at, sends && is_free);
        self.bodies.set(at, moves && !at_file);
        self.files.set(at, moves && at_file);
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
