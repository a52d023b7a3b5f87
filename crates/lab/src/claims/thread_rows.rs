//! The claims on threads and pools, against worlds in which they are true and in which not.

use super::rows::{Numbers, World, check, found, peak, run_in, verdict};
use super::*;
use crate::experiment::Scale;
use crate::folder::Folder;
use crate::profile::Profile;
use crate::profile::categories::Category;
use crate::record::Cell;
use Verdict::{CannotTell as Cannot, Fails, Holds};
use std::sync::OnceLock;

/// User threads are behind events, as in table 1 and figure 7.
fn as_measured(arm: &str, rate: f64, _: &Cell) -> Numbers {
    let most = match arm {
        "knot-c" => 0.74,
        "knot-nb" => 0.8,
        "knot-b" => 0.86,
        _ => 1.0,
    };
    peak(rate, most)
}

/// The threads' share of each arm's profile decides, by the number of its samples.
#[test]
fn what_user_threads_cost() {
    let judged = |share: f64, samples: u64, world: World| {
        let mut run = run_in(found("eurosys07-table1"), world);
        run.experiment.claims = vec!["E-19".to_owned()];
        let folder = Folder::new("lab-test");
        run.directory = folder.to_path_buf();
        let profile = |arm: &str| Profile {
            cell: Cell {
                arm: arm.to_owned(),
                target: arm.to_owned(),
                ..run.records[0].cell.clone()
            },
            source: crate::profile::Source::Perf,
            categories: [(Category::Thread.name().to_owned(), share)].into(),
            replies: 1.0,
            samples,
            metrics: run.records[0].metrics.clone(),
            ..Profile::default()
        };
        let lines =
            ["knot-nb", "knot-b"].map(|arm| serde_json::to_string(&profile(arm)).unwrap() + "\n");
        std::fs::create_dir_all(run.directory.join("profiles")).unwrap();
        std::fs::write(run.directory.join("profiles/index.jsonl"), lines.concat()).unwrap();
        let saved = folder.join("saved");
        run.save(&saved).unwrap();
        let (told, again) = (judge(&run).remove(0), judge(&Run::open(&saved).unwrap()).remove(0));
        assert_eq!(told.verdict, again.verdict, "one file says the same");
        told
    };
    let told = |share, samples, world| judged(share, samples, world).verdict;
    assert_eq!(told(0.085, 4_000, as_measured), Holds);
    assert_eq!(told(0.14, 4_000, as_measured), Fails);
    assert_eq!(told(0.01, 4_000, as_measured), Fails);
    // A sample this small does not decide two per cent.
    assert_eq!(told(0.085, 150, as_measured), Cannot);
    // Threads cost as much, and events are no better.
    assert_eq!(told(0.085, 4_000, |_, rate, _| peak(rate, 1.0)), Fails);
    assert_eq!(verdict("E-19", "eurosys07-table1", as_measured).verdict, Cannot);
}

/// Caps of 375 and 750 user threads, with two helpers and with five.
#[test]
fn caps_on_user_threads() {
    fn little(arm: &str, rate: f64, few: f64) -> Numbers {
        let cap: f64 = arm.split('-').nth(2).unwrap().parse().unwrap();
        let few = if arm == "knot-nb-375-2" { few } else { 1.0 };
        static OFF_S: OnceLock<f64> = OnceLock::new();
        let off_s = *OFF_S.get_or_init(|| {
            let experiment =
                crate::experiment::parse("x", found("eurosys07-fig2"), Scale::Replica).unwrap();
            model::off_s_per_request(&experiment.workload).unwrap()
        });
        let most = cap / (off_s + 0.002);
        let good = (rate * 750.0 / (off_s + 0.002)).min(most) * few;
        vec![("good_per_s", good), ("service_p50_ms", 2.0), ("disk_wait_s", 0.1)]
    }
    check(
        "eurosys07-fig2",
        &[
            ("E-17", Holds, |arm, rate, _| little(arm, rate, 1.0)),
            // Fewer helpers do less under the same cap.
            ("E-17", Fails, |arm, rate, _| little(arm, rate, 0.8)),
            ("E-17", Cannot, |_, rate, _| peak(rate, 1.0)),
        ],
    );
}
