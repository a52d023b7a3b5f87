//! Worth of a run, and the reasons: the gates of `lab.md` §3.D and the service level, as a pure
//! function of the result.

use super::arrivals::Rate;
use super::fate::Fate;
use super::outcome::{Outcome, Reason, Stamp};
use super::part::{Part, Shards, Terms};
use super::report::{QUANTILES, is_reported};
use super::slo::{Judged, Level, Quantity, Slo, Term, Verdict, show};
use super::tally::{Health, Row};
use crate::number::seconds;

/// Result of a shard, or of the sum of several, with its judgement.
pub(super) fn judged(part: &Part, shards: Option<Shards>) -> Outcome {
    let mut outcome = Outcome::new(part, shards);
    outcome.judge(&part.terms);
    outcome
}

impl Outcome {
    /// Says what it is worth, and whether it meets the service level.
    fn judge(&mut self, terms: &Terms) {
        let evidence = Evidence::new(terms, self);
        (self.stamp, self.reasons) = stamp(self, &evidence);
        if let Some(Ok(slo)) = terms.slo.as_deref().map(Slo::parse) {
            self.slo = slo.judge(self, &evidence);
            self.level = Some(level(self, &evidence));
        }
    }
}

impl Slo {
    /// Compares every term with what was measured. A percentile among the requests that failed
    /// meets no limit, and neither does a percentile of no requests.
    pub(super) fn judge(&self, outcome: &Outcome, evidence: &Evidence) -> Vec<Judged> {
        self.terms.iter().map(|term| term.judge(outcome, evidence)).collect()
    }
}

/// Decides whether the level is met. Times include the client's own lag, so a level that is met
/// with it is met. A level that is missed because of the client is not judged.
fn level(outcome: &Outcome, evidence: &Evidence) -> Level {
    let missed = |by_server: bool| {
        let terms = outcome.slo.iter().filter(|term| !term.met && term.met_by_server != by_server);
        terms.map(|term| term.term.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (by_server, by_client) = (missed(true), missed(false));
    let (verdict, why) = if outcome.interrupted {
        let why = "the run was interrupted; let it run to its end";
        (Verdict::NotJudged, why.to_owned())
    } else if let Some(why) = outcome.shards.as_ref().and_then(not_whole) {
        (Verdict::NotJudged, why)
    } else if !by_server.is_empty() {
        (Verdict::Missed, by_server)
    } else if !by_client.is_empty() {
        let lag = show(outcome.lag.quantile(0.99) as f64);
        let busy = 100.0 * outcome.busiest().1;
        let why = format!(
            "the client's own delay explains {by_client} (schedule lag p99 {lag}, busiest thread \
             {busy:.0} %); give the client processors of its own (--pin), more --threads, or \
             another machine, or lower the load"
        );
        (Verdict::NotJudged, why)
    } else if let Some(short) = offered_short(outcome, evidence) {
        let why = format!("{short}; use more --threads or another machine, or lower the load");
        (Verdict::NotJudged, why)
    } else {
        (Verdict::Met, String::new())
    };
    Level { verdict, why }
}

impl Term {
    fn judge(&self, outcome: &Outcome, evidence: &Evidence) -> Judged {
        let spectrum = outcome.latency();
        let (measured, known) = match self.quantity {
            Quantity::Quantile(q) => {
                let at = spectrum.at(q);
                (at.ns as f64, !at.censored && spectrum.times.count() > 0)
            }
            Quantity::Mean => (spectrum.times.mean(), spectrum.times.count() > 0),
            Quantity::Errors => (outcome.error_share(), outcome.offered > 0),
            Quantity::Goodput => (outcome.good_share(), outcome.offered > 0),
            Quantity::Rate => (outcome.good_per_s, true),
        };
        let met = known && self.holds(measured);
        let met_by_server = met || known && self.holds_without_client(measured, outcome, evidence);
        Judged { term: self.text.clone(), measured, met, met_by_server }
    }

    fn holds(&self, measured: f64) -> bool {
        let holds = if self.below { measured < self.limit } else { measured > self.limit };
        holds || self.equal && measured == self.limit
    }

    /// Whether a term that is missed holds once the client's own delay and faults are taken off.
    /// The closed model has no lag: there, a thread that was busy all the time is the reason.
    fn holds_without_client(&self, measured: f64, outcome: &Outcome, evidence: &Evidence) -> bool {
        let is_closed = outcome.response.is_none();
        let is_limit = is_closed && outcome.busiest().1 > BUSY_SHARE_MAX;
        let own = evidence.own_faults(outcome);
        let of_offered = |faults: u64| faults as f64 / outcome.offered.max(1) as f64;
        match self.quantity {
            Quantity::Quantile(q) => {
                is_limit || self.holds(measured - outcome.lag.quantile(q) as f64)
            }
            Quantity::Mean => is_limit || self.holds(measured - outcome.lag.mean()),
            Quantity::Errors => own > 0 && self.holds((measured - of_offered(own)).max(0.0)),
            Quantity::Goodput => own > 0 && self.holds((measured + of_offered(own)).min(1.0)),
            Quantity::Rate => is_limit || offered_short(outcome, evidence).is_some(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// Requests that the schedule had in the measurement.
    pub(super) expected: Option<f64>,
    /// Whether the load was to be the same all the time.
    pub(super) even: bool,
    pub(super) verifies: bool,
    pub(super) deadline_ns: u64,
}

impl Evidence {
    fn new(terms: &Terms, outcome: &Outcome) -> Self {
        let share = outcome.shards.as_ref().map_or(1.0, Shards::share);
        let warm = seconds(terms.warm_up_ns);
        let whole = |rate: &Rate| rate.expected(warm + outcome.seconds) - rate.expected(warm);
        Self {
            expected: terms.rate.as_ref().map(|rate| whole(rate) * share),
            even: terms.even,
            verifies: terms.verifies,
            deadline_ns: terms.deadline_ns,
        }
    }

    /// Requests that failed because of the client: it had no descriptor or port, or its lag alone
    /// was longer than the deadline.
    fn own_faults(&self, outcome: &Outcome) -> u64 {
        let missed = outcome.fates.get(Fate::Late) + outcome.fates.get(Fate::Expired);
        let lags = outcome.lag.pairs().filter(|(ns, _)| *ns > self.deadline_ns);
        let late: u64 = lags.map(|(_, count)| count).sum();
        let refused = outcome.fates.get(Fate::NoDescriptor) + outcome.fates.get(Fate::NoAddress);
        refused + late.min(missed)
    }
}

/// A sentence if the client offered fewer requests than the schedule has.
fn offered_short(outcome: &Outcome, evidence: &Evidence) -> Option<String> {
    let expected = evidence.expected?;
    let is_short = (outcome.offered as f64) < expected - offered_room(expected);
    is_short.then(|| format!("{} requests were offered, not {expected:.0}", outcome.offered))
}

/// Allowed distance of the number of requests from the expected one. Random arrivals spread by the
/// root of their number, and four of these hardly ever happen.
fn offered_room(expected: f64) -> f64 {
    0.01 * expected + 4.0 * expected.sqrt() + 1.0
}

/// The largest share by which the schedule lag moves a percentile of a valid run.
const LAG_SHARE_MAX: f64 = 0.1;
/// The most of a thread's time that it may be busy, or kept from its processor, in a valid run.
const BUSY_SHARE_MAX: f64 = 0.9;
/// Whole seconds that a judgement on steadiness needs.
const ROWS_MIN: usize = 6;

/// The worst stamp that applies, with every reason.
pub(super) fn stamp(outcome: &Outcome, evidence: &Evidence) -> (Stamp, Vec<Reason>) {
    let mut reasons = Vec::new();
    let mut add = |stamp, why: String| reasons.push(Reason { stamp, why });
    client(outcome, evidence, &mut |why| add(Stamp::LimitedByClient, why));
    if let Some((stamp, why)) = steadiness(outcome, evidence.even) {
        add(stamp, why);
    }
    contents(outcome, evidence, &mut |why| add(Stamp::Unverified, why));
    beside(outcome, &mut |stamp, why| add(stamp, why));
    if let Some(why) = outcome.shards.as_ref().and_then(not_whole) {
        add(Stamp::LimitedByClient, why);
    }
    if let Some(why) = one_status(outcome) {
        add(Stamp::Valid, why);
    } else if outcome.statuses[3] > 0 {
        let why = format!("{} answers are 3xx; redirects are not followed", outcome.statuses[3]);
        add(Stamp::Valid, why);
    }
    if outcome.interrupted {
        add(Stamp::Valid, "interrupted: this is the part that was done".to_owned());
    }
    let worst = reasons.iter().map(|reason| reason.stamp).max().unwrap_or(Stamp::Valid);
    (worst, reasons)
}

/// Time that shards may start apart, ms: as much as clocks differ.
const APART_MS_MAX: u64 = 100;

/// A sentence if the merged shards are not the whole load at one time.
fn not_whole(shards: &Shards) -> Option<String> {
    let Shards { count, missing, interrupted, apart_ms, .. } = shards;
    let listed = |indices: &[u32]| {
        let names: Vec<String> = indices.iter().take(10).map(ToString::to_string).collect();
        let more = if indices.len() > 10 { ", ..." } else { "" };
        format!("{}{more}", names.join(", "))
    };
    if !missing.is_empty() {
        let (names, number) = (listed(missing), missing.len());
        return Some(format!(
            "{number} of {count} shards have no result ({names}): their requests are not in these \
             numbers; run all shards again"
        ));
    }
    if !interrupted.is_empty() {
        let (names, number) = (listed(interrupted), interrupted.len());
        return Some(format!(
            "{number} of {count} shards were stopped before their end ({names}): the rest of their \
             requests is not in these numbers; run all shards again"
        ));
    }
    (*apart_ms > APART_MS_MAX).then(|| {
        format!(
            "shards started {apart_ms} ms apart: give all of them one --start-at that is not \
                 a length of time"
        )
    })
}

/// A sentence if every answer had the same status, and it is no success.
fn one_status(outcome: &Outcome) -> Option<String> {
    let (&status, &count) = outcome.codes.first_key_value()?;
    if count != outcome.statuses.iter().sum::<u64>() || status < 300 {
        return None;
    }
    let hint = match status {
        300..400 => "redirects are not followed: load the URL that it leads to",
        401 | 403 => "do requests need a header (-H)?",
        404 | 410 => "is the path right?",
        405 => "is the method right?",
        400..500 => "is the request right?",
        _ => "is the server in order?",
    };
    Some(format!("every answer was {status}: {hint}"))
}

/// A sentence about the percentile that the client's own lag moved most, if it moved one of those
/// that are printed by more than a tenth. The closed model has no lag.
fn moved_by_lag(outcome: &Outcome) -> Option<String> {
    let response = outcome.response.as_ref()?;
    let samples = (response.times.count() + response.censored) as f64;
    let moved = |&(name, q): &(&'static str, f64)| {
        let (at, lag) = (response.at(q), outcome.lag.quantile(q));
        let without = at.ns.saturating_sub(lag) as f64;
        let is_judged = q < 1.0 && !at.censored && is_reported(q, samples);
        let is_moved = is_judged && lag as f64 > LAG_SHARE_MAX * without;
        is_moved.then_some((lag as f64 / without.max(1.0), name, without, at.ns as f64))
    };
    let found = QUANTILES.iter().rev().filter_map(moved).max_by(|a, b| a.0.total_cmp(&b.0));
    let (_, name, without, with) = found?;
    let (without, with) = (show(without), show(with));
    Some(format!(
        "the client's own lag moved {name} from {without} to {with}: run it with a real-time \
         priority (chrt -f 10), at a lower rate, or on a quieter machine"
    ))
}

fn client(outcome: &Outcome, evidence: &Evidence, add: &mut dyn FnMut(String)) {
    if let Some(why) = moved_by_lag(outcome) {
        add(why);
    }
    let (cpu, busy) = outcome.busiest();
    if busy > BUSY_SHARE_MAX {
        let kept = 100.0 * (busy - cpu);
        let (cpu, most) = (100.0 * cpu, 100.0 * BUSY_SHARE_MAX);
        add(format!(
            "a thread was busy {cpu:.0} % of the time and kept from its processor {kept:.0} %, \
             over {most:.0} % together"
        ));
    }
    let sum = |of: fn(&Health) -> u64| outcome.workers.iter().map(of).sum::<u64>();
    let (descriptors, ports) = (sum(|h| h.descriptors_refused), sum(|h| h.ports_refused));
    let waited = sum(|h| h.waited);
    if descriptors > 0 {
        add(format!("{descriptors} connects found no descriptor (fd-unavail)"));
    }
    if ports > 0 {
        add(format!("{ports} connects found no port (addrunavail): spread the sources"));
    }
    if waited * 100 > outcome.offered {
        add(format!(
            "{waited} requests waited for a connection: the server is past its capacity, or more \
             connections are needed"
        ));
    }
    if let Some(expected) = evidence.expected
        && (outcome.offered as f64 - expected).abs() > offered_room(expected)
    {
        add(format!("{} requests were offered, not {expected:.0}", outcome.offered));
    }
}

fn contents(outcome: &Outcome, evidence: &Evidence, add: &mut dyn FnMut(String)) {
    let lies = outcome.fates.sum(Fate::is_lie);
    if lies > 0 {
        let kinds: Vec<String> = Fate::ALL
            .into_iter()
            .filter(|fate| fate.is_lie() && outcome.fates.get(*fate) > 0)
            .map(|fate| format!("{} {}", outcome.fates.get(fate), fate.name()))
            .collect();
        add(format!("{lies} replies were not what they should be: {}", kinds.join(", ")));
    }
    let answers = outcome.fates.sum(Fate::is_answer);
    if !evidence.verifies {
        add("bodies were not compared with anything".to_owned());
    } else if outcome.verified < answers {
        let (verified, changed) = (outcome.verified, outcome.changed);
        let others = match answers.saturating_sub(verified + changed) {
            0 => String::new(),
            others => format!(", {others} replies were parts or in a content coding"),
        };
        add(format!(
            "{verified} of {answers} bodies were compared; {changed} files changed{others}"
        ));
    }
}

/// Judges idle connections and the altered file.
fn beside(outcome: &Outcome, add: &mut dyn FnMut(Stamp, String)) {
    if let Some(idle) = outcome.idle.filter(|idle| idle.least < idle.wanted) {
        let (least, wanted, again) = (idle.least, idle.wanted, idle.again);
        let why = format!(
            "at times only {least} of {wanted} idle connections were held: the server closed \
             {again}, which were made again"
        );
        add(Stamp::Valid, why);
    }
    if let Some(altered) = outcome.altered.filter(|a| a.missed * 10 > a.versions + a.missed) {
        let (missed, all) = (altered.missed, altered.versions + altered.missed);
        let why =
            format!("{missed} of {all} versions of the altered file were not written in time");
        add(Stamp::LimitedByClient, why);
    }
}

/// Compares the halves of the measurement: goodput, and what had piled up.
fn steadiness(outcome: &Outcome, even: bool) -> Option<(Stamp, String)> {
    if !even {
        let why = "not judged for steadiness: the load itself changed".to_owned();
        return Some((Stamp::Valid, why));
    }
    let rows: Vec<&Row> = outcome.rows.iter().filter(|row| row.counts).collect();
    if rows.len() < ROWS_MIN {
        let why = format!("not judged for steadiness: fewer than {ROWS_MIN} whole seconds");
        return Some((Stamp::Valid, why));
    }
    let (first, last) = rows.split_at(rows.len() / 2);
    let (early, late) = (Half::of(first, |row| row.good), Half::of(last, |row| row.good));
    let apart = (early.mean - late.mean).abs();
    let noise = (early.error.powi(2) + late.error.powi(2)).sqrt();
    if apart > 0.1 * early.mean.max(late.mean) && apart > 3.0 * noise {
        let (early, late) = (early.mean, late.mean);
        let why = format!("goodput went from {early:.0} to {late:.0} per second");
        return Some((Stamp::NotSteady, why));
    }
    let piled = |half| Half::of(half, |row| row.in_flight);
    let (before, after) = (piled(first), piled(last));
    // Little's law: a growth of this much is 50 ms more at the offered rate.
    let rate = Half::of(last, |row| row.offered).mean;
    let growth = after.mean - before.mean;
    let noise = (before.error.powi(2) + after.error.powi(2)).sqrt();
    let open = outcome.response.is_some();
    if open && growth > 0.5 * before.mean && growth > 0.05 * rate + 10.0 && growth > 3.0 * noise {
        let (before, after) = (before.mean, after.mean);
        let why = format!(
            "requests in flight grew from {before:.0} to {after:.0}: the load is past capacity"
        );
        return Some((Stamp::NotSteady, why));
    }
    None
}

struct Half {
    mean: f64,
    error: f64,
}

impl Half {
    fn of(rows: &[&Row], value: impl Fn(&Row) -> u64) -> Self {
        let values: Vec<f64> = rows.iter().map(|row| value(row) as f64).collect();
        let n = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        Self { mean, error: (squares / (n - 1.0).max(1.0) / n).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::options::LoadOptions;
    use crate::engine::plan::Plan;
    use crate::engine::play::Idled;
    use crate::engine::tally::{Hdr, Tally};
    use crate::engine::{Model, Verify};
    use crate::workload::alter::Rewritten;

    const EVIDENCE: Evidence =
        Evidence { expected: Some(10_000.0), even: true, verifies: true, deadline_ns: u64::MAX };

    /// Ten seconds at 1,000 per second, all good and verified.
    fn sound() -> Outcome {
        let model = Model::Open { rate: Rate::constant(1_000.0), connections_max: None };
        let verify = Some(Verify::Generated);
        let options = LoadOptions { verify, ..LoadOptions::new("http://127.0.0.1:1/x", model) };
        let plan = Plan::new(&options).unwrap();
        let mut tally = Tally::new(1, 1);
        (0..10_000).for_each(|_| tally.fates.count(Fate::Good));
        (tally.offered, tally.verified) = (10_000, 10_000);
        tally.lag.record(20_000);
        let wall_ns = 10_000_000_000;
        tally.health =
            Health { wall_ns, available_ns: wall_ns, cpu_ns: wall_ns / 2, ..Health::default() };
        let mut outcome = Outcome::new(&Part::new(&plan, &[tally], Vec::new()), None);
        let row = |second| Row {
            second,
            counts: true,
            offered: 1_000,
            good: 1_000 + second % 3,
            in_flight: 10,
            connections: 10,
            ..Row::default()
        };
        outcome.rows = (0..10).map(row).collect();
        outcome
    }

    fn check(what: &str, expected: Stamp, word: &str, change: fn(&mut Outcome, &mut Evidence)) {
        let (mut outcome, mut evidence) = (sound(), EVIDENCE);
        change(&mut outcome, &mut evidence);
        let (stamp, reasons) = stamp(&outcome, &evidence);
        assert_eq!(stamp, expected, "{what}: {reasons:?}");
        assert!(reasons.iter().any(|r| r.why.contains(word)) || word.is_empty(), "{reasons:?}");
    }

    #[test]
    fn a_sound_run_is_valid() {
        check("sound", Stamp::Valid, "", |_, _| {});
        check("short", Stamp::Valid, "not judged", |outcome, _| outcome.rows.truncate(5));
        check("a ramp", Stamp::Valid, "itself changed", |outcome, evidence| {
            evidence.even = false;
            outcome.rows[0].good = 0;
        });
        check("interrupted", Stamp::Valid, "interrupted", |outcome, _| outcome.interrupted = true);
        check("one bad second", Stamp::Valid, "", |outcome, _| outcome.rows[7].good = 600);
        check("redirects", Stamp::Valid, "20 answers are 3xx", |outcome, _| {
            outcome.statuses[3] = 20;
        });
        check("one status", Stamp::Valid, "404: is the path right?", |outcome, _| {
            outcome.statuses[4] = 10_000;
            outcome.codes.insert(404, 10_000);
        });
        check("one redirect", Stamp::Valid, "every answer was 301", |outcome, _| {
            outcome.statuses[3] = 5;
            outcome.codes.insert(301, 5);
        });
        let mut outcome = sound();
        outcome.statuses[2..5].copy_from_slice(&[1, 0, 9]);
        outcome.codes.insert(404, 9);
        assert_eq!(one_status(&outcome), None, "one was good");
    }

    #[test]
    fn the_clients_limits_show() {
        let limited = Stamp::LimitedByClient;
        check("late", limited, "p50 from 20.00 ms to 23.00 ms", |o, _| timed(o, 23, 3));
        check("late, but it matters little", Stamp::Valid, "", |o, _| timed(o, 200, 5));
        check("late at the end alone", limited, "p99.9 from", |outcome, _| {
            timed(outcome, 1, 0);
            outcome.response.as_mut().unwrap().times.record_n(900_000_000, 20);
            outcome.lag.record_n(800_000_000, 20);
        });
        check("too few to say", Stamp::Valid, "", |outcome, _| {
            outcome.response.as_mut().unwrap().times.record_n(9_000_000, 5);
            outcome.lag.record_n(9_000_000, 5);
        });
        check("busy", limited, "busy 95 %", |outcome, _| {
            outcome.workers[0].cpu_ns = 9_500_000_000;
        });
        check("kept", limited, "kept from its processor 45 %", |outcome, _| {
            outcome.workers[0].kept_ns = 4_500_000_000;
        });
        check("no descriptors", limited, "fd-unavail", |outcome, _| {
            outcome.workers[0].descriptors_refused = 1;
        });
        check("no ports", limited, "addrunavail", |outcome, _| {
            outcome.workers[0].ports_refused = 1;
        });
        check("no connections", limited, "waited", |outcome, _| outcome.workers[0].waited = 200);
        check("few versions", limited, "2000 of 10000 versions", |outcome, _| {
            outcome.altered = Some(Rewritten { versions: 8_000, missed: 2_000, late_ns: 0 });
        });
        check("fewer idle", Stamp::Valid, "only 9 of 10 idle", |outcome, _| {
            outcome.idle = Some(Idled { wanted: 10, least: 9, again: 3 });
        });
        check("too few", limited, "9000 requests", |outcome, _| outcome.offered = 9_000);
        check("a shard died", limited, "1 of 4 shards have no result (2)", |outcome, _| {
            let (present, missing) = (vec![0, 1, 3], vec![2]);
            outcome.shards =
                Some(Shards { count: 4, present, missing, apart_ms: 0, ..Shards::default() });
        });
        check("no common start", limited, "shards started 900 ms apart", |outcome, _| {
            let (present, missing) = (vec![0, 1], Vec::new());
            outcome.shards =
                Some(Shards { count: 2, present, missing, apart_ms: 900, ..Shards::default() });
        });
    }

    /// Sets the times of a sound run: 10,000 requests took `response_ms` each, with `lag_ms` of
    /// lag.
    fn timed(outcome: &mut Outcome, response_ms: u64, lag_ms: u64) {
        let times = &mut outcome.response.as_mut().unwrap().times;
        times.record_n(response_ms * 1_000_000, 10_000);
        outcome.lag = Hdr::fine();
        outcome.lag.record_n(lag_ms * 1_000_000, 10_000);
    }

    #[test]
    fn levels_are_met_missed_or_not_judged() {
        use Verdict::{Met, Missed, NotJudged};
        type Change = fn(&mut Outcome, &mut Evidence);
        let rows: [(&str, &str, Verdict, &str, Change); 16] = [
            ("a fast server", "p99<50ms", Met, "", |o, _| timed(o, 10, 0)),
            ("met with its lag", "p99<50ms", Met, "", |o, _| timed(o, 40, 30)),
            ("missed by its lag", "p99<50ms", NotJudged, "--threads", |o, _| timed(o, 60, 30)),
            ("missed without lag", "p99<50ms", Missed, "p99<50ms", |o, _| timed(o, 60, 0)),
            ("missed with some lag", "p99<50ms", Missed, "p99<50ms", |o, _| timed(o, 60, 5)),
            ("a mean with lag", "mean<50ms", NotJudged, "mean<50ms", |o, _| timed(o, 60, 30)),
            ("one by the server", "max<50ms,max<20ms", Missed, "max<20ms", |o, _| timed(o, 60, 30)),
            ("busy, and met", "p99<50ms", Met, "", |o, _| {
                timed(o, 10, 0);
                o.workers[0].cpu_ns = 9_900_000_000;
            }),
            ("failed requests", "p99<50ms", Missed, "p99<50ms", |o, _| {
                timed(o, 10, 30);
                (0..200).for_each(|_| o.response.as_mut().unwrap().censor(0, false));
            }),
            ("interrupted", "errors<1%", NotJudged, "interrupted", |o, _| o.interrupted = true),
            ("too few", "errors<1%", NotJudged, "9000 requests", |o, _| o.offered = 9_000),
            ("a shard died", "errors<1%", NotJudged, "1 of 2 shards", |o, _| {
                let (present, missing) = (vec![1], vec![0]);
                o.shards =
                    Some(Shards { count: 2, present, missing, apart_ms: 0, ..Shards::default() });
            }),
            ("no ports", "errors<1%", NotJudged, "errors<1%", |o, _| {
                (0..200).for_each(|_| o.fates.count(Fate::NoAddress));
            }),
            ("wrong statuses", "errors<1%", Missed, "errors<1%", |o, _| {
                (0..200).for_each(|_| o.fates.count(Fate::Status));
            }),
            ("late by its lag", "errors<1%", NotJudged, "errors<1%", |o, evidence| {
                timed(o, 60, 30);
                evidence.deadline_ns = 20_000_000;
                (0..200).for_each(|_| o.fates.count(Fate::Late));
            }),
            ("busy, closed", "p99<50ms", NotJudged, "busiest thread 99 %", |o, _| {
                o.response = None;
                o.service.times.record_n(60_000_000, 10_000);
                o.workers[0].cpu_ns = 9_900_000_000;
            }),
        ];
        for (what, slo, verdict, word, change) in rows {
            let (mut outcome, mut evidence) = (sound(), EVIDENCE);
            change(&mut outcome, &mut evidence);
            outcome.slo = Slo::parse(slo).unwrap().judge(&outcome, &evidence);
            let found = level(&outcome, &evidence);
            assert_eq!(found.verdict, verdict, "{what}: {found:?}");
            assert!(found.why.contains(word), "{what}: {found:?}");
            outcome.level = Some(found);
            assert_eq!(outcome.meets_slo(), verdict == Met, "{what}");
        }
    }

    #[test]
    fn change_and_lies_show() {
        check("slower", Stamp::NotSteady, "goodput went from", |outcome, _| {
            outcome.rows[5..].iter_mut().for_each(|row| row.good = 500);
        });
        check("piling up", Stamp::NotSteady, "in flight grew", |outcome, _| {
            (0..).zip(&mut outcome.rows).for_each(|(n, row)| row.in_flight = 100 * n);
        });
        let unverified = Stamp::Unverified;
        check("not asked to", unverified, "not compared", |_, evidence| evidence.verifies = false);
        check("not all", unverified, "9999 of 10000", |outcome, _| outcome.verified = 9_999);
        check("a lie", unverified, "1 stale", |outcome, _| outcome.fates.count(Fate::Stale));
        check("the worst counts", Stamp::LimitedByClient, "not compared", |outcome, evidence| {
            evidence.verifies = false;
            outcome.workers[0].ports_refused = 1;
        });
    }
}
