//! Concurrency architectures: which units execute operations, where, and how they wait.
//!
//! A *driver* (one file in `architectures`) is a way to run connections. A *preset* (one row of
//! [`presets::ARCHITECTURES`]) is a point on the driver's axes with a name from the literature.
#![forbid(unsafe_code)]

pub mod architectures;
pub mod cache;
pub mod conn;
pub mod control;
pub mod disk;
pub mod drive;
pub mod layout;
pub mod loops;
pub mod options;
pub mod presets;
pub mod releases;
pub mod shared;
mod sync;
#[cfg(test)]
mod testing;
mod work_error;

pub use presets::{ABSENT, ARCHITECTURES, Architecture, Family, absent, find};
pub use work_error::WorkError;

use options::{OptionSpec, Settings};
use regatta_metrics::{Arena, Slot, Tally};
use regatta_op::{Now, Op};
use regatta_origin::{
    BodyFiles, Deriver, Exchange, Link, Links, ListenerClass, Lister, Log, NoLog, Site,
};
use regatta_sys::{
    Bell, OpenRules, Root, StaticFile, channel::Channel, crew::Member, fiber::STACK_BYTES_MIN,
    socket::Steps,
};
use std::{
    fmt,
    ops::Range,
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
};

// Connections, exchanges, operations and slots move between threads, which share one `Env`.
const fn assert_send<T: Send>() {}
const fn assert_sync<T: Sync>() {}
const _: () = assert_send::<(Link<StaticFile>, Exchange<StaticFile>, Op<StaticFile>)>();
const _: () = assert_send::<(conn::step::ReadySlot, conn::worker::Passed)>();
const _: () = assert_sync::<Env>();

/// Subject of a line that a worker writes to the error log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A controller has decided.
    Decision,
    /// A disk, or a file server, does not answer.
    DiskSilent,
    /// A disk answers again.
    DiskBack,
}

/// Log that is written in batches and needs to know the time. One per unit.
pub trait WorkerLog: Log {
    /// Writes lines that have waited long enough, and reopens the files if the master asked for it.
    fn tick(&self, now: Now);
    /// Writes everything.
    fn flush(&self);
    /// Whether the next tick will reopen the files.
    fn is_due(&self) -> bool;
    /// Calls `each` for every descriptor that this process has opened for the log.
    fn each_own(&self, each: &mut dyn FnMut(BorrowedFd<'_>));
    /// Writes a line to the error log.
    fn notice(&self, _about: Notice, _message: fmt::Arguments<'_>) {}
}

impl WorkerLog for NoLog {
    fn tick(&self, _: Now) {}
    fn flush(&self) {}
    fn is_due(&self) -> bool {
        false
    }
    fn each_own(&self, _: &mut dyn FnMut(BorrowedFd<'_>)) {}
}

/// Way to run connections. Presets that share a driver differ only in options.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    /// The driver's options, with their defaults.
    pub options: &'static [OptionSpec],
    /// Options of `accept.*` without effect, because of how the driver accepts, reads and sends.
    pub ignores: &'static [&'static str],
    /// The most worker processes, if `processors` may be busy at once.
    pub processes: fn(&Settings, processors: usize) -> usize,
    /// Number of units of each process.
    pub units: fn(&Settings) -> Units,
    /// Whether each process is a pipeline of stages.
    pub is_pipeline: bool,
    /// Number of slots of counters of each process: one for each unit that counts alone, or one
    /// that several units share.
    pub slots: fn(&Settings) -> usize,
    /// Calls on sockets that wait in steps.
    pub steps: fn(&Settings) -> Steps,
    /// Number of processes, if it follows from how many are idle; `None`: all.
    pub staffing: fn(&Settings) -> Option<Staffing>,
    /// Rules by which the number of processes follows their waits for the disk; `None`: no rules.
    pub waits: fn(&Settings) -> Option<WaitRules>,
    /// Resources that a process with this many connections requires of the system.
    pub demand: fn(&Settings, connections: usize) -> Demand,
    /// Option with the size of the stacks on which connections are served, if there is one.
    pub stack: fn(&Settings) -> Option<StackOption>,
    /// Body of a worker process, until it is to leave.
    pub work: fn(&Env, process: usize) -> Result<(), WorkError>,
}

/// Number of units of a process. A unit counts, and writes lines of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// A single unit.
    One,
    /// Several threads: they write to the log line by line, under a lock.
    Several,
}

/// Processes that the master keeps, if each serves one connection at a time. The number of idle
/// processes stays between two limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staffing {
    /// Processes at the beginning.
    pub start: usize,
    /// The least that are idle, while there may be more processes.
    pub idle_min: usize,
    /// The most that are idle.
    pub idle_max: usize,
}

/// Rules by which the master starts processes while they wait for the disk, and retires some when
/// they do not. There are no more than [`Driver::processes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitRules {
    /// Processes at least, and at the beginning.
    pub processes_min: usize,
    /// Share of their time that they wait for the disk from which one more starts, percent.
    pub high_percent: u64,
    /// Share up to which a period is calm, percent.
    pub low_percent: u64,
    /// Period of a measurement, milliseconds.
    pub period_ms: u64,
    /// Calm periods in a row after which one retires.
    pub calm_periods: u32,
    /// Decisions are made and not followed.
    pub freeze: bool,
}

/// Resources that a process requires of the system, apart from sockets and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Kernel threads, including the first.
    pub tasks: u64,
    /// Mappings of memory: a stack is one, and its guard another.
    pub mappings: u64,
    /// Addresses reserved for stacks, bytes.
    pub address_bytes: u64,
    /// Descriptors in addition to those of every process.
    pub descriptors: u64,
}

/// Option with the size of stacks on which connections are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackOption {
    /// Name of the option.
    pub key: &'static str,
    /// Size of each stack, bytes.
    pub bytes: usize,
}

/// Bytes of stack that a thread or a user thread needs to serve connections. With `tls`: one and a
/// half times what a full handshake used at most in a release build, 26 KiB.
#[must_use]
pub const fn stack_bytes_needed(tls: bool) -> usize {
    if tls { 40 << 10 } else { STACK_BYTES_MIN }
}

impl Demand {
    /// Demand of one thread and `helpers` helper processes: a channel to each, and a handle.
    pub(crate) const fn with_helpers(helpers: usize) -> Self {
        let helpers = helpers as u64;
        Self { tasks: 1 + helpers, mappings: 0, address_bytes: 0, descriptors: 2 * helpers }
    }
}

impl Driver {
    /// Makes a driver whose processes are one unit each, in one thread or few.
    #[must_use]
    pub const fn plain(
        options: &'static [OptionSpec],
        processes: fn(&Settings, processors: usize) -> usize,
        work: fn(&Env, process: usize) -> Result<(), WorkError>,
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
            waits: |_| None,
            demand: |_, _| Demand { tasks: 1, ..Demand::default() },
            stack: |_| None,
            work,
        }
    }

    /// Whether the driver has the option `key`.
    #[must_use]
    pub fn takes(&self, key: &str) -> bool {
        self.options.iter().any(|spec| spec.key == key)
    }
}

/// Source of listings, which reads folders below the root of its process.
pub trait FolderLister: Lister {
    /// Starts its work in this process, which serves `root`. The process may be one of a crew that
    /// shares a table of descriptors. Later calls do nothing.
    fn start(&self, root: &Arc<Root>, member: Option<&'static Member>);
}

/// Share of one worker process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Range of the process's slots of counters.
    pub slots: Range<usize>,
    /// Range of the sockets that the process accepts from.
    pub listeners: Range<usize>,
    /// Connections that it may have open at once.
    pub connections_max: usize,
    /// Processors that the process may run on; empty: any.
    pub cpus: Vec<usize>,
}

/// Environment of every worker, which the master prepares while it is single-threaded.
#[expect(missing_debug_implementations, reason = "holds a closure")]
pub struct Env {
    /// Bound and listening sockets; each worker has its share of them.
    pub sockets: Vec<OwnedFd>,
    /// Class of each socket.
    pub classes: Vec<ListenerClass>,
    /// Shares, one for each worker process.
    pub shares: Vec<Share>,
    /// Directory that is served when a worker starts.
    pub root: Arc<Root>,
    /// The sites that change with their roots.
    pub releases: releases::Releases,
    /// Channels, one per process, by which the master sends a root that replaces `root`.
    pub root_channels: Vec<Channel>,
    /// Rules for resolving paths below the root.
    pub rules: OpenRules,
    /// The site: limits, deadlines, content and caching rules.
    pub site: Site,
    /// Protocols of each class of listeners.
    pub links: Box<dyn Links<StaticFile> + Sync>,
    /// Open files of streams. Each process has a count of its own, which its units share.
    pub files: Arc<BodyFiles>,
    /// Source of compressed forms and digests of files, if workers make them. Each process has its
    /// own.
    pub deriver: Option<Arc<dyn Deriver<StaticFile>>>,
    /// Source of listings of folders, if a host has them. Each process has its own.
    pub lister: Option<Arc<dyn FolderLister>>,
    /// Counters and the control words.
    pub arena: Arena<'static>,
    /// Bells, one per process.
    pub bells: Vec<Bell>,
    /// Effective values of every option.
    pub settings: Settings,
    /// State that the workers share in addition to the listeners, if any.
    pub shared: Option<shared::SharedState>,
    /// Opens the log of the unit with this tally.
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

    /// Classes of the sockets that a process accepts from.
    ///
    /// # Panics
    /// If there is no such process.
    #[must_use]
    pub fn classes(&self, process: usize) -> &[ListenerClass] {
        &self.classes[self.shares[process].listeners.clone()]
    }

    /// Bells that a process keeps: its own and, if a connection wakes only one of the processes on
    /// a listener, those of the others.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn bells_of(&self, process: usize) -> impl Iterator<Item = &Bell> {
        let (exclusive, own) =
            (architectures::event::is_exclusive(&self.settings), &self.shares[process]);
        self.bells.iter().zip(&self.shares).enumerate().filter_map(move |(at, (bell, share))| {
            let rings = exclusive && share.listeners == own.listeners;
            (at == process || rings).then_some(bell)
        })
    }

    /// Slot of a process's first unit, where the process reports its progress and its root.
    ///
    /// # Panics
    /// If there is no such process.
    #[must_use]
    pub fn first_slot(&self, process: usize) -> Slot<'static> {
        self.arena.slot(self.shares[process].slots.start)
    }
}
