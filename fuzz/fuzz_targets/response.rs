//! `cargo fuzz run response`: see `regatta_fuzz::response`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::response(bytes));
