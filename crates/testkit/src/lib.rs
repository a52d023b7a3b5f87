//! Helpers of tests that need more than their own crate: both programs, executable files,
//! and rules that both command lines keep.
#![forbid(unsafe_code)]

pub mod commands;
pub mod executables;
pub mod programs;
