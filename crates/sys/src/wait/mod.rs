//! Waiting for descriptors to become ready: one trait, three system calls.
mod epoll;
mod exact;
mod poll;
mod select;

pub use epoll::{Epoll, Trigger};
pub use exact::{Change, Exact};
pub use poll::{Poll, ready_now, ready_within};
pub use select::Select;

use std::{fmt, io, os::fd::BorrowedFd, time::Duration};

/// What to wait for.
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

    /// This and the other.
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
    /// The peer sends no more (where that is watched: edge-triggered epoll, [`Poller::add_reader`],
    /// and by all where there is no other interest), both directions are over, or the connection
    /// broke: the next operation says which. A short read does not mean that everything has been
    /// read. Where there is interest a [`Select`] cannot tell, and says so by readiness alone.
    pub hangup: bool,
    /// The connection broke, or both of its directions are over: nobody is there. A hangup, too.
    pub broken: bool,
    /// The peer has sent an urgent byte (edge-triggered epoll only): a receive stops short of it,
    /// and what is behind it has no edge of its own.
    pub urgent: bool,
}

/// A wait mechanism.
///
/// Unless [`Poller::edge`] says otherwise an event comes again for as long as its cause lasts. A
/// descriptor is removed or forgotten before it is closed: what happens to the events of one that
/// is closed first depends on the mechanism.
pub trait Poller: fmt::Debug {
    /// What it is called in options and results.
    fn name(&self) -> &'static str;

    /// True if an event comes once per change, so that everything there is must be taken before
    /// waiting again. What can be received is then reported whatever interest says, so that
    /// interest that was taken need not be taken back.
    fn edge(&self) -> bool {
        false
    }

    /// Starts watching a descriptor; its events carry `key`.
    ///
    /// # Errors
    /// It is being watched already, cannot be waited for (a regular file), or no memory is left.
    fn add(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()>;

    /// [`Poller::add`], level-triggered whatever the mechanism: for listeners and bells, which are
    /// not always emptied.
    ///
    /// # Errors
    /// As [`Poller::add`].
    fn add_level(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.add(fd, key, interest)
    }

    /// Starts watching a connection for something to receive. Where the mechanism can tell, an
    /// event says whether the peer sends no more ([`Event::hangup`]).
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
    ///
    /// With [`Interest::NONE`] a hangup is reported, once or, if the connection breaks after the
    /// peer has sent its last, perhaps twice, and nothing else. A [`Select`] does not see it behind
    /// bytes that have not been received.
    ///
    /// # Errors
    /// It is not being watched.
    fn set(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()>;

    /// Stops watching a descriptor. Events already returned stay.
    ///
    /// # Errors
    /// It is not being watched.
    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()>;

    /// Stops watching a descriptor that is about to be closed, without a call where the kernel does
    /// so by itself: epoll forgets an open file when its last descriptor is closed. While another
    /// process has one (a child that was forked a moment ago and has not closed it yet) its events
    /// may still come, so their key must not name anybody else by then.
    fn forget(&mut self, fd: BorrowedFd<'_>) {
        let _ = self.remove(fd);
    }

    /// Waits until something is ready or the time is up (`None`: never), replaces `events` by what
    /// is ready, and returns how many that is. 0 if a signal arrived.
    ///
    /// # Errors
    /// A watched descriptor has been closed (select), or no memory is left.
    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<usize>;

    /// How many descriptors are watched.
    fn len(&self) -> usize;

    /// True if none is.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The descriptor of the mechanism itself, if it has one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// How often the watched set has been changed: calls of `epoll_ctl`, or what would have been.
    fn changes(&self) -> u64;
}

/// A timeout as ppoll(2) and pselect(2) want it; one beyond their range is as good as none.
fn timespec(timeout: Option<Duration>) -> Option<libc::timespec> {
    let timeout = timeout?;
    let tv_sec = timeout.as_secs().try_into().ok()?;
    Some(libc::timespec { tv_sec, tv_nsec: timeout.subsec_nanos().into() })
}
