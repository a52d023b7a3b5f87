//! Shards: equal parts of one load, which several processes or machines make together, and the time
//! at which all of them start.

use super::slo::parse_time;
use regatta_http::date::days_from_civil;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use toml::value::{Datetime, Offset};

/// The most shards of a load.
const SHARDS_MAX: u32 = 10_000;

/// Part of a load that has `count` equal parts. Arrival, connection or idle connection `n` is in
/// the shard whose index is `n` modulo `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// From 0.
    pub(super) index: u32,
    pub(super) count: u32,
}

/// The whole.
impl Default for Shard {
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl Shard {
    /// Reads `I/N`.
    ///
    /// # Errors
    /// The text is none, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/');
        let numbers = parts.and_then(|(index, count)| {
            Some(Self { index: index.parse().ok()?, count: count.parse().ok()? })
        });
        let sound = |shard: &Self| shard.index < shard.count && shard.count <= SHARDS_MAX;
        numbers.filter(sound).ok_or_else(|| {
            format!(
                "{text:?} is not I/N: with N=4 say 0/4, 1/4, 2/4 or 3/4; N is {SHARDS_MAX} at most"
            )
        })
    }

    /// Number of a thread of this shard among those of all shards. Shards with different numbers of
    /// threads still divide the whole evenly.
    pub(super) const fn worker(self, thread: u32) -> u32 {
        self.index + self.count * thread
    }

    /// Share of a whole.
    pub(super) fn share(self, whole: u32) -> u32 {
        whole / self.count + u32::from(self.index < whole % self.count)
    }
}

/// Reads a time to start at: RFC 3339, seconds since 1970, or a length of time from now.
pub(super) fn parse_start(text: &str) -> Result<SystemTime, String> {
    start_of(text.trim(), SystemTime::now()).ok_or_else(|| {
        format!(
            "{text:?} is no time: give RFC 3339 (2026-08-21T14:05:00Z), seconds since 1970, or a \
             length from now (30s)"
        )
    })
}

fn start_of(text: &str, now: SystemTime) -> Option<SystemTime> {
    if let Ok(from_now) = parse_time(text) {
        return now.checked_add(from_now);
    }
    let since = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
        Err(_) => since_1970(text.parse().ok()?)?,
    };
    UNIX_EPOCH.checked_add(since)
}

fn since_1970(at: Datetime) -> Option<Duration> {
    let (date, time) = (at.date?, at.time?);
    let minutes = match at.offset? {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    let days = days_from_civil(date.year.into(), date.month.into(), date.day.into());
    let of_day = i64::from(time.hour) * 3_600 + i64::from(time.minute) * 60;
    let seconds = days * 86_400 + of_day + i64::from(time.second.unwrap_or(0)) - minutes * 60;
    Some(Duration::new(u64::try_from(seconds).ok()?, time.nanosecond.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_read_or_refused() {
        assert_eq!(Shard::parse("0/1"), Ok(Shard::default()));
        assert_eq!(Shard::parse("3/4"), Ok(Shard { index: 3, count: 4 }));
        for text in ["", "1", "4/4", "-1/4", "0/0", "0/10001", "a/b", "1/2/3"] {
            assert!(Shard::parse(text).unwrap_err().contains("0/4"), "{text}");
        }
    }

    #[test]
    fn shares_make_up_the_whole() {
        for (whole, count) in [(0, 3), (1, 3), (7, 3), (9, 3), (1_000_000, 7)] {
            let share = |index| Shard { index, count }.share(whole);
            assert_eq!((0..count).map(share).sum::<u32>(), whole, "{whole} of {count}");
        }
    }

    #[test]
    fn times_to_start_at() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000);
        let of = |text| start_of(text, now)?.duration_since(UNIX_EPOCH).ok();
        for (text, seconds) in [
            ("30s", 1_030.0),
            ("500ms", 1_000.5),
            ("1795306796", 1_795_306_796.0),
            ("1795306796.25", 1_795_306_796.25),
            ("2026-11-22T00:19:56Z", 1_795_306_796.0),
            ("2026-11-22 00:19:56.250Z", 1_795_306_796.25),
            ("2026-11-22T02:19:56+02:00", 1_795_306_796.0),
            ("2026-11-21T18:49:56-05:30", 1_795_306_796.0),
        ] {
            assert_eq!(of(text).map(|at| at.as_secs_f64()), Some(seconds), "{text}");
        }
        // Local time is another on each machine.
        for text in ["", "soon", "2026-11-22T00:19:56", "2026-11-22", "00:19:56", "-5", "nan"] {
            assert_eq!(of(text), None, "{text}");
        }
        assert!(parse_start("soon").unwrap_err().contains("RFC 3339"));
    }
}
