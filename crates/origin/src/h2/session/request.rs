//! Field blocks and contents of requests.
use super::{
    LATE_STREAMS_MAX, Session, content_window,
    exchange::{StreamPlace, StreamReply},
};
use crate::{
    Cx, Destination, Exchange, ListenerClass, Peer, Refusal, Reply, ReplyOutcome, Representation,
    Request, Step,
    answer::{Answer, Arrival, Serve, answer},
    course::{Persistence, head_limits},
    h1::reply::Terms,
    h2::{
        budget::Glitch,
        encode::{HitBody, write_hit},
    },
    multi::Slot,
    ongoing::Ongoing,
    plan::Plan,
    record::{ReplyFacts, RequestText},
    reply_rules::ReplyRules,
    resolve::Role,
};
use alloc::{boxed::Box, sync::Arc};
use regatta_http::{
    Method, Status,
    h1::{Expectation, HeadFault},
    h2::{
        BlockFault, ContentTally, StreamHead, decode_request, decode_trailers,
        frame::{ErrorCode, WINDOW_BYTES_DEFAULT, write_rst_stream},
    },
    priority::Priority,
};
use regatta_metrics::Counter;
use regatta_op::{CloseReason, File, Now, Outbox};

/// Name of the protocol in logs.
const VERSION: &str = "HTTP/2.0";

/// The most bytes of a request's text that are kept for the log, if no other stream is open.
const NOTE_BYTES_MAX: usize = 16 << 10;
/// The same where many streams are open.
const NOTE_BYTES_MIN: usize = 512;

/// The most bytes of a request's text that are kept for the log: the n-th of the streams that are
/// open keeps an n-th. A client can repeat a long text for a byte, and have all responses stall.
fn note_bytes_max(open: u32) -> usize {
    (NOTE_BYTES_MAX / (open as usize + 1)).max(NOTE_BYTES_MIN)
}

/// A request and its answer.
pub(super) struct Asked<F> {
    answer: Answer<StreamReply<F>, F>,
    rules: ReplyRules,
    /// The exchange, if it waits or will be logged.
    ongoing: Option<Box<Ongoing<F>>>,
    priority: Priority,
    content: ContentTally,
    /// No content is wanted.
    is_enough: bool,
}

/// Serves the plan for a cached file.
struct StreamEncoder<'a, F> {
    head: &'a StreamHead<'a>,
    ongoing: Option<Box<Ongoing<F>>>,
    /// The most bytes of the request's text that the log gets.
    note_bytes_max: usize,
}

impl<F: File> Serve<F> for StreamEncoder<'_, F> {
    type Served = StreamReply<F>;

    fn note(&mut self, client: Peer, now: Now, cx: &Cx<'_, F>) {
        let head = self.head;
        let text = RequestText {
            method: head.method_text,
            target: head.target,
            host: head.host,
            version: VERSION,
            referer: head.referer,
            user_agent: head.user_agent,
        };
        let text = text.cut(self.note_bytes_max);
        self.exchange(cx).note.take(&text, client, 0, now);
    }

    fn exchange(&mut self, cx: &Cx<'_, F>) -> &mut Exchange<F> {
        &mut self.ongoing.get_or_insert_with(|| cx.scratch.take_ongoing()).exchange
    }

    /// Never: frames are sent from memory.
    fn takes_files(&self, _: ListenerClass) -> bool {
        false
    }

    /// Nothing: a field block is built with the file's facts when it is first used.
    fn prepare(&mut self, _: &mut Arc<Representation<F>>, _: Now, _: &Cx<'_, F>) {}

    fn serve(
        &mut self,
        plan: &Plan<'_, F>,
        role: Role,
        rules: &ReplyRules,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> StreamReply<F> {
        let terms = Terms::new(Persistence::Implied, *rules, now, cx);
        let mut block = cx.scratch.take_buffer();
        let Some(HitBody { coded, body_bytes }) = write_hit(&terms, plan, role, &mut block) else {
            return StreamReply::new(terms.planned(plan, role), block, cx);
        };
        let block_bytes = block.len() as u64;
        let mut out = Outbox::new(block);
        if body_bytes > 0 {
            out.push(coded.segment());
        }
        StreamReply { out, block_bytes, status: Status::OK, file_name: None }
    }
}

// Field blocks.
impl<F: File> Session<F> {
    /// Takes a whole field block.
    pub(super) fn on_block(
        &mut self,
        stream: u32,
        block: &[u8],
        ends_stream: bool,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Result<(), ErrorCode> {
        // A stream that was never opened, but is below the last one (RFC 9113 §5.1.1).
        let was_skipped = stream < self.first;
        match self.place(stream) {
            StreamPlace::Idle if stream.is_multiple_of(2) => Err(ErrorCode::PROTOCOL_ERROR),
            StreamPlace::Idle => self.on_request(stream, block, ends_stream, now, cx),
            StreamPlace::Open(at) => self.on_trailers(at, block, ends_stream, now, cx),
            StreamPlace::Late => {
                if ends_stream {
                    self.late.retain(|late| *late != stream);
                }
                self.skip(block)?;
                self.charge(Glitch::Hint, cx)
            }
            StreamPlace::Ignored => {
                self.skip(block)?;
                self.charge(Glitch::Hint, cx)
            }
            StreamPlace::Closed if was_skipped => Err(ErrorCode::PROTOCOL_ERROR),
            StreamPlace::Closed => Err(ErrorCode::STREAM_CLOSED),
        }
    }

    /// Decodes a block of no interest, for the sake of the table.
    fn skip(&mut self, block: &[u8]) -> Result<(), ErrorCode> {
        self.decoder.skip(block).map_err(|_| ErrorCode::COMPRESSION_ERROR)
    }

    fn on_trailers(
        &mut self,
        at: Slot,
        block: &[u8],
        ends_stream: bool,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Result<(), ErrorCode> {
        if self.streams.get(at).is_ended {
            self.skip(block)?;
            return self.reset_faulty(at, ErrorCode::STREAM_CLOSED, now, cx);
        }
        let limits = head_limits(cx.site);
        let mut room = cx.scratch.blocks.borrow_mut();
        let decoded = decode_trailers(&mut self.decoder, block, &limits, &mut room);
        drop(room);
        self.decoder.trim();
        let fault = match decoded {
            Err(BlockFault::Compression(_)) => return Err(ErrorCode::COMPRESSION_ERROR),
            Err(fault) => Some(fault.code().unwrap_or(ErrorCode::ENHANCE_YOUR_CALM)),
            // Trailers end the stream (RFC 9113 §8.1).
            Ok(()) if !ends_stream || self.streams.get(at).content.finish().is_err() => {
                Some(ErrorCode::PROTOCOL_ERROR)
            }
            Ok(()) => None,
        };
        match fault {
            Some(code) => self.reset_faulty(at, code, now, cx),
            None => {
                self.end_request(at, cx);
                Ok(())
            }
        }
    }

    /// Takes the field block of a new request.
    fn on_request(
        &mut self,
        stream: u32,
        block: &[u8],
        ends_stream: bool,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Result<(), ErrorCode> {
        let next = if self.last == 0 { 1 } else { self.last + 2 };
        if stream != next {
            self.first = stream;
        }
        self.last = stream;
        self.opened += 1;
        if !self.streams.has_room() {
            self.skip(block)?;
            self.refuse(stream, ends_stream, cx);
            // Before the client knows the limit, it is hardly to blame. It may never say so.
            let knows = self.flags.is_acknowledged;
            return self.charge(if knows { Glitch::Excess } else { Glitch::Hint }, cx);
        }
        let asked = self.ask(block, ends_stream, now, cx);
        self.decoder.trim();
        let answer = match asked {
            Ok(asked) => asked,
            Err(BlockFault::Compression(_)) => return Err(ErrorCode::COMPRESSION_ERROR),
            Err(BlockFault::Malformed(_)) => {
                self.on_malformed(stream, ends_stream, now, cx);
                return self.charge(Glitch::Fault, cx);
            }
            Err(BlockFault::Refused { fault, head_only }) => {
                self.charge(Glitch::LargeHead, cx)?;
                self.refuse_head(fault, head_only, now, cx)
            }
        };
        self.open(stream, ends_stream, answer, now, cx);
        Ok(())
    }

    /// Decodes the head of a request, and begins to answer it.
    fn ask(
        &mut self,
        block: &[u8],
        ends_stream: bool,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Result<Asked<F>, BlockFault> {
        let refusal = self.refusal();
        let note_bytes_max = note_bytes_max(self.streams.all().len());
        let limits = head_limits(cx.site);
        let mut room = cx.scratch.blocks.borrow_mut();
        let head = decode_request(&mut self.decoder, block, &limits, &mut room)?;
        let content = ContentTally::new(head.content_length);
        if ends_stream {
            content.finish().map_err(BlockFault::Malformed)?;
        }
        let discard_bytes_max = cx.site.limits.discard_body_bytes_max;
        let too_large = head.content_length.is_some_and(|length| length > discard_bytes_max);
        let request = Request {
            method: head.method,
            target: head.names,
            conditions: &head.conditions,
            range: head.range,
            accept_encoding: head.accept_encoding,
            destination: Destination::Fields(head.fields),
            expects_unknown: head.expectation == Expectation::Unknown,
            too_large,
        };
        let arrival =
            Arrival { request: &request, authority: head.host, peer: &self.peer, refusal };
        let mut rules = ReplyRules::default();
        let mut encoder = StreamEncoder { head: &head, ongoing: None, note_bytes_max };
        let answer = answer(&arrival, &mut rules, now, cx, &mut encoder);
        // The final status comes instead of `100 Continue` (RFC 9110 §10.1.1), and bytes after a
        // `CONNECT` are no content.
        let is_withheld =
            head.expectation == Expectation::Continue || head.method == Method::Connect;
        Ok(Asked {
            answer,
            rules,
            ongoing: encoder.ongoing,
            priority: head.priority.unwrap_or_default(),
            content,
            is_enough: is_withheld || too_large,
        })
    }

    /// The refusal of every request now.
    fn refusal(&self) -> Option<Refusal> {
        if self.flags.is_limited {
            return Some(Refusal::TooMany);
        }
        self.flags.turns_away.then_some(Refusal::Overload)
    }

    /// Refuses a request whose head is over a limit.
    fn refuse_head(&self, fault: HeadFault, head_only: bool, now: Now, cx: &Cx<'_, F>) -> Asked<F> {
        cx.tally.add(Counter::Requests, 1);
        let is_charged = cx.site.limits.client_rate > 0;
        let refusal = if is_charged && !cx.links.may_ask(self.peer, now) {
            cx.tally.add(Counter::RequestsLimited, 1);
            Refusal::TooMany
        } else {
            Refusal::Head(fault)
        };
        Asked {
            answer: Answer::Step(Step::Reply(Reply::Refused(refusal))),
            rules: ReplyRules { head_only, ..ReplyRules::unread(self.peer.class(), cx.site) },
            ongoing: self.unread(now, cx),
            priority: Priority::default(),
            content: ContentTally::new(None),
            is_enough: true,
        }
    }

    /// A note for the log of a request that cannot be read, if it wants records.
    fn unread(&self, now: Now, cx: &Cx<'_, F>) -> Option<Box<Ongoing<F>>> {
        cx.log.wants().then(|| {
            let mut ongoing = cx.scratch.take_ongoing();
            ongoing.exchange.note.take(&RequestText::default(), self.peer, 0, now);
            ongoing
        })
    }

    /// Resets the stream of a malformed request (RFC 9113 §8.1.1).
    fn on_malformed(&mut self, stream: u32, ends_stream: bool, now: Now, cx: &Cx<'_, F>) {
        self.begin_request();
        for counter in [Counter::StreamsOpened, Counter::Requests, Counter::RepliesCut] {
            cx.tally.add(counter, 1);
        }
        if let Some(ongoing) = self.unread(now, cx) {
            let outcome = ReplyOutcome::Aborted;
            let facts = ReplyFacts { status: 0, sent: 0, outcome, keep_alive: false };
            Self::log(ongoing, &facts, now, cx);
        }
        self.write_reset(stream, ends_stream, ErrorCode::PROTOCOL_ERROR, cx);
    }

    /// Refuses a request without processing it: the client may send it again (RFC 9113 §8.7).
    fn refuse(&mut self, stream: u32, ends_stream: bool, cx: &Cx<'_, F>) {
        cx.tally.add(Counter::StreamsRefused, 1);
        self.write_reset(stream, ends_stream, ErrorCode::REFUSED_STREAM, cx);
    }

    /// Opens the stream of a request, and sends the answer or waits for it.
    fn open(&mut self, stream: u32, ends_stream: bool, asked: Asked<F>, now: Now, cx: &Cx<'_, F>) {
        let Asked { answer, rules, ongoing, priority, content, is_enough } = asked;
        let window = self.settings.window_bytes.into();
        let Some(at) = self.streams.open(stream.into(), priority, window) else {
            debug_assert!(false, "there is room");
            return self.refuse(stream, ends_stream, cx);
        };
        cx.tally.add(Counter::StreamsOpened, 1);
        self.begin_request();
        let open = self.streams.get_mut(at);
        (open.is_ended, open.is_enough) = (ends_stream, is_enough && !ends_stream);
        (open.content, open.ongoing) = (content, ongoing);
        match answer {
            Answer::Hit(reply) => self.respond(at, reply, cx),
            Answer::Step(step) => self.follow(at, step, rules, now, cx),
        }
        let requests_max = cx.site.limits.requests_max;
        if requests_max > 0 && self.requests >= requests_max {
            self.leave(CloseReason::Finished);
        }
    }

    /// Writes RST_STREAM. The client may have sent more for the stream, unless it has ended it.
    pub(super) fn write_reset(
        &mut self,
        stream: u32,
        is_ended: bool,
        code: ErrorCode,
        cx: &Cx<'_, F>,
    ) {
        // With `NO_ERROR` the response is complete, and the client can stop (RFC 9113 §8.1).
        let is_broken_off = code != ErrorCode::NO_ERROR;
        cx.tally.add(Counter::StreamsResetByUs, u64::from(is_broken_off));
        write_rst_stream(&mut self.control, stream, code);
        if !is_ended {
            self.note_late(stream);
        }
    }

    /// Remembers a stream that the server has reset before the client ended it.
    pub(super) fn note_late(&mut self, stream: u32) {
        if self.late.len() >= LATE_STREAMS_MAX {
            self.late.remove(0);
        }
        self.late.push(stream);
    }
}

// Content.
impl<F: File> Session<F> {
    /// Counts content against the window of the connection, which is permitted again when the next
    /// frames are sent.
    pub(super) fn permit_content(&mut self, window_bytes: u32) -> Result<(), ErrorCode> {
        let credit = self.credit.saturating_add(window_bytes);
        if credit > WINDOW_BYTES_DEFAULT {
            return Err(ErrorCode::FLOW_CONTROL_ERROR);
        }
        self.credit = credit;
        Ok(())
    }

    /// Discards content, and checks it. `bytes` are without the padding.
    pub(super) fn on_data(
        &mut self,
        stream: u32,
        bytes: u64,
        window_bytes: u32,
        ends_stream: bool,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Result<(), ErrorCode> {
        let at = match self.place(stream) {
            StreamPlace::Open(at) => at,
            StreamPlace::Idle => return Err(ErrorCode::PROTOCOL_ERROR),
            StreamPlace::Closed => return Err(ErrorCode::STREAM_CLOSED),
            StreamPlace::Late => {
                if ends_stream {
                    self.late.retain(|late| *late != stream);
                }
                return Ok(());
            }
            StreamPlace::Ignored => return Ok(()),
        };
        let open = self.streams.get_mut(at);
        if open.is_ended {
            return self.reset_faulty(at, ErrorCode::STREAM_CLOSED, now, cx);
        }
        open.received = open.received.saturating_add(window_bytes);
        let mut checked = open.content.take(bytes);
        if checked.is_ok() && ends_stream {
            checked = open.content.finish();
        }
        if checked.is_err() {
            return self.reset_faulty(at, ErrorCode::PROTOCOL_ERROR, now, cx);
        }
        // The client may not know our window yet.
        if open.received > content_window(cx).max(WINDOW_BYTES_DEFAULT) {
            return self.reset_faulty(at, ErrorCode::FLOW_CONTROL_ERROR, now, cx);
        }
        if ends_stream {
            self.end_request(at, cx);
        } else if u64::from(open.received) > cx.site.limits.discard_body_bytes_max {
            open.is_enough = true;
            if !open.owes_response() {
                self.reset(at, ErrorCode::NO_ERROR, ReplyOutcome::Complete, now, cx);
            }
        }
        Ok(())
    }

    /// The request is complete.
    fn end_request(&mut self, at: Slot, cx: &Cx<'_, F>) {
        let open = self.streams.get_mut(at);
        open.is_ended = true;
        if !open.owes_response() {
            let stream = self.streams.close(at);
            self.forget(stream, cx);
        }
    }
}
