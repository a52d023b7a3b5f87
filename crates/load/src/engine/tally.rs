//! What one thread has counted, to be added to what the others have.

use super::fate::{Fate, Fates};
use super::hdr::{Hdr, Spectrum};
use super::script::CLASSES;
use crate::workload::specweb::CONFORMING_BITS_PER_S;
use serde::{Deserialize, Serialize};
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

/// How long a phase took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// Per connection, from the connect to its success.
    pub connect: Hdr,
    /// From the first to the last byte sent.
    pub send: Hdr,
    /// From the last byte sent to the first received.
    pub wait: Hdr,
    /// From the first to the last byte received.
    pub receive: Hdr,
    /// Requests that timed out in each.
    pub timeouts: [u64; 4],
}

/// What happened to the requests for files of one size class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// Requests.
    pub requests: u64,
    /// Of these, good.
    pub good: u64,
    /// Of these, timed out.
    pub timeouts: u64,
    /// Content bytes of the good.
    pub bytes: u64,
    /// Their times: from when they were due, or in the closed model from when they were sent.
    pub times: Spectrum,
}

/// What one client saw of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Requests.
    pub requests: u64,
    /// Of these, good.
    pub good: u64,
    /// Of these, timed out.
    pub timeouts: u64,
    /// Of the time-outs, those that the server never acknowledged.
    pub unseen: u64,
    /// Content bytes of the good.
    pub bytes: u64,
}

/// Sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sessions {
    /// Arrived in the measurement.
    pub arrived: u64,
    /// Of these, done to their end.
    pub done: u64,
    /// Of these, failed: an operation timed out or a connection could not be made.
    pub failed: u64,
    /// Of these, cut off by the end of the run.
    pub cut: u64,
    /// Most at once in this thread.
    pub most: u64,
    /// How long the done ones lived.
    pub lifetime: Hdr,
    /// How long the failed ones lived.
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
    /// Of these, those that got more than 320,000 bit/s while they waited for replies.
    pub conforming: u64,
}

impl Lines {
    /// Counts a connection that got so many bytes in so many nanoseconds.
    pub(super) fn count(&mut self, bytes: u64, busy_ns: u64) {
        if bytes == 0 {
            return;
        }
        let bits_per_s = bytes as f64 * 8e9 / busy_ns.max(1) as f64;
        self.connections += 1;
        self.conforming += u64::from(bits_per_s > CONFORMING_BITS_PER_S as f64);
    }
}

/// How busy the thread was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Length of the measurement, nanoseconds.
    pub wall_ns: u64,
    /// What of it was the thread's, nanoseconds: all, or the share of its processor that it held.
    pub available_ns: u64,
    /// Processor time in it, nanoseconds, without that in which a held share was not needed.
    pub cpu_ns: u64,
    /// Time in it that the thread was ready to run and did not, nanoseconds.
    pub kept_ns: u64,
    /// Connects, sends and receives that failed for want of descriptors.
    pub descriptors_refused: u64,
    /// Connects that failed for want of ports.
    pub ports_refused: u64,
    /// Requests that waited for a connection because as many as allowed were busy.
    pub waited: u64,
}

/// Everything that one thread counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Tally {
    /// Requests due in the measurement.
    pub offered: u64,
    /// What became of them.
    pub fates: Fates,
    /// Bodies compared with what they should be.
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
    /// The phases of a request.
    pub phases: Phases,
    /// By size class; the last place is for sizes that are not known.
    pub classes: Vec<Class>,
    /// By client and size: place `client * sizes + size`.
    pub seen: Vec<Seen>,
    /// Sessions.
    pub sessions: Sessions,
    /// Slow connections that were closed in the whole run.
    pub lines: Lines,
    /// Good answers that arrived within the measurement, whenever they were due.
    pub good_within: u64,
    /// Content bytes of good answers that arrived within the measurement.
    pub bytes_within: u64,
    /// Bytes sent and received in the whole run, heads and all.
    pub bytes_sent: u64,
    /// Bytes received in the whole run.
    pub bytes_received: u64,
    /// Connections tried and made in the whole run.
    pub connects: u64,
    /// Connections made.
    pub connected: u64,
    /// Most connections open at once in this thread.
    pub connections_most: u64,
    /// Requests sent again because the connection had ended between two exchanges.
    pub again: u64,
    /// The thread's own health.
    pub health: Health,
}

impl Tally {
    /// Nothing yet, for so many clients and sizes.
    pub(super) fn new(clients: usize, sizes: usize) -> Self {
        Self {
            response: Spectrum::fine(),
            service: Spectrum::fine(),
            failed: Hdr::fine(),
            lag: Hdr::fine(),
            phases: Phases {
                connect: Hdr::fine(),
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

    /// Adds another thread's counts.
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
        self.seen.iter_mut().zip(&other.seen).for_each(|(sum, seen)| sum.add(seen));
        self.sessions.add(&other.sessions);
        self.lines.connections += other.lines.connections;
        self.lines.conforming += other.lines.conforming;
        self.health.add(&other.health);
    }
}

impl Phases {
    fn add(&mut self, other: &Self) {
        self.connect.add(&other.connect);
        self.send.add(&other.send);
        self.wait.add(&other.wait);
        self.receive.add(&other.receive);
        self.timeouts.iter_mut().zip(other.timeouts).for_each(|(sum, n)| *sum += n);
    }
}

impl Class {
    /// Adds another's counts and times.
    pub fn add(&mut self, other: &Self) {
        add!(self, other: requests, good, timeouts, bytes);
        self.times.add(&other.times);
    }

    /// Counts a request that met its fate after `ns`.
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

    /// Counts a session that got so many replies.
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

/// One second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its start, seconds after the run's.
    pub second: u64,
    /// Whether all of it lies within the measurement.
    pub counts: bool,
    /// Requests that became due.
    pub offered: u64,
    /// Good answers that arrived.
    pub good: u64,
    /// Failures.
    pub errors: u64,
    /// Content bytes of the good answers.
    pub bytes: u64,
    /// Median time of what ended in it, nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile, nanoseconds.
    pub p99_ns: u64,
    /// Longest, nanoseconds.
    pub max_ns: u64,
    /// Requests in flight or waiting at its end.
    pub in_flight: u64,
    /// Connections at its end.
    pub connections: u64,
    /// Sessions at its end.
    pub sessions: u64,
    /// Longest schedule lag, nanoseconds.
    pub lag_ns: u64,
    /// Processor time of all threads, nanoseconds.
    pub cpu_ns: u64,
    /// The failures by what they were; only those that there were.
    #[serde(default)]
    pub failures: BTreeMap<Fate, u64>,
    /// Times of what ended in it in coarse bins ([`Hdr::spread`]), for heat maps.
    #[serde(default)]
    pub spread: Vec<(u64, u64)>,
}

/// One thread's second.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Second {
    /// What is counted in its row; the rest of that is reckoned from what follows.
    pub(super) row: Row,
    /// What became of those that ended in it.
    pub(super) fates: Fates,
    /// Connections made in it.
    pub(super) connected: u64,
    /// Times of its answers.
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
        self.fates.add(&other.fates);
        self.times.add(&other.times);
    }

    /// Its whole row; whether that counts is not known yet.
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
