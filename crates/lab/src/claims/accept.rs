//! The claim of [H] on dropped connections (systems.md §2.1), H-11. Rates are multiples of S, the
//! peak of `acceptinf` under an open loop.

use super::arms::preset as target;
use super::evidence::{BEHIND, Evidence, Found, Shown, number};
use super::{Finding, Verdict};
use crate::record::Record;

/// The name of a preset's arm.
fn preset<'a>(run: &Evidence<'a>, architecture: &str) -> Found<&'a str> {
    target(run, architecture).map(|target| target.name.as_str())
}

/// More connections dropped than this share of requests is dropping.
const DROPS: f64 = 0.001;
/// So large a part of the cells has to be sure.
const SURE: f64 = 0.75;

/// The kernel drops connections exactly when replies fall behind requests.
pub(super) fn h11(run: &Evidence<'_>) -> Found<Finding> {
    let mut cells = Vec::new();
    for arm in [preset(run, "acceptinf")?, preset(run, "accept25")?] {
        for (rate, [cell]) in run.common([arm])? {
            let share = |record: &Record| {
                Some(number(record, "listen_overflows_per_s")? / number(record, "offered_per_s")?)
            };
            let drops = run.shown("overflows", &cell, share)?;
            let good = run.shown("good_share", &cell, |record| number(record, "good_share"))?;
            cells.push((format!("{arm} at {rate} S"), drops, good));
        }
    }
    let sides = |looks: usize| cells.iter().map(move |(_, drops, good)| side(drops, good, looks));
    let agree = sides(1).filter(|side| matches!(side, Some((a, b)) if a == b)).count();
    let behind = sides(1).filter(|side| *side == Some((true, true))).count();
    let odd = sides(2 * cells.len()).position(|side| side.is_some_and(|(a, b)| a != b));
    let all = cells.len();
    let most = cells.iter().map(|(_, drops, _)| drops.typical()).fold(0.0, f64::max);
    let ours = format!(
        "they surely go together in {agree} of {all} cells, {behind} of them behind; at most \
         {:.1} % are dropped",
        100.0 * most
    );
    let why = "overflows of the listener's queue over a thousandth of the requests, and less than \
               98 % answered";
    if let Some((name, drops, good)) = odd.and_then(|at| cells.get(at)) {
        let (drops, good) = (100.0 * drops.typical(), 100.0 * good.typical());
        let odd = format!("{name} {drops:.2} % are dropped and {good:.1} % answered; {why}");
        return Ok(Finding::decided(ours, Verdict::Fails, odd));
    }
    let enough = crate::stats::count(agree) >= SURE * crate::stats::count(all);
    if enough && behind > 0 && behind < agree {
        return Ok(Finding::decided(ours, Verdict::Holds, why));
    }
    let needs = "three in four cells that are sure, some behind and some not, are needed";
    Ok(Finding::hidden(ours, format!("{needs}: more blocks, or rates on both sides; {why}")))
}

/// Whether a cell surely drops connections, and whether it surely falls behind.
fn side(drops: &Shown, good: &Shown, looks: usize) -> Option<(bool, bool)> {
    let is = |verdict| match verdict {
        Verdict::Holds => Some(true),
        Verdict::Fails => Some(false),
        Verdict::CannotTell => None,
    };
    let drops = drops.above(DROPS, String::new()).verdict(looks);
    Some((is(drops)?, is(good.below(BEHIND, String::new()).verdict(looks))?))
}
