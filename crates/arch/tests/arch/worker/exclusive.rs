//! Workers that watch one listener exclusively: a connection wakes one of those that sleep.
//!
//! Real are the workers, the listener and the bells. Simulated are the time, which worker runs
//! next, and what epoll does with `EPOLLEXCLUSIVE` ([`Kernel`]).
use super::*;
use dice::{Dice, SEEDS};
use regatta_arch::conn::{
    accept::{Neighbour, PAUSE_MS},
    worker::Wait,
};
use regatta_sys::wait::{Event, Interest, Poller, ready_now};
use std::{cell::RefCell, collections::VecDeque, io, os::fd::BorrowedFd, rc::Rc};

/// Longest wait of a connection while a worker has room for it, ms.
const WAIT_MS_MAX: u64 = 100;
/// Length of each schedule, ms.
const LASTS_MS: u64 = 2000;
/// The most rounds of all workers in one millisecond: more would be a loop without an end.
const ROUNDS_MAX: usize = 200;

/// The kernel's state of an epoll instance that may watch the listener.
#[derive(Debug, Default)]
struct Watch {
    key: Option<u64>,
    /// Whether the instance is in the list of ready ones.
    ready: bool,
    /// Whether a worker sleeps in its wait.
    asleep: bool,
}

/// Epoll instances that watch one listener exclusively.
#[derive(Debug, Default)]
struct Kernel(Vec<Watch>);

impl Kernel {
    /// Adds a connection. The kernel marks instances in the order of its queue, up to the first
    /// whose worker sleeps in its wait (`ep_poll_callback`, `__wake_up_common`).
    fn arrive(&mut self, dice: &mut Dice) {
        let mut queue: Vec<usize> = (0..self.0.len()).collect();
        while let Some(at) = dice.take(&mut queue) {
            let watch = &mut self.0[at];
            if watch.key.is_some() {
                watch.ready = true;
                if std::mem::replace(&mut watch.asleep, false) {
                    break;
                }
            }
        }
    }
}

/// The epoll instance of one worker, as far as the listener is concerned.
#[derive(Debug)]
struct Instance {
    kernel: Rc<RefCell<Kernel>>,
    me: usize,
}

impl Poller for Instance {
    fn add(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        let ready = ready_now(fd, interest)?.readable;
        let watch = &mut self.kernel.borrow_mut().0[self.me];
        assert_eq!(watch.key, None, "it is watched already");
        (watch.key, watch.ready) = (Some(key), ready);
        Ok(())
    }

    fn set(&mut self, _: BorrowedFd<'_>, _: u64, _: Interest) -> io::Result<()> {
        unreachable!("only listeners are watched")
    }

    fn remove(&mut self, _: BorrowedFd<'_>) -> io::Result<()> {
        let watch = &mut self.kernel.borrow_mut().0[self.me];
        (watch.key, watch.ready) = (None, false);
        Ok(())
    }

    fn wait(&mut self, events: &mut Vec<Event>, _: Option<Duration>) -> io::Result<usize> {
        let watch = &self.kernel.borrow().0[self.me];
        let event = |key| Event { key, readable: true, ..Event::default() };
        *events = watch.key.filter(|_| watch.ready).map(event).into_iter().collect();
        Ok(events.len())
    }

    fn len(&self) -> usize {
        1
    }

    fn changes(&self) -> u64 {
        0
    }
}

/// A worker with its poller, and its disturbances by the schedule.
struct Unit<'a> {
    worker: Worker<'a, Held>,
    poller: Instance,
    bell: &'a Bell,
    wait: Option<Wait>,
    wakes_at: u64,
    /// Time until which it is held up, ms.
    busy_until: u64,
    /// End of a time without descriptors, ms.
    poor_until: u64,
    open: usize,
}

impl Unit<'_> {
    fn is_awake(&self, now: u64) -> bool {
        let watch = &self.poller.kernel.borrow().0[self.poller.me];
        let rung = || ready_now(self.bell.as_fd(), Interest::READ).unwrap().readable;
        self.busy_until <= now && (watch.ready || self.wakes_at <= now || rung())
    }

    /// Holds the worker up. The kernel alone cannot wake it meanwhile.
    fn hold_up(&mut self, now: u64, until: u64) {
        if !self.is_awake(now) {
            (self.busy_until, self.wakes_at) = (until, until);
            self.poller.kernel.borrow_mut().0[self.poller.me].asleep = false;
        }
    }

    /// Runs one round, and begins the next wait.
    fn round(&mut self, now: u64, below: Below<'_>, listener: &OwnedFd) {
        let mut events = Vec::new();
        self.poller.kernel.borrow_mut().0[self.poller.me].asleep = false;
        if let Some(wait) = self.wait.take() {
            self.poller.wait(&mut events, None).unwrap();
            if ready_now(self.bell.as_fd(), Interest::READ).unwrap().readable {
                self.worker.answer_bell();
            }
            let _ = self.worker.end_wait(wait, WaitTally::default());
        }
        for event in events {
            if now < self.poor_until {
                hook::fail_next_accept(24);
            }
            self.worker.offer(usize::try_from(event.key).unwrap());
            while let Some(action) = self.worker.next_accept() {
                self.perform(action, below);
            }
        }
        for key in self.worker.keys() {
            turn(&mut self.worker, key, below, &mut [0; 1024]);
        }
        while let Some(action) = self.worker.next_action() {
            self.perform(action, below);
        }
        // A fault that has met no accept ends here.
        hook::clear();
        set_time(now);
        let _ = self.worker.watch_listeners(&mut self.poller, 0);
        let wait = self.worker.begin_wait();
        let timeout = u64::try_from(wait.timeout.as_millis()).unwrap();
        (self.wait, self.wakes_at) = (Some(wait), now + timeout.max(1));
        self.open = self.worker.keys().len();
        // A level-triggered event stays in the list of ready ones.
        let mut kernel = self.poller.kernel.borrow_mut();
        let watch = &mut kernel.0[self.poller.me];
        watch.ready &= ready_now(listener.as_fd(), Interest::READ).unwrap().readable;
        watch.asleep = !watch.ready;
    }

    fn perform(&mut self, action: Action, below: Below<'_>) {
        match action {
            Action::Admit(accepted) => {
                let key = self.worker.admit(accepted, None);
                turn(&mut self.worker, key, below, &mut [0; 1024]);
            }
            Action::Close(key, reason) => self.worker.close(key, reason),
            Action::Turn(key) => turn(&mut self.worker, key, below, &mut [0; 1024]),
            Action::Late(_) | Action::Expired(..) | Action::Drain => {}
        }
    }
}

fn set_time(ms: u64) {
    hook::set_time(ms * 1_000_000, 1_700_000_000);
}

/// Runs a schedule, and returns the number of connections that arrived.
// tidy: long because the draws of a schedule and its clock are one story.
fn schedule(seed: u64, fixture: &Fixture, bells: &[Bell]) -> u64 {
    let mut dice = Dice::new(seed);
    let (arena, listeners) = Fixture::fresh(bells.len());
    let listener = &listeners[..1];
    let address = local_addr(listener[0].as_fd()).unwrap();
    let connections_max = 1 + dice.below(4);
    let rules = AcceptRules {
        count: u32::try_from(dice.below(3)).unwrap(),
        when_full: [WhenFull::Pause, WhenFull::CloseIdle][dice.below(2)],
        connections_max,
        exclusive: true,
        ..RULES
    };
    let mut now = 1000;
    set_time(now);
    let cache = LocalCache::new(&fixture.site.caching, 7);
    let scratches: Vec<_> = bells.iter().map(|_| Scratch::new(7)).collect();
    let kernel = Rc::new(RefCell::new(Kernel(bells.iter().map(|_| Watch::default()).collect())));
    let mut units: Vec<Unit<'_>> = (0..bells.len())
        .map(|me| {
            bells[me].clear();
            let slot = arena.slot(me);
            let (tally, scratch) = (Tally::Owned(slot), &scratches[me]);
            let around = around(&fixture.site, &cache, scratch, tally, arena, &bells[me]);
            let mut acceptor = Acceptor::new(listener, rules);
            acceptor.reports_in = Some(slot);
            let others = (0..bells.len()).filter(|other| *other != me);
            let other =
                |at| Neighbour { slot: arena.slot(at), connections_max, bell: Some(&bells[at]) };
            acceptor.others = others.map(other).collect();
            Unit {
                worker: Worker::new(acceptor, around),
                poller: Instance { kernel: Rc::clone(&kernel), me },
                bell: &bells[me],
                wait: None,
                wakes_at: 0,
                busy_until: 0,
                poor_until: 0,
                open: 0,
            }
        })
        .collect();
    let accepted =
        || -> u64 { (0..bells.len()).map(|at| arena.slot(at).get(Counter::AcceptOk)).sum() };
    let (mut clients, mut arrived, mut waits_ms) = (VecDeque::new(), 0, 0);
    // In most schedules, no connection arrives soon after another has ended.
    let (arrives, goes) = [(8, 12), (60, 80), (300, 400)][dice.below(3)];
    let end = now + LASTS_MS;
    while now < end {
        now += 1;
        set_time(now);
        let room = units.len() * connections_max;
        if (now < 1030 || dice.once_in(arrives)) && clients.len() < room + 2 {
            clients.push_back(TcpStream::connect(address).unwrap());
            arrived += 1;
            kernel.borrow_mut().arrive(&mut dice);
        }
        if dice.once_in(goes) {
            drop(clients.pop_front());
        }
        if dice.once_in(150) {
            let at = dice.below(units.len());
            units[at].hold_up(now, now + dice.below(300) as u64);
        }
        if dice.once_in(300) {
            let at = dice.below(units.len());
            units[at].poor_until = now + dice.below(300) as u64;
        }
        for rounds in 0.. {
            assert!(rounds < ROUNDS_MAX, "seed {seed}: no end of rounds at {now}");
            let mut awake: Vec<usize> =
                (0..units.len()).filter(|at| units[*at].is_awake(now)).collect();
            let Some(at) = dice.take(&mut awake) else { break };
            units[at].round(now, fixture.below(), &listener[0]);
        }
        // Some workers have had room, descriptors and time for as long as that takes to be known.
        let serves = |unit: &Unit<'_>| {
            unit.open < connections_max
                && unit.busy_until <= now
                && unit.poor_until + PAUSE_MS <= now
        };
        let waits = accepted() < arrived && units.iter().any(serves);
        waits_ms = if waits { waits_ms + 1 } else { 0 };
        assert!(waits_ms <= WAIT_MS_MAX, "seed {seed}: a connection waits, and there is room");
    }
    hook::clear();
    arrived
}

/// Workers that are full or without descriptors pass on what they are woken for.
#[test]
fn no_connection_waits_for_a_worker_that_sleeps() {
    let mut fixture = Fixture::new("exclusive", 1);
    // No connection ends on its own, which would make room.
    fixture.site.deadlines.head_ms_max = 60_000;
    let mut arrived = 0;
    for workers in [2, 3, 4] {
        let bells: Vec<Bell> = (0..workers).map(|_| Bell::new().unwrap()).collect();
        (0..SEEDS / 10).for_each(|seed| arrived += schedule(seed, &fixture, &bells));
    }
    assert!(arrived > SEEDS, "{arrived} connections");
}
