//! How long a server was ready to run while others had its processors.

use crate::servers::process;
use crate::stats::count;
use std::collections::BTreeMap;
use std::fs;

const NS: f64 = 1e9;

/// What every task of a server has done since it started, by task: seconds for which it ran, and
/// for which it was ready and waited for a processor.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tasks(BTreeMap<u32, (f64, f64)>);

impl Tasks {
    /// Those of some processes, now; empty where the kernel does not say, or they are too many.
    pub(crate) fn of(pids: &[u32]) -> Self {
        let mut tasks = BTreeMap::new();
        for (task, place) in process::few_tasks(pids) {
            let text = fs::read_to_string(place.join("schedstat")).unwrap_or_default();
            tasks.extend(parse(&text).map(|times| (task, times)));
        }
        Self(tasks)
    }

    /// The share of `seconds` until `later` for which others kept the server from its processors,
    /// of which there are `processors`: at least that much, since a task that is ready may also
    /// wait for its own kind. None: the kernel does not say, or no longer says it of some, whose
    /// time would be taken for others'.
    pub(crate) fn kept(&self, later: &Self, seconds: f64, processors: usize) -> Option<f64> {
        let grown = later.0.iter().map(|(task, after)| {
            let before = self.0.get(task).copied().unwrap_or_default();
            (after.0 - before.0, after.1 - before.1)
        });
        let grown: Vec<(f64, f64)> = grown.collect();
        let ended = self.0.keys().any(|task| !later.0.contains_key(task));
        if grown.is_empty() || ended || seconds <= 0.0 {
            return None;
        }
        let all: f64 = grown.iter().map(|(ran, _)| ran).sum();
        let own_kind = |ran: f64| (all - ran) / count(processors.max(1));
        let kept = grown.iter().map(|(ran, waited)| waited - own_kind(*ran));
        Some(kept.fold(0.0, f64::max) / seconds)
    }
}

/// Reads `/proc/PID/task/TID/schedstat`: ns that it ran, ns that it waited to run, turns.
fn parse(text: &str) -> Option<(f64, f64)> {
    let mut words = text.split_ascii_whitespace().map(str::parse::<f64>);
    Some((words.next()?.ok()? / NS, words.next()?.ok()? / NS))
}

#[cfg(test)]
mod tests {
    use super::{Tasks, parse};

    fn tasks(times: &[(f64, f64)]) -> Tasks {
        Tasks((0_u32..).zip(times.iter().copied()).collect())
    }

    #[test]
    fn waiting_for_ones_own_kind_is_not_being_kept() {
        let none = Tasks::default();
        for (times, processors, kept) in [
            // One loop that is never kept, and one that is for half of the time.
            (&[(7.0, 0.1)][..], 1, 0.01),
            (&[(5.0, 5.0)], 1, 0.5),
            // Four that share a processor among themselves: they wait for each other only.
            (&[(2.5, 7.5), (2.5, 7.5), (2.5, 7.5), (2.5, 7.5)], 1, 0.0),
            // Four that share it with somebody who takes half of it.
            (&[(1.25, 8.75), (1.25, 8.75), (1.25, 8.75), (1.25, 8.75)], 1, 0.5),
            (&[(5.0, 5.0), (5.0, 5.0)], 2, 0.25),
        ] {
            let found = none.kept(&tasks(times), 10.0, processors).unwrap();
            assert!((found - kept).abs() < 1e-9, "{times:?}: {found}");
        }
        let (before, after) = (tasks(&[(5.0, 5.0)]), tasks(&[(6.0, 5.5)]));
        assert_eq!(before.kept(&after, 2.0, 1), Some(0.25));
        assert_eq!(none.kept(&none, 1.0, 1), None);
        // A helper that has ended had the processor meanwhile, or not.
        let with_helper = tasks(&[(5.0, 5.0), (1.0, 0.0)]);
        assert_eq!(with_helper.kept(&after, 2.0, 1), None);
        assert_eq!(parse("2000000000 500000000 9\n"), Some((2.0, 0.5)));
        assert_eq!(parse(""), None);
    }
}
