//! Signals as something to read: blocked everywhere, taken from one descriptor, never handled.
use rustix::{io::Errno, process::Signal as Raw};
use std::{
    io, mem,
    os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
};

/// The signals that a server sends or takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// `SIGHUP`
    Hangup,
    /// `SIGINT`
    Interrupt,
    /// `SIGQUIT`
    Quit,
    /// `SIGTERM`
    Terminate,
    /// `SIGUSR1`
    User1,
    /// `SIGUSR2`
    User2,
    /// `SIGCHLD`
    Child,
    /// `SIGKILL`, which can be sent but not taken.
    Kill,
}

impl Signal {
    /// All signals.
    pub const ALL: [Self; 8] = [
        Self::Hangup,
        Self::Interrupt,
        Self::Quit,
        Self::Terminate,
        Self::User1,
        Self::User2,
        Self::Child,
        Self::Kill,
    ];

    /// The number that the kernel uses.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.raw().as_raw()
    }

    pub(crate) const fn raw(self) -> Raw {
        match self {
            Self::Hangup => Raw::HUP,
            Self::Interrupt => Raw::INT,
            Self::Quit => Raw::QUIT,
            Self::Terminate => Raw::TERM,
            Self::User1 => Raw::USR1,
            Self::User2 => Raw::USR2,
            Self::Child => Raw::CHILD,
            Self::Kill => Raw::KILL,
        }
    }
}

/// Signals waiting to be read (signalfd(2)).
///
/// Its descriptor is readable while one is pending for the process that reads: a forked child that
/// inherits it reads its own.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// Blocks these signals in this thread and all that it starts or forks from now on, so that
    /// they wait to be read. Call it before the first thread or fork. They stay blocked when the
    /// value is dropped.
    ///
    /// # Errors
    /// No descriptors or memory left.
    pub fn block(signals: &[Signal]) -> io::Result<Self> {
        let set = set_of(signals);
        // SAFETY: `set` is an initialised set, live across the call; the old mask is not asked for.
        let errno =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
        if errno != 0 {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
        // SAFETY: `set` is an initialised set, live across the call; -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &raw const set, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call succeeded, so `fd` is a new descriptor that nobody else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next pending signal, or `None`. Several of a kind may have become one.
    ///
    /// # Errors
    /// None that the kernel documents.
    pub fn read(&self) -> io::Result<Option<Signal>> {
        let mut record = [0; size_of::<libc::signalfd_siginfo>()];
        loop {
            match rustix::io::read(&self.0, &mut record) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
        // `ssi_signo` is the record's first member.
        let [a, b, c, d, ..] = record;
        let number = i32::from_ne_bytes([a, b, c, d]);
        Ok(Signal::ALL.into_iter().find(|signal| signal.number() == number))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Makes writing to a closed connection an error instead of the end of the process: `sendfile` has
/// no flag for that.
pub fn ignore_broken_pipes() {
    // SAFETY: SIG_IGN is a valid disposition for SIGPIPE, and no handler of ours is replaced: there
    // is none.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

fn set_of(signals: &[Signal]) -> libc::sigset_t {
    let mut set = mem::MaybeUninit::uninit();
    // SAFETY: writes one set, and the pointer leads to room for one.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the set is initialised: sigemptyset has just written all of it.
    let mut set = unsafe { set.assume_init() };
    for signal in signals {
        // SAFETY: the set is initialised and the number is a signal's.
        unsafe { libc::sigaddset(&raw mut set, signal.number()) };
    }
    set
}
