//! A network of its own: devices, addresses, packet size, what the link carries, and its kernel
//! settings.

use super::servant::{Servant, with_namespaces};
use super::spec::{Network, NetworkLayout, Profile};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

/// The device between two namespaces, on both sides.
const DEVICE: &str = "regatta0";
/// Most bytes sent at once above the rate; also the least that fits the kernel's largest packet.
const BURST_BYTES: u64 = 65_536;
/// Longest wait of a packet before it is dropped, ms.
const BACKLOG_MS: u32 = 100;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    pub addresses: Vec<String>,
    /// The device between server and client.
    pub device: String,
    /// The devices, as `ip` prints them.
    pub links: String,
    /// Shaping of the devices, as `tc` prints it; empty if there is none.
    pub shaping: String,
}

#[derive(Debug)]
pub(super) struct Link {
    client: Option<Servant>,
}

impl Link {
    /// Makes it in the namespace of this process, which is new and empty.
    pub(super) fn make(network: &Network) -> Result<Self, String> {
        let mtu = network.mtu.to_string();
        match network.layout {
            NetworkLayout::Loopback => {
                ip(&["link", "set", "dev", "lo", "mtu", &mtu, "up"])?;
                addresses(network, "lo", "32")?;
                shape(network, "lo")?;
                Ok(Self { client: None })
            }
            NetworkLayout::Pair => {
                let mut client =
                    Servant::start(with_namespaces(true, false), "hold", &Vec::<usize>::new())?;
                client.hear()?;
                let pid = client.pid().to_string();
                let peer = ["type", "veth", "peer", "name", DEVICE, "netns", &pid];
                ip(&[&["link", "add", DEVICE], peer.as_slice()].concat())?;
                ip(&["link", "set", "dev", "lo", "up"])?;
                ip(&["link", "set", "dev", DEVICE, "mtu", &mtu, "up"])?;
                addresses(network, DEVICE, "24")?;
                shape(network, DEVICE)?;
                let over_there = |words: &[&str]| ip_in(Some(&pid), words);
                over_there(&["link", "set", "dev", "lo", "up"])?;
                over_there(&["link", "set", "dev", DEVICE, "mtu", &mtu, "up"])?;
                for subnet in 1..=network.addresses {
                    let address = format!("10.9.{subnet}.2/24");
                    over_there(&["address", "add", &address, "dev", DEVICE])?;
                }
                if network.single_packets {
                    over_there(&["link", "set", "dev", DEVICE, "gso_max_segs", "1"])?;
                }
                Ok(Self { client: Some(client) })
            }
        }
    }

    /// The process whose network the client shares, if it is another.
    pub(super) fn client(&self) -> Option<u32> {
        self.client.as_ref().map(Servant::pid)
    }

    pub(super) fn describe(&self, network: &Network) -> Result<Described, String> {
        let device = if self.client.is_some() { DEVICE } else { "lo" };
        let shaping = if network.rate > 0 || network.delay_ms > 0.0 {
            output(Command::new("tc").args(["qdisc", "show", "dev", device]))?
        } else {
            String::new()
        };
        Ok(Described {
            addresses: (1..=network.addresses).map(|i| format!("10.9.{i}.1")).collect(),
            device: device.to_owned(),
            links: output(Command::new("ip").args(["-oneline", "link", "show"]))?,
            shaping,
        })
    }

    /// Lets go of the client's namespace; ours ends with this process.
    pub(super) fn end(self) {
        if let Some(client) = self.client {
            client.dismiss();
        }
    }
}

fn addresses(network: &Network, device: &str, length: &str) -> Result<(), String> {
    for subnet in 1..=network.addresses {
        ip(&["address", "add", &format!("10.9.{subnet}.1/{length}"), "dev", device])?;
    }
    if network.single_packets {
        ip(&["link", "set", "dev", device, "gso_max_segs", "1"])?;
    }
    Ok(())
}

/// Lets a device carry no more than the rate, and delays what it carries.
fn shape(network: &Network, device: &str) -> Result<(), String> {
    let add = ["qdisc", "add", "dev", device];
    if network.delay_ms > 0.0 {
        let delay = format!("{}us", network.delay_ms * 1e3);
        run(Command::new("tc").args(add).args(["root", "handle", "1:", "netem", "delay", &delay]))?;
    }
    if network.rate > 0 {
        let place: &[&str] =
            if network.delay_ms > 0.0 { &["parent", "1:1"] } else { &["root", "handle", "1:"] };
        let (rate, burst) = (format!("{}bps", network.rate), BURST_BYTES.to_string());
        let latency = format!("{BACKLOG_MS}ms");
        let tbf = ["tbf", "rate", &rate, "burst", &burst, "latency", &latency];
        run(Command::new("tc").args(add).args(place).args(tbf))?;
    }
    Ok(())
}

fn ip(words: &[&str]) -> Result<(), String> {
    ip_in(None, words)
}

/// `ip`, in the network of another process.
fn ip_in(pid: Option<&str>, words: &[&str]) -> Result<(), String> {
    let Some(pid) = pid else { return run(Command::new("ip").args(words)) };
    let namespace = format!("--net=/proc/{pid}/ns/net");
    run(Command::new("nsenter").args([&namespace, "--", "ip"]).args(words))
}

pub(super) fn run(command: &mut Command) -> Result<(), String> {
    output(command).map(|_| ())
}

/// Output of a program, or its errors if it fails.
pub(super) fn output(command: &mut Command) -> Result<String, String> {
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    let name = format!("{} {}", command.get_program().display(), words.join(" "));
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{name}: {}", said.trim().replace('\n', "; ")))
    }
}

/// A setting of the namespace, which ends with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    pub name: String,
    pub was: String,
    pub is: String,
}

/// [G] table I, as far as it concerns the network (systems.md §5.7). `tcp_tw_recycle` is gone from
/// Linux; `tcp_tw_reuse` stands for it.
const GENEVES: &str = include_str!("../../assets/geneves.conf");

/// The rest of the table: settings of the whole machine.
const MACHINE: &str = "net.core.netdev_max_backlog vm.max_map_count fs.file-max kernel.pid_max \
    kernel.randomize_va_space";

/// Applies the settings of a network in the namespace of this process. Returns those that were set,
/// and those of the profile that were left alone, since they belong to the whole machine.
pub(super) fn apply(
    network: &Network,
    profile: Profile,
) -> Result<(Vec<Setting>, Vec<String>), String> {
    let (mut settings, mut left_alone) = (Vec::new(), Vec::new());
    if profile == Profile::Geneves {
        for (name, value) in GENEVES.lines().filter_map(|line| line.split_once(" = ")) {
            match set(name, value)? {
                Some(setting) => settings.push(setting),
                None => left_alone.push(name.to_owned()),
            }
        }
        left_alone.extend(MACHINE.split(' ').map(str::to_owned));
    }
    // Settings given by name override the profile.
    for (name, value) in
        [("net.ipv4.tcp_wmem", &network.tcp_wmem), ("net.ipv4.tcp_rmem", &network.tcp_rmem)]
    {
        if !value.is_empty() {
            let setting = set(name, value)?.ok_or_else(|| format!("{name} cannot be set here"))?;
            settings.push(setting);
        }
    }
    Ok((settings, left_alone))
}

/// Sets one; None if a namespace has none of its own: depending on the kernel it is then not to be
/// seen, or not to be changed, from inside.
fn set(name: &str, value: &str) -> Result<Option<Setting>, String> {
    let file = Path::new("/proc/sys").join(name.replace('.', "/"));
    let read = || {
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{name}: {error}"))?;
        Ok::<_, String>(text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    if !file.exists() {
        return Ok(None);
    }
    let was = read()?;
    match std::fs::write(&file, value) {
        Ok(()) => Ok(Some(Setting { name: name.to_owned(), was, is: read()? })),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(None),
        Err(error) => Err(format!("{name} = {value}: {error}")),
    }
}
