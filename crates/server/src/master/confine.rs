//! What a worker gives up before it serves.
use super::{EXIT_CANNOT_WORK, Level, Prepared};
use crate::log::Destination;
use regatta_arch::options::Settings;
use regatta_sys::sandbox::{Confine, Sandbox, confine};
use std::{
    fmt,
    os::fd::{AsFd, BorrowedFd},
    path::{self, PathBuf},
};

/// The options that name logs; each has a bit.
pub(super) const LOGS: [&str; 2] = ["log.access", "log.error"];

/// How workers confine themselves.
#[derive(Debug)]
pub(super) struct Confinement {
    how: Sandbox,
    /// Folders in which they may make log files.
    log_folders: Vec<PathBuf>,
}

impl Confinement {
    pub(super) fn new(settings: &Settings) -> Self {
        let how = match settings.text("server.sandbox") {
            "off" => Sandbox::Off,
            "required" => Sandbox::Required,
            _ => Sandbox::BestEffort,
        };
        Self { how, log_folders: log_folders(settings) }
    }
}

/// The folders of the logs, and of what they are links to.
fn log_folders(settings: &Settings) -> Vec<PathBuf> {
    let paths = LOGS.iter().filter_map(|key| match Destination::from(settings.text(key)) {
        Destination::Path(path) => path::absolute(path).ok(),
        Destination::Off | Destination::Stderr => None,
    });
    let all = paths.flat_map(|path| [path.canonicalize().ok(), Some(path)]);
    all.flatten().filter_map(|path| path.parent().map(PathBuf::from)).collect()
}

impl Prepared {
    /// Makes `who`, which is this process, the user that serves, and gives up all that it does not
    /// need; or the code to exit with. `tells`: what it has given up, as others like it do.
    pub(super) fn become_confined(&self, who: fmt::Arguments<'_>, tells: bool) -> Result<(), i32> {
        self.become_user(who)?;
        let beside = self.root.readable();
        let read = self.env.root.all().chain(&beside).map(AsFd::as_fd);
        let read: Vec<BorrowedFd<'_>> = read.collect();
        let confined = confine(
            &Confine { read: &read, append: &self.confinement.log_folders },
            self.confinement.how,
        );
        match confined {
            Ok(gone) if tells && self.confinement.how != Sandbox::Off => {
                self.errors.note(Level::Notice, format_args!("workers have given up {gone}"));
            }
            Ok(_) => {}
            Err(error) => {
                self.errors.note(Level::Error, format_args!("{who} is not confined: {error}"));
                return Err(EXIT_CANNOT_WORK);
            }
        }
        Ok(())
    }
}
