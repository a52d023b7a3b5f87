//! Conversions between times, counts and reals, each with its range.

use std::time::Duration;

pub(crate) const NS_PER_S: u64 = 1_000_000_000;

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / NS_PER_S as f64
}

/// A length of time as nanoseconds; more than 584 years are as good as for ever.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Seconds as nanoseconds; negatives and NaN become 0, too many become for ever.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates at both ends, which is what a time wants"
)]
pub(crate) fn nanos_of(seconds: f64) -> u64 {
    (seconds * NS_PER_S as f64) as u64
}

/// A length in memory as an id; tables of ids are bounded far below 2^32.
pub(crate) fn id(value: usize) -> u32 {
    u32::try_from(value).expect("tables of ids are bounded below 2^32 entries")
}

/// A count as a place in memory.
pub(crate) fn index(value: u64) -> usize {
    usize::try_from(value).expect("Regatta runs on 64-bit Linux, where usize holds any u64")
}

/// `part / whole`, or 0 when there is nothing to share.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A non-negative real as a whole number, rounded to the nearest; negatives and NaN become 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates at both ends, which is what a rounded count wants"
)]
pub(crate) fn rounded(value: f64) -> u64 {
    value.round() as u64
}
