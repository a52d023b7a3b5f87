//! The driver `uring`, with a ring of the kernel and real sockets.
use crate::{
    env::{ask, connect, env, head, settings, share},
    rig::{TestFile, answer, at_once, get},
};
use regatta_arch::{ARCHITECTURES, Env, conn::accept, find};
use regatta_metrics::Counter;
use regatta_origin::Site;
use regatta_sys::{
    OpenRules,
    socket::{ListenSpec, listen, local_addr},
    uring::WireRing,
};
use regatta_testkit::{folder::Folder, skips::skip, waits::eventually};
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::fd::AsFd,
    thread,
    time::Duration,
};

const SMALL: TestFile = TestFile { name: "small", bytes: 300 };
/// Too long to be kept in memory: read in pieces.
const LARGE: TestFile = TestFile { name: "large", bytes: 3_000_001 };
const EMPTY: TestFile = TestFile { name: "empty", bytes: 0 };
const CONNECTIONS_MAX: usize = 40;

/// Runs a server with these options, and a client of it; returns the environment for its counters.
fn serve(sets: &[(&str, &str)], client: impl FnOnce(SocketAddr, &'static Env)) {
    if WireRing::new(None, OpenRules::default(), 8, 256).is_err() {
        return skip("needs io_uring");
    }
    let folder = Folder::new("uring");
    [SMALL, LARGE, EMPTY].into_iter().for_each(|file| file.write(&folder));
    let driver = find("uring").unwrap().driver;
    let specs = ARCHITECTURES.iter().flat_map(|one| one.driver.options).chain(accept::OPTIONS);
    let settings = settings(&specs.collect::<Vec<_>>(), sets);
    let sockets = vec![listen(&ListenSpec::new("127.0.0.1:0".parse().unwrap())).unwrap()];
    let mut site = Site::default();
    site.deadlines.send_window_ms = 2_000;
    let env = env(&folder, settings, sockets, vec![share(0..1, 0..1, CONNECTIONS_MAX)]);
    let env: &'static Env = Box::leak(Box::new(Env { site, ..env }));
    let work = thread::spawn(move || (driver.work)(env, 0));
    client(local_addr(env.sockets[0].as_fd()).unwrap(), env);
    env.arena.control().stop();
    env.bells[0].ring();
    work.join().unwrap().unwrap();
    let count = |counter| env.arena.slot(0).get(counter);
    assert_eq!(count(Counter::ConnectionsOpened), count(Counter::ConnectionsClosed));
    assert_eq!(count(Counter::SendfileCalls), 0, "the ring sends");
}

/// The server sends no more.
fn ends(peer: &mut TcpStream) {
    let mut rest = Vec::new();
    peer.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "{}", rest.escape_ascii());
}

const TINY: &[(&str, &str)] =
    &[("uring.buffers", "8"), ("uring.buffer_bytes", "256"), ("uring.chunk_bytes", "65536")];

const PIPES: &[(&str, &str)] = &[("uring.body", "splice")];

/// With few and tiny buffers, most receives find none. Requests come in one write, so that many
/// wait behind others.
#[test]
fn every_request_is_answered_in_its_order() {
    for sets in [&[], TINY, PIPES] {
        serve(sets, |address, _| {
            at_once(12, |client| {
                let mut peer = connect(address);
                for round in 0..20 {
                    let files = match (client + round) % 4 {
                        0 => vec![LARGE, SMALL],
                        1 => vec![SMALL; 50],
                        2 => vec![EMPTY, LARGE, EMPTY],
                        _ => vec![SMALL],
                    };
                    let names: Vec<_> = files.iter().map(|file| file.name).collect();
                    ask(&mut peer, &names);
                    files.into_iter().for_each(|file| answer(&mut peer, file));
                }
            });
        });
    }
}

/// A client that sends requests and takes nothing: what it sends is received up to a bound, and
/// others are served.
#[test]
fn a_client_that_takes_nothing_holds_no_other_up() {
    serve(TINY, |address, env| {
        let mut stalled = connect(address);
        stalled.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        let requests = "GET /large HTTP/1.1\r\nHost: a\r\n\r\n".repeat(200_000);
        assert!(stalled.write_all(requests.as_bytes()).is_err(), "its socket is full");
        let received = env.arena.slot(0).get(Counter::RecvBytes);
        assert!(received < 200_000, "{received} bytes were taken");
        at_once(4, |_| (0..20).for_each(|_| get(&mut connect(address), LARGE)));
        // The slow client is closed by its window, with a send in flight.
        eventually(|| {
            let slot = env.arena.slot(0);
            slot.get(Counter::ConnectionsClosed) == slot.get(Counter::ConnectionsOpened)
        });
    });
}

/// Connections end in the middle of everything, and their places are used again at once.
#[test]
fn clients_that_leave_disturb_no_other() {
    for sets in [TINY, PIPES] {
        serve(sets, |address, _| at_once(8, |client| leave(address, client)));
    }
}

/// Connects and leaves, in many ways.
fn leave(address: SocketAddr, client: usize) {
    for round in 0..30 {
        let mut peer = connect(address);
        match (client + round) % 5 {
            0 => drop(peer),
            1 => ask(&mut peer, &["large", "large"]),
            2 => peer.write_all(b"GET /sm").unwrap(),
            3 => {
                ask(&mut peer, &["large"]);
                head(&mut peer);
            }
            _ => get(&mut peer, SMALL),
        }
    }
    get(&mut connect(address), LARGE);
}

/// The last response before the end of the stream is whole, and the end follows it.
#[test]
fn a_client_that_sends_no_more_gets_its_answers() {
    serve(&[], |address, _| {
        for file in [SMALL, LARGE] {
            let mut peer = connect(address);
            ask(&mut peer, &["small", file.name]);
            peer.shutdown(Shutdown::Write).unwrap();
            answer(&mut peer, SMALL);
            answer(&mut peer, file);
            ends(&mut peer);
            let mut peer = connect(address);
            let close =
                format!("GET /{} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", file.name);
            peer.write_all(close.as_bytes()).unwrap();
            answer(&mut peer, file);
            ends(&mut peer);
        }
    });
}

/// More connections than there may be: they wait, displace idle ones, and are served.
#[test]
fn no_more_connections_are_served_than_there_may_be() {
    for when_full in ["pause", "close-idle", "keep-polling"] {
        serve(&[("accept.when_full", when_full)], |address, env| {
            let mut peers: Vec<TcpStream> =
                (0..2 * CONNECTIONS_MAX).map(|_| connect(address)).collect();
            // Those that came first make room, by themselves or because they are idle.
            let displaced = if when_full == "close-idle" { CONNECTIONS_MAX } else { 0 };
            for peer in &mut peers[displaced..] {
                ask(peer, &["small"]);
                answer(peer, SMALL);
                peer.shutdown(Shutdown::Both).unwrap();
            }
            let most = env.arena.slot(0).get(Counter::ConnectionsOpenMax);
            assert!(most <= CONNECTIONS_MAX as u64, "{when_full}: {most} connections at once");
        });
    }
}

/// A drain serves what has been accepted and what is in the backlog.
#[test]
fn a_drain_serves_those_that_have_arrived() {
    serve(&[], |address, env| {
        let mut served = connect(address);
        get(&mut served, SMALL);
        let mut arrived: Vec<TcpStream> = (0..20).map(|_| connect(address)).collect();
        arrived.iter_mut().for_each(|peer| ask(peer, &["small"]));
        env.arena.control().drain(u64::MAX);
        env.bells[0].ring();
        arrived.iter_mut().for_each(|peer| answer(peer, SMALL));
        // An idle connection ends, too.
        ends(&mut served);
    });
}
