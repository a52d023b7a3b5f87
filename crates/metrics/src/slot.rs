//! The part of the arena that belongs to one worker: its identity, counters and histograms.
use crate::{
    Counter, Gauge, Histogram, Merge, Snapshot,
    counter::COUNTERS,
    histogram::HISTOGRAMS,
    snapshot::{BUCKETS, bucket},
};
use alloc::string::String;
use core::{
    array,
    ops::Deref,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// Words in a slot, 8 bytes each; a multiple of 16, so that slots share no pair of cache lines
/// (the prefetcher fetches lines in pairs).
pub const SLOT_WORDS: usize = HISTOGRAMS_AT + HISTOGRAMS * HISTOGRAM_WORDS;

pub(crate) const PID: usize = 0;
const INCARNATION: usize = 1;
pub(crate) const HEARTBEAT_MS: usize = 2;
const ROOT_GENERATION: usize = 3;
const RETIRED: usize = 4;
/// A name, in the order of bytes in memory, filled up with zeros.
const ROLE: usize = 5;
const DIALS_AT: usize = 7;
/// A [`ThreadBeat`] in one word, so that its parts are of the same moment; 0: there is none.
const OLDEST_BEAT: usize = 13;
/// The bits of its time, milliseconds: they last for 139 years. The number of a thread has 22.
const BEAT_MS_BITS: u32 = 42;
/// 1 while the worker watches its listeners, where a connection wakes one worker only.
const LISTENS: usize = 14;
/// 1 while a film is made: see [`crate::Film`].
const FILMED: usize = 15;
pub(crate) const COUNTERS_AT: usize = 16;
const HISTOGRAMS_AT: usize = histograms_at(COUNTERS);
pub(crate) const HISTOGRAM_WORDS: usize = (BUCKETS + 2).next_multiple_of(16);
const SUM: usize = BUCKETS;
const MAX: usize = BUCKETS + 1;
const _: () = assert!(SLOT_WORDS.is_multiple_of(16));
const _: () = assert!(DIALS_AT + Dial::ALL.len() <= OLDEST_BEAT && OLDEST_BEAT < LISTENS);
const _: () = assert!(LISTENS < FILMED && FILMED < COUNTERS_AT);

/// Offset of the histograms in a slot with this number of counters.
pub(crate) const fn histograms_at(counters: usize) -> usize {
    (COUNTERS_AT + counters).next_multiple_of(16)
}

/// A setting of a pipeline stage, or its last measurement: unlike a counter it goes up and down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Dial {
    /// Threads that the stage has.
    Threads,
    /// The most items that a thread takes at once.
    BatchMost,
    /// Items admitted, thousandths per second.
    AdmitMilliPerS,
    /// The most items that may wait.
    QueueMax,
    /// The age below which nine of ten items were, the last time it was measured, nanoseconds.
    AgeP90Ns,
    /// Decisions taken so far.
    Decisions,
}

impl Dial {
    /// All dials, in the order of their words in a slot.
    pub const ALL: [Self; 6] = [
        Self::Threads,
        Self::BatchMost,
        Self::AdmitMilliPerS,
        Self::QueueMax,
        Self::AgeP90Ns,
        Self::Decisions,
    ];
}

/// A thread of a process, and the time when it last returned to its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadBeat {
    /// The number by which the kernel knows the thread.
    pub thread: u32,
    /// Milliseconds of the monotonic clock.
    pub tick_ms: u64,
}

/// Read-only view of one worker's slot.
#[derive(Clone, Copy, Debug)]
pub struct SlotView<'a>(&'a [AtomicU64; SLOT_WORDS]);

impl<'a> SlotView<'a> {
    pub(crate) const fn new(words: &'a [AtomicU64; SLOT_WORDS]) -> Self {
        Self(words)
    }

    /// The process identifier of the worker; 0 if the slot has never had one.
    #[must_use]
    pub fn pid(&self) -> u32 {
        // Only a 32-bit number is ever stored there.
        u32::try_from(self.0[PID].load(Relaxed)).unwrap_or(0)
    }

    /// Number of workers that this slot has had, this one included.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.0[INCARNATION].load(Relaxed)
    }

    /// Time of the worker's last heartbeat, in milliseconds of the monotonic clock.
    #[must_use]
    pub fn heartbeat_ms(&self) -> u64 {
        // A reader of it also sees the oldest beat of other threads that was stored before.
        self.0[HEARTBEAT_MS].load(Acquire)
    }

    /// The thread, other than the first of the process, that has been away from its work for
    /// longest; `None` if none is watched.
    #[must_use]
    pub fn oldest_beat(&self) -> Option<ThreadBeat> {
        let word = self.0[OLDEST_BEAT].load(Relaxed);
        let tick_ms = word & ((1 << BEAT_MS_BITS) - 1);
        let thread = u32::try_from(word >> BEAT_MS_BITS).ok()?;
        (word != 0).then_some(ThreadBeat { thread, tick_ms })
    }

    /// Generation of the root that the worker serves: see [`crate::ControlView::root_generation`].
    #[must_use]
    pub fn root_generation(&self) -> u64 {
        self.0[ROOT_GENERATION].load(Acquire)
    }

    /// True if the worker is to leave when it has no connection. For a worker that has ended: true
    /// if no other took its place at once.
    #[must_use]
    pub fn is_retired(&self) -> bool {
        self.0[RETIRED].load(Relaxed) != 0
    }

    /// True if the worker watches its listeners: see [`Slot::set_listens`].
    #[must_use]
    pub fn listens(&self) -> bool {
        self.0[LISTENS].load(Acquire) != 0
    }

    /// True if the units that count there are to write records for a film.
    #[must_use]
    #[inline(always)]
    pub fn is_filmed(&self) -> bool {
        self.0[FILMED].load(Relaxed) != 0
    }

    /// Name of the pipeline stage that counts there, as far as it is printable; empty if none does.
    #[must_use]
    pub fn role(&self) -> String {
        let words = self.0[ROLE..DIALS_AT].iter();
        let bytes = words.flat_map(|word| word.load(Relaxed).to_le_bytes());
        bytes.take_while(u8::is_ascii_graphic).map(char::from).collect()
    }

    /// Value of a dial of the stage; 0 if it has never been set.
    #[must_use]
    pub fn dial(&self, dial: Dial) -> u64 {
        self.0[DIALS_AT + dial as usize].load(Relaxed)
    }

    /// The value of a counter.
    #[must_use]
    #[inline]
    pub fn get(&self, counter: Counter) -> u64 {
        self.counter(counter).load(Relaxed)
    }

    /// The value of a gauge, for this worker.
    #[must_use]
    pub fn gauge(&self, gauge: Gauge) -> u64 {
        gauge.value(|counter| self.get(counter))
    }

    /// A histogram as it is now. While the worker writes, `sum` may differ from the buckets by the
    /// values recorded meanwhile; the count is always that of the buckets.
    #[must_use]
    pub fn histogram(&self, histogram: Histogram) -> Snapshot {
        snapshot(self.histogram_words(histogram))
    }

    #[inline]
    pub(crate) fn counter(&self, counter: Counter) -> &'a AtomicU64 {
        &self.0[COUNTERS_AT + counter as usize]
    }

    #[inline]
    pub(crate) fn histogram_words(&self, histogram: Histogram) -> &'a [AtomicU64; HISTOGRAM_WORDS] {
        let (histograms, _) = self.0[HISTOGRAMS_AT..].as_chunks();
        &histograms[histogram as usize]
    }

    /// The words that a value goes to: its bucket, the sum, the maximum.
    #[inline]
    pub(crate) fn histogram_parts(&self, histogram: Histogram, value: u64) -> [&'a AtomicU64; 3] {
        let words = self.histogram_words(histogram);
        [&words[bucket(value)], &words[SUM], &words[MAX]]
    }
}

/// A histogram as it is now.
pub(crate) fn snapshot(words: &[AtomicU64; HISTOGRAM_WORDS]) -> Snapshot {
    Snapshot {
        sum: words[SUM].load(Relaxed),
        max: words[MAX].load(Relaxed),
        buckets: array::from_fn(|index| words[index].load(Relaxed)),
    }
}

/// Writable slot of one worker, for that worker.
///
/// Counters are written through a [`crate::Tally`], which knows whether others write too.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'a>(SlotView<'a>);

impl<'a> Deref for Slot<'a> {
    type Target = SlotView<'a>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'a> Slot<'a> {
    pub(crate) const fn new(words: &'a [AtomicU64; SLOT_WORDS]) -> Self {
        Self(SlotView(words))
    }

    /// Enters a new worker: its process identifier, and one more incarnation.
    pub fn enter(&self, pid: u32) {
        self.set_role("");
        Dial::ALL.into_iter().for_each(|dial| self.set_dial(dial, 0));
        self.set_oldest_beat(None);
        self.0.0[INCARNATION].store(self.incarnation().wrapping_add(1), Relaxed);
        self.0.0[PID].store(u64::from(pid), Relaxed);
    }

    /// Stores the time of the worker's heartbeat.
    #[inline]
    pub fn set_heartbeat_ms(&self, tick_ms: u64) {
        self.0.0[HEARTBEAT_MS].store(tick_ms, Release);
    }

    /// Reports whether the worker watches its listeners, where a connection wakes one of those that
    /// do and not all of them.
    pub fn set_listens(&self, listens: bool) {
        self.0.0[LISTENS].store(u64::from(listens), Release);
    }

    /// Has the units that count there write records for a film, or stop. Who makes the film calls
    /// this; a unit that finds it over clears the mark.
    pub fn set_filmed(&self, filmed: bool) {
        // A unit that sees the mark and fences sees the film that it is for.
        self.0.0[FILMED].store(u64::from(filmed), Release);
    }

    /// Stores the other thread that has been away for longest; call it before the heartbeat.
    pub fn set_oldest_beat(&self, beat: Option<ThreadBeat>) {
        let word = |ThreadBeat { thread, tick_ms }| {
            u64::from(thread) << BEAT_MS_BITS | tick_ms & ((1 << BEAT_MS_BITS) - 1)
        };
        self.0.0[OLDEST_BEAT].store(beat.map_or(0, word), Relaxed);
    }

    /// True if both are the same slot.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        core::ptr::eq(self.0.0, other.0.0)
    }

    /// Stores the name of the pipeline stage that counts there: its first 16 bytes.
    pub fn set_role(&self, name: &str) {
        let mut bytes = name.bytes();
        for word in &self.0.0[ROLE..DIALS_AT] {
            let eight = array::from_fn(|_| bytes.next().unwrap_or(0));
            word.store(u64::from_le_bytes(eight), Relaxed);
        }
    }

    /// Sets a dial of the stage.
    pub fn set_dial(&self, dial: Dial, value: u64) {
        self.0.0[DIALS_AT + dial as usize].store(value, Relaxed);
    }

    /// Stores the generation of the worker's root; the master does so before a worker starts.
    pub fn set_root_generation(&self, generation: u64) {
        // Units of the process that see the number also see the root that it names.
        self.0.0[ROOT_GENERATION].store(generation, Release);
    }

    /// Marks the worker to leave, alone, when it has no connection. The master calls this, or the
    /// worker itself because it has served its quota.
    pub fn retire(&self) {
        self.0.0[RETIRED].store(1, Relaxed);
    }

    /// Clears the mark of [`Slot::retire`] before a worker starts; the master calls this.
    pub fn engage(&self) {
        self.0.0[RETIRED].store(0, Relaxed);
    }

    /// Stores the totals of others, in a slot that no worker has.
    pub fn set(&self, totals: &Totals) {
        for &counter in Counter::ALL {
            self.counter(counter).store(totals.get(counter), Relaxed);
        }
        for &histogram in Histogram::ALL {
            let (words, from) = (self.histogram_words(histogram), totals.histogram(histogram));
            for (word, value) in words.iter().zip(from.buckets) {
                word.store(value, Relaxed);
            }
            words[SUM].store(from.sum, Relaxed);
            words[MAX].store(from.max, Relaxed);
        }
    }

    /// Settles the slots of a process that has ended: everything that it had open is gone with it.
    /// All its units are settled together, because one may have closed what another opened. Open
    /// connections are counted under `closed`, which names how the process ended.
    ///
    /// Counters keep their values, so that they only grow; every gauge becomes 0. The master calls
    /// this after the last write to the slots and before they are used again.
    ///
    /// Set `cache_lives` for a cache that others share, so that it outlives the worker: its gauges
    /// are then sums over all workers, and stay.
    pub fn settle(slots: &[Self], closed: Counter, cache_lives: bool) {
        let Some(first) = slots.first() else { return };
        let sum = |counter| slots.iter().map(|slot| slot.get(counter)).fold(0, u64::wrapping_add);
        let cache = [Gauge::CacheEntries, Gauge::CacheFds, Gauge::CacheBytes];
        for &gauge in Gauge::ALL {
            if cache_lives && cache.contains(&gauge) {
                continue;
            }
            let left = gauge.value(sum);
            let down = first.counter(gauge.down()[0]);
            down.store(down.load(Relaxed).wrapping_add(left), Relaxed);
            if gauge == Gauge::ConnectionsOpen {
                let closed = first.counter(closed);
                closed.store(closed.load(Relaxed).wrapping_add(left), Relaxed);
            }
        }
        for slot in slots {
            slot.0.0[PID].store(0, Relaxed);
            slot.set_listens(false);
        }
    }
}

/// Counters and histograms of several slots, merged.
#[derive(Clone, Debug)]
pub struct Totals {
    counters: [u64; COUNTERS],
    histograms: [Snapshot; HISTOGRAMS],
}

impl Default for Totals {
    fn default() -> Self {
        let histograms = array::from_fn(|_| Snapshot::default());
        Self { counters: [0; COUNTERS], histograms }
    }
}

impl Totals {
    /// Sums over the current values of these slots. Large (26 KB): keep it off small stacks.
    #[must_use]
    pub fn from_slots<'a>(slots: impl IntoIterator<Item = SlotView<'a>>) -> Self {
        let mut totals = Self::default();
        for slot in slots {
            totals.add_counters(slot);
            for &histogram in Histogram::ALL {
                totals.histograms[histogram as usize].merge(&slot.histogram(histogram));
            }
        }
        totals
    }

    /// Like [`Totals::from_slots`] without histograms, which take most of its time.
    #[must_use]
    pub fn counters_of<'a>(slots: impl IntoIterator<Item = SlotView<'a>>) -> Self {
        let mut totals = Self::default();
        slots.into_iter().for_each(|slot| totals.add_counters(slot));
        totals
    }

    fn add_counters(&mut self, slot: SlotView<'_>) {
        // Backwards: the table lists what raises a gauge before what lowers it. So gauges err
        // upwards by the work done meanwhile, and do not become absurd.
        for &counter in Counter::ALL.iter().rev() {
            self.merge_counter(counter, slot.get(counter));
        }
    }

    /// Merges the totals of other slots.
    pub fn merge(&mut self, other: &Self) {
        for &counter in Counter::ALL {
            self.merge_counter(counter, other.get(counter));
        }
        for (mine, theirs) in self.histograms.iter_mut().zip(&other.histograms) {
            mine.merge(theirs);
        }
    }

    pub(crate) fn merge_histogram(&mut self, histogram: Histogram, other: &Snapshot) {
        self.histograms[histogram as usize].merge(other);
    }

    pub(crate) fn merge_counter(&mut self, counter: Counter, value: u64) {
        let total = &mut self.counters[counter as usize];
        *total = match counter.merge() {
            Merge::Sum => total.wrapping_add(value),
            Merge::Max => (*total).max(value),
        };
    }

    /// The value of a counter.
    #[must_use]
    pub const fn get(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }

    /// The value of a gauge.
    #[must_use]
    pub fn gauge(&self, gauge: Gauge) -> u64 {
        gauge.value(|counter| self.get(counter))
    }

    /// A histogram.
    #[must_use]
    pub const fn histogram(&self, histogram: Histogram) -> &Snapshot {
        &self.histograms[histogram as usize]
    }

    /// Values added after `earlier` was taken of the same slots. High-water marks are unchanged.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            counters: array::from_fn(|index| match Counter::ALL[index].merge() {
                Merge::Sum => self.counters[index].wrapping_sub(earlier.counters[index]),
                Merge::Max => self.counters[index],
            }),
            histograms: array::from_fn(|index| {
                self.histograms[index].since(&earlier.histograms[index])
            }),
        }
    }
}
