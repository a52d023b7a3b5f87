//! Black-box conformance: HTTP over loopback against the real binary, for every architecture.
//!
//! The cases do not depend on the server's construction. A case states a rule of RFC 9110, 9111,
//! 9112 or the product, sends explicit bytes over TCP, and reads the answer with a strict reader.
//! Every case of `matrix.rs` runs for every variant (an architecture with settings) of
//! `variants.rs`.
//!
//! `REGATTA_BIN=/path/to/regatta` runs the suite against another build of the program.

#[macro_use]
mod topics;

mod access_log;
mod adapt;
mod bodies;
mod changes;
mod cli;
mod client;
mod clients;
mod closing;
mod cohort;
mod conditionals;
mod config;
mod content;
mod counters;
mod deploys;
mod disk;
mod equality;
mod fibers;
mod fields;
mod flash;
mod framing;
mod harness;
mod hosts;
mod inspect;
mod life;
mod limits;
mod load;
mod matrix;
mod means;
mod methods;
mod mistakes;
mod n_copy;
mod negotiation;
mod paths;
mod persistence;
mod pipelining;
mod pool;
mod processes;
mod protection;
mod ranges;
mod reload;
mod seda;
mod shared;
mod signals;
mod site;
#[path = "../../../../xtask/skips.rs"]
mod skips;
mod slow_disk;
mod slow_heads;
mod slow_readers;
mod strategies;
mod structure;
mod symped;
mod targets;
mod threads;
mod variants;
mod watpipe;
