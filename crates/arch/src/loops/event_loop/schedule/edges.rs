//! Model of the reports of an edge-triggered poller, as if a connection were TCP.
use regatta_sys::wait::{Event, Interest, Poll, Poller};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

/// The connections of a loop.
#[derive(Default)]
pub(super) struct Edges {
    watched: Vec<Watched>,
    /// Reports which sockets have room.
    rooms: Poll,
    ready: Vec<Event>,
}

/// A connection, and what has been reported of it.
struct Watched {
    key: u64,
    /// The same socket by another descriptor.
    socket: OwnedFd,
    /// Bytes that could be received.
    unread: u64,
    /// The socket has been full since room was last reported, or room never was.
    full: bool,
    /// The end of the stream has been reported.
    ended: bool,
    /// The hang-up has been reported.
    broken: bool,
}

impl Edges {
    pub(super) fn add(&mut self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        let socket = fd.try_clone_to_owned()?;
        self.rooms.add(socket.as_fd(), key, Interest::WRITE)?;
        self.watched.push(Watched {
            key,
            socket,
            unread: 0,
            full: true,
            ended: false,
            broken: false,
        });
        Ok(())
    }

    pub(super) fn remove(&mut self, key: u64) {
        if let Some(at) = self.watched.iter().position(|watched| watched.key == key) {
            let watched = self.watched.swap_remove(at);
            self.rooms.remove(watched.socket.as_fd()).expect("it was added");
        }
    }

    /// Notes the state in which the loop leaves its connections.
    pub(super) fn sample(&mut self) -> io::Result<()> {
        self.rooms.wait(&mut self.ready, Some(Duration::ZERO))?;
        for watched in &mut self.watched {
            watched.full |= !self.ready.iter().any(|event| event.key == watched.key);
            watched.unread = watched.unread.min(rustix::io::ioctl_fionread(&watched.socket)?);
        }
        Ok(())
    }

    /// True if something has changed that TCP would report.
    pub(super) fn reports(&mut self, event: &Event) -> io::Result<bool> {
        let Some(watched) = self.watched.iter_mut().find(|watched| watched.key == event.key) else {
            return Ok(true);
        };
        let unread = rustix::io::ioctl_fionread(&watched.socket)?;
        let comes = unread > watched.unread;
        let ends = event.hangup && !watched.ended || event.broken && !watched.broken;
        let room = event.writable && watched.full;
        watched.unread = unread;
        watched.ended |= event.hangup;
        watched.broken |= event.broken;
        watched.full &= !room;
        Ok(comes || ends || room)
    }
}
