//! From a plan to bytes: heads, bodies and error pages.
use crate::{
    Body, Cx, ErrorPage, Exchange, FileReply, ListenerClass, Peer, Refusal, Reply, Representation,
    Scratch, Site,
    answer::Serve,
    auth,
    cors::Grant,
    course::Persistence,
    entry::heads::{Heads, NOT_MODIFIED_DATE_AT, OK_DATE_AT, start_head},
    h1::multipart::{Boundary, write_content_range, write_unsatisfied_range},
    ongoing::Ongoing,
    plan::{Plan, Shape},
    record::RequestText,
    reply_rules::ReplyRules,
    resolve::Role,
    site::is_hsts,
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use regatta_http::{
    Status,
    h1::{RequestHead, end_head, remove_fields, write_decimal, write_decimal_field, write_field},
    range::ByteRange,
};
use regatta_op::{File, Now, Outbox, Segment};

/// The methods that are served.
const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";
/// Value of `Retry-After` for a request that cannot be answered now, seconds.
const RETRY_AFTER_S: &[u8] = b"1";
/// The same where a rule says that nothing can be answered, as during maintenance, seconds.
const RULED_RETRY_AFTER_S: &[u8] = b"60";

/// Conditions that every response of an exchange depends on.
pub(crate) struct Terms<'a, F> {
    pub(crate) site: &'a Site,
    pub(crate) scratch: &'a Scratch<F>,
    pub(crate) now: Now,
    pub(crate) persistence: Persistence,
    pub(crate) rules: ReplyRules,
}

/// A response, ready to be sent.
pub(crate) struct Response<F> {
    pub(crate) outbox: Outbox<F>,
    pub(crate) status: Status,
    /// Bytes of body in the outbox.
    pub(crate) body_bytes: u64,
}

impl<F> Response<F> {
    /// Length of the head, which is the first part of the outbox, bytes.
    pub(crate) fn head_bytes(&self) -> u64 {
        self.outbox.len() - self.body_bytes
    }
}

/// Puts the planned response with a cached file into an empty outbox. Returns status and body
/// bytes.
pub(crate) struct Encoder<'a, F> {
    pub(crate) head: &'a RequestHead<'a>,
    pub(crate) persistence: Persistence,
    /// Bytes that the connection has sent before.
    pub(crate) sent: u64,
    pub(crate) out: &'a mut Outbox<F>,
    pub(crate) ongoing: &'a mut Option<Box<Ongoing<F>>>,
}

impl<F: File> Serve<F> for Encoder<'_, F> {
    type Served = (Status, u64);

    #[inline(always)]
    fn note(&mut self, client: Peer, now: Now, cx: &Cx<'_, F>) {
        let head = self.head;
        let text = RequestText {
            method: head.method_text.as_bytes(),
            target: head.target,
            host: head.host,
            version: head.version.name(),
            referer: head.referer,
            user_agent: head.user_agent,
        };
        let sent = self.sent;
        self.exchange(cx).note.take(&text, client, sent, now);
    }

    #[inline(always)]
    fn exchange(&mut self, cx: &Cx<'_, F>) -> &mut Exchange<F> {
        &mut self.ongoing.get_or_insert_with(|| cx.scratch.take_ongoing()).exchange
    }

    #[inline(always)]
    fn takes_files(&self, class: ListenerClass) -> bool {
        class == ListenerClass::CLEAR
    }

    #[inline(always)]
    fn prepare(&mut self, file: &mut Arc<Representation<F>>, now: Now, cx: &Cx<'_, F>) {
        if file.redated() != now.unix {
            Representation::redate(file, now.unix, &cx.scratch.date(now.unix));
        }
    }

    #[inline(always)]
    fn serve(
        &mut self,
        plan: &Plan<'_, F>,
        role: Role,
        rules: &ReplyRules,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> (Status, u64) {
        let terms = Terms::new(self.persistence, *rules, now, cx);
        if plan.shape == Shape::Whole && role == Role::Itself {
            return terms.whole(plan, role, self.out);
        }
        let response = terms.planned(plan, role);
        *self.out = response.outbox;
        (response.status, response.body_bytes)
    }
}

impl<'a, F> Terms<'a, F> {
    /// Terms of a reply by the site of the request's host.
    #[inline(always)]
    pub(crate) fn new(
        persistence: Persistence,
        rules: ReplyRules,
        now: Now,
        cx: &Cx<'a, F>,
    ) -> Self {
        Self { site: cx.site, scratch: cx.scratch, now, persistence, rules }
    }
}

impl<F: File> Terms<'_, F> {
    /// The response for a reply.
    pub(crate) fn response(&self, reply: Reply<F>) -> Response<F> {
        match reply {
            Reply::File(FileReply { file, coding, shape, role }) => {
                let coded = file.coded(coding).expect("it was chosen of this file");
                self.planned(&Plan { file: &file, coded, shape }, role)
            }
            Reply::Redirect(status, location) => self.page(status, "", |out| {
                // No Cache-Control: it has no validator that a cache could ask with.
                write_field(out, "Location", &location);
            }),
            Reply::Options => self.options(),
            Reply::Refused(refusal) => self.refusal(refusal),
            Reply::Nothing(status) => self.nothing(status),
            Reply::Ruled(status, text) => self.ruled(status, &text),
            Reply::Unauthorized(challenge) => self.page(Status::UNAUTHORIZED, "", |out| {
                write_field(out, "WWW-Authenticate", challenge.as_bytes());
            }),
        }
    }

    fn heads<'p>(plan: &Plan<'p, F>) -> &'p Heads {
        plan.coded.heads(plan.file.facts())
    }

    /// 200 with all of a file.
    #[inline(always)]
    fn whole(&self, plan: &Plan<'_, F>, role: Role, outbox: &mut Outbox<F>) -> (Status, u64) {
        let coded = plan.coded;
        if let Body::Memory(whole) = &coded.body
            && let Some(bytes) = whole.dated(self.now.unix)
            && role == Role::Itself
            && self.persistence == Persistence::Implied
            && !self.rules.head_only
            && !self.rules.bare
            && self.rules.cors.is_none()
        {
            outbox.push(Segment::mem(bytes.clone()));
            return (Status::OK, coded.len());
        }
        self.pieces(plan, role, outbox)
    }

    /// [`whole`](Self::whole) for a response that is not kept in one piece.
    fn pieces(&self, plan: &Plan<'_, F>, role: Role, outbox: &mut Outbox<F>) -> (Status, u64) {
        let (coded, ok) = (plan.coded, Self::heads(plan).ok());
        let mut out = self.scratch.take_buffer();
        let copied = match &coded.body {
            Body::Memory(whole) if self.copies(coded.len()) => whole.body(),
            _ => &[][..],
        };
        out.reserve(ok.len() + copied.len() + CONNECTION_BYTES_MAX);
        out.extend_from_slice(ok);
        self.scratch.patch_date(&mut out, OK_DATE_AT, self.now.unix);
        self.vary(&mut out, role);
        self.amend(&mut out);
        out.extend_from_slice(copied);
        outbox.start(out);
        if self.rules.head_only {
            return (Status::OK, 0);
        }
        if copied.is_empty() {
            outbox.push(coded.segment());
        }
        (Status::OK, coded.len())
    }

    /// The response for any plan.
    #[inline(never)]
    pub(crate) fn planned(&self, plan: &Plan<'_, F>, role: Role) -> Response<F> {
        let coded = plan.coded;
        match &plan.shape {
            Shape::Whole => {
                if let Role::Instead(status) = role {
                    return self.instead(plan, status);
                }
                let mut outbox = Outbox::default();
                let (status, body_bytes) = self.whole(plan, role, &mut outbox);
                Response { outbox, status, body_bytes }
            }
            Shape::One(range) => self.answer_range(plan, range, role),
            Shape::Many(ranges) => self.answer_ranges(plan, ranges, role),
            Shape::NotModified => {
                let mut out = self.scratch.take_buffer();
                out.extend_from_slice(Self::heads(plan).not_modified());
                self.scratch.patch_date(&mut out, NOT_MODIFIED_DATE_AT, self.now.unix);
                self.vary(&mut out, role);
                self.amend(&mut out);
                Response { outbox: Outbox::new(out), status: Status::NOT_MODIFIED, body_bytes: 0 }
            }
            Shape::Refused(status) => self.page(*status, "", |out| {
                if *status == Status::RANGE_NOT_SATISFIABLE {
                    write_unsatisfied_range(out, coded.len());
                }
            }),
        }
    }

    /// 206 with one range.
    fn answer_range(&self, plan: &Plan<'_, F>, range: &ByteRange, role: Role) -> Response<F> {
        let coded = plan.coded;
        let mut out = self.start(Status::PARTIAL_CONTENT);
        write_decimal_field(&mut out, "Content-Length", range.len());
        write_content_range(&mut out, range, coded.len());
        out.extend_from_slice(Self::heads(plan).fields());
        self.vary(&mut out, role);
        self.amend(&mut out);
        let outbox = match &coded.body {
            Body::Memory(whole) if self.copies(range.len()) => {
                out.extend_from_slice(slice(whole.body(), range));
                Outbox::new(out)
            }
            _ => {
                let mut outbox = Outbox::new(out);
                outbox.push(coded.range_segment(range));
                outbox
            }
        };
        Response { outbox, status: Status::PARTIAL_CONTENT, body_bytes: range.len() }
    }

    /// 206 with several ranges: `multipart/byteranges`.
    fn answer_ranges(&self, plan: &Plan<'_, F>, ranges: &[ByteRange], role: Role) -> Response<F> {
        let (coded, heads) = (plan.coded, Self::heads(plan));
        let boundary = Boundary::new(self.scratch.boundary());
        let part = |(at, range)| boundary.part(heads.type_line(), range, coded.len(), at == 0);
        let parts: Vec<_> = ranges.iter().enumerate().map(part).collect();
        let end = boundary.end();
        let of_file = ranges.iter().map(ByteRange::len).sum::<u64>();
        let of_parts = parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let body_bytes = of_parts + of_file + end.len() as u64;
        let mut out = self.start(Status::PARTIAL_CONTENT);
        write_decimal_field(&mut out, "Content-Length", body_bytes);
        write_field(&mut out, "Content-Type", boundary.content_type().as_bytes());
        out.extend_from_slice(heads.fields_after_type());
        self.vary(&mut out, role);
        self.amend(&mut out);
        let outbox = match &coded.body {
            Body::Memory(whole) if self.copies(of_file) => {
                for (part, range) in parts.iter().zip(ranges) {
                    out.extend_from_slice(part);
                    out.extend_from_slice(slice(whole.body(), range));
                }
                out.extend_from_slice(&end);
                Outbox::new(out)
            }
            _ => {
                let mut outbox = Outbox::new(out);
                for (part, range) in parts.into_iter().zip(ranges) {
                    outbox.push(Segment::mem(part));
                    outbox.push(coded.range_segment(range));
                }
                outbox.push(Segment::mem(end));
                outbox
            }
        };
        Response { outbox, status: Status::PARTIAL_CONTENT, body_bytes }
    }

    /// An error status with the site's own page, and its ruled fields, but not those on caching.
    fn instead(&self, plan: &Plan<'_, F>, status: Status) -> Response<F> {
        let (coded, facts) = (plan.coded, plan.file.facts());
        let mut out = self.start(status);
        write_decimal_field(&mut out, "Content-Length", coded.len());
        write_field(&mut out, "Content-Type", plan.file.content_type().as_bytes());
        self.write_caching(facts.cache_control.starts_with("private"), &mut out);
        if facts.nosniff {
            write_field(&mut out, "X-Content-Type-Options", b"nosniff");
        }
        out.extend_from_slice(&facts.fields[facts.revalidated..]);
        if status == Status::NOT_FOUND {
            self.write_missing(&mut out);
        }
        end_head(&mut out);
        self.amend(&mut out);
        let mut outbox = Outbox::new(out);
        if self.rules.head_only {
            return Response { outbox, status, body_bytes: 0 };
        }
        outbox.push(coded.segment());
        Response { outbox, status, body_bytes: coded.len() }
    }

    /// The owner's page for a status, or a small one with the status and `why`, which must be a
    /// constant: a body never contains bytes from the peer. `fields` adds field lines.
    fn page(
        &self,
        status: Status,
        why: &'static str,
        fields: impl FnOnce(&mut Vec<u8>),
    ) -> Response<F> {
        if let Some(page) = self.site.errors.iter().find(|page| page.status == status) {
            return self.own_page(page, fields);
        }
        let mut body = Vec::with_capacity(160);
        let mut code = Vec::with_capacity(40);
        write_decimal(&mut code, u64::from(status.0));
        code.push(b' ');
        code.extend_from_slice(status.reason().as_bytes());
        for text in [b"<!doctype html><title>", &code[..], b"</title><h1>", &code, b"</h1>"] {
            body.extend_from_slice(text);
        }
        if !why.is_empty() {
            for text in [b"<p>", why.as_bytes(), b"</p>"] {
                body.extend_from_slice(text);
            }
        }
        body.push(b'\n');
        let mut out = self.start(status);
        write_decimal_field(&mut out, "Content-Length", body.len() as u64);
        write_field(&mut out, "Content-Type", b"text/html; charset=utf-8");
        write_field(&mut out, "X-Content-Type-Options", b"nosniff");
        fields(&mut out);
        self.write_hsts(&mut out);
        end_head(&mut out);
        self.amend(&mut out);
        if self.rules.head_only {
            return Response { outbox: Outbox::new(out), status, body_bytes: 0 };
        }
        out.extend_from_slice(&body);
        Response { outbox: Outbox::new(out), status, body_bytes: body.len() as u64 }
    }

    /// The owner's page for an error.
    fn own_page(&self, page: &ErrorPage, fields: impl FnOnce(&mut Vec<u8>)) -> Response<F> {
        let (status, body) = (page.status, &page.body);
        let mut out = self.start(status);
        out.extend_from_slice(&page.fields);
        fields(&mut out);
        end_head(&mut out);
        self.amend(&mut out);
        if self.rules.head_only {
            return Response { outbox: Outbox::new(out), status, body_bytes: 0 };
        }
        let body_bytes = body.len() as u64;
        if self.copies(body_bytes) {
            out.extend_from_slice(body);
            return Response { outbox: Outbox::new(out), status, body_bytes };
        }
        let mut outbox = Outbox::new(out);
        outbox.push(Segment::mem(Arc::clone(body)));
        Response { outbox, status, body_bytes }
    }

    /// An error status, with the fields that it needs.
    fn nothing(&self, status: Status) -> Response<F> {
        self.page(status, "", |out| match status {
            Status::NOT_FOUND => {
                self.write_caching(false, out);
                self.write_missing(out);
            }
            Status::SERVICE_UNAVAILABLE => write_field(out, "Retry-After", RETRY_AFTER_S),
            _ => {}
        })
    }

    /// The answer of a rule: its text, or the page for an error without one.
    fn ruled(&self, status: Status, text: &str) -> Response<F> {
        let retry = |out: &mut Vec<u8>| {
            if status == Status::SERVICE_UNAVAILABLE {
                write_field(out, "Retry-After", RULED_RETRY_AFTER_S);
            }
        };
        if text.is_empty() && status.class() != 2 {
            return self.page(status, "", retry);
        }
        let mut out = self.start(status);
        if status != Status::NO_CONTENT {
            write_decimal_field(&mut out, "Content-Length", text.len() as u64);
            write_field(&mut out, "Content-Type", b"text/plain; charset=utf-8");
            write_field(&mut out, "X-Content-Type-Options", b"nosniff");
        }
        if status.class() == 2 {
            write_field(&mut out, "Cache-Control", b"no-store");
        }
        retry(&mut out);
        self.write_hsts(&mut out);
        end_head(&mut out);
        self.amend(&mut out);
        if self.rules.head_only {
            return Response { outbox: Outbox::new(out), status, body_bytes: 0 };
        }
        out.extend_from_slice(text.as_bytes());
        Response { outbox: Outbox::new(out), status, body_bytes: text.len() as u64 }
    }

    /// The response to a request that is refused.
    fn refusal(&self, refusal: Refusal) -> Response<F> {
        self.page(refusal.status(), refusal.reason(), |out| match refusal {
            // RFC 9110 §15.5.6.
            Refusal::Method => write_field(out, "Allow", ALLOW),
            Refusal::Overload | Refusal::TooMany => {
                write_field(out, "Retry-After", RETRY_AFTER_S);
            }
            _ => {}
        })
    }

    /// The answer to `OPTIONS`: 204 and the allowed methods (RFC 9110 §9.3.7).
    fn options(&self) -> Response<F> {
        let mut out = self.start(Status::NO_CONTENT);
        write_field(&mut out, "Allow", ALLOW);
        self.write_hsts(&mut out);
        end_head(&mut out);
        self.amend(&mut out);
        Response { outbox: Outbox::new(out), status: Status::NO_CONTENT, body_bytes: 0 }
    }

    fn start(&self, status: Status) -> Vec<u8> {
        let mut out = self.scratch.take_buffer();
        start_head(&mut out, status, self.now, self.site.server_name.as_deref());
        out
    }

    /// Adds how long a page may be kept; shared caches may not keep a `private` one.
    fn write_caching(&self, private: bool, out: &mut Vec<u8>) {
        let value = &*self.site.content.cache_control_page;
        if private {
            write_field(out, "Cache-Control", auth::private(value).as_bytes());
        } else if !value.is_empty() {
            write_field(out, "Cache-Control", value.as_bytes());
        }
    }

    /// Adds `Vary` to a 404 if navigations get the fallback instead.
    fn write_missing(&self, out: &mut Vec<u8>) {
        if !self.site.content.fallback.is_empty() && !self.site.content.fallback_for_all {
            write_field(out, "Vary", VARY_FALLBACK);
        }
    }

    /// Adds the order to use TLS alone, as heads of files have it.
    fn write_hsts(&self, out: &mut Vec<u8>) {
        if let Some(rules) = &self.site.transport {
            rules.write_hsts(out);
        }
    }

    /// Adds to a finished head what depends on the request: the `Connection` field, if needed, and
    /// the permissions for scripts of other sites. Removes what may not be sent in the clear (RFC
    /// 6797 §7.2).
    #[inline(always)]
    fn amend(&self, out: &mut Vec<u8>) {
        if self.persistence != Persistence::Implied {
            self.write_connection(out);
        }
        if let Some(grant) = self.rules.cors {
            self.write_cors(grant, out);
        }
        if self.rules.bare {
            remove_fields(out, is_hsts);
        }
    }

    #[cold]
    fn write_cors(&self, grant: Grant, out: &mut Vec<u8>) {
        out.truncate(out.len() - 2);
        self.site.rules.remove_grants(out);
        grant.write(self.site.rules.cors_rule(grant.rule), out);
        end_head(out);
    }

    /// Adds `Vary` to a finished head, of 206 and 304 as of 200 (RFC 9110 §15.3.7, §15.4.5), when a
    /// fallback answers for navigations: other requests for the same target get 404.
    #[inline(always)]
    fn vary(&self, out: &mut Vec<u8>, role: Role) {
        if role == Role::Fallback && !self.site.content.fallback_for_all {
            out.truncate(out.len() - 2);
            write_field(out, "Vary", VARY_FALLBACK);
            end_head(out);
        }
    }

    #[inline(never)]
    fn write_connection(&self, out: &mut Vec<u8>) {
        let value: &[u8] = match self.persistence {
            Persistence::Implied => return,
            Persistence::Stated => b"keep-alive",
            Persistence::Close => b"close",
        };
        out.truncate(out.len() - 2);
        write_field(out, "Connection", value);
        end_head(out);
    }

    /// True if a body of this length goes into the head's buffer. More would be a copy for each
    /// connection, until its peer has taken it.
    #[inline]
    fn copies(&self, bytes: u64) -> bool {
        !self.rules.head_only && bytes <= self.site.caching.copy_bytes_max as u64
    }
}

/// Room for the `Connection` field.
const CONNECTION_BYTES_MAX: usize = 24;

/// The fields that decide whether a fallback answers.
const VARY_FALLBACK: &[u8] = b"Accept, Sec-Fetch-Dest";

/// The bytes of a range of a body in memory.
fn slice<'a>(bytes: &'a [u8], range: &ByteRange) -> &'a [u8] {
    let at = |place: u64| usize::try_from(place).expect("a range lies within its body");
    &bytes[at(range.first)..=at(range.last)]
}
