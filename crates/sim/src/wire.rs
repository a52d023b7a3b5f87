//! Arbitrary bytes on one connection: whole responses or frames return, and the log describes each
//! request.
use crate::{
    BrokenCheck,
    dice::{Dice, index},
    disk::{self, Disk, SimFile},
    world,
};
use regatta_http::h2::{
    frame::{
        END_HEADERS, END_STREAM, FRAME_BYTES_DEFAULT, FrameKind, PREFACE, WholeFrame, split_frame,
    },
    hpack::{HpackDecoder, TABLE_BYTES_DEFAULT},
};
use regatta_metrics::{Arena, Counter, Tally};
use regatta_op::{CloseReason, Done, Now, Op, Tick};
use regatta_origin::{
    ClearHttp1, Cx, Http2Rules, Link, LocalCache, Log, Protocol as _, Record, ReplyOutcome,
    Scratch, Site,
};
use std::{cell::RefCell, collections::BTreeSet, sync::atomic::AtomicU64};

/// The log's record of one exchange.
struct Told {
    method: Vec<u8>,
    status: u16,
    body_bytes: u64,
    sent_bytes: u64,
    outcome: ReplyOutcome,
}

#[derive(Default)]
struct Notes(RefCell<Vec<Told>>);

impl Log for Notes {
    fn wants(&self) -> bool {
        true
    }

    fn record(&self, record: &Record<'_>) {
        self.0.borrow_mut().push(Told {
            method: record.method.to_vec(),
            status: record.status,
            body_bytes: record.body_bytes,
            sent_bytes: record.sent_bytes,
            outcome: record.outcome,
        });
    }
}

/// Sends `bytes` as a peer would, in pieces of the length in its first byte (0: one piece).
///
/// # Errors
/// Describes what is wrong with the responses.
pub fn run_wire(bytes: &[u8]) -> Result<(), BrokenCheck> {
    let (&piece, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    run(bytes, usize::from(piece), false, check)
}

/// Sends the preface of HTTP/2 and `bytes` as a peer would, in pieces of the length in its first
/// byte (0: one piece).
///
/// # Errors
/// Describes what is wrong with the frames.
pub fn run_http2_wire(bytes: &[u8]) -> Result<(), BrokenCheck> {
    let (&piece, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    run(&[&PREFACE[..], bytes].concat(), usize::from(piece), true, check_frames)
}

/// Sends `bytes` in pieces, and has `check` compare what returns with the records of the log. With
/// `clear`, the server speaks HTTP/2 in the clear, too.
fn run(
    bytes: &[u8],
    piece: usize,
    clear: bool,
    check: fn(&[u8], &[Told]) -> Result<(), BrokenCheck>,
) -> Result<(), BrokenCheck> {
    let site = Site { http2: Http2Rules { clear, ..Http2Rules::default() }, ..Site::default() };
    let words: Vec<_> = (0..Arena::count_words(1)).map(|_| AtomicU64::new(0)).collect();
    let arena = Arena::create(&words, 1);
    let (cache, notes) = (LocalCache::new(&site.caching, 0), Notes::default());
    let scratch = Scratch::new(0);
    let cx = Cx {
        site: &site,
        cache: &cache,
        tally: Tally::Owned(arena.slot(0)),
        log: &notes,
        scratch: &scratch,
        links: &ClearHttp1,
    };
    let (sent, reason) = converse(bytes, piece, &cx)?;
    let slot = arena.slot(0);
    let counted = (slot.get(Counter::Requests), slot.get(Counter::BytesSent));
    let told = notes.0.borrow();
    if counted != (told.len() as u64, sent.len() as u64) {
        return Err(format!("{counted:?} counted, {} told, {} sent", told.len(), sent.len()).into());
    }
    if slot.get(Counter::closed(reason as usize)) != 1 {
        return Err(format!("the end as {reason:?} is not counted").into());
    }
    check(&sent, &told)
}

/// Drives the connection to its end; returns the sent bytes, and the reason of the end.
fn converse(
    bytes: &[u8],
    piece: usize,
    cx: &Cx<'_, SimFile>,
) -> Result<(Vec<u8>, CloseReason), BrokenCheck> {
    let disk = Disk::new(&mut Dice::seeded(1));
    let mut pieces = bytes.chunks(if piece == 0 { bytes.len().max(1) } else { piece });
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 4000));
    let mut now = Now { tick: Tick(1_000), unix: disk::UNIX };
    let is_http2 = bytes.starts_with(PREFACE);
    let mut conn = Link::new(address.into(), now, cx);
    let mut sent = Vec::new();
    for _ in 0..bytes.len() * 8 + 1_000 {
        let Some(op) = conn.next_op() else {
            // Streams may wait for windows that never open.
            if !is_http2 || conn.deadline() <= now.tick {
                return Err("no operation is offered though none is out".into());
            }
            now.tick = conn.deadline();
            conn.expire(0, now, cx);
            continue;
        };
        conn.check_invariants();
        let done = match op {
            Op::Recv => Done::Recv(Ok(pieces.next().unwrap_or_default())),
            Op::Send(mut outbox) => {
                let bytes = world::gather(&outbox, u64::MAX, true);
                let n = bytes.len() as u64;
                sent.extend(bytes);
                outbox.advance(n);
                Done::Send(outbox, Ok(n))
            }
            Op::Open(ticket, req) => Done::Open(ticket, disk.open(&req).1),
            Op::Read(ticket, req) => Done::Read(ticket, disk::read(req), Ok(())),
            Op::Stat(ticket, file) => Done::Stat(ticket, Ok(file.stat())),
            Op::Shut => Done::Shut,
            Op::Close(reason) => return Ok((sent, reason)),
        };
        conn.complete(done, now, cx);
        conn.check_invariants();
    }
    Err("it goes on and on".into())
}

/// Compares the sent bytes with the log's records.
fn check(mut sent: &[u8], told: &[Told]) -> Result<(), BrokenCheck> {
    for exchange in told {
        let (response, rest) = sent.split_at(index(exchange.sent_bytes).min(sent.len()));
        sent = rest;
        if exchange.outcome != ReplyOutcome::Complete {
            // The exchange ended before its response, or with the whole connection.
            continue;
        }
        let end = response.windows(4).position(|four| four == b"\r\n\r\n").ok_or("no head")? + 4;
        let head = String::from_utf8_lossy(&response[..end]);
        let status = format!("HTTP/1.1 {} ", exchange.status);
        if !head.starts_with(&status) || (response.len() - end) as u64 != exchange.body_bytes {
            let len = response.len() - end;
            return Err(format!("{status}, {} of {len}: {head}", exchange.body_bytes).into());
        }
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let bodiless = exchange.method == b"HEAD" || matches!(exchange.status, 204 | 304);
        let expected = if bodiless { 0 } else { exchange.body_bytes };
        let right = length.is_some_and(|length| length == exchange.body_bytes.to_string());
        if exchange.body_bytes != expected || !right && !bodiless {
            return Err(
                format!("{length:?} bytes where {} belong: {head}", exchange.body_bytes).into()
            );
        }
    }
    if sent.is_empty() { Ok(()) } else { Err(format!("{} bytes behind", sent.len()).into()) }
}

/// Checks that whole frames are sent, SETTINGS first, in an order that is allowed.
fn check_frames(mut sent: &[u8], _: &[Told]) -> Result<(), BrokenCheck> {
    let mut decoder = HpackDecoder::for_client(TABLE_BYTES_DEFAULT);
    let (mut is_first, mut block) = (true, None::<(u32, Vec<u8>)>);
    let mut ended = BTreeSet::new();
    while !sent.is_empty() {
        let Ok(Some(WholeFrame { head, payload, rest })) = split_frame(sent, FRAME_BYTES_DEFAULT)
        else {
            return Err(format!("{} bytes that are no frame", sent.len()).into());
        };
        sent = rest;
        let id = head.stream;
        if is_first && head.kind != FrameKind::Settings {
            return Err(format!("{:?} is the first frame", head.kind).into());
        }
        is_first = false;
        if matches!(head.kind, FrameKind::Data | FrameKind::Headers) {
            if ended.contains(&id) {
                return Err(format!("{:?} on stream {id}, which has ended", head.kind).into());
            }
            if head.has(END_STREAM) {
                ended.insert(id);
            }
        }
        match (head.kind, block.take()) {
            (FrameKind::Headers, None) => block = Some((id, payload.to_vec())),
            (FrameKind::Continuation, Some((of, mut before))) if of == id => {
                before.extend_from_slice(payload);
                block = Some((id, before));
            }
            (FrameKind::Headers | FrameKind::Continuation, _) | (_, Some(_)) => {
                return Err(format!("{:?} out of order", head.kind).into());
            }
            (
                FrameKind::Data
                | FrameKind::RstStream
                | FrameKind::Settings
                | FrameKind::Ping
                | FrameKind::GoAway
                | FrameKind::WindowUpdate,
                None,
            ) => {}
            (kind, None) => return Err(format!("{kind:?} from a server").into()),
        }
        if let Some((_, whole)) = block.take_if(|_| head.has(END_HEADERS)) {
            decoder.skip(&whole).map_err(|fault| format!("a field block: {fault:?}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{run_http2_wire, run_wire};

    #[test]
    fn any_frames_are_answered() {
        let rows: [&[u8]; 5] = [
            b"",
            b"\x05",
            // SETTINGS, and GET / with END_STREAM.
            b"\0\0\0\0\x04\0\0\0\0\0\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01a",
            // The same without SETTINGS, in pieces of three bytes.
            b"\x03\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01a",
            b"\0nonsense and more of it",
        ];
        for row in rows {
            assert_eq!(run_http2_wire(row), Ok(()), "{}", row.escape_ascii());
        }
    }

    #[test]
    fn anything_is_answered() {
        let rows: [&[u8]; 6] = [
            b"",
            b"\0",
            b"\0GET / HTTP/1.1\r\nHost: a\r\n\r\nHEAD /none HTTP/1.1\r\nHost: a\r\n\r\n",
            b"\x01GET /a.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1,4-5\r\n\r\nnonsense\r\n\r\n",
            b"\x03HEAD / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            b"\x07PUT / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabcOPTIONS * HTTP/1.0\r\n\r\n",
        ];
        for row in rows {
            assert_eq!(run_wire(row), Ok(()), "{}", row.escape_ascii());
        }
    }
}
