//! One request to one response: find what answers, plan, send.
use crate::{
    Conn, Cx, Entry, FileFault, Lookup, Refusal, Representation, Wanted,
    conn::State,
    content,
    course::{After, Announced, Course, head_limits},
    entry::worthwhile,
    plan::plan,
    reply::{Persistence, Reply, Terms, needs_file},
    resolve::{Asked, Found, Role, Search},
    work::Content,
};
use alloc::{sync::Arc, vec::Vec};
use core::mem;
use regatta_http::{
    Method, Status,
    h1::{HeadFault, RequestHead, parse_request},
    target::{Target, decode_path},
};
use regatta_metrics::Counter;
use regatta_op::{CloseReason, Coding, Codings, Fault, File, Now, OpenFault, OpenReq, Opened};

/// How long an exchange waits for what may be opened later until it tries again, milliseconds.
const OPEN_RETRY_MS: u64 = 50;
/// How often it does: for ten seconds. Then it is answered 503.
const OPEN_TRIES_MAX: u32 = 200;
/// How often a name is looked for that is not there while the root is being replaced: for three
/// seconds, which is longer than that takes. Then it is answered 404.
const ROOT_TRIES_MAX: u32 = 60;

/// The error number of who has no memory (`ENOMEM`).
const NO_MEMORY: i32 = 12;

/// What the disk brought for an exchange that waited for it.
#[derive(Debug)]
pub(crate) enum Supply<F> {
    /// A name was opened.
    Opened(Result<Opened<F>, OpenFault>),
    /// A body was read into this file.
    Filled(Arc<Representation<F>>),
    /// A body could not be read.
    Unreadable(Fault),
    /// An open file is what it was.
    Checked(Arc<Representation<F>>),
    /// It is not, or its body was shorter than it should have been: it is looked for again.
    Changed,
    /// Nothing: what was not found in time is looked for again.
    Nothing,
}

impl<F: File> Conn<F> {
    /// A request head has come in full.
    #[inline]
    pub(crate) fn on_head(&mut self, head: &RequestHead<'_>, now: Now, cx: &Cx<'_, F>) {
        cx.tally.add(Counter::Requests, 1);
        self.requests = self.requests.saturating_add(1);
        self.take_note(Some(head), now, cx);
        if needs_file(head) {
            self.answer(head, now, cx, |_, asked| (Search::default(), Search::start(asked)));
        } else {
            self.answer_without_file(head, now, cx);
        }
    }

    #[cold]
    fn answer_without_file(&mut self, head: &RequestHead<'_>, now: Now, cx: &Cx<'_, F>) {
        let course = Course::of_any(head, self.is_last(cx), cx.site);
        match Refusal::without_file(head, &course) {
            Some(refusal) => self.turn_down(refusal, head, &course, now, cx),
            None => {
                let reply = terms(head, &course, now, cx).options();
                self.respond_rarely(reply, head, &course, now, cx);
            }
        }
    }

    /// A request will never come in full, or what came is none.
    pub(crate) fn on_no_head(
        &mut self,
        refusal: Refusal,
        reason: CloseReason,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        cx.tally.add(Counter::Requests, 1);
        self.take_note(None, now, cx);
        self.refuse(refusal, reason, now, cx);
    }

    /// The disk has answered: the kept head is read again and its exchange goes on.
    #[cold]
    pub(crate) fn resume(&mut self, bytes: &[u8], supply: Supply<F>, now: Now, cx: &Cx<'_, F>) {
        let head = parse_request(bytes, &head_limits(cx.site));
        let head = head.expect("it was well-formed the first time");
        self.answer(&head, now, cx, |conn, asked| {
            let search = conn.work_mut(cx).search;
            (search, conn.supplied(asked, search, supply, now, cx))
        });
    }

    /// A name could not be opened now. If it will be tried again, `Ok`. If there was no descriptor:
    /// at once if the cache had one to spare, otherwise in a while, when another exchange may have
    /// ended; what is there should not be refused because many others are being served. If somebody
    /// else was at the file: in a while, when they may have finished. If it is not there and the
    /// root is being replaced: in a while, when the new one is served.
    ///
    /// # Errors
    /// What is the matter, if it was tried often enough, or for another fault.
    #[cold]
    pub(crate) fn hold(
        &mut self,
        fault: OpenFault,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Result<(), OpenFault> {
        let (tries_max, last) = match fault {
            // What is known is served.
            OpenFault::Exhausted | OpenFault::Busy if self.pending.is_none() => {
                (OPEN_TRIES_MAX, fault)
            }
            OpenFault::RootReplaced => (ROOT_TRIES_MAX, OpenFault::NotFound),
            _ => return Err(fault),
        };
        let work = self.work_mut(cx);
        if work.tries >= tries_max {
            return Err(last);
        }
        if fault == OpenFault::Exhausted && cx.cache.relieve(&cx.tally) {
            self.resume_kept(Supply::Nothing, now, cx);
        } else {
            work.tries += 1;
            work.held = Some(last);
            self.pending = None;
            self.set_state(State::Hold, now.tick.after(OPEN_RETRY_MS));
        }
        Ok(())
    }

    /// The disk does not answer, and nothing has been sent yet: says so, then ends.
    #[cold]
    pub(crate) fn give_up_disk(&mut self, now: Now, cx: &Cx<'_, F>) {
        self.pending = None;
        let work = self.work_mut(cx);
        let head = &work.stash[work.at..][..mem::take(&mut work.head_bytes)];
        let head = parse_request(head, &head_limits(cx.site));
        work.head_only = head.is_ok_and(|head| head.method == Method::Head);
        (work.open, work.opened, work.at, work.seen) = (None, None, 0, 0);
        work.body = Vec::new();
        work.stash.clear();
        let status = Status::SERVICE_UNAVAILABLE;
        self.answer_last(CloseReason::DiskDeadline, |terms| terms.nothing(status), now, cx);
        self.settle(cx);
    }

    /// The waiting is over, and a name could still not be opened.
    #[cold]
    pub(crate) fn give_up_opening(&mut self, now: Now, cx: &Cx<'_, F>) {
        let fault = self.work_mut(cx).held.take().expect("it is set with the state");
        self.resume_kept(Supply::Opened(Err(fault)), now, cx);
    }

    /// Looks for what answers, as far as memory knows; asks the disk for the rest. `first` is how
    /// far the search has come, and what it found there.
    ///
    /// Inlined where a request starts and where it resumes: the first is the path of every hit.
    #[inline(always)]
    fn answer(
        &mut self,
        head: &RequestHead<'_>,
        now: Now,
        cx: &Cx<'_, F>,
        first: impl FnOnce(&mut Self, &Asked<'_>) -> (Search, Found<F>),
    ) {
        let course = Course::of(head, self.is_last(cx), cx.site);
        let terms = terms(head, &course, now, cx);
        if course.is_too_large() {
            return self.turn_down(Refusal::ContentTooLarge, head, &course, now, cx);
        }
        let Target::Path(raw) = head.names else {
            let refusal = Refusal::Head(HeadFault::Target);
            return self.turn_down(refusal, head, &course, now, cx);
        };
        let mut decoded = cx.scratch.decoded.borrow_mut();
        // By reference: a path is seven words.
        let path = &decode_path(raw, &mut decoded);
        let Ok(path) = path else {
            return self.turn_down(Refusal::Path, head, &course, now, cx);
        };
        let asked = Asked { path, head, rules: &cx.site.content };
        let (search, found) = first(self, &asked);
        let hit = match &found {
            Found::Next(next) if next.is_itself() => {
                self.hit(asked.path.relative, Role::Itself, &asked, &terms, now, cx)
            }
            Found::Next(next) => self.hit_other(*next, &asked, &terms, now, cx),
            _ => None,
        };
        match hit {
            Some((status, body_bytes)) => {
                self.respond(status, body_bytes, head, &course, now, cx);
            }
            None => self.answer_otherwise(search, found, &asked, &course, now, cx),
        }
    }

    /// Answers with the file that is remembered by `name`, in its `role`, if that needs nothing
    /// more: its status and how many bytes of body it has.
    #[inline(always)]
    fn hit(
        &mut self,
        name: &[u8],
        role: Role,
        asked: &Asked<'_>,
        terms: &Terms<'_>,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Option<(Status, u64)> {
        let mut hit = None;
        if cx.site.caching.enabled {
            cx.cache.hit(name, now.tick, &cx.tally, &mut |file| {
                if file.redated() != now.unix {
                    Representation::redate(file, now.unix, &cx.scratch.date(now.unix));
                }
                let plan = plan(asked.head, file, role, cx.site.limits.ranges_max, now.unix);
                let method = asked.head.method;
                let fill = plan.fill(method, cx.site.caching.body_bytes_max);
                if fill.is_none() && !plan.sends_file(method) {
                    hit = Some(terms.planned_into(&plan, role, &mut self.out));
                }
                hit.is_some()
            });
        }
        hit
    }

    /// [`hit`](Self::hit) by a name that must be put together, such as an index name.
    #[inline(never)]
    fn hit_other(
        &mut self,
        search: Search,
        asked: &Asked<'_>,
        terms: &Terms<'_>,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Option<(Status, u64)> {
        let mut room = cx.scratch.candidate.borrow_mut();
        self.hit(search.name(asked, &mut room), search.role(), asked, terms, now, cx)
    }

    /// [`answer`](Self::answer) when it takes more than one look into memory. With a file that is
    /// remembered it answers what [`hit`](Self::hit) would: both send what `plan` says.
    #[inline(never)]
    fn answer_otherwise(
        &mut self,
        mut search: Search,
        mut found: Found<F>,
        asked: &Asked<'_>,
        course: &Course,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        let terms = terms(asked.head, course, now, cx);
        let (head, limits) = (asked.head, &cx.site.limits);
        let mut vouched = self.work().is_some_and(|work| work.vouched);
        let reply = loop {
            found = match found {
                Found::Next(next) => {
                    search = next;
                    vouched = false;
                    match self.look_up(search, asked, now, cx) {
                        Some(entry) => search.consider(asked, entry),
                        None => return,
                    }
                }
                Found::File(file, role) => {
                    let plan = plan(head, &file, role, limits.ranges_max, now.unix);
                    if let Some(coding) = plan.fill(head.method, cx.site.caching.body_bytes_max) {
                        return self.ask_of_file(State::Fill, file, coding, search, now, cx);
                    }
                    // The facts may be as old as the cache lets them be, its bytes are of now:
                    // with those facts they are sent only if the file still has them.
                    if !vouched && plan.sends_file(head.method) {
                        let coding = plan.coded.coding;
                        return self.ask_of_file(State::Check, file, coding, search, now, cx);
                    }
                    break terms.planned(&plan, role);
                }
                Found::Redirect => break terms.redirect(asked.path),
                Found::Nothing(status) => break terms.nothing(status),
            };
        };
        self.respond_rarely(reply, head, course, now, cx);
    }

    /// What memory knows of a name; otherwise asks the disk and returns `None`.
    #[inline(always)]
    fn look_up(
        &mut self,
        search: Search,
        asked: &Asked<'_>,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Option<Entry<F>> {
        if search.is_itself() {
            return self.look_up_name(asked.path.relative, search, now, cx);
        }
        self.look_up_other(search, asked, now, cx)
    }

    #[inline(never)]
    fn look_up_other(
        &mut self,
        search: Search,
        asked: &Asked<'_>,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Option<Entry<F>> {
        let mut room = cx.scratch.candidate.borrow_mut();
        let name = search.name(asked, &mut room);
        self.look_up_name(name, search, now, cx)
    }

    #[inline(always)]
    fn look_up_name(
        &mut self,
        name: &[u8],
        search: Search,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Option<Entry<F>> {
        if !cx.site.caching.enabled {
            self.ask_open(name, None, search, now, cx);
            return None;
        }
        match cx.cache.get(name, now.tick, &cx.tally) {
            Lookup::Fresh(entry) => return Some(entry),
            Lookup::Stale(Entry::File(file)) => self.ask_open(name, Some(file), search, now, cx),
            Lookup::Stale(_) | Lookup::Miss => self.ask_open(name, None, search, now, cx),
        }
        None
    }

    #[cold]
    fn ask_open(
        &mut self,
        name: &[u8],
        stale: Option<Arc<Representation<F>>>,
        search: Search,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        let siblings = content::siblings(name, cx.site);
        self.pending = stale;
        self.set_state(State::Find, now.tick.after(cx.site.deadlines.disk_ms_max));
        let work = self.work_mut(cx);
        work.search = search;
        work.siblings = siblings;
        work.asked = now;
        work.open = Some(OpenReq { path: name.into(), siblings });
    }

    /// Takes what the disk brought, remembers it, and goes on with the search.
    #[cold]
    fn supplied(
        &mut self,
        asked: &Asked<'_>,
        search: Search,
        supply: Supply<F>,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Found<F> {
        let mut room = cx.scratch.candidate.borrow_mut();
        let name = search.name(asked, &mut room);
        let rules = &cx.site.caching;
        self.work_mut(cx).vouched = !matches!(supply, Supply::Opened(Err(_)));
        let (entry, opened) = match supply {
            Supply::Nothing => return Found::Next(search),
            Supply::Changed => {
                self.work_mut(cx).opened = None;
                cx.cache.remove(name, &cx.tally);
                return Found::Next(search);
            }
            Supply::Unreadable(fault) => {
                self.work_mut(cx).opened = None;
                if let Fault::Other(errno) = fault {
                    cx.log.fault(&FileFault { path: name, wanted: Wanted::Read, errno });
                }
                return Found::Nothing(Status::INTERNAL_SERVER_ERROR);
            }
            Supply::Checked(file) => (Entry::File(file), None),
            Supply::Filled(file) => {
                let opened = self.work_mut(cx).opened.take();
                if rules.enabled && opened.is_none() {
                    cx.cache.fill(name, &file, &cx.tally);
                }
                (Entry::File(file), opened)
            }
            Supply::Opened(found) => {
                self.work_mut(cx).tries = 0;
                if let Err(OpenFault::Other(errno)) = found {
                    cx.log.fault(&FileFault { path: name, wanted: Wanted::Open, errno });
                }
                let mut opened = found.as_ref().err().is_none_or(|fault| !passes(*fault));
                let entry = self.entry(name, found, now, cx);
                // What the disk says was true at some time since it was asked: of two who asked,
                // who asked later knows better, whoever hears first.
                let at = self.work_mut(cx).asked.tick;
                // A body that is about to be read belongs to the entry: it is remembered once,
                // whole.
                if rules.enabled && will_fill(asked.head, search, &entry, now, cx) {
                    self.work_mut(cx).opened = opened.then_some(at);
                    opened = false;
                }
                (entry, opened.then_some(at))
            }
        };
        if let Some(opened) = opened.filter(|_| rules.enabled) {
            cx.cache.put(name, &entry, opened, &cx.tally);
        }
        search.consider(asked, entry)
    }

    /// The entry for what was found; the one known before, if nothing changed.
    fn entry(
        &mut self,
        name: &[u8],
        found: Result<Opened<F>, OpenFault>,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Entry<F> {
        let stale = self.pending.take();
        let asked_unix = self.work_mut(cx).asked.unix;
        match found {
            Ok(Opened::File { file, siblings }) => {
                let siblings = worthwhile(&file, siblings);
                if let Some(stale) = stale.filter(|stale| stale.is_same(&file, &siblings)) {
                    return Entry::File(stale);
                }
                let file = Representation::new(name, file, siblings, cx.site, now, asked_unix);
                Entry::File(Arc::new(file))
            }
            Ok(Opened::Directory) => Entry::Directory,
            Err(fault) => match stale {
                // No descriptor to look again with is no reason not to serve what is known.
                Some(stale) if passes(fault) => Entry::File(stale),
                _ => Entry::Missing(fault),
            },
        }
    }

    #[inline(never)]
    fn ask_of_file(
        &mut self,
        state: State,
        file: Arc<Representation<F>>,
        coding: Option<Coding>,
        search: Search,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        self.pending = Some(file);
        self.set_state(state, now.tick.after(cx.site.deadlines.disk_ms_max));
        let work = self.work_mut(cx);
        work.search = search;
        work.fill = coding;
        if state == State::Fill {
            work.body = Vec::new();
            self.ask_part(now, cx);
        }
    }

    /// Asks for what is missing of the body that is to be read, or for as much as is read at once.
    pub(crate) fn ask_part(&mut self, now: Now, cx: &Cx<'_, F>) {
        let (_, len) = self.pending_file();
        self.set_state(State::Fill, now.tick.after(cx.site.deadlines.disk_ms_max));
        let part_max = cx.site.caching.read_bytes_max.max(1);
        let work = self.work_mut(cx);
        let left = len - work.body.len() as u64;
        let part = usize::try_from(left).map_or(part_max, |left| left.min(part_max));
        work.part = part as u64;
        work.buffer = cx.scratch.take_read_buffer(part);
    }

    /// The part of a body that was asked for has come, or could not be read.
    pub(crate) fn filled(
        &mut self,
        bytes: &[u8],
        read: Result<(), Fault>,
        cx: &Cx<'_, F>,
    ) -> Filled<F> {
        let file = self.pending.take().expect("a file is pending while its body is read");
        let work = self.work_mut(cx);
        let (coding, mut body) = (work.fill, mem::take(&mut work.body));
        if let Err(fault) = read {
            return Filled::Supply(Supply::Unreadable(fault));
        }
        if bytes.len() as u64 != work.part {
            return Filled::Shrank;
        }
        let len = file.coded(coding).map_or(0, |coded| coded.len());
        let whole = if work.part == len {
            bytes
        } else {
            let room = usize::try_from(len).unwrap_or(usize::MAX) - body.len();
            if body.try_reserve_exact(room).is_err() {
                return Filled::Supply(Supply::Unreadable(Fault::Other(NO_MEMORY)));
            }
            body.extend_from_slice(bytes);
            if (body.len() as u64) < len {
                work.body = body;
                self.pending = Some(file);
                return Filled::Part;
            }
            &body
        };
        let mut file = Arc::try_unwrap(file).unwrap_or_else(|shared| (*shared).clone());
        file.fill(coding, whole);
        Filled::Supply(Supply::Filled(Arc::new(file)))
    }

    /// A file has become shorter since it was opened, which may have been long ago: true the first
    /// time that it happens to an exchange.
    #[cold]
    pub(crate) fn looks_again(&mut self, cx: &Cx<'_, F>) -> bool {
        let this = self.requests;
        mem::replace(&mut self.work_mut(cx).shrank_in, this) != this
    }

    /// Sends what is in the outbox, after the request's content has been discarded.
    #[inline(always)]
    fn respond(
        &mut self,
        status: Status,
        body_bytes: u64,
        head: &RequestHead<'_>,
        course: &Course,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        self.promise(status, body_bytes);
        self.after = course.after;
        self.reason = if self.draining { CloseReason::Drained } else { CloseReason::Finished };
        if course.content == Announced::Some {
            self.set_state(State::Content, now.tick.after(cx.site.deadlines.head_ms_max));
            let content = Content::new(head.body, cx.site.limits.drain_body_bytes_max);
            let work = self.work_mut(cx);
            (work.content, work.head_only) = (content, head.method == Method::Head);
        } else {
            self.set_state(State::Send, now.tick.after(cx.site.deadlines.send_window_ms));
        }
    }

    /// Sends a reply likewise; out of the way of hits.
    #[inline(never)]
    fn respond_rarely(
        &mut self,
        reply: Reply<F>,
        head: &RequestHead<'_>,
        course: &Course,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        self.out = reply.outbox;
        self.respond(reply.status, reply.body_bytes, head, course, now, cx);
    }

    /// Refuses a request that was understood; its connection may go on.
    #[cold]
    fn turn_down(
        &mut self,
        refusal: Refusal,
        head: &RequestHead<'_>,
        course: &Course,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        self.note_refusal(refusal);
        let reply = terms(head, course, now, cx).refusal(refusal);
        self.respond_rarely(reply, head, course, now, cx);
    }

    /// Refuses a request and ends the connection: where the next one would start is not known.
    pub(crate) fn refuse(
        &mut self,
        refusal: Refusal,
        reason: CloseReason,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        self.note_refusal(refusal);
        self.answer_last(reason, |terms| terms.refusal(refusal), now, cx);
    }

    /// Answers what no exchange can follow: sends a page, then ends the connection.
    fn answer_last(
        &mut self,
        reason: CloseReason,
        page: impl FnOnce(&Terms<'_>) -> Reply<F>,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        let head_only = self.work().is_some() && mem::take(&mut self.work_mut(cx).head_only);
        let terms = Terms {
            site: cx.site,
            scratch: cx.scratch,
            now,
            persistence: Persistence::Close,
            head_only,
        };
        let reply = page(&terms);
        self.out = reply.outbox;
        self.after = After::Linger;
        self.reason = reason;
        self.promise(reply.status, reply.body_bytes);
        self.set_state(State::Send, now.tick.after(cx.site.deadlines.send_window_ms));
    }

    /// True if this exchange is the last of its connection, whatever the request says.
    #[inline(always)]
    fn is_last(&self, cx: &Cx<'_, F>) -> bool {
        let requests_max = cx.site.limits.requests_max;
        self.draining || requests_max > 0 && self.requests >= requests_max
    }
}

/// What became of a body that was read.
pub(crate) enum Filled<F> {
    /// It goes to the exchange.
    Supply(Supply<F>),
    /// There is more of it.
    Part,
    /// It is shorter than the file was.
    Shrank,
}

#[inline(always)]
fn terms<'a, F>(head: &RequestHead<'_>, course: &Course, now: Now, cx: &Cx<'a, F>) -> Terms<'a> {
    Terms {
        site: cx.site,
        scratch: cx.scratch,
        now,
        persistence: course.persistence,
        head_only: head.method == Method::Head,
    }
}

fn will_fill<F: File>(
    head: &RequestHead<'_>,
    search: Search,
    entry: &Entry<F>,
    now: Now,
    cx: &Cx<'_, F>,
) -> bool {
    let Entry::File(file) = entry else {
        return false;
    };
    let plan = plan(head, file, search.role(), cx.site.limits.ranges_max, now.unix);
    plan.fill(head.method, cx.site.caching.body_bytes_max).is_some()
}

/// True for faults of the moment, which say nothing of the file and are not remembered.
fn passes(fault: OpenFault) -> bool {
    matches!(fault, OpenFault::Exhausted | OpenFault::Busy | OpenFault::Other(_))
}

/// How many codings.
pub(crate) fn count(codings: Codings) -> u64 {
    Coding::ALL.into_iter().map(|coding| u64::from(codings.has(coding))).sum()
}
