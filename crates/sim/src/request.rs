//! Requests, each made together with its meaning: the model never parses one.
use crate::{
    dice::{Dice, index},
    disk::{NAMES, UNIX},
    registry::{Registry, Tagged},
};
use regatta_http::date;
use regatta_origin::Limits;

/// Meaning of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verb {
    #[default]
    Get,
    Head,
    Options,
    /// Known, and not allowed.
    Refused,
    /// `CONNECT`: not allowed, and the connection's last, because what follows is not parsed.
    Tunnel,
    Unknown,
}

/// Meaning of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Goal {
    Path(PathGoal),
    /// A malformed path: 400, and the connection continues.
    BadPath,
    #[default]
    Server,
}

/// A path, decoded and resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathGoal {
    pub(crate) relative: Vec<u8>,
    pub(crate) trailing_slash: bool,
    pub(crate) hidden: bool,
    /// Target of a redirect to the same path with a slash.
    pub(crate) with_slash: Vec<u8>,
}

/// Content after a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Content {
    #[default]
    None,
    Length(u64),
    /// This many bytes, including their framing.
    Chunked {
        bytes: u64,
        malformed: bool,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Expect {
    #[default]
    None,
    Continue,
    Unknown,
}

/// Member of a list of entity tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    /// Content that it names; `None` if there never was such a file.
    pub(crate) of: Option<Tagged>,
    pub(crate) weak: bool,
}

/// Value of `If-Match` or `If-None-Match`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tags {
    Star,
    List(Vec<Tag>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfRange {
    Tag(Tag),
    Date(i64),
    Invalid,
}

/// Member of a `Range` field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    Between(u64, u64),
    From(u64),
    Suffix(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    Spans(Vec<Span>),
    Invalid,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    pub(crate) goal: Goal,
    /// Statuses that may refuse it, if its head is malformed; otherwise empty.
    pub(crate) refusals: Vec<u16>,
    pub(crate) http10: bool,
    pub(crate) persistent: bool,
    pub(crate) content: Content,
    pub(crate) expect: Expect,
    pub(crate) if_match: Option<Tags>,
    pub(crate) if_none_match: Option<Tags>,
    pub(crate) if_modified_since: Option<i64>,
    pub(crate) if_unmodified_since: Option<i64>,
    pub(crate) if_range: Option<IfRange>,
    pub(crate) range: Option<Range>,
    pub(crate) accept_encoding: Option<Vec<(&'static str, u16)>>,
    pub(crate) navigation: bool,
    pub(crate) wire: Vec<u8>,
    pub(crate) head_bytes: u64,
}

impl Request {
    /// A request of HTTP/1.1 without fields, and not written yet.
    pub(crate) fn new(verb: Verb, goal: Goal) -> Self {
        Self { verb, goal, persistent: true, ..Self::default() }
    }

    /// Whether what follows its head is not discarded before the response.
    pub(crate) fn content_stays(&self, limits: &Limits) -> bool {
        let is_withheld = self.expect == Expect::Continue && self.announces();
        self.verb == Verb::Tunnel || self.too_large(limits) || is_withheld
    }

    /// Whether it announces more content than is discarded.
    pub(crate) fn too_large(&self, limits: &Limits) -> bool {
        matches!(self.content, Content::Length(n) if n > limits.discard_body_bytes_max)
    }

    /// Whether it announces content.
    pub(crate) fn announces(&self) -> bool {
        !matches!(self.content, Content::None | Content::Length(0))
    }
}

/// Sources of requests.
pub(crate) struct Maker<'a> {
    pub(crate) dice: &'a mut Dice,
    pub(crate) limits: &'a Limits,
    /// Names that are requested repeatedly.
    pub(crate) hot: &'a [&'static str],
    /// Entity tags that have been seen.
    pub(crate) registry: &'a Registry,
}

impl Maker<'_> {
    /// Makes a request, mostly valid.
    pub(crate) fn make(&mut self) -> Request {
        let (verb, method) = self.method();
        let (goal, target) = self.target(verb);
        let http10 = self.dice.one_in(10);
        let mut request = Request { http10, persistent: !http10, ..Request::new(verb, goal) };
        let mut fields = Vec::new();
        self.fields(&mut request, &mut fields);
        self.write(&mut request, method, &target, fields);
        request
    }

    /// A method, and its meaning.
    pub(crate) fn method(&mut self) -> (Verb, &'static str) {
        match self.dice.below(24) {
            0 => (Verb::Options, "OPTIONS"),
            1 => (Verb::Refused, self.dice.pick(&["POST", "PUT", "DELETE", "TRACE", "PATCH"])),
            2 => (Verb::Unknown, self.dice.pick(&["PROPFIND", "get", "G", "X-!#$%&'*+.^_`|~1"])),
            3..6 => (Verb::Head, "HEAD"),
            _ => (Verb::Get, "GET"),
        }
    }

    fn fields(&mut self, request: &mut Request, fields: &mut Vec<String>) {
        let host = self.dice.pick(&["sim", "localhost:8080", "[::1]:80", "", "a%41b"]);
        if !request.http10 || self.dice.one_in(2) {
            fields.push(format!("{}: {host}", self.dice.pick(&["Host", "host", "HOST"])));
        }
        self.connection(request, fields);
        self.conditions(request, fields);
        if self.dice.one_in(4) {
            let (range, text) = self.range();
            fields.push(format!("Range: {text}"));
            request.range = Some(range);
        }
        if self.dice.one_in(3) {
            request.accept_encoding = Some(self.codings(fields));
        }
        if self.dice.one_in(5) {
            request.navigation = true;
            fields.push("Accept: image/avif, text/html;q=0.9".to_owned());
        }
        if self.dice.one_in(8) {
            self.content(request, fields);
        }
        if self.dice.one_in(24) {
            let value = self.dice.pick(&["100-continue", "100-CONTINUE", "tea"]);
            fields.push(format!("Expect: {value}"));
            if !request.http10 {
                request.expect = if value == "tea" { Expect::Unknown } else { Expect::Continue };
            }
        }
        if self.dice.one_in(4) {
            let n = self.dice.below(40);
            fields.push(format!("X-Fill-{n}: {}", "f\tg h".repeat(index(n))));
        }
        if fields.len() > 1 && self.dice.one_in(2) {
            let at = self.dice.below(fields.len() as u64 - 1);
            fields.swap(0, index(at));
        }
    }

    fn connection(&mut self, request: &mut Request, fields: &mut Vec<String>) {
        let (value, close, keep) = match self.dice.below(14) {
            0 => ("close", true, false),
            1 => ("keep-alive", false, true),
            2 => ("Keep-Alive, upgrade", false, true),
            3 => ("foo ,, CLOSE\t, keep-alive", true, true),
            4 => ("closed", false, false),
            _ => return,
        };
        fields.push(format!("Connection: {value}"));
        request.persistent = if request.http10 { keep && !close } else { !close };
    }

    pub(crate) fn conditions(&mut self, request: &mut Request, fields: &mut Vec<String>) {
        if self.dice.one_in(4) {
            let (tags, text) = self.tags();
            fields.push(format!("If-None-Match: {text}"));
            request.if_none_match = Some(tags);
        }
        if self.dice.one_in(16) {
            let (tags, text) = self.tags();
            fields.push(format!("If-Match: {text}"));
            request.if_match = Some(tags);
        }
        if self.dice.one_in(10) {
            let (secs, text) = self.date();
            fields.push(format!("If-Modified-Since: {text}"));
            request.if_modified_since = secs;
        }
        if self.dice.one_in(20) {
            let (secs, text) = self.date();
            fields.push(format!("If-Unmodified-Since: {text}"));
            request.if_unmodified_since = secs;
        }
        if self.dice.one_in(12) {
            let (value, text) = match self.dice.below(4) {
                0 => match self.date() {
                    (Some(secs), text) => (IfRange::Date(secs), text),
                    (None, text) => (IfRange::Invalid, text),
                },
                1 => (IfRange::Invalid, "*".to_owned()),
                _ => {
                    let (tag, text) = self.tag();
                    (IfRange::Tag(tag), text)
                }
            };
            fields.push(format!("If-Range: {text}"));
            request.if_range = Some(value);
        }
    }

    fn tag(&mut self) -> (Tag, String) {
        let weak = self.dice.one_in(5);
        let prefix = if weak { "W/" } else { "" };
        match self.registry.pick(self.dice) {
            Some((text, of)) if !self.dice.one_in(6) => {
                let opaque = text.strip_prefix("W/").unwrap_or(text);
                (Tag { of: Some(of), weak }, format!("{prefix}{opaque}"))
            }
            _ => (Tag { of: None, weak }, format!("{prefix}\"never,{}\"", self.dice.below(9))),
        }
    }

    fn tags(&mut self) -> (Tags, String) {
        if self.dice.one_in(8) {
            return (Tags::Star, "*".to_owned());
        }
        let (mut list, mut texts) = (Vec::new(), Vec::new());
        for _ in 0..self.dice.between(1, 4) {
            let (tag, text) = self.tag();
            list.push(tag);
            texts.push(text);
        }
        (Tags::List(list), texts.join(self.dice.pick(&[",", ", ", " ,, \t"])))
    }

    /// A date as written in a field; `None` if it is malformed.
    fn date(&mut self) -> (Option<i64>, String) {
        let now = i64::try_from(UNIX).expect("it is small");
        let secs = match self.dice.below(8) {
            0 => 0,
            1 => now - 1_001,
            2 => now - 999,
            3 => now + 1_000_000,
            4 => return (None, "yesterday".to_owned()),
            _ => now - 1_000 + i64::try_from(self.dice.below(1_010)).expect("it is small"),
        };
        (Some(secs), String::from_utf8_lossy(&date::format(secs)).into_owned())
    }

    pub(crate) fn range(&mut self) -> (Range, String) {
        if self.dice.one_in(8) {
            let texts = [
                "bytes=",
                "bytes=-",
                "bytes=5-4",
                "bytes 0-1",
                "lines=0-1",
                "bytes=a-",
                "bytes=1-2,x",
            ];
            return (Range::Invalid, self.dice.pick(&texts).to_owned());
        }
        let (mut spans, mut texts) = (Vec::new(), Vec::new());
        let count = if self.dice.one_in(2) { 1 } else { self.dice.between(1, 6) };
        for _ in 0..count {
            let first = self.position();
            let (span, text) = match self.dice.below(4) {
                0 => (Span::From(first), format!("{first}-")),
                1 => (Span::Suffix(first), format!("-{first}")),
                _ => {
                    let last = first.saturating_add(self.position());
                    (Span::Between(first, last), format!("{first}-{last}"))
                }
            };
            spans.push(span);
            texts.push(text);
        }
        let unit = self.dice.pick(&["bytes=", "Bytes=", "BYTES="]);
        (Range::Spans(spans), format!("{unit}{}", texts.join(self.dice.pick(&[",", ", ", ",,"]))))
    }

    fn position(&mut self) -> u64 {
        match self.dice.below(10) {
            0 => 0,
            1 => self.dice.below(200_000),
            2 => u64::MAX - self.dice.below(2),
            _ => self.dice.below(150),
        }
    }

    pub(crate) fn codings(&mut self, fields: &mut Vec<String>) -> Vec<(&'static str, u16)> {
        let mut members = Vec::new();
        let mut texts = Vec::new();
        let gzip = self.dice.pick(&["gzip", "x-gzip", "GZip"]);
        for name in ["br", "zstd", gzip, "identity", "*", "deflate"] {
            if self.dice.one_in(2) {
                continue;
            }
            let weight = self.dice.pick(&[1000, 1000, 1000, 0, 500, 1, 999]);
            let text = match weight {
                1000 if self.dice.one_in(2) => name.to_owned(),
                1000 => format!("{name};q=1.000"),
                weight => format!("{name}\t; q=0.{weight:03}"),
            };
            members.push((name, weight));
            texts.push(text);
        }
        if texts.len() > 2 && self.dice.one_in(3) {
            let second = texts.split_off(1);
            fields.push(format!("Accept-Encoding: {}", second.join(",")));
        }
        fields.push(format!("Accept-Encoding: {}", texts.join(", ")));
        members
    }

    fn content(&mut self, request: &mut Request, fields: &mut Vec<String>) {
        let most = self.limits.discard_body_bytes_max;
        if self.dice.one_in(2) || request.http10 {
            let length = match self.dice.below(6) {
                0 => 0,
                1 => most,
                2 => most + 1,
                3 => u64::MAX,
                _ => self.dice.below(300),
            };
            // Content that is refused for its length is rarely sent, and never in full.
            let sent = if length > most { self.dice.below(100) } else { length };
            request.content = Content::Length(length);
            request.wire = vec![b'c'; index(sent)];
            fields.push(format!("Content-Length: {length}"));
        } else {
            let malformed = self.dice.one_in(5);
            request.wire = self.chunks(malformed);
            let bytes = request.wire.len() as u64;
            request.content = Content::Chunked { bytes, malformed };
            fields.push("Transfer-Encoding: chunked".to_owned());
        }
    }

    fn chunks(&mut self, malformed: bool) -> Vec<u8> {
        let mut wire = Vec::new();
        for _ in 0..self.dice.below(5) {
            let size = self.dice.between(1, 60);
            let extension = self.dice.pick(&["", "", ";a=b", " ;x", ";a=\";\\\"\" ; b = c"]);
            wire.extend(format!("{size:x}{extension}\r\n").bytes());
            wire.extend(std::iter::repeat_n(b'd', index(size)));
            wire.extend(b"\r\n");
        }
        if malformed {
            let bad: &[&[u8]] = &[
                b"g\r\n",
                b"3\r\nabcd\r\n",
                b"1\nx\r\n",
                b"\r\n",
                b"11111111111111111\r\n",
                b"1;\r\nx\r\n",
                b"1;a=\"b\r\nx\r\n",
                b"0\r\nbad\r\n\r\n",
            ];
            wire.extend(self.dice.pick(bad));
            return wire;
        }
        wire.extend(b"000\r\n");
        if self.dice.one_in(3) {
            wire.extend(b"Trailer: x\r\n");
        }
        wire.extend(b"\r\n");
        wire
    }

    /// Composes line, fields and content; sometimes breaks them.
    fn write(
        &mut self,
        request: &mut Request,
        method: &str,
        target: &[u8],
        mut fields: Vec<String>,
    ) {
        let mut head = Vec::new();
        let skipped = if self.dice.one_in(20) { self.dice.between(1, 2) } else { 0 };
        head.extend_from_slice(&b"\r\n\r\n"[..index(skipped) * 2]);
        let mut version = if request.http10 { "1.0" } else { "1.1" };
        if self.dice.one_in(30) && fields.len() < 40 {
            fields.extend((0..self.dice.between(1, 110)).map(|n| format!("F{n}:{n}")));
            if !request.http10 {
                // RFC 9110 §6.2: a version later than 1.1 is read as 1.1.
                version = self.dice.pick(&["1.1", "1.2", "1.9"]);
            }
        }
        head.extend(
            [method.as_bytes(), b" ", target, b" HTTP/", version.as_bytes(), b"\r\n"].concat(),
        );
        for field in &fields {
            head.extend(field.bytes());
            head.extend(b"\r\n");
        }
        head.extend(b"\r\n");
        if target.len() > self.limits.target_bytes_max {
            request.refusals.push(414);
        }
        if head.len() > self.limits.head_bytes_max || fields.len() > self.limits.fields_max {
            request.refusals.push(431);
        }
        if self.dice.one_in(40) {
            self.spoil(request, &mut head);
        }
        request.head_bytes = head.len() as u64;
        let content = std::mem::take(&mut request.wire);
        let withheld = request.expect == Expect::Continue && request.announces();
        request.wire = head;
        if !(withheld && self.dice.one_in(2)) {
            request.wire.extend(content);
        }
    }

    /// Breaks a head: it must be refused with one of `refusals`. Or replaces it by a `CONNECT`.
    fn spoil(&mut self, request: &mut Request, head: &mut Vec<u8>) {
        request.refusals.push(400);
        (request.verb, request.http10) = (Verb::Get, false);
        let line = |text: &str| format!("{text}\r\nHost: sim\r\n\r\n").into_bytes();
        let field =
            |text: &str| format!("GET / HTTP/1.1\r\nHost: sim\r\n{text}\r\n\r\n").into_bytes();
        *head = match self.dice.below(26) {
            0 => b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            1 => field("host: sim"),
            2 => {
                let host = self.dice.pick(&["a b", ":80", ".", "a..b"]);
                format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes()
            }
            3 => field("Content-Length: 1\r\nContent-Length: 1"),
            4 => field("Content-Length: 1, 1"),
            5 => field("Content-Length: +1"),
            6 => field("Content-Length: 1\r\nTransfer-Encoding: chunked"),
            7 => field("Transfer-Encoding: gzip, chunked"),
            8 => b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
            9 => field("Folded: a\r\n b"),
            10 => field("Spaced : a"),
            11 => field("NoColon"),
            12 => field(": empty"),
            13 => field("Nul: a\0b"),
            14 => b"GET / HTTP/1.1\nHost: sim\r\n\r\n".to_vec(),
            15 => b"GET / HTTP/1.1\r\nHost: sim\rX: y\r\n\r\n".to_vec(),
            16 => line("GET / http/1.1"),
            17 => line("GET  / HTTP/1.1"),
            18 => self.dice.pick(&[&b"GET /\r\n\r\n"[..], b"GET / HTTP/1.20\r\n\r\n"]).to_vec(),
            19 => b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03".to_vec(),
            20 => b"\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: sim\r\n\r\n".to_vec(),
            21 => line("GET a.txt HTTP/1.1"),
            22 => {
                // Well-formed, and within all limits.
                let wire = std::mem::take(&mut request.wire);
                *request = Request { wire, ..Request::new(Verb::Tunnel, Goal::Server) };
                *head = line("CONNECT sim:80 HTTP/1.1");
                return;
            }
            23 => line("GET * HTTP/1.1"),
            24 => line("GET http://user@sim/ HTTP/1.1"),
            _ => {
                request.refusals.push(505);
                line("GET / HTTP/2.0")
            }
        };
        if head.len() > self.limits.head_bytes_max {
            request.refusals.push(431);
        }
        if self.limits.target_bytes_max < "http://user@sim/".len() {
            request.refusals.push(414);
        }
    }

    pub(crate) fn target(&mut self, verb: Verb) -> (Goal, Vec<u8>) {
        if verb == Verb::Options && self.dice.one_in(2) {
            return (Goal::Server, b"*".to_vec());
        }
        if self.dice.one_in(24) {
            let bad = [
                "/..",
                "/a/../../b",
                "/%2e%2e/x",
                "/%2fetc",
                "/a%00",
                "/%zz",
                "/a%4",
                "/a%",
                "/#x",
                "/a?b#c",
            ];
            return (Goal::BadPath, self.dice.pick(&bad).as_bytes().to_vec());
        }
        let (mut goal, mut raw) = self.path();
        if self.dice.one_in(6) {
            let query = self.dice.pick(&["", "v=1", "a=/../b&c=?d", "%"]);
            raw.extend(format!("?{query}").bytes());
            goal.with_slash.extend(format!("?{query}").bytes());
        }
        if self.dice.one_in(12) {
            raw = [self.dice.pick(&["http://other", "HTTPS://h:1"]).as_bytes(), &raw].concat();
        }
        (Goal::Path(goal), raw)
    }

    /// A path, and a way to write it.
    fn path(&mut self) -> (PathGoal, Vec<u8>) {
        let name = match self.dice.below(12) {
            0 => "",
            1 => "docs",
            2 => "docs/deep",
            3 => self.dice.pick(&[
                "none",
                "docs/none.html",
                "b",
                "docs/guide",
                ".well-known",
                "x.js",
            ]),
            4 => self.dice.pick(&["a.txt/b", "home", ".git/config", "docs/.x", "late"]),
            5 | 6 => self.dice.pick(&NAMES),
            _ => self.dice.pick(self.hot),
        };
        let segments: Vec<&str> = name.split('/').filter(|segment| !segment.is_empty()).collect();
        let mut raw = Vec::new();
        let mut last = Vec::new();
        for segment in &segments {
            raw.extend(
                self.dice.pick(&["/", "/", "/", "/", "/", "/", "//", "/./", "/y/../"]).bytes(),
            );
            last.clear();
            for byte in segment.bytes() {
                if byte == b' ' || self.dice.one_in(60) {
                    last.extend(format!("%{byte:02X}").bytes());
                } else {
                    last.push(byte);
                }
            }
            raw.extend_from_slice(&last);
        }
        let trailing_slash = segments.is_empty() || self.dice.one_in(5);
        if trailing_slash {
            raw.extend(self.dice.pick(&["/", "/", "/", "/.", "/z/.."]).bytes());
        }
        let goal = PathGoal {
            relative: name.into(),
            trailing_slash,
            hidden: segments.iter().enumerate().any(|(at, segment)| {
                segment.starts_with('.') && (at > 0 || *segment != ".well-known")
            }),
            with_slash: [b"./", &last[..], b"/"].concat(),
        };
        (goal, raw)
    }
}
