//! The load generator's half of the laboratory: file sets, session logs and what they predict.
//!
//! Nothing here knows the server: the ruler is not made of the thing measured.
#![forbid(unsafe_code)]

pub mod bare;
mod defaults;
pub mod engine;
#[cfg(test)]
use regatta_testkit::folder;
mod named;
mod number;
pub mod workload;

pub use defaults::with_defaults;
