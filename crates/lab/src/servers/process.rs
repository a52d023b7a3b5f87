//! Programs that never outlive the trial that started them.

use crate::env::spec::REALTIME;
use crate::env::{self, Environment, Place};
use crate::group::Group;
use crate::units::At;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn tasks(pid: u32) -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
}

/// Most tasks of a server that are read one by one. More would take longer than the measurement, on
/// processors that the server and its load need.
pub(crate) const TASKS_MAX: usize = 512;

/// The tasks of some processes, with their folders; none where they are more than [`TASKS_MAX`].
pub(crate) fn few_tasks(pids: &[u32]) -> Vec<(u32, PathBuf)> {
    few(pids.iter().flat_map(|pid| tasks(*pid)), TASKS_MAX)
}

/// All of these, or nothing if they are more than `most`.
fn few<T>(all: impl Iterator<Item = T>, most: usize) -> Vec<T> {
    let all: Vec<T> = all.take(most + 1).collect();
    if all.len() > most { Vec::new() } else { all }
}

/// No such task (errno(3), ESRCH).
pub(crate) const GONE: i32 = 3;

pub(crate) fn threads(pids: &[u32]) -> BTreeSet<i32> {
    let all = pids.iter().flat_map(|pid| tasks(*pid));
    all.filter_map(|(number, _)| number.try_into().ok()).collect()
}

/// Time that a program has to exit before it is killed.
const LEAVE_MAX: Duration = Duration::from_millis(2_000);

/// Precedence of a program over other work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    Usual,
    /// All ordinary work (nice -20): for servers, whose tasks have to share a processor as they do
    /// anywhere. With a real-time priority a loop that never waits would starve its own helpers.
    Ordinary,
    /// Everything (`chrt -f`): for loads, whose lateness would be taken for the server's.
    Everything,
}

impl Priority {
    /// This priority if `asked`, else the usual one.
    pub(crate) fn if_asked(self, asked: bool) -> Self {
        if asked { self } else { Self::Usual }
    }
}

#[derive(Debug)]
pub(crate) struct Launch<'a> {
    /// The program and its words.
    pub(crate) words: Vec<OsString>,
    /// The processors that it and its children run on; empty: any.
    pub(crate) cpus: &'a [usize],
    pub(crate) priority: Priority,
    /// The environment it runs in, if not the machine's own, and on which side. That places it and
    /// prefers it.
    pub(crate) inside: Option<(&'a Environment, Place)>,
    /// Whether it runs without privileges if we are root.
    pub(crate) as_nobody: bool,
    pub(crate) out: &'a Path,
    pub(crate) errors: &'a Path,
}

impl<'a> Launch<'a> {
    /// Anywhere on the machine, with the usual priority, as the current user.
    pub(crate) fn plain(words: Vec<OsString>, out: &'a Path, errors: &'a Path) -> Self {
        let priority = Priority::Usual;
        Self { words, cpus: &[], priority, inside: None, as_nobody: false, out, errors }
    }
}

/// Runs a program to its end: its exit code, and what it said on standard error, which `errors`
/// keeps.
pub(crate) fn run_to_end(
    words: Vec<OsString>,
    errors: &Path,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<(Option<i32>, String), String> {
    let launch = Launch::plain(words, Path::new("/dev/null"), errors);
    let code = Running::start(&launch)?.wait(limit, stop)?;
    Ok((code, fs::read_to_string(errors).unwrap_or_default().trim().to_owned()))
}

/// A program in a process group of its own, ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Running(Group);

impl Running {
    /// Starts a program. If we die without dropping this, the kernel ends it: `setpriv` arranges
    /// that, since it takes a call between fork and exec.
    pub(crate) fn start(launch: &Launch<'_>) -> Result<Self, String> {
        let is_root = rustix::process::geteuid().is_root();
        let setpriv = Path::new("setpriv");
        let (mut command, leads) = match (launch.inside, launch.priority) {
            (Some((environment, place)), _) => (environment.command(place, setpriv), true),
            (None, Priority::Ordinary) if is_root => (env::preferred(setpriv), true),
            (None, Priority::Everything) if is_root => (env::first(REALTIME, "setpriv"), false),
            _ => (Command::new(setpriv), false),
        };
        command.args(["--pdeathsig", "TERM"]);
        if launch.as_nobody && is_root {
            command.args(["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]);
        }
        let file = |path: &Path| fs::File::create(path).at(path);
        command.args(&launch.words).stdin(Stdio::null());
        command.stdout(file(launch.out)?).stderr(file(launch.errors)?);
        let start = if leads { Group::start_leader } else { Group::start };
        start(&mut command, launch.cpus, LEAVE_MAX).map(Self)
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.0.pids()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.has_ended()
    }

    /// Waits for its end and gives its exit code. Fails with `interrupted` if `stop` became true,
    /// or after `limit`.
    pub(crate) fn wait(
        mut self,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<Option<i32>, String> {
        let status = self.0.wait(limit, || stop.load(Ordering::Relaxed))?;
        Ok(status.code())
    }
}

/// Sleeps until `until`, or until `stop` becomes true: whether the time was reached.
pub(crate) fn sleep_until(until: Instant, stop: &AtomicBool) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// Runs a short command to its end and gives what it printed; None if it failed.
pub(crate) fn output_of(words: &[&str]) -> Option<String> {
    let (program, rest) = words.split_first()?;
    let output = Command::new(program).args(rest).stdin(Stdio::null()).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    output.status.success().then(|| String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{INTERRUPTED, STEP};

    #[test]
    fn too_many_tasks_are_none() {
        assert_eq!(few(0..3, 3), [0, 1, 2]);
        assert!(few(0.., 3).is_empty(), "and no more are looked for");
        let me = std::process::id();
        assert!(few_tasks(&[me]).iter().any(|(number, place)| *number == me && place.is_dir()));
    }

    #[test]
    fn a_dropped_program_takes_its_children_along() {
        let null = Path::new("/dev/null");
        let words = ["sh", "-c", "trap '' TERM; sleep 60 & sleep 60"].map(OsString::from).into();
        let mut launch = Launch::plain(words, null, null);
        let running = Running::start(&launch).unwrap();
        let start = Instant::now();
        let patience = Duration::from_secs(20);
        while running.pids().len() < 3 && start.elapsed() < patience {
            std::thread::sleep(STEP);
        }
        let pids = running.pids();
        assert_eq!(pids.len(), 3);
        drop(running);
        let gone = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |s| s.contains(") Z "))
        };
        while !pids.iter().all(gone) && start.elapsed() < patience {
            std::thread::sleep(STEP);
        }
        assert!(pids.iter().all(gone), "{pids:?}");
        let stop = AtomicBool::new(false);
        launch.words = ["sh", "-c", "exit 3"].map(OsString::from).into();
        assert_eq!(Running::start(&launch).unwrap().wait(patience, &stop), Ok(Some(3)));
        stop.store(true, Ordering::Relaxed);
        launch.words = ["sleep", "60"].map(OsString::from).into();
        let ended = Running::start(&launch).unwrap().wait(patience, &stop);
        assert_eq!(ended, Err(INTERRUPTED.to_owned()));
    }
}
