//! Under every fault that can be injected, each byte arrives once and in order.
//!
//! A program of its own: faults strike every thread of the process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use regatta_op::{Codings, File, OpenReq, Opened, Outbox, ReadReq, Segment};
use regatta_sys::{
    OpenRules, Resident, Root, StaticFile, by_nowait,
    hook::{self, Plan},
    open_below, read_range, recv, send,
    socket::{AcceptFault, Connection, ListenSpec, Mode, accept, accept_fault, listen, local_addr},
    wait::{Epoll, Interest, Poller, Trigger},
};
use regatta_testkit::folder::Folder;
use std::{
    fs,
    io::{ErrorKind, Read, Write},
    iter,
    net::{Ipv4Addr, TcpStream},
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

const LEN: u32 = 20_000;
const RESPONSES: usize = 40;

#[test]
fn every_byte_arrives_once_whatever_strikes() {
    hook::inject(Plan {
        seed: 1,
        short_per_mille: 400,
        eintr_per_mille: 5000,
        eagain_per_mille: 200,
        emfile_accept_per_mille: 300,
        slow_open_per_mille: 500,
        slow_open_us: 2000,
        slow_read_per_mille: 1000,
        slow_read_us: 2000,
        ..Plan::default()
    });
    let (server, mut client) = connection();
    let dir = Folder::new("chaos");
    let body: Vec<_> = (0..LEN).map(|i| (i % 251).to_le_bytes()[0]).collect();
    fs::write(dir.join("file"), &body).unwrap();
    let file = open(&dir);
    assert_eq!(by_nowait(&file, 0, LEN.into()), Resident::No, "nobody has read it");
    let start = Instant::now();
    let (read, done) = read_range(ReadReq::new(file.clone(), 0, file.len()));
    done.unwrap();
    assert_eq!(&*read, body);
    assert!(start.elapsed() >= Duration::from_millis(2), "the first read is slow");
    assert_ne!(by_nowait(&file, 0, LEN.into()), Resident::No, "somebody has waited for it");

    let one = [b"head", &body[..], &body[..], b"middle", &body[10_000..]].concat();
    let expected = one.repeat(RESPONSES);
    let len = expected.len();
    let reader = thread::spawn(move || {
        let mut all = vec![0; len];
        client.read_exact(&mut all).unwrap();
        client.write_all(&all).unwrap();
        (all, client)
    });
    let mut poller = Epoll::new(Trigger::Level).unwrap();
    poller.add(server.as_fd(), 1, Interest::WRITE).unwrap();
    send_all(&server, &mut poller, || {
        let mut outbox = Outbox::new(b"head".to_vec());
        outbox.push(Segment::mem(body.clone()));
        outbox.push(Segment::File { file: file.clone(), at: 0, len: LEN.into() });
        outbox.push(Segment::mem(&b"middle"[..]));
        outbox.push(Segment::File { file: file.clone(), at: 10_000, len: 10_000 });
        outbox
    });
    poller.set(server.as_fd(), 1, Interest::READ).unwrap();
    let back = recv_all(&server, &mut poller, len);
    let (all, mut client) = reader.join().unwrap();
    assert_eq!(all, expected);
    assert_eq!(back, expected);
    assert!(hook::struck() > 100);

    // A missed edge would not return.
    let _edge = Epoll::new(Trigger::Edge).unwrap();
    for _ in 0..500 {
        assert!(send(server.as_fd(), &mut Outbox::new(b"x".to_vec()), 1).is_ok());
    }
    // Nor would one for the bytes that a short receive leaves.
    for _ in 0..200 {
        client.write_all(&[7; 1000]).unwrap();
        let taken = || recv(server.as_fd(), &mut [0; 2000]);
        assert_eq!(iter::repeat_with(taken).find_map(Result::ok), Some(1000));
    }
}

/// Accepts until it works; earlier attempts must have failed for the right reasons.
fn connection() -> (Connection, TcpStream) {
    let listener = listen(&ListenSpec::new((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let client = TcpStream::connect(local_addr(listener.as_fd()).unwrap()).unwrap();
    loop {
        match accept(listener.as_fd(), Mode::Nonblocking) {
            Ok((server, _)) => return (server, client),
            Err(error) => assert!(matches!(
                accept_fault(&error),
                AcceptFault::WouldBlock | AcceptFault::Exhausted
            )),
        }
    }
}

fn open(dir: &Folder) -> StaticFile {
    let root = Root::open(dir).unwrap();
    let req = OpenReq { path: b"file"[..].into(), siblings: Codings::ALL };
    let start = Instant::now();
    let mut opened: Vec<_> =
        (0..20).map(|_| open_below(&root, &req, OpenRules::default()).unwrap()).collect();
    assert!(start.elapsed() > Duration::from_millis(4), "some opens are slow");
    match opened.remove(0) {
        Opened::File { file, .. } => file,
        Opened::Directory => panic!("it is a file"),
    }
}

fn send_all(server: &Connection, poller: &mut Epoll, response: impl Fn() -> Outbox<StaticFile>) {
    let mut events = Vec::new();
    let (mut waits, mut idle, mut sends) = (0, 0, 0);
    for mut outbox in (0..RESPONSES).map(|_| response()) {
        while !outbox.is_empty() {
            sends += 1;
            match send(server.as_fd(), &mut outbox, u64::MAX) {
                Ok(sent) => assert!(sent.bytes > 0),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    waits += 1;
                    idle += u32::from(poller.wait(&mut events, None).unwrap() == 0);
                }
            }
        }
    }
    // Four calls would send a response if nothing struck.
    assert!(waits > 0 && idle > 0 && sends > 250, "{waits} waits, {idle} idle, {sends} sends");
}

fn recv_all(server: &Connection, poller: &mut Epoll, len: usize) -> Vec<u8> {
    let mut events = Vec::new();
    let mut buf = vec![0; 65536];
    let mut all = Vec::new();
    while all.len() < len {
        match recv(server.as_fd(), &mut buf) {
            Ok(n) => all.extend_from_slice(&buf[..n]),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                poller.wait(&mut events, None).unwrap();
            }
        }
    }
    all
}
