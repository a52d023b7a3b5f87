//! A reading as a table of 80 columns: one row for each worker, or for each stage of a pipeline,
//! then the sums.
use super::{Sample, Stage, Worker, phase_name};
use regatta_metrics::{Counter, Dial, Gauge, Histogram, Snapshot, Totals};
use regatta_sys::terminal::COLUMNS;
use std::{cmp::Reverse, mem};

/// Lines other than the rows of workers and stages.
const FIXED_LINES: usize = 18;
/// The fewest rows of workers on a screen.
const WORKER_ROWS_MIN: usize = 2;

const STALLS: [(&str, Counter); 6] = [
    ("open", Counter::StallOpen),
    ("read", Counter::StallRead),
    ("send", Counter::StallSend),
    ("budget", Counter::StallBudget),
    ("log", Counter::StallLog),
    ("other", Counter::StallOther),
];
const TLS_FAULTS: [Counter; 7] = [
    Counter::TlsFaultsNotTls,
    Counter::TlsFaultsVersion,
    Counter::TlsFaultsNothingInCommon,
    Counter::TlsFaultsCertificate,
    Counter::TlsFaultsRecord,
    Counter::TlsFaultsAlert,
    Counter::TlsFaultsOther,
];
const CLOSES: [(&str, Counter); 13] = [
    ("peer", Counter::ClosedPeerClosed),
    ("aborted", Counter::ClosedPeerAborted),
    ("reset", Counter::ClosedReset),
    ("finished", Counter::ClosedFinished),
    ("idle", Counter::ClosedIdleDeadline),
    ("head", Counter::ClosedHeadDeadline),
    ("bad", Counter::ClosedBadRequest),
    ("slow", Counter::ClosedSendDeadline),
    ("truncated", Counter::ClosedTruncated),
    ("refused", Counter::ClosedRefused),
    ("drained", Counter::ClosedDrained),
    ("failed", Counter::ClosedFailed),
    ("died", Counter::ClosedWorkerDied),
];

/// Formats all workers, for a file or a pipe.
pub(super) fn page(now: &Sample, earlier: Option<&Sample>) -> String {
    lines(now, earlier, usize::MAX).concat_lines("\n", "")
}

/// Formats lines that fit 80 columns and `rows` rows, drawn over the last ones. It switches to no
/// other screen and hides no cursor: however the program ends, the terminal is unchanged.
pub(super) fn screen(now: &Sample, earlier: Option<&Sample>, rows: usize) -> String {
    let mut lines = lines(now, earlier, rows.saturating_sub(1));
    lines.0[0] = format!("{:71}  q: quit", lines.0[0].chars().take(71).collect::<String>());
    lines.0.truncate(rows.saturating_sub(1));
    let text = lines.concat_lines("\x1b[K\n", "\x1b[J");
    format!("\x1b[H{text}")
}

struct Lines(Vec<String>);

impl Lines {
    fn add(&mut self, line: impl Into<String>) {
        self.0.push(line.into());
    }

    fn concat_lines(self, end: &str, last: &str) -> String {
        let mut text = String::new();
        for line in self.0 {
            text.extend(line.chars().take(COLUMNS));
            text.push_str(end);
        }
        text.push_str(last);
        text
    }
}

/// Formats a reading. The rows of workers and of stages fill up to `lines_max`.
fn lines(now: &Sample, earlier: Option<&Sample>, lines_max: usize) -> Lines {
    let (since, seconds) = now.since(earlier);
    let mut lines = Lines(Vec::new());
    let stages = now.stages(earlier);
    lines.add(title(now, earlier.map(|_| seconds)));
    lines.add("");
    let optional = [has_tls(now), has_http2(now), now.totals.gauge(Gauge::AutoHelpers) > 0];
    let fixed = FIXED_LINES + optional.into_iter().filter(|is_there| *is_there).count();
    let rows_max = lines_max.saturating_sub(fixed).max(WORKER_ROWS_MIN);
    stage_rows(&mut lines, &stages[..stages.len().min(rows_max)], seconds);
    lines.add(format!(
        "{:>3}{:>8}{:>7}{:>7}{:>7}{:>7}{:>8}{:>7}{:>9}{:>9}{:>8}",
        "#",
        "pid",
        "acc/s",
        "open",
        "req/s",
        "MB/s",
        "ev/wait",
        "hit %",
        "stall/s",
        "lock ms",
        "p99"
    ));
    let shown = busiest(now, earlier, rows_max);
    for (worker, since) in &shown {
        let pid = if worker.pid == 0 { "ended".to_owned() } else { worker.pid.to_string() };
        let open = worker.totals.gauge(Gauge::ConnectionsOpen);
        lines.add(row(&worker.slot.to_string(), &pid, open, since, seconds));
    }
    let hidden = rows_of(now).count() - shown.len();
    let open = now.totals.gauge(Gauge::ConnectionsOpen);
    lines.add(row("all", "", open, &since, seconds));
    lines.add(match hidden {
        0 => String::new(),
        hidden => format!("    and {hidden} more, which had fewer requests: --once shows all"),
    });
    summary(&mut lines, now, &since, seconds);
    if has_tls(now) {
        handshakes(&mut lines, &since, seconds);
    }
    if has_http2(now) {
        streams(&mut lines, &since, seconds);
    }
    behind(&mut lines, now, &since, seconds);
    lines
}

/// Adds a row for each stage, in place of its slots.
fn stage_rows(lines: &mut Lines, stages: &[Stage<'_>], seconds: f64) {
    if stages.is_empty() {
        return;
    }
    lines.add(format!(
        "{:<11}{:>4}{:>7}{:>7}{:>6}{:>7}{:>6}{:>8}{:>6} decided",
        "stage", "thr", "queue", "most", "in/s", "wait", "batch", "service", "ref/s"
    ));
    for stage in stages {
        let Stage { name, totals, since, .. } = stage;
        let rate = |counter| shorten(per_second(since.get(counter), seconds));
        let takes = since.get(Counter::QueueTakes);
        let each = |counter| match (since.get(counter), takes) {
            (0, _) | (_, 0) => "-".to_owned(),
            (ns, takes) => span(ns / takes),
        };
        let threads = totals.gauge(Gauge::ThreadsOpen).max(stage.dial(Dial::Threads));
        let batches = since.get(Counter::QueueVisits) + since.get(Counter::Merges);
        let row = format!(
            "{name:<11.10}{:>4}{:>7}{:>7}{:>6}{:>7}{:>6}{:>8}{:>6} {}",
            if threads == 0 { "-".to_owned() } else { whole(threads) },
            whole(totals.gauge(Gauge::QueueItems)),
            whole(totals.get(Counter::QueueLenMax)),
            rate(Counter::QueuePuts),
            each(Counter::QueueWaitNs),
            ratio(takes, batches, 1.0),
            each(Counter::StageNs),
            rate(Counter::StageRefused),
            decided(stage),
        );
        lines.add(row.trim_end());
    }
}

/// Settings by the controllers of a stage: batch, rate, and the age that decides.
fn decided(stage: &Stage<'_>) -> String {
    let set = |dial| Some(stage.dial(dial)).filter(|value| *value > 0);
    let batch = set(Dial::BatchMost).map(|most| shorten(decimal(most)));
    let rate = set(Dial::AdmitMilliPerS);
    let rate = rate.map(|milli| format!("{}/s", shorten(decimal(milli) / 1e3)));
    let age = set(Dial::AgeP90Ns).map(span);
    [batch, rate, age].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Lists the workers that have rows of their own: a stage's slots are one row together.
fn rows_of(now: &Sample) -> impl Iterator<Item = &Worker> {
    now.listed().filter(|worker| worker.role.is_empty())
}

/// Selects the workers with the most requests, up to the number of rows, in the order of slots.
fn busiest<'a>(
    now: &'a Sample,
    earlier: Option<&Sample>,
    rows_max: usize,
) -> Vec<(&'a Worker, Totals)> {
    let since = |worker| (worker, now.worker_since(worker, earlier));
    let mut workers: Vec<_> = rows_of(now).map(since).collect();
    workers.sort_by_key(|(_, since)| Reverse(since.get(Counter::Requests)));
    workers.truncate(rows_max);
    workers.sort_by_key(|(worker, _)| worker.slot);
    workers
}

fn title(now: &Sample, seconds: Option<f64>) -> String {
    let secs = now.uptime.as_secs();
    let (days, hours, minutes) = (secs / 86_400, secs / 3600 % 24, secs / 60 % 60);
    let span = seconds.map_or("since its start".to_owned(), |secs| format!("over {secs:.1} s"));
    let threads = match now.threads() {
        0 => String::new(),
        threads => format!(", {} threads", whole(threads)),
    };
    let workers = now.processes();
    let noun = if workers == 1 { "worker" } else { "workers" };
    format!(
        "{} {}  {}  {workers} {noun}{threads}  {span}  up {days}d {hours:02}:{minutes:02}:{:02}",
        now.architecture,
        now.pid,
        phase_name(now.phase),
        secs % 60,
    )
}

fn row(name: &str, pid: &str, open: u64, since: &Totals, seconds: f64) -> String {
    let rate = |counter| shorten(per_second(since.get(counter), seconds));
    let megabytes = per_second(since.get(Counter::BytesSent), seconds) / 1e6;
    let events = ratio(since.get(Counter::WaitEvents), since.get(Counter::WaitCalls), 1.0);
    let hits = ratio(since.get(Counter::CacheHits), since.get(Counter::CacheLookups), 100.0);
    let turns = since.histogram(Histogram::TurnNs);
    let stalls: u64 = STALLS.iter().map(|(_, cause)| since.get(*cause)).sum();
    format!(
        "{name:>3}{pid:>8}{:>7}{:>7}{:>7}{:>7}{events:>8}{hits:>7}{:>9}{:>9}{:>8}",
        rate(Counter::AcceptOk),
        whole(open),
        rate(Counter::Requests),
        shorten(megabytes),
        shorten(per_second(stalls, seconds)),
        shorten(per_second(since.get(Counter::LockWaitNs), seconds) / 1e6),
        time(turns, 990_000),
    )
}

fn summary(lines: &mut Lines, now: &Sample, since: &Totals, seconds: f64) {
    let rate = |counter| shorten(per_second(since.get(counter), seconds));
    let of = |histogram, per_million| time(since.histogram(histogram), per_million);
    let count = |histogram, per_million| count(since.histogram(histogram), per_million);
    lines.add(format!(
        "requests  p50 {}  p90 {}  p99 {}  p99.9 {}  max {}  open {}",
        of(Histogram::RequestNs, 500_000),
        of(Histogram::RequestNs, 900_000),
        of(Histogram::RequestNs, 990_000),
        of(Histogram::RequestNs, 999_000),
        of(Histogram::RequestNs, 1_000_000),
        shorten(decimal(now.totals.gauge(Gauge::RequestsOpen))),
    ));
    lines.add(format!(
        "replies/s 2xx {}  3xx {}  4xx {}  5xx {}  206 {}  304 {}  cut {}",
        rate(Counter::Replies2xx),
        rate(Counter::Replies3xx),
        rate(Counter::Replies4xx),
        rate(Counter::Replies5xx),
        rate(Counter::Replies206),
        rate(Counter::Replies304),
        rate(Counter::RepliesCut),
    ));
    lines.add(format!(
        "calls/s   recv {} ({})  send {} ({})  sendfile {} ({})  open {}",
        rate(Counter::RecvCalls),
        rate(Counter::RecvWouldBlock),
        rate(Counter::SendCalls),
        rate(Counter::SendWouldBlock),
        rate(Counter::SendfileCalls),
        rate(Counter::SendfileWouldBlock),
        rate(Counter::Opens),
    ));
    lines.add(format!(
        "accepts/s {}  skipped {}  paused {}  each p50 {}  p99 {}  most {}",
        rate(Counter::AcceptOk),
        rate(Counter::AcceptSkippedFull),
        rate(Counter::AcceptEmfilePauses),
        count(Histogram::AcceptsPerNotification, 500_000),
        count(Histogram::AcceptsPerNotification, 990_000),
        shorten(decimal(now.totals.get(Counter::AcceptsPerNotificationMax))),
    ));
    lines.add(format!(
        "loop      idle {} %  p50 {}  p99 {}  stalled {}/s  events p50 {}  p99 {}",
        waiting(now, since, seconds),
        of(Histogram::LoopNs, 500_000),
        of(Histogram::LoopNs, 990_000),
        rate(Counter::StallRound),
        count(Histogram::EventsPerWait, 500_000),
        count(Histogram::EventsPerWait, 990_000),
    ));
    let stalls = STALLS.map(|(cause, counter)| format!("{cause} {}", rate(counter)));
    lines.add(format!("stalls/s  {}", stalls.join("  ")));
    lines.add(format!(
        "cache     entries {}  files {}  MB {}  fill/s {}  evict/s {}  check/s {}",
        shorten(decimal(now.totals.gauge(Gauge::CacheEntries))),
        shorten(decimal(now.totals.gauge(Gauge::CacheFds))),
        shorten(decimal(now.totals.gauge(Gauge::CacheBytes)) / 1e6),
        rate(Counter::CacheFills),
        rate(Counter::CacheEvictions),
        rate(Counter::CacheRevalidations),
    ));
}

/// True if any client has tried to connect with TLS.
fn has_tls(now: &Sample) -> bool {
    let kinds = [Counter::TlsHandshakesFull, Counter::TlsHandshakesResumed];
    kinds.iter().chain(&TLS_FAULTS).any(|counter| now.totals.get(*counter) > 0)
}

/// Adds the handshakes of TLS, with their mean time, and the bytes that were encrypted.
fn handshakes(lines: &mut Lines, since: &Totals, seconds: f64) {
    let rate = |n| shorten(per_second(n, seconds));
    let resumed = since.get(Counter::TlsHandshakesResumed);
    let all = since.get(Counter::TlsHandshakesFull) + resumed;
    let each = since.get(Counter::TlsHandshakeNs).checked_div(all);
    lines.add(format!(
        "tls/s     handshakes {}  resumed {} %  each {}  faults {}  MB {}",
        rate(all),
        ratio(resumed, all, 100.0),
        each.map_or("-".to_owned(), span),
        rate(TLS_FAULTS.iter().map(|counter| since.get(*counter)).sum()),
        shorten(per_second(since.get(Counter::SealedBytes), seconds) / 1e6),
    ));
}

/// True if any client has used HTTP/2.
fn has_http2(now: &Sample) -> bool {
    now.totals.get(Counter::ConnectionsHttp2) > 0
}

/// Adds connections and streams of HTTP/2: opened, refused, reset by either side, and stalled; and
/// files that were closed while their streams waited.
fn streams(lines: &mut Lines, since: &Totals, seconds: f64) {
    let rate = |counter| shorten(per_second(since.get(counter), seconds));
    let resets = [Counter::StreamsResetByClient, Counter::StreamsResetByUs];
    let resets: u64 = resets.iter().map(|counter| since.get(*counter)).sum();
    lines.add(format!(
        "http2/s   conns {}  streams {}  refused {}  reset {}  stall {}  files {}",
        rate(Counter::ConnectionsHttp2),
        rate(Counter::StreamsOpened),
        rate(Counter::StreamsRefused),
        shorten(per_second(resets, seconds)),
        rate(Counter::Http2WindowStalls),
        rate(Counter::Http2FilesClosed),
    ));
}

/// Adds causes behind the requests: turns, locks, helpers (stages have none), logs, memory and the
/// ends of connections.
fn behind(lines: &mut Lines, now: &Sample, since: &Totals, seconds: f64) {
    let rate = |counter| shorten(per_second(since.get(counter), seconds));
    let of = |histogram, per_million| time(since.histogram(histogram), per_million);
    lines.add(format!(
        "turns     p50 {}  p99 {}  max {}  locks/s {}  contended {}",
        of(Histogram::TurnNs, 500_000),
        of(Histogram::TurnNs, 990_000),
        of(Histogram::TurnNs, 1_000_000),
        rate(Counter::LockAcquisitions),
        rate(Counter::LockContended),
    ));
    if now.listed().all(|worker| worker.role.is_empty()) {
        helpers(lines, now, since, seconds);
    }
    lines.add(format!(
        "log       {} lines/s  {} writes/s  {} dropped",
        rate(Counter::LogLines),
        rate(Counter::LogWrites),
        whole(now.totals.get(Counter::LogDropped)),
    ));
    let memory = now.memory();
    let megabytes = |bytes| shorten(decimal(bytes) / 1e6);
    lines.add(format!(
        "memory MB rss {}  own {}  shared {}  tables {}  stacks {}  tasks {}",
        megabytes(memory.resident),
        megabytes(memory.anonymous),
        megabytes(memory.shared),
        megabytes(memory.page_tables),
        megabytes(memory.kernel_stacks()),
        shorten(decimal(memory.tasks)),
    ));
    let closes = CLOSES.iter().filter(|(_, counter)| since.get(*counter) > 0);
    let closes: Vec<_> = closes.map(|(why, counter)| format!("{why} {}", rate(*counter))).collect();
    let none = if closes.is_empty() { "none" } else { "" };
    lines.add(format!("closes/s  {none}{}", closes.join("  ")));
}

/// Adds the work of helpers, and its causes.
fn helpers(lines: &mut Lines, now: &Sample, since: &Totals, seconds: f64) {
    let rate = |counter| shorten(per_second(since.get(counter), seconds));
    let tasks = [Counter::HelperTasksOpen, Counter::HelperTasksRead, Counter::HelperTasksPrefetch];
    let tasks = tasks.map(|counter| since.get(counter)).iter().sum();
    lines.add(format!(
        "disk/s    tasks {}  lost {}  cached {}  cold {}  inline {}  defer {}",
        shorten(per_second(tasks, seconds)),
        rate(Counter::HelpersLost),
        rate(Counter::ResidencyResident),
        rate(Counter::ResidencyAbsent),
        rate(Counter::LaioInline),
        rate(Counter::LaioDeferred),
    ));
    // Time used per second is the mean number at work.
    let at_once = |counter| shorten(per_second(since.get(counter), seconds) / 1e9);
    lines.add(format!(
        "helpers   {}  busy {}  queued {}  most {}  unknown/s {}  false/s {}",
        shorten(decimal(now.totals.gauge(Gauge::HelpersOpen))),
        at_once(Counter::HelperBusyNs),
        at_once(Counter::HelperWaitNs),
        shorten(decimal(now.totals.get(Counter::HelperQueueMax))),
        rate(Counter::ResidencyUnknown),
        rate(Counter::ResidencyFalse),
    ));
    let allowed = now.totals.gauge(Gauge::AutoHelpers);
    if allowed > 0 {
        let mean_ms = |time, count| {
            shorten(decimal(since.get(time)) / 1e6 / decimal(since.get(count)).max(1.0))
        };
        let fewer = since.get(Counter::AutoShrunk) + since.get(Counter::AutoUndone);
        lines.add(format!(
            "auto      most {}  wait ms {}  task ms {}  up/s {}  down/s {}  hung/s {}",
            shorten(decimal(allowed)),
            mean_ms(Counter::HelperWaitNs, Counter::HelperCompletions),
            mean_ms(Counter::HelperBusyNs, Counter::HelperCompletions),
            rate(Counter::AutoGrown),
            shorten(per_second(fewer, seconds)),
            rate(Counter::AutoHung),
        ));
    }
}

/// Number of event loops of living workers; the stages of a pipeline are one together.
fn loops(now: &Sample) -> u64 {
    let mut last = 0;
    let workers = now.workers.iter().filter(|worker| worker.pid != 0);
    let is_another = |worker: &&Worker| {
        let is_next = mem::replace(&mut last, worker.pid) != worker.pid;
        is_next || worker.role.is_empty()
    };
    workers.filter(is_another).count() as u64
}

/// Share of the living workers' time spent waiting for events, per cent.
fn waiting(now: &Sample, since: &Totals, seconds: f64) -> String {
    let had = seconds * decimal(loops(now));
    if had <= 0.0 {
        return "-".to_owned();
    }
    let waited = decimal(since.get(Counter::WaitNs)) / 1e9;
    format!("{:.0}", (waited / had * 100.0).min(100.0))
}

/// A quantile of nanoseconds, as an upper bound.
fn time(snapshot: &Snapshot, per_million: u32) -> String {
    snapshot.quantile(per_million).map_or("-".to_owned(), |bounds| span(bounds.high))
}

/// A time in nanoseconds, in at most 6 columns.
fn span(nanos: u64) -> String {
    let ns = decimal(nanos);
    match nanos {
        0..1_000 => format!("{ns:.0}ns"),
        1_000..10_000 => format!("{:.1}us", ns / 1e3),
        10_000..1_000_000 => format!("{:.0}us", ns / 1e3),
        1_000_000..10_000_000 => format!("{:.1}ms", ns / 1e6),
        10_000_000..1_000_000_000 => format!("{:.0}ms", ns / 1e6),
        1_000_000_000..10_000_000_000 => format!("{:.1}s", ns / 1e9),
        _ => format!("{:.0}s", ns / 1e9),
    }
}

fn count(snapshot: &Snapshot, per_million: u32) -> String {
    snapshot.quantile(per_million).map_or("-".to_owned(), |bounds| whole(bounds.high))
}

fn ratio(part: u64, whole: u64, scale: f64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let value = decimal(part) / decimal(whole) * scale;
    if value < 99.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn per_second(n: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { decimal(n) / seconds } else { 0.0 }
}

/// A number of things: exact while it is short.
fn whole(n: u64) -> String {
    if n < 1_000_000 { n.to_string() } else { shorten(decimal(n)) }
}

/// A number in at most 4 columns up to 999 million million.
fn shorten(value: f64) -> String {
    let (mut value, mut unit) = (value, 0);
    while value >= 999.5 && unit < 4 {
        value /= 1000.0;
        unit += 1;
    }
    let unit = ["", "k", "M", "G", "T"][unit];
    if value >= 9.95 || value == 0.0 {
        format!("{value:.0}{unit}")
    } else {
        format!("{value:.1}{unit}")
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
const fn decimal(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers_are_short() {
        let expected = [
            (0.0, "0"),
            (0.04, "0.0"),
            (1.0, "1.0"),
            (9.94, "9.9"),
            (9.96, "10"),
            (999.4, "999"),
            (999.6, "1.0k"),
            (123_456.0, "123k"),
            (1.5e9, "1.5G"),
        ];
        for (value, text) in expected {
            assert_eq!(shorten(value), text);
            assert!(shorten(value).len() <= 4);
        }
    }

    #[test]
    fn ratios_without_a_whole_are_a_dash() {
        assert_eq!(ratio(1, 0, 1.0), "-");
        assert_eq!(ratio(1, 3, 100.0), "33.3");
        assert_eq!(ratio(3, 3, 100.0), "100");
    }
}
