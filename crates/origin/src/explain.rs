//! The decisions behind one response, in words: for `regatta explain`.
use crate::{
    CachingRules, ClearHttp1, Cx, Exchange, FileReply, ListenerClass, Lister, LocalCache, NoLog,
    Refusal, Reply, Request, Scratch, Site, Step, Supply, content,
    course::{After, Announced, Course, Persistence, head_limits},
    h1::reply::Terms,
    h2::write_fields,
    location::Room,
    plan::Shape,
    reply_rules::ReplyRules,
    resolve::{self, Role, Search, fallback_skipped},
    site::is_hsts,
    transport::redirect,
};
use alloc::{
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use core::{fmt, sync::atomic::AtomicU64};
use regatta_http::{
    Status,
    h1::parse_request,
    h2::hpack::HpackDecoder,
    pattern::PAGE_SUFFIX,
    target::{PathFault, Target, decode_path},
};
use regatta_metrics::{Arena, Tally};
use regatta_op::{Coding, Codings, File, Now, OpenFault, OpenReq, Opened};

/// Words for a body that no protocol sends from its file, and for one that HTTP/1 alone does.
const KEPT_BODY: &str = "kept in memory (cache.body_bytes_max)";
const CLEAR_BODY: &str = "sent from the file (cache.clear_body_bytes_max)";

/// Size of a client's table before it sets another (RFC 9113 §6.5.2).
const CLIENT_TABLE_BYTES: usize = 4_096;

/// Explanation of an answer: the decisions, and the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The decisions, in the order in which they are made.
    pub decisions: Vec<Decision>,
    /// The head of the response, as it would be sent.
    pub head: Vec<u8>,
}

impl Explanation {
    /// The same answer over HTTP/2. Its head has a line for each field of the block that would be
    /// sent, as a client decodes it.
    ///
    /// # Panics
    /// If the block cannot be decoded: a fault of the encoder.
    #[must_use]
    pub fn over_http2(mut self) -> Self {
        let (mut block, mut head) = (Vec::new(), Vec::new());
        write_fields(&self.head, &mut block);
        let line = |name: &[u8], value: &[u8]| {
            [name, b": ", value, b"\r\n"].iter().for_each(|part| head.extend_from_slice(part));
        };
        let read = HpackDecoder::for_client(CLIENT_TABLE_BYTES).read_fields(&block, line);
        read.expect("a block of our encoder is well-formed");
        head.extend_from_slice(b"\r\n");
        for decision in self.decisions.iter_mut().filter(|made| made.about == "connection") {
            decision.says = "continues; the stream ends with the response".to_string();
        }
        for decision in self.decisions.iter_mut().filter(|made| made.says == CLEAR_BODY) {
            decision.says = KEPT_BODY.to_string();
        }
        let (bytes, of_http1) = (block.len(), self.head.len());
        let says = format!("a block of {bytes} bytes; the head of HTTP/1 has {of_http1}");
        self.decisions.push(Decision { about: "fields", says });
        Self { head, ..self }
    }
}

/// A decision. Its text is one line; bytes from the peer are in it without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Subject of the decision: `request`, `path`, `look`, `answer` and others.
    pub about: &'static str,
    /// Outcome of the decision, perhaps with its reason.
    pub says: String,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.about, self.says)
    }
}

/// Explains the answer to `request`, a whole request head that arrives at a listener of this class,
/// by the code that would give it. `open` performs [`regatta_op::Op::Open`], and `lister` lists
/// folders at once; no file is read, and nothing is cached, counted or logged.
pub fn explain<F: File>(
    request: &[u8],
    class: ListenerClass,
    open: &mut dyn FnMut(&OpenReq) -> Result<Opened<F>, OpenFault>,
    lister: Option<Arc<dyn Lister>>,
    site: &Site,
    now: Now,
) -> Explanation {
    let scratch = &Scratch::new(site.boundary_key).listing(lister);
    let mut explainer = Explainer {
        decisions: Vec::new(),
        asked: Vec::new(),
        served: Vec::new(),
        lists: false,
        open,
        class,
        site,
        scratch,
        now,
    };
    let head = explainer.request(request);
    Explanation { decisions: explainer.decisions, head }
}

struct Explainer<'a, F> {
    decisions: Vec<Decision>,
    /// The path that is asked for, and the name of the file that was opened last.
    asked: Vec<u8>,
    served: Vec<u8>,
    /// Whether the answer is a listing of the folder at the path.
    lists: bool,
    open: &'a mut dyn FnMut(&OpenReq) -> Result<Opened<F>, OpenFault>,
    class: ListenerClass,
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
                let reply = Reply::Refused(Refusal::Head(fault));
                let rules = ReplyRules::unread(self.class, self.site);
                return self.head(reply, Persistence::Close, rules);
            }
        };
        self.say("request", format!("{} {}", head.method_text, shown(head.target)));
        self.host(head.host);
        let course = Course::decide(&head, false, &self.site.limits);
        let request = course.request(&head);
        let rules = ReplyRules::new(&request, self.class, self.site, &self.scratch.decoded);
        let ending = match course.after {
            After::KeepAlive => "goes on after the response",
            After::Linger => "ends; what the peer still sends is discarded",
            After::Close => "ends, as the request asks",
        };
        self.say("connection", ending);
        if let Some(reply) = self.transport(&request, head.host, rules.bare) {
            return self.head(reply, course.persistence, rules);
        }
        if let Announced::Some(_) = course.content {
            self.say("content", "read and discarded before the response");
        }
        if request.too_large {
            self.say("content", "longer than limits.discard_body_bytes_max");
        }
        if request.needs_file() {
            self.path(head.names);
        }
        if let Some(grant) = rules.cors {
            let place = &self.site.rules.cors_rule(grant.rule).place;
            let may = if grant.allows() { "may" } else { "may not" };
            self.say(
                "cors",
                format!("scripts of the origin {may} read it, by the rule at {place}"),
            );
        }
        let reply = self.exchange(&request);
        self.reply(&reply);
        self.head(reply, course.persistence, rules)
    }

    /// Decides by the encryption of the connection whether the request is redirected.
    fn transport(
        &mut self,
        request: &Request<'_>,
        authority: Option<&[u8]>,
        bare: bool,
    ) -> Option<Reply<F>> {
        let rules = self.site.transport?;
        if !bare {
            return None;
        }
        let reply = redirect(rules, request, authority, &mut Vec::new());
        match &reply {
            Some(Reply::Redirect(status, to)) => {
                self.say("redirect", "to TLS (tls.redirect)");
                self.say("answer", format!("{} {}: {}", status.0, status.reason(), shown(to)));
            }
            Some(reply) => self.reply(reply),
            None if rules.redirect.is_some() => {
                self.say("redirect", "none for this request (tls.redirect)");
            }
            None => {}
        }
        reply
    }

    /// Continues with the site of the named host.
    fn host(&mut self, authority: Option<&[u8]>) {
        let site = self.site;
        if site.hosts.is_empty() {
            return;
        }
        if let Some(of_host) = site.of_host(site.hosts.find(authority)) {
            self.site = of_host;
            self.say("host", format!("that of {} ([[hosts]])", of_host.host_name));
        } else {
            self.say("host", "the first (server.root): no other has this name");
        }
    }

    fn path(&mut self, target: Target<'_>) {
        let mut room = Vec::new();
        let path = match target {
            Target::Path(raw) => decode_path(raw, &mut room).map_err(PathFault::reason),
            Target::Server | Target::Tunnel => Err("it has none"),
        };
        match path {
            Err(why) => self.say("path", format!("refused, {why}")),
            Ok(path) => {
                self.say("path", quoted(path.relative));
                self.asked = path.relative.to_vec();
                if let Some(why) = self.site.content.hides(&path) {
                    self.say("path", why);
                }
                if self.site.rules.auth_of_request(path.relative).is_some()
                    && let Some(place) = self.site.rules.auth_place(path.relative)
                {
                    self.say("auth", format!("only for the users of the rule at {place}"));
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
        let words: Vec<_> = (0..Arena::count_words(1)).map(|_| AtomicU64::new(0)).collect();
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
                Step::Reply(reply) => {
                    self.lists = exchange.search.is_listing();
                    self.withheld(exchange.search, request, &reply);
                    self.untried(exchange.search, request, &reply);
                    return reply;
                }
                Step::Open(req) => {
                    if exchange.search.is_rule() {
                        self.redirect("redirect");
                    }
                    let name = req.below().1;
                    self.served = name.to_vec();
                    let found = (self.open)(&req);
                    if let Ok(Opened::File { file, siblings }) = &found {
                        self.siblings(name, file, siblings);
                    }
                    let (name, why) = (quoted(name), exchange.reason());
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

    /// Reports siblings that are not sent, or are older than their file.
    fn siblings(&mut self, name: &[u8], file: &F, siblings: &[Option<F>; 3]) {
        let this = file.id();
        for (coding, sibling) in Coding::ALL.into_iter().zip(siblings) {
            let Some(sibling) = sibling.as_ref().map(File::id) else { continue };
            let name = quoted(&[name, coding.suffix().as_bytes()].concat());
            if sibling.len > this.len {
                let (larger, len) = (sibling.len, this.len);
                let why = format!("larger than the file itself ({larger} bytes, not {len})");
                self.say("sibling", format!("{name}, {why}: not sent"));
            } else if sibling.len == 0 {
                self.say("sibling", format!("{name}, empty: not sent"));
            } else if sibling.modified < this.modified {
                let hint = "if that has changed, compress it again";
                self.say("sibling", format!("{name}, older than the file itself: sent; {hint}"));
            }
        }
    }

    fn reply(&mut self, reply: &Reply<F>) {
        match reply {
            Reply::File(reply) if self.lists => self.listing(reply),
            Reply::File(reply) => self.file(reply),
            Reply::Redirect(status, to) if !to.starts_with(b"./") => {
                self.redirect("redirect");
                self.say("answer", format!("{} {}: {}", status.0, status.reason(), shown(to)));
            }
            Reply::Redirect(..) => {
                self.say("answer", "a directory; its name should end in a slash");
            }
            Reply::Nothing(status) => {
                if matches!(*status, Status::NOT_FOUND | Status::GONE) {
                    self.redirect("redirect");
                }
                self.say("answer", format!("nothing, {} {}", status.0, status.reason()));
                self.own_page(*status);
            }
            Reply::Ruled(status, text) => {
                self.redirect("response");
                let what = if text.is_empty() { "no text" } else { "the text of the rule" };
                self.say("answer", format!("{} {}: {what}", status.0, status.reason()));
                if text.is_empty() {
                    self.own_page(*status);
                }
            }
            Reply::Refused(refusal) => {
                self.say("answer", format!("refused, {}", refusal.reason()));
                self.own_page(refusal.status());
            }
            Reply::Options => self.say("answer", "the methods that are served"),
            Reply::Unauthorized(_) => {
                self.say("answer", "refused, without a password of a user (401 Unauthorized)");
                self.own_page(Status::UNAUTHORIZED);
            }
        }
    }

    /// Says so if the owner has a page for an error.
    fn own_page(&mut self, status: Status) {
        if self.site.errors.iter().any(|page| page.status == status) {
            self.say("page", "one of the site's own (content.error_pages)");
        }
    }

    /// Names the place of the redirect or response that the path meets, if there is one.
    fn redirect(&mut self, about: &'static str) {
        let rules = &self.site.rules;
        let place = |forced| rules.redirect_place(&self.asked, forced);
        if let Some(place) = place(true).or_else(|| place(false)) {
            self.say(about, format!("the rule at {place}"));
        }
    }

    /// Says so if the last file tried needs a password, and the requested path none or another one.
    fn withheld(&mut self, search: Search, request: &Request<'_>, reply: &Reply<F>) {
        let (mut decoded, mut room) = (Vec::new(), Room::default());
        let site = self.site;
        let Ok(path) = request.path(&mut decoded) else { return };
        let target = resolve::Target::new(&path, request, site, false);
        let Some(name) = search.name(&target, &mut room) else { return };
        match reply {
            Reply::Unauthorized(_) if search.is_rule() => self.redirect("redirect"),
            Reply::Unauthorized(_) | Reply::Nothing(_) => {}
            _ => return,
        }
        if let Some(rule) = site.rules.auth_beside(path.relative, name) {
            let (name, place) = (quoted(name), &rule.place);
            self.say("auth", format!("{name} is only for the users of the rule at {place}"));
        }
    }

    /// Says of a path that no file answers for why the fallback was skipped, and which option would
    /// find a file.
    fn untried(&mut self, search: Search, request: &Request<'_>, reply: &Reply<F>) {
        let is_lost = match reply {
            Reply::Nothing(status) => *status == Status::NOT_FOUND,
            Reply::File(reply) => reply.role == Role::Instead(Status::NOT_FOUND),
            _ => false,
        };
        let mut decoded = Vec::new();
        let Ok(path) = request.path(&mut decoded) else { return };
        let rules = &self.site.content;
        if !is_lost || search.is_rule() || rules.hides(&path).is_some() {
            return;
        }
        let redirects = &self.site.rules.redirects;
        if redirects.before_files(&path).or_else(|| redirects.without_file(&path)).is_some() {
            return;
        }
        let target = resolve::Target::new(&path, request, self.site, false);
        if !rules.fallback.is_empty()
            && let Some(why) = fallback_skipped(&target)
        {
            self.say("fallback", format!("skipped: {why}"));
        }
        let name = [path.relative, PAGE_SUFFIX.as_bytes()].concat();
        if rules.clean_urls || path.trailing_slash || path.relative.is_empty() {
            return;
        }
        let (mut room, siblings) = (Vec::new(), Codings::NONE);
        let page = OpenReq { path: self.site.key(&name, &mut room).into(), siblings };
        if let Ok(Opened::File { .. }) = (self.open)(&page) {
            let name = quoted(&name);
            self.say("hint", format!("{name} would answer with content.clean_urls = true"));
        }
    }

    /// Reports the listing of a folder that answers.
    fn listing(&mut self, reply: &FileReply<F>) {
        for place in self.site.rules.header_places(&self.asked) {
            self.say("headers", format!("the rule at {place}"));
        }
        self.say("validator", shown(reply.coded().etag_text()));
        let len = reply.coded().len();
        self.say("answer", format!("a listing of the folder, {len} bytes (content.listing)"));
    }

    fn file(&mut self, reply: &FileReply<F>) {
        for place in self.site.rules.header_places_of(content::names(&self.served, self.site)) {
            self.say("headers", format!("the rule at {place}"));
        }
        let codings = reply.file.codings();
        let names = Coding::ALL.into_iter().filter(|&coding| codings.has(coding));
        let names: Vec<_> = names.map(Coding::name).collect();
        let names = if names.is_empty() { "none".into() } else { names.join(", ") };
        let chosen = reply.coding.map_or("identity", Coding::name);
        if reply.file.is_compressed_at_use() {
            self.say("codings", "compressed after the first use (content.compress)");
        }
        let coded_as = &reply.file.facts().coded_as;
        if coded_as.is_empty() {
            self.say("codings", format!("precompressed {names}; chosen {chosen}"));
        } else {
            self.say("codings", format!("the file itself is coded: {coded_as}"));
        }
        let coded = reply.coded();
        self.say("validator", shown(coded.etag_text()));
        if coded.awaits_digest() {
            self.say("validator", "a hash of the content after the first use (content.etag)");
        }
        let len = coded.len();
        let answer = match &reply.shape {
            Shape::Whole => format!("all {len} bytes"),
            Shape::One(range) => format!("bytes {} to {}", range.first, range.last),
            Shape::Many(ranges) => format!("{} ranges", ranges.len()),
            Shape::NotModified => "not modified, as the conditions find".to_string(),
            Shape::Refused(status) => format!("refused, {}", status.reason()),
        };
        self.say("answer", answer);
        let caching = &self.site.caching;
        let body = if len <= caching.body_bytes_max_of(self.class == ListenerClass::CLEAR) {
            KEPT_BODY
        } else if len <= caching.body_bytes_max {
            CLEAR_BODY
        } else {
            "sent from the file"
        };
        self.say("body", body);
    }

    /// The head of a response, as HTTP/1 has it.
    fn head(&mut self, reply: Reply<F>, persistence: Persistence, rules: ReplyRules) -> Vec<u8> {
        let (site, scratch, now) = (self.site, self.scratch, self.now);
        let response = Terms { site, scratch, now, persistence, rules }.response(reply);
        let head_bytes = usize::try_from(response.head_bytes()).expect("a head is in memory");
        let mut head = response.outbox.into_buffer();
        // A short body may be behind it.
        head.truncate(head_bytes);
        self.hsts(&head);
        head
    }

    /// Reports the order to use TLS alone, as the head has it: that of the option, or of a rule,
    /// which has precedence.
    fn hsts(&mut self, head: &[u8]) {
        let seconds = self.site.transport.map_or(0, |rules| rules.hsts_s);
        let of_option = format!("max-age={seconds}");
        for line in head.split(|byte| *byte == b'\n').filter(|line| is_hsts(line)) {
            let value = line.splitn(2, |byte| *byte == b':').nth(1).unwrap_or_default();
            let value = value.trim_ascii();
            if seconds > 0 && value == of_option.as_bytes() {
                self.say("hsts", format!("TLS alone for {seconds} s (tls.hsts_s)"));
            } else {
                self.say("hsts", format!("{} (a rule for headers)", shown(value)));
            }
        }
    }
}

fn found_text<F: File>(found: &Result<Opened<F>, OpenFault>) -> String {
    match found {
        Ok(Opened::File { file, .. }) => format!("a file of {} bytes", file.id().len),
        Ok(Opened::Directory) => "a directory".to_string(),
        Err(fault) => fault_text(*fault),
    }
}

/// Bytes as text for a terminal: control characters are escaped, and quotes stay unchanged.
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
