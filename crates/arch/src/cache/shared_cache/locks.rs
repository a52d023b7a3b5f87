//! The locks of a shared cache, and what is left to do after they are released.
use super::{
    Locking, SharedCache,
    layout::{BYTES, DESCRIPTORS, HEAP_LOCK, POISONED, TABLE_LOCK, UPDATING},
    table::Node,
};
use regatta_metrics::{Counter, Tally};
use regatta_origin::Rank;
use regatta_sys::{
    Bell,
    crew::{self, Grip},
};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of files given up after which the other processes are notified to close them.
const RETIRED_PER_BELL: u64 = 64;

/// The holder of an inner lock died while it had the lock.
pub(super) struct Died;

impl SharedCache<'_> {
    /// Takes the table's lock for a lookup: for reading, if the cache has two tiers of locks.
    #[inline]
    pub(super) fn table_lock(&self, tally: &Tally<'_>) -> Grip<'_> {
        let word = &self.layout().header[TABLE_LOCK];
        count(
            tally,
            match self.region.locking {
                Locking::Global => self.member.lock(word),
                Locking::TwoTier => self.member.read(word),
            },
        )
    }

    /// Changes the table under its lock for writing (*exclusively*), and then settles. If a process
    /// died with a lock, the cache is emptied first, and `change` gets `true`.
    pub(super) fn exclusively(&self, tally: &Tally<'_>, change: impl FnOnce(bool)) {
        let word = &self.layout().header[TABLE_LOCK];
        let grip = count(
            tally,
            match self.region.locking {
                Locking::Global => self.member.lock(word),
                Locking::TwoTier => self.member.write(word),
            },
        );
        // No live process is changing an entry now.
        let left = [UPDATING, POISONED].map(|at| self.layout().header[at].load(Relaxed));
        let unclear = grip.died || left != [0, 0];
        if unclear {
            self.clear_up(tally);
        }
        change(unclear);
        drop(grip);
        self.settle(tally);
    }

    /// Settles: follows the changes, and closes files that they gave up. Under no lock.
    pub(super) fn settle(&self, tally: &Tally<'_>) {
        // Unpacked entries of this process need not keep these files open.
        self.follow(tally);
        if self.emptied.take() {
            self.member.close_all_unused();
        }
        let mut given_up = self.given_up.borrow_mut();
        let retired = self.retired.get() + given_up.len() as u64;
        given_up.drain(..).for_each(|number| self.member.close_unused(number));
        self.retired.set(retired % RETIRED_PER_BELL);
        if retired >= RETIRED_PER_BELL {
            // The others follow the changes before they wait again.
            self.bells.iter().for_each(Bell::ring);
        }
    }

    /// Empties the cache, because a process died in the middle of a change, and resets the locks of
    /// entries and heap, which that process may have held. Exclusively; to be settled.
    pub(super) fn clear_up(&self, tally: &Tally<'_>) {
        tally.add(Counter::CacheRepairs, 1);
        self.empty(tally);
    }

    /// Removes all entries. Exclusively; to be settled.
    pub(super) fn empty(&self, tally: &Tally<'_>) {
        let layout = self.layout();
        let entries: u64 =
            Rank::ALL.into_iter().map(|rank| layout.shelf(rank).len().load(Relaxed)).sum();
        tally.add(Counter::CacheEntriesRemoved, entries);
        tally.add(Counter::CacheBytesRemoved, layout.header[BYTES].load(Relaxed));
        tally.add(Counter::CacheFdsRemoved, layout.header[DESCRIPTORS].load(Relaxed));
        layout.clear();
        crew::reset(&layout.header[HEAP_LOCK]);
        [UPDATING, POISONED].iter().for_each(|at| layout.header[*at].store(0, Relaxed));
        self.member.retire_all();
        self.emptied.set(true);
    }

    /// Empties the cache, after the holder of an entry's or the heap's lock has been found dead,
    /// unless another process was faster. Not under the table's lock.
    #[cold]
    pub(super) fn repair(&self, tally: &Tally<'_>) {
        self.exclusively(tally, |_| {});
    }

    /// The lock of an entry, if entries have locks; an error if its holder died. Under the table's
    /// lock, which the caller releases before the [repair](SharedCache::repair).
    #[inline]
    pub(super) fn entry_lock(
        &self,
        node: Node,
        tally: &Tally<'_>,
    ) -> Result<Option<Grip<'_>>, Died> {
        self.inner_lock(node.lock(), tally)
    }

    pub(super) fn heap_lock(&self, tally: &Tally<'_>) -> Result<Option<Grip<'_>>, Died> {
        self.inner_lock(&self.layout().header[HEAP_LOCK], tally)
    }

    #[inline]
    fn inner_lock<'g>(
        &'g self,
        word: &'g AtomicU64,
        tally: &Tally<'_>,
    ) -> Result<Option<Grip<'g>>, Died> {
        if self.region.locking == Locking::Global {
            return Ok(None);
        }
        let grip = count(tally, self.member.lock(word));
        if grip.died {
            // Others may wait for this lock as readers of the table, for which the process that
            // empties the cache waits: they must find the dead holder too.
            self.layout().header[POISONED].store(1, Relaxed);
            grip.poison();
            return Err(Died);
        }
        Ok(Some(grip))
    }

    /// Gives up a file of the cache. Under the lock of its entry; to be settled.
    pub(super) fn give_up(&self, file: u64) {
        let number = u32::try_from(file - 1).expect("a descriptor");
        self.member.retire(number);
        self.given_up.borrow_mut().push(number);
    }
}

/// Enters in the tally what a lock has cost.
#[inline]
fn count<'g>(tally: &Tally<'_>, grip: Grip<'g>) -> Grip<'g> {
    tally.add(Counter::LockAcquisitions, 1);
    if grip.waited.contended {
        tally.add(Counter::LockContended, 1);
        tally.add(Counter::LockWaitNs, grip.waited.ns);
        // A lock that was free at once had no holder, dead or alive.
        tally.add(Counter::LockHoldersDied, u64::from(grip.died));
    }
    grip
}
