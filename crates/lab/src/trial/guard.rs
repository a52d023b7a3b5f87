//! Conditions under which a trial counts. One that does not stays on record with the reasons, and
//! is made again. Warm-up that is found instead of assumed.

use crate::experiment::{Guards, Machine};
use crate::record::{Numbers, Record, Second};
use crate::stats::{Steady, count, mean, steady};
use crate::units::real;
use regatta_load::engine::{Fate, Outcome};

/// The reason of a trial in which the server answered nothing well.
pub(crate) const SILENT: &str = "not one good answer";

/// Every reason why a trial does not count; none: it does.
pub(crate) fn reasons(
    outcome: &Outcome,
    metrics: &Numbers,
    guards: &Guards,
    machine: &Machine,
) -> Vec<String> {
    let mut reasons = Vec::new();
    let number = |name: &str| metrics.get(name).copied().unwrap_or_default();
    let mut over = |name: &str, limit: f64, what: &str, factor: f64, unit: &str| {
        let value = number(name);
        if value > limit {
            let (value, limit) = (value * factor, limit * factor);
            reasons.push(format!("{what}: {value:.2}{unit}, over {limit:.2}{unit}"));
        }
    };
    over("lag_p99_ms", guards.lag_p99_ms_max, "the generator was late (p99)", 1.0, " ms");
    over("client_cpu", guards.client_busy_max, "the generator was busy", 100.0, " %");
    over("steal", guards.steal_max, "the hypervisor took time", 100.0, " %");
    over("error_share", guards.errors_max, "requests failed", 100.0, " %");
    // A connection that tries again is dropped again, so that the share may be above one.
    let drops_max = if guards.syn_drops_max < 1.0 { guards.syn_drops_max } else { f64::INFINITY };
    over("syn_drop_share", drops_max, "queues dropped connections", 100.0, " %");
    over("unverified_share", guards.unverified_max, "replies were not compared", 100.0, " %");
    if !machine.server_cpus.is_empty() {
        over("foreign", guards.foreign_max, "others used the server's processor", 100.0, " %");
        over("kept", guards.foreign_max, "others kept the server from its processor", 100.0, " %");
    }
    for (name, what) in [
        ("out_of_memory", "processes that the kernel killed for want of memory"),
        ("workers_replaced", "workers that ended and that the master replaced"),
        ("processes_gone", "processes of the server that ended"),
    ] {
        let ended = number(name);
        if ended > 0.0 {
            reasons.push(format!("{what}: {ended:.0}"));
        }
    }
    for fate in [Fate::NoDescriptor, Fate::NoAddress] {
        let refused = outcome.fates.get(fate);
        if refused > 0 {
            reasons.push(format!("the generator ran out: {refused} requests {}", fate.name()));
        }
    }
    let wrong: u64 =
        Fate::ALL.into_iter().filter(|fate| fate.is_lie()).map(|f| outcome.fates.get(f)).sum();
    if wrong > 0 {
        reasons.push(format!("{wrong} replies were wrong"));
    }
    // If failures are measured, it is a result that every client gave up.
    let gave_up = guards.errors_max >= 1.0 && outcome.fates.get(Fate::Timeout) > 0;
    if outcome.fates.get(Fate::Good) == 0 && !gave_up {
        reasons.push(SILENT.to_owned());
    }
    if outcome.interrupted {
        reasons.push("interrupted".to_owned());
    }
    reasons
}

/// The most opens for each reply of a server whose caches are warm.
pub(crate) const OPENS_MAX: f64 = 0.02;

/// A note on an arm whose caches were cold though every process was asked for every file.
pub(crate) fn cold(record: &Record, warm_requests: u32) -> Option<String> {
    let opens = record.metrics.get("opens_per_reply")?;
    let name = record.cell.name();
    (warm_requests > 0 && *opens >= OPENS_MAX)
        .then(|| format!("{name}: cold caches, {OPENS_MAX} opens or more for each reply"))
}

/// Finds where a trial settled (MSER-5 over the good answers of each second) and takes its rates
/// from there, if that is later than `warm_s`: a note that says so. Fails if it never settled, or
/// is too short to tell: then the trial does not count.
pub(crate) fn settle(record: &mut Record, warm_s: f64) -> Result<Option<String>, String> {
    let good: Vec<f64> = record.series.iter().map(|second| real(second.good)).collect();
    let seconds = good.len();
    let from = match steady(&good) {
        Steady::From(cut) => cut,
        Steady::Never => {
            return Err(format!("NOT-STEADY: of {seconds} s it was not steady for half"));
        }
        Steady::Unknown => {
            return Err(format!("NOT-STEADY: {seconds} whole seconds are too few to tell"));
        }
    };
    record.metrics.insert("steady_from_s".to_owned(), count(from));
    if count(from) <= warm_s {
        return Ok(None);
    }
    let rest = &record.series[from..];
    let of = |what: fn(&Second) -> u64| {
        let values: Vec<f64> = rest.iter().map(|second| real(what(second))).collect();
        mean(&values)
    };
    let (offered, good) = (of(|second| second.offered), of(|second| second.good));
    let (errors, metrics) = (of(|second| second.errors), &mut record.metrics);
    let before = metrics.get("good_per_s").copied().unwrap_or_default();
    if before > 0.0
        && let Some(mbit) = metrics.get_mut("mbit_per_s")
    {
        *mbit *= good / before;
    }
    metrics.insert("offered_per_s".to_owned(), offered);
    metrics.insert("good_per_s".to_owned(), good);
    if offered > 0.0 {
        metrics.insert("error_share".to_owned(), errors / offered);
    }
    Ok(Some(format!(
        "steady from second {from}; rates are from there on, percentiles and counters of the whole \
         window"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Scale, parse};
    use crate::trial::metrics;
    use crate::trial::numbers::tests::outcome;
    use crate::watch::Seen;
    use regatta_load::engine::Health;

    const TEXT: &str = r#"
experiment = { name = "x", question = "?", expect = "!" }
targets.a.program = "regatta"
workload.root = "."
machine.server_cpus = "0"
"#;

    /// Faults of a second of 1,000 good answers, all compared, after `change`, under the usual
    /// guards with `more` lines.
    fn check(more: &str, change: impl Fn(&mut Outcome, &mut Seen)) -> Vec<String> {
        let experiment = parse("x", &format!("{TEXT}{more}"), Scale::Quick).unwrap();
        let mut found = outcome();
        (0..1_000).for_each(|_| found.fates.count(Fate::Good));
        (found.offered, found.connects, found.verified) = (1_000, 100, 1_000);
        (found.offered_per_s, found.good_per_s) = (1_000.0, 1_000.0);
        let mut seen = Seen { seconds: 1.0, compares: true, kept: Some(0.0), ..Seen::default() };
        change(&mut found, &mut seen);
        let metrics = metrics(&found, &seen);
        reasons(&found, &metrics, &experiment.guards, &experiment.machine)
    }

    #[track_caller]
    fn broken(more: &str, why: &str, change: impl Fn(&mut Outcome, &mut Seen)) {
        let reasons = check(more, change);
        assert_eq!(reasons.len(), 1, "{why}: {reasons:?}");
        assert!(reasons[0].starts_with(why), "{reasons:?}");
    }

    #[test]
    fn each_guard_has_its_reason() {
        assert!(check("", |_, _| {}).is_empty());
        broken("", "the generator was late (p99)", |found, _| found.lag.record(7_000_000));
        broken("", "the generator was busy: 95.00 %, over 90.00 %", |found, _| {
            found.workers = vec![Health {
                wall_ns: 1_000,
                available_ns: 1_000,
                cpu_ns: 950,
                ..Health::default()
            }];
        });
        broken("", "the hypervisor took time", |_, seen| seen.steal = 0.03);
        broken("", "others used the server's processor", |_, seen| seen.foreign = 0.2);
        broken("", "others kept the server", |_, seen| seen.kept = Some(0.2));
        broken("", "requests failed", |found, _| {
            (0..20).for_each(|_| found.fates.count(Fate::Timeout));
            found.offered = 1_020;
        });
        broken("", "the generator ran out: 1 requests no-address", |found, _| {
            found.fates.count(Fate::NoAddress);
        });
        broken("", "1 replies were wrong", |found, _| found.fates.count(Fate::Stale));
        broken("", "interrupted", |found, _| found.interrupted = true);
    }

    #[test]
    fn dropped_connections_make_a_trial_invalid_unless_that_is_what_is_measured() {
        let drops = |_: &mut Outcome, seen: &mut Seen| seen.drops = Some(5);
        broken("", "queues dropped connections: 0.50 %, over 0.10 %", drops);
        broken("guards.syn_drops_max = 0.004", "queues dropped connections", drops);
        assert!(check("guards.syn_drops_max = 0.005", drops).is_empty());
        assert!(check("guards.errors_max = 1", drops).is_empty(), "an overload");
        // Each was dropped several times.
        let more = |_: &mut Outcome, seen: &mut Seen| seen.drops = Some(5_000);
        assert!(check("guards.errors_max = 1", more).is_empty());
        broken("guards = { errors_max = 1, syn_drops_max = 0 }", "queues dropped", drops);
        // A hundredth of the connections, of ten requests each, is a thousandth of the requests.
        assert!(check("", |_, seen| seen.drops = Some(1)).is_empty());
        // The machine's counters are of all its connections.
        assert!(check("", |found, _| found.kernel.listen_drops = 500).is_empty());
    }

    #[test]
    fn a_process_that_ends_makes_a_trial_invalid_also_in_overload() {
        let overload = "guards.errors_max = 1";
        broken(overload, "processes that the kernel killed for want of memory: 2", |_, seen| {
            seen.out_of_memory = Some(2);
        });
        broken(overload, "workers that ended and that the master replaced: 1", |_, seen| {
            seen.replaced = Some(1);
        });
        broken(overload, "processes of the server that ended: 1", |_, seen| seen.gone = 1);
        let alive = |_: &mut Outcome, seen: &mut Seen| {
            (seen.out_of_memory, seen.replaced) = (Some(0), Some(0));
        };
        assert!(check(overload, alive).is_empty());
    }

    #[test]
    fn replies_that_nobody_compared_make_a_trial_invalid_where_they_were_to_be() {
        let half = |found: &mut Outcome, _: &mut Seen| found.verified = 500;
        broken("", "replies were not compared: 50.00 %, over 1.00 %", half);
        assert!(check("guards.unverified_max = 0.5", half).is_empty());
        let nobody_asked = |found: &mut Outcome, seen: &mut Seen| {
            (found.verified, seen.compares) = (0, false);
        };
        assert!(check("", nobody_asked).is_empty(), "the bare loop, or verify = false");
        let nothing = |found: &mut Outcome, _: &mut Seen| {
            found.fates = regatta_load::engine::Fates::default();
            found.verified = 0;
        };
        broken("", SILENT, nothing);
        let overload = "guards.errors_max = 1";
        broken(overload, SILENT, nothing);
        let waited = |found: &mut Outcome, seen: &mut Seen| {
            nothing(found, seen);
            found.fates.count(Fate::Timeout);
        };
        assert!(check(overload, waited).is_empty(), "all gave up, and that was asked");
    }
}

#[cfg(test)]
mod warm_up_tests {
    use super::*;
    use crate::analysis::tests::synthetic;
    use crate::record::numbers;

    const TEXT: &str = r#"
experiment = { name = "made-up", question = "?", expect = "!" }
targets.a.program = "regatta"
workload.root = "."
measure = { blocks = 1, warm = "found", warm_s = 2, window_s = 38 }
"#;

    fn record(good: impl Fn(u64) -> u64) -> Record {
        let numbers = numbers([("good_per_s", 900.0), ("mbit_per_s", 9.0), ("error_share", 0.0)]);
        let mut record = synthetic(TEXT, &move |_| numbers.clone()).records.remove(0);
        record.metrics.insert("good_per_s".to_owned(), 900.0);
        record.series = (0..40)
            .map(|second| Second {
                second,
                counts: second >= 2,
                offered: 1_000,
                good: good(second),
                errors: 1_000 - good(second),
                p99_ms: 1.0,
                in_flight: 1,
                ..Second::default()
            })
            .collect();
        record
    }

    #[test]
    fn rates_are_those_of_the_steady_seconds() {
        let mut slow = record(|second| if second < 10 { 500 + second } else { 950 + second % 3 });
        let note = settle(&mut slow, 2.0).unwrap().unwrap();
        assert!(note.starts_with("steady from second 10"), "{note}");
        assert!((slow.metrics["good_per_s"] - 951.0).abs() < 0.1, "{:?}", slow.metrics);
        assert!((slow.metrics["error_share"] - 0.049).abs() < 1e-4, "{:?}", slow.metrics);
        assert!((slow.metrics["mbit_per_s"] - 9.51).abs() < 0.01, "{:?}", slow.metrics);
        assert_eq!(slow.metrics["steady_from_s"], 10.0);
        let mut calm = record(|second| 950 + second % 3);
        assert_eq!(settle(&mut calm, 2.0), Ok(None));
        assert_eq!(calm.metrics["good_per_s"], 900.0, "nothing had to be counted again");
    }

    #[test]
    fn cold_caches_are_noted_where_they_should_be_warm() {
        for (opens, warm_requests, noted) in [
            (Some(0.056), 20, true),
            (Some(0.019), 20, false),
            (Some(0.5), 0, false),
            (None, 20, false),
        ] {
            let mut record = record(|_| 950);
            record.metrics.extend(opens.map(|opens| ("opens_per_reply".to_owned(), opens)));
            let note = cold(&record, warm_requests);
            assert_eq!(note.is_some(), noted, "{opens:?} after {warm_requests}: {note:?}");
            assert!(note.is_none_or(|note| note.contains(": cold caches, 0.02")));
        }
    }

    #[test]
    fn what_never_settles_does_not_count() {
        let mut falling = record(|second| 1_000 - 20 * second);
        assert!(settle(&mut falling, 2.0).unwrap_err().starts_with("NOT-STEADY"));
        falling.series.truncate(12);
        assert!(settle(&mut falling, 2.0).unwrap_err().contains("too few"));
    }
}
