//! Loops and pools that run connections: events, user threads, stages, dispatched threads.
pub mod dispatch;
pub mod event_loop;
pub mod fibers;
pub mod line;
pub mod peers;
pub mod queue;
// Not declared in `queue.rs`, which the model includes alone.
#[cfg(test)]
#[path = "queue/schedule.rs"]
mod queue_schedule;
pub mod tasks;
