//! A little driver: connections over an in-memory file system, with every byte in the test's hand.
use regatta_http::pattern::Pattern;
use regatta_metrics::{Arena, Counter, Tally};
use regatta_op::{
    CloseReason, Coding, Done, Fault, File, FileId, Modified, Now, Op, OpKind, OpenFault, OpenReq,
    Opened, Outbox, ReadReq, Segment, Tick,
};
use regatta_origin::{
    AuthRule, ClearHttp1, Cx, FileFault, FileOperation, HeaderLine, Link, Links, ListenerClass,
    LocalCache, Log, Peer, Protocol as _, Record, Redirect, Refusal, ReplyOutcome, Rules, Scratch,
    Site, explain,
};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    sync::atomic::AtomicU64,
};

/// A file: its bytes may shrink behind its facts.
#[derive(Clone, Debug)]
pub(crate) struct FakeFile(Rc<(FileId, RefCell<Vec<u8>>)>);

impl File for FakeFile {
    fn id(&self) -> FileId {
        self.0.0
    }
}

impl FakeFile {
    pub(crate) fn truncate(&self, len: usize) {
        self.0.1.borrow_mut().truncate(len);
    }

    /// Writes it in its place within the tick of its last change: its facts stay what they are.
    pub(crate) fn rewrite(&self, bytes: &[u8]) {
        assert_eq!(bytes.len() as u64, self.id().len);
        self.overwrite(bytes);
    }

    /// Writes it in its place: whoever has it open reads this.
    pub(crate) fn overwrite(&self, bytes: &[u8]) {
        *self.0.1.borrow_mut() = bytes.to_vec();
    }

    /// Current facts of the file.
    fn stat(&self) -> FileId {
        FileId { len: self.0.1.borrow().len() as u64, ..self.id() }
    }

    pub(crate) fn holders(&self) -> usize {
        Rc::strong_count(&self.0)
    }

    pub(crate) fn bytes(&self, at: u64, len: u64) -> Vec<u8> {
        let bytes = self.0.1.borrow();
        let start = usize::try_from(at).unwrap().min(bytes.len());
        let end = usize::try_from(at + len).unwrap().min(bytes.len());
        bytes[start..end].to_vec()
    }
}

/// Reads as a system would, into the buffer that was lent.
pub(crate) fn read(req: ReadReq<FakeFile>) -> Vec<u8> {
    let (mut buffer, len) = (req.buffer, usize::try_from(req.len).unwrap());
    assert!(buffer.is_empty() && buffer.capacity() >= len, "a buffer of {}", buffer.capacity());
    buffer.extend(req.file.bytes(req.at, req.len));
    buffer
}

/// Records and faults that the log received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Logged {
    pub(crate) line: String,
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) body_sent_bytes: u64,
    pub(crate) outcome: ReplyOutcome,
    pub(crate) agent: String,
    pub(crate) duration_ms: u64,
    pub(crate) keep_alive: bool,
    pub(crate) refused: Option<&'static str>,
}

#[derive(Debug, Default)]
pub(crate) struct TestLog {
    pub(crate) on: Cell<bool>,
    pub(crate) records: RefCell<Vec<Logged>>,
    pub(crate) faults: RefCell<Vec<(String, FileOperation, i32)>>,
}

impl Log for TestLog {
    fn wants(&self) -> bool {
        self.on.get()
    }

    fn record(&self, record: &Record<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.records.borrow_mut().push(Logged {
            line: format!("{} {} {}", text(record.method), text(record.target), record.version),
            status: record.status,
            body_bytes: record.body_bytes,
            sent_bytes: record.sent_bytes,
            body_sent_bytes: record.body_sent_bytes,
            outcome: record.outcome,
            refused: record.refused.map(Refusal::name),
            agent: record.user_agent.map(text).unwrap_or_default(),
            duration_ms: record.duration_ms,
            keep_alive: record.keep_alive,
        });
    }

    fn fault(&self, fault: &FileFault<'_>) {
        let path = String::from_utf8_lossy(fault.path).into_owned();
        self.faults.borrow_mut().push((path, fault.wanted, fault.errno));
    }
}

/// A worker's world: a site, its files, and a clock that only tests move.
pub(crate) struct Rig {
    pub(crate) site: Site,
    pub(crate) cache: LocalCache<FakeFile>,
    pub(crate) scratch: Scratch<FakeFile>,
    pub(crate) log: TestLog,
    pub(crate) files: RefCell<BTreeMap<Vec<u8>, FakeFile>>,
    pub(crate) faults: RefCell<BTreeMap<Vec<u8>, OpenFault>>,
    pub(crate) opens: Cell<u64>,
    pub(crate) tick: Cell<u64>,
    pub(crate) links: &'static dyn Links<FakeFile>,
    /// Class of the listener of new connections.
    pub(crate) class: Cell<ListenerClass>,
    generation: Cell<u32>,
    arena: Arena<'static>,
}

pub(crate) const UNIX: u64 = 1_700_000_000;

impl Rig {
    pub(crate) fn new(site: Site) -> Self {
        let words: Vec<_> = (0..Arena::count_words(1)).map(|_| AtomicU64::new(0)).collect();
        let rig = Self {
            cache: LocalCache::new(&site.caching, site.seed),
            scratch: Scratch::new(7),
            log: TestLog::default(),
            files: RefCell::default(),
            faults: RefCell::default(),
            opens: Cell::new(0),
            tick: Cell::new(1_000),
            links: &ClearHttp1,
            class: Cell::default(),
            generation: Cell::new(0),
            arena: Arena::create(Vec::leak(words), 1),
            site,
        };
        rig.put("index.html", b"<h1>home</h1>\n");
        rig.put("404.html", b"<h1>lost</h1>\n");
        rig.put("app.js", &[b'j'; 3000]);
        rig.put("app.js.br", &[b'b'; 700]);
        rig.put("app.js.gz", &[b'g'; 900]);
        rig.put("docs/index.html", b"docs");
        rig.put("docs/guide.html", b"guide");
        rig.put("empty.txt", b"");
        rig.put("ten.txt", b"0123456789");
        rig.put("small.bin", &pattern(4 << 10));
        rig.put("mid.bin", &pattern(40 << 10));
        rig.put("big.bin", &pattern(200 << 10));
        rig.put("with space.txt", b"spaced");
        rig.put(".hidden", b"no");
        rig.put(".well-known/acme", b"yes");
        rig
    }

    /// Writes a file: a new one each time, even with the same bytes.
    pub(crate) fn put(&self, path: &str, bytes: &[u8]) -> FakeFile {
        self.put_at(path, bytes, 1_600_000_000)
    }

    /// [`Rig::put`] in another second than one of long ago.
    pub(crate) fn put_at(&self, path: &str, bytes: &[u8], secs: i64) -> FakeFile {
        self.generation.set(self.generation.get() + 1);
        let time = Modified { secs, nanos: self.generation.get() };
        let id = FileId {
            device: 1,
            inode: u64::from(self.generation.get()),
            len: bytes.len() as u64,
            modified: time,
            changed: time,
        };
        let file = FakeFile(Rc::new((id, RefCell::new(bytes.to_vec()))));
        self.files.borrow_mut().insert(path.into(), file.clone());
        file
    }

    pub(crate) fn delete(&self, path: &str) {
        self.files.borrow_mut().remove(path.as_bytes());
    }

    pub(crate) fn now(&self) -> Now {
        let tick = self.tick.get();
        Now { tick: Tick(tick), unix: UNIX + tick / 1000 }
    }

    pub(crate) fn pass(&self, ms: u64) {
        self.tick.set(self.tick.get() + ms);
    }

    pub(crate) fn cx(&self) -> Cx<'_, FakeFile> {
        Cx {
            site: &self.site,
            cache: &self.cache,
            tally: Tally::Owned(self.arena.slot(0)),
            log: &self.log,
            scratch: &self.scratch,
            links: self.links,
        }
    }

    pub(crate) fn count(&self, counter: Counter) -> u64 {
        self.arena.slot(0).get(counter)
    }

    pub(crate) fn open(&self, req: &OpenReq) -> Result<Opened<FakeFile>, OpenFault> {
        self.opens.set(self.opens.get() + 1);
        assert!(!req.path.starts_with(b"/") && !req.path.ends_with(b"/"), "{req:?}");
        if let Some(fault) = self.faults.borrow().get(&*req.path) {
            return Err(*fault);
        }
        let files = self.files.borrow();
        let name = resolved(&req.path)?;
        let Some(file) = files.get(&name) else {
            let below = [&*name, b"/"].concat();
            let directory = name.is_empty() || files.keys().any(|path| path.starts_with(&below));
            return if directory { Ok(Opened::Directory) } else { Err(OpenFault::NotFound) };
        };
        let siblings = Coding::ALL.map(|coding| {
            let path = [&*name, coding.suffix().as_bytes()].concat();
            files.get(&path).filter(|_| req.siblings.has(coding)).cloned()
        });
        Ok(Opened::File { file: file.clone(), siblings })
    }

    /// Performs what needs no peer; `None` for `Close`.
    pub(crate) fn perform(&self, op: Op<FakeFile>) -> Option<Done<'static, FakeFile>> {
        match op {
            Op::Open(ticket, req) => Some(Done::Open(ticket, self.open(&req))),
            Op::Read(ticket, req) => Some(Done::Read(ticket, read(req), Ok(()))),
            Op::Stat(ticket, file) => Some(Done::Stat(ticket, Ok(file.stat()))),
            Op::Send(mut outbox) => {
                let n = outbox.len();
                outbox.advance(n);
                Some(Done::Send(outbox, Ok(n)))
            }
            Op::Shut => Some(Done::Shut),
            Op::Recv | Op::Close(_) => None,
        }
    }

    /// A new connection.
    pub(crate) fn connect(&self) -> Client<'_> {
        let peer = Peer::from(std::net::SocketAddr::from(([127, 0, 0, 1], 4000)));
        let peer = peer.in_class(self.class.get());
        let conn = Link::new(peer, self.now(), &self.cx());
        let mut client = Client {
            rig: self,
            conn,
            parked: None,
            kinds: Vec::new(),
            output: Vec::new(),
            room: u64::MAX,
            send_bytes_max: u64::MAX,
            hold_reads: false,
            hold_opens: false,
            held: false,
            shut: false,
            closed: None,
        };
        client.run();
        client
    }

    /// A new connection whose peer sends `bytes`.
    pub(crate) fn connect_with(&self, bytes: &[u8]) -> Client<'_> {
        let mut client = self.connect();
        client.feed(bytes);
        client
    }

    /// [`Rig::connect_with`] while the disk is slow: opens or reads wait.
    pub(crate) fn connect_held(&self, kind: OpKind, bytes: &[u8]) -> Client<'_> {
        let mut client = self.connect();
        (client.hold_opens, client.hold_reads) = (kind == OpKind::Open, kind == OpKind::Read);
        client.feed(bytes);
        client
    }

    /// [`Rig::connect_with`] with a kernel that takes `room` bytes of the answer.
    pub(crate) fn connect_full(&self, room: u64, bytes: &[u8]) -> Client<'_> {
        let mut client = self.connect();
        client.room = room;
        client.feed(bytes);
        client
    }

    /// Sends `request` on a connection of its own: all that comes back.
    pub(crate) fn ask(&self, request: &str) -> Vec<u8> {
        self.connect_with(request.as_bytes()).output
    }

    /// [`Rig::ask`] for a request that is not `HEAD`, as a client reads it.
    pub(crate) fn respond(&self, request: &str) -> Response {
        Response::parse(&self.ask(request), false).0
    }

    /// Explains a request in the clear: the decisions, and the head.
    pub(crate) fn explain(&self, request: &str) -> (Vec<String>, String) {
        let open = &mut |req: &OpenReq| self.open(req);
        let clear = ListenerClass::CLEAR;
        let explained = explain(request.as_bytes(), clear, open, None, &self.site, self.now());
        let decisions = explained.decisions.iter().map(ToString::to_string).collect();
        (decisions, String::from_utf8(explained.head).unwrap())
    }

    /// Checks that one of the decisions on a request is this.
    #[track_caller]
    pub(crate) fn decides(&self, request: &str, expected: &str) {
        let (decisions, _) = self.explain(request);
        assert!(decisions.iter().any(|made| made == expected), "{request}: {decisions:#?}");
    }
}

/// SHA-256 of `abc`.
pub(crate) const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

pub(crate) fn add_headers(rules: &mut Rules, path: &str, lines: &[&str], place: &str) {
    let lines = lines.iter().map(|line| HeaderLine::parse(line).unwrap()).collect();
    rules.add_headers(&Pattern::parse(path).unwrap(), lines, place).unwrap();
}

pub(crate) fn add_redirect(
    rules: &mut Rules,
    [from, to]: [&str; 2],
    status: u16,
    force: bool,
    place: &str,
) {
    let pattern = Pattern::parse(from).unwrap();
    let redirect = Redirect::new(&pattern, to, status, force, place).unwrap();
    rules.add_redirect(&pattern, redirect).unwrap();
}

/// Adds a rule for a user, given as `name:hash`.
pub(crate) fn add_auth(rules: &mut Rules, [path, realm]: [&str; 2], user: &str, place: &str) {
    let rule = AuthRule::new(realm, &[user.to_owned()], place).unwrap();
    rules.add_auth(&Pattern::parse(path).unwrap(), rule).unwrap();
}

/// A request with these field lines.
pub(crate) fn get_with(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

pub(crate) fn get(path: &str) -> String {
    get_with(path, "")
}

pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect()
}

/// Connection under test, with its driver.
pub(crate) struct Client<'a> {
    pub(crate) rig: &'a Rig,
    pub(crate) conn: Link<FakeFile>,
    parked: Option<Op<FakeFile>>,
    pub(crate) kinds: Vec<OpKind>,
    pub(crate) output: Vec<u8>,
    /// Number of further bytes that the kernel takes.
    pub(crate) room: u64,
    pub(crate) send_bytes_max: u64,
    /// The disk is slow: reads wait.
    pub(crate) hold_reads: bool,
    /// The disk is slow: opens wait.
    pub(crate) hold_opens: bool,
    /// The kernel may hold the last bytes until `Shut`.
    held: bool,
    pub(crate) shut: bool,
    pub(crate) closed: Option<CloseReason>,
}

impl Client<'_> {
    pub(crate) fn waits_for(&self) -> Option<OpKind> {
        self.parked.as_ref().map(Op::kind)
    }

    /// The connection itself, with a `Recv` out, for a test that drives it.
    pub(crate) fn take_conn(&mut self) -> Link<FakeFile> {
        assert!(matches!(self.parked, Some(Op::Recv)));
        let fresh = self.rig.connect().conn;
        std::mem::replace(&mut self.conn, fresh)
    }

    fn done(&mut self, done: Done<'_, FakeFile>) {
        self.conn.complete(done, self.rig.now(), &self.rig.cx());
        self.conn.check_invariants();
        self.rig.cache.check_invariants();
    }

    /// Performs operations until the connection waits for the peer.
    pub(crate) fn run(&mut self) {
        loop {
            let op = match self.parked.take() {
                Some(op) => op,
                None => match self.conn.next_op() {
                    Some(op) => {
                        let held = std::mem::take(&mut self.held);
                        assert!(!held || op.kind() == OpKind::Shut, "what is held leaves at once");
                        self.kinds.push(op.kind());
                        self.conn.check_invariants();
                        op
                    }
                    None => return,
                },
            };
            let waits = match op {
                Op::Recv => true,
                Op::Send(_) => self.room == 0,
                Op::Open(..) => self.hold_opens,
                Op::Read(..) => self.hold_reads,
                Op::Stat(..) | Op::Shut | Op::Close(_) => false,
            };
            if waits {
                self.parked = Some(op);
                return;
            }
            self.shut |= matches!(op, Op::Shut);
            match op {
                Op::Send(outbox) => self.send(outbox),
                Op::Close(reason) => {
                    self.closed = Some(reason);
                    return;
                }
                other => {
                    let done = self.rig.perform(other).expect("it needs no peer");
                    self.done(done);
                }
            }
        }
    }

    /// The disk answers, and the kernel takes everything.
    pub(crate) fn release(&mut self) {
        (self.hold_opens, self.hold_reads, self.room) = (false, false, u64::MAX);
        self.run();
    }

    /// Sends at most what the kernel takes, as one call would: memory, or one file range.
    fn send(&mut self, mut outbox: Outbox<FakeFile>) {
        let limit = self.room.min(self.send_bytes_max);
        let mut bytes: Vec<u8> = outbox.slices().flatten().copied().collect();
        if let Some(Segment::File { file, at, len }) =
            outbox.segments().next().filter(|_| bytes.is_empty())
        {
            bytes = file.bytes(*at, *len);
        }
        bytes.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let n = bytes.len() as u64;
        outbox.advance(n);
        self.output.extend_from_slice(&bytes);
        self.room = self.room.saturating_sub(n);
        self.held = outbox.is_empty() && outbox.ends();
        self.done(Done::Send(outbox, Ok(n)));
    }

    /// Performs a read that is held: from where, how many bytes, and where its buffer is.
    pub(crate) fn read_once(&mut self) -> (u64, u64, *const u8) {
        let Some(Op::Read(ticket, req)) = self.parked.take() else { panic!("no read is held") };
        let range = (req.at, req.len, req.buffer.as_ptr());
        self.done(Done::Read(ticket, read(req), Ok(())));
        self.run();
        range
    }

    /// The peer sends bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.run();
        if self.closed.is_some() {
            return;
        }
        assert_eq!(self.waits_for(), Some(OpKind::Recv), "it reads when nothing else is to do");
        self.parked = None;
        self.done(Done::Recv(Ok(bytes)));
        self.run();
    }

    /// The server has too much to do. True if what was out has been given up.
    pub(crate) fn turn_away(&mut self) -> bool {
        self.conn.turn_away(self.rig.now(), &self.rig.cx());
        self.after_abandoning()
    }

    /// The peer ends its half.
    pub(crate) fn end(&mut self) {
        self.feed(b"");
    }

    pub(crate) fn fail(&mut self, fault: Fault) {
        match self.parked.take() {
            Some(Op::Recv) => self.done(Done::Recv(Err(fault))),
            Some(Op::Send(outbox)) => self.done(Done::Send(outbox, Err(fault))),
            Some(Op::Read(ticket, req)) => {
                self.done(Done::Read(ticket, req.buffer, Err(fault)));
            }
            other => panic!("{other:?} has no fault"),
        }
        self.run();
    }

    /// Lets time pass and expires the connection. True if it dropped the operation in flight.
    pub(crate) fn expire(&mut self, ms: u64, queued: u64) -> bool {
        self.rig.pass(ms);
        self.conn.expire(queued, self.rig.now(), &self.rig.cx());
        self.after_abandoning()
    }

    /// The driver cannot continue with it.
    pub(crate) fn cut(&mut self, reason: CloseReason) {
        self.conn.cut(reason, self.rig.now(), &self.rig.cx());
        self.after_abandoning();
    }

    pub(crate) fn drain(&mut self) {
        self.conn.drain(self.rig.now(), &self.rig.cx());
        assert!(!self.after_abandoning(), "what is out stays out");
    }

    fn after_abandoning(&mut self) -> bool {
        self.conn.check_invariants();
        let abandoned = self.conn.abandoned().is_some();
        if abandoned {
            self.parked = None;
        }
        self.run();
        abandoned
    }

    /// The responses so far; `heads` says which are to `HEAD` requests.
    pub(crate) fn responses(&self, heads: &[usize]) -> Vec<Response> {
        let mut rest = &self.output[..];
        let mut all = Vec::new();
        while !rest.is_empty() {
            let (response, used) = Response::parse(rest, heads.contains(&all.len()));
            all.push(response);
            rest = &rest[used..];
        }
        all
    }

    pub(crate) fn statuses(&self) -> Vec<u16> {
        self.responses(&[]).iter().map(|response| response.status).collect()
    }
}

/// A response as a client reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn parse(bytes: &[u8], head_only: bool) -> (Self, usize) {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head") + 4;
        let head = std::str::from_utf8(&bytes[..end]).unwrap().to_owned();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut response = Self { status, head, body: Vec::new() };
        let bodiless = head_only || status == 304 || status == 204;
        let len = if bodiless {
            0
        } else {
            response.field("content-length").expect("a length").parse().unwrap()
        };
        response.body = bytes[end..].get(..len).expect("all of the body").to_vec();
        (response, end + len)
    }

    /// The value of a field; those of several lines are joined.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let values: Vec<_> =
            lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }
}

/// Expected answer to a request.
pub(crate) struct Expected<'a> {
    pub(crate) status: u16,
    /// Fields and their values; an empty value means that the field is absent.
    pub(crate) fields: &'a [(&'a str, &'a str)],
    pub(crate) body: Option<&'a [u8]>,
}

/// A name as a kernel that stays below the root resolves it.
fn resolved(name: &[u8]) -> Result<Vec<u8>, OpenFault> {
    let mut segments = Vec::new();
    for segment in name.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => drop(segments.pop().ok_or(OpenFault::Outside)?),
            other => segments.push(other),
        }
    }
    Ok(segments.join(&b'/'))
}

/// Asks twice on one connection, with an empty cache and then with a full one, and once with the
/// bytes one at a time. The answer must be the same.
#[track_caller]
pub(crate) fn check(rig: &Rig, request: &str, expected: &Expected<'_>) -> Response {
    let head_only = request.starts_with("HEAD");
    let heads: &[usize] = if head_only { &[0, 1] } else { &[] };
    let mut client = rig.connect();
    client.feed(request.as_bytes());
    let first = client.responses(heads).remove(0);
    if client.closed.is_none() && !client.shut {
        client.feed(request.as_bytes());
        let again = client.responses(heads).remove(1);
        assert_eq!(normal(&again), normal(&first), "the cache must not show");
    }
    let mut slow = rig.connect();
    for byte in request.as_bytes() {
        slow.feed(std::slice::from_ref(byte));
    }
    assert_eq!(normal(&slow.responses(heads)[0]), normal(&first), "nor how bytes come");
    assert_eq!(first.status, expected.status, "{request}\n{}", first.head);
    for (name, value) in expected.fields {
        let found = first.field(name);
        assert_eq!(found.as_deref().unwrap_or(""), *value, "{request}\n{}", first.head);
    }
    if let Some(body) = expected.body {
        assert!(first.body == body, "{request}\n{}", first.head);
    }
    first
}

/// A response without its random parts.
fn normal(response: &Response) -> Response {
    let Some(boundary) = response
        .field("content-type")
        .and_then(|value| value.split_once("boundary=").map(|(_, boundary)| boundary.to_owned()))
    else {
        return response.clone();
    };
    let replace = |text: &str| text.replace(&boundary, "BOUNDARY");
    Response {
        status: response.status,
        head: replace(&response.head),
        body: replace(&String::from_utf8_lossy(&response.body)).into_bytes(),
    }
}
