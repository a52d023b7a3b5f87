//! Untrusted inputs, and properties that must hold for them: one function for each fuzz target.
//!
//! Each function takes any bytes and panics if something does not hold. `cargo fuzz` runs them
//! under libFuzzer and a sanitizer, which needs a nightly compiler; `smoke` runs the committed
//! corpora and mutations of them with any compiler.
//!
//! libFuzzer without a sanitizer works with any compiler, too, and finds the faults that safe code
//! can have. In `fuzz/`:
//!
//! ```sh
//! c=-Cllvm-args=-sanitizer-coverage
//! RUSTFLAGS="-Cpasses=sancov-module $c-level=4 $c-inline-8bit-counters $c-pc-table \
//!     $c-trace-compares" cargo build --release --features libfuzzer --bin head \
//!     --target x86_64-unknown-linux-gnu
//! ../target/x86_64-unknown-linux-gnu/release/head -max_total_time=60 /tmp/found corpus/head
//! ```
#![forbid(unsafe_code)]

mod credentials;
mod fields;
mod h2;
mod heads;
mod lab;
mod logs;
mod paths;
mod programs;
mod tls;

pub use credentials::{certificate_pem, ticket_open};
pub use fields::{conditionals, negotiate, range};
pub use h2::{h2_frames, hpack};
pub use heads::{chunked, head, proxy, response};
pub use lab::{experiment, perf_script, run_directory};
pub use logs::{access_log, session_log};
pub use paths::{redirect, target};
pub use programs::{config, conn, groups, link_h2, site_rules, wire};
pub use tls::seal_open;

/// A fuzz target: its name, and its function of an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, by name.
pub const TARGETS: [Target; 25] = [
    ("access_log", access_log),
    ("certificate_pem", certificate_pem),
    ("chunked", chunked),
    ("conditionals", conditionals),
    ("config", config),
    ("conn", conn),
    ("experiment", experiment),
    ("groups", groups),
    ("h2_frames", h2_frames),
    ("head", head),
    ("hpack", hpack),
    ("link_h2", link_h2),
    ("negotiate", negotiate),
    ("perf_script", perf_script),
    ("proxy", proxy),
    ("range", range),
    ("redirect", redirect),
    ("response", response),
    ("run_directory", run_directory),
    ("seal_open", seal_open),
    ("session_log", session_log),
    ("site_rules", site_rules),
    ("target", target),
    ("ticket_open", ticket_open),
    ("wire", wire),
];
