//! Concurrency architectures: who executes operations, where, and how they wait.
//!
//! A *driver* (one file here) is a way to run connections; a *preset* (one row of
//! [`presets::ARCHITECTURES`]) is a point on its axes with a name from the literature.
#![forbid(unsafe_code)]

pub mod adapt;
pub mod amped;
pub mod cohort;
pub mod drive;
pub mod event;
pub mod fiber;
pub mod flash;
pub mod kit;
pub mod laio;
pub mod layout;
pub mod mp;
pub mod options;
mod pipeline;
pub mod pool;
pub mod presets;
pub mod releases;
pub mod seda;
pub mod shared;
pub mod threads;
pub mod watpipe;

pub use presets::{ABSENT, ARCHITECTURES, Architecture, Family, absent, find};

use options::{OptionSpec, Settings};
use regatta_metrics::{Arena, Slot, Tally};
use regatta_op::{Now, Op};
use regatta_origin::{Exchange, Link, Links, Log, NoLog, Site};
use regatta_sys::{Bell, OpenRules, Root, StaticFile, channel::Channel, socket::Steps};
use std::{
    fmt,
    ops::Range,
    os::fd::{BorrowedFd, OwnedFd},
};

// Connections, exchanges, operations and slots may go from thread to thread; all threads of a
// process are given the same surroundings.
const fn assert_send<T: Send>() {}
const fn assert_sync<T: Sync>() {}
const _: () = assert_send::<(Link<StaticFile>, Exchange<StaticFile>, Op<StaticFile>)>();
const _: () = assert_send::<(kit::step::ReadySlot, kit::worker::Passed)>();
const _: () = assert_sync::<Env>();

/// A log that is written in batches and wants to be told the time. One per unit.
pub trait WorkerLog: Log {
    /// Writes lines that have waited long enough, and reopens the files if the master asked for it.
    fn tick(&self, now: Now);
    /// Writes everything.
    fn flush(&self);
    /// True if the next tick will reopen the files.
    fn is_due(&self) -> bool;
    /// Calls `each` for every descriptor that this process has opened for the log.
    fn each_own(&self, each: &mut dyn FnMut(BorrowedFd<'_>));
    /// Writes something to the error log that is worth knowing.
    fn notice(&self, _message: fmt::Arguments<'_>) {}
}

impl WorkerLog for NoLog {
    fn tick(&self, _: Now) {}
    fn flush(&self) {}
    fn is_due(&self) -> bool {
        false
    }
    fn each_own(&self, _: &mut dyn FnMut(BorrowedFd<'_>)) {}
}

/// A way to run connections. Presets that share a driver differ only in options.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    /// The driver's options, with their defaults.
    pub options: &'static [OptionSpec],
    /// Options of `accept.*` that change nothing, because of how it accepts, reads and sends.
    pub ignores: &'static [&'static str],
    /// How many worker processes there are at most, where so many processors may be busy at once.
    pub processes: fn(&Settings, processors: usize) -> usize,
    /// How many units each of them is.
    pub units: fn(&Settings) -> Units,
    /// Each of them is a pipeline of stages.
    pub is_pipeline: bool,
    /// How many slots of counters each of them has: one for each unit that counts for itself, or
    /// that several units share.
    pub slots: fn(&Settings) -> usize,
    /// Which calls on its sockets wait in steps.
    pub steps: fn(&Settings) -> Steps,
    /// How many of them there are, if that follows from how many are idle; `None`: all.
    pub staffing: fn(&Settings) -> Option<Staffing>,
    /// What a process wants of the system, with so many connections.
    pub demand: fn(&Settings, connections: usize) -> Demand,
    /// What a worker process does until it is told to leave.
    pub work: fn(&Env, process: usize) -> Result<(), String>,
}

/// How many units a process is: who counts, and writes lines of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// One.
    One,
    /// Several threads: they write to the log line by line, under a lock.
    Several,
}

/// Processes that the master keeps, of those that serve one connection at a time: between two
/// numbers of them are idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staffing {
    /// Processes at the beginning.
    pub start: usize,
    /// The least that are idle, while there may be more processes.
    pub idle_min: usize,
    /// The most that are idle.
    pub idle_max: usize,
}

/// What a process wants of the system besides sockets and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Kernel threads, its first among them.
    pub tasks: u64,
    /// Mappings of memory: a stack is one, and its guard another.
    pub mappings: u64,
    /// Addresses that are reserved for stacks, bytes.
    pub address_bytes: u64,
    /// Descriptors besides those that every process has.
    pub descriptors: u64,
}

impl Demand {
    /// Of a process with one thread and so many helper processes: a channel to each, and a handle.
    pub(crate) const fn with_helpers(helpers: usize) -> Self {
        let helpers = helpers as u64;
        Self { tasks: 1 + helpers, mappings: 0, address_bytes: 0, descriptors: 2 * helpers }
    }
}

impl Driver {
    /// A driver whose processes are one unit each, in one thread or few.
    #[must_use]
    pub const fn plain(
        options: &'static [OptionSpec],
        processes: fn(&Settings, processors: usize) -> usize,
        work: fn(&Env, process: usize) -> Result<(), String>,
    ) -> Self {
        Self {
            options,
            ignores: &[],
            processes,
            units: |_| Units::One,
            is_pipeline: false,
            slots: |_| 1,
            steps: |_| Steps::None,
            staffing: |_| None,
            demand: |_, _| Demand { tasks: 1, ..Demand::default() },
            work,
        }
    }

    /// True if it takes the option of that name.
    #[must_use]
    pub fn takes(&self, key: &str) -> bool {
        self.options.iter().any(|spec| spec.key == key)
    }
}

/// What one worker process gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its slots of counters.
    pub slots: Range<usize>,
    /// Which of the sockets it accepts from.
    pub listeners: Range<usize>,
    /// Connections that it may have open at once.
    pub connections_max: usize,
    /// The processors that it may run on; any if none is named.
    pub cpus: Vec<usize>,
}

/// What the master prepares, while it is single-threaded, for every worker of every architecture.
#[expect(missing_debug_implementations, reason = "holds a closure")]
pub struct Env {
    /// Bound and listening sockets; each worker has its share of them.
    pub sockets: Vec<OwnedFd>,
    /// What each worker process gets.
    pub shares: Vec<Share>,
    /// What is served when a worker starts.
    pub root: Root,
    /// The sites that change with their roots.
    pub releases: releases::Releases,
    /// One per process: where the master sends the root that takes the place of that.
    pub root_channels: Vec<Channel>,
    /// How paths below the root are resolved.
    pub rules: OpenRules,
    /// The site: limits, deadlines, content and caching rules.
    pub site: Site,
    /// What is spoken on which listener.
    pub links: Box<dyn Links<StaticFile> + Sync>,
    /// Counters and the control words.
    pub arena: Arena<'static>,
    /// One bell per process.
    pub bells: Vec<Bell>,
    /// Effective values of every option.
    pub settings: Settings,
    /// What the workers share besides the listeners, if they share anything.
    pub shared: Option<shared::SharedState>,
    /// Opens the log of a unit that counts there.
    pub open_log: Box<dyn Fn(Tally<'static>) -> Box<dyn WorkerLog> + Send + Sync>,
    /// Ends the process at once, with success, whatever its threads wait for.
    pub end_process: fn(),
}

impl Env {
    /// The sockets that a process accepts from.
    ///
    /// # Panics
    /// If there is no such process.
    #[must_use]
    pub fn listeners(&self, process: usize) -> &[OwnedFd] {
        &self.sockets[self.shares[process].listeners.clone()]
    }

    /// The bells that a process holds: its own, and where a connection wakes one of the processes
    /// on a listener, those of the others.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn bells_of(&self, process: usize) -> impl Iterator<Item = &Bell> {
        let (exclusive, own) = (event::is_exclusive(&self.settings), &self.shares[process]);
        self.bells.iter().zip(&self.shares).enumerate().filter_map(move |(at, (bell, share))| {
            let rings = exclusive && share.listeners == own.listeners;
            (at == process || rings).then_some(bell)
        })
    }

    /// The slot of a process's first unit, where the process says that it goes on, and which root
    /// it serves.
    ///
    /// # Panics
    /// If there is no such process.
    #[must_use]
    pub fn first_slot(&self, process: usize) -> Slot<'static> {
        self.arena.slot(self.shares[process].slots.start)
    }
}
