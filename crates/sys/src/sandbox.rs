//! Permanent confinement of a process that serves strangers (landlock(7)). It gives up privileges
//! from programs, capabilities, and all files, addresses and processes that it is not granted.
//!
//! An attacker who makes a worker run foreign code finds the served files, the logs to write to,
//! and the open sockets. On older kernels Landlock restricts less: see [`Effect`].
use rustix::{
    fs::{Mode, OFlags},
    thread::{CapabilitySet, CapabilitySets},
};
use std::{
    fmt, io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    path::{Path, PathBuf},
    ptr,
};

/// Rights to files (linux/landlock.h).
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const MAKE_REG: u64 = 1 << 8;
/// A writer can spoil its log anyway; the log cuts off the part of a line that a full disk left.
const TRUNCATE: u64 = 1 << 14;
const TRUNCATE_SINCE: u32 = 3;
/// All rights to files, by the first version of Landlock that has them: moving files between
/// folders, truncating them, and controlling devices came later.
const FILE_RIGHTS: [(u32, u64); 4] =
    [(5, (1 << 16) - 1), (3, (1 << 15) - 1), (2, (1 << 14) - 1), (1, (1 << 13) - 1)];
/// Binding and connecting TCP sockets.
const TCP: u64 = 0b11;
const TCP_SINCE: u32 = 4;
/// Connecting to abstract Unix sockets of other processes, and sending signals to those.
const SCOPES: u64 = 0b11;
const SCOPES_SINCE: u32 = 6;
/// `LANDLOCK_CREATE_RULESET_VERSION`.
const ASK_VERSION: u32 = 1;
/// `LANDLOCK_RULE_PATH_BENEATH`.
const PATH_BENEATH: u32 = 1;

/// `struct landlock_ruleset_attr`: rights that are denied unless a rule allows them. Older kernels
/// accept members that they do not know if these are 0.
#[repr(C)]
struct Ruleset {
    files: u64,
    tcp: u64,
    scopes: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct Beneath {
    rights: u64,
    fd: i32,
}

/// Whether a process confines itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// The process stays unchanged.
    Off,
    /// Confine as far as the kernel can.
    BestEffort,
    /// Fail without Landlock.
    Required,
}

/// Files that a process may still reach by path.
#[derive(Clone, Copy, Debug)]
pub struct Confine<'a> {
    /// Directories below which everything can be read.
    pub read: &'a [BorrowedFd<'a>],
    /// Folders in which files can be made, written to, and truncated. A missing one is skipped.
    pub append: &'a [PathBuf],
}

/// Result of [`confine`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// Programs that it runs bring no privileges.
    pub no_new_privileges: bool,
    /// The process has no capabilities.
    pub no_capabilities: bool,
    /// Version of Landlock; 0 is none.
    pub landlock: u32,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.no_new_privileges, "privileges"),
            (self.no_capabilities, "capabilities"),
            (self.landlock > 0, "files"),
            (self.landlock >= TCP_SINCE, "TCP"),
            (self.landlock >= SCOPES_SINCE, "signals"),
        ];
        let taken: Vec<&str> = parts.iter().filter(|part| part.0).map(|part| part.1).collect();
        let taken = if taken.is_empty() { "nothing".to_owned() } else { taken.join(", ") };
        write!(f, "{taken} (Landlock ABI {})", self.landlock)
    }
}

/// Version of Landlock in the kernel; 0 if it has none, or a filter denies it.
#[must_use]
pub fn landlock_version() -> u32 {
    // SAFETY: with this flag the kernel reads neither the pointer nor the size, which are null and
    // 0 as it demands.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<Ruleset>(),
            0_usize,
            ASK_VERSION,
        )
    };
    u32::try_from(version).unwrap_or(0)
}

/// Confines this thread, and all threads and processes that it starts, for good. Open descriptors
/// keep their rights. Call it before starting other threads, which it does not reach, and after the
/// last change of user.
///
/// Names of tasks in `/proc` can still be listed, and standard error can be opened once more.
///
/// # Errors
/// A directory cannot be ruled on, or a [required](Sandbox::Required) part is not available. The
/// process may be confined in part: the caller can only exit.
pub fn confine(of: &Confine<'_>, how: Sandbox) -> io::Result<Effect> {
    if how == Sandbox::Off {
        return Ok(Effect::default());
    }
    let nothing = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    let mut effect = Effect {
        no_new_privileges: rustix::thread::set_no_new_privs(true).is_ok(),
        no_capabilities: false,
        landlock: landlock_version(),
    };
    // Opening the directories needs the current capabilities.
    if effect.landlock > 0 {
        restrict(&rules(of, effect.landlock)?)?;
    }
    effect.no_capabilities = rustix::thread::set_capabilities(None, nothing).is_ok();
    let is_whole = effect.no_new_privileges && effect.no_capabilities && effect.landlock > 0;
    if how == Sandbox::Required && !is_whole {
        let message = format!(
            "server.sandbox = required, and what can be given up is {effect}; it takes Linux 5.13 \
             or later with `landlock` in its list of security modules (lsm=), and a container's \
             seccomp filter that lets landlock_create_ruleset(2) through; or set best-effort"
        );
        return Err(io::Error::other(message));
    }
    Ok(effect)
}

/// Rules that allow what `of` names, and nothing else.
fn rules(of: &Confine<'_>, version: u32) -> io::Result<OwnedFd> {
    let files = FILE_RIGHTS.iter().find(|(since, _)| *since <= version).map_or(0, |(_, all)| *all);
    let since = |first: u32, rights: u64| if version >= first { rights } else { 0 };
    let (tcp, scopes) = (since(TCP_SINCE, TCP), since(SCOPES_SINCE, SCOPES));
    let ruleset = Ruleset { files, tcp, scopes };
    // SAFETY: the kernel reads as many bytes as `ruleset` has, which lives across the call.
    let number = unsafe {
        let (at, bytes) = (&raw const ruleset, size_of::<Ruleset>());
        libc::syscall(libc::SYS_landlock_create_ruleset, at, bytes, 0_u32)
    };
    let number = i32::try_from(number).unwrap_or(-1);
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor for us, close-on-exec, and no other code
    // knows its number.
    let rules = unsafe { OwnedFd::from_raw_fd(number) };
    for directory in of.read {
        allow(&rules, *directory, READ_FILE | READ_DIR)?;
    }
    let append = WRITE_FILE | MAKE_REG | since(TRUNCATE_SINCE, TRUNCATE);
    for folder in of.append {
        if let Ok(folder) = open(folder) {
            allow(&rules, folder.as_fd(), append)?;
        }
    }
    // Without /proc there is nothing to list.
    if let Ok(tasks) = open(Path::new("/proc")) {
        allow(&rules, tasks.as_fd(), READ_DIR)?;
    }
    // Pipes, sockets and files that are only in memory cannot be ruled on, and need no rule.
    let _ = allow(&rules, io::stderr().as_fd(), WRITE_FILE);
    Ok(rules)
}

fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

/// Allows these rights to a file, or to all below a directory.
fn allow(rules: &OwnedFd, fd: BorrowedFd<'_>, rights: u64) -> io::Result<()> {
    let beneath = Beneath { rights, fd: fd.as_raw_fd() };
    // SAFETY: the kernel reads one `landlock_path_beneath_attr`, which `beneath` is and which lives
    // across the call; both descriptors are open because they are borrowed.
    let result = unsafe {
        let at = &raw const beneath;
        libc::syscall(libc::SYS_landlock_add_rule, rules.as_raw_fd(), PATH_BENEATH, at, 0_u32)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Restricts this thread to these rights.
fn restrict(rules: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes two integers and no memory; the descriptor is open because it is borrowed.
    let result =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0_u32) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_effect_is_named() {
        let effect = |landlock| Effect { no_new_privileges: true, no_capabilities: true, landlock };
        let all = "privileges, capabilities, files, TCP, signals (Landlock ABI 7)";
        assert_eq!(effect(7).to_string(), all);
        let some = "privileges, capabilities, files (Landlock ABI 3)";
        assert_eq!(effect(3).to_string(), some);
        assert_eq!(effect(0).to_string(), "privileges, capabilities (Landlock ABI 0)");
        assert_eq!(Effect::default().to_string(), "nothing (Landlock ABI 0)");
    }

    #[test]
    fn nothing_is_given_up_unless_asked() {
        let of = Confine { read: &[], append: &[PathBuf::from("/no/such/folder")] };
        assert_eq!(confine(&of, Sandbox::Off).unwrap(), Effect::default());
        assert!(std::fs::read("/proc/self/stat").is_ok());
    }
}
