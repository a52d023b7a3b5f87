//! Bytes over real connections: the content of the outbox arrives, one call at a time.
use regatta_op::{Fault, File, Outbox, Segment};
use regatta_sys::{
    SEND_SLICES_MAX, SendCall, StaticFile, fault, recv, recv_now, send, send_last, send_more,
    send_range,
    socket::{
        AcceptFault, Connection, ListenSpec, Mode, Steps, accept, accept_fault, adopt, listen,
        local_addr, queued_bytes, segments_received, set_mode, set_timeouts, shutdown_write,
        stop_listening, unsent_limit, wait_max,
    },
};
use regatta_testkit::{folder::Folder, skips::skip, waits::eventually};
use rustix::net::sockopt;
use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

fn local() -> ListenSpec {
    ListenSpec::new((Ipv4Addr::LOCALHOST, 0).into())
}

/// A connection: the server's side, and the client's.
fn pair(spec: &ListenSpec, mode: Mode) -> (Connection, TcpStream) {
    let listener = listen(spec).unwrap();
    let client = TcpStream::connect(local_addr(listener.as_fd()).unwrap()).unwrap();
    let (fd, peer) = accept_soon(&listener, mode);
    assert_eq!(peer, client.local_addr().unwrap());
    (fd, client)
}

fn accept_soon(listener: &OwnedFd, mode: Mode) -> (Connection, SocketAddr) {
    loop {
        match accept(listener.as_fd(), mode) {
            Err(error) if accept_fault(&error) == AcceptFault::WouldBlock => thread::yield_now(),
            result => {
                let (fd, peer) = result.unwrap();
                return (fd, peer.unwrap());
            }
        }
    }
}

fn static_file(dir: &Folder, name: &str, bytes: &[u8]) -> StaticFile {
    fs::write(dir.join(name), bytes).unwrap();
    StaticFile::adopt(fs::File::open(dir.join(name)).unwrap().into()).unwrap()
}

fn mem(bytes: &[u8]) -> Segment<StaticFile> {
    Segment::mem(bytes)
}

fn read_exactly(client: &mut TcpStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    client.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn accepted_sockets_have_the_listeners_options() {
    for (nodelay, unsent_bytes_max) in [(true, 65_536), (false, 0)] {
        let options = ListenSpec {
            send_buffer_bytes: 40_000,
            receive_buffer_bytes: 30_000,
            pacing_rate: 10_000_000,
            ..local()
        };
        let listener = listen(&ListenSpec { nodelay, unsent_bytes_max, ..options }).unwrap();
        for mode in [Mode::Nonblocking, Mode::Blocking] {
            let client = TcpStream::connect(local_addr(listener.as_fd()).unwrap()).unwrap();
            let (fd, peer) = accept_soon(&listener, mode);
            assert_eq!(peer, client.local_addr().unwrap());
            assert_eq!(sockopt::tcp_nodelay(&fd).unwrap(), nodelay);
            // The kernel doubles it (socket(7)).
            assert_eq!(sockopt::socket_send_buffer_size(&fd).unwrap(), 80_000);
            assert_eq!(sockopt::socket_recv_buffer_size(&fd).unwrap(), 60_000);
            assert_eq!(unsent_limit(fd.as_fd()).unwrap(), unsent_bytes_max);
            let flags = rustix::io::fcntl_getfd(&fd).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
            let flags = rustix::fs::fcntl_getfl(&fd).unwrap();
            let waits = !flags.contains(rustix::fs::OFlags::NONBLOCK);
            assert_eq!(waits, mode == Mode::Blocking);
        }
    }
}

#[test]
fn a_listener_that_is_taken_over_has_the_new_limit_of_unsent_bytes() {
    let spec = ListenSpec { unsent_bytes_max: 65_536, ..local() };
    let listener = listen(&spec).unwrap();
    for unsent_bytes_max in [16_384, 0, 65_536] {
        adopt(listener.as_fd(), &ListenSpec { unsent_bytes_max, ..spec }).unwrap();
        let _client = TcpStream::connect(local_addr(listener.as_fd()).unwrap()).unwrap();
        let (fd, _) = accept_soon(&listener, Mode::Nonblocking);
        assert_eq!(unsent_limit(fd.as_fd()).unwrap(), unsent_bytes_max);
    }
}

/// The kernel keeps megabytes for a client that reads nothing; with the limit what is in flight and
/// the limit.
#[test]
fn unsent_bytes_are_limited() {
    let taken = |unsent_bytes_max| {
        let (fd, _client) = pair(&ListenSpec { unsent_bytes_max, ..local() }, Mode::Nonblocking);
        let mut outbox = Outbox::new(vec![1; 16 << 20]);
        while !outbox.is_empty() && send(fd.as_fd(), &mut outbox, u64::MAX).is_ok() {}
        queued_bytes(fd.as_fd()).unwrap()
    };
    let (free, limited) = (taken(0), taken(16_384));
    assert!(limited < free / 2, "{limited} bytes, {free} without the limit");
}

#[test]
fn pacing_slows_a_connection_down() {
    let spec = ListenSpec { pacing_rate: 2_000_000, ..local() };
    let (fd, mut client) = pair(&spec, Mode::Blocking);
    let sender = thread::spawn(move || {
        let mut outbox = Outbox::new(vec![1; 4_000_000]);
        while !outbox.is_empty() {
            send(fd.as_fd(), &mut outbox, u64::MAX).unwrap();
        }
    });
    let start = Instant::now();
    read_exactly(&mut client, 4_000_000);
    // 2 s in theory. Segments as large as loopback's may bring much of it in a first burst.
    assert!(start.elapsed() > Duration::from_millis(300), "{:?}", start.elapsed());
    sender.join().unwrap();
}

#[test]
fn one_port_can_have_several_listeners_only_if_they_agree() {
    let mut spec = local();
    spec.reuse_port = true;
    let first = listen(&spec).unwrap();
    spec.addr = local_addr(first.as_fd()).unwrap();
    let _second = listen(&spec).unwrap();
    spec.reuse_port = false;
    assert_eq!(listen(&spec).unwrap_err().kind(), ErrorKind::AddrInUse);
}

#[test]
fn ipv6_takes_ipv4_only_if_told_to() {
    // The mapped loopback address: like a wildcard address, but for this machine only.
    let mut spec = ListenSpec::new((Ipv4Addr::LOCALHOST.to_ipv6_mapped(), 0).into());
    spec.dual_stack = true;
    let Ok(listener) = listen(&spec) else { return skip("needs IPv6") };
    let port = local_addr(listener.as_fd()).unwrap().port();
    let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let (_fd, peer) = accept_soon(&listener, Mode::Nonblocking);
    assert!(peer.is_ipv6(), "a mapped address");
    assert_eq!(peer.ip().to_canonical(), client.local_addr().unwrap().ip());
    spec.dual_stack = false;
    assert!(listen(&spec).is_err());
}

#[test]
fn a_deferred_connection_is_offered_with_its_first_bytes() {
    let listener = listen(&ListenSpec { defer_accept_s: 5, ..local() }).unwrap();
    let mut client = TcpStream::connect(local_addr(listener.as_fd()).unwrap()).unwrap();
    thread::sleep(Duration::from_millis(50));
    let error = accept(listener.as_fd(), Mode::Nonblocking).unwrap_err();
    assert_eq!(accept_fault(&error), AcceptFault::WouldBlock);
    client.write_all(b"GET").unwrap();
    let (fd, _) = accept_soon(&listener, Mode::Nonblocking);
    assert_eq!(recv(fd.as_fd(), &mut [0; 8]).unwrap(), 3);
}

#[test]
fn a_listener_that_blocks_waits_in_steps_as_do_its_connections_until_it_is_closed() {
    let step = Duration::from_millis(60);
    let listener = listen(&ListenSpec { steps: Steps::All(step), ..local() }).unwrap();
    assert!(wait_max(listener.as_fd()).unwrap().is_some_and(|max| max >= step));
    assert_eq!(wait_max(listen(&local()).unwrap().as_fd()).unwrap(), None);
    let since = Instant::now();
    let error = accept(listener.as_fd(), Mode::Blocking).unwrap_err();
    assert_eq!(accept_fault(&error), AcceptFault::WouldBlock);
    let _client = TcpStream::connect(local_addr(listener.as_fd()).unwrap()).unwrap();
    let (fd, _) = accept(listener.as_fd(), Mode::Blocking).unwrap();
    assert_eq!(recv(fd.as_fd(), &mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(since.elapsed() >= 2 * step);
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            loop {
                let error = accept(listener.as_fd(), Mode::Blocking).unwrap_err();
                match accept_fault(&error) {
                    AcceptFault::WouldBlock => {}
                    fault => break fault,
                }
            }
        });
        stop_listening(listener.as_fd()).unwrap();
        assert_eq!(waits.join().unwrap(), AcceptFault::Closed);
    });
}

#[test]
fn connections_wait_in_steps_of_a_listener_that_does_not_block() {
    let step = Duration::from_millis(60);
    let spec = ListenSpec { steps: Steps::Connections(step), ..local() };
    let listener = listen(&spec).unwrap();
    assert_eq!(wait_max(listener.as_fd()).unwrap(), None);
    let error = accept(listener.as_fd(), Mode::Blocking).unwrap_err();
    assert_eq!(accept_fault(&error), AcceptFault::WouldBlock);
    let (fd, _client) = pair(&spec, Mode::Blocking);
    let since = Instant::now();
    assert_eq!(recv(fd.as_fd(), &mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(since.elapsed() >= step);
}

#[test]
fn what_failed_accepts_mean() {
    let rows = [
        (libc::EAGAIN, AcceptFault::WouldBlock),
        (libc::EINVAL, AcceptFault::Closed),
        (libc::ECONNABORTED, AcceptFault::Aborted),
        (libc::ENETUNREACH, AcceptFault::Aborted),
        (libc::EMFILE, AcceptFault::Exhausted),
        (libc::ENOBUFS, AcceptFault::Exhausted),
        (libc::EBADF, AcceptFault::Other(libc::EBADF)),
    ];
    for (errno, expected) in rows {
        assert_eq!(accept_fault(&std::io::Error::from_raw_os_error(errno)), expected);
    }
}

#[test]
fn receiving_gives_bytes_then_nothing_yet_then_the_end() {
    for mode in [Mode::Nonblocking, Mode::Blocking] {
        let (fd, mut client) = pair(&local(), mode);
        let mut buf = [0; 8];
        let empty = recv_now(fd.as_fd(), &mut buf).unwrap_err();
        assert_eq!(empty.kind(), ErrorKind::WouldBlock);
        set_mode(&fd, Mode::Nonblocking).unwrap();
        assert_eq!(recv(fd.as_fd(), &mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        set_mode(&fd, Mode::Blocking).unwrap();
        client.write_all(b"abc").unwrap();
        assert_eq!(recv(fd.as_fd(), &mut buf).unwrap(), 3);
        assert_eq!(&buf[..3], b"abc");
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(recv(fd.as_fd(), &mut buf).unwrap(), 0);
    }
}

#[test]
fn a_deadline_ends_a_blocking_call() {
    let (fd, _client) = pair(&local(), Mode::Blocking);
    let short = Some(Duration::from_millis(20));
    set_timeouts(fd.as_fd(), short, short).unwrap();
    assert_eq!(recv(fd.as_fd(), &mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    let mut outbox = Outbox::new(vec![0; 64 << 20]);
    let left = loop {
        match send(fd.as_fd(), &mut outbox, u64::MAX) {
            Ok(sent) => assert!(sent.bytes > 0 && !outbox.is_empty()),
            Err(error) => break error,
        }
    };
    assert_eq!(left.kind(), ErrorKind::WouldBlock);
}

#[test]
fn each_send_is_the_simplest_call_for_what_is_at_the_front() {
    let dir = Folder::new("calls");
    let file = static_file(&dir, "file", b"0123456789");
    let part = |at, len| Segment::File { file: file.clone(), at, len };
    let (fd, mut client) = pair(&local(), Mode::Nonblocking);
    use SendCall::{Send, SendFile, SendMsg};
    type Row<'a> = (&'a [u8], Vec<Segment<StaticFile>>, u64, &'a [SendCall], &'a [u8]);
    let rows: [Row<'_>; 8] = [
        (b"head", vec![], 99, &[Send], b"head"),
        (b"", vec![mem(b"body")], 99, &[Send], b"body"),
        (b"head ", vec![mem(b"body")], 99, &[SendMsg], b"head body"),
        (b"", vec![part(2, 5)], 99, &[SendFile], b"23456"),
        (b"head ", vec![part(0, 10)], 99, &[Send, SendFile], b"head 0123456789"),
        (b"head ", vec![part(0, 10)], 4, &[Send, SendFile, SendFile, SendFile], b"head 0123456789"),
        (
            b"h ",
            vec![mem(b"a "), part(0, 2), mem(b" b "), part(4, 1), mem(b" c")],
            99,
            &[SendMsg, SendFile, SendMsg, SendFile, Send],
            b"h a 01 b 4 c",
        ),
        (b"", vec![part(0, 1), part(5, 2)], 99, &[SendFile, SendFile], b"056"),
    ];
    for (head, segments, budget, calls, expected) in rows {
        let mut outbox = Outbox::new(head.to_vec());
        segments.into_iter().for_each(|segment| outbox.push(segment));
        let mut made = Vec::new();
        while !outbox.is_empty() {
            let sent = send(fd.as_fd(), &mut outbox, budget).unwrap();
            assert!(sent.bytes > 0);
            made.push(sent.call);
        }
        assert_eq!(read_exactly(&mut client, expected.len()), expected);
        assert_eq!(made, calls);
    }
}

#[test]
fn more_slices_than_fit_one_call_take_several() {
    // 16 ranges of a body in memory are 34.
    for (slices, expected_calls) in [(34, 1), (150, 150_usize.div_ceil(SEND_SLICES_MAX))] {
        let (fd, mut client) = pair(&local(), Mode::Nonblocking);
        let mut outbox = Outbox::new(b"0,".to_vec());
        let mut expected = b"0,".to_vec();
        for i in 1..slices {
            let text = format!("{i},");
            expected.extend_from_slice(text.as_bytes());
            outbox.push(mem(text.as_bytes()));
        }
        let mut calls = 0;
        while !outbox.is_empty() {
            send(fd.as_fd(), &mut outbox, u64::MAX).unwrap();
            calls += 1;
        }
        assert_eq!(calls, expected_calls, "{slices} slices");
        assert_eq!(read_exactly(&mut client, expected.len()), expected);
    }
}

#[test]
fn a_head_waits_for_the_file_behind_it_and_both_arrive_whole() {
    let dir = Folder::new("more");
    let body: Vec<_> = (0..300_000_u32).map(|i| i.to_le_bytes()[0]).collect();
    let file = static_file(&dir, "file", &body);
    let (fd, mut client) = pair(&local(), Mode::Nonblocking);
    let mut outbox = Outbox::new(b"head".to_vec());
    outbox.push(Segment::File { file, at: 0, len: body.len() as u64 });
    let sent = send(fd.as_fd(), &mut outbox, u64::MAX).unwrap();
    assert_eq!((sent.bytes, sent.call), (4, SendCall::Send));
    client.set_nonblocking(true).unwrap();
    let early = client.read(&mut [0; 8]).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::WouldBlock, "the head has not left alone");
    client.set_nonblocking(false).unwrap();
    let reader = thread::spawn(move || read_exactly(&mut client, 300_004));
    while !outbox.is_empty() {
        match send(fd.as_fd(), &mut outbox, u64::MAX) {
            Ok(sent) => assert_eq!(sent.call, SendCall::SendFile),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    let all = reader.join().unwrap();
    assert_eq!(&all[..4], b"head");
    assert_eq!(&all[4..], body);
}

#[test]
fn the_last_bytes_leave_with_the_end_of_the_stream() {
    let part = b"0123456789".repeat(10);
    for parts in [1, 2, SEND_SLICES_MAX] {
        let (fd, mut client) = pair(&local(), Mode::Nonblocking);
        let mut outbox = Outbox::new(part.clone());
        for _ in 1..parts {
            outbox.push(mem(&part));
        }
        outbox.set_ends(true);
        let before = segments_received(client.as_fd()).unwrap();
        let sent = send(fd.as_fd(), &mut outbox, u64::MAX).unwrap();
        assert_eq!(sent.bytes, (parts * part.len()) as u64);
        assert!(outbox.is_empty() && outbox.ends());
        client.set_nonblocking(true).unwrap();
        assert_eq!(client.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        shutdown_write(fd.as_fd()).unwrap();
        client.set_nonblocking(false).unwrap();
        let mut all = Vec::new();
        client.read_to_end(&mut all).unwrap();
        assert_eq!(all, part.repeat(parts));
        assert_eq!(segments_received(client.as_fd()).unwrap() - before, 1);
    }
}

#[test]
fn a_file_and_its_head_leave_with_the_end_of_the_stream() {
    let dir = Folder::new("ends");
    let body = vec![7; 3000];
    let file = static_file(&dir, "file", &body);
    let (fd, mut client) = pair(&local(), Mode::Nonblocking);
    let mut outbox = Outbox::new(b"head".to_vec());
    outbox.push(Segment::File { file, at: 0, len: body.len() as u64 });
    outbox.set_ends(true);
    let before = segments_received(client.as_fd()).unwrap();
    // The first two calls do not ask for all of it: their bytes may leave before the rest.
    for budget in [1, 1000, u64::MAX] {
        send(fd.as_fd(), &mut outbox, budget).unwrap();
    }
    assert!(outbox.is_empty());
    client.set_nonblocking(true).unwrap();
    let early = client.read(&mut [0; 2000]);
    client.set_nonblocking(false).unwrap();
    let early = early.unwrap_or(0);
    assert!(early <= 1004, "{early} bytes: some of the last call have not waited");
    shutdown_write(fd.as_fd()).unwrap();
    let mut all = Vec::new();
    client.read_to_end(&mut all).unwrap();
    assert_eq!(all.len() + early, 3004);
    let segments = segments_received(client.as_fd()).unwrap() - before;
    assert_eq!(segments, 1 + u32::from(early > 0));
}

/// A part is never kept back: a peer without more room would wait for it.
#[test]
fn what_does_not_fit_waits_for_nothing() {
    let spec = ListenSpec { send_buffer_bytes: 4096, ..local() };
    let (fd, mut client) = pair(&spec, Mode::Nonblocking);
    let mut outbox = Outbox::new(vec![7; 4_000_000]);
    outbox.set_ends(true);
    let mut taken = 0;
    while !outbox.is_empty() {
        match send(fd.as_fd(), &mut outbox, u64::MAX) {
            Ok(sent) => taken += sent.bytes,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                assert!(!outbox.is_empty());
                // All that the kernel has arrives, though nothing is sent meanwhile.
                read_exactly(&mut client, usize::try_from(taken).unwrap());
                taken = 0;
            }
        }
    }
    shutdown_write(fd.as_fd()).unwrap();
    assert_eq!(read_exactly(&mut client, usize::try_from(taken).unwrap()).last(), Some(&7));
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}

/// Bytes kept back are sent before a `close` that finds unread bytes resets the connection.
#[test]
fn the_last_bytes_arrive_where_something_is_unread() {
    let (fd, mut client) = pair(&local(), Mode::Nonblocking);
    client.write_all(b"more").unwrap();
    let mut outbox = Outbox::new(b"all of it".to_vec());
    outbox.set_ends(true);
    send(fd.as_fd(), &mut outbox, u64::MAX).unwrap();
    shutdown_write(fd.as_fd()).unwrap();
    drop(fd);
    assert_eq!(read_exactly(&mut client, 9), b"all of it");
}

#[test]
fn the_bare_calls_send_the_same() {
    let dir = Folder::new("bare");
    let file = static_file(&dir, "file", b"0123456789");
    let (fd, mut client) = pair(&local(), Mode::Nonblocking);
    assert_eq!(send_more(fd.as_fd(), b"head ").unwrap(), 5);
    client.set_nonblocking(true).unwrap();
    assert_eq!(client.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    client.set_nonblocking(false).unwrap();
    assert_eq!(send_range(fd.as_fd(), &file, 2, 3).unwrap(), 3);
    assert_eq!(send_range(fd.as_fd(), &file, 10, 3).unwrap(), 0, "behind the end");
    assert_eq!(send_last(fd.as_fd(), b" end").unwrap(), 4);
    assert_eq!(read_exactly(&mut client, 12), b"head 234 end");
}

#[test]
fn a_blocking_socket_takes_everything_in_one_call() {
    let dir = Folder::new("blocking");
    let body = vec![7; 5_000_000];
    let file = static_file(&dir, "file", &body);
    let (fd, mut client) = pair(&local(), Mode::Blocking);
    let reader = thread::spawn(move || read_exactly(&mut client, 10_000_000));
    let mut outbox = Outbox::default();
    outbox.push(Segment::File { file: file.clone(), at: 0, len: file.len() });
    outbox.push(mem(&body));
    let sent = send(fd.as_fd(), &mut outbox, u64::MAX).unwrap();
    assert_eq!((sent.bytes, sent.call), (5_000_000, SendCall::SendFile));
    let sent = send(fd.as_fd(), &mut outbox, 1).unwrap();
    assert_eq!((sent.bytes, sent.call), (5_000_000, SendCall::Send), "budgets are for files");
    assert!(outbox.is_empty());
    assert!(reader.join().unwrap().iter().all(|&byte| byte == 7));
}

#[test]
fn a_file_that_shrank_sends_nothing() {
    let dir = Folder::new("shrunk");
    let file = static_file(&dir, "file", &[1; 1000]);
    let (fd, mut client) = pair(&local(), Mode::Nonblocking);
    fs::OpenOptions::new().write(true).open(dir.join("file")).unwrap().set_len(300).unwrap();
    let mut outbox = Outbox::default();
    outbox.push(Segment::File { file, at: 0, len: 1000 });
    assert_eq!(send(fd.as_fd(), &mut outbox, u64::MAX).unwrap().bytes, 300);
    let sent = send(fd.as_fd(), &mut outbox, u64::MAX).unwrap();
    assert_eq!((sent.bytes, sent.call, outbox.len()), (0, SendCall::SendFile, 700));
    read_exactly(&mut client, 300);
}

#[test]
fn a_peer_that_is_gone_is_a_reset() {
    regatta_sys::signal::ignore_failed_writes();
    let dir = Folder::new("gone");
    let file = static_file(&dir, "file", &[1; 100]);
    let ends: [fn(StaticFile) -> Outbox<StaticFile>; 2] = [
        |_| Outbox::new(vec![0; 100]),
        |file| {
            let mut outbox = Outbox::default();
            outbox.push(Segment::File { file, at: 0, len: 100 });
            outbox
        },
    ];
    for outbox in ends {
        let (fd, client) = pair(&local(), Mode::Nonblocking);
        send(fd.as_fd(), &mut Outbox::new(b"unread".to_vec()), 1).unwrap();
        client.set_nonblocking(true).unwrap();
        drop(client);
        let mut error = None;
        eventually(|| {
            error = send(fd.as_fd(), &mut outbox(file.clone()), u64::MAX).err();
            error.is_some()
        });
        assert_eq!(error.as_ref().map(fault), Some(Fault::Reset), "{error:?}");
    }
    let other = std::io::Error::from_raw_os_error(libc::EIO);
    assert_eq!(fault(&other), Fault::Other(libc::EIO));
}

#[test]
fn half_closing_tells_the_peer_and_queued_bytes_are_known() {
    let (fd, mut client) = pair(&local(), Mode::Nonblocking);
    assert_eq!(queued_bytes(fd.as_fd()).unwrap(), 0);
    let mut sent = 0;
    let chunk: Arc<[u8]> = vec![0; 1 << 20].into();
    loop {
        let mut outbox = Outbox::default();
        outbox.push(Segment::mem(chunk.clone()));
        match send(fd.as_fd(), &mut outbox, u64::MAX) {
            Ok(n) => sent += n.bytes,
            Err(error) => break assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    let queued = queued_bytes(fd.as_fd()).unwrap();
    assert!(queued > 0 && queued <= sent, "{queued} of {sent}");
    shutdown_write(fd.as_fd()).unwrap();
    let mut all = Vec::new();
    client.read_to_end(&mut all).unwrap();
    assert_eq!(all.len() as u64, sent);
    eventually(|| queued_bytes(fd.as_fd()).unwrap() == 0);
    assert!(queued_bytes(listen(&local()).unwrap().as_fd()).is_err());
}
