//! The claims of [E] on how many processes an event-driven server needs (systems.md §2.2, §2.3).
//! Arms: `sped` (or `symped-1`), `symped-2`, `symped-3`, `symped-4`.

use super::Finding;
use super::evidence::{Evidence, Found, option, show};

/// The share of a process's time in which it waits for the disk, by the kernel's account.
fn disk_wait(run: &Evidence<'_>, arm: &str) -> Found<f64> {
    let cell = run.top(arm)?;
    let target = run.regattas().find(|target| target.name == arm);
    let processes = target.map_or(1.0, |target| {
        option(target, "event.processes").parse().map_or(1.0, |n: f64| n.max(1.0))
    });
    Ok(run.metric(&cell, "disk_wait_s")? / run.metric(&cell, "window_s")? / processes)
}

/// Below this share nobody waits for a disk.
const WAITS: f64 = 0.02;

/// The most that processes of any arm wait for the disk; an error if nobody does.
pub(super) fn waits(run: &Evidence<'_>) -> Found<f64> {
    let of = |target: &crate::spec::Target| disk_wait(run, &target.name).ok();
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

/// SPED idles while it waits for the disk.
pub(super) fn e1(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let share = disk_wait(run, "sped")?;
    let ours = format!("{:.0} % of the time waits for the disk", 100.0 * share);
    Ok(Finding::of(share >= 0.2, ours, "the kernel's account of the server's waits for the disk"))
}

/// SPED against the best: far behind with a disk, equal when all is cached.
pub(super) fn e2(run: &Evidence<'_>) -> Found<Finding> {
    let mut best: Option<(&str, crate::stats::Effect)> = None;
    // Of those that could be better; what blocks on sockets too or is held to few connections is
    // another question.
    let cap = |target: &crate::spec::Target| option(target, "limits.connections_max").to_owned();
    let sped = run.regattas().find(|target| target.name == "sped").ok_or("sped")?;
    for target in run.regattas().filter(|one| one.name != "sped" && cap(one) == cap(sped)) {
        let arm = target.name.as_str();
        let Ok(effect) = run.peak_ratio("sped", arm) else { continue };
        if best.as_ref().is_none_or(|(_, least)| effect.ratio < least.ratio) {
            best = Some((arm, effect));
        }
    }
    let (arm, effect) = best.ok_or("an architecture beside sped")?;
    let share = disk_wait(run, "sped")?;
    let ours = format!("sped's peak is {} of {arm}'s", show(&effect));
    if share < WAITS {
        let why = "all cached: within 5 % is claimed";
        return Ok(Finding::surely(effect.ratio > 0.95, &effect, 0.95, ours, why));
    }
    let why = format!("sped waits for the disk {:.0} % of the time", 100.0 * share);
    let nearer = if effect.ratio < 0.65 { 0.55 } else { 0.75 };
    let holds = (0.55..=0.75).contains(&effect.ratio);
    Ok(Finding::surely(holds, &effect, nearer, ours, why))
}

/// A second process helps when the disk blocks.
pub(super) fn e4(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let (one, two) = (disk_wait(run, "sped")?, disk_wait(run, "symped-2")?);
    let effect = run.peak_ratio("symped-2", "sped")?;
    let ours = format!(
        "peak ratio {}; waiting {:.0} % and {:.0} % of each process's time",
        show(&effect),
        100.0 * one,
        100.0 * two
    );
    let idle = |arm| {
        let used = run.metric(&run.top(arm)?, "server_cpu")? / run.left();
        Ok::<f64, String>(100.0 * (1.0 - used))
    };
    let (first, second) = (idle("sped")?, idle("symped-2")?);
    let why = format!("the processor idles {first:.0} % with one process, {second:.0} % with two");
    let holds = effect.ratio >= 1.2 && second <= first / 2.0;
    Ok(Finding::surely(holds, &effect, 1.2, ours, why))
}

/// From three processes to four nothing is gained.
pub(super) fn e5(run: &Evidence<'_>) -> Found<Finding> {
    let effect = run.peak_ratio("symped-4", "symped-3")?;
    let ours = format!("peak ratio {}", show(&effect));
    Ok(Finding::equal(&effect, 0.05, ours, "four processes over three"))
}

/// With a small cap on connections more processes do not help, and each wait brings less.
pub(super) fn e6(run: &Evidence<'_>) -> Found<Finding> {
    // With arms of a small cap those, else those that there are.
    let capped = run.regattas().any(|target| target.name == "symped-4-few");
    let (sped, symped) = if capped { ("sped-few", "symped-4-few") } else { ("sped", "symped-4") };
    let effect = run.peak_ratio(symped, sped)?;
    let (one, four) = (run.top(sped)?, run.top(symped)?);
    let events = |cell| run.share(cell, "wait_events", "wait_calls");
    let waits = |cell| run.share(cell, "wait_calls", "replies");
    let fewer = events(&four)? < events(&one)?;
    let more = waits(&four)? > waits(&one)?;
    let ours = format!(
        "peak ratio {}; events for each wait {:.2} and {:.2}, waits for each reply {:.3} and {:.3}",
        show(&effect),
        events(&one)?,
        events(&four)?,
        waits(&one)?,
        waits(&four)?
    );
    let holds = effect.ratio < 1.03 && fewer && more;
    Ok(Finding::surely(holds, &effect, 1.03, ours, "one process and four"))
}
