//! `[environment]`: what servers run in, read into the specification of environments.

use super::fields::{At, Fields, nearest, word};
use super::{Experiment, Factor};
use crate::env::Spec;
use crate::env::spec::{Cpu, Disk, Network, REALTIME};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use toml::de::DeValue;

/// What the paths of factors of the environment begin with.
const PREFIX: &str = "environment.";
/// Bytes of a file set that is not there yet.
const BYTES_UNKNOWN: u64 = 1 << 30;
/// How keys begin that are no experiment's: `[machine]` and the lab say these.
const OWN: [&str; 4] = ["cpu.", "scratch", "disk.size", "disk.writable"];

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

/// What is wrong with one value alone, if anything.
fn fault(key: &str, value: &str) -> Option<String> {
    let mut probe = Spec { files: Some("/".into()), ..Spec::default() };
    if key == "settings" {
        probe.network = Some(Network::default());
    }
    if let Err(why) = probe.set(key, value) {
        return Some(why);
    }
    // `mtu: 10 is not from ..`: the key is said already.
    let said = probe.faults().into_iter().next()?;
    Some(said.split_once(": ").map_or(said.clone(), |(_, what)| what.to_owned()))
}

/// Every key of the section.
fn keys() -> Vec<String> {
    let (network, disk) = (Some(Network::default()), Some(Disk::default()));
    let all = Spec { network, disk, memory_share: Some(1.0), ..Spec::default() };
    let mut named = BTreeMap::new();
    flatten("", &serde_json::to_value(all).unwrap_or_default(), &mut named);
    let names = named.keys().filter_map(|name| name.strip_prefix('.'));
    names.filter(|name| !OWN.iter().any(|own| name.starts_with(own))).map(str::to_owned).collect()
}

/// Every value below `path` by its dotted name; what is null has none.
pub(crate) fn flatten(path: &str, value: &Value, out: &mut BTreeMap<String, String>) {
    match value {
        Value::Null => {}
        Value::Object(keys) => {
            keys.iter().for_each(|(key, value)| flatten(&format!("{path}.{key}"), value, out));
        }
        Value::String(text) => drop(out.insert(path.to_owned(), text.clone())),
        other => drop(out.insert(path.to_owned(), other.to_string())),
    }
}

/// Whether the path of a factor names something of the environment.
pub(super) fn is_factor(path: &str) -> bool {
    path.strip_prefix(PREFIX).is_some_and(known)
}

/// What is wrong with a level of such a factor.
pub(super) fn level_fault(path: &str, level: &str) -> Option<String> {
    fault(path.strip_prefix(PREFIX).filter(|key| known(key))?, level)
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
pub(super) fn read(fields: Fields<'_, '_, '_>) -> Spec {
    let mut environment = Spec::default();
    read_into(&fields, "", &mut environment);
    if let (Some(value), Some(_)) = (fields.value("memory"), fields.value("memory_share")) {
        fields.wrong(value, "memory", "either this or memory_share");
    }
    environment
}

fn read_into(fields: &Fields<'_, '_, '_>, prefix: &str, environment: &mut Spec) {
    for (key, value) in fields.entries() {
        let path = format!("{prefix}{key}");
        if matches!(value.get_ref(), DeValue::Table(_)) && ["network", "disk"].contains(&&*path) {
            // An empty table asks for one as it comes.
            let _ = environment.set_section(&path, "");
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
    fault(path, &word).map_or(Ok(word), Err)
}

fn known(key: &str) -> bool {
    keys().iter().any(|known| known == key)
}

fn unknown(key: &str) -> String {
    let keys = keys();
    match nearest(key, keys.iter().map(String::as_str)) {
        Some(near) => format!("unknown key; did you mean environment.{near}?"),
        None => format!("unknown key; known: {}", keys.join(", ")),
    }
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
            "e.toml:11:16: environment.memory_share: 0 is not a share of the files",
            "e.toml:12:9: environment.pages: unknown variant `hot`, expected one of",
            "e.toml:13:14: environment.accounting: invalid type: string \"yes\", expected",
            "e.toml:15:18: environment.network.single: unknown key",
            "e.toml:16:16: environment.disk.seek_ms: -1 is not from 0 to 1000",
            "e.toml:17:13: environment.disk.seek: unknown variant `random`",
            "e.toml:18:13: environment.disk.kind: unknown variant `inside`",
            "e.toml:19:18: environment.disk.bandwidth: a disk has some",
            "e.toml:20:14: environment.disk.image: unknown key",
            "e.toml:21:14: environment.disk.heads: expected a single value",
            "e.toml:22:10: environment.colour: unknown key; known: accounting,",
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
