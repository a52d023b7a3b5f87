//! Claims on blocking and non-blocking `sendfile` ([E] §5.1, [S] §8): E-9, E-11, S-8b.

use super::arms::{blocks, cap, copies, processes};
use super::evidence::{Blocks, Evidence, Found, number, option, quotient, show};
use super::processes::waits;
use super::shown::{all, any};
use super::{Finding, Verdict};
use crate::claims::model;
use crate::experiment::Target;
use crate::experiment::claim_index::range;
use crate::record::{Cell, Record};
use crate::stats::middle;

/// Peaks this much below another's are equal to it.
const EQUAL: f64 = 0.97;

/// Targets of one architecture, in as many copies: those that block, and the one that does not.
struct Pair<'a> {
    blocking: Vec<&'a Target>,
    not: &'a Target,
}

/// For each architecture with both, the blocking targets with the fewest processes first, those of
/// the smallest cap alone.
fn pairs_of<'a>(run: &Evidence<'a>) -> Found<Vec<Pair<'a>>> {
    let mut found = Vec::new();
    for not in run.regattas().filter(|target| !blocks(target)) {
        let same = |target: &&Target| {
            option(target, "server.architecture") == option(not, "server.architecture")
                && copies(target) == copies(not)
        };
        let mut blocking: Vec<&Target> =
            run.regattas().filter(|target| blocks(target)).filter(same).collect();
        let least = blocking.iter().map(|target| cap(target)).min();
        blocking.retain(|target| Some(cap(target)) == least);
        blocking.sort_by_key(|target| processes(target));
        if !blocking.is_empty() && !found.iter().any(|pair: &Pair<'_>| pair.blocking == blocking) {
            found.push(Pair { blocking, not });
        }
    }
    if found.is_empty() {
        return Err("one architecture with event.send=blocking and without".to_owned());
    }
    Ok(found)
}

fn first_pair<'a>(run: &Evidence<'a>) -> Found<Pair<'a>> {
    // There is one, else that was the error.
    pairs_of(run).map(|mut pairs| pairs.remove(0))
}

/// Blocking needs ten times the processes, and with so many it is as good.
pub(super) fn e9(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let Pair { blocking, not } = first_pair(run)?;
    let wanted = 10 * processes(not);
    let (mut told, mut fewer, mut enough, mut most) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for target in &blocking {
        let ratio = run.peak_ratio(&target.name, &not.name)?;
        let number = processes(target);
        told.push(format!("{number} processes: {}", show(&ratio)));
        let what = format!("the share of {number} processes");
        if number < wanted {
            most = most.max(number);
            fewer.push(ratio.below(EQUAL, what));
        } else {
            enough.push(ratio.above(EQUAL, what));
        }
    }
    let ours = format!("blocking peaks as shares of {}'s: {}", not.name, told.join(", "));
    let why = format!(
        "{:.0} % of {}'s {} processes is as much: fewer than {wanted} blocking ones are too few, \
         and {wanted} or more are enough",
        100.0 * EQUAL,
        not.name,
        processes(not)
    );
    let missing = match (enough.is_empty(), 2 * most >= wanted) {
        (true, _) => Some(format!("it takes {wanted} blocking processes or more")),
        (_, false) => Some(format!("it takes from {} to {wanted} blocking processes", wanted / 2)),
        _ => None,
    };
    Ok(Finding::parts(ours, why, vec![all(&fewer), any(&enough)]).without(missing))
}

/// Throughputs that differ by this share are equal.
const ALIKE: f64 = 0.1;

/// At equal throughput: many more switches, fewer descriptors asked about.
pub(super) fn e11(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let Pair { blocking, not } = first_pair(run)?;
    let mut all = Vec::new();
    for target in blocking {
        let cells = run.tops([&target.name, &not.name])?;
        let good = run.ratio(&cells[0], &cells[1], "good_per_s")?;
        all.push((good.typical().ln().abs(), target, cells, good));
    }
    let nearest = all.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let (_, target, [cell, plain], good) = nearest.ok_or("a blocking arm")?;
    let switches = |record: &Record| {
        Some(number(record, "switches")? / number(record, "window_s").filter(|s| *s > 0.0)?)
    };
    let asks = || quotient("wait_interest_sum", "replies");
    let cache = run.ratio(&cell, &plain, "page_cache_mib")?;
    let ours = format!(
        "{:.0} switches a second against {:.0}, {:.1} descriptors asked about for each reply \
         against {:.1}, a page cache of {}",
        run.middle("switches", &cell, switches)?,
        run.middle("switches", &plain, switches)?,
        run.middle("descriptors", &cell, asks())?,
        run.middle("descriptors", &plain, asks())?,
        show(&cache)
    );
    let why = format!(
        "{} and {} at the highest rate; throughput ratio {}",
        target.name,
        not.name,
        show(&good)
    );
    let alike = good.equal(ALIKE, "the ratio of throughputs");
    match alike.verdict(1) {
        Verdict::Holds => {}
        Verdict::CannotTell => return Ok(Finding::all(ours, why, &[alike])),
        Verdict::Fails => {
            let needs = "a throughput that is equal within 10 % is needed";
            return Ok(Finding::undecided(ours, format!("{needs}; {why}")));
        }
    }
    let asked = [
        run.times((&cell, &plain), switches)?.above(10.0, "the ratio of switches"),
        run.times((&cell, &plain), asks())?.below(0.6, "the ratio of descriptors"),
        cache.below(0.95, "the ratio of page caches"),
    ];
    Ok(Finding::all(ours, why, &asked))
}

/// The disk inefficiency index of a cell, block by block.
pub(super) fn index(run: &Evidence<'_>, cell: &Cell, items: &[model::Item]) -> Found<Blocks> {
    let of = |record: &Record| {
        let cache = number(record, "page_cache_mib")?;
        let good = number(record, "good_per_s")?;
        model::inefficiency(items, cache, good, number(record, "disk_mbyte_per_s")?)
    };
    let found = run.blocks(cell, of);
    if found.is_empty() {
        let arm = &cell.arm;
        return Err(format!(
            "page_cache_mib, good_per_s, disk_mbyte_per_s of {arm} (and a page cache smaller than \
             the files)"
        ));
    }
    Ok(found)
}

/// What blocking reads is what whole files evicted one by one would cost; non-blocking reads more.
pub(super) fn s8b(run: &Evidence<'_>) -> Found<Finding> {
    let items = model::items(&run.run.experiment.workload)
        .ok_or("a workload whose popularity is known (a SPECweb99-like preset)")?;
    let (mut told, mut asked) = (Vec::new(), Vec::new());
    for target in run.regattas() {
        let [cell] = run.tops([&target.name])?;
        let index = index(run, &cell, &items)?;
        told.push(format!("{} {:.2}", target.name, middle(&index)));
        let values: Vec<f64> = index.into_values().collect();
        let missing = || format!("the index of {} in four blocks", cell.arm);
        let shown = run.of_values(&values).ok_or_else(missing)?;
        let what = format!("the index of {}", target.name);
        asked.push(shown.asks(range("S-8b", usize::from(!blocks(target))), what));
    }
    let why = "bytes read over those that Che's model of whole files predicts for the page cache";
    Ok(Finding::all(told.join(", "), why, &asked))
}
