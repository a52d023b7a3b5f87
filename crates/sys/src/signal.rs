//! Signals to be read: blocked everywhere, taken from one descriptor, never handled.
use rustix::{io::Errno, process::Signal as Raw};
use std::{
    fmt, io, mem,
    os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
};

/// Signals that a server sends or takes.
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

    /// The kernel's number.
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

/// Signals that would end a process but mean nothing to a server, as do real-time signals. Signals
/// of a terminal or of the process itself are not among them.
const MEANINGLESS: [(i32, &str); 6] = [
    (libc::SIGALRM, "SIGALRM"),
    (libc::SIGVTALRM, "SIGVTALRM"),
    (libc::SIGPROF, "SIGPROF"),
    (libc::SIGIO, "SIGIO"),
    (libc::SIGPWR, "SIGPWR"),
    (libc::SIGSTKFLT, "SIGSTKFLT"),
];

/// A received signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceivedSignal {
    /// A signal that a server may take.
    Known(Signal),
    /// Another signal, by its number.
    Other(i32),
}

impl fmt::Display for ReceivedSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = match self {
            Self::Known(signal) => signal.number(),
            Self::Other(number) => *number,
        };
        match MEANINGLESS.iter().find(|(of, _)| *of == number) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "signal {number}"),
        }
    }
}

/// Signals waiting to be read (signalfd(2)).
///
/// The descriptor is readable while a signal is pending for the reading process: a forked child
/// that inherits it reads its own.
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
        Self::block_set(set_of(signals.iter().map(|signal| signal.number())))
    }

    /// [`Signals::block`], also for all signals that would end the process but mean nothing to it.
    ///
    /// # Errors
    /// As [`Signals::block`].
    pub fn block_with_meaningless(signals: &[Signal]) -> io::Result<Self> {
        let known = signals.iter().map(|signal| signal.number());
        let others = MEANINGLESS.iter().map(|(number, _)| *number);
        Self::block_set(set_of(known.chain(others).chain(libc::SIGRTMIN()..=libc::SIGRTMAX())))
    }

    fn block_set(set: libc::sigset_t) -> io::Result<Self> {
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
        // SAFETY: the call succeeded, so `fd` is a new descriptor without another owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Takes the next pending signal, or `None`. Several of a kind may have become one.
    ///
    /// # Errors
    /// None that the kernel documents.
    pub fn read(&self) -> io::Result<Option<ReceivedSignal>> {
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
        let known = Signal::ALL.into_iter().find(|signal| signal.number() == number);
        Ok(Some(known.map_or(ReceivedSignal::Other(number), ReceivedSignal::Known)))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Turns writing to a closed connection, and beyond a limit on the size of files, into an error: by
/// default both end the process. `sendfile` has no flag for the first, and logs may grow.
pub fn ignore_failed_writes() {
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        // SAFETY: SIG_IGN is a valid disposition for both, and no handler of ours is replaced:
        // there is none.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Lets this process wait for its children, whatever its parent did. An ignored `SIGCHLD` stays
/// ignored over exec(3), and the kernel then reaps the children itself (waitpid(2)).
pub fn keep_children() {
    // SAFETY: SIG_DFL is a valid disposition, and no handler of ours is replaced: there is none.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

fn set_of(signals: impl Iterator<Item = i32>) -> libc::sigset_t {
    let mut set = mem::MaybeUninit::uninit();
    // SAFETY: writes one set, and the pointer leads to room for one.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the set is initialised: sigemptyset has just written all of it.
    let mut set = unsafe { set.assume_init() };
    for signal in signals {
        // SAFETY: the set is initialised and the number is a signal's.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    set
}
