//! How much is admitted: controllers of a rate, or of the length of a queue, by the ages of what
//! has been served, and the bucket that a rate fills ([ResponseTimeController*,
//! RateLimitingPredicate]).
use super::{
    CLASSES_MAX, Controller, Decided, Decision, Inputs, Periods, Sample, Smoothed, milli, whole,
};

/// The least rate, events a second: with none at all nothing would ever show that there is room.
const RATE_MIN: f64 = 0.05;
/// A controller of which nine ages of ten are below this part of the target admits more.
const LOW: f64 = 0.9;
/// From this part on it admits less.
const HIGH: f64 = 1.2;

/// How ages are collected, and the target.
#[derive(Clone, Copy, Debug)]
pub struct AgeRules {
    /// Nine ages of ten are to be this or less, milliseconds.
    pub target_ms: u32,
    /// So many ages are enough to decide.
    pub samples: u32,
    /// After so long it decides with fewer, milliseconds.
    pub period_ms: u32,
    /// Weight of what they were, when they are smoothed, hundredths.
    pub weight_old_percent: u32,
}

/// Ages of what has been served, until they say something.
#[derive(Debug)]
struct Ages {
    rules: AgeRules,
    periods: Periods,
    /// At most so many as are enough.
    ages_ns: Vec<u64>,
    served: u64,
    age_ns: Smoothed,
    rate: Smoothed,
}

/// What ages say.
#[derive(Clone, Copy, Debug)]
struct Said {
    /// The age itself, smoothed, nanoseconds.
    age_ns: f64,
    /// The age as a part of the target.
    of_target: f64,
    /// The share of the ages that are above the target.
    over: f64,
    /// Served a second, smoothed.
    rate: f64,
}

impl Said {
    fn decided(self, decision: Option<Decision>) -> Decided {
        let inputs = Inputs::Ages { age_ns: whole(self.age_ns), milli_per_s: milli(self.rate) };
        Decided { decision, inputs }
    }
}

impl Ages {
    fn new(rules: AgeRules, now_ns: u64) -> Self {
        let smoothed = Smoothed::new(f64::from(rules.weight_old_percent) / 100.0);
        let (ages_ns, periods) = (Vec::new(), Periods::new(rules.period_ms, now_ns));
        Self { rules, periods, ages_ns, served: 0, age_ns: smoothed, rate: smoothed }
    }

    /// Adds the ages of a sample; if there are enough, or enough time has passed, `age` of all of
    /// them in their order is what they say.
    fn observe(
        &mut self,
        sample: &Sample<'_>,
        now_ns: u64,
        age: impl Fn(&[u64]) -> f64,
    ) -> Option<Said> {
        let enough = self.rules.samples.max(1) as usize;
        let room = enough.saturating_sub(self.ages_ns.len());
        self.ages_ns.extend(sample.ages_ns.iter().take(room));
        self.served += sample.ages_ns.len() as u64;
        let is_full = self.ages_ns.len() >= enough;
        let seconds = match self.periods.due(now_ns) {
            Some(seconds) => seconds,
            None if is_full => self.periods.begin(now_ns),
            None => return None,
        };
        let rate = self.rate.add(self.served as f64 / seconds);
        self.served = 0;
        if self.ages_ns.is_empty() {
            return None;
        }
        self.ages_ns.sort_unstable();
        let age_ns = self.age_ns.add(age(&self.ages_ns));
        let target_ns = f64::from(self.rules.target_ms.max(1)) * 1e6;
        let within = self.ages_ns.partition_point(|&age_ns| age_ns as f64 <= target_ns);
        let over = 1.0 - within as f64 / self.ages_ns.len() as f64;
        self.ages_ns.clear();
        Some(Said { age_ns, of_target: age_ns / target_ns, over, rate })
    }
}

/// The age of which nine of ten are less or equal.
fn p90(sorted: &[u64]) -> f64 {
    sorted[(sorted.len() * 9 / 10).min(sorted.len() - 1)] as f64
}

fn mean(sorted: &[u64]) -> f64 {
    sorted.iter().sum::<u64>() as f64 / sorted.len() as f64
}

/// The decision for a rate that was another.
fn rate(class: u8, before: f64, now: f64) -> Option<Decision> {
    (milli(before) != milli(now)).then(|| Decision::Rate { class, milli_per_s: milli(now) })
}

/// How a rate is set.
#[derive(Clone, Copy, Debug)]
pub struct DirectRules {
    /// What it goes by.
    pub ages: AgeRules,
    /// The rate in the beginning, thousandths of an event a second.
    pub first_milli: u64,
    /// The most, thousandths of an event a second.
    pub most_milli: u64,
    /// What a step adds, thousandths of an event a second.
    pub add_milli: u64,
    /// What a step divides by, hundredths.
    pub divide_percent: u32,
}

impl DirectRules {
    fn most(&self) -> f64 {
        self.most_milli as f64 / 1000.0
    }

    fn first(&self) -> f64 {
        self.bound(self.first_milli as f64 / 1000.0)
    }

    fn bound(&self, rate: f64) -> f64 {
        rate.min(self.most()).max(RATE_MIN)
    }

    fn divided(&self, rate: f64) -> f64 {
        self.bound(rate * 100.0 / f64::from(self.divide_percent.max(100)))
    }
}

/// A rate that grows by steps, and is divided when the target is missed
/// ([ResponseTimeControllerDirect]).
#[derive(Debug)]
pub struct Direct {
    rules: DirectRules,
    ages: Ages,
    rate: f64,
}

impl Direct {
    /// The first rate.
    #[must_use]
    pub fn new(rules: DirectRules, now_ns: u64) -> Self {
        Self { rules, ages: Ages::new(rules.ages, now_ns), rate: rules.first() }
    }
}

impl Controller for Direct {
    fn observe(&mut self, sample: &Sample<'_>, now_ns: u64, out: &mut Vec<Decided>) {
        let Some(said) = self.ages.observe(sample, now_ns, p90) else { return };
        let before = self.rate;
        if said.of_target < LOW {
            self.rate = self.rules.bound(before + self.rules.add_milli as f64 / 1000.0);
        } else if said.of_target > HIGH {
            self.rate = self.rules.divided(before);
        }
        out.push(said.decided(rate(sample.class, before, self.rate)));
    }
}

/// Power of the ratio of target and age by which [`Proportional`] sets its rate. What is served
/// now was admitted an age ago, so the age follows x' = -g/T x(t - T): it settles without
/// overshoot while g is below 1/e, and not at all from pi/2 on.
const GAIN: f64 = 1.0 / 3.0;
/// The part of the target that it aims at in the beginning, and at most.
const AIM_MAX: f64 = 0.95;
/// The least part of the target that it aims at.
const AIM_MIN: f64 = 0.3;
/// The share of all ages that may be above the target.
const OVER: f64 = 0.1;
/// How fast the aim follows the share of ages above the target: a decision multiplies it by e to
/// this times what the share is below [`OVER`].
const AIM_GAIN: f64 = 0.03;
/// From this part of the target on more has come in than the rate was made for.
const FLOOD: f64 = 3.0;
/// What a decision multiplies the rate by at most.
const RISES_MAX: f64 = 1.25;
/// What a decision multiplies the rate by at least.
const FALLS_MAX: f64 = 0.5;

/// The least rate, events a second: with fewer it would take too long to see that there is room.
const FOLLOWS_MIN: f64 = 10.0;

/// A rate that is what the stage serves, times a power of the ratio of the target and the age. It
/// needs no rate to begin with, and steps that fit a rate of any size.
///
/// A rate at which nothing is refused does not limit: it stays while the ages are below the target,
/// and falls from what is served when they are not.
///
/// Ages that are equal within a decision and differ from one decision to the next (all wait for
/// the same disk) have a 90th percentile over a minute that is far above the mean of the
/// decisions'. So it aims below the target, as far as it takes for one age of ten to be above it.
#[derive(Debug)]
pub struct Proportional {
    rules: DirectRules,
    ages: Ages,
    rate: f64,
    /// What it aims at, as a part of the target.
    aim: f64,
    /// Something has been refused since the last decision.
    limits: bool,
    /// It has been at its aim while it refused, and no flood has come since: the ages are those of
    /// its rate.
    settled: bool,
}

impl Proportional {
    /// The first rate.
    #[must_use]
    pub fn new(rules: DirectRules, now_ns: u64) -> Self {
        let ages = Ages::new(rules.ages, now_ns);
        Self { rules, ages, rate: rules.first(), aim: AIM_MAX, limits: false, settled: false }
    }
}

impl Controller for Proportional {
    fn observe(&mut self, sample: &Sample<'_>, now_ns: u64, out: &mut Vec<Decided>) {
        self.limits |= sample.refused > 0;
        let Some(said) = self.ages.observe(sample, now_ns, p90) else { return };
        let before = self.rate;
        self.settled |= self.limits && said.of_target <= self.aim;
        self.settled &= said.of_target < FLOOD;
        if self.settled {
            let aim = self.aim * (AIM_GAIN * (OVER - said.over)).exp();
            self.aim = aim.clamp(AIM_MIN, AIM_MAX);
        }
        let factor = (said.of_target.max(f64::MIN_POSITIVE) / self.aim).powf(-GAIN);
        let follows = (said.rate * factor.clamp(FALLS_MAX, RISES_MAX)).max(FOLLOWS_MIN);
        let next = match (std::mem::take(&mut self.limits), factor < 1.0) {
            (true, _) => follows,
            (false, true) => follows.min(before),
            (false, false) => before,
        };
        self.rate = self.rules.bound(next);
        out.push(said.decided(rate(sample.class, before, self.rate)));
    }
}

/// A class whose ages are below the target by more than this part of it may have more.
const CLASS_LOW: f64 = -0.1;
/// Nor does its rate grow while it is below by no more than this.
const CLASS_ADDS_BELOW: f64 = -0.5;
/// What its rate grows by, times what it is below by.
const CLASS_ADD: f64 = 2.0;
/// What the rates of lower classes are divided by.
const LOWER_DIVIDE: f64 = 10.0;

/// A rate for each class; when a class misses the target, lower ones are admitted less first
/// ([ResponseTimeControllerMulticlass]).
#[derive(Debug)]
pub struct Multiclass {
    rules: DirectRules,
    classes: Vec<Class>,
}

#[derive(Debug)]
struct Class {
    ages: Ages,
    rate: f64,
    /// A higher class has taken from it since its last decision.
    is_preempted: bool,
}

impl Multiclass {
    /// So many classes, [`CLASSES_MAX`] at most.
    #[must_use]
    pub fn new(classes: usize, rules: DirectRules, now_ns: u64) -> Self {
        let class = |_| {
            let ages = Ages::new(rules.ages, now_ns);
            Class { ages, rate: rules.first(), is_preempted: false }
        };
        let classes = (0..classes.clamp(1, CLASSES_MAX)).map(class).collect();
        Self { rules, classes }
    }
}

impl Controller for Multiclass {
    fn observe(&mut self, sample: &Sample<'_>, now_ns: u64, out: &mut Vec<Decided>) {
        let at = usize::from(sample.class).min(self.classes.len() - 1);
        let (lower, rest) = self.classes.split_at_mut(at);
        let class = &mut rest[0];
        let Some(said) = class.ages.observe(sample, now_ns, p90) else { return };
        let before = class.rate;
        let missed_by = said.of_target - 1.0;
        if missed_by < CLASS_LOW {
            if !std::mem::take(&mut class.is_preempted) && missed_by <= CLASS_ADDS_BELOW {
                let adds = CLASS_ADD * (CLASS_LOW - missed_by);
                class.rate = self.rules.bound(before + adds);
            }
        } else if missed_by > 0.0 {
            for (number, lower) in (0..).zip(lower) {
                lower.is_preempted = true;
                let before = lower.rate;
                lower.rate = self.rules.bound(before / LOWER_DIVIDE);
                out.extend(rate(number, before, lower.rate).map(|to| said.decided(Some(to))));
            }
            // In the source, too, its own rate falls whether or not lower ones could.
            class.rate = self.rules.divided(before);
        }
        let number = u8::try_from(at).unwrap_or(u8::MAX);
        out.push(said.decided(rate(number, before, class.rate)));
    }
}

/// How the length of a queue is set.
#[derive(Clone, Copy, Debug)]
pub struct QueueMaxRules {
    /// What it goes by.
    pub ages: AgeRules,
    /// By the mean of the ages (BottleneckDirectControl), and not by that of nine in ten.
    pub by_mean: bool,
    /// The length in the beginning.
    pub first: u32,
    /// The longest.
    pub most: u32,
    /// What a step adds, thousandths. A length is a whole number, cut off: less than 1000 adds
    /// nothing, as in the source.
    pub add_milli: u32,
    /// From this part of the target on it is halved, hundredths.
    pub high_percent: u32,
}

/// How many may wait, by their ages: a bound that moves.
#[derive(Debug)]
pub struct QueueMax {
    rules: QueueMaxRules,
    ages: Ages,
    most: u32,
}

impl QueueMax {
    /// The first length.
    #[must_use]
    pub fn new(rules: QueueMaxRules, now_ns: u64) -> Self {
        Self { rules, ages: Ages::new(rules.ages, now_ns), most: rules.first }
    }
}

impl Controller for QueueMax {
    fn observe(&mut self, sample: &Sample<'_>, now_ns: u64, out: &mut Vec<Decided>) {
        let age = if self.rules.by_mean { mean } else { p90 };
        let Some(said) = self.ages.observe(sample, now_ns, age) else { return };
        let before = self.most;
        if said.of_target < LOW {
            self.most = before.saturating_add(self.rules.add_milli / 1000).min(self.rules.most);
        } else if said.of_target > f64::from(self.rules.high_percent) / 100.0 {
            self.most = (before / 2).max(1);
        }
        let decision = (self.most != before).then_some(Decision::QueueMax(self.most));
        out.push(said.decided(decision));
    }
}

/// A bucket that a rate fills with tokens, of which each admission takes one.
#[derive(Debug)]
pub struct Bucket {
    tokens: f64,
    depth: f64,
    refill_ns_min: f64,
    /// How long it takes until there is one more, nanoseconds; 0: there is no limit.
    refill_ns: f64,
    since_ns: u64,
}

impl Bucket {
    /// A full bucket that is filled at this rate, thousandths of a token a second, 0 for no limit;
    /// however high the rate, with a token in `refill_ms_min` at most.
    #[must_use]
    pub fn new(milli_per_s: u64, depth: u32, refill_ms_min: u32, now_ns: u64) -> Self {
        let depth = f64::from(depth.max(1));
        let refill_ns_min = f64::from(refill_ms_min) * 1e6;
        let mut bucket =
            Self { tokens: depth, depth, refill_ns_min, refill_ns: 0.0, since_ns: now_ns };
        bucket.set(milli_per_s);
        bucket
    }

    /// It is filled at this rate from the last admission on.
    pub fn set(&mut self, milli_per_s: u64) {
        self.refill_ns = match milli_per_s {
            0 => 0.0,
            rate => (1e12 / rate as f64).max(self.refill_ns_min),
        };
    }

    /// What was admitted was none: its token goes to another.
    pub fn give(&mut self) {
        self.tokens = (self.tokens + 1.0).min(self.depth);
    }

    /// True if one may come in.
    pub fn admit(&mut self, now_ns: u64) -> bool {
        if self.refill_ns <= 0.0 {
            return true;
        }
        let passed = now_ns.saturating_sub(self.since_ns) as f64;
        self.since_ns = self.since_ns.max(now_ns);
        self.tokens = (self.tokens + passed / self.refill_ns).min(self.depth);
        let is_admitted = self.tokens >= 1.0;
        if is_admitted {
            self.tokens -= 1.0;
        }
        is_admitted
    }
}
