//! Keys of connections, and the bytes of a receive.

use crate::number::{id, index};

/// A connection of one thread; it stays different from all others when its place is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnId(pub(super) u64);

impl ConnId {
    pub(super) fn new(at: usize, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(id(at)))
    }

    pub(super) fn at(self) -> usize {
        index(self.0 & 0xffff_ffff)
    }
}

/// Bytes that one receive takes at most.
pub(super) const INPUT_BYTES: usize = 128 << 10;

/// Bytes of the last receive, and how many of them are used.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) bytes: Vec<u8>,
    pub(super) at: usize,
    pub(super) end: usize,
}

impl Input {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; INPUT_BYTES], at: 0, end: 0 }
    }
}
