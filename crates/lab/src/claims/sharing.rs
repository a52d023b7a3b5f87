//! Claims on what processes share ([E] §5.2, [S] §4 and §8): E-13, E-14, S-1 to S-4, S-12.

use super::Finding;
use super::evidence::{Evidence, Found, option, show};
use crate::spec::Target;
use crate::stats::Effect;

fn first<'a>(run: &Evidence<'a>, architecture: &str) -> Found<&'a Target> {
    let mut all = run.of(architecture);
    all.find(|target| option(target, "event.send") != "blocking")
        .ok_or_else(|| format!("an arm of {architecture}"))
}

fn processes(target: &Target) -> f64 {
    option(target, "event.processes").parse().unwrap_or(1.0)
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
    let effect = run.peak_ratio(&shared.name, &private.name)?;
    let ours = format!("{}'s peak over {}'s: {}", shared.name, private.name, show(&effect));
    Ok(Finding::equal(&effect, 0.03, ours, locks(run, &shared.name)?))
}

/// Private caches hold each file once for each process.
pub(super) fn e14(run: &Evidence<'_>) -> Found<Finding> {
    let held = |target: &Target| run.metric(&run.top(&target.name)?, "cache_fds");
    let shared = first(run, "shared-symped")?;
    let same = run.of("symped").find(|target| processes(target) > 1.0);
    let private = same.ok_or("symped with several processes")?;
    let (together, apart) = (held(shared)?, held(private)?);
    if together <= 0.0 {
        return Err("descriptors in caches".to_owned());
    }
    let times = apart / together;
    let ours = format!(
        "{} holds {apart:.0} files open in {:.0} processes, {} {together:.0} in {:.0}",
        private.name,
        processes(private),
        shared.name,
        processes(shared)
    );
    let why = "each process has what it was asked for so far; half of each file in each is asked";
    Ok(Finding::of(times >= processes(private) / 2.0, ours, why))
}

/// Decides with four processors of the server's own; else says what was seen.
fn several(
    run: &Evidence<'_>,
    effect: &Effect,
    ours: String,
    why: String,
    decide: impl FnOnce(&Effect, String, String) -> Finding,
) -> Finding {
    match run.processors(4) {
        Ok(()) => decide(effect, ours, why),
        Err(missing) => Finding::undecided(ours, format!("it takes {missing}; {why}")),
    }
}

/// The ratio that tells most: peaks, or processor time where the load is on the same processors.
fn told(run: &Evidence<'_>, arm: &Target, baseline: &Target) -> Found<(Effect, String)> {
    if run.processors(1).is_ok() {
        let effect = run.peak_ratio(&arm.name, &baseline.name)?;
        let ours = format!("{}'s peak over {}'s: {}", arm.name, baseline.name, show(&effect));
        return Ok((effect, ours));
    }
    let (above, below) = (run.top(&arm.name)?, run.top(&baseline.name)?);
    let effect = run.ratio(&above, &below, "cpu_us_per_reply")?;
    let ours = format!(
        "processor time per reply of {} over {}: {}",
        arm.name,
        baseline.name,
        show(&effect)
    );
    Ok((effect, ours))
}

/// Sharing one cache with a reader-writer lock costs 2 % at most.
pub(super) fn s1(run: &Evidence<'_>) -> Found<Finding> {
    let shared = first(run, "shared-symped")?;
    let (effect, ours) = told(run, shared, first(run, "symped")?)?;
    let decide =
        |effect: &Effect, ours, why| Finding::surely(effect.ratio >= 0.98, effect, 0.98, ours, why);
    Ok(several(run, &effect, ours, locks(run, &shared.name)?, decide))
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
    let (effect, ours) = told(run, global, tiers)?;
    let why = format!("{}; {}", locks(run, &global.name)?, locks(run, &tiers.name)?);
    let decide =
        |effect: &Effect, ours, why| Finding::surely(effect.ratio < 1.0, effect, 1.0, ours, why);
    Ok(several(run, &effect, ours, why, decide))
}

/// Processes that stay where their connections' packets are answer 5 % more.
pub(super) fn s3(run: &Evidence<'_>) -> Found<Finding> {
    let aligned = first(run, "n-copy")?;
    let plain = run.of("symped").find(|target| option(target, "event.pin") == "none");
    let (effect, ours) = told(run, aligned, plain.ok_or("symped that is not pinned")?)?;
    let decide =
        |effect: &Effect, ours, why| Finding::surely(effect.ratio >= 1.05, effect, 1.05, ours, why);
    let why = "on loopback a packet is handled where it was sent, which is the client's processor";
    Ok(several(run, &effect, ours, why.to_owned(), decide))
}

/// A partitioned server with a shared cache is as good as copies.
pub(super) fn s4(run: &Evidence<'_>) -> Found<Finding> {
    let shared = first(run, "shared-symped")?;
    let (effect, ours) = told(run, shared, first(run, "n-copy")?)?;
    let decide = |effect: &Effect, ours, why| Finding::equal(effect, 0.03, ours, why);
    Ok(several(run, &effect, ours, locks(run, &shared.name)?, decide))
}

/// MiB that a process more costs: the slope of memory over processes by least squares.
fn slope(run: &Evidence<'_>, architecture: &str) -> Found<f64> {
    let mut points = Vec::new();
    for target in run.of(architecture) {
        let memory = run.metric(&run.top(&target.name)?, "pss_mib")?;
        points.push((processes(target), memory));
    }
    least_squares(&points)
        .ok_or_else(|| format!("{architecture} with several numbers of processes"))
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
    let (private, shared) = (slope(run, "symped")?, slope(run, "shared-symped")?);
    let ours =
        format!("{private:.2} MiB for each private process, {shared:.2} for each sharing one");
    let why = "slopes of the memory over processes, shared pages counted once; three times as much \
               is asked ([S]: 12), and WatPipe's writers are not here";
    Ok(Finding::of(private >= 3.0 * shared.max(0.0), ours, why))
}
