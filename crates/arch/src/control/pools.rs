//! Number of threads of a stage ([ThreadPoolController]): one more, now and then, while too many
//! wait. Only the search for the best number takes any away. Otherwise a thread ends alone, when it
//! has had nothing to do for long enough.
use super::{Adjustment, Controller, Decided, Inputs, Periods, Sample, Smoothed};
use std::time::Duration;

/// Check that adds a thread, modulo [`PoolRules::every`].
const ADDS_AT: u32 = 3;
/// Checks per comparison of the throughput with the best.
const COMPARES_EVERY: u32 = 10;
/// Weight of the old throughput in smoothing.
const WEIGHT_OLD: f64 = 0.7;
/// A throughput of at most this times the best is left. A throughput better than the best has just
/// become the best, so this always holds, as in the source.
const LEAVES_BELOW: f64 = 1.2;
/// Back at the best number of threads, it tries up to this many fewer.
const FEWER_MAX: u64 = 3;

/// Rules for the growth of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolRules {
    /// Time from one check to the next, milliseconds.
    pub period_ms: u32,
    /// Checks per added thread.
    pub every: u32,
    /// Length that the queue must have then.
    pub queue_min: u64,
    /// The most threads.
    pub threads_max: u32,
    /// Seed of the search for the number of threads with best throughput (`autoMaxDetect`), if any.
    pub finds_best: Option<u64>,
}

/// Sets the size of a pool.
#[derive(Debug)]
pub struct PoolSize {
    rules: PoolRules,
    periods: Periods,
    looks: u32,
    served: u64,
    throughput: Smoothed,
    /// The best throughput, and with how many threads. It never gets less.
    best: (f64, u32),
    chance: u64,
}

impl PoolSize {
    /// A pool whose first look is one period from now.
    #[must_use]
    pub const fn new(rules: PoolRules, now_ns: u64) -> Self {
        let chance = match rules.finds_best {
            Some(seed) => seed,
            None => 0,
        };
        let periods = Periods::new(rules.period_ms, now_ns);
        let throughput = Smoothed::new(WEIGHT_OLD);
        Self { rules, periods, looks: 0, served: 0, throughput, best: (0.0, 1), chance }
    }

    /// Time until the next check.
    #[must_use]
    pub const fn due_in(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(self.periods.due_in(now_ns))
    }

    /// The number of threads to go back to, if the throughput is not the best.
    fn back_to(&mut self, throughput: f64, threads: u32) -> Option<u32> {
        let (best, with) = self.best;
        if throughput >= best {
            self.best = (throughput, threads);
            return None;
        }
        if throughput > LEAVES_BELOW * best || threads == with {
            return None;
        }
        let fewer = self.below(FEWER_MAX + 1);
        Some(with.saturating_sub(u32::try_from(fewer).unwrap_or(0)).max(1))
    }

    /// A number below `below` (xorshift64*).
    const fn below(&mut self, below: u64) -> u64 {
        self.chance |= 1;
        self.chance ^= self.chance >> 12;
        self.chance ^= self.chance << 25;
        self.chance ^= self.chance >> 27;
        (self.chance.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
    }
}

impl Controller for PoolSize {
    fn observe(&mut self, sample: &Sample<'_>, now_ns: u64, out: &mut Vec<Decided>) {
        self.served += sample.takes;
        let Some(seconds) = self.periods.due(now_ns) else { return };
        self.looks = self.looks.wrapping_add(1);
        let throughput = self.throughput.add(self.served as f64 / seconds);
        self.served = 0;
        let Sample { queue, threads, .. } = *sample;
        let every = self.rules.every.max(1);
        let adds = self.looks % every == ADDS_AT % every;
        let compares = self.rules.finds_best.is_some() && self.looks.is_multiple_of(COMPARES_EVERY);
        let mut size = threads;
        if adds && queue >= self.rules.queue_min && threads < self.rules.threads_max {
            size += 1;
        }
        if compares {
            size = self.back_to(throughput, threads).unwrap_or(size);
        }
        if adds || compares {
            let decision = (size != threads).then_some(Adjustment::Threads(size));
            out.push(Decided { decision, inputs: Inputs::Pool { queue, threads } });
        }
    }
}
