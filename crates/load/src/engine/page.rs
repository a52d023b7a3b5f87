//! The result as one page that works offline: curves over the seconds, percentiles, a histogram,
//! and the sentences of the table.

use super::outcome::Outcome;
use super::report::{self, QUANTILES};
use super::slo::show;
use super::tally::Row;
use crate::page::{date, render};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const TEMPLATE: &str = include_str!("../../assets/page/load.html");
/// Kinds of charts that only this page has.
const KINDS: &[&str] = &[include_str!("../../assets/page/histogram.js")];
/// Bars of the histogram.
const BARS_MAX: usize = 40;
/// Fewer seconds than this are no course.
const SECONDS_MIN: usize = 2;

/// Renders the page.
pub(super) fn html(outcome: &Outcome) -> Result<String, String> {
    let (times, course) = (times(outcome), course(outcome));
    let drawing = |figure: &Value| {
        let drawing = figure.get("drawing")?;
        Some((figure["id"].as_str()?.to_owned(), drawing.clone()))
    };
    let drawings: Map<String, Value> = times.iter().chain(&course).filter_map(drawing).collect();
    let arm = |(colour, name): (usize, &str)| json!({ "name": name, "colour": colour });
    let arms: Vec<Value> = [(0, "response time"), (3, "service time")].map(arm).into();
    let data = json!({ "name": "load", "arms": arms, "figures": drawings });
    let mut sections = vec![
        json!({ "id": "times", "title": "Times", "figures": times,
            "sentences": [report::clock_note(outcome)] }),
        json!({ "id": "whole", "title": "The whole result", "figures": [whole(outcome)] }),
    ];
    if !course.is_empty() {
        let course = json!({ "id": "course", "title": "Second by second", "figures": course });
        sections.insert(1, course);
    }
    let values = json!({
        "url": outcome.url,
        "model": outcome.model,
        "date": date(outcome.started_unix_ms),
        "answer": answer(outcome),
        "badges": badges(outcome),
        "reasons": outcome.reasons.iter().map(report::reason).collect::<Vec<_>>(),
        "load": outcome.load,
        "extent": report::extent(outcome),
        "sections": sections,
    });
    render("load.html", TEMPLATE, values, &data, KINDS)
}

fn answer(outcome: &Outcome) -> String {
    let at = outcome.latency().at(0.99);
    let time = match (at.censored, at.ns) {
        (true, 0) => "More than 1 % of the requests failed".to_owned(),
        (true, ns) => format!("More than 1 % of the requests took over {}", show(ns as f64)),
        (false, ns) => format!("99 % of the requests took at most {}", show(ns as f64)),
    };
    let (good, offered) = (outcome.good_per_s, outcome.offered_per_s);
    let errors = 100.0 * outcome.error_share();
    format!(
        "{good:.1} good answers per second of {offered:.1} offered, {errors:.3} % errors. {time}."
    )
}

fn badges(outcome: &Outcome) -> Vec<String> {
    let mut badges = vec![outcome.stamp.name().to_owned()];
    badges.extend(outcome.level.as_ref().map(|level| {
        let verdict = level.verdict.name().replace('-', " ");
        format!("service level {verdict}")
    }));
    if outcome.interrupted {
        badges.push("interrupted: a partial result".to_owned());
    }
    badges
}

/// Percentiles as a curve and a table, and the histogram.
fn times(outcome: &Outcome) -> Vec<Value> {
    let response = outcome.response.iter().map(|response| (0, response));
    let lines: Vec<Value> = response
        .chain([(1, &outcome.service)])
        .map(|(arm, spectrum)| json!({ "arm": arm, "points": spectrum.curve() }))
        .filter(|line| line["points"].as_array().is_some_and(|points| points.len() > 2))
        .collect();
    let mut head = vec!["time"];
    head.extend(QUANTILES.map(|(name, _)| name));
    head.push("mean");
    let row = |(name, cells): (&str, Vec<String>)| [vec![name.trim().to_owned()], cells].concat();
    let rows: Vec<Vec<String>> = report::time_rows(outcome).into_iter().map(row).collect();
    let response = if outcome.response.is_some() {
        "Response time: from when a request was due to its last byte. "
    } else {
        ""
    };
    let caption = format!(
        "{response}Service time: from the first attempt to the last byte. The axis is that of \
         HdrHistogram's plots: each step to the right has a tenth of the requests beyond it. \
         A request that failed counts as later than all others."
    );
    let mut percentiles = json!({ "id": "percentiles", "title": "Percentiles",
        "caption": caption, "table": { "head": head, "rows": rows } });
    if !lines.is_empty() {
        let weak = outcome.latency().samples() as f64 / 10.0;
        let panel = json!({ "title": "", "lines": lines, "weak": weak });
        percentiles["drawing"] = json!({ "kind": "spectrum", "panels": [panel] });
    }
    let bins = outcome.latency().times.bins(BARS_MAX).into_iter();
    let bins: Vec<(f64, u64)> = bins.map(|(end, count)| (end as f64 / 1e6, count)).collect();
    let mut figures = vec![percentiles];
    if !bins.is_empty() {
        figures.push(json!({ "id": "histogram", "title": "Histogram",
            "caption": "Times of the answers. Each bin is wider than the one before it by the same \
                        factor.",
            "drawing": { "kind": "histogram", "bins": bins } }));
    }
    figures
}

/// Rates, failures and percentiles of each whole second; nothing of a run that is too short.
fn course(outcome: &Outcome) -> Vec<Value> {
    let warm = outcome.rows.iter().find(|row| row.counts).map_or(0, |row| row.second);
    let whole = warm as f64 + outcome.seconds + 0.01;
    let within = |row: &&Row| (row.second + 1) as f64 <= whole;
    let rows: Vec<&Row> = outcome.rows.iter().filter(within).collect();
    if rows.len() < SECONDS_MIN {
        return Vec::new();
    }
    let kinds: BTreeSet<_> = rows.iter().flat_map(|row| row.failures.keys().copied()).collect();
    let kind = |kind| {
        let values: Vec<u64> =
            rows.iter().map(|row| row.failures.get(&kind).copied().unwrap_or(0)).collect();
        json!({ "name": kind.name().replace('-', " "), "values": values })
    };
    let column = |of: &dyn Fn(&Row) -> Value| rows.iter().map(|row| of(row)).collect::<Vec<_>>();
    let ms = |ns: u64| json!(ns as f64 / 1e6);
    let run = json!({
        "warm": warm,
        "seconds": column(&|row| json!(row.second)),
        "offered": column(&|row| json!(row.offered)),
        "good": column(&|row| json!(row.good)),
        "errors": column(&|row| json!(row.errors)),
        "kinds": kinds.into_iter().map(kind).collect::<Vec<_>>(),
        "p50": column(&|row| ms(row.p50_ns)),
        "p99": column(&|row| ms(row.p99_ns)),
        "max": column(&|row| ms(row.max_ns)),
        "in_flight": column(&|row| json!(row.in_flight)),
        "client_cpu": column(&|row| json!(row.cpu_ns as f64 / 1e9)),
    });
    vec![json!({ "id": "seconds", "title": "Rates, times and failures", "rows": 57,
        "caption": "Each whole second: requests that became due and good answers that arrived, \
                    failures by kind, times of what ended in it, requests in flight at its end, \
                    and processors that the load itself kept busy.",
        "drawing": { "kind": "series", "runs": [run] } })]
}

/// The text that a terminal shows.
fn whole(outcome: &Outcome) -> Value {
    json!({ "id": "text", "title": "As a terminal shows it",
        "caption": "Counts, fates, percentiles, the load generator's own state, and the service \
                    level.",
        "text": report::table(outcome) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fate::Fate;
    use crate::engine::tally::Spectrum;
    use crate::page::{ECHARTS, script};

    fn row(second: u64) -> Row {
        let failures = if second == 1 { [(Fate::Timeout, 3)].into() } else { [].into() };
        Row { second, counts: second > 0, offered: 100, good: 97, failures, ..Row::default() }
    }

    fn outcome() -> Outcome {
        let mut service = Spectrum::fine();
        (1..=1_000).for_each(|us| service.times.record(us * 1_000));
        Outcome {
            response: Some(service.clone()),
            service,
            seconds: 3.0,
            rows: (0..5).map(row).collect(),
            ..Outcome::empty("http://127.0.0.1/?</script><b>")
        }
    }

    #[test]
    fn the_page_is_whole_and_needs_no_network() {
        let page = html(&outcome()).unwrap();
        let ours = page.replace(ECHARTS, "");
        for outside in ["src=\"http", "href=\"http", "@import", "url(http", "fetch("] {
            assert!(!ours.contains(outside), "{outside}");
        }
        assert_eq!(ours.matches("</script>").count(), 3, "the page's own");
        assert!(!ours.contains("<b>"), "the URL is text");
        for part in
            ["c-percentiles", "c-histogram", "c-seconds", "no coordinated omission", "p99.9"]
        {
            assert!(ours.contains(part), "{part}");
        }
        assert_eq!(html(&outcome()), Ok(page), "a pure function");
    }

    #[test]
    fn the_script_knows_every_chart() {
        let (script, outcome) = (script(KINDS), outcome());
        let figures: Vec<Value> = [times(&outcome), course(&outcome)].concat();
        assert_eq!(figures.len(), 3);
        for figure in figures {
            let kind = figure["drawing"]["kind"].as_str().unwrap();
            for of in ["KINDS", "TABLES"] {
                assert!(script.contains(&format!("\n{of}.{kind} = ")), "{of}.{kind}");
            }
        }
    }

    /// Warm-up is part of the course; seconds of the drain, which are not whole, are none.
    #[test]
    fn the_course_has_the_whole_seconds() {
        let figures = course(&outcome());
        let run = &figures[0]["drawing"]["runs"][0];
        assert_eq!((&run["warm"], &run["seconds"]), (&json!(1), &json!([0, 1, 2, 3])));
        assert_eq!(run["kinds"], json!([{ "name": "timeout", "values": [0, 3, 0, 0] }]));
        let short = Outcome { seconds: 0.5, rows: vec![row(0)], ..outcome() };
        assert!(course(&short).is_empty() && html(&short).is_ok());
        assert!(html(&Outcome::empty("http://127.0.0.1/")).is_ok(), "nothing was answered");
    }
}
