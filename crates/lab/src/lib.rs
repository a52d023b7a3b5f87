//! The lab: it makes an environment, starts servers and loads in it, reads what they counted,
//! and judges what it read. It treats every server as a program with a command line.
#![forbid(unsafe_code)]

pub mod env;
pub mod knee;
pub mod stats;
