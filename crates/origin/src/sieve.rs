//! Eviction: the same for all caches, wherever their entries are.
use crate::{CachingRules, Entry};
use core::{
    fmt::Debug,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use regatta_metrics::{Counter, Tally};
use regatta_op::{File, Tick};

/// Files that are closed at a time when descriptors are needed elsewhere.
pub const RELIEF_ENTRIES: usize = 16;

/// While one caller revalidates a file, others use the stale entry, for at most this many times
/// [`CachingRules::revalidate_ms`]; then all revalidate. Otherwise a disk that hangs, or is slower
/// than this period, would keep a stale file in use for ever.
pub const STALE_PERIODS_MAX: u64 = 4;

/// The longest name of a negative entry, bytes.
const NEGATIVE_NAME_BYTES_MAX: usize = 256;

/// Queue that an entry is in. There are three, so that a scan of missing names evicts no files, and
/// a shortage of descriptors evicts only entries that hold some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rank {
    /// Directories, and files with all bodies in memory.
    Held = 0,
    /// Files with at least one descriptor.
    Open = 1,
    /// Names that do not exist.
    Negative = 2,
}

impl Rank {
    /// All ranks, in the order of eviction when memory is short: bodies take the most.
    pub const ALL: [Self; 3] = [Self::Held, Self::Open, Self::Negative];

    /// The rank of an entry.
    #[must_use]
    pub fn from_entry<F: File>(entry: &Entry<F>) -> Self {
        match entry {
            Entry::File(file) if file.descriptors() > 0 => Self::Open,
            Entry::File(_) | Entry::Directory => Self::Held,
            Entry::Missing(_) => Self::Negative,
        }
    }
}

/// Cost of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryCost {
    /// Queue of the entry.
    pub rank: Rank,
    /// Memory for its name, heads and bodies, bytes.
    pub bytes: usize,
    /// Open descriptors.
    pub descriptors: usize,
}

impl EntryCost {
    /// The cost of an entry which takes `bytes` besides its contents.
    #[must_use]
    pub fn from_entry<F: File>(entry: &Entry<F>, bytes: usize) -> Self {
        let (more, descriptors) = match entry {
            Entry::File(file) => (file.bytes(), file.descriptors()),
            Entry::Directory | Entry::Missing(_) => (0, 0),
        };
        Self { rank: Rank::from_entry(entry), bytes: bytes + more, descriptors }
    }

    /// Counts an entry that is added.
    pub fn enter(self, tally: &Tally<'_>) {
        tally.add(Counter::CacheEntriesAdded, 1);
        tally.add(Counter::CacheBytesAdded, self.bytes as u64);
        tally.add(Counter::CacheFdsAdded, self.descriptors as u64);
    }

    /// Counts an entry that is removed.
    pub fn leave(self, tally: &Tally<'_>) {
        tally.add(Counter::CacheEntriesRemoved, 1);
        tally.add(Counter::CacheBytesRemoved, self.bytes as u64);
        tally.add(Counter::CacheFdsRemoved, self.descriptors as u64);
    }
}

/// Cost of all entries of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheTotals {
    /// Entries by [`Rank`].
    pub entries: [usize; 3],
    /// Memory for names, heads and bodies, bytes.
    pub bytes: usize,
    /// Open descriptors.
    pub descriptors: usize,
}

impl CacheTotals {
    /// Adds an entry.
    pub const fn enter(&mut self, cost: EntryCost) {
        self.entries[cost.rank as usize] += 1;
        self.bytes += cost.bytes;
        self.descriptors += cost.descriptors;
    }

    /// Removes an entry.
    pub const fn leave(&mut self, cost: EntryCost) {
        self.entries[cost.rank as usize] -= 1;
        self.bytes -= cost.bytes;
        self.descriptors -= cost.descriptors;
    }

    /// The queue to evict from, if a bound is exceeded.
    #[must_use]
    pub fn find_excess(&self, rules: &CachingRules) -> Option<Rank> {
        let [held, open, negative] = self.entries;
        if negative > rules.negatives_max {
            return Some(Rank::Negative);
        }
        if self.descriptors > rules.descriptors_max {
            return Some(Rank::Open);
        }
        if held + open > rules.entries_max {
            return Some(if held >= open { Rank::Held } else { Rank::Open });
        }
        if self.bytes > rules.bytes_max { self.first() } else { None }
    }

    /// The queue to evict from when memory is short; `None` if all are empty.
    #[must_use]
    pub fn first(&self) -> Option<Rank> {
        Rank::ALL.into_iter().find(|rank| self.entries[*rank as usize] > 0)
    }
}

impl CachingRules {
    /// False for an entry that would evict everything else, or is not worth its memory.
    #[must_use]
    pub const fn accept(&self, path: &[u8], cost: EntryCost) -> bool {
        let room = match cost.rank {
            Rank::Negative => self.negatives_max > 0 && path.len() <= NEGATIVE_NAME_BYTES_MAX,
            Rank::Held | Rank::Open => self.entries_max > 0,
        };
        room && cost.bytes <= self.bytes_max && cost.descriptors <= self.descriptors_max
    }

    /// True if all callers are to revalidate an entry that has been stale since `stale_since`.
    #[must_use]
    pub const fn all_revalidate(&self, stale_since: Tick, now: Tick) -> bool {
        now.since(stale_since) >= self.revalidate_ms.saturating_mul(STALE_PERIODS_MAX)
    }
}

/// Time of an entry's last use, with SIEVE's mark in the lowest bit: a word that any number of
/// threads or processes may read and write.
#[derive(Clone, Copy, Debug)]
pub struct Use<'a>(pub &'a AtomicU64);

impl Use<'_> {
    /// The word of an entry that was added at `now`, and has not been used yet.
    #[must_use]
    pub const fn first(now: Tick) -> u64 {
        now.0 << 1
    }

    /// Notes a use, with a resolution of `about_ms`. Nothing is written if that is noted already,
    /// so that other processors keep the cache line.
    #[inline]
    pub fn visit(self, now: Tick, about_ms: u64) {
        let used = self.word();
        if used & 1 == 0 || now.since(Tick(used >> 1)) >= about_ms {
            self.0.store(now.0 << 1 | 1, Relaxed);
        }
    }

    /// Approximate time of its last use.
    #[must_use]
    pub fn at(self) -> Tick {
        Tick(self.word() >> 1)
    }

    /// The word, for an entry that replaces this one.
    #[must_use]
    #[inline]
    pub fn word(self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Clears the mark; true if there was one.
    #[must_use]
    pub fn unmark(self) -> bool {
        self.0.fetch_and(!1, Relaxed) & 1 != 0
    }
}

/// A queue of entries in the order in which they came, from which SIEVE (Zhang et al., NSDI 2024)
/// evicts. A hit sets a mark and moves nothing. The hand goes from the oldest to the newest, clears
/// marks, and evicts the first entry without one.
///
/// The cache decides where links and marks ([`Use`]) are stored.
pub trait Queue {
    /// Names an entry.
    type At: Copy + PartialEq + Debug;
    /// The name of none.
    const NONE: Self::At;

    /// The entry that a link names.
    fn link(&self, link: QueueLink<Self::At>) -> Self::At;
    /// Makes a link name another entry.
    fn set_link(&mut self, link: QueueLink<Self::At>, to: Self::At);
    /// Clears an entry's mark; true if it had one.
    fn unmark(&mut self, at: Self::At) -> bool;

    /// Puts an entry at the new end.
    #[inline]
    fn push(&mut self, at: Self::At) {
        let older = self.link(QueueLink::Newest);
        self.set_link(QueueLink::Newer(at), Self::NONE);
        self.set_link(QueueLink::Older(at), older);
        self.set_link(
            if older == Self::NONE { QueueLink::Oldest } else { QueueLink::Newer(older) },
            at,
        );
        self.set_link(QueueLink::Newest, at);
    }

    /// Takes an entry out.
    #[inline]
    fn unlink(&mut self, at: Self::At) {
        let (newer, older) = (self.link(QueueLink::Newer(at)), self.link(QueueLink::Older(at)));
        if self.link(QueueLink::Hand) == at {
            self.set_link(QueueLink::Hand, newer);
        }
        self.set_link(
            if newer == Self::NONE { QueueLink::Newest } else { QueueLink::Older(newer) },
            older,
        );
        self.set_link(
            if older == Self::NONE { QueueLink::Oldest } else { QueueLink::Newer(older) },
            newer,
        );
    }

    /// The next entry to evict; `None` if there is none. The walk ends, because it clears marks.
    /// The hand stays at that entry and moves on as it leaves.
    #[inline]
    fn victim(&mut self) -> Option<Self::At> {
        let (oldest, hand) = (self.link(QueueLink::Oldest), self.link(QueueLink::Hand));
        let mut at = if hand == Self::NONE { oldest } else { hand };
        if at == Self::NONE {
            return None;
        }
        while self.unmark(at) {
            let newer = self.link(QueueLink::Newer(at));
            at = if newer == Self::NONE { oldest } else { newer };
        }
        self.set_link(QueueLink::Hand, at);
        Some(at)
    }
}

/// Place of a name of an entry in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLink<At> {
    /// The entry that came last.
    Newest,
    /// The entry that came first.
    Oldest,
    /// The entry at which the walk continues; none: at the oldest.
    Hand,
    /// The entry that came after this.
    Newer(At),
    /// The entry that came before this.
    Older(At),
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    /// Links and marks in vectors.
    struct Plain {
        ends: [u8; 3],
        newer: Vec<u8>,
        older: Vec<u8>,
        marks: Vec<bool>,
    }

    impl Queue for Plain {
        type At = u8;
        const NONE: u8 = 0;
        fn link(&self, link: QueueLink<u8>) -> u8 {
            match link {
                QueueLink::Newest => self.ends[0],
                QueueLink::Oldest => self.ends[1],
                QueueLink::Hand => self.ends[2],
                QueueLink::Newer(at) => self.newer[usize::from(at)],
                QueueLink::Older(at) => self.older[usize::from(at)],
            }
        }
        fn set_link(&mut self, link: QueueLink<u8>, to: u8) {
            match link {
                QueueLink::Newest => self.ends[0] = to,
                QueueLink::Oldest => self.ends[1] = to,
                QueueLink::Hand => self.ends[2] = to,
                QueueLink::Newer(at) => self.newer[usize::from(at)] = to,
                QueueLink::Older(at) => self.older[usize::from(at)] = to,
            }
        }
        fn unmark(&mut self, at: u8) -> bool {
            core::mem::take(&mut self.marks[usize::from(at)])
        }
    }

    /// SIEVE as the paper draws it: a row with a hand in it.
    #[derive(Default)]
    struct Row {
        /// From the oldest to the newest, with their marks.
        row: Vec<(u8, bool)>,
        hand: usize,
    }

    impl Row {
        fn evict(&mut self) -> Option<u8> {
            while !self.row.is_empty() {
                let place = self.hand % self.row.len();
                if !self.row[place].1 {
                    self.hand = place;
                    return Some(self.row.remove(place).0);
                }
                self.row[place].1 = false;
                self.hand = place + 1;
            }
            None
        }

        fn remove(&mut self, at: u8) {
            let place = self.row.iter().position(|(entry, _)| *entry == at).unwrap();
            self.row.remove(place);
            // A hand behind the newest is at the oldest, whatever comes later.
            if place < self.hand {
                self.hand -= 1;
            }
        }
    }

    #[test]
    fn it_puts_out_what_sieve_does() {
        let mut dice = 1_u64;
        let mut below = |n: usize| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(dice >> 33).unwrap() % n
        };
        let mut evicted = 0;
        for _ in 0..200 {
            let rows = (vec![0; 33], vec![0; 33], vec![false; 33]);
            let mut queue = Plain { ends: [0; 3], newer: rows.0, older: rows.1, marks: rows.2 };
            let (mut row, mut free) = (Row::default(), (1..=32).collect::<Vec<u8>>());
            for _ in 0..300 {
                let len = row.row.len();
                match below(8) {
                    0..3 if !free.is_empty() => {
                        let at = free.swap_remove(below(free.len()));
                        queue.marks[usize::from(at)] = false;
                        queue.push(at);
                        // At the end of the row it is not yet the hand's turn.
                        if row.hand >= len {
                            row.hand = 0;
                        }
                        row.row.push((at, false));
                    }
                    3..5 if len > 0 => {
                        let hit = below(len);
                        row.row[hit].1 = true;
                        queue.marks[usize::from(row.row[hit].0)] = true;
                    }
                    5 if len > 0 => {
                        let at = row.row[below(len)].0;
                        row.remove(at);
                        queue.unlink(at);
                        free.push(at);
                    }
                    6.. => {
                        let victim = queue.victim();
                        assert_eq!(victim, row.evict());
                        if let Some(at) = victim {
                            queue.unlink(at);
                            free.push(at);
                            evicted += 1;
                        }
                    }
                    _ => {}
                }
                let mut at = queue.link(QueueLink::Oldest);
                for (entry, marked) in &row.row {
                    assert_eq!((at, queue.marks[usize::from(at)]), (*entry, *marked));
                    at = queue.link(QueueLink::Newer(at));
                }
                assert_eq!(at, 0);
            }
        }
        assert!(evicted > 5000, "{evicted}");
    }

    #[test]
    fn who_is_over_a_bound_gives_up() {
        let rules = CachingRules { entries_max: 4, negatives_max: 2, ..CachingRules::default() };
        let rules = CachingRules { descriptors_max: 3, bytes_max: 100, ..rules };
        for (entries, bytes, descriptors, over) in [
            ([4, 0, 2], 100, 3, None),
            ([4, 0, 3], 200, 4, Some(Rank::Negative)),
            ([4, 1, 0], 200, 4, Some(Rank::Open)),
            ([3, 2, 0], 0, 2, Some(Rank::Held)),
            ([2, 3, 0], 0, 3, Some(Rank::Open)),
            ([1, 1, 1], 101, 1, Some(Rank::Held)),
            ([0, 1, 1], 101, 1, Some(Rank::Open)),
            ([0, 0, 1], 101, 0, Some(Rank::Negative)),
            ([0, 0, 0], 101, 0, None),
        ] {
            let totals = CacheTotals { entries, bytes, descriptors };
            assert_eq!(totals.find_excess(&rules), over, "{entries:?}");
        }
    }
}
