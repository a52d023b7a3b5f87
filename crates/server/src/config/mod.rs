//! Configuration: reading it ([`raw`]), its interpretation ([`check`]), the limits of the machine
//! ([`allowance`], [`demand`]), and the table of options ([`options`]).
pub mod address;
pub mod allowance;
pub mod check;
mod demand;
pub mod environment;
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
