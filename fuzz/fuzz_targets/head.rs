//! `cargo fuzz run head`: see `regatta_fuzz::head`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::head(bytes));
