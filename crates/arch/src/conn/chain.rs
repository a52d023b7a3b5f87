//! Chains of connections: each connection is in one at most, and joins, leaves and moves in
//! constant time.
//!
//! A connection's link has the same number as its slot in the [`crate::conn::slab`]. Links take
//! memory for as many connections as were open at once, however many came and went.

use crate::conn::slab::{key, parts};

/// Links per chunk: growing never moves a link.
const CHUNK: usize = 256;
/// No place, and no chain.
const NONE: u32 = u32::MAX;

/// A connection in its chain. The links of a chain are a ring.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// The upper half of the connection's key; the lower is the place of this link.
    generation: u32,
    chain: u32,
    next: u32,
    prev: u32,
}

const FREE: Link = Link { generation: 0, chain: NONE, next: NONE, prev: NONE };

/// The chains.
#[derive(Debug)]
pub struct Chains {
    /// The place of each chain's first link.
    firsts: Box<[u32]>,
    chunks: Vec<Box<[Link; CHUNK]>>,
    len: usize,
}

impl Chains {
    /// Size of a link, bytes.
    pub const LINK_BYTES: usize = size_of::<Link>();

    /// `count` empty chains.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { firsts: vec![NONE; count].into(), chunks: Vec::new(), len: 0 }
    }

    /// Connections in all chains.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if all chains are empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The connection that has been in this chain for longest.
    #[must_use]
    pub fn first(&self, chain: usize) -> Option<u64> {
        let place = self.firsts[chain];
        (place != NONE).then(|| {
            let link = self.chunks[place as usize / CHUNK][place as usize % CHUNK];
            key(link.generation, place)
        })
    }

    /// The chain that a connection is in.
    #[must_use]
    pub fn find_chain(&self, key: u64) -> Option<usize> {
        let (generation, place) = parts(key);
        let link = self.chunks.get(place as usize / CHUNK)?[place as usize % CHUNK];
        (link.chain != NONE && link.generation == generation).then_some(link.chain as usize)
    }

    /// Puts a connection, which is in no chain, at the end of this one.
    pub fn join(&mut self, key: u64, chain: usize) {
        let (generation, place) = parts(key);
        while place as usize / CHUNK >= self.chunks.len() {
            self.chunks.push(Box::new([FREE; CHUNK]));
        }
        assert_eq!(self.link(place).chain, NONE, "a connection is in one chain at most");
        let (mut next, mut prev) = (place, place);
        if self.firsts[chain] == NONE {
            self.firsts[chain] = place;
        } else {
            next = self.firsts[chain];
            prev = std::mem::replace(&mut self.link(next).prev, place);
            self.link(prev).next = place;
        }
        let chain = u32::try_from(chain).expect("few chains");
        *self.link(place) = Link { generation, chain, next, prev };
        self.len += 1;
    }

    /// Takes a connection out of its chain, and returns the chain.
    pub fn leave(&mut self, key: u64) -> Option<usize> {
        let chain = self.find_chain(key)?;
        let (_, place) = parts(key);
        let link = *self.link(place);
        self.link(link.prev).next = link.next;
        self.link(link.next).prev = link.prev;
        if self.firsts[chain] == place {
            self.firsts[chain] = if link.next == place { NONE } else { link.next };
        }
        *self.link(place) = FREE;
        self.len -= 1;
        Some(chain)
    }

    fn link(&mut self, place: u32) -> &mut Link {
        &mut self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dice::{Dice, SEEDS};
    use std::collections::VecDeque;

    /// Connections join and leave at random: the first of a chain is always the one that has been
    /// in it for longest.
    #[test]
    fn random_schedules_keep_the_order() {
        for seed in 0..SEEDS {
            let mut dice = Dice::new(seed);
            let mut chains = Chains::new(3);
            let mut expect = [(); 3].map(|()| VecDeque::new());
            for step in 0..400 {
                let place = dice.below(600) as u64;
                let at = expect
                    .iter()
                    .position(|all| all.iter().any(|key| parts(*key).1 == parts(place).1));
                let chain = dice.below(3);
                if let Some(at) = at {
                    let of = |key: &u64| parts(*key).1 == parts(place).1;
                    let key = *expect[at].iter().find(|key| of(key)).unwrap();
                    assert_eq!(chains.leave(key ^ 1 << 32), None, "its successor is another");
                    assert_eq!(chains.leave(key), Some(at), "seed {seed}");
                    expect[at].retain(|other| *other != key);
                } else {
                    let key = step << 32 | place;
                    assert_eq!(chains.leave(key), None);
                    chains.join(key, chain);
                    expect[chain].push_back(key);
                }
                for (chain, all) in expect.iter().enumerate() {
                    assert_eq!(chains.first(chain), all.front().copied(), "seed {seed}");
                }
                assert_eq!(chains.len(), expect.iter().map(VecDeque::len).sum::<usize>());
            }
        }
    }

    /// Links take memory for as many connections as are open at once, however many come and go.
    #[test]
    fn memory_follows_the_open_connections() {
        let mut chains = Chains::new(1);
        for round in 0..1_000 {
            for place in 0..CHUNK as u64 {
                chains.join(round << 32 | place, 0);
            }
            for place in 0..CHUNK as u64 {
                assert_eq!(chains.leave(round << 32 | place), Some(0));
            }
        }
        assert_eq!((chains.len(), chains.chunks.len()), (0, 1));
    }
}
