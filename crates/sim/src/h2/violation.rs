//! Frames that a client must not send, with the codes that may answer them.
use super::encoder::Encoder;
use crate::dice::{Dice, index};
use regatta_http::h2::frame::{ACK, END_HEADERS, END_STREAM, FrameHead, FrameKind, PADDED};

const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const STREAM_CLOSED: u32 = 5;
const FRAME_SIZE_ERROR: u32 = 6;
const COMPRESSION_ERROR: u32 = 9;

/// Bytes that break the rules.
#[derive(Debug)]
pub(super) struct Breach {
    pub(super) bytes: Vec<u8>,
    /// Codes of GOAWAY that may follow; none: the bytes are random, and may break no rule.
    pub(super) codes: &'static [u32],
    /// Whether only the state of streams that the client has not opened makes it a breach.
    pub(super) is_of_streams: bool,
}

/// Appends a frame.
pub(super) fn push_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let bytes = u32::try_from(payload.len()).expect("a frame is short");
    let head = FrameHead { bytes, kind: FrameKind::from_number(kind), flags, stream };
    out.extend_from_slice(&head.to_bytes());
    out.extend_from_slice(payload);
}

fn frame(kind: FrameKind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_frame(&mut out, kind.number(), flags, stream, payload);
    out
}

/// Draws a breach; `next` is the number of the next stream.
pub(super) fn draw(dice: &mut Dice, next: u32, encoder: &mut Encoder) -> Breach {
    if dice.one_in(3) {
        return noise(dice, next);
    }
    if dice.one_in(2) {
        return of_settings(dice);
    }
    let ends = END_HEADERS | END_STREAM;
    let mut fields = |dice: &mut Dice| {
        let texts = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")];
        let texts = texts.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
        encoder.encode(dice, &texts)
    };
    let kind = dice.below(14);
    let (bytes, codes): (Vec<u8>, &'static [u32]) = match kind {
        0 => (frame(FrameKind::Headers, ends, 0, &fields(dice)), &[PROTOCOL_ERROR]),
        1 => (frame(FrameKind::Headers, ends, next + 1, &fields(dice)), &[PROTOCOL_ERROR]),
        2 => (frame(FrameKind::Data, 0, next, b"content"), &[PROTOCOL_ERROR]),
        3 => (frame(FrameKind::RstStream, 0, next, &[0; 4]), &[PROTOCOL_ERROR]),
        4 => (frame(FrameKind::WindowUpdate, 0, 0, &[0; 4]), &[PROTOCOL_ERROR]),
        5 => {
            // An empty window can be opened as far as this once.
            let all = frame(FrameKind::WindowUpdate, 0, 0, &[0x7f, 0xff, 0xff, 0xff]);
            (all.repeat(2), &[FLOW_CONTROL_ERROR])
        }
        6 => (frame(FrameKind::WindowUpdate, 0, next, &[0, 0, 0, 1]), &[PROTOCOL_ERROR]),
        7 => (frame(FrameKind::Continuation, END_HEADERS, next, &[]), &[PROTOCOL_ERROR]),
        8 => {
            let mut bytes = frame(FrameKind::Headers, END_STREAM, next, &fields(dice));
            push_frame(&mut bytes, FrameKind::Ping.number(), 0, 0, &[0; 8]);
            (bytes, &[PROTOCOL_ERROR])
        }
        // An index of no entry.
        9 => (frame(FrameKind::Headers, ends, next, &[0x80]), &[COMPRESSION_ERROR]),
        10 => (frame(FrameKind::Headers, ends | PADDED, next, &[9, 0x82]), &[PROTOCOL_ERROR]),
        11 => (frame(FrameKind::PushPromise, END_HEADERS, 1, &[0; 5]), &[PROTOCOL_ERROR]),
        12 => {
            // A stream behind a later one.
            let mut bytes = frame(FrameKind::Headers, ends, next + 2, &fields(dice));
            let (kind, block) = (FrameKind::Headers.number(), fields(dice));
            push_frame(&mut bytes, kind, ends, next, &block);
            (bytes, &[PROTOCOL_ERROR, STREAM_CLOSED])
        }
        _ => (frame(FrameKind::GoAway, 0, 0, &[0; 7]), &[FRAME_SIZE_ERROR]),
    };
    Breach { bytes, codes, is_of_streams: matches!(kind, 1 | 2 | 3 | 6 | 12) }
}

/// Malformed SETTINGS and PING, and a frame that is too long.
fn of_settings(dice: &mut Dice) -> Breach {
    let setting = |id: u8, value: u32| {
        let payload = [&[0, id][..], &value.to_be_bytes()].concat();
        frame(FrameKind::Settings, 0, 0, &payload)
    };
    let (bytes, codes): (Vec<u8>, &'static [u32]) = match dice.below(9) {
        0 => (frame(FrameKind::Settings, 0, 0, &[0; 5]), &[FRAME_SIZE_ERROR]),
        1 => (frame(FrameKind::Settings, 0, 1, &[]), &[PROTOCOL_ERROR]),
        2 => (frame(FrameKind::Settings, ACK, 0, &[0; 6]), &[FRAME_SIZE_ERROR]),
        3 => (setting(2, 2), &[PROTOCOL_ERROR]),
        4 => (setting(4, 1 << 31), &[FLOW_CONTROL_ERROR]),
        5 => (setting(5, 1), &[PROTOCOL_ERROR]),
        6 => (frame(FrameKind::Ping, 0, 0, &[0; 7]), &[FRAME_SIZE_ERROR]),
        7 => (frame(FrameKind::Ping, 0, 1, &[0; 8]), &[PROTOCOL_ERROR]),
        _ => (frame(FrameKind::Unknown(0xfa), 0, 0, &[0; 16_385]), &[FRAME_SIZE_ERROR]),
    };
    Breach { bytes, codes, is_of_streams: false }
}

/// Random frames, or random bytes.
fn noise(dice: &mut Dice, next: u32) -> Breach {
    let mut bytes = Vec::new();
    for _ in 0..dice.between(1, 20) {
        let payload = random_bytes(dice, 40);
        let kind = if dice.one_in(8) { 16 } else { dice.below(11).to_le_bytes()[0] };
        let flags = dice.below(64).to_le_bytes()[0];
        let stream = u32::try_from(dice.below(u64::from(next) + 4)).expect("few streams");
        push_frame(&mut bytes, kind, flags, stream, &payload);
    }
    if dice.one_in(3) {
        bytes.truncate(index(dice.below(bytes.len() as u64)));
        bytes.extend(random_bytes(dice, 60));
    }
    Breach { bytes, codes: &[], is_of_streams: false }
}

fn random_bytes(dice: &mut Dice, most: u64) -> Vec<u8> {
    (0..dice.below(most)).map(|_| dice.below(256).to_le_bytes()[0]).collect()
}
