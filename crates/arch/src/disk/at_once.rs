//! Performing operations that may block on disk.
#[cfg(test)]
pub(crate) mod schedule;

use crate::{
    WorkerLog,
    drive::{
        ledger::Spent,
        perform::{self, Below, TransferFailure},
    },
};
use regatta_metrics::{Counter, Tally};
use regatta_op::{Abandoned, Fault, OpenReq, Outbox, ReadReq, Segment, Ticket};
use regatta_sys::{OpenResult, Read, Resident, StaticFile, socket::Connection};
use std::{os::fd::BorrowedFd, time::Duration};

/// Performs operations that may block on disk, at once or later. A connection may have several in
/// flight, each with its ticket.
///
/// `None` means *later*: the disk keeps what it needs. The completion, which names the connection
/// by `key`, is there when [`Disk::source`] is readable, or [`Disk::due_in`] has passed.
pub trait Disk {
    /// Opens below the root.
    fn open(&mut self, key: u64, ticket: Ticket, req: OpenReq) -> Option<OpenResult>;
    /// Reads a range into memory.
    fn read(&mut self, key: u64, ticket: Ticket, req: ReadReq<StaticFile>) -> Option<Read>;
    /// Brings the file at the front of `outbox` into memory: how many bytes may be sent now, at
    /// least 1. A disk that [maps](Self::maps) is asked before the head goes, too.
    fn prefetch(&mut self, key: u64, outbox: &Outbox<StaticFile>) -> Option<u64>;

    /// True if files are mapped: a head and what follows it of a file then go out in one call, by
    /// [`Disk::send`].
    fn maps(&self) -> bool {
        false
    }
    /// Sends from an outbox with a file at its front, of the file at most `bytes_max` bytes.
    ///
    /// # Errors
    /// Those of [`perform::send`].
    fn send(
        &mut self,
        socket: &Connection,
        outbox: &mut Outbox<StaticFile>,
        bytes_max: u64,
        spent: &mut Spent,
        tally: Tally<'_>,
    ) -> Result<u64, TransferFailure> {
        perform::send(socket, outbox, bytes_max, spent, tally)
    }
    /// The sockets' part, if a ring performs their operations.
    fn wire(&mut self) -> Option<&mut dyn Wire> {
        None
    }
    /// Notes that sending bytes that [`Disk::prefetch`] allowed took `_ns` nanoseconds.
    fn sent(&mut self, _ns: u64) {}
    /// Forgets all operations of `key`, or one of them: what completes later is dropped.
    fn forget(&mut self, _key: u64, _what: Abandoned) {}
    /// The root is another directory now: a disk with a descriptor of its own replaces it.
    fn renew_root(&mut self) {}
    /// A descriptor that is readable while there are completions; `None` if there never are any.
    fn source(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Once a second: reports files that are not answered.
    fn check(&mut self, _now_ns: u64, _log: &dyn WorkerLog) {}
    /// Time until an operation is performed that only waits for its time; `None` if there is none.
    fn due_in(&self) -> Option<Duration> {
        None
    }
    /// The next completion of an operation that was left for later.
    fn next_completion(&mut self) -> Option<Completion> {
        None
    }
}

/// Performs operations on sockets by completion.
pub trait Wire {
    /// Takes what a connection has received. The poller reports when there is more, or the end.
    ///
    /// # Errors
    /// Nothing is there, or the connection failed.
    fn recv(
        &mut self,
        key: u64,
        socket: &Connection,
        buffer: &mut [u8],
        tally: Tally<'_>,
    ) -> Result<usize, TransferFailure>;
    /// Begins to send from the front of an outbox, of a file at most `bytes_max` bytes. Returns the
    /// number of bytes at most. The result is a completion of the disk ([`DiskResult::Sent`]).
    fn send(
        &mut self,
        key: u64,
        socket: &Connection,
        outbox: Outbox<StaticFile>,
        bytes_max: u64,
    ) -> u64;
    /// Collects what has completed by now.
    fn reap(&mut self);
    /// Takes the result of the send of a connection, if that has completed by now.
    fn settle(&mut self, key: u64, tally: Tally<'_>) -> Option<DiskResult>;
    /// Whether a connection has received something that has not been taken.
    fn has_input(&self, key: u64, socket: &Connection) -> bool;
}

/// The file range at the front of an outbox, as far as it is prefetched at once: to the end of the
/// chunk of the file in which it begins.
///
/// Chunks begin at multiples of their size, as in Flash. A window that moved with every send would
/// ask the disk for a few more pages each time.
#[must_use]
pub fn front<F>(outbox: &Outbox<F>, chunk_bytes: u64) -> Option<(&F, u64, u64)> {
    match outbox.segments().next() {
        Some(Segment::File { file, at, len }) => {
            Some((file, *at, (*len).min(chunk_bytes - *at % chunk_bytes)))
        }
        _ => None,
    }
}

/// The result of an operation that was left for later.
#[derive(Debug)]
pub struct Completion {
    /// The connection, which may be gone.
    pub key: u64,
    /// The result.
    pub result: DiskResult,
    /// The time that the loop has just spent on it.
    pub spent: Spent,
}

/// The result of a disk operation.
#[derive(Debug)]
pub enum DiskResult {
    /// Result of [`Disk::open`].
    Opened(Ticket, OpenResult),
    /// Result of [`Disk::read`].
    Read(Ticket, Read),
    /// Result of [`Disk::prefetch`]: the bytes that may be sent.
    Prefetched(u64),
    /// Result of [`Wire::send`]: the outbox, advanced by the bytes that the kernel took.
    Sent(Outbox<StaticFile>, Result<u64, Fault>),
}

impl DiskResult {
    /// Result of an open.
    #[must_use]
    pub fn opened(self) -> Option<OpenResult> {
        match self {
            Self::Opened(_, found) => Some(found),
            Self::Read(..) | Self::Prefetched(_) | Self::Sent(..) => None,
        }
    }

    /// Result of a read.
    #[must_use]
    pub fn read(self) -> Option<Read> {
        match self {
            Self::Read(_, read) => Some(read),
            Self::Opened(..) | Self::Prefetched(_) | Self::Sent(..) => None,
        }
    }
}

/// Counts a check of whether a range is in memory. Returns true if it is.
pub fn count_residency(tally: Tally<'_>, found: Resident) -> bool {
    let counter = match found {
        Resident::Yes => Counter::ResidencyResident,
        Resident::No => Counter::ResidencyAbsent,
        Resident::Unknown => Counter::ResidencyUnknown,
    };
    tally.add(Counter::ResidencyChecks, 1);
    tally.add(counter, 1);
    found == Resident::Yes
}

/// The disk of an architecture whose loop blocks on it: every operation is performed at once.
#[derive(Clone, Copy, Debug)]
pub struct InlineDisk<'a>(pub Below<'a>);

impl Disk for InlineDisk<'_> {
    fn open(&mut self, _key: u64, _ticket: Ticket, req: OpenReq) -> Option<OpenResult> {
        Some(self.0.open(&req))
    }

    fn read(&mut self, _key: u64, _ticket: Ticket, req: ReadReq<StaticFile>) -> Option<Read> {
        Some(perform::read(req))
    }

    fn prefetch(&mut self, _key: u64, _outbox: &Outbox<StaticFile>) -> Option<u64> {
        Some(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_their_places_in_the_file() {
        for (at, len, chunk, expect) in [
            (0, 10, 4, 4),
            (1, 10, 4, 3),
            (3, 1, 4, 1),
            (7, 10, 4, 1),
            (8, 2, 4, 2),
            (5, 9, 100, 9),
        ] {
            let mut outbox = Outbox::default();
            outbox.push(Segment::File { file: (), at, len });
            assert_eq!(front(&outbox, chunk), Some((&(), at, expect)), "{len} at {at} by {chunk}");
        }
        assert_eq!(front(&Outbox::<()>::default(), 4), None);
    }
}
