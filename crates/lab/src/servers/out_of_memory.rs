//! Processes of a server that did not live to the end: killed for want of memory, replaced by their
//! master, or gone.

use std::fs;
use std::path::Path;

/// Processes that the kernel has killed for want of memory: in a control group of either version,
/// or without one on the whole machine. None where it does not say.
pub(crate) fn out_of_memory(group: Option<&Path>) -> Option<u64> {
    let read = |path: &Path| parse(&fs::read_to_string(path).ok()?);
    match group {
        Some(group) => {
            ["memory.events", "memory.oom_control"].iter().find_map(|file| read(&group.join(file)))
        }
        None => read(Path::new("/proc/vmstat")),
    }
}

/// The line `oom_kill N`, which all three files have.
fn parse(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn kills_are_counted_in_both_versions_and_on_the_machine() {
        let one = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        let two = "low 0\nhigh 0\nmax 12\noom 4\noom_kill 2\noom_group_kill 1\n";
        assert_eq!((parse(one), parse(two)), (Some(3), Some(2)));
        assert_eq!(parse("oom_kill_disable 0\n"), None, "a kernel of long ago");
        let folder = Folder::new("lab-test");
        assert_eq!(out_of_memory(Some(&*folder)), None);
        for (file, text, kills) in [("memory.oom_control", one, 3), ("memory.events", two, 2)] {
            fs::write(folder.join(file), text).unwrap();
            assert_eq!(out_of_memory(Some(&*folder)), Some(kills), "{file}");
        }
        let vmstat = fs::read_to_string("/proc/vmstat").unwrap_or_default();
        assert_eq!(out_of_memory(None).is_some(), vmstat.contains("oom_kill "));
    }
}
