//! HDR histograms of times, which can be added, stored, and read as percentiles.

use crate::number::nanos_of;
use hdrhistogram::Histogram;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Times below this are one bucket, nanoseconds.
const FINEST_NS: u64 = 256;
/// Times above this count as this, nanoseconds: an hour.
const LONGEST_NS: u64 = 3_600 * 1_000_000_000;

/// Bins of [`Hdr::spread`] in a factor of ten.
const BINS_PER_DECADE: f64 = 8.0;

/// A histogram of nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Hdr(Histogram<u64>);

impl Hdr {
    /// Exact to 0.1 %: about 190 KiB.
    pub fn fine() -> Self {
        Self::of(3)
    }

    /// Exact to 1 %: about 30 KiB, for histograms of which there are many. The default.
    pub fn coarse() -> Self {
        Self::of(2)
    }

    fn of(digits: u8) -> Self {
        let made = Histogram::new_with_bounds(FINEST_NS, LONGEST_NS, digits);
        Self(made.expect("the bounds are in the range that the crate allows"))
    }

    /// Counts one time.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Counts one time so often.
    pub fn record_n(&mut self, ns: u64, count: u64) {
        self.0.saturating_record_n(ns, count);
    }

    /// Adds another's counts, of either precision.
    pub fn add(&mut self, other: &Self) {
        if self.0.sigfig() == other.0.sigfig() {
            let added = self.0.add(&other.0);
            added.expect("all have the same bounds");
        } else {
            for (ns, count) in other.pairs() {
                self.record_n(ns, count);
            }
        }
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time at or below which a share `q` of all lie, nanoseconds; 0 of none.
    pub fn quantile(&self, q: f64) -> u64 {
        if self.count() == 0 {
            return 0;
        }
        let ns = self.0.value_at_quantile(q);
        if ns < FINEST_NS { 0 } else { ns }
    }

    /// The longest, nanoseconds; 0 of none.
    pub fn max(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.0.max() }
    }

    /// The shortest, nanoseconds; 0 of none.
    pub fn min(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.0.min() }
    }

    /// The mean, nanoseconds.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The standard deviation, nanoseconds.
    pub fn stdev(&self) -> f64 {
        self.0.stdev()
    }

    /// Counts in bins that grow by the eighth root of ten, each with its upper end in nanoseconds:
    /// a few dozen numbers that say how times were spread, to be drawn and not to be reckoned with.
    pub fn spread(&self) -> Vec<(u64, u64)> {
        let mut bins: Vec<(u64, u64)> = Vec::new();
        for (ns, count) in self.pairs() {
            let bin = ((ns.max(1) as f64).log10() * BINS_PER_DECADE).floor();
            let end = nanos_of(10_f64.powf((bin + 1.0) / BINS_PER_DECADE) / 1e9);
            match bins.last_mut().filter(|last| last.0 == end) {
                Some(last) => last.1 += count,
                None => bins.push((end, count)),
            }
        }
        bins
    }

    /// Every recorded value with its count, in order.
    pub fn pairs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }
}

impl Default for Hdr {
    fn default() -> Self {
        Self::coarse()
    }
}

/// As `{"digits": 3, "pairs": [[ns, count], ...]}`.
impl Serialize for Hdr {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        Stored { digits: self.0.sigfig(), pairs: self.pairs().collect() }.serialize(out)
    }
}

impl<'de> Deserialize<'de> for Hdr {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let stored = Stored::deserialize(input)?;
        if !(2..=3).contains(&stored.digits) {
            return Err(D::Error::custom("a histogram has 2 or 3 digits"));
        }
        let mut hdr = Self::of(stored.digits);
        for (ns, count) in stored.pairs {
            hdr.0.saturating_record_n(ns, count);
        }
        Ok(hdr)
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    digits: u8,
    pairs: Vec<(u64, u64)>,
}

/// Times of those that came back, and how many did not: those are later than anything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spectrum {
    /// Times of the completed, nanoseconds.
    pub times: Hdr,
    /// Requests that failed or were given up: longer than can be said.
    pub censored: u64,
    /// The longest wait for a request that was given up, nanoseconds; 0 if none was.
    pub waited_ns: u64,
    /// Of the censored, requests that failed at once: with a wrong answer, or with none. Nothing
    /// was waited for.
    #[serde(default)]
    pub failed: u64,
}

/// One kind of time in a few numbers; the histogram has all of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Times that are known.
    pub count: u64,
    /// Requests that failed or were given up, which are later than anything.
    pub censored: u64,
    /// Mean of the known, nanoseconds.
    pub mean_ns: f64,
    /// The median of all.
    pub p50: Percentile,
    /// The 90th percentile.
    pub p90: Percentile,
    /// The 99th.
    pub p99: Percentile,
    /// The 99.9th.
    pub p999: Percentile,
    /// The 99.99th.
    pub p9999: Percentile,
    /// The longest.
    pub max: Percentile,
}

impl From<&Spectrum> for Summary {
    fn from(spectrum: &Spectrum) -> Self {
        Self {
            count: spectrum.times.count(),
            censored: spectrum.censored,
            mean_ns: spectrum.times.mean(),
            p50: spectrum.at(0.5),
            p90: spectrum.at(0.9),
            p99: spectrum.at(0.99),
            p999: spectrum.at(0.999),
            p9999: spectrum.at(0.9999),
            max: spectrum.at(1.0),
        }
    }
}

impl From<&Hdr> for Summary {
    fn from(hdr: &Hdr) -> Self {
        Self::from(&Spectrum { times: hdr.clone(), ..Spectrum::default() })
    }
}

/// A percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentile {
    /// Nanoseconds. Censored, it is the least that it can be; 0 if requests failed at once.
    pub ns: u64,
    /// Whether it lies among the requests that failed.
    pub censored: bool,
}

impl Spectrum {
    /// An empty one, exact to 0.1 %.
    pub fn fine() -> Self {
        Self { times: Hdr::fine(), ..Self::default() }
    }

    /// Counts a request that failed after `ns`; the client had `given_up`, or was refused an
    /// answer.
    pub fn censor(&mut self, ns: u64, given_up: bool) {
        self.censored += 1;
        if given_up {
            self.waited_ns = self.waited_ns.max(ns);
        } else {
            self.failed += 1;
        }
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        self.times.add(&other.times);
        self.censored += other.censored;
        self.failed += other.failed;
        self.waited_ns = self.waited_ns.max(other.waited_ns);
    }

    /// The time within which a share `q` of *all* requests were answered.
    pub fn at(&self, q: f64) -> Percentile {
        let done = self.times.count();
        let rank = (q * (done + self.censored) as f64).ceil().max(1.0);
        if rank > done as f64 {
            let waited = self.times.max().max(self.waited_ns);
            let ns = if self.failed == 0 { waited } else { 0 };
            return Percentile { ns, censored: self.censored > 0 };
        }
        Percentile { ns: self.times.quantile(rank / done as f64), censored: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_count_those_that_never_came_back() {
        let mut spectrum = Spectrum::fine();
        assert_eq!(spectrum.at(0.5), Percentile { ns: 0, censored: false });
        (1..=98).for_each(|ms| spectrum.times.record(ms * 1_000_000));
        spectrum.censor(3_000_000_000, true);
        spectrum.censor(2_000_000_000, true);
        let near = |p: Percentile, ms: u64| p.ns.abs_diff(ms * 1_000_000) <= ms * 1_000;
        assert!(near(spectrum.at(0.5), 50) && !spectrum.at(0.5).censored);
        assert!(near(spectrum.at(0.98), 98) && !spectrum.at(0.98).censored);
        assert_eq!(spectrum.at(0.99), Percentile { ns: 3_000_000_000, censored: true });
        // A refusal after 5 ms says nothing about how long a good answer takes.
        spectrum.censor(5_000_000, false);
        assert_eq!(spectrum.at(0.99), Percentile { ns: 0, censored: true });
    }

    #[test]
    fn histograms_survive_storage_and_add_up() {
        for mut hdr in [Hdr::fine(), Hdr::coarse()] {
            for ns in [0, 300, 51_234, 7_000_000, 3_000_000_000, u64::MAX] {
                hdr.record(ns);
            }
            let text = serde_json::to_string(&hdr).unwrap();
            let again: Hdr = serde_json::from_str(&text).unwrap();
            assert_eq!(again.pairs().collect::<Vec<_>>(), hdr.pairs().collect::<Vec<_>>());
            let mut sum = Hdr::fine();
            sum.add(&hdr);
            sum.add(&again);
            assert_eq!(sum.count(), 12);
        }
        let mut hdr = Hdr::coarse();
        [900_000, 1_010_000, 1_100_000, 70_000_000].into_iter().for_each(|ns| hdr.record(ns));
        assert_eq!(hdr.spread(), [(1_000_000, 1), (1_333_521, 2), (74_989_420, 1)]);
        assert!(serde_json::from_str::<Hdr>("{\"digits\":9,\"pairs\":[]}").is_err());
    }
}
