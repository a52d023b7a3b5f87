//! Streams from request to reply: steps of their exchanges, and their ends.
use super::{FinishedReply, Session, Timer};
use crate::{
    Cx, Refusal, Reply, ReplyOutcome, Step, Supply,
    course::{Course, Persistence},
    h1::reply::{Response, Terms},
    h2::{budget::Glitch, encode::write_response},
    multi::{Slot, Stream},
    ongoing::Ongoing,
    record::ReplyFacts,
    reply_rules::ReplyRules,
};
use alloc::{boxed::Box, vec::Vec};
use core::{mem, sync::atomic::Ordering::Relaxed};
use regatta_http::{Status, h2::frame::ErrorCode};
use regatta_metrics::Counter;
use regatta_op::{Coding, File, Now, Op, Outbox, Segment, Tick, Ticket};

/// State of a stream, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamPlace {
    /// Not opened yet.
    Idle,
    /// Open, or closed in one direction.
    Open(Slot),
    /// Reset by the server before the client ended it: more may arrive, and is ignored.
    Late,
    /// Closed.
    Closed,
    /// Opened after the last stream that is processed: all of it is ignored.
    Ignored,
}

/// Reply as a stream sends it.
pub(super) struct StreamReply<F> {
    /// The field block and the body.
    pub(super) out: Outbox<F>,
    pub(super) block_bytes: u64,
    pub(super) status: Status,
    /// The name of the body's file, where files are scarce.
    pub(super) file_name: Option<Box<[u8]>>,
}

impl<F: File> StreamReply<F> {
    /// Transcodes the head of a response. The block is made in an empty buffer.
    pub(super) fn new(mut response: Response<F>, mut block: Vec<u8>, cx: &Cx<'_, F>) -> Self {
        write_response(&mut response, &mut block);
        let Response { outbox, status, .. } = response;
        let block_bytes = block.len() as u64;
        // A short body may be behind the head, in its buffer.
        block.extend_from_slice(outbox.head());
        let mut out = Outbox::new(block);
        outbox.segments().for_each(|segment| out.push(segment.clone()));
        cx.scratch.give_buffer(outbox.into_buffer());
        Self { out, block_bytes, status, file_name: None }
    }
}

/// The number of a stream in frames.
pub(super) fn number(id: u64) -> u32 {
    u32::try_from(id).unwrap_or(u32::MAX)
}

impl<F: File> Session<F> {
    /// The state of a stream. Even numbers are those of streams that the server would open.
    pub(super) fn place(&self, stream: u32) -> StreamPlace {
        if stream > self.last_processed {
            return StreamPlace::Ignored;
        }
        if stream > self.last || stream.is_multiple_of(2) {
            return StreamPlace::Idle;
        }
        match self.streams.find(stream.into()) {
            Some(at) => StreamPlace::Open(at),
            None if self.late.contains(&stream) => StreamPlace::Late,
            None => StreamPlace::Closed,
        }
    }

    /// A request has arrived.
    pub(super) fn begin_request(&mut self) {
        self.requests = self.requests.saturating_add(1);
        self.set_timer(Timer::Idle, Tick::NEVER);
    }

    /// Resumes an exchange with the result that it waited for.
    #[cold]
    pub(super) fn resume(&mut self, at: Slot, supply: Supply<F>, now: Now, cx: &Cx<'_, F>) {
        let stream = self.streams.get_mut(at);
        let discard_bytes_max = cx.site.limits.discard_body_bytes_max;
        let is_too_large = u64::from(stream.received) > discard_bytes_max;
        let ongoing = stream.ongoing.as_mut().expect("an exchange waits");
        let rules = ongoing.course.rules;
        let step = if is_too_large {
            if let Supply::Read(buffer, _) = supply {
                cx.scratch.give_read_buffer(buffer);
            }
            ongoing.exchange.abandon();
            Step::Reply(Reply::Refused(Refusal::ContentTooLarge))
        } else {
            let (changed, mut room) = (cx.changed_sites(), None);
            let of_host = cx.of_host(rules.host, &changed, &mut room);
            ongoing.exchange.resume(supply, now, of_host)
        };
        self.follow(at, step, rules, now, cx);
    }

    /// Performs a step of an exchange.
    pub(super) fn follow(
        &mut self,
        at: Slot,
        step: Step<F>,
        rules: ReplyRules,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        let ticket = Ticket::default();
        let op = match step {
            Step::Reply(reply) => return self.reply(at, reply, rules, now, cx),
            Step::Cut => {
                let outcome = ReplyOutcome::Truncated;
                return self.reset(at, ErrorCode::INTERNAL_ERROR, outcome, now, cx);
            }
            Step::Hold(ms) => {
                if self.may_wait(at, now, cx) {
                    self.keep_exchange(at, None, rules);
                    self.streams.hold(at, now.tick.after(ms));
                }
                return;
            }
            Step::Open(req) => Op::Open(ticket, req),
            Step::Read(req) => Op::Read(ticket, req),
            Step::Stat(file) => Op::Stat(ticket, file),
        };
        if self.may_wait(at, now, cx) {
            self.keep_exchange(at, Some(op), rules);
            self.streams.want(at);
        }
    }

    fn keep_exchange(&mut self, at: Slot, op: Option<Op<F>>, rules: ReplyRules) {
        let stream = self.streams.get_mut(at);
        let ongoing = stream.ongoing.as_mut().expect("an exchange waits");
        (ongoing.op, ongoing.course) = (op, Course { rules, ..Course::default() });
    }

    /// Counts a stream among those that wait. If there are too many, the request is refused: the
    /// client may send it again.
    fn may_wait(&mut self, at: Slot, now: Now, cx: &Cx<'_, F>) -> bool {
        if self.streams.get(at).is_counted {
            return true;
        }
        if self.exchanges.load(Relaxed) >= cx.site.http2.exchanges_max {
            cx.tally.add(Counter::StreamsRefused, 1);
            self.reset(at, ErrorCode::REFUSED_STREAM, ReplyOutcome::Cut, now, cx);
            return false;
        }
        self.exchanges.fetch_add(1, Relaxed);
        self.streams.get_mut(at).is_counted = true;
        true
    }

    /// Sends the response for a reply, by the site of the request's host.
    fn reply(&mut self, at: Slot, reply: Reply<F>, rules: ReplyRules, now: Now, cx: &Cx<'_, F>) {
        if let Reply::Refused(refusal) = reply
            && let Some(ongoing) = &mut self.streams.get_mut(at).ongoing
        {
            ongoing.exchange.note.refuse(refusal);
        }
        let coding = match &reply {
            Reply::File(file) => file.coding,
            _ => None,
        };
        let (response, file_name) = {
            let (changed, mut room) = (cx.changed_sites(), None);
            let of_host = cx.of_host(rules.host, &changed, &mut room);
            let response = Terms::new(Persistence::Implied, rules, now, of_host).response(reply);
            let name = self.file_name(at, coding, &response, of_host);
            (response, name)
        };
        let reply = StreamReply::new(response, cx.scratch.take_buffer(), cx);
        self.respond(at, StreamReply { file_name, ..reply }, cx);
    }

    /// The name by which the file of a response can be opened again, if its stream may have to
    /// close it meanwhile.
    fn file_name(
        &self,
        at: Slot,
        coding: Option<Coding>,
        response: &Response<F>,
        cx: &Cx<'_, F>,
    ) -> Option<Box<[u8]>> {
        let is_range = |segment: &Segment<F>| matches!(segment, Segment::File { .. });
        if !self.files.are_scarce() || !response.outbox.segments().any(is_range) {
            return None;
        }
        self.streams.get(at).ongoing.as_ref()?.exchange.file_name(coding, cx)
    }

    /// Sends a reply.
    pub(super) fn respond(&mut self, at: Slot, reply: StreamReply<F>, cx: &Cx<'_, F>) {
        let StreamReply { out, block_bytes, status, file_name } = reply;
        self.uncount(at);
        self.streams.send(at, out, block_bytes);
        if let Some(name) = file_name {
            self.streams.name_file(at, name);
        }
        let stream = self.streams.get_mut(at);
        stream.status = status.0;
        let body_bytes = stream.body_bytes;
        if let Some(ongoing) = &mut stream.ongoing {
            ongoing.exchange.note.promise(block_bytes, body_bytes);
            // The response may stall.
            ongoing.exchange.request.release();
        }
        if let Some(ongoing) = stream.ongoing.take_if(|it| !it.exchange.note.is_taken()) {
            cx.scratch.give_ongoing(ongoing);
        }
    }

    /// A stream does not wait for the disk any more.
    fn uncount(&mut self, at: Slot) {
        if mem::take(&mut self.streams.get_mut(at).is_counted) {
            self.exchanges.fetch_sub(1, Relaxed);
        }
    }

    /// Gives up the operation that a stream has in flight, and performs this step in its place. A
    /// response that has begun is broken off.
    pub(super) fn give_up(&mut self, at: Slot, step: Step<F>, now: Now, cx: &Cx<'_, F>) {
        let loads = self.streams.loads(at);
        self.streams.give_up(at);
        if self.streams.is_reset(at) {
            let stream = self.streams.close(at);
            return self.forget(stream, cx);
        }
        if loads {
            return self.reset(at, ErrorCode::INTERNAL_ERROR, ReplyOutcome::Cut, now, cx);
        }
        let ongoing = self.streams.get_mut(at).ongoing.as_mut().expect("an exchange waits");
        ongoing.exchange.abandon();
        let rules = ongoing.course.rules;
        self.follow(at, step, rules, now, cx);
    }
}

// Ends of streams.
impl<F: File> Session<F> {
    /// Resets a stream because of a frame of the client, which is charged.
    pub(super) fn reset_faulty(
        &mut self,
        at: Slot,
        code: ErrorCode,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Result<(), ErrorCode> {
        self.reset(at, code, ReplyOutcome::Aborted, now, cx);
        self.charge(Glitch::Fault, cx)
    }

    /// Resets a stream.
    pub(super) fn reset(
        &mut self,
        at: Slot,
        code: ErrorCode,
        outcome: ReplyOutcome,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        let stream = self.streams.get(at);
        let (id, is_ended) = (number(stream.id), stream.is_ended);
        self.write_reset(id, is_ended, code, cx);
        self.drop_stream(at, outcome, now, cx);
    }

    /// Drops a stream whose response is not complete, or whose request is not. It keeps its place
    /// until its operation is done.
    pub(super) fn drop_stream(
        &mut self,
        at: Slot,
        outcome: ReplyOutcome,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        let stream = self.streams.get_mut(at);
        if stream.owes_response() {
            cx.tally.add(Counter::RepliesCut, 1);
            let (status, sent) = (stream.status, stream.taken());
            if let Some(ongoing) = stream.ongoing.take() {
                let facts = ReplyFacts { status, sent, outcome, keep_alive: false };
                Self::log(ongoing, &facts, now, cx);
            }
        }
        if let Some(stream) = self.streams.reset(at) {
            self.forget(stream, cx);
        }
    }

    /// Returns the buffers of a stream that was closed.
    pub(super) fn forget(&mut self, mut stream: Stream<F>, cx: &Cx<'_, F>) {
        if stream.is_counted {
            self.exchanges.fetch_sub(1, Relaxed);
        }
        cx.scratch.give_read_buffer(stream.take_loaded());
        cx.scratch.give_buffer(stream.take_buffer());
    }

    /// The last frame of a response is in the frames of the next `Send`.
    pub(super) fn finish(&mut self, at: Slot, now: Now, cx: &Cx<'_, F>) {
        let stream = self.streams.get_mut(at);
        let (id, is_ended, is_enough) = (number(stream.id), stream.is_ended, stream.is_enough);
        self.ends.push(FinishedReply {
            status: stream.status,
            body_bytes: stream.body_bytes,
            sent: stream.framed(),
            taken: stream.taken(),
            ongoing: stream.ongoing.take(),
        });
        if is_ended || is_enough {
            let stream = self.streams.close(at);
            self.forget(stream, cx);
        } else {
            cx.scratch.give_read_buffer(stream.take_loaded());
            cx.scratch.give_buffer(stream.take_buffer());
            self.streams.linger(at, now.tick.after(cx.site.deadlines.linger_ms_max));
        }
        if !is_ended && is_enough {
            // The client can stop: the response does not depend on the rest (RFC 9113 §8.1).
            self.write_reset(id, false, ErrorCode::NO_ERROR, cx);
        }
    }

    /// Counts and logs the replies whose frames were in the last `Send`.
    pub(super) fn finish_replies(&mut self, outcome: ReplyOutcome, now: Now, cx: &Cx<'_, F>) {
        let is_complete = outcome == ReplyOutcome::Complete;
        let keep_alive = is_complete && self.leaving.is_none();
        for FinishedReply { status, body_bytes, sent, taken, ongoing } in self.ends.drain(..) {
            if is_complete {
                cx.tally.reply(status, body_bytes);
            } else {
                cx.tally.add(Counter::RepliesCut, 1);
            }
            if let Some(ongoing) = ongoing {
                let sent = if is_complete { sent } else { taken };
                let facts = ReplyFacts { status, sent, outcome, keep_alive };
                Self::log(ongoing, &facts, now, cx);
            }
        }
    }

    /// Logs an exchange that is over.
    pub(super) fn log(ongoing: Box<Ongoing<F>>, facts: &ReplyFacts, now: Now, cx: &Cx<'_, F>) {
        let note = &ongoing.exchange.note;
        if note.is_taken() {
            note.log(cx.log, facts, now);
        }
        cx.scratch.give_ongoing(ongoing);
    }

    /// The stream whose operation was due gets 503, or is broken off.
    pub(super) fn end_wait(&mut self, at: Slot, now: Now, cx: &Cx<'_, F>) {
        let reply = Reply::Nothing(Status::SERVICE_UNAVAILABLE);
        self.give_up(at, Step::Reply(reply), now, cx);
    }
}
