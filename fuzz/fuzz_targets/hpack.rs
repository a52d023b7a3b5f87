//! `cargo fuzz run hpack`: see `regatta_fuzz::hpack`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::hpack(bytes));
