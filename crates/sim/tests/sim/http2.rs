//! Schedules of HTTP/2 that must be judged right, and planted mistakes that must be seen.
use regatta_sim::{
    BrokenCheck, DuplexReport, Plant, run_http2, run_http2_planted, run_sealed_http2,
};

/// Seeds of every test run, in the clear and sealed; `cargo xtask sim` runs more.
const SEEDS: [u64; 2] = [256, 144];

/// Seeds within which every planted mistake must be seen.
const PLANTED_SEEDS: u64 = 2_000;

fn all(run: fn(u64) -> Result<DuplexReport, BrokenCheck>, seeds: u64) -> DuplexReport {
    let mut sums = DuplexReport::default();
    for seed in 0..seeds {
        match run(seed) {
            Ok(report) => sums.add(&report),
            Err(what) => panic!("{what}"),
        }
    }
    println!("{sums:?}");
    sums
}

#[test]
fn every_http2_schedule_is_as_the_model_says() {
    let sums = all(run_http2, SEEDS[0]);
    assert!(sums.answers > 1_000 && sums.overtaking > 50, "{sums:?}");
    assert!(sums.exchanges_max > 8 && sums.disk_ops_max == 4, "{sums:?}");
    assert!(sums.resets > 20 && sums.goodbyes > 50 && sums.violations > 20, "{sums:?}");
    assert!(sums.duplex > 50 && sums.given_up > 5 && sums.drained > 25, "{sums:?}");
}

#[test]
fn every_sealed_http2_schedule_is_as_the_model_says() {
    let sums = all(run_sealed_http2, SEEDS[1]);
    assert!(sums.answers > 400 && sums.overtaking > 10, "{sums:?}");
    assert!(sums.resets > 5 && sums.goodbyes > 10 && sums.unshaken > 10, "{sums:?}");
}

#[test]
fn an_http2_seed_replays() {
    for run in [run_http2, run_sealed_http2] {
        for seed in 0..20 {
            assert_eq!(run(seed), run(seed), "seed {seed}");
        }
    }
}

#[test]
fn every_planted_mistake_of_http2_is_seen() {
    let mut unseen = Vec::new();
    for (plant, words) in Plant::HTTP2 {
        let seen = (0..PLANTED_SEEDS).find_map(|seed| {
            let what = run_http2_planted(seed, plant).err()?.to_string();
            what.contains(words).then_some((seed, what))
        });
        match seen {
            Some((seed, what)) => {
                println!("{plant:?}: seed {seed}, {}", what.lines().next().unwrap_or_default());
            }
            None => unseen.push((plant, words)),
        }
    }
    assert!(unseen.is_empty(), "no seed shows {unseen:?}");
}
