//! Limits of a machine, found before anything is made.

use super::groups::Hierarchies;
use super::spec::{Cpu, Kind, Lack, Profile, STAND_IN, Spec};
use rustix::fs::{Access, access};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ROOT: &str = "root";
/// Everything that this machine lacks for a specification. An empty list means that making it is
/// worth a try.
pub fn lacks(spec: &Spec) -> Vec<Lack> {
    let mut found = Vec::new();
    let mut lack = |part, needs: &str, instead: &str| found.push(Lack::of(part, needs, instead));
    let is_root = rustix::process::geteuid().is_root();
    if let Some(network) = &spec.network {
        if !is_root {
            lack("network", ROOT, "");
        } else if let Some(program) = missing(&["unshare", "nsenter", "ip"]) {
            lack("network", program, "apt-get install util-linux iproute2");
        } else if !succeeds("unshare", &["--net", "true"]) {
            lack("network", "network namespaces (CAP_SYS_ADMIN)", "");
        } else {
            let shaped = network.rate > 0 || network.delay_ms > 0.0;
            if shaped && missing(&["tc"]).is_some() {
                lack("shaping", "tc", "apt-get install iproute2");
            }
            let tbf = ["tbf", "rate", "1mbit", "burst", "64kb", "latency", "50ms"];
            if network.rate > 0 && !has_queueing(&tbf) {
                lack(
                    "rate",
                    "a kernel with NET_SCH_TBF",
                    "accept.pacing_rate paces each connection",
                );
            }
            if network.delay_ms > 0.0 && !has_queueing(&["netem", "delay", "1ms"]) {
                lack("delay_ms", "a kernel with NET_SCH_NETEM", "");
            }
        }
    }
    if spec.disk.as_ref().is_some_and(|disk| disk.kind == Kind::Device) {
        if !is_root {
            lack("disk", ROOT, STAND_IN);
        } else if let Some(program) = missing(&["mkfs.ext4", "losetup", "unshare"]) {
            lack("disk", program, "apt-get install e2fsprogs mount util-linux");
        } else if !can("/dev/fuse") || !can("/dev/loop-control") {
            lack("disk", "/dev/fuse and /dev/loop-control", STAND_IN);
        } else if !succeeds("unshare", &["--mount", "true"]) {
            lack("disk", "mount namespaces (CAP_SYS_ADMIN)", STAND_IN);
        }
    }
    if let Some((part, needs)) = Hierarchies::here().lack(spec) {
        lack(part, needs, "");
    }
    if spec.accounting && !can("/proc/sys/kernel/task_delayacct") {
        lack("accounting", "a kernel with TASK_DELAY_ACCT, and root", "");
    }
    let first = spec.cpu.realtime > 0 || spec.cpu.left_percent > 0;
    if (spec.cpu.nice < 0 || first) && !is_root {
        lack("priority", ROOT, "");
    } else if first && !succeeds("chrt", &["--fifo", "1", "true"]) {
        lack("realtime", "chrt and real-time priorities (CAP_SYS_NICE)", "nice=-15");
    }
    let here = std::thread::available_parallelism().map_or(1, usize::from);
    let Cpu { server, client, disk, .. } = &spec.cpu;
    if let Some(cpu) = server.iter().chain(client).chain(disk).find(|cpu| **cpu >= here) {
        lack("cpu", &format!("a processor {cpu}"), &format!("there are {here}"));
    }
    found
}

impl Spec {
    /// Specification without the parts that this machine lacks; None: nothing remains, and the
    /// machine itself is used.
    #[must_use]
    pub fn without(mut self, lacking: &[Lack]) -> Option<Self> {
        for lack in lacking {
            match (lack.part.as_str(), &mut self.network) {
                ("network", _) => (self.network, self.profile) = (None, Profile::Default),
                ("shaping", Some(network)) => (network.rate, network.delay_ms) = (0, 0.0),
                ("rate", Some(network)) => network.rate = 0,
                ("delay_ms", Some(network)) => network.delay_ms = 0.0,
                ("memory", _) => self.memory_bytes = 0,
                ("quota", _) => self.cpu.quota_percent = 0,
                ("disk", _) => self.disk = None,
                ("accounting", _) => self.accounting = false,
                ("priority" | "realtime", _) => {
                    self.cpu.realtime = 0;
                    self.cpu.left_percent = 0;
                    self.cpu.nice = self.cpu.nice.max(0);
                }
                // Without groups nothing could be undone, and without processors nothing runs.
                ("groups" | "cpu", _) => return None,
                _ => {}
            }
        }
        let rest = Self {
            cpu: Cpu {
                server: Vec::new(),
                client: Vec::new(),
                disk: Vec::new(),
                realtime: 0,
                ..self.cpu.clone()
            },
            files: None,
            scratch: PathBuf::new(),
            ..self.clone()
        };
        (rest != Self::default()).then_some(self)
    }
}

fn missing<'a>(programs: &[&'a str]) -> Option<&'a str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    programs.iter().find(|name| !has(name)).copied()
}

fn can(file: &str) -> bool {
    access(Path::new(file), Access::READ_OK | Access::WRITE_OK).is_ok()
}

/// Whether the kernel has a queueing discipline: tried in a namespace that ends at once.
fn has_queueing(words: &[&str]) -> bool {
    let add = ["--net", "tc", "qdisc", "add", "dev", "lo", "root"];
    succeeds("unshare", &[&add, words].concat())
}

fn succeeds(program: &str, words: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::{Lack, STAND_IN, lacks};
    use crate::env::spec::{Cpu, Disk, Kind, Network, Spec};

    #[test]
    fn a_processor_that_is_not_there_is_said() {
        let cpu = Cpu { server: vec![1_023], ..Cpu::default() };
        let found = lacks(&Spec { cpu, ..Spec::default() });
        assert!(found.iter().any(|lack| lack.to_string().starts_with("cpu: needs a processor")));
    }

    #[test]
    fn what_is_lacking_is_left_out_and_nothing_takes_its_place() {
        let lack = |part: &str| Lack::of(part, "", "");
        let network = Network { rate: 1_000_000, ..Network::default() };
        let disk = Some(Disk::default());
        let spec = Spec { network: Some(network), memory_bytes: 1 << 26, disk, ..Spec::default() };
        let left = spec.clone().without(&[lack("disk"), lack("rate")]).unwrap();
        let wanted =
            Spec { network: Some(Network::default()), memory_bytes: 1 << 26, ..Spec::default() };
        assert_eq!(left, wanted);
        assert_eq!(spec.clone().without(&[]), Some(spec.clone()));
        assert_eq!(spec.clone().without(&[lack("groups")]), None);
        // A split of the processors alone is no environment.
        let cpu = Cpu { server: vec![0], client: vec![1], disk: vec![1], ..Cpu::default() };
        let spec = Spec { cpu, ..spec };
        assert_eq!(spec.without(&[lack("network"), lack("memory"), lack("disk")]), None);
    }

    #[test]
    fn a_disk_that_is_not_allowed_has_a_stand_in_and_one_in_process_needs_nothing() {
        let lack = |part: &str, instead: &str| Lack::of(part, "", instead);
        let with = |kind: Kind| Spec {
            disk: Some(Disk { kind, ..Disk::default() }),
            memory_bytes: 1 << 26,
            ..Spec::default()
        };
        for (kind, lacking, taken) in [
            (Kind::Device, vec![], false),
            (Kind::Device, vec![lack("disk", "apt-get install mount")], false),
            (Kind::Device, vec![lack("groups", ""), lack("disk", STAND_IN)], true),
            (Kind::InProcess, vec![], true),
        ] {
            let mut spec = with(kind);
            let disk = spec.take_stand_in(&lacking);
            assert_eq!((disk.is_some(), spec.disk.is_some()), (taken, !taken), "{lacking:?}");
        }
        assert!(lacks(&with(Kind::InProcess)).iter().all(|lack| lack.part != "disk"));
    }
}
