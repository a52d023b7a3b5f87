//! A pipeline in the place of an event loop: its stages have rounds of their own, in any order,
//! before each wait of the one that accepts. All their pollers are one, which is random.
use super::{super::LISTENERS, poller::forwards, *};
use crate::{
    conn::step::Io,
    loops::{
        line::{
            self, Routes, Spread, StageLine, Station,
            gate::{Gate, GateRules},
            poll::{Does, Gated, PollStage, Takes},
            threads::{BatchSize, Extras, StageThread, Work},
        },
        queue::Fifo,
    },
};
use regatta_op::OpKind::{self, Open, Read, Recv, Send, Stat};
use regatta_sys::wait::{Event, Interest};
use std::{
    cell::RefCell,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    time::Duration,
};

/// Distinguishes the seed of the dice.
const STREAM: u64 = 0x0070_6970_6573;
/// Connections that a queue has room for.
const ROOM: usize = 64;
/// Longest time that a thread waits for a connection.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Kind of pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A poller that reads, one that reports when there is room, and writers ([E] §6).
    ReadPoller,
    /// Two pollers, with readers and writers ([S] §4).
    Readers,
    /// Every completion is another stage's: what was received, read and sent.
    Staged,
}

/// A stage: what it leaves to others, and where; a poller, or `threads` threads.
struct Plan {
    name: &'static str,
    threads: usize,
    leaves: Leaves,
    routes: Routes,
    /// Stations of connections that wait for their peer's bytes, for room, or for another turn.
    waits: [usize; 3],
    /// The stage waits for a report of room before it sends.
    told: bool,
}

impl Plan {
    const fn poller(name: &'static str, leaves: Leaves, routes: Routes) -> Self {
        Self { name, threads: 0, leaves, routes, waits: [0; 3], told: false }
    }

    /// Work of a thread that takes at most `most` at once.
    fn work(&self, at: usize, part: usize, most: usize) -> Work<'static> {
        let [reads_at, writes_at, again_at] = self.waits;
        Work {
            at,
            part,
            routes: self.routes,
            reads_at,
            writes_at,
            again_at,
            batch: BatchSize::Most(most),
            order: |_| {},
            barrier: None,
        }
    }
}

/// The stages of a pipeline, as their stations are numbered.
fn plans(shape: Shape) -> Vec<Plan> {
    const DISK: [OpKind; 3] = [Open, Read, Stat];
    let disk = Leaves::new(&DISK);
    let (recv, send) = (Leaves::new(&[Recv]), Leaves::new(&[Send]));
    let write_poll = |to| Plan { told: true, ..Plan::poller("write-poll", send, Routes::all(to)) };
    let threads = |name, threads, leaves, routes, waits| Plan {
        threads,
        waits,
        ..Plan::poller(name, leaves, routes)
    };
    match shape {
        Shape::ReadPoller => vec![
            Plan::poller("read", send, Routes::all(1)),
            write_poll(2),
            threads("write", 3, recv.and(disk), Routes::all(0), [0, 1, 1]),
        ],
        Shape::Readers => vec![
            Plan::poller("poll", recv.and(send).and(disk), Routes::all(3).with(Send, 1)),
            write_poll(2),
            threads("write", 3, recv.and(disk), Routes::all(0), [0, 1, 2]),
            threads("read", 2, send, Routes::all(1), [0, 1, 3]),
        ],
        Shape::Staged => {
            let to_parse = Routes::all(2).with(Recv, 1).with(Send, 3);
            let parsed = Routes::all(2).with(Recv, 0).with(Send, 3);
            vec![
                Plan::poller("read", Leaves::PARSE.and(send).and(disk), to_parse),
                threads("parse", 2, recv.and(send).and(disk), parsed, [0, 3, 1]),
                threads(
                    "disk",
                    2,
                    Leaves::READ_RESULT.and(recv).and(send),
                    Routes::all(1).with(Recv, 0).with(Send, 3),
                    [0, 3, 2],
                ),
                Plan::poller("write", recv.and(disk), Routes::all(2).with(Recv, 0)),
            ]
        }
    }
}

/// A gate that admits all, and counts those that are inside.
const OPEN: GateRules = GateRules {
    requests_max: 0,
    queue_max: 0,
    first_milli: 0,
    depth: 1,
    refill_ms_min: 0,
    classes: 1,
    drops: false,
};

/// A stage, which is one side of the gate where the pipeline has one.
fn gated<'a>(stage: PollStage<'a>, shape: Shape, at: usize, gate: &'a Gate) -> PollStage<'a> {
    match (shape, at) {
        (Shape::Staged, 0) => stage.gated(Gated::In(gate, 1)),
        (Shape::Staged, 3) => stage.gated(Gated::Out(gate, None)),
        _ => stage,
    }
}

/// A stage besides the one that accepts.
enum Unit<'a, 'h, P> {
    Loop(Box<EventLoop<'a, Part<'h, P>>>, usize),
    Thread(Box<StageThread<'a>>),
}

impl<P: Poller> Unit<'_, '_, P> {
    /// Runs one round. Returns how long it would wait then; `None` if it has ended.
    fn round(&mut self, hub: &RefCell<Hub<P>>, events: &mut Vec<Event>) -> Option<Duration> {
        match self {
            Self::Loop(stage, at) => {
                if !stage.goes_on() {
                    stage.leave_line(false);
                    return None;
                }
                stage.round(events).unwrap();
                Some(hub.borrow().asked[*at])
            }
            Self::Thread(thread) if !thread.goes_on() => None,
            Self::Thread(thread) => {
                Some(if thread.visit(Duration::ZERO) { Duration::ZERO } else { WAIT_MAX })
            }
        }
    }
}

/// The poller of all stages, and the events that each has not received yet.
#[derive(Debug)]
struct Hub<P> {
    poller: P,
    /// Watched descriptors, each with its key here, its stage, and its key there.
    watched: Vec<(RawFd, u64, usize, u64)>,
    next_key: u64,
    pending: Vec<Vec<Event>>,
    /// Time that each would have waited.
    asked: Vec<Duration>,
}

impl<P: Poller> Hub<P> {
    fn new(poller: P, units: usize) -> Self {
        let pending = (0..units).map(|_| Vec::new()).collect();
        let asked = vec![Duration::ZERO; units];
        Self { poller, watched: Vec::new(), next_key: 1, pending, asked }
    }

    /// The key of what is watched from now on for a stage.
    fn enter(&mut self, fd: BorrowedFd<'_>, unit: usize, key: u64, first: u64) -> u64 {
        self.next_key += 1;
        self.watched.push((fd.as_raw_fd(), first + self.next_key, unit, key));
        first + self.next_key
    }

    fn key_of(&self, fd: BorrowedFd<'_>, unit: usize) -> u64 {
        let of = |(number, _, whose, _): &&(RawFd, u64, usize, u64)| {
            *number == fd.as_raw_fd() && *whose == unit
        };
        self.watched.iter().find(of).expect("it is watched").1
    }

    fn leave(&mut self, fd: BorrowedFd<'_>, unit: usize) {
        self.watched.retain(|(number, _, whose, _)| *number != fd.as_raw_fd() || *whose != unit);
    }

    /// Waits for all, and keeps the events of each.
    fn wait(&mut self, patience: Duration) -> io::Result<()> {
        let mut events = Vec::new();
        self.poller.wait(&mut events, Some(patience))?;
        for event in events {
            let mut watched = self.watched.iter();
            if let Some((_, _, unit, key)) = watched.find(|(_, own, ..)| *own == event.key) {
                self.pending[*unit].push(Event { key: *key, ..event });
            }
        }
        Ok(())
    }
}

struct Part<'h, P> {
    hub: &'h RefCell<Hub<P>>,
    unit: usize,
}

impl<P> std::fmt::Debug for Part<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Part").field("unit", &self.unit).finish_non_exhaustive()
    }
}

impl<P: Poller> Poller for Part<'_, P> {
    fn edge(&self) -> bool {
        self.hub.borrow().poller.edge()
    }

    fn add(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        let mut hub = self.hub.borrow_mut();
        let own = hub.enter(fd, self.unit, key, 0);
        hub.poller.add(fd, own, interest)
    }

    fn add_level(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        let mut hub = self.hub.borrow_mut();
        let own = hub.enter(fd, self.unit, key, 0);
        hub.poller.add_level(fd, own, interest)
    }

    fn add_listener(&mut self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        let mut hub = self.hub.borrow_mut();
        let own = hub.enter(fd, self.unit, key, LISTENERS);
        hub.poller.add_listener(fd, own).inspect_err(|_| hub.leave(fd, self.unit))
    }

    fn set(&mut self, fd: BorrowedFd<'_>, _key: u64, interest: Interest) -> io::Result<()> {
        let mut hub = self.hub.borrow_mut();
        let own = hub.key_of(fd, self.unit);
        hub.poller.set(fd, own, interest)
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let mut hub = self.hub.borrow_mut();
        hub.leave(fd, self.unit);
        hub.poller.remove(fd)
    }

    fn forget(&mut self, fd: BorrowedFd<'_>) {
        let mut hub = self.hub.borrow_mut();
        hub.leave(fd, self.unit);
        hub.poller.forget(fd);
    }

    /// Reports the events that have been kept for it, and does not wait.
    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<usize> {
        let mut hub = self.hub.borrow_mut();
        events.clear();
        events.append(&mut hub.pending[self.unit]);
        let patience = timeout.unwrap_or(WAIT_MAX);
        hub.asked[self.unit] = if events.is_empty() { patience } else { Duration::ZERO };
        Ok(events.len())
    }

    fn len(&self) -> usize {
        self.hub.borrow().poller.len()
    }

    fn changes(&self) -> u64 {
        self.hub.borrow().poller.changes()
    }
}

/// The poller of the stage that accepts: before it waits, the others have their rounds.
struct First<'a, 'h, 'o, P> {
    part: Part<'h, P>,
    others: &'o RefCell<Vec<Unit<'a, 'h, P>>>,
    dice: Dice,
}

impl<P> std::fmt::Debug for First<'_, '_, '_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("First").field("part", &self.part).finish_non_exhaustive()
    }
}

impl<P: Poller> First<'_, '_, '_, P> {
    /// Runs rounds of some, in any order, and then one of each. Returns how long all would wait.
    fn rounds(&mut self) -> Duration {
        let (mut others, mut events) = (self.others.borrow_mut(), Vec::new());
        for _ in 0..self.dice.below(4) {
            if !others.is_empty() {
                let at = self.dice.below(others.len());
                if others[at].round(self.part.hub, &mut events).is_none() {
                    drop(others.remove(at));
                }
            }
        }
        for last in (1..others.len()).rev() {
            others.swap(last, self.dice.below(last + 1));
        }
        let mut patience = WAIT_MAX;
        others.retain_mut(|unit| {
            let asked = unit.round(self.part.hub, &mut events);
            patience = patience.min(asked.unwrap_or_default());
            asked.is_some()
        });
        patience
    }
}

impl<P: Poller> Poller for First<'_, '_, '_, P> {
    forwards!(part);

    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<usize> {
        let patience = self.rounds().min(timeout.unwrap_or(WAIT_MAX));
        self.part.hub.borrow_mut().wait(patience)?;
        self.part.wait(events, timeout)
    }
}

/// Parts of the loop that accepts.
pub(super) struct Accepting<'s> {
    pub(super) acceptor: Acceptor<'s>,
    pub(super) rules: TurnRules,
    pub(super) below: Below<'s>,
}

/// Runs a pipeline from its beginning to its end, as the seed says.
pub(super) fn run<'s, P: Poller>(
    seed: u64,
    shape: Shape,
    poller: P,
    Accepting { acceptor, rules, below }: Accepting<'s>,
    around: &dyn Fn(&'s Scratch<StaticFile>) -> WorkerEnv<'s>,
    scratches: &'s [Scratch<StaticFile>],
) {
    let (plans, mut dice) = (plans(shape), Dice::new(seed ^ STREAM));
    let tally = Tally::Striped(around(&scratches[0]).slot);
    let accepts = AcceptRules { eager_read: false, ..acceptor.rules };
    let stations = plans.iter().map(|plan| match plan.threads {
        0 => Station::merged(plan.name, tally).unwrap(),
        _ => {
            let queues = (0..=dice.below(plan.threads)).map(|_| Fifo::new(ROOM)).collect();
            let spreads = [Spread::Part, Spread::Turns, Spread::Equal];
            Station::queued(plan.name, queues, spreads[dice.below(3)], tally)
        }
    });
    let line: StageLine<'_> = StageLine::new(stations.collect(), 1).unwrap();
    let gate = Gate::new(OPEN, None, 0);
    let hub = RefCell::new(Hub::new(poller, plans.len() + 1));
    let part = |unit| Part { hub: &hub, unit };
    let count = plans.iter().map(|plan| plan.threads.max(1)).sum::<usize>() + 1;
    let mut disks: Vec<_> = (0..count).map(|_| InlineDisk(below)).collect();
    let (first, mut disks) = disks.split_first_mut().unwrap();
    let others = RefCell::new(Vec::new());
    let fed = |at: usize| {
        let acceptor = Acceptor::new(&[], accepts);
        Worker::new(acceptor, around(&scratches[at % scratches.len()]))
    };
    for (at, plan) in plans.iter().enumerate() {
        let turns = TurnRules {
            leaves: plan.leaves,
            eager_write: rules.eager_write && !plan.told,
            edge: false,
            ..rules
        };
        let (own, rest) = disks.split_at_mut(plan.threads.max(1));
        disks = rest;
        for (part_of, disk) in own.iter_mut().enumerate() {
            if plan.threads == 0 {
                let takes = Takes::Station(at);
                let does = Does { takes, routes: plan.routes, hears: false, barrier: None };
                let stage = EventLoop::new(part(at + 1), fed(at), turns, disk);
                let mut stage =
                    stage.at_stage(gated(PollStage::new(&line, does), shape, at, &gate));
                stage.watch_own().unwrap();
                others.borrow_mut().push(Unit::Loop(Box::new(stage), at + 1));
                continue;
            }
            let work = plan.work(at, part_of, [1, 2, usize::MAX][dice.below(3)]);
            let worker = fed(at);
            let io = Io::new(disk, turns, &worker.around().cx.site.limits);
            let thread = StageThread::new(worker, io, &line, work);
            let thread = thread.with(Extras { gate: Some(&gate), ..Extras::default() });
            others.borrow_mut().push(Unit::Thread(Box::new(thread)));
        }
    }
    let takes = Takes::Listeners { home: 0, to: 0, parts: 3 };
    let does = Does { takes, routes: Routes::all(0), hears: true, barrier: None };
    let poller = First { part: part(0), others: &others, dice };
    let worker = Worker::new(acceptor, around(&scratches[0]));
    let accept = EventLoop::new(poller, worker, rules, first);
    accept.at_stage(PollStage::new(&line, does)).run().unwrap();
    // The line is closed: each ends with its next round.
    let mut events = Vec::new();
    others.borrow_mut().retain_mut(|unit| unit.round(&hub, &mut events).is_some());
    assert!(others.borrow().is_empty(), "a stage goes on although the line is closed");
    let inside = line::end(&line, &mut fed(0));
    assert_eq!(gate.in_line(), inside, "each place is given back, once");
}
