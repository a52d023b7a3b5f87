//! Listeners that share a port, and those that wake one process only.
use regatta_sys::{
    affinity,
    socket::{
        ListenSpec, Mode, Steps, accept, adopt, is_free, listen, local_addr, steer_by_cpu,
        try_sharing, wait_max,
    },
    wait::{Epoll, Poller, Trigger},
};
use std::{
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::fd::{AsFd, OwnedFd},
    sync::Barrier,
    thread,
    time::Duration,
};

/// Sockets that share a port of the kernel's choice.
fn group(count: usize) -> (Vec<OwnedFd>, SocketAddr) {
    let spec = |address| ListenSpec { reuse_port: true, ..ListenSpec::new(address) };
    let first = listen(&spec((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let address = local_addr(first.as_fd()).unwrap();
    let mut sockets = vec![first];
    sockets.extend((1..count).map(|_| listen(&spec(address)).unwrap()));
    (sockets, address)
}

/// Takes a connection from each socket that has one. Returns the places of these sockets.
fn taken(sockets: &[OwnedFd]) -> Vec<usize> {
    let ready = |socket: &OwnedFd| accept(socket.as_fd(), Mode::Nonblocking).is_ok();
    (0..sockets.len()).filter(|at| ready(&sockets[*at])).collect()
}

#[test]
fn a_connection_goes_where_its_processor_is_steered() {
    let cpus = affinity::allowed().unwrap();
    let (sockets, address) = group(3);
    let number = |cpu: usize| u32::try_from(cpu).unwrap();
    // The last socket, then the one before it: not what any default would do.
    for shift in 0..2 {
        let place = |at: usize| 2 - (at + shift) % 2;
        let places: Vec<_> =
            cpus.iter().enumerate().map(|(at, cpu)| (number(*cpu), number(place(at)))).collect();
        steer_by_cpu(sockets[1].as_fd(), &places).unwrap();
        for (at, &cpu) in cpus.iter().enumerate() {
            for _ in 0..8 {
                // On loopback a packet is handled where it was sent.
                let client = thread::spawn(move || {
                    affinity::pin(&[cpu]).unwrap();
                    TcpStream::connect(address).unwrap()
                });
                let _client = client.join().unwrap();
                assert_eq!(taken(&sockets), [place(at)], "from processor {cpu}");
            }
        }
    }
}

#[test]
fn a_processor_that_is_not_there_means_the_first_socket() {
    let (sockets, address) = group(2);
    steer_by_cpu(sockets[0].as_fd(), &[(99_999, 1)]).unwrap();
    for _ in 0..8 {
        let _client = TcpStream::connect(address).unwrap();
        assert_eq!(taken(&sockets), [0]);
    }
}

/// A server that had one socket for a port, and has several from now on.
#[test]
fn one_that_listens_alone_can_share_its_port_later() {
    for ip in [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED] {
        try_sharing(ip.into()).unwrap();
    }
    let alone = listen(&ListenSpec::new((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let address = local_addr(alone.as_fd()).unwrap();
    let spec = ListenSpec { reuse_port: true, ..ListenSpec::new(address) };
    assert!(listen(&spec).is_err(), "it does not share yet");
    let before = TcpStream::connect(address).unwrap();
    adopt(alone.as_fd(), &spec).unwrap();
    let sockets = [alone, listen(&spec).unwrap()];
    assert_eq!(taken(&sockets), [0], "who came before is where it was");
    drop(before);
    steer_by_cpu(sockets[1].as_fd(), &[]).unwrap();
    for _ in 0..8 {
        let _client = TcpStream::connect(address).unwrap();
        assert_eq!(taken(&sockets), [0], "all go to the first");
    }
    adopt(sockets[0].as_fd(), &spec).unwrap();
    let clients: Vec<_> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
    let of_each = sockets.each_ref().map(|socket| {
        let one = || accept(socket.as_fd(), Mode::Nonblocking).ok();
        std::iter::from_fn(one).count()
    });
    assert_eq!(of_each.iter().sum::<usize>(), clients.len());
    assert!(of_each.iter().all(|count| *count > 0), "{of_each:?}");
}

#[test]
fn one_that_others_accept_from_blocks_for_nobody() {
    let spec = ListenSpec::new((Ipv4Addr::LOCALHOST, 0).into());
    let waits = ListenSpec { steps: Steps::All(Duration::from_secs(1)), ..spec };
    let listener = listen(&waits).unwrap();
    assert!(wait_max(listener.as_fd()).unwrap().is_some());
    adopt(listener.as_fd(), &spec).unwrap();
    assert_eq!(wait_max(listener.as_fd()).unwrap(), None);
    adopt(listener.as_fd(), &waits).unwrap();
    assert_eq!(wait_max(listener.as_fd()).unwrap(), None, "those who do not wait are there still");
}

#[test]
fn what_cannot_be_steered_is_refused() {
    let alone = listen(&ListenSpec::new((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    steer_by_cpu(alone.as_fd(), &[(0, 0)]).unwrap_err();
    let (sockets, _) = group(1);
    steer_by_cpu(sockets[0].as_fd(), &vec![(0, 0); 2_048]).unwrap_err();
    steer_by_cpu(sockets[0].as_fd(), &vec![(0, 0); 40_000]).unwrap_err();
}

#[test]
fn a_shared_port_is_not_free() {
    let (sockets, address) = group(1);
    assert_eq!(is_free(address).unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    drop(sockets);
    is_free(address).unwrap();
}

/// Number of pollers that one connection to their shared listener wakes.
fn woken(make: impl Fn() -> Epoll + Sync, pollers: usize) -> usize {
    let listener = listen(&ListenSpec::new((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let address = local_addr(listener.as_fd()).unwrap();
    let ready = Barrier::new(pollers + 1);
    thread::scope(|scope| {
        let wait = || {
            let mut poller = make();
            poller.add_listener(listener.as_fd(), 7).unwrap();
            ready.wait();
            let mut events = Vec::new();
            poller.wait(&mut events, Some(Duration::from_millis(500))).unwrap();
            assert!(events.iter().all(|event| event.key == 7 && event.readable));
            poller.remove(listener.as_fd()).unwrap();
            events.len()
        };
        let threads: Vec<_> = (0..pollers).map(|_| scope.spawn(wait)).collect();
        ready.wait();
        // All of them sleep by now.
        thread::sleep(Duration::from_millis(100));
        let _client = TcpStream::connect(address).unwrap();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

#[test]
fn an_exclusive_listener_does_not_wake_everybody() {
    for trigger in [Trigger::Level, Trigger::Edge] {
        assert_eq!(woken(|| Epoll::new(trigger).unwrap(), 6), 6, "{trigger:?}");
        let exclusive = woken(|| Epoll::new(trigger).unwrap().exclusive(), 6);
        assert!((1..6).contains(&exclusive), "{exclusive} of 6, {trigger:?}");
    }
}
