//! Faults and time that tests inject in place of the machine.
//!
//! They exist only with the cargo feature `test-hooks`, which every test and no program enables.
//! Without it they are constants that compile to nothing.
#[cfg(feature = "test-hooks")]
pub mod denied;
#[cfg(feature = "test-hooks")]
mod injected;
#[cfg(feature = "test-hooks")]
mod per_thread;

#[cfg(feature = "test-hooks")]
pub use injected::{
    KEYS, Plan, PlanError, die_locked, hang_at_mark, hang_in_visit, hang_locked, inject,
    inject_as_told, panic_in_visit, probe, struck,
};
#[cfg(feature = "test-hooks")]
pub(crate) use injected::{
    blocks, cold_us, edge_triggered, fault, shorten, slow_open, slow_open_us, slow_read, warm,
};
#[cfg(not(feature = "test-hooks"))]
pub(crate) use none::{
    accept_fault, accepted, blocks, cold_us, edge_triggered, fault, nanos, now, shorten, slow_open,
    slow_open_us, slow_read, warm,
};
#[cfg(not(feature = "test-hooks"))]
pub use none::{die_locked, hang_at_mark, hang_in_visit, inject_as_told, panic_in_visit, probe};
#[cfg(feature = "test-hooks")]
pub(crate) use per_thread::{accept_fault, accepted, nanos, now};
#[cfg(feature = "test-hooks")]
pub use per_thread::{clear, fail_next_accept, set_room, set_time};

/// Calls that faults strike.
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

/// A lock that a process holds in the middle of a change of a shared cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The lock of the table, alone.
    Table,
    /// The lock of an entry, as a reader of the table.
    Entry,
    /// The lock of the heap, and that of an entry.
    Heap,
}

#[cfg(not(feature = "test-hooks"))]
mod none {
    use super::{Call, Held};
    use crate::Root;
    use regatta_op::Now;
    use rustix::io::Errno;
    use std::os::fd::OwnedFd;

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

    /// Does nothing: there are no faults in this program.
    #[inline]
    pub const fn die_locked(_: Held) {}

    /// Does nothing: there are no faults in this program.
    #[inline]
    pub const fn panic_in_visit() {}

    /// Does nothing: there are no faults in this program.
    #[inline]
    pub const fn hang_in_visit() {}

    /// Does nothing: there are no faults in this program.
    #[inline]
    pub const fn hang_at_mark(_: &Root) {}

    /// Does nothing: there are no faults in this program.
    #[inline]
    pub const fn inject_as_told() {}

    /// Does nothing: there are no faults in this program.
    #[inline]
    pub const fn probe(_master: u32) {}
}
