//! Hand-overs between threads: a queue from which any free thread takes, and returns for one owner
//! with a poller.
use crate::sync::{
    Bell, Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering::Relaxed},
    clock, lock,
};
use regatta_metrics::{Counter, Tally};
use std::{
    collections::VecDeque,
    io, mem,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

/// Items for which there is room from the beginning.
const ROOM: usize = 1024;

/// Items in the order in which they were put.
#[derive(Debug)]
pub struct Fifo<T> {
    state: Mutex<Queued<T>>,
    /// Notified of an item if a thread waits for one, and of the end.
    changed: Condvar,
    /// Number of items, to be read without the lock.
    len: AtomicUsize,
    most: usize,
    /// Each put wakes all waiters, and not as many as can have an item.
    wakes_all: bool,
}

#[derive(Debug)]
struct Queued<T> {
    /// Each with the time at which it was put, nanoseconds.
    items: VecDeque<(T, u64)>,
    /// Time up to which the waits of items have been counted, nanoseconds.
    counted: u64,
    /// Threads that wait for an item: a notification without a waiter costs a call.
    waiting: usize,
    /// A waiter, or the next thread that comes, is not to wait, although there is nothing.
    called: bool,
    closed: bool,
}

impl<T> Queued<T> {
    /// The time that all items have waited since this was called last, nanoseconds.
    fn waited(&mut self, now: u64) -> u64 {
        let passed = now.saturating_sub(self.counted);
        self.counted += passed;
        self.items.len() as u64 * passed
    }
}

impl<T> Fifo<T> {
    /// An empty queue that takes at most `most` items.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let items = VecDeque::with_capacity(most.min(ROOM));
        let (waiting, called, closed) = (0, false, false);
        let state = Mutex::new(Queued { items, counted: 0, waiting, called, closed });
        let (changed, len) = (Condvar::new(), AtomicUsize::new(0));
        Self { state, changed, len, most, wakes_all: false }
    }

    /// Each put wakes every thread that waits, as in Sandstorm: one has the item, and the others
    /// find nothing.
    #[must_use]
    pub fn waking_all(mut self) -> Self {
        self.wakes_all = true;
        self
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
        let now = clock::nanos();
        let waited = state.waited(now);
        state.items.push_back((item, now));
        self.has_put(state, before, waited, tally);
        Ok(())
    }

    /// Puts as many as there is room for behind all others, with one lock and in their order, and
    /// wakes as many threads as can take one. What had no room stays in `items`.
    pub fn put_all(&self, items: &mut VecDeque<T>, tally: Tally<'_>) {
        self.put_those(items, |_| true, tally);
    }

    /// Like [`Queue::put_all`], for the items for which `which` says so; the others stay too.
    pub fn put_those(
        &self,
        items: &mut VecDeque<T>,
        mut which: impl FnMut(&T) -> bool,
        tally: Tally<'_>,
    ) {
        let mut state = lock(&self.state);
        let (before, now, mut refused) = (state.items.len(), clock::nanos(), 0);
        let waited = state.waited(now);
        let most = if state.closed { 0 } else { self.most };
        for _ in 0..items.len() {
            let Some(item) = items.pop_front() else { break };
            let is_meant = which(&item);
            if is_meant && state.items.len() < most {
                state.items.push_back((item, now));
            } else {
                refused += u64::from(is_meant);
                items.push_back(item);
            }
        }
        self.has_put(state, before, waited, tally);
        if refused > 0 {
            tally.add(Counter::QueueRefused, refused);
        }
    }

    /// Counts what has been put behind `before` items, which have waited for this long, and wakes
    /// waiters.
    fn has_put(
        &self,
        state: MutexGuard<'_, Queued<T>>,
        before: usize,
        waited: u64,
        tally: Tally<'_>,
    ) {
        let len = state.items.len();
        let (puts, before) = ((len - before) as u64, before as u64);
        self.len.store(len, Relaxed);
        let waiting = state.waiting as u64;
        drop(state);
        if waited > 0 {
            tally.add(Counter::QueueWaitNs, waited);
        }
        if puts == 0 {
            return;
        }
        let wakes = if self.wakes_all { waiting } else { waiting.min(puts) };
        if wakes > 0 {
            tally.add(Counter::QueueWakes, wakes);
            if self.wakes_all {
                self.changed.notify_all();
            } else {
                (0..wakes).for_each(|_| self.changed.notify_one());
            }
        }
        tally.add(Counter::QueuePuts, puts);
        tally.add(Counter::QueueLenSum, puts * before + puts * (puts - 1) / 2);
        tally.max(Counter::QueueLenMax, before + puts);
    }

    /// Takes the first item, waiting `patience` at most; `None` if none has come, or it is closed.
    pub fn take(&self, patience: Duration, tally: Tally<'_>) -> Option<T> {
        self.pop(self.wait(lock(&self.state), patience), tally)
    }

    /// Takes at most `most` items with one lock, and waits for the first as [`Queue::take`] does.
    /// Returns how many.
    pub fn take_batch(
        &self,
        most: usize,
        into: &mut Vec<T>,
        patience: Duration,
        tally: Tally<'_>,
    ) -> usize {
        self.pop_batch(self.wait(lock(&self.state), patience), most, into, tally)
    }

    /// Takes the first item, if there is one.
    pub fn try_take(&self, tally: Tally<'_>) -> Option<T> {
        self.pop(lock(&self.state), tally)
    }

    /// Like [`Queue::take_batch`], of what is there.
    pub fn try_take_batch(&self, most: usize, into: &mut Vec<T>, tally: Tally<'_>) -> usize {
        self.pop_batch(lock(&self.state), most, into, tally)
    }

    /// Waits for an item, or the end, for at most `patience`.
    fn wait<'q>(
        &'q self,
        mut state: MutexGuard<'q, Queued<T>>,
        patience: Duration,
    ) -> MutexGuard<'q, Queued<T>> {
        if !state.items.is_empty() || state.closed {
            return state;
        }
        let since = clock::nanos();
        let mut left = patience;
        state.waiting += 1;
        while state.items.is_empty() && !state.closed && !state.called && !left.is_zero() {
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            left = patience.saturating_sub(Duration::from_nanos(clock::nanos() - since));
        }
        state.waiting -= 1;
        state.called &= !state.items.is_empty();
        state
    }

    fn pop(&self, mut state: MutexGuard<'_, Queued<T>>, tally: Tally<'_>) -> Option<T> {
        if state.items.is_empty() {
            return None;
        }
        let waited = state.waited(clock::nanos());
        let (item, _) = state.items.pop_front()?;
        self.len.store(state.items.len(), Relaxed);
        drop(state);
        tally.add(Counter::QueueTakes, 1);
        tally.add(Counter::QueueWaitNs, waited);
        Some(item)
    }

    fn pop_batch(
        &self,
        mut state: MutexGuard<'_, Queued<T>>,
        most: usize,
        into: &mut Vec<T>,
        tally: Tally<'_>,
    ) -> usize {
        let taken = state.items.len().min(most);
        if taken == 0 {
            return 0;
        }
        let waited = state.waited(clock::nanos());
        into.extend(state.items.drain(..taken).map(|(item, _)| item));
        self.len.store(state.items.len(), Relaxed);
        drop(state);
        tally.add(Counter::QueueVisits, 1);
        tally.add(Counter::QueueTakes, taken as u64);
        tally.add(Counter::QueueWaitNs, waited);
        taken
    }

    /// Counts how long items have waited by now, where none is taken for a while.
    pub fn count_waiting(&self, tally: Tally<'_>) {
        if !self.is_empty() {
            let waited = lock(&self.state).waited(clock::nanos());
            tally.add(Counter::QueueWaitNs, waited);
        }
    }

    /// Takes the items that were put before this time, nanoseconds.
    pub fn take_older(&self, before: u64, into: &mut VecDeque<T>, tally: Tally<'_>) {
        if self.is_empty() {
            return;
        }
        let mut state = lock(&self.state);
        let waited = state.waited(clock::nanos());
        let taken = state.items.partition_point(|(_, since)| *since < before);
        into.extend(state.items.drain(..taken).map(|(item, _)| item));
        self.len.store(state.items.len(), Relaxed);
        drop(state);
        tally.add(Counter::QueueTakes, taken as u64);
        tally.add(Counter::QueueWaitNs, waited);
    }

    /// Wakes a thread that waits here for an item: it is to look elsewhere. If none does, the next
    /// that comes does not wait: it may have looked there before there was anything.
    pub fn call(&self, tally: Tally<'_>) {
        let mut state = lock(&self.state);
        state.called = true;
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            tally.add(Counter::QueueWakes, 1);
            self.changed.notify_one();
        }
    }

    /// Number of items, now or a moment ago.
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

    /// Takes no more items, wakes all waiters, and returns what was still there.
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

/// Results for one owner, which collects them between two waits of a poller. A bell wakes the
/// owner: it rings once for each wait that a result ends, and never while the owner is awake.
#[derive(Debug)]
pub struct Returns<R> {
    state: Mutex<Returned<R>>,
    /// Number of results, to be read without the lock.
    len: AtomicUsize,
    bell: Bell,
}

#[derive(Debug)]
struct Returned<R> {
    results: VecDeque<R>,
    owner: Owner,
    /// The owner is not to fall asleep before it has been awake once more.
    called: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Awake,
    Asleep,
    /// Results do not wake it, but a call does.
    Rests,
    /// The bell has been rung, and not been cleared.
    Woken,
}

impl<R> Returns<R> {
    /// No results yet.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new() -> io::Result<Self> {
        let results = VecDeque::with_capacity(ROOM);
        let state = Mutex::new(Returned { results, owner: Owner::Awake, called: false });
        Ok(Self { state, len: AtomicUsize::new(0), bell: Bell::new()? })
    }

    /// Adds a result, and wakes the owner.
    pub fn put(&self, result: R) {
        let mut state = lock(&self.state);
        state.results.push_back(result);
        self.has_put(state);
    }

    /// Adds results with one lock, and wakes the owner once.
    pub fn put_all(&self, results: &mut VecDeque<R>) {
        if !results.is_empty() {
            let mut state = lock(&self.state);
            state.results.append(results);
            self.has_put(state);
        }
    }

    fn has_put(&self, mut state: MutexGuard<'_, Returned<R>>) {
        self.len.store(state.results.len(), Relaxed);
        if state.owner == Owner::Asleep {
            self.ring(&mut state);
        }
    }

    /// Wakes the owner.
    fn ring(&self, state: &mut Returned<R>) {
        state.owner = Owner::Woken;
        // Under the lock: whoever sees that it was rung can clear it.
        self.bell.ring();
    }

    /// Wakes the owner although there is nothing: it is to check the time, and what the master
    /// wants. If it is awake, it does not sleep before it has checked.
    pub fn wake(&self) {
        let mut state = lock(&self.state);
        state.called = true;
        if matches!(state.owner, Owner::Asleep | Owner::Rests) {
            self.ring(&mut state);
        }
    }

    /// The next result, if there is one.
    pub fn next(&self) -> Option<R> {
        let mut state = lock(&self.state);
        let result = state.results.pop_front()?;
        self.len.store(state.results.len(), Relaxed);
        Some(result)
    }

    /// All results, with one lock. `into` is empty, and its memory serves those that come next: the
    /// set of one stage becomes that of another.
    pub fn take_all(&self, into: &mut VecDeque<R>) {
        debug_assert!(into.is_empty(), "what is there is taken first");
        let mut state = lock(&self.state);
        mem::swap(&mut state.results, into);
        self.len.store(0, Relaxed);
    }

    /// Number of results, now or a moment ago.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// True if there are none, or were none a moment ago.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Before the owner waits: false if there are results, or it has been called, which comes
    /// first. From now on a result rings the bell.
    pub fn falls_asleep(&self) -> bool {
        let mut state = lock(&self.state);
        let is_called = mem::take(&mut state.called);
        let is_to_wait = state.results.is_empty() && !is_called;
        if is_to_wait && state.owner == Owner::Awake {
            state.owner = Owner::Asleep;
        }
        is_to_wait
    }

    /// Before an owner waits that need not be woken for results, because it checks them now and
    /// then anyway: false if it has been called. From now on a call rings the bell.
    pub fn rests(&self) -> bool {
        let mut state = lock(&self.state);
        let is_called = mem::take(&mut state.called);
        if !is_called && state.owner == Owner::Awake {
            state.owner = Owner::Rests;
        }
        !is_called
    }

    /// After the owner has waited: results ring no more. True if the bell has woken it.
    pub fn wakes(&self) -> bool {
        let mut state = lock(&self.state);
        let was_rung = mem::replace(&mut state.owner, Owner::Awake) == Owner::Woken;
        if was_rung {
            state.called = false;
            self.bell.clear();
        }
        was_rung
    }

    /// Descriptor that the owner's poller watches.
    pub fn source(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
