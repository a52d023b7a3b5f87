//! From one request to one reply, in no protocol's terms: find the file, and plan the response.
use crate::{
    AuthRule, Body, Coded, Cx, Destination, Entry, Exchange, FileFault, FileOperation,
    ListingRequest, Lookup, Refusal, Representation, Request, content,
    entry::worthwhile,
    location::with_slash,
    plan::{Shape, plan},
    resolve::{Resolved, Role, Search, Target},
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::mem;
use regatta_http::Status;
use regatta_metrics::Counter;
use regatta_op::{
    Coding, Codings, Fault, File, FileId, Now, OpenFault, OpenReq, Opened, ReadReq, Segment,
};

/// Pause before an exchange tries again to open a file, milliseconds.
pub(crate) const OPEN_RETRY_MS: u64 = 50;
/// Most tries to open a file, ten seconds in all. Then the answer is 503.
const OPEN_TRIES_MAX: u32 = 200;
/// Most tries to open a missing name while the root is being replaced: six seconds in all. The
/// master checks its path each second, and a busy disk may delay that by five. Then the answer is
/// 404.
const ROOT_TRIES_MAX: u32 = 120;
/// Most times that a body is read again because its file has changed meanwhile, or become shorter.
/// Then the last body is sent if it is long enough, to this client only.
const CHANGES_MAX: u8 = 2;

/// Pauses before an exchange asks again for a listing, milliseconds: most are ready at once.
const LISTING_EARLY_MS: u64 = 1;
const LISTING_RETRY_MS: u64 = 5;
/// Number of early tries.
const LISTING_TRIES_EARLY: u32 = 4;
/// Most tries, ten seconds in all. Then the answer is 503.
const LISTING_TRIES_MAX: u32 = 2_000;

/// `EACCES`, for the log.
const PERMISSION_DENIED: i32 = 13;

/// The error number `ENOMEM`.
const NO_MEMORY: i32 = 12;

/// Next need of an exchange, or its end.
#[derive(Debug)]
pub enum Step<F> {
    /// Open a name: [`Supply::Opened`].
    Open(OpenReq),
    /// Read a body, or the next part of it, into memory: [`Supply::Read`].
    Read(ReadReq<F>),
    /// Check an open file: a cached one before its bytes are sent, and any after its body has been
    /// read. [`Supply::Stat`].
    Stat(F),
    /// A name could not be opened now. Try again after this many milliseconds ([`Supply::Again`]),
    /// or give up ([`Supply::GivenUp`]).
    Hold(u64),
    /// The end: send this.
    Reply(Reply<F>),
    /// The end: a file shrank again after it had been opened as often as allowed. Nothing is sent;
    /// the connection is cut.
    Cut,
}

/// Result that an exchange waited for.
#[derive(Debug)]
pub enum Supply<F> {
    /// The result of the open.
    Opened(Result<Opened<F>, OpenFault>),
    /// The buffer, and whether the bytes of the body are in it.
    Read(Vec<u8>, Result<(), Fault>),
    /// The facts of the file as they are now.
    Stat(Result<FileId, Fault>),
    /// The time to wait is over.
    Again,
    /// The exchange cannot wait any longer.
    GivenUp,
}

/// Plan of a response, for a protocol to encode.
#[derive(Debug)]
pub enum Reply<F> {
    /// A file, or ranges of it, or that it has not been modified.
    File(FileReply<F>),
    /// A redirect, with this status, to this reference.
    Redirect(Status, Vec<u8>),
    /// 204: the methods that are served.
    Options,
    /// An error: the request is refused.
    Refused(Refusal),
    /// An error: no file answers.
    Nothing(Status),
    /// The text of a rule, which needs no file; the page for the status if it is empty.
    Ruled(Status, Arc<str>),
    /// 401: the request lacks the credentials that its path demands. This is the challenge.
    Unauthorized(Arc<str>),
}

impl<F> Reply<F> {
    /// The reply to a request that needs no file.
    pub(crate) fn without_file(refusal: Option<Refusal>) -> Self {
        refusal.map_or(Self::Options, Self::Refused)
    }
}

/// Plan of a response with a file.
#[derive(Debug)]
pub struct FileReply<F> {
    pub(crate) file: Arc<Representation<F>>,
    pub(crate) coding: Option<Coding>,
    pub(crate) shape: Shape,
    pub(crate) role: Role,
}

impl<F: File> FileReply<F> {
    /// The coding to send.
    pub(crate) fn coded(&self) -> &Coded<F> {
        self.file.coded(self.coding).expect("it was chosen of this file")
    }

    /// The status and the body, if the whole file is sent; for a protocol without fields.
    #[must_use]
    pub fn whole(&self) -> Option<(Status, Segment<F>)> {
        let status = match self.role {
            Role::Instead(status) => status,
            Role::Itself | Role::Fallback => Status::OK,
        };
        (self.shape == Shape::Whole).then(|| (status, self.coded().segment()))
    }
}

/// The result of a wait.
enum Supplied<F> {
    /// A name was opened.
    Opened(Result<Opened<F>, OpenFault>),
    /// A body was read into this file, and fits the file's facts.
    Filled(Arc<Representation<F>>),
    /// A body could not be read.
    Unreadable(Fault),
    /// An open file has not changed, or too often for its body to be cached.
    Checked(Arc<Representation<F>>),
    /// The file has changed, or its body was too short: search again. Bytes read are not sent.
    Changed,
    /// Nothing: search again.
    Nothing,
}

/// The result of reading a body.
enum Filled<F> {
    /// The body is complete, and pending. All its parts are of one content if this, its file, has
    /// not changed since it was opened.
    Whole(F),
    /// More of the body is to be read.
    Part,
    /// The body is shorter than the file was when it was opened, perhaps long ago.
    Shrank,
    /// The body could not be read.
    Unreadable(Fault),
}

/// The challenge for a request that lacks the credentials which a rule demands.
#[cold]
pub(crate) fn challenge<F>(
    rule: Option<&AuthRule>,
    request: &Request<'_>,
    cx: &Cx<'_, F>,
) -> Option<Arc<str>> {
    let rule = rule.filter(|rule| !admits(rule, request))?;
    cx.tally.add(Counter::Unauthorized, 1);
    Some(rule.challenge())
}

/// True if the request has the credentials that a rule demands.
pub(crate) fn admits(rule: &AuthRule, request: &Request<'_>) -> bool {
    request.destination.authorization().is_some_and(|value| rule.admits(value))
}

impl<F: File> Exchange<F> {
    /// Starts it.
    pub fn start(&mut self, request: &Request<'_>, now: Now, cx: &Cx<'_, F>) -> Step<F> {
        let mut decoded = cx.scratch.decoded.borrow_mut();
        match request.path(&mut decoded) {
            Ok(path) => {
                if let Some(status) = cx.site.closed {
                    return Step::Reply(Reply::Nothing(status));
                }
                if cx.site.rules.has_auth()
                    && let Some(challenge) =
                        challenge(cx.site.rules.auth_of_request(path.relative), request, cx)
                {
                    return Step::Reply(Reply::Unauthorized(challenge));
                }
                let target = Target::new(&path, request, cx.site, false);
                self.begin(&target, Search::start(&target), now, cx)
            }
            Err(refusal) => Step::Reply(Reply::without_file(refusal)),
        }
    }

    #[inline(never)]
    pub(crate) fn begin(
        &mut self,
        target: &Target<'_>,
        first: Resolved<F>,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Step<F> {
        (self.release, self.takes_files) = (cx.site.release, target.takes_files);
        let step = self.search(target, first, now, cx);
        if !matches!(step, Step::Reply(_)) {
            let destination = target.request.destination;
            let may_matter = cx.site.rules.has_auth().then_some(destination);
            let credentials = may_matter.and_then(Destination::authorization);
            self.request.keep(target.request, target.path, credentials);
        }
        step
    }

    /// Continues with the supply that it waited for.
    ///
    /// # Panics
    /// If it did not wait for that.
    #[cold]
    pub fn resume(&mut self, supply: Supply<F>, now: Now, cx: &Cx<'_, F>) -> Step<F> {
        self.count(&supply, cx);
        if self.release != cx.site.release {
            return self.restart(supply, now, cx);
        }
        let supplied = match supply {
            // It may be of another release than the rules.
            Supply::Opened(_) if cx.scratch.is_behind() => return self.await_site(),
            Supply::Opened(Err(fault)) => match self.hold(fault, cx) {
                Ok(Some(step)) => return step,
                Ok(None) => Supplied::Nothing,
                Err(fault) => Supplied::Opened(Err(fault)),
            },
            Supply::Opened(found) => Supplied::Opened(found),
            Supply::Read(buffer, read) => {
                let filled = self.fill(&buffer, read);
                cx.scratch.give_read_buffer(buffer);
                match filled {
                    Filled::Part => return self.read_part(cx),
                    Filled::Whole(file) if self.changes < CHANGES_MAX => return Step::Stat(file),
                    // Perhaps it is of two contents: it answers this request alone.
                    Filled::Whole(_) => Supplied::Checked(self.take_pending()),
                    Filled::Unreadable(fault) => Supplied::Unreadable(fault),
                    // Nothing has been sent, but the opened file no longer has its content.
                    Filled::Shrank if self.changes < CHANGES_MAX => {
                        self.changes += 1;
                        Supplied::Changed
                    }
                    Filled::Shrank => return Step::Cut,
                }
            }
            Supply::Stat(found) => self.checked(found),
            Supply::Again => Supplied::Nothing,
            Supply::GivenUp => {
                Supplied::Opened(Err(self.held.take().expect("it was told to hold")))
            }
        };
        let kept = mem::take(&mut self.request);
        let conditions = kept.conditions();
        let (request, path) = (kept.request(&conditions), kept.path());
        let target = Target::new(&path, &request, cx.site, self.takes_files);
        let found = self.take_supply(&target, supplied, now, cx);
        let step = self.search(&target, found, now, cx);
        self.request = kept;
        step
    }

    /// Counts completed disk operations.
    fn count(&self, supply: &Supply<F>, cx: &Cx<'_, F>) {
        match supply {
            Supply::Opened(_) => {
                cx.tally.add(Counter::Opens, 1);
                cx.tally.add(Counter::OpenSiblings, count(self.siblings));
            }
            Supply::Read(buffer, read) => {
                cx.tally.add(Counter::Reads, 1);
                if read.is_ok() {
                    cx.tally.add(Counter::ReadBytes, buffer.len() as u64);
                }
            }
            Supply::Stat(_) | Supply::Again | Supply::GivenUp => {}
        }
    }

    /// Searches again by the rules of the release that took the place of the one that it began
    /// with: no answer has parts of two.
    #[cold]
    fn restart(&mut self, supply: Supply<F>, now: Now, cx: &Cx<'_, F>) -> Step<F> {
        if let Supply::Read(buffer, _) = supply {
            cx.scratch.give_read_buffer(buffer);
        }
        let (kept, note) = (mem::take(&mut self.request), mem::take(&mut self.note));
        let (release, takes_files) = (cx.site.release, self.takes_files);
        *self = Self { note, release, takes_files, ..Self::default() };
        if let Some(status) = cx.site.closed {
            return Step::Reply(Reply::Nothing(status));
        }
        let conditions = kept.conditions();
        let (request, path) = (kept.request(&conditions), kept.path());
        let target = Target::new(&path, &request, cx.site, self.takes_files);
        let step = self.search(&target, Search::start(&target), now, cx);
        self.request = kept;
        step
    }

    /// Waits until the unit knows the sites of the roots that its process has.
    fn await_site(&mut self) -> Step<F> {
        self.held = Some(OpenFault::Busy);
        self.pending = None;
        Step::Hold(OPEN_RETRY_MS)
    }

    /// A name could not be opened. If it may be opened later, returns when to try: `None` is at
    /// once. Without descriptors that is at once if the cache could close a file, else later, when
    /// other exchanges have ended. A file that is busy, or missing while the root is being
    /// replaced, is tried later.
    fn hold(&mut self, fault: OpenFault, cx: &Cx<'_, F>) -> Result<Option<Step<F>>, OpenFault> {
        let (tries_max, last) = match fault {
            // A stale entry is served.
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

    /// Takes the part of a body that was read, or the fault.
    fn fill(&mut self, bytes: &[u8], read: Result<(), Fault>) -> Filled<F> {
        let (open, len) = self.open_file();
        let file = self.take_pending();
        let mut body = mem::take(&mut self.body);
        if let Err(fault) = read {
            return Filled::Unreadable(fault);
        }
        if bytes.len() as u64 != self.part {
            return Filled::Shrank;
        }
        let whole = if self.part == len {
            bytes
        } else {
            let room = usize::try_from(len).unwrap_or(usize::MAX) - body.len();
            if body.try_reserve_exact(room).is_err() {
                return Filled::Unreadable(Fault::Other(NO_MEMORY));
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
        self.pending = Some(Arc::new(file));
        Filled::Whole(open)
    }

    /// Reads the next part of the body, at most as much as is read at once.
    fn read_part(&mut self, cx: &Cx<'_, F>) -> Step<F> {
        let ((file, len), at) = (self.open_file(), self.body.len() as u64);
        let part_max = cx.site.caching.read_bytes_max.max(1);
        let part = usize::try_from(len - at).map_or(part_max, |left| left.min(part_max));
        self.part = part as u64;
        let buffer = cx.scratch.take_read_buffer(part);
        Step::Read(ReadReq { file, at, len: self.part, buffer })
    }

    /// Compares the facts of the pending file with the present ones. Its body is in memory if just
    /// read.
    fn checked(&mut self, found: Result<FileId, Fault>) -> Supplied<F> {
        let file = self.take_pending();
        let same = file.coded(self.coding).filter(|coded| found == Ok(coded.id));
        match same.map(|coded| matches!(coded.body, Body::Memory(_))) {
            Some(true) => Supplied::Filled(file),
            Some(false) => Supplied::Checked(file),
            None => {
                self.changes = self.changes.saturating_add(1);
                Supplied::Changed
            }
        }
    }

    fn take_pending(&mut self) -> Arc<Representation<F>> {
        self.pending.take().expect("a file is pending while it is read or looked at")
    }

    /// Searches for the file that answers, in the cache first, then on the disk, from `found` on.
    #[inline(never)]
    fn search(
        &mut self,
        target: &Target<'_>,
        mut found: Resolved<F>,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Step<F> {
        let (request, limits) = (target.request, &cx.site.limits);
        let reply = loop {
            found = match found {
                Resolved::Next(next) if next.is_listing() => {
                    self.search = next;
                    match self.list(target, now, cx) {
                        Ok(found) => found,
                        Err(step) => return step,
                    }
                }
                Resolved::Next(next) => {
                    self.search = next;
                    self.is_current = false;
                    match self.look_up(target, now, cx) {
                        Ok(entry) => next.consider(target, entry),
                        Err(step) => return step,
                    }
                }
                Resolved::File(file, role) => {
                    let plan = plan(request, &file, role, limits.ranges_max, now.unix);
                    let coding = plan.coded.coding;
                    if plan.fill(request.method, target.body_bytes_max).is_some() {
                        (self.pending, self.coding) = (Some(file), coding);
                        self.body = Vec::new();
                        return self.read_part(cx);
                    }
                    // The cached facts may be old, but the bytes are current: check that the file
                    // is unchanged.
                    if !self.is_current && plan.sends_file(request.method) {
                        (self.pending, self.coding) = (Some(file), coding);
                        return Step::Stat(self.open_file().0);
                    }
                    let shape = plan.shape;
                    break Reply::File(FileReply { file, coding, shape, role });
                }
                Resolved::Redirect => {
                    break Reply::Redirect(Status::MOVED_PERMANENTLY, with_slash(target.path));
                }
                Resolved::Elsewhere(status, to) => break Reply::Redirect(status, to),
                Resolved::Nothing(status) => break Reply::Nothing(status),
                Resolved::Answer(status, text) => break Reply::Ruled(status, text),
            };
        };
        Step::Reply(reply)
    }

    /// The listing of the folder that the path names.
    ///
    /// # Errors
    /// The wait for it.
    #[cold]
    fn list(
        &mut self,
        target: &Target<'_>,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Result<Resolved<F>, Step<F>> {
        let path = target.path.relative;
        let unavailable = Resolved::Nothing(Status::SERVICE_UNAVAILABLE);
        let Some(lister) = &cx.scratch.lister else { return Ok(unavailable) };
        let mut room = cx.scratch.key.borrow_mut();
        let key = cx.site.key(path, &mut room);
        let wanted = ListingRequest::new(target.request, target.path, key, cx.site);
        match lister.page(&wanted, now) {
            Some(Ok(body)) => {
                let listing = Representation::of_listing(path, wanted.format, body, cx.site);
                Ok(Resolved::File(Arc::new(listing), Role::Itself))
            }
            Some(Err(fault)) => {
                if let Some(errno) = errno_of(fault) {
                    let (host, wanted) = (&*cx.site.host_name, FileOperation::Read);
                    cx.log.fault(&FileFault { host, path, wanted, errno });
                }
                Ok(self.search.consider(target, Entry::Missing(fault)))
            }
            None if self.tries < LISTING_TRIES_MAX => {
                self.tries += 1;
                self.held = Some(OpenFault::Busy);
                let first = self.tries <= LISTING_TRIES_EARLY;
                Err(Step::Hold(if first { LISTING_EARLY_MS } else { LISTING_RETRY_MS }))
            }
            None => Ok(unavailable),
        }
    }

    /// The cached entry of the current name.
    ///
    /// # Errors
    /// The open that is needed, or the challenge for the password that the file demands.
    fn look_up(
        &mut self,
        target: &Target<'_>,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Result<Entry<F>, Step<F>> {
        let mut room = cx.scratch.candidate.borrow_mut();
        self.pending = None;
        self.was_stale = false;
        let missing = Ok(Entry::Missing(OpenFault::NotFound));
        let Some(name) = self.search.name(target, &mut room) else {
            return missing;
        };
        let guard = cx.site.rules.auth_beside(target.path.relative, name);
        if self.search.role() == Role::Itself {
            if let Some(challenge) = challenge(guard, target.request, cx) {
                return Err(Step::Reply(Reply::Unauthorized(challenge)));
            }
        } else if guard.is_some_and(|rule| !admits(rule, target.request)) {
            // The path that was asked for has no file, and no password would bring it.
            return missing;
        }
        if target.rules.holds_rules(name) {
            return missing;
        }
        let mut room = cx.scratch.key.borrow_mut();
        let key = cx.site.key(name, &mut room);
        if cx.site.caching.enabled {
            let found = cx.cache.get(key, now.tick, &cx.tally);
            if cx.scratch.is_behind() {
                return Err(self.await_site());
            }
            match found {
                Lookup::Fresh(entry) => return Ok(entry),
                Lookup::Stale(entry) => {
                    self.was_stale = true;
                    if let Entry::File(file) = entry {
                        self.pending = Some(file);
                    }
                }
                Lookup::Miss => {}
            }
        }
        self.siblings = content::siblings(name, cx.site);
        self.requested_at = now;
        Err(Step::Open(OpenReq { path: key.into(), siblings: self.siblings }))
    }

    /// Takes the result of a wait, caches it, and continues the search.
    #[cold]
    fn take_supply(
        &mut self,
        target: &Target<'_>,
        supplied: Supplied<F>,
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Resolved<F> {
        let mut room = cx.scratch.candidate.borrow_mut();
        let search = self.search;
        let name = search.name(target, &mut room).expect("it was looked for");
        let mut key_room = cx.scratch.key.borrow_mut();
        let key = cx.site.key(name, &mut key_room);
        let (rules, host) = (&cx.site.caching, &*cx.site.host_name);
        self.is_current = !matches!(supplied, Supplied::Opened(Err(_)));
        let (entry, opened) = match supplied {
            Supplied::Nothing => return Resolved::Next(search),
            Supplied::Changed => {
                // This exchange has not cached its own open: an entry that was not stale is
                // another's, and newer.
                if self.opened.take().is_none() || self.was_stale {
                    cx.cache.remove(key, &cx.tally);
                }
                return Resolved::Next(search);
            }
            Supplied::Unreadable(fault) => {
                self.opened = None;
                if let Fault::Other(errno) = fault {
                    cx.log.fault(&FileFault {
                        host,
                        path: name,
                        wanted: FileOperation::Read,
                        errno,
                    });
                }
                return Resolved::Nothing(Status::INTERNAL_SERVER_ERROR);
            }
            Supplied::Checked(file) => (Entry::File(file), None),
            Supplied::Filled(file) => {
                let opened = self.opened.take();
                if rules.enabled && opened.is_none() {
                    cx.cache.fill(key, &file, &cx.tally);
                }
                (Entry::File(file), opened)
            }
            Supplied::Opened(found) => {
                self.tries = 0;
                if let Some(errno) = found.as_ref().err().copied().and_then(errno_of) {
                    cx.log.fault(&FileFault {
                        host,
                        path: name,
                        wanted: FileOperation::Open,
                        errno,
                    });
                }
                let mut opened = found.as_ref().err().is_none_or(|fault| !is_transient(*fault));
                let entry = self.entry(name, found, now, cx);
                // The result was true at some time since the request: of two results the one
                // requested later is the newer, whichever comes first.
                let at = self.requested_at.tick;
                // The body will be read next: the entry is cached once, with it.
                if rules.enabled && will_fill(target, search, &entry, now, cx) {
                    self.opened = opened.then_some(at);
                    opened = false;
                }
                (entry, opened.then_some(at))
            }
        };
        if let Some(opened) = opened.filter(|_| rules.enabled) {
            cx.cache.put(key, &entry, opened, &cx.tally);
        }
        search.consider(target, entry)
    }

    /// The entry for the result; the stale one if nothing has changed.
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
                let open = cx.scratch.deriver.is_some().then(|| (file.clone(), siblings.clone()));
                let found = match stale.filter(|stale| stale.is_same(&file, &siblings)) {
                    Some(stale) => stale,
                    None => {
                        let asked = self.requested_at.unix;
                        let site = cx.site;
                        Arc::new(Representation::new(name, file, siblings, site, now, asked))
                    }
                };
                Entry::File(with_derived(found, open, cx))
            }
            Ok(Opened::Directory) => Entry::Directory,
            Err(fault) => match stale {
                // A lack of descriptors is no reason not to serve the stale entry.
                Some(stale) if is_transient(fault) => Entry::File(stale),
                _ => Entry::Missing(fault),
            },
        }
    }

    /// The name of the file that was found, in a coding: it can be opened again by that.
    pub(crate) fn file_name(&self, coding: Option<Coding>, cx: &Cx<'_, F>) -> Option<Box<[u8]>> {
        let conditions = self.request.conditions();
        let (request, path) = (self.request.request(&conditions), self.request.path());
        let target = Target::new(&path, &request, cx.site, self.takes_files);
        let mut room = cx.scratch.candidate.borrow_mut();
        let name = self.search.name(&target, &mut room)?;
        let mut key_room = cx.scratch.key.borrow_mut();
        let key = cx.site.key(name, &mut key_room);
        let suffix = coding.map_or("", Coding::suffix);
        Some([key, suffix.as_bytes()].concat().into())
    }

    /// The open file of the pending coding, and its length.
    fn open_file(&self) -> (F, u64) {
        let coded = self.pending.as_ref().and_then(|file| file.coded(self.coding));
        match coded.map(|coded| (&coded.body, coded.len())) {
            Some((Body::File(open), len)) => (open.clone(), len),
            _ => unreachable!("a file is pending while it is read or looked at"),
        }
    }
}

/// The file with tags of its content and compressed forms, if it lacks them and they are ready.
/// They are made otherwise. `open` is the file and its siblings on disk.
fn with_derived<F: File>(
    mut file: Arc<Representation<F>>,
    open: Option<(F, [Option<F>; 3])>,
    cx: &Cx<'_, F>,
) -> Arc<Representation<F>> {
    let Some((deriver, (plain, siblings))) = cx.scratch.deriver.as_ref().zip(open) else {
        return file;
    };
    let coded = Coding::ALL.into_iter().map(Some).zip(siblings);
    for (coding, open) in coded.chain([(None, Some(plain.clone()))]) {
        let open = open.filter(|_| file.lacks_digest(coding));
        if let Some(digest) = open.and_then(|open| deriver.digest(&open)) {
            Arc::make_mut(&mut file).add_digest(coding, &digest);
        }
    }
    if file.lacks_forms()
        && let Some(forms) = deriver.forms(&plain)
    {
        Arc::make_mut(&mut file).add_forms(forms);
    }
    file
}

fn will_fill<F: File>(
    target: &Target<'_>,
    search: Search,
    entry: &Entry<F>,
    now: Now,
    cx: &Cx<'_, F>,
) -> bool {
    let Entry::File(file) = entry else {
        return false;
    };
    let request = target.request;
    let plan = plan(request, file, search.role(), cx.site.limits.ranges_max, now.unix);
    plan.fill(request.method, target.body_bytes_max).is_some()
}

/// Error number of a fault that is logged.
const fn errno_of(fault: OpenFault) -> Option<i32> {
    match fault {
        OpenFault::Other(errno) => Some(errno),
        OpenFault::Denied => Some(PERMISSION_DENIED),
        _ => None,
    }
}

/// True for transient faults, which say nothing about the file and are not cached.
fn is_transient(fault: OpenFault) -> bool {
    matches!(fault, OpenFault::Exhausted | OpenFault::Busy | OpenFault::Other(_))
}

/// The number of codings.
fn count(codings: Codings) -> u64 {
    Coding::ALL.into_iter().map(|coding| u64::from(codings.has(coding))).sum()
}
