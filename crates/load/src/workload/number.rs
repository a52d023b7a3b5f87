//! The few conversions between counts and reals that the models need, each with its range.

/// A non-negative real as a whole number, rounded to the nearest; negatives and NaN become 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates at both ends, which is what a rounded count wants"
)]
pub(crate) fn rounded(value: f64) -> u64 {
    value.round() as u64
}

/// A count that indexes memory. 64-bit targets only, where it cannot fail.
pub(crate) fn index(value: u64) -> usize {
    usize::try_from(value).expect("Regatta runs on 64-bit Linux, where usize holds any u64")
}

/// A length in memory as an id; callers bound their tables well below 2^32.
pub(crate) fn id(value: usize) -> u32 {
    u32::try_from(value).expect("tables of ids are bounded below 2^32 entries")
}

/// `part / whole` as a share, or 0 when there is nothing to share.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
