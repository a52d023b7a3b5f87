//! Control groups of both versions: where they are, what they limit, and how all in one are ended.

use super::ledger::{Ledger, Made, write};
use super::spec::Spec;
use crate::units::At;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The least that the kernel grants at once, us. A limit gives that much in each period, so that
/// periods are as short as can be: a slow processor does not stop for 10 ms.
const GRANT_US: u64 = 1_000;
/// Version 1 hierarchies in which a group may keep the processes together.
const KEEPING: [&str; 5] = ["pids", "freezer", "memory", "cpu", "cpuacct"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hierarchies {
    /// Version 2.
    unified: Option<PathBuf>,
    /// The controllers that version 2 has here.
    controllers: Vec<String>,
    /// Version 1, by controller.
    single: BTreeMap<String, PathBuf>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    pub server: Vec<PathBuf>,
    pub client: Vec<PathBuf>,
    /// The one whose memory is limited.
    pub memory: Option<PathBuf>,
    /// The one whose processor time is limited.
    pub cpu: Option<PathBuf>,
}

impl Groups {
    /// The limit of the server's memory as the kernel has it, bytes.
    pub(super) fn memory_bytes(&self) -> Option<u64> {
        self.of_memory(["memory.limit_in_bytes", "memory.max"])
    }

    /// Memory of the group that has a limit, page cache included, bytes.
    pub(super) fn memory_used(&self) -> Option<u64> {
        self.of_memory(["memory.usage_in_bytes", "memory.current"])
    }

    /// A number of the group whose memory is limited, by its names in versions 1 and 2.
    fn of_memory(&self, names: [&str; 2]) -> Option<u64> {
        let group = self.memory.as_deref()?;
        let text = names.iter().find_map(|name| std::fs::read_to_string(group.join(name)).ok());
        text?.trim().parse().ok()
    }
}

impl Hierarchies {
    pub(super) fn here() -> Self {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut found = Self::parse(&table);
        if let Some(root) = &found.unified {
            let text = std::fs::read_to_string(root.join("cgroup.controllers"));
            let words = text.unwrap_or_default();
            found.controllers = words.split_whitespace().map(str::to_owned).collect();
        }
        found
    }

    /// Reads /proc/self/mountinfo: where each hierarchy was mounted first.
    fn parse(table: &str) -> Self {
        let mut found = Self::default();
        for line in table.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let (Some(point), mut right) = (left.split(' ').nth(4), right.split(' ')) else {
                continue;
            };
            match (right.next(), right.nth(1)) {
                (Some("cgroup2"), _) if found.unified.is_none() => {
                    found.unified = Some(point.into());
                }
                (Some("cgroup"), Some(options)) => {
                    for controller in options.split(',') {
                        let entry = found.single.entry(controller.to_owned());
                        entry.or_insert_with(|| point.into());
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Hierarchy in which a controller can be used, if any, and its version.
    fn place(&self, controller: &str) -> Option<(&Path, Version)> {
        let one = self.single.get(controller).map(|root| (root.as_path(), Version::One));
        let in_two = self.controllers.iter().any(|name| name == controller);
        one.or_else(|| Some((self.unified.as_deref().filter(|_| in_two)?, Version::Two)))
    }

    /// A hierarchy that can at least keep processes together.
    fn keeping(&self) -> Option<(&Path, Version)> {
        let single = || KEEPING.iter().find_map(|name| self.single.get(*name));
        let unified = self.unified.as_deref().map(|root| (root, Version::Two));
        unified.or_else(|| Some((single()?.as_path(), Version::One)))
    }

    /// Part of a specification that this machine lacks, if any, and what it needs.
    pub(super) fn lack(&self, spec: &Spec) -> Option<(&'static str, &'static str)> {
        let writable = |place: Option<(&Path, Version)>| {
            place.is_some_and(|(root, _)| {
                rustix::fs::access(root, rustix::fs::Access::WRITE_OK).is_ok()
            })
        };
        if !writable(self.keeping()) {
            Some(("groups", "a control group hierarchy that can be written (mounted, as root)"))
        } else if spec.memory_bytes > 0 && !writable(self.place("memory")) {
            Some(("memory", "the memory controller (cgroup v1 or v2) for the memory limit"))
        } else if spec.cpu.quota_percent > 0 && !writable(self.place("cpu")) {
            Some(("quota", "the cpu controller (cgroup v1 or v2) for the limit on processor time"))
        } else {
            None
        }
    }

    pub(super) fn make(&self, spec: &Spec, ledger: &mut Ledger) -> Result<Groups, String> {
        let id = &ledger.id().to_owned();
        let mut groups = Groups::default();
        let (root, version) = self.keeping().ok_or("no control groups")?;
        let family = root.join(id);
        new_group(&family, ledger)?;
        match version {
            Version::One => {
                groups.server.push(family.clone());
                groups.client.push(family.clone());
            }
            Version::Two => {
                for (name, list) in [("server", &mut groups.server), ("client", &mut groups.client)]
                {
                    new_group(&family.join(name), ledger)?;
                    list.push(family.join(name));
                }
            }
        }
        if spec.memory_bytes > 0 {
            let group = self.limited("memory", id, &mut groups, ledger)?;
            set_memory(&group, spec.memory_bytes)?;
            groups.memory = Some(group);
        }
        if spec.cpu.quota_percent > 0 {
            let group = self.limited("cpu", id, &mut groups, ledger)?;
            set_quota(&group, spec.cpu.quota_percent)?;
            if spec.cpu.nice < 0 || spec.cpu.realtime > 0 {
                prefer(&group)?;
            }
            groups.cpu = Some(group);
        }
        Ok(groups)
    }

    /// The server's group in which a controller works.
    fn limited(
        &self,
        controller: &str,
        id: &str,
        groups: &mut Groups,
        ledger: &mut Ledger,
    ) -> Result<PathBuf, String> {
        let (root, version) =
            self.place(controller).ok_or(format!("no {controller} controller"))?;
        let family = root.join(id);
        match version {
            Version::One => {
                if !groups.server.contains(&family) {
                    new_group(&family, ledger)?;
                    groups.server.push(family.clone());
                }
                Ok(family)
            }
            Version::Two => {
                enable(root, controller, ledger)?;
                enable(&family, controller, ledger)?;
                Ok(family.join("server"))
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

fn new_group(path: &Path, ledger: &mut Ledger) -> Result<(), String> {
    ledger.before(Made::Group { path: path.to_owned() })?;
    std::fs::create_dir(path).at(path)
}

/// Lets the children of a version 2 group have a controller.
fn enable(group: &Path, controller: &str, ledger: &mut Ledger) -> Result<(), String> {
    let file = group.join("cgroup.subtree_control");
    let words = std::fs::read_to_string(&file).unwrap_or_default();
    if words.split_whitespace().any(|word| word == controller) {
        return Ok(());
    }
    // The list goes with the group; only the root's own outlives us.
    if !group.ends_with(ledger.id()) {
        ledger.before(Made::Setting { path: file.clone(), was: format!("-{controller}") })?;
    }
    write(&file, &format!("+{controller}"))
}

pub(super) fn set_memory(group: &Path, bytes: u64) -> Result<(), String> {
    let old = group.join("memory.limit_in_bytes");
    if old.exists() {
        return write(&old, &bytes.to_string());
    }
    write(&group.join("memory.max"), &bytes.to_string())?;
    // With swap, a limit on memory alone would only move the pages there.
    let swap = group.join("memory.swap.max");
    if swap.exists() { write(&swap, "0") } else { Ok(()) }
}

fn set_quota(group: &Path, percent: u32) -> Result<(), String> {
    let percent = u64::from(percent);
    let period = if percent < 100 { GRANT_US * 100 / percent } else { GRANT_US };
    let quota = if percent < 100 { GRANT_US } else { GRANT_US * percent / 100 };
    let old = group.join("cpu.cfs_quota_us");
    if old.exists() {
        write(&group.join("cpu.cfs_period_us"), &period.to_string())?;
        return write(&old, &quota.to_string());
    }
    write(&group.join("cpu.max"), &format!("{quota} {period}"))
}

/// Lets a group have what it is allowed before others: priorities count only inside of groups.
fn prefer(group: &Path) -> Result<(), String> {
    let old = group.join("cpu.shares");
    if old.exists() { write(&old, "262144") } else { write(&group.join("cpu.weight"), "10000") }
}

#[cfg(test)]
mod tests {
    use super::{Hierarchies, Version, set_memory, set_quota};
    use crate::env::spec::Spec;
    use crate::folder::Folder;
    use std::path::Path;

    const HYBRID: &str = "\
25 1 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw
26 25 0:23 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
27 25 0:24 / /sys/fs/cgroup/memory rw,relatime shared:3 - cgroup cgroup rw,memory
28 25 0:25 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn both_versions_are_found() {
        let mut found = Hierarchies::parse(HYBRID);
        let memory = Path::new("/sys/fs/cgroup/memory");
        assert_eq!(found.place("memory"), Some((memory, Version::One)));
        let unified = Path::new("/sys/fs/cgroup/unified");
        assert_eq!(found.keeping(), Some((unified, Version::Two)));
        assert_eq!(found.place("io"), None);
        found.controllers.push("io".to_owned());
        assert_eq!(found.place("io"), Some((unified, Version::Two)));

        let two = Hierarchies::parse("30 1 0:9 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
        assert_eq!(two.keeping(), Some((Path::new("/sys/fs/cgroup"), Version::Two)));
        let none = Hierarchies::parse("garbage\n1 2 3 - x\n");
        assert_eq!(none, Hierarchies::default());
        assert!(none.lack(&Spec::default()).is_some());
    }

    #[test]
    fn limits_are_written_as_each_version_wants_them() {
        let folder = Folder::new("lab-test");
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        std::fs::write(folder.join("memory.swap.max"), "max").unwrap();
        set_memory(&folder, 1 << 28).unwrap();
        set_quota(&folder, 50).unwrap();
        assert_eq!((read("memory.max"), read("memory.swap.max")), ("268435456".into(), "0".into()));
        assert_eq!(read("cpu.max"), "1000 2000");
        for old in ["memory.limit_in_bytes", "cpu.cfs_quota_us"] {
            std::fs::write(folder.join(old), "-1").unwrap();
        }
        set_memory(&folder, 1 << 27).unwrap();
        set_quota(&folder, 150).unwrap();
        assert_eq!(read("memory.limit_in_bytes"), "134217728");
        let quota = (read("cpu.cfs_period_us"), read("cpu.cfs_quota_us"));
        assert_eq!(quota, ("1000".into(), "1500".into()));
    }
}
