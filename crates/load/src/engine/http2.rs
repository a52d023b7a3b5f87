//! HTTP/2 of a client (RFC 9113), over TLS or by prior knowledge: the state of a connection. No
//! I/O; that is in `streams.rs`.

use super::expect::{Coded, Head};
use super::input::{ConnId, Input};
use crate::number::index;
use regatta_http::Method;
use regatta_http::h1::ResponseBody;
use regatta_http::h2::frame::{
    self, FRAME_BYTES_DEFAULT, FRAME_HEAD_BYTES, FrameHead, PREFACE, WINDOW_BYTES_DEFAULT,
};
use regatta_http::h2::hpack::{HpackDecoder, TABLE_BYTES_DEFAULT, write_field};
use regatta_http::h2::{PeerSettings, SettingId, write_settings, write_settings_ack};
use std::collections::VecDeque;

/// Name of the protocol in ALPN.
pub(super) const PROTOCOL: &[u8] = b"h2";

/// Window of each stream and of a connection, bytes: the client never holds a server up.
const WINDOW_BYTES: u32 = 1 << 30;
/// Bytes after which a window is opened again.
pub(super) const ROOM_BYTES: u32 = WINDOW_BYTES / 2;
/// Streams before the server says how many it takes (RFC 9113 §6.5.2 recommends no fewer).
const STREAMS_DEFAULT: u32 = 100;
/// The largest field block of a response, bytes.
pub(super) const BLOCK_BYTES_MAX: usize = 64 << 10;
/// Bytes that wait to be sent at most: a server that reads nothing gets no more answers.
pub(super) const OUT_BYTES_MAX: usize = 16 << 20;
/// The last number of a stream.
pub(super) const STREAM_MAX: u32 = (1 << 31) - 1;

/// A stream place.
#[derive(Debug)]
pub(super) struct Stream {
    /// The connection.
    pub(super) of: ConnId,
    /// Number of the stream of the current exchange; 0: none.
    pub(super) number: u32,
    /// Bytes of a request's content that the server takes.
    pub(super) window: i64,
    /// Bytes received since the window was opened.
    pub(super) room: u32,
}

/// The shared side of a connection.
#[derive(Debug)]
pub(super) struct Http2 {
    pub(super) decoder: HpackDecoder,
    /// Frames to send, and how many of their bytes the kernel or TLS has.
    pub(super) out: Vec<u8>,
    pub(super) out_at: usize,
    /// Bytes that were in `out` before its first.
    pub(super) out_before: u64,
    /// Ends of requests in all that is ever sent, and their places.
    pub(super) ends: VecDeque<(u64, ConnId)>,
    /// The start of a frame that came in pieces.
    pub(super) held: Vec<u8>,
    /// A field block that is not complete: its stream, whether that ends, and bytes.
    pub(super) block: Option<(u32, bool, Vec<u8>)>,
    /// Streams that are open, in the order of their numbers.
    pub(super) streams: VecDeque<(u32, ConnId)>,
    /// Places with a request that waits for a stream.
    pub(super) waiting: VecDeque<ConnId>,
    /// Places with content that is not in `out`, and how much of it is.
    pub(super) contents: VecDeque<(ConnId, usize)>,
    pub(super) places: Vec<ConnId>,
    pub(super) next: u32,
    /// Requests that were made.
    pub(super) begun: u64,
    pub(super) peer: PeerSettings,
    pub(super) streams_max: u32,
    pub(super) window: i64,
    pub(super) room: u32,
    /// No further requests: the server ends it, or numbers do.
    pub(super) is_ending: bool,
    pub(super) is_listed: bool,
}

/// Appends the field block of a request. Fields of a connection are left out (RFC 9113 §8.2.2).
pub(super) fn write_request(
    out: &mut Vec<u8>,
    method: Method,
    scheme: &str,
    (authority, target): (&str, &str),
    fields: &[(String, String)],
) {
    const OF_CONNECTION: [&str; 7] = [
        "host",
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "transfer-encoding",
        "upgrade",
    ];
    let host = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
    let authority = host.map_or(authority, |(_, value)| value);
    write_field(out, ":method", method.name().as_bytes());
    write_field(out, ":scheme", scheme.as_bytes());
    write_field(out, ":path", target.as_bytes());
    write_field(out, ":authority", authority.as_bytes());
    for (name, value) in fields {
        let name = name.to_ascii_lowercase();
        if !OF_CONNECTION.contains(&name.as_str()) {
            write_field(out, &name, value.as_bytes());
        }
    }
}

/// The largest block of a request, bytes: it goes in one frame.
pub(super) const REQUEST_BLOCK_BYTES_MAX: usize = FRAME_BYTES_DEFAULT as usize;

impl Http2 {
    pub(super) fn new() -> Self {
        let mut out = PREFACE.to_vec();
        let settings =
            [(SettingId::ENABLE_PUSH, 0), (SettingId::INITIAL_WINDOW_SIZE, WINDOW_BYTES)];
        write_settings(&mut out, &settings);
        frame::write_window_update(&mut out, 0, WINDOW_BYTES - WINDOW_BYTES_DEFAULT);
        Self {
            decoder: HpackDecoder::for_client(TABLE_BYTES_DEFAULT),
            out,
            out_at: 0,
            out_before: 0,
            ends: VecDeque::new(),
            held: Vec::new(),
            block: None,
            streams: VecDeque::new(),
            waiting: VecDeque::new(),
            contents: VecDeque::new(),
            places: Vec::new(),
            next: 1,
            begun: 0,
            peer: PeerSettings::default(),
            streams_max: STREAMS_DEFAULT,
            window: WINDOW_BYTES_DEFAULT.into(),
            room: 0,
            is_ending: false,
            is_listed: false,
        }
    }

    /// The place whose stream has this number, if it is open.
    pub(super) fn place(&self, number: u32) -> Option<ConnId> {
        let at = self.streams.binary_search_by_key(&number, |(number, _)| *number);
        at.ok().map(|at| self.streams[at].1)
    }

    pub(super) fn forget(&mut self, number: u32) {
        if let Ok(at) = self.streams.binary_search_by_key(&number, |(number, _)| *number) {
            let (_, place) = self.streams.remove(at).expect("it was found there");
            self.contents.retain(|(id, _)| *id != place);
            self.ends.retain(|(_, id)| *id != place);
        }
    }

    /// Whether another place may share it. `most` requests end it; 0: none do.
    pub(super) fn has_room(&self, streams: u32, most: u64) -> bool {
        !self.is_ending && self.places.len() < index(streams.into()) && !self.is_used_up(most)
    }

    pub(super) fn is_used_up(&self, most: u64) -> bool {
        most > 0 && self.begun >= most
    }

    /// Takes settings; returns by how much windows of streams grow.
    pub(super) fn settle(&mut self, payload: &[u8]) -> Option<i64> {
        let before = self.peer.window_bytes;
        self.peer.apply(payload).ok()?;
        let (settings, _) = payload.as_chunks::<6>();
        for [high, low, value @ ..] in settings {
            if u16::from_be_bytes([*high, *low]) == SettingId::MAX_CONCURRENT_STREAMS.0 {
                self.streams_max = u32::from_be_bytes(*value);
            }
        }
        write_settings_ack(&mut self.out);
        Some(i64::from(self.peer.window_bytes) - i64::from(before))
    }
}

/// Place and length of a frame's payload.
pub(super) struct Found {
    pub(super) head: FrameHead,
    /// Whether it was collected in `held`, and is not in the input.
    pub(super) is_held: bool,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Takes the next frame from the input. `Ok(None)`: all bytes are used, and more are needed.
pub(super) fn next_frame(held: &mut Vec<u8>, input: &mut Input) -> Result<Option<Found>, ()> {
    if held.is_empty() {
        let rest = &input.bytes[input.at..input.end];
        let Some(whole) = frame::split_frame(rest, FRAME_BYTES_DEFAULT).map_err(drop)? else {
            held.extend_from_slice(rest);
            input.at = input.end;
            return Ok(None);
        };
        let start = input.at + FRAME_HEAD_BYTES;
        input.at = start + whole.payload.len();
        return Ok(Some(Found { head: whole.head, is_held: false, start, end: input.at }));
    }
    loop {
        let wanted = match FrameHead::read(held) {
            None => FRAME_HEAD_BYTES,
            Some(head) if head.bytes > FRAME_BYTES_DEFAULT => return Err(()),
            Some(head) => FRAME_HEAD_BYTES + index(head.bytes.into()),
        };
        let missing = wanted.saturating_sub(held.len());
        let rest = &input.bytes[input.at..input.end];
        let more = &rest[..missing.min(rest.len())];
        held.extend_from_slice(more);
        input.at += more.len();
        match FrameHead::read(held) {
            Some(head) if held.len() == FRAME_HEAD_BYTES + index(head.bytes.into()) => {
                let (start, end) = (FRAME_HEAD_BYTES, held.len());
                return Ok(Some(Found { head, is_held: true, start, end }));
            }
            Some(_) if missing > 0 && !more.is_empty() && input.at < input.end => {}
            _ => return Ok(None),
        }
    }
}

/// Reads the head of a response. `None`: it is none.
pub(super) fn read_head(decoder: &mut HpackDecoder, block: &[u8], method: Method) -> Option<Head> {
    let (mut status, mut length, mut coded) = (None, None, Coded::No);
    let read = decoder.read_fields(block, |name, value| match name {
        b":status" if value.len() == 3 => status = number(value),
        b"content-length" => length = number(value),
        b"content-encoding" => coded = Coded::of(value),
        _ => {}
    });
    read.ok()?;
    let status = u16::try_from(status?).ok().filter(|status| (100..600).contains(status))?;
    let without = method == Method::Head || matches!(status, 100..200 | 204 | 304);
    let (body, stated) = match length {
        _ if without => (ResponseBody::None, length),
        Some(length) => (ResponseBody::Length(length), None),
        None => (ResponseBody::UntilClose, None),
    };
    Some(Head { status, body, keep: true, stated, coded })
}

fn number(digits: &[u8]) -> Option<u64> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}
