//! Processes that never outlive the trial that started them.

use crate::command::require;
use regatta_lab::group::Group;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a server has to leave before it is killed.
const LEAVE_MAX: Duration = Duration::from_millis(1500);

/// Becomes true when the user or the system asks us to stop.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for SIGINT, SIGTERM and SIGHUP; the second one ends us at once.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn listen() -> Result<Self, String> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let number = signal.as_raw();
            signal_hook::flag::register_conditional_shutdown(number, 130, Arc::clone(&flag))
                .and_then(|_| signal_hook::flag::register(number, Arc::clone(&flag)))
                .map_err(|error| format!("signals: {error}"))?;
        }
        Ok(Self(flag))
    }

    /// Whether we were asked to stop.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A folder of our own that goes away with us.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder below `parent`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn new(parent: &Path) -> Result<Self, String> {
        let path = parent.join(format!("regatta-bench-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How a program is started.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    /// The program and its words.
    pub(crate) command: Command,
    /// The CPU that it and its children run on; None: any.
    pub(crate) cpu: Option<usize>,
    /// Where standard error goes; None: nowhere.
    pub(crate) errors: Option<&'a Path>,
    /// Whether it runs as `nobody` if we are root.
    pub(crate) as_nobody: bool,
}

/// A program in a process group of its own, ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Spawned(Group);

impl Spawned {
    /// Starts a program on one CPU. Its standard output is kept for [`Self::output`].
    ///
    /// If we die without dropping this, the kernel asks the program to leave: `setpriv` arranges
    /// that, since it takes a call between fork and exec.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(launch: Launch<'_>) -> Result<Self, String> {
        let errors = match launch.errors {
            None => Stdio::null(),
            Some(path) => std::fs::File::create(path).map_err(|error| error.to_string())?.into(),
        };
        let mut command = tied_to_us(&launch.command, launch.as_nobody)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        Group::start(&mut command, launch.cpu.as_slice(), LEAVE_MAX).map(Self)
    }

    /// The process and all that descend from it.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.0.pids()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.has_ended()
    }

    /// Waits for its end and gives what it printed on standard output.
    ///
    /// # Errors
    /// If it takes longer than `limit`, fails, or the user interrupts.
    pub(crate) fn output(
        mut self,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Result<String, String> {
        let status = self.0.wait(limit, || interrupt.is_set())?;
        let text = self.0.printed().map_err(|error| error.to_string())?;
        if status.success() { Ok(text) } else { Err(format!("{status}: {}", text.trim())) }
    }

    /// Sends a signal to the process and its group.
    pub(crate) fn signal(&self, signal: Signal) {
        self.0.signal(signal);
    }
}

/// Puts `setpriv` in front of a command.
fn tied_to_us(command: &Command, as_nobody: bool) -> Result<Command, String> {
    let setpriv = require("setpriv", "util-linux")?;
    let mut tied = Command::new(setpriv);
    tied.args(["--pdeathsig", "TERM"]);
    if as_nobody && rustix::process::geteuid().is_root() {
        tied.args(["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]);
    }
    tied.arg(command.get_program()).args(command.get_args());
    Ok(tied)
}

#[cfg(test)]
mod tests {
    use super::{Launch, Spawned};
    use regatta_lab::group::parent_of;
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn a_dropped_process_takes_its_children_along() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' TERM; sleep 60 & sleep 60"]);
        let launch = Launch { command: shell, cpu: None, errors: None, as_nobody: false };
        let spawned = Spawned::start(launch).expect("there is a shell");
        let start = Instant::now();
        let mut pids = spawned.pids();
        while pids.len() < 3 && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
            pids = spawned.pids();
        }
        assert_eq!(pids.len(), 3);
        drop(spawned);
        let gone = |pid: &u32| {
            parent_of(*pid).is_none()
                || std::fs::read_to_string(format!("/proc/{pid}/stat"))
                    .is_ok_and(|text| text.contains(") Z "))
        };
        while !pids.iter().all(gone) && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(pids.iter().all(gone), "{pids:?}");
    }
}
