//! Confinement of workers, the keeper and the admin process: each confines itself after its fork,
//! before it serves.
use super::{EXIT_CANNOT_WORK, Prepared, messages};
use crate::log::{LOGS, LogDestination};
use regatta_arch::options::Settings;
use regatta_sys::{
    process::serve_as,
    sandbox::{Confine, Effect, Sandbox, confine},
};
use std::{
    fmt,
    fs::File,
    os::fd::{AsFd, BorrowedFd},
    path::{self, PathBuf},
};

/// Confinement of processes that answer strangers.
#[derive(Debug)]
pub(super) struct Confinement {
    how: Sandbox,
}

impl Confinement {
    pub(super) fn new(settings: &Settings) -> Self {
        let how = match settings.text("server.sandbox") {
            "off" => Sandbox::Off,
            "required" => Sandbox::Required,
            _ => Sandbox::BestEffort,
        };
        Self { how }
    }
}

/// Folders of these logs, and of their links' targets: workers may make files there. May wait for a
/// disk.
fn log_folders(settings: &Settings, logs: &[&str]) -> Vec<PathBuf> {
    let paths = logs.iter().filter_map(|key| match LogDestination::from(settings.text(key)) {
        LogDestination::Path(path) => path::absolute(path).ok(),
        LogDestination::Off | LogDestination::Stderr => None,
    });
    let all = paths.flat_map(|path| [path.canonicalize().ok(), Some(path)]);
    all.flatten().filter_map(|path| path.parent().map(PathBuf::from)).collect()
}

impl Prepared {
    /// Switches this process, `who`, to the user that serves, without the right to read all files.
    /// An error is the code to exit with.
    fn become_user(&self, who: fmt::Arguments<'_>) -> Result<(), i32> {
        serve_as(self.user.as_ref()).map_err(|error| {
            let name = match self.user {
                Some(_) => self.env.settings.text("server.user"),
                None => "a process without CAP_DAC_READ_SEARCH",
            };
            let what = format_args!("{who} cannot become {name}: {error}");
            self.errors.note(messages::USER_NOT_CHANGED, what);
            EXIT_CANNOT_WORK
        })
    }

    /// Switches this process, `who`, to the user that serves, and gives up all rights that it does
    /// not need. For a worker, and for the keeper. An error is the code to exit with. `tells`: logs
    /// what was given up, for all workers.
    pub(super) fn become_confined(&self, who: fmt::Arguments<'_>, tells: bool) -> Result<(), i32> {
        self.become_user(who)?;
        let beside = self.root.readable();
        // A closed root is no directory.
        let roots = self.env.root.all().filter(|root| root.is_open());
        let read = roots.chain(&beside).map(AsFd::as_fd);
        let read: Vec<BorrowedFd<'_>> = read.collect();
        let gone = self.confine(who, &read, &log_folders(&self.env.settings, &LOGS))?;
        if tells && self.confinement.how != Sandbox::Off {
            self.errors
                .note(messages::RIGHTS_GIVEN_UP, format_args!("workers have given up {gone}"));
        }
        Ok(())
    }

    /// Switches this process, which answers monitors, to the user that serves, and gives up
    /// unneeded rights. An error is the code to exit with. It still reads other processes' memory
    /// use, and logs why it ends.
    pub(super) fn confine_admin(&self) -> Result<(), i32> {
        let who = format_args!("the admin process");
        self.become_user(who)?;
        // Without a mount there is nothing to read.
        let processes = File::open("/proc").ok();
        let read: Vec<BorrowedFd<'_>> = processes.iter().map(AsFd::as_fd).collect();
        self.confine(who, &read, &log_folders(&self.env.settings, &["log.error"])).map(drop)
    }

    fn confine(
        &self,
        who: fmt::Arguments<'_>,
        read: &[BorrowedFd<'_>],
        append: &[PathBuf],
    ) -> Result<Effect, i32> {
        confine(&Confine { read, append }, self.confinement.how).map_err(|error| {
            self.errors
                .note(messages::NOT_CONFINED, format_args!("{who} is not confined: {error}"));
            EXIT_CANNOT_WORK
        })
    }
}
