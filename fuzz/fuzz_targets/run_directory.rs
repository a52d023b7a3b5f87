//! `cargo fuzz run run_directory`: see `regatta_fuzz::run_directory`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::run_directory(bytes));
