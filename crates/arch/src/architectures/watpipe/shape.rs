//! The threads of a pipeline, the stations between them, and their slots of counters.
use super::options::{Acceptors, Parts, Read, WatpipeOptions};
use crate::{
    architectures::pipeline::READ,
    conn::worker::StageSlot,
    loops::line::options::{PoolControl, StagesOptions},
    options::Settings,
};
use std::ops::Range;

/// Stations after those of the two pollers: the queues of writers and readers.
pub(super) const WRITE: usize = 2;
pub(super) const READERS: usize = 3;
pub(super) const ROLES: [&str; 4] = ["read", "write-poll", "write", "reader"];

/// Slots of a process. The first thread accepts, and has one of its own.
pub(super) const FIRST: usize = 0;
/// Other threads that accept.
pub(super) const ACCEPT: usize = 1;
/// Jobs put at each station.
pub(super) const STATIONS: Range<usize> = 2..6;
pub(super) const POLLERS: Range<usize> = 6..8;
/// Threads that write, and that read. With more threads, several share a slot.
pub(super) const WRITERS_SLOTS: Range<usize> = 8..40;
pub(super) const READERS_SLOTS: Range<usize> = 40..56;
/// Thread that starts writers.
pub(super) const CONTROL: usize = 56;
pub(super) const SLOTS: Range<usize> = 0..57;

/// Number of threads of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Threads that accept.
    pub(super) homes: usize,
    /// 0: the poller reads.
    pub(super) readers: usize,
    pub(super) writers: usize,
    /// The most writers that a controller may start.
    pub(super) writers_max: usize,
    /// Number of parts. Each reader and each writer is of one part, which has queues of its own.
    pub(super) parts: usize,
}

impl Shape {
    pub(super) fn new(settings: &Settings, listeners: usize, cpus: usize) -> Self {
        let options = WatpipeOptions::read(settings);
        let each = |threads| if threads == 0 { cpus } else { threads };
        let writers = each(options.writers);
        let grows = StagesOptions::read(settings).pool_control != PoolControl::None;
        let readers = match options.read {
            Read::Threads => each(options.readers),
            Read::Poller => 0,
        };
        let fewest = if readers == 0 { writers } else { readers.min(writers) };
        Self {
            homes: if options.acceptors == Acceptors::One { 1 } else { listeners.max(1) },
            readers,
            writers,
            writers_max: if grows { options.writers_max.max(writers) } else { writers },
            parts: match options.parts {
                Parts::None => 1,
                // A part without threads would serve no connection.
                Parts::Cpu => cpus.min(fewest).min(u8::MAX.into()),
            },
        }
    }

    /// Whether a controller may start writers.
    pub(super) const fn grows(&self) -> bool {
        self.writers_max > self.writers
    }

    /// Number of threads of a process.
    pub(super) fn threads(&self) -> usize {
        self.homes + 2 + self.readers + self.writers_max + usize::from(self.grows())
    }
}

/// Slot of a thread of a stage, alone or not, and the only processor that it runs on, if any.
pub(super) struct Place {
    pub(super) slot: StageSlot,
    pub(super) cpu: Option<usize>,
}

/// Role of each slot. Slots of missing threads belong to another stage.
pub(super) fn roles(shape: &Shape) -> impl Iterator<Item = (usize, &'static str)> + use<> {
    let readers = if shape.readers > 0 { READERS } else { READ };
    let control = if shape.grows() { "control" } else { ROLES[WRITE] };
    SLOTS.map(move |at| {
        let station = match at {
            FIRST | ACCEPT => return (at, "accept"),
            CONTROL => return (at, control),
            at if STATIONS.contains(&at) => at - STATIONS.start,
            at if POLLERS.contains(&at) => at - POLLERS.start,
            at if WRITERS_SLOTS.contains(&at) => WRITE,
            _ => READERS,
        };
        (at, ROLES[if station == READERS { readers } else { station }])
    })
}
