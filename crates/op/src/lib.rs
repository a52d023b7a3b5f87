//! The seam between the origin and whatever performs its I/O: operations, their outcomes, and bytes
//! on their way out.
//!
//! The origin never performs I/O and never waits. It hands out [`Op`] values and is told their
//! outcome as [`Done`] values. An architecture is a policy for *who* executes operations, *where*,
//! and *how* they wait. `docs/seam.md` has the rules.
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
