//! Environments: a network, a memory limit, a disk, processors and settings that a run makes for
//! itself, and that are undone however the run ends.
//!
//! ```text
//!  lab ──pipe──► keeper (namespaces, ledger) ──pipe──► simulated disk (FUSE) ◄─ loop ◄─ ext4
//!   │                                        └─pipe──► holder of the client's namespace
//!   └─ starts ──► `enter` ──exec──► server or client, inside
//! ```
//!
//! The keeper sees the end of the lab, by whatever cause, as the end of its standard input, and
//! undoes what stands in the ledger. If the keeper is killed too, the kernel frees the namespaces
//! and the mounts and devices in them with their last process, and [`clean`] does the rest.
//!
//! A program that makes environments must call [`child_main`] first thing in `main`: keeper, disk
//! and `enter` are this same program under other words.

mod allowed;
mod disk;
pub mod disklog;
mod glance;
mod groups;
mod keeper;
mod ledger;
mod model;
mod network;
mod pages;
mod servant;
mod simdisk;
mod slow;
pub mod spec;
mod words;

pub use allowed::lacks;
pub(crate) use disk::image_words;
pub use disk::{Described as DescribedDisk, build_image};
pub use glance::{Glance, numbers};
pub use groups::Groups;
pub use ledger::{Listed, Made, Owner, clean, list, place as ledgers};
pub(crate) use model::service_by_depth;
pub use network::{Described as DescribedNetwork, Setting};
pub(crate) use pages::{settle as settle_pages, space};
#[cfg(test)]
pub(crate) use spec::STAND_IN;
pub use spec::{Lack, Spec};

use serde::{Deserialize, Serialize};
use servant::{Entry, Servant};
pub(crate) use servant::{first, preferred};
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// The first word of our own child processes.
const CHILD_WORD: &str = "regatta-lab-child";

/// Side that a program is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// With the memory limit, the disk and the server's processors.
    Server,
    /// With the client's processors and network.
    Client,
}

/// Actual state of an environment: the conditions of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub id: String,
    pub spec: Spec,
    pub kernel: String,
    /// The process that holds its namespaces.
    pub keeper: u32,
    pub network: Option<DescribedNetwork>,
    pub settings: Vec<Setting>,
    /// Settings that the profile names and that were left alone, since they are the machine's.
    pub left_alone: Vec<String>,
    pub disk: Option<DescribedDisk>,
    /// Directory of the files, as the server sees it.
    pub root: Option<PathBuf>,
    pub groups: Groups,
    /// The limit of the server's memory, read back, bytes; None: there is none.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    server: Entry,
    client: Entry,
}

impl Record {
    fn begin(spec: &Spec, id: &str) -> Result<Self, String> {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
        let root = spec.files.as_ref().map(|files| files.canonicalize()).transpose();
        Ok(Self {
            id: id.to_owned(),
            spec: spec.clone(),
            kernel: release.unwrap_or_default().trim().to_owned(),
            keeper: std::process::id(),
            root: root.map_err(|error| error.to_string())?,
            ..Self::default()
        })
    }

    /// Notes what server and client are to join.
    fn namespaces(&mut self, spec: &Spec, client_network: Option<u32>) {
        let network = spec.network.is_some().then_some(self.keeper);
        let entry = |groups: &[PathBuf], cpus: &[usize]| Entry {
            groups: groups.to_vec(),
            network_of: network,
            mounts_of: None,
            cpus: cpus.to_vec(),
            nice: spec.cpu.nice,
            realtime: spec.cpu.realtime,
        };
        self.server = entry(&self.groups.server, &spec.cpu.server);
        if spec.cpu.realtime > 0 {
            // Tasks of one server have to share its processor as they would anywhere: a real-time
            // loop that never waits would keep its own helpers, or other processes, from it.
            (self.server.realtime, self.server.nice) = (0, servant::FIRST);
        }
        self.server.mounts_of = spec.disk.is_some().then_some(self.keeper);
        self.client = entry(&self.groups.client, &spec.cpu.client);
        self.client.network_of = client_network.or(network);
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The specification makes no sense: everything that is wrong with it.
    Senseless(Vec<String>),
    /// This machine does not allow it: everything that it lacks.
    Lacking(Vec<Lack>),
    /// The attempt failed, and has been undone.
    Failed(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Senseless(faults) => f.write_str(&faults.join("; ")),
            Self::Lacking(lacks) => {
                let lacks: Vec<_> = lacks.iter().map(ToString::to_string).collect();
                f.write_str(&lacks.join("; "))
            }
            Self::Failed(why) => f.write_str(why),
        }
    }
}

/// An environment that is there. Dropping it ends everything in it and undoes it.
#[derive(Debug)]
pub struct Environment {
    /// None once it is undone.
    keeper: Option<Servant>,
    record: Record,
}

impl Environment {
    /// Makes one.
    ///
    /// # Errors
    /// See [`Fault`]. Nothing is left of what could be made.
    pub fn make(spec: &Spec) -> Result<Self, Fault> {
        let mut faults = spec.faults();
        if spec.disk.as_ref().is_some_and(|disk| disk.kind == spec::Kind::InProcess) {
            faults.push("disk: one in-process is the server's, no environment's".to_owned());
        }
        if !faults.is_empty() {
            return Err(Fault::Senseless(faults));
        }
        let lacks = lacks(spec);
        if !lacks.is_empty() {
            return Err(Fault::Lacking(lacks));
        }
        Self::ask(spec).map_err(Fault::Failed)
    }

    fn ask(spec: &Spec) -> Result<Self, String> {
        let command = servant::with_namespaces(spec.network.is_some(), spec.disk.is_some());
        let mut keeper = Servant::start(command, "keeper", spec)?;
        let answer = keeper.hear().map_err(|why| format!("keeper: {why}"));
        let made = answer.and_then(|answer| {
            serde_json::from_str::<Result<Record, String>>(&answer).map_err(|e| e.to_string())?
        });
        match made {
            Ok(record) => Ok(Self { keeper: Some(keeper), record }),
            Err(why) => {
                let _ = keeper.end(Duration::MAX);
                Err(why)
            }
        }
    }

    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Memory of its server, without the page cache, bytes; None: no limit, or no number.
    pub(crate) fn own_memory(&self) -> Option<f64> {
        glance::own_memory(&self.record.groups)
    }

    /// Changes the limit on memory, which it has.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn limit_memory(&self, bytes: u64) -> Result<(), String> {
        match &self.record.groups.memory {
            Some(group) => groups::set_memory(group, bytes),
            None => Ok(()),
        }
    }

    pub fn root(&self) -> Option<&Path> {
        self.record.root.as_deref()
    }

    /// A command that runs a program inside. Whatever it starts is inside, too, and ends with the
    /// environment at the latest.
    pub fn command(&self, place: Place, program: &Path) -> Command {
        let entry = match place {
            Place::Server => &self.record.server,
            Place::Client => &self.record.client,
        };
        entry.command(program)
    }

    /// Ends everything in it and undoes it.
    ///
    /// # Errors
    /// If something could not be undone; the keeper has said what on standard error.
    pub fn end(mut self) -> Result<(), String> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), String> {
        let Some(keeper) = self.keeper.take() else { return Ok(()) };
        // The keeper is not killed, however long it takes: leftovers would stay.
        let undone = keeper.end(Duration::MAX);
        undone.map_err(|why| format!("{}: not all undone: {why}", self.record.id))
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        // Leftovers are in the ledger, and the keeper has reported them.
        let _ = self.finish();
    }
}

/// Becomes one of our own child processes if this process was started as one: then it does that
/// process's work and gives its exit code. Call it first thing in `main`.
#[must_use]
pub fn child_main() -> Option<ExitCode> {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() != Some(CHILD_WORD) {
        return None;
    }
    let word = words.next().unwrap_or_default();
    let rest: Vec<String> = words.collect();
    let done = match word.as_str() {
        "keeper" => keeper::run(),
        "simdisk" => simdisk::run(),
        "slow" => slow::run(),
        "hold" => keeper::hold(),
        "enter" => servant::enter(&rest),
        "read" => pages::read(&rest),
        other => Err(format!("no child process `{other}`")),
    };
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed, which is no reason to panic.
            let _ = writeln!(std::io::stderr(), "regatta-lab {word}: {error}");
            ExitCode::from(126)
        }
    })
}
