//! `cargo fuzz run proxy`: see `regatta_fuzz::proxy`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::proxy(bytes));
