//! Locks over shared words that outlive their holders.
//!
//! A lock's word names its holder. A waiter checks now and then whether the holder lives. It takes
//! the lock over from a dead one, and its [`Grip`] says so. It then repairs what the lock guards,
//! or [poisons](Grip::poison) the lock: then every other waiter finds a dead holder as well. A
//! waiter that repairs under another lock must poison: while it waits there, its own stamp would
//! keep the others waiting here.
//!
//! Others wait as long as a lock is held. So nothing slow may be done under one. In builds with
//! debug assertions every system call but those of the locks themselves checks it.
use super::{Crew, Member, READING, futex, life::DEAD};
use crate::clock;
use rustix::thread::futex::{self as sys, Flags, Timespec};
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

/// A waiter sleeps until the lock is free.
const WAITERS: u32 = 1 << 31;
/// Checks of a busy lock before sleeping, where its holder may be running.
pub(super) const SPINS: u32 = 100;
/// Sleep between two checks of whether the holder lives, nanoseconds.
const LOOK_NS: i64 = 2_000_000;

/// Most waiters that futex(2) can wake.
const EVERY_WAITER: u32 = i32::MAX.unsigned_abs();

/// Cost of a lock to its taker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockCost {
    /// Another holder had it.
    pub contended: bool,
    /// Nanoseconds until it was free.
    pub ns: u64,
}

/// A lock in hand, until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct Grip<'a> {
    member: &'a Member,
    word: &'a AtomicU64,
    kind: Kind,
    /// The previous holder died with it: what it guards may be half changed.
    pub died: bool,
    /// Time that the lock took to get.
    pub waited: LockCost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Exclusive,
    Reading,
}

impl<'a> Grip<'a> {
    #[inline]
    fn new(member: &'a Member, word: &'a AtomicU64, kind: Kind) -> Self {
        held::increment();
        Self { member, word, kind, died: false, waited: LockCost::default() }
    }

    /// Leaves the lock to a dead holder, as it was found, and wakes all waiters: each finds it so.
    /// Whatever makes the guarded words consistent then [resets](reset) the lock.
    ///
    /// # Panics
    /// If it is a lock for reading.
    pub fn poison(self) {
        assert_eq!(self.kind, Kind::Exclusive, "only a lock held alone can be poisoned");
        let word = futex(self.word);
        if word.swap(DEAD, SeqCst) & WAITERS != 0 {
            wake(word, EVERY_WAITER);
        }
        held::decrement();
        std::mem::forget(self);
    }

    /// Leaves the lock taken, like a process that is killed while it holds it.
    #[cfg(feature = "test-hooks")]
    pub fn leave(self) {
        held::decrement();
        std::mem::forget(self);
    }
}

/// Frees a lock that no process waits for, whatever its state.
pub fn reset(word: &AtomicU64) {
    futex(word).store(0, Relaxed);
}

/// Checks that this thread holds no lock. Call it before anything that others should not wait for.
///
/// # Panics
/// In builds with debug assertions, if this thread holds such a lock.
#[inline]
#[track_caller]
pub fn assert_unlocked() {
    held::assert_none();
}

/// True if this thread holds such a lock; always false without debug assertions.
#[cfg(feature = "test-hooks")]
pub(crate) fn is_locked() -> bool {
    held::has_any()
}

/// Count of locks that this thread holds.
#[cfg(debug_assertions)]
mod held {
    use std::cell::Cell;

    thread_local! {
        static LOCKS: Cell<u32> = const { Cell::new(0) };
    }

    pub(super) fn increment() {
        LOCKS.set(LOCKS.get() + 1);
    }

    pub(super) fn decrement() {
        LOCKS.set(LOCKS.get() - 1);
    }

    #[cfg(feature = "test-hooks")]
    pub(super) fn has_any() -> bool {
        LOCKS.get() > 0
    }

    #[track_caller]
    pub(super) fn assert_none() {
        // A drop during a panic is no reason for another panic.
        let none = LOCKS.get() == 0 || std::thread::panicking();
        assert!(none, "others wait for the locks that are held meanwhile");
    }
}

#[cfg(not(debug_assertions))]
mod held {
    pub(super) const fn increment() {}
    pub(super) const fn decrement() {}
    #[cfg(feature = "test-hooks")]
    pub(super) const fn has_any() -> bool {
        false
    }
    pub(super) const fn assert_none() {}
}

impl Drop for Grip<'_> {
    #[inline]
    fn drop(&mut self) {
        held::decrement();
        match self.kind {
            Kind::Exclusive => {
                let word = futex(self.word);
                if word.swap(0, Release) & WAITERS != 0 {
                    wake(word, 1);
                }
            }
            Kind::Reading => self.member.stop_reading(self.word),
        }
    }
}

impl Member {
    /// Takes a lock exclusively.
    #[inline]
    pub fn lock<'a>(&'a self, word: &'a AtomicU64) -> Grip<'a> {
        let mut grip = Grip::new(self, word, Kind::Exclusive);
        if futex(word).compare_exchange(0, self.stamp, SeqCst, Relaxed).is_err() {
            (grip.died, grip.waited.ns) = self.lock_slowly(futex(word));
            grip.waited.contended = true;
        }
        grip
    }

    #[cold]
    fn lock_slowly(&self, word: &AtomicU32) -> (bool, u64) {
        let start = clock::nanos();
        for _ in 0..self.crew.spins {
            std::hint::spin_loop();
            if word.load(Relaxed) == 0
                && word.compare_exchange(0, self.stamp, SeqCst, Relaxed).is_ok()
            {
                return (false, clock::nanos() - start);
            }
        }
        loop {
            let now = word.load(SeqCst);
            let died = now != 0 && self.crew.is_dead(now & !WAITERS);
            if now == 0 || died {
                // Others may sleep: this holder wakes them when it is done.
                let mine = self.stamp | WAITERS;
                if word.compare_exchange(now, mine, SeqCst, Relaxed).is_ok() {
                    return (died, clock::nanos() - start);
                }
                continue;
            }
            let marked = now | WAITERS;
            if now == marked || word.compare_exchange(now, marked, SeqCst, Relaxed).is_ok() {
                wait(word, marked);
            }
        }
    }

    /// Takes a reader-writer lock for reading: alongside other readers, and not while one writes.
    ///
    /// If its writer died, this is the lock for writing instead, and says so.
    #[inline]
    pub fn read<'a>(&'a self, word: &'a AtomicU64) -> Grip<'a> {
        let reading = futex(&self.crew.berth(self.worker)[READING]);
        reading.store(1, SeqCst);
        if futex(word).load(SeqCst) == 0 {
            return Grip::new(self, word, Kind::Reading);
        }
        self.read_slowly(word)
    }

    #[cold]
    fn read_slowly<'a>(&'a self, word: &'a AtomicU64) -> Grip<'a> {
        let reading = futex(&self.crew.berth(self.worker)[READING]);
        let mut ns = 0;
        loop {
            reading.store(0, SeqCst);
            wake(reading, 1);
            let mut writing = self.lock(word);
            ns += writing.waited.ns;
            if writing.died {
                self.crew.await_readers(self.worker);
                writing.waited = LockCost { contended: true, ns };
                return writing;
            }
            drop(writing);
            reading.store(1, SeqCst);
            if futex(word).load(SeqCst) == 0 {
                let mut grip = Grip::new(self, word, Kind::Reading);
                grip.waited = LockCost { contended: true, ns };
                return grip;
            }
        }
    }

    /// Takes a reader-writer lock for writing: no other worker reads or writes.
    pub fn write<'a>(&'a self, word: &'a AtomicU64) -> Grip<'a> {
        let mut grip = self.lock(word);
        let start = clock::nanos();
        if self.crew.await_readers(self.worker) {
            grip.waited.contended = true;
            grip.waited.ns += clock::nanos() - start;
        }
        grip
    }

    #[inline]
    fn stop_reading(&self, word: &AtomicU64) {
        let reading = futex(&self.crew.berth(self.worker)[READING]);
        reading.store(0, Release);
        // A writer that arrives now and is not seen here checks again after a while.
        if futex(word).load(Acquire) != 0 {
            wake(reading, 1);
        }
    }
}

impl Crew {
    /// Waits until no other worker reads; true if one did. Resets the share of a dead reader.
    fn await_readers(&self, me: usize) -> bool {
        let mut waited = false;
        for worker in (0..self.workers).filter(|worker| *worker != me) {
            let reading = futex(&self.berth(worker)[READING]);
            let mut looks = 0;
            while reading.load(SeqCst) != 0 {
                waited = true;
                looks += 1;
                if looks < self.spins {
                    std::hint::spin_loop();
                } else if self.lives(worker) {
                    wait(reading, 1);
                } else {
                    reading.store(0, SeqCst);
                }
            }
        }
        waited
    }
}

fn wait(word: &AtomicU32, value: u32) {
    let time = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };
    // Whatever ends the wait, the caller checks the word again.
    let _ = sys::wait(word, Flags::empty(), value, Some(&time));
}

fn wake(word: &AtomicU32, most: u32) {
    let _ = sys::wake(word, Flags::empty(), most);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{affinity, crew};

    #[test]
    fn nobody_spins_where_the_holder_cannot_run() {
        let spins = || {
            let memory = crew::create_words(Crew::count_words(2, 64)).unwrap();
            Crew::create(memory.words(), 2, 64).unwrap().spins
        };
        let allowed = affinity::allowed().unwrap();
        assert_eq!(spins(), if allowed.len() > 1 { SPINS } else { 0 });
        std::thread::scope(|scope| {
            scope.spawn(|| {
                affinity::pin(&allowed[..1]).unwrap();
                assert_eq!(spins(), 0);
            });
        });
    }

    /// Runs `call` while it holds one lock of each kind.
    fn under_locks(call: impl FnOnce(&'static Member)) {
        let books = Crew::count_words(1, 64);
        let memory = crew::create_words(books + 32).unwrap();
        let (books, words) = memory.words().split_at(books);
        let member = Crew::create(books, 1, 64).unwrap().enter(0).unwrap();
        member.lock(&words[0]).leave();
        assert_unlocked();
        let grips = [member.read(&words[8]), member.lock(&words[16])];
        call(member);
        drop(grips);
        assert_unlocked();
    }

    #[test]
    fn locks_are_taken_and_given_back() {
        under_locks(|_| {});
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "others wait")]
    fn nobody_rings_under_a_lock() {
        let bell = crate::Bell::new().unwrap();
        under_locks(|_| bell.ring());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "others wait")]
    fn nobody_closes_under_a_lock() {
        under_locks(|member| {
            member.cache(63);
            member.retire(63);
            member.close_unused(63);
        });
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "others wait")]
    fn nobody_makes_calls_under_a_lock() {
        under_locks(|_| {
            let _ = crate::retry_interrupted(crate::hook::Call::Read, || Ok(()));
        });
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "others wait")]
    fn nobody_makes_a_file_of_a_lease_under_a_lock() {
        under_locks(|member| {
            member.cache(63);
            let lease = member.lease(63).expect("the cache holds it");
            drop(lease.file(regatta_op::FileId::default()));
        });
    }
}
