//! The decisions behind one response, in words: for `regatta explain`.
use crate::{
    Entry, Refusal, Representation, Scratch, Site, content,
    course::{After, Announced, Course, head_limits},
    entry::worthwhile,
    plan::{Shape, plan},
    reply::{Persistence, Reply, Terms, needs_file},
    resolve::{Asked, Found, Role, Search},
};
use alloc::{
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use core::fmt;
use regatta_http::{
    h1::{RequestHead, parse_request},
    target::{PathFault, Target, decode_path},
};
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
    scratch: &'a Scratch,
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
                return bytes(self.refusing().refusal::<F>(Refusal::Head(fault)));
            }
        };
        self.say("request", format!("{} {}", head.method_text, shown(head.target)));
        let course = Course::of_any(&head, false, self.site);
        let ending = match course.after {
            After::KeepAlive => "goes on after the response",
            After::Linger => "ends; what the peer still sends is discarded",
            After::Close => "ends, as the request asks",
        };
        self.say("connection", ending);
        if course.content == Announced::Some {
            self.say("content", "read and discarded before the response");
        }
        let terms = Terms {
            site: self.site,
            scratch: self.scratch,
            now: self.now,
            persistence: course.persistence,
            head_only: true,
        };
        if course.is_too_large() {
            self.say("content", "longer than limits.drain_body_bytes_max");
        }
        if !needs_file(&head) {
            let Some(refusal) = Refusal::without_file(&head, &course) else {
                return bytes(terms.options::<F>());
            };
            self.say("answer", format!("refused, {}", refusal.reason()));
            return bytes(terms.refusal::<F>(refusal));
        }
        if course.is_too_large() {
            return bytes(terms.refusal::<F>(Refusal::ContentTooLarge));
        }
        self.target(&head, &terms)
    }

    fn target(&mut self, head: &RequestHead<'_>, terms: &Terms<'_>) -> Vec<u8> {
        let mut room = Vec::new();
        let path = match head.names {
            Target::Path(raw) => decode_path(raw, &mut room).map_err(PathFault::reason),
            Target::Server | Target::Tunnel => Err("it has none"),
        };
        let path = match path {
            Ok(path) => path,
            Err(why) => {
                self.say("path", format!("refused, {why}"));
                return bytes(terms.refusal::<F>(Refusal::Path));
            }
        };
        self.say("path", quoted(path.relative));
        if path.hidden && !self.site.content.dotfiles {
            self.say("path", "a name starts with a dot (content.dotfiles is off)");
        }
        let asked = Asked { path: &path, head, rules: &self.site.content };
        let mut found = Search::start(&asked);
        loop {
            found = match found {
                Found::Next(search) => {
                    let entry = self.look_up(search, &asked);
                    search.consider(&asked, entry)
                }
                Found::File(file, role) => return self.file(head, &file, role, terms),
                Found::Redirect => {
                    self.say("answer", "a directory; its name should end in a slash");
                    return bytes(terms.redirect::<F>(&path));
                }
                Found::Nothing(status) => {
                    self.say("answer", format!("nothing, {} {}", status.0, status.reason()));
                    return bytes(terms.nothing::<F>(status));
                }
            }
        }
    }

    fn look_up(&mut self, search: Search, asked: &Asked<'_>) -> Entry<F> {
        let mut room = Vec::new();
        let name = search.name(asked, &mut room);
        let req = OpenReq { path: name.into(), siblings: content::siblings(name, self.site) };
        let found = (self.open)(&req);
        let (entry, what) = match found {
            Ok(Opened::File { file, siblings }) => {
                let now = self.now;
                self.siblings(name, &file, &siblings);
                let siblings = worthwhile(&file, siblings);
                let file = Representation::new(name, file, siblings, self.site, now, now.unix);
                let what = format!("a file of {} bytes", file.identity().len());
                (Entry::File(Arc::new(file)), what)
            }
            Ok(Opened::Directory) => (Entry::Directory, "a directory".to_string()),
            Err(fault) => (Entry::Missing(fault), fault_text(fault)),
        };
        self.say("look", format!("{}, {}: {what}", quoted(name), search.reason()));
        entry
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

    fn file(
        &mut self,
        head: &RequestHead<'_>,
        file: &Representation<F>,
        role: Role,
        terms: &Terms<'_>,
    ) -> Vec<u8> {
        let codings = file.codings();
        let names = Coding::ALL.into_iter().filter(|&coding| codings.has(coding));
        let names: Vec<_> = names.map(Coding::name).collect();
        let names = if names.is_empty() { "none".into() } else { names.join(", ") };
        let plan = plan(head, file, role, self.site.limits.ranges_max, self.now.unix);
        let chosen = plan.coded.coding.map_or("identity", Coding::name);
        self.say("codings", format!("precompressed {names}; chosen {chosen}"));
        self.say("validator", shown(plan.coded.etag_text()));
        let len = plan.coded.len();
        let answer = match &plan.shape {
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
        bytes(terms.planned(&plan, role))
    }

    fn refusing(&self) -> Terms<'_> {
        Terms {
            site: self.site,
            scratch: self.scratch,
            now: self.now,
            persistence: Persistence::Close,
            head_only: true,
        }
    }
}

fn bytes<F>(reply: Reply<F>) -> Vec<u8> {
    reply.outbox.into_buffer()
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
