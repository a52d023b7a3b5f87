//! `[environment]`: what servers run in, in the experiment's words.

use super::fields::{At, Fields, nearest, word};
use super::{Experiment, Factor, Machine};
use crate::env::Spec;
use crate::env::spec::{Cpu, Disk, Network, Pages, Profile, REALTIME, size};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use toml::de::DeValue;

/// What the paths of factors of the environment begin with.
const PREFIX: &str = "environment.";
/// The most memory that may be asked for, as a multiple of the file set.
const SHARE_MAX: f64 = 100.0;
/// Bytes of a file set that is not there yet.
const BYTES_UNKNOWN: u64 = 1 << 30;

/// Every key of the section; all but `memory_share` and `memory` go together.
const KEYS: [&str; 20] = [
    "memory",
    "memory_share",
    "pages",
    "accounting",
    "settings",
    "network.layout",
    "network.mtu",
    "network.addresses",
    "network.tcp_wmem",
    "network.tcp_rmem",
    "network.rate",
    "network.delay_ms",
    "network.single_packets",
    "disk.kind",
    "disk.seek_ms",
    "disk.seek",
    "disk.bandwidth",
    "disk.heads",
    "disk.queue",
    "disk.read_ahead_kb",
];

/// What servers run in. What is left out is as the machine has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// A network of its own.
    pub network: Option<Network>,
    /// The memory of the server's group, page cache included.
    pub memory: Memory,
    /// A simulated disk that holds the file set.
    pub disk: Option<Disk>,
    /// What the page cache holds of the file set when a trial begins.
    pub pages: Pages,
    /// Kernel settings.
    pub settings: Profile,
    /// Whether the kernel accounts how long tasks wait for the disk.
    pub accounting: bool,
}

/// A limit on memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// None.
    #[default]
    Unlimited,
    /// So many bytes.
    Bytes(u64),
    /// So much of the bytes of the file set, in whole pages.
    Share(f64),
}

impl Environment {
    /// With the levels of a cell that are about it.
    #[must_use]
    pub fn at(&self, levels: &BTreeMap<String, String>) -> Self {
        let mut at = self.clone();
        for (path, level) in levels {
            if let Some(key) = path.strip_prefix(PREFIX) {
                // The file's reader has tried every level.
                let _ = at.set(key, level);
            }
        }
        at
    }

    /// Whether its memory is a share of the file set.
    pub(crate) fn is_share(&self) -> bool {
        matches!(self.memory, Memory::Share(_))
    }

    /// The limit on memory where files of so many bytes are served; 0: none.
    pub(crate) fn memory_of(&self, files: u64) -> u64 {
        self.memory.bytes(files)
    }

    /// The specification of it; None: the machine itself. `files` is what is served, `bytes` its
    /// size.
    pub(crate) fn spec(&self, machine: &Machine, files: &Path, bytes: u64) -> Option<Spec> {
        if *self == Self::default() && machine.slowed_to().is_none() {
            return None;
        }
        let cpu = Cpu {
            server: machine.server_cpus.clone(),
            client: machine.load_cpus().to_vec(),
            disk: machine.disk_cpus().to_vec(),
            left_percent: machine.slowed_to().unwrap_or(0),
            realtime: if machine.realtime { REALTIME } else { 0 },
            ..Cpu::default()
        };
        Some(Spec {
            network: self.network.clone(),
            memory_bytes: self.memory.bytes(bytes),
            cpu,
            disk: self.disk.clone(),
            files: Some(files.to_owned()),
            pages: self.pages,
            profile: self.settings,
            accounting: self.accounting,
            ..Spec::default()
        })
    }

    /// Sets what a key of the section names.
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "memory" => self.memory = Memory::of(size(value)?),
            "memory_share" => {
                let share = value.parse().ok().filter(|share| (0.0..=SHARE_MAX).contains(share));
                let wrong = || format!("`{value}` is not a share of the file set");
                self.memory = Memory::Share(share.filter(|share| *share > 0.0).ok_or_else(wrong)?);
            }
            "pages" => self.pages = chosen(value, &["cold", "warm", "as-is"])?,
            "settings" => self.settings = chosen(value, &["default", "geneves"])?,
            "accounting" => {
                let wrong = |_| format!("`{value}` is neither true nor false");
                self.accounting = value.parse().map_err(wrong)?;
            }
            _ => match key.split_once('.') {
                Some(("network", key)) if known(&format!("network.{key}")) => {
                    self.network.get_or_insert_default().set(key, value)?;
                }
                Some(("disk", key)) if known(&format!("disk.{key}")) => {
                    self.disk.get_or_insert_default().set(key, value)?;
                }
                _ => return Err(unknown(key)),
            },
        }
        Ok(())
    }

    /// Tries one value alone: what is wrong with it, if anything.
    fn fault(key: &str, value: &str) -> Option<String> {
        let mut probe = Self::default();
        if let Err(why) = probe.set(key, value) {
            return Some(why);
        }
        if key == "settings" {
            probe.network = Some(Network::default());
        }
        let spec = probe.spec(&Machine::default(), Path::new("/"), BYTES_UNKNOWN)?;
        // `mtu: 10 is not from ..`: the key is said already.
        let said = spec.faults().into_iter().next()?;
        Some(said.split_once(": ").map_or(said.clone(), |(_, what)| what.to_owned()))
    }
}

impl Memory {
    fn of(bytes: u64) -> Self {
        if bytes == 0 { Self::Unlimited } else { Self::Bytes(bytes) }
    }

    /// In bytes, with files of so many; 0: no limit.
    fn bytes(self, files: u64) -> u64 {
        match self {
            Self::Unlimited => 0,
            Self::Bytes(bytes) => bytes,
            Self::Share(share) => part(files, share),
        }
    }
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#[expect(clippy::allow_attributes_without_reason, reason = "a limit need not be exact")]
fn part(bytes: u64, share: f64) -> u64 {
    (bytes as f64 * share) as u64
}

impl Experiment {
    /// Every environment that its cells ask for, each once.
    pub(crate) fn specs(&self) -> Vec<Spec> {
        let mut specs: Vec<Spec> = Vec::new();
        for cell in crate::experiment::plan::cells(self) {
            let (levels, root) = (&cell.levels, Path::new("/"));
            let environment = self.environment.at(levels);
            let spec = environment.spec(&self.machine.at(levels), root, BYTES_UNKNOWN);
            specs.extend(spec.filter(|spec| !specs.contains(spec)));
        }
        specs
    }
}

/// Whether the path of a factor names something of the environment.
pub(super) fn is_factor(path: &str) -> bool {
    path.strip_prefix(PREFIX).is_some_and(known)
}

/// What is wrong with a level of such a factor.
pub(super) fn level_fault(path: &str, level: &str) -> Option<String> {
    Environment::fault(path.strip_prefix(PREFIX).filter(|key| known(key))?, level)
}

/// What makes no sense only as a whole, with the machine's part.
pub(super) fn faults(experiment: &Experiment) -> Vec<String> {
    let level_is_wrong = |factor: &Factor| {
        factor.levels.iter().any(|level| level_fault(&factor.path, level).is_some())
    };
    // Each of those is said where it stands.
    if experiment.factors.iter().any(level_is_wrong) {
        return Vec::new();
    }
    experiment.specs().iter().flat_map(Spec::faults).collect()
}

/// Reads the section.
pub(super) fn read(fields: Fields<'_, '_, '_>) -> Environment {
    let mut environment = Environment::default();
    read_into(&fields, "", &mut environment);
    if let (Some(value), Some(_)) = (fields.value("memory"), fields.value("memory_share")) {
        fields.wrong(value, "memory", "either this or memory_share");
    }
    environment
}

fn read_into(fields: &Fields<'_, '_, '_>, prefix: &str, environment: &mut Environment) {
    for (key, value) in fields.entries() {
        let path = format!("{prefix}{key}");
        if matches!(value.get_ref(), DeValue::Table(_)) && ["network", "disk"].contains(&&*path) {
            // An empty table asks for one as it comes.
            match &*path {
                "network" => environment.network = Some(Network::default()),
                _ => environment.disk = Some(Disk::default()),
            }
            if let Some(inner) = fields.table(&key) {
                read_into(&inner, &format!("{path}."), environment);
            }
            continue;
        }
        match said(&path, value) {
            Ok(word) => {
                // It was tried just now.
                let _ = environment.set(&path, &word);
            }
            Err(why) => fields.wrong(value, &key, &why),
        }
    }
}

/// A value that can be set, as a word.
fn said(path: &str, value: At<'_, '_>) -> Result<String, String> {
    if !known(path) {
        return Err(unknown(path));
    }
    let single = word(value.get_ref()).filter(|_| !matches!(value.get_ref(), DeValue::Array(_)));
    let word = single.ok_or("expected a single value")?;
    Environment::fault(path, &word).map_or(Ok(word), Err)
}

fn known(key: &str) -> bool {
    KEYS.contains(&key)
}

fn unknown(key: &str) -> String {
    match nearest(key, KEYS) {
        Some(near) => format!("unknown key; did you mean environment.{near}?"),
        None => format!("unknown key; known: {}", KEYS.join(", ")),
    }
}

fn chosen<T: serde::de::DeserializeOwned>(value: &str, choices: &[&str]) -> Result<T, String> {
    let wrong = || format!("{value:?} is none of {}", choices.join(", "));
    serde_json::from_value(value.into()).ok().filter(|_| choices.contains(&value)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::spec::{Kind, NetworkLayout, Queue, Seek};
    use crate::experiment::plan::cells;
    use crate::experiment::{Scale, parse};

    const BEGINNING: &str = r#"
experiment = { name = "x", question = "?", expect = "!" }
targets.a = { program = "nginx" }
workload = { root = "." }
machine.server_cpus = "0"
machine.client_cpus = "1"
machine.realtime = true
"#;

    fn read_text(more: &str) -> Result<Experiment, Vec<String>> {
        parse("e.toml", &format!("{BEGINNING}{more}"), Scale::Quick)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_section_becomes_a_specification() {
        let experiment = read_text(
            r#"[environment]
memory_share = 0.5
pages = "warm"
accounting = true
settings = "geneves"
[environment.network]
layout = "pair"
mtu = 9000
addresses = 2
tcp_wmem = "4096 16384 131072"
rate = "100MB"
delay_ms = 0.5
single_packets = true
[environment.disk]
seek_ms = 2
seek = "constant"
bandwidth = "50MB"
heads = 2
queue = "nearest"
read_ahead_kb = 8192
"#,
        );
        let experiment = experiment.unwrap();
        let files = Path::new("/srv");
        let spec = experiment.environment.spec(&experiment.machine, files, 1 << 30).unwrap();
        let network = Network {
            layout: NetworkLayout::Pair,
            mtu: 9_000,
            addresses: 2,
            tcp_wmem: "4096 16384 131072".to_owned(),
            tcp_rmem: String::new(),
            rate: 100_000_000,
            delay_ms: 0.5,
            single_packets: true,
        };
        let disk = Disk {
            seek_ms: 2.0,
            seek: Seek::Fixed,
            bandwidth: 50_000_000,
            heads: 2,
            queue: Queue::Nearest,
            read_ahead_kb: 8_192,
            ..Disk::default()
        };
        let cpu = Cpu { server: vec![0], client: vec![1], realtime: REALTIME, ..Cpu::default() };
        let wanted = Spec {
            network: Some(network),
            memory_bytes: 1 << 29,
            cpu,
            disk: Some(disk),
            files: Some(files.to_owned()),
            pages: Pages::Warm,
            profile: Profile::Geneves,
            accounting: true,
            ..Spec::default()
        };
        assert_eq!(spec, wanted);
        let text = serde_json::to_string(&experiment).unwrap();
        assert_eq!(serde_json::from_str::<Experiment>(&text).unwrap(), experiment);
    }

    #[test]
    fn without_it_there_is_the_machine_itself_or_a_slower_one() {
        let plain = read_text("").unwrap();
        assert_eq!(plain.specs(), []);
        let slower = read_text("machine.server_left = 40").unwrap();
        let [spec] = &slower.specs()[..] else { panic!("{:?}", slower.specs()) };
        assert_eq!((spec.cpu.left_percent, spec.cpu.server.as_slice()), (40, &[0][..]));
        let inside = read_text("environment.disk.kind = \"in-process\"").unwrap();
        assert_eq!(inside.environment.disk.unwrap().kind, Kind::InProcess);
        let empty = read_text("[environment.disk]").unwrap();
        assert_eq!(empty.environment.disk, Some(Disk::default()));
    }

    #[test]
    fn every_key_can_be_a_factor() {
        let experiment = read_text(
            r#"[environment.disk]
[factors]
"environment.memory" = ["64MiB", 0]
"environment.disk.read_ahead_kb" = [8192, 128, 0]
"environment.network.mtu" = [1500]
"#,
        );
        let experiment = experiment.unwrap();
        assert_eq!(experiment.specs().len(), 6);
        let last = cells(&experiment).last().unwrap().levels.clone();
        let at = experiment.environment.at(&last);
        assert_eq!((at.memory, at.disk.unwrap().read_ahead_kb), (Memory::Unlimited, 0));
        assert_eq!(at.network.unwrap().mtu, 1_500);
        assert_eq!(experiment.factors[0].label(), "memory");
    }

    #[test]
    fn everything_wrong_is_said_at_its_place() {
        let said = read_text(
            r#"[environment]
memroy = "84MiB"
memory = "84Q"
memory_share = 0
pages = "hot"
accounting = "yes"
settings = "geneves"
network.single = true
disk.seek_ms = -1
disk.seek = "random"
disk.kind = "inside"
disk.bandwidth = 0
disk.image = "x"
disk.heads = [1]
colour = 1
[factors]
"environment.memory" = ["1MiB", "84MiB"]
"environment.disk.reed_ahead_kb" = [1]
"environment.network.mtu" = [1500, 10]
"#,
        );
        let said = said.unwrap_err();
        for part in [
            "e.toml:9:10: environment.memroy: unknown key; did you mean environment.memory?",
            "e.toml:10:10: environment.memory: `84Q` is not a size",
            "e.toml:10:10: environment.memory: either this or memory_share",
            "e.toml:11:16: environment.memory_share: `0` is not a share",
            "e.toml:12:9: environment.pages: \"hot\" is none of cold, warm, as-is",
            "e.toml:13:14: environment.accounting: `yes` is neither true nor false",
            "e.toml:15:18: environment.network.single: unknown key",
            "e.toml:16:16: environment.disk.seek_ms: -1 is out of range",
            "e.toml:17:13: environment.disk.seek: no `random`",
            "e.toml:18:13: environment.disk.kind: no `inside`",
            "e.toml:19:18: environment.disk.bandwidth: a disk has some",
            "e.toml:20:14: environment.disk.image: unknown key",
            "e.toml:21:14: environment.disk.heads: expected a single value",
            "e.toml:22:10: environment.colour: unknown key; known: memory,",
            "e.toml:24:24: factors.environment.memory: 1048576 bytes are too few",
            "e.toml:25:36: factors.environment.disk.reed_ahead_kb: not a factor",
            "e.toml:26:29: factors.environment.network.mtu: 10 is not from 576",
        ] {
            assert!(said.iter().any(|line| line.starts_with(part)), "{part} is not in {said:#?}");
        }
        assert_eq!(said.len(), 17, "{said:#?}");
        let said = read_text("[environment]\nsettings = \"geneves\"").unwrap_err();
        let wanted = "e.toml:8:1: environment: profile geneves: needs a network of its own";
        assert!(said.len() == 1 && said[0].starts_with(wanted), "{said:?}");
    }
}
