//! A reading as JSON, for `regatta top --json` and for `/status` of the admin process. All names
//! are those of `docs/metrics.md`.
//!
//! The document is written without a tree of values. So a page that asks each second about many
//! workers costs little.
use super::{Memory, Sample, phase_name};
use regatta_metrics::{Counter, Dial, Gauge, Histogram, Merge, Snapshot, Totals};
use serde::{Serialize, Serializer};
use std::borrow::Cow;

const DIALS: [(&str, Dial); Dial::ALL.len()] = [
    ("threads", Dial::Threads),
    ("batch_most", Dial::BatchMost),
    ("admit_milli_per_s", Dial::AdmitMilliPerS),
    ("queue_max", Dial::QueueMax),
    ("age_p90_ns", Dial::AgeP90Ns),
    ("decisions", Dial::Decisions),
];

/// Formats one document, on one line.
pub(super) fn document(now: &Sample, earlier: Option<&Sample>) -> String {
    let seconds = earlier.map(|earlier| now.seconds_since(earlier));
    let stages = now.stages(earlier);
    let document = Document {
        server: ServerObject {
            pid: now.pid,
            architecture: &now.architecture,
            started_unix_ms: now.started_unix_ms,
            uptime_s: now.uptime.as_secs_f64(),
            phase: phase_name(now.phase),
            log_generation: now.log_generation,
            workers: now.processes(),
            threads: now.threads(),
        },
        total: TotalObject {
            values: Values::new(&now.totals),
            memory: now.memory(),
            interval: earlier.and_then(|earlier| {
                Interval::new(seconds, Cow::Owned(now.totals.since(&earlier.totals)))
            }),
        },
        workers: List(now.workers.iter().map(|worker| WorkerObject {
            values: Values::new(&worker.totals),
            slot: worker.slot,
            pid: (worker.pid != 0).then_some(worker.pid),
            incarnation: worker.incarnation,
            heartbeat_age_ms: worker.heartbeat_age_ms,
            memory: worker.memory,
            role: &worker.role,
            dials: Dials(worker.dials),
            interval: earlier.and_then(|_| {
                Interval::new(seconds, Cow::Owned(now.worker_since(worker, earlier)))
            }),
        })),
        stages: List(stages.iter().map(|stage| StageObject {
            values: Values::new(&stage.totals),
            stage: stage.name,
            dials: Dials(stage.dials),
            interval: Interval::new(seconds, Cow::Borrowed(&stage.since)),
        })),
    };
    let text = serde_json::to_string(&document).expect("keys are strings");
    format!("{text}\n")
}

#[derive(Serialize)]
struct Document<'a, W: Serialize, S: Serialize> {
    server: ServerObject<'a>,
    total: TotalObject<'a>,
    workers: W,
    stages: S,
}

#[derive(Serialize)]
struct ServerObject<'a> {
    pid: u32,
    architecture: &'a str,
    started_unix_ms: u64,
    uptime_s: f64,
    phase: &'static str,
    log_generation: u64,
    workers: usize,
    threads: u64,
}

#[derive(Serialize)]
struct TotalObject<'a> {
    #[serde(flatten)]
    values: Values<'a>,
    memory: Memory,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<Interval<'a>>,
}

#[derive(Serialize)]
struct WorkerObject<'a> {
    #[serde(flatten)]
    values: Values<'a>,
    slot: usize,
    pid: Option<u32>,
    incarnation: u64,
    heartbeat_age_ms: u64,
    memory: Option<Memory>,
    role: &'a str,
    dials: Dials,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<Interval<'a>>,
}

#[derive(Serialize)]
struct StageObject<'a> {
    #[serde(flatten)]
    values: Values<'a>,
    stage: &'a str,
    dials: Dials,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<Interval<'a>>,
}

#[derive(Serialize)]
struct Values<'a> {
    counters: Counters<'a>,
    gauges: Gauges<'a>,
    histograms: Histograms<'a>,
}

impl<'a> Values<'a> {
    const fn new(totals: &'a Totals) -> Self {
        Self { counters: Counters(totals), gauges: Gauges(totals), histograms: Histograms(totals) }
    }
}

struct Counters<'a>(&'a Totals);

impl Serialize for Counters<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let value = |counter: &Counter| (counter.name(), self.0.get(*counter));
        to.collect_map(Counter::ALL.iter().map(value))
    }
}

struct Gauges<'a>(&'a Totals);

impl Serialize for Gauges<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let value = |gauge: &Gauge| (gauge.name(), self.0.gauge(*gauge));
        to.collect_map(Gauge::ALL.iter().map(value))
    }
}

struct Histograms<'a>(&'a Totals);

impl Serialize for Histograms<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let value = |histogram: &Histogram| {
            (histogram.name(), Distribution::new(self.0.histogram(*histogram)))
        };
        to.collect_map(Histogram::ALL.iter().map(value))
    }
}

/// Quantiles are upper bounds, at most a sixteenth too large; `null` where nothing was recorded.
#[derive(Serialize)]
struct Distribution {
    count: u64,
    sum: u64,
    max: u64,
    p50: Option<u64>,
    p90: Option<u64>,
    p99: Option<u64>,
    p999: Option<u64>,
}

impl Distribution {
    fn new(snapshot: &Snapshot) -> Self {
        let quantile = |per_million| snapshot.quantile(per_million).map(|bounds| bounds.high);
        Self {
            count: snapshot.count(),
            sum: snapshot.sum(),
            max: snapshot.max(),
            p50: quantile(500_000),
            p90: quantile(900_000),
            p99: quantile(990_000),
            p999: quantile(999_000),
        }
    }
}

struct Dials([u64; Dial::ALL.len()]);

impl Serialize for Dials {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(DIALS.iter().map(|(name, dial)| (name, self.0[*dial as usize])))
    }
}

/// Counts of an interval: rates of the counters, per second, and the distributions.
struct Interval<'a> {
    seconds: f64,
    since: Cow<'a, Totals>,
}

impl<'a> Interval<'a> {
    fn new(seconds: Option<f64>, since: Cow<'a, Totals>) -> Option<Self> {
        Some(Self { seconds: seconds?, since })
    }
}

impl Serialize for Interval<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Members<'a> {
            seconds: f64,
            rates: Rates<'a>,
            histograms: Histograms<'a>,
        }
        let Self { seconds, since } = self;
        let (rates, histograms) = (Rates(since, *seconds), Histograms(since));
        Members { seconds: *seconds, rates, histograms }.serialize(to)
    }
}

/// Counts and the seconds of their interval.
struct Rates<'a>(&'a Totals, f64);

impl Serialize for Rates<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(since, seconds) = self;
        let sums = Counter::ALL.iter().filter(|counter| counter.merge() == Merge::Sum);
        to.collect_map(sums.map(|&counter| {
            #[expect(clippy::cast_precision_loss, reason = "a rate")]
            let rate = since.get(counter) as f64 / seconds.max(f64::MIN_POSITIVE);
            (counter.name(), rate)
        }))
    }
}

struct List<I>(I);

impl<T: Serialize, I: Iterator<Item = T> + Clone> Serialize for List<I> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.clone())
    }
}
