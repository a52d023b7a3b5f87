//! The keeper: the process between the master and workers that share one table of descriptors.
//!
//! Who shares a table can put anything under any of its numbers. So whoever clones the workers, and
//! kills them by descriptor, has no rights that they lack: the keeper is the user that serves. The
//! master, which may be root, has a table of its own and one child, and supervises it as a worker.
use super::{
    Child, EXIT_CANNOT_WORK, Ending, Level, Master, Prepared, clock, fork_worker, io, process,
};
use regatta_arch::shared::SharedState;
use regatta_metrics::Phase;
use regatta_op::Tick;
use regatta_sys::crew::Crew;
use std::{
    hash::{BuildHasher, RandomState},
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
};

impl Prepared {
    /// True in the keeper.
    pub(super) const fn is_keeper(&self) -> bool {
        self.env.shared.is_some()
    }

    /// True in a master whose only child is a keeper.
    pub(super) const fn has_keeper(&self) -> bool {
        self.keeper.is_some() && !self.is_keeper()
    }

    /// What a child of this process is called.
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

    /// The life of the keeper; the code to exit with.
    fn keep_workers(&mut self) -> Result<i32, i32> {
        self.make_access_log(0);
        self.become_confined(format_args!("the keeper"), true)?;
        // The books begin with what is open.
        self.errors.tick();
        self.root.leave_to_master();
        let Self { env, errors, workers, .. } = &mut *self;
        let seed = RandomState::new().hash_one(process::id());
        let failed = |what: &str, error: io::Error| {
            errors.note(Level::Error, format_args!("the keeper {what}: {error}"));
            EXIT_CANNOT_WORK
        };
        let shared = SharedState::new(&env.settings, &env.site.caching, *workers, seed);
        env.shared = Some(shared.map_err(|error| failed("cannot share a cache", error))?);
        match Master::new(None, self).and_then(|mut keeper| keeper.run()) {
            Ok(Ending::Told) => Ok(0),
            Ok(Ending::CannotWork) => Err(EXIT_CANNOT_WORK),
            Err(error) => {
                self.errors.note(Level::Error, format_args!("the keeper cannot go on: {error}"));
                Err(EXIT_CANNOT_WORK)
            }
        }
    }
}

impl Master<'_> {
    /// The keeper's part of what the master has told everybody: workers see it for themselves.
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

    /// Tells the crew of the error log.
    fn keep_log(&self, tell: fn(&Crew, BorrowedFd<'_>)) {
        let Prepared { env, errors, .. } = &*self.prepared;
        if let (Some(shared), Some(log)) = (&env.shared, errors.opened()) {
            tell(&shared.crew, log.as_fd());
        }
    }
}
