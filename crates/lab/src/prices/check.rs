//! Validation: counts times today's prices against the processor time that a run measured.

use super::arms::PricedArm;
use super::list::{PriceDraw, PriceList};
use crate::analysis::{Summary, summarise};
use crate::claims::evidence::{ARCHITECTURE, Evidence, Found, option};
use crate::experiment::Target;
use crate::journal::Run;
use crate::stats::Random;
use serde::Serialize;
use std::fmt::Write as _;

/// Architectures that are always checked.
const NAMED: [&str; 6] = ["sped", "amped", "mt", "knot-c", "watpipe4", "seda"];
const DRAWN: usize = 6;
/// Share by which priced processor time may differ from the measured one.
const WITHIN: f64 = 0.1;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PriceCheck {
    /// Arms that were checked: the named, then the drawn.
    pub arms: Vec<CheckedArm>,
    /// Reasons for which others were not.
    pub missing: Vec<String>,
}

/// An arm by its prices and as it was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckedArm {
    pub arm: String,
    /// Whether it was drawn by the seed.
    pub drawn: bool,
    /// Processor time of a reply by counts and prices, microseconds.
    pub priced_us: f64,
    pub measured_us: f64,
    /// Whether they differ by 10 % at most.
    pub within: bool,
    /// Peaks, where the run has several rates.
    pub peak: Option<CheckedPeak>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckedPeak {
    /// By the closed network.
    pub priced: f64,
    /// Median over the blocks.
    pub measured: f64,
    /// 95 % interval; below six blocks all of them.
    pub interval: [f64; 2],
    pub within: bool,
}

impl PriceCheck {
    /// Checks the arms of a run; `seed` draws those that are not named.
    pub fn of(run: &Run, list: &PriceList, seed: u64) -> Self {
        let evidence = Evidence::new(run);
        let is_named = |target: &&Target| NAMED.contains(&option(target, ARCHITECTURE));
        let (named, mut others): (Vec<&Target>, Vec<&Target>) =
            evidence.regattas().partition(is_named);
        Random::new(seed).shuffle(&mut others);
        others.truncate(DRAWN);
        let mut check = Self { arms: Vec::new(), missing: Vec::new() };
        for (target, drawn) in named
            .into_iter()
            .map(|one| (one, false))
            .chain(others.into_iter().map(|one| (one, true)))
        {
            match checked(&evidence, target, list, drawn) {
                Ok(arm) => check.arms.push(arm),
                Err(why) => check.missing.push(why),
            }
        }
        check
    }

    /// Whether there are arms, none could not be checked, and all are within their bounds.
    pub fn passes(&self) -> bool {
        let is_within =
            |arm: &CheckedArm| arm.within && arm.peak.as_ref().is_none_or(|peak| peak.within);
        !self.arms.is_empty() && self.missing.is_empty() && self.arms.iter().all(is_within)
    }

    /// A table in Markdown, and how many arms are within.
    pub fn markdown(&self) -> String {
        let mut out = "| arm | | priced, us | measured, us | | priced peak | measured peak |\n\
                       |---|---|---:|---:|---:|---:|---|\n"
            .to_owned();
        for one in &self.arms {
            let drawn = if one.drawn { "drawn" } else { "named" };
            let off = 100.0 * (one.priced_us / one.measured_us - 1.0);
            let peaks = one.peak.as_ref().map_or("| |".to_owned(), |peak| {
                let [low, high] = peak.interval;
                format!("{:.0} | {:.0} ({low:.0} to {high:.0}) |", peak.priced, peak.measured)
            });
            let _ = writeln!(
                out,
                "| {} | {drawn} | {:.1} | {:.1} | {off:+.0} % | {peaks}",
                one.arm, one.priced_us, one.measured_us
            );
        }
        let within = self.arms.iter().filter(|one| one.within).count();
        let all = self.arms.len();
        let _ = writeln!(out, "\n{within} of {all} arms are within 10 % of the measured time.");
        let peaks: Vec<bool> =
            self.arms.iter().filter_map(|one| Some(one.peak.as_ref()?.within)).collect();
        if !peaks.is_empty() {
            let within = peaks.iter().filter(|within| **within).count();
            let _ = writeln!(out, "{within} of {} peaks are within their intervals.", peaks.len());
        }
        for why in &self.missing {
            let _ = writeln!(out, "Not checked, for lack of {why}.");
        }
        out
    }
}

fn checked(
    run: &Evidence<'_>,
    target: &Target,
    list: &PriceList,
    drawn: bool,
) -> Found<CheckedArm> {
    let arm = PricedArm::of(run, target)?;
    let draw = PriceDraw::middle(list);
    let priced_us = 1e6 * draw.cpu_s(&arm.counts, None);
    let measured_us = run.metric(&arm.cell, "cpu_us_per_reply")?;
    let within = (priced_us / measured_us - 1.0).abs() <= WITHIN;
    let has_rates = run.rates(&target.name)?.len() > 1;
    let priced = arm.peak(&draw, None, run.left()).filter(|_| has_rates);
    let peak = priced.map(|priced| peak(run, &target.name, priced)).transpose()?;
    Ok(CheckedArm { arm: arm.name, drawn, priced_us, measured_us, within, peak })
}

fn peak(run: &Evidence<'_>, arm: &str, priced: f64) -> Found<CheckedPeak> {
    let values: Vec<f64> = run.peaks(arm, "good_per_s")?.into_values().collect();
    let Summary { median, interval, .. } = summarise(&values);
    let interval = [interval.low, interval.high];
    let within = (interval[0]..=interval[1]).contains(&priced);
    Ok(CheckedPeak { priced, measured: median, interval, within })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::{named, synthetic};
    use crate::experiment::library;

    fn list(send_us: f64) -> PriceList {
        let text = format!(
            "mark = \"today\"\ntitle = \"t\"\nprocessors = 1\n[price.send]\nunit = \"us\"\n\
             value = {send_us:?}\nspread = [0.0, 1e6]\nsource = \"s\"\n"
        );
        PriceList::parse(&text).unwrap()
    }

    #[test]
    fn six_named_and_six_drawn_arms_are_checked() {
        let run = synthetic(library::find("architectures").unwrap(), &|_| {
            named([
                ("replies", 1_000.0),
                ("send_calls", 2_000.0),
                ("cpu_us_per_reply", 20.0),
                ("good_per_s", 1_000.0),
            ])
        });
        for (send_us, passes) in [(10.0, true), (10.9, true), (11.1, false), (8.9, false)] {
            let check = PriceCheck::of(&run, &list(send_us), 1);
            assert_eq!(check.passes(), passes, "{send_us}: {check:?}");
            let drawn = check.arms.iter().filter(|arm| arm.drawn).count();
            assert_eq!((check.arms.len(), drawn, check.missing.len()), (12, 6, 0), "{check:?}");
            let within = if passes { 12 } else { 0 };
            let said = format!("{within} of 12 arms are within 10 % of the measured time.");
            assert!(check.markdown().contains(&said), "{}", check.markdown());
        }
        let mut unlike = run;
        unlike.records.retain(|record| record.cell.target != "sped");
        let check = PriceCheck::of(&unlike, &list(10.0), 1);
        assert_eq!(check.missing, ["valid trials of sped"]);
        assert!(!check.passes(), "an arm that is missing may be the one that is off");
    }

    #[test]
    fn peaks_are_checked_where_there_are_several_rates() {
        let text = "experiment = { name = \"x\", question = \"?\", expect = \"!\" }\n\
                    targets.one.config.server.architecture = \"sped\"\nworkload.root = \".\"\n\
                    workload.loop = \"open\"\ncalibrate = {}\n\
                    measure = { again = false, blocks = 8 }\n\
                    factors.\"workload.rate\" = [\"0.5x\", \"1x\"]\n";
        let run = synthetic(text, &|cell| {
            let is_low = cell.levels.values().any(|level| level == "0.5x");
            named([
                ("replies", 1_000.0),
                ("send_calls", 1_000.0),
                ("cpu_us_per_reply", 1_000.0),
                ("good_per_s", if is_low { 500.0 } else { 1_000.0 }),
            ])
        });
        for (send_us, within) in [(1_000.0, true), (100.0, false)] {
            let check = PriceCheck::of(&run, &list(send_us), 1);
            let peak = check.arms[0].peak.as_ref().unwrap();
            assert_eq!(peak.within, within, "{peak:?}");
            assert!((peak.priced * send_us / 1e6 - run_left(&run)).abs() < 1e-6, "{peak:?}");
        }
    }

    fn run_left(run: &Run) -> f64 {
        Evidence::new(run).left()
    }
}
