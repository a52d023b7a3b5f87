//! `cargo fuzz run target`: see `regatta_fuzz::target`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::target(bytes));
