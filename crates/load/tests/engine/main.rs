//! The load generator against servers whose answers are known, because they are scripted here.
//!
//! A program of its own: it measures times, and tests of workloads keep all processors busy.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod laws;
mod lies;
mod models;
mod offers;
mod opinions;
mod secure;
mod server;
mod streams;

use regatta_load::engine::{LoadOptions, Model, Outcome, Plan, Rate, Watch, perform};
use regatta_testkit::folder::Folder;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn closed(connections: u32) -> Model {
    Model::Closed { connections, think: None }
}

pub(crate) fn open(per_s: f64) -> Model {
    Model::Open { rate: Rate::constant(per_s), connections_max: None }
}

/// Sessions of a log, `per_s` of them a second, and the directory that holds the log.
pub(crate) fn replay(text: &str, per_s: f64) -> (Folder, Model) {
    let scratch = Folder::new("log");
    let log = scratch.join("log");
    std::fs::write(&log, text).unwrap();
    let session_rate = Some(Rate::constant(per_s));
    (scratch, Model::PartlyOpen { sessions: vec![log], session_rate, think: None })
}

pub(crate) fn options(url: &str, model: Model) -> LoadOptions {
    LoadOptions { progress: false, timeout: Some(ms(20_000)), ..LoadOptions::new(url, model) }
}

/// Runs a load that may fail.
pub(crate) fn try_load(options: &LoadOptions) -> Result<Outcome, String> {
    let plan = Plan::new(options).unwrap();
    let stop = AtomicBool::new(false);
    perform(&plan, &mut Watch { stop: &stop, signals: None, begin: &mut || {}, tell: &mut |_| {} })
}

/// Runs a load, and checks what must hold of every result.
pub(crate) fn load(options: &LoadOptions) -> Outcome {
    let outcome = try_load(options).unwrap();
    assert_eq!(outcome.fates.total(), outcome.offered, "each request has one fate");
    let seen: u64 = outcome.clients.iter().map(|client| client.requests).sum();
    let classes: u64 = outcome.classes.iter().map(|class| class.requests).sum();
    assert_eq!((seen, classes), (outcome.offered, outcome.offered));
    let service = &outcome.service;
    assert_eq!(service.times.count() + service.censored, outcome.offered);
    let text = serde_json::to_string(&outcome).unwrap();
    let again: Outcome = serde_json::from_str(&text).unwrap();
    assert_eq!(again.fates, outcome.fates);
    let service_p99 = again.times["service"].p99;
    assert_eq!(service_p99, outcome.service.at(0.99));
    assert_eq!(again.times.contains_key("response"), outcome.response.is_some());
    outcome
}

/// Runs `attempt` until it is content; the machine may be busy, but not for ever.
pub(crate) fn attempts(what: &str, mut attempt: impl FnMut() -> Result<(), String>) {
    let mut problems = Vec::new();
    for _ in 0..4 {
        match attempt() {
            Ok(()) => return,
            Err(problem) => problems.push(problem),
        }
    }
    panic!("{what}: {problems:#?}");
}

pub(crate) fn near(what: &str, found: f64, expected: f64, room: f64) -> Result<(), String> {
    let off = (found - expected).abs();
    if off <= room { Ok(()) } else { Err(format!("{what} is {found}, not {expected} ± {room}")) }
}
