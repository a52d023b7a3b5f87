//! Counts of a reply, by the server's counters and its threads' waits.

use crate::analysis;
use crate::claims::evidence::poller;
use crate::experiment::Target;
use crate::journal::Run;
use crate::record::{Cell, Record};
use crate::stats::median;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Counters of the server that are added up, each with its factor.
type Sum = BTreeMap<String, f64>;

/// Names of all counts of a reply, and what each is of: the file `assets/counts.toml`.
pub(super) static COUNTS: LazyLock<BTreeMap<String, Sum>> = LazyLock::new(|| {
    toml::from_str(include_str!("../../assets/counts.toml")).expect("a test reads it")
});

/// Wait mechanisms that have prices of their own.
const WAIT_CALLS: [&str; 3] = ["epoll", "poll", "select"];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplyCounts(BTreeMap<&'static str, f64>);

impl ReplyCounts {
    /// Medians over the trials of a cell; `None` if no trial counts replies.
    pub fn of(run: &Run, target: &Target, cell: &Cell) -> Option<Self> {
        let records: Vec<&Record> =
            analysis::of(run, cell).filter(|record| replies(record).is_some()).collect();
        let of = |(name, sum): (&'static String, &'static Sum)| {
            let name = name.as_str();
            let each = records.iter().filter_map(|record| counted(record, (name, sum), target));
            let values: Vec<f64> = each.collect();
            (!values.is_empty()).then(|| (name, median(&values)))
        };
        (!records.is_empty()).then(|| Self(COUNTS.iter().filter_map(of).collect()))
    }

    /// A count; 0 if it was not counted.
    pub fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(0.0)
    }

    #[cfg(test)]
    pub(crate) fn made_of(all: &[(&'static str, f64)]) -> Self {
        Self(all.iter().copied().collect())
    }
}

fn replies(record: &Record) -> Option<f64> {
    record.counters.get("replies").copied().filter(|replies| *replies > 0.0)
}

fn counted(record: &Record, (name, sum): (&str, &Sum), target: &Target) -> Option<f64> {
    let replies = replies(record)?;
    let metric = |name: &str| record.metrics.get(name).copied();
    match name {
        "reply" => return Some(1.0),
        "kernel_switch" => return Some(metric("voluntary_switches")? / replies),
        "disk" => {
            let good = metric("good_per_s").filter(|good| *good > 0.0)?;
            return Some(metric("disk_requests_per_s")? / good);
        }
        _ => {}
    }
    let own = WAIT_CALLS.iter().find(|own| name.ends_with(&format!("_{own}")));
    if own.is_some_and(|own| *own != poller(target)) {
        return None;
    }
    let of = |(counter, factor): (&String, &f64)| Some(factor * record.counters.get(counter)?);
    let found: Vec<f64> = sum.iter().filter_map(of).collect();
    (!found.is_empty()).then(|| found.iter().sum::<f64>().max(0.0) / replies)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::{named, synthetic};

    #[test]
    fn counts_are_those_of_the_server_for_each_reply() {
        let text = |poller: &str| {
            format!(
                "experiment = {{ name = \"x\", question = \"?\", expect = \"!\" }}\n\
                 targets.one.config.event.poller = {poller:?}\nworkload.root = \".\"\n"
            )
        };
        for (poller, name, count) in [
            ("epoll", "read", 1.5),
            ("epoll", "read_empty", 0.5),
            ("epoll", "copy_byte", 120.0),
            ("epoll", "kernel_switch", 0.25),
            ("epoll", "reply", 1.0),
            ("epoll", "disk", 0.02),
            ("epoll", "accept", 0.0),
            ("epoll", "wait_descriptor", 30.0),
            ("epoll", "wait_descriptor_poll", 0.0),
            ("epoll-edge", "wait_change_epoll", 0.1),
            ("poll", "wait_change_epoll", 0.0),
            ("poll", "wait_descriptor_poll", 30.0),
            ("select", "wait_descriptor_poll", 0.0),
        ] {
            let run = synthetic(&text(poller), &|_| {
                named([
                    ("replies", 1_000.0),
                    ("recv_calls", 2_000.0),
                    ("recv_would_block", 500.0),
                    ("send_bytes", 120_000.0),
                    ("wait_interest_sum", 30_000.0),
                    ("wait_changes", 100.0),
                    ("voluntary_switches", 250.0),
                    ("disk_requests_per_s", 20.0),
                    ("good_per_s", 1_000.0),
                ])
            });
            let target = &run.experiment.targets[0];
            let record = run.records.iter().find(|record| record.cell.arm == "one").unwrap();
            let found = ReplyCounts::of(&run, target, &record.cell).unwrap().get(name);
            // Throughput, which only the disk's count is divided by, has noise.
            let tolerance = if name == "disk" { 0.5 * count } else { 1e-9 };
            assert!((found - count).abs() <= tolerance, "{poller} {name}: {found}");
        }
        let silent = synthetic(&text("epoll"), &|_| named([("good_per_s", 1.0)]));
        let cell = silent.records[0].cell.clone();
        assert_eq!(ReplyCounts::of(&silent, &silent.experiment.targets[0], &cell), None);
    }

    #[test]
    fn waits_are_by_the_call_of_the_architecture() {
        for (options, call) in [
            ("server.architecture = \"sped\"", "epoll"),
            ("server.architecture = \"knot-c\"", "poll"),
            ("server.architecture = \"watpipe4\"", "select"),
            ("server.architecture = \"acceptinf\"", "select"),
            ("server = { architecture = \"watpipe4\" }, event.poller = \"poll\"", "poll"),
            ("server = { architecture = \"knot-c\" }, event.poller = \"epoll\"", "poll"),
            ("server = { architecture = \"knot-c\" }, fiber.poller = \"epoll\"", "epoll"),
            ("server = { architecture = \"sped\" }, event.poller = \"epoll-edge\"", "epoll"),
        ] {
            let text = format!(
                "experiment = {{ name = \"x\", question = \"?\", expect = \"!\" }}\n\
                 targets.one.config = {{ {options} }}\nworkload.root = \".\"\n"
            );
            let run = synthetic(&text, &|_| named([("replies", 1e3), ("wait_calls", 500.0)]));
            let cell = run.records[0].cell.clone();
            let found = ReplyCounts::of(&run, &run.experiment.targets[0], &cell).unwrap();
            let waits = WAIT_CALLS.map(|call| found.get(&format!("wait_{call}")));
            let expected = WAIT_CALLS.map(|one| if one == call { 0.5 } else { 0.0 });
            assert_eq!(waits, expected, "{options}");
        }
    }
}
