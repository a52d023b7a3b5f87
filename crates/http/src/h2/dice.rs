//! Seeded draws for the tests: splitmix64.

/// Draws numbers; the same seed gives the same ones.
#[derive(Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    /// Draws a number below `n`, which is 1 or more.
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((value ^ (value >> 31)) % n as u64).unwrap_or(0)
    }

    /// Draws a byte.
    pub(super) fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap_or(0)
    }

    /// Draws from `choices`.
    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
