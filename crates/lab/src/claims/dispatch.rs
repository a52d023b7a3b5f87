//! Claims on how new connections and ready descriptors are found out about, across architectures
//! ([H] §7, [E] §7 and §9): H-12, H-13, E-26, E-27.

use super::Finding;
use super::evidence::{Evidence, Family, Found, Shown, number, option, show};
use super::sharing::member;
use super::shown::{Part, any};
use crate::experiment::Target;
use crate::experiment::claim_index::range;
use crate::stats::with;

/// A gap that changes by less stays as it was.
const SAME: f64 = 0.05;

fn architecture(target: &Target) -> &str {
    option(target, "server.architecture")
}

fn strategy(count: &str) -> String {
    if count == "0" { "no limit".to_owned() } else { format!("a limit of {count}") }
}

/// What an architecture gains by one accept strategy over another, beside what a second one does:
/// gain over gain, block by block.
fn gain_ratio(run: &Evidence<'_>, arms: [&Target; 4]) -> Found<Shown> {
    let cells = run.tops(arms.map(|target| target.name.as_str()))?;
    let [one, two, other_one, other_two] =
        cells.each_ref().map(|cell| run.blocks(cell, |record| number(record, "good_per_s")));
    let gain = |good: f64, below: f64| good / below;
    let gains = [with(&one, &two, gain), with(&other_one, &other_two, gain)];
    run.compared((&cells[0].arm, &gains[0]), (&cells[2].arm, &gains[1]))
}

/// The best accept strategy depends on the architecture.
pub(super) fn h13(run: &Evidence<'_>) -> Found<Finding> {
    let families = run.families("accept.count");
    let mut told = Vec::new();
    for family in &families {
        let mut goods = Vec::new();
        for (target, count) in family {
            goods.push((run.metric(&run.top(&target.name)?, "good_per_s")?, *count));
        }
        goods.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(worst), Some(best)) = (goods.first(), goods.last()) else { continue };
        told.push(format!(
            "{}: {} is best, {:.2} of {}",
            architecture(family[0].0),
            strategy(best.1),
            best.0 / worst.0,
            strategy(worst.1)
        ));
    }
    let counts: Vec<&str> = match families.split_first() {
        Some((first, others)) if !others.is_empty() => {
            let everywhere = |count: &str| {
                others.iter().all(|family| family.iter().any(|(_, other)| *other == count))
            };
            first.iter().map(|(_, count)| *count).filter(|count| everywhere(count)).collect()
        }
        _ => Vec::new(),
    };
    if counts.len() < 2 {
        return Err("several architectures with several accept counts".into());
    }
    let parts: Found<Vec<_>> = counts.iter().map(|count| beaten(run, &families, count)).collect();
    let why = "good answers at the highest rate; none of the strategies that all were seen with is \
               within 5 % of the best in every architecture";
    Ok(Finding::parts(told.join("; "), why, parts?))
}

/// Whether in one architecture at least a strategy is surely behind another.
fn beaten(run: &Evidence<'_>, families: &[Family<'_>], count: &str) -> Found<Part> {
    let mut asked = Vec::new();
    for family in families {
        let Some((own, _)) = family.iter().find(|(_, has)| *has == count) else { continue };
        for (other, better) in family.iter().filter(|(_, has)| *has != count) {
            let [one, beside] = run.tops([&own.name, &other.name])?;
            let of = architecture(own);
            let what = format!("{of} with {} over {}", strategy(count), strategy(better));
            asked.push(run.ratio(&one, &beside, "good_per_s")?.below(1.0 / (1.0 + SAME), what));
        }
    }
    Ok(any(&asked))
}

/// With another accept strategy in all of them, gaps between architectures change.
pub(super) fn e26(run: &Evidence<'_>) -> Found<Finding> {
    let families = run.families("accept.count");
    let named = |family: &[(&'_ Target, &'_ str)], count: &str| {
        family.iter().position(|(_, value)| *value == count)
    };
    let (mut told, mut asked) = (Vec::new(), Vec::new());
    for (at, above) in families.iter().enumerate() {
        for below in &families[at + 1..] {
            let both =
                |family: &[(&'_ Target, &'_ str)]| Some((named(family, "1")?, named(family, "0")?));
            let (Some(a), Some(b)) = (both(above), both(below)) else { continue };
            let arms = [above[a.0].0, above[a.1].0, below[b.0].0, below[b.1].0];
            let cells = run.tops(arms.map(|target| target.name.as_str()))?;
            let names = format!("{} over {}", architecture(arms[0]), architecture(arms[2]));
            told.push(format!(
                "{names}: {} with Accept1, {} with AcceptInf",
                show(&run.ratio(&cells[0], &cells[2], "good_per_s")?),
                show(&run.ratio(&cells[1], &cells[3], "good_per_s")?)
            ));
            let what = format!("the gap of {names} with Accept1 beside that with AcceptInf");
            asked.push(gain_ratio(run, arms)?.unequal(SAME, what));
        }
    }
    if told.is_empty() {
        return Err("two architectures, each with accept counts of 1 and 0".to_owned());
    }
    let why = "gaps at the highest rate; a change of 5 % is one";
    Ok(Finding::any(told.join("; "), why, &asked))
}

/// epoll costs less than poll, and answers as much.
pub(super) fn e27(run: &Evidence<'_>) -> Found<Finding> {
    let of = |poller| member(run, "event.poller", poller, |_| true).map(|one| one.name.as_str());
    let (epoll, poll) = (of("epoll")?, of("poll")?);
    let peak = run.peak_ratio(epoll, poll)?;
    let [top, under] = run.tops([epoll, poll])?;
    let cost = run.ratio(&top, &under, "cpu_us_per_reply")?;
    let asks = run.share(&under, "wait_interest_sum", "wait_calls")?;
    let ours = format!("processor time per reply {}, peak {}", show(&cost), show(&peak));
    let why = format!("poll asks about {asks:.0} descriptors at each wait at the highest rate");
    if asks < 100.0 {
        return Ok(Finding::undecided(ours, format!("hundreds of descriptors are needed: {why}")));
    }
    let asked = [
        cost.below(1.0, "processor time per reply, epoll over poll,"),
        peak.asks(range("E-27", 0), "the peak, epoll over poll,"),
    ];
    Ok(Finding::all(ours, why, &asked))
}
