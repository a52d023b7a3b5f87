//! Whether the range of a file is in memory, and bringing it there.
//!
//! Every answer is true of the past: what was in memory may have left it.
use crate::{StaticFile, again, chaos::Hook};
use regatta_op::{Fault, ReadReq};
use rustix::{
    io::{Errno, IoSliceMut, ReadWriteFlags, preadv2},
    mm::{MapFlags, ProtFlags},
};
use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd},
    ptr,
};

/// An answer to the question whether a range is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resident {
    /// It is.
    Yes,
    /// Part of it is not.
    No,
    /// The system does not say: not for this file system, or not to this user.
    Unknown,
}

/// How far apart [`by_nowait`] looks, bytes. Readahead brings at least as much at a time.
pub const PROBE_BYTES: u64 = 64 << 10;

/// The size of a page, bytes.
const PAGE: u64 = 4096;

/// Reads single bytes that must come from memory (`preadv2` with `RWF_NOWAIT`): the first of the
/// range, the last, and one every [`PROBE_BYTES`] between them.
///
/// Unknown on file systems without it, such as FUSE. A byte that is not there may start readahead.
#[must_use]
pub fn by_nowait(file: &StaticFile, at: u64, len: u64) -> Resident {
    let last = at.saturating_add(len.max(1) - 1);
    let mut next = at;
    loop {
        match probe(file, next) {
            // Behind the end of the file there is nothing to wait for.
            Ok(_) => {}
            Err(Errno::AGAIN) => return Resident::No,
            Err(_) => return Resident::Unknown,
        }
        // On the page that was seen last, or behind the range.
        if next / PAGE >= last / PAGE {
            return Resident::Yes;
        }
        next = next.saturating_add(PROBE_BYTES).min(last);
    }
}

fn probe(file: &StaticFile, at: u64) -> Result<usize, Errno> {
    let mut byte = [0];
    loop {
        let mut into = [IoSliceMut::new(&mut byte)];
        match preadv2(file.as_fd(), &mut into, at, ReadWriteFlags::NOWAIT) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Maps the range and asks for its pages (mincore(2)), as Flash did.
///
/// Linux says yes to whoever neither owns the file nor may write to it: use it with a server that
/// runs as the owner of its files.
#[must_use]
pub fn by_mincore(file: &StaticFile, at: u64, len: u64) -> Resident {
    let start = at - at % PAGE;
    let pages = (at + len.max(1)).div_ceil(PAGE) - start / PAGE;
    let (Ok(bytes), Ok(count)) = (usize::try_from(pages * PAGE), usize::try_from(pages)) else {
        return Resident::Unknown;
    };
    let mut found = vec![0u8; count];
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing of ours; it is
    // read by nobody, so that a file that shrinks cannot fault.
    let mapped = unsafe {
        let (prot, flags) = (ProtFlags::READ, MapFlags::SHARED);
        rustix::mm::mmap(ptr::null_mut(), bytes, prot, flags, file.as_fd(), start)
    };
    let Ok(mapped) = mapped else { return Resident::Unknown };
    // SAFETY: the mapping is page-aligned and `bytes` long; the vector has a byte for each page.
    let asked = unsafe { libc::mincore(mapped, bytes, found.as_mut_ptr()) };
    // SAFETY: the mapping was made above, and nothing refers into it.
    let unmapped = unsafe { rustix::mm::munmap(mapped, bytes) };
    debug_assert!(unmapped.is_ok(), "a mapping of ours can be undone");
    match asked {
        0 if found.iter().all(|page| page & 1 == 1) => Resident::Yes,
        0 => Resident::No,
        _ => Resident::Unknown,
    }
}

/// Asks how many pages of the range the page cache has (cachestat(2), Linux 6.5).
///
/// Unknown to whoever neither owns the file nor may write to it. A page that is being read counts
/// as there.
#[must_use]
pub fn by_cachestat(file: &StaticFile, at: u64, len: u64) -> Resident {
    const SYS_CACHESTAT: libc::c_long = 451;
    let range = [at, len.max(1)];
    let mut found = [0u64; 5];
    // SAFETY: the kernel reads two integers, offset and length, and writes five
    // (`struct cachestat_range`, `struct cachestat`); both arrays are as long.
    let asked = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_fd().as_raw_fd(),
            range.as_ptr(),
            found.as_mut_ptr(),
            0_u32,
        )
    };
    let pages = (at + range[1]).div_ceil(PAGE) - at / PAGE;
    match asked {
        0 if found[0] >= pages => Resident::Yes,
        0 => Resident::No,
        _ => Resident::Unknown,
    }
}

/// Brings a range into memory by reading it, piece by piece, into a buffer that nobody looks at.
/// May block on disk: that is what it is for. Stops where the file ends.
///
/// # Errors
/// The read failed.
pub fn touch(file: &StaticFile, at: u64, len: u64, scratch: &mut [u8]) -> Result<(), Fault> {
    let end = at.saturating_add(len);
    let mut at = at;
    while at < end {
        let most = usize::try_from(end - at).unwrap_or(usize::MAX).min(scratch.len());
        let read = again(Hook::Read, || rustix::io::pread(file.as_fd(), &mut scratch[..most], at));
        match read {
            Ok(0) => break,
            Ok(n) => at += n as u64,
            Err(errno) => return Err(crate::fault(&errno.into())),
        }
    }
    Ok(())
}

/// [`crate::read_range`] as far as it needs no disk: `None` if any of it would block.
#[must_use]
pub fn read_cached(req: &ReadReq<StaticFile>) -> Option<Result<Box<[u8]>, Fault>> {
    let len = usize::try_from(req.len).ok()?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).ok()?;
    while bytes.len() < len {
        match read_now(req, &mut bytes) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            // It would block, or cannot say, or failed: who may block finds out which.
            Err(_) => return None,
        }
    }
    bytes.truncate(len);
    Some(Ok(bytes.into_boxed_slice()))
}

fn read_now(req: &ReadReq<StaticFile>, bytes: &mut Vec<u8>) -> Result<usize, Errno> {
    let at = req.at + bytes.len() as u64;
    let spare: &mut [MaybeUninit<u8>] = bytes.spare_capacity_mut();
    let into = libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: spare.len() };
    let offset = libc::off_t::try_from(at).map_err(|_| Errno::INVAL)?;
    let fd = req.file.as_fd().as_raw_fd();
    // SAFETY: the one slice is the vector's spare memory, borrowed for the length of the call.
    let n = unsafe { libc::preadv2(fd, &raw const into, 1, offset, libc::RWF_NOWAIT) };
    let n = usize::try_from(n)
        .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))?;
    let len = bytes.len() + n;
    // SAFETY: the kernel has written `n` bytes behind the `len` there were, within the capacity.
    unsafe { bytes.set_len(len) };
    Ok(n)
}
