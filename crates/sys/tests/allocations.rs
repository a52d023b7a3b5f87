//! Work on every request allocates nothing.
//!
//! A program of its own: the other tests run on the allocator that programs have.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use regatta_op::{Codings, OpenReq, Opened, Outbox, ReadReq, Segment};
use regatta_sys::{
    OpenRules, Root,
    alloc_count::{Counting, allocations, allocations_under_locks},
    clock,
    crew::{self, Crew},
    open_below, recv, send,
    socket::{ListenSpec, Mode, accept, listen, local_addr},
    uring::{DiskOp, Finished, Ring},
    wait::{Epoll, Interest, Poll, Poller, Select, Trigger},
};
use regatta_testkit::{folder::Folder, skips::skip};
use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    os::fd::AsFd,
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts the allocations of `work`.
fn count<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = allocations();
    let result = work();
    (result, allocations() - before)
}

#[test]
fn what_is_taken_under_a_lock_is_counted_apart() {
    let books = Crew::count_words(1, 64);
    let memory = crew::create_words(books + 8).unwrap();
    let (books, words) = memory.words().split_at(books);
    let member = Crew::create(books, 1, 64).unwrap().enter(0).unwrap();
    let work = || count(|| Vec::<u8>::with_capacity(1)).1;
    assert_eq!((work(), allocations_under_locks()), (1, 0));
    let grip = member.lock(&words[0]);
    assert_eq!(work(), 1);
    drop(grip);
    let known = u64::from(cfg!(debug_assertions));
    assert_eq!((work(), allocations_under_locks()), (1, known));
}

#[test]
fn a_request_allocates_nothing() {
    assert_eq!(count(|| vec![1]).1, 1, "the allocator counts");
    let listener = listen(&ListenSpec::new((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let mut client = TcpStream::connect(local_addr(listener.as_fd()).unwrap()).unwrap();
    let accepted = count(|| accept(listener.as_fd(), Mode::Blocking).unwrap());
    let ((server, _), 0) = accepted else { panic!("accept allocates") };

    let dir = Folder::new("allocations");
    fs::write(dir.join("file"), "body").unwrap();
    let root = Root::open(&dir).unwrap();
    let req = OpenReq { path: b"file"[..].into(), siblings: Codings::ALL };
    let (opened, n) = count(|| open_below(&root, &req, OpenRules::default()).unwrap());
    assert_eq!(n, 1, "the file's counted descriptor");
    let Opened::File { file, .. } = opened else { panic!("it is a file") };

    let pollers: [Box<dyn Poller>; 4] = [
        Box::new(Epoll::new(Trigger::Level).unwrap()),
        Box::new(Epoll::new(Trigger::Edge).unwrap()),
        Box::new(Poll::new()),
        Box::new(Select::new()),
    ];
    let mut events = Vec::with_capacity(64);
    let mut buf = [0; 64];
    for mut poller in pollers {
        poller.add(server.as_fd(), 1, Interest::READ).unwrap();
        poller.wait(&mut events, Some(std::time::Duration::ZERO)).unwrap();
        for _ in 0..3 {
            client.write_all(b"request").unwrap();
            let mut outbox = Outbox::new(b"head".to_vec());
            outbox.push(Segment::File { file: file.clone(), at: 0, len: 4 });
            let ((), n) = count(|| {
                poller.wait(&mut events, None).unwrap();
                assert_eq!(recv(server.as_fd(), &mut buf).unwrap(), 7);
                let _ = (clock::now(), clock::nanos());
                while !outbox.is_empty() {
                    send(server.as_fd(), &mut outbox, u64::MAX).unwrap();
                }
                poller.set(server.as_fd(), 1, Interest::READ).unwrap();
            });
            assert_eq!(n, 0, "{poller:?}");
            client.read_exact(&mut buf[..8]).unwrap();
            assert_eq!(&buf[..8], b"headbody");
        }
    }
}

/// Allocations of laio's ring for an operation (docs/arch/laio.md).
#[test]
fn an_operation_of_the_ring_allocates_a_little() {
    let dir = Folder::new("ring");
    fs::write(dir.join("file"), "body".repeat(5000)).unwrap();
    let root = || Root::open(&dir).unwrap();
    let Ok(mut ring) = Ring::new(Some(root()), OpenRules::default()) else {
        return skip("needs io_uring");
    };
    let req = |siblings| OpenReq { path: b"file"[..].into(), siblings };
    let mut done = Vec::with_capacity(8);
    // The kernel may continue an operation although all is in memory: wait for it.
    let mut over = |work: DiskOp| {
        count(|| match ring.start(work) {
            Ok(finished) => finished,
            Err(_) => loop {
                ring.finished(&mut done).unwrap();
                if let Some((_, finished)) = done.pop() {
                    break finished;
                }
            },
        })
    };
    let mut seen = Vec::new();
    for siblings in [Codings::NONE, Codings::ALL] {
        // The first of each allocates what is kept.
        let _ = over(DiskOp::Open(req(siblings)));
        let (opened, n) = over(DiskOp::Open(req(siblings)));
        let Finished::Opened(Ok(Opened::File { file, .. })) = opened else { panic!("{opened:?}") };
        seen.push(n);
        if siblings == Codings::NONE {
            let read = |buffer| ReadReq { file: file.clone(), at: 0, len: 20_000, buffer };
            let (Finished::Read((buffer, Ok(()))), _) = over(DiskOp::Read(read(Vec::new()))) else {
                panic!("it can be read")
            };
            seen.push(over(DiskOp::Read(read(buffer))).1);
            let prefetch = || DiskOp::Prefetch { file: file.clone(), at: 0, len: 20_000 };
            let _ = over(prefetch());
            seen.push(over(prefetch()).1);
        }
    }
    assert_eq!(seen, [3, 1, 1, 4], "open, read, prefetch, open with siblings");
}
