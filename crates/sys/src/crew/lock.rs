//! Locks over shared words that outlive whoever holds them.
//!
//! A lock's word names its holder. Who waits looks now and then whether the holder lives, and takes
//! the lock over from the dead: it is told, and makes consistent what the lock guards.
use super::{Crew, Member, READING, futex};
use crate::clock;
use rustix::thread::futex::{self as sys, Flags, Timespec};
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

/// Somebody sleeps until the lock is free.
const WAITERS: u32 = 1 << 31;
/// How often a busy lock is looked at before sleeping.
const SPINS: u32 = 100;
/// How long to sleep before looking whether the holder lives, nanoseconds.
const LOOK_NS: i64 = 2_000_000;

/// What a lock cost whoever took it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// Somebody else had it.
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
    /// The one before died with it: what it guards may be half changed.
    pub died: bool,
    /// What it cost.
    pub waited: Waited,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Exclusive,
    Reading,
}

impl Grip<'_> {
    /// Leaves the lock as it is: whoever makes what it guards consistent resets it.
    pub fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for Grip<'_> {
    #[inline]
    fn drop(&mut self) {
        match self.kind {
            Kind::Exclusive => {
                let word = futex(self.word);
                if word.swap(0, Release) & WAITERS != 0 {
                    wake(word);
                }
            }
            Kind::Reading => self.member.stop_reading(self.word),
        }
    }
}

impl Member {
    /// Takes a lock, alone.
    #[inline]
    pub fn lock<'a>(&'a self, word: &'a AtomicU64) -> Grip<'a> {
        let mut grip = Grip {
            member: self,
            word,
            kind: Kind::Exclusive,
            died: false,
            waited: Waited::default(),
        };
        if futex(word).compare_exchange(0, self.stamp, SeqCst, Relaxed).is_err() {
            (grip.died, grip.waited.ns) = self.lock_slowly(futex(word));
            grip.waited.contended = true;
        }
        grip
    }

    #[cold]
    fn lock_slowly(&self, word: &AtomicU32) -> (bool, u64) {
        let start = clock::nanos();
        for _ in 0..SPINS {
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
                // Others may sleep: they are woken when this holder is done.
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

    /// Takes a reader-writer lock for reading: with others who read, and not while one writes.
    ///
    /// If its writer died, this is the lock for writing instead, and says so.
    #[inline]
    pub fn read<'a>(&'a self, word: &'a AtomicU64) -> Grip<'a> {
        let reading = futex(&self.crew.berth(self.worker)[READING]);
        reading.store(1, SeqCst);
        if futex(word).load(SeqCst) == 0 {
            let waited = Waited::default();
            return Grip { member: self, word, kind: Kind::Reading, died: false, waited };
        }
        self.read_slowly(word)
    }

    #[cold]
    fn read_slowly<'a>(&'a self, word: &'a AtomicU64) -> Grip<'a> {
        let reading = futex(&self.crew.berth(self.worker)[READING]);
        let mut ns = 0;
        loop {
            reading.store(0, SeqCst);
            wake(reading);
            let mut writing = self.lock(word);
            ns += writing.waited.ns;
            if writing.died {
                self.crew.await_readers(self.worker);
                writing.waited = Waited { contended: true, ns };
                return writing;
            }
            drop(writing);
            reading.store(1, SeqCst);
            if futex(word).load(SeqCst) == 0 {
                let waited = Waited { contended: true, ns };
                return Grip { member: self, word, kind: Kind::Reading, died: false, waited };
            }
        }
    }

    /// Takes a reader-writer lock for writing: nobody else reads or writes.
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
        // A writer that came this moment and is not seen here looks again after a while.
        if futex(word).load(Acquire) != 0 {
            wake(reading);
        }
    }
}

impl Crew {
    /// Waits until no other worker reads; true if one did. A dead reader's share is taken back.
    fn await_readers(&self, me: usize) -> bool {
        let mut waited = false;
        for worker in (0..self.workers).filter(|worker| *worker != me) {
            let reading = futex(&self.berth(worker)[READING]);
            let mut looks = 0;
            while reading.load(SeqCst) != 0 {
                waited = true;
                looks += 1;
                if looks < SPINS {
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
    // Whatever ends it, the caller looks at the word again.
    let _ = sys::wait(word, Flags::empty(), value, Some(&time));
}

fn wake(word: &AtomicU32) {
    let _ = sys::wake(word, Flags::empty(), 1);
}
