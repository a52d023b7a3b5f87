//! The report as Markdown.

use super::Report;
use super::figures::{Section, figures};
use super::page::{claim_words, effect_words};
use super::tables::numbers;
use crate::analysis::words;
use crate::date::date;
use std::fmt::{self, Write};

/// The whole report but its figures.
pub(crate) fn markdown(report: &Report<'_>) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write(report, &mut out);
    out
}

fn write(report: &Report<'_>, out: &mut String) -> fmt::Result {
    let (run, analysis) = (report.run, &report.analysis);
    let (experiment, manifest) = (&run.experiment, &run.manifest);
    writeln!(out, "# {}\n", experiment.question)?;
    writeln!(out, "**{}**\n", analysis.answer)?;
    writeln!(out, "Expected before the run: {}\n", experiment.expect)?;
    let (planned, whole) = analysis.blocks;
    let (valid, invalid) = analysis.trials;
    let (name, scale, when) =
        (&experiment.name, manifest.scale.name(), date(manifest.started_unix_ms));
    let floor = 100.0 * analysis.floor;
    writeln!(
        out,
        "{name}, {scale}, {when}. {whole} of {planned} blocks whole; {valid} trials count, \
         {invalid} do not; noise floor ±{floor:.1} %. {} Again: `{}`.\n",
        report.machine(),
        manifest.command
    )?;
    if !report.claims.is_empty() {
        writeln!(out, "## Claims of the papers\n")?;
        writeln!(out, "| claim | says | paper | here | verdict |\n|---|---|---|---|---|")?;
        for one in &report.claims {
            let here = format!("{} {}", one.ours, one.why);
            let row = [&one.id, &one.gist, &one.paper, &here].map(|text| escaped(text));
            writeln!(out, "| {} | {} |", row.join(" | "), claim_words(one))?;
        }
        writeln!(out)?;
    }
    papers(report, out)?;
    writeln!(out, "## Compared with {}\n", experiment.baseline)?;
    writeln!(out, "Ratios of {} within blocks.\n", words(&analysis.metric))?;
    writeln!(out, "| arm | ratio | 95 % interval | p (Holm) | verdict |\n|---|---:|---|---:|---|")?;
    for row in &analysis.effects {
        let interval = row.effect.interval.map_or("–".to_owned(), |interval| {
            format!("{:.3} to {:.3}", interval.low, interval.high)
        });
        let name = format!("{} {}", row.cell.arm, crate::run::levels(&row.cell));
        let (ratio, corrected) = (row.effect.ratio, row.corrected);
        writeln!(
            out,
            "| {} | {ratio:.3} | {interval} | {corrected:.4} | {} |",
            escaped(name.trim_end()),
            effect_words(row)
        )?;
    }
    let table = numbers(analysis);
    writeln!(out, "\n## Numbers\n\n| {} |", table.head.join(" | "))?;
    writeln!(out, "|---|{}", "---:|".repeat(table.head.len() - 1))?;
    for row in &table.rows {
        let row: Vec<String> = row.iter().map(|text| escaped(text)).collect();
        writeln!(out, "| {} |", row.join(" | "))?;
    }
    writeln!(out, "\n{}", report.verification())
}

/// The papers' numbers beside ours.
fn papers(report: &Report<'_>, out: &mut String) -> fmt::Result {
    let all = figures(report).into_iter();
    for figure in all.filter(|figure| figure.section == Section::Papers) {
        let Some(table) = figure.table else { continue };
        writeln!(out, "### {}\n\n{}\n", figure.title, figure.caption)?;
        writeln!(out, "| {} |\n|{}", table.head.join(" | "), "---|".repeat(table.head.len()))?;
        for row in &table.rows {
            let row: Vec<String> = row.iter().map(|text| escaped(text)).collect();
            writeln!(out, "| {} |", row.join(" | "))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Text that does not end its cell.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").trim().to_owned()
}
