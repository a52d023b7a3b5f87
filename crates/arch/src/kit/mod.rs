//! Parts that several architectures use, and the ways to run connections: by readiness (`step`,
//! `event_loop`), by a thread for each (`serve`) and by a user thread for each (`fibers`).
pub mod accept;
pub mod aio;
pub mod beats;
pub mod budget;
pub mod chain;
pub mod clients;
pub mod control;
#[cfg(test)]
pub(crate) mod dice;
pub mod disk;
pub mod dispatch;
pub mod event_loop;
#[cfg(test)]
mod every_cache;
pub mod fibers;
#[cfg(test)]
pub(crate) use regatta_testkit::folder;
pub mod helper_processes;
pub mod helper_threads;
pub mod helpers;
pub mod idle;
pub mod line;
pub mod maps;
pub mod queue;
// Not declared in `queue.rs`, which the model includes alone.
#[cfg(test)]
#[path = "queue/schedule.rs"]
mod queue_schedule;
pub mod serve;
pub mod shared_cache;
pub mod slab;
pub mod step;
pub(crate) mod sync;
pub mod tasks;
pub mod thread_cache;
pub mod units;
pub mod waiters;
pub mod wheel;
pub mod worker;
