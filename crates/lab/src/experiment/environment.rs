//! `[environment]`: the specification of what servers run in.

use super::{Experiment, Factor};
use crate::env::Spec;
use crate::env::spec::{Cpu, Disk, Network, REALTIME};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Prefix of the paths of factors of the environment.
const PREFIX: &str = "environment.";
/// Bytes of a file set that is not there yet.
const BYTES_UNKNOWN: u64 = 1 << 30;
/// The factor of the share of the files that memory holds.
const SHARE: &str = "environment.memory_share";
/// Keys that are no experiment's: `[machine]` and the lab say these.
const OWN: [&str; 4] = ["cpu", "scratch", "size", "writable"];

impl Experiment {
    /// The environment with the levels of a cell that are about it.
    pub(crate) fn environment_at(&self, levels: &BTreeMap<String, String>) -> Spec {
        let mut at = self.environment.clone();
        for (path, level) in levels {
            if let Some(key) = path.strip_prefix(PREFIX) {
                // The file's reader has tried every level.
                let _ = at.set(key, level);
            }
        }
        at
    }

    /// The environment of trials with these levels; None: the machine itself. `files` is what is
    /// served, `bytes` its size.
    pub(crate) fn spec(
        &self,
        levels: &BTreeMap<String, String>,
        files: &Path,
        bytes: u64,
    ) -> Option<Spec> {
        let (at, machine) = (self.environment_at(levels), self.machine.at(levels));
        if at == Spec::default() && machine.slowed_to().is_none() {
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
        Some(Spec { cpu, files: Some(files.to_owned()), ..at.limited(bytes) })
    }

    /// Every environment that its cells ask for, each once.
    pub(crate) fn specs(&self) -> Vec<Spec> {
        let mut specs: Vec<Spec> = Vec::new();
        for cell in crate::experiment::plan::cells(self) {
            let spec = self.spec(&cell.levels, Path::new("/"), BYTES_UNKNOWN);
            specs.extend(spec.filter(|spec| !specs.contains(spec)));
        }
        specs
    }
}

/// Keys of the section, with an object for each table.
pub(super) fn known() -> Value {
    let (network, disk) = (Some(Network::default()), Some(Disk::default()));
    let all = Spec { network, disk, memory_share: Some(1.0), ..Spec::default() };
    let mut known = serde_json::to_value(all).unwrap_or_default();
    for table in ["", "/disk"] {
        if let Some(keys) = known.pointer_mut(table).and_then(Value::as_object_mut) {
            keys.retain(|key, value| !value.is_null() && !OWN.contains(&key.as_str()));
        }
    }
    known
}

/// Whether the path of a factor names something of the environment.
pub(super) fn is_factor(path: &str) -> bool {
    let key = path.strip_prefix(PREFIX).map(|key| format!("/{}", key.replace('.', "/")));
    key.is_some_and(|key| known().pointer(&key).is_some_and(|value| !value.is_object()))
}

pub(super) fn level_fault(path: &str, level: &str) -> Option<String> {
    let key = path.strip_prefix(PREFIX).filter(|_| is_factor(path))?;
    let mut probe = Spec { files: Some("/".into()), ..Spec::default() };
    if key == "settings" {
        probe.network = Some(Network::default());
    }
    if let Err(why) = probe.set(key, level) {
        return Some(why);
    }
    // `network.mtu: 10 is not from ..`: the key is said already.
    let said = probe.faults().into_iter().next()?;
    Some(said.split_once(": ").map_or(said.clone(), |(_, what)| what.to_owned()))
}

/// Faults of the environments of all cells, with the machine's part.
pub(super) fn faults(experiment: &Experiment) -> Vec<String> {
    let level_is_wrong = |factor: &Factor| {
        factor.levels.iter().any(|level| level_fault(&factor.path, level).is_some())
    };
    let specs = if experiment.factors.iter().any(level_is_wrong) {
        // Each of those is said where it stands.
        experiment.spec(&BTreeMap::new(), Path::new("/"), BYTES_UNKNOWN).into_iter().collect()
    } else {
        experiment.specs()
    };
    let mut found: Vec<String> = specs.iter().flat_map(Spec::faults).collect();
    let share = experiment.environment.memory_share;
    if let Some(fault) = share.and_then(|share| level_fault(SHARE, &share.to_string())) {
        found.push(format!("memory_share: {fault}"));
    }
    if share.is_some() && experiment.environment.memory_bytes > 0 {
        found.push("memory: either this or memory_share".to_owned());
    }
    found.into_iter().map(|fault| format!("{PREFIX}{fault}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::spec::{Kind, NetworkLayout, Pages, Profile, Queue, Seek};
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
        let spec = experiment.spec(&BTreeMap::new(), files, 1 << 30).unwrap();
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
        let at = experiment.environment_at(&last);
        assert_eq!((at.memory_bytes, at.disk.unwrap().read_ahead_kb), (0, 0));
        assert_eq!(at.network.unwrap().mtu, 1_500);
        assert_eq!(experiment.factors[0].label(), "memory");
    }

    #[test]
    fn everything_wrong_is_said_at_its_place() {
        let said = read_text(
            r#"[environment]
memroy = "84MiB"
memory = "84MiB"
memory_share = 0
pages = "warm"
colour = 1
network.single = true
network.mtu = 10
disk.seek_ms = -1
disk.bandwidth = 0
disk.image = "x"
cpu.nice = 1
[factors]
"environment.memory" = ["1MiB", "84MiB"]
"environment.disk.reed_ahead_kb" = [1]
"environment.network.mtu" = [1500, 10]
"environment.pages" = ["hot"]
"#,
        );
        let said = said.unwrap_err();
        for part in [
            "e.toml:9:1: unknown key environment.memroy; did you mean memory?",
            "e.toml:10:10: environment.memory: either this or memory_share",
            "e.toml:11:16: environment.memory_share: 0 is not a share of the files",
            "e.toml:13:1: unknown key environment.colour; known: accounting,",
            "e.toml:14:9: unknown key environment.network.single",
            "e.toml:15:15: environment.network.mtu: 10 is not from 576",
            "e.toml:16:16: environment.disk.seek_ms: -1 is not from 0 to 1000",
            "e.toml:17:18: environment.disk.bandwidth: a disk has some",
            "e.toml:18:6: unknown key environment.disk.image",
            "e.toml:19:1: unknown key environment.cpu",
            "e.toml:21:24: factors.environment.memory: 1048576 bytes are too few",
            "e.toml:22:36: factors.environment.disk.reed_ahead_kb: not a factor",
            "e.toml:23:29: factors.environment.network.mtu: 10 is not from 576",
            "e.toml:24:23: factors.environment.pages: unknown variant `hot`",
        ] {
            assert!(said.iter().any(|line| line.starts_with(part)), "{part} is not in {said:#?}");
        }
        assert_eq!(said.len(), 14, "{said:#?}");
        for (line, wanted) in [
            ("memory = \"84Q\"", "10: environment.memory: `84Q` is not a size"),
            ("accounting = \"yes\"", "14: environment.accounting: invalid type: string"),
            ("disk.seek = \"random\"", "13: environment.disk.seek: unknown variant `random`"),
            ("disk.heads = [1]", "14: environment.disk.heads: invalid type: sequence"),
            ("settings = \"geneves\"", "12: environment.settings: geneves needs a network"),
        ] {
            let said = read_text(&format!("[environment]\n{line}")).unwrap_err();
            let wanted = format!("e.toml:9:{wanted}");
            assert!(said.len() == 1 && said[0].starts_with(&wanted), "{said:?}");
        }
    }
}
