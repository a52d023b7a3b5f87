//! The keeper: a process between the master and workers that share one table of descriptors.
//!
//! A process can put anything under any number of a table that it shares. So the process that
//! clones the workers, and kills them by descriptor, has no rights that they lack. The keeper is
//! the user that serves. The master, which may be root, has its own table and supervises the
//! keeper, its only child, as a worker.
use super::{
    Child, EXIT_CANNOT_WORK, Ending, Master, Prepared, clock, fork_worker, io, messages, process,
};
use regatta_arch::shared::SharedState;
use regatta_metrics::Phase;
use regatta_op::Tick;
use regatta_sys::crew::Crew;
use std::{
    hash::{BuildHasher, RandomState},
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
};

/// The first wait for another sweep, milliseconds.
const SWEEP_MS_FIRST: u64 = 20;
/// The longest wait for one, milliseconds: all workers pause for each sweep.
const SWEEP_MS_MAX: u64 = 1000;

impl Prepared {
    /// True in the keeper.
    pub(super) const fn is_keeper(&self) -> bool {
        self.env.shared.is_some()
    }

    /// True in a master whose only child is a keeper.
    pub(super) const fn has_keeper(&self) -> bool {
        self.keeper.is_some() && !self.is_keeper()
    }

    /// Name of a child of this process.
    pub(super) fn name(&self, child: usize) -> String {
        if self.has_keeper() { "the keeper".to_owned() } else { format!("worker {child}") }
    }

    /// Forks the keeper, with all that workers need.
    pub(super) fn start_keeper(&mut self) -> io::Result<Child> {
        let logs: Vec<_> = self.logs().collect();
        let bells = self.env.bells.iter().chain(&self.keeper);
        let keep = self.env.sockets.iter().map(AsFd::as_fd);
        let keep = keep.chain(bells.map(AsFd::as_fd)).chain(logs.iter().map(AsFd::as_fd));
        let channels = self.env.root_channels.iter().map(AsFd::as_fd);
        let keep = keep.chain(channels).chain(self.env.root.all().map(AsFd::as_fd));
        let keep: Vec<RawFd> = keep.map(|fd: BorrowedFd<'_>| fd.as_raw_fd()).collect();
        fork_worker(&keep, || self.keep_workers().unwrap_or_else(|code| code))
    }

    /// Runs the keeper; the code to exit with.
    fn keep_workers(&mut self) -> Result<i32, i32> {
        self.make_access_log(0);
        self.become_confined(format_args!("the keeper"), true)?;
        // The crew's table begins with what is open.
        self.errors.tick();
        self.root.leave_to_master();
        let Self { env, errors, workers, .. } = &mut *self;
        let seed = RandomState::new().hash_one(process::id());
        let failed = |what: &str, error: io::Error| {
            errors.note(messages::KEEPER_NOT_STARTED, format_args!("the keeper {what}: {error}"));
            EXIT_CANNOT_WORK
        };
        let shared = SharedState::new(&env.settings, &env.site.caching, *workers, seed);
        env.shared = Some(shared.map_err(|error| failed("cannot share a cache", error))?);
        match Master::new(None, self).and_then(|mut keeper| keeper.run()) {
            Ok(Ending::Told) => Ok(0),
            Ok(Ending::CannotWork) => Err(EXIT_CANNOT_WORK),
            Err(error) => {
                self.errors.note(
                    messages::KEEPER_FAILED,
                    format_args!("the keeper cannot go on: {error}"),
                );
                Err(EXIT_CANNOT_WORK)
            }
        }
    }
}

impl Master<'_> {
    /// Follows the master's orders as far as the keeper must: workers read them directly.
    pub(super) fn follow_master(&mut self) {
        if let Some(bell) = &self.prepared.keeper {
            bell.clear();
        }
        let Prepared { env, root, .. } = &mut *self.prepared;
        root.renew(env);
        let control = *env.arena.control();
        match control.phase() {
            Phase::Run => {}
            Phase::Drain => self.staff.drain(Tick(control.drain_deadline_ms())),
            Phase::Stop => _ = self.staff.stop(clock::now().tick),
        }
        self.keep_log(Crew::give_up);
        self.prepared.errors.tick();
        self.keep_log(Crew::keep);
    }

    /// Reports the error log to the crew.
    fn keep_log(&self, tell: fn(&Crew, BorrowedFd<'_>)) {
        let Prepared { env, errors, .. } = &*self.prepared;
        if let (Some(shared), Some(log)) = (&env.shared, errors.opened()) {
            tell(&shared.crew, log.as_fd());
        }
    }
}

/// The next sweep, after a worker kept the keeper from closing descriptors that another left open.
/// Waits double, for a worker that hangs while it takes descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resweep {
    /// Tick at which the sweep is due.
    pub(super) at: Tick,
    wait_ms: u64,
}

impl Resweep {
    /// The first after one that could not be done now.
    pub(super) const fn first(now: Tick) -> Self {
        Self { at: now.after(SWEEP_MS_FIRST), wait_ms: SWEEP_MS_FIRST }
    }

    /// The next, after this one could not be done either.
    pub(super) fn later(self, now: Tick) -> Self {
        let wait_ms = (2 * self.wait_ms).min(SWEEP_MS_MAX);
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
            assert!(again.at > now && again.at.since(now) <= SWEEP_MS_MAX);
            now = again.at;
            again = again.later(now);
            sweeps += 1;
        }
        assert!(sweeps < 70, "{sweeps} sweeps in a minute");
    }
}
