//! What the processors did, as mpstat shows it: shares of their time from `/proc/stat`.

use crate::record::Numbers;
use std::collections::BTreeMap;
use std::fs;

/// What a processor's time goes to, as the share of each is called.
const NAMES: [&str; 7] = [
    // Programs, low priority included.
    "user_share",
    // The kernel for programs.
    "system_share",
    "idle_share",
    // Nothing to do while somebody waits for a disk.
    "waiting_share",
    "irq_share",
    // What interrupts left for later: packets that arrive, for example.
    "softirq_share",
    // What the hypervisor took.
    "steal_share",
];

/// Ticks of `/proc/stat` since boot of one processor (`proc_stat(5)`), in the order of [`NAMES`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ticks([f64; 7]);

/// By the processor's number.
pub(crate) type Processors = BTreeMap<usize, Ticks>;

impl Ticks {
    /// What programs used. Interrupts are the network's and nobody's.
    pub(crate) fn busy(self) -> f64 {
        self.0[0] + self.0[1]
    }

    /// What the hypervisor took.
    pub(crate) fn steal(self) -> f64 {
        self.0[6]
    }
}

/// Reads `/proc/stat` now; empty where there is none.
pub(crate) fn now() -> Processors {
    parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// Reads the text of `/proc/stat`.
pub(crate) fn parse(stat: &str) -> Processors {
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu: usize = words.next()?.parse().ok()?;
        let ticks: Vec<f64> = words.map(|word| word.parse().unwrap_or(0.0)).collect();
        let at = |place: usize| ticks.get(place).copied().unwrap_or_default();
        Some((cpu, Ticks([at(0) + at(1), at(2), at(3), at(4), at(5), at(6), at(7)])))
    };
    stat.lines().filter(|text| !text.starts_with("cpu ")).filter_map(line).collect()
}

/// What the processors `cpus` did between two readings, as shares that add up to 1; without any,
/// all processors. Empty if no tick passed.
pub(crate) fn shares(before: &Processors, after: &Processors, cpus: &[usize]) -> Numbers {
    let mut sums = Numbers::new();
    for (cpu, ticks) in after {
        if !cpus.is_empty() && !cpus.contains(cpu) {
            continue;
        }
        let before = before.get(cpu).copied().unwrap_or_default();
        for (name, (now, then)) in NAMES.into_iter().zip(ticks.0.into_iter().zip(before.0)) {
            // The kernel's count of idle ticks can step back a little.
            *sums.entry(name.to_owned()).or_default() += (now - then).max(0.0);
        }
    }
    whole(sums)
}

/// The shares of what is left of the processors, without somebody who ran as a program for `taken`
/// of their time. They add up to 1; empty if nothing is left.
pub(crate) fn without(shares: &Numbers, taken: f64) -> Numbers {
    let mut left = shares.clone();
    if let Some(share) = left.get_mut("user_share") {
        *share = (*share - taken).max(0.0);
    }
    whole(left)
}

/// Scaled so that they add up to 1; empty where they are nothing together.
fn whole(mut parts: Numbers) -> Numbers {
    let all: f64 = parts.values().sum();
    if all <= 0.0 {
        return Numbers::new();
    }
    parts.values_mut().for_each(|part| *part /= all);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::numbers;

    const BEFORE: &str =
        "cpu  9 9 9 9\ncpu0 100 1 50 900 5 7 8 3 0 0\ncpu1 1 0 2 3 4 5 6 7\nintr 1\n";
    const AFTER: &str = "cpu0 110 1 70 930 15 7 28 13 0 0\ncpu1 1 0 2 3 4 5 6 7\n";

    #[test]
    fn processors_are_read() {
        let found = parse(BEFORE);
        assert_eq!((found[&0].busy(), found[&0].steal()), (151.0, 3.0));
        assert_eq!((found[&1].busy(), found[&1].0[5]), (3.0, 6.0));
        assert_eq!(found.len(), 2);
        // A line that is cut short, and none at all.
        assert_eq!(parse("cpu3 4\ncpux 1\ncpu")[&3].busy(), 4.0);
        assert!(parse("").is_empty());
    }

    #[test]
    fn shares_add_up_to_all_of_the_time() {
        let shares = shares(&parse(BEFORE), &parse(AFTER), &[0]);
        let of = |name: &str| shares[name];
        assert_eq!((of("user_share"), of("system_share"), of("idle_share")), (0.1, 0.2, 0.3));
        assert_eq!((of("softirq_share"), of("waiting_share"), of("steal_share")), (0.2, 0.1, 0.1));
        assert!((shares.values().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(super::shares(&parse(BEFORE), &parse(AFTER), &[1]).is_empty(), "it stood still");
    }

    #[test]
    fn what_was_taken_on_purpose_is_no_share() {
        let seen = numbers([
            ("user_share", 0.64),
            ("system_share", 0.2),
            ("idle_share", 0.12),
            ("waiting_share", 0.04),
        ]);
        let left = without(&seen, 0.6);
        // As if the processor had been so slow from the start.
        for (name, share) in [
            ("user_share", 0.1),
            ("system_share", 0.5),
            ("idle_share", 0.3),
            ("waiting_share", 0.1),
        ] {
            assert!((left[name] - share).abs() < 1e-9, "{left:?}");
        }
        // Ticks saw a little less of it than there was.
        let left = without(&numbers([("user_share", 0.58), ("system_share", 0.42)]), 0.6);
        assert_eq!(left, numbers([("user_share", 0.0), ("system_share", 1.0)]));
        let all = numbers([("user_share", 1.0)]);
        assert_eq!(without(&numbers([("user_share", 0.64)]), 0.0), all);
        assert!(without(&all, 1.0).is_empty() && without(&Numbers::new(), 0.0).is_empty());
    }
}
