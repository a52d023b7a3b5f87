//! Bytes that connections may send between two waits, shared out among their turns, and handshakes
//! that they may advance.
//!
//! A *turn* is one visit to one connection. A *round* is all turns between two waits of the poller.
//! Event loops and stages have a budget in their [`Io`](super::step::Io), and a scheduler of user
//! threads has one. A thread that serves one connection has none.

/// Number of full turns whose bytes a round may send.
const ROUND_TURNS: u64 = 16;
/// Number of times that each byte of a sealed connection counts. To seal 2 MiB takes about 0.6 ms
/// of the processor, and 16 such turns would take 10 ms.
pub const SEALED_WEIGHT: u8 = 4;
/// Bytes that a turn may send however little is left to its round.
const TURN_BYTES: u64 = 64 << 10;

/// Bytes that a round may still send. Where many connections are ready each sends less, so that
/// none waits until hundreds have sent megabytes.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    turn_bytes_max: u64,
    round_bytes: u64,
}

impl Budget {
    /// Budget of turns that may send `turn_bytes_max` each. Empty until [`Budget::renew`].
    #[must_use]
    pub const fn new(turn_bytes_max: u64) -> Self {
        Self { turn_bytes_max, round_bytes: 0 }
    }

    /// Begins a round.
    pub const fn renew(&mut self) {
        self.round_bytes = self.turn_bytes_max.saturating_mul(ROUND_TURNS);
    }

    /// Bytes that the next turn may send.
    #[must_use]
    pub const fn share(&self) -> u64 {
        let most = self.turn_bytes_max;
        let least = if most < TURN_BYTES { most } else { TURN_BYTES };
        let share = self.round_bytes / ROUND_TURNS;
        if share < least { least } else { share }
    }

    /// Deducts the bytes that a turn has sent.
    pub const fn spend(&mut self, bytes: u64) {
        self.round_bytes = self.round_bytes.saturating_sub(bytes);
    }
}

/// Handshakes that a round may still advance.
#[derive(Clone, Copy, Debug)]
pub struct HandshakeBudget {
    most: u32,
    rest: u32,
}

impl HandshakeBudget {
    /// Budget of rounds that may advance `most` each. Full before the first.
    #[must_use]
    pub const fn new(most: u32) -> Self {
        Self { most, rest: most }
    }

    /// Begins a round.
    pub const fn renew(&mut self) {
        self.rest = self.most;
    }

    /// True if the round may advance another.
    #[must_use]
    pub const fn is_left(&self) -> bool {
        self.rest > 0
    }

    /// Deducts one; false if none is left.
    pub const fn spend(&mut self) -> bool {
        let is_left = self.is_left();
        self.rest = self.rest.saturating_sub(1);
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many connections are ready, a round sends hardly more than its share.
    #[test]
    fn a_round_shares_out_what_it_may_send() {
        const MOST: u64 = 2 << 20;
        let mut budget = Budget::new(MOST);
        budget.renew();
        assert_eq!(budget.share(), MOST, "a turn alone has all of its own");
        let mut sent = 0;
        for _ in 0..1000 {
            let bytes = budget.share();
            assert!((TURN_BYTES..=MOST).contains(&bytes), "{bytes}");
            budget.spend(bytes);
            sent += bytes;
        }
        assert!(sent <= MOST * ROUND_TURNS + 1000 * TURN_BYTES, "{sent}");
        assert_eq!(Budget::new(4096).share(), 4096, "what is asked for is never exceeded");
    }
}
