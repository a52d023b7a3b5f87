//! Memory that all processes of a server share, and that others can find and read.
use rustix::{
    fs::{MemfdFlags, SealFlags},
    mm::{MapFlags, ProtFlags},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::AtomicU64,
};

/// What the memory is called in `/proc/PID/fd`.
pub const NAME: &str = "regatta-arena";

/// Zeroed words that every process forked from here on shares. The mapping lasts as long as the
/// process; others find it as long as this value keeps the descriptor open.
#[derive(Debug)]
pub struct Shared {
    fd: OwnedFd,
    words: &'static [AtomicU64],
}

impl Shared {
    /// The words.
    #[must_use]
    pub const fn words(&self) -> &'static [AtomicU64] {
        self.words
    }
}

impl AsFd for Shared {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Makes `count` shared words, all 0.
///
/// # Errors
/// No memory or descriptors left.
pub fn create(count: usize) -> io::Result<Shared> {
    let bytes = count.checked_mul(8).ok_or(io::ErrorKind::OutOfMemory)?;
    let fd = rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, bytes as u64)?;
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let words = map(fd.as_fd(), bytes, MapFlags::SHARED)?;
    Ok(Shared { fd, words })
}

fn map(fd: BorrowedFd<'_>, bytes: usize, flags: MapFlags) -> io::Result<&'static [AtomicU64]> {
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing of ours.
    let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, prot, flags, fd, 0) }?;
    // SAFETY: the mapping is page-aligned, `bytes` long, never unmapped, and cannot lose its
    // memory because the file is sealed against shrinking. Any bits are a valid AtomicU64.
    Ok(unsafe { std::slice::from_raw_parts(at.cast::<AtomicU64>(), bytes / 8) })
}
