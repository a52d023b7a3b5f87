//! HTTP/2: frames, and blocks of fields that follow each other on a connection.
use regatta_http::{
    h1::{FIELDS_MAX, HeadLimits},
    h2::{
        BlockFault, BlockScratch, PeerSettings, StreamHead, decode_request, decode_trailers,
        frame::{
            ErrorCode, FRAME_BYTES_DEFAULT, FRAME_BYTES_MAX, FRAME_HEAD_BYTES, Frame, FrameFault,
            FrameHead, PREFACE, WINDOW_BYTES_DEFAULT, WINDOW_BYTES_MAX, WholeFrame, read_frame,
            split_frame,
        },
        hpack::{HpackDecoder, HpackFault, TABLE_BYTES_DEFAULT, write_field},
    },
    target::{Target, is_host},
};

/// Frames behind a preface: those in pieces are not read early, heads are written as they were
/// read, and what a frame contains is of its payload. Settings stay within their limits.
pub fn h2_frames(bytes: &[u8]) {
    let mut rest = bytes.strip_prefix(PREFACE).unwrap_or(bytes);
    let mut settings = PeerSettings::default();
    let mut decoder = HpackDecoder::new(TABLE_BYTES_DEFAULT);
    let mut scratch = BlockScratch::default();
    loop {
        let WholeFrame { head, payload, rest: after } = match split_frame(rest, FRAME_BYTES_DEFAULT)
        {
            Ok(Some(found)) => found,
            Ok(None) => {
                let head = FrameHead::read(rest);
                assert!(head.is_none_or(|head| rest.len() - FRAME_HEAD_BYTES < to_len(head.bytes)));
                return;
            }
            Err(fault) => {
                let head = FrameHead::read(rest).expect("a head");
                assert_eq!(fault, FrameFault::TooLong(head.kind));
                assert!(head.bytes > FRAME_BYTES_DEFAULT && head.bytes <= FRAME_BYTES_MAX);
                return;
            }
        };
        let len = FRAME_HEAD_BYTES + payload.len();
        for early in [0, FRAME_HEAD_BYTES - 1, FRAME_HEAD_BYTES, len - 1] {
            let early = split_frame(&rest[..early.min(len - 1)], FRAME_BYTES_DEFAULT);
            assert_eq!(early, Ok(None), "the frame is not complete");
        }
        let mut written = head.to_bytes();
        written[5] |= rest[5] & 0x80;
        assert_eq!((&written[..], to_len(head.bytes)), (&rest[..FRAME_HEAD_BYTES], payload.len()));
        match read_frame(head, payload) {
            Ok(frame) => check_frame(frame, payload, &mut settings, &mut decoder, &mut scratch),
            Err(fault) => {
                assert_ne!(fault.code(), ErrorCode::NO_ERROR);
                assert!(fault.stream().is_none_or(|stream| stream == head.stream && stream > 0));
            }
        }
        rest = after;
    }
}

fn to_len(bytes: u32) -> usize {
    usize::try_from(bytes).expect("32 bits")
}

fn check_frame(
    frame: Frame<'_>,
    payload: &[u8],
    settings: &mut PeerSettings,
    decoder: &mut HpackDecoder,
    scratch: &mut BlockScratch,
) {
    let is_within = |part: &[u8]| {
        let range = payload.as_ptr_range();
        let part = part.as_ptr_range();
        assert!(range.start <= part.start && part.end <= range.end);
    };
    match frame {
        Frame::Data { data, window_bytes, .. } => {
            is_within(data);
            assert_eq!(to_len(window_bytes), payload.len());
        }
        Frame::Headers { block, ends_block, .. } => {
            is_within(block);
            if ends_block {
                let limits = HeadLimits::default();
                if let Ok(head) = decode_request(decoder, block, &limits, scratch) {
                    check_head(&head, &limits);
                }
            }
        }
        Frame::Continuation { block, .. } => is_within(block),
        Frame::Settings(payload) => {
            if let Err(fault) = settings.apply(payload) {
                assert_ne!(fault.code(), ErrorCode::NO_ERROR);
            }
            assert!(settings.window_bytes <= WINDOW_BYTES_MAX.max(WINDOW_BYTES_DEFAULT));
            let sizes = FRAME_BYTES_DEFAULT..=FRAME_BYTES_MAX;
            assert!(sizes.contains(&settings.frame_bytes_max));
        }
        Frame::WindowUpdate { bytes, .. } => assert!((1..=WINDOW_BYTES_MAX).contains(&bytes)),
        Frame::PriorityUpdate { stream, value } => {
            is_within(value);
            assert!(stream > 0);
        }
        _ => {}
    }
}

/// Blocks of one connection, each behind its length in two bytes; the first byte is the size of the
/// table, in 32 bytes. A server, a server that skips, and a client have the same table and the same
/// fault. Heads are valid, memory is bounded, and fields are read again as they are written.
pub fn hpack(bytes: &[u8]) {
    let (size, mut rest) = bytes.split_first().unwrap_or((&0, &[]));
    let size = usize::from(*size) * 32;
    let (mut reading, mut skipping) = (HpackDecoder::new(size), HpackDecoder::new(size));
    let mut client = HpackDecoder::for_client(size);
    let limits = HeadLimits { head_bytes_max: 2000, target_bytes_max: 100, fields_max: 20 };
    let mut scratch = BlockScratch::default();
    let mut number = 0;
    while let Some((len, after)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_be_bytes(*len)).min(after.len());
        let (block, after) = after.split_at(len);
        rest = after;
        let mut fields: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let read = client.read_fields(block, |name, value| {
            fields.push((name.to_vec(), value.to_vec()));
        });
        assert_eq!(skipping.skip(block), read);
        let fault = if number % 3 == 2 {
            decode_trailers(&mut reading, block, &limits, &mut scratch).err()
        } else {
            match decode_request(&mut reading, block, &limits, &mut scratch) {
                Ok(head) => {
                    check_head(&head, &limits);
                    None
                }
                Err(fault) => Some(fault),
            }
        };
        assert_eq!(read.err(), compression(fault), "{fault:?}");
        if read.is_err() {
            return;
        }
        reading.trim();
        let sizes = |decoder: &HpackDecoder| (decoder.entries(), decoder.table_bytes());
        assert_eq!([sizes(&reading), sizes(&skipping)], [sizes(&client); 2]);
        assert!(reading.table_bytes() <= size.max(TABLE_BYTES_DEFAULT));
        assert!(reading.capacity() <= 5 * size.max(TABLE_BYTES_DEFAULT), "{}", reading.capacity());
        assert!(scratch.capacity() <= 4 * (bytes.len() + limits.head_bytes_max) + 64);
        if fault.is_none() {
            check_budget(&fields, &limits);
        }
        // References to a long entry make much of a short block.
        if fields.iter().map(|(_, value)| value.len()).sum::<usize>() < 64 << 10 {
            write_again(&fields);
        }
        number += 1;
        if number == 2 {
            for decoder in [&mut reading, &mut skipping, &mut client] {
                decoder.acknowledge();
            }
        }
    }
}

/// The fault that ends the connection, if this is one.
fn compression(fault: Option<BlockFault>) -> Option<HpackFault> {
    match fault? {
        BlockFault::Compression(fault) => Some(fault),
        BlockFault::Malformed(_) | BlockFault::Refused { .. } => None,
    }
}

/// Accepted blocks are within the limits, and have no field that no message may have.
fn check_budget(fields: &[(Vec<u8>, Vec<u8>)], limits: &HeadLimits) {
    let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
    let ordinary = |name: &[u8]| !name.starts_with(b":") && name != b"cookie";
    let count = fields.iter().filter(|(name, _)| ordinary(name)).count();
    assert!(bytes <= limits.head_bytes_max && count <= limits.fields_max.min(FIELDS_MAX));
    for (name, value) in fields {
        assert!(!name.is_empty() && !name.iter().any(u8::is_ascii_uppercase));
        assert!(
            !["connection", "transfer-encoding", "upgrade"].iter().any(|it| name == it.as_bytes())
        );
        assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        assert_eq!(value.len(), value.trim_ascii().len(), "no blanks around a value");
    }
}

/// Accepted heads have what a request needs.
fn check_head(head: &StreamHead<'_>, limits: &HeadLimits) {
    assert!(head.host.is_some_and(is_host) && !head.method_text.is_empty());
    assert!(!head.target.is_empty() && str::from_utf8(head.target).is_ok());
    assert!(head.target.iter().all(|byte| byte.is_ascii_graphic() || !byte.is_ascii()));
    if let Target::Path(path) = head.names {
        assert!(path.starts_with(b"/") && path.len() <= limits.target_bytes_max);
    }
    for field in &head.fields {
        assert!(!field.name.is_empty() && !field.value.contains(&b'\n'));
    }
}

/// Fields with names in text are read as they are written by a new encoder.
fn write_again(fields: &[(Vec<u8>, Vec<u8>)]) {
    let mut block = Vec::new();
    let mut expected = Vec::new();
    for (name, value) in fields {
        let Ok(text) = str::from_utf8(name) else { continue };
        write_field(&mut block, text, value);
        expected.push((text.to_ascii_lowercase().into_bytes(), value.clone()));
    }
    let mut found = Vec::new();
    let mut decoder = HpackDecoder::for_client(TABLE_BYTES_DEFAULT);
    let read = decoder.read_fields(&block, |name, value| {
        found.push((name.to_vec(), value.to_vec()));
    });
    assert_eq!((read, found), (Ok(()), expected));
}
