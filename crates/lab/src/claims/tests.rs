//! Predicates over runs made up so that the answer is known.

use super::*;
use crate::analysis::tests::made_up;
use crate::plan::Cell;
use std::collections::BTreeMap;

const TEXT: &str = r#"
[experiment]
name = "made-up"
question = "?"
expect = "!"
claims = ["H-1", "H-3", "H-4", "H-6", "H-7", "H-8", "H-9", "H-10", "H-11", "H-2", "E-1", "X-99"]
baseline = "acceptinf"
[targets]
acceptinf.program = "regatta"
accept1.program = "regatta"
accept25.program = "regatta"
accept125.program = "regatta"
eager.program = "regatta"
"eager+close".program = "regatta"
cm.program = "regatta"
[factors]
"workload.rate" = ["0.95x", "1.2x", "1.43x", "1.67x"]
[workload]
root = "."
loop = "open"
[calibrate]
target = "acceptinf"
[measure]
blocks = 6
"#;

/// A world in which [H] is right (or, with `wrong`, in which nothing differs).
fn world(cell: &Cell, wrong: bool) -> BTreeMap<String, f64> {
    let rate: f64 = cell.levels["workload.rate"].trim_end_matches('x').parse().unwrap();
    let past = (rate - 1.0).max(0.0);
    let arm = if wrong { "acceptinf" } else { cell.target.as_str() };
    let (peak, fall, open, vain) = match arm {
        "accept1" => (0.75, 0.1, 10.0, 0.0),
        "accept25" => (1.0, 0.02, 100.0, 0.0),
        "accept125" => (1.0, 0.6, 200.0, 0.0),
        "eager" => (0.97, 0.3, 400.0, 0.0),
        "cm" => (0.97, 1.2, 9_000.0, past * 0.4),
        _ => (1.0, 0.5, 300.0, 0.0),
    };
    let good = rate.min(peak) - past * fall;
    let drops = if good < 0.98 * rate { 500.0 } else { 0.0 };
    let accepts = if arm == "eager+close" { 107.0 } else { 113.0 };
    [
        ("good_per_s", 1_000.0 * good),
        ("mean_ms", 1.0 + past),
        ("good_share", good / rate),
        ("listen_overflows_per_s", drops),
        ("disk_wait_s", 0.0),
        ("window_s", 1.0),
        ("recv_would_block", 100.0 * vain),
        ("recv_calls", 100.0),
        ("connections_open_at_accept_sum", open * 100.0),
        ("accept_ok", 100.0),
        ("accept_calls", accepts),
        ("accept_on_close", if arm == "eager+close" { 90.0 } else { 0.0 }),
        ("wait_events", 3.0),
        ("wait_calls", 1.0),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

#[test]
fn claims_hold_where_the_world_is_as_they_say_and_fail_where_it_is_not() {
    let verdicts = |wrong| -> BTreeMap<String, Verdict> {
        let run = made_up(TEXT, &|cell| world(cell, wrong));
        judge(&run).into_iter().map(|judged| (judged.id, judged.verdict)).collect()
    };
    let (right, wrong) = (verdicts(false), verdicts(true));
    for id in ["H-1", "H-3", "H-4", "H-6", "H-7", "H-8", "H-9"] {
        assert_eq!(right[id], Verdict::Holds, "{id}");
        assert_eq!(wrong[id], Verdict::Fails, "{id}");
    }
    for id in ["H-10", "H-11"] {
        assert_eq!((right[id], wrong[id]), (Verdict::Holds, Verdict::Holds), "{id}");
    }
    for id in ["H-2", "E-1", "X-99"] {
        assert_eq!(right[id], Verdict::CannotTell, "{id}");
    }
}

#[test]
fn a_limit_within_the_interval_decides_nothing() {
    let effect = |low, high| Effect {
        ratio: 0.7,
        interval: Some(crate::stats::Interval { low, high }),
        p: 0.0,
        p_rank: 0.0,
        blocks: 6,
        detectable: 0.1,
    };
    let verdict = |effect: Effect| {
        Finding::surely(effect.ratio < 0.75, &effect, 0.75, String::new(), "").verdict
    };
    assert_eq!(verdict(effect(0.65, 0.74)), Verdict::Holds);
    assert_eq!(verdict(effect(0.65, 0.80)), Verdict::CannotTell);
    let above = Effect { ratio: 0.8, ..effect(0.78, 0.82) };
    assert_eq!(verdict(above), Verdict::Fails);
}

#[test]
fn what_is_missing_is_said() {
    let mut run = made_up(TEXT, &|cell| world(cell, false));
    run.records.retain(|record| record.cell.arm != "cm");
    let judged = judge(&run);
    let of = |id: &str| judged.iter().find(|judged| judged.id == id).unwrap();
    assert_eq!(of("H-3").verdict, Verdict::CannotTell);
    assert!(of("H-3").why.contains("valid trials of cm"), "{}", of("H-3").why);
    assert!(of("H-2").why.contains("accept1 near 0.7"), "{}", of("H-2").why);
    assert!(of("X-99").why.contains("a claim of that name"), "{}", of("X-99").why);
    assert_eq!(of("H-1").paper, "0.74");
    assert!(of("H-1").ours.contains("0.7"), "{}", of("H-1").ours);
    let ids: std::collections::BTreeSet<&str> = CLAIMS.iter().map(|claim| claim.id).collect();
    assert_eq!(ids.len(), CLAIMS.len(), "each claim once");
}

#[test]
fn what_the_machine_does_not_allow_cannot_be_told_with_that_reason() {
    let mut run = made_up(TEXT, &|cell| world(cell, false));
    run.manifest.lacking = vec![crate::env::Lack {
        part: "disk".to_owned(),
        needs: "/dev/fuse and /dev/loop-control".to_owned(),
        instead: String::new(),
    }];
    let judged = judge(&run);
    let of = |id: &str| judged.iter().find(|one| one.id == id).unwrap();
    assert_eq!(of("E-1").verdict, Verdict::CannotTell);
    assert_eq!(
        of("E-1").why,
        "not possible on this machine: disk: needs /dev/fuse and /dev/loop-control"
    );
    assert_eq!(of("H-1").verdict, Verdict::Holds, "it needs no disk");
}
