//! Timers of connections: a wheel of their keys, where setting a deadline is cheap, and activity
//! costs nothing; or a list, where a worker has few.
//!
//! A connection has at most one entry, which is removed when it closes. The worker remembers the
//! tick of that entry and inserts it again only for an earlier deadline. When the entry fires, the
//! worker asks the connection for its deadline, and inserts it again if the deadline has moved.
use crate::conn::chain::Chains;
use regatta_op::Tick;

/// Milliseconds that one bucket covers: how late a deadline may fire.
const BUCKET_MS: u64 = 32;
/// Buckets in the wheel; together they cover a little over a minute.
const BUCKETS: usize = 2048;
const WORDS: usize = BUCKETS / 64;

/// Connections of a worker whose timers are listed: a thread's unit has one, and there may be ten
/// thousand threads.
const LISTED_MAX: usize = 1;

/// The timers of a worker. Where they have been, setting one allocates nothing.
#[derive(Debug)]
pub enum Timers {
    /// Timers of few connections: a unit may be given more than it accepts.
    List(Vec<(Tick, u64)>),
    /// Timers of many connections.
    Wheel(Box<Wheel>),
}

impl Timers {
    /// Size of a timer, bytes.
    pub const ENTRY_BYTES: usize = Wheel::ENTRY_BYTES;

    /// No timers, for a worker with at most `connections_max` connections.
    #[must_use]
    pub fn new(now: Tick, connections_max: usize) -> Self {
        if connections_max <= LISTED_MAX {
            return Self::List(Vec::with_capacity(connections_max));
        }
        Self::Wheel(Box::new(Wheel::new(now)))
    }

    /// Number of timers.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Wheel(wheel) => wheel.len(),
        }
    }

    /// True if there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Has `key` fire at `at` or little later, instead of when it was to fire before. It may fire
    /// early if that is far away.
    pub fn insert(&mut self, key: u64, at: Tick) {
        match self {
            Self::List(list) => match list.iter_mut().find(|(_, of)| *of == key) {
                Some(entry) => entry.0 = at,
                None => list.push((at, key)),
            },
            Self::Wheel(wheel) => wheel.insert(key, at),
        }
    }

    /// Removes the timer of `key`, if it has one.
    pub fn remove(&mut self, key: u64) {
        match self {
            Self::List(list) => list.retain(|(_, of)| *of != key),
            Self::Wheel(wheel) => wheel.remove(key),
        }
    }

    /// Moves the keys that are due at `now` to `fired`.
    pub fn turn(&mut self, now: Tick, fired: &mut impl Extend<u64>) {
        match self {
            Self::List(list) => fired.extend(list.extract_if(.., |of| of.0 <= now).map(|of| of.1)),
            Self::Wheel(wheel) => wheel.turn(now, fired),
        }
    }

    /// Time at which the next is due; `None` if there is none.
    #[must_use]
    pub fn next(&self) -> Option<Tick> {
        match self {
            Self::List(list) => list.iter().map(|(at, _)| *at).min(),
            Self::Wheel(wheel) => wheel.next(),
        }
    }
}

/// A wheel.
#[derive(Debug)]
pub struct Wheel {
    /// The entries of each bucket.
    buckets: Chains,
    /// Bits of the buckets, set where a bucket holds an entry.
    filled: [u64; WORDS],
    /// The bucket number (not its index) up to which entries have fired.
    turned: u64,
    /// The number of the first bucket that holds an entry; [`NEVER`] if none does.
    soonest: u64,
}

/// No bucket.
const NEVER: u64 = u64::MAX;

impl Wheel {
    /// Size of an entry, bytes.
    const ENTRY_BYTES: usize = Chains::LINK_BYTES;

    /// An empty wheel that starts at `now`.
    fn new(now: Tick) -> Self {
        let turned = now.0 / BUCKET_MS;
        Self { buckets: Chains::new(BUCKETS), filled: [0; WORDS], turned, soonest: NEVER }
    }

    /// Entries in the wheel.
    const fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Has `key` fire at `at` or up to one bucket later, instead of when it was to fire before. An
    /// entry beyond the wheel's reach fires early, and the worker inserts it again.
    fn insert(&mut self, key: u64, at: Tick) {
        self.remove(key);
        let first = self.turned + 1;
        let last = self.turned + BUCKETS as u64 - 1;
        let number = (at.0 / BUCKET_MS + 1).clamp(first, last);
        self.soonest = self.soonest.min(number);
        let bucket = index(number);
        self.buckets.join(key, bucket);
        self.filled[bucket / 64] |= 1 << (bucket % 64);
    }

    /// Removes the entry of `key`, if it has one.
    fn remove(&mut self, key: u64) {
        let Some(bucket) = self.buckets.leave(key) else { return };
        if self.buckets.first(bucket).is_none() {
            self.filled[bucket / 64] &= !(1 << (bucket % 64));
            if index(self.soonest) == bucket {
                self.soonest = self.scan();
            }
        }
    }

    /// Moves the keys that are due at `now` to `fired`.
    fn turn(&mut self, now: Tick, fired: &mut impl Extend<u64>) {
        let until = now.0 / BUCKET_MS;
        if until >= self.soonest {
            let behind = until.saturating_sub(self.turned).min(BUCKETS as u64);
            for step in 1..=behind {
                let bucket = index(self.turned + step);
                self.filled[bucket / 64] &= !(1 << (bucket % 64));
                while let Some(key) = self.buckets.first(bucket) {
                    self.buckets.leave(key);
                    fired.extend([key]);
                }
            }
            self.turned = self.turned.max(until);
            self.soonest = self.scan();
        }
        self.turned = self.turned.max(until);
    }

    /// Time at which the next entry is due; `None` if there is none.
    fn next(&self) -> Option<Tick> {
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
    use crate::testing::dice::{Dice, SEEDS};

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
            for key in fired {
                let at = ats[usize::try_from(key).unwrap()];
                assert!(at <= now.0 && now.0 <= at + 2 * BUCKET_MS, "{at} {now:?}");
                seen.push(key);
            }
        }
        seen.sort_unstable();
        assert!(seen.iter().copied().eq(0..500));
    }

    /// Entries for any time, also past ones and ones beyond the wheel's reach, are inserted, moved
    /// and removed, with waits of any length between.
    #[test]
    fn random_schedules_fire_each_entry_once() {
        const REACH_MS: u64 = BUCKETS as u64 * BUCKET_MS;
        let mut dice = Dice::new(0);
        for seed in 0..SEEDS {
            let mut now = dice.below(1 << 20) as u64;
            let most = if seed % 4 == 0 { LISTED_MAX } else { LISTED_MAX + 1 };
            let mut wheel = Timers::new(Tick(now), most);
            let mut filed = std::collections::BTreeMap::new();
            for step in 0..300 {
                let some = filed.keys().nth(dice.below(filed.len() + 1)).copied();
                if dice.once_in(3) {
                    let most = [40, 1000, 200_000][dice.below(3)];
                    now += dice.below(most) as u64;
                    let mut fired = Vec::new();
                    wheel.turn(Tick(now), &mut fired);
                    for key in fired {
                        let (due, since): (Tick, u64) = filed.remove(&key).expect("it fires once");
                        let far = due.0.saturating_sub(since) >= REACH_MS - 2 * BUCKET_MS;
                        assert!(due.0 <= now || far, "seed {seed}: {key} of {due:?} at {now}");
                    }
                    let late = |(due, since): &&(Tick, u64)| {
                        due.0.max(*since).saturating_add(2 * BUCKET_MS) <= now
                    };
                    assert_eq!(filed.values().find(late), None, "seed {seed}: late at {now}");
                } else if let Some(key) = some.filter(|_| dice.once_in(3)) {
                    wheel.remove(key);
                    filed.remove(&key);
                } else {
                    let at = match dice.below(8) {
                        0 => Tick::NEVER,
                        1 => Tick(now.saturating_sub(500)),
                        2 => Tick(now + REACH_MS + dice.below(1 << 20) as u64),
                        _ => Tick(now + dice.below(70_000) as u64),
                    };
                    let key = some.filter(|_| dice.once_in(4)).unwrap_or(step);
                    wheel.insert(key, at);
                    filed.insert(key, (at, now));
                }
                assert_eq!(wheel.len(), filed.len(), "seed {seed}");
                assert_eq!(wheel.next().is_some(), !filed.is_empty(), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_removed_entry_is_not_waited_for() {
        let mut wheel = Wheel::new(Tick(0));
        wheel.insert(1, Tick(1_000));
        wheel.insert(2, Tick(5_000));
        let later = Wheel::next(&wheel);
        wheel.remove(1);
        assert!(wheel.next() > later, "{later:?}");
        wheel.remove(2);
        assert_eq!((wheel.len(), wheel.next()), (0, None));
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
