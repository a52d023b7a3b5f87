//! `cargo fuzz run certificate_pem`: see `regatta_fuzz::certificate_pem`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::certificate_pem(bytes));
