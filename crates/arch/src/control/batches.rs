//! Size of the batch that a thread takes at once ([AggThrottle]). It shrinks while the stage serves
//! as much as it did with more, because items taken together wait for each other. It grows again
//! when the stage serves less.
//!
//! The pool of a stage's threads observes each visit with it, if `stages.batch_control` is on.
use super::{Adjustment, Controller, Decided, Inputs, Periods, Sample, Smoothed, milli, whole};

/// Windows per adjustment.
const ADJUSTS_EVERY: u32 = 5;
/// Factor that a step multiplies or divides by.
const FACTOR: f64 = 1.2;
/// Parts of the best rate. Below the first, or from the last on, the load is another one, and a
/// batch is the largest. At or below the second it is too small; from the third on, large enough.
const RESETS_BELOW: f64 = 0.2;
const TOO_LITTLE: f64 = 0.9;
const ENOUGH: f64 = 0.98;
const RESETS_FROM: f64 = 2.0;

/// Rules for the size of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchRules {
    /// The smallest batch.
    pub least: u32,
    /// The largest one, with which it begins.
    pub most: u32,
    /// Window in which the served are counted, milliseconds.
    pub window_ms: u32,
    /// Weight of the old rate in smoothing, hundredths.
    pub weight_old_percent: u32,
    /// Truncates sizes to whole numbers: sizes from 1 to 4 cannot grow then, as in the source.
    pub truncates: bool,
}

/// Sets the size of a batch.
#[derive(Debug)]
pub struct Batching {
    rules: BatchRules,
    periods: Periods,
    windows: u32,
    served: u64,
    rate: Smoothed,
    best: f64,
    size: f64,
    grows: bool,
}

impl Batching {
    /// Batches of the largest size.
    #[must_use]
    pub fn new(rules: BatchRules, now_ns: u64) -> Self {
        let periods = Periods::new(rules.window_ms, now_ns);
        let rate = Smoothed::new(f64::from(rules.weight_old_percent) / 100.0);
        let size = f64::from(rules.most);
        Self { rules, periods, windows: 0, served: 0, rate, best: 0.0, size, grows: false }
    }

    /// The size now.
    #[must_use]
    pub fn size(&self) -> u32 {
        u32::try_from(whole(self.size)).unwrap_or(u32::MAX)
    }

    fn adjust(&mut self, rate: f64) {
        let BatchRules { least, most, truncates, .. } = self.rules;
        let (least, most) = (f64::from(least), f64::from(most));
        if rate < RESETS_BELOW * self.best || rate >= RESETS_FROM * self.best {
            // The best stays what it was. So a step down follows at once where there is more to
            // do, and one up, which changes nothing, where there is less.
            (self.size, self.grows) = (most, false);
        }
        let grew = self.grows;
        if grew {
            self.best = self.best.max(rate);
        }
        let is_enough =
            if grew { rate >= ENOUGH * self.best } else { rate > TOO_LITTLE * self.best };
        let size = if is_enough { self.size / FACTOR } else { self.size * FACTOR };
        let size = if truncates { size.trunc() } else { size };
        self.grows = !is_enough;
        if is_enough {
            self.best = self.best.max(rate);
        } else if grew && size > most {
            // There is no better: what it was once is not what it can be now.
            (self.best, self.grows) = (rate, false);
        }
        self.size = size.clamp(least, most);
    }
}

impl Controller for Batching {
    fn observe(&mut self, sample: &Sample<'_>, now_ns: u64, out: &mut Vec<Decided>) {
        self.served += sample.takes;
        let Some(seconds) = self.periods.due(now_ns) else { return };
        let rate = self.rate.add(self.served as f64 / seconds);
        self.served = 0;
        self.windows = self.windows.wrapping_add(1);
        if !self.windows.is_multiple_of(ADJUSTS_EVERY) {
            return;
        }
        let before = self.size();
        self.adjust(rate);
        let decision = (self.size() != before).then(|| Adjustment::Batch(self.size()));
        let (milli_per_s, best_milli_per_s) = (milli(rate), milli(self.best));
        out.push(Decided { decision, inputs: Inputs::Rate { milli_per_s, best_milli_per_s } });
    }
}
