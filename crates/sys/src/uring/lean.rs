//! A ring that does no more than a server must: it accepts, receives, and sends bytes that live for
//! ever. The bare loop, with which servers are compared, uses it.
use super::{
    buffers::{self, Buffers},
    coalescing::Coalescing,
    wire::ring_with_buffers,
};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::{
    fmt, io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    time::Duration,
};

/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Kinds of operations, in the upper half of their names.
const ACCEPT: u64 = 0;
const RECEIVE: u64 = 1;
const SEND: u64 = 2;

/// A ring of one thread, which must be the one that makes it.
pub struct LeanRing {
    ring: IoUring,
    /// Mapped for ever: the kernel may still receive into them when this is dropped.
    buffers: Buffers,
    /// The buffer of the last completion.
    lent: Option<u16>,
    coalescing: Coalescing,
}

impl fmt::Debug for LeanRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeanRing").finish_non_exhaustive()
    }
}

/// Result of an operation of a [`LeanRing`].
#[derive(Debug)]
pub enum LeanResult<'a> {
    /// A listener has a connection.
    Accepted {
        /// The connection's socket.
        socket: io::Result<OwnedFd>,
        /// Whether the operation continues.
        more: bool,
    },
    /// Bytes have arrived, or there was no buffer for them. Then `more` is false.
    Received {
        /// Name of the operation.
        name: u32,
        /// The bytes. `None`: the peer sends no more, or the connection failed.
        bytes: Option<&'a [u8]>,
        /// Whether the operation continues.
        more: bool,
    },
    /// All bytes were sent, or only as many as an error let through.
    Sent {
        /// Name of the operation.
        name: u32,
        /// Number of bytes.
        bytes: io::Result<usize>,
    },
}

impl LeanRing {
    /// A ring that receives into `count` buffers of `size` bytes.
    ///
    /// # Errors
    /// The kernel has no io_uring, forbids it (`kernel.io_uring_disabled`, seccomp), or is older
    /// than 6.1.
    pub fn new(count: u16, size: usize) -> io::Result<Self> {
        let (ring, buffers) = ring_with_buffers(count, size)?;
        let coalescing = Coalescing::new(&ring);
        Ok(Self { ring, buffers, lent: None, coalescing })
    }

    /// Begins to take connections of a listener. Their operations wait: they are not non-blocking.
    ///
    /// # Errors
    /// As [`LeanRing::wait`].
    pub fn accept(&mut self, listener: BorrowedFd<'_>) -> io::Result<()> {
        let listener = types::Fd(listener.as_raw_fd());
        self.push(
            opcode::AcceptMulti::new(listener).flags(libc::SOCK_CLOEXEC).build(),
            ACCEPT << 32,
        )
    }

    /// Begins to receive, until the peer sends no more or no buffer is left (`ENOBUFS`).
    ///
    /// # Errors
    /// As [`LeanRing::wait`].
    pub fn receive(&mut self, socket: BorrowedFd<'_>, name: u32) -> io::Result<()> {
        let socket = types::Fd(socket.as_raw_fd());
        let entry = opcode::RecvMulti::new(socket, buffers::GROUP).build();
        self.push(entry, RECEIVE << 32 | u64::from(name))
    }

    /// Begins to send all of `bytes`, which are less than 4 GiB.
    ///
    /// # Errors
    /// As [`LeanRing::wait`].
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        bytes: &'static [u8],
        name: u32,
    ) -> io::Result<()> {
        let len = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let entry = opcode::Send::new(types::Fd(socket.as_raw_fd()), bytes.as_ptr(), len);
        let entry = entry.flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL).build();
        self.coalescing.add(self.coalescing.is_supported());
        self.push(entry, SEND << 32 | u64::from(name))
    }

    /// Submits what was begun, and waits until something has completed: a little longer if that is
    /// only sends. Waits for a second at most.
    ///
    /// # Errors
    /// The ring cannot be used any more.
    pub fn wait(&mut self) -> io::Result<()> {
        let result = self.coalescing.wait(&mut self.ring, WAIT_MAX);
        match result.map_err(|error| (error.raw_os_error(), error)) {
            Ok(_) | Err((Some(libc::EINTR | libc::ETIME), _)) => Ok(()),
            Err((_, error)) => Err(error),
        }
    }

    /// The next operation that has completed.
    pub fn next_result(&mut self) -> Option<LeanResult<'_>> {
        if let Some(lent) = self.lent.take() {
            self.buffers.give(lent);
        }
        let entry = self.ring.completion().next()?;
        let more = cqueue::more(entry.flags());
        let of = entry.user_data();
        let name = u32::try_from(of & u64::from(u32::MAX)).expect("32 bits");
        let result = u32::try_from(entry.result())
            .map_err(|_| io::Error::from_raw_os_error(entry.result().saturating_neg()));
        Some(match of >> 32 {
            ACCEPT => {
                // SAFETY: the kernel has opened this descriptor for this completion, and no other
                // code knows it.
                let socket = result.map(|_| unsafe { OwnedFd::from_raw_fd(entry.result()) });
                LeanResult::Accepted { socket, more }
            }
            RECEIVE => {
                self.lent = cqueue::buffer_select(entry.flags());
                let bytes = match (result, self.lent) {
                    (Ok(bytes), Some(lent)) => {
                        self.buffers.fill(lent, bytes);
                        Some(self.buffers.bytes(lent))
                    }
                    (Err(error), _) if error.raw_os_error() == Some(libc::ENOBUFS) => Some(&[][..]),
                    _ => None,
                };
                LeanResult::Received { name, bytes, more }
            }
            _ => LeanResult::Sent { name, bytes: result.map(|bytes| bytes as usize) },
        })
    }

    fn push(&mut self, entry: squeue::Entry, name: u64) -> io::Result<()> {
        let entry = entry.user_data(name);
        loop {
            // SAFETY: bytes to send live for ever, and provided buffers are never unmapped. No
            // entry points to anything else.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            self.coalescing.take();
            self.ring.submit()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{ListenSpec, listen, local_addr};
    use std::{
        io::{Read, Write},
        net::{SocketAddr, TcpStream},
        os::fd::AsFd,
    };

    /// A connection is accepted, read to its end, and answered with more than its socket
    /// takes at once.
    #[test]
    fn a_lean_ring_accepts_receives_and_sends() {
        let listener = listen(&ListenSpec::new(SocketAddr::from(([127, 0, 0, 1], 0)))).unwrap();
        let mut peer = TcpStream::connect(local_addr(listener.as_fd()).unwrap()).unwrap();
        let mut ring = LeanRing::new(1, 8).expect("io_uring");
        ring.accept(listener.as_fd()).unwrap();
        peer.write_all(b"more than eight").unwrap();
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        let answer: &'static [u8] = vec![b'x'; 8 << 20].leak();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            peer.read_to_end(&mut bytes).unwrap();
            bytes.len()
        });
        let (mut socket, mut got) = (None, Vec::new());
        'all: loop {
            ring.wait().unwrap();
            let mut again = false;
            while let Some(completion) = ring.next_result() {
                match completion {
                    LeanResult::Accepted { socket: accepted, more } => {
                        assert!(more);
                        socket = Some(accepted.unwrap());
                        again = true;
                    }
                    LeanResult::Received { name: 7, bytes: None, more: false } => {
                        ring.send(socket.as_ref().unwrap().as_fd(), answer, 9).unwrap();
                    }
                    LeanResult::Received { name: 7, bytes: Some(bytes), more } => {
                        got.extend_from_slice(bytes);
                        again = !more;
                    }
                    LeanResult::Sent { name: 9, bytes } => {
                        assert_eq!(bytes.unwrap(), answer.len());
                        break 'all;
                    }
                    other => panic!("{other:?}"),
                }
            }
            if again {
                ring.receive(socket.as_ref().unwrap().as_fd(), 7).unwrap();
            }
        }
        assert_eq!(got, b"more than eight");
        drop(socket);
        assert_eq!(reader.join().unwrap(), answer.len());
    }
}
