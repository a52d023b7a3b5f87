//! Warm-up that is found instead of assumed: what a trial's seconds say of when it had settled.

use crate::record::{Record, Second};
use crate::stats::{Steady, count, mean, steady};
use crate::units::real;

/// Finds where a trial settled (MSER-5 over the good answers of each second) and takes its rates
/// from there, if that is later than `warm_s`: a note that says so. Fails if it never settled, or
/// is too short to tell: then the trial does not count.
pub(crate) fn settle(record: &mut Record, warm_s: f64) -> Result<Option<String>, String> {
    let good: Vec<f64> = record.series.iter().map(|second| real(second.good)).collect();
    let seconds = good.len();
    let from = match steady(&good) {
        Steady::From(cut) => cut,
        Steady::Never => {
            return Err(format!("NOT-STEADY: of {seconds} s it was not steady for half"));
        }
        Steady::Unknown => {
            return Err(format!("NOT-STEADY: {seconds} whole seconds are too few to tell"));
        }
    };
    record.metrics.insert("steady_from_s".to_owned(), count(from));
    if count(from) <= warm_s {
        return Ok(None);
    }
    let rest = &record.series[from..];
    let of = |what: fn(&Second) -> u64| {
        let values: Vec<f64> = rest.iter().map(|second| real(what(second))).collect();
        mean(&values)
    };
    let (offered, good) = (of(|second| second.offered), of(|second| second.good));
    let (errors, metrics) = (of(|second| second.errors), &mut record.metrics);
    let before = metrics.get("good_per_s").copied().unwrap_or_default();
    if before > 0.0
        && let Some(mbit) = metrics.get_mut("mbit_per_s")
    {
        *mbit *= good / before;
    }
    metrics.insert("offered_per_s".to_owned(), offered);
    metrics.insert("good_per_s".to_owned(), good);
    if offered > 0.0 {
        metrics.insert("error_share".to_owned(), errors / offered);
    }
    Ok(Some(format!(
        "steady from second {from}; rates are from there on, percentiles and counters of the whole \
         window"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::synthetic;
    use crate::record::numbers;

    const TEXT: &str = r#"
experiment = { name = "made-up", question = "?", expect = "!" }
targets.a.program = "regatta"
workload.root = "."
measure = { blocks = 1, warm = "found", warm_s = 2, window_s = 38 }
"#;

    fn record(good: impl Fn(u64) -> u64) -> Record {
        let numbers = numbers([("good_per_s", 900.0), ("mbit_per_s", 9.0), ("error_share", 0.0)]);
        let mut record = synthetic(TEXT, &move |_| numbers.clone()).records.remove(0);
        record.metrics.insert("good_per_s".to_owned(), 900.0);
        record.series = (0..40)
            .map(|second| Second {
                second,
                counts: second >= 2,
                offered: 1_000,
                good: good(second),
                errors: 1_000 - good(second),
                p99_ms: 1.0,
                in_flight: 1,
                ..Second::default()
            })
            .collect();
        record
    }

    #[test]
    fn rates_are_those_of_the_steady_seconds() {
        let mut slow = record(|second| if second < 10 { 500 + second } else { 950 + second % 3 });
        let note = settle(&mut slow, 2.0).unwrap().unwrap();
        assert!(note.starts_with("steady from second 10"), "{note}");
        assert!((slow.metrics["good_per_s"] - 951.0).abs() < 0.1, "{:?}", slow.metrics);
        assert!((slow.metrics["error_share"] - 0.049).abs() < 1e-4, "{:?}", slow.metrics);
        assert!((slow.metrics["mbit_per_s"] - 9.51).abs() < 0.01, "{:?}", slow.metrics);
        assert_eq!(slow.metrics["steady_from_s"], 10.0);
        let mut calm = record(|second| 950 + second % 3);
        assert_eq!(settle(&mut calm, 2.0), Ok(None));
        assert_eq!(calm.metrics["good_per_s"], 900.0, "nothing had to be counted again");
    }

    #[test]
    fn what_never_settles_does_not_count() {
        let mut falling = record(|second| 1_000 - 20 * second);
        assert!(settle(&mut falling, 2.0).unwrap_err().starts_with("NOT-STEADY"));
        falling.series.truncate(12);
        assert!(settle(&mut falling, 2.0).unwrap_err().contains("too few"));
    }
}
