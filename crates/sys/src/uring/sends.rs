//! Sends in flight. Each owns the memory that the kernel sends from until the kernel has reported
//! it.
use super::Pipe;
use crate::{SEND_SLICES_MAX, StaticFile, hook, hook::Call};
use io_uring::{opcode, squeue, types};
use regatta_op::{Fault, File as _, FileId, Outbox, Segment};
use std::{
    io,
    os::fd::{AsRawFd, RawFd},
    ptr,
};

/// Result of a send: the outbox, advanced by the bytes that the kernel took, and their number.
#[derive(Debug)]
pub struct SentBytes {
    /// The connection.
    pub key: u64,
    /// The outbox that was lent.
    pub outbox: Outbox<StaticFile>,
    /// Number of bytes, or the error of the call. 0 with bytes remaining: the file shrank.
    pub sent: io::Result<u64>,
}

/// A piece of a file in memory, for the range at the front of an outbox.
#[derive(Debug)]
pub(super) struct Piece {
    /// The file.
    pub(super) id: FileId,
    /// Offset in the file of the byte at `from`.
    pub(super) at: u64,
    /// Bytes of it that have been sent.
    pub(super) from: usize,
    /// The piece, once it has been read.
    pub(super) bytes: Vec<u8>,
    /// Result of the read.
    pub(super) read: Result<(), Fault>,
    /// A pipe that has the bytes instead, and their number.
    pub(super) pipe: Option<(Pipe, u64)>,
}

impl Piece {
    /// A piece of a file from `at` on that has not been read.
    pub(super) fn expected(file: &StaticFile, at: u64) -> Self {
        Self { id: file.id(), at, from: 0, bytes: Vec::new(), read: Ok(()), pipe: None }
    }

    /// Whether it is the front of this outbox's first file range.
    fn is_front(&self, outbox: &Outbox<StaticFile>) -> bool {
        match outbox.segments().next() {
            Some(Segment::File { file, at, .. }) => file.id() == self.id && *at == self.at,
            _ => false,
        }
    }

    /// The bytes in memory that are not sent.
    fn memory(&self) -> &[u8] {
        &self.bytes[self.from..]
    }

    /// Number of bytes that are not sent.
    pub(super) fn len(&self) -> u64 {
        self.pipe.as_ref().map_or(self.memory().len() as u64, |(_, bytes)| *bytes)
    }

    /// Number of bytes for the front of this outbox.
    pub(super) fn len_for(&self, outbox: &Outbox<StaticFile>) -> u64 {
        if self.is_front(outbox) { self.len() } else { 0 }
    }
}

/// Bytes at most of a send that completes at once. A socket has room for them if its client has
/// received all earlier bytes.
const AT_ONCE_BYTES_MAX: u64 = 16 << 10;

/// Pause after which a socket is tried again whose room cannot be waited for.
static ROOM_PAUSE: types::Timespec = types::Timespec::new().nsec(50_000_000);

/// Wait of a send from a pipe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// No wait: bytes are being moved.
    No,
    /// The kernel reports room. A peer that sends no more is reported, too, at once.
    ForRoom,
    /// The peer sends no more. The kernel reports when [`ROOM_PAUSE`] is over.
    ForTime,
}

/// A send, and what the kernel reads for it. It stays where it is while it is in flight.
pub(super) struct Sending {
    /// The connection; `None`: it has given up the send.
    pub(super) key: Option<u64>,
    pub(super) outbox: Outbox<StaticFile>,
    pub(super) piece: Option<Box<Piece>>,
    /// Bytes of the piece in this send.
    of_piece: u64,
    /// The socket took nothing from the pipe.
    pub(super) waits: Waiting,
    /// The kernel sends in the call that submits this, or reports that the socket is full. Allowed
    /// by the ring; [`Sending::entry`] decides.
    pub(super) at_once: bool,
    slices: [libc::iovec; SEND_SLICES_MAX],
    message: libc::msghdr,
}

impl Sending {
    pub(super) fn new() -> Self {
        let slice = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        // SAFETY: a message header is integers and pointers, for which zeros are valid.
        let message = unsafe { std::mem::zeroed() };
        Self {
            key: None,
            outbox: Outbox::default(),
            piece: None,
            of_piece: 0,
            waits: Waiting::No,
            at_once: false,
            slices: [slice; SEND_SLICES_MAX],
            message,
        }
    }

    /// Prepares to send from the front of the outbox: memory, then at most `bytes_max` of the piece
    /// if that follows. Returns the entry, which points into this, and the number of bytes; `None`
    /// if there is nothing to send.
    pub(super) fn entry(&mut self, fd: RawFd, bytes_max: u64) -> Option<(squeue::Entry, u64)> {
        let (mut used, mut bytes) = (0, 0);
        for slice in self.outbox.slices().take(SEND_SLICES_MAX - 1) {
            let len = hook::shorten(Call::Send, slice.len());
            self.slices[used] =
                libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len: len };
            used += 1;
            bytes += len as u64;
            if len < slice.len() {
                break;
            }
        }
        self.of_piece = 0;
        let piece = self.piece.as_ref().filter(|piece| piece.is_front(&self.outbox));
        if let Some((pipe, there)) = piece.and_then(|piece| piece.pipe.as_ref())
            && used == 0
        {
            let len = u32::try_from(bytes_max.min(*there).min(self.outbox.len())).ok()?;
            self.of_piece = len.into();
            self.at_once = false;
            return (len > 0).then(|| (self.splice(fd, pipe, len), len.into()));
        }
        let piece = piece.map(|piece| piece.memory());
        if let Some(piece) = piece
            && bytes == self.memory()
            && !piece.is_empty()
        {
            let most = usize::try_from(bytes_max).unwrap_or(usize::MAX).min(piece.len());
            let len = hook::shorten(Call::Send, most.max(1));
            self.slices[used] =
                libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: len };
            used += 1;
            self.of_piece = len as u64;
            bytes += len as u64;
        }
        if bytes == 0 {
            return None;
        }
        let more = bytes < self.outbox.len() || self.outbox.ends();
        self.at_once &= !more && bytes <= AT_ONCE_BYTES_MAX && self.outbox.pauses();
        let waits = if self.at_once { libc::MSG_DONTWAIT } else { 0 };
        let flags = libc::MSG_NOSIGNAL | waits | if more { libc::MSG_MORE } else { 0 };
        let fd = types::Fd(fd);
        let entry = if used == 1 {
            let libc::iovec { iov_base, iov_len } = self.slices[0];
            let len = u32::try_from(iov_len).unwrap_or(u32::MAX);
            opcode::Send::new(fd, iov_base.cast_const().cast(), len).flags(flags).build()
        } else {
            self.message.msg_iov = self.slices.as_mut_ptr();
            self.message.msg_iovlen = used;
            let flags = flags.unsigned_abs();
            opcode::SendMsg::new(fd, &raw const self.message).flags(flags).build()
        };
        Some((entry, bytes))
    }

    /// The next entry after a socket has taken nothing at once or from a pipe, or has been `waited`
    /// for. `None`: the send has failed.
    pub(super) fn go_on(
        &mut self,
        fd: RawFd,
        waited: Waiting,
        result: i32,
    ) -> Option<squeue::Entry> {
        let room = i32::from(libc::POLLOUT | libc::POLLERR | libc::POLLHUP);
        match (waited, result) {
            (Waiting::No, error) if error == -libc::EAGAIN && self.at_once => {
                // The kernel waits for room from now on.
                self.at_once = false;
                let of_piece = self.of_piece;
                self.entry(fd, of_piece).map(|(entry, _)| entry)
            }
            (Waiting::No, error) if error == -libc::EAGAIN => {
                self.waits = Waiting::ForRoom;
                let mask = libc::POLLOUT.unsigned_abs();
                Some(opcode::PollAdd::new(types::Fd(fd), mask.into()).build())
            }
            (Waiting::ForRoom, events @ 0..) if events & room == 0 => {
                self.waits = Waiting::ForTime;
                Some(opcode::Timeout::new(&raw const ROOM_PAUSE).build())
            }
            (Waiting::ForRoom, 0..) | (Waiting::ForTime, _) => {
                let of_piece = self.of_piece;
                self.entry(fd, of_piece).map(|(entry, _)| entry)
            }
            _ => None,
        }
    }

    /// Moves bytes from a pipe.
    fn splice(&self, fd: RawFd, pipe: &Pipe, len: u32) -> squeue::Entry {
        let more = u64::from(len) < self.outbox.len() || self.outbox.ends();
        let flags = if more { libc::SPLICE_F_MORE } else { 0 };
        let from = types::Fd(pipe.reader.as_raw_fd());
        opcode::Splice::new(from, -1, types::Fd(fd), -1, len).flags(flags).build()
    }

    /// Notes that the kernel took this many bytes.
    pub(super) fn advance(&mut self, sent: u64) {
        let rest = self.outbox.len() - sent.min(self.outbox.len());
        let of_piece = sent.saturating_sub(self.memory());
        self.outbox.advance(sent);
        debug_assert_eq!(self.outbox.len(), rest, "no more than was there");
        if let Some(piece) = &mut self.piece {
            debug_assert!(of_piece <= self.of_piece, "no more than was asked for");
            match &mut piece.pipe {
                Some((_, bytes)) => *bytes -= of_piece,
                None => piece.from += usize::try_from(of_piece).expect("a part of a vector"),
            }
            piece.at += of_piece;
        }
    }

    /// Bytes in memory before the first file range.
    fn memory(&self) -> u64 {
        self.outbox.slices().map(|slice| slice.len() as u64).sum()
    }

    /// Result of a send for which nothing is there to send: the piece could not be read, or its
    /// file shrank.
    pub(super) fn nothing(&self) -> io::Result<u64> {
        match self.piece.as_ref().map(|piece| piece.read) {
            Some(Err(Fault::Other(errno))) => Err(io::Error::from_raw_os_error(errno)),
            Some(Err(_)) => Err(io::Error::from_raw_os_error(libc::ECONNRESET)),
            Some(Ok(())) | None => Ok(0),
        }
    }
}
