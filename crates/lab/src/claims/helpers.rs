//! Claims on AMPED's helpers and LAIO's laziness ([E] §2 and future work).

use super::Finding;
use super::arms::{blocks, flash, one, processes};
use super::evidence::{Evidence, Found, Shown, counted, number, show};
use super::processes::{needs_cached, waits};
use super::sharing::member;
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
    let of = |value| member(run, "amped.pass_descriptors", value, |_| true).ok();
    let with = of("true").or_else(|| run.of("amped").next());
    let with = with.ok_or("amped whose helpers pass descriptors")?;
    let stall = |record: &Record| {
        let window_ns = 1e9 * number(record, "window_s").filter(|s| *s > 0.0)?;
        Some(counted(record, "stall_open_ns")? / window_ns)
    };
    let (mut told, mut asked, mut cold) = (Vec::new(), Vec::new(), f64::INFINITY);
    for without in of("false").into_iter().chain(flash(run)) {
        let [passed, not] = run.tops([&with.name, &without.name])?;
        cold = cold.min(run.share(&not, "opens", "replies")?);
        let held = run.shown("stalls of opens", &not, stall)?;
        let left = run.between("stalls of opens", (&passed, &not), stall, |with, without| {
            with - GONE * without
        })?;
        told.push(format!(
            "opens hold up the loop of {} {:.2} % of the time, with descriptors passed {:.2} %",
            without.name,
            100.0 * held.typical(),
            100.0 * run.middle("stalls of opens", &passed, stall)?
        ));
        let name = &without.name;
        asked.push(held.above(STALLS, format!("the share of the time in {name}, without passing")));
        asked.push(left.below(0.0, format!("the share with passing less a tenth of {name}'s")));
    }
    if asked.is_empty() {
        return Err("helpers that do not pass descriptors (amped.pass_descriptors, flash)".into());
    }
    let why = format!("the server's own account of opens over its stall limit; {cold:.3} a reply");
    if cold < COLD {
        let needs = "names that are not in the server's cache: one open for 100 replies";
        return Ok(Finding::undecided(told.join("; "), format!("it takes {needs}; {why}")));
    }
    Ok(Finding::all(told.join("; "), why, &asked))
}

/// So many tasks for each reply are many.
const ERRANDS: f64 = 0.1;

/// Tasks of helpers.
fn tasks(record: &Record) -> Option<f64> {
    let kinds = ["helper_tasks_open", "helper_tasks_read", "helper_tasks_prefetch"];
    let each = kinds.map(|kind| counted(record, kind).unwrap_or_default());
    Some(each.iter().sum::<f64>()).filter(|tasks| *tasks > 0.0)
}

/// What asking helpers costs is seen where much is asked.
pub(super) fn x5(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let amped = arm(run, "amped", "amped.residency", "")?;
    let several = run.of("symped").filter(|one| !blocks(one)).max_by_key(|one| processes(one));
    let symped = several.ok_or("symped")?;
    let (mut told, mut asked, mut least) = (Vec::new(), Vec::new(), f64::INFINITY);
    for target in [amped].into_iter().chain(flash(run)) {
        let [helped, other] = run.tops([&target.name, &symped.name])?;
        let cost = run.ratio(&helped, &other, "cpu_us_per_reply")?;
        let each = |name: &str, unit: f64| {
            let of = |record: &Record| Some(counted(record, name)? / unit / tasks(record)?);
            run.middle(name, &helped, of)
        };
        let often = run.middle("tasks of helpers", &helped, |record| {
            let replies = counted(record, "replies").filter(|replies| *replies > 0.0)?;
            Some(tasks(record)? / replies)
        })?;
        told.push(format!(
            "processor time per reply of {} over {}: {}; {often:.2} tasks for each reply, {:.2} \
             completions and {:.1} ms from submission to completion of each task",
            target.name,
            symped.name,
            show(&cost),
            each("helper_completions", 1.0)?,
            each("helper_busy_ns", 1e6)?
        ));
        least = least.min(often);
        asked.push(cost.above(1.05, format!("the processor time of {}", target.name)));
    }
    let why = "at the highest rate; 5 % more processor time is seen";
    if least < ERRANDS {
        let needs = "a tenth of the replies or more that a helper is asked for";
        return Ok(Finding::undecided(told.join("; "), format!("it takes {needs}; {why}")));
    }
    Ok(Finding::all(told.join("; "), why, &asked))
}
