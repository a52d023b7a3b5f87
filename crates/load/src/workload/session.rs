//! Sessions: bursts of requests with think times between, and their logs in httperf's `--wsesslog`
//! format, read and written as streams.
//!
//! The format is described in httperf(1) and §3.5; our extensions stand in `#!` comments, which
//! httperf skips: `#! at=SECONDS line=BITS_PER_S client=N` before a session, and `#! bytes=N`
//! before a request.

use super::fault::{At, Fault};
use regatta_http::Method;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

/// Microseconds in a second: think times are kept in whole microseconds.
pub const US_PER_S: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    pub method: Method,
    pub target: &'a str,
    /// Request body; empty for none.
    pub contents: &'a [u8],
    /// Bytes that the reply's body must have, when the log says so (our extension).
    pub reply_bytes: Option<u64>,
}

impl<'a> Request<'a> {
    pub fn get(target: &'a str) -> Self {
        Self { method: Method::Get, target, contents: b"", reply_bytes: None }
    }
}

/// Requests that belong together: the first is sent alone, the others at once after its reply.
#[derive(Clone, Copy, Debug)]
pub struct Burst<'a>(&'a [Entry]);

impl<'a> Burst<'a> {
    /// Requests, in order; at least one.
    pub fn requests(&self) -> impl ExactSizeIterator<Item = Request<'a>> + use<'a> {
        self.0.iter().map(Entry::view)
    }

    /// Think time between the last reply of this burst and the next burst, microseconds; `None`
    /// leaves it to the player's default. It means nothing after the last burst.
    pub fn think_us(&self) -> Option<u64> {
        self.0[0].think_us
    }
}

/// Hints of a session in our `#!` comments; httperf ignores these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Start, microseconds after the log's.
    pub at_us: Option<u64>,
    pub line_bits_per_s: Option<u64>,
    /// Number of the client that it stands for.
    pub client: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    pub hints: Hints,
    requests: Vec<Entry>,
    /// Bytes of targets and contents.
    text_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    method: Method,
    starts_burst: bool,
    target: String,
    contents: Vec<u8>,
    think_us: Option<u64>,
    reply_bytes: Option<u64>,
}

impl Entry {
    fn view(&self) -> Request<'_> {
        let Self { method, reply_bytes, .. } = *self;
        Request { method, target: &self.target, contents: &self.contents, reply_bytes }
    }
}

pub const SESSION_BYTES_MAX: usize = 256 << 20;

impl Session {
    /// Adds a request to the last burst, or as the first of a new one. The first of a session
    /// always starts a burst.
    pub fn push(&mut self, request: Request<'_>, starts_burst: bool) {
        self.text_bytes += request.target.len() + request.contents.len();
        self.requests.push(Entry {
            method: request.method,
            starts_burst: starts_burst || self.requests.is_empty(),
            target: request.target.to_owned(),
            contents: request.contents.to_owned(),
            think_us: None,
            reply_bytes: request.reply_bytes,
        });
    }

    /// Sets the think time after the last burst, microseconds. No burst: nothing happens.
    pub fn think(&mut self, think_us: u64) {
        if let Some(entry) = self.requests.iter_mut().rev().find(|entry| entry.starts_burst) {
            entry.think_us = Some(think_us);
        }
    }

    pub fn len(&self) -> usize {
        self.requests.len()
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub fn bursts(&self) -> impl Iterator<Item = Burst<'_>> {
        self.requests.chunk_by(|_, next| !next.starts_burst).map(Burst)
    }

    pub fn requests(&self) -> impl ExactSizeIterator<Item = Request<'_>> {
        self.requests.iter().map(Entry::view)
    }

    /// Sum of the think times that the log gives between bursts, microseconds.
    pub fn think_total_us(&self) -> u64 {
        let last = self.requests.iter().rposition(|entry| entry.starts_burst).unwrap_or(0);
        self.requests[..last].iter().filter_map(|entry| entry.think_us).sum()
    }
}

/// Longest line, bytes. httperf's own limit is 10,000.
pub const LINE_BYTES_MAX: usize = 64 << 10;
pub const REQUESTS_MAX: usize = 1_000_000;

/// Reads sessions one at a time, in constant memory.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    path: PathBuf,
    line: Vec<u8>,
    number: u64,
    hints: Hints,
    reply_bytes: Option<u64>,
}

impl<R: BufRead> Reader<R> {
    /// A reader of `input`; `path` names it in errors.
    pub fn new(input: R, path: &Path) -> Self {
        Self {
            input,
            path: path.to_owned(),
            line: Vec::new(),
            number: 0,
            hints: Hints::default(),
            reply_bytes: None,
        }
    }

    /// Reads up to the end of a session, or of the log.
    fn read(&mut self, session: &mut Session) -> Result<(), Fault> {
        while self.next_line()? {
            match self.line.first() {
                Some(b'#') => self.comment(session),
                _ if self.line.iter().all(|&b| is_space(b)) => {
                    if !session.is_empty() {
                        break;
                    }
                }
                _ => {
                    let mut line = core::mem::take(&mut self.line);
                    let read = self.request(&mut line, session);
                    self.line = line;
                    read?;
                }
            }
        }
        Ok(())
    }

    fn next_line(&mut self) -> Result<bool, Fault> {
        self.line.clear();
        self.number += 1;
        let mut limited = io::Read::take(&mut self.input, LINE_BYTES_MAX as u64 + 1);
        let read = limited.read_until(b'\n', &mut self.line).at(&self.path)?;
        if read > LINE_BYTES_MAX {
            return Err(self.wrong(format!("a line of more than {LINE_BYTES_MAX} bytes")));
        }
        Ok(read > 0)
    }

    fn wrong(&self, what: impl Into<String>) -> Fault {
        Fault::format(&self.path, self.number, what)
    }

    /// Our extensions. What we do not know is a comment, as all of it is to httperf. Hints in the
    /// middle of a session belong to the next one: the line before it.
    fn comment(&mut self, session: &mut Session) {
        let Some(text) = self.line.strip_prefix(b"#!") else { return };
        let Ok(text) = core::str::from_utf8(text) else { return };
        let hints = if session.is_empty() { &mut session.hints } else { &mut self.hints };
        for word in text.split_ascii_whitespace() {
            match word.split_once('=') {
                Some(("at", value)) => hints.at_us = micros(value),
                Some(("line", value)) => hints.line_bits_per_s = value.parse().ok(),
                Some(("client", value)) => hints.client = value.parse().ok(),
                Some(("bytes", value)) => self.reply_bytes = value.parse().ok(),
                _ => {}
            }
        }
    }

    fn request(&mut self, line: &mut Vec<u8>, session: &mut Session) -> Result<(), Fault> {
        let starts_burst = !is_space(line[0]);
        let mut at = skip_space(line, 0);
        let target = at..word_end(line, at);
        at = target.end;
        let target = core::str::from_utf8(&line[target]).map(str::to_owned);
        let target = target.map_err(|_| self.wrong("a target that is not UTF-8"))?;
        let (mut method, mut think_us, mut contents) = (Method::Get, None, Vec::new());
        loop {
            at = skip_space(line, at);
            if at == line.len() {
                break;
            }
            let end = word_end(line, at);
            let word = String::from_utf8_lossy(&line[at..end]).into_owned();
            match word.split_once('=') {
                Some(("method", name)) => {
                    method = Method::from_text(name.as_bytes());
                    // httperf knows the others [src].
                    if matches!(method, Method::Connect | Method::Patch | Method::Other) {
                        return Err(self.wrong(format!("method {name:?} is not known")));
                    }
                    at = end;
                }
                Some(("think", value)) => {
                    let wrong = || self.wrong(format!("think={value}: not seconds"));
                    think_us = Some(micros(value).ok_or_else(wrong)?);
                    at = end;
                }
                Some(("contents", _)) => {
                    contents.clear();
                    at = self.contents(line, at + "contents=".len(), &mut contents)?;
                }
                _ => return Err(self.wrong(format!("{word:?} is not method, think or contents"))),
            }
        }
        let bytes = session.text_bytes + target.len() + contents.len();
        if session.len() >= REQUESTS_MAX || bytes > SESSION_BYTES_MAX {
            return Err(self.wrong("a session that is too long"));
        }
        let (target, contents, reply_bytes) = (&*target, &*contents, self.reply_bytes.take());
        session.push(Request { method, target, contents, reply_bytes }, starts_burst);
        if let Some(think_us) = think_us {
            session.think(think_us);
        }
        Ok(())
    }

    /// A request body from `at` on: quoted with either quote or bare, with backslash escapes; a
    /// backslash before the end of a line continues on the next. Answers where it ends.
    fn contents(
        &mut self,
        line: &mut Vec<u8>,
        mut at: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, Fault> {
        let mut quote = None;
        while let Some(&byte) = line.get(at) {
            at += 1;
            match byte {
                b'\\' => {
                    let Some(&escaped) = line.get(at) else { break };
                    at += 1;
                    out.push(match escaped {
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        other => other,
                    });
                    if escaped == b'\n' {
                        if !self.next_line()? {
                            return Err(self.wrong("the log ends inside contents"));
                        }
                        core::mem::swap(line, &mut self.line);
                        at = 0;
                    }
                }
                _ if quote == Some(byte) => quote = None,
                b'"' | b'\'' if quote.is_none() => quote = Some(byte),
                _ if quote.is_none() && is_space(byte) => return Ok(at - 1),
                _ => out.push(byte),
            }
            if out.len() > SESSION_BYTES_MAX {
                return Err(self.wrong("contents that are too long"));
            }
        }
        quote.map_or(Ok(line.len()), |_| Err(self.wrong("a quote that is not closed")))
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Session, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let hints = core::mem::take(&mut self.hints);
        let mut session = Session { hints, ..Session::default() };
        match self.read(&mut session) {
            Ok(()) => (!session.is_empty()).then_some(Ok(session)),
            Err(fault) => Some(Err(fault)),
        }
    }
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn skip_space(line: &[u8], at: usize) -> usize {
    at + line[at..].iter().take_while(|&&b| is_space(b)).count()
}

fn word_end(line: &[u8], at: usize) -> usize {
    at + line[at..].iter().take_while(|&&b| !is_space(b)).count()
}

/// Seconds in decimal as microseconds; `None` for negatives, other text and more than 10^9 s.
fn micros(seconds: &str) -> Option<u64> {
    let value: f64 = seconds.parse().ok()?;
    let us = value * US_PER_S as f64;
    (0.0..=1e15).contains(&us).then(|| crate::number::rounded(us))
}

/// Writes a session in the format that [`Reader`] and httperf read, with the empty line after it.
///
/// Targets must not be empty or contain white space: those of this crate are
/// percent-encoded.
pub fn write(session: &Session, out: &mut dyn Write) -> io::Result<()> {
    let Hints { at_us, line_bits_per_s, client } = session.hints;
    if session.hints != Hints::default() {
        out.write_all(b"#!")?;
        if let Some(us) = at_us {
            write!(out, " at={}", seconds(us))?;
        }
        if let Some(line) = line_bits_per_s {
            write!(out, " line={line}")?;
        }
        if let Some(client) = client {
            write!(out, " client={client}")?;
        }
        out.write_all(b"\n")?;
    }
    for burst in session.bursts() {
        for (place, request) in burst.requests().enumerate() {
            write_request(&request, (place == 0).then(|| burst.think_us()).flatten(), place, out)?;
        }
    }
    out.write_all(b"\n")
}

fn write_request(
    request: &Request<'_>,
    think_us: Option<u64>,
    place: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    if let Some(bytes) = request.reply_bytes {
        writeln!(out, "#! bytes={bytes}")?;
    }
    // A first target that starts with `#` can only have been read behind white space.
    if place > 0 || request.target.starts_with('#') {
        out.write_all(b"\t")?;
    }
    out.write_all(request.target.as_bytes())?;
    if request.method != Method::Get {
        write!(out, " method={}", request.method.name())?;
    }
    if let Some(us) = think_us {
        write!(out, " think={}", seconds(us))?;
    }
    if !request.contents.is_empty() {
        out.write_all(b" contents=\"")?;
        for &byte in request.contents {
            match byte {
                b'\n' => out.write_all(b"\\n")?,
                b'\r' => out.write_all(b"\\r")?,
                b'\t' => out.write_all(b"\\t")?,
                b'"' | b'\\' => out.write_all(&[b'\\', byte])?,
                _ => out.write_all(&[byte])?,
            }
        }
        out.write_all(b"\"")?;
    }
    out.write_all(b"\n")
}

fn seconds(us: u64) -> f64 {
    us as f64 / US_PER_S as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &[u8]) -> Result<Vec<Session>, Fault> {
        Reader::new(text, Path::new("log")).collect()
    }

    /// A session in one line: `METHOD target "body" ~think` with ` + ` between the requests of a
    /// burst and ` | ` between bursts.
    fn shown(session: &Session) -> String {
        let bursts = session.bursts().map(|burst| {
            let requests = burst.requests().map(|r| {
                let body = String::from_utf8_lossy(r.contents).into_owned();
                let body = if body.is_empty() { body } else { format!(" {body:?}") };
                let bytes = r.reply_bytes.map(|b| format!(" ={b}")).unwrap_or_default();
                format!("{} {}{body}{bytes}", r.method.name(), r.target)
            });
            let think = burst.think_us().map(|us| format!(" ~{us}")).unwrap_or_default();
            requests.collect::<Vec<_>>().join(" + ") + &think
        });
        let Hints { at_us, line_bits_per_s, client } = session.hints;
        let hints = [("at", at_us), ("line", line_bits_per_s), ("client", client)];
        let hints = hints.iter().filter_map(|(k, v)| v.map(|v| format!("{k}={v} ")));
        hints.collect::<String>() + &bursts.collect::<Vec<_>>().join(" | ")
    }

    /// Parses, compares, writes, parses again: the same sessions.
    fn check(log: &str, expected: &[&str]) {
        let sessions = read_all(log.as_bytes()).unwrap();
        assert_eq!(sessions.iter().map(shown).collect::<Vec<_>>(), expected, "{log}");
        let mut text = Vec::new();
        for session in &sessions {
            write(session, &mut text).unwrap();
        }
        assert_eq!(read_all(&text).unwrap(), sessions, "{}", String::from_utf8_lossy(&text));
        let mut again = Vec::new();
        for session in &read_all(&text).unwrap() {
            write(session, &mut again).unwrap();
        }
        assert_eq!(again, text);
    }

    /// The example of httperf(1), as its comments describe it.
    const MANUAL: &str = "\
# Comment lines start with a ``#'' as the first
# character.

# session 1 definition (this is a comment)
/foo.html think=2.0
	/pict1.gif
	/pict2.gif
/foo2.html method=POST contents='Post data'
	/pict3.gif
	/pict4.gif

# session 2 definition
/foo3.html method=POST contents=\"Multiline\\ndata\"
/foo4.html method=HEAD
";

    #[test]
    fn logs_are_read_as_httperf_reads_them() {
        check(
            MANUAL,
            &[
                "GET /foo.html + GET /pict1.gif + GET /pict2.gif ~2000000 | \
                 POST /foo2.html \"Post data\" + GET /pict3.gif + GET /pict4.gif",
                "POST /foo3.html \"Multiline\\ndata\" | HEAD /foo4.html",
            ],
        );
        check("", &[]);
        check("\n \n\t\n# only\n\n", &[]);
        check("/a", &["GET /a"]);
        check("/a\r\n\r\n/b\r\n", &["GET /a", "GET /b"]);
        check("\n\n/a think=0.343\n\n\n\n/b\n\n", &["GET /a ~343000", "GET /b"]);
        check("\t/a\n /b\n", &["GET /a + GET /b"]);
        check(" #a\n\t#b\n", &["GET #a + GET #b"]);
        check("/a\n\t/b think=3\n/c\n", &["GET /a + GET /b ~3000000 | GET /c"]);
        check("/a#b think=1e-3\n", &["GET /a#b ~1000"]);
        check("/a contents=bare method=PUT\n", &["PUT /a \"bare\""]);
        check("/a contents=\"it's\"' \"q\" '\\\"\\\\\n", &["GET /a \"it's \\\"q\\\" \\\"\\\\\""]);
        check("/a contents=\"x\\\ny\\tz\" think=1\n", &["GET /a \"x\\ny\\tz\" ~1000000"]);
        check(
            "#! at=1.5 line=400000 client=7\n/a\n#! bytes=512\n/b\n\n#! at=2 new=1\n/c\n",
            &["at=1500000 line=400000 client=7 GET /a | GET /b =512", "at=2000000 GET /c"],
        );
    }

    #[test]
    fn bad_logs_are_refused_with_the_line() {
        let long = format!("/{}", "x".repeat(LINE_BYTES_MAX));
        for (log, line, what) in [
            ("/a\n/b think=x\n", 2, "think=x"),
            ("/a think=-1\n", 1, "think=-1"),
            ("/a think=1e99\n", 1, "not seconds"),
            ("/a method=BREW\n", 1, "BREW"),
            ("/a method=PATCH\n", 1, "PATCH"),
            ("/a\n\n/b colour=red\n", 3, "colour"),
            ("/a contents='x\n", 1, "not closed"),
            ("/a contents='x\\\n", 2, "ends inside"),
            (&long, 1, "more than"),
        ] {
            let error = read_all(log.as_bytes()).unwrap_err();
            let Fault::Format { line: found, what: ref said, .. } = error else {
                panic!("{error}")
            };
            assert_eq!(found, line, "{log}");
            assert!(said.contains(what), "{said}");
        }
        assert!(read_all(b"/\xff\n").is_err());
    }

    #[test]
    fn think_times_between_bursts_add_up() {
        let sessions = read_all(b"/a think=1\n\t/b\n/c think=2\n/d think=4\n").unwrap();
        assert_eq!(sessions[0].think_total_us(), 3 * US_PER_S);
    }
}
