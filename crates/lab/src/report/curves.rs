//! Plain curves: a number of each cell over another one, and the disk's table.

use super::Report;
use super::figure::{Figure, FigureRow, Setting};
use super::tables::{self, Column};
use crate::analysis::CellSummary;
use crate::units::show;
use serde_json::json;

pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    let of = |curve: &'static FigureRow| -> Vec<Figure> {
        if curve.bars && !report.has_rates() {
            return report.bars_of(curve).into_iter().collect();
        }
        report.over_rates(&|setting| report.curve(setting, curve))
    };
    let curves = FigureRow::all().iter().filter(|row| row.y.is_some());
    curves.flat_map(of).chain(report.disk_table()).collect()
}

/// Median and interval of a cell's number.
fn point(curve: &FigureRow, one: &CellSummary) -> Option<[f64; 3]> {
    let y = curve.y.as_ref()?;
    let Some(per) = &curve.per else {
        let factor = curve.factor.unwrap_or(1.0);
        return Some(one.point(y)?.map(|number| factor * number));
    };
    let whole = one.counters.get(per).filter(|whole| **whole > 0.0)?;
    Some([one.counters.get(y)? / whole; 3])
}

impl Report<'_> {
    /// A line for each arm; None where all numbers are 0.
    fn curve(&self, setting: &Setting, curve: &FigureRow) -> Option<Figure> {
        let x = curve.x.as_deref().unwrap_or("offered_per_s");
        let lines = self.lines_at(setting, &|one| {
            let [median, low, high] = point(curve, one)?;
            let is_drawn = !curve.log_y || median > 0.0;
            is_drawn.then_some([one.median(x)?, median, low, high])
        });
        let mut points = lines.iter().flat_map(|line| &line.points);
        let is_seen = points.any(|point| point[1] > 0.0);
        let x = curve.x_unit.as_deref().unwrap_or("offered, requests per second");
        let drawing = json!({ "kind": "curves", "lines": lines, "log_y": curve.log_y, "x": x,
            "y": curve.unit });
        is_seen.then(|| setting.figure(curve.figure(&[])).drawn(drawing))
    }

    /// A bar for each cell.
    fn bars_of(&self, curve: &FigureRow) -> Option<Figure> {
        let rows = self.rows_of(&|one| point(curve, one));
        let drawing = json!({ "x": curve.unit, "zero": true });
        (!rows.is_empty()).then(|| curve.figure(&[]).forest(rows, drawing))
    }

    fn disk_table(&self) -> Option<Figure> {
        let columns = tables::columns(&self.analysis, "disk");
        if columns.is_empty() {
            return None;
        }
        let mut head = vec!["arm".to_owned(), "disk requests for 1000 replies".to_owned()];
        head.extend(columns.iter().map(|(_, heading, _)| heading.clone()));
        let row = |one: &CellSummary| {
            let median = |metric: &str| one.median(metric);
            let told = |value: Option<f64>| value.map_or("–".to_owned(), show);
            let requests = median("disk_requests_per_s").zip(median("good_per_s"));
            let each = requests.filter(|(_, good)| *good > 0.0);
            let mut row = vec![one.cell.name(), told(each.map(|(asked, good)| 1e3 * asked / good))];
            let value =
                |(metric, _, factor): &&Column| told(median(metric).map(|one| one * factor));
            row.extend(columns.iter().map(value));
            row
        };
        let cells = self.analysis.cells.iter().filter(|one| one.trials > 0);
        let rows = cells.map(row).collect();
        Some(Figure::of("disk", &[]).with_table(head, rows))
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
