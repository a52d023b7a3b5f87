//! Under every fault that can be injected, each byte arrives once and in order.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::Dir;
use regatta_op::{Codings, File, OpenReq, Opened, Outbox, ReadReq, Segment};
use regatta_sys::{
    OpenRules, Root,
    chaos::{self, Plan},
    open_below, read_range, recv, send,
    socket::{AcceptFault, ListenSpec, Mode, accept, accept_fault, listen, local_addr},
    wait::{Epoll, Interest, Poller, Trigger},
};
use std::{
    collections::BTreeSet,
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, TcpStream},
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

#[test]
fn every_byte_arrives_once_whatever_strikes() {
    chaos::install(Plan {
        seed: 1,
        short_per_mille: 400,
        eintr_per_mille: 5000,
        eagain_per_mille: 200,
        emfile_accept_per_mille: 300,
        slow_open_per_mille: 500,
        slow_open_us: 2000,
    });
    let listener = listen(&ListenSpec::new((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let mut client = TcpStream::connect(local_addr(listener.as_fd()).unwrap()).unwrap();
    let mut seen = BTreeSet::new();
    let server = loop {
        match accept(listener.as_fd(), Mode::Nonblocking) {
            Ok((fd, _)) => break fd,
            Err(error) => match accept_fault(&error) {
                fault @ (AcceptFault::WouldBlock | AcceptFault::Exhausted) => {
                    seen.insert(format!("{fault:?}"));
                }
                fault => panic!("{fault:?}"),
            },
        }
    };

    let dir = Dir::new("chaos");
    let body: Vec<_> = (0..20_000_u32).map(|i| (i % 251).to_le_bytes()[0]).collect();
    dir.write("file", &body);
    let root = Root::open(dir.path()).unwrap();
    let req = OpenReq { path: b"file"[..].into(), siblings: Codings::ALL };
    let start = Instant::now();
    let opened: Vec<_> =
        (0..20).map(|_| open_below(&root, &req, OpenRules::default()).unwrap()).collect();
    assert!(start.elapsed() > Duration::from_millis(4), "some opens are slow");
    let Opened::File { file, .. } = &opened[0] else { panic!("it is a file") };
    let read = read_range(&ReadReq { file: file.clone(), at: 0, len: file.len() }).unwrap();
    assert_eq!(&*read, body);

    let response = || {
        let mut outbox = Outbox::new(b"head".to_vec());
        outbox.push(Segment::Mem { bytes: body.clone().into(), at: 0 });
        outbox.push(Segment::File { file: file.clone(), at: 0, len: 20_000 });
        outbox.push(Segment::Mem { bytes: b"middle"[..].into(), at: 0 });
        outbox.push(Segment::File { file: file.clone(), at: 10_000, len: 10_000 });
        outbox
    };
    let expected = [b"head", &body[..], &body[..], b"middle", &body[10_000..]].concat().repeat(40);
    let len = expected.len();
    let reader = thread::spawn(move || {
        let mut all = vec![0; len];
        client.read_exact(&mut all).unwrap();
        client.write_all(&all).unwrap();
        (all, client)
    });
    let mut poller = Epoll::new(Trigger::Level).unwrap();
    poller.add(server.as_fd(), 1, Interest::WRITE).unwrap();
    let mut events = Vec::new();
    let (mut waits, mut idle, mut sends) = (0, 0, 0);
    for mut outbox in (0..40).map(|_| response()) {
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
    assert!(waits > 0 && idle > 0 && sends > 250, "{waits} waits, {idle} idle, {sends} sends");

    poller.set(server.as_fd(), 1, Interest::READ).unwrap();
    let mut back = Vec::new();
    let mut buf = vec![0; 65536];
    while back.len() < len {
        match recv(server.as_fd(), &mut buf) {
            Ok(n) => back.extend_from_slice(&buf[..n]),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                poller.wait(&mut events, None).unwrap();
            }
        }
    }
    let (all, _client) = reader.join().unwrap();
    assert_eq!(all, expected);
    assert_eq!(back, expected);
    assert!(chaos::struck() > 100);

    // An edge that was missed would not come again.
    let _edge = Epoll::new(Trigger::Edge).unwrap();
    for _ in 0..500 {
        assert!(send(server.as_fd(), &mut Outbox::new(b"x".to_vec()), 1).is_ok());
    }
    eprintln!("faults at accept: {seen:?}");
}
