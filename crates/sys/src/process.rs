//! Workers as processes: forked by a master that has one thread, and never outliving it.
pub use crate::user::{User, UserError, is_unmapped, serve_as, set_user};

use crate::{exec::forget_inherited, signal::Signal};
use rustix::{
    io::Errno,
    process::{
        Pid, PidfdFlags, WaitId, WaitIdOptions, WaitIdStatus, WaitOptions, getppid, kill_process,
        kill_process_group, pidfd_open, pidfd_send_signal, set_parent_process_death_signal,
        setpgid, waitid, waitpid,
    },
};
use std::{
    fmt, fs,
    io::{self, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    process,
    time::Duration,
};

/// Exit code of a worker that the system did not let start (`EX_OSERR`, sysexits.h).
pub const EXIT_UNSTARTED: i32 = 71;

/// True if there is a process of this number, or the system does not say.
#[must_use]
pub fn exists(pid: u32) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap_or(true)
}

/// A worker process. Dropping it neither ends nor reaps the process.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    fd: OwnedFd,
}

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// Exited with this code; 0 is success.
    Code(i32),
    /// Killed by the signal with this number.
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal(signal) => write!(f, "was killed by signal {signal}"),
        }
    }
}

impl Child {
    /// Adopts a child that an earlier program of this process forked: executing another program
    /// does not change its parent. `None` if `pid` is no process number.
    #[must_use]
    pub fn adopt(pid: u32, fd: OwnedFd) -> Option<Self> {
        Some(Self { pid: Pid::from_raw(i32::try_from(pid).ok()?)?, fd })
    }

    /// The process number.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Sends a signal to this process, and never to another that got its number.
    ///
    /// # Errors
    /// The process has been reaped, or has become another user's.
    pub fn kill(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.fd, signal.raw())?)
    }

    /// True if the process has been reaped, so that nothing of it is left.
    #[must_use]
    pub fn is_reaped(&self) -> bool {
        // SAFETY: signal 0 is not sent, no details are pointed to, and the descriptor is open.
        let result = unsafe {
            let (fd, none) = (self.fd.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
            libc::syscall(libc::SYS_pidfd_send_signal, fd, 0, none, 0)
        };
        result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
    }

    /// Kills the process and all others of its group, if it [leads](lead_group) one. Call it before
    /// the process is reaped: until then no other group has its number.
    ///
    /// # Errors
    /// The process leads no group, or the group has become another user's.
    pub fn kill_group(&self) -> io::Result<()> {
        Ok(kill_process_group(self.pid, Signal::Kill.raw())?)
    }

    /// Waits until the process has ended, and reaps it.
    ///
    /// # Errors
    /// It has been reaped already, or is not this process's child.
    pub fn wait(&self) -> io::Result<Exit> {
        self.reap(WaitIdOptions::EXITED)?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// Reaps the process if it has ended.
    ///
    /// # Errors
    /// As [`Child::wait`].
    pub fn try_wait(&self) -> io::Result<Option<Exit>> {
        self.reap(WaitIdOptions::EXITED | WaitIdOptions::NOHANG)
    }

    /// True if a signal, and not a debugger, has stopped the process. Opens no file of `/proc`.
    ///
    /// # Errors
    /// As [`Child::wait`].
    pub fn is_stopped(&self) -> io::Result<bool> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(self.status(options)?.is_some_and(|status| status.stopped()))
    }

    /// Processor time that all threads of the process have used. Opens no file of `/proc`.
    ///
    /// # Errors
    /// It has been reaped.
    pub fn busy(&self) -> io::Result<Duration> {
        let mut clock = libc::CLOCK_MONOTONIC;
        // SAFETY: the C library writes one clock to `clock`, which lives across the call.
        let errno = unsafe { libc::clock_getcpuclockid(self.pid.as_raw_pid(), &raw mut clock) };
        if errno != 0 {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let mut busy = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes one `timespec` to `busy`, which lives across the call.
        if unsafe { libc::clock_gettime(clock, &raw mut busy) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Duration::new(busy.tv_sec.unsigned_abs(), u32::try_from(busy.tv_nsec).unwrap_or(0)))
    }

    fn reap(&self, options: WaitIdOptions) -> io::Result<Option<Exit>> {
        Ok(self.status(options)?.and_then(|status| {
            let signal = status.terminating_signal().map(Exit::Signal);
            status.exit_status().map(Exit::Code).or(signal)
        }))
    }

    fn status(&self, options: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
        loop {
            match waitid(WaitId::PidFd(self.fd.as_fd()), options) {
                Err(Errno::INTR) => {}
                status => break Ok(status?),
            }
        }
    }
}

/// The descriptor is readable once the process has ended (pidfd).
impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sends a signal to whichever process has this number now.
///
/// # Errors
/// The process does not exist, or is another user's.
pub fn send(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
    Ok(kill_process(pid, signal.raw())?)
}

/// Has this thread run only while the others of the machine leave time, as far as the scheduler
/// knows (setpriority(2)).
///
/// # Errors
/// Refused.
pub fn lower_priority() -> io::Result<()> {
    const LEAST: i32 = 19;
    Ok(rustix::process::setpriority_process(None, LEAST)?)
}

/// Makes this process the leader of a new group. The processes that it starts join it, and
/// [`Child::kill_group`] ends all of them.
///
/// # Errors
/// The process leads a session.
pub fn lead_group() -> io::Result<()> {
    Ok(setpgid(None, None)?)
}

/// Forks a worker that runs `work` and exits with the code that it returns.
///
/// The worker keeps standard input, output and error and the descriptors in `keep`. All others are
/// closed first: a fork inherits them whatever their close-on-exec flag says, and a socket that a
/// sibling keeps open never comes to its end. So every descriptor that `work` reaches must be in
/// `keep`. The worker is killed when this process ends. It exits without unwinding or running
/// destructors, and a panic aborts it. Blocked signals stay blocked.
///
/// Create epoll instances, rings and timers inside `work`: they malfunction when shared.
///
/// # Errors
/// No processes, descriptors or memory left.
///
/// # Panics
/// If this process has more than one thread: the child would inherit the locks that the others
/// hold, and could never release them.
pub fn fork_worker<K: AsRawFd>(keep: &[K], work: impl FnOnce() -> i32) -> io::Result<Child> {
    check_single_thread()?;
    let parent = rustix::process::getpid();
    // SAFETY: the child may do anything that this process may, because no other thread exists whose
    // locks or half-finished changes it could inherit: asserted above.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = run(parent, || close_others(keep), work);
        // The parent's exit handlers must not run here, so this is not `exit`.
        end(code);
    }
    child(pid.into())
}

/// [`fork_worker`] with one table of descriptors for parent and child: what either opens or closes
/// is open or closed for both. Nothing is closed when the worker ends: see [`crate::crew`].
///
/// The worker can put any file under any number of the parent's, including the new [`Child`]'s. So
/// the parent must not be allowed to do what the worker is not.
///
/// `work` is [`Copy`], so that it owns no descriptor. Both processes would close one, the second
/// time perhaps under a number that has another owner by then.
///
/// # Errors
/// As [`fork_worker`].
///
/// # Panics
/// As [`fork_worker`].
pub fn clone_worker(work: impl FnOnce() -> i32 + Copy) -> io::Result<Child> {
    check_single_thread()?;
    let parent = rustix::process::getpid();
    let flags = libc::c_long::from(libc::CLONE_FILES | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and a new stack this is fork(2) as far as memory is concerned, and
    // no other thread exists: asserted above. The C library does not notice, so its number of the
    // child's thread is the parent's: nothing that the child does asks it.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if pid == 0 {
        let code = run(parent, || Ok(()), work);
        end(code);
    }
    child(pid)
}

/// Checks that a fork copies all threads of this process, and flushes its output.
fn check_single_thread() -> io::Result<()> {
    let threads = threads()?;
    assert_eq!(threads, 1, "fork with {threads} threads");
    // Buffered output would otherwise be printed twice. A failure means that it has no reader.
    let _ = io::stdout().flush();
    Ok(())
}

fn child(pid: libc::c_long) -> io::Result<Child> {
    let pid = i32::try_from(pid.max(0)).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(io::Error::last_os_error)?;
    // The child has not been reaped, so the number is still its own.
    let fd = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| {
        // No code will ever wait for it.
        let _ = kill_process(pid, Signal::Kill.raw());
        while matches!(waitpid(Some(pid), WaitOptions::empty()), Err(Errno::INTR)) {}
    })?;
    Ok(Child { pid, fd })
}

/// Ends this process with this code: no thread runs any more.
pub fn end(code: i32) -> ! {
    // SAFETY: takes any code and no memory, and does not return to its caller.
    unsafe { libc::_exit(code) }
}

/// Closes all descriptors but standard input, output, error, and those in `keep`.
///
/// # Errors
/// The kernel has no close_range(2): Linux before 5.9.
fn close_others(keep: &[impl AsRawFd]) -> io::Result<()> {
    let mut keep: Vec<_> = keep.iter().map(|fd| fd.as_raw_fd().unsigned_abs()).collect();
    keep.sort_unstable();
    let mut first = libc::STDERR_FILENO.unsigned_abs() + 1;
    for fd in keep {
        if first < fd {
            close_range(first, fd - 1)?;
        }
        first = first.max(fd + 1);
    }
    close_range(first, u32::MAX)
}

fn close_range(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: three integers, no memory. The owners of the descriptors never run again: this is a
    // new process that exits without destructors, and what it still uses is kept by the contract of
    // `fork_worker`.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSYS) => Err(io::Error::other("close_range(2): it takes Linux 5.9 or later")),
        _ => Err(error),
    }
}

/// Child's side of a fork.
fn run(parent: Pid, prepare: impl FnOnce() -> io::Result<()>, work: impl FnOnce() -> i32) -> i32 {
    let guard = AbortOnUnwind;
    forget_inherited();
    let ready = die_with(parent).and_then(|()| prepare());
    let code = match ready {
        Ok(()) => work(),
        Err(error) => {
            // A missing reader is no reason to panic.
            let id = process::id();
            let _ = writeln!(io::stderr(), "regatta: worker {id} cannot start: {error}");
            EXIT_UNSTARTED
        }
    };
    // Failing to print is no reason to exit differently.
    let _ = io::stdout().flush();
    std::mem::forget(guard);
    code
}

/// Makes the kernel kill this process when its parent ends. Fails if it has ended already.
fn die_with(parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::Kill.raw()))?;
    if getppid() == Some(parent) {
        Ok(())
    } else {
        Err(io::Error::other("the master is gone already"))
    }
}

/// True if two processes have one table of descriptors (kcmp(2)).
///
/// # Errors
/// A process has ended or may not be traced by this one, or the kernel was built without the call.
pub fn share_descriptors(one: u32, other: u32) -> io::Result<bool> {
    /// `KCMP_FILES` of linux/kcmp.h.
    const FILES: libc::c_int = 2;
    // SAFETY: takes five integers and no memory, so nothing has to hold.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, other, FILES, 0, 0) };
    if order < 0 { Err(io::Error::last_os_error()) } else { Ok(order == 0) }
}

/// User number of this process.
#[must_use]
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Number of threads of this process.
///
/// # Errors
/// `/proc` is not mounted.
pub fn threads() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

/// Guard: a panic in the child must not unwind into the frames of its parent.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        process::abort();
    }
}
