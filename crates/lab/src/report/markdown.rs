//! The report as Markdown.

use super::Report;
use super::figure::{Figure, Section};
use super::figures::figures;
use super::page::{effect_words, interval_words};
use super::tables::{Table, numbers};
use crate::units::date::date;
use crate::units::words;
use std::fmt::{self, Write};

/// Trials that do not count and are named; `trials.csv` has all.
const INVALID_MAX: usize = 40;

/// The whole report but its drawings.
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
    missing(report, out)?;
    if !report.claims.is_empty() {
        writeln!(out, "## Claims of the papers\n")?;
        writeln!(out, "| claim | says | paper | here | verdict |\n|---|---|---|---|---|")?;
        for one in &report.claims {
            let here = format!("{} {}", one.ours, one.why);
            let row = [&one.id, &one.gist, &one.paper, &here].map(|text| escaped(text));
            writeln!(out, "| {} | {} |", row.join(" | "), one.verdict_words())?;
        }
        writeln!(out)?;
    }
    let figures = figures(report);
    let of = |section| figures.iter().filter(move |figure| figure.section == section);
    of(Section::Papers).try_for_each(|figure| figure_table(figure, out))?;
    compared(report, out)?;
    writeln!(out, "## Numbers\n")?;
    table(&numbers(analysis), "---:|", out)?;
    for section in Section::ALL.into_iter().filter(|section| *section != Section::Papers) {
        if of(section).any(|figure| figure.table.is_some()) {
            writeln!(out, "## {}\n", section.title())?;
        }
        of(section).try_for_each(|figure| figure_table(figure, out))?;
    }
    not_counted(report, out)?;
    writeln!(out, "{}", report.verification())
}

/// What the page's box says of a run that lacks something.
fn missing(report: &Report<'_>, out: &mut String) -> fmt::Result {
    let all = report.lacks();
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "## What this run lacks\n")?;
    all.iter().try_for_each(|one| writeln!(out, "* {}", one.replace('\n', " ")))?;
    writeln!(out)
}

/// Ratios to the baseline, where there are pairs.
fn compared(report: &Report<'_>, out: &mut String) -> fmt::Result {
    let analysis = &report.analysis;
    if analysis.effects.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Compared with {}\n", report.run.experiment.baseline)?;
    writeln!(out, "Ratios of {} within blocks.\n", words(&analysis.metric))?;
    writeln!(out, "| arm | ratio | 95 % interval | p (Holm) | verdict |\n|---|---:|---|---:|---|")?;
    for row in &analysis.effects {
        let (name, interval) = (escaped(&row.cell.name()), interval_words(row));
        let (ratio, corrected, verdict) = (row.effect.ratio, row.corrected, effect_words(row));
        writeln!(out, "| {name} | {ratio:.3} | {interval} | {corrected:.4} | {verdict} |")?;
    }
    writeln!(out)
}

/// A figure's table under its title; nothing where it has none.
fn figure_table(figure: &Figure, out: &mut String) -> fmt::Result {
    let Some(rows) = &figure.table else { return Ok(()) };
    writeln!(out, "### {}\n\n{}\n", figure.title, figure.caption)?;
    table(rows, "---|", out)
}

/// A table whose columns but the first are aligned by `column`.
fn table(table: &Table, column: &str, out: &mut String) -> fmt::Result {
    let line = |row: &[String]| {
        let cells: Vec<String> = row.iter().map(|text| escaped(text)).collect();
        format!("| {} |", cells.join(" | "))
    };
    let others = column.repeat(table.head.len().saturating_sub(1));
    writeln!(out, "{}\n|---|{others}", line(&table.head))?;
    table.rows.iter().try_for_each(|row| writeln!(out, "{}", line(row)))?;
    writeln!(out)
}

/// Trials that do not count, with their reasons.
fn not_counted(report: &Report<'_>, out: &mut String) -> fmt::Result {
    let records = || report.run.records.iter().filter(|record| !record.valid);
    let all = records().count();
    if all == 0 {
        return Ok(());
    }
    writeln!(out, "## Trials that do not count\n")?;
    writeln!(out, "| trial | attempt | arm | why |\n|---:|---:|---|---|")?;
    for record in records().take(INVALID_MAX) {
        let (name, why) = (escaped(&record.cell.name()), escaped(&record.reasons.join("; ")));
        writeln!(out, "| {} | {} | {name} | {why} |", record.trial, record.attempt)?;
    }
    if all > INVALID_MAX {
        writeln!(out, "\n{} more stand in trials.csv.", all - INVALID_MAX)?;
    }
    writeln!(out)
}

/// Text that does not end its cell.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").trim().to_owned()
}
