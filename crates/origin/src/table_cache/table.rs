//! The entries of a cache in private memory: a hash table of names, queues, and totals.
use super::{Lock, Locks};
use crate::{
    CacheTotals, CachingRules, Entry, EntryCost, Lookup, Queue as _, Rank, Representation, Use,
    sieve::{self, QueueLink},
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{mem, sync::atomic::AtomicU64};
use hashbrown::HashTable;
use regatta_metrics::{Counter, Tally};
use regatta_op::{File, Tick};

/// No node.
const NONE: u32 = u32::MAX;

/// Entries by name. Changing the table takes exclusive access. The aged entry of each name has its
/// own lock, so it can be changed with shared access to the table.
pub(crate) struct Table<F, L: Locks> {
    table: HashTable<u32>,
    nodes: Vec<Node<F, L>>,
    free: u32,
    shelves: [Shelf; 3],
    totals: CacheTotals,
    /// Results of opens that were requested later than this may be stored.
    cleared: Option<Tick>,
    /// Removed entries, to be dropped under no lock: closing a file may take the disk a while.
    gone: Vec<NamedEntry<F, L>>,
}

#[derive(Clone, Copy, Debug)]
struct Shelf {
    newest: u32,
    oldest: u32,
    hand: u32,
}

/// A queue and the nodes in it.
struct Queue<'q, F, L: Locks> {
    shelf: &'q mut Shelf,
    nodes: &'q mut [Node<F, L>],
}

struct Node<F, L: Locks> {
    /// `None` in a free node.
    slot: Option<NamedEntry<F, L>>,
    newer: u32,
    /// In a free node, the next free one.
    older: u32,
}

/// An entry with its name. Name and cost do not change while it is in the table.
pub(crate) struct NamedEntry<F, L: Locks> {
    path: Box<[u8]>,
    hash: u64,
    pub(crate) cost: EntryCost,
    /// See [`Use`].
    used: AtomicU64,
    pub(crate) aged: L::Of<AgedEntry<F>>,
}

/// Meaning of a name, and the time since which it is known.
pub(crate) struct AgedEntry<F> {
    entry: Entry<F>,
    /// Time at which the operation that found it began.
    pub(crate) requested_at: Tick,
    /// The same, or the last time that a caller had to revalidate.
    checked_at: Tick,
    /// First time that a caller had to revalidate, if none has done so since.
    stale_since: Tick,
}

/// A negative entry has expired.
pub(crate) struct Expired;

impl<F: File> AgedEntry<F> {
    pub(crate) fn new(entry: &Entry<F>, requested_at: Tick) -> Self {
        Self {
            entry: entry.clone(),
            requested_at,
            checked_at: requested_at,
            stale_since: Tick::NEVER,
        }
    }

    /// The result of a look-up.
    #[inline]
    pub(crate) fn look_up(
        &mut self,
        now: Tick,
        rules: &CachingRules,
        tally: &Tally<'_>,
    ) -> Result<Lookup<F>, Expired> {
        if matches!(self.entry, Entry::Missing(_)) {
            if self.is_expired(now, rules) {
                return Err(Expired);
            }
            tally.add(Counter::CacheNegativeHits, 1);
        } else if now.since(self.checked_at) >= rules.revalidate_ms {
            tally.add(Counter::CacheRevalidations, 1);
            return Ok(self.mark_stale(now, rules));
        }
        tally.add(Counter::CacheHits, 1);
        Ok(Lookup::Fresh(self.entry.clone()))
    }

    /// Tells this caller to revalidate, and decides whether others find the entry fresh meanwhile.
    #[cold]
    fn mark_stale(&mut self, now: Tick, rules: &CachingRules) -> Lookup<F> {
        self.stale_since = self.stale_since.min(now);
        if !rules.all_revalidate(self.stale_since, now) {
            self.checked_at = now;
        }
        Lookup::Stale(self.entry.clone())
    }

    /// True if this is a fresh file and `serve` has served it.
    #[inline]
    pub(crate) fn serve(
        &mut self,
        now: Tick,
        rules: &CachingRules,
        serve: &mut dyn FnMut(&mut Arc<Representation<F>>) -> bool,
    ) -> bool {
        let Entry::File(file) = &mut self.entry else { return false };
        now.since(self.checked_at) < rules.revalidate_ms && serve(file)
    }

    pub(crate) fn is_expired(&self, now: Tick, rules: &CachingRules) -> bool {
        matches!(self.entry, Entry::Missing(_)) && now.since(self.checked_at) >= rules.negative_ms
    }
}

impl<F: File, L: Locks> NamedEntry<F, L> {
    pub(crate) fn new(path: &[u8], hash: u64, aged: AgedEntry<F>, cost: EntryCost) -> Self {
        let used = AtomicU64::new(Use::first(aged.requested_at));
        Self { path: path.into(), hash, cost, used, aged: L::Of::new(aged) }
    }

    /// The cost of an entry.
    pub(crate) fn cost(path: &[u8], entry: &Entry<F>) -> EntryCost {
        EntryCost::from_entry(entry, path.len() + size_of::<Node<F, L>>())
    }

    #[inline]
    pub(crate) const fn used(&self) -> Use<'_> {
        Use(&self.used)
    }
}

impl<F: File, L: Locks> Table<F, L> {
    pub(crate) const fn new() -> Self {
        let empty = Shelf { newest: NONE, oldest: NONE, hand: NONE };
        Self {
            table: HashTable::new(),
            nodes: Vec::new(),
            free: NONE,
            shelves: [empty; 3],
            totals: CacheTotals { entries: [0; 3], bytes: 0, descriptors: 0 },
            cleared: None,
            gone: Vec::new(),
        }
    }

    pub(crate) const fn totals(&self) -> &CacheTotals {
        &self.totals
    }

    /// Nodes, free ones among them.
    pub(crate) const fn nodes(&self) -> usize {
        self.nodes.len()
    }

    #[inline]
    fn find_at(&self, hash: u64, path: &[u8]) -> Option<u32> {
        let is_at = |at: &u32| {
            self.held(*at as usize).is_some_and(|held| held.hash == hash && *held.path == *path)
        };
        self.table.find(hash, is_at).copied()
    }

    /// The entry of a name.
    #[inline]
    pub(crate) fn find(&self, hash: u64, path: &[u8]) -> Option<&NamedEntry<F, L>> {
        self.held(self.find_at(hash, path)? as usize)
    }

    #[inline]
    fn held(&self, at: usize) -> Option<&NamedEntry<F, L>> {
        self.nodes.get(at)?.slot.as_ref()
    }

    fn aged(&mut self, at: u32) -> Option<&mut AgedEntry<F>> {
        Some(self.nodes[at as usize].slot.as_mut()?.aged.get_mut())
    }

    /// True if the entry at a node has been unused for [`CachingRules::inactive_ms`].
    pub(crate) fn is_idle(&self, at: usize, now: Tick, rules: &CachingRules) -> bool {
        self.held(at).is_some_and(|held| now.since(held.used().at()) >= rules.inactive_ms)
    }

    /// The longest time that an entry has not been used; for tests.
    pub(crate) fn idle_ms(&self, now: Tick) -> u64 {
        let held = self.nodes.iter().filter_map(|node| node.slot.as_ref());
        held.map(|held| now.since(held.used().at())).max().unwrap_or(0)
    }

    /// Checks that the queues, the table and the sums agree, and the bounds hold; for tests.
    pub(crate) fn check_invariants(&self, rules: &CachingRules) {
        let mut totals = CacheTotals::default();
        for rank in Rank::ALL {
            let shelf = self.shelves[rank as usize];
            let (mut at, mut newer) = (shelf.newest, NONE);
            while at != NONE {
                let node = &self.nodes[at as usize];
                let held = node.slot.as_ref().expect("a node in a queue is in use");
                assert_eq!((node.newer, held.cost.rank), (newer, rank));
                assert_eq!(self.find_at(held.hash, &held.path), Some(at), "one entry of a name");
                totals.enter(held.cost);
                (newer, at) = (at, node.older);
            }
            assert_eq!(shelf.oldest, newer);
        }
        assert_eq!(self.table.len(), totals.entries.iter().sum::<usize>());
        assert_eq!(self.totals, totals);
        assert!(totals.find_excess(rules).is_none() && self.gone.is_empty());
    }

    fn queue(&mut self, rank: Rank) -> Queue<'_, F, L> {
        Queue { shelf: &mut self.shelves[rank as usize], nodes: &mut self.nodes }
    }

    /// The entries removed since the last call.
    pub(crate) fn take_gone(&mut self) -> Vec<NamedEntry<F, L>> {
        mem::take(&mut self.gone)
    }

    /// Stores an entry, unless its name has one from a later operation.
    pub(crate) fn put(
        &mut self,
        mut held: NamedEntry<F, L>,
        rules: &CachingRules,
        tally: &Tally<'_>,
    ) {
        let requested_at = held.aged.get_mut().requested_at;
        if self.cleared.is_some_and(|cleared| requested_at <= cleared) {
            return; // perhaps from the old root
        }
        let at = self.find_at(held.hash, &held.path);
        match at.and_then(|at| self.aged(at)) {
            // A later operation was faster.
            Some(aged) if aged.requested_at > requested_at => return,
            Some(_) => {}
            None => tally.add(Counter::CacheFills, 1),
        }
        self.replace(at, held, rules, tally);
    }

    /// Replaces a file without a body by the same one with it; the age does not change.
    pub(crate) fn fill(
        &mut self,
        mut held: NamedEntry<F, L>,
        rules: &CachingRules,
        tally: &Tally<'_>,
    ) {
        let Some(at) = self.find_at(held.hash, &held.path) else { return };
        let (Some(old), new) = (self.aged(at), held.aged.get_mut()) else { return };
        if let (Entry::File(file), Entry::File(filled)) = (&old.entry, &new.entry)
            && file.tells_of(filled)
        {
            let AgedEntry { requested_at, checked_at, stale_since, .. } = *old;
            (new.requested_at, new.checked_at, new.stale_since) =
                (requested_at, checked_at, stale_since);
            self.replace(Some(at), held, rules, tally);
        }
    }

    /// Replaces the entry at `aged`, if there is one, and evicts others if necessary.
    fn replace(
        &mut self,
        aged: Option<u32>,
        mut held: NamedEntry<F, L>,
        rules: &CachingRules,
        tally: &Tally<'_>,
    ) {
        if let Some(at) = aged {
            if let Some(old) = self.held(at as usize) {
                *held.used.get_mut() = old.used().word();
            }
            self.remove(at as usize, tally);
        }
        if !rules.accept(&held.path, held.cost) {
            return;
        }
        self.insert(held, tally);
        while let Some(rank) = self.totals.find_excess(rules) {
            self.evict(rank, tally);
        }
    }

    fn insert(&mut self, held: NamedEntry<F, L>, tally: &Tally<'_>) {
        held.cost.enter(tally);
        self.totals.enter(held.cost);
        let (hash, rank) = (held.hash, held.cost.rank);
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

    /// Removes the entry at a node, if there is one.
    pub(crate) fn remove(&mut self, at: usize, tally: &Tally<'_>) {
        let Some(held) = self.nodes[at].slot.take() else { return };
        let free = u32::try_from(at).expect("bounded by bytes_max");
        self.queue(held.cost.rank).unlink(free);
        self.nodes[at].older = self.free;
        self.free = free;
        if let Ok(found) = self.table.find_entry(held.hash, |&other| other == free) {
            found.remove();
        }
        held.cost.leave(tally);
        self.totals.leave(held.cost);
        self.gone.push(held);
    }

    /// Removes a name if `wanted` says so.
    pub(crate) fn remove_if(
        &mut self,
        hash: u64,
        path: &[u8],
        wanted: impl FnOnce(&AgedEntry<F>) -> bool,
        tally: &Tally<'_>,
    ) {
        if let Some(at) = self.find_at(hash, path)
            && self.aged(at).is_some_and(|aged| wanted(aged))
        {
            self.remove(at as usize, tally);
        }
    }

    /// Removes everything, and refuses results of opens requested until `now`.
    pub(crate) fn clear(&mut self, now: Tick, tally: &Tally<'_>) {
        self.cleared = self.cleared.max(Some(now));
        (0..self.nodes.len()).for_each(|at| self.remove(at, tally));
    }

    /// Evicts one entry of a queue that is not empty.
    pub(crate) fn evict(&mut self, rank: Rank, tally: &Tally<'_>) {
        let at = self.queue(rank).victim();
        self.remove(at.expect("only a queue with entries can be over a bound") as usize, tally);
        tally.add(Counter::CacheEvictions, 1);
    }
}

impl<F, L: Locks> sieve::Queue for Queue<'_, F, L> {
    type At = u32;
    const NONE: u32 = NONE;

    fn link(&self, link: QueueLink<u32>) -> u32 {
        match link {
            QueueLink::Newest => self.shelf.newest,
            QueueLink::Oldest => self.shelf.oldest,
            QueueLink::Hand => self.shelf.hand,
            QueueLink::Newer(at) => self.nodes[at as usize].newer,
            QueueLink::Older(at) => self.nodes[at as usize].older,
        }
    }

    fn set_link(&mut self, link: QueueLink<u32>, to: u32) {
        match link {
            QueueLink::Newest => self.shelf.newest = to,
            QueueLink::Oldest => self.shelf.oldest = to,
            QueueLink::Hand => self.shelf.hand = to,
            QueueLink::Newer(at) => self.nodes[at as usize].newer = to,
            QueueLink::Older(at) => self.nodes[at as usize].older = to,
        }
    }

    fn unmark(&mut self, at: u32) -> bool {
        let held = self.nodes[at as usize].slot.as_ref();
        Use(&held.expect("a node in a queue is in use").used).unmark()
    }
}
