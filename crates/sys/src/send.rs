//! Bytes to and from a peer, one system call at a time.
#[cfg(doc)]
use crate::fault;
use crate::{StaticFile, hook, hook::Call, retry_interrupted, simulated_disk};
use regatta_op::{Outbox, Segment};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, ReadWriteFlags, pwritev2, retry_on_intr},
    net::{RecvFlags, SendAncillaryBuffer, SendFlags, sockopt},
};
use std::{
    io::{self, IoSlice},
    os::fd::{AsFd, BorrowedFd},
};

/// Most memory slices of one gathering write: a head, 16 ranges (the default of
/// `limits.ranges_max`), each after a head of its own, and their end.
pub const SEND_SLICES_MAX: usize = 2 * 16 + 2;

/// Most bytes that Linux moves in one `sendfile` call, even if asked for more.
pub const SENDFILE_BYTES_MAX: u64 = 0x7fff_f000;

/// Result of one [`send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Bytes that the kernel took; 0 from [`SendCall::SendFile`] means that the file shrank.
    pub bytes: u64,
    /// The system call that took them.
    pub call: SendCall,
}

/// System calls that [`send`] chooses from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendCall {
    /// `send`: one slice of memory.
    Send,
    /// `sendmsg`: several slices of memory.
    SendMsg,
    /// `sendfile`: a range of a file.
    SendFile,
}

/// Receives what the peer sent into `buf`; 0 is the end of its stream.
///
/// # Errors
/// `WouldBlock` if no bytes are there and the socket does not block; otherwise see [`fault`].
#[inline]
pub fn recv(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    recv_with(fd, buf, RecvFlags::empty())
}

/// [`recv`] that does not block even if the socket does (`MSG_DONTWAIT`).
///
/// # Errors
/// `WouldBlock` if no bytes are there; otherwise see [`fault`].
#[inline]
pub fn recv_now(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    recv_with(fd, buf, RecvFlags::DONTWAIT)
}

/// Longest rest of a file for which the socket is corked, bytes: a longer one does not fit into a
/// socket at once.
const CORK_BYTES_MAX: u64 = 256 << 10;

/// Sends from the front of the outbox with one system call that takes bytes, and advances it by the
/// number that the kernel took.
///
/// Memory goes out whole, up to [`SEND_SLICES_MAX`] slices, with `MSG_MORE` if anything follows. So
/// a head and the next file range share a segment on the wire. A file range goes out with
/// `sendfile`, at most `budget_bytes` of it, which is more than 0. A blocking socket works the
/// same: the call lasts until the kernel has taken everything.
///
/// At the end of the stream ([`Outbox::ends`]), the last bytes wait for its end, to share a segment
/// with it. Memory does so by `MSG_MORE`. For a rest of a file of at most 256 KiB, one more call
/// corks the socket first (tcp(7)). If the kernel takes a part of memory, nothing of that waits. Of
/// a file less than a segment may wait, until the next call and no longer than 200 ms.
///
/// # Errors
/// `WouldBlock` if the socket's buffer is full and it does not block; otherwise see [`fault`].
#[inline(always)]
pub fn send(
    fd: BorrowedFd<'_>,
    outbox: &mut Outbox<StaticFile>,
    budget_bytes: u64,
) -> io::Result<Sent> {
    debug_assert!(budget_bytes > 0, "sending nothing would look like a file that shrank");
    let last =
        SendFlags::NOSIGNAL | if outbox.ends() { SendFlags::MORE } else { SendFlags::empty() };
    let sent = match outbox.simple() {
        Some((head, None)) => send_slice(fd, head, last)?,
        Some((&[], Some(Segment::Mem { bytes, at, end }))) => {
            send_slice(fd, &bytes[*at as usize..*end as usize], last)?
        }
        Some((&[], Some(Segment::File { file, at, len }))) => {
            if outbox.ends() && *len <= budget_bytes.min(CORK_BYTES_MAX) {
                // If it fails the bytes leave a moment before the end.
                let _ = sockopt::set_tcp_cork(fd, true);
            }
            send_file(fd, file, *at, (*len).min(budget_bytes))?
        }
        Some((head, Some(Segment::File { .. }))) => {
            send_slice(fd, head, SendFlags::NOSIGNAL | SendFlags::MORE)?
        }
        Some((_, Some(Segment::Mem { .. }))) | None => send_gathered(fd, outbox, budget_bytes)?,
    };
    outbox.advance(sent.bytes);
    Ok(sent)
}

/// Sends memory with one `send`, and nothing after it: the bare call, for a loop without an outbox.
///
/// # Errors
/// As [`send`].
#[inline]
pub fn send_last(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<u64> {
    Ok(send_slice(fd, bytes, SendFlags::NOSIGNAL)?.bytes)
}

/// [`send_last`], with more to follow at once (`MSG_MORE`).
///
/// # Errors
/// As [`send`].
#[inline]
pub fn send_more(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<u64> {
    Ok(send_slice(fd, bytes, SendFlags::NOSIGNAL | SendFlags::MORE)?.bytes)
}

/// Writes memory without waiting, whatever the descriptor's own mode is. For a log's reader, which
/// is no peer: a socket, a pipe or a terminal that other processes share. No fault is injected.
///
/// Before Linux 6.4 (`RWF_NOWAIT` on pipes) this checks readiness first. It may then still wait if
/// another process fills the pipe between the two calls.
///
/// # Errors
/// `WouldBlock` if the descriptor takes nothing now.
pub fn write_now(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match retry_on_intr(|| rustix::net::send(fd, bytes, flags)) {
        Err(Errno::NOTSOCK) => {}
        done => return Ok(done?),
    }
    // Offset -1 means the current position of a stream.
    let slices = [IoSlice::new(bytes)];
    match retry_on_intr(|| pwritev2(fd, &slices, u64::MAX, ReadWriteFlags::NOWAIT)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_if_ready(fd, bytes),
        done => Ok(done?),
    }
}

/// Writes if `poll` says that the descriptor takes bytes now.
fn write_if_ready(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let mut asked = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    match retry_on_intr(|| poll(&mut asked, Some(&Timespec::default())))? {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        _ => Ok(retry_on_intr(|| rustix::io::write(fd, bytes))?),
    }
}

/// Sends a range of a file with one `sendfile`; 0 means that the file shrank.
///
/// # Errors
/// As [`send`].
#[inline]
pub fn send_range(fd: BorrowedFd<'_>, file: &StaticFile, at: u64, len: u64) -> io::Result<u64> {
    Ok(send_file(fd, file, at, len)?.bytes)
}

#[inline]
fn recv_with(fd: BorrowedFd<'_>, buf: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    let len = hook::shorten(Call::Recv, buf.len());
    let (n, _) = retry_interrupted(Call::Recv, || rustix::net::recv(fd, &mut buf[..len], flags))?;
    Ok(n)
}

#[inline]
fn send_slice(fd: BorrowedFd<'_>, slice: &[u8], flags: SendFlags) -> io::Result<Sent> {
    let slice = &slice[..hook::shorten(Call::Send, slice.len())];
    let bytes = retry_interrupted(Call::Send, || rustix::net::send(fd, slice, flags))? as u64;
    Ok(Sent { bytes, call: SendCall::Send })
}

#[inline]
fn send_file(fd: BorrowedFd<'_>, file: &StaticFile, at: u64, len: u64) -> io::Result<Sent> {
    let len = simulated_disk::before_sendfile(file, at, len);
    let count = usize::try_from(len.min(SENDFILE_BYTES_MAX)).expect("two GiB fit 64-bit Linux");
    let count = hook::shorten(Call::SendFile, count);
    let mut offset = at;
    let bytes = retry_interrupted(Call::SendFile, || {
        rustix::fs::sendfile(fd, file.as_fd(), Some(&mut offset), count)
    })?;
    Ok(Sent { bytes: bytes as u64, call: SendCall::SendFile })
}

/// Sends all but a single slice or a file range at the front.
#[inline(never)]
fn send_gathered(
    fd: BorrowedFd<'_>,
    outbox: &Outbox<StaticFile>,
    budget_bytes: u64,
) -> io::Result<Sent> {
    if let (true, Some(Segment::File { file, at, len })) =
        (outbox.at_file(), outbox.segments().next())
    {
        return send_file(fd, file, *at, (*len).min(budget_bytes));
    }
    let mut slices = [IoSlice::new(&[]); SEND_SLICES_MAX];
    let mut used = 0;
    let mut bytes = 0;
    for (slot, slice) in slices.iter_mut().zip(outbox.slices()) {
        let len = hook::shorten(Call::Send, slice.len());
        *slot = IoSlice::new(&slice[..len]);
        used += 1;
        bytes += len as u64;
        if len < slice.len() {
            break;
        }
    }
    let more = bytes < outbox.len() || outbox.ends();
    let flags = SendFlags::NOSIGNAL | if more { SendFlags::MORE } else { SendFlags::empty() };
    let mut control = SendAncillaryBuffer::default();
    let bytes = retry_interrupted(Call::Send, || {
        rustix::net::sendmsg(fd, &slices[..used], &mut control, flags)
    })?;
    Ok(Sent { bytes: bytes as u64, call: SendCall::SendMsg })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe whose ends both wait, as a shell makes one.
    fn fills_and_empties(write: fn(BorrowedFd<'_>, &[u8]) -> io::Result<usize>) {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let line = [b'x'; 4096];
        let mut taken = 0;
        let full = loop {
            match write(writer.as_fd(), &line) {
                Ok(bytes) => taken += bytes,
                Err(full) => break full,
            }
            assert!(taken < 1 << 24, "no pipe is that long");
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(taken >= line.len());
        let mut back = [0; 4096];
        assert_eq!(rustix::io::read(&reader, &mut back), Ok(line.len()));
        assert_eq!(write(writer.as_fd(), &line).expect("there is room again"), line.len());
    }

    #[test]
    fn a_shared_pipe_that_is_full_is_not_waited_for() {
        fills_and_empties(write_now);
        fills_and_empties(write_if_ready);
    }
}
