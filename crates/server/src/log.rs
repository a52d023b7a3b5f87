//! The access log and the error log: lines in buffers, written whole.
//!
//! Each worker has a [`LogSink`], which puts the lines of finished exchanges in a buffer and writes
//! it with one call when it is full or a second old. Workers append to the same file
//! and never write a part of a line, so lines do not mix. `docs/logging.md` is the user's side.
//!
//! Each process opens the files for itself, as who it is: no worker has what root opened, and none
//! holds a file that has been rotated away for longer than it takes to open the new one.
mod error;
mod file;
mod format;
mod sink;
#[cfg(test)]
mod tests;

/// The options that name logs.
pub(crate) const LOGS: [&str; 2] = ["log.access", "log.error"];

pub use error::{ErrorLog, Level};
pub use file::{Destination, LogFault, LogFile, Owner};
pub(crate) use file::{make, try_opening};
pub use format::Format;
pub use sink::{
    AccessLog, AccessLogOptions, BUFFER_AGE_MS_MAX, BUFFER_BYTES_MAX, FAULT_MS_MIN, LogSink,
};
