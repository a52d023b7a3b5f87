//! `cargo fuzz run wire`: see `regatta_fuzz::wire`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::wire(bytes));
