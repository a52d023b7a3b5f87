//! Configuration: what was said ([`raw`]), what it means ([`check`]), what the machine allows
//! ([`allowance`], [`demand`]), and the one table of options ([`options`]).
pub mod allowance;
pub mod check;
mod demand;
pub mod options;
pub mod raw;
