//! `cargo fuzz run access_log`: see `regatta_fuzz::access_log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::access_log(bytes));
