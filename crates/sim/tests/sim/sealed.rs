//! A sealed connection alone, with every operation in the test's hand.
use regatta_metrics::{Arena, Tally};
use regatta_op::{
    Abandoned, CloseReason, Done, Fault, File, FileId, Modified, Now, Op, OpKind, OpenFault,
    Opened, Tick, Ticket,
};
use regatta_origin::{
    Admission, ClearHttp1, Cx, Link, Links, ListenerClass, LocalCache, NoLog, Peer, Progress,
    Protocol, Scratch, Seal, Site, Toy,
};
use regatta_sim::{Client, Frames, NOT_FOUND, UNAVAILABLE};
use std::{net::SocketAddr, sync::atomic::AtomicU64};

/// File with this many bytes of no meaning.
#[derive(Clone, Debug)]
struct Blank(u64);

impl File for Blank {
    fn id(&self) -> FileId {
        let never = Modified { secs: 0, nanos: 0 };
        FileId { device: 0, inode: 0, len: self.0, modified: never, changed: never }
    }
}

/// Gives each client this, over HTTP/1.
struct Admits(Admission);

impl Links<Blank> for Admits {
    fn opened(&self, _: Peer, _: i32, _: Now) -> Admission {
        self.0
    }
}

/// Has all clients speak through a proxy, over HTTP/1.
#[derive(Clone, Copy)]
struct Proxied;

impl Links<Blank> for Proxied {
    fn greets(&self, _: Peer) -> Option<bool> {
        Some(true)
    }
}

/// Seals every connection. The handshake agrees on the protocol of this name.
struct Seals<L>(L, &'static [u8]);

impl<L: Links<Blank>> Links<Blank> for Seals<L> {
    fn seal(&self, _: ListenerClass) -> Option<Box<dyn Seal>> {
        Some(Box::new(Toy::server(5).agreeing(self.1)))
    }

    fn greets(&self, peer: Peer) -> Option<bool> {
        self.0.greets(peer)
    }

    fn opened(&self, peer: Peer, fd: i32, now: Now) -> Admission {
        self.0.opened(peer, fd, now)
    }

    fn protocol(
        &self,
        peer: Peer,
        agreed: &[u8],
        now: Now,
        cx: &Cx<'_, Blank>,
    ) -> Option<Box<dyn Protocol<Blank> + Send>> {
        self.0.protocol(peer, agreed, now, cx)
    }
}

/// Both ends of a connection.
struct Ends<'a> {
    cx: Cx<'a, Blank>,
    tick: u64,
    link: Link<Blank>,
    client: Toy,
    /// Bytes sealed by the client, and not received.
    wire: Vec<u8>,
    /// Bytes that the client has opened, and the number of their records.
    plain: Vec<u8>,
    records: usize,
    /// `Send`s performed.
    sends: usize,
    /// Plain bytes of each record that has some.
    sizes: Vec<usize>,
}

/// Runs a test on a connection with the protocol of `inner`.
fn run_test(inner: impl Links<Blank>, test: impl FnOnce(Ends<'_>)) {
    run_agreed(b"", inner, test);
}

/// The same after a handshake that agrees on the protocol of this name.
fn run_agreed(name: &'static [u8], inner: impl Links<Blank>, test: impl FnOnce(Ends<'_>)) {
    let (mut site, links) = (Site::default(), Seals(inner, name));
    site.content.not_found = "".into();
    let words: Vec<_> = (0..Arena::count_words(1)).map(|_| AtomicU64::new(0)).collect();
    let arena = Arena::create(&words, 1);
    let (cache, scratch) = (LocalCache::new(&site.caching, 0), Scratch::new(0));
    let tally = Tally::Owned(arena.slot(0));
    let cx =
        Cx { site: &site, cache: &cache, tally, log: &NoLog, scratch: &scratch, links: &links };
    let (mut wire, tick) = (Vec::new(), 1_000);
    let client = Toy::client(3, &mut wire);
    let link = Link::new(peer(), at(tick), &cx);
    let (plain, sizes) = (Vec::new(), Vec::new());
    test(Ends { cx, tick, link, client, wire, plain, records: 0, sends: 0, sizes });
}

fn peer() -> Peer {
    Peer::from(SocketAddr::from(([127, 0, 0, 1], 4000))).in_class(ListenerClass(1))
}

const fn at(tick: u64) -> Now {
    Now { tick: Tick(tick), unix: 1_700_000_000 }
}

impl Ends<'_> {
    fn now(&self) -> Now {
        at(self.tick)
    }

    /// Kind of the next operation, which is not performed.
    fn next_kind(&mut self) -> Option<OpKind> {
        self.link.next_op().as_ref().map(Op::kind)
    }

    fn complete(&mut self, done: Done<'_, Blank>) {
        self.link.complete(done, self.now(), &self.cx);
        self.link.check_invariants();
    }

    /// Passes the bytes that the client has sealed to the server.
    fn receive(&mut self) {
        let wire = std::mem::take(&mut self.wire);
        self.complete(Done::Recv(Ok(&wire)));
    }

    /// Passes all bytes of a `Send` to the client.
    fn send(&mut self, op: Op<Blank>) {
        let Op::Send(mut outbox) = op else { panic!("{:?} is no Send", op.kind()) };
        self.sends += 1;
        let mut wire: Vec<u8> = outbox.slices().flatten().copied().collect();
        outbox.advance(wire.len() as u64);
        let (n, mut from) = (wire.len() as u64, 0);
        while from < wire.len() {
            let before = self.plain.len();
            let used = self.client.open(&mut wire[from..], &mut self.plain, &mut self.wire);
            from += used.expect("only what was sealed is opened");
            self.records += 1;
            let size = self.plain.len() - before;
            self.sizes.extend((size > 0).then_some(size));
        }
        self.complete(Done::Send(outbox, Ok(n)));
    }

    /// Passes the next operation, a `Send`, to the client.
    #[track_caller]
    fn answer(&mut self, what: &str) {
        let op = self.link.next_op().expect(what);
        self.send(op);
    }

    /// Checks the beginning of what the client has opened.
    #[track_caller]
    fn check_head(&self, begin: &str) {
        let head = String::from_utf8_lossy(&self.plain);
        assert!(head.starts_with(begin), "{head}");
    }

    /// Continues until the server waits for the client, which receives and answers everything.
    fn settle(&mut self) {
        loop {
            let op = self.link.next_op().expect("it waits");
            match op {
                Op::Recv if self.wire.is_empty() => return,
                Op::Recv => self.receive(),
                op => self.send(op),
            }
        }
    }

    /// Requests a file of this many bytes, several times at once. Returns the plain bytes of each
    /// record of the responses.
    fn fetch(&mut self, len: usize, times: usize) -> Vec<usize> {
        self.sizes.clear();
        self.request(format!("GET /{len} HTTP/1.1\r\nHost: a\r\n\r\n").repeat(times).as_bytes());
        loop {
            match self.link.next_op().expect("it waits") {
                Op::Recv => return std::mem::take(&mut self.sizes),
                Op::Open(ticket, _) => {
                    let opened =
                        Opened::File { file: Blank(len as u64), siblings: [None, None, None] };
                    self.complete(Done::Open(ticket, Ok(opened)));
                }
                Op::Read(ticket, mut req) => {
                    req.buffer.extend((0..req.len).map(|_| b'x'));
                    self.complete(Done::Read(ticket, req.buffer, Ok(())));
                }
                Op::Stat(ticket, file) => self.complete(Done::Stat(ticket, Ok(file.id()))),
                op => self.send(op),
            }
        }
    }

    /// Sends the server's last bytes, and closes its half.
    fn shut(&mut self) {
        let op = self.link.next_op().expect("it says what is wrong");
        let Op::Send(mut outbox) = op else { panic!("{:?} is no Send", op.kind()) };
        let n = outbox.len();
        outbox.advance(n);
        assert_eq!(self.next_kind(), None, "nothing overtakes it");
        self.complete(Done::Send(outbox, Ok(n)));
        assert_eq!(self.next_kind(), Some(OpKind::Shut));
        self.complete(Done::Shut);
        assert_eq!(self.next_kind(), Some(OpKind::Recv));
    }

    fn send_plain(&mut self, plain: &[u8]) {
        self.client.seal(plain, &mut self.wire).expect("the handshake is over");
    }

    /// Passes a request to the server.
    fn request(&mut self, plain: &[u8]) {
        self.send_plain(plain);
        self.receive();
    }

    /// Passes the frames of a client to the server, each `ms` after the one before. Returns the
    /// tickets of the files that are to be opened.
    fn ask(&mut self, client: &Client, ms: u64) -> Vec<Ticket> {
        let mut opened = Vec::new();
        for frame in client.wire().chunks(2) {
            self.request(frame);
            let Some(Op::Open(ticket, _)) = self.link.next_op() else { panic!("no Open") };
            opened.push(ticket);
            assert_eq!(self.next_kind(), Some(OpKind::Recv));
            self.tick += ms;
        }
        opened
    }

    /// Numbers and codes of the answers that the client has opened.
    fn codes(&self, client: &mut Client) -> Vec<(usize, u8)> {
        let mut codes = Vec::new();
        let mut note = |answer: regatta_sim::Answer| {
            codes.push((answer.number, answer.code));
            Ok(())
        };
        client.feed(&self.plain, &mut note).expect("frames");
        codes
    }

    #[track_caller]
    fn end(&mut self) -> CloseReason {
        match self.link.next_op() {
            Some(Op::Close(reason)) => reason,
            other => panic!("{:?} instead of the end", other.as_ref().map(Op::kind)),
        }
    }

    /// Lets the deadline pass.
    fn expire(&mut self) -> Option<Abandoned> {
        self.tick = self.link.deadline().0;
        self.link.expire(0, self.now(), &self.cx);
        self.link.check_invariants();
        self.link.abandoned()
    }
}

#[test]
fn nothing_is_received_while_a_handshake_is_sent() {
    run_test(ClearHttp1, |mut ends| {
        assert_eq!(ends.next_kind(), Some(OpKind::Recv));
        ends.receive();
        let op = ends.link.next_op().expect("it answers");
        assert_eq!(ends.next_kind(), None, "the answer goes first");
        ends.send(op);
        assert_eq!(ends.next_kind(), Some(OpKind::Recv));
    });
}

#[test]
fn records_are_small_when_the_protocol_was_idle() {
    run_test(ClearHttp1, |mut ends| {
        ends.settle();
        let [whole] = ends.fetch(4 << 10, 1)[..] else { panic!("a head and 4 KiB are one record") };
        assert!(whole > 4 << 10);
        let first = ends.fetch(30_000, 1);
        assert_eq!(first[..4], [4 << 10; 4], "{first:?}");
        assert_eq!(first.len(), 5, "{first:?}");
        // The second response follows the first one at once.
        let both = ends.fetch(30_000, 2);
        assert_eq!(both[..4], [4 << 10; 4], "{both:?}");
        assert_eq!(both[5], 16 << 10, "{both:?}");
        assert_eq!(both.len(), 7, "{both:?}");
        assert_eq!(ends.fetch(30_000, 1)[..4], [4 << 10; 4]);
    });
}

/// A full buffer of a protocol with frames costs one system call.
#[test]
fn sixty_four_kib_of_memory_are_one_send() {
    run_test(ClearHttp1, |mut ends| {
        ends.settle();
        ends.fetch(65_000, 1);
        let before = ends.sends;
        let both = ends.fetch(65_000, 2);
        assert_eq!(ends.sends - before, 2, "{both:?}");
        assert_eq!(both.len(), 11, "{both:?}");
        let sums = [&both[..7], &both[7..]].map(|sizes| sizes.iter().sum::<usize>());
        assert_eq!(sums[0], sums[1], "{both:?}");
        assert_eq!(both[..4], [4 << 10; 4], "{both:?}");
        assert_eq!(both[7..10], [16 << 10; 3], "{both:?}");
    });
}

#[test]
fn a_handshake_message_may_take_several_records() {
    run_test(ClearHttp1, |mut ends| {
        ends.wire.clear();
        ends.client = Toy::client_in_pieces(3, 3, &mut ends.wire);
        let wire = std::mem::take(&mut ends.wire);
        for piece in wire.chunks(5) {
            assert_eq!(ends.next_kind(), Some(OpKind::Recv));
            ends.complete(Done::Recv(Ok(piece)));
        }
        ends.settle();
        assert_eq!(ends.client.progress(), Progress::Open);
        ends.fetch(1, 1);
        assert!(ends.plain.starts_with(b"HTTP/1.1 200 "));
    });
}

#[test]
fn a_ticket_waits_for_the_first_record() {
    let says: [fn(&mut Ends<'_>); 2] = [
        |ends| ends.send_plain(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
        |ends| ends.client.renew(&mut ends.wire),
    ];
    for say in says {
        run_test(ClearHttp1, |mut ends| {
            ends.settle();
            assert_eq!(ends.records, 1, "the server's part of the handshake");
            say(&mut ends);
            ends.receive();
            ends.answer("it answers");
            assert_eq!(ends.records, 3, "the ticket and the answer");
        });
    }
}

#[test]
fn a_client_with_too_many_connections_is_refused_after_the_handshake() {
    run_test(Admits(Admission::Limited), |mut ends| {
        assert!(ends.link.admit(peer(), 3, ends.now(), &ends.cx));
        ends.settle();
        ends.request(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        ends.answer("it is answered");
        ends.check_head("HTTP/1.1 429 ");
    });
    run_test(Admits(Admission::Refused), |mut ends| {
        assert!(!ends.link.admit(peer(), 3, ends.now(), &ends.cx));
        assert_eq!(ends.end(), CloseReason::Refused, "before the handshake");
    });
}

#[test]
fn a_last_response_and_the_closing_alert_are_one_send() {
    run_test(ClearHttp1, |mut ends| {
        ends.settle();
        ends.request(b"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let op = ends.link.next_op().expect("it is answered");
        assert!(matches!(&op, Op::Send(outbox) if outbox.ends()), "the kernel may wait for `Shut`");
        ends.send(op);
        assert!(ends.plain.starts_with(b"HTTP/1.1 204 "));
        assert_eq!(ends.client.progress(), Progress::PeerClosed);
        assert_eq!(ends.next_kind(), Some(OpKind::Shut));
    });
}

#[test]
fn a_closing_alert_is_answered() {
    // Between requests, and within one.
    for (part, reason) in
        [(&b""[..], CloseReason::PeerClosed), (b"GET / HTTP/1.1\r\nHo", CloseReason::PeerAborted)]
    {
        run_test(ClearHttp1, |mut ends| {
            ends.settle();
            if !part.is_empty() {
                ends.send_plain(part);
            }
            ends.client.close(&mut ends.wire);
            ends.receive();
            ends.answer("it answers");
            assert_eq!(ends.client.progress(), Progress::PeerClosed);
            assert_eq!(ends.end(), reason);
        });
    }
    // The end of the stream alone is no message to answer.
    run_test(ClearHttp1, |mut ends| {
        ends.settle();
        ends.receive();
        assert_eq!(ends.end(), CloseReason::PeerClosed);
    });
}

#[test]
fn answers_that_wait_are_bounded() {
    run_test(ClearHttp1, |mut ends| {
        ends.settle();
        let (before, mut asked, mut received) = (ends.records, 0, 0);
        let mut send = None;
        // A `Recv` is out; the client takes nothing.
        loop {
            (0..400).for_each(|_| ends.client.renew(&mut ends.wire));
            asked += 400;
            received += ends.wire.len();
            ends.receive();
            match ends.link.next_op() {
                Some(op @ Op::Send(_)) if send.is_none() => send = Some(op),
                Some(Op::Recv) => continue,
                op => break assert_eq!(op.as_ref().map(Op::kind), None),
            }
            assert_eq!(ends.next_kind(), Some(OpKind::Recv));
        }
        assert!(received < 64 << 10, "{received} bytes were received and nothing was taken");
        ends.send(send.expect("answers are offered"));
        ends.settle();
        assert_eq!(ends.records - before, 1 + asked, "in the end all are answered, after a ticket");
    });
}

#[test]
fn one_operation_is_given_up_while_another_goes_on() {
    run_test(Frames { names: &["slow", "none"] }, |mut ends| {
        ends.settle();
        let mut client = Client::new(vec![0, 1]);
        let opened = ends.ask(&client, 100);
        assert_eq!(ends.expire(), Some(Abandoned::One(opened[0])));
        ends.answer("it says that it has failed");
        ends.complete(Done::Open(opened[1], Err(OpenFault::NotFound)));
        ends.answer("the other one is answered");
        assert_eq!(ends.codes(&mut client), [(0, UNAVAILABLE), (1, NOT_FOUND)]);
        assert!(opened.iter().all(|ticket| *ticket != Ticket(u16::MAX)), "that is the wire's own");
    });
}

/// A refusal ends one exchange. The others, and the records on their way, remain.
#[test]
fn a_request_is_turned_away_while_another_is_answered() {
    run_test(Frames { names: &["slow", "none", "other"] }, |mut ends| {
        ends.settle();
        let mut client = Client::new(vec![0, 1, 2]);
        let opened = ends.ask(&client, 1);
        ends.complete(Done::Open(opened[1], Err(OpenFault::NotFound)));
        let send = ends.link.next_op().expect("the second one is answered");
        ends.link.turn_away(ends.now(), &ends.cx);
        ends.link.check_invariants();
        assert_eq!(ends.link.abandoned(), Some(Abandoned::One(opened[0])), "the oldest");
        assert_eq!(ends.next_kind(), None, "the `Send` is still out");
        ends.send(send);
        ends.answer("it is refused");
        ends.complete(Done::Open(opened[2], Err(OpenFault::NotFound)));
        ends.answer("the third one is answered");
        assert_eq!(ends.codes(&mut client), [(1, NOT_FOUND), (0, UNAVAILABLE), (2, NOT_FOUND)]);
    });
}

/// HTTP/1 gives up all that it has out, but the records in flight are not from it.
#[test]
fn a_request_is_turned_away_while_the_seal_answers() {
    run_test(ClearHttp1, |mut ends| {
        ends.settle();
        ends.client.renew(&mut ends.wire);
        ends.request(b"GET /5 HTTP/1.1\r\nHost: a\r\n\r\n");
        let Some(Op::Open(ticket, _)) = ends.link.next_op() else { panic!("no Open") };
        let send = ends.link.next_op().expect("the new key is answered");
        ends.link.turn_away(ends.now(), &ends.cx);
        ends.link.check_invariants();
        assert_eq!(ends.link.abandoned(), Some(Abandoned::One(ticket)));
        assert_eq!(ends.next_kind(), None, "the `Send` is still out");
        ends.send(send);
        assert!(ends.plain.is_empty());
        ends.answer("it is refused");
        ends.check_head("HTTP/1.1 503 ");
    });
}

#[test]
fn last_words_that_nobody_takes_are_given_up() {
    run_test(ClearHttp1, |mut ends| {
        ends.settle();
        assert_eq!(ends.expire(), Some(Abandoned::All), "the Recv of an idle connection");
        assert_eq!(ends.next_kind(), Some(OpKind::Send), "it says that this was all");
        let began = ends.tick;
        assert_eq!(ends.expire(), Some(Abandoned::All));
        assert_eq!(ends.tick - began, ends.cx.site.deadlines.linger_ms_max);
        assert_eq!(ends.end(), CloseReason::IdleDeadline);
    });
}

#[test]
fn a_handshake_may_end_before_it_is_over() {
    for (bytes, reason) in [(0, CloseReason::PeerClosed), (7, CloseReason::PeerAborted)] {
        run_test(ClearHttp1, |mut ends| {
            ends.wire.truncate(bytes);
            // The end of the stream comes behind the bytes.
            for _ in 0..=bytes.min(1) {
                assert_eq!(ends.next_kind(), Some(OpKind::Recv));
                ends.receive();
            }
            assert_eq!(ends.end(), reason, "after {bytes} bytes");
        });
    }
    run_test(ClearHttp1, |mut ends| {
        assert_eq!(ends.next_kind(), Some(OpKind::Recv));
        ends.wire[5] ^= 1;
        ends.receive();
        assert_eq!(ends.next_kind(), Some(OpKind::Send), "it says what is wrong");
        assert_eq!(ends.expire(), Some(Abandoned::All));
        assert_eq!(ends.end(), CloseReason::BadRecord);
    });
    run_test(ClearHttp1, |mut ends| {
        assert_eq!(ends.next_kind(), Some(OpKind::Recv));
        assert_eq!(ends.expire(), Some(Abandoned::All));
        assert_eq!(ends.tick - 1_000, ends.cx.site.deadlines.handshake_ms_max);
        assert_eq!(ends.end(), CloseReason::HandshakeDeadline);
    });
    run_test(ClearHttp1, |mut ends| {
        assert_eq!(ends.next_kind(), Some(OpKind::Recv));
        ends.link.cut(CloseReason::Displaced, ends.now(), &ends.cx);
        assert_eq!(ends.end(), CloseReason::Displaced);
    });
}

/// With unread bytes, `close` would throw away what says why the connection ends.
#[test]
fn the_peer_is_awaited_after_a_record_that_cannot_be_opened() {
    let in_handshake: fn(&mut Ends<'_>) = |ends| {
        assert_eq!(ends.next_kind(), Some(OpKind::Recv));
        ends.wire[5] ^= 1;
        ends.receive();
    };
    let after_it: fn(&mut Ends<'_>) = |ends| {
        ends.settle();
        ends.send_plain(b"GET / HTTP/1.1\r\n");
        *ends.wire.last_mut().expect("a record") ^= 1;
        ends.receive();
    };
    let rests: [fn(&mut Ends<'_>); 5] = [
        |ends| {
            ends.complete(Done::Recv(Ok(b"more")));
            assert_eq!(ends.next_kind(), Some(OpKind::Recv));
            ends.complete(Done::Recv(Ok(&[])));
        },
        |ends| {
            let began = ends.tick;
            ends.tick += 10;
            ends.complete(Done::Recv(Ok(b"more")));
            assert_eq!(ends.next_kind(), Some(OpKind::Recv));
            assert_eq!(ends.expire(), Some(Abandoned::All));
            assert_eq!(ends.tick - began, ends.cx.site.deadlines.linger_ms_max);
        },
        |ends| {
            let mut rest = ends.cx.site.limits.linger_bytes_max as usize;
            let piece = vec![0_u8; 64 << 10];
            while let Some(later) = rest.checked_sub(piece.len()) {
                rest = later;
                ends.complete(Done::Recv(Ok(&piece)));
                assert_eq!(ends.next_kind(), Some(OpKind::Recv));
            }
            ends.complete(Done::Recv(Ok(&piece[..=rest])));
        },
        |ends| {
            ends.link.cut(CloseReason::Displaced, ends.now(), &ends.cx);
            assert_eq!(ends.link.abandoned(), Some(Abandoned::All));
        },
        |ends| ends.complete(Done::Recv(Err(Fault::Reset))),
    ];
    for begin in [in_handshake, after_it] {
        for (number, rest) in rests.into_iter().enumerate() {
            run_test(ClearHttp1, |mut ends| {
                begin(&mut ends);
                ends.shut();
                assert!(!ends.link.is_idle() && !ends.link.is_shaking_hands());
                rest(&mut ends);
                assert_eq!(ends.end(), CloseReason::BadRecord, "rest {number}");
            });
        }
    }
}

/// Checks a peer that has begun before or after a server goes away, whose bytes wait in the driver.
fn check_begun(inner: impl Links<Blank> + Copy) {
    for is_before in [false, true] {
        run_test(inner, |mut ends| {
            assert_eq!(ends.next_kind(), Some(OpKind::Recv));
            if is_before {
                ends.link.peer_began();
            }
            ends.link.drain(ends.now(), &ends.cx);
            if !is_before {
                let first = ends.cx.site.deadlines.drain_first_ms();
                assert_eq!(ends.link.deadline(), Tick(1_000 + first));
                ends.link.peer_began();
            }
            assert_eq!(ends.expire(), Some(Abandoned::All));
            assert_eq!(ends.tick - 1_000, ends.cx.site.deadlines.handshake_ms_max);
            assert_eq!(ends.end(), CloseReason::HandshakeDeadline);
        });
    }
}

#[test]
fn a_server_that_goes_away_finishes_a_handshake_that_was_begun() {
    for (bytes, reason) in [(0, CloseReason::Drained), (7, CloseReason::HandshakeDeadline)] {
        run_test(ClearHttp1, |mut ends| {
            assert_eq!(ends.next_kind(), Some(OpKind::Recv));
            ends.link.drain(ends.now(), &ends.cx);
            let deadlines = &ends.cx.site.deadlines;
            let mut limit = deadlines.drain_first_ms();
            if bytes > 0 {
                // A handshake that was begun has its time.
                limit = deadlines.handshake_ms_max;
                ends.wire.truncate(bytes);
                ends.receive();
                assert_eq!(ends.next_kind(), Some(OpKind::Recv));
            }
            assert_eq!(ends.expire(), Some(Abandoned::All));
            assert_eq!(ends.tick - 1_000, limit, "after {bytes} bytes");
            assert_eq!(ends.end(), reason);
        });
    }
    check_begun(ClearHttp1);
    check_begun(Proxied);
    run_test(ClearHttp1, |mut ends| {
        assert_eq!(ends.next_kind(), Some(OpKind::Recv));
        let rest = ends.wire.split_off(7);
        ends.receive();
        ends.link.drain(ends.now(), &ends.cx);
        ends.wire = rest;
        ends.settle();
        ends.request(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
        ends.answer("it is answered");
        let head = String::from_utf8_lossy(&ends.plain).into_owned();
        assert!(head.starts_with("HTTP/1.1 204 ") && head.contains("Connection: close"), "{head}");
    });
}

/// The preface of HTTP/2, and settings without any.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

#[test]
fn the_handshake_chooses_the_protocol() {
    run_agreed(b"h2", ClearHttp1, |mut ends| {
        ends.settle();
        ends.request(PREFACE);
        ends.settle();
        assert_eq!(ends.plain[3..9], [4, 0, 0, 0, 0, 0], "settings come first");
    });
    for name in [&b""[..], b"http/1.1", b"h2c"] {
        run_agreed(name, ClearHttp1, |mut ends| {
            // The address is one with TLS: nothing else than the handshake chooses.
            ends.link = Link::new(peer().in_class(ListenerClass(1)), ends.now(), &ends.cx);
            ends.settle();
            ends.request(PREFACE);
            ends.answer("it is answered");
            assert!(ends.plain.starts_with(b"HTTP/1.1 505 "), "{:?}", ends.plain);
        });
    }
}

/// The driver sees records, in which a protocol with frames would find what is not there.
#[test]
fn records_may_hold_a_request_of_http2() {
    // HEADERS of `GET /none`, for the host `a`.
    const ASK: &[u8] = b"\0\0\x0c\x01\x05\0\0\0\x01\x82\x87\x04\x05/none\x01\x01a";
    run_agreed(b"h2", ClearHttp1, |mut ends| {
        ends.settle();
        ends.send_plain(PREFACE);
        assert!(ends.link.awaits_request(&ends.wire), "the first one");
        ends.receive();
        ends.settle();
        for stream in [1, 3, 5, 7] {
            ends.send_plain(&[&ASK[..8], &[stream], &ASK[9..]].concat());
            assert!(ends.link.awaits_request(&ends.wire), "stream {stream}");
            ends.receive();
            loop {
                match ends.link.next_op().expect("it waits") {
                    Op::Recv => break,
                    Op::Open(ticket, _) => {
                        assert!(!ends.link.awaits_request(b"unknown"), "it has one already");
                        ends.complete(Done::Open(ticket, Err(OpenFault::NotFound)));
                    }
                    op => ends.send(op),
                }
            }
        }
    });
}

/// An alert about a record that arrives meanwhile would follow the end of our half.
#[test]
fn nothing_is_sent_behind_a_shut() {
    run_agreed(b"h2", ClearHttp1, |mut ends| {
        ends.settle();
        ends.send_plain(PREFACE);
        ends.receive();
        ends.settle();
        assert_eq!(ends.expire(), None, "it announces its end");
        ends.answer("GOAWAY and the closing alert");
        assert_eq!(ends.next_kind(), Some(OpKind::Shut));
        ends.send_plain(b"a frame");
        *ends.wire.last_mut().expect("a record") ^= 1;
        ends.receive();
        assert_eq!(ends.next_kind(), None, "the `Shut` is in flight");
        ends.complete(Done::Shut);
        assert_eq!(ends.end(), CloseReason::BadRecord);
    });
}

/// A driver may know which turns continue a handshake, and which connections never have one.
#[test]
fn a_handshake_is_announced_until_it_is_over() {
    run_test(ClearHttp1, |mut ends| {
        assert!(ends.link.is_shaking_hands());
        assert_eq!(ends.next_kind(), Some(OpKind::Recv));
        ends.receive();
        assert!(ends.link.is_shaking_hands(), "the client's last message is to come");
        ends.settle();
        assert!(!ends.link.is_shaking_hands());
        let clear = Link::<Blank>::new(peer(), at(1), &Cx { links: &ClearHttp1, ..ends.cx });
        assert!(!clear.is_shaking_hands());
    });
    run_test(ClearHttp1, |mut ends| {
        let (now, cx) = (ends.now(), ends.cx);
        ends.link.cut(CloseReason::Failed, now, &cx);
        assert!(!ends.link.is_shaking_hands(), "it has failed");
    });
    run_test(Proxied, |mut ends| {
        assert!(ends.link.is_shaking_hands(), "a hello may be behind the header");
        let header = b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n";
        ends.wire = [&header[..], &ends.wire[..]].concat();
        ends.settle();
        assert!(!ends.link.is_shaking_hands());
    });
}
