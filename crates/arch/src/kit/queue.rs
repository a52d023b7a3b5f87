//! Hand-overs between threads: a queue from which any free thread takes, and returns for one owner
//! with a poller.
#[cfg(test)]
mod schedule;

use regatta_metrics::{Counter, Tally};
use regatta_sys::{Bell, clock};
use std::{
    collections::VecDeque,
    io, mem,
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

/// Items for which there is room from the beginning.
const ROOM: usize = 1024;

/// Items in the order in which they were put.
#[derive(Debug)]
pub struct Queue<T> {
    state: Mutex<Queued<T>>,
    /// Notified of an item if somebody waits for one, and of the end.
    changed: Condvar,
    /// How many items there are, to be read without the lock.
    len: AtomicUsize,
    most: usize,
}

#[derive(Debug)]
struct Queued<T> {
    /// Each with the time at which it was put, nanoseconds.
    items: VecDeque<(T, u64)>,
    /// Threads that wait for an item: a notification that nobody waits for costs a call.
    waiting: usize,
    closed: bool,
}

impl<T> Queue<T> {
    /// An empty queue that takes so many items.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let items = VecDeque::with_capacity(most.min(ROOM));
        let state = Mutex::new(Queued { items, waiting: 0, closed: false });
        Self { state, changed: Condvar::new(), len: AtomicUsize::new(0), most }
    }

    /// Puts an item behind all others, and wakes one thread that waits for it.
    ///
    /// # Errors
    /// The item, if the queue is full or closed.
    pub fn put(&self, item: T, tally: Tally<'_>) -> Result<(), T> {
        let mut state = lock(&self.state);
        let before = state.items.len();
        if state.closed || before >= self.most {
            drop(state);
            tally.add(Counter::QueueRefused, 1);
            return Err(item);
        }
        state.items.push_back((item, clock::nanos()));
        self.len.store(before + 1, Relaxed);
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.changed.notify_one();
        }
        tally.add(Counter::QueuePuts, 1);
        tally.add(Counter::QueueLenSum, before as u64);
        tally.max(Counter::QueueLenMax, before as u64 + 1);
        Ok(())
    }

    /// Takes the first item, and waits for one so long at most; `None` if none has come, or the
    /// queue is closed.
    pub fn take(&self, patience: Duration, tally: Tally<'_>) -> Option<T> {
        let mut state = lock(&self.state);
        if state.items.is_empty() && !state.closed {
            state.waiting += 1;
            let nothing = |state: &mut Queued<T>| state.items.is_empty() && !state.closed;
            let waited = self.changed.wait_timeout_while(state, patience, nothing);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
        self.pop(state, tally)
    }

    /// Takes the first item, if there is one.
    pub fn try_take(&self, tally: Tally<'_>) -> Option<T> {
        self.pop(lock(&self.state), tally)
    }

    fn pop(&self, mut state: MutexGuard<'_, Queued<T>>, tally: Tally<'_>) -> Option<T> {
        let (item, since) = state.items.pop_front()?;
        self.len.store(state.items.len(), Relaxed);
        drop(state);
        tally.add(Counter::QueueWaitNs, clock::nanos().saturating_sub(since));
        Some(item)
    }

    /// How many items there are, or were a moment ago.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// True if there are none, or were none a moment ago.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if nothing will come any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// Takes no more items, wakes all who wait for one, and says what was still there.
    pub fn close(&self) -> Vec<T> {
        let mut state = lock(&self.state);
        state.closed = true;
        let left = mem::take(&mut state.items);
        self.len.store(0, Relaxed);
        drop(state);
        self.changed.notify_all();
        left.into_iter().map(|(item, _)| item).collect()
    }
}

/// Results for one owner, who collects them between two waits of a poller. A bell wakes the owner:
/// it is rung once for each wait that a result ends, and not at all while the owner is awake.
#[derive(Debug)]
pub struct Returns<R> {
    state: Mutex<Returned<R>>,
    bell: Bell,
}

#[derive(Debug)]
struct Returned<R> {
    results: VecDeque<R>,
    owner: Owner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Awake,
    Asleep,
    /// The bell has been rung, and not been cleared.
    Woken,
}

impl<R> Returns<R> {
    /// No results yet.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new() -> io::Result<Self> {
        let state = Returned { results: VecDeque::with_capacity(ROOM), owner: Owner::Awake };
        Ok(Self { state: Mutex::new(state), bell: Bell::new()? })
    }

    /// Adds a result, and wakes the owner.
    pub fn put(&self, result: R) {
        let mut state = lock(&self.state);
        state.results.push_back(result);
        if state.owner == Owner::Asleep {
            state.owner = Owner::Woken;
            // Under the lock: whoever sees that it was rung can clear it.
            self.bell.ring();
        }
    }

    /// The next result, if there is one.
    pub fn next(&self) -> Option<R> {
        lock(&self.state).results.pop_front()
    }

    /// Before the owner waits: false if there are results, which come first. From now on a result
    /// rings the bell.
    pub fn falls_asleep(&self) -> bool {
        let mut state = lock(&self.state);
        let is_to_wait = state.results.is_empty();
        if is_to_wait && state.owner == Owner::Awake {
            state.owner = Owner::Asleep;
        }
        is_to_wait
    }

    /// After the owner has waited: results ring no more.
    pub fn wakes(&self) {
        if mem::replace(&mut lock(&self.state).owner, Owner::Awake) == Owner::Woken {
            self.bell.clear();
        }
    }

    /// What the owner's poller watches.
    pub fn source(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// A panic leaves nothing behind that is half done.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
