//! `cargo fuzz run h2_frames`: see `regatta_fuzz::h2_frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| regatta_fuzz::h2_frames(bytes));
