//! The result of a load: everything that was counted, what the machine says about it, and what it
//! is worth.

use super::fate::{Fate, Fates};
use super::options::{Model, Taken};
use super::plan::Plan;
use super::play::{Idled, Times};
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
use std::fs;

/// The version of [`Outcome`]'s JSON form.
pub(super) const FORMAT: u32 = 1;

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
            model: model_name(&Model::default()).to_owned(),
            load: "none".to_owned(),
            seconds: 1.0,
            fairness: 1.0,
            ..Self::default()
        }
    }

    pub(super) fn new(
        plan: &Plan,
        tallies: &[Tally],
        seconds_told: &[Second],
        times: Times,
        kernel: Kernel,
        interrupted: bool,
    ) -> Self {
        let clients = usize::try_from(plan.clients).unwrap_or(1);
        let mut sum = Tally::new(clients, plan.sizes.len());
        tallies.iter().for_each(|tally| sum.add(tally));
        let workers: Vec<Health> = tallies.iter().map(|tally| tally.health).collect();
        let wall_ns = workers.iter().map(|health| health.wall_ns).max().unwrap_or(0);
        let length = seconds(wall_ns).max(1e-9);
        let open = !matches!(plan.options.model, Model::Closed { .. });
        let partly = matches!(plan.options.model, Model::PartlyOpen { .. });
        let rows = rows(seconds_told, times, wall_ns);
        let clients = clients_of(&sum.seen, plan.sizes.len());
        Self {
            model: model_name(&plan.options.model).to_owned(),
            load: load_of(plan),
            protocol: if plan.streams > 0 { "h2" } else { "http/1.1" }.to_owned(),
            workload: plan.taken.clone(),
            seed: plan.options.seed,
            seconds: seconds(wall_ns),
            interrupted,
            offered: sum.offered,
            fates: sum.fates,
            offered_per_s: sum.offered as f64 / length,
            good_per_s: sum.good_within as f64 / length,
            good_mbit_per_s: sum.bytes_within as f64 * 8e-6 / length,
            times: times_of(&sum, open),
            response: open.then_some(sum.response),
            service: sum.service,
            failed: sum.failed,
            phases: sum.phases,
            lag: sum.lag,
            classes: sum.classes,
            fairness: fairness(&clients),
            clients,
            sessions: partly.then_some(sum.sessions),
            lines: sum.lines,
            verified: sum.verified,
            changed: sum.changed,
            statuses: sum.statuses,
            codes: sum.codes,
            connects: sum.connects,
            connected: sum.connected,
            connections_most: sum.connections_most,
            again: sum.again,
            tls: plan.tls.is_some().then_some(sum.handshakes),
            bytes_sent: sum.bytes_sent,
            bytes_received: sum.bytes_received,
            workers,
            kernel,
            rules: rulings(plan, &sum.seen),
            rows,
            ..Self::empty(&plan.options.url)
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

fn model_name(model: &Model) -> &'static str {
    match model {
        Model::Closed { .. } => "closed",
        Model::Open { .. } => "open",
        Model::PartlyOpen { .. } => "partly-open",
    }
}

fn load_of(plan: &Plan) -> String {
    let rate = |rate: &super::arrivals::Rate| {
        let parts = rate.stretches.iter().map(|s| {
            if s.from == s.to { format!("{}", s.to) } else { format!("{} to {}", s.from, s.to) }
        });
        let arrivals = format!("{:?}", plan.options.arrivals).to_lowercase();
        format!("{} per second, {arrivals} arrivals", parts.collect::<Vec<_>>().join(", then "))
    };
    match &plan.options.model {
        Model::Closed { connections, think } => {
            let think = think.filter(|think| !think.is_zero());
            let think = think.map_or("no think time".to_owned(), |t| format!("think time {t:?}"));
            let streams = match plan.streams {
                0 => String::new(),
                streams => format!(" of {streams} streams"),
            };
            format!("{connections} connections{streams}, {think}")
        }
        Model::Open { rate: offered, .. } => format!("requests {}", rate(offered)),
        Model::PartlyOpen { session_rate: Some(offered), .. } => {
            format!("sessions {}", rate(offered))
        }
        Model::PartlyOpen { session_rate: None, .. } => "sessions at the log's times".to_owned(),
    }
}

fn rows(told: &[Second], times: Times, wall_ns: u64) -> Vec<Row> {
    let until = times.from.saturating_add(wall_ns);
    let row = |second: &Second| {
        let start = times.start.saturating_add(second.row.second.saturating_mul(NS_PER_S));
        let counts = start >= times.from && start.saturating_add(NS_PER_S) <= until;
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

fn rulings(plan: &Plan, seen: &[Seen]) -> Vec<Ruling> {
    let cells: Vec<Cell> = cells(plan, seen);
    let ruling = |paper: &str, breaches: Vec<rules::Breach>| Ruling {
        paper: paper.to_owned(),
        breaches: breaches.iter().map(breach).collect(),
    };
    vec![ruling("eurosys07", rules::eurosys07(&cells)), ruling("systor12", rules::systor12(&cells))]
}

fn cells(plan: &Plan, seen: &[Seen]) -> Vec<Cell> {
    let rows = (0_u32..).zip(seen.chunks(plan.sizes.len().max(1)));
    // The papers' clients are machines: the connections of a closed loop are one.
    let is_closed = matches!(plan.options.model, Model::Closed { .. });
    let cell = |client, (&bytes, seen): (&u64, &Seen)| Cell {
        client: if is_closed { 0 } else { client },
        bytes,
        requests: seen.requests,
        timeouts: seen.timeouts,
        unseen: seen.unseen,
    };
    rows.flat_map(|(client, row)| plan.sizes.iter().zip(row).map(move |pair| cell(client, pair)))
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

/// Counters of this network namespace and machine, as they grew while the load ran. Traffic of
/// others counts too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// Connections that a listener's full queue turned away (`ListenOverflows`).
    pub listen_overflows: u64,
    /// Connections that listeners dropped for any reason (`ListenDrops`).
    pub listen_drops: u64,
    /// TCP segments sent again (`RetransSegs`).
    pub segments_again: u64,
    /// Processor time that the hypervisor gave to others, ticks of 10 ms, all processors
    /// (`/proc/stat`).
    pub steal_ticks: u64,
}

impl Kernel {
    /// Reads the counters of a process's network namespace, named as `/proc` names it; what cannot
    /// be read is 0.
    #[must_use]
    pub fn read_of(process: &str) -> Self {
        let table = |name| fs::read_to_string(format!("/proc/{process}/net/{name}"));
        let netstat = table("netstat").unwrap_or_default();
        let snmp = table("snmp").unwrap_or_default();
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let steal = stat.lines().next().and_then(|line| line.split_ascii_whitespace().nth(8));
        Self {
            listen_overflows: field(&netstat, "TcpExt:", "ListenOverflows"),
            listen_drops: field(&netstat, "TcpExt:", "ListenDrops"),
            segments_again: field(&snmp, "Tcp:", "RetransSegs"),
            steal_ticks: steal.and_then(|ticks| ticks.parse().ok()).unwrap_or(0),
        }
    }

    pub(super) fn until_now(self) -> Self {
        let now = Self::read_of("self");
        Self {
            listen_overflows: now.listen_overflows.saturating_sub(self.listen_overflows),
            listen_drops: now.listen_drops.saturating_sub(self.listen_drops),
            segments_again: now.segments_again.saturating_sub(self.segments_again),
            steal_ticks: now.steal_ticks.saturating_sub(self.steal_ticks),
        }
    }
}

/// A value of a table whose names stand in one line and whose values in the next.
fn field(text: &str, table: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.starts_with(table));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let at = names.split_ascii_whitespace().position(|found| found == name);
    let value = at.and_then(|at| values.split_ascii_whitespace().nth(at));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_by_name() {
        let text = "TcpExt: A ListenDrops B\nTcpExt: 1 22 3\nIpExt: A\nIpExt: 9\n";
        assert_eq!(field(text, "TcpExt:", "ListenDrops"), 22);
        assert_eq!(field(text, "IpExt:", "A"), 9);
        assert_eq!(field(text, "IpExt:", "B"), 0);
        assert_eq!(field("", "IpExt:", "A"), 0);
    }
}
