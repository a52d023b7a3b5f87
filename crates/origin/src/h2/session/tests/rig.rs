//! A little driver and a little client: sessions over files in memory, with each frame in the
//! test's hand.
use super::super::Session;
use crate::{
    BodyFiles, ClearHttp1, Cx, LocalCache, Log, Peer, Protocol as _, Record, ReplyOutcome, Scratch,
    Site,
};
use alloc::{
    collections::{BTreeMap, VecDeque},
    format,
    rc::Rc,
    string::String,
    sync::Arc,
    vec,
    vec::Vec,
};
use core::{
    cell::{Cell, RefCell},
    mem,
    sync::atomic::AtomicU64,
};
use regatta_http::h2::{
    frame::{
        END_HEADERS, END_STREAM, ErrorCode, Frame, FrameHead, FrameKind, PREFACE, WholeFrame,
        read_frame, split_frame, write_head,
    },
    hpack::{self, HpackDecoder},
    write_settings, write_settings_ack,
};
use regatta_metrics::{Arena, Counter, Tally};
use regatta_op::{
    Abandoned, CloseReason, Coding, Done, Fault, File, FileId, Modified, Now, Op, OpenFault,
    Opened, Outbox, Tick, Ticket,
};

#[derive(Clone, Debug)]
pub(super) struct TestFile {
    id: FileId,
    bytes: Rc<RefCell<Vec<u8>>>,
}

impl File for TestFile {
    fn id(&self) -> FileId {
        self.id
    }
}

impl TestFile {
    pub(super) fn truncate(&self, len: usize) {
        self.bytes.borrow_mut().truncate(len);
    }
}

/// Line, status, outcome, and bytes of the body that were sent.
pub(super) type Logged = (String, u16, ReplyOutcome, u64);

#[derive(Debug, Default)]
pub(super) struct TestLog(pub(super) RefCell<Vec<Logged>>);

impl Log for TestLog {
    fn wants(&self) -> bool {
        true
    }

    fn record(&self, record: &Record<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (method, target) = (text(record.method), text(record.target));
        let line = format!("{method} {target} {}", record.version);
        let sent = record.body_sent_bytes;
        self.0.borrow_mut().push((line, record.status, record.outcome, sent));
    }
}

/// A worker's world: a site, its files, and a clock that only tests move.
pub(super) struct Rig {
    pub(super) site: Site,
    pub(super) log: TestLog,
    pub(super) files: RefCell<BTreeMap<Vec<u8>, TestFile>>,
    /// Fault of all opens.
    pub(super) fault: Cell<Option<OpenFault>>,
    /// Open files of streams.
    pub(super) held: Arc<BodyFiles>,
    cache: LocalCache<TestFile>,
    scratch: Scratch<TestFile>,
    tick: Cell<u64>,
    arena: Arena<'static>,
}

/// Bytes of a file of this length.
pub(super) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 % 251).to_le_bytes()[0]).collect()
}

impl Rig {
    pub(super) fn new(change: impl FnOnce(&mut Site)) -> Self {
        Self::with_files(u32::MAX, change)
    }

    /// A worker in which streams that wait keep at most this many files.
    pub(super) fn with_files(most: u32, change: impl FnOnce(&mut Site)) -> Self {
        let held = Arc::new(BodyFiles::new(most));
        let mut site = Site::default();
        change(&mut site);
        let words: Vec<_> = (0..Arena::count_words(1)).map(|_| AtomicU64::new(0)).collect();
        let rig = Self {
            log: TestLog::default(),
            files: RefCell::default(),
            cache: LocalCache::new(&site.caching, site.seed),
            scratch: Scratch::new(7).counting(Arc::clone(&held)),
            fault: Cell::new(None),
            held,
            tick: Cell::new(1_000),
            arena: Arena::create(Vec::leak(words), 1),
            site,
        };
        for (name, len) in [("a.txt", 10), ("empty.txt", 0), ("mid.bin", 40_000), ("b.txt", 20)] {
            rig.put(name, len);
        }
        rig.put("big.bin", 200_000);
        rig
    }

    pub(super) fn put(&self, name: &str, len: usize) {
        let number = self.files.borrow().len() as u64;
        let time = Modified { secs: 1_600_000_000, nanos: 0 };
        let (modified, changed) = (time, time);
        let id = FileId { device: 1, inode: number, len: len as u64, modified, changed };
        let file = TestFile { id, bytes: Rc::new(RefCell::new(pattern(len))) };
        self.files.borrow_mut().insert(name.into(), file);
    }

    pub(super) fn file(&self, name: &str) -> TestFile {
        self.files.borrow()[name.as_bytes()].clone()
    }

    pub(super) fn now(&self) -> Now {
        let tick = self.tick.get();
        Now { tick: Tick(tick), unix: 1_700_000_000 + tick / 1000 }
    }

    pub(super) fn pass(&self, ms: u64) {
        self.tick.set(self.tick.get() + ms);
    }

    pub(super) fn cx(&self) -> Cx<'_, TestFile> {
        Cx {
            site: &self.site,
            cache: &self.cache,
            tally: Tally::Owned(self.arena.slot(0)),
            log: &self.log,
            scratch: &self.scratch,
            links: &ClearHttp1,
        }
    }

    pub(super) fn count(&self, counter: Counter) -> u64 {
        self.arena.slot(0).get(counter)
    }

    /// Performs an operation of the disk.
    fn perform(&self, op: Op<TestFile>) -> Done<'static, TestFile> {
        match op {
            Op::Open(ticket, req) => {
                let files = self.files.borrow();
                let sibling = |coding: Coding| {
                    let path = [&*req.path, coding.suffix().as_bytes()].concat();
                    files.get(&path).filter(|_| req.siblings.has(coding)).cloned()
                };
                let opened = |file| Opened::File { file, siblings: Coding::ALL.map(sibling) };
                let found = files.get(&*req.path).cloned();
                let found = found.map(opened).ok_or(OpenFault::NotFound);
                Done::Open(ticket, self.fault.get().map_or(found, Err))
            }
            Op::Read(ticket, req) => {
                let mut buffer = req.buffer;
                let bytes = req.file.bytes.borrow();
                let at = |at: u64| usize::try_from(at).expect("short").min(bytes.len());
                assert!(buffer.is_empty() && buffer.capacity() as u64 >= req.len);
                buffer.extend_from_slice(&bytes[at(req.at)..at(req.at + req.len)]);
                drop(bytes);
                Done::Read(ticket, buffer, Ok(()))
            }
            Op::Stat(ticket, file) => {
                let len = file.bytes.borrow().len() as u64;
                Done::Stat(ticket, Ok(FileId { len, ..file.id }))
            }
            other => panic!("no operation of the disk: {other:?}"),
        }
    }

    /// A connection that was accepted just now.
    pub(super) fn connect(&self) -> Client<'_> {
        let session = Session::new(Peer::default(), self.now(), &self.cx());
        let mut client = Client {
            rig: self,
            session,
            decoder: HpackDecoder::for_client(4096),
            output: Vec::new(),
            frames: VecDeque::new(),
            recv: false,
            send: None,
            disk: VecDeque::new(),
            holds_disk: false,
            holds_send: false,
            sends: Vec::new(),
            reads: Vec::new(),
            is_shut: false,
            closed: None,
        };
        client.run();
        client
    }

    /// A connection whose peers have exchanged these settings of the client.
    pub(super) fn open(&self, settings: &[(regatta_http::h2::SettingId, u32)]) -> Client<'_> {
        let mut client = self.connect();
        let mut bytes = PREFACE.to_vec();
        write_settings(&mut bytes, settings);
        write_settings_ack(&mut bytes);
        client.send(&bytes);
        assert!(matches!(&client.take()[..], [Got::Settings(_), Got::Ack]));
        client
    }
}

/// A frame from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Got {
    Settings(Vec<u8>),
    Ack,
    Head { stream: u32, fields: Vec<(String, String)>, ends: bool },
    Data { stream: u32, bytes: Vec<u8>, ends: bool },
    Reset(u32, ErrorCode),
    Pong([u8; 8]),
    GoAway(u32, ErrorCode),
    Window(u32, u32),
}

/// Connection under test, with its driver and its client.
pub(super) struct Client<'r> {
    pub(super) rig: &'r Rig,
    pub(super) session: Session<TestFile>,
    decoder: HpackDecoder,
    output: Vec<u8>,
    frames: VecDeque<Got>,
    /// A `Recv` is in flight.
    pub(super) recv: bool,
    send: Option<Outbox<TestFile>>,
    pub(super) disk: VecDeque<Op<TestFile>>,
    /// The disk is slow.
    pub(super) holds_disk: bool,
    /// The kernel takes nothing.
    pub(super) holds_send: bool,
    /// Lengths of all sends, and of all reads.
    pub(super) sends: Vec<u64>,
    pub(super) reads: Vec<u64>,
    pub(super) is_shut: bool,
    pub(super) closed: Option<CloseReason>,
}

impl Client<'_> {
    fn complete(&mut self, done: Done<'_, TestFile>) {
        self.session.complete(done, self.rig.now(), &self.rig.cx());
        self.session.check_invariants();
    }

    /// Performs operations until all wait for the client or for what is held.
    pub(super) fn run(&mut self) {
        for _ in 0..10_000 {
            self.ask();
            if self.closed.is_some() {
                break;
            }
            if !self.holds_disk
                && let Some(op) = self.disk.pop_front()
            {
                let done = self.rig.perform(op);
                self.complete(done);
            } else if !self.holds_send
                && let Some(mut outbox) = self.send.take()
            {
                outbox.slices().for_each(|slice| self.output.extend_from_slice(slice));
                let n = outbox.len();
                outbox.advance(n);
                self.sends.push(n);
                self.complete(Done::Send(outbox, Ok(n)));
            } else {
                return self.parse();
            }
        }
        self.parse();
        assert!(self.closed.is_some(), "it ends");
    }

    /// Takes the operations that are offered.
    fn ask(&mut self) {
        while let Some(op) = self.session.next_op() {
            match op {
                Op::Recv => {
                    assert!(!mem::replace(&mut self.recv, true), "one at a time");
                }
                Op::Send(outbox) => {
                    assert!(outbox.segments().next().is_none(), "frames are in one buffer");
                    assert!(self.send.replace(outbox).is_none(), "one at a time");
                }
                Op::Shut => {
                    assert!(self.send.is_none() && !self.is_shut);
                    self.is_shut = true;
                    self.complete(Done::Shut);
                }
                Op::Close(reason) => {
                    self.closed = Some(reason);
                    return;
                }
                op => {
                    if let Op::Read(_, req) = &op {
                        self.reads.push(req.len);
                    }
                    self.disk.push_back(op);
                    assert!(self.disk.len() <= 4);
                }
            }
        }
    }

    fn parse(&mut self) {
        let output = mem::take(&mut self.output);
        let mut rest = &output[..];
        let mut part: Option<(u32, bool, Vec<u8>)> = None;
        while let Some(WholeFrame { head, payload, rest: behind }) =
            split_frame(rest, 1 << 24).expect("any length")
        {
            rest = behind;
            let got = match read_frame(head, payload).expect("frames are well-formed") {
                Frame::Settings(payload) => Got::Settings(payload.to_vec()),
                Frame::SettingsAck => Got::Ack,
                Frame::Headers { stream, block, ends_stream, ends_block: true } => {
                    self.head(stream, block, ends_stream)
                }
                Frame::Headers { stream, block, ends_stream, .. } => {
                    part = Some((stream, ends_stream, block.to_vec()));
                    continue;
                }
                Frame::Continuation { block, ends_block, .. } => {
                    let (stream, ends, mut bytes) = part.take().expect("it continues a block");
                    bytes.extend_from_slice(block);
                    if !ends_block {
                        part = Some((stream, ends, bytes));
                        continue;
                    }
                    self.head(stream, &bytes, ends)
                }
                Frame::Data { stream, data, ends_stream, .. } => {
                    Got::Data { stream, bytes: data.to_vec(), ends: ends_stream }
                }
                Frame::RstStream { stream, code } => Got::Reset(stream, code),
                Frame::PingAck(bytes) => Got::Pong(bytes),
                Frame::GoAway { last, code } => Got::GoAway(last, code),
                Frame::WindowUpdate { stream, bytes } => Got::Window(stream, bytes),
                other => panic!("no server sends this: {other:?}"),
            };
            self.frames.push_back(got);
        }
        assert!(rest.is_empty() && part.is_none(), "each `Send` has whole frames");
    }

    fn head(&mut self, stream: u32, block: &[u8], ends: bool) -> Got {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let read = self.decoder.read_fields(block, |name, value| {
            fields.push((text(name), text(value)));
        });
        assert_eq!(read, Ok(()));
        Got::Head { stream, fields, ends }
    }

    /// Sends bytes to the server.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        assert!(mem::take(&mut self.recv), "the server does not receive");
        self.complete(Done::Recv(Ok(bytes)));
        self.run();
    }

    /// Frames that have come.
    pub(super) fn take(&mut self) -> Vec<Got> {
        self.frames.drain(..).collect()
    }

    /// Asks for a file.
    pub(super) fn get(&mut self, stream: u32, path: &str) {
        self.send(&get(stream, path));
    }

    /// Has the disk perform the oldest operation that it has.
    pub(super) fn perform_one(&mut self) {
        let op = self.disk.pop_front().expect("the disk has work");
        let done = self.rig.perform(op);
        self.complete(done);
        self.run();
    }

    /// Has the disk perform all that it has.
    pub(super) fn finish_disk(&mut self) {
        self.holds_disk = false;
        self.run();
    }

    /// The kernel takes bytes again.
    pub(super) fn finish_send(&mut self) {
        self.holds_send = false;
        self.run();
    }

    /// The connection breaks while the kernel has a `Send`.
    pub(super) fn break_send(&mut self) {
        let outbox = self.send.take().expect("a `Send` is in flight");
        self.complete(Done::Send(outbox, Err(Fault::Reset)));
        self.run();
    }

    /// Time passes, and the driver looks at the deadline once.
    pub(super) fn pass(&mut self, ms: u64, queued: u64) {
        self.rig.pass(ms);
        self.session.expire(queued, self.rig.now(), &self.rig.cx());
        self.forget();
        self.run();
    }

    /// Forgets operations that were given up.
    pub(super) fn forget(&mut self) {
        self.session.check_invariants();
        match self.session.abandoned() {
            None => {}
            Some(Abandoned::All) => {
                (self.recv, self.send) = (false, None);
                self.disk.clear();
            }
            Some(Abandoned::One(given_up)) => {
                let before = self.disk.len();
                self.disk.retain(|op| ticket(op) != given_up);
                assert_eq!(self.disk.len() + 1, before, "it was in flight");
            }
        }
    }

    /// The peer sends no more.
    pub(super) fn end(&mut self) {
        assert!(mem::take(&mut self.recv));
        self.complete(Done::Recv(Ok(&[])));
        self.run();
    }
}

fn ticket(op: &Op<TestFile>) -> Ticket {
    match op {
        Op::Open(ticket, _) | Op::Read(ticket, _) | Op::Stat(ticket, _) => *ticket,
        other => panic!("no operation of the disk: {other:?}"),
    }
}

/// A frame.
pub(super) fn frame(kind: FrameKind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![];
    let len = u32::try_from(payload.len()).expect("short");
    write_head(&mut bytes, FrameHead { bytes: len, kind, flags, stream });
    bytes.extend_from_slice(payload);
    bytes
}

/// A field block.
pub(super) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = vec![];
    fields.iter().for_each(|(name, value)| hpack::write_field(&mut bytes, name, value.as_bytes()));
    bytes
}

/// The field block of a request, with more fields.
pub(super) fn request(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut fields =
        vec![(":method", method), (":scheme", "https"), (":path", path), (":authority", "a")];
    fields.extend_from_slice(more);
    block(&fields)
}

/// HEADERS of a request without content.
pub(super) fn ask(stream: u32, block: &[u8]) -> Vec<u8> {
    frame(FrameKind::Headers, END_HEADERS | END_STREAM, stream, block)
}

/// HEADERS of a request with content.
pub(super) fn ask_with_content(stream: u32, block: &[u8]) -> Vec<u8> {
    frame(FrameKind::Headers, END_HEADERS, stream, block)
}

pub(super) fn get(stream: u32, path: &str) -> Vec<u8> {
    ask(stream, &request("GET", path, &[]))
}

pub(super) fn data(stream: u32, bytes: usize, ends: bool) -> Vec<u8> {
    frame(FrameKind::Data, if ends { END_STREAM } else { 0 }, stream, &vec![b'x'; bytes])
}

pub(super) fn reset(stream: u32) -> Vec<u8> {
    frame(FrameKind::RstStream, 0, stream, &ErrorCode::CANCEL.0.to_be_bytes())
}

pub(super) fn window(stream: u32, bytes: u32) -> Vec<u8> {
    frame(FrameKind::WindowUpdate, 0, stream, &bytes.to_be_bytes())
}

/// The status of the only response to a stream, and its whole body.
pub(super) fn response(frames: &[Got], of: u32) -> (String, Vec<u8>) {
    let mut heads = frames.iter().filter_map(|got| match got {
        Got::Head { stream, fields, .. } if *stream == of => Some(fields[0].1.clone()),
        _ => None,
    });
    let status = heads.next().expect("a response has a head");
    assert_eq!(heads.next(), None);
    let mut body = Vec::new();
    let mut has_ended = false;
    for got in frames {
        match got {
            Got::Head { stream, ends, .. } if *stream == of => has_ended = *ends,
            Got::Data { stream, bytes, ends } if *stream == of => {
                assert!(!has_ended, "nothing follows the end");
                body.extend_from_slice(bytes);
                has_ended = *ends;
            }
            _ => {}
        }
    }
    assert!(has_ended, "the response is complete");
    (status, body)
}

/// The value of a field of a response.
pub(super) fn field(frames: &[Got], of: u32, name: &str) -> Option<String> {
    frames.iter().find_map(|got| match got {
        Got::Head { stream, fields, .. } if *stream == of => {
            let field = fields.iter().find(|(known, _)| known == name);
            field.map(|(_, value)| value.clone())
        }
        _ => None,
    })
}
