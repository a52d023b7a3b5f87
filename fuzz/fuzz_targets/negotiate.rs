//! `cargo fuzz run negotiate`: see `regatta_fuzz::negotiate`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::negotiate(bytes));
