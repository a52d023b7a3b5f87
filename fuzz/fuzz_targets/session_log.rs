//! `cargo fuzz run session_log`: see `regatta_fuzz::session_log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::session_log(bytes));
