//! `cargo fuzz run ticket_open`: see `regatta_fuzz::ticket_open`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::ticket_open(bytes));
