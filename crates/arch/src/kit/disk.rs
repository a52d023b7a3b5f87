//! Who performs operations that may block on disk.
#[cfg(test)]
pub(crate) mod schedule;

use crate::drive::{
    ledger::Spent,
    perform::{self, Below},
};
use regatta_op::{Abandoned, OpenFault, OpenReq, Opened, Outbox, ReadReq, Segment, Ticket};
use regatta_sys::{Read, StaticFile};
use std::os::fd::BorrowedFd;

/// What has come of opening a path: what is there, or why not.
pub type Opening = Result<Opened<StaticFile>, OpenFault>;

/// Performs operations that may block on disk, now or later: of a connection as many at once as it
/// asks for, each with its ticket.
///
/// `None` means *later*: the disk keeps what it needs, and reports the outcome for the connection
/// named by `key` when [`Disk::source`] is readable.
pub trait Disk {
    /// Opens below the root.
    fn open(&mut self, key: u64, ticket: Ticket, req: OpenReq) -> Option<Opening>;
    /// Reads a range into memory.
    fn read(&mut self, key: u64, ticket: Ticket, req: ReadReq<StaticFile>) -> Option<Read>;
    /// How many bytes of the file at the front of `outbox` may be sent now; at least 1.
    fn warm(&mut self, key: u64, outbox: &Outbox<StaticFile>) -> Option<u64>;

    /// Bytes that [`Disk::warm`] let go took so long to send, nanoseconds.
    fn sent(&mut self, _ns: u64) {}
    /// Forgets what `key` has asked for, or one operation of it: its outcome is dropped when it
    /// comes.
    fn forget(&mut self, _key: u64, _what: Abandoned) {}
    /// The root is another directory now: whoever has one of its own takes that.
    fn renew_root(&mut self) {}
    /// A descriptor that is readable while there is news; `None` if there never is any.
    fn source(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// The next outcome of what was left for later.
    fn news(&mut self) -> Option<Report> {
        None
    }
}

/// The file range at the front of an outbox, as far as it is made ready at once: to the end of that
/// chunk of the file in which it begins.
///
/// Chunks have their places in the file, as in Flash. A window that moved with every send would ask
/// the disk for the few pages that have come into view, again and again.
#[must_use]
pub fn front<F>(outbox: &Outbox<F>, chunk_bytes: u64) -> Option<(&F, u64, u64)> {
    match outbox.segments().next() {
        Some(Segment::File { file, at, len }) => {
            Some((file, *at, (*len).min(chunk_bytes - *at % chunk_bytes)))
        }
        _ => None,
    }
}

/// The outcome of an operation that was left for later.
#[derive(Debug)]
pub struct Report {
    /// Whose operation it was; that connection may be gone.
    pub key: u64,
    /// What has come of it.
    pub news: News,
    /// The time that the loop has spent on it just now.
    pub spent: Spent,
}

/// What came of an operation that was left for later.
#[derive(Debug)]
pub enum News {
    /// Of [`Disk::open`].
    Opened(Ticket, Opening),
    /// Of [`Disk::read`].
    Read(Ticket, Read),
    /// Of [`Disk::warm`]: so many bytes may be sent.
    Warm(u64),
}

/// The disk of an architecture whose loop blocks on it: every operation is performed at once.
#[derive(Clone, Copy, Debug)]
pub struct InlineDisk<'a>(pub Below<'a>);

impl Disk for InlineDisk<'_> {
    fn open(&mut self, _key: u64, _ticket: Ticket, req: OpenReq) -> Option<Opening> {
        Some(self.0.open(&req))
    }

    fn read(&mut self, _key: u64, _ticket: Ticket, req: ReadReq<StaticFile>) -> Option<Read> {
        Some(perform::read(req))
    }

    fn warm(&mut self, _key: u64, _outbox: &Outbox<StaticFile>) -> Option<u64> {
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
