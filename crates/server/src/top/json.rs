//! A reading as JSON, for `regatta top --json` and for `/status` of the admin process. All names
//! are those of `docs/metrics.md`.
use super::{Memory, Sample, Worker, phase_name};
use regatta_metrics::{Counter, Dial, Gauge, Histogram, Merge, Snapshot, Totals};
use serde_json::{Map, Value, json};

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
    let workers = now.workers.iter().map(|worker| object_of(now, earlier, worker));
    let workers: Vec<Value> = workers.collect();
    let seconds = earlier.map(|earlier| now.seconds_since(earlier));
    let stages = now.stages(earlier).into_iter().map(|stage| {
        let mut object = values(&stage.totals);
        object.insert("stage".to_owned(), json!(stage.name));
        object.insert("dials".to_owned(), dials(|dial| stage.dial(dial)));
        if let Some(seconds) = seconds {
            object.insert("interval".to_owned(), interval(&stage.since, seconds));
        }
        Value::Object(object)
    });
    let stages: Vec<Value> = stages.collect();
    let mut total = values(&now.totals);
    total.insert("memory".to_owned(), now.memory().json());
    if let Some(earlier) = earlier {
        let since = now.totals.since(&earlier.totals);
        total.insert("interval".to_owned(), interval(&since, now.seconds_since(earlier)));
    }
    let document = json!({
        "server": {
            "pid": now.pid,
            "architecture": now.architecture,
            "started_unix_ms": now.started_unix_ms,
            "uptime_s": now.uptime.as_secs_f64(),
            "phase": phase_name(now.phase),
            "log_generation": now.log_generation,
            "workers": now.processes(),
            "threads": now.threads(),
        },
        "total": total,
        "workers": workers,
        "stages": stages,
    });
    format!("{document}\n")
}

fn object_of(now: &Sample, earlier: Option<&Sample>, worker: &Worker) -> Value {
    let mut object = values(&worker.totals);
    let pid = (worker.pid != 0).then_some(worker.pid);
    object.insert("slot".to_owned(), json!(worker.slot));
    object.insert("pid".to_owned(), json!(pid));
    object.insert("incarnation".to_owned(), json!(worker.incarnation));
    object.insert("heartbeat_age_ms".to_owned(), json!(worker.heartbeat_age_ms));
    object.insert("memory".to_owned(), json!(worker.memory.as_ref().map(Memory::json)));
    object.insert("role".to_owned(), json!(worker.role));
    object.insert("dials".to_owned(), dials(|dial| worker.dials[dial as usize]));
    if let Some(earlier) = earlier {
        let since = now.worker_since(worker, Some(earlier));
        object.insert("interval".to_owned(), interval(&since, now.seconds_since(earlier)));
    }
    Value::Object(object)
}

fn dials(value: impl Fn(Dial) -> u64) -> Value {
    object(DIALS.into_iter().map(|(name, dial)| (name, value(dial).into())))
}

fn values(totals: &Totals) -> Map<String, Value> {
    let counters = Counter::ALL.iter().map(|&counter| (counter.name(), totals.get(counter).into()));
    let gauges = Gauge::ALL.iter().map(|&gauge| (gauge.name(), totals.gauge(gauge).into()));
    [
        ("counters".to_owned(), object(counters)),
        ("gauges".to_owned(), object(gauges)),
        ("histograms".to_owned(), histograms(totals)),
    ]
    .into_iter()
    .collect()
}

/// Counts of an interval: rates of the counters, per second, and the distributions.
fn interval(since: &Totals, seconds: f64) -> Value {
    let sums = Counter::ALL.iter().filter(|counter| counter.merge() == Merge::Sum);
    let rates = sums.map(|&counter| {
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let rate = since.get(counter) as f64 / seconds.max(f64::MIN_POSITIVE);
        (counter.name(), json!(rate))
    });
    json!({
        "seconds": seconds,
        "rates": object(rates),
        "histograms": histograms(since),
    })
}

fn histograms(totals: &Totals) -> Value {
    object(
        Histogram::ALL
            .iter()
            .map(|&histogram| (histogram.name(), distribution(totals.histogram(histogram)))),
    )
}

/// Quantiles are upper bounds, at most a sixteenth too large; `null` where nothing was recorded.
fn distribution(snapshot: &Snapshot) -> Value {
    let quantile = |per_million| snapshot.quantile(per_million).map(|bounds| bounds.high);
    json!({
        "count": snapshot.count(),
        "sum": snapshot.sum(),
        "max": snapshot.max(),
        "p50": quantile(500_000),
        "p90": quantile(900_000),
        "p99": quantile(990_000),
        "p999": quantile(999_000),
    })
}

fn object(members: impl Iterator<Item = (&'static str, Value)>) -> Value {
    Value::Object(members.map(|(name, value)| (name.to_owned(), value)).collect())
}
