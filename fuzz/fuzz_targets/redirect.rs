//! `cargo fuzz run redirect`: see `regatta_fuzz::redirect`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::redirect(bytes));
