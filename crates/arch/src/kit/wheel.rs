//! A timer wheel of connection keys: setting a deadline is cheap, and activity costs nothing.
//!
//! The wheel does not know whether an entry still matters. Its owner keeps, per connection, the
//! tick of the entry that counts; when an entry fires, the owner asks the connection for its
//! deadline and files it again if that has moved. An entry that no longer counts is dropped when it
//! fires.
use regatta_op::Tick;

/// Milliseconds that one bucket covers: how late a deadline may fire.
const BUCKET_MS: u64 = 32;
/// Buckets in the wheel; together they cover a little over a minute.
const BUCKETS: usize = 2048;
const WORDS: usize = BUCKETS / 64;
/// Entries in a piece of memory: a growing wheel moves none.
const CHUNK: usize = 256;
/// The end of a chain of entries.
const END: u32 = u32::MAX;

/// An entry: which connection, and the tick it was filed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fired {
    /// The connection's key.
    pub key: u64,
    /// The tick that the entry was filed for.
    pub at: Tick,
}

/// An entry in its chain.
#[derive(Clone, Copy, Debug)]
struct Link {
    entry: Fired,
    /// The place of the next one.
    next: u32,
}

/// The wheel. Its entries have places that are used again: a warm one allocates nothing, and what
/// a burst took is kept once and not by every bucket.
#[derive(Debug)]
pub struct Wheel {
    /// The place of each bucket's first entry.
    buckets: Box<[u32]>,
    /// The places.
    chunks: Vec<Box<[Link]>>,
    /// The first of those that are free.
    free: u32,
    /// One bit per bucket that holds an entry.
    filled: [u64; WORDS],
    /// The bucket number (not its index) up to which entries have fired.
    turned: u64,
    /// The number of the first bucket that holds an entry; [`NEVER`] if none does.
    soonest: u64,
}

/// No bucket.
const NEVER: u64 = u64::MAX;

impl Wheel {
    /// What an entry takes, bytes.
    pub const ENTRY_BYTES: usize = size_of::<Link>();

    /// An empty wheel that starts at `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        let (buckets, filled) = (vec![END; BUCKETS].into(), [0; WORDS]);
        let turned = now.0 / BUCKET_MS;
        Self { buckets, chunks: Vec::new(), free: END, filled, turned, soonest: NEVER }
    }

    /// Files `key` to fire at `at`, or up to one bucket later. An entry beyond the wheel's reach
    /// fires early; its owner files it again.
    pub fn insert(&mut self, key: u64, at: Tick) {
        let first = self.turned + 1;
        let last = self.turned + BUCKETS as u64 - 1;
        let number = (at.0 / BUCKET_MS + 1).clamp(first, last);
        self.soonest = self.soonest.min(number);
        let bucket = index(number);
        if self.free == END {
            self.grow();
        }
        let place = self.free;
        let next = std::mem::replace(&mut self.buckets[bucket], place);
        let link = Link { entry: Fired { key, at }, next };
        self.free = std::mem::replace(self.link(place), link).next;
        self.filled[bucket / 64] |= 1 << (bucket % 64);
    }

    /// Moves the entries that are due at `now` to `fired`.
    pub fn turn(&mut self, now: Tick, fired: &mut impl Extend<Fired>) {
        let until = now.0 / BUCKET_MS;
        if until >= self.soonest {
            let behind = until.saturating_sub(self.turned).min(BUCKETS as u64);
            for step in 1..=behind {
                let bucket = index(self.turned + step);
                if self.filled[bucket / 64] & (1 << (bucket % 64)) != 0 {
                    self.filled[bucket / 64] &= !(1 << (bucket % 64));
                    self.empty(bucket, fired);
                }
            }
            self.turned = self.turned.max(until);
            self.soonest = self.scan();
        }
        self.turned = self.turned.max(until);
    }

    /// Moves the entries of a bucket to `fired`.
    fn empty(&mut self, bucket: usize, fired: &mut impl Extend<Fired>) {
        let mut place = std::mem::replace(&mut self.buckets[bucket], END);
        while place != END {
            let free = std::mem::replace(&mut self.free, place);
            let link = self.link(place);
            fired.extend([link.entry]);
            place = std::mem::replace(&mut link.next, free);
        }
    }

    fn link(&mut self, place: u32) -> &mut Link {
        &mut self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }

    /// Makes places when none is free.
    fn grow(&mut self) {
        let start = u32::try_from(self.chunks.len() * CHUNK).expect("fewer than 2^32 timers");
        let entry = Fired { key: 0, at: Tick::NEVER };
        let mut chunk: Box<[Link]> =
            (start + 1..).take(CHUNK).map(|next| Link { entry, next }).collect();
        chunk[CHUNK - 1].next = END;
        self.chunks.push(chunk);
        self.free = start;
    }

    /// When the next entry is due; `None` if there is none.
    #[must_use]
    pub fn next(&self) -> Option<Tick> {
        (self.soonest != NEVER).then_some(Tick(self.soonest.saturating_mul(BUCKET_MS)))
    }

    /// The number of the first bucket that holds an entry.
    fn scan(&self) -> u64 {
        let start = index(self.turned + 1);
        for word in 0..=WORDS {
            let at = (start / 64 + word) % WORDS;
            let mut bits = self.filled[at];
            if word == 0 {
                bits &= u64::MAX << (start % 64);
            }
            if bits != 0 {
                let bucket = at * 64 + bits.trailing_zeros() as usize;
                let ahead = (bucket + BUCKETS - start) % BUCKETS;
                return self.turned + 1 + ahead as u64;
            }
        }
        NEVER
    }
}

fn index(bucket: u64) -> usize {
    usize::try_from(bucket % BUCKETS as u64).expect("below BUCKETS")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::dice::{Dice, SEEDS};

    #[test]
    fn entries_fire_once_not_early_and_at_most_a_bucket_late() {
        let mut wheel = Wheel::new(Tick(1_000));
        let ats: Vec<u64> = (0..500).map(|n| 1_000 + n * 97).collect();
        for (key, at) in ats.iter().enumerate() {
            wheel.insert(key as u64, Tick(*at));
        }
        let mut seen = Vec::new();
        let mut now = Tick(1_000);
        while let Some(next) = wheel.next() {
            now = next.max(now);
            let mut fired = Vec::new();
            wheel.turn(now, &mut fired);
            assert!(!fired.is_empty(), "the wheel said something was due at {now:?}");
            for entry in fired {
                assert!(
                    entry.at <= now && now.0 <= entry.at.0 + 2 * BUCKET_MS,
                    "{entry:?} {now:?}"
                );
                seen.push(entry.key);
            }
        }
        seen.sort_unstable();
        assert!(seen.iter().copied().eq(0..500));
    }

    /// Entries of any time, past and far beyond the wheel's reach, and waits of any length.
    #[test]
    fn random_schedules_fire_each_entry_once() {
        const REACH_MS: u64 = BUCKETS as u64 * BUCKET_MS;
        let mut dice = Dice::new(0);
        for seed in 0..SEEDS {
            let mut now = dice.below(1 << 20) as u64;
            let mut wheel = Wheel::new(Tick(now));
            let mut filed = std::collections::BTreeMap::new();
            for step in 0..300 {
                if dice.once_in(3) {
                    let most = [40, 1000, 200_000][dice.below(3)];
                    now += dice.below(most) as u64;
                    let mut fired = Vec::new();
                    wheel.turn(Tick(now), &mut fired);
                    for Fired { key, at } in fired {
                        let (due, since) = filed.remove(&key).expect("it fires once");
                        assert_eq!(at, due, "seed {seed}, {key}");
                        let far = due.0.saturating_sub(since) >= REACH_MS - 2 * BUCKET_MS;
                        assert!(due.0 <= now || far, "seed {seed}: {key} of {due:?} at {now}");
                    }
                    let late = |(due, since): &&(Tick, u64)| {
                        due.0.max(*since).saturating_add(2 * BUCKET_MS) <= now
                    };
                    assert_eq!(filed.values().find(late), None, "seed {seed}: late at {now}");
                } else {
                    let at = match dice.below(8) {
                        0 => Tick::NEVER,
                        1 => Tick(now.saturating_sub(500)),
                        2 => Tick(now + REACH_MS + dice.below(1 << 20) as u64),
                        _ => Tick(now + dice.below(70_000) as u64),
                    };
                    wheel.insert(step, at);
                    filed.insert(step, (at, now));
                }
                assert_eq!(wheel.next().is_some(), !filed.is_empty(), "seed {seed}");
            }
        }
    }

    #[test]
    fn places_are_used_again() {
        let mut wheel = Wheel::new(Tick(0));
        for round in 0..1000 {
            let most = u64::try_from(CHUNK).unwrap();
            for key in 0..most {
                wheel.insert(key, Tick(round * 100 + key));
            }
            let mut fired = Vec::new();
            wheel.turn(Tick(round * 100 + 1000), &mut fired);
            assert_eq!((fired.len(), wheel.chunks.len()), (CHUNK, 1), "round {round}");
        }
    }

    #[test]
    fn a_far_entry_fires_early_and_a_past_one_at_once() {
        let mut wheel = Wheel::new(Tick(0));
        wheel.insert(1, Tick::NEVER);
        let next = wheel.next().expect("one entry");
        assert!(next.0 < BUCKETS as u64 * BUCKET_MS);
        wheel.insert(2, Tick(0));
        assert_eq!(wheel.next(), Some(Tick(BUCKET_MS)));
    }

    #[test]
    fn a_long_sleep_fires_everything() {
        let mut wheel = Wheel::new(Tick(0));
        for key in 0..100 {
            wheel.insert(key, Tick(key * 600));
        }
        let mut fired = Vec::new();
        wheel.turn(Tick(10_000_000), &mut fired);
        assert_eq!(fired.len(), 100);
        assert_eq!(wheel.next(), None);
    }
}
