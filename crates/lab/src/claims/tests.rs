//! Predicates over runs made up so that the answer is known.

use super::*;
use crate::analysis::tests::{named, synthetic};
use crate::experiment::{Scale, library, parse};
use crate::record::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// [H]'s servers, with the rows of its claims that these decide.
static TEXT: LazyLock<String> = LazyLock::new(|| {
    let rows = rows::rows_of("hpl01").split("[[claim]]");
    let rows: Vec<&str> = rows.filter(|row| !row.contains("eager+full")).collect();
    format!("{ARMS}{}", rows.join("[[claim]]"))
});

const ARMS: &str = r#"
workload = { root = ".", loop = "open" }
calibrate = {}
measure.blocks = 6
[experiment]
name = "made-up"
question = "?"
expect = "!"
claims = ["H-1", "H-3", "H-4", "H-6", "H-7", "H-8", "H-9", "H-10", "H-11", "H-2", "E-1", "P-2"]
[targets]
acceptinf.config.server.architecture = "acceptinf"
accept1.config.server.architecture = "accept1"
accept25.config.server.architecture = "accept25"
accept125 = { config.server.architecture = "accept25", config.accept.count = 125 }
eager.config.server.architecture = "eager"
"eager+close".config.server.architecture = "eager+close"
cm.config.server.architecture = "cm"
[factors]
"workload.rate" = ["0.95x", "1x", "1.2x", "1.43x", "1.67x"]
"#;

/// A world in which [H] is right (or, with `wrong`, in which nothing differs).
pub(super) fn world(cell: &Cell, wrong: bool) -> BTreeMap<String, f64> {
    let rate: f64 = cell.levels["workload.rate"].trim_end_matches('x').parse().unwrap();
    let past = (rate - 1.0).max(0.0);
    let arm = if wrong { "acceptinf" } else { cell.target.as_str() };
    let (peak, fall, open, vain) = match arm {
        "accept1" => (0.75, 0.1, 10.0, 0.0),
        "accept25" => (1.0, 0.02, 100.0, 0.0),
        "accept125" => (1.0, 0.6, 200.0, 0.0),
        "eager" => (0.92, 0.0, 400.0, 0.0),
        "cm" => (0.97, 1.2, 9_000.0, past * 0.4),
        _ => (1.0, 0.5, 300.0, 0.0),
    };
    let good = rate.min(peak) - past * fall;
    let drops = if good < 0.98 * rate { 500.0 } else { 0.0 };
    let (accepts, runs) = if arm == "eager+close" { (220.0, 150.0) } else { (300.0, 20.0) };
    named([
        ("good_per_s", 1_000.0 * good),
        ("mean_ms", 1.0 + past),
        ("good_share", good / rate),
        ("offered_per_s", 1_000.0 * rate),
        ("listen_overflows_per_s", drops),
        ("disk_wait_s", 0.0),
        ("window_s", 1.0),
        ("recv_would_block", 100.0 * vain),
        ("recv_calls", 100.0),
        ("connections_open_at_accept_sum", open * 100.0),
        ("accept_ok", 100.0),
        ("accept_calls", accepts),
        ("accept_runs", runs),
        ("accept_on_close", if arm == "eager+close" { 90.0 } else { 0.0 }),
        ("wait_events", 3.0),
        ("wait_calls", 1.0),
    ])
}

#[test]
fn claims_hold_where_the_world_is_as_they_say_and_fail_where_it_is_not() {
    let verdicts = |wrong| -> BTreeMap<String, Verdict> {
        let run = synthetic(&TEXT, &|cell| world(cell, wrong));
        judge(&run).into_iter().map(|judged| (judged.id, judged.verdict)).collect()
    };
    let (right, wrong) = (verdicts(false), verdicts(true));
    for id in ["H-1", "H-3", "H-4", "H-8"] {
        assert_eq!((right[id], wrong[id]), (Verdict::Holds, Verdict::Fails), "{id}");
    }
    // Questions for the sign of a difference are open if nothing differs. For H-7 one limit was
    // tried, and others may be better.
    for id in ["H-6", "H-7", "H-9"] {
        assert_eq!((right[id], wrong[id]), (Verdict::Holds, Verdict::CannotTell), "{id}");
    }
    for id in ["H-10", "H-11"] {
        assert_eq!((right[id], wrong[id]), (Verdict::Holds, Verdict::Holds), "{id}");
    }
    for id in ["H-2", "E-1", "P-2"] {
        assert_eq!(right[id], Verdict::CannotTell, "{id}");
    }
}

#[test]
fn what_is_missing_is_said() {
    let mut run = synthetic(&TEXT, &|cell| world(cell, false));
    run.records.retain(|record| record.cell.arm != "cm");
    run.experiment.claims.push("X-99".to_owned());
    let judged = judge(&run);
    let of = |id: &str| judged.iter().find(|judged| judged.id == id).unwrap();
    assert_eq!(of("H-3").verdict, Verdict::CannotTell);
    assert!(of("H-3").why.contains("valid trials of cm"), "{}", of("H-3").why);
    assert!(of("H-2").why.contains("accept1 near 2.4"), "{}", of("H-2").why);
    assert_eq!(of("X-99").why, "there is no claim of that name");
    assert_eq!(of("H-1").paper, "0.74");
    assert!(of("H-1").ours.contains("0.7"), "{}", of("H-1").ours);
}

#[test]
fn the_index_is_that_of_the_papers() {
    let mut ids = Vec::new();
    let paper = [("E", 30), ("S", 18), ("H", 13), ("G", 8), ("A", 7), ("X", 16), ("P", 3)];
    for (letter, last) in paper {
        for number in 1..=last {
            ids.push(format!("{letter}-{number}"));
            if (letter, number) == ("S", 8) {
                ids.push("S-8b".to_owned());
            }
            if (letter, number) == ("S", 18) {
                ids.push("S-T1".to_owned());
            }
        }
    }
    assert_eq!(ids.len(), 97);
    ids.extend((1..=5).map(|bar| format!("B-{bar}")));
    assert_eq!(CLAIMS.iter().map(|claim| claim.id.as_str()).collect::<Vec<_>>(), ids);
    for claim in CLAIMS.iter() {
        let all = [&claim.sentence(), &claim.needs, &claim.paper];
        assert!(all.iter().all(|text| !text.is_empty() && !text.contains("{}")), "{claim:?}");
        // Each range that is asked for stands in the sentence.
        assert!(claim.ranges.iter().all(|one| claim.sentence().contains(&one.words())));
    }
}

/// Claims are judged by a function or by rows, and rows ask for what the claims say.
#[test]
fn every_claim_is_judged_in_one_way() {
    let mut by_rows = BTreeSet::new();
    for (name, text) in library::EXPERIMENTS {
        for scale in Scale::ALL {
            let experiment = parse(name, text, scale).unwrap();
            for row in &experiment.rows {
                let own = row.own();
                let claim = Claim::named(&row.id).or(own.as_ref()).unwrap();
                assert_eq!(by_row::unasked(row, claim), None, "{name}: {}", row.id);
                by_rows.insert(row.id.clone());
            }
            let has_row = |id: &String| experiment.rows.iter().any(|row| row.id == *id);
            let judged = experiment.claims.iter().all(|id| has_row(id) || has_predicate(id));
            assert!(judged, "{name}: {:?}", experiment.claims);
        }
    }
    for claim in CLAIMS.iter() {
        let ways = [by_rows.contains(&claim.id), has_predicate(&claim.id)];
        assert_eq!(ways.iter().filter(|way| **way).count(), 1, "{}: {ways:?}", claim.id);
    }
}

/// Takes trials of an arm at a rate out of a run, in the blocks before one.
fn lose(run: &mut Run, arm: &str, rate: &str, before: u32) {
    let lost = |record: &crate::record::Record| {
        record.cell.arm == arm
            && record.cell.levels["workload.rate"] == rate
            && record.block < before
    };
    run.records.iter_mut().filter(|r| lost(r)).for_each(|record| record.valid = false);
}

fn h1(run: &Run) -> Judged {
    judge(run).into_iter().find(|one| one.id == "H-1").unwrap()
}

/// The rest of an arm that lost its highest rate is not compared with another arm's.
#[test]
fn arms_are_compared_over_the_rates_that_both_have() {
    // Every arm answers all that is offered, so that each rate more is more.
    let rising = |cell: &Cell| {
        let mut all = world(cell, true);
        let rate: f64 = cell.levels["workload.rate"].trim_end_matches('x').parse().unwrap();
        all.insert("good_per_s".to_owned(), 1_000.0 * rate);
        all
    };
    for (rate, lost, blocks) in [
        ("1.67x", 0, 6), // nothing is lost
        ("1.67x", 1, 5), // the block has no pair at the rate where both peak
        ("1.67x", 4, 6), // no arm has a trial there
        ("0.95x", 4, 6), // it says nothing about peaks
    ] {
        let mut run = synthetic(&TEXT, &rising);
        lose(&mut run, "accept1", rate, lost);
        let h1 = h1(&run);
        assert_eq!(h1.verdict, Verdict::Fails, "{h1:?}");
        assert!(h1.why.contains(&format!("; {blocks} blocks")), "{rate} {lost}: {h1:?}");
        let ratio = Evidence::new(&run).peak_ratio("accept1", "acceptinf").unwrap().typical();
        assert!((ratio - 1.0).abs() < 0.02, "{rate} {lost}: {ratio}");
        // At the highest rate that both have.
        let [one, inf] = Evidence::new(&run).tops(["accept1", "acceptinf"]).unwrap();
        let top = if (rate, lost) == ("1.67x", 4) { "1.43x" } else { "1.67x" };
        assert_eq!(one.levels["workload.rate"], top);
        assert_eq!(one.levels, inf.levels);
    }
    // Three blocks of each rate tell nothing.
    let mut run = synthetic(&TEXT, &rising);
    for rate in ["0.95x", "1x", "1.2x", "1.43x", "1.67x"] {
        lose(&mut run, "accept1", rate, 3);
    }
    let h1 = h1(&run);
    assert_eq!(h1.verdict, Verdict::CannotTell);
    assert!(h1.why.contains("at the same rates: in four blocks at least"), "{h1:?}");
    assert!(Evidence::new(&run).tops(["accept1", "acceptinf"]).is_err());
}

fn published(judged: &Judged) -> bool {
    !judged.why.contains("not to be published")
}

#[test]
fn a_verdict_says_which_lines_its_paper_would_not_have_published() {
    let break_at = |run: &mut Run, rate: &str| {
        for record in &mut run.records {
            let breaks = record.cell.levels["workload.rate"] == rate && record.block > 0;
            let breach = "E-1: 12.00 % timed out, not 10.00 (12/100)";
            let breaches: &[&str] = if breaks { &[breach] } else { &[] };
            record.rules = crate::record::tests::ruled("eurosys07", breaches);
        }
    };
    let mut run = synthetic(&TEXT, &|cell| world(cell, false));
    break_at(&mut run, "1.67x");
    let breaking = [("[E]", rules::breaking(&run, "eurosys07"))];
    let told = |id: &str| unpublished(id, &breaking);
    let words = "; by [E]'s rules of verification not to be published: acceptinf from 1.67x on, \
                 acceptinf (again) from 1.67x on, accept1 from 1.67x on and 5 more";
    assert_eq!((told("E-26").as_str(), told("P-3").as_str()), (words, words));
    assert_eq!(told("H-1") + &told("S-8b"), "", "whose papers have no such rules, or keep theirs");
    assert!(judge(&run).iter().all(published), "[H] has no such rules, and E-1 saw nothing");
    let mut run = rows::run_in(rows::found("eurosys07-fig4"), rows::nothing);
    break_at(&mut run, "1.4x");
    let judged = judge(&run);
    let (seen, unseen): (Vec<_>, Vec<_>) = judged.iter().partition(|one| !one.ours.is_empty());
    assert!(!seen.is_empty() && !seen.iter().any(|one| published(one)), "{judged:?}");
    assert!(unseen.iter().all(|one| published(one)), "{judged:?}");
}

#[test]
fn what_the_machine_does_not_allow_cannot_be_told_with_that_reason() {
    let mut run = synthetic(&TEXT, &|cell| world(cell, false));
    let needs = "/dev/fuse and /dev/loop-control";
    run.manifest.lacking = vec![crate::env::Lack::of("disk", needs, "")];
    let judged = judge(&run);
    let of = |id: &str| judged.iter().find(|one| one.id == id).unwrap();
    assert_eq!(of("E-1").verdict, Verdict::CannotTell);
    assert_eq!(
        of("E-1").why,
        "not possible on this machine: disk: needs /dev/fuse and /dev/loop-control"
    );
    assert_eq!(of("H-1").verdict, Verdict::Holds, "it needs no disk");
    // With a stand-in it is judged, and the label says by what.
    run.manifest.lacking[0].instead = crate::env::STAND_IN.to_owned();
    run.manifest.label = Some(crate::env::spec::IN_PROCESS.to_owned());
    for judged in judge(&run) {
        assert!(judged.why.starts_with("simulated-in-process ("), "{judged:?}");
        assert!(!judged.why.contains("not possible on this machine"), "{judged:?}");
    }
}

#[test]
fn a_variant_s_name_says_its_options() {
    let text = r#"
experiment = { name = "x", question = "?", expect = "!" }
targets.blocks = { program = "regatta", config.server.architecture = "shared-symped-b" }
targets.few.program = "regatta"
targets.few.config.server.architecture = "symped-b"
targets.few.config.event.processes = 4
targets.plain = { program = "regatta", config.server.architecture = "symped" }
workload.root = "."
"#;
    let run = synthetic(text, &|_| BTreeMap::new());
    let told = |at: usize, key: &str| evidence::option(&run.experiment.targets[at], key).to_owned();
    let all = |at: usize| {
        ["server.architecture", "event.send", "event.processes"].map(|key| told(at, key))
    };
    assert_eq!(all(0), ["shared-symped", "blocking", "100"]);
    assert_eq!(all(1), ["symped", "blocking", "4"], "what is said goes before the name");
    assert_eq!(all(2), ["symped", "nonblocking", ""]);
}
