//! Claims on pipelines of stages, WatPipe's ([S] §4 and §8): S-9 to S-11.

use super::arms::{blocks, cap, writers};
use super::evidence::{Evidence, Family, Found, show};
use super::processes::{idle_for_the_disk, needs_cached, waits};
use super::sharing::member;
use super::{Finding, Verdict};
use crate::experiment::Target;
use crate::experiment::claim_index::range;

/// What a trial tells of the time in which processors idle for the disk.
const IDLE: &str = "server_cpu and disk_busy_share, or waiting_share";

/// Pipelines that differ in their writers alone, those with the fewest first; in front those that
/// take the fewest connections.
fn by_writers<'a>(run: &Evidence<'a>) -> Vec<Vec<&'a Target>> {
    let of = |mut family: Family<'a>| -> Vec<&'a Target> {
        family.sort_by_key(|(target, _)| writers(target));
        family.into_iter().map(|(target, _)| target).collect()
    };
    let mut families: Vec<Vec<&Target>> =
        run.families("watpipe.writers").into_iter().map(of).collect();
    families.retain(|all| !blocks(all[0]) && writers(all[0]) != writers(all[1]));
    families.sort_by_key(|family| cap(family[0]));
    families
}

/// Those that differ in their writers alone and are the most, those with the fewest first.
fn most_by_writers<'a>(run: &Evidence<'a>) -> Vec<&'a Target> {
    by_writers(run).into_iter().max_by_key(Vec::len).unwrap_or_default()
}

/// All cached, a writer for each processor is as good as any other number.
pub(super) fn s9(run: &Evidence<'_>) -> Found<Finding> {
    let (_, cached) = run.memories().remove(0);
    needs_cached(&cached)?;
    let family = most_by_writers(&cached);
    let cores = cached.cpus();
    let missing = || format!("a pipeline (watpipe5) with {cores} writers and with other numbers");
    let is_own = |one: &&&Target| usize::try_from(writers(one)) == Ok(cores);
    let own = family.iter().find(is_own).ok_or_else(missing)?;
    let others: Vec<_> = family.iter().filter(|one| one.name != own.name).collect();
    let below: Vec<_> = others.iter().map(|one| (cached, one.name.as_str())).collect();
    let ratio = Evidence::best_of(&[(cached, own.name.as_str())], &below)?;
    let what = format!("the peak with {cores} writers over the best with another number");
    let ours = format!("{what}: {}", show(&ratio));
    let numbers: Vec<String> = others.iter().map(|one| writers(one).to_string()).collect();
    let why = format!("beside {} writers", numbers.join(", "));
    let finding = Finding::all(ours, why, &[ratio.asks(range("S-9", 0), what)]);
    Ok(finding.on(run.processors(4)))
}

/// On a disk more writers wait less, and neither the fewest nor the most are the best.
pub(super) fn s10(run: &Evidence<'_>) -> Found<Finding> {
    let disk = run.memories().pop().map_or(*run, |(_, disk)| disk);
    waits(&disk)?;
    let family = most_by_writers(&disk);
    let missing = "a pipeline (watpipe5) with three numbers of writers or more";
    let [fewest, inner @ .., most] = family.as_slice() else { return Err(missing.to_owned()) };
    if inner.is_empty() {
        return Err(missing.to_owned());
    }
    let idle = idle_for_the_disk(&disk);
    let [few, many] = disk.tops([&fewest.name, &most.name])?;
    let less = disk.between(IDLE, (&many, &few), &idle, |many, few| many - few)?;
    let between: Vec<_> = inner.iter().map(|one| (disk, one.name.as_str())).collect();
    let gains = Evidence::best_of(&between, &[(disk, fewest.name.as_str())])?;
    let falls = Evidence::best_of(&[(disk, most.name.as_str())], &between)?;
    let (least, all) = (writers(fewest), writers(most));
    let numbers: Vec<String> = inner.iter().map(|one| writers(one).to_string()).collect();
    let numbers = numbers.join(", ");
    let gains_name = format!("the best peak with {numbers} writers over that with {least}");
    let falls_name = format!("the peak with {all} over the best of these");
    let ours = format!(
        "idle for the disk {:.1} % of the time with {least} writers and {:.1} % with {all}; \
         {gains_name}: {}; {falls_name}: {}",
        100.0 * disk.middle(IDLE, &few, &idle)?,
        100.0 * disk.middle(IDLE, &many, &idle)?,
        show(&gains),
        show(&falls)
    );
    let asked = [
        less.below(0.0, format!("the time idle with {all} writers, less that with {least}")),
        gains.asks(range("S-10", 0), gains_name),
        falls.asks(range("S-10", 1), falls_name),
    ];
    Ok(Finding::all(ours, "idle at the highest rate", &asked))
}

/// Pollers that the kernel puts where it likes cost nothing; that they help where load is uneven
/// takes such a load.
pub(super) fn s11(run: &Evidence<'_>) -> Found<Finding> {
    let of = |value| member(run, "watpipe.pin_pollers", value, |_| true);
    let (floating, pinned) = (of("false")?, of("true")?);
    let ratio = run.peak_ratio(&floating.name, &pinned.name)?;
    let what = format!("{}'s peak over {}'s", floating.name, pinned.name);
    let ours = format!("{what}: {}", show(&ratio));
    let finding = Finding::all(ours, "with an even load", &[ratio.asks(range("S-11", 0), what)]);
    let finding = match finding.verdict {
        // What fails in one half fails.
        Verdict::Holds => {
            let needs = "that half holds; the other takes a load that is uneven over addresses";
            Finding::undecided(finding.ours, needs)
        }
        _ => finding,
    };
    Ok(finding.on(run.processors(4)))
}
