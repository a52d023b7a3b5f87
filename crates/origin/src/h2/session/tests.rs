//! Sessions without I/O: frames in, and frames out.
mod files;
mod life;
mod rig;

use self::rig::{
    Client, Got, Rig, ask, ask_with_content, block, data, field, frame, get, pattern, request,
    reset, response, window,
};
use crate::{Protocol as _, ReplyOutcome, multi::LOAD_BYTES_MAX};
use alloc::{format, string::String, vec, vec::Vec};
use regatta_http::h2::{
    SettingId,
    frame::{END_HEADERS, END_STREAM, ErrorCode, FrameKind, PREFACE, WINDOW_BYTES_MAX, write_ping},
    write_settings,
};
use regatta_metrics::Counter;
use regatta_op::CloseReason;

const WINDOW: SettingId = SettingId::INITIAL_WINDOW_SIZE;

fn rig() -> Rig {
    Rig::new(|_| {})
}

/// A client that permits no bytes of `big.bin`. Its file is closed if the rig has none to spare.
fn stalled(rig: &Rig) -> Client<'_> {
    let mut client = rig.open(&[(WINDOW, 0)]);
    client.get(1, "/big.bin");
    assert_eq!(heads(&client.take()), [1]);
    client
}

/// Stream 1 has been reset in its body, and the connection serves others.
fn ends_alone(client: &mut Client<'_>, rig: &Rig) {
    assert_eq!(client.take(), [Got::Reset(1, ErrorCode::INTERNAL_ERROR)]);
    client.get(3, "/a.txt");
    client.send(&window(3, 10));
    assert_eq!(response(&client.take(), 3), content(10));
    let outcomes: Vec<_> = rig.log.0.borrow().iter().map(|record| record.2).collect();
    assert_eq!(outcomes, [ReplyOutcome::Truncated, ReplyOutcome::Complete]);
}

fn settings(settings: &[(SettingId, u32)]) -> Vec<u8> {
    let mut bytes = vec![];
    write_settings(&mut bytes, settings);
    bytes
}

fn ping() -> Vec<u8> {
    let mut bytes = vec![];
    write_ping(&mut bytes, *b"01234567", false);
    bytes
}

fn content(len: usize) -> (String, Vec<u8>) {
    ("200".into(), pattern(len))
}

/// The streams of heads, in their order.
fn heads(frames: &[Got]) -> Vec<u32> {
    let streams = frames.iter().filter_map(|got| match got {
        Got::Head { stream, .. } => Some(*stream),
        _ => None,
    });
    streams.collect()
}

/// The streams of DATA, in their order.
fn bodies(frames: &[Got]) -> Vec<u32> {
    let streams = frames.iter().filter_map(|got| match got {
        Got::Data { stream, .. } => Some(*stream),
        _ => None,
    });
    streams.collect()
}

/// The frames that do not permit content.
fn without_windows(mut frames: Vec<Got>) -> Vec<Got> {
    frames.retain(|got| !matches!(got, Got::Window(..)));
    frames
}

/// The connection ends with GOAWAY, and for this reason when the client closes it.
fn check_end(client: &mut Client<'_>, last: u32, code: ErrorCode, reason: CloseReason) {
    let frames = client.take();
    assert_eq!(frames.last(), Some(&Got::GoAway(last, code)), "{frames:?}");
    assert!(client.is_shut && client.closed.is_none());
    client.end();
    assert_eq!(client.closed, Some(reason));
}

#[test]
fn the_first_send_has_our_settings() {
    let rig = rig();
    let mut client = rig.connect();
    let expected = settings(&[
        (SettingId::MAX_CONCURRENT_STREAMS, 100),
        (WINDOW, 65_537),
        (SettingId::MAX_HEADER_LIST_SIZE, 16 << 10),
        (SettingId::NO_RFC7540_PRIORITIES, 1),
    ]);
    assert_eq!(client.take(), [Got::Settings(expected[9..].to_vec())]);
    for byte in PREFACE {
        client.send(&[*byte]);
    }
    for byte in settings(&[]).iter().chain(&ping()) {
        client.send(&[*byte]);
    }
    assert_eq!(client.take(), [Got::Ack, Got::Pong(*b"01234567")]);
    assert!(client.session.is_idle() && !client.session.tries_again());
    assert_eq!(rig.count(Counter::ConnectionsHttp2), 1);
    client.end();
    assert_eq!(client.closed, Some(CloseReason::PeerClosed));
}

#[test]
fn other_beginnings_end_the_connection() {
    for begin in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), [&PREFACE[..], &ping()].concat()] {
        let rig = rig();
        let mut client = rig.connect();
        client.send(&begin);
        check_end(&mut client, 0, ErrorCode::PROTOCOL_ERROR, CloseReason::BadRequest);
    }
    let rig = rig();
    let mut client = rig.connect();
    client.send(&PREFACE[..5]);
    client.end();
    assert_eq!(client.closed, Some(CloseReason::PeerAborted));
}

#[test]
fn bytes_before_the_session_count_too() {
    let rig = rig();
    let mut client = rig.connect();
    let bytes = [&PREFACE[..], &settings(&[]), &get(1, "/a.txt")].concat();
    client.session.receive(&bytes[..30], rig.now(), &rig.cx());
    client.session.receive(&bytes[30..], rig.now(), &rig.cx());
    client.run();
    assert_eq!(response(&client.take(), 1), content(10));
}

#[test]
fn requests_are_answered() {
    let rig = rig();
    let mut client = rig.open(&[]);
    client.get(1, "/a.txt");
    let frames = client.take();
    assert_eq!(response(&frames, 1), content(10));
    assert_eq!(field(&frames, 1, "content-length").as_deref(), Some("10"));
    assert_eq!(field(&frames, 1, "connection"), None);
    let etag = field(&frames, 1, "etag").expect("a file has a tag");
    client.get(3, "/a.txt");
    assert_eq!(response(&client.take(), 3), content(10));
    assert_eq!((rig.count(Counter::Opens), rig.count(Counter::CacheHits)), (1, 1));
    client.send(&ask(5, &request("HEAD", "/a.txt", &[])));
    client.send(&ask(7, &request("GET", "/a.txt", &[("if-none-match", &etag)])));
    client.send(&ask(9, &request("OPTIONS", "*", &[])));
    client.get(11, "/empty.txt");
    let frames = client.take();
    for (stream, status) in [(5, "200"), (7, "304"), (9, "204"), (11, "200")] {
        assert_eq!(response(&frames, stream), (status.into(), vec![]));
    }
    assert_eq!(frames.len(), 4, "the head ends a response without a body: {frames:?}");
    client.send(&ask(13, &request("GET", "/a.txt", &[("range", "bytes=2-4")])));
    assert_eq!(response(&client.take(), 13), ("206".into(), pattern(10)[2..5].to_vec()));
    client.get(15, "/none");
    client.send(&ask(17, &request("PATCH", "/a.txt", &[])));
    let frames = client.take();
    assert_eq!(response(&frames, 15).0, "404");
    assert_eq!(response(&frames, 17).0, "405");
    assert!(client.session.is_idle());
    let counts = [Counter::Requests, Counter::Replies, Counter::StreamsOpened];
    assert_eq!(counts.map(|counter| rig.count(counter)), [9; 3]);
    assert_eq!(client.session.requests(), 9);
    let log = rig.log.0.borrow();
    let line = String::from("GET /a.txt HTTP/2.0");
    assert_eq!(log[0], (line, 200, ReplyOutcome::Complete, 10));
    assert_eq!(log.len(), 9);
}

#[test]
fn heads_over_a_limit_are_refused() {
    let rig = rig();
    let mut client = rig.open(&[]);
    let long = "x".repeat(17_000);
    client.send(&ask(1, &request("GET", "/a.txt", &[("x-long", &long)])));
    assert_eq!(response(&client.take(), 1).0, "431");
    let long = format!("/{}", "x".repeat(9_000));
    client.get(3, &long);
    assert_eq!(response(&client.take(), 3).0, "414");
    client.get(5, "/a.txt");
    assert_eq!(response(&client.take(), 5), content(10));
}

/// A block of references to fields in a table costs its client a byte for each.
#[test]
fn many_heads_over_a_limit_end_the_connection() {
    let rig = rig();
    let mut client = rig.open(&[]);
    let bomb = |stream| {
        let block = [&request("GET", "/a.txt", &[])[..], &[0x90; 10_000]].concat();
        ask(stream, &block)
    };
    for at in 0..100 {
        let stream = 2 * at + 1;
        client.send(&bomb(stream));
        assert_eq!(response(&client.take(), stream).0, "431");
    }
    client.send(&bomb(201));
    check_end(&mut client, 201, ErrorCode::ENHANCE_YOUR_CALM, CloseReason::BadRequest);
    assert_eq!(rig.count(Counter::Http2Glitches), 101);
}

#[test]
fn bodies_of_files_are_read_within_the_windows() {
    let rig = rig();
    let mut client = rig.open(&[]);
    client.get(1, "/big.bin");
    let mut frames = client.take();
    for _ in 0..3 {
        client.send(&[window(0, 65_535), window(1, 65_535)].concat());
        frames.extend(client.take());
    }
    assert_eq!(response(&frames, 1), content(200_000));
    let lengths = frames.iter().filter_map(|got| match got {
        Got::Data { bytes, .. } => Some(bytes.len()),
        _ => None,
    });
    assert!(lengths.max() <= Some(16_375));
    assert_eq!(client.reads.iter().sum::<u64>(), 200_000);
    assert!(client.reads.iter().all(|read| *read <= LOAD_BYTES_MAX), "{:?}", client.reads);
    assert!(client.sends.iter().all(|send| *send <= 64 << 10), "{:?}", client.sends);
    assert!(client.session.is_idle());
}

#[test]
fn streams_without_a_window_keep_no_buffer() {
    let rig = rig();
    let mut client = rig.open(&[(WINDOW, 0)]);
    client.get(1, "/a.txt");
    client.get(3, "/big.bin");
    assert_eq!(heads(&client.take()), [1, 3]);
    let places: Vec<_> = client.session.streams.all().places().collect();
    assert_eq!(places.len(), 2);
    for at in places {
        assert_eq!(client.session.streams.get_mut(at).take_used_head(), None);
    }
    client.send(&window(1, 10));
    assert_eq!(bodies(&client.take()), [1]);
}

/// A table of fields makes long texts cheap for the client.
#[test]
fn stalled_streams_keep_little_text_for_the_log() {
    let long = "x".repeat(3_000);
    let more = &[("referer", &*long), ("user-agent", &*long)];
    let ask_at = |stream| ask(stream, &request("GET", "/b.txt", more));
    let kept = |client: &Client<'_>| {
        let streams = &client.session.streams;
        let exchanges = streams.all().places().filter_map(|at| streams.get(at).ongoing.as_ref());
        exchanges.map(|ongoing| ongoing.exchange.capacity()).collect::<Vec<_>>()
    };
    let rig = rig();
    let mut client = rig.open(&[(WINDOW, 0)]);
    client.send(&ask_at(1));
    assert!(kept(&client)[0] > 6_000, "the text of a request alone is whole");
    client.send(&(1..100).flat_map(|at| ask_at(2 * at + 1)).collect::<Vec<_>>());
    assert_eq!(heads(&client.take()).len(), 100);
    let bytes = kept(&client);
    assert_eq!(bytes.len(), 100);
    assert!(bytes.iter().sum::<usize>() <= 160 << 10, "{bytes:?}");
    // A buffer that another request has left is not kept.
    let (mut other, mut stalled) = (rig.open(&[]), rig.open(&[(WINDOW, 0)]));
    other.send(&ask_at(1));
    assert_eq!(response(&other.take(), 1), content(20));
    stalled.get(1, "/b.txt");
    assert!(kept(&stalled)[0] <= 1_024, "{:?}", kept(&stalled));
}

#[test]
fn several_files_share_the_windows() {
    let rig = rig();
    let mut client = rig.open(&[(WINDOW, 1 << 20)]);
    let more = &[("priority", "i")];
    let asks = [1, 3, 5].map(|stream| ask(stream, &request("GET", "/big.bin", more)));
    client.send(&asks.concat());
    let mut frames = client.take();
    let sent = |frames: &[Got]| {
        let lengths = frames.iter().map(|got| match got {
            Got::Data { bytes, .. } => bytes.len(),
            _ => 0,
        });
        lengths.sum::<usize>()
    };
    assert_eq!(sent(&frames), 65_535);
    client.get(7, "/a.txt");
    client.send(&window(0, 10));
    client.send(&window(0, 1 << 20));
    frames.extend(client.take());
    for stream in [1, 3, 5] {
        assert_eq!(response(&frames, stream), content(200_000));
    }
    assert_eq!(response(&frames, 7), content(10));
    assert_eq!(sent(&frames), 600_010);
}

#[test]
fn a_read_that_brings_too_little_ends_its_stream_alone() {
    let rig = rig();
    let mut client = stalled(&rig);
    rig.file("big.bin").truncate(1_000);
    client.send(&window(1, 65_535));
    ends_alone(&mut client, &rig);
    assert_eq!((rig.count(Counter::Replies), rig.count(Counter::RepliesCut)), (1, 1));
}

#[test]
fn windows_may_be_empty_and_negative() {
    let rig = rig();
    let mut client = rig.open(&[(WINDOW, 10)]);
    client.get(1, "/b.txt");
    let mut frames = client.take();
    assert_eq!(bodies(&frames), [1]);
    // Five bytes more than the client permits now.
    client.send(&settings(&[(WINDOW, 5)]));
    client.send(&window(1, 5));
    assert_eq!(client.take(), [Got::Ack]);
    client.send(&window(1, 1));
    frames.extend(client.take());
    assert_eq!(bodies(&frames), [1, 1]);
    client.send(&settings(&[(WINDOW, 100)]));
    frames.extend(client.take());
    assert_eq!(response(&frames, 1), content(20));
}

#[test]
fn windows_have_a_largest_size() {
    let most = WINDOW_BYTES_MAX;
    let rows = [
        ([window(1, most), window(1, most)].concat(), None),
        ([window(1, most), settings(&[(WINDOW, 1)])].concat(), Some(1)),
        (window(0, most), Some(1)),
        (settings(&[(WINDOW, most + 1)]), Some(1)),
    ];
    for (bytes, goaway) in rows {
        let rig = rig();
        let mut client = rig.open(&[(WINDOW, 0)]);
        client.get(1, "/b.txt");
        client.take();
        client.send(&bytes);
        let code = ErrorCode::FLOW_CONTROL_ERROR;
        match goaway {
            Some(last) => check_end(&mut client, last, code, CloseReason::BadRequest),
            None => assert_eq!(client.take(), [Got::Reset(1, code)]),
        }
    }
}

/// A connection with two open streams: the request of the first has ended, that of the other has
/// not.
fn with_streams(rig: &Rig) -> Client<'_> {
    let mut client = rig.open(&[(WINDOW, 0)]);
    client.get(1, "/b.txt");
    client.send(&ask_with_content(3, &request("POST", "/b.txt", &[])));
    assert_eq!(heads(&client.take()), [1, 3]);
    client
}

#[test]
fn faults_of_the_connection_end_it() {
    let protocol = ErrorCode::PROTOCOL_ERROR;
    let (size, compression) = (ErrorCode::FRAME_SIZE_ERROR, ErrorCode::COMPRESSION_ERROR);
    let whole = request("GET", "/a.txt", &[]);
    let part = frame(FrameKind::Headers, END_STREAM, 5, &whole[..3]);
    let rest = |stream| frame(FrameKind::Continuation, END_HEADERS, stream, &whole[3..]);
    let priority = frame(FrameKind::PriorityUpdate, 0, 0, b"\0\0\0\x02u=0");
    let rows: [(&str, Vec<u8>, ErrorCode); 20] = [
        ("DATA, idle", data(5, 1, true), protocol),
        ("RST_STREAM, idle", reset(5), protocol),
        ("WINDOW_UPDATE, idle", window(5, 1), protocol),
        ("no room, idle", window(5, 0), protocol),
        ("even", get(4, "/a.txt"), protocol),
        ("even and lower", get(2, "/a.txt"), protocol),
        ("lower", [get(9, "/a.txt"), get(5, "/a.txt")].concat(), protocol),
        ("DATA, connection", data(0, 1, true), protocol),
        ("SETTINGS, stream", frame(FrameKind::Settings, 0, 1, &[]), protocol),
        ("SETTINGS, length", frame(FrameKind::Settings, 0, 0, &[0; 5]), size),
        ("SETTINGS, value", settings(&[(SettingId::ENABLE_PUSH, 2)]), protocol),
        ("PING, length", frame(FrameKind::Ping, 0, 0, &[0; 7]), size),
        ("no room", window(0, 0), protocol),
        ("too long", data(3, 16_385, false), size),
        ("PUSH_PROMISE", frame(FrameKind::PushPromise, 4, 1, &[0; 8]), protocol),
        ("PRIORITY_UPDATE, push", priority, protocol),
        ("block", ask(5, &[0x80]), compression),
        ("CONTINUATION", rest(3), protocol),
        ("within a block", [part.clone(), ping()].concat(), protocol),
        ("other stream", [part, rest(7)].concat(), protocol),
    ];
    for (name, bytes, code) in rows {
        let rig = rig();
        let mut client = with_streams(&rig);
        client.send(&bytes);
        let frames = client.take();
        let last = frames.last().cloned();
        assert!(matches!(last, Some(Got::GoAway(_, found)) if found == code), "{name}: {frames:?}");
        assert!(client.is_shut, "{name}");
        let [replies, cut] = [Counter::Replies, Counter::RepliesCut].map(|it| rig.count(it));
        assert_eq!(replies + cut, rig.count(Counter::Requests), "{name}");
        assert_eq!(rig.log.0.borrow().len() as u64, replies + cut, "{name}");
    }
}

#[test]
fn frames_of_closed_streams_end_the_connection() {
    for bytes in [data(1, 1, true), get(1, "/a.txt")] {
        let rig = rig();
        let mut client = rig.open(&[]);
        client.get(1, "/a.txt");
        client.send(&[window(1, 5), reset(1), frame(FrameKind::Priority, 0, 1, &[0; 5])].concat());
        client.take();
        client.send(&bytes);
        check_end(&mut client, 1, ErrorCode::STREAM_CLOSED, CloseReason::BadRequest);
    }
}

#[test]
fn faults_of_a_stream_end_it_alone() {
    let (closed, protocol) = (ErrorCode::STREAM_CLOSED, ErrorCode::PROTOCOL_ERROR);
    let trailers = |flags| frame(FrameKind::Headers, flags, 3, &block(&[("x-t", "1")]));
    let no_path = block(&[(":method", "GET"), (":scheme", "https"), (":authority", "a")]);
    let pseudo = block(&[(":path", "/")]);
    let rows: [(Vec<u8>, u32, ErrorCode); 8] = [
        (data(1, 1, true), 1, closed),
        (get(1, "/a.txt"), 1, closed),
        (window(1, 0), 1, protocol),
        (trailers(END_HEADERS), 3, protocol),
        (frame(FrameKind::Headers, END_HEADERS | END_STREAM, 3, &pseudo), 3, protocol),
        (ask(5, &no_path), 5, protocol),
        (ask(5, &request("GET", "/", &[("connection", "close")])), 5, protocol),
        (ask(5, &request("POST", "/", &[("content-length", "5")])), 5, protocol),
    ];
    for (bytes, stream, code) in rows {
        let rig = rig();
        let mut client = with_streams(&rig);
        client.send(&[bytes, ping()].concat());
        let expected = [Got::Reset(stream, code), Got::Pong(*b"01234567")];
        assert_eq!(without_windows(client.take()), expected);
        assert_eq!(rig.count(Counter::StreamsResetByUs), 1);
        let others = [1, 3].into_iter().filter(|other| *other != stream).count();
        assert_eq!(client.session.streams.in_use().len() as usize, others);
    }
    let rig = rig();
    let mut client = with_streams(&rig);
    client.send(&[data(3, 5, false), trailers(END_HEADERS | END_STREAM), ping()].concat());
    assert_eq!(without_windows(client.take()), [Got::Pong(*b"01234567")]);
}

#[test]
fn blocks_may_come_in_parts() {
    let rig = rig();
    let mut client = rig.open(&[]);
    let whole = request("GET", "/a.txt", &[("x-other", "something")]);
    let (first, rest) = whole.split_at(4);
    let (second, third) = rest.split_at(5);
    client.send(&frame(FrameKind::Headers, END_STREAM, 1, first));
    assert!(!client.session.is_idle());
    client.send(&frame(FrameKind::Continuation, 0, 1, second));
    client.send(&frame(FrameKind::Continuation, END_HEADERS, 1, third));
    assert_eq!(response(&client.take(), 1), content(10));
    // Too many parts.
    client.send(&frame(FrameKind::Headers, END_STREAM, 3, first));
    (0..9).for_each(|_| client.send(&frame(FrameKind::Continuation, 0, 3, &second[..0])));
    check_end(&mut client, 1, ErrorCode::ENHANCE_YOUR_CALM, CloseReason::BadRequest);
    assert_eq!(rig.count(Counter::Http2Calmed), 1);
}

/// A client may send heads of the length that the settings of the server state.
#[test]
fn blocks_may_have_the_parts_that_long_heads_need() {
    let rig = Rig::new(|site| site.limits.head_bytes_max = 256 << 10);
    let mut client = rig.open(&[]);
    let whole = request("GET", "/a.txt", &[("x-long", &"~".repeat(200_000))]);
    let mut parts = whole.chunks(16_384);
    let first = parts.next().expect("it is long");
    client.send(&frame(FrameKind::Headers, END_STREAM, 1, first));
    let count = parts.len();
    assert!(count > 8);
    for (at, part) in parts.enumerate() {
        let flags = if at + 1 == count { END_HEADERS } else { 0 };
        client.send(&frame(FrameKind::Continuation, flags, 1, part));
    }
    assert_eq!(response(&client.take(), 1), content(10));
}

#[test]
fn a_reset_stream_keeps_its_place_until_the_disk_answers() {
    let rig = Rig::new(|site| site.http2.streams_max = 1);
    let mut client = rig.open(&[]);
    client.holds_disk = true;
    client.get(1, "/a.txt");
    client.send(&reset(1));
    client.get(3, "/b.txt");
    assert_eq!(client.take(), [Got::Reset(3, ErrorCode::REFUSED_STREAM)]);
    client.finish_disk();
    client.get(5, "/b.txt");
    let frames = client.take();
    assert_eq!((heads(&frames), response(&frames, 5)), (vec![5], content(20)));
    let counters = [Counter::StreamsResetByClient, Counter::StreamsRefused, Counter::RepliesCut];
    assert_eq!(counters.map(|counter| rig.count(counter)), [1; 3]);
    let line = String::from("GET /a.txt HTTP/2.0");
    assert_eq!(rig.log.0.borrow()[0], (line, 0, ReplyOutcome::Aborted, 0));
    assert!(client.session.is_idle());
}

#[test]
fn a_stream_that_is_reset_while_its_body_is_read_sends_nothing_more() {
    let rig = rig();
    let mut client = rig.open(&[(WINDOW, 0)]);
    client.get(1, "/big.bin");
    client.holds_disk = true;
    client.send(&window(1, 50_000));
    assert_eq!((client.disk.len(), heads(&client.take())), (1, vec![1]));
    client.send(&reset(1));
    client.finish_disk();
    client.get(3, "/a.txt");
    client.send(&window(3, 10));
    let frames = client.take();
    assert_eq!((response(&frames, 3), bodies(&frames)), (content(10), vec![3]));
    // What was read and not sent does not count against the window of the connection.
    client.get(5, "/big.bin");
    client.send(&window(5, 65_525));
    let lengths = client.take().into_iter().map(|got| match got {
        Got::Data { bytes, .. } => bytes.len(),
        _ => 0,
    });
    assert_eq!(lengths.sum::<usize>(), 65_525);
}

#[test]
fn urgent_responses_overtake_others() {
    let rig = rig();
    let mut client = rig.open(&[(WINDOW, 1 << 20)]);
    client.send(&window(0, 1 << 20));
    client.get(1, "/mid.bin");
    client.take();
    client.holds_send = true;
    client.get(3, "/mid.bin");
    assert!(client.recv, "requests are received while a response is sent");
    let ask =
        |stream, priority| ask(stream, &request("GET", "/mid.bin", &[("priority", priority)]));
    client.send(&[ask(5, "u=5"), ask(7, "u=1"), ask(9, "u=6")].concat());
    client.send(&frame(FrameKind::PriorityUpdate, 0, 0, b"\0\0\0\x09u=0"));
    client.finish_send();
    assert_eq!(heads(&client.take()), [3, 9, 7, 5]);
    // Incremental ones alternate, and others do not.
    client.send(&[ask(11, "i"), ask(13, "i")].concat());
    let turns = bodies(&client.take());
    assert!(turns[0] != turns[1] && turns[..2] == turns[2..4], "{turns:?}");
    client.send(&[ask(15, "u=3"), ask(17, "u=3")].concat());
    assert_eq!(bodies(&client.take())[..3], [15; 3]);
}

/// More requests than the disk has tickets do not keep a body from its windows.
#[test]
fn a_body_in_a_file_is_read_between_requests() {
    let rig = rig();
    let mut client = rig.open(&[(WINDOW, 0)]);
    client.get(1, "/big.bin");
    client.holds_disk = true;
    (1..9).for_each(|at| client.get(2 * at + 1, &format!("/{at}")));
    client.send(&window(1, 65_535));
    assert_eq!((client.disk.len(), &client.reads[..]), (4, &[][..]));
    client.perform_one();
    assert_eq!((client.disk.len(), &client.reads[..]), (4, &[65_535][..]));
    client.finish_disk();
    assert_eq!(heads(&client.take()).len(), 9);
}

/// A `Send` has room for four long frames. The fifth stream is the first of the next `Send`.
#[test]
fn no_incremental_response_loses_its_turn_for_want_of_room() {
    let rig = rig();
    let mut client = rig.open(&[(WINDOW, 1 << 20)]);
    client.send(&window(0, 1 << 20));
    client.get(1, "/mid.bin");
    client.take();
    let more = &[("priority", "i")];
    let asks = [3, 5, 7, 9, 11].map(|stream| ask(stream, &request("GET", "/mid.bin", more)));
    client.send(&asks.concat());
    let mut turns = bodies(&client.take());
    turns.truncate(5);
    turns.sort_unstable();
    assert_eq!(turns, [3, 5, 7, 9, 11]);
}

#[test]
fn many_requests_at_once_are_answered() {
    let rig = rig();
    let mut client = rig.open(&[]);
    client.get(1, "/a.txt");
    let streams: Vec<u32> = (1..151).map(|at| 2 * at + 1).collect();
    let asks: Vec<_> = streams.iter().map(|stream| get(*stream, "/a.txt")).collect();
    client.send(&asks.concat());
    let frames = client.take();
    assert!(streams.iter().all(|stream| response(&frames, *stream) == content(10)));
    assert_eq!(rig.count(Counter::Replies), 151);
    assert!(client.session.is_idle() && client.recv);
    // More than are allowed, while the disk answers nothing.
    client.holds_disk = true;
    (0..101).for_each(|at| client.get(2 * at + 303, &format!("/{at}")));
    assert_eq!(client.take(), [Got::Reset(503, ErrorCode::REFUSED_STREAM)]);
    assert_eq!(client.disk.len(), 4);
    client.finish_disk();
    assert_eq!(heads(&client.take()).len(), 100);
}

#[test]
fn streams_of_a_worker_that_wait_are_bounded() {
    let rig = Rig::new(|site| site.http2.exchanges_max = 2);
    let [mut one, mut other] = [rig.open(&[]), rig.open(&[])];
    one.get(1, "/a.txt");
    (one.holds_disk, other.holds_disk) = (true, true);
    one.get(3, "/b.txt");
    other.get(1, "/mid.bin");
    other.get(3, "/empty.txt");
    // A cached file needs no disk.
    one.get(5, "/a.txt");
    assert_eq!(heads(&one.take()), [1, 5]);
    assert_eq!(other.take(), [Got::Reset(3, ErrorCode::REFUSED_STREAM)]);
    one.send(&reset(3));
    one.finish_disk();
    other.get(5, "/empty.txt");
    other.finish_disk();
    let mut answered = heads(&other.take());
    answered.sort_unstable();
    assert_eq!(answered, [1, 5]);
    assert_eq!(rig.count(Counter::StreamsRefused), 1);
}

#[test]
fn content_is_discarded() {
    let rig = rig();
    let mut client = rig.open(&[]);
    let post = |more| request("POST", "/a.txt", more);
    client.send(&ask_with_content(1, &post(&[("content-length", "20000")])));
    client.send(&data(1, 10_000, false));
    client.send(&data(1, 10_000, true));
    let frames = client.take();
    assert_eq!(response(&frames, 1).0, "405");
    assert_eq!(frames.last(), Some(&Got::Window(0, 20_000)));
    assert!(client.session.is_idle());
    // The request does not end.
    client.send(&ask_with_content(3, &post(&[])));
    client.take();
    client.pass(2_000, 0);
    assert_eq!(client.take(), [Got::Reset(3, ErrorCode::NO_ERROR)]);
    // Bytes that were on their way are ignored.
    client.send(&[data(3, 5, false), window(3, 5), data(3, 5, true)].concat());
    assert!(client.take().is_empty());
    // It is longer, or shorter, than it says.
    for (stream, bytes) in [(5, 3), (7, 9)] {
        client.send(&ask_with_content(stream, &post(&[("content-length", "5")])));
        client.send(&data(stream, bytes, true));
        let reset = Got::Reset(stream, ErrorCode::PROTOCOL_ERROR);
        assert_eq!(without_windows(client.take()).last(), Some(&reset));
    }
    assert!(client.session.is_idle());
}

#[test]
fn content_that_is_not_wanted_is_stopped() {
    let rig = rig();
    for (field, status) in
        [(("expect", "100-continue"), "405"), (("content-length", "70000"), "405")]
    {
        let mut client = rig.open(&[]);
        client.send(&ask_with_content(1, &request("POST", "/a.txt", &[field])));
        let frames = client.take();
        assert_eq!(response(&frames, 1).0, status);
        assert_eq!(frames.last(), Some(&Got::Reset(1, ErrorCode::NO_ERROR)));
        assert!(client.session.is_idle());
    }
    assert_eq!(rig.count(Counter::StreamsResetByUs), 0, "the responses were complete");
    // The limit is passed while the disk is at work.
    let mut client = rig.open(&[]);
    client.holds_disk = true;
    client.send(&ask_with_content(1, &request("GET", "/a.txt", &[])));
    (0..4).for_each(|_| client.send(&data(1, 16_384, false)));
    assert_eq!(client.take(), vec![Got::Window(0, 16_384); 4]);
    client.send(&data(1, 1, false));
    client.finish_disk();
    let frames = client.take();
    assert_eq!(response(&frames, 1).0, "413");
    assert_eq!(frames.last(), Some(&Got::Reset(1, ErrorCode::NO_ERROR)));
}
