//! The decisions behind one response, in words: for `regatta explain`.
use crate::{
    CachingRules, ClearHttp1, Cx, Exchange, FileReply, LocalCache, NoLog, Refusal, Reply, Request,
    Scratch, Site, Step, Supply,
    course::{After, Announced, Course, Persistence, head_limits},
    h1::reply::Terms,
    plan::Shape,
};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, sync::atomic::AtomicU64};
use regatta_http::{
    h1::parse_request,
    target::{Path, PathFault, Target, decode_path},
};
use regatta_metrics::{Arena, Tally};
use regatta_op::{Coding, File, Now, OpenFault, OpenReq, Opened};

/// What would be answered, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The decisions, in the order in which they are made.
    pub decisions: Vec<Decision>,
    /// The head of the response, as it would be sent.
    pub head: Vec<u8>,
}

/// One decision. Its text is one line; what the peer sent is in it without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What was decided upon: `request`, `path`, `look`, `answer` and others.
    pub about: &'static str,
    /// What was decided, and perhaps why.
    pub says: String,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.about, self.says)
    }
}

/// Explains the answer to `request`, a whole request head, by the code that would give it. `open`
/// performs [`regatta_op::Op::Open`]; nothing is read, cached, counted or logged.
pub fn explain<F: File>(
    request: &[u8],
    open: &mut dyn FnMut(&OpenReq) -> Result<Opened<F>, OpenFault>,
    site: &Site,
    now: Now,
) -> Explanation {
    let scratch = Scratch::new(site.boundary_key);
    let mut explainer = Explainer { decisions: Vec::new(), open, site, scratch: &scratch, now };
    let head = explainer.request(request);
    Explanation { decisions: explainer.decisions, head }
}

struct Explainer<'a, F> {
    decisions: Vec<Decision>,
    open: &'a mut dyn FnMut(&OpenReq) -> Result<Opened<F>, OpenFault>,
    site: &'a Site,
    scratch: &'a Scratch<F>,
    now: Now,
}

impl<F: File> Explainer<'_, F> {
    fn say(&mut self, about: &'static str, says: impl Into<String>) {
        self.decisions.push(Decision { about, says: says.into() });
    }

    fn request(&mut self, request: &[u8]) -> Vec<u8> {
        let parsed = parse_request(request, &head_limits(self.site));
        let head = match parsed {
            Ok(head) => head,
            Err(fault) => {
                self.say("request", format!("refused, {}; the connection ends", fault.reason()));
                return self.head(Reply::Refused(Refusal::Head(fault)), Persistence::Close);
            }
        };
        self.say("request", format!("{} {}", head.method_text, shown(head.target)));
        let course = Course::of(&head, false, self.site);
        let ending = match course.after {
            After::KeepAlive => "goes on after the response",
            After::Linger => "ends; what the peer still sends is discarded",
            After::Close => "ends, as the request asks",
        };
        self.say("connection", ending);
        if let Announced::Some(_) = course.content {
            self.say("content", "read and discarded before the response");
        }
        let request = course.request(&head);
        if request.too_large {
            self.say("content", "longer than limits.discard_body_bytes_max");
        }
        if request.needs_file() {
            self.path(head.names);
        }
        let reply = self.exchange(&request);
        self.reply(&reply);
        self.head(reply, course.persistence)
    }

    fn path(&mut self, target: Target<'_>) {
        let mut room = Vec::new();
        let path = match target {
            Target::Path(raw) => decode_path(raw, &mut room).map_err(PathFault::reason),
            Target::Server | Target::Tunnel => Err("it has none"),
        };
        match path {
            Err(why) => self.say("path", format!("refused, {why}")),
            Ok(Path { relative, hidden, .. }) => {
                self.say("path", quoted(relative));
                if hidden && !self.site.content.dotfiles {
                    self.say("path", "a name starts with a dot (content.dotfiles is off)");
                }
            }
        }
    }

    /// Drives the exchange that a connection would, without a cache and without bodies.
    fn exchange(&mut self, request: &Request<'_>) -> Reply<F> {
        let caching =
            CachingRules { enabled: false, body_bytes_max: 0, ..self.site.caching.clone() };
        let cache = LocalCache::new(&caching, 0);
        let site = Site { caching, ..self.site.clone() };
        let words: Vec<_> = (0..Arena::words(1)).map(|_| AtomicU64::new(0)).collect();
        let tally = Tally::Owned(Arena::create(&words, 1).slot(0));
        let cx = Cx {
            site: &site,
            cache: &cache,
            tally,
            log: &NoLog,
            scratch: self.scratch,
            links: &ClearHttp1,
        };
        let mut exchange = Exchange::default();
        let mut step = exchange.start(request, self.now, &cx);
        loop {
            let supply = match step {
                Step::Reply(reply) => return reply,
                Step::Open(req) => {
                    let found = (self.open)(&req);
                    if let Ok(Opened::File { file, siblings }) = &found {
                        self.siblings(&req.path, file, siblings);
                    }
                    let (name, why) = (quoted(&req.path), exchange.reason());
                    self.say("look", format!("{name}, {why}: {}", found_text(&found)));
                    Supply::Opened(found)
                }
                Step::Hold(_) => Supply::GivenUp,
                Step::Read(_) | Step::Stat(_) | Step::Cut => {
                    unreachable!("no body is kept, and all files are opened just now")
                }
            };
            step = exchange.resume(supply, self.now, &cx);
        }
    }

    /// Says of siblings what their owner may not know.
    fn siblings(&mut self, name: &[u8], file: &F, siblings: &[Option<F>; 3]) {
        let this = file.id();
        for (coding, sibling) in Coding::ALL.into_iter().zip(siblings) {
            let Some(sibling) = sibling.as_ref().map(File::id) else { continue };
            let name = quoted(&[name, coding.suffix().as_bytes()].concat());
            if sibling.len > this.len {
                let (larger, len) = (sibling.len, this.len);
                let why = format!("larger than the file itself ({larger} bytes, not {len})");
                self.say("sibling", format!("{name}, {why}: not sent"));
            } else if sibling.modified < this.modified {
                let hint = "if that has changed, compress it again";
                self.say("sibling", format!("{name}, older than the file itself: sent; {hint}"));
            }
        }
    }

    fn reply(&mut self, reply: &Reply<F>) {
        match reply {
            Reply::File(reply) => self.file(reply),
            Reply::Redirect(_) => {
                self.say("answer", "a directory; its name should end in a slash");
            }
            Reply::Nothing(status) => {
                self.say("answer", format!("nothing, {} {}", status.0, status.reason()));
            }
            Reply::Refused(refusal) => self.say("answer", format!("refused, {}", refusal.reason())),
            Reply::Options => self.say("answer", "the methods that are served"),
        }
    }

    fn file(&mut self, reply: &FileReply<F>) {
        let codings = reply.file.codings();
        let names = Coding::ALL.into_iter().filter(|&coding| codings.has(coding));
        let names: Vec<_> = names.map(Coding::name).collect();
        let names = if names.is_empty() { "none".into() } else { names.join(", ") };
        let chosen = reply.coding.map_or("identity", Coding::name);
        self.say("codings", format!("precompressed {names}; chosen {chosen}"));
        let coded = reply.coded();
        self.say("validator", shown(coded.etag_text()));
        let len = coded.len();
        let answer = match &reply.shape {
            Shape::Whole => format!("all {len} bytes"),
            Shape::One(range) => format!("bytes {} to {}", range.first, range.last),
            Shape::Many(ranges) => format!("{} ranges", ranges.len()),
            Shape::NotModified => "not modified, as the conditions find".to_string(),
            Shape::Refused(status) => format!("refused, {}", status.reason()),
        };
        self.say("answer", answer);
        if len <= self.site.caching.body_bytes_max {
            self.say("body", "kept in memory (cache.body_bytes_max)");
        } else {
            self.say("body", "sent from the file");
        }
    }

    /// The head of a response, as HTTP/1 has it.
    fn head(&self, reply: Reply<F>, persistence: Persistence) -> Vec<u8> {
        let (site, scratch, now) = (self.site, self.scratch, self.now);
        let terms = Terms { site, scratch, now, persistence, head_only: true };
        terms.response(reply).outbox.into_buffer()
    }
}

fn found_text<F: File>(found: &Result<Opened<F>, OpenFault>) -> String {
    match found {
        Ok(Opened::File { file, .. }) => format!("a file of {} bytes", file.id().len),
        Ok(Opened::Directory) => "a directory".to_string(),
        Err(fault) => fault_text(*fault),
    }
}

/// Bytes as text on a terminal: what has no place there is escaped, and quotes stay as they are.
fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || character == '\\' {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            text.extend(core::ascii::escape_default(*byte).map(char::from));
        }
    }
    text
}

/// The same between quotes, and quotes in it escaped.
fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", shown(bytes).replace('"', "\\\""))
}

fn fault_text(fault: OpenFault) -> String {
    match fault {
        OpenFault::NotFound => "nothing".to_string(),
        OpenFault::RootReplaced => "nothing, and the root is being replaced".to_string(),
        OpenFault::Denied => "not readable by this process".to_string(),
        OpenFault::Outside => "outside the root, or through a symbolic link".to_string(),
        OpenFault::NotAFile => "neither a file nor a directory".to_string(),
        OpenFault::Exhausted => "no descriptor or memory left".to_string(),
        OpenFault::Busy => "leased by another process, or being moved".to_string(),
        OpenFault::Other(error) => format!("error {error}"),
    }
}
