//! `regatta-sim`: runs the schedules of many seeds, or one of them again.
#![forbid(unsafe_code)]

use regatta_sim::{
    BrokenCheck, DuplexReport, Report, Scenario, Violation, announce_panics, whole_trace,
};
use std::{
    error::Error,
    fmt::{Debug, Display},
    process::ExitCode,
    time::Instant,
};

const USAGE: &str = "usage: regatta-sim [--seeds N [--from S]] | --seed S [--sealed] \
                     [--trace | --frames | --http2]";
/// Number of seeds between two lines of progress.
const PROGRESS_SEEDS: u64 = 10_000;

fn main() -> ExitCode {
    announce_panics();
    match Orders::read(std::env::args().skip(1)) {
        Ok(Orders { seed: Some(seed), sealed, trace, frames, http2, .. }) => {
            let (one, sums) = (Scenario { seed, sealed, plant: None }, DuplexReport::default());
            match (frames, http2) {
                (true, _) => report(one.run_frames(sums)),
                (_, true) => report(one.run_http2(sums)),
                _ => report_one(one.run(), trace),
            }
        }
        Ok(Orders { seeds, from, .. }) => run_many(seeds, from),
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

#[derive(Default)]
struct Orders {
    seeds: u64,
    from: u64,
    seed: Option<u64>,
    trace: bool,
    frames: bool,
    http2: bool,
    sealed: bool,
}

impl Orders {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, BrokenCheck> {
        let mut orders = Self { seeds: 1_000, ..Self::default() };
        while let Some(word) = words.next() {
            let mut number = || {
                let text = words.next().ok_or_else(|| format!("{word} needs a number"))?;
                let wrong = |error| BrokenCheck::from(format!("{word} {text}: {error}"));
                text.parse::<u64>().map_err(wrong)
            };
            match &*word {
                "--seeds" => orders.seeds = number()?,
                "--from" => orders.from = number()?,
                "--seed" => orders.seed = Some(number()?),
                "--trace" => orders.trace = true,
                "--frames" => orders.frames = true,
                "--http2" => orders.http2 = true,
                "--sealed" => orders.sealed = true,
                _ => return Err(format!("unknown word {word}").into()),
            }
        }
        Ok(orders)
    }
}

fn report_one(ended: Result<Report, Violation>, trace: bool) -> ExitCode {
    if !trace {
        return report(ended);
    }
    print!("{}", whole_trace());
    report(ended.map_err(|violation| format!("step {}: {}", violation.step, violation.what)))
}

fn report(ended: Result<impl Debug, impl Display>) -> ExitCode {
    match ended {
        Ok(report) => {
            println!("{report:?}");
            ExitCode::SUCCESS
        }
        Err(what) => {
            println!("{what}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all schedules of a seed. Returns the connections of HTTP/1, and all responses.
fn run_all(seed: u64) -> Result<(u64, u64), Box<dyn Error>> {
    let (mut connections, mut replies, mut sums) = (0, 0, DuplexReport::default());
    for sealed in [false, true] {
        let one = Scenario { seed, sealed, plant: None };
        let report = one.run()?;
        connections += report.connections;
        replies += report.replies;
        sums = one.run_http2(one.run_frames(sums)?)?;
    }
    Ok((connections, replies + sums.answers))
}

fn run_many(seeds: u64, from: u64) -> ExitCode {
    let started = Instant::now();
    let (mut replies, mut connections) = (0, 0);
    for (done, seed) in (1..=seeds).zip(from..) {
        match run_all(seed) {
            Ok((of_http1, all)) => (connections, replies) = (connections + of_http1, replies + all),
            Err(what) => {
                println!("{what}");
                return ExitCode::FAILURE;
            }
        }
        if done % PROGRESS_SEEDS == 0 || done == seeds {
            let seconds = started.elapsed().as_secs_f64();
            // HTTP/1, HTTP/2 and frames, each in the clear and sealed.
            let sealed = 3 * done;
            println!(
                "{done} seeds: {sealed} schedules in the clear, {sealed} sealed; {connections} \
                 connections, {replies} responses judged, {:.0} seeds/s",
                done as f64 / seconds
            );
        }
    }
    ExitCode::SUCCESS
}
