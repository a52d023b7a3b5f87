//! Warnings before certificates expire: daily ones of the master, those of `regatta check`, and the
//! seconds that the admin process reports.
use crate::handover::CertificateId;
use regatta_op::Tick;
use std::{
    fmt, mem,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const DAY: Duration = Duration::from_secs(86_400);
/// Time before the expiry of a certificate from which on it is to be renewed: `check` warns, and
/// the error log does so each day.
pub(crate) const SOON: Duration = Duration::from_secs(14 * 86_400);

/// Time before the end of a validity period from which on a certificate is to be renewed: the last
/// third of the period, and no more than [`SOON`]. One that is valid for 6 days is renewed daily.
pub(crate) fn soon_s(valid_from: i64, valid_until: i64) -> i64 {
    let period = valid_until.saturating_sub(valid_from).max(0);
    (period / 3).min(SOON.as_secs().cast_signed())
}

/// Watch over the certificate that expires first.
#[derive(Debug)]
pub(crate) struct ExpiryWatch {
    /// `None`: there is no certificate.
    expiry: Option<SystemTime>,
    /// Time before the expiry from which on there are warnings.
    soon: Duration,
    next: Tick,
    /// Whether there has been a check. The first one is silent: a start names each certificate.
    has_checked: bool,
}

/// Warning that a certificate expires, or has expired.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ExpiryWarning {
    /// Zero if it has.
    left: Duration,
}

impl fmt::Display for ExpiryWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.left.as_secs() / DAY.as_secs() {
            _ if self.left.is_zero() => f.write_str("a certificate has expired")?,
            0 => f.write_str("a certificate expires within a day")?,
            1 => f.write_str("a certificate expires in a day")?,
            days => write!(f, "a certificate expires in {days} days")?,
        }
        f.write_str(": `regatta check` names it; renew it, then run `regatta reload`")
    }
}

impl ExpiryWatch {
    /// Watches for the next expiry of a certificate, if there is one.
    pub(crate) const fn new(expiry: Option<SystemTime>, soon: Duration, now: Tick) -> Self {
        let next = if expiry.is_some() { now } else { Tick::NEVER };
        Self { expiry, soon, next, has_checked: false }
    }

    /// Tick of the next check.
    pub(crate) const fn wake_at(&self) -> Tick {
        self.next
    }

    /// The warning, if one is due; the next is due a day later.
    pub(crate) fn warning(&mut self, now: Tick, clock: SystemTime) -> Option<ExpiryWarning> {
        let expiry = self.expiry.filter(|_| self.next <= now)?;
        let left = expiry.duration_since(clock).unwrap_or_default();
        let quiet = left.saturating_sub(self.soon);
        // The clock may be set meanwhile.
        let wait = if quiet.is_zero() { DAY } else { quiet.min(DAY) };
        self.next = now.after(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1));
        let warns = mem::replace(&mut self.has_checked, true) && quiet.is_zero();
        warns.then_some(ExpiryWarning { left })
    }
}

/// Time when the first of these certificates expires.
pub(crate) fn next_expiry(certificates: &[CertificateId]) -> Option<SystemTime> {
    let seconds = certificates.iter().map(|of| of.valid_until).min()?;
    Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).ok()?))
}

/// Time before the expiry of that certificate when a warning is due.
pub(crate) fn next_soon(certificates: &[CertificateId]) -> Duration {
    let first = certificates.iter().min_by_key(|of| of.valid_until);
    let seconds = first.and_then(|of| u64::try_from(of.soon_s).ok());
    seconds.map_or(SOON, Duration::from_secs)
}

/// Seconds until this time; fewer than 0 after it.
pub(crate) fn seconds_until(time: SystemTime, clock: SystemTime) -> i64 {
    let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    time.duration_since(clock).map_or_else(|past| -seconds(past.duration()), seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: u64 = 86_400;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn warnings_begin_two_weeks_before_and_come_daily() {
        let expiry = 100 * DAY_S;
        let mut watch = ExpiryWatch::new(Some(at(expiry)), SOON, Tick(0));
        let (mut tick, mut warned) = (Tick(0), Vec::new());
        // From 16 and a half days before to two days after.
        let start = expiry - 16 * DAY_S - DAY_S / 2;
        while tick.0 < (18 * DAY_S + DAY_S / 2) * 1000 {
            let clock = at(start + tick.0 / 1000);
            if let Some(warning) = watch.warning(tick, clock) {
                warned.push((expiry.saturating_sub(start + tick.0 / 1000), warning.to_string()));
            }
            assert_eq!(watch.warning(tick, clock), None, "once");
            assert!(watch.wake_at() > tick);
            tick = watch.wake_at();
        }
        let left: Vec<u64> = warned.iter().map(|(left, _)| left / DAY_S).collect();
        let expected: Vec<u64> = (0..=14).rev().chain([0]).collect();
        assert_eq!(left, expected, "{warned:?}");
        assert!(warned[0].1.starts_with("a certificate expires in 14 days: "), "{warned:?}");
        assert!(warned[13].1.starts_with("a certificate expires in a day: "), "{warned:?}");
        let last = &warned.last().unwrap().1;
        assert!(last.starts_with("a certificate has expired: `regatta check` names"), "{warned:?}");
    }

    /// The start has warned, and named the certificate.
    #[test]
    fn a_start_is_not_warned_twice() {
        for left_s in [0, DAY_S] {
            let expiry = 100 * DAY_S;
            let start = expiry - left_s;
            let mut watch = ExpiryWatch::new(Some(at(expiry)), SOON, Tick(7));
            assert_eq!(watch.warning(Tick(7), at(start)), None);
            let next = watch.wake_at();
            assert_eq!(next, Tick(7 + DAY_S * 1000));
            assert!(watch.warning(next, at(start + DAY_S)).is_some());
        }
    }

    #[test]
    fn the_last_third_is_soon() {
        for (days, soon) in [(0, 0), (6, 2), (30, 10), (42, 14), (45, 14), (90, 14), (397, 14)] {
            assert_eq!(soon_s(7, 7 + days * 86_400), soon * 86_400, "{days}");
        }
    }

    #[test]
    fn without_certificates_there_is_nothing_to_watch() {
        let mut watch = ExpiryWatch::new(None, SOON, Tick(5));
        assert_eq!(watch.wake_at(), Tick::NEVER);
        assert_eq!(watch.warning(Tick(9), at(0)), None);
    }

    #[test]
    fn seconds_go_below_zero() {
        assert_eq!(seconds_until(at(100), at(40)), 60);
        assert_eq!(seconds_until(at(40), at(100)), -60);
    }
}
