//! Into an environment: a process joins groups and namespaces, takes its place, and becomes the
//! program that was asked for.

use crate::units::At;
use rustix::process::{setpriority_process, setsid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first of the ordinary priorities.
pub(super) const FIRST: i32 = -20;

/// What a process joins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) groups: Vec<PathBuf>,
    /// The process whose network it shares.
    pub(super) network_of: Option<u32>,
    /// The process whose mounts it sees.
    pub(super) mounts_of: Option<u32>,
    /// Where it may run; empty: anywhere.
    pub(super) cpus: Vec<usize>,
    pub(super) nice: i32,
    /// Its real-time priority; 0: none.
    pub(super) realtime: u32,
}

/// `enter ENTRY PROGRAM WORDS...`: joins, and becomes the program. Returns only where that fails.
pub(super) fn run(words: &[String]) -> Result<(), String> {
    let [entry, program, words @ ..] = words else {
        return Err("enter: what, and with which program?".to_owned());
    };
    let entry: Entry = serde_json::from_str(entry).map_err(|error| format!("enter: {error}"))?;
    let folder = std::env::current_dir().ok();
    // Whoever holds it ends it by its group. Fails only if it leads one already.
    let _ = setsid();
    entry.join()?;
    if let Some(folder) = folder {
        // Mounts of another namespace may not have it; then the program starts at the root.
        let _ = std::env::set_current_dir(folder);
    }
    let error = first(entry.realtime, program).args(words).exec();
    Err(format!("{program}: {error}"))
}

/// A command that runs a program before all ordinary work on the machine.
///
/// It leads a session of its own. Takes root.
pub(crate) fn preferred(program: &Path) -> Command {
    Entry { nice: FIRST, ..Entry::default() }.command(program)
}

/// A command that runs a program with a real-time priority, which it keeps for its children.
pub(crate) fn first(realtime: u32, program: &str) -> Command {
    if realtime == 0 {
        return Command::new(program);
    }
    let mut command = Command::new("chrt");
    command.args(["--fifo", &realtime.to_string(), program]);
    command
}

impl Entry {
    /// A command that runs a program in that place.
    pub(super) fn command(&self, program: &Path) -> Command {
        let entry = serde_json::to_string(self).expect("numbers and paths that JSON can hold");
        // The very program that runs now, even if its file has been replaced since.
        let mut command = Command::new("/proc/self/exe");
        command.args([super::CHILD_WORD, "enter", &entry]).arg(program);
        command
    }

    /// Joins everything, the groups first: from then on whoever undoes them ends this process.
    fn join(&self) -> Result<(), String> {
        for group in &self.groups {
            let file = group.join("cgroup.procs");
            std::fs::write(&file, "0").at(&file)?;
        }
        crate::group::run_on(&self.cpus)?;
        if self.nice != 0 {
            prefer(self.nice).map_err(|error| format!("priority {}: {error}", self.nice))?;
        }
        // Both are opened first: another namespace's /proc would still be ours, but need not be.
        let network = self.network_of.map(|pid| namespace(pid, "net")).transpose()?;
        let mounts = self.mounts_of.map(|pid| namespace(pid, "mnt")).transpose()?;
        for (file, kind) in
            [(network, LinkNameSpaceType::Network), (mounts, LinkNameSpaceType::Mount)]
        {
            if let Some(file) = file {
                move_into_link_name_space(file.as_fd(), Some(kind))
                    .map_err(|error| format!("{kind:?}: {error}"))?;
            }
        }
        Ok(())
    }
}

/// Gives this process, and those it starts from now on, a priority, and a session of their own.
///
/// Where the kernel groups tasks by session (sched_autogroup, sched(7)), a priority counts only
/// among those of the session, and the session's own among sessions.
pub(super) fn prefer(nice: i32) -> io::Result<()> {
    // Fails only if this process leads its session already.
    let _ = setsid();
    match std::fs::write("/proc/self/autogroup", nice.to_string()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    Ok(setpriority_process(None, nice)?)
}

fn namespace(pid: u32, kind: &str) -> Result<File, String> {
    let path = format!("/proc/{pid}/ns/{kind}");
    File::open(&path).map_err(|error| format!("{path}: {error}"))
}
