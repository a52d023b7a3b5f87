//! User threads in the place of an event loop, with helpers that are played by dice.
use crate::{
    drive::perform::{Below, SendBy},
    kit::{
        dice::Dice,
        fibers::{self, FiberRules, Fibered, Hands, Peers, State, Task, run_task},
        worker::Worker,
    },
};
use regatta_metrics::Tally;
use regatta_sys::{
    fiber::{self, Guard, Stacks},
    wait::{Event, Interest, Poller, ready_now},
};
use std::{
    cell::RefCell,
    io,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

/// What is not optimised needs much of its stack.
const STACK_BYTES: usize = 256 << 10;
/// Tasks at once, of a few connections.
const TASKS_MAX: usize = 64;
/// Distinguishes the seed of the dice.
const STREAM: u64 = 0x006c_6976_6573;

/// Runs a scheduler of user threads from its beginning to its end, as the seed says: one of several
/// if it has peers.
pub(super) fn run<P: Poller>(
    (seed, me): (u64, usize),
    poller: P,
    worker: Worker<'_, Fibered>,
    below: Below<'_>,
    peers: Option<&Peers>,
) {
    let mut dice = Dice::new(seed ^ STREAM ^ me as u64);
    // A call that blocks would wait for a peer of the same thread for ever.
    let sends = [None, None, Some(SendBy::PollFirst), Some(SendBy::TryFirst(Duration::ZERO))];
    let send = sends[dice.below(sends.len())];
    let mut yes = || dice.once_in(2);
    let rules = FiberRules {
        below,
        helpers_read: yes(),
        send,
        accepting_first: yes(),
        poller_retries: yes(),
        yields: yes(),
        spins: false,
        runs_max: [1, 2, 10_000][dice.below(3)],
        bytes_max: [4 << 10, 2 << 20][dice.below(2)],
    };
    let hands = Hands::new(TASKS_MAX).unwrap();
    let threads = worker.accept_rules().connections_max;
    let tally = worker.around().cx.tally;
    let by = send.unwrap_or(SendBy::PollFirst);
    let poller = Helped { poller, hands: &hands, dice, by, tally };
    let mut state = State::new(worker, poller, &hands, rules);
    if let Some(peers) = peers {
        state = state.beside(peers, me);
    }
    let state = RefCell::new(state);
    let stacks = Stacks::new(threads, STACK_BYTES, Guard::Mapping).unwrap();
    fiber::scope(stacks, |fibers| fibers::run(&state, fibers)).unwrap();
}

/// A poller before whose waits helpers begin and finish tasks, in any order.
#[derive(Debug)]
struct Helped<'h, P> {
    poller: P,
    hands: &'h Hands,
    dice: Dice,
    by: SendBy,
    tally: Tally<'h>,
}

impl<P: Poller> Helped<'_, P> {
    /// Finishes some tasks, and one at least if the scheduler sleeps.
    fn help(&mut self, sleeps: bool) {
        let Self { hands, dice, by, tally, .. } = self;
        let mut tasks: Vec<Task> = std::iter::from_fn(|| hands.begin(*tally)).collect();
        let (mut left, mut must) = (Vec::new(), sleeps);
        while let Some(task) = dice.take(&mut tasks) {
            // A helper whose peer takes nothing is not done for a while.
            if waits(&task) && !dice.once_in(16) || !must && dice.once_in(2) {
                left.push(task);
            } else {
                hands.end(run_task(task, *by, *tally));
                must = false;
            }
        }
        for task in left {
            assert!(hands.submit(task, *tally).is_ok(), "there is room for what was there");
        }
    }
}

/// True if a helper would wait for the peer.
fn waits(task: &Task) -> bool {
    let Task::Send { passed, .. } = task else { return false };
    !ready_now(passed.socket().as_fd(), Interest::WRITE).unwrap().writable
}

impl<P: Poller> Poller for Helped<'_, P> {
    fn name(&self) -> &'static str {
        self.poller.name()
    }

    fn edge(&self) -> bool {
        self.poller.edge()
    }

    fn add(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.poller.add(fd, key, interest)
    }

    fn add_level(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.poller.add_level(fd, key, interest)
    }

    fn add_listener(&mut self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        self.poller.add_listener(fd, key)
    }

    fn set(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.poller.set(fd, key, interest)
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.poller.remove(fd)
    }

    fn forget(&mut self, fd: BorrowedFd<'_>) {
        self.poller.forget(fd);
    }

    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<usize> {
        self.help(timeout.is_none_or(|time| !time.is_zero()));
        self.poller.wait(events, timeout)
    }

    fn len(&self) -> usize {
        self.poller.len()
    }

    fn changes(&self) -> u64 {
        self.poller.changes()
    }
}
