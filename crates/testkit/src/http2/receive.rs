//! Frames of the server: each is checked, and changes the state of the client.

use super::fields::FieldLine;
use super::frame::{
    ACK, END_HEADERS, END_STREAM, Http2Frame, PADDED, TAIL_FRAMES, WITH_PRIORITY, first_number,
    kind, setting,
};
use super::{ClientStream, FRAME_BYTES, GoAway, Http2Client, ReceiveWindow, WINDOW, WINDOW_MAX};
use std::io::{ErrorKind, Read};

/// Fields of a connection, which no stream may have (RFC 9113 §8.2.2).
const OF_CONNECTIONS: [&str; 6] =
    ["connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];

impl ReceiveWindow {
    /// Counts received bytes; false if they are more than `initial` and later grants permit.
    fn take(&mut self, initial: u32, bytes: u32) -> bool {
        self.received += u64::from(bytes);
        self.unopened += bytes;
        // Below 0 a window permits empty frames.
        bytes == 0 || self.received <= u64::from(initial) + self.granted
    }
}

impl Http2Client {
    /// Reads a frame. False at the end of the connection.
    ///
    /// # Panics
    /// The server breaks a rule, or sends nothing for too long.
    pub fn read_frame(&mut self) -> bool {
        let mut piece = [0; 32 << 10];
        while self.end.is_none() {
            match Http2Frame::take(&mut self.unread, FRAME_BYTES) {
                Ok(Some(frame)) => {
                    self.process(&frame);
                    return true;
                }
                Ok(None) => {}
                Err(len) => self.fault(&format!("a frame of {len} bytes (§4.2)")),
            }
            match self.wire.read(&mut piece) {
                Ok(0) => {
                    let rest = self.unread.len();
                    self.require(rest == 0, "the connection ends within a frame");
                    self.end = Some(true);
                }
                Ok(len) => self.unread.extend_from_slice(&piece[..len]),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                        let patience = self.settings.patience;
                        self.fault(&format!("no frame within {patience:?}"));
                    }
                    ErrorKind::InvalidData => self.fault(&error.to_string()),
                    _ => self.end = Some(false),
                },
            }
        }
        false
    }

    /// Fails the test: the server breaks a rule.
    fn fault(&self, what: &str) -> ! {
        panic!("{what}; {}", self.frames_before());
    }

    fn require(&self, holds: bool, what: &str) {
        if !holds {
            self.fault(what);
        }
    }

    fn process(&mut self, frame: &Http2Frame) {
        if self.tail.len() == TAIL_FRAMES {
            self.tail.pop_front();
        }
        self.tail.push_back(frame.describe());
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let is_settings = frame.kind == kind::SETTINGS && !frame.has(ACK);
        self.require(!is_first || is_settings, "the first frame is not SETTINGS (§3.4)");
        self.require(frame.flags & !frame.known_flags() == 0, "unknown flags (§4.1)");
        self.require(frame.id <= WINDOW_MAX, "the reserved bit is set (§4.1)");
        if let Some((id, ..)) = &self.block {
            let continues = frame.kind == kind::CONTINUATION && frame.id == *id;
            self.require(continues, "a frame within a field block (§6.10)");
        }
        match frame.kind {
            kind::DATA => self.on_data(frame),
            kind::HEADERS => self.on_headers(frame),
            kind::CONTINUATION => self.on_continuation(frame),
            kind::RST_STREAM => self.on_reset(frame),
            kind::WINDOW_UPDATE => self.on_window(frame),
            kind::SETTINGS => self.on_settings(frame),
            kind::PING => self.on_ping(frame),
            kind::GOAWAY => self.on_goaway(frame),
            kind => self.fault(&format!("a frame of type {kind}, which no server here sends")),
        }
    }

    /// The payload without padding.
    fn unpadded<'f>(&self, frame: &'f Http2Frame) -> &'f [u8] {
        if !frame.has(PADDED) {
            return &frame.payload;
        }
        let Some((padding, rest)) = frame.payload.split_first() else {
            self.fault("padding without its length (§6.1)");
        };
        let Some(len) = rest.len().checked_sub(usize::from(*padding)) else {
            self.fault("more padding than payload (§6.1)");
        };
        self.require(rest[len..].iter().all(|byte| *byte == 0), "padding is not zero (§6.1)");
        &rest[..len]
    }

    /// The stream of a frame, unless the client has given it up.
    fn stream_of(&mut self, frame: &Http2Frame) -> Option<&mut ClientStream> {
        let Some(stream) = self.streams.get(&frame.id) else {
            self.fault("a frame for a stream that the client has not opened (§5.1)");
        };
        if stream.is_given_up {
            return None;
        }
        self.require(stream.reset.is_none(), "a frame after RST_STREAM (§5.1)");
        self.require(!stream.has_ended, "a frame after END_STREAM (§5.1)");
        self.streams.get_mut(&frame.id)
    }

    fn on_data(&mut self, frame: &Http2Frame) {
        let content = self.unpadded(frame);
        let bytes = u32::try_from(frame.payload.len()).expect("a frame");
        let fits = self.window.take(WINDOW, bytes);
        self.require(fits, "more bytes than the connection's window (§6.9)");
        // Until an acknowledgement the server may use any of the settings.
        let initial = self.stream_windows.iter().copied().max().expect("never empty");
        let Some(stream) = self.stream_of(frame) else {
            self.reopen(frame.id);
            return;
        };
        let fits = stream.window.take(initial, bytes);
        let has_head = stream.status.is_some();
        stream.body.extend_from_slice(content);
        let got = stream.body.len();
        let is_more = stream.length.is_some_and(|len| got as u64 > len);
        self.require(fits, "more bytes than the stream's window (§6.9)");
        self.require(has_head, "content before its head (§8.1)");
        self.require(!is_more, "more content than announced (§8.1.1)");
        if frame.has(END_STREAM) {
            self.empty_ends += usize::from(content.is_empty() && got > 0);
            self.end_stream(frame.id);
        }
        self.reopen(frame.id);
    }

    /// Opens windows again once half of them is used.
    fn reopen(&mut self, id: u32) {
        if !self.settings.opens_windows {
            return;
        }
        if self.window.unopened >= WINDOW / 2 {
            let bytes = std::mem::take(&mut self.window.unopened);
            self.open_window(0, bytes);
        }
        let half = (self.settings.stream_window / 2).max(1);
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let is_open = !(stream.has_ended || stream.is_given_up || stream.is_held);
        if is_open && stream.window.unopened >= half {
            let bytes = std::mem::take(&mut stream.window.unopened);
            self.open_window(id, bytes);
        }
    }

    /// Checks a response that has ended.
    fn end_stream(&mut self, id: u32) {
        let stream = self.streams.get_mut(&id).expect("the caller has found it");
        stream.has_ended = true;
        let got = stream.body.len() as u64;
        let has_none = stream.head_only || matches!(stream.status, Some(204 | 304));
        let announced = stream.length;
        if has_none {
            self.require(got == 0, "content where there is none (RFC 9110 §6.4.1)");
        } else {
            self.require(announced.is_none_or(|len| len == got), "content is short (§8.1.1)");
        }
    }

    fn on_headers(&mut self, frame: &Http2Frame) {
        let mut fields = self.unpadded(frame);
        if frame.has(WITH_PRIORITY) {
            let rest = fields.split_at_checked(5);
            let Some((_, rest)) = rest else { self.fault("a priority is missing (§6.2)") };
            fields = rest;
        }
        if self.streams.contains_key(&frame.id) && self.is_excluded(frame.id) {
            self.fault("a response to a stream that GOAWAY excludes (§6.8)");
        }
        let (block, ends) = (fields.to_vec(), frame.has(END_STREAM));
        if frame.has(END_HEADERS) {
            self.on_block(frame, &block, ends);
        } else {
            self.block = Some((frame.id, block, ends));
        }
    }

    fn on_continuation(&mut self, frame: &Http2Frame) {
        let Some((id, mut block, ends)) = self.block.take() else {
            self.fault("CONTINUATION without HEADERS (§6.10)");
        };
        block.extend_from_slice(&frame.payload);
        if frame.has(END_HEADERS) {
            self.on_block(frame, &block, ends);
        } else {
            self.block = Some((id, block, ends));
        }
    }

    fn on_block(&mut self, frame: &Http2Frame, block: &[u8], ends: bool) {
        // Streams that were given up change the table, too.
        let mut fields = match self.decoder.decode(block) {
            Ok(fields) => fields,
            Err(why) => self.fault(why),
        };
        let Some(stream) = self.stream_of(frame) else { return };
        let is_final = stream.status.is_some();
        self.require(!is_final, "fields after the final head");
        self.require(!fields.is_empty(), "a head without fields (§8.3.2)");
        let (name, status) = fields.remove(0);
        self.require(name == ":status", "`:status` does not come first (§8.3)");
        let is_number = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
        self.require(is_number, "`:status` is no number of three digits (§8.3.2)");
        let status: u16 = status.parse().expect("three digits");
        self.check_fields(&fields);
        let stream = self.streams.get_mut(&frame.id).expect("found above");
        if status < 200 {
            stream.interim.push(status);
            self.require(!ends, "a response ends with an interim head (§8.1)");
            return;
        }
        let length = fields.iter().find(|(name, _)| name == "content-length");
        let length = length.map(|(_, value)| value.parse::<u64>());
        (stream.status, stream.fields) = (Some(status), fields);
        match length.transpose() {
            Ok(length) => stream.length = length,
            Err(_) => self.fault("`content-length` is no number"),
        }
        if ends {
            self.end_stream(frame.id);
        }
    }

    /// RFC 9113 §8.2, and each name once: no field of our responses is a list of lines.
    fn check_fields(&self, fields: &[FieldLine]) {
        for (at, (name, value)) in fields.iter().enumerate() {
            let is_token = |byte: u8| {
                byte.is_ascii_lowercase()
                    || byte.is_ascii_digit()
                    || b"!#$%&'*+-.^_`|~".contains(&byte)
            };
            let is_named = !name.is_empty() && name.bytes().all(is_token);
            let is_clean = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
            let is_known = OF_CONNECTIONS.contains(&name.as_str());
            let is_again = fields[..at].iter().any(|(earlier, _)| earlier == name);
            self.require(is_named, &format!("name {name:?} (§8.2.1)"));
            self.require(is_clean && value.trim() == value, &format!("{name}: {value:?} (§8.2.1)"));
            self.require(!is_known, &format!("{name} is of a connection (§8.2.2)"));
            self.require(!is_again, &format!("{name} twice"));
        }
    }

    fn on_reset(&mut self, frame: &Http2Frame) {
        self.require(frame.payload.len() == 4, "RST_STREAM does not have 4 bytes (§6.4)");
        let Some(stream) = self.streams.get_mut(&frame.id) else {
            self.fault("RST_STREAM of a stream that the client has not opened (§6.4)");
        };
        let is_again = stream.reset.is_some();
        let is_closed = stream.has_ended && stream.is_whole;
        stream.reset = first_number(&frame.payload);
        let is_given_up = stream.is_given_up;
        self.require(!is_again, "RST_STREAM twice (§5.1)");
        self.require(!is_closed || is_given_up, "RST_STREAM of a stream that is closed (§5.1)");
    }

    fn on_window(&mut self, frame: &Http2Frame) {
        let increment = first_number(&frame.payload).filter(|_| frame.payload.len() == 4);
        let Some(increment) = increment else {
            self.fault("WINDOW_UPDATE does not have 4 bytes (§6.9)");
        };
        self.require((1..=WINDOW_MAX).contains(&increment), "an increment of 0 (§6.9)");
        let initial = self.initial_window();
        let window = if frame.id == 0 {
            self.sendable += i64::from(increment);
            self.sendable
        } else {
            let Some(stream) = self.streams.get_mut(&frame.id) else {
                self.fault("WINDOW_UPDATE for a stream that the client has not opened (§5.1)");
            };
            stream.granted += i64::from(increment);
            initial + stream.granted - stream.sent
        };
        self.require(window <= i64::from(WINDOW_MAX), "a window of 2^31 or more (§6.9.1)");
    }

    fn on_settings(&mut self, frame: &Http2Frame) {
        self.require(frame.id == 0, "SETTINGS on a stream (§6.5)");
        if frame.has(ACK) {
            self.require(frame.payload.is_empty(), "an acknowledgement with settings (§6.5)");
            self.require(self.stream_windows.len() > 1, "one acknowledgement too many (§6.5.3)");
            self.stream_windows.pop_front();
            return;
        }
        let (settings, rest) = frame.payload.as_chunks::<6>();
        self.require(rest.is_empty(), "SETTINGS have no multiple of 6 bytes (§6.5)");
        for [high, low, value @ ..] in settings {
            let (id, value) = (u16::from_be_bytes([*high, *low]), u32::from_be_bytes(*value));
            let is_valid = match id {
                // A server pushes to no client (RFC 9113 §6.5.2).
                setting::ENABLE_PUSH => value == 0,
                setting::INITIAL_WINDOW_SIZE => value <= WINDOW_MAX,
                setting::MAX_FRAME_SIZE => (1 << 14..1 << 24).contains(&value),
                setting::NO_RFC7540_PRIORITIES => value <= 1,
                _ => true,
            };
            self.require(is_valid, &format!("setting {id} is {value} (§6.5.2)"));
            self.server.insert(id, value);
        }
        self.send_frame(kind::SETTINGS, ACK, 0, &[]);
    }

    fn on_ping(&mut self, frame: &Http2Frame) {
        self.require(frame.id == 0, "PING on a stream (§6.7)");
        self.require(frame.payload.len() == 8, "PING does not have 8 bytes (§6.7)");
        if !frame.has(ACK) {
            self.send_frame(kind::PING, ACK, 0, &frame.payload);
            return;
        }
        self.pongs += 1;
        let is_next = frame.payload == self.pongs.to_be_bytes() && self.pongs <= self.pings_sent;
        self.require(is_next, "another acknowledgement of PING (§6.7)");
    }

    fn on_goaway(&mut self, frame: &Http2Frame) {
        self.require(frame.id == 0, "GOAWAY on a stream (§6.8)");
        let last = first_number(&frame.payload);
        let code = frame.payload.get(4..).and_then(first_number);
        let (Some(last), Some(code)) = (last, code) else {
            self.fault("GOAWAY has fewer than 8 bytes (§6.8)");
        };
        let is_higher = self.goaway.is_some_and(|before| last > before.last);
        self.require(!is_higher, "GOAWAY with a higher stream than before (§6.8)");
        // A server initiates no stream, and the client's streams have odd numbers.
        let is_possible = last == 0 || last % 2 == 1 && (last < self.next_id || last == WINDOW_MAX);
        self.require(is_possible, "GOAWAY with a stream that the client has not opened (§6.8)");
        let is_answered = |id: &u32| self.streams[id].has_ended && *id > last;
        let is_answered = self.streams.keys().any(is_answered);
        self.require(!is_answered, "GOAWAY excludes a stream that is answered (§6.8)");
        self.goaway = Some(GoAway { last, code });
    }
}
