//! Counters of tests.

use regatta_metrics::Arena;
use std::sync::atomic::AtomicU64;

/// Counters in memory that the process keeps, with this many slots.
#[must_use]
pub fn arena(slots: usize) -> Arena<'static> {
    let words: Vec<AtomicU64> = (0..Arena::count_words(slots)).map(|_| AtomicU64::new(0)).collect();
    Arena::create(words.leak(), slots)
}
