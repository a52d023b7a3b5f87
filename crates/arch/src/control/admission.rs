//! Admission: controllers of a rate, or of the length of a queue, by the ages of what has been
//! served; and the bucket that a rate fills ([ResponseTimeController*, RateLimitingPredicate]).
use super::{
    Adjustment, CLASSES_MAX, Controller, Decided, Inputs, Periods, Sample, Smoothed, milli, whole,
};

/// The least rate, events a second: with none at all nothing would ever show that there is room.
const RATE_MIN: f64 = 0.05;
/// A controller admits more while the age is below this part of the target.
const LOW: f64 = 0.9;
/// Above this part of the target it admits less.
const HIGH: f64 = 1.2;

/// Rules for collecting ages, and the target.
#[derive(Clone, Copy, Debug)]
pub struct AgeRules {
    /// Nine ages of ten are to be this or less, milliseconds.
    pub target_ms: u32,
    /// Ages that are enough to decide.
    pub samples: u32,
    /// Time after which it decides with fewer, milliseconds.
    pub period_ms: u32,
    /// Weight of old values in smoothing, hundredths.
    pub weight_old_percent: u32,
}

/// Collects ages of what has been served, until they are enough to decide.
#[derive(Debug)]
struct Ages {
    rules: AgeRules,
    periods: Periods,
    /// At most [`AgeRules::samples`] ages.
    ages_ns: Vec<u64>,
    served: u64,
    age_ns: Smoothed,
    rate: Smoothed,
}

/// Summary of collected ages.
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
    fn decided(self, decision: Option<Adjustment>) -> Decided {
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

    /// Adds the ages of a sample. If there are enough, or enough time has passed, returns their
    /// summary; `age` gets all of them in ascending order.
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

/// The 90th percentile: the element at nine tenths of the length.
fn p90(sorted: &[u64]) -> f64 {
    sorted[(sorted.len() * 9 / 10).min(sorted.len() - 1)] as f64
}

fn mean(sorted: &[u64]) -> f64 {
    sorted.iter().sum::<u64>() as f64 / sorted.len() as f64
}

/// Decides a change of the rate, if there is one in thousandths.
fn rate(class: u8, before: f64, now: f64) -> Option<Adjustment> {
    (milli(before) != milli(now)).then(|| Adjustment::Rate { class, milli_per_s: milli(now) })
}

/// Rules for setting a rate.
#[derive(Clone, Copy, Debug)]
pub struct DirectRules {
    /// Rules for the ages that it goes by.
    pub ages: AgeRules,
    /// The rate in the beginning, thousandths of an event a second.
    pub first_milli: u64,
    /// The most, thousandths of an event a second.
    pub most_milli: u64,
    /// Increment of a step, thousandths of an event a second.
    pub add_milli: u64,
    /// Divisor of a step, hundredths.
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

/// Power of the ratio of target and age by which [`Proportional`] sets its rate. Requests served
/// now were admitted an age ago, so the age follows x' = -g/T x(t - T). It settles without
/// overshoot while g is below 1/e, and not at all from pi/2 on.
const GAIN: f64 = 1.0 / 3.0;
/// The part of the target that it aims at in the beginning, and at most.
const AIM_MAX: f64 = 0.95;
/// The least part of the target that it aims at.
const AIM_MIN: f64 = 0.3;
/// The share of all ages that may be above the target.
const OVER: f64 = 0.1;
/// Speed at which the aim follows the share of ages above the target. A decision multiplies the aim
/// by e to this times ([`OVER`] - share).
const AIM_GAIN: f64 = 0.03;
/// From this part of the target on more has come in than the rate was made for.
const FLOOD: f64 = 3.0;
/// Most that a decision multiplies the served rate by.
const RISES_MAX: f64 = 1.25;
/// Least that a decision multiplies the served rate by.
const FALLS_MAX: f64 = 0.5;

/// The least rate, events a second: with fewer it would take too long to see that there is room.
const FOLLOWS_MIN: f64 = 10.0;

/// A rate that is what the stage serves, times a power of the ratio of the target and the age. It
/// needs no rate to begin with, and steps that fit a rate of any size.
///
/// A rate at which nothing is refused does not limit: it stays while the ages are below the target,
/// and falls from what is served when they are not.
///
/// Ages may be equal within a decision and differ from one decision to the next, if all wait for
/// the same disk. Their 90th percentile over a minute is then far above the mean of the decisions'.
/// The controller therefore aims below the target, so far that one age of ten is above it.
#[derive(Debug)]
pub struct Proportional {
    rules: DirectRules,
    ages: Ages,
    rate: f64,
    /// Aim, as a part of the target.
    aim: f64,
    /// Something has been refused since the last decision.
    limits: bool,
    /// The ages have been at the aim while it refused, without a flood since: they are its rate's.
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
/// Rates grow only from this far below the target on.
const CLASS_ADDS_BELOW: f64 = -0.5;
/// Growth of the rate, times the distance of its ages below [`CLASS_LOW`].
const CLASS_ADD: f64 = 2.0;
/// Divisor of the rates of lower classes.
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
    /// Makes `classes` classes: 1 at least, [`CLASSES_MAX`] at most.
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

/// Rules for setting the length of a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueMaxRules {
    /// Rules for the ages that it goes by.
    pub ages: AgeRules,
    /// Goes by the mean of the ages (BottleneckDirectControl), not by their 90th percentile.
    pub by_mean: bool,
    /// The length in the beginning.
    pub first: u32,
    /// The longest.
    pub most: u32,
    /// Increment of a step, thousandths. Lengths are truncated to whole numbers: less than 1000
    /// adds nothing, as in the source.
    pub add_milli: u32,
    /// Above this part of the target it is halved, hundredths.
    pub high_percent: u32,
}

/// Bound on how many may wait, which moves with their ages.
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
        let decision = (self.most != before).then_some(Adjustment::QueueMax(self.most));
        out.push(said.decided(decision));
    }
}

/// Bucket that a rate fills with tokens; each admission takes one.
#[derive(Debug)]
pub struct Bucket {
    tokens: f64,
    depth: f64,
    refill_ns_min: f64,
    /// Time until there is one more token, nanoseconds; 0: no limit.
    refill_ns: f64,
    since_ns: u64,
}

impl Bucket {
    /// A full bucket that is filled at this rate, thousandths of a token a second; 0: no limit.
    /// However high the rate, a token takes at least `refill_ms_min`.
    #[must_use]
    pub fn new(milli_per_s: u64, depth: u32, refill_ms_min: u32, now_ns: u64) -> Self {
        let depth = f64::from(depth.max(1));
        let refill_ns_min = f64::from(refill_ms_min) * 1e6;
        let mut bucket =
            Self { tokens: depth, depth, refill_ns_min, refill_ns: 0.0, since_ns: now_ns };
        bucket.set(milli_per_s);
        bucket
    }

    /// Sets the rate, which applies from the last [`Bucket::admit`] on.
    pub fn set(&mut self, milli_per_s: u64) {
        self.refill_ns = match milli_per_s {
            0 => 0.0,
            rate => (1e12 / rate as f64).max(self.refill_ns_min),
        };
    }

    /// Returns a token: what was admitted was no request.
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
