//! Kernel settings of a network namespace: those of [G], and socket buffers.

use super::spec::{Network, Profile};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::Path;

/// A setting of the namespace, which ends with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Its name, as sysctl(8) has it.
    pub name: String,
    /// What it was before.
    pub was: String,
    /// What it is, read back.
    pub is: String,
}

/// [G] table I, as far as it concerns the network (systems.md §5.7). `tcp_tw_recycle` is gone from
/// Linux; `tcp_tw_reuse` stands for it.
const GENEVES: [(&str, &str); 14] = [
    ("net.ipv4.tcp_tw_reuse", "1"),
    ("net.ipv4.tcp_fin_timeout", "1"),
    ("net.ipv4.tcp_max_syn_backlog", "200000"),
    ("net.core.somaxconn", "200000"),
    ("net.ipv4.tcp_syncookies", "0"),
    ("net.ipv4.ip_local_port_range", "1024 65000"),
    ("net.ipv4.tcp_rmem", "4096 87380 4194304"),
    ("net.ipv4.tcp_wmem", "4096 65536 4194304"),
    ("net.core.rmem_default", "87380"),
    ("net.core.rmem_max", "4194304"),
    ("net.core.wmem_default", "65536"),
    ("net.core.wmem_max", "4194304"),
    ("net.ipv4.conf.all.arp_filter", "1"),
    ("net.ipv4.conf.lo.arp_filter", "1"),
];

/// The rest of the table: settings of the whole machine.
const MACHINE: &str = "net.core.netdev_max_backlog vm.max_map_count fs.file-max kernel.pid_max \
    kernel.randomize_va_space";

/// Sets what a network asks for, in the namespace of this process: what was set, and settings of
/// the profile that were left alone, since they belong to the whole machine.
pub(super) fn apply(
    network: &Network,
    profile: Profile,
) -> Result<(Vec<Setting>, Vec<String>), String> {
    let (mut settings, mut left_alone) = (Vec::new(), Vec::new());
    if profile == Profile::Geneves {
        for (name, value) in GENEVES {
            match set(name, value)? {
                Some(setting) => settings.push(setting),
                None => left_alone.push(name.to_owned()),
            }
        }
        left_alone.extend(MACHINE.split(' ').map(str::to_owned));
    }
    // What was asked for by name goes before the profile.
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
