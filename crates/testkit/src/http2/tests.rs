//! The client against servers of a few frames each: it accepts right ones, and finds each fault.

use super::*;
use std::io;
use std::net::{Shutdown, TcpListener};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};

/// `:status: 200` from the static table.
const OK: u8 = 0x88;

/// Serves one connection by these bytes. The thread ends when the client has.
fn scripted(bytes: Vec<u8>, settings: Http2Settings) -> (Http2Client, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let socket = TcpStream::connect(listener.local_addr().expect("ours")).expect("connects");
    let server = thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a client");
        // A client that has found a fault is gone.
        let _ = socket.write_all(&bytes);
        let _ = socket.shutdown(Shutdown::Write);
        let _ = io::copy(&mut socket, &mut io::sink());
    });
    (Http2Client::begin(socket, settings), server)
}

/// Frames that begin every connection, and more.
fn after_settings(frames: &[Vec<u8>]) -> Vec<u8> {
    let settings = frame_bytes(kind::SETTINGS, 0, 0, &[]);
    let ack = frame_bytes(kind::SETTINGS, ACK, 0, &[]);
    [settings, ack, frames.concat()].concat()
}

fn headers(flags: u8, more: &[(&str, &str)]) -> Vec<u8> {
    let block = [vec![OK], Http2Client::encode(more)].concat();
    frame_bytes(kind::HEADERS, END_HEADERS | flags, 1, &block)
}

fn data(flags: u8, content: &[u8]) -> Vec<u8> {
    frame_bytes(kind::DATA, flags, 1, content)
}

#[test]
fn a_response_is_read() {
    let field = ("content-length", "6");
    let block = [vec![OK], Http2Client::encode(&[field])].concat();
    let (first, second) = block.split_at(4);
    let frames = [
        frame_bytes(kind::HEADERS, 0, 1, first),
        frame_bytes(kind::CONTINUATION, END_HEADERS, 1, second),
        data(PADDED, b"\x02sma\0\0"),
        data(END_STREAM, b"ll\n"),
        frame_bytes(kind::GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]),
    ];
    let (mut client, server) = scripted(after_settings(&frames), Http2Settings::default());
    let id = client.get("/small.txt");
    let answer = client.answer(id);
    assert_eq!((answer.status, &*answer.body), (200, &b"small\n"[..]));
    assert_eq!(answer.fields, [(field.0.to_owned(), field.1.to_owned())]);
    assert_eq!(client.read_end(), Http2End { goaway: Some(code::NO_ERROR), in_order: true });
    drop(client);
    server.join().expect("it served");
}

#[test]
fn ends_of_streams_differ() {
    let reset = frame_bytes(kind::RST_STREAM, 0, 1, &code::CANCEL.to_be_bytes());
    let goaway = frame_bytes(kind::GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 11]);
    let rows = [
        (reset, StreamOutcome::Reset(code::CANCEL)),
        (goaway, StreamOutcome::Lost),
        (headers(0, &[]), StreamOutcome::Lost),
    ];
    for (frame, expected) in rows {
        let (mut client, server) = scripted(after_settings(&[frame]), Http2Settings::default());
        let id = client.get("/");
        assert_eq!(client.outcome(id), expected);
        drop(client);
        server.join().expect("it served");
    }
}

/// Message of the client about a server of these bytes.
fn message(bytes: Vec<u8>) -> String {
    let settings = Http2Settings { opens_windows: false, ..Http2Settings::default() };
    let (mut client, server) = scripted(bytes, settings);
    client.get("/");
    let failed = catch_unwind(AssertUnwindSafe(|| client.read_end()));
    let why = failed.map_err(|why| why.downcast::<String>());
    drop(client);
    server.join().expect("it served");
    match why {
        Ok(end) => format!("{end:?}"),
        Err(why) => *why.expect("a text"),
    }
}

#[test]
fn each_fault_is_found() {
    let first = |kind, flags, id, payload: &[u8]| frame_bytes(kind, flags, id, payload);
    let reset = first(kind::RST_STREAM, 0, 1, &[0; 4]);
    let whole = || headers(END_STREAM, &[]);
    let goaway = |last: u8| frame_bytes(kind::GOAWAY, 0, 0, &[0, 0, 0, last, 0, 0, 0, 0]);
    let rows: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("after END_STREAM", vec![whole(), data(0, b"x")]),
        ("after END_STREAM", vec![whole(), whole()]),
        ("after RST_STREAM", vec![reset.clone(), data(0, b"x")]),
        ("RST_STREAM twice", vec![reset.clone(), reset.clone()]),
        ("a stream that is closed", vec![whole(), reset]),
        ("content before its head", vec![data(0, b"x")]),
        ("fields after the final head", vec![headers(0, &[]), whole()]),
        ("has not opened", vec![first(kind::DATA, 0, 3, b"x")]),
        ("has not opened", vec![first(kind::WINDOW_UPDATE, 0, 3, &[0, 0, 0, 1])]),
        ("an increment of 0", vec![first(kind::WINDOW_UPDATE, 0, 0, &[0; 4])]),
        ("2^31", vec![first(kind::WINDOW_UPDATE, 0, 0, &WINDOW_MAX.to_be_bytes())]),
        ("does not have 8 bytes", vec![first(kind::PING, 0, 0, &[0; 7])]),
        ("another acknowledgement", vec![first(kind::PING, ACK, 0, &[0; 8])]),
        ("one acknowledgement too many", vec![first(kind::SETTINGS, ACK, 0, &[])]),
        ("no multiple of 6", vec![first(kind::SETTINGS, 0, 0, &[0; 5])]),
        ("setting 2 is 1", vec![first(kind::SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 1])]),
        ("GOAWAY with a higher", vec![goaway(0), goaway(1)]),
        ("GOAWAY with a stream", vec![goaway(5)]),
        ("GOAWAY excludes", vec![whole(), goaway(0)]),
        ("that GOAWAY excludes", vec![goaway(0), whole()]),
        ("unknown flags", vec![first(kind::PING, 2, 0, &[0; 8])]),
        ("reserved bit", vec![first(kind::PING, 0, 1 << 31, &[0; 8])]),
        ("a frame of type 5", vec![first(kind::PUSH_PROMISE, 0, 1, &[0; 8])]),
        ("a frame of 16385 bytes", vec![first(kind::DATA, 0, 1, &[0; FRAME_BYTES + 1])]),
        ("within a field block", vec![first(kind::HEADERS, 0, 1, &[OK]), data(0, b"x")]),
        ("CONTINUATION without", vec![first(kind::CONTINUATION, END_HEADERS, 1, &[OK])]),
        ("index 0", vec![first(kind::HEADERS, END_HEADERS, 1, &[0x80])]),
        ("does not come first", vec![first(kind::HEADERS, END_HEADERS, 1, &[0x82])]),
        ("name \"A\"", vec![headers(0, &[("A", "b")])]),
        ("name \":path\"", vec![headers(0, &[(":path", "/")])]),
        ("a: \" b\"", vec![headers(0, &[("a", " b")])]),
        ("is of a connection", vec![headers(0, &[("keep-alive", "1")])]),
        ("a twice", vec![headers(0, &[("a", "b"), ("a", "b")])]),
        ("content is short", vec![headers(END_STREAM, &[("content-length", "1")])]),
        ("more content", vec![headers(0, &[("content-length", "1")]), data(0, b"xy")]),
        ("more padding", vec![headers(0, &[]), data(PADDED, b"\x02x")]),
        ("padding is not zero", vec![headers(0, &[]), data(PADDED, b"\x01xy")]),
        ("ends within a frame", vec![vec![0, 0, 9]]),
    ];
    for (expected, frames) in rows {
        let said = message(after_settings(&frames));
        assert!(said.contains(expected), "not {expected:?}: {said}");
    }
    assert!(message(whole()).contains("the first frame is not SETTINGS"));
}

#[test]
fn windows_are_counted() {
    let piece = || data(0, &[0; 16_000]);
    let most = vec![headers(0, &[]), piece(), piece(), piece(), piece()];
    // 64,000 of 65,535 bytes.
    let end = message(after_settings(&most));
    assert!(end.starts_with("Http2End"), "{end}");
    let more = [&most[..], &[data(0, &[0; 1536])]].concat();
    let said = message(after_settings(&more));
    assert!(said.contains("more bytes than the connection's window"), "{said}");
    let settings = Http2Settings { stream_window: 10, ..Http2Settings::default() };
    for (bytes, fits) in [(10, true), (11, false)] {
        let frames = after_settings(&[headers(0, &[]), data(END_STREAM, &vec![0; bytes])]);
        let (mut client, server) = scripted(frames, settings);
        let id = client.get("/");
        // The setting is known to the server once it is acknowledged.
        let read = catch_unwind(AssertUnwindSafe(|| client.answer(id)));
        assert_eq!(read.is_ok(), fits, "{bytes} bytes");
        drop(client);
        server.join().expect("it served");
    }
}
