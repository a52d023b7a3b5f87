//! Frames: each type, each fault, padding, and frames in pieces.
use super::*;
use crate::h2::dice::Dice;
use FrameKind::{
    Continuation, Data, GoAway, Headers, Ping, Priority, PriorityUpdate, PushPromise, RstStream,
    Settings, Unknown, WindowUpdate,
};
use alloc::{vec, vec::Vec};

const KINDS: [FrameKind; 12] = [
    Data,
    Headers,
    Priority,
    RstStream,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    PriorityUpdate,
    Unknown(10),
];

fn frame(kind: FrameKind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let bytes = u32::try_from(payload.len()).expect("short");
    let mut out = vec![];
    write_head(&mut out, FrameHead { bytes, kind, flags, stream });
    out.extend_from_slice(payload);
    out
}

/// Reads a frame that comes in pieces, with other bytes behind it.
fn check(
    (kind, flags, stream): (FrameKind, u8, u32),
    payload: &[u8],
    expected: Result<Frame<'_>, FrameFault>,
) {
    let mut wire = frame(kind, flags, stream, payload);
    for len in 0..wire.len() {
        assert_eq!(split_frame(&wire[..len], FRAME_BYTES_DEFAULT), Ok(None), "{len} bytes");
    }
    wire.extend_from_slice(b"more");
    let WholeFrame { head, payload: found, rest } =
        split_frame(&wire, FRAME_BYTES_DEFAULT).expect("short").expect("whole");
    assert_eq!((found, rest), (payload, &b"more"[..]));
    assert_eq!(read_frame(head, found), expected, "{head:?}");
}

#[test]
fn heads_are_read_as_they_were_written() {
    let head =
        FrameHead { bytes: 0x0001_0203, kind: Unknown(0xfe), flags: 0xa5, stream: 0x7fff_fffe };
    let bytes = [1, 2, 3, 0xfe, 0xa5, 0x7f, 0xff, 0xff, 0xfe];
    assert_eq!((head.to_bytes(), FrameHead::read(&bytes)), (bytes, Some(head)));
    let mut reserved = bytes;
    reserved[5] = 0xff;
    assert_eq!(FrameHead::read(&reserved), Some(head));
    for number in 0..=255 {
        assert_eq!(FrameKind::from_number(number).number(), number);
    }
    for kind in KINDS {
        assert_eq!(FrameKind::from_number(kind.number()), kind);
    }
}

#[test]
fn frames_of_streams() {
    let data = |data, window_bytes, ends_stream| {
        Ok(Frame::Data { stream: 3, data, window_bytes, ends_stream })
    };
    check((Data, 0, 3), b"abc", data(&b"abc"[..], 3, false));
    check((Data, 0xf7, 3), b"", data(&b""[..], 0, true));
    check((Data, PADDED, 3), b"\x02abc\0\0", data(&b"abc"[..], 6, false));
    check((Data, PADDED, 3), b"\0", data(&b""[..], 1, false));
    check((Data, PADDED, 3), b"\x02\0\0", data(&b""[..], 3, false));
    let headers = |block, ends_stream, ends_block| {
        Ok(Frame::Headers { stream: 5, block, ends_stream, ends_block })
    };
    check((Headers, 0, 5), b"ab", headers(&b"ab"[..], false, false));
    check((Headers, END_STREAM | END_HEADERS, 5), b"", headers(&b""[..], true, true));
    check((Headers, PRIORITY, 5), b"\x80\0\0\x03\xffab", headers(&b"ab"[..], false, false));
    let flags = PRIORITY | PADDED | END_HEADERS;
    check((Headers, flags, 5), b"\x01\0\0\0\x03\0ab\0", headers(&b"ab"[..], false, true));
    let more = |block, ends_block| Ok(Frame::Continuation { stream: 5, block, ends_block });
    check((Continuation, PADDED, 5), b"ab", more(&b"ab"[..], false));
    check((Continuation, END_HEADERS, 5), b"", more(&b""[..], true));
    check((Priority, 0, 5), b"\0\0\0\x03\0", Ok(Frame::Priority { stream: 5 }));
    let code = ErrorCode::CANCEL;
    check((RstStream, 0, 5), b"\0\0\0\x08", Ok(Frame::RstStream { stream: 5, code }));
    let code = ErrorCode(0xffff_ffff);
    check((RstStream, 0, 5), b"\xff\xff\xff\xff", Ok(Frame::RstStream { stream: 5, code }));
}

#[test]
fn frames_of_the_connection() {
    check((Settings, 0, 0), b"", Ok(Frame::Settings(b"")));
    check((Settings, 0, 0), b"\0\x04\0\0\0\x01", Ok(Frame::Settings(b"\0\x04\0\0\0\x01")));
    check((Settings, ACK, 0), b"", Ok(Frame::SettingsAck));
    check((Ping, 0, 0), b"12345678", Ok(Frame::Ping(*b"12345678")));
    check((Ping, ACK, 0), b"12345678", Ok(Frame::PingAck(*b"12345678")));
    let code = ErrorCode::ENHANCE_YOUR_CALM;
    check((GoAway, 0, 0), b"\x80\0\0\x07\0\0\0\x0b", Ok(Frame::GoAway { last: 7, code }));
    check((GoAway, 0, 0), b"\0\0\0\x07\0\0\0\x0bwhy", Ok(Frame::GoAway { last: 7, code }));
    for stream in [0, 9] {
        let bytes = |bytes| Ok(Frame::WindowUpdate { stream, bytes });
        check((WindowUpdate, 0, stream), b"\0\0\0\x01", bytes(1));
        check((WindowUpdate, 0, stream), b"\xff\xff\xff\xff", bytes(WINDOW_BYTES_MAX));
        check((Unknown(0x0b), 0xff, stream), b"abc", Ok(Frame::Unknown));
    }
    let update = |value| Ok(Frame::PriorityUpdate { stream: 9, value });
    check((PriorityUpdate, 0, 0), b"\0\0\0\x09u=1", update(&b"u=1"[..]));
    check((PriorityUpdate, 0, 0), b"\x80\0\0\x09", update(&b""[..]));
}

#[test]
fn lengths_that_a_type_must_not_have() {
    for (kind, stream, flags, good) in [
        (Priority, 1, 0, &[5][..]),
        (RstStream, 1, 0, &[4]),
        (Settings, 0, 0, &[0, 6, 12]),
        (Settings, 0, ACK, &[0]),
        (Ping, 0, 0, &[8]),
        (Ping, 0, ACK, &[8]),
        (GoAway, 0, 0, &[8, 9, 10, 11, 12, 13]),
        (WindowUpdate, 0, 0, &[4]),
        (WindowUpdate, 1, 0, &[4]),
        (PriorityUpdate, 0, 0, &[4, 5, 6, 7, 8, 9, 10, 11, 12, 13]),
        (Data, 1, PADDED, &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]),
        (Headers, 1, PRIORITY, &[5, 6, 7, 8, 9, 10, 11, 12, 13]),
        (Headers, 1, PRIORITY | PADDED, &[7, 8, 9, 10, 11, 12, 13]),
    ] {
        for len in 0..14 {
            let wire = frame(kind, flags, stream, &vec![1; len]);
            let WholeFrame { head, payload, .. } =
                split_frame(&wire, 13).expect("short").expect("whole");
            let found = read_frame(head, payload);
            assert_eq!(found.is_ok(), good.contains(&len), "{head:?} {found:?}");
            if let Err(fault) = found {
                let is_padding = fault == FrameFault::Padding;
                assert!(is_padding || fault == FrameFault::Length(kind), "{head:?} {fault:?}");
                let size = ErrorCode::FRAME_SIZE_ERROR;
                let code = if is_padding { ErrorCode::PROTOCOL_ERROR } else { size };
                assert_eq!((fault.code(), fault.stream()), (code, None));
            }
        }
    }
}

#[test]
fn a_long_frame_is_refused_by_its_head() {
    for kind in KINDS {
        let head = FrameHead { bytes: 17, kind, flags: 0, stream: 1 }.to_bytes();
        assert_eq!(split_frame(&head, 16), Err(FrameFault::TooLong(kind)));
        assert_eq!(split_frame(&head, 17), Ok(None));
        assert_eq!(split_frame(&head[..8], 16), Ok(None));
    }
    assert_eq!(FrameFault::TooLong(Data).code(), ErrorCode::FRAME_SIZE_ERROR);
}

#[test]
fn streams_that_a_type_must_not_be_on() {
    for kind in [Data, Headers, Priority, RstStream, Continuation] {
        check((kind, 0, 0), &[0; 8], Err(FrameFault::Stream(kind)));
    }
    for kind in [Settings, Ping, GoAway, PriorityUpdate] {
        check((kind, 0, 1), &[0; 8], Err(FrameFault::Stream(kind)));
    }
    check((PriorityUpdate, 0, 0), b"\0\0\0\0u=1", Err(FrameFault::Stream(PriorityUpdate)));
    assert_eq!(FrameFault::Stream(Data).code(), ErrorCode::PROTOCOL_ERROR);
}

#[test]
fn other_frames_that_are_refused() {
    for stream in [0, 2] {
        check((PushPromise, 0, stream), b"\0\0\0\x02", Err(FrameFault::PushPromise));
    }
    for kind in [Data, Headers] {
        check((kind, PADDED, 1), b"", Err(FrameFault::Length(kind)));
        check((kind, PADDED, 1), b"\x01", Err(FrameFault::Padding));
        check((kind, PADDED, 1), b"\xff12345678", Err(FrameFault::Padding));
    }
    let own = b"\x80\0\0\x05\0";
    check((Priority, 0, 5), own, Err(FrameFault::SelfDependency));
    check((Headers, PRIORITY, 5), own, Err(FrameFault::SelfDependency));
    check((WindowUpdate, 0, 0), b"\x80\0\0\0", Err(FrameFault::NoRoom));
    check((WindowUpdate, 0, 7), b"\0\0\0\0", Err(FrameFault::NoStreamRoom(7)));
    assert_eq!(FrameFault::NoRoom.stream(), None);
    assert_eq!(FrameFault::NoStreamRoom(7).stream(), Some(7));
    assert_eq!(FrameFault::NoStreamRoom(7).code(), ErrorCode::PROTOCOL_ERROR);
}

#[test]
fn our_frames_are_read_as_they_were_written() {
    let mut out = vec![];
    write_rst_stream(&mut out, 3, ErrorCode::NO_ERROR);
    write_ping(&mut out, *b"abcdefgh", true);
    write_ping(&mut out, *b"abcdefgh", false);
    write_goaway(&mut out, WINDOW_BYTES_MAX, ErrorCode::INTERNAL_ERROR);
    write_window_update(&mut out, 0, 1);
    write_window_update(&mut out, 3, WINDOW_BYTES_MAX);
    let (mut rest, mut found) = (&*out, vec![]);
    while let Some(WholeFrame { head, payload, rest: after }) = split_frame(rest, 8).expect("short")
    {
        found.push(read_frame(head, payload).expect("well-formed"));
        rest = after;
    }
    let expected = [
        Frame::RstStream { stream: 3, code: ErrorCode::NO_ERROR },
        Frame::PingAck(*b"abcdefgh"),
        Frame::Ping(*b"abcdefgh"),
        Frame::GoAway { last: WINDOW_BYTES_MAX, code: ErrorCode::INTERNAL_ERROR },
        Frame::WindowUpdate { stream: 0, bytes: 1 },
        Frame::WindowUpdate { stream: 3, bytes: WINDOW_BYTES_MAX },
    ];
    assert_eq!((&*found, rest), (&expected[..], &b""[..]));
}

/// Any bytes are frames or faults, and what a frame has is of its payload.
#[test]
fn any_frame_is_read_or_refused() {
    let mut dice = Dice(3);
    for _ in 0..20_000 {
        let len = dice.pick(&[0, 1, 2, 4, 5, 6, 7, 8, 9, 12, 30]);
        let payload: Vec<u8> = (0..len).map(|_| dice.byte() & dice.pick(&[0, 3, 0xff])).collect();
        let stream = dice.pick(&[0, 1, 2, WINDOW_BYTES_MAX]);
        let wire = frame(dice.pick(&KINDS), dice.byte(), stream, &payload);
        let WholeFrame { head, payload: found, .. } =
            split_frame(&wire, 30).expect("short").expect("whole");
        match read_frame(head, found) {
            Ok(Frame::Data { data, window_bytes, .. }) => {
                assert_eq!(window_bytes, head.bytes);
                assert!(data.len() <= payload.len());
            }
            Ok(Frame::Headers { block, .. } | Frame::Continuation { block, .. }) => {
                assert!(block.len() <= payload.len());
            }
            Ok(Frame::WindowUpdate { bytes, .. }) => {
                assert!((1..=WINDOW_BYTES_MAX).contains(&bytes));
            }
            Ok(Frame::PriorityUpdate { stream, .. }) => assert_ne!(stream, 0),
            Ok(_) => {}
            Err(fault) => {
                assert!(!fault.reason().is_empty() && fault.code() != ErrorCode::NO_ERROR);
                assert!(fault.stream().is_none_or(|stream| stream == head.stream));
            }
        }
    }
}

#[test]
fn codes_have_their_names() {
    for code in 0..14 {
        assert_ne!(ErrorCode(code).name(), "UNKNOWN", "{code}");
    }
    assert_eq!(ErrorCode(14).name(), "UNKNOWN");
    assert_eq!(ErrorCode::HTTP_1_1_REQUIRED.name(), "HTTP_1_1_REQUIRED");
}
