//! A reply as far as it has come.

use super::expect::Check;
use super::head::Head;
use regatta_http::chunked::Decoder;

/// Bytes that one receive takes at most.
pub(super) const INPUT_BYTES: usize = 128 << 10;

/// What the last receive brought, and what of it is not looked at yet.
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

/// A reply in progress.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    pub(super) reading: Reading,
    /// The start of a head that came in pieces.
    pub(super) held: Vec<u8>,
    pub(super) head: Option<Head>,
    pub(super) check: Check,
    pub(super) bytes: u64,
}

/// What comes next of a reply.
#[derive(Debug, Default)]
pub(super) enum Reading {
    #[default]
    Head,
    Length(u64),
    Chunked(Decoder),
    UntilClose,
}

impl Exchange {
    /// Whether a byte of the reply has come.
    pub(super) fn is_begun(&self) -> bool {
        self.head.is_some() || !self.held.is_empty()
    }
}
