//! A picture of a run for pages other than the report: a bar for each arm, as SVG that needs
//! nothing else and follows the reader's light or dark theme. The same run gives the same bytes.

use super::Report;
use crate::analysis::{CellSummary, EffectRow, Summary};
use crate::experiment::words_with_unit;
use crate::units::{date, filled, show};
use serde_json::{Value, json};

const TEMPLATE: &str = include_str!("../../assets/picture.svg");
/// Farthest end of an interval, in units of the picture.
const LONGEST: f64 = 440.0;

/// The picture; None if no trial counts, or if arms have several settings: bars could show only
/// one.
pub(crate) fn picture(report: &Report<'_>) -> Result<Option<String>, String> {
    let analysis = &report.analysis;
    let metric = &analysis.metric;
    let mut bars: Vec<(&CellSummary, &Summary)> = Vec::new();
    for one in analysis.cells.iter().filter(|one| !report.arms[report.arm(&one.cell)].again) {
        let told = bars.iter().any(|(other, _)| other.cell.arm == one.cell.arm);
        if told || !one.cell.levels.is_empty() {
            return Ok(None);
        }
        bars.extend(one.metrics.get(metric).map(|summary| (one, summary)));
    }
    let most = bars.iter().map(|(_, summary)| summary.interval.high).fold(0.0, f64::max);
    if most <= 0.0 {
        return Ok(None);
    }
    let bar = |bar: &(&CellSummary, &Summary)| self::bar(report, bar, LONGEST / most);
    let better = if analysis.more_is_better { "longer" } else { "shorter" };
    let (experiment, manifest) = (&report.run.experiment, &report.run.manifest);
    let baseline = &experiment.baseline;
    let about = format!(
        "lab run {}, {}: {} trials. {}",
        experiment.name,
        date(manifest.started_unix_ms),
        analysis.trials.0,
        same_twice(report)
    );
    let machine = report.machine();
    // The machine, and where server and load ran on it.
    let (machine, placed) = machine.split_once(". ").unwrap_or((&machine, ""));
    let values = json!({
        "title": words_with_unit(metric),
        "scale": format!("{better} is better; ×: times {baseline}, with its 95 % interval"),
        "bars": bars.iter().map(bar).collect::<Vec<_>>(),
        "below": [about.as_str(), machine, placed],
    });
    filled("picture.svg", TEMPLATE, &values).map(Some)
}

/// An arm's name, its bar with a whisker for the median's interval, the number and the ratio.
fn bar(report: &Report<'_>, (one, summary): &(&CellSummary, &Summary), scale: f64) -> Value {
    let effect = report.analysis.effects.iter().find(|effect| effect.cell == one.cell);
    let ratio = effect.map_or(String::new(), |row| {
        let between = row.effect.interval.map_or(String::new(), |interval| {
            format!(" ({:.2} to {:.2})", interval.low, interval.high)
        });
        format!(" · {:.2} ×{between}", row.effect.ratio)
    });
    let [low, middle, high] =
        [summary.interval.low, summary.median, summary.interval.high].map(|value| value * scale);
    json!({ "arm": one.cell.arm, "is_baseline": effect.is_none(), "low": low, "middle": middle,
        "high": high, "label": format!("{}{ratio}", show(summary.median)) })
}

/// Distance of the baseline from itself, within which the picture shows no difference.
fn same_twice(report: &Report<'_>) -> String {
    let again = |row: &&EffectRow| report.arms[report.arm(&row.cell)].again;
    report
        .analysis
        .effects
        .iter()
        .find(again)
        .map_or(String::new(), |row| format!("The same server twice: {:.3} ×.", row.effect.ratio))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::{named, synthetic};
    use crate::record::Cell;
    use std::collections::BTreeMap;

    const TEXT: &str = r#"
experiment = { name = "bars", question = "?", expect = "!" }
targets = { "a<b" = {}, slow = {} }
workload = { root = ".", loop = "closed", connections = 1 }
measure = { metric = "cpu_us_per_reply", blocks = 6 }
"#;

    fn metrics(cell: &Cell) -> BTreeMap<String, f64> {
        named([("cpu_us_per_reply", if cell.arm == "slow" { 8.0 } else { 4.0 })])
    }

    #[test]
    fn each_arm_has_a_bar_as_long_as_its_number() {
        let run = synthetic(TEXT, &metrics);
        let drawn = picture(&Report::of(&run)).unwrap().unwrap();
        assert_eq!(drawn.matches("<rect").count(), 2, "the second run of the baseline is a note");
        assert!(drawn.contains("width=\"440.0\"") && drawn.contains("width=\"220.0\""), "{drawn}");
        assert!(drawn.contains(">8.00 · 2.00 ×"), "{drawn}");
        assert!(drawn.contains("The same server twice: 1.000 ×."), "{drawn}");
        assert!(drawn.contains(">a&lt;b<") && !drawn.contains("a<b"), "names are text");
        assert!(drawn.contains("prefers-color-scheme:dark"));
        assert_eq!(Ok(Some(drawn)), picture(&Report::of(&run)), "a pure function");
    }

    #[test]
    fn there_is_none_where_bars_would_hide_something() {
        let factor = "factors.\"workload.connections\" = [1, 2]\n";
        let run = synthetic(&format!("{TEXT}{factor}"), &metrics);
        assert_eq!(picture(&Report::of(&run)), Ok(None), "two settings");
        let mut run = synthetic(TEXT, &metrics);
        run.records.iter_mut().for_each(|record| record.valid = false);
        assert_eq!(picture(&Report::of(&run)), Ok(None), "no trial counts");
    }
}
