//! Source of every decision in a schedule: a seed, or bytes that a fuzzer chose.

/// Draws numbers. The same seed or bytes give the same numbers on every machine, forever.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    bytes: Vec<u8>,
    at: usize,
    state: u64,
}

impl Dice {
    /// Draws from splitmix64, whose state starts at a mix of `seed`.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { bytes: Vec::new(), at: 0, state: mix(seed) }
    }

    /// Draws from `bytes`; if too few are left for a draw, draws as [`Self::seeded`] with 0.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), at: 0, state: mix(0) }
    }

    /// Makes another stream for the same seed or bytes: draws from it change nothing here.
    pub(crate) fn apart(&self, name: u64) -> Self {
        let state = self.bytes.iter().fold(self.state, |state, byte| mix(state ^ u64::from(*byte)));
        Self::seeded(state ^ name)
    }

    /// A number below `n`, which is 1 or more.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        debug_assert!(n > 0, "there is a number to throw");
        if n == 1 {
            return 0;
        }
        let width = if n <= 1 << 8 {
            1
        } else if n <= 1 << 16 {
            2
        } else {
            8
        };
        if let Some(taken) = self.bytes.get(self.at..self.at + width) {
            self.at += width;
            return taken.iter().fold(0u64, |value, &byte| value << 8 | u64::from(byte)) % n;
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state) % n
    }

    /// A number from `least` to `most`, both included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// Returns true once in `n` draws on average.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == n - 1
    }

    /// Draws one of `choices`.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[index(self.below(choices.len() as u64))]
    }
}

/// Output function of splitmix64.
pub(crate) const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Converts a count of things in memory to an index.
pub(crate) fn index(n: u64) -> usize {
    usize::try_from(n).expect("what is counted fits into memory")
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn bytes_decide_until_they_are_used_up() {
        let mut dice = Dice::from_bytes(&[7, 1, 2]);
        assert_eq!((dice.below(5), dice.below(1000)), (2, 258));
        let mut seeded = Dice::seeded(0);
        assert_eq!(dice.below(1 << 20), seeded.below(1 << 20));
        assert_ne!(Dice::seeded(1).below(1 << 60), Dice::seeded(2).below(1 << 60));
    }
}
