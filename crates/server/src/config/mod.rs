//! Configuration: what was said ([`raw`]), what it means ([`check`]), and the one table of options
//! ([`options`]).
pub mod check;
pub mod options;
pub mod raw;
