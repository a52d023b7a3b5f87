//! The claims on threads and pools, against worlds in which they are true and in which not.

use super::rows::{
    Numbers, World, but, check, check_text, found, good, nothing, on_a_disk, peak, quiet, run_in,
    targets, verdict,
};
use super::*;
use crate::experiment::Scale;
use crate::folder::Folder;
use crate::profile::Profile;
use crate::profile::categories::Category;
use crate::record::Cell;
use Verdict::{CannotTell as Cannot, Fails, Holds};
use std::sync::OnceLock;

/// An experiment with these keys.
pub(super) fn with(claims: &str, keys: &str, arms: &[[&str; 3]]) -> String {
    let targets = targets(arms);
    format!(
        "experiment = {{ name = \"x\", question = \"?\", expect = \"!\", claims = [{claims}] }}\n\
         measure.blocks = 12\n{keys}{targets}"
    )
}

/// Past saturation an arm of few helpers falls behind, and each poll asks about five times as many.
fn short_of_helpers(arm: &str, rate: f64, _: &Cell) -> Numbers {
    if rate < 1.0 || !arm.ends_with("-10") {
        return peak(rate, 1.0);
    }
    let falls = if rate > 1.8 { 0.8 } else { 1.0 };
    but(peak(rate, falls), &[("wait_interest_sum", 2_500_000.0)])
}

#[test]
fn few_helpers_and_more() {
    fn flat(_: &str, rate: f64, _: &Cell) -> Numbers {
        peak(rate, 1.0)
    }
    check(
        "eurosys07-fig3",
        &[
            ("E-7", Holds, short_of_helpers),
            ("E-7", Fails, flat),
            ("E-7", Cannot, nothing),
            // Nobody is saturated.
            ("E-7", Cannot, |_, rate, _| peak(rate, f64::INFINITY)),
            // It is the polls that are more, not only what each asks about.
            ("E-7", Fails, |arm, rate, cell| {
                let world = short_of_helpers(arm, rate, cell);
                let many = rate > 1.0 && arm.ends_with("-10");
                if many { but(world, &[("wait_calls", 2_000.0)]) } else { world }
            }),
            // Throughput falls for another reason.
            ("E-7", Fails, |arm, rate, cell| {
                but(short_of_helpers(arm, rate, cell), &[("wait_interest_sum", 500_000.0)])
            }),
            ("E-8", Holds, short_of_helpers),
            // Fewer than at low load are asked about: each poll brings more.
            ("E-8", Holds, |arm, rate, cell| {
                let world = short_of_helpers(arm, rate, cell);
                let more = arm.ends_with("-20") && rate > 1.0;
                if more { but(world, &[("wait_interest_sum", 115_000.0)]) } else { world }
            }),
            // Few helpers lose nothing, so that more remove nothing.
            ("E-8", Cannot, flat),
            ("E-8", Fails, |_, rate, cell| short_of_helpers("knot-b-750-10", rate, cell)),
            // More helpers keep the throughput, and poll's work grows as before.
            ("E-8", Fails, |arm, rate, cell| {
                let world = short_of_helpers("knot-b-750-10", rate, cell);
                if arm.ends_with("-10") { world } else { but(world, &good(rate, 1.0)) }
            }),
        ],
    );
}

#[test]
fn caches_of_user_threads() {
    check(
        "eurosys07-fig1",
        &[
            ("E-15", Holds, |arm, rate, _| peak(rate, if arm == "knot-c-1" { 0.85 } else { 1.0 })),
            ("E-15", Fails, |_, rate, _| peak(rate, 1.0)),
            ("E-15", Fails, |arm, rate, _| peak(rate, if arm == "knot-c-88" { 1.0 } else { 0.85 })),
            ("E-15", Cannot, nothing),
        ],
    );
}

/// As in table 1 and figure 7: copying is last, blocking is first.
fn as_measured(arm: &str, rate: f64, _: &Cell) -> Numbers {
    let (most, copied) = match arm {
        "knot-c" => (0.74, 14e6),
        "knot-nb" => (0.8, 3e5),
        "knot-b" => (0.86, 3e5),
        _ => (1.0, 3e5),
    };
    let first = if arm == "knot-nb1-560-5" { 1.5 } else { 1.0 };
    let all = [
        ("send_bytes", copied),
        ("wait_calls", 1_000.0 * first),
        ("wait_interest_sum", 500_000.0 * first),
    ];
    but(peak(rate, most), &all)
}

#[test]
fn ways_of_sending() {
    check(
        "eurosys07-knot",
        &[
            ("E-16", Holds, as_measured),
            ("E-16", Fails, |_, rate, _| but(peak(rate, 1.0), &[("send_bytes", 3e5)])),
            // It is ahead, and copies as much.
            ("E-16", Fails, |arm, rate, cell| {
                but(as_measured(arm, rate, cell), &[("send_bytes", 3e5)])
            }),
            ("E-16", Cannot, nothing),
            ("E-18", Holds, as_measured),
            ("E-18", Fails, |_, rate, _| peak(rate, 1.0)),
            ("E-18", Fails, |arm, rate, _| peak(rate, if arm == "knot-b" { 1.0 } else { 0.8 })),
            ("E-18", Cannot, nothing),
        ],
    );
    check(
        "eurosys07-fig2",
        &[
            ("E-20", Holds, as_measured),
            ("E-20", Fails, |_, rate, _| {
                but(peak(rate, 1.0), &[("wait_calls", 900.0), ("wait_interest_sum", 500_000.0)])
            }),
            // It polls more often, and each poll asks about fewer.
            ("E-20", Fails, |arm, rate, cell| {
                but(as_measured(arm, rate, cell), &[("wait_interest_sum", 500_000.0)])
            }),
            // It polls no more often, and each poll asks about more.
            ("E-20", Holds, |arm, _, _| {
                let first = arm == "knot-nb1-560-5";
                let (calls, asked) = if first { (980.0, 900_000.0) } else { (1_000.0, 500_000.0) };
                vec![("wait_calls", calls), ("wait_interest_sum", asked)]
            }),
        ],
    );
}

/// What the threads' share of each arm's profile is decides, by as many samples as it has.
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
        judge(&run).remove(0)
    };
    let told = |share, samples, world| judged(share, samples, world).verdict;
    assert_eq!(told(0.085, 4_000, as_measured), Holds);
    assert_eq!(told(0.14, 4_000, as_measured), Fails);
    assert_eq!(told(0.01, 4_000, as_measured), Fails);
    // So few samples tell nothing of two per cent.
    assert_eq!(told(0.085, 150, as_measured), Cannot);
    // They cost as much, and events are no better.
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

#[test]
fn kernel_threads_beside_events() {
    fn behind(arm: &str, rate: f64, share: f64) -> Numbers {
        good(rate, if arm == "knot-nptl" { share } else { 1.0 })
    }
    check(
        "threads-short",
        &[
            ("E-28", Holds, nothing),
            ("E-28", Fails, |arm, rate, _| behind(arm, rate, 0.8)),
            ("E-28", Cannot, |_, rate, _| peak(rate, 1.0)),
        ],
    );
    check(
        "geneves-fig1",
        &[
            ("G-3", Holds, |arm, rate, _| behind(arm, rate, 0.65)),
            ("G-3", Fails, |arm, rate, _| behind(arm, rate, 0.95)),
            // Behind events, and the pipeline is no better.
            ("G-3", Fails, |arm, rate, _| {
                behind(if arm == "watpipe" { "knot-nptl" } else { arm }, rate, 0.65)
            }),
            ("G-3", Fails, nothing),
            // Somebody waits for a disk.
            ("G-3", Cannot, |_, rate, _| peak(rate, 1.0)),
        ],
    );
    check("geneves-cores", &[("G-4", Cannot, nothing)]);
    let two = found("geneves-fig1").replace("server_cpus = \"0\"", "server_cpus = \"0,2\"");
    check_text(&two, &[("G-3", Cannot, nothing)]);
}

/// So much of the best that threads reach with 1,000 connections and with 10,000.
fn with_connections(cell: &Cell, few: f64, many: f64) -> Numbers {
    let share = if cell.levels["workload.connections"] == "1000" { few } else { many };
    let good = if cell.target == "knot-nptl" { share } else { 1.0 };
    vec![("good_per_s", 1_000.0 * good)]
}

#[test]
fn thousands_of_threads() {
    check(
        "threads-many",
        &[
            ("X-1", Holds, |_, _, cell| with_connections(cell, 1.0, 0.92)),
            ("X-1", Fails, |_, _, cell| with_connections(cell, 1.0, 0.75)),
            // What is lost with a thousand connections is not asked.
            ("X-1", Holds, |_, _, cell| with_connections(cell, 0.75, 1.0)),
            ("X-1", Cannot, |_, _, cell| with_connections(cell, 1.0, 0.85)),
            ("E-29", Holds, |_, _, cell| with_connections(cell, 0.95, 0.85)),
            // Behind, with few connections as with many: 8 blocks do not tell that from 1.02.
            ("E-29", Cannot, |_, _, cell| with_connections(cell, 0.85, 0.85)),
            ("E-29", Fails, |_, _, cell| with_connections(cell, 0.85, 1.0)),
            ("E-29", Cannot, |_, _, _| vec![("good_per_s", f64::NAN)]),
        ],
    );
}

/// What the first arm reaches on one processor and on four; events reach 1,000 on each.
fn on_processors(cell: &Cell, one: f64, four: f64) -> Numbers {
    let four_here = cell.levels["machine.processors"] == "4";
    let all = if four_here { 4_000.0 } else { 1_000.0 };
    let own = if four_here { four } else { one };
    vec![("good_per_s", if cell.target == "events" { all } else { all * own })]
}

#[test]
fn threads_over_processors() {
    let text = |cpus: &str, architecture: &str| {
        let keys = format!(
            "workload.root = \".\"\nmachine = {{ server_cpus = \"{cpus}\", client_cpus = \"9\" }}\n\
             factors.\"machine.processors\" = [1, 4]\n"
        );
        let rows = r#"
[[claim]]
id = "E-30"
asks = [{ change = ["own", "events"], by = "machine.processors", is = ">0.9" }]
[[claim]]
id = "G-4"
asks = [{ change = ["events", "own"], by = "machine.processors", is = "<0.9" }]
"#;
        with("", &keys, &[["own", architecture, ""], ["events", "symped", ""]]) + rows
    };
    check_text(
        &text("0-3", "means"),
        &[
            ("E-30", Holds, |_, _, cell| on_processors(cell, 0.8, 0.8)),
            ("E-30", Fails, |_, _, cell| on_processors(cell, 0.8, 0.6)),
            ("E-30", Cannot, |_, _, _| vec![("good_per_s", f64::NAN)]),
        ],
    );
    check_text(
        &text("0-3", "knot-nptl"),
        &[
            ("G-4", Holds, |_, _, cell| on_processors(cell, 0.7, 1.1)),
            ("G-4", Fails, |_, _, cell| on_processors(cell, 0.7, 0.7)),
            // Far behind, and with more processors farther.
            ("G-4", Fails, |_, _, cell| on_processors(cell, 0.7, 0.5)),
        ],
    );
    check("means", &[("E-30", Cannot, nothing)]);
    let shared = text("0-3", "means").replace("\"9\"", "\"0-3\"");
    check_text(&shared, &[("E-30", Cannot, |_, _, cell| on_processors(cell, 0.8, 0.8))]);
}

/// [A]'s figures: BIO is first full, and slow from there on.
fn as_azzedin(arm: &str, rate: f64, _: &Cell) -> Numbers {
    let (most, low, past) = match arm {
        "bio" => (0.69, 2.7, 320.0),
        "aio" => (0.83, 6.0, 50.0),
        _ => (1.0, 2.7, 70.0),
    };
    let ms = if rate < 0.5 { low } else { past };
    let later = if rate < 0.5 { 10.0 } else { 950.0 };
    vec![
        ("good_per_s", 1_000.0 * rate.min(most)),
        ("mean_ms", ms),
        ("p50_ms", ms),
        ("decided_async", later),
        ("decided_blocking", 1_000.0 - later),
        ("decided_queue_sum", later),
    ]
}

#[test]
fn adapting() {
    /// All take so long past saturation.
    fn past(arm: &str, rate: f64, cell: &Cell, ms: f64) -> Numbers {
        let world = as_azzedin(arm, rate, cell);
        if rate > 1.0 { but(world, &[("mean_ms", ms)]) } else { world }
    }
    check(
        "azzedin-fig5",
        &[
            ("A-1", Holds, as_azzedin),
            ("A-1", Cannot, nothing),
            // The one that adapts is between the two.
            ("A-1", Fails, |arm, rate, _| match arm {
                "bio" => good(rate, 0.7),
                "aio" => good(rate, 1.0),
                _ => good(rate, 0.85),
            }),
            ("A-2", Holds, as_azzedin),
            // It is as slow as AIO from the beginning.
            ("A-2", Fails, |arm, rate, cell| {
                let arm = if arm == "self-adapting" && rate < 0.5 { "aio" } else { arm };
                as_azzedin(arm, rate, cell)
            }),
            // It is as fast as BIO within a tenth, and slower than AIO.
            ("A-2", Fails, |arm, rate, cell| {
                let low = match arm {
                    "bio" => 1.0,
                    "aio" => 1.04,
                    _ => 1.09,
                };
                let world = as_azzedin(arm, rate, cell);
                if rate < 0.5 { but(world, &[("p50_ms", low)]) } else { world }
            }),
            // It becomes as slow as BIO.
            ("A-2", Fails, |arm, rate, cell| {
                let world = as_azzedin(arm, rate, cell);
                if arm == "self-adapting" && rate > 1.0 {
                    but(world, &[("p50_ms", 300.0)])
                } else {
                    world
                }
            }),
            ("A-3", Holds, as_azzedin),
            ("A-3", Fails, |arm, rate, cell| past(arm, rate, cell, 300.0)),
            ("A-3", Fails, |arm, rate, cell| past(arm, rate, cell, 12.0)),
            // Past the knee nobody is answered.
            ("A-3", Cannot, |arm, rate, cell| past(arm, rate, cell, 0.0)),
            ("A-4", Holds, as_azzedin),
            // Half of them, whatever waits.
            ("A-4", Fails, |arm, rate, cell| {
                let half = [("decided_async", 500.0), ("decided_blocking", 500.0)];
                but(as_azzedin(arm, rate, cell), &half)
            }),
            ("A-4", Cannot, nothing),
        ],
    );
}

#[test]
fn pollers_pools_and_rules() {
    /// A poller that waits has 28 % of the processor time, for it responds; one that spins more.
    fn polls(arm: &str, rate: f64, spins: f64, most: f64) -> Numbers {
        let share = if arm == "aio-spins" { spins } else { 0.28 };
        let most = if arm.ends_with("waits") { most } else { 1.0 };
        let cost = ("cpu_us_per_reply", 72.0 / (1.0 - share));
        but(good(rate, most), &[cost, ("cpu_s", 0.2), ("aio_poller_ns", 0.2e9 * share)])
    }
    fn larger(arm: &str, rate: f64, pool: f64) -> Numbers {
        match arm {
            "bio" => good(rate, 0.7),
            "bio-256" => good(rate, pool),
            _ => good(rate, 1.0),
        }
    }
    check(
        "azzedin-pool",
        &[
            ("A-5", Holds, |arm, rate, _| polls(arm, rate, 0.7, 1.0)),
            ("A-5", Fails, |arm, rate, _| polls(arm, rate, 0.28, 1.0)),
            // What waits wastes nothing, and answers less.
            ("A-5", Fails, |arm, rate, _| polls(arm, rate, 0.7, 0.8)),
            ("A-5", Cannot, |_, _, _| vec![("cpu_us_per_reply", f64::NAN)]),
            ("A-6", Holds, |arm, rate, _| larger(arm, rate, 0.98)),
            ("A-6", Fails, |arm, rate, _| larger(arm, rate, 0.7)),
            // There is no gain that more threads could remove.
            ("A-6", Cannot, nothing),
        ],
    );
    check(
        "azzedin-disk",
        &[
            ("A-7", Holds, |arm, rate, _| peak(rate, if arm == "disk" { 1.2 } else { 1.0 })),
            ("A-7", Fails, |arm, rate, _| peak(rate, if arm == "disk" { 0.9 } else { 1.0 })),
            ("A-7", Cannot, nothing),
        ],
    );
}

/// What arms answer whose longest idle times have these peaks.
fn idling(arm: &str, rate: f64, pool: f64, threads: f64) -> Numbers {
    match arm {
        "hybrid-5000" => good(rate, pool),
        "mt-5000" => good(rate, threads),
        _ => good(rate, 1.0),
    }
}

/// So many connections are open where threads are not limited; with 16 threads a quarter answer.
fn think(arm: &str, rate: f64, few: f64, used: f64) -> Numbers {
    let world = good(rate, if arm == "mt-16" { few } else { 1.0 });
    but(world, &[("connections_open", 64.0), ("server_cpu", used)])
}

#[test]
fn a_pool_beside_a_thread_for_each_connection() {
    check(
        "hybrid-think",
        &[
            ("X-14", Holds, |arm, rate, _| think(arm, rate, 0.075, 0.1)),
            // Think times hold no thread up.
            ("X-14", Fails, |arm, rate, _| think(arm, rate, 1.0, 0.1)),
            // The pool is ahead for another reason: it is as far ahead of all threads.
            ("X-14", Fails, |arm, rate, _| {
                let slow = if arm == "mt" { 0.25 } else { 1.0 };
                but(think(arm, rate, 0.075, 0.1), &[("good_per_s", 500.0 * rate.min(slow))])
            }),
            ("X-14", Cannot, |arm, rate, _| think(arm, rate, 0.125, 0.99)),
            ("X-14", Cannot, |arm, rate, _| {
                but(think(arm, rate, 1.0, 0.1), &[("connections_open", 9.0)])
            }),
        ],
    );
    check(
        "hybrid-keepalive",
        &[
            ("X-15", Holds, |arm, rate, _| idling(arm, rate, 1.0, 0.5)),
            ("X-15", Fails, nothing),
            // Both depend on it.
            ("X-15", Fails, |arm, rate, _| idling(arm, rate, 0.5, 0.5)),
            ("X-15", Cannot, |arm, rate, _| idling(arm, rate, 1.0, 0.7)),
        ],
    );
}

/// Flash is AMPED as it first was, and asked for the same: one that is otherwise decides.
#[test]
fn flash_in_the_experiments() {
    fn all_but(slow: &str, arm: &str, rate: f64, cell: &Cell) -> Numbers {
        let mut world = on_a_disk(arm, rate, cell);
        if arm == slow {
            world.push(("good_per_s", 700.0 * rate.min(1.0)));
        }
        world
    }
    /// Cold names hold up a loop that opens them itself, and helpers cost something.
    fn misses(arm: &str, stall: f64, cost: f64) -> Numbers {
        let opens = arm.starts_with("flash") || arm == "amped-opens";
        vec![
            ("disk_wait_s", 0.3),
            ("opens", 500.0),
            ("stall_open_ns", if opens { stall } else { 1e5 }),
            ("helper_tasks_open", 300.0),
            ("helper_completions", 300.0),
            ("helper_busy_ns", 3e9),
            ("cpu_us_per_reply", if arm.starts_with("symped") { 100.0 } else { cost }),
        ]
    }
    check(
        "residency",
        &[("X-2", Fails, |arm, _, _| {
            vec![("cpu_us_per_reply", if arm == "flash-linux" { 120.0 } else { 100.0 })]
        })],
    );
    check(
        "eurosys07-fig7",
        &[
            ("X-3", Holds, |arm, rate, cell| all_but("", arm, rate, cell)),
            ("X-3", Fails, |arm, rate, cell| all_but("amped", arm, rate, cell)),
            ("X-3", Fails, |arm, rate, cell| all_but("flash-1999", arm, rate, cell)),
        ],
    );
    check(
        "amped-misses",
        &[
            ("X-4", Holds, |arm, _, _| misses(arm, 1e8, 120.0)),
            ("X-4", Fails, |arm, _, _| misses(arm, 1e5, 120.0)),
            // Flash's names are in memory when its loop comes to them.
            ("X-4", Fails, |arm, _, _| {
                misses(arm, if arm == "amped-opens" { 1e8 } else { 1e5 }, 120.0)
            }),
            ("X-5", Holds, |arm, _, _| misses(arm, 1e8, 120.0)),
            ("X-5", Fails, |arm, _, _| misses(arm, 1e8, 100.0)),
            ("X-5", Fails, |arm, _, _| {
                misses(arm, 1e8, if arm == "flash-linux" { 100.0 } else { 120.0 })
            }),
        ],
    );
}

/// Without the arms it is said which architecture is missing.
#[test]
fn what_is_not_built_is_said() {
    let text = with("\"A-1\", \"P-2\"", "workload.root = \".\"\n", &[["sped", "sped", ""]]);
    for told in judge(&quiet(&text, nothing)) {
        let claim = Claim::named(&told.id).unwrap();
        let is_not_built = matches!(told.open, Some(Open::NotBuilt { .. }));
        assert_eq!((is_not_built, told.verdict), (claim.not_built, Cannot), "{told:?}");
    }
}
