//! Event loop, or scheduler of user threads, over real sockets and files, in the test's thread.
//! Tests the bytes that it takes from a peer, and the number of its allocations.
use crate::rig::{ACCEPTS, PATIENCE, Stop, TURNS, TestFile, answer, around, connect, head};
use regatta_arch::{
    WorkerLog,
    conn::{
        accept::{AcceptRules, Acceptor},
        step::Readiness,
        worker::Worker,
    },
    disk::at_once::{Completion, Disk, DiskResult, InlineDisk},
    drive::{
        ledger::Spent,
        perform::{self, Below, SendBy},
    },
    loops::{
        event_loop::{
            EventLoop,
            cohort::{CohortOrder, Visits},
        },
        fibers::{self, FiberRules, Hands, State, run_task},
    },
};
use regatta_metrics::{Arena, Counter, Slot, Tally};
use regatta_op::{Now, OpenReq, Outbox, ReadReq, Ticket};
use regatta_origin::{LocalCache, Log, NoLog, Record, Scratch, Site};
use regatta_sys::{
    Bell, OpenResult, OpenRules, Root, StaticFile,
    alloc_count::allocations,
    fiber::{self, Guard, Stacks},
    socket::{ListenSpec, listen, local_addr, segments_received},
    wait::{Epoll, Event, Interest, Poll, Poller, Select, Trigger},
};
use regatta_testkit::{counters::arena, folder::Folder, waits::until};
use rustix::net::SendFlags;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io::{self, BufReader, Read, Write},
    mem,
    net::TcpStream,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{
        AtomicBool,
        Ordering::{Acquire, Release},
    },
    thread,
    time::{Duration, Instant},
};

const SMALL: TestFile = TestFile { name: "small", bytes: 4096 };
const LARGE: TestFile = TestFile { name: "large", bytes: 1 << 20 };

/// Disk that has finished when it is asked, and counts completions taken between two waits.
struct Prompt<'a> {
    below: Below<'a>,
    slot: Slot<'a>,
    bell: Bell,
    finished: VecDeque<Completion>,
    waits: u64,
    taken: u32,
    most: u32,
}

impl<'a> Prompt<'a> {
    fn new(below: Below<'a>, slot: Slot<'a>) -> Self {
        let (bell, finished) = (Bell::new().unwrap(), VecDeque::new());
        Self { below, slot, bell, finished, waits: 0, taken: 0, most: 0 }
    }
}

impl Disk for Prompt<'_> {
    fn open(&mut self, key: u64, ticket: Ticket, req: OpenReq) -> Option<OpenResult> {
        let result = DiskResult::Opened(ticket, self.below.open(&req));
        self.finished.push_back(Completion { key, result, spent: Spent::default() });
        self.bell.ring();
        None
    }

    fn read(&mut self, _: u64, _: Ticket, req: ReadReq<StaticFile>) -> Option<regatta_sys::Read> {
        Some(perform::read(req))
    }

    fn prefetch(&mut self, _: u64, _: &Outbox<StaticFile>) -> Option<u64> {
        Some(u64::MAX)
    }

    fn source(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.as_fd())
    }

    fn next_completion(&mut self) -> Option<Completion> {
        let waits = self.slot.get(Counter::WaitCalls);
        if mem::replace(&mut self.waits, waits) != waits {
            self.taken = 0;
        }
        let Some(completion) = self.finished.pop_front() else {
            self.bell.clear();
            return None;
        };
        self.taken += 1;
        self.most = self.most.max(self.taken);
        Some(completion)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Loop,
    /// A loop with a [`Prompt`] disk, from which it takes at most this many completions in a round.
    Helped(u32),
    /// A loop that serves by stages.
    Stages,
    /// A loop whose poller fails.
    Fails,
    /// User threads. They or a helper send what is in files.
    Threads(Option<SendBy>),
}

fn run_loop(server: Server, poller: impl Poller, worker: Worker<'_, Readiness>, below: Below<'_>) {
    let (mut inline, mut prompt) = (InlineDisk(below), Prompt::new(below, worker.around().slot));
    let is_helped = matches!(server, Server::Helped(_));
    let disk: &mut dyn Disk = if is_helped { &mut prompt } else { &mut inline };
    let mut event_loop = EventLoop::new(poller, worker, TURNS, disk);
    if server == Server::Stages {
        event_loop = event_loop.by_stages(Visits { order: CohortOrder::Forward, most: 0 });
    }
    assert_eq!(event_loop.run().is_err(), server == Server::Fails);
    if let Server::Helped(most) = server {
        assert!((1..=most).contains(&prompt.most), "{} in one round", prompt.most);
    }
}

/// Serves in this thread for as long as `client` runs in another.
fn serve(
    server: Server,
    poller: impl Poller,
    listener: OwnedFd,
    site: &Site,
    log: &dyn WorkerLog,
    client: impl FnOnce(Arena<'_>) + Send,
) {
    let (arena, bell) = (arena(2), Bell::new().unwrap());
    let folder = Folder::new("loop");
    [SMALL, LARGE].into_iter().for_each(|file| file.write(&folder));
    let root = Root::open(&folder).unwrap();
    let below = Below { root: &root, rules: OpenRules::default() };
    let hands = Hands::new(16).unwrap();
    let (cache, scratch) = (LocalCache::new(&site.caching, 7), Scratch::new(7));
    let tally = Tally::Owned(arena.slot(0));
    let mut around = around(site, &cache, &scratch, tally, arena, &bell);
    around.cx.log = log;
    around.log = log;
    let listeners = [listener];
    let accepting = AcceptRules { events_per_accept: 16, ..ACCEPTS };
    let acceptor = Acceptor::new(&listeners, accepting);
    thread::scope(|scope| {
        let stop = Stop(arena, &bell);
        scope.spawn(move || {
            let _stop = stop;
            client(arena);
        });
        let Server::Threads(send) = server else {
            return run_loop(server, poller, Worker::new(acceptor, around), below);
        };
        if let Some(by) = send {
            let (hands, tally) = (&hands, Tally::Owned(arena.slot(1)));
            scope.spawn(move || hands.help(tally, &mut |task| run_task(task, by, tally)));
        }
        let rules = FiberRules {
            below,
            helpers_read: false,
            send,
            accepting_first: false,
            poller_retries: true,
            yields: true,
            spins: false,
            handshakes_per_round: 8,
            runs_max: 10_000,
            bytes_max: 2 << 20,
        };
        let stacks = Stacks::new(100, 256 << 10, Guard::Mapping).unwrap();
        let state = RefCell::new(State::new(Worker::new(acceptor, around), poller, &hands, rules));
        fiber::scope(stacks, |fibers| fibers::run(&state, fibers)).unwrap();
    });
}

/// Makes a listener whose connections have small send buffers, and one connection.
fn listen_and_connect() -> (OwnedFd, BufReader<TcpStream>) {
    let spec = ListenSpec {
        send_buffer_bytes: 128 << 10,
        ..ListenSpec::new("127.0.0.1:0".parse().unwrap())
    };
    let listener = listen(&spec).unwrap();
    let peer = connect(local_addr(listener.as_fd()).unwrap());
    (listener, BufReader::new(peer))
}

/// docs/options.md, `limits.head_bytes_max`.
#[test]
fn requests_ahead_of_their_answers_stay_in_the_kernel() {
    const REQUEST: &[u8] = b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n";
    let (listener, mut peer) = listen_and_connect();
    // Sent before the loop begins, so that everything is there when the loop first receives.
    let ahead = (60 << 10) / REQUEST.len();
    let large = b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
    peer.get_mut().write_all(&[large, REQUEST.repeat(ahead)].concat()).unwrap();
    let (site, poller) = (Site::default(), Epoll::new(Trigger::Level).unwrap());
    serve(Server::Loop, poller, listener, &site, &NoLog, |arena| {
        let counter = |counter| arena.slot(0).get(counter);
        let is_full = || counter(Counter::SendfileWouldBlock) > 0;
        until(PATIENCE, "the large file does not fit the socket", is_full);
        let taken = counter(Counter::RecvBytes);
        let most = site.limits.head_bytes_max as u64;
        assert!(taken > 0 && taken <= most, "{taken} bytes taken");
        answer(&mut peer, LARGE);
        (0..ahead).for_each(|_| answer(&mut peer, SMALL));
    });
}

/// A connection that requests a name after each answer of a helper does not delay the others.
#[test]
fn a_round_takes_a_bounded_part_of_what_helpers_have_done() {
    const REQUESTS: usize = 1_600;
    let (listener, mut peer) = listen_and_connect();
    let requests = (0..REQUESTS).map(|at| format!("HEAD /{at:05} HTTP/1.1\r\nHost: a\r\n\r\n"));
    peer.get_mut().write_all(requests.collect::<String>().as_bytes()).unwrap();
    let (site, poller) = (Site::default(), Epoll::new(Trigger::Level).unwrap());
    serve(Server::Helped(1_024), poller, listener, &site, &NoLog, |_| {
        (0..REQUESTS).for_each(|_| drop(head(&mut peer)));
    });
}

/// Calls that a connection with one request costs, as counted. A connection that ends with its
/// first turn needs no call of the poller, and the loop does not look for a second newcomer.
fn check_short(poller: impl Poller, closes: bool) {
    const CONNECTIONS: u64 = 50;
    let name = format!("{poller:?} {closes}");
    // Watching and changes are calls of epoll only; the other pollers do as much in memory.
    let listener = listen(&ListenSpec {
        // The first request is there when its connection is accepted.
        defer_accept_s: 10,
        ..ListenSpec::new("127.0.0.1:0".parse().unwrap())
    });
    let listener = listener.unwrap();
    let address = local_addr(listener.as_fd()).unwrap();
    let site = Site::default();
    serve(Server::Loop, poller, listener, &site, &NoLog, |arena| {
        let all = [
            Counter::AcceptCalls,
            Counter::RecvCalls,
            Counter::SendCalls,
            Counter::WaitChanges,
            Counter::ConnectionsClosed,
            Counter::WaitCalls,
        ];
        let read = || all.map(|counter| arena.slot(0).get(counter));
        let closed = |count: u64| {
            // `WaitChanges` is counted when the next wait ends.
            let are = || arena.slot(0).get(Counter::ConnectionsClosed) >= count;
            until(PATIENCE, &format!("{name}: it is closed"), are);
        };
        let ask = || {
            let mut peer = BufReader::new(TcpStream::connect(address).unwrap());
            let close = if closes { "Connection: close\r\n" } else { "" };
            let request = format!("GET /small HTTP/1.1\r\nHost: a\r\n{close}\r\n");
            peer.get_mut().write_all(request.as_bytes()).unwrap();
            answer(&mut peer, SMALL);
            if closes {
                assert_eq!(peer.read(&mut [0]).unwrap(), 0, "{name}: it is over");
                let segments = segments_received(peer.get_ref().as_fd()).unwrap();
                // Segments: handshake, request, and the response together with the end.
                assert!(segments <= 3, "{name}: {segments} segments");
            }
        };
        // The second request finds the changes of the first counted.
        ask();
        ask();
        closed(2);
        let before = read();
        for count in 0..CONNECTIONS {
            ask();
            closed(3 + count);
        }
        let mut calls: Vec<u64> = read().iter().zip(before).map(|(now, then)| now - then).collect();
        let waits = calls.pop().unwrap();
        // Kept alive: the connection is watched, and the end of the stream is received.
        let (recvs, changes) = if closes { (1, 0) } else { (2, 1) };
        let forgets = if name.starts_with("Epoll") { 0 } else { changes };
        let expect = [1, recvs, 1, changes + forgets, 1].map(|calls| calls * CONNECTIONS);
        assert_eq!(calls, expect, "{name}: accepts, receives, sends, changes, closes");
        // A wait for each arrival; a few end because a timer fires.
        assert!(waits <= recvs * CONNECTIONS + CONNECTIONS / 2, "{name}: {waits} waits");
    });
}

#[test]
fn a_short_connection_costs_no_call_that_it_does_not_need() {
    for closes in [true, false] {
        check_short(Epoll::new(Trigger::Level).unwrap(), closes);
        check_short(Epoll::new(Trigger::Edge).unwrap(), closes);
        check_short(Poll::new(), closes);
        check_short(Select::new(), closes);
    }
}

/// The kernel may hold the last bytes of a connection until it is shut. A turn whose operations are
/// used up by then does not leave that to the next round.
#[test]
fn what_the_kernel_holds_leaves_in_the_same_turn() {
    let (listener, mut first) = listen_and_connect();
    let mut second = TcpStream::connect(local_addr(listener.as_fd()).unwrap()).unwrap();
    let head = "GET /small HTTP/1.1\r\nHost: a\r\n";
    let (again, last) = (format!("{head}\r\n"), format!("{head}Connection: close\r\n\r\n"));
    // Both are there before the loop runs. The first has the file cached. The second's turn, one
    // `Recv` and 63 times `Send`, has as many operations as a turn may perform.
    first.get_mut().write_all(last.as_bytes()).unwrap();
    second.write_all((again.repeat(62) + &last).as_bytes()).unwrap();
    second.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut second = BufReader::new(second);
    let (site, poller) = (Site::default(), Epoll::new(Trigger::Level).unwrap());
    serve(Server::Loop, poller, listener, &site, &NoLog, |arena| {
        for (peer, answers) in [(&mut first, 1), (&mut second, 63)] {
            (0..answers).for_each(|_| answer(peer, SMALL));
            assert_eq!(peer.read(&mut [0]).unwrap(), 0);
        }
        assert_eq!(arena.slot(0).get(Counter::StallBudget), 0, "turns that were cut short");
    });
}

/// Log that notes how often its thread, which is the loop's, has allocated.
struct Watch<'a> {
    /// Whether the client wants allocations noted.
    watching: &'a AtomicBool,
    /// Allocations at the first check and at the last.
    first: Cell<Option<u64>>,
    last: Cell<u64>,
    exchanges: Cell<u64>,
}

impl Watch<'_> {
    fn sample(&self) {
        if self.watching.load(Acquire) {
            self.last.set(allocations());
            self.first.set(self.first.get().or(Some(allocations())));
        }
    }
}

impl Log for Watch<'_> {
    fn wants(&self) -> bool {
        true
    }
    fn record(&self, record: &Record<'_>) {
        assert!(record.status < 400);
        self.sample();
        self.exchanges.set(self.exchanges.get() + u64::from(self.first.get().is_some()));
    }
}

impl WorkerLog for Watch<'_> {
    fn tick(&self, _: Now) {
        self.sample();
    }
    fn flush(&self) {}
    fn is_due(&self) -> bool {
        false
    }
    fn each_own(&self, _: &mut dyn FnMut(BorrowedFd<'_>)) {}
}

/// Sends requests of each kind, and checks the number and bodies of the responses.
fn round(peer: &mut BufReader<TcpStream>) {
    let get = "GET /small HTTP/1.1\r\nHost: a\r\n\r\n";
    let rows = [
        (get.to_owned(), 1, Some(SMALL)),
        ("HEAD /small HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 1, None),
        ("GET /small HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n".to_owned(), 1, None),
        // More than the socket takes: the connection is parked, and a timer is filed.
        ("GET /large HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 1, Some(LARGE)),
        // More operations than a turn may perform.
        (get.repeat(70), 70, Some(SMALL)),
    ];
    for (request, answers, file) in rows {
        peer.get_mut().write_all(request.as_bytes()).unwrap();
        for _ in 0..answers {
            match file {
                Some(file) => answer(peer, file),
                None => drop(head(peer)),
            }
        }
    }
    // Part of a head: a timer is filed for its deadline, and filed again when it fires.
    let (part, rest) = get.split_at(14);
    peer.get_mut().write_all(part.as_bytes()).unwrap();
    thread::sleep(Duration::from_millis(20));
    peer.get_mut().write_all(rest.as_bytes()).unwrap();
    answer(peer, SMALL);
}

/// Serves 1,000 hits and more, and a timer that fires if there is `time` for it.
fn watched(server: Server, poller: impl Poller, name: &'static str, time: Duration) {
    let (listener, mut peer) = listen_and_connect();
    let watching = AtomicBool::new(false);
    let (first, last) = (Cell::new(None), Cell::new(0));
    let watch = Watch { watching: &watching, first, last, exchanges: Cell::new(0) };
    let mut site = Site::default();
    site.caching.revalidate_ms = 3_600_000;
    site.deadlines.head_ms_max = 2_000;
    serve(server, poller, listener, &site, &watch, |_| {
        for _ in 0..5 {
            round(&mut peer);
        }
        watching.store(true, Release);
        let begin = Instant::now();
        for _ in 0..14 {
            round(&mut peer);
        }
        while begin.elapsed() < time {
            thread::sleep(Duration::from_millis(20));
            round(&mut peer);
        }
    });
    let exchanges = watch.exchanges.get();
    assert!(exchanges >= 1000, "{name}: {exchanges} exchanges");
    let first = watch.first.get().unwrap();
    assert!(first > 0, "the allocator counts");
    // On a busy machine more may wait at once than before, so that a pool grows. What a response
    // or a round allocates is more than that.
    let more = watch.last.get() - first;
    assert!(more < 4, "{name}: {more} allocations in {exchanges} exchanges");
}

/// STYLE.md 14, for a whole loop: poller, slots, timers, parked operations and the core. The same
/// for a loop that serves by stages: jobs and copies of received bytes have places. The same for a
/// scheduler of user threads, also if connections go to a helper and come back.
#[test]
fn a_warm_loop_allocates_nothing() {
    let epoll = |trigger| Epoll::new(trigger).unwrap();
    watched(Server::Loop, epoll(Trigger::Level), "epoll", Duration::from_secs(4));
    watched(Server::Loop, epoll(Trigger::Edge), "epoll-edge", Duration::ZERO);
    watched(Server::Loop, Poll::new(), "poll", Duration::ZERO);
    watched(Server::Loop, Select::new(), "select", Duration::ZERO);

    watched(Server::Stages, epoll(Trigger::Edge), "stages", Duration::ZERO);
    watched(Server::Stages, Poll::new(), "stages-poll", Duration::ZERO);

    let inline = Server::Threads(None);
    watched(inline, epoll(Trigger::Edge), "fiber-edge", Duration::from_secs(4));
    watched(inline, Poll::new(), "fiber-poll", Duration::ZERO);
    let helped = Server::Threads(Some(SendBy::TryFirst(Duration::from_secs(1))));
    watched(helped, Poll::new(), "fiber-helped", Duration::ZERO);
}

/// Log that holds the loop up at the end of a round in which it has answered, for a while at most.
#[derive(Default)]
struct Gate {
    shut: AtomicBool,
    answered: AtomicBool,
    waits: AtomicBool,
}

impl Log for &Gate {
    fn wants(&self) -> bool {
        true
    }
    fn record(&self, _: &Record<'_>) {
        self.answered.store(true, Release);
    }
}

impl WorkerLog for &Gate {
    fn tick(&self, _: Now) {
        let end = Instant::now() + PATIENCE;
        while self.shut.load(Acquire) && self.answered.load(Acquire) && Instant::now() < end {
            self.waits.store(true, Release);
            thread::sleep(Duration::from_millis(1));
        }
    }
    fn flush(&self) {}
    fn is_due(&self) -> bool {
        false
    }
    fn each_own(&self, _: &mut dyn FnMut(BorrowedFd<'_>)) {}
}

/// A receive stops short of an urgent byte, and the bytes behind it have no edge of their own.
#[test]
fn what_is_behind_an_urgent_byte_is_read() {
    let (site, gate) = (Site::default(), &Gate::default());
    for trigger in [Trigger::Edge, Trigger::Level] {
        let (listener, mut peer) = listen_and_connect();
        let poller = Epoll::new(trigger).unwrap();
        serve(Server::Loop, poller, listener, &site, &gate, |_| {
            peer.get_ref().set_nodelay(true).unwrap();
            gate.answered.store(false, Release);
            gate.shut.store(true, Release);
            peer.get_mut().write_all(b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            answer(&mut peer, SMALL);
            until(PATIENCE, "the loop ends its round", || gate.waits.swap(false, Acquire));
            // All bytes are there when the loop receives next.
            peer.get_mut().write_all(b"GET /small HTTP/1.1\r\nHost: a\r\n").unwrap();
            rustix::net::send(peer.get_ref(), b"!", SendFlags::OOB).unwrap();
            peer.get_mut().write_all(b"\r\n").unwrap();
            gate.shut.store(false, Release);
            answer(&mut peer, SMALL);
        });
    }
}

/// Poller that fails once it watches a connection.
#[derive(Debug)]
struct Failing(Epoll, bool);

impl Poller for Failing {
    fn add(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.1 = true;
        self.0.add(fd, key, interest)
    }
    fn add_level(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.0.add_level(fd, key, interest)
    }
    fn set(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.0.set(fd, key, interest)
    }
    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.0.remove(fd)
    }
    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<usize> {
        if self.1 { Err(io::ErrorKind::OutOfMemory.into()) } else { self.0.wait(events, timeout) }
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn changes(&self) -> u64 {
        self.0.changes()
    }
}

/// Sockets of a loop that fails do not stay entered if others share the table of descriptors.
#[test]
fn a_loop_that_fails_closes_its_connections() {
    let site = Site::default();
    let (listener, mut peer) = listen_and_connect();
    let poller = Failing(Epoll::new(Trigger::Level).unwrap(), false);
    serve(Server::Fails, poller, listener, &site, &NoLog, |arena| {
        let is_closed = || arena.slot(0).get(Counter::ConnectionsClosed) > 0;
        until(PATIENCE, "the connection is closed", is_closed);
        assert_eq!(arena.slot(0).get(Counter::ConnectionsOpened), 1);
        match peer.read(&mut [0]) {
            Ok(0) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            other => panic!("neither an end nor a reset: {other:?}"),
        }
    });
}
