//! Beats of the threads of a process, which show whether they come back to their work. Each thread
//! counts its returns. The first checks all, and reports to the master which has been away longest.
use crate::sync::lock;
use regatta_metrics::{Slot, ThreadBeat};
use regatta_op::Tick;
use regatta_sys::thread;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

/// Time between two checks of all threads, milliseconds: less than the first thread sleeps.
const LOOK_MS: u64 = 500;

/// The beat of one thread, in a pair of cache lines that no other thread writes to.
#[derive(Debug)]
#[repr(align(128))]
pub struct Beat {
    /// Number of returns. Progress, not time: it costs no clock, and a machine that was stopped
    /// makes no thread late.
    count: AtomicU64,
    /// The thread is in a call that may last: the disk's, or its peer's, which cannot be hurried.
    waits: AtomicBool,
}

impl Beat {
    /// The thread has come back.
    #[inline]
    pub fn beat(&self) {
        // It has one writer.
        self.count.store(self.count.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Begins a call that may last, until the returned value is dropped. Without a beat, does
    /// nothing.
    #[inline]
    pub fn begins_call(beat: Option<&Self>) -> Waits<'_> {
        if let Some(beat) = beat {
            beat.waits.store(true, Relaxed);
        }
        Waits(beat)
    }
}

/// A call that may last.
#[derive(Debug)]
pub struct Waits<'a>(Option<&'a Beat>);

impl Drop for Waits<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(beat) = self.0 {
            beat.beat();
            beat.waits.store(false, Relaxed);
        }
    }
}

/// The beats of a process, besides its first thread's, which is its heartbeat.
#[derive(Debug, Default)]
pub struct Beats {
    /// By the number of the thread.
    all: Mutex<HashMap<u32, Seen>>,
    /// Time of the next check, ticks.
    next: AtomicU64,
}

/// A beat, and when it was seen to have changed.
#[derive(Debug)]
struct Seen {
    beat: Weak<Beat>,
    count: u64,
    since: Tick,
}

impl Beats {
    /// Returns the beat of this thread. It is watched from now on, as long as an owner keeps it.
    #[must_use]
    pub fn own(&self) -> Arc<Beat> {
        self.watch(thread::number())
    }

    fn watch(&self, thread: u32) -> Arc<Beat> {
        let mut all = lock(&self.all);
        // A thread may be of several stages, one after another.
        if let Some(own) = all.get(&thread).and_then(|seen| seen.beat.upgrade()) {
            return own;
        }
        let beat = Arc::new(Beat { count: AtomicU64::new(1), waits: AtomicBool::new(false) });
        // The first look finds it changed.
        all.insert(thread, Seen { beat: Arc::downgrade(&beat), count: 0, since: Tick(0) });
        beat
    }

    /// Checks all threads, if it is time to, and reports in the slot which has been away longest. A
    /// thread in a call that may last counts as one that has just come back.
    pub fn check(&self, now: Tick, slot: Slot<'_>) {
        if now.0 < self.next.load(Relaxed) {
            return;
        }
        self.next.store(now.after(LOOK_MS).0, Relaxed);
        let mut all = lock(&self.all);
        let mut oldest: Option<ThreadBeat> = None;
        all.retain(|thread, seen| {
            let Some(beat) = seen.beat.upgrade() else { return false };
            let count = beat.count.load(Relaxed);
            if count != seen.count || beat.waits.load(Relaxed) {
                (seen.count, seen.since) = (count, now);
            }
            let found = ThreadBeat { thread: *thread, tick_ms: seen.since.0 };
            let age = |of: ThreadBeat| (of.tick_ms, of.thread);
            if oldest.is_none_or(|oldest| age(found) < age(oldest)) {
                oldest = Some(found);
            }
            true
        });
        drop(all);
        slot.set_oldest_beat(oldest);
    }
}

impl Beats {
    /// The pulse of a worker of this thread; the first unit of a process reads the others' beats.
    #[must_use]
    pub fn pulse(&self, is_first: bool) -> Pulse<'_> {
        if is_first { Pulse::First(self) } else { Pulse::Other(self.own()) }
    }
}

/// Part of a worker in the beats of its process.
#[derive(Debug)]
pub enum Pulse<'a> {
    /// The first thread's, which checks all others.
    First(&'a Beats),
    /// Another thread's, with its own beat.
    Other(Arc<Beat>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_testkit::counters::arena;

    /// Returns what is reported after a check at this time.
    fn check_at(beats: &Beats, ms: u64, slot: Slot<'_>) -> Option<(u32, u64)> {
        beats.check(Tick(ms), slot);
        slot.oldest_beat().map(|beat| (beat.thread, beat.tick_ms))
    }

    #[test]
    fn the_thread_that_has_not_come_back_for_longest_is_told() {
        let slot = arena(1).slot(0);
        let beats = Beats::default();
        assert_eq!(check_at(&beats, 1_000, slot), None);
        let (first, second) = (beats.watch(7), beats.watch(8));
        assert_eq!(check_at(&beats, 1_499, slot), None, "it is not time");
        assert_eq!(check_at(&beats, 1_500, slot), Some((7, 1_500)));
        first.beat();
        assert_eq!(check_at(&beats, 2_000, slot), Some((8, 1_500)));
        let call = Beat::begins_call(Some(&second));
        assert_eq!(check_at(&beats, 3_000, slot), Some((7, 2_000)), "a call may last");
        assert_eq!(check_at(&beats, 60_000, slot), Some((7, 2_000)));
        first.beat();
        drop(call);
        assert_eq!(check_at(&beats, 61_000, slot), Some((7, 61_000)));
        first.beat();
        assert_eq!(check_at(&beats, 62_000, slot), Some((8, 61_000)), "the call is over");
        let again = beats.watch(8);
        drop(second);
        first.beat();
        assert_eq!(check_at(&beats, 63_000, slot), Some((8, 61_000)), "it is still there");
        drop(again);
        assert_eq!(check_at(&beats, 64_000, slot), Some((7, 63_000)));
        drop(first);
        assert_eq!(check_at(&beats, 65_000, slot), None);
    }
}
