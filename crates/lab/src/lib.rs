//! The lab: it makes an environment, starts servers and loads in it, reads what they counted,
//! and judges what it read. It treats every server as a program with a command line.
//!
//! Its floors, from the top; a module uses those below it, and of its own floor those to its right
//! (`cargo xtask tidy` checks it):
//!
//! * What the user asks for: [`cli`], [`best`], [`film`], `terminal`, [`verdicts`], [`report`].
//! * What the data say: [`prices`], [`claims`], [`papers`], [`analysis`], [`race`].
//! * Doing it: [`run`], [`profile`], `trial`, [`machines`], [`journal`].
//! * What is to be done, and with what: [`watch`], `servers`, [`experiment`], [`programs`],
//!   [`env`], [`group`].
//! * No knowledge of any of it: [`record`], `units`.
//!
//! Statistics are a crate of their own ([`stats`]), which tests compile with optimisation.
#![forbid(unsafe_code)]
#![expect(missing_docs, reason = "fields and functions whose names say it all have none")]

pub mod analysis;
pub mod best;
pub mod claims;
pub mod cli;
pub mod env;
pub mod experiment;
pub mod film;
#[cfg(test)]
use regatta_testkit::folder;
pub mod group;
pub mod journal;
pub mod machines;
pub mod papers;
pub mod prices;
pub mod profile;
pub mod programs;
pub mod race;
pub mod record;
pub mod report;
pub mod run;
mod servers;
mod terminal;
mod trial;
mod units;
pub mod verdicts;
pub mod watch;

pub use regatta_stats::{self as stats, knee};
pub use servers::free_address;
pub use terminal::Working;
