//! `cargo fuzz run link_h2`: see `regatta_fuzz::link_h2`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::link_h2(bytes));
