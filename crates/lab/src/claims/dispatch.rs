//! Claims on how new connections and ready descriptors are found out about, across architectures
//! ([H] §7, [E] §7 and §9): H-12, H-13, E-26, E-27.

use super::evidence::{Evidence, Found, option, show};
use super::{Finding, Verdict};
use crate::plan::Cell;
use crate::spec::Target;
use crate::stats::Effect;

/// A limit of 25 accepts helps an epoll server in overload.
pub(super) fn h12(run: &Evidence<'_>) -> Found<Finding> {
    let families = run.families("accept.count");
    let epoll =
        families.iter().find(|family| option(family[0].0, "event.poller").starts_with("epoll"));
    let family = epoll.ok_or("an epoll server with and without a limit on accepts")?;
    let of = |count: &str| {
        let member = family.iter().find(|(_, value)| *value == count);
        member.map(|(target, _)| target.name.as_str()).ok_or(format!("accept.count={count}"))
    };
    let (limited, unlimited) = (of("25")?, of("0")?);
    let (with, without) = (run.at(limited, 1.43)?, run.at(unlimited, 1.43)?);
    let effect = run.ratio(&with, &without, "good_per_s")?;
    let runs = |cell: &Cell| run.counter(cell, "accepts_per_notification_max");
    let why = format!(
        "the longest run of accepts is {:.0} with the limit and {:.0} without it",
        runs(&with)?,
        runs(&without)?
    );
    let ours = format!("throughput ratio {} at 1.43 S", show(&effect));
    Ok(Finding::surely(effect.ratio > 1.05, &effect, 1.05, ours, why))
}

/// What the strategies of one architecture gain over each other at the highest rate.
struct Sweep<'a> {
    architecture: &'a str,
    /// The accept count that answers the most; 0: no limit.
    best: &'a str,
    /// Best over worst.
    gain: Effect,
    worst: &'a str,
}

fn sweeps<'a>(run: &Evidence<'a>) -> Found<Vec<Sweep<'a>>> {
    let mut sweeps = Vec::new();
    for family in run.families("accept.count") {
        let mut arms = Vec::new();
        for (target, count) in &family {
            let cell = run.top(&target.name)?;
            arms.push((run.metric(&cell, "good_per_s")?, cell, *count));
        }
        arms.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(worst), Some(best)) = (arms.first(), arms.last()) else { continue };
        sweeps.push(Sweep {
            architecture: architecture(family[0].0),
            best: best.2,
            worst: worst.2,
            gain: run.ratio(&best.1, &worst.1, "good_per_s")?,
        });
    }
    if sweeps.len() < 2 {
        Err("several architectures with several accept counts".into())
    } else {
        Ok(sweeps)
    }
}

fn architecture(target: &Target) -> &str {
    option(target, "server.architecture")
}

fn strategy(count: &str) -> String {
    if count == "0" { "no limit".to_owned() } else { format!("a limit of {count}") }
}

/// The best accept strategy depends on the architecture.
pub(super) fn h13(run: &Evidence<'_>) -> Found<Finding> {
    let sweeps = sweeps(run)?;
    let ours: Vec<String> = sweeps
        .iter()
        .map(|one| {
            format!(
                "{}: {} is best, {} of {}",
                one.architecture,
                strategy(one.best),
                show(&one.gain),
                strategy(one.worst)
            )
        })
        .collect();
    let (ours, why) =
        (ours.join("; "), "good answers at the highest rate, best over worst strategy");
    let intervals = || sweeps.iter().filter_map(|one| one.gain.interval);
    let least = intervals().map(|i| i.high).fold(f64::INFINITY, f64::min);
    let most = intervals().map(|i| i.low).fold(0.0, f64::max);
    if most > least {
        return Ok(Finding::of(true, ours, why));
    }
    if intervals().all(|interval| interval.high < 1.05) {
        return Ok(Finding::of(false, ours, "no strategy gains 5 % in any architecture"));
    }
    Ok(Finding::undecided(ours, "the gains' intervals overlap: more blocks"))
}

/// With another accept strategy in all of them, gaps between architectures change.
pub(super) fn e26(run: &Evidence<'_>) -> Found<Finding> {
    let families = run.families("accept.count");
    let named = |family: &[(&Target, &str)], count: &str| {
        let member = family.iter().find(|(_, value)| *value == count);
        member.map(|(target, _)| target.name.clone()).ok_or(format!("accept.count={count}"))
    };
    let (mut told, mut changed, mut widest) = (Vec::new(), false, 0.0_f64);
    for (at, above) in families.iter().enumerate() {
        for below in &families[at + 1..] {
            let gap = |count: &str| {
                let (a, b) = (run.top(&named(above, count)?)?, run.top(&named(below, count)?)?);
                run.ratio(&a, &b, "good_per_s")
            };
            let (one, all) = (gap("1")?, gap("0")?);
            let (Some(first), Some(second)) = (one.interval, all.interval) else { continue };
            let apart = first.low > second.high || second.low > first.high;
            changed |= apart;
            widest = widest.max(first.high / first.low).max(second.high / second.low);
            told.push(format!(
                "{} over {}: {} with Accept1, {} with AcceptInf",
                architecture(above[0].0),
                architecture(below[0].0),
                show(&one),
                show(&all)
            ));
        }
    }
    if told.is_empty() {
        return Err("two architectures, each with accept counts of 1 and 0".to_owned());
    }
    let ours = told.join("; ");
    if !changed && widest > 1.1 {
        return Ok(Finding::undecided(ours, "the intervals are wider than 10 %: more blocks"));
    }
    Ok(Finding::of(changed, ours, "gaps at the highest rate, whose intervals do or do not overlap"))
}

/// epoll costs less than poll, and answers no more.
pub(super) fn e27(run: &Evidence<'_>) -> Found<Finding> {
    let families = run.families("event.poller");
    let family = families.first().ok_or("a server with poll and with epoll")?;
    let of = |poller: &str| {
        let member = family.iter().find(|(_, value)| *value == poller);
        member.map(|(target, _)| target.name.as_str()).ok_or(format!("event.poller={poller}"))
    };
    let (epoll, poll) = (of("epoll")?, of("poll")?);
    let peak = run.peak_ratio(epoll, poll)?;
    let (top, under) = (run.top(epoll)?, run.top(poll)?);
    let cost = run.ratio(&top, &under, "cpu_us_per_reply")?;
    let asked = run.share(&under, "wait_interest_sum", "wait_calls")?;
    let ours = format!("processor time per reply {}, peak {}", show(&cost), show(&peak));
    let why = format!("poll asks about {asked:.0} descriptors at each wait at the highest rate");
    if asked < 100.0 {
        return Ok(Finding::undecided(ours, format!("hundreds of descriptors are needed: {why}")));
    }
    let cheaper = cost.interval.is_some_and(|interval| interval.high < 1.0);
    let faster = peak.interval.is_some_and(|interval| interval.low > 1.03);
    let open = peak.interval.is_none_or(|interval| interval.high > 1.03) && !faster;
    if cheaper && open {
        return Ok(Finding::undecided(ours, format!("the peaks' interval is too wide; {why}")));
    }
    Ok(Finding {
        ours,
        verdict: if cheaper && !faster { Verdict::Holds } else { Verdict::Fails },
        why,
    })
}
