//! Processors that a thread runs on, and their neighbours.
//!
//! The server reads them when it works out its allowance, before it lays out workers. A worker that
//! is to be pinned pins itself. The load generator pins its threads.
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::{fs, io, path::Path};

/// Directory in which the kernel describes processors.
pub const CPUS: &str = "/sys/devices/system/cpu";

/// Processors that this thread may run on, in order. Respects taskset and cgroups.
///
/// # Errors
/// The machine has more processors than the 1,024 that a set has room for.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// These processors, ordered so that neighbours are adjacent: the threads of one core, the cores of
/// one die, the dies of one package. Numbers alone do not show that: often half of the threads of
/// all cores come first, and then the other half.
///
/// `described` is [`CPUS`], or a tree like it. If it lacks a fact about one processor, all stay in
/// the order of their numbers.
#[must_use]
pub fn neighbours(mut cpus: Vec<usize>, described: &Path) -> Vec<usize> {
    let places: Option<Vec<_>> = cpus.iter().map(|cpu| place_of(*cpu, described)).collect();
    if let Some(mut places) = places {
        places.sort_unstable();
        cpus = places.into_iter().map(|(_, cpu)| cpu).collect();
    }
    cpus
}

/// Package, die and core of a processor, each named by a unique number, and the processor itself.
fn place_of(cpu: usize, described: &Path) -> Option<([i64; 3], usize)> {
    let folder = described.join(format!("cpu{cpu}/topology"));
    // Lists begin with their smallest number: `0-3,8-11`. Older kernels have another name for the
    // list of a core, and no dies.
    let first = |names: &[&str]| {
        let text = names.iter().find_map(|name| fs::read_to_string(folder.join(name)).ok())?;
        let digits = |(at, c): &(usize, char)| c.is_ascii_digit() || *at == 0 && *c == '-';
        let number: String = text.char_indices().take_while(digits).map(|(_, c)| c).collect();
        number.parse::<i64>().ok()
    };
    let package = first(&["physical_package_id"])?;
    let core = first(&["core_cpus_list", "thread_siblings_list"])?;
    let die = first(&["die_cpus_list", "die_id"]).unwrap_or_default();
    Some(([package, die, core], cpu))
}

/// Binds this thread, and those it starts from now on, to these processors.
///
/// # Errors
/// A number exceeds the size of a set, or the process may use none of the processors.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn a_pinned_thread_is_allowed_what_it_is_pinned_to() {
        let all = allowed().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let last = all[all.len() - 1];
                pin(&[last]).unwrap();
                assert_eq!(allowed().unwrap(), [last]);
                pin(&all).unwrap();
                assert_eq!(allowed().unwrap(), all);
            });
        });
        assert!(pin(&[CpuSet::MAX_CPU]).is_err());
        assert!(pin(&[]).is_err());
    }

    /// A tree like the kernel's: `of` returns the package, die and core of a processor; `files` are
    /// the three names.
    fn tree(of: impl Fn(usize) -> [usize; 3], cpus: usize, files: [&str; 3]) -> Folder {
        let root = Folder::new("topology");
        let list = |same: &dyn Fn(usize) -> bool| {
            let all: Vec<String> =
                (0..cpus).filter(|cpu| same(*cpu)).map(|cpu| cpu.to_string()).collect();
            all.join(",") + "\n"
        };
        for cpu in 0..cpus {
            let [package, die, _] = of(cpu);
            let place = root.join(format!("cpu{cpu}/topology"));
            fs::create_dir_all(&place).unwrap();
            let texts = [
                format!("{package}\n"),
                list(&|other| of(other)[..2] == [package, die]),
                list(&|other| of(other) == of(cpu)),
            ];
            for (file, text) in files.iter().zip(texts) {
                fs::write(place.join(file), text).unwrap();
            }
        }
        root
    }

    const FILES: [&str; 3] = ["physical_package_id", "die_cpus_list", "core_cpus_list"];

    #[test]
    fn threads_of_a_core_are_neighbours_whatever_their_numbers() {
        // N and N + half are one core; two packages.
        let half = tree(|cpu| [cpu % 4 / 2, 0, cpu % 4], 8, FILES);
        let all: Vec<usize> = (0..8).collect();
        assert_eq!(neighbours(all.clone(), &half), [0, 4, 1, 5, 2, 6, 3, 7]);
        // Only some of them may be used.
        assert_eq!(neighbours(vec![1, 2, 5, 7], &half), [1, 5, 2, 7]);
        // Even numbers in one package and odd ones in the other, on a kernel without dies.
        let old = ["physical_package_id", "nothing", "thread_siblings_list"];
        let odd = tree(|cpu| [cpu % 2, 0, cpu], 6, old);
        assert_eq!(neighbours((0..6).collect(), &odd), [0, 2, 4, 1, 3, 5]);
        // Two dies in a package, numbered round-robin, and no second threads.
        let dies = tree(|cpu| [0, cpu % 2, cpu], 4, FILES);
        assert_eq!(neighbours((0..4).collect(), &dies), [0, 2, 1, 3]);
    }

    #[test]
    fn processors_that_nobody_describes_stay_as_they_are() {
        let some = tree(|cpu| [0, 0, cpu % 2], 4, FILES);
        assert_eq!(neighbours(vec![0, 1, 2, 3], &some), [0, 2, 1, 3]);
        assert_eq!(neighbours(vec![0, 1, 2, 9], &some), [0, 1, 2, 9], "one is unknown");
        fs::write(some.join("cpu1/topology/physical_package_id"), "-1\n").unwrap();
        assert_eq!(neighbours(vec![0, 1], &some), [1, 0], "a package without a number");
        fs::write(some.join("cpu1/topology/physical_package_id"), "new\n").unwrap();
        assert_eq!(neighbours(vec![0, 1, 2], &some), [0, 1, 2], "not a number");
        // This machine's processors: none is lost.
        let mut ours = neighbours(allowed().unwrap(), Path::new(CPUS));
        ours.sort_unstable();
        assert_eq!(ours, allowed().unwrap());
    }
}
