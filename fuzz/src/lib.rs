//! What strangers send, and what must hold of it: one function for each fuzz target.
//!
//! Each function takes any bytes and panics if something does not hold. `cargo fuzz` runs them
//! under libFuzzer, which needs a nightly compiler; `smoke` runs the committed corpora and
//! mutations of them with any compiler.
#![forbid(unsafe_code)]

mod fields;
mod heads;
mod paths;
mod programs;

pub use fields::{conditionals, negotiate, range};
pub use heads::{chunked, head, response};
pub use paths::target;
pub use programs::{config, conn, wire};

/// A fuzz target: its name, and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, by name.
pub const TARGETS: [Target; 10] = [
    ("chunked", chunked),
    ("conditionals", conditionals),
    ("config", config),
    ("conn", conn),
    ("head", head),
    ("negotiate", negotiate),
    ("range", range),
    ("response", response),
    ("target", target),
    ("wire", wire),
];
