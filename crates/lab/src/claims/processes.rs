//! The claims of [E] on how many processes an event-driven server needs (systems.md §2.2, §2.3).
//! Arms: `sped` (or `symped-1`), `symped-2`, `symped-3`, `symped-4`.

use super::Finding;
use super::evidence::{Evidence, Found, show};

/// Whether the run has a disk to wait for: the server's own account of waiting for it.
fn disk_wait(run: &Evidence<'_>, arm: &str) -> Found<f64> {
    let cell = run.top(arm)?;
    Ok(run.metric(&cell, "disk_wait_s")? / run.metric(&cell, "window_s")?)
}

/// Whether the run's files come from a disk that it waits for: below 2 % it does not.
fn waits(run: &Evidence<'_>) -> Found<f64> {
    let share = disk_wait(run, "sped")?;
    if share < 0.02 {
        return Err(format!(
            "a disk to wait for: sped waits {:.1} % of the time (simulated disk, memory limit)",
            100.0 * share
        ));
    }
    Ok(share)
}

/// SPED idles while it waits for the disk.
pub(super) fn e1(run: &Evidence<'_>) -> Found<Finding> {
    let share = waits(run)?;
    let ours = format!("{:.0} % of the time waits for the disk", 100.0 * share);
    Ok(Finding::of(share >= 0.2, ours, "the kernel's account of the server's waits for the disk"))
}

/// SPED against the best: far behind with a disk, equal when all is cached.
pub(super) fn e2(run: &Evidence<'_>) -> Found<Finding> {
    let mut best: Option<(&str, crate::stats::Effect)> = None;
    for arm in ["symped-2", "symped-3", "symped-4"] {
        let Ok(effect) = run.peak_ratio("sped", arm) else { continue };
        if best.as_ref().is_none_or(|(_, least)| effect.ratio < least.ratio) {
            best = Some((arm, effect));
        }
    }
    let (arm, effect) = best.ok_or("an architecture beside sped")?;
    let share = disk_wait(run, "sped")?;
    let ours = format!("sped's peak is {} of {arm}'s", show(&effect));
    if share < 0.02 {
        let why = "all cached: within 5 % is claimed";
        return Ok(Finding::of(effect.ratio > 0.95, ours, why));
    }
    let why = format!("sped waits for the disk {:.0} % of the time", 100.0 * share);
    Ok(Finding::of((0.55..=0.75).contains(&effect.ratio), ours, why))
}

/// A second process helps when the disk blocks.
pub(super) fn e4(run: &Evidence<'_>) -> Found<Finding> {
    let one = waits(run)?;
    let two = disk_wait(run, "symped-2")? / 2.0;
    let effect = run.peak_ratio("symped-2", "sped")?;
    let ours = format!(
        "peak ratio {}; waiting {:.0} % and {:.0} % of each process's time",
        show(&effect),
        100.0 * one,
        100.0 * two
    );
    Ok(Finding::of(effect.ratio >= 1.2, ours, "two processes over one"))
}

/// From three processes to four nothing is gained.
pub(super) fn e5(run: &Evidence<'_>) -> Found<Finding> {
    let effect = run.peak_ratio("symped-4", "symped-3")?;
    let holds = (effect.ratio - 1.0).abs() < 0.05;
    let ours = format!("peak ratio {}", show(&effect));
    Ok(Finding::of(holds, ours, "four processes over three"))
}

/// With a small cap on connections more processes do not help, and each wait brings less.
pub(super) fn e6(run: &Evidence<'_>) -> Found<Finding> {
    let effect = run.peak_ratio("symped-4", "sped")?;
    let (one, four) = (run.top("sped")?, run.top("symped-4")?);
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
    Ok(Finding::of(effect.ratio < 1.03 && fewer && more, ours, "one process and four"))
}
