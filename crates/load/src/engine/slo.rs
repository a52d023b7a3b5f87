//! A stated service level, such as `p99<50ms,errors<0.1%`, and whether a run met it.

use crate::number::{NS_PER_S, nanos_of};
use serde::{Deserialize, Serialize};

/// All terms of a service level; it is met when each is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slo {
    pub(super) terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Term {
    pub(super) text: String,
    pub(super) quantity: Quantity,
    /// True for `<` and `<=`.
    pub(super) below: bool,
    /// True for `<=` and `>=`.
    pub(super) equal: bool,
    pub(super) limit: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Quantity {
    /// A percentile of the response time, nanoseconds; 1 is the longest.
    Quantile(f64),
    /// Mean response time of the answered, nanoseconds.
    Mean,
    Errors,
    Goodput,
    Rate,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    pub term: String,
    /// Measured value: nanoseconds, a share, or a rate. The client's own lag is in it.
    pub measured: f64,
    pub met: bool,
    /// Whether it would hold without the client's own lag and faults. True of a term that is met.
    #[serde(default)]
    pub met_by_server: bool,
}

crate::named! {
    pub enum Verdict {
        /// Every term holds, the client's own lag included.
        Met = "met",
        /// A term does not hold, and the client is not the reason.
        Missed = "missed",
        /// The run cannot decide: it was interrupted, or its client is the reason.
        NotJudged = "not-judged",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    pub verdict: Verdict,
    /// Reason of a level that is not met, and what to do; empty if it is met.
    pub why: String,
}

impl Slo {
    /// Reads terms `QUANTITY OP LIMIT` separated by commas: `pNN`, `max`, `mean` with a time in
    /// `ns`, `us`, `ms` or `s`; `errors`, `goodput` with a share in per cent; `rate` per second.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let (mut terms, mut problems) = (Vec::new(), Vec::new());
        for part in text.split(',').map(str::trim) {
            match term(part) {
                Some(term) => terms.push(term),
                None => problems.push(format!(
                    "{part:?} is not a service level: say p99<50ms, mean<5ms, max<1s, \
                     errors<0.1%, goodput>=99.5% or rate>=1000"
                )),
            }
        }
        if problems.is_empty() { Ok(Self { terms }) } else { Err(problems) }
    }
}

fn term(text: &str) -> Option<Term> {
    let at = text.find(['<', '>'])?;
    let (name, rest) = text.split_at(at);
    let below = rest.starts_with('<');
    let rest = &rest[1..];
    let (equal, limit) = rest.strip_prefix('=').map_or((false, rest), |rest| (true, rest));
    let quantity = match name.trim() {
        "mean" => Quantity::Mean,
        "max" => Quantity::Quantile(1.0),
        "errors" => Quantity::Errors,
        "goodput" => Quantity::Goodput,
        "rate" => Quantity::Rate,
        name => {
            let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
            (0.0..=100.0).contains(&percent).then_some(Quantity::Quantile(percent / 100.0))?
        }
    };
    let limit = limit.trim();
    let limit = match quantity {
        Quantity::Quantile(_) | Quantity::Mean => time(limit)?,
        Quantity::Errors | Quantity::Goodput => {
            limit.strip_suffix('%')?.parse::<f64>().ok()? / 100.0
        }
        Quantity::Rate => limit.parse().ok()?,
    };
    (limit >= 0.0).then(|| Term { text: text.to_owned(), quantity, below, equal, limit })
}

/// `50ms` as nanoseconds.
fn time(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.parse().ok()?;
    let unit = match &text[digits.len()..] {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => NS_PER_S as f64,
        "m" => 60.0 * NS_PER_S as f64,
        "h" => 3_600.0 * NS_PER_S as f64,
        _ => return None,
    };
    Some(number * unit)
}

/// A time with a unit that suits it: `1.234 ms`.
pub(super) fn show(ns: f64) -> String {
    match ns {
        _ if !ns.is_finite() => "-".to_owned(),
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        _ if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

/// A time for a narrow column, as exact as the histograms: `1.23ms`, `123.4ms`. At most 7
/// characters below 11 days.
pub(super) fn short(ns: f64) -> String {
    match ns {
        _ if !ns.is_finite() => "-".to_owned(),
        _ if ns < 1e3 => format!("{ns:.0}ns"),
        _ if ns < 999.95e3 => format!("{:.1}us", ns / 1e3),
        _ if ns < 99.995e6 => format!("{:.2}ms", ns / 1e6),
        _ if ns < 999.95e6 => format!("{:.1}ms", ns / 1e6),
        _ if ns < 99.995e9 => format!("{:.2}s", ns / 1e9),
        _ if ns < 999.95e9 => format!("{:.1}s", ns / 1e9),
        _ => format!("{:.0}s", ns / 1e9),
    }
}

/// Reads a time such as `1.5s` or `200us`, for options.
pub fn parse_time(text: &str) -> Result<std::time::Duration, String> {
    let wrong = || format!("{text:?} is not a time such as 200us, 50ms, 10s or 2m");
    let ns = time(text.trim()).filter(|ns| (0.0..=3.2e16).contains(ns)).ok_or_else(wrong)?;
    Ok(std::time::Duration::from_nanos(nanos_of(ns / NS_PER_S as f64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_or_named() {
        let slo = Slo::parse("p99<50ms, p99.9 <= 1s,errors<0.1%,goodput>=99.5%,rate>1000").unwrap();
        let limits: Vec<f64> = slo.terms.iter().map(|term| term.limit).collect();
        assert_eq!(limits, [50e6, 1e9, 0.001, 0.995, 1000.0]);
        for bad in ["", "p99", "p101<1s", "p99<50", "errors<1", "latency<1ms", "p99<-1ms", "p99=1s"]
        {
            assert_eq!(Slo::parse(bad).unwrap_err().len(), 1, "{bad}");
        }
        assert_eq!(Slo::parse("x,p99<1s,y").unwrap_err().len(), 2);
    }

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("1.5s"), Ok(std::time::Duration::from_millis(1500)));
        assert_eq!(parse_time("200us"), Ok(std::time::Duration::from_micros(200)));
        assert_eq!(parse_time("2m"), Ok(std::time::Duration::from_secs(120)));
        assert!(parse_time("10").is_err() && parse_time("-1s").is_err());
        let shown = [999.0, 51_234.0, 1_234_000.0, 2e9, f64::NAN].map(show);
        assert_eq!(shown, ["999 ns", "51.2 us", "1.23 ms", "2.00 s", "-"]);
        let shown = [999.0, 51_234.0, 1_234_000.0, 123_456_789.0, 83.4e9, 999_999e9].map(short);
        assert_eq!(shown, ["999ns", "51.2us", "1.23ms", "123.5ms", "83.40s", "999999s"]);
        for edge in [1e3, 1e6, 1e8, 1e9, 1e11, 1e12] {
            for ns in [edge * 0.999_999, edge, edge * 1.000_001] {
                assert!(short(ns).len() <= 7, "{ns}: {}", short(ns));
            }
        }
    }
}
