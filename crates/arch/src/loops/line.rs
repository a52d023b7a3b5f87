//! A pipeline: stages in threads of one process, between which connections travel whole.
//!
//! A connection is in the [`Worker`] of one stage, or waits at a station as a [`Job`], never in
//! both, so none of them locks it. Stages are of two kinds: a poller, which is an event loop that
//! leaves operations to others ([`poll`]), and threads that take from a queue ([`threads`]). Some
//! accept, and count accepted connections as open until they learn of their end.
pub mod gate;
pub(crate) mod options;
pub mod poll;
pub mod pools;
mod stations;
#[cfg(test)]
mod tests;
pub mod threads;

pub use stations::{Barrier, Spread, StageEntry, Station, Travels};

use crate::{
    conn::{
        step::{Left, Readiness},
        worker::{Passed, Worker},
    },
    loops::queue::{Fifo, Returns},
};
use regatta_metrics::{Counter, Tally};
use regatta_op::{CloseReason, OpKind};
use std::{collections::VecDeque, io};

/// The stations of a process, for connections.
pub type StageLine<'a> = stations::Line<'a, StageJob>;

/// A connection between stages.
#[derive(Debug)]
pub struct StageJob {
    /// The connection.
    pub passed: Passed,
    /// State of its socket, and what waits for that.
    pub drive: Readiness,
    /// Work that the next turn begins with.
    pub left: Option<Left>,
    /// Time at which its request entered the gate of the line, nanoseconds; 0: it has no place
    /// there.
    pub entered: u64,
}

/// Most memory that a job at a station takes, bytes.
const JOB_BYTES_MAX: usize = 512;
const _: () = assert!(size_of::<StageJob>() <= JOB_BYTES_MAX);

impl Travels for StageJob {
    fn part(&self) -> usize {
        self.drive.place.part.into()
    }
}

/// The station of each operation that a stage leaves to others.
#[derive(Clone, Copy, Debug)]
pub struct Routes([usize; 7]);

impl Routes {
    /// Sends all operations to this station, except those of [`Routes::with`].
    #[must_use]
    pub const fn all(to: usize) -> Self {
        Self([to; 7])
    }

    /// Sends operations of this kind to station `to`.
    #[must_use]
    pub const fn with(mut self, kind: OpKind, to: usize) -> Self {
        self.0[kind as usize] = to;
        self
    }

    /// Station of operations of this kind.
    #[must_use]
    pub const fn route(&self, kind: OpKind) -> usize {
        self.0[kind as usize]
    }
}

impl<'a> Station<'a, StageJob> {
    /// A station of a stage with a poller.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn merged(name: &'static str, tally: Tally<'a>) -> io::Result<Self> {
        Ok(Self { name, entry: StageEntry::Merged(Returns::new()?), tally })
    }

    /// A station of threads, with these queues.
    #[must_use]
    pub const fn queued(
        name: &'static str,
        queues: Vec<Fifo<StageJob>>,
        spread: Spread,
        tally: Tally<'a>,
    ) -> Self {
        Self { name, entry: StageEntry::Queued(queues, spread), tally }
    }
}

/// Jobs that leave a stage together at the end of its round.
#[derive(Debug)]
struct Leaving<'a> {
    line: &'a StageLine<'a>,
    /// By station.
    jobs: Vec<VecDeque<StageJob>>,
}

impl<'a> Leaving<'a> {
    fn new(line: &'a StageLine<'a>) -> Self {
        Self { line, jobs: (0..line.stations()).map(|_| VecDeque::new()).collect() }
    }

    fn push(&mut self, to: usize, job: StageJob) {
        self.jobs[to].push_back(job);
    }

    /// Number that leave for a station.
    fn len(&self, to: usize) -> usize {
        self.jobs[to].len()
    }

    fn leave(&mut self, tally: Tally<'_>) {
        for (to, jobs) in self.jobs.iter_mut().enumerate() {
            if !jobs.is_empty() {
                tally.add(Counter::HandOvers, jobs.len() as u64);
                self.line.put_all(to, jobs);
            }
        }
    }
}

/// Closes what is left in a line when its stages have ended. Returns how many of that had come in
/// through a gate, and not out.
pub fn end(line: &StageLine<'_>, worker: &mut Worker<'_, Readiness>) -> usize {
    let mut inside = 0;
    for StageJob { passed, drive, left, entered } in line.rest() {
        inside += usize::from(entered > 0);
        let key = worker.adopt(passed, drive);
        if let (Some(left), Some((slot, desk))) = (left, worker.turn(key)) {
            left.settle(slot, desk.now, &desk.around.cx);
        }
        worker.close(key, CloseReason::Drained);
    }
    worker.around().log.flush();
    inside
}
