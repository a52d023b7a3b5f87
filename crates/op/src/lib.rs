//! The seam between the origin and the drivers that perform its I/O: operations and outcomes.
//!
//! The origin never performs I/O and never waits. It hands out [`Op`] values and receives their
//! outcomes as [`Done`] values. An architecture decides *which* thread or process executes
//! operations, *where*, and *how* it waits. `docs/seam.md` has the rules.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod file;
mod op;
mod outbox;
mod time;

pub use file::{File, FileId, Modified};
pub use op::{
    Abandoned, CloseReason, Coding, Codings, DISK_OPS_MAX, Done, Fault, Op, OpKind, OpenFault,
    OpenReq, Opened, ReadReq, Ticket,
};
pub use outbox::{Outbox, Segment};
pub use time::{Now, Tick};
