//! Numbers, dates, files and templates, as people and files have them.

use crate::stats::count;
use indicatif::HumanFloatCount;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Error};
use regatta_http::date::civil_from_days;
use serde::Serialize;
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

/// Milliseconds since 1970 as `2026-08-21 14:05 UTC`.
pub(crate) fn date(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1_000).unwrap_or(i64::MAX);
    let (year, month, day) = civil_from_days(seconds / 86_400);
    let (hour, minute) = (seconds % 86_400 / 3_600, seconds % 3_600 / 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// Fills a template with values. If its name ends in `.html` they are text, not HTML. In others a
/// line of nothing but a tag leaves nothing, and the filters `cell`, `toml` and `xml` make a text
/// fit into a table, TOML or XML. `fixed` is a number with the given decimals.
pub(crate) fn filled(name: &str, text: &str, values: &impl Serialize) -> Result<String, String> {
    let fill = || -> Result<String, Error> {
        let mut environment = Environment::new();
        if !name.ends_with(".html") {
            let mut syntax = SyntaxConfig::builder();
            environment.set_syntax(syntax.trim_blocks(true).keep_trailing_newline(true).build()?);
        }
        environment.add_filter("cell", |text: String| escaped(&text));
        environment.add_filter("toml", |text: String| quoted(&text));
        environment.add_filter("xml", |text: String| xml(&text));
        environment.add_filter("fixed", |of: f64, digits: usize| format!("{of:.digits$}"));
        environment.render_named_str(name, text, Serde(values))
    };
    fill().map_err(|error| error.to_string())
}

/// Text that does not end its cell.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").trim().to_owned()
}

pub(crate) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn xml(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::{date, minutes};

    #[test]
    fn times_are_said_in_what_suits_them() {
        assert_eq!([45.0, 600.0, 10_800.0].map(minutes), ["45 s", "10 min", "3 h"]);
    }

    #[test]
    fn dates() {
        for (ms, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400_000, "2000-02-29 00:00 UTC"),
            (1_795_306_796_961, "2026-11-22 00:19 UTC"),
        ] {
            assert_eq!(date(ms), text);
        }
    }
}
