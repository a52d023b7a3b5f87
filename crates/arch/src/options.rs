//! Options as data: names, values, defaults and documentation.
//!
//! The server and every architecture describe their options with [`OptionSpec`]. One reader turns
//! text into [`Settings`], in which every known option has a value.
mod settings;

pub use settings::{Choice, Max, Settings};
pub(crate) use settings::{Taken, choice, options};

use std::fmt;

/// Texts longer than this are not compared: the work is quadratic, and text may come from a peer
/// of the parser such as a fuzzer.
const NEAREST_CHARS_MAX: usize = 64;

/// Option: its name, its values, and its purpose.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// The full name, section first: `limits.idle_ms_max`, `event.poller`.
    pub key: &'static str,
    /// Values that the option takes.
    pub kind: Kind,
    /// The default, written as on the command line after `key=`.
    pub default: &'static str,
    /// Effect of the option, one sentence.
    pub doc: &'static str,
    /// Further explanation: special values, costs, sources. May be empty.
    pub long: &'static str,
}

/// Options that list addresses to listen on.
const LISTEN_KEYS: [&str; 3] = ["server.listen", "tls.listen", "tls.client_listen"];

/// Number of listed addresses to listen on, in the clear and encrypted.
#[must_use]
pub fn listed_addresses(settings: &Settings) -> usize {
    let listed = |key: &&str| match settings.get(key) {
        Some(Value::List(items)) => items.len(),
        _ => 0,
    };
    LISTEN_KEYS.iter().map(listed).sum()
}

/// Joins two tables of options, for a driver that has the options of another.
///
/// # Panics
/// While compiling, if `N` is not the sum of their lengths.
#[must_use]
pub const fn joined<const N: usize>(
    first: &'static [OptionSpec],
    second: &'static [OptionSpec],
) -> [OptionSpec; N] {
    assert!(first.len() + second.len() == N, "the sum of both");
    let mut all = [first[0]; N];
    let mut at = 0;
    while at < N {
        all[at] = if at < first.len() { first[at] } else { second[at - first.len()] };
        at += 1;
    }
    all
}

/// Values that an option takes. Bounds are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number without a unit.
    Count {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A size in bytes; text may carry a unit (`64 KiB`).
    Bytes {
        /// The least, bytes.
        min: u64,
        /// The most, bytes.
        max: u64,
    },
    /// A duration in milliseconds; text may carry a unit (`10 s`).
    Millis {
        /// The least, milliseconds.
        min: u64,
        /// The most, milliseconds.
        max: u64,
    },
    /// A duration as of `Millis`, or `never`.
    MillisOrNever {
        /// The least, milliseconds.
        min: u64,
        /// The most that is not never, milliseconds.
        max: u64,
    },
    /// A duration in microseconds; text may carry a unit (`10 ms`).
    Micros {
        /// The least, microseconds.
        min: u64,
        /// The most, microseconds.
        max: u64,
    },
    /// A rate in bytes per second; text may carry a unit (`64 KiB/s`).
    Rate {
        /// The least, bytes per second.
        min: u64,
        /// The most, bytes per second.
        max: u64,
    },
    /// Words to choose from.
    Choice(&'static [&'static str]),
    /// Any text without control characters.
    Text,
    /// A file name; the empty one means none.
    Path,
    /// Texts; on the command line separated by commas.
    List,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Value of [`Kind::Bool`].
    Flag(bool),
    /// Value of a kind with bounds, in the unit of the kind.
    Number(u64),
    /// `never`, of [`Kind::MillisOrNever`]: longer than any duration.
    Never,
    /// Value of [`Kind::Choice`], [`Kind::Text`] or [`Kind::Path`].
    Text(String),
    /// Value of [`Kind::List`].
    List(Vec<String>),
}

/// Reason why a value does not fit an option: one clause that says which value would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueFault(pub String);

impl fmt::Display for ValueFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ValueFault {}

/// Units by name, each as a number of base units.
type Units = &'static [(&'static str, u64)];

const BYTE_UNITS: Units = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];
const MICRO_UNITS: Units = &[
    ("µs", 1),
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("min", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];
const MILLI_UNITS: Units =
    &[("ms", 1), ("s", 1_000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// The most digits after the point.
const FRACTION_DIGITS_MAX: usize = 9;

impl Kind {
    /// Reads a value as written on the command line.
    ///
    /// # Errors
    /// The text is not a value of this kind; the fault says which text is.
    pub fn parse(&self, text: &str) -> Result<Value, ValueFault> {
        let text = text.trim();
        match *self {
            Self::Bool => match text {
                "true" => Ok(Value::Flag(true)),
                "false" => Ok(Value::Flag(false)),
                _ => Err(self.fault(&quoted(text))),
            },
            Self::Count { .. } => self.number(text, &[]),
            Self::Bytes { .. } => self.number(text, BYTE_UNITS),
            Self::Rate { .. } => self.number(text.strip_suffix("/s").unwrap_or(text), BYTE_UNITS),
            Self::MillisOrNever { .. } if text == "never" => Ok(Value::Never),
            Self::Millis { .. } | Self::MillisOrNever { .. } => self.number(text, MILLI_UNITS),
            Self::Micros { .. } => self.number(text, MICRO_UNITS),
            Self::Choice(words) => {
                if words.contains(&text) {
                    return Ok(Value::Text(text.to_owned()));
                }
                let hint = nearest(text, words.iter().copied())
                    .map_or_else(String::new, |word| format!(" (did you mean \"{word}\"?)"));
                Err(ValueFault(format!("{}{hint}", self.fault(&quoted(text)))))
            }
            Self::Text | Self::Path => {
                plain(text)?;
                Ok(Value::Text(text.to_owned()))
            }
            Self::List if text.is_empty() => Ok(Value::List(Vec::new())),
            Self::List => self.list(text.split(',').map(|item| item.trim().to_owned()).collect()),
        }
    }

    /// Takes a whole number for a kind of number, in the unit of the kind.
    ///
    /// # Errors
    /// The kind is not a number, or `number` is out of its bounds.
    pub fn take_number(&self, number: u64) -> Result<Value, ValueFault> {
        match self.bounds() {
            Some((min, max)) if (min..=max).contains(&number) => Ok(Value::Number(number)),
            _ => Err(self.fault(&number.to_string())),
        }
    }

    /// Takes a list of texts for [`Kind::List`].
    ///
    /// # Errors
    /// The kind is another one, or an item is empty or has control characters.
    pub fn list(&self, items: Vec<String>) -> Result<Value, ValueFault> {
        if *self != Self::List {
            return Err(self.fault("a list"));
        }
        for item in &items {
            plain(item)?;
            if item.is_empty() {
                return Err(ValueFault("a list must not hold an empty item".to_owned()));
            }
        }
        Ok(Value::List(items))
    }

    /// Whether `value` is one of this kind, within its bounds.
    #[must_use]
    pub fn holds(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Bool, Value::Flag(_)) | (Self::MillisOrNever { .. }, Value::Never) => true,
            (Self::Choice(words), Value::Text(text)) => words.contains(&text.as_str()),
            (Self::Text | Self::Path, Value::Text(text)) => plain(text).is_ok(),
            (Self::List, Value::List(items)) => self.list(items.clone()).is_ok(),
            (_, Value::Number(number)) => self.take_number(*number).is_ok(),
            _ => false,
        }
    }

    /// Describes the values of this kind in words, with bounds.
    #[must_use]
    pub fn describe(&self) -> String {
        match *self {
            Self::Bool => "true or false".to_owned(),
            Self::Count { min, max: u64::MAX } => format!("a whole number of at least {min}"),
            Self::Count { min, max } => format!("a whole number from {min} to {max}"),
            Self::Bytes { min, max } => {
                format!("a size from {} to {}", show_bytes(min), show_bytes(max))
            }
            Self::Millis { min, max } => {
                format!("a duration from {} to {}", show_millis(min), show_millis(max))
            }
            Self::MillisOrNever { min, max } => {
                format!("a duration from {} to {}, or never", show_millis(min), show_millis(max))
            }
            Self::Micros { min, max } => {
                format!("a duration from {} to {}", show_micros(min), show_micros(max))
            }
            Self::Rate { min, max } => {
                format!("a rate from {}/s to {}/s", show_bytes(min), show_bytes(max))
            }
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Text => "a text".to_owned(),
            Self::Path => "a file name, or empty for none".to_owned(),
            Self::List => "a list of texts".to_owned(),
        }
    }

    fn bounds(&self) -> Option<(u64, u64)> {
        match *self {
            Self::Count { min, max }
            | Self::Bytes { min, max }
            | Self::Millis { min, max }
            | Self::MillisOrNever { min, max }
            | Self::Micros { min, max }
            | Self::Rate { min, max } => Some((min, max)),
            Self::Bool | Self::Choice(_) | Self::Text | Self::Path | Self::List => None,
        }
    }

    fn number(&self, text: &str, units: Units) -> Result<Value, ValueFault> {
        let at = text.find(|c: char| !matches!(c, '0'..='9' | '_' | '.')).unwrap_or(text.len());
        let (digits, unit) = text.split_at(at);
        let unit = unit.trim();
        let scale = match units.iter().find(|(name, _)| *name == unit) {
            Some((_, scale)) => *scale,
            None if unit.is_empty() && !digits.contains('.') => 1,
            None => return Err(self.bad_unit(text, unit, units)),
        };
        match scaled(digits, scale) {
            Some(number) => self.take_number(number).map_err(|_| self.fault(text)),
            None => Err(self.fault(&quoted(text))),
        }
    }

    fn bad_unit(&self, text: &str, unit: &str, units: Units) -> ValueFault {
        if units.is_empty() || !text.starts_with(|c: char| c.is_ascii_digit()) {
            return self.fault(&quoted(text));
        }
        let names: Vec<_> = units.iter().map(|(name, _)| *name).collect();
        ValueFault(format!("unknown unit \"{unit}\": write one of {}", names.join(", ")))
    }

    fn fault(&self, got: &str) -> ValueFault {
        ValueFault(format!("expected {}, got {got}", self.describe()))
    }
}

/// Digits with an optional fraction, times `scale`; `None` unless that is a whole `u64`.
fn scaled(digits: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.replace('_', "");
    if digits.ends_with('.') || fraction.len() > FRACTION_DIGITS_MAX {
        return None;
    }
    let mut total = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    if !fraction.is_empty() {
        let parts = fraction.parse::<u64>().ok()?.checked_mul(scale)?;
        let of = 10_u64.pow(u32::try_from(fraction.len()).ok()?);
        if !parts.is_multiple_of(of) {
            return None;
        }
        total = total.checked_add(parts / of)?;
    }
    Some(total)
}

fn plain(text: &str) -> Result<(), ValueFault> {
    if text.chars().any(char::is_control) {
        return Err(ValueFault("control characters are not allowed".to_owned()));
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.escape_debug())
}

/// A number of bytes with the largest unit that divides it: `64 KiB`.
#[must_use]
pub fn show_bytes(bytes: u64) -> String {
    let unit = BYTE_UNITS[..5].iter().rev().find(|(_, n)| bytes >= *n && bytes.is_multiple_of(*n));
    let (name, scale) = unit.unwrap_or(&BYTE_UNITS[0]);
    format!("{} {name}", bytes / scale)
}

/// Milliseconds with the largest unit that divides them: `10 s`.
#[must_use]
pub fn show_millis(ms: u64) -> String {
    show_in(MILLI_UNITS, ms)
}

/// Microseconds with the largest unit that divides them: `3 ms`.
fn show_micros(us: u64) -> String {
    show_in(&MICRO_UNITS[1..], us)
}

/// A number of the first unit, with the largest unit that divides it.
fn show_in(units: Units, number: u64) -> String {
    let unit = units.iter().rev().find(|(_, n)| number >= *n && number.is_multiple_of(*n));
    let (name, scale) = unit.unwrap_or(&units[0]);
    format!("{} {name}", number / scale)
}

/// The word nearest to `text`, if it is near enough to be meant.
///
/// Distance is edits (insert, remove, replace, swap neighbours); at most a third of the length,
/// rounded.
pub fn nearest<'a>(text: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, word) =
        words.into_iter().map(|word| (edits(text, word), word)).min_by_key(|(n, _)| *n)?;
    (distance <= (word.chars().count().max(3) + 1) / 3).then_some(word)
}

fn edits(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(NEAREST_CHARS_MAX + 1).collect();
    let b: Vec<char> = b.chars().take(NEAREST_CHARS_MAX + 1).collect();
    if a.len() > NEAREST_CHARS_MAX || b.len() > NEAREST_CHARS_MAX {
        return usize::MAX;
    }
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let mut best = (rows[i][j] + usize::from(from != to)).min(rows[i][j + 1] + 1);
            best = best.min(row[j] + 1);
            if i > 0 && j > 0 && *from == b[j - 1] && a[i - 1] == *to {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: Kind = Kind::Bytes { min: 1, max: 1 << 40 };
    const MILLIS: Kind = Kind::Millis { min: 0, max: u64::MAX };

    #[test]
    fn numbers_take_units() {
        for (kind, text, expect) in [
            (BYTES, "65536", 65536),
            (BYTES, "64 KiB", 65536),
            (BYTES, "64KiB", 65536),
            (BYTES, "1.5 MiB", 3 << 19),
            (BYTES, "1_000 B", 1000),
            (BYTES, "2 kB", 2000),
            (MILLIS, "10 s", 10_000),
            (MILLIS, "2 min", 120_000),
            (MILLIS, "1.5 s", 1500),
            (Kind::MillisOrNever { min: 0, max: 5000 }, "2 s", 2000),
            (Kind::Micros { min: 0, max: u64::MAX }, "10 ms", 10_000),
            (Kind::Rate { min: 0, max: u64::MAX }, "64 KiB/s", 65536),
            (Kind::Rate { min: 0, max: u64::MAX }, "256", 256),
            (Kind::Count { min: 0, max: 7 }, "7", 7),
        ] {
            assert_eq!(kind.parse(text), Ok(Value::Number(expect)), "{text}");
        }
    }

    #[test]
    fn bad_numbers_say_what_is_expected() {
        for (kind, text, expect) in [
            (BYTES, "0", "expected a size from 1 B to 1 TiB, got 0"),
            (BYTES, "2 TiB", "expected a size from 1 B to 1 TiB, got 2 TiB"),
            (BYTES, "64k", "unknown unit \"k\": write one of B, KiB, MiB, GiB, TiB, kB, KB, "),
            (BYTES, "", "expected a size from 1 B to 1 TiB, got \"\""),
            (BYTES, "-1", "expected a size from 1 B to 1 TiB, got \"-1\""),
            (BYTES, "0.3 B", "expected a size"),
            (BYTES, "99999999999999999999", "expected a size"),
            (MILLIS, "1.", "unknown unit \"\""),
            (MILLIS, "never", "expected a duration"),
            (Kind::MillisOrNever { min: 0, max: 9 }, "ever", "expected a duration from 0 ms to 9"),
            (MILLIS, "ten", "expected a duration from 0 ms to"),
            (Kind::Count { min: 0, max: 7 }, "8", "expected a whole number from 0 to 7, got 8"),
            (Kind::Count { min: 0, max: 7 }, "1 s", "expected a whole number from 0 to 7"),
        ] {
            let fault = kind.parse(text).unwrap_err().to_string();
            assert!(fault.starts_with(expect), "{text}: {fault}");
        }
    }

    #[test]
    fn words_and_lists() {
        let choice = Kind::Choice(&["epoll", "poll", "select"]);
        assert_eq!(choice.parse("poll"), Ok(Value::Text("poll".into())));
        let fault = choice.parse("epol").unwrap_err().to_string();
        assert!(fault.ends_with("(did you mean \"epoll\"?)"), "{fault}");
        let never = Kind::MillisOrNever { min: 0, max: 1000 };
        assert_eq!(never.parse("never"), Ok(Value::Never));
        assert!(never.holds(&Value::Never) && !MILLIS.holds(&Value::Never));
        assert_eq!(Kind::List.parse(""), Ok(Value::List(vec![])));
        assert_eq!(Kind::List.parse("a, b"), Ok(Value::List(vec!["a".into(), "b".into()])));
        assert!(Kind::List.parse("a,,b").is_err());
        assert!(Kind::Text.parse("a\nb").is_err());
    }

    #[test]
    fn the_nearest_word_is_near() {
        let words = ["idle_ms_max", "head_ms_max", "poll"];
        assert_eq!(nearest("idel_ms_max", words), Some("idle_ms_max"));
        assert_eq!(nearest("pool", words), Some("poll"));
        assert_eq!(nearest("something", words), None);
        assert_eq!(nearest(&"x".repeat(10_000), words), None);
    }
}
