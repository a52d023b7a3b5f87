//! The options of controllers of stages.
use super::gate::{Gate, GateRules};
use crate::{
    control::{
        AgeRules, BatchRules, Batching, CLASSES_MAX, Controller, Direct, DirectRules, Multiclass,
        PoolRules, PoolSize, Proportional, QueueMax, QueueMaxRules,
    },
    loops::line::poll::Told,
    options::{Choice as _, Kind, OptionSpec, choice, options},
};
use regatta_sys::clock;

options! {
    /// Control of the threads of stages, in every pipeline.
    pub(crate) struct StagesOptions, OPTIONS;

    pool_control: PoolControl = OptionSpec {
        key: "stages.pool_control",
        kind: Kind::Choice(PoolControl::WORDS),
        default: "queue",
        doc: "What starts threads of a stage.",
        long: "`none`: nothing. `queue`: one more, now and then, while many requests wait for the \
               stage. `queue-max`: the same, and now and then the number of threads with the best \
               throughput so far is gone back to, or a few less (autoMaxDetect of Sandstorm).",
    },
    pool_ms: u32 = OptionSpec {
        key: "stages.pool_ms",
        kind: Kind::Millis { min: 10, max: 60_000 },
        default: "100 ms",
        doc: "How often the queue of a stage is looked at.",
        long: "",
    },
    pool_every: u32 = OptionSpec {
        key: "stages.pool_every",
        kind: Kind::Count { min: 1, max: 1000 },
        default: "4",
        doc: "One look in this many may start a thread.",
        long: "The first time it is the third look, as in Sandstorm.",
    },
    pool_threshold: u64 = OptionSpec {
        key: "stages.pool_threshold",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        default: "10",
        doc: "This many requests must wait for a stage before it gets another thread.",
        long: "",
    },
    batch_control: bool = OptionSpec {
        key: "stages.batch_control",
        kind: Kind::Bool,
        default: "true",
        doc: "Whether a controller says how many requests a thread takes at once.",
        long: "It looks for the fewest with which a stage serves as much. If not, a thread takes \
               all that wait.",
    },
    batch_min: u32 = OptionSpec {
        key: "stages.batch_min",
        kind: Kind::Count { min: 1, max: 65_536 },
        default: "1",
        doc: "The fewest requests that a controller has a thread take at once.",
        long: "",
    },
    batch_max: u32 = OptionSpec {
        key: "stages.batch_max",
        kind: Kind::Count { min: 1, max: 65_536 },
        default: "1024",
        doc: "The most requests that a controller has a thread take at once; it begins with that.",
        long: "",
    },
    batch_ms: u32 = OptionSpec {
        key: "stages.batch_ms",
        kind: Kind::Millis { min: 1, max: 60_000 },
        default: "5 ms",
        doc: "How long requests are counted before their rate is known; every fifth time the \
              number may change.",
        long: "",
    },
    truncates: bool = OptionSpec {
        key: "stages.truncates",
        kind: Kind::Bool,
        default: "false",
        doc: "Whether what a controller says how many requests to take is cut off to a whole \
              number, as in Sandstorm.",
        long: "If so, 1 to 4 never grow.",
    },
    decisions: Decisions = OptionSpec {
        key: "stages.decisions",
        kind: Kind::Choice(Decisions::WORDS),
        default: "none",
        doc: "Which decisions of controllers are written to the error log.",
        long: "`none`: none. `changes`: those that change something, which may be 35 lines a \
               second. `all`: those too that change nothing. The counters decisions and \
               decisions_changed count them in any case.",
    },
}

options! {
    /// Admission of requests, and control of the stage that reads from disk: in pipelines whose
    /// stages know the age of a request.
    pub(crate) struct LineOptions, LINE_OPTIONS;

    disk_ms: u32 = OptionSpec {
        key: "stages.disk_ms",
        kind: Kind::Millis { min: 10, max: 60_000 },
        default: "50 ms",
        doc: "How often the queue of the stage that reads from disk is looked at.",
        long: "",
    },
    disk_threshold: u64 = OptionSpec {
        key: "stages.disk_threshold",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        default: "20",
        doc: "The requests that must wait for the disk before another thread reads from it.",
        long: "",
    },
    admission: Admission = OptionSpec {
        key: "stages.admission",
        kind: Kind::Choice(Admission::WORDS),
        default: "none",
        doc: "What decides how many requests are admitted; others are turned away.",
        long: "By their ages, from when a request was received to when the last stage has the \
               response: nine of ten are to be stages.target_ms or less. `proportional`: what is \
               served, times the third root of an aim (0.3 to 0.95 of the target) over age, and by \
               0.5 to 1.25 at a time. `direct`: steps up and divisions \
               (Sandstorm's). `multiclass`: the same for each address by itself, where later ones \
               come before earlier ones. `threshold`: not a rate, but how many may wait, by the \
               mean of the ages.",
    },
    target_ms: u32 = OptionSpec {
        key: "stages.target_ms",
        kind: Kind::Millis { min: 1, max: 600_000 },
        default: "1 s",
        doc: "The age that nine of ten requests are to have at most (stages.admission).",
        long: "",
    },
    rate_first: u64 = OptionSpec {
        key: "stages.rate_first",
        kind: Kind::Count { min: 0, max: 10_000_000 },
        default: "0",
        doc: "How many requests a second are admitted in the beginning.",
        long: "0, or more than stages.rate_max: as many as that.",
    },
    rate_max: u64 = OptionSpec {
        key: "stages.rate_max",
        kind: Kind::Count { min: 1, max: 10_000_000 },
        default: "10000000",
        doc: "The most requests a second that are ever admitted.",
        long: "It holds from the beginning; the default is more than one thread can receive.",
    },
    rate_add_milli: u64 = OptionSpec {
        key: "stages.rate_add_milli",
        kind: Kind::Count { min: 1, max: 1_000_000_000 },
        default: "500",
        doc: "What a step adds to the rate (direct), thousandths of a request a second.",
        long: "",
    },
    rate_divide_percent: u32 = OptionSpec {
        key: "stages.rate_divide_percent",
        kind: Kind::Count { min: 101, max: 10_000 },
        default: "200",
        doc: "What the rate is divided by when the target is missed (direct, multiclass), \
              hundredths.",
        long: "",
    },
    samples: u32 = OptionSpec {
        key: "stages.samples",
        kind: Kind::Count { min: 1, max: 4096 },
        default: "500",
        doc: "This many ages are enough to decide.",
        long: "",
    },
    sample_ms: u32 = OptionSpec {
        key: "stages.sample_ms",
        kind: Kind::Millis { min: 1, max: 60_000 },
        default: "100 ms",
        doc: "After this time, fewer ages decide.",
        long: "",
    },
    bucket: u32 = OptionSpec {
        key: "stages.bucket",
        kind: Kind::Count { min: 1, max: 65_536 },
        default: "64",
        doc: "How many requests are admitted at once after a while in which few came.",
        long: "",
    },
    refill_ms_min: u32 = OptionSpec {
        key: "stages.refill_ms_min",
        kind: Kind::Millis { min: 0, max: 1000 },
        default: "0",
        doc: "The least time in which one more request is admitted, whatever the rate.",
        long: "Sandstorm's is 1 ms: it never admits more than 1000 a second.",
    },
}

choice! {
    /// Trigger of new threads (`stages.pool_control`).
    pub(crate) enum PoolControl {
        /// Nothing.
        None = "none",
        /// The length of the queue.
        Queue = "queue",
        /// The same, and the best throughput.
        QueueMax = "queue-max",
    }
}

choice! {
    /// Controller that admits requests (`stages.admission`).
    pub(crate) enum Admission {
        /// Nothing.
        None = "none",
        /// A rate proportional to what is served.
        Proportional = "proportional",
        /// A rate that is changed by steps.
        Direct = "direct",
        /// The same, for classes.
        Multiclass = "multiclass",
        /// The length of a queue.
        Threshold = "threshold",
    }
}

choice! {
    /// Decisions that are reported (`stages.decisions`).
    pub(crate) enum Decisions {
        /// None.
        None = "none",
        /// Decisions that change something.
        Changes = "changes",
        /// All.
        All = "all",
    }
}

/// Weights of the old, hundredths: of ages (Sandstorm's; the mean of BottleneckDirectControl), and
/// of rates of batches.
const AGES_WEIGHT: u32 = 70;
const MEAN_WEIGHT: u32 = 50;
const BATCH_WEIGHT: u32 = 50;
/// The longest queue that `threshold` allows, and what a step adds, thousandths.
const LENGTH_MAX: u32 = 1024;
const LENGTH_ADD_MILLI: u32 = 2000;
/// Part of the target above which it is halved, hundredths.
const LENGTH_HIGH_PERCENT: u32 = 110;

/// Checks of the queue of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueChecks {
    /// Interval, milliseconds.
    period_ms: u32,
    /// The least length that counts.
    queue_min: u64,
}

impl StagesOptions {
    /// Decisions that are reported; `None`: none.
    pub(crate) const fn reported(&self) -> Option<Told> {
        match self.decisions {
            Decisions::None => None,
            Decisions::Changes => Some(Told::Changes),
            Decisions::All => Some(Told::All),
        }
    }

    /// Checks of a pool's queue.
    pub(crate) const fn checks(&self) -> QueueChecks {
        QueueChecks { period_ms: self.pool_ms, queue_min: self.pool_threshold }
    }

    /// Controller of a pool of at most `threads_max` threads, whose queue is checked like this.
    pub(crate) fn pool(
        &self,
        checks: QueueChecks,
        threads_max: u32,
        seed: u64,
    ) -> Option<PoolSize> {
        let finds_best = match self.pool_control {
            PoolControl::None => return None,
            PoolControl::Queue => None,
            PoolControl::QueueMax => Some(seed),
        };
        let (QueueChecks { period_ms, queue_min }, every) = (checks, self.pool_every);
        let rules = PoolRules { period_ms, every, queue_min, threads_max, finds_best };
        Some(PoolSize::new(rules, clock::nanos()))
    }

    /// The controller of batches.
    pub(crate) fn batching(&self) -> Option<Batching> {
        let rules = BatchRules {
            least: self.batch_min.min(self.batch_max),
            most: self.batch_max,
            window_ms: self.batch_ms,
            weight_old_percent: BATCH_WEIGHT,
            truncates: self.truncates,
        };
        self.batch_control.then(|| Batching::new(rules, clock::nanos()))
    }
}

impl LineOptions {
    /// Checks of the disk's queue.
    pub(crate) const fn disk_checks(&self) -> QueueChecks {
        QueueChecks { period_ms: self.disk_ms, queue_min: self.disk_threshold }
    }

    /// The gate of a line that holds `requests_max` requests; `queue_max` may wait behind it. It
    /// closes the connections of others without a word if it `drops` them.
    pub(crate) fn gate(&self, requests_max: usize, queue_max: u32, drops: bool) -> Gate {
        let classes = if self.admission == Admission::Multiclass { CLASSES_MAX } else { 1 };
        let is_rate = self.admission != Admission::Threshold;
        // The gate begins where its controller does, which tells it of changes only.
        let is_said = (1..self.rate_max).contains(&self.rate_first);
        let rate_first = if is_said { self.rate_first } else { self.rate_max };
        // What a controller sets has a bound, also where none has been said.
        let length = if queue_max == 0 { LENGTH_MAX } else { queue_max };
        let rules = GateRules {
            requests_max,
            queue_max: if is_rate { queue_max } else { length },
            first_milli: if is_rate { rate_first * 1000 } else { 0 },
            depth: self.bucket,
            refill_ms_min: self.refill_ms_min,
            classes: u8::try_from(classes).unwrap_or(u8::MAX),
            drops,
        };
        let ages = |weight_old_percent| AgeRules {
            target_ms: self.target_ms,
            samples: self.samples,
            period_ms: self.sample_ms,
            weight_old_percent,
        };
        let rate = DirectRules {
            ages: ages(AGES_WEIGHT),
            first_milli: rate_first * 1000,
            most_milli: self.rate_max * 1000,
            add_milli: self.rate_add_milli,
            divide_percent: self.rate_divide_percent,
        };
        let now = clock::nanos();
        let controller: Option<Box<dyn Controller>> = match self.admission {
            Admission::None => None,
            Admission::Proportional => Some(Box::new(Proportional::new(rate, now))),
            Admission::Direct => Some(Box::new(Direct::new(rate, now))),
            Admission::Multiclass => Some(Box::new(Multiclass::new(classes, rate, now))),
            Admission::Threshold => {
                let rules = QueueMaxRules {
                    ages: ages(MEAN_WEIGHT),
                    by_mean: true,
                    first: length,
                    most: length,
                    add_milli: LENGTH_ADD_MILLI,
                    high_percent: LENGTH_HIGH_PERCENT,
                };
                Some(Box::new(QueueMax::new(rules, now)))
            }
        };
        Gate::new(rules, controller, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Settings;

    fn defaults() -> LineOptions {
        LineOptions::read(&Settings::defaults(LINE_OPTIONS))
    }

    #[test]
    fn no_rate_is_above_the_most_in_the_beginning_either() {
        let (rate_max, bucket, admission) = (10, 1, Admission::Direct);
        for rate_first in [0, 10, 11, 5000] {
            let options = LineOptions { admission, rate_first, rate_max, bucket, ..defaults() };
            let (gate, begin) = (options.gate(0, 0, false), clock::nanos());
            let admits = |ms: &u64| gate.admits(0, 0, begin + ms * 1_000_000);
            let admitted = (0..1000).filter(admits).count();
            assert!((9..=11).contains(&admitted), "{rate_first}: {admitted} in a second");
        }
    }

    #[test]
    fn a_length_that_moves_has_a_bound_in_the_beginning_too() {
        let gate = |admission, queue_max| {
            LineOptions { admission, ..defaults() }.gate(0, queue_max, false)
        };
        for (queue_max, most) in [(0, 1024), (5, 5), (2000, 2000)] {
            let gate = gate(Admission::Threshold, queue_max);
            assert!(gate.admits(most - 1, 0, 0) && !gate.admits(most, 0, 0), "{queue_max}");
        }
        assert!(gate(Admission::None, 0).admits(1 << 20, 0, 0));
    }
}
