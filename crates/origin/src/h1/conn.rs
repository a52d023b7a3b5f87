//! State machine of an HTTP/1 connection, from its first byte to its close, without any I/O.
use crate::{
    Cx, Deadlines, Peer, Protocol, Refusal, Reply, ReplyOutcome, Supply,
    course::{After, Course},
    input::{Content, Input},
    ongoing::Ongoing,
    record::{ReplyFacts, RequestText},
};
use alloc::boxed::Box;
use core::mem;
use regatta_http::Status;
use regatta_metrics::Counter;
use regatta_op::{Abandoned, CloseReason, Done, File, Now, Op, OpKind, Outbox, Tick, Ticket};

/// HTTP/1 connection, driven as any [`Protocol`]; one operation is in flight at a time.
///
/// An idle connection holds no other memory. The connection counts requests, replies, bytes sent,
/// opens, reads, and its close reason. The driver counts `connections_opened`, `connections_closed`
/// and system calls.
///
/// The code is in four files. This one has the state machine and the end of a connection.
/// `inbox.rs` has the bytes from the peer. `answer.rs` has the response to a head, with the help of
/// an [`Exchange`](crate::Exchange). `preface.rs` has the way to HTTP/2: [`Link`](crate::Link)
/// replaces a connection whose peer begins with its preface.
#[derive(Debug)]
pub struct Conn<F> {
    /// Bytes that go to the peer next.
    pub(crate) out: Outbox<F>,
    /// The exchange in progress, if it waits or will be logged.
    pub(crate) ongoing: Option<Box<Ongoing<F>>>,
    input: Option<Box<Input>>,
    deadline: Tick,
    /// Bytes handed to the kernel so far.
    pub(crate) sent: u64,
    /// Bytes that the peer had acknowledged at the last check.
    delivered: u64,
    pub(crate) requests: u32,
    status: u16,
    pub(crate) peer: Peer,
    state: State,
    in_flight: InFlight,
    pub(crate) after: After,
    /// Reason for which the connection will close, once it does.
    pub(crate) reason: CloseReason,
    size_class: u8,
    pub(crate) draining: bool,
    /// The driver has said that the peer sends no more.
    ended: bool,
}

/// Shortest time between two checks of what a drained peer is still to receive, milliseconds.
const DRAIN_CHECK_MS_MIN: u64 = 20;

/// The status of a connection that will answer nothing else.
const LIMITED: u16 = Status::TOO_MANY_REQUESTS.0;

// Memory of an idle connection, without the socket and the driver's slot.
const _: () = assert!(size_of::<Conn<u64>>() <= 144);

const fn assert_send<T: Send>() {}
const _: () = assert_send::<(Conn<u64>, crate::Exchange<u64>)>();

/// The operation that the driver has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum InFlight {
    /// Nothing.
    #[default]
    Nothing,
    /// An operation that has been given up.
    Abandoned,
    /// An operation.
    Out(OpKind),
}

impl InFlight {
    const fn kind(self) -> Option<OpKind> {
        match self {
            Self::Out(kind) => Some(kind),
            Self::Nothing | Self::Abandoned => None,
        }
    }

    /// Gives up the operation in flight, if any.
    const fn abandon(&mut self) {
        *self = match self {
            Self::Out(_) => Self::Abandoned,
            Self::Nothing | Self::Abandoned => Self::Nothing,
        };
    }
}

/// State of the connection: it determines the next operation and the meaning of its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Waits for a request head, or the rest of one: `Recv`.
    Head,
    /// The peer speaks HTTP/2: [`Link`](crate::Link) replaces the connection at once.
    Preface,
    /// The exchange waits for the disk: `Open`, `Read` or `Stat`.
    Disk,
    /// A name could not be opened now, and will be tried again. Bytes received are kept: `Recv`.
    Hold,
    /// The response is ready; the request's content is being discarded: `Recv`.
    Content,
    /// The response is being sent: `Send`.
    Send,
    /// The `Send` in flight waits for the disk.
    Prefetch,
    /// Our half is being closed: `Shut`.
    Shut,
    /// Bytes from the peer are discarded: `Recv`.
    Linger,
    /// Over: `Close`.
    Close,
}

impl<F: File> Conn<F> {
    /// A connection that has just been accepted. It has
    /// [`crate::Deadlines::first_request_ms_max`] to send the first byte of a request.
    #[must_use]
    pub fn new(peer: Peer, now: Now, cx: &Cx<'_, F>) -> Self {
        Self {
            out: Outbox::default(),
            ongoing: None,
            input: None,
            deadline: now.tick.after(cx.site.deadlines.first_request_ms_max),
            sent: 0,
            delivered: 0,
            requests: 0,
            status: 0,
            peer,
            state: State::Head,
            in_flight: InFlight::Nothing,
            after: After::KeepAlive,
            reason: CloseReason::PeerClosed,
            size_class: 0,
            draining: false,
            ended: false,
        }
    }

    /// Refuses the first request: the client has too many connections.
    pub(crate) const fn limit(&mut self) {
        self.status = LIMITED;
        self.reason = CloseReason::Refused; // the next head sees it
    }

    /// True if this is the first request of a client that has too many connections.
    pub(crate) const fn is_limited(&self) -> bool {
        self.requests <= 1 && self.status == LIMITED
    }
}

impl<F: File> Protocol<F> for Conn<F> {
    #[inline]
    fn next_op(&mut self) -> Option<Op<F>> {
        if self.in_flight.kind().is_some() {
            return None;
        }
        let op = match self.state {
            State::Head | State::Preface | State::Content | State::Hold | State::Linger => Op::Recv,
            State::Send | State::Prefetch => {
                let stays = self.after == After::KeepAlive;
                self.out.set_ends(!stays);
                self.out.set_pauses(stays && self.input.is_none());
                Op::Send(mem::take(&mut self.out))
            }
            State::Disk => self.disk_op(),
            State::Shut => Op::Shut,
            State::Close => Op::Close(self.reason),
        };
        self.in_flight = InFlight::Out(op.kind());
        Some(op)
    }

    #[inline]
    fn complete(&mut self, done: Done<'_, F>, now: Now, cx: &Cx<'_, F>) {
        let in_flight = mem::take(&mut self.in_flight);
        assert_eq!(
            in_flight,
            InFlight::Out(done.kind()),
            "an operation is completed once, as what it is"
        );
        debug_assert!(
            self.state != State::Prefetch,
            "a `Send` that waits for the disk is not performed"
        );
        match done {
            Done::Recv(Ok(bytes)) if !bytes.is_empty() => self.on_recv(bytes, now, cx),
            Done::Recv(Ok(_)) => self.on_end_of_stream(now, cx),
            Done::Send(out, Ok(n)) => self.on_sent(out, n, now, cx),
            Done::Open(ticket, found) => self.supply(ticket, Supply::Opened(found), now, cx),
            Done::Read(ticket, buffer, read) => {
                self.supply(ticket, Supply::Read(buffer, read), now, cx);
            }
            Done::Stat(ticket, found) => self.supply(ticket, Supply::Stat(found), now, cx),
            Done::Shut if self.after == After::Close => self.close(self.reason, now, cx),
            Done::Shut => {
                self.set_state(State::Linger, now.tick.after(cx.site.deadlines.linger_ms_max));
            }
            Done::Recv(Err(fault)) | Done::Send(_, Err(fault)) => {
                let lingers = self.state == State::Linger;
                let reason = match fault {
                    _ if lingers => self.reason,
                    fault => fault.into(),
                };
                self.close(reason, now, cx);
            }
        }
    }

    #[inline]
    fn deadline(&self) -> Tick {
        self.deadline
    }

    fn expire(&mut self, queued: u64, now: Now, cx: &Cx<'_, F>) {
        if now.tick < self.deadline {
            return;
        }
        let window = now.tick.after(cx.site.deadlines.send_window_ms);
        let flows = self.flows(queued, &cx.site.deadlines);
        match self.state {
            _ if self.ended && self.awaits_disk() => self.end(CloseReason::PeerAborted, now, cx),
            State::Prefetch => self.end(CloseReason::DiskDeadline, now, cx),
            State::Head if self.has_partial_head() => self.time_out(now, cx),
            State::Content => self.time_out(now, cx),
            State::Send if flows => self.deadline = window,
            // Its last bytes are taken in less than a window, and others wait for the end.
            State::Head if queued > 0 && flows && self.draining => {
                let check_ms = cx.site.deadlines.drain_idle_ms.max(DRAIN_CHECK_MS_MIN);
                self.deadline = window.min(now.tick.after(check_ms));
            }
            State::Head | State::Linger if queued > 0 && flows => self.deadline = window,
            State::Head if self.draining => self.end(CloseReason::Drained, now, cx),
            State::Head | State::Preface => self.end(CloseReason::IdleDeadline, now, cx),
            State::Send => self.end(CloseReason::SendDeadline, now, cx),
            State::Linger => self.end(self.reason, now, cx),
            State::Shut => self.deadline = window,
            State::Hold => {
                self.in_flight.abandon();
                self.resume(Supply::Again, now, cx);
            }
            State::Disk => {
                self.in_flight.abandon();
                let reply = Reply::Nothing(Status::SERVICE_UNAVAILABLE);
                self.give_up_disk(reply, CloseReason::DiskDeadline, now, cx);
            }
            State::Close => self.deadline = Tick::NEVER,
        }
    }

    fn wait_for_disk(&mut self, now: Now, cx: &Cx<'_, F>) {
        assert_eq!(
            self.in_flight,
            InFlight::Out(OpKind::Send),
            "only a `Send` waits for a prefetch"
        );
        self.set_state(State::Prefetch, now.tick.after(cx.site.deadlines.disk_ms_max));
    }

    fn disk_answered(&mut self, now: Now, cx: &Cx<'_, F>) {
        assert_eq!(self.state, State::Prefetch, "the driver said that it waits");
        self.set_state(State::Send, now.tick.after(cx.site.deadlines.send_window_ms));
    }

    fn peer_ended(&mut self, now: Now, cx: &Cx<'_, F>) {
        if self.awaits_disk() {
            self.ended = true;
            let until = now.tick.after(cx.site.deadlines.half_closed_ms_max);
            self.deadline = self.deadline.min(until);
        }
    }

    fn held_up(&mut self, ms: u64) {
        if self.deadline != Tick::NEVER {
            self.deadline = self.deadline.after(ms);
        }
    }

    fn drain(&mut self, now: Now, cx: &Cx<'_, F>) {
        self.draining = true;
        if self.is_idle() {
            let deadlines = &cx.site.deadlines;
            let is_new = self.requests == 0;
            let ms = if is_new { deadlines.drain_first_ms() } else { deadlines.drain_idle_ms };
            self.deadline = self.deadline.min(now.tick.after(ms));
        }
    }

    fn cut(&mut self, reason: CloseReason, now: Now, cx: &Cx<'_, F>) {
        if self.state != State::Close {
            self.end(reason, now, cx);
        }
    }

    fn turn_away(&mut self, now: Now, cx: &Cx<'_, F>) {
        if self.state == State::Head {
            self.reason = CloseReason::Refused; // the next head sees it
        } else if self.waits_for_disk() {
            self.in_flight.abandon();
            self.note_refusal(Refusal::Overload);
            let reply = Reply::Refused(Refusal::Overload);
            self.give_up_disk(reply, CloseReason::Refused, now, cx);
        }
    }

    fn abandoned(&self) -> Option<Abandoned> {
        (self.in_flight == InFlight::Abandoned).then_some(Abandoned::All)
    }

    fn is_idle(&self) -> bool {
        self.state == State::Head && !self.has_partial_head()
    }

    fn awaits_request(&self, _: &[u8]) -> bool {
        self.state == State::Head
    }

    fn tries_again(&self) -> bool {
        self.state == State::Hold
    }

    fn requests(&self) -> u32 {
        self.requests
    }

    fn check_invariants(&self) {
        let input = self.input.as_deref();
        let ongoing = self.ongoing.as_deref();
        let asks = ongoing.is_some_and(|ongoing| ongoing.op.is_some());
        let asked = self.state == State::Disk && self.in_flight.kind().is_none();
        assert_eq!(asks, asked, "a disk operation is kept until it is in flight");
        assert!(ongoing.is_some() || !self.waits_for_disk(), "only an exchange waits for the disk");
        let holds = ongoing.is_some_and(|ongoing| ongoing.exchange.holds_file());
        assert!(
            !holds || self.state == State::Disk,
            "a file is pending only while waiting for the disk"
        );
        if self.state != State::Send || self.in_flight == InFlight::Out(OpKind::Send) {
            assert!(self.out.is_empty() || self.state == State::Content, "{:?}", self.state);
        }
        let content = input.map_or(Content::None, |input| input.content);
        assert_eq!(content != Content::None, self.state == State::Content);
        if self.is_idle() || self.state == State::Close {
            let nothing = input.is_none() && ongoing.is_none();
            assert!(nothing, "an idle or closed connection holds nothing");
        }
        if let Some(in_flight) = self.in_flight.kind() {
            let expected: &[_] = match self.state {
                State::Head | State::Content | State::Hold | State::Linger => &[OpKind::Recv],
                State::Preface => &[],
                State::Disk => &[OpKind::Open, OpKind::Read, OpKind::Stat],
                State::Send | State::Prefetch => &[OpKind::Send],
                State::Shut => &[OpKind::Shut],
                State::Close => &[OpKind::Close],
            };
            assert!(expected.contains(&in_flight), "the operation in flight is that of the state");
        }
        let waits = self.in_flight.kind().is_some();
        assert!(self.state != State::Prefetch || waits, "a prefetch has a `Send` in flight");
        let over = self.state == State::Close;
        assert_eq!(self.deadline == Tick::NEVER, over, "every state but the last has a deadline");
        assert!(self.delivered <= self.sent);
    }
}

// Outcomes of operations.
impl<F: File> Conn<F> {
    /// The disk operation in flight has completed.
    fn supply(&mut self, ticket: Ticket, supply: Supply<F>, now: Now, cx: &Cx<'_, F>) {
        assert_eq!(ticket, Ticket::default(), "no operation with this ticket is in flight");
        self.resume(supply, now, cx);
    }

    fn on_end_of_stream(&mut self, now: Now, cx: &Cx<'_, F>) {
        let reason = match self.state {
            State::Linger => self.reason,
            // The end of the stream would be received again and again, so it cannot wait.
            State::Hold => return self.resume(Supply::GivenUp, now, cx),
            _ if self.is_idle() => CloseReason::PeerClosed,
            _ => CloseReason::PeerAborted,
        };
        self.close(reason, now, cx);
    }

    pub(crate) fn on_lingering(&mut self, bytes: usize, now: Now, cx: &Cx<'_, F>) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let input = self.input_mut(cx);
        input.lingered = input.lingered.saturating_add(bytes);
        if input.lingered > cx.site.limits.linger_bytes_max {
            self.close(self.reason, now, cx);
        }
    }

    #[inline]
    fn on_sent(&mut self, out: Outbox<F>, n: u64, now: Now, cx: &Cx<'_, F>) {
        self.sent += n;
        cx.tally.add(Counter::BytesSent, n);
        if !out.is_empty() {
            if n == 0 {
                return self.close(CloseReason::Truncated, now, cx);
            }
            self.out = out;
            return;
        }
        cx.scratch.give_buffer(out.into_buffer());
        self.finish(ReplyOutcome::Complete, now, cx);
        self.state = State::Head; // no exchange is in progress
        match self.after {
            After::KeepAlive => {
                let deadlines = &cx.site.deadlines;
                let idle_ms =
                    if self.draining { deadlines.drain_idle_ms } else { deadlines.idle_ms_max };
                self.set_state(State::Head, now.tick.after(idle_ms));
                if self.input.is_some() {
                    self.advance_stash(now, cx);
                }
            }
            // Also if the peer asked for the end: with unread bytes in the socket, `close` alone
            // throws away those that the kernel has yet to send.
            After::Linger | After::Close => self.leave(self.reason, now, cx),
        }
    }
}

// The end.
impl<F: File> Conn<F> {
    /// Counts and logs the exchange, which has ended.
    #[inline(always)]
    fn finish(&mut self, outcome: ReplyOutcome, now: Now, cx: &Cx<'_, F>) {
        if outcome == ReplyOutcome::Complete {
            cx.tally.reply(self.status, SIZE_CLASSES[usize::from(self.size_class)]);
        } else {
            cx.tally.add(Counter::RepliesCut, 1);
        }
        if self.ongoing.is_some() {
            self.log(outcome, now, cx);
        }
    }

    #[inline(never)]
    fn log(&mut self, outcome: ReplyOutcome, now: Now, cx: &Cx<'_, F>) {
        let facts = ReplyFacts {
            status: self.status,
            sent: self.sent,
            outcome,
            keep_alive: self.after == After::KeepAlive && outcome == ReplyOutcome::Complete,
        };
        if let Some(ongoing) = self.ongoing.take() {
            let note = &ongoing.exchange.note;
            if note.is_taken() {
                note.log(cx.log, &facts, now);
            }
            cx.scratch.give_ongoing(ongoing);
        }
    }

    /// The request did not come in time: answers 408, then ends.
    fn time_out(&mut self, now: Now, cx: &Cx<'_, F>) {
        let reason = CloseReason::HeadDeadline;
        self.in_flight.abandon();
        if self.state == State::Content {
            self.drop_out(cx);
            let course = self.drop_content(cx);
            self.refuse(Refusal::ContentDeadline, reason, &course, now, cx);
        } else {
            self.on_no_head(Refusal::HeadDeadline, reason, now, cx);
        }
        self.drop_stash();
        self.settle(cx);
    }

    /// Ends the connection now; the operation in flight is given up.
    fn end(&mut self, reason: CloseReason, now: Now, cx: &Cx<'_, F>) {
        self.in_flight.abandon();
        self.close(reason, now, cx);
    }

    /// Ends the connection: half-close, then discard if the peer may still send (RFC 9112 §9.6).
    fn leave(&mut self, reason: CloseReason, now: Now, cx: &Cx<'_, F>) {
        self.reason = reason;
        if let Some(input) = self.input.take() {
            cx.scratch.give_input(input);
        }
        self.set_state(State::Shut, now.tick.after(cx.site.deadlines.linger_ms_max));
    }

    /// Only `Close` follows.
    pub(crate) fn close(&mut self, reason: CloseReason, now: Now, cx: &Cx<'_, F>) {
        if self.waits_for_disk()
            || matches!(self.state, State::Content | State::Send | State::Prefetch)
        {
            if self.waits_for_disk() {
                self.status = 0; // that of the response before
            }
            self.finish(ReplyOutcome::from_reason(reason), now, cx);
        }
        self.drop_out(cx);
        if let Some(input) = self.input.take() {
            cx.scratch.give_input(input);
        }
        cx.tally.add(Counter::closed(reason as usize), 1);
        self.reason = reason;
        self.set_state(State::Close, Tick::NEVER);
    }

    /// Drops received bytes that will not be parsed.
    pub(crate) fn drop_stash(&mut self) {
        if let Some(input) = &mut self.input {
            (input.at, input.seen) = (0, 0);
            input.stash.clear();
        }
    }

    /// Stops discarding content, and returns the effects of the request that it belongs to.
    pub(crate) fn drop_content(&mut self, cx: &Cx<'_, F>) -> Course {
        let input = self.input_mut(cx);
        input.content = Content::None;
        mem::take(&mut input.course)
    }

    /// Drops the response.
    pub(crate) fn drop_out(&mut self, cx: &Cx<'_, F>) {
        cx.scratch.give_buffer(mem::take(&mut self.out).into_buffer());
    }

    /// True if the peer has taken enough since the last check.
    fn flows(&mut self, queued: u64, deadlines: &Deadlines) -> bool {
        let has = self.sent.saturating_sub(queued);
        let first_ms = match self.state {
            State::Head => deadlines.idle_ms_max,
            State::Linger => deadlines.linger_ms_max,
            _ => deadlines.send_window_ms,
        };
        deadlines.flows(has, &mut self.delivered, first_ms)
    }
}

// Helpers.
impl<F: File> Conn<F> {
    fn disk_op(&mut self) -> Op<F> {
        let op = self.ongoing.as_mut().and_then(|ongoing| ongoing.op.take());
        op.expect("it is set with the state")
    }

    #[inline]
    pub(crate) fn set_state(&mut self, state: State, deadline: Tick) {
        self.state = state;
        self.deadline = deadline;
    }

    #[inline]
    pub(crate) const fn state(&self) -> State {
        self.state
    }

    /// Notes status and length of the response, which is in the outbox.
    #[inline]
    pub(crate) fn promise(&mut self, status: Status, body_bytes: u64) {
        self.status = status.0;
        self.size_class = size_class(body_bytes);
        if let Some(ongoing) = &mut self.ongoing {
            ongoing.exchange.note.promise(self.out.len() - body_bytes, body_bytes);
        }
    }

    /// Notes why the request is refused, for the log.
    pub(crate) fn note_refusal(&mut self, refusal: Refusal) {
        if let Some(ongoing) = &mut self.ongoing {
            ongoing.exchange.note.refuse(refusal);
        }
    }

    /// Notes a request that cannot be read for the log, if it wants records.
    pub(crate) fn note_unread(&mut self, now: Now, cx: &Cx<'_, F>) {
        if cx.log.wants() {
            let ongoing = self.ongoing.get_or_insert_with(|| cx.scratch.take_ongoing());
            ongoing.exchange.note.take(&RequestText::default(), self.peer, self.sent, now);
        }
    }

    #[inline]
    pub(crate) const fn waits_for_disk(&self) -> bool {
        matches!(self.state, State::Disk | State::Hold)
    }

    /// True if the operation in flight waits for the disk.
    const fn awaits_disk(&self) -> bool {
        matches!(self.state, State::Disk | State::Prefetch)
    }

    /// True if unread bytes are kept.
    #[inline]
    pub(crate) fn has_stash(&self) -> bool {
        self.input.as_ref().is_some_and(|input| input.at < input.stash.len())
    }

    fn has_partial_head(&self) -> bool {
        self.state == State::Head && self.has_stash()
    }

    #[inline]
    pub(crate) fn input(&self) -> Option<&Input> {
        self.input.as_deref()
    }

    pub(crate) fn input_mut(&mut self, cx: &Cx<'_, F>) -> &mut Input {
        self.input.get_or_insert_with(|| cx.scratch.take_input())
    }

    /// Gives empty boxes back to the pool.
    pub(crate) fn settle(&mut self, cx: &Cx<'_, F>) {
        if !self.waits_for_disk()
            && let Some(ongoing) = self.ongoing.take_if(|it| !it.exchange.note.is_taken())
        {
            cx.scratch.give_ongoing(ongoing);
        }
        if let Some(input) = self.input.take_if(|input| input.is_spare() && input.lingered == 0) {
            cx.scratch.give_input(input);
        }
    }
}

/// The least body of each size class of [`Counter::size_class`], bytes.
const SIZE_CLASSES: [u64; 5] = [0, 1 << 10, 10 << 10, 100 << 10, 1 << 20];

#[inline]
fn size_class(body_bytes: u64) -> u8 {
    SIZE_CLASSES[1..].iter().map(|least| u8::from(body_bytes >= *least)).sum()
}
