//! One request to one reply, in no protocol's bytes: find what answers, and plan what is sent.
use crate::{
    Body, Coded, Cx, Entry, FileFault, Lookup, Refusal, Representation, Request, Wanted, content,
    entry::worthwhile,
    plan::{Plan, Shape, plan},
    record::Note,
    request::OwnedRequest,
    resolve::{Asked, Found, Role, Search},
};
use alloc::{sync::Arc, vec::Vec};
use core::mem;
use regatta_http::{Status, target::Path};
use regatta_metrics::Counter;
use regatta_op::{
    Coding, Codings, Fault, File, FileId, Now, OpenFault, OpenReq, Opened, ReadReq, Segment, Tick,
};

/// How long an exchange waits for what may be opened later until it tries again, milliseconds.
const OPEN_RETRY_MS: u64 = 50;
/// How often it does: for ten seconds. Then it is answered 503.
const OPEN_TRIES_MAX: u32 = 200;
/// How often a name is looked for that is not there while the root is being replaced: for three
/// seconds, which is longer than that takes. Then it is answered 404.
const ROOT_TRIES_MAX: u32 = 60;

/// The error number of who has no memory (`ENOMEM`).
const NO_MEMORY: i32 = 12;

/// What one exchange holds from its request to its reply, and what its record needs until the
/// reply has gone.
///
/// [`start`](Self::start) it, do what it says, and [`resume`](Self::resume) it with the outcome,
/// until it says [`Step::Reply`]. Between its steps it may stand in a queue. The exchange counts
/// opens and reads.
#[derive(Debug)]
pub struct Exchange<F> {
    /// Kept while it waits.
    request: OwnedRequest,
    /// How far the search for what answers has come.
    search: Search,
    /// The file that is being opened again, or whose body is being read, or that is looked at.
    pending: Option<Arc<Representation<F>>>,
    /// Which coding of it is read or looked at.
    coding: Option<Coding>,
    /// The siblings that were to be opened last.
    siblings: Codings,
    /// When the disk was asked to open a name.
    asked: Now,
    /// How often it could not be opened.
    tries: u32,
    /// What is the answer if that does not end.
    held: Option<OpenFault>,
    /// When the disk was asked for the pending file by this exchange; `None` if it was known
    /// before.
    opened: Option<Tick>,
    /// The file that the disk has brought is what was there just now.
    vouched: bool,
    /// How many bytes of a body are read next.
    part: u64,
    /// What has been read of it, if it takes more than one read.
    body: Vec<u8>,
    /// A file has been shorter than it should have been.
    shrank: bool,
    /// What the log will be told.
    pub(crate) note: Note,
}

/// What an exchange needs to go on, or its end.
#[derive(Debug)]
pub enum Step<F> {
    /// A name is to be opened: [`Supply::Opened`].
    Open(OpenReq),
    /// A body, or the next part of one, is to be read into memory: [`Supply::Read`].
    Read(ReadReq<F>),
    /// A file that is remembered is to be looked at before its bytes are sent: [`Supply::Stat`].
    Stat(F),
    /// A name could not be opened now. It is tried again after so many milliseconds
    /// ([`Supply::Again`]), unless nobody can wait ([`Supply::GivenUp`]).
    Hold(u64),
    /// The end: this is to be sent.
    Reply(Reply<F>),
    /// The end: a file became shorter again and again. Nothing is sent, the connection is cut.
    Cut,
}

/// What an exchange that waited gets.
#[derive(Debug)]
pub enum Supply<F> {
    /// What was found by the name.
    Opened(Result<Opened<F>, OpenFault>),
    /// The buffer that was lent, and whether the bytes of the body are in it.
    Read(Vec<u8>, Result<(), Fault>),
    /// The facts of the file as they are now.
    Stat(Result<FileId, Fault>),
    /// The time has passed.
    Again,
    /// There will be no more waiting.
    GivenUp,
}

/// What is to be sent: a plan, which a protocol makes bytes of.
#[derive(Debug)]
pub enum Reply<F> {
    /// A file, or some of it, or that it has not changed.
    File(FileReply<F>),
    /// 301: to this reference.
    Redirect(Vec<u8>),
    /// 204: the methods that are served.
    Options,
    /// That the request is refused.
    Refused(Refusal),
    /// That nothing answers.
    Nothing(Status),
}

impl<F> Reply<F> {
    /// To a request that no file is looked for.
    fn without_file(refusal: Option<Refusal>) -> Self {
        refusal.map_or(Self::Options, Self::Refused)
    }
}

/// What of a file is to be sent.
#[derive(Debug)]
pub struct FileReply<F> {
    pub(crate) file: Arc<Representation<F>>,
    pub(crate) coding: Option<Coding>,
    pub(crate) shape: Shape,
    pub(crate) role: Role,
}

impl<F: File> FileReply<F> {
    /// The coding that is sent.
    pub(crate) fn coded(&self) -> &Coded<F> {
        self.file.coded(self.coding).expect("it was chosen of this file")
    }

    /// The status and the body, if that is all of a file; for a protocol without fields.
    #[must_use]
    pub fn whole(&self) -> Option<(Status, Segment<F>)> {
        let missing = self.role == Role::NotFound;
        let status = if missing { Status::NOT_FOUND } else { Status::OK };
        (self.shape == Shape::Whole).then(|| (status, self.coded().segment()))
    }
}

/// What a wait has brought.
enum Brought<F> {
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

/// What became of a body that was read.
enum Filled<F> {
    /// It has come, or could not be read.
    Brought(Brought<F>),
    /// There is more of it.
    Part,
    /// It is shorter than the file was, which may have been opened long ago.
    Shrank,
}

/// What [`answer`] comes to.
pub(crate) enum Answer<R, F> {
    /// The file that is remembered answers, and was served.
    Hit(R),
    /// An exchange has started, or ended already.
    Step(Step<F>),
}

/// What a protocol does with a file that is remembered.
pub(crate) trait Serve<F> {
    /// What is told of it.
    type Served;

    /// Brings what it keeps beside the facts of the file up to date.
    fn prepare(&mut self, file: &mut Arc<Representation<F>>);

    /// Serves what is planned.
    fn serve(&mut self, plan: &Plan<'_, F>, role: Role) -> Self::Served;
}

/// Answers a request: with a file that is remembered, if one look-up is all that it takes, which is
/// shown to `serve`; otherwise starts the exchange that `exchange` gives.
///
/// Inlined where a request has come: it is the path of every hit.
#[inline(always)]
pub(crate) fn answer<'x, F: File + 'x, S: Serve<F>>(
    request: &Request<'_>,
    now: Now,
    cx: &Cx<'_, F>,
    serve: &mut S,
    exchange: impl FnOnce() -> &'x mut Exchange<F>,
) -> Answer<S::Served, F> {
    let mut decoded = cx.scratch.decoded.borrow_mut();
    // By reference: a path is seven words.
    let path = &request.path(&mut decoded);
    let path = match path {
        Ok(path) => path,
        Err(refusal) => return Answer::Step(Step::Reply(Reply::without_file(*refusal))),
    };
    let asked = Asked { path, request, rules: &cx.site.content };
    let found = Search::start(&asked);
    let hit = match &found {
        Found::Next(next) if next.is_itself() => {
            hit(path.relative, Role::Itself, &asked, now, cx, serve)
        }
        Found::Next(next) => hit_other(*next, &asked, now, cx, serve),
        _ => None,
    };
    match hit {
        Some(hit) => Answer::Hit(hit),
        None => Answer::Step(exchange().begin(&asked, found, now, cx)),
    }
}

/// Shows what is planned of the file that is remembered by `name`, in its `role`, to `serve`, if it
/// needs nothing more.
#[inline(always)]
fn hit<F: File, S: Serve<F>>(
    name: &[u8],
    role: Role,
    asked: &Asked<'_>,
    now: Now,
    cx: &Cx<'_, F>,
    serve: &mut S,
) -> Option<S::Served> {
    let mut hit = None;
    if cx.site.caching.enabled {
        cx.cache.hit(name, now.tick, &cx.tally, &mut |file| {
            serve.prepare(file);
            let plan = plan(asked.request, file, role, cx.site.limits.ranges_max, now.unix);
            let method = asked.request.method;
            let fill = plan.fill(method, cx.site.caching.body_bytes_max);
            if fill.is_none() && !plan.sends_file(method) {
                hit = Some(serve.serve(&plan, role));
            }
            hit.is_some()
        });
    }
    hit
}

/// [`hit`] by a name that must be put together, such as an index name.
#[inline(never)]
fn hit_other<F: File, S: Serve<F>>(
    search: Search,
    asked: &Asked<'_>,
    now: Now,
    cx: &Cx<'_, F>,
    serve: &mut S,
) -> Option<S::Served> {
    let mut room = cx.scratch.candidate.borrow_mut();
    hit(search.name(asked, &mut room), search.role(), asked, now, cx, serve)
}

impl<F> Default for Exchange<F> {
    fn default() -> Self {
        Self {
            request: OwnedRequest::default(),
            search: Search::default(),
            pending: None,
            coding: None,
            siblings: Codings::NONE,
            asked: Now::default(),
            tries: 0,
            held: None,
            opened: None,
            vouched: false,
            part: 0,
            body: Vec::new(),
            shrank: false,
            note: Note::default(),
        }
    }
}

impl<F> Exchange<F> {
    /// Makes it as new, but for the room that its buffers have.
    pub(crate) fn clear(&mut self) {
        self.request.clear();
        self.note.clear();
        let (request, note) = (mem::take(&mut self.request), mem::take(&mut self.note));
        *self = Self { request, note, ..Self::default() };
    }

    /// Bytes of memory held by its buffers.
    pub(crate) fn capacity(&self) -> usize {
        self.request.capacity() + self.note.capacity()
    }

    /// True if it holds a file.
    pub(crate) const fn holds_file(&self) -> bool {
        self.pending.is_some()
    }

    /// Lets go of everything but what its record needs: it will not be resumed.
    pub(crate) fn abandon(&mut self) {
        self.pending = None;
        self.body = Vec::new();
    }

    /// The name that is looked at, and why, for people.
    pub(crate) fn reason(&self) -> &'static str {
        self.search.reason()
    }
}

impl<F: File> Exchange<F> {
    /// Starts it.
    pub fn start(&mut self, request: &Request<'_>, now: Now, cx: &Cx<'_, F>) -> Step<F> {
        let mut decoded = cx.scratch.decoded.borrow_mut();
        match request.path(&mut decoded) {
            Ok(path) => {
                let asked = Asked { path: &path, request, rules: &cx.site.content };
                self.begin(&asked, Search::start(&asked), now, cx)
            }
            Err(refusal) => Step::Reply(Reply::without_file(refusal)),
        }
    }

    #[inline(never)]
    fn begin(&mut self, asked: &Asked<'_>, first: Found<F>, now: Now, cx: &Cx<'_, F>) -> Step<F> {
        let step = self.look(asked, first, now, cx);
        if !matches!(step, Step::Reply(_)) {
            self.request.keep(asked.request, asked.path);
        }
        step
    }

    /// Goes on with what it waited for.
    ///
    /// # Panics
    /// If it did not wait for that.
    #[cold]
    pub fn resume(&mut self, supply: Supply<F>, now: Now, cx: &Cx<'_, F>) -> Step<F> {
        let brought = match supply {
            Supply::Opened(found) => {
                cx.tally.add(Counter::Opens, 1);
                cx.tally.add(Counter::OpenSiblings, count(self.siblings));
                match found {
                    Err(fault) => match self.hold(fault, cx) {
                        Ok(Some(step)) => return step,
                        Ok(None) => Brought::Nothing,
                        Err(fault) => Brought::Opened(Err(fault)),
                    },
                    found => Brought::Opened(found),
                }
            }
            Supply::Read(buffer, read) => {
                cx.tally.add(Counter::Reads, 1);
                if read.is_ok() {
                    cx.tally.add(Counter::ReadBytes, buffer.len() as u64);
                }
                let filled = self.fill(&buffer, read);
                cx.scratch.give_read_buffer(buffer);
                match filled {
                    Filled::Part => return self.read_part(cx),
                    Filled::Brought(brought) => brought,
                    // Nothing has been sent, but what was opened is no longer what is there.
                    Filled::Shrank if !mem::replace(&mut self.shrank, true) => Brought::Changed,
                    Filled::Shrank => return Step::Cut,
                }
            }
            Supply::Stat(found) => self.checked(found),
            Supply::Again => Brought::Nothing,
            Supply::GivenUp => Brought::Opened(Err(self.held.take().expect("it was told to hold"))),
        };
        let kept = mem::take(&mut self.request);
        let conditions = kept.conditions();
        let (request, path) = (kept.request(&conditions), kept.path());
        let asked = Asked { path: &path, request: &request, rules: &cx.site.content };
        let found = self.supplied(&asked, brought, now, cx);
        let step = self.look(&asked, found, now, cx);
        self.request = kept;
        step
    }

    /// A name could not be opened now. If it will be tried again, `Ok`: with nothing, at once. If
    /// there was no descriptor: at once if the cache had one to spare, otherwise in a while, when
    /// another exchange may have ended; what is there should not be refused because many others are
    /// being served. If somebody else was at the file: in a while, when they may have finished. If
    /// it is not there and the root is being replaced: in a while, when the new one is served.
    ///
    /// # Errors
    /// What is the matter, if it was tried often enough, or for another fault.
    fn hold(&mut self, fault: OpenFault, cx: &Cx<'_, F>) -> Result<Option<Step<F>>, OpenFault> {
        let (tries_max, last) = match fault {
            // What is known is served.
            OpenFault::Exhausted | OpenFault::Busy if self.pending.is_none() => {
                (OPEN_TRIES_MAX, fault)
            }
            OpenFault::RootReplaced => (ROOT_TRIES_MAX, OpenFault::NotFound),
            _ => return Err(fault),
        };
        if self.tries >= tries_max {
            return Err(last);
        }
        if fault == OpenFault::Exhausted && cx.cache.relieve(&cx.tally) {
            return Ok(None);
        }
        self.tries += 1;
        self.held = Some(last);
        self.pending = None;
        Ok(Some(Step::Hold(OPEN_RETRY_MS)))
    }

    /// The part of a body that was asked for has come, or could not be read.
    fn fill(&mut self, bytes: &[u8], read: Result<(), Fault>) -> Filled<F> {
        let file = self.pending.take().expect("a file is pending while its body is read");
        let mut body = mem::take(&mut self.body);
        if let Err(fault) = read {
            return Filled::Brought(Brought::Unreadable(fault));
        }
        if bytes.len() as u64 != self.part {
            return Filled::Shrank;
        }
        let len = file.coded(self.coding).map_or(0, |coded| coded.len());
        let whole = if self.part == len {
            bytes
        } else {
            let room = usize::try_from(len).unwrap_or(usize::MAX) - body.len();
            if body.try_reserve_exact(room).is_err() {
                return Filled::Brought(Brought::Unreadable(Fault::Other(NO_MEMORY)));
            }
            body.extend_from_slice(bytes);
            if (body.len() as u64) < len {
                (self.body, self.pending) = (body, Some(file));
                return Filled::Part;
            }
            &body
        };
        let mut file = Arc::try_unwrap(file).unwrap_or_else(|shared| (*shared).clone());
        file.fill(self.coding, whole);
        Filled::Brought(Brought::Filled(Arc::new(file)))
    }

    /// Asks for what is missing of the body that is to be read, or for as much as is read at once.
    fn read_part(&mut self, cx: &Cx<'_, F>) -> Step<F> {
        let ((file, len), at) = (self.open_file(), self.body.len() as u64);
        let part_max = cx.site.caching.read_bytes_max.max(1);
        let part = usize::try_from(len - at).map_or(part_max, |left| left.min(part_max));
        self.part = part as u64;
        let buffer = cx.scratch.take_read_buffer(part);
        Step::Read(ReadReq { file, at, len: self.part, buffer })
    }

    fn checked(&mut self, found: Result<FileId, Fault>) -> Brought<F> {
        let file = self.pending.take().expect("a file is pending while it is looked at");
        let same = file.coded(self.coding).is_some_and(|coded| found == Ok(coded.id));
        if same { Brought::Checked(file) } else { Brought::Changed }
    }

    /// Looks for what answers, as far as memory knows; asks the disk for the rest. `found` is what
    /// the search has found so far.
    #[inline(never)]
    fn look(
        &mut self,
        asked: &Asked<'_>,
        mut found: Found<F>,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Step<F> {
        let (request, limits) = (asked.request, &cx.site.limits);
        let reply = loop {
            found = match found {
                Found::Next(next) => {
                    self.search = next;
                    self.vouched = false;
                    match self.look_up(asked, now, cx) {
                        Ok(entry) => next.consider(asked, entry),
                        Err(open) => return Step::Open(open),
                    }
                }
                Found::File(file, role) => {
                    let plan = plan(request, &file, role, limits.ranges_max, now.unix);
                    let coding = plan.coded.coding;
                    if plan.fill(request.method, cx.site.caching.body_bytes_max).is_some() {
                        (self.pending, self.coding) = (Some(file), coding);
                        self.body = Vec::new();
                        return self.read_part(cx);
                    }
                    // The facts may be as old as the cache lets them be, its bytes are of now:
                    // with those facts they are sent only if the file still has them.
                    if !self.vouched && plan.sends_file(request.method) {
                        (self.pending, self.coding) = (Some(file), coding);
                        return Step::Stat(self.open_file().0);
                    }
                    let shape = plan.shape;
                    break Reply::File(FileReply { file, coding, shape, role });
                }
                Found::Redirect => break Reply::Redirect(location(asked.path)),
                Found::Nothing(status) => break Reply::Nothing(status),
            };
        };
        Step::Reply(reply)
    }

    /// What memory knows of the name that is looked at, or what the disk is to be asked.
    fn look_up(
        &mut self,
        asked: &Asked<'_>,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Result<Entry<F>, OpenReq> {
        let mut room = cx.scratch.candidate.borrow_mut();
        let name = self.search.name(asked, &mut room);
        self.pending = None;
        if cx.site.caching.enabled {
            match cx.cache.get(name, now.tick, &cx.tally) {
                Lookup::Fresh(entry) => return Ok(entry),
                Lookup::Stale(Entry::File(file)) => self.pending = Some(file),
                Lookup::Stale(_) | Lookup::Miss => {}
            }
        }
        self.siblings = content::siblings(name, cx.site);
        self.asked = now;
        Err(OpenReq { path: name.into(), siblings: self.siblings })
    }

    /// Takes what the disk brought, remembers it, and goes on with the search.
    #[cold]
    fn supplied(
        &mut self,
        asked: &Asked<'_>,
        brought: Brought<F>,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Found<F> {
        let mut room = cx.scratch.candidate.borrow_mut();
        let search = self.search;
        let name = search.name(asked, &mut room);
        let rules = &cx.site.caching;
        self.vouched = !matches!(brought, Brought::Opened(Err(_)));
        let (entry, opened) = match brought {
            Brought::Nothing => return Found::Next(search),
            Brought::Changed => {
                self.opened = None;
                cx.cache.remove(name, &cx.tally);
                return Found::Next(search);
            }
            Brought::Unreadable(fault) => {
                self.opened = None;
                if let Fault::Other(errno) = fault {
                    cx.log.fault(&FileFault { path: name, wanted: Wanted::Read, errno });
                }
                return Found::Nothing(Status::INTERNAL_SERVER_ERROR);
            }
            Brought::Checked(file) => (Entry::File(file), None),
            Brought::Filled(file) => {
                let opened = self.opened.take();
                if rules.enabled && opened.is_none() {
                    cx.cache.fill(name, &file, &cx.tally);
                }
                (Entry::File(file), opened)
            }
            Brought::Opened(found) => {
                self.tries = 0;
                if let Err(OpenFault::Other(errno)) = found {
                    cx.log.fault(&FileFault { path: name, wanted: Wanted::Open, errno });
                }
                let mut opened = found.as_ref().err().is_none_or(|fault| !passes(*fault));
                let entry = self.entry(name, found, now, cx);
                // What the disk says was true at some time since it was asked: of two who asked,
                // who asked later knows better, whoever hears first.
                let at = self.asked.tick;
                // A body that is about to be read belongs to the entry: it is remembered once,
                // whole.
                if rules.enabled && will_fill(asked.request, search, &entry, now, cx) {
                    self.opened = opened.then_some(at);
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
        match found {
            Ok(Opened::File { file, siblings }) => {
                let siblings = worthwhile(&file, siblings);
                if let Some(stale) = stale.filter(|stale| stale.is_same(&file, &siblings)) {
                    return Entry::File(stale);
                }
                let asked = self.asked.unix;
                let file = Representation::new(name, file, siblings, cx.site, now, asked);
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

    /// The open file of the coding that is wanted of the pending one, and its length.
    fn open_file(&self) -> (F, u64) {
        let coded = self.pending.as_ref().and_then(|file| file.coded(self.coding));
        match coded.map(|coded| (&coded.body, coded.len())) {
            Some((Body::File(open), len)) => (open.clone(), len),
            _ => unreachable!("a file is pending while it is read or looked at"),
        }
    }
}

fn will_fill<F: File>(
    request: &Request<'_>,
    search: Search,
    entry: &Entry<F>,
    now: Now,
    cx: &Cx<'_, F>,
) -> bool {
    let Entry::File(file) = entry else {
        return false;
    };
    let plan = plan(request, file, search.role(), cx.site.limits.ranges_max, now.unix);
    plan.fill(request.method, cx.site.caching.body_bytes_max).is_some()
}

/// True for faults of the moment, which say nothing of the file and are not remembered.
fn passes(fault: OpenFault) -> bool {
    matches!(fault, OpenFault::Exhausted | OpenFault::Busy | OpenFault::Other(_))
}

/// How many codings.
fn count(codings: Codings) -> u64 {
    Coding::ALL.into_iter().map(|coding| u64::from(codings.has(coding))).sum()
}

/// The reference to the same path with a slash.
///
/// It is relative and starts with `./`: whatever the path, it leads nowhere but to its own
/// directory on the same host, and its first segment is no scheme.
fn location(path: &Path<'_>) -> Vec<u8> {
    let segment = path.raw.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let mut location = Vec::with_capacity(segment.len() + 8);
    location.extend_from_slice(b"./");
    write_encoded(&mut location, segment);
    location.push(b'/');
    if let Some(query) = path.query {
        location.push(b'?');
        write_encoded(&mut location, query);
    }
    location
}

/// Appends a path segment or query, encoding what browsers would not leave alone (RFC 3986 §3.3).
fn write_encoded(out: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%".contains(&byte) {
            out.push(byte);
        } else {
            let digit = |nibble: u8| b"0123456789ABCDEF"[usize::from(nibble)];
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}
