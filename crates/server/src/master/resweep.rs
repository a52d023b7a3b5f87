//! The time of the keeper's next sweep, after a worker kept it from closing what another left open.
use regatta_op::Tick;

/// The first wait, milliseconds.
const FIRST_MS: u64 = 20;
/// The longest wait, milliseconds: all workers pause for each sweep.
const LONGEST_MS: u64 = 1000;

/// The next sweep. Waits double, for a worker that hangs while it takes descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resweep {
    /// Tick at which the sweep is due.
    pub(super) at: Tick,
    wait_ms: u64,
}

impl Resweep {
    /// The first after one that could not be done now.
    pub(super) const fn first(now: Tick) -> Self {
        Self { at: now.after(FIRST_MS), wait_ms: FIRST_MS }
    }

    /// The next, after this one could not be done either.
    pub(super) fn later(self, now: Tick) -> Self {
        let wait_ms = (2 * self.wait_ms).min(LONGEST_MS);
        Self { at: now.after(wait_ms), wait_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_second() {
        let (mut now, mut sweeps) = (Tick(0), 0);
        let mut again = Resweep::first(now);
        while again.at.0 < 60_000 {
            assert!(again.at > now && again.at.since(now) <= LONGEST_MS);
            now = again.at;
            again = again.later(now);
            sweeps += 1;
        }
        assert!(sweeps < 70, "{sweeps} sweeps in a minute");
    }
}
