//! The claim on admission control of stages (SEDA): X-9.

use super::Finding;
use super::evidence::{Evidence, Found, counted, number, option, percent, show};
use crate::experiment::Target;
use crate::experiment::claim_index::range;
use crate::record::Record;

/// The load that admission control is asked about.
const TWICE: f64 = 2.0;

/// Who answers this share has a 90th percentile within the time-out: it is not overloaded.
const ANSWERS: f64 = 0.9;

/// Where the 90th percentile is past the time-out, admission control keeps it near its target.
pub(super) fn x9(run: &Evidence<'_>) -> Found<Finding> {
    let admits = |one: &&Target| option(one, "stages.admission") != "none";
    let missing = "stages (seda) with admission control and without (stages.admission)";
    let with = run.of("seda").find(admits).ok_or(missing)?;
    let without = run.of("seda").find(|one| !admits(one)).ok_or(missing)?;
    let target_ms = option(with, "stages.target_ms");
    let target_ms: f64 =
        target_ms.parse().map_err(|_| "stages.target_ms in milliseconds".to_owned())?;
    let [cell, open] = run.near([&with.name, &without.name], TWICE)?;
    let over = |record: &Record| Some(number(record, "answered_p90_ms")? / target_ms);
    const WHAT: &str = "answered_p90_ms";
    let kept = run.shown(WHAT, &cell, over)?;
    // Without refusals, who has no answer has waited as long as clients do. The times of the few
    // who got one say nothing: they came while nobody was there.
    let free = run.shown("good_share", &open, |record| number(record, "good_share"))?;
    if free.typical() >= ANSWERS {
        let other = &without.name;
        return Err(format!("a load that {other} cannot answer: it answers {}", percent(&free)));
    }
    let refused = |record: &Record| {
        let requests = counted(record, "requests").filter(|requests| *requests > 0.0)?;
        Some(counted(record, "stage_refused")? / requests)
    };
    let refused = run.shown("stage_refused", &cell, refused);
    let refused = refused.map_or("?".to_owned(), |share| percent(&share));
    let ours = format!(
        "90th percentile of {}'s answers over a target of {target_ms:.0} ms: {}; {} of the \
         requests are answered by {}",
        with.name,
        show(&kept),
        percent(&free),
        without.name
    );
    let timeout = &run.run.experiment.workload.timeout;
    let why = format!("at {TWICE} S; {refused} of the requests are refused; time-out {timeout}");
    let asked = [kept.asks(range("X-9", 0), format!("{}'s over its target", with.name))];
    Ok(Finding::all(ours, why, &asked))
}
