//! Claims on blocking and non-blocking `sendfile` ([E] §5.1, [S] §8): E-9, S-8b.

use super::Finding;
use super::arms::{blocks, cap, copies, processes};
use super::evidence::{Blocks, Evidence, Found, number, option, show};
use super::processes::waits;
use super::shown::{all, any};
use crate::claims::model;
use crate::experiment::Target;
use crate::experiment::claim_index::range;
use crate::record::{Cell, Record};
use crate::stats::middle;

/// Peaks this much below another's are equal to it.
const EQUAL: f64 = 0.97;

/// A target that does not block, and those of its architecture that do, with as many copies and the
/// smallest limit on connections: the fewest processes first.
fn pair<'a>(run: &Evidence<'a>) -> Found<(&'a Target, Vec<&'a Target>)> {
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
        if !blocking.is_empty() {
            return Ok((not, blocking));
        }
    }
    Err("one architecture with event.send=blocking and without".to_owned())
}

/// Blocking needs ten times the processes, and with so many it is as good.
pub(super) fn e9(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let (not, blocking) = pair(run)?;
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
