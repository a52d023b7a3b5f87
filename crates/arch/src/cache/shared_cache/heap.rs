//! Bytes in shared memory: blocks of one size, chained by number, so that nothing is ever moved
//! and no room is lost between them.
use super::layout::{BLOCK_BYTES, BLOCK_WORDS, FREE_BLOCK, FRESH_BLOCK, MemoryLayout};
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The end of a chain; blocks count from 1.
pub(super) const END: u64 = 0;

impl MemoryLayout {
    /// Puts bytes into blocks; the first block's number, or `None` if there are too few.
    ///
    /// Call it, and [`MemoryLayout::free`], under the heap's lock or exclusively.
    pub(super) fn store(&self, bytes: &[u8]) -> Option<u64> {
        let mut first = END;
        // From the last block to the first, so that each knows the next.
        for piece in bytes.chunks(BLOCK_BYTES).rev() {
            let Some(block) = self.take_block() else {
                self.free(first);
                return None;
            };
            self.link(block).store(first, Relaxed);
            for (word, bytes) in self.block(block).iter().zip(piece.chunks(8)) {
                word.store(padded(bytes), Relaxed);
            }
            first = block;
        }
        Some(first)
    }

    /// Frees the blocks of a chain.
    pub(super) fn free(&self, mut block: u64) {
        while block != END {
            let next = self.link(block).load(Relaxed);
            let free = &self.header[FREE_BLOCK];
            self.link(block).store(free.load(Relaxed), Relaxed);
            free.store(block, Release);
            block = next;
        }
    }

    /// Frees all blocks.
    pub(super) fn free_all(&self) {
        self.header[FREE_BLOCK].store(END, Relaxed);
        self.header[FRESH_BLOCK].store(0, Relaxed);
    }

    /// Copies `len` bytes of a chain into `out`, replacing what it held.
    pub(super) fn load(&self, block: u64, len: usize, out: &mut Vec<u8>) {
        out.clear();
        out.resize(len, 0);
        let (mut at, mut done) = (block, 0);
        while done < len && at != END {
            let piece = &mut out[done..len.min(done + BLOCK_BYTES)];
            done += piece.len();
            let mut words = self.block(at).iter().map(|word| word.load(Relaxed).to_le_bytes());
            let (whole, rest) = piece.as_chunks_mut();
            for (bytes, word) in whole.iter_mut().zip(words.by_ref()) {
                *bytes = word;
            }
            if !rest.is_empty()
                && let Some(word) = words.next()
            {
                rest.copy_from_slice(&word[..rest.len()]);
            }
            if done < len {
                at = self.link(at).load(Acquire);
            }
        }
        out.truncate(done);
    }

    /// True if a chain holds exactly these bytes.
    #[inline]
    pub(super) fn holds(&self, block: u64, bytes: &[u8]) -> bool {
        let mut pieces = bytes.chunks(BLOCK_BYTES);
        let (mut at, mut next) = (block, pieces.next());
        while let Some(piece) = next {
            if at == END {
                return false;
            }
            let mut words = self.block(at).iter();
            if !piece
                .chunks(8)
                .all(|bytes| words.next().is_some_and(|word| word.load(Relaxed) == padded(bytes)))
            {
                return false;
            }
            next = pieces.next();
            // The last block has no successor: its cache line need not be fetched.
            if next.is_some() {
                at = self.link(at).load(Relaxed);
            }
        }
        true
    }

    fn take_block(&self) -> Option<u64> {
        let free = &self.header[FREE_BLOCK];
        let block = free.load(Acquire);
        if block != END {
            free.store(self.link(block).load(Relaxed), Relaxed);
            return Some(block);
        }
        // Pages that were never touched cost nothing: they are taken last.
        let fresh = self.header[FRESH_BLOCK].load(Relaxed);
        if fresh >= self.links.len() as u64 {
            return None;
        }
        self.header[FRESH_BLOCK].store(fresh + 1, Relaxed);
        Some(fresh + 1)
    }

    fn link(&self, block: u64) -> &'static AtomicU64 {
        &self.links[index(block)]
    }

    fn block(&self, block: u64) -> &'static [AtomicU64] {
        &self.blocks[index(block) * BLOCK_WORDS..][..BLOCK_WORDS]
    }
}

fn index(block: u64) -> usize {
    usize::try_from(block - 1).expect("64-bit Linux")
}

#[inline]
fn padded(bytes: &[u8]) -> u64 {
    if let Ok(word) = bytes.try_into() {
        return u64::from_le_bytes(word);
    }
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
