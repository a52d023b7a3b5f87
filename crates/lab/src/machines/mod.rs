//! The machines of a run: this one, and another that is reached by ssh and has its servers or its
//! loads.
//!
//! ```text
//!  lab ── ssh ──► agent ── starts, watches, ends ──► server, or load      one connection
//!   └─ starts ──► load, or server  ◄──────── HTTP ────────┘
//! ```
//!
//! The agent is this same program, copied there with the server; [`ask`] is all that is said.
//! Clocks are never compared: each half of a trial is timed on its own machine, from its own begin.

mod agent;
mod ask;
mod channel;
mod files;
pub(crate) mod served;
mod ssh;

pub use agent::run as agent;

use crate::experiment::{Client, CpuLayout, Experiment, LAYOUT, Scale};
use crate::group::{Group, INTERRUPTED};
use crate::journal::manifest::{self, Half, Manifest, Other, ROUND_TRIP};
use crate::programs::OwnPrograms;
use crate::units::files::At;
use crate::units::show;
use crate::watch::Seen;
use ask::{Addresses, Ask, Load, Met, Ran};
use channel::Channel;
use served::Wanted;
use ssh::Connection;
use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What is said of guards that another machine leaves without a meaning.
const SKIPPED: &str = "guards.moved_max is skipped, and core_to_core_ns is not measured: server \
     and load are on two machines";
/// How long an answer takes that does nothing but look.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// How long copying files may take, and reading them there.
const COPY_MAX: Duration = Duration::from_secs(3_600);
/// How long a program has to end that copies.
const LEAVE_MAX: Duration = Duration::from_secs(2);

/// `ssh://[USER@]HOST[:PORT]`, as ssh takes it.
pub fn destination(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("ssh://").unwrap_or_default();
    let plain = |c: char| c.is_ascii_graphic() && !"/'\"\\".contains(c);
    if host.is_empty() || !host.chars().all(plain) {
        return Err("expected ssh://[USER@]HOST[:PORT], with HOST as `ssh HOST` takes it".into());
    }
    Ok(text.to_owned())
}

/// The other machine. When this is dropped, nothing is left there.
#[derive(Debug)]
pub struct Far {
    half: Half,
    destination: String,
    met: Met,
    /// The round trip of a connection between the two, nanoseconds.
    round_trip_ns: f64,
    /// Its directory, and which of our paths are which there.
    directory: String,
    paths: RefCell<Vec<(PathBuf, PathBuf)>>,
    // In the order in which they are to end.
    channel: Channel,
    connection: Connection,
}

impl Far {
    /// Connects, copies both programs, starts the agent there, and finds the way that the load will
    /// take.
    pub fn connect(
        half: Half,
        destination: &str,
        programs: &OwnPrograms,
        stop: &AtomicBool,
    ) -> Result<Self, String> {
        let connection = Connection::open(destination, stop)?;
        same_kind(&connection.said("uname -sm")?, destination)?;
        let directory = connection.said(
            "d=$(mktemp -d \"${TMPDIR:-/tmp}/regatta-lab.XXXXXX\") && chmod 755 \"$d\" && echo $d",
        )?;
        let directory = directory.lines().last().unwrap_or_default().to_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        if !directory.starts_with('/') || !directory.chars().all(plain) {
            return Err(format!("{destination}: no directory for its files: {directory:?}"));
        }
        let started = copy_programs(&connection, &directory, programs, stop)
            .and_then(|()| Channel::start(&connection, &directory));
        let channel = match started {
            Ok(channel) => channel,
            Err(why) => {
                let _ = connection.said(&format!("rm -rf {directory}"));
                return Err(why);
            }
        };
        let met = channel.ask(Ask::Meet, ANSWER_MAX, stop);
        let met: Met = met.map_err(|why| format!("{destination}: {why}"))?;
        let copied =
            |(name, path): (&str, &Path)| (path.to_owned(), Path::new(&directory).join(name));
        let paths = programs.each().map(copied).to_vec();
        let paths = RefCell::new(paths);
        let (destination, round_trip_ns) = (destination.to_owned(), f64::NAN);
        let mut far =
            Self { half, destination, met, round_trip_ns, directory, paths, channel, connection };
        for ((_, path), there) in programs.each().into_iter().zip(&far.met.sha256) {
            if *there != manifest::sha256(path) {
                return Err(format!("{}: the copy of {} differs", far.destination, path.display()));
            }
        }
        far.round_trip_ns = far.round_trip(stop)?;
        Ok(far)
    }

    /// Which half of the trials it has, and how it was named.
    pub(crate) fn which(&self) -> (Half, &str) {
        (self.half, &self.destination)
    }

    /// Which half of the trials it has.
    pub(crate) fn half(&self) -> Half {
        self.half
    }

    /// Why it can be used no more; None: it can.
    pub fn lost(&self) -> Option<String> {
        self.channel.lost().map(|why| format!("{}: {why}", self.destination))
    }

    /// Our address as the other machine sees it, and its own.
    fn addresses(&self) -> Result<[IpAddr; 2], String> {
        self.met.addresses.ok_or_else(|| {
            format!("{}: sshd there does not say SSH_CONNECTION (sshd(8))", self.destination)
        })
    }

    /// The address at which a server of ours is asked by it.
    pub(crate) fn near(&self) -> Result<IpAddr, String> {
        self.addresses().map(|[near, _]| near)
    }

    /// Takes the way that the load's connections will take.
    fn round_trip(&self, stop: &AtomicBool) -> Result<f64, String> {
        let [near, far] = self.addresses()?;
        let reached = match self.half {
            Half::Server => {
                let at: SocketAddr = self.channel.ask(Ask::Listen(far), ANSWER_MAX, stop)?;
                agent::reach(at)
            }
            Half::Load => TcpListener::bind((near, 0))
                .and_then(|listener| Ok((listener.local_addr()?, listener)))
                .map_err(|error| format!("{near}: {error}"))
                .and_then(|(at, _listener)| self.channel.ask(Ask::Reach(at), ANSWER_MAX, stop)),
        };
        reached.map_err(|why| {
            format!(
                "{}: {why}. Load and server speak directly, at the addresses of the ssh \
                 connection and at ports that the kernel chooses: is there a firewall, or a \
                 machine between them that translates addresses?",
                self.destination
            )
        })
    }

    /// Looks at the machine of the servers, and notes both.
    pub(crate) fn manifest(
        &self,
        experiment: &Experiment,
        scale: Scale,
        programs: &OwnPrograms,
        stop: &AtomicBool,
    ) -> Result<Manifest, String> {
        refuse(experiment, self.half)?;
        // The client's processors are another machine's.
        let mut alone = experiment.clone();
        let client_cpus = std::mem::take(&mut alone.machine.client_cpus);
        let mut manifest: Manifest = match self.half {
            Half::Load => Manifest::take(&alone, scale, programs),
            Half::Server => {
                self.channel.ask(Ask::Look(Box::new(alone), scale), ANSWER_MAX, stop)?
            }
        };
        let here = manifest::machine();
        let clients = if self.half == Half::Load { &self.met.machine } else { &here };
        let there = clients.get("processors").and_then(|count| count.parse().ok());
        if let (Some(most), Some(there)) = (client_cpus.iter().max(), there)
            && *most >= there
        {
            let lack = format!("the load's machine has no processor {most}: it has {there}");
            manifest.lacks.push(lack);
        }
        manifest.lacks.push(SKIPPED.to_owned());
        if experiment.measure.profile && self.half == Half::Server {
            manifest.lacks.push("no profiles are made of servers on another machine".to_owned());
        }
        let other = Other {
            half: self.half,
            destination: self.destination.clone(),
            round_trip_ns: self.round_trip_ns,
        };
        manifest.machine = here;
        let theirs = self.met.machine.iter();
        let named = theirs.map(|(name, value)| (other.names(name), value.clone()));
        manifest.machine.extend(named);
        let round_trip = format!("{} us", show(self.round_trip_ns / 1e3));
        manifest.machine.insert(ROUND_TRIP.to_owned(), round_trip);
        manifest.other = Some(other);
        Ok(manifest)
    }

    /// Copies what its half of the trials takes of the workload: for the servers what they serve,
    /// for the loads what they ask for and compare with.
    pub(crate) fn bring(
        &self,
        root: &Path,
        workload: Option<&Path>,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        match (self.half, workload) {
            (Half::Server, _) | (Half::Load, None) => self.copy(root, "root", None, stop),
            (Half::Load, Some(workload)) => {
                let own = root == workload.join("root");
                self.copy(workload, "workload", own.then_some("root"), stop)?;
                if own { Ok(()) } else { self.copy(root, "root", None, stop) }
            }
        }
    }

    /// Copies a directory, `without` one that it has itself, and has its hash compared.
    fn copy(
        &self,
        from: &Path,
        name: &str,
        without: Option<&str>,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let (reader, writer) = std::io::pipe().map_err(|error| error.to_string())?;
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(from).args(["-cf", "-"]);
        tar.args(without.map(|without| format!("--exclude=./{without}"))).arg(".");
        tar.stdin(Stdio::null()).stdout(writer).stderr(Stdio::null());
        let to = format!("{}/{name}", self.directory);
        let script = format!("mkdir {to} && exec tar -C {to} --no-same-owner -xpf -");
        let mut ssh = self.connection.command(&script);
        ssh.stdin(reader).stdout(Stdio::null()).stderr(Stdio::null());
        let stopped = || stop.load(Ordering::Relaxed);
        let mut sends = Group::start(&mut tar, &[], LEAVE_MAX)?;
        let mut takes = Group::start(&mut ssh, &[], LEAVE_MAX)?;
        // The ends of the pipe that are ours would keep it open.
        drop((tar, ssh));
        for group in [&mut takes, &mut sends] {
            if !group.wait(COPY_MAX, stopped)?.success() {
                let from = from.display();
                return Err(format!(
                    "{from} cannot be copied to {}:{to}: is tar on both machines, and the disk \
                     there large enough?",
                    self.destination
                ));
            }
        }
        let there: String = self.channel.ask(Ask::Hash(name.into()), COPY_MAX, stop)?;
        if there != files::hash(from, without)? {
            return Err(format!(
                "{} has changed while it was copied to {}",
                from.display(),
                self.destination
            ));
        }
        self.paths.borrow_mut().push((from.to_owned(), to.into()));
        Ok(())
    }

    /// A word of a command line as it is there: what begins with a path of ours.
    fn there(&self, word: &OsStr) -> OsString {
        let paths = self.paths.borrow();
        let found = paths.iter().rev().find_map(|(ours, theirs)| {
            let rest = Path::new(word).strip_prefix(ours).ok()?;
            // `join` of nothing would add a slash.
            let whole = rest.as_os_str().is_empty();
            Some(if whole { theirs.clone() } else { theirs.join(rest) })
        });
        found.map_or_else(|| word.to_owned(), PathBuf::into_os_string)
    }

    /// Starts a server: where it is to be asked.
    pub(crate) fn serve(&self, wanted: Wanted, stop: &AtomicBool) -> Result<Addresses, String> {
        self.channel.ask(Ask::Serve(Box::new(wanted)), ANSWER_MAX, stop)
    }

    /// Has the server watched, from now on for so many seconds.
    pub(crate) fn watch(&self, seconds: f64, stop: &AtomicBool) -> Result<(), String> {
        let limit = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
        self.channel.ask(Ask::Watch, limit + ANSWER_MAX, stop)
    }

    /// Ends the server: what was seen of it.
    pub(crate) fn end(&self, stop: &AtomicBool) -> Result<Seen, String> {
        self.channel.ask(Ask::End, ANSWER_MAX, stop)
    }

    pub(crate) fn begin_load(
        &self,
        words: &[OsString],
        cpus: &[usize],
        realtime: bool,
        limit: Duration,
    ) -> Result<(), String> {
        let words = words.iter().map(|word| self.there(word)).collect();
        let seconds_max = limit.as_secs_f64();
        self.channel.send(Ask::Load(Load { words, cpus: cpus.to_owned(), realtime, seconds_max }))
    }

    /// Waits for the load that was begun, and writes down here what it printed: its exit code.
    pub(crate) fn load(
        &self,
        [out, errors]: [&Path; 2],
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<Option<i32>, String> {
        let ran: Ran = self.channel.answer(limit + ANSWER_MAX, stop)?;
        for (path, text) in [(out, ran.out), (errors, ran.errors)] {
            fs::write(path, text).at(path)?;
        }
        Ok(ran.code)
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        // The agent removes its directory itself, unless it was killed.
        if !self.channel.end() {
            let _ = self.connection.said(&format!("rm -rf {}", self.directory));
        }
    }
}

/// Refuses a machine that this program does not run on.
fn same_kind(said: &str, destination: &str) -> Result<(), String> {
    let ours = rustix::system::uname();
    let kind = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let ours = format!("{} {}", kind(ours.sysname()), kind(ours.machine()));
    let theirs = said.lines().last().unwrap_or_default();
    if theirs == ours {
        return Ok(());
    }
    Err(format!(
        "{destination} is {theirs} and this machine {ours}: the program here does not run there. \
         Use a machine of the same kind, or start the lab on that one with --load or --server for \
         a third of its kind"
    ))
}

/// Copies both programs; that they arrived whole is seen when the agent has started.
fn copy_programs(
    connection: &Connection,
    directory: &str,
    programs: &OwnPrograms,
    stop: &AtomicBool,
) -> Result<(), String> {
    let mut each = programs.each().into_iter();
    each.try_for_each(|(name, path)| copy_program(connection, directory, (name, path), stop))
}

fn copy_program(
    connection: &Connection,
    directory: &str,
    (name, path): (&str, &Path),
    stop: &AtomicBool,
) -> Result<(), String> {
    let named = |why: String| format!("{} cannot be copied: {why}", path.display());
    let file = File::open(path).map_err(|error| named(error.to_string()))?;
    let script = format!("cat > {directory}/{name} && chmod 755 {directory}/{name}");
    let mut command = connection.command(&script);
    command.stdin(file).stdout(Stdio::null()).stderr(Stdio::null());
    let mut copying = Group::start(&mut command, &[], LEAVE_MAX)?;
    match copying.wait(COPY_MAX, || stop.load(Ordering::Relaxed)) {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(named(format!("is there room in {directory}?"))),
        Err(why) if why == INTERRUPTED => Err(why),
        Err(why) => Err(named(why)),
    }
}

/// Refuses what takes one machine.
fn refuse(experiment: &Experiment, half: Half) -> Result<(), String> {
    let specs = experiment.specs();
    let together = experiment.machine.layout == CpuLayout::Together
        || experiment.factors.iter().any(|factor| factor.path == LAYOUT);
    let why = match half {
        _ if together => {
            "server and load cannot share a processor on two machines: take machine.layout out of \
             the file"
        }
        _ if experiment.workload.client != Client::Regatta => {
            "wrk or h2load and the server are on one machine: take workload.client out of the file"
        }
        Half::Server if !specs.is_empty() => {
            "servers on another machine have no [environment] and no machine.server_left: \
             take both and their factors out of the file, or use --load for a second machine"
        }
        Half::Load if specs.iter().any(|spec| spec.network.is_some()) => {
            "a load on another machine does not reach servers in a network of their own: take \
             [environment.network] and its factors out of the file"
        }
        _ => return Ok(()),
    };
    Err(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::parse;

    #[test]
    fn a_destination_is_an_ssh_uri() {
        for right in ["ssh://host", "ssh://me@10.0.0.1:2222", "ssh://me@[fe80::1]:22"] {
            assert_eq!(destination(right).as_deref(), Ok(right));
        }
        for wrong in ["host", "ssh://", "ssh://h/path", "ssh://h -oProxyCommand=x", "ssh://'h'"] {
            assert!(destination(wrong).unwrap_err().contains("ssh://[USER@]HOST"), "{wrong}");
        }
    }

    #[test]
    fn another_kind_of_machine_is_refused() {
        let ours = rustix::system::uname();
        let own = format!("Linux {}", ours.machine().to_string_lossy());
        assert_eq!(same_kind(&format!("Welcome!\n{own}"), "ssh://h"), Ok(()));
        let why = same_kind("Linux riscv128", "ssh://h").unwrap_err();
        assert!(why.contains("ssh://h is Linux riscv128") && why.contains("same kind"), "{why}");
    }

    #[test]
    fn what_takes_one_machine_is_refused() {
        let refused = |half: Half, more: &str| {
            let text = format!(
                "experiment = {{ name = \"x\", question = \"?\", expect = \"!\" }}\n\
                 targets.a.program = \"regatta\"\nworkload.root = \".\"\n{more}"
            );
            refuse(&parse("x", &text, Scale::Quick).unwrap(), half)
        };
        assert_eq!(refused(Half::Server, ""), Ok(()));
        let memory = "environment.memory = \"84MiB\"";
        assert!(refused(Half::Server, memory).unwrap_err().contains("[environment]"));
        assert!(
            refused(Half::Server, "machine = { server_cpus = \"0\", server_left = 50 }").is_err()
        );
        assert_eq!(refused(Half::Load, memory), Ok(()));
        let network = "environment.network.mtu = 1500";
        let together = "machine = { server_cpus = \"0\", layout = \"together\" }";
        for half in [Half::Load, Half::Server] {
            assert!(refused(half, together).unwrap_err().contains("machine.layout"));
        }
        assert!(refused(Half::Load, network).unwrap_err().contains("[environment.network]"));
    }
}
