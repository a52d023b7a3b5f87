//! State machine of an HTTP/2 connection, from its preface to its close, without any I/O.
mod compose;
mod exchange;
mod life;
mod outcome;
mod receive;
mod request;
#[cfg(test)]
mod tests;

use crate::{
    Cx, Peer, Protocol, Refusal, Reply, Step, Supply,
    body_files::HeldFiles,
    h2::budget::{Budget, Glitch},
    multi::{Slot, Streams},
    ongoing::Ongoing,
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{mem, sync::atomic::AtomicU32};
use regatta_http::h2::{
    PeerSettings, SettingId,
    frame::{ErrorCode, WINDOW_BYTES_DEFAULT, WINDOW_BYTES_MAX, write_goaway},
    hpack::{HpackDecoder, TABLE_BYTES_DEFAULT},
    write_settings,
};
use regatta_metrics::Counter;
use regatta_op::{Abandoned, CloseReason, Done, File, Now, Op, Outbox, Tick};

/// The most bytes of one `Send`.
const SEND_BYTES_MAX: usize = 64 << 10;
/// The most bytes of control frames that wait to be sent. With more, no frame is read until the
/// client has taken some.
const CONTROL_BYTES_MAX: usize = 16 << 10;
/// The most streams that one event opens before something is sent, if there is anything to send.
const NEW_STREAMS_MAX: u32 = 32;
/// The most streams that are remembered because the server has reset them before the client ended
/// them.
const LATE_STREAMS_MAX: usize = 128;
/// Places for finished replies that a connection keeps.
const KEPT_ENDS: usize = 2;

/// HTTP/2 connection, driven as any [`Protocol`]: a `Recv`, a `Send` and operations of the disk are
/// in flight at the same time.
///
/// An idle connection has no buffers; its table of fields grows with use. The connection counts
/// requests, replies, streams, bytes sent, opens, reads, and its close reason.
///
/// The code is in several files. This one has the state machine:
///
/// * `outcome.rs`: outcomes of operations, and those of the disk;
/// * `receive.rs`: frames from the client;
/// * `request.rs`: field blocks and contents of requests;
/// * `exchange.rs`: streams from request to reply;
/// * `compose.rs`: frames to the client;
/// * `life.rs`: deadlines and the end.
#[derive(Debug)]
pub struct Session<F> {
    peer: Peer,
    streams: Streams<F>,
    decoder: HpackDecoder,
    settings: PeerSettings,
    /// Bytes of bodies that the client permits for the connection, less those in frames.
    window: u64,
    /// Bytes of content that have been discarded, and not been permitted again.
    credit: u32,
    /// Received bytes that have not been read.
    inbox: Vec<u8>,
    /// The field block that is not complete.
    block: Option<Box<FieldBlock>>,
    /// Frames that are sent next, before those of streams.
    control: Vec<u8>,
    /// Frames of the next `Send`, unless it is in flight.
    out: Outbox<F>,
    /// Replies whose last frame is in `out`, or in flight.
    ends: Vec<FinishedReply<F>>,
    /// Streams that the server has reset before the client ended them: more may arrive for them.
    late: Vec<u32>,
    /// Buffer for the next part of a body in a file, if that can be read.
    spare: Option<Vec<u8>>,
    budget: Budget,
    /// Number of the worker's streams that wait for the disk.
    exchanges: Arc<AtomicU32>,
    /// Open files of bodies, which the worker counts.
    files: HeldFiles,
    timers: [Tick; TIMERS],
    phase: Phase,
    /// Reason of the end, once GOAWAY has been written.
    leaving: Option<CloseReason>,
    lent: Lent,
    abandoned: Option<Abandoned>,
    /// Time of the last event, and the disk's limit from then on.
    now: Tick,
    disk_ms_max: u64,
    /// Bytes handed to the kernel so far, and those that the peer had at the last check.
    sent: u64,
    delivered: u64,
    /// Bytes of bodies that have been put into frames since a window was checked, and those before
    /// them that the client may not have used yet.
    framed: u64,
    unused: u64,
    /// Frames with which the client may permit more, because of DATA that it has been sent.
    updates: u32,
    /// Bytes discarded after the last frame.
    lingered: u32,
    /// The last stream that the client has opened, and the first one of those that it has opened
    /// without a gap until then.
    last: u32,
    first: u32,
    /// The last stream that is processed.
    last_processed: u32,
    /// Streams that the event has opened.
    opened: u32,
    requests: u32,
    /// Bytes of the preface that have arrived.
    preface: u8,
    /// Windows of the connection that may let a body continue by few bytes, and cost nothing: one
    /// for each frame of DATA whose length no window decided.
    free_trickles: u8,
    flags: Flags,
}

/// Facts about a connection that are true or false.
#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    /// The client's first SETTINGS have arrived.
    has_settings: bool,
    /// The client has acknowledged ours.
    is_acknowledged: bool,
    /// The first field block has been sent.
    has_sent_block: bool,
    /// The inbox has a whole frame, which waits.
    has_backlog: bool,
    /// Received bytes are discarded.
    discards: bool,
    /// The peer sends no more.
    has_ended: bool,
    is_draining: bool,
    /// New requests are turned away until all received bytes have been read.
    turns_away: bool,
    /// The client has too many connections.
    is_limited: bool,
    /// DATA of many bytes has been sent since a stream's window last let its body continue by few.
    has_sent_much: bool,
}

/// Operations in flight, apart from those of the disk.
#[derive(Clone, Copy, Debug, Default)]
struct Lent {
    recv: bool,
    /// A `Send` or `Shut`.
    send: bool,
}

/// Phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Frames are exchanged.
    Serves,
    /// Our half is being closed.
    Shuts,
    /// Our half is closed; the peer must close its own.
    Lingers,
    /// `Close` is next.
    Closes(CloseReason),
    /// `Close` has been offered.
    Closed,
}

/// Deadlines of a connection, apart from those of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    /// No stream is open.
    Idle,
    /// A `Send` is due or in flight.
    Send,
    /// A body waits for a window.
    Window,
    /// A frame, or the preface, is not complete.
    Frame,
    /// A field block is not complete.
    Block,
    /// The peer may have left.
    Peer,
    /// The server is going away.
    Drain,
    /// The end.
    End,
}

const TIMERS: usize = Timer::End as usize + 1;

impl Timer {
    const ALL: [Self; TIMERS] = [
        Self::Peer,
        Self::Send,
        Self::Frame,
        Self::Block,
        Self::Window,
        Self::Drain,
        Self::Idle,
        Self::End,
    ];
}

/// Field block that is not complete.
#[derive(Debug)]
struct FieldBlock {
    stream: u32,
    ends_stream: bool,
    bytes: Vec<u8>,
    continuations: u8,
}

/// Reply that is over when the kernel has the frames.
#[derive(Debug)]
struct FinishedReply<F> {
    status: u16,
    body_bytes: u64,
    /// Bytes of head and body, and those of them that the kernel had taken before.
    sent: u64,
    taken: u64,
    /// Facts for the log, if it wants them.
    ongoing: Option<Box<Ongoing<F>>>,
}

const fn assert_send<T: Send>() {}
const _: () = assert_send::<Session<u64>>();

// Memory of an idle connection, without the table of fields and four places of streams.
const _: () = assert!(size_of::<Session<u64>>() <= 1_280);

impl<F: File> Session<F> {
    /// A connection whose peer has agreed to speak HTTP/2, or has begun to. It has
    /// [`crate::Deadlines::first_request_ms_max`] to send the first byte.
    pub(crate) fn new(peer: Peer, now: Now, cx: &Cx<'_, F>) -> Self {
        let rules = &cx.site.http2;
        let table_bytes = usize::try_from(rules.table_bytes).unwrap_or(TABLE_BYTES_DEFAULT);
        let mut timers = [Tick::NEVER; TIMERS];
        timers[Timer::Idle as usize] = now.tick.after(cx.site.deadlines.first_request_ms_max);
        let mut session = Self {
            peer,
            streams: Streams::new(rules.streams_max),
            decoder: HpackDecoder::new(table_bytes),
            settings: PeerSettings::default(),
            window: WINDOW_BYTES_DEFAULT.into(),
            credit: 0,
            inbox: Vec::new(),
            block: None,
            control: Vec::new(),
            out: Outbox::default(),
            ends: Vec::new(),
            late: Vec::new(),
            spare: None,
            budget: Budget::default(),
            exchanges: Arc::clone(&cx.scratch.exchanges),
            files: HeldFiles::new(&cx.scratch.files),
            timers,
            phase: Phase::Serves,
            leaving: None,
            lent: Lent::default(),
            abandoned: None,
            now: now.tick,
            disk_ms_max: cx.site.deadlines.disk_ms_max,
            sent: 0,
            delivered: 0,
            framed: 0,
            unused: 0,
            updates: 0,
            lingered: 0,
            last: 0,
            first: 1,
            last_processed: WINDOW_BYTES_MAX,
            opened: 0,
            requests: 0,
            preface: 0,
            free_trickles: 0,
            flags: Flags::default(),
        };
        cx.tally.add(Counter::ConnectionsHttp2, 1);
        session.write_settings(cx);
        session.settle(now, cx);
        session
    }

    /// Refuses all requests: the client has too many connections.
    pub(crate) const fn limit(&mut self) {
        self.flags.is_limited = true;
    }

    fn write_settings(&mut self, cx: &Cx<'_, F>) {
        let (limits, rules) = (&cx.site.limits, &cx.site.http2);
        let list = u32::try_from(limits.head_bytes_max).unwrap_or(u32::MAX);
        let settings = [
            (SettingId::MAX_CONCURRENT_STREAMS, rules.streams_max.min(Slot::COUNT).into()),
            (SettingId::INITIAL_WINDOW_SIZE, content_window(cx)),
            (SettingId::MAX_HEADER_LIST_SIZE, list),
            (SettingId::NO_RFC7540_PRIORITIES, 1),
            (SettingId::HEADER_TABLE_SIZE, rules.table_bytes),
        ];
        // The last one only says what is so anyway.
        let is_usual = usize::try_from(rules.table_bytes) == Ok(TABLE_BYTES_DEFAULT);
        let count = settings.len() - usize::from(is_usual);
        write_settings(&mut self.control, &settings[..count]);
    }
}

/// Window of a request's content: one byte more than is discarded shows that it is too large.
/// Nothing is permitted again.
fn content_window<F>(cx: &Cx<'_, F>) -> u32 {
    let bytes = cx.site.limits.discard_body_bytes_max.saturating_add(1);
    u32::try_from(bytes).map_or(WINDOW_BYTES_MAX, |bytes| bytes.min(WINDOW_BYTES_MAX))
}

/// Returns the buffer of an operation whose outcome does not matter.
#[cold]
fn drop_done<F: File>(done: Done<'_, F>, cx: &Cx<'_, F>) {
    match done {
        Done::Send(out, _) => cx.scratch.give_buffer(out.into_buffer()),
        Done::Read(_, buffer, _) => cx.scratch.give_read_buffer(buffer),
        Done::Recv(_) | Done::Open(..) | Done::Stat(..) | Done::Shut => {}
    }
}

impl<F: File> Protocol<F> for Session<F> {
    fn next_op(&mut self) -> Option<Op<F>> {
        self.abandoned = None;
        match self.phase {
            Phase::Closes(reason) => {
                self.phase = Phase::Closed;
                return Some(Op::Close(reason));
            }
            Phase::Closed => return None,
            Phase::Shuts if !self.lent.send => {
                self.lent.send = true;
                return Some(Op::Shut);
            }
            _ => {}
        }
        if !self.lent.send && !self.out.is_empty() {
            self.lent.send = true;
            return Some(Op::Send(mem::take(&mut self.out)));
        }
        let op = self.disk_op();
        if op.is_some() || !self.may_receive() {
            return op;
        }
        self.lent.recv = true;
        Some(Op::Recv)
    }

    fn complete(&mut self, done: Done<'_, F>, now: Now, cx: &Cx<'_, F>) {
        self.now = now.tick;
        match &done {
            Done::Recv(_) => {
                assert!(mem::take(&mut self.lent.recv), "a `Recv` is completed once");
            }
            Done::Send(..) | Done::Shut => {
                assert!(mem::take(&mut self.lent.send), "a `Send` is completed once");
            }
            Done::Open(..) | Done::Read(..) | Done::Stat(..) => {}
        }
        if let Done::Send(_, Ok(n)) = &done {
            self.sent += n;
            cx.tally.add(Counter::BytesSent, *n);
        }
        if self.is_over() {
            return drop_done(done, cx); // It was in flight when the connection ended.
        }
        match done {
            Done::Recv(Ok([])) => self.on_end_of_stream(now, cx),
            Done::Recv(Ok(bytes)) => self.on_recv(bytes, now, cx),
            Done::Send(out, Ok(n)) => self.on_sent(out, n, now, cx),
            Done::Recv(Err(fault)) => self.on_fault(fault, now, cx),
            Done::Send(out, Err(fault)) => {
                cx.scratch.give_buffer(out.into_buffer());
                self.on_fault(fault, now, cx);
            }
            Done::Open(ticket, found) => self.supply(ticket, Supply::Opened(found), now, cx),
            Done::Read(ticket, buffer, read) => self.on_read(ticket, buffer, read, now, cx),
            Done::Stat(ticket, found) => self.supply(ticket, Supply::Stat(found), now, cx),
            Done::Shut => self.on_shut(now, cx),
        }
        self.settle(now, cx);
    }

    #[inline]
    fn deadline(&self) -> Tick {
        self.timers.iter().copied().fold(self.streams_deadline(), Tick::min)
    }

    fn expire(&mut self, queued: u64, now: Now, cx: &Cx<'_, F>) {
        if now.tick >= self.deadline() && !self.is_over() {
            self.now = now.tick;
            self.on_deadline(queued, now, cx);
            self.settle(now, cx);
        }
    }

    fn wait_for_disk(&mut self, _: Now, _: &Cx<'_, F>) {
        debug_assert!(false, "frames are memory: the disk is not asked for them");
    }

    fn disk_answered(&mut self, _: Now, _: &Cx<'_, F>) {
        debug_assert!(false, "frames are memory: the disk is not asked for them");
    }

    fn peer_ended(&mut self, now: Now, cx: &Cx<'_, F>) {
        if !self.is_over() {
            let until = now.tick.after(cx.site.deadlines.half_closed_ms_max);
            let before = self.timer(Timer::Peer);
            self.set_timer(Timer::Peer, before.min(until));
        }
    }

    fn held_up(&mut self, ms: u64) {
        // The announced end is not the peer's deadline. A driver that sends when a deadline has
        // passed moves all of them by a whole window, and the last `GOAWAY` would come too late.
        for timer in Timer::ALL {
            if timer != Timer::Drain && self.timer(timer) != Tick::NEVER {
                self.set_timer(timer, self.timer(timer).after(ms));
            }
        }
        self.streams.held_up(ms);
    }

    fn drain(&mut self, now: Now, cx: &Cx<'_, F>) {
        let is_first = !mem::replace(&mut self.flags.is_draining, true);
        if is_first && self.phase == Phase::Serves && self.leaving.is_none() {
            self.now = now.tick;
            let deadlines = &cx.site.deadlines;
            let is_new = self.requests == 0;
            let ms = if is_new { deadlines.drain_first_ms() } else { deadlines.drain_idle_ms };
            // Requests that are on their way are still answered (RFC 9113 §6.8).
            write_goaway(&mut self.control, WINDOW_BYTES_MAX, ErrorCode::NO_ERROR);
            self.set_timer(Timer::Drain, now.tick.after(ms));
            self.settle(now, cx);
        }
    }

    fn cut(&mut self, reason: CloseReason, now: Now, cx: &Cx<'_, F>) {
        if !self.is_over() {
            self.end(reason, now, cx);
        }
    }

    fn turn_away(&mut self, now: Now, cx: &Cx<'_, F>) {
        if self.is_over() {
            return;
        }
        let Some((ticket, at)) = self.streams.oldest() else {
            self.flags.turns_away = true;
            return;
        };
        self.now = now.tick;
        self.give_up(at, Step::Reply(Reply::Refused(Refusal::Overload)), now, cx);
        self.abandoned = Some(Abandoned::One(ticket));
        self.settle(now, cx);
    }

    fn abandoned(&self) -> Option<Abandoned> {
        self.abandoned
    }

    fn is_idle(&self) -> bool {
        let nothing_arrives = self.inbox.is_empty() && self.block.is_none();
        let nothing_leaves = self.out.is_empty() && !self.lent.send;
        let is_free = self.phase == Phase::Serves && self.streams.all().is_empty();
        is_free && nothing_arrives && nothing_leaves
    }

    fn awaits_request(&self, bytes: &[u8]) -> bool {
        self.phase == Phase::Serves && !self.flags.discards && self.may_have_request(bytes)
    }

    /// Never: other streams may be answered meanwhile.
    fn tries_again(&self) -> bool {
        false
    }

    fn requests(&self) -> u32 {
        self.requests
    }

    fn check_invariants(&self) {
        self.streams.check_invariants();
        let is_over = self.is_over();
        let has_deadline = self.deadline() != Tick::NEVER;
        let asks = self.streams.awaits_disk() || self.spare.is_some();
        assert!(
            if is_over { !has_deadline } else { has_deadline || asks },
            "what waits has a deadline"
        );
        assert!(!self.lent.send || self.out.is_empty(), "one `Send` is out at once");
        let sends = self.lent.send || !self.out.is_empty();
        assert!(self.ends.is_empty() || sends, "a reply is over when its frames are sent");
        assert!(self.out.len() <= 2 * SEND_BYTES_MAX as u64, "a `Send` is bounded");
        assert!(self.streams.unsent() <= self.window || is_over, "the client permits what is read");
        assert!(self.late.len() <= LATE_STREAMS_MAX);
        assert_eq!(self.files.own(), self.streams.open_files(), "open files are counted");
        assert!(!self.flags.has_backlog || sends || is_over, "frames wait for a `Send` alone");
        if is_over || self.is_idle() {
            let is_bare = self.spare.is_none() && self.control.is_empty() && self.ends.is_empty();
            assert!(is_bare && self.out.is_empty(), "an idle or closed connection has no buffers");
        }
    }
}

// Helpers.
impl<F: File> Session<F> {
    /// Charges an event to the budget.
    fn charge(&mut self, glitch: Glitch, cx: &Cx<'_, F>) -> Result<(), ErrorCode> {
        self.charge_times(glitch, 1, cx)
    }

    /// Charges an event to the budget this many times. It counts as one.
    fn charge_times(
        &mut self,
        glitch: Glitch,
        times: u64,
        cx: &Cx<'_, F>,
    ) -> Result<(), ErrorCode> {
        cx.tally.add(Counter::Http2Glitches, u64::from(glitch.is_odd()));
        let has_points = self.budget.spend(glitch, times, self.now);
        if has_points { Ok(()) } else { Err(ErrorCode::ENHANCE_YOUR_CALM) }
    }

    /// Bytes of bodies that the client permits for the connection, less those that have been read.
    const fn free_window(&self) -> u64 {
        self.window.saturating_sub(self.streams.unsent())
    }

    fn timer(&self, timer: Timer) -> Tick {
        self.timers[timer as usize]
    }

    const fn set_timer(&mut self, timer: Timer, until: Tick) {
        self.timers[timer as usize] = until;
    }

    const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closes(_) | Phase::Closed)
    }

    /// The earliest deadline of a stream, while the connection has any.
    const fn streams_deadline(&self) -> Tick {
        if self.is_over() { Tick::NEVER } else { self.streams.deadline() }
    }
}
