//! Specification of an environment: network, memory, processors, disk, page cache, kernel settings.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Explanation of a run's label, if it has one.
pub(crate) const STANDS_IN: &str =
    "regatta's servers simulate the disk in their own process (docs/environments.md)";
/// The real-time priority of loads that run before everything else.
pub(crate) const REALTIME: u32 = 10;
/// Label of numbers that were measured with a disk of [`Kind::InProcess`].
pub const IN_PROCESS: &str = "simulated-in-process";

/// Processors at most: as many as the kernel's usual set of them has room for.
const CPUS_MAX: usize = 1_024;

/// The least memory that a server can start in, bytes.
const MEMORY_MIN: u64 = 4 << 20;
/// The most memory as a share of the files.
const MEMORY_SHARE_MAX: f64 = 100.0;
/// The real-time priority of what makes a processor slow.
pub(super) const REALTIME_MAX: u32 = 49;

/// An environment. Absent or zero values leave the machine's state.
///
/// Its keys are those of `[environment]` in experiments ([`Spec::set`]).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Spec {
    /// A network of its own; None: the machine's.
    pub network: Option<Network>,
    /// The most memory that the server's group may use, its page cache included, bytes; 0: no
    /// limit ([E], [S]: "2 GB"; systems.md §5.4).
    #[serde(rename = "memory", deserialize_with = "bytes")]
    pub memory_bytes: u64,
    /// The same as a share of the bytes of the files; [`Spec::limited`] makes bytes of it.
    pub memory_share: Option<f64>,
    /// Factor by which memory is smaller than on the paper's machine: the server's own memory then
    /// counts as if it were smaller, too. 0: it counts in full.
    pub memory_scale: f64,
    /// Place and speed of server and client.
    pub cpu: Cpu,
    /// A simulated disk that holds [`Self::files`]; None: the machine's.
    pub disk: Option<Disk>,
    /// The directory that is to be served; None: nothing.
    pub files: Option<PathBuf>,
    /// State of the page cache at the start, for the files.
    pub pages: Pages,
    #[serde(rename = "settings")]
    pub profile: Profile,
    /// Whether the kernel is to account how long tasks wait for the disk
    /// (`kernel.task_delayacct`).
    pub accounting: bool,
    /// Directory for large files; empty: the system's place for temporary files.
    pub scratch: PathBuf,
}

/// A network namespace (systems.md §5.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    pub layout: NetworkLayout,
    pub mtu: u32,
    /// Addresses of the server, 10.9.1.1 to 10.9.N.1: the "subnets" of the papers.
    pub addresses: u8,
    /// `net.ipv4.tcp_wmem`: three sizes in bytes; empty: the kernel's.
    pub tcp_wmem: String,
    /// `net.ipv4.tcp_rmem`: likewise.
    pub tcp_rmem: String,
    /// Rate of the link from the server, bytes per second (tbf); 0: no limit.
    #[serde(deserialize_with = "bytes")]
    pub rate: u64,
    /// Delay of each packet from the server, milliseconds (netem); 0: none.
    pub delay_ms: f64,
    /// Whether packets travel alone: without it the kernel hands up to 64 KiB on at once, whatever
    /// the MTU.
    pub single_packets: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkLayout {
    #[default]
    Loopback,
    /// Each in a namespace of its own, with a pair of devices between (veth).
    Pair,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cpu {
    #[serde(deserialize_with = "processors")]
    pub server: Vec<usize>,
    #[serde(deserialize_with = "processors")]
    pub client: Vec<usize>,
    /// Processors of the simulated disk; empty: the client's.
    #[serde(deserialize_with = "processors")]
    pub disk: Vec<usize>,
    /// The most time that the server's group gets, per cent of one processor; 0: no limit. The
    /// kernel looks at its ticks: with 250 of them a second, 20 % is 4 ms, then 16 ms of nothing.
    pub quota_percent: u32,
    /// Share of each of the server's processors that is left, per cent; 0: all. A real-time task
    /// takes the rest, in periods of 0.5 ms, which makes a slower processor.
    pub left_percent: u32,
    /// The priority of server and client, -20 (first) to 19; 0: the usual one.
    pub nice: i32,
    /// The real-time priority (SCHED_FIFO) of client and simulated disk, 1 to 48: they run before
    /// everything else on a machine that others use, too; 0: none. The server then has nice -20,
    /// since its tasks have to share a processor as they do anywhere.
    pub realtime: u32,
}

/// A simulated disk (systems.md §5.5): a block store that takes as long as a disk would, under a
/// loop device with direct I/O, under ext4.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Disk {
    pub kind: Kind,
    /// Time of a head's move to another place, milliseconds; with `seek = distance` the mean over
    /// all pairs of places.
    pub seek_ms: f64,
    pub seek: Seek,
    /// Rate at which a head reads or writes, bytes per second.
    #[serde(deserialize_with = "bytes")]
    pub bandwidth: u64,
    /// Heads that work at the same time on one queue; [S] had two disks.
    pub heads: u32,
    pub queue: Queue,
    pub writable: bool,
    /// Size, bytes; 0: as the files need.
    #[serde(deserialize_with = "bytes")]
    pub size: u64,
    /// Read-ahead of the kernel, KiB (`read_ahead_kb` of this device only).
    pub read_ahead_kb: u32,
    /// A ready image, as [`super::build_image`] makes it, which is left as it is; None: one is
    /// made of the files.
    pub image: Option<PathBuf>,
    /// Log of the requests; None: none that lasts.
    pub log: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A process of the lab's: all that asks a disk, asks it.
    #[default]
    Device,
    /// Simulated in the process of Regatta's server alone, and nothing but its seek, its bandwidth
    /// and its heads. Needs nothing of the machine.
    InProcess,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seek {
    /// Always as long, unless the place is the one where it stands.
    #[default]
    #[serde(alias = "constant")]
    Fixed,
    /// With the square root of the distance: 0.4 of the mean to the neighbour, 1.5 across.
    Distance,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    #[default]
    Fifo,
    /// The nearest to the head, unless one has waited for too long.
    Nearest,
    /// The nearest, after a pause for the next piece of the file: the scheduler of Linux 2.6.16.
    Anticipatory,
    /// The oldest, after such a pause: the slices of CFQ in Linux 2.6.24.
    Slices,
}

impl Queue {
    /// Longest time that a head waits for the next piece of a file, nanoseconds.
    pub(super) fn pause_ns(self) -> u64 {
        match self {
            Self::Fifo | Self::Nearest => 0,
            // antic_expire, and slice_idle.
            Self::Anticipatory => 6_700_000,
            Self::Slices => 8_000_000,
        }
    }

    /// The same order of requests, without pauses.
    pub(super) fn without_pauses(self) -> Self {
        match self {
            Self::Fifo | Self::Slices => Self::Fifo,
            Self::Nearest | Self::Anticipatory => Self::Nearest,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pages {
    #[default]
    AsIs,
    /// Nothing: written back and dropped, file by file.
    Cold,
    /// Filled up to the group's memory. All is read inside the group, since a page counts for the
    /// group that touches it first (systems.md §0.3).
    Warm,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    #[default]
    Default,
    /// Settings of [G], table I, as far as a namespace has its own (systems.md §5.7).
    Geneves,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            layout: NetworkLayout::Loopback,
            mtu: 1_500,
            addresses: 1,
            tcp_wmem: String::new(),
            tcp_rmem: String::new(),
            rate: 0,
            delay_ms: 0.0,
            single_packets: false,
        }
    }
}

impl Default for Disk {
    /// The disk with which the papers' ratio of disk to processor is met here (systems.md §5.5).
    fn default() -> Self {
        Self {
            kind: Kind::Device,
            seek_ms: 3.0,
            seek: Seek::Fixed,
            bandwidth: 100_000_000,
            heads: 1,
            queue: Queue::Fifo,
            writable: false,
            size: 0,
            read_ahead_kb: 128,
            image: None,
            log: None,
        }
    }
}

impl Disk {
    /// The options with which regatta's server simulates it in its own process.
    pub(crate) fn options(&self) -> [(&'static str, String); 5] {
        let seek_us = Duration::from_secs_f64(self.seek_ms / 1e3).as_micros();
        [
            ("lab.disk_heads", self.heads.to_string()),
            ("lab.disk_seek_us", seek_us.to_string()),
            ("lab.disk_bandwidth", self.bandwidth.to_string()),
            // Half a seek, so that every wait is counted: the kernel, which counts them otherwise,
            // sees none.
            ("event.stall_us", (seek_us / 2).max(1).to_string()),
            // The kernel tells others than the files' owner nothing of what is in memory.
            ("server.user", "root".to_owned()),
        ]
    }
}

impl Spec {
    /// Gives a key its value, both as they stand in a file or on a command line: `memory` `256M`,
    /// `disk.seek_ms` `4`, `cpu.server` `0-3`.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let mut next = self.clone();
        match key.split_once('.') {
            Some(("network", _)) => drop(next.network.get_or_insert_default()),
            Some(("disk", _)) => drop(next.disk.get_or_insert_default()),
            // The one stands in for the other.
            None if key == "memory" => next.memory_share = None,
            None if key == "memory_share" => next.memory_bytes = 0,
            _ => {}
        }
        let mut all = serde_json::to_value(next).map_err(|error| error.to_string())?;
        let place = all.pointer_mut(&format!("/{}", key.replace('.', "/")));
        let single = serde_json::from_str(value).ok().filter(|value: &Value| !value.is_object());
        *place.ok_or("no such key")? = single.unwrap_or_else(|| value.into());
        *self = serde_json::from_value(all).map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Replaces a section, `network` or `disk`, by `mtu=1500,layout=pair`: the other keys have
    /// their usual values.
    pub fn set_section(&mut self, section: &str, text: &str) -> Result<(), String> {
        match section {
            "network" => self.network = Some(Network::default()),
            _ => self.disk = Some(Disk::default()),
        }
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let pair = part.split_once('=').ok_or_else(|| format!("`{part}` is not KEY=VALUE"));
            let (key, value) = pair.map(|(key, value)| (key.trim(), value.trim()))?;
            self.set(&format!("{section}.{key}"), value)
                .map_err(|why| format!("{section}: {key}: {why}"))?;
        }
        Ok(())
    }

    /// Converts the limit on memory from a share of `files` bytes to bytes.
    #[must_use]
    pub fn limited(mut self, files: u64) -> Self {
        if let Some(share) = self.memory_share.take() {
            self.memory_bytes = part(files, share);
        }
        self
    }

    /// The limit on memory, bytes, where the server itself takes `own`: what of that a smaller
    /// server would not take is added.
    pub(crate) fn limit_with(&self, own: f64) -> u64 {
        let limits = self.memory_bytes > 0 && self.memory_scale > 1.0;
        self.memory_bytes + if limits { part(1, own * (1.0 - 1.0 / self.memory_scale)) } else { 0 }
    }

    /// Takes the disk out that the server is to simulate itself: because it was asked for, or since
    /// a machine that lacks this allows no other.
    pub fn take_stand_in(&mut self, lacking: &[Lack]) -> Option<Disk> {
        let no_other = lacking.iter().any(Lack::has_stand_in);
        self.disk.take_if(|disk| disk.kind == Kind::InProcess || no_other)
    }

    /// Everything in it that makes no sense, in words.
    pub fn faults(&self) -> Vec<String> {
        let (cpu, files) = (&self.cpu, self.files.as_ref());
        let mut found = Vec::new();
        let mut fault = |is_wrong: bool, what: String| found.extend(is_wrong.then_some(what));
        for (name, value, least, most) in self.numbers() {
            let is_within = (least..=most).contains(&value);
            fault(!is_within, format!("{name}: {value} is not from {least} to {most}"));
        }
        if let Some(network) = &self.network {
            for (name, sizes) in [("tcp_wmem", &network.tcp_wmem), ("tcp_rmem", &network.tcp_rmem)]
            {
                let three =
                    sizes.split_whitespace().filter(|w| w.parse::<u32>().is_ok()).count() == 3;
                let what = format!("network.{name}: three sizes in bytes, not `{sizes}`");
                fault(!three && !sizes.is_empty(), what);
            }
        }
        if let Some(disk) = &self.disk {
            fault(disk.bandwidth == 0, "disk.bandwidth: a disk has some".to_owned());
            let is_empty = files.is_none() && disk.image.is_none() && disk.size == 0;
            fault(is_empty, "disk: needs files, an image or a size".to_owned());
        }
        let memory = self.memory_bytes;
        let what = format!("memory: {memory} bytes are too few to start in");
        fault(memory != 0 && memory < MEMORY_MIN, what);
        let shares = f64::MIN_POSITIVE..=MEMORY_SHARE_MAX;
        if let Some(share) = self.memory_share.filter(|share| !shares.contains(share)) {
            fault(true, format!("memory_share: {share} is not a share of the files"));
        }
        let of_none = cpu.left_percent > 0 && cpu.server.is_empty();
        fault(of_none, "cpu.left_percent: of which of the server's processors?".to_owned());
        if let Some(files) = files.filter(|files| !files.is_dir()) {
            fault(true, format!("{}: not a directory", files.display()));
        }
        let of_none = self.pages != Pages::AsIs && files.is_none() && self.disk.is_none();
        fault(of_none, "pages: of which files?".to_owned());
        let unset = self.profile == Profile::Geneves && self.network.is_none();
        fault(unset, "settings: geneves needs a network of its own to be set in".to_owned());
        found
    }

    /// The numbers that are given: the key, the value, and the least and the most that it may be.
    fn numbers(&self) -> Vec<(&'static str, f64, f64, f64)> {
        let cpu = &self.cpu;
        let mut all = vec![
            ("memory_scale", self.memory_scale, 1.0, 10_000.0),
            ("cpu.quota_percent", cpu.quota_percent.into(), 1.0, 10_000.0),
            ("cpu.realtime", cpu.realtime.into(), 1.0, f64::from(REALTIME_MAX - 1)),
            ("cpu.left_percent", cpu.left_percent.into(), 5.0, 99.0),
        ];
        // Zero is none.
        all.retain(|(_, value, ..)| *value != 0.0);
        all.push(("cpu.nice", cpu.nice.into(), -20.0, 19.0));
        if let Some(network) = &self.network {
            all.push(("network.mtu", network.mtu.into(), 576.0, 65_536.0));
            all.push(("network.addresses", network.addresses.into(), 1.0, 250.0));
            all.push(("network.delay_ms", network.delay_ms, 0.0, 10_000.0));
        }
        if let Some(disk) = &self.disk {
            all.push(("disk.seek_ms", disk.seek_ms, 0.0, 1_000.0));
            all.push(("disk.heads", disk.heads.into(), 1.0, 64.0));
        }
        all
    }
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#[expect(clippy::allow_attributes_without_reason, reason = "a limit need not be exact")]
fn part(bytes: u64, share: f64) -> u64 {
    (bytes as f64 * share) as u64
}

/// Bytes, as a number or as [`size`] reads them.
fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let read = match Value::deserialize(from)? {
        Value::String(text) => size(&text),
        other => serde_json::from_value(other).map_err(|error| error.to_string()),
    };
    read.map_err(D::Error::custom)
}

/// Processors, as a list, or as [`cpus`] reads them.
pub(crate) fn processors<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<usize>, D::Error> {
    let read = match Value::deserialize(from)? {
        Value::String(text) => cpus(&text),
        number @ Value::Number(_) => cpus(&number.to_string()),
        other => serde_json::from_value(other).map_err(|error| error.to_string()),
    };
    read.map_err(D::Error::custom)
}

/// Reads a size or a rate: `512`, `64K`, `256M`, `50MB`, `2GiB`. `K`, `M`, `G` and `KiB`, `MiB`,
/// `GiB` are powers of 1,024, as in the kernel's files; `kB`, `MB`, `GB` of 1,000.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size such as 256M or 50MB");
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (count, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().trim_end_matches("/s") {
        "" | "B" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    count.parse::<u64>().ok().and_then(|count| count.checked_mul(factor)).ok_or_else(wrong)
}

/// Reads a list of processors as the kernel writes it: `0`, `0-3`, `0,2`.
pub fn cpus(text: &str) -> Result<Vec<usize>, String> {
    let wrong = || format!("`{text}` is not a list of processors such as 0-3");
    let number = |text: &str| text.trim().parse::<usize>().ok().filter(|one| *one < CPUS_MAX);
    let mut found = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = number(first).zip(number(last)).ok_or_else(wrong)?;
        if first > last || found.len() + (last - first) >= CPUS_MAX {
            return Err(wrong());
        }
        found.extend(first..=last);
    }
    Ok(found)
}

/// The replacement of the simulated disk where FUSE or loop devices are not allowed.
pub(crate) const STAND_IN: &str = "instead regatta's servers simulate one in their own process, \
                                   and what is measured is labelled simulated-in-process";

/// Something that a specification needs and this machine does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lack {
    pub part: String,
    pub needs: String,
    /// A way to do without; empty: none.
    pub instead: String,
}

impl Lack {
    pub(crate) fn of(part: &str, needs: &str, instead: &str) -> Self {
        let [part, needs, instead] = [part, needs, instead].map(str::to_owned);
        Self { part, needs, instead }
    }

    /// Whether it is that of a disk which regatta's server can simulate itself.
    pub fn has_stand_in(&self) -> bool {
        self.part == "disk" && self.instead == STAND_IN
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: needs {}", self.part, self.needs)?;
        if self.instead.is_empty() { Ok(()) } else { write!(f, " ({})", self.instead) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cpu, Disk, Network, NetworkLayout, Pages, Profile, Queue, Seek, Spec, cpus, size};

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("512", Some(512)),
            ("256M", Some(256 << 20)),
            ("2GiB", Some(2 << 30)),
            ("50MB", Some(50_000_000)),
            ("50MB/s", Some(50_000_000)),
            ("64 K", Some(65_536)),
            ("", None),
            ("M", None),
            ("12Q", None),
            ("-1", None),
            ("99999999999G", None),
        ] {
            assert_eq!(size(text).ok(), bytes, "{text}");
        }
    }

    #[test]
    fn processors_are_listed_as_the_kernel_does() {
        assert_eq!(cpus("0"), Ok(vec![0]));
        assert_eq!(cpus("0-2,5"), Ok(vec![0, 1, 2, 5]));
        for wrong in ["", "2-1", "x", "0-", "0-9999"] {
            assert!(cpus(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_and_sections_are_read_strictly() {
        let mut spec = Spec::default();
        let text = "seek_ms=4, bandwidth=50MB,queue=nearest,seek=distance,heads=2";
        spec.set_section("disk", text).unwrap();
        spec.set_section("network", "mtu=9000,layout=pair,tcp_wmem=4096 16384 131072").unwrap();
        for (key, value) in
            [("memory", "256M"), ("cpu.server", "0-2"), ("cpu.client", "3"), ("pages", "cold")]
        {
            spec.set(key, value).unwrap();
        }
        let wanted = Spec {
            disk: Some(Disk {
                seek_ms: 4.0,
                bandwidth: 50_000_000,
                queue: Queue::Nearest,
                seek: Seek::Distance,
                heads: 2,
                ..Disk::default()
            }),
            network: Some(Network {
                mtu: 9_000,
                layout: NetworkLayout::Pair,
                tcp_wmem: "4096 16384 131072".to_owned(),
                ..Network::default()
            }),
            memory_bytes: 256 << 20,
            cpu: Cpu { server: vec![0, 1, 2], client: vec![3], ..Cpu::default() },
            pages: Pages::Cold,
            ..Spec::default()
        };
        assert_eq!(spec, wanted);
        for (key, value) in [
            ("disk.seek_ms", "x"),
            ("disk.queue", "lifo"),
            ("disk.sectors", "3"),
            ("network.mtu", "-1"),
            ("network.mtu", "[1]"),
            ("memory", "-1"),
            ("memory", "12Q"),
            ("cpu.server", "2-1"),
            ("cpu", "1"),
            ("", "1"),
        ] {
            assert!(spec.set(key, value).is_err(), "{key} = {value}");
            assert_eq!(spec, wanted, "a wrong value changes nothing");
        }
        assert!(spec.set_section("disk", "seek").is_err());
        assert!(serde_json::from_str::<Spec>("{\"odd\":1}").is_err());
        spec.set("memory_share", "0.5").unwrap();
        assert_eq!((spec.memory_bytes, spec.limited(1 << 20).memory_bytes), (0, 1 << 19));
    }

    #[test]
    fn a_smaller_machine_has_a_smaller_server() {
        for (memory_bytes, memory_scale, own, limit) in [
            (0, 22.7, 1e7, 0),
            (1 << 20, 0.0, 1e7, 1 << 20),
            (1 << 20, 1.0, 1e7, 1 << 20),
            (1 << 20, 2.0, 1e6, (1 << 20) + 500_000),
            (1 << 20, 20.0, 1e6, (1 << 20) + 950_000),
        ] {
            let spec = Spec { memory_bytes, memory_scale, ..Spec::default() };
            assert_eq!(spec.limit_with(own), limit, "{memory_bytes} / {memory_scale}, {own}");
        }
        let spec = Spec { memory_scale: 0.5, ..Spec::default() };
        assert_eq!(spec.faults(), ["memory_scale: 0.5 is not from 1 to 10000"]);
    }

    #[test]
    fn what_makes_no_sense_is_said_at_once() {
        assert_eq!(Spec::default().faults(), Vec::<String>::new());
        let wrong = Spec {
            network: Some(Network {
                mtu: 10,
                addresses: 0,
                delay_ms: f64::NAN,
                tcp_wmem: "1 2".to_owned(),
                ..Network::default()
            }),
            memory_bytes: 1,
            disk: Some(Disk { seek_ms: -1.0, bandwidth: 0, heads: 0, ..Disk::default() }),
            ..Spec::default()
        };
        assert_eq!(wrong.faults().len(), 9, "{:?}", wrong.faults());
        let lonely = Spec { pages: Pages::Cold, profile: Profile::Geneves, ..Spec::default() };
        assert_eq!(lonely.faults().len(), 2, "{:?}", lonely.faults());
    }
}
