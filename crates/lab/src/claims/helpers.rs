//! Claims on AMPED's helpers and LAIO's laziness ([E] §2 and future work).

use super::Finding;
use super::evidence::{Evidence, Found, option, show};
use super::processes::waits;
use crate::spec::Target;
use crate::stats::Effect;

/// The first arm of an architecture that has an option so, or as it comes.
fn arm<'a>(run: &Evidence<'a>, architecture: &str, key: &str, value: &str) -> Found<&'a Target> {
    let wanted = |target: &&Target| {
        let said = target.config.get(key).map_or("", String::as_str);
        said == value
    };
    run.of(architecture).find(wanted).ok_or_else(|| format!("{architecture} ({key} {value:?})"))
}

/// Processor time for each reply over sped's, with everything cached.
fn cost(run: &Evidence<'_>, target: &Target) -> Found<Effect> {
    if let Ok(share) = waits(run) {
        return Err(format!("files that are all cached: sped waits {:.0} %", 100.0 * share));
    }
    let sped = run.of("sped").next().ok_or("sped")?;
    let (above, below) = (run.top(&target.name)?, run.top(&sped.name)?);
    run.ratio(&above, &below, "cpu_us_per_reply")
}

/// All cached, AMPED costs 5 % at most.
pub(super) fn x2(run: &Evidence<'_>) -> Found<Finding> {
    let target = arm(run, "amped", "amped.residency", "")?;
    let effect = cost(run, target)?;
    let cell = run.top(&target.name)?;
    let checks = run.share(&cell, "residency_checks", "replies")?;
    let ours = format!("processor time per reply over sped's: {}", show(&effect));
    let why = format!("{checks:.2} tests for pages in memory for each reply");
    Ok(Finding::surely(effect.ratio <= 1.05, &effect, 1.05, ours, why))
}

/// All cached, laziness costs less than 3 %.
pub(super) fn x11(run: &Evidence<'_>) -> Found<Finding> {
    let engines = ["", "nowait"].map(|engine| arm(run, "laio", "laio.engine", engine));
    let mut told = Vec::new();
    let mut least: Option<Effect> = None;
    for target in engines.into_iter().flatten() {
        let effect = cost(run, target)?;
        told.push(format!("{} {}", target.name, show(&effect)));
        if least.is_none_or(|least| effect.ratio < least.ratio) {
            least = Some(effect);
        }
    }
    let effect = least.ok_or("an arm of laio")?;
    let ours = format!("processor time per reply over sped's: {}", told.join(", "));
    Ok(Finding::surely(effect.ratio < 1.03, &effect, 1.03, ours, "the cheaper engine decides"))
}

/// Asking a helper every time costs a tenth; laziness completes inline what is in memory.
pub(super) fn x13(run: &Evidence<'_>) -> Found<Finding> {
    let always = cost(run, arm(run, "amped", "amped.residency", "always-ask")?)?;
    let lazy = run.of("laio").next().ok_or("an arm of laio")?;
    let cell = run.top(&lazy.name)?;
    let (inline, deferred) = (
        run.share(&cell, "laio_inline", "replies")?,
        run.share(&cell, "laio_deferred", "replies")?,
    );
    let all = inline + deferred;
    let at_once = if all > 0.0 { inline / all } else { 1.0 };
    let ours = format!(
        "always asking: {} of sped's processor time; {:.2} % of {}'s operations complete at once",
        show(&always),
        100.0 * at_once,
        lazy.name
    );
    let why = "processor time per reply, all cached: what is asked always costs a tenth more";
    let holds = always.ratio >= 1.1 && at_once > 0.99;
    Ok(Finding::surely(holds, &always, 1.1, ours, why))
}

/// What an architecture asks of the disk, in words.
fn asks(run: &Evidence<'_>, target: &Target) -> String {
    let of = |name: &str| run.top(&target.name).and_then(|cell| run.metric(&cell, name));
    match (of("disk_requests_per_s"), of("good_per_s"), of("disk_busy_share")) {
        (Ok(requests), Ok(good), Ok(busy)) => format!(
            "{} asks the disk {:.1} times for 1,000 replies, which is {:.0} % busy",
            target.name,
            1e3 * requests / good,
            100.0 * busy
        ),
        _ => String::new(),
    }
}

/// One loop that does not block, against several that do, on a disk.
fn against_processes(run: &Evidence<'_>, architecture: &str) -> Found<Finding> {
    waits(run)?;
    let target = run.of(architecture).next().ok_or_else(|| format!("an arm of {architecture}"))?;
    let most = run
        .of("symped")
        .filter(|target| option(target, "event.send") != "blocking")
        .max_by_key(|target| option(target, "event.processes").parse::<u32>().unwrap_or(1));
    let symped = most.ok_or("symped with several processes")?;
    let sped = run.of("sped").next().ok_or("sped")?;
    let beside = run.peak_ratio(&target.name, &symped.name)?;
    let over = run.peak_ratio(&target.name, &sped.name)?;
    let ours = format!(
        "{}'s peak is {} of {}'s and {} of sped's",
        target.name,
        show(&beside),
        symped.name,
        show(&over)
    );
    let why = [asks(run, target), asks(run, symped)].join("; ");
    if over.interval.is_some_and(|interval| interval.high < 1.2) {
        return Ok(Finding::of(false, ours, format!("1.2 of sped's is asked; {why}")));
    }
    Ok(Finding::surely(beside.ratio >= 0.95, &beside, 0.95, ours, why))
}

/// On a disk AMPED is as good as SYMPED.
pub(super) fn x3(run: &Evidence<'_>) -> Found<Finding> {
    against_processes(run, "amped")
}

/// On a disk LAIO with one process is as good as SYMPED.
pub(super) fn x12(run: &Evidence<'_>) -> Found<Finding> {
    against_processes(run, "laio")
}
