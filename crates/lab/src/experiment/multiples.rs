//! Options of targets that count connections, given as multiples of saturation (`0.73x`): what is
//! scarce on one machine is plenty on another, so that a number means nothing on both.
//!
//! 1x is as many connections as the load opens in a second at the calibrated rate.

use super::{Experiment, Loop};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The answer to a rate that is none.
pub(super) const NO_RATE: &str = "a rate is a number above 0 or a multiple such as \"1.5x\"";

/// The options that may be multiples.
const OPTIONS: [&str; 2] = ["limits.connections_max", "accept.backlog"];

/// A rate as written: the number, and whether it is a multiple of the calibrated one.
pub(crate) fn rate(text: &str) -> Option<(f64, bool)> {
    let (digits, multiple) = text.strip_suffix('x').map_or((text, false), |digits| (digits, true));
    let rate: f64 = digits.parse().ok()?;
    (rate > 0.0 && rate.is_finite()).then_some((rate, multiple))
}

/// Reads a rate as a number or as a text.
pub(super) fn rate_text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = match Value::deserialize(from)? {
        Value::String(text) => text,
        other => other.to_string(),
    };
    if rate(&text).is_some() { Ok(text) } else { Err(D::Error::custom(NO_RATE)) }
}

/// The multiple that an option is, if it is one and may be.
fn multiple(key: &str, value: &str) -> Option<f64> {
    let (number, is_multiple) = rate(value)?;
    (OPTIONS.contains(&key) && is_multiple).then_some(number)
}

/// True if the measured program cannot judge this value: it becomes a number when 1x is known.
pub(crate) fn is_multiple(key: &str, value: &str) -> bool {
    multiple(key, value).is_some()
}

fn resolved(multiple: f64, unit: f64) -> String {
    format!("{:.0}", (multiple * unit).max(1.0))
}

/// Replaces multiples by numbers, with `unit` connections a second at 1x. Without a unit they are
/// left out: a calibration is not limited by them.
pub(crate) fn resolve(options: &mut BTreeMap<String, String>, unit: Option<f64>) {
    options.retain(|key, value| unit.is_some() || !is_multiple(key, value));
    for (key, value) in options {
        if let (Some(multiple), Some(unit)) = (multiple(key, value), unit) {
            *value = resolved(multiple, unit);
        }
    }
}

/// All of an experiment, each once: option and value.
fn all(experiment: &Experiment) -> BTreeSet<(&str, &str)> {
    let own = experiment.targets.iter().flat_map(|target| &target.config);
    let own = own.map(|(key, value)| (key.as_str(), value.as_str()));
    let varied = experiment.factors.iter().flat_map(|factor| {
        let key = factor.of_target().map(|(_, key)| key);
        key.into_iter().flat_map(|key| factor.levels.iter().map(move |level| (key, level.as_str())))
    });
    own.chain(varied).filter(|(key, value)| is_multiple(key, value)).collect()
}

/// Numbers of the multiples with `unit` connections a second at 1x, in words; empty if there are
/// none.
pub(crate) fn told(experiment: &Experiment, unit: f64) -> String {
    let each = all(experiment).into_iter().map(|(key, value)| {
        let number = multiple(key, value).map_or(String::new(), |one| resolved(one, unit));
        format!("{key}={value} is {number}")
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Requests of a connection, on average; None if connections have no end of their own.
pub(crate) fn requests_per_connection(
    experiment: &Experiment,
    requests_per_session: f64,
) -> Option<f64> {
    match (experiment.workload.model, experiment.workload.requests_per_connection) {
        (Loop::PartlyOpen, _) => Some(requests_per_session),
        (_, 0) => None,
        (_, requests) => Some(requests.into()),
    }
}

/// Setting that an experiment's multiples need and lack.
pub(super) fn fault(experiment: &Experiment) -> Option<String> {
    let (key, value) = all(experiment).into_iter().next()?;
    let missing = match &experiment.calibrate {
        None => "[calibrate]",
        Some(_) if requests_per_connection(experiment, 1.0).is_none() => {
            "workload.requests_per_connection: 1x is the connections that are opened in a second"
        }
        Some(_) => return None,
    };
    Some(format!("{key} = {value:?} needs {missing}"))
}

#[cfg(test)]
mod tests {
    use super::{super::tests::GOOD, *};
    use crate::experiment::{Scale, parse};

    #[test]
    fn multiples_become_numbers_when_1x_is_known() {
        let limited = "\n\"targets.accept25.config.limits.connections_max\" = [\"0.73x\", 900]";
        let text = GOOD.replace("[10, 25]", &format!("[10, 25]{limited}"));
        let experiment = parse("e.toml", &text, Scale::Full).unwrap();
        assert_eq!(requests_per_connection(&experiment, 10.0), Some(1.0));
        assert_eq!(told(&experiment, 1000.0), "limits.connections_max=0.73x is 730");
        let options = |value: &str| {
            let of = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
            BTreeMap::from([("limits.connections_max", value), ("accept.count", "25")].map(of))
        };
        for (value, unit, expect) in [
            ("0.73x", Some(1000.0), Some("730")),
            ("0.0001x", Some(1000.0), Some("1")),
            ("0.73x", None, None),
            ("900", Some(1000.0), Some("900")),
            ("900", None, Some("900")),
        ] {
            let mut all = options(value);
            resolve(&mut all, unit);
            assert_eq!(all.get("limits.connections_max").map(String::as_str), expect, "{value}");
            assert_eq!(all["accept.count"], "25");
        }
        assert!(!is_multiple("accept.count", "2x") && !is_multiple("accept.backlog", "128"));
    }

    #[test]
    fn multiples_need_what_they_are_of() {
        let text = GOOD.replace("cache.enabled = false", "limits.connections_max = \"2x\"");
        assert!(parse("e.toml", &text, Scale::Full).is_ok());
        for (without, part) in [
            ("[calibrate]\ntarget = \"acceptinf\"\n", "\"2x\" needs [calibrate]"),
            ("requests_per_connection = 1\n", "\"2x\" needs workload.requests_per_connection"),
        ] {
            let said = parse("e.toml", &text.replace(without, ""), Scale::Full).unwrap_err();
            assert!(said.iter().any(|problem| problem.contains(part)), "{said:?}");
        }
    }
}
