//! A process of ours that serves an environment: it is started with one line, says lines, and ends
//! with its standard input.

use super::CHILD_WORD;
use crate::units::At;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, set_parent_process_death_signal, setpriority_process, setsid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Time that a process of ours has to exit before it is killed.
const LEAVE_MAX: Duration = Duration::from_secs(5);

/// Ties a process that a keeper started to its keeper. The end of its standard input is not enough:
/// the process notices it only while it waits for nothing else.
pub(super) fn die_with_keeper() -> Result<(), String> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| error.to_string())
}

/// The one line that a process of ours is started with.
pub(super) fn order<T: DeserializeOwned>() -> Result<T, String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|error| error.to_string())?;
    if line.is_empty() {
        return Err("nobody wants anything any more".to_owned());
    }
    serde_json::from_str(&line).map_err(|error| error.to_string())
}

/// Prints one line. The reader may be dead, which is no reason to panic.
pub(super) fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// Whether standard input has ended. Waits for that, up to `wait`.
pub(super) fn is_abandoned(wait: Duration) -> bool {
    let stdin = io::stdin();
    let mut ends = [PollFd::new(&stdin, PollFlags::IN)];
    // An error but an interruption would come again and again: nothing is to be waited for then.
    let wait = Timespec::try_from(wait).expect("a short time");
    poll(&mut ends, Some(&wait)).map_or_else(|error| error != Errno::INTR, |count| count > 0)
}

/// A process of ours that lives as long as its standard input.
#[derive(Debug)]
pub(super) struct Servant {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Servant {
    /// Starts `word`, this program's own, and hands it its order.
    pub(super) fn start(
        mut command: Command,
        word: &str,
        order: &impl Serialize,
    ) -> Result<Self, String> {
        let failed = |error: io::Error| format!("{word}: {error}");
        command.arg(std::env::current_exe().map_err(failed)?).args([CHILD_WORD, word]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let stdout = child.stdout.take().expect("it is piped");
        let stdin = child.stdin.take();
        let mut servant = Self { child, stdin, stdout: BufReader::new(stdout) };
        let order = serde_json::to_string(order).map_err(|error| error.to_string())?;
        if let Some(stdin) = &mut servant.stdin {
            // A process that has ended reads nothing; the caller notices its silence.
            let _ = stdin.write_all(format!("{order}\n").as_bytes());
        }
        Ok(servant)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it that the time has come for what its order left for later.
    pub(super) fn go_on(&mut self) -> Result<(), String> {
        let told = self.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(b"\n"));
        told.map_err(|error| error.to_string())
    }

    pub(super) fn hear(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).map_err(|error| error.to_string())?;
        if line.is_empty() { Err("it ended before it was ready".to_owned()) } else { Ok(line) }
    }

    /// Ends its standard input, waits for its end, and kills it if that does not come. Fails if it
    /// failed or had to be killed.
    pub(super) fn end(mut self, limit: Duration) -> Result<(), String> {
        drop(self.stdin.take());
        let start = Instant::now();
        while start.elapsed() < limit {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(status.to_string()),
                Err(error) => return Err(error.to_string()),
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        Err(format!("no end within {} s", limit.as_secs()))
    }

    /// Ends a process, like [`Self::end`], whose end can be enforced without loss.
    pub(super) fn dismiss(self) {
        let _ = self.end(LEAVE_MAX);
    }
}

/// `unshare` with what a namespace is to be made of, or this program as it is.
pub(super) fn with_namespaces(network: bool, mounts: bool) -> Command {
    if !network && !mounts {
        // `env` with nothing to set: so that the program always is the last word.
        return Command::new("env");
    }
    let mut command = Command::new("unshare");
    command.args(network.then_some("--net")).args(mounts.then_some("--mount"));
    command.arg("--");
    command
}

/// The first of the ordinary priorities.
pub(super) const FIRST: i32 = -20;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) groups: Vec<PathBuf>,
    /// The process whose network it shares.
    pub(super) network_of: Option<u32>,
    /// The process whose mounts it sees.
    pub(super) mounts_of: Option<u32>,
    /// Processors on which it may run; empty: any.
    pub(super) cpus: Vec<usize>,
    pub(super) nice: i32,
    /// Real-time priority; 0: none.
    pub(super) realtime: u32,
}

/// `enter ENTRY PROGRAM WORDS...`: joins, and becomes the program. Returns only where that fails.
pub(super) fn enter(words: &[String]) -> Result<(), String> {
    let [entry, program, words @ ..] = words else {
        return Err("enter: what, and with which program?".to_owned());
    };
    let entry: Entry = serde_json::from_str(entry).map_err(|error| format!("enter: {error}"))?;
    let folder = std::env::current_dir().ok();
    // The owner ends it by its group. Fails only if it leads one already.
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
        command.args([CHILD_WORD, "enter", &entry]).arg(program);
        command
    }

    /// Joins all groups and namespaces, the groups first: from then on, undoing them ends this
    /// process.
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
