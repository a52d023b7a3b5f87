//! Counting by workers: plain stores to a slot with one writer, atomic additions to a shared one.
use crate::{Counter, Histogram, Slot};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A slot and the discipline of writing to it.
#[derive(Clone, Copy, Debug)]
pub enum Tally<'a> {
    /// A single writer: a load and a store, no locked instruction.
    Owned(Slot<'a>),
    /// Threads that share the slot: atomic additions. See [`Tally::striped`].
    Striped(Slot<'a>),
}

impl<'a> Tally<'a> {
    /// The tally of thread number `thread` out of more threads than slots: threads with the same
    /// remainder share a slot.
    ///
    /// # Panics
    /// If there is no slot.
    #[must_use]
    pub const fn striped(slots: &[Slot<'a>], thread: usize) -> Self {
        Self::Striped(slots[thread % slots.len()])
    }

    /// The slot written to.
    #[must_use]
    #[inline]
    pub const fn slot(&self) -> Slot<'a> {
        match self {
            Self::Owned(slot) | Self::Striped(slot) => *slot,
        }
    }

    /// Adds `n` to a counter, wrapping at 64 bits.
    #[inline]
    pub fn add(&self, counter: Counter, n: u64) {
        self.grow(self.slot().counter(counter), n);
    }

    /// Raises a counter that is a high-water mark to `value`, if it is lower.
    #[inline]
    pub fn max(&self, counter: Counter, value: u64) {
        self.raise(self.slot().counter(counter), value);
    }

    /// Records one value in a histogram.
    #[inline]
    pub fn record(&self, histogram: Histogram, value: u64) {
        let [bucket, sum, max] = self.slot().histogram_parts(histogram, value);
        self.grow(bucket, 1);
        self.grow(sum, value);
        self.raise(max, value);
    }

    /// Counts a final response when the kernel has its last byte: by status, by class of status,
    /// and by the size class of its body as sent.
    #[inline]
    pub fn reply(&self, status: u16, body_bytes: u64) {
        self.add(Counter::Replies, 1);
        self.add(Counter::size_class(body_bytes), 1);
        if let Some(class) = Counter::status_class(status) {
            self.add(class, 1);
        }
        if let Some(exact) = Counter::status(status) {
            self.add(exact, 1);
        }
    }

    #[inline]
    fn grow(&self, word: &AtomicU64, n: u64) {
        match self {
            Self::Owned(_) => word.store(word.load(Relaxed).wrapping_add(n), Relaxed),
            Self::Striped(_) => {
                word.fetch_add(n, Relaxed);
            }
        }
    }

    #[inline]
    fn raise(&self, word: &AtomicU64, value: u64) {
        // The load comes first in both cases: a mark is rarely raised.
        if word.load(Relaxed) < value {
            match self {
                Self::Owned(_) => word.store(value, Relaxed),
                Self::Striped(_) => {
                    word.fetch_max(value, Relaxed);
                }
            }
        }
    }
}
