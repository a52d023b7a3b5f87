//! `cargo fuzz run groups`: see `regatta_fuzz::groups`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::groups(bytes));
