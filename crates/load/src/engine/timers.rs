//! Alarms in order of time. A connection has at most one of a kind: deadlines that move are looked
//! at again when the old one rings, so that an exchange in time costs no alarm.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What an alarm is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    /// A connection's deadline may have passed.
    Deadline(u64),
    /// A slow connection may read on.
    Read(u64),
    /// Something of the model's own.
    Play(u64),
}

/// Alarms in order of time.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(u64, Alarm)>>);

impl Timers {
    /// Rings at `at_ns`.
    pub(super) fn set(&mut self, at_ns: u64, alarm: Alarm) {
        self.0.push(Reverse((at_ns, alarm)));
    }

    /// When the next one rings.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.0.peek().map_or(u64::MAX, |Reverse((at, _))| *at)
    }

    /// The next alarm that has rung by `now`, and when it was to.
    #[inline]
    pub(super) fn rung(&mut self, now: u64) -> Option<(u64, Alarm)> {
        if self.next() > now {
            return None;
        }
        self.0.pop().map(|Reverse(entry)| entry)
    }
}
