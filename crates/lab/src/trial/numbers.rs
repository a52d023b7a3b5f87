//! The numbers of a trial: what its load says, and what was seen of the server.

use crate::record::{APART, Numbers, Second};
use crate::stats::count;
use crate::units::real;
use crate::watch::Seen;
use regatta_load::engine::{Fate, Outcome, Spectrum};

/// A block as vmstat counts them.
const BLOCK_BYTES: f64 = 1_024.0;
/// Fewer samples than this beyond a quantile, and it is one of them and no estimate.
pub(crate) const BEYOND_MIN: f64 = 10.0;
const SPECTRUM: [f64; 14] =
    [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999];

pub(crate) fn metrics(outcome: &Outcome, seen: &Seen) -> Numbers {
    let mut all = Numbers::new();
    let mut put = |name: &str, value: f64| {
        if value.is_finite() {
            all.insert(name.to_owned(), value);
        }
    };
    put("offered_per_s", outcome.offered_per_s);
    put("good_per_s", outcome.good_per_s);
    put("mbit_per_s", outcome.good_mbit_per_s);
    put("good_share", outcome.good_share());
    put("error_share", outcome.error_share());
    put("mean_ms", outcome.latency().times.mean() / 1e6);
    for (name, q) in [("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99), ("p999_ms", 0.999)] {
        if let Some(ms) = at(outcome.latency(), q) {
            put(name, ms);
        }
    }
    let answered = &outcome.latency().times;
    if real(answered.count()) * 0.1 >= BEYOND_MIN {
        put("answered_p90_ms", real(answered.quantile(0.9)) / 1e6);
    }
    put("service_p50_ms", real(outcome.service.at(0.5).ns) / 1e6);
    put("lag_p99_ms", real(outcome.lag.quantile(0.99)) / 1e6);
    let (client_cpu, client_busy) = outcome.busiest();
    put("client_cpu", client_cpu);
    put("client_busy", client_busy);
    put("connections_most", real(outcome.connections_most));
    put("listen_overflows_per_s", real(outcome.kernel.listen_overflows) / outcome.seconds);
    put("segments_again_per_s", real(outcome.kernel.segments_again) / outcome.seconds);
    if let Some(drops) = seen.drops {
        // Over a connection that stays, each request; else each is a connection of its own.
        let offered = outcome.connects.max(outcome.offered).max(1);
        put("syn_drop_share", real(drops) / real(offered));
    }
    if let Some(share) = unverified_share(outcome).filter(|_| seen.compares) {
        put("unverified_share", share);
    }
    put("fairness", outcome.fairness);
    for fate in Fate::ALL.into_iter().filter(|fate| outcome.fates.get(*fate) > 0) {
        put(&format!("fate_{}", fate.name()), real(outcome.fates.get(fate)));
    }
    for (name, value) in seen.held.iter().chain(&seen.environment).chain(&seen.shares) {
        put(name, *value);
    }
    for (name, value) in others(seen).into_iter().chain(rates(seen)) {
        put(name, value);
    }
    let replies = seen.counters.get("replies").copied();
    let replies = replies.unwrap_or(outcome.good_per_s * seen.seconds);
    for (name, value) in &seen.server {
        put(name, *value);
        if replies > 0.0 {
            put(&format!("{name}_per_reply"), value / replies);
        }
    }
    let cpu_s = seen.server.get("cpu_s").copied().unwrap_or_default();
    // The control group and the kernel's task clock are exact; /proc counts in steps of 10 ms.
    let clock_s = seen.server.get("task_ns").map(|ns| ns / 1e9);
    let exact_s = seen.group_s.or(clock_s).unwrap_or(cpu_s);
    put("cpu_us_per_reply", 1e6 * exact_s / replies);
    put("server_cpu", cpu_s / seen.seconds);
    let calls = calls(&seen.counters, seen.changes_are_calls);
    if let Some(calls) = calls.filter(|_| replies > 0.0) {
        put("system_calls_per_reply", calls / replies);
    }
    put("window_s", seen.seconds);
    all
}

/// Interference with the server, and the distance of its processors; NaN if unknown.
fn others(seen: &Seen) -> [(&'static str, f64); 8] {
    let [before, after] = seen.apart_ns.map(|ns| ns.unwrap_or(f64::NAN));
    [
        ("foreign", seen.foreign),
        ("kept", seen.kept.unwrap_or(f64::NAN)),
        ("steal", seen.steal),
        ("out_of_memory", seen.out_of_memory.map_or(f64::NAN, real)),
        ("workers_replaced", seen.replaced.map_or(f64::NAN, real)),
        ("processes_gone", count(seen.gone)),
        (APART[0], before),
        (APART[1], after),
    ]
}

/// The share of the whole replies that were compared with nothing; None without a reply.
fn unverified_share(outcome: &Outcome) -> Option<f64> {
    let answers = outcome.fates.sum(Fate::is_answer);
    let compared = outcome.verified.min(answers);
    (answers > 0).then(|| real(answers - compared) / real(answers))
}

/// Rates of vmstat, and [G]'s cycles for each instruction; only those that were counted.
fn rates(seen: &Seen) -> Vec<(&'static str, f64)> {
    let of = |name: &str| seen.server.get(name).copied();
    let per_s = |name: &str, scale: f64| Some(of(name)? / scale / seen.seconds);
    let instructions = || Some(of("user_instructions")? + of("kernel_instructions")?);
    let cycles = || Some(of("cycles")? / instructions().filter(|count| *count > 0.0)?);
    let opens = || Some(seen.counters.get("opens")? / seen.counters.get("replies")?);
    [
        ("opens_per_reply", opens()),
        ("context_switches_per_s", per_s("switches", 1.0)),
        ("voluntary_switches_per_s", per_s("voluntary_switches", 1.0)),
        ("involuntary_switches_per_s", per_s("involuntary_switches", 1.0)),
        ("blocks_in_per_s", per_s("read_bytes", BLOCK_BYTES)),
        ("cycles_per_instruction", cycles()),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect()
}

/// The system calls that the server's counters name: a little less than all. Changes of what it
/// waits for are calls with epoll only. None of a server that has no counters.
fn calls(counters: &Numbers, changes_are_calls: bool) -> Option<f64> {
    const NAMED: &str = "accept_calls recv_calls send_calls sendfile_calls wait_calls opens reads \
        connections_closed log_writes";
    let changes = changes_are_calls.then_some("wait_changes");
    let names = NAMED.split_whitespace().chain(changes);
    let found: Vec<f64> = names.filter_map(|name| counters.get(name).copied()).collect();
    (!found.is_empty()).then(|| found.iter().sum())
}

/// A quantile in milliseconds; None if too few samples lie beyond it, or it lies among those that
/// never came back.
fn at(spectrum: &Spectrum, q: f64) -> Option<f64> {
    let all = real(spectrum.times.count() + spectrum.censored);
    let found = spectrum.at(q);
    (all * (1.0 - q) >= BEYOND_MIN && !found.censored).then(|| real(found.ns) / 1e6)
}

pub(crate) fn spectrum(outcome: &Outcome) -> Vec<(f64, f64)> {
    SPECTRUM.into_iter().filter_map(|q| Some((q, at(outcome.latency(), q)?))).collect()
}

/// The whole seconds of a trial, with what was sampled of the server.
pub(crate) fn series(outcome: &Outcome, whole: f64, seen: &[(f64, f64)]) -> Vec<Second> {
    let sampled = |second: u64| usize::try_from(second).ok().and_then(|at| seen.get(at));
    let second = |row: &regatta_load::engine::Row| Second {
        second: row.second,
        counts: row.counts,
        offered: row.offered,
        good: row.good,
        errors: row.errors,
        p99_ms: real(row.p99_ns) / 1e6,
        in_flight: row.in_flight,
        server_cpu: sampled(row.second).map(|sample| sample.0),
        client_cpu: Some(real(row.cpu_ns) / 1e9),
        steal: sampled(row.second).map(|sample| sample.1),
    };
    let within = |row: &&regatta_load::engine::Row| real(row.second) + 1.0 <= whole;
    outcome.rows.iter().filter(within).map(second).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::numbers;

    /// The result of a load that asked for nothing.
    pub(crate) fn outcome() -> Outcome {
        Outcome::empty("http://127.0.0.1:1/")
    }

    #[test]
    fn numbers_of_vmstat_are_kept_where_they_were_counted() {
        let mut seen = Seen { seconds: 2.0, ..Seen::default() };
        assert!(rates(&seen).is_empty(), "nothing was counted");
        seen.server = numbers([("switches", 10.0), ("read_bytes", 4_096.0), ("cycles", 300.0)]);
        assert_eq!(rates(&seen), [("context_switches_per_s", 5.0), ("blocks_in_per_s", 2.0)]);
        seen.server.insert("user_instructions".to_owned(), 50.0);
        seen.server.insert("kernel_instructions".to_owned(), 100.0);
        assert_eq!(rates(&seen).last(), Some(&("cycles_per_instruction", 2.0)));
        seen.counters = numbers([("opens", 5.0), ("replies", 100.0)]);
        assert_eq!(rates(&seen)[0], ("opens_per_reply", 0.05));
        let counters = numbers([("recv_calls", 3.0), ("wait_changes", 4.0), ("replies", 9.0)]);
        assert_eq!(calls(&counters, true), Some(7.0));
        assert_eq!(calls(&counters, false), Some(3.0));
        assert_eq!(calls(&Numbers::new(), true), None, "the server has no counters");
    }
}
