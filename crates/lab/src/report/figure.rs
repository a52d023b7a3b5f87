//! A figure of the page, its place, and its text from `assets/figures.toml`; tables of medians.

use super::Report;
use crate::analysis::{Analysis, CellSummary};
use crate::experiment::RATE;
use crate::record::Cell;
use crate::units::show;
use regatta_load::named;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

named! {
    #[derive(PartialOrd, Ord)]
    pub(crate) enum Section {
        Drawn = "paper-figure",
        Throughput = "throughput",
        Latency = "latency",
        Capacity = "capacity",
        Comparison = "comparison",
        Percentiles = "percentiles",
        Time = "time",
        Work = "work",
        Inside = "inside",
        Tuning = "tuning",
        Quality = "quality",
        Overload = "overload",
        Verification = "verification",
        Papers = "papers",
        Appendix = "appendix",
    }
}

impl Section {
    pub(crate) fn title(self) -> &'static str {
        &FIGURES.sections[&self]
    }
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Table {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A row of `assets/figures.toml`, which says what its fields are.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FigureRow {
    id: String,
    section: Section,
    title: String,
    caption: String,
    #[serde(default)]
    pub(super) columns: Vec<(String, String, f64)>,
    pub(super) x: Option<String>,
    pub(super) x_unit: Option<String>,
    pub(super) y: Option<String>,
    pub(super) per: Option<String>,
    #[serde(default)]
    pub(super) parts: Vec<String>,
    pub(super) factor: Option<f64>,
    pub(super) unit: Option<String>,
    #[serde(default)]
    pub(super) log_y: bool,
    #[serde(default)]
    pub(super) bars: bool,
}

#[derive(Debug, Deserialize)]
struct Figures {
    sections: BTreeMap<Section, String>,
    figure: Vec<FigureRow>,
}

static FIGURES: LazyLock<Figures> = LazyLock::new(|| {
    toml::from_str(include_str!("../../assets/figures.toml")).expect("a test draws them")
});

impl FigureRow {
    pub(super) fn all() -> &'static [Self] {
        &FIGURES.figure
    }

    pub(super) fn of(id: &str) -> &'static Self {
        Self::all().iter().find(|row| row.id == id).expect("figures are in their file")
    }

    /// The figure without a chart yet, with `values` for the names in its texts.
    pub(super) fn figure(&self, values: &[(&str, &dyn fmt::Display)]) -> Figure {
        let filled = |text: &String| {
            values.iter().fold(text.clone(), |text, (name, value)| {
                text.replace(&format!("{{{name}}}"), &value.to_string())
            })
        };
        let (id, title) = (filled(&self.id), filled(&self.title));
        Figure::new(self.section, id, title, filled(&self.caption))
    }
}

/// A figure: a chart, a table, a text to copy, or several of them under one title.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    /// Name in the page, unique.
    pub(crate) id: String,
    pub(crate) section: Section,
    pub(crate) title: String,
    pub(crate) caption: String,
    /// Height in rem of a chart whose height depends on its rows.
    pub(crate) rows: Option<f64>,
    /// Label of the choices, and the choices.
    pub(crate) choice: String,
    pub(crate) choices: Vec<String>,
    /// Data that the page draws; None: no chart.
    pub(crate) drawing: Option<Value>,
    pub(crate) table: Option<Table>,
    /// A text to copy, such as a configuration.
    pub(crate) text: Option<String>,
    /// Files that come with the page: a name, and the path from the run's directory.
    pub(crate) links: Vec<(String, String)>,
}

impl Figure {
    /// The figure of a row of the file, with `values` for the names in its texts.
    pub(super) fn of(id: &str, values: &[(&str, &dyn fmt::Display)]) -> Self {
        FigureRow::of(id).figure(values)
    }

    /// A figure without a chart yet.
    pub(super) fn new(
        section: Section,
        id: impl Into<String>,
        title: impl Into<String>,
        caption: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            section,
            title: title.into(),
            caption: caption.into(),
            rows: None,
            choice: String::new(),
            choices: Vec::new(),
            drawing: None,
            table: None,
            text: None,
            links: Vec::new(),
        }
    }

    /// With a chart: JSON whose `kind` the page's script knows.
    pub(crate) fn drawn(mut self, drawing: Value) -> Self {
        self.drawing = Some(drawing);
        self
    }

    /// With a table below the chart.
    pub(crate) fn with_table<H: Into<String>>(
        mut self,
        head: impl IntoIterator<Item = H>,
        rows: Vec<Vec<String>>,
    ) -> Self {
        let head = head.into_iter().map(Into::into).collect();
        self.table = Some(Table { head, rows });
        self
    }

    /// The same; None where the table would be empty.
    pub(crate) fn with_rows<H: Into<String>>(
        self,
        head: impl IntoIterator<Item = H>,
        rows: Vec<Vec<String>>,
    ) -> Option<Self> {
        (!rows.is_empty()).then(|| self.with_table(head, rows))
    }

    /// A chart of rows, which is higher the more there are.
    pub(crate) fn high(mut self, rows: usize) -> Self {
        self.rows = Some(7.5 + 1.9 * crate::stats::count(rows));
        self
    }

    /// Dots with intervals on `drawing`, a row for each: `[name, median, low, high, arm]`.
    pub(super) fn forest(self, rows: Vec<Value>, mut drawing: Value) -> Self {
        let high = rows.len();
        drawing["kind"] = "forest".into();
        drawing["rows_data"] = rows.into();
        self.drawn(drawing).high(high)
    }

    /// Shows only one of `choices` of a chart at a time; `label` names them.
    pub(crate) fn chosen(mut self, label: &str, choices: Vec<String>) -> Self {
        label.clone_into(&mut self.choice);
        self.choices = choices;
        self
    }
}

/// A line of a chart: the number of its arm, and `[x, median, low, high]` of each of its points.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    pub(super) arm: usize,
    pub(super) points: Vec<[f64; 4]>,
}

/// A setting of what varies besides the rate; figures over the rate are drawn for each.
#[derive(Clone, Debug, Default)]
pub(super) struct Setting {
    /// The levels of the other factors, which all arms share.
    levels: BTreeMap<String, String>,
    /// Added to places: empty for the only one.
    suffix: String,
    words: String,
}

impl Setting {
    pub(super) fn figure(&self, figure: Figure) -> Figure {
        let (id, title) = (figure.id + &self.suffix, figure.title + &self.words);
        Figure { id, title, ..figure }
    }

    fn has(&self, one: &CellSummary) -> bool {
        self.levels.iter().all(|(path, level)| one.cell.levels.get(path) == Some(level))
    }
}

impl Report<'_> {
    /// Every setting of what varies besides the rate and the arms' own options.
    fn settings(&self) -> Vec<Setting> {
        let mut settings = vec![Setting::default()];
        let factors = self.run.experiment.factors.iter();
        for factor in factors.filter(|f| f.path != RATE && f.of_target().is_none()) {
            let with = |(setting, level): (&Setting, &String)| {
                let mut levels = setting.levels.clone();
                levels.insert(factor.path.clone(), level.clone());
                let words = format!("{}, {} {level}", setting.words, factor.label());
                Setting { levels, suffix: String::new(), words }
            };
            let pairs = settings.iter().flat_map(|one| factor.levels.iter().map(move |l| (one, l)));
            settings = pairs.map(with).collect();
        }
        if settings.len() > 1 {
            for (at, setting) in settings.iter_mut().enumerate() {
                setting.suffix = format!("-{at}");
            }
        }
        settings
    }

    /// A figure over the rates at every setting of the rest; none where rates are no factor.
    pub(super) fn over_rates(&self, make: &dyn Fn(&Setting) -> Option<Figure>) -> Vec<Figure> {
        let settings = if self.has_rates() { self.settings() } else { Vec::new() };
        settings.iter().filter_map(make).collect()
    }

    pub(super) fn has_rates(&self) -> bool {
        let rate = self.run.experiment.factors.iter().find(|factor| factor.path == RATE);
        rate.is_some_and(|factor| factor.levels.len() > 1)
    }

    /// A line for each arm from the lowest load to the highest, at one setting of what varies
    /// besides the rate.
    pub(super) fn lines_at(
        &self,
        setting: &Setting,
        of: &dyn Fn(&CellSummary) -> Option<[f64; 4]>,
    ) -> Vec<Line> {
        let mut lines: BTreeMap<usize, Vec<(f64, [f64; 4])>> = BTreeMap::new();
        let here = self.analysis.cells.iter().filter(|one| one.trials > 0 && setting.has(one));
        for one in here {
            if let Some(point) = of(one).filter(|point| point.iter().all(|x| x.is_finite())) {
                lines.entry(self.arm(&one.cell)).or_default().push((rate(&one.cell), point));
            }
        }
        lines
            .into_iter()
            .map(|(arm, mut points)| {
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                Line { arm, points: points.into_iter().map(|(_, point)| point).collect() }
            })
            .collect()
    }

    /// Rows of a forest: a number of each cell with its interval.
    pub(super) fn rows_of(&self, of: &dyn Fn(&CellSummary) -> Option<[f64; 3]>) -> Vec<Value> {
        let row = |one: &CellSummary| {
            let [median, low, high] = of(one)?;
            Some(json!([one.cell.name(), median, low, high, self.arm(&one.cell)]))
        };
        self.analysis.cells.iter().filter_map(row).collect()
    }

    /// A line for each arm: a metric and its interval over another metric.
    pub(super) fn metric_lines_at(&self, setting: &Setting, x: &str, y: &str) -> Vec<Line> {
        self.lines_at(setting, &|one| {
            let [median, low, high] = one.point(y)?;
            Some([one.median(x)?, median, low, high])
        })
    }
}

/// The rate of a cell, absolute or as a multiple; 0 where none varies.
pub(super) fn rate(cell: &Cell) -> f64 {
    let level = cell.levels.get(RATE).map(String::as_str);
    level.and_then(crate::experiment::rate).map_or(0.0, |(rate, _)| rate)
}

/// Whether there is more to see than one point of each line.
pub(super) fn is_curve(lines: &[Line]) -> bool {
    lines.iter().any(|line| line.points.len() > 1)
}

/// Metric, heading, factor.
pub(super) type Column = (String, String, f64);

/// Columns of a figure's table that some cell has.
pub(super) fn columns(analysis: &Analysis, id: &str) -> Vec<&'static Column> {
    let has = |metric: &str| analysis.cells.iter().any(|one| one.metrics.contains_key(metric));
    FigureRow::of(id).columns.iter().filter(|(metric, ..)| has(metric)).collect()
}

/// The medians of what people ask for; columns that no cell has are left out.
pub(crate) fn numbers(analysis: &Analysis) -> Table {
    let columns = columns(analysis, "numbers");
    let mut head = vec!["arm".to_owned(), "trials".to_owned()];
    head.extend(columns.iter().map(|(_, heading, _)| heading.clone()));
    let value = |one: &CellSummary, metric: &str, factor: f64| {
        let Some(point) = one.point(metric) else { return "–".to_owned() };
        let [median, low, high] = point.map(|value| show(value * factor));
        if metric == analysis.metric { format!("{median} ({low} to {high})") } else { median }
    };
    let row = |one: &CellSummary| {
        let mut row = vec![one.cell.name(), one.trials.to_string()];
        row.extend(columns.iter().map(|(metric, _, factor)| value(one, metric, *factor)));
        row
    };
    Table { head, rows: analysis.cells.iter().map(row).collect() }
}
