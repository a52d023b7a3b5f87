//! A client of explicit bytes with a strict reader: any doubt about an answer fails the test.

use crate::harness::{PATIENCE, Server};
use crate::identity::{NAME, identity};
use crate::runner::report;
use crate::site::{SIZES, sized};
use regatta_testkit::tls::{TlsStream, Wire};
use std::fmt::{Debug, Formatter};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::{fd::OwnedFd, unix::net::UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A field's name and value.
pub(crate) type Field<'a> = (&'a str, &'a str);

/// A request with a `Host` and these fields.
pub(crate) fn request(method: &str, target: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut text = format!("{method} {target} HTTP/1.1\r\nHost: regatta.test\r\n");
    for (name, value) in fields {
        text += &format!("{name}: {value}\r\n");
    }
    (text + "\r\n").into_bytes()
}

/// A GET without further fields.
pub(crate) fn get(target: &str) -> Vec<u8> {
    request("GET", target, &[])
}

/// A final response, with the interim ones before it.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The reader leaves a head no other freedom: this and `fields` are all of its bytes.
    pub(crate) reason: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) interim: Vec<u16>,
}

impl Answer {
    /// Value of a field if it is present. The reader has checked that it occurs once.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut named = self.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.as_str())
    }

    /// Value of a required field.
    pub(crate) fn must(&self, name: &str) -> &str {
        self.field(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// Fails unless the answer has this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Fails unless the answer has this content.
    #[track_caller]
    pub(crate) fn has(self, body: &[u8]) -> Self {
        assert!(self.body == body, "{self:?}, not {} bytes: {}", body.len(), start_of(body));
        self
    }

    /// Fails unless the status is one of these.
    #[track_caller]
    pub(crate) fn expect_one_of(self, statuses: &[u16]) -> Self {
        assert!(statuses.contains(&self.status), "none of {statuses:?}: {self:?}");
        self
    }

    /// Whether the server says that it closes the connection after this answer.
    pub(crate) fn closes(&self) -> bool {
        self.lists("Connection", "close")
    }

    /// Whether a list field names this member, letter case aside.
    pub(crate) fn lists(&self, name: &str, member: &str) -> bool {
        let value = self.field(name).unwrap_or_default();
        value.split(',').any(|part| part.trim().eq_ignore_ascii_case(member))
    }

    /// The content as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The head, the length of the body and its start.
impl Debug for Answer {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { status, fields, body, interim, .. } = self;
        let (len, start) = (body.len(), start_of(body));
        write!(f, "{status} {fields:?} after {interim:?}, {len} bytes: {start}")
    }
}

/// The first bytes, for messages.
fn start_of(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(200)].escape_ascii().to_string()
}

/// Address of a server, and whether clients use TLS there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) is_tls: bool,
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self { address, is_tls: false }
    }
}

/// A connection of a client.
#[derive(Debug)]
pub(crate) struct Client {
    stream: Wire,
    opened: SystemTime,
    /// Received and unread bytes.
    unread: Vec<u8>,
    /// Server that runs as long as this connection is there.
    _server: Option<Arc<Server>>,
}

impl Client {
    /// Connects in the clear; every later wait has a limit.
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::connect_to(address.into())
    }

    /// Connects as clients of this address do. The first bytes in either direction begin the
    /// handshake of TLS.
    pub(crate) fn connect_to(to: Endpoint) -> Self {
        let socket = TcpStream::connect_timeout(&to.address, PATIENCE).expect("connects");
        Self::from_tcp(socket, to)
    }

    /// Connects with a small receive buffer, so that the server soon has to wait for us.
    pub(crate) fn connect_narrow(to: Endpoint) -> Self {
        use rustix::net::{connect, sockopt};
        let socket = socket();
        sockopt::set_socket_recv_buffer_size(&socket, 16 << 10).expect("a size");
        connect(&socket, &to.address).expect("connects");
        Self::from_tcp(socket.into(), to)
    }

    /// Connects from this address of our own.
    pub(crate) fn connect_from(own: Ipv4Addr, to: Endpoint) -> Self {
        use rustix::net::{bind, connect};
        let socket = socket();
        bind(&socket, &SocketAddr::from((own, 0))).expect("all of 127.0.0.0/8 is ours");
        connect(&socket, &to.address).expect("connects");
        Self::from_tcp(socket.into(), to)
    }

    /// Connects to a Unix socket: every kind of socket has the operations used below.
    pub(crate) fn connect_to_path(path: &Path) -> Self {
        let stream = UnixStream::connect(path).expect("connects");
        Self::within(Wire::Clear(OwnedFd::from(stream).into()))
    }

    fn from_tcp(socket: TcpStream, to: Endpoint) -> Self {
        socket.set_nodelay(true).expect("TCP");
        if to.is_tls {
            return Self::sealed(identity().client.connect(socket, NAME));
        }
        Self::within(Wire::Clear(socket))
    }

    /// A connection whose socket and settings of TLS the test has chosen.
    pub(crate) fn sealed(stream: TlsStream) -> Self {
        Self::within(Wire::Tls(stream))
    }

    fn within(stream: Wire) -> Self {
        let socket = stream.socket();
        socket.set_read_timeout(Some(PATIENCE)).expect("a time");
        socket.set_write_timeout(Some(PATIENCE)).expect("a time");
        Self { stream, opened: SystemTime::now(), unread: Vec::new(), _server: None }
    }

    /// Keeps a server running as long as this connection is there.
    pub(crate) fn keeping(self, server: Arc<Server>) -> Self {
        Self { _server: Some(server), ..self }
    }

    /// Sends these bytes.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the server takes the bytes");
    }

    /// Sends these bytes as far as the server takes them; true if it took them all.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends these bytes again and again: 4 MiB, or as many as the server takes.
    pub(crate) fn flood(&mut self, bytes: impl AsRef<[u8]>) {
        let mut sent = 0;
        while sent < 4 << 20 && self.try_send(&bytes) {
            sent += bytes.as_ref().len();
        }
    }

    /// Ends our direction of the connection.
    pub(crate) fn half_close(&mut self) {
        self.stream.close_sending().expect("connected");
    }

    /// Ends our direction of the connection, if it is still open.
    pub(crate) fn send_nothing_more(&mut self) {
        let _ = self.stream.close_sending();
    }

    /// Ends the connection with a reset.
    pub(crate) fn abort(self) {
        let none = Some(Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(self.socket(), none).expect("TCP");
        self.stream.forget();
    }

    /// A second handle on the same connection that only sends.
    pub(crate) fn sender(&self) -> Box<dyn Write + Send> {
        match &self.stream {
            Wire::Clear(socket) => Box::new(socket.try_clone().expect("a descriptor")),
            Wire::Tls(stream) => {
                stream.shake_hands().expect("a handshake");
                Box::new(stream.sender())
            }
        }
    }

    /// The socket of the connection.
    pub(crate) fn socket(&self) -> &TcpStream {
        self.stream.socket()
    }

    /// Reads until the connection has ended. Returns the bytes before, and whether the end was in
    /// order.
    pub(crate) fn rest_and_end(&mut self) -> (Vec<u8>, bool) {
        let mut rest = Vec::new();
        let in_order = self.read_all(|piece| rest.extend_from_slice(piece));
        (rest, in_order)
    }

    /// Reads until the connection has ended. Returns whether the end was in order.
    fn read_all(&mut self, mut take: impl FnMut(&[u8])) -> bool {
        take(&std::mem::take(&mut self.unread));
        let mut piece = vec![0; 1 << 18];
        loop {
            match self.stream.read(&mut piece) {
                Ok(n) if n > 0 => take(&piece[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if timed_out(&e) => panic!("not ended"),
                end => return end.is_ok(),
            }
        }
    }

    /// Sends a request and reads its answer.
    pub(crate) fn ask(&mut self, method: &str, target: &str, fields: &[(&str, &str)]) -> Answer {
        self.send(request(method, target, fields));
        self.answer(method)
    }

    /// Asks for a target with GET.
    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.ask("GET", target, &[])
    }

    /// Gets a path this many times.
    #[track_caller]
    pub(crate) fn repeat(&mut self, count: u64, path: &str) {
        (0..count).for_each(|_| drop(self.get(path).expect(200)));
    }

    /// Reads one answer to a request of this method, interim ones included.
    pub(crate) fn answer(&mut self, method: &str) -> Answer {
        let mut interim = Vec::new();
        loop {
            let mut answer = self.head_only();
            if (100..200).contains(&answer.status) {
                assert_ne!(answer.status, 101, "nobody asked for an upgrade");
                assert!(answer.field("Content-Length").is_none(), "{answer:?}");
                interim.push(answer.status);
                continue;
            }
            answer.interim = interim;
            let len = body_len(method, &answer);
            answer.body = self.take(len);
            return answer;
        }
    }

    /// Reads the head of an answer and leaves its body.
    pub(crate) fn head_only(&mut self) -> Answer {
        read_head(&self.head(), self.opened)
    }

    /// Reads exactly `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Vec<u8> {
        while self.unread.len() < len {
            assert!(self.fill(), "ended after {} of {len} bytes", self.unread.len());
        }
        self.cut(len)
    }

    /// Reads until the server has closed in order; returns the bytes before.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while self.fill() {}
        std::mem::take(&mut self.unread)
    }

    /// Reads until the connection has ended in any way; returns the bytes before.
    pub(crate) fn rest_or_reset(&mut self) -> Vec<u8> {
        self.rest_and_end().0
    }

    /// Reads available bytes, at most `at_most`; none when the connection has ended.
    pub(crate) fn take_some(&mut self, at_most: usize) {
        let mut piece = vec![0; at_most];
        let _ = self.stream.read(&mut piece);
    }

    /// Fails unless the server closes in order and sends nothing more.
    #[track_caller]
    pub(crate) fn finish(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "after the last answer: {}", rest.escape_ascii());
    }

    /// Reads until the connection has ended in any way; returns the number of bytes.
    pub(crate) fn drain(&mut self) -> u64 {
        let mut count = 0;
        self.read_all(|piece| count += piece.len() as u64);
        count
    }

    /// Whether unread bytes have arrived.
    pub(crate) fn has_bytes(&self) -> bool {
        self.stream.is_readable() || !self.unread.is_empty()
    }

    /// Whether the server stays silent, and the connection open, for this long.
    pub(crate) fn silent_for(&mut self, time: Duration) -> bool {
        if !self.unread.is_empty() {
            return false;
        }
        self.socket().set_read_timeout(Some(time)).expect("a time");
        let result = loop {
            match self.stream.read(&mut [0; 1]) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.socket().set_read_timeout(Some(PATIENCE)).expect("a time");
        let silent = result.as_ref().is_err_and(timed_out);
        if !silent {
            report(&format!("not silent for {time:?}: {result:?}\n"));
        }
        silent
    }

    fn head(&mut self) -> Vec<u8> {
        loop {
            if let Some(at) = self.unread.windows(4).position(|w| w == b"\r\n\r\n") {
                return self.cut(at + 4);
            }
            assert!(self.unread.len() < 64 << 10, "an answer's head without end");
            assert!(self.fill(), "ended within a head: {}", self.unread.escape_ascii());
        }
    }

    /// Takes the first bytes of those received.
    fn cut(&mut self, len: usize) -> Vec<u8> {
        let rest = self.unread.split_off(len);
        std::mem::replace(&mut self.unread, rest)
    }

    /// Receives bytes; false at the end of the stream.
    fn fill(&mut self) -> bool {
        let mut piece = [0; 64 << 10];
        loop {
            match self.stream.read(&mut piece) {
                Ok(n) => {
                    self.unread.extend_from_slice(&piece[..n]);
                    return n > 0;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    panic!("{e}; unread: {} bytes {}", self.unread.len(), start_of(&self.unread))
                }
            }
        }
    }
}

/// A socket that servers which other tests start meanwhile do not inherit.
fn socket() -> OwnedFd {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("a socket")
}

/// Makes all clients send these bytes.
pub(crate) fn send_all(clients: &mut [Client], bytes: impl AsRef<[u8]>) {
    clients.iter_mut().for_each(|client| client.send(&bytes));
}

/// Reads an answer to a GET from each client.
#[track_caller]
pub(crate) fn answer_all(clients: &mut [Client], status: u16) {
    for client in clients {
        client.answer("GET").expect(status);
    }
}

/// Reads an answer to a GET from each client, and checks its content.
#[track_caller]
pub(crate) fn bodies_are(clients: &mut [Client], body: &[u8]) {
    for client in clients {
        client.answer("GET").expect(200).has(body);
    }
}

/// Makes one client after another ask for a path and read the answer.
#[track_caller]
pub(crate) fn get_all(clients: &mut [Client], path: &str) {
    for client in clients {
        client.get(path).expect(200);
    }
}

/// Makes client N ask for `/N.bin`.
pub(crate) fn send_numbered(clients: &mut [Client]) {
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(get(&format!("/{number}.bin")));
    }
}

/// Gets the file of every size, and checks its bytes.
#[track_caller]
pub(crate) fn get_sizes(client: &mut Client) {
    for size in SIZES {
        client.get(&format!("/size-{size}.bin")).expect(200).has(sized(size));
    }
}

/// Makes all clients ask for a path at once, and reads all answers.
#[track_caller]
pub(crate) fn burst(clients: &mut [Client], path: &str) {
    send_all(clients, get(path));
    answer_all(clients, 200);
}

/// Asks for a target over a connection that may break. Returns head and body, and whether the end
/// was in order; nothing without a whole head.
pub(crate) fn try_get(
    mut stream: impl Read + Write,
    target: &str,
    field: Field<'_>,
) -> Option<(String, Vec<u8>, bool)> {
    let mut head = Vec::new();
    let asked = stream.write_all(&request("GET", target, &[field]));
    let ended = asked.and_then(|()| stream.read_to_end(&mut head)).is_ok();
    let len = head.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let body = head.split_off(len);
    Some((String::from_utf8_lossy(&head).into_owned(), body, ended))
}

fn timed_out(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Reads a head strictly: RFC 9112 §4 and §5, RFC 9110 §5, with no leniency.
fn read_head(bytes: &[u8], opened: SystemTime) -> Answer {
    let clean = |b: &u8| matches!(b, b' '..=b'~' | b'\r' | b'\n');
    assert!(bytes.iter().all(clean), "odd bytes in a head: {}", bytes.escape_ascii());
    let text = std::str::from_utf8(bytes).expect("ASCII");
    let mut lines = text.strip_suffix("\r\n\r\n").expect("a whole head").split("\r\n");
    let (status, reason) = read_status(lines.next().expect("a first line"));
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in lines {
        assert!(!line.contains(['\r', '\n']), "a bare CR or LF in {line:?}");
        let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("field {line:?}"));
        assert!(!name.is_empty() && name.bytes().all(is_token), "name {name:?}");
        assert_eq!(value, value.trim(), "space around the value of {name}");
        let again = fields.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        assert!(!again, "{name} twice in {text:?}");
        fields.push((name.to_owned(), value.to_owned()));
    }
    let answer = Answer { status, reason, fields, body: Vec::new(), interim: Vec::new() };
    check_fields(&answer, opened);
    answer
}

fn read_status(line: &str) -> (u16, String) {
    let rest = line.strip_prefix("HTTP/1.1 ").unwrap_or_else(|| panic!("status line {line:?}"));
    let (code, reason) = rest.split_once(' ').unwrap_or_else(|| panic!("status line {line:?}"));
    assert!(code.len() == 3 && code.bytes().all(|b| b.is_ascii_digit()), "{line:?}");
    assert!(!reason.is_empty(), "no reason in {line:?}");
    (code.parse().expect("three digits"), reason.to_owned())
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Checks properties of all our answers, on a connection opened at `opened`.
fn check_fields(answer: &Answer, opened: SystemTime) {
    assert!(answer.field("Transfer-Encoding").is_none(), "a length is known: {answer:?}");
    if (200..500).contains(&answer.status) {
        // RFC 9110 §6.6.1: a Date in all of them.
        let date = httpdate::parse_http_date(answer.must("Date")).expect("a date");
        assert_eq!(httpdate::fmt_http_date(date), answer.must("Date"), "IMF-fixdate");
        // A client may read late, and a crowded server may use the time of a round's beginning.
        let range = seconds(opened - PATIENCE)..=seconds(SystemTime::now()) + 1;
        let date = seconds(date);
        assert!(range.contains(&date), "Date is {date}, not within {range:?}");
    }
    match answer.status {
        // RFC 9110 §15.5.6, §15.4.
        405 => assert!(answer.field("Allow").is_some(), "{answer:?}"),
        301 | 302 | 303 | 307 | 308 => assert!(answer.field("Location").is_some(), "{answer:?}"),
        204 => assert!(answer.field("Content-Length").is_none(), "{answer:?}"),
        206 => {
            let many = answer.must("Content-Type").starts_with("multipart/byteranges");
            assert_eq!(many, answer.field("Content-Range").is_none(), "{answer:?}");
        }
        200 | 304 | 404 => assert!(answer.field("Content-Range").is_none(), "{answer:?}"),
        _ => {}
    }
}

/// Seconds since the epoch.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// RFC 9112 §6.3, for a server that always knows its lengths.
fn body_len(method: &str, answer: &Answer) -> usize {
    let len = answer.field("Content-Length").map(|value| {
        assert!(value.bytes().all(|b| b.is_ascii_digit()), "{answer:?}");
        value.parse::<usize>().expect("a length")
    });
    if method == "HEAD" || matches!(answer.status, 204 | 304) {
        return 0;
    }
    len.unwrap_or_else(|| panic!("no Content-Length: {answer:?}"))
}
