//! A worker without an event loop, with a driver written here. The driver visits all connections,
//! performs their operations at once, and retries those that would wait.
use crate::rig::{ACCEPTS, Stop, TURNS, TestFile, around, ask, connect, get};
use regatta_arch::{
    cache::thread_cache::ThreadCache,
    conn::{
        accept::{AcceptRules, Acceptor, WhenFull},
        step::{Io, Readiness, TurnRules, step},
        worker::{Action, WaitTally, Worker},
    },
    disk::at_once::InlineDisk,
    drive::{
        Turn,
        ledger::Spent,
        perform::{self, Below, TransferFailure},
    },
};
use regatta_metrics::{Arena, Counter, Tally};
use regatta_op::{Done, Op, Tick};
use regatta_origin::{Cache, LocalCache, Protocol as _, Scratch, Site};
use regatta_sys::{
    Bell, OpenRules, Root, StaticFile, alloc_count, hook,
    socket::{ListenSpec, listen, local_addr},
};
use regatta_testkit::{counters::arena, folder::Folder};
use std::{
    io::{Read, Write},
    net::TcpStream,
    os::fd::{AsFd, OwnedFd},
    thread,
    time::Duration,
};

#[path = "../../src/testing/dice.rs"]
mod dice;
mod exclusive;
mod passing;

const SMALL: TestFile = TestFile { name: "small", bytes: 4096 };
/// More than a socket takes at once.
const LARGE: TestFile = TestFile { name: "large", bytes: 4 << 20 };

const RULES: AcceptRules =
    AcceptRules { when_full: WhenFull::CloseIdle, connections_max: 2, ..ACCEPTS };

/// Driver's state of a connection: the operation that would have waited.
type Held = Option<Op<StaticFile>>;

/// Runs rounds until the worker is to leave.
fn run(mut worker: Worker<'_, Held>, below: Below<'_>) {
    let mut buffer = vec![0; 16 << 10];
    while worker.goes_on() {
        round(&mut worker, Duration::from_millis(1), below, &mut buffer);
    }
}

/// Runs one round, after a wait of at most `most`.
fn round(worker: &mut Worker<'_, Held>, most: Duration, below: Below<'_>, buffer: &mut [u8]) {
    let wait = worker.begin_wait();
    thread::sleep(wait.timeout.min(most));
    let _root_is_another = worker.end_wait(wait, WaitTally::default());
    if worker.is_listening() {
        worker.offer(0);
    }
    for key in worker.keys() {
        turn(worker, key, below, buffer);
    }
    while let Some(action) = worker.next_action() {
        let key = match action {
            Action::Admit(accepted) => worker.admit(accepted, None),
            Action::Close(key, reason) => {
                worker.close(key, reason);
                continue;
            }
            Action::Drain => {
                worker.offer_backlog();
                continue;
            }
            Action::Turn(key) | Action::Late(key) => key,
            Action::Expired(key, abandoned) => {
                let held = &mut worker.slot(key).unwrap().drive;
                *held = held.take().filter(|_| abandoned.is_none());
                key
            }
        };
        turn(worker, key, below, buffer);
    }
}

/// Performs a connection's operations until one would have to wait.
fn turn(worker: &mut Worker<'_, Held>, key: u64, below: Below<'_>, buffer: &mut [u8]) {
    let Some((slot, desk)) = worker.turn(key) else { return };
    let begun = desk.begin(slot, true);
    let (now, cx, mut spent) = (desk.now, desk.around.cx, Spent::default());
    let turn = loop {
        let Some(op) = slot.drive.take().or_else(|| slot.conn.next_op()) else {
            break Turn::Parked;
        };
        let done = match op {
            Op::Recv => match perform::recv(&slot.socket, buffer, cx.tally) {
                Ok(n) => Done::Recv(Ok(&buffer[..n])),
                Err(TransferFailure::Fault(fault)) => Done::Recv(Err(fault)),
                Err(TransferFailure::WouldBlock) => {
                    slot.drive = Some(Op::Recv);
                    break Turn::Parked;
                }
            },
            Op::Send(mut outbox) => {
                let most = u64::MAX;
                match perform::send(&slot.socket, &mut outbox, most, &mut spent, cx.tally) {
                    Ok(bytes) => Done::Send(outbox, Ok(bytes)),
                    Err(TransferFailure::Fault(fault)) => Done::Send(outbox, Err(fault)),
                    Err(TransferFailure::WouldBlock) => {
                        slot.drive = Some(Op::Send(outbox));
                        break Turn::Parked;
                    }
                }
            }
            Op::Open(ticket, req) => Done::Open(ticket, below.open(&req)),
            Op::Read(ticket, req) => {
                let (buffer, read) = perform::read(req);
                Done::Read(ticket, buffer, read)
            }
            Op::Stat(ticket, file) => Done::Stat(ticket, perform::stat(&file)),
            Op::Shut => {
                perform::shut(&slot.socket);
                Done::Shut
            }
            Op::Close(reason) => break Turn::Closed(reason),
        };
        slot.conn.complete(done, now, &cx);
    };
    desk.end(key, slot, begun, turn, &spent, false);
    if let Turn::Closed(reason) = turn {
        worker.close(key, reason);
    }
}

/// Admits a connection, which must be the next action.
#[track_caller]
fn admit<S>(worker: &mut Worker<'_, S>, drive: S) -> u64 {
    match worker.next_action() {
        Some(Action::Admit(accepted)) => worker.admit(accepted, drive),
        other => panic!("{other:?} instead of a connection"),
    }
}

fn is_over(peer: &mut TcpStream) -> bool {
    peer.read(&mut [0]).is_ok_and(|n| n == 0)
}

/// Site, root, counters, and a listener for each worker.
struct Fixture {
    _folder: Folder,
    site: Site,
    root: Root,
    bell: Bell,
    arena: Arena<'static>,
    listeners: Vec<OwnedFd>,
}

impl Fixture {
    fn new(name: &str, workers: usize) -> Self {
        let folder = Folder::new(&format!("worker-{name}"));
        [SMALL, LARGE].into_iter().for_each(|file| file.write(&folder));
        let (arena, listeners) = Self::fresh(workers);
        let mut site = Site::default();
        site.deadlines.head_ms_max = 200;
        Self {
            root: Root::open(&folder).unwrap(),
            _folder: folder,
            site,
            bell: Bell::new().unwrap(),
            arena,
            listeners,
        }
    }

    fn fresh(workers: usize) -> (Arena<'static>, Vec<OwnedFd>) {
        let listener = |_| listen(&ListenSpec::new("127.0.0.1:0".parse().unwrap())).unwrap();
        (arena(workers), (0..workers).map(listener).collect())
    }

    fn connect(&self, worker: usize) -> TcpStream {
        connect(local_addr(self.listeners[worker].as_fd()).unwrap())
    }

    fn get(&self, worker: usize, counter: Counter) -> u64 {
        self.arena.slot(worker).get(counter)
    }

    /// Runs this worker in this thread.
    fn serve(&self, worker: usize, cache: &dyn Cache<StaticFile>) {
        self.work(worker, cache, run);
    }

    fn work<S>(
        &self,
        worker: usize,
        cache: &dyn Cache<StaticFile>,
        run: impl FnOnce(Worker<'_, S>, Below<'_>),
    ) {
        run(self.worker(worker, worker, cache, &Scratch::new(7), RULES), self.below());
    }

    fn below(&self) -> Below<'_> {
        Below { root: &self.root, rules: OpenRules::default() }
    }

    /// Makes a worker that counts in that slot, and accepts from that listener.
    fn worker<'a, S>(
        &'a self,
        slot: usize,
        listener: usize,
        cache: &'a dyn Cache<StaticFile>,
        scratch: &'a Scratch<StaticFile>,
        rules: AcceptRules,
    ) -> Worker<'a, S> {
        let (tally, arena) = (Tally::Owned(self.arena.slot(slot)), self.arena);
        let around = around(&self.site, cache, scratch, tally, arena, &self.bell);
        Worker::new(Acceptor::new(&self.listeners[listener..=listener], rules), around)
    }
}

/// A thread has a worker for one connection, and there may be ten thousand threads.
#[test]
fn a_worker_of_one_connection_takes_little_memory() {
    let fixture = Fixture::new("memory", 1);
    let (cache, scratch) = (LocalCache::new(&fixture.site.caching, 7), Scratch::new(7));
    let _peer = fixture.connect(0);
    let bytes = |connections_max| {
        let before = alloc_count::bytes();
        let rules = AcceptRules { connections_max, when_full: WhenFull::Pause, ..RULES };
        let mut worker = fixture.worker::<Held>(0, 0, &cache, &scratch, rules);
        worker.offer(0);
        if let Some(Action::Admit(accepted)) = worker.next_action() {
            let key = worker.admit(accepted, None);
            turn(&mut worker, key, fixture.below(), &mut [0]);
            assert_eq!(connections_max, 1);
        }
        alloc_count::bytes().wrapping_sub(before) + size_of_val(&worker) as u64
    };
    let (one, many) = (bytes(1), bytes(1000));
    assert!(one <= 2048 && many > 8192, "{one} {many}");
}

/// Requests that hit and miss, a response that waits for its peer, a deadline, an idle connection
/// that is closed for another, and the drain.
#[test]
fn a_worker_needs_no_event_loop() {
    let fixture = Fixture::new("worker", 1);
    thread::scope(|scope| {
        scope.spawn(|| fixture.serve(0, &LocalCache::new(&fixture.site.caching, 7)));
        let _stop = Stop(fixture.arena, &fixture.bell);
        let (mut first, mut second) = (fixture.connect(0), fixture.connect(0));
        for file in [SMALL, SMALL, LARGE] {
            get(&mut first, file);
            get(&mut second, file);
        }
        // A connection whose last response is not acknowledged is not closed for another; the
        // kernel acknowledges up to 40 ms late.
        thread::sleep(Duration::from_millis(200));
        let mut third = fixture.connect(0);
        get(&mut third, SMALL);
        assert!(is_over(&mut first), "it has been idle for longest");
        second.write_all(b"GET /small HTT").unwrap();
        let mut answer = String::new();
        second.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        fixture.arena.control().drain(u64::MAX);
        assert!(is_over(&mut third));
    });
    let get = |counter| fixture.get(0, counter);
    assert_eq!([get(Counter::ConnectionsOpened), get(Counter::ConnectionsClosed)], [3, 3]);
    assert_eq!([get(Counter::AcceptOk), get(Counter::ClosedDisplaced)], [3, 1]);
    assert_eq!(get(Counter::BytesSent), get(Counter::SendBytes) + get(Counter::SendfileBytes));
}

/// A thread finds what another has opened.
#[test]
fn threads_share_a_cache() {
    let fixture = &Fixture::new("threads", 2);
    let cache = &ThreadCache::new(&fixture.site.caching, 7);
    thread::scope(|scope| {
        let _stop = Stop(fixture.arena, &fixture.bell);
        (0..2).for_each(|worker| drop(scope.spawn(move || fixture.serve(worker, cache))));
        for worker in [0, 1, 0] {
            let mut peer = fixture.connect(worker);
            [SMALL, SMALL, LARGE].into_iter().for_each(|file| get(&mut peer, file));
        }
    });
    cache.check_invariants();
    let get = |counter| [fixture.get(0, counter), fixture.get(1, counter)];
    assert_eq!((get(Counter::CacheFills), cache.entries(), cache.descriptors()), ([2, 0], 2, 1));
    assert_eq!(get(Counter::Replies), [6, 3]);
    assert!(get(Counter::CacheHits)[1] + get(Counter::CacheRevalidations)[1] >= 3);
    assert!(get(Counter::LockAcquisitions).iter().all(|taken| *taken > 0));
}

/// While the disk holds the loop up for one connection, nothing is sent to another whose window has
/// begun. That time is deducted once, when bytes are next sent.
#[test]
fn the_time_in_which_the_disk_holds_the_loop_up_is_not_the_peers() {
    const BEGIN_MS: u64 = 1_000_000;
    const HELD_MS: u64 = 4_974;
    let set_time = |ms: u64| hook::set_time((BEGIN_MS + ms) * 1_000_000, 4_000_000_000);
    set_time(0);
    let fixture = Fixture::new("held", 1);
    let (mut peer, _other) = (fixture.connect(0), fixture.connect(0));
    ask(&mut peer, &[LARGE.name]);
    let rules = TurnRules { bytes_max: 1000, ..TURNS };
    fixture.work(0, &LocalCache::new(&fixture.site.caching, 7), |mut worker, below| {
        let mut disk = InlineDisk(below);
        let mut io = Io::new(&mut disk, rules, &fixture.site.limits);
        worker.offer(0);
        let [reads, opens] = [(); 2].map(|()| admit(&mut worker, Readiness::new(true, 0)));
        // A turn that has waited this long for the disk; returns the deadline after it.
        let mut turn = |key, held_ms: u64| {
            io.begin_round(false);
            let (slot, desk) = worker.turn(key).unwrap();
            let spent = Spent { open: held_ms * 1_000_000, ..Spent::default() };
            step::<false>(slot, desk, key, spent, &mut io);
            slot.conn.deadline()
        };
        let window = fixture.site.deadlines.send_window_ms;
        let deadline = |held_ms| Tick(BEGIN_MS).after(window + held_ms);
        assert_eq!(turn(reads, 0), deadline(0), "the window begins");
        assert_eq!(turn(reads, 0), deadline(0));
        set_time(HELD_MS);
        turn(opens, HELD_MS);
        assert_eq!(turn(reads, 0), deadline(HELD_MS));
        assert_eq!(turn(reads, 0), deadline(HELD_MS), "once");
        set_time(2 * HELD_MS);
        turn(opens, HELD_MS);
        assert_eq!(turn(reads, 0), deadline(2 * HELD_MS));
    });
    hook::clear();
}

/// A round of turns that wait for the disk may begin in the fraction of a second of the last end.
#[test]
fn the_date_goes_on_while_the_disk_holds_the_loop_up() {
    const BEGIN_MS: u64 = 1_000_000;
    let set_time = |ms: u64, unix: u64| hook::set_time((BEGIN_MS + ms) * 1_000_000, unix);
    set_time(0, 4_000_000_000);
    let fixture = Fixture::new("date", 1);
    let _peer = fixture.connect(0);
    fixture.work(0, &LocalCache::new(&fixture.site.caching, 7), |mut worker, _| {
        worker.offer(0);
        let key = admit(&mut worker, Readiness::new(true, 0));
        let (slot, desk) = worker.turn(key).unwrap();
        set_time(700, 4_000_000_001);
        let begun = desk.begin(slot, true);
        let spent = Spent { open: 700 * 1_000_000, ..Spent::default() };
        desk.end(key, slot, begun, Turn::Parked, &spent, false);
        assert_eq!(desk.now.unix, 4_000_000_001);
    });
    hook::clear();
}

#[test]
fn a_drain_does_not_wait_for_the_end_of_an_accept_pause() {
    let fixture = Fixture::new("pause", 1);
    let _peer = fixture.connect(0);
    fixture.work(0, &LocalCache::new(&fixture.site.caching, 7), |mut worker, _| {
        hook::fail_next_accept(24); // EMFILE
        worker.offer(0);
        let paused = worker.next_action();
        assert!(paused.is_none(), "{paused:?}");
        fixture.arena.control().drain(u64::MAX);
        assert!(matches!(worker.next_action(), Some(Action::Drain)));
        worker.offer_backlog();
        admit(&mut worker, Readiness::new(true, 0));
    });
    hook::clear();
}

/// Two workers accept from one socket, as those of two masters do during a takeover. The first
/// leaves: it serves the backlog of that moment, and the second gets all later connections.
#[test]
fn a_drain_that_leaves_the_listeners_ends_nobody_elses_accepting() {
    let fixture = Fixture::new("leave", 2);
    let cache = LocalCache::new(&fixture.site.caching, 7);
    let (scratch, other_scratch) = (Scratch::new(7), Scratch::new(7));
    let mut leaving = fixture.worker::<Held>(0, 0, &cache, &scratch, RULES);
    let mut staying = fixture.worker::<Held>(1, 0, &cache, &other_scratch, RULES);
    let _before = fixture.connect(0);
    fixture.arena.control().leave(u64::MAX);
    assert!(matches!(leaving.next_action(), Some(Action::Drain)));
    leaving.offer_backlog();
    admit(&mut leaving, None);
    while let Some(action) = leaving.next_action() {
        if let Action::Turn(key) = action {
            turn(&mut leaving, key, fixture.below(), &mut [0; 64]);
        }
    }
    assert!(!leaving.is_listening());
    // Connecting fails if no socket listens.
    let _after = fixture.connect(0);
    staying.offer(0);
    admit(&mut staying, None);
    assert_eq!([0, 1].map(|worker| fixture.get(worker, Counter::AcceptOk)), [1, 1]);
}
