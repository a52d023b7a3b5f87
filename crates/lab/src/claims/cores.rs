//! Claims that take several processors, against worlds in which they are true and in which not.

use super::rows::{World, check_text, nothing, run_in, text};
use super::*;
use crate::record::Cell;
use Verdict::{CannotTell as Cannot, Fails, Holds};

#[test]
fn cycles_over_cores() {
    let text = |cpus: &str| {
        text(
            "\"G-7\"",
            &format!(
                "[targets.one]\nprogram = \"regatta\"\nconfig.server.architecture = \"symped\"\n\
                 config.event.processes = 1\nconfig.event.pin = \"cpu\"\n\
                 [targets.all]\nprogram = \"regatta\"\nconfig.server.architecture = \"symped\"\n\
                 config.event.processes = 8\nconfig.event.pin = \"cpu\"\n\
                 [machine]\nserver_cpus = \"{cpus}\"\nclient_cpus = \"9\"\n"
            ),
        )
    };
    fn slower(arm: &str, _: f64, _: &Cell) -> Vec<(&'static str, f64)> {
        vec![("cycles_per_instruction", if arm == "one" { 2.1 } else { 3.9 })]
    }
    fn hardly(arm: &str, _: f64, _: &Cell) -> Vec<(&'static str, f64)> {
        vec![("cycles_per_instruction", if arm == "one" { 2.1 } else { 2.3 })]
    }
    /// So many of the cycles of an instruction wait for memory.
    fn waiting(cell: &Cell, stalls: &'static str, few: f64, many: f64) -> Vec<(&'static str, f64)> {
        let of = if cell.target == "one" { few } else { many };
        let mut world = slower(&cell.target, 1.0, cell);
        let counts = [("user_instructions", 400.0), ("kernel_instructions", 600.0)];
        world.extend(counts.into_iter().chain([(stalls, 1_000.0 * of)]));
        world
    }
    let rows: [(&str, Verdict, World); 7] = [
        ("G-7", Cannot, slower),
        ("G-7", Fails, hardly),
        ("G-7", Cannot, nothing),
        ("G-7", Holds, |_, _, cell| waiting(cell, "stalled_memory", 0.5, 1.8)),
        ("G-7", Fails, |_, _, cell| waiting(cell, "stalled_memory", 0.5, 0.8)),
        ("G-7", Holds, |_, _, cell| waiting(cell, "stalled_backend", 0.5, 1.8)),
        // Not one stall is what a counter says that does not count.
        ("G-7", Cannot, |_, _, cell| waiting(cell, "stalled_memory", 0.0, 0.0)),
    ];
    check_text(&text("0-7"), &rows);
    check_text(&text("0-1"), &[("G-7", Cannot, slower), ("G-7", Cannot, hardly)]);
}

/// A claim is about the most processors that a run has, where their number varies.
#[test]
fn peaks_with_all_processors() {
    let text = text(
        "\"G-6\"",
        "[targets.one]\nprogram = \"regatta\"\n[targets.other]\nprogram = \"regatta\"\n\
         config.server.architecture = \"n-copy\"\n\
         [machine]\nserver_cpus = \"0-7\"\nclient_cpus = \"9\"\n\
         [factors]\n\"machine.processors\" = [1, 8, 2]\n",
    );
    /// The other is half as fast with that many processors, and only then.
    fn slow(cell: &Cell, processors: &str) -> Vec<(&'static str, f64)> {
        let slow = cell.target == "other" && cell.levels["machine.processors"] == processors;
        vec![("good_per_s", if slow { 500.0 } else { 1_000.0 })]
    }
    let rows: [(&str, Verdict, World); 2] = [
        ("G-6", Holds, |_, _, cell| slow(cell, "1")),
        ("G-6", Fails, |_, _, cell| slow(cell, "8")),
    ];
    let text = text.replace("measure.blocks = 6", "measure.blocks = 24");
    check_text(&text, &rows);
    // With fewer it cannot be told.
    let fewer = text.replace("[1, 8, 2]", "[1, 2]");
    check_text(&fewer, &[("G-6", Cannot, |_, _, cell| slow(cell, "2"))]);
}

/// One copy, two, four and eight, with one processor to eight.
fn copies_of(cpus: &str, levels: &str) -> String {
    let target = |copies: u32| {
        format!(
            "[targets.c{copies}]\nprogram = \"regatta\"\nconfig.server.architecture = \"n-copy\"\n\
             config.event.copies = {copies}\nconfig.event.processes = 0\n"
        )
    };
    let targets: String = [1, 2, 4, 8].map(target).concat();
    let text = text(
        "\"G-1\", \"G-2\"",
        &format!(
            "{targets}[machine]\nserver_cpus = \"{cpus}\"\nclient_cpus = \"9\"\n\
             [factors]\n\"machine.processors\" = {levels}\n"
        ),
    );
    text.replace("measure.blocks = 6", "measure.blocks = 12")
}

/// What so many copies answer on so many processors: `best` says which are ahead.
fn on(cell: &Cell, best: fn(u32) -> u32) -> Vec<(&'static str, f64)> {
    let processors = cell.levels["machine.processors"].parse().unwrap();
    let is_best = cell.target == format!("c{}", best(processors));
    vec![("good_per_s", if is_best { 1_130.0 } else { 1_000.0 })]
}

#[test]
fn copies_by_processors() {
    // As in table III: two copies with four processors, one with fewer, any with eight.
    fn paper(_: &str, _: f64, cell: &Cell) -> Vec<(&'static str, f64)> {
        on(cell, |processors| if processors == 4 { 2 } else { 1 })
    }
    fn always_one(_: &str, _: f64, cell: &Cell) -> Vec<(&'static str, f64)> {
        on(cell, |_| 1)
    }
    // One for each processor, everywhere.
    fn each(_: &str, _: f64, cell: &Cell) -> Vec<(&'static str, f64)> {
        on(cell, |processors| processors)
    }
    let rows: [(&str, Verdict, World); 7] = [
        ("G-1", Holds, paper),
        ("G-1", Fails, always_one),
        ("G-1", Fails, each),
        ("G-1", Cannot, nothing),
        ("G-2", Holds, paper),
        ("G-2", Fails, always_one),
        ("G-2", Fails, each),
    ];
    check_text(&copies_of("0-7", "[1, 2, 4, 8]"), &rows);
    check_text(&copies_of("0-3", "[1, 2, 4]"), &[("G-1", Cannot, paper), ("G-2", Cannot, paper)]);
}

#[test]
fn memory_by_processors() {
    /// Each processor streams with the fastest speed of one, but that all have so much at the most.
    fn streams(cell: &Cell, most: f64) -> Vec<(&'static str, f64)> {
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
    text(
        "\"S-18\"",
        &format!(
            "[targets.symped]\nprogram = \"regatta\"\nconfig.server.architecture = \"symped\"\n\
             [targets.shared]\nprogram = \"regatta\"\nconfig.server.architecture = \
             \"shared-symped\"\nconfig.event.processes = 4\n\
             [targets.shared-many]\nprogram = \"regatta\"\nconfig.server.architecture = \
             \"shared-symped\"\nconfig.event.processes = 40\n\
             [targets.amped]\nprogram = \"regatta\"\nconfig.server.architecture = \"amped\"\n\
             [factors]\n\"targets.symped.config.event.processes\" = [2, 4, 8]\n\
             \"environment.memory_share\" = [2, 0.5]\n\
             [machine]\nserver_cpus = \"{cpus}\"\nclient_cpus = \"9\"\n"
        ),
    )
}

/// What a version reaches: a tuned one 1,000, shared ones so many times that.
fn reached(arm: &str, cell: &Cell, shared: f64) -> Vec<(&'static str, f64)> {
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
    fn near(arm: &str, _: f64, cell: &Cell) -> Vec<(&'static str, f64)> {
        reached(arm, cell, 0.95)
    }
    fn far(arm: &str, _: f64, cell: &Cell) -> Vec<(&'static str, f64)> {
        reached(arm, cell, 0.8)
    }
    fn far_on_a_disk(arm: &str, _: f64, cell: &Cell) -> Vec<(&'static str, f64)> {
        let cached = cell.levels["environment.memory_share"] == "2";
        reached(arm, cell, if cached { 1.0 } else { 1.3 })
    }
    let rows: [(&str, Verdict, World); 4] = [
        ("S-18", Holds, near),
        ("S-18", Fails, far),
        ("S-18", Fails, far_on_a_disk),
        ("S-18", Cannot, |arm, _, cell| reached(arm, cell, 0.91)),
    ];
    check_text(&settings("0-3"), &rows);
    check_text(&settings("0-1"), &[("S-18", Cannot, near), ("S-18", Cannot, far)]);
    let told = judge(&run_in(&settings("0-3"), near)).remove(0);
    let best = "symped event.processes=4 over shared-many at environment.memory_share=0.5: 1.0";
    assert!(told.ours.contains(best), "{told:?}");
    assert!(told.why.contains("of the settings 3 of symped, 2 of shared-symped"), "{told:?}");
    assert!(told.why.contains("left out: amped"), "{told:?}");
    let alone = settings("0-3").replace("[2, 4, 8]", "[4]");
    let told = judge(&run_in(&alone, near)).remove(0);
    assert!(told.verdict == Cannot && told.why.contains("several settings each"), "{told:?}");
}
