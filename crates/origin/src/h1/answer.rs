//! From a head to its response: through an exchange, or an error page without one.
use crate::{
    Conn, Cx, Refusal, Reply, Step, Supply,
    answer::{Answer, Arrival, answer},
    course::{After, Announced, Course},
    h1::{
        conn::State,
        reply::{Encoder, Response, Terms},
    },
    input::Content,
    reply_rules::ReplyRules,
};
use regatta_http::{Status, h1::RequestHead};
use regatta_metrics::Counter;
use regatta_op::{CloseReason, File, Now, Op, Ticket};

impl<F: File> Conn<F> {
    /// Answers a complete request head.
    #[inline]
    pub(crate) fn on_head(&mut self, head: &RequestHead<'_>, now: Now, cx: &Cx<'_, F>) {
        self.requests = self.requests.saturating_add(1);
        let mut course = Course::decide(head, self.is_last(cx), &cx.site.limits);
        let arrival = Arrival {
            request: &course.request(head),
            authority: head.host,
            peer: &self.peer,
            refusal: self.refusal(),
        };
        let mut encoder = Encoder {
            head,
            persistence: course.persistence,
            sent: self.sent,
            out: &mut self.out,
            ongoing: &mut self.ongoing,
        };
        match answer(&arrival, &mut course.rules, now, cx, &mut encoder) {
            Answer::Hit((status, body_bytes)) => {
                self.respond(status, body_bytes, &course, now, cx);
            }
            Answer::Step(Step::Reply(Reply::Refused(refusal)))
                if self.reason == CloseReason::Refused =>
            {
                self.refuse(refusal, CloseReason::Refused, &course, now, cx);
            }
            Answer::Step(step) => self.follow(step, &course, now, cx),
        }
    }

    /// The refusal of the next request, if it is refused whatever it asks for.
    #[inline]
    fn refusal(&self) -> Option<Refusal> {
        (self.reason == CloseReason::Refused)
            .then(|| if self.is_limited() { Refusal::TooMany } else { Refusal::Overload })
    }

    /// Refuses a request that will not be complete, or is malformed.
    pub(crate) fn on_no_head(
        &mut self,
        refusal: Refusal,
        reason: CloseReason,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        cx.tally.add(Counter::Requests, 1);
        self.note_unread(now, cx);
        let is_head = matches!(refusal, Refusal::Head(_));
        let is_charged = is_head && cx.site.limits.client_rate > 0;
        let refusal = if is_charged && !cx.links.may_ask(self.peer, now) {
            cx.tally.add(Counter::RequestsLimited, 1);
            Refusal::TooMany
        } else {
            refusal
        };
        let rules = ReplyRules::unread(self.peer.class(), cx.site);
        self.refuse(refusal, reason, &Course { rules, ..Course::default() }, now, cx);
    }

    /// Resumes the exchange, and then parses bytes received meanwhile.
    #[cold]
    pub(crate) fn resume(&mut self, supply: Supply<F>, now: Now, cx: &Cx<'_, F>) {
        let last = self.is_last(cx);
        let ongoing = self.ongoing.as_mut().expect("an exchange waits");
        let course = if last { ongoing.course.ending() } else { ongoing.course };
        let step = {
            let (changed, mut room) = (cx.changed_sites(), None);
            let of_host = cx.of_host(course.rules.host, &changed, &mut room);
            ongoing.exchange.resume(supply, now, of_host)
        };
        self.follow(step, &course, now, cx);
        if !self.waits_for_disk() && self.input().is_some() {
            self.advance_stash(now, cx);
        }
    }

    /// Performs a step of an exchange.
    #[inline(never)]
    fn follow(&mut self, step: Step<F>, course: &Course, now: Now, cx: &Cx<'_, F>) {
        let op = match step {
            Step::Reply(reply) => {
                if let Reply::Refused(refusal) = reply {
                    self.note_refusal(refusal);
                }
                let response = encode(reply, course, now, cx);
                self.out = response.outbox;
                self.respond(response.status, response.body_bytes, course, now, cx);
                return self.settle(cx);
            }
            Step::Cut => return self.close(CloseReason::Truncated, now, cx),
            Step::Hold(ms) => {
                self.set_state(State::Hold, now.tick.after(ms));
                None
            }
            Step::Open(req) => Some(Op::Open(Ticket::default(), req)),
            Step::Read(req) => Some(Op::Read(Ticket::default(), req)),
            Step::Stat(file) => Some(Op::Stat(Ticket::default(), file)),
        };
        if op.is_some() {
            self.set_state(State::Disk, now.tick.after(cx.site.deadlines.disk_ms_max));
        }
        let ongoing = self.ongoing.as_mut().expect("an exchange waits");
        (ongoing.op, ongoing.course) = (op, *course);
    }

    /// The disk is not waited for any more: sends this instead, then ends.
    #[cold]
    pub(crate) fn give_up_disk(
        &mut self,
        reply: Reply<F>,
        reason: CloseReason,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        let ongoing = self.ongoing.as_mut().expect("an exchange waits");
        ongoing.exchange.abandon();
        ongoing.op = None;
        let course = ongoing.course;
        self.drop_stash();
        self.answer_last(reply, reason, &course, now, cx);
        self.settle(cx);
    }

    /// Sends the outbox, after the request's content has been discarded.
    #[inline(always)]
    fn respond(
        &mut self,
        status: Status,
        body_bytes: u64,
        course: &Course,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        self.promise(status, body_bytes);
        self.after = course.after;
        self.reason = if self.draining { CloseReason::Drained } else { CloseReason::Finished };
        if let Announced::Some(body) = course.content {
            self.set_state(State::Content, now.tick.after(cx.site.deadlines.head_ms_max));
            let content = Content::new(body, cx.site.limits.discard_body_bytes_max);
            let input = self.input_mut(cx);
            (input.content, input.course) = (content, *course);
        } else {
            self.set_state(State::Send, now.tick.after(cx.site.deadlines.send_window_ms));
        }
    }

    /// Refuses a request and ends the connection: where the next one would start is not known.
    #[cold]
    pub(crate) fn refuse(
        &mut self,
        refusal: Refusal,
        reason: CloseReason,
        course: &Course,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        self.note_refusal(refusal);
        self.answer_last(Reply::Refused(refusal), reason, course, now, cx);
    }

    /// Sends an error of the host's, then ends the connection. It has the fields by which a script
    /// may read it, as any other response has.
    fn answer_last(
        &mut self,
        reply: Reply<F>,
        reason: CloseReason,
        course: &Course,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        let response = encode(reply, &course.ending(), now, cx);
        self.out = response.outbox;
        self.after = After::Linger;
        self.reason = reason;
        self.promise(response.status, response.body_bytes);
        self.set_state(State::Send, now.tick.after(cx.site.deadlines.send_window_ms));
    }

    /// True if this is the last exchange of the connection, whatever the request says.
    #[inline(always)]
    fn is_last(&self, cx: &Cx<'_, F>) -> bool {
        let requests_max = cx.site.limits.requests_max;
        self.draining || requests_max > 0 && self.requests >= requests_max
    }
}

/// The response for a reply, by the site of the request's host.
fn encode<F: File>(reply: Reply<F>, course: &Course, now: Now, cx: &Cx<'_, F>) -> Response<F> {
    let (changed, mut room) = (cx.changed_sites(), None);
    let cx = cx.of_host(course.rules.host, &changed, &mut room);
    Terms::new(course.persistence, course.rules, now, cx).response(reply)
}
