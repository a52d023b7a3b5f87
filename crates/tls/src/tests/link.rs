//! The seal below the core: requests, files and the end, with every operation in the test's hand.
use super::peers::{Options, Pair, receive, send};
use crate::TlsClass;
use regatta_metrics::{Arena, Counter, Tally};
use regatta_op::{
    CloseReason, Done, File, FileId, Modified, Now, Op, OpKind, OpenFault, Opened, Tick,
};
use regatta_origin::{
    Cx, Link, Links, ListenerClass, LocalCache, Log, Peer, Protocol, Record, Scratch, Seal, Site,
};
use rustls::ClientConnection;
use std::{cell::RefCell, io::Write, net::SocketAddr, sync::atomic::AtomicU64};

const NOW: Now = Now { tick: Tick(1_000), unix: 1_700_000_000 };

/// File with this many bytes of no meaning.
#[derive(Clone, Debug)]
struct Blank(u64);

impl File for Blank {
    fn id(&self) -> FileId {
        let never = Modified { secs: 0, nanos: 0 };
        FileId { device: 0, inode: self.0, len: self.0, modified: never, changed: never }
    }
}

struct Sealing(TlsClass);

impl Links<Blank> for Sealing {
    fn seal(&self, _: ListenerClass) -> Option<Box<dyn Seal>> {
        Some(self.0.seal())
    }
}

/// Status and facts of the seal in each record of the log.
#[derive(Default)]
struct Facts(RefCell<Vec<String>>);

impl Log for Facts {
    fn wants(&self) -> bool {
        true
    }

    fn record(&self, record: &Record<'_>) {
        let seal = record.seal.unwrap();
        let version = seal.handshake.version_name().unwrap();
        let [name, agreed] =
            [seal.server_name.unwrap(), seal.agreed].map(|text| str::from_utf8(text).unwrap());
        let facts = format!("{} {version} {name} {agreed}", record.status);
        self.0.borrow_mut().push(facts);
    }
}

/// The server's end, and what it has done.
struct Driver<'a> {
    cx: Cx<'a, Blank>,
    arena: Arena<'a>,
    log: &'a Facts,
    link: Link<Blank>,
    performed: Vec<OpKind>,
    end: Option<CloseReason>,
}

impl Driver<'_> {
    fn count(&self, counter: Counter) -> u64 {
        self.arena.view().slots().map(|slot| slot.get(counter)).sum()
    }

    fn complete(&mut self, done: Done<'_, Blank>) {
        self.link.complete(done, NOW, &self.cx);
        self.link.check_invariants();
    }

    /// Performs operations until the connection waits for the client, or is over. Returns the bytes
    /// that were sent.
    fn drive(&mut self) -> Vec<u8> {
        let mut sent = Vec::new();
        while let Some(op) = self.link.next_op() {
            self.performed.push(op.kind());
            match op {
                Op::Recv => break,
                Op::Send(mut outbox) => {
                    let n = outbox.len();
                    let before = sent.len();
                    sent.extend(outbox.slices().flatten().copied());
                    assert_eq!((sent.len() - before) as u64, n, "records are memory");
                    outbox.advance(n);
                    self.complete(Done::Send(outbox, Ok(n)));
                }
                Op::Open(ticket, request) => {
                    // A path is the length of its file.
                    let len = std::str::from_utf8(&request.path).ok();
                    let file = len.and_then(|len| len.parse().ok()).map(Blank);
                    let siblings = [None, None, None];
                    let opened = file.map(|file| Opened::File { file, siblings });
                    self.complete(Done::Open(ticket, opened.ok_or(OpenFault::NotFound)));
                }
                Op::Read(ticket, mut request) => {
                    request.buffer.extend((0..request.len).map(|_| b'x'));
                    self.complete(Done::Read(ticket, request.buffer, Ok(())));
                }
                Op::Stat(ticket, file) => self.complete(Done::Stat(ticket, Ok(file.id()))),
                Op::Shut => self.complete(Done::Shut),
                Op::Close(reason) => {
                    self.end = Some(reason);
                    break;
                }
            }
        }
        sent
    }

    /// Carries bytes in both directions while there are some. Returns what the client opened.
    fn settle(&mut self, client: &mut ClientConnection) -> Vec<u8> {
        let mut plain = receive(client, &self.drive()).unwrap();
        loop {
            let wire = send(client);
            if wire.is_empty() || self.end.is_some() {
                return plain;
            }
            self.complete(Done::Recv(Ok(&wire)));
            let sent = self.drive();
            plain.extend(receive(client, &sent).unwrap());
        }
    }
}

/// Runs a test on a client, and a server with session tickets that waits for it.
fn on(test: impl FnMut(&mut ClientConnection, &mut Driver<'_>)) {
    on_each(1, test);
}

/// The same on several connections of one worker, one after another.
fn on_each(connections: usize, mut test: impl FnMut(&mut ClientConnection, &mut Driver<'_>)) {
    let tickets = Some(rustls::crypto::aws_lc_rs::Ticketer::new().unwrap());
    let mut pair = Pair::new(&Options { tickets, ..Options::default() });
    let (mut site, links) = (Site::default(), Sealing(pair.class.clone()));
    site.content.not_found = "".into();
    let words: Vec<_> = (0..Arena::count_words(1)).map(|_| AtomicU64::new(0)).collect();
    let arena = Arena::create(&words, 1);
    let (cache, scratch) = (LocalCache::new(&site.caching, 0), Scratch::new(0));
    let log = Facts::default();
    let (site, cache, log, scratch, links) = (&site, &cache, &log, &scratch, &links);
    let peer = Peer::from(SocketAddr::from(([127, 0, 0, 1], 4000)));
    for _ in 0..connections {
        let cx = Cx { site, cache, tally: Tally::Owned(arena.slot(0)), log, scratch, links };
        let mut link = Link::new(peer, NOW, &cx);
        assert!(link.admit(peer, 7, NOW, &cx));
        let mut driver = Driver { cx, arena, log, link, performed: Vec::new(), end: None };
        assert!(driver.drive().is_empty());
        test(&mut pair.client, &mut driver);
        pair = pair.again();
    }
}

/// Requests this path, and returns the response.
fn get(client: &mut ClientConnection, driver: &mut Driver<'_>, path: &str, more: &str) -> Vec<u8> {
    let request = format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
    client.writer().write_all(request.as_bytes()).unwrap();
    let wire = send(client);
    driver.complete(Done::Recv(Ok(&wire)));
    driver.settle(client)
}

#[test]
fn the_core_answers_through_the_seal() {
    on(|client, driver| {
        let hello = send(client);
        driver.complete(Done::Recv(Ok(&hello)));
        assert!(driver.settle(client).is_empty() && !client.is_handshaking());
        let shaken = [OpKind::Recv, OpKind::Send, OpKind::Recv, OpKind::Recv];
        assert_eq!(driver.performed, shaken, "tickets wait for the first response");
        assert_eq!(client.tls13_tickets_received(), 0);
        assert!(get(client, driver, "none", "").starts_with(b"HTTP/1.1 404 "));
        assert_eq!(client.tls13_tickets_received(), 2);
        assert_eq!(driver.count(Counter::TlsHandshakesFull), 1);
        assert_eq!(driver.count(Counter::TlsHandshakesResumed), 0);
        assert!(driver.count(Counter::TlsHandshakeNs) > 0);
        for len in [4_096, 200_000] {
            let response = get(client, driver, &len.to_string(), "");
            assert!(response.starts_with(b"HTTP/1.1 200 "));
            let body = &response[response.len() - len..];
            assert!(body.iter().all(|byte| *byte == b'x'));
        }
        assert_eq!(driver.count(Counter::SealedBytes), driver.count(Counter::BytesSent));
        let logged = driver.log.0.take();
        let expected = ["404", "200", "200"].map(|it| format!("{it} TLSv1.3 localhost http/1.1"));
        assert_eq!(logged, expected);
        client.send_close_notify();
        let wire = send(client);
        driver.complete(Done::Recv(Ok(&wire)));
        assert!(driver.settle(client).is_empty());
        assert_eq!(driver.end, Some(CloseReason::PeerClosed));
        assert!(client.process_new_packets().unwrap().peer_has_closed(), "the alert is answered");
    });
}

#[test]
fn a_request_in_the_clear_has_an_answer_in_the_clear() {
    on(|_, driver| {
        driver.complete(Done::Recv(Ok(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")));
        let answer = driver.drive();
        let text = std::str::from_utf8(&answer).unwrap();
        let date = "HTTP/1.1 400 Bad Request\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\n";
        assert!(text.starts_with(date), "{text}");
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
        assert_eq!(driver.end, None, "with unread bytes, the answer would be lost");
        driver.complete(Done::Recv(Ok(&[])));
        assert!(driver.drive().is_empty());
        assert_eq!(driver.end, Some(CloseReason::BadRecord));
        assert_eq!(driver.count(Counter::TlsFaultsNotTls), 1);
        assert_eq!(driver.count(Counter::TlsHandshakesFull), 0);
    });
}

#[test]
fn a_record_that_cannot_be_opened_is_counted() {
    on(|client, driver| {
        let hello = send(client);
        driver.complete(Done::Recv(Ok(&hello)));
        driver.settle(client);
        client.writer().write_all(b"GET / HTTP/1.1\r\n").unwrap();
        let mut wire = send(client);
        *wire.last_mut().unwrap() ^= 1;
        driver.complete(Done::Recv(Ok(&wire)));
        driver.drive();
        assert_eq!(driver.count(Counter::TlsFaultsRecord), 1);
        assert_eq!(driver.count(Counter::TlsHandshakesFull), 1);
    });
}

#[test]
fn a_response_and_the_end_are_sent_at_once() {
    on(|client, driver| {
        let hello = send(client);
        driver.complete(Done::Recv(Ok(&hello)));
        driver.settle(client);
        driver.performed.clear();
        let response = get(client, driver, "none", "Connection: close\r\n");
        assert!(response.starts_with(b"HTTP/1.1 404 "));
        assert!(client.process_new_packets().unwrap().peer_has_closed());
        let sends = driver.performed.iter().filter(|kind| **kind == OpKind::Send).count();
        assert_eq!(sends, 1, "{:?}", driver.performed);
        assert!(driver.performed.contains(&OpKind::Shut));
        if driver.end.is_some() {
            return;
        }
        // The rest of what the client sends is passed over.
        client.writer().write_all(b"more").unwrap();
        client.send_close_notify();
        let wire = send(client);
        driver.complete(Done::Recv(Ok(&wire)));
        assert!(driver.settle(client).is_empty());
        if driver.end.is_none() {
            driver.complete(Done::Recv(Ok(&[])));
            assert!(driver.drive().is_empty());
        }
        assert!(driver.end.is_some());
    });
}

/// A buffer as long as a ticket or a flight is of no use to others, and would take their place in
/// the pool.
#[test]
fn handshakes_leave_no_small_buffers() {
    let mut pools = Vec::new();
    on_each(20, |client, driver| {
        let hello = send(client);
        driver.complete(Done::Recv(Ok(&hello)));
        driver.settle(client);
        assert!(get(client, driver, "none", "").starts_with(b"HTTP/1.1 404 "));
        pools.push(format!("{:?}", driver.cx.scratch));
    });
    assert_eq!(pools[3], pools[19], "{pools:?}");
}

/// Records behind our closing alert are not opened. They count (`limits.linger_bytes_max`): else a
/// client that does not stop would be read for the whole time that a closing connection waits.
#[test]
fn what_follows_the_end_is_bounded() {
    on(|client, driver| {
        let hello = send(client);
        driver.complete(Done::Recv(Ok(&hello)));
        driver.settle(client);
        let response = get(client, driver, "none", "Content-Length: 100000000\r\n");
        assert!(response.starts_with(b"HTTP/1.1 "), "{}", response.escape_ascii());
        let most = usize::try_from(driver.cx.site.limits.linger_bytes_max).unwrap();
        let mut sent = 0;
        while driver.end.is_none() {
            client.writer().write_all(&[b'x'; 16 << 10]).unwrap();
            let wire = send(client);
            sent += wire.len();
            assert!(sent < most + (64 << 10), "{sent} bytes");
            driver.complete(Done::Recv(Ok(&wire)));
            assert!(driver.drive().is_empty());
        }
        assert!(sent > most, "{sent} bytes");
        assert_eq!(driver.end, Some(CloseReason::Finished));
    });
}
