//! Waits that pass over the completions of sends.
//!
//! A small send completes in the call that submits it. A wait for one completion would end with
//! that, before the client has sent anything more. So a wait for sends after which connections have
//! nothing to do asks for one completion more than there are such sends.
use io_uring::{IoUring, types};
use std::{io, mem, time::Duration};

/// Time after which completed sends end a wait alone.
///
/// It is longer than a tick of most kernels, which is 1 or 4 ms. A shorter wait has the processor's
/// timer set twice. That costs more than the call that it saves, above all in a virtual machine.
const HOLD: Duration = Duration::from_millis(5);
/// Number of waits in a row, at most, that do not try to pass over their sends.
const SKIPS_MAX: u32 = 63;

/// Decides how many completions a wait passes over.
#[derive(Debug)]
pub(super) struct Coalescing {
    /// The kernel can return earlier with fewer completions than asked for (Linux 6.12).
    is_supported: bool,
    hold: Duration,
    /// Sends in the queue that complete in the call that submits them.
    sends: usize,
    /// Waits to skip after the last try, and those of them that are still to come. Without load
    /// each try only adds a sleep of [`HOLD`] and a wake-up.
    skips: u32,
    skips_left: u32,
}

impl Coalescing {
    pub(super) fn new(ring: &IoUring) -> Self {
        Self::supported(ring.params().is_feature_min_timeout())
    }

    const fn supported(is_supported: bool) -> Self {
        Self { is_supported, hold: HOLD, sends: 0, skips: 0, skips_left: 0 }
    }

    pub(super) const fn is_supported(&self) -> bool {
        self.is_supported
    }

    /// Counts a send that is put into the queue, if it completes in the call that submits it.
    pub(super) fn add(&mut self, at_once: bool) {
        self.sends += usize::from(at_once);
    }

    /// Takes the number of such sends in the queue: it is submitted next.
    pub(super) const fn take(&mut self) -> usize {
        mem::replace(&mut self.sends, 0)
    }

    /// Begins a wait that submits this many of these sends. Returns the number of completions that
    /// it passes over. A wait that is no longer than [`HOLD`] passes over none: the kernel would
    /// extend it.
    fn begin_wait(&mut self, sends: usize, timeout: Duration) -> usize {
        if sends == 0 || timeout <= self.hold {
            return 0;
        }
        if self.skips_left > 0 {
            self.skips_left -= 1;
            return 0;
        }
        sends
    }

    /// Ends a wait that passed over this many completions and found `completed`.
    fn end_wait(&mut self, passed: usize, completed: usize) {
        if passed == 0 {
            return;
        }
        let found_more = completed > passed;
        self.skips = if found_more { self.skips / 2 } else { (2 * self.skips + 1).min(SKIPS_MAX) };
        self.skips_left = self.skips;
    }

    /// Sets how long completed sends wait for a further completion, for tests. False: the kernel
    /// cannot do so.
    pub(super) const fn set_hold(&mut self, hold: Duration) -> bool {
        self.hold = hold;
        self.is_supported
    }

    /// Submits what is in the queue, and waits for a completion that it does not pass over.
    ///
    /// # Errors
    /// `ETIME`: the time is up. Others as io_uring_enter(2).
    pub(super) fn wait(&mut self, ring: &mut IoUring, timeout: Duration) -> io::Result<usize> {
        let sends = self.take();
        let passed = self.begin_wait(sends, timeout);
        let hold_us = if passed > 0 { u32::try_from(self.hold.as_micros()) } else { Ok(0) };
        let time = types::Timespec::from(timeout);
        let args = types::SubmitArgs::new().timespec(&time);
        let args = args.min_wait_usec(hold_us.unwrap_or(u32::MAX));
        let result = ring.submitter().submit_with_args(1 + passed, &args);
        self.end_wait(passed, ring.completion().len());
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1);

    /// Waits with a send until one passes over it; returns the number of those before.
    fn skipped(coalescing: &mut Coalescing) -> u32 {
        (0..).find(|_| coalescing.begin_wait(1, LONG) == 1).unwrap()
    }

    #[test]
    fn a_wait_passes_over_what_it_submits() {
        let mut coalescing = Coalescing::supported(true);
        coalescing.add(true);
        coalescing.add(false);
        coalescing.add(true);
        let sends = coalescing.take();
        assert_eq!(coalescing.begin_wait(sends, LONG), 2);
        assert_eq!(coalescing.take(), 0, "they are submitted once");
        assert_eq!(coalescing.begin_wait(0, LONG), 0);
        assert_eq!(coalescing.begin_wait(2, HOLD), 0, "its time-out stays");
    }

    /// Without load few waits try; under load soon all of them do.
    #[test]
    fn waits_that_find_nothing_more_become_rare() {
        let mut coalescing = Coalescing::supported(true);
        let mut rounds = |completed| {
            let skips = (0..10).map(|_| {
                let skips = skipped(&mut coalescing);
                coalescing.end_wait(1, completed);
                skips
            });
            skips.collect::<Vec<_>>()
        };
        assert_eq!(rounds(1), [0, 1, 3, 7, 15, 31, 63, 63, 63, 63]);
        assert_eq!(rounds(2), [63, 31, 15, 7, 3, 1, 0, 0, 0, 0]);
    }
}
