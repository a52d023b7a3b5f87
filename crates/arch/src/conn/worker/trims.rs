//! Times at which a worker returns free memory to the kernel.
use regatta_op::Tick;
use regatta_sys::heap;

/// Connections that are a burst, if as many have been closed since the last return.
const BURST: u32 = 64;
/// Time without a close after which a burst is over, milliseconds.
const QUIET_MS: u64 = 1_000;

/// Connections that were closed since the last return of memory.
#[derive(Debug, Default)]
pub(super) struct Trims {
    closed: u32,
    first: Tick,
    last: Tick,
}

/// Reason to return memory now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trim {
    /// Connections have been closed for a while.
    Usual,
    /// A burst of connections is over.
    Burst,
}

impl Trim {
    /// The shortest time since the last return of another thread, milliseconds.
    pub(super) const fn pause_ms(self) -> u64 {
        match self {
            Self::Usual => heap::TRIM_MS,
            Self::Burst => 2 * QUIET_MS,
        }
    }
}

impl Trims {
    /// A connection has been closed.
    pub(super) fn note_close(&mut self, now: Tick) {
        if self.closed == 0 {
            self.first = now;
        }
        (self.closed, self.last) = (self.closed.saturating_add(1), now);
    }

    /// The reason to return memory now, if there is one.
    pub(super) fn due(&self, now: Tick) -> Option<Trim> {
        if self.closed >= BURST && self.last.after(QUIET_MS) <= now {
            return Some(Trim::Burst);
        }
        (self.closed > 0 && self.first.after(heap::TRIM_MS) <= now).then_some(Trim::Usual)
    }

    /// Memory has been returned; if not `is_done`, another thread has done so lately. The usual
    /// return is then tried later, and that of a burst again soon.
    pub(super) fn has_tried(&mut self, trim: Trim, is_done: bool, now: Tick) {
        if is_done {
            *self = Self::default();
        } else if trim == Trim::Usual {
            self.first = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Closes `count` connections, one each `pause_ms`. Returns the reason for the first return,
    /// and when it is due.
    fn first(count: u64, pause_ms: u64) -> Option<(Trim, u64)> {
        let mut trims = Trims::default();
        (0..20_000).find_map(|now| {
            if now % pause_ms == 0 && now / pause_ms < count {
                trims.note_close(Tick(now));
            }
            trims.due(Tick(now)).map(|trim| (trim, now))
        })
    }

    #[test]
    fn memory_is_returned_after_a_burst_or_a_while() {
        let rows = [
            // Connections, pause between two, and the first return.
            (0, 1, None),
            (1, 1, Some((Trim::Usual, 10_000))),
            (63, 10, Some((Trim::Usual, 10_000))),
            (64, 10, Some((Trim::Burst, 1_630))),
            (1_000, 4, Some((Trim::Burst, 4_996))),
            // Connections that come and go all the time are no burst.
            (20_000, 1, Some((Trim::Usual, 10_000))),
            (20, 999, Some((Trim::Usual, 10_000))),
        ];
        for (count, pause_ms, expected) in rows {
            assert_eq!(first(count, pause_ms), expected, "{count} connections, each {pause_ms} ms");
        }
    }

    #[test]
    fn a_return_that_came_too_early_is_tried_again() {
        let mut trims = Trims::default();
        (0..BURST).for_each(|_| trims.note_close(Tick(0)));
        trims.has_tried(Trim::Burst, false, Tick(1_000));
        assert_eq!(trims.due(Tick(1_001)), Some(Trim::Burst));
        trims.has_tried(Trim::Burst, true, Tick(1_001));
        assert_eq!(trims.due(Tick(90_000)), None);
        trims.note_close(Tick(90_000));
        assert_eq!(trims.due(Tick(100_000)), Some(Trim::Usual));
        trims.has_tried(Trim::Usual, false, Tick(100_000));
        assert_eq!((trims.due(Tick(109_999)), trims.due(Tick(110_000))), (None, Some(Trim::Usual)));
    }
}
