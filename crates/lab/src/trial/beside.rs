//! Trials that run at the same time, each in a thread of its own. Servers that share a processor
//! see the same disturbances, to the half millisecond.

use crate::experiment::Machine;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Points at which trials that run at once wait for each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Point {
    /// Every server takes connections: the loads begin.
    Ready,
    /// Every load has ended: servers are looked at once more, and end.
    Loaded,
}

const POINTS: usize = 2;

/// The trials that run at once.
#[derive(Debug)]
pub(crate) struct Set {
    trials: u32,
    /// Number of trials that have come to each point, or will not.
    come: Mutex<[u32; POINTS]>,
    changed: Condvar,
}

impl Set {
    /// Set of `trials` trials.
    pub(crate) fn new(trials: u32) -> Self {
        Self { trials, come: Mutex::default(), changed: Condvar::new() }
    }

    fn come(&self) -> MutexGuard<'_, [u32; POINTS]> {
        self.come.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A trial of the set. The others do not wait for it once it is dropped.
#[derive(Debug)]
pub(crate) struct Beside<'s> {
    set: &'s Set,
    passed: std::cell::Cell<usize>,
}

impl<'s> Beside<'s> {
    pub(crate) fn of(set: &'s Set) -> Self {
        Self { set, passed: std::cell::Cell::new(0) }
    }

    /// Waits until all have come to a point. Points are passed in their order.
    pub(crate) fn pass(&self, point: Point) {
        let at = point as usize;
        debug_assert_eq!(self.passed.get(), at);
        self.passed.set(at + 1);
        let mut come = self.set.come();
        come[at] += 1;
        self.set.changed.notify_all();
        while come[at] < self.set.trials {
            come = self.set.changed.wait(come).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn part(&self, rate: f64) -> f64 {
        rate / f64::from(self.set.trials)
    }

    /// The share of the processor that its load holds, per cent.
    pub(crate) fn share(&self, machine: &Machine) -> Option<u32> {
        machine.load_share().map(|share| share / self.set.trials)
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        let mut come = self.set.come();
        come[self.passed.get()..].iter_mut().for_each(|come| *come += 1);
        self.set.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// No trial passes before all have come, and a failed one delays none.
    #[test]
    fn trials_wait_for_each_other_and_for_nobody_who_is_gone() {
        for failing in [None, Some(0), Some(1)] {
            let (set, ready) = (Set::new(3), AtomicU32::new(0));
            std::thread::scope(|scope| {
                for number in 0..3 {
                    let (set, ready) = (&set, &ready);
                    scope.spawn(move || {
                        let beside = Beside::of(set);
                        if number == 0 && failing == Some(0) {
                            return;
                        }
                        ready.fetch_add(1, Ordering::SeqCst);
                        beside.pass(Point::Ready);
                        let come = ready.load(Ordering::SeqCst);
                        assert_eq!(come, if failing == Some(0) { 2 } else { 3 });
                        if number == 1 && failing == Some(1) {
                            return;
                        }
                        beside.pass(Point::Loaded);
                    });
                }
            });
        }
    }
}
