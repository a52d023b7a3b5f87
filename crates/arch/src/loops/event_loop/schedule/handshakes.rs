//! Rounds with more sealed connections than may shake hands in one: how many do, in which order,
//! and what does not wait for them.
use super::{
    lives::{REQUEST, connect, fiber_rules, receive_all, run_alone},
    poller::forwards,
    single::{Single, accepts_all},
    *,
};
use crate::{
    conn::{
        serve::{Blocking, Means, Served, Until, converse, next},
        step::{Io, Left, Readiness},
    },
    drive::perform,
    loops::{
        fibers::FiberRules,
        line::{
            self, Routes, Spread, StageJob, StageLine, Station,
            threads::{BatchSize, StageThread, Work},
        },
        queue::Fifo,
    },
};
use regatta_metrics::{Control, Counter, Slot};
use regatta_op::{CloseReason, Op};
use regatta_origin::{Handshake, Progress, SealFault};
use regatta_sys::wait::{Event, Interest};
use regatta_testkit::skips::skip;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs, hint,
    io::{Read as _, Write as _},
    mem,
    os::{fd::BorrowedFd, unix::net::UnixStream},
    ptr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize},
    },
    time::Duration,
};

/// Sealed connections that are ready at once.
const MANY: usize = 100;
/// The most rounds of a test.
const ROUNDS_MAX: usize = 100;
/// Bytes of the stack that some handshakes take.
const DEEP_BYTES: usize = 96 << 10;
/// Longer than the deadline of a handshake in [`super::site`], nanoseconds.
const LATE_NS: u64 = 6_000_000_000;
/// Longer than a drain waits for the first bytes of a client there, nanoseconds; a handshake has
/// ten times as long.
const DRAIN_NS: u64 = 500_000_000;

/// The present round, and turns in which handshakes continued.
#[derive(Debug, Default)]
struct Record {
    round: AtomicU64,
    /// Round, and number of the connection.
    turns: Mutex<Vec<(u64, u64)>>,
    /// Whether handshakes take much of the stack.
    goes_deep: AtomicBool,
    /// Bytes of the stack that were in memory in a handshake, and when a response was sealed.
    deep: AtomicUsize,
    sealed: AtomicUsize,
}

impl Record {
    fn turns(&self) -> Vec<(u64, u64)> {
        self.turns.lock().unwrap().clone()
    }
}

/// A seal that records its handshake.
#[derive(Debug)]
struct Recorded {
    toy: Toy,
    number: u64,
    record: Arc<Record>,
}

impl Seal for Recorded {
    fn open(
        &mut self,
        wire: &mut [u8],
        plain: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Result<usize, SealFault> {
        if self.toy.progress() == Progress::Handshaking {
            let turn = (self.record.round.load(Relaxed), self.number);
            let mut turns = self.record.turns.lock().unwrap();
            if turns.last() != Some(&turn) {
                turns.push(turn);
            }
            if self.record.goes_deep.load(Relaxed) {
                self.record.deep.store(go_deep(), Relaxed);
            }
        }
        self.toy.open(wire, plain, reply)
    }

    fn reply_may_wait(&self) -> bool {
        self.toy.reply_may_wait()
    }

    fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), SealFault> {
        if self.record.goes_deep.load(Relaxed) {
            self.record.sealed.store(stack_bytes(), Relaxed);
        }
        self.toy.seal(plain, wire)
    }

    fn progress(&self) -> Progress {
        self.toy.progress()
    }

    fn handshake(&self) -> Option<Handshake> {
        self.toy.handshake()
    }

    fn agreed(&self) -> &[u8] {
        self.toy.agreed()
    }

    fn server_name(&self) -> Option<&[u8]> {
        self.toy.server_name()
    }

    fn client_subject(&self) -> Option<&[u8]> {
        self.toy.client_subject()
    }

    fn close(&mut self, wire: &mut Vec<u8>) {
        self.toy.close(wire);
    }
}

/// Uses as much of the stack as a handshake may. Returns how much of it is in memory then.
#[inline(never)]
fn go_deep() -> usize {
    let mut deep = [1_u8; DEEP_BYTES];
    hint::black_box(&mut deep);
    stack_bytes()
}

/// Bytes of the present stack that are in memory; 0 if the system does not say.
#[inline(never)]
fn stack_bytes() -> usize {
    let local = 0_u8;
    let here = ptr::from_ref(hint::black_box(&local)).addr();
    let text = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let mut is_here = false;
    for line in text.lines() {
        let first = line.split(' ').next().unwrap_or_default();
        let ends = first.split_once('-').map(|(low, high)| {
            [low, high].map(|end| usize::from_str_radix(end, 16).unwrap_or_default())
        });
        if let Some([low, high]) = ends {
            is_here = (low..high).contains(&here);
        } else if is_here && first == "Rss:" {
            let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok());
            return kib.unwrap_or_default() << 10;
        }
    }
    0
}

/// Checks that the stack of a handshake was released before a response was sealed.
fn check_stack(record: &Record) {
    let [deep, sealed] = [&record.deep, &record.sealed].map(|bytes| bytes.load(Relaxed));
    if deep == 0 {
        return skip("needs /proc/self/smaps");
    }
    assert!(sealed > 0 && sealed + DEEP_BYTES / 2 <= deep, "{sealed} of {deep} bytes");
}

/// Seals connections of one class, and numbers them in the order in which they are accepted.
struct Seals {
    record: Arc<Record>,
    next: AtomicU64,
}

impl Links<StaticFile> for Seals {
    fn seal(&self, class: ListenerClass) -> Option<Box<dyn Seal>> {
        if class != SEALED {
            return None;
        }
        let number = self.next.fetch_add(1, Relaxed);
        let record = Arc::clone(&self.record);
        Some(Box::new(Recorded { toy: Toy::server(number), number, record }))
    }
}

/// A poller that does not wait, and records how long it should have.
#[derive(Debug)]
struct Restless {
    poller: Epoll,
    timeout: Duration,
}

impl Poller for Restless {
    forwards!(poller);

    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<usize> {
        self.timeout = timeout.unwrap_or(Duration::MAX);
        self.poller.wait(events, Some(Duration::ZERO))
    }
}

/// A client of the sealed listener.
struct Client {
    socket: UnixStream,
    toy: Toy,
    inbox: Vec<u8>,
    plain: Vec<u8>,
}

impl Client {
    /// Connects, and says hello.
    fn new(address: &SocketAddr, number: u64) -> Self {
        let mut wire = Vec::new();
        let toy = Toy::client(number, &mut wire);
        let mut socket = connect(address);
        socket.write_all(&wire).unwrap();
        Self { socket, toy, inbox: Vec::new(), plain: Vec::new() }
    }

    /// Takes what has come, and answers to it. The server may have closed the connection.
    fn stir(&mut self) {
        let (mut piece, mut reply) = ([0; 4096], Vec::new());
        while let Ok(n @ 1..) = self.socket.read(&mut piece) {
            self.inbox.extend_from_slice(&piece[..n]);
        }
        self.toy.open_all(&mut self.inbox, &mut self.plain, &mut reply).unwrap();
        if !reply.is_empty() {
            self.socket.write_all(&reply).unwrap();
        }
    }

    /// True if it has sent all of its handshake.
    fn is_open(&self) -> bool {
        self.toy.progress() == Progress::Open
    }

    fn send(&mut self, plain: &[u8]) {
        let mut wire = Vec::new();
        self.toy.seal(plain, &mut wire).unwrap();
        self.socket.write_all(&wire).unwrap();
    }
}

/// A loop whose rounds the test runs. The first address is in the clear, the second is sealed.
struct Scene<'l, 'a> {
    event_loop: &'l mut EventLoop<'a, Restless>,
    events: Vec<Event>,
    addresses: &'l [SocketAddr],
    record: &'l Record,
    slot: Slot<'a>,
    control: Control<'a>,
}

impl Scene<'_, '_> {
    /// Runs a round, which is not to wait before it if there are handshakes.
    fn round(&mut self) {
        let must_hurry = !self.event_loop.handshakes.is_empty();
        self.record.round.fetch_add(1, Relaxed);
        self.event_loop.round(&mut self.events).unwrap();
        let timeout = self.event_loop.poller.timeout;
        assert!(!must_hurry || timeout.is_zero(), "it sleeps for {timeout:?}");
    }

    fn clients(&self, count: u64) -> Vec<Client> {
        (0..count).map(|number| Client::new(&self.addresses[1], number)).collect()
    }

    /// Runs rounds until this many turns have continued handshakes. Clients answer between them.
    fn shake(&mut self, clients: &mut [Client], turns: usize) {
        let mut rounds = 0;
        while self.record.turns().len() < turns {
            assert!(rounds < ROUNDS_MAX, "{:?}", self.record.turns());
            rounds += 1;
            self.round();
            clients.iter_mut().for_each(Client::stir);
        }
    }

    fn sent(&self) -> u64 {
        self.slot.get(Counter::SendBytes) + self.slot.get(Counter::SendfileBytes)
    }
}

/// Surroundings of a worker of a test.
struct Around<'a, S> {
    below: Below<'a>,
    addresses: &'a [SocketAddr],
    record: &'a Record,
    arena: Arena<'a>,
    /// Makes a worker without listeners.
    spare: &'a dyn Fn() -> Worker<'a, S>,
}

/// Rules of most tests, which accept and receive at once.
fn eager() -> AcceptRules {
    AcceptRules { eager_read: true, ..accepts_all(200) }
}

/// Runs a test with a worker that accepts by these rules, and whose second listener has sealed
/// connections.
fn with_worker<S>(accepts: AcceptRules, test: impl FnOnce(Worker<'_, S>, Around<'_, S>)) {
    hook::set_time(BEGIN_NS, UNIX);
    let (folder, mut site) = (Folder::new(), site(&mut Dice::new(1), false));
    site.limits.head_bytes_max = 16 << 10;
    let (listeners, addresses) = listen(2);
    let single = Single::new(site);
    let arena = single.arena();
    let record = Arc::new(Record::default());
    let links = Seals { record: Arc::clone(&record), next: AtomicU64::new(0) };
    let mut acceptor = Acceptor::new(&listeners, accepts);
    acceptor.classes = &[ListenerClass::CLEAR, SEALED];
    let worker = Worker::new(acceptor, single.around(arena, &links));
    let spare = || Worker::new(Acceptor::new(&[], accepts), single.around(arena, &links));
    let below = Below { root: &folder.root, rules: OpenRules::default() };
    let (addresses, record, spare) = (&addresses, &record, &spare);
    test(worker, Around { below, addresses, record, arena, spare });
    hook::clear();
}

/// Runs a test with a loop that accepts by these rules, and may serve by stages. Its rounds may
/// have this many handshakes, and its turns this many bytes.
fn on_loop(
    accepts: AcceptRules,
    handshakes_per_round: u32,
    bytes_max: u64,
    stages: bool,
    test: impl FnOnce(Scene<'_, '_>),
) {
    with_worker(accepts, |worker, Around { below, addresses, record, arena, .. }| {
        let (_, rules) = strategy(0, &mut Dice::new(1));
        let rules =
            TurnRules { bytes_max, ops_max: 64, handshakes_per_round, eager_write: true, ..rules };
        let mut disk = InlineDisk(below);
        let poller = Epoll::new(Trigger::Edge).unwrap();
        let poller = Restless { poller, timeout: Duration::ZERO };
        let mut event_loop = EventLoop::new(poller, worker, rules, &mut disk);
        if stages {
            event_loop = event_loop.by_stages(Visits { order: CohortOrder::Forward, most: 0 });
        }
        event_loop.watch_own().unwrap();
        let (events, slot, control) = (Vec::new(), arena.slot(0), arena.control());
        test(Scene { event_loop: &mut event_loop, events, addresses, record, slot, control });
    });
}

/// Checks that no round had more turns than this, and that the connections began in their order.
fn check_turns(turns: &[(u64, u64)], most: usize) {
    let mut rounds = BTreeMap::new();
    for (round, _) in turns {
        *rounds.entry(round).or_insert(0) += 1;
    }
    assert!(rounds.values().all(|turns| *turns <= most), "{rounds:?}");
    // One may have its second turn before others have their first.
    let mut known = BTreeSet::new();
    let first = turns.iter().map(|(_, number)| *number).filter(|number| known.insert(*number));
    assert!(first.eq(0..MANY as u64), "{turns:?}");
}

/// All hellos are there at once. Each round takes eight, in their order, and the loop does not
/// sleep between them. A client in the clear is answered in every round.
#[test]
fn a_round_shakes_few_hands_and_serves_what_is_in_the_clear() {
    on_loop(eager(), 8, 2 << 20, false, |mut scene| {
        let mut clear = connect(&scene.addresses[0]);
        let mut clients = scene.clients(MANY as u64);
        let (all, mut rounds) = (2 * MANY, 0);
        while scene.record.turns().len() < all {
            assert!(rounds < ROUNDS_MAX, "{:?}", scene.record.turns());
            rounds += 1;
            clear.write_all(REQUEST).unwrap();
            scene.round();
            assert_eq!(receive_all(&mut clear), Ok((1, false)), "round {rounds}");
            clients.iter_mut().for_each(Client::stir);
        }
        assert_eq!(rounds, all.div_ceil(8), "each round takes as many as it may");
        check_turns(&scene.record.turns(), 8);
        scene.round();
        assert!(!scene.event_loop.poller.timeout.is_zero(), "nothing waits any more");
    });
}

#[test]
fn a_loop_of_stages_shakes_few_hands_where_it_parses() {
    on_loop(eager(), 8, 2 << 20, true, |mut scene| {
        let mut clients = scene.clients(MANY as u64);
        scene.shake(&mut clients, 2 * MANY);
        check_turns(&scene.record.turns(), 8);
    });
}

/// User threads that have to wait do so in their order, and no poll point has more than eight.
#[test]
fn user_threads_shake_few_hands_between_two_poll_points() {
    for poller_retries in [false, true] {
        with_worker(eager(), |worker, Around { below, addresses, record, arena, .. }| {
            let each = |number| Client::new(&addresses[1], number);
            let mut clients: Vec<Client> = (0..MANY as u64).map(each).collect();
            let acts = |_| {
                let rounds = record.round.fetch_add(1, Relaxed);
                clients.iter_mut().for_each(Client::stir);
                if record.turns().len() == 2 * MANY || rounds > ROUNDS_MAX as u64 {
                    arena.control().stop();
                }
            };
            run_alone(worker, fiber_rules(below, poller_retries), acts);
            assert_eq!(record.turns().len(), 2 * MANY);
            check_turns(&record.turns(), 8);
        });
    }
}

/// A connection that has been accepted, and its hello, which is not parsed.
fn received(worker: &mut Worker<'_, Readiness>) -> StageJob {
    let held_ms = worker.held_ms();
    let accepted = worker.accept(1, 0).unwrap();
    let key = worker.admit(accepted, Readiness::new(false, held_ms));
    let (slot, desk) = worker.turn(key).unwrap();
    assert!(matches!(slot.conn.next_op(), Some(Op::Recv)));
    let mut bytes = vec![0; 4096];
    let n = perform::recv(&slot.socket, &mut bytes, desk.around.cx.tally).unwrap();
    bytes.truncate(n);
    let (passed, mut drive) = worker.pass(key).unwrap();
    drive.moves(held_ms);
    StageJob { passed, drive, left: Some(Left::Received(bytes)), entered: 0 }
}

/// A thread of a stage that has taken all connections at once leaves most of them in its queue.
#[test]
fn a_thread_of_a_stage_shakes_few_hands_in_a_batch() {
    with_worker(eager(), |mut worker, Around { below, addresses, record, arena, spare }| {
        let each = |number| Client::new(&addresses[1], number);
        let _clients: Vec<Client> = (0..MANY as u64).map(each).collect();
        let tally = Tally::Striped(arena.slot(0));
        let parse = vec![Fifo::new(MANY)];
        let stations = vec![
            Station::merged("read", tally).unwrap(),
            Station::queued("parse", parse, Spread::Part, tally),
        ];
        let line: StageLine<'_> = StageLine::new(stations, 1).unwrap();
        let mut jobs: VecDeque<StageJob> = (0..MANY).map(|_| received(&mut worker)).collect();
        line.put_all(1, &mut jobs);
        let (_, rules) = strategy(0, &mut Dice::new(1));
        let rules = TurnRules { ops_max: 64, handshakes_per_round: 8, eager_write: true, ..rules };
        let mut disk = InlineDisk(below);
        let io = Io::new(&mut disk, rules, &worker.around().cx.site.limits);
        let work = Work {
            at: 1,
            part: 0,
            routes: Routes::all(0),
            reads_at: 0,
            writes_at: 0,
            again_at: 1,
            batch: BatchSize::Most(usize::MAX),
            order: |_| {},
            barrier: None,
        };
        let mut thread = StageThread::new(worker, io, &line, work);
        while line.len(1) > 0 {
            record.round.fetch_add(1, Relaxed);
            assert!(thread.visit(Duration::ZERO));
        }
        assert_eq!(record.turns().len(), MANY);
        check_turns(&record.turns(), 8);
        drop(thread);
        line.close();
        line::end(&line, &mut spare());
    });
}

/// Connections that wait for their turn have no more time than others to shake hands.
#[test]
fn a_connection_that_waits_to_shake_hands_expires() {
    const CLIENTS: u64 = 20;
    for stages in [false, true] {
        on_loop(eager(), 1, 2 << 20, stages, |mut scene| {
            let _clients = scene.clients(CLIENTS);
            (0..5).for_each(|_| scene.round());
            assert_eq!(scene.record.turns().len(), 5);
            assert_eq!(scene.event_loop.handshakes.len(), 15);
            hook::set_time(BEGIN_NS + LATE_NS, UNIX);
            // A round meets no more than a few deadlines.
            (0..4).for_each(|_| scene.round());
            assert_eq!(scene.slot.get(Counter::ClosedHandshakeDeadline), CLIENTS);
            assert_eq!(scene.slot.get(Counter::ConnectionsClosed), CLIENTS);
            assert!(scene.event_loop.handshakes.is_empty());
            assert!(scene.record.turns().len() <= 7, "{:?}", scene.record.turns());
        });
    }
}

/// In a drain, a client that says nothing has its time. One that has said hello is not late while
/// its handshake waits for the others: it is answered.
#[test]
fn a_drain_ends_no_connection_whose_handshake_waits() {
    const CLIENTS: usize = 20;
    for stages in [false, true] {
        on_loop(eager(), 1, 2 << 20, stages, |mut scene| {
            let mut clients = scene.clients(CLIENTS as u64);
            let mut silent = connect(&scene.addresses[1]);
            scene.round();
            scene.control.drain(u64::MAX);
            scene.round();
            hook::set_time(BEGIN_NS + DRAIN_NS, UNIX);
            // A round meets no more than a few deadlines.
            (0..3).for_each(|_| scene.round());
            assert_eq!(scene.slot.get(Counter::ClosedDrained), 1);
            assert_eq!(scene.slot.get(Counter::ConnectionsClosed), 1, "all others are open");
            assert_eq!(silent.read(&mut [0]).unwrap(), 0);
            assert_eq!(scene.event_loop.handshakes.len(), CLIENTS - scene.record.turns().len());
            scene.shake(&mut clients, 2 * CLIENTS);
            clients.iter_mut().for_each(|client| client.send(REQUEST));
            let mut rounds = 0;
            while clients.iter().any(|client| client.plain.is_empty()) {
                assert!(rounds < ROUNDS_MAX, "some are not answered");
                rounds += 1;
                scene.round();
                clients.iter_mut().for_each(Client::stir);
            }
            assert!(clients.iter().all(|client| client.plain.starts_with(b"HTTP/1.1 200 ")));
        });
    }
}

#[test]
fn a_drain_ends_no_user_thread_whose_handshake_waits() {
    const CLIENTS: usize = 20;
    for poller_retries in [false, true] {
        with_worker(eager(), |worker, Around { below, addresses, record, arena, .. }| {
            let each = |number| Client::new(&addresses[1], number);
            let mut clients: Vec<Client> = (0..CLIENTS as u64).map(each).collect();
            let _silent = connect(&addresses[1]);
            let (mut asked, mut closed) = ([false; CLIENTS], None);
            let acts = |_| {
                let round = record.round.fetch_add(1, Relaxed);
                for (client, asked) in clients.iter_mut().zip(&mut asked) {
                    client.stir();
                    if client.is_open() && !mem::replace(asked, true) {
                        client.send(REQUEST);
                    }
                }
                match round {
                    2 => arena.control().drain(u64::MAX),
                    4 => hook::set_time(BEGIN_NS + DRAIN_NS, UNIX),
                    10 => {
                        let answered = clients.iter().filter(|client| !client.plain.is_empty());
                        let drained = arena.slot(0).get(Counter::ClosedDrained);
                        closed = drained.checked_sub(answered.count() as u64);
                    }
                    _ => {}
                }
                let are_answered = clients.iter().all(|client| !client.plain.is_empty());
                if are_answered || round > ROUNDS_MAX as u64 {
                    arena.control().stop();
                }
            };
            let rules = fiber_rules(below, poller_retries);
            run_alone(worker, FiberRules { handshakes_per_round: 1, ..rules }, acts);
            assert_eq!(closed, Some(1), "the one that says nothing");
            assert!(clients.iter().all(|client| client.plain.starts_with(b"HTTP/1.1 200 ")));
        });
    }
}

#[test]
fn a_connection_that_is_closed_leaves_the_queue() {
    for stages in [false, true] {
        on_loop(eager(), 1, 2 << 20, stages, |mut scene| {
            let mut clients = scene.clients(5);
            scene.round();
            let keys = scene.event_loop.handshakes.keys();
            assert_eq!(keys.len(), 4);
            // The first has had its turn.
            scene.event_loop.close(keys[1], CloseReason::Failed);
            assert_eq!(scene.event_loop.handshakes.keys(), [keys[0], keys[2], keys[3]]);
            scene.shake(&mut clients, 8);
            let turns = scene.record.turns();
            assert!(turns.iter().all(|(_, number)| *number != 2), "{turns:?}");
            assert_eq!(scene.slot.get(Counter::ConnectionsClosed), 1);
        });
    }
}

/// Held connections are not closed for another, and do not hide one that is idle: an accept checks
/// only a few.
#[test]
fn a_connection_that_waits_to_shake_hands_is_not_idle() {
    const CLIENTS: usize = 10;
    let accepts = AcceptRules { when_full: WhenFull::CloseIdle, ..accepts_all(CLIENTS + 1) };
    on_loop(AcceptRules { eager_read: false, ..accepts }, 1, 2 << 20, false, |mut scene| {
        let each = |_| connect(&scene.addresses[1]);
        let mut sockets: Vec<UnixStream> = (0..=CLIENTS).map(each).collect();
        scene.round();
        assert_eq!(scene.slot.get(Counter::ConnectionsOpened), CLIENTS as u64 + 1);
        for (socket, number) in sockets.iter_mut().zip(0..CLIENTS as u64) {
            let mut wire = Vec::new();
            let _says_no_more = Toy::client(number, &mut wire);
            socket.write_all(&wire).unwrap();
        }
        scene.round();
        assert_eq!(scene.event_loop.handshakes.len(), CLIENTS - 1);
        let _other = connect(&scene.addresses[1]);
        scene.round();
        assert_eq!(scene.slot.get(Counter::ClosedDisplaced), 1);
        assert_eq!(sockets[CLIENTS].read(&mut [0]).unwrap(), 0, "the last one said nothing");
    });
}

/// RFC 8446 §6.1: the alert that closes comes before the end of the stream.
#[test]
fn a_connection_that_makes_room_for_another_closes_its_seal() {
    let accepts = AcceptRules { when_full: WhenFull::CloseIdle, ..accepts_all(2) };
    on_loop(AcceptRules { eager_read: false, ..accepts }, 8, 2 << 20, false, |mut scene| {
        let mut clients = scene.clients(2);
        scene.shake(&mut clients, 4);
        // The pause of a worker that found itself full is over.
        hook::set_time(BEGIN_NS + 1_000_000_000, UNIX);
        let _other = connect(&scene.addresses[1]);
        (0..3).for_each(|_| scene.round());
        assert_eq!(scene.slot.get(Counter::ClosedDisplaced), 1);
        clients.iter_mut().for_each(Client::stir);
        let told = |client: &&Client| client.toy.progress() == Progress::PeerClosed;
        assert_eq!(clients.iter().filter(told).count(), 1);
    });
}

/// To seal takes the processor's time, so a turn sends a fourth of the bytes.
#[test]
fn a_sealed_turn_sends_less() {
    const BYTES_MAX: u64 = 64 << 10;
    let requests = b"GET /f HTTP/1.1\r\nHost: a\r\n\r\n".repeat(6);
    on_loop(eager(), 8, BYTES_MAX, false, |mut scene| {
        let mut clear = connect(&scene.addresses[0]);
        clear.write_all(&requests).unwrap();
        scene.round();
        let sent = scene.sent();
        assert!((BYTES_MAX..2 * BYTES_MAX).contains(&sent), "{sent} bytes");
    });
    on_loop(eager(), 8, BYTES_MAX, false, |mut scene| {
        let mut clients = scene.clients(1);
        scene.shake(&mut clients, 2);
        let before = scene.sent();
        clients[0].send(&requests);
        scene.round();
        let sent = scene.sent() - before;
        // A response is sealed as a whole.
        assert!((BYTES_MAX / 4..BYTES_MAX / 4 + 30_000).contains(&sent), "{sent} bytes");
    });
}

/// The client asks some rounds after its last message of the handshake: the user thread has waited
/// since.
#[test]
fn a_user_thread_releases_its_stack_after_the_handshake() {
    with_worker(eager(), |worker, Around { below, addresses, record, arena, .. }| {
        record.goes_deep.store(true, Relaxed);
        let (mut client, mut shaken) = (Client::new(&addresses[1], 1), None);
        let acts = |_| {
            let round = record.round.fetch_add(1, Relaxed);
            client.stir();
            if client.is_open() && round == *shaken.get_or_insert(round) + 3 {
                client.send(REQUEST);
            }
            if !client.plain.is_empty() || round > ROUNDS_MAX as u64 {
                arena.control().stop();
            }
        };
        run_alone(worker, fiber_rules(below, false), acts);
        check_stack(record);
    });
}

/// A client that asks when the thread has found nothing to receive after the handshake.
fn asks_later(address: &SocketAddr, arena: Arena<'_>) {
    let found_nothing = || arena.slot(0).get(Counter::RecvWouldBlock);
    let mut client = Client::new(address, 1);
    while !client.is_open() {
        client.stir();
        thread::yield_now();
    }
    // One read may have begun before.
    let before = found_nothing();
    while found_nothing() < before + 2 {
        thread::yield_now();
    }
    client.send(REQUEST);
    while client.plain.is_empty() {
        client.stir();
        thread::yield_now();
    }
}

/// A client that leaves when it has said hello.
fn leaves(address: &SocketAddr, _: Arena<'_>) {
    drop(Client::new(address, 1));
}

/// Runs a thread that serves one connection, and checks that it releases its stack.
fn check_thread(name: &str, client: fn(&SocketAddr, Arena<'_>)) {
    let life = move || {
        with_worker(eager(), |mut worker, Around { below, addresses, record, arena, .. }| {
            record.goes_deep.store(true, Relaxed);
            let (mut disk, step) = (InlineDisk(below), Duration::from_millis(20));
            let buffer = vec![0; 16 << 10].into();
            let (bytes_max, listener, beat) = (u64::MAX, 1, None);
            let mut means = Means { disk: &mut disk, buffer, bytes_max, listener, beat };
            thread::scope(|scope| {
                scope.spawn(|| client(&addresses[1], arena));
                let accepted = next(&mut worker, step, &mut means).unwrap();
                let key = worker.admit(accepted, Blocking::new(step));
                let served = converse(&mut worker, key, step, &mut means, Until::Closed);
                assert_eq!(served, Served::Closed);
            });
            // Of a handshake that has failed, the end counts.
            let _ = record.sealed.compare_exchange(0, stack_bytes(), Relaxed, Relaxed);
            check_stack(record);
        });
    };
    // The stack of the first thread is never released.
    let thread = thread::Builder::new().name(name.to_owned()).stack_size(1 << 20).spawn(life);
    thread.unwrap().join().unwrap();
}

#[test]
fn a_thread_releases_its_stack_after_the_handshake_also_if_that_failed() {
    check_thread("asks later", asks_later);
    check_thread("leaves", leaves);
}
