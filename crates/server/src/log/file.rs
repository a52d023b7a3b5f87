//! Destinations of lines: files and standard error, opened for appending, written in whole lines.
use super::format::{LineLimits, PIPE_WRITE_BYTES_MAX};
pub use regatta_sys::guarded::Owner;
use regatta_sys::{
    guarded::{Absent, Spot},
    write_now,
};
use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Seek as _, Write},
    mem,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::fs::OpenOptionsExt,
    },
    path::{Path, PathBuf},
    process,
};

/// Destination of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogDestination {
    /// No log.
    Off,
    /// Standard error, as it was at start.
    Stderr,
    /// A file, made if it does not exist; also a pipe with a reader.
    Path(PathBuf),
}

impl From<&str> for LogDestination {
    /// Reads the value of `log.access` or `log.error`: `off`, `-`, or a path.
    fn from(text: &str) -> Self {
        match text {
            "off" => Self::Off,
            "-" => Self::Stderr,
            path => Self::Path(path.into()),
        }
    }
}

impl fmt::Display for LogDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Stderr => f.write_str("standard error"),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Fault of a log that cannot be used.
#[derive(Debug)]
pub struct LogFault {
    /// Option that named the log, such as `log.access`.
    pub option: &'static str,
    /// Configured destination.
    pub destination: LogDestination,
    /// Error of the system.
    pub fault: io::Error,
}

impl fmt::Display for LogFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { option, destination, fault } = self;
        write!(f, "{option}: cannot open {destination} for appending: {fault}; ")?;
        f.write_str(match fault.raw_os_error() {
            Some(libc::ENXIO) => "it is a pipe without a reader: start the reader first",
            Some(libc::ENOENT) => "its directory must exist",
            Some(libc::EACCES | libc::EPERM) => {
                "the server's user must be allowed to search its directory and to write to it"
            }
            Some(libc::EISDIR) => "name a file in it",
            Some(_) => "name a file that can be written to",
            None => "name a file of the server's own, or - for standard error",
        })
    }
}

impl std::error::Error for LogFault {}

/// Open log, which belongs to the process that opened it. A forked process neither writes to a file
/// that was opened by its path nor closes anything.
#[derive(Debug)]
pub struct LogFile {
    /// `Some` until the drop.
    file: Option<File>,
    kind: Kind,
    /// Process that opened the log.
    opener: u32,
}

impl Drop for LogFile {
    fn drop(&mut self) {
        if !self.is_own() {
            // The number may be that of another file by now.
            mem::forget(self.file.take());
        }
    }
}

impl AsFd for LogFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file().as_fd()
    }
}

/// Kind of the file that a log is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A file, which takes everything.
    Regular,
    /// A file that shares its offset with the process that passed it.
    Given,
    /// A pipe, a terminal, another device: opened so that it does not wait.
    Stream,
    /// A stream shared with the process that passed it, such as the socket from systemd. So each
    /// write must request not to wait.
    Shared,
}

/// Stream for writes that do not wait.
struct Unwaiting<'a>(BorrowedFd<'a>);

impl Write for Unwaiting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_now(self.0, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Progress of a write.
#[derive(Debug)]
pub(super) struct Written {
    /// Bytes written.
    pub(super) bytes: usize,
    /// Calls made.
    pub(super) calls: u64,
    /// Fault that ended the write early.
    pub(super) fault: Option<io::Error>,
}

impl LogFile {
    /// Opens a destination; `None` if it is [`Destination::Off`]. A new file is given to the owner,
    /// if there is one; that takes root.
    pub(super) fn open(
        destination: &LogDestination,
        owner: Option<Owner>,
    ) -> io::Result<Option<Self>> {
        match destination {
            LogDestination::Off => Ok(None),
            LogDestination::Stderr => {
                Self::given(io::stderr().as_fd().try_clone_to_owned()?.into()).map(Some)
            }
            LogDestination::Path(path) => {
                Self::opened(Spot::find(path)?.append(owner, Absent::Make)?).map(Some)
            }
        }
    }

    /// Wraps a file that was opened by a path, for appending.
    pub(super) fn opened(file: File) -> io::Result<Self> {
        let kind = if file.metadata()?.is_file() { Kind::Regular } else { Kind::Stream };
        Ok(Self::new(file, kind))
    }

    /// Wraps an inherited file, such as standard error, so that a reader that does not read cannot
    /// stop a worker.
    pub(super) fn given(shared: File) -> io::Result<Self> {
        let kind = shared.metadata()?.file_type();
        if kind.is_file() {
            // It must stay shared: writers with an older offset would overwrite appended lines.
            return Ok(Self::new(shared, Kind::Given));
        }
        // O_NONBLOCK on the descriptor would show in every process that shares it. A reopened one
        // is ours alone. A socket cannot be reopened, nor another user's file: a terminal after
        // `su`.
        let mut options = OpenOptions::new();
        options.append(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        Ok(match options.open(format!("/proc/self/fd/{}", shared.as_raw_fd())) {
            Ok(own) => Self::new(own, Kind::Stream),
            Err(_) => Self::new(shared, Kind::Shared),
        })
    }

    fn new(file: File, kind: Kind) -> Self {
        Self { file: Some(file), kind, opener: process::id() }
    }

    fn file(&self) -> &File {
        self.file.as_ref().expect("it is there until the end")
    }

    /// Whether this process opened the log.
    pub(super) fn is_own(&self) -> bool {
        self.opener == process::id()
    }

    /// Descriptor, if this process opened the log.
    pub(super) fn own(&self) -> Option<BorrowedFd<'_>> {
        self.is_own().then(|| self.as_fd())
    }

    /// Limits of a line.
    pub(super) fn limits(&self) -> LineLimits {
        match self.kind {
            Kind::Regular | Kind::Given => LineLimits::FILE,
            Kind::Stream | Kind::Shared => LineLimits::PIPE,
        }
    }

    /// Writes lines: to a file with one call, to a pipe with as few as keep lines whole.
    pub(super) fn write(&self, lines: &[u8]) -> Written {
        let mut file = self.file();
        match self.kind {
            Kind::Regular | Kind::Given => write_lines(&mut file, lines, usize::MAX),
            Kind::Stream => write_lines(&mut file, lines, PIPE_WRITE_BYTES_MAX),
            Kind::Shared => write_lines(&mut Unwaiting(file.as_fd()), lines, PIPE_WRITE_BYTES_MAX),
        }
    }

    /// Cuts this many bytes off the end of the last write to a regular file, unless other writers
    /// have appended since. False if they stay.
    pub(super) fn take_back(&self, bytes: u64) -> bool {
        let mut file = self.file();
        // The offset of an inherited file does not show which process has written. It would stay,
        // and the next write would leave a hole.
        if !matches!(self.kind, Kind::Regular) {
            return false;
        }
        let (Ok(end), Ok(facts)) = (file.stream_position(), file.metadata()) else { return false };
        end == facts.len() && end >= bytes && file.set_len(end - bytes).is_ok()
    }
}

/// Opens a log, and makes it if it is missing; `None` if it is no file. A new file is given to the
/// owner, if there is one.
pub(crate) fn make(destination: &LogDestination, owner: Option<Owner>) -> io::Result<Option<File>> {
    match destination {
        LogDestination::Path(path) => Spot::find(path)?.append(owner, Absent::Make).map(Some),
        LogDestination::Off | LogDestination::Stderr => Ok(None),
    }
}

/// Tests whether a log, which may be `owner`'s, can be opened, and makes none.
pub(crate) fn try_opening(path: &Path, owner: Option<Owner>) -> io::Result<()> {
    match Spot::find(path)?.append(owner, Absent::Fail) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            regatta_sys::may_make_files(path.parent().unwrap_or(Path::new("/")))
        }
        // Its reader may start later.
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(()),
        tried => tried.map(drop),
    }
}

/// Writes lines in pieces of at most `bytes_max` that end at a line end, unless a line is longer.
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

/// Longest prefix of whole lines within `bytes_max`, or the first line if that is longer.
fn piece(lines: &[u8], bytes_max: usize) -> &[u8] {
    if lines.len() <= bytes_max {
        return lines;
    }
    let end = lines[..bytes_max].iter().rposition(|&byte| byte == b'\n');
    let end = end.or_else(|| lines.iter().position(|&byte| byte == b'\n'));
    end.map_or(lines, |end| &lines[..=end])
}
