//! Helpers of tests that need more than their own crate: both programs, executable files,
//! directories, certificates, clients of TLS and of HTTP/2, counters, waits, checks of pages,
//! reports of omissions, and rules that both command lines keep.
#![forbid(unsafe_code)]

pub mod certificates;
pub mod commands;
pub mod counters;
pub mod executables;
pub mod folder;
pub mod http2;
pub mod pages;
pub mod programs;
pub mod skips;
pub mod tls;
pub mod waits;
