//! `cargo fuzz run seal_open`: see `regatta_fuzz::seal_open`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::seal_open(bytes));
