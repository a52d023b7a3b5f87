//! What servers ask of a simulated disk, and what the page cache spares it (systems.md §6.4).

use super::Report;
use super::figure::{Figure, Section, Setting};
use crate::analysis::CellSummary;
use crate::units::show;
use serde_json::{Value, json};

/// A number of the disk: metric, factor, the figure's place, title, unit, caption.
type Column = (&'static str, f64, &'static str, &'static str, &'static str, &'static str);

const CHARTS: [Column; 4] = [
    (
        "disk_requests_per_s",
        1.0,
        "disk-requests",
        "Disk: requests",
        "requests per second",
        "What reached the simulated disk: what was not in the page cache, and what the kernel read \
         ahead. More requests for the same replies are smaller ones, or pages read more than once.",
    ),
    (
        "disk_busy_share",
        100.0,
        "disk-busy",
        "Disk: busy",
        "% of the time",
        "Share of the time during which the disk's heads were at work, seeks included. Near 100 % \
         the disk is what limits, and not who waits for it.",
    ),
    (
        "disk_run_kib",
        1.0,
        "disk-run",
        "Disk: contiguous runs",
        "KiB between two seeks, mean",
        "How much is read before the head has to move. Requests of several files that come mixed \
         cut each other's runs short, and a larger read-ahead makes them longer.",
    ),
    (
        "disk_queue_mean",
        1.0,
        "disk-queue",
        "Disk: queue",
        "requests, mean",
        "Requests that wait or are being served. One process that blocks keeps at most one there; \
         helpers, threads and asynchronous reads keep many.",
    ),
];

/// The table below: metric, factor, heading.
const TABLE: [(&str, f64, &str); 10] = [
    ("disk_requests_per_s", 1.0, "requests/s"),
    ("disk_mbyte_per_s", 1.0, "MB/s"),
    ("disk_busy_share", 100.0, "busy %"),
    ("disk_queue_mean", 1.0, "queue"),
    ("disk_run_kib", 1.0, "run KiB"),
    ("disk_files_per_s", 1.0, "files/s"),
    ("disk_response_ms", 1.0, "response ms"),
    ("disk_late_ms", 1.0, "late ms"),
    ("page_cache_mib", 1.0, "page cache MiB"),
    ("refaults_per_s", 1.0, "refaults/s"),
];

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    let mut figures: Vec<Figure> = if report.has_rates() {
        let each = |column| report.over_rates(&|setting| report.disk_curves(setting, column));
        CHARTS.iter().flat_map(each).collect()
    } else {
        CHARTS.iter().filter_map(|column| report.disk_rows(column)).collect()
    };
    figures.extend(report.disk_table());
    figures
}

/// A number of a cell in the unit of its chart: median and interval.
fn found(one: &CellSummary, (metric, factor, ..): &Column) -> Option<[f64; 3]> {
    Some(one.point(metric)?.map(|number| factor * number))
}

impl Report<'_> {
    /// Curves over the load, at one setting of everything else.
    fn disk_curves(&self, setting: &Setting, column: &Column) -> Option<Figure> {
        let (_, _, id, title, unit, caption) = *column;
        let lines = self.lines_at(setting, &|one| {
            let [median, low, high] = found(one, column)?;
            Some([one.median("offered_per_s")?, median, low, high])
        });
        let drawing = json!({ "kind": "curves", "lines": lines,
            "x": "offered, requests per second", "y": unit });
        let figure = setting.figure(Section::Inside, id, title, caption);
        (!lines.is_empty()).then(|| figure.drawn(drawing))
    }

    /// A row for each cell, where no rates are a factor.
    fn disk_rows(&self, column: &Column) -> Option<Figure> {
        let (_, _, id, title, unit, caption) = *column;
        let row = |one: &CellSummary| {
            let [median, low, high] = found(one, column)?;
            Some(json!([one.cell.name(), median, low, high, self.arm(&one.cell)]))
        };
        let rows: Vec<Value> = self.analysis.cells.iter().filter_map(row).collect();
        let drawing = json!({ "kind": "forest", "rows_data": rows, "x": unit, "zero": true });
        let figure = Figure::new(Section::Inside, id, title, caption);
        (!rows.is_empty()).then(|| figure.drawn(drawing).high(rows.len()))
    }

    fn disk_table(&self) -> Option<Figure> {
        let has =
            |metric: &str| self.analysis.cells.iter().any(|one| one.metrics.contains_key(metric));
        let columns: Vec<_> = TABLE.into_iter().filter(|(metric, ..)| has(metric)).collect();
        if columns.is_empty() {
            return None;
        }
        let mut head = vec!["arm".to_owned(), "disk requests for 1000 replies".to_owned()];
        head.extend(columns.iter().map(|(.., heading)| (*heading).to_owned()));
        let row = |one: &CellSummary| {
            let median = |metric: &str| one.median(metric);
            let told = |value: Option<f64>| value.map_or("–".to_owned(), show);
            let requests = median("disk_requests_per_s").zip(median("good_per_s"));
            let each = requests.filter(|(_, good)| *good > 0.0);
            let mut row = vec![one.cell.name(), told(each.map(|(asked, good)| 1e3 * asked / good))];
            let value = |(metric, factor, _): &(&str, f64, &str)| {
                told(median(metric).map(|median| median * factor))
            };
            row.extend(columns.iter().map(value));
            row
        };
        let cells = self.analysis.cells.iter().filter(|one| one.trials > 0);
        let rows = cells.map(row).collect();
        let caption = "Medians over the trials that count, from the simulated disk's own log and \
                       the memory of the server's group. \"Late\" is by how much this machine \
                       answered later than the disk that was asked for would have. Refaults are \
                       pages read again soon after they had been thrown out.";
        let figure = Figure::new(Section::Inside, "disk", "Disk and page cache", caption);
        Some(figure.with_table(head, rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::{named, synthetic};
    use crate::record::Cell;
    use std::collections::BTreeMap;

    const TEXT: &str = r#"
experiment = { name = "x", question = "?", expect = "!" }
targets = { a = {}, b = {} }
workload = { root = "." }
measure = { blocks = 6, again = false }
"#;

    fn numbers(cell: &Cell) -> BTreeMap<String, f64> {
        let mut all = named([
            ("good_per_s", 2_000.0),
            ("disk_requests_per_s", 50.0),
            ("disk_busy_share", 0.5),
            ("disk_run_kib", 64.0),
            ("disk_queue_mean", 1.5),
        ]);
        all.retain(|name, _| cell.target == "a" || name == "good_per_s");
        all
    }

    #[test]
    fn only_numbers_that_are_there_are_drawn() {
        let run = synthetic(TEXT, &numbers);
        let report = Report::of(&run);
        let figures = figures(&report);
        let ids: Vec<&str> = figures.iter().map(|figure| figure.id.as_str()).collect();
        assert_eq!(ids, ["disk-requests", "disk-busy", "disk-run", "disk-queue", "disk"]);
        let busy = figures[1].drawing.as_ref().unwrap();
        assert_eq!(busy["rows_data"], json!([["a", 50.0, 50.0, 50.0, 0]]));
        let table = figures[4].table.as_ref().unwrap();
        assert_eq!(table.rows[0][2..], ["50.0", "50.0", "1.50", "64.0"]);
        assert_eq!(table.rows[1][1..], ["–"; 5]);

        let none = synthetic(TEXT, &|_| named([("good_per_s", 1.0)]));
        assert!(super::figures(&Report::of(&none)).is_empty());
    }
}
