//! Claims on a thread for each connection: user threads over helpers ([E] §4), kernel threads ([S]
//! §7), and a pool of a few behind an event loop (Carrera 2005): E-19, X-1, X-14, X-15.

use super::Finding;
use super::arms::{cap, events, sending, sends, threads};
use super::evidence::{
    ARCHITECTURE, Evidence, Family, Found, GOOD, Shown, number, option, percent, show,
};
use super::processes::{needs_cached, waits};
use super::shown::{Asked, all, any};
use crate::experiment::Target;
use crate::experiment::claim_index::range;
use crate::profile::categories::Category;
use crate::profile::{Profile, Source};
use crate::record::Record;
use crate::stats::with;

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
