//! Numbers, dates, files and templates, as people and files have them.

use crate::stats::count;
use indicatif::HumanFloatCount;
pub(crate) use regatta_load::page::{date, escaped, filled, quoted};
use std::fmt::Display;
use std::fs::{self, FileType};
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

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

pub(crate) fn minutes(seconds: f64) -> String {
    match seconds {
        few if few < 90.0 => format!("{few:.0} s"),
        more if more < 7_200.0 => format!("{:.0} min", more / 60.0),
        many => format!("{:.0} h", many / 3_600.0),
    }
}

/// Says which file an error is of.
pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Result<T, String>;
}

impl<T, E: Display> At<T> for Result<T, E> {
    fn at(self, path: &Path) -> Result<T, String> {
        self.map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Visits everything below a directory. Links are not followed, and directories for which `each`
/// returns false are not entered.
pub(crate) fn walk(
    root: &Path,
    mut each: impl FnMut(&Path, FileType) -> io::Result<bool>,
) -> Result<(), String> {
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).at(&folder)? {
            let entry = entry.at(&folder)?;
            let (path, kind) = (entry.path(), entry.file_type().at(&folder)?);
            if each(&path, kind).at(&path)? && kind.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(())
}

pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::minutes;

    #[test]
    fn times_are_said_in_what_suits_them() {
        assert_eq!([45.0, 600.0, 10_800.0].map(minutes), ["45 s", "10 min", "3 h"]);
    }
}
