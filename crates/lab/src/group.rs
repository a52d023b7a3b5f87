//! A program and all that it starts, which never outlive their owner.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Interval at which a wait checks again.
pub(crate) const STEP: Duration = Duration::from_millis(5);
/// Error of an interrupted wait.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// A program in a process group of its own. When this is dropped, it and all that descends from it
/// are asked to leave, and killed if they do not.
#[derive(Debug)]
pub struct Group {
    child: Child,
    leave_max: Duration,
}

impl Group {
    /// Starts a program that, with its children, runs on `cpus` (empty: any), and that has
    /// `leave_max` to leave before it is killed.
    ///
    /// # Errors
    /// The processors cannot be had, or the program not started: in one sentence.
    pub fn start(
        command: &mut Command,
        cpus: &[usize],
        leave_max: Duration,
    ) -> Result<Self, String> {
        Self::start_leader(command.process_group(0), cpus, leave_max)
    }

    /// Starts a program that makes a session, and so a group, of its own; else as [`Group::start`].
    pub fn start_leader(
        command: &mut Command,
        cpus: &[usize],
        leave_max: Duration,
    ) -> Result<Self, String> {
        let before = sched_getaffinity(None).map_err(|error| format!("affinity: {error}"))?;
        run_on(cpus)?;
        let child = command.spawn();
        let child = child.map_err(|error| format!("{}: {error}", command.get_program().display()));
        sched_setaffinity(None, &before).map_err(|error| format!("affinity: {error}"))?;
        Ok(Self { child: child?, leave_max })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The process and all that descend from it.
    pub fn pids(&self) -> Vec<u32> {
        family(self.id())
    }

    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// `interrupted` once `stopped` says so, or that it took longer than `limit`.
    pub fn wait(
        &mut self,
        limit: Duration,
        stopped: impl Fn() -> bool,
    ) -> Result<ExitStatus, String> {
        let start = Instant::now();
        while !self.has_ended() {
            if stopped() {
                return Err(INTERRUPTED.to_owned());
            }
            if start.elapsed() > limit {
                return Err(format!("no end within {} s", limit.as_secs()));
            }
            std::thread::sleep(STEP);
        }
        self.child.wait().map_err(|error| error.to_string())
    }

    /// Output up to its end, if standard output is a pipe.
    pub fn printed(&mut self) -> io::Result<String> {
        let mut text = String::new();
        if let Some(mut out) = self.child.stdout.take() {
            out.read_to_string(&mut text)?;
        }
        Ok(text)
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.id()).ok().and_then(Pid::from_raw) {
            // The group may have ended already.
            let _ = kill_process_group(pid, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let descendants = self.pids();
        if !self.has_ended() {
            self.signal(Signal::TERM);
        }
        let start = Instant::now();
        while !self.has_ended() && start.elapsed() < self.leave_max {
            std::thread::sleep(STEP);
        }
        // Signals the rest of the group, and processes that left the group but not the family.
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

/// A process and all that descend from it.
pub fn family(pid: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        found.extend(children.get(&pid).into_iter().flatten());
        at += 1;
    }
    found
}

/// The process that started another, or adopted it.
pub fn parent_of(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = text.rsplit_once(") ")?;
    after_name.split(' ').nth(1)?.parse().ok()
}

/// Binds this thread, and those it starts from now on, to some processors; none: leaves it.
pub(crate) fn run_on(cpus: &[usize]) -> Result<(), String> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu));
    sched_setaffinity(None, &set).map_err(|error| format!("processors {cpus:?}: {error}"))
}
