//! HTTP dates (RFC 9110 §5.6.7).

/// Bytes in an IMF-fixdate.
pub const DATE_BYTES: usize = 29;

/// Seconds in a day.
const DAY_SECS: i64 = 86_400;
/// 0000-01-01T00:00:00Z and 9999-12-31T23:59:59Z: the limits of what [`format`] can write.
const YEAR_0_SECS: i64 = -62_167_219_200;
const YEAR_9999_END_SECS: i64 = 253_402_300_799;

const DAYS: [&[u8; 3]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
const LONG_DAYS: [&[u8]; 7] =
    [b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday", b"Sunday"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// The IMF-fixdate of `secs` since 1970, as in `Sun, 06 Nov 1994 08:49:37 GMT`. Times outside the
/// years 0 to 9999, which the format cannot express, become the nearest that is inside.
#[must_use]
pub fn format(secs: i64) -> [u8; DATE_BYTES] {
    let secs = secs.clamp(YEAR_0_SECS, YEAR_9999_END_SECS);
    let (day, second) = (secs.div_euclid(DAY_SECS), secs.rem_euclid(DAY_SECS));
    let (year, month, day_of_month) = civil_from_days(day);
    let mut out = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    out[..3].copy_from_slice(DAYS[index((day + 3).rem_euclid(7))]);
    two_digits(&mut out, 5, day_of_month);
    out[8..11].copy_from_slice(MONTHS[index(month - 1)]);
    two_digits(&mut out, 12, year / 100);
    two_digits(&mut out, 14, year % 100);
    two_digits(&mut out, 17, second / 3600);
    two_digits(&mut out, 20, second / 60 % 60);
    two_digits(&mut out, 23, second % 60);
    out
}

/// Reads a date in any of the three formats of RFC 9110 §5.6.7: seconds since 1970, or `None` if it
/// is no date. `now_unix` decides the century of the obsolete format that has two digits of year:
/// a year more than 50 years ahead is in the past.
///
/// The name of the day must be one, but need not be the right one.
#[must_use]
pub fn parse(text: &[u8], now_unix: u64) -> Option<i64> {
    match text.get(3)? {
        b',' => imf_fixdate(text),
        b' ' => asctime(text),
        _ => rfc850(text, now_unix),
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(text: &[u8]) -> Option<i64> {
    let text: &[u8; DATE_BYTES] = text.try_into().ok()?;
    day_name(&text[..3])?;
    let fixed = [&text[3..5], &text[7..8], &text[11..12], &text[16..17], &text[25..]];
    if fixed != [b", ", &b" "[..], b" ", b" ", b" GMT"] {
        return None;
    }
    let year = number(&text[12..16])?;
    seconds(year, month(&text[8..11])?, number(&text[5..7])?, clock(&text[17..25])?)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850(text: &[u8], now_unix: u64) -> Option<i64> {
    let comma = text.iter().position(|&byte| byte == b',')?;
    LONG_DAYS.iter().position(|&name| name == &text[..comma])?;
    let text: &[u8; 24] = text[comma..].try_into().ok()?;
    let fixed = [&text[..2], &text[4..5], &text[8..9], &text[11..12], &text[20..]];
    if fixed != [b", ", &b"-"[..], b"-", b" ", b" GMT"] {
        return None;
    }
    let (month, day) = (month(&text[5..8])?, number(&text[2..4])?);
    let second = clock(&text[12..20])?;
    let now = i64::try_from(now_unix).unwrap_or(i64::MAX).min(YEAR_9999_END_SECS);
    let (now_year, now_month, now_day) = civil_from_days(now / DAY_SECS);
    let mut year = now_year - now_year % 100 + number(&text[9..11])?;
    if year <= now_year - 50 {
        year += 100;
    }
    if (year - 50, month, day, second) > (now_year, now_month, now_day, now % DAY_SECS) {
        year -= 100;
    }
    seconds(year, month, day, second)
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(text: &[u8]) -> Option<i64> {
    let text: &[u8; 24] = text.try_into().ok()?;
    day_name(&text[..3])?;
    if [text[3], text[7], text[10], text[19]] != [b' '; 4] {
        return None;
    }
    let day = if text[8] == b' ' { number(&text[9..10])? } else { number(&text[8..10])? };
    seconds(number(&text[20..])?, month(&text[4..7])?, day, clock(&text[11..19])?)
}

/// `08:49:37` as seconds; a leap second counts as the first of the next minute.
fn clock(text: &[u8]) -> Option<i64> {
    if [text[2], text[5]] != [b':'; 2] {
        return None;
    }
    let (hour, minute, second) = (number(&text[..2])?, number(&text[3..5])?, number(&text[6..])?);
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
}

fn day_name(text: &[u8]) -> Option<usize> {
    DAYS.iter().position(|&name| name == text)
}

/// The month's number, 1 to 12.
fn month(text: &[u8]) -> Option<i64> {
    (1..).zip(MONTHS).find(|&(_, name)| name == text).map(|(number, _)| number)
}

/// The value of a few digits.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |value, byte| {
        byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'))
    })
}

/// Seconds since 1970 at second `second` of a day, if the day exists.
fn seconds(year: i64, month: i64, day: i64, second: i64) -> Option<i64> {
    let days = days_from_civil(year, month, day);
    (civil_from_days(days) == (year, month, day)).then_some(days * DAY_SECS + second)
}

/// Days from 1970-01-01 to a day of the proleptic Gregorian calendar. Years are counted from March,
/// so that the leap day is the last of its year; 400 of them are one era of 146,097 days.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year * 365 + year / 4 - year / 100 + day_of_year - 719_468
}

/// Year, month and day of a day, counted from 1970-01-01: the inverse of `days_from_civil`.
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (year * 365 + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    (year, month, day_of_month)
}

/// Writes `value`, 0 to 99, as two digits.
fn two_digits(out: &mut [u8], at: usize, value: i64) {
    out[at] = DIGITS[index(value / 10)];
    out[at + 1] = DIGITS[index(value % 10)];
}

const DIGITS: &[u8; 10] = b"0123456789";

/// A small number that counts from 0, as an index.
fn index(value: i64) -> usize {
    usize::try_from(value).expect("parts of a date are not negative")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    /// 2026-11-21T00:00:00Z
    const NOW: u64 = 1_795_219_200;

    fn check(text: &str, expected: Option<i64>) {
        assert_eq!(parse(text.as_bytes(), NOW), expected, "{text}");
    }

    #[test]
    fn the_three_formats() {
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777));
        check("Sun Nov  6 08:49:37 1994", Some(784_111_777));
        check("Thu, 01 Jan 1970 00:00:00 GMT", Some(0));
        check("Wed, 31 Dec 1969 23:59:59 GMT", Some(-1));
        check("Fri, 31 Dec 9999 23:59:59 GMT", Some(YEAR_9999_END_SECS));
        check("Sat, 01 Jan 0000 00:00:00 GMT", Some(YEAR_0_SECS));
        check("Thu, 29 Feb 2024 00:00:00 GMT", Some(1_709_164_800));
        check("Sat, 31 Dec 2016 23:59:60 GMT", Some(1_483_228_800));
        check("Mon, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Sun Nov 16 08:49:37 1994", Some(784_975_777));
    }

    #[test]
    fn other_texts_are_no_dates() {
        for text in [
            "",
            "0",
            "784111777",
            "Sun",
            "Sun,",
            "Sun, 06 Nov 1994 08:49:37",
            "*",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
            " Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 gmt",
            "sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Son, 06 Nov 1994 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 1900 08:49:37 GMT",
            "Sun, 29 Feb 2023 08:49:37 GMT",
            "Sun,  6 Nov 1994 08:49:37 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov +994 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sun, 06-Nov-94 08:49:37 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Sunday, 06 Nov 94 08:49:37 GMT",
            "sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
            "Sun Nov 06 08:49:37 94",
            "Sun Nov  6 08:49:37 1994 GMT",
            "Sun Nov  0 08:49:37 1994",
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun\u{fc} 06",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn two_digits_of_year_are_at_most_fifty_years_ahead() {
        for (text, year) in [
            ("Friday, 01-Jan-26 00:00:00 GMT", 2026),
            ("Friday, 01-Jan-76 00:00:00 GMT", 2076),
            ("Friday, 21-Nov-76 00:00:00 GMT", 2076),
            ("Friday, 21-Nov-76 00:00:01 GMT", 1976),
            ("Friday, 01-Jan-77 00:00:00 GMT", 1977),
            ("Friday, 01-Jan-99 00:00:00 GMT", 1999),
            ("Friday, 01-Jan-00 00:00:00 GMT", 2000),
        ] {
            let secs = parse(text.as_bytes(), NOW).unwrap();
            assert_eq!(civil_from_days(secs.div_euclid(DAY_SECS)).0, year, "{text}");
        }
        let late = u64::try_from(days_from_civil(2099, 6, 1) * DAY_SECS).unwrap();
        let secs = parse(b"Friday, 01-Jan-01 00:00:00 GMT", late).unwrap();
        assert_eq!(civil_from_days(secs / DAY_SECS).0, 2101);
        assert!(parse(b"Friday, 01-Jan-01 00:00:00 GMT", u64::MAX).is_some());
    }

    #[test]
    fn httpdate_agrees() {
        let last = u64::try_from(YEAR_9999_END_SECS).unwrap();
        let spread = (0..20_000).map(|step| step * (last / 20_000) + step * 7_919 % 86_400);
        let days = (0..60_000).map(|day| day * 86_400 + 86_399);
        for secs in spread.chain(days).chain([0, last]).filter(|&secs| secs <= last) {
            let time = UNIX_EPOCH + Duration::from_secs(secs);
            let text = httpdate::fmt_http_date(time);
            let signed = i64::try_from(secs).unwrap();
            assert_eq!(format(signed), text.as_bytes(), "{secs}");
            check(&text, Some(signed));
        }
    }

    #[test]
    fn httpdate_agrees_on_changed_dates() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sun Nov 16 08:49:37 1994"] {
            for (at, byte) in (0..text.len()).flat_map(|at| (0x20..0x7fu8).map(move |b| (at, b))) {
                let mut changed = text.as_bytes().to_vec();
                changed[at] = byte;
                let found = parse(&changed, NOW);
                if let Some(secs) = found {
                    // It wants the right name of the day.
                    changed[..3].copy_from_slice(&format(secs)[..3]);
                }
                let changed = core::str::from_utf8(&changed).unwrap();
                let expected = httpdate::parse_http_date(changed).ok().map(seconds_of);
                // It knows no year before 1970, and no leap second.
                let known = found.filter(|&secs| secs >= 0 && !changed.contains(":60"));
                assert_eq!(known, expected, "{changed}");
            }
        }
    }

    fn seconds_of(time: SystemTime) -> i64 {
        i64::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
    }

    #[test]
    fn times_beyond_the_format_are_at_its_ends() {
        assert_eq!(&format(i64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(&format(i64::MIN), b"Sat, 01 Jan 0000 00:00:00 GMT");
        assert_eq!(&format(-1), b"Wed, 31 Dec 1969 23:59:59 GMT");
    }
}
