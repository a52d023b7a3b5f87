//! Limits on open descriptors of this process, and on system resources for its threads.
use crate::{groups::TaskLimit, process::effective_user};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{fs, io};

/// Limits on open descriptors (`RLIMIT_NOFILE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Limit in force.
    pub soft: u64,
    /// Highest limit without privilege.
    pub hard: u64,
}

/// Current limits.
#[must_use]
pub fn descriptors() -> Descriptors {
    let limit = getrlimit(Resource::Nofile);
    Descriptors { soft: limit.current.unwrap_or(u64::MAX), hard: limit.maximum.unwrap_or(u64::MAX) }
}

/// Raises the soft limit to the hard one, and returns it. Children inherit it.
///
/// The soft limit is often 1,024 for the sake of programs that use `select` with libc's sets. This
/// program does not.
///
/// # Errors
/// None that the kernel documents.
pub fn raise_descriptors() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    Ok(descriptors().soft)
}

/// Lowers the soft limit to `most`, if it is higher. Children inherit it.
///
/// # Errors
/// None that the kernel documents.
pub fn lower_descriptors(most: u64) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.map_or(most, |current| current.min(most));
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum })?)
}

/// Limit on the memory that this process may lock, bytes (`RLIMIT_MEMLOCK`).
#[must_use]
pub fn locked_bytes() -> Limit {
    let raise = "ulimit -l, LimitMEMLOCK=";
    getrlimit(Resource::Memlock)
        .current
        .map_or(Limit::NONE, |bytes| Limit::new("RLIMIT_MEMLOCK", bytes, raise))
}

/// A limit of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Name of its source, as in `vm.max_map_count`.
    pub name: String,
    /// Allowed amount.
    pub value: u64,
    /// Means of raising it, as in `sysctl vm.max_map_count`.
    pub raise: &'static str,
}

impl Limit {
    /// No limit.
    pub const NONE: Self = Self { name: String::new(), value: u64::MAX, raise: "" };

    fn new(name: &str, value: u64, raise: &'static str) -> Self {
        Self { name: name.to_owned(), value, raise }
    }
}

/// System resources for threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRoom {
    /// Processes and their threads: of a user, of a control group, or of the system. Other
    /// processes use part of it.
    pub tasks: Limit,
    /// Mappings of a process.
    pub mappings: Limit,
    /// Addresses that a process may reserve, bytes.
    pub address_bytes: Limit,
}

impl ThreadRoom {
    /// No limits.
    pub const NONE: Self =
        Self { tasks: Limit::NONE, mappings: Limit::NONE, address_bytes: Limit::NONE };

    /// Limits of this process, with the tasks of its group.
    #[must_use]
    pub fn read_own(group: Option<&TaskLimit>) -> Self {
        let read = |file: &str| fs::read_to_string(file).ok();
        let soft = |resource| getrlimit(resource).current;
        // The kernel does not count root's tasks.
        let user = soft(Resource::Nproc).filter(|_| effective_user() != 0);
        Self::derive(&read, user, soft(Resource::As), group)
    }

    /// Derives limits from the files of `/proc` that `read` returns, the limits on this user's
    /// tasks and on addresses, and the group.
    fn derive(
        read: &dyn Fn(&str) -> Option<String>,
        user: Option<u64>,
        addresses: Option<u64>,
        group: Option<&TaskLimit>,
    ) -> Self {
        let number = |file: &str| read(file)?.trim().parse().ok();
        let kernel = |file: &str, name: &str, raise| {
            number(file).map_or(Limit::NONE, |value| Limit::new(name, value, raise))
        };
        let of = |limit: Option<u64>, name: &str, raise| {
            limit.map_or(Limit::NONE, |value| Limit::new(name, value, raise))
        };
        let group = group.map_or(Limit::NONE, |TaskLimit { count, file }| {
            Limit::new(&file.display().to_string(), *count, "pids.max, TasksMax=")
        });
        let tasks = [
            of(user, "RLIMIT_NPROC", "ulimit -u, LimitNPROC="),
            kernel(
                "/proc/sys/kernel/threads-max",
                "kernel.threads-max",
                "sysctl kernel.threads-max",
            ),
            kernel("/proc/sys/kernel/pid_max", "kernel.pid_max", "sysctl kernel.pid_max"),
            group,
        ];
        let strict = number("/proc/sys/vm/overcommit_memory") == Some(2);
        let committed = strict.then(|| read("/proc/meminfo").as_deref().and_then(commit_bytes));
        let address_bytes = [
            of(addresses, "RLIMIT_AS", "ulimit -v, LimitAS="),
            of(committed.flatten(), "vm.overcommit_memory=2", "sysctl vm.overcommit_memory=0"),
        ];
        let smallest = |limits: &[Limit]| limits.iter().min_by_key(|limit| limit.value).cloned();
        Self {
            tasks: smallest(&tasks).unwrap_or(Limit::NONE),
            mappings: kernel(
                "/proc/sys/vm/max_map_count",
                "vm.max_map_count",
                "sysctl vm.max_map_count",
            ),
            address_bytes: smallest(&address_bytes).unwrap_or(Limit::NONE),
        }
    }
}

/// Total memory that may be committed: `CommitLimit:  8113928 kB` of `/proc/meminfo`.
fn commit_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("CommitLimit:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_counts_and_is_named() {
        let machine = |file: &str| match file {
            "/proc/sys/kernel/threads-max" => Some("192730\n".to_owned()),
            "/proc/sys/kernel/pid_max" => Some("32768\n".to_owned()),
            "/proc/sys/vm/max_map_count" => Some("65530\n".to_owned()),
            "/proc/sys/vm/overcommit_memory" => Some("0\n".to_owned()),
            _ => None,
        };
        let names = |threads: &ThreadRoom| {
            let ThreadRoom { tasks, mappings, address_bytes } = threads;
            [tasks, mappings, address_bytes].map(|limit| (limit.name.clone(), limit.value))
        };
        let expect = |rows: [(&str, u64); 3]| rows.map(|(name, value)| (name.to_owned(), value));
        let maps = ("vm.max_map_count", 65_530);
        let plain = ThreadRoom::derive(&machine, None, None, None);
        assert_eq!(names(&plain), expect([("kernel.pid_max", 32_768), maps, ("", u64::MAX)]));
        let user = ThreadRoom::derive(&machine, Some(4096), Some(1 << 32), None);
        assert_eq!(names(&user), expect([("RLIMIT_NPROC", 4096), maps, ("RLIMIT_AS", 1 << 32)]));
        let file = "/sys/fs/cgroup/a/pids.max";
        let group = TaskLimit { count: 100, file: file.into() };
        let strict = |file: &str| match file {
            "/proc/sys/vm/overcommit_memory" => Some("2\n".to_owned()),
            "/proc/meminfo" => Some("MemTotal: 8 kB\nCommitLimit:     1024 kB\n".to_owned()),
            other => machine(other),
        };
        let small = ThreadRoom::derive(&strict, Some(4096), Some(1 << 32), Some(&group));
        let commits = ("vm.overcommit_memory=2", 1 << 20);
        assert_eq!(names(&small), expect([(file, 100), maps, commits]));
        assert_eq!(ThreadRoom::derive(&|_| None, None, None, None), ThreadRoom::NONE);
        assert!(ThreadRoom::read_own(None).tasks.value > 1);
    }

    #[test]
    fn the_soft_limit_can_be_raised_to_the_hard_one() {
        let hard = descriptors().hard;
        assert_eq!(raise_descriptors().unwrap(), hard);
        assert_eq!(descriptors(), Descriptors { soft: hard, hard });
    }
}
