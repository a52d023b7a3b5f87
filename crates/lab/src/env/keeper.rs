//! The keeper: a process that makes an environment, holds its namespaces, and undoes it when
//! whoever asked for it is done or dead.

use super::Record;
use super::disk::MountedDisk;
use super::groups::Hierarchies;
use super::ledger::Ledger;
use super::network::Link;
use super::spec::{Pages, REALTIME_MAX, Spec};
use super::{enter, pages, settings, slow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a process of ours has to leave before it is killed.
const LEAVE_MAX: Duration = Duration::from_secs(5);
/// How often a process that waits looks whether it got a signal.
const LOOK: Duration = Duration::from_millis(200);
const TASK_DELAYS: &str = "/proc/sys/kernel/task_delayacct";

/// Makes what standard input asks for, tells on standard output what it became, waits for the end
/// of standard input, and undoes it.
///
/// # Errors
/// What could not be undone. What could not be made is told to whoever asked.
pub(super) fn run() -> Result<(), String> {
    // A session of its own: Ctrl-C in the terminal is for whoever asked, whose end we then see.
    let _ = rustix::process::setsid();
    let leave = Arc::new(AtomicBool::new(false));
    for signal in [1, 2, 15] {
        signal_hook::flag::register(signal, Arc::clone(&leave)).map_err(|e| e.to_string())?;
    }
    let spec: Spec = order()?;
    let mut keeper = Keeper { ledger: Ledger::new()?, disk: None, link: None, slow: None };
    let made = keeper.make(&spec);
    say(&serde_json::to_string(&made).map_err(|error| error.to_string())?);
    while made.is_ok() && !leave.load(Ordering::Relaxed) && !is_abandoned(LOOK) {}
    keeper.undo()
}

/// What a keeper holds.
#[derive(Debug)]
struct Keeper {
    ledger: Ledger,
    disk: Option<MountedDisk>,
    link: Option<Link>,
    slow: Option<Servant>,
}

impl Keeper {
    fn make(&mut self, spec: &Spec) -> Result<Record, String> {
        let mut record = Record::begin(spec, self.ledger.id())?;
        if spec.accounting {
            self.ledger.set(Path::new(TASK_DELAYS), "1")?;
        }
        if let Some(network) = &spec.network {
            let link = Link::make(network)?;
            let applied = settings::apply(network, spec.profile)?;
            (record.settings, record.left_alone) = (applied.settings, applied.left_alone);
            record.network = Some(link.describe(network)?);
            self.link = Some(link);
        }
        still_wanted()?;
        if let Some(disk) = &spec.disk {
            let mounted = MountedDisk::make(spec, disk, &mut self.ledger)?;
            record.root = Some(mounted.root().to_owned());
            record.disk = Some(mounted.describe());
            self.disk = Some(mounted);
        }
        if spec.cpu.left_percent > 0 {
            let orders =
                slow::Orders { cpus: spec.cpu.server.clone(), left_percent: spec.cpu.left_percent };
            let wrapper = enter::first(REALTIME_MAX, "env");
            let slow = self.slow.insert(Servant::start(wrapper, "slow", &orders)?);
            slow.hear()?;
        }
        still_wanted()?;
        // The groups come last, so that they are undone first, and all processes with them.
        record.groups = Hierarchies::here().make(spec, &mut self.ledger)?;
        record.memory_bytes = record.groups.memory_bytes();
        if let Some(root) = record.root.as_deref() {
            match spec.pages {
                Pages::AsIs => {}
                Pages::Cold => pages::drop_all(root)?,
                Pages::Warm => {
                    // Pages that are there already count for whoever brought them.
                    if spec.disk.is_none() {
                        pages::drop_all(root)?;
                    }
                    pages::warm(root, &record.groups)?;
                }
            }
        }
        if let Some(disk) = &mut self.disk {
            disk.take_time()?;
        }
        record.namespaces(spec, self.link.as_ref().and_then(Link::client));
        Ok(record)
    }

    fn undo(mut self) -> Result<(), String> {
        let undone = self.ledger.undo();
        if let Some(slow) = self.slow.take() {
            slow.dismiss();
        }
        if let Some(disk) = self.disk.take() {
            disk.end();
        }
        if let Some(link) = self.link.take() {
            link.end();
        }
        undone
    }
}

/// Ties a process that a keeper started to its keeper, beside the end of its standard input, which
/// it could only see while it does not wait for something else.
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

/// Says one line. Whoever listened may be dead, which is no reason to panic.
pub(super) fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// Whether standard input has ended. Waits for that, up to so long.
pub(super) fn is_abandoned(wait: Duration) -> bool {
    let stdin = io::stdin();
    let mut ends = [PollFd::new(&stdin, PollFlags::IN)];
    // An error but an interruption would come again and again: nothing is to be waited for then.
    let wait = Timespec::try_from(wait).expect("a short time");
    poll(&mut ends, Some(&wait)).map_or_else(|error| error != Errno::INTR, |count| count > 0)
}

fn still_wanted() -> Result<(), String> {
    if is_abandoned(Duration::ZERO) { Err("nobody wants it any more".to_owned()) } else { Ok(()) }
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
        command.arg(std::env::current_exe().map_err(failed)?).args([super::CHILD_WORD, word]);
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
            stdin.write_all(format!("{order}\n").as_bytes()).map_err(failed)?;
        }
        Ok(servant)
    }

    /// Its process number.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it that the time has come for what its order left for later.
    pub(super) fn go_on(&mut self) -> Result<(), String> {
        let told = self.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(b"\n"));
        told.map_err(|error| error.to_string())
    }

    /// The next line that it says.
    pub(super) fn hear(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).map_err(|error| error.to_string())?;
        if line.is_empty() { Err("it ended before it was ready".to_owned()) } else { Ok(line) }
    }

    /// Ends its standard input, waits for its end, and kills it if that does not come.
    ///
    /// # Errors
    /// If it failed or had to be killed.
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

    /// As [`Self::end`], for those whose end can be enforced without loss.
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

/// Holds a namespace until standard input ends.
pub(super) fn hold() -> Result<(), String> {
    die_with_keeper()?;
    let cpus: Vec<usize> = order()?;
    crate::group::run_on(&cpus)?;
    say("ready");
    while !is_abandoned(LOOK) {}
    Ok(())
}
