//! Limits of this process: memory of the machine and of its control group, and processor time and
//! tasks of its group (cgroups(7), both versions).
use rustix::system::sysinfo;
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// Longest `/proc/self/mountinfo` to read, bytes: machines with many containers have long ones.
const PROC_BYTES_MAX: u64 = 4 << 20;

/// Longest file of a group to read, bytes: each has one line.
const VALUE_BYTES_MAX: u64 = 4096;

/// Most directories above a group to check.
const DEPTH_MAX: usize = 64;

/// A limit on memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes.
    pub bytes: u64,
    /// File with the limit.
    pub file: PathBuf,
}

/// A limit on processor time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Processor time that the group may use in each period, microseconds.
    pub time_us: u64,
    /// The period, microseconds; never 0.
    pub period_us: u64,
    /// File with the limit.
    pub file: PathBuf,
}

impl Quota {
    /// Number of processors that can be busy all the time, rounded up: at least one.
    #[must_use]
    pub fn processors(&self) -> usize {
        usize::try_from(self.time_us.div_ceil(self.period_us).max(1)).unwrap_or(usize::MAX)
    }
}

/// A limit on processes and their threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskLimit {
    /// Most processes and threads.
    pub count: u64,
    /// File with the limit.
    pub file: PathBuf,
}

/// Smallest limits of a control group and its ancestors. `None` where no limit is set or visible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Limit on memory: of the processes, of their sockets' buffers and of the page cache.
    pub memory: Option<Memory>,
    /// Limit on processor time.
    pub quota: Option<Quota>,
    /// Limit on tasks.
    pub tasks: Option<TaskLimit>,
}

/// Memory of the machine, bytes.
#[must_use]
pub fn machine_bytes() -> u64 {
    let found = sysinfo();
    #[allow(clippy::useless_conversion, reason = "its width is the machine's")]
    u64::from(found.totalram).saturating_mul(u64::from(found.mem_unit.max(1)))
}

/// Limits of this process's group. Where `/proc` is not mounted there are none.
#[must_use]
pub fn read_own() -> Group {
    let proc = |name| read(Path::new(name), PROC_BYTES_MAX).unwrap_or_default();
    limits(&proc("/proc/self/cgroup"), &proc("/proc/self/mountinfo"), &|path| {
        read(path, VALUE_BYTES_MAX)
    })
}

fn read(path: &Path, bytes_max: u64) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Limits of the group that `/proc/PID/cgroup` and `/proc/PID/mountinfo` name. `read` returns the
/// text of a file.
pub fn limits(cgroup: &str, mountinfo: &str, read: &dyn Fn(&Path) -> Option<String>) -> Group {
    let mut group = Group::default();
    for controller in ["memory", "cpu", "pids"] {
        for folder in folders(cgroup, mountinfo, controller) {
            let value = |name: &str| {
                let file = folder.join(name);
                read(&file).map(|text| (text, file))
            };
            if controller == "cpu" {
                group.quota = smaller_quota(group.quota.take(), quota(value));
                continue;
            }
            if controller == "pids" {
                let Some((text, file)) = value("pids.max") else { continue };
                let known = group.tasks.as_ref().map_or(u64::MAX, |known| known.count);
                if let Some(count) = text.trim().parse().ok().filter(|count| *count < known) {
                    group.tasks = Some(TaskLimit { count, file });
                }
                continue;
            }
            for name in ["memory.limit_in_bytes", "memory.max", "memory.high"] {
                let Some((text, file)) = value(name) else { continue };
                // "max" is no number: there is no limit.
                let Ok(bytes) = text.trim().parse() else { continue };
                if group.memory.as_ref().is_none_or(|known: &Memory| bytes < known.bytes) {
                    group.memory = Some(Memory { bytes, file });
                }
            }
        }
    }
    group
}

/// Quota of one directory: in two files (version 1) or in one (version 2).
fn quota(value: impl Fn(&str) -> Option<(String, PathBuf)>) -> Option<Quota> {
    let (time, period, file) = match value("cpu.max") {
        Some((text, file)) => {
            let (time, period) = text.trim().split_once(' ')?;
            (time.to_owned(), period.to_owned(), file)
        }
        None => {
            let (time, file) = value("cpu.cfs_quota_us")?;
            (time, value("cpu.cfs_period_us")?.0, file)
        }
    };
    // "max" and -1 are no such numbers: there is no limit.
    let (time_us, period_us) = (time.trim().parse().ok()?, period.trim().parse().ok()?);
    (period_us > 0).then_some(Quota { time_us, period_us, file })
}

fn smaller_quota(known: Option<Quota>, other: Option<Quota>) -> Option<Quota> {
    let part = |quota: &Quota, of: &Quota| u128::from(quota.time_us) * u128::from(of.period_us);
    match (known, other) {
        (Some(known), Some(other)) if part(&other, &known) < part(&known, &other) => Some(other),
        (known, other) => known.or(other),
    }
}

/// Directories of this process's groups in all hierarchies that may have the controller, each
/// followed by its mounted ancestors.
fn folders(cgroup: &str, mountinfo: &str, controller: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in cgroup.lines() {
        // hierarchy:controllers:path; version 2 has no controllers here (cgroups(7)).
        let mut parts = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let unified = id == "0" && controllers.is_empty();
        if !unified && !controllers.split(',').any(|name| name == controller) {
            continue;
        }
        let mounts = mountinfo.lines().filter_map(Mount::parse);
        let mounts = mounts.filter(|mount| mount.holds(unified, controller));
        // Of several mounts of one hierarchy, the first that shows this group counts.
        let seen = mounts.map(|mount| (mount.below(path), mount.point));
        let Some((below, point)) = seen.min_by_key(|(below, _)| below.is_none()) else { continue };
        let below = below.unwrap_or_default();
        let top = PathBuf::from(point);
        folders.extend(below.ancestors().take(DEPTH_MAX).map(|part| top.join(part)));
    }
    folders
}

/// A mounted hierarchy of groups, as a line of mountinfo describes it (proc(5)).
struct Mount {
    /// Group at its top.
    root: String,
    /// Mount point.
    point: String,
    unified: bool,
    options: String,
}

impl Mount {
    /// `31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw`.
    fn parse(line: &str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut file_system = file_system.split(' ');
        let unified = match file_system.next()? {
            "cgroup" => false,
            "cgroup2" => true,
            _ => return None,
        };
        let mut mount = mount.split(' ').skip(3).map(unescaped);
        let (root, point) = (mount.next()?, mount.next()?);
        Some(Self { root, point, unified, options: file_system.nth(1)?.to_owned() })
    }

    /// True if the hierarchy has the controller, or may have it: version 2 does not list it here.
    fn holds(&self, unified: bool, controller: &str) -> bool {
        let has = || self.options.split(',').any(|option| option == controller);
        self.unified == unified && (unified || has())
    }

    /// Path of a group below the top of this mount. `None` if the group is not visible here. The
    /// top is then the nearest of its ancestors, as in a container with its own group mounted but
    /// no namespace of groups.
    fn below(&self, path: &str) -> Option<PathBuf> {
        let below = Path::new(path).strip_prefix(&self.root).ok()?;
        let plain = below.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        plain.then(|| below.to_owned())
    }
}

/// Decodes a field of mountinfo: blanks and backslashes are three octal digits after a backslash.
fn unescaped(field: &str) -> String {
    let mut text = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if first == b'\\' => {
                text.push(byte);
                rest = &after[3..];
            }
            _ => {
                text.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests;
