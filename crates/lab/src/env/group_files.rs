//! Files of the kernel that take one value, and groups that are removed with all that run in them.

use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the processes of a group may take to die, and the group to be removed.
const END_MAX: Duration = Duration::from_secs(10);

pub(super) fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("{} = {text}: {error}", file.display()))
}

/// Ends all processes of a group and removes it.
pub(super) fn remove(path: &Path) -> Result<(), String> {
    let start = Instant::now();
    while path.exists() {
        end_all(path);
        match std::fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(error) if start.elapsed() > END_MAX => {
                return Err(format!("{}: {error}", path.display()));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
    Ok(())
}

fn end_all(group: &Path) {
    // Version 2 ends everybody at once, also those who fork meanwhile.
    if std::fs::write(group.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let text = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    for pid in text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
        let _ = kill_process(pid, Signal::KILL);
    }
}
