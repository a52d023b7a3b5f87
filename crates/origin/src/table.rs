//! What a cache in memory of its own holds: a hash table of names, queues, and what all takes.
use crate::{
    CachingRules, Cost, Entry, Lock, Locks, Lookup, Queue as _, Rank, Representation, Totals, Use,
    sieve::{self, Link},
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{mem, sync::atomic::AtomicU64};
use hashbrown::HashTable;
use regatta_metrics::{Counter, Tally};
use regatta_op::{File, Tick};

/// No node.
const NONE: u32 = u32::MAX;

/// Entries by name. Whoever has it for itself alone may change it; what is known of an entry is
/// under a lock of its own, and may be changed by who only sees the table.
pub(crate) struct Table<F, L: Locks> {
    table: HashTable<u32>,
    nodes: Vec<Node<F, L>>,
    free: u32,
    shelves: [Shelf; 3],
    totals: Totals,
    /// What was to be opened later than this may be remembered.
    cleared: Option<Tick>,
    /// What has gone, for who has changed the table to let go of when others may have it: to close
    /// a file may take the disk a while.
    gone: Vec<Held<F, L>>,
}

#[derive(Clone, Copy, Debug)]
struct Shelf {
    newest: u32,
    oldest: u32,
    hand: u32,
}

/// A queue and the nodes that stand in it.
struct Queue<'q, F, L: Locks> {
    shelf: &'q mut Shelf,
    nodes: &'q mut [Node<F, L>],
}

struct Node<F, L: Locks> {
    /// `None` in a free node.
    slot: Option<Held<F, L>>,
    newer: u32,
    /// In a free node, the next free one.
    older: u32,
}

/// An entry: its name, and what it takes, are fixed as long as it is in the table.
pub(crate) struct Held<F, L: Locks> {
    path: Box<[u8]>,
    hash: u64,
    pub(crate) cost: Cost,
    /// See [`Use`].
    used: AtomicU64,
    pub(crate) known: L::Of<Known<F>>,
}

/// What is known of a name, as of when.
pub(crate) struct Known<F> {
    entry: Entry<F>,
    /// When the disk was asked for this.
    pub(crate) asked: Tick,
    /// When the disk was asked for this, or somebody was last told to look again.
    checked_at: Tick,
    /// When somebody was first told to look again, and nobody has brought anything since.
    doubted: Tick,
}

/// A name of nothing is to be forgotten.
pub(crate) struct Expired;

impl<F: File> Known<F> {
    pub(crate) fn new(entry: &Entry<F>, asked: Tick) -> Self {
        Self { entry: entry.clone(), asked, checked_at: asked, doubted: Tick::NEVER }
    }

    /// What a look-up finds.
    #[inline]
    pub(crate) fn look(
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
            return Ok(self.doubt(now, rules));
        }
        tally.add(Counter::CacheHits, 1);
        Ok(Lookup::Fresh(self.entry.clone()))
    }

    /// It is time to see whether this changed: tells the asker to, and decides what others may
    /// think meanwhile.
    #[cold]
    fn doubt(&mut self, now: Tick, rules: &CachingRules) -> Lookup<F> {
        self.doubted = self.doubted.min(now);
        if !rules.all_look(self.doubted, now) {
            self.checked_at = now;
        }
        Lookup::Stale(self.entry.clone())
    }

    /// True if this is a file that `serve` was shown, and served.
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

impl<F: File, L: Locks> Held<F, L> {
    pub(crate) fn new(path: &[u8], hash: u64, known: Known<F>, cost: Cost) -> Self {
        let used = AtomicU64::new(Use::first(known.asked));
        Self { path: path.into(), hash, cost, used, known: L::Of::new(known) }
    }

    /// What an entry takes.
    pub(crate) fn cost(path: &[u8], entry: &Entry<F>) -> Cost {
        Cost::of(entry, path.len() + size_of::<Node<F, L>>())
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
            totals: Totals { entries: [0; 3], bytes: 0, descriptors: 0 },
            cleared: None,
            gone: Vec::new(),
        }
    }

    pub(crate) const fn totals(&self) -> &Totals {
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
    pub(crate) fn find(&self, hash: u64, path: &[u8]) -> Option<&Held<F, L>> {
        self.held(self.find_at(hash, path)? as usize)
    }

    #[inline]
    fn held(&self, at: usize) -> Option<&Held<F, L>> {
        self.nodes.get(at)?.slot.as_ref()
    }

    fn known(&mut self, at: u32) -> Option<&mut Known<F>> {
        Some(self.nodes[at as usize].slot.as_mut()?.known.get_mut())
    }

    /// True if nobody has asked for the entry at a node for so long that it goes.
    pub(crate) fn is_idle(&self, at: usize, now: Tick, rules: &CachingRules) -> bool {
        self.held(at).is_some_and(|held| now.since(held.used().at()) >= rules.inactive_ms)
    }

    /// How long the entry that nobody has asked for in longest has not been; for tests.
    pub(crate) fn idle_ms(&self, now: Tick) -> u64 {
        let held = self.nodes.iter().filter_map(|node| node.slot.as_ref());
        held.map(|held| now.since(held.used().at())).max().unwrap_or(0)
    }

    /// Checks that the queues, the table and the sums agree, and the bounds hold; for tests.
    pub(crate) fn check_invariants(&self, rules: &CachingRules) {
        let mut totals = Totals::default();
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
        assert!(totals.over(rules).is_none() && self.gone.is_empty());
    }

    fn queue(&mut self, rank: Rank) -> Queue<'_, F, L> {
        Queue { shelf: &mut self.shelves[rank as usize], nodes: &mut self.nodes }
    }

    /// What has gone since this was called last.
    pub(crate) fn take_gone(&mut self) -> Vec<Held<F, L>> {
        mem::take(&mut self.gone)
    }

    /// Remembers an entry, in the place of what its name was, unless who brought that asked later.
    pub(crate) fn put(&mut self, mut held: Held<F, L>, rules: &CachingRules, tally: &Tally<'_>) {
        let asked = held.known.get_mut().asked;
        if self.cleared.is_some_and(|cleared| asked <= cleared) {
            return; // perhaps found below a root that is served no more
        }
        let at = self.find_at(held.hash, &held.path);
        match at.and_then(|at| self.known(at)) {
            Some(known) if known.asked > asked => return, // who asked later was faster
            Some(_) => {}
            None => tally.add(Counter::CacheFills, 1),
        }
        self.replace(at, held, rules, tally);
    }

    /// Remembers a file with a body that it was remembered without; its age stays what it was.
    pub(crate) fn fill(&mut self, mut held: Held<F, L>, rules: &CachingRules, tally: &Tally<'_>) {
        let Some(at) = self.find_at(held.hash, &held.path) else { return };
        let (Some(old), new) = (self.known(at), held.known.get_mut()) else { return };
        if let (Entry::File(file), Entry::File(filled)) = (&old.entry, &new.entry)
            && file.tells_of(filled)
        {
            let Known { asked, checked_at, doubted, .. } = *old;
            (new.asked, new.checked_at, new.doubted) = (asked, checked_at, doubted);
            self.replace(Some(at), held, rules, tally);
        }
    }

    /// Puts an entry in the place of the one at `known`, and others out if need be.
    fn replace(
        &mut self,
        known: Option<u32>,
        mut held: Held<F, L>,
        rules: &CachingRules,
        tally: &Tally<'_>,
    ) {
        if let Some(at) = known {
            if let Some(old) = self.held(at as usize) {
                *held.used.get_mut() = old.used().word();
            }
            self.remove(at as usize, tally);
        }
        if !rules.accept(&held.path, held.cost) {
            return;
        }
        self.insert(held, tally);
        while let Some(rank) = self.totals.over(rules) {
            self.evict(rank, tally);
        }
    }

    fn insert(&mut self, held: Held<F, L>, tally: &Tally<'_>) {
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

    /// Takes out the entry at a node, if there is one.
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

    /// Forgets a name, if `wanted` says so of what is known of it.
    pub(crate) fn remove_if(
        &mut self,
        hash: u64,
        path: &[u8],
        wanted: impl FnOnce(&Known<F>) -> bool,
        tally: &Tally<'_>,
    ) {
        if let Some(at) = self.find_at(hash, path)
            && self.known(at).is_some_and(|known| wanted(known))
        {
            self.remove(at as usize, tally);
        }
    }

    /// Forgets everything, and what was to be opened until `now` and comes later.
    pub(crate) fn clear(&mut self, now: Tick, tally: &Tally<'_>) {
        self.cleared = self.cleared.max(Some(now));
        (0..self.nodes.len()).for_each(|at| self.remove(at, tally));
    }

    /// Puts out one entry of a queue that is not empty.
    pub(crate) fn evict(&mut self, rank: Rank, tally: &Tally<'_>) {
        let at = self.queue(rank).victim();
        self.remove(at.expect("only a queue with entries can be over a bound") as usize, tally);
        tally.add(Counter::CacheEvictions, 1);
    }
}

impl<F, L: Locks> sieve::Queue for Queue<'_, F, L> {
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
        let held = self.nodes[at as usize].slot.as_ref();
        Use(&held.expect("a node in a queue is in use").used).unmark()
    }
}
