//! Medians, seeded shuffles, and intervals of paired ratios.

/// SplitMix64: the same seed gives the same order and the same intervals.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Starts a stream.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is small and not 0, so that the remainder's bias is nothing.
    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX);
        usize::try_from(self.next() % end).unwrap_or_default()
    }

    /// Puts `items` into a random order (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// `count` bytes that no compression or deduplication can shorten.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

/// The middle of `values`, or None if there are none.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// A ratio with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    /// The median over the pairs.
    pub(crate) median: f64,
    /// The interval's lower end; equal to the median if there was one pair.
    pub(crate) low: f64,
    /// The interval's upper end.
    pub(crate) high: f64,
    /// How many pairs.
    pub(crate) pairs: usize,
}

const RESAMPLES: usize = 4000;

/// The median of the log-ratios of `pairs`, each `(numerator, denominator)` from one round, with
/// a percentile bootstrap interval over the rounds. None without a usable pair.
pub(crate) fn paired_ratio(pairs: &[(f64, f64)], seed: u64) -> Option<Ratio> {
    let logs: Vec<f64> = pairs
        .iter()
        .filter(|(above, below)| *above > 0.0 && *below > 0.0)
        .map(|(above, below)| (above / below).ln())
        .collect();
    let centre = median(&logs)?;
    let mut random = Random::new(seed);
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let sample: Vec<f64> = logs.iter().map(|_| logs[random.below(logs.len())]).collect();
            median(&sample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let tail = RESAMPLES / 40;
    Some(Ratio {
        median: centre.exp(),
        low: medians[tail].exp(),
        high: medians[RESAMPLES - 1 - tail].exp(),
        pairs: logs.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Random, median, paired_ratio};

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn ratios_are_of_pairs_and_not_of_sums() {
        // The machine is ten times slower in one round, for both: the ratio does not see it.
        let pairs = [(2.0, 1.0), (20.0, 10.0), (2.1, 1.0), (1.9, 1.0), (2.0, 1.0)];
        let ratio = paired_ratio(&pairs, 1).expect("there are pairs");
        assert!((ratio.median - 2.0).abs() < 1e-9);
        assert!(ratio.low >= 1.9 - 1e-9 && ratio.high <= 2.1 + 1e-9, "{ratio:?}");
        assert_eq!(paired_ratio(&pairs, 1), Some(ratio), "the seed decides");
        assert_eq!(paired_ratio(&[(0.0, 1.0)], 1), None);
    }

    #[test]
    fn intervals_cover_the_truth_about_as_often_as_they_say() {
        let mut random = Random::new(7);
        let mut unit = || {
            let top = u32::try_from(random.next() >> 32).unwrap_or_default();
            f64::from(top) / f64::from(u32::MAX) - 0.5
        };
        let covered = (0..200)
            .filter(|seed| {
                let pairs: Vec<_> = (0..9).map(|_| ((0.3 * unit()).exp() * 1.5, 1.0)).collect();
                let ratio = paired_ratio(&pairs, *seed).expect("there are pairs");
                (ratio.low..=ratio.high).contains(&1.5)
            })
            .count();
        assert!((180..=200).contains(&covered), "{covered} of 200");
    }

    #[test]
    fn shuffles_keep_every_item() {
        let mut items: Vec<u32> = (0..50).collect();
        Random::new(3).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
        assert_eq!(Random::new(3).bytes(13), Random::new(3).bytes(13));
    }
}
