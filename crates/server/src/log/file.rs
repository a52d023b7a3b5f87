//! Where lines go: files and standard error, opened for appending, written in whole lines.
use super::format::Limits;
use regatta_sys::write_now;
use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::OpenOptionsExt,
    },
    path::{Path, PathBuf},
    process,
    sync::Arc,
};

/// The longest write to a pipe that is taken whole or not at all (`PIPE_BUF`, `pipe(7)`).
pub(super) const PIPE_WRITE_BYTES_MAX: usize = 4096;

/// Log files are for their owner and group.
const MODE: u32 = 0o640;

/// Where a log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Nowhere.
    Off,
    /// Standard error, as it was at start.
    Stderr,
    /// A file, made if it does not exist; also a pipe that someone reads.
    Path(PathBuf),
}

impl From<&str> for Destination {
    /// Reads the value of `log.access` or `log.error`: `off`, `-`, or a path.
    fn from(text: &str) -> Self {
        match text {
            "off" => Self::Off,
            "-" => Self::Stderr,
            path => Self::Path(path.into()),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Stderr => f.write_str("standard error"),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Whom a log file is given to, so that workers which are no longer root can open it anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
}

/// Why a log cannot be used.
#[derive(Debug)]
pub struct LogFault {
    /// Which option named it, such as `log.access`.
    pub option: &'static str,
    /// Where it was to go.
    pub destination: Destination,
    /// What the system said.
    pub fault: io::Error,
}

impl fmt::Display for LogFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { option, destination, fault } = self;
        write!(f, "{option}: cannot open {destination} for appending: {fault}")?;
        match fault.raw_os_error() {
            Some(libc::ENXIO) => f.write_str("; it is a pipe that nobody reads"),
            Some(libc::ENOENT) => f.write_str("; its directory must exist"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for LogFault {}

/// An open log. A clone is the same open file.
#[derive(Clone, Debug)]
pub(super) struct LogFile {
    file: Arc<File>,
    kind: Kind,
    /// The process that opened it.
    opener: u32,
}

/// What a log is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A file, which takes everything.
    Regular,
    /// A pipe, a terminal, another device: as it was opened it does not wait.
    Stream,
    /// A stream that is shared with whoever gave it, as the socket from systemd, so each write must
    /// say itself that it does not wait.
    Shared,
}

/// A stream that is written to without waiting.
struct Unwaiting<'a>(BorrowedFd<'a>);

impl Write for Unwaiting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_now(self.0, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How far a write came.
#[derive(Debug)]
pub(super) struct Written {
    /// Bytes taken.
    pub(super) bytes: usize,
    /// Calls made.
    pub(super) calls: u64,
    /// Why it went no further, if it did not go to the end.
    pub(super) fault: Option<io::Error>,
}

impl LogFile {
    /// Opens a destination; `None` if it is [`Destination::Off`]. With an owner, a new file is
    /// given to them; that takes root.
    pub(super) fn open(
        destination: &Destination,
        owner: Option<Owner>,
    ) -> io::Result<Option<Self>> {
        let (file, kind) = match destination {
            Destination::Off => return Ok(None),
            Destination::Stderr => open_stderr()?,
            Destination::Path(path) => {
                let file = open_path(path, owner)?;
                let kind = if file.metadata()?.is_file() { Kind::Regular } else { Kind::Stream };
                (file, kind)
            }
        };
        Ok(Some(Self { file: Arc::new(file), kind, opener: process::id() }))
    }

    /// The descriptor: what a fork must not close.
    pub(super) fn shared(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// The descriptor, if this process opened it.
    pub(super) fn own(&self) -> Option<BorrowedFd<'_>> {
        (self.opener == process::id()).then(|| self.file.as_fd())
    }

    /// How long lines may be.
    pub(super) fn limits(&self) -> Limits {
        match self.kind {
            Kind::Regular => Limits::FILE,
            Kind::Stream | Kind::Shared => Limits::PIPE,
        }
    }

    /// Writes lines: to a file with one call, to a pipe with as few as keep lines whole.
    pub(super) fn write(&mut self, lines: &[u8]) -> Written {
        match self.kind {
            Kind::Regular => write_lines(&mut &*self.file, lines, usize::MAX),
            Kind::Stream => write_lines(&mut &*self.file, lines, PIPE_WRITE_BYTES_MAX),
            Kind::Shared => {
                write_lines(&mut Unwaiting(self.file.as_fd()), lines, PIPE_WRITE_BYTES_MAX)
            }
        }
    }
}

/// Opens a file for appending. Only what was made here is given to the owner: what was there, under
/// this name or where a symbolic link leads, may be a device or somebody's file.
fn open_path(path: &Path, owner: Option<Owner>) -> io::Result<File> {
    // Without O_NONBLOCK, opening a pipe that nobody reads would wait.
    let mut options = OpenOptions::new();
    options.append(true).mode(MODE).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let Some(owner) = owner else { return options.create(true).open(path) };
    match options.clone().create_new(true).open(path) {
        Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => options.open(path),
        made => {
            let made = made?;
            std::os::unix::fs::fchown(&made, Some(owner.uid), Some(owner.gid))?;
            Ok(made)
        }
    }
}

/// Standard error, in such a way that a reader who does not read cannot stop a worker.
fn open_stderr() -> io::Result<(File, Kind)> {
    let shared = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let kind = shared.metadata()?.file_type();
    if kind.is_file() {
        // It must stay shared: writers that appended would be overwritten by those that hold an
        // older offset.
        return Ok((shared, Kind::Regular));
    }
    // O_NONBLOCK set on the descriptor would show in every process that shares it; opened anew, it
    // is ours alone. A socket cannot be, nor what belongs to another user: a terminal after `su`.
    let mut options = OpenOptions::new();
    options.append(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    match options.open("/proc/self/fd/2") {
        Ok(own) => Ok((own, Kind::Stream)),
        Err(_) => Ok((shared, Kind::Shared)),
    }
}

/// Writes lines in pieces of at most `bytes_max` that end where a line ends, as far as lines are
/// not longer.
pub(super) fn write_lines(out: &mut impl Write, lines: &[u8], bytes_max: usize) -> Written {
    let mut written = Written { bytes: 0, calls: 0, fault: None };
    while written.bytes < lines.len() {
        let piece = piece(&lines[written.bytes..], bytes_max);
        written.calls += 1;
        match out.write(piece) {
            Ok(0) => {
                written.fault = Some(io::ErrorKind::WriteZero.into());
                break;
            }
            Ok(bytes) => written.bytes += bytes,
            Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
            Err(fault) => {
                written.fault = Some(fault);
                break;
            }
        }
    }
    written
}

/// The longest prefix of whole lines within `bytes_max`, or the first line if that is longer.
fn piece(lines: &[u8], bytes_max: usize) -> &[u8] {
    if lines.len() <= bytes_max {
        return lines;
    }
    let end = lines[..bytes_max].iter().rposition(|&byte| byte == b'\n');
    let end = end.or_else(|| lines.iter().position(|&byte| byte == b'\n'));
    end.map_or(lines, |end| &lines[..=end])
}
