//! Queues whose answers are known: the generator finds them again.

use crate::server::{Answer, Queue, Server};
use crate::{attempts, closed, load, ms, near, open, options};
use regatta_load::engine::arrivals::Schedule;
use regatta_load::engine::{Arrivals, LoadOptions, Model, Outcome, Rate};
use std::time::{Duration, Instant};

/// Mean and percentiles that the times must have, ms.
fn compare(outcome: &Outcome, mut expected: Vec<f64>, room: f64) -> Result<(), String> {
    let times = &outcome.response.as_ref().ok_or("no response times")?.times;
    let mean = expected.iter().sum::<f64>() / expected.len() as f64;
    near("mean, ms", times.mean() / 1e6, mean, room)?;
    expected.sort_unstable_by(f64::total_cmp);
    for percent in [50, 90, 95] {
        let at = expected[(percent * expected.len()).div_ceil(100) - 1];
        let found = times.quantile(percent as f64 / 100.0) as f64 / 1e6;
        near(&format!("p{percent}, ms"), found, at, room + 0.1 * at)?;
    }
    Ok(())
}

/// Response times of a single queue, first come first served, ms (Lindley's recursion).
fn lindley(options: &LoadOptions, rate: &Rate, service_ms: impl Fn(u64) -> f64) -> Vec<f64> {
    let schedule = Schedule::new(rate, options.arrivals, options.seed, 0, 1);
    let end_ns = options.duration.unwrap().as_nanos();
    let mut free = 0.0_f64;
    let response =
        schedule.take_while(|arrival| u128::from(arrival.at_ns) < end_ns).map(|arrival| {
            let due = arrival.at_ns as f64 / 1e6;
            free = free.max(due) + service_ms(arrival.number);
            free - due
        });
    response.collect()
}

fn exponential(number: u64, mean_ms: f64) -> f64 {
    // SplitMix64 of the number, so that server and test draw alike.
    let mut bits = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    let unit = ((bits ^ bits >> 31) >> 11) as f64 / (1_u64 << 53) as f64;
    -(1.0 - unit).ln() * mean_ms
}

/// Poisson arrivals at a single server: times as Lindley's recursion gives them for this very
/// schedule, so that no sampling error hides anything.
fn queue_is_found_again(service_ms: fn(u64) -> f64, share: Option<u32>) -> Result<(), String> {
    let queue = Queue::new();
    let server = Server::new(move |asked| {
        let service = Duration::from_secs_f64(service_ms(asked.number) / 1e3);
        Answer::ok(b"x").at(queue.serve(service))
    });
    let rate = Rate::constant(60.0);
    let model = Model::Open { rate: rate.clone(), connections_max: None };
    let arrivals = Arrivals::Poisson;
    let duration = Some(ms(1_200));
    let options = LoadOptions { arrivals, duration, share, ..options(&server.url("/"), model) };
    let expected = lindley(&options, &rate, service_ms);
    let outcome = load(&options);
    if outcome.offered != expected.len() as u64 {
        return Err(format!("{} offered, not {}", outcome.offered, expected.len()));
    }
    compare(&outcome, expected, 4.0)
}

/// Tests run one after the other: each is enough for the machine.
#[test]
fn an_m_d_1_and_an_m_m_1_queue() {
    attempts("M/D/1", || queue_is_found_again(|_| 10.0, None));
    attempts("M/D/1, a share held", || queue_is_found_again(|_| 10.0, Some(50)));
    attempts("M/M/1", || queue_is_found_again(|number| exponential(number, 10.0), None));
}

/// The recursion itself, over 300,000 arrivals of the generator's schedule, against the formulas
/// of Pollaczek and Khinchine: W = ρ(1 + c²) / 2(1 − ρ) + 1 services.
#[test]
fn the_schedule_is_a_poisson_process_to_a_queue() {
    let rate = Rate::constant(60.0);
    let base = options("http://127.0.0.1:1/", open(60.0));
    let duration = Some(Duration::from_secs(5_000));
    let base = LoadOptions { arrivals: Arrivals::Poisson, duration, ..base };
    type Service = fn(u64) -> f64;
    let cases: [(&str, Service, f64); 2] = [
        ("M/D/1", |_| 10.0, 10.0 * (0.6 / 0.8 + 1.0)),
        ("M/M/1", |number| exponential(number, 10.0), 10.0 / 0.4),
    ];
    for (name, service, expected) in cases {
        let times = lindley(&base, &rate, service);
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        near(name, mean, expected, 0.04 * expected).unwrap();
    }
}

/// N = X (R + Z), whatever the machine does meanwhile (the response time law).
#[test]
fn the_closed_interactive_law() {
    let server = Server::new(|asked| Answer::ok(b"x").at(asked.at + ms(5)));
    let model = Model::Closed { connections: 10, think: Some(ms(40)) };
    attempts("X = N / (R + Z)", || {
        let duration = Some(ms(900));
        let outcome = load(&LoadOptions { duration, ..options(&server.url("/"), model.clone()) });
        let x = outcome.good_per_s;
        assert!(outcome.response.is_none(), "a closed model has no due times");
        let r = outcome.service.times.mean() / 1e9;
        near("N", x * (r + 0.040), 10.0, 0.6)?;
        near("X", x, 10.0 / 0.045, 0.15 * 10.0 / 0.045)
    });
}

/// A server that is frozen for 150 ms of every 500. An open model must see a known distribution; a
/// closed model shows coordinated omission.
#[test]
fn scripted_stalls() {
    const STALL: f64 = 150.0;
    attempts("stalls", || {
        let start = Instant::now();
        let server = Server::new(move |asked| {
            let ms_in = (asked.at - start).as_secs_f64() * 1e3 % 500.0;
            let wait = (STALL - ms_in).max(0.0);
            Answer::ok(b"x").at(asked.at + Duration::from_secs_f64((wait + 1.0) / 1e3))
        });
        let duration = Some(ms(1_000));
        let outcome = load(&LoadOptions { duration, ..options(&server.url("/"), open(400.0)) });
        // 30 % of the requests wait for what is left of a stall; the others take 1 ms.
        let expected = (0..400).map(|n| (STALL - f64::from(n) * 2.5 % 500.0).max(0.0) + 1.0);
        compare(&outcome, expected.collect(), 12.0)?;
        let outcome = load(&LoadOptions { duration, ..options(&server.url("/"), closed(2)) });
        let p90 = outcome.service.at(0.9).ns as f64 / 1e6;
        near("p90 of the closed model, ms", p90, 1.0, 12.0)
    });
}

/// A ramp offers the integral of its rate, also over several threads.
#[test]
fn ramps_and_threads_offer_what_was_asked() {
    let server = Server::new(|_| Answer::ok(b"x"));
    let rate = Rate::ramp(200.0, 1_000.0, 0.5);
    let model = Model::Open { rate, connections_max: None };
    let duration = Some(ms(500));
    let outcome = load(&LoadOptions { duration, threads: 3, ..options(&server.url("/"), model) });
    assert_eq!(outcome.offered, 300);
    assert_eq!(outcome.workers.len(), 3);
    assert_eq!(server.count(), 300);
}
