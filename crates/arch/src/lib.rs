//! Concurrency architectures: who executes operations, where, and how they wait.
//!
//! A *driver* (one file here) is a way to run connections; a *preset* (one row of
//! [`presets::ARCHITECTURES`]) is a point on its axes with a name from the literature.
#![forbid(unsafe_code)]

pub mod drive;
pub mod event;
pub mod kit;
pub mod options;
pub mod presets;

pub use presets::{ARCHITECTURES, Architecture, Driver, find};

use options::Settings;
use regatta_metrics::Arena;
use regatta_op::Now;
use regatta_origin::{Log, Site};
use regatta_sys::{Bell, OpenRules, Root};
use std::os::fd::OwnedFd;

/// A log that is written in batches and wants to be told the time. One per worker.
pub trait WorkerLog: Log {
    /// Writes lines that have waited long enough, and reopens the files if the master asked for it.
    fn tick(&self, now: Now);
    /// Writes everything.
    fn flush(&self);
}

/// What the master prepares, while it is single-threaded, for every worker of every architecture.
#[expect(missing_debug_implementations, reason = "holds a closure")]
pub struct Env {
    /// Bound and listening sockets, in the order of the configuration.
    pub listeners: Vec<OwnedFd>,
    /// What is served.
    pub root: Root,
    /// How paths below the root are resolved.
    pub rules: OpenRules,
    /// The site: limits, deadlines, content and caching rules.
    pub site: Site,
    /// Counters and the control words.
    pub arena: Arena<'static>,
    /// One bell per worker.
    pub bells: Vec<Bell>,
    /// Connections that may be open at once in one worker.
    pub connections_max: usize,
    /// Effective values of every option.
    pub settings: Settings,
    /// Opens the log of worker number `n`.
    pub open_log: Box<dyn Fn(usize) -> Box<dyn WorkerLog>>,
}
