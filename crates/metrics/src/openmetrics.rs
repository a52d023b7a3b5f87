//! Counters, gauges and histograms as Prometheus reads them: OpenMetrics 1.0, or the text format
//! 0.0.4 that came before it.
use crate::{Counter, Gauge, Histogram, Merge, SlotView, Totals};
use alloc::{format, string::String};
use core::fmt::{self, Display, Formatter, Write};

/// Counters that are also exported for each worker: few, because every worker adds a line to each.
const PER_WORKER: [Counter; 4] =
    [Counter::Requests, Counter::ConnectionsOpened, Counter::ConnectionsClosed, Counter::BytesSent];

/// A family that is not in the table of counters.
#[derive(Clone, Copy)]
struct Family {
    name: &'static str,
    kind: Kind,
    doc: &'static str,
}

const BUILD: Family = Family {
    name: "regatta_build",
    kind: Kind::Info,
    doc: "The program, and the architecture it serves with.",
};
const START_TIME: Family = Family {
    name: "regatta_start_time_seconds",
    kind: Kind::Gauge,
    doc: "When the server started, in seconds since 1970-01-01T00:00:00Z.",
};
const GENERATION: Family = Family {
    name: "regatta_generation",
    kind: Kind::Gauge,
    doc: "Which generation of workers serves: each reload and upgrade starts another.",
};
const WORKERS: Family = Family {
    name: "regatta_workers",
    kind: Kind::Gauge,
    doc: "Worker processes that are there or should be.",
};
const ANSWERING: Family = Family {
    name: "regatta_workers_answering",
    kind: Kind::Gauge,
    doc: "Of those, the ones that answer.",
};
const CERTIFICATE: Family = Family {
    name: "regatta_tls_certificate_remaining_seconds",
    kind: Kind::Gauge,
    doc: "Seconds until the next certificate expires; below 0 after it. Absent without TLS.",
};
const WORKER_UP: Family = Family {
    name: "regatta_worker_up",
    kind: Kind::Gauge,
    doc: "1 if the worker answers, else 0.",
};

/// Names and descriptions of the families of [`openmetrics`] besides counters, gauges and
/// histograms: those of the server, then those of each worker.
pub(crate) fn others() -> impl Iterator<Item = (String, &'static str)> {
    let server = [BUILD, START_TIME, GENERATION, WORKERS, ANSWERING, CERTIFICATE, WORKER_UP];
    let server = server.map(|of| (format!("{}{}", of.name, of.kind.suffix()), of.doc));
    let each = PER_WORKER.map(|counter| (format!("{}_total", of_worker(counter)), counter.doc()));
    server.into_iter().chain(each)
}

/// The family of a counter of each worker.
fn of_worker(counter: Counter) -> String {
    format!("regatta_worker_{}", counter.name())
}

/// The powers of two at which a histogram of times has its edges, nanoseconds: from 1 µs to 8.6 s.
const TIME_EDGES: [u32; 20] =
    [10, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 30, 33];

/// The same of a histogram of counts.
const COUNT_EDGES: [u32; 20] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20];

/// Format to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format 0.0.4, which every version of Prometheus reads.
    Text,
}

impl Form {
    /// The `Content-Type` of the format.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Exported values of one worker.
#[derive(Clone, Copy, Debug)]
pub struct WorkerScrape {
    slot: usize,
    answers: bool,
    values: [u64; PER_WORKER.len()],
}

impl WorkerScrape {
    /// Values of the worker with slots from `slot` on; `answers`: its last heartbeat is recent.
    #[must_use]
    pub fn new(slot: usize, answers: bool, slots: &[SlotView<'_>]) -> Self {
        let sum = |counter| slots.iter().map(|slot| slot.get(counter)).fold(0, u64::wrapping_add);
        Self { slot, answers, values: PER_WORKER.map(sum) }
    }
}

/// Input of [`openmetrics`]: one reading of a server.
#[derive(Clone, Copy, Debug)]
pub struct Scrape<'a> {
    /// The version of the program.
    pub version: &'a str,
    /// The name of the architecture.
    pub architecture: &'a str,
    /// Start of the server, in milliseconds since 1970-01-01T00:00:00Z.
    pub started_unix_ms: u64,
    /// Number of the generation of workers that serves: 1 is the first.
    pub generation: u64,
    /// All workers together, also those that are gone.
    pub totals: &'a Totals,
    /// Each worker that is there or should be.
    pub workers: &'a [WorkerScrape],
    /// Seconds until the next certificate expires, if there is one; below 0 after it.
    pub certificate_s: Option<i64>,
}

/// Adds this reading to `out`, every family once.
pub fn openmetrics(out: &mut String, form: Form, now: &Scrape<'_>) {
    Exposition { out, form }.all(now).expect("writing to a string cannot fail");
}

impl Counter {
    /// Name in [`openmetrics`], for use in queries.
    #[must_use]
    pub fn exported(self) -> String {
        match self.merge() {
            Merge::Sum => format!("{}_total", family(self.name(), self.unit())),
            Merge::Max => family(self.name(), self.unit()),
        }
    }
}

impl Gauge {
    /// Name in [`openmetrics`].
    #[must_use]
    pub fn exported(self) -> String {
        family(self.name(), self.unit())
    }
}

impl Histogram {
    /// Name in [`openmetrics`], without `_bucket`, `_count` and `_sum`.
    #[must_use]
    pub fn exported(self) -> String {
        family(self.name(), self.unit())
    }
}

/// The name of a family. Times are in seconds there, and `_sum` is reserved for histograms.
fn family(name: &str, unit: &str) -> String {
    if unit == "ns" {
        return format!("regatta_{}_seconds", name.strip_suffix("_ns").unwrap_or(name));
    }
    match name.strip_suffix("_sum") {
        Some(summed) => format!("regatta_{summed}_summed"),
        None => format!("regatta_{name}"),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
}

impl Kind {
    /// Name in `# TYPE`.
    const fn name(self, form: Form) -> &'static str {
        match (self, form) {
            (Self::Counter, _) => "counter",
            (Self::Histogram, _) => "histogram",
            (Self::Info, Form::OpenMetrics) => "info",
            (Self::Gauge, _) | (Self::Info, Form::Text) => "gauge",
        }
    }

    /// Suffix that names of values add to the name of the family.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Info => "_info",
            Self::Gauge | Self::Histogram => "",
        }
    }
}

struct Exposition<'a> {
    out: &'a mut String,
    form: Form,
}

impl Exposition<'_> {
    fn all(&mut self, now: &Scrape<'_>) -> fmt::Result {
        self.server(now)?;
        for &counter in Counter::ALL {
            let kind = match counter.merge() {
                Merge::Sum => Kind::Counter,
                Merge::Max => Kind::Gauge,
            };
            let value = Value::new(now.totals.get(counter), counter.unit());
            self.single(&family(counter.name(), counter.unit()), kind, counter.doc(), value)?;
        }
        for &gauge in Gauge::ALL {
            let value = Value::new(now.totals.gauge(gauge), gauge.unit());
            self.single(&gauge.exported(), Kind::Gauge, gauge.doc(), value)?;
        }
        for &histogram in Histogram::ALL {
            self.histogram(histogram, now)?;
        }
        self.workers(now)?;
        match self.form {
            Form::OpenMetrics => self.out.write_str("# EOF\n"),
            Form::Text => Ok(()),
        }
    }

    /// Writes the head of a family.
    fn head(&mut self, family: &str, kind: Kind, doc: &str) -> fmt::Result {
        // The older format knows the names of values only.
        let suffix = match self.form {
            Form::OpenMetrics => "",
            Form::Text => kind.suffix(),
        };
        writeln!(self.out, "# TYPE {family}{suffix} {}", kind.name(self.form))?;
        let unit = ["seconds", "bytes"].into_iter().find(|unit| {
            let before = family.strip_suffix(*unit);
            before.is_some_and(|before| before.ends_with('_'))
        });
        if let (Form::OpenMetrics, Some(unit)) = (self.form, unit) {
            writeln!(self.out, "# UNIT {family} {unit}")?;
        }
        writeln!(self.out, "# HELP {family}{suffix} {doc}")
    }

    /// A family of one value.
    fn single(&mut self, family: &str, kind: Kind, doc: &str, value: impl Display) -> fmt::Result {
        self.head(family, kind, doc)?;
        writeln!(self.out, "{family}{} {value}", kind.suffix())
    }

    fn gauge(&mut self, Family { name, kind, doc }: Family, value: impl Display) -> fmt::Result {
        self.single(name, kind, doc, value)
    }

    fn server(&mut self, now: &Scrape<'_>) -> fmt::Result {
        self.head(BUILD.name, BUILD.kind, BUILD.doc)?;
        writeln!(
            self.out,
            "{}{}{{version=\"{}\",architecture=\"{}\"}} 1",
            BUILD.name,
            BUILD.kind.suffix(),
            Escaped(now.version),
            Escaped(now.architecture)
        )?;
        let started = now.started_unix_ms;
        let answering = now.workers.iter().filter(|worker| worker.answers).count();
        self.gauge(START_TIME, format_args!("{}.{:03}", started / 1000, started % 1000))?;
        self.gauge(GENERATION, now.generation)?;
        self.gauge(WORKERS, now.workers.len())?;
        self.gauge(ANSWERING, answering)?;
        now.certificate_s.map_or(Ok(()), |left| self.gauge(CERTIFICATE, left))
    }

    fn histogram(&mut self, histogram: Histogram, now: &Scrape<'_>) -> fmt::Result {
        let (family, snapshot) = (histogram.exported(), now.totals.histogram(histogram));
        self.head(&family, Kind::Histogram, histogram.doc())?;
        let is_time = histogram.unit() == "ns";
        for power in if is_time { TIME_EDGES } else { COUNT_EDGES } {
            let edge = 1u64 << power;
            let count = snapshot.count_below(edge);
            match is_time {
                // A time that was rounded down to less was below the edge itself.
                true => {
                    let edge = Value::new(edge, "ns");
                    writeln!(self.out, "{family}_bucket{{le=\"{edge}\"}} {count}")?;
                }
                false => writeln!(self.out, "{family}_bucket{{le=\"{}.0\"}} {count}", edge - 1)?,
            }
        }
        let (count, sum) = (snapshot.count(), Value::new(snapshot.sum(), histogram.unit()));
        writeln!(self.out, "{family}_bucket{{le=\"+Inf\"}} {count}")?;
        writeln!(self.out, "{family}_count {count}")?;
        writeln!(self.out, "{family}_sum {sum}")
    }

    /// Writes families of their own, so that sums over all values of a family are right.
    fn workers(&mut self, now: &Scrape<'_>) -> fmt::Result {
        for (at, counter) in PER_WORKER.into_iter().enumerate() {
            let family = of_worker(counter);
            self.head(&family, Kind::Counter, counter.doc())?;
            for worker in now.workers {
                let (slot, value) = (worker.slot, worker.values[at]);
                writeln!(self.out, "{family}_total{{worker=\"{slot}\"}} {value}")?;
            }
        }
        let Family { name, kind, doc } = WORKER_UP;
        self.head(name, kind, doc)?;
        for WorkerScrape { slot, answers, .. } in now.workers {
            let answers = u8::from(*answers);
            writeln!(self.out, "{name}{{worker=\"{slot}\"}} {answers}")?;
        }
        Ok(())
    }
}

/// A number of a table in the unit that it is exported in: times exactly, in seconds.
#[derive(Clone, Copy)]
struct Value {
    number: u64,
    is_time: bool,
}

impl Value {
    fn new(number: u64, unit: &str) -> Self {
        Self { number, is_time: unit == "ns" }
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const NS_PER_S: u64 = 1_000_000_000;
        match self.is_time {
            true => write!(f, "{}.{:09}", self.number / NS_PER_S, self.number % NS_PER_S),
            false => write!(f, "{}", self.number),
        }
    }
}

/// A text as the value of a label.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                _ => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arena, Tally};
    use core::sync::atomic::AtomicU64;
    use std::{
        collections::{BTreeMap, HashSet},
        string::ToString,
        vec::Vec,
    };

    /// A server with two workers; the second does not answer.
    fn scraped(form: Form) -> String {
        let words: Vec<AtomicU64> = (0..Arena::count_words(2)).map(|_| AtomicU64::new(0)).collect();
        let arena = Arena::create(&words, 2);
        for (slot, times) in [(0, 1), (1, 10)] {
            let tally = Tally::Owned(arena.slot(slot));
            tally.add(Counter::Requests, 3 * times);
            tally.add(Counter::ConnectionsOpened, 2 * times);
            tally.add(Counter::ConnectionsClosed, times);
            tally.add(Counter::BytesSent, 100 * times);
            tally.add(Counter::SendfileNs, 1_500_000_007);
            tally.add(Counter::WaitInterestSum, 5);
            tally.max(Counter::ConnectionsOpenMax, 4 * times);
            // Just below the first edge, at it, and beyond the last.
            for ns in [1_023, 1_024, 20_000_000_000] {
                tally.record(Histogram::TurnNs, ns);
            }
            tally.record(Histogram::EventsPerWait, 3);
        }
        let totals = Totals::from_slots(arena.view().slots());
        let slots: Vec<SlotView<'_>> = arena.view().slots().collect();
        let workers = [(0, true), (1, false)]
            .map(|(slot, answers)| WorkerScrape::new(slot, answers, &slots[slot..=slot]));
        let mut out = String::new();
        let now = Scrape {
            version: "1.2.3",
            architecture: "eager\"\\",
            started_unix_ms: 1_700_000_000_042,
            generation: 3,
            totals: &totals,
            workers: &workers,
            certificate_s: Some(-7),
        };
        openmetrics(&mut out, form, &now);
        out
    }

    /// Every family that is written is in `docs/metrics.md`, which is made from the tables.
    #[test]
    fn every_family_is_documented() {
        let (kinds, _) = read(&scraped(Form::Text), Form::Text);
        let documented = crate::markdown();
        for name in kinds.keys() {
            assert!(documented.contains(&format!("`{name}`")), "{name}");
        }
        for (name, _) in others() {
            assert!(kinds.contains_key(&name), "{name} is documented, and not written");
        }
    }

    /// Reads the text as strictly as its format asks: kinds by family, values by name and labels.
    fn read(text: &str, form: Form) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
        let (mut kinds, mut values) = (BTreeMap::new(), BTreeMap::new());
        let mut helped = HashSet::new();
        let (mut family, mut kind) = (String::new(), String::new());
        let lines: Vec<&str> = text.lines().filter(|line| *line != "# EOF").collect();
        for line in lines {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, what) = rest.split_once(' ').expect("a kind");
                (family, kind) = (name.to_string(), what.to_string());
                assert!(kinds.insert(family.clone(), kind.clone()).is_none(), "{line} twice");
            } else if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, doc) = rest.split_once(' ').expect("a sentence");
                assert_eq!(name, family, "{line}");
                assert!(!doc.contains(['"', '\\']), "{line} would have to be escaped");
                helped.insert(family.clone());
            } else if let Some(rest) = line.strip_prefix("# UNIT ") {
                assert_eq!(form, Form::OpenMetrics, "{line}");
                let (name, unit) = rest.split_once(' ').expect("a unit");
                assert!(name == family && family.ends_with(&format!("_{unit}")), "{line}");
            } else {
                let (name, value) = line.rsplit_once(' ').expect("a value");
                let bare = name.split('{').next().expect("a name");
                let suffixes: &[&str] = match (kind.as_str(), form) {
                    ("histogram", _) => &["_bucket", "_count", "_sum"],
                    ("counter", Form::OpenMetrics) => &["_total"],
                    ("info", _) => &["_info"],
                    _ => &[""],
                };
                let suffix = bare.strip_prefix(family.as_str()).expect("a value of its family");
                assert!(suffixes.contains(&suffix), "{line} in a {kind}");
                assert!(
                    bare.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit())
                );
                assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
                assert!(
                    values.insert(name.to_string(), value.to_string()).is_none(),
                    "{line} twice"
                );
            }
        }
        assert!(kinds.keys().all(|family| helped.contains(family)));
        (kinds, values)
    }

    #[test]
    fn every_number_is_there_once_in_both_forms() {
        let (_, open) = read(&scraped(Form::OpenMetrics), Form::OpenMetrics);
        let (_, text) = read(&scraped(Form::Text), Form::Text);
        assert_eq!(open, text, "the same values under the same names");
        for &counter in Counter::ALL {
            assert!(open.contains_key(&counter.exported()), "{}", counter.name());
        }
        for &gauge in Gauge::ALL {
            assert!(open.contains_key(&gauge.exported()), "{}", gauge.name());
        }
        let per_worker = 2 * (PER_WORKER.len() + 1);
        let histograms = Histogram::ALL.len() * (TIME_EDGES.len() + 3);
        let of_server = 6;
        let all = Counter::ALL.len() + Gauge::ALL.len() + per_worker + histograms + of_server;
        assert_eq!(open.len(), all);
    }

    #[test]
    fn the_two_forms_name_families_differently() {
        let (open, text) = (scraped(Form::OpenMetrics), scraped(Form::Text));
        let expected = "# TYPE regatta_sendfile_seconds counter\n\
                        # UNIT regatta_sendfile_seconds seconds\n\
                        # HELP regatta_sendfile_seconds Time inside `sendfile`, ";
        assert!(open.contains(expected), "{open}");
        assert!(open.contains("\nregatta_sendfile_seconds_total 3.000000014\n"));
        let expected = "# TYPE regatta_sendfile_seconds_total counter\n\
                        # HELP regatta_sendfile_seconds_total Time inside `sendfile`, ";
        assert!(text.contains(expected), "{text}");
        let build = "regatta_build_info{version=\"1.2.3\",architecture=\"eager\\\"\\\\\"} 1\n";
        assert!(open.starts_with("# TYPE regatta_build info\n") && open.contains(build));
        assert!(text.starts_with("# TYPE regatta_build_info gauge\n") && text.contains(build));
        assert!(open.ends_with("\n# EOF\n") && !text.contains("EOF"));
    }

    #[test]
    fn values_are_sums_maxima_and_differences() {
        let (kinds, values) = read(&scraped(Form::OpenMetrics), Form::OpenMetrics);
        let value = |name: &str| values.get(name).map(String::as_str);
        assert_eq!(value("regatta_requests_total"), Some("33"));
        assert_eq!(value("regatta_connections_open"), Some("11"));
        assert_eq!(value("regatta_connections_open_max"), Some("40"));
        assert_eq!(value("regatta_wait_interest_summed_total"), Some("10"));
        assert_eq!(value("regatta_start_time_seconds"), Some("1700000000.042"));
        assert_eq!(value("regatta_generation"), Some("3"));
        assert_eq!(value("regatta_workers"), Some("2"));
        assert_eq!(value("regatta_workers_answering"), Some("1"));
        assert_eq!(value("regatta_tls_certificate_remaining_seconds"), Some("-7"));
        assert_eq!(value("regatta_worker_up{worker=\"1\"}"), Some("0"));
        assert_eq!(value("regatta_worker_requests_total{worker=\"1\"}"), Some("30"));
        let kind = |family: &str| kinds.get(family).map(String::as_str);
        assert_eq!(kind("regatta_connections_open_max"), Some("gauge"));
        assert_eq!(kind("regatta_requests"), Some("counter"));
        assert_eq!(kind("regatta_turn_seconds"), Some("histogram"));
    }

    #[test]
    fn buckets_are_cumulative_and_exact_at_their_edges() {
        let text = scraped(Form::Text);
        let of = |family: &str| {
            let start = format!("{family}_bucket{{le=\"");
            let lines = text.lines().filter_map(|line| line.strip_prefix(start.as_str()));
            let pairs = lines.map(|line| line.split_once("\"} ").expect("an edge"));
            pairs
                .map(|(edge, count)| {
                    let edge: f64 = edge.trim_start_matches('+').parse().expect("a number");
                    (edge, count.parse::<u64>().expect("a count"))
                })
                .collect::<Vec<_>>()
        };
        for histogram in Histogram::ALL {
            let buckets = of(&histogram.exported());
            assert_eq!(buckets.len(), TIME_EDGES.len() + 1);
            assert!(buckets.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1));
        }
        let turns = of("regatta_turn_seconds");
        assert_eq!(turns[..2], [(0.000_001_024, 2), (0.000_004_096, 4)]);
        assert_eq!(turns[turns.len() - 2..], [(8.589_934_592, 4), (f64::INFINITY, 6)]);
        let events = of("regatta_events_per_wait");
        assert_eq!(events[..2], [(1.0, 0), (3.0, 2)]);
        assert!(text.contains("\nregatta_turn_seconds_count 6\n"));
        assert!(text.contains("\nregatta_turn_seconds_sum 40.000004094\n"));
    }

    #[test]
    fn no_name_can_be_taken_for_another() {
        let mut seen = HashSet::new();
        let counters = Counter::ALL.iter().map(|counter| counter.exported());
        let gauges = Gauge::ALL.iter().map(|gauge| gauge.exported());
        for name in counters.chain(gauges) {
            assert!(
                !["_bucket", "_count", "_sum", "_created", "_info"]
                    .iter()
                    .any(|reserved| name.trim_end_matches("_total").ends_with(reserved)),
                "{name}"
            );
            assert!(seen.insert(name.trim_end_matches("_total").to_string()), "{name}");
        }
        for histogram in Histogram::ALL {
            assert!(seen.insert(histogram.exported()), "{}", histogram.name());
        }
    }
}
