//! The bare loop over io_uring: one call for all that a round receives and sends.
use super::REQUEST_BYTES_MAX;
use regatta_sys::{
    socket::{AcceptFault, accept_fault},
    uring::{LeanResult, LeanRing},
};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

/// Buffers for requests.
const BUFFERS: u16 = 256;

struct Peer {
    socket: OwnedFd,
    /// A receive is out.
    receives: bool,
    /// A send is out.
    sends: bool,
    /// Requests that wait for the send.
    owed: u32,
    /// The peer sends no more, or takes no more. Then its receive ends, too.
    ended: bool,
}

pub(super) struct Loop<'a> {
    ring: LeanRing,
    listener: &'a OwnedFd,
    /// Head and body.
    answer: &'static [u8],
    peers: Vec<Option<Peer>>,
    free: Vec<usize>,
}

/// Step after a result.
enum Next {
    /// A connection; none if it was gone already.
    Enter { socket: Option<OwnedFd>, more: bool },
    /// Whether a request was received, whether the receive continues, and whether the peer sends no
    /// more.
    Received { at: u32, whole: bool, more: bool, ended: bool },
    /// Whether all of the answer was sent.
    Sent { at: u32, whole: bool },
}

impl Next {
    fn after(result: LeanResult<'_>, answer_bytes: usize) -> io::Result<Self> {
        Ok(match result {
            LeanResult::Accepted { socket, more } => match socket {
                Ok(socket) => Self::Enter { socket: Some(socket), more },
                Err(error) => match accept_fault(&error) {
                    AcceptFault::WouldBlock | AcceptFault::Aborted => {
                        Self::Enter { socket: None, more }
                    }
                    _ => return Err(error),
                },
            },
            LeanResult::Received { name, bytes, more } => {
                let whole = bytes.is_some_and(|bytes| bytes.ends_with(b"\r\n\r\n"));
                Self::Received { at: name, whole, more, ended: bytes.is_none() }
            }
            LeanResult::Sent { name, bytes } => {
                Self::Sent { at: name, whole: bytes.is_ok_and(|bytes| bytes == answer_bytes) }
            }
        })
    }
}

impl<'a> Loop<'a> {
    pub(super) fn new(listener: &'a OwnedFd, answer: Vec<u8>) -> io::Result<Self> {
        let ring = LeanRing::new(BUFFERS, REQUEST_BYTES_MAX)?;
        let answer = answer.leak();
        Ok(Self { ring, listener, answer, peers: Vec::new(), free: Vec::new() })
    }

    pub(super) fn run(mut self) -> io::Result<()> {
        self.ring.accept(self.listener.as_fd())?;
        loop {
            self.ring.wait()?;
            while let Some(result) = self.ring.next_result() {
                let next = Next::after(result, self.answer.len())?;
                self.follow(next)?;
            }
        }
    }

    #[inline]
    fn follow(&mut self, next: Next) -> io::Result<()> {
        let at = match next {
            Next::Enter { socket, more } => {
                if !more {
                    self.ring.accept(self.listener.as_fd())?;
                }
                return socket.map_or(Ok(()), |socket| self.enter(socket));
            }
            Next::Received { at, .. } | Next::Sent { at, .. } => at,
        };
        let Some(peer) = &mut self.peers[at as usize] else { return Ok(()) };
        match next {
            Next::Received { whole, more, ended, .. } => {
                peer.receives = more;
                peer.ended |= ended;
                peer.owed += u32::from(whole);
            }
            Next::Sent { whole, .. } => {
                peer.sends = false;
                peer.ended |= !whole;
            }
            Next::Enter { .. } => {}
        }
        if peer.owed > 0 && !peer.sends && !peer.ended {
            peer.owed -= 1;
            peer.sends = true;
            self.ring.send(peer.socket.as_fd(), self.answer, at)?;
        }
        if !peer.receives && !peer.ended {
            peer.receives = true;
            self.ring.receive(peer.socket.as_fd(), at)?;
        }
        if peer.ended && !peer.receives && !peer.sends {
            self.peers[at as usize] = None;
            self.free.push(at as usize);
        }
        Ok(())
    }

    fn enter(&mut self, socket: OwnedFd) -> io::Result<()> {
        let at = self.free.pop().unwrap_or_else(|| {
            self.peers.push(None);
            self.peers.len() - 1
        });
        let name = u32::try_from(at).expect("fewer peers than descriptors");
        self.ring.receive(socket.as_fd(), name)?;
        let peer = Peer { socket, receives: true, sends: false, owed: 0, ended: false };
        self.peers[at] = Some(peer);
        Ok(())
    }
}
