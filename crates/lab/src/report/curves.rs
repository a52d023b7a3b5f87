//! Plain curves: a number of each cell over another one, a row of `assets/curves.toml` each; and
//! the disk's table.

use super::Report;
use super::figure::{Figure, Section, Setting};
use crate::analysis::CellSummary;
use crate::units::show;
use serde::Deserialize;
use serde_json::json;
use std::sync::LazyLock;

/// A curve over the rates, at each setting of the other factors.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Curve {
    section: Section,
    id: String,
    title: String,
    #[serde(default = "offered")]
    x: String,
    #[serde(default = "offered_unit")]
    x_unit: String,
    y: String,
    per: Option<String>,
    factor: Option<f64>,
    unit: String,
    #[serde(default)]
    log_y: bool,
    #[serde(default)]
    bars: bool,
    caption: String,
}

fn offered() -> String {
    "offered_per_s".to_owned()
}

fn offered_unit() -> String {
    "offered, requests per second".to_owned()
}

/// The file.
#[derive(Deserialize)]
struct Curves {
    curve: Vec<Curve>,
}

static CURVES: LazyLock<Curves> = LazyLock::new(|| {
    toml::from_str(include_str!("../../assets/curves.toml")).expect("a test draws all of them")
});

/// The disk's table: metric, factor, heading.
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
    let of = |curve: &Curve| -> Vec<Figure> {
        if curve.bars && !report.has_rates() {
            return report.bars_of(curve).into_iter().collect();
        }
        report.over_rates(&|setting| report.curve(setting, curve))
    };
    CURVES.curve.iter().flat_map(of).chain(report.disk_table()).collect()
}

impl Curve {
    /// Median and interval of a cell's number.
    fn point(&self, one: &CellSummary) -> Option<[f64; 3]> {
        let Some(per) = &self.per else {
            let factor = self.factor.unwrap_or(1.0);
            return Some(one.point(&self.y)?.map(|number| factor * number));
        };
        let whole = one.counters.get(per).filter(|whole| **whole > 0.0)?;
        Some([one.counters.get(&self.y)? / whole; 3])
    }
}

impl Report<'_> {
    /// A line for each arm; None where all numbers are 0.
    fn curve(&self, setting: &Setting, curve: &Curve) -> Option<Figure> {
        let lines = self.lines_at(setting, &|one| {
            let [median, low, high] = curve.point(one)?;
            let is_drawn = !curve.log_y || median > 0.0;
            is_drawn.then_some([one.median(&curve.x)?, median, low, high])
        });
        let mut points = lines.iter().flat_map(|line| &line.points);
        let is_seen = points.any(|point| point[1] > 0.0);
        let drawing = json!({ "kind": "curves", "lines": lines, "log_y": curve.log_y,
            "x": curve.x_unit, "y": curve.unit });
        let Curve { section, id, title, caption, .. } = curve;
        is_seen.then(|| setting.figure(*section, id, title, caption).drawn(drawing))
    }

    /// A bar for each cell.
    fn bars_of(&self, curve: &Curve) -> Option<Figure> {
        let rows = self.rows_of(&|one| curve.point(one));
        let Curve { section, id, title, caption, .. } = curve;
        let drawing = json!({ "x": curve.unit, "zero": true });
        (!rows.is_empty()).then(|| Figure::new(*section, id, title, caption).forest(rows, drawing))
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
