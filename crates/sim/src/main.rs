//! `regatta-sim`: runs the schedules of many seeds, or one of them again.
#![forbid(unsafe_code)]

use regatta_sim::{
    BrokenCheck, DuplexReport, Report, Violation, announce_panics, run, run_frames, run_http2,
    run_sealed, run_sealed_frames, run_sealed_http2, whole_trace,
};
use std::{process::ExitCode, time::Instant};

const USAGE: &str = "usage: regatta-sim [--seeds N [--from S]] | --seed S [--sealed] \
                     [--trace | --frames | --http2]";
/// Number of seeds between two lines of progress.
const PROGRESS_SEEDS: u64 = 10_000;

fn main() -> ExitCode {
    announce_panics();
    match Orders::read(std::env::args().skip(1)) {
        Ok(Orders { seed: Some(seed), frames: true, sealed, .. }) => {
            one_duplex(if sealed { run_sealed_frames(seed) } else { run_frames(seed) })
        }
        Ok(Orders { seed: Some(seed), http2: true, sealed, .. }) => {
            one_duplex(if sealed { run_sealed_http2(seed) } else { run_http2(seed) })
        }
        Ok(Orders { seed: Some(seed), trace, sealed, .. }) => {
            report_one(if sealed { run_sealed(seed) } else { run(seed) }, trace)
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
    if trace {
        print!("{}", whole_trace());
    }
    match ended {
        Ok(report) => {
            println!("{report:?}");
            ExitCode::SUCCESS
        }
        Err(violation) if trace => {
            println!("step {}: {}", violation.step, violation.what);
            ExitCode::FAILURE
        }
        Err(violation) => {
            println!("{violation}");
            ExitCode::FAILURE
        }
    }
}

fn one_duplex(ended: Result<DuplexReport, BrokenCheck>) -> ExitCode {
    match ended {
        Ok(report) => println!("{report:?}"),
        Err(what) => {
            println!("{what}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn run_many(seeds: u64, from: u64) -> ExitCode {
    let started = Instant::now();
    let (mut replies, mut connections) = (0, 0);
    for (done, seed) in (1..=seeds).zip(from..) {
        for ended in [run(seed), run_sealed(seed)] {
            match ended {
                Ok(report) => {
                    replies += report.replies;
                    connections += report.connections;
                }
                Err(violation) => {
                    println!("{violation}");
                    return ExitCode::FAILURE;
                }
            }
        }
        for run in [run_frames, run_sealed_frames, run_http2, run_sealed_http2] {
            match run(seed) {
                Ok(report) => replies += report.answers,
                Err(what) => {
                    println!("{what}");
                    return ExitCode::FAILURE;
                }
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
