//! Numbers that a trial can have, from the table `assets/metrics.toml`.

use super::file::nearest;
use regatta_load::engine::Fate;
use serde::Deserialize;
use std::sync::LazyLock;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metric {
    name: String,
    unit: String,
    #[serde(default)]
    less: bool,
    words: Option<String>,
    #[serde(default)]
    counted: bool,
    from: String,
    meaning: String,
}

#[derive(Debug, Deserialize)]
struct Table {
    metric: Vec<Metric>,
}

static METRICS: LazyLock<Table> = LazyLock::new(|| {
    toml::from_str(include_str!("../../assets/metrics.toml")).expect("a test reads it")
});
const PER_REPLY: &str = "_per_reply";

/// The row of a metric, or of what is counted for each reply.
fn find(name: &str) -> Option<&'static Metric> {
    let named = |name: &str| METRICS.metric.iter().find(|metric| metric.name == name);
    let counted = || named(name.strip_suffix(PER_REPLY)?).filter(|metric| metric.counted);
    named(name).or_else(counted)
}

#[must_use]
pub fn is_metric(name: &str) -> bool {
    let fate = name.strip_prefix("fate_");
    find(name).is_some() || fate.is_some_and(|fate| Fate::named(fate).is_some())
}

/// Fault of a metric's name; None: it has none.
pub(super) fn fault(name: &str) -> Option<String> {
    if is_metric(name) {
        return None;
    }
    let counted = METRICS.metric.iter().filter(|metric| metric.counted);
    let per_reply: Vec<String> = counted.map(|one| format!("{}{PER_REPLY}", one.name)).collect();
    let known = METRICS.metric.iter().map(|metric| &metric.name).chain(&per_reply);
    let near = nearest(name, known.map(String::as_str));
    let told = near.and_then(|near| {
        let Metric { from, meaning, .. } = find(near)?;
        Some(format!("did you mean {near} ({from}: {meaning})? "))
    });
    let told = told.unwrap_or_default();
    Some(format!("no trial has a number {name:?}; {told}docs/lab.md lists all"))
}

/// Whether more of a metric is better. More of what a reply takes is not.
pub(crate) fn more_is_better(metric: &str) -> bool {
    let is_cost = || metric.ends_with(PER_REPLY);
    !find(metric).map_or_else(is_cost, |known| known.less)
}

/// `good_per_s` as people say it.
pub(crate) fn words(metric: &str) -> String {
    let known = find(metric).filter(|known| known.name == metric);
    match (metric, known.and_then(|known| known.words.as_ref())) {
        (_, Some(words)) => words.clone(),
        ("knee_per_s", _) => "highest rate at which the level holds, per second".to_owned(),
        _ => metric.replace('_', " "),
    }
}

/// A metric in words, with its unit unless the words have it: for axes and titles.
pub(crate) fn words_with_unit(metric: &str) -> String {
    let words = words(metric);
    let known = find(metric).filter(|known| known.name == metric && known.unit != "share");
    match known.map(|known| &known.unit).filter(|unit| !words.ends_with(*unit)) {
        Some(unit) => format!("{words}, {unit}"),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_one_and_documented() {
        let page = include_str!("../../../../docs/lab.md");
        for metric in &METRICS.metric {
            let Metric { name, unit, less, counted, from, meaning, .. } = metric;
            assert!(is_metric(name), "{name}");
            let (mark, better) = (if *counted { "*" } else { "" }, if *less { "less" } else { "" });
            let row = format!("| `{name}`{mark} | {unit} | {better} | {from} | {meaning} |");
            assert!(page.contains(&row), "docs/lab.md lacks {row}");
        }
        for name in ["fate_wrong-bytes", "user_instructions_per_reply", "task_ns_per_reply"] {
            assert_eq!(fault(name), None, "{name}");
        }
        for name in ["", "fate_", "fate_bad", "good", "_per_reply", "p99_ms_per_reply"] {
            assert!(fault(name).is_some(), "{name}");
        }
        let said = fault("user_instruction_per_reply").unwrap();
        assert!(said.contains("did you mean user_instructions_per_reply (server: "), "{said}");
        assert!(fault("p9_ms").unwrap().contains("did you mean p9"));
    }

    #[test]
    fn axes_have_units() {
        for (metric, words) in [
            ("cpu_us_per_reply", "processor time per reply, µs"),
            ("good_per_s", "good answers per second"),
            ("p99_ms", "99th percentile of the time, ms"),
            ("pss_mib", "pss mib, MiB"),
            ("user_s_per_reply", "user s per reply"),
            ("switches", "switches"),
            ("error_share", "error share"),
        ] {
            assert_eq!(words_with_unit(metric), words);
        }
    }
}
