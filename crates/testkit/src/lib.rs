//! Helpers of tests that need more than their own crate: both programs, and rules that both
//! command lines keep.
#![forbid(unsafe_code)]

pub mod commands;
pub mod programs;
