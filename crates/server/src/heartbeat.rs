//! Which workers do not run: stopped, or held up by something that should not take so long.
use regatta_op::Tick;

/// Between two looks at the workers, milliseconds.
const LOOK_MS: u64 = 2_000;

/// Looks without a new heartbeat after which a worker is silent. A worker has one every second.
const LOOKS_MIN: u32 = 3;

/// What has changed about a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It has had no heartbeat for so many milliseconds.
    Silent(u64),
    /// It has one again, after so many milliseconds.
    Again(u64),
}

/// The last heartbeat of a worker.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    heartbeat_ms: u64,
    /// When that was new.
    since: Tick,
    looks: u32,
}

/// The heartbeats of all workers.
#[derive(Debug)]
pub(crate) struct Heartbeats {
    workers: Vec<Last>,
    next: Tick,
}

impl Heartbeats {
    /// No heartbeat is known yet.
    pub(crate) fn new(workers: usize, now: Tick) -> Self {
        Self { workers: vec![Last::default(); workers], next: now.after(LOOK_MS) }
    }

    /// True if it is time to look; the next time is then later.
    pub(crate) fn is_due(&mut self, now: Tick) -> bool {
        let due = self.next <= now;
        if due {
            self.next = now.after(LOOK_MS);
        }
        due
    }

    /// A worker has this heartbeat; `None` if there is no worker. Looks are counted rather than
    /// time, because a machine that was stopped stops workers and master alike.
    pub(crate) fn check(
        &mut self,
        worker: usize,
        heartbeat_ms: Option<u64>,
        now: Tick,
    ) -> Option<Change> {
        let last = &mut self.workers[worker];
        let Some(heartbeat_ms) = heartbeat_ms else {
            *last = Last { since: now, ..Last::default() };
            return None;
        };
        if last.heartbeat_ms != heartbeat_ms {
            let again = (last.looks >= LOOKS_MIN).then(|| Change::Again(now.since(last.since)));
            *last = Last { heartbeat_ms, since: now, looks: 0 };
            return again;
        }
        last.looks = last.looks.saturating_add(1);
        (last.looks == LOOKS_MIN).then(|| Change::Silent(now.since(last.since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_reported_once_and_so_is_its_end() {
        let mut heartbeats = Heartbeats::new(1, Tick(0));
        assert!(!heartbeats.is_due(Tick(1_999)) && heartbeats.is_due(Tick(2_000)));
        assert!(!heartbeats.is_due(Tick(3_999)));
        let mut check = |beat, ms| heartbeats.check(0, beat, Tick(ms));
        assert_eq!(check(Some(7), 2_000), None);
        assert_eq!(check(Some(7), 4_000), None);
        assert_eq!(check(Some(7), 6_000), None);
        assert_eq!(check(Some(7), 8_000), Some(Change::Silent(6_000)));
        assert_eq!(check(Some(7), 10_000), None);
        assert_eq!(check(Some(9), 12_000), Some(Change::Again(10_000)));
        assert_eq!(check(Some(9), 14_000), None);
        assert_eq!(check(None, 16_000), None, "it has ended");
        assert_eq!(check(Some(9), 18_000), None, "another has started");
    }
}
