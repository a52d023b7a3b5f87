//! Workloads: the commands that make and read them, and damaged input.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod commands;
mod damage;
