//! `cargo fuzz run conditionals`: see `regatta_fuzz::conditionals`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::conditionals(bytes));
