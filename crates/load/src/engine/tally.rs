//! Counts of one thread, to be added to those of the others, and HDR histograms of times, which can
//! be added, stored, and read as percentiles.

use super::fate::{Fate, Fates};
use super::plan::CLASSES;
use crate::number::nanos_of;
use crate::workload::specweb::CONFORMING_BITS_PER_S;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as HdrReader, Serializer as _, V2Serializer};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// Adds another's numbers to one's own, field by field.
macro_rules! add {
    ($own:ident, $other:ident: $($field:ident),+) => {
        $($own.$field += $other.$field;)+
    };
}

/// A phase of a request in which it can time out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Until the connection is made.
    Connect,
    /// Until the kernel has taken the request.
    Send,
    /// Until the first byte of the reply.
    Wait,
    /// Until its last byte.
    Receive,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// Per connection, from the connect to its success.
    pub connect: Hdr,
    /// Per connection with TLS, from then until requests can go out.
    #[serde(default)]
    pub handshake: Hdr,
    pub send: Hdr,
    pub wait: Hdr,
    pub receive: Hdr,
    /// Requests that timed out in each.
    pub timeouts: [u64; 4],
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Class {
    pub requests: u64,
    pub good: u64,
    pub timeouts: u64,
    pub bytes: u64,
    /// Their times: from when they were due, or in the closed model from when they were sent.
    pub times: Spectrum,
}

/// Counts of one client and one file size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub requests: u64,
    pub good: u64,
    pub timeouts: u64,
    /// Time-outs that the server never acknowledged.
    pub unseen: u64,
    pub bytes: u64,
}

/// Counts of sessions that arrived in the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sessions {
    pub arrived: u64,
    pub done: u64,
    /// An operation timed out, or a connection could not be made.
    pub failed: u64,
    /// The run ended first.
    pub cut: u64,
    /// Most at once in this thread.
    pub most: u64,
    /// Lives of those done, and of those failed.
    pub lifetime: Hdr,
    pub failtime: Hdr,
    /// Sessions by the number of replies that they got; the last place stands for all above.
    pub lengths: Vec<u64>,
}

/// The longest session that the histogram of lengths tells apart.
const LENGTHS_MAX: usize = 1_000;

/// Slow connections, as SPECweb99 judges them [src].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    /// Connections on a line of a set speed that carried content.
    pub connections: u64,
    /// Connections that got more than 320,000 bit/s while they waited for replies.
    pub conforming: u64,
}

impl Lines {
    /// Counts a connection that received `bytes` in `busy_ns` of waiting for replies.
    pub(super) fn count(&mut self, bytes: u64, busy_ns: u64) {
        if bytes == 0 {
            return;
        }
        let bits_per_s = bytes as f64 * 8e9 / busy_ns.max(1) as f64;
        self.connections += 1;
        self.conforming += u64::from(bits_per_s > CONFORMING_BITS_PER_S as f64);
    }
}

/// Load of the thread itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Length of the measurement, nanoseconds.
    pub wall_ns: u64,
    /// Part of it that was the thread's: all, or the share of its processor that it held.
    pub available_ns: u64,
    /// Processor time in it, nanoseconds, without that in which a held share was not needed.
    pub cpu_ns: u64,
    /// Time in it that the thread was ready to run and did not, nanoseconds.
    pub kept_ns: u64,
    /// Connects, sends and receives that failed for want of descriptors.
    pub descriptors_refused: u64,
    pub ports_refused: u64,
    /// Requests that waited for a connection because as many as allowed were busy.
    pub waited: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Tally {
    /// Requests due in the measurement.
    pub offered: u64,
    pub fates: Fates,
    pub verified: u64,
    /// Bodies that could not be: the file changed meanwhile.
    pub changed: u64,
    /// Answers by the first digit of their status, 1 to 5.
    pub statuses: [u64; 6],
    /// Answers by their status, other than 200.
    pub codes: BTreeMap<u16, u64>,
    /// From due to the last byte; open and partly-open models only.
    pub response: Spectrum,
    /// From the first attempt to the last byte.
    pub service: Spectrum,
    /// The same, of answers that are not good.
    pub failed: Hdr,
    /// From due to when it was taken up.
    pub lag: Hdr,
    pub phases: Phases,
    /// By size class; the last place is for sizes that are not known.
    pub classes: Vec<Class>,
    /// By client and size: place `client * sizes + size`.
    pub seen: Vec<Seen>,
    pub sessions: Sessions,
    /// Slow connections that were closed in the whole run.
    pub lines: Lines,
    /// Good answers that arrived within the measurement, whenever they were due.
    pub good_within: u64,
    /// Content bytes of good answers that arrived within the measurement.
    pub bytes_within: u64,
    /// Bytes sent and received in the whole run, heads and all.
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub connects: u64,
    pub connected: u64,
    /// Most connections open at once in this thread.
    pub connections_most: u64,
    /// Requests sent again because the connection had ended between two exchanges.
    pub again: u64,
    pub handshakes: Handshakes,
    pub health: Health,
}

/// Handshakes of TLS in the whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshakes {
    pub full: u64,
    pub resumed: u64,
    pub failed: u64,
    /// Version, cipher suite and application protocol of the first that succeeded.
    pub agreed: String,
    /// Reason of the first that failed, or for which a server ended a session later.
    pub fault: String,
}

impl Handshakes {
    fn add(&mut self, other: &Self) {
        add!(self, other: full, resumed, failed);
        keep_first(&mut self.agreed, &other.agreed);
        keep_first(&mut self.fault, &other.fault);
    }
}

/// Sets a text that is still empty.
pub(super) fn keep_first(text: &mut String, new: impl ToString) {
    if text.is_empty() {
        *text = new.to_string();
    }
}

impl Tally {
    pub(super) fn new(clients: usize, sizes: usize) -> Self {
        Self {
            response: Spectrum::fine(),
            service: Spectrum::fine(),
            failed: Hdr::fine(),
            lag: Hdr::fine(),
            phases: Phases {
                connect: Hdr::fine(),
                handshake: Hdr::fine(),
                send: Hdr::fine(),
                wait: Hdr::fine(),
                receive: Hdr::fine(),
                timeouts: [0; 4],
            },
            classes: vec![Class::default(); CLASSES],
            seen: vec![Seen::default(); clients * sizes],
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        add!(self, other: offered, verified, changed, good_within, bytes_within, bytes_sent);
        add!(self, other: bytes_received, connects, connected, connections_most, again);
        self.fates.add(&other.fates);
        self.statuses.iter_mut().zip(other.statuses).for_each(|(sum, n)| *sum += n);
        other.codes.iter().for_each(|(code, n)| *self.codes.entry(*code).or_default() += n);
        self.response.add(&other.response);
        self.service.add(&other.service);
        self.failed.add(&other.failed);
        self.lag.add(&other.lag);
        self.phases.add(&other.phases);
        self.classes.iter_mut().zip(&other.classes).for_each(|(sum, class)| sum.add(class));
        // Shards with more threads tell more clients apart.
        self.seen.resize(self.seen.len().max(other.seen.len()), Seen::default());
        self.seen.iter_mut().zip(&other.seen).for_each(|(sum, seen)| sum.add(seen));
        self.sessions.add(&other.sessions);
        self.lines.connections += other.lines.connections;
        self.lines.conforming += other.lines.conforming;
        self.handshakes.add(&other.handshakes);
        self.health.add(&other.health);
    }
}

impl Phases {
    fn add(&mut self, other: &Self) {
        self.connect.add(&other.connect);
        self.handshake.add(&other.handshake);
        self.send.add(&other.send);
        self.wait.add(&other.wait);
        self.receive.add(&other.receive);
        self.timeouts.iter_mut().zip(other.timeouts).for_each(|(sum, n)| *sum += n);
    }
}

impl Class {
    pub fn add(&mut self, other: &Self) {
        add!(self, other: requests, good, timeouts, bytes);
        self.times.add(&other.times);
    }

    #[inline]
    pub(super) fn count(&mut self, fate: Fate, bytes: u64, ns: u64) {
        self.requests += 1;
        self.timeouts += u64::from(fate == Fate::Timeout);
        if fate == Fate::Good {
            self.good += 1;
            self.bytes += bytes;
        }
        if fate.is_answer() {
            self.times.times.record(ns);
        } else {
            self.times.censor(ns, fate.is_given_up());
        }
    }
}

impl Seen {
    pub(super) fn add(&mut self, other: &Self) {
        add!(self, other: requests, good, timeouts, unseen, bytes);
    }
}

impl Sessions {
    /// Adds another's counts and times; what both had at most at once, too, as of two threads.
    pub fn add(&mut self, other: &Self) {
        add!(self, other: arrived, done, failed, cut, most);
        self.lifetime.add(&other.lifetime);
        self.failtime.add(&other.failtime);
        if self.lengths.len() < other.lengths.len() {
            self.lengths.resize(other.lengths.len(), 0);
        }
        self.lengths.iter_mut().zip(&other.lengths).for_each(|(sum, n)| *sum += n);
    }

    pub(super) fn length(&mut self, replies: u32) {
        let at = usize::try_from(replies).map_or(LENGTHS_MAX, |n| n.min(LENGTHS_MAX));
        if self.lengths.len() <= at {
            self.lengths.resize(at + 1, 0);
        }
        self.lengths[at] += 1;
    }
}

impl Health {
    fn add(&mut self, other: &Self) {
        add!(self, other: wall_ns, available_ns, cpu_ns, kept_ns);
        add!(self, other: descriptors_refused, ports_refused, waited);
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Start, seconds after the run's.
    pub second: u64,
    /// Whether all of it lies within the measurement.
    pub counts: bool,
    /// Requests that became due.
    pub offered: u64,
    /// Good answers that arrived.
    pub good: u64,
    pub errors: u64,
    /// Content bytes of the good answers.
    pub bytes: u64,
    /// Median time of what ended in it, nanoseconds.
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    /// Requests in flight or waiting at its end.
    pub in_flight: u64,
    pub connections: u64,
    pub sessions: u64,
    /// Longest schedule lag, nanoseconds.
    pub lag_ns: u64,
    /// Processor time of all threads, nanoseconds.
    pub cpu_ns: u64,
    /// Failures by fate; only those that there were.
    #[serde(default)]
    pub failures: BTreeMap<Fate, u64>,
    /// Times of what ended in it in coarse bins ([`Hdr::spread`]), for heat maps.
    #[serde(default)]
    pub spread: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Second {
    /// Counted fields of the row; `row()` computes the others.
    pub(super) row: Row,
    pub(super) fates: Fates,
    pub(super) connected: u64,
    /// Reason of the first handshake that failed, or nothing.
    pub(super) tls_fault: String,
    pub(super) times: Hdr,
}

impl Second {
    pub(super) fn new(number: u64) -> Self {
        Self { row: Row { second: number, ..Row::default() }, ..Self::default() }
    }

    pub(super) fn add(&mut self, other: &Self) {
        let (own, row) = (&mut self.row, &other.row);
        add!(own, row: offered, bytes, in_flight, connections, sessions, cpu_ns);
        own.lag_ns = own.lag_ns.max(row.lag_ns);
        self.connected += other.connected;
        keep_first(&mut self.tls_fault, &other.tls_fault);
        self.fates.add(&other.fates);
        self.times.add(&other.times);
    }

    /// The whole row; whether it counts is not known yet.
    pub(super) fn row(&self) -> Row {
        let failed = |fate: &Fate| !matches!(fate, Fate::Good | Fate::Unfinished);
        let counts = Fate::ALL.into_iter().filter(failed).map(|fate| (fate, self.fates.get(fate)));
        Row {
            good: self.fates.get(Fate::Good),
            errors: self.fates.errors(),
            p50_ns: self.times.quantile(0.5),
            p99_ns: self.times.quantile(0.99),
            max_ns: self.times.max(),
            failures: counts.filter(|(_, count)| *count > 0).collect(),
            spread: self.times.spread(),
            ..self.row.clone()
        }
    }
}

/// Times below this are one bucket, nanoseconds.
const FINEST_NS: u64 = 256;
/// Times above this count as this, nanoseconds: an hour.
const LONGEST_NS: u64 = 3_600 * 1_000_000_000;

/// Bins of [`Hdr::spread`] in a factor of ten.
const BINS_PER_DECADE: f64 = 8.0;

/// Upper end of a bin of [`Hdr::spread`], nanoseconds.
fn bin_end(bin: f64) -> u64 {
    nanos_of(10_f64.powf((bin + 1.0) / BINS_PER_DECADE) / 1e9)
}

#[derive(Clone, Debug, PartialEq)]
pub struct Hdr(Histogram<u64>);

impl Hdr {
    /// Exact to 0.1 %: about 190 KiB.
    pub fn fine() -> Self {
        Self::of(3)
    }

    /// Exact to 1 %: about 30 KiB, for histograms that are many. The default.
    pub fn coarse() -> Self {
        Self::of(2)
    }

    fn of(digits: u8) -> Self {
        let made = Histogram::new_with_bounds(FINEST_NS, LONGEST_NS, digits);
        Self(made.expect("the bounds are in the range that the crate allows"))
    }

    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

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

    pub fn min(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.0.min() }
    }

    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    pub fn stdev(&self) -> f64 {
        self.0.stdev()
    }

    /// Counts in bins that grow by the eighth root of ten, each with its upper end in nanoseconds:
    /// a few dozen numbers to draw.
    pub fn spread(&self) -> Vec<(u64, u64)> {
        let mut bins: Vec<(u64, u64)> = Vec::new();
        for (ns, count) in self.pairs() {
            let bin = ((ns.max(1) as f64).log10() * BINS_PER_DECADE).floor();
            let end = bin_end(bin);
            match bins.last_mut().filter(|last| last.0 == end) {
                Some(last) => last.1 += count,
                None => bins.push((end, count)),
            }
        }
        bins
    }

    /// The bins of [`Hdr::spread`] from the first with a count to the last, at most `most` of them:
    /// neighbours are added up where there are more. Those between may be empty.
    pub(super) fn bins(&self, most: usize) -> Vec<(u64, u64)> {
        let spread = self.spread();
        let (Some(first), Some(last)) = (spread.first(), spread.last()) else { return Vec::new() };
        let ends = (0_u32..).map(|bin| bin_end(bin.into()));
        let ends = ends.skip_while(|end| *end < first.0).take_while(|end| *end <= last.0);
        let count = |end| spread.iter().find(|bin| bin.0 == end).map_or(0, |bin| bin.1);
        let all: Vec<(u64, u64)> = ends.map(|end| (end, count(end))).collect();
        let sum = |bins: &[(u64, u64)]| {
            (bins.last().map_or(0, |bin| bin.0), bins.iter().map(|bin| bin.1).sum())
        };
        all.chunks(all.len().div_ceil(most.max(1)).max(1)).map(sum).collect()
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

/// Stored as `{"digits": 3, "v2": "HISTEw..."}`: `HdrHistogram`'s format V2 in base64, which its
/// libraries read in many languages.
impl Serialize for Hdr {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        let written = V2Serializer::new().serialize(&self.0, &mut bytes);
        written.map_err(|error| S::Error::custom(format!("{error:?}")))?;
        let (digits, v2) = (self.0.sigfig(), STANDARD.encode(&bytes));
        Stored { digits, v2, pairs: Vec::new() }.serialize(out)
    }
}

impl<'de> Deserialize<'de> for Hdr {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let stored = Stored::deserialize(input)?;
        if !(2..=3).contains(&stored.digits) {
            return Err(D::Error::custom("a histogram has 2 or 3 digits"));
        }
        if !stored.v2.is_empty() {
            let hdr = stored.read().filter(|hdr| hdr.0.sigfig() == stored.digits);
            return hdr.ok_or_else(|| D::Error::custom("a histogram is damaged"));
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
    #[serde(default)]
    v2: String,
    /// Times and counts, as results of format 1 have them.
    #[serde(default, skip_serializing)]
    pairs: Vec<(u64, u64)>,
}

/// First bytes of format V2, which is not compressed.
const V2_COOKIE: [u8; 4] = 0x1c84_9313_u32.to_be_bytes();
/// Bytes before the counts of format V2.
const V2_HEAD_BYTES: usize = 40;

impl Stored {
    /// The histogram, if it is whole and has the bounds of all others, so that it can be added.
    fn read(&self) -> Option<Hdr> {
        let bytes = STANDARD.decode(&self.v2).ok()?;
        // The reader makes room for as many bytes as the head says.
        let counts = u32::from_be_bytes(*bytes.get(4..)?.first_chunk()?);
        let whole = V2_HEAD_BYTES.checked_add(usize::try_from(counts).ok()?)?;
        if !bytes.starts_with(&V2_COOKIE) || bytes.len() != whole {
            return None;
        }
        let hdr: Histogram<u64> = HdrReader::new().deserialize(&mut bytes.as_slice()).ok()?;
        ((hdr.low(), hdr.high()) == (FINEST_NS, LONGEST_NS)).then_some(Hdr(hdr))
    }
}

/// Points of [`Spectrum::curve`] in a factor of ten.
const POINTS_PER_DECADE: f64 = 8.0;

/// Times of those that came back, and how many did not: those are later than anything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spectrum {
    pub times: Hdr,
    /// Requests that failed or were given up: longer than can be said.
    pub censored: u64,
    /// The longest wait for a request that was given up, nanoseconds; 0 if none was.
    pub waited_ns: u64,
    /// Censored requests that failed at once, with a wrong answer or none: nothing was waited for.
    #[serde(default)]
    pub failed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Times that are known.
    pub count: u64,
    pub censored: u64,
    /// Mean of the known, nanoseconds.
    pub mean_ns: f64,
    pub p50: Percentile,
    pub p90: Percentile,
    pub p99: Percentile,
    pub p999: Percentile,
    pub p9999: Percentile,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentile {
    /// Nanoseconds. Censored, it is the least that it can be; 0 if requests failed at once.
    pub ns: u64,
    /// Whether it lies among the requests that failed.
    pub censored: bool,
}

impl Spectrum {
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

    pub fn add(&mut self, other: &Self) {
        self.times.add(&other.times);
        self.censored += other.censored;
        self.failed += other.failed;
        self.waited_ns = self.waited_ns.max(other.waited_ns);
    }

    /// Requests, also those that never came back.
    pub fn samples(&self) -> u64 {
        self.times.count() + self.censored
    }

    /// `[1/(1 - quantile), ms]` up to the last sample, or to the first that never came back: what
    /// HdrHistogram's plot shows.
    pub fn curve(&self) -> Vec<[f64; 2]> {
        let all = self.samples() as f64;
        let beyond = (1_u32..).map(|step| 10_f64.powf(f64::from(step) / POINTS_PER_DECADE));
        let point = |beyond: f64| {
            let found = self.at(1.0 - 1.0 / beyond);
            (!found.censored).then(|| [beyond, found.ns as f64 / 1e6])
        };
        beyond.take_while(|beyond| *beyond <= all).map_while(point).collect()
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
    }

    /// Results of format 1 are read; what is damaged or has other bounds is refused.
    #[test]
    fn stored_histograms_are_read_with_care() {
        let read = |text: &str| serde_json::from_str::<Hdr>(text);
        let mut hdr = Hdr::coarse();
        hdr.record_n(5_000, 3);
        let old = read("{\"digits\":2,\"pairs\":[[5000,3]]}").unwrap();
        assert_eq!(old.pairs().collect::<Vec<_>>(), hdr.pairs().collect::<Vec<_>>());
        let whole = serde_json::to_string(&hdr).unwrap();
        assert!(whole.contains("\"HISTEw"), "{whole}");
        assert_eq!(read(&whole).unwrap(), hdr);
        let of = |bounds: (u64, u64)| {
            let mut bytes = Vec::new();
            let other = Histogram::<u64>::new_with_bounds(bounds.0, bounds.1, 2).unwrap();
            V2Serializer::new().serialize(&other, &mut bytes).unwrap();
            bytes
        };
        let huge = [&of((FINEST_NS, LONGEST_NS))[..4], &[0xff; 36]].concat();
        for bytes in [of((1, LONGEST_NS)), of((FINEST_NS, 1_000)), huge, vec![1, 2, 3]] {
            let text = format!("{{\"digits\":2,\"v2\":\"{}\"}}", STANDARD.encode(bytes));
            assert!(read(&text).is_err(), "{text}");
        }
        for text in ["{\"digits\":9,\"pairs\":[]}", &whole.replace(":2,", ":3,"), "{}"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
