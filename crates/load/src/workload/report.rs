//! The report of `inspect`: a file set, its logs, and the predictions of §3.9, as one value and as
//! text for people.

use super::fault::Fault;
use super::files::FileSet;
use super::manifest::{Model, Offer, Phase, Tally, Workload};
use super::model::{self, Item, REACHES, Reach};
use super::popularity::Popularity;
use super::specweb::FILES_PER_DIR;
use crate::number::rounded;
use clap::Args;
use indicatif::HumanCount;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Everything that `inspect` prints; its JSON form is this, field by field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub name: String,
    pub files: Files,
    pub table_1: Vec<ReachRow>,
    /// Sizes, smallest first; empty when there are over 100.
    pub sizes: Vec<Size>,
    /// Offer of a workload, line speed included, as `regatta load --workload` reads it.
    pub offer: Option<Offered>,
    pub logs: Option<Logs>,
    pub predictions: Vec<Prediction>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Offered {
    #[serde(flatten)]
    pub offer: Offer,
    pub line_bits_per_s: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Files {
    pub files: u32,
    pub dirs: Option<u32>,
    pub bytes: u64,
    /// Mean reply body, bytes: Σ p·s.
    pub mean_reply_bytes: f64,
    /// Share of requests that the most popular directory gets; of the most popular file in a set
    /// without directories.
    pub hottest_share: f64,
    pub hottest: String,
    pub classes: Vec<Class>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Class {
    pub files: u64,
    pub bytes: u64,
    pub share: f64,
    pub byte_share: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Size {
    pub bytes: u64,
    pub files: u64,
    pub share: f64,
    /// Share of requests up to and with this size.
    pub requests_upto: f64,
    pub bytes_upto: f64,
    pub memory_upto: u64,
}

/// A column of \[S\] Table 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReachRow {
    #[serde(flatten)]
    pub all: Reach,
    /// `memory_within` of files that the logs, or the number of requests asked about, touch.
    pub memory_touched: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Logs {
    pub logs: u64,
    pub sessions: u64,
    pub requests: u64,
    pub bursts: u64,
    pub unknown: u64,
    pub requests_per_session: f64,
    pub lengths: BTreeMap<usize, u64>,
    pub off_s_per_request: f64,
    /// Mean reply body, bytes.
    pub mean_reply_bytes: f64,
    pub classes: [u64; 4],
    pub distinct_files: u64,
    pub distinct_bytes: u64,
    /// Σ (1 − (1 − p)^N).
    pub distinct_expected: f64,
    pub problems: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    pub what: String,
    pub value: f64,
    pub unit: &'static str,
    pub formula: String,
}

/// Questions to the calculator (§3.9). Absent numbers leave their predictions out.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq)]
pub struct Questions {
    /// Requested rate, requests per second.
    #[arg(long = "rate", value_name = "RATE")]
    pub requests_per_s: Option<f64>,
    /// Page cache, bytes.
    #[arg(long = "cache", value_name = "BYTES")]
    pub cache_bytes: Option<u64>,
    /// Cap on connections.
    #[arg(long = "connections", value_name = "CONNECTIONS")]
    pub connections_max: Option<u32>,
    /// Mean response time, seconds.
    #[arg(long = "response", value_name = "RESPONSE", default_value_t = 0.0)]
    pub response_s: f64,
    /// Off time per request, seconds; by default that of the logs.
    #[arg(long = "off", value_name = "OFF")]
    pub off_s_per_request: Option<f64>,
    /// Processor time of a request, seconds.
    #[arg(long = "cpu", value_name = "CPU")]
    pub cpu_s: Option<f64>,
    /// Time of one disk read, seconds.
    #[arg(long = "read", value_name = "READ")]
    pub read_s: Option<f64>,
    /// Blocking event loops that share processor and disk.
    #[arg(long)]
    pub processes: Option<u32>,
    /// Requests in all logs; by default as many as the logs have.
    #[arg(long)]
    pub requests: Option<u64>,
    /// Load generators; by default one for each log.
    #[arg(long)]
    pub generators: Option<u32>,
}

#[derive(Debug)]
pub struct Subject {
    pub name: String,
    pub set: FileSet,
    pub popularity: Popularity,
    pub workload: Option<Workload>,
    /// Counts of its logs, and their number.
    pub logs: Option<(Tally, u64)>,
}

/// Inspects a workload. Fails for every question that makes no sense.
pub fn inspect(subject: &Subject, questions: &Questions) -> Result<Report, Fault> {
    Fault::if_any(questions.problems())?;
    let items = model::items(&subject.set, &subject.popularity);
    let logs = subject.logs.as_ref();
    let logs = logs.map(|(tally, logs)| logs_of(subject, &items, tally, *logs));
    let requests = questions.requests.or(logs.as_ref().map(|logs| logs.requests));
    Ok(Report {
        name: subject.name.clone(),
        files: files_of(&subject.set, &items),
        table_1: table_1(&items, requests),
        sizes: sizes_of(&items),
        offer: subject.workload.as_ref().map(|workload| Offered {
            offer: workload.offer.clone(),
            line_bits_per_s: workload.line_bits_per_s,
        }),
        predictions: predict(subject, questions, &items, logs.as_ref()),
        logs,
    })
}

impl Questions {
    fn problems(&self) -> Vec<String> {
        let reals = [
            ("rate", self.requests_per_s),
            ("response time", Some(self.response_s)),
            ("off time", self.off_s_per_request),
            ("processor time", self.cpu_s),
            ("read time", self.read_s),
        ];
        let bad = reals.iter().filter_map(|(name, value)| {
            let value = value.filter(|value| !value.is_finite() || *value < 0.0)?;
            Some(format!("{name} {value} is not possible"))
        });
        let mut problems: Vec<String> = bad.collect();
        if self.processes.is_some_and(|p| !(1..=100_000).contains(&p)) {
            problems.push("processes must be 1 to 100,000".to_owned());
        }
        problems
    }
}

fn files_of(set: &FileSet, items: &[Item]) -> Files {
    let mean_reply_bytes = model::mean_bytes(items);
    let mut classes = vec![Class::default(); 4];
    for (file, item) in set.ids().zip(items) {
        let class = &mut classes[usize::from(set.class(file))];
        class.files += 1;
        class.bytes += item.bytes;
        class.share += item.share;
        class.byte_share += item.share * item.bytes as f64 / mean_reply_bytes.max(1e-300);
    }
    let group = if set.dirs().is_some() { FILES_PER_DIR } else { 1 };
    let size = usize::try_from(group).expect("36 or 1");
    let shares = items.chunks(size).map(|group| group.iter().map(|i| i.share).sum::<f64>());
    let (hottest_at, hottest_share) =
        (0..).zip(shares).fold((0, 0.0), |best, next| if next.1 > best.1 { next } else { best });
    let hottest = set.path(super::files::FileId(hottest_at * group));
    let hottest = match hottest.rsplit_once('/') {
        Some((dir, _)) if group > 1 => dir.to_owned(),
        _ => hottest,
    };
    Files {
        files: set.len(),
        dirs: set.dirs(),
        bytes: set.total_bytes(),
        mean_reply_bytes,
        hottest_share,
        hottest,
        classes,
    }
}

fn table_1(items: &[Item], requests: Option<u64>) -> Vec<ReachRow> {
    let whole = model::reaches(items, &REACHES, f64::INFINITY);
    let touched = requests.map_or(f64::INFINITY, |n| n as f64);
    let touched = model::reaches(items, &REACHES, touched);
    let both = whole.into_iter().zip(touched);
    both.map(|(all, touched)| ReachRow { all, memory_touched: touched.memory_within }).collect()
}

fn sizes_of(items: &[Item]) -> Vec<Size> {
    let mut groups = BTreeMap::<u64, (u64, f64)>::new();
    for item in items {
        let group = groups.entry(item.bytes).or_default();
        group.0 += 1;
        group.1 += item.share;
    }
    if groups.len() > 100 {
        return Vec::new();
    }
    let mean = model::mean_bytes(items).max(1e-300);
    let (mut requests_upto, mut bytes_upto, mut memory_upto) = (0.0, 0.0, 0);
    let size = |(&bytes, &(files, share)): (&u64, &(u64, f64))| {
        requests_upto += share;
        bytes_upto += share * bytes as f64 / mean;
        memory_upto += files * bytes;
        Size { bytes, files, share, requests_upto, bytes_upto, memory_upto }
    };
    groups.iter().map(size).collect()
}

fn logs_of(subject: &Subject, items: &[Item], tally: &Tally, logs: u64) -> Logs {
    let set = &subject.set;
    let (distinct_files, distinct_bytes) = tally.distinct(set);
    let known = tally.requests - tally.unknown;
    // A real log is its own popularity: only made ones have a law to be held against.
    let made = subject.workload.as_ref().is_some_and(|workload| workload.pattern.is_some());
    Logs {
        logs,
        sessions: tally.sessions,
        requests: tally.requests,
        bursts: tally.bursts,
        unknown: tally.unknown,
        requests_per_session: tally.mean_requests(),
        lengths: tally.lengths.clone(),
        off_s_per_request: tally.off_s_per_request(),
        mean_reply_bytes: crate::number::share(tally.reply_bytes(set), known),
        classes: tally.per_class(set),
        distinct_files,
        distinct_bytes,
        distinct_expected: model::distinct(items, known as f64).files,
        problems: if made { tally.problems(set, &subject.popularity) } else { Vec::new() },
    }
}

/// Collects predictions in the order in which they are made.
struct Predictions(Vec<Prediction>);

impl Predictions {
    fn add(&mut self, what: &str, value: f64, unit: &'static str, formula: String) {
        self.0.push(Prediction { what: what.to_owned(), value, unit, formula });
    }
}

fn predict(
    subject: &Subject,
    questions: &Questions,
    items: &[Item],
    logs: Option<&Logs>,
) -> Vec<Prediction> {
    let mut out = Predictions(Vec::new());
    let pattern = subject.workload.as_ref().and_then(|workload| workload.pattern);
    let off = questions
        .off_s_per_request
        .or(logs.map(|logs| logs.off_s_per_request))
        .or(pattern.and_then(|pattern| pattern.off_s_per_request()));
    let mean_requests = logs
        .map(|logs| logs.requests_per_session)
        .or(pattern.map(|pattern| pattern.lengths.mean()));
    if let Some(n) = questions.requests {
        let found = model::distinct(items, n as f64);
        let formula = format!("Σ(1 − (1 − p)^N), N = {n}");
        out.add("distinct files asked for", found.files, "files", formula);
        let formula = format!("Σ s·(1 − (1 − p)^N), N = {n}");
        out.add("their bytes", found.bytes / f64::from(1 << 20), "MiB", formula);
    }
    if let (Some(rate), Some(mean)) = (questions.requests_per_s, mean_requests) {
        offered(&mut out, subject, questions, items, rate, mean);
    }
    if let Some(off) = off {
        connections(&mut out, questions, off);
    }
    if let Some(bytes) = questions.cache_bytes {
        disk(&mut out, questions, items, bytes);
    }
    out.0
}

fn offered(
    out: &mut Predictions,
    subject: &Subject,
    questions: &Questions,
    items: &[Item],
    rate: f64,
    mean: f64,
) {
    let logs = subject.logs.as_ref().map_or(1, |(_, logs)| (*logs).max(1));
    let generators = questions.generators.map_or(logs, |given| given.max(1).into());
    let sessions = model::session_rate(rate, mean, generators as f64);
    let formula =
        format!("rate / (requests per session · generators) = {rate} / ({mean:.3} · {generators})");
    out.add("session rate of each load generator", sessions, "sessions/s", formula);
    let mean_bytes = model::mean_bytes(items);
    let formula = format!("8 · rate · mean body = 8 · {rate} · {mean_bytes:.1} B");
    out.add("body throughput if all is answered", 8e-6 * rate * mean_bytes, "Mbit/s", formula);
}

fn connections(out: &mut Predictions, questions: &Questions, off: f64) {
    let response = questions.response_s;
    if let Some(rate) = questions.requests_per_s {
        let open = model::open_connections(rate, off, response);
        let formula =
            format!("Little: rate · (off + response) = {rate} · ({off:.3} + {response:.3} s)");
        out.add("open connections", open, "connections", formula);
    }
    if let Some(cap) = questions.connections_max {
        let rate = model::rate_cap(cap.into(), off, response);
        let formula =
            format!("Little: cap / (off + response) = {cap} / ({off:.3} + {response:.3} s)");
        out.add("rate at which the connection cap binds", rate, "requests/s", formula);
    }
}

fn disk(out: &mut Predictions, questions: &Questions, items: &[Item], bytes: u64) {
    let found = model::page_cache(items, bytes);
    let mib = bytes as f64 / f64::from(1 << 20);
    let che = |what: &str| {
        format!("Che: {what}, Σ s(1 − e^−pT) = {mib:.1} MiB, T = {:.0}", found.horizon)
    };
    let formula = format!("{mib:.1} MiB / whole pages of the set");
    out.add("cache over file set", found.ratio, "", formula);
    out.add("page-cache hits by request", 100.0 * found.request_hit, "%", che("1 − Σ p·e^−pT"));
    out.add("page-cache hits by byte", 100.0 * found.byte_hit, "%", che("by Σ p·s"));
    out.add("disk bytes per request", found.miss_bytes, "bytes", che("Σ p·s·e^−pT"));
    let reads = che("Σ p·⌈s/128 KiB⌉·e^−pT");
    out.add("disk reads per request", found.reads, "reads of 128 KiB", reads);
    if let Some(rate) = questions.requests_per_s {
        let formula = format!("rate · disk bytes per request = {rate} · {:.1}", found.miss_bytes);
        out.add("disk throughput", rate * found.miss_bytes / 1e6, "MB/s", formula);
    }
    let (Some(cpu_s), Some(read_s)) = (questions.cpu_s, questions.read_s) else { return };
    let n = questions.processes.unwrap_or(1);
    let disk_s = found.reads * read_s;
    let capacity = model::processes(n, cpu_s, disk_s);
    let (cpu_us, disk_us) = (rounded(cpu_s * 1e6), rounded(disk_s * 1e6));
    let formula = format!("mean values: p = {n}, D_cpu = {cpu_us} µs, D_disk = {disk_us} µs");
    out.add("capacity of blocking loops", capacity.requests_per_s, "requests/s", formula.clone());
    out.add("of the peak without disk", 100.0 * capacity.of_peak, "%", formula.clone());
    out.add("processor idle", 100.0 * capacity.cpu_idle, "%", formula);
}

const MIB: f64 = 1_048_576.0;
const CLASS_NAMES: [&str; 4] = ["< 1 KiB", "< 10 KiB", "< 100 KiB", ">= 100 KiB"];

/// A count with its thousands grouped: 24,480.
pub fn grouped(count: u64) -> String {
    HumanCount(count).to_string()
}

pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    files(report, out)?;
    write_table_1(report, out)?;
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

fn write_table_1(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    if report.table_1.len() < 8 {
        return Ok(());
    }
    writeln!(out, "\n  Memory that answers a share of the requests, by file size ([S] Table 1)")?;
    type Cell = fn(&ReachRow) -> String;
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
    let names = ["least", "25 %", "50 %", "75 %", "90 %", "99 %", "most"];
    let marks = names.into_iter().zip([0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0]);
    let at = |share: f64| {
        let mut upto = 0;
        let reached = logs.lengths.iter().find(|&(_, &count)| {
            upto += count;
            upto as f64 >= share * total as f64
        });
        reached.map_or(0, |(&length, _)| length)
    };
    marks.map(|(name, share)| (name, at(share))).collect()
}

/// A number with digits that its size deserves.
fn number(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => value.to_string(),
        size if size >= 1_000.0 => grouped(rounded(value)),
        size if size >= 10.0 => format!("{value:.2}"),
        size if size >= 0.1 => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::popularity::Mix;

    const MIB: f64 = 1_048_576.0;

    fn near(what: &str, found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{what}: {found} is not {expected}");
    }

    fn specweb(dirs: u32) -> Report {
        let set = FileSet::specweb(dirs, &["file_set"]).unwrap();
        let popularity = Popularity::specweb(dirs, Mix::Iid);
        let name = String::new();
        let subject = Subject { name, set, popularity, workload: None, logs: None };
        inspect(&subject, &Questions::default()).unwrap()
    }

    /// systems.md §3.1 and §3.2, number by number.
    #[test]
    fn sets_have_the_papers_numbers() {
        for (dirs, mib_total, hottest) in [
            (13, 63.5, 31.5),
            (30, 146.5, 25.0),
            (60, 292.9, 21.4),
            (120, 585.9, 18.6),
            (650, 3_173.5, 14.2),
            (680, 3_320.0, 14.1),
        ] {
            let files = specweb(dirs).files;
            let mean = files.mean_reply_bytes;
            near("MiB", files.bytes as f64 / MIB, mib_total, 0.05);
            near("hottest directory, %", 100.0 * files.hottest_share, hottest, 0.056);
            near("mean body", mean, 14_726.92, 0.01);
            let means = [501.0, 5_018.0, 50_177.0, 501_773.0];
            for (class, expected) in files.classes.iter().zip(means) {
                near("class mean", class.byte_share * mean / class.share, expected, 0.6);
            }
        }
    }

    /// Every row of the acceptance table: size, P %, cumulative requests %, cumulative bytes %,
    /// MiB of 650 directories, MiB of 680.
    const TABLE: &str = include_str!("specweb_table.txt");

    #[test]
    fn acceptance_table_matches_row_by_row() {
        let (of_650, of_680) = (specweb(650).sizes, specweb(680).sizes);
        for ((line, a), b) in TABLE.lines().zip(&of_650).zip(&of_680) {
            let row: Vec<f64> = line.split_whitespace().map(|n| n.parse().unwrap()).collect();
            near("size", a.bytes as f64, row[0], 0.0);
            near("P", 100.0 * a.share, row[1], 0.00005);
            near("requests", 100.0 * a.requests_upto, row[2], 0.0005);
            near("bytes", 100.0 * a.bytes_upto, row[3], 0.0005);
            near("memory of 650", a.memory_upto as f64 / MIB, row[4], 0.0051);
            near("memory of 680", b.memory_upto as f64 / MIB, row[5], 0.0051);
        }
        assert_eq!((TABLE.lines().count(), of_650.len()), (36, 36));
    }
}

#[cfg(test)]
mod text_tests {
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
