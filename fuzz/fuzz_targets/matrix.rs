//! `cargo fuzz run matrix`: see `regatta_fuzz::matrix`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::matrix(bytes));
