//! Configuration: what was said ([`raw`]), what it means ([`check`]), what the machine allows
//! ([`allowance`]), and the one table of options ([`options`]).
pub mod allowance;
pub mod check;
pub mod options;
pub mod raw;
