//! The result of a load: everything that was counted, what the machine says about it, and what it
//! is worth.

use super::fate::{Fate, Fates};
use super::kernel::Kernel;
use super::options::Taken;
use super::part::{CLOSED, PARTLY_OPEN, Part, Shards};
use super::play::Idled;
use super::slo::{Judged, Level, Verdict};
use super::tally::{
    Class, Handshakes, Hdr, Health, Lines, Phases, Row, Second, Seen, Sessions, Spectrum, Summary,
    Tally,
};
use crate::number::{NS_PER_S, seconds, share};
use crate::workload::alter::Rewritten;
use crate::workload::rules::{self, Cell};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of [`Outcome`]'s JSON form.
pub(super) const FORMAT: u32 = 2;

/// Result of a load. `docs/load.md` describes the fields, as those of the JSON form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub format: u32,
    pub url: String,
    /// `closed`, `open` or `partly-open`.
    pub model: String,
    /// Load of the model, in words.
    pub load: String,
    /// `http/1.1` or `h2`.
    #[serde(default)]
    pub protocol: String,
    pub workload: Option<Taken>,
    pub seed: u64,
    pub started_unix_ms: u64,
    /// Length of the measurement, seconds.
    pub seconds: f64,
    pub interrupted: bool,
    /// Shards that this is the result of; `None`: the load was not divided.
    #[serde(default)]
    pub shards: Option<Shards>,
    pub stamp: Stamp,
    /// Reasons of the stamp, and what could not be judged.
    pub reasons: Vec<Reason>,
    pub slo: Vec<Judged>,
    /// Decision on the service level; `None` if none was stated.
    #[serde(default)]
    pub level: Option<Level>,
    pub offered: u64,
    /// Their fates, which add up to `offered`.
    pub fates: Fates,
    pub offered_per_s: f64,
    /// Good answers per second that arrived within the measurement: goodput.
    pub good_per_s: f64,
    pub good_mbit_per_s: f64,
    /// Percentiles by name: `response` (not in the closed model), `service`, `failed`,
    /// `connect`, `send`, `wait`, `receive`, `lag`. Their histograms follow.
    pub times: BTreeMap<String, Summary>,
    /// From due to the last byte; `None` in the closed model, which has no due times.
    pub response: Option<Spectrum>,
    pub service: Spectrum,
    #[serde(default)]
    pub failed: Hdr,
    pub phases: Phases,
    pub lag: Hdr,
    pub classes: Vec<Class>,
    pub clients: Vec<Seen>,
    /// Jain's fairness index of the clients' good answers per request: 1 is even.
    pub fairness: f64,
    pub sessions: Option<Sessions>,
    pub idle: Option<Idled>,
    pub altered: Option<Rewritten>,
    pub lines: Lines,
    pub verified: u64,
    pub changed: u64,
    pub statuses: [u64; 6],
    #[serde(default)]
    pub codes: BTreeMap<u16, u64>,
    pub connects: u64,
    pub connected: u64,
    /// Most connections open at once (each thread's most, added).
    pub connections_most: u64,
    pub again: u64,
    /// Handshakes of TLS; `None` in the clear.
    #[serde(default)]
    pub tls: Option<Handshakes>,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub workers: Vec<Health>,
    pub kernel: Kernel,
    pub rules: Vec<Ruling>,
    pub rows: Vec<Row>,
    /// All that a merge needs; only in the result of a shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Box<Part>>,
}

/// Breaches of one paper's rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ruling {
    /// `eurosys07` or `systor12`.
    pub paper: String,
    /// Every breach, in words; empty when the run may be published.
    pub breaches: Vec<String>,
}

impl Outcome {
    /// Result of a load of `url` that asked for nothing, to be filled with what is known of another
    /// program's load.
    pub fn empty(url: &str) -> Self {
        Self {
            format: FORMAT,
            url: url.to_owned(),
            model: CLOSED.to_owned(),
            load: "none".to_owned(),
            seconds: 1.0,
            fairness: 1.0,
            ..Self::default()
        }
    }

    /// Result of a shard, or of the sum of several, without a judgement.
    pub(super) fn new(part: &Part, shards: Option<Shards>) -> Self {
        let (terms, sum) = (&part.terms, &part.tally);
        let wall_ns = part.workers.iter().map(|health| health.wall_ns).max().unwrap_or(0);
        let length = seconds(wall_ns).max(1e-9);
        let open = terms.model != CLOSED;
        let clients = clients_of(&sum.seen, terms.sizes.len());
        Self {
            model: terms.model.clone(),
            load: terms.load.clone(),
            protocol: terms.protocol.clone(),
            workload: terms.workload.clone(),
            seed: terms.seed,
            started_unix_ms: part.started_unix_ms,
            seconds: seconds(wall_ns),
            interrupted: part.interrupted,
            shards,
            offered: sum.offered,
            fates: sum.fates,
            offered_per_s: sum.offered as f64 / length,
            good_per_s: sum.good_within as f64 / length,
            good_mbit_per_s: sum.bytes_within as f64 * 8e-6 / length,
            times: times_of(sum, open),
            response: open.then(|| sum.response.clone()),
            service: sum.service.clone(),
            failed: sum.failed.clone(),
            phases: sum.phases.clone(),
            lag: sum.lag.clone(),
            classes: sum.classes.clone(),
            fairness: fairness(&clients),
            clients,
            sessions: (terms.model == PARTLY_OPEN).then(|| sum.sessions.clone()),
            idle: part.idle,
            altered: part.altered,
            lines: sum.lines,
            verified: sum.verified,
            changed: sum.changed,
            statuses: sum.statuses,
            codes: sum.codes.clone(),
            connects: sum.connects,
            connected: sum.connected,
            connections_most: sum.connections_most,
            again: sum.again,
            tls: terms.tls.then(|| sum.handshakes.clone()),
            bytes_sent: sum.bytes_sent,
            bytes_received: sum.bytes_received,
            workers: part.workers.clone(),
            kernel: part.kernel,
            rules: rulings(&terms.sizes, !open, &sum.seen),
            rows: rows(&part.seconds, terms.warm_up_ns, wall_ns),
            ..Self::empty(&terms.url)
        }
    }

    /// The times that describe the server to its users: response times where there are due times,
    /// service times in the closed model.
    pub fn latency(&self) -> &Spectrum {
        self.response.as_ref().unwrap_or(&self.service)
    }

    /// Share of the offered requests that failed; those that the end cut off do not count.
    pub fn error_share(&self) -> f64 {
        share(
            self.fates.errors(),
            self.offered - self.fates.get(Fate::Unfinished).min(self.offered),
        )
    }

    /// Share of the offered requests that were answered well in time.
    pub fn good_share(&self) -> f64 {
        share(self.fates.get(Fate::Good), self.offered)
    }

    /// Whether the service level is met. True if none was stated.
    pub fn meets_slo(&self) -> bool {
        self.level.as_ref().is_none_or(|level| level.verdict == Verdict::Met)
    }

    /// The busiest thread's share of its time: on a processor, and with the time that it was kept
    /// from one.
    pub fn busiest(&self) -> (f64, f64) {
        let shares = self.workers.iter().map(|health| {
            let cpu = share(health.cpu_ns, health.available_ns);
            (cpu, share(health.cpu_ns + health.kept_ns, health.available_ns))
        });
        shares.fold((0.0, 0.0), |a, b| if b.1 > a.1 { b } else { a })
    }
}

fn times_of(sum: &Tally, open: bool) -> BTreeMap<String, Summary> {
    let phases = &sum.phases;
    let mut times = vec![
        ("service", Summary::from(&sum.service)),
        ("failed", Summary::from(&sum.failed)),
        ("connect", Summary::from(&phases.connect)),
        ("send", Summary::from(&phases.send)),
        ("wait", Summary::from(&phases.wait)),
        ("receive", Summary::from(&phases.receive)),
        ("lag", Summary::from(&sum.lag)),
    ];
    if phases.handshake.count() > 0 {
        times.push(("handshake", Summary::from(&phases.handshake)));
    }
    if open {
        times.push(("response", Summary::from(&sum.response)));
    }
    times.into_iter().map(|(name, summary)| (name.to_owned(), summary)).collect()
}

fn rows(told: &[Second], warm_up_ns: u64, wall_ns: u64) -> Vec<Row> {
    let until = warm_up_ns.saturating_add(wall_ns);
    let row = |second: &Second| {
        let start = second.row.second.saturating_mul(NS_PER_S);
        let counts = start >= warm_up_ns && start.saturating_add(NS_PER_S) <= until;
        Row { counts, ..second.row() }
    };
    told.iter().map(row).collect()
}

fn clients_of(seen: &[Seen], sizes: usize) -> Vec<Seen> {
    let sum = |of: &[Seen]| {
        let mut sum = Seen::default();
        of.iter().for_each(|seen| sum.add(seen));
        sum
    };
    seen.chunks(sizes.max(1)).map(sum).collect()
}

/// (Σx)² / (n Σx²) over each asking client's share of good answers (Jain, Chiu, Hawe 1984).
fn fairness(clients: &[Seen]) -> f64 {
    let asked = clients.iter().filter(|client| client.requests > 0);
    let shares: Vec<f64> = asked.map(|client| share(client.good, client.requests)).collect();
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

fn rulings(sizes: &[u64], is_closed: bool, seen: &[Seen]) -> Vec<Ruling> {
    let cells: Vec<Cell> = cells(sizes, is_closed, seen);
    let ruling = |paper: &str, breaches: Vec<rules::Breach>| Ruling {
        paper: paper.to_owned(),
        breaches: breaches.iter().map(breach).collect(),
    };
    vec![ruling("eurosys07", rules::eurosys07(&cells)), ruling("systor12", rules::systor12(&cells))]
}

fn cells(sizes: &[u64], is_closed: bool, seen: &[Seen]) -> Vec<Cell> {
    let rows = (0_u32..).zip(seen.chunks(sizes.len().max(1)));
    // The papers' clients are machines: the connections of a closed loop are one.
    let cell = |client, (&bytes, seen): (&u64, &Seen)| Cell {
        client: if is_closed { 0 } else { client },
        bytes,
        requests: seen.requests,
        timeouts: seen.timeouts,
        unseen: seen.unseen,
    };
    rows.flat_map(|(client, row)| sizes.iter().zip(row).map(move |pair| cell(client, pair)))
        .filter(|cell| cell.requests > 0)
        .collect()
}

fn breach(breach: &rules::Breach) -> String {
    let client = breach.client.map_or(String::new(), |client| format!(", client {client}"));
    let size = breach.bytes.map_or(String::new(), |bytes| format!(", files of {bytes} bytes"));
    let (found, limit) = (100.0 * breach.share(), 100.0 * breach.limit);
    let (timeouts, requests) = (breach.timeouts, breach.requests);
    let rule = breach.rule;
    format!("{rule}: {found:.2} % timed out, not {limit:.2} ({timeouts}/{requests}{client}{size})")
}

crate::named! {
    /// Worth of a run: the worst stamp that applies.
    #[derive(Default, PartialOrd, Ord)]
    pub enum Stamp {
        /// The run says something about the server.
        #[default]
        Valid = "VALID",
        /// Not every body was compared, or some were wrong.
        Unverified = "UNVERIFIED",
        /// The run changed while it was measured: its means say nothing.
        NotSteady = "NOT-STEADY",
        /// The run says something about the generator.
        LimitedByClient = "LIMITED-BY-CLIENT",
    }
}

/// A reason, and the stamp that it asks for; [`Stamp::Valid`] for what is only good to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    pub stamp: Stamp,
    pub why: String,
}
