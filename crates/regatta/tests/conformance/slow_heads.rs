//! Clients that send slowly or not at all: their deadlines end them, whatever they do.

use crate::prelude::*;
use std::io::Write;
use std::sync::Arc;

const SETTINGS: [&str; 4] = [
    "limits.first_request_ms_max=400",
    "limits.head_ms_max=400",
    "limits.idle_ms_max=400",
    "limits.linger_ms_max=200",
];

fn start(variant: &Variant) -> Arc<Server> {
    serve_with(variant, &SETTINGS)
}

/// Fails unless the last bytes of a connection, if any, are a 408 (RFC 9110 §15.5.9).
#[track_caller]
fn is_late(rest: &[u8]) {
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408 "), "{}", rest.escape_ascii());
}

/// Fails unless the server ends the connection between its deadline and a little later.
#[track_caller]
fn ended(client: &mut Client, start: Instant) {
    is_late(&client.rest());
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(300), "ended early, after {took:?}");
    assert!(took < Duration::from_secs(5), "ended late, after {took:?}");
}

pub(crate) fn a_head_that_stops(variant: &Variant) {
    let server = start(variant);
    for text in ["G", "GET /small.txt HTTP/1.1\r\nHost: x\r\nX-Part"] {
        let mut client = server.connect();
        let start = Instant::now();
        client.send(text);
        ended(&mut client, start);
    }
}

/// A byte now and then does not extend the deadline of a head.
pub(crate) fn a_head_that_trickles(variant: &Variant) {
    let server = start(variant);
    let mut client = server.connect();
    let mut sender = client.sender();
    let begin = Instant::now();
    let writer = thread::spawn(move || {
        let head = format!("GET /small.txt HTTP/1.1\r\nHost: x\r\nX: {}", "y".repeat(1000));
        for byte in head.bytes() {
            if sender.write_all(&[byte]).is_err() || begin.elapsed() > Duration::from_secs(8) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    is_late(&client.rest_or_reset());
    assert!(begin.elapsed() < Duration::from_secs(5), "trickled {:?}", begin.elapsed());
    drop(client);
    writer.join().expect("the writer sees the end");
}

pub(crate) fn a_connection_without_a_request(variant: &Variant) {
    let server = start(variant);
    let start = Instant::now();
    ended(&mut server.connect(), start);
}

/// A connection with a request now and then, for longer than the idle deadline of 600 ms. `None`
/// if the machine was so busy that the deadline may have passed between two. The deadline runs from
/// the answer, which is never before its request.
fn kept(server: &Server) -> Option<(Client, Instant)> {
    let mut client = server.connect();
    let mut last = Instant::now();
    for _ in 0..7 {
        let asked = Instant::now();
        let _ = client.try_send(get("/small.txt"));
        if last.elapsed() > Duration::from_millis(300) {
            return None;
        }
        last = asked;
        client.answer("GET").expect(200);
        thread::sleep(Duration::from_millis(110));
    }
    Some((client, last))
}

pub(crate) fn an_idle_connection(variant: &Variant) {
    let server = serve_with(variant, &["limits.first_request_ms_max=5s", "limits.idle_ms_max=600"]);
    let one = (0..40).find_map(|_| kept(&server));
    let (mut client, last) = one.expect("a second in which the machine does not stand still");
    // The deadline runs from the answer, which a busy machine may read late.
    ended(&mut client, last);
}

pub(crate) fn a_second_head_that_stops(variant: &Variant) {
    let server = start(variant);
    let mut client = server.connect();
    let start = Instant::now();
    client.send([get("/small.txt"), b"GET /sm".to_vec()].concat());
    client.answer("GET").expect(200);
    ended(&mut client, start);
}

pub(crate) fn a_body_that_stops(variant: &Variant) {
    let server = start(variant);
    let mut client = server.asked(request("GET", "/small.txt", &[("Content-Length", "100")]));
    client.send("only the start");
    let begin = Instant::now();
    // An answer may arrive before the request's body; the connection must end all the same.
    let rest = client.rest_or_reset();
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 "), "{}", rest.escape_ascii());
    assert!(begin.elapsed() < Duration::from_secs(5), "kept {:?}", begin.elapsed());
}

pub(crate) fn a_client_that_lingers(variant: &Variant) {
    let server = start(variant);
    let mut client = server.asked("BAD\r\n\r\n");
    client.answer("GET").expect(400);
    client.finish();
    let mut sender = client.sender();
    let refused = eventually(Duration::from_secs(5), || {
        thread::sleep(Duration::from_millis(20));
        sender.write_all(b"still here").is_err()
    });
    assert!(refused, "the server never closed");
}

pub(crate) fn many_at_once(variant: &Variant) {
    let server = start(variant);
    let mut slow = server.clients(60);
    send_all(&mut slow, "GET /small.txt HTTP/1.1\r\nHost:");
    let begin = Instant::now();
    server.connect().get("/size-65537.bin").expect(200);
    assert!(begin.elapsed() < Duration::from_secs(2), "an honest client waited");
    slow.iter_mut().for_each(|client| is_late(&client.rest()));
    assert!(begin.elapsed() < Duration::from_secs(5), "took {:?}", begin.elapsed());
}
