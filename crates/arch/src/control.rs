//! Controllers of stages, after Sandstorm's (mdwelsh/seda). Each sees what a stage has done lately,
//! and sets its number of threads, its batch, or the rate of admission. A controller of ours sets
//! the number of helpers of a mount. They are pure: time and chance are arguments, so that a
//! recorded trace replays.
mod admission;
mod batches;
mod helper_count;
mod pools;

pub use admission::{
    AgeRules, Bucket, Direct, DirectRules, Multiclass, Proportional, QueueMax, QueueMaxRules,
};
pub use batches::{BatchRules, Batching};
pub use helper_count::{
    HelperCount, HelperDecision, HelperReason, HelperRules, HelperSample, HelperWork,
};
pub use pools::{PoolRules, PoolSize};

use std::fmt;

/// Most classes of requests; a higher class comes first.
pub const CLASSES_MAX: usize = 10;

/// Work of a stage since the last sample, and its state now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample<'a> {
    /// Length of its queue now.
    pub queue: u64,
    /// Number of threads now.
    pub threads: u32,
    /// Number refused at its gate.
    pub refused: u64,
    /// Number served.
    pub takes: u64,
    /// Ages of those that were served, at that time.
    pub ages_ns: &'a [u64],
    /// The class of all of these.
    pub class: u8,
}

/// Change that a controller decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjustment {
    /// Threads that the stage is to have.
    Threads(u32),
    /// Most that a thread takes at once.
    Batch(u32),
    /// Admissions of a class in 1000 seconds.
    Rate {
        /// The class.
        class: u8,
        /// Admissions in 1000 seconds.
        milli_per_s: u64,
    },
    /// Most that may wait.
    QueueMax(u32),
}

/// Decision and its inputs; its text is a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// `None`: all stays as it is.
    pub decision: Option<Adjustment>,
    /// Values that the controller went by.
    pub inputs: Inputs,
}

/// Inputs of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// Inputs of a pool.
    Pool {
        /// Length of the queue.
        queue: u64,
        /// Threads.
        threads: u32,
    },
    /// Rates of batches: the number served in 1000 seconds, smoothed, and the best of that.
    Rate {
        /// Now.
        milli_per_s: u64,
        /// The best.
        best_milli_per_s: u64,
    },
    /// Inputs of admission: the 90th percentile of the ages (or their mean), smoothed, and the
    /// number served in 1000 seconds.
    Ages {
        /// Nanoseconds.
        age_ns: u64,
        /// Served.
        milli_per_s: u64,
    },
}

/// Sets a parameter of a stage by what the stage does.
pub trait Controller: Send + fmt::Debug {
    /// Takes a sample into account. When it is time to decide, adds to `out` what was decided:
    /// several decisions at once if they are about several classes.
    fn observe(&mut self, sample: &Sample<'_>, now_ns: u64, out: &mut Vec<Decided>);
}

impl fmt::Display for Decided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decision {
            None => write!(f, "unchanged"),
            Some(Adjustment::Threads(threads)) => write!(f, "threads={threads}"),
            Some(Adjustment::Batch(most)) => write!(f, "batch={most}"),
            Some(Adjustment::Rate { class, milli_per_s }) => {
                write!(f, "rate={} class={class}", Thousandths(milli_per_s))
            }
            Some(Adjustment::QueueMax(most)) => write!(f, "queue_max={most}"),
        }?;
        match self.inputs {
            Inputs::Pool { queue, threads } => write!(f, ": queue={queue} threads={threads}"),
            Inputs::Rate { milli_per_s, best_milli_per_s } => {
                let (rate, best) = (Thousandths(milli_per_s), Thousandths(best_milli_per_s));
                write!(f, ": served={rate} best={best}")
            }
            Inputs::Ages { age_ns, milli_per_s } => {
                let (age, rate) = (Thousandths(age_ns / 1000), Thousandths(milli_per_s));
                write!(f, ": age_ms={age} served={rate}")
            }
        }
    }
}

/// A number with three digits after the point.
struct Thousandths(u64);

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Timer that is due one period after it last began.
#[derive(Debug)]
struct Periods {
    period_ns: u64,
    since_ns: u64,
}

impl Periods {
    const fn new(period_ms: u32, now_ns: u64) -> Self {
        Self { period_ns: period_ms as u64 * 1_000_000, since_ns: now_ns }
    }

    /// Time until it is due, nanoseconds.
    const fn due_in(&self, now_ns: u64) -> u64 {
        self.period_ns.saturating_sub(now_ns.saturating_sub(self.since_ns))
    }

    /// Begins again if it is due. Returns the time since the last beginning, seconds.
    fn due(&mut self, now_ns: u64) -> Option<f64> {
        (now_ns.saturating_sub(self.since_ns) >= self.period_ns).then(|| self.begin(now_ns))
    }

    /// Begins again, due or not. Returns the time since the last beginning, seconds.
    fn begin(&mut self, now_ns: u64) -> f64 {
        let passed = now_ns.saturating_sub(self.since_ns);
        self.since_ns = now_ns;
        passed.max(1) as f64 / 1e9
    }
}

/// Exponentially smoothed mean: the less the weight of the old, the more the new counts.
#[derive(Clone, Copy, Debug)]
struct Smoothed {
    weight_old: f64,
    /// `None` before the first.
    value: Option<f64>,
}

impl Smoothed {
    const fn new(weight_old: f64) -> Self {
        Self { weight_old, value: None }
    }

    fn add(&mut self, new: f64) -> f64 {
        let old = self.value.unwrap_or(new);
        let value = self.weight_old * old + (1.0 - self.weight_old) * new;
        self.value = Some(value);
        value
    }
}

/// A rate, in thousandths of an event a second.
fn milli(per_s: f64) -> u64 {
    whole(per_s * 1000.0)
}

/// The nearest whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}
