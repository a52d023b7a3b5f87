//! What was measured on: the line that must stand beside every number.

use crate::command::{output_of, project_root};
use std::path::Path;
use std::process::Command;

/// The machine, the kernel and the commit, as text.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    /// The processor's name and how many of it.
    pub(crate) processor: String,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// What the kernel does about the processor's weaknesses; it costs cycles.
    pub(crate) mitigations: String,
    /// The commit that Regatta was built from, and whether there were changes on top.
    pub(crate) commit: String,
}

impl Machine {
    /// Reads it all.
    pub(crate) fn new() -> Self {
        Self {
            processor: processor(),
            kernel: kernel(),
            mitigations: mitigations(),
            commit: commit(),
        }
    }
}

/// The CPUs that we may run on, by number.
pub(crate) fn cpus() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return vec![0] };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Whether two CPUs are threads of one core, so that each slows the other.
pub(crate) fn share_a_core(one: usize, other: usize) -> bool {
    let path = format!("/sys/devices/system/cpu/cpu{one}/topology/thread_siblings_list");
    holds(&std::fs::read_to_string(path).unwrap_or_default(), other)
}

/// Whether a list such as `0-3,8` holds a CPU.
fn holds(list: &str, cpu: usize) -> bool {
    list.trim().split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let ends = first.parse::<usize>().ok().zip(last.parse::<usize>().ok());
        ends.is_some_and(|(first, last)| (first..=last).contains(&cpu))
    })
}

/// Seconds since boot in which a CPU did something, or another guest took it from us; None where
/// `/proc/stat` does not have it. In steps of 10 ms.
pub(crate) fn busy_seconds(cpu: usize) -> Option<f64> {
    busy_in(&std::fs::read_to_string("/proc/stat").ok()?, cpu)
}

/// Adds up user, nice, system, irq, softirq and steal of one CPU's line, which are in 1/100 s.
fn busy_in(stat: &str, cpu: usize) -> Option<f64> {
    let rest = stat.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")))?;
    let ticks: Vec<f64> = rest.split(' ').map_while(|number| number.parse().ok()).collect();
    let [user, nice, system, _idle, _io, irq, softirq, steal, ..] = ticks[..] else { return None };
    Some((user + nice + system + irq + softirq + steal) / 100.0)
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, name)| name.trim());
    let family = |key| {
        text.lines()
            .find_map(|line: &str| line.strip_prefix(key)?.trim().strip_prefix(": "))
            .unwrap_or("?")
    };
    let count = cpus().len();
    format!("{name} (family {} model {}), {count} CPUs", family("cpu family"), family("model\t"))
}

fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}", release.trim())
}

fn mitigations() -> String {
    let folder = Path::new("/sys/devices/system/cpu/vulnerabilities");
    let mut found = Vec::new();
    let mut unaffected = 0;
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(mitigation) = text.trim().strip_prefix("Mitigation: ") {
            let first = mitigation.split([';', ',']).next().unwrap_or(mitigation);
            found.push(format!("{name}: {first}"));
        } else if text.starts_with("Vulnerable") {
            found.push(format!("{name}: none (vulnerable)"));
        } else {
            unaffected += 1;
        }
    }
    found.sort();
    if found.is_empty() && unaffected == 0 {
        return "unknown".to_owned();
    }
    found.push(format!("{unaffected} others not affected"));
    found.join("; ")
}

fn commit() -> String {
    let git =
        |words: &[&str]| output_of(Command::new("git").current_dir(project_root()).args(words));
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "no git".to_owned();
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    match changed.as_deref() {
        Some("") => commit,
        _ => format!("{commit} with uncommitted changes"),
    }
}

#[cfg(test)]
mod tests {
    use super::{busy_in, holds};

    #[test]
    fn lists_of_cpus_are_read() {
        assert!(holds("0-3,8\n", 2) && holds("0-3,8", 8) && holds("1", 1));
        assert!(!holds("0-3,8", 4) && !holds("", 0));
    }

    #[test]
    fn a_cpu_s_line_is_read() {
        let stat = "cpu  9 9 9 9\ncpu0 100 0 50 7 7 0 25 25 0 0\ncpu10 1 1\n";
        assert_eq!(busy_in(stat, 0), Some(2.0));
        assert_eq!(busy_in(stat, 1), None);
        assert_eq!(busy_in(stat, 10), None);
    }
}
