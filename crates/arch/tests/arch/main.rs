//! Parts of architectures over real sockets and files, and controllers in virtual time.
//!
//! One program, because linking takes longer than most of these tests. Time and faults that a test
//! injects are those of its thread, and so are the allocations that it counts. Nothing here forks.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod classes;
mod control;
mod env;
mod event_loop;
mod line;
mod rig;
mod sealed;
mod threads;
mod uring;
mod worker;

use regatta_sys::alloc_count::Counting;

#[global_allocator]
static COUNTING: Counting = Counting;
