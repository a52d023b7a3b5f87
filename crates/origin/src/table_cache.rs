//! A cache in private memory: a hash table with SIEVE eviction, bounded in every dimension. It
//! belongs to one worker, or the threads of a process share it: only the locks differ.
mod table;

use self::table::{AgedEntry, Expired, NamedEntry, Table};
use crate::{
    Cache, CacheTotals, CachingRules, Entry, Lookup, RELIEF_ENTRIES, Rank, Representation, Sweep,
};
use alloc::sync::Arc;
use core::{cell::RefCell, fmt, hash::BuildHasher, mem, sync::atomic::AtomicU64};
use foldhash::fast::FixedState;
use regatta_metrics::{Counter, Tally};
use regatta_op::{File, Tick};

/// A cache private to one worker: without locks.
pub type LocalCache<F> = TableCache<F, OneThread>;

/// A cache with one readers' lock for its names and a lock for each entry ([S] §4).
///
/// A hit takes these two. SIEVE ([`crate::Queue`]) chooses the entry to evict. Evicted entries are
/// dropped, and files closed, under no lock.
pub struct TableCache<F, L: Locks> {
    rules: CachingRules,
    hasher: FixedState,
    table: L::Of<Table<F, L>>,
    sweep_on: AtomicU64,
    sweep_at: AtomicU64,
}

/// The kind of lock that guards a [`TableCache`].
pub trait Locks {
    /// A lock around a value.
    type Of<T>: Lock<T>;
    /// True if several threads use the guarded value.
    const SHARED: bool;
}

/// A value that several may see at once, and one may change.
pub trait Lock<T> {
    /// A lock around `value`.
    fn new(value: T) -> Self;

    /// Calls `see` with the value. The cost of locking is counted in the tally, if there is one.
    fn read<R>(&self, tally: Option<&Tally<'_>>, see: impl FnOnce(&T) -> R) -> R;

    /// Calls `change` with exclusive access to the value.
    fn write<R>(&self, tally: &Tally<'_>, change: impl FnOnce(&mut T) -> R) -> R;

    /// The value, for the only owner of the lock.
    fn get_mut(&mut self) -> &mut T;
}

/// No locks: the cache stays in one thread.
#[derive(Debug)]
pub struct OneThread;

impl Locks for OneThread {
    type Of<T> = RefCell<T>;
    const SHARED: bool = false;
}

impl<T> Lock<T> for RefCell<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    #[inline]
    fn read<R>(&self, _tally: Option<&Tally<'_>>, see: impl FnOnce(&T) -> R) -> R {
        see(&self.borrow())
    }

    #[inline]
    fn write<R>(&self, _tally: &Tally<'_>, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.borrow_mut())
    }

    fn get_mut(&mut self) -> &mut T {
        self.get_mut()
    }
}

impl<F: File, L: Locks> TableCache<F, L> {
    /// An empty cache within `rules`, hashing with `seed` ([`crate::Site::seed`]).
    #[must_use]
    pub fn new(rules: &CachingRules, seed: u64) -> Self {
        Self {
            rules: rules.clone(),
            hasher: FixedState::with_seed(seed),
            table: L::Of::new(Table::new()),
            sweep_on: AtomicU64::new(0),
            sweep_at: AtomicU64::new(0),
        }
    }

    fn totals(&self) -> CacheTotals {
        self.table.read(None, |table| *table.totals())
    }

    /// Files and directories in the cache.
    #[must_use]
    pub fn entries(&self) -> usize {
        let [held, open, _] = self.totals().entries;
        held + open
    }

    /// Negative entries in the cache.
    #[must_use]
    pub fn negatives(&self) -> usize {
        self.totals().entries[Rank::Negative as usize]
    }

    /// Descriptors held.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.totals().descriptors
    }

    /// Memory for names, heads and bodies, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.totals().bytes
    }

    /// The longest time that an entry has not been used; for tests.
    #[must_use]
    pub fn idle_ms(&self, now: Tick) -> u64 {
        self.table.read(None, |table| table.idle_ms(now))
    }

    /// Checks that the queues, the table and the sums agree; for tests.
    ///
    /// # Panics
    /// If they do not.
    pub fn check_invariants(&self) {
        self.table.read(None, |table| table.check_invariants(&self.rules));
    }

    #[inline]
    fn hash(&self, path: &[u8]) -> u64 {
        self.hasher.hash_one(path)
    }

    /// Changes the table with exclusive access, and drops removed entries afterwards.
    fn change<R>(&self, tally: &Tally<'_>, change: impl FnOnce(&mut Table<F, L>) -> R) -> R {
        let (result, _gone) = self.table.write(tally, |table| (change(table), table.take_gone()));
        result
    }
}

impl<F: File, L: Locks> Cache<F> for TableCache<F, L> {
    #[inline]
    fn get(&self, path: &[u8], now: Tick, tally: &Tally<'_>) -> Lookup<F> {
        tally.add(Counter::CacheLookups, 1);
        let (hash, rules) = (self.hash(path), &self.rules);
        let found = self.table.read(Some(tally), |table| {
            let held = table.find(hash, path)?;
            held.used().visit(now, 0);
            Some(held.aged.write(tally, |aged| aged.look_up(now, rules, tally)))
        });
        match found {
            Some(Ok(lookup)) => return lookup,
            Some(Err(Expired)) => self.change(tally, |table| {
                table.remove_if(hash, path, |aged| aged.is_expired(now, rules), tally);
            }),
            None => {}
        }
        Lookup::Miss
    }

    #[inline]
    fn hit(
        &self,
        path: &[u8],
        now: Tick,
        tally: &Tally<'_>,
        serve: &mut dyn FnMut(&mut Arc<Representation<F>>) -> bool,
    ) -> bool {
        let (hash, rules) = (self.hash(path), &self.rules);
        let served = self.table.read(Some(tally), |table| {
            let Some(held) = table.find(hash, path) else { return false };
            let served = held.aged.write(tally, |aged| aged.serve(now, rules, serve));
            if served {
                held.used().visit(now, 0);
            }
            served
        });
        if served {
            tally.add(Counter::CacheLookups, 1);
            tally.add(Counter::CacheHits, 1);
        }
        served
    }

    fn put(&self, path: &[u8], entry: &Entry<F>, requested_at: Tick, tally: &Tally<'_>) {
        let (hash, cost) = (self.hash(path), NamedEntry::<F, L>::cost(path, entry));
        let mut aged = AgedEntry::new(entry, requested_at);
        // An entry of the same cost is updated in place.
        let done = self.table.read(Some(tally), |table| {
            let Some(held) = table.find(hash, path) else { return false };
            held.aged.write(tally, |old| {
                let mine = old.requested_at <= requested_at && held.cost == cost;
                if mine {
                    mem::swap(old, &mut aged);
                }
                mine
            })
        });
        if !done {
            let held = NamedEntry::new(path, hash, aged, cost);
            self.change(tally, |table| table.put(held, &self.rules, tally));
        }
    }

    fn fill(&self, path: &[u8], file: &Arc<Representation<F>>, tally: &Tally<'_>) {
        let entry = Entry::File(Arc::clone(file));
        let (cost, aged) =
            (NamedEntry::<F, L>::cost(path, &entry), AgedEntry::new(&entry, Tick(0)));
        let held = NamedEntry::new(path, self.hash(path), aged, cost);
        self.change(tally, |table| table.fill(held, &self.rules, tally));
    }

    fn relieve(&self, tally: &Tally<'_>) -> bool {
        self.change(tally, |table| {
            let spared = table.totals().entries[Rank::Open as usize].min(RELIEF_ENTRIES);
            (0..spared).for_each(|_| table.evict(Rank::Open, tally));
            spared > 0
        })
    }

    fn sweep(&self, now: Tick, tally: &Tally<'_>) -> Option<Tick> {
        let (rules, sweep) = (&self.rules, Sweep { on: &self.sweep_on, at: &self.sweep_at });
        let found = self.table.read(Some(tally), |table| {
            sweep.piece(table.nodes(), now, rules, |at| table.is_idle(at, now, rules))
        });
        if !found.is_empty() {
            self.change(tally, |table| {
                // It may have been used since.
                for at in found {
                    if table.is_idle(at, now, rules) {
                        table.remove(at, tally);
                        tally.add(Counter::CacheInactive, 1);
                    }
                }
            });
        }
        self.totals().first().map(|_| sweep.on())
    }

    fn remove(&self, path: &[u8], tally: &Tally<'_>) {
        let hash = self.hash(path);
        self.change(tally, |table| table.remove_if(hash, path, |_| true, tally));
    }

    fn clear(&self, now: Tick, tally: &Tally<'_>) {
        self.change(tally, |table| table.clear(now, tally));
    }

    /// No look-up happens meanwhile.
    fn renew(&self, tally: &Tally<'_>, replace: &mut dyn FnMut() -> Option<Tick>) {
        self.change(tally, |table| {
            if let Some(now) = replace() {
                table.clear(now, tally);
            }
        });
    }

    fn is_shared(&self) -> bool {
        L::SHARED
    }
}

impl<F: File, L: Locks> fmt::Debug for TableCache<F, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableCache").field("totals", &self.totals()).finish_non_exhaustive()
    }
}
