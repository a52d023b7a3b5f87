//! Another machine that has the loads of a run, reached by ssh.
//!
//! ```text
//!  lab ── ssh ──► regatta-lab load        one connection
//!   └─ starts ──► server  ◄─── HTTP ──┘
//! ```
//!
//! `regatta-lab` is installed there. Clocks are never compared: each half of a trial is timed on
//! its own machine, from its own begin.

mod ssh;

use crate::env::spec::REALTIME;
use crate::experiment::{Client, CpuLayout, Experiment, LAYOUT, Machine, Scale};
use crate::group::Group;
use crate::journal::manifest::{self, Manifest, Other, ROUND_TRIP};
use crate::programs::OwnPrograms;
use crate::programs::own::{LAB, version_line};
use crate::units::{real, show};
use regatta_load::engine::Outcome;
use ssh::{Connection, quoted};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, PipeWriter, pipe};
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Note on guards that have no meaning with two machines.
const SKIPPED: &str = "guards.moved_max is skipped, and core_to_core_ns is not measured: server \
     and load are on two machines";
/// Longest time for copying a directory.
const COPY_MAX: Duration = Duration::from_secs(3_600);
/// Time that a program has to end which copies.
const LEAVE_MAX: Duration = Duration::from_secs(2);
/// Time that the other machine has to remove its files.
const END_MAX: Duration = Duration::from_secs(15);
/// Beginning of the line with which the keeper names its directory and the connection.
const KEPT: &str = "regatta-lab keeps ";

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
    destination: String,
    /// Our address as the other machine sees it.
    near: IpAddr,
    /// Shortest time of a connection from there to us, nanoseconds.
    round_trip_ns: f64,
    machine: BTreeMap<String, String>,
    /// Paths of ours, and their copies there.
    paths: RefCell<Vec<(PathBuf, PathBuf)>>,
    // In the order in which they are to end.
    kept: Kept,
    connection: Connection,
}

/// A directory there. A shell removes it, and ends the load, when its input ends: at the latest
/// with the connection, and so with this process.
#[derive(Debug)]
struct Kept {
    directory: String,
    input: Option<PipeWriter>,
    shell: Group,
}

impl Far {
    /// Connects, makes a directory there, and tries the way that the load will take.
    pub fn connect(
        destination: &str,
        programs: &OwnPrograms,
        stop: &AtomicBool,
    ) -> Result<Self, String> {
        let connection = Connection::open(destination, stop)?;
        let theirs = connection.said(&format!("{LAB} --version")).unwrap_or_default();
        let ours = version_line(&programs.lab).unwrap_or_default();
        if theirs.lines().last() != Some(ours.as_str()) {
            let theirs = theirs.lines().last().map_or(format!("no {LAB}"), str::to_owned);
            return Err(format!(
                "{destination} has {theirs} on its PATH, and this machine {ours}: install that \
                 version of {LAB} there"
            ));
        }
        let machine = manifest::facts(&connection.said(&manifest::facts_script())?);
        let (kept, near) = Kept::begin(&connection, destination)?;
        let paths = RefCell::new(vec![(programs.lab.clone(), LAB.into())]);
        let (destination, round_trip_ns) = (destination.to_owned(), f64::NAN);
        let mut far = Self { destination, near, round_trip_ns, machine, paths, kept, connection };
        far.round_trip_ns = far.round_trip()?;
        Ok(far)
    }

    pub(crate) fn destination(&self) -> &str {
        &self.destination
    }

    /// Reason for which it can be used no more; None: it can.
    pub fn lost(&self) -> Option<String> {
        self.connection.has_ended().then(|| format!("{}: the connection is lost", self.destination))
    }

    /// The address at which a server of ours is asked by it.
    pub(crate) fn near(&self) -> IpAddr {
        self.near
    }

    /// Has it connect to us, as the load will: the shortest time, nanoseconds.
    fn round_trip(&self) -> Result<f64, String> {
        let named = |error: std::io::Error| format!("{}: {error}", self.near);
        // The kernel takes the connections. No request is answered.
        let listener = TcpListener::bind((self.near, 0)).map_err(named)?;
        let url = format!("http://{}/", listener.local_addr().map_err(named)?);
        let load = "--closed 4 --timeout 50ms --warm-up 0s -d 300ms --drain 0s --json --quiet";
        let mut command = self.connection.command(&format!("{LAB} load {url} {load}"));
        let output = command.stdin(Stdio::null()).output().map_err(named)?;
        let found: Option<Outcome> = serde_json::from_slice(&output.stdout).ok();
        let connects = found.map(|found| found.phases.connect);
        connects.filter(|times| times.count() > 0).map(|times| real(times.min())).ok_or_else(|| {
            format!(
                "{}: {url} cannot be reached. Load and server speak directly, at the addresses of \
                 the ssh connection and at ports that the kernel chooses: is there a firewall, or \
                 a machine between them that translates addresses?",
                self.destination
            )
        })
    }

    /// Looks at both machines, and notes them.
    pub(crate) fn manifest(
        &self,
        experiment: &Experiment,
        scale: Scale,
        programs: &OwnPrograms,
    ) -> Result<Manifest, String> {
        refuse(experiment)?;
        // The client's processors are another machine's.
        let mut alone = experiment.clone();
        let client_cpus = std::mem::take(&mut alone.machine.client_cpus);
        let mut manifest = Manifest::take(&alone, scale, programs);
        let there = self.machine.get("processors").and_then(|count| count.parse().ok());
        if let (Some(most), Some(there)) = (client_cpus.iter().max(), there)
            && *most >= there
        {
            let lack = format!("the load's machine has no processor {most}: it has {there}");
            manifest.lacks.push(lack);
        }
        manifest.lacks.push(SKIPPED.to_owned());
        let theirs = self.machine.iter();
        let named = theirs.map(|(name, value)| (Other::names(name), value.clone()));
        manifest.machine.extend(named);
        let round_trip = format!("{} us", show(self.round_trip_ns / 1e3));
        manifest.machine.insert(ROUND_TRIP.to_owned(), round_trip);
        let (destination, round_trip_ns) = (self.destination.clone(), self.round_trip_ns);
        manifest.other = Some(Other { destination, round_trip_ns });
        Ok(manifest)
    }

    /// Copies what the loads ask for and compare with.
    pub(crate) fn bring(
        &self,
        root: &Path,
        workload: Option<&Path>,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let own = workload.is_some_and(|workload| root == workload.join("root"));
        if let Some(workload) = workload {
            self.copy(workload, "workload", own.then_some("root"), stop)?;
        }
        if own { Ok(()) } else { self.copy(root, "root", None, stop) }
    }

    /// Copies a directory, `without` one that it has itself.
    fn copy(
        &self,
        from: &Path,
        name: &str,
        without: Option<&str>,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let (reader, writer) = pipe().map_err(|error| error.to_string())?;
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(from).args(["-cf", "-"]);
        tar.args(without.map(|without| format!("--exclude=./{without}"))).arg(".");
        tar.stdin(Stdio::null()).stdout(writer).stderr(Stdio::null());
        let to = format!("{}/{name}", self.kept.directory);
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

    /// The command line here of a load there. A load that was given up is ended first.
    pub(crate) fn load(&self, words: &[OsString], machine: &Machine) -> Vec<OsString> {
        let words = words.iter().map(|word| quoted(&self.there(word).to_string_lossy()));
        let words = words.collect::<Vec<_>>().join(" ");
        let cpus: Vec<String> = machine.load_cpus().iter().map(ToString::to_string).collect();
        let cpus = match cpus.as_slice() {
            [] => String::new(),
            cpus => format!("taskset -c {} ", cpus.join(",")),
        };
        let first = if machine.realtime {
            format!("first=; [ $(id -u) = 0 ] && first=\"chrt --fifo {REALTIME}\"; ")
        } else {
            "first=; ".to_owned()
        };
        let pid = format!("{}/load", self.kept.directory);
        self.connection.words(&format!(
            "{first}kill $(cat {pid} 2> /dev/null) 2> /dev/null; $first {cpus}{words} & \
             echo $! > {pid}; wait $!; code=$?; rm -f {pid}; exit $code"
        ))
    }
}

impl Kept {
    /// Makes the directory; our address as the other machine sees it.
    fn begin(connection: &Connection, destination: &str) -> Result<(Self, IpAddr), String> {
        let named = |error: std::io::Error| format!("a pipe to ssh: {error}");
        let (stdin, input) = pipe().map_err(named)?;
        let (output, stdout) = pipe().map_err(named)?;
        let mut ssh = connection.command(&format!(
            "d=$(mktemp -d \"${{TMPDIR:-/tmp}}/regatta-lab.XXXXXX\") || exit; \
             echo \"{KEPT}$d $SSH_CONNECTION\"; cat > /dev/null; \
             kill $(cat \"$d/load\" 2> /dev/null) 2> /dev/null; rm -rf \"$d\""
        ));
        ssh.stdin(stdin).stdout(stdout).stderr(Stdio::null());
        let shell = Group::start(&mut ssh, &[], END_MAX)?;
        // The ends of the pipes that are ours would keep them open.
        drop(ssh);
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let line = lines.find_map(|line| line.strip_prefix(KEPT).map(str::to_owned));
        let line = line.unwrap_or_default();
        let words: Vec<&str> = line.split(' ').collect();
        let directory = words[0].to_owned();
        let kept = Self { directory, input: Some(input), shell };
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        if !kept.directory.starts_with('/') || !kept.directory.chars().all(plain) {
            return Err(format!("{destination}: no directory for its files: {line:?}"));
        }
        let near = words.get(1).and_then(|address| address.parse().ok());
        let near = near.ok_or_else(|| {
            format!("{destination}: sshd there does not say SSH_CONNECTION (sshd(8))")
        })?;
        Ok((kept, near))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.shell.wait(END_MAX, || false);
    }
}

fn refuse(experiment: &Experiment) -> Result<(), String> {
    let together = experiment.machine.layout == CpuLayout::Together
        || experiment.factors.iter().any(|factor| factor.path == LAYOUT);
    let why = if together {
        "server and load cannot share a processor on two machines: take machine.layout out of the \
         file"
    } else if experiment.workload.client != Client::Regatta {
        "wrk or h2load and the server are on one machine: take workload.client out of the file"
    } else if experiment.specs().iter().any(|spec| spec.network.is_some()) {
        "a load on another machine does not reach servers in a network of their own: take \
         [environment.network] and its factors out of the file"
    } else {
        return Ok(());
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
    fn what_takes_one_machine_is_refused() {
        let refused = |more: &str| {
            let text = format!(
                "experiment = {{ name = \"x\", question = \"?\", expect = \"!\" }}\n\
                 targets.a.program = \"regatta\"\nworkload.root = \".\"\n{more}"
            );
            refuse(&parse("x", &text, Scale::Quick).unwrap())
        };
        assert_eq!(refused(""), Ok(()));
        assert_eq!(refused("environment.memory = \"84MiB\""), Ok(()));
        let network = "environment.network.mtu = 1500";
        let together = "machine = { server_cpus = \"0\", layout = \"together\" }";
        assert!(refused(together).unwrap_err().contains("machine.layout"));
        assert!(refused(network).unwrap_err().contains("[environment.network]"));
    }
}
