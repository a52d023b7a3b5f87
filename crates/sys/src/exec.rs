//! State that passes from one program to the next, or to another process.
//!
//! * [`exec`] replaces this process by another program, which keeps descriptors and children. The
//!   master calls it for a reload and for an upgrade.
//! * [`take`] makes an inherited descriptor ours: from the image before, or a service manager.
//! * [`sealed`] and [`read_sealed`] carry bytes of any length as a descriptor. The handover, the
//!   reports of trials and scouts, and the rules of new roots use them. [`find_sealed`] finds those
//!   of another process.
use rustix::{
    fs::{Dir, DirEntry, MemfdFlags, Mode, OFlags, SealFlags, open},
    io::{FdFlags, fcntl_setfd},
};
use std::{
    ffi::{CStr, CString, OsString},
    fs::{self, File},
    io::{self, Read, Seek, Write},
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    ptr,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Replaces this process by `program`, with those arguments (the name included) and that
/// environment. `keep` stay open there, under their numbers. Blocked and pending signals stay so,
/// which `std::os::unix::process::CommandExt::exec` does not promise.
///
/// Returns only if it could not: then all is as before.
pub fn exec(
    program: &Path,
    argv: &[OsString],
    env: &[(OsString, OsString)],
    keep: &[BorrowedFd<'_>],
) -> io::Error {
    let set = |flags| keep.iter().try_for_each(|fd| fcntl_setfd(fd, flags));
    let error = match set(FdFlags::empty()) {
        Ok(()) => execute(program, argv, env),
        Err(error) => error.into(),
    };
    // The same call succeeded for each of them before, and nothing else can go wrong.
    let _ = set(FdFlags::CLOEXEC);
    error
}

fn execute(program: &Path, argv: &[OsString], env: &[(OsString, OsString)]) -> io::Error {
    let strings = || -> io::Result<(CString, Vec<CString>, Vec<CString>)> {
        let argv = argv.iter().map(|word| CString::new(word.as_bytes()));
        let env = env
            .iter()
            .map(|(key, value)| CString::new([key.as_bytes(), b"=", value.as_bytes()].concat()));
        let program = CString::new(program.as_os_str().as_bytes())?;
        Ok((program, argv.collect::<Result<_, _>>()?, env.collect::<Result<_, _>>()?))
    };
    let (program, argv, env) = match strings() {
        Ok(strings) => strings,
        Err(error) => return error,
    };
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
    };
    let (argv_pointers, env_pointers) = (pointers(&argv), pointers(&env));
    // SAFETY: each pointer is that of a string which ends with 0 and lives until the end of this
    // function, and each list of them ends with a null pointer.
    unsafe { libc::execve(program.as_ptr(), argv_pointers.as_ptr(), env_pointers.as_ptr()) };
    io::Error::last_os_error()
}

/// Descriptors from the program before this one that are not taken yet.
static INHERITED: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// Runs before `main`, so that no descriptor has an owner yet.
#[used]
// SAFETY: the dynamic loader calls each pointer of this section once, in the only thread. The
// function needs nothing that `main` would set up: it makes system calls and allocates.
#[unsafe(link_section = ".init_array")]
static NOTE_INHERITED: extern "C" fn() = note_inherited;

extern "C" fn note_inherited() {
    // Without /proc nothing counts as inherited, and taking says so.
    let mut open = open_descriptors().unwrap_or_default();
    open.retain(|raw| *raw > libc::STDERR_FILENO);
    *inherited() = open;
}

fn inherited() -> MutexGuard<'static, Vec<RawFd>> {
    INHERITED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The open descriptors of this process.
pub(crate) fn open_descriptors() -> io::Result<Vec<RawFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open("/proc/self/fd", flags, Mode::empty())?;
    let own = directory.as_raw_fd();
    let number = |entry: rustix::io::Result<DirEntry>| {
        let raw = entry.ok()?.file_name().to_str().ok()?.parse().ok()?;
        (raw != own).then_some(raw)
    };
    // The directory has no other descriptor, which would be listed and closed: `Dir::read_from`
    // opens one.
    Ok(Dir::new(directory)?.filter_map(number).collect())
}

/// Forgets what was inherited: in a fork the numbers may be those of others.
pub(crate) fn forget_inherited() {
    inherited().clear();
}

/// Takes over a descriptor that this program has from the image before or from a service manager.
/// It is close-on-exec from now on. Not for a [worker](crate::process::fork_worker).
///
/// # Errors
/// The descriptor does not exist, was not inherited, or has been taken already.
pub fn take(raw: RawFd) -> io::Result<OwnedFd> {
    let mut inherited = inherited();
    let Some(at) = inherited.iter().position(|of| *of == raw) else {
        let why = format!("descriptor {raw} was not inherited, or has been taken already");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    };
    inherited.swap_remove(at);
    // SAFETY: it was open before `main`, so nothing of this program had opened it. It is removed
    // from the list when it gets its owner, here, and a fork has no list.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Ok(fd)
}

/// Creates memory with these bytes that has a descriptor, no name, and cannot be changed.
///
/// # Errors
/// No memory or descriptors left.
pub fn sealed(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(rustix::fs::memfd_create(name, flags)?);
    file.write_all(bytes)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

/// Flags to open a file of another process: a FIFO or terminal of its name must not block this one,
/// or become its terminal.
const FOREIGN_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Finds memory of this name that a process has [`sealed`], and keeps open. `None`: it has none.
///
/// # Errors
/// No such process, or one that this user may not look into.
pub fn find_sealed(pid: u32, name: &str) -> io::Result<Option<OwnedFd>> {
    let link = format!("/memfd:{name} (deleted)");
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let path = entry?.path();
        // The process may close it meanwhile.
        if fs::read_link(&path).is_ok_and(|to| to.as_os_str() == link.as_str())
            && let Ok(found) = open(&path, FOREIGN_FLAGS, Mode::empty())
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Reads what [`sealed`] has made.
///
/// # Errors
/// The memory is longer than that.
pub fn read_sealed(fd: OwnedFd, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut file = File::from(fd);
    // Another holder of the descriptor may have moved its position.
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("it is longer than {bytes_max} bytes")));
    }
    Ok(bytes)
}

/// Sets the name of this process in `/proc/PID/comm`. After executing `/proc/self/exe` it is `exe`.
///
/// # Errors
/// None for a thread and its own name.
pub fn name_process(name: &CStr) -> io::Result<()> {
    Ok(rustix::thread::set_name(name)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use rustix::io::fcntl_getfd;
    use std::{
        env, fs,
        os::fd::AsFd,
        process::{self, Command},
    };

    /// Path of the file that the replaced process keeps open.
    const REPLACED: &str = "REGATTA_TEST_REPLACED";

    /// The process that is replaced; does nothing unless a test started it.
    #[test]
    fn replaced() {
        let Some(path) = env::var_os(REPLACED) else { return };
        let (kept, closed) = (File::create(&path).unwrap(), File::open(&path).unwrap());
        let failed = exec(Path::new("/nowhere"), &[], &[], &[kept.as_fd()]);
        assert_eq!(failed.kind(), io::ErrorKind::NotFound);
        assert!(fcntl_getfd(&kept).unwrap().contains(FdFlags::CLOEXEC), "all is as before");
        let (kept_raw, closed_raw) = (kept.as_raw_fd(), closed.as_raw_fd());
        let script = format!(
            "echo $$ $SAID $PATH_OF_PARENT >>/proc/self/fd/{kept_raw}; \
             test -e /proc/self/fd/{closed_raw} || echo closed >>/proc/self/fd/{kept_raw}"
        );
        let argv = ["sh", "-c", &*script].map(OsString::from);
        let env =
            [("SAID", "kept")].map(|(key, value)| (OsString::from(key), OsString::from(value)));
        let error = exec(Path::new("/bin/sh"), &argv, &env, &[kept.as_fd()]);
        panic!("not replaced: {error}");
    }

    #[test]
    fn another_program_goes_on_with_what_is_kept() {
        let path = env::temp_dir().join(format!("regatta-exec-{}", process::id()));
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "exec::tests::replaced", "--nocapture"])
            .env(REPLACED, &path)
            .env("PATH_OF_PARENT", "not handed on")
            .spawn()
            .unwrap();
        let pid = child.id();
        assert!(child.wait().unwrap().success());
        let said = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(said, format!("{pid} kept\nclosed\n"), "the process is the same");
    }

    #[test]
    fn text_arrives_and_cannot_be_changed() {
        let fd = sealed("regatta-test", b"what was said").unwrap();
        let mut other = File::from(fd.try_clone().unwrap());
        assert!(other.write_all(b"something else").is_err());
        assert_eq!(read_sealed(fd.try_clone().unwrap(), 13).unwrap(), b"what was said");
        assert!(read_sealed(fd, 12).is_err(), "too long");
    }

    /// Variable with the number of the inherited descriptor.
    const GIVEN: &str = "REGATTA_TEST_GIVEN";

    /// The process that inherits; does nothing unless it was started by a test.
    #[test]
    fn inherits() {
        let Some(given) = env::var(GIVEN).ok().and_then(|raw| raw.parse().ok()) else { return };
        for raw in open_descriptors().unwrap() {
            assert!(fs::read_link(format!("/proc/self/fd/{raw}")).is_ok(), "{raw} is not open");
        }
        let taken = take(given).unwrap();
        assert_eq!(taken.as_raw_fd(), given);
        assert!(fcntl_getfd(&taken).unwrap().contains(FdFlags::CLOEXEC));
        assert_eq!(take(given).unwrap_err().kind(), io::ErrorKind::InvalidInput, "once");
    }

    #[test]
    fn what_was_inherited_is_taken_once() {
        let file = File::open("/proc/self/exe").unwrap();
        fcntl_setfd(&file, FdFlags::empty()).unwrap();
        let own = file.as_raw_fd();
        assert_eq!(take(own).unwrap_err().kind(), io::ErrorKind::InvalidInput, "it has an owner");
        let status = Command::new(env::current_exe().unwrap())
            .args(["--exact", "exec::tests::inherits", "--nocapture"])
            .env(GIVEN, own.to_string())
            .status();
        assert!(status.unwrap().success());
        assert_eq!(take(1).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(take(-1).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
