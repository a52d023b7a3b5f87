//! The load generator's half of the laboratory: file sets, session logs and what they predict.
//!
//! Nothing here knows the server: the ruler is not made of the thing measured.
#![forbid(unsafe_code)]

pub mod engine;
mod number;
pub mod workload;
