//! Black-box conformance: HTTP over loopback against the real binary, for every architecture.
//!
//! The cases do not depend on the server's construction. A case states a rule of RFC 9110, 9111,
//! 9112 or the product, sends explicit bytes over TCP or TLS, and reads the answer with a strict
//! reader. Every case of `matrix.rs` runs for every variant (an architecture with settings) of
//! `variants.rs`.
//!
//! | tests | in |
//! |---|---|
//! | `matrix::VARIANT::TOPIC::CASE` | `matrix.rs`: cases and the variants that have them |
//! | `chaos::…` | `chaos.rs`: the same cases under faults; `faults.rs`: single faults |
//! | `tls::…` | `over_tls.rs`: the same cases over TLS; `tls.rs`: TLS itself |
//! | `http2::…`, `tls::http2::…` | `http2`: HTTP/2 in the clear and over TLS |
//! | `master::…` | `master`: what the program prints, how it ends, what it leaves behind |
//! | `TOPIC::TEST` | `matrix.rs`: tests that no variant has |
//!
//! `REGATTA_BIN=/path/to/regatta` runs the suite against another build of the program.
#![deny(dead_code, reason = "a test that is in no table does not run")]

mod access_log;
mod adapt;
mod bodies;
mod changes;
mod chaos;
mod cli;
mod client;
mod clients;
mod closing;
mod cohort;
mod coloured;
mod conditionals;
mod config;
mod content;
mod counters;
mod deploys;
mod disk;
mod equality;
mod faults;
mod fibers;
mod fields;
mod film;
mod flash;
use regatta_testkit::folder;
mod framing;
mod from_nginx;
mod harness;
mod hosts;
mod http2;
mod identity;
mod inspect;
mod life;
mod limits;
mod load;
mod master;
mod matrix;
mod means;
mod methods;
mod mistakes;
mod n_copy;
mod negotiation;
mod over_tls;
mod paths;
mod persistence;
mod pipelining;
mod pool;
mod prelude;
mod processes;
mod protection;
mod ranges;
mod reload;
mod runner;
mod seda;
mod shared;
mod signals;
mod site;
mod slow_disk;
mod slow_heads;
mod slow_readers;
mod strategies;
mod structure;
mod symped;
mod targets;
mod threads;
mod tls;
mod variants;
mod varied;
mod watpipe;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut trials = matrix::trials();
    trials.extend(chaos::trials());
    trials.extend(over_tls::trials());
    trials.extend(http2::trials());
    runner::run(trials)
}
