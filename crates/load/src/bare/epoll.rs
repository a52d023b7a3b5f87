//! The bare loop over epoll: a receive and a send for each request.
use super::{Canned, REQUEST_BYTES_MAX};
use regatta_sys::{
    recv, send_last, send_more, send_range,
    socket::{self, Connection, Mode},
    wait::{Epoll, Event, Interest, Poller, Trigger},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

struct Peer {
    socket: Connection,
    /// Bytes of the answer that the kernel has, if it did not take it whole.
    sent: Option<u64>,
}

enum Turn {
    /// The next request may come.
    Done,
    /// The peer must read some first; this many bytes are sent.
    Full(u64),
    Gone,
}

pub(super) struct Loop<'a> {
    poller: Epoll,
    listener: &'a OwnedFd,
    canned: Canned,
    peers: Vec<Option<Peer>>,
    free: Vec<usize>,
    buffer: Vec<u8>,
}

const LISTENER: u64 = u64::MAX;

impl<'a> Loop<'a> {
    pub(super) fn new(listener: &'a OwnedFd, canned: Canned) -> io::Result<Self> {
        let mut poller = Epoll::new(Trigger::Level)?;
        poller.add(listener.as_fd(), LISTENER, Interest::READ)?;
        let buffer = vec![0; REQUEST_BYTES_MAX];
        Ok(Self { poller, listener, canned, peers: Vec::new(), free: Vec::new(), buffer })
    }

    pub(super) fn run(mut self) -> io::Result<()> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            self.poller.wait(&mut events, None)?;
            for event in &events {
                match usize::try_from(event.key).ok().filter(|_| event.key != LISTENER) {
                    Some(at) => self.turn(at)?,
                    None => self.accept()?,
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        let (socket, _) = match socket::accept(self.listener.as_fd(), Mode::Nonblocking) {
            Ok(accepted) => accepted,
            Err(error) => match socket::accept_fault(&error) {
                socket::AcceptFault::WouldBlock | socket::AcceptFault::Aborted => return Ok(()),
                _ => return Err(error),
            },
        };
        let at = self.free.pop().unwrap_or_else(|| {
            self.peers.push(None);
            self.peers.len() - 1
        });
        self.poller.add(socket.as_fd(), at as u64, Interest::READ)?;
        self.peers[at] = Some(Peer { socket, sent: None });
        Ok(())
    }

    fn turn(&mut self, at: usize) -> io::Result<()> {
        let Some(peer) = &mut self.peers[at] else { return Ok(()) };
        let fd = peer.socket.as_fd();
        let turn = match peer.sent {
            None => match recv(fd, &mut self.buffer) {
                Ok(0) => Turn::Gone,
                Ok(n) if self.buffer[..n].ends_with(b"\r\n\r\n") => answer(fd, &self.canned, 0),
                Ok(_) => Turn::Done,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Turn::Done,
                Err(_) => Turn::Gone,
            },
            Some(sent) => answer(fd, &self.canned, sent),
        };
        match turn {
            Turn::Done if peer.sent.is_some() => {
                peer.sent = None;
                self.poller.set(fd, at as u64, Interest::READ)
            }
            Turn::Done => Ok(()),
            Turn::Full(sent) => {
                let armed = peer.sent.replace(sent).is_some();
                if armed { Ok(()) } else { self.poller.set(fd, at as u64, Interest::WRITE) }
            }
            Turn::Gone => {
                let removed = self.poller.remove(fd);
                self.peers[at] = None;
                self.free.push(at);
                removed
            }
        }
    }
}

/// Sends the answer from byte `sent` on, until the peer has no room.
#[inline]
fn answer(fd: BorrowedFd<'_>, canned: &Canned, mut sent: u64) -> Turn {
    let in_memory = canned.bytes.len() as u64;
    let total = in_memory + canned.file_len();
    while sent < total {
        let result = match &canned.file {
            None => send_last(fd, rest(&canned.bytes, sent)),
            Some(_) if sent < in_memory => send_more(fd, rest(&canned.bytes, sent)),
            Some((file, _)) => send_range(fd, file, sent - in_memory, total - sent),
        };
        match result {
            Ok(0) => return Turn::Gone,
            Ok(n) => sent += n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Turn::Full(sent),
            Err(_) => return Turn::Gone,
        }
    }
    Turn::Done
}

fn rest(bytes: &[u8], sent: u64) -> &[u8] {
    &bytes[usize::try_from(sent).expect("less than the length of the bytes")..]
}
