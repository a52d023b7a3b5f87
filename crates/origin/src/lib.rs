//! One connection of a static origin server, without I/O.
//!
//! [`Conn`] hands out [`regatta_op::Op`] values and is told their outcome; it decides everything
//! that HTTP has a say in, and performs nothing. Time enters as an argument and randomness as a
//! seed, so the same input gives the same output.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod answer;
mod cache;
mod conn;
mod content;
mod course;
mod entry;
mod exchange;
mod explain;
mod heads;
mod inbox;
mod local_cache;
mod pack;
mod plan;
mod range;
mod record;
mod refusal;
mod reply;
mod request;
mod resolve;
mod scratch;
mod sieve;
mod site;
mod validator;
mod work;

pub use cache::{Cache, Entry, Lookup};
pub use conn::{Conn, Cx};
pub use entry::{Body, Coded, Representation};
pub use exchange::{Exchange, FileReply, Reply, Step, Supply};
pub use explain::{Decision, Explanation, explain};
pub use local_cache::{
    LocalCache, RELIEF_ENTRIES, STALE_PERIODS_MAX, SWEEP_ENTRIES, SWEEP_PAUSE_MS, SWEEP_REMOVALS,
};
pub use pack::{CODINGS, packed_alike};
pub use record::{FileFault, Log, NoLog, Outcome, Peer, Record, Wanted};
pub use refusal::Refusal;
pub use request::{Destination, Request};
pub use scratch::Scratch;
pub use sieve::{Link, Queue, Rank, Totals};
pub use site::{
    CachingRules, CommonTypes, ContentRules, Deadlines, Limits, MediaTypes, READ_BYTES_MAX, Site,
};
