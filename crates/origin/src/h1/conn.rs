//! One HTTP/1 connection, from its first byte to its close, without doing any I/O.
use crate::{
    Cx, Deadlines, Outcome, Peer, Protocol, Refusal, Supply,
    h1::{
        answer::Ongoing,
        course::After,
        work::{Content, Work},
    },
    record::{Ending, RequestText},
};
use alloc::boxed::Box;
use core::mem;
use regatta_http::{Status, h1::RequestHead};
use regatta_metrics::Counter;
use regatta_op::{Abandoned, CloseReason, Done, File, Now, Op, OpKind, Outbox, Tick, Ticket};

/// One connection.
///
/// It is driven as any [`Protocol`]; one operation is out at a time.
///
/// An idle connection holds no memory but itself. The connection counts requests, replies, bytes
/// sent, opens, reads, and why it closed; that it was opened and that it is gone
/// (`connections_opened`, `connections_closed`) is counted by the driver, which also counts
/// system calls.
///
/// What it does is in three files: here what comes next and how it ends, in `inbox.rs` what becomes
/// of bytes from the peer, in `answer.rs` what is sent for a head, which an
/// [`Exchange`](crate::Exchange) finds out.
#[derive(Debug)]
pub struct Conn<F> {
    /// What goes to the peer next.
    pub(crate) out: Outbox<F>,
    /// The exchange in progress, if it waits or the log will be told of it.
    pub(crate) ongoing: Option<Box<Ongoing<F>>>,
    work: Option<Box<Work>>,
    deadline: Tick,
    /// Bytes handed to the kernel so far.
    sent: u64,
    /// Bytes that the peer had at the last look.
    delivered: u64,
    pub(crate) requests: u32,
    status: u16,
    peer: Peer,
    state: State,
    lent: Lent,
    pub(crate) after: After,
    /// Why the connection will close, once it does.
    pub(crate) reason: CloseReason,
    size_class: u8,
    pub(crate) draining: bool,
    /// The driver has said that the peer sends no more.
    ended: bool,
}

// What an idle connection costs besides its socket and the driver's slot.
const _: () = assert!(size_of::<Conn<u64>>() <= 144);

const fn assert_send<T: Send>() {}
const _: () = assert_send::<(Conn<u64>, crate::Exchange<u64>)>();

/// What the driver has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lent {
    /// Nothing.
    #[default]
    Nothing,
    /// An operation that has been given up.
    Abandoned,
    /// An operation.
    Out(OpKind),
}

impl Lent {
    const fn kind(self) -> Option<OpKind> {
        match self {
            Self::Out(kind) => Some(kind),
            Self::Nothing | Self::Abandoned => None,
        }
    }

    /// Gives up what is out, if anything is.
    const fn abandon(&mut self) {
        *self = match self {
            Self::Out(_) => Self::Abandoned,
            Self::Nothing | Self::Abandoned => Self::Nothing,
        };
    }
}

/// Which operation comes next, and what its outcome means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// A request head is awaited, or the rest of one: `Recv`.
    Head,
    /// The exchange waits for the disk: `Open`, `Read` or `Stat`.
    Disk,
    /// A name could not be opened now, and it will be tried again. What the peer sends meanwhile is
    /// kept: `Recv`.
    Hold,
    /// The response is ready, the request's content is being discarded: `Recv`.
    Content,
    /// The response goes out: `Send`.
    Send,
    /// The `Send` that is out waits for the disk.
    Warm,
    /// Our half is to be closed: `Shut`.
    Shut,
    /// What the peer still sends is discarded: `Recv`.
    Linger,
    /// Over: `Close`.
    Close,
}

impl<F: File> Conn<F> {
    /// A connection that was accepted just now. It has
    /// [`crate::Deadlines::first_request_ms_max`] to send the first byte of a request.
    #[must_use]
    pub fn new(peer: Peer, now: Now, cx: &Cx<'_, F>) -> Self {
        Self {
            out: Outbox::default(),
            ongoing: None,
            work: None,
            deadline: now.tick.after(cx.site.deadlines.first_request_ms_max),
            sent: 0,
            delivered: 0,
            requests: 0,
            status: 0,
            peer,
            state: State::Head,
            lent: Lent::Nothing,
            after: After::KeepAlive,
            reason: CloseReason::PeerClosed,
            size_class: 0,
            draining: false,
            ended: false,
        }
    }
}

impl<F: File> Protocol<F> for Conn<F> {
    #[inline]
    fn next_op(&mut self) -> Option<Op<F>> {
        if self.lent.kind().is_some() {
            return None;
        }
        let op = match self.state {
            State::Head | State::Content | State::Hold | State::Linger => Op::Recv,
            State::Send | State::Warm => Op::Send(mem::take(&mut self.out)),
            State::Disk => self.disk_op(),
            State::Shut => Op::Shut,
            State::Close => Op::Close(self.reason),
        };
        self.lent = Lent::Out(op.kind());
        Some(op)
    }

    #[inline]
    fn complete(&mut self, done: Done<'_, F>, now: Now, cx: &Cx<'_, F>) {
        let lent = mem::take(&mut self.lent);
        assert_eq!(lent, Lent::Out(done.kind()), "an operation is completed once, as it is");
        debug_assert!(self.state != State::Warm, "what waits for the disk is not performed");
        match done {
            Done::Recv(Ok(bytes)) if !bytes.is_empty() => self.on_recv(bytes, now, cx),
            Done::Recv(Ok(_)) => self.on_end_of_stream(now, cx),
            Done::Send(out, Ok(n)) => self.on_sent(out, n, now, cx),
            Done::Open(ticket, found) => self.supply(ticket, Supply::Opened(found), now, cx),
            Done::Read(ticket, buffer, read) => {
                self.supply(ticket, Supply::Read(buffer, read), now, cx);
            }
            Done::Stat(ticket, found) => self.supply(ticket, Supply::Stat(found), now, cx),
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
            State::Warm => self.end(CloseReason::DiskDeadline, now, cx),
            State::Head if self.has_partial_head() => self.time_out(now, cx),
            State::Content => self.time_out(now, cx),
            State::Send if flows => self.deadline = window,
            State::Head | State::Linger if queued > 0 && flows => self.deadline = window,
            State::Head if self.draining => self.end(CloseReason::Drained, now, cx),
            State::Head => self.end(CloseReason::IdleDeadline, now, cx),
            State::Send => self.end(CloseReason::SendDeadline, now, cx),
            State::Linger => self.end(self.reason, now, cx),
            State::Shut => self.deadline = window,
            State::Hold => {
                self.lent.abandon();
                self.resume(Supply::Again, now, cx);
            }
            State::Disk => {
                self.lent.abandon();
                self.give_up_disk(now, cx);
            }
            State::Close => self.deadline = Tick::NEVER,
        }
    }

    fn wait_for_disk(&mut self, now: Now, cx: &Cx<'_, F>) {
        assert_eq!(self.lent, Lent::Out(OpKind::Send), "only a `Send` may have to wait like that");
        self.set_state(State::Warm, now.tick.after(cx.site.deadlines.disk_ms_max));
    }

    fn disk_answered(&mut self, now: Now, cx: &Cx<'_, F>) {
        assert_eq!(self.state, State::Warm, "it has been told that it waits");
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
            self.deadline = self.deadline.min(now.tick.after(cx.site.deadlines.drain_idle_ms));
        }
    }

    fn cut(&mut self, reason: CloseReason, now: Now, cx: &Cx<'_, F>) {
        if self.state != State::Close {
            self.end(reason, now, cx);
        }
    }

    fn abandoned(&self) -> Option<Abandoned> {
        (self.lent == Lent::Abandoned).then_some(Abandoned::All)
    }

    fn is_idle(&self) -> bool {
        self.state == State::Head && !self.has_partial_head()
    }

    fn requests(&self) -> u32 {
        self.requests
    }

    fn check_invariants(&self) {
        let work = self.work.as_deref();
        let ongoing = self.ongoing.as_deref();
        let asks = ongoing.is_some_and(|ongoing| ongoing.op.is_some());
        let asked = self.state == State::Disk && self.lent.kind().is_none();
        assert_eq!(asks, asked, "what an exchange waits for is kept until it is out");
        assert!(ongoing.is_some() || !self.waits_for_disk(), "it is an exchange that waits");
        let holds = ongoing.is_some_and(|ongoing| ongoing.exchange.holds_file());
        assert!(!holds || self.state == State::Disk, "a file is pending while the disk is asked");
        if self.state != State::Send || self.lent == Lent::Out(OpKind::Send) {
            assert!(self.out.is_empty() || self.state == State::Content, "{:?}", self.state);
        }
        let content = work.map_or(Content::None, |work| work.content);
        assert_eq!(content != Content::None, self.state == State::Content);
        if self.is_idle() || self.state == State::Close {
            let nothing = work.is_none() && ongoing.is_none();
            assert!(nothing, "an idle or closed connection holds nothing");
        }
        if let Some(lent) = self.lent.kind() {
            let expected: &[_] = match self.state {
                State::Head | State::Content | State::Hold | State::Linger => &[OpKind::Recv],
                State::Disk => &[OpKind::Open, OpKind::Read, OpKind::Stat],
                State::Send | State::Warm => &[OpKind::Send],
                State::Shut => &[OpKind::Shut],
                State::Close => &[OpKind::Close],
            };
            assert!(expected.contains(&lent), "what is out is what the state is about");
        }
        let waits = self.lent.kind().is_some();
        assert!(self.state != State::Warm || waits, "it is the `Send` that waits");
        let over = self.state == State::Close;
        assert_eq!(self.deadline == Tick::NEVER, over, "all but the end has a deadline");
        assert!(self.delivered <= self.sent);
    }
}

// What happened.
impl<F: File> Conn<F> {
    /// The disk operation that is out is over.
    fn supply(&mut self, ticket: Ticket, supply: Supply<F>, now: Now, cx: &Cx<'_, F>) {
        assert_eq!(ticket, Ticket::default(), "no operation with this ticket is out");
        self.resume(supply, now, cx);
    }

    fn on_end_of_stream(&mut self, now: Now, cx: &Cx<'_, F>) {
        let reason = match self.state {
            State::Linger => self.reason,
            // Its end would be received again and again, so there is no waiting.
            State::Hold => return self.resume(Supply::GivenUp, now, cx),
            _ if self.is_idle() => CloseReason::PeerClosed,
            _ => CloseReason::PeerAborted,
        };
        self.close(reason, now, cx);
    }

    pub(crate) fn on_lingering(&mut self, bytes: usize, now: Now, cx: &Cx<'_, F>) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let work = self.work_mut(cx);
        work.lingered = work.lingered.saturating_add(bytes);
        if work.lingered > cx.site.limits.linger_bytes_max {
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
        self.finish(Outcome::Complete, now, cx);
        self.state = State::Head; // no exchange is in progress
        match self.after {
            After::KeepAlive => {
                let deadlines = &cx.site.deadlines;
                let idle_ms =
                    if self.draining { deadlines.drain_idle_ms } else { deadlines.idle_ms_max };
                self.set_state(State::Head, now.tick.after(idle_ms));
                if self.work.is_some() {
                    self.advance_stash(now, cx);
                }
            }
            After::Linger => self.leave(self.reason, now, cx),
            After::Close => self.close(self.reason, now, cx),
        }
    }
}

// How it ends.
impl<F: File> Conn<F> {
    /// The exchange in progress is over: counts it and tells the log.
    #[inline(always)]
    fn finish(&mut self, outcome: Outcome, now: Now, cx: &Cx<'_, F>) {
        if outcome == Outcome::Complete {
            cx.tally.reply(self.status, SIZE_CLASSES[usize::from(self.size_class)]);
        } else {
            cx.tally.add(Counter::RepliesCut, 1);
        }
        if self.ongoing.is_some() {
            self.tell(outcome, now, cx);
        }
    }

    #[inline(never)]
    fn tell(&mut self, outcome: Outcome, now: Now, cx: &Cx<'_, F>) {
        let ending = Ending {
            peer: self.peer,
            status: self.status,
            sent: self.sent,
            outcome,
            keep_alive: self.after == After::KeepAlive && outcome == Outcome::Complete,
        };
        if let Some(ongoing) = self.ongoing.take() {
            let note = &ongoing.exchange.note;
            if note.is_taken() {
                note.tell(cx.log, &ending, now);
            }
            cx.scratch.give_ongoing(ongoing);
        }
    }

    /// What was to come did not come in time: says so, then ends.
    fn time_out(&mut self, now: Now, cx: &Cx<'_, F>) {
        let reason = CloseReason::HeadDeadline;
        self.lent.abandon();
        if self.state == State::Content {
            self.drop_out(cx);
            let head_only = self.drop_content(cx);
            self.refuse(Refusal::ContentDeadline, reason, head_only, now, cx);
        } else {
            self.on_no_head(Refusal::HeadDeadline, reason, now, cx);
        }
        self.drop_stash();
        self.settle(cx);
    }

    /// Ends it now; the operation that was out counts as dropped.
    fn end(&mut self, reason: CloseReason, now: Now, cx: &Cx<'_, F>) {
        self.lent.abandon();
        self.close(reason, now, cx);
    }

    /// Ends it as a peer deserves that may still be sending: half-close, then discard
    /// (RFC 9112 §9.6).
    fn leave(&mut self, reason: CloseReason, now: Now, cx: &Cx<'_, F>) {
        self.reason = reason;
        if let Some(work) = self.work.take() {
            cx.scratch.give_work(work);
        }
        self.set_state(State::Shut, now.tick.after(cx.site.deadlines.linger_ms_max));
    }

    /// Nothing follows but `Close`.
    pub(crate) fn close(&mut self, reason: CloseReason, now: Now, cx: &Cx<'_, F>) {
        if self.waits_for_disk() || matches!(self.state, State::Content | State::Send | State::Warm)
        {
            if self.waits_for_disk() {
                self.status = 0; // that of the response before
            }
            self.finish(outcome(reason), now, cx);
        }
        self.drop_out(cx);
        if let Some(work) = self.work.take() {
            cx.scratch.give_work(work);
        }
        cx.tally.add(Counter::closed(reason as usize), 1);
        self.reason = reason;
        self.set_state(State::Close, Tick::NEVER);
    }

    /// Drops bytes that came and will not be looked at.
    pub(crate) fn drop_stash(&mut self) {
        if let Some(work) = &mut self.work {
            (work.at, work.seen) = (0, 0);
            work.stash.clear();
        }
    }

    /// Discards no more content: true if that was of a `HEAD`.
    pub(crate) fn drop_content(&mut self, cx: &Cx<'_, F>) -> bool {
        let work = self.work_mut(cx);
        work.content = Content::None;
        mem::take(&mut work.head_only)
    }

    /// Drops a response that was not to be.
    pub(crate) fn drop_out(&mut self, cx: &Cx<'_, F>) {
        cx.scratch.give_buffer(mem::take(&mut self.out).into_buffer());
    }

    /// True if the peer took its due since the last look, which may have been only a linger ago.
    fn flows(&mut self, queued: u64, deadlines: &Deadlines) -> bool {
        let has = self.sent.saturating_sub(queued);
        let gained = has.saturating_sub(self.delivered);
        self.delivered = self.delivered.max(has);
        let least_ms = match self.state {
            State::Linger => deadlines.send_window_ms.min(deadlines.linger_ms_max),
            _ => deadlines.send_window_ms,
        };
        // A peer that takes nothing at all is not waited for, whatever the limits say.
        gained >= (deadlines.send_rate_min.saturating_mul(least_ms) / 1000).max(1)
    }
}

// Small things.
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

    /// Sets what is promised to the peer; the response is in the outbox.
    #[inline]
    pub(crate) fn promise(&mut self, status: Status, body_bytes: u64) {
        self.status = status.0;
        self.size_class = size_class(body_bytes);
        if let Some(ongoing) = &mut self.ongoing {
            ongoing.exchange.note.promise(self.out.len() - body_bytes, body_bytes);
        }
    }

    /// Keeps why the request is refused, if the log wants anything.
    pub(crate) fn note_refusal(&mut self, refusal: Refusal) {
        if let Some(ongoing) = &mut self.ongoing {
            ongoing.exchange.note.refuse(refusal);
        }
    }

    /// Keeps what the log will want, if it wants anything.
    #[inline]
    pub(crate) fn take_note(&mut self, head: Option<&RequestHead<'_>>, now: Now, cx: &Cx<'_, F>) {
        if cx.log.wants() {
            let asked = head.map_or_else(RequestText::default, |head| RequestText {
                method: head.method_text.as_bytes(),
                target: head.target,
                version: head.version.name(),
                referer: head.referer,
                user_agent: head.user_agent,
            });
            let ongoing = self.ongoing.get_or_insert_with(|| cx.scratch.take_ongoing());
            ongoing.exchange.note.take(&asked, self.sent, now);
        }
    }

    #[inline]
    pub(crate) const fn waits_for_disk(&self) -> bool {
        matches!(self.state, State::Disk | State::Hold)
    }

    /// True if the disk has been asked for what is out.
    const fn awaits_disk(&self) -> bool {
        matches!(self.state, State::Disk | State::Warm)
    }

    /// True if bytes are kept that are not done with.
    #[inline]
    pub(crate) fn has_stash(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.at < work.stash.len())
    }

    fn has_partial_head(&self) -> bool {
        self.state == State::Head && self.has_stash()
    }

    #[inline]
    pub(crate) fn work(&self) -> Option<&Work> {
        self.work.as_deref()
    }

    pub(crate) fn work_mut(&mut self, cx: &Cx<'_, F>) -> &mut Work {
        self.work.get_or_insert_with(|| cx.scratch.take_work())
    }

    /// Gives back what nothing is in.
    pub(crate) fn settle(&mut self, cx: &Cx<'_, F>) {
        if !self.waits_for_disk()
            && let Some(ongoing) = self.ongoing.take_if(|it| !it.exchange.note.is_taken())
        {
            cx.scratch.give_ongoing(ongoing);
        }
        if let Some(work) = self.work.take_if(|work| work.is_spare() && work.lingered == 0) {
            cx.scratch.give_work(work);
        }
    }
}

const fn outcome(reason: CloseReason) -> Outcome {
    match reason {
        CloseReason::Truncated => Outcome::Truncated,
        CloseReason::SendDeadline => Outcome::Slow,
        CloseReason::DiskDeadline | CloseReason::Drained | CloseReason::Failed => Outcome::Cut,
        _ => Outcome::Aborted,
    }
}

/// The least body of each size class of [`Counter::size_class`], bytes.
const SIZE_CLASSES: [u64; 5] = [0, 1 << 10, 10 << 10, 100 << 10, 1 << 20];

#[inline]
fn size_class(body_bytes: u64) -> u8 {
    SIZE_CLASSES[1..].iter().map(|least| u8::from(body_bytes >= *least)).sum()
}
