//! Places of trials: the machine itself, or an environment made for them; connections that a
//! server's listeners dropped, and processes that were killed for want of memory.

use crate::env::spec::{Disk, IN_PROCESS, Pages};
use crate::env::{self, Environment, Glance, Lack, Place, Record, Spec};
use crate::experiment::Experiment;
use crate::record::{Cell, Numbers};
use crate::servers::process::{output_of, run_to_end};
use crate::units::At;
use regatta_load::engine::Kernel;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const IMAGE_MAX: Duration = Duration::from_secs(3_600);
/// Port of servers in a network of their own, where it is always free.
const PORT: u16 = 8_080;

/// Makes the places of a run's trials.
#[derive(Debug)]
pub(crate) struct Rooms<'a> {
    pub(crate) experiment: &'a Experiment,
    /// Parts that this machine does not allow, and that trials do without.
    lacking: &'a [Lack],
    root: PathBuf,
    /// Size of the directory in whole pages, bytes, if any limit is a share of it.
    bytes: u64,
    /// The image of the simulated disk, as all trials begin with it.
    image: PathBuf,
    /// File for the disk's log of requests.
    log: PathBuf,
    /// An environment that the next trial can use, too.
    kept: RefCell<Option<(Spec, Rc<Environment>)>>,
    /// Actual environments since they were last taken, by their levels.
    found: RefCell<BTreeMap<String, Record>>,
    /// The most memory that servers took so far, by their cells, bytes.
    footprints: Footprints,
}

/// Memory of servers without the page cache, by their cells, bytes.
type Footprints = Rc<RefCell<BTreeMap<String, f64>>>;

/// Place of a trial.
#[derive(Debug)]
pub(crate) struct Room {
    environment: Option<Rc<Environment>>,
    /// The directory that is served, as the server sees it.
    pub(crate) root: PathBuf,
    /// The disk that the server is to simulate itself.
    pub(crate) stand_in: Option<Disk>,
    /// Source of its limit on memory; None: the limit is fixed.
    memory: Option<ScaledMemory>,
}

/// A limit on memory that grows with the server's own.
#[derive(Debug)]
struct ScaledMemory {
    spec: Spec,
    cell: String,
    footprints: Footprints,
}

impl<'a> Rooms<'a> {
    /// For the trials of a run in `directory`, which serve `root`.
    pub(crate) fn new(
        experiment: &'a Experiment,
        lacking: &'a [Lack],
        root: PathBuf,
        directory: &Path,
    ) -> Result<Self, String> {
        let cells = crate::experiment::plan::cells(experiment);
        let of_files = |cell: &Cell| experiment.environment_at(&cell.levels).memory_share.is_some();
        let bytes = if cells.iter().any(of_files) { env::space(&root)?.0 } else { 0 };
        Ok(Self {
            experiment,
            lacking,
            root,
            bytes,
            image: directory.join("disk.ext4"),
            log: directory.join("scratch/disk.tsv"),
            kept: RefCell::default(),
            found: RefCell::default(),
            footprints: Footprints::default(),
        })
    }

    /// Makes the disk's image, if any trial needs one and it is not there.
    pub(crate) fn build(&self, stop: &AtomicBool) -> Result<(), String> {
        let cells = crate::experiment::plan::cells(self.experiment);
        let has_disk = |spec: Option<Spec>| spec.is_some_and(|spec| spec.disk.is_some());
        let wanted = cells.iter().any(|cell| has_disk(self.spec(cell).0));
        if !wanted || self.image.exists() {
            return Ok(());
        }
        let part = self.image.with_extension("part");
        let errors = self.log.with_file_name("image.err");
        let words = env::image_words(Some(&self.root), 0, &part)?;
        match run_to_end(words, &errors, IMAGE_MAX, stop)? {
            (Some(0), _) => fs::rename(&part, &self.image).at(&self.image),
            (code, said) => Err(format!("the disk's image could not be made ({code:?}): {said}")),
        }
    }

    /// Removes what only an unfinished run needs.
    pub(crate) fn clear(&self) {
        let _ = fs::remove_file(&self.image);
    }

    /// Environment of a cell's trials (None: the machine itself), and the disk that their servers
    /// simulate themselves.
    fn spec(&self, cell: &Cell) -> (Option<Spec>, Option<Disk>) {
        let asked = self.experiment.spec(&cell.levels, &self.root, self.bytes);
        let Some(mut asked) = asked else { return (None, None) };
        let stand_in = asked.take_stand_in(self.lacking);
        let mut spec = asked.without(self.lacking);
        if let Some(disk) = spec.as_mut().and_then(|spec| spec.disk.as_mut()) {
            (disk.image, disk.log) = (Some(self.image.clone()), Some(self.log.clone()));
        }
        (spec, stand_in)
    }

    /// Note on every trial of a cell.
    pub(crate) fn note(&self, cell: &Cell) -> Option<String> {
        self.spec(cell).1.map(|_| format!("note: {IN_PROCESS}"))
    }

    /// A place for a trial of a cell. Each trial gets a new one, unless nothing of it wears out.
    pub(crate) fn enter(&self, cell: &Cell) -> Result<Room, String> {
        let (spec, stand_in) = self.spec(cell);
        let Some(spec) = spec else {
            if stand_in.is_some() {
                let pages = self.experiment.environment_at(&cell.levels).pages;
                env::settle_pages(&self.root, pages)?;
            }
            return Ok(Room { environment: None, root: self.root.clone(), stand_in, memory: None });
        };
        let (spec, memory) = self.scaled(spec, cell);
        let mut kept = self.kept.borrow_mut();
        let same = kept.take_if(|(of, _)| *of == spec).map(|(_, environment)| environment);
        // Two at a time would be in each other's way.
        *kept = None;
        let environment = match same {
            Some(environment) => environment,
            None => Rc::new(Environment::make(&spec).map_err(|fault| fault.to_string())?),
        };
        let about = cell.levels.iter().filter(|(path, _)| path.starts_with("environment."));
        let about = Cell {
            levels: about.map(|(path, level)| (path.clone(), level.clone())).collect(),
            ..cell.clone()
        };
        let record = environment.record().clone();
        self.found.borrow_mut().entry(crate::record::levels(&about)).or_insert(record);
        let root = environment.root().unwrap_or(&self.root).to_owned();
        if spec.disk.is_none() && spec.memory_bytes == 0 && spec.pages == Pages::AsIs {
            *kept = Some((spec, Rc::clone(&environment)));
        }
        Ok(Room { environment: Some(environment), root, stand_in, memory })
    }

    /// An environment whose limit on memory makes up for what the cell's server took before.
    fn scaled(&self, spec: Spec, cell: &Cell) -> (Spec, Option<ScaledMemory>) {
        if spec.memory_bytes == 0 || spec.memory_scale <= 1.0 {
            return (spec, None);
        }
        let cell = cell.name();
        let own = self.footprints.borrow().get(&cell).copied().unwrap_or_default();
        let limited = Spec { memory_bytes: spec.limit_with(own), ..spec.clone() };
        (limited, Some(ScaledMemory { spec, cell, footprints: Rc::clone(&self.footprints) }))
    }

    /// Actual environments since the last call, by their levels.
    pub(crate) fn found(&self) -> BTreeMap<String, Record> {
        self.found.take()
    }
}

impl Room {
    /// The environment, if it is not the machine itself.
    pub(crate) fn inside(&self, place: Place) -> Option<(&Environment, Place)> {
        self.environment.as_deref().map(|environment| (environment, place))
    }

    /// Addresses for the server, if given: every address of a network of its own.
    pub(crate) fn addresses(&self) -> Option<Vec<SocketAddr>> {
        let network = self.environment.as_deref()?.record().network.as_ref()?;
        u8::try_from(network.addresses.len()).ok().map(addresses)
    }

    /// Whether a server takes connections at an address.
    pub(crate) fn listens(&self, address: SocketAddr) -> bool {
        let Some((environment, _)) = self.addresses().and(self.inside(Place::Server)) else {
            return TcpStream::connect(address).is_ok();
        };
        // The keeper's network is the server's, and not to be reached from here.
        let keeper = environment.record().keeper;
        ["tcp", "tcp6"].iter().any(|table| {
            let table = fs::read_to_string(format!("/proc/{keeper}/net/{table}"));
            table.is_ok_and(|table| listening(&table, address.port()))
        })
    }

    /// Share of each of the server's processors that the environment takes on purpose.
    pub(crate) fn taken(&self) -> f64 {
        let left = self.environment.as_deref().map(|one| one.record().spec.cpu.left_percent);
        left.filter(|left| *left > 0).map_or(0.0, |left| 1.0 - f64::from(left) / 100.0)
    }

    /// Connections that listeners at these ports have dropped so far; None if unknown.
    pub(crate) fn drops(&self, ports: &BTreeSet<u16>) -> Option<u64> {
        let keeper = self.environment.as_deref().map(|one| one.record().keeper);
        match keeper.filter(|_| self.addresses().is_some()) {
            // All that listens in the network is the server's.
            Some(keeper) => so_far(Some(keeper), PORT),
            None => ports.iter().map(|port| so_far(None, *port)).sum(),
        }
    }

    /// The control group that holds the server and nothing else, if there is one.
    pub(crate) fn server_group(&self) -> Option<PathBuf> {
        let groups = &self.environment.as_deref()?.record().groups;
        groups.server.iter().find(|group| !groups.client.contains(group)).cloned()
    }

    /// Processes that the kernel has killed for want of memory: of the server's where its memory is
    /// limited, else of the machine's; None if unknown.
    pub(crate) fn out_of_memory(&self) -> Option<u64> {
        let record = self.environment.as_deref().map(Environment::record);
        out_of_memory(record.and_then(|record| record.groups.memory.as_deref()))
    }

    /// Raises the limit on memory if the server takes more than it ever did in this cell.
    pub(crate) fn make_up(&self) -> Result<(), String> {
        let Some((memory, environment)) = self.memory.as_ref().zip(self.environment.as_deref())
        else {
            return Ok(());
        };
        let own = environment.own_memory().unwrap_or_default();
        let mut footprints = memory.footprints.borrow_mut();
        let most = footprints.entry(memory.cell.clone()).or_default();
        if own <= *most {
            return Ok(());
        }
        *most = own;
        environment.limit_memory(memory.spec.limit_with(own))
    }

    pub(crate) fn look(&self) -> Option<Glance> {
        self.environment.as_deref().map(|environment| Glance::at(environment.record()))
    }

    pub(crate) fn numbers(
        &self,
        before: Option<Glance>,
        after: Option<Glance>,
    ) -> Result<Numbers, String> {
        match (self.environment.as_deref(), before, after) {
            (Some(environment), Some(before), Some(after)) => {
                env::numbers(environment.record(), &before, &after)
            }
            _ => Ok(Numbers::new()),
        }
    }

    /// Undoes the environment, unless another trial will use it.
    pub(crate) fn leave(mut self) -> Result<(), String> {
        match self.environment.take().map(Rc::try_unwrap) {
            Some(Ok(environment)) => environment.end(),
            _ => Ok(()),
        }
    }
}

/// Addresses of servers in a network of `count` addresses, each in a subnet of its own.
pub(crate) fn addresses(count: u8) -> Vec<SocketAddr> {
    let address = |subnet| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 9, subnet, 1)), PORT);
    (1..=count).map(address).collect()
}

/// Whether a table of connections (`/proc/net/tcp`) has a listener at a port.
fn listening(table: &str, port: u16) -> bool {
    let at = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let local = words.next().is_some_and(|local| local.ends_with(&at));
        // 0A: TCP_LISTEN.
        local && words.nth(1) == Some("0A")
    })
}

/// Connections dropped so far by listeners at `port`. `keeper` is a process of the network, if that
/// is the server's alone. None if unknown.
pub(crate) fn so_far(keeper: Option<u32>, port: u16) -> Option<u64> {
    if let Some(keeper) = keeper {
        return Some(Kernel::read_of(&keeper.to_string()).listen_drops);
    }
    let port = format!(":{port}");
    parse_drops(&output_of(&["ss", "-Hltnm", "sport", "=", &port])?)
}

/// The drops (`d` of `skmem`, ss(8)) of all listeners in ss's answer; None without any.
fn parse_drops(said: &str) -> Option<u64> {
    let counts = said.split("skmem:(").skip(1).map(|rest| {
        let inside = rest.split(')').next()?;
        inside.split(',').find_map(|part| part.strip_prefix('d')?.parse::<u64>().ok())
    });
    counts.reduce(|sum, one| Some(sum? + one?)).flatten()
}

/// Processes that the kernel has killed for want of memory: in a control group of either version,
/// or without one on the whole machine. None where it does not say.
pub(crate) fn out_of_memory(group: Option<&Path>) -> Option<u64> {
    let read = |path: &Path| parse(&fs::read_to_string(path).ok()?);
    match group {
        Some(group) => {
            ["memory.events", "memory.oom_control"].iter().find_map(|file| read(&group.join(file)))
        }
        None => read(Path::new("/proc/vmstat")),
    }
}

/// The line `oom_kill N`, which all three files have.
fn parse(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::listening;

    #[test]
    fn listeners_are_found_in_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n   \
                     0: 0101090A:1F90 00000000:0000 0A 00000000:00000000 00:00000000\n   \
                     1: 0101090A:1F91 0101090A:1F90 01 00000000:00000000 00:00000000\n";
        assert!(listening(table, 8_080));
        assert!(!listening(table, 8_081) && !listening("", 8_080));
    }
}

#[cfg(test)]
mod listen_drops_tests {
    use super::*;
    use regatta_testkit::skips::skip;
    use std::net::TcpListener;

    #[test]
    fn drops_are_those_of_the_port() {
        let said = "LISTEN 102 128 127.0.0.1:42029 0.0.0.0:*\n\t \
                    skmem:(r0,rb131072,t0,tb16384,f0,w0,o0,bl0,d39692)\nLISTEN 0 128 ...\n\t \
                    skmem:(r0,rb131072,t0,tb16384,f0,w0,o0,bl0,d8)\n";
        assert_eq!(parse_drops(said), Some(39_700));
        assert_eq!(parse_drops(""), None, "nobody listens");
        assert_eq!(parse_drops("skmem:(r0,rb1)"), None, "an ss of long ago");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        match output_of(&["ss", "-V"]) {
            Some(_) => assert_eq!(so_far(None, port), Some(0)),
            None => skip("needs ss"),
        }
        assert!(so_far(Some(std::process::id()), port).is_some());
    }
}

#[cfg(test)]
mod out_of_memory_tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn kills_are_counted_in_both_versions_and_on_the_machine() {
        let one = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        let two = "low 0\nhigh 0\nmax 12\noom 4\noom_kill 2\noom_group_kill 1\n";
        assert_eq!((parse(one), parse(two)), (Some(3), Some(2)));
        assert_eq!(parse("oom_kill_disable 0\n"), None, "a kernel of long ago");
        let folder = Folder::new("lab-test");
        assert_eq!(out_of_memory(Some(&*folder)), None);
        for (file, text, kills) in [("memory.oom_control", one, 3), ("memory.events", two, 2)] {
            fs::write(folder.join(file), text).unwrap();
            assert_eq!(out_of_memory(Some(&*folder)), Some(kills), "{file}");
        }
        let vmstat = fs::read_to_string("/proc/vmstat").unwrap_or_default();
        assert_eq!(out_of_memory(None).is_some(), vmstat.contains("oom_kill "));
    }
}
