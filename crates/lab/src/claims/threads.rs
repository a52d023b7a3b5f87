//! The claim of [E] §4 on what user threads cost: E-19.

use super::Finding;
use super::arms::{events, sending, sends};
use super::evidence::{Evidence, Found, Shown, percent, show};
use super::processes::waits;
use crate::experiment::claim_index::range;
use crate::profile::categories::Category;
use crate::profile::{Profile, Source};

/// The share of the processor that an arm's last profile gives to a category.
fn profiled(run: &Evidence<'_>, arm: &str, category: Category) -> Option<Shown> {
    let all = Profile::all(&run.run.directory);
    let own = all.iter().rfind(|one| one.cell.arm == arm && one.source == Source::Perf)?;
    Some(Shown::sampled(own.share(category), own.samples)?.among(run.looks))
}

/// User threads cost a part of the processor, and events win.
pub(super) fn e19(run: &Evidence<'_>) -> Found<Finding> {
    waits(run)?;
    let (mut told, mut asked) = (Vec::new(), Vec::new());
    let knots = ["inline", "try-first", "blocking"].map(|how| sending(run, how)).concat();
    for target in knots {
        if let Some(share) = profiled(run, &target.name, Category::Thread) {
            told.push(format!("threads cost {} {}", target.name, percent(&share)));
            asked.push(
                share.asks(range("E-19", 0), format!("the threads' share of {}", target.name)),
            );
        }
    }
    if asked.is_empty() {
        return Err("profiles of user threads (measure.profile, and perf)".to_owned());
    }
    let best = sends(run, "blocking")?;
    let events = events(run)?;
    let above: Vec<_> = events.iter().map(|one| (*run, one.name.as_str())).collect();
    let ahead = Evidence::best_of(&above, &[(*run, best.name.as_str())])?;
    let what = format!("the best event-driven peak over {}'s", best.name);
    told.push(format!("{what}: {}", show(&ahead)));
    asked.push(ahead.asks(range("E-19", 1), what));
    let why =
        "shares of one profile each, as the paper's: their intervals are of its samples alone";
    Ok(Finding::all(told.join("; "), why, &asked))
}
