//! Chance for schedules: the same seed gives the same schedule.

/// Schedules that a test runs, each from a seed of its own.
pub(crate) const SEEDS: u64 = 256;

/// SplitMix64 (Steele, Lea, Flood 2014): a counter, then a mix.
#[derive(Debug)]
pub(crate) struct Dice {
    seed: u64,
    at: u64,
}

impl Dice {
    /// The dice of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, at: seed.wrapping_mul(0xd134_2543_de82_ef95) }
    }

    /// A number below `below`, which is not 0.
    pub(crate) fn below(&mut self, below: usize) -> usize {
        self.at = self.at.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.at;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % below as u64).expect("64-bit Linux")
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Takes out a random element; `None` if there are none.
    pub(crate) fn take<T>(&mut self, from: &mut Vec<T>) -> Option<T> {
        (!from.is_empty()).then(|| from.swap_remove(self.below(from.len())))
    }
}

/// Reports the seed of a schedule that failed.
impl Drop for Dice {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("with the dice of seed {}", self.seed);
        }
    }
}
