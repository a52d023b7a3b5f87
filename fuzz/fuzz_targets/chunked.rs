//! `cargo fuzz run chunked`: see `regatta_fuzz::chunked`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::chunked(bytes));
