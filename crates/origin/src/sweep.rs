//! The slow sweep for unused entries: the same for all caches, wherever their entries are.
use crate::CachingRules;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use regatta_op::Tick;

/// Entries that one call of a sweep checks. Few are removed at once: closing a deleted file may
/// take the disk a while.
const SWEEP_ENTRIES: usize = 1024;
/// Entries that one call of a sweep removes.
const SWEEP_REMOVALS: usize = 32;
/// Pause of a sweep before it continues, milliseconds.
pub const SWEEP_PAUSE_MS: u64 = 10;

/// Time and place of a sweep's next piece: words that all users of the cache share, 0 at first.
#[derive(Clone, Copy, Debug)]
pub struct Sweep<'a> {
    /// Time, ticks.
    pub on: &'a AtomicU64,
    /// Place: the number of an entry.
    pub at: &'a AtomicU64,
}

impl Sweep<'_> {
    /// Time of the next piece.
    #[must_use]
    pub fn on(&self) -> Tick {
        Tick(self.on.load(Relaxed))
    }

    /// The next piece of the sweep over `len` entries, for the first caller when it is due: the
    /// entries that are `idle`, to be removed if they still are.
    #[must_use]
    pub fn piece(
        &self,
        len: usize,
        now: Tick,
        rules: &CachingRules,
        idle: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let mut found = Vec::new();
        let (due, pause) = (self.on().0, now.after(SWEEP_PAUSE_MS).0);
        if due > now.0 || self.on.compare_exchange(due, pause, Relaxed, Relaxed).is_err() {
            return found;
        }
        let mut at = usize::try_from(self.at.load(Relaxed)).unwrap_or(usize::MAX);
        let last = len.min(at.saturating_add(SWEEP_ENTRIES));
        while at < last && found.len() < SWEEP_REMOVALS {
            if idle(at) {
                found.push(at);
            }
            at += 1;
        }
        if at >= len {
            at = 0;
            self.on.store(now.after(rules.sweep_ms()).0, Relaxed);
        }
        self.at.store(at as u64, Relaxed);
        found
    }
}
