//! The ledger: items of an environment are written down before they are made, so that any process
//! that finds the ledger can undo them.

use crate::units::At;
use rustix::fs::{FlockOperation, flock};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time that something may stay busy before it is undone by force.
const BUSY_MAX: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(2);
const FILE: &str = "ledger.jsonl";
/// Holds the number of the process that asked for the environment.
const ASKER: &str = "asked-by";

/// Something that has to be undone. Undoing what was not made, or was undone before, does nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Made {
    /// A control group and all processes in it.
    Group {
        path: PathBuf,
    },
    Setting {
        path: PathBuf,
        was: String,
    },
    Loop {
        /// Name, without directories, of its backing file, which no other device uses.
        file: String,
    },
    Mount {
        point: PathBuf,
    },
    Directory {
        path: PathBuf,
    },
}

impl Made {
    pub(super) fn undo(&self) -> Result<(), String> {
        match self {
            Self::Group { path } => remove(path),
            Self::Setting { path, was } if path.exists() => write(path, was),
            Self::Setting { .. } => Ok(()),
            Self::Loop { file } => detach(file),
            Self::Mount { point } => unmount_patiently(point),
            Self::Directory { path } => match std::fs::remove_dir_all(path) {
                Err(error) if path.exists() => Err(format!("{}: {error}", path.display())),
                _ => Ok(()),
            },
        }
    }
}

/// Owner of an environment. A process number alone could be another process's by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub pid: u32,
    /// Start of the process, in ticks since the machine's own.
    pub started: u64,
}

impl Owner {
    pub(super) fn us() -> Result<Self, String> {
        let pid = std::process::id();
        let started = started(pid).ok_or("no /proc/self/stat")?;
        Ok(Self { pid, started })
    }

    pub fn is_alive(&self) -> bool {
        started(self.pid) == Some(self.started)
    }

    fn id(self) -> String {
        format!("regatta-{}-{}", self.pid, self.started)
    }

    fn parse(id: &str) -> Option<Self> {
        let (pid, started) = id.strip_prefix("regatta-")?.split_once('-')?;
        Some(Self { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }
}

/// Start of a process, in ticks; None if there is no such process, or only a zombie.
fn started(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold anything; the third field follows it.
    let fields: Vec<_> = text.rsplit_once(") ")?.1.split(' ').collect();
    if fields.first() == Some(&"Z") { None } else { fields.get(19)?.parse().ok() }
}

pub fn place() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return "/run/regatta-lab".into();
    }
    let user = rustix::process::geteuid().as_raw();
    std::env::temp_dir().join(format!("regatta-lab-{user}"))
}

/// A keeper's ledger, open for writing.
#[derive(Debug)]
pub(super) struct Ledger {
    folder: PathBuf,
    file: File,
    made: Vec<Made>,
    id: String,
}

impl Ledger {
    pub(super) fn new() -> Result<Self, String> {
        let id = Owner::us()?.id();
        let folder = place().join(&id);
        std::fs::create_dir_all(&folder).at(&folder)?;
        let asker = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
        std::fs::write(folder.join(ASKER), asker.to_string()).at(&folder)?;
        let file = File::options().create(true).append(true).open(folder.join(FILE));
        Ok(Self { file: file.at(&folder)?, made: Vec::new(), id, folder })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// A directory for small files, which goes away with the ledger.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes down what is about to be made.
    pub(super) fn before(&mut self, made: Made) -> Result<(), String> {
        let line = serde_json::to_string(&made).map_err(|error| error.to_string())?;
        // A single write: a reader finds a whole line or none.
        self.file
            .write_all(format!("{line}\n").as_bytes())
            .map_err(|error| format!("ledger: {error}"))?;
        self.made.push(made);
        Ok(())
    }

    /// Gives a setting of the whole machine a value. What it was before any environment that still
    /// lives is what it will be again, after the last of them.
    pub(super) fn set(&mut self, path: &Path, value: &str) -> Result<(), String> {
        let _alone = alone()?;
        let is = std::fs::read_to_string(path).at(path)?;
        let before_others = others(&self.id).into_iter().find_map(|made| match made {
            Made::Setting { path: other, was } if other == path => Some(was),
            _ => None,
        });
        let was = before_others.unwrap_or_else(|| is.trim().to_owned());
        if was == value {
            return Ok(());
        }
        self.before(Made::Setting { path: path.to_owned(), was })?;
        write(path, value)
    }

    /// Undoes everything, the last first, and removes the ledger if nothing is left.
    pub(super) fn undo(self) -> Result<(), String> {
        undo_all(&self.made, &self.folder, &self.id)
    }
}

fn undo_all(made: &[Made], folder: &Path, id: &str) -> Result<(), String> {
    let mut failed = Vec::new();
    for made in made.iter().rev() {
        let _alone = match made {
            Made::Setting { path, .. } => {
                let alone = alone()?;
                let same = |m: &Made| matches!(m, Made::Setting { path: p, .. } if p == path);
                if others(id).iter().any(same) {
                    continue;
                }
                Some(alone)
            }
            _ => None,
        };
        failed.extend(made.undo().err());
    }
    if failed.is_empty() {
        std::fs::remove_dir_all(folder).at(folder)
    } else {
        Err(failed.join("; "))
    }
}

/// Keeps other environments from changing the machine's settings meanwhile.
fn alone() -> Result<File, String> {
    let path = place();
    let folder = File::open(&path).at(&path)?;
    flock(&folder, FlockOperation::LockExclusive).at(&path)?;
    Ok(folder)
}

/// Items that the other live environments have made.
fn others(id: &str) -> Vec<Made> {
    let living = list().into_iter().filter(|entry| entry.id != id && entry.owner.is_alive());
    living.flat_map(|entry| entry.made).collect()
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    pub id: String,
    pub owner: Owner,
    /// The process that asked for it; 0: not known.
    pub asker: u32,
    /// Items to undo, in the order in which they were made.
    pub made: Vec<Made>,
}

/// All environments that have left something, living and dead.
pub fn list() -> Vec<Listed> {
    let mut found: Vec<_> = std::fs::read_dir(place())
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let id = entry.file_name().into_string().ok()?;
            let owner = Owner::parse(&id)?;
            let text = std::fs::read_to_string(entry.path().join(FILE)).unwrap_or_default();
            let asker = std::fs::read_to_string(entry.path().join(ASKER)).unwrap_or_default();
            // A last line cut short was written before anything was made of it.
            let made = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            Some(Listed { id, owner, asker: asker.parse().unwrap_or(0), made })
        })
        .collect();
    found.sort_by(|a, b| a.id.cmp(&b.id));
    found
}

/// Undoes the rest of environments whose keeper is gone. Returns their names.
///
/// # Errors
/// Items that could not be undone; all others are.
pub fn clean() -> Result<Vec<String>, String> {
    let mut done = Vec::new();
    let mut failed = Vec::new();
    for Listed { id, owner, made, .. } in list() {
        if owner.is_alive() {
            continue;
        }
        match undo_all(&made, &place().join(&id), &id) {
            Ok(()) => done.push(id),
            Err(error) => failed.push(format!("{id}: {error}")),
        }
    }
    if failed.is_empty() { Ok(done) } else { Err(failed.join("\n")) }
}

/// Writes a file of the kernel that takes one value.
pub(super) fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("{} = {text}: {error}", file.display()))
}

/// Ends all processes of a group and removes it.
fn remove(path: &Path) -> Result<(), String> {
    let start = Instant::now();
    while path.exists() {
        end_all(path);
        match std::fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(error) if start.elapsed() > BUSY_MAX => {
                return Err(format!("{}: {error}", path.display()));
            }
            Err(_) => std::thread::sleep(STEP),
        }
    }
    Ok(())
}

fn end_all(group: &Path) {
    // Version 2 ends all at once, including processes that fork meanwhile.
    if std::fs::write(group.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let text = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    for pid in text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Unmounts, and waits for other users before it is done by force.
fn unmount_patiently(point: &Path) -> Result<(), String> {
    let start = Instant::now();
    while is_mounted(point) {
        let flags =
            if start.elapsed() > BUSY_MAX { UnmountFlags::DETACH } else { UnmountFlags::empty() };
        match unmount(point, flags) {
            Err(error) if flags == UnmountFlags::DETACH => {
                return Err(format!("{}: {error}", point.display()));
            }
            Err(_) => std::thread::sleep(STEP),
            Ok(()) => {}
        }
    }
    Ok(())
}

fn is_mounted(point: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().any(|line| line.split(' ').nth(4).is_some_and(|at| Path::new(at) == point))
}

/// Detaches the loop device behind which a file of this name lies, and waits until it is free.
fn detach(file: &str) -> Result<(), String> {
    let start = Instant::now();
    while let Some(device) = loop_device(file) {
        if start.elapsed() > BUSY_MAX {
            return Err(format!("{}: still there", device.display()));
        }
        // If it is still mounted somewhere, it goes with the mount.
        let _ = Command::new("losetup").arg("--detach").arg(&device).stderr(Stdio::null()).status();
        std::thread::sleep(STEP);
    }
    Ok(())
}

/// The loop device behind which a file of this name lies.
pub(super) fn loop_device(file: &str) -> Option<PathBuf> {
    for entry in std::fs::read_dir("/sys/block").ok()?.flatten() {
        let backing = std::fs::read_to_string(entry.path().join("loop/backing_file"));
        if backing.is_ok_and(|path| path.trim_end().ends_with(&format!("/{file}"))) {
            return Some(Path::new("/dev").join(entry.file_name()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Made, Owner};

    #[test]
    fn an_owner_is_a_process_and_not_its_number() {
        let us = Owner::us().unwrap();
        assert!(us.is_alive());
        assert!(!Owner { started: us.started + 1, ..us }.is_alive());
        assert_eq!(Owner::parse(&us.id()), Some(us));
        for odd in ["regatta-", "regatta-1", "regatta-x-1", "other-1-2", "lock"] {
            assert_eq!(Owner::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_ledger_cut_short_is_read() {
        let made = Made::Loop { file: "x".to_owned() };
        let line = serde_json::to_string(&made).unwrap();
        assert_eq!(serde_json::from_str::<Made>(&line).ok(), Some(made));
        assert!(serde_json::from_str::<Made>(&line[..line.len() - 1]).is_err());
    }

    #[test]
    fn what_was_never_made_is_undone_without_a_word() {
        let path = std::env::temp_dir().join("regatta-never-made");
        for made in [
            Made::Group { path: path.clone() },
            Made::Setting { path: path.clone(), was: "1".to_owned() },
            Made::Loop { file: "regatta-never-made".to_owned() },
            Made::Mount { point: path.clone() },
            Made::Directory { path },
        ] {
            assert_eq!(made.undo(), Ok(()));
        }
    }
}
