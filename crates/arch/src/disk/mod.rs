//! Disk operations: at once, by helpers, asynchronously.
pub mod aio;
pub mod at_once;
pub mod helper_processes;
pub mod helper_threads;
pub mod helpers;
pub mod mounts;
pub mod probed;
pub mod ring_disk;
mod silence;
pub mod waiters;
