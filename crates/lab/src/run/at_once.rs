//! Trials of a block that run at the same time (`measure.at_once`).

use crate::experiment::plan::Planned;
use crate::experiment::{Experiment, Guards};
use crate::journal::Run;
use crate::record::{Cell, Record};
use crate::servers::environments::Rooms;
use crate::servers::make_open;
use crate::trial::beside::{Beside, Set};
use crate::trial::{Attempt, Bench};
use std::panic::resume_unwind;
use std::path::PathBuf;

/// Reason against a trial that has no fault of its own.
const SIBLING: &str = "one that ran at the same time does not count";

/// The trials of a plan that run at once, set after set: every arm of a setting.
pub(super) fn sets<'p>(
    planned: &'p [Planned],
    cells: &'p [Cell],
) -> impl Iterator<Item = &'p [Planned]> {
    planned.chunk_by(|one, next| {
        one.block == next.block && cells[one.cell].setting() == cells[next.cell].setting()
    })
}

/// Makes the trials of a set until all of them count, as often as guards allow: they count
/// together or not at all.
pub(super) fn make(
    run: &mut Run,
    set: &[Planned],
    cells: &[Cell],
    bench: &Bench<'_>,
) -> Result<(), String> {
    let tried = |run: &Run, trial: u32| run.records.iter().filter(|r| r.trial == trial).count();
    let counts = |run: &Run, one: &Planned| run.valid().any(|record| record.trial == one.trial);
    loop {
        let attempt = set.iter().map(|one| tried(run, one.trial)).max().unwrap_or_default();
        let attempt = u32::try_from(attempt).unwrap_or(u32::MAX);
        if attempt > bench.experiment.guards.retries || set.iter().all(|one| counts(run, one)) {
            return Ok(());
        }
        let mut records = at_once(run, set, cells, bench, attempt)?;
        judge(&mut records, bench.experiment);
        // A lab that was killed between two lines has already written some of them.
        records.retain(|record| !run.valid().any(|one| one.trial == record.trial));
        records.into_iter().try_for_each(|record| run.add(record))?;
    }
}

/// Makes each trial once, in a thread of its own.
fn at_once(
    run: &Run,
    set: &[Planned],
    cells: &[Cell],
    bench: &Bench<'_>,
    attempt: u32,
) -> Result<Vec<Record>, String> {
    let all = Set::new(u32::try_from(set.len()).unwrap_or(u32::MAX));
    let Bench { experiment, programs, unit, requests_per_session, stop, .. } = *bench;
    let (root, workload) = (&bench.root, &bench.workload);
    let one = |one: &Planned, scratch: PathBuf, outcome: PathBuf| {
        let beside = Beside::of(&all);
        make_open(&scratch)?;
        let bench = Bench {
            experiment,
            programs,
            root: root.clone(),
            workload: workload.clone(),
            // Such an experiment has no environment.
            rooms: Rooms::new(experiment, &[], root.clone(), &scratch)?,
            scratch,
            unit,
            requests_per_session,
            far: None,
            stop,
            beside: Some(&beside),
        };
        bench.trial(one, &cells[one.cell], Attempt { number: attempt, like: None }, &outcome)
    };
    let one = &one;
    std::thread::scope(|scope| {
        let threads: Vec<_> = set
            .iter()
            .enumerate()
            .map(|(at, planned)| {
                let scratch = bench.scratch.join(at.to_string());
                let outcome = run.outcome_path(planned.trial, attempt);
                scope.spawn(move || one(planned, scratch, outcome))
            })
            .collect();
        let made =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|p| resume_unwind(p)));
        made.collect()
    })
}

/// Subtracts from each trial's foreign use what the others used of the server's processor. If a
/// trial does not count, none does.
fn judge(records: &mut [Record], experiment: &Experiment) {
    let Guards { foreign_max, .. } = experiment.guards;
    let used = |record: &Record| record.metrics.get("server_cpu").copied().unwrap_or_default();
    let all: f64 = records.iter().map(used).sum();
    for record in records.iter_mut() {
        let siblings = all - used(record);
        // Siblings keep each other from the processor as they should.
        record.metrics.remove("kept");
        let Some(foreign) = record.metrics.get_mut("foreign") else { continue };
        *foreign = (*foreign - siblings).max(0.0);
        if *foreign > foreign_max {
            let [foreign, most] = [*foreign, foreign_max].map(|share| 100.0 * share);
            record.reasons.push(format!(
                "others used the server's processor: {foreign:.2} %, over {most:.2} %"
            ));
            record.valid = false;
        }
    }
    if records.iter().any(|record| !record.valid) {
        for record in records.iter_mut().filter(|record| record.valid) {
            record.valid = false;
            record.reasons.push(SIBLING.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::plan::{cells, order};
    use crate::experiment::{Scale, parse};
    use crate::record::numbers;

    const TEXT: &str = r#"
experiment = { name = "x", question = "?", expect = "!" }
targets.a = {}
targets.b = {}
workload = { root = ".", loop = "open", rate = 100 }
machine = { server_cpus = "0", layout = "together" }
measure = { blocks = 2, at_once = true }
[factors]
"workload.rate" = [10, 20]
"#;

    #[test]
    fn a_set_is_every_arm_of_a_setting() {
        let experiment = parse("x", TEXT, Scale::Quick).unwrap();
        let cells = cells(&experiment);
        let planned = order(&experiment);
        let sets: Vec<&[Planned]> = sets(&planned, &cells).collect();
        assert_eq!(sets.len(), 4, "two rates, two blocks");
        for set in sets {
            let rate = |one: &Planned| &cells[one.cell].levels["workload.rate"];
            assert!(set.len() == 3 && set.iter().all(|one| rate(one) == rate(&set[0])));
        }
    }

    #[test]
    fn they_count_together_and_use_the_processor_beside_each_other() {
        let experiment = parse("x", TEXT, Scale::Quick).unwrap();
        let record = |valid, foreign| Record {
            valid,
            metrics: numbers([("server_cpu", 0.1), ("foreign", foreign), ("kept", 0.3)]),
            ..Record::default()
        };
        let judged = |foreign, valid| {
            let mut records = vec![record(true, 0.2), record(valid, foreign), record(true, 0.25)];
            judge(&mut records, &experiment);
            records
        };
        let fine = judged(0.29, true);
        assert!(fine.iter().all(|record| record.valid && !record.metrics.contains_key("kept")));
        assert!((fine[1].metrics["foreign"] - 0.09).abs() < 1e-9, "{:?}", fine[1].metrics);
        let others = judged(0.31, true);
        assert!(others.iter().all(|record| !record.valid));
        assert!(others[1].reasons[0].contains("11.00 %, over 10.00 %"), "{:?}", others[1].reasons);
        assert_eq!(others[0].reasons, [SIBLING]);
        let broken = judged(0.2, false);
        assert_eq!((broken[0].valid, broken[2].reasons.len()), (false, 1));
    }
}
