//! The server program: configuration, master, logs, explain, top.
#![forbid(unsafe_code)]

pub mod config;
pub mod log;
mod media;
mod site;
pub mod supervise;
