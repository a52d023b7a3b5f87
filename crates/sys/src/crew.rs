//! Processes that share one table of descriptors: owners of numbers, liveness of workers, and
//! cleanup after dead ones.
//!
//! All state is in shared words, so no process has to be asked. The ledger says which process may
//! close a number. No process closes a number while another sends from it.
mod ledger;
mod life;
mod lock;

pub use ledger::{Lease, SweepOutcome};
#[cfg(feature = "test-hooks")]
pub(crate) use lock::is_locked;
pub use lock::{Grip, LockCost, assert_unlocked, reset};

use crate::{affinity, shm};
use std::{
    fmt, io,
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

/// Most workers of a crew.
pub const WORKERS_MAX: usize = 1000;

/// Most descriptors that a crew's ledger covers.
pub const NUMBERS_MAX: usize = 1 << 20;

/// Words per worker: one pair of cache lines, so that workers do not disturb each other.
const BERTH_WORDS: usize = 16;
/// Link of the kernel's list of robust futexes.
const LINK: usize = 0;
/// Futex that the kernel marks when the worker ends.
const LIFE: usize = 1;
/// Number of workers that have had this place.
const INCARNATION: usize = 2;
/// Futex: 1 while the worker reads under a [`Member::read`].
const READING: usize = 3;
/// Odd while the worker takes descriptors that the ledger does not know yet.
const GATE: usize = 4;

const SWEEPING: usize = 0;
/// Highest number that the ledger ever held.
const HIGH: usize = 1;
/// Process that created the crew.
const KEEPER: usize = 2;
/// Count of numbers that the cache has released.
const RETIREMENTS: usize = 8;
const HEADER_WORDS: usize = 16;

/// Shared words of a crew.
#[derive(Clone, Copy)]
pub struct Crew {
    header: &'static [AtomicU64],
    berths: &'static [AtomicU64],
    /// By number: its owner, and the state of its ownership.
    owners: &'static [AtomicU64],
    /// By worker and number: references.
    uses: &'static [AtomicU64],
    workers: usize,
    /// Checks of a busy lock before its taker sleeps.
    spins: u32,
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew")
            .field("workers", &self.workers)
            .field("numbers", &self.owners.len())
            .finish_non_exhaustive()
    }
}

impl Crew {
    /// Words for these workers and numbers, rounded up to whole pairs of cache lines: what follows
    /// begins with a pair.
    #[must_use]
    pub const fn count_words(workers: usize, numbers: usize) -> usize {
        let books = HEADER_WORDS + workers * BERTH_WORDS + numbers + workers * numbers;
        books.next_multiple_of(BERTH_WORDS)
    }

    /// Ledger of `workers` over numbers below `numbers`, in words that are all 0. Marks what this
    /// process has open now as kept by it. The processors that it may use now are those of the
    /// whole crew. If there is only one, a waiter for a lock sleeps at once, because its holder
    /// does not run meanwhile.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    ///
    /// # Panics
    /// If there are fewer words than [`Crew::count_words`], or more workers than [`WORKERS_MAX`].
    pub fn create(words: &'static [AtomicU64], workers: usize, numbers: usize) -> io::Result<Self> {
        assert!(workers <= WORKERS_MAX && numbers <= NUMBERS_MAX, "books have an end");
        let (header, rest) = words.split_at(HEADER_WORDS);
        let (berths, rest) = rest.split_at(workers * BERTH_WORDS);
        let (owners, rest) = rest.split_at(numbers);
        let uses = &rest[..workers * numbers];
        let alone = affinity::allowed().is_ok_and(|cpus| cpus.len() == 1);
        let spins = if alone { 0 } else { lock::SPINS };
        let crew = Self { header, berths, owners, uses, workers, spins };
        header[KEEPER].store(std::process::id().into(), Relaxed);
        crew.keep_what_is_open()?;
        Ok(crew)
    }

    /// Makes this process worker number `worker`. The place stays the process's until it ends,
    /// which the kernel reports.
    ///
    /// # Errors
    /// The kernel has no robust futexes.
    pub fn enter(self, worker: usize) -> io::Result<&'static Member> {
        let stamp = self.sign_on(worker)?;
        // Once per process: files refer to it as long as they are open.
        Ok(Box::leak(Box::new(Member { crew: self, worker, stamp })))
    }

    fn berth(&self, worker: usize) -> &'static [AtomicU64] {
        &self.berths[worker * BERTH_WORDS..][..BERTH_WORDS]
    }

    fn uses(&self, worker: usize, number: usize) -> &'static AtomicU64 {
        &self.uses[worker * self.owners.len() + number]
    }

    /// Numbers that the ledger has ever held.
    fn numbers(&self) -> std::ops::Range<usize> {
        0..self.owners.len().min(low(&self.header[HIGH], Relaxed) as usize + 1)
    }
}

/// This process as one of a crew.
#[derive(Debug)]
pub struct Member {
    crew: Crew,
    worker: usize,
    /// Names this worker and its incarnation.
    stamp: u32,
}

impl Member {
    /// Number of this worker.
    #[must_use]
    pub const fn worker(&self) -> usize {
        self.worker
    }

    /// Name of this worker and its incarnation, as locks and the ledger use it.
    #[must_use]
    pub const fn stamp(&self) -> u32 {
        self.stamp
    }
}

/// Lower half of a word as a futex. Such a word is never used as a whole.
fn futex(word: &AtomicU64) -> &AtomicU32 {
    let half = usize::from(cfg!(target_endian = "big"));
    let half = std::ptr::from_ref(word).cast::<AtomicU32>().wrapping_add(half);
    // SAFETY: the halves of an aligned word lie within it and are aligned for 32 bits; both are
    // atomic, and any bits are valid.
    unsafe { &*half }
}

#[expect(clippy::cast_possible_truncation, reason = "the word holds 32 bits")]
fn low(word: &AtomicU64, order: std::sync::atomic::Ordering) -> u32 {
    word.load(order) as u32
}

/// Shared words for a crew and whatever else it shares, all 0.
///
/// # Errors
/// As [`shm::create`].
pub fn create_words(count: usize) -> io::Result<shm::SharedWords> {
    shm::create_named("regatta-cache", count)
}
