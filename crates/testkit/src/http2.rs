//! A strict client of HTTP/2 (RFC 9113) over a socket or over TLS, with frames of its own.
//!
//! The client fails the test if the server breaks a rule: of frames and their order, of windows, of
//! fields (RFC 9113 §8.2), of lengths, or of acknowledgements. It shares no code with the server.
//!
//! Sends ignore that the connection has ended. The next read finds out.

mod fields;
mod frame;
mod receive;
#[cfg(test)]
mod tests;

pub use fields::FieldLine;
pub use frame::{
    ACK, END_HEADERS, END_STREAM, PADDED, WITH_PRIORITY, code, frame_bytes, kind, setting,
};

use crate::tls::{TlsStream, Wire};
use fields::{FieldDecoder, write_literals};
use frame::{TAIL_FRAMES, number};
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

/// First bytes of a client (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Window of a connection, and of a stream unless a setting changes it.
pub const WINDOW: u32 = 65_535;
/// Largest window (RFC 9113 §6.9.1).
pub const WINDOW_MAX: u32 = (1 << 31) - 1;
/// Longest payload of a frame, unless a setting permits more.
pub const FRAME_BYTES: usize = 16 << 10;
/// Bytes of the decoder's table, unless a setting changes it.
const TABLE_BYTES: usize = 4096;

/// Settings of a client.
#[derive(Clone, Copy, Debug)]
pub struct Http2Settings {
    /// Window of each new stream.
    pub stream_window: u32,
    /// Window of the connection: at least [`WINDOW`].
    pub connection_window: u32,
    /// Whether the client opens windows again by the bytes that it has received.
    pub opens_windows: bool,
    /// Longest wait for a frame.
    pub patience: Duration,
}

impl Default for Http2Settings {
    fn default() -> Self {
        let (stream_window, connection_window) = (WINDOW, WINDOW);
        let patience = Duration::from_secs(30);
        Self { stream_window, connection_window, opens_windows: true, patience }
    }
}

/// A whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http2Answer {
    /// Status of the final head.
    pub status: u16,
    /// Fields of the final head, without `:status`.
    pub fields: Vec<FieldLine>,
    /// Content.
    pub body: Vec<u8>,
    /// Statuses of the heads before the final one.
    pub interim: Vec<u16>,
}

/// End of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamOutcome {
    /// The response is whole. The server may have stopped the request by NO_ERROR.
    Answered(Http2Answer),
    /// The server has reset the stream with this code.
    Reset(u32),
    /// GOAWAY excludes the stream, or the connection has ended before.
    Lost,
}

/// End of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2End {
    /// Code of the last GOAWAY, if there was one.
    pub goaway: Option<u32>,
    /// Whether the server has closed in order: without a reset, and over TLS with an alert.
    pub in_order: bool,
}

/// A GOAWAY frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoAway {
    /// Last stream that the server has answered or will answer.
    pub last: u32,
    /// Reason.
    pub code: u32,
}

/// Bytes that the server may send.
#[derive(Clone, Copy, Debug, Default)]
struct ReceiveWindow {
    received: u64,
    granted: u64,
    /// Received bytes for which the client has not opened the window again.
    unopened: u32,
}

/// A request of the client and its response.
#[derive(Debug, Default)]
struct ClientStream {
    /// Whether the request was whole when it was sent.
    is_whole: bool,
    /// Whether the response has no content, as that to `HEAD`.
    head_only: bool,
    status: Option<u16>,
    interim: Vec<u16>,
    fields: Vec<FieldLine>,
    body: Vec<u8>,
    /// Length that the response announces.
    length: Option<u64>,
    window: ReceiveWindow,
    /// Bytes of our content that the server permits, compared with its setting for new streams.
    granted: i64,
    /// Bytes of our content that were sent.
    sent: i64,
    /// Whether the server has ended its direction.
    has_ended: bool,
    /// Code with which the server has reset the stream.
    reset: Option<u32>,
    /// Whether the client has reset the stream.
    is_given_up: bool,
    /// Whether the client opens the window only when the test does.
    is_held: bool,
}

/// A connection of a client.
#[derive(Debug)]
pub struct Http2Client {
    wire: Wire,
    settings: Http2Settings,
    /// Received bytes of frames that are not whole.
    unread: Vec<u8>,
    decoder: FieldDecoder,
    streams: BTreeMap<u32, ClientStream>,
    next_id: u32,
    window: ReceiveWindow,
    /// Windows of new streams that the server may assume: the acknowledged one, and later ones.
    stream_windows: VecDeque<u32>,
    /// Settings of the server.
    server: BTreeMap<u16, u32>,
    /// Bytes of content that the server permits for all streams.
    sendable: i64,
    /// Whether the server's first SETTINGS have arrived.
    has_begun: bool,
    /// Stream and bytes of a field block that is not whole, and whether it ends the stream.
    block: Option<(u32, Vec<u8>, bool)>,
    pings_sent: u64,
    pongs: u64,
    goaway: Option<GoAway>,
    /// Set at the end of the connection: whether it was in order.
    end: Option<bool>,
    /// Empty DATA frames that have ended a stream with content.
    empty_ends: usize,
    /// The last frames received, for messages.
    tail: VecDeque<String>,
}

impl Http2Client {
    /// Begins a connection in the clear, by prior knowledge.
    ///
    /// # Panics
    /// The socket has no timeouts.
    #[must_use]
    pub fn begin(socket: TcpStream, settings: Http2Settings) -> Self {
        socket.set_nodelay(true).expect("TCP");
        Self::over(Wire::Clear(socket), settings)
    }

    /// Begins a connection over TLS, whose handshake must agree on `h2`.
    ///
    /// # Panics
    /// The handshake fails, or agrees on another protocol.
    #[must_use]
    pub fn begin_tls(stream: TlsStream, settings: Http2Settings) -> Self {
        stream.socket().set_read_timeout(Some(settings.patience)).expect("a time");
        stream.shake_hands().expect("a handshake");
        assert_eq!(stream.protocol().as_deref(), Some(&b"h2"[..]), "protocol of ALPN");
        Self::over(Wire::Tls(stream), settings)
    }

    fn over(wire: Wire, settings: Http2Settings) -> Self {
        wire.socket().set_read_timeout(Some(settings.patience)).expect("a time");
        wire.socket().set_write_timeout(Some(settings.patience)).expect("a time");
        let mut client = Self {
            wire,
            settings,
            unread: Vec::new(),
            decoder: FieldDecoder::new(TABLE_BYTES),
            streams: BTreeMap::new(),
            next_id: 1,
            window: ReceiveWindow::default(),
            stream_windows: VecDeque::from([WINDOW]),
            server: BTreeMap::new(),
            sendable: i64::from(WINDOW),
            has_begun: false,
            block: None,
            pings_sent: 0,
            pongs: 0,
            goaway: None,
            end: None,
            empty_ends: 0,
            tail: VecDeque::new(),
        };
        client.greet();
        client
    }

    /// Sends the preface and SETTINGS, and opens the window of the connection.
    fn greet(&mut self) {
        self.send_bytes(PREFACE);
        // Push is off in every client (RFC 9113 §8.4).
        let window = (setting::INITIAL_WINDOW_SIZE, self.settings.stream_window);
        self.change_settings(&[(setting::ENABLE_PUSH, 0), window]);
        let more = self.settings.connection_window.saturating_sub(WINDOW);
        if more > 0 {
            self.open_window(0, more);
        }
    }

    /// Sends bytes of the test's choice.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let _ = self.wire.write_all(bytes);
    }

    /// Sends a frame of the test's choice.
    pub fn send_frame(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) {
        self.send_bytes(&frame_bytes(kind, flags, id, payload));
    }

    /// Sends a GET, and returns its stream.
    pub fn get(&mut self, path: &str) -> u32 {
        self.ask("GET", path, &[])
    }

    /// Sends a request without content, and returns its stream.
    pub fn ask(&mut self, method: &str, path: &str, fields: &[(&str, &str)]) -> u32 {
        self.open(&self.request(method, path, fields), true)
    }

    /// Fields of a request: those of RFC 9113 §8.3.1 first.
    #[must_use]
    pub fn request<'a>(
        &self,
        method: &'a str,
        path: &'a str,
        fields: &[(&'a str, &'a str)],
    ) -> Vec<(&'a str, &'a str)> {
        let scheme = match self.wire {
            Wire::Clear(_) => "http",
            Wire::Tls(_) => "https",
        };
        let authority = (":authority", "regatta.test");
        let mut all = vec![(":method", method), (":scheme", scheme), authority, (":path", path)];
        all.extend_from_slice(fields);
        all
    }

    /// Sends the head of a request as these fields, and returns its stream.
    pub fn open(&mut self, fields: &[(&str, &str)], ends: bool) -> u32 {
        self.open_in_pieces(fields, ends, FRAME_BYTES)
    }

    /// The same, with at most this many bytes in HEADERS and in each CONTINUATION.
    pub fn open_in_pieces(&mut self, fields: &[(&str, &str)], ends: bool, piece: usize) -> u32 {
        let block = Self::encode(fields);
        let id = self.expect_stream(ends, fields.contains(&(":method", "HEAD")));
        self.send_block(id, &block, ends, piece);
        id
    }

    /// Sends a field block on a stream, with at most this many bytes in each frame.
    pub fn send_block(&mut self, id: u32, block: &[u8], ends: bool, piece: usize) {
        let pieces: Vec<&[u8]> = block.chunks(piece).collect();
        let mut bytes = Vec::new();
        for (at, piece) in pieces.iter().enumerate() {
            let last = if at + 1 == pieces.len() { END_HEADERS } else { 0 };
            let (kind, flags) = match at {
                0 if ends => (kind::HEADERS, last | END_STREAM),
                0 => (kind::HEADERS, last),
                _ => (kind::CONTINUATION, last),
            };
            bytes.extend(frame_bytes(kind, flags, id, piece));
        }
        self.send_bytes(&bytes);
    }

    /// Field block with these fields.
    #[must_use]
    pub fn encode(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        write_literals(fields, &mut block);
        block
    }

    /// Takes the next number of a stream, for a request whose frames the test sends.
    pub fn expect_stream(&mut self, is_whole: bool, head_only: bool) -> u32 {
        let id = self.next_id;
        self.next_id += 2;
        let stream = ClientStream { is_whole, head_only, ..ClientStream::default() };
        self.streams.insert(id, stream);
        id
    }

    /// Sends content as windows permit. False if the stream or the connection has ended before.
    pub fn send_content(&mut self, id: u32, content: &[u8], ends: bool) -> bool {
        let mut rest = content;
        loop {
            let stream = &self.streams[&id];
            if stream.reset.is_some() || self.end.is_some() {
                return false;
            }
            let permitted = self.sendable.min(self.initial_window() + stream.granted - stream.sent);
            let most = usize::try_from(permitted).unwrap_or(0).min(FRAME_BYTES);
            if most == 0 && !rest.is_empty() {
                self.read_frame();
                continue;
            }
            let (now, later) = rest.split_at(rest.len().min(most));
            let is_last = later.is_empty();
            self.send_data(id, now, is_last && ends);
            rest = later;
            if is_last {
                return true;
            }
        }
    }

    /// Sends a DATA frame, whatever windows permit.
    pub fn send_data(&mut self, id: u32, content: &[u8], ends: bool) {
        let len = i64::try_from(content.len()).expect("a frame");
        self.sendable -= len;
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.sent += len;
        }
        self.send_frame(kind::DATA, if ends { END_STREAM } else { 0 }, id, content);
    }

    /// The server's window for a new stream.
    fn initial_window(&self) -> i64 {
        i64::from(self.server.get(&setting::INITIAL_WINDOW_SIZE).copied().unwrap_or(WINDOW))
    }

    /// Resets a stream. Frames of the server that are on their way are ignored.
    pub fn reset(&mut self, id: u32, code: u32) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.is_given_up = true;
        }
        self.send_frame(kind::RST_STREAM, 0, id, &code.to_be_bytes());
    }

    /// Sends a priority (RFC 9218 §7.1), such as `u=1, i`.
    pub fn prioritize(&mut self, id: u32, priority: &str) {
        let payload = [&id.to_be_bytes()[..], priority.as_bytes()].concat();
        self.send_frame(kind::PRIORITY_UPDATE, 0, 0, &payload);
    }

    /// Sends SETTINGS. [`Self::sync`] waits until the server has acknowledged them.
    pub fn change_settings(&mut self, values: &[(u16, u32)]) {
        let mut payload = Vec::new();
        let mut window = *self.stream_windows.back().expect("never empty");
        for (id, value) in values {
            payload.extend(id.to_be_bytes());
            payload.extend(value.to_be_bytes());
            if *id == setting::INITIAL_WINDOW_SIZE {
                window = *value;
            }
            if *id == setting::HEADER_TABLE_SIZE {
                self.decoder.permit(number(*value));
            }
        }
        self.stream_windows.push_back(window);
        self.send_frame(kind::SETTINGS, 0, 0, &payload);
    }

    /// Opens a window by this many bytes: of a stream, or with 0 that of the connection.
    pub fn open_window(&mut self, id: u32, bytes: u32) {
        if id == 0 {
            self.window.granted += u64::from(bytes);
        } else if let Some(stream) = self.streams.get_mut(&id) {
            stream.window.granted += u64::from(bytes);
        }
        self.send_frame(kind::WINDOW_UPDATE, 0, id, &bytes.to_be_bytes());
    }

    /// From now on the test alone opens the window of this stream.
    pub fn hold(&mut self, id: u32) {
        self.streams.get_mut(&id).expect("a stream of the client").is_held = true;
    }

    /// Opens the window of a stream again by itself, beginning with this many bytes.
    pub fn release(&mut self, id: u32, bytes: u32) {
        let stream = self.streams.get_mut(&id).expect("a stream of the client");
        (stream.is_held, stream.window.unopened) = (false, 0);
        self.open_window(id, bytes);
    }

    /// Sends PING, and reads until its acknowledgement: the server has processed all frames before
    /// it. False if the connection has ended.
    pub fn sync(&mut self) -> bool {
        self.ping();
        self.read_until(|client| client.pongs == client.pings_sent)
    }

    /// Sends PING.
    pub fn ping(&mut self) {
        self.pings_sent += 1;
        self.send_frame(kind::PING, 0, 0, &self.pings_sent.to_be_bytes());
    }

    /// Reads frames that have arrived. True if the connection has ended, or GOAWAY announces that.
    pub fn read_arrived(&mut self) -> bool {
        let is_over = |client: &Self| client.end.is_some() || client.goaway.is_some();
        while !is_over(self) && (!self.unread.is_empty() || self.wire.is_readable()) {
            self.read_frame();
        }
        is_over(self)
    }

    /// Ends our direction of the connection.
    pub fn half_close(&mut self) {
        let _ = self.wire.close_sending();
    }

    /// Leaves the closing alert of TLS out when the connection is dropped.
    pub fn forget(&self) {
        self.wire.forget();
    }

    /// The socket of the connection.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        self.wire.socket()
    }

    /// Reads frames until something holds. False if the connection has ended before.
    pub fn read_until(&mut self, mut holds: impl FnMut(&Self) -> bool) -> bool {
        while !holds(self) {
            if !self.read_frame() {
                return holds(self);
            }
        }
        true
    }

    /// Reads until a stream has ended.
    pub fn outcome(&mut self, id: u32) -> StreamOutcome {
        self.read_until(|client| client.has_ended(id) || client.is_excluded(id));
        let stream = self.streams.get_mut(&id).expect("a stream of the client");
        match (stream.has_ended, stream.reset) {
            (true, None | Some(code::NO_ERROR)) => StreamOutcome::Answered(Http2Answer {
                status: stream.status.expect("the head comes first"),
                fields: stream.fields.clone(),
                body: std::mem::take(&mut stream.body),
                interim: stream.interim.clone(),
            }),
            (_, Some(code)) => StreamOutcome::Reset(code),
            (false, None) => StreamOutcome::Lost,
        }
    }

    /// Reads a whole response.
    ///
    /// # Panics
    /// The server resets the stream, or ends the connection.
    #[track_caller]
    pub fn answer(&mut self, id: u32) -> Http2Answer {
        match self.outcome(id) {
            StreamOutcome::Answered(answer) => answer,
            other => panic!("stream {id}: {other:?}, {:?}; {}", self.goaway, self.frames_before()),
        }
    }

    /// Whether the response of a stream is whole, or the server has reset the stream.
    #[must_use]
    pub fn has_ended(&self, id: u32) -> bool {
        self.streams.get(&id).is_some_and(|stream| stream.has_ended || stream.reset.is_some())
    }

    /// Whether GOAWAY excludes a stream.
    fn is_excluded(&self, id: u32) -> bool {
        self.goaway.is_some_and(|goaway| id > goaway.last)
    }

    /// Status of a stream, once its head has arrived.
    #[must_use]
    pub fn status(&self, id: u32) -> Option<u16> {
        self.streams.get(&id)?.status
    }

    /// Bytes of content that a stream has received.
    #[must_use]
    pub fn received(&self, id: u32) -> usize {
        self.streams.get(&id).map_or(0, |stream| stream.body.len())
    }

    /// The last GOAWAY.
    #[must_use]
    pub fn goaway(&self) -> Option<GoAway> {
        self.goaway
    }

    /// A setting of the server.
    #[must_use]
    pub fn server_setting(&self, id: u16) -> Option<u32> {
        self.server.get(&id).copied()
    }

    /// Number of empty DATA frames that have ended a stream with content.
    #[must_use]
    pub fn empty_ends(&self) -> usize {
        self.empty_ends
    }

    /// Reads until the connection has ended.
    pub fn read_end(&mut self) -> Http2End {
        while self.read_frame() {}
        let goaway = self.goaway.map(|goaway| goaway.code);
        Http2End { goaway, in_order: self.end.expect("no frame follows") }
    }

    /// Text about the last frames, for messages.
    #[must_use]
    pub fn frames_before(&self) -> String {
        let frames: Vec<&str> = self.tail.iter().map(String::as_str).collect();
        format!("the last {TAIL_FRAMES} frames: {}", frames.join(", "))
    }
}
