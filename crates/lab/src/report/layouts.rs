//! How much one server's numbers scatter in each layout of server and load.

use super::Report;
use super::figure::Figure;
use crate::experiment::LAYOUT;
use crate::stats::deviation;

/// The numbers that experiments compare most.
const METRICS: [&str; 3] = ["cpu_us_per_reply", "good_per_s", "p99_ms"];

impl Report<'_> {
    pub(super) fn layouts(&self) -> Option<Figure> {
        self.run.experiment.factors.iter().find(|factor| factor.path == LAYOUT)?;
        let mut head = vec!["arm".to_owned(), "trials".to_owned()];
        head.extend(METRICS.map(|metric| format!("{metric}, ±%")));
        let rows = self.analysis.cells.iter().map(|one| {
            let of = |metric: &str| -> Vec<f64> {
                let mine = self.run.valid().filter(|record| record.cell == one.cell);
                let values = mine.filter_map(|record| record.metrics.get(metric).copied());
                values.filter(|value| *value > 0.0).map(f64::ln).collect()
            };
            let mut row = vec![one.cell.name(), one.trials.to_string()];
            row.extend(METRICS.map(|metric| match 100.0 * deviation(&of(metric)) {
                scatter if scatter.is_finite() => format!("{scatter:.1}"),
                _ => "–".to_owned(),
            }));
            row
        });
        let rows = rows.collect();
        Some(Figure::of("layouts", &[]).with_table(head, rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::{named, synthetic};
    use crate::record::Cell;
    use std::collections::BTreeMap;

    const TEXT: &str = r#"
experiment = { name = "layouts", question = "?", expect = "!" }
targets.a = {}
factors."machine.layout" = ["apart", "together"]
workload = { root = ".", loop = "closed", connections = 1 }
machine = { server_cpus = "0", client_cpus = "1" }
measure = { metric = "cpu_us_per_reply", blocks = 6 }
"#;

    fn metrics(_: &Cell) -> BTreeMap<String, f64> {
        named([("cpu_us_per_reply", 4.0)])
    }

    #[test]
    fn each_layouts_scatter_is_told() {
        let mut run = synthetic(TEXT, &metrics);
        // Apart, every other block costs e^0.1 times as much; ±0.1 around their mean is 0.055.
        for record in &mut run.records {
            if record.cell.levels[LAYOUT] == "apart" && record.block % 2 == 0 {
                record.metrics.insert("cpu_us_per_reply".to_owned(), 4.0 * 0.1_f64.exp());
            }
        }
        let figure = Report::of(&run).layouts().expect("there is a factor");
        let rows = figure.table.unwrap().rows;
        let told = |layout: &str| {
            let row = rows.iter().find(|row| row[0].contains(layout)).unwrap();
            row[2..].to_vec()
        };
        assert_eq!(told("apart"), ["5.5", "–", "–"]);
        assert_eq!(told("together"), ["0.0", "–", "–"]);
        let text = TEXT.replace("factors.\"machine.layout\" = [\"apart\", \"together\"]", "");
        assert!(Report::of(&synthetic(&text, &metrics)).layouts().is_none());
    }
}
