//! One request on a connection of its own, and its answer, within a limited time.
use regatta_http::{
    Method, Status,
    h1::{
        HeadFault, HeadLimits, Scan, end_head, parse_request, scan_head, write_date_field,
        write_decimal_field, write_field, write_status_line,
    },
    target::Target,
};
use regatta_sys::{clock, socket};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

/// The longest head, bytes.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// What a client may send behind its request, which nobody looks at, bytes.
const REST_BYTES_MAX: u64 = 64 << 10;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    /// The path, as it was sent.
    pub(super) path: &'a str,
    /// What follows its question mark; may be empty.
    pub(super) query: &'a str,
    /// `Accept`; may be empty.
    pub(super) accept: &'a str,
}

/// What is answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: Status,
    pub(super) content_type: &'static str,
    pub(super) body: String,
}

impl Answer {
    /// A text for people.
    pub(super) fn text(status: Status, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }

    /// A document for programs.
    pub(super) fn json(status: Status, body: String) -> Self {
        Self { status, content_type: "application/json", body }
    }
}

/// Reads one request from a socket and answers it; both together take no longer than `time_max`,
/// besides what `answer` takes.
pub(super) fn exchange(
    socket: OwnedFd,
    time_max: Duration,
    answer: impl FnOnce(&Asked<'_>) -> Answer,
) -> io::Result<()> {
    let mut stream = Timed { socket: File::from(socket), until: Instant::now() + time_max };
    let mut head = Vec::new();
    let reply = match read_head(&mut stream, &mut head)? {
        None => respond(&head, answer),
        Some(fault) => refuse(fault),
    };
    stream.write_all(&reply)?;
    socket::shutdown_write(stream.socket.as_fd())?;
    // A socket that is closed with unread bytes resets the connection, and the answer may be lost.
    io::copy(&mut stream.take(REST_BYTES_MAX), &mut io::sink())?;
    Ok(())
}

/// Reads a head; `Some` says why what has come is none.
fn read_head(stream: &mut impl Read, head: &mut Vec<u8>) -> io::Result<Option<HeadFault>> {
    let mut bytes = [0; 1024];
    loop {
        let seen = head.len();
        let count = stream.read(&mut bytes)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&bytes[..count]);
        match scan_head(head, seen) {
            Scan::End(length) if length <= HEAD_BYTES_MAX => {
                head.truncate(length);
                return Ok(None);
            }
            Scan::Bad => return Ok(Some(HeadFault::FieldLine)),
            Scan::Partial if head.len() < HEAD_BYTES_MAX => {}
            Scan::End(_) | Scan::Partial => return Ok(Some(HeadFault::HeadTooLarge)),
        }
    }
}

fn respond(head: &[u8], answer: impl FnOnce(&Asked<'_>) -> Answer) -> Vec<u8> {
    let limits = HeadLimits { head_bytes_max: HEAD_BYTES_MAX, ..HeadLimits::default() };
    let head = match parse_request(head, &limits) {
        Ok(head) => head,
        Err(fault) => return refuse(fault),
    };
    if !matches!(head.method, Method::Get | Method::Head) {
        let why = "GET and HEAD are all that is answered here; signals change the server\n";
        return encode(&Answer::text(Status::METHOD_NOT_ALLOWED, why), true);
    }
    let target = match head.names {
        Target::Path(target) => str::from_utf8(target).unwrap_or_default(),
        Target::Server | Target::Tunnel => "",
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let accept = head.fields.get("Accept").and_then(|value| str::from_utf8(value).ok());
    let asked = Asked { path, query, accept: accept.unwrap_or_default() };
    encode(&answer(&asked), head.method == Method::Get)
}

fn refuse(fault: HeadFault) -> Vec<u8> {
    encode(&Answer::text(fault.status(), format!("{}\n", fault.reason())), true)
}

fn encode(answer: &Answer, with_body: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(256 + answer.body.len());
    write_status_line(&mut out, answer.status);
    write_date_field(&mut out, "Date", i64::try_from(clock::now().unix).unwrap_or(0));
    write_field(&mut out, "Content-Type", answer.content_type.as_bytes());
    write_decimal_field(&mut out, "Content-Length", answer.body.len() as u64);
    write_field(&mut out, "Cache-Control", b"no-store");
    if answer.status == Status::METHOD_NOT_ALLOWED {
        write_field(&mut out, "Allow", b"GET, HEAD");
    }
    write_field(&mut out, "Connection", b"close");
    end_head(&mut out);
    if with_body {
        out.extend_from_slice(answer.body.as_bytes());
    }
    out
}

/// A blocking socket, until a time.
struct Timed {
    socket: File,
    until: Instant,
}

impl Timed {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // To the kernel 0 microseconds are for ever.
        Ok(Some(left.max(Duration::from_millis(1))))
    }
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        socket::set_timeouts(self.socket.as_fd(), self.left()?, None)?;
        self.socket.read(into)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        socket::set_timeouts(self.socket.as_fd(), None, self.left()?)?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
