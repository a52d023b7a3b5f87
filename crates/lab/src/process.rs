//! Programs that never outlive the trial that started them.

use crate::env::{Environment, Place};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::iter;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a wait looks again.
pub(crate) const STEP: Duration = Duration::from_millis(5);
/// The real-time priority of servers and loads that run before everything else.
pub(crate) const REALTIME: u32 = 10;
/// How long a program has to leave before it is killed.
const LEAVE_MAX: Duration = Duration::from_millis(2_000);

/// How a program is started.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    /// The program and its words.
    pub(crate) words: Vec<OsString>,
    /// The processors that it and its children run on; empty: any.
    pub(crate) cpus: &'a [usize],
    /// Whether it runs before everything else (`chrt -f`).
    pub(crate) realtime: bool,
    /// The environment it runs in, if not the machine's own. That places it and prefers it.
    pub(crate) inside: Option<&'a Environment>,
    /// Whether it runs as `nobody` if we are root.
    pub(crate) as_nobody: bool,
    /// Where standard output goes.
    pub(crate) out: &'a Path,
    /// Where standard error goes.
    pub(crate) errors: &'a Path,
}

/// A program in a process group of its own, ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
}

impl Running {
    /// Starts a program. If we die without dropping this, the kernel ends it: `setpriv` arranges
    /// that, since it takes a call between fork and exec.
    ///
    /// # Errors
    /// What could not be done, in one sentence.
    pub(crate) fn start(launch: &Launch<'_>) -> Result<Self, String> {
        let mut words: Vec<OsString> = ["setpriv", "--pdeathsig", "TERM"].map(Into::into).into();
        if launch.as_nobody && rustix::process::geteuid().is_root() {
            let user = ["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"];
            words.extend(user.map(OsString::from));
        }
        if let Some(environment) = launch.inside {
            let command = environment.command(Place::Server, Path::new(&words.remove(0)));
            let entering = iter::once(command.get_program()).chain(command.get_args());
            words.splice(0..0, entering.map(OsString::from).collect::<Vec<_>>());
        } else if launch.realtime && rustix::process::geteuid().is_root() {
            let priority = REALTIME.to_string();
            words.splice(0..0, ["chrt", "-f", &priority].map(OsString::from));
        }
        words.extend(launch.words.iter().cloned());
        let name = launch.words.first().cloned().unwrap_or_default();
        let file = |path: &Path| {
            fs::File::create(path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).process_group(0);
        command.stdout(file(launch.out)?).stderr(file(launch.errors)?);
        let before = sched_getaffinity(None).map_err(|error| format!("affinity: {error}"))?;
        if !launch.cpus.is_empty() {
            let mut set = CpuSet::new();
            launch.cpus.iter().for_each(|cpu| set.set(*cpu));
            sched_setaffinity(None, &set)
                .map_err(|error| format!("processors {:?}: {error}", launch.cpus))?;
        }
        let child = command.spawn().map_err(|error| format!("{}: {error}", name.display()));
        sched_setaffinity(None, &before).map_err(|error| format!("affinity: {error}"))?;
        Ok(Self { child: child? })
    }

    /// The process and all that descend from it.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if let Some(parent) = parent_of(pid) {
                children.entry(parent).or_default().push(pid);
            }
        }
        let mut found = vec![self.child.id()];
        let mut at = 0;
        while let Some(pid) = found.get(at).copied() {
            found.extend(children.get(&pid).into_iter().flatten());
            at += 1;
        }
        found
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end and gives its exit code.
    ///
    /// # Errors
    /// `interrupted` if `stop` became true, or that it took longer than `limit`.
    pub(crate) fn wait(
        mut self,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<Option<i32>, String> {
        let start = Instant::now();
        while !self.has_ended() {
            if stop.load(Ordering::Relaxed) {
                return Err(INTERRUPTED.to_owned());
            }
            if start.elapsed() > limit {
                return Err(format!("no end within {} s", limit.as_secs()));
            }
            std::thread::sleep(STEP);
        }
        let status = self.child.wait().map_err(|error| error.to_string())?;
        Ok(status.code())
    }

    /// Sends a signal to the process and its group.
    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have gone already.
            let _ = kill_process_group(pid, signal);
        }
    }
}

/// What an interrupted wait says.
pub(crate) const INTERRUPTED: &str = "interrupted";

impl Drop for Running {
    fn drop(&mut self) {
        let descendants = self.pids();
        if !self.has_ended() {
            self.signal(Signal::TERM);
        }
        let start = Instant::now();
        while !self.has_ended() && start.elapsed() < LEAVE_MAX {
            std::thread::sleep(STEP);
        }
        // What is left of the group, and what left the group but not the family.
        self.signal(Signal::KILL);
        let _ = self.child.wait();
        for pid in descendants.into_iter().skip(1) {
            let orphan = i32::try_from(pid).ok().and_then(Pid::from_raw);
            if let Some(orphan) = orphan.filter(|_| parent_of(pid) == Some(1)) {
                let _ = kill_process(orphan, Signal::KILL);
            }
        }
    }
}

fn parent_of(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = text.rsplit_once(") ")?;
    after_name.split(' ').nth(1)?.parse().ok()
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

    #[test]
    fn a_dropped_program_takes_its_children_along() {
        let null = Path::new("/dev/null");
        let words = ["sh", "-c", "trap '' TERM; sleep 60 & sleep 60"].map(OsString::from).into();
        let mut launch = Launch {
            words,
            cpus: &[],
            realtime: false,
            inside: None,
            as_nobody: false,
            out: null,
            errors: null,
        };
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
