//! The claims of [E] on how many processes an event-driven server needs (systems.md §2.2, §2.3).

use super::arms::{cap, most_symped, one, one_with_few, processes, symped};
use super::evidence::{BEHIND, Evidence, Found, number, percent, quotient, show};
use super::shown::Asked;
use super::{Finding, Verdict};
use crate::experiment::Target;
use crate::experiment::claim_index::range;
use crate::record::Record;

/// The share of the time in which processors idle for a disk, whoever waits: of a simulated one
/// what is left of them while it is busy, since the kernel sees no idle time where a load holds its
/// part of a processor; else what the kernel says.
pub(super) fn idle_for_the_disk(run: &Evidence<'_>) -> impl Fn(&Record) -> Option<f64> + use<> {
    let left = run.left();
    move |record| {
        let simulated = || {
            let idle = 1.0 - number(record, "server_cpu")? / left;
            Some(idle.max(0.0).min(number(record, "disk_busy_share")?))
        };
        simulated().or_else(|| number(record, "waiting_share"))
    }
}

/// The share of the time in which one process waits for the disk, by the kernel's account; where
/// several wait, of which that account is wrong, that in which processors idle for it.
pub(super) fn waiting(run: &Evidence<'_>) -> impl Fn(&Record) -> Option<f64> + use<> {
    let idle = idle_for_the_disk(run);
    let own = |record: &Record| Some(number(record, "disk_wait_s")? / number(record, "window_s")?);
    move |record| own(record).or_else(|| idle(record))
}

fn disk_wait(run: &Evidence<'_>, target: &Target) -> Found<f64> {
    let what = "disk_wait_s, or server_cpu and disk_busy_share";
    run.middle(what, &run.top(&target.name)?, waiting(run))
}

/// Below this share nobody waits for a disk.
const WAITS: f64 = 0.02;

/// The most that processes of any arm wait for the disk; an error if nobody does.
pub(super) fn waits(run: &Evidence<'_>) -> Found<f64> {
    let of = |target: &Target| disk_wait(run, target).ok();
    let most = run.regattas().filter_map(of).fold(0.0, f64::max);
    if most < WAITS {
        return Err(format!(
            "a disk to wait for (a simulated disk, a memory limit, delay accounting): processes \
             wait {:.1} % of the time{}",
            100.0 * most,
            run.lacks()
        ));
    }
    Ok(most)
}

/// An error if anybody waits for a disk.
pub(super) fn needs_cached(run: &Evidence<'_>) -> Found<()> {
    match waits(run) {
        Ok(share) => {
            Err(format!("files that are all cached: {:.0} % of the time waits", 100.0 * share))
        }
        Err(_) => Ok(()),
    }
}

/// SPED idles while it waits for the disk, at the rate where SYMPED saturates.
pub(super) fn e1(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let sped = one(run)?;
    let symped = most_symped(run, sped)?;
    let rates = run.common([&sped.name, &symped.name])?;
    let knee = run.saturated(rates.iter().map(|(_, [_, cell])| cell))?;
    let (rate, [cell, several]) = &rates[knee];
    // Of the highest rate of an open loop what is offered tells; a closed one asks for all.
    let is_last = knee + 1 == rates.len() && *rate > 0.0;
    if is_last && run.metric(several, "good_share")? >= BEHIND {
        return Err(format!("a rate at which {} falls behind", symped.name));
    }
    let share = run.shown("time waiting for the disk", cell, waiting(run))?;
    let at = if *rate > 0.0 { format!(" at {rate} S") } else { String::new() };
    let ours = format!("{} of the time waits for the disk{at}", percent(&share));
    let why = format!(
        "the kernel's account of the server's waits for the disk, at the lowest rate where {} \
         answers 95 % of its most",
        symped.name
    );
    Ok(Finding::all(ours, why, &[share.asks(range("E-1", 0), "the share")]))
}

/// SPED against the best of the others, at one amount of memory: far behind with a disk, equal when
/// all is cached. Also whether a disk is waited for.
fn behind(run: &Evidence<'_>, sped: &Target, told: &mut Vec<String>) -> Found<(bool, Vec<Asked>)> {
    let share = disk_wait(run, sped)?;
    let mut others = Vec::new();
    // Of those that could be better: what is held to few connections is another question.
    for target in run.regattas().filter(|one| one.name != sped.name && cap(one) == cap(sped)) {
        let Ok(ratio) = run.peak_ratio(&sped.name, &target.name) else { continue };
        told.push(format!("{} of {}'s", show(&ratio), target.name));
        others.push((*run, target.name.as_str()));
    }
    if others.is_empty() {
        return Err("an architecture beside sped".to_owned());
    }
    let ratio = Evidence::best_of(&[(*run, sped.name.as_str())], &others)?;
    told.push(format!("with {:.0} % of the time waiting for the disk", 100.0 * share));
    let what = "sped's peak over the best of the others";
    Ok(if share < WAITS {
        (false, vec![ratio.asks(range("E-2", 1), format!("{what}, all cached,"))])
    } else {
        (true, vec![ratio.asks(range("E-2", 0), format!("{what}, with a disk,"))])
    })
}

/// SPED against the best: far behind with a disk, equal when all is cached.
pub(super) fn e2(run: &Evidence<'_>) -> Found<Finding> {
    let sped = one(run)?;
    let (mut told, mut asked, mut seen) = (Vec::new(), Vec::new(), [false; 2]);
    for (_, place) in &run.memories() {
        let (disk, more) = behind(place, sped, &mut told)?;
        seen[usize::from(disk)] = true;
        asked.extend(more);
    }
    let ours = format!("{}'s peak is {}", sped.name, told.join(", "));
    let finding = Finding::all(ours, "both halves of the claim are asked", &asked);
    Ok(finding.without(match seen {
        [true, true] => None,
        [true, false] => Some("half of the claim is with a disk, and all is cached here"),
        [false, _] => Some("half of the claim is with all cached, and here a disk is waited for"),
    }))
}

/// A second process helps when the disk blocks.
pub(super) fn e4(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let sped = one(run)?;
    let two = symped(run, 2, sped)?;
    let peaks = run.peak_ratio(&two.name, &sped.name)?;
    let [alone, both] = run.tops([&sped.name, &two.name])?;
    let left = run.left();
    let idle = |record: &Record| Some(1.0 - number(record, "server_cpu")? / left);
    let still =
        run.between("server_cpu", (&both, &alone), idle, |both, alone| both - alone / 2.0)?;
    let ours = format!(
        "peak ratio {}; the processor idles {:.0} % with one process, {:.0} % with two",
        show(&peaks),
        100.0 * run.middle("server_cpu", &alone, idle)?,
        100.0 * run.middle("server_cpu", &both, idle)?
    );
    let why = format!(
        "sped waits for the disk {:.0} % of the time; half of the idle time is asked",
        100.0 * disk_wait(run, sped)?
    );
    let idle_asked = still.below(0.0, "idle time with two processes less half of that with one");
    Ok(Finding::all(ours, why, &[peaks.asks(range("E-4", 0), "the peak ratio"), idle_asked]))
}

/// With a disk, from three processes to four nothing is gained, nor beyond.
pub(super) fn e5(run: &Evidence<'_>) -> Found<Finding> {
    let share = waits(run)?;
    let sped = one(run)?;
    let (three, four) = (symped(run, 3, sped)?, symped(run, 4, sped)?);
    let more = most_symped(run, sped)?;
    if processes(more) == 4 {
        return Err("symped with more than four processes".to_owned());
    }
    let ratio = run.peak_ratio(&four.name, &three.name)?;
    let beyond = run.peak_ratio(&more.name, &four.name)?;
    let ours = format!(
        "peak ratio {}; of {} processes over four {}",
        show(&ratio),
        processes(more),
        show(&beyond)
    );
    let why = format!(
        "four processes over three, equal within 5 %, and more no better by 5 %; the disk is \
         waited for {:.0} % of the time",
        100.0 * share
    );
    let asked = [
        ratio.asks(range("E-5", 0), "the peak ratio of four over three"),
        beyond.asks(range("E-5", 1), "the peak ratio of more over four"),
    ];
    Ok(Finding::all(ours, why, &asked))
}

/// A cap that leaves less of the peak than this binds.
const BINDS: f64 = 0.97;

/// With a small cap on connections more processes do not help, and each wait brings less.
pub(super) fn e6(run: &Evidence<'_>) -> Found<Finding> {
    let (sped, free) = (one_with_few(run)?, one(run)?);
    if cap(sped) == cap(free) {
        return Err("sped and symped under a small limit on connections and under a large".into());
    }
    let (most, most_free) = (most_symped(run, sped)?, most_symped(run, free)?);
    let binds = run.peak_ratio(&most.name, &most_free.name)?;
    let peaks = run.peak_ratio(&most.name, &sped.name)?;
    let [alone, several] = run.tops([&sped.name, &most.name])?;
    let of = |part, whole| {
        let change = run.times((&several, &alone), quotient(part, whole))?;
        let (few, many) = (run.share(&alone, part, whole)?, run.share(&several, part, whole)?);
        Ok::<_, String>((change, few, many))
    };
    let (events, events_one, events_more) = of("wait_events", "wait_calls")?;
    let (calls, calls_one, calls_more) = of("wait_calls", "replies")?;
    let ours = format!(
        "peak ratio {}; events for each wait {events_one:.2} and {events_more:.2}, waits for each \
         reply {calls_one:.3} and {calls_more:.3}",
        show(&peaks)
    );
    let why = format!(
        "one process and {}, under a limit of {} connections that leaves {} of the peak",
        processes(most),
        cap(sped),
        show(&binds)
    );
    if binds.below(BINDS, String::new()).verdict(1) != Verdict::Holds {
        return Ok(Finding::undecided(ours, format!("a limit that binds is needed; {why}")));
    }
    let asked = [
        peaks.below(1.0, "the peak ratio"),
        events.below(1.0, "events for each wait, several processes over one,"),
        calls.above(1.0, "waits for each reply, several processes over one,"),
    ];
    Ok(Finding::all(ours, why, &asked))
}
