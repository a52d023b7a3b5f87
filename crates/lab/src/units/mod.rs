//! Numbers and times as people and files have them.

pub(crate) mod date;
pub(crate) mod files;
pub(crate) mod template;

use crate::stats::count;
use indicatif::HumanFloatCount;

/// A count as a real.
pub(crate) fn real(value: u64) -> f64 {
    usize::try_from(value).map_or(f64::MAX, count)
}

/// A number of things as JSON has it.
pub(crate) fn whole(things: usize) -> u64 {
    u64::try_from(things).unwrap_or(u64::MAX)
}

/// A number with three or four digits that mean something.
pub(crate) fn show(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        _ if !value.is_finite() => "–".to_owned(),
        // `12345.6` is `12,346`.
        size if size >= 1_000.0 => format!("{:.0}", HumanFloatCount(value)),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A time as people say it.
pub(crate) fn minutes(seconds: f64) -> String {
    match seconds {
        few if few < 90.0 => format!("{few:.0} s"),
        more if more < 7_200.0 => format!("{:.0} min", more / 60.0),
        many => format!("{:.0} h", many / 3_600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::minutes;

    #[test]
    fn times_are_said_in_what_suits_them() {
        assert_eq!([45.0, 600.0, 10_800.0].map(minutes), ["45 s", "10 min", "3 h"]);
    }
}
