//! User threads in the place of an event loop, with helpers that are played by dice.
use super::{
    poller::forwards,
    single::{Single, accepts_all},
    *,
};
use crate::{
    drive::perform::SendBy,
    loops::fibers::{self, FiberRules, FiberTask, Fibered, Hands, State, run_task},
};
use regatta_sys::{
    fiber::{self, Guard, Stacks},
    wait::{Event, Interest, ready_now},
};
use std::{
    cell::RefCell,
    fmt,
    io::{Read as _, Write as _},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

/// Code that is not optimised needs much of its stack.
const STACK_BYTES: usize = 256 << 10;
/// Tasks at once, of a few connections.
const TASKS_MAX: usize = 64;
/// Distinguishes the seed of the dice.
const STREAM: u64 = 0x006c_6976_6573;

/// Runs a scheduler of user threads from its beginning to its end, as the seed says: one of several
/// if it has peers.
pub(super) fn run<P: Poller>(
    seed: u64,
    me: usize,
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
        handshakes_per_round: [1, 2, 8][Dice::new(seed ^ HANDSHAKES_STREAM).below(3)],
        runs_max: [1, 2, 10_000][dice.below(3)],
        bytes_max: [4 << 10, 2 << 20][dice.below(2)],
    };
    let hands = Hands::new(TASKS_MAX).unwrap();
    let threads = worker.accept_rules().connections_max;
    let tally = worker.around().cx.tally;
    let by = send.unwrap_or(SendBy::PollFirst);
    let mut helpers = Helpers { hands: &hands, dice, by, tally };
    let poller = Before { poller, acts: |sleeps| helpers.act(sleeps) };
    let mut state = State::new(worker, poller, &hands, rules);
    if let Some(peers) = peers {
        state = state.beside(peers, me);
    }
    serve(state, threads);
}

/// Runs a scheduler, with this many user threads at most, from its beginning to its end.
fn serve<P: Poller>(state: State<'_, P>, threads: usize) {
    let state = RefCell::new(state);
    let stacks = Stacks::new(threads, STACK_BYTES, Guard::Mapping).unwrap();
    fiber::scope(stacks, |fibers| fibers::run(&state, fibers)).unwrap();
}

/// Runs a scheduler without helpers from its beginning to its end. Calls `acts` before each of its
/// waits, with true if it sleeps.
pub(super) fn run_alone(
    worker: Worker<'_, Fibered>,
    rules: FiberRules<'_>,
    acts: impl FnMut(bool),
) {
    let hands = Hands::new(TASKS_MAX).unwrap();
    let threads = worker.accept_rules().connections_max;
    let poller = Before { poller: Epoll::new(Trigger::Level).unwrap(), acts };
    serve(State::new(worker, poller, &hands, rules), threads);
}

/// Rules of a scheduler without helpers that does not wait: clients act before its waits.
pub(super) const fn fiber_rules(below: Below<'_>, poller_retries: bool) -> FiberRules<'_> {
    FiberRules {
        below,
        helpers_read: false,
        send: None,
        accepting_first: false,
        poller_retries,
        yields: false,
        spins: true,
        handshakes_per_round: 8,
        runs_max: 10_000,
        bytes_max: 2 << 20,
    }
}

/// Helpers that begin and finish tasks in any order.
#[derive(Debug)]
struct Helpers<'h> {
    hands: &'h Hands,
    dice: Dice,
    by: SendBy,
    tally: Tally<'h>,
}

impl Helpers<'_> {
    /// Finishes some tasks, and one at least if the scheduler sleeps.
    fn act(&mut self, sleeps: bool) {
        let Self { hands, dice, by, tally, .. } = self;
        let mut tasks: Vec<FiberTask> = std::iter::from_fn(|| hands.begin(*tally)).collect();
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
fn waits(task: &FiberTask) -> bool {
    let FiberTask::Send { passed, .. } = task else { return false };
    !ready_now(passed.socket().as_fd(), Interest::WRITE).unwrap().writable
}

/// A poller before whose waits something acts, depending on whether the scheduler sleeps.
struct Before<P, F> {
    poller: P,
    acts: F,
}

impl<P: fmt::Debug, F> fmt::Debug for Before<P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.poller.fmt(f)
    }
}

impl<P: Poller, F: FnMut(bool)> Poller for Before<P, F> {
    forwards!(poller);

    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<usize> {
        (self.acts)(timeout.is_none_or(|time| !time.is_zero()));
        self.poller.wait(events, timeout)
    }
}

/// A request of each client.
pub(super) const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
/// The wait before which the first client's connection has been idle for longer than it may.
const IDLE_AT: usize = 40;
/// Duration of that, nanoseconds: longer than any idle deadline of [`super::site`].
const IDLE_NS: u64 = 7_000_000_000;
/// Clients that are busy when the idle one's deadline has passed.
const BUSY: usize = 4;

/// Receives what has come, until there is no more for now; the answers that are in it, and true if
/// the connection has ended without a reset.
pub(super) fn receive_all(client: &mut UnixStream) -> Result<(usize, bool), io::ErrorKind> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    let is_over = loop {
        match client.read(&mut buffer) {
            Ok(0) => break true,
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
            Err(error) => return Err(error.kind()),
        }
    };
    Ok((bytes.windows(9).filter(|nine| nine == b"HTTP/1.1 ").count(), is_over))
}

/// Connects a client that does not block.
pub(super) fn connect(address: &SocketAddr) -> UnixStream {
    let socket = UnixStream::connect_addr(address).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// A scheduler whose first client is idle for too long, and sends its second request before wait
/// number `at`, while others are busy: what it has received at the end.
fn idles(at: usize, rules: FiberRules<'_>) -> Result<(usize, bool), io::ErrorKind> {
    hook::set_time(BEGIN_NS, UNIX);
    let (listeners, addresses) = listen(1);
    let single = Single::new(site(&mut Dice::new(1), false));
    let arena = single.arena();
    let acceptor = Acceptor::new(&listeners, accepts_all(2 * BUSY));
    let worker = Worker::new(acceptor, single.around(arena, &ClearHttp1));
    let mut clients: Vec<UnixStream> = (0..=BUSY).map(|_| connect(&addresses[0])).collect();
    let (mut waits, mut came) = (0, Ok((0, false)));
    let acts = |_| {
        waits += 1;
        if waits == 1 || waits == at {
            // It may have been closed.
            let _ = clients[0].write(REQUEST);
        }
        if waits == IDLE_AT {
            hook::set_time(BEGIN_NS + IDLE_NS, UNIX);
        }
        if waits == 2 || waits == IDLE_AT {
            clients[1..].iter_mut().for_each(|client| client.write_all(REQUEST).unwrap());
        }
        if waits == 2 * IDLE_AT {
            came = receive_all(&mut clients[0]);
            arena.control().stop();
        }
    };
    run_alone(worker, rules, acts);
    hook::clear();
    came
}

/// Whenever a client asks again that has been idle for too long, it is answered or sees the end of
/// the connection. Other user threads do not run between the verdict and the close.
#[test]
fn an_idle_connection_ends_without_a_reset() {
    let folder = Folder::new();
    let below = Below { root: &folder.root, rules: OpenRules::default() };
    for (runs_max, yields, poller_retries) in [1, 2, 10_000].into_iter().flat_map(|runs_max| {
        [(runs_max, false, false), (runs_max, true, false), (runs_max, true, true)]
    }) {
        // The test counts the waits, which end at once.
        let rules = FiberRules { yields, runs_max, ..fiber_rules(below, poller_retries) };
        for at in IDLE_AT - 2..IDLE_AT + 12 {
            let answers = 1 + usize::from(at <= IDLE_AT);
            let came = idles(at, rules);
            let (came, ends) = came.unwrap_or_else(|it| panic!("{it}: wait {at} of {rules:?}"));
            assert_eq!(came, answers, "wait {at} of {rules:?}");
            assert!(ends || at <= IDLE_AT, "it is left open: wait {at} of {rules:?}");
        }
    }
}
