//! Outside interference with our system calls: a container's filter, a lease on a file. For tests.
use std::{
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd},
};

/// `BPF_LD | BPF_W | BPF_ABS`: load a word of the call's data.
const LOAD: u16 = 0x20;
/// `BPF_JMP | BPF_JEQ | BPF_K`: skip a number of steps, depending on whether the word is this.
const COMPARE: u16 = 0x15;
/// `BPF_RET | BPF_K`: return the verdict.
const JUDGE: u16 = 0x06;
/// Offset of the call's number (`struct seccomp_data`).
const NUMBER_AT: u32 = 0;
/// Command that sets the signal for a lease to be broken (fcntl(2)).
const F_SETSIG: libc::c_int = 10;

/// A system call.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// openat2(2)
    Openat2,
    /// `pidfd_open(2)`
    PidfdOpen,
    /// setgroups(2)
    Setgroups,
    /// `io_uring_setup(2)`
    IoUringSetup,
}

/// Makes a call fail with `errno` for good, in this thread and in all that it starts (seccomp(2)).
/// Else only the privileges of set-user-ID programs change.
///
/// # Errors
/// The kernel has no such filters.
pub fn deny(call: Call, errno: u16) -> io::Result<()> {
    let number = match call {
        Call::Openat2 => libc::SYS_openat2,
        Call::PidfdOpen => libc::SYS_pidfd_open,
        Call::Setgroups => libc::SYS_setgroups,
        Call::IoUringSetup => libc::SYS_io_uring_setup,
    };
    let number = u32::try_from(number).expect("numbers of calls are small");
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(LOAD, 0, 0, NUMBER_AT),
        step(COMPARE, 0, 1, number),
        step(JUDGE, 0, 0, libc::SECCOMP_RET_ERRNO | u32::from(errno)),
        step(JUDGE, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: steps.as_mut_ptr() };
    let (yes, none): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: takes integers and touches no memory of ours.
    done(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, yes, none, none, none) })?;
    let filter = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
    // SAFETY: the kernel copies the program, which is four steps long and lives to the end of the
    // call.
    done(unsafe { libc::prctl(libc::PR_SET_SECCOMP, filter, &raw const program) })
}

/// Takes a lease on a file for writing, as Samba does for its clients: until it is closed no other
/// process opens it (`F_SETLEASE`, fcntl(2)).
///
/// # Errors
/// The file is open elsewhere, or is not ours and we may not take leases.
pub fn lease(file: &File) -> io::Result<()> {
    let fd = file.as_fd().as_raw_fd();
    // An attempt to open it makes the kernel send a signal: SIGURG ends no process.
    // SAFETY: takes integers and touches no memory of ours.
    done(unsafe { libc::fcntl(fd, F_SETSIG, libc::SIGURG) })?;
    // SAFETY: takes integers and touches no memory of ours.
    done(unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) })
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
