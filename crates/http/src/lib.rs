//! HTTP wire formats: bytes to heads and frames, both directions.
//!
//! Nothing here performs I/O, or panics on bytes from a peer. Parsing allocates only for several
//! byte ranges, heads with many field lines, later minor versions of HTTP/1, and the table and the
//! scratch of HTTP/2. Framing is strict: what two recipients could read in two ways is refused (RFC
//! 9112 §11.2).
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod chunked;
pub mod conditional;
pub mod date;
pub mod etag;
pub mod field;
pub mod forwarded;
pub mod h1;
pub mod h2;
pub mod method;
pub mod negotiate;
pub mod pattern;
pub mod prefix;
pub mod priority;
pub mod proxy;
pub mod range;
pub mod status;
pub mod target;

pub use field::{Field, FieldLines, Fields};
pub use method::Method;
pub use status::Status;
