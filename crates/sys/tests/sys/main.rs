//! Sockets, files and pollers of this machine.
//!
//! Two tests change the whole process, as our programs do when they start: one raises the limit of
//! descriptors, one ignores the signals of failed writes. No test depends on the opposite.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod listen;
mod open;
mod peer;
mod ring;
mod wait;
