//! Loads by HTTP/2: streams of a connection, against a server whose answers are scripted here.

use crate::secure::Trust;
use crate::{closed, load, ms, open, options, try_load};
use regatta_http::h2::frame::{self, ErrorCode, Frame, FrameHead, FrameKind};
use regatta_http::h2::hpack::{HpackDecoder, TABLE_BYTES_DEFAULT, write_field};
use regatta_http::h2::{SettingId, write_settings};
use regatta_load::engine::{Fate, LoadOptions, Plan, ProtocolOptions, RequestOptions, Verify};
use regatta_load::workload::content::Content;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Reaction to a request.
enum Say {
    /// 200 with this content, in frames of 10,000 bytes.
    Content(Vec<u8>),
    Nothing,
    Reset(ErrorCode),
    /// The connection ends; this request and later ones were not begun.
    GoAway,
}

/// A request: its fields, the bytes of its content, and its number on the server.
struct Asked {
    fields: Vec<(String, String)>,
    content: u64,
    number: u64,
}

type Script = dyn Fn(&Asked) -> Say + Send + Sync;

/// Serves until the process ends.
fn serve(
    streams_max: u32,
    tls: Option<ServerConfig>,
    script: impl Fn(&Asked) -> Say + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let (script, tls, number): (Arc<Script>, _, _) =
        (Arc::new(script), tls.map(Arc::new), Arc::<AtomicU64>::default());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let (script, tls, number) = (Arc::clone(&script), tls.clone(), Arc::clone(&number));
            std::thread::spawn(move || {
                stream.set_nodelay(true).unwrap();
                let session = tls.map(|tls| ServerConnection::new(tls).unwrap());
                // The client may be gone.
                let _ = match session {
                    None => Conn::talk(stream, streams_max, &*script, &number),
                    Some(session) => {
                        let stream = StreamOwned::new(session, stream);
                        Conn::talk(stream, streams_max, &*script, &number)
                    }
                };
            });
        }
    });
    addr
}

struct Conn<'a, S> {
    stream: S,
    decoder: HpackDecoder,
    /// Requests whose content is not complete.
    open: Vec<(u32, Asked)>,
    script: &'a Script,
    number: &'a AtomicU64,
}

impl<'a, S: Read + Write> Conn<'a, S> {
    fn talk(
        stream: S,
        streams_max: u32,
        script: &'a Script,
        number: &'a AtomicU64,
    ) -> io::Result<()> {
        let decoder = HpackDecoder::for_client(TABLE_BYTES_DEFAULT);
        let mut conn = Self { stream, decoder, open: Vec::new(), script, number };
        conn.stream.read_exact(&mut [0; frame::PREFACE.len()])?;
        let mut out = Vec::new();
        write_settings(&mut out, &[(SettingId::MAX_CONCURRENT_STREAMS, streams_max)]);
        frame::write_ping(&mut out, *b"are you?", false);
        conn.send(&out)?;
        loop {
            let mut head = [0; frame::FRAME_HEAD_BYTES];
            conn.stream.read_exact(&mut head)?;
            let head = FrameHead::read(&head).unwrap();
            let mut payload = vec![0; head.bytes as usize];
            conn.stream.read_exact(&mut payload)?;
            conn.take(frame::read_frame(head, &payload).unwrap())?;
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    fn take(&mut self, read: Frame<'_>) -> io::Result<()> {
        match read {
            Frame::Headers { stream, block, ends_stream, ends_block } => {
                assert!(ends_block);
                let mut fields = Vec::new();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                let read = self.decoder.read_fields(block, |name, value| {
                    fields.push((text(name), text(value)));
                });
                read.unwrap();
                let number = self.number.fetch_add(1, Ordering::Relaxed);
                self.open.push((stream, Asked { fields, content: 0, number }));
                if ends_stream { self.answer(stream) } else { Ok(()) }
            }
            Frame::Data { stream, data, window_bytes, ends_stream } => {
                let at = self.open.iter().position(|(id, _)| *id == stream).unwrap();
                self.open[at].1.content += data.len() as u64;
                if ends_stream {
                    return self.answer(stream);
                }
                let mut out = Vec::new();
                frame::write_window_update(&mut out, stream, window_bytes);
                frame::write_window_update(&mut out, 0, window_bytes);
                self.send(&out)
            }
            Frame::PingAck(bytes) => {
                assert_eq!(&bytes, b"are you?");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn answer(&mut self, stream: u32) -> io::Result<()> {
        let at = self.open.iter().position(|(id, _)| *id == stream).unwrap();
        let (_, asked) = self.open.remove(at);
        let mut out = Vec::new();
        match (self.script)(&asked) {
            Say::Nothing => {}
            Say::Reset(code) => frame::write_rst_stream(&mut out, stream, code),
            Say::GoAway => {
                frame::write_goaway(&mut out, stream - 2, ErrorCode::NO_ERROR);
                self.send(&out)?;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            Say::Content(content) => {
                let mut block = Vec::new();
                write_field(&mut block, ":status", b"200");
                write_field(&mut block, "content-length", content.len().to_string().as_bytes());
                let is_head = asked.fields.contains(&(":method".to_owned(), "HEAD".to_owned()));
                let empty = content.is_empty() || is_head;
                let ends = if empty { frame::END_STREAM } else { 0 };
                // In two pieces: HEADERS and CONTINUATION.
                let (first, second) = block.split_at(1);
                for (kind, flags, part) in [
                    (FrameKind::Headers, ends, first),
                    (FrameKind::Continuation, frame::END_HEADERS, second),
                ] {
                    write(&mut out, kind, flags, stream, part);
                }
                let pieces = content.chunks(10_000);
                let last = pieces.len().saturating_sub(1);
                for (number, piece) in pieces.enumerate().filter(|_| !is_head) {
                    let flags = if number == last { frame::END_STREAM } else { 0 };
                    write(&mut out, FrameKind::Data, flags, stream, piece);
                }
            }
        }
        self.send(&out)
    }
}

fn write(out: &mut Vec<u8>, kind: FrameKind, flags: u8, stream: u32, payload: &[u8]) {
    let bytes = u32::try_from(payload.len()).unwrap();
    frame::write_head(out, FrameHead { bytes, kind, flags, stream });
    out.extend_from_slice(payload);
}

fn by_http2(scheme: &str, addr: SocketAddr, connections: u32, streams: u32) -> LoadOptions {
    let protocol = ProtocolOptions { http2: true, http1: false, streams: Some(streams) };
    let url = format!("{scheme}://{addr}/file");
    LoadOptions { protocol, ..options(&url, closed(connections)) }
}

/// 100,000 bytes, as the workload has them at this path; those of request 7 are wrong.
fn file(asked: &Asked) -> Say {
    let mut bytes = vec![0; 100_000];
    Content::new("/file").fill(0, &mut bytes);
    if asked.number == 7 {
        bytes[99_999] ^= 1;
    }
    Say::Content(bytes)
}

#[test]
fn many_streams_share_few_connections() {
    let trust = Trust::new();
    let mut config = trust.config(None);
    config.alpn_protocols = vec![b"h2".to_vec()];
    for (scheme, tls) in [("http", None), ("https", Some(config))] {
        let secure = tls.is_some();
        let addr = serve(100, tls, file);
        let options = LoadOptions {
            verify: Some(Verify::Generated),
            count: Some(100),
            ..by_http2(scheme, addr, 2, 8)
        };
        let tls = if secure { trust.options() } else { options.tls.clone() };
        let outcome = load(&LoadOptions { tls, ..options });
        let fates = outcome.fates;
        assert_eq!((fates.get(Fate::Good), fates.get(Fate::WrongBytes)), (99, 1), "{fates:?}");
        assert_eq!((outcome.connected, outcome.protocol.as_str()), (2, "h2"), "{scheme}");
        assert_eq!(outcome.verified, 100);
        assert!(outcome.load.starts_with("2 connections of 8 streams"), "{}", outcome.load);
        if let Some(tls) = outcome.tls {
            assert!(tls.agreed.ends_with(", h2") && tls.full == 2, "{tls:?}");
        }
    }
}

#[test]
fn a_server_of_http1_is_named() {
    let trust = Trust::new();
    let addr = serve(100, Some(trust.config(None)), file);
    let options = LoadOptions { tls: trust.options(), ..by_http2("https", addr, 1, 1) };
    let problem = try_load(&options).unwrap_err();
    assert!(problem.contains("does not agree to HTTP/2"), "{problem}");
    let server = crate::server::Server::new(|_| crate::server::Answer::ok(b"x"));
    let options = by_http2("http", server.addr, 1, 2);
    let fates = load(&LoadOptions { count: Some(4), ..options }).fates;
    assert_eq!(fates.get(Fate::Good), 0, "{fates:?}");
    assert!(fates.get(Fate::Malformed) > 0, "{fates:?}");
}

/// Limits of the server are kept, and what it refuses is made again.
#[test]
fn a_server_that_takes_few_streams_gets_few() {
    let addr = serve(3, None, |asked| {
        let refused = asked.number < 2;
        if refused { Say::Reset(ErrorCode::REFUSED_STREAM) } else { Say::Content(b"x".to_vec()) }
    });
    let outcome = load(&LoadOptions { count: Some(40), ..by_http2("http", addr, 1, 8) });
    assert_eq!((outcome.fates.get(Fate::Good), outcome.again), (40, 2), "{:?}", outcome.fates);
}

#[test]
fn a_connection_that_goes_away_is_replaced() {
    let addr = serve(100, None, |asked| {
        if asked.number == 10 { Say::GoAway } else { Say::Content(b"x".to_vec()) }
    });
    let outcome = load(&LoadOptions { count: Some(40), ..by_http2("http", addr, 1, 1) });
    assert_eq!((outcome.fates.get(Fate::Good), outcome.connected), (40, 2), "{:?}", outcome.fates);
    let options = by_http2("http", addr, 1, 4);
    let options = LoadOptions { requests_per_connection: Some(10), count: Some(40), ..options };
    let outcome = load(&options);
    assert_eq!(outcome.fates.get(Fate::Good), 40, "{:?}", outcome.fates);
    assert!((3..=5).contains(&outcome.connected), "{}", outcome.connected);
}

#[test]
fn a_stream_without_an_answer_holds_up_no_other() {
    let addr = serve(100, None, |asked| match asked.number {
        3 => Say::Nothing,
        4 => Say::Reset(ErrorCode::INTERNAL_ERROR),
        _ => Say::Content(b"x".to_vec()),
    });
    let options = by_http2("http", addr, 1, 4);
    let options = LoadOptions {
        model: open(100.0),
        timeout: Some(ms(300)),
        duration: Some(ms(1_000)),
        ..options
    };
    let outcome = load(&options);
    let fates = outcome.fates;
    let found = [Fate::Good, Fate::Timeout, Fate::Reset].map(|fate| fates.get(fate));
    assert_eq!(found, [98, 1, 1], "{fates:?}");
}

#[test]
fn fields_and_methods_are_those_of_the_options() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let addr = serve(100, None, move |asked| {
        seen.lock().unwrap().extend(asked.fields.clone());
        Say::Content(b"content".to_vec())
    });
    let fields = vec![
        ("X-Own".to_owned(), "A b".to_owned()),
        ("Host".to_owned(), "a.test".to_owned()),
        ("Connection".to_owned(), "close".to_owned()),
    ];
    let request = RequestOptions { head: true, ..RequestOptions::default() };
    let options = by_http2("http", addr, 1, 1);
    let outcome = load(&LoadOptions { fields, request, count: Some(1), ..options });
    assert_eq!(outcome.fates.get(Fate::Good), 1, "{:?}", outcome.fates);
    let found = asked.lock().unwrap().clone();
    let found: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let expected = [
        (":method", "HEAD"),
        (":scheme", "http"),
        (":path", "/file"),
        (":authority", "a.test"),
        ("x-own", "A b"),
    ];
    assert_eq!(found, expected);
}

/// Contents of requests are longer together than the window, which the server opens again.
#[test]
fn contents_of_requests_keep_to_the_windows() {
    let log = regatta_testkit::folder::Folder::new("contents");
    let path = log.join("log");
    let content = "x".repeat(60_000);
    std::fs::write(&path, format!("/put method=PUT contents=\"{content}\"\n")).unwrap();
    let asked = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&asked);
    let addr = serve(100, None, move |asked| {
        seen.fetch_add(asked.content, Ordering::Relaxed);
        Say::Content(Vec::new())
    });
    let options = by_http2("http", addr, 1, 3);
    let options = LoadOptions { requests_from: vec![path], count: Some(9), ..options };
    assert_eq!(load(&options).fates.get(Fate::Good), 9);
    assert_eq!(asked.load(Ordering::Relaxed), 9 * 60_000);
}

#[test]
fn what_http2_cannot_do_is_said() {
    let addr = SocketAddr::from(([127, 0, 0, 1], 1));
    let says = |options: &LoadOptions, what: &str| {
        let found = Plan::new(options).unwrap_err().join("; ");
        assert!(found.contains(what), "{found}");
    };
    says(&by_http2("http", addr, 1, 0), "streams are 1 to");
    let (_log, model) = crate::replay("/a\n", 1.0);
    says(&LoadOptions { model, ..by_http2("http", addr, 1, 1) }, "--closed and --rate");
    let fields = vec![("a".to_owned(), "\u{1f980}".repeat(20_000))];
    says(&LoadOptions { fields, ..by_http2("http", addr, 1, 1) }, "fields of");
}
