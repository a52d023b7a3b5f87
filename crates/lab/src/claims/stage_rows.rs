//! The claims on stages, against worlds in which they are true and in which not.

use super::rows::{Numbers, but, check, check_text, nothing, peak};
use super::thread_rows::with;
use super::*;
use crate::record::Cell;
use Verdict::{CannotTell as Cannot, Fails, Holds};

/// What a pipeline on a disk does: so much at most, while it idles for the disk this share of the
/// time. It has a quarter of a processor.
fn idling(rate: f64, most: f64, idle: f64) -> Numbers {
    but(peak(rate, most), &[("server_cpu", 0.25 * (1.0 - idle)), ("disk_busy_share", 0.5)])
}

/// The paper's figure 6: with many connections one writer waits for the disk, and is behind.
fn by_writers(arm: &str, rate: f64, one: [f64; 2], five: f64, ten: f64) -> Numbers {
    match arm {
        "watpipe4-750-1" => idling(rate, one[0], one[1]),
        "watpipe4-750-5" => idling(rate, 1.0, five),
        "watpipe4-750-10" => idling(rate, ten, five),
        _ => idling(rate, 0.75, 0.02),
    }
}

#[test]
fn writers_of_a_pipeline() {
    check(
        "eurosys07-fig6",
        &[
            ("E-21", Holds, |arm, rate, _| by_writers(arm, rate, [0.88, 0.14], 0.01, 1.0)),
            // One writer does as much.
            ("E-21", Fails, |arm, rate, _| by_writers(arm, rate, [1.0, 0.14], 0.01, 1.0)),
            // It does less, and not because it waits.
            ("E-21", Fails, |arm, rate, _| by_writers(arm, rate, [0.88, 0.14], 0.14, 1.0)),
            // Five are not enough either.
            ("E-21", Fails, |arm, rate, _| by_writers(arm, rate, [0.88, 0.14], 0.01, 1.15)),
            ("E-21", Cannot, nothing),
            ("E-22", Holds, |arm, rate, _| by_writers(arm, rate, [0.88, 0.14], 0.01, 1.0)),
            ("E-22", Fails, |arm, rate, _| {
                peak(rate, if arm == "watpipe4-375-1" { 0.66 } else { 0.75 })
            }),
            ("E-22", Cannot, nothing),
        ],
    );
}

/// Five writers share a queue so unevenly; two with equal parts do so much of what they do.
fn sharing(arm: &str, rate: f64, spread: f64, two: f64) -> Numbers {
    let most = if arm == "watpipe4-2-batch" { two } else { 1.0 };
    but(peak(rate, most), &[("write.spread", spread)])
}

#[test]
fn ways_to_share_work_among_writers() {
    check(
        "eurosys07-writers",
        &[
            ("E-24", Holds, |arm, rate, _| sharing(arm, rate, 0.6, 1.02)),
            ("E-24", Fails, |arm, rate, _| sharing(arm, rate, 0.05, 1.02)),
            ("E-24", Fails, |arm, rate, _| sharing(arm, rate, 0.6, 0.85)),
            // Its threads are not counted one by one.
            ("E-24", Cannot, |arm, rate, _| sharing(arm, rate, f64::NAN, 1.02)),
            ("E-24", Cannot, nothing),
        ],
    );
}

#[test]
fn a_pipeline_beside_events() {
    fn of(arm: &str, rate: f64, pipeline: f64, other: f64) -> Numbers {
        let most = match arm {
            "watpipe4" => pipeline,
            "symped-4" => other,
            "shared-symped-10" => 1.0,
            _ => 0.8,
        };
        peak(rate, most)
    }
    check(
        "eurosys07-knot",
        &[
            ("E-23", Holds, |arm, rate, _| of(arm, rate, 1.0, 1.0)),
            ("E-23", Fails, |arm, rate, _| of(arm, rate, 0.9, 1.0)),
            // It is ahead of one, and behind the best.
            ("E-23", Fails, |arm, rate, _| of(arm, rate, 0.9, 0.8)),
            ("E-23", Fails, |arm, rate, _| of(arm, rate, 1.12, 1.0)),
            ("E-23", Cannot, |arm, rate, _| of(arm, rate, 0.97, 1.0)),
            // The first event-driven server, run twice, is farther from itself than that.
            ("E-23", Cannot, |arm, rate, cell| {
                let again = cell.arm != cell.target;
                if again { peak(rate, 1.06) } else { of(arm, rate, 0.94, 1.0) }
            }),
            ("E-23", Cannot, nothing),
        ],
    );
}

/// Where half of the files are on a disk, one writer waits for it most, and 25 are the best.
fn writers(cell: &Cell, rate: f64, waits: [f64; 5], peaks: [f64; 5]) -> Numbers {
    if cell.levels["environment.memory_share"] == "2" {
        return vec![("good_per_s", 1_000.0 * rate.min(1.2))];
    }
    let number = cell.target.rsplit('-').next().unwrap();
    let at = ["1", "2", "4", "25", "125"].iter().position(|one| *one == number).unwrap();
    idling(rate, peaks[at], waits[at])
}

#[test]
fn an_optimum_of_writers() {
    const WAITS: [f64; 5] = [0.45, 0.35, 0.2, 0.06, 0.02];
    const PEAKS: [f64; 5] = [0.6, 0.75, 0.9, 1.0, 0.9];
    check(
        "systor12-writers",
        &[
            ("S-10", Holds, |_, rate, cell| writers(cell, rate, WAITS, PEAKS)),
            // More are better without end.
            ("S-10", Fails, |_, rate, cell| {
                writers(cell, rate, WAITS, [0.6, 0.75, 0.85, 0.9, 1.0])
            }),
            // One is the best.
            ("S-10", Fails, |_, rate, cell| writers(cell, rate, WAITS, [1.0, 0.9, 0.85, 0.8, 0.7])),
            // More are worse in the end, and none of them waits less.
            ("S-10", Fails, |_, rate, cell| writers(cell, rate, [0.02, 0.1, 0.2, 0.3, 0.4], PEAKS)),
            ("S-10", Cannot, nothing),
            // One processor.
            ("S-9", Cannot, nothing),
        ],
    );
    check("systor12-pollers", &[("S-11", Cannot, nothing)]);
    check("systor12-fig2", &[("S-15", Cannot, nothing)]);
}

/// What takes four processors.
#[test]
fn pipelines_over_processors() {
    let text = |claim: &str, arms: &[[&str; 3]], row: &str| {
        let keys = "workload.root = \".\"\n\
                    machine = { server_cpus = \"0-3\", client_cpus = \"9\" }\n";
        with("", keys, arms) + &format!("[[claim]]\nid = {claim:?}\n{row}\n")
    };
    fn with_peak(arm: &str, one: &str, most: f64) -> Numbers {
        vec![("good_per_s", if arm == one { 1_000.0 * most } else { 1_000.0 })]
    }
    check_text(
        &text(
            "S-9",
            &[
                ["one", "watpipe5", "watpipe.writers=1"],
                ["four", "watpipe5", "watpipe.writers=4"],
                ["many", "watpipe5", "watpipe.writers=100"],
            ],
            r#"needs = ["cached"]
            asks = [{ peak = ["four", ["one", "many"]], is = ">0.98" }]"#,
        ),
        &[
            ("S-9", Holds, |arm, _, _| with_peak(arm, "four", 1.05)),
            ("S-9", Fails, |arm, _, _| with_peak(arm, "many", 1.1)),
            ("S-9", Fails, |arm, _, _| with_peak(arm, "one", 1.1)),
            // Somebody waits for a disk.
            ("S-9", Cannot, |_, rate, _| peak(rate, 1.0)),
        ],
    );
    check_text(
        &text(
            "S-11",
            &[
                ["floating", "watpipe5", "watpipe.writers=4"],
                ["pinned", "watpipe5", "watpipe.writers=4 watpipe.pin_pollers=true"],
            ],
            r#"half = "a load that is uneven over addresses"
            asks = [{ peak = ["floating", "pinned"], is = ">0.98" }]"#,
        ),
        &[
            // That is half of the claim.
            ("S-11", Cannot, nothing),
            ("S-11", Fails, |arm, _, _| with_peak(arm, "floating", 0.9)),
        ],
    );
    check_text(
        &text(
            "S-15",
            &[
                ["all", "watpipe5", "watpipe.writers=4"],
                ["copies", "watpipe5", "watpipe.writers=1 event.copies=4"],
            ],
            r#"asks = [{ peak = ["all", "copies"], is = ">0.95" }]"#,
        ),
        &[("S-15", Holds, nothing), ("S-15", Fails, |arm, _, _| with_peak(arm, "all", 0.8))],
    );
}

/// What a reply of each server of `stages-cost` takes: switches, and the most it answers.
fn costs(arm: &str, seda: [f64; 2], batched: [f64; 2]) -> Numbers {
    let [switches, most] = match arm {
        "seda" => [seda[0] * batched[0], seda[1] * batched[1]],
        "seda-whole" | "haboob-2002" => seda,
        _ => [0.2, 1.0],
    };
    vec![("switches_per_reply", switches), ("good_per_s", 1_000.0 * most)]
}

#[test]
fn what_stages_cost() {
    check(
        "stages-cost",
        &[
            ("X-6", Holds, |arm, _, _| costs(arm, [1.2, 0.7], [1.0, 1.0])),
            // A few more switches.
            ("X-6", Fails, |arm, _, _| costs(arm, [0.4, 0.7], [1.0, 1.0])),
            // Many, and they cost nothing.
            ("X-6", Fails, |arm, _, _| costs(arm, [1.2, 1.1], [1.0, 1.0])),
            ("X-6", Cannot, |arm, rate, _| but(costs(arm, [1.2, 0.7], [1.0; 2]), &peak(rate, 1.0))),
            ("X-7", Holds, |arm, _, _| costs(arm, [1.2, 0.7], [0.7, 1.0])),
            ("X-7", Fails, |arm, _, _| costs(arm, [1.2, 0.7], [1.2, 1.0])),
            // It saves switches, and throughput is lost.
            ("X-7", Fails, |arm, _, _| costs(arm, [1.2, 0.7], [0.7, 0.85])),
            ("X-7", Cannot, nothing),
        ],
    );
}

#[test]
fn pools_of_stages() {
    fn threads(disk: f64, cache: f64) -> Numbers {
        vec![
            ("disk_wait_s", 0.3),
            ("disk.threads_open_max", disk),
            ("cache.threads_open_max", cache),
            ("parse.threads_open_max", 1.0),
            // Of all of them together.
            ("threads_open_max", 20.0),
        ]
    }
    check(
        "seda-disk",
        &[
            ("X-8", Holds, |_, _, _| threads(12.0, 1.0)),
            ("X-8", Fails, |_, _, _| threads(1.0, 1.0)),
            ("X-8", Fails, |_, _, _| threads(12.0, 4.0)),
            ("X-8", Cannot, |_, _, _| vec![("disk_wait_s", 0.3)]),
            ("X-8", Cannot, nothing),
        ],
    );
}

#[test]
fn admission_and_fairness() {
    /// The 90th percentile with admission control, and what is answered without.
    fn p90(arm: &str, with: f64, without: f64) -> Numbers {
        let (p90_ms, good) = if arm == "seda-open" { (450.0, without) } else { (with, 0.5) };
        let all = [("answered_p90_ms", p90_ms), ("good_share", good), ("requests", 1_000.0)];
        [&all[..], &[("stage_refused", 480.0)]].concat()
    }
    check(
        "seda-overload",
        &[
            ("X-9", Holds, |arm, _, _| p90(arm, 300.0, 0.5)),
            // Without it all are answered in time: there is nothing to control.
            ("X-9", Cannot, |arm, _, _| p90(arm, 300.0, 1.0)),
            ("X-9", Cannot, |arm, _, _| p90(arm, 600.0, 1.0)),
            ("X-9", Fails, |arm, _, _| p90(arm, 600.0, 0.5)),
            // It refuses far more than it has to.
            ("X-9", Fails, |arm, _, _| p90(arm, 150.0, 0.5)),
            ("X-9", Cannot, |arm, _, _| p90(arm, 360.0, 0.5)),
            // Without it nobody is answered in time.
            ("X-9", Holds, |arm, _, _| match arm {
                "seda-open" => vec![("good_share", 0.0), ("requests", 1_000.0)],
                _ => p90(arm, 300.0, 0.5),
            }),
            // Nearly nobody is, and those at once.
            ("X-9", Holds, |arm, _, _| match arm {
                "seda-open" => but(p90(arm, 300.0, 0.03), &[("answered_p90_ms", 5.0)]),
                _ => p90(arm, 300.0, 0.5),
            }),
            ("X-9", Cannot, nothing),
        ],
    );
    fn fair(arm: &str, stages: f64, processes: f64) -> Numbers {
        vec![("fairness", if arm == "mp" { processes } else { stages })]
    }
    check(
        "stages-fair",
        &[
            ("X-10", Holds, |arm, _, _| fair(arm, 0.999, 0.32)),
            ("X-10", Fails, |arm, _, _| fair(arm, 0.9, 0.32)),
            ("X-10", Fails, |arm, _, _| fair(arm, 0.995, 0.999)),
            ("X-10", Cannot, nothing),
        ],
    );
}

#[test]
fn batches_by_stage() {
    fn cycles(arm: &str, cycles: f64, p50_ms: f64) -> Numbers {
        let [cycles, p50_ms] = if arm == "completion" { [1.0, 2.0] } else { [cycles, p50_ms] };
        vec![("cycles_per_instruction", cycles), ("p50_ms", p50_ms)]
    }
    check(
        "cohort",
        &[
            ("X-16", Holds, |arm, _, _| cycles(arm, 0.85, 2.4)),
            ("X-16", Fails, |arm, _, _| cycles(arm, 0.99, 2.4)),
            // It saves cycles, and nobody waits for that.
            ("X-16", Fails, |arm, _, _| cycles(arm, 0.85, 1.8)),
            // The processor does not count.
            ("X-16", Cannot, |arm, _, _| cycles(arm, f64::NAN, 2.4)),
        ],
    );
}
