//! A cache for one worker: a hash table with SIEVE eviction, bounded in every dimension.
use crate::{
    Cache, CachingRules, Entry, Link, Lookup, Queue as _, Rank, Representation, Totals, sieve,
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{cell::RefCell, fmt, hash::BuildHasher, mem};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use regatta_metrics::{Counter, Tally};
use regatta_op::{File, Tick};

/// While somebody looks whether a file changed, others are given what is known of it. That ends
/// after so many times [`CachingRules::revalidate_ms`]: then all look for themselves. Otherwise a
/// disk that hangs, or answers later than it is asked again, would keep a stale file for ever.
pub const STALE_PERIODS_MAX: u64 = 4;

/// Files that are closed at a time when descriptors are needed elsewhere.
pub const RELIEF_ENTRIES: usize = 16;

/// Entries that one call of a sweep looks at, and that it forgets: closing a deleted file may take
/// the disk a while.
pub const SWEEP_ENTRIES: usize = 1024;
/// See [`SWEEP_ENTRIES`].
pub const SWEEP_REMOVALS: usize = 32;
/// How long a sweep rests before it goes on, milliseconds.
pub const SWEEP_PAUSE_MS: u64 = 10;

/// No node.
const NONE: u32 = u32::MAX;

/// A cache private to one worker.
///
/// What goes out is chosen by SIEVE ([`crate::Queue`]).
pub struct LocalCache<F> {
    rules: CachingRules,
    hasher: FixedState,
    inner: RefCell<Inner<F>>,
}

struct Inner<F> {
    table: HashTable<u32>,
    nodes: Vec<Node<F>>,
    free: u32,
    shelves: [Shelf; 3],
    totals: Totals,
    /// The node where the sweep goes on, and when.
    sweep_at: usize,
    sweep_on: Tick,
    /// What was to be opened later than this may be remembered.
    cleared: Option<Tick>,
}

#[derive(Clone, Copy, Debug)]
struct Shelf {
    newest: u32,
    oldest: u32,
    hand: u32,
}

/// A queue and the nodes that stand in it.
struct Queue<'q, F> {
    shelf: &'q mut Shelf,
    nodes: &'q mut [Node<F>],
}

struct Node<F> {
    /// `None` in a free node.
    slot: Option<Held<F>>,
    newer: u32,
    /// In a free node, the next free one.
    older: u32,
}

struct Held<F> {
    path: Box<[u8]>,
    hash: u64,
    entry: Entry<F>,
    /// When the disk was asked for this.
    asked: Tick,
    /// When the disk was asked for this, or somebody was last told to look again.
    checked_at: Tick,
    /// When somebody was first told to look again, and nobody has brought anything since.
    doubted: Tick,
    /// When this was asked for last.
    used: Tick,
    visited: bool,
    rank: Rank,
    bytes: usize,
    descriptors: usize,
}

impl<F: File> LocalCache<F> {
    /// An empty cache within `rules`, hashing with `seed` ([`crate::Site::seed`]).
    #[must_use]
    pub fn new(rules: &CachingRules, seed: u64) -> Self {
        let empty = Shelf { newest: NONE, oldest: NONE, hand: NONE };
        let inner = Inner {
            table: HashTable::new(),
            nodes: Vec::new(),
            free: NONE,
            shelves: [empty; 3],
            totals: Totals::default(),
            sweep_at: 0,
            sweep_on: Tick::default(),
            cleared: None,
        };
        let hasher = FixedState::with_seed(seed);
        Self { rules: rules.clone(), hasher, inner: RefCell::new(inner) }
    }

    /// Files and directories remembered.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.inner.borrow().positives()
    }

    /// Names of nothing remembered.
    #[must_use]
    pub fn negatives(&self) -> usize {
        self.inner.borrow().len(Rank::Negative)
    }

    /// Descriptors held.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.inner.borrow().totals.descriptors
    }

    /// Memory for names, heads and bodies, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.inner.borrow().totals.bytes
    }

    /// How long the entry that nobody has asked for in longest has not been; for tests.
    #[must_use]
    pub fn idle_ms(&self, now: Tick) -> u64 {
        let inner = self.inner.borrow();
        let held = inner.nodes.iter().filter_map(|node| node.slot.as_ref());
        held.map(|held| now.since(held.used)).max().unwrap_or(0)
    }

    /// Checks that the queues, the table and the sums agree; for tests.
    ///
    /// # Panics
    /// If they do not.
    pub fn check_invariants(&self) {
        let inner = self.inner.borrow();
        let mut totals = Totals::default();
        for rank in Rank::ALL {
            let shelf = inner.shelves[rank as usize];
            let (mut at, mut newer) = (shelf.newest, NONE);
            while at != NONE {
                let node = &inner.nodes[at as usize];
                let held = node.slot.as_ref().expect("a node in a queue is in use");
                assert_eq!((node.newer, held.rank), (newer, rank));
                totals.bytes += held.bytes;
                totals.descriptors += held.descriptors;
                totals.entries[rank as usize] += 1;
                (newer, at) = (at, node.older);
            }
            assert_eq!(shelf.oldest, newer);
        }
        assert_eq!(inner.table.len(), totals.entries.iter().sum::<usize>());
        assert_eq!(inner.totals, totals);
        assert!(totals.over(&self.rules).is_none(), "the bounds hold after every call");
    }
}

impl<F: File> Cache<F> for LocalCache<F> {
    #[inline]
    fn get(&self, path: &[u8], now: Tick, tally: &Tally<'_>) -> Lookup<F> {
        tally.add(Counter::CacheLookups, 1);
        let hash = self.hash(path);
        let mut inner = self.inner.borrow_mut();
        let Inner { table, nodes, .. } = &mut *inner;
        let Some(&at) = table.find(hash, |&at| is_at(nodes, at, hash, path)) else {
            return Lookup::Miss;
        };
        let Some(held) = nodes[at as usize].slot.as_mut() else {
            return Lookup::Miss;
        };
        held.visited = true;
        held.used = now;
        let age = now.since(held.checked_at);
        if held.rank == Rank::Negative {
            if age >= self.rules.negative_ms {
                inner.remove(at, tally);
                return Lookup::Miss;
            }
            tally.add(Counter::CacheNegativeHits, 1);
        } else if age >= self.rules.revalidate_ms {
            tally.add(Counter::CacheRevalidations, 1);
            return held.doubt(now, &self.rules);
        }
        tally.add(Counter::CacheHits, 1);
        Lookup::Fresh(held.entry.clone())
    }

    #[inline]
    fn hit(
        &self,
        path: &[u8],
        now: Tick,
        tally: &Tally<'_>,
        serve: &mut dyn FnMut(&mut Arc<Representation<F>>) -> bool,
    ) -> bool {
        let hash = self.hash(path);
        let mut inner = self.inner.borrow_mut();
        let Inner { table, nodes, .. } = &mut *inner;
        let Some(&at) = table.find(hash, |&at| is_at(nodes, at, hash, path)) else {
            return false;
        };
        let Some(held) = nodes[at as usize].slot.as_mut() else {
            return false;
        };
        let Entry::File(file) = &mut held.entry else {
            return false;
        };
        if now.since(held.checked_at) >= self.rules.revalidate_ms || !serve(file) {
            return false;
        }
        held.visited = true;
        held.used = now;
        tally.add(Counter::CacheLookups, 1);
        tally.add(Counter::CacheHits, 1);
        true
    }

    fn put(&self, path: &[u8], entry: &Entry<F>, asked: Tick, tally: &Tally<'_>) {
        let held = self.hold(path, entry, asked);
        let mut inner = self.inner.borrow_mut();
        if inner.cleared.is_some_and(|cleared| asked <= cleared) {
            return; // perhaps found below a root that is served no more
        }
        let known = inner.find(held.hash, path);
        if known.and_then(|at| inner.held(at)).is_some_and(|known| known.asked > asked) {
            return; // who asked later was faster
        }
        if known.is_none() {
            tally.add(Counter::CacheFills, 1);
        }
        self.replace(&mut inner, known, held, tally);
    }

    fn fill(&self, path: &[u8], file: &Arc<Representation<F>>, tally: &Tally<'_>) {
        let held = self.hold(path, &Entry::File(file.clone()), Tick::default());
        let mut inner = self.inner.borrow_mut();
        let Some(at) = inner.find(held.hash, path) else { return };
        let Some(old) = inner.held(at) else { return };
        if matches!(&old.entry, Entry::File(old) if old.tells_of(file)) {
            let Held { asked, checked_at, doubted, used, .. } = *old;
            let held = Held { asked, checked_at, doubted, used, ..held };
            self.replace(&mut inner, Some(at), held, tally);
        }
    }

    fn relieve(&self, tally: &Tally<'_>) -> bool {
        let mut inner = self.inner.borrow_mut();
        let spared = inner.len(Rank::Open).min(RELIEF_ENTRIES);
        (0..spared).for_each(|_| inner.evict(Rank::Open, tally));
        spared > 0
    }

    fn sweep(&self, now: Tick, tally: &Tally<'_>) -> Option<Tick> {
        self.inner.borrow_mut().sweep(&self.rules, now, tally)
    }

    fn remove(&self, path: &[u8], tally: &Tally<'_>) {
        let hash = self.hash(path);
        let mut inner = self.inner.borrow_mut();
        let Inner { table, nodes, .. } = &mut *inner;
        if let Some(&at) = table.find(hash, |&at| is_at(nodes, at, hash, path)) {
            inner.remove(at, tally);
        }
    }

    fn clear(&self, now: Tick, tally: &Tally<'_>) {
        let mut inner = self.inner.borrow_mut();
        inner.cleared = Some(now);
        for at in 0..inner.nodes.len() {
            inner.remove(u32::try_from(at).expect("bounded by bytes_max"), tally);
        }
    }
}

impl<F: File> LocalCache<F> {
    #[inline]
    fn hash(&self, path: &[u8]) -> u64 {
        self.hasher.hash_one(path)
    }

    fn hold(&self, path: &[u8], entry: &Entry<F>, asked: Tick) -> Held<F> {
        let (bytes, descriptors) = match entry {
            Entry::File(file) => (file.bytes(), file.descriptors()),
            Entry::Directory | Entry::Missing(_) => (0, 0),
        };
        Held {
            hash: self.hash(path),
            path: path.into(),
            entry: entry.clone(),
            asked,
            checked_at: asked,
            doubted: Tick::NEVER,
            used: asked,
            visited: false,
            rank: Rank::of(entry),
            bytes: bytes + path.len() + size_of::<Node<F>>(),
            descriptors,
        }
    }

    /// Puts an entry in the place of the one at `known`, and others out if need be.
    fn replace(&self, inner: &mut Inner<F>, known: Option<u32>, held: Held<F>, tally: &Tally<'_>) {
        let visited = known.and_then(|at| inner.remove(at, tally)).is_some_and(|old| old.visited);
        if !self.rules.accept(held.rank, &held.path, held.bytes, held.descriptors) {
            return;
        }
        inner.insert(Held { visited, ..held }, tally);
        while let Some(rank) = inner.totals.over(&self.rules) {
            inner.evict(rank, tally);
        }
    }
}

impl<F: Clone> Held<F> {
    /// It is time to see whether this changed: tells the asker to, and decides what others may
    /// think meanwhile.
    #[cold]
    fn doubt(&mut self, now: Tick, rules: &CachingRules) -> Lookup<F> {
        self.doubted = self.doubted.min(now);
        if now.since(self.doubted) < rules.revalidate_ms.saturating_mul(STALE_PERIODS_MAX) {
            self.checked_at = now;
        }
        Lookup::Stale(self.entry.clone())
    }
}

/// True if the node at `at` holds `path`.
#[inline]
fn is_at<F>(nodes: &[Node<F>], at: u32, hash: u64, path: &[u8]) -> bool {
    let slot = nodes.get(at as usize).and_then(|node| node.slot.as_ref());
    slot.is_some_and(|held| held.hash == hash && *held.path == *path)
}

impl<F> Inner<F> {
    /// The node that holds `path`.
    fn find(&self, hash: u64, path: &[u8]) -> Option<u32> {
        self.table.find(hash, |&at| is_at(&self.nodes, at, hash, path)).copied()
    }

    fn held(&self, at: u32) -> Option<&Held<F>> {
        self.nodes[at as usize].slot.as_ref()
    }

    fn queue(&mut self, rank: Rank) -> Queue<'_, F> {
        Queue { shelf: &mut self.shelves[rank as usize], nodes: &mut self.nodes }
    }

    const fn len(&self, rank: Rank) -> usize {
        self.totals.entries[rank as usize]
    }

    const fn positives(&self) -> usize {
        self.len(Rank::Held) + self.len(Rank::Open)
    }

    fn insert(&mut self, held: Held<F>, tally: &Tally<'_>) {
        tally.add(Counter::CacheEntriesAdded, 1);
        tally.add(Counter::CacheBytesAdded, held.bytes as u64);
        tally.add(Counter::CacheFdsAdded, held.descriptors as u64);
        let (hash, rank) = (held.hash, held.rank);
        self.totals.bytes += held.bytes;
        self.totals.descriptors += held.descriptors;
        self.totals.entries[rank as usize] += 1;
        let node = Node { slot: Some(held), newer: NONE, older: NONE };
        let at = if self.free == NONE {
            self.nodes.push(node);
            u32::try_from(self.nodes.len() - 1).expect("bounded by bytes_max")
        } else {
            let at = self.free;
            self.free = self.nodes[at as usize].older;
            self.nodes[at as usize] = node;
            at
        };
        self.queue(rank).push(at);
        let nodes = &self.nodes;
        self.table.insert_unique(hash, at, |&at| {
            nodes[at as usize].slot.as_ref().map_or(0, |held| held.hash)
        });
    }

    fn remove(&mut self, at: u32, tally: &Tally<'_>) -> Option<Held<F>> {
        let held = self.nodes[at as usize].slot.take()?;
        self.queue(held.rank).unlink(at);
        self.nodes[at as usize].older = self.free;
        self.free = at;
        if let Ok(found) = self.table.find_entry(held.hash, |&other| other == at) {
            found.remove();
        }
        tally.add(Counter::CacheEntriesRemoved, 1);
        tally.add(Counter::CacheBytesRemoved, held.bytes as u64);
        tally.add(Counter::CacheFdsRemoved, held.descriptors as u64);
        self.totals.bytes -= held.bytes;
        self.totals.descriptors -= held.descriptors;
        self.totals.entries[held.rank as usize] -= 1;
        Some(held)
    }

    fn sweep(&mut self, rules: &CachingRules, now: Tick, tally: &Tally<'_>) -> Option<Tick> {
        if now >= self.sweep_on {
            let mut removals = SWEEP_REMOVALS;
            let end = self.nodes.len().min(self.sweep_at + SWEEP_ENTRIES);
            while self.sweep_at < end && removals > 0 {
                let at = self.sweep_at;
                let held = self.nodes[at].slot.as_ref();
                if held.is_some_and(|held| now.since(held.used) >= rules.inactive_ms) {
                    self.remove(u32::try_from(at).expect("bounded by bytes_max"), tally);
                    tally.add(Counter::CacheInactive, 1);
                    removals -= 1;
                }
                self.sweep_at += 1;
            }
            self.sweep_on = now.after(SWEEP_PAUSE_MS);
            if self.sweep_at >= self.nodes.len() {
                (self.sweep_at, self.sweep_on) = (0, now.after(rules.sweep_ms()));
            }
        }
        (!self.table.is_empty()).then_some(self.sweep_on)
    }

    /// Puts out one entry of a queue that is not empty.
    fn evict(&mut self, rank: Rank, tally: &Tally<'_>) {
        let at = self.queue(rank).victim();
        self.remove(at.expect("only a queue with entries can be over a bound"), tally);
        tally.add(Counter::CacheEvictions, 1);
    }
}

impl<F> sieve::Queue for Queue<'_, F> {
    type At = u32;
    const NONE: u32 = NONE;

    fn link(&self, link: Link<u32>) -> u32 {
        match link {
            Link::Newest => self.shelf.newest,
            Link::Oldest => self.shelf.oldest,
            Link::Hand => self.shelf.hand,
            Link::Newer(at) => self.nodes[at as usize].newer,
            Link::Older(at) => self.nodes[at as usize].older,
        }
    }

    fn set_link(&mut self, link: Link<u32>, to: u32) {
        match link {
            Link::Newest => self.shelf.newest = to,
            Link::Oldest => self.shelf.oldest = to,
            Link::Hand => self.shelf.hand = to,
            Link::Newer(at) => self.nodes[at as usize].newer = to,
            Link::Older(at) => self.nodes[at as usize].older = to,
        }
    }

    fn unmark(&mut self, at: u32) -> bool {
        let held = self.nodes[at as usize].slot.as_mut();
        mem::take(&mut held.expect("a node in a queue is in use").visited)
    }
}

impl<F> fmt::Debug for LocalCache<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner.borrow();
        f.debug_struct("LocalCache")
            .field("entries", &inner.positives())
            .field("negatives", &inner.len(Rank::Negative))
            .field("descriptors", &inner.totals.descriptors)
            .field("bytes", &inner.totals.bytes)
            .finish_non_exhaustive()
    }
}
