//! The simulator: a driver with virtual time, seeded schedules and faults.
//!
//! A schedule is several connections over one cache and one disk in memory. Peers send requests in
//! pieces of any size, and read and leave as they like. The disk is slow, out of order, and
//! changes. Sockets take one byte or all. Every decision derives from one seed. A model that shares
//! no code with the origin judges every byte that is sent: see `judge`.
#![forbid(unsafe_code)]

mod closing;
mod dice;
mod disk;
mod duplex;
mod end;
mod expect;
mod faulty;
mod frames;
mod h2;
mod judge;
mod knowledge;
mod ledger;
mod link;
mod peer;
mod plant;
mod reader;
mod records;
mod registry;
mod request;
mod run;
mod sealing;
mod site;
mod spoil;
mod talk;
mod trace;
mod waiting;
mod wire;
mod world;

pub use frames::{
    Answer, Client, EXCHANGES, FAILED, Frames, FramesSession, NOT_FOUND, UNAVAILABLE,
};
pub use h2::Http2Fetcher;
pub use plant::Plant;
pub use run::{Report, Scenario, Violation, announce_panics, run_bytes, whole_trace};
pub use talk::DuplexReport;
pub use wire::{run_http2_wire, run_wire};

use std::fmt;

/// Text of a check that does not hold. A person reads it; no caller branches on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenCheck(String);

impl From<String> for BrokenCheck {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for BrokenCheck {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for BrokenCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BrokenCheck {}
