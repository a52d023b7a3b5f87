//! Each claim against worlds in which it is true and in which it is not, with the experiments that
//! ask for it.

use super::*;
use crate::analysis::tests::synthetic_at;
use crate::experiment::{Scale, library};
use crate::record::Cell;
use crate::stats::Random;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Numbers of a cell; of two that are called alike the second counts.
pub(super) type Numbers = Vec<(&'static str, f64)>;

/// Numbers of a world that differ from the plain one, by arm, rate and levels.
pub(super) type World = fn(&str, f64, &Cell) -> Numbers;

/// Replaces numbers of a world by others.
pub(super) fn but(mut world: Numbers, other: &[(&'static str, f64)]) -> Numbers {
    world.extend(other);
    world
}

/// Good answers at a rate, where the peak is so much.
pub(super) fn good(rate: f64, peak: f64) -> Numbers {
    vec![("good_per_s", 1_000.0 * rate.min(peak))]
}

/// The same with a disk that is waited for.
pub(super) fn peak(rate: f64, peak: f64) -> Numbers {
    but(good(rate, peak), &[("disk_wait_s", 0.1)])
}

/// A world where nothing differs: 1,000 answers a second at most, no disk.
fn plain(rate: f64) -> Numbers {
    let good = 1_000.0 * rate.min(1.0);
    vec![
        ("offered_per_s", 1_000.0 * rate),
        ("good_per_s", good),
        ("good_share", good / (1_000.0 * rate)),
        ("error_share", 1.0 - good / (1_000.0 * rate)),
        ("mean_ms", 10.0),
        ("service_p50_ms", 10.0),
        ("cpu_us_per_reply", 100.0),
        ("server_cpu", 0.4),
        ("window_s", 1.0),
        ("switches", 100.0),
        ("disk_wait_s", 0.0),
        ("waiting_share", 0.1),
        ("disk_busy_share", 0.5),
        ("disk_run_kib", 60.0),
        ("disk_requests_per_s", 100.0),
        ("disk_mbyte_per_s", 1.0),
        ("page_cache_mib", 84.0),
        ("pss_mib", 10.0),
        ("cache_fds", 1_000.0),
        ("connections_open", 500.0),
        ("listen_overflows_per_s", 0.0),
        ("accepts_per_notification_max", 20.0),
        ("accept_ok", 1_000.0),
        ("accept_calls", 3_000.0),
        ("accept_runs", 100.0),
        ("accept_on_close", 100.0),
        ("connections_open_at_accept_sum", 100_000.0),
        ("recv_calls", 1_000.0),
        ("recv_would_block", 50.0),
        ("wait_calls", 1_000.0),
        ("wait_events", 3_000.0),
        ("wait_interest_sum", 500_000.0),
        ("wait_ns", 0.0),
        ("replies", 1_000.0),
        ("lock_acquisitions", 1_000.0),
        ("lock_contended", 1.0),
        ("lock_wait_ns", 1_000.0),
        ("residency_checks", 100.0),
        ("laio_inline", 1_000.0),
        ("laio_deferred", 0.0),
    ]
}

/// All numbers of a cell of a world.
fn numbers(cell: &Cell, world: World) -> BTreeMap<String, f64> {
    let level = cell.levels.get("workload.rate").map_or("1x", String::as_str);
    let rate = level.trim_end_matches('x').parse().unwrap();
    let mut all: BTreeMap<String, f64> = BTreeMap::new();
    for (name, value) in plain(rate).into_iter().chain(world(&cell.target, rate, cell)) {
        all.insert(name.to_owned(), value);
    }
    // Values that are no number were not measured.
    all.retain(|_, value| !value.is_nan());
    all
}

/// A run of an experiment in a world without any noise.
pub(super) fn quiet(text: &str, world: World) -> Run {
    quiet_at(Scale::Replica, text, world)
}

fn quiet_at(scale: Scale, text: &str, world: World) -> Run {
    let mut run = synthetic_at(text, scale, &|cell| numbers(cell, world));
    for record in &mut run.records {
        record.metrics = numbers(&record.cell, world);
        record.counters = record.metrics.clone();
    }
    run
}

/// The same with a share of noise in the numbers that `noisy` names.
pub(super) fn with_noise(run: &Run, seed: u64, noise: f64, noisy: fn(&str) -> bool) -> Run {
    let mut random = Random::new(seed);
    let mut records = run.records.clone();
    for record in &mut records {
        for (name, value) in &mut record.metrics {
            if noisy(name) {
                *value *= (noise * random.normal()).exp();
            }
        }
        record.counters = record.metrics.clone();
    }
    let (experiment, manifest) = (run.experiment.clone(), run.manifest.clone());
    let (directory, profiles_kept) = (run.directory.clone(), run.profiles_kept.clone());
    Run { directory, experiment, manifest, records, profiles_kept }
}

/// A run with a hundredth of noise in what is answered.
pub(super) fn run_in(text: &str, world: World) -> Run {
    with_noise(&quiet(text, world), 6, 0.01, |name| name == "good_per_s")
}

pub(super) fn found(experiment: &str) -> &'static str {
    library::find(experiment).unwrap_or_else(|| panic!("there is no {experiment}"))
}

/// Rows of an experiment that comes with the program.
pub(super) fn rows_of(experiment: &str) -> &'static str {
    let text = found(experiment);
    &text[text.find("[[claim]]").expect("it has rows")..]
}

pub(super) fn verdict(claim: &str, experiment: &str, world: World) -> Judged {
    let mut run = run_in(found(experiment), world);
    let asked = &mut run.experiment.claims;
    assert!(asked.iter().any(|id| id == claim), "{experiment} asks for {asked:?}, not for {claim}");
    *asked = vec![claim.to_owned()];
    judge(&run).remove(0)
}

pub(super) fn check(experiment: &str, rows: &[(&str, Verdict, World)]) {
    for (at, (claim, wanted, world)) in rows.iter().enumerate() {
        let judged = verdict(claim, experiment, *world);
        assert_eq!(judged.verdict, *wanted, "row {at}, {experiment}: {judged:?}");
    }
    let decided: Vec<_> = rows.iter().filter(|(_, wanted, _)| *wanted != Cannot).collect();
    let mut against = 0;
    for (claim, wanted, world) in &decided {
        let mut run = quiet(found(experiment), *world);
        run.experiment.claims = vec![(*claim).to_owned()];
        // Noise of a guest with two processors.
        for seed in 1..=NOISY_SEEDS {
            let told = judge(&with_noise(&run, seed, 0.1, |_| true)).remove(0).verdict;
            against += u64::from(told != *wanted && told != Cannot);
        }
    }
    let all = NOISY_SEEDS * u64::try_from(decided.len()).unwrap();
    assert!(10 * against <= all.max(20), "{experiment}: {against} of {all} against what is so");
}

/// Times that each world is seen through noise.
const NOISY_SEEDS: u64 = 4;

use Verdict::{CannotTell as Cannot, Fails, Holds};

/// SPED waits for the disk a third of the time, several processes hardly, and answer more.
pub(super) fn on_a_disk(arm: &str, rate: f64, _: &Cell) -> Numbers {
    let (peak, wait, used) = match arm {
        "sped" | "sped-few" => (0.66, 0.33, 0.26),
        "symped-2" => (0.9, 0.16, 0.36),
        _ => (1.0, 0.1, 0.38),
    };
    // Under the small limit several processes lose 5 %.
    let peak = match arm {
        "sped-few" => 0.6,
        "symped-4-few" => 0.57,
        _ => peak,
    };
    let good = 1_000.0 * rate.min(peak);
    let events = if arm.starts_with("sped") { 3_000.0 } else { 1_000.0 };
    let calls = if arm.starts_with("sped") { 500.0 } else { 900.0 };
    vec![
        ("good_per_s", good),
        ("disk_wait_s", wait),
        ("server_cpu", used),
        ("wait_events", events),
        ("wait_calls", calls),
    ]
}

/// Waiting for a disk changes nothing.
pub(super) fn disk_without_effect(_: &str, _: f64, _: &Cell) -> Numbers {
    vec![("disk_wait_s", 0.1), ("server_cpu", 0.39)]
}

pub(super) fn nothing(_: &str, _: f64, _: &Cell) -> Numbers {
    Vec::new()
}

/// World in which blocking is as good with 40 processes, and worse with fewer. Those 40 suffer
/// under the small limit at the highest rate.
pub(super) fn blocking(arm: &str, rate: f64, _: &Cell) -> Numbers {
    let peak = match arm {
        "b-8" => 0.6,
        "b-8-many" => 0.4,
        "b-20" | "b-20-many" => 0.8,
        _ => 1.0,
    };
    let falls = match arm {
        "nb-4" => 0.0,
        "b-40" => 0.25,
        _ => 0.06,
    };
    let past = (rate - 1.0).max(0.0) * falls;
    let good = 1_000.0 * (rate.min(peak) - past * peak);
    let (switches, asked) = if arm == "nb-4" { (100.0, 5e5) } else { (4_000.0, 2e5) };
    vec![
        ("good_per_s", good),
        ("disk_wait_s", 3.0),
        ("switches", switches),
        ("wait_interest_sum", asked),
        ("page_cache_mib", if arm == "nb-4" { 84.0 } else { 72.0 }),
    ]
}

#[test]
fn blocking_and_not() {
    check(
        "eurosys07-fig5",
        &[
            ("E-9", Holds, blocking),
            ("E-9", Fails, disk_without_effect),
            // Ten times as many are not enough either.
            ("E-9", Fails, |arm, rate, cell| {
                let mut all = blocking(arm, rate, cell);
                all[0].1 = if arm == "nb-4" { all[0].1 } else { 700.0 * rate.min(1.0) };
                all
            }),
            ("E-9", Cannot, nothing),
            // No arm is saturated, and one is twice as fast.
            ("E-12", Cannot, |arm, rate, _| {
                peak(rate * if arm == "nb-4" { 1.0 } else { 0.5 }, f64::INFINITY)
            }),
        ],
    );
    // A closed loop has one load, and no twice of it.
    let closed = "extends = \"disk\"\n[experiment]\nname = \"closed\"\n\
                  [targets.symped-b-20.config]\nserver.architecture = \"symped-b\"\n\
                  event.processes = 20\n";
    let rows = rows_of("eurosys07-fig7");
    let row = rows.split("[[claim]]").find(|row| row.contains("\"E-12\"")).unwrap();
    let closed = format!("{closed}[[claim]]{row}");
    check_text(&closed, &[("E-12", Cannot, disk_without_effect)]);
    // A quick arm also has twice the rate of saturation.
    for name in ["eurosys07-fig5", "eurosys07-fig7"] {
        let mut run = quiet_at(Scale::Quick, found(name), disk_without_effect);
        run.experiment.claims = vec!["E-12".to_owned()];
        let told = judge(&run).remove(0);
        assert_eq!(told.verdict, Fails, "{name}: {told:?}");
    }
}

/// Disk work of a reply by the model.
static FOR_EACH_REPLY: LazyLock<f64> = LazyLock::new(|| {
    let text = library::find("systor12-fig4").unwrap();
    let experiment = crate::experiment::parse("x", text, Scale::Replica).unwrap();
    let items = model::items(&experiment.workload).unwrap();
    model::inefficiency(&items, 84.0, 1.0, 1.0).unwrap().recip()
});

/// Blocking answers more, in long pieces.
fn better(arm: &str, rate: f64, _: &Cell) -> Numbers {
    let blocks = arm.ends_with("-b");
    let (peak, run, asks, read) =
        if blocks { (1.15, 120.0, 50.0, 0.9) } else { (1.0, 60.0, 100.0, 1.3) };
    let good = 1_000.0 * rate.min(peak);
    // 84 MiB for 60 directories miss about 2.3 kB for each request.
    let predicted = good * *FOR_EACH_REPLY;
    vec![
        ("good_per_s", good),
        // The kernel cannot say how long several wait. They have a quarter of a processor.
        ("disk_wait_s", f64::NAN),
        ("server_cpu", if blocks { 0.24 } else { 0.2 }),
        ("disk_busy_share", 0.5),
        ("disk_run_kib", run),
        ("disk_requests_per_s", asks),
        ("disk_mbyte_per_s", read * predicted),
        ("disk_files_per_s", 0.8 * asks),
    ]
}

/// The other way round.
fn worse(arm: &str, rate: f64, cell: &Cell) -> Numbers {
    let other =
        if arm.ends_with("-b") { arm.replace("-b", "-nb") } else { arm.replace("-nb", "-b") };
    better(&other, rate, cell)
}

#[test]
fn bytes_that_are_read() {
    check(
        "systor12-fig4",
        &[
            ("S-8b", Holds, better),
            ("S-8b", Fails, worse),
            ("S-8b", Cannot, |_, _, _| vec![("page_cache_mib", 1e6)]),
        ],
    );
}

#[test]
fn shared_processors() {
    // Two processors that the load shares decide nothing, whatever they show.
    for claim in ["S-1", "S-2", "S-3", "S-4", "S-6"] {
        let judged = verdict(claim, "systor12-fig2", nothing);
        assert_eq!(judged.verdict, Cannot, "{judged:?}");
        assert!(judged.ours.contains("1.0") || judged.ours.contains("0.9"), "{judged:?}");
        assert!(judged.why.contains("which the load shares"), "{judged:?}");
        assert!(matches!(judged.open, Some(Open::Machine { .. })), "{judged:?}");
    }
}

/// The load has no time left, and the servers have.
#[test]
fn a_load_without_time_decides_nothing() {
    check(
        "disk",
        &[("X-3", Cannot, |arm, rate, cell| {
            but(on_a_disk(arm, rate, cell), &[("client_busy", 0.97), ("server_cpu", 0.1)])
        })],
    );
}

/// The first of two servers, run twice, is farther from itself than the claim is from its limit.
#[test]
fn a_server_far_from_itself_vetoes_nothing() {
    check(
        "eurosys07-knot",
        &[("E-23", Fails, |arm, rate, cell| match arm {
            _ if cell.arm != cell.target => peak(rate, 1.06),
            "watpipe4" => peak(rate, 0.9),
            _ => peak(rate, 1.0),
        })],
    );
}

#[test]
fn kernels_and_workloads() {
    check(
        "systor12-fig1",
        &[
            ("S-16", Fails, |arm, rate, _| good(rate, if arm == "symped-4" { 1.0 } else { 0.5 })),
            ("S-16", Holds, |_, rate, cell| {
                let none = cell.levels["environment.disk.read_ahead_kb"] == "0";
                good(rate, if none { 0.5 } else { 1.0 })
            }),
            // Neither decides anything, so the one not more than the other.
            ("S-16", Fails, nothing),
            ("S-16", Cannot, |_, _, cell| {
                let none = cell.levels["environment.disk.read_ahead_kb"] == "0";
                if none { vec![("good_per_s", f64::NAN)] } else { Vec::new() }
            }),
        ],
    );
    check(
        "systor12-fig5",
        &[
            ("S-17", Fails, |arm, rate, _| {
                let peak = if arm == "amped" { 1.2 } else { 1.0 };
                vec![("good_per_s", 700.0 * rate.min(1.0) * peak)]
            }),
            ("S-17", Holds, |arm, rate, cell| {
                let cached = cell.levels["environment.memory_share"] == "2";
                let peak = match (arm, cached) {
                    ("amped", false) | ("symped-4", true) => 1.2,
                    _ => 1.0,
                };
                vec![("good_per_s", 700.0 * rate.min(1.0) * peak)]
            }),
            ("S-18", Cannot, nothing),
        ],
    );
    // Two lead at one place each, and a third is as good as either there, or nearly.
    let third = verdict("S-17", "systor12-fig5", |arm, rate, cell| {
        let cached = cell.levels["environment.memory_share"] == "2";
        let most = match (arm, cached) {
            ("amped", false) | ("symped-4", true) => 1.0,
            ("amped" | "symped-4", _) => 0.8,
            ("laio", _) => 0.995,
            _ => 0.7,
        };
        vec![("good_per_s", 700.0 * rate.min(1.0) * most)]
    });
    assert_ne!(third.verdict, Holds, "{third:?}");
}

#[test]
fn without_a_valid_trial_nothing_can_be_told() {
    for (name, text) in library::EXPERIMENTS {
        let mut run = synthetic_at(text, Scale::Quick, &|_| BTreeMap::new());
        run.records.clear();
        for judged in judge(&run) {
            assert_eq!(judged.verdict, Cannot, "{name}: {judged:?}");
            assert!(!judged.why.is_empty() && !judged.gist.is_empty(), "{name}: {judged:?}");
        }
    }
}

/// An experiment of one rate with these targets.
pub(super) fn text(claims: &str, targets: &str) -> String {
    format!(
        "experiment = {{ name = \"x\", question = \"?\", expect = \"!\", claims = [{claims}] }}\n\
         workload.root = \".\"\nmeasure.blocks = 6\n{targets}"
    )
}

/// Targets, each by its name, its architecture and its options.
pub(super) fn targets(all: &[[&str; 3]]) -> String {
    let target = |[name, architecture, options]: &[&str; 3]| {
        let options = options.split_whitespace().map(|option| {
            let (key, value) = option.split_once('=').unwrap();
            format!(", config.{key} = {value:?}")
        });
        let options: String = options.collect();
        format!("targets.{name} = {{ config.server.architecture = {architecture:?}{options} }}\n")
    };
    all.iter().map(target).collect()
}

pub(super) fn check_text(text: &str, rows: &[(&str, Verdict, World)]) {
    for (at, (claim, wanted, world)) in rows.iter().enumerate() {
        let mut run = run_in(text, *world);
        run.experiment.claims = vec![(*claim).to_owned()];
        let judged = judge(&run).remove(0);
        assert_eq!(judged.verdict, *wanted, "row {at}: {judged:?}");
    }
}
