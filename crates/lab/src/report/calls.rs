//! Where a server's time goes as its load grows, by system call: [H] figures 4, 5, 7 and 8.

use super::Report;
use super::figure::{Figure, rate};
use crate::experiment::RATE;
use crate::profile::Profile;
use crate::profile::shares::{PLACES, shares};
use crate::record::Cell;
use serde_json::{Value, json};

/// The shares of a profile's samples by place; none without stacks.
pub(super) type Shares = Vec<(&'static str, f64)>;

/// A figure for each arm that was profiled at several rates.
pub(super) fn figures(report: &Report<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (at, arm) in report.arms.iter().enumerate() {
        let mut of_arm: Vec<(usize, &Profile)> = report.profiles.iter().enumerate().collect();
        of_arm.retain(|(_, one)| report.arm(&one.cell) == at);
        of_arm.sort_by(|(_, a), (_, b)| rate(&a.cell).total_cmp(&rate(&b.cell)));
        let several = of_arm.windows(2).any(|two| rate(&two[0].1.cell) < rate(&two[1].1.cell));
        if several && let Some(figure) = report.by_call((at, &arm.name), &of_arm) {
            figures.push(figure);
        }
    }
    figures
}

impl Report<'_> {
    /// The shares of each profile by system call, in the order of the profiles.
    fn by_calls(&self) -> &[Shares] {
        self.calls.get_or_init(|| {
            let stacks = |profile: &Profile| profile.stacks(&self.run.directory);
            let of = |profile| stacks(profile).map_or_else(Vec::new, |stacks| shares(&stacks));
            self.profiles.iter().map(of).collect()
        })
    }

    fn by_call(&self, (at, arm): (usize, &str), profiles: &[(usize, &Profile)]) -> Option<Figure> {
        let all = self.by_calls();
        let (mut labels, mut columns) = (Vec::new(), Vec::new());
        for (which, profile) in profiles {
            if !all[*which].is_empty() {
                labels.push(label(&profile.cell));
                columns.push(&all[*which]);
            }
        }
        let part = |(row, name): (usize, &str)| {
            let values: Vec<f64> = columns.iter().map(|column| 100.0 * column[row].1).collect();
            let is_there = values.iter().any(|value| *value > 0.0);
            is_there.then(|| json!({ "name": name, "values": values }))
        };
        let parts: Vec<Value> = PLACES.into_iter().enumerate().filter_map(part).collect();
        let drawing = json!({ "kind": "stack", "x": "% of the samples", "labels": labels,
            "parts": parts });
        let figure = Figure::of("calls-{number}", &[("number", &at), ("arm", &arm)]);
        (labels.len() > 1).then(|| figure.drawn(drawing).high(labels.len() + 2))
    }

    /// The share of a cell's profile that lies in some system calls (of [`PLACES`]), per cent.
    pub(super) fn called(&self, cell: &Cell, calls: &[String]) -> Option<f64> {
        let found = &self.by_calls()[self.profiles.iter().rposition(|one| one.cell == *cell)?];
        let named = found.iter().filter(|(name, _)| calls.iter().any(|call| call == name));
        (!found.is_empty()).then(|| 100.0 * named.map(|(_, share)| share).sum::<f64>())
    }
}

/// The rate of a cell, with the levels of other factors where there are any.
fn label(cell: &Cell) -> String {
    match cell.levels.get(RATE) {
        Some(rate) if cell.levels.len() == 1 => rate.clone(),
        _ => crate::record::levels(cell),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::profiled::profiled;
    use std::collections::BTreeMap;

    fn metrics(_: &Cell) -> BTreeMap<String, f64> {
        [("good_per_s".to_owned(), 1_000.0)].into()
    }

    /// Select takes more and more of accept1's time, and of nobody else's.
    fn stacks(cell: &Cell) -> String {
        let more = if cell.target == "accept1" { 20.0 * rate(cell) } else { 10.0 };
        format!(
            "regatta;do_syscall_64_[k];__x64_sys_pselect6_[k] {more:.0}\n\
             regatta;do_syscall_64_[k];__x64_sys_sendto_[k] {:.0}\n",
            100.0 - more
        )
    }

    #[test]
    fn each_arm_has_its_time_by_call_over_the_rates() {
        let (run, folder) = profiled("hpl01-fig4", &metrics, &stacks, &[]);
        let report = Report::of(&run);
        let figures = figures(&report);
        assert_eq!(figures.len(), run.experiment.targets.len());
        let of = |arm: &str| {
            let title = format!("Where the time of {arm} goes");
            let figure = figures.iter().find(|figure| figure.title.starts_with(&title)).unwrap();
            figure.drawing.clone().unwrap()
        };
        let drawing = of("accept1");
        assert_eq!(drawing["labels"], json!(["0.7x", "0.8x", "1.2x", "1.67x", "2.4x"]));
        let names = [&drawing["parts"][0]["name"], &drawing["parts"][1]["name"]];
        assert_eq!(names, ["select", "write"]);
        assert_eq!(drawing["parts"].as_array().unwrap().len(), 2, "what has no sample is left out");
        let select = |drawing: &Value| -> Vec<i64> {
            let values = drawing["parts"][0]["values"].as_array().unwrap().iter();
            values.map(|value| format!("{:.0}", value.as_f64().unwrap()).parse().unwrap()).collect()
        };
        assert_eq!(select(&drawing), [14, 16, 24, 33, 48]);
        assert_eq!(select(&of("acceptinf")), [10; 5]);
        let shared = |calls: &[&str]| {
            let calls: Vec<String> = calls.iter().map(|call| (*call).to_owned()).collect();
            let cell = run
                .records
                .iter()
                .find(|record| record.cell.arm == "accept1" && record.cell.levels[RATE] == "2.4x");
            report.called(&cell.unwrap().cell, &calls).unwrap()
        };
        assert!((shared(&["select"]) - 48.0).abs() < 1e-9);
        drop(folder);
        let again = shared(&["read", "write", "open", "close"]);
        assert!((again - 52.0).abs() < 1e-9, "each profile is read once: {again}");
    }

    #[test]
    fn one_rate_is_no_curve_and_without_stacks_there_is_nothing() {
        let (run, folder) = profiled("systor12-table3", &metrics, &stacks, &[]);
        assert!(figures(&Report::of(&run)).is_empty());
        drop(folder);
        let (run, folder) = profiled("hpl01-fig4", &metrics, &|_| String::new(), &[]);
        assert!(figures(&Report::of(&run)).is_empty());
        drop(folder);
    }
}
