//! `regatta explain`: runs the origin on one request, performs what it asks for, and tells what
//! that was.
use crate::{
    Failure, Sources,
    config::raw::{Place, Problem},
    examine, site,
};
use regatta_metrics::{Arena, Tally};
use regatta_op::{
    Coding, Done, File, Now, Op, OpenFault, OpenReq, Opened, Outbox, ReadReq, Segment,
};
use regatta_origin::{Conn, Cx, LocalCache, NoLog, Peer, Scratch};
use regatta_sys::{OpenRules, Root, StaticFile, clock, open_below, read_range};
use std::{
    fmt::Write as _,
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::AtomicU64,
};

/// The most operations that one request is followed for; what the origin needs is below ten.
const OPS_MAX: usize = 1000;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The request target, as a client sends it.
    pub target: String,
    /// Field lines, each `name: value`.
    pub headers: Vec<String>,
}

/// Tells what would be answered to a request, and why.
///
/// # Errors
/// What is wrong with the configuration or the request.
pub fn run(request: &Request, sources: &Sources<'_>) -> Result<String, Failure> {
    let bytes = bytes_of(request).map_err(Failure::Configuration)?;
    let (config, found) = examine(sources)?;
    let rules = OpenRules { symlinks: config.settings().flag("content.symlinks") };
    let site = site::build(&config.said.settings, config.types, 0);
    let words: Vec<AtomicU64> = (0..Arena::words(1)).map(|_| AtomicU64::new(0)).collect();
    let cache = LocalCache::new(&site.caching, site.seed);
    let scratch = Scratch::new(site.seed);
    let cx = Cx {
        site: &site,
        cache: &cache,
        tally: Tally::Owned(Arena::create(&words, 1).slot(0)),
        log: &NoLog,
        scratch: &scratch,
    };
    let mut teller = Teller { root: &found.root, rules, text: String::new(), response: Vec::new() };
    let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
    teller.tell("request", &String::from_utf8_lossy(line));
    teller.follow(&bytes, clock::now(), &cx);
    Ok(teller.text)
}

/// The request as bytes, or what cannot be sent of it.
fn bytes_of(request: &Request) -> Result<Vec<u8>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut wrong = |what: &str, text: &str, hint: &str| {
        let place = Place::Argument(format!("{what} {text:?}"));
        problems.push(Problem::new(place, "cannot be sent").hint(hint));
    };
    let control = |text: &str| text.contains(|c: char| c.is_control() || c == ' ');
    if request.method.is_empty() || control(&request.method) {
        wrong("METHOD", &request.method, "as in GET");
    }
    if request.target.is_empty() || control(&request.target) {
        wrong("PATH", &request.target, "as in /docs/; a space is written %20");
    }
    let named = |name: &str| {
        let same = |header: &String| {
            header.split_once(':').is_some_and(|(known, _)| known.eq_ignore_ascii_case(name))
        };
        request.headers.iter().any(same)
    };
    let mut text = format!("{} {} HTTP/1.1\r\n", request.method, request.target);
    for (name, value) in [("Host", "localhost"), ("Connection", "close")] {
        if !named(name) {
            let _ = write!(text, "{name}: {value}\r\n");
        }
    }
    for header in &request.headers {
        if !header.contains(':') || header.contains(['\r', '\n', '\0']) {
            wrong("-H", header, "as in -H 'accept-encoding: br'");
        }
        let _ = write!(text, "{header}\r\n");
    }
    text.push_str("\r\n");
    if problems.is_empty() { Ok(text.into_bytes()) } else { Err(problems) }
}

/// A blocking driver that tells what it does.
struct Teller<'a> {
    root: &'a Root,
    rules: OpenRules,
    text: String,
    /// The head of the response, and whatever of the body came with it.
    response: Vec<u8>,
}

impl Teller<'_> {
    fn tell(&mut self, what: &str, text: &str) {
        let _ = writeln!(self.text, "{what:<10}{text}");
    }

    fn follow(&mut self, request: &[u8], now: Now, cx: &Cx<'_, StaticFile>) {
        let peer = Peer::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let mut conn = Conn::new(peer, now, cx);
        let (mut unsent, mut from_memory, mut from_file) = (Some(request), 0, 0);
        for _ in 0..OPS_MAX {
            let done = match conn.next_op() {
                // An empty slice is the end of the peer's stream.
                Some(Op::Recv) => Done::Recv(Ok(unsent.take().unwrap_or_default())),
                Some(Op::Open(ticket, req)) => Done::Open(ticket, self.open(&req)),
                Some(Op::Read(ticket, req)) => {
                    self.tell("read", &format!("{} bytes into memory", req.len));
                    Done::Read(ticket, read_range(&ReadReq { ..req }))
                }
                Some(Op::Send(mut outbox)) => {
                    let (memory, file) = self.take(&outbox);
                    from_memory += memory;
                    from_file += file;
                    let len = outbox.len();
                    outbox.advance(len);
                    Done::Send(outbox, Ok(len))
                }
                Some(Op::Shut) => Done::Shut,
                Some(Op::Close(_)) | None => break,
            };
            conn.complete(done, now, cx);
        }
        self.answer(from_memory, from_file);
    }

    fn open(&mut self, req: &OpenReq) -> Result<Opened<StaticFile>, OpenFault> {
        let result = open_below(self.root, req, self.rules);
        let name = match req.path.escape_ascii().to_string() {
            name if name.is_empty() => "the root".to_owned(),
            name => name,
        };
        let outcome = match &result {
            Ok(Opened::Directory) => "a directory".to_owned(),
            Ok(Opened::File { file, siblings }) => {
                let there: Vec<_> = Coding::ALL
                    .into_iter()
                    .zip(siblings)
                    .filter(|(_, sibling)| sibling.is_some())
                    .map(|(coding, _)| coding.suffix())
                    .collect();
                let mut text = format!("a file of {} bytes", file.len());
                if !there.is_empty() {
                    let _ = write!(text, "; beside it {}", there.join(", "));
                }
                text
            }
            Err(fault) => fault_text(*fault).to_owned(),
        };
        self.tell("open", &format!("{name}: {outcome}"));
        result
    }

    /// Takes what is sent; returns how many bytes of it are memory and how many are in files.
    fn take(&mut self, outbox: &Outbox<StaticFile>) -> (u64, u64) {
        let file = outbox.segments().map(|segment| match segment {
            Segment::File { len, .. } => *len,
            Segment::Mem { .. } => 0,
        });
        let file: u64 = file.sum();
        self.response.extend_from_slice(outbox.head());
        (outbox.len() - file, file)
    }

    fn answer(&mut self, from_memory: u64, from_file: u64) {
        let end = self.response.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end.map(|at| at + 4) else {
            self.tell("answer", "none: the connection is closed");
            return;
        };
        let head = String::from_utf8_lossy(&self.response[..end]).into_owned();
        let why = head.split(' ').nth(1).and_then(|code| code.parse().ok()).map_or("", why);
        self.tell("answer", why);
        for line in head.lines().filter(|line| !line.is_empty()) {
            let _ = writeln!(self.text, "          {line}");
        }
        let memory = from_memory - end as u64;
        let body = match (memory, from_file) {
            (0, 0) => "none".to_owned(),
            (memory, 0) => format!("{memory} bytes from memory"),
            (0, file) => format!("{file} bytes from the file, with sendfile"),
            (memory, file) => format!("{file} bytes from the file and {memory} from memory"),
        };
        self.tell("body", &body);
    }
}

fn fault_text(fault: OpenFault) -> &'static str {
    match fault {
        OpenFault::NotFound => "nothing there",
        OpenFault::Denied => "this user may not read it",
        OpenFault::Outside => {
            "a symbolic link, or outside the root (content.symlinks allows links within it)"
        }
        OpenFault::NotAFile => "neither a file nor a directory",
        OpenFault::Exhausted => "no descriptors or memory left",
        OpenFault::Other(_) => "the system refuses",
    }
}

/// What a status that this origin sends means, in its own terms.
fn why(status: u16) -> &'static str {
    match status {
        200 => "the whole representation",
        206 => "the ranges that were asked for",
        204 => "what methods there are",
        301 | 307 | 308 => "the name is a directory's, which ends in a slash",
        304 => "what the client has is still right (If-None-Match, If-Modified-Since)",
        400 => "the request is malformed, or its path leaves the root",
        403 => "it may not be read",
        404 => "nothing that may be served has this name",
        405 => "the method is known and not for files",
        406 => "no coding that the client accepts",
        412 => "a condition does not hold (If-Match, If-Unmodified-Since)",
        413 => "the request's body is longer than limits.drain_body_bytes_max",
        414 => "the target is longer than limits.target_bytes_max",
        416 => "no range that was asked for is within the representation",
        417 => "an expectation that is not known",
        431 => "the head is longer than limits.head_bytes_max, or has too many fields",
        500..=599 => "the server cannot",
        _ => "",
    }
}
