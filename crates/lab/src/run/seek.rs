//! A disk that is as slow as its processor: the seek with which one event loop waits for it as long
//! as in the papers.

use super::{Options, bench_of};
use crate::env::Lack;
use crate::experiment::plan::SEEK_TRIAL_S;
use crate::experiment::{Experiment, Program, Target};
use crate::journal::Run;
use crate::journal::manifest::SeekChoice;
use crate::trial::Bench;
use std::path::Path;

/// Distance of the found share from the wanted one at most, if tries do not run out.
const NEAR: f64 = 0.02;
const TRIES: u32 = 6;
/// Below this share files are in memory, and no seek makes a process wait.
const WAITS_MIN: f64 = 0.02;
/// Seeks of disks, milliseconds.
const SEEK_MS: (f64, f64) = (0.1, 1_000.0);
/// Options that concern any architecture.
const SHARED: [&str; 5] = ["accept.", "cache.", "content.", "limits.", "event.poller"];

/// The share of the time for which one event loop is to wait; None: the disk is as the file says.
fn wanted(experiment: &Experiment) -> Option<f64> {
    let calibrate = experiment.calibrate.as_ref()?;
    (calibrate.disk_wait > 0.0).then_some(calibrate.disk_wait)
}

/// Whether a run has yet to find the seek of its disk.
pub(super) fn is_wanted(run: &Run) -> bool {
    run.manifest.seek.is_none() && wanted(&run.experiment).is_some()
}

/// Finds the seek, and notes it.
pub(super) fn calibrate(
    run: &mut Run,
    bench: &Bench<'_>,
    lacking: &[Lack],
    options: &Options<'_>,
    directory: &Path,
) -> Result<(), String> {
    let Some((disk, wanted)) =
        run.experiment.environment.disk.as_ref().zip(wanted(&run.experiment))
    else {
        return Ok(());
    };
    let outcome = run.directory.join("outcomes/disk.json");
    let found = search(disk.seek_ms, wanted, |seek_ms| {
        let mut tried = one_loop(&run.experiment);
        tried.take_found(None, Some(seek_ms));
        let place = (bench.root.clone(), bench.workload.clone());
        let bench = bench_of((&tried, lacking), place, options, directory)?;
        bench.waits_for_disk(SEEK_TRIAL_S, &outcome)
    })?;
    run.manifest.seek = found;
    run.experiment.take_found(None, found.map(|choice| choice.seek_ms));
    run.save_manifest()
}

/// The experiment with one event loop as its only server, with the options that all servers share.
fn one_loop(experiment: &Experiment) -> Experiment {
    let regattas = || experiment.targets.iter().filter(|target| target.is_ours());
    let mut config = regattas().next().map_or_else(Default::default, |one| one.config.clone());
    config.retain(|key, value| {
        let shared = SHARED.iter().any(|part| key.starts_with(part));
        shared && regattas().all(|other| other.config.get(key) == Some(value))
    });
    config.insert("server.architecture".to_owned(), "sped".to_owned());
    let name = "one-event-loop".to_owned();
    let target = Target { name: name.clone(), program: Program::Regatta, config, binary: None };
    Experiment { baseline: name, targets: vec![target], factors: Vec::new(), ..experiment.clone() }
}

/// The seek with which the wanted share of the time is waited, or the best that was tried. None:
/// nothing is waited for, or there is no number.
fn search(
    first_ms: f64,
    wanted: f64,
    mut waits: impl FnMut(f64) -> Result<Option<f64>, String>,
) -> Result<Option<SeekChoice>, String> {
    // Time at the disk over time of the processor, which grows with the seek.
    let odds = |share: f64| share / (1.0 - share);
    let (mut seek_ms, mut best): (f64, Option<SeekChoice>) = (first_ms, None);
    for _ in 0..TRIES {
        let Some(share) = waits(seek_ms)?.filter(|share| *share >= WAITS_MIN) else { break };
        let share = share.min(0.99);
        let away = |choice: &SeekChoice| (choice.waits - wanted).abs();
        let found = SeekChoice { seek_ms, waits: share };
        best = Some(best.filter(|best| away(best) <= away(&found)).unwrap_or(found));
        if away(&found) <= NEAR {
            break;
        }
        seek_ms = (seek_ms * odds(wanted) / odds(share)).clamp(SEEK_MS.0, SEEK_MS.1);
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Scale, library, parse};

    /// A loop that waits for `fixed` ms and a seek for each reply of `cpu` ms.
    fn share(fixed: f64, cpu: f64, seek_ms: f64) -> f64 {
        (fixed + 0.01 * seek_ms) / (fixed + 0.01 * seek_ms + cpu)
    }

    #[test]
    fn the_seek_is_found_on_slow_and_fast_machines() {
        for (fixed, cpu) in [(0.03, 0.229), (0.03, 0.366), (0.0, 0.1), (0.1, 0.4), (0.03, 2.0)] {
            let mut tried = 0;
            let found = search(18.0, 0.333, |seek_ms| {
                tried += 1;
                Ok(Some(share(fixed, cpu, seek_ms)))
            });
            let found = found.unwrap().unwrap();
            assert!((found.waits - 0.333).abs() <= 0.02, "{fixed}, {cpu}: {found:?}");
            assert_eq!(found.waits, share(fixed, cpu, found.seek_ms));
            assert!(tried <= 6, "{fixed}, {cpu}: {tried}");
        }
    }

    #[test]
    fn where_nothing_waits_the_disk_stays_as_it_is() {
        for waits in [None, Some(0.0), Some(0.01)] {
            assert_eq!(search(18.0, 0.333, |_| Ok(waits)), Ok(None));
        }
        assert_eq!(search(18.0, 0.333, |_| Err("no".to_owned())), Err("no".to_owned()));
        // More than any seek explains: the nearest share that was seen.
        let far = search(18.0, 0.333, |seek_ms| Ok(Some(0.5 + seek_ms / 1e4))).unwrap().unwrap();
        assert!(far.seek_ms < 1.0 && far.waits > 0.49, "{far:?}");
    }

    #[test]
    fn one_loop_has_what_all_servers_share() {
        let text = library::find("eurosys07-fig5").unwrap();
        let experiment = parse("x", text, Scale::Quick).unwrap();
        let loops = one_loop(&experiment);
        let [target] = &loops.targets[..] else { panic!("{:?}", loops.targets) };
        assert_eq!(target.config["server.architecture"], "sped");
        assert_eq!(target.config["event.poller"], "poll");
        assert!(!target.config.contains_key("event.processes"));
        assert!(!target.config.contains_key("limits.connections_max"), "servers differ in it");
        assert_eq!(loops.environment, experiment.environment);
    }
}
