//! When an edge-triggered poller would speak of a connection if that were TCP.
//!
//! A local socket says that it has room whenever its peer takes something, and epoll then reports
//! all that is so, old or new. Whoever misses an edge would be reminded, and nobody would see it.
use regatta_sys::wait::{Event, Interest, Poll, Poller};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

/// The connections of a loop.
#[derive(Default)]
pub(super) struct Edges {
    known: Vec<Known>,
    /// Says who has room.
    rooms: Poll,
    ready: Vec<Event>,
}

/// What has been said of a connection.
struct Known {
    key: u64,
    /// The same socket by another descriptor.
    socket: OwnedFd,
    /// Bytes that were there to be received.
    unread: u64,
    /// It had no room since that was said last, or it never was.
    full: bool,
    /// It has been said that the peer sends no more.
    ended: bool,
    /// It has been said that nobody is there.
    broken: bool,
}

impl Edges {
    pub(super) fn add(&mut self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        let socket = fd.try_clone_to_owned()?;
        self.rooms.add(socket.as_fd(), key, Interest::WRITE)?;
        self.known.push(Known { key, socket, unread: 0, full: true, ended: false, broken: false });
        Ok(())
    }

    pub(super) fn remove(&mut self, key: u64) {
        if let Some(at) = self.known.iter().position(|known| known.key == key) {
            let known = self.known.swap_remove(at);
            self.rooms.remove(known.socket.as_fd()).expect("it was added");
        }
    }

    /// Looks how the loop has left its connections.
    pub(super) fn look(&mut self) -> io::Result<()> {
        self.rooms.wait(&mut self.ready, Some(Duration::ZERO))?;
        for known in &mut self.known {
            known.full |= !self.ready.iter().any(|event| event.key == known.key);
            known.unread = known.unread.min(rustix::io::ioctl_fionread(&known.socket)?);
        }
        Ok(())
    }

    /// True if something has changed of which TCP would tell.
    pub(super) fn tells(&mut self, event: &Event) -> io::Result<bool> {
        let Some(known) = self.known.iter_mut().find(|known| known.key == event.key) else {
            return Ok(true);
        };
        let unread = rustix::io::ioctl_fionread(&known.socket)?;
        let comes = unread > known.unread;
        let ends = event.hangup && !known.ended || event.broken && !known.broken;
        let room = event.writable && known.full;
        known.unread = unread;
        known.ended |= event.hangup;
        known.broken |= event.broken;
        known.full &= !room;
        Ok(comes || ends || room)
    }
}
