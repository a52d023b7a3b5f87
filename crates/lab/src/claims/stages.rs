//! Claims on stages with queues, pools and controllers (SEDA).

use super::Finding;
use super::arms::cap;
use super::evidence::{Evidence, Found, counted, number, option, percent, show};
use super::processes::waits;
use crate::experiment::Target;
use crate::experiment::claim_index::range;
use crate::record::Record;

/// The first arm of stages.
fn seda<'a>(run: &Evidence<'a>) -> Found<&'a Target> {
    run.of("seda").next().ok_or_else(|| "stages (seda)".to_owned())
}

/// The most threads of the stage that reads from disk.
const DISK: &str = "disk.threads_open_max";

/// The most threads of the other stage that has the most.
fn others(record: &Record) -> Option<f64> {
    let is_other = |name: &str| name.ends_with(".threads_open_max") && name != DISK;
    let all = record.counters.iter().filter(|(name, _)| is_other(name));
    all.map(|(_, most)| *most).reduce(f64::max)
}

/// The stage that waits for the disk gets threads, and no other.
pub(super) fn x8(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let target = seda(run)?;
    let [cell] = run.tops([&target.name])?;
    let disk = run.shown(DISK, &cell, |record| counted(record, DISK))?;
    let rest = run.shown("threads of the other stages", &cell, others)?;
    let ours = format!(
        "the stage for the disk has {:.1} threads at most, and the largest other {:.1}",
        disk.typical(),
        rest.typical()
    );
    let asked = [
        disk.asks(range("X-8", 0), "the most threads of the stage for the disk"),
        rest.asks(range("X-8", 1), "the most threads of the largest other stage"),
    ];
    Ok(Finding::all(ours, format!("{}'s own count, from its start", target.name), &asked))
}

/// The load that admission control is asked about.
const TWICE: f64 = 2.0;

/// Who answers this share has a 90th percentile within the time-out: it is not overloaded.
const ANSWERS: f64 = 0.9;

/// Where the 90th percentile is past the time-out, admission control keeps it near its target.
pub(super) fn x9(run: &Evidence<'_>) -> Found<Finding> {
    let admits = |one: &&Target| option(one, "stages.admission") != "none";
    let missing = "stages (seda) with admission control and without (stages.admission)";
    let with = run.of("seda").find(admits).ok_or(missing)?;
    let without = run.of("seda").find(|one| !admits(one)).ok_or(missing)?;
    let target_ms = option(with, "stages.target_ms");
    let target_ms: f64 =
        target_ms.parse().map_err(|_| "stages.target_ms in milliseconds".to_owned())?;
    let [cell, open] = run.near([&with.name, &without.name], TWICE)?;
    let over = |record: &Record| Some(number(record, "answered_p90_ms")? / target_ms);
    const WHAT: &str = "answered_p90_ms";
    let kept = run.shown(WHAT, &cell, over)?;
    // Without refusals, who has no answer has waited as long as clients do. The times of the few
    // who got one say nothing: they came while nobody was there.
    let free = run.shown("good_share", &open, |record| number(record, "good_share"))?;
    if free.typical() >= ANSWERS {
        let other = &without.name;
        return Err(format!("a load that {other} cannot answer: it answers {}", percent(&free)));
    }
    let refused = |record: &Record| {
        let requests = counted(record, "requests").filter(|requests| *requests > 0.0)?;
        Some(counted(record, "stage_refused")? / requests)
    };
    let refused = run.shown("stage_refused", &cell, refused);
    let refused = refused.map_or("?".to_owned(), |share| percent(&share));
    let ours = format!(
        "90th percentile of {}'s answers over a target of {target_ms:.0} ms: {}; {} of the \
         requests are answered by {}",
        with.name,
        show(&kept),
        percent(&free),
        without.name
    );
    let timeout = &run.run.experiment.workload.timeout;
    let why = format!("at {TWICE} S; {refused} of the requests are refused; time-out {timeout}");
    let asked = [kept.asks(range("X-9", 0), format!("{}'s over its target", with.name))];
    Ok(Finding::all(ours, why, &asked))
}

/// Stages serve all clients alike, and a server with fewer processes than clients does not.
pub(super) fn x10(run: &Evidence<'_>) -> Found<Finding> {
    let clients = run.run.experiment.workload.connections;
    let limited = run.of("mp").find(|one| cap(one) < clients);
    let limited = limited.ok_or("a process for each connection (mp), fewer than clients")?;
    let stages = seda(run)?;
    let [cell, other] = run.tops([&stages.name, &limited.name])?;
    let fairness = |record: &Record| number(record, "fairness");
    let even = run.shown("fairness", &cell, fairness)?;
    let less = run.between("fairness", (&other, &cell), fairness, |other, own| other - own)?;
    let ours = format!(
        "Jain's index {} of {}, {:.3} of {}",
        show(&even),
        stages.name,
        run.middle("fairness", &other, fairness)?,
        limited.name
    );
    let asked = [
        even.asks(range("X-10", 0), format!("the index of {}", stages.name)),
        less.below(0.0, format!("the index of {}, less that of {}", limited.name, stages.name)),
    ];
    let why = format!("{clients} clients, {} processes", cap(limited));
    Ok(Finding::all(ours, why, &asked))
}
