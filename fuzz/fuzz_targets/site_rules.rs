//! `cargo fuzz run site_rules`: see `regatta_fuzz::site_rules`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::site_rules(bytes));
