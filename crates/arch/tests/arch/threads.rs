//! Drivers whose threads block. A kernel thread for each connection must keep right bytes,
//! deadlines, drain, counters and whole lines in the log, and start threads when due. A pool of
//! threads serves a protocol with several operations out at once. A process that is one such thread
//! ends while others continue. All of them serve sealed connections, too.
use crate::{
    env::{env, settings, share},
    rig::{PATIENCE, TestFile, answer, ask, at_once, connect, get},
    sealed::{SealedClient, Sealing},
};
use regatta_arch::{
    Driver, Env, WorkError,
    architectures::{hybrid, mp, mt::DRIVER},
    conn::{accept, worker::NextRoot},
};
use regatta_metrics::{Counter, Gauge, Histogram, Totals};
use regatta_origin::{ClearHttp1, Deadlines, Links, Site};
use regatta_server::log::{AccessLog, AccessLogOptions, ErrorLog, Format, LogDestination};
use regatta_sim::{Answer, Client, Frames};
use regatta_sys::{
    Root, StaticFile,
    channel::Channel,
    clock,
    socket::{ListenSpec, Steps, listen, local_addr},
};
use regatta_testkit::{folder::Folder, waits::until};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::fd::AsFd,
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Files: one that the cache keeps in memory, and one that is sent from its descriptor. Of the
/// last, a peer that does not read takes only a part.
const FILES: [TestFile; 3] = [
    TestFile { name: "small", bytes: 4096 },
    TestFile { name: "large", bytes: 3 << 20 },
    TestFile { name: "huge", bytes: 32 << 20 },
];

/// Slots of counters, which the threads share.
const SLOTS: usize = 3;

struct Server {
    env: &'static Env,
    /// Channel for new roots.
    roots: Channel,
    address: SocketAddr,
    folder: Folder,
    work: Option<JoinHandle<Result<(), WorkError>>>,
}

impl Server {
    /// Starts all threads at the beginning; `step` is the wait of a call.
    fn new(name: &str, threads: usize, step: Duration, deadlines: Deadlines) -> Self {
        let sets = &[("threads.start", "all")];
        Self::with(&DRIVER, name, threads, step, deadlines, sets, Box::new(ClearHttp1))
    }

    /// Starts a server with options of a driver, and a protocol.
    fn with(
        driver: &'static Driver,
        name: &str,
        threads: usize,
        step: Duration,
        deadlines: Deadlines,
        sets: &[(&str, &str)],
        links: Box<dyn Links<StaticFile> + Sync>,
    ) -> Self {
        let folder = Folder::new(&format!("threads-{name}"));
        fs::create_dir(folder.join("root")).unwrap();
        FILES.into_iter().for_each(|file| file.write(&folder.join("root")));
        let (theirs, roots) = Channel::pair().unwrap();
        let (waits, count) = (format!("{} ms", step.as_millis()), threads.to_string());
        let pool = [("pool.step_ms", &*waits), ("pool.threads", &*count)];
        let is_pool = driver.takes("pool.threads");
        let (most, own) = if is_pool {
            (100, &pool[..])
        } else if driver.takes("mp.step_ms") {
            (1, &[("mp.step_ms", &*waits)][..])
        } else {
            (threads, &[("threads.step_ms", &*waits)][..])
        };
        let specs: Vec<_> = driver.options.iter().chain(accept::OPTIONS).collect();
        let steps = if is_pool { Steps::Connections(step) } else { Steps::All(step) };
        let spec = ListenSpec { steps, ..ListenSpec::new("127.0.0.1:0".parse().unwrap()) };
        let env = env(
            &folder.join("root"),
            settings(&specs, &[sets, own].concat()),
            vec![listen(&spec).unwrap()],
            vec![share(0..SLOTS, 0..1, most)],
        );
        let (site, arena) = (Site { deadlines, ..Site::default() }, env.arena);
        let (log, errors) = logs(&folder);
        let env = Env {
            root_channels: vec![theirs],
            site,
            links,
            open_log: Box::new(move |tally| {
                Box::new(log.sink(tally, *arena.control(), errors.clone()))
            }),
            ..env
        };
        let env: &'static Env = Box::leak(Box::new(env));
        let address = local_addr(env.sockets[0].as_fd()).unwrap();
        let work = Some(thread::spawn(move || (driver.work)(env, 0)));
        Self { env, roots, address, folder, work }
    }

    fn connect(&self) -> TcpStream {
        connect(self.address)
    }

    fn totals(&self) -> Totals {
        Totals::from_slots(self.env.arena.view().slots())
    }

    /// Waits until this many connections have been accepted.
    fn has_accepted(&self, connections: u64) {
        let have = || self.totals().get(Counter::AcceptOk) >= connections;
        until(PATIENCE, &format!("accepted: {connections}"), have);
    }

    /// Drains for at most `ms`, and returns the time that it took.
    fn drain(&mut self, ms: u64) -> Duration {
        let since = Instant::now();
        self.env.arena.control().drain(clock::now().tick.0 + ms);
        self.env.bells[0].ring();
        self.work.take().unwrap().join().unwrap().unwrap();
        since.elapsed()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.env.arena.control().stop();
        self.env.bells[0].ring();
        if let Some(work) = self.work.take() {
            let _it_fails_with_the_test = work.join();
        }
    }
}

/// Opens the logs of a server in this folder.
fn logs(folder: &Path) -> (AccessLog, ErrorLog) {
    let destination = LogDestination::Path(folder.join("access"));
    let (format, skip, owner) = (Format::Common, Arc::default(), None);
    let stall_ns = u64::MAX;
    let options = AccessLogOptions { destination, format, skip, owner, stall_ns, has_units: true };
    let errors = ErrorLog::open(LogDestination::Stderr, None, None).unwrap();
    (AccessLog::open(options).unwrap(), errors)
}

/// Reads until the end; returns what was read, and the time until then.
fn rest(peer: &mut TcpStream) -> (String, Duration) {
    let (since, mut rest) = (Instant::now(), Vec::new());
    // A connection that is cut off is reset.
    let _cut_or_closed = peer.read_to_end(&mut rest);
    (String::from_utf8_lossy(&rest).into_owned(), since.elapsed())
}

/// Clients request files one after another, and the server drains. Every `rare`-th file is a large
/// one. What is counted and logged are the bytes inside of seals. Returns the totals.
fn many_requests<P: Read + Write>(
    mut server: Server,
    connect: Connect<P>,
    clients: usize,
    rounds: usize,
    rare: usize,
) -> Totals {
    at_once(clients, |client| {
        let mut peer = connect(&server, client);
        for round in 0..rounds {
            get(&mut peer, FILES[usize::from((client + round) % rare == 0)]);
        }
    });
    server.drain(30_000);
    let totals = server.totals();
    let (all, get) = ((clients * rounds) as u64, |counter| totals.get(counter));
    assert_eq!([get(Counter::Requests), get(Counter::Replies200)], [all, all]);
    assert_eq!(get(Counter::ConnectionsClosed), clients as u64);
    let log = fs::read_to_string(server.folder.join("access")).unwrap();
    let (mut lines, mut bytes) = (0, 0);
    for line in log.lines() {
        let rest = line.split_once("] \"GET /").unwrap().1.split_once(" HTTP/1.1\" 200 ").unwrap();
        let file = FILES.iter().find(|file| file.name == rest.0).unwrap();
        assert_eq!(rest.1, file.bytes.to_string(), "{line}");
        (lines, bytes) = (lines + 1, bytes + line.len() as u64 + 1);
    }
    let logged = [Counter::LogLines, Counter::LogBytes, Counter::LogDropped].map(get);
    assert_eq!(logged, [lines, bytes, 0]);
    assert_eq!(lines, all);
    totals
}

#[test]
fn many_connections_at_once_get_the_right_bytes_and_are_counted_and_logged() {
    const CLIENTS: usize = 32;
    let server = Server::new("bytes", 24, Duration::from_millis(100), Deadlines::default());
    let first = server.env.first_slot(0);
    let totals = many_requests(server, clear, CLIENTS, 20, 16);
    let get = |counter| totals.get(counter);
    let accepted = [get(Counter::AcceptOk), get(Counter::ConnectionsOpened)];
    assert_eq!(accepted, [CLIENTS as u64; 2]);
    assert_eq!(get(Counter::AcceptFaults), 0);
    assert_eq!(first.get(Counter::AcceptOk), 0, "its heartbeat is that of the first thread alone");
    assert!(get(Counter::SendfileCalls) > 0);
    assert_eq!(get(Counter::BytesSent), get(Counter::SendBytes) + get(Counter::SendfileBytes));
    assert_eq!(totals.gauge(Gauge::ConnectionsOpen), 0);
}

/// Steps are much longer than the deadlines that cut them short.
#[test]
fn deadlines_are_kept_by_threads_that_block() {
    let deadlines = Deadlines {
        head_ms_max: 400,
        first_request_ms_max: 3_000,
        idle_ms_max: 600,
        send_window_ms: 300,
        linger_ms_max: 100,
        ..Deadlines::default()
    };
    let server = Server::new("deadlines", 4, PATIENCE, deadlines);
    let peers = [(); 4].map(|()| server.connect());
    server.has_accepted(4);
    let [mut fresh, mut head, mut idle, mut slow] = peers;
    get(&mut idle, FILES[0]);
    head.write_all(b"GET /small HTT").unwrap();
    ask(&mut slow, &["huge"]);
    let least = |ms: u64| Duration::from_millis(ms)..PATIENCE / 2;
    let (said, took) = rest(&mut fresh);
    assert!(said.is_empty() && took < PATIENCE / 2, "{said} {took:?}");
    let (said, _) = rest(&mut head);
    assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
    let (said, took) = rest(&mut idle);
    assert!(said.is_empty() && took < PATIENCE / 2, "{said} {took:?}");
    // Each thread has a connection again; this one is idle from now on.
    let mut next = server.connect();
    get(&mut next, FILES[0]);
    let (_, took) = rest(&mut next);
    assert!(least(500).contains(&took), "{took:?}");
    let is_cut_off = || server.totals().get(Counter::ClosedSendDeadline) > 0;
    until(PATIENCE / 2, "a peer that does not read is cut off", is_cut_off);
    let get = |counter| server.totals().get(counter);
    assert_eq!([get(Counter::ClosedHeadDeadline), get(Counter::ClosedIdleDeadline)], [1, 3]);
}

#[test]
fn a_drain_ends_in_time_while_threads_block() {
    let step = Duration::from_millis(200);
    let deadlines = Deadlines { drain_idle_ms: 100, ..Deadlines::default() };
    let mut server = Server::new("drain", 6, step, deadlines);
    let (mut idle, mut large) = (server.connect(), server.connect());
    get(&mut idle, FILES[0]);
    ask(&mut large, &["large"]);
    // Two wait for a connection, two for the rest of a head.
    let mut heads = [(); 2].map(|()| server.connect());
    heads.iter_mut().for_each(|peer| peer.write_all(b"GET /small HTTP/1.1\r\n").unwrap());
    server.has_accepted(4);
    let finish = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        heads[0].write_all(b"Host: a\r\n\r\n").unwrap();
        (rest(&mut heads[0]).0, rest(&mut large).0.len(), rest(&mut idle).0, heads)
    });
    let took = server.drain(3_000);
    let (said, bytes, idle, _) = finish.join().unwrap();
    assert!(said.starts_with("HTTP/1.1 200 ") && said.contains("onnection: close"), "{said}");
    assert!(bytes > FILES[1].bytes, "{bytes}");
    assert!(idle.is_empty());
    // The rest of the other head never arrives.
    assert!((Duration::from_millis(2_900)..PATIENCE / 2).contains(&took), "{took:?}");
    let totals = server.totals();
    assert_eq!(totals.get(Counter::ConnectionsClosed), 4);
    assert_eq!(totals.get(Counter::AcceptFaults), 0, "the end of listening is no fault");
    assert!(TcpStream::connect(server.address).is_err());
}

/// Threads that wait in `accept` cannot be woken without ending the listener. They leave when their
/// wait ends; later connections wait in the backlog for others.
#[test]
fn a_drain_that_leaves_the_listener_ends_within_a_step() {
    let step = Duration::from_millis(200);
    let mut server = Server::new("leave", 4, step, Deadlines::default());
    get(&mut server.connect(), FILES[0]);
    let since = Instant::now();
    server.env.arena.control().leave(u64::MAX);
    server.env.bells[0].ring();
    server.work.take().unwrap().join().unwrap().unwrap();
    assert!(since.elapsed() < PATIENCE / 2, "{:?}", since.elapsed());
    assert_eq!(server.totals().get(Counter::AcceptFaults), 0);
    // Refused if the socket did not listen; any process that accepts from it gets this connection.
    let _waits = server.connect();
    assert!(accept_any(&server), "the backlog is lost");
}

/// Whether a connection can be accepted from the server's socket.
fn accept_any(server: &Server) -> bool {
    let socket = server.env.sockets[0].as_fd().try_clone_to_owned().unwrap();
    std::net::TcpListener::from(socket).accept().is_ok()
}

/// Waits until this many threads serve connections or wait for one.
fn settles_at(server: &Server, threads: u64) {
    let are = || server.totals().gauge(Gauge::ThreadsOpen) == threads;
    until(PATIENCE / 2, &format!("{threads} threads"), are);
}

#[test]
fn threads_are_started_when_few_are_left_and_end_when_many_are() {
    let sets = &[("threads.spare_min", "2"), ("threads.spare_max", "3")];
    let (step, deadlines) = (Duration::from_millis(100), Deadlines::default());
    let mut server =
        Server::with(&DRIVER, "demand", 8, step, deadlines, sets, Box::new(ClearHttp1));
    settles_at(&server, 2);
    let mut peers = Vec::new();
    for peer in 1..=6 {
        peers.push(server.connect());
        get(peers.last_mut().unwrap(), FILES[0]);
        settles_at(&server, peer + 2);
    }
    // There are never more threads than connections allowed: a ninth waits.
    peers.extend([(); 2].map(|()| server.connect()));
    peers[6..].iter_mut().for_each(|peer| get(peer, FILES[0]));
    settles_at(&server, 8);
    let mut ninth = server.connect();
    ask(&mut ninth, &["small"]);
    ninth.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(ninth.read(&mut [0]).is_err(), "all threads have a connection");
    assert_eq!(server.totals().gauge(Gauge::ConnectionsOpen), 8);
    drop(peers.pop());
    ninth.set_read_timeout(Some(PATIENCE)).unwrap();
    answer(&mut ninth, FILES[0]);
    drop((peers, ninth));
    settles_at(&server, 3);
    // Threads that have ended pass their numbers to others.
    let mut peers = [(); 5].map(|()| server.connect());
    peers.iter_mut().for_each(|peer| get(peer, FILES[0]));
    settles_at(&server, 7);
    drop(peers);
    assert!(server.drain(60_000) < PATIENCE / 2);
    let get = |counter| server.totals().get(counter);
    assert_eq!(get(Counter::ThreadsOpenMax), 8);
    assert_eq!(get(Counter::ThreadsStarted), get(Counter::ThreadsEnded));
    assert_eq!(get(Counter::ConnectionsClosed), 14);
    assert!(get(Counter::ThreadsBusyNs) > 0 && get(Counter::ThreadsIdleNs) > 0);
}

#[test]
fn what_a_thread_has_cached_goes_with_it() {
    let own = &[("threads.cache", "own"), ("threads.spare_min", "1"), ("threads.spare_max", "1")];
    let (step, deadlines) = (Duration::from_millis(100), Deadlines::default());
    let server = Server::with(&DRIVER, "own", 8, step, deadlines, own, Box::new(ClearHttp1));
    let mut peers = [(); 4].map(|()| server.connect());
    peers.iter_mut().for_each(|peer| get(peer, FILES[0]));
    assert_eq!(server.totals().gauge(Gauge::CacheEntries), 4);
    drop(peers);
    settles_at(&server, 1);
    // The remaining thread had a connection, or has been started since.
    let left = [Gauge::CacheEntries, Gauge::CacheBytes].map(|gauge| server.totals().gauge(gauge));
    assert!(left[0] <= 1 && (left[0] == 1) == (left[1] > 0), "{left:?}");
}

/// The thread waits in `recv` for much longer than this takes.
#[test]
fn what_comes_after_the_beginning_of_a_drain_is_the_last() {
    let mut server = Server::new("last", 2, PATIENCE, Deadlines::default());
    let mut peer = server.connect();
    get(&mut peer, FILES[0]);
    server.env.arena.control().drain(u64::MAX);
    ask(&mut peer, &["small"]);
    let (said, took) = rest(&mut peer);
    assert!(said.starts_with("HTTP/1.1 200 ") && said.contains("onnection: close"), "{said}");
    assert!(took < PATIENCE / 2, "{took:?}");
    assert!(server.drain(60_000) < PATIENCE / 2);
}

/// Each thread has a cache of its own, and waits in `recv` while the root is replaced.
#[test]
fn threads_with_caches_of_their_own_forget_an_old_root() {
    let sets = &[("threads.start", "all"), ("threads.cache", "own")];
    let (step, deadlines) = (PATIENCE, Deadlines::default());
    let server = Server::with(&DRIVER, "root", 2, step, deadlines, sets, Box::new(ClearHttp1));
    let mut peers = [(); 2].map(|()| server.connect());
    for peer in &mut peers {
        (0..3).for_each(|_| get(peer, FILES[0]));
    }
    assert!(server.totals().get(Counter::CacheHits) >= 2);
    let next = server.folder.join("next");
    fs::create_dir(&next).unwrap();
    fs::write(next.join("small"), "another").unwrap();
    let control = server.env.arena.control();
    control.replace_root();
    let generation = control.root_generation();
    let root = Root::open(&next).unwrap();
    NextRoot::send(&server.roots, 0, generation, root.as_fd(), b"").unwrap();
    server.env.bells[0].ring();
    let has_it = || server.env.first_slot(0).root_generation() == generation;
    until(PATIENCE / 2, "the first thread takes the root", has_it);
    for peer in &mut peers {
        write!(peer, "GET /small HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let (said, _) = rest(peer);
        assert!(said.ends_with("\r\n\r\nanother"), "{said}");
    }
}

/// A name is looked up repeatedly while the root is deleted; no operation is pending then.
#[test]
fn a_connection_that_waits_for_a_time_takes_no_processor() {
    let server = Server::new("sleeps", 1, Duration::from_millis(100), Deadlines::default());
    let mut peer = server.connect();
    fs::remove_dir_all(server.folder.join("root")).unwrap();
    write!(peer, "GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let (said, took) = rest(&mut peer);
    assert!(said.starts_with("HTTP/1.1 404 ") && took > Duration::from_secs(1), "{said} {took:?}");
    // One turn in 64 is recorded.
    let turns = 64 * server.totals().histogram(Histogram::TurnNs).count();
    assert!(turns < 1000, "{turns} turns");
}

/// Runs one of several processes on a listener, in a thread of this process.
fn one_of_several(name: &str, sets: &[(&str, &str)]) -> Server {
    let step = Duration::from_millis(50);
    Server::with(&mp::DRIVER, name, 1, step, Deadlines::default(), sets, Box::new(ClearHttp1))
}

/// A retired process finishes the connection that it has, however many requests arrive, and leaves
/// the listener unchanged to the others.
#[test]
fn a_process_that_is_retired_ends_after_its_connection() {
    let mut server = one_of_several("retired", &[]);
    let slot = server.env.first_slot(0);
    let mut peer = server.connect();
    get(&mut peer, FILES[0]);
    slot.retire();
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(100));
        get(&mut peer, FILES[0]);
    }
    let mut next = server.connect();
    ask(&mut next, &["small"]);
    drop(peer);
    server.work.take().unwrap().join().unwrap().unwrap();
    assert_eq!(server.totals().get(Counter::ConnectionsOpened), 1, "the backlog is for others");
    slot.engage();
    let env = server.env;
    server.work = Some(thread::spawn(move || (mp::DRIVER.work)(env, 0)));
    answer(&mut next, FILES[0]);
    drop(next);
    // This process has no connection, or soon has none.
    slot.retire();
    server.work.take().unwrap().join().unwrap().unwrap();
    let totals = server.totals();
    let counters = [Counter::ConnectionsClosed, Counter::ClosedDrained, Counter::Requests];
    assert_eq!(counters.map(|counter| totals.get(counter)), [2, 0, 5]);
    let log = fs::read_to_string(server.folder.join("access")).unwrap();
    assert_eq!(log.lines().count(), 5, "no line is lost");
}

#[test]
fn a_process_ends_when_it_has_served_as_many_as_it_may() {
    let mut server = one_of_several("requests", &[("mp.requests_max", "2")]);
    for _ in 0..2 {
        let mut peer = server.connect();
        (0..3).for_each(|_| get(&mut peer, FILES[0]));
    }
    server.work.take().unwrap().join().unwrap().unwrap();
    assert!(server.env.first_slot(0).is_retired(), "so that the master does not wonder");
    assert_eq!(server.totals().get(Counter::Requests), 6, "of a connection the first counts");
}

/// The files, by number.
const NAMES: [&str; 3] = [FILES[0].name, FILES[1].name, FILES[2].name];

const FRAMES: Frames = Frames { names: &NAMES };

/// Starts a server with all its threads, and these protocols.
fn serving(
    driver: &'static Driver,
    name: &str,
    threads: usize,
    links: impl Links<StaticFile> + Sync + 'static,
) -> Server {
    let (step, deadlines) = (Duration::from_millis(200), Deadlines::default());
    let all: &[_] = &[("threads.start", "all")];
    let sets = if driver.takes("threads.start") { all } else { &[] };
    Server::with(driver, name, threads, step, deadlines, sets, Box::new(links))
}

/// Connects the client of this number.
type Connect<P> = fn(&Server, usize) -> P;

fn clear(server: &Server, _: usize) -> TcpStream {
    server.connect()
}

fn sealed(server: &Server, client: usize) -> SealedClient {
    SealedClient::new(server.connect(), client as u64)
}

/// Sends as far as a client may, and reads until it has `answers`.
fn exchange(peer: &mut (impl Read + Write), client: &mut Client, sent: &mut usize, answers: usize) {
    let (wire, mut piece) = (client.wire(), vec![0; 64 << 10]);
    let mut judge = |Answer { file, code, body: of, .. }: Answer| {
        let file = FILES[usize::from(file)];
        let is_right = code == 0 && of == file.body();
        assert!(is_right, "{}: code {code}, {} bytes", file.name, of.len());
        Ok(())
    };
    while client.answers() < answers {
        let may = client.may_send();
        peer.write_all(&wire[*sent..may]).unwrap();
        *sent = may;
        let n = peer.read(&mut piece).unwrap();
        assert!(n > 0, "the end after {} answers", client.answers());
        client.feed(&piece[..n], &mut judge).unwrap();
    }
}

/// A thread serves one connection, or two threads serve all.
#[test]
fn many_exchanges_are_served_at_once_in_the_clear_and_sealed() {
    for (driver, name, threads) in
        [(&DRIVER, "frames", CLIENTS), (&hybrid::DRIVER, "pool-frames", 2)]
    {
        println!("{name}");
        many_exchanges(serving(driver, name, threads, FRAMES), clear);
        many_exchanges(serving(driver, name, threads, Sealing::new(FRAMES, None)), sealed);
    }
}

const CLIENTS: usize = 6;

fn many_exchanges<P: Read + Write + 'static>(mut server: Server, connect: Connect<P>) {
    const REQUESTS: usize = 60;
    at_once(CLIENTS, |client| {
        let of = |request| u8::from((client + request) % 20 == 0);
        let mut peer = connect(&server, client);
        let mut client = Client::new((0..REQUESTS).map(of).collect());
        exchange(&mut peer, &mut client, &mut 0, REQUESTS);
    });
    server.drain(30_000);
    let get = |counter| server.totals().get(counter);
    let all = (CLIENTS * REQUESTS) as u64;
    assert_eq!([get(Counter::Requests), get(Counter::Replies)], [all, all]);
    assert_eq!(get(Counter::ConnectionsClosed), CLIENTS as u64);
}

#[test]
fn a_thread_receives_while_its_peer_takes_nothing() {
    for (driver, name) in [(&DRIVER, "beside"), (&hybrid::DRIVER, "pool-beside")] {
        println!("{name}");
        receives_beside(&serving(driver, name, 1, FRAMES), clear);
        receives_beside(&serving(driver, name, 1, Sealing::new(FRAMES, None)), sealed);
    }
}

/// A peer sends further requests while it reads no response.
fn receives_beside<P: Read + Write>(server: &Server, connect: Connect<P>) {
    let (mut peer, mut client) = (connect(server, 0), Client::new(vec![2, 0, 1]));
    let wire = client.wire();
    peer.write_all(&wire[..2]).unwrap();
    let since = Instant::now();
    let sent = || server.totals().get(Counter::BytesSent);
    let mut before = 0;
    // Until no more bytes leave.
    while before == 0 || sent() > before {
        assert!(since.elapsed() < PATIENCE / 2, "the peer has room for all of it");
        before = sent();
        thread::sleep(Duration::from_millis(300));
    }
    peer.write_all(&wire[2..]).unwrap();
    let are_received = || server.totals().get(Counter::Requests) >= 3;
    until(PATIENCE, "what it asks for meanwhile is received", are_received);
    // Buffers may have found room for the others, which are small.
    assert!(sent() < FILES[2].bytes as u64, "the first response has not left");
    exchange(&mut peer, &mut client, &mut wire.len(), 3);
}

#[test]
fn threads_and_processes_serve_sealed_connections() {
    for (driver, name, threads) in [
        (&DRIVER, "sealed", CLIENTS),
        (&hybrid::DRIVER, "sealed-pool", 2),
        (&mp::DRIVER, "sealed-process", 1),
    ] {
        println!("{name}");
        let server = serving(driver, name, threads, Sealing::new(ClearHttp1, None));
        let totals = many_requests(server, sealed, CLIENTS, 12, 6);
        let get = |counter| totals.get(counter);
        assert_eq!(get(Counter::SendfileBytes), 0, "no byte of a file leaves in the clear");
        assert!(get(Counter::SendBytes) > get(Counter::BytesSent), "records have heads");
    }
}
