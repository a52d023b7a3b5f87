//! `cargo fuzz run config`: see `regatta_fuzz::config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::config(bytes));
