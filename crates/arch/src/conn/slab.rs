//! Slots with generations: a key names one value and never its successor in the same slot.
//!
//! A worker has its connections in one, and the keys go to the poller. Mapped chunks of files are
//! in another ([`maps`](super::maps)); chains take keys apart ([`chain`](super::chain)).

/// Slots per chunk: a growing slab never moves a slot.
const CHUNK: usize = 256;
/// Keys use 31 bits of generation, so that keys with the top bit are free for the loop's own uses.
const GENERATIONS: u32 = 0x7fff_ffff;
/// No entry.
const NONE: u32 = u32::MAX;

/// Slots in chunks, reused last in, first out.
#[derive(Debug)]
pub struct Slab<T> {
    chunks: Vec<Box<[Entry<T>]>>,
    /// The first free entry, or [`NONE`].
    free: u32,
    len: usize,
    /// The number of slots that are expected to be in use at once.
    most: usize,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    /// The next entry in the list of free ones, if this one is free. It fits into padding.
    next: u32,
    slot: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::expecting(usize::MAX)
    }
}

impl<T> Slab<T> {
    /// Bytes of a slot, with its generation and its link in the list of free slots.
    pub const SLOT_BYTES: usize = size_of::<Entry<T>>();

    /// No slots yet; it takes memory for `most` at first, and for more if they come.
    #[must_use]
    pub const fn expecting(most: usize) -> Self {
        Self { chunks: Vec::new(), free: NONE, len: 0, most }
    }

    /// Slots in use.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if no slot is in use.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts `slot` in a free entry and returns its key.
    pub fn insert(&mut self, slot: T) -> u64 {
        if self.free == NONE {
            self.free = self.grow();
        }
        let at = self.free;
        let entry = &mut self.chunks[at as usize / CHUNK][at as usize % CHUNK];
        debug_assert!(entry.slot.is_none(), "a free entry is empty");
        entry.slot = Some(slot);
        self.free = entry.next;
        self.len += 1;
        key(entry.generation, at)
    }

    /// The slot that `key` names; `None` if it has been removed.
    #[must_use]
    pub fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        let (generation, at) = parts(key);
        let entry = self.chunks.get_mut(at as usize / CHUNK)?.get_mut(at as usize % CHUNK)?;
        if entry.generation == generation { entry.slot.as_mut() } else { None }
    }

    /// Removes the slot that `key` names; `None` if it has been removed before. The entry is used
    /// again under another generation, so the old key finds nothing until the generations wrap.
    pub fn remove(&mut self, key: u64) -> Option<T> {
        let (generation, at) = parts(key);
        let entry = self.chunks.get_mut(at as usize / CHUNK)?.get_mut(at as usize % CHUNK)?;
        if entry.generation != generation {
            return None;
        }
        let slot = entry.slot.take()?;
        entry.generation = (entry.generation + 1) & GENERATIONS;
        entry.next = std::mem::replace(&mut self.free, at);
        self.len -= 1;
        Some(slot)
    }

    /// The keys of all slots in use, in no particular order.
    #[must_use]
    pub fn keys(&self) -> Vec<u64> {
        let chunks = self.chunks.iter().zip((0u32..).step_by(CHUNK));
        let entries = chunks.flat_map(|(chunk, start)| chunk.iter().zip(start..));
        entries.filter(|(p, _)| p.slot.is_some()).map(|(p, at)| key(p.generation, at)).collect()
    }

    /// Adds free entries, when there are none, and returns the first.
    fn grow(&mut self) -> u32 {
        let start = u32::try_from(self.chunks.len() * CHUNK).expect("fewer than 2^32 entries");
        let len = self.most.saturating_sub(self.len).clamp(1, CHUNK);
        let end = start + u32::try_from(len).expect("small");
        let next = |at| if at + 1 < end { at + 1 } else { NONE };
        let entry = |at| Entry { generation: 0, next: next(at), slot: None };
        self.chunks.push((start..end).map(entry).collect());
        start
    }
}

/// The key of a slot: its generation and the number of its entry.
pub(crate) fn key(generation: u32, at: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(at)
}

/// The generation and the number of the entry in a [`key`].
#[expect(clippy::cast_possible_truncation, reason = "the key's two halves are 32 bits each")]
pub(crate) const fn parts(key: u64) -> (u32, u32) {
    ((key >> 32) as u32, key as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dice::{Dice, SEEDS};
    use std::collections::HashMap;

    #[test]
    fn random_schedules_find_what_is_there_and_nothing_else() {
        for seed in 0..SEEDS {
            let mut dice = Dice::new(seed);
            let most = if seed % 2 == 0 { usize::MAX } else { usize::try_from(seed).unwrap() };
            let mut slab = Slab::expecting(most);
            let (mut there, mut gone) = (HashMap::new(), Vec::new());
            for step in 0..400 {
                let keys: Vec<u64> = there.keys().copied().collect();
                match keys.get(dice.below(keys.len() + 1)) {
                    Some(key) if dice.once_in(2) => {
                        assert_eq!(slab.remove(*key), there.remove(key));
                        gone.push(*key);
                    }
                    Some(key) => assert_eq!(slab.get_mut(*key), there.get_mut(key)),
                    None => {
                        for value in 0..dice.below(20) {
                            assert_eq!(there.insert(slab.insert(step + value), step + value), None);
                        }
                    }
                }
                if let Some(key) = gone.get(dice.below(gone.len() + 1)) {
                    assert_eq!(slab.get_mut(*key), None);
                    assert_eq!(slab.remove(*key), None);
                }
            }
            let mut keys = slab.keys();
            assert_eq!((slab.len(), keys.len()), (there.len(), there.len()));
            keys.retain(|key| !there.contains_key(key));
            assert!(keys.is_empty(), "seed {seed}: {keys:?}");
        }
    }

    #[test]
    fn a_key_names_one_slot_and_never_its_successor() {
        let mut slab = Slab::default();
        let keys: Vec<u64> = (0..1000).map(|n| slab.insert(n)).collect();
        assert_eq!(slab.len(), 1000);
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(slab.get_mut(*key), Some(&mut n.clone()));
        }
        assert_eq!(slab.remove(keys[300]), Some(300));
        assert_eq!(slab.remove(keys[300]), None);
        let successor = slab.insert(7);
        assert_ne!(successor, keys[300]);
        assert_eq!(parts(successor).1, parts(keys[300]).1, "the entry is used again");
        assert_eq!(slab.get_mut(keys[300]), None);
        assert_eq!(slab.keys().len(), 1000);
        assert_eq!(slab.get_mut(u64::MAX), None);
    }

    #[test]
    fn few_that_are_expected_take_little_memory_and_more_have_room() {
        let mut slab = Slab::expecting(3);
        let mut keys: Vec<u64> = (0..3).map(|n| slab.insert(n)).collect();
        assert_eq!(slab.chunks.iter().map(|chunk| chunk.len()).sum::<usize>(), 3);
        keys.extend((3..6).map(|n| slab.insert(n)));
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(slab.get_mut(*key), Some(&mut n.clone()));
        }
        let mut all = slab.keys();
        all.sort_unstable();
        keys.sort_unstable();
        assert_eq!(all, keys);
    }
}
