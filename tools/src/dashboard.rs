//! `deploy/grafana.json`: a dashboard of the numbers that `/metrics` has. `cargo xtask gen` writes
//! it, and `cargo xtask tidy` checks that it is current.
use regatta_metrics::{Counter, Gauge, Histogram};
use serde_json::{Value, json};

/// A line in a picture: an expression of Prometheus, and its name.
type Line = (String, &'static str);

/// Width and height of a panel, in units of Grafana's grid, which is 24 wide.
const SIZE: (usize, usize) = (12, 8);

/// Text of the whole file.
pub(crate) fn dashboard() -> String {
    let panels: Vec<Value> = panels()
        .into_iter()
        .enumerate()
        .map(|(at, (title, unit, lines))| panel(at, title, unit, &lines))
        .collect();
    let dashboard = json!({
        "title": "Regatta",
        "uid": "regatta",
        "schemaVersion": 39,
        "editable": true,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus"},
            {
                "name": "instance",
                "type": "query",
                "datasource": source(),
                "query": "label_values(regatta_build_info, instance)",
                "includeAll": true,
                "multi": true,
                "refresh": 2,
            },
        ]},
        "panels": panels,
    });
    format!("{dashboard:#}\n")
}

/// Title, unit and lines.
type Panel = (&'static str, &'static str, Vec<Line>);

fn panels() -> Vec<Panel> {
    let (hits, lookups) = (Counter::CacheHits, Counter::CacheLookups);
    let share = format!("{} / {}", rate(hits), rate(lookups));
    let closed = Counter::ALL.iter().filter(|counter| counter.name().starts_with("closed_"));
    let closed = closed.map(|counter| (rate(*counter), counter.name()));
    let faults = Counter::ALL.iter().filter(|counter| counter.name().starts_with("tls_faults_"));
    let faults = faults.map(|counter| (rate(*counter), counter.name()));
    vec![
        (
            "Requests by status",
            "reqps",
            vec![
                (rate(Counter::Replies2xx), "2xx"),
                (rate(Counter::Replies3xx), "3xx"),
                (rate(Counter::Replies4xx), "4xx"),
                (rate(Counter::Replies5xx), "5xx"),
            ],
        ),
        ("Time to answer", "s", quantiles(Histogram::RequestNs)),
        ("Bytes sent", "Bps", vec![(rate(Counter::BytesSent), "sent")]),
        (
            "Open connections",
            "short",
            vec![
                (gauge(Gauge::ConnectionsOpen), "open"),
                (gauge(Gauge::RequestsOpen), "being answered"),
            ],
        ),
        ("Connections closed, by reason", "cps", closed.collect()),
        (
            "Turned away",
            "cps",
            vec![
                (rate(Counter::ClosedRefused), "the server had too much to do"),
                (rate(Counter::AcceptSkippedFull), "a worker was full"),
            ],
        ),
        ("Lookups answered by the cache", "percentunit", vec![(share, "hits")]),
        ("Rounds of event loops", "s", quantiles(Histogram::LoopNs)),
        (
            "Handshakes of TLS",
            "cps",
            vec![
                (rate(Counter::TlsHandshakesFull), "full"),
                (rate(Counter::TlsHandshakesResumed), "resumed"),
            ],
        ),
        ("Connections that TLS ended, by reason", "cps", faults.collect()),
        expiry(),
        streams(),
        connections(),
        (
            "Bytes by path",
            "Bps",
            vec![
                (rate(Counter::SealedBytes), "encrypted"),
                (rate(Counter::SendfileBytes), "sendfile"),
            ],
        ),
        (
            "Workers",
            "short",
            vec![
                (sum("regatta_workers"), "wanted"),
                (sum("regatta_workers_answering"), "answering"),
            ],
        ),
    ]
}

/// Panel with the time until the next certificate expires.
fn expiry() -> Panel {
    let left = minimum("regatta_tls_certificate_remaining_seconds");
    ("Time until the next certificate expires", "s", vec![(left, "left")])
}

/// Panel with what becomes of streams.
fn streams() -> Panel {
    let lines = vec![
        (rate(Counter::StreamsOpened), "opened"),
        (rate(Counter::StreamsRefused), "refused"),
        (rate(Counter::StreamsResetByClient), "reset by clients"),
        (rate(Counter::StreamsResetByUs), "reset by the server"),
    ];
    ("Streams of HTTP/2", "reqps", lines)
}

/// Panel with the events of connections over HTTP/2.
fn connections() -> Panel {
    let lines = vec![
        (rate(Counter::ConnectionsHttp2), "begun"),
        (rate(Counter::Http2WindowStalls), "times stalled by windows"),
        (rate(Counter::Http2FilesClosed), "files closed while streams waited"),
        (rate(Counter::Http2Glitches), "faulty or useless frames"),
        (rate(Counter::Http2Calmed), "ended for such frames"),
    ];
    ("Connections of HTTP/2", "cps", lines)
}

fn panel(at: usize, title: &str, unit: &str, lines: &[Line]) -> Value {
    let (width, height) = SIZE;
    let per_row = 24 / width;
    let targets = (b'A'..=b'Z').zip(lines).map(|(letter, (expression, legend))| {
        json!({
            "refId": char::from(letter).to_string(),
            "expr": expression,
            "legendFormat": legend,
        })
    });
    json!({
        "id": at + 1,
        "type": "timeseries",
        "title": title,
        "datasource": source(),
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "gridPos": {
            "x": at % per_row * width,
            "y": at / per_row * height,
            "w": width,
            "h": height,
        },
        "targets": targets.collect::<Vec<_>>(),
    })
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

fn sum(name: &str) -> String {
    format!("sum({name}{{instance=~\"$instance\"}})")
}

fn minimum(name: &str) -> String {
    format!("min({name}{{instance=~\"$instance\"}})")
}

fn gauge(gauge: Gauge) -> String {
    sum(&gauge.exported())
}

fn rate(counter: Counter) -> String {
    let name = counter.exported();
    format!("sum(rate({name}{{instance=~\"$instance\"}}[$__rate_interval]))")
}

fn quantiles(histogram: Histogram) -> Vec<Line> {
    let name = format!("{}_bucket", histogram.exported());
    let rates = format!("sum by (le) (rate({name}{{instance=~\"$instance\"}}[$__rate_interval]))");
    let quantile = |share: &str| format!("histogram_quantile({share}, {rates})");
    vec![
        (quantile("0.5"), "median"),
        (quantile("0.99"), "99 of 100"),
        (quantile("0.999"), "999 of 1000"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn panels_are_beside_each_other_and_draw_what_is_exported() {
        let document: Value = serde_json::from_str(&dashboard()).unwrap();
        let panels = document["panels"].as_array().unwrap();
        let (mut ids, mut places) = (HashSet::new(), HashSet::new());
        for panel in panels {
            let place = &panel["gridPos"];
            assert!(ids.insert(panel["id"].as_u64()), "{panel}");
            assert!(places.insert((place["x"].as_u64(), place["y"].as_u64())), "{panel}");
            let targets = panel["targets"].as_array().unwrap();
            assert!(!targets.is_empty(), "{panel}");
            for target in targets {
                let expression = target["expr"].as_str().unwrap();
                assert!(expression.contains("regatta_"), "{expression}");
                let (open, closed) = (expression.matches('('), expression.matches(')'));
                assert_eq!(open.count(), closed.count(), "{expression}");
            }
        }
        let reasons = Counter::ALL.iter().filter(|one| one.name().starts_with("closed_"));
        assert!(reasons.count() <= 26, "each line of a panel has a letter");
    }
}
