//! Claims on blocking and non-blocking `sendfile` ([E] §5.1, [S] §8): E-9 to E-12, S-6 to S-8b.

use super::evidence::{Evidence, Found, option, show};
use super::processes::waits;
use super::{Finding, Verdict};
use crate::model;
use crate::plan::Cell;
use crate::spec::Target;
use crate::stats::Effect;

/// Peaks this much below another's are equal to it.
const EQUAL: f64 = 0.97;

fn blocks(target: &Target) -> bool {
    option(target, "event.send") == "blocking"
}

fn processes(target: &Target) -> u32 {
    option(target, "event.processes").parse().unwrap_or(1)
}

fn cap(target: &Target) -> u32 {
    option(target, "limits.connections_max").parse().unwrap_or(0)
}

/// Targets of one architecture: those that block, and the one that does not.
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

/// How sure it is that `effect` lies below or above a limit: less, more, or neither.
fn side(effect: &Effect, limit: f64) -> Option<bool> {
    let interval = effect.interval?;
    if interval.high < limit { Some(false) } else { (interval.low > limit).then_some(true) }
}

/// Blocking needs ten times the processes.
pub(super) fn e9(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let Pair { blocking, not } = first_pair(run)?;
    let wanted = 10 * processes(not);
    let (mut told, mut enough, mut least) = (Vec::new(), None, u32::MAX);
    for target in &blocking {
        let effect = run.peak_ratio(&target.name, &not.name)?;
        told.push(format!("{} processes: {}", processes(target), show(&effect)));
        if side(&effect, EQUAL) == Some(true) {
            enough = enough.or(Some(processes(target)));
        }
        if side(&effect, EQUAL) != Some(false) {
            least = least.min(processes(target));
        }
    }
    let most = blocking.last().map_or(0, |target| processes(target));
    let ours = format!("blocking peaks as shares of {}'s: {}", not.name, told.join(", "));
    let why =
        format!("enough is {:.0} % of {}'s {} processes", 100.0 * EQUAL, not.name, processes(not));
    Ok(match enough {
        Some(enough) if enough < wanted => Finding::of(false, ours, why),
        Some(_) if least >= wanted => Finding::of(true, ours, why),
        None if least == u32::MAX && most >= wanted => Finding::of(true, ours, why),
        None if least == u32::MAX => {
            Finding::undecided(ours, format!("{wanted} blocking processes were not tried; {why}"))
        }
        _ => Finding::undecided(ours, format!("the intervals leave it open: more blocks; {why}")),
    })
}

/// With few processes a larger cap is worse; with many it is not.
pub(super) fn e10(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let mut effects = Vec::new();
    for mut family in run.families("limits.connections_max") {
        if !blocks(family[0].0) {
            continue;
        }
        family.sort_by_key(|(target, _)| cap(target));
        let (few, many) = (family[0].0, family[family.len() - 1].0);
        let (less, more) = (run.top(&few.name)?, run.top(&many.name)?);
        effects.push((processes(few), run.ratio(&more, &less, "good_per_s")?));
    }
    effects.sort_by_key(|(processes, _)| *processes);
    let (Some(few), Some(many)) = (effects.first(), effects.last()) else {
        return Err("blocking processes, few and many, under two caps each".to_owned());
    };
    if effects.len() < 2 {
        return Err("blocking processes, few and many, under two caps each".to_owned());
    }
    let told: Vec<String> =
        effects.iter().map(|(p, effect)| format!("{p} processes: {}", show(effect))).collect();
    let ours = format!("larger cap over smaller at the highest rate: {}", told.join(", "));
    let why = "worse with few processes, not worse with many";
    Ok(match (side(&few.1, 1.0), side(&many.1, EQUAL)) {
        (Some(false), Some(true)) => Finding::of(true, ours, why),
        (Some(true), _) | (_, Some(false)) => Finding::of(false, ours, why),
        _ => Finding::undecided(ours, format!("the intervals leave it open: more blocks; {why}")),
    })
}

/// At equal throughput: many more switches, fewer descriptors asked about.
pub(super) fn e11(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let Pair { blocking, not } = first_pair(run)?;
    let mut nearest: Option<(f64, &Target)> = None;
    let plain = run.top(&not.name)?;
    for target in blocking {
        let cell = run.top(&target.name)?;
        let apart = run.ratio(&cell, &plain, "good_per_s")?.ratio.ln().abs();
        if nearest.is_none_or(|(least, _)| apart < least) {
            nearest = Some((apart, target));
        }
    }
    let (apart, target) = nearest.ok_or("a blocking arm")?;
    let cell = run.top(&target.name)?;
    let switches =
        |cell| Ok::<f64, String>(run.metric(cell, "switches")? / run.metric(cell, "window_s")?);
    let asked = |cell| run.share(cell, "wait_interest_sum", "replies");
    let (many, few) = (switches(&cell)?, switches(&plain)?);
    let (less, more) = (asked(&cell)?, asked(&plain)?);
    let cache = match (run.metric(&cell, "page_cache_mib"), run.metric(&plain, "page_cache_mib")) {
        (Ok(b), Ok(nb)) => format!(", page cache {b:.0} against {nb:.0} MiB"),
        _ => String::new(),
    };
    let ours = format!(
        "{many:.0} switches a second against {few:.0}, {less:.1} descriptors asked about for each \
         reply against {more:.1}{cache}"
    );
    let why = format!(
        "{} and {} at the highest rate; throughput differs by {:.0} %",
        target.name,
        not.name,
        100.0 * (apart.exp() - 1.0)
    );
    if apart > 0.1 {
        return Ok(Finding::undecided(ours, format!("an equal throughput is needed; {why}")));
    }
    Ok(Finding::of(many >= 10.0 * few && less <= 0.6 * more, ours, why))
}

/// After saturation blocking loses more.
pub(super) fn e12(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let Pair { blocking, not } = first_pair(run)?;
    let mut best: Option<(f64, &Target)> = None;
    for target in blocking {
        let peaks = run.peaks(&target.name, "good_per_s")?;
        let mean = crate::stats::median(&peaks.values().copied().collect::<Vec<_>>());
        if best.is_none_or(|(most, _)| mean > most) {
            best = Some((mean, target));
        }
    }
    let (_, target) = best.ok_or("a blocking arm")?;
    if run.rates(&target.name)?.last().is_none_or(|(rate, _)| *rate < 1.3) {
        return Err("a rate of 1.4 times saturation or more".to_owned());
    }
    let (arm, plain) = (target.name.as_str(), not.name.as_str());
    let (kept, plain_kept) = (run.kept(arm)?, run.kept(plain)?);
    let effect = run.compare((arm, &kept), (plain, &plain_kept))?;
    let ours = format!("{arm} keeps {} of what {plain} keeps of its peak", show(&effect));
    let why = "good answers at the highest rate as a share of the peak, one over the other";
    if effect.interval.is_some_and(|i| i.low > 0.97 && i.high < 1.03) {
        return Ok(Finding::of(false, ours, "equal within 3 %"));
    }
    Ok(Finding::surely(effect.ratio < 1.0, &effect, 1.0, ours, why))
}

/// All cached, non-blocking is at least as good.
pub(super) fn s6(run: &Evidence<'_>) -> Found<Finding> {
    if let Ok(share) = waits(run) {
        return Err(format!("files that are all cached: {:.0} % of the time waits", 100.0 * share));
    }
    let (mut told, mut sides) = (Vec::new(), Vec::new());
    for Pair { blocking, not } in pairs_of(run)? {
        for target in blocking {
            let effect = run.peak_ratio(&not.name, &target.name)?;
            told.push(format!("{} over {}: {}", not.name, target.name, show(&effect)));
            sides.push(side(&effect, 1.0));
        }
    }
    let ours = told.join("; ");
    if let Err(missing) = run.processors(1) {
        return Ok(Finding::undecided(ours, format!("it takes {missing}")));
    }
    Ok(if sides.contains(&Some(false)) {
        Finding::of(false, ours, "peaks: blocking is better")
    } else if sides.iter().all(|side| *side == Some(true)) {
        Finding::of(true, ours, "peaks, on one processor")
    } else {
        Finding::undecided(ours, "some interval holds 1: more blocks")
    })
}

/// On a disk blocking is better by 5 %.
pub(super) fn s7(run: &Evidence<'_>) -> Found<Finding> {
    let share = waits(run)?;
    let (mut told, mut sides) = (Vec::new(), Vec::new());
    for Pair { blocking, not } in pairs_of(run)? {
        for target in blocking {
            let effect = run.peak_ratio(&target.name, &not.name)?;
            told.push(format!("{} over {}: {}", target.name, not.name, show(&effect)));
            sides.push(side(&effect, 1.05));
        }
    }
    let why = format!(
        "peaks; the disk is waited for {:.0} % of the time; WatPipe, for which [S] \
        found it most clearly, is not here",
        100.0 * share
    );
    let ours = told.join("; ");
    Ok(if sides.contains(&Some(true)) {
        Finding::of(true, ours, why)
    } else if sides.iter().all(|side| *side == Some(false)) {
        Finding::of(false, ours, why)
    } else {
        Finding::undecided(ours, format!("1.05 lies within an interval: more blocks; {why}"))
    })
}

/// Blocking reads fewer and longer pieces.
pub(super) fn s8(run: &Evidence<'_>) -> Found<Finding> {
    let (mut told, mut as_said) = (Vec::new(), true);
    for Pair { blocking, not } in pairs_of(run)? {
        let plain = run.top(&not.name)?;
        for target in blocking {
            let cell = run.top(&target.name)?;
            let run_kib = |cell| run.metric(cell, "disk_run_kib");
            let requests = |cell| {
                let names = ["disk_requests_per_s", "good_per_s"];
                run.each(cell, names, |[requests, good]| Some(1e3 * requests / good))
            };
            as_said &= run_kib(&cell)? > run_kib(&plain)? && requests(&cell)? < requests(&plain)?;
            told.push(format!(
                "{}: {:.0} KiB at a time and {:.1} requests for 1,000 replies, {}: {:.0} and {:.1}",
                target.name,
                run_kib(&cell)?,
                requests(&cell)?,
                not.name,
                run_kib(&plain)?,
                requests(&plain)?
            ));
        }
    }
    Ok(Finding::of(as_said, told.join("; "), "the disk's own log, at the highest rate"))
}

/// The disk inefficiency index of a cell.
pub(super) fn index(run: &Evidence<'_>, cell: &Cell, items: &[model::Item]) -> Found<f64> {
    let names = ["page_cache_mib", "good_per_s", "disk_mbyte_per_s"];
    run.each(cell, names, |[cache, good, read]| model::inefficiency(items, cache, good, read))
        .map_err(|missing| format!("{missing} (and a page cache smaller than the files)"))
}

/// What blocking reads is what whole files evicted one by one would cost; non-blocking reads more.
pub(super) fn s8b(run: &Evidence<'_>) -> Found<Finding> {
    let items = model::items(&run.run.experiment.workload)
        .ok_or("a workload whose popularity is known (a SPECweb99-like preset)")?;
    let (mut told, mut verdict) = (Vec::new(), Verdict::Holds);
    for target in run.regattas() {
        let cell = run.top(&target.name)?;
        let index = index(run, &cell, &items)?;
        told.push(format!("{} {index:.2}", target.name));
        let as_said = if blocks(target) { index <= 1.05 } else { index >= 1.07 };
        if !as_said {
            verdict = Verdict::Fails;
        }
    }
    let why = "bytes read over those that Che's model of whole files predicts for the page cache";
    Ok(Finding { ours: told.join(", "), verdict, why: why.to_owned() })
}
