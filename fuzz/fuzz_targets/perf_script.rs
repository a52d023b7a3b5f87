//! `cargo fuzz run perf_script`: see `regatta_fuzz::perf_script`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::perf_script(bytes));
