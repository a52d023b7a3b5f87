//! Which worker says nothing: stopped, or held up by what should not take so long.
use regatta_op::Tick;

/// Between two looks at the workers, milliseconds.
const LOOK_MS: u64 = 2_000;

/// Looks without a new heartbeat after which a worker is silent. Its loop beats every second.
const LOOKS_MIN: u32 = 3;

/// What is to be said of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It has said nothing for so many milliseconds.
    Silent(u64),
    /// It goes on, after so many milliseconds.
    Again(u64),
}

/// One worker as it was heard.
#[derive(Clone, Copy, Debug, Default)]
struct Ear {
    heartbeat_ms: u64,
    /// When that was new.
    since: Tick,
    looks: u32,
}

/// All workers as they were heard.
#[derive(Debug)]
pub(crate) struct Silence {
    ears: Vec<Ear>,
    next: Tick,
}

impl Silence {
    /// Nobody has been heard yet.
    pub(crate) fn new(workers: usize, now: Tick) -> Self {
        Self { ears: vec![Ear::default(); workers], next: now.after(LOOK_MS) }
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
    pub(crate) fn hear(
        &mut self,
        worker: usize,
        heartbeat_ms: Option<u64>,
        now: Tick,
    ) -> Option<Heard> {
        let ear = &mut self.ears[worker];
        let Some(heartbeat_ms) = heartbeat_ms else {
            *ear = Ear { since: now, ..Ear::default() };
            return None;
        };
        if ear.heartbeat_ms != heartbeat_ms {
            let again = (ear.looks >= LOOKS_MIN).then(|| Heard::Again(now.since(ear.since)));
            *ear = Ear { heartbeat_ms, since: now, looks: 0 };
            return again;
        }
        ear.looks = ear.looks.saturating_add(1);
        (ear.looks == LOOKS_MIN).then(|| Heard::Silent(now.since(ear.since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_said_once_and_so_is_its_end() {
        let mut silence = Silence::new(1, Tick(0));
        assert!(!silence.is_due(Tick(1_999)) && silence.is_due(Tick(2_000)));
        assert!(!silence.is_due(Tick(3_999)));
        let mut hear = |beat, ms| silence.hear(0, beat, Tick(ms));
        assert_eq!(hear(Some(7), 2_000), None);
        assert_eq!(hear(Some(7), 4_000), None);
        assert_eq!(hear(Some(7), 6_000), None);
        assert_eq!(hear(Some(7), 8_000), Some(Heard::Silent(6_000)));
        assert_eq!(hear(Some(7), 10_000), None);
        assert_eq!(hear(Some(9), 12_000), Some(Heard::Again(10_000)));
        assert_eq!(hear(Some(9), 14_000), None);
        assert_eq!(hear(None, 16_000), None, "it has ended");
        assert_eq!(hear(Some(9), 18_000), None, "another has started");
    }
}
