//! The result for people (a table), for plots (HdrHistogram text), and for spreadsheets (CSV).

use super::fate::Fate;
use super::outcome::{Outcome, Reason, Stamp};
use super::play::Idled;
use super::slo::{Verdict, short, show};
use super::tally::{Handshakes, Percentile, Row, Sessions, Spectrum};
use crate::number::share;
use crate::workload::alter::Rewritten;
use regatta_sys::terminal;
use serde_json::Value;
use std::fmt::{self, Write};

pub(super) const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];
const CLASSES: [&str; 5] = ["< 1 KiB", "< 10 KiB", "< 100 KiB", ">= 100 KiB", "unknown"];

/// Bytes of a label and the blanks after it.
const LABEL: usize = 11;

pub(super) fn table(outcome: &Outcome) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_table(outcome, &mut out);
    out.lines().map(|line| fit(line) + "\n").collect()
}

/// Wraps a line that is too wide. Further lines begin below its text.
fn fit(line: &str) -> String {
    if line.chars().count() <= terminal::COLUMNS {
        return line.to_owned();
    }
    let (head, text) = match line.split_at_checked(LABEL) {
        Some((label, text)) if label.ends_with("  ") => (label, text.trim_start()),
        _ => line.split_at(line.len() - line.trim_start().len()),
    };
    let indent = if head.len() == LABEL { LABEL } else { head.len() + 2 };
    terminal::continued(head, text, terminal::COLUMNS, indent)
}

fn write_table(outcome: &Outcome, out: &mut String) -> fmt::Result {
    let partial = if outcome.interrupted { " (interrupted: a partial result)" } else { "" };
    writeln!(out, "{}  {} model, {}", outcome.url, outcome.model, outcome.load)?;
    writeln!(out, "{}{partial}", extent(outcome))?;
    write_workload(outcome, out)?;
    writeln!(out)?;
    writeln!(out, "{}", outcome.stamp.name())?;
    for found in &outcome.reasons {
        writeln!(out, "  {}", reason(found))?;
    }
    writeln!(out)?;
    let good = outcome.fates.get(Fate::Good);
    writeln!(out, "offered    {:>12} requests {:>12.1}/s", outcome.offered, outcome.offered_per_s)?;
    let mbit = outcome.good_mbit_per_s;
    writeln!(
        out,
        "good       {good:>12} answers  {:>12.1}/s  {mbit:.1} Mbit/s",
        outcome.good_per_s
    )?;
    let errors = outcome.fates.errors();
    writeln!(out, "errors     {errors:>12}          {:>12.3} %", 100.0 * outcome.error_share())?;
    for fate in Fate::ALL.into_iter().filter(|&fate| fate != Fate::Good) {
        let count = outcome.fates.get(fate);
        if count > 0 {
            writeln!(out, "  {:<16} {count:>6}", fate.name())?;
        }
    }
    let answers = outcome.fates.sum(Fate::is_answer) + outcome.fates.sum(Fate::is_lie);
    writeln!(out, "statuses   {:>12}", statuses(outcome))?;
    let percent = 100.0 * share(outcome.verified, answers);
    writeln!(out, "verified   {:>12} bodies   {percent:>12.1} %", outcome.verified)?;
    writeln!(out)?;
    write_times(outcome, out)?;
    write_histogram(outcome.latency(), out)?;
    write_parts(outcome, out)?;
    write_health(outcome, out)?;
    write_level(outcome, out)?;
    writeln!(out, "\n{}", clock_note(outcome))
}

/// Length of the measurement, seed, and shards.
pub(super) fn extent(outcome: &Outcome) -> String {
    let shards = outcome.shards.iter().map(|shards| format!(", {}", shards.words()));
    let shards: String = shards.collect();
    format!("{:.2} s measured, seed {}{shards}", outcome.seconds, outcome.seed)
}

/// Says whether coordinated omission hides stalls of the server from the times.
pub(super) fn clock_note(outcome: &Outcome) -> String {
    if outcome.response.is_some() {
        let what = "response times count from the moment when a request was due: a stall of the \
                    server is in the times of all requests that were due in it (there is no \
                    coordinated omission)";
        return format!("note: {what}");
    }
    let what = "these connections wait for the server, so its stalls hide from the times \
                (coordinated omission)";
    match rate_to_try(outcome) {
        None => format!("note: {what}"),
        Some(rate) => format!("hint: {what}; users do not wait: --rate {rate:.0}"),
    }
}

/// Rate for an open loop after a plain closed one that had good answers: half of what the closed
/// loop reached.
fn rate_to_try(outcome: &Outcome) -> Option<f64> {
    let half = outcome.good_per_s / 2.0;
    if outcome.model != "closed" || outcome.workload.is_some() || half < 1.0 {
        return None;
    }
    let unit = 10_f64.powf(half.log10().floor() - 1.0).max(1.0);
    Some((half / unit).round() * unit)
}

/// A reason, after the stamp that it asks for.
pub(super) fn reason(reason: &Reason) -> String {
    let mark = if reason.stamp == Stamp::Valid { "note" } else { reason.stamp.name() };
    format!("{mark}: {}", reason.why)
}

fn write_level(outcome: &Outcome, out: &mut String) -> fmt::Result {
    let Some(level) = &outcome.level else { return Ok(()) };
    for term in &outcome.slo {
        let found = match (term.met, term.met_by_server) {
            (true, _) => "holds",
            (false, true) => "does not hold, because of the client",
            (false, false) => "DOES NOT HOLD",
        };
        writeln!(out, "level      {}: {found}", term.term)?;
    }
    match level.verdict {
        Verdict::Met => writeln!(out, "level      met"),
        Verdict::Missed => writeln!(out, "level      MISSED: {}", level.why),
        Verdict::NotJudged => writeln!(out, "level      not judged: {}", level.why),
    }
}

/// Answers by the class of their status, and by each status other than 200.
fn statuses(outcome: &Outcome) -> String {
    let names = ["?", "1xx", "2xx", "3xx", "4xx", "5xx"];
    let class_of = |code: &u16| usize::from(code / 100).min(5);
    let words = |(class, (name, count)): (usize, (&&str, u64))| {
        let codes = outcome.codes.iter().filter(|(code, _)| class_of(code) == class);
        let codes: Vec<String> = codes.map(|(code, count)| format!("{count} {code}")).collect();
        let codes =
            if codes.is_empty() { String::new() } else { format!(" ({})", codes.join(", ")) };
        format!("{count} {name}{codes}")
    };
    let all = names.iter().zip(outcome.statuses).enumerate();
    let found: Vec<String> = all.filter(|(_, (_, count))| *count > 0).map(words).collect();
    if found.is_empty() { "none".to_owned() } else { found.join(", ") }
}

fn write_workload(outcome: &Outcome, out: &mut String) -> fmt::Result {
    let Some(taken) = &outcome.workload else { return Ok(()) };
    let options = match taken.options.as_slice() {
        [] => "nothing taken from it: the options say all".to_owned(),
        options => options.join(" "),
    };
    writeln!(out, "workload {}: {options}", taken.name)?;
    taken.not_done.iter().try_for_each(|what| writeln!(out, "  NOT DONE BY LOAD: {what}"))
}

fn write_times(outcome: &Outcome, out: &mut String) -> fmt::Result {
    write!(out, "{:<9}", "time")?;
    for (name, _) in QUANTILES {
        write!(out, " {name:>9}")?;
    }
    writeln!(out, " {:>9}", "mean")?;
    for (name, cells) in time_rows(outcome) {
        write!(out, "{name:<9}")?;
        cells.iter().try_for_each(|cell| write!(out, " {cell:>9}"))?;
        writeln!(out)?;
    }
    let response = if outcome.response.is_some() { "response: from due, " } else { "" };
    writeln!(out, "({response}service: from first attempt, connect, tls: per connection)")?;
    writeln!(out)
}

/// Rows of the table of times: a name, and the cells of [`QUANTILES`] and of the mean.
pub(super) fn time_rows(outcome: &Outcome) -> Vec<(&'static str, Vec<String>)> {
    let response = outcome.response.iter().map(|response| ("response", time_cells(response)));
    let service = [("service", time_cells(&outcome.service))];
    let phases = &outcome.phases;
    let others = [
        ("failed", &outcome.failed),
        ("  connect", &phases.connect),
        ("  tls", &phases.handshake),
        ("  send", &phases.send),
        ("  wait", &phases.wait),
        ("  receive", &phases.receive),
        ("lag", &outcome.lag),
    ];
    let others = others.into_iter().filter(|(_, hdr)| hdr.count() > 0).map(|(name, hdr)| {
        (name, time_cells(&Spectrum { times: hdr.clone(), ..Spectrum::default() }))
    });
    response.chain(service).chain(others).collect()
}

fn time_cells(spectrum: &Spectrum) -> Vec<String> {
    let all = spectrum.samples() as f64;
    let cell = |(_, q): (&str, f64)| {
        let at = spectrum.at(q);
        match at.censored {
            true => bound(at),
            false if !is_reported(q, all) => "-".to_owned(),
            false => short(at.ns as f64),
        }
    };
    let mean = short(spectrum.times.mean());
    QUANTILES.into_iter().map(cell).chain([mean]).collect()
}

/// Whether a quantile of `samples` samples is printed. With fewer than ten beyond it, it is one of
/// them and no estimate.
pub(super) fn is_reported(q: f64, samples: f64) -> bool {
    q >= 1.0 || samples * (1.0 - q) >= 10.0
}

/// A percentile among the failed: the least that it can be, or `failed` if that is unknown.
fn bound(at: Percentile) -> String {
    if at.ns == 0 { "failed".to_owned() } else { format!(">={}", short(at.ns as f64)) }
}

/// Bars of the histogram, and columns of the longest.
const BARS_MAX: usize = 14;
const BAR_COLUMNS: u64 = 50;

/// Draws the times of answers, in bins that each grow by the same factor. A bar that would be
/// shorter than a column is a dot.
fn write_histogram(spectrum: &Spectrum, out: &mut String) -> fmt::Result {
    let bins = spectrum.times.bins(BARS_MAX);
    let most = bins.iter().map(|bin| bin.1).max().unwrap_or(0);
    if most == 0 {
        return Ok(());
    }
    for (end, count) in bins {
        let columns = usize::try_from(count * BAR_COLUMNS / most).unwrap_or(0);
        let bar = if columns == 0 && count > 0 { ".".to_owned() } else { "#".repeat(columns) };
        let percent = 100.0 * share(count, spectrum.times.count());
        writeln!(out, "<={:>8} |{bar:<50}| {percent:>7.3} %", short(end as f64))?;
    }
    writeln!(out)
}

fn write_parts(outcome: &Outcome, out: &mut String) -> fmt::Result {
    let classes = outcome.classes.iter().zip(CLASSES).filter(|(class, _)| class.requests > 0);
    if classes.clone().count() > 1 {
        writeln!(out, "files        requests         good    time-outs         p50         p99")?;
        for (class, name) in classes {
            let [p50, p99] = [0.5, 0.99].map(|q| {
                let at = class.times.at(q);
                if at.censored { bound(at) } else { short(at.ns as f64) }
            });
            let (requests, good, timeouts) = (class.requests, class.good, class.timeouts);
            writeln!(
                out,
                "{name:<10} {requests:>10} {good:>12} {timeouts:>12} {p50:>11} {p99:>11}"
            )?;
        }
        writeln!(out)?;
    }
    if let Some(Sessions { arrived, done, failed, cut, most, lifetime, .. }) = &outcome.sessions {
        let [p50, p99] = [0.5, 0.99].map(|q| show(lifetime.quantile(q) as f64));
        writeln!(out, "sessions   {arrived} arrived, {done} done, {failed} failed, {cut} cut off")?;
        writeln!(out, "           {most} at once, lifetime p50 {p50}, p99 {p99}")?;
    }
    if outcome.clients.len() > 1 {
        let (clients, fairness) = (outcome.clients.len(), outcome.fairness);
        writeln!(out, "clients    {clients}, fairness (Jain) {fairness:.4}")?;
    }
    if let Some(Idled { wanted, least, again }) = outcome.idle {
        writeln!(
            out,
            "idle       {least} of {wanted} connections held at the least, {again} again"
        )?;
    }
    if let Some(Rewritten { versions, missed, late_ns }) = outcome.altered {
        let late = show(late_ns as f64);
        writeln!(out, "altered    {versions} versions, {missed} missed, at most {late} late")?;
    }
    if outcome.lines.connections > 0 {
        let (fast, all) = (outcome.lines.conforming, outcome.lines.connections);
        writeln!(out, "lines      {fast} of {all} connections above 320,000 bit/s (SPEC's floor)")?;
    }
    for ruling in outcome.rules.iter().filter(|ruling| !ruling.breaches.is_empty()) {
        writeln!(out, "rules      {} would not publish this run:", ruling.paper)?;
        ruling.breaches.iter().take(10).try_for_each(|breach| writeln!(out, "  {breach}"))?;
    }
    Ok(())
}

fn write_health(outcome: &Outcome, out: &mut String) -> fmt::Result {
    let (cpu, busy) = outcome.busiest();
    let (cpu, kept) = (100.0 * cpu, 100.0 * (busy - cpu));
    let threads = outcome.workers.len();
    let s = if threads == 1 { "" } else { "s" };
    writeln!(
        out,
        "client     {threads} thread{s}; busiest {cpu:.0} % running, {kept:.0} % kept waiting"
    )?;
    let (made, most, again) = (outcome.connected, outcome.connections_most, outcome.again);
    let connects = outcome.connects;
    writeln!(
        out,
        "           {made} of {connects} connects, {most} at once, {again} requests again"
    )?;
    if let Some(Handshakes { full, resumed, failed, agreed, fault }) = &outcome.tls {
        writeln!(out, "tls        {full} full handshakes, {resumed} resumed, {failed} failed")?;
        for words in [agreed, fault].into_iter().filter(|words| !words.is_empty()) {
            writeln!(out, "           {words}")?;
        }
    }
    let kernel = outcome.kernel;
    let (overflows, segments) = (kernel.listen_overflows, kernel.segments_again);
    let steal = kernel.steal_ticks;
    writeln!(
        out,
        "machine    {overflows} listen overflows, {segments} segments again, {steal} ticks stolen"
    )
}

/// The percentile spectrum in HdrHistogram's text format, milliseconds.
pub(super) fn hgrm(spectrum: &Spectrum) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_hgrm(spectrum, &mut out);
    out
}

fn write_hgrm(spectrum: &Spectrum, out: &mut String) -> fmt::Result {
    writeln!(
        out,
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    let all = spectrum.times.count() + spectrum.censored;
    let mut total = 0;
    for (ns, count) in spectrum.times.pairs() {
        total += count;
        let quantile = share(total, all);
        write!(out, "{:>12.6} {quantile:>2.12} {total:>10}", ns as f64 / 1e6)?;
        if total < all {
            writeln!(out, " {:>14.2}", 1.0 / (1.0 - quantile))?;
        } else {
            writeln!(out)?;
        }
    }
    let hdr = &spectrum.times;
    let (mean, stdev) = (hdr.mean() / 1e6, hdr.stdev() / 1e6);
    writeln!(out, "#[Mean    = {mean:>12.3}, StdDeviation   = {stdev:>12.3}]")?;
    writeln!(out, "#[Max     = {:>12.3}, Total count    = {all:>12}]", hdr.max() as f64 / 1e6)?;
    writeln!(
        out,
        "#[Censored = {} later than {:.3}]",
        spectrum.censored,
        spectrum.waited_ns as f64 / 1e6
    )
}

/// The columns of the CSV: fields of [`Row`].
const COLUMNS: &str = "second,counts,offered,good,errors,bytes,p50_ns,p99_ns,max_ns,in_flight,\
    connections,sessions,lag_ns,cpu_ns";

/// A line per second.
pub(super) fn csv(outcome: &Outcome) -> String {
    let line = |row: &Row| {
        let row = serde_json::to_value(row).expect("plain values are JSON");
        let cell = |column: &str| match &row[column] {
            Value::Bool(is) => u8::from(*is).to_string(),
            number => number.to_string(),
        };
        COLUMNS.split(',').map(cell).collect::<Vec<_>>().join(",") + "\n"
    };
    format!("{COLUMNS}\n") + &outcome.rows.iter().map(line).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Taken;
    use crate::engine::tally::{Class, Hdr, Health};

    const MANY: u64 = 1_234_567_890;

    /// Times of up to 1 min 23.4 s, and requests that were given up after 999.9 ms or more.
    fn spectrum(waited_ns: u64, censored: u64) -> Spectrum {
        let mut times = Hdr::fine();
        for ns in [999, 999_900, 999_900_000, 83_400_000_000] {
            times.record_n(ns, MANY);
        }
        Spectrum { times, censored, waited_ns, failed: 0 }
    }

    fn outcome() -> Outcome {
        let times = spectrum(0, 0);
        let mut outcome = Outcome {
            load: "requests 1234567 per second, poisson arrivals".to_owned(),
            seconds: 86_400.0,
            offered: MANY,
            offered_per_s: 1_234_567.8,
            good_per_s: 1_234_567.8,
            good_mbit_per_s: 123_456.7,
            response: Some(spectrum(83_400_000_000, 4 * MANY)),
            service: times.clone(),
            failed: times.times.clone(),
            lag: times.times.clone(),
            statuses: [MANY; 6],
            codes: [(304, MANY), (404, MANY), (503, MANY)].into(),
            verified: MANY,
            classes: vec![
                Class {
                    requests: MANY,
                    good: MANY,
                    timeouts: MANY,
                    times: spectrum(83_400_000_000, 4 * MANY),
                    ..Class::default()
                };
                CLASSES.len()
            ],
            sessions: Some(Sessions {
                arrived: MANY,
                done: MANY,
                failed: MANY,
                cut: MANY,
                most: MANY,
                lifetime: times.times.clone(),
                ..Sessions::default()
            }),
            idle: Some(Idled { wanted: u32::MAX, least: u32::MAX, again: MANY }),
            connects: MANY,
            connected: MANY,
            connections_most: MANY,
            again: MANY,
            workers: vec![Health::default(); 1024],
            ..Outcome::empty("http://127.0.0.1:8080/")
        };
        for hdr in [
            &mut outcome.phases.connect,
            &mut outcome.phases.send,
            &mut outcome.phases.wait,
            &mut outcome.phases.receive,
        ] {
            hdr.add(&times.times);
        }
        (outcome.lines.connections, outcome.lines.conforming) = (MANY, MANY);
        let kernel = &mut outcome.kernel;
        (kernel.listen_overflows, kernel.segments_again, kernel.steal_ticks) = (MANY, MANY, MANY);
        let why = "goodput differs between the halves of the measurement ".repeat(4);
        outcome.reasons.push(Reason { stamp: Stamp::NotSteady, why });
        outcome
    }

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        let text = table(&outcome());
        for line in text.lines() {
            assert!(line.chars().count() <= terminal::COLUMNS, "{line:?} in\n{text}");
        }
        // Columns are wide enough; they are not wrapped.
        for name in ["time", "response", "service", "failed", "  connect", "  receive", "lag"] {
            let row = text.lines().find(|line| line.starts_with(&format!("{name} ")));
            let cells = row.map(|row| row.split_whitespace().count());
            assert_eq!(cells, Some(QUANTILES.len() + 2), "{name} in\n{text}");
        }
        assert!(text.contains(">=83."), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("1234567890 404"), "{text}");
    }

    #[test]
    fn times_are_drawn() {
        let mut spectrum = Spectrum::fine();
        for (ns, count) in [(1_000_000, 900), (1_100_000, 100), (9_000_000, 1), (10, 99)] {
            spectrum.times.record_n(ns, count);
        }
        let mut text = String::new();
        write_histogram(&spectrum, &mut text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!((10..=BARS_MAX).contains(&(lines.len())), "{text}");
        let longest = lines.iter().filter(|line| line.contains(&"#".repeat(50)));
        assert_eq!(longest.count(), 1, "{text}");
        assert!(lines[0].contains('#') && text.contains("|.  "), "{text}");
        assert!(text.contains("  0.091 %"), "{text}");
        let mut text = String::new();
        write_histogram(&Spectrum::fine(), &mut text).unwrap();
        assert_eq!(text, "");
    }

    #[test]
    fn a_plain_closed_loop_gets_a_hint() {
        let closed = |good_per_s| Outcome { good_per_s, ..Outcome::empty("http://127.0.0.1/") };
        for (good_per_s, rate) in
            [(93_412.7, "--rate 47000"), (31.0, "--rate 16"), (2.0, "--rate 1")]
        {
            let hint = clock_note(&closed(good_per_s));
            assert!(hint.starts_with("hint: ") && hint.ends_with(rate), "{hint}");
        }
        let workload = Some(Taken::default());
        for outcome in [closed(0.0), Outcome { workload, ..closed(9.0) }] {
            let note = clock_note(&outcome);
            assert!(
                note.starts_with("note: ") && note.ends_with("(coordinated omission)"),
                "{note}"
            );
        }
        let response = Some(Spectrum::fine());
        let note = clock_note(&Outcome { response, ..closed(9.0) });
        assert!(note.ends_with("(there is no coordinated omission)"), "{note}");
    }

    #[test]
    fn long_lines_continue_below_their_text() {
        let words = "word ".repeat(30);
        for (head, indent) in [("level      ", 11), ("  note: ", 4), ("           ", 11)] {
            let text = fit(&(head.to_owned() + words.trim_end()));
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines.len() == 3 && lines[0].starts_with(head), "{text}");
            for line in &lines[1..] {
                assert_eq!(line.len() - line.trim_start().len(), indent, "{text}");
            }
        }
    }
}
