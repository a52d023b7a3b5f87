//! Linux, behind owned types and `io::Result`: the only crate with `unsafe`.
//!
//! Every wrapper takes descriptors as `BorrowedFd`, `OwnedFd` or a type that owns one, never as a
//! number. It opens everything with close-on-exec, and repeats interrupted calls. Calls on every
//! request (`recv`, `send`, `accept`, `wait`) are a system call and nothing else: rustix's raw
//! backend makes them without libc's `errno`.
#![cfg(target_os = "linux")]

// In musl, a clone of a process without the C library keeps the parent's thread number, by which it
// locks and aborts. The static program is linked with glibc.
#[cfg(target_env = "musl")]
compile_error!("musl is not supported; build for a target whose environment is gnu");
#[cfg(not(target_pointer_width = "64"))]
compile_error!("32 bits are not supported; build for a 64-bit target");

pub mod affinity;
#[cfg(feature = "test-hooks")]
pub mod alloc_count;
pub mod channel;
pub mod clock;
pub mod connect;
pub mod crew;
mod event;
pub mod exec;
pub mod fiber;
mod file;
#[cfg(test)]
use regatta_testkit::folder;
pub mod groups;
pub mod guarded;
pub mod heap;
pub mod hook;
pub mod kernel_aio;
pub mod limits;
mod listing;
mod map;
mod opening;
mod page_cache;
pub mod process;
mod read;
pub mod sandbox;
mod send;
pub mod shm;
pub mod signal;
pub mod simulated_disk;
pub mod socket;
mod stack_pages;
pub mod terminal;
pub mod thread;
pub mod tree;
pub mod unix;
pub mod uring;
mod user;
pub mod wait;

pub use event::Bell;
pub use file::{
    DiskSubject, FileSystem, FileTrace, Named, Root, StaticFile, device_numbers, fstat,
    may_make_files, name,
};
pub use listing::{ListedFolder, NameFacts, NameKind};
pub use map::{Map, send_mapped};
pub use opening::{
    OpenResult, OpenRules, known_device, open_below, open_cached, open_cached_on_mount,
};
pub use page_cache::{Resident, by_cachestat, by_mincore, has_gap, has_pages};
pub use read::{Read, ReadAhead, by_nowait, read_ahead, read_cached, read_range, touch};
pub use send::{
    SEND_SLICES_MAX, SENDFILE_BYTES_MAX, SendCall, Sent, recv, recv_now, send, send_last,
    send_more, send_range, write_now,
};

use regatta_op::Fault;
use rustix::io::Errno;
use std::io;

/// Makes a system call, and repeats it as long as a signal interrupts it.
#[inline]
fn retry_interrupted<T>(
    of: hook::Call,
    mut call: impl FnMut() -> Result<T, Errno>,
) -> Result<T, Errno> {
    crew::assert_unlocked();
    loop {
        let result = match hook::fault(of) {
            Some(errno) => Err(errno),
            None => call(),
        };
        if !matches!(result, Err(Errno::INTR)) {
            return result;
        }
    }
}

/// Maps the error of a [`recv`], [`send`] or [`read_range`] to the origin's.
#[must_use]
pub fn fault(error: &io::Error) -> Fault {
    match error.raw_os_error() {
        Some(libc::ECONNRESET | libc::EPIPE | libc::ETIMEDOUT | libc::ECONNABORTED) => Fault::Reset,
        other => Fault::Other(other.unwrap_or(0)),
    }
}
