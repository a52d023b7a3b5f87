//! The lab: it makes an environment, starts servers and loads in it, reads what they counted,
//! and judges what it read. It treats every server as a program with a command line.
#![forbid(unsafe_code)]

pub mod analysis;
mod asked;
pub mod best;
pub mod calls;
pub mod claims;
pub mod cli;
mod compare;
pub mod env;
pub mod group;
mod guard;
pub mod journal;
mod kept;
pub mod knee;
mod knees;
pub mod library;
pub mod manifest;
pub mod model;
pub mod papers;
pub mod plan;
mod process;
mod processors;
pub mod profile;
pub mod programs;
pub mod record;
pub mod report;
mod rooms;
pub mod run;
mod sample;
mod servers;
mod settle;
pub mod spec;
pub mod stats;
mod trial;
mod watch;
