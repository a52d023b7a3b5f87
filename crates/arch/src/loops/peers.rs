//! Schedulers side by side in one process, each in a kernel thread of its own: of user threads, or
//! event loops. A scheduler that hears the master wakes the others. Connections go to one that has
//! nothing to run.
//!
//! A scheduler with nothing to run asks all others at once, before it waits. A scheduler with more
//! than one connection that can continue gives some of them, between two turns (private deques,
//! receiver initiated: Acar, Charguéraud, Rainey, PPoPP 2013). Stacks stay where they are.
use crate::{
    Env, WorkError,
    conn::{units, worker::Passed},
    sync::lock,
};
use regatta_sys::Bell;
use std::{
    collections::VecDeque,
    io, mem,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Part of `connections_max` that scheduler `at` of `count` has.
#[must_use]
pub fn share(connections_max: usize, count: usize, at: usize) -> usize {
    connections_max / count + usize::from(at < connections_max % count)
}

/// State that the schedulers of a process share. A `T` is a connection.
#[derive(Debug)]
pub struct Peers<T = Passed> {
    /// Connections go from one to another.
    pub steals: bool,
    asks: Mutex<Asks<T>>,
    /// Number that ask, to be read without the lock.
    asking: AtomicUsize,
    /// Bells, by scheduler.
    bells: Vec<Bell>,
    /// Reason why all of them end.
    failed: OnceLock<WorkError>,
}

/// Threads of the schedulers of a process.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "the environment has none")]
pub struct PeerThreads<'a> {
    /// Environment.
    pub env: &'a Env,
    /// The process.
    pub process: usize,
    /// Name of each.
    pub name: &'static str,
    /// Size of the stack of each, bytes.
    pub stack_bytes: usize,
    /// Error of a thread that cannot be started.
    pub fault: fn(io::Error) -> WorkError,
}

#[derive(Debug)]
struct Asks<T> {
    /// Asks, by scheduler.
    each: Vec<Ask<T>>,
    /// The first that is given something, if it asks.
    next: usize,
}

#[derive(Debug)]
struct Ask<T> {
    /// Connections that it would take; 0: it does not ask.
    room: usize,
    given: Vec<T>,
}

impl<T> Peers<T> {
    /// Peers of `count` schedulers.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new(count: usize, steals: bool) -> io::Result<Self> {
        let bells = (0..count).map(|_| Bell::new()).collect::<io::Result<Vec<Bell>>>()?;
        let each = (0..count).map(|_| Ask { room: 0, given: Vec::new() }).collect();
        Ok(Self {
            steals,
            asks: Mutex::new(Asks { each, next: 0 }),
            asking: AtomicUsize::new(0),
            bells,
            failed: OnceLock::new(),
        })
    }

    /// Runs the `first` scheduler in this thread, and the `life` of each other in one of its own.
    /// If one of them fails, all end.
    pub fn run(
        &self,
        threads: PeerThreads<'_>,
        first: impl FnOnce() -> Result<(), WorkError>,
        life: impl Fn(usize) -> Result<(), WorkError> + Sync,
    ) where
        T: Send,
    {
        let PeerThreads { env, process, name, stack_bytes, fault } = threads;
        let end = &|ended: Result<(), WorkError>| ended.unwrap_or_else(|error| self.fail(error));
        let life = &|at| end(life(at));
        units::scope(env, process, |scope| {
            for at in 1..self.bells.len() {
                let started = units::spawn(scope, name, stack_bytes, move || life(at));
                end(started.map_err(fault));
            }
            end(first());
        });
    }

    /// Returns the reason why all of them have ended, if one had failed.
    ///
    /// # Errors
    /// That reason.
    pub fn into_result(self) -> Result<(), WorkError> {
        self.failed.into_inner().map_or(Ok(()), Err)
    }

    /// Bell that wakes a scheduler.
    #[must_use]
    pub fn bell(&self, at: usize) -> &Bell {
        &self.bells[at]
    }

    /// Wakes all others, to check what the master wants.
    pub fn wake_others(&self, at: usize) {
        let others = self.bells.iter().enumerate().filter(|(other, _)| *other != at);
        others.for_each(|(_, bell)| bell.ring());
    }

    /// Ends all, because one of them cannot continue.
    pub fn fail(&self, error: WorkError) {
        // The first says why.
        let _ = self.failed.set(error);
        self.bells.iter().for_each(Bell::ring);
    }

    /// Reason why all of them end, if one has failed.
    #[must_use]
    pub fn failure(&self) -> Option<&WorkError> {
        self.failed.get()
    }

    /// Asks for at most `room` connections, one at least, for a scheduler that is about to wait. A
    /// given connection wakes it.
    pub fn ask(&self, at: usize, room: usize) {
        let mut asks = lock(&self.asks);
        debug_assert!(room > 0 && asks.each[at].room == 0, "it asks once, before it waits");
        asks.each[at].room = room;
        self.asking.fetch_add(1, Relaxed);
    }

    /// A scheduler has waited: it does not ask any more, and has what it has been given.
    pub fn stop_asking(&self, at: usize, into: &mut VecDeque<T>) {
        let mut asks = lock(&self.asks);
        let ask = &mut asks.each[at];
        if mem::take(&mut ask.room) > 0 {
            self.asking.fetch_sub(1, Relaxed);
        }
        into.extend(ask.given.drain(..));
    }

    /// True if a scheduler asks, or did a moment ago.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asking.load(Relaxed) > 0
    }

    /// Gives a connection to one of those that ask, if any still does and there is one to give.
    pub fn give(&self, connection: impl FnOnce() -> Option<T>) -> bool {
        let mut asks = lock(&self.asks);
        let Asks { each, next } = &mut *asks;
        let count = each.len();
        let mut in_turn = (0..count).map(|step| (*next + step) % count);
        let Some(to) = in_turn.find(|at| each[*at].room > 0) else { return false };
        // Under the lock: it asks until it has the connection, and has room for it until then.
        let Some(connection) = connection() else { return false };
        *next = (to + 1) % count;
        let ask = &mut each[to];
        ask.room -= 1;
        if ask.room == 0 {
            self.asking.fetch_sub(1, Relaxed);
        }
        if ask.given.is_empty() {
            self.bells[to].ring();
        }
        ask.given.push(connection);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dice::{Dice, SEEDS};
    use regatta_sys::wait::{Interest, ready_now};
    use std::os::fd::AsFd;

    const ITEMS: u32 = 20;

    fn rings(peers: &Peers<u32>, at: usize) -> bool {
        ready_now(peers.bell(at).as_fd(), Interest::READ).unwrap().readable
    }

    /// Every interleaving of what is done under the lock: of schedulers that ask when they have
    /// nothing, take what they were given, and give while they have something.
    #[test]
    fn who_asks_is_woken_and_nothing_is_lost() {
        let (mut stolen, mut refused) = (0, 0);
        for seed in 0..SEEDS {
            let mut dice = Dice::new(seed);
            let count = 2 + dice.below(3);
            let peers: Peers<u32> = Peers::new(count, true).unwrap();
            let mut has: Vec<VecDeque<u32>> = vec![VecDeque::new(); count];
            has[0].extend(0..ITEMS);
            // For how many each has asked; `None` while it runs.
            let mut asked: Vec<Option<usize>> = vec![None; count];
            for _ in 0..300 {
                let at = dice.below(count);
                let mut given = VecDeque::new();
                match asked[at] {
                    None if has[at].is_empty() => {
                        let room = 1 + dice.below(3);
                        peers.ask(at, room);
                        asked[at] = Some(room);
                    }
                    None => {
                        let is_asked = peers.is_asked();
                        assert_eq!(peers.give(|| has[at].pop_front()), is_asked, "seed {seed}");
                        refused += u32::from(!is_asked);
                        peers.stop_asking(at, &mut given);
                        assert!(given.is_empty(), "seed {seed}: it has not asked");
                    }
                    Some(room) => {
                        let rang = rings(&peers, at);
                        peers.bell(at).clear();
                        peers.stop_asking(at, &mut given);
                        assert_eq!(rang, !given.is_empty(), "seed {seed}: who is given wakes");
                        assert!(given.len() <= room, "seed {seed}: {} of {room}", given.len());
                        stolen += given.len();
                        has[at].append(&mut given);
                        asked[at] = None;
                    }
                }
            }
            (0..count).for_each(|at| peers.stop_asking(at, &mut has[at]));
            assert!(!peers.is_asked(), "seed {seed}");
            let mut all: Vec<u32> = has.into_iter().flatten().collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..ITEMS), "seed {seed}: each once");
        }
        assert!(stolen > 1000 && refused > 1000, "{stolen} {refused}");
    }

    #[test]
    fn nothing_is_given_that_is_not_there() {
        let peers: Peers<u32> = Peers::new(2, true).unwrap();
        peers.ask(1, 1);
        assert!(!peers.give(|| None) && !rings(&peers, 1));
        assert!(peers.give(|| Some(7)) && rings(&peers, 1));
        assert!(!peers.is_asked() && !peers.give(|| Some(8)), "it has room for one");
    }

    #[test]
    fn all_hear_of_the_master_and_of_a_failure() {
        let peers: Peers<u32> = Peers::new(3, false).unwrap();
        let ring = || [0, 1, 2].map(|at| rings(&peers, at));
        peers.wake_others(1);
        assert!(ring() == [true, false, true] && peers.failure().is_none());
        peers.fail(WorkError::Poller(io::ErrorKind::OutOfMemory.into()));
        peers.fail(WorkError::Helpers(io::ErrorKind::OutOfMemory.into()));
        assert_eq!(ring(), [true; 3]);
        assert!(matches!(peers.failure(), Some(WorkError::Poller(_))), "{:?}", peers.failure());
        assert!(matches!(peers.into_result(), Err(WorkError::Poller(_))));
    }
}
