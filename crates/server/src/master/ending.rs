//! End of the workers of earlier generations.
use super::{clock, generations::Generations};
use crate::supervise::AGAIN_MS_MIN;
use regatta_sys::socket;
use std::os::fd::AsFd;

impl Generations {
    /// Tells the old workers that still serve to leave. Others accept from the listeners.
    pub(super) fn leave_old(&mut self, drain_ms_max: u64) {
        for ((_, socket), _) in &self.inherited {
            // If others share its port, new connections go to the first, which is this image's.
            // Leaving workers accept the pending ones.
            let _ = socket::steer_by_cpu(socket.as_fd(), &[]);
        }
        let until = clock::now().tick.after(drain_ms_max);
        self.old.iter_mut().for_each(|old| old.leave(until));
    }

    /// Tells the old workers that still serve to drain: no generation follows.
    pub(super) fn drain_old(&mut self, drain_ms_max: u64) {
        let until = clock::now().tick.after(drain_ms_max);
        self.old.iter_mut().for_each(|old| old.drain(until));
    }

    /// Handles a request to end. A second one, or `at_once`, stops old workers now and returns
    /// true. As in [`crate::supervise`], a second signal that follows at once repeats the first.
    pub(super) fn end_old(&mut self, at_once: bool) -> bool {
        let now = clock::now().tick;
        let told_at = *self.told_at.get_or_insert(now);
        let leaves = at_once || now >= told_at.after(AGAIN_MS_MIN);
        if leaves {
            self.stop_old();
        }
        leaves
    }

    /// Tells all old workers to leave now.
    pub(super) fn stop_old(&mut self) {
        let now = clock::now().tick;
        self.old.iter_mut().for_each(|old| old.stop(now));
    }
}
