//! Configuration: what was said ([`raw`]), what it means ([`check`]), what the machine allows
//! ([`allowance`], [`demand`]), and the one table of options ([`options`]).
pub mod address;
pub mod allowance;
pub mod check;
mod demand;
pub(crate) mod error_pages;
pub mod hosts;
mod nested;
pub mod options;
pub mod raw;
pub mod release;
pub(crate) mod rules;
pub mod rules_files;
pub mod tables;
mod unsent;
mod unused;
