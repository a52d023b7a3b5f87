//! The lab: it makes an environment, starts servers and loads in it, reads what they counted,
//! and judges what it read. It treats every server as a program with a command line.
//!
//! * What is asked: [`spec`] reads an experiment, [`library`] holds ours, [`plan`] orders its
//!   trials, `possible` says what the machine lacks for it.
//! * A run: [`run`] makes what is missing, `knees` searches, [`best`] races; [`journal`],
//!   [`record`], [`rules`] and [`manifest`] keep it.
//! * A trial: `trial` takes a room (`rooms`, [`env`]), a server (`servers`, [`programs`]) and a
//!   load (`offer`, `asked`), hears what they say (`watch`, `used`, `sample`, `processors`,
//!   `kept`, `drops`, `deaths`, `stalls`, [`calls`], [`cores`]) and decides whether it counts
//!   (`guard`, `settle`).
//! * Beside it, [`profile`]: where the time goes.
//! * What it says: [`stats`], [`analysis`], [`mod@knee`], [`claims`], [`papers`], [`model`].
//! * Who reads it: [`cli`], [`report`], `compare`, and `working` for those who wait for it.
#![forbid(unsafe_code)]

pub mod analysis;
mod asked;
pub mod best;
pub mod calls;
pub mod claims;
pub mod cli;
mod compare;
pub mod cores;
mod date;
mod deaths;
mod drops;
pub mod env;
pub mod group;
mod guard;
pub mod journal;
mod kept;
pub mod knee;
mod knees;
pub mod library;
pub mod manifest;
mod memory;
pub mod model;
mod offer;
pub mod papers;
pub mod plan;
mod possible;
mod process;
mod processors;
pub mod profile;
pub mod programs;
pub mod record;
pub mod report;
mod rooms;
pub mod rules;
pub mod run;
mod sample;
mod servers;
mod settle;
#[cfg(test)]
#[path = "../../../xtask/skips.rs"]
mod skips;
pub mod spec;
mod stalls;
pub mod stats;
mod trial;
mod used;
mod watch;
mod working;
