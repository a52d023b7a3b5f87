//! Waits for what other threads and processes do.

use std::thread;
use std::time::{Duration, Instant};

/// Waits until something holds, at most 30 s.
///
/// # Panics
/// It does not hold by then.
#[track_caller]
pub fn eventually(holds: impl FnMut() -> bool) {
    until(Duration::from_secs(30), "never became so", holds);
}

/// Waits until something holds, at most this long; `what` is the message if it does not.
///
/// # Panics
/// It does not hold by then.
#[track_caller]
pub fn until(most: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < most, "{what}: not within {most:?}");
        thread::sleep(Duration::from_millis(1));
    }
}
