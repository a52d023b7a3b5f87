//! Claims that take several processors, against worlds in which they are true and in which not.

use super::rows::{Numbers, World, check_text, nothing, run_in, targets, text};
use super::*;
use crate::record::Cell;
use Verdict::{CannotTell as Cannot, Fails, Holds};

/// An experiment whose server has these processors.
fn with(claims: &str, arms: &[[&str; 3]], cpus: &str, more: &str) -> String {
    let machine = format!("[machine]\nserver_cpus = \"{cpus}\"\nclient_cpus = \"9\"\n");
    text(claims, &(targets(arms) + &machine + more))
}

/// A claim is about the most processors that a run has, where their number varies.
#[test]
fn peaks_with_all_processors() {
    let arms = [["one", "symped", ""], ["other", "n-copy", ""]];
    let factors = "[factors]\n\"machine.processors\" = [1, 8, 2]\n[[claim]]\nid = \"G-6\"\n\
                   asks = [{ peak = [\"one\", \"other\"], is = \"=2%\" }]\n";
    let text = with("", &arms, "0-7", factors);
    /// The other is half as fast with that many processors, and only then.
    fn slow(cell: &Cell, processors: &str) -> Numbers {
        let slow = cell.target == "other" && cell.levels["machine.processors"] == processors;
        vec![("good_per_s", if slow { 500.0 } else { 1_000.0 })]
    }
    let rows: [(&str, Verdict, World); 2] = [
        ("G-6", Holds, |_, _, cell| slow(cell, "1")),
        ("G-6", Fails, |_, _, cell| slow(cell, "8")),
    ];
    let text = text.replace("measure.blocks = 6", "measure.blocks = 24");
    check_text(&text, &rows);
    // Fewer leave it undecided.
    let fewer = text.replace("[1, 8, 2]", "[1, 2]");
    check_text(&fewer, &[("G-6", Cannot, |_, _, cell| slow(cell, "2"))]);
}

/// An experiment with one, two, four and eight copies at the processor counts `levels`.
fn copies_of(cpus: &str, levels: &str) -> String {
    let arms = [
        ["c1", "n-copy", "event.copies=1 event.processes=0"],
        ["c2", "n-copy", "event.copies=2 event.processes=0"],
        ["c4", "n-copy", "event.copies=4 event.processes=0"],
        ["c8", "n-copy", "event.copies=8 event.processes=0"],
    ];
    let factors = format!("[factors]\n\"machine.processors\" = {levels}\n");
    let text = with("\"G-1\", \"G-2\"", &arms, cpus, &factors);
    text.replace("measure.blocks = 6", "measure.blocks = 12")
}

/// Numbers in which the arm with `best` copies for the cell's processors is ahead.
fn on(cell: &Cell, best: fn(u32) -> u32) -> Numbers {
    let processors = cell.levels["machine.processors"].parse().unwrap();
    let is_best = cell.target == format!("c{}", best(processors));
    vec![("good_per_s", if is_best { 1_130.0 } else { 1_000.0 })]
}

#[test]
fn copies_by_processors() {
    // World of table III: two copies with four processors, one with fewer, any with eight.
    const PAPER: World = |_, _, cell| on(cell, |count| if count == 4 { 2 } else { 1 });
    const ALWAYS_ONE: World = |_, _, cell| on(cell, |_| 1);
    // World in which a copy for each processor is best, everywhere.
    const EACH: World = |_, _, cell| on(cell, |count| count);
    let rows: [(&str, Verdict, World); 7] = [
        ("G-1", Holds, PAPER),
        ("G-1", Fails, ALWAYS_ONE),
        ("G-1", Fails, EACH),
        ("G-1", Cannot, nothing),
        ("G-2", Holds, PAPER),
        ("G-2", Fails, ALWAYS_ONE),
        ("G-2", Fails, EACH),
    ];
    check_text(&copies_of("0-7", "[1, 2, 4, 8]"), &rows);
    check_text(&copies_of("0-3", "[1, 2, 4]"), &[("G-1", Cannot, PAPER), ("G-2", Cannot, PAPER)]);
}

#[test]
fn memory_by_processors() {
    /// Each processor streams with the fastest speed of one, but that all have so much at the most.
    fn streams(cell: &Cell, most: f64) -> Numbers {
        let processors: f64 = cell.levels["machine.processors"].parse().unwrap();
        vec![("stream_mbyte_per_s", (9_000.0 * processors).min(most))]
    }
    let rows: [(&str, Verdict, World); 5] = [
        ("G-8", Holds, |_, _, cell| streams(cell, 40_000.0)),
        ("G-8", Fails, |_, _, cell| streams(cell, 1e6)),
        // Eight have 0.95 of what eight times one has.
        ("G-8", Fails, |_, _, cell| streams(cell, 68_400.0)),
        ("G-8", Cannot, |_, _, cell| streams(cell, 64_800.0)),
        ("G-8", Cannot, nothing),
    ];
    check_text(&copies_of("0-7", "[1, 8, 2]"), &rows);
    check_text(&copies_of("0-1", "[1, 2]"), &[("G-8", Cannot, |_, _, cell| streams(cell, 9e3))]);
}

/// Two architectures with settings of each, one with a single one, and two amounts of memory.
fn settings(cpus: &str) -> String {
    let arms = [
        ["symped", "symped", ""],
        ["shared", "shared-symped", "event.processes=4"],
        ["shared-many", "shared-symped", "event.processes=40"],
        ["amped", "amped", ""],
    ];
    let factors = "[factors]\n\"targets.symped.config.event.processes\" = [2, 4, 8]\n\
                   \"environment.memory_share\" = [2, 0.5]\n";
    with("\"S-18\"", &arms, cpus, factors)
}

/// Throughput of a version: 1,000 if tuned, `shared` times that if shared.
fn reached(arm: &str, cell: &Cell, shared: f64) -> Numbers {
    let processes = cell.levels.get("targets.symped.config.event.processes").map(String::as_str);
    let good = match (arm, processes) {
        ("symped", Some("4")) => 1_000.0,
        ("shared-many", _) => 1_000.0 * shared,
        // The only setting of its architecture, which is no tuned one.
        ("amped", _) => 300.0,
        _ => 500.0,
    };
    vec![("good_per_s", good)]
}

#[test]
fn the_best_of_each_architecture() {
    const NEAR: World = |arm, _, cell| reached(arm, cell, 0.95);
    const FAR: World = |arm, _, cell| reached(arm, cell, 0.8);
    let rows: [(&str, Verdict, World); 4] = [
        ("S-18", Holds, NEAR),
        ("S-18", Fails, FAR),
        // Only with a disk.
        ("S-18", Fails, |arm, _, cell| {
            let cached = cell.levels["environment.memory_share"] == "2";
            reached(arm, cell, if cached { 1.0 } else { 1.3 })
        }),
        ("S-18", Cannot, |arm, _, cell| reached(arm, cell, 0.91)),
    ];
    check_text(&settings("0-3"), &rows);
    check_text(&settings("0-1"), &[("S-18", Cannot, NEAR), ("S-18", Cannot, FAR)]);
    let told = judge(&run_in(&settings("0-3"), NEAR)).remove(0);
    let best = "symped event.processes=4 over shared-many at environment.memory_share=0.5: 1.0";
    assert!(told.ours.contains(best), "{told:?}");
    assert!(told.why.contains("of the settings 3 of symped, 2 of shared-symped"), "{told:?}");
    assert!(told.why.contains("left out: amped"), "{told:?}");
    let alone = settings("0-3").replace("[2, 4, 8]", "[4]");
    let told = judge(&run_in(&alone, NEAR)).remove(0);
    assert!(told.verdict == Cannot && told.why.contains("several settings each"), "{told:?}");
}
