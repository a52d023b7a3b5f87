//! Handshakes between two poll points: few user threads continue one, and the others wait for later
//! poll points, in their order.
use super::task::{Fibered, Shake};
use crate::conn::budget::HandshakeBudget;
use std::collections::VecDeque;

/// Connections that wait to shake hands.
#[derive(Debug)]
pub(super) struct FiberHandshakes {
    /// Handshakes that are left until the next poll point.
    budget: HandshakeBudget,
    waiting: VecDeque<u64>,
}

impl FiberHandshakes {
    pub(super) const fn new(most: u32) -> Self {
        Self { budget: HandshakeBudget::new(most), waiting: VecDeque::new() }
    }

    /// True if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Begins the time between two poll points.
    pub(super) const fn begin_round(&mut self) {
        self.budget.renew();
    }

    /// The next connection that may shake hands now.
    pub(super) fn next(&mut self) -> Option<u64> {
        if self.waiting.is_empty() || !self.budget.spend() {
            return None;
        }
        self.waiting.pop_front()
    }

    /// True if a connection may try to receive now. Otherwise it waits.
    pub(super) fn may_try(&mut self, key: u64, drive: &mut Fibered) -> bool {
        match drive.shake {
            Shake::May => return true,
            Shake::Apart if self.waiting.is_empty() && self.budget.is_left() => return true,
            Shake::Apart => {
                self.waiting.push_back(key);
                drive.shake = Shake::Waits;
            }
            Shake::Waits => {}
        }
        false
    }

    /// A connection has tried, and has received something or not.
    pub(super) fn has_tried(&mut self, drive: &mut Fibered, has_received: bool) {
        let has_waited = std::mem::take(&mut drive.shake) == Shake::May;
        if has_received && !has_waited {
            self.budget.spend();
        }
    }

    /// A connection ends.
    pub(super) fn forget(&mut self, key: u64, drive: &Fibered) {
        if drive.shake == Shake::Waits
            && let Some(at) = self.waiting.iter().position(|other| *other == key)
        {
            self.waiting.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drives<const N: usize>() -> [Fibered; N] {
        std::array::from_fn(|at| Fibered::new(at, 0))
    }

    #[test]
    fn few_shake_hands_between_two_poll_points_in_their_order() {
        let (mut handshakes, mut drives) = (FiberHandshakes::new(2), drives::<6>());
        let mut ready = |handshakes: &mut FiberHandshakes, at: usize| {
            let may = handshakes.may_try(at as u64, &mut drives[at]);
            if may {
                handshakes.has_tried(&mut drives[at], true);
            }
            may
        };
        let next = |handshakes: &mut FiberHandshakes| [(); 3].map(|()| handshakes.next());
        assert_eq!(
            [0, 1, 2, 3, 4].map(|at| ready(&mut handshakes, at)),
            [true, true, false, false, false]
        );
        assert!(!ready(&mut handshakes, 3), "it waits once");
        handshakes.begin_round();
        assert_eq!(next(&mut handshakes), [Some(2), Some(3), None]);
        assert!(!ready(&mut handshakes, 5), "those that waited come first");
        handshakes.begin_round();
        assert_eq!(next(&mut handshakes), [Some(4), Some(5), None]);
        assert!(handshakes.is_empty());
    }

    #[test]
    fn an_attempt_that_receives_nothing_counts_for_nothing() {
        let (mut handshakes, [mut one, mut other]) = (FiberHandshakes::new(1), drives::<2>());
        for _ in 0..3 {
            assert!(handshakes.may_try(0, &mut one));
            handshakes.has_tried(&mut one, false);
        }
        assert!(handshakes.may_try(0, &mut one));
        handshakes.has_tried(&mut one, true);
        assert!(!handshakes.may_try(1, &mut other));
        handshakes.begin_round();
        assert_eq!(handshakes.next(), Some(1));
        other.shake = Shake::May;
        assert!(handshakes.may_try(1, &mut other));
    }

    #[test]
    fn a_connection_that_ends_does_not_wait() {
        let (mut handshakes, [mut one, mut other]) = (FiberHandshakes::new(1), drives::<2>());
        handshakes.has_tried(&mut one, true);
        assert!(!handshakes.may_try(0, &mut one) && !handshakes.may_try(1, &mut other));
        handshakes.forget(0, &one);
        handshakes.begin_round();
        assert_eq!(handshakes.next(), Some(1));
    }
}
