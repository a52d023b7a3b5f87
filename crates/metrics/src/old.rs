//! The arena of an earlier generation of workers, which another build may have made. Its counters
//! are found by the directory behind its slots.
use crate::{
    ArenaError, BUCKETS, Control, ControlView, Counter, Gauge, Histogram, Totals, VERSION,
    arena::{GEOMETRY, GONE_SLOTS, SLOT_COUNT, SLOTS_AT, directory},
    slot::{COUNTERS_AT, HEARTBEAT_MS, HISTOGRAM_WORDS, PID, histograms_at, snapshot},
};
use alloc::vec::Vec;
use core::{
    array,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// The most counters, and histograms, that another build is believed to have.
const NAMES_MAX: u64 = 1 << 16;

/// Slots of an arena that another build may have made, to be added up. Counters unknown to this
/// build are left out; counters unknown to the other build are 0.
#[derive(Debug)]
pub struct OldArena<'a> {
    words: &'a [AtomicU64],
    slots: usize,
    slot_words: usize,
    /// Counters and histograms of this build, in the order of the other one.
    counters: Vec<Option<Counter>>,
    histograms: Vec<Option<Histogram>>,
}

impl<'a> OldArena<'a> {
    /// Reads an arena that an earlier image of the master made.
    ///
    /// # Errors
    /// The words are no arena, are too few, or have another layout.
    pub fn attach(words: &'a [AtomicU64]) -> Result<Self, ArenaError> {
        ControlView::attach(words)?;
        let header = &words[..SLOTS_AT];
        let said: [u64; GEOMETRY.len()] = array::from_fn(|at| header[1 + at].load(Relaxed));
        let [_, slot_words, counters, histograms, ..] = said;
        let names = [counters, histograms].map(|number| number.min(NAMES_MAX));
        let [of_counters, of_histograms] = names.map(|number| usize::try_from(number).unwrap_or(0));
        let stride = histograms_at(of_counters) + of_histograms * HISTOGRAM_WORDS;
        let expected =
            [VERSION, stride as u64, names[0], names[1], BUCKETS as u64].into_iter().enumerate();
        for (at, expected) in expected {
            let (what, found) = (GEOMETRY[at].0, said[at]);
            if found != expected {
                return Err(ArenaError::Differs { what, found, expected });
            }
        }
        let slots = header[SLOT_COUNT].load(Relaxed);
        let directory_at = slots
            .saturating_add(GONE_SLOTS as u64)
            .saturating_mul(slot_words)
            .saturating_add(SLOTS_AT as u64);
        let expected = directory_at.saturating_add(names[0] + names[1]);
        let short = ArenaError::Short { found: words.len(), expected };
        let range = usize::try_from(directory_at).ok().zip(usize::try_from(expected).ok());
        let hashes = range.and_then(|(from, to)| words.get(from..to)).ok_or(short)?;
        let (of_counters, of_histograms) = hashes.split_at(of_counters);
        let own: Vec<u64> = directory().collect();
        let (own_counters, own_histograms) = own.split_at(Counter::ALL.len());
        let find = |own: &[u64], word: &AtomicU64| {
            let hash = word.load(Relaxed);
            own.iter().position(|own| *own == hash)
        };
        let counter = |word| find(own_counters, word).map(|at| Counter::ALL[at]);
        let histogram = |word| find(own_histograms, word).map(|at| Histogram::ALL[at]);
        Ok(Self {
            words,
            slots: usize::try_from(slots).unwrap_or(0),
            slot_words: stride,
            counters: of_counters.iter().map(counter).collect(),
            histograms: of_histograms.iter().map(histogram).collect(),
        })
    }

    /// Number of slots for workers.
    #[must_use]
    pub const fn slots(&self) -> usize {
        self.slots
    }

    /// Control words, by which the master directs these workers.
    #[must_use]
    pub const fn control(&self) -> Control<'a> {
        Control::new(self.words)
    }

    /// The last heartbeat of its workers that are present, in milliseconds of the monotonic clock.
    #[must_use]
    pub fn heartbeat_ms(&self) -> Option<u64> {
        let slots = (0..self.slots).map(|at| self.slot(at));
        let there = slots.filter(|slot| slot[PID].load(Relaxed) != 0);
        there.map(|slot| slot[HEARTBEAT_MS].load(Relaxed)).max()
    }

    /// Adds the counters of its own workers.
    pub fn add_workers(&self, totals: &mut Totals) {
        (0..self.slots).for_each(|at| self.add_slot(at, totals));
    }

    /// Adds the counters of generations before it that had ended: see [`crate::Arena::ended`].
    pub fn add_ended(&self, totals: &mut Totals) {
        self.add_slot(self.slots + GONE_SLOTS - 1, totals);
    }

    /// Settles the slots of a process that has ended, as [`crate::Slot::settle`] does.
    ///
    /// # Panics
    /// If there are no such slots.
    pub fn settle(&self, slots: Range<usize>, closed: Counter) {
        let Some(first) = slots.clone().next() else { return };
        let sum = |counter| {
            let values = slots.clone().filter_map(|at| self.counter(at, counter));
            values.fold(0u64, |sum, word| sum.wrapping_add(word.load(Relaxed)))
        };
        let add = |counter, value| {
            if let Some(word) = self.counter(first, counter) {
                word.store(word.load(Relaxed).wrapping_add(value), Relaxed);
            }
        };
        for &gauge in Gauge::ALL {
            let left = gauge.value(sum);
            add(gauge.down()[0], left);
            if gauge == Gauge::ConnectionsOpen {
                add(closed, left);
            }
        }
        slots.for_each(|at| self.slot(at)[PID].store(0, Relaxed));
    }

    fn slot(&self, at: usize) -> &'a [AtomicU64] {
        &self.words[SLOTS_AT + at * self.slot_words..][..self.slot_words]
    }

    /// The word of a counter of this build, if the other one has it.
    fn counter(&self, slot: usize, counter: Counter) -> Option<&'a AtomicU64> {
        let at = self.counters.iter().position(|own| *own == Some(counter))?;
        Some(&self.slot(slot)[COUNTERS_AT + at])
    }

    fn add_slot(&self, at: usize, totals: &mut Totals) {
        let slot = self.slot(at);
        let counters = &slot[COUNTERS_AT..][..self.counters.len()];
        // Backwards, as `Totals::from_slots` does.
        for (word, counter) in counters.iter().zip(&self.counters).rev() {
            if let Some(counter) = *counter {
                totals.merge_counter(counter, word.load(Relaxed));
            }
        }
        let histograms = &slot[histograms_at(self.counters.len())..];
        let (histograms, _) = histograms.as_chunks::<HISTOGRAM_WORDS>();
        for (words, histogram) in histograms.iter().zip(&self.histograms) {
            if let Some(histogram) = *histogram {
                totals.merge_histogram(histogram, &snapshot(words));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Arena, Slot, Tally,
        arena::{HASH_START, MAGIC, MAGIC_AT, hash_counter, hash_histogram},
    };

    /// Counters of another build: one that is unknown here, and some that are known, in another
    /// order.
    const COUNTERS: [Option<Counter>; 4] = [
        Some(Counter::ConnectionsClosed),
        None,
        Some(Counter::Requests),
        Some(Counter::ConnectionsOpened),
    ];
    const STRIDE: usize = histograms_at(COUNTERS.len()) + 2 * HISTOGRAM_WORDS;

    /// An arena of that build with this number of slots.
    fn foreign(slots: usize) -> Vec<AtomicU64> {
        let directory_at = SLOTS_AT + (slots + GONE_SLOTS) * STRIDE;
        let words: Vec<AtomicU64> = (0..directory_at + 16).map(|_| AtomicU64::new(0)).collect();
        let set = |at: usize, value: u64| words[at].store(value, Relaxed);
        let geometry = [VERSION, STRIDE as u64, COUNTERS.len() as u64, 2, BUCKETS as u64, 99];
        (1..).zip(geometry).for_each(|(at, value)| set(at, value));
        set(SLOT_COUNT, slots as u64);
        for (at, counter) in (directory_at..).zip(COUNTERS) {
            set(at, counter.map_or(7, |counter| hash_counter(HASH_START, counter)));
        }
        let loops = hash_histogram(HASH_START, Histogram::LoopNs);
        set(directory_at + COUNTERS.len(), 8);
        set(directory_at + COUNTERS.len() + 1, loops);
        set(MAGIC_AT, MAGIC);
        words
    }

    #[test]
    fn counters_of_another_build_are_found_by_name() {
        let words = foreign(2);
        for slot in 0..3 {
            let slot_at = SLOTS_AT + slot * STRIDE;
            // The third is that of `departed`, which is not a worker's.
            (0..4).for_each(|at| words[slot_at + COUNTERS_AT + at].store(10 + at as u64, Relaxed));
            let histogram = slot_at + histograms_at(COUNTERS.len()) + HISTOGRAM_WORDS;
            words[histogram + 3].store(5, Relaxed);
            words[histogram + BUCKETS].store(15, Relaxed);
        }
        let ended_at = SLOTS_AT + 3 * STRIDE;
        words[ended_at + COUNTERS_AT + 2].store(1000, Relaxed);
        assert!(Arena::attach(&words).is_err(), "it is another build's");
        let old = OldArena::attach(&words).expect("the layout is the same");
        assert_eq!(old.slots(), 2);
        let mut totals = Totals::default();
        old.add_workers(&mut totals);
        let get = |totals: &Totals, counter| totals.get(counter);
        assert_eq!(get(&totals, Counter::Requests), 24);
        assert_eq!(get(&totals, Counter::ConnectionsOpened), 26);
        assert_eq!(get(&totals, Counter::ConnectionsClosed), 20);
        assert_eq!(get(&totals, Counter::Replies), 0);
        let loops = totals.histogram(Histogram::LoopNs);
        assert_eq!((loops.count(), loops.sum()), (10, 30));
        old.add_ended(&mut totals);
        assert_eq!(get(&totals, Counter::Requests), 1024);
        // Its open connections end with it; it does not count the reason for their end.
        assert_eq!(totals.gauge(Gauge::ConnectionsOpen), 6);
        old.settle(0..2, Counter::ClosedDrained);
        let mut settled = Totals::default();
        old.add_workers(&mut settled);
        assert_eq!(settled.gauge(Gauge::ConnectionsOpen), 0);
        assert_eq!(get(&settled, Counter::ConnectionsOpened), 26);
    }

    #[test]
    fn an_arena_of_this_build_is_added_up_as_it_is() {
        let words: Vec<AtomicU64> = (0..Arena::count_words(2)).map(|_| AtomicU64::new(0)).collect();
        let arena = Arena::create(&words, 2);
        for (slot, n) in [(0, 3), (1, 4)] {
            let tally = Tally::Owned(arena.slot(slot));
            Counter::ALL.iter().for_each(|counter| tally.add(*counter, n));
            tally.record(Histogram::LoopNs, n);
        }
        let workers = Totals::from_slots(arena.view().slots());
        let old = OldArena::attach(&words).expect("it is an arena");
        assert_eq!(old.slots(), 2);
        let mut totals = Totals::default();
        old.add_workers(&mut totals);
        let all =
            |totals: &Totals| Counter::ALL.iter().map(|of| totals.get(*of)).collect::<Vec<_>>();
        assert_eq!(all(&totals), all(&workers));
        // Stored for readers, and for the next image, and found there.
        arena.departed().set(&totals);
        arena.ended().set(&totals);
        assert_eq!(all(&Totals::from_slots([arena.view().departed()])), all(&workers));
        assert_eq!(
            all(&Totals::from_slots(arena.view().slots())),
            all(&workers),
            "workers are their own"
        );
        let mut ended = Totals::default();
        old.add_ended(&mut ended);
        assert_eq!(all(&ended), all(&workers));
        assert_eq!(ended.histogram(Histogram::LoopNs).sum(), 7);
        // Both ways of settling agree.
        old.settle(0..1, Counter::ClosedDrained);
        Slot::settle(&[arena.slot(1)], Counter::ClosedDrained, false);
        let both = Totals::from_slots(arena.view().slots());
        assert!(Gauge::ALL.iter().all(|gauge| both.gauge(*gauge) == 0));
        old.control().leave(1234);
        assert!(arena.control().listeners_stay());
    }

    #[test]
    fn what_is_no_arena_is_refused() {
        let words = foreign(2);
        let needed = SLOTS_AT + (2 + GONE_SLOTS) * STRIDE + COUNTERS.len() + 2;
        assert!(OldArena::attach(&words[..needed]).is_ok());
        for length in [0, SLOTS_AT, needed - 1] {
            let short = OldArena::attach(&words[..length]).err();
            assert!(matches!(short, Some(ArenaError::Short { .. })), "{length}: {short:?}");
        }
        // Version, words in a slot, counters, histograms, buckets.
        for word in 1..=5 {
            for value in [0, u64::MAX] {
                let before = words[word].swap(value, Relaxed);
                let differs = OldArena::attach(&words).err();
                assert!(matches!(differs, Some(ArenaError::Differs { .. })), "{word}: {differs:?}");
                words[word].store(before, Relaxed);
            }
        }
        words[SLOT_COUNT].store(u64::MAX, Relaxed);
        assert!(matches!(OldArena::attach(&words), Err(ArenaError::Short { .. })));
        words[MAGIC_AT].store(0, Relaxed);
        assert!(matches!(OldArena::attach(&words), Err(ArenaError::Magic)));
    }
}
