//! A ring for sockets and files: what it reports, and what happens to operations in flight.
use regatta_op::{Outbox, Segment};
use regatta_sys::{
    Bell, OpenRules, StaticFile,
    socket::{self, Connection, ListenSpec, Mode, listen, local_addr},
    uring::{DiskOp, Finished, SentBytes, WireRing},
    wait::{Event, Interest, Poller},
};
use regatta_testkit::{folder::Folder, skips::skip};
use std::{
    cell::RefCell,
    fs,
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpStream},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

const LISTENER: u64 = 1 << 63;
const COMPLETIONS: u64 = LISTENER + 1;
const BELL: u64 = LISTENER + 2;
const PATIENCE: Duration = Duration::from_secs(20);

/// A ring with a listener, and the descriptor that stands for its completions.
struct Rig {
    ring: RefCell<WireRing>,
    _source: Bell,
    listener: OwnedFd,
    events: Vec<Event>,
}

impl Rig {
    /// `None`: the system has no io_uring.
    fn new(buffers: u16, bytes: usize) -> Option<Self> {
        let mut ring = WireRing::new(None, OpenRules::default(), buffers, bytes).ok()?;
        let source = ring.source().unwrap();
        let ring = RefCell::new(ring);
        let listener = listen(&ListenSpec::new((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
        let mut poller = &ring;
        poller.add_level(source.as_fd(), COMPLETIONS, Interest::READ).unwrap();
        poller.add_listener(listener.as_fd(), LISTENER).unwrap();
        Some(Self { ring, _source: source, listener, events: Vec::new() })
    }

    /// Waits once; returns the number of events.
    fn wait(&mut self) -> usize {
        let mut poller = &self.ring;
        poller.wait(&mut self.events, Some(Duration::from_millis(50))).unwrap()
    }

    /// Waits once, longer than any send is held.
    fn wait_long(&mut self) {
        let mut poller = &self.ring;
        poller.wait(&mut self.events, Some(PATIENCE)).unwrap();
    }

    /// Waits several times.
    fn wait_for(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.wait();
        }
    }

    /// Waits until this yields something.
    #[track_caller]
    fn until<T>(&mut self, mut found: impl FnMut(&mut WireRing, &[Event]) -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            self.wait();
            if let Some(found) = found(&mut self.ring.borrow_mut(), &self.events) {
                return found;
            }
            assert!(begin.elapsed() < PATIENCE, "never became so: {:?}", self.events);
        }
    }

    /// A connection with this key, which receives, and its client.
    fn connect(&mut self, key: u64) -> (Connection, TcpStream) {
        let client = TcpStream::connect(local_addr(self.listener.as_fd()).unwrap()).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let begin = Instant::now();
        let (socket, peer) = loop {
            self.wait();
            match socket::accept(self.listener.as_fd(), Mode::Nonblocking) {
                Ok(accepted) => break accepted,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            assert!(begin.elapsed() < PATIENCE, "nothing was accepted");
        };
        assert_eq!(peer, Some(client.local_addr().unwrap()));
        let mut poller = &self.ring;
        poller.add(socket.as_fd(), key, Interest::READ).unwrap();
        (socket, client)
    }

    /// Forgets a socket that is closed next.
    fn forget(&self, socket: &Connection) {
        let mut poller = &self.ring;
        poller.remove(socket.as_fd()).unwrap();
    }

    /// Receives this many bytes.
    #[track_caller]
    fn receive(&mut self, key: u64, len: usize) -> Vec<u8> {
        let (mut bytes, mut buffer) = (Vec::new(), [0; 1000]);
        self.until(|ring, _| {
            while bytes.len() < len {
                match ring.recv(key, &mut buffer) {
                    Ok(n) => bytes.extend_from_slice(&buffer[..n]),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        return None;
                    }
                }
            }
            Some(())
        });
        bytes
    }

    /// Sends until the socket takes nothing; returns the number of bytes.
    fn fill(&mut self, key: u64, socket: &Connection) -> usize {
        let mut bytes = 0;
        loop {
            let large = outbox(b"", pattern(20 << 20));
            self.ring.borrow_mut().send(key, socket, large, u64::MAX);
            self.wait_for(4);
            let Some(sent) = self.ring.borrow_mut().next_sent() else { break };
            bytes += usize::try_from(sent.sent.unwrap()).unwrap();
        }
        self.ring.borrow_mut().abandon_send(key);
        self.wait_for(2);
        bytes
    }

    /// Sends an outbox until it is empty; returns the number of sends.
    #[track_caller]
    fn send(&mut self, key: u64, socket: &Connection, mut outbox: Outbox<StaticFile>) -> usize {
        for sends in 1.. {
            self.ring.borrow_mut().send(key, socket, outbox, u64::MAX);
            let SentBytes { key: of, outbox: rest, sent } = self.until(|ring, _| ring.next_sent());
            assert!(of == key && sent.unwrap() > 0);
            if rest.is_empty() {
                return sends;
            }
            outbox = rest;
        }
        unreachable!("returned above")
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect()
}

/// A head and a body in memory.
fn outbox(head: &[u8], body: impl Into<Arc<[u8]>>) -> Outbox<StaticFile> {
    let mut outbox = Outbox::new(head.to_vec());
    outbox.push(Segment::mem(body));
    outbox
}

/// The last outbox before the peer sends more.
fn pausing(head: &[u8]) -> Outbox<StaticFile> {
    let mut outbox = Outbox::new(head.to_vec());
    outbox.set_pauses(true);
    outbox
}

#[test]
fn bytes_go_both_ways() {
    let Some(mut rig) = Rig::new(8, 256) else { return skip("needs io_uring") };
    let (socket, mut client) = rig.connect(5);
    let sent = pattern(100_000);
    let all = sent.clone();
    let mut writer = client.try_clone().unwrap();
    // Far more than all buffers have room for.
    let write = thread::spawn(move || writer.write_all(&all).unwrap());
    assert_eq!(rig.receive(5, sent.len()), sent);
    write.join().unwrap();
    assert_eq!(rig.send(5, &socket, outbox(b"head", *b"body")), 1, "a small reply is one send");
    let mut found = [0; 8];
    client.read_exact(&mut found).unwrap();
    assert_eq!(&found, b"headbody");
    let large = pattern(20 << 20);
    let read = thread::spawn(move || {
        let mut found = vec![0; 20 << 20];
        client.read_exact(&mut found).unwrap();
        (client, found)
    });
    assert!(rig.send(5, &socket, outbox(b"", large.clone())) > 1, "it is taken in parts");
    let (client, found) = read.join().unwrap();
    assert!(found == large);
    client.shutdown(Shutdown::Write).unwrap();
    let end = rig.until(|_, events| events.iter().find(|event| event.key == 5).copied());
    assert!(end.readable && end.hangup && !end.broken);
    assert_eq!(rig.ring.borrow_mut().recv(5, &mut [0; 8]).unwrap(), 0);
    assert!(rig.ring.borrow().has_input(5), "the end stays");
}

/// Input that is not taken stays in its order, and is bounded; other connections have buffers.
#[test]
fn input_that_waits_holds_no_buffer() {
    const BUFFERS: u16 = 8;
    let Some(mut rig) = Rig::new(BUFFERS, 256) else { return skip("needs io_uring") };
    let clients: Vec<_> = (0..20).map(|key| rig.connect(key)).collect();
    for (at, (_, client)) in clients.iter().enumerate() {
        let mut client = client;
        client.write_all(&vec![u8::try_from(at).unwrap(); 10_000]).unwrap();
    }
    rig.wait_for(20);
    for key in (0..20).rev() {
        let sent = vec![u8::try_from(key).unwrap(); 10_000];
        assert_eq!(rig.receive(key, sent.len()), sent);
    }
    for key in 0..20 {
        let mut buffer = [0; 8];
        assert!(rig.ring.borrow_mut().recv(key, &mut buffer).is_err(), "all was taken");
    }
}

/// A connection is closed with a receive and a send in flight, and another has its place.
#[test]
fn operations_in_flight_find_no_successor() {
    let Some(mut rig) = Rig::new(8, 256) else { return skip("needs io_uring") };
    let large: Arc<[u8]> = pattern(20 << 20).into();
    for round in 0_u64..20 {
        let key = round << 32 | 3;
        let (socket, mut client) = rig.connect(key);
        rig.ring.borrow_mut().send(key, &socket, outbox(b"", Arc::clone(&large)), u64::MAX);
        if round % 2 == 0 {
            rig.until(|ring, _| ring.next_sent());
            rig.ring.borrow_mut().send(key, &socket, outbox(b"", Arc::clone(&large)), u64::MAX);
            rig.wait();
        }
        rig.ring.borrow_mut().abandon_send(key);
        rig.forget(&socket);
        drop(socket);
        // The end of the stream, or a reset, waits until what is in flight has been cancelled.
        rig.wait_for(2);
        drop(client.read_to_end(&mut Vec::new()));
        let next = key + (1 << 32);
        let (socket, mut client) = rig.connect(next);
        client.write_all(b"hello").unwrap();
        assert_eq!(rig.receive(next, 5), b"hello");
        rig.send(next, &socket, outbox(b"he", *b"llo"));
        let mut found = [0; 5];
        client.read_exact(&mut found).unwrap();
        assert_eq!(&found, b"hello");
        assert!(rig.ring.borrow_mut().next_sent().is_none());
        rig.forget(&socket);
    }
}

/// A ring that ends with a send and a receive in flight releases the memory that they use.
#[test]
fn the_end_releases_what_is_in_flight() {
    let Some(mut rig) = Rig::new(8, 256) else { return skip("needs io_uring") };
    let large: Arc<[u8]> = pattern(20 << 20).into();
    let (socket, mut client) = rig.connect(1);
    let mut rest = Some(outbox(b"", Arc::clone(&large)));
    while let Some(outbox) = rest.take() {
        rig.ring.borrow_mut().send(1, &socket, outbox, u64::MAX);
        rig.wait();
        rest = rig.ring.borrow_mut().next_sent().map(|sent| sent.outbox);
    }
    drop((rig, socket));
    assert_eq!(Arc::strong_count(&large), 1, "the send has been cancelled");
    let mut found = Vec::new();
    client.read_to_end(&mut found).unwrap();
    assert!(large.starts_with(&found) && found.len() < large.len(), "{} bytes", found.len());
}

/// By way of memory with what precedes them, or by a pipe.
#[test]
fn pieces_of_files_are_sent() {
    let Some(mut rig) = Rig::new(8, 256) else { return skip("needs io_uring") };
    let folder = Folder::new("pieces");
    let content = pattern(300_000);
    fs::write(folder.join("file"), &content).unwrap();
    let file = fs::File::open(folder.join("file")).unwrap();
    let file = StaticFile::adopt(file.into()).unwrap();
    for by_pipe in [false, true] {
        let (socket, mut client) = rig.connect(u64::from(by_pipe));
        let key = u64::from(by_pipe);
        let read = thread::spawn(move || {
            // The server waits for room.
            thread::sleep(Duration::from_millis(100));
            let mut found = Vec::new();
            client.read_to_end(&mut found).unwrap();
            found
        });
        let mut outbox = Outbox::new(b"head".to_vec());
        if by_pipe {
            rig.send(key, &socket, std::mem::take(&mut outbox));
        }
        let (at, len) = (1000, 299_000);
        for _ in 0..30 {
            outbox.push(Segment::File { file: file.clone(), at, len });
        }
        while !outbox.is_empty() {
            let Some(Segment::File { at, len, .. }) = outbox.segments().next() else { panic!() };
            let (at, len) = (*at, *len);
            let mut ring = rig.ring.borrow_mut();
            if ring.piece_bytes(key, &outbox) == 0 {
                ring.expect_piece(key, &file, at);
                let file = file.clone();
                let op = match by_pipe {
                    true => DiskOp::Fill { file, at, len, pipe: ring.pipe(1 << 18, 1).unwrap() },
                    false => DiskOp::Read(regatta_op::ReadReq::new(file, at, len.min(100_000))),
                };
                let token = ring.start(op).unwrap_err();
                drop(ring);
                let (of, finished) = rig.until(|ring, _| ring.next_finished());
                assert_eq!(of, token);
                let mut ring = rig.ring.borrow_mut();
                match finished {
                    Finished::Read(read) => ring.keep_piece(key, read),
                    Finished::Filled(pipe, filled) => ring.keep_pipe(key, pipe, filled),
                    other => panic!("{other:?}"),
                }
            } else {
                drop(ring);
            }
            rig.ring.borrow_mut().send(key, &socket, outbox, 70_000);
            let sent = rig.until(|ring, _| ring.next_sent());
            assert!(sent.sent.unwrap() > 0);
            outbox = sent.outbox;
        }
        rig.forget(&socket);
        drop(socket);
        // The end of the stream waits for the receive, which has been cancelled.
        rig.wait_for(2);
        let found = read.join().unwrap();
        let expect = [b"head", content[1000..].repeat(30).as_slice()].concat();
        assert!(found == expect, "by pipe: {by_pipe}, {} bytes", found.len());
    }
}

/// A wait returns the completion of a reply and the request that follows it.
#[test]
fn a_wait_passes_over_a_reply_to_the_next_request() {
    let Some(mut rig) = Rig::new(8, 256) else { return skip("needs io_uring") };
    if !rig.ring.borrow_mut().set_hold(PATIENCE / 2) {
        return skip("needs Linux 6.12");
    }
    let (socket, mut client) = rig.connect(1);
    rig.wait_for(2);
    let asks = thread::spawn(move || {
        let mut reply = *b"first";
        for _ in 0..4 {
            thread::sleep(Duration::from_millis(20));
            client.write_all(&reply).unwrap();
            client.read_exact(&mut reply).unwrap();
        }
        client
    });
    rig.receive(1, 5);
    for _ in 0..3 {
        rig.ring.borrow_mut().send(1, &socket, pausing(b"hello"), u64::MAX);
        rig.wait_long();
        let sent = rig.ring.borrow_mut().next_sent().expect("it was sent");
        assert_eq!(sent.sent.unwrap(), 5);
        assert_eq!(rig.ring.borrow_mut().recv(1, &mut [0; 8]).unwrap(), 5, "in the same wait");
    }
    // The first has more to do after it, and the second continues a response.
    for reply in [outbox(b"", *b"hello"), pausing(b"more")] {
        rig.ring.borrow_mut().send(1, &socket, reply, u64::MAX);
        let begin = Instant::now();
        rig.wait_long();
        assert!(begin.elapsed() < PATIENCE / 4, "it did not wait for more");
        assert!(rig.ring.borrow_mut().next_sent().is_some());
    }
    drop(asks.join().unwrap());
}

/// A reply to a client that takes nothing delays no other client, and its own connection for a
/// bounded time.
#[test]
fn a_full_socket_ends_a_wait() {
    let Some(mut rig) = Rig::new(8, 256) else { return skip("needs io_uring") };
    if !rig.ring.borrow_mut().set_hold(PATIENCE / 2) {
        return skip("needs Linux 6.12");
    }
    let (full, mut stalled) = rig.connect(1);
    let (_socket, mut client) = rig.connect(2);
    let sent = rig.fill(1, &full);
    stalled.write_all(b"more").unwrap();
    rig.receive(1, 4);
    let asks = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        client.write_all(b"hello").unwrap();
        client
    });
    rig.ring.borrow_mut().send(1, &full, pausing(b"reply"), u64::MAX);
    let begin = Instant::now();
    rig.wait_long();
    assert!(begin.elapsed() < PATIENCE / 4, "the other's request ends the wait");
    assert_eq!(rig.ring.borrow_mut().recv(2, &mut [0; 8]).unwrap(), 5);
    drop(asks.join().unwrap());
    rig.until(|_, events| events.iter().find(|event| event.key == 2).copied());
    // The kernel waits for room now.
    rig.wait_for(2);
    assert!(rig.ring.borrow_mut().next_sent().is_none());
    let mut found = vec![0; sent + 5];
    let read = thread::spawn(move || {
        stalled.read_exact(&mut found).unwrap();
        (stalled, found)
    });
    assert_eq!(rig.until(|ring, _| ring.next_sent()).sent.unwrap(), 5);
    let (mut stalled, found) = read.join().unwrap();
    assert!(found.ends_with(b"reply"));
    // With nothing else to report, the reply is reported when its time is over.
    let hold = Duration::from_millis(100);
    rig.ring.borrow_mut().set_hold(hold);
    stalled.write_all(b"more").unwrap();
    rig.receive(1, 4);
    rig.ring.borrow_mut().send(1, &full, pausing(b"reply"), u64::MAX);
    let begin = Instant::now();
    rig.wait_long();
    assert!((hold..PATIENCE / 4).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    assert!(rig.ring.borrow_mut().next_sent().is_some());
}

#[test]
fn a_bell_wakes_the_wait_each_time() {
    let Some(mut rig) = Rig::new(8, 256) else { return skip("needs io_uring") };
    let bell = Bell::new().unwrap();
    let mut poller = &rig.ring;
    poller.add_level(bell.as_fd(), BELL, Interest::READ).unwrap();
    assert_eq!(rig.wait(), 0);
    for _ in 0..3 {
        bell.ring();
        rig.until(|_, events| events.iter().any(|event| event.key == BELL).then_some(()));
        assert!(bell.clear());
    }
}
