//! Numbers that the papers print, each with its place, for comparison with ours.
//!
//! `papers/*.toml` contain them. Numbers that a paper only draws are not in them.

use crate::experiment::ScaleNumber;
use serde::Deserialize;

const FILES: [&str; 5] = [
    include_str!("../papers/eurosys07.toml"),
    include_str!("../papers/systor12.toml"),
    include_str!("../papers/hpl01.toml"),
    include_str!("../papers/geneves.toml"),
    include_str!("../papers/azzedin.toml"),
];

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Mark, such as `[E]`.
    pub mark: String,
    /// Authors, title, where and when.
    pub title: String,
    /// Test bed (systems.md §4.0).
    pub bed: String,
    /// Figures with points that its text names.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Drawn>,
    #[serde(default, rename = "ratio")]
    pub ratios: Vec<Ratio>,
    #[serde(default, rename = "value")]
    pub values: Vec<Value>,
    #[serde(default, rename = "table")]
    pub tables: Vec<Printed>,
    /// Numbers of its machine and load, for the scale page.
    #[serde(default, rename = "scale")]
    pub scales: Vec<PaperScale>,
}

/// A number of a paper's machine and load.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperScale {
    pub number: ScaleNumber,
    pub value: f64,
    /// The experiments that it is of; empty: all of the paper's.
    #[serde(default)]
    pub experiments: Vec<String>,
    /// Place in systems.md, or the way it was computed.
    pub place: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drawn {
    /// Such as `figure 4`.
    pub name: String,
    /// The experiments that answer it.
    pub experiments: Vec<String>,
    /// The arm whose peak is 1.
    pub reference: String,
    /// Meaning of 1 in the paper, on both axes.
    pub unit: String,
    pub points: Vec<Point>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Our name of the server.
    pub arm: String,
    /// The rate as a multiple of the calibrated one.
    pub x: f64,
    /// The throughput as a share of the reference's peak.
    pub y: f64,
    /// The paper's words, or how they were computed.
    pub said: String,
    pub place: String,
}

/// Throughput of a server over another's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// The experiments that answer it.
    pub experiments: Vec<String>,
    /// Such as `figure 4`.
    pub figure: String,
    /// The claim that it belongs to; empty: none.
    #[serde(default)]
    pub claim: String,
    /// Our name of the one.
    pub arm: String,
    /// Our name of the other.
    pub over: String,
    /// The multiple of the calibrated rate; None: the peaks.
    pub at: Option<f64>,
    pub value: f64,
    pub place: String,
}

/// A number of a server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// The experiments that answer it.
    pub experiments: Vec<String>,
    /// Such as `figure 8`.
    pub figure: String,
    /// The claim that it belongs to.
    pub claim: String,
    /// Quantity, with its unit.
    pub what: String,
    pub arm: String,
    /// The multiple of the calibrated rate.
    pub at: f64,
    pub value: f64,
    /// Words of the paper where it names no single number, such as `5 to 10`.
    pub said: Option<String>,
    /// Our metric or counter; empty: it is `calls`.
    #[serde(default)]
    pub of: String,
    /// System calls whose share of a profile it is, per cent; `profile::shares` names them.
    #[serde(default)]
    pub calls: Vec<String>,
    /// Another one that it is divided by.
    pub per: Option<String>,
    /// An option of the server's that it is divided by.
    pub per_option: Option<String>,
    /// A factor to the paper's unit.
    pub times: Option<f64>,
    pub place: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// Such as `table 1`.
    pub name: String,
    /// The experiments that answer it.
    pub experiments: Vec<String>,
    pub note: String,
    /// The paper's names of its columns.
    pub labels: Vec<String>,
    /// Our arm of each column; empty where there is none, or where each row has one.
    pub arms: Vec<String>,
    pub rows: Vec<Row>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Quantity, with its unit.
    pub name: String,
    pub values: Vec<f64>,
    /// Our metric or counter, if we have one.
    pub of: Option<String>,
    /// Another one that it is divided by.
    pub per: Option<String>,
    /// A factor to the paper's unit.
    pub times: Option<f64>,
    /// The category of a profile that it is, in per cent of the samples.
    pub category: Option<String>,
    /// Our arm, where rows rather than columns are set-ups.
    pub arm: Option<String>,
    /// Whether it is the highest over the rates, rather than at the highest rate.
    #[serde(default)]
    pub peak: bool,
}

pub fn all() -> Vec<Paper> {
    FILES
        .into_iter()
        .map(|text| toml::from_str(text).expect("a test reads every one of them"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::claim_row::CLAIMS;
    use crate::experiment::{Scale, library, parse};
    use crate::profile::categories::{Category, PLACES};

    /// The arms of an experiment, None for one that is not there yet.
    fn arms(name: &str) -> Option<Vec<String>> {
        let experiment = parse(name, library::find(name)?, Scale::Replica).unwrap();
        Some(experiment.targets.into_iter().map(|target| target.name).collect())
    }

    /// Whether an arm says what an option of it is, as a number.
    fn set_at_every_scale(experiment: &str, arm: &str, option: &str) -> bool {
        Scale::ALL.into_iter().all(|scale| {
            let experiment = parse("x", library::find(experiment).unwrap(), scale).unwrap();
            let target = experiment.targets.into_iter().find(|target| target.name == arm);
            target.unwrap().config.get(option).is_some_and(|set| set.parse::<f64>().is_ok())
        })
    }

    #[test]
    fn every_number_is_of_an_arm_and_has_its_place() {
        let mut numbers = 0;
        for paper in all() {
            let known = |experiments: &[String], arm: &str, what: &str| {
                let lists: Vec<_> = experiments.iter().filter_map(|name| arms(name)).collect();
                let found = lists.iter().any(|arms| arms.iter().any(|one| one == arm));
                assert!(found || lists.is_empty(), "{} {what}: {arm}", paper.mark);
            };
            for figure in &paper.figures {
                known(&figure.experiments, &figure.reference, &figure.name);
                for point in &figure.points {
                    known(&figure.experiments, &point.arm, &figure.name);
                    assert!(point.x > 0.0 && point.y > 0.0 && !point.place.is_empty());
                    numbers += 1;
                }
            }
            for ratio in &paper.ratios {
                known(&ratio.experiments, &ratio.arm, &ratio.figure);
                known(&ratio.experiments, &ratio.over, &ratio.figure);
                let claimed = CLAIMS.iter().any(|claim| claim.id == ratio.claim);
                assert!(claimed || ratio.claim.is_empty(), "{ratio:?}");
                numbers += 1;
            }
            for value in &paper.values {
                known(&value.experiments, &value.arm, &value.figure);
                assert_eq!(value.of.is_empty(), !value.calls.is_empty(), "{value:?}");
                let is_place = |call: &String| PLACES.contains(&call.as_str());
                assert!(value.calls.iter().all(is_place), "{value:?}");
                if let Some(option) = &value.per_option {
                    let of = |name: &String| set_at_every_scale(name, &value.arm, option);
                    assert!(value.experiments.iter().all(of), "{option} of {}", value.arm);
                }
                assert!(CLAIMS.iter().any(|claim| claim.id == value.claim), "{value:?}");
                numbers += 1;
            }
            for table in &paper.tables {
                assert_eq!(table.labels.len(), table.arms.len(), "{}", table.name);
                table.arms.iter().filter(|arm| !arm.is_empty()).for_each(|arm| {
                    known(&table.experiments, arm, &table.name);
                });
                for row in &table.rows {
                    row.arm.iter().for_each(|arm| known(&table.experiments, arm, &row.name));
                    assert_eq!(row.values.len(), table.labels.len(), "{} {}", table.name, row.name);
                    numbers += row.values.len();
                }
            }
        }
        assert!(numbers > 300, "{numbers}");
    }

    #[test]
    fn every_share_of_a_table_is_measured_here() {
        for paper in all() {
            for table in &paper.tables {
                let shares = table.rows.iter().filter(|row| row.name.ends_with('%'));
                for row in shares.filter(|row| row.of.is_none()) {
                    let place = format!("{} {} {}", paper.mark, table.name, row.name);
                    let category = row.category.as_deref().unwrap_or_else(|| panic!("{place}"));
                    let parts = ["vmlinux", "user-space"].contains(&category);
                    let known = Category::named(category).is_some();
                    assert!(parts || known, "{place}: {category}");
                    let profiled = |name: &String| {
                        let text = library::find(name).unwrap();
                        parse(name, text, Scale::Replica).unwrap().measure.profile
                    };
                    assert!(table.experiments.iter().any(profiled), "{place}: no profile");
                }
            }
        }
    }

    #[test]
    fn shares_of_a_table_add_up() {
        let papers = all();
        let table = &papers[0].tables[0];
        let row = |name: &str| &table.rows.iter().find(|row| row.name == name).unwrap().values;
        for at in 0..table.labels.len() {
            let parts = ["vmlinux %", "e1000 %", "user space %", "libc %", "other %"];
            let sum: f64 = parts.iter().map(|name| row(name)[at]).sum();
            assert!((sum - 100.0).abs() < 0.5, "{}: {sum}", table.labels[at]);
        }
    }
}
