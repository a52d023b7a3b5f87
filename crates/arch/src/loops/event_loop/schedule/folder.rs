//! The files that schedules of whole loops serve, the requests for them, and the right responses.
use crate::{
    drive::{FileCx, FileLink},
    testing::folder,
};
use regatta_metrics::{Arena, Tally};
use regatta_op::{Done, Now, Op, Outbox, ReadReq, Segment, Tick};
use regatta_origin::{ClearHttp1, LocalCache, NoLog, Peer, Protocol as _, Scratch, Site};
use regatta_sim::{Answer, BrokenCheck, FAILED, NOT_FOUND, UNAVAILABLE};
use regatta_sys::{OpenRules, Root, StaticFile, fstat, open_below, read_range};
use std::{fs, sync::atomic::AtomicU64};

/// The time of all schedules, seconds since 1970: far in the future, so that no file is young.
pub(super) const UNIX: u64 = 4_000_000_000;
/// Begin of schedules, on the monotonic clock.
pub(super) const BEGIN_NS: u64 = 1_000_000_000_000;
/// Names and lengths of the files. The last are longer than what is kept in memory, and than what
/// a socket takes at once.
const FILES: [(&str, usize); 6] =
    [("a", 700), ("b", 6_000), ("c", 6_001), ("d", 20_000), ("e", 29_000), ("f", 30_000)];
/// The names that are asked for in frames, besides one that does not exist.
pub(super) const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// Number of the file that some schedules replace, and the length of the file in its place. It is
/// longer, so that a response which began with the old file could continue with the new one.
const REPLACED: usize = 5;
const REPLACEMENT_BYTES: usize = 31_000;

/// A folder of files with known contents.
pub(super) struct Folder {
    path: folder::Folder,
    pub(super) root: Root,
    pub(super) asks: Vec<Ask>,
    /// By file.
    contents: Vec<Vec<u8>>,
    replacement: Vec<u8>,
}

/// Reasons for another answer than the usual one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Excuses {
    /// The disk may have failed.
    pub(super) may_fail: bool,
    /// A file may have been replaced.
    pub(super) may_change: bool,
}

/// A request, and the right responses to it.
pub(super) struct Ask {
    pub(super) request: Vec<u8>,
    /// The response after which the connection continues, and the one with `Connection: close`. The
    /// first is empty if the request itself asks for the end.
    pub(super) answers: [Vec<u8>; 2],
}

/// The index of the response with `Connection: close`.
pub(super) const LAST: usize = 1;

impl Ask {
    /// True if the connection ends with it.
    pub(super) const fn is_last(&self) -> bool {
        self.answers[0].is_empty()
    }
}

/// Contents of file number `n`.
fn content(n: usize) -> Vec<u8> {
    (0..FILES[n].1).map(|at| u8::try_from((at * (n + 3) + at / 256) % 251).unwrap()).collect()
}

impl Folder {
    pub(super) fn new() -> Self {
        let path = folder::Folder::new("stage");
        for (n, (name, _)) in FILES.iter().enumerate() {
            fs::write(path.join(name), content(n)).unwrap();
        }
        let root = Root::open(&path).unwrap();
        let asks = asks(&root);
        let contents = (0..FILES.len()).map(content).collect();
        let replacement = (0..REPLACEMENT_BYTES).map(|at| u8::try_from(at * 11 % 241).unwrap());
        Self { path, root, asks, contents, replacement: replacement.collect() }
    }
}

impl Folder {
    /// Puts another file in the place of one.
    pub(super) fn replace(&self) {
        self.put(&self.replacement);
    }

    /// Puts the file with the old content back.
    pub(super) fn restore(&self) {
        self.put(&self.contents[REPLACED]);
    }

    fn put(&self, content: &[u8]) {
        let new = self.path.join("new");
        fs::write(&new, content).unwrap();
        fs::rename(new, self.path.join(NAMES[REPLACED])).unwrap();
    }

    /// Judges an answer in frames, or in a stream.
    ///
    /// # Errors
    /// The answer is wrong.
    pub(super) fn judge(&self, answer: &Answer, excuses: Excuses) -> Result<(), BrokenCheck> {
        let body = self.contents.get(usize::from(answer.file));
        let code = if body.is_some() { 0 } else { NOT_FOUND };
        let failed = excuses.may_fail && answer.code == UNAVAILABLE;
        let right = answer.code == code && answer.body == *body.unwrap_or(&Vec::new());
        let new = answer.code == 0 && answer.body == self.replacement;
        let is_replaced = excuses.may_change && usize::from(answer.file) == REPLACED;
        if right || failed || is_replaced && (new || answer.code == FAILED) {
            return Ok(());
        }
        let Answer { number, file, code, body } = answer;
        Err(format!("request {number} for {file}: code {code}, and {} wrong bytes", body.len())
            .into())
    }
}

/// All requests that peers may send, each once without and once with `Connection: close`.
fn asks(root: &Root) -> Vec<Ask> {
    let part = content(5)[1_000..21_000].to_vec();
    let mut rows = vec![
        ("HEAD /e".to_owned(), "", "200 OK", FILES[4].1, vec![]),
        ("GET /b".to_owned(), "If-None-Match: *\r\n", "304 Not Modified", 0, vec![]),
        ("GET /f".to_owned(), "Range: bytes=1000-20999\r\n", "206 Partial Content", 20_000, part),
    ];
    for (n, (name, length)) in FILES.into_iter().enumerate() {
        rows.push((format!("GET /{name}"), "", "200 OK", length, content(n)));
    }
    let mut asks = Vec::new();
    for (line, fields, status, length, body) in rows {
        let with = |more: &str| format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}{more}\r\n");
        let requests = [with(""), with("Connection: close\r\n")].map(String::into_bytes);
        let answers = requests.each_ref().map(|request| answer(root, request));
        for answer in &answers {
            check(answer, &line, status, length, &body);
        }
        asks.extend(both(requests, answers));
    }
    let nothing = ["", "Connection: close\r\n"]
        .map(|more| format!("GET /nothing HTTP/1.1\r\nHost: a\r\n{more}\r\n").into_bytes());
    let answers = nothing.each_ref().map(|request| answer(root, request));
    assert!(answers.iter().all(|answer| answer.starts_with(b"HTTP/1.1 404 ")));
    asks.extend(both(nothing, answers));
    let request = b"GET /a HTTP/1.1\r\nno field\r\n\r\n".to_vec();
    let bad = answer(root, &request);
    assert!(bad.starts_with(b"HTTP/1.1 400 "));
    asks.push(Ask { request, answers: [vec![], bad] });
    asks
}

fn both([goes_on, last]: [Vec<u8>; 2], answers: [Vec<u8>; 2]) -> [Ask; 2] {
    let close = answers[LAST].clone();
    assert_ne!(answers[0], close, "one of them says that it is the last");
    [Ask { request: goes_on, answers }, Ask { request: last, answers: [vec![], close] }]
}

/// The answer is of this status, and has this length and body.
fn check(answer: &[u8], line: &str, status: &str, length: usize, body: &[u8]) {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    let head = std::str::from_utf8(&answer[..end]).expect("ASCII");
    assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{line}: {head}");
    let has = head.to_lowercase().contains(&format!("content-length: {length}\r\n"));
    assert!(has || status.starts_with("304"), "{line}: {head}");
    assert_eq!(&answer[end..], body, "{line}");
}

/// The core's response when every operation is performed at once and in full and nothing is
/// cached: without a loop, a socket or a poller.
fn answer(root: &Root, request: &[u8]) -> Vec<u8> {
    let words: Vec<AtomicU64> = (0..Arena::count_words(1)).map(|_| AtomicU64::new(0)).collect();
    let arena = Arena::create(&words, 1);
    let site = Site::default();
    let (cache, scratch) = (LocalCache::new(&site.caching, 1), Scratch::new(1));
    let tally = Tally::Owned(arena.slot(0));
    let cx = FileCx {
        site: &site,
        cache: &cache,
        tally,
        log: &NoLog,
        scratch: &scratch,
        links: &ClearHttp1,
    };
    let now = Now { tick: Tick(BEGIN_NS / 1_000_000), unix: UNIX };
    let peer = Peer::from(std::net::SocketAddr::from(([127, 0, 0, 1], 1)));
    let mut conn = FileLink::new(peer, now, &cx);
    let (mut request, mut out) = (Some(request), Vec::new());
    while let Some(op) = conn.next_op() {
        match op {
            Op::Recv => match request.take() {
                Some(bytes) => conn.complete(Done::Recv(Ok(bytes)), now, &cx),
                None => break,
            },
            Op::Send(mut outbox) => {
                let bytes = take_all(&mut outbox, &mut out);
                conn.complete(Done::Send(outbox, Ok(bytes)), now, &cx);
            }
            Op::Open(ticket, req) => {
                let found = open_below(root, &req, OpenRules::default());
                conn.complete(Done::Open(ticket, found), now, &cx);
            }
            Op::Read(ticket, req) => {
                let (buffer, read) = read_range(req);
                conn.complete(Done::Read(ticket, buffer, read), now, &cx);
            }
            Op::Stat(ticket, file) => {
                conn.complete(Done::Stat(ticket, fstat(&file)), now, &cx);
            }
            Op::Shut => conn.complete(Done::Shut, now, &cx),
            Op::Close(_) => break,
        }
    }
    out
}

/// Appends what is to be sent to `out`, and returns the number of bytes.
fn take_all(outbox: &mut Outbox<StaticFile>, out: &mut Vec<u8>) -> u64 {
    let bytes = outbox.len();
    out.extend_from_slice(outbox.head());
    for segment in outbox.segments() {
        match segment {
            Segment::Mem { .. } => out.extend_from_slice(segment.memory().unwrap_or_default()),
            Segment::File { file, at, len } => {
                let (bytes, read) = read_range(ReadReq::new(file.clone(), *at, *len));
                read.unwrap();
                out.extend_from_slice(&bytes);
            }
        }
    }
    outbox.advance(bytes);
    bytes
}
