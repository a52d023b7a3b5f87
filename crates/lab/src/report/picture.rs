//! One picture of a run for a page that is not the report: a bar for each arm, as SVG that needs
//! nothing else and follows the reader's light or dark theme. The same bytes for the same run.

use super::Report;
use crate::analysis::{CellSummary, EffectRow, Summary};
use crate::profile::flame::escaped;
use crate::units::date::date;
use crate::units::{show, words};
use std::fmt::{self, Write};

const WIDTH: f64 = 840.0;
/// Where bars begin, behind the arms' names, and how long the longest interval may reach.
const LEFT: f64 = 150.0;
const LONGEST: f64 = 440.0;
/// Height of a bar with the space below it, of the bar alone, and of what stands above the bars.
const ROW: f64 = 34.0;
const BAR: f64 = 20.0;
const HEAD: f64 = 66.0;
const FOOT: f64 = 60.0;

/// Colours of the two themes: text, secondary text, bars, the baseline's bar, whiskers.
const STYLE: &str = "\
text{font:14px system-ui,sans-serif;fill:#1f2328}.s{font-size:12px;fill:#59636e}\
.t{font-size:16px;font-weight:600}.b{fill:#8fa8c8}.o{fill:#1f6feb}\
.w{stroke:#1f2328;stroke-width:1.5}@media(prefers-color-scheme:dark){text{fill:#e6edf3}\
.s{fill:#9198a1}.b{fill:#4b5f7a}.o{fill:#4493f8}.w{stroke:#e6edf3}}";

/// The picture; None where arms have several settings, of which bars could show only one, or no
/// trial counts.
pub(crate) fn picture(report: &Report<'_>) -> Option<String> {
    let analysis = &report.analysis;
    let metric = &analysis.metric;
    let mut bars: Vec<(&CellSummary, &Summary)> = Vec::new();
    for one in analysis.cells.iter().filter(|one| !report.arms[report.arm(&one.cell)].again) {
        let told = bars.iter().any(|(other, _)| other.cell.arm == one.cell.arm);
        if told || !one.cell.levels.is_empty() {
            return None;
        }
        bars.extend(one.metrics.get(metric).map(|summary| (one, summary)));
    }
    let most = bars.iter().map(|(_, summary)| summary.interval.high).fold(0.0, f64::max);
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = draw(report, &bars, LONGEST / most, &mut out);
    (most > 0.0).then_some(out)
}

fn draw(
    report: &Report<'_>,
    bars: &[(&CellSummary, &Summary)],
    scale: f64,
    out: &mut String,
) -> fmt::Result {
    let height = HEAD + ROW * crate::stats::count(bars.len()) + FOOT;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" \
         role=\"img\"><style>{STYLE}</style>"
    )?;
    let analysis = &report.analysis;
    let title = format!("{}{}", words(&analysis.metric), unit(&analysis.metric));
    text(out, "t", (10.0, 26.0), &title)?;
    let better = if analysis.more_is_better { "longer" } else { "shorter" };
    let times = format!(
        "{better} is better; ×: times {}, with its 95 % interval",
        report.run.experiment.baseline
    );
    text(out, "s", (10.0, 46.0), &times)?;
    for (row, (one, summary)) in bars.iter().enumerate() {
        let effect = analysis.effects.iter().find(|effect| effect.cell == one.cell);
        bar(out, HEAD + ROW * crate::stats::count(row), one, summary, scale, effect)?;
    }
    let manifest = &report.run.manifest;
    let about = format!(
        "lab run {}, {}: {} trials. {}",
        report.run.experiment.name,
        date(manifest.started_unix_ms),
        analysis.trials.0,
        same_twice(report)
    );
    let machine = report.machine();
    // The machine, and where server and load ran on it.
    let (machine, placed) = machine.split_once(". ").unwrap_or((&machine, ""));
    for (line, words) in [&about, machine, placed].into_iter().enumerate() {
        let y = height - FOOT + 20.0 + 16.0 * crate::stats::count(line);
        text(out, "s", (10.0, y), words)?;
    }
    writeln!(out, "</svg>")
}

/// An arm's name, its bar with a whisker for the median's interval, the number and the ratio.
fn bar(
    out: &mut String,
    y: f64,
    one: &CellSummary,
    summary: &Summary,
    scale: f64,
    effect: Option<&EffectRow>,
) -> fmt::Result {
    let [low, middle, high] =
        [summary.interval.low, summary.median, summary.interval.high].map(|value| value * scale);
    let line = y + BAR / 2.0;
    text(out, "", (10.0, line + 5.0), &one.cell.arm)?;
    let class = if effect.is_none() { "o" } else { "b" };
    writeln!(
        out,
        "<rect class=\"{class}\" x=\"{LEFT:.0}\" y=\"{y:.1}\" width=\"{middle:.1}\" \
         height=\"{BAR:.0}\" rx=\"3\"/><line class=\"w\" x1=\"{:.1}\" x2=\"{:.1}\" \
         y1=\"{line:.1}\" y2=\"{line:.1}\"/>",
        LEFT + low,
        LEFT + high
    )?;
    let ratio = effect.map_or(String::new(), |row| {
        let between = row.effect.interval.map_or(String::new(), |interval| {
            format!(" ({:.2} to {:.2})", interval.low, interval.high)
        });
        format!(" · {:.2} ×{between}", row.effect.ratio)
    });
    let label = format!("{}{ratio}", show(summary.median));
    text(out, "", (LEFT + high + 10.0, line + 5.0), &label)
}

/// The unit of a number, from its name's end.
fn unit(metric: &str) -> &'static str {
    let ends = [("_us_per_reply", ", µs"), ("_ms", ", ms"), ("_per_s", ", per second")];
    ends.into_iter().find(|(end, _)| metric.ends_with(end)).map_or("", |(_, unit)| unit)
}

/// How far the baseline is from itself: what the picture cannot tell apart.
fn same_twice(report: &Report<'_>) -> String {
    let again = |row: &&EffectRow| report.arms[report.arm(&row.cell)].again;
    report
        .analysis
        .effects
        .iter()
        .find(again)
        .map_or(String::new(), |row| format!("The same server twice: {:.3} ×.", row.effect.ratio))
}

fn text(out: &mut String, class: &str, (x, y): (f64, f64), words: &str) -> fmt::Result {
    let words = escaped(words);
    writeln!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>")
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
        let drawn = picture(&Report::of(&run)).unwrap();
        assert_eq!(drawn.matches("<rect").count(), 2, "the second run of the baseline is a note");
        assert!(drawn.contains("width=\"440.0\"") && drawn.contains("width=\"220.0\""), "{drawn}");
        assert!(drawn.contains(">8.00 · 2.00 ×"), "{drawn}");
        assert!(drawn.contains("The same server twice: 1.000 ×."), "{drawn}");
        assert!(drawn.contains(">a&lt;b<") && !drawn.contains("a<b"), "names are text");
        assert!(drawn.contains("prefers-color-scheme:dark"));
        assert_eq!(Some(drawn), picture(&Report::of(&run)), "a pure function");
    }

    #[test]
    fn there_is_none_where_bars_would_hide_something() {
        let factor = "factors.\"workload.connections\" = [1, 2]\n";
        let run = synthetic(&format!("{TEXT}{factor}"), &metrics);
        assert_eq!(picture(&Report::of(&run)), None, "two settings");
        let mut run = synthetic(TEXT, &metrics);
        run.records.iter_mut().for_each(|record| record.valid = false);
        assert_eq!(picture(&Report::of(&run)), None, "no trial counts");
    }
}
