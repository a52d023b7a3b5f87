//! Pace of a connection: the small work that it may cause before others have their turn.
//!
//! A window of few bytes costs its client 13 bytes. It costs the server a frame to read, a part of
//! a file to read, and a frame to send. A client with 100 streams can cause thousands of these by
//! one packet. So each costs units. When all are spent, small work waits for the next period:
//! frames that have arrived are not read, and bodies do not continue by few bytes.
use regatta_op::Tick;

/// Length of a period, milliseconds. A connection that waits costs the worker a timer and a `Send`
/// for each.
pub(super) const PERIOD_MS: u64 = 16;
/// Units of a period.
const PERIOD_UNITS: u32 = 64;
/// The most units at a time: those of a new connection. A browser that leaves a page resets 100
/// streams at once.
const UNITS_MAX: u32 = 128;
/// Units that return for a frame of DATA that is long, or ends its response.
const EARNED_UNITS: u32 = 4;
/// Fewer bytes of a body are small work, unless they end it.
pub(super) const SHORT_BYTES: u64 = 4 << 10;

/// Small work, by its cost in time: a unit is some 0.2 µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum SmallWork {
    /// To read a frame that is a glitch, or permits few bytes.
    Frame = 1,
    /// To send a frame whose length a window decides.
    Data = 2,
    /// To read a part of a file whose length a window decides, or to open the file again.
    Part = 4,
}

/// Units that a connection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    units: u32,
    /// End of the period.
    until: Tick,
}

impl Default for Pace {
    fn default() -> Self {
        Self { units: UNITS_MAX, until: Tick(0) }
    }
}

impl Pace {
    /// Spends units for this work, that many times.
    pub(super) fn spend(&mut self, work: SmallWork, times: u64, now: Tick) {
        if self.until <= now {
            (self.until, self.units) = (now.after(PERIOD_MS), self.units.max(PERIOD_UNITS));
        }
        let times = u32::try_from(times).unwrap_or(UNITS_MAX).min(UNITS_MAX);
        self.units = self.units.saturating_sub(times * work as u32);
    }

    /// Returns units for a frame of DATA that is long, or ends its response.
    pub(super) fn earn(&mut self) {
        self.units = (self.units + EARNED_UNITS).min(UNITS_MAX);
    }

    /// The time until which small work waits; `None` if it may be done now.
    pub(super) fn waits_until(&self, now: Tick) -> Option<Tick> {
        (self.units == 0 && now < self.until).then_some(self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames that are read until small work waits.
    fn spend_all(pace: &mut Pace, now: Tick) -> u32 {
        let mut frames = 0;
        while pace.waits_until(now).is_none() {
            pace.spend(SmallWork::Frame, 1, now);
            frames += 1;
        }
        frames
    }

    #[test]
    fn a_period_has_its_units() {
        let (mut pace, now) = (Pace::default(), Tick(1_000));
        assert_eq!(spend_all(&mut pace, now), UNITS_MAX);
        assert_eq!(pace.waits_until(now), Some(now.after(PERIOD_MS)));
        pace.spend(SmallWork::Part, 1, now.after(PERIOD_MS - 1));
        let next = now.after(PERIOD_MS);
        assert_eq!((pace.waits_until(next), spend_all(&mut pace, next)), (None, PERIOD_UNITS));
        // A period begins with its first work, and units are not saved up.
        assert_eq!(spend_all(&mut pace, Tick(90_000)), PERIOD_UNITS);
        assert_eq!(pace.waits_until(Tick(90_001)), Some(Tick(90_000 + PERIOD_MS)));
    }

    #[test]
    fn work_costs_its_units_and_long_frames_return_some() {
        let now = Tick(1_000);
        for (work, times, frames) in [
            (SmallWork::Frame, 100, UNITS_MAX - 100),
            (SmallWork::Data, 10, UNITS_MAX - 20),
            (SmallWork::Part, 10, UNITS_MAX - 40),
            (SmallWork::Part, u64::MAX, 0),
        ] {
            let mut pace = Pace::default();
            pace.spend(work, times, now);
            assert_eq!(spend_all(&mut pace, now), frames, "{work:?}");
            pace.earn();
            assert_eq!(spend_all(&mut pace, now), EARNED_UNITS);
            (0..1_000).for_each(|_| pace.earn());
            assert_eq!(spend_all(&mut pace, now), UNITS_MAX);
        }
    }
}
