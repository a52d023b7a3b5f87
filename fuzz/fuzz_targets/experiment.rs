//! `cargo fuzz run experiment`: see `regatta_fuzz::experiment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::experiment(bytes));
