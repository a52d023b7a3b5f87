//! Claims on a thread for each connection: user threads ([E] §4), and a pool of a few behind an
//! event loop (Carrera 2005): E-19, X-14.

use super::Finding;
use super::arms::{cap, events, sending, sends};
use super::evidence::{Evidence, Found, GOOD, Shown, number, percent, show};
use super::processes::waits;
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
