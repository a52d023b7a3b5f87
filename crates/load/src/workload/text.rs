//! Reports as text for people: aligned columns, thousands grouped, units named.

use super::manifest::{Model, Phase};
use super::report::{Logs, Offered, Report};
use indicatif::HumanCount;
use std::fmt::Write as _;
use std::io::{self, Write};

const MIB: f64 = 1_048_576.0;
const CLASS_NAMES: [&str; 4] = ["< 1 KiB", "< 10 KiB", "< 100 KiB", ">= 100 KiB"];

/// A count with its thousands grouped: 24,480.
pub fn grouped(count: u64) -> String {
    HumanCount(count).to_string()
}

/// Writes a report.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    files(report, out)?;
    table_1(report, out)?;
    if let Some(offered) = &report.offer {
        write_offer(offered, out)?;
    }
    if let Some(logs) = &report.logs {
        write_logs(logs, out)?;
    }
    if !report.predictions.is_empty() {
        writeln!(out, "\nPredictions")?;
        for p in &report.predictions {
            let value = format!("{} {}", number(p.value), p.unit);
            writeln!(out, "  {:<40} {:>24}   {}", p.what, value.trim_end(), p.formula)?;
        }
    }
    Ok(())
}

fn files(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let files = &report.files;
    let dirs = files.dirs.map_or(String::new(), |d| format!(", {} directories", grouped(d.into())));
    writeln!(
        out,
        "{}: {} files, {} bytes ({:.1} MiB){dirs}",
        report.name,
        grouped(files.files.into()),
        grouped(files.bytes),
        files.bytes as f64 / MIB,
    )?;
    writeln!(out, "  mean reply body  {:.2} bytes", files.mean_reply_bytes)?;
    let share = 100.0 * files.hottest_share;
    writeln!(out, "  hottest          {} with {share:.1} % of the requests", files.hottest)?;
    writeln!(out, "\n  class            files             bytes  requests %  bytes %")?;
    for (name, class) in CLASS_NAMES.iter().zip(&files.classes) {
        writeln!(
            out,
            "  {name:<10} {:>11} {:>17} {:>11.2} {:>8.2}",
            grouped(class.files),
            grouped(class.bytes),
            100.0 * class.share,
            100.0 * class.byte_share,
        )?;
    }
    if report.sizes.len() > 1 {
        writeln!(out, "\n  size B      files    requests %     cum. %   cum. bytes %   cum. MiB")?;
    }
    for size in report.sizes.iter().filter(|_| report.sizes.len() > 1) {
        writeln!(
            out,
            "  {:>8} {:>8} {:>13.4} {:>10.3} {:>14.3} {:>10.2}",
            size.bytes,
            grouped(size.files),
            100.0 * size.share,
            100.0 * size.requests_upto,
            100.0 * size.bytes_upto,
            size.memory_upto as f64 / MIB,
        )?;
    }
    Ok(())
}

fn table_1(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    if report.table_1.len() < 8 {
        return Ok(());
    }
    writeln!(out, "\n  Memory that answers a share of the requests, by file size ([S] Table 1)")?;
    type Cell = fn(&super::report::ReachRow) -> String;
    let rows: [(&str, Cell); 5] = [
        ("% requests", |r| format!("{:.0}", 100.0 * r.all.requests)),
        ("MiB, in any order", |r| format!("{:.1}", r.all.memory_within as f64 / MIB)),
        ("MiB, files asked for", |r| format!("{:.1}", r.memory_touched as f64 / MIB)),
        ("MiB, whole sizes", |r| format!("{:.1}", r.all.memory as f64 / MIB)),
        ("file size, bytes", |r| grouped(r.all.file_bytes)),
    ];
    for (name, cell) in rows {
        let mut line = format!("  {name:<20}");
        for row in &report.table_1 {
            // Writing to a string cannot fail.
            let _ = write!(line, " {:>9}", cell(row));
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn write_offer(offered: &Offered, out: &mut dyn Write) -> io::Result<()> {
    let offer = &offered.offer;
    let model = match (offer.model, offer.clients) {
        (Model::PartlyOpen, _) => "partly open: --session-rate".to_owned(),
        (Model::Closed, None) => "closed: --closed".to_owned(),
        (Model::Closed, Some((least, most))) => format!("closed: --closed {least} to {most}"),
        (Model::Replay, _) => "partly open, at the times of the log".to_owned(),
    };
    writeln!(out, "\nOffered by `regatta load --workload`")?;
    let mut line = |name: &str, value: Option<String>| match value {
        Some(value) => writeln!(out, "  {name:<16} {value}"),
        None => Ok(()),
    };
    line("model", Some(model))?;
    let timeout = (offer.timeout_ms > 0).then(|| format!("{} ms", grouped(offer.timeout_ms)));
    line("time-out", timeout)?;
    let swept = offer.requests_per_s.map(|(a, b)| format!("{a:.0} to {b:.0} in its paper"));
    line("requests/s", swept)?;
    line("warm-up", (offer.warm_up_s > 0).then(|| format!("{} s", offer.warm_up_s)))?;
    line("line", offered.line_bits_per_s.map(|line| format!("{} bit/s", grouped(line))))?;
    let phase = |phase: &Phase| format!("{} s at {:.0} %", phase.seconds, 100.0 * phase.share);
    let phases: Vec<String> = offer.phases.iter().map(phase).collect();
    line("phases", (!phases.is_empty()).then(|| phases.join(", ")))?;
    let idle = u64::from(offer.idle_connections);
    line("idle connections", (idle > 0).then(|| grouped(idle)))?;
    line("altered file", offer.altered.map(|altered| altered.to_string()))?;
    let cache = offer.cache_ratio.map(|ratio| format!("{:.0} % of the files", 100.0 * ratio));
    let by_others = " (not by load: limit the server's memory)";
    line("page cache", cache.map(|cache| cache + by_others))
}

fn write_logs(logs: &Logs, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\nSession logs: {} with {} sessions, {} requests in {} bursts",
        logs.logs,
        grouped(logs.sessions),
        grouped(logs.requests),
        grouped(logs.bursts),
    )?;
    writeln!(out, "  requests/session {:.3}", logs.requests_per_session)?;
    writeln!(out, "  off time         {:.4} s per request", logs.off_s_per_request)?;
    writeln!(out, "  mean reply body  {:.2} bytes", logs.mean_reply_bytes)?;
    writeln!(
        out,
        "  distinct files   {} ({:.0} expected), {:.1} MiB",
        grouped(logs.distinct_files),
        logs.distinct_expected,
        logs.distinct_bytes as f64 / MIB,
    )?;
    writeln!(out, "  classes          {}", logs.classes.map(grouped).join(" "))?;
    let lengths: Vec<String> = quantiles(logs).iter().map(|(q, n)| format!("{q} {n}")).collect();
    writeln!(out, "  session lengths  {}", lengths.join(", "))?;
    if logs.unknown > 0 {
        writeln!(out, "  outside the set  {}", grouped(logs.unknown))?;
    }
    for problem in &logs.problems {
        writeln!(out, "  NOT ACCEPTED     {problem}")?;
    }
    Ok(())
}

/// Least, quartiles, 90th and 99th percentile, and most requests per session.
fn quantiles(logs: &Logs) -> Vec<(&'static str, usize)> {
    let total: u64 = logs.lengths.values().sum();
    let marks = [
        ("least", 0.0),
        ("25 %", 0.25),
        ("50 %", 0.5),
        ("75 %", 0.75),
        ("90 %", 0.9),
        ("99 %", 0.99),
        ("most", 1.0),
    ];
    let at = |share: f64| {
        let mut upto = 0;
        let reached = logs.lengths.iter().find(|&(_, &count)| {
            upto += count;
            upto as f64 >= share * total as f64
        });
        reached.map_or(0, |(&length, _)| length)
    };
    marks.iter().map(|&(name, share)| (name, at(share))).collect()
}

/// A number with digits that its size deserves.
fn number(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => value.to_string(),
        size if size >= 1_000.0 => grouped(crate::number::rounded(value)),
        size if size >= 10.0 => format!("{value:.2}"),
        size if size >= 0.1 => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (count, text) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (3_481_249_120, "3,481,249,120")]
        {
            assert_eq!(grouped(count), text);
        }
        for (value, text) in
            [(7_790.4, "7,790"), (31.14, "31.14"), (0.5227, "0.523"), (0.0053, "0.00530")]
        {
            assert_eq!(number(value), text);
        }
    }
}
