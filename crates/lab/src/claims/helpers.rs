//! Claims on AMPED's helpers and LAIO's laziness ([E] §2 and future work): to
//!

use super::Finding;
use super::arms::{blocks, one, processes};
use super::evidence::{Evidence, Found, Shown, counted, number, show};
use super::processes::{needs_cached, waits};
use crate::experiment::Target;
use crate::experiment::claim_index::range;
use crate::record::Record;

/// The first arm of an architecture that has an option so, or as it comes.
fn arm<'a>(run: &Evidence<'a>, architecture: &str, key: &str, value: &str) -> Found<&'a Target> {
    let wanted = |target: &&Target| {
        let said = target.config.get(key).map_or("", String::as_str);
        said == value
    };
    run.of(architecture).find(wanted).ok_or_else(|| format!("{architecture} ({key} {value:?})"))
}

/// Processor time for each reply over sped's, with everything cached.
fn cost(run: &Evidence<'_>, target: &Target) -> Found<Shown> {
    needs_cached(run)?;
    let [above, below] = run.tops([&target.name, &one(run)?.name])?;
    run.ratio(&above, &below, "cpu_us_per_reply")
}

/// All cached, laziness costs less than 3 %.
pub(super) fn x11(run: &Evidence<'_>) -> Found<Finding> {
    let engines = ["", "nowait"].map(|engine| arm(run, "laio", "laio.engine", engine));
    let (mut told, mut asked) = (Vec::new(), Vec::new());
    for target in engines.into_iter().flatten() {
        let ratio = cost(run, target)?;
        told.push(format!("{} {}", target.name, show(&ratio)));
        asked.push(ratio.asks(range("X-11", 0), target.name.clone()));
    }
    if asked.is_empty() {
        return Err("an arm of laio".to_owned());
    }
    let ours = format!("processor time per reply over sped's: {}", told.join(", "));
    Ok(Finding::any(ours, "one engine is enough", &asked))
}

/// Asking a helper every time costs a tenth; laziness completes inline what is in memory.
pub(super) fn x13(run: &Evidence<'_>) -> Found<Finding> {
    let always = cost(run, arm(run, "amped", "amped.residency", "always-ask")?)?;
    let lazy = run.of("laio").next().ok_or("an arm of laio")?;
    let [cell] = run.tops([&lazy.name])?;
    let at_once = |record: &Record| {
        let (inline, deferred) =
            (counted(record, "laio_inline")?, counted(record, "laio_deferred")?);
        (inline + deferred > 0.0).then(|| inline / (inline + deferred))
    };
    let share = run.shown("operations", &cell, at_once)?;
    let ours = format!(
        "always asking: {} of sped's processor time; {:.2} % of {}'s operations complete at once",
        show(&always),
        100.0 * share.typical(),
        lazy.name
    );
    let why = "processor time per reply, all cached: what is asked always costs a tenth more";
    let asked = [
        always.above(1.1, "what always asking costs"),
        share.above(0.99, "the share that completes at once"),
    ];
    Ok(Finding::all(ours, why, &asked))
}

/// So much of the loop's time inside opens is a stall to be seen.
const STALLS: f64 = 0.01;
/// What passing descriptors may leave of them is nothing.
const GONE: f64 = 0.1;
/// Opens for each reply, below which few files were cold.
const COLD: f64 = 0.01;

/// Where helpers read and the loop opens, cold names stall it; passing descriptors ends that.
pub(super) fn x4(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let families = run.families("amped.pass_descriptors");
    let family = families.first().ok_or("amped.pass_descriptors=true and false")?;
    let of = |value: &str| {
        let member = family.iter().find(|(_, has)| *has == value);
        member.map(|(target, _)| *target).ok_or(format!("amped.pass_descriptors={value}"))
    };
    let (with, without) = (of("true")?, of("false")?);
    let [passed, not] = run.tops([&with.name, &without.name])?;
    let opens = run.share(&not, "opens", "replies")?;
    let stall = |record: &Record| {
        let window_ns = 1e9 * number(record, "window_s").filter(|s| *s > 0.0)?;
        Some(counted(record, "stall_open_ns")? / window_ns)
    };
    let held = run.shown("stalls of opens", &not, stall)?;
    let left = run.between("stalls of opens", (&passed, &not), stall, |with, without| {
        with - GONE * without
    })?;
    let ours = format!(
        "opens hold up the loop {:.2} % of the time, with descriptors passed {:.2} %",
        100.0 * held.typical(),
        100.0 * run.middle("stalls of opens", &passed, stall)?
    );
    let why = format!("the server's own account of opens over its stall limit; {opens:.3} a reply");
    if opens < COLD {
        let needs = "names that are not in the server's cache: one open for 100 replies";
        return Ok(Finding::undecided(ours, format!("it takes {needs}; {why}")));
    }
    let asked = [
        held.above(STALLS, "the share of the time without passing"),
        left.below(0.0, "the share with passing less a tenth of that without"),
    ];
    Ok(Finding::all(ours, why, &asked))
}

/// So many tasks for each reply are many.
const ERRANDS: f64 = 0.1;

/// What asking helpers costs is seen where much is asked.
pub(super) fn x5(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let target = arm(run, "amped", "amped.residency", "")?;
    let several = run.of("symped").filter(|one| !blocks(one)).max_by_key(|one| processes(one));
    let symped = several.ok_or("symped")?;
    let [helped, other] = run.tops([&target.name, &symped.name])?;
    let cost = run.ratio(&helped, &other, "cpu_us_per_reply")?;
    let tasks = |record: &Record| {
        let kinds = ["helper_tasks_open", "helper_tasks_read", "helper_tasks_prefetch"];
        let each = kinds.map(|kind| counted(record, kind).unwrap_or_default());
        Some(each.iter().sum::<f64>()).filter(|tasks| *tasks > 0.0)
    };
    let each = |name: &str, unit: f64| {
        let of = |record: &Record| Some(counted(record, name)? / unit / tasks(record)?);
        run.middle(name, &helped, of)
    };
    let often = run.middle("tasks of helpers", &helped, |record| {
        let replies = counted(record, "replies").filter(|replies| *replies > 0.0)?;
        Some(tasks(record)? / replies)
    })?;
    let ours = format!(
        "processor time per reply of {} over {}: {}; {often:.2} tasks for each reply, {:.2} \
          completions and {:.1} ms from submission to completion of each task",
        target.name,
        symped.name,
        show(&cost),
        each("helper_completions", 1.0)?,
        each("helper_busy_ns", 1e6)?
    );
    let why = "at the highest rate; 5 % more processor time is seen";
    if often < ERRANDS {
        let needs = "a tenth of the replies or more that a helper is asked for";
        return Ok(Finding::undecided(ours, format!("it takes {needs}; {why}")));
    }
    Ok(Finding::all(ours, why, &[cost.above(1.05, "the ratio of processor time")]))
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
fn against_processes(run: &Evidence<'_>, id: &str, architecture: &str) -> Found<Finding> {
    waits(run)?;
    let target = run.of(architecture).next().ok_or_else(|| format!("an arm of {architecture}"))?;
    let several = run.of("symped").filter(|one| !blocks(one)).max_by_key(|one| processes(one));
    let symped = several.ok_or("symped with several processes")?;
    let sped = one(run)?;
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
    let asked = [
        beside.asks(range(id, 0), format!("its peak over {}'s", symped.name)),
        over.asks(range(id, 1), "its peak over sped's"),
    ];
    Ok(Finding::all(ours, why, &asked))
}

/// On a disk AMPED is as good as SYMPED.
pub(super) fn x3(run: &Evidence<'_>) -> Found<Finding> {
    against_processes(run, "X-3", "amped")
}

/// On a disk LAIO with one process is as good as SYMPED.
pub(super) fn x12(run: &Evidence<'_>) -> Found<Finding> {
    against_processes(run, "X-12", "laio")
}
