//! Reading ranges of files: at once, only what is in memory, or so that they are in memory.
use crate::{
    StaticFile, again,
    hook::Call,
    page_cache::{PAGE, Resident, pull},
    simulated_disk::{before_read, is_cold},
};
use regatta_op::{Fault, ReadReq};
use rustix::io::Errno;
use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd},
    ptr,
};

/// What has come of a read: the buffer that was lent, and whether the range is in it.
pub type Read = (Vec<u8>, Result<(), Fault>);

/// Reads a range into the buffer that goes with it; fewer bytes than asked for mean that the file
/// shrank. It is a fault if the read fails, or there is no memory for that many bytes.
pub fn read_range(mut req: ReadReq<StaticFile>) -> Read {
    before_read(&req.file, req.at, req.len);
    let read = room(&mut req).and_then(|len| {
        while req.buffer.len() < len {
            match again(Call::Read, || read_more(&mut req, len, 0)) {
                Ok(0) => break,
                Ok(_) => {}
                Err(errno) => return Err(crate::fault(&errno.into())),
            }
        }
        Ok(())
    });
    (req.buffer, read)
}

/// Makes room for a range in the buffer that goes with it, if there is none; how many bytes.
pub(crate) fn room(req: &mut ReadReq<StaticFile>) -> Result<usize, Fault> {
    let len = usize::try_from(req.len).map_err(|_| Fault::Other(libc::ENOMEM))?;
    req.buffer.clear();
    req.buffer.try_reserve_exact(len).map_err(|_| Fault::Other(libc::ENOMEM))?;
    Ok(len)
}

/// Reads bytes behind those that have come of a range of `len`, in one call with these flags
/// (preadv2(2)); how many.
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

/// How far apart [`by_nowait`] looks at long ranges, bytes: at multiples of this.
const PROBE_BYTES: u64 = 64 << 10;

/// The longest range that is read to find out whether it is in memory, bytes. Copying more costs
/// more than the fault that a read into nothing ends with.
pub(crate) const COPY_BYTES: u64 = COPY as u64;
const COPY: usize = 16 << 10;

/// Reads that must not block (`preadv2` with `RWF_NOWAIT`): of a range of up to `COPY_BYTES` all,
/// of a longer one at its first byte, its last, and each multiple of `PROBE_BYTES`.
///
/// Unknown on file systems without it, such as FUSE. A read of what is not there starts readahead
/// for as much as it asks for, so each asks for all the rest of the range: for a single byte Linux
/// would begin with 16 KiB and go on with 32, each a request of its own to the disk. Of a long
/// range nothing is copied: there is no memory to read into, and whoever finds a page finds that.
#[must_use]
pub fn by_nowait(file: &StaticFile, at: u64, len: u64) -> Resident {
    if is_cold(file, at, len) {
        return Resident::No;
    }
    let end = at.saturating_add(len.max(1));
    let mut next = at;
    loop {
        match look(file, next, end - next) {
            // Behind the end of the file there is nothing to wait for.
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

/// Where to look after a look at `at`, in a range that ends before `end`; `end` if all was seen.
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

/// How many bytes there are, as far as they are copied; or [`Errno::FAULT`] if there are some.
fn look(file: &StaticFile, at: u64, len: u64) -> Result<u64, Errno> {
    let mut copy = [MaybeUninit::<u8>::uninit(); COPY];
    let base = if len > COPY_BYTES { ptr::null_mut() } else { copy.as_mut_ptr().cast() };
    let into = libc::iovec { iov_base: base, iov_len: usize::try_from(len).unwrap_or(usize::MAX) };
    let offset = libc::off_t::try_from(at).map_err(|_| Errno::INVAL)?;
    let fd = file.as_fd().as_raw_fd();
    loop {
        // SAFETY: the one slice is the array, if it is long enough, or begins at the null pointer,
        // where nothing is mapped: the kernel copies in order, so it fails before it has written.
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

/// Brings a range into memory by reading it, piece by piece, into a buffer that nobody looks at.
/// May block on disk: that is what it is for. Stops where the file ends.
///
/// # Errors
/// The read failed.
pub fn touch(file: &StaticFile, at: u64, len: u64, scratch: &mut [u8]) -> Result<(), Fault> {
    before_read(file, at, len);
    pull(file, at, len, scratch)
}

/// [`read_range`] as far as it needs no disk.
///
/// # Errors
/// Some of it would block, or cannot be said not to: what was asked.
pub fn read_cached(mut req: ReadReq<StaticFile>) -> Result<Read, ReadReq<StaticFile>> {
    if is_cold(&req.file, req.at, req.len) {
        return Err(req);
    }
    let Ok(len) = room(&mut req) else { return Err(req) };
    while req.buffer.len() < len {
        match read_more(&mut req, len, libc::RWF_NOWAIT) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            // It would block, or cannot say, or failed: who may block finds out which.
            Err(_) => return Err(req),
        }
    }
    Ok((req.buffer, Ok(())))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{OpenRules, Root, folder::Folder, open_below, page_cache::by_cachestat};
    use regatta_op::{Codings, OpenReq, Opened};

    /// Has a file of this length, just written, looked at.
    pub(crate) fn with(name: &str, bytes: usize, test: impl FnOnce(&StaticFile)) {
        let folder = Folder::new(&format!("read-{name}"));
        std::fs::write(folder.join(name), vec![7; bytes]).unwrap();
        let root = Root::open(&folder).unwrap();
        let req = OpenReq { path: name.as_bytes().into(), siblings: Codings::NONE };
        let Ok(Opened::File { file, .. }) = open_below(&root, &req, OpenRules::default()) else {
            panic!("{name} is there");
        };
        test(&file);
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
            let drop = || rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
            drop().unwrap();
            // Only a file system that forgets, and says so to us, can be asked.
            if by_cachestat(file, 0, 1) != Resident::No {
                return;
            }
            if by_nowait(file, 0, 100_000) == Resident::No {
                assert_eq!(by_cachestat(file, 0, 100_000), Resident::Yes, "all are being read");
            }
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
