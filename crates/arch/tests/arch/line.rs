//! Pipelines over real sockets and files: connections travel through stages of pollers and threads.
use crate::rig::{ACCEPTS, PATIENCE, TURNS, TestFile, answer, around, ask, at_once, connect};
use regatta_arch::{
    cache::thread_cache::ThreadCache,
    conn::{
        accept::{AcceptRules, Acceptor},
        step::{Io, Leaves, Readiness, TurnRules},
        worker::Worker,
    },
    disk::at_once::InlineDisk,
    drive::perform::Below,
    loops::{
        event_loop::EventLoop,
        line::{
            self, Barrier, Routes, Spread, StageLine, Station,
            poll::{Does, PollStage, Takes},
            threads::{BatchSize, StageThread, Work},
        },
        queue::Fifo,
    },
};
use regatta_metrics::{Arena, Counter, Tally, Totals};
use regatta_op::OpKind;
use regatta_origin::{Deadlines, Scratch, Site};
use regatta_sys::{
    Bell, OpenRules, Root,
    alloc_count::allocations,
    clock,
    socket::{ListenSpec, listen, local_addr},
    wait::{Epoll, Poller, Select, Trigger},
};
use regatta_testkit::{counters::arena, folder::Folder, waits::until};
use std::{
    io::{BufReader, ErrorKind, Read, Write},
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

const FILES: [TestFile; 3] = [
    TestFile { name: "small", bytes: 4096 },
    TestFile { name: "page", bytes: 100 },
    TestFile { name: "large", bytes: 1 << 20 },
];

/// File too long to be kept in memory: its head has a buffer of its own.
const SENT_FROM_FILE: TestFile = TestFile { name: "middle", bytes: 20 << 10 };

/// Stations of a pipeline, and the slots of the stages that take from them.
const READ: usize = 0;
const WRITE_POLL: usize = 1;
const WRITE: usize = 2;
const READERS: usize = 3;
const ACCEPT: usize = 4;
const SLOTS: usize = 5;

#[derive(Clone, Copy, Debug)]
struct Shape {
    acceptors: usize,
    /// Threads that read; 0: the read poller does.
    readers: usize,
    /// Whether readers only parse what the read poller has received.
    parse: bool,
    writers: usize,
    spread: Spread,
    /// Whether the write poller and the writers take turns.
    barrier: bool,
    edge: bool,
}

const WATPIPE4: Shape = Shape {
    acceptors: 1,
    readers: 0,
    parse: false,
    writers: 3,
    spread: Spread::Part,
    barrier: true,
    edge: false,
};
const WATPIPE5: Shape =
    Shape { acceptors: 2, readers: 2, writers: 2, barrier: false, edge: true, ..WATPIPE4 };

const SEDA: Shape = Shape { parse: true, acceptors: 1, ..WATPIPE5 };

impl Shape {
    fn line(self, arena: Arena<'_>) -> StageLine<'_> {
        let tally = |at| Tally::Striped(arena.slot(at));
        let queues = |count| (0..count).map(|_| Fifo::new(100)).collect();
        let parts = if self.spread == Spread::Part { 1 } else { self.writers };
        let stations = vec![
            Station::merged("read", tally(READ)).unwrap(),
            Station::merged("write-poll", tally(WRITE_POLL)).unwrap(),
            Station::queued("write", queues(parts), self.spread, tally(WRITE)),
            Station::queued("reader", queues(self.readers.max(1)), Spread::Part, tally(READERS)),
        ];
        StageLine::new(stations, self.acceptors).unwrap()
    }
}

/// State that the units of a pipeline share.
#[derive(Clone, Copy)]
struct Common<'a> {
    shape: Shape,
    site: &'a Site,
    below: Below<'a>,
    cache: &'a ThreadCache,
    listeners: &'a [OwnedFd],
    arena: Arena<'a>,
    bell: &'a Bell,
    line: &'a StageLine<'a>,
    barrier: &'a Barrier,
    /// Number of allocations of the threads.
    allocated: &'a AtomicU64,
}

impl<'a> Common<'a> {
    const fn rules(leaves: &[OpKind]) -> TurnRules {
        TurnRules { bytes_max: 1 << 20, leaves: Leaves::new(leaves), ..TURNS }
    }

    fn worker<'w>(
        &'w self,
        slot: usize,
        scratch: &'w Scratch<regatta_sys::StaticFile>,
    ) -> Worker<'w, Readiness> {
        let tally = Tally::Striped(self.arena.slot(slot));
        let rules = AcceptRules { eager_read: false, connections_max: 8, ..ACCEPTS };
        let around = around(self.site, self.cache, scratch, tally, self.arena, self.bell);
        Worker::new(Acceptor::new(self.listeners, rules), around)
    }

    fn poll(&self, slot: usize, rules: TurnRules, does: Does<'_>, poller: impl Poller) {
        let scratch = Scratch::new(slot as u128);
        let mut worker = self.worker(slot, &scratch);
        if let Takes::Listeners { home, .. } = does.takes {
            worker = worker.accepts_only(home.into());
        }
        let mut disk = InlineDisk(self.below);
        let stage = PollStage::new(self.line, does);
        EventLoop::new(poller, worker, rules, &mut disk).at_stage(stage).run().unwrap();
        self.allocated.fetch_add(allocations(), Relaxed);
    }

    fn accept(&self, home: u8) {
        let takes = Takes::Listeners { home, to: READ, parts: 2 };
        let routes = Routes::all(0);
        let does = Does { takes, routes, hears: home == 0, barrier: None };
        self.poll(ACCEPT, Self::rules(&[]), does, Epoll::new(Trigger::Level).unwrap());
    }

    fn stage(&self, at: usize, rules: TurnRules, routes: Routes) {
        let barrier = (at == WRITE_POLL && self.shape.barrier).then_some((self.barrier, WRITE));
        let does = Does { takes: Takes::Station(at), routes, hears: false, barrier };
        match self.shape.edge {
            true => self.poll(at, rules, does, Epoll::new(Trigger::Edge).unwrap()),
            false => self.poll(at, rules, does, Select::new()),
        }
    }

    fn read(&self) {
        const ALL: [OpKind; 5] =
            [OpKind::Recv, OpKind::Send, OpKind::Open, OpKind::Read, OpKind::Stat];
        match self.shape.readers {
            0 => self.stage(READ, Self::rules(&[OpKind::Send]), Routes::all(1)),
            _ if self.shape.parse => {
                let leaves = Leaves::new(&ALL[1..]).and(Leaves::PARSE);
                let rules = TurnRules { leaves, ..Self::rules(&[]) };
                self.stage(READ, rules, Routes::all(3).with(OpKind::Send, 1));
            }
            _ => self.stage(READ, Self::rules(&ALL), Routes::all(3).with(OpKind::Send, 1)),
        }
    }

    fn write_poll(&self) {
        let rules = TurnRules { eager_write: false, ..Self::rules(&[OpKind::Send]) };
        self.stage(WRITE_POLL, rules, Routes::all(2));
    }

    fn thread(&self, at: usize, part: usize, rules: TurnRules, routes: Routes) {
        let scratch = Scratch::new((at * 100 + part) as u128);
        let (worker, mut disk) = (self.worker(at, &scratch), InlineDisk(self.below));
        let io = Io::new(&mut disk, rules, &self.site.limits);
        let work = Work {
            at,
            part,
            routes,
            reads_at: READ,
            writes_at: WRITE_POLL,
            again_at: if at == WRITE { WRITE_POLL } else { at },
            batch: BatchSize::Most(2),
            order: |_| {},
            barrier: (at == WRITE && self.shape.barrier).then_some(self.barrier),
        };
        StageThread::new(worker, io, self.line, work).run();
        self.allocated.fetch_add(allocations(), Relaxed);
    }
}

/// Serves while `client` runs. Returns the totals of each slot, and the number of allocations.
fn serve(
    shape: Shape,
    client: impl FnOnce(&[SocketAddr], Arena<'_>, &Bell) + Send,
) -> (Vec<Totals>, u64) {
    let folder = Folder::new("line");
    FILES.into_iter().chain([SENT_FROM_FILE]).for_each(|file| file.write(&folder));
    let (arena, bell) = (arena(SLOTS), Bell::new().unwrap());
    let root = Root::open(&folder).unwrap();
    let mut site = Site { seed: 7, ..Site::default() };
    site.deadlines = Deadlines { idle_ms_max: 120_000, ..site.deadlines };
    site.caching.body_bytes_max = 8 << 10;
    let cache = ThreadCache::new(&site.caching, 7);
    let spec = ListenSpec {
        send_buffer_bytes: 64 << 10,
        ..ListenSpec::new("127.0.0.1:0".parse().unwrap())
    };
    let listeners: Vec<_> = (0..shape.acceptors).map(|_| listen(&spec).unwrap()).collect();
    let addresses: Vec<_> = listeners.iter().map(|fd| local_addr(fd.as_fd()).unwrap()).collect();
    let line = shape.line(arena);
    let common = Common {
        shape,
        site: &site,
        below: Below { root: &root, rules: OpenRules::default() },
        cache: &cache,
        listeners: &listeners,
        arena,
        bell: &bell,
        line: &line,
        barrier: &Barrier::default(),
        allocated: &AtomicU64::new(0),
    };
    thread::scope(|scope| {
        let common = &common;
        for home in 0..shape.acceptors {
            scope.spawn(move || common.accept(u8::try_from(home).unwrap()));
        }
        scope.spawn(|| common.read());
        scope.spawn(|| common.write_poll());
        for part in 0..shape.writers {
            let rules = Common::rules(&[OpKind::Recv, OpKind::Open, OpKind::Read, OpKind::Stat]);
            scope.spawn(move || common.thread(WRITE, part, rules, Routes::all(0)));
        }
        for part in 0..shape.readers {
            // Readers that only parse leave receiving to the poller.
            let leaves = [OpKind::Send, OpKind::Recv];
            let rules = Common::rules(&leaves[..1 + usize::from(shape.parse)]);
            let routes = Routes::all(1).with(OpKind::Recv, 0);
            scope.spawn(move || common.thread(READERS, part, rules, routes));
        }
        let client = scope.spawn(|| client(&addresses, arena, &bell));
        let failed = client.join().is_err();
        if arena.control().phase() == regatta_metrics::Phase::Run || failed {
            arena.control().stop();
        }
        bell.ring();
        assert!(!failed, "the client failed");
    });
    let scratch = Scratch::new(1000);
    line::end(&line, &mut common.worker(ACCEPT, &scratch));
    let slots: Vec<_> = arena.view().slots().map(|slot| Totals::from_slots([slot])).collect();
    let all = Totals::from_slots(arena.view().slots());
    let get = |counter| all.get(counter);
    assert_eq!(get(Counter::ConnectionsOpened), get(Counter::ConnectionsClosed));
    assert_eq!(get(Counter::AcceptOk), get(Counter::ConnectionsOpened));
    assert_eq!(get(Counter::Requests), get(Counter::Replies) + get(Counter::RepliesCut));
    (slots, common.allocated.load(Relaxed))
}

/// Peers ask for one file after another, for several at once, and for more than fits their sockets.
/// They get the right bytes, and each stage does its part and no other.
#[test]
fn stages_do_their_part() {
    for shape in [
        // A poller that reads, and writers that take turns with another.
        WATPIPE4,
        // Readers and writers behind pollers.
        WATPIPE5,
        Shape { edge: false, acceptors: 1, ..WATPIPE5 },
        // Writers with queues of their own.
        Shape { spread: Spread::Turns, ..WATPIPE5 },
        Shape { spread: Spread::Equal, ..WATPIPE4 },
    ] {
        println!("{shape:?}");
        does_its_part(shape);
    }
}

fn does_its_part(shape: Shape) {
    let [small, page, large] = FILES;
    let (slots, _) = serve(shape, |addresses, _, _| {
        at_once(6, |number| {
            let mut peer = BufReader::new(connect(addresses[number % addresses.len()]));
            for round in 0..30 {
                ask(peer.get_mut(), &["small"]);
                answer(&mut peer, small);
                ask(peer.get_mut(), &["page", "small", "page"]);
                [page, small, page].into_iter().for_each(|file| answer(&mut peer, file));
                if round % 10 == number {
                    ask(peer.get_mut(), &["large", "page"]);
                    thread::sleep(Duration::from_millis(30));
                    answer(&mut peer, large);
                    answer(&mut peer, page);
                }
            }
            let closing = b"GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            peer.get_mut().write_all(closing).unwrap();
            let mut rest = Vec::new();
            peer.read_to_end(&mut rest).unwrap();
            assert!(rest.ends_with(&page.body()));
        });
    });
    let at = |slot: usize, counter| slots[slot].get(counter);
    let sum = |of: &[usize], counter| of.iter().map(|slot| at(*slot, counter)).sum::<u64>();
    let requests = 6 * (30 * 4 + 3 * 2 + 1);
    assert_eq!(sum(&[READ, READERS], Counter::Requests), requests);
    assert_eq!(sum(&[READ, WRITE_POLL, READERS], Counter::SendCalls), 0);
    assert_eq!(sum(&[READ, WRITE_POLL, READERS], Counter::SendfileCalls), 0);
    assert_eq!(sum(&[WRITE, WRITE_POLL, ACCEPT], Counter::RecvCalls), 0);
    assert_eq!(sum(&[READ, WRITE, WRITE_POLL, READERS], Counter::AcceptCalls), 0);
    let reads = if shape.readers > 0 { READERS } else { READ };
    assert!(at(reads, Counter::RecvCalls) > 0);
    assert_eq!(at(if reads == READ { READERS } else { READ }, Counter::RecvCalls), 0);
    assert!(at(WRITE, Counter::SendCalls) >= requests - 18);
    assert!(at(WRITE, Counter::SendfileWouldBlock) > 0, "a large file does not fit");
    assert!(at(WRITE, Counter::QueueTakes) >= requests);
    assert_eq!(at(WRITE, Counter::QueueTakes), at(WRITE, Counter::QueuePuts));
    assert_eq!(at(WRITE_POLL, Counter::BarrierBatches) > 0, shape.barrier);
    assert!(at(READ, Counter::Merges) > 0 && at(WRITE_POLL, Counter::Merges) > 0);
    assert_eq!(sum(&[0, 1, 2, 3, 4], Counter::Replies), requests);
}

/// A hit costs no memory in any stage: a thousand more do not either.
#[test]
fn a_hit_on_its_way_allocates_nothing() {
    for (shape, file) in [
        (WATPIPE4, FILES[0]),
        (WATPIPE4, SENT_FROM_FILE),
        (WATPIPE5, FILES[0]),
        // Buffers of heads are reused, although one thread completes and another encodes.
        (WATPIPE5, SENT_FROM_FILE),
        // So are those of requests that one thread receives and another parses.
        (SEDA, FILES[0]),
        (SEDA, SENT_FROM_FILE),
    ] {
        let allocated = |requests: usize| {
            let (_, allocated) = serve(shape, |addresses, _, _| {
                let mut peer = BufReader::new(connect(addresses[0]));
                for _ in 0..requests {
                    ask(peer.get_mut(), &[file.name]);
                    answer(&mut peer, file);
                }
            });
            allocated
        };
        let (few, many) = (allocated(200), allocated(1200));
        let what = format!("{}, {} readers, {}", file.name, shape.readers, shape.parse);
        assert!(many < few + 300, "{what}: {few} allocations for 200 requests, {many} for 1200");
    }
}

/// A draining pipeline closes idle connections at once, finishes the others, and ends.
#[test]
fn a_pipeline_drains() {
    let large = FILES[2];
    for shape in [WATPIPE4, WATPIPE5] {
        serve(shape, |addresses, arena, bell| {
            let mut idle: Vec<_> = addresses.iter().map(|address| connect(*address)).collect();
            idle.iter_mut().for_each(|peer| ask(peer, &["page"]));
            idle.iter_mut().for_each(|peer| answer(peer, FILES[1]));
            let mut busy = connect(addresses[0]);
            ask(&mut busy, &["large"]);
            let sends = || arena.slot(WRITE).get(Counter::SendfileWouldBlock);
            until(PATIENCE, "the response does not fit the socket", || sends() > 0);
            arena.control().drain(clock::now().tick.0 + 60_000);
            // One of the accepting threads receives it, and informs the others.
            bell.ring();
            let reader = thread::spawn(move || {
                thread::sleep(Duration::from_millis(50));
                answer(&mut busy, large);
                let mut rest = Vec::new();
                busy.read_to_end(&mut rest).unwrap();
            });
            for peer in &mut idle {
                let ended = peer.read(&mut [0; 1]).map_err(|error| error.kind());
                assert!(matches!(ended, Ok(0) | Err(ErrorKind::ConnectionReset)), "{ended:?}");
            }
            reader.join().unwrap();
        });
    }
}
