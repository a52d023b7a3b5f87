//! Decides whether a read blocks its thread or is asynchronous ([A] fig. 4). Each decision depends
//! only on the load and residency at that moment, not on earlier decisions.
use crate::options::{Choice as _, choice};
use regatta_metrics::{Counter, Tally};
use regatta_sys::Resident;
use std::{
    fmt,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

choice! {
    /// Criterion of a decision (`adapt.rule`).
    pub enum Rule {
        /// Asynchronous if a connection waits for a thread: the rule of [A].
        Queue = "queue",
        /// Asynchronous if at least [`Bounds::queue_min`] connections wait.
        QueueLength = "queue-length",
        /// Asynchronous if the disk is busy.
        Disk = "disk",
        /// Asynchronous if the range is not in memory.
        Residency = "residency",
    }
}

/// Limits from which on a rule decides for an asynchronous read.
#[derive(Clone, Copy, Debug)]
pub struct AsyncBounds {
    /// Connections that wait for a thread ([`Rule::QueueLength`]).
    pub queue_min: usize,
    /// Reads that are being made ([`Rule::Disk`]).
    pub reads_min: usize,
    /// Mean time of recent reads, microseconds ([`Rule::Disk`]).
    pub wait_us: u64,
}

/// Load and residency at the moment of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadSample {
    /// Connections that wait for a thread.
    pub queue: usize,
    /// Reads in progress, whichever thread or engine makes them.
    pub reads: usize,
    /// Mean time of recent reads, microseconds.
    pub wait_us: u64,
    /// Whether the range is in memory; `None` if the rule does not check it.
    pub resident: Option<Resident>,
}

/// Maker of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The thread that needs it, which waits.
    Blocking,
    /// The engine; the thread continues with another connection.
    Async,
}

/// Decides how a read is made.
#[must_use]
pub fn decide(rule: Rule, bounds: AsyncBounds, seen: &LoadSample) -> Way {
    let is_async = match rule {
        Rule::Queue => seen.queue > 0,
        Rule::QueueLength => seen.queue >= bounds.queue_min,
        Rule::Disk => seen.reads >= bounds.reads_min || seen.wait_us >= bounds.wait_us,
        Rule::Residency => seen.resident != Some(Resident::Yes),
    };
    if is_async { Way::Async } else { Way::Blocking }
}

/// Decision, as counted and traced.
#[derive(Clone, Copy, Debug)]
pub struct ReadDecision {
    /// Rule that decided.
    pub rule: Rule,
    /// State that the rule saw.
    pub seen: LoadSample,
    /// Outcome.
    pub way: Way,
}

impl ReadDecision {
    /// Counts the decision, and what it depended on.
    pub fn count(&self, tally: Tally<'_>) {
        tally.add(
            match self.way {
                Way::Blocking => Counter::DecidedBlocking,
                Way::Async => Counter::DecidedAsync,
            },
            1,
        );
        tally.add(Counter::DecidedQueueSum, self.seen.queue as u64);
        tally.add(Counter::DecidedDiskSum, self.seen.reads as u64);
        match self.seen.resident {
            None => {}
            Some(Resident::Yes) => tally.add(Counter::DecidedResident, 1),
            Some(Resident::No | Resident::Unknown) => tally.add(Counter::DecidedAbsent, 1),
        }
    }
}

/// Formats the decision as a line of the trace.
impl fmt::Display for ReadDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoadSample { queue, reads, wait_us, resident } = self.seen;
        let resident = match resident {
            None => "-",
            Some(Resident::Yes) => "yes",
            Some(Resident::No) => "no",
            Some(Resident::Unknown) => "unknown",
        };
        let way = match self.way {
            Way::Blocking => "blocking",
            Way::Async => "async",
        };
        let rule = self.rule.word();
        write!(
            f,
            "read {way}: rule={rule} queue={queue} reads={reads} wait_us={wait_us} \
             resident={resident}"
        )
    }
}

/// Load of the disk, as measured by the server's own reads.
#[derive(Debug, Default)]
pub struct Load {
    /// Reads that threads make themselves.
    blocking: AtomicUsize,
    /// Mean time of recent reads, nanoseconds.
    mean_ns: AtomicU64,
}

/// Reciprocal of the weight of one read in the mean.
const READS: u64 = 32;

impl Load {
    /// A thread begins to read.
    pub fn begins(&self) {
        self.blocking.fetch_add(1, Relaxed);
    }

    /// A thread has finished reading.
    pub fn ends(&self) {
        self.blocking.fetch_sub(1, Relaxed);
    }

    /// Number of threads that read.
    #[must_use]
    pub fn blocking(&self) -> usize {
        self.blocking.load(Relaxed)
    }

    /// Adds a read that took `ns` from its start to its completion. Of two reads that end at the
    /// same moment, one may be left out.
    pub fn took(&self, ns: u64) {
        let mean = self.mean_ns.load(Relaxed);
        self.mean_ns.store(mean - mean / READS + ns / READS, Relaxed);
    }

    /// Mean time of recent reads, microseconds. Each read reduces the weight of earlier ones to
    /// 31/32.
    #[must_use]
    pub fn wait_us(&self) -> u64 {
        self.mean_ns.load(Relaxed) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_testkit::counters::arena;

    const BOUNDS: AsyncBounds = AsyncBounds { queue_min: 3, reads_min: 2, wait_us: 2000 };

    fn seen(queue: usize, reads: usize, wait_us: u64, resident: Option<Resident>) -> LoadSample {
        LoadSample { queue, reads, wait_us, resident }
    }

    #[test]
    fn each_rule_looks_at_what_it_is_about() {
        use Resident::{No, Unknown, Yes};
        use Rule::{Disk, Queue, QueueLength, Residency};
        use Way::{Async, Blocking};
        for (rule, seen, way) in [
            (Queue, seen(0, 9, 9000, Some(No)), Blocking),
            (Queue, seen(1, 0, 0, Some(Yes)), Async),
            (Queue, seen(64, 0, 0, None), Async),
            (QueueLength, seen(0, 9, 9000, Some(No)), Blocking),
            (QueueLength, seen(2, 0, 0, None), Blocking),
            (QueueLength, seen(3, 0, 0, None), Async),
            (Disk, seen(64, 0, 0, Some(No)), Blocking),
            (Disk, seen(0, 1, 1999, None), Blocking),
            (Disk, seen(0, 2, 0, None), Async),
            (Disk, seen(0, 0, 2000, None), Async),
            (Residency, seen(64, 9, 9000, Some(Yes)), Blocking),
            (Residency, seen(0, 0, 0, Some(No)), Async),
            // Without an answer, expect to wait.
            (Residency, seen(0, 0, 0, Some(Unknown)), Async),
            (Residency, seen(0, 0, 0, None), Async),
        ] {
            assert_eq!(decide(rule, BOUNDS, &seen), way, "{rule:?} {seen:?}");
        }
    }

    /// A decision depends only on what it sees, not on earlier decisions.
    #[test]
    fn there_is_no_hysteresis() {
        let ways =
            [0, 1, 0, 1, 1, 0].map(|queue| decide(Rule::Queue, BOUNDS, &seen(queue, 0, 0, None)));
        use Way::{Async, Blocking};
        assert_eq!(ways, [Blocking, Async, Blocking, Async, Async, Blocking]);
    }

    #[test]
    fn a_decision_is_counted_and_told() {
        let arena = arena(1);
        let rows = [
            (
                seen(4, 1, 70, None),
                Way::Async,
                "read async: rule=queue queue=4 reads=1 wait_us=70 resident=-",
            ),
            (
                seen(0, 0, 5, Some(Resident::Yes)),
                Way::Blocking,
                "read blocking: rule=queue queue=0 reads=0 wait_us=5 resident=yes",
            ),
            (
                seen(3, 6, 0, Some(Resident::Unknown)),
                Way::Async,
                "read async: rule=queue queue=3 reads=6 wait_us=0 resident=unknown",
            ),
        ];
        for (seen, way, line) in rows {
            let decision = ReadDecision { rule: Rule::Queue, seen, way };
            decision.count(Tally::Owned(arena.slot(0)));
            assert_eq!(decision.to_string(), line);
        }
        let counted = [
            Counter::DecidedBlocking,
            Counter::DecidedAsync,
            Counter::DecidedQueueSum,
            Counter::DecidedDiskSum,
            Counter::DecidedResident,
            Counter::DecidedAbsent,
        ];
        assert_eq!(counted.map(|counter| arena.slot(0).get(counter)), [1, 2, 7, 7, 1, 1]);
    }

    #[test]
    fn what_reads_take_is_forgotten_with_others() {
        let load = Load::default();
        (0..200).for_each(|_| load.took(10_000_000));
        assert!((9900..=10_000).contains(&load.wait_us()), "{}", load.wait_us());
        // Reads from memory.
        (0..32).for_each(|_| load.took(2000));
        assert!((3000..4500).contains(&load.wait_us()), "{}", load.wait_us());
        (0..300).for_each(|_| load.took(2000));
        assert!(load.wait_us() <= 3, "{}", load.wait_us());
        load.begins();
        load.begins();
        load.ends();
        assert_eq!(load.blocking(), 1);
    }
}
