//! Claims on what processes share ([E] §5.2, [S] §4 and §8): E-13, E-14, S-1 to S-5, S-12.

use super::Finding;
use super::arms::{blocks, processes};
use super::evidence::{Blocks, Evidence, Found, Shown, number, option, show};
use super::processes::waits;
use super::shown::Asked;
use crate::experiment::Target;
use crate::stats::median;
use std::collections::BTreeMap;

fn first<'a>(run: &Evidence<'a>, architecture: &str) -> Found<&'a Target> {
    let mut all = run.of(architecture);
    all.find(|target| !blocks(target)).ok_or_else(|| format!("an arm of {architecture}"))
}

/// What the arm's processes waited for each other, in words.
fn locks(run: &Evidence<'_>, arm: &str) -> Found<String> {
    let cell = run.top(arm)?;
    let contended = 100.0 * run.share(&cell, "lock_contended", "lock_acquisitions")?;
    let waited = run.share(&cell, "lock_wait_ns", "replies")?;
    Ok(format!("{contended:.2} % of {arm}'s locks were contended, {waited:.0} ns for each reply"))
}

/// A shared cache answers as much as private ones.
pub(super) fn e13(run: &Evidence<'_>) -> Found<Finding> {
    let (shared, private) = (first(run, "shared-symped")?, first(run, "symped")?);
    let ratio = run.peak_ratio(&shared.name, &private.name)?;
    let ours = format!("{}'s peak over {}'s: {}", shared.name, private.name, show(&ratio));
    let why = format!("equal within 3 %; {}", locks(run, &shared.name)?);
    Ok(Finding::all(ours, why, &[ratio.equal(0.03, "the peak ratio")]))
}

/// Private caches hold each file once for each process.
pub(super) fn e14(run: &Evidence<'_>) -> Found<Finding> {
    let shared = first(run, "shared-symped")?;
    let same = run.of("symped").find(|target| processes(target) > 1);
    let private = same.ok_or("symped with several processes")?;
    let [apart, together] = run.tops([&private.name, &shared.name])?;
    let times = run.ratio(&apart, &together, "cache_fds")?;
    let ours = format!(
        "{} holds {:.0} files open in {} processes, {} {:.0} in {}: {}",
        private.name,
        run.metric(&apart, "cache_fds")?,
        processes(private),
        shared.name,
        run.metric(&together, "cache_fds")?,
        processes(shared),
        show(&times)
    );
    let why = "each process has what it was asked for so far; half of each file in each is asked";
    let half = f64::from(processes(private)) / 2.0;
    Ok(Finding::all(ours, why, &[times.above(half, "files held, one over the other,")]))
}

/// Decides with four processors of the server's own; else says what was seen.
fn several(run: &Evidence<'_>, ours: String, why: &str, asked: Asked) -> Finding {
    match run.processors(4) {
        Ok(()) => Finding::all(ours, why, &[asked]),
        Err(missing) => Finding::undecided(ours, format!("it takes {missing}; {why}")),
    }
}

/// The ratio that tells most: peaks, or processor time where the load is on the same processors.
fn told(run: &Evidence<'_>, arm: &Target, baseline: &Target) -> Found<(Shown, String)> {
    if run.processors(1).is_ok() {
        let ratio = run.peak_ratio(&arm.name, &baseline.name)?;
        let ours = format!("{}'s peak over {}'s: {}", arm.name, baseline.name, show(&ratio));
        return Ok((ratio, ours));
    }
    let [above, below] = run.tops([&arm.name, &baseline.name])?;
    let ratio = run.ratio(&above, &below, "cpu_us_per_reply")?;
    let ours = format!(
        "processor time per reply of {} over {}: {}",
        arm.name,
        baseline.name,
        show(&ratio)
    );
    Ok((ratio, ours))
}

/// Sharing one cache with a reader-writer lock costs 2 % at most.
pub(super) fn s1(run: &Evidence<'_>) -> Found<Finding> {
    let shared = first(run, "shared-symped")?;
    let (ratio, ours) = told(run, shared, first(run, "symped")?)?;
    let why = locks(run, &shared.name)?;
    Ok(several(run, ours, &why, ratio.above(0.98, "the peak ratio")))
}

/// One lock is worse than two tiers.
pub(super) fn s2(run: &Evidence<'_>) -> Found<Finding> {
    let families = run.families("shared.lock");
    let of = |lock: &str| {
        let all = families.iter().flatten();
        let member = all.clone().find(|(_, value)| *value == lock);
        member.map(|(target, _)| *target).ok_or(format!("shared.lock={lock}"))
    };
    let (global, tiers) = (of("global")?, of("two-tier")?);
    let (ratio, ours) = told(run, global, tiers)?;
    let why = format!("{}; {}", locks(run, &global.name)?, locks(run, &tiers.name)?);
    Ok(several(run, ours, &why, ratio.below(1.0, "the peak ratio")))
}

/// Processes that stay where their connections' packets are answer 5 % more.
pub(super) fn s3(run: &Evidence<'_>) -> Found<Finding> {
    let aligned = first(run, "n-copy")?;
    let plain = run.of("symped").find(|target| option(target, "event.pin") == "none");
    let (ratio, ours) = told(run, aligned, plain.ok_or("symped that is not pinned")?)?;
    let why = "on loopback a packet is handled where it was sent, which is the client's processor";
    Ok(several(run, ours, why, ratio.above(1.05, "the peak ratio")))
}

/// A partitioned server with a shared cache is as good as copies.
pub(super) fn s4(run: &Evidence<'_>) -> Found<Finding> {
    let shared = first(run, "shared-symped")?;
    let (ratio, ours) = told(run, shared, first(run, "n-copy")?)?;
    let why = format!("equal within 3 %; {}", locks(run, &shared.name)?);
    Ok(several(run, ours, &why, ratio.equal(0.03, "the peak ratio")))
}

/// With memory for some of the files only, copies that each have a cache of their own are the last.
pub(super) fn s5(run: &Evidence<'_>) -> Found<Finding> {
    let share = waits(run)?;
    let copies = first(run, "n-copy")?;
    let (mut told, mut asked) = (Vec::new(), Vec::new());
    for other in run.regattas().filter(|one| option(one, "server.architecture") != "n-copy") {
        let ratio = run.peak_ratio(&copies.name, &other.name)?;
        let what = format!("{}'s peak over {}'s", copies.name, other.name);
        told.push(format!("{} of {}'s", show(&ratio), other.name));
        asked.push(ratio.below(1.0, what));
    }
    if asked.is_empty() {
        return Err("an architecture beside n-copy".to_owned());
    }
    let ours = format!("{}'s peak is {}", copies.name, told.join(", "));
    let memory = run.metric(&run.top(&copies.name)?, "pss_mib");
    let memory = memory.map_or(String::new(), |mib| format!("it takes {mib:.0} MiB of memory; "));
    let why = format!("{memory}the disk is waited for {:.0} % of the time", 100.0 * share);
    Ok(Finding::all(ours, why, &asked))
}

/// MiB that a process more costs, block by block: the slope of memory over processes by least
/// squares, over all the arms of an architecture.
fn slopes(run: &Evidence<'_>, architecture: &str) -> Found<Blocks> {
    let mut points: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    let mut arms = 0;
    for target in run.of(architecture) {
        arms += 1;
        let cell = run.top(&target.name)?;
        for (block, memory) in run.blocks(&cell, |record| number(record, "pss_mib")) {
            points.entry(block).or_default().push((f64::from(processes(target)), memory));
        }
    }
    points.retain(|_, points| points.len() == arms);
    let slope = |(block, points): (u32, Vec<(f64, f64)>)| Some((block, least_squares(&points)?));
    let slopes: Blocks = points.into_iter().filter_map(slope).collect();
    if slopes.is_empty() {
        return Err(format!("{architecture} with several numbers of processes"));
    }
    Ok(slopes)
}

/// The slope of a line through points; None if they have one x.
pub(super) fn least_squares(points: &[(f64, f64)]) -> Option<f64> {
    let n = crate::stats::count(points.len());
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| (p.0 - x) * (p.0 - x)).sum();
    let together: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    (spread > 0.0).then(|| together / spread)
}

/// A process with a private cache costs much more than one that shares it.
pub(super) fn s12(run: &Evidence<'_>) -> Found<Finding> {
    let (private, shared) = (slopes(run, "symped")?, slopes(run, "shared-symped")?);
    let of = |slopes: &Blocks| median(&slopes.values().copied().collect::<Vec<_>>());
    let ours = format!(
        "{:.2} MiB for each private process, {:.2} for each sharing one",
        of(&private),
        of(&shared)
    );
    let above: Vec<f64> = crate::analysis::pairs(&private, &shared)
        .into_iter()
        .map(|(private, shared)| private - 10.0 * shared)
        .collect();
    let above = run.of_values(&above).ok_or("the memory of all processes in four blocks")?;
    let why = "slopes of the memory over processes, shared pages counted once; ten times as much \
               is asked ([S]: 12), and WatPipe's writers are not here";
    let asked = [above.above(0.0, "a private process less ten sharing ones, MiB,")];
    Ok(Finding::all(ours, why, &asked))
}
