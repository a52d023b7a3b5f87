//! Where tests and the lab take the machine's part: faults that are injected into system calls,
//! time that a thread makes up, a disk that is simulated.
//!
//! Faults and time exist with the cargo feature `test-hooks` only, which no program asks for and
//! every test does: without it they are constants, of which nothing is left. The simulated disk is
//! an option of the program (`lab.disk_heads`).
#[cfg(feature = "test-hooks")]
mod injected;
#[cfg(feature = "test-hooks")]
mod per_thread;

#[cfg(feature = "test-hooks")]
pub use injected::{KEYS, Plan, die_locked, inject, inject_as_told, struck};
#[cfg(feature = "test-hooks")]
pub(crate) use injected::{blocks, edge_triggered, fault, shorten};
#[cfg(not(feature = "test-hooks"))]
pub(crate) use none::{
    accept_fault, accepted, blocks, edge_triggered, fault, nanos, now, shorten, stranger,
};
#[cfg(not(feature = "test-hooks"))]
pub use none::{die_locked, inject_as_told};
#[cfg(feature = "test-hooks")]
pub(crate) use per_thread::{accept_fault, accepted, nanos, now, stranger};
#[cfg(feature = "test-hooks")]
pub use per_thread::{clear, fail_next_accept, set_room, set_time};

#[cfg(not(feature = "test-hooks"))]
use none as injected;

use crate::{StaticFile, simulated_disk};
use regatta_op::File;
use std::time::Duration;

/// The calls that faults strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Receiving from a peer.
    Recv,
    /// Sending memory to a peer.
    Send,
    /// Sending a file range to a peer.
    SendFile,
    /// Reading a file.
    Read,
    /// Accepting a connection.
    Accept,
    /// Opening a path below the root.
    Open,
    /// Waiting for readiness.
    Wait,
}

/// Waits for what an open has to wait for; `is_cached` says whether it needs the disk at all.
#[inline]
pub(crate) fn before_open(is_cached: impl FnOnce() -> bool) {
    injected::slow_open();
    if simulated_disk::is_there() && !is_cached() {
        simulated_disk::wait_for_block();
    }
}

/// Waits for what a read of the range has to wait for.
#[inline]
pub(crate) fn before_read(file: &StaticFile, at: u64, len: u64) {
    injected::slow_read(file.id().inode);
    simulated_disk::wait(file, at, len);
}

/// [`before_read`] for a sender: how much of the range, which is not empty, can be sent now.
#[inline]
pub(crate) fn before_sendfile(file: &StaticFile, at: u64, len: u64) -> u64 {
    injected::slow_read(file.id().inode);
    simulated_disk::ready(file, at, len)
}

/// True if a read of the range would have to wait here, whatever the kernel says.
#[inline]
pub(crate) fn is_cold(file: &StaticFile, at: u64, len: u64) -> bool {
    is_injected_cold(file) || simulated_disk::is_cold(file, at, len)
}

/// [`is_cold`] without the simulated disk, which asks the kernel itself.
#[inline]
pub(crate) fn is_injected_cold(file: &StaticFile) -> bool {
    injected::cold_us(file.id().inode) > 0
}

/// How long an open has to wait that another performs meanwhile; see [`before_open`].
pub(crate) fn open_delay(is_cached: impl FnOnce() -> bool) -> Option<Duration> {
    if blocks() {
        return Some(Duration::from_micros(injected::slow_open_us()));
    }
    let waits = simulated_disk::is_there() && !is_cached();
    waits.then(|| simulated_disk::delay(None)).flatten()
}

/// How long a read has to wait that another performs meanwhile; then comes [`delayed`].
pub(crate) fn read_delay(file: &StaticFile, at: u64, len: u64) -> Option<Duration> {
    match injected::cold_us(file.id().inode) {
        0 => simulated_disk::delay(Some((file, at, len))),
        us => Some(Duration::from_micros(us)),
    }
}

/// The [`read_delay`] of this file is over.
pub(crate) fn delayed(file: &StaticFile) {
    injected::warm(file.id().inode);
}

#[cfg(not(feature = "test-hooks"))]
mod none {
    use super::Call;
    use regatta_op::Now;
    use rustix::io::Errno;
    use std::{net::SocketAddr, os::fd::OwnedFd};

    #[inline]
    pub(crate) const fn accepted(_: &OwnedFd) {}

    #[inline]
    pub(crate) const fn fault(_: Call) -> Option<Errno> {
        None
    }

    #[inline]
    pub(crate) const fn shorten(_: Call, len: usize) -> usize {
        len
    }

    #[inline]
    pub(crate) const fn slow_open() {}

    #[inline]
    pub(crate) const fn slow_read(_inode: u64) {}

    #[inline]
    pub(crate) const fn cold_us(_inode: u64) -> u64 {
        0
    }

    #[inline]
    pub(crate) const fn slow_open_us() -> u64 {
        0
    }

    #[inline]
    pub(crate) const fn warm(_inode: u64) {}

    #[inline]
    pub(crate) const fn blocks() -> bool {
        false
    }

    #[inline]
    pub(crate) const fn edge_triggered() {}

    #[inline]
    pub(crate) const fn now() -> Option<Now> {
        None
    }

    #[inline]
    pub(crate) const fn nanos() -> Option<u64> {
        None
    }

    #[inline]
    pub(crate) const fn accept_fault() -> Option<Errno> {
        None
    }

    #[inline]
    pub(crate) const fn stranger() -> Option<SocketAddr> {
        None
    }

    /// Does nothing: there are no faults in this program.
    #[inline]
    pub const fn die_locked() {}

    /// Does nothing: there are no faults in this program.
    #[inline]
    pub const fn inject_as_told() {}
}
