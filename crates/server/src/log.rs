//! The access log and the error log: lines in buffers, written whole.
//!
//! Each worker has a [`LogSink`], which collects the lines of finished exchanges in a buffer. It
//! writes the buffer with one call when it is full or a second old. Workers append to the same file
//! and never write a part of a line, so lines do not mix. `docs/logging.md` is the user's side.
//!
//! Each process opens the files with its own rights: no worker has a descriptor that root opened.
//! None keeps a rotated file for longer than the reopening takes.
mod error;
mod file;
mod format;
mod sink;
mod skip;
#[cfg(test)]
mod tests;

/// The options that name logs.
pub(crate) const LOGS: [&str; 2] = ["log.access", "log.error"];

/// Option with the paths that are not logged.
pub(crate) const SKIP_KEY: &str = "log.skip";

pub use error::ErrorLog;
pub use file::{LogDestination, LogFault, LogFile, Owner};
pub(crate) use file::{make, try_opening};
pub use format::Format;
pub(crate) use format::rfc3339_stamp;
pub use sink::{
    AccessLog, AccessLogOptions, BUFFER_AGE_MS_MAX, BUFFER_BYTES_MAX, FAULT_MS_MIN, LogSink,
};
pub use skip::SkippedPaths;
