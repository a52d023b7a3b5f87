//! `cargo fuzz run conn`: see `regatta_fuzz::conn`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::conn(bytes));
