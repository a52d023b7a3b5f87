//! Reading ranges of files: always, only from memory, or to bring them into memory.
use crate::{
    StaticFile,
    hook::Call,
    page_cache::{PAGE, Resident, pull},
    retry_interrupted,
    simulated_disk::{self, before_read, is_cold},
};
use regatta_op::{Fault, ReadReq};
use rustix::{
    fs::{Advice, fadvise},
    io::Errno,
};
use std::{
    io,
    mem::MaybeUninit,
    num::NonZeroU64,
    os::fd::{AsFd, AsRawFd},
    ptr,
};

/// Result of a read: the buffer that was lent, and whether the range is in it.
pub type Read = (Vec<u8>, Result<(), Fault>);

/// Reads a range into its request's buffer. Fewer bytes than asked for mean that the file shrank. A
/// failed read, or no memory for that many bytes, is a fault.
pub fn read_range(mut req: ReadReq<StaticFile>) -> Read {
    before_read(&req.file, req.at, req.len);
    let read = room(&mut req).and_then(|len| {
        while req.buffer.len() < len {
            match retry_interrupted(Call::Read, || read_more(&mut req, len, 0)) {
                Ok(0) => break,
                Ok(_) => {}
                Err(errno) => return Err(crate::fault(&errno.into())),
            }
        }
        Ok(())
    });
    (req.buffer, read)
}

/// Makes room for a range in its request's buffer. Returns the number of bytes.
pub(crate) fn room(req: &mut ReadReq<StaticFile>) -> Result<usize, Fault> {
    let len = usize::try_from(req.len).map_err(|_| Fault::Other(libc::ENOMEM))?;
    req.buffer.clear();
    req.buffer.try_reserve_exact(len).map_err(|_| Fault::Other(libc::ENOMEM))?;
    Ok(len)
}

/// Reads more bytes of a range of `len`, after those already read, in one call with these flags
/// (preadv2(2)). Returns their number.
fn read_more(
    req: &mut ReadReq<StaticFile>,
    len: usize,
    flags: libc::c_int,
) -> Result<usize, Errno> {
    let had = req.buffer.len();
    let spare = &mut req.buffer.spare_capacity_mut()[..len - had];
    let into = libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: spare.len() };
    let at = libc::off_t::try_from(req.at + had as u64).map_err(|_| Errno::INVAL)?;
    // SAFETY: the one slice is spare memory of the buffer, borrowed for the length of the call.
    let n = unsafe { libc::preadv2(req.file.as_fd().as_raw_fd(), &raw const into, 1, at, flags) };
    let n = usize::try_from(n)
        .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))?;
    // SAFETY: the kernel has written `n` bytes behind the `had` there were, within the capacity.
    unsafe { req.buffer.set_len(had + n) };
    Ok(n)
}

/// Distance between the probes of [`by_nowait`] in long ranges, bytes: at multiples of this.
const PROBE_BYTES: u64 = 64 << 10;

/// Longest range that is read to find out whether it is in memory, bytes. Copying more is more
/// expensive than the fault that ends a read into nothing.
pub(crate) const COPY_BYTES: u64 = COPY as u64;
const COPY: usize = 16 << 10;

/// Probes a range by reads that must not block (`preadv2` with `RWF_NOWAIT`). Reads all of a range
/// of up to `COPY_BYTES`. Probes a longer one at its first byte, its last, and each multiple of
/// `PROBE_BYTES`.
///
/// Unknown on file systems without it, such as FUSE. A read of a missing page starts readahead for
/// the length that it asks for, so each asks for all the rest of the range. For a single byte Linux
/// would begin with 16 KiB and continue with 32, each a separate request to the disk. Of a long
/// range nothing is copied: the reads have no memory for it, and fail where a page is present.
#[must_use]
pub fn by_nowait(file: &StaticFile, at: u64, len: u64) -> Resident {
    if is_cold(file, at, len) {
        return Resident::No;
    }
    let end = at.saturating_add(len.max(1));
    let mut next = at;
    loop {
        match probe(file, next, end - next) {
            // Beyond the end of the file there is nothing to wait for.
            Ok(0) => return Resident::Yes,
            Ok(n) => next += n,
            Err(Errno::FAULT) => next = after_probe(next, end),
            Err(Errno::AGAIN) => return Resident::No,
            Err(_) => return Resident::Unknown,
        }
        if next >= end {
            return Resident::Yes;
        }
    }
}

/// Offset of the probe after `at`, in a range that ends before `end`; `end` if all was probed.
#[must_use]
pub(crate) const fn after_probe(at: u64, end: u64) -> u64 {
    let (next, last) = (at - at % PROBE_BYTES + PROBE_BYTES, end - 1);
    if at / PAGE >= last / PAGE {
        end
    } else if next < last {
        next
    } else {
        last
    }
}

/// Number of bytes in memory, as far as they are copied; or [`Errno::FAULT`] if there are some.
fn probe(file: &StaticFile, at: u64, len: u64) -> Result<u64, Errno> {
    let mut copy = [MaybeUninit::<u8>::uninit(); COPY];
    let base = if len > COPY_BYTES { ptr::null_mut() } else { copy.as_mut_ptr().cast() };
    let into = libc::iovec { iov_base: base, iov_len: usize::try_from(len).unwrap_or(usize::MAX) };
    let offset = libc::off_t::try_from(at).map_err(|_| Errno::INVAL)?;
    let fd = file.as_fd().as_raw_fd();
    loop {
        // SAFETY: the one slice is the array, if it is long enough, or begins at the null pointer.
        // Nothing is mapped there: the kernel copies in order, so it fails before it has written.
        let n = unsafe { libc::preadv2(fd, &raw const into, 1, offset, libc::RWF_NOWAIT) };
        match u64::try_from(n) {
            Ok(n) => return Ok(n),
            Err(_) => match Errno::from_io_error(&io::Error::last_os_error()) {
                Some(Errno::INTR) => {}
                errno => return Err(errno.unwrap_or(Errno::IO)),
            },
        }
    }
}

/// Brings a range into memory by reading it, piece by piece, into a scratch buffer. May block on
/// disk: that is its purpose. Stops where the file ends.
///
/// # Errors
/// The read failed.
pub fn touch(file: &StaticFile, at: u64, len: u64, scratch: &mut [u8]) -> Result<(), Fault> {
    before_read(file, at, len);
    pull(file, at, len, scratch)
}

/// A range that the disk has been asked for, by [`read_ahead`].
#[derive(Debug)]
#[must_use]
pub struct ReadAhead {
    /// Time when a simulated disk will have read it.
    end: Option<u64>,
}

/// Asks for a range and does not wait for it (posix_fadvise(2), `WILLNEED`). The kernel may ignore
/// that, or read less; and it may wait, for a free request of the disk or for the map of the file.
pub fn read_ahead(file: &StaticFile, at: u64, len: u64) -> ReadAhead {
    let end = simulated_disk::ahead(file, at, len);
    if end.is_none() {
        let _ = fadvise(file, at, NonZeroU64::new(len), Advice::WillNeed);
    }
    ReadAhead { end }
}

impl ReadAhead {
    /// Waits for a simulated disk, if it has not read the range yet. The real disk is waited for in
    /// the call that reads or sends the range.
    pub fn finish(self, file: &StaticFile, at: u64, len: u64) {
        if let Some(end) = self.end {
            simulated_disk::arrive(file, at, len, end);
        }
    }
}

/// [`read_range`] as far as it needs no disk.
///
/// # Errors
/// Some of it would block, or might: the request, unchanged.
pub fn read_cached(mut req: ReadReq<StaticFile>) -> Result<Read, ReadReq<StaticFile>> {
    if is_cold(&req.file, req.at, req.len) {
        return Err(req);
    }
    let Ok(len) = room(&mut req) else { return Err(req) };
    while req.buffer.len() < len {
        match read_more(&mut req, len, libc::RWF_NOWAIT) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            // Blocked, undecided or failed: a caller that may block finds out which.
            Err(_) => return Err(req),
        }
    }
    Ok((req.buffer, Ok(())))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{folder::Folder, page_cache::by_cachestat};

    /// Runs `test` on a file of this length that was just written.
    pub(crate) fn with(name: &str, bytes: usize, test: impl FnOnce(&StaticFile)) {
        let folder = Folder::new(&format!("read-{name}"));
        std::fs::write(folder.join(name), vec![7; bytes]).unwrap();
        let file = std::fs::File::open(folder.join(name)).unwrap();
        test(&StaticFile::adopt(file.into()).unwrap());
    }

    #[test]
    fn what_was_just_written_is_in_memory() {
        with("warm", 300_000, |file| {
            if by_nowait(file, 0, 1) == Resident::Unknown {
                return;
            }
            for (at, len) in
                [(0, 300_000), (0, 1), (0, 0), (5, 16 << 10), (5, (16 << 10) + 1), (299_999, 1)]
            {
                assert_eq!(by_nowait(file, at, len), Resident::Yes, "{len} at {at}");
            }
            assert_eq!(by_nowait(file, 290_000, 1 << 20), Resident::Yes, "up to the end");
            assert_eq!(by_nowait(file, 1 << 40, 9), Resident::Yes, "nothing to wait for");
        });
    }

    #[test]
    fn a_look_at_what_is_missing_asks_for_the_range_at_once() {
        with("cold", 200_000, |file| {
            rustix::fs::fsync(file).unwrap();
            let drop = || fadvise(file, 0, None, Advice::DontNeed);
            drop().unwrap();
            // Only a file system that forgets, and reports that to us, can be tested.
            if by_cachestat(file, 0, 1) != Resident::No {
                return;
            }
            if by_nowait(file, 0, 100_000) == Resident::No {
                assert_eq!(by_cachestat(file, 0, 100_000), Resident::Yes, "all are being read");
            }
        });
    }

    #[test]
    fn a_range_that_was_asked_for_arrives() {
        with("ahead", 100_000, |file| {
            rustix::fs::fsync(file).unwrap();
            fadvise(file, 0, None, Advice::DontNeed).unwrap();
            if by_cachestat(file, 0, 1) != Resident::No {
                return;
            }
            read_ahead(file, 0, 100_000).finish(file, 0, 100_000);
            assert_eq!(by_cachestat(file, 0, 100_000), Resident::Yes, "all are being read");
        });
    }

    #[test]
    fn long_ranges_are_looked_at_by_samples() {
        let looks = |at: u64, len: u64| {
            let end = at + len;
            std::iter::successors(Some(at), |at| Some(after_probe(*at, end)))
                .take_while(|at| *at < end)
                .collect::<Vec<_>>()
        };
        const K: u64 = 1 << 10;
        assert_eq!(looks(0, 256 * K), [0, 64 * K, 128 * K, 192 * K, 256 * K - 1]);
        assert_eq!(looks(40 * K, 100 * K), [40 * K, 64 * K, 128 * K, 140 * K - 1]);
        assert_eq!(looks(40 * K, 90 * K), [40 * K, 64 * K, 128 * K], "the last is on that page");
        assert_eq!(looks(0, 20 * K), [0, 20 * K - 1]);
        assert_eq!(looks(9, 1), [9]);
    }
}
