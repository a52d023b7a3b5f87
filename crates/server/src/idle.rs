//! Control of the number of idle workers: when the master starts some, and when it retires one.
//! Apache's prefork has this rule, in `perform_idle_server_maintenance`.
use std::mem;

/// Time between two passes, milliseconds.
pub const PASS_MS: u64 = 1_000;
/// Limit of workers that one pass starts.
pub const RATE_MAX: usize = 32;

/// Result of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleChange {
    /// Start this many workers.
    Start(usize),
    /// Retire one idle worker.
    Retire,
    /// Too few are idle, and no more may start. Returned once.
    Full,
}

/// Control of the workers that accept from one listener, each one connection at a time.
#[derive(Clone, Debug)]
pub struct IdleControl {
    /// Least and most that are to be idle.
    idle: [usize; 2],
    /// Number that the next pass starts, if too few are idle.
    rate: usize,
    /// A worker has died since the last pass.
    has_died: bool,
    /// The last pass was skipped because of a death.
    has_skipped: bool,
    /// [`Change::Full`] has been returned.
    has_told: bool,
}

impl IdleControl {
    /// Keeps between `idle_min` and `idle_max` workers idle.
    #[must_use]
    pub const fn new(idle_min: usize, idle_max: usize) -> Self {
        let idle = [idle_min, idle_max];
        Self { idle, rate: 1, has_died: false, has_skipped: false, has_told: false }
    }

    /// Notes a death: the next pass is skipped. If the worker reported that it cannot work, others
    /// start slowly.
    pub const fn died(&mut self, cannot_work: bool) {
        self.has_died = true;
        if cannot_work {
            self.rate = 1;
        }
    }

    /// Decides for `idle` workers, including starting ones, where `free` more could start. Never
    /// skips two passes in a row. Apache waits for a second without a death, but collects all dead
    /// ones before it begins to wait.
    pub fn pass(&mut self, idle: usize, free: usize) -> Option<IdleChange> {
        self.has_skipped = mem::take(&mut self.has_died) && !self.has_skipped;
        if self.has_skipped {
            return None;
        }
        let [idle_min, idle_max] = self.idle;
        if idle >= idle_min {
            self.rate = 1;
            return (idle > idle_max).then_some(IdleChange::Retire);
        }
        let number = self.rate.min(free);
        if number == 0 {
            self.rate = 1;
            return (!mem::replace(&mut self.has_told, true)).then_some(IdleChange::Full);
        }
        self.rate = RATE_MAX.min(2 * self.rate);
        Some(IdleChange::Start(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use IdleChange::{Full, Retire, Start};

    /// Passes over workers, 5 to 10 of them to be idle: the idle ones, those that could start, and
    /// the result.
    fn check(control: &mut IdleControl, passes: &[(usize, usize, Option<IdleChange>)]) {
        for (at, (idle, free, change)) in passes.iter().enumerate() {
            assert_eq!(control.pass(*idle, *free), *change, "pass {at} of {passes:?}");
        }
    }

    fn apache() -> IdleControl {
        IdleControl::new(5, 10)
    }

    #[test]
    fn twice_as_many_are_started_each_time_up_to_a_bound() {
        let more = |number| (0, 250, Some(Start(number)));
        check(&mut apache(), &[1, 2, 4, 8, 16, 32, 32, 32].map(more));
        // No more than there is room for; and that counts as a full step.
        check(
            &mut apache(),
            &[(4, 9, Some(Start(1))), (4, 1, Some(Start(1))), (4, 9, Some(Start(4)))],
        );
    }

    #[test]
    fn the_rate_falls_to_one_when_enough_or_too_many_are_idle() {
        let growing = [(0, 99, Some(Start(1))), (4, 99, Some(Start(2))), (4, 99, Some(Start(4)))];
        for enough in [(5, 99, None), (10, 99, None), (11, 99, Some(Retire))] {
            let mut control = apache();
            check(&mut control, &growing);
            check(&mut control, &[enough]);
            check(&mut control, &growing);
        }
    }

    #[test]
    fn one_retires_at_a_time() {
        let mut control = apache();
        for idle in (11..=40).rev() {
            check(&mut control, &[(idle, 0, Some(Retire))]);
        }
        check(&mut control, &[(10, 30, None)]);
    }

    #[test]
    fn that_there_is_no_room_is_said_once_and_slows_what_follows() {
        let mut control = apache();
        check(&mut control, &[(0, 99, Some(Start(1))), (0, 99, Some(Start(2)))]);
        check(&mut control, &[(0, 0, Some(Full)), (0, 0, None), (4, 0, None)]);
        check(&mut control, &[(4, 9, Some(Start(1))), (4, 9, Some(Start(2)))]);
    }

    #[test]
    fn the_pass_after_a_death_is_skipped() {
        let mut control = apache();
        check(&mut control, &[(0, 99, Some(Start(1)))]);
        control.died(false);
        // Nothing else changes: the rate stays.
        check(&mut control, &[(0, 99, None), (0, 99, Some(Start(2)))]);
        control.died(false);
        control.died(false);
        check(&mut control, &[(20, 99, None), (20, 99, Some(Retire))]);
    }

    #[test]
    fn deaths_in_every_second_do_not_stop_it() {
        let mut control = apache();
        for started in [1, 2, 4, 8] {
            control.died(false);
            check(&mut control, &[(0, 99, None)]);
            control.died(false);
            check(&mut control, &[(0, 99, Some(Start(started)))]);
        }
    }

    #[test]
    fn who_cannot_work_slows_what_follows() {
        let mut control = apache();
        check(&mut control, &[(0, 99, Some(Start(1))), (0, 99, Some(Start(2)))]);
        control.died(true);
        check(&mut control, &[(0, 99, None), (0, 99, Some(Start(1)))]);
    }
}
