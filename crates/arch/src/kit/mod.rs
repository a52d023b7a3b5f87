//! Parts that several architectures use.
pub mod accept;
pub mod budget;
pub mod chain;
#[cfg(test)]
pub(crate) mod dice;
pub mod disk;
pub mod event_loop;
#[cfg(test)]
mod every_cache;
pub mod helper_processes;
pub mod helper_threads;
pub mod helpers;
pub mod idle;
pub mod shared_cache;
pub mod slab;
pub mod thread_cache;
pub mod waiters;
pub mod wheel;
pub mod worker;
