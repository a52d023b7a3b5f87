//! Ratios to the baseline, taken within blocks.

use super::Report;
use super::figure::Figure;
use crate::experiment::words;
use crate::record::AGAIN;
use serde_json::{Value, json};

impl Report<'_> {
    pub(super) fn forest(&self) -> Option<Figure> {
        let mut effects: Vec<_> = self.analysis.effects.iter().collect();
        // The same program twice first: it says how far the others can be trusted.
        effects.sort_by_key(|row| !row.cell.arm.ends_with(AGAIN));
        let rows: Vec<Value> = effects
            .iter()
            .filter_map(|row| {
                let (interval, arm) = (row.effect.interval?, self.arm(&row.cell));
                let (name, ratio) = (row.cell.name(), row.effect.ratio);
                Some(json!([name, ratio, interval.low, interval.high, arm]))
            })
            .collect();
        let floor = self.analysis.floor;
        let drawing = json!({ "mark": 1.0,
            "floor": [1.0 / (1.0 + floor), 1.0 + floor],
            "x": format!("ratio of {} to {}", words(&self.analysis.metric),
                self.run.experiment.baseline) });
        let percent = format!("{:.1}", 100.0 * floor);
        let baseline = &self.run.experiment.baseline;
        (!rows.is_empty()).then(|| {
            Figure::of("forest", &[("floor", &percent), ("baseline", baseline)])
                .forest(rows, drawing)
        })
    }
}
