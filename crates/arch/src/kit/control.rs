//! Controllers of stages, after Sandstorm's (mdwelsh/seda): each sees what a stage has done lately,
//! and says how many threads it is to have, how much a thread takes at once, how fast requests are
//! admitted. They are pure: time and chance are arguments, so that a recorded trace replays.
mod admission;
mod batches;
mod pools;

pub use admission::{
    AgeRules, Bucket, Direct, DirectRules, Multiclass, Proportional, QueueMax, QueueMaxRules,
};
pub use batches::{BatchRules, Batching};
pub use pools::{PoolRules, PoolSize};

use std::fmt;

/// Classes of requests, of which a higher one comes first, at most.
pub const CLASSES_MAX: usize = 10;

/// What a stage has done since the last sample, and how it is now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample<'a> {
    /// How many wait for it now.
    pub queue: u64,
    /// Its threads now.
    pub threads: u32,
    /// How many were refused at its gate.
    pub refused: u64,
    /// How many have been served.
    pub takes: u64,
    /// How old those that were served were then.
    pub ages_ns: &'a [u64],
    /// The class of all of these.
    pub class: u8,
}

/// What is to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The stage is to have so many threads.
    Threads(u32),
    /// A thread takes so many at once, at most.
    Batch(u32),
    /// So many of a class are admitted in 1000 seconds.
    Rate {
        /// Which class.
        class: u8,
        /// How many.
        milli_per_s: u64,
    },
    /// So many may wait.
    QueueMax(u32),
}

/// What was decided, and on what: its text is a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// `None`: all stays as it is.
    pub decision: Option<Decision>,
    /// What the controller went by.
    pub inputs: Inputs,
}

/// What a decision goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// Of a pool: how many wait, and the threads that there are.
    Pool {
        /// How many wait.
        queue: u64,
        /// Threads.
        threads: u32,
    },
    /// Of batches: what is served in 1000 seconds, smoothed, and the best of that.
    Rate {
        /// Now.
        milli_per_s: u64,
        /// The best.
        best_milli_per_s: u64,
    },
    /// Of admission: ages, of which 9 of 10 are less (or their mean), smoothed, and what is served
    /// in 1000 seconds.
    Ages {
        /// Nanoseconds.
        age_ns: u64,
        /// Served.
        milli_per_s: u64,
    },
}

/// Sets something of a stage by what the stage does.
pub trait Controller: Send + fmt::Debug {
    /// Takes a sample into account. When it is time to decide, what was decided is added to `out`:
    /// several decisions at once if they are about several classes.
    fn observe(&mut self, sample: &Sample<'_>, now_ns: u64, out: &mut Vec<Decided>);
}

impl fmt::Display for Decided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decision {
            None => write!(f, "unchanged"),
            Some(Decision::Threads(threads)) => write!(f, "threads={threads}"),
            Some(Decision::Batch(most)) => write!(f, "batch={most}"),
            Some(Decision::Rate { class, milli_per_s }) => {
                write!(f, "rate={} class={class}", Thousandths(milli_per_s))
            }
            Some(Decision::QueueMax(most)) => write!(f, "queue_max={most}"),
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

/// What is due again and again, each time so long after the last.
#[derive(Debug)]
struct Periods {
    period_ns: u64,
    since_ns: u64,
}

impl Periods {
    const fn new(period_ms: u32, now_ns: u64) -> Self {
        Self { period_ns: period_ms as u64 * 1_000_000, since_ns: now_ns }
    }

    /// How long until it is due, nanoseconds.
    const fn due_in(&self, now_ns: u64) -> u64 {
        self.period_ns.saturating_sub(now_ns.saturating_sub(self.since_ns))
    }

    /// If it is due: how long after the last time, seconds.
    fn due(&mut self, now_ns: u64) -> Option<f64> {
        (now_ns.saturating_sub(self.since_ns) >= self.period_ns).then(|| self.begin(now_ns))
    }

    /// It begins anew, although it may not be due: how long after the last time, seconds.
    fn begin(&mut self, now_ns: u64) -> f64 {
        let passed = now_ns.saturating_sub(self.since_ns);
        self.since_ns = now_ns;
        passed.max(1) as f64 / 1e9
    }
}

/// A mean in which what is new counts the more the less the weight of the old is.
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
