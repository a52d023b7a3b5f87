//! Memory of a process, from `/proc`.
use serde::{Serialize, Serializer};
use std::fs;

/// Kernel memory of a task's stack, bytes (x86-64 and arm64).
const KERNEL_STACK_BYTES: u64 = 16 << 10;

/// Memory of a process, or of several: bytes, and tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// All resident pages, those of files and shared ones included.
    pub(super) resident: u64,
    /// Resident pages of its own.
    pub(super) anonymous: u64,
    /// Resident shared pages of no file.
    pub(super) shared: u64,
    /// Page tables, which are the kernel's.
    pub(super) page_tables: u64,
    /// Number of threads.
    pub(super) tasks: u64,
}

impl Memory {
    /// Reads the memory of a process; `None` if it has ended.
    pub(super) fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
    }

    fn parse(status: &str) -> Option<Self> {
        let number = |name: &str| {
            let mut lines = status.lines().filter_map(|line| line.split_once(':'));
            let (_, text) = lines.find(|(of, _)| *of == name)?;
            text.trim().trim_end_matches(" kB").parse::<u64>().ok()
        };
        let bytes = |name| number(name)?.checked_mul(1024);
        Some(Self {
            resident: bytes("VmRSS")?,
            anonymous: bytes("RssAnon")?,
            shared: bytes("RssShmem")?,
            page_tables: bytes("VmPTE")?,
            tasks: number("Threads")?,
        })
    }

    /// Adds up several.
    pub(super) fn sum(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            resident: sum.resident + one.resident,
            anonymous: sum.anonymous + one.anonymous,
            shared: sum.shared + one.shared,
            page_tables: sum.page_tables + one.page_tables,
            tasks: sum.tasks + one.tasks,
        })
    }

    /// Kernel stacks of its tasks, bytes.
    pub(super) const fn kernel_stacks(&self) -> u64 {
        self.tasks.saturating_mul(KERNEL_STACK_BYTES)
    }
}

impl Serialize for Memory {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map([
            ("resident_bytes", self.resident),
            ("anonymous_bytes", self.anonymous),
            ("shared_bytes", self.shared),
            ("page_tables_bytes", self.page_tables),
            ("kernel_stacks_bytes", self.kernel_stacks()),
            ("tasks", self.tasks),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tregatta\nVmPeak:\t   99 kB\nVmRSS:\t    2048 kB\n\
                          RssAnon:\t     512 kB\nRssFile:\t    1408 kB\nRssShmem:\t     128 kB\n\
                          VmPTE:\t      60 kB\nThreads:\t3\n";

    #[test]
    fn the_kernel_says_what_a_process_has() {
        let memory = Memory::parse(STATUS).unwrap();
        let expect = Memory {
            resident: 2 << 20,
            anonymous: 512 << 10,
            shared: 128 << 10,
            page_tables: 60 << 10,
            tasks: 3,
        };
        assert_eq!(memory, expect);
        assert_eq!(memory.kernel_stacks(), 48 << 10);
        let two = Memory::sum([memory, memory].into_iter());
        assert_eq!((two.tasks, two.page_tables), (6, 120 << 10));
        // A process that has ended and not been reaped has no memory.
        assert_eq!(Memory::parse("Name:\tregatta\nState:\tZ (zombie)\nThreads:\t1\n"), None);
        assert_eq!(Memory::parse(&STATUS.replace("2048", "much")), None);
    }
}
