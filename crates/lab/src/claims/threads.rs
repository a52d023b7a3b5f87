//! Claims on a thread for each connection: user threads over helpers ([E] §4), kernel threads ([S]
//! §7), and a pool of a few behind an event loop (Carrera 2005): E-7, E-8, E-15, E-19, X-1, X-14,
//!

use super::Finding;
use super::arms::{cap, events, helpers, sending, sends, threads};
use super::evidence::{
    ARCHITECTURE, Evidence, Family, Found, GOOD, Shown, counted, number, option, percent, quotient,
    show,
};
use super::processes::{needs_cached, waits};
use super::shown::{Asked, all, any};
use super::{Verdict, model};
use crate::env::spec::size;
use crate::experiment::Target;
use crate::experiment::claim_index::range;
use crate::profile::categories::Category;
use crate::profile::{Profile, Source};
use crate::record::Record;
use crate::stats::with;
use std::ops::RangeInclusive;

/// Past saturation by less, nobody would decline.
const PAST: f64 = 1.3;

/// What becomes of an arm from the lowest rate to the highest: what it keeps of its peak, and how
/// many times the descriptors in each poll, those for each reply, and the polls in a second are.
fn decline(run: &Evidence<'_>, target: &Target) -> Found<[Shown; 4]> {
    let rates = run.rates(&target.name)?;
    let ((first, low), (last, top)) = (&rates[0], &rates[rates.len() - 1]);
    if *last < PAST || *first > 1.0 {
        return Err("a rate of 0.9 times saturation and one of 1.4 or more".to_owned());
    }
    // Who still climbs keeps all of its peak, whatever it does later.
    if run.saturated(rates.iter().map(|(_, cell)| cell))? == rates.len() - 1 {
        return Err(format!("a rate beyond that at which {} saturates", target.name));
    }
    let polls = |record: &Record| {
        let window_s = number(record, "window_s").filter(|s| *s > 0.0)?;
        Some(counted(record, "wait_calls")? / window_s)
    };
    Ok([
        run.kept(&target.name)?,
        run.times((top, low), quotient("wait_interest_sum", "wait_calls"))?,
        run.times((top, low), quotient("wait_interest_sum", "replies"))?,
        run.times((top, low), polls)?,
    ])
}

/// The arms whose helpers block in `sendfile`: those with the fewest, and those with twice as many
/// or more under the same limits.
fn by_helpers<'a>(run: &Evidence<'a>) -> Found<[Vec<&'a Target>; 2]> {
    let all = sending(run, "blocking");
    let least = all.iter().map(|one| helpers(one)).min().unwrap_or_default();
    let (few, mut more): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| helpers(one) == least);
    more.retain(|one| few.iter().any(|few| cap(few) == cap(one)) && helpers(one) >= 2 * least);
    if few.is_empty() || more.is_empty() {
        return Err("user threads (knot-b) with few helpers and with twice as many".to_owned());
    }
    Ok([few, more])
}

/// What arms of few helpers, or of more, show of what a claim asks for: which of the four, for each
/// of its ranges.
fn with_helpers(run: &Evidence<'_>, id: &str, arms: &[&Target], parts: &[usize]) -> Found<Finding> {
    waits(run)?;
    const WHAT: [&str; 4] = [
        "throughput at the highest rate over the peak",
        "descriptors in each poll, over those at the lowest rate",
        "descriptors asked about for each reply, over those at the lowest rate",
        "polls in a second, over those at the lowest rate",
    ];
    let (mut told, mut asked) = (Vec::new(), Vec::new());
    for target in arms {
        let shown = decline(run, target)?;
        let each = shown.each_ref().map(show).into_iter().zip(WHAT);
        let each: Vec<String> = each.map(|(shown, what)| format!("{what} {shown}")).collect();
        told.push(format!("{}, {} helpers: {}", target.name, helpers(target), each.join(", ")));
        for (at, part) in parts.iter().enumerate() {
            let what = format!("of {}: {}", target.name, WHAT[*part]);
            asked.push(shown[*part].asks(range(id, at), what));
        }
    }
    let why = "a poll's work is the descriptors that it asks about; a profile tells its share";
    Ok(Finding::all(told.join("; "), why, &asked))
}

/// Too few helpers: throughput falls past the peak, for more and more descriptors are polled.
pub(super) fn e7(run: &Evidence<'_>) -> Found<Finding> {
    with_helpers(run, "E-7", &by_helpers(run)?[0], &[0, 1, 2, 3])
}

/// More helpers remove that; where few do not lose throughput, there is nothing to remove.
pub(super) fn e8(run: &Evidence<'_>) -> Found<Finding> {
    let [few, more] = by_helpers(run)?;
    let finding = with_helpers(run, "E-8", &more, &[0, 2])?;
    for one in few.iter().filter(|one| more.iter().any(|more| cap(more) == cap(one))) {
        let kept = run.kept(&one.name)?;
        if kept.asks(range("E-7", 0), String::new()).verdict(1) != Verdict::Holds {
            let why = format!(
                "with few helpers ({}) throughput does not surely fall: {} of the peak",
                one.name,
                show(&kept)
            );
            return Ok(Finding::undecided(finding.ours, why));
        }
    }
    Ok(finding)
}

/// What share of the files a cache may hold: about a third, a thirtieth or more, or next to none.
pub(crate) const LARGEST: RangeInclusive<f64> = 0.2..=0.45;
pub(crate) const LARGE: f64 = 0.02;
pub(crate) const TINY: f64 = 0.005;

/// A cache of a thirtieth of the files is as good as one of a third, and a tiny one is not.
pub(super) fn e15(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let items = model::items(&run.run.experiment.workload).ok_or("a workload of known files")?;
    let files: f64 = items.iter().map(|item| item.bytes as f64).sum();
    let mut caches: Vec<(&Target, f64)> = Vec::new();
    let copying: Vec<&str> = sending(run, "inline").iter().map(|one| one.name.as_str()).collect();
    let mut families = run.families("cache.bytes_max");
    families.retain(|family| copying.contains(&family[0].0.name.as_str()));
    for (target, said) in families.into_iter().next().unwrap_or_default() {
        if let Ok(bytes) = size(said) {
            caches.push((target, bytes as f64 / files));
        }
    }
    caches.sort_by(|a, b| a.1.total_cmp(&b.1));
    let missing = "a cache of three sizes (cache.bytes_max): below 0.5, 3 and 30 % of the files";
    let (largest, most) = caches.pop().filter(|(_, most)| LARGEST.contains(most)).ok_or(missing)?;
    let (mut told, mut asked, mut seen) = (Vec::new(), Vec::new(), [false; 2]);
    for (target, share) in caches {
        let at = match share {
            LARGE.. => 0,
            ..TINY => 1,
            _ => continue,
        };
        seen[at] = true;
        let ratio = run.peak_ratio(&target.name, &largest.name)?;
        let what = format!(
            "the peak with a cache of {:.1} % of the files over that with {:.0} %",
            100.0 * share,
            100.0 * most
        );
        told.push(format!("{what}: {}", show(&ratio)));
        asked.push(ratio.asks(range("E-15", at), what));
    }
    if seen != [true, true] {
        return Err(missing.to_owned());
    }
    Ok(Finding::all(told.join("; "), "peaks of user threads that copy from the cache", &asked))
}

/// The share of the processor that an arm's last profile gives to a category.
fn profiled(run: &Evidence<'_>, arm: &str, category: Category) -> Option<Shown> {
    let all = Profile::all(&run.run.directory);
    let own = all.iter().rfind(|one| one.cell.arm == arm && one.source == Source::Perf)?;
    Some(Shown::sampled(own.share(category), own.samples)?.among(run.looks))
}

/// User threads cost a part of the processor, and events win.
pub(super) fn e19(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let (mut told, mut asked) = (Vec::new(), Vec::new());
    let knots = ["inline", "try-first", "blocking"].map(|how| sending(run, how)).concat();
    for target in knots {
        if let Some(share) = profiled(run, &target.name, Category::Thread) {
            told.push(format!("threads cost {} {}", target.name, percent(&share)));
            asked.push(
                share.asks(range("E-19", 0), format!("the threads' share of {}", target.name)),
            );
        }
    }
    if asked.is_empty() {
        return Err("profiles of user threads (measure.profile, and perf)".to_owned());
    }
    let best = sends(run, "blocking")?;
    let events = events(run)?;
    let above: Vec<_> = events.iter().map(|one| (*run, one.name.as_str())).collect();
    let ahead = Evidence::best_of(&above, &[(*run, best.name.as_str())])?;
    let what = format!("the best event-driven peak over {}'s", best.name);
    told.push(format!("{what}: {}", show(&ahead)));
    asked.push(ahead.asks(range("E-19", 1), what));
    let why =
        "shares of one profile each, as the paper's: their intervals are of its samples alone";
    Ok(Finding::all(told.join("; "), why, &asked))
}

/// What each connection of an arm costs in memory, in words.
fn memory(run: &Evidence<'_>, arm: &str) -> Option<String> {
    let cell = run.top(arm).ok()?;
    let of = |name: &str| run.metric(&cell, name).ok();
    let parts = ["pss_mib", "kernel_stacks_mib", "page_tables_mib"].map(of);
    let mib: Option<f64> = parts.into_iter().sum();
    let (connections, p99) = (of("connections_most")?, of("p99_ms")?);
    let each = 1_024.0 * mib? / connections;
    Some(format!("{arm}: {each:.1} KiB for each of {connections:.0} connections, p99 {p99:.1} ms"))
}

/// So many connections are thousands.
const THOUSANDS: u32 = 5_000;

/// Thousands of kernel threads are nearly as good as events.
pub(super) fn x1(run: &Evidence<'_>) -> Found<Finding> {
    needs_cached(run)?;
    let threads = threads(run)?;
    let events = events(run)?;
    let places = match run.levels("workload.connections") {
        Ok((path, levels)) => levels
            .iter()
            .filter(|level| level.parse().is_ok_and(|level: u32| level >= THOUSANDS))
            .map(|level| (run.with(path, level), format!(", {level} connections")))
            .collect(),
        Err(_) if run.run.experiment.workload.connections >= THOUSANDS => {
            vec![(*run, String::new())]
        }
        Err(_) => Vec::new(),
    };
    if places.is_empty() {
        return Err(format!("{THOUSANDS} connections or more (workload.connections)"));
    }
    let (mut told, mut asked, mut why) = (Vec::new(), Vec::new(), Vec::new());
    for (place, at) in places {
        let others: Vec<_> = events.iter().map(|one| (place, one.name.as_str())).collect();
        let ratio = Evidence::best_of(&[(place, threads.name.as_str())], &others)?;
        let what = format!("{}'s peak over the best event-driven one's{at}", threads.name);
        told.push(format!("{what}: {}", show(&ratio)));
        asked.push(ratio.asks(range("X-1", 0), what));
        let each = [&threads].into_iter().chain(&events);
        why.extend(each.filter_map(|one| memory(&place, &one.name)));
    }
    Ok(Finding::all(told.join("; "), why.join("; "), &asked))
}

/// A server uses less of its processors than this where more could come.
const BUSY: f64 = 0.9;

/// A pool of few threads is as good as a thread for each connection, and holds as many more
/// connections than as many threads alone do.
pub(super) fn x14(run: &Evidence<'_>) -> Found<Finding> {
    let hybrid = run.of("hybrid").next().ok_or("an arm of hybrid")?;
    let few: u32 = hybrid.config.get("pool.threads").map_or(Ok(32), |t| t.parse()).unwrap_or(32);
    let mut alone: Vec<&Target> = run.of("mt").chain(run.of("knot-nptl")).collect();
    alone.sort_by_key(|target| cap(target));
    let missing = || format!("a thread for each connection (mt), with {few} connections and more");
    let (held, free) = (alone.first(), alone.last());
    let held = held.filter(|one| cap(one) == few).ok_or_else(missing)?;
    let free = free.filter(|one| cap(one) > few).ok_or_else(missing)?;
    let peaks = run.peak_ratio(&hybrid.name, &free.name)?;
    let [cell, under] = run.bottoms([&hybrid.name, &held.name])?;
    let times = |record: &Record| Some(number(record, "connections_open")? / f64::from(few));
    let expected = run.blocks(&cell, times);
    let good = |cell| run.blocks(cell, |record| number(record, GOOD));
    let each = with(&good(&cell), &expected, |good, expected| good / expected);
    let ratio = run.compared((&hybrid.name, &each), (&held.name, &good(&under)))?;
    let binds = run.middle("connections_open", &cell, times)?;
    let used = run.metric(&cell, "server_cpu")? / run.left();
    let ours = format!(
        "{}'s peak over {}'s {}; at the lowest rate its throughput over {}'s is {} of the \
         {binds:.1} that its connections are of {few}",
        hybrid.name,
        free.name,
        show(&peaks),
        held.name,
        show(&ratio)
    );
    if used > BUSY || binds < 1.2 {
        let needs = "a rate at which more connections than threads are open, and the processor is \
                     not full";
        return Ok(Finding::undecided(ours, format!("it takes {needs}: {:.0} %", 100.0 * used)));
    }
    let what = "its throughput over that of so few threads, over what its connections are of them";
    let asked = [
        peaks.asks(range("X-14", 0), format!("its peak over {}'s", free.name)),
        ratio.asks(range("X-14", 1), what),
    ];
    let why = format!("at the lowest rate {:.0} % of the processor is used", 100.0 * used);
    Ok(Finding::all(ours, why, &asked))
}

/// A pool's peak hardly depends on the time-out between requests, that of a thread for each
/// connection does.
pub(super) fn x15(run: &Evidence<'_>) -> Found<Finding> {
    let families = run.families("limits.idle_ms_max");
    let of = |names: &[&str]| {
        let is = |family: &&Family<'_>| names.contains(&option(family[0].0, ARCHITECTURE));
        let missing = || format!("{} under several limits.idle_ms_max", names.join(" or "));
        families.iter().find(is).ok_or_else(missing)
    };
    let (pool, threads) = (of(&["hybrid"])?, of(&["mt", "knot-nptl"])?);
    let mut told = Vec::new();
    let mut pairs = |family: &Family<'_>, at: usize| -> Found<Vec<Asked>> {
        let mut asked = Vec::new();
        for (place, (one, own)) in family.iter().enumerate() {
            for (other_place, (other, other_own)) in family.iter().enumerate() {
                if place == other_place {
                    continue;
                }
                let ratio = run.peak_ratio(&one.name, &other.name)?;
                let what =
                    format!("{}'s peak ({own}) over {}'s ({other_own})", one.name, other.name);
                if place < other_place {
                    told.push(format!("{what}: {}", show(&ratio)));
                }
                asked.push(ratio.asks(range("X-15", at), what));
            }
        }
        Ok(asked)
    };
    let parts = vec![all(&pairs(pool, 0)?), any(&pairs(threads, 1)?)];
    let why = "peaks: any two of the pool's are equal, and of a thread for each connection one is \
               behind another";
    Ok(Finding::parts(told.join("; "), why, parts))
}
