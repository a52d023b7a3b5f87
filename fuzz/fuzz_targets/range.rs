//! `cargo fuzz run range`: see `regatta_fuzz::range`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::range(bytes));
