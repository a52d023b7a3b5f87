//! What can go wrong with a workload, as values with exit codes.

use core::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a workload could not be made, read or inspected.
#[derive(Debug)]
pub enum Fault {
    /// Bad usage: every problem, one sentence each.
    Usage(Vec<String>),
    /// The file system refused.
    Io {
        /// What was touched.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// An input of the command line cannot be read.
    Input {
        /// Path of the input.
        path: PathBuf,
        /// Answer of the file system.
        source: io::Error,
    },
    /// A file that is not in its format.
    Format {
        /// Which file, or `-` for a stream without a name.
        path: PathBuf,
        /// Line, from 1; 0 when no line is to blame.
        line: u64,
        /// What is wrong there.
        what: String,
    },
    /// A file set that is not what it claims to be.
    Damaged {
        /// Files that differ.
        files: u64,
        /// The first of them and what is wrong with it.
        first: String,
    },
    /// Parts of a directory that cannot be read, a line for each; the work is done without them.
    Unread(Vec<String>),
    /// The caller asked to stop; what was half made is removed.
    Stopped,
}

impl Fault {
    /// Exit code of the command line: 2 for bad usage or input, 1 for work that failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Input { .. } | Self::Format { .. } => 2,
            Self::Io { .. } | Self::Damaged { .. } | Self::Unread(_) | Self::Stopped => 1,
        }
    }

    /// One problem of usage.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::Usage(vec![what.into()])
    }

    /// Fails with these problems of usage, if there are any.
    pub(crate) fn if_any(problems: Vec<String>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self::Usage(problems)) }
    }

    /// A line that is not in its format.
    pub(crate) fn format(path: &Path, line: u64, what: impl Into<String>) -> Self {
        Self::Format { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(lines) | Self::Unread(lines) => f.write_str(&lines.join("\n")),
            Self::Io { path, source } | Self::Input { path, source } => {
                write!(f, "{}: {source}", path.display())
            }
            Self::Format { path, line: 0, what } => write!(f, "{}: {what}", path.display()),
            Self::Format { path, line, what } => write!(f, "{}:{line}: {what}", path.display()),
            Self::Damaged { files, first } => {
                write!(f, "{files} files are not what they should be; the first: {first}")
            }
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for Fault {}

/// Names the path in an I/O error.
pub(crate) trait At<T> {
    /// The same result, with the path that it is about.
    fn at(self, path: &Path) -> Result<T, Fault>;
    /// The same for an input of the command line.
    fn input(self, path: &Path) -> Result<T, Fault>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T, Fault> {
        self.map_err(|source| Fault::Io { path: path.to_owned(), source })
    }

    fn input(self, path: &Path) -> Result<T, Fault> {
        self.map_err(|source| Fault::Input { path: path.to_owned(), source })
    }
}

/// How far a long piece of work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done, for people: "files", "requests", "lines".
    pub what: &'static str,
    /// Done so far.
    pub done: u64,
    /// Of how many; 0 when nobody knows.
    pub total: u64,
}

/// Who watches a long piece of work: told now and then, and able to end it.
///
/// A watcher answers `Break` to stop; the work then removes what it half made and returns
/// [`Fault::Stopped`].
pub type Watch<'a> = &'a dyn Fn(Progress) -> core::ops::ControlFlow<()>;

/// Watches nothing and never stops.
pub fn unwatched(_: Progress) -> core::ops::ControlFlow<()> {
    core::ops::ControlFlow::Continue(())
}

/// Tells the watcher, and turns its wish to stop into an error.
pub(crate) fn tell(watch: Watch<'_>, progress: Progress) -> Result<(), Fault> {
    if watch(progress).is_break() { Err(Fault::Stopped) } else { Ok(()) }
}
