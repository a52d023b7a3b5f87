//! A histogram as read at one moment: log-linear buckets, and statistics computed from them.
use core::ops::RangeInclusive;

/// Buckets in each power of two; the width of a bucket is at most this fraction of its values.
pub const SUB_BUCKETS: usize = 1 << SUB_BITS;

const SUB_BITS: u32 = 4;
const TOP_BITS: u32 = 42;

/// The largest value that has a bucket of its own size; larger ones share the last bucket. As
/// nanoseconds it is 73 minutes.
pub const VALUE_MAX: u64 = (1 << TOP_BITS) - 1;

/// The number of buckets: values below [`SUB_BUCKETS`] have one each, then every power of two up to
/// [`VALUE_MAX`] has [`SUB_BUCKETS`].
pub const BUCKETS: usize = ((TOP_BITS - SUB_BITS) as usize + 1) * SUB_BUCKETS;

/// The bucket of a value.
#[inline]
pub(crate) const fn bucket(value: u64) -> usize {
    // Values below SUB_BUCKETS have no leading bit that could be left out: with one set for them,
    // they fall out of the same formula.
    let shift = (value | SUB_BUCKETS as u64).ilog2() - SUB_BITS;
    #[expect(clippy::cast_possible_truncation, reason = "below 2 * SUB_BUCKETS")]
    let leading = (value >> shift) as usize;
    // In a block other than the first the leading bit is set and skips SUB_BUCKETS buckets.
    let bucket = ((shift as usize) << SUB_BITS) + leading;
    // Bounded here and not above: the compiler then needs no bounds check.
    if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
}

/// The values of a bucket; the last bucket's end is unbounded.
const fn values(bucket: usize) -> RangeInclusive<u64> {
    let shift = (bucket / SUB_BUCKETS).saturating_sub(1);
    let low = ((bucket - (shift << SUB_BITS)) as u64) << shift;
    let high = if bucket == BUCKETS - 1 { u64::MAX } else { low + ((1 << shift) - 1) };
    low..=high
}

/// A range that holds the value asked for; both ends can be the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// No less than this.
    pub low: u64,
    /// No more than this; less than `low` times `1 + 1/SUB_BUCKETS` up to [`VALUE_MAX`].
    pub high: u64,
}

/// A histogram as it was when it was read.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub(crate) buckets: [u64; BUCKETS],
    pub(crate) sum: u64,
    pub(crate) max: u64,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], sum: 0, max: 0 }
    }
}

impl core::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Snapshot")
            .field("count", &self.count())
            .field("sum", &self.sum)
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Number of values recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, count| sum.wrapping_add(*count))
    }

    /// The sum of all values, exact unless it exceeded 64 bits.
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// The largest value, exact; for a difference see [`Snapshot::since`]. 0 if there is none.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// The mean, rounded down; 0 if there is no value.
    #[must_use]
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count()).unwrap_or(0)
    }

    /// Number of values below `edge`, which must be a power of two: buckets have their ends there.
    #[must_use]
    pub fn count_below(&self, edge: u64) -> u64 {
        debug_assert!(edge.is_power_of_two() && edge <= VALUE_MAX, "an end of a bucket");
        let below = &self.buckets[..bucket(edge)];
        below.iter().fold(0, |sum, count| sum.wrapping_add(*count))
    }

    /// Bounds of the value that `per_million` millionths of the values do not exceed. Its rank is
    /// `ceil(count * per_million / 1,000,000)`, at least the first. `None` if there is none.
    #[must_use]
    pub fn quantile(&self, per_million: u32) -> Option<Bounds> {
        let count = self.count();
        let rank = (u128::from(count) * u128::from(per_million)).div_ceil(1_000_000);
        let rank = u64::try_from(rank).unwrap_or(count).clamp(1, count.max(1));
        let mut seen = 0u64;
        for (bucket, here) in self.buckets.iter().enumerate() {
            seen = seen.wrapping_add(*here);
            if seen >= rank {
                let (low, high) = values(bucket).into_inner();
                // The maximum may lag behind the buckets while the worker writes.
                return Some(Bounds { low, high: high.min(self.max.max(low)) });
            }
        }
        None
    }

    /// Adds the values of another worker.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = mine.wrapping_add(*theirs);
        }
        self.sum = self.sum.wrapping_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// The values recorded after `earlier` was taken of the same histogram.
    ///
    /// `max` is exact if the maximum rose since; else it is an upper bound, within a bucket's
    /// error.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        for (mine, theirs) in since.buckets.iter_mut().zip(&earlier.buckets) {
            *mine = mine.wrapping_sub(*theirs);
        }
        since.sum = self.sum.wrapping_sub(earlier.sum);
        if self.max <= earlier.max {
            let highest = since.buckets.iter().rposition(|count| *count > 0);
            since.max = highest.map_or(0, |bucket| self.max.min(*values(bucket).end()));
        }
        since
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn snapshot(values: &[u64]) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for value in values {
            snapshot.buckets[bucket(*value)] += 1;
            snapshot.sum = snapshot.sum.wrapping_add(*value);
            snapshot.max = snapshot.max.max(*value);
        }
        snapshot
    }

    /// Values spread over all magnitudes, by a fixed multiplicative generator.
    fn sample(count: usize) -> Vec<u64> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 11
        };
        (0..count).map(|_| next() >> (11 + next() % 42)).collect()
    }

    #[test]
    fn buckets_tile_the_numbers() {
        let mut next = 0;
        for index in 0..BUCKETS {
            let (low, high) = values(index).into_inner();
            assert_eq!(low, next, "{index}");
            assert_eq!(bucket(low), index);
            assert_eq!(bucket(high), index);
            if index < BUCKETS - 1 {
                assert!((high - low) * SUB_BUCKETS as u64 <= low, "{index}: {low}..={high}");
            }
            next = high.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last bucket ends at the largest number");
        assert_eq!(bucket(VALUE_MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_hold_the_exact_ones_within_the_stated_error() {
        for count in [1, 2, 3, 10, 997, 100_000] {
            let mut exact = sample(count);
            let snapshot = snapshot(&exact);
            exact.sort_unstable();
            assert_eq!(snapshot.count(), count as u64);
            assert_eq!(Some(&snapshot.max()), exact.last());
            for per_million in [0, 1, 10_000, 500_000, 900_000, 990_000, 999_000, 1_000_000] {
                let rank = (count as u64 * u64::from(per_million)).div_ceil(1_000_000).max(1);
                let value = exact[usize::try_from(rank).unwrap() - 1];
                let bounds = snapshot.quantile(per_million).unwrap();
                assert!(bounds.low <= value && value <= bounds.high, "{value} {bounds:?}");
                let width = bounds.high - bounds.low;
                assert!(width * SUB_BUCKETS as u64 <= bounds.low, "{bounds:?}");
            }
        }
    }

    #[test]
    fn small_counts_are_exact() {
        let snapshot = snapshot(&[1, 1, 2, 3, 31]);
        assert_eq!(snapshot.quantile(500_000), Some(Bounds { low: 2, high: 2 }));
        assert_eq!(snapshot.quantile(1_000_000), Some(Bounds { low: 31, high: 31 }));
        assert_eq!(snapshot.mean(), 7);
    }

    #[test]
    fn counts_below_a_power_of_two_are_exact() {
        let exact = sample(5000);
        let snapshot = snapshot(&exact);
        for power in 0..TOP_BITS {
            let edge = 1 << power;
            let below = exact.iter().filter(|value| **value < edge).count();
            assert_eq!(snapshot.count_below(edge), below as u64, "{edge}");
        }
    }

    #[test]
    fn nothing_recorded_has_no_quantile() {
        let empty = Snapshot::default();
        assert_eq!(empty.quantile(500_000), None);
        assert_eq!((empty.count(), empty.mean(), empty.max()), (0, 0, 0));
    }

    #[test]
    fn merging_equals_recording_together() {
        let all = sample(5000);
        let (left, right) = all.split_at(1234);
        let mut merged = snapshot(left);
        merged.merge(&snapshot(right));
        assert_eq!(merged, snapshot(&all));
    }

    #[test]
    fn a_difference_is_what_came_between() {
        let all = sample(5000);
        let (before, after) = all.split_at(3000);
        let since = snapshot(&all).since(&snapshot(before));
        let exact = snapshot(after);
        assert_eq!(since.buckets, exact.buckets);
        assert_eq!(since.sum, exact.sum);
        assert!(since.max >= exact.max);
        assert_eq!(bucket(since.max), bucket(exact.max));

        let rose = snapshot(&[5, 1_000_003]).since(&snapshot(&[5]));
        assert_eq!(rose.max(), 1_000_003);
        let same = snapshot(&[5]);
        assert_eq!(same.since(&same), Snapshot::default());
    }

    #[test]
    fn values_beyond_the_range_share_the_last_bucket() {
        let snapshot = snapshot(&[1, u64::MAX / 2]);
        let bounds = snapshot.quantile(1_000_000).unwrap();
        assert!(bounds.low <= VALUE_MAX);
        assert_eq!(bounds.high, u64::MAX / 2);
    }
}
