//! Seeded randomness: order of trials, simulations.

use super::{count, index};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// A stream of random numbers; the same seed gives the same stream on every machine.
#[derive(Clone, Debug)]
pub struct Random(Pcg64);

impl Random {
    /// Starts a stream.
    pub fn new(seed: u64) -> Self {
        Self(Pcg64::seed_from_u64(seed))
    }

    /// The next 64 bits, such as for another stream's seed.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        // 53 bits are what an f64 holds exactly.
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
        let top = (self.0.next_u64() >> 11) as f64;
        top / (1_u64 << 53) as f64
    }

    /// A place below `end`; 0 if `end` is.
    pub fn below(&mut self, end: usize) -> usize {
        index(self.unit() * count(end)).min(end.saturating_sub(1))
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Normal with mean 0 and deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let (a, b) = (self.exponential(), self.unit());
        (2.0 * a).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// Puts `items` into random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
