//! Two runs side by side. They were not interleaved, so the machine's drift between them is in
//! every difference; the work that a reply takes (instructions) hardly drifts.

use crate::analysis::{Analysis, CellSummary, words};
use crate::journal::Run;
use crate::report::show;
use crate::stats::{Random, mean, percentile};
use std::fmt::Write;

/// Seed of the bootstraps.
const SEED: u64 = 2_012;
/// The numbers compared besides the one that decides.
const BESIDE: [&str; 3] =
    ["user_instructions_per_reply", "kernel_instructions_per_reply", "cpu_us_per_reply"];

/// What differs between two runs, as Markdown.
pub(crate) fn compare(before: &Run, after: &Run) -> String {
    let (a, b) = (Analysis::of(before), Analysis::of(after));
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "{} and {}\n\nRuns made at different times: what the machine did in between is in these \
         differences. For a sure answer run both in one experiment, each with its `binary`.\n",
        before.directory.display(),
        after.directory.display()
    );
    let (old, new) = (&before.manifest.machine, &after.manifest.machine);
    for (name, value) in old.iter().filter(|(name, _)| !name.starts_with("load average")) {
        match new.get(name) {
            Some(other) if other != value => {
                let _ = writeln!(out, "* {name}: {value} before, {other} after");
            }
            _ => {}
        }
    }
    let mut metrics = vec![a.metric.as_str()];
    metrics.extend(BESIDE.iter().filter(|name| **name != a.metric));
    for metric in metrics {
        let rows: Vec<String> =
            a.cells.iter().filter_map(|cell| row(cell, &b, before, after, metric)).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n{}\n\n| arm | before | after | ratio |", words(metric));
        let _ = writeln!(out, "|---|---:|---:|---|");
        rows.iter().for_each(|row| out.push_str(row));
    }
    out
}

fn row(
    cell: &CellSummary,
    other: &Analysis,
    before: &Run,
    after: &Run,
    metric: &str,
) -> Option<String> {
    let same = other.cell(&cell.cell.arm, &cell.cell.levels)?;
    let (old, new) = (cell.metrics.get(metric)?, same.metrics.get(metric)?);
    let values = |run: &Run| -> Vec<f64> {
        let trials = run.valid().filter(|record| record.cell == cell.cell);
        trials.filter_map(|record| Some(record.metrics.get(metric)?.ln())).collect()
    };
    let name = format!("{} {}", cell.cell.arm, crate::run::levels(&cell.cell));
    let ratio = ratio(&values(after), &values(before));
    let (old, new) = (show(old.median), show(new.median));
    Some(format!("| {} | {old} | {new} | {ratio} |\n", name.trim_end()))
}

/// The ratio of two samples of logarithms, with the interval of their difference (Welch: the
/// deviations of the two means add as squares).
fn ratio(above: &[f64], below: &[f64]) -> String {
    let difference = mean(above) - mean(below);
    let error = |sample: &[f64]| {
        let mut random = Random::new(SEED);
        let found = percentile(sample, mean, 0.95, true, 2_000, &mut random);
        found.map_or(f64::NAN, |interval| (interval.high - interval.low) / 2.0)
    };
    let reach = error(above).hypot(error(below));
    if reach.is_nan() {
        return format!("{:.3} (too few trials)", difference.exp());
    }
    let (low, high) = ((difference - reach).exp(), (difference + reach).exp());
    let told = match () {
        () if low > 1.0 => "more",
        () if high < 1.0 => "less",
        () => "no difference seen",
    };
    format!("{:.3} ({low:.3} to {high:.3}) {told}", difference.exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::made_up;
    use std::collections::BTreeMap;

    const TEXT: &str = r#"
experiment = { name = "made-up", question = "?", expect = "!" }
targets.a.program = "regatta"
workload.root = "."
measure.blocks = 12
"#;

    #[test]
    fn what_changed_is_told_with_its_interval() {
        let work = |instructions: f64| {
            made_up(TEXT, &move |_| {
                let noise = BTreeMap::from([("good_per_s".to_owned(), 1_000.0)]);
                let mut all = noise;
                all.insert("user_instructions_per_reply".to_owned(), instructions);
                all
            })
        };
        let text = compare(&work(2_000.0), &work(2_200.0));
        assert!(text.contains("| a | 2,000 | 2,200 | 1.100 (1.100 to 1.100) more |"), "{text}");
        assert!(text.contains("no difference seen"), "{text}");
        assert!(text.contains("different times"), "{text}");
    }
}
