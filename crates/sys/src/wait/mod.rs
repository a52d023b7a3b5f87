//! Waiting for descriptors to become ready: one trait, three system calls.
mod epoll;
mod exact;
mod poll;
mod select;

pub use epoll::{Epoll, Trigger};
pub use exact::{Exact, WaitChange};
pub use poll::{Poll, ready_now, ready_within};
pub use select::Select;

use std::{fmt, io, os::fd::BorrowedFd, time::Duration};

/// Kinds of readiness to wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interest {
    /// Something to receive, or the end of the peer's stream.
    pub read: bool,
    /// Room to send.
    pub write: bool,
}

impl Interest {
    /// Nothing for now.
    pub const NONE: Self = Self { read: false, write: false };
    /// Reading.
    pub const READ: Self = Self { read: true, write: false };
    /// Writing.
    pub const WRITE: Self = Self { read: false, write: true };
    /// Either.
    pub const BOTH: Self = Self { read: true, write: true };

    /// Union of this and the other.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { read: self.read || other.read, write: self.write || other.write }
    }
}

/// A descriptor that became ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Event {
    /// The key that it was added with.
    pub key: u64,
    /// Receiving will not block. True on every hangup too.
    pub readable: bool,
    /// Sending will not block. True on a broken connection too.
    pub writable: bool,
    /// The peer sends no more, both directions are over, or the connection broke: the next
    /// operation says which. The first is reported only where it is watched: edge-triggered epoll,
    /// [`Poller::add_reader`], and all mechanisms where there is no other interest. A short read
    /// does not mean that everything has been read. Where there is interest, a [`Select`] reports
    /// readiness alone.
    pub hangup: bool,
    /// The connection broke, or both of its directions are over: the peer is gone. A hangup, too.
    pub broken: bool,
    /// The peer has sent an urgent byte (edge-triggered epoll only). A receive stops short of it,
    /// and the bytes after it have no edge of their own.
    pub urgent: bool,
}

/// A wait mechanism.
///
/// Unless [`Poller::edge`] says otherwise an event repeats as long as its cause lasts. Remove or
/// forget a descriptor before closing it: otherwise the fate of its events depends on the
/// mechanism.
pub trait Poller: fmt::Debug {
    /// True if an event comes once per change, so that everything must be taken before waiting
    /// again. Then receivable bytes are reported whatever the interest is, so that interest need
    /// not be withdrawn.
    fn edge(&self) -> bool {
        false
    }

    /// True if a ring performs the operations of the connections, and reports what has completed.
    fn completes(&self) -> bool {
        false
    }

    /// Starts watching a descriptor; its events carry `key`.
    ///
    /// # Errors
    /// The descriptor is watched already, cannot be waited for (a regular file), or memory is
    /// lacking.
    fn add(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()>;

    /// [`Poller::add`], level-triggered whatever the mechanism: for listeners and bells, which are
    /// not always emptied.
    ///
    /// # Errors
    /// As [`Poller::add`].
    fn add_level(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.add(fd, key, interest)
    }

    /// Starts watching a connection for something to receive. Where the mechanism can, an event
    /// says whether the peer sends no more ([`Event::hangup`]).
    ///
    /// # Errors
    /// As [`Poller::add`].
    fn add_reader(&mut self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        self.add(fd, key, Interest::READ)
    }

    /// Starts watching a listener, level-triggered, for connections.
    ///
    /// # Errors
    /// As [`Poller::add`].
    fn add_listener(&mut self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        self.add_level(fd, key, Interest::READ)
    }

    /// Changes key and interest of a watched descriptor.
    /// With [`Interest::NONE`] only a hangup is reported: once or, if the connection breaks after
    /// the peer has sent its last, perhaps twice. A [`Select`] does not see it behind bytes that
    /// have not been received.
    ///
    /// # Errors
    /// The descriptor is not being watched.
    fn set(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()>;

    /// Stops watching a descriptor. Events already returned stay.
    ///
    /// # Errors
    /// The descriptor is not being watched.
    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()>;

    /// Stops watching a descriptor that is about to be closed, without a call where the kernel
    /// needs none: epoll forgets an open file when its last descriptor is closed. While another
    /// process has one (a child that was just forked and has not closed it yet) its events may
    /// still come. So by then their key must not name anything else.
    fn forget(&mut self, fd: BorrowedFd<'_>) {
        let _ = self.remove(fd);
    }

    /// Waits until something is ready or the time is up (`None`: never), replaces `events` by the
    /// ready ones, and returns their number. 0 if a signal arrived.
    ///
    /// # Errors
    /// A watched descriptor has been closed (select), or no memory is left.
    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<usize>;

    /// Number of watched descriptors.
    fn len(&self) -> usize;

    /// True if no descriptor is watched.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Descriptor of the mechanism itself, if it has one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Number of changes of the watched set: calls of `epoll_ctl`, or their equivalents.
    fn changes(&self) -> u64;
}

/// Converts a timeout for ppoll(2) and pselect(2). `None` for one beyond their range, too.
fn timespec(timeout: Option<Duration>) -> Option<libc::timespec> {
    let timeout = timeout?;
    let tv_sec = timeout.as_secs().try_into().ok()?;
    Some(libc::timespec { tv_sec, tv_nsec: timeout.subsec_nanos().into() })
}
