//! Contents of the kernel's page cache for a file.
//!
//! Every answer is true of the past: pages may have left memory since.
use crate::{StaticFile, hook, hook::Call, retry_interrupted};
use regatta_op::{Fault, File};
use rustix::mm::{MapFlags, ProtFlags};
use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    ptr,
};

/// Answer to the question whether a range is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resident {
    /// All of it is.
    Yes,
    /// Part of it is not.
    No,
    /// The system does not say: not for this file system, or not to this user.
    Unknown,
}

/// Size of a page, bytes.
pub(crate) const PAGE: u64 = 4096;

/// Maps the range and asks for its pages (mincore(2)), as Flash did.
///
/// If this process neither owns the file nor may write to it, Linux says yes. Use it with a server
/// that runs as the owner of its files.
#[must_use]
pub fn by_mincore(file: &StaticFile, at: u64, len: u64) -> Resident {
    if hook::cold_us(file.id().inode) > 0 {
        return Resident::No;
    }
    match pages_absent(file.as_fd(), at, len) {
        Some(0) => Resident::Yes,
        Some(_) => Resident::No,
        None => Resident::Unknown,
    }
}

/// Whether any page of the first `len` bytes is in memory, as [`by_mincore`]; `None` if the system
/// does not say.
#[must_use]
pub fn has_pages(file: impl AsFd, len: u64) -> Option<bool> {
    Some(pages_absent(file.as_fd(), 0, len)? < pages_of(0, len))
}

/// Pages of the range that are not in memory, as [`by_mincore`]; `None` if the system does not say.
pub(crate) fn pages_absent(file: BorrowedFd<'_>, at: u64, len: u64) -> Option<u64> {
    let start = at - at % PAGE;
    let pages = (at + len.max(1)).div_ceil(PAGE) - start / PAGE;
    let (bytes, count) = (usize::try_from(pages * PAGE).ok()?, usize::try_from(pages).ok()?);
    let mut found = vec![0u8; count];
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing of ours; no code
    // reads it, so that a file that shrinks cannot fault.
    let mapped = unsafe {
        let (prot, flags) = (ProtFlags::READ, MapFlags::SHARED);
        rustix::mm::mmap(ptr::null_mut(), bytes, prot, flags, file, start)
    };
    let mapped = mapped.ok()?;
    // SAFETY: the mapping is page-aligned and `bytes` long; the vector has a byte for each page.
    let asked = unsafe { libc::mincore(mapped, bytes, found.as_mut_ptr()) };
    // SAFETY: the mapping was made above, and nothing refers into it.
    let unmapped = unsafe { rustix::mm::munmap(mapped, bytes) };
    debug_assert!(unmapped.is_ok(), "a mapping of ours can be undone");
    (asked == 0).then(|| found.iter().filter(|page| *page & 1 == 0).count() as u64)
}

/// Asks how many pages of the range the page cache has (cachestat(2), Linux 6.5).
///
/// Unknown if this process neither owns the file nor may write to it. A page that is being read
/// counts as there.
#[must_use]
pub fn by_cachestat(file: &StaticFile, at: u64, len: u64) -> Resident {
    if hook::cold_us(file.id().inode) > 0 {
        return Resident::No;
    }
    match pages_cached(file, at, len) {
        Some(cached) if cached >= pages_of(at, len) => Resident::Yes,
        Some(_) => Resident::No,
        None => Resident::Unknown,
    }
}

/// Whether the page cache has some pages of a range and lacks others (cachestat(2)); `None` if this
/// process neither owns the file nor may write to it. Overlays have no pages of their own, so no
/// page at all is no gap.
#[must_use]
pub fn has_gap(file: &StaticFile, at: u64, len: u64) -> Option<bool> {
    let cached = pages_cached(file, at, len)?;
    Some(cached > 0 && cached < pages_of(at, len))
}

/// Number of pages in which a range lies.
const fn pages_of(at: u64, len: u64) -> u64 {
    let len = if len == 0 { 1 } else { len };
    (at + len).div_ceil(PAGE) - at / PAGE
}

/// Number of pages of a range that the page cache has; `None` if the system does not say.
fn pages_cached(file: &StaticFile, at: u64, len: u64) -> Option<u64> {
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
    (asked == 0).then_some(found[0])
}

/// Reads a range, piece by piece, into a scratch buffer. Stops where the file ends.
pub(crate) fn pull(file: &StaticFile, at: u64, len: u64, scratch: &mut [u8]) -> Result<(), Fault> {
    let end = at.saturating_add(len);
    let mut at = at;
    while at < end {
        let most = usize::try_from(end - at).unwrap_or(usize::MAX).min(scratch.len());
        let read = retry_interrupted(Call::Read, || {
            rustix::io::pread(file.as_fd(), &mut scratch[..most], at)
        });
        match read {
            Ok(0) => break,
            Ok(n) => at += n as u64,
            Err(errno) => return Err(crate::fault(&errno.into())),
        }
    }
    Ok(())
}
